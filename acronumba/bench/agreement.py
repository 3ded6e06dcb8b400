"""Agreement of results with those of the plain calls, by the bounds of `Model.check`.

In: results, and those of the plain calls, in float32 and in float64. Out: a verdict, and the largest error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from acronumba.api.check import VERDICTS, compare
from acronumba.api.shadow import BOUNDS, FACTOR


def plain(model: Callable[..., Any], instances: Sequence[Any], p: Any) -> list[Any]:
    """Return the results of the plain calls, one instance after the other."""
    return [model(x, p=p) for x in instances]


def agreement(
    results: Sequence[Any], expected: Sequence[Any], exact: Sequence[Any], *, alone: bool = True
) -> tuple[str, float]:
    """Return how well results agree with the plain calls, by the bounds of `Model.check`.

    Parameters
    ----------
    results, expected : sequence
        By instance: the result to check, and the result of the plain call.
    exact : sequence
        Results of the plain call with weights `in_float64`.
    alone : bool
        Whether an instance's own plain call sets the bound, as for us. Otherwise the worst plain call of the
        mini-batch does: another program rounds elsewhere, so that the plain call may be lucky where it is not.

    Returns
    -------
    str, float
        The worst verdict of `check.compare`: "close", "undecided" (decisions differ that rounding cannot tell apart)
        or "different"; the largest error, relative to the largest number of its array.
    """
    if len(results) != len(expected):
        return "different", 0.0
    found = [compare(a, b, c)[:3] for a, b, c in zip(results, expected, exact, strict=True)]
    if not alone:
        bound = FACTOR * max((plain_error for _, _, plain_error in found), default=0.0)
        near = [BOUNDS["float32"] < error <= bound for _, error, _ in found]  # within the common bound
        found = [("close", *f[1:]) if n and f[0] == "different" else f for n, f in zip(near, found, strict=True)]
    worst = max((VERDICTS.index(verdict) for verdict, _, _ in found), default=0)
    return VERDICTS[worst], max((error for _, error, _ in found), default=0.0)


def in_float64(value: Any) -> Any:
    """Return weights with float64 arrays for float32."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype == np.float32 else value
    if isinstance(value, list):
        return [in_float64(v) for v in value]
    if isinstance(value, dict):
        return {key: in_float64(v) for key, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: in_float64(getattr(value, f.name)) for f in fields(value)})
    return value
