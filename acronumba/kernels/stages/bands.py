"""Bands: the columns of a row that a mask leaves, if the mask depends on row and column numbers alone.

In: a stage in tiles. Out: a `Band`, or None. A causal mask is `j <= i`: in the first rows of a tile of attention only
the first columns count. `where(mask, x, c)` is `c` elsewhere, and a value computed from it is one number of the row
there: usually 0 after softmax. Then columns outside of the band need not be computed: a row's maximum includes `c`,
and sums and products leave out the zeros. Whether they are 0 is tested when the kernel runs: a row that the mask hides
entirely is computed as a whole, with its tile. A sum leaves out only terms +0, and no sum of a band is -0: so bits
differ from a sum over the whole row only in the sign of a zero, if the sum underflows to it, and do not depend on the
number of terms left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acronumba.ir.ops import SCALARS
from acronumba.ir.spec import KernelOp, Operand, Size
from acronumba.kernels.stages.choose import Chooser
from acronumba.kernels.stages.graph import Place, Symbolic, Untraceable, arguments
from acronumba.kernels.stages.index import ZERO, Index, Poly
from acronumba.kernels.stages.tasks import Band

SIGNS = {"le": (-1, 0), "lt": (-1, -1), "ge": (1, 0), "gt": (1, -1)}  # x op y: sign * (x - y) + offset is not negative
COLUMN = "j"


def find_band(
    chosen: Chooser, reads: Sequence[Mapping[int, bool]], lead: Sequence[Size], size: Size, tasks: Sequence[int]
) -> Band | None:
    """Return the band of a stage, or None.

    Parameters
    ----------
    chosen
        The stored values of the kernel.
    reads
        Per value: map from the stored values that it reads to whether it reads them only at its own index.
    lead
        Lead of the stage.
    size
        Number of columns of its first product.
    tasks
        Values that the stage stores, in order, beginning with that product.
    """
    search = _Search(chosen, lead, size, tasks)
    return search.run() if all(search.in_place(v, reads[v]) for v in tasks) else None


class _Search:
    """State of `find_band`."""

    def __init__(self, chosen: Chooser, lead: Sequence[Size], size: Size, tasks: Sequence[int]) -> None:
        self.chosen, self.graph, self.tasks = chosen, chosen.graph, tasks
        self.shape = (*lead, size)
        self.names = [*(f"i{k}" for k in range(len(lead))), COLUMN]
        self.here = Index(
            self.shape, tuple(ZERO if n == 1 else Poly.of(x) for n, x in zip(self.shape, self.names, strict=True))
        )
        self.places = Symbolic(dict(zip(self.names, self.shape, strict=True)))
        self.outside: set[int] = set()  # values that are one number of the row outside
        # by mask and the argument of `where` that stands outside
        self.masks: dict[tuple[int, int], tuple[Poly, ...]] = {}

    def in_place(self, v: int, reads: Mapping[int, bool]) -> bool:
        """Whether a column of a task reads only the same column of rows that the stage stores."""
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
                if not self.number(op.args[0], self.here):
                    return None
                if op.op == "sum":
                    zero.add(v)
            elif product is not None and product.pieces == (product.left,) and product.left in self.outside:
                zero.add(product.left)
            elif product is None and op.shape == self.shape and self.number(v, self.here):
                self.outside.add(v)
            elif any(self.graph.shape(u) == self.shape for u in self.chosen.below(v) & {*self.tasks}):
                return None
        if len(self.masks) != 1:
            return None
        (((mask, beyond), conditions),) = self.masks.items()
        return Band(mask, beyond, conditions, self.names[-2], COLUMN, frozenset(self.outside), frozenset(zero))

    def number(self, v: int, index: Index) -> bool:
        """Whether a value is one number of the row outside of the band."""
        todo = [(v, index)]
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
            todo += [] if op.op == "where" and index == self.here and self.masked(op, found) else found
        return True

    def masked(self, op: KernelOp, found: Sequence[Place]) -> bool:
        """Whether a `where` chooses a number of the row outside of a band; note the band."""
        for beyond in (2, 1):
            conditions = self.conditions(*found[0], beyond == 2)
            if conditions and self.number(*found[beyond]):
                self.masks[op.args[0], beyond] = conditions
                return True
        return False

    def conditions(self, v: int, index: Index, holds: bool) -> tuple[Poly, ...]:
        """Return polynomials that are >= 0 wherever the mask `v` is equal to `holds`; () if they are not known."""
        op = self.graph.op(v)
        if op is None or self.chosen.leaf(v):
            return ()
        try:
            found = arguments(self.places, self.graph, v, index)
        except Untraceable:
            return ()
        if op.op == ("and" if holds else "or") and op.dtype == "bool":
            return tuple(c for a in found for c in self.conditions(*a, holds))
        if op.op == "not" and op.dtype == "bool":
            return self.conditions(*found[0], not holds)
        if self.graph.kind(v) == "view":
            return self.conditions(*found[0], holds)
        if op.dtype == "bool" and (chosen := self.choice(op, found)) is not None:
            mask, *results = chosen
            return self.conditions(*mask, holds == results[0]) if results[0] != results[1] else ()
        if op.op not in SIGNS:
            return ()
        x, y = (self.affine(*a) for a in found)
        if x is None or y is None:
            return ()
        sign, offset = SIGNS[op.op]
        out = (x - y) * sign + offset
        out = out if holds else out * -1 - 1
        row = self.names[-2]
        slopes = [out.slope(row), out.slope(COLUMN)]
        known = [s.constant if s is not None else None for s in slopes]
        rest = out.put(row, ZERO).put(COLUMN, ZERO)
        fits = None not in known and abs(known[1] or 0) == 1 and not rest.symbols & {*self.names}
        return (out,) if fits else ()

    def choice(self, op: KernelOp, found: Sequence[Place]) -> tuple[Place, bool, bool] | None:
        """Return the mask that a bool depends on, and the bool where the mask is true and where it is false.

        `np.tril(np.ones((n, n))) == 0` compares one of two constants with a third.
        """
        if op.op == "cast":
            arms = self.arms(*found[0])
            return None if arms is None else (arms[0], arms[1] != 0, arms[2] != 0)
        if op.op == "where":
            yes, no = self.literal(*found[1]), self.literal(*found[2])
            return None if yes is None or no is None else (found[0], yes != 0, no != 0)
        if op.op not in SIGNS and op.op not in ("eq", "ne"):
            return None
        compare = SCALARS[op.op].reference
        x, y = found
        for one, other, turned in ((x, y, False), (y, x, True)):
            arms, number = self.arms(*one), self.literal(*other)
            if arms is not None and number is not None:
                mask, *values = arms
                results = [compare(number, value) if turned else compare(value, number) for value in values]
                return mask, results[0], results[1]
        return None

    def arms(self, v: int, index: Index) -> tuple[Place, float, float] | None:
        """Return the mask of a value that is one of two constants, and these."""
        v, index = self.seen_through(v, index)
        op = self.graph.op(v)
        if op is None or self.chosen.leaf(v) or op.op not in ("where", "cast"):
            return None
        try:
            mask, *rest = arguments(self.places, self.graph, v, index)
        except Untraceable:
            return None
        if op.op == "cast":
            return (mask, 1.0, 0.0) if self.graph.dtype(op.args[0]) == "bool" else None
        yes, no = (self.literal(*arm) for arm in rest)
        return None if yes is None or no is None else (mask, yes, no)

    def seen_through(self, v: int, index: Index) -> Place:
        """Follow views, and casts between numbers, to the value and index below."""
        while (op := self.graph.op(v)) is not None and not self.chosen.leaf(v):
            truth = "bool" in (op.dtype, self.graph.dtype(op.args[0]) if op.args else "bool")
            if self.graph.kind(v) != "view" and (op.op != "cast" or truth):
                break
            try:
                ((v, index),) = arguments(self.places, self.graph, v, index)[:1]
            except Untraceable:
                break
        return v, index

    def literal(self, v: int, index: Index) -> float | None:
        """Return the number that a constant is, if all types have it."""
        op = self.graph.op(self.seen_through(v, index)[0])
        if op is not None and op.op == "cast" and op.dtype == "bool":
            number = self.literal(op.args[0], index)
            return None if number is None else float(number != 0)
        if op is None or op.op != "const":
            return None
        number = float(op.attrs[0])  # type: ignore[arg-type]
        return number if number.is_integer() and 0 <= number < 128 else None

    def affine(self, v: int, index: Index) -> Poly | None:
        """Return an integer as a polynomial of its index, of extents and of operands that are numbers, or None."""
        op = self.graph.op(v)
        if op is None:
            source = self.graph.source(v)
            assert isinstance(source, Operand)
            number = source.kind == "int" or (source.dtype, source.shape) == ("int64", ())
            return Poly.of(f"arg{v}") if number else None
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
