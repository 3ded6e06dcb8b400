"""The overlay: attributes of objects that came in, as the call writes them.

An object that came in (of an instance's data, or shared, as a module) never changes. The attributes that the program
writes, and only these (`Facts.overlaid`), are the instance's own: they are read from the overlay, which is dropped at
the end of the call. A shared object is known when the model is compiled: its written attributes are a `MutableObject`
made where the call begins, so they are variables, or a row if recursive functions need them. An object of the data is
known at run time: for each written attribute of its class, a dict of the call has the values, by object.

Invariant: a written attribute of an object that came in is read from the overlay alone, wherever it is read. So each
object is in it under one key: shared objects under the first of their paths (`Facts.same`), objects of the data under
their addresses. `check_distinct` rejects what could be under two keys. In each mini-batch the same paths must lead to
the same objects (`Lowered.distinct`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

from acronumba.data.classes import adapter_of, field_names, is_record
from acronumba.data.shared import Shared, nodes_of, without
from acronumba.errors import Loc
from acronumba.frontend.attributes import (
    attribute_at_run_time,
    has_attribute,
    inherits,
    no_attribute,
    read_field,
    shared_attribute,
)
from acronumba.frontend.conditions import truth
from acronumba.frontend.exceptions import Dead, Restart
from acronumba.frontend.handlers import ATTRIBUTES, handles
from acronumba.frontend.keyed import present
from acronumba.frontend.kinds.maps import MapVal, map_type
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import MutableObject, Ref, SharedVal
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.lists import widen_items
from acronumba.frontend.magic import object_class
from acronumba.frontend.names import alias, forget_field
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, INT, NEVER, UNSET, StructT, TupleT, Type, all_parts, members, words

Paths = tuple[tuple[str, ...], ...]  # of each of several objects
Key = str | type  # of `Facts.overlaid`: the path of a shared object, or a class of objects of the data
UNWRITTEN = "ACR118"
_classes: WeakKeyDictionary[type, type] = WeakKeyDictionary()


def _overlay_class(cls: type) -> type:
    """Return the class of the objects that hold the written attributes of a shared object."""
    if cls not in _classes:
        _classes[cls] = type(f"{cls.__name__}Overlay", (), {"__module__": cls.__module__})
    return _classes[cls]


def key_of(w: Walker, owner: Val) -> Key | None:
    """Return the key under which an object may be in the overlay; None for one that was made in the call."""
    if isinstance(owner, SharedVal):
        return _path(w, owner) if owner.node.kind == "object" else None
    if isinstance(owner, Ref) and owner.own is not True and len(owner.classes) == 1:
        return owner.classes[0]
    return None


def _path(w: Walker, owner: SharedVal) -> str:
    """Return the first path of a shared object: on each of its paths it is the same one."""
    return w.facts.same.first(owner.node.path)


def is_overlaid(w: Walker, owner: Val, name: str) -> bool:
    """Whether an attribute of an object is read from the overlay."""
    key = key_of(w, owner)
    return key is not None and name in w.facts.overlaid.get(key, ()) and key not in w.facts.fixed


# ---- where the call begins


def begin_overlays(w: Walker) -> None:
    """Make the overlays of a call: of each shared object, and of each written attribute of each class of the data."""
    for key, names in w.facts.overlaid.items():
        if isinstance(key, str):
            w.state[_place(key)] = _new_object(w, key, _overlay_class(w.facts.overlay_classes[key]))
            continue
        for name in names:
            w.state[_place(key, name)] = _new_values(w, key, name)


def _place(key: Key, name: str = "overlay") -> tuple[Any, str]:
    """Return the key of an overlay in the state."""
    return ("overlay", key), name


def overlays_of(w: Walker) -> dict[Any, Val]:
    """Return the overlays in the state, which each recursive function gets."""
    return {key: val for key, val in w.state.items() if key[0][0] == "overlay"}


def _new_object(w: Walker, path: str, cls: type) -> MutableObject | Ref:
    """Return the object for the written attributes of a shared object."""
    site = "overlay", path
    w.note(w.facts.changing, cls)
    if site in w.facts.rows:
        return Ref((cls,), w.new_row(cls, {}), own=True)
    w.counter += 1
    made = MutableObject(cls, ("object", w.counter), site)
    w.state[(made.key, "")] = NoneVal()
    return made


def _new_values(w: Walker, cls: type, name: str) -> MapVal:
    """Return the dict for the values of a written attribute, by object."""
    cell = w.cell(("overlay", cls, name))
    cell.real = True
    if cell.item == NEVER:
        cell.entries = True
        w.widen_cell(cell, TupleT((StructT(cls), NEVER)))
    values = MapVal(cell, w.var(name, words(map_type(cell, False))[0]))
    w.emit(ir.ListNew(out=values.var, width=values.width, args=(), count=0, loc=w.loc))
    return values


# ---- reading


@handles(ATTRIBUTES, Ref)
def _of_run_time(w: Walker, owner: Ref, name: str) -> Val:
    """Read an attribute of a run-time object of one class."""
    if not is_overlaid(w, owner, name):
        return attribute_at_run_time(w, owner, name)
    values = _values(w, owner.classes[0], name)
    if values.type.item == NEVER:
        return _before(w, owner, name)
    index = _index(w, values, owner)
    return _if_written(w, owner, name, present(w, index), lambda: values.value_at(w, index))


@handles(ATTRIBUTES, SharedVal)
def _of_shared(w: Walker, owner: SharedVal, name: str) -> Val | None:
    """Read an attribute of a shared object; None for a shared list, tuple or dict."""
    if not is_overlaid(w, owner, name):
        return shared_attribute(w, owner, name)
    held = _object(w, owner)
    if isinstance(held, MutableObject):
        return _of_variables(w, owner, held, name)
    t = w.facts.fields.get(held.classes[0], {}).get(name, UNSET)
    val = NoneVal() if t == UNSET else read_field(w, held, name, t)
    if UNSET not in members(t):
        return val
    if not isinstance(val, UnionVal):
        return _before(w, owner, name)
    rest = w.keep(val, lambda m: m != UNSET)
    return _if_written(w, owner, name, w.is_case(val, lambda m: m != UNSET), lambda: w.narrowed(rest))


def made_or_given(w: Walker, owner: Ref, made: Callable[[Ref], Val], given: Callable[[Ref], Val]) -> Val:
    """Return the value of `made` for an object that was made in the call, of `given` for one that came in."""
    if owner.own is False:
        return given(owner)
    one, other = (Ref(owner.classes, owner.var, own) for own in (True, False))
    return w.cond(_is_made(w, owner), lambda: made(one), lambda: given(other))


def check_uncached(w: Walker, what: str) -> None:
    """Reject code of a cached function that depends on attributes which the call writes: it would run once."""
    if w.inside_cached:
        seen = f"{what} in a cached function, in a model that assigns attributes of what came in"
        raise w.reject("ACR210", seen=seen, rewrite="leave out the cache")


def _object(w: Walker, owner: SharedVal) -> MutableObject | Ref:
    """Return the object with the written attributes of a shared object."""
    found = w.state.get(_place(_path(w, owner)))
    check_uncached(w, f".{'/'.join(w.facts.overlaid[_path(w, owner)])}")
    if found is None:
        raise Restart
    assert isinstance(found, MutableObject | Ref)
    return found


def _values(w: Walker, cls: type, name: str) -> MapVal:
    """Return the dict with the values of a written attribute, by object."""
    found = w.state.get(_place(cls, name))
    check_uncached(w, f".{name}")
    if found is None:
        raise Restart
    assert isinstance(found, MapVal)
    return found


def _of_variables(w: Walker, owner: SharedVal, held: MutableObject, name: str) -> Val:
    """Read a written attribute of a shared object whose overlay is variables."""
    val = w.state.get((held.key, name))
    if val is None:
        return _before(w, owner, name)
    if isinstance(val, MaybeUnbound):
        own = val.value
        val = _if_written(w, owner, name, val.bound, lambda: own)
        if w.block is not None and w.facts.state != "initial":
            w.state[(held.key, name)] = val
    w.check_poison(val)
    return val


def _index(w: Walker, values: MapVal, owner: Ref) -> Num:
    """Return the index of the entry of an object; a negative number if its attribute has not been written."""
    if w.block is None:
        raise Dead
    out = w.var("entry", INT)
    w.emit(ir.ListOp(outs=(out,), op="find", width=values.width, args=(values.var, owner.var), loc=w.loc))
    return Num(INT, var=out)


def _if_written(w: Walker, owner: Val, name: str, written: Num, read: Callable[[], Val]) -> Val:
    """Return the value of `read` where the call has written an attribute; where it has not, see `_before`."""
    if w.facts.state == "initial" or (isinstance(owner, Ref) and owner.own is None):
        return w.cond(written, read, lambda: _before(w, owner, name))
    w.check(written, UNWRITTEN, _message(owner, name))
    if w.block is None:
        raise Dead
    return read()


def _before(w: Walker, owner: Val, name: str) -> Val:
    """Return an attribute that the call has not written: as it came in, or of an object made in the call.

    An instance that must not read what came in fails.
    """
    if w.facts.state != "initial":
        _fail_if_given(w, owner, name)
    if isinstance(owner, SharedVal):
        found = shared_attribute(w, owner, name)
        assert found is not None
        return found
    assert isinstance(owner, Ref)
    (cls,) = owner.classes
    if not (name in field_names(cls) or name in w.facts.fields.get(cls, {}) or inherits(w, cls, name)):
        w.fail("AttributeError", no_attribute(cls, name))
        raise Dead
    return attribute_at_run_time(w, owner, name, raw=True)


def _fail_if_given(w: Walker, owner: Val, name: str) -> None:
    """Let the instance fail if an object came in: it reads an attribute that it has not written."""
    if isinstance(owner, Ref) and owner.own is None:
        w.check(_is_made(w, owner), UNWRITTEN, _message(owner, name))
        return
    w.fail(UNWRITTEN, _message(owner, name))
    raise Dead


def _is_made(w: Walker, owner: Ref) -> Num:
    """Return whether an object was made in the call, as a bool."""
    if w.block is None:
        raise Dead
    out = w.var("made", BOOL)
    w.emit(ir.IsMade(out=out, ref=owner.var, loc=w.loc))
    return Num(BOOL, var=out)


def _message(owner: Val, name: str) -> str:
    """Return the message of an instance that reads an attribute before it has written it."""
    return f"{owner.object_classes()[0].__name__}.{name}, which the model assigns"


def has(w: Walker, owner: Val, name: str) -> Num:
    """Return whether an object has an attribute, as a bool of the program."""
    if not is_overlaid(w, owner, name) or inherits(w, owner.object_classes()[0], name):
        return has_attribute(w, owner, name)
    if isinstance(owner, Ref):
        values = _values(w, owner.classes[0], name)
        written = number(False) if values.type.item == NEVER else present(w, _index(w, values, owner))
    else:
        assert isinstance(owner, SharedVal)
        written = has_attribute(w, _object(w, owner), name)

    def before() -> Num:
        if w.facts.state != "initial":
            _fail_if_given(w, owner, name)
        return has_attribute(w, owner, name)

    return truth(w, w.cond(written, lambda: number(True), before))


def with_written(w: Walker, owner: SharedVal, fields: Mapping[str, Val]) -> dict[str, Val]:
    """Return the fields of a shared object, for a copy of it, with the written attributes as the call has written them.

    An attribute that must not be read before it is written is unset in the copy.
    """
    out = dict(fields)
    names = w.facts.overlaid.get(_path(w, owner), {})
    held = _object(w, owner) if names else None
    if isinstance(held, Ref):
        seen = f"a copy of {w.describe(owner)}, whose attributes recursive functions assign"
        raise w.reject("ACR202", seen=seen, rewrite="make the copy before, or a new object")
    for name in names:
        val = None if held is None else w.state.get((held.key, name))
        if w.facts.state == "initial":
            if isinstance(val, MaybeUnbound):
                val = _of_shared(w, owner, name)
            out |= {} if val is None else {name: val}
        elif val is None:
            out.pop(name, None)
        else:
            out[name] = val
    return out


# ---- writing


def note_written(w: Walker, key: Key, cls: type, name: str) -> None:
    """Note that the program writes an attribute of objects that came in.

    An early iteration may take an object for one that came in. So an attribute that the last one does not write is not
    in the overlay in the next one; but it is for good if that one writes it, as it no longer fails at a read before.
    """
    if (cls, name) in w.facts.undecided:
        w.facts.decided.add((cls, name))
    names = w.facts.overlaid.setdefault(key, {})
    w.facts.overlay_classes[key] = cls
    w.facts.assigned.add(name)
    if name not in names:
        names[name] = w.loc
        w.facts.changed = True
        raise Restart


def note_target(w: Walker, owner: Val, name: str) -> None:
    """Note the target of an assignment whose value was rejected, perhaps because it reads what this one assigns."""
    key = key_of(w, owner)
    cls = object_class(owner)
    if isinstance(owner, SharedVal):
        certain = name not in owner.node.fixed
    else:
        certain = isinstance(owner, Ref) and owner.own is False
    if key is None or cls is None or not certain or not can_be_written(w, cls):
        return
    if not isinstance(w.source_guard.attribute(cls, name), property):
        note_written(w, key, cls, name)


def written_object(w: Walker, owner: SharedVal, name: str) -> MutableObject | Ref:
    """Return the object that takes the written attributes of a shared object in its place."""
    if name in owner.node.fixed:
        seen = f"an assignment to {owner.node.path}.{name}, a parameter, buffer or module"
        raise w.reject("ACR113", seen=seen, rewrite="assign to another attribute")
    note_written(w, _path(w, owner), owner.node.cls, name)
    return _object(w, owner)


def write_to_data(w: Walker, owner: Ref, name: str, val: Val) -> None:
    """Assign to an attribute of an object of the data."""
    (cls,) = owner.classes
    note_written(w, cls, cls, name)
    w.surely_written.add((cls, name))
    values = _values(w, cls, name)
    w.kept(val)
    alias(val)
    w.put_in(values.cell, val)
    widen_items(w, values, TupleT((StructT(cls), w.type_of(val))))
    forget_field(w, name)
    item = values.type.item
    assert item is not None
    args = (values.var, owner.var, *w.to_words(val, item))
    if w.block is not None:
        w.emit(ir.ListOp(outs=(), op="put", width=values.width, args=args, loc=w.loc))


def can_be_written(w: Walker, cls: type) -> bool:
    """Whether attributes of a class's objects that came in can be assigned."""
    if cls in w.facts.fixed:
        return False
    if adapter_of(cls) is not None:
        return True
    plain = w.source_guard.owner(cls, "__setattr__") is object or is_dataclass(cls)
    return plain and not (is_record(cls) and not is_dataclass(cls))


