"""Bands: the columns of a row that a mask leaves, where the mask is known from the places alone.

In: a stage in tiles. Out: a `Band`, or nothing. A causal mask says `j <= i`: of the first rows of a tile of attention
only the first columns count. `where(mask, x, c)` is `c` elsewhere, and what is computed from it is one number of the
row there: 0 after softmax, as a rule. Then columns beyond the band need not be computed: a row's maximum takes `c` in,
and sums and products leave out what is 0. Whether it is 0 is looked at when the kernel runs: a row that the mask hides
entirely is computed as a whole, with its tile. What is left out of a sum is +0: bits differ from those of the whole row
in the sign of a zero alone, where all that is added beside it is too small for any other number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acronumba.ir.spec import Operand, Size
from acronumba.kernels.stages.choose import Chooser
from acronumba.kernels.stages.graph import Symbolic, Untraceable, arguments
from acronumba.kernels.stages.index import ZERO, Index, Poly
from acronumba.kernels.stages.tasks import Band

SIGNS = {"le": (-1, 0), "lt": (-1, -1), "ge": (1, 0), "gt": (1, -1)}  # x op y: sign * (x - y) + offset is not negative
COLUMN = "j"


def find_band(
    chosen: Chooser, reads: Sequence[Mapping[int, bool]], lead: Sequence[Size], size: Size, tasks: Sequence[int]
) -> Band | None:
    """Return the band of a stage.

    Parameters
    ----------
    chosen
        What the kernel stores.
    reads
        Of every value: the stored values read, and whether only at the same place.
    lead
        Of the stage.
    size
        The columns of its first product.
    tasks
        What the stage stores, in order, beginning with that product.
    """
    search = _Search(chosen, lead, size, tasks)
    return search.run() if all(search.in_place(v, reads[v]) for v in tasks) else None


class _Search:
    """What `find_band` knows."""

    def __init__(self, chosen: Chooser, lead: Sequence[Size], size: Size, tasks: Sequence[int]) -> None:
        self.chosen, self.graph, self.tasks = chosen, chosen.graph, tasks
        self.shape = (*lead, size)
        self.names = [*(f"i{k}" for k in range(len(lead))), COLUMN]
        self.here = Index(
            self.shape, tuple(ZERO if n == 1 else Poly.of(x) for n, x in zip(self.shape, self.names, strict=True))
        )
        self.places = Symbolic(dict(zip(self.names, self.shape, strict=True)))
        self.outside: set[int] = set()  # values that are one number of the row outside
        self.masks: dict[int, tuple[Poly, ...]] = {}

    def in_place(self, v: int, reads: Mapping[int, bool]) -> bool:
        """Whether a column of a task reads of rows of columns that are stored in the stage its own column only."""
        whole = {u for u, same in reads.items() if not same and u in self.tasks and self.graph.shape(u) == self.shape}
        product = self.chosen.products.get(v)
        return not whole or (product is not None and product.pieces == (product.left,) and whole == {product.left})

    def run(self) -> Band | None:
        zero: set[int] = set()
        for v in self.tasks[1:]:
            op = self.graph.op(v)
            assert op is not None
            product = self.chosen.products.get(v)
            if self.graph.kind(v) == "reduce" and self.graph.shape(op.args[0]) == self.shape:
                if op.op not in ("max", "min", "sum") or op.attrs != ((len(self.shape) - 1,),):
                    return None
                if not self.number(op.args[0]):
                    return None
                if op.op == "sum":
                    zero.add(v)
            elif product is not None and product.pieces == (product.left,) and product.left in self.outside:
                zero.add(product.left)
            elif product is None and op.shape == self.shape and self.number(v):
                self.outside.add(v)
            elif any(self.graph.shape(u) == self.shape for u in self.chosen.below(v) & {*self.tasks}):
                return None
        if len(self.masks) != 1:
            return None
        ((mask, conditions),) = self.masks.items()
        return Band(mask, conditions, self.names[-2], COLUMN, frozenset(self.outside), frozenset(zero))

    def number(self, v: int) -> bool:
        """Whether a value of the stage's shape is one number of the row outside of the band."""
        todo = [(v, self.here)]
        while todo:
            u, index = todo.pop()
            if not index.depends(COLUMN) or u in self.outside:
                continue
            op = self.graph.op(u)
            if op is None or (u != v and self.chosen.leaf(u)) or self.graph.kind(u) not in ("element", "view"):
                return False
            try:
                found = arguments(self.places, self.graph, u, index)
            except Untraceable:
                return False
            if op.op == "where" and index == self.here and (conditions := self.conditions(*found[0])):
                self.masks[op.args[0]] = conditions
                found = found[2:]
            todo += found
        return True

    def conditions(self, v: int, index: Index) -> tuple[Poly, ...]:
        """Return numbers that are not negative wherever a mask is true."""
        op = self.graph.op(v)
        if op is None or self.chosen.leaf(v):
            return ()
        try:
            found = arguments(self.places, self.graph, v, index)
        except Untraceable:
            return ()
        if op.op == "and" and op.dtype == "bool":
            return tuple(c for a in found for c in self.conditions(*a))
        if self.graph.kind(v) == "view":
            return self.conditions(*found[0])
        if op.op not in SIGNS:
            return ()
        x, y = (self.affine(*a) for a in found)
        if x is None or y is None:
            return ()
        sign, offset = SIGNS[op.op]
        out = (x - y) * sign + offset
        row = self.names[-2]
        slopes = [out.slope(row), out.slope(COLUMN)]
        known = [s.constant if s is not None else None for s in slopes]
        rest = out.put(row, ZERO).put(COLUMN, ZERO)
        fits = None not in known and abs(known[1] or 0) == 1 and not rest.symbols & {*self.names}
        return (out,) if fits else ()

    def affine(self, v: int, index: Index) -> Poly | None:
        """Return an integer as a polynomial of its place, of extents and of numbers that are arguments."""
        op = self.graph.op(v)
        if op is None:
            source = self.graph.source(v)
            assert isinstance(source, Operand)
            return Poly.of(f"arg{v}") if source.kind == "int" else None
        if self.chosen.leaf(v) or not op.dtype.startswith("int64"):
            return None
        if op.op == "const":
            return Poly.of(int(op.attrs[0]))  # type: ignore[call-overload]
        if op.op == "iota":
            return index.flat
        try:
            found = arguments(self.places, self.graph, v, index)
        except Untraceable:
            return None
        parts = [self.affine(*a) for a in found]
        match op.op, parts:
            case ("add", [Poly() as x, Poly() as y]):
                return x + y
            case ("sub", [Poly() as x, Poly() as y]):
                return x - y
            case ("cast", [Poly() as x]):
                return x
            case (_, [Poly() as x]) if self.graph.kind(v) == "view":
                return x
        return None
