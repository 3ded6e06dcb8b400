"""Operations on each row of a run-time leading extent: one batch for all extents, and the bits of the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, Options, model, nn
from acronumba.analysis.plan import make_plan, plan_text
from acronumba.ir import nodes as n
from acronumba.ir.types import INT, ListT, TensorT, TupleT
from acronumba.ir.verify import VerifyError, verify
from acronumba.memory import address
from tests.support.chosen import half, one_in
from tests.support.generate import compare
from tests.support.hand import Hand, read_tensor, straight
from tests.support.reference_kernels import interpreted_kernels, link_interpreted

RNG = np.random.default_rng(11)
H, V, C = 6, 20, 5


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray
    u: np.ndarray
    b: np.ndarray
    query: np.ndarray
    out: np.ndarray
    classes: np.ndarray
    wide: np.ndarray


P = Params(
    normal(V, H),
    normal(H, H),
    normal(H, H),
    normal(H),
    normal(H),
    normal(C, H),
    np.arange(C * 2).reshape(C, 2),
    np.eye(H) + 0.1,
)
LENGTHS = (3, 1, 5, 4, 2, 3, 17)
SENTENCES = [[int(i) for i in RNG.integers(-V, V, length)] for length in LENGTHS]
ARRAYS = [normal(length, H) for length in LENGTHS]
OTHERS = [normal(length, H) for length in reversed(LENGTHS)]
EMPTY = np.zeros((0, H), np.float32)


# ---- models


def classifier(words: list[int], *, p: Params) -> Any:
    h = np.zeros(H, np.float32)
    states = []
    for i in words:
        h = np.tanh(p.w @ p.embed[i] + p.u @ h + p.b)
        states.append(h)
    return nn.softmax(np.stack(states) @ p.out.T, axis=-1)


def both_ways(words: list[int], *, p: Params) -> Any:
    vectors = [np.tanh(p.embed[i]) for i in words]
    states = np.concatenate([np.stack(vectors), np.stack(vectors[::-1])], axis=1)
    return states if len(words) == 2 else states @ p.embed[:12, :1] + 1


def looked_up(words: list[int], *, p: Params) -> Any:
    x = p.embed[np.array(words)]
    y = np.maximum(x @ p.w.T + p.b, 0) @ p.u
    return nn.layer_norm(x + y, p.b, p.b), np.argmax(y @ p.out.T, axis=1)


def chain(x: Any, *, p: Params) -> Any:
    y = x @ p.w
    a, b = np.split(y, 2, axis=1)
    z = np.concatenate([b, a], axis=-1).reshape(x.shape[0], 2, 3).transpose(0, 2, 1)
    gate = (z.sum(axis=(1, 2), keepdims=True) > 0) & (z[:, :, 1:] < 1)
    return np.where(gate, z, z[:, ::-1, 1:2]).max(axis=1), z.mean(axis=2), gate.any(axis=(1, 2))


def pooled(x: Any, *, p: Params) -> Any:
    return np.tanh(x @ p.w).mean(axis=0)


def attention(x: Any, *, p: Params) -> Any:
    q, k, v = x @ p.w, x @ p.u, x @ p.out.T
    return nn.softmax(q @ k.T) @ v


def layer(x: Any, *, p: Params) -> Any:
    x = nn.layer_norm(x + attention(x, p=p) @ p.out)
    return nn.layer_norm(x + np.tanh(x @ p.u) @ p.w)


def spread(x: Any, *, p: Params) -> Any:
    y = x @ p.w
    return (y - y.mean(axis=0)).max(axis=0)


def scored(x: Any, *, p: Params) -> Any:
    scores = x @ p.query
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ x


def centred(x: Any, *, p: Params) -> Any:
    return (x - x.mean(axis=0)) * p.b


def after(x: Any, *, p: Params) -> Any:
    return (x - x.mean(axis=0)) @ p.w


def two_extents(x: Any, y: Any, *, p: Params) -> Any:
    a, b = x @ p.w, y @ p.w
    return a + 1, b, a.sum() + b.sum()


def matched(x: Any, y: Any, *, p: Params) -> Any:
    return np.concatenate([x, y], axis=1) @ p.embed[: 2 * H], np.tanh(x @ p.w + y)


def one_by_one(x: Any, *, p: Params) -> Any:
    return np.exp(x) + 1


def dtypes(x: Any, words: list[int], *, p: Params) -> Any:
    wide = x.astype(np.float64) @ p.wide
    return wide, p.classes[np.array(words) % C], np.stack([x[0] > 0 for _ in words]), (x > 0).all(axis=1)


def layers(x: Any, depth: int, *, p: Params) -> Any:
    for _ in range(depth):
        x = np.tanh(x @ p.w.T + p.b)
    return x


def refined(x: Any, depth: int, *, p: Params) -> Any:
    if depth == 0:
        return x @ p.out.T
    return refined(x @ p.u, depth - 1, p=p) + refined(np.abs(x), depth - 2 if depth > 1 else 0, p=p)


def broadcast(x: Any, s: float, *, p: Params) -> Any:
    top = np.exp(x[0])
    return (x * top + s) @ p.w + p.b[None, :] + np.zeros((len(x), H), np.float32) + np.ones((1, 1), np.float32)


def matrices(x: Any, *, p: Params) -> Any:
    squares = x.reshape(x.shape[0], 2, 3)
    return squares @ squares.transpose(0, 2, 1), squares @ p.w[:3], p.w[:2, :2] @ squares, x[:, :3] @ p.b[:3]


def numbers(values: list[float], *, p: Params) -> Any:
    return np.array(values)[:, None] * np.arange(20.0) + 1


def fed_back(x: Any, *, p: Params) -> Any:
    rows = list(x @ p.w)
    total = np.zeros(H, np.float32)
    for row in rows:
        total = np.tanh(total + row)
    return np.stack([total + row for row in rows]) @ p.u


DEPTHS = [0, 3, 1, 2, 1, 0, 2]
VALUES = [0.5 * k for k in range(len(LENGTHS))]
MODELS: dict[Any, tuple[bool, tuple[Any, ...]]] = {
    classifier: (True, (SENTENCES,)),
    both_ways: (True, (SENTENCES,)),
    looked_up: (True, (SENTENCES,)),
    chain: (True, (ARRAYS,)),
    pooled: (True, (ARRAYS,)),
    attention: (True, (ARRAYS,)),
    layer: (True, (ARRAYS,)),
    spread: (True, (ARRAYS,)),
    scored: (False, (ARRAYS,)),
    centred: (False, (ARRAYS,)),
    after: (True, (ARRAYS,)),
    two_extents: (True, (ARRAYS, OTHERS)),
    matched: (True, (ARRAYS, ARRAYS[::-1][::-1])),
    one_by_one: (False, ([x[:, 0] for x in ARRAYS],)),
    dtypes: (True, (ARRAYS, SENTENCES)),
    layers: (True, (ARRAYS, DEPTHS)),
    refined: (True, (ARRAYS, DEPTHS)),
    broadcast: (True, (ARRAYS, VALUES)),
    matrices: (True, (ARRAYS,)),
    numbers: (True, ([VALUES[:k] for k in (3, 1, 7, 2)],)),
    fed_back: (True, (ARRAYS,)),
}


def specs(m: Any, *columns: Any) -> list[Any]:
    return [s for s in m._compiled(columns, {"p": P}).plan.kernels if s.rows is not None]


def leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


@pytest.mark.parametrize("fn", MODELS, ids=lambda fn: fn.__name__)
def test_the_plan_is_the_plain_call(fn: Any) -> None:
    rows, columns = MODELS[fn]
    m = model(fn)
    assert not compare(m, columns, {"p": P}, compiled=False)
    assert not compare(m.with_options(blocks=False), columns, {"p": P}, compiled=False)
    assert not specs(m.with_options(hoist=False), *columns)
    assert bool(specs(m, *columns)) == rows


@pytest.mark.parametrize("fn", one_in(4, MODELS), ids=lambda fn: fn.__name__)
def test_machine_code_is_the_plain_call(fn: Any) -> None:
    assert not compare(model(fn), MODELS[fn][1], {"p": P}, compiled=True)


@pytest.mark.parametrize("fn", one_in(2, half(MODELS)), ids=lambda fn: fn.__name__)
def test_machine_code_has_the_same_bits_without_rows(fn: Any) -> None:
    _, columns = MODELS[fn]
    m = model(fn)
    plain = m.with_options(hoist=False).batch(*columns, p=P)
    for on, off in zip(m.batch(*columns, p=P), plain, strict=True):
        for a, b in zip(leaves(on), leaves(off), strict=True):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("options", [{}, {"schedule": "agenda"}, {"phases": False}], ids=str)
def test_sentences_of_all_lengths_are_one_batch(options: dict[str, Any]) -> None:
    m = model(classifier).with_options(**options)
    (spec,) = specs(m, SENTENCES)
    trace = m.trace(SENTENCES, p=P).data
    batches = [b for b in trace.batches if b.kernel == spec.name]
    assert sum(b.rows for b in batches) == sum(LENGTHS)
    if not options.get("phases", True):
        return  # depth alone puts a sentence's classifier below its states
    assert [(b.size, b.rows) for b in batches] == [(len(SENTENCES), sum(LENGTHS))]
    apart = m.with_options(hoist=False, ragged=False).trace(SENTENCES, p=P).data
    keyed = {s.name for s in apart.specs if s.dims}
    assert len([b for b in apart.batches if b.kernel in keyed]) == len(set(LENGTHS))
    assert len(trace.batches) < len(apart.batches)


@pytest.mark.parametrize(
    ("fn", "rows", "whole"),
    [
        (pooled, [["matmul", "tanh"]], [["sum", "div"]]),
        (attention, [["matmul", "matmul", "transpose", "matmul"]], 1),
        (scored, [], 1),
        (after, [["sub", "matmul"]], [["sum", "div"]]),
        (centred, [], 1),
        (spread, [["matmul"]], [["sum", "div", "sub", "max"]]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_rows_are_taken_apart_where_it_pays(fn: Any, rows: list[list[str]], whole: int | list[list[str]]) -> None:
    kernels = model(fn)._compiled(MODELS[fn][1], {"p": P}).plan.kernels
    bodies = [[op.op for op in s.body if op.op not in ("const", "cast")] for s in kernels if s.rows is None]
    assert [[op.op for op in s.body] for s in kernels if s.rows is not None] == rows
    assert (bodies if isinstance(whole, list) else len(bodies)) == whole


def test_what_follows_a_product_stays_in_its_kernel() -> None:
    kernels = model(layer)._compiled((ARRAYS,), {"p": P}).plan.kernels
    assert [s.rows is not None for s in kernels] == [True, False, True]
    assert [op.op for op in kernels[2].body].count("sqrt") == 2  # of both norms, also the one after the last product


def test_no_rows() -> None:
    for fn in (chain, pooled, attention, layers, two_extents):
        count = len(MODELS[fn][1])
        columns = ([EMPTY, ARRAYS[0], EMPTY], [EMPTY, ARRAYS[1], ARRAYS[2]] if fn is two_extents else [1, 2, 0])[:count]
        assert not compare(model(fn), columns, {"p": P}, compiled=True)
    assert model(layers).batch([EMPTY], [2], p=P)[0].shape == (0, H)
    assert model(chain).trace([EMPTY, EMPTY], p=P).data.batches[0].rows == 0


def test_a_row_that_fails_fails_its_instance() -> None:
    def found(first: list[int], second: list[int], *, p: Params) -> Any:
        a = p.embed[np.array(first)] @ p.w
        b = p.embed[np.array(second)] @ p.u
        return a.sum() + b.sum()

    m = model(found)
    first, second = [[1, 2], [1, V, 3], [4, 5], [2, V]], [[3], [7, 8], [1, 2, 3, V + 1], [V + 2, 1, 1]]
    for run in (m.batch, m._interpret):
        with pytest.raises(InstanceErrors) as caught:
            run(first, second, p=P)
        errors = caught.value.errors
        assert sorted(errors) == [1, 2, 3] and {type(e) for e in errors.values()} == {IndexError}
        start = found.__code__.co_firstlineno
        assert [errors[k].line - start for k in (1, 2, 3)] == [1, 2, 1]
        assert np.allclose(caught.value.results[0], found(first[0], second[0], p=P), atol=1e-4)


def test_extents_that_differ_fail() -> None:
    assert not compare(model(matched), (ARRAYS, [*ARRAYS[:2], normal(4, H), *ARRAYS[3:]]), {"p": P}, compiled=True)


def test_a_users_schedule_sees_one_node_of_many_rows() -> None:
    seen: list[dict[str, Any]] = []

    def one_at_a_time(columns: dict[str, Any]) -> Any:
        seen.append(columns)
        return np.arange(len(columns["kind"]), dtype=np.int32)

    m = model(fed_back)
    alone = m.with_options(schedule=one_at_a_time).batch(ARRAYS, p=P)
    assert (seen[0]["kind"] == 0).sum() == len(ARRAYS)
    for a, b in zip(alone, m.batch(ARRAYS, p=P), strict=True):
        assert a.tobytes() == b.tobytes()


def test_mini_batches_of_other_sizes() -> None:
    """What an earlier, larger mini-batch left behind is no part of a later one, nor too small for a larger one."""
    m = model(looked_up)
    for lengths in ((40, 2), (1,), (3, 90, 5), (2, 0, 1), (300, 1, 700)):
        columns = ([[k % V for k in range(length)] for length in lengths],)
        assert not compare(m, columns, {"p": P}, compiled=True)


def test_library_code_stays_in_its_memory() -> None:
    """Everything but the kernels in plain Python, where each access is checked."""
    wide = TensorT("float32", (4, 3))
    arrays, vectors = TensorT("float32", (None, 4)), ListT(TensorT("float32", (16,)))

    def make(f: Hand, x: n.Var, items: n.Var) -> tuple[n.Var, n.Var]:
        rows, length = f.extent(x, 0), f.list_op("len", items, outs=[INT])
        y = f.op("tanh", f.op("matmul", x, 0, shape=(rows, 3)), shape=(rows, 3))
        return y, f.op("neg", f.op("stack", items, shape=(length, 16)), shape=(length, 16))

    results = [TensorT("float32", (None, 3)), TensorT("float32", (None, 16))]
    p = straight(make, [("x", arrays), ("items", vectors)], results, TupleT(tuple(results)), shared=[("w", wide)])
    plan = make_plan(p, Options())
    verify(plan.program, plan.kernels)
    assert [s.rows for s in plan.kernels] == [("row",), ("item",)]
    engine = link_interpreted(plan, Options(), interpreted_kernels(plan.kernels))
    weight, keep = normal(4, 3), []

    def record(array: np.ndarray) -> int:
        shape = np.array(array.shape, np.int64)
        keep.extend([array, shape, np.array([address(array), -1, address(shape)], np.int64)])
        return address(keep[-1])

    def listed(parts: np.ndarray) -> int:
        segment = np.array([record(part.copy()) for part in parts] or [0], np.int64)
        keep.extend([segment, np.array([address(segment), len(parts), len(parts)], np.int64)])
        return address(keep[-1])

    for sizes in (((2, 1), (3, 4)), ((0, 0), (9, 0), (1, 30)), ((0, 0),)):
        given = [(normal(a, 4), normal(b, 16)) for a, b in sizes]
        roots = np.array([[record(x), listed(items)] for x, items in given], np.int64)
        run = engine.run(roots, [weight], keep=keep)
        for (x, items), (y, z) in zip(given, run.words.tolist(), strict=True):
            assert np.array_equal(read_tensor(z, "float32", items.shape), -items)
            assert np.allclose(read_tensor(y, "float32", (len(x), 3)), np.tanh(x @ weight), atol=1e-6)


def test_bad_rows_are_rejected() -> None:
    m = model(classifier)
    plan = m._compiled((SENTENCES,), {"p": P}).plan
    verify(plan.program, plan.kernels)
    at = next(k for k, s in enumerate(plan.kernels) if s.rows is not None)
    for rows in (("row",), ("whole",), None, ("item", "item")):
        kernels = [replace(s, rows=rows) if k == at else s for k, s in enumerate(plan.kernels)]
        with pytest.raises(VerifyError):
            verify(plan.program, kernels)


def test_what_was_decided_can_be_read() -> None:
    m = model(classifier)
    plan = m._compiled((SENTENCES,), {"p": P}).plan
    (note,) = {note.loc.line: note for note in plan.notes if note.kind == "rows"}.values()
    assert note.loc.line == classifier.__code__.co_firstlineno + 6 and note.option == "hoist"
    (spec,) = specs(m, SENTENCES)
    assert m.stages(SENTENCES, p=P)["rows"].startswith(f"{spec.name}, line {note.loc.line}: ")
    assert f"kernel {spec.name}, one row:" in plan_text(plan) and "# item of argument 0" in plan_text(plan)
    assert "no operation" in model(centred).stages(ARRAYS, p=P)["rows"]
