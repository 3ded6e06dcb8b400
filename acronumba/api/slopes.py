"""`ValueAndGrad.check`: gradients against central differences of the plain call in float64.

In: gradients of a mini-batch, and the same in float64. Out: a `Slope` per array. The plain call runs with second values
in float64 (`api.shadow`), in which one array is moved a little to both sides along a random direction: the difference
of the two losses approximates the slope by the gradient. Control flow is that of the plain call, even if the moved
values would decide otherwise; results of `nn.stop_gradient` do not move. No compiled code takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from acronumba.api import shadow
from acronumba.api.arguments import Call
from acronumba.api.plain import PlainCall
from acronumba.api.reference import SHARED
from acronumba.api.shadow import FACTOR, Anchors, wide
from acronumba.api.structures import float_arrays, paths_of
from acronumba.api.wanted import Choices, Selection, Totals
from acronumba.views.words import counted

STEPS = (1e-4, 1e-5, 1e-6)  # of numbers of magnitude 1; the best one counts
BOUND = 1e-6  # of a slope, relative
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Result of `check` for an array, or for the arrays of a positional parameter."""

    path: str
    slope: float  # along the random direction, by the gradient in float64
    difference: float  # by central differences
    error: float  # difference of the two, relative to the gradient, or to the least that rounded losses tell from 0
    rounding: float  # largest difference of the gradient from that in float64, relative to its largest entry
    close: bool  # whether `rounding` is at most `FACTOR` times that of a reference, or within the bound of the dtype

    @property
    def ok(self) -> bool:
        """Whether the gradient agrees with the central differences and with that in float64."""
        return self.error <= BOUND and self.close


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
        """The paths of the arrays whose gradients differ."""
        return tuple(s.path for s in self.slopes if not s.ok)

    def __str__(self) -> str:
        lines = [f"{self.model}: gradients of {counted(len(self.slopes), 'array')}, {len(self.different)} different"]
        for s in self.slopes:
            seen = f"slope {s.slope:.6g}, differences {s.difference:.6g}"
            found = f"within {s.error:.0e} of the central difference" if s.error <= BOUND else f"different: {seen}"
            found += "" if s.close else ", but the compiled gradient is different"
            lines.append(f"  {s.path}: {found} (rounding: {s.rounding:.0e})")
        return "\n".join(lines)

    __repr__ = __str__


def compare(
    name: str, call: Call, plain: PlainCall, choices: Choices, wanted: Selection, grads: Sequence[Any],
    totals: Mapping[int, Totals], bits: int = 24,
) -> Slopes:  # fmt: skip
    """Compare gradients with central differences.

    Parameters
    ----------
    name
        Of the model.
    call
        The mini-batch.
    plain
        The plain call of the model.
    choices, wanted
        The choices of `value_and_grad`, and the selection of gradients.
    grads
        Four gradients: of compiled code, and of the reference in float64, in the model's dtypes, and in float64 with
        the factors of matrix products rounded to `bits`.
    totals
        Contributions of each instance to the gradients, in float64.
    bits
        Of the factors of matrix products.
    """
    losses = _Losses(call, plain, choices, wanted)
    rng = np.random.default_rng(0)
    out: list[Slope] = []
    ways = [(g,) if wanted.single else g for g in grads]
    for k, (path, place) in enumerate(zip(wanted.paths, wanted.places, strict=True)):
        if place is None:
            names = paths_of(wanted.shared[k], path)
            named = [(names[id(a)], [(SHARED, a)]) for a in float_arrays(wanted.shared[k])]
        else:
            named = [(path, [(n, a) for n, x in enumerate(wanted.parts[k]) for a in float_arrays(x)])]
        left = [float_arrays(g[k]) for g in ways]
        for of_name, arrays in named:
            mine, exact, narrow, rough = ([np.asarray(g) for g in gs[: len(arrays)]] for gs in left)
            left = [gs[len(arrays) :] for gs in left]
            of = [(t.of if n < 0 else t.own, a) for n, a in arrays for j, t in totals.items() if n in (SHARED, j)]
            parts = [float(np.abs(shares[id(a)]).max(initial=0.0)) for shares, a in of if id(a) in shares]
            bound = shadow.bound(losses.single, bits) * sum(parts) * losses.share
            off = _apart(mine, exact)
            close = off <= max(bound, FACTOR * _apart(narrow, exact), FACTOR * _apart(rough, exact) * losses.single)
            out.append(losses.slope(of_name, arrays, exact, off, close, rng))
    return Slopes(model=name, slopes=tuple(out))


_Array: TypeAlias = "tuple[int, Any]"  # the number of its instance, or `SHARED`, and the array


class _Losses:
    """The loss of a mini-batch by the plain call in float64, with arrays moved."""

    def __init__(self, call: Call, plain: PlainCall, choices: Choices, wanted: Selection) -> None:
        self.call, self.aux = call, choices.aux
        self.share = 1.0 / call.count if choices.reduce == "mean" else 1.0
        self.reference = plain.reference()
        self.instances = [wanted.instance(call, k) for k in range(call.count)]
        self.anchors = [Anchors() for _ in self.instances]
        self.single = False  # whether there were values of float32
        self.size = 0.0  # the sum of the magnitudes of the last losses, which are rounded
        self.total([], [], 0.0)

    def total(self, arrays: Sequence[_Array], along: Sequence[Any], step: float) -> float:
        """Return the mean or sum of the losses where arrays are moved so far along directions."""
        for (n, a), d in zip(arrays, along, strict=True):
            self.reference.move(a, np.asarray(a, np.float64) + step * d, n)
        total = self.size = 0.0
        for n, (instance, anchors) in enumerate(zip(self.instances, self.anchors, strict=True)):
            found = self.reference.run(instance, anchors=anchors, number=n)
            if found.error is not None:
                raise found.error
            self.single = self.single or found.single
            loss = float(wide(found.result[0] if self.aux else found.result)) * self.share
            total, self.size = total + loss, self.size + abs(loss)
        return total

    def slope(
        self, path: str, arrays: Sequence[_Array], exact: Sequence[Any], off: float, close: bool,
        rng: np.random.Generator,
    ) -> Slope:  # fmt: skip
        along = [rng.standard_normal(np.shape(a)) for _, a in arrays]
        mine = float(sum((g * d).sum() for g, d in zip(exact, along, strict=True)))
        size = max((float(np.abs(g).max(initial=0.0)) for g in exact), default=0.0)
        best, error = 0.0, np.inf
        for step in STEPS:
            found = (self.total(arrays, along, step) - self.total(arrays, along, -step)) / (2 * step)
            rounding = FACTOR * EPS * self.size / step  # of the losses that are subtracted
            apart = abs(found - mine) / max(abs(found), abs(mine), size, rounding / BOUND, 1e-12)
            if apart < error:
                best, error = found, apart
        self.total(arrays, along, 0.0)  # restores the arrays
        return Slope(path=path, slope=mine, difference=best, error=error, rounding=off / (size or 1.0), close=close)


def _apart(grads: Sequence[Any], exact: Sequence[Any]) -> float:
    """Return the largest difference of gradients from those in float64."""
    off = [float(np.abs(np.asarray(g, np.float64) - e).max(initial=0.0)) for g, e in zip(grads, exact, strict=True)]
    return max(off, default=0.0)
