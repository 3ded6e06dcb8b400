"""Abstract values: the front end's representations of Python values during the walk over the user's code.

Structure is resolved here, before the IR: a tuple, dict, object or short list consists of its items, a function or
class is itself, a shared parameter is a path in the shared structure. Only run-time parts are IR variables.
"""

from __future__ import annotations

import ast
from dataclasses import field
from typing import Any, TypeAlias

from acronumba.data.shared import SharedLeaf, SharedNode
from acronumba.frontend.kinds.value import NOT_CONST as NOT_CONST
from acronumba.frontend.kinds.value import Value
from acronumba.frontend.source import Source
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    NONE,
    Array0T,
    ArrayForm,
    ArrayT,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    MapT,
    ScalarT,
    StructT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    union,
    unlike,
)  # fmt: skip
from acronumba.records import record

FieldPlace: TypeAlias = tuple[type, str]  # a field of a class


@record(eq=False, frozen=False)
class Num:
    """A Python int, float or bool: a constant, a shared number, or a variable."""

    type: IntT | FloatT | BoolT | TextT  # TextT only as an argument or result of `scalar`, see `StringValue`
    var: ir.Var | None = None
    const: Any = NOT_CONST
    shared: SharedLeaf | None = None  # a shared number, not yet read
    # Of an int computed from shared ints and constants: the operation of `SCALARS`, and its operands.
    given: tuple[str, Num, Num] | None = None


@record(eq=False, frozen=False)
class EnumVal:
    cls: type
    var: ir.Var | None = None
    const: Any = NOT_CONST  # a member


@record(eq=False, frozen=False)
class HostScalar:
    """A NumPy integer as the key of a dict."""

    dtype: str
    num: Num


@record(eq=False, frozen=False)
class NoneVal:
    given: bool = False  # read from the data: in another mini-batch it may be another value


@record(eq=False, frozen=False)
class Tensor:
    """An array or NumPy scalar.

    For operations, an array of rank 0 is the scalar in it; `array0` matters only for its Python type.
    """

    type: TensorT
    ref: ir.Var | ir.SharedArg
    dims: tuple[ir.Extent, ...]  # as many as in type.shape, with the same constants
    fresh: bool = False  # made by an operation of this call, not a view
    aliased: bool = False  # may have another name
    named: bool = False  # has a name
    base: Tensor | None = None  # the array of which it is a view
    const: Any = NOT_CONST  # the value of a compile-time NumPy scalar
    array0: Num | None = None  # of rank 0: whether it is an array, as a bool; None: a NumPy scalar
    places: tuple[AllocationSite, ...] = ()  # its possible allocation sites, if it was made in this call
    filled: Tensor | None = None  # the value of all elements, if they are equal
    turned: Tensor | None = None  # of rank 2: its transpose, if that has been computed
    passed: bool = False  # read from a list or field, or passed as an argument, and so aliased
    read_from: ArrayRef | None = None  # the array, which is written to, from which it was read
    known: Num | None = None  # of a NumPy integer: its value as a host number, if there is one

    @property
    def python_type(self) -> TensorT | Array0T:
        """The type, with arrays of rank 0 distinguished from NumPy scalars."""
        if self.array0 is None:
            return self.type
        return Array0T(self.type.dtype, sure=self.array0.const is True)

    @property
    def own(self) -> bool:
        """Whether the elements were made in this call and have at most one name."""
        return not self.aliased and (self.fresh or (self.base is not None and not self.base.named and self.base.own))

    def seen(self) -> None:
        """Note that the elements are aliased."""
        self.aliased = True
        if self.base is not None:
            self.base.seen()

    @property
    def whole(self) -> Tensor:
        """The array of which it is a view; itself if it is no view, or has allocation sites of its own."""
        return self if self.base is None or self.places else self.base.whole


