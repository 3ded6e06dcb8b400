"""The switches of the kernel generator: equal bits whatever they say, and what each of them changes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.api.check import together
from acronumba.config import Options
from acronumba.emit import target as targets
from acronumba.emit.text import module_text
from acronumba.errors import Loc
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels import cpu
from acronumba.kernels.account import account, fusion_notes, stages_text
from acronumba.kernels.stages.constants import fold
from acronumba.kernels.tiles import narrow
from acronumba.strategy import DEFAULT, Strategy
from acronumba.zoo import mv_rnn, tree_lstm
from tests.support.chosen import half, one_in
from tests.support.kernel_cases import PRODUCTS, attention, cell, close, evaluate, inputs
from tests.support.kernel_fuzz import Cell, Fuzz
from tests.support.kernel_runs import SpecBuilder, compile_all, interpreted

EVERY = [Strategy(vertical=v, horizontal=h, gather=g) for v, h, g in itertools.product((True, False), repeat=3)]
OFF = {name: Strategy(**{name: False}) for name in ("vertical", "horizontal", "gather")}


def text(spec: KernelSpec, strategy: Strategy) -> str:
    return module_text(cpu.generate(spec, targets.host(), strategy).module)


def kinds(spec: KernelSpec, strategy: Strategy = DEFAULT) -> list[str]:
    return [stage.kind for stage in account(spec, strategy, extents=(3,) * spec.dims).stages]


def same(spec: KernelSpec, rows: Any, shared: Any, dims: Any, compiled: bool) -> None:
    """Check that all settings give the same failures and, where there are none, the same bits."""
    runs = compile_all([spec], strategies=EVERY) if compiled else [interpreted(spec, strategy=f) for f in EVERY]
    with np.errstate(all="ignore"):
        wanted, failed = runs[0](rows, shared, dims)
        for strategy, run in zip(EVERY[1:], runs[1:], strict=True):
            results, failures = run(rows, shared, dims)
            assert (failures == failed).all(), strategy
            for a, b in zip(wanted, results, strict=True):
                a, b = a[failed == 0], b[failed == 0]
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (spec.name, strategy)


# ---- equal bits


@pytest.mark.parametrize("seed", half([0, 10, 2, 4]))
def test_random_kernels_have_the_same_bits(seed: int) -> None:
    for k in range(2):
        for fuzz in (Fuzz(seed + k), Fuzz(5000 + seed + k, 10, **PRODUCTS)):
            same(fuzz.spec, *fuzz.operands(2), fuzz.dims, compiled=False)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_cells_have_the_same_bits_compiled(seed: int) -> None:
    fuzz = Cell(400 + seed)
    same(fuzz.spec, *fuzz.operands(5), fuzz.dims, compiled=True)


@pytest.mark.parametrize("length", [1, 17, 60])
def test_a_run_time_extent_has_the_same_bits(length: int) -> None:
    spec = attention(20)
    same(spec, *inputs(spec, 50 if length == 60 else 3, (length,)), (length,), compiled=length == 60)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_how_a_product_is_summed_does_not_depend_on_what_is_stored(dtype: str, turned: bool, left: bool) -> None:
    """A node's own computed matrix, as it is and transposed, on either side of a vector."""
    b = SpecBuilder("own")
    a, c, x = b.tensor("a", 40, 40, dtype=dtype), b.tensor("c", 40, 40, dtype=dtype), b.tensor("x", 40, dtype=dtype)
    m = b.op("mul", a, c, shape=(40, 40), dtype=dtype)
    if turned:
        m = b.op("transpose", m, shape=(40, 40), dtype=dtype, attrs=((1, 0),))
    args = (x, m) if left else (m, x)
    spec = b.spec(b.op("matmul", *args, shape=(40,), dtype=dtype))
    rows, _ = inputs(spec, 3)
    same(spec, rows, {}, (), compiled=False)
    assert close(interpreted(spec)(rows)[0][0][1], evaluate(spec, rows[1], {})[0])


def bits(results: Any) -> list[Any]:
    return [[(str(leaf), np.asarray(leaf.value).tobytes()) for (leaf,) in together(r)] for r in results]


