"""Lists, tuples and dicts of a closed shape (`ir.shapes`): references to rows, as objects are.

Operations open them: a row is read as a list, tuple or dict of the values in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.frontend.exceptions import Restart
from acronumba.frontend.handlers import READ, handles
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Index, PythonClass, Turns, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import ShapeClass
from acronumba.ir.types import StructT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words

FLAT = "collect the numbers in one list first"  # the rewrite for an array of nested lists of any depth


@record(eq=False, frozen=False)
class Nested(Value):
    """A list, tuple or dict of a closed shape."""

    cls: ShapeClass
    var: ir.Var
    own: bool | None = False  # made in the call; None: known only at run time

    iterable = True

    nests = True

    @property
    def python_class(self) -> PythonClass:
        return self.cls.shape.python

    @property
    def family(self) -> str:  # type: ignore[override]
        return self.cls.shape.python.__name__

    @property
    def is_list(self) -> bool:
        return self.cls.shape.python is list

    @property
    def is_mapping(self) -> bool:
        return self.cls.shape.python is dict

    @property
    def is_input(self) -> bool:
        return not self.own

    def is_local(self) -> bool:
        return bool(self.own)

    @property
    def assignable(self) -> bool:
        return self.is_mapping

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys, if they are known."""
        return self.cls.shape.keys or ()

    def mutable(self, w: Walker) -> Val:
        if self.is_list and not self.cls.shape.is_open:
            rewrite = "make it where all its items are known, or make a copy: list(x)"
            raise w.reject("ACR113", seen=f"a change of {w.describe(self)}, whose items are unlike", rewrite=rewrite)
        if self.own is False or self.cls.shape.keys is None:
            return self.opened(w).mutable(w)
        if self.cls not in w.facts.changing:
            w.facts.note_form(w.facts.changing, self.cls)
            raise Restart
        return self

    def hashed(self, w: Walker) -> Val:
        keys = self.cls.shape.keys
        if keys is None or keys in w.facts.keyed or self.cls in w.facts.given:
            rewrite = "give all dicts of this place the same keys where they are made"
            raise w.reject("ACR113", seen=f"a change of the keys of {w.describe(self)}", rewrite=rewrite)
        w.facts.keyed.add(keys)
        w.facts.begin_again()
        raise Restart

    def describe(self, w: Blocks) -> str:
        return f"a {self.cls.shape.python.__name__} that may hold others of its form"

    def word_type(self) -> Type:
        return StructT(self.cls)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Nested)
        return self.var is other.var and self.cls is other.cls

    def shared_by_calls(self) -> Value:
        return self

    def identity(self) -> object:
        return id(self.var)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, StructT):
            return (self.var,) if t.cls is self.cls else None
        return self.opened(w).to_words(w, t)

    def opened(self, w: Words) -> Val:
        """Return it as a list, tuple or dict of the values in its row."""
        return w.open_row(self)

    unshared = opened

    def of_kind(self, w: Words, kind: tuple[PythonClass, Constant] | None) -> Val:
        return self if kind is None else self.opened(w).of_kind(w, kind)

    def as_container(self, w: Words) -> Val:
        return self if self.is_written(w) else self.opened(w)

    def is_written(self, w: Words) -> bool:
        """Whether it is, or may be, a dict that the call mutates."""
        return self.own is not False and self.cls.shape.keys is not None and self.cls in w.facts.changing

    def truth(self, w: Walker) -> Num | None:
        shape = self.cls.shape
        return self.opened(w).truth(w) if shape.is_open else number(bool(shape.names))

    def length(self, w: Walker) -> Num | None:
        shape = self.cls.shape
        return self.opened(w).length(w) if shape.is_open else number(len(shape.names))

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return None if self.cls.shape.is_open else self.opened(w).known_items(w)

    def sequence(self, w: Words) -> tuple[Val, ...] | None:
        return None if self.cls.shape.is_open else self.opened(w).sequence(w)

    def turns(self, w: Walker) -> Turns | None:
        return self.opened(w).turns(w)

    def contains(self, w: Walker, element: Val) -> Num | None:
        known = w.static(element)
        if self.cls.shape.keys is not None and type(known) is str:
            return number(known in self.cls.shape.keys)
        return self.opened(w).contains(w, element)

    def get_item(self, w: Walker, index: Index) -> Val | None:
        return self.opened(w).get_item(w, index)

    def row_item(self, w: Walker, index: Val) -> Val | None:
        known, shape = w.static(index), self.cls.shape
        if known is NOT_CONST or shape.is_open or type(known) is not (int if shape.keys is None else str):
            return None
        known = known + len(shape.names) if type(known) is int and known < 0 else known
        if known not in shape.places:
            return None
        return w.row_part(self, shape.names[shape.places.index(known)])


@handles(READ, Nested)
def _as_operand(w: Words, val: Nested) -> Val:
    return val.as_container(w)
