"""Type checks of new shared values that replace old ones in a server or a pool.

In: shared values, and their replacements. Out: an error if a replacement is not usable by requests. Arrays may have
other extents, numbers other values, lists other lengths, dicts other keys; classes and ranks stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from acronumba.api.snapshot import value_of
from acronumba.data.shared import Shared, SharedAgain, SharedConst, SharedLeaf, SharedNode, SharedOpaque, describe_value
from acronumba.generics import Value
from acronumba.ir.types import Array0T, FloatT, IntT, ListT, MapT, StructT, TensorT, type_text


def expect_kinds(old: Mapping[str, Value], new: Mapping[str, Value], what: str) -> None:
    """Raise `TypeError` if the shared values `new` cannot replace `old`; `what` is "server" or "pool"."""
    if unknown := sorted(new.keys() - old.keys()):
        raise TypeError(f"`{unknown[0]}` is not a shared value of this {what}: {', '.join(old) or 'none'}")
    for name, value in new.items():
        was, now = (describe_value(name, value_of(v)) for v in (old[name], value))
        if found := _difference(name, [was], now):
            raise TypeError(f"{found}; nothing was updated. For values of another type create another {what}")


def _difference(path: str, old: Iterable[Shared], new: Shared) -> str:
    """Describe the first part of a value whose kind no old value has; "" if there is none."""
    found = ""
    for one in old:
        unlike = _unlike(path, one, new)
        if not unlike:
            return ""
        found = found or unlike
    return found


def _unlike(path: str, old: Shared, new: Shared) -> str:
    was, now = _kind(old), _kind(new)
    if was != now and not (was == "None" and not isinstance(new, SharedOpaque)):  # None may be replaced by any value
        return f"`{path}` is {now} in place of {was}"
    if not (isinstance(old, SharedNode) and isinstance(new, SharedNode)):
        return ""
    parts = zip(new.names, new.items, strict=True)
    if new.kind == "object":
        found = (_unlike(f"{path}.{n}", part, item) for n, item in parts if (part := old.item(n)) is not None)
    elif new.kind == "dict":  # keys may change: each value needs the kind of some old one
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
        case SharedAgain():
            return "the object itself"
        case SharedOpaque(_, what):
            return what
