"""The steps of a tail: what follows a product, panel by panel, cut where a function of a function is computed.

In: the values of a tail. Out: `Step`s. `o * tanh(sigmoid(f) * c + sigmoid(i) * tanh(u))` is one long chain: a processor
that looks a few hundred instructions ahead finds in it, and in the next row's, too little that it can begin at once. So
all that waits for one function of exp, tanh, ... is computed for every row of a tile, then, in a loop of its own, all
that waits for two, and so on. What a later step needs of an earlier one is kept beside the sums of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import Symbolic, Untraceable, stretch, through
from acronumba.kernels.stages.index import ZERO, Index, Poly, reindex
from acronumba.kernels.stages.tasks import Stages
from acronumba.kernels.write.element import COST

LONG = 20  # of `COST`: a function whose result is worth a loop of its own

Place = tuple[int, Index]  # a value, and where in it


@dataclass(slots=True)
class Step:
    """A loop over rows."""

    kept: list[Place] = field(default_factory=list)  # computed for later steps; places are those of `column`
    done: list[int] = field(default_factory=list)  # values of the tail


def column(space: Sequence[Size]) -> tuple[Index, list[str]]:
    """Return the place that a tail is computed at, and the names of the places along its axes."""
    names = [f"i{k}" for k in range(len(space))]
    at = tuple(ZERO if s == 1 else Poly.of(x) for s, x in zip(space, names, strict=True))
    return Index(tuple(space), at), names


def steps_of(tail: Sequence[int], space: Sequence[Size], stages: Stages, dtype: str) -> list[Step]:
    """Cut a tail.

    Parameters
    ----------
    tail
        Values that are stored, in an order in which they can be computed.
    space
        Rows of a node and columns.
    stages
        Of the kernel.
    dtype
        Of the products: what is kept is of the same.
    """
    here, names = column(space)
    graph = stages.graph
    places = Symbolic(dict(zip(names, space, strict=True)))

    def under(v: int, index: Index) -> list[Place]:
        """Return what a value is computed from."""
        op = graph.op(v)
        if op is None or (stages.leaf(v) and (v not in tail or index != here)):
            return []
        kind = graph.kind(v)
        try:
            if kind == "view":
                return [through(places, graph, v, index)]
            if kind == "element":
                own = reindex(index, op.shape, places.split)
                return [
                    (a, index if graph.shape(a) == op.shape else stretch(places, own, graph.shape(a))) for a in op.args
                ]
        except Untraceable:  # computed where it is needed
            pass
        return []

    def long(v: int, index: Index) -> bool:
        op = graph.op(v)
        return (
            op is not None
            and COST.get(op.op, 0) >= LONG
            and op.dtype == dtype
            and index.depends(names[-1])
            and not any(s.startswith("?") for at in index.at for s in at.symbols)  # known to the code of one place only
            and not stages.leaf(v)
        )

    depth: dict[Place, int] = {}
    for v in tail:
        todo = [((v, here), False)]
        while todo:
            place, ready = todo.pop()
            if ready:
                waits = COST.get(op.op, 0) >= LONG if (op := graph.op(place[0])) is not None else False
                depth[place] = max((depth[x] for x in under(*place)), default=0) + waits
            elif place not in depth:
                todo.append((place, True))
                todo += [(x, False) for x in under(*place) if x not in depth]
    steps = [Step() for _ in range(max((depth[v, here] for v in tail), default=0))]
    if len(steps) < 2:
        return [Step(done=list(tail))]
    for v in tail:
        steps[max(depth[v, here], 1) - 1].done.append(v)
    kept: dict[Place, None] = {}  # in an order that does not depend on hashes
    roots: list[Place] = [(v, here) for v in tail]
    while roots:
        root = roots.pop()
        below = under(*root)
        seen: set[Place] = set()
        while below:
            place = below.pop()
            if place in seen or (place[0] in tail and depth[place] < depth[root]):
                continue
            seen.add(place)
            if long(*place) and depth[place] < depth[root]:
                if place not in kept:
                    kept[place] = None
                    roots.append(place)
            else:
                below += under(*place)
    for place in sorted(kept, key=lambda p: p[0]):
        steps[depth[place] - 1].kept.append(place)
    return [step for step in steps if step.kept or step.done]