@record(eq=False, frozen=False)
class AllocationSite:
    """Facts of the arrays made at one position in the source; they grow from iteration to iteration."""

    kind: tuple[str, int]  # dtype and rank
    written: bool = False  # one of them is written to: they are stored as an `ArrayRef`
    passed: bool = False  # ... and passed by reference: in lists, fields and arguments of recursive functions
    copied: bool = False  # one of them is not filled with one value: splitting it costs operations
    looked_up: bool = False  # parts of them are read by NumPy scalars as indices, in kernels
    counted: bool = False  # ... and must be views, as they are written to or kept: the indices become host numbers
    cells: dict[frozenset[int], ElementInfo] = field(default_factory=dict)  # by `apart`: facts of the lists of parts
    # By position of a write: the depth of loops around it, the axes indexed by host numbers, and by other indices.
    writes: dict[Any, tuple[int, frozenset[int], frozenset[int]]] = field(default_factory=dict)
    link: AllocationSite | None = None  # unified with another

    def find(self) -> AllocationSite:
        place = self
        while place.link is not None:
            place = place.link
        return place

    @property
    def cell(self) -> ElementInfo:
        """Facts of the lists of their parts."""
        return self.cells.setdefault(self.apart, ElementInfo(real=True, fixed=True)).find()

    @property
    def apart(self) -> frozenset[int]:
        """The axes split into parts, which are elements of a list: the axes that writes in inner loops index."""
        deepest = max((depth for depth, _, _ in self.writes.values()), default=0)
        if not self.writes or (self.copied and not deepest):
            return frozenset()
        known = [numbers for depth, numbers, _ in self.writes.values() if depth == deepest]
        return frozenset.intersection(*known) - frozenset().union(*(others for _, _, others in self.writes.values()))


@record(kw_only=True, eq=False)
class Cut:
    """The elements visible along one axis of a part: one index, or `count` elements from `start` in steps."""

    extent: ir.Extent  # of the part
    index: Num | Tensor | None = None
    start: ir.Extent = 0
    step: int = 1
    count: ir.Extent | None = None  # None: all elements


@record(kw_only=True, eq=False)
class Axis:
    """One axis of an array that is written to: along the list of its parts, or inside each part."""

    extent: ir.Extent
    stride: Num | None = None  # in elements of the list; None: not along the list
    cut: int = -1  # the axis of a part; -1: none, of extent 1
    number: int = -1  # the axis of the whole array; -1: none


@record(kw_only=True, eq=False)
class ArrayRef:
    """An array made in the call that is written to, or a view of one: its parts, and the elements visible in them."""

    type: TensorT  # of the view
    parts: ListVal
    offset: Num  # of the first visible part in the list
    axes: tuple[Axis, ...]
    cuts: tuple[Cut, ...]  # one for each axis of a part
    indexed: frozenset[int]  # axes of the whole array that are indexed by host numbers in this view
    place: AllocationSite
    latest: bool = True  # certainly the array that its allocation site made last

    @property
    def dims(self) -> tuple[ir.Extent, ...]:
        return tuple(a.extent for a in self.axes)

    @property
    def python_type(self) -> TensorT | Array0T:
        return self.type if self.type.rank else Array0T(self.type.dtype, sure=True)

    @property
    def type_in_words(self) -> TensorT | Array0T | ArrayT:
        """The type by which it is passed: by reference, or as its current elements."""
        if not self.place.find().passed or any(isinstance(c.index, Tensor) for c in self.cuts):
            return self.python_type
        item = self.parts.item
        assert isinstance(item, TensorT)
        return ArrayT(self.type, item, len(array_numbers(self)) - 1, array_form(self)[1])


@record(eq=False, frozen=False)
class Ref:
    """An object of one of several classes, not None."""

    classes: tuple[type, ...]
    var: ir.Var
    own: bool | None = False  # made in the call, so that it may be mutated; None: known only at run time


@record(eq=False, frozen=False)
class MutableObject:
    """An object made in the call that is mutated, and whose aliases are all known: its fields are variables.

    The fields are in the state under `(key, name)`; `(key, "")` is set while the object may exist. If the object is
    stored, or merged with another one, its allocation site makes rows from then on (`Facts.rows`).
    """

    cls: type
    key: tuple[str, int]
    site: Any  # key of its allocation site, the same in every iteration


@record(eq=False, frozen=False)
class ObjectValue:
    """An object that is never mutated, as its fields; it becomes a row where it must be stored."""

    cls: type
    names: tuple[str, ...]
    items: tuple[Val, ...]
    stored: bool = False  # already made at run time, and stored
    own: bool = True  # certainly made in the call


