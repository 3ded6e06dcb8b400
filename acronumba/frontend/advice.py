"""Rewrites proposed in errors: a change of the user's own expression, where one is known."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from acronumba.data.schema import NODES
from acronumba.foreign import Library
from acronumba.frontend.kinds.value import Val
from acronumba.ir.types import Array0T, ListT, TensorT, Type, UnionT, members, nesting, unlike

if TYPE_CHECKING:
    from acronumba.frontend.exceptions import Rejected
    from acronumba.frontend.walker import Walker


def near(name: str, names: Iterable[str]) -> str:
    """Return "did you mean ...?" for the existing name closest to `name`; "" if none is close."""
    found = difflib.get_close_matches(name, [n for n in names if n != name], 1, 0.7)
    return f"did you mean `{found[0]}`?" if found else ""


def unknown(w: Walker, code: str, seen: str, name: str) -> Rejected:
    """Return the rejection of a function or method of PyTorch that has no row."""
    rewrite = Library.advice(name) or "compute it from operations that are supported, or before or after the batch"
    return w.reject(code, seen=seen, rewrite=rewrite, message="this function of PyTorch is not supported")


def one_type(t: Type) -> str:
    """Return the rewrite that gives values of several types one type; "" if none is known."""
    if nesting(t) > _DEEP:
        return NODES
    if is_record_list(t):
        return "make what is no sequence of like things a tuple, or a dataclass: (a, b) for [a, b]"
    tensors = [m for m in members(t) if isinstance(m, TensorT | Array0T)]
    dtypes = sorted({m.dtype for m in tensors})
    if len(dtypes) > 1:
        wide = next((d for d in ("float64", "float32") if d in dtypes), dtypes[-1])
        return f"give them one dtype: x.astype(np.{wide})"
    ranks = {m.rank if isinstance(m, TensorT) else 0 for m in tensors}
    return "give the arrays one number of axes: x[None], or x.ravel()" if len(ranks) > 1 else ""


_DEEP = 6  # levels of nested lists, tuples and dicts beyond which the data are taken for a tree


def is_record_list(t: Type) -> bool:
    """Whether a type is, or contains, a list of elements of unlike types: a list and a number, for example."""
    if isinstance(t, ListT):
        return unlike(members(t.item)) or is_record_list(t.item)
    return any(map(is_record_list, members(t))) if isinstance(t, UnionT) else False


def operands(op: ast.AST, a: Val, b: Val) -> str:
    """Return the rewrite for an operator between two values; "" if none is known."""
    if own := b.operand_rewrite or a.operand_rewrite:
        return own
    names = {a.python_class, b.python_class}
    if names == {list, tuple}:
        return "make both lists: list(t) + xs"
    if list in names and (a.numeric or b.numeric):
        return "make an array of the list: np.array(xs)"
    if list in names and not isinstance(op, ast.Add | ast.Mult):
        return "make arrays of the lists: np.array(xs)"
    return ""
