"""`ValueAndGrad.check`: gradients against central differences of the plain call in float64.

In: gradients of a mini-batch, and the same in float64. Out: a `Slope` per array. The plain call is run along itself
with second values in float64 (`api.twin`), which are moved a little along a random direction of one array: the losses
of both sides give the slope that the gradient says. Decisions are the plain call's, also where values move over them;
what `nn.stop_gradient` gives does not move. Nothing that the compiler made of the function takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.api.arguments import Call
from acronumba.api.plain import PlainCall
from acronumba.api.reference import Reference
from acronumba.api.structures import float_arrays, part_at, paths_of
from acronumba.api.twin import Anchors, wide
from acronumba.api.wanted import Choices, Wanted

STEPS = (1e-4, 1e-5, 1e-6)  # of numbers of magnitude 1; the best one counts
BOUND = 1e-6  # of a slope, relative


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """What `check` found for an array, or for the arrays of a positional parameter."""

    path: str
    slope: float  # along the random direction, by the gradient in float64
    difference: float  # by central differences
    error: float  # how far they are apart, relative
    rounding: float  # largest difference of the gradient from that in float64, relative to its largest entry

    @property
    def ok(self) -> bool:
        """Whether they agree."""
        return self.error <= BOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """Verdicts on gradients."""

    model: str
    slopes: tuple[Slope, ...]

    @property
    def ok(self) -> bool:
        """Whether no gradient differs."""
        return all(s.ok for s in self.slopes)

    @property
    def different(self) -> tuple[str, ...]:
        """The paths of those that differ."""
        return tuple(s.path for s in self.slopes if not s.ok)

    def __str__(self) -> str:
        lines = [f"{self.model}: gradients of {len(self.slopes)} arrays, {len(self.different)} different"]
        for s in self.slopes:
            seen = f"slope {s.slope:.6g}, differences {s.difference:.6g}"
            found = f"agrees to {s.error:.0e}" if s.ok else f"different: {seen}"
            lines.append(f"  {s.path}: {found} (rounding {s.rounding:.0e})")
        return "\n".join(lines)

    __repr__ = __str__


def compare(call: Call, plain: PlainCall, choices: Choices, wanted: Wanted, grads: Any, exact: Any) -> Slopes:
    """Compare gradients with central differences.

    Parameters
    ----------
    call
        The mini-batch.
    plain
        The plain call of the model.
    choices, wanted
        What was asked for.
    grads, exact
        The gradients, and the same in float64.
    """
    losses = _Losses(call, plain, choices)
    rng = np.random.default_rng(0)
    out: list[Slope] = []
    ours, theirs = ((grads,), (exact,)) if wanted.single else (grads, exact)
    for k, (path, place) in enumerate(zip(wanted.paths, wanted.places, strict=True)):
        if place is None:
            names = paths_of(wanted.shared[k], path)
            named = [(names[id(a)], [a]) for a in float_arrays(wanted.shared[k])]
        else:
            inside = [part_at(x, path, place[1]) for x in call.columns[place[0]]]
            named = [(path, [a for x in inside for a in float_arrays(x)])]
        mine, best = float_arrays(ours[k]), float_arrays(theirs[k])
        for name, arrays in named:
            one, mine = mine[: len(arrays)], mine[len(arrays) :]
            wide, best = best[: len(arrays)], best[len(arrays) :]
            out.append(losses.slope(name, arrays, [*map(np.asarray, one)], [*map(np.asarray, wide)], rng))
    return Slopes(model=getattr(plain.fn, "__qualname__", str(plain.fn)), slopes=tuple(out))


class _Losses:
    """The loss of a mini-batch by the plain call in float64, with arrays moved."""

    def __init__(self, call: Call, plain: PlainCall, choices: Choices) -> None:
        self.call, self.aux = call, choices.aux
        self.share = 1.0 / call.count if choices.reduce == "mean" else 1.0
        self.reference = Reference(plain)
        self.instances = [[column[k] for column in call.columns] for k in range(call.count)]
        self.anchors = [Anchors() for _ in self.instances]
        self.total([], [], 0.0)

    def total(self, arrays: Sequence[Any], along: Sequence[Any], step: float) -> float:
        """Return the mean or sum of the losses where arrays are moved so far along directions."""
        for a, d in zip(arrays, along, strict=True):
            self.reference.move(a, np.asarray(a, np.float64) + step * d)
        total = 0.0
        for instance, anchors in zip(self.instances, self.anchors, strict=True):
            found = self.reference.run(instance, anchors=anchors)
            if found.error is not None:
                raise found.error
            total += float(wide(found.result[0] if self.aux else found.result))
        return total * self.share

    def slope(
        self, path: str, arrays: Sequence[Any], grads: Sequence[Any], exact: Sequence[Any], rng: np.random.Generator
    ) -> Slope:
        along = [rng.standard_normal(np.shape(a)) for a in arrays]
        mine = float(sum((g * d).sum() for g, d in zip(exact, along, strict=True)))
        size = max((float(np.abs(g).max(initial=0.0)) for g in exact), default=0.0)
        off = [float(np.abs(np.asarray(g, np.float64) - e).max(initial=0.0)) for g, e in zip(grads, exact, strict=True)]
        best, error = 0.0, np.inf
        for step in STEPS:
            found = (self.total(arrays, along, step) - self.total(arrays, along, -step)) / (2 * step)
            apart = abs(found - mine) / max(abs(found), abs(mine), size, 1e-12)
            if apart < error:
                best, error = found, apart
        self.total(arrays, along, 0.0)  # where they were
        return Slope(
            path=path, slope=mine, difference=best, error=error, rounding=max(off, default=0.0) / (size or 1.0)
        )
