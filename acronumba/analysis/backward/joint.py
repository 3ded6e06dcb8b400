"""The joint graph of a kernel: the values of its specification, then values computed from adjoints.

In: a `KernelSpec`. Out: numbered values, the specification's first; a builder for the rules of `ir.vjp` adds more.
Equal operations are one value. Adjoints that are zero except for adjacent pieces are concatenated instead of added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acronumba.errors import Loc
from acronumba.ir.ops import Attrs
from acronumba.ir.spec import KernelSpec
from acronumba.ir.vjp import Builder, Sizes
from acronumba.records import record


@record()
class Node:
    """A value: an operand of the specification, the adjoint of a result ("adjoint"), or an operation."""

    op: str
    args: tuple[int, ...]
    attrs: Attrs
    dtype: str
    shape: Sizes

    def reads(self) -> Iterator[int]:
        """Yield the numbers of the values that the node reads, as arguments or as host numbers in static arguments."""
        yield from self.args
        yield from numbers_in(self.attrs)


def numbers_in(attr: object) -> Iterator[int]:
    """Yield k for each ("value", k) in static arguments."""
    match attr:
        case ("value", int(k)):
            yield k
        case tuple():
            for inner in attr:
                yield from numbers_in(inner)


class Joint(Builder):
    """The numbered values of a joint graph.

    Attributes
    ----------
    nodes : list of Node
    operands : int
        Number of operands of the specification.
    forward : int
        Number of values of the specification.
    names, locs
        Maps from values to their names and source positions, where known.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.nodes = [Node(o.kind, (), (), o.dtype, o.shape) for o in spec.operands]
        self.operands = len(self.nodes)
        self._known: dict[object, int] = {}
        self.locs: dict[int, Loc] = {}
        self.names: dict[int, str] = {}
        for op in spec.body:
            k = len(self.nodes)
            self.nodes.append(Node(op.op, op.args, op.attrs, op.dtype, op.shape))
            self._known.setdefault(_key(self.nodes[k]), k)
            self.locs[k], self.names[k] = op.loc, op.name
        self.forward = len(self.nodes)
        self.loc = spec.body[0].loc  # source position of added values

    def adjoint(self, number: int, of: int) -> int:
        """Return a new value: the adjoint of result `number`, which is a value."""
        self.nodes.append(Node("adjoint", (), (number,), self.dtype(of), self.shape(of)))
        return len(self.nodes) - 1

    # ---- the interface of the rules

    def op(self, name: str, args: Sequence[int], shape: Sizes, dtype: str, attrs: Attrs = ()) -> int:
        simpler = self._simpler(name, args, shape)
        if simpler is not None:
            return simpler
        node = Node(name, tuple(args), attrs, dtype, shape)
        key = _key(node)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.locs[len(self.nodes)] = self.loc
            self.nodes.append(node)
        return self._known[key]

    def shape(self, x: int) -> Sizes:
        return self.nodes[x].shape

    def dtype(self, x: int) -> str:
        return self.nodes[x].dtype

    def number_of(self, attr: object) -> int:
        match attr:
            case ("value", int(k)):
                return k
        return super().number_of(attr)  # type: ignore[no-any-return]

    def _simpler(self, name: str, args: Sequence[int], shape: Sizes) -> int | None:
        """Return a value that the result of an operation is: two negations, a factor of 1, two reshapes."""
        if not args:
            return None
        x = self.nodes[args[0]]
        if name == "neg" and x.op == "neg":
            return x.args[0]
        if name == "mul":
            for one, other in (args, args[::-1]):
                if self.constant(one) == 1 and self.shape(other) == shape:
                    return other
        if name == "reshape" and x.op == "reshape":
            return self.reshape(x.args[0], shape)  # type: ignore[no-any-return]
        return None

    def constant(self, x: int) -> object:
        """Return the number that all elements of a value are, or None."""
        node = self.nodes[x]
        while node.op in ("broadcast", "reshape"):
            node = self.nodes[node.args[0]]
        return node.attrs[0] if node.op == "const" else None

    # ---- sums of adjoints

    def sum_of(self, gs: Sequence[int], of: int) -> int:
        """Return the sum of adjoints of a value."""
        self.broad = self.shape(of)
        out: list[int] = []
        for g in gs:
            for k, other in enumerate(out):
                merged = self._side_by_side(other, g)
                if merged is not None:
                    out[k] = merged
                    break
            else:
                out.append(g)
        total = out[0]
        for g in out[1:]:
            total = self.add(total, g)
        return total

    def _pieces(self, g: int) -> tuple[int, list[tuple[int, int, int]]] | None:
        """Return the axis of a concatenation, and of each piece that is not zero its start, extent and value."""
        node = self.nodes[g]
        if node.op != "concat":
            return None
        (axis,) = node.attrs
        out, at = [], 0
        for a in node.args:
            n = self.shape(a)[axis]
            if not isinstance(n, int):
                return None
            if self.constant(a) != 0:
                out.append((at, n, a))
            at += n
        return axis, out

    def _side_by_side(self, g: int, h: int) -> int | None:
        """Return the sum of two adjoints as one concatenation, if their pieces do not overlap."""
        found = self._pieces(g), self._pieces(h)
        if found[0] is None or found[1] is None or found[0][0] != found[1][0]:
            return None
        axis, shape = found[0][0], self.shape(g)
        end = shape[axis]
        assert isinstance(end, int)
        parts: list[int] = []
        at = 0

        def gap(n: int) -> None:
            if n:
                parts.append(self.full(0.0, (*shape[:axis], n, *shape[axis + 1 :]), self.dtype(g)))

        for start, n, value in sorted(found[0][1] + found[1][1]):
            if start < at:
                return None
            gap(start - at)
            parts.append(value)
            at = start + n
        gap(end - at)
        return self.op("concat", parts, shape, self.dtype(g), (axis,))


def _key(node: Node) -> object:
    return node.op, node.args, repr(node.attrs), node.dtype, node.shape
