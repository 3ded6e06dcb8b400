"""Shares of a node's tasks: several warps do a node of much work.

In: the tasks of a stage. Out: how many warps share them; each takes a part of the outermost loop of every task.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.emit.simt import WARP
from acronumba.kernels.stages.index import count
from acronumba.kernels.stages.tasks import Nest, Single, Stages

SHARE = 256  # elements of a node that are worth a warp, or twice as many multiplications


def elements_of(stages: Stages, item: Nest | Single) -> int | None:
    """Return the work of a task whose outermost loop can be shared out, in elements.

    None for other tasks, and if it is not known.
    """
    if isinstance(item, Nest):
        outer = [n for k, n in enumerate(item.space) if k not in item.reduced and n != 1]
        size = count(item.space).constant
        return size * len(item.values) if outer and size else None
    product = stages.products.get(item.value) if item.kind == "product" else None
    if product is None or product.how not in ("lanes", "transposed") or not stages.graph.shape(product.value):
        return None
    made, terms = count(stages.graph.shape(product.value)).constant, count(stages.graph.shape(product.right)).constant
    return made * terms // 2 if made and terms else None


def shares_of(stages: Stages, items: Sequence[Nest | Single]) -> int:
    """Return how many warps share the tasks of a node, if no task needs another's result."""
    made = {v for item in items for v in item.values}
    if any(u in made and u not in item.values for item in items for v in item.values for u in stages.reads[v]):
        return 1
    if any(isinstance(item, Single) and item.kind in ("check", "own") for item in items):
        return 1
    work = max((elements_of(stages, item) or 0 for item in items), default=0)
    return min(max(work // SHARE, 1), WARP)
