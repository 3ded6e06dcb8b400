"""A model by every way: the plain call, the interpreter of the IR, machine code, the simulator of a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.api.check import together
from tests.support.plain_call import outcomes, plain


def same_everywhere(f: Any, *columns: Sequence[Any], ulps: float = 0, simulator: bool = True, **shared: Any) -> None:
    """Fail unless results have the plain call's types, dtypes, shapes and values, and failures its exceptions.

    Floats may be off by `ulps` units in the last place of the largest magnitude around: of the array, or 1. With 0
    they are equal, zeros with their signs.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = plain(f.__wrapped__, *columns, **shared)
    ways = {"interpreter": f._interpret, "compiled": f.batch}
    if simulator:
        ways["simulator"] = f.on("simulator").batch
    for name, run in ways.items():
        for k, (mine, theirs) in enumerate(zip(outcomes(run, *columns, **shared), wanted, strict=True)):
            if text := difference(mine, theirs, ulps):
                raise AssertionError(f"{name}, instance {k}: {text}")


def difference(mine: Any, theirs: Any, ulps: float = 0) -> str:
    """Return how a result differs from the plain call's; "" if it does not."""
    if isinstance(theirs, Exception) or isinstance(mine, Exception):
        return "" if isinstance(mine, type(theirs)) else f"{mine!r}, not {theirs!r}"
    for a, b in together(mine, theirs):
        if type(a.value) is not type(b.value):
            return f"{a}: {type(a.value).__name__}, not {type(b.value).__name__}"
        if isinstance(b.value, np.ndarray | np.generic | float):
            x, y = np.asarray(a.value), np.asarray(b.value)
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                return f"{a}: {x.dtype} {x.shape}, not {y.dtype} {y.shape}"
            if not np.all(alike(x, y, ulps)):
                return f"{a}: {x.tolist()}, not {y.tolist()}"
        elif not isinstance(b.value, tuple | list | dict) and a.value != b.value:
            return f"{a}: {a.value!r}, not {b.value!r}"
    return ""


def alike(x: Any, y: Any, ulps: float) -> Any:
    """Return which elements are alike."""
    same = x == y
    if x.dtype.kind != "f":
        return same
    same = (same & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
    if ulps:
        finite = np.isfinite(x) & np.isfinite(y)
        most = np.max(np.abs(y[np.isfinite(y)]), initial=1)
        with np.errstate(all="ignore"):
            same |= (x == y) | (finite & (np.abs(x - y) <= ulps * np.spacing(most)))
    return same
