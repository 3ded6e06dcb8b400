"""Hoisting: what is not carried does not wait for what is, what does not change leaves its loop, and nothing else
changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model, nn
from acronumba.analysis.simplify import simplify
from acronumba.analysis.value_flow import components, in_cycles, value_flow
from acronumba.ir import nodes as n
from acronumba.ir.graph import loops
from acronumba.ir.interpret import InstanceFailure, Interpreter
from acronumba.ir.types import BOOL, INT, ListT, TensorT
from acronumba.zoo import birnn
from tests.support.hand import F32, Hand, program

Array = np.ndarray
H = 8
VEC = TensorT(F32, (H,))


@dataclass
class Params:
    w: Array  # [H, H]
    u: Array  # [H, H]
    v: Array  # [H, H]
    out: Array  # [3, H]
    b: Array  # [H]
    embed: Array  # [1000, H]: larger than tables of products


def params() -> Params:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 3).astype(np.float32)

    return Params(normal(H, H), normal(H, H), normal(H, H), normal(3, H), normal(H), normal(1000, H))


def vectors(*lengths: int) -> list[list[Array]]:
    rng = np.random.default_rng(1)
    return [[rng.standard_normal(H).astype(np.float32) for _ in range(k)] for k in lengths]


XS = vectors(3, 0, 5, 1, 7)
WORDS = sum(map(len, XS))


@dataclass
class Tree:
    word: int
    children: list[Tree]


def tree(rng: np.random.Generator, depth: int) -> Tree:
    return Tree(int(rng.integers(10)), [tree(rng, depth - 1) for _ in range(rng.integers(0, 3) if depth else 0)])


TREES = [tree(np.random.default_rng(k), 4) for k in range(5)]


def count(t: Tree) -> int:
    return 1 + sum(map(count, t.children))


def ends(t: Tree) -> int:
    return sum(map(ends, t.children)) if t.children else 1


@model
def rnn(xs: list[Array], *, p: Params) -> Any:
    """With the classifier in the loop."""
    h = p.b
    out = []
    for x in xs:
        h = np.tanh(p.w @ x + p.b + p.u @ h)
        out.append(nn.softmax(p.out @ h))
    return out


@model
def stacked(xs: list[Array], *, p: Params) -> Any:
    a = b = p.b
    for x in xs:
        a = np.tanh(p.w @ x + p.u @ a)
        b = np.tanh(p.v @ a + p.w @ b)
    return b


@model
def layers(xs: list[Array], *, p: Params) -> Any:
    a = b = p.b
    states = []
    for x in xs:
        a = np.tanh(p.w @ x + p.u @ a)
        states.append(a)
    for s in states:
        b = np.tanh(p.v @ s + p.w @ b)
    return b


@model
def delayed(xs: list[Array], *, p: Params) -> Any:
    """A step reads what the step before made, and does not pass it on: nothing is carried."""
    a = b = p.b
    for x in xs:
        b = p.v @ a
        a = p.w @ x
    return b


@model
def nested(xs: list[Array], steps: int, *, p: Params) -> Any:
    h = p.b
    for x in xs:
        for _ in range(steps):
            h = np.tanh(p.u @ h + p.w @ x + p.b)
    return h


def encode(t: Tree, p: Params) -> Any:
    total = p.b * 0
    for child in t.children:
        total = total + encode(child, p)
    return np.tanh(p.w @ p.embed[t.word] + p.u @ total)


@model
def tree_rnn(t: Tree, *, p: Params) -> Any:
    return p.out @ encode(t, p)


def even(xs: list[Array], k: int, h: Array, p: Params) -> Any:
    return h if k == 0 else odd(xs, k - 1, np.tanh(p.u @ h + p.w @ xs[k - 1]), p)


def odd(xs: list[Array], k: int, h: Array, p: Params) -> Any:
    return h if k == 0 else even(xs, k - 1, np.tanh(p.v @ h + p.w @ xs[k - 1]), p)


@model
def mutual(xs: list[Array], *, p: Params) -> Any:
    return even(xs, len(xs), p.b, p)


@model
def views(xs: list[Array], a: Array, *, p: Params) -> Any:
    """Products with a matrix of the instance, whose bits depend on how it lies."""
    h = p.b
    for x in xs:
        t = a.T
        h = np.tanh(t @ h + t @ x)
    return h


@model
def cheap(xs: list[Array], *, p: Params) -> Any:
    h = p.b
    out = []
    for x in xs:
        y = np.tanh(x) * 2
        h = np.tanh(p.u @ h + y)
        out.append(h + 1)
    return out


MATRIX = [np.random.default_rng(k).standard_normal((H, H)).astype(np.float32) for k in range(5)]
CASES: dict[str, tuple[Any, Sequence[Sequence[Any]]]] = {
    "rnn": (rnn, [XS]),
    "stacked": (stacked, [XS]),
    "layers": (layers, [XS]),
    "delayed": (delayed, [XS]),
    "nested": (nested, [XS, [2, 3, 0, 1, 4]]),
    "tree_rnn": (tree_rnn, [TREES]),
    "mutual": (mutual, [XS]),
    "views": (views, [XS, MATRIX]),
    "cheap": (cheap, [XS]),
}


def arrays(x: Any) -> list[Array]:
    return [y for item in x for y in arrays(item)] if isinstance(x, list | tuple) else [np.asarray(x)]


def compiled(f: Any, columns: Sequence[Sequence[Any]]) -> Any:
    return f.stages(*columns, p=params())._compiled


def sizes(f: Any, columns: Sequence[Sequence[Any]]) -> list[tuple[str, int]]:
    """Return operations and size of each batch."""
    data = f.with_options(equal=False).trace(*columns, p=params())
    for producer, consumer in data.data.edges:
        at = [(data.data.phase[v], data.data.depth[v]) for v in (producer, consumer)]
        assert at[0] < at[1]
    ops = {
        name: " ".join(op.op for op in spec.body) for name, spec in zip(data.data.kernels, data.data.specs, strict=True)
    }
    assert sum(b.size for b in data.batches) == data.nodes
    return [(ops[b.kernel], b.size) for b in data.batches]


@pytest.mark.parametrize("name", list(CASES))
def test_the_plan_computes_the_same_bits(name: str) -> None:
    f, columns = CASES[name]
    results = []
    for hoist in (True, False):
        c = compiled(f.with_options(hoist=hoist), columns)
        run = Interpreter(c.plan.program, c.guard.leaves({"p": params()}), kernels=c.plan.kernels)
        results.append([run.run(args) for args in zip(*columns, strict=True)])
    for a, b, args in zip(*results, zip(*columns, strict=True), strict=True):
        for x, y, z in zip(arrays(a), arrays(b), arrays(f(*args, p=params())), strict=True):
            assert x.tobytes() == y.tobytes()
            np.testing.assert_allclose(x, z, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["rnn", "views", "nested"])
def test_machine_code_computes_the_same_bits(name: str) -> None:
    f, columns = CASES[name]
    on, off = (list(f.with_options(hoist=h).batch(*columns, p=params())) for h in (True, False))
    assert [x.tobytes() for x in arrays(on)] == [x.tobytes() for x in arrays(off)]


def test_birnn_has_one_batch_of_projections_and_of_classifiers() -> None:
    xs, p = birnn.instances(6), birnn.params(16)
    words = sum(map(len, xs))
    longest = max(map(len, xs))
    on, off = (birnn.tag.with_options(hoist=h, equal=False).trace(xs, p=p) for h in (True, False))
    whole = [b for b in on.batches if b.size == words]
    assert len(whole) == 4  # word vectors, two projections, classifier
    assert len(on.batches) == 4 + 2 * longest == on.lower_bound
    assert len(off.batches) == 2 + 2 * longest
    hoisted = [note for note in birnn.tag.stages(xs, p=p)._compiled.plan.notes if note.kind == "hoisted"]
    assert {note.loc.function for note in hoisted} == {"read"}


def test_a_classifier_in_the_loop_is_one_batch() -> None:
    assert [ops for ops, size in sizes(rnn, [XS]) if size == WORDS] == [
        "matmul add",
        "matmul max reshape scale_gradient sub exp sum reshape div",
    ]
    assert len(sizes(rnn, [XS])) == 2 + max(map(len, XS))
    notes = [note.text for note in compiled(rnn, [XS]).plan.notes if note.kind == "hoisted"]
    assert [text.partition(":")[0] for text in notes] == [
        "does not depend on earlier steps",
        "no later step depends on it",
    ]


def test_recursion() -> None:
    found = sizes(tree_rnn, [TREES])
    leaves = sum(map(ends, TREES))  # what they multiply is not what the others do: no sum of children
    assert ("take matmul", sum(map(count, TREES)) - leaves) in found and ("take matmul add tanh", leaves) in found
    assert ("matmul", len(TREES)) in found
    found = sizes(mutual, [XS])
    assert sum(ops == "matmul" for ops, _ in found) == 1  # the first two steps start from a shared vector


def test_products_between_layers_are_one_batch() -> None:
    found = sizes(layers, [XS])
    assert sum(size == WORDS for _, size in found) == 2
    assert len(found) == 2 + 2 * max(map(len, XS))


def test_what_lies_between_two_cells_of_one_step_stays() -> None:
    """Set free it would make the cells run one after the other."""
    found = sizes(stacked, [XS])
    assert len(found) == 1 + max(map(len, XS))


def test_what_a_step_passes_to_the_next_alone_is_not_carried() -> None:
    found = sizes(delayed, [XS])
    assert [size for _, size in found if size > 1] == [WORDS, WORDS]


def test_element_wise_operations_stay() -> None:
    """They are not worth a node, nor a store and a load."""
    on, off = (compiled(cheap.with_options(hoist=h), [XS]).plan for h in (True, False))
    assert [len(k.body) for k in on.kernels] == [len(k.body) for k in off.kernels]


def test_invariants_leave_inner_loops() -> None:
    columns = CASES["nested"][1]
    found = sizes(nested, columns)
    assert ("matmul", WORDS) in found
    kinds = [note.kind for note in compiled(nested, columns).plan.notes]
    assert [kind for kind in kinds if kind in ("hoisted", "moved")] == ["moved"]

    @model
    def three(xs: list[Array], q: Array, *, p: Params) -> Any:
        total = p.b
        for x in xs:
            for _ in range(2):
                for _ in range(2):
                    total = np.tanh(p.u @ total + p.v @ (p.w @ q) + p.out[0, 0] * x)
        return total

    found = sizes(three, [XS, [x[0] if x else XS[0][0] for x in XS]])
    assert sum(size for ops, size in found if "matmul matmul" in ops) == len(XS)  # once for each instance


# ---- nothing that can fail is computed where the plain call would not compute it


def agrees(f: Any, *columns: Sequence[Any]) -> None:
    """Fail unless batch and plain call fail for the same instances and agree on the others."""
    want: list[Any] = []
    for args in zip(*columns, strict=True):
        try:
            want.append(f(*args, p=params()))
        except (IndexError, ValueError) as e:
            want.append(type(e))
    c = compiled(f, columns)
    run = Interpreter(c.plan.program, c.guard.leaves({"p": params()}), kernels=c.plan.kernels)
    for args, w in zip(zip(*columns, strict=True), want, strict=True):
        if isinstance(w, type):
            with pytest.raises(InstanceFailure):
                run.run(args)
        else:
            np.testing.assert_allclose(run.run(args), w, rtol=1e-5)
    try:
        results = f.batch(*columns, p=params())
        errors: Any = {}
    except InstanceErrors as e:
        results, errors = e.results, e.errors
    assert set(errors) == {k for k, w in enumerate(want) if isinstance(w, type)}
    for k, w in enumerate(want):
        if not isinstance(w, type):
            np.testing.assert_allclose(results[k], w, rtol=1e-5)


@model
def late_index(xs: list[Array], k: int, *, p: Params) -> Any:
    h = p.b
    for x in xs:
        h = h + p.w @ p.embed[k] + x
    return h


@model
def late_shape(xs: list[Array], y: Array, z: Array, *, p: Params) -> Any:
    h = p.b
    for x in xs:
        h = h * (y @ z) + x
    return h


@model
def late_none(xs: list[Array], y: Array | None, *, p: Params) -> Any:
    h = p.b
    for x in xs:
        if y is not None:
            h = np.tanh(h + p.w @ y)
        h = h + x
    return h


def test_what_may_fail_stays_in_its_loop() -> None:
    agrees(late_index, XS, [0, 1999, 3, -1001, 9])
    long, short = np.ones(4, np.float32), np.ones(3, np.float32)
    agrees(late_shape, XS, [long, long, short, long, short], [long, short, short, short, short])
    agrees(late_none, XS, [None, None, XS[0][0], None, XS[0][1]])


@model
def with_optional(xs: list[Array], k: int, *, p: Params) -> Array:
    y = np.tanh(p.b * k) if k > 0 else None
    h = np.zeros(H, np.float32)
    for x in xs:
        h = np.tanh(h + p.w @ y + x)
    return h


def test_what_may_be_none_stays_in_its_loop() -> None:
    """A loop that makes no turn asks nothing of what it would read."""
    p, signs = params(), [1, -1, 2, 3, 1]
    expected = [with_optional(xs, k, p=p) for xs, k in zip(XS, signs, strict=True)]
    for results in (with_optional._interpret(XS, signs, p=p), with_optional.batch(XS, signs, p=p)):
        assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(results, expected, strict=True))


def test_the_first_failure_is_reported() -> None:
    """A kernel that was set free is recorded before the step, and may fail later in the text."""

    @model
    def both(xs: list[Array], *, p: Params) -> Any:
        h = p.b
        for x in xs:
            first = np.argmax(h) + 2000  # beyond the end
            h = np.tanh(p.u @ h + p.embed[first])
            second = np.argmax(x) + 3000
            h = h + p.w @ p.embed[second]
        return h

    with pytest.raises(InstanceErrors) as e:
        both.batch([XS[0]], p=params())
    with pytest.raises(IndexError) as plain:
        both(XS[0], p=params())
    assert str(e.value.errors[0]) == str(plain.value)


# ---- the graph


def test_components() -> None:
    graph = [{1}, {2}, {1, 3}, set(), {4}, {0, 4}]
    parts = components(graph)
    assert sorted(map(sorted, parts)) == [[0], [1, 2], [3], [4], [5]]
    place = {v: k for k, part in enumerate(parts) for v in part}
    assert all(place[u] <= place[v] for v in range(6) for u in graph[v])
    cycles = in_cycles(graph)
    assert [c >= 0 for c in cycles] == [False, True, True, False, True, False]
    assert cycles[1] == cycles[2] != cycles[4]


def test_a_helper_that_is_called_twice_is_no_cycle() -> None:
    @model
    def twice(x: Array, *, p: Params) -> Any:
        def helper(y: Array) -> Any:
            return np.tanh(p.w @ y)

        return helper(helper(x))

    flow = value_flow(compiled(twice, [XS[0]]).program)
    assert set(in_cycles([flow.operands(k) for k in range(len(flow.nodes))])) == {-1}


def test_lists_and_rows_are_told_apart_by_where_they_are_made() -> None:
    flow = value_flow(compiled(layers, [XS]).program)
    cycle = in_cycles([flow.operands(k) for k in range(len(flow.nodes))])
    assert Counter(c >= 0 for c in cycle) == {True: 6, False: 2}  # free: `w @ x` and `v @ s`
    assert len(set(cycle)) == 3


def test_values_travel_through_calls_lists_and_rows() -> None:
    @dataclass
    class Pair:
        h: Array
        c: Array

    sites: list[n.Site] = []
    main = Hand("main", [("x", VEC)], [VEC], sites)
    layout = n.StructLayout(
        cls=Pair,
        fields=tuple(n.FieldLayout(name=name, type=VEC, offset=1 + k, width=1) for k, name in enumerate("hc")),
        size=3,
    )
    with main.block(0):
        a = main.op("tanh", main.params[0], shape=(H,))  # 0
        b = main.op("exp", main.params[0], shape=(H,))  # 1
        row = main.new(Pair, a, b)
        c = main.op("sin", main.load(row, "c", VEC, cls=Pair), shape=(H,))  # 2: reads b
        xs = main.list_new(VEC, a)
        main.list_op("append", xs, c)
        ys = main.list_op("slice", xs, *(main.const(k) for k in (0, 1, 2)), outs=[ListT(VEC)])
        zs = main.list_new(VEC, b)
        main.list_op("extend", zs, ys)
        d = main.op("sin", main.list_op("get", zs, main.const(0), outs=[VEC]), shape=(H,))  # 3: reads a, b, c
        main.ret(main.call(1, d, outs=[VEC]))
    f = Hand("f", [("y", VEC)], [VEC], sites)
    with f.block(0):
        e = f.op("neg", f.params[0], shape=(H,))  # 4: reads d
        f.ret(e)
    flow = value_flow(program([main, f], sites, [VEC], VEC, layouts=[layout]))
    assert [sorted(flow.operands(k)) for k in range(5)] == [[], [], [1], [0, 1, 2], [3]]


def test_loops_of_a_graph() -> None:
    sites: list[n.Site] = []
    f = Hand("f", [("k", INT), ("c", BOOL)], [INT], sites)
    for number, to in enumerate([(1,), (2, 4), (2, 3), (1,)]):
        with f.block(number):
            f.jump(to[0]) if len(to) == 1 else f.branch(f.params[1], *to)
    with f.block(4):
        f.ret(f.params[0])
    assert loops(f.function().blocks) == {1: {1, 2, 3}, 2: {2}}
    assert loops(simplify(f.function()).blocks).keys() == {1, 2}
