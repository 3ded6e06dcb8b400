"""Dicts made in the call whose keys the compiler knows, and that are mutated: objects of an anonymous class.

Invariant: wherever a `Record` is used, its keys and their order are the same on all paths to that point, and every key
has a value there. Its marker in the state has the keys in order (`KnownKeys`), or the row that the record has become,
whose keys are those of its class. A record for which this does not hold becomes a hash table (`demoted`): keys that
are added on one path only or in two orders, keys that are computed or deleted, and keys that are added after the
record has been stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.exceptions import Restart
from acronumba.frontend.join_shapes import JoinShape, Parameter, TypeShape
from acronumba.frontend.kinds.lists import at_run_time
from acronumba.frontend.kinds.maps import DictVal, constant_value
from acronumba.frontend.kinds.nested import Nested
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.objects import MutableObject
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Index, PythonClass, Turns, Val, Value
from acronumba.ir.shapes import Shape, ShapeClass, shape_class
from acronumba.ir.types import MapT, StructT, Type
from acronumba.records import record

if TYPE_CHECKING:
    import ast

    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words
    from acronumba.ir import nodes as ir

Keys = tuple[str, ...]


@record(eq=False, frozen=False)
class KnownKeys(Value):
    """The marker of a record: its keys, in the order of their insertion."""

    keys: Keys

    def _same(self, other: Value) -> bool:
        assert isinstance(other, KnownKeys)
        return self.keys == other.keys


def class_of_keys(keys: Keys) -> ShapeClass:
    """Return the class of dicts with some keys, in this order."""
    return shape_class(Shape(dict, keys=keys))


def field_name(key: str) -> str:
    """Return the name under which the state has the value of a key: an identifier, different for different keys."""
    plain = key.isidentifier() and key.isascii() and not key.startswith("key_")
    return key if plain else f"key_{key.encode('utf-8', 'surrogatepass').hex()}"


@record(eq=False, frozen=False)
class Record(MutableObject):
    """A dict of known keys that is mutated; `site` is its allocation site, `first` are the keys with which it began."""

    cls: ShapeClass
    first: Keys = ()

    family = "dict"
    python_class = dict
    is_mapping = True
    assignable = True
    is_live = True

    def describe(self, w: Blocks) -> str:
        return "a dict of known keys"

    def object_classes(self) -> tuple[type, ...]:
        return ()

    def marker(self, w: Words) -> KnownKeys | Nested:
        """Return its keys, or its row."""
        found = w.state.get((self.key, ""))
        if isinstance(found, Nested):
            return found
        held = {key[1]: v for key, v in w.state.items() if len(key) == 2 and key[0] == self.key and key[1]}
        if not isinstance(found, KnownKeys) or held.keys() != set(map(field_name, found.keys)):
            raise self.demoted(w)
        if any(v.bound_value() is not v for v in held.values()):  # bound on some paths only
            raise self.demoted(w)
        return found

    def demoted(self, w: Words) -> Restart:
        """Note that its allocation site makes hash tables; return the exception to raise."""
        w.facts.note_form(w.facts.hashed, self.site)
        return Restart()

    def opened(self, w: Words) -> Val:
        """Return it as a dict of the values that its keys have now."""
        found = self.marker(w)
        if isinstance(found, Nested):
            return found.opened(w)
        items = tuple(w.state[self.key, field_name(k)] for k in found.keys)
        w.check_poison(*items)
        return DictVal(found.keys, items)

    unshared = opened

    def fields(self, w: Words) -> dict[str, Val]:
        inner = self.opened(w)
        assert isinstance(inner, DictVal)
        return dict(zip(self.cls.shape.names, inner.items, strict=True))

    def row(self, w: Words) -> ir.Var | None:
        """Return its row; None if it has none, but may become one here."""
        found = self.marker(w)
        if isinstance(found, Nested):
            return found.var
        if found.keys != w.facts.records.get((self.site, self.first), self.first):
            raise self.demoted(w)  # keys are added later
        if found.keys != self.cls.shape.keys:  # its class has other keys in the next iteration
            w.note(w.facts.rows, self.site)
            raise Restart
        if self.key in w.building and self.site in w.facts.rows:  # it contains itself before it is complete
            raise self.demoted(w)
        w.facts.note_form(w.facts.changing, self.cls)
        return None

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, MapT):
            raise self.demoted(w)
        return (self.row(w) or w.row_of(self),) if isinstance(t, StructT) and t.cls is self.cls else None

    def join_shape(self, w: Merge) -> JoinShape:
        if self.row(w) is None:
            w.note(w.facts.rows, self.site)
        return TypeShape(StructT(self.cls))

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if self.row(w) is None:
            w.row_of(self)
        return TypeShape(StructT(self.cls))

    def truth(self, w: Walker) -> Num | None:
        return self.opened(w).truth(w)

    def length(self, w: Walker) -> Num | None:
        return number(len(keys_of(w, self)))

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return tuple(constant_value(w, k) for k in keys_of(w, self))

    def turns(self, w: Walker) -> Turns | None:
        return at_run_time(w, self.known_items(w) or ()).turns(w)

    def contains(self, w: Walker, element: Val) -> Num | None:
        return self.opened(w).contains(w, element)

    def get_item(self, w: Walker, index: Index) -> Val | None:
        if isinstance(index, slice) or type(w.static(index)) is not str:
            self.hashed(w)
        return self.opened(w).get_item(w, index)

    def compare(self, w: Walker, op: ast.cmpop, left: Val, right: Val) -> Val | None:
        sides = [v.opened(w) if isinstance(v, Record) else v for v in (left, right)]
        mine = sides[0] if left is self else sides[1]
        return mine.compare(w, op, *sides)

    def binary(self, w: Walker, op: ast.operator, left: Val, right: Val) -> Val | None:
        sides = [v.opened(w) if isinstance(v, Record) else v for v in (left, right)]
        return (sides[0] if left is self else sides[1]).binary(w, op, *sides)

    def hashed(self, w: Walker) -> Val:
        found = self.marker(w)
        if isinstance(found, Nested):
            return found.hashed(w)
        raise self.demoted(w)

    def mutable(self, w: Walker) -> Val:
        found = self.marker(w)
        return found.mutable(w) if isinstance(found, Nested) else self


def keys_of(w: Words, val: Record | Nested) -> Keys:
    """Return the keys of a record or row, in order."""
    return (val.marker(w) if isinstance(val, Record) else val).keys


@record(eq=False, frozen=False)
class RecordView(Value):
    """The "values", "items" or "keys" of a record or of a row that may be mutated, as they are when they are read."""

    base: Record | Nested
    what: str

    stored_as = "list(...)"
    is_live = True

    @property
    def python_class(self) -> PythonClass:
        return {"keys": type({}.keys()), "values": type({}.values())}.get(self.what, type({}.items()))

    def describe(self, w: Blocks) -> str:
        return f"the {self.what} of a dict"

    def form_key(self, w: Walker) -> object:
        return "record view", self.what

    def children(self) -> tuple[Val, ...]:
        return (self.base,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return RecordView(children[0], self.what)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, RecordView)
        return self.what == other.what

    def length(self, w: Walker) -> Num | None:
        return number(len(keys_of(w, self.base)))

    def truth(self, w: Walker) -> Num | None:
        return number(bool(keys_of(w, self.base)))

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        keys = tuple(constant_value(w, k) for k in keys_of(w, self.base))
        if self.what == "keys":
            return keys
        items = self.base.opened(w).children()
        return items if self.what == "values" else tuple(map(TupleVal, zip(keys, items, strict=True)))

    def turns(self, w: Walker) -> Turns | None:
        count = self.length(w)
        assert count is not None

        def get(index: Num) -> Val:
            found = at_run_time(w, self.known_items(w) or ()).turns(w)
            assert found is not None
            return found[1](index)

        return lambda: count, get

    def contains(self, w: Walker, element: Val) -> Num | None:
        return TupleVal(self.known_items(w) or ()).contains(w, element)


def without_known_keys(w: Words, iterable: Val) -> Exception:
    """Return the exception to raise where keys are added to a dict in a loop over it: it becomes a hash table."""
    found = [v for v in (iterable, *iterable.children()) if isinstance(v, Record | RecordView)]
    while found and not isinstance(found[0], Record):
        found = [v for v in found[0].children() if isinstance(v, Record | RecordView)]
    assert found and isinstance(found[0], Record)  # the keys of a row stay the same
    return found[0].demoted(w)


def as_result(w: Words, val: Val) -> Val:
    """Return a result with records that it holds once as dicts of their values; others become rows."""
    counts: dict[Hashable, int] = {}

    def count(v: Val) -> None:
        if isinstance(v, Record):
            counts[v.key] = counts.get(v.key, 0) + 1
            parts: Sequence[Val] = _values(w, v) if counts[v.key] == 1 else ()
        else:
            parts = v.children() if v.compound else ()
        for part in parts:
            count(part)

    def made(v: Val, counts: Mapping[Hashable, int]) -> Val:
        if isinstance(v, Record):
            inner = _values(w, v)
            if counts[v.key] > 1 or not inner:
                return v
            return DictVal(keys_of(w, v), tuple(made(part, counts) for part in inner))
        if not v.compound or not v.children():
            return v
        parts = [made(part, counts) for part in v.children()]
        changed = any(a is not b for a, b in zip(parts, v.children(), strict=True))
        return v.with_children(parts) if changed else v

    count(val)
    return made(val, counts) if counts else val


def _values(w: Words, val: Record) -> tuple[Val, ...]:
    """Return the values of a record that is no row."""
    inner = val.opened(w)
    return () if isinstance(val.marker(w), Nested) or not isinstance(inner, DictVal) else inner.items
