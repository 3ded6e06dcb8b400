"""Everything that a result is made of, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.api.check import together


def bits(value: Any) -> list[Any]:
    """Return everything that a result is made of, numbers and arrays as their bytes."""
    if isinstance(value, Exception):
        return [type(value), str(value)]
    out: list[Any] = []
    for (leaf,) in together(value):
        v = leaf.value
        out.append((str(leaf), type(v)))
        if isinstance(v, np.ndarray | np.generic):
            out += [v.dtype.str, v.shape, v.tobytes()]
        else:
            out.append(v.hex() if isinstance(v, float) else v)
    return out
