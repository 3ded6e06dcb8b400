"""Functions and classes of Numba in the compiled language: `prange`, typed containers, casts, `vectorize`.

Numba is not imported: who has an object of it has imported it. A function under `njit`, `jit` or `cfunc` is not listed
here: its Python source is compiled (`frontend.names.behind`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np

from acronumba.generics import Value


def python_of_numba(value: Value) -> Callable[..., Value] | None:
    """Return a function or class of Python for one of Numba, or for a type of it; None for other values."""
    module = sys.modules["numba"]
    if value is module.prange:
        return range
    typed = sys.modules.get("numba.typed")
    if typed is not None:
        table = ((typed.List, list), (typed.Dict, dict), (typed.List.empty_list, no_items), (typed.Dict.empty, no_keys))
        found = next((python for of_numba, python in table if value == of_numba), None)
        if found is not None:
            return found
    if isinstance(value, module.types.Boolean | module.types.Integer | module.types.Float):
        return np.bool_ if isinstance(value, module.types.Boolean) else np.dtype(str(value)).type
    if type(value).__name__ == "DUFunc":
        loops = tuple(_loop(text) for text in value.types) if value._frozen else ()
        return functools.partial(by_element, value.__wrapped__, loops)
    return None


def _loop(text: str) -> tuple[tuple[np.dtype[Value], ...], np.dtype[Value]]:
    """Return the dtypes of a loop of a ufunc, "ff->f"."""
    given, _, out = text.partition("->")
    return tuple(map(np.dtype, given)), np.dtype(out)


def no_items(*types, **options):
    """`List.empty_list`."""
    return []


def no_keys(*types, **options):
    """`Dict.empty`."""
    return {}


def fits(given, arrays):
    """Whether arrays, or numbers, can be cast safely to dtypes."""
    for dtype, x in zip(given, arrays, strict=True):
        if np.result_type(x, dtype) != dtype:
            return False
    return True


def by_element(function, loops, *arrays):
    """Apply the function of a `vectorize` to each element, in the dtypes of the first loop that fits."""
    for given, out in loops:
        if fits(given, arrays):
            return elements(function, out, [np.asarray(x, dtype) for x, dtype in zip(arrays, given, strict=True)])
    if len(loops) > 0:
        raise TypeError("no loop of the vectorized function takes these dtypes")
    return elements(function, None, [np.asarray(x) for x in arrays])


def at_once(function, whole, loops, *arrays):
    """Apply the function of a `vectorize`, of which `whole` is the form for arrays."""
    shape = np.broadcast_shapes(*[np.shape(x) for x in arrays])
    for given, out in loops:
        if fits(given, arrays):
            found = whole(*[np.asarray(x, dtype) for x, dtype in zip(arrays, given, strict=True)])
            return np.broadcast_to(found, shape).astype(out)[()]
    if len(loops) > 0:
        raise TypeError("no loop of the vectorized function takes these dtypes")
    return np.broadcast_to(whole(*[np.asarray(x) for x in arrays]), shape).copy()[()]


def elements(function, dtype, arrays):
    """Apply a function to each element of arrays, which broadcast."""
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    if len(shape) == 0:
        return np.asarray(function(*[x[()] for x in arrays]), dtype)[()]
    flat = [np.ravel(np.broadcast_to(x, shape)) for x in arrays]
    return np.reshape(np.array([function(*[x[k] for x in flat]) for k in range(len(flat[0]))], dtype), shape)
