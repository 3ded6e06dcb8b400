"""The plan: groups, merged kernels, dead code, run-time extents."""

from __future__ import annotations

from typing import Any

import pytest

from acronumba.analysis.plan import make_plan, plan_text
from acronumba.analysis.simplify import simplify
from acronumba.config import Options
from acronumba.ir import nodes as n
from acronumba.ir.spec import Dim
from acronumba.ir.types import BOOL, FLOAT, INT, ListT, TensorT, TupleT
from acronumba.ir.visit import reads, writes
from tests.support.hand import F32, Hand, program, straight, tree_lstm

VEC = TensorT(F32, (4,))


def instructions(p: n.Program) -> list[n.Instr]:
    return [i for f in p.functions for b in f.blocks for i in b.instrs]


def ops(spec: Any) -> list[str]:
    return [op.op for op in spec.body]


def test_tree_lstm_has_three_kernels() -> None:
    plan = make_plan(tree_lstm(), Options())
    assert [k.name for k in plan.kernels] == ["sentiment_2", "encode_6", "encode_16"]
    leaf, inner = plan.kernels[1:]
    assert [o.kind for o in leaf.operands] == ["int", "shared"]
    assert [o.kind for o in inner.operands] == ["tensor"] * 4 + ["shared"]
    assert len(inner.results) == 2
    assert not any(isinstance(i, n.Op) for i in instructions(plan.program))
    assert "kernel encode_16" in plan_text(plan)
    assert plan_text(plan) == plan_text(make_plan(tree_lstm(), Options()))


def test_without_blocks_each_operation_is_a_kernel() -> None:
    plan = make_plan(tree_lstm(), Options(blocks=False))
    for k in plan.kernels:
        assert sum(op not in ("concat", "slice", "take", "const") for op in ops(k)) <= 1
    emits = [i for i in instructions(plan.program) if isinstance(i, n.Emit)]
    assert len(emits) == 2 + 3 + 6


def test_equal_kernels_of_different_functions_are_one() -> None:
    sites: list[n.Site] = []
    main = Hand("main", [("x", VEC)], [VEC], sites)
    with main.block(0):
        y = main.call(1, main.params[0], outs=[VEC])
        z = main.call(2, y, outs=[VEC])
        main.ret(main.op("tanh", main.op("neg", z, shape=(4,)), shape=(4,)))
    others = []
    for name in ("g", "h"):
        f = Hand(name, [("x", VEC)], [VEC], sites)
        with f.block(0):
            f.ret(f.op("tanh", f.op("neg", f.params[0], shape=(4,)), shape=(4,)))
        others.append(f)
    plan = make_plan(program([main, *others], sites, [VEC], VEC), Options())
    assert len(plan.kernels) == 1
    assert [use.loc.function for use in plan.uses[0]] == ["main", "g", "h"]


def test_constants_of_different_types_are_different_kernels() -> None:
    def make(value: Any) -> Any:
        return lambda f: f.op("cast", f.op("const", attrs=(value,), dtype="float64"), dtype="float64")

    scalar = TensorT("float64", ())
    sites: list[n.Site] = []
    main = Hand("main", [], [scalar] * 4, sites)
    with main.block(0):
        main.ret(*(main.call(1 + k, outs=[scalar]) for k in range(4)))
    others = []
    for name, value in (("a", 1), ("b", 1.0), ("c", 0.0), ("d", -0.0)):
        f = Hand(name, [], [scalar], sites)
        with f.block(0):
            f.ret(make(value)(f))
        others.append(f)
    plan = make_plan(program([main, *others], sites, [], TupleT((scalar,) * 4)), Options())
    assert len(plan.kernels) == 4


def test_dead_code_goes() -> None:
    def make(f: Hand, x: n.Var, k: n.Var) -> n.Var:
        f.op("exp", f.op("neg", x, shape=(4,)), shape=(4,))
        f.const(3)
        f.scalar("lt", k, k)
        f.list_new(INT, k)
        return f.op("tanh", x, shape=(4,))

    plan = make_plan(straight(make, [("x", VEC), ("k", INT)], [VEC], VEC), Options())
    (emit,) = instructions(plan.program)
    assert isinstance(emit, n.Emit)
    assert ops(plan.kernels[0]) == ["tanh"]


