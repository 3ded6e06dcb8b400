"""Join shapes: the common form of the values of one name where control flow joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from acronumba.ir import nodes as ir
from acronumba.ir.types import BoolT, FloatT, IntT, NoneT, TensorT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef
    from acronumba.frontend.kinds.lists import ElementInfo, ListVal
    from acronumba.frontend.kinds.maps import MapVal
    from acronumba.frontend.kinds.value import Val


@record()
class Parameter:
    """A parameter of a recursive function, or a part of one, of which a join shape is asked."""

    where: tuple[Any, ...]  # code of the function, index of the parameter, indices of parts
    plain: bool  # numbers known at compile time count as run-time ones
    loose: bool  # extents of arrays are not part of the shape
    texts: bool = False  # strings known at compile time count as run-time ones

    def part(self, k: int) -> Parameter:
        return Parameter((*self.where, k), self.plain, self.loose, self.texts)


@record(eq=False)
class StaticShape:
    """The same value on every path, which needs no variable."""

    val: Val


@record(eq=False)
class PartsShape:
    """A value with the shapes of its children: a tuple, dict, object, function or range."""

    val: Val  # one that is alike
    items: tuple[JoinShape, ...]


@record(eq=False)
class TensorShape:
    type: TensorT
    dims: tuple[ir.Extent | None, ...]
    fresh: bool
    array0: bool  # whether it is an array of rank 0
    places: tuple[AllocationSite, ...] = ()  # its possible allocation sites; none if they are not known
    passed: bool = False  # whether it may be an array passed in or read from a container
    viewed: bool = False  # it is a view of another array

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key: only shapes with equal keys can be joined."""
        return self.type.dtype, self.type.rank, self.array0


@record(eq=False)
class ArrayShape:
    """An array that is written to; `numbers` has None for each number that varies over the paths."""

    ref: ArrayRef
    numbers: tuple[Val | None, ...]

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key: only shapes with equal keys can be joined."""
        return self.ref.type.dtype, self.ref.type.rank, not self.ref.type.rank

    @property
    def loose(self) -> list[Val]:
        """The numbers of `ref` that vary over the paths, so that each needs a variable."""
        return [v for v, kept in zip(self.ref.numbers(), self.numbers, strict=True) if kept is None]


@record(eq=False)
class ContainerShape:
    """A list, tuple, dict or set of run time."""

    cell: ElementInfo
    cls: type
    own: bool = True
    outer: ListVal | MapVal | None = None  # the list or dict from which one of the lists was read

    @property
    def is_sequence(self) -> bool:
        return self.cls in (list, tuple)


@record(eq=False)
class ChoiceShape:
    """One of several functions or classes."""

    options: tuple[StaticShape | PartsShape, ...]


@record(eq=False)
class TypeShape:
    type: Type
    places: tuple[AllocationSite, ...] = ()  # possible allocation sites of the arrays among its alternatives
    own: bool = False  # an array among them was made in the call and has at most one name


@record(eq=False)
class MaybeShape:
    """Bound on some paths only."""

    inner: JoinShape


@record(eq=False)
class AbsentShape:
    pass


@record(eq=False)
class ErrorShape:
    why: str
    code: str = ""


JoinShape: TypeAlias = (
    StaticShape | PartsShape | TensorShape | ContainerShape | TypeShape | MaybeShape | AbsentShape | ErrorShape
    | ChoiceShape | ArrayShape
)  # fmt: skip


def compatible_shapes(a: JoinShape, b: JoinShape) -> bool:
    """Whether two join shapes make the same assumptions."""
    match a, b:
        case (StaticShape(), StaticShape()):
            return a.val.same(b.val)
        case (PartsShape(), PartsShape()):
            return a.val.alike(b.val) and all(map(compatible_shapes, a.items, b.items))
        case (TensorShape(), TensorShape()):
            return (a.type, a.dims, a.fresh, a.array0) == (b.type, b.dims, b.fresh, b.array0)
        case (ArrayShape(), ArrayShape()):
            pairs = zip(a.numbers, b.numbers, strict=False)
            return a.ref.form() == b.ref.form() and all(
                x is y if x is None or y is None else x.same(y) for x, y in pairs
            )
        case (ContainerShape(), ContainerShape()):
            return a.cell.find() is b.cell.find() and (a.own, a.cls) == (b.own, b.cls)
        case (ChoiceShape(), ChoiceShape()):
            return len(a.options) == len(b.options) and all(map(compatible_shapes, a.options, b.options))
        case (TypeShape(), TypeShape()):
            return (a.type, a.own) == (b.type, b.own)
        case (MaybeShape(), MaybeShape()):
            return compatible_shapes(a.inner, b.inner)
        case (ErrorShape(), ErrorShape()) | (AbsentShape(), AbsentShape()):
            return True
    return False


def is_own(a: JoinShape) -> bool:
    """Whether an array that a join shape covers, if any, was made in the call and has at most one name."""
    match a:
        case StaticShape():
            return a.val.is_own
        case TensorShape():
            return a.fresh
        case TypeShape():
            return a.own or isinstance(a.type, IntT | FloatT | BoolT | NoneT)
        case PartsShape():
            return a.val.is_tensor and all(map(is_own, a.items))
    return False


def choices_of(a: JoinShape) -> tuple[StaticShape | PartsShape, ...]:
    """Return the alternatives of a join shape that holds one of several functions or classes; else none."""
    if isinstance(a, ChoiceShape):
        return a.options
    return (a,) if isinstance(a, StaticShape | PartsShape) and a.val.is_choosable else ()
