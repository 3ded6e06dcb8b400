"""Choice of the axis of a nest that is vectorised.

In: a `Nest` and the stored values. Out: an axis. By default it is the last one, along which stored values are
contiguous. If that has few elements or a run-time extent (the columns of `w @ x`), another axis may read and store
fewer vectors whose lanes are apart in memory. An element does not depend on the axis; a sum would, so a reduction is
always vectorised along the last axis.
"""

from __future__ import annotations

from acronumba.ir.spec import Dim
from acronumba.kernels.stages.graph import Symbolic, Untraceable, axis_of, stretch, through
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, reindex
from acronumba.kernels.stages.tasks import Nest, Stages

_NEVER = 1 << 30


def vector_axis(stages: Stages, nest: Nest, lanes: int) -> int | None:
    """Return the axis that vectors of so many lanes lie along; None of a single element."""
    space = nest.space
    real = [k for k, n in enumerate(space) if n != 1]
    if not real:
        return None
    *others, last = real
    size = space[last]
    if nest.reductions or not (isinstance(size, Dim) or size < lanes):
        return last
    wide = [k for k in reversed(others) if isinstance(n := space[k], int) and n >= lanes]
    return min((*wide, last), key=lambda axis: _apart(stages, nest, axis))  # of equal ones the first


def _apart(stages: Stages, nest: Nest, axis: int) -> int:
    """Return the number of vectors along an axis that are loaded or stored lane by lane."""
    names = [f"i{k}" for k in range(len(nest.space))]
    at = tuple(ZERO if n == 1 else Poly.of(x) for n, x in zip(nest.space, names, strict=True))
    here, lane = Index(nest.space, at), names[axis]
    places = Symbolic(dict(zip(names, nest.space, strict=True)), lane)
    try:
        read = {place for v in nest.stores for place in _reads(stages, nest, v, here, places)}
    except Untraceable:
        return _NEVER
    return sum(index.flat.slope(lane) not in (ZERO, ONE) for _, index in read | {(v, here) for v in nest.stores})


def _reads(stages: Stages, nest: Nest, v: int, here: Index, places: Symbolic) -> set[tuple[int, Index]]:
    """Return the values and indices that are loaded to compute an element of a value."""
    graph = stages.graph
    out: set[tuple[int, Index]] = set()
    seen: set[tuple[int, Index]] = set()
    todo = [(v, here)]
    while todo:
        u, index = todo.pop()
        if (u, index) in seen:
            continue
        seen.add((u, index))
        op = graph.op(u)
        if op is None or (stages.leaf(u) and u not in nest.stores):
            out.add((u, index))
        elif graph.kind(u) == "element":
            own = reindex(index, op.shape, places.split)
            for a in op.args:
                if count(graph.shape(a)) != ONE:
                    todo.append((a, stretch(places, own, graph.shape(a))))
        elif graph.kind(u) == "view":
            todo.append(through(places, graph, u, index))
            if op.op == "take":
                own, axis, shape = reindex(index, op.shape, places.split), axis_of(op), graph.shape(op.args[1])
                todo.append((op.args[1], Index(shape, own.at[axis : axis + len(shape)])))
    return out
