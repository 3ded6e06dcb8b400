"""Memory of results: places are used again once nothing reads them, what is returned lives on, limits hold."""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as some
import numpy as np
import pytest

from acronumba import InstanceErrors, nn
from acronumba.api import dispatch
from acronumba.api.model import model
from acronumba.api.results import equal
from acronumba.ir.types import TensorT
from acronumba.memory import address
from acronumba.runtime import buffers, driver, state
from acronumba.runtime.forms import forms
from acronumba.runtime.memory_policy import TooLarge
from acronumba.runtime.run import Run
from tests.support import generate, recorded, recurrences
from tests.support.chosen import one_in, quarter
from tests.support.memory_models import (
    WIDTH,
    ZOO,
    all_states,
    last,
    owner,
    sentences,
    shared_arrays,
    some_states,
    until,
)

F32 = np.float32


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are shared in the smallest mini-batch, and what nothing may read any more is overwritten."""
    monkeypatch.setattr(driver, "_PLENTY", -1)
    monkeypatch.setattr(driver, "_NOTED_FROM", 0)
    monkeypatch.setattr(driver, "verify_level", lambda: 2)


# ---- the plan, on random graphs


@some.composite
def graphs(draw: Any) -> tuple[recorded.Graph, list[int], list[int]]:
    """Return a graph, bytes of the result of each kind, and the nodes that are returned."""
    rng = random.Random(draw(some.integers(0, 1 << 30)))
    n, kinds = rng.choice([0, 1, 5, 40, 400]), rng.randint(1, 5)
    near = rng.choice([2, 8, 1 << 20])  # how far back operands are
    graph: recorded.Graph = []
    for v in range(n):
        count = min(v, rng.randint(0, 3))
        graph.append((rng.randrange(kinds), [rng.randrange(max(0, v - near), v) for _ in range(count)]))
    share = rng.choice([0.0, 0.02, 0.5, 1.0])
    sizes = [rng.choice([0, 1, 4, 48, 64, 100, 1 << 12]) for _ in range(kinds)]
    return graph, sizes, [v for v in range(n) if rng.random() < share]


def planned(rec: recorded.Recorded, sizes: Sequence[int], returned: Sequence[int]) -> list[Any]:
    """Schedule a graph and lay it out, each kind with one result; return what must stay alive while it is looked at."""
    buffers = rec.buffers
    kinds = len(sizes)

    def plan_of(size: int) -> Any:
        def plan(extents: int, out: int) -> None:
            ctypes.c_int64.from_address(out).value = 0
            ctypes.c_int64.from_address(out + 8).value = size

        return plan if not rec.compiled else ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(plan)

    plans: list[Any] = [plan_of(size) for size in sizes]
    table = buffers.table.rows[:kinds]
    for k, plan in enumerate(plans):
        at = ctypes.cast(plan, ctypes.c_void_p).value if rec.compiled else rec.memory.add_function(plan)
        table[k, state.TABLE["plan"]] = at
    table[:, state.TABLE["results"]] = 1
    results = np.array([*map(rec.record, returned), 0], np.int64)
    found = forms([TensorT("float32", (1,))], [])
    if not rec.compiled:
        for array in (results, *found):
            rec.memory.add(array)
    buffers["results"], buffers["part_end"], buffers["forms"] = address(results), len(returned), address(found[0])
    buffers["plenty"], buffers["arena_size"], buffers["work_size"] = -1, 1 << 50, 1 << 50
    buffers["arena"], buffers["work"] = 1 << 52, 1 << 54
    buffers["stage"], buffers["stop"] = state.TO_LAYOUT, state.TO_EXECUTE
    rec.call("drive")
    return [plans, results, found]


@hypothesis.given(graphs(), some.booleans())
@hypothesis.settings(max_examples=80, deadline=None)
def test_no_two_results_that_are_needed_at_once_share_a_byte(
    given: tuple[recorded.Graph, list[int], list[int]], lists: bool
) -> None:
    graph, sizes, returned = given
    rec = recorded.Recorded(graph, len(sizes), lists=lists, compiled=len(graph) > 5)
    batches = rec.run()
    keep = planned(rec, sizes, returned)
    buffers = rec.buffers
    of = {v: b for b, nodes in enumerate(batches) for v in nodes}
    until = dict(of)
    for v, (_, operands) in enumerate(graph):
        for u in operands:
            until[u] = max(until[u], of[v])
    begin, size = buffers.columns["offset"][: 2 * len(batches)].reshape(-1, 2).T.tolist()
    places = []
    for b, nodes in enumerate(batches):
        assert size[b] == sizes[graph[nodes[0]][0]]
        at = begin[b]
        for v in nodes:  # where the kernel writes is where the others read
            assert rec.rows[v, rec.place[v]] == at
            at += size[b]
        if not size[b]:
            continue
        wanted = [v for v in nodes if v in set(returned)]
        if begin[b] < buffers["work"]:  # the batch writes to the arena what lives for ever
            assert 2 * 16 * -(-size[b] // 16) * len(wanted) >= size[b] * len(nodes)
            places.append((begin[b], at, b, len(batches)))
        else:
            places.append((begin[b], at, b, max(until[v] for v in nodes)))
            assert int(buffers.tables["returned"][b]) == len(wanted) * 16 * -(-size[b] // 16)
    for k, (low, high, first, end) in enumerate(places):
        for other_low, other_high, other_first, other_last in places[:k]:
            assert high <= other_low or other_high <= low or end < other_first or other_last < first
    assert all(high <= (1 << 54) + buffers["work_used"] for _, high, _, _ in places)
    assert buffers["work_used"] <= buffers["result_bytes"]
    del keep


def test_a_long_chain_needs_two_places(spoilt: None) -> None:
    n = 1000
    rec = recorded.Recorded([(0, [v - 1] if v else []) for v in range(n)], 1)
    rec.run()
    keep = planned(rec, [1 << 12], [n - 1])
    assert (
        rec.buffers["result_bytes"] == n << 12
        and rec.buffers["work_used"] == 2 << 12
        and rec.buffers["arena_used"] == 1 << 12
    )
    del keep


# ---- values


@pytest.mark.parametrize("name", one_in(4, ZOO))
def test_zoo(name: str, spoilt: None) -> None:
    module, f = ZOO[name]
    xs, p = module.instances(5, **({"length": 6} if name == "berxit" else {})), module.params(WIDTH)
    plain = f.with_options(recycle=False).batch(xs, p=p)
    got = [f.batch(xs, p=p) for _ in range(3)]
    assert all(map(equal, plain, got[0])) and all(map(equal, plain, got[2]))


@pytest.mark.parametrize("seed", one_in(3, quarter(range(24))))
def test_random_models(seed: int, spoilt: None, tmp_path: Path) -> None:
    case = generate.generate(7000 + seed, 4)
    module = case.load(tmp_path, f"memory_{seed}")
    columns, shared = case.instances(module, 9), case.shared_values(module)
    off = dispatch.batch(module.main.with_options(recycle=False), columns, shared)
    on = [dispatch.batch(module.main, columns, shared) for _ in range(2)]
    for done in on:
        assert {k: str(e) for k, e in done.errors.items()} == {k: str(e) for k, e in off.errors.items()}
        for k, value in enumerate(off.results):
            assert k in off.errors or equal(done.results[k], value)


@model
def failing(words: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    h = embed[0]
    for k in words:
        h = np.tanh(w @ h + embed[k])
        if k == 5:
            h = h + embed[int(len(words) * 1000)]
        if k == 7:
            raise ValueError(f"seven after {len(words)}")
    return h, nn.softmax(h)


@pytest.mark.parametrize("f", one_in(2, [last, all_states, some_states, until]))
@pytest.mark.parametrize("options", [{}, {"schedule": "agenda"}, {"threads": 2}, {"hoist": False, "blocks": False}])
def test_what_is_returned(f: Any, options: dict[str, Any], spoilt: None) -> None:
    shared, xs = shared_arrays(), sentences(20, 30)
    want = f.with_options(recycle=False, **options).batch(xs, **shared)
    got = [f.with_options(**options).batch(xs, **shared) for _ in range(3)]
    for done in got:
        assert all(map(equal, want, done))
    if f is some_states:
        one = got[0][3]
        assert one["last"] is one["again"] and one["kept"].more is one["kept"].before.more


def test_failures(spoilt: None) -> None:
    shared, xs = shared_arrays(), sentences(20, 12)
    seen = []
    for f in (failing, failing.with_options(recycle=False)):
        with pytest.raises(InstanceErrors) as caught:
            f.batch(xs, **shared)
        seen.append(caught.value)
    assert {k: str(e) for k, e in seen[0].errors.items()} == {k: str(e) for k, e in seen[1].errors.items()}
    assert 0 < len(seen[0].errors) < 20
    assert all(
        k in seen[0].errors or equal(a, b) for k, (a, b) in enumerate(zip(*(s.results for s in seen), strict=True))
    )


def test_stacking_copies_nothing(spoilt: None) -> None:
    shared = shared_arrays()
    results = last.batch([[1, 2, 3], [3, 2, 1], [4, 4, 4]], **shared)
    assert np.shares_memory(results.stack(), results[0])


# ---- how much memory


def test_small_results_do_not_keep_large_memory_alive() -> None:
    shared, xs = shared_arrays(256), sentences(100, 100)
    last.batch(xs, **shared)
    done = last.batch(xs, **shared)
    assert all(map(equal, done, last.with_options(recycle=False).batch(xs, **shared)))
    assert owner(done[0]) <= 4 * 100 * 1024  # 100 of 5,000 states, and what an arena has to spare
    assert owner(last.with_options(recycle=False).batch(xs, **shared)[0]) > 4 << 20


def test_an_interrupt_at_any_line_leaves_no_run_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    shared, xs = shared_arrays(), [[1, 2, 3], [3, 2, 1]]
    wanted = last.batch(xs, **shared)
    before, code = sys.gettrace(), Run.__init__.__code__
    for line in range(code.co_firstlineno, max(n for *_, n in code.co_lines() if n) + 1):

        def lines(frame: types.FrameType, event: str, arg: object, line: int = line) -> Any:
            if frame.f_lineno == line:
                raise KeyboardInterrupt
            return lines

        with contextlib.suppress(KeyboardInterrupt):
            sys.settrace(lambda frame, event, arg, lines=lines: lines if frame.f_code is code else None)
            last.batch(xs, **shared)
        sys.settrace(before)
        assert not lost, (line, lost[0].exc_value)
    assert all(map(equal, last.batch(xs, **shared), wanted))


def test_trace_says_what_is_saved() -> None:
    shared, xs = shared_arrays(256), sentences(20, 200)
    on, off = last.trace(xs, **shared), last.with_options(recycle=False).trace(xs, **shared)
    saved = on.data.unshared_bytes - on.peak_bytes
    assert saved > 0.8 * on.nodes * 256 * 4
    assert off.peak_bytes == off.data.unshared_bytes and off.peak_bytes > on.peak_bytes + saved // 2
    assert "without reuse of memory" in str(on) and "reuse of memory" not in str(off)


def test_limits() -> None:
    shared, xs = shared_arrays(256), sentences(20, 400)
    limited = {"memory_limit": 3 << 20}
    trace = last.with_options(**limited).trace(xs, **shared)
    assert trace.peak_bytes <= 3 << 20 < trace.data.unshared_bytes
    assert all(map(equal, trace.results, last.batch(xs, **shared)))
    trace = last.with_options(recycle=False, **limited).trace(xs, **shared)
    assert trace.parts > 1 and trace.peak_bytes <= 3 << 20
    assert all(map(equal, trace.results, last.batch(xs, **shared)))


def test_places_are_shared_below_plenty_if_the_limit_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_PLENTY", 1 << 40)
    shared, xs = shared_arrays(256), sentences(20, 400)
    trace = last.with_options(memory_limit=3 << 20).trace(xs, **shared)
    assert trace.peak_bytes <= 3 << 20 < trace.data.unshared_bytes


@model
def grows(steps: int, wide: int, *, w: np.ndarray) -> Any:
    """Holds `wide` arrays at once, and goes over `steps` others one after the other."""
    h = w
    for _ in range(steps):
        h = np.tanh(h)
    many = [np.sin(h + k) for k in range(wide)]
    total = h
    for x in many:
        total = total + x
    return total.sum()


def test_only_what_an_instance_holds_at_once_counts() -> None:
    w = np.ones((128, 128), F32)
    with pytest.raises(InstanceErrors) as caught:
        grows.with_options(memory_limit=4 << 20).batch([500, 3, 1], [2, 2, 300], w=w)
    assert list(caught.value.errors) == [2] and caught.value.results[0] is not None


def test_threads_share_a_model(spoilt: None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    shared = shared_arrays()
    inputs = [sentences(6, 10 + k) for k in range(8)]
    want = [last.with_options(recycle=False).batch(xs, **shared) for xs in inputs]
    with ThreadPoolExecutor(4) as pool:
        work: Callable[[Any], Any] = lambda xs: last.batch(xs, **shared)
        for _ in range(5):
            for got, wanted in zip(pool.map(work, inputs), want, strict=True):
                assert all(map(equal, wanted, got))


def test_weights_of_a_wider_dtype_are_packed_without_a_copy() -> None:
    @model
    def f(x: np.ndarray, *, w: np.ndarray, b: np.ndarray) -> Any:
        return np.tanh(x @ w + b) @ w.T, x @ w[:, :40], (x + b[:64]) * w[0, 0]

    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((64, 200)).astype(F32), rng.standard_normal(200).astype(F32)
    xs = [rng.standard_normal(64) for _ in range(5)]
    for turn in range(3):
        for got, x in zip(f.batch(xs, w=w, b=b), xs, strict=True):
            for mine, wanted in zip(got, f(x, w=w, b=b), strict=True):
                assert mine.dtype == np.float64 and np.allclose(mine, wanted, rtol=1e-12, atol=1e-12)
        w[turn] += 1.0  # in place
    prepared = f._entries[0].executable.shared.recent[-1]
    shapes = [a.shape for a in prepared.keep if a.dtype == np.float64]
    assert (64, 200) not in shapes and (200,) in shapes


@model
def waiting(x: np.ndarray, steps: int) -> Any:
    for _ in range(steps):
        if np.sum(x) < 1e9:
            x = x + 1
    return x


def test_as_many_may_be_too_large_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    many, run = 1200, driver.Executable._stages
    left = [many]

    def stages(self: driver.Executable, m: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise TooLarge("too much", surely=[0])
        run(self, m)

    monkeypatch.setattr(driver.Executable, "_stages", stages)
    with pytest.raises(InstanceErrors) as caught:
        waiting.batch([np.ones(2)] * (many + 2), [1] * (many + 2))
    assert list(caught.value.errors) == [*range(many)]
    assert [x.tolist() for x in caught.value.results[many:]] == [[2, 2], [2, 2]]


@model
def held(x: np.ndarray, steps: int) -> Any:
    out = [x]
    for _ in range(steps):
        out.append(np.tanh(out[-1]))
    return out


@pytest.mark.parametrize("shape", [(1000,), None], ids=["alike", "different"])
def test_those_that_are_too_large_are_found_in_one_run(
    shape: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is alone in its part: the parts after the first one are only recorded."""
    runs, begin = list[int](), driver.Executable._begin
    monkeypatch.setattr(driver.Executable, "_begin", lambda self, m: (runs.append(len(m.roots)), begin(self, m))[1])
    steps = [900 if k % 2 else 2 for k in range(40)]
    xs = [np.full(shape or 1000 + k % 3, k, np.float64) for k in range(40)]
    with pytest.raises(InstanceErrors) as caught:
        held.with_options(memory_limit=5 << 20, threads=1).batch(xs, steps)
    assert list(caught.value.errors) == [k for k in range(40) if k % 2]
    assert all(e.code == "ACR704" for e in caught.value.errors.values())
    assert runs == [40, 20]
    want = held.with_options(threads=1).batch(xs[::2], steps[::2])
    assert all(map(equal, caught.value.results[::2], want))


