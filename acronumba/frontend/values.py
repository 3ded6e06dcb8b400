"""Abstract values: what the front end knows of a Python value while it walks the user's code.

Everything structural is resolved here, before the IR: tuples, dicts, records and short lists are their items,
functions and classes are themselves, a shared parameter is its place in the shared structure. What is left to run
time are IR variables.
"""

from __future__ import annotations

import ast
from dataclasses import field
from typing import Any, TypeAlias

from acronumba.data.shared import SharedLeaf, SharedNode
from acronumba.frontend.source import Source
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    NONE,
    TEXT,
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
    StrT,
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
NOT_CONST: Any = type("NotConst", (), {"__repr__": lambda self: "<run time>"})()


@record(eq=False, frozen=False)
class Num:
    """A Python int, float or bool: a constant, a shared number, or a variable."""

    type: IntT | FloatT | BoolT | TextT  # TextT: only as an argument or result of `scalar`, see `as_text`
    var: ir.Var | None = None
    const: Any = NOT_CONST
    shared: SharedLeaf | None = None  # a shared number, not yet read
    # Of an int that comes of shared ones and constants: the operation of `SCALARS`, and what it was applied to.
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
    given: bool = False  # by the data: other instances, of another mini-batch, may have something else there


@record(eq=False, frozen=False)
class StrVal:
    value: str


@record(eq=False, frozen=False)
class Text:
    """A string of run time."""

    var: ir.Var


@record(eq=False, frozen=False)
class Tensor:
    """An array or NumPy scalar.

    Operations see an array of rank 0 as the scalar that it holds; only who asks for its Python type looks at `array0`.
    """

    type: TensorT
    ref: ir.Var | ir.SharedArg
    dims: tuple[ir.Extent, ...]  # as many as type.shape; constants agree with it
    fresh: bool = False  # made by an operation of this call, not a view
    aliased: bool = False  # may have another name
    named: bool = False  # has a name
    base: Tensor | None = None  # what it is a view of
    const: Any = NOT_CONST  # the value of a NumPy scalar that is known when the model is compiled
    array0: Num | None = None  # of rank 0: the bool whether it is an array, not a NumPy scalar; None: it is a scalar
    places: tuple[AllocationSite, ...] = ()  # where it was made, if it was made in this call
    filled: Tensor | None = None  # the number that all elements are
    turned: Tensor | None = None  # of rank 2: what it is the transpose of
    passed: bool = False  # it was an element of a list, a field, or an argument: it has other names there
    read_from: ArrayRef | None = None  # the array that it was read from, which may be written to
    known: Num | None = None  # of a NumPy integer: its value, if the host knows it

    @property
    def python_type(self) -> TensorT | Array0T:
        """The type, by which an array of rank 0 differs from a NumPy scalar."""
        if self.array0 is None:
            return self.type
        return Array0T(self.type.dtype, sure=self.array0.const is True)

    @property
    def own(self) -> bool:
        """Whether the elements were made in this call and are seen under one name at most."""
        return not self.aliased and (self.fresh or (self.base is not None and not self.base.named and self.base.own))

    def seen(self) -> None:
        """Note another name for the elements."""
        self.aliased = True
        if self.base is not None:
            self.base.seen()

    @property
    def whole(self) -> Tensor:
        """What it is a view of; itself if it is none, or if nobody else can see what it is a view of."""
        return self if self.base is None or self.places else self.base.whole