COVERING = [(False, True, True), (True, False, True), (True, True, False), (False, False, False)]


@pytest.mark.parametrize(("module", "name"), one_in(2, [(tree_lstm, "sentiment"), (mv_rnn, "sentiment")]))
def test_models_have_the_same_bits(module: Any, name: str) -> None:
    f, p, xs = getattr(module, name), module.params(16), module.instances(5, seed=3)
    want = bits(f.batch(xs, p=p))
    for fuse, horizontal, gather in COVERING if module is tree_lstm else COVERING[-1:]:
        off = f.with_options(fuse=fuse, horizontal=horizontal, gather_fusion=gather)
        assert bits(off.batch(xs, p=p)) == want


# ---- vertical


def test_without_vertical_fusion_every_operation_is_a_stage() -> None:
    spec = cell(40)
    assert kinds(spec) == ["product"]
    stages = account(spec, OFF["vertical"]).stages
    operations = sum(op.op not in ("slice", "const") for op in spec.body)
    assert len(stages) == operations
    assert text(spec, OFF["vertical"]).count("def stage_") == operations
    per_stage = [[spec.body[k].op for k in stage.operations if spec.body[k].op != "slice"] for stage in stages]
    assert all(len(ops) == 1 for ops in per_stage)


def test_without_vertical_fusion_intermediate_values_are_stored() -> None:
    spec = cell(40)
    on, off = account(spec), account(spec, OFF["vertical"])
    assert on.scratch == 0 and off.scratch > 10 * 40 * 4
    assert (on.flops, on.written) == (off.flops, off.written)


# ---- horizontal


def two_lefts(same_weight: bool, chained: bool = False) -> KernelSpec:
    b = SpecBuilder("two")
    x, y, w, u = b.tensor("x", 40), b.tensor("y", 40), b.shared("w", 40, 40), b.shared("u", 40, 40)

    def dense(weight: int, v: int) -> int:
        return b.op("tanh", b.op("matmul", weight, v, shape=(40,)), shape=(40,))

    one = dense(w, x)
    if chained:
        return b.spec(dense(w, b.op("add", one, y, shape=(40,))))
    return b.spec(one, dense(w if same_weight else u, y if same_weight else x))


def test_products_with_one_left_operand_or_one_weight_share_a_stage() -> None:
    for same_weight in (False, True):
        spec = two_lefts(same_weight)
        assert kinds(spec) == ["product"]
        assert kinds(spec, OFF["horizontal"]) == ["product", "product"]


def test_a_product_that_another_feeds_does_not_share_its_stage() -> None:
    assert kinds(two_lefts(True, chained=True)) == ["product", "product"]


def test_a_product_fed_indirectly_does_not_share_a_stage() -> None:
    """`w @ x`, and `u @ x` plus what a reduction makes of it, and `w` again on that: the last must wait."""
    b = SpecBuilder("indirect")
    x, w, u = b.tensor("x", 40), b.shared("w", 40, 40), b.shared("u", 40, 40)
    one = b.op("matmul", w, x, shape=(40,))
    top = b.op("max", b.op("matmul", u, x, shape=(40,)), shape=(), attrs=((0,),))
    spec = b.spec(one, b.op("matmul", w, b.op("mul", x, top, shape=(40,)), shape=(40,)))
    assert kinds(spec) == ["product", "loops", "product"]
    same(spec, *inputs(spec, 3), (), compiled=False)


def test_a_shared_weight_is_read_once_for_several_operands() -> None:
    spec = two_lefts(True)
    weight = 40 * 40 * 4
    assert account(spec, nodes=48).shared == weight
    assert account(spec, OFF["horizontal"], nodes=48).shared == 2 * weight
    assert account(spec, nodes=49).shared == 2 * weight, "once per block"
    code = cpu.generate(spec, targets.host())
    assert len([use for use in code.shared if use.packing is not None]) == 1
    assert module_text(code.module).count("call_address(") == 1


