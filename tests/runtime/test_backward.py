"""Compiled gradients are those of the definition: of the zoo, of models of the language, of random programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, nn
from acronumba.api.dispatch import bind, specialise
from acronumba.ir.interpret import InstanceFailure
from acronumba.ir.types import Array0T, BoolT, FloatT, IntT, ListT, TensorT, TupleT, Type, words
from acronumba.ir.values import List
from acronumba.memory import address, word_at
from acronumba.pipeline.link import link_backward
from acronumba.runtime.backward import Seeds
from acronumba.runtime.instances import Own
from acronumba.zoo import (
    berxit,
    bilstm_tagger,
    birnn,
    child_sum_lstm,
    graph_rnn,
    listops,
    moe,
    mv_rnn,
    nested_rnn,
    stack_rnn,
    tree_lstm,
)  # fmt: skip
from tests.support.all_models import CASES
from tests.support.chosen import one_in
from tests.support.random_gradients import TENS, wrong_programs

FLOATS = ("float32", "float64")
ZOO = [
    (tree_lstm, tree_lstm.sentiment), (child_sum_lstm, child_sum_lstm.classify), (mv_rnn, mv_rnn.sentiment),
    (birnn, birnn.tag), (bilstm_tagger, bilstm_tagger.tag), (nested_rnn, nested_rnn.encode),
    (listops, listops.classify), (moe, moe.mix), (moe, moe.route_emulated), (stack_rnn, stack_rnn.parse),
    (berxit, berxit.classify), (graph_rnn, graph_rnn.generate_emulated), (moe, moe.route),
]  # fmt: skip


def records(t: Type, at: list[int]) -> Iterator[int]:
    """Yield the value records that the words of a result lead to."""
    match t:
        case TensorT():
            yield at[0]
        case Array0T():
            yield at[-1]
        case TupleT():
            for item in t.items:
                many = len(words(item))
                yield from records(item, at[:many])
                at = at[many:]
        case ListT():
            width = len(words(t.item))
            items, length = word_at(at[0]), word_at(at[0] + 8)
            for k in range(length):
                yield from records(t.item, [word_at(items + 8 * (k * width + j)) for j in range(width)])


def arrays_of(result: Any) -> list[Any]:
    """Return the arrays of a result in order."""
    if isinstance(result, List):
        result = result.words
    if isinstance(result, list | tuple):
        return [x for part in result for x in arrays_of(part)]
    return [result] if isinstance(result, np.ndarray | np.generic) else []


def whole(t: Type) -> bool:
    """Whether `records` finds all tensors of a result."""
    match t:
        case TupleT():
            return all(map(whole, t.items))
        case ListT():
            return whole(t.item)
    return isinstance(t, TensorT | Array0T | IntT | FloatT | BoolT)


class Both:
    """Gradients of a mini-batch, of random weights of all results: compiled, and by the tape."""

    def __init__(self, f: Any, columns: Any, shared: dict[str, Any], **options: Any) -> None:
        self.f = f.with_options(**options) if options else f
        call = bind(self.f, columns, shared)
        self.compiled, self.leaves, _ = specialise(self.f, call, packed=False)
        self.call, program = call, self.compiled.program
        params = program.shared[: len(self.leaves)]
        self.wanted = [k for k, p in enumerate(params) if isinstance(p.type, TensorT) and p.type.dtype in FLOATS]
        self.possible = whole(program.result)

    def weights(self, k: int, arrays: list[Any]) -> list[Any]:
        rng = np.random.default_rng(k)
        return [rng.standard_normal(np.shape(x)).astype(x.dtype) if x.dtype.name in FLOATS else None for x in arrays]

    def machine(self) -> dict[int, Any]:
        self.back = link_backward(
            self.compiled.plan, self.compiled.options, self.wanted, len(words(self.compiled.program.result))
        )
        return self.again()

    def again(self) -> dict[int, Any]:
        packed = self.compiled.pack(self.call.columns)
        run = self.compiled.run(packed, self.leaves, on=self.back.forward)
        self.failed = {*run.errors, *packed.errors}
        result = self.compiled.decoder(run, packed)
        found: list[int] = []
        seeds: list[Any] = []
        for k in range(len(packed)):
            if k in self.failed:
                continue
            at = list(records(self.compiled.program.result, run.words[k].tolist()))
            arrays = arrays_of(result(k))
            assert len(at) == len(arrays)
            pairs = zip(at, self.weights(k, arrays), strict=True)
            for record, weight in pairs:
                if weight is not None:
                    found.append(record)
                    seeds.append(np.ascontiguousarray(weight))
        where = Seeds(
            records=np.array(found, np.int64),
            adjoints=np.array([address(s) for s in seeds], np.int64),
            instances=np.zeros(len(found), np.int64),
        )
        return self.back.gradients(run, where, Own((), (), ())).shared

    def tape(self) -> dict[int, Any]:
        out: dict[int, Any] = {k: np.zeros(np.shape(self.leaves[k]), np.float64) for k in self.wanted}
        self.most: dict[int, float] = dict.fromkeys(self.wanted, 0.0)
        recorder = self.compiled.recorder_of_tapes(self.leaves)
        for k in range(self.call.count):
            if k in self.failed:
                continue
            values, tape = recorder.record([column[k] for column in self.call.columns])
            arrays = arrays_of(values)
            seeds: dict[int, Any] = {}
            for x, w in zip(arrays, self.weights(k, arrays), strict=True):
                if w is not None:
                    n = tape.number(x)
                    seeds[n] = seeds[n] + w if n in seeds else w
            given = {n: x for n, x in tape.given.items() if tape.values[n].dtype.kind == "f"}
            found = tape.pullback(seeds, set(given), wide=True)
            for j in self.wanted:
                for n, g in found.items():
                    if given[n] is self.leaves[j]:
                        out[j] = out[j] + g
                        self.most[j] += float(np.abs(g).max(initial=0))
        return out

    def error(self) -> float:
        """Return the largest difference, relative to the sum of the largest parts of each instance."""
        mine, theirs = self.machine(), self.tape()
        ids: dict[int, list[int]] = {}
        for k in self.wanted:
            ids.setdefault(id(self.leaves[k]), []).append(k)
        scale = max(self.most.values(), default=0.0)
        if not all(np.isfinite(g).all() for g in theirs.values()) or scale > 1e6:
            return 0.0
        worst = 0.0
        for same in ids.values():
            got = sum(np.asarray(mine[k], np.float64) for k in same)
            worst = max(worst, float(np.abs(got - theirs[same[0]]).max(initial=0)) / (scale or 1.0))
        return worst


@pytest.mark.parametrize(("module", "f"), one_in(9, ZOO, ids=[f.__name__ for _, f in ZOO]))
def test_the_zoo(module: Any, f: Any) -> None:
    both = Both(f, [module.instances(3)], {"p": module.params(size=8)})
    assert both.possible and both.error() < 1e-5


OTHERS = [  # those that `test_pullbacks` leaves to `--slow`, and here the other way round
    pytest.param(c, id=c.name, marks=() if k % 2 else pytest.mark.slow) for k, c in enumerate(CASES)
]


@pytest.mark.parametrize("case", one_in(8, OTHERS))
def test_models_of_the_language(case: Any) -> None:
    try:
        both = Both(case.model, case.columns, case.shared)
    except (AcronumbaError, InstanceFailure):
        return
    if both.possible and both.wanted:
        assert both.error() < 1e-4


def error_of(main: Any, columns: Any, shared: Any) -> float | None:
    both = Both(main, columns, shared)
    return both.error() if both.possible and both.wanted else None


@pytest.mark.parametrize("first", TENS)
def test_random_programs(first: int, tmp_path: Path) -> None:
    wrong, many = wrong_programs(error_of, range(first, first + 10), tmp_path)
    assert not wrong and many > 0, (wrong, many)


@model
def attention(x: np.ndarray, *, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> Any:
    h = np.tanh(x @ w + b)
    return nn.softmax(h @ u) @ h


@model
def classifier(words: list[int], q: np.ndarray, *, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> Any:
    states = []
    h = q
    for i in words:
        h = np.tanh(w[i] @ w * u + h + b)
        states.append(h)
    return nn.softmax(np.stack(states) @ (w.T @ w) + q, axis=-1)


def test_each_row_of_a_node_has_gradients() -> None:
    rng = np.random.default_rng(0)
    w, b, u = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), 7, 7))
    xs = [rng.standard_normal((n, 5)).astype(np.float32) for n in (3, 1, 300, 2)]
    lists, qs = [[0, 4, 4], [2], [], [1, 2, 3]], [rng.standard_normal(7).astype(np.float32) for _ in range(4)]
    square = rng.standard_normal((7, 7)).astype(np.float32)
    for f, columns, shared, way in (
        (attention, [xs], {"w": w, "b": b, "u": u}, "row"),
        (classifier, [lists, qs], {"w": square, "b": b, "u": u}, "item"),
    ):
        both = Both(f, columns, shared)
        assert any(way in (spec.rows or ()) for spec in both.compiled.plan.kernels)
        assert both.possible and both.error() < 1e-5


@model
def chosen_step(x: np.ndarray, *, w: np.ndarray, u: np.ndarray) -> Any:
    h = np.tanh(w @ x)
    for _ in range(6):
        if float(np.sum(h)) > 0:
            h = np.tanh(w @ h + x)
        else:
            h = np.tanh(u @ h)
    return h


@pytest.mark.parametrize("schedule", ["lookahead", "depth", "agenda"])
def test_rounds_go_back_as_one_graph(schedule: Any) -> None:
    rng = np.random.default_rng(0)
    w, u = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
    xs = [rng.standard_normal(4).astype(np.float32) for _ in range(30)]
    both = Both(chosen_step, [xs], {"w": w, "u": u}, schedule=schedule)
    assert both.compiled.executable.host.waiting and both.possible and both.error() < 1e-5
    first, second = both.machine(), both.again()
    assert all(first[k].tobytes() == second[k].tobytes() for k in both.wanted)


@model
def times_a_number(x: np.ndarray, *, w: np.ndarray, v: np.ndarray) -> Any:
    return np.tanh(w * x) * float(v)


def test_a_number_that_was_read_has_no_adjoint() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(3).astype(np.float32) for _ in range(4)]
    both = Both(times_a_number, [xs], {"w": np.ones(3, np.float32), "v": np.ones((), np.float32)})
    assert both.error() < 1e-5
    kinds = {d.forward.operands[g.operand].kind for d in both.back.back.kernels if d is not None for g in d.outputs}
    assert kinds <= {"tensor"}


@model
def of_what_is_computed_once(k: int, x: np.ndarray, *, a: np.ndarray, b: np.ndarray, n: int, u: np.ndarray) -> Any:
    table = np.tanh(a @ b.T * np.sum(u)) @ b + a[n % 3]
    square = (b * u) @ (b[:2] * u).T @ np.maximum(b[:2], 0.1)
    return np.tanh(table[k] * x) + np.tanh(square @ x)[:2] @ np.stack([u, u]) * x


@pytest.mark.parametrize("dtype", one_in(2, FLOATS))
def test_what_is_computed_once_is_pulled_back_by_kernels_where_it_has_products(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b, u = (rng.standard_normal(shape).astype(dtype) * 0.5 for shape in ((5, 4), (6, 4), 4))
    xs = [rng.standard_normal(4).astype(dtype) for _ in range(4)]
    both = Both(of_what_is_computed_once, [[0, 4, 2, 0], xs], {"a": a, "b": b, "n": 4, "u": u})
    assert both.compiled.plan.program.once and both.possible
    assert both.error() < (1e-5 if dtype == "float32" else 1e-12)
    assert both.back.pullbacks and all(len(p.spec.results) for p in both.back.back.pullbacks.values())


def test_experts_of_a_list_have_no_matrix_for_each_node() -> None:
    both = Both(moe.route, [moe.instances(6)], {"p": moe.params(size=8)})
    assert both.error() < 1e-5
    derived = [d for d in both.back.back.kernels if d is not None]
    assert sum(t.which >= 0 for d in derived for t in d.terms) == 2
    assert all(len(g.shape) < 2 for d in derived for g in d.outputs)


@model
def chosen_matrix(x: np.ndarray, k: int, *, w: np.ndarray, out: np.ndarray) -> Any:
    return np.sum((w[k] @ x.T) * out)


def test_matrices_of_a_stack_are_chosen_by_nodes_with_different_numbers_of_columns() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 4)).astype(np.float32) for n in (1, 3, 0, 2, 3)]
    w, out = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 5, 4), (5, 1)))
    both = Both(chosen_matrix, [xs, [0, 1, 2, -1, 1]], {"w": w, "out": out})
    assert both.possible and both.error() < 1e-5


@model
def starts_of_many(xs: list[float], *, h: np.ndarray, w: np.ndarray) -> Any:
    total = np.float32(0.0)
    for x in xs:
        start = h if x > 0.0 else w[0]
        total = total + np.sum(np.tanh(start) * x)
    return total


@pytest.mark.parametrize("schedule", ["lookahead", "depth"])
def test_a_value_that_thousands_of_nodes_read(schedule: Any) -> None:
    rng = np.random.default_rng(0)
    h, w = rng.normal(size=5).astype(np.float32), rng.normal(size=(2, 5)).astype(np.float32)
    batch = [[float(x) for x in rng.normal(size=200)] for _ in range(20)]
    f = starts_of_many.with_options(schedule=schedule).value_and_grad
    for some in (batch[:1], batch):  # the second needs more room for links
        (_, grads) = f.batch(some, h=h, w=w)
        x = np.array(some)
        exact = (1 - np.tanh(h.astype(float)) ** 2) * x[x > 0].sum() / len(some)
        np.testing.assert_allclose(grads[0], exact, rtol=1e-5)
        rest = (1 - np.tanh(w[0].astype(float)) ** 2) * x[x <= 0].sum() / len(some)
        np.testing.assert_allclose(grads[1], [rest, np.zeros(5)], rtol=1e-5)