@pytest.mark.parametrize(("many", "share"), [(1, 1), (40, 2), (41, 5), (300, 2), (300, 100)])
def test_those_that_never_end_are_found_in_few_runs(many: int, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, begin = list[int](), driver.Executable._begin
    monkeypatch.setattr(driver.Executable, "_begin", lambda self, m: (runs.append(len(m.roots)), begin(self, m))[1])
    xs, steps = [np.full(100, k) for k in range(many)], [1 if k % share else 1 << 40 for k in range(many)]
    with pytest.raises(InstanceErrors) as caught:
        waiting.with_options(memory_limit=12 << 20, threads=1).batch(xs, steps)
    large = list(range(0, many, share))
    assert list(caught.value.errors) == large and all(e.code == "ACR704" for e in caught.value.errors.values())
    assert len(runs) <= 3 + 2 * np.log2(len(large) + 1)
    assert all(np.array_equal(caught.value.results[k], xs[k] + 1) for k in range(many) if k % share)


def test_no_places_are_shared_in_a_last_round_that_has_little_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take looking through all results, whenever they were computed."""
    planned, done = list[int](), driver.Executable._done
    note = lambda self, m, instances: (planned.append(m.buffers["planned"]), done(self, m, instances))[1]
    monkeypatch.setattr(driver.Executable, "_done", note)
    xs = [np.ones(1 << 17)] * 4
    want = [np.full(1 << 17, 1.0 + k) for k in (9, 9, 9, 8)]
    assert all(map(equal, waiting.batch(xs, [9, 9, 9, 8]), want)) and planned == [0]
    assert all(map(equal, waiting.batch(xs, [1] * 4), [np.full(1 << 17, 2.0)] * 4)) and planned[1:] == [2]


@pytest.mark.parametrize("seed", one_in(6, [4, 0, 5, 6, 10, 11, 12, 13, 26, 35]))
def test_last_readers_by_places_are_those_by_operands(seed: int, spoilt: None) -> None:
    """The memory plan is the same, whether the machine has noted who reads a result or all operands are read."""
    f, p = recurrences.model_of(seed), recurrences.params()
    xs = recurrences.instances(seed, 60)
    failed = recurrences.outcomes(f, xs, p)[1]
    call = dispatch.bind(f, ([x for k, x in enumerate(xs) if k not in failed],), {"p": p})
    compiled, leaves, packed = dispatch.specialise(f, call)
    assert packed is not None
    words, keep = compiled.shared.words(packed, leaves)
    executable = compiled.executable
    for _ in range(2):  # the machine does not know the graph the first time
        run = executable.run(packed.roots, words, keep=keep, stable=True, last=3)
        buffers, found = run.buffers, []
        assert buffers["planned"] == 2
        noted = buffers["noted_uses"]
        for _ in range(2):
            batches, most = buffers["batches"], buffers["most"]
            heads = buffers.columns["order"][buffers.columns["bstart"][:batches]]
            results = buffers.table.rows[buffers.columns["kind"][heads], state.TABLE["results"]]
            last = buffers.tables["last"][: batches * most].reshape(batches, most)
            there = np.arange(most) < results[:, None]
            found.append((last[there].tolist(), buffers["work_used"], buffers["arena_used"]))
            buffers["noted_uses"], buffers["planned"], buffers["stage"] = 0, 0, state.TO_LAYOUT
            assert executable.engine.drive(buffers.address) == state.DONE
        assert found[0] == found[1]
        run.close()
    assert noted


def test_a_large_arena_stays_once_two_runs_in_succession_have_needed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = 3 << 20, 1 << 16
    monkeypatch.setattr(buffers, "_KEPT", 1 << 20)
    pool = buffers.ArenaPool(0, kept=1 << 20)

    def run(used: int) -> int:
        arena = pool.take(max(used, pool.wanted))
        pool.note(used)
        return address(arena.block)

    def held() -> list[int]:
        return [len(block) for block, _ in pool._free]

    run(large)
    assert held() == []  # a single one gives it back
    first = run(large)
    assert held() == [large]
    assert run(large - 5) == first
    run(small)
    assert held() == []
    monkeypatch.setattr(buffers, "available", lambda: 4 * large - 1)
    for _ in range(3):  # the system has little left
        run(large)
        assert held() == []