@record(eq=False, frozen=False)
class AllocationSite:
    """What is known of the arrays made at one place of the source; grows from sweep to sweep."""

    kind: tuple[str, int]  # dtype and rank
    written: bool = False  # something writes into them: they are kept as an `ArrayRef`
    passed: bool = False  # ... also where they are elements of lists, fields, or arguments of recursive functions
    copied: bool = False  # one of them is not made of one number: to take it apart costs operations
    looked_up: bool = False  # NumPy's scalars as indices make views of them, which kernels read
    counted: bool = False  # ... which are written to, or kept: such indices are numbers of the host
    cells: dict[frozenset[int], ElementInfo] = field(default_factory=dict)  # the lists of their parts, by `apart`
    # By place: how many loops are around the write, the axes that it indexes by numbers of the host, and by others.
    writes: dict[Any, tuple[int, frozenset[int], frozenset[int]]] = field(default_factory=dict)
    link: AllocationSite | None = None  # unified with another

    def find(self) -> AllocationSite:
        place = self
        while place.link is not None:
            place = place.link
        return place

    @property
    def cell(self) -> ElementInfo:
        """What is known of the lists of their parts."""
        return self.cells.setdefault(self.apart, ElementInfo(real=True, fixed=True)).find()

    @property
    def apart(self) -> frozenset[int]:
        """The axes along which the parts lie apart, as elements of a list: those that inner loops write by."""
        deepest = max((depth for depth, _, _ in self.writes.values()), default=0)
        if not self.writes or (self.copied and not deepest):
            return frozenset()
        known = [numbers for depth, numbers, _ in self.writes.values() if depth == deepest]
        return frozenset.intersection(*known) - frozenset().union(*(others for _, _, others in self.writes.values()))


@record(kw_only=True, eq=False)
class Cut:
    """What is seen along one axis of a part: one index, or `count` elements from `start` in steps."""

    extent: ir.Extent  # of the part
    index: Num | Tensor | None = None
    start: ir.Extent = 0
    step: int = 1
    count: ir.Extent | None = None  # None: all there are


@record(kw_only=True, eq=False)
class Axis:
    """One axis of an array that is written to: along the list of its parts, or inside of each part."""

    extent: ir.Extent
    stride: Num | None = None  # in elements of the list; None: not along the list
    cut: int = -1  # the axis of a part; -1: none, its extent is 1
    number: int = -1  # of the whole array; -1: none


@record(kw_only=True, eq=False)
class ArrayRef:
    """An array made in the call that is written to, or a view of one: its parts, and what is seen of them."""

    type: TensorT  # of what is seen
    parts: ListVal
    offset: Num  # of the first part that is seen
    axes: tuple[Axis, ...]
    cuts: tuple[Cut, ...]  # one for each axis of a part
    indexed: frozenset[int]  # axes of the whole array that numbers of the host have been put for
    place: AllocationSite
    latest: bool = True  # it was made by the last walk through its place, and no earlier one

    @property
    def dims(self) -> tuple[ir.Extent, ...]:
        return tuple(a.extent for a in self.axes)

    @property
    def python_type(self) -> TensorT | Array0T:
        return self.type if self.type.rank else Array0T(self.type.dtype, sure=True)

    @property
    def type_in_words(self) -> TensorT | Array0T | ArrayT:
        """The type by which it is passed: as itself, or as its present elements."""
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
    own: bool | None = False  # made in the call: it may be changed; None: run time knows


@record(eq=False, frozen=False)
class MutableObject:
    """An object made in the call that is changed somewhere, and whose names are all known: its fields are variables.

    They are in the state under `(key, name)`; under `(key, "")` is something as long as the object may be there.
    Where the object becomes part of something, or is merged with another one, its place makes rows (`Facts.rows`).
    """

    cls: type
    key: tuple[str, int]
    site: Any  # where it is made: the same in every sweep


@record(eq=False, frozen=False)
class ObjectValue:
    """An object made in the call that never changes, still in pieces (it becomes a row where it must be stored)."""

    cls: type
    names: tuple[str, ...]
    items: tuple[Val, ...]
    stored: bool = False  # already made at run time, at a place that keeps it
    own: bool = True  # certainly made in the call


@record(eq=False, frozen=False)
class Super:
    """`super()`: an object, or class, as the class behind another one in the order of its bases."""

    cls: type
    self: Val


@record(eq=False, frozen=False)
class TupleVal:
    items: tuple[Val, ...]


