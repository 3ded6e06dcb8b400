"""Levels of a kernel's functions: those of one level do not depend on each other.

In: what each function reads and computes, in the order in which they run when they are launched one by one. Out: their
levels. The kernel that runs whole mini-batches (`kernels.cuda.persistent`) waits between levels only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acronumba.kernels.stages.passes import Pass
from acronumba.kernels.stages.tasks import Nest, ProductStage, RowStage, Single, Stages
from acronumba.records import record


@record()
class Work:
    """The stored values that a function reads, and those that it computes."""

    made: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    fails: bool = False  # whether it may fail nodes: such functions go one after the other
    whole: bool = False  # whether all later functions depend on it

    @staticmethod
    def all() -> Work:
        """Return the work of a function that all others depend on."""
        return Work(whole=True)

    @staticmethod
    def of_pass(stages: Stages, stage: ProductStage, one: Pass) -> Work:
        """Return the work of products, with what is done before and behind them."""
        made = {part.product.value for call in one.calls for parts in call.members for part in parts} | {*one.tail}
        beside = Work.of_items(stages, [*stage.front, *stage.end])
        reads = (_reads(stages, made) | beside.reads) - beside.made
        return Work(frozenset(made) | beside.made, reads, beside.fails)

    @staticmethod
    def of_rows(stages: Stages, stage: RowStage) -> Work:
        """Return the work of tasks done node by node, or tile by tile."""
        own = Work.of_items(stages, stage.items)
        made = {*stage.values, *own.made, *stage.views}
        return Work(frozenset(made), own.reads | _reads(stages, made), own.fails)

    @staticmethod
    def of_items(stages: Stages, items: Sequence[Nest | Single]) -> Work:
        """Return the work of tasks."""
        made = {v for item in items for v in item.values}
        singles = [item for item in items if not isinstance(item, Nest) and item.kind in ("check", "own")]
        checked = {a for item in singles if item.kind == "check" for a in stages.graph.checked(item.value)}
        reads = _reads(stages, made) | (checked & stages.stored) | _reads(stages, checked)
        return Work(frozenset(made), reads, bool(singles))


def _reads(stages: Stages, values: Iterable[int]) -> frozenset[int]:
    return frozenset(u for v in values for u in stages.reads[v])


def levels(works: Sequence[Work]) -> list[int]:
    """Return the level of each function."""
    out: list[int] = []
    for work in works:
        before = [
            level
            for level, other in zip(out, works, strict=False)
            if other.whole or not other.made.isdisjoint(work.reads) or (other.fails and work.fails)
        ]
        out.append(max(before, default=-1) + 1)
    return out
