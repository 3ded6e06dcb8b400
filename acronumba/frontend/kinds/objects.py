"""Objects of the user's classes: at run time, mutated, or as their fields; shared structures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from acronumba.data.classes import adapter_of
from acronumba.data.shared import Shared, SharedLeaf, SharedNode, kinds_of, shared_key
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.join_shapes import JoinShape, Parameter, PartsShape, StaticShape, TypeShape
from acronumba.frontend.kinds.lists import ListVal, at_run_time
from acronumba.frontend.kinds.maps import MapVal, constant_value
from acronumba.frontend.kinds.nested import Nested
from acronumba.frontend.kinds.numbers import ALWAYS, number
from acronumba.frontend.kinds.unions import MaybeUnbound
from acronumba.frontend.kinds.value import (
    NOT_CONST,
    Constant,
    FieldPlace,
    PythonClass,
    Turns,
    Val,
    Value,
    part_shapes,
    static_items,
)
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import StructT, Type, union
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks, Cases
    from acronumba.frontend.kinds.arrays import AllocationSite
    from acronumba.frontend.kinds.lists import ElementInfo
    from acronumba.frontend.kinds.numbers import Num
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class Ref(Value):
    """An object of one of several classes, not None."""

    classes: tuple[type, ...]
    var: ir.Var
    own: bool | None = False  # made in the call, so that it may be mutated; None: known only at run time

    @property
    def is_several(self) -> bool:
        return len(self.classes) > 1

    def alternatives(self, w: Words) -> Cases[Callable[[], Val]]:
        for k, cls in enumerate(self.classes):
            last = k == len(self.classes) - 1
            yield ALWAYS if last else w.class_test(self.var, (cls,)), partial(reference, (cls,), self.var, self.own)

    @property
    def is_input(self) -> bool:
        return not self.own

    def split(self, w: Words, wanted: Callable[[Type], bool]) -> tuple[Num, Val, Val] | None:
        if len(self.classes) < 2:
            return None
        keep = tuple(c for c in self.classes if wanted(StructT(c)))
        drop = tuple(c for c in self.classes if c not in keep)
        test = number(bool(keep)) if not keep or not drop else w.class_test(self.var, keep)
        return test, Ref(keep, self.var, self.own), Ref(drop, self.var, self.own)

    @property
    def python_class(self) -> PythonClass:
        return self.classes[0] if len(self.classes) == 1 else object

    def word_type(self) -> Type:
        return union(*map(StructT, self.classes))

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Ref)
        return self.var is other.var and self.classes == other.classes

    def shared_by_calls(self) -> Value:
        return self

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (self.var,) if isinstance(t, StructT) else None

    @property
    def nests(self) -> bool:
        return any(map(is_shape, self.classes))

    def narrows(self, other: Value) -> bool:
        return isinstance(other, Ref) and self.var is other.var

    def some_of_alternatives(self, w: Words, places: Sequence[int]) -> Val:
        return reference(tuple(self.classes[k] for k in places), self.var, self.own)

    def narrowed(self, w: Words) -> Val:
        return reference(self.classes, self.var, self.own)

    def object_classes(self) -> tuple[type, ...]:
        return () if any(map(is_shape, self.classes)) else self.classes

    def identity(self) -> object:
        return id(self.var)


def reference(classes: tuple[type, ...], var: ir.Var, own: bool | None) -> Val:
    """Return the value of a reference to an object, or to a list, tuple or dict of a closed shape."""
    if len(classes) == 1 and is_shape(cls := classes[0]):
        return Nested(cls, var, own)
    return Ref(classes, var, own)


@record(eq=False, frozen=False)
class MutableObject(Value):
    """An object made in the call that is mutated, and whose aliases are all known: its fields are variables.

    The fields are in the state under `(key, name)`; `(key, "")` is set while the object may exist. If the object is
    stored, or merged with another one, its allocation site makes rows from then on (`Facts.rows`).
    """

    cls: type
    key: tuple[str, int]
    site: Any  # key of its allocation site, the same in every iteration

    @property
    def python_class(self) -> PythonClass:
        return self.cls

    def word_type(self) -> Type:
        return StructT(self.cls)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, MutableObject)
        return self.key == other.key

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.row_of(self),) if isinstance(t, StructT) and t.cls is self.cls else None

    def join_shape(self, w: Merge) -> JoinShape:
        w.note(w.facts.rows, self.site)
        return TypeShape(StructT(self.cls))

    def fields(self, w: Words) -> dict[str, Val]:
        """Return its fields, in the order of their first assignment."""
        return {key[1]: v for key, v in w.state.items() if len(key) == 2 and key[0] == self.key and key[1]}

    def object_classes(self) -> tuple[type, ...]:
        return (self.cls,)

    def is_in(self, val: Val) -> bool:
        """Whether a value is the object or holds it: a list of its methods, for example."""
        return self.same(val) or any(map(self.is_in, val.children()))

    def must_exist(self, w: Words) -> None:
        """Keep the object in this form, or as a row, if it has another form and is still used: by a lambda, say."""
        if (self.key, "") in w.state or w.block is None or self.site in w.facts.early:
            return
        if self.cls in w.facts.changing:
            w.facts.rows.add(self.site)
            w.note(w.facts.early, self.site)
        w.note(w.facts.changing, self.cls)
        raise Restart

    def has_field(self, w: Walker, name: str) -> Num:
        self.must_exist(w)
        val = w.state.get((self.key, name))
        return val.bound if isinstance(val, MaybeUnbound) else number(val is not None)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        w.row_of(self)  # it is aliased from now on
        return TypeShape(w.type_of(self))

    def identity(self) -> object:
        return self.key


@record(eq=False, frozen=False)
class ObjectValue(Value):
    """An object that is never mutated, as its fields; it becomes a row where it must be stored."""

    cls: type
    names: tuple[str, ...]
    items: tuple[Val, ...]
    stored: bool = False  # already made at run time, and stored
    own: bool = True  # certainly made in the call

    compound = True

    @property
    def python_class(self) -> PythonClass:
        return self.cls

    def children(self) -> tuple[Val, ...]:
        return self.items

    def with_children(self, children: Sequence[Val]) -> Value:
        return ObjectValue(self.cls, self.names, tuple(children), own=self.own)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, ObjectValue)
        return (self.cls, self.names) == (other.cls, other.names)

    def form_key(self, w: Walker) -> object:
        return self.cls, self.names

    def word_type(self) -> Type:
        return StructT(self.cls)

    def stored_type(self, w: Words) -> Type:
        for v in self.items:
            w.type_of(v)
        return StructT(self.cls)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.row_of(self),) if isinstance(t, StructT) and t.cls is self.cls else None

    def join_shape(self, w: Merge) -> JoinShape:
        return PartsShape(self._joined(w), tuple(v.join_shape(w) for v in self.items))

    def loop_shape(self, w: Merge) -> JoinShape:
        return PartsShape(self._joined(w), tuple(v.loop_shape(w) for v in self.items))

    def _joined(self, w: Merge) -> Value:
        return replace(self, own=self.cls not in w.facts.outside)

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        known = w.facts.fields.get(self.cls, {})
        for name, shape in zip(self.names, parts, strict=True):
            if name not in known:  # the field may be read before such a row exists
                w.widen_field(self.cls, name, w.template_type(shape))
        return StructT(self.cls)

    def within(self, container: ListVal | MapVal) -> Val:
        return self

    def with_places(self, places: Sequence[AllocationSite]) -> Val:
        return self

    def places_in(self) -> Iterable[AllocationSite]:
        return ()

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return self.items if issubclass(self.cls, tuple) else None

    def fields(self, w: Words) -> dict[str, Val]:
        return dict(zip(self.names, self.items, strict=True))

    def object_classes(self) -> tuple[type, ...]:
        return (self.cls,)

    def from_field(self, place: FieldPlace, cell: ElementInfo) -> Val:
        return self

    def has_field(self, w: Walker, name: str) -> Num:
        return number(name in self.names)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if self.cls not in w.facts.carried.get(parameter.where[0], ()):
            return TypeShape(w.type_of(self))
        return PartsShape(self._joined(w), part_shapes(w, self.items, parameter))


@record(eq=False, frozen=False)
class SharedVal(Value):
    """A dataclass, NamedTuple, list, tuple or dict of the shared parameters."""

    node: SharedNode

    @property
    def python_class(self) -> PythonClass:
        return self.node.cls

    def describe(self, w: Blocks) -> str:
        return f"{self.node.path}, a {self.node.cls.__name__}"

    def static(self, w: Words) -> Constant:
        return NOT_CONST if (items := self.sequence(w)) is None else static_items(w, items)

    def static_key(self, w: Walker, which: bool) -> object:
        return "shared", self.node.path if which else structure(w, self.node)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, SharedVal)
        return self.node.path == other.node.path

    is_input = True

    def is_object_as(self, other: SharedVal) -> bool:
        """Whether both are objects, of which the paths are known that lead to each (`Facts.same`)."""
        return self.node.kind == other.node.kind == "object"

    @property
    def is_choosable(self) -> bool:
        """Whether it is a module: where run time chooses among several, a call is compiled for each."""
        return self.node.kind == "object" and adapter_of(self.node.cls) is not None

    @property
    def holds_modules(self) -> bool:
        """Whether it is a list or dict of modules."""
        return self.node.kind != "object" and adapter_of(self.node.cls) is not None

    def is_local(self) -> bool:
        return False

    def stored_type(self, w: Words) -> Type:
        return w.type_of(w.materialise(self))

    def shared_by_calls(self) -> Value:
        return self

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...]:
        return w.to_words(w.materialise(self), t)

    def join_shape(self, w: Merge) -> JoinShape:
        written = w.facts.same.first(self.node.path) in w.facts.overlaid  # then it is known by its path alone
        return StaticShape(self) if self.is_choosable or written else w.materialise(self).join_shape(w)

    def object_classes(self) -> tuple[type, ...]:
        return (self.node.cls,) if self.node.kind == "object" else ()

    def truth(self, w: Walker) -> Num:
        return number(bool(self.node.items))

    def has_field(self, w: Walker, name: str) -> Num:
        item = self.node.item(name)
        if item is None:
            w.inherited.setdefault((self.node.cls, name), w.loc)
        w.used.add(id(item))
        return number(item is not None)

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        if self.node.kind == "dict":
            return tuple(constant_value(w, k) for k in self.node.names)
        return w.shared_items(self) if self.node.kind != "object" or issubclass(self.node.cls, tuple) else None

    def sequence(self, w: Words) -> tuple[Val, ...] | None:
        return w.shared_items(self) if self.node.kind in ("tuple", "list") else None

    def turns(self, w: Walker) -> Turns | None:
        items = self.known_items(w)
        return None if items is None else at_run_time(w, items).turns(w)

    @property
    def is_list(self) -> bool:
        return self.node.kind == "list"

    @property
    def is_mapping(self) -> bool:
        return self.node.kind == "dict"

    def contains(self, w: Walker, element: Val) -> Num | None:
        return w.materialise(self, part=True).contains(w, element) if self.is_mapping else None

    def method(self, w: Walker, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
        part = name in ("get", "keys", "values", "items")
        return w.materialise(self, part).method(w, name, args, kwargs) if self.is_mapping else None

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return StaticShape(self)

    def identity(self) -> object:
        return self.node.path

    def unshared(self, w: Words) -> Val:
        return w.materialise(self)


def is_field(key: Any) -> bool:
    """Whether a key of the state is for a field of a `MutableObject`."""
    return bool(key[0][0] == "object")


def marker_of(key: Any) -> tuple[Any, str]:
    """Return the state key that is set while the object of a field may exist; iterators may contain others."""
    scope = key[0]
    while isinstance(scope[1], tuple) and scope[1][0][0] == "object":
        scope = scope[1][0]
    return (scope, "")


def structure(w: Walker, shared: Shared) -> int:
    """Return the number of a shared value's structure: equal for values of equal types, classes and constants."""
    found = w.structures.get(id(shared))
    if found is None:
        key: tuple[Any, ...]
        match shared:
            case SharedNode(kind=kind, cls=cls, names=names, items=items):
                key = kind, cls, names, kinds_of(names), tuple([structure(w, item) for item in items])
            case SharedLeaf(type=t, tensor=tensor, cls=cls, factory=factory):
                key = t, tensor, cls, factory
            case _:
                key = shared_key(shared)
        found = w.structures[id(shared)] = shared, w.number(("structure", key))
    return found[1]


@record()
class ClassNumber:
    """Placeholder for the tag of a class."""

    cls: type
