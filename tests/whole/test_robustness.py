"""What users do wrong, and what data can hold: an answer, or a clear error of the instance that it belongs to."""

from __future__ import annotations

import contextlib
import functools
import html.parser
import io
import json
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from acronumba import (
    AcronumbaError,
    DataError,
    InstanceErrors,
    ShapeMismatch,
    TypeMismatch,
    load,
    model,
    pack,
    save,
)
from tests.support import robust_models as models
from tests.support.chosen import one_in
from tests.support.robust_models import bits, case, chain, params, trees

W = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
F32 = np.float32


def failures(call: Callable[[], Any]) -> InstanceErrors:
    with pytest.raises(InstanceErrors) as caught:
        call()
    return caught.value


def line_of(text: str) -> int:
    """Return the line of `robust_models` that has a text."""
    lines = Path(models.__file__).read_text(encoding="utf-8").splitlines()
    (found,) = [k for k, line in enumerate(lines, 1) if text in line]
    return found


# ---- failures of every kind


def plain_error(kind: int) -> Exception:
    with np.errstate(all="ignore"), pytest.raises(Exception) as caught:  # noqa: PT011
        models.failing(case(kind), w=W)
    return caught.value


@pytest.fixture(scope="module")
def caught() -> InstanceErrors:
    """Every kind of failure twice, between instances that do not fail."""
    kinds = [0, *range(1, models.KINDS + 1), 0, *range(1, models.KINDS), 0]
    cases = [case(kind) for kind in kinds]
    with pytest.raises(InstanceErrors) as found:
        models.failing.batch(cases, w=W)
    good = [k for k, kind in enumerate(kinds) if kind == 0]
    alone = bits(models.failing.batch([case(0)], w=W)[0])
    assert sorted(found.value.errors) == [k for k in range(len(kinds)) if k not in good]
    assert all(bits(found.value.results[k]) == alone for k in good)
    assert all(found.value.results[k] is None for k in found.value.errors)
    return found.value


@pytest.mark.parametrize("kind", range(1, models.KINDS))
def test_the_error_is_the_plain_calls_own(kind: int, caught: InstanceErrors) -> None:
    mine, plain = caught.errors[kind], plain_error(kind)
    frame = plain.__traceback__
    lines = []
    while frame is not None:
        lines += [frame.tb_lineno] * (frame.tb_frame.f_code.co_name == "failing")
        frame = frame.tb_next
    assert mine.line == lines[-1]  # type: ignore[attr-defined]
    if isinstance(mine, ShapeMismatch):
        assert isinstance(plain, ValueError)
        assert mine.source.strip().startswith("return") and mine.seen == "`w` is float32[4, 3], `t.x` is float32[3]"
    else:
        assert type(mine) is type(plain) and str(mine) == str(plain)
    if kind == 1:
        assert mine.pair == (1, 7)  # type: ignore[attr-defined]


def test_an_int_of_more_than_64_bits_is_an_error_of_the_batch_alone(caught: InstanceErrors) -> None:
    error = caught.errors[models.KINDS]
    assert type(error) is OverflowError and error.line == line_of("** 62")  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        assert models.failing(case(models.KINDS), w=W) == np.inf


def test_the_group_of_errors(caught: InstanceErrors) -> None:
    assert isinstance(caught, ExceptionGroup) and isinstance(caught, AcronumbaError)
    assert list(caught.errors) == sorted(caught.errors)
    assert len(str(caught).splitlines()) == 12 and "more" in str(caught)
    only = caught.subgroup(models.Mine)
    assert only is not None and len(only.exceptions) == 2


def test_check_agrees_with_the_plain_calls_failures() -> None:
    check = models.failing.check([case(k) for k in range(models.KINDS + 1)], w=W)
    assert check.ok, str(check)
    *alike, overflow = [v.verdict for v in check.verdicts[1:]]
    assert alike == ["equal"] * (models.KINDS - 1) and overflow == "undecided"  # beyond 64 bits there is no plain call


# ---- shapes


