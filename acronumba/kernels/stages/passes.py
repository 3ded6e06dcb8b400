"""Passes: the products of a stage that are computed together, the calls of register tiles, and the layout of tables.

In: a `ProductStage`. Out: `Pass`es, and the layout of the table of left operands' rows. `kernels.write.products` writes
their code.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.emit.target import Target
from acronumba.emit.tree import Expr
from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import Place
from acronumba.kernels.stages.index import ZERO, Poly
from acronumba.kernels.stages.steps import Step, steps_of, touched_by
from acronumba.kernels.stages.tasks import ProductPart, ProductStage, Stages
from acronumba.kernels.tiles import narrow, panel_shape, widest
from acronumba.records import record
from acronumba.strategy import Strategy


def tile_shape(gates: Sequence[int], n: Size, target: Target, dtype: str, strategy: Strategy) -> tuple[int, int]:
    """Return the vectors per gate and the rows of tiles for calls of so many gates each."""
    wide = n if isinstance(n, int) else 1 << 20
    shapes = [panel_shape(g, wide, target, dtype, strategy) for g in gates]
    return min(s.q for s in shapes), min(s.rows for s in shapes)


@record(eq=False, frozen=False)
class Call:
    """One call of a register tile: the products that it computes for each of its rows.

    The products of a member have one left operand and lie side by side in the packed weight. Members have the same
    weights: the rows of their left operands lie side by side in the table of addresses, and so do their sums.
    """

    members: list[list[ProductPart]]

    @property
    def gates(self) -> int:
        return sum(part.gates for part in self.members[0])

    @property
    def lefts(self) -> tuple[tuple[int, ...], ...]:
        """The pieces of each member's left operand."""
        return tuple(parts[0].product.pieces for parts in self.members)


@record(eq=False, frozen=False)
class Pass:
    """Products of a stage that tiles compute together, panel by panel, with the tail on each panel."""

    q: int  # vectors per gate
    rows: int  # rows that one call works on; times `members` is the height of the tile
    members: int  # of every call
    calls: list[Call]
    tail: list[int]
    steps: list[Step]  # of the tail
    touched: list[Place]  # of operands and results, by the tail

    @property
    def vectors(self) -> int:
        """Number of vectors of one row of a tile: its sums, and the values that steps pass on."""
        return (sum(call.gates for call in self.calls) + sum(len(step.kept) for step in self.steps)) * self.q


Lefts = tuple[tuple[int, ...], ...]  # pieces of the left operand of each member


def passes_of(stage: ProductStage, stages: Stages, target: Target) -> list[Pass]:
    """Share out the products of a stage to passes and calls of tiles.

    Products are in one pass if a tail needs both, if they have one weight, or if they lie side by side: the others
    would only drive each other's panels out of the cache.
    """
    graph = stages.graph
    dtype, form = graph.dtype(stage.parts[0].product.value), stage.parts[0].product.form
    same: dict[object, list[list[ProductPart]]] = {}
    for parts in _side_by_side(stage, target, form, stages.strategy):
        sizes = tuple(graph.shape(piece)[-1] for piece in parts[0].product.pieces)
        same.setdefault((sizes, *((part.product.matrix, part.gates) for part in parts)), []).append(parts)
    groups = [({part.product.value for parts in members for part in parts}, [members]) for members in same.values()]
    for v in stage.tail:
        near = {v, *stages.reads[v]}
        met = [g for g in groups if not near.isdisjoint(g[0])] or groups[:1]
        if met:
            one = {v}.union(*(values for values, _ in met)), [members for _, lists in met for members in lists]
            groups = sorted([one, *(g for g in groups if g not in met)], key=lambda g: min(g[0]))
    out = []
    for values, lists in groups:
        calls = [Call(members) for members in lists]
        q, rows = tile_shape([call.gates for call in calls], stage.n, target, form, stages.strategy)
        many = len(calls[0].members)
        if many > rows or any(len(call.members) != many for call in calls):
            calls, many = [Call([parts]) for call in calls for parts in call.members], 1
        tail = [v for v in stage.tail if v in values]
        steps, touched = steps_of(tail, stage.space, stages, dtype), touched_by(tail, stage.space, stages, dtype)
        out.append(Pass(q, rows // many, many, calls, tail, steps, touched))
    return out


def table_of(passes: Sequence[Pass], rows: Poly) -> tuple[dict[Lefts, tuple[Poly, int]], Poly, int]:
    """Lay out the addresses of left operands, `rows` of each in a block.

    Returns a map from left operands of a call to the offset of their addresses in the table, in bytes, and the offset
    of their lengths among those of pieces; and the ends of both.
    """
    out: dict[Lefts, tuple[Poly, int]] = {}
    end, pieces = ZERO, 0
    for one in passes:
        for call in one.calls:
            if call.lefts not in out:
                out[call.lefts] = end, pieces
                end = end + rows * (8 * one.members * len(call.lefts[0]))
                pieces += len(call.lefts[0])
    return out, end, pieces


def _side_by_side(stage: ProductStage, target: Target, form: str, strategy: Strategy) -> list[list[ProductPart]]:
    """Put products with one left operand next to each other where each alone leaves a tile idle."""
    left: dict[tuple[int, ...], list[ProductPart]] = {}
    out = []
    for part in stage.parts:
        if part.gates < widest(target) and narrow(part.gates, stage.n, target, form, strategy):
            left.setdefault(part.product.pieces, []).append(part)
        else:
            out.append([part])
    for parts in left.values():
        together: list[ProductPart] = []
        for part in parts:
            if together and sum(p.gates for p in together) + part.gates > widest(target):
                out.append(together)
                together = []
            together.append(part)
        out.append(together)
    return out


def panels_of(one: Pass, n: int, lanes: int) -> int:
    """Return the number of panels of a pass over `n` columns."""
    return -(-n // (one.q * lanes))


def last_vectors(q: int, gates: int, n: int, lanes: int, form: str) -> int:
    """Return the vectors of a row of the last panel's sums that a tile has to compute.

    Those without columns come last if there is one gate. Sums that are looked up are computed for whole panels.
    """
    return (-(-n // lanes) - 1) % q + 1 if gates == 1 and form != "lookups" else gates * q


def tiles_of(one: Pass, rows: Expr) -> Expr:
    """Return the number of tiles that `rows` rows take."""
    return (rows + (one.rows - 1)) // one.rows
