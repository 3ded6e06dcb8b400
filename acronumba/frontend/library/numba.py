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
    if type(value).__name__ == "GUFunc" and not value.is_dynamic and value.nout == 1:
        return functools.partial(by_rows, value.__wrapped__, _row_loops(value), _layout(value.signature))
    return None


def _loop(text: str) -> tuple[tuple[np.dtype[Value], ...], np.dtype[Value]]:
    """Return the dtypes of a loop of a ufunc, "ff->f"."""
    given, _, out = text.partition("->")
    return tuple(map(np.dtype, given)), np.dtype(out)


def _row_loops(value: Value) -> tuple[Value, ...]:
    """Return for each signature of a `guvectorize` its dtypes, that of the result, and which arguments are numbers."""
    out = []
    for signature in value.gufunc_builder._sigs:
        dtypes = [np.dtype(str(getattr(t, "dtype", t))) for t in signature.args]
        numbers = tuple(not hasattr(t, "dtype") for t in signature.args[:-1])
        out.append((tuple(dtypes[:-1]), dtypes[-1], numbers))
    return tuple(out)


def _layout(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of the axes of the arguments and of the result: "(n),(n)->()"."""
    parts = [part.split(")")[0] for part in text.replace(" ", "").split("(")[1:]]
    return tuple(tuple(name for name in part.split(",") if name) for part in parts)


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
            return elements(function, out, cast(arrays, given))
    if len(loops) > 0:
        raise TypeError("no loop of the vectorized function takes these dtypes")
    return elements(function, None, [np.asarray(x) for x in arrays])


def at_once(function, whole, loops, *arrays):
    """Apply the function of a `vectorize`, of which `whole` is the form for arrays."""
    shape = np.broadcast_shapes(*[np.shape(x) for x in arrays])
    for given, out in loops:
        if fits(given, arrays):
            return np.broadcast_to(whole(*cast(arrays, given)), shape).astype(out)[()]
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


def by_rows(function, loops, layout, *arrays):
    """Apply the function of a `guvectorize` to each row of arrays, whose other axes broadcast."""
    for given, out, numbers in loops:
        if exact(given, arrays):
            return rows_by(function, out, numbers, layout, cast(arrays, given))
    for given, out, numbers in loops:
        if fits(given, arrays):
            return rows_by(function, out, numbers, layout, cast(arrays, given))
    raise TypeError("no signature of the function takes these dtypes")


def exact(given, arrays):
    """Whether arrays have dtypes, and numbers fit them: NumPy prefers such a loop."""
    for dtype, x in zip(given, arrays, strict=True):
        if np.result_type(x) != dtype and (np.ndim(x) > 0 or np.result_type(x, dtype) != dtype):
            return False
    return True


def cast(arrays, dtypes):
    """Return arrays in other dtypes."""
    return [np.asarray(x, dtype) for x, dtype in zip(arrays, dtypes, strict=True)]


def rows_by(function, out, numbers, layout, arrays):
    """Apply a function that fills its last argument to rows of arrays of its dtypes."""
    sizes = {}
    for names, x in zip(layout[:-1], arrays, strict=True):
        for k, name in enumerate(names):
            n = x.shape[x.ndim - len(names) + k]
            if name not in sizes:
                sizes[name] = n
            elif sizes[name] != n:
                raise ValueError("operands of a function under guvectorize have different sizes")
    axes = [x.ndim - len(names) for names, x in zip(layout[:-1], arrays, strict=True)]
    outer = np.broadcast_shapes(*[x.shape[:n] for n, x in zip(axes, arrays, strict=True)])
    made = tuple([sizes[name] for name in layout[-1]])
    if len(outer) == 0:
        return filled(function, out, numbers, made, arrays)
    count = 1
    for n in outer:
        count = count * n
    flat = [
        np.reshape(np.broadcast_to(x, (*outer, *x.shape[n:])), (count, *x.shape[n:]))
        for n, x in zip(axes, arrays, strict=True)
    ]
    whole = np.empty((count, *made), out)
    for k in range(count):
        whole[k] = filled(function, out, numbers, made, [x[k] for x in flat])
    return np.reshape(whole, (*outer, *made))


def filled(function, out, numbers, shape, rows):
    """Return the array, or number, that a function writes into its last argument."""
    given = [x[()] if number else np.atleast_1d(x) for x, number in zip(rows, numbers, strict=True)]
    if len(shape) == 0:
        result = np.empty(1, out)
        function(*given, result)
        return result[0]
    result = np.empty(shape, out)
    function(*given, result)
    return result
