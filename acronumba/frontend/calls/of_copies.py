"""`copy.copy` and `copy.deepcopy` of objects, lists, dicts and arrays; the copies may be mutated.

A deep copy keeps sharing: an object that is reached twice is copied once. The compiler knows the identity of values
that are made in the call and whose parts are known. It assumes that a shared value reaches no mutable object twice:
`Walker.apart` lists these values, and each mini-batch is checked (`data.shared.reaches_twice`). Two run-time values of
one kind may be the same object: then copies of arrays stay read-only, and other values are rejected.
"""

from __future__ import annotations

import copy
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.data.classes import field_names
from acronumba.data.shared import SharedConst, SharedNode, SharedOpaque
from acronumba.frontend.arrays import made_array
from acronumba.frontend.attributes import read_field
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.tables import row
from acronumba.frontend.dicts import new_dict
from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef, Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Static, method_of
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal, constant_value
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.objects import ObjectValue, Ref, SharedVal
from acronumba.frontend.kinds.records import Record, keys_of
from acronumba.frontend.kinds.torch_tensors import as_torch
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal
from acronumba.frontend.kinds.value import Constant, PythonClass, Val, Value
from acronumba.frontend.lists import list_slice, new_list
from acronumba.frontend.made import check_constructor, made_by_fields
from acronumba.frontend.magic import call_special, has_method, object_class, same_reference
from acronumba.frontend.names import behind, function_value
from acronumba.frontend.overlay import with_written
from acronumba.frontend.torch_math import array_of, stopped
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    NEVER,
    UNSET,
    BoolT,
    EnumT,
    FloatT,
    FunctionT,
    IntT,
    NeverT,
    NoneT,
    OpaqueT,
    ScalarT,
    StrT,
    TensorT,
    TextT,
    TupleT,
    Type,
    members,
)

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

# Methods by which a class customizes the copying of its objects.
_OWN_STATE = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


@row("x", copy.copy, whole=True)
def _copy(w: Walker, a: Args) -> Val:
    return w.each(a["x"], lambda v: _shallow(w, v))


@row("x", copy.deepcopy, whole=True)
def _deepcopy(w: Walker, a: Args) -> Val:
    deep = _Deep(w)
    out = w.each(a["x"], deep.first)
    deep.check_arrays()
    if deep.roots:
        w.apart[tuple(deep.roots)] = w.loc
    return out


def _shallow(w: Walker, val: Val) -> Val:
    """Return a shallow copy: a new value with the same parts."""
    if is_tuple(val):
        return val
    if is_array(val) or val.is_list or val.is_mapping or val.python_class is deque:
        return w.call(method_of(val, "copy"), (), {})
    if has_method(w, val, "__copy__"):
        return call_special(w, val, "__copy__", ())
    cls = object_class(val)
    if cls is not None:
        return own_object(w, cls, fields_of(w, val))
    if _stays_itself(val):
        return val
    raise w.reject("ACR202", seen=f"copy.copy of {w.describe(val)}")


def is_array(val: Val) -> bool:
    """Whether a value is an array, not an (immutable) NumPy scalar."""
    return isinstance(val, ArrayRef) or (isinstance(val, Tensor) and bool(val.type.rank or val.array0 is not None))


def _stays_itself(val: Val) -> bool:
    """Whether a copy of a value is the value itself."""
    if isinstance(val, Static):
        return not isinstance(val.value, types.ModuleType)
    return val.immutable


def own_object(w: Walker, cls: PythonClass, fields: dict[str, Val]) -> Val:
    """Return a new object with the given fields, made without `__init__`, as `copy` does."""
    check_constructor(w, cls)
    for name in _OWN_STATE:
        found = w.source_guard.attribute(cls, name)
        if isinstance(found, types.FunctionType) and found.__module__ != "dataclasses":
            seen = f"the class {cls.__name__}, which says by `{name}` how it is copied"
            raise w.reject("ACR210", seen=seen, rewrite=f"make the copy in the call: {cls.__name__}(...)")
    return made_by_fields(w, cls, fields, None)


