"""Calls that take or make a `np.matrix`: its stand-in is `matrices.Matrix`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.attributes import attribute
from acronumba.frontend.calls.matrices import DROP, KEEP, METHODS, Matrix, matrix_of
from acronumba.frontend.calls.objects import STAND_INS
from acronumba.frontend.lists import new_list
from acronumba.frontend.values import MutableObject, ObjectValue, Ref, StaticList, TupleVal, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

STAND_INS[Matrix] = np.matrix


def is_matrix(val: Val) -> bool:
    """Whether a value is a matrix, or a tuple or list with known items that holds one."""
    if isinstance(val, TupleVal | StaticList):
        return any(map(is_matrix, val.items))
    return isinstance(val, MutableObject | Ref | ObjectValue) and val.python_class is Matrix


def array_in(w: Walker, val: Val) -> Val:
    """Return a value with arrays in place of matrices, also those in tuples and lists with known items."""
    if not is_matrix(val):
        return val
    match val:
        case TupleVal():
            return TupleVal(tuple(array_in(w, v) for v in val.items))
        case StaticList():
            return new_list(w, [array_in(w, v) for v in val.items])
    out: Val = attribute(w, val, "array")
    return out


def call_with_matrices(w: Walker, value: Any, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Call a NumPy function that takes or makes a matrix; None for any other call."""
    if value is np.matrix:
        return w.call(w.constant(Matrix), tuple(args), kwargs)
    if value is np.asmatrix:
        return w.call(w.constant(matrix_of), tuple(args), kwargs)
    if not any(map(is_matrix, (*args, *kwargs.values()))):
        return None
    module = type(value).__module__ if isinstance(value, np.ufunc) else getattr(value, "__module__", None) or ""
    if value in METHODS and is_matrix(args[0]):
        return w.call(w.constant(METHODS[value]), tuple(args), kwargs)
    if value in KEEP or value in DROP:
        plain = tuple(array_in(w, v) for v in args)
        named = {k: array_in(w, v) for k, v in kwargs.items()}
        out = w.call(w.constant(value), plain, named)
        return w.call(w.constant(matrix_of), (out,), {}) if value in KEEP else out
    if module.split(".")[0] in ("numpy", "scipy"):
        seen = f"{ast.unparse(w.here.func) if isinstance(w.here, ast.Call) else value.__name__} of a np.matrix"
        raise w.reject("ACR202", seen=seen, rewrite="give it the array: np.asarray(m)")
    return None