def test_what_may_fail_stays() -> None:
    def make(f: Hand, x: n.Var, k: n.Var) -> n.Var:
        f.row(x, k, 4)
        f.scalar("add", k, k)
        return x

    plan = make_plan(straight(make, [("x", VEC), ("k", INT)], [VEC], VEC), Options())
    kinds = [type(i).__name__ for i in instructions(plan.program)]
    assert sorted(kinds) == ["Emit", "Scalar"]
    assert ops(plan.kernels[0]) == ["const", "index"]


def test_host_instructions_go_before_kernels() -> None:
    """An append of a tensor waits for its kernel; what comes after it in the text and needs no tensor does not."""

    def make(f: Hand, x: n.Var, k: n.Var) -> tuple[n.Var, ...]:
        xs = f.list_new(VEC)
        a = f.op("tanh", x, shape=(4,))
        f.list_op("append", xs, a)
        f.check(f.scalar("gt", k, f.const(0)), "ValueError", "k is {0}", k)
        b = f.op("exp", x, shape=(4,))
        f.list_op("append", xs, b)
        return f.op("add", a, b, shape=(4,)), f.list_op("get", xs, f.const(0), outs=[VEC])

    plan = make_plan(straight(make, [("x", VEC), ("k", INT)], [VEC, VEC], TupleT((VEC, VEC))), Options())
    kinds = [type(i).__name__ for i in instructions(plan.program)]
    assert kinds.count("Emit") == 1
    assert kinds.index("Check") < kinds.index("Emit") < kinds.index("ListOp")
    assert sorted(ops(plan.kernels[0])) == ["add", "exp", "tanh"]
    assert len(plan.kernels[0].results) == 3


def test_kernels_around_a_call() -> None:
    sites: list[n.Site] = []
    main = Hand("main", [("x", VEC)], [VEC], sites)
    with main.block(0):
        a = main.op("tanh", main.params[0], shape=(4,))
        r = main.call(1, a, outs=[VEC])
        b = main.op("exp", main.params[0], shape=(4,))
        main.ret(main.op("add", main.op("mul", a, b, shape=(4,)), r, shape=(4,)))
    f = Hand("g", [("x", VEC)], [VEC], sites)
    with f.block(0):
        f.ret(f.op("sin", f.params[0], shape=(4,)))
    plan = make_plan(program([main, f], sites, [VEC], VEC), Options())
    first, second, g = plan.kernels
    assert sorted(ops(first)) == ["exp", "mul", "tanh"]
    assert ops(second) == ["add"]
    assert ops(g) == ["sin"]


def test_a_constant_that_leaves_is_computed_once_for_all() -> None:
    sites: list[n.Site] = []
    h = Hand("f", [("x", VEC), ("c", BOOL)], [VEC], sites)
    x, c = h.params
    with h.block(0):
        zero = h.op("broadcast", h.op("const", attrs=(0.0,)), shape=(4,))
        w = h.op("transpose", 0, shape=(4, 4), attrs=((1, 0),))
        h.branch(c, 1, 2)
    with h.block(1):
        h.ret(h.op("add", h.op("matmul", x, w, shape=(4,)), zero, shape=(4,)))
    with h.block(2):
        h.ret(zero)
    p = program([h], sites, [VEC, BOOL], VEC, shared=[("w", TensorT(F32, (4, 4)))])
    plan = make_plan(p, Options())
    assert sorted(sorted(ops(k)) for k in plan.kernels) == [
        ["add", "matmul", "transpose"],
        ["broadcast", "const"],
    ]
    by = {len(k.body): k for k in plan.kernels}
    assert by[2].operands == ()
    assert [plan.kernels[o.kernel] for o in plan.program.once] == [by[2]]
    assert [o.kind for o in by[3].operands] == ["tensor", "shared", "shared"]