def test_shapes_that_clash_only_for_some() -> None:
    xs = [np.ones(n, F32) for n in (3, 4, 3, 2, 0, 3)]
    error = failures(lambda: models.linear.batch(xs, w=W))
    assert list(error.errors) == [1, 3, 4]
    for k, n in ((1, 4), (3, 2), (4, 0)):
        one = error.errors[k]
        assert isinstance(one, ShapeMismatch) and isinstance(one, ValueError)
        assert one.line == line_of("return w @ x") and f"{n}" in one.message and "w @ x" in str(one)
    assert bits(error.results[0]) == bits(error.results[2]) == bits(models.linear.batch(xs[:1], w=W)[0])
    error = failures(lambda: models.linear.batch(xs[1:2], w=W))
    assert list(error.results) == [None]


def test_shapes_that_clash_for_all_are_rejected() -> None:
    with pytest.raises(ShapeMismatch, match="w @ x") as caught:
        models.linear.batch([F32(2)], w=W)
    assert not isinstance(caught.value, InstanceErrors) and caught.value.line == line_of("return w @ x")


@model
def mixed_shapes(x, y):
    return x + y, np.sum(x, axis=0), x.T, np.concatenate([x, x]), np.max(np.abs(x) + 1.0, axis=1)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (1, 3), (3, 1), (5, 2)])
def test_extents_of_0_and_1(shape: tuple[int, int]) -> None:
    def same(mine: Any, plain: Any) -> None:
        assert [(a.shape, a.dtype) for a in mine] == [(b.shape, b.dtype) for b in plain]
        for a, b in zip(mine, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)

    rng = np.random.default_rng(0)
    others = [(2, 3), (0, 1), shape, (1, 0)]
    xs = [rng.standard_normal(s) for s in others]
    ys = [rng.standard_normal((1, s[1])) for s in others]
    trace = mixed_shapes.trace(xs, ys)
    results, errors = trace.results, trace.errors
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if k in errors:
            with pytest.raises(ValueError, match=re.escape(str(errors[k]))):
                mixed_shapes(x, y)
        else:
            same(results[k], mixed_shapes(x, y))


def test_weights_of_extent_0() -> None:
    assert bits(models.linear.batch([np.ones(0, F32)], w=np.ones((4, 0), F32))[0]) == bits(np.zeros(4, F32))
    assert models.linear.batch([np.ones(3, F32)], w=np.ones((0, 3), F32))[0].shape == (0,)
    assert models.linear.batch([np.ones((3, n), F32) for n in (0, 2)], w=W)[0].shape == (4, 0)


HUGE = [10**15, 2**61, 2**62, 2**60 + 1, 3037000500, 2**63 - 1]


@pytest.mark.parametrize("n", [*HUGE, -1])
def test_extents_that_no_memory_has_room_for(n: int) -> None:
    for f in (models.sized, models.summed, models.filled):
        f = f.with_options(memory_limit=1 << 30)
        if n < 0 and f.__name__ == "filled":
            assert f.batch([3, n]) == [3, 0]
            continue
        error = failures(lambda f=f: f.batch([3, n, 2]))
        assert list(error.errors) == [1]
        if n < 0:
            assert type(error.errors[1]) is ValueError and "negative" in str(error.errors[1])
        else:
            assert error.errors[1].code == "ACR704"  # type: ignore[attr-defined]
        assert bits(error.results[0]) == bits(f.batch([3])[0]) and bits(error.results[2]) == bits(f.batch([2])[0])


def test_an_extent_that_overflows_is_not_tried_by_the_plain_call() -> None:
    @model
    def doubled(n: int) -> Any:
        x = np.ones(2)
        for _ in range(n):
            x = np.concatenate([x, x])
        return np.sum(x)

    start = time.perf_counter()
    error = failures(lambda: doubled.with_options(memory_limit=1 << 28).batch([3, 70]))
    assert list(error.errors) == [1] and error.results[0] == 16.0
    assert time.perf_counter() - start < 20


def test_memory_of_all_instances_together_may_be_more_than_the_limit() -> None:
    f = models.sized.with_options(memory_limit=1 << 26, equal=False)
    for count in (40, 3):
        assert [r.shape for r in f.batch([2**20] * count)] == [(2**20,)] * count