@record(eq=False, frozen=False)
class DictVal:
    """A dict whose keys are known and that is not changed; made at run time instead if `cell.real` is set."""

    keys: tuple[Any, ...]  # strings, or other constants
    items: tuple[Val, ...]
    cell: ElementInfo | None = None  # of the place that makes it, if there is one


@record(eq=False, frozen=False)
class ElementInfo:
    """What is known of the lists made at one place; grows from sweep to sweep."""

    item: Type = NEVER  # the union of the elements seen so far
    real: bool = False  # must be a list at run time: it is changed, stored, or merged
    fixed: bool = False  # the item type is given
    data: bool = False  # lists of this type may be instance data, dicts of this type are
    touched: bool = False  # a list of it is changed somewhere
    mixed: bool = False  # an element that is a list of the instance data was put in
    unsure: bool = False  # ... or may have been, before anything was known of the list
    places: dict[AllocationSite, None] = field(default_factory=dict)  # where arrays were made that were put into them
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
    """A list at run time."""

    cell: ElementInfo
    var: ir.Var
    own: bool = True  # certainly made in the call: it may be changed
    outer: ListVal | MapVal | None = None  # the list or dict that it was read from
    place: FieldPlace | None = None  # the field of an object that it was read from

    @property
    def item(self) -> Type:
        return self.cell.find().item


@record(eq=False, frozen=False)
class MapVal:
    """A dict at run time, or a set: a list of entries. By its type it was made in the call, or came in."""

    cell: ElementInfo  # its items are entries: tuples of a key and what lies under it
    var: ir.Var
    is_set: bool = False
    outer: ListVal | MapVal | None = None  # the list or dict that it was read from
    place: FieldPlace | None = None  # the field of an object that it was read from

    @property
    def type(self) -> MapT:
        return map_type(self.cell, self.is_set)


@record(eq=False, frozen=False)
class MapView:
    """What a dict has: its "keys", "values" or "items"; or the elements of a set, in any order."""

    base: MapVal
    what: str


def map_type(cell: ElementInfo, is_set: bool) -> MapT:
    """Return the type of the dicts or sets of a cell."""
    entry = cell.find().item
    key, item = entry.items if isinstance(entry, TupleT) else (NEVER, NEVER)
    return MapT(key, None if is_set else item, cell.find().data)


@record(eq=False, frozen=False)
class StaticList:
    """A list made in the call whose elements are all known; becomes real if `cell.real` is set (see `is_row`)."""

    items: tuple[Val, ...]
    cell: ElementInfo
    stored: bool = False  # already made at run time, at a place that keeps it
    loops: tuple[Any, ...] | None = None  # around the place that made it; None: not known


@record(eq=False, frozen=False)
class UnionVal:
    """One of several types: the words of `type`; only the alternatives in `possible` are left."""

    type: UnionT
    vars: tuple[ir.Var, ...]
    possible: tuple[Type, ...]  # among the members of the type
    place: FieldPlace | None = None  # the field of an object made in the call that it was read from
    outer: ListVal | MapVal | None = None  # the list or dict that it was read from
    places: tuple[AllocationSite, ...] = ()  # where the arrays among the alternatives may have been made


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
        """What makes two functions one function for recursion: the definition, and where it finds its names."""
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
    """A slice that is a value; one that stands in an index is a `slice` of bounds and an int (`subscripts`)."""

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
    """An iterator, which is consumed once: by what it gives. `depth`: in how many loops it got its name."""

    inner: Val
    depth: int = 0


@record(eq=False, frozen=False)
class Partial:
    """A function with arguments that it was given before it is called."""

    func: Val
    args: tuple[Val, ...]
    names: tuple[str, ...]
    named: tuple[Val, ...]


@record(eq=False, frozen=False)
class Kept:
    """A deque, a dict with a default, a counter: a list or dict of run time with something of its own.

    So is a tuple of a length that only run time knows: a list that nobody changes.
    """

    kind: type
    inner: ListVal | MapVal
    extra: tuple[Val, ...]  # of a deque: the most elements, or None; what gives the default