def test_run_time_extents_are_numbered_once() -> None:
    vec = TensorT(F32, (None,))

    def make(f: Hand, x: n.Var, y: n.Var, k: n.Var) -> tuple[n.Var, ...]:
        m = f.extent(x, 0)
        f.check(f.scalar("eq", m, f.extent(y, 0)), "ValueError", "lengths differ")
        z = f.op("add", x, y, shape=(m,))
        part = f.op("slice", z, shape=(k,), attrs=((k,), (1,)))
        tail = f.op("slice", z, shape=(2,), attrs=((f.scalar("sub", m, k),), (1,)))
        return f.op("tanh", z, shape=(m,)), part, tail, f.extent(z, 0)

    p = straight(make, [("x", vec), ("y", vec), ("k", INT)], [vec, vec, TensorT(F32, (2,)), INT], TupleT((vec,)))
    plan = make_plan(p, Options())
    (spec,) = plan.kernels
    (emit,) = [i for i in instructions(plan.program) if isinstance(i, n.Emit)]
    # The extents of x, of y and k; the start of the tail is a number of each node.
    assert spec.dims == 3 and len(emit.dims) == 3
    assert [o.kind for o in spec.operands] == ["tensor", "tensor", "int"]
    assert spec.operands[0].shape == (Dim(0),) and spec.operands[1].shape == (Dim(1),)
    starts = [op.attrs[0] for op in spec.body if op.op == "slice"]
    assert starts == [(Dim(2),), (("value", 2),)]
    # The extent of z is that of x: no instruction asks the tensor that is still to be computed.
    assert sum(isinstance(i, n.ExtentOf) for i in instructions(plan.program)) == 2


def test_extents_of_values_that_change_in_a_loop() -> None:
    """h = concat(h, x) in a loop: the extent of h is asked anew in each turn."""
    vec = TensorT(F32, (None,))
    sites: list[n.Site] = []
    f = Hand("f", [("x", vec), ("k", INT)], [vec], sites)
    x, k = f.params
    h, i = f.var("h", vec), f.var("i", INT)
    with f.block(0):
        f.copy(h, x)
        f.copy(i, f.const(0))
        f.jump(1)
    with f.block(1):
        f.branch(f.scalar("lt", i, k), 2, 3)
    with f.block(2):
        size = f.scalar("add", f.extent(h, 0), f.extent(x, 0))
        f.copy(h, f.op("concat", h, x, shape=(size,), attrs=(0,)))
        f.copy(i, f.scalar("add", i, f.const(1)))
        f.jump(1)
    with f.block(3):
        f.ret(f.op("tanh", h, shape=(f.extent(h, 0),)))
    plan = make_plan(program([f], sites, [vec, INT], vec), Options())
    concat, tanh = plan.kernels
    assert concat.dims == 3 and tanh.dims == 1
    loop = plan.program.functions[0].blocks[2].instrs
    assert any(isinstance(i, n.ExtentOf) and i.tensor.name == "h" for i in loop)


def test_extents_that_a_loop_changes() -> None:
    """A slice of as many elements as the loop's counter says.

    Within a turn it is one kernel with what reads it; when the counter has moved on, the extent is asked of the slice.
    """
    vec = TensorT(F32, (None,))
    sites: list[n.Site] = []
    f = Hand("f", [("x", TensorT(F32, (9,))), ("k", INT)], [vec], sites)
    x, k = f.params
    i = f.var("i", INT)
    with f.block(0):
        f.copy(i, f.const(1))
        f.jump(1)
    with f.block(1):
        part = f.op("slice", x, shape=(i,), attrs=((0,), (1,)))
        both = f.op("neg", part, shape=(i,))
        f.copy(i, f.scalar("add", i, f.const(1)))
        f.branch(f.scalar("lt", i, k), 1, 2)
    with f.block(2):
        f.ret(f.op("tanh", both, shape=(f.extent(both, 0),)))
    plan = make_plan(program([f], sites, [TensorT(F32, (9,)), INT], vec), Options())
    assert [ops(s) for s in plan.kernels] == [["slice", "neg"], ["tanh"]]
    asked = [e for e in instructions(plan.program) if isinstance(e, n.ExtentOf)]
    assert [e.tensor.name for e in asked] == ["neg"]
    turn = plan.program.functions[0].blocks[1].instrs
    names = [type(e).__name__ for e in turn]
    assert names.index("Emit") < names.index("Copy")


