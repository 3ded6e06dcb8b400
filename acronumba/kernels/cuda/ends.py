"""Fronts and ends: what a GPU does before and behind a product with a shared weight, in the same function.

In: the stages of a kernel. Out: stages of rows have become parts of stages of products, where that is worth it:

    tail    nests over the space of a panel that read nothing of the kernel's own
    front   what makes rows of a left operand: a block does it for the rows of its tile, so blocks with other panels do
            it again. That pays for products of a node's own matrices, of which a batch has few rows, and for
            element-wise operations on rows that are much less work than the products
    end     what reads whole rows of the result, if one block has them: then there is one panel

Each is one function less to launch, and one level less that blocks wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acronumba.ir.ops import TENSORS
from acronumba.kernels.stages.index import count
from acronumba.kernels.stages.tasks import Nest, ProductStage, RowStage, Single, Stages

Item = Nest | Single
CHEAP = 4  # times as many multiplications of a panel as a front has operations
COLUMNS = 16  # of a panel, at least


class Ends:
    """Moves tasks into stages of products.

    Parameters
    ----------
    stages
        The stages, which change.
    alone
        Tells whether one block has whole rows of a stage's products.
    """

    def __init__(self, stages: Stages, alone: Callable[[Stages, ProductStage], bool]) -> None:
        self.stages, self.graph, self.alone = stages, stages.graph, alone
        self.list = stages.stages

    def run(self) -> None:
        """Move what can be moved."""
        for number in range(len(self.list)):
            stage = self.list[number]
            if isinstance(stage, ProductStage) and stage.n and self.is_float(stage):
                for near in (number - 1, number + 1):
                    if (rows := self.rows(near)) is not None:
                        self.into_tail(rows, stage)
                if number and not stage.lead:
                    self.into_front(number - 1, stage)
                if not stage.lead:
                    self.into_end(stage, number + 1)
        self.list[:] = [s for s in self.list if isinstance(s, ProductStage) or s.items]

    def is_float(self, stage: ProductStage) -> bool:
        return self.graph.dtype(stage.parts[0].product.value) == "float32"

    def rows(self, number: int) -> RowStage | None:
        """Return a stage of rows that is done node by node."""
        stage = self.list[number] if 0 <= number < len(self.list) else None
        return stage if isinstance(stage, RowStage) and not stage.lead else None

    def reads(self, item: Item) -> set[int]:
        """Return the stored values that a task reads of others."""
        found = {u for v in item.values for u in self.stages.reads[v]} - {*item.values}
        if isinstance(item, Single) and item.kind == "check":
            checked = self.graph.checked(item.value)
            found |= {u for a in checked for u in ([a] if a in self.stages.stored else self.stages.reads[a])}
        return found

    def readers(self, values: set[int], but: Sequence[Item]) -> set[int]:
        """Return the stored values, other than those of some tasks, that are computed from given ones."""
        own = {v for item in but for v in item.values}
        return {v for v in self.stages.stored if v not in own and not values.isdisjoint(self.stages.reads[v])}

    # ---- tails

    def into_tail(self, rows: RowStage, stage: ProductStage) -> None:
        """Move nests that are independent of the products."""
        if rows.grouped is not None:
            return
        for item in [i for i in rows.items if isinstance(i, Nest) and not i.reductions and i.space == stage.space]:
            if not self.reads(item) and not self.readers({*item.values}, [item]) and not self.checked(item.values):
                rows.items.remove(item)
                stage.tail.extend(item.values)

    def checked(self, values: Sequence[int]) -> bool:
        """Whether a check reads one of some values."""
        among = [i for s in self.list for i in (s.items if isinstance(s, RowStage) else s.end)]
        checks = [i for i in among if isinstance(i, Single) and i.kind == "check"]
        return any(not self.reads(i).isdisjoint(values) for i in checks)

    # ---- fronts

    def into_front(self, last: int, stage: ProductStage) -> None:
        """Move tasks of the stages of rows before a stage of products whose results only that one reads."""
        first = last
        while self.rows(first - 1) is not None:
            first -= 1
        if self.rows(last) is None:
            return
        among = [(rows, item) for rows in self.list[first : last + 1] if isinstance(rows, RowStage)
                 for item in self.items(rows)]  # fmt: skip
        own = {part.product.value for part in stage.parts} | {*stage.tail}
        wanted = {u for part in stage.parts for u in self.stages.reads[part.product.value]}
        for rows, item in reversed(among):
            if wanted.isdisjoint(item.values) or not self.is_front(item, stage):
                continue
            if self.readers({*item.values}, stage.front) <= own:
                stage.front.insert(0, item)
                rows.items[:] = [i for i in rows.items if i is not item and rows.grouped is None]
                wanted |= self.reads(item)

    def items(self, rows: RowStage) -> list[Item]:
        return [Single("product", rows.grouped.value)] if rows.grouped is not None else rows.items

    def is_front(self, item: Item, stage: ProductStage) -> bool:
        """Whether it pays that each panel's blocks do a task."""
        if self.checked(item.values) or not {*item.values}.isdisjoint(self.graph.spec.results):
            return False
        if isinstance(item, Single):
            product = self.stages.products.get(item.value) if item.kind == "product" else None
            return product is not None and product.how in ("lanes", "transposed") and item.value in self.pieces(stage)
        work, terms = 0, 0
        for v in item.values:
            size = count(self.graph.shape(v)).constant
            if item.reductions or size is None or size == 1:
                return False
            work += size * self.operations(v)
        for part in stage.parts:
            weight = part.product.weight
            terms = max(terms, weight.shape[part.product.flip] if weight is not None else 0)
        return work * CHEAP <= terms * COLUMNS

    def pieces(self, stage: ProductStage) -> set[int]:
        return {piece for part in stage.parts for piece in part.product.pieces}

    def operations(self, v: int) -> int:
        """Return the cost of the operations that an element of a stored value is computed by."""
        found, todo = {v}, [v]
        while todo:
            op = self.graph.op(todo.pop())
            todo += [a for a in (op.args if op is not None else ()) if not self.stages.leaf(a) and a not in found]
            found.update(todo)
        return sum(TENSORS[op.op].cost for u in found if (op := self.graph.op(u)) is not None)

    # ---- ends

    def into_end(self, stage: ProductStage, number: int) -> None:
        """Move a stage of rows that reads the products."""
        rows = self.rows(number)
        if rows is None or rows.grouped is not None or not rows.items or not self.alone(self.stages, stage):
            return
        if any(isinstance(item, Single) and item.kind in ("own", "product") for item in rows.items):
            return
        own = {part.product.value for part in stage.parts} | {*stage.tail}
        if any(not self.reads(item).isdisjoint(own) for item in rows.items):
            stage.end.extend(rows.items)
            rows.items.clear()