@record(eq=False, frozen=False)
class NonlocalCell:
    """What a name stands for that nested functions bind, too: a list of at most one element."""

    inner: ListVal


@record(eq=False, frozen=False)
class Yields:
    """A call of a function that yields, which is walked by the loop over it."""

    func: Func
    params: dict[str, Val]
    node: ast.AST | None


@record(eq=False, frozen=False)
class Columns:
    """`zip(*rows)` of a list of run time: tuples of the elements at a place of all rows."""

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
    """The result of something rejected; or what cannot be used, and `why`: merged from what has no common type, say."""

    why: str = ""
    code: str = ""  # of the rejection where it is used
    for_now: bool = False  # rejected before it was known what a recursive function returns: the next sweep knows


Val: TypeAlias = (
    Num | EnumVal | HostScalar | NoneVal | StrVal | Text | Tensor | ArrayRef | Ref | MutableObject | ObjectValue
    | TupleVal | DictVal | MapVal | MapView | ListVal | StaticList | UnionVal | SharedVal | Static | Func | Bound
    | Method | Range | SliceVal | Zip | Enumerate | Reversed | Stream | Partial | Kept | Generator | Yields | Columns
    | NonlocalCell | MaybeUnbound | OneOfFunctions | ErrorValue | Super
)  # fmt: skip


def array_form(ref: ArrayRef) -> tuple[AllocationSite, ArrayForm]:
    """Return what two arrays that are written to must have in common to be of one form."""
    axes = tuple((a.stride is not None, a.cut, a.number) for a in ref.axes)
    cuts = tuple(("" if c.index is None else type(c.index).__name__, c.step, c.count is None) for c in ref.cuts)
    return ref.place.find(), ArrayForm(axes, cuts, ref.indexed)


def array_numbers(ref: ArrayRef) -> list[Val]:
    """Return what may differ between two arrays of one form: the list of their parts, extents, offsets, strides."""
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


def as_text(val: Val) -> Num:
    """Return a string as an argument of `Blocks.scalar`."""
    if isinstance(val, StrVal):
        return Num(TEXT, const=val.value)
    assert isinstance(val, Text)
    return Num(TEXT, var=val.var)


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
        case StrVal():
            return StrT(val.value)
        case Text():
            return TEXT
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
    """Whether a list stays in pieces where it is stored or meets others: of unlike things, and nothing changes it."""
    if not isinstance(val, StaticList) or val.cell.find().real or len(val.items) < 2:
        return False
    types = [type_of(v.value if isinstance(v, MaybeUnbound) else v) for v in val.items]
    return None not in types and unlike([t for t in types if t is not None])


def members_of(cls: Any) -> list[Any]:
    """Return the members of an enum, in the order of their numbers at run time."""
    return list(cls)


def is_several(val: Val) -> bool:
    """Whether a value has alternatives that must be told apart at run time."""
    return isinstance(val, UnionVal | OneOfFunctions) or (isinstance(val, Ref) and len(val.classes) > 1)


def is_choosable(val: Val) -> bool:
    """Whether a value is a function or class, of which a number can choose one at run time."""
    return isinstance(val, Func | Bound | OneOfFunctions) or (isinstance(val, Static) and callable(val.value))


def options_of(val: Val) -> tuple[Val, ...]:
    return val.options if isinstance(val, OneOfFunctions) else (val,)


def unkept(val: Val) -> Val:
    """Return the list or dict of a deque, a dict with a default or a counter; anything else as it is."""
    return val.inner if isinstance(val, Kept) else val


def as_list(val: Val) -> Val:
    """Return the list that a tuple of a length of run time is; anything else as it is."""
    return val.inner if isinstance(val, Kept) and val.kind is tuple else val


def is_field(key: Any) -> bool:
    """Whether a key of the state is a field of an object whose names are all known (see `MutableObject`)."""
    return bool(key[0][0] == "object")


@record()
class ClassNumber:
    """Placeholder of a class's tag."""

    cls: type
