"""Objects made in the call: constructors, and assignments to fields.

During construction an object is mutable (`MutableObject`). If no object of its class is mutated afterwards, it becomes
an `ObjectValue`, which exists only in the compiler, at no cost. Else it stays a `MutableObject`, whose fields are
variables, or becomes a row in memory if its allocation site is in `Facts.rows`.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from acronumba.data.classes import field_names, is_record, oddness
from acronumba.data.source_guard import ABSENT
from acronumba.frontend.attributes import attribute_owner, own_method
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.handlers import ASSIGNED, TARGETS, handles
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Partial, Static
from acronumba.frontend.kinds.numbers import NoneVal, Num
from acronumba.frontend.kinds.objects import MutableObject, ObjectValue, Ref, SharedVal
from acronumba.frontend.kinds.unions import MaybeUnbound
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.magic import object_class
from acronumba.frontend.names import alias, as_cursor, check_part, forget, forget_field, name_of_copy, name_views
from acronumba.frontend.overlay import (
    can_be_written,
    is_overlaid,
    made_or_given,
    note_target,
    write_to_data,
    written_object,
)
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import BOOL


def made_by_init(w: Walker, cls: Any, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Make an object of a class by its `__init__`."""
    check_constructor(w, cls)
    made = begin(w, cls)
    init = w.source_guard.attribute(cls, "__init__")
    if isinstance(init, types.FunctionType):
        w.call(own_method(w, init), (self_of(w, made), *args), kwargs)
    elif args or kwargs:
        raise w.reject("ACR203", seen=f"{cls.__name__}() takes no arguments")
    return finished(w, made)


def made_by_fields(w: Walker, cls: Any, fields: Mapping[str, Val], rest: Sequence[Val] | None) -> Val:
    """Make an object of a dataclass; `rest` are the arguments of its `__post_init__`, None if it has none."""
    made = begin(w, cls)
    row = self_of(w, made)
    for name, val in fields.items():
        if isinstance(row, Ref):
            store_field(w, row, name, val)
        else:
            w.kept(val)
            name_views(val)
            w.state[(made.key, name)] = val
    if rest is not None:
        post = w.source_guard.attribute(cls, "__post_init__")
        w.call(own_method(w, post), (row, *rest), {})
    return finished(w, made)


def super_of(w: Walker, args: Sequence[Val]) -> Val:
    """`super()`, by the class that contains the method and the first parameter, or `super(cls, owner)`."""
    match args:
        case []:
            func = w.frame.func
            cell = func.closure.get("__class__")
            a = func.source.node.args
            first = next(iter((*a.posonlyargs, *a.args)), None)
            owner = None if first is None else w.state.get((w.frame.scope, first.arg))
            if cell is not None and owner is not None:
                w.source_guard.place(cell, "__class__")
                return Partial(Static(super), (Static(cell.cell_contents), owner))
        case [Static(value=type()), _]:
            return Partial(Static(super), tuple(args))
    raise w.reject("ACR201", seen="super() outside of a method")


def check_constructor(w: Walker, cls: Any) -> None:
    """Reject a class whose construction is customised: `__new__`, `__setattr__`, a metaclass with `__call__`."""
    for name in ("__new__", "__setattr__", "__getattr__", "__getattribute__"):
        w.source_guard.attribute(cls, name)
    odd = oddness(cls) if not is_record(cls) else ""
    if cls is types.SimpleNamespace:
        odd = "written in C"
    if type(cls).__call__ is not type.__call__:
        odd = "`__call__` of the metaclass"
    if is_record(cls) and cls.__new__ is not object.__new__:
        odd = "`__new__`"
    if odd:
        rewrite = "set(xs)" if cls is frozenset else "a dataclass, or a class without it"
        raise w.reject("ACR210", seen=f"the class {cls.__name__}: {odd}", rewrite=rewrite)


def begin(w: Walker, cls: type) -> MutableObject:
    """Return a new object without fields."""
    w.counter += 1
    made = MutableObject(cls, ("object", w.counter), ("object", w.frame.path, *w.site))
    w.state[(made.key, "")] = NoneVal()
    w.building.add(made.key)
    if made.site in w.facts.early:
        var = w.new_row(cls, {})
        w.state[(made.key, "")] = Ref((cls,), var, own=True)
    return made