@record(eq=False, frozen=False)
class Super:
    """`super()`: an object or class, with look-up after `cls` in its method resolution order."""

    cls: type
    self: Val


@record(eq=False, frozen=False)
class TupleVal:
    items: tuple[Val, ...]


@record(eq=False, frozen=False)
class DictVal:
    """A dict with constant keys that is not mutated; made at run time instead if `cell.real` is set."""

    keys: tuple[Any, ...]  # strings, or other constants
    items: tuple[Val, ...]
    cell: ElementInfo | None = None  # of its allocation site, if that is known


@record(eq=False, frozen=False)
class ElementInfo:
    """Facts of the lists made at one allocation site; they grow from iteration to iteration."""

    item: Type = NEVER  # the union of the elements seen so far
    real: bool = False  # must be a list at run time: it is mutated, stored, or merged
    fixed: bool = False  # the item type cannot be widened
    data: bool = False  # lists of this type may be instance data, dicts of this type are
    touched: bool = False  # a list of it is mutated somewhere
    mixed: bool = False  # an element that is a list of the instance data was stored in it
    unsure: bool = False  # ... or may have been, as the instance data have lists of the item type
    places: dict[AllocationSite, None] = field(default_factory=dict)  # allocation sites of arrays stored in them
    link: ElementInfo | None = None  # unified with another

    def find(self) -> ElementInfo:
        cell = self
        while cell.link is not None:
            cell = cell.link
        return cell

    @property
    def pure(self) -> bool:
        """Whether the lists among the elements were all made in the call."""
        cell = self.find()
        return not cell.mixed and not cell.unsure


@record(eq=False, frozen=False)
class ListVal:
    """A run-time list."""

    cell: ElementInfo
    var: ir.Var
    own: bool = True  # certainly made in the call, so that it may be mutated
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    place: FieldPlace | None = None  # the field of an object from which it was read

    @property
    def item(self) -> Type:
        return self.cell.find().item


@record(eq=False, frozen=False)
class MapVal:
    """A run-time dict or set, as a list of entries. Its type says whether it was made in the call or is an input."""

    cell: ElementInfo  # its items are entries: tuples of a key and a value
    var: ir.Var
    is_set: bool = False
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    place: FieldPlace | None = None  # the field of an object from which it was read

    @property
    def type(self) -> MapT:
        return map_type(self.cell, self.is_set)


@record(eq=False, frozen=False)
class MapView:
    """A view of a dict: its "keys", "values" or "items"; or the "elements" of a set, in any order."""

    base: MapVal
    what: str


def map_type(cell: ElementInfo, is_set: bool) -> MapT:
    """Return the type of the dicts or sets with an element info."""
    entry = cell.find().item
    key, item = entry.items if isinstance(entry, TupleT) else (NEVER, NEVER)
    return MapT(key, None if is_set else item, cell.find().data)


@record(eq=False, frozen=False)
class StaticList:
    """A list made in the call with known elements; made at run time instead if `cell.real` is set (see `is_row`)."""

    items: tuple[Val, ...]
    cell: ElementInfo
    stored: bool = False  # already made at run time, and stored
    loops: tuple[Any, ...] | None = None  # the loops around its allocation site; None: not known


@record(eq=False, frozen=False)
class UnionVal:
    """A value of one of several types, in the words of `type`; by narrowing, only types in `possible` are left."""

    type: UnionT
    vars: tuple[ir.Var, ...]
    possible: tuple[Type, ...]  # among the members of the type
    place: FieldPlace | None = None  # the field of an object made in the call from which it was read
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    places: tuple[AllocationSite, ...] = ()  # possible allocation sites of the arrays among its alternatives


@record(eq=False, frozen=False)
class SharedVal:
    """A dataclass, NamedTuple, list, tuple or dict of the shared parameters."""

    node: SharedNode


@record(eq=False, frozen=False)
class Static:
    """A module, class, builtin, dtype or other object that exists only at compile time."""

    value: Any


