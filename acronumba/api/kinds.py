"""Kinds of shared values: what may come in the place of what, where a server or a pool gets others.

In: shared values, and those that are to take their places. Out: a refusal, if requests could do nothing with one.
Arrays may have other extents, numbers other values, lists other lengths, dicts other keys; classes and ranks stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acronumba.api.snapshot import value_of
from acronumba.data.shared import Shared, SharedConst, SharedLeaf, SharedNode, SharedOpaque, describe_value
from acronumba.ir.types import Array0T, FloatT, IntT, ListT, MapT, StructT, TensorT, type_text


def expect_kinds(old: Mapping[str, Any], new: Mapping[str, Any], what: str) -> None:
    """Raise if shared values are no replacement for the old ones of a server or pool, which `what` says."""
    if unknown := sorted(new.keys() - old.keys()):
        raise TypeError(f"`{unknown[0]}` is no shared value of this {what}: {', '.join(old) or 'none'}")
    for name, value in new.items():
        was, now = (describe_value(name, value_of(v)) for v in (old[name], value))
        if found := _difference(name, [was], now):
            raise TypeError(f"{found}; nothing was updated. Values of another kind are for another {what}")


def _difference(path: str, old: Iterable[Shared], new: Shared) -> str:
    """Say what of a value has the kind of none of the old ones; "" if nothing has."""
    found = ""
    for one in old:
        unlike = _unlike(path, one, new)
        if not unlike:
            return ""
        found = found or unlike
    return found


def _unlike(path: str, old: Shared, new: Shared) -> str:
    was, now = _kind(old), _kind(new)
    if was != now and not (was == "None" and not isinstance(new, SharedOpaque)):  # what was not there may come
        return f"`{path}` is {now} in place of {was}"
    if not (isinstance(old, SharedNode) and isinstance(new, SharedNode)):
        return ""
    parts = zip(new.names, new.items, strict=True)
    if new.kind == "object":
        found = (_unlike(f"{path}.{n}", part, item) for n, item in parts if (part := old.item(n)) is not None)
    elif new.kind == "dict":  # other keys: each value is as some that was there
        found = (_difference(f"{path}[{n!r}]", old.items, item) for n, item in parts)
    else:
        found = (_difference(f"{path}[{n}]", old.items, item) for n, item in parts)
    return next(filter(None, found), "")


def _kind(shared: Shared) -> str:
    match shared:
        case SharedLeaf(_, TensorT(shape=shape)) if shape:
            return f"an array of rank {len(shape)}"
        case SharedLeaf(_, TensorT() | Array0T() | IntT() | FloatT()) | SharedConst(bool()):
            return "a number"
        case SharedLeaf(_, ListT()):
            return "a list"
        case SharedLeaf(_, MapT(item=item)):
            return "a set" if item is None else "a dict"
        case SharedLeaf(_, StructT(cls)) | SharedNode(cls=cls):
            return f"a {cls.__name__}"
        case SharedLeaf(_, t):
            return type_text(t)
        case SharedConst(None):
            return "None"
        case SharedConst(value):
            return "a function" if callable(value) else f"a {type(value).__name__}"
        case SharedOpaque(_, what):
            return what