# ---- checks at the end of a walk


def check_distinct(w: Walker, roots: Iterable[Shared], result: Type) -> tuple[Paths, ...]:
    """Return the paths of each shared object of a class, for each class of which one is written to or compared by `is`.

    Objects of a class cannot be written to if some are shared and some are data, or if a result may contain them.
    """
    if w.facts.state != "initial":
        roots = [without(root, on_all_paths(w)) for root in roots]
    nodes = [node for root in roots for node in nodes_of(root) if node.kind == "object"]
    shared = dict.fromkeys(node.cls for node in nodes)
    told_apart = {*w.facts.compared}
    for key, names in w.facts.overlaid.items():
        cls = w.facts.overlay_classes[key]
        if not isinstance(key, str):
            if cls in shared or cls in _reachable(w, result):
                w.note(w.facts.fixed, cls)
            for name in [name for name in names if (cls, name) not in w.surely_written | w.facts.decided]:
                w.note(w.facts.undecided, (cls, name))
                del names[name]
            continue
        if cls in w.facts.came:
            name, loc = next(iter(names.items()))
            seen = f"an assignment to .{name} of a {cls.__name__}, of which some are shared and some are data"
            raise w.reject("ACR113", loc, seen=seen, rewrite="change a copy: x = copy.copy(x)")
        told_apart.add(cls)
    found: dict[type, dict[str, list[str]]] = {cls: {} for cls in shared if cls in told_apart}
    for node in nodes:
        if node.cls in found:
            found[node.cls].setdefault(w.facts.same.first(node.path), []).append(node.path)
    return tuple(tuple(map(tuple, paths.values())) for paths in found.values())


def on_all_paths(w: Walker) -> dict[Key, dict[str, Loc]]:
    """Return the written attributes of shared objects, and where, by each of their paths; and of classes of data."""
    out = {key: dict(names) for key, names in w.facts.overlaid.items()}
    for path, first in w.facts.same.paths.items():
        if first in out:
            out[path] = out[first]
    return out


def _reachable(w: Walker, t: Type) -> set[type]:
    """Return the classes of the objects that a value of a type may hold."""
    found: set[type] = set()
    todo = [t]
    for one in todo:
        for part in all_parts(one):
            if isinstance(part, StructT) and part.cls not in found:
                found.add(part.cls)
                todo += w.facts.fields.get(part.cls, {}).values()
    return found
