"""Ghosts: arms of different depth line up again, results stay, and no depth is too large for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.analysis.depth_padding import pad_branches
from acronumba.analysis.plan import make_plan
from acronumba.config import Options
from acronumba.ir import nodes as n
from acronumba.ir.interpret import Interpreter
from acronumba.ir.types import BOOL, INT, TensorT
from tests.support.hand import F32, Hand, program

Array = np.ndarray
H = 8
VEC = TensorT(F32, (H,))


@dataclass
class Params:
    a: Array
    b: Array
    c: Array
    d: Array
    e: Array
    f: Array
    join: Array


def params() -> Params:
    rng = np.random.default_rng(0)
    return Params(*((rng.standard_normal((H, H)) / 2).astype(np.float32) for _ in range(7)))


@model
def branchy(kinds: list[int], h: Array, *, p: Params) -> Any:
    """Arms of one, two and three kernels, and a join; the conditions inside keep the kernels apart."""
    for k in kinds:
        if k == 0:
            h = np.tanh(p.a @ h)
        elif k == 1:
            h = np.tanh(p.b @ h)
            if k < 5:
                h = np.tanh(p.c @ h)
        else:
            h = np.tanh(p.d @ h)
            if k < 5:
                h = np.tanh(p.e @ h)
            if k > 1:
                h = np.tanh(p.f @ h)
        h = np.tanh(p.join @ h)
    return h


@model
def optional(kinds: list[int], h: Array, *, p: Params) -> Any:
    """An arm that records nothing, of inputs at first; what leaves may be None."""
    last = None
    for k in kinds:
        if k == 0:
            h = np.tanh(p.a @ h)
            if k < 5:
                h = last = np.tanh(p.b @ h)
        h = np.tanh(p.join @ h)
    return h if last is None else h + last


def start(n: int, h: Array, p: Params) -> Any:
    """Early returns of different depth, and a recursion."""
    if n == 0:
        return np.tanh(p.a @ h)
    if n == 1:
        h = np.tanh(p.b @ h)
        if n < 5:
            h = np.tanh(p.c @ h)
        return h
    return np.tanh(p.join @ start(n - 2, h, p))


@model
def early(n: int, h: Array, *, p: Params) -> Any:
    return start(n, h, p)


RNG = np.random.default_rng(3)
KINDS = [[int(k) for k in RNG.integers(0, 3, RNG.integers(10, 30))] for _ in range(64)]
STARTS = [RNG.standard_normal(H).astype(np.float32) for _ in KINDS]
CASES: dict[str, tuple[Any, Sequence[Sequence[Any]]]] = {
    "branchy": (branchy, [KINDS, STARTS]),
    "optional": (optional, [KINDS, STARTS]),
    "early": (early, [[k % 9 for k in range(64)], STARTS]),
}


def plan_of(f: Any, columns: Sequence[Sequence[Any]]) -> Any:
    return f.stages(*columns, p=params())._compiled.plan


def pads(plan: Any) -> list[n.PadDepth]:
    return [i for f in plan.program.functions for b in f.blocks for i in b.instrs if isinstance(i, n.PadDepth)]


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("phases", [True, False])
def test_batches_and_bits(name: str, phases: bool) -> None:
    f, columns = CASES[name]
    f = f.with_options(schedule="depth", phases=phases)
    on, off = (f.with_options(ghosts=g).trace(*columns, p=params()) for g in (True, False))
    assert [x.tobytes() for x in on.results] == [x.tobytes() for x in off.results]
    assert on.nodes == off.nodes
    assert np.array_equal(on.data.kernel, off.data.kernel)
    for producer, consumer in on.data.edges:
        at = [(on.data.phase[v], on.data.depth[v]) for v in (producer, consumer)]
        assert at[0] < at[1]
    assert pads(plan_of(f, columns))
    if name == "branchy":
        assert 2 * len(on.batches) < len(off.batches)
    else:
        assert len(on.batches) <= len(off.batches)


@pytest.mark.parametrize("phases", [True, False])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_more_levels_than_nodes(kind: int, phases: bool) -> None:
    """One instance on the shortest arm only: most levels are empty."""
    kinds, h = [kind] * 5000, STARTS[0]
    for f in (branchy, optional):
        g = f.with_options(schedule="depth", phases=phases)
        t = g.trace([kinds], [h], p=params())
        assert len(t.batches) == t.nodes
        want = g.with_options(ghosts=False).batch([kinds], [h], p=params())
        assert t.results[0].tobytes() == want[0].tobytes()


def test_the_interpreter_takes_no_notice() -> None:
    for f, columns in CASES.values():
        c = f.stages(*columns, p=params())._compiled
        run = Interpreter(c.plan.program, c.leaves({"p": params()}), kernels=c.plan.kernels)
        for args in list(zip(*columns, strict=True))[:3]:
            np.testing.assert_allclose(run.run(args), f(*args, p=params()), rtol=1e-4, atol=1e-6)


def test_only_the_schedule_by_depth_has_ghosts() -> None:
    assert pads(plan_of(branchy.with_options(schedule="depth"), CASES["branchy"][1]))
    assert not pads(plan_of(branchy.with_options(schedule="agenda"), CASES["branchy"][1]))
    assert not pads(plan_of(branchy.with_options(schedule="depth", ghosts=False), CASES["branchy"][1]))


def test_real_differences_are_padded() -> None:
    plan = plan_of(branchy.with_options(schedule="depth"), CASES["branchy"][1])
    assert sorted(p.levels for p in pads(plan)) == [1, 1, 1, 1, 2]
    assert "ghost" in {note.kind for note in plan.notes}
    assert "+ 2 on the branch of line" in plan.texts["ghosts"]


def arms(make: Any) -> tuple[n.Program, Any]:
    """Return the plan of a function with two arms: make(hand, x) records on the longer one."""
    sites: list[n.Site] = []
    f = Hand("f", [("x", VEC), ("c", BOOL), ("k", INT)], [VEC], sites)
    x, c, _ = f.params
    y = f.var("y", VEC)
    with f.block(0):
        f.branch(c, 1, 2)
    with f.block(1):
        f.copy(y, f.op("tanh", x, shape=(H,)))
        f.jump(3)
    with f.block(2):
        f.copy(y, make(f, x))
        f.jump(3)
    with f.block(3):
        f.ret(f.op("neg", y, shape=(H,)))
    g = Hand("g", [("z", VEC)], [VEC], sites)
    with g.block(0):
        g.ret(g.op("exp", g.params[0], shape=(H,)))
    whole = program([f, g], sites, [VEC, BOOL, INT], VEC)
    return whole, make_plan(whole, Options(schedule="depth", blocks=False))


def test_arms_with_calls_are_not_padded() -> None:
    _, plan = arms(lambda f, x: f.op("sin", f.op("exp", x, shape=(H,)), shape=(H,)))
    assert [p.levels for p in pads(plan)] == [1]
    _, plan = arms(lambda f, x: f.op("sin", f.call(1, x, outs=[VEC]), shape=(H,)))
    assert not pads(plan)


def test_padding_twice_adds_up_to_nothing_more() -> None:
    """Arms that are even already stay as they are."""
    _, plan = arms(lambda f, x: f.op("exp", x, shape=(H,)))
    assert not pads(plan)
    assert pad_branches(plan.program)[2] == "no branches of known and different depth\n"
