"""`Value`: what the front end asks each kind of value, and the operations that it applies to it.

A kind of value is a class that derives from `Value`. It overrides what it supports; any other operation is rejected
with a description of the value, or answers that it does not know.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from acronumba.frontend.handlers import (
    ARRAYS,
    ATTRIBUTES,
    CONTAINS,
    EQUALS,
    INDEXED,
    ITEMS,
    METHODS,
    OPERANDS,
    PROTOCOLS,
)
from acronumba.frontend.join_shapes import JoinShape, Parameter, PartsShape, StaticShape, TypeShape
from acronumba.frontend.kinds.examples import example_of
from acronumba.ir import nodes as ir
from acronumba.ir.types import Type, type_text

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks, Cases
    from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef, Tensor
    from acronumba.frontend.kinds.functions import Func
    from acronumba.frontend.kinds.lists import ElementInfo, ListVal
    from acronumba.frontend.kinds.maps import MapVal
    from acronumba.frontend.kinds.numbers import Num
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words

Constant: TypeAlias = Any  # a Python value known at compile time, or NOT_CONST
PythonClass: TypeAlias = type
StateKey: TypeAlias = "tuple[Any, ...]"  # a key of the state of a walk: a scope and a name
FieldPlace: TypeAlias = tuple[type, str]  # a field of a class
NOT_CONST: Constant = type("NotConst", (), {"__repr__": lambda self: "<run time>"})()


class Value:
    """An abstract value: what is known of a Python value during the walk over the user's code."""

    __slots__ = ()

    family: ClassVar[str] = ""  # values of two families are never equal; "" if they may be
    immutable: ClassVar[bool] = False  # a copy of it is the value itself
    iterable: ClassVar[bool] = False  # it can be iterated over at run time
    is_tensor: ClassVar[bool] = False  # a tensor of PyTorch, whose child is its array
    compound: ClassVar[bool] = False  # a structure, whose children vary one by one
    has_positions: ClassVar[bool] = False  # an iterator over it is a position in it
    is_iterator: ClassVar[bool] = False  # its items can be read once
    is_lazy: bool = False  # its items are computed, or tested, one after the other when they are asked for
    resizable: bool = False  # a dict or set that was made in the call: a change of its size ends iterators over it
    is_function: ClassVar[bool] = False
    numeric: ClassVar[bool] = False  # a Python number or an array
    is_live: bool = False  # its items are those of a dict, to which a loop over it may write
    compares_first: ClassVar[int] = 0  # of two operands of a comparison, the one with the higher number is asked first
    operand_rewrite: ClassVar[str] = ""  # the rewrite of an operator that rejects it

    shown: type | None = None  # the class of a tuple in a result, if its words do not tell: torch.Size

    # ---- what it is

    @property
    def python_class(self) -> PythonClass:
        """The Python class of a list, dict, tuple, string, number or object; `object` for any other value."""
        return object

    def object_classes(self) -> tuple[type, ...]:
        """Return the possible classes of an object of the user's; none for other values."""
        return ()

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return False

    @property
    def is_mapping(self) -> bool:
        """Whether it is a dict or a set."""
        return False

    @property
    def assignable(self) -> bool:
        """Whether its items can be assigned."""
        return False

    @property
    def is_several(self) -> bool:
        """Whether it has alternatives that are distinguished at run time."""
        return False

    @property
    def is_own(self) -> bool:
        """Whether an array that it is, if it is one, was made in the call and has at most one name."""
        return False

    @property
    def marked(self) -> Tensor | None:
        """The array whose names and aliases are noted; of a union, one that stands for its alternatives."""
        return None

    @property
    def is_choosable(self) -> bool:
        """Whether it is a function or class, so that one of several can be chosen at run time by a number."""
        return self.is_function

    @property
    def stored_as(self) -> str:
        """The rewrite that makes it storable; "" if there is none."""
        return ""

    def describe(self, w: Blocks) -> str:
        """Return a description in the user's terms, for errors."""
        t = self.word_type()
        return type_text(t) if t is not None else type(self).__name__.lower()

    def static(self, w: Words) -> Constant:
        """Return its Python value, if that is known at compile time, else NOT_CONST."""
        return NOT_CONST

    def example(self, w: Words) -> Constant:
        """Return a Python value for which an operation raises `TypeError` only if it does for all values of this kind.

        NOT_CONST if there is none.
        """
        return example_of(self.python_class, NOT_CONST)

    def static_key(self, w: Walker, which: bool) -> object:
        """Return a key, equal for equal compile-time values; without `which`, shared ones count by their structure."""
        return id(self)

    def form_key(self, w: Walker) -> object:
        """Return a key, equal for values that are alike."""
        return type(self)

    def variable(self) -> ir.Var | None:
        """Return the variable that it consists of, if it is one."""
        return None

    def alternatives(self, w: Words) -> Cases[Callable[[], Val]]:
        """Yield the cases of a value that is one of several, and the value where the test of the case holds."""
        return ()

    def split(self, w: Words, wanted: Callable[[Type], bool]) -> tuple[Num, Val, Val] | None:
        """Return whether its type is a wanted one, as a bool, and the value where it is and is not; None if known."""
        return None

    def narrowed(self, w: Words) -> Val:
        """Return a union of which one alternative is left as that; any other value as it is."""
        return self

    # ---- its parts

    def result_parts(self) -> tuple[Val, ...]:
        """Return the parts of which a result is made anew for the caller: those of a tuple, or of a known dict."""
        return ()

    def children(self) -> tuple[Val, ...]:
        """Return the values that it contains, if they are known: the items of a tuple, the object of a method."""
        return ()

    def with_children(self, children: Sequence[Val]) -> Val:
        """Return a copy with other values, of the same kinds, in place of its children."""
        return self

    def unshared(self, w: Words) -> Val:
        """Return a shared list, tuple, dict or object as one made of its leaves; any other value as it is."""
        return self

    @property
    def nests(self) -> bool:
        """Whether it is, or may be, a row of a closed shape."""
        return False

    def narrows(self, other: Value) -> bool:
        """Whether it is another value, perhaps with fewer alternatives."""
        return self is other

    def some_of_alternatives(self, w: Words, places: Sequence[int]) -> Val:
        """Return it without the alternatives whose indices are not among the given ones."""
        return self

    def opened(self, w: Words) -> Val:
        """Return a row of a closed shape as the list, tuple or dict that it is; any other value as it is."""
        return self

    def as_container(self, w: Words) -> Val:
        """Return a row of a closed shape that the call does not mutate as `opened` does; any other value as it is."""
        return self

    def row_item(self, w: Walker, index: Val) -> Val | None:
        """Return the item of a row of a closed shape at an index that is known to exist; None for other values."""
        return None

    def mutable(self, w: Walker) -> Val:
        """Return it as a list, dict or set of run time that may be mutated, or reject its mutation."""
        rewrite = "make a copy first: " + ("dict(d)" if self.is_mapping else "list(x)")
        match w.here:
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as field)):
                rewrite = f"make it in the call: {ast.unparse(field)} = {'{}' if self.is_mapping else '[]'}"
        raise w.reject("ACR113", seen=f"a change of {w.describe(self)}", rewrite=rewrite)

    def hashed(self, w: Walker) -> Val:
        """Return it as a dict or set of run time whose keys may change, or reject its mutation."""
        return self.mutable(w)

    def of_kind(self, w: Words, kind: tuple[type, Constant] | None) -> Val:
        """Return a dict, read from one whose values have a class and a factory, as a value of this class."""
        if kind is None:
            return self
        raise w.reject("ACR308", seen=f"a {kind[0].__name__} beside other values of a dict", rewrite="dict(d)")

    @property
    def plain(self) -> Val:
        """A deque or tuple of run time as the list of its items; any other value as it is."""
        return self

    def functions(self) -> list[Func]:
        """Return the functions that it is or contains."""
        return [f for v in self.children() for f in v.functions()]

    def walked_cells(self) -> list[ElementInfo]:
        """Return the facts of dicts and deques in an iterable, which must not lose elements while it is walked."""
        return [] if self.compound else [cell for v in self.children() for cell in v.walked_cells()]

    def bound_as(self, w: Walker, name: str, key: StateKey) -> Val:
        """Return it as the value of a name that is read, a key of the state; the instance fails if it has none."""
        return self

    @property
    def origin(self) -> Val:
        """The iterable of an iterator that begins with its first item; any other value as it is."""
        return self

    def bound_value(self) -> Val:
        """Return the value of a name that may be unbound; any other value as it is."""
        return self

    def same(self, other: Val) -> bool:
        """Whether it is known to be the same value as another one."""
        return self is other or (type(self) is type(other) and self._same(other))

    def alike(self, other: Val) -> bool:
        """Whether it is the same as another value up to their children."""
        return self is other or (type(self) is type(other) and (self._alike(other) or self._same(other)))

    def _same(self, other: Val) -> bool:
        """Whether it is the same value as another one of its class; as it stands, for values with children."""
        return self._alike(other) and all_same(self.children(), other.children())

    def _alike(self, other: Val) -> bool:
        """Whether it is the same as another value of its class up to their children."""
        return False

    def identity(self) -> object:
        """Return a key, equal for values that are the same object; None if its identity is not known."""
        return None

    def is_local(self) -> bool:
        """Whether the lists and dicts that it is or contains were certainly made in the call."""
        return all(v.is_local() for v in self.children()) if self.compound else True

    @property
    def is_input(self) -> bool:
        """Whether it may be a list, dict or object that is, or was read from, an input."""
        return False

    def shared_by_calls(self) -> Val | None:
        """Return it as the result of a cached function, which all calls share; None if one of them may mutate it."""
        return self if self.immutable else None

    def within(self, container: ListVal | MapVal) -> Val:
        """Return it as read from a list or dict, with a reference to that container, whose item type it may widen."""
        return self.with_children([v.within(container) for v in self.children()]) if self.compound else self

    def from_field(self, place: FieldPlace, cell: ElementInfo) -> Val:
        """Return it as read from a field of an object made in the call, with the facts of this field's values."""
        if not self.compound:
            return self.with_places(cell.places)
        return self.with_children([v.from_field(place, cell) for v in self.children()])

    def with_places(self, places: Sequence[AllocationSite]) -> Val:
        """Return it as read from a container, with the possible allocation sites of the arrays in it."""
        return self.with_children([v.with_places(places) for v in self.children()]) if self.compound else self

    def places_in(self) -> Iterable[AllocationSite]:
        """Yield the allocation sites of the arrays that it is or contains."""
        for v in self.children() if self.compound else ():
            yield from v.places_in()

    # ---- how it is joined with others

    def join_shape(self, w: Merge) -> JoinShape:
        """Return the join shape of a value that may vary: its parts and types, without its constants."""
        if self.compound or self.children():
            return PartsShape(self, tuple(v.join_shape(w) for v in self.children()))
        t = self.word_type()
        return StaticShape(self) if t is None else TypeShape(t)

    def loop_shape(self, w: Merge) -> JoinShape:
        """Return the join shape with which a name begins that a loop assigns."""
        return StaticShape(self)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        """Return its join shape as the argument of a recursive function."""
        if self.compound or self.children():
            return PartsShape(self, part_shapes(w, self.children(), parameter))
        return self.join_shape(w)

    def joined_parts(self, parts: Sequence[JoinShape]) -> JoinShape:
        """Return the join shape of it and one that is alike, by the join shapes of their children."""
        return PartsShape(self, tuple(parts))

    def united(self, w: Merge, other: Val) -> Val:
        """Return the value that it and one that is alike become where they are joined, but for their children."""
        return self

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        """Return the type of its words, by the join shapes of its children."""
        code, rewrite = ("ACR206", "") if self.is_function else ("ACR308", "list(...)")
        raise w.reject(code, seen=w.describe(self), rewrite=rewrite)

    def joined_words(self, w: Merge, shape: JoinShape) -> tuple[ir.Var, ...] | None:
        """Return its words as a value of a join shape of its kind, which is no alias; None for any other shape."""
        return None

    # ---- how it is stored

    def word_type(self) -> Type | None:
        """Return the type of its words; None if it exists only at compile time."""
        return None

    def stored_type(self, w: Words) -> Type | None:
        """Return the type of its words where it is stored, so that the facts of its parts grow; None as above."""
        return self.word_type()

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        """Return its words as a value of a type; None if it is none."""
        return None

    # ---- operations: None if its kind does not know them; those that other topics implement are in `handlers`

    def truth(self, w: Walker) -> Num | None:
        """`bool(self)`."""
        return None

    def length(self, w: Walker) -> Num | None:
        """`len(self)`."""
        return None

    def fields(self, w: Words) -> dict[str, Val]:
        """Return the fields of an object whose fields are values; none of other values."""
        return {}

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        """Return its items if they are known one by one."""
        handler = ITEMS.get(type(self))
        return None if handler is None else handler(w, self)

    def steps(self, w: Walker) -> Steps | None:
        """Return how each turn of a loop is made whose number has a limit that is known; None if it has none."""
        return None

    def turns(self, w: Walker) -> Turns | None:
        """Return functions for iteration: one gives the number of items, the other the item at an index."""
        handler = PROTOCOLS.get(type(self))
        return None if handler is None else handler(w, self)

    def contains(self, w: Walker, element: Val) -> Num | None:
        """`element in self`."""
        handler = CONTAINS.get(type(self))
        return None if handler is None else handler(w, element, self)

    def get_item(self, w: Walker, index: Index) -> Val | None:
        """`self[index]`, of a value or a `slice` of bounds."""
        handler = INDEXED.get(type(self))
        return None if handler is None else handler(w, self, index)

    def sequence(self, w: Words) -> tuple[Val, ...] | None:
        """Return its items if it is a list or tuple of known length."""
        return None

    def array(self, w: Merge, dtype: str | None) -> Tensor | None:
        """`np.array(self, dtype)`."""
        handler = ARRAYS.get(type(self))
        return None if handler is None else handler(w, self, dtype)

    def promotes_as(self) -> tuple[int, str] | None:
        """Return the level at which an operand counts in PyTorch's promotion, and its dtype; None for other values."""
        return None

    def as_marked_array(self) -> Tensor | ArrayRef | None:
        """Return an array as that of a tensor of PyTorch, of rank 0 as an array of rank 0; None for other values."""
        return None

    def axis_index(self, w: Walker) -> Num | Tensor | None:
        """Return it as the index of an axis of an array: a number, an array (for a sequence, too), or a new axis."""
        items = self.sequence(w)
        if items is not None:
            return w.ops.as_tensor(self, None if items else "int64")
        rewrite = "an int, a slice, a mask or an array of ints"
        raise w.reject("ACR301", seen=f"an index {w.describe(self)}", rewrite=rewrite)

    def host_number(self, w: Walker, what: str, index: bool) -> Num | None:
        """Return it as a Python number (with `index`, an integer) for the operation `what`; None if it is none."""
        return None

    def has_field(self, w: Walker, name: str) -> Num | None:
        """Return whether an object has an attribute that its class has not; None if its fields must be read."""
        return None

    def attribute(self, w: Walker, name: str) -> Val | None:
        """`self.name`."""
        handler = ATTRIBUTES.get(type(self))
        return None if handler is None else handler(w, self, name)

    def method(self, w: Walker, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
        """`self.name(*args, **kwargs)`."""
        handler = METHODS.get(type(self))
        return None if handler is None else handler(w, self, name, args, kwargs)

    def unary(self, w: Walker, op: ast.unaryop) -> Val | None:
        """`-self`, `+self` or `~self`."""
        return None

    def binary(self, w: Walker, op: ast.operator, left: Val, right: Val) -> Val | None:
        """`left op right`, of which one is the value itself."""
        handler = OPERANDS.get(type(self))
        return None if handler is None else handler(w, op, left, right)

    def compare(self, w: Walker, op: ast.cmpop, left: Val, right: Val) -> Val | None:
        """`left op right`, of which one is the value itself."""
        handler = EQUALS.get(type(self))
        return None if handler is None else handler(w, op, left, right)

    @property
    def holds_modules(self) -> bool:
        """Whether it is a module of PyTorch, or holds one."""
        return False

    def as_key(self, w: Walker) -> Val | None:
        """Return it as the key of a dict."""
        return None


Val: TypeAlias = Value
Turns: TypeAlias = "tuple[Callable[[], Num], Callable[[Num], Val]]"
Steps: TypeAlias = "list[Callable[[], tuple[Num, Callable[[], Val]]]]"  # of each turn: whether it is made, its item
Index: TypeAlias = Val | slice  # between `[` and `]`
AxisIndex: TypeAlias = "Num | Tensor | slice | None"  # of one axis of an array; None: a new axis


def all_same(some: Sequence[Val], others: Sequence[Val]) -> bool:
    """Whether two sequences of values are of one length and known to be the same, pair by pair."""
    return len(some) == len(others) and all(a.same(b) for a, b in zip(some, others, strict=True))


def part_shapes(w: Merge, parts: Sequence[Val], parameter: Parameter) -> tuple[JoinShape, ...]:
    """Return the join shapes of the parts of an argument."""
    return tuple(v.parameter_shape(w, parameter.part(k)) for k, v in enumerate(parts))


def static_items(w: Words, items: Sequence[Val]) -> Constant:
    """Return the Python values of items as a tuple; NOT_CONST if one is not known at compile time."""
    known = tuple(map(w.static, items))
    return NOT_CONST if NOT_CONST in known else known
