"""Calls of Numba's functions, classes and types, by what stands for them in Python (`frontend.library.numba`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
    "GUFunc": "a function under njit that takes one row, called in a loop: [f(row) for row in x]",
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
        function, loops = python.args
        w.source_guard.item(value, "__wrapped__")
        dtypes = tuple(TupleVal((TupleVal(tuple(map(Static, given))), Static(out))) for given, out in loops)
        if kwargs:
            raise w.reject("ACR203", seen=f"{', '.join(kwargs)} of a function under vectorize")
        func = function_value(w, function)
        whole = of_whole_arrays(func) if isinstance(func, Func) else None
        args = (func, TupleVal(dtypes), *args) if whole is None else (func, whole, TupleVal(dtypes), *args)
        python = by_element if whole is None else at_once
    if python is None:
        kind = type(value).__name__
        name = getattr(value, "__name__", None) or repr(value)
        rewrite = _INSTEAD.get(kind, "plain Python and NumPy")
        raise w.reject("ACR201", seen=f"{name}, a {kind} of Numba", rewrite=rewrite)
    return w.call(w.constant(python), args, kwargs)