# ---- data that do not conform


@dataclass
class Record:
    n: int = 0
    x: float = 0.0
    flag: bool = False
    items: list[int] | None = None
    a: np.ndarray | None = None
    free: object = None  # never read


@model
def record_sum(r: Record):
    total = r.x + r.n
    if r.flag:
        total = total + 1.0
    if r.items is not None:
        for k in r.items:
            total = total + k
    if r.a is not None:
        return np.sum(r.a) + total
    return total


A = np.ones(2)
BAD: dict[str, tuple[Record, str, str]] = {
    "text for an int": (Record(n="1"), ".n", "a str"),  # type: ignore[arg-type]
    "float for an int": (Record(n=1.0), ".n", "a float"),  # type: ignore[arg-type]
    "None for an int": (Record(n=None), ".n", "None"),  # type: ignore[arg-type]
    "an int of 65 bits": (Record(n=2**64), ".n", "64 bits"),
    "text for a float": (Record(x="1"), ".x", "a str"),  # type: ignore[arg-type]
    "complex for a float": (Record(x=1j), ".x", "a complex"),  # type: ignore[arg-type]
    "an int too large for a float": (Record(x=10**400), ".x", "does not fit a float"),
    "an int for a bool": (Record(flag=1), ".flag", "an int"),  # type: ignore[arg-type]
    "text in a list": (Record(items=[1, 2, "3"]), ".items[2]", "a str"),  # type: ignore[list-item]
    "a set for a list": (Record(items={1}), ".items", "a set"),  # type: ignore[arg-type]
    "float16": (Record(a=A.astype(np.float16)), ".a", "float16[2]"),
    "another order of bytes": (Record(a=A.astype(">f8")), ".a", ">f8[2]"),
    "objects": (Record(a=np.array([1, None])), ".a", "object[2]"),
    "a masked array": (Record(a=np.ma.masked_array(A, [1, 0])), ".a", "float64[2]"),
    "a list for an array": (Record(a=[1.0]), ".a", "a list"),  # type: ignore[arg-type]
    "bytes for an object": (b"text", "", "a bytes"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", BAD)
def test_data_that_do_not_conform(name: str) -> None:
    value, path, words = BAD[name]
    good = [Record(n=1, x=0.5, flag=True), Record(items=[1, 2], a=A), Record(n=np.int32(7))]  # type: ignore[arg-type]
    error = failures(lambda: record_sum.batch([good[0], value, good[1], good[2]]))
    (one,) = error.errors.values()
    assert isinstance(one, DataError) and list(error.errors) == [1]
    assert one.instance == 1 and one.path == f"[1]{path}" and words in str(one)
    assert [float(error.results[k]) for k in (0, 2, 3)] == [2.5, 5.0, 7.0]


def test_fields_that_are_never_read_may_hold_anything() -> None:
    loop = Record(n=3)
    loop.free = [loop, {1: "text"}, open, 2**100]
    assert record_sum.batch([loop, Record(n=4, free=np.float16(1))]) == [3.0, 4.0]


def test_numpys_ints_are_ints_where_the_annotation_says_so() -> None:
    records = [Record(n=np.int64(2)), Record(n=np.uint8(3)), Record(n=True)]  # type: ignore[arg-type]
    results = record_sum.batch(records)
    assert results == [2.0, 3.0, 1.0] and all(type(r) is float for r in results)
    error = failures(lambda: record_sum.batch([Record(n=np.uint64(2**63)), Record(n=1)]))  # type: ignore[arg-type]
    assert list(error.errors) == [0] and isinstance(error.errors[0], DataError)


@model
def added(a, b):
    return a + b


def test_dtypes_change_from_batch_to_batch_and_inside_one() -> None:
    one, two = np.arange(3), np.arange(3)[::-1]
    dtypes = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_]
    for dtype in dtypes:
        a, b = one.astype(dtype), two.astype(dtype)
        assert bits(added.batch([a], [b])[0]) == bits(a + b)
    xs = [one.astype(d) for d in (np.float32, np.float64, np.int64)]
    results = added.batch(xs, [two.astype(F32)] * 3)
    assert [bits(r) for r in results] == [bits(x + two.astype(F32)) for x in xs]
    assert bits(added.batch([np.int64(3), np.int32(4)], [1, 2])) == [bits(np.int64(4)), bits(np.int32(6))]
    assert bits(added.batch([one, 2, True], [1, 1, 1])[1:]) == [bits(3), bits(2)]


# ---- shared values


def test_shared_arrays_in_any_layout() -> None:
    xs = [np.ones(3, F32), np.arange(3, dtype=F32)]
    wide = np.random.default_rng(0).standard_normal((8, 6)).astype(F32)
    views = [W, np.asfortranarray(W), W[::-1], wide[::2, ::2], np.broadcast_to(F32(2), (4, 3)), W.copy()[:, ::-1]]
    for w in views:
        results = models.linear.batch(xs, w=w)
        for mine, x in zip(results, xs, strict=True):
            np.testing.assert_allclose(mine, w @ x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("w", "words"),
    [
        (W.astype(np.float16), "float16"),
        (W.astype(">f4"), ">f4"),
        (np.ma.masked_array(W), "MaskedArray"),
        (W.view(np.matrix), "matrix"),
        (W.astype(object), "object"),
    ],
)
def test_shared_arrays_that_are_rejected(w: Any, words: str) -> None:
    for _ in range(2):
        with pytest.raises(TypeMismatch, match=words) as caught:
            models.linear.batch([np.ones(3, F32)], w=w)
        assert caught.value.code == "ACR501"


def test_weights_change_in_place_and_in_shape() -> None:
    xs = trees(6)
    f, p = models.tree_rnn, params()

    def right(p: models.Params) -> None:
        for mine, x in zip(f.batch(xs, p=p), xs, strict=True):
            np.testing.assert_allclose(mine[0], f(x, p=p)[0], rtol=1e-5, atol=1e-6)

    right(p)
    for name in ("embed", "w", "b"):
        getattr(p, name)[...] *= -0.5
        right(p)
        getattr(p, name)[0] += 1
        right(p)
    p.w = p.w.copy()
    right(p)
    for size in (4, 12, models.H):
        right(params(3, h=size))
    right(p)
    before = f.batch(xs, p=p)
    kept = bits(before)
    p.w[...] = 0
    assert bits(before) == kept


def test_a_snapshot_does_not_see_changes() -> None:
    xs, p = trees(4), params()
    snapshot = pack(p)
    want = bits(models.tree_rnn.batch(xs, p=snapshot))
    p.w[...] = 0
    assert bits(models.tree_rnn.batch(xs, p=snapshot)) == want
    packed = pack(xs)
    xs[0].word = 1
    assert bits(models.tree_rnn.batch(packed, p=snapshot)) == want


SCALE = 2.0
TABLE = np.arange(3.0)


@model
def by_globals(x):
    return x * SCALE + TABLE


def test_globals_change_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bits(by_globals.batch([1.0])[0]) == bits(np.arange(3.0) + 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    monkeypatch.setitem(globals(), "TABLE", np.ones(2))
    assert bits(by_globals.batch([1.0])[0]) == bits(np.full(2, 4.0))
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert bits(by_globals.batch([1])[0]) == bits(by_globals(1))
    monkeypatch.setitem(globals(), "TABLE", "text")
    with pytest.raises(AcronumbaError, match="TABLE"):
        by_globals.batch([1.0])
    monkeypatch.delitem(globals(), "TABLE")
    with pytest.raises(AcronumbaError, match="TABLE"):
        by_globals.batch([1.0])


def test_saved_weights_come_back(tmp_path: Path) -> None:
    p, xs = params(), trees(4)
    save(tmp_path / "p.safetensors", p)
    back = load(tmp_path / "p.safetensors", like=params(7))
    assert bits(models.tree_rnn.batch(xs, p=back)) == bits(models.tree_rnn.batch(xs, p=p))
    (tmp_path / "p.safetensors").write_bytes((tmp_path / "p.safetensors").read_bytes()[:100])
    with pytest.raises(Exception, match=r"(?i)header|safetensor|incomplete|metadata"):
        load(tmp_path / "p.safetensors", like=p)


# ---- depth


DEEP = 100_000


@pytest.mark.long
def test_chains_100_000_deep() -> None:
    deep, w = chain(DEEP), np.full(4, 0.01, F32)
    assert models.by_recursion.batch([deep, chain(3)]) == [float(DEEP), 3.0]
    assert models.by_loop.batch([chain(2), deep]) == [2.0, float(DEEP)]
    plain = models.tensor_chain(chain(DEEP // 10), w=w)
    results = models.tensor_chain.batch([chain(DEEP // 10), deep, chain(1)], w=w)
    np.testing.assert_allclose(results[0], plain, rtol=1e-5)
    trace = models.tensor_recursion.with_options(equal=False).trace([deep, chain(2)], w=w)
    assert len(trace.batches) == trace.nodes - 2 and np.isfinite(trace.results[0]).all()
    packed = pack([deep, chain(3)])
    assert models.by_recursion.batch(packed) == [float(DEEP), 3.0]
    assert models.by_recursion.check([deep]).verdicts[0].verdict == "undecided"  # too deep for Python


@model
def built(n: int) -> models.Node:
    out = models.Node(0.0)
    for k in range(n):
        out = models.Node(float(k), out)
    return out


@pytest.mark.long
def test_results_100_000_deep() -> None:
    first, second = built.batch([DEEP, DEEP // 9]), built.batch([DEEP, DEEP // 9])
    assert first == second
    node, length = first[0], 0
    while node is not None:
        node, length = node.next, length + 1
    assert length == DEEP + 1
    first[0].next.next.x = -1.0
    assert first != second


def test_bad_data_at_the_end_of_a_deep_chain() -> None:
    deep = chain(DEEP)
    last = deep
    while last.next is not None:
        last = last.next
    last.x = "text"  # type: ignore[assignment]
    error = failures(lambda: models.by_recursion.batch([chain(3), deep]))
    assert error.errors[1].path == "[1]" + ".next" * (DEEP - 1) + ".x"  # type: ignore[attr-defined]
    assert len(str(error.errors[1])) < 600 and len(str(error)) < 1000
    assert error.results[0] == 3.0


@pytest.mark.long
def test_a_failure_at_the_end_of_a_deep_chain() -> None:
    @model
    def deepest(c: models.Node):
        if c.next is None:
            return 1.0 / c.x
        return deepest(c.next) + 1.0

    error = failures(lambda: deepest.batch([chain(2), chain(DEEP, 0.0)]))
    assert type(error.errors[1]) is ZeroDivisionError and error.results[0] == 2.0


# ---- what never ends


@pytest.mark.parametrize("name", ["by_loop", "by_recursion", "tensor_chain", "by_values"])
def test_one_of_64_instances_never_ends(name: str) -> None:
    f = getattr(models, name)
    shared = {"w": np.full(4, 0.01, F32)} if name in ("tensor_chain", "by_values") else {}
    many = [chain(1 + k % 7) for k in range(64)]
    clean = bits(f.batch(many, **shared))
    many[17] = chain(1, math.nan) if name == "by_values" else models.cycle()
    for options, code in (({"max_steps": 5000}, "ACR702"), ({"memory_limit": 1 << 24}, "ACR704")):
        if name == "by_loop" and code == "ACR704":
            continue  # it needs no memory
        start = time.perf_counter()
        error = failures(lambda options=options: f.with_options(**options).batch(many, **shared))
        assert time.perf_counter() - start < 20
        assert list(error.errors) == [17]
        one = error.errors[17]
        assert isinstance(one, AcronumbaError) and one.code == code and one.file == models.__file__
        assert one.source.strip(), "the line is shown"
        assert all(bits(r) == clean[k] for k, r in enumerate(error.results) if k != 17)


def test_a_loop_without_end_is_stopped_in_seconds_by_default() -> None:
    start = time.perf_counter()
    error = failures(lambda: models.by_loop.batch([chain(2), models.cycle()]))
    assert time.perf_counter() - start < 15
    one = error.errors[1]
    assert one.code == "ACR702" and "100,000,000" in str(one) and error.results[0] == 2.0  # type: ignore[attr-defined]
    assert line_of("total += c.x") - 1 <= one.line <= line_of("total += c.x") + 1  # type: ignore[attr-defined]


def test_the_number_of_steps_is_exact_in_any_company() -> None:
    lengths = [998, 999, 1000, 1001, 5]
    f = models.by_loop.with_options(max_steps=1000)
    alone = []
    for n in lengths:
        try:
            alone.append(f.batch([chain(n)])[0])
        except InstanceErrors as error:
            alone.append(error.errors[0].code)  # type: ignore[attr-defined]
    error = failures(lambda: f.batch([chain(n) for n in lengths * 3]))
    mixed = [error.errors[k].code if k in error.errors else error.results[k] for k in range(15)]  # type: ignore[attr-defined]
    assert mixed == alone * 3 and "ACR702" in alone and 5.0 in alone


def test_check_does_not_run_what_never_ends() -> None:
    check = models.by_loop.with_options(max_steps=5000).check([chain(2), models.cycle()])
    assert [v.verdict for v in check.verdicts] == ["equal", "undecided"]


@model
def heavy(x, *, w, n):
    for _ in range(n):
        x = np.tanh(w @ x)
    return x


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
@pytest.mark.parametrize("name", one_in(4, ["recursion", "loop", "many instances", "kernels"]))
def test_ctrl_c_comes_through(name: str) -> None:
    w = (np.eye(256) * 0.9).astype(F32)
    xs = [np.full(256, 0.1, F32)] * 64
    endless = models.cycle()
    many = models.by_loop.with_options(max_steps=200_000)
    runs: dict[str, Callable[[int], Any]] = {
        "loop": lambda n: models.by_loop.with_options(max_steps=n * 10**10 + 5).batch([chain(2), endless]),
        "many instances": lambda n: many.batch([endless] * (9_999 * n + 1)),
        "recursion": lambda n: models.by_recursion.with_options(max_steps=n * 10**10 + 5).batch([endless] * 99),
        "kernels": lambda n: heavy.batch(xs, w=w, n=n * 200_000 + 1),
    }
    run = runs[name]
    with contextlib.suppress(InstanceErrors):
        run(0)  # compiled
    sent: list[float] = []

    def interrupt() -> None:
        time.sleep(0.4)
        sent.append(time.perf_counter())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(1)
    waited = time.perf_counter() - sent[0]
    thread.join()
    assert waited < 10  # of minutes
    assert models.by_loop.batch([chain(2)]) == [2.0]


# ---- looking


class Tags(html.parser.HTMLParser):
    VOID = frozenset("meta link br hr img input rect line path circle".split())

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("count", [0, 1, 9])
def test_traces_print_and_are_written(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    trace = models.tree_rnn.trace([*trees(count), models.Tree(word=99)][: count + count // 9], p=params())
    text = str(trace)
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    file = io.StringIO()
    Console(file=file, width=80, force_terminal=True).print(trace)
    assert not re.search(r"\x1b\[(3[0-7]|9[0-7]|[34]8;)", file.getvalue()), "a colour"
    graph = trace.graph
    assert isinstance(graph, networkx.DiGraph) and networkx.is_directed_acyclic_graph(graph)
    assert graph.number_of_nodes() == trace.nodes == sum(b.size for b in trace.batches)
    assert all(graph.nodes[u]["batch"] < graph.nodes[v]["batch"] for u, v in graph.edges)
    assert set(trace.seconds) == {"compile", "pack", "record", "schedule", "layout", "execute", "total"}
    assert list(trace.errors) == [9] * (count == 9)
    dot = trace.to_dot(tmp_path / "t.dot").read_text()
    assert dot.startswith("digraph") and dot.count("{") == dot.count("}") and dot.count('"') % 2 == 0
    assert len(re.findall(r"^\s*n\d+ \[", dot, re.M)) == trace.nodes
    assert len(re.findall(r"->", dot)) == graph.number_of_edges()
    events = json.loads(trace.to_perfetto(tmp_path / "t.json").read_text())["traceEvents"]
    assert all({"name", "ph", "pid"} <= set(e) for e in events)
    tags = Tags()
    tags.feed(trace.html(tmp_path / "t.html").read_text(encoding="utf-8"))
    assert tags.open == []


def test_packs_are_sequences_of_instances() -> None:
    xs = trees(9)
    packed = pack(xs)
    assert len(packed) == 9 and [bits(t) for t in packed] == [bits(t) for t in xs]
    assert bits(packed[-1]) == bits(xs[-1]) and [bits(t) for t in packed[1:8:3]] == [bits(t) for t in xs[1:8:3]]
    with pytest.raises(IndexError):
        packed[9]
    array = np.arange(12, dtype=F32).reshape(4, 3)
    assert bits(models.linear.batch(pack(array), w=W)) == bits(models.linear.batch(array, w=W))
    assert bits(models.linear.batch(array, w=W)) == bits(models.linear.batch(list(array), w=W))
    assert bits(models.linear.batch(array[::-1, ::-1], w=W)) == bits(models.linear.batch(list(array[::-1, ::-1]), w=W))


def test_a_pack_of_bad_data_fails_only_where_it_is_read() -> None:
    packed = pack([Record(n=1), Record(n="2"), Record(n=3)])  # type: ignore[arg-type]
    error = failures(lambda: record_sum.batch(packed))
    assert list(error.errors) == [1] and error.results[2] == 3.0

    @model
    def unread(r: Record):
        return r.x

    assert unread.batch(packed) == [0.0] * 3


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc")
def test_no_files_stay_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for k in range(3):
        models.by_loop.with_options(max_steps=10**7 + k).batch([chain(2)])
    assert len(os.listdir("/proc/self/fd")) <= before


# ---- functions that are not what they seem


def _tripled(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(x):
        return f(x) * 3.0

    return wrapper


def _logged(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


@_tripled
def _helper(x):
    return x + 1.0


@model
@_tripled
def decorated(x):
    return _helper(x) + 1.0


def test_decorators_are_part_of_the_function() -> None:
    assert decorated.batch([1.0, 2.0]) == [decorated(1.0), decorated(2.0)] == [21.0, 30.0]

    @model
    @_logged
    def any_call(x):
        return x

    with pytest.raises(AcronumbaError) as caught:
        any_call.batch([1.0])
    assert caught.value.code == "ACR208"


def test_coroutines_and_generators_are_rejected() -> None:
    async def later(x):
        return x

    def several(x):
        yield x

    for f in (later, several):
        with pytest.raises(AcronumbaError) as caught:
            model(f).batch([1.0])
        assert caught.value.code == "ACR104"


def test_shared_structures_that_contain_themselves() -> None:
    @model
    def scaled(x, *, p):
        return x * p["a"]

    p: dict[str, Any] = {"a": 2.0}
    p["self"], p["both"] = p, [p, p]
    for _ in range(2):
        assert scaled.batch([1.0], p=p) == [2.0]
    p["a"] = 3.0
    assert scaled.batch([1.0], p=p) == [3.0]

    @model
    def inner(x, *, p):
        return x * p["self"]["a"]

    for _ in range(2):
        assert inner.batch([1.0], p=p) == [inner(1.0, p=p)]
        p["a"] += 1.0


def _repeated(f: Callable[..., Any]) -> Callable[..., Any]:
    def go(x, n):
        return x if n <= 0 else go(f(x), n - 1)

    return go


_add, _double = _repeated(lambda x: x + 1.0), _repeated(lambda x: x * 2.0)


@model
def two_closures(x, n):
    return _double(_add(x, n), n) + _add(x, n)


def test_closures_of_one_definition_are_functions_of_their_own() -> None:
    assert two_closures.batch([1.0, 2.0], [3, 1]) == [two_closures(1.0, 3), two_closures(2.0, 1)] == [36.0, 9.0]