def test_host_constants_are_constants_of_the_kernel() -> None:
    def make(f: Hand, x: n.Var, v: n.Var) -> n.Var:
        y = f.op("mul", x, f.op("cast", f.const(2.0), dtype=F32), shape=(4,))
        y = f.op("mul", y, f.op("cast", v, dtype=F32), shape=(4,))
        return f.op("take", y, f.const(1), attrs=(0,))

    plan = make_plan(straight(make, [("x", VEC), ("v", FLOAT)], [TensorT(F32, ())], TensorT(F32, ())), Options())
    (spec,) = plan.kernels
    assert [o.kind for o in spec.operands] == ["tensor", "float"]
    assert [op.attrs for op in spec.body if op.op == "const"] == [(2.0,), (1,)]
    assert not any(isinstance(i, n.Const) for i in instructions(plan.program))


def test_common_operations_are_computed_once() -> None:
    def make(f: Hand, x: n.Var) -> tuple[n.Var, ...]:
        return f.op("tanh", x, shape=(4,)), f.op("tanh", x, shape=(4,))

    plan = make_plan(straight(make, [("x", VEC)], [VEC, VEC], TupleT((VEC, VEC))), Options())
    assert ops(plan.kernels[0]) == ["tanh"]
    assert [type(i).__name__ for i in instructions(plan.program)] == ["Emit", "Copy"]


def test_blocks_are_merged_and_jumps_threaded() -> None:
    sites: list[n.Site] = []
    f = Hand("f", [("c", BOOL), ("x", INT)], [INT], sites)
    c, x = f.params
    out = f.var("out", INT)
    with f.block(0):
        f.branch(c, 1, 2)
    with f.block(1):
        f.jump(3)
    with f.block(2):
        f.jump(3)
    with f.block(3):
        f.copy(out, x)
        f.branch(f.const(True), 4, 5)
    with f.block(4):
        f.jump(6)
    with f.block(5):
        f.fail("AssertionError", "never")
    with f.block(6):
        f.ret(out)
    done = simplify(f.function())
    assert len(done.blocks) == 1
    assert isinstance(done.blocks[0].end, n.Return)


def test_loops_keep_their_heads() -> None:
    sites: list[n.Site] = []
    f = Hand("f", [("xs", ListT(VEC))], [VEC], sites)
    (xs,) = f.params
    h, i = f.var("h", VEC), f.var("i", INT)
    with f.block(0):
        f.copy(h, f.op("broadcast", f.op("const", attrs=(0.0,)), shape=(4,)))
        f.copy(i, f.const(0))
        f.jump(1)
    with f.block(1):
        f.branch(f.scalar("lt", i, f.list_op("len", xs, outs=[INT])), 2, 3)
    with f.block(2):
        x = f.list_op("get", xs, i, outs=[VEC])
        f.copy(h, f.op("tanh", f.op("add", h, x, shape=(4,)), shape=(4,)))
        f.copy(i, f.scalar("add", i, f.const(1)))
        f.jump(1)
    with f.block(3):
        f.ret(h)
    plan = make_plan(program([f], sites, [ListT(VEC)], VEC), Options())
    blocks = plan.program.functions[0].blocks
    assert len(blocks) == 4
    assert len(plan.kernels) == 2
    emit, copy = blocks[2].instrs[-2:]
    assert isinstance(emit, n.Emit) and isinstance(copy, n.Copy) and copy.src is emit.outs[0]


@pytest.mark.parametrize("blocks", [True, False])
def test_every_reference_is_assigned_before(blocks: bool) -> None:
    """Straight-line code: after planning, everything is still defined before it is read."""
    plan = make_plan(tree_lstm(), Options(blocks=blocks))
    for f in plan.program.functions:
        for b in f.blocks:
            inside = {v for i in b.instrs for v in writes(i)}
            seen = set(f.params)
            for i in (*b.instrs, b.end):
                assert all(v in seen or v not in inside for v in reads(i))
                if not isinstance(i, n.Return | n.Jump | n.Branch | n.Fail):
                    seen |= set(writes(i))
