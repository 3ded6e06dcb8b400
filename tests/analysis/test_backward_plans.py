"""Backward kernels: forward and backward specifications of planned programs give what the tape gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, nn, value_and_grad
from acronumba.analysis.active import RequestedValues, parts
from acronumba.analysis.backward.derive import differentiate
from acronumba.api.dispatch import bind, specialise
from acronumba.ir import nodes as ir
from acronumba.ir.interpret import InstanceFailure
from acronumba.ir.reference import KernelFailure
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.ir.types import TensorT
from tests.support import (
    fuzz,
    models_of_copies,
    models_of_corners,
    models_of_dicts,
    models_of_kept_arrays,
    models_of_written_arrays,
)
from tests.support.all_models import CASES
from tests.support.backward_runs import BackwardPlan, Planned, everything, kernel_errors
from tests.support.chosen import one_in
from tests.support.derivatives import Run, random_slope
from tests.support.kernel_cases import check, interpreted_all
from tests.support.kernel_runs import compile_all
from tests.support.routes import planned_error
from tests.support.simt_runs import simulate_all
from tests.support.zoo_models import ZOO


@pytest.mark.parametrize(("module", "f"), one_in(4, one_in(2, ZOO, [f.__name__ for _, f in ZOO], "slow")))
def test_the_zoo(module: Any, f: Any) -> None:
    p, xs = module.params(size=8), module.instances(2)
    for k in range(2):
        worst, many = planned_error(f, [xs], {"p": p}, k)
        assert worst < 1e-4 and many > 2


@pytest.mark.parametrize(
    "options", one_in(2, [{"reuse": False}, {"hoist": False}, {"blocks": False}, {"duplicate": False}])
)
def test_the_zoo_with_other_options(options: dict[str, bool]) -> None:
    for module, f in ZOO[:6]:
        worst, many = planned_error(f, [module.instances(1)], {"p": module.params(size=8)}, 0, **options)
        assert worst < 1e-4 and many > 2, f


@pytest.mark.parametrize("case", one_in(12, CASES, ids=[c.name for c in CASES]))
def test_models_of_the_language(case: Any) -> None:
    for k in range(min(2, len(case.columns[0]))):
        try:
            worst, _ = planned_error(case.model, case.columns, case.shared, k)
        except InstanceFailure:
            continue
        assert worst < 1e-3


def more_models() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    written = [
        [rng.normal(size=(n, 4)) for n in (0, 1, 3)], [rng.normal(size=4) for _ in range(3)],
        [rng.integers(0, 4, size=3) for _ in range(3)], [0, 3, 1], [[5], [], [2, 7]],
    ]  # fmt: skip
    found: list[tuple[Any, Any]] = [(f, written) for f in models_of_written_arrays.CASES]
    for module in (models_of_kept_arrays, models_of_copies, models_of_corners, models_of_dicts):
        found += [(model(f), [list(column) for column in columns]) for f, columns in module.CASES]
    return found


MORE = more_models()


@pytest.mark.parametrize(("f", "columns"), one_in(20, one_in(2, MORE, [f.__name__ for f, _ in MORE], "slow")))
def test_models_that_write_and_keep_and_copy(f: Any, columns: Any) -> None:
    for k in range(min(3, len(columns[0]))):
        try:
            assert not Run(f, columns, {}, k).error() > 1e-6
            worst, _ = planned_error(f, columns, {}, k)
        except InstanceFailure:
            continue
        assert worst < 1e-4


def random_errors(numbers: range, folder: Path) -> tuple[dict[int, float], int]:
    wrong: dict[int, float] = {}
    many = 0
    for number in numbers:
        case = fuzz.case_of(number)
        module = fuzz.load(case.source, folder)
        try:
            columns, shared = case.instances(module, 4), case.shared_values(module)
            for k in range(2):
                try:
                    worst, found = planned_error(module.main, columns, shared, k)
                except (InstanceFailure, AcronumbaError):
                    continue
                many += found
                if worst > 1e-2:
                    wrong[number] = worst
        finally:
            fuzz.forget(module)
    return wrong, many


def test_random_programs(tmp_path: Path) -> None:
    wrong, many = random_errors(range(8), tmp_path)
    assert not wrong and many > 8, wrong


@pytest.mark.slow
def test_many_random_programs(tmp_path: Path) -> None:
    wrong, many = random_errors(range(1000, 1100), tmp_path)
    assert not wrong and many > 80, wrong


def kernels_that_differ(seeds: range) -> tuple[dict[int, float], int]:
    wrong: dict[int, float] = {}
    many = 0
    for seed in seeds:
        slope = random_slope(seed)
        if slope is None or not slope.weights or not slope.along:
            continue
        try:
            worst = kernel_errors(slope)
        except KernelFailure:
            continue
        many += 1
        if worst > 1e-9:
            wrong[seed] = worst
    return wrong, many


def test_random_kernels() -> None:
    wrong, many = kernels_that_differ(range(150))
    assert not wrong and many > 80


@pytest.mark.long
def test_many_random_kernels() -> None:
    wrong, many = kernels_that_differ(range(3000, 4000))
    assert not wrong and many > 750


RUN_IN_PYTHON = (interpreted_all, simulate_all)


class Given:
    """A backward kernel with random operands, as random kernels have them."""

    def __init__(self, spec: KernelSpec, dims: list[int]) -> None:
        self.spec, self.dims = spec, dims
        self.r = np.random.default_rng(0)

    def real(self, shape: Any) -> tuple[int, ...]:
        return tuple(self.dims[n.index] if isinstance(n, Dim) else n for n in shape)

    def operands(self, nodes: int) -> tuple[list[list[Any]], dict[int, Any]]:
        def one(o: Any) -> Any:
            if o.kind == "int":
                return int(self.r.integers(2))
            x = self.r.standard_normal(self.real(o.shape))
            return x > 0 if o.dtype == "bool" else np.asarray(x * 2 if "int" not in o.dtype else x > 0, o.dtype)

        shared = {v: one(o) for v, o in enumerate(self.spec.operands) if o.kind == "shared"}
        return [[one(o) for o in self.spec.operands if o.kind != "shared"] for _ in range(nodes)], shared


@pytest.mark.parametrize("make", [compile_all, *(pytest.param(m, marks=pytest.mark.long) for m in RUN_IN_PYTHON)])
def test_backward_kernels_are_kernels_like_any_other(make: Any) -> None:
    """They go through the generators for the processor and for GPUs as they are."""
    models = [(m, f) for m, f in ZOO if f.__name__ in ("sentiment", "encode", "classify")][
        : 1 if make is compile_all else 3
    ]
    for module, f in models:
        call = bind(f, [module.instances(1)], {"p": module.params(size=8)})
        plan = specialise(f, call, packed=False)[0].plan
        for spec in plan.kernels:
            part = everything(spec)
            back = differentiate(spec, part.wanted, part.results, part.shared).backward
            if back is not None and not any(o.kind == "list" for o in back.operands):
                check(Given(back, [3] * back.dims), make, 2)  # type: ignore[arg-type]


# ---- what takes part


@model
def scored(words: list[int], label: int, *, p: dict[str, np.ndarray]) -> Any:
    h = p["start"]
    for w in words:
        h = np.tanh(p["w"] @ np.concatenate([p["embed"][w], h]))
    return nn.cross_entropy(p["out"] @ h, label), h * 2


def scores(size: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    shapes = {"start": (size,), "w": (size, 2 * size), "embed": (9, size), "out": (3, size)}
    return {name: rng.standard_normal(shape).astype(np.float32) * np.float32(0.5) for name, shape in shapes.items()}


@pytest.mark.parametrize("wrt", [["p"], ["p.out"], ["p.embed"], ["p.w", "p.start"], ["words"]])
def test_only_what_the_gradient_goes_through_takes_part(wrt: list[str]) -> None:
    f = value_and_grad(scored, wrt=wrt, aux=True)
    p = scores()
    columns: list[Any] = [[[1, 2, 1], [3]], [0, 2]]
    call = bind(scored, columns, {"p": p})
    compiled, leaves, _ = specialise(scored, call, packed=False)
    if wrt == ["words"]:
        assert not any(
            d.outputs or d.terms for d in compiled.derivatives.backward(*f._in_program(call, compiled, leaves))
        )
        return
    where = f._in_program(call, compiled, leaves)
    found = parts(compiled.plan.program, compiled.plan.kernels, *where)
    one = [column[0] for column in columns]
    run = Planned(compiled.plan, leaves, found)
    loss = run.words(one)[0]
    back = BackwardPlan(run, {id(loss): np.float32(1)})
    _, expected = f(*one, p=p)
    named = {path.removeprefix("p."): g for path, g in zip(wrt, expected, strict=True)} if wrt != ["p"] else expected[0]
    for name, g in named.items():
        np.testing.assert_allclose(back.given[id(p[name])], g, rtol=1e-5, atol=1e-6)
    many = sum(bool(d.outputs or d.terms) for d in run.derived)
    assert many == 1 if wrt == ["p.out"] else many >= 1


@pytest.mark.parametrize(("module", "f"), one_in(8, ZOO, ids=[f.__name__ for _, f in ZOO]))
def test_what_a_run_goes_through_is_known_before(module: Any, f: Any) -> None:
    call = bind(f, [module.instances(2)], {"p": module.params(size=8)})
    compiled, leaves, _ = specialise(f, call, packed=False)
    program = compiled.program
    tensors = {k for k, s in enumerate(program.shared) if isinstance(s.type, TensorT)}
    wanted = RequestedValues(
        shared=frozenset(tensors), packed=frozenset(set(range(len(program.shared))) - tensors), params=frozenset()
    )
    found = compiled.derivatives.active(wanted, 1)
    ops = [i for g in program.functions for b in g.blocks for i in b.instrs if isinstance(i, ir.Op)]
    known = {(op.op, op.loc) for k, op in enumerate(ops) if k in found.ops}
    recorder = compiled.recorder_of_tapes(leaves)
    _, tape = recorder.record([column[0] for column in call.columns])
    numbers = {tape.number(recorder._shared[k]) for k in tensors if recorder._shared[k].dtype.kind == "f"}
    reached = tape.reached(numbers)
    assert {(op.op, op.loc) for op in tape.ops if op.out in reached} <= known
