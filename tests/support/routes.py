"""Gradients of a program by five routes, compared with each other.

1. central differences of the float64 run of the reference;
2. the definition: the tape of the reference, in the program's dtypes or in float64;
3. the planned program with forward and backward specifications, by the reference of kernels;
4. compiled code, the instances as one mini-batch;
5. the same on the simulator of a GPU.

A program is made scalar by random weights of all floats of its results. The tape is what the others are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.api.cotangents import matched
from acronumba.api.dispatch import bind, specialise
from acronumba.api.forward import Forward, _Compiled
from acronumba.api.structures import float_arrays, structured
from acronumba.api.wanted import Choices, wanted_of
from acronumba.ir.interpret import InstanceFailure
from tests.support.backward_runs import BackwardPlan, Planned
from tests.support.derivatives import Run, pairs_in

# How far a route may be from the tape: of the slope, or of the largest number of all gradients. All but the first
# compute in the dtypes of the program, most often float32, in another order.
BOUNDS = {"differences": 1e-5, "kernels": 1e-2, "compiled": 1e-3, "simulator": 1e-3}
BITS = "compiled, with other options"
BOUNDS[BITS] = 0.0
PROMISED = (
    "threads", "schedule", "effort", "phases", "recycle", "ragged", "fuse", "horizontal", "gather_fusion",
)  # fmt: skip
HUGE = 1e6  # a gradient that is larger says nothing of rounding
ALONE = 2  # instances that are followed one by one


def names_of(call: Any, f: Any) -> tuple[str, ...]:
    """Return the parameters that hold arrays of floats."""
    code = f.__wrapped__.__code__
    own = [n for n, c in zip(code.co_varnames, call.columns, strict=False) if float_arrays(list(c))]
    return (*own, *(n for n, v in call.shared.items() if float_arrays(v)))


def cotangents(results: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [structured(r, lambda x: np.asarray(rng.standard_normal(np.shape(x)), np.asarray(x).dtype)) for r in results]


class Pullbacks:
    """Gradients of a mini-batch, from random cotangents of all its results: compiled, and by the reference."""

    def __init__(self, f: Any, columns: Any, shared: dict[str, Any], **options: Any) -> None:
        self.f = f.with_options(**options) if options else f
        self.call = bind(self.f, columns, shared)
        self.names = names_of(self.call, f)
        self.possible = bool(self.names)
        if self.possible:
            self.wanted = wanted_of(self.f.__wrapped__, Choices.of(self.names, "sum", False, ()), self.call)
            self.forward = self.ran(self.f)
            self.possible = all(isinstance(part, _Compiled) for part in self.forward.parts)

    def ran(self, f: Any, together: bool = True) -> Forward:
        return Forward(f, self.call, self.wanted, together)

    def gradients(self, forward: Any = None) -> Any:
        forward = forward or self.forward
        given = cotangents(self.forward.results)  # what is one array for one of them may be two for the other
        return forward.pullback({k: matched(r, given[k], k) for k, r in enumerate(forward.results)}, False)

    def error(self, forward: Any = None) -> float:
        """Return the largest difference from the reference, relative to the largest part of a gradient."""
        mine = float_arrays(list(self.gradients(forward)))
        theirs = float_arrays(list(self.gradients(self.ran(self.f, False))))
        assert len(mine) == len(theirs)
        scale = max((float(np.abs(g).max(initial=0.0)) for g in theirs), default=0.0)
        if not np.isfinite(scale) or scale > HUGE:
            return 0.0
        apart = (np.abs(np.asarray(a, np.float64) - b).max(initial=0.0) for a, b in zip(mine, theirs, strict=True))
        return float(max(apart, default=0.0)) / (scale or 1.0)


def planned_error(f: Any, columns: Any, shared: dict[str, Any], k: int, **options: Any) -> tuple[float, int]:
    """Return the largest difference of gradients by kernels from those of the tape, relative; and their number."""
    f = f.with_options(**options) if options else f
    call = bind(f, columns, shared)
    compiled, leaves, _ = specialise(f, call, packed=False)
    instance = [column[k] for column in call.columns]
    recorder = compiled.recorder_of_tapes(leaves)
    values, tape = recorder.record(instance)
    run = Planned(compiled.plan, leaves)
    mine = run.words(instance)
    rng = np.random.default_rng(0)
    seeds, theirs = {}, {}
    keep = []
    for x, y in pairs_in(values, mine):
        w = rng.standard_normal(x.shape).astype(x.dtype)
        theirs[tape.number(x)] = theirs[tape.number(x)] + w if tape.number(x) in theirs else w
        seeds[id(y)] = seeds[id(y)] + w if id(y) in seeds else w
        keep.append(y)
    given = {n for n in tape.given if tape.values[n].dtype.kind == "f"}
    expected: dict[int, Any] = {}
    for n, g in tape.pullback(theirs, given, wide=True).items():
        key = id(tape.given[n])
        expected[key] = expected[key] + g if key in expected else g
    back = BackwardPlan(run, seeds)
    worst, many = 0.0, 0
    scale = max([float(np.abs(g).max(initial=0)) for g in expected.values()], default=0.0)
    for key, g in expected.items():
        ours = back.given.get(key)
        if not np.isfinite(g).all() or scale > HUGE:
            continue
        ours = np.zeros_like(g) if ours is None else ours
        worst = max(worst, float(np.abs(ours - g).max(initial=0)) / (scale or 1.0))
        many += 1
    return worst, many


def slope_error(f: Any, columns: Any, shared: dict[str, Any], k: int) -> float | None:
    """Return how far the slope of an instance is from central differences; None where these tell nothing."""
    run = Run(f, columns, shared, k)
    if not run.weights or not run.along or not max(abs(run.value(0.0)), abs(run.slope())) < 1e4:
        return None
    found = run.error()
    return found if np.isfinite(found) else None


def errors_by_route(
    f: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any], others: dict[str, Any] | None = None
) -> tuple[dict[str, float], int]:
    """Return how far each route is from the tape, and how many instances were compared.

    With `others`, options that may change no bit: `BITS` is 1 if compiled gradients have others with them, else 0.

    Raises
    ------
    AcronumbaError
        If the program, or a gradient of it, is rejected.
    """
    both = Pullbacks(f, columns, shared)
    if not both.possible:
        return {}, 0
    found: dict[str, list[float]] = {name: [] for name in BOUNDS}
    for k in range(min(ALONE, len(columns[0]))):
        try:
            slope, (kernels, _) = slope_error(f, columns, shared, k), planned_error(f, columns, shared, k)
        except InstanceFailure:
            continue
        found["differences"] += [] if slope is None else [slope]
        found["kernels"].append(kernels)
    found["compiled"].append(both.error())
    if others:
        mine, again = (
            float_arrays(list(g)) for g in (both.gradients(), both.gradients(both.ran(f.with_options(**others))))
        )
        found[BITS] = [float([g.tobytes() for g in mine] != [g.tobytes() for g in again])]
    found["simulator"].append(both.error(both.ran(f.on("simulator"))))
    return {name: max(of) for name, of in found.items() if of}, len(columns[0]) - len(both.forward.errors)