@pytest.mark.parametrize("length", [1, 7])
def test_a_weight_is_shared_by_operands_of_a_run_time_length(length: int) -> None:
    b = SpecBuilder("rows", dims=1)
    x, y, w = b.tensor("x", Dim(0), 24), b.tensor("y", Dim(0), 24), b.shared("w", 24, 40)
    one, two = (b.op("matmul", v, w, shape=(Dim(0), 40)) for v in (x, y))
    spec = b.spec(b.op("mul", one, two, shape=(Dim(0), 40)))
    assert kinds(spec) == ["product"]
    rows, shared = inputs(spec, 3, (length,))
    same(spec, rows, shared, (length,), compiled=False)
    out, _ = interpreted(spec)(rows, shared, (length,))
    assert close(out[0][2], evaluate(spec, rows[2], shared, (length,))[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("members", one_in(3, [2, 1, 5]))
def test_narrow_products_lie_side_by_side(members: int, dtype: str) -> None:
    """Heads of attention: many products of few columns of one operand, or the same ones of several."""
    b = SpecBuilder("heads")
    xs = [b.tensor(f"x{k}", 24, dtype=dtype) for k in range(members)]
    ws = [b.shared(f"w{k}", 8, 24, dtype=dtype) for k in range(7)]
    heads = [b.op("matmul", w, x, shape=(8,), dtype=dtype) for x in xs for w in ws]
    spec = b.spec(*(b.op("tanh", h, shape=(8,), dtype=dtype) for h in heads))
    code = cpu.generate(spec, targets.host())
    uses = [use.operands for use in code.shared]
    assert sorted(v for use in uses for v in use) == list(range(members, members + 7))
    if narrow(1, 8, targets.host(), dtype):
        assert 1 < len(uses) < 7, "several weights in one, but not more than a tile has room for"
    else:
        assert len(uses) == 7, "one weight is wide enough"
    rows, shared = inputs(spec, 50 if members == 2 else 3)
    if members == 2:
        on, off = compile_all([spec], strategies=[DEFAULT, OFF["horizontal"]])
    else:
        on, off = interpreted(spec), interpreted(spec, strategy=OFF["horizontal"])
    for a, b in zip(on(rows, shared)[0], off(rows, shared)[0], strict=True):
        assert a.tobytes() == b.tobytes()
    for mine, expected in zip(on(rows, shared)[0], evaluate(spec, rows[2], shared), strict=True):
        assert close(mine[2], expected)


def test_changing_one_of_several_weights_is_seen() -> None:
    f = heads
    rng = np.random.default_rng(0)
    xs = list(rng.standard_normal((5, 12)).astype(np.float32))
    ws = [rng.standard_normal((6, 12)).astype(np.float32) for _ in range(3)]
    f.batch(xs, ws=ws)
    ws[1] *= 2
    for got, x in zip(f.batch(xs, ws=ws), xs, strict=True):
        np.testing.assert_allclose(got, f(x, ws=ws), rtol=1e-5, atol=1e-5)


@model
def heads(x: np.ndarray, *, ws: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([ws[0] @ x, ws[1] @ x, ws[2] @ x])


def test_without_horizontal_fusion_independent_operations_have_loops_of_their_own() -> None:
    b = SpecBuilder("several")
    x, y = b.tensor("x", 40), b.tensor("y", 40)
    spec = b.spec(b.op("exp", x, shape=(40,)), b.op("tanh", y, shape=(40,)))
    loops = [text(spec, f).split("def plan")[0].count("for j") for f in (Strategy(), OFF["horizontal"])]
    assert loops == [1, 2]
    same(spec, *inputs(spec, 3), (), compiled=False)


# ---- gather


def test_without_gather_fusion_operands_are_copied_to_rows_first() -> None:
    spec = cell(40)
    assert kinds(spec, OFF["gather"]) == ["gather", "product"]
    code = text(spec, OFF["gather"])
    begin, rest = code.split("def begin(")[1].split("\n\n\n", 1)
    assert begin.count("copy_bytes(") == 4 and "copy_bytes(" not in rest
    assert "_record" not in rest, "nothing else follows the pointers"
    assert "copy_bytes(" not in text(spec, Strategy())


def test_without_gather_fusion_looked_up_rows_are_copied() -> None:
    b = SpecBuilder("lookup")
    word, table, w = b.operand("int", "word"), b.shared("table", 9, 20), b.shared("w", 40, 20)
    row = b.op("take", table, word, shape=(20,), attrs=(0,))
    spec = b.spec(b.op("matmul", w, row, shape=(40,)))
    assert kinds(spec) == ["product"]
    assert kinds(spec, OFF["gather"]) == ["loops", "product"]
    r = np.random.default_rng(0)
    shared = {table: r.standard_normal((9, 20)), w: r.standard_normal((40, 20))}
    same(spec, [[k] for k in (3, 0, 8, 3)], shared, (), compiled=False)


# ---- constants, equal expressions, dead results


def test_operations_on_constants_are_folded() -> None:
    b = SpecBuilder("scaled")
    x, n = b.tensor("x", 20), b.operand("int", "n")
    one, many = b.op("const", shape=(), attrs=(1.0,)), b.op("const", shape=(), attrs=(64.0,))
    scale = b.op("div", one, b.op("sqrt", many, shape=()), shape=())
    again = b.op("cast", b.op("exp", scale, shape=()), shape=(), dtype="float64")
    never = b.op("div", one, b.op("sub", one, one, shape=()), shape=())
    del again, never, n
    spec = b.spec(b.op("mul", x, scale, shape=(20,)))
    folded = {op.attrs for op in fold(spec).body if op.op == "const"}
    assert (0.125,) in folded
    assert {op.op for op in fold(spec).body} == {"const", "exp", "cast", "div", "mul"}, "no exp, no division by zero"
    code = text(spec, Strategy())
    assert "* 0.125" in code and "sqrt" not in code and "exp" not in code


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "sqrt", "neg", "abs", "cast"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_folded_constants_have_the_bits_of_the_machine(op: str, dtype: str) -> None:
    def spec(known: bool) -> tuple[KernelSpec, list[Any]]:
        b = SpecBuilder("bits")
        values = [b.op("const", shape=(), dtype="float64", attrs=(v,)) if known else b.operand("float", "x")
                  for v in numbers]  # fmt: skip
        args = [b.op("cast", v, shape=(), dtype=dtype) for v in values]
        if op == "cast":
            out = b.op("cast", args[0], shape=(), dtype="int32")
        else:
            out = b.op(op, *args[: 2 if op in ("add", "sub", "mul", "div") else 1], shape=(), dtype=dtype)
        return b.spec(out), [] if known else numbers

    numbers = [12345.678901234567, 0.1]
    (known, given), (unknown, row) = spec(True), spec(False)
    assert [o.op for o in fold(known).body] == ["const"] * len(known.body)
    a, b = (interpreted(s)([r])[0][0] for s, r in ((known, given), (unknown, row)))
    assert a.tobytes() == b.tobytes()


@model
def repeated(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
    scale = 1.0 / np.sqrt(np.float32(64))
    dead = np.exp(w @ (x * 3))
    del_ = dead * 2  # noqa: F841
    return np.tanh(w @ x) * scale + np.tanh(w @ x)


def test_equal_expressions_are_computed_once_and_dead_ones_never() -> None:
    x, w = np.ones(20, np.float32), np.full((20, 20), 0.01, np.float32)
    stages = repeated.stages([x], w=w)
    (code,) = (v for k, v in stages.items() if k.endswith("/cpu"))
    body = code.split("def stage_0(")[1]
    assert body.count("call_address(") == 1 and body.count("tanh_") == 1
    assert "exp_" not in body and "sqrt(" not in code and "* 0.125" in body


def test_what_no_result_needs_is_not_computed() -> None:
    b = SpecBuilder("dead")
    x, w = b.tensor("x", 20), b.shared("w", 20, 20)
    b.op("max", b.op("exp", b.op("matmul", w, x, shape=(20,)), shape=(20,)), shape=(), attrs=((0,),))
    spec = b.spec(b.op("add", x, x, shape=(20,)))
    for strategy in EVERY:
        ops = [spec.body[k].op for s in account(spec, strategy).stages if s.kind != "gather" for k in s.operations]
        assert ops == ["add"]


# ---- options, texts, accounts


def test_options_reach_the_texts_of_the_stages() -> None:
    xs, p = tree_lstm.instances(3, vocabulary=64), tree_lstm.params(16, vocabulary=64)
    f = tree_lstm.sentiment

    def inner(**options: bool) -> str:
        stages = f.with_options(**options).stages(xs, p=p)
        return next(v for k, v in stages.items() if "encode" in k and "hl" in v)

    assert "def stage_1(" not in inner()
    assert "def stage_9(" in inner(fuse=False)
    assert "copy_bytes(" in inner(gather_fusion=False)
    assert inner(horizontal=False) == inner()
    assert Options(fuse=False, gather_fusion=False).decisions == Strategy(vertical=False, gather=False)


def test_an_account_counts_bytes_and_operations() -> None:
    b = SpecBuilder("counted", dims=1)
    x, y, w, bias = b.tensor("x", 20), b.tensor("y", Dim(0), 20), b.shared("w", 40, 20), b.shared("bias", 40)
    product = b.op("matmul", w, x, shape=(40,))
    out = b.op("add", product, bias, shape=(40,))
    total = b.op("sum", y, shape=(20,), attrs=((0,),))
    spec = b.spec(out, total)
    a = account(spec, nodes=100, extents=(7,))
    assert a.read == 20 * 4 + 7 * 20 * 4
    assert a.written == 40 * 4 + 20 * 4
    assert a.scratch == 0
    assert a.flops == 2 * 40 * 20 + 40 + 7 * 20
    assert a.shared == 3 * (40 * 20 + 40) * 4, "three blocks of nodes"
    assert a.bytes == 100 * (a.read + a.written) + a.shared
    apart = account(spec, OFF["vertical"], nodes=100, extents=(7,))
    assert apart.scratch == 2 * 40 * 4, "the product is stored and loaded"
    gathered = account(spec, OFF["gather"], nodes=100, extents=(7,))
    assert (gathered.read, gathered.scratch) == (a.read, 2 * a.read)


def test_stages_are_described() -> None:
    spec = dataclasses.replace(cell(40), name="encode")
    assert stages_text(spec, paths=["p.w", "p.b"]) == (
        "kernel encode: 1 stage\n  1  matmul p.w @ both with tail: + p.b, split, sigmoid, * cl, * cr, +, tanh, *\n"
    )
    lines = stages_text(spec, OFF["gather"]).splitlines()
    assert lines[1:] == [
        "  1  gather hl, hr, cl, cr into rows",
        "  2  matmul w @ both with tail: + b, split, sigmoid, * cl, * cr, +, tanh, *",
    ]
    assert "  3  loops: + b" in stages_text(spec, OFF["vertical"])


def test_notes_say_what_a_line_was_fused_into() -> None:
    spec = two_lefts(True)
    places = [Loc("model.py", "f", 10 + k // 2, 4 * (k % 2), 10 + k // 2, 9) for k in range(len(spec.body))]
    spec = dataclasses.replace(
        spec, body=tuple(dataclasses.replace(op, loc=loc) for op, loc in zip(spec.body, places, strict=True))
    )
    notes = fusion_notes(spec)
    assert {n.kind for n in notes} == {"fused"}
    assert [(n.loc.line, n.text) for n in notes if n.option == "fuse"] == [
        (line, "tanh in the panels of w @ x, w @ y, before they leave the cache") for line in (10, 11)
    ]
    assert [(n.loc.line, n.text) for n in notes if n.option == "horizontal"] == [
        (10, "w @ x is one stage with w @ y: the weight is read once"),
        (11, "w @ y is one stage with w @ x: the weight is read once"),
    ]
    assert not [n for n in fusion_notes(spec, Strategy(vertical=False, horizontal=False)) if n.option == "horizontal"]
    assert not fusion_notes(spec, Strategy(vertical=False, horizontal=False))