@record(eq=False, frozen=False)
class Func:
    """A function of the user: an object, or a nested definition with its scope."""

    source: Source
    globals: dict[str, Any]
    closure: dict[str, Any]  # free variables of a function object: cells
    scope: tuple[Any, ...] | None = None  # scope that a nested definition belongs to
    fn: Any = None  # the function object
    defaults: tuple[Val, ...] = ()  # of a nested definition, positional
    kw_defaults: dict[str, Val] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.source.file, self.source.node.lineno, self.source.node.col_offset, self.scope, id(self.fn))

    @property
    def code(self) -> Any:
        """Key by which recursion is detected: the definition, its globals and its closure."""
        return (self.source.node, id(self.globals), *map(id, self.closure.values()))


@record(eq=False, frozen=False)
class Bound:
    """A method and its object."""

    func: Func
    self: Val


@record(eq=False, frozen=False)
class Method:
    """A method of a built-in type: `x.sum`, `stack.append`."""

    owner: Val
    name: str


@record(eq=False, frozen=False)
class Range:
    start: Num
    stop: Num
    step: Num


@record(eq=False, frozen=False)
class SliceVal:
    """A slice object as a value; a slice in an index is a `slice` of bounds and a constant step (`subscripts`)."""

    start: Val
    stop: Val
    step: Val


@record(eq=False, frozen=False)
class Zip:
    parts: tuple[Val, ...]
    strict: bool = False


@record(eq=False, frozen=False)
class Enumerate:
    inner: Val
    start: Num


@record(eq=False, frozen=False)
class Reversed:
    inner: Val


@record(eq=False, frozen=False)
class Stream:
    """An iterator, which can be consumed once. `depth` is the number of loops around the binding of its name."""

    inner: Val
    depth: int = 0


@record(eq=False, frozen=False)
class Partial:
    """`functools.partial`: a function with bound arguments."""

    func: Val
    args: tuple[Val, ...]
    names: tuple[str, ...]
    named: tuple[Val, ...]


@record(eq=False, frozen=False)
class Kept:
    """A deque, `defaultdict` or `Counter`: a run-time list or dict with additional values.

    Also a tuple of run-time length: a list that is not mutated.
    """

    kind: type
    inner: ListVal | MapVal
    extra: tuple[Val, ...]  # the maximal length of a deque, or None; the factory of a `defaultdict`


@record(eq=False, frozen=False)
class NonlocalCell:
    """The cell of a name that nested functions bind, too: a list of at most one element."""

    inner: ListVal


@record(eq=False, frozen=False)
class Yields:
    """A call of a generator function, which is walked in the loop over it."""

    func: Func
    params: dict[str, Val]
    node: ast.AST | None


@record(eq=False, frozen=False)
class Columns:
    """`zip(*rows)` of a run-time list: the k-th item is the tuple of the k-th elements of all rows."""

    rows: ListVal


@record(eq=False, frozen=False)
class Generator:
    """A generator expression, to be consumed at once."""

    node: ast.GeneratorExp
    scope: tuple[Any, ...]


@record(eq=False, frozen=False)
class MaybeUnbound:
    """A name that is bound only if `bound` is true."""

    value: Val
    bound: Num


@record(eq=False, frozen=False)
class OneOfFunctions:
    """One of several functions or classes, chosen at run time by a number."""

    options: tuple[Val, ...]
    index: Num


@record(eq=False, frozen=False)
class ErrorValue:
    """The result of a rejected expression; or an unusable value, for the reason `why`: merged without a common type."""

    why: str = ""
    code: str = ""  # of the rejection where it is used
    for_now: bool = False  # rejected while the result type of a recursive function was not known yet


Val: TypeAlias = (
    Num | EnumVal | HostScalar | NoneVal | Value | Tensor | ArrayRef | Ref | MutableObject | ObjectValue
    | TupleVal | DictVal | MapVal | MapView | ListVal | StaticList | UnionVal | SharedVal | Static | Func | Bound
    | Method | Range | SliceVal | Zip | Enumerate | Reversed | Stream | Partial | Kept | Generator | Yields | Columns
    | NonlocalCell | MaybeUnbound | OneOfFunctions | ErrorValue | Super
)  # fmt: skip


