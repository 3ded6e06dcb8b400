"""The graph of a kernel's values, and index arithmetic between them.

In: a `KernelSpec`. Out: a `Graph`. Views (reshape, transpose, slice, take, ...) are index arithmetic: `through` maps an
index of a view to the index of its argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from acronumba.ir.ops import KINDS, TENSORS, OpKind
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand, Size
from acronumba.kernels.stages.index import ZERO, Index, Poly, divide, reindex, size_poly

Place: TypeAlias = "tuple[int, Index]"  # a value, and where in it


class Untraceable(Exception):
    """Raised for an index that is not a polynomial of the loop variables."""


class Places(Protocol):
    """Operations of index arithmetic that need code: run-time numbers, division, loaded indices."""

    def start(self, value: object) -> Poly:
        """Return the start of a slice: a Size or ("value", k)."""

    def wide(self, size: Size) -> Poly:
        """Return 1 if the run-time extent is not 1, else 0."""

    def split(self, flat: Poly, by: Poly) -> tuple[Poly, Poly]:
        """Return quotient and remainder."""

    def taken(self, v: int, at: Index) -> Poly:
        """Return element `at` of the index tensor of value `v`, a `take`."""


class Graph:
    """The values of a kernel: operands, then operations."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.first = len(spec.operands)
        self.count = self.first + len(spec.body)
        self.users: list[list[int]] = [[] for _ in range(self.count)]
        for k, op in enumerate(spec.body):
            for a in dict.fromkeys(op.args):
                self.users[a].append(self.first + k)

    def op(self, v: int) -> KernelOp | None:
        return self.spec.body[v - self.first] if v >= self.first else None

    def source(self, v: int) -> Operand | KernelOp:
        return self.spec.operands[v] if v < self.first else self.spec.body[v - self.first]

    def shape(self, v: int) -> tuple[Size, ...]:
        return self.source(v).shape

    def dtype(self, v: int) -> str:
        return self.source(v).dtype

    def kind(self, v: int) -> str:
        """Return "leaf" for operands, else the kind of `ir.ops`."""
        op = self.op(v)
        return "leaf" if op is None else TENSORS[op.op].kind

    def has(self, v: int) -> OpKind:
        """Return the properties of the kind of `v`; operands are read in place, like views."""
        return KINDS.get(self.kind(v), KINDS["view"])

    def checked(self, v: int) -> tuple[int, ...]:
        """Return the values that decide whether the operation `v` fails; none where its shape alone does."""
        op = self.op(v)
        return op.args if op is not None and self.kind(v) == "element" else ()

    def lookup(self, v: int) -> bool:
        """Whether `v` is a `take` whose index is known only at run time: where it reads depends on the node."""
        op = self.op(v)
        return op is not None and op.op == "take" and self.kind(op.args[1]) != "create"


def axis_of(op: KernelOp) -> int:
    """Return the axis of a `take`, `windows`, `concat`, `argmax` or `argmin`."""
    (axis,) = op.attrs
    assert isinstance(axis, int)
    return axis


def axes_of(op: KernelOp) -> tuple[int, ...]:
    """Return the axes of a reduction, the order of a `transpose`."""
    (axes,) = op.attrs
    assert isinstance(axes, tuple)
    return axes


def stretch(places: Places, index: Index, shape: tuple[Size, ...]) -> Index:
    """Return the index in an argument of `shape` that is broadcast to the shape of `index`."""
    skip = len(index.shape) - len(shape)
    at = []
    for size, out, a in zip(shape, index.shape[skip:], index.at[skip:], strict=True):
        if size == out:
            at.append(a)
        elif size == 1:
            at.append(ZERO)
        else:
            at.append(a * places.wide(size) if isinstance(size, Dim) else a)
    return Index(shape, tuple(at))


def through(places: Places, graph: Graph, v: int, index: Index) -> tuple[int, Index]:
    """Return the argument of the view `v`, and the index in it of the element at `index` of `v`."""
    op = graph.op(v)
    assert op is not None
    source = op.args[0]
    shape = graph.shape(source)
    if op.op == "reshape":
        return source, index
    own = reindex(index, op.shape, places.split)
    match op.op:
        case "transpose":
            at = [ZERO] * len(shape)
            for k, axis in enumerate(axes_of(op)):
                at[axis] = own.at[k]
        case "broadcast":
            return source, stretch(places, own, shape)
        case "slice":
            starts, steps = op.attrs
            at = [places.start(s) + a * t for s, t, a in zip(starts, steps, own.at, strict=True)]  # type: ignore[call-overload]
        case "windows":
            axis = axis_of(op)
            at = [*own.at[:axis], own.at[axis] + own.at[axis + 1], *own.at[axis + 2 :]]
        case _:
            axis = axis_of(op)
            rank = len(graph.shape(op.args[1]))
            inner = Index(graph.shape(op.args[1]), own.at[axis : axis + rank])
            at = [*own.at[:axis], places.taken(v, inner), *own.at[axis + rank :]]
    return source, Index(shape, tuple(at))


def arguments(places: Places, graph: Graph, v: int, index: Index) -> list[Place]:
    """Return the arguments of an element-wise operation or a view, each with the index that an element reads."""
    op = graph.op(v)
    assert op is not None
    if graph.kind(v) == "element":
        shapes = [(a, graph.shape(a)) for a in op.args]
        if all(shape == op.shape for _, shape in shapes):
            return [(a, index) for a in op.args]
        own = reindex(index, op.shape, places.split)
        return [(a, index if shape == op.shape else stretch(places, own, shape)) for a, shape in shapes]
    if graph.kind(v) != "view":
        return []
    out = [through(places, graph, v, index)]
    if op.op == "take":
        own = reindex(index, op.shape, places.split)
        axis, shape = axis_of(op), graph.shape(op.args[1])
        out.append((op.args[1], Index(shape, own.at[axis : axis + len(shape)])))
    return out


def onward(places: Places, graph: Graph, views: Sequence[int], index: Index) -> Index:
    """Map an index of a value to that of the same element in the last of a chain of transposes and reshapes of it."""
    for v in views:
        op = graph.op(v)
        assert op is not None
        if op.op == "transpose":
            own = reindex(index, graph.shape(op.args[0]), places.split)
            index = Index(op.shape, tuple(own.at[axis] for axis in axes_of(op)))
    return index


class Symbolic:
    """Index arithmetic without code: opaque numbers become new symbols."""

    def __init__(self, extents: dict[str, Size], probe: str | None = None) -> None:
        self.extents = extents
        self.probe = probe

    def start(self, value: object) -> Poly:
        if isinstance(value, Dim | int):
            return size_poly(value)
        return Poly.of(f"?{value}")

    def wide(self, size: Size) -> Poly:
        return Poly.of(f"?wide{size}")

    def split(self, flat: Poly, by: Poly) -> tuple[Poly, Poly]:
        done = divide(flat, by, self.extents)
        if done is None:
            raise Untraceable
        return done

    def taken(self, v: int, at: Index) -> Poly:
        if at.depends(self.probe):
            raise Untraceable
        return Poly.of(f"?taken{v}{at.at}")