def self_of(w: Walker, made: MutableObject) -> Val:
    """Return the `self` of `__init__`: the object, or its row."""
    row = w.state[(made.key, "")]
    return row if isinstance(row, Ref) else made


def finished(w: Walker, made: MutableObject) -> Val:
    """Return the value of an object whose construction is complete."""
    w.building.discard(made.key)
    if w.block is None:
        return NoneVal()
    row = w.state[(made.key, "")]
    if isinstance(row, Ref):
        return row
    cls, found = made.cls, made.fields(w)
    if any(isinstance(v, MaybeUnbound) or made.is_in(v) for v in found.values()):
        w.note(w.facts.changing, cls)
    if cls in w.facts.changing and made.site not in w.facts.rows:
        return made
    forget_object(w, made)
    if cls in w.facts.changing:
        w.building.add(made.key)  # the object may contain itself
        var = w.new_row(cls, found)
        w.building.discard(made.key)
        return Ref((cls,), var, own=True)
    declared = [n for n in field_names(cls) if n in found]
    names = (*declared, *(n for n in found if n not in declared))
    return ObjectValue(cls, names, tuple(found[n] for n in names))


def forget_object(w: Walker, made: MutableObject) -> None:
    """Forget the fields of an object that has been converted to another form."""
    w.state = {k: v for k, v in w.state.items() if k[0] != made.key}


# ---- assignment


def about_to_change(w: Walker, owner: Val) -> None:
    """Note that an object is mutated, before its fields are read."""
    if isinstance(owner, ObjectValue) and class_that_changes(owner) and owner.cls not in w.facts.changing:
        w.note(w.facts.changing, owner.cls)
        raise Restart


def set_attribute(w: Walker, owner: Val, name: str, val: Val) -> None:
    """Assign to an attribute."""
    if isinstance(val, ErrorValue):
        note_target(w, owner, name)
    w.check_poison(owner, val)
    about_to_change(w, owner)
    if val.is_iterator:
        found = as_cursor(w, val)
        check_part(w, found or val)
        val = found or val
    if owner.is_several:
        alias(val)
        w.each(owner, lambda v: _set_one(w, v, name, val))
        return
    cls = object_class(owner)
    if cls is None:
        raise _read_only(w, owner, name)
    setter = w.source_guard.attribute(cls, name) if w.has(cls, name) else ABSENT
    if isinstance(setter, property):
        if setter.fset is None:
            raise w.reject("ACR113", seen=f"an assignment to the property .{name}, which has no setter")
        w.call(own_method(w, setter.fset), (owner, val), {})
        return
    _check_place(w, cls, name, setter, owner)
    handler = ASSIGNED.get(type(owner))
    if handler is None or not handler(w, owner, name, val):
        raise _read_only(w, owner, name)


@handles(ASSIGNED, MutableObject)
def _set_variable(w: Walker, owner: MutableObject, name: str, val: Val) -> bool:
    if owner.key not in w.building:
        _note_assigned(w, owner.cls, name)
    owner.must_exist(w)
    w.kept(val)
    name_views(val)
    forget(w, owner.key, name)
    forget_field(w, name)
    w.state[(owner.key, name)] = val
    return True


@handles(ASSIGNED, SharedVal)
def _set_shared(w: Walker, owner: SharedVal, name: str, val: Val) -> bool:
    if not can_be_written(w, owner.node.cls):
        return False
    set_attribute(w, written_object(w, owner, name), name, val)
    return True


@handles(ASSIGNED, Ref)
def _set_at_run_time(w: Walker, owner: Ref, name: str, val: Val) -> bool:
    if owner.own is False and can_be_written(w, owner.classes[0]):
        write_to_data(w, owner, name, val)
    elif owner.own is None and is_overlaid(w, owner, name):
        alias(val)
        made_or_given(w, owner, lambda v: _set_one(w, v, name, val), lambda v: _set_one(w, v, name, val))
    else:
        store_field(w, owner, name, val)
    return True


