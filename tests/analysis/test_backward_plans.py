"""Backward kernels: forward and backward specifications of planned programs give what the tape gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError
from acronumba.ir.interpret import InstanceFailure
from tests.support import fuzz
from tests.support.all_models import CASES
from tests.support.backward_runs import Planned, WayBack
from tests.support.chosen import one_in
from tests.support.derivatives import arrays_in
from tests.support.zoo_models import ZOO


def errors(f: Any, columns: Any, shared: dict[str, Any], k: int, **options: Any) -> tuple[float, int]:
    """Return the largest difference of gradients by kernels from those of the tape, relative; and their number."""
    f = f.with_options(**options) if options else f
    call = f._bind(columns, shared)
    compiled, leaves, _ = f._specialise(call, packed=False)
    instance = [column[k] for column in call.columns]
    recorder = compiled.recorder_of_tapes(leaves)
    values, tape = recorder.record(instance)
    run = Planned(compiled.plan, leaves)
    mine = run.words(instance)
    rng = np.random.default_rng(0)
    seeds, theirs = {}, {}
    keep = []
    for x, y in zip(arrays_in(values), arrays_in(mine), strict=True):
        assert x.shape == y.shape
        if x.dtype.kind == "f":
            w = rng.standard_normal(x.shape).astype(x.dtype)
            theirs[tape.number(x)] = theirs[tape.number(x)] + w if tape.number(x) in theirs else w
            seeds[id(y)] = seeds[id(y)] + w if id(y) in seeds else w
            keep.append(y)
    given = {n for n in tape.given if tape.values[n].dtype.kind == "f"}
    expected: dict[int, Any] = {}
    for n, g in tape.pull(theirs, given, wide=True).items():
        key = id(tape.given[n])
        expected[key] = expected[key] + g if key in expected else g
    back = WayBack(run, seeds)
    worst, many = 0.0, 0
    scale = max([float(np.abs(g).max(initial=0)) for g in expected.values()], default=0.0)
    for key, g in expected.items():
        ours = back.given.get(key)
        if not np.isfinite(g).all() or scale > 1e6:
            continue
        ours = np.zeros_like(g) if ours is None else ours
        worst = max(worst, float(np.abs(ours - g).max(initial=0)) / (scale or 1.0))
        many += 1
    return worst, many


@pytest.mark.parametrize(("module", "f"), one_in(8, ZOO, ids=[f.__name__ for _, f in ZOO]))
def test_the_zoo(module: Any, f: Any) -> None:
    p, xs = module.params(size=8), module.instances(2)
    for k in range(2):
        worst, many = errors(f, [xs], {"p": p}, k)
        assert worst < 1e-4 and many > 2


@pytest.mark.parametrize(
    "options", one_in(2, [{"reuse": False}, {"hoist": False}, {"blocks": False}, {"duplicate": False}])
)
def test_the_zoo_with_other_options(options: dict[str, bool]) -> None:
    for module, f in ZOO[:6]:
        worst, many = errors(f, [module.instances(1)], {"p": module.params(size=8)}, 0, **options)
        assert worst < 1e-4 and many > 2, f


@pytest.mark.parametrize("case", one_in(12, CASES, ids=[c.name for c in CASES]))
def test_models_of_the_language(case: Any) -> None:
    for k in range(min(2, len(case.columns[0]))):
        try:
            worst, _ = errors(case.model, case.columns, case.shared, k)
        except InstanceFailure:
            continue
        assert worst < 1e-3


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
                    worst, found = errors(module.main, columns, shared, k)
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


@pytest.mark.long
def test_many_random_programs(tmp_path: Path) -> None:
    wrong, many = random_errors(range(1000, 1100), tmp_path)
    assert not wrong and many > 80, wrong