def fields_of(w: Walker, val: Val) -> dict[str, Val]:
    """Return the fields of an object; one that cannot be read is an `ErrorValue`, which is rejected on use."""
    if isinstance(val, SharedVal):
        return with_written(w, val, dict(zip(val.node.names, shared_parts(w, val.node), strict=True)))
    if not isinstance(val, Ref):
        return val.fields(w)
    cls = val.classes[0]
    out = {name: _field(w, val, name, t) for name, t in w.facts.fields.get(cls, {}).items()}
    return {name: v for name, v in out.items() if v is not None}


def _field(w: Walker, ref: Ref, name: str, t: Type) -> Val | None:
    """Return the value of a field of an object; None if the field is certainly unset."""
    bad = next((m for m in members(t) if isinstance(m, OpaqueT)), None)
    if bad is not None:
        return ErrorValue(bad.what, "ACR304")
    got = read_field(w, ref, name, t)
    if UNSET not in members(t):
        return got
    if not isinstance(got, UnionVal):
        return None
    return MaybeUnbound(w.narrowed(w.keep(got, lambda m: m != UNSET)), w.is_case(got, lambda m: m != UNSET))


def shared_parts(w: Walker, shared: SharedNode) -> tuple[Val, ...]:
    """Return the parts of a shared structure; one that cannot be read is an `ErrorValue`, which is rejected on use."""
    out: list[Val] = []
    for item in shared.items:
        function = behind(w, item.value) if isinstance(item, SharedConst) else None
        if isinstance(item, SharedOpaque):
            out.append(ErrorValue(f"{item.path}: {item.what}", "ACR501"))
        else:
            out.append(w.shared_value(item) if function is None else function_value(w, function))
    return tuple(out)


