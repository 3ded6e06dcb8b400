"""Items of iterables that are known one by one, by the kind of iterable."""

from __future__ import annotations

import enum
from typing import Any

from acronumba.data.classes import field_names
from acronumba.frontend.attributes import load
from acronumba.frontend.dicts import key_value
from acronumba.frontend.handlers import ITEMS, handles
from acronumba.frontend.values import (
    DictVal,
    Enumerate,
    ObjectValue,
    Ref,
    Reversed,
    SharedVal,
    Static,
    StaticList,
    Stream,
    TupleVal,
    Val,
    Zip,
    number,
)
from acronumba.frontend.walker import Walker


@handles(ITEMS, TupleVal, StaticList)
def _of_sequence(w: Walker, val: TupleVal | StaticList) -> tuple[Val, ...] | None:
    return val.items


@handles(ITEMS, ObjectValue)
def _of_record(w: Walker, val: ObjectValue) -> tuple[Val, ...] | None:
    return val.items if issubclass(val.cls, tuple) else None


@handles(ITEMS, SharedVal)
def _of_shared(w: Walker, val: SharedVal) -> tuple[Val, ...] | None:
    if val.node.kind == "dict":
        return tuple(key_value(w, k) for k in val.node.names)
    return w.shared_items(val) if val.node.kind != "object" or issubclass(val.node.cls, tuple) else None


@handles(ITEMS, DictVal)
def _of_dict(w: Walker, val: DictVal) -> tuple[Val, ...] | None:
    return tuple(key_value(w, k) for k in val.keys)


@handles(ITEMS, Ref)
def _of_row(w: Walker, val: Ref) -> tuple[Val, ...] | None:
    if len(val.classes) > 1 or not issubclass(val.classes[0], tuple):
        return None
    return tuple(load(w, val, n) for n in field_names(val.classes[0]))


@handles(ITEMS, Static)
def _of_enum(w: Walker, val: Static) -> tuple[Val, ...] | None:
    members = list[Any](val.value) if isinstance(val.value, enum.EnumMeta) else None
    return None if members is None else tuple(map(w.constant, members))


@handles(ITEMS, Zip)
def _of_zip(w: Walker, val: Zip) -> tuple[Val, ...] | None:
    columns = [c for c in map(w.items_of, val.parts) if c is not None]
    if len(columns) < len(val.parts):
        return None
    lengths = set(map(len, columns))
    if val.strict and len(lengths) > 1:
        raise w.reject("ACR305", seen=f"zip of {sorted(lengths)} items")
    return tuple(TupleVal(t) for t in zip(*columns, strict=False))


@handles(ITEMS, Enumerate)
def _of_enumerate(w: Walker, val: Enumerate) -> tuple[Val, ...] | None:
    inner = w.items_of(val.inner)
    if inner is None:
        return None
    return tuple(TupleVal((w.scalar("add", val.start, number(k)), v)) for k, v in enumerate(inner))


@handles(ITEMS, Stream)
def _of_stream(w: Walker, val: Stream) -> tuple[Val, ...] | None:
    return w.items_of(val.inner)


@handles(ITEMS, Reversed)
def _of_reversed(w: Walker, val: Reversed) -> tuple[Val, ...] | None:
    inner = w.items_of(val.inner)
    return None if inner is None else tuple(reversed(inner))