def array_form(ref: ArrayRef) -> tuple[AllocationSite, ArrayForm]:
    """Return the form of an array that is written to: only arrays of equal form can be joined."""
    axes = tuple((a.stride is not None, a.cut, a.number) for a in ref.axes)
    cuts = tuple(("" if c.index is None else type(c.index).__name__, c.step, c.count is None) for c in ref.cuts)
    return ref.place.find(), ArrayForm(axes, cuts, ref.indexed)


def array_numbers(ref: ArrayRef) -> list[Val]:
    """Return the values in which arrays of one form differ: the list of parts, the offset, extents, strides, cuts."""
    out: list[Val] = [ref.parts, ref.offset]
    for a in ref.axes:
        out += [as_number(a.extent), *(() if a.stride is None else (a.stride,))]
    for c in ref.cuts:
        out += [as_number(c.extent), as_number(c.start)]
        out += [*(() if c.count is None else (as_number(c.count),)), *(() if c.index is None else (c.index,))]
    return out


def as_number(e: ir.Extent) -> Num:
    """Return an extent as a number."""
    return number(e) if isinstance(e, int) else Num(INT, var=e)


def number(value: Any) -> Num:
    """Return a constant."""
    kind = BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT
    return Num(kind, const=value)


def type_of(val: Val) -> Type | None:
    """Return the run-time type of a value, or None if it exists only at compile time."""
    match val:
        case Num():
            return val.type
        case EnumVal():
            return EnumT(val.cls)
        case HostScalar():
            return ScalarT(val.dtype)
        case NoneVal():
            return NONE
        case Value():
            return val.word_type()
        case Tensor():
            return val.python_type
        case ArrayRef():
            return val.type_in_words
        case Ref():
            return union(*(StructT(c) for c in val.classes))
        case ObjectValue() | MutableObject():
            return StructT(val.cls)
        case TupleVal():
            items = [type_of(v) for v in val.items]
            return None if None in items else TupleT(tuple(t for t in items if t is not None))
        case DictVal():
            items = [type_of(v) for v in val.items]
            return None if None in items else DictT(val.keys, tuple(t for t in items if t is not None))
        case MapVal():
            return val.type
        case ListVal():
            return ListT(val.item)
        case Kept(kind=kind, inner=ListVal() as inner) if kind is tuple:
            return ListT(inner.item, tupled=True)
        case StaticList(items=parts):
            if not is_row(val):
                return ListT(val.cell.find().item)
            return TupleT(tuple(t for t in map(type_of, parts) if t is not None), listed=True)
        case UnionVal():
            return union(*val.possible)
        case _:
            return None


def is_row(val: Val) -> bool:
    """Whether a list is stored and joined as its elements: it has unlike elements, and is not mutated."""
    if not isinstance(val, StaticList) or val.cell.find().real or len(val.items) < 2:
        return False
    types = [type_of(v.value if isinstance(v, MaybeUnbound) else v) for v in val.items]
    return None not in types and unlike([t for t in types if t is not None])


def members_of(cls: Any) -> list[Any]:
    """Return the members of an enum, in the order of their numbers at run time."""
    return list(cls)


def is_several(val: Val) -> bool:
    """Whether a value has alternatives that are distinguished at run time."""
    return isinstance(val, UnionVal | OneOfFunctions) or (isinstance(val, Ref) and len(val.classes) > 1)


def is_choosable(val: Val) -> bool:
    """Whether a value is a function or class, so that one of several can be chosen at run time by a number."""
    return isinstance(val, Func | Bound | OneOfFunctions) or (isinstance(val, Static) and callable(val.value))


def options_of(val: Val) -> tuple[Val, ...]:
    return val.options if isinstance(val, OneOfFunctions) else (val,)


def unkept(val: Val) -> Val:
    """Return the list or dict in a `Kept`; any other value as it is."""
    return val.inner if isinstance(val, Kept) else val


def as_list(val: Val) -> Val:
    """Return a tuple of run-time length as its list; any other value as it is."""
    return val.inner if isinstance(val, Kept) and val.kind is tuple else val


def is_field(key: Any) -> bool:
    """Whether a key of the state is for a field of a `MutableObject`."""
    return bool(key[0][0] == "object")


@record()
class ClassNumber:
    """Placeholder for the tag of a class."""

    cls: type
