"""Calls of Numba's functions, classes and types, by what stands for them in Python (`frontend.library.numba`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.frontend.kinds.functions import Func, Static
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.numba import at_once, by_element, python_of_numba
from acronumba.frontend.names import function_value
from acronumba.frontend.whole_arrays import of_whole_arrays
from acronumba.generics import Value

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

# What to write in place of a kind of object, by the name of its class.
_INSTEAD = {
    "GUFunc": "a function with signatures and one result, or one under njit that takes one row",
    "JitClassType": "the class without @jitclass",
    "StencilFunc": "a loop over the indices, or slices: a[1:-1] = x[:-2] + x[2:]",
    "_Intrinsic": "a function in plain Python",
    "FunctionType": "a function in plain Python",
}


def call_numba(w: Walker, value: Value, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call an object of Numba."""
    python = python_of_numba(value)
    if isinstance(python, functools.partial):
        w.by_source = True
        function, loops, *layout = python.args
        w.source_guard.item(value, "__wrapped__")
        if kwargs:
            raise w.reject("ACR203", seen=f"{', '.join(kwargs)} of a function under vectorize")
        func = function_value(w, function)
        if layout:
            return w.call(w.constant(python.func), (func, *(_constants(w, x) for x in (loops, *layout)), *args), {})
        dtypes = _constants(w, loops)
        whole = of_whole_arrays(func) if isinstance(func, Func) else None
        args = (func, dtypes, *args) if whole is None else (func, whole, dtypes, *args)
        python = by_element if whole is None else at_once
    if python is None:
        kind = type(value).__name__
        name = getattr(value, "__name__", None) or repr(value)
        rewrite = _INSTEAD.get(kind, "plain Python and NumPy")
        raise w.reject("ACR201", seen=f"{name}, a {kind} of Numba", rewrite=rewrite)
    return w.call(w.constant(python), args, kwargs)


def _constants(w: Walker, value: Value) -> Val:
    """Return nested tuples of constants as a value."""
    if isinstance(value, tuple):
        return TupleVal(tuple(_constants(w, x) for x in value))
    return Static(value) if isinstance(value, np.dtype) else w.constant(value)