class _Deep:
    """One call of `copy.deepcopy`."""

    def __init__(self, w: Walker) -> None:
        self.w = w
        self.copies: dict[object, Val] = {}  # by the key of the copied value
        self.keep: list[Val] = []  # keeps values alive whose keys are their `id`
        self.kinds: set[type | str] = set()  # of the run-time values copied so far
        self.lists: list[tuple[ListVal, ListVal]] = []  # run-time lists, and their copies
        self.cells: set[ElementInfo] = set()  # of the lists and dicts with known parts
        self.arrays: dict[tuple[str, int], list[tuple[bool, Val]]] = {}  # by dtype and rank: (is it shared, its copy)
        self.roots: list[str] = []  # paths of the outermost shared values
        self.inside = False  # a shared value is being copied
        self.classes: list[type] = []  # of the objects being copied
        self.around: list[object] = []  # keys of the objects being copied

    def first(self, val: Val) -> Val:
        """Return the copy of the argument of `copy.deepcopy`."""
        if is_array(val):
            return self.w.call(method_of(val, "copy"), (), {})
        return self.of(val)

    def of(self, val: Val) -> Val:
        """Return the copy of a value: one and the same wherever the value is reached."""
        key = val.identity()
        if key is not None and key in self.copies:
            return self.copies[key]
        self.keep.append(val)
        leaf = self.shared_path(val)
        outermost = leaf is not None and not self.inside
        if outermost:
            self.roots.append(leaf)  # type: ignore[arg-type]
            self.inside = True
        out = self.made(val)
        if outermost:
            self.inside = False
        if key is not None:
            self.copies[key] = out
        return out

    def shared_path(self, val: Val) -> str | None:
        """Return the path of a shared structure or array; None for any other value."""
        if isinstance(val, SharedVal):
            return val.node.path
        if isinstance(val, Tensor) and isinstance(val.ref, ir.SharedArg) and is_array(val):
            return self.w.shared_params[val.ref.index].path
        return None

    def made(self, val: Val) -> Val:
        """Return a copy of a value that is reached for the first time."""
        w = self.w
        if val.is_tensor:
            return as_torch(w.call(method_of(stopped(w, array_of(w, val)), "copy"), (), {}))
        if has_method(w, val, "__deepcopy__"):
            seen = f"{w.describe(val)}, which says by `__deepcopy__` how it is copied"
            raise w.reject("ACR210", seen=seen)
        cls = object_class(val)
        if cls is not None:
            return self.object(val, cls)
        copy = _COPIES.get(type(val))
        if copy is not None:
            return copy(self, val)
        if _stays_itself(val):
            return val
        raise w.reject("ACR202", seen=f"copy.deepcopy of {w.describe(val)}", rewrite="copy.copy(x)")

    def named_tuple(self, val: ObjectValue | Ref) -> Val:
        """Return a copy of a NamedTuple."""
        cls = val.object_classes()[0]
        given = fields_of(self.w, val)
        return ObjectValue(cls, field_names(cls), self.parts(tuple(given[n] for n in field_names(cls))))

    def maybe_unbound(self, val: MaybeUnbound) -> Val:
        """Return a copy of a field that may be unset."""
        if not is_array(val.value) and not _stays_itself(val.value):
            raise self.w.reject("ACR202", seen=f"copy.deepcopy of {self.w.describe(val)}", rewrite="copy.copy(x)")
        return MaybeUnbound(self.of(val.value), val.bound)

    def parts(self, items: tuple[Val, ...]) -> tuple[Val, ...]:
        """Return copies of the parts of a value."""
        out = []
        for k, v in enumerate(items):
            with self.part(k):
                out.append(self.of(v))
        return tuple(out)

    @contextmanager
    def part(self, name: int | str) -> Iterator[None]:
        """Context in which new values get allocation sites of their own, named after a part."""
        frame = self.w.frame
        saved = frame.path
        frame.path = (*saved, ("copied", name))
        try:
            yield
        finally:
            frame.path = saved

    def object(self, val: Val, cls: type) -> Val:
        """Return a copy of an object."""
        key = val.identity()
        if key in self.around or (isinstance(val, Ref) and cls in self.classes):
            seen = f"copy.deepcopy of {cls.__name__}, whose objects may hold others of their class"
            raise self.w.reject("ACR202", seen=seen, rewrite="copy.copy(x) of each object that is changed")
        if isinstance(val, Ref) or (isinstance(val, ObjectValue) and not val.own):
            self.only_one(cls, val)
        self.classes.append(cls)
        self.around.append(key if key is not None else object())
        given = fields_of(self.w, val)
        fields = dict(zip(given, self.parts(tuple(given.values())), strict=True))
        del self.classes[-1], self.around[-1]
        with self.part("object"):
            return own_object(self.w, cls, fields)

    def structure(self, val: SharedVal) -> Val:
        """Return a copy of a shared list, tuple or dict."""
        items = self.parts(shared_parts(self.w, val.node))
        return self.new(val.node.kind, val.node.names, items)

    def known(self, val: StaticList | DictVal) -> Val:
        """Return a copy of a list or dict with known parts. Two with the same `ElementInfo` may be the same object."""
        cell = None if val.cell is None else val.cell.find()
        if cell is None:
            self.only_one("dict", val)
        elif cell in self.cells:
            self.reject_twice(val)
        else:
            self.cells.add(cell)
        items = self.parts(val.items)
        return self.new("dict", val.keys, items) if isinstance(val, DictVal) else self.new("list", (), items)

    def new(self, kind: str, keys: tuple[Constant, ...], items: tuple[Val, ...]) -> Val:
        """Return a new tuple, list or dict."""
        with self.part(kind):
            if kind == "tuple":
                return TupleVal(items)
            if kind == "list":
                return new_list(self.w, items)
            return new_dict(self.w, [(constant_value(self.w, k), v) for k, v in zip(keys, items, strict=True)])

    def at_run_time(self, val: ListVal | MapVal) -> Val:
        """Return a copy of a run-time list or dict; its elements must be immutable."""
        w = self.w
        if isinstance(val, MapVal):
            self.only_one("dict", val)
        if not all(map(_unchangeable, members(val.cell.find().item))) or any(p.find().written for p in val.cell.places):
            seen = f"copy.deepcopy of {w.describe(val)}, whose elements may be changed"
            rewrite = "[copy.deepcopy(x) for x in xs], if no two elements are one"
            raise w.reject("ACR202", seen=seen, rewrite=rewrite)
        if isinstance(val, MapVal):
            with self.part("dict"):
                return w.call(method_of(val, "copy"), (), {})
        out = self.list_once(val, self.lists)
        if isinstance(out, ListVal):
            self.lists.append((val, out))
        return out

    def list_once(self, val: ListVal, before: list[tuple[ListVal, ListVal]]) -> Val:
        """Return the copy of a run-time list; if at run time it is a list in `before`, the copy of that list."""
        w = self.w
        if not before:
            with self.part(len(self.lists)):
                out = list_slice(w, val, number(0), 1, w.ops.list_lengths(val))
                return replace(out, cls=val.cls, extra=val.extra)
        (old, made), *rest = before
        if not self.inside and NEVER in (val.item, old.item):
            self.reject_twice(val)
        if (val.item, val.cls) != (old.item, old.cls):
            return self.list_once(val, rest)
        return w.cond(same_reference(w, val.var, old.var), lambda: made, lambda: self.list_once(val, rest))

    def array(self, val: Tensor | ArrayRef) -> Val:
        """Return a copy of an array; no data is copied unless something writes to it."""
        if not is_array(val):
            return val
        w = self.w
        x = w.whole(val)
        assert isinstance(x, Tensor)
        kind = x.type.dtype, x.type.rank
        place = w.facts.places.setdefault((w.frame.path, *self.w.site, kind), AllocationSite(kind)).find()
        if place.written:
            var = w.tensor_var(Tensor(x.type, x.ref, x.dims))
            new = Tensor(x.type, var, x.dims, fresh=True, array0=x.array0)
            out: Val = made_array(w, new, place)
        else:
            out = Tensor(x.type, x.ref, x.dims, fresh=True, aliased=True, array0=x.array0, places=(place,))
        self.arrays.setdefault(kind, []).append((self.inside, out))
        return out

    def check_arrays(self) -> None:
        """Make copies of arrays read-only where two may be of the same array; reject those that are written to."""
        for known in self.arrays.values():
            if len(known) > 1 and not all(shared for shared, _ in known):
                for _, out in known:
                    if isinstance(out, ArrayRef):
                        self.reject_twice(out)
                    assert isinstance(out, Tensor)
                    out.places = ()

    def only_one(self, kind: type | str, val: Val) -> None:
        """Reject a second run-time value of a kind: it may be the same object as the first."""
        if self.inside:
            return
        if kind in self.kinds:
            self.reject_twice(val)
        self.kinds.add(kind)

    def reject_twice(self, val: Val) -> None:
        seen = f"copy.deepcopy of what holds {self.w.describe(val)} at several places, which may be one"
        raise self.w.reject("ACR202", seen=seen, rewrite="copy.copy(x) of each part that is changed")


_COPIES: dict[type[Value], Callable[..., Val]] = {
    UnionVal: lambda deep, val: deep.w.each(val, deep.of),
    TupleVal: lambda deep, val: TupleVal(deep.parts(val.items)),
    MaybeUnbound: _Deep.maybe_unbound,
    **dict.fromkeys((Tensor, ArrayRef), _Deep.array),
    **dict.fromkeys((ObjectValue, Ref), _Deep.named_tuple),
    **dict.fromkeys((StaticList, DictVal), _Deep.known),
    **dict.fromkeys((ListVal, MapVal), _Deep.at_run_time),
    Record: lambda deep, val: deep.new("dict", keys_of(deep.w, val), deep.parts(val.opened(deep.w).children())),
    SharedVal: _Deep.structure,
}


def _unchangeable(t: Type) -> bool:
    """Whether list elements of a type are immutable; of arrays, the caller checks that nothing writes to them."""
    if isinstance(t, TupleT):
        return all(_unchangeable(m) for item in t.items for m in members(item))
    return isinstance(t, IntT | FloatT | BoolT | EnumT | ScalarT | NoneT | StrT | FunctionT | TextT | NeverT | TensorT)
