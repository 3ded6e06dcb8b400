"""Arrays and scalars of NumPy; arrays that are written to, as the list of their parts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.join_shapes import ArrayShape, JoinShape, Parameter, StaticShape, TensorShape, TypeShape
from acronumba.frontend.kinds.lists import ElementInfo, ListVal
from acronumba.frontend.kinds.numbers import Num, as_number, number
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Turns, Val, Value, all_same
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT, Array0T, ArrayForm, ArrayT, TensorT, Type, type_text, union
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


AMBIGUOUS = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
Lent = tuple["Tensor", bool, bool]  # an array, with `lent` and `lent_again` of it before a name was noted
EMPTY = "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."


@record(eq=False, frozen=False)
class Tensor(Value):
    """An array or NumPy scalar.

    For operations, an array of rank 0 is the scalar in it; `array0` matters only for its Python type.
    """

    type: TensorT
    ref: ir.Var | ir.SharedArg
    dims: tuple[ir.Extent, ...]  # as many as in type.shape, with the same constants
    fresh: bool = False  # made by an operation of this call, not a view
    aliased: bool = False  # may have another name
    named: bool = False  # has a name
    lent: bool = False  # has a name in a function that is being inlined, which ends with the function
    lent_again: bool = False  # has several of these names, or is given to such a function
    base: Tensor | None = None  # the array of which it is a view
    const: Any = NOT_CONST  # the value of a compile-time NumPy scalar
    array0: Num | None = None  # of rank 0: whether it is an array, as a bool; None: a NumPy scalar
    places: tuple[AllocationSite, ...] = ()  # its possible allocation sites, if it was made in this call
    filled: Tensor | None = None  # the value of all elements, if they are equal
    turned: Tensor | None = None  # of rank 2: its transpose, if that has been computed
    passed: bool = False  # read from a list or field, or passed as an argument, and so aliased
    read_from: ArrayRef | None = None  # the array, which is written to, from which it was read
    repeated: bool = False  # whether several of its elements are certainly one in PyTorch: it is an expanded view
    known: Num | None = None  # of integers: the value of the only element as a host number, if there is one

    iterable = True
    assignable = True
    numeric = True
    compares_first = 4

    def example(self, w: Words) -> Constant:
        one = np.ones((1,) * self.type.rank, self.type.dtype)
        if self.type.rank or self.array0 is None:
            return one[()]  # a view, or a scalar
        return one if self.array0.const is True else NOT_CONST

    @property
    def python_type(self) -> TensorT | Array0T:
        """The type, with arrays of rank 0 distinguished from NumPy scalars."""
        if self.array0 is None:
            return self.type
        return Array0T(self.type.dtype, sure=self.array0.const is True)

    @property
    def own(self) -> bool:
        """Whether the elements were made in this call and have at most one name."""
        if self.aliased or self.lent_again:
            return False
        base = self.base
        return self.fresh or (base is not None and not base.named and not base.lent and base.own)

    @property
    def is_own(self) -> bool:
        return self.own

    @property
    def marked(self) -> Tensor:
        return self

    def seen(self) -> None:
        """Note that the elements are aliased."""
        self.aliased = True
        if self.base is not None:
            self.base.seen()

    def lend(self, lent: list[Lent], again: bool) -> None:
        """Note a name in a function that is being inlined, and in `lent` what was known before."""
        x: Tensor | None = self
        while again and x is not None:
            lent.append((x, x.lent, x.lent_again))
            x.lent_again = True
            x = x.base
        lent.append((self, self.lent, self.lent_again))
        self.lent = True

    @property
    def whole(self) -> Tensor:
        """The array of which it is a view; itself if it is no view, or has allocation sites of its own."""
        return self if self.base is None or self.places else self.base.whole

    immutable = True

    def describe(self, w: Blocks) -> str:
        return _array_text(self)

    def static_key(self, w: Walker, which: bool) -> object:
        if not isinstance(self.ref, ir.SharedArg):
            return id(self)
        return "shared", w.shared_params[self.ref.index].path if which else self.type, self.python_type

    def word_type(self) -> Type:
        return self.python_type

    def variable(self) -> ir.Var | None:
        return self.ref if isinstance(self.ref, ir.Var) else None

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Tensor)
        kinds = self.array0 is other.array0 or (
            self.array0 is not None and other.array0 is not None and self.array0.same(other.array0)
        )
        return bool(self.ref == other.ref and self.type == other.type and kinds)

    def shared_by_calls(self) -> Value:
        return replace(self, places=(), fresh=False, aliased=True, named=True, known=None)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TensorT):
            fits = self.array0 is None and (self.type.dtype, self.type.rank) == (t.dtype, t.rank)
            return (w.tensor_var(self),) if fits else None
        if not isinstance(t, Array0T) or union(t, self.python_type) != t:
            return None
        flag = () if t.sure else (w.word(self.array0 or number(False)),)
        return (*flag, w.tensor_var(self))

    def join_shape(self, w: Merge) -> JoinShape:
        if isinstance(self.python_type, Array0T) and not self.python_type.sure:
            return TypeShape(self.python_type)
        viewed = self.base is not None and not self.own
        places = () if viewed and self.whole.passed else self.whole.places
        array0 = self.array0 is not None
        return TensorShape(self.type, self.dims, self.own, array0, places, self.whole.passed, viewed)

    def joined_words(self, w: Merge, shape: JoinShape) -> tuple[ir.Var, ...] | None:
        return (w.variable(self),) if isinstance(shape, TensorShape) else None  # under the same name as before

    def with_places(self, places: Sequence[AllocationSite]) -> Val:
        if self.type.rank or self.array0 is not None:
            kind = self.type.dtype, self.type.rank
            self.places, self.passed = tuple(p for p in places if p.kind == kind), True
        return self

    def places_in(self) -> Iterable[AllocationSite]:
        if not self.type.rank and self.array0 is None:
            return ()
        return [p.of_views((self.type.dtype, self.type.rank)) for p in self.whole.places]

    def truth(self, w: Walker) -> Num:
        x = w.ops.only_element(self, EMPTY, AMBIGUOUS)
        if x.type.dtype == "uint64":  # a host number may not hold it
            x = w.ops.cast(x, "bool")
        return w.ops.host(x, "a condition").truth(w)

    def length(self, w: Walker) -> Num | None:
        return w.extent(self.dims[0]) if self.type.rank else None

    def array(self, w: Merge, dtype: str | None) -> Tensor:
        return self if dtype is None else w.ops.cast(self, dtype)

    def axis_index(self, w: Walker) -> Tensor:
        return w.ops.signed(self) if not self.type.rank and self.type.dtype == "uint64" else self

    def host_number(self, w: Walker, what: str, index: bool) -> Num | None:
        if self.type.rank:
            raise w.reject("ACR601", seen=f"{what} of {w.describe(self)}")
        return w.ops.host(self, what) if not index or self.type.dtype.startswith(("int", "uint")) else None

    def promotes_as(self) -> tuple[int, str]:
        return 0 if self.type.rank else 1, self.type.dtype

    def as_marked_array(self) -> Tensor:
        scalar = not self.type.rank and (self.array0 is None or self.array0.const is not True)
        return replace(self, array0=number(True)) if scalar else self

    def unary(self, w: Walker, op: ast.unaryop) -> Val:
        return w.ops.ufunc({ast.USub: "neg", ast.UAdd: "positive", ast.Invert: "not"}[type(op)], (self,))

    def turns(self, w: Walker) -> Turns:
        if not self.type.rank:
            raise w.reject("ACR301", seen="iteration over a rank-0 array")
        n = w.extent(self.dims[0])
        return lambda: n, lambda i: self.row(w, i)

    def row(self, w: Walker, index: Num) -> Tensor:
        """Return the row at an index that is known to be in range."""
        ref = w.word(w.read(index)) if w.block is not None else w.var("", INT)
        return w.ops.op("take", (self.ref, ref), self.type.dtype, self.dims[1:], (0,), base=self)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return (
            StaticShape(self)
            if isinstance(self.ref, ir.SharedArg)
            else _parameter_shape(self, self.whole.places, parameter)
        )

    def split(self, w: Words, wanted: Callable[[Type], bool]) -> tuple[Num, Val, Val] | None:
        if self.array0 is None or self.array0.const is not NOT_CONST:
            return None
        array, scalar = wanted(Array0T(self.type.dtype)), wanted(self.type)
        if array == scalar:
            return number(array), self, self
        as_array, as_scalar = replace(self, array0=number(True)), replace(self, array0=None)
        return (self.array0, as_array, as_scalar) if array else (w.negate(self.array0), as_scalar, as_array)

    def identity(self) -> object:
        return self.ref.index if isinstance(self.ref, ir.SharedArg) else id(self.ref)


@record(eq=False, frozen=False)
class AllocationSite:
    """Facts of the arrays made at one position in the source; they grow from iteration to iteration."""

    kind: tuple[str, int]  # dtype and rank
    written: bool = False  # one of them is written to: they are stored as an `ArrayRef`
    passed: bool = False  # ... and passed by reference: in lists, fields and arguments of recursive functions
    copied: bool = False  # one of them is not filled with one value: splitting it costs operations
    looked_up: bool = False  # parts of them are read by NumPy scalars as indices, in kernels
    counted: bool = False  # ... and must be views, as they are written to or kept: the indices become host numbers
    reshaped: bool = False  # copies of another shape were read that could be views
    seen_through: bool = False  # ... and must be views
    cells: dict[frozenset[int], ElementInfo] = field(default_factory=dict)  # by `apart`: facts of the lists of parts
    # By position of a write: the depth of loops around it, the axes indexed by host numbers, and by other indices.
    writes: dict[Any, tuple[int, frozenset[int], frozenset[int]]] = field(default_factory=dict)
    link: AllocationSite | None = None  # unified with another, or that of the arrays of which these are views
    viewed: bool = False  # it stands for views, of another kind than the arrays
    views: dict[tuple[str, int], AllocationSite] = field(default_factory=dict)  # those that stand for views of them

    def find(self) -> AllocationSite:
        place = self
        while place.link is not None:
            place = place.link
        return place

    def of_views(self, kind: tuple[str, int]) -> AllocationSite:
        """Return the site that stands for this one in containers of views of one kind of its arrays."""
        if self.kind == kind:
            return self
        return self.views.setdefault(kind, AllocationSite(kind, link=self, viewed=True))

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
class ArrayRef(Value):
    """An array made in the call that is written to, or a view of one: its parts, and the elements visible in them."""

    type: TensorT  # of the view
    parts: ListVal
    offset: Num  # of the first visible part in the list
    axes: tuple[Axis, ...]
    cuts: tuple[Cut, ...]  # one for each axis of a part
    indexed: frozenset[int]  # axes of the whole array that are indexed by host numbers in this view
    place: AllocationSite
    latest: bool = True  # certainly the array that its allocation site made last

    iterable = True
    assignable = True
    numeric = True

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
        return ArrayT(self.type, item, len(self.numbers()) - 1, self.form()[1])

    def promotes_as(self) -> tuple[int, str]:
        return 0 if self.type.rank else 1, self.type.dtype

    def as_marked_array(self) -> ArrayRef:
        return self

    def describe(self, w: Blocks) -> str:
        return _array_text(self)

    def word_type(self) -> Type:
        return self.type_in_words

    def stored_type(self, w: Words) -> Type:
        t = self.type_in_words
        if isinstance(t, ArrayT):
            w.note_form(self)
        return t

    def _same(self, other: Value) -> bool:
        assert isinstance(other, ArrayRef)
        return self.form() == other.form() and all_same(self.numbers(), other.numbers())

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, ArrayT) and union(t, self.type_in_words) == t:
            numbers = [n for n in self.numbers() if isinstance(n, Num)]
            return (self.parts.var, *(w.word(w.read(n)) for n in numbers))
        return w.to_words(w.whole(self), t) if isinstance(t, TensorT | Array0T) else None

    def join_shape(self, w: Merge) -> JoinShape:
        return ArrayShape(self, tuple(self.numbers()))

    def joined_words(self, w: Merge, shape: JoinShape) -> tuple[ir.Var, ...] | None:
        if not isinstance(shape, ArrayShape):
            return None
        varying = ArrayShape(self, shape.numbers).loose
        return tuple(v.var if isinstance(v, ListVal) else w.word(v) for v in varying)  # type: ignore[arg-type]

    def form(self) -> tuple[AllocationSite, ArrayForm]:
        """Return its form: only arrays of equal form can be joined."""
        axes = tuple((a.stride is not None, a.cut, a.number) for a in self.axes)
        cuts = tuple(("" if c.index is None else type(c.index).__name__, c.step, c.count is None) for c in self.cuts)
        return self.place.find(), ArrayForm(axes, cuts, self.indexed)

    def numbers(self) -> list[Val]:
        """Return what arrays of one form differ in: the list of parts, the offset, extents, strides, cuts."""
        out: list[Val] = [self.parts, self.offset]
        for a in self.axes:
            out += [as_number(a.extent), *(() if a.stride is None else (a.stride,))]
        for c in self.cuts:
            out += [as_number(c.extent), as_number(c.start)]
            out += [*(() if c.count is None else (as_number(c.count),)), *(() if c.index is None else (c.index,))]
        return out

    def places_in(self) -> Iterable[AllocationSite]:
        return (self.place.find().of_views((self.type.dtype, self.type.rank)),)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if not self.place.find().passed:
            return _parameter_shape(self, (self.place,), parameter)
        w.type_of(self)
        return ArrayShape(self, (None,) * len(self.numbers()))

    def identity(self) -> object:
        return id(self)


def _array_text(val: Tensor | ArrayRef) -> str:
    """Return a description of an array: its dtype and extents."""
    if isinstance(val.python_type, Array0T):
        return type_text(val.python_type)
    dims = ", ".join(str(d) if isinstance(d, int) else "?" for d in val.dims)
    return f"{val.type.dtype}[{dims}]"


def _parameter_shape(val: Tensor | ArrayRef, places: tuple[AllocationSite, ...], parameter: Parameter) -> JoinShape:
    """Return the shape of an array parameter, with its allocation sites, so that the callee may write into it."""
    if isinstance(val.python_type, Array0T):
        return TypeShape(val.python_type)
    dims = tuple(None if parameter.loose or not isinstance(d, int) else d for d in val.dims)
    return TensorShape(TensorT(val.type.dtype, dims), dims, False, False, places, True)
