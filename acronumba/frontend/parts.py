"""Comparison of abstract values: equal values, values equal up to their contents, and values made in the call."""

from __future__ import annotations

from typing import Any

from acronumba.frontend.holders import held
from acronumba.frontend.kinds.value import Value
from acronumba.frontend.values import (
    NOT_CONST,
    ArrayRef,
    Bound,
    Columns,
    DictVal,
    Enumerate,
    EnumVal,
    Func,
    Kept,
    ListVal,
    MapVal,
    MapView,
    MaybeUnbound,
    Method,
    MutableObject,
    NoneVal,
    Num,
    ObjectValue,
    OneOfFunctions,
    Partial,
    Range,
    Ref,
    Reversed,
    SharedVal,
    SliceVal,
    Static,
    StaticList,
    Stream,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    array_form,
    array_numbers,
)
from acronumba.ir.types import DictT, ListT, TupleT

# Compile-time values that are the same if they are alike and their contained values are the same.
HOLDERS = (Func, Bound, Method, Range, Zip, Enumerate, Reversed, MapView, Stream, Partial, Kept, Columns)


def same(a: Any, b: Any) -> bool:
    """Whether two abstract values are known to be the same value."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    match a:
        case Num():
            if a.const is not NOT_CONST or b.const is not NOT_CONST:
                return type(a.const) is type(b.const) and (a.const == b.const) and repr(a.const) == repr(b.const)
            return a.var is b.var and (a.var is not None or a.shared == b.shared)
        case EnumVal():
            return a.cls is b.cls and a.var is b.var and a.const is b.const
        case NoneVal():
            return True
        case Value():
            return a.same(b)
        case Tensor():
            kinds = a.array0 is b.array0 or (a.array0 is not None and b.array0 is not None and same(a.array0, b.array0))
            return bool(a.ref == b.ref and a.type == b.type and kinds)
        case ArrayRef():
            return array_form(a) == array_form(b) and all(map(same, array_numbers(a), array_numbers(b)))
        case Ref():
            return a.var is b.var and a.classes == b.classes
        case MutableObject():
            return bool(a.key == b.key)
        case TupleVal():
            return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
        case DictVal():
            return a.keys == b.keys and all(map(same, a.items, b.items))
        case ObjectValue():
            return a.cls is b.cls and all(map(same, a.items, b.items))
        case ListVal() | MapVal():
            return a.var is b.var
        case UnionVal():
            return bool(a.vars == b.vars and a.possible == b.possible)
        case SharedVal():
            return bool(a.node.path == b.node.path)
        case Static():
            return a.value is b.value or (
                type(a.value) is type(b.value) and isinstance(a.value, type) is False and _equal(a.value, b.value)
            )
        case _ if isinstance(a, HOLDERS):
            return alike(a, b) and all(map(same, held(a), held(b)))
        case MaybeUnbound():
            return same(a.value, b.value) and same(a.bound, b.bound)
        case OneOfFunctions():
            return len(a.options) == len(b.options) and all(map(same, a.options, b.options)) and same(a.index, b.index)
    return False


def alike(a: Val, b: Val) -> bool:
    """Whether two values are the same up to the values they contain (`held`)."""
    match a, b:
        case (Func(), Func()):
            return a.key == b.key
        case (Bound(), Bound()):
            return alike(a.func, b.func)
        case (Method(), Method()):
            return a.name == b.name
        case (Partial(), Partial()):
            return len(a.args) == len(b.args) and a.names == b.names
        case (Kept(), Kept()):
            return a.kind is b.kind and len(a.extra) == len(b.extra)
        case (MapView(), MapView()):
            return a.what == b.what
        case (Zip(), Zip()):
            return a.strict == b.strict and len(a.parts) == len(b.parts)
        case (
            (SliceVal(), SliceVal())
            | (Range(), Range())
            | (Enumerate(), Enumerate())
            | (Reversed(), Reversed())
            | (Stream(), Stream())
        ):
            return True
    return same(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # a comparison of foreign objects may raise anything
        return False


def is_own(val: Val) -> bool:
    """Whether the lists and dicts that a value is or contains were certainly made in the call."""
    match val:
        case ListVal():
            return val.own
        case TupleVal() | DictVal() | ObjectValue() | StaticList():
            return all(map(is_own, val.items))
        case Kept():
            return is_own(val.inner)
        case MapVal():
            return not val.type.given
        case UnionVal():
            return val.place is not None or not any(isinstance(t, ListT | TupleT | DictT) for t in val.possible)
    return not isinstance(val, SharedVal)
