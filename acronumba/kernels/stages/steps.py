"""The steps of a tail: the tail of a product, cut by the depth of nested functions.

In: the values of a tail. Out: `Step`s. `o * tanh(sigmoid(f) * c + sigmoid(i) * tanh(u))` is one long chain: a CPU that
looks a few hundred instructions ahead finds in it, and in the next row's chain, too few independent instructions. So
the values behind one function such as exp or tanh are computed for every row of a tile, then, in a separate loop, the
values behind two, and so on. Values that a later step needs of an earlier one are stored beside the product's sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import Place, Symbolic, Untraceable, arguments
from acronumba.kernels.stages.index import ZERO, Index, Poly
from acronumba.kernels.stages.tasks import Stages
from acronumba.records import record


@record(frozen=False)
class Step:
    """A loop over rows."""

    kept: list[Place] = field(default_factory=list)  # computed for later steps; places are those of `column`
    done: list[int] = field(default_factory=list)  # values of the tail


def column(space: Sequence[Size]) -> tuple[Index, list[str]]:
    """Return the symbolic index of a tail's element, and the symbols of its axes."""
    names = [f"i{k}" for k in range(len(space))]
    at = tuple(ZERO if s == 1 else Poly.of(x) for s, x in zip(space, names, strict=True))
    return Index(tuple(space), at), names


def steps_of(tail: Sequence[int], space: Sequence[Size], stages: Stages, dtype: str) -> list[Step]:
    """Cut a tail into steps.

    Parameters
    ----------
    tail
        Stored values, in topological order.
    space
        Rows of a node and columns.
    stages
        Stages of the kernel.
    dtype
        Dtype of the products, which values passed between steps must have too.
    """
    return _Cut(tail, space, stages, dtype).run()


def touched_by(tail: Sequence[int], space: Sequence[Size], stages: Stages, dtype: str) -> list[Place]:
    """Return the elements that a tail reads of operands at each column, and those of the results that it stores."""
    return _Cut(tail, space, stages, dtype).touched()


class _Cut:
    """State of `steps_of` for one tail."""

    def __init__(self, tail: Sequence[int], space: Sequence[Size], stages: Stages, dtype: str) -> None:
        self.tail, self.stages, self.dtype = tail, stages, dtype
        self.graph = stages.graph
        self.here, self.names = column(space)
        self.places = Symbolic(dict(zip(self.names, space, strict=True)))
        self.depth: dict[Place, int] = {}  # functions one of another, up to and with a place

    def run(self) -> list[Step]:
        """Return the steps that are not empty."""
        for v in self.tail:
            self._measure((v, self.here))
        depth, here = self.depth, self.here
        steps = [Step() for _ in range(max((depth[v, here] for v in self.tail), default=0))]
        if len(steps) < 2:
            return [Step(done=list(self.tail))]
        for v in self.tail:
            steps[max(depth[v, here], 1) - 1].done.append(v)
        for place in sorted(self._kept(), key=lambda p: p[0]):
            steps[depth[place] - 1].kept.append(place)
        return [step for step in steps if step.kept or step.done]

    def touched(self) -> list[Place]:
        """Return the operands and results, with their indices, that vary with the column."""
        spec = self.graph.spec
        out: list[Place] = [(v, self.here) for v in self.tail if v in spec.results]
        todo: list[Place] = [(v, self.here) for v in self.tail]
        seen = {*todo}
        while todo:
            v, index = todo.pop()
            op = self.graph.op(v)
            if op is None and spec.operands[v].kind == "tensor" and index.depends(self.names[-1]):
                out.append((v, index))
            below = [place for place in self._under(v, index) if place not in seen]
            seen.update(below)
            todo += below
        return [p for p in out if not any(s.startswith("?") for at in p[1].at for s in at.symbols)]

    def _under(self, v: int, index: Index) -> list[Place]:
        """Return the arguments that a value is computed from, with their indices; () if it is loaded."""
        graph = self.graph
        op = graph.op(v)
        if op is None or (self.stages.leaf(v) and (v not in self.tail or index != self.here)):
            return []
        try:
            return arguments(self.places, graph, v, index)
        except Untraceable:  # computed where it is needed
            return []

    def _long(self, v: int, index: Index) -> bool:
        op = self.graph.op(v)
        return (
            op is not None
            and TENSORS[op.op].cost >= self.stages.strategy.long
            and op.dtype == self.dtype
            and index.depends(self.names[-1])
            and not any(s.startswith("?") for at in index.at for s in at.symbols)  # known to the code of one place only
            and not self.stages.leaf(v)
        )

    def _measure(self, root: Place) -> None:
        """Fill in `depth` of a value at an index, and of all that it is computed from."""
        depth = self.depth
        todo = [(root, False)]
        while todo:
            place, ready = todo.pop()
            if ready:
                op = self.graph.op(place[0])
                waits = op is not None and TENSORS[op.op].cost >= self.stages.strategy.long
                depth[place] = max((depth[x] for x in self._under(*place)), default=0) + waits
            elif place not in depth:
                todo.append((place, True))
                todo += [(x, False) for x in self._under(*place) if x not in depth]

    def _kept(self) -> dict[Place, None]:
        """Return the values that later steps need of earlier ones, in an order that does not depend on hashes."""
        depth = self.depth
        kept: dict[Place, None] = {}
        roots: list[Place] = [(v, self.here) for v in self.tail]
        while roots:
            root = roots.pop()
            below = self._under(*root)
            seen: set[Place] = set()
            while below:
                place = below.pop()
                if place in seen or (place[0] in self.tail and depth[place] < depth[root]):
                    continue
                seen.add(place)
                if self._long(*place) and depth[place] < depth[root]:
                    if place not in kept:
                        kept[place] = None
                        roots.append(place)
                else:
                    below += self._under(*place)
        return kept