def _set_one(w: Walker, owner: Val, name: str, val: Val) -> Val:
    set_attribute(w, owner, name, val)
    return NoneVal()


def class_that_changes(owner: Val) -> type | None:
    """Return the class of an object that may be mutated; None for other values."""
    return None if isinstance(owner, SharedVal) else object_class(owner)


def _check_place(w: Walker, cls: Any, name: str, found: Any, owner: Val) -> None:
    """Reject an attribute that an object of a class cannot have, or whose assignment runs code."""
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        here = owner.key in w.building if isinstance(owner, MutableObject) else False
        early = owner in [w.state[(key, "")] for key in w.building if (key, "") in w.state]  # `facts.early`
        if not ((here or early) and isinstance(w.here, ast.Call)):
            raise w.reject("ACR113", seen=f"an assignment to .{name} of {cls.__name__}, which is frozen",
                           rewrite=f"dataclasses.replace(x, {name}=...)")  # fmt: skip
    if found is not ABSENT and hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType):
        raise w.reject("ACR210", seen=f"{cls.__name__}.{name}, a user-defined descriptor")
    if not cls.__dictoffset__ and not isinstance(found, types.MemberDescriptorType):
        raise w.reject("ACR307", seen=f"{cls.__name__}, by its `__slots__`, has no attribute {name!r}")


def _note_assigned(w: Walker, cls: type, name: str) -> None:
    w.note(w.facts.changing, cls)
    w.note(w.facts.assigned, name)


def store_field(w: Walker, owner: Ref, name: str, val: Val) -> None:
    """Assign to a field of a row."""
    cls = owner.classes[0]
    if owner.own is False:
        raise _read_only(w, owner, name)
    if cls not in w.facts.changing:
        w.note(w.facts.changing, cls)
        raise Restart
    _note_assigned(w, cls, name)
    w.kept(val)
    alias(val)
    names = w.facts.built.setdefault(cls, set())
    new = name not in names
    w.note(names, name)
    w.stored.setdefault(cls, set()).add(name)
    t = w.widen_field(cls, name, w.type_of(val))
    if new and w.facts.fields[cls].get(name) is None:
        raise Restart
    w.put_in(w.field_cell(cls, name), val)
    args = w.to_words(val, t)
    forget_field(w, name)
    if owner.own is None and w.block is not None:
        made = w.var("made", BOOL)
        w.emit(ir.IsMade(out=made, ref=owner.var, loc=w.loc))
        place = f"[{cls.shape.place(name)!r}] of a dict" if is_shape(cls) else f".{name} of {w.describe(owner)}"
        w.check(Num(BOOL, var=made), "ACR113", f"an assignment to {place}")
    if w.block is not None:
        w.emit(ir.Store(ref=owner.var, cls=cls, field=name, args=args, loc=w.loc))


def _read_only(w: Walker, owner: Val, name: str) -> Exception:
    place = w.here if isinstance(w.here, ast.Attribute) else None
    text = ast.unparse(place.value) if place is not None else "x"
    cls = owner.python_class
    rewrite = ""
    if isinstance(owner, Static) and isinstance(owner.value, types.ModuleType):
        seen = f"an assignment to .{name} of the module {text}"
        return w.reject("ACR113", seen=seen, rewrite="assign it before the batch")
    if owner.is_tensor:
        rewrite = f"x.{name}_(...) before the batch" if name == "requires_grad" else "x = x.clone()"
    if is_record(cls):
        call = f"dataclasses.replace({text}, " if is_dataclass(cls) else f"{text}._replace("
        rewrite = f"{text} = {call}{name}=...)"
    elif owner.object_classes() and not isinstance(owner, MutableObject):
        own = text if place is None else name_of_copy(w, place.value)
        rewrite = f"change a copy: {own} = copy.copy({text})"
    return w.reject("ACR113", seen=f"an assignment to .{name} of {w.describe(owner)}", rewrite=rewrite)


@handles(TARGETS, ast.Attribute)
def _to_field(w: Walker, target: ast.Attribute, val: Val) -> None:
    set_attribute(w, attribute_owner(w, target), target.attr, val)
