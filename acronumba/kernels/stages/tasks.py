"""Tasks of a kernel: products, nests of loops, and the stages that contain them.

Every stored value is a task. A `RowStage` has tasks done node by node, or for some rows of a node, then for the next; a
`ProductStage` has products of a block of nodes with shared weights. `Stages` is the whole kernel, in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import Graph
from acronumba.kernels.stages.index import Poly, count
from acronumba.kernels.stages.weights import Weight
from acronumba.kernels.write.element import DTYPES
from acronumba.records import record
from acronumba.strategy import Strategy


@record(eq=False, frozen=False)
class Product:
    """A matrix product and its method."""

    value: int
    how: str  # "shared" | "panel" | "lanes" | "transposed" | "loops"
    left: int  # shared, panel, and the matrix of lanes, transposed: read in rows; also in loops if it is large
    right: int  # shared: the weight's operand; lanes, transposed: the vector; also in loops if the matrix is large
    pieces: tuple[int, ...]  # of the left operand, along its last axis
    lead: tuple[Size, ...]  # shared: rows of one node
    columns: Size  # of the result
    flip: bool = False  # shared: the weight has its columns first; otherwise: the matrix lies the other way
    weight: Weight | None = None  # shared: the right operand
    step: int = 0  # of a grouped stage: elements from one row of the matrix to the next (transposed), or one column
    terms: tuple[int, ...] = ()  # panel: the pieces of the right operand, along the axis of the sum
    form: str = ""  # shared, panel: of the tiles, see `kernels.tiles.TYPES`
    # shared: a matrix of a node times the weight from the left, on a GPU. Rows are the columns of the matrix and of the
    # result; `steps`: of each piece, elements from one term to the next
    steps: tuple[int, ...] = ()

    def in_pieces(self, v: int) -> bool:
        """Whether the product reads a concatenation, of one of its operands, only piece by piece."""
        left = v != self.left or self.pieces != (v,)
        right = v != self.right or self.how == "shared" or (self.how == "panel" and self.terms != (v,))
        return left and right

    @property
    def across(self) -> bool:
        """Whether rows are columns."""
        return bool(self.steps)

    @property
    def matrix(self) -> tuple[object, ...]:
        """Key of the packed weight: equal for products that can share it."""
        return (self.weight.operand, self.weight.steps, self.flip) if self.weight is not None else ()


@record(eq=False, frozen=False)
class Nest:
    """Loops over `space` with stores in the innermost one, and reductions of the axes `reduced`."""

    space: tuple[Size, ...]
    reduced: tuple[int, ...]
    stores: list[int] = field(default_factory=list)
    reductions: list[int] = field(default_factory=list)

    @property
    def values(self) -> list[int]:
        return [*self.stores, *self.reductions]


@record(eq=False, frozen=False)
class Single:
    """A task with separate loops: "concat", "stack", "arg", "product" or "check" (whether the operation fails)."""

    kind: str
    value: int

    @property
    def values(self) -> list[int]:
        return [] if self.kind == "check" else [self.value]


@record()
class Band:
    """The columns of a row that are computed: those at which all `conditions` are >= 0, see `kernels.stages.bands`.

    Outside of the band a value is one number per row, and 0 if it is summed.
    """

    mask: int  # the value of the mask
    beyond: int  # the argument of `where` that is taken outside
    conditions: tuple[Poly, ...]  # polynomials of the row and the column
    row: str  # symbol of the row in these
    column: str
    outside: frozenset[int]  # values that are stored in the band only
    zero: frozenset[int]  # sums over the columns, and left operands of products


@record(eq=False, frozen=False)
class RowStage:
    """Tasks done node by node.

    With `grouped`, one product: nodes of a block with the same matrix are done together, which reads the matrix once.
    With a `lead`, in tiles: all tasks for some rows of a node, then all for the next rows. The lead are the first axes
    of every value of the stage; its last axis are the rows.
    """

    items: list[Nest | Single] = field(default_factory=list)
    grouped: Product | None = None
    lead: tuple[Size, ...] = ()
    views: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of a value; the last is stored in its place
    band: Band | None = None

    @property
    def values(self) -> list[int]:
        """Stored values of the stage."""
        found = [v for item in self.items for v in item.values]
        return [self.views[v][-1] if v in self.views else v for v in found]

    def last(self, u: int, reads: Mapping[int, Mapping[int, bool]]) -> list[int]:
        """Return the tasks that read value `u`, of the last item that has any."""
        among = [[v for v in item.values if u in reads[v]] for item in self.items]
        return next((found for found in reversed(among) if found), [])


@record(eq=False, frozen=False)
class ProductPart:
    """A product of a stage: its gates, and where its columns start."""

    product: Product
    gates: int


@record(eq=False, frozen=False)
class ProductStage:
    lead: tuple[Size, ...]
    n: int  # columns of one gate
    parts: list[ProductPart]
    tail: list[int]  # values stored panel by panel; the parts' own values are among them where they are stored
    front: list[Nest | Single] = field(default_factory=list)  # on a GPU: tasks that make rows of left operands,
    end: list[Nest | Single] = field(default_factory=list)  # ... and that read whole rows, see `kernels.stages.ends`

    @property
    def across(self) -> bool:
        """Whether rows are columns, see `Product.steps`."""
        return self.parts[0].product.across

    @property
    def axis(self) -> int:
        """The axis of the columns of a panel, in `space`."""
        return 0 if self.across else len(self.lead)

    @property
    def space(self) -> tuple[Size, ...]:
        """The shape of the values of the tail."""
        return (self.n, *self.lead) if self.across else (*self.lead, self.n)


@record(eq=False, frozen=False)
class Stages:
    graph: Graph
    stored: set[int]
    products: dict[int, Product]
    stages: list[RowStage | ProductStage]
    reads: dict[int, dict[int, bool]]  # of stored values: stored values read, and whether only at the same place
    gathered: list[int]  # operands that are copied before the first stage
    strategy: Strategy

    @property
    def blocked(self) -> bool:
        """Whether stages run block by block, not all together node by node."""
        shared = any(isinstance(s, ProductStage) or s.grouped is not None or s.lead for s in self.stages)
        return shared or len(self.stages) > 1 or bool(self.gathered)

    @property
    def leads(self) -> list[Poly]:
        """Rows of a node in each stage of products or tiles. The rows of all nodes of a block stay in the cache."""
        rows = [s.lead if isinstance(s, ProductStage) else s.lead[-1:] for s in self.stages]
        return [count(lead) for s, lead in zip(self.stages, rows, strict=True) if isinstance(s, ProductStage) or lead]

    @property
    def rows(self) -> int:
        """Rows of products in a block of nodes: more where each block reads weights that no cache keeps."""
        size = sum(self.weight_bytes(s) for s in self.stages if isinstance(s, ProductStage))
        return self.strategy.rows * (1 if size <= self.strategy.heavy_bytes else self.strategy.heavy_blocks)

    def weight_bytes(self, stage: ProductStage) -> int:
        """Return the bytes of the shared weights that a stage reads."""
        total = 0
        for product in {part.product.matrix: part.product for part in stage.parts}.values():
            if product.weight is not None:
                total += math.prod(product.weight.shape) * self.weight_size(product)
        return total

    def weight_size(self, product: Product) -> int:
        """Return the bytes of an element of a product's shared weight, as tiles read it."""
        return 2 if product.form == "bf16" else DTYPES[self.graph.dtype(product.right)].size

    def leaf(self, v: int) -> bool:
        return v < self.graph.first or v in self.stored
