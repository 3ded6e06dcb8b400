"""Parameters of code generation besides the model: a `Strategy`, plain numbers in one place.

In: nothing. Out: `Strategy` and the `Figures` of a machine, which passes, kernels and the run time read. Results have
the same bits with every strategy. Parameters that would change bits are not here: `ir.spec.CHUNK`, the order in which a
product is summed, the size from which on a matrix is read by rows.

Models have the default strategy. `acronumba tune` measures the figures of a machine (`bench.tune_machine`) and the best
strategy for a model (`bench.tune_model`); `tuned` stores the results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acronumba.errors import Loc

_FROM_ONE = "tile_rows gates rows heavy_blocks group_nodes group_bytes alone_nodes tile_bytes fewest_rows unit".split()


def _check(name: str, value: object, default: object) -> None:
    """Raise `ValueError` if a value is not allowed for a field."""
    least = 1 if name in _FROM_ONE else 0
    kinds = (int, float) if isinstance(default, float) else (int,)
    good = isinstance(value, kinds) and isinstance(value, bool) == isinstance(default, bool)
    if not good or not least <= value < float(1 << 40):  # type: ignore[operator]
        raise ValueError(f"{name} cannot be {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Costs in nanoseconds of one core; `kernels.cost` adds them up.

    A vector is a register full of elements, whatever their type. The defaults were fitted to the kernels of the zoo on
    a core of a Zen 3 (AVX2).
    """

    batch: float = 1400.0  # starting a kernel that did not run just before
    block: float = 350.0  # describing a block of nodes
    node: float = 1.6  # finding the address of a node
    operand: float = 0.5  # finding the address of an operand of a node
    loop: float = 0.4  # beginning a loop
    element: float = 0.29  # an addition of vectors
    multiply: float = 0.2  # a multiplication and addition of vectors in a register tile
    across: float = 40.0  # adding up the lanes of a vector, and beginning the loop before it
    tile: float = 4.0  # a call of a register tile
    row: float = 1.5  # starting the code after a tile, per row
    read: float = 0.01  # a byte of an operand
    table: float = 0.01  # ... of a row of a shared array that a node chooses: it may be in no cache
    write: float = 0.11  # a byte of a result
    near: float = 0.024  # a byte that the kernel itself has just written
    weights: float = 0.01  # a byte of a shared weight, once for each block of nodes

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            _check(f.name, getattr(self, f.name), f.default)


# By the bits of a vector. Those of AVX-512 were fitted to the kernels of the zoo on a core of a Zen 4.
FIGURES: Mapping[int, Figures] = {
    512: Figures(
        batch=640.0, block=54.0, node=9.6, operand=0.65, loop=0.17, element=0.19, multiply=0.264, across=15.5, tile=3.0,
        row=11.8, read=0.0014, table=0.1, write=0.065, near=0.023, weights=0.003,
    )
}  # fmt: skip


def figures_of(bits: int) -> Figures:
    """Return the default figures of CPUs with vectors of `bits` bits."""
    return FIGURES.get(bits, Figures())


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The parameters of code generation. They affect time, and no bit of a result.

    vertical     an operation that reads another's result is computed in the same loop, from registers or from the
                 panel of a product; off: every operation is a stage of its own and stores its result, except
                 addressing that is the same for all nodes (reshape, transpose, slice, broadcast, a constant index)
    horizontal   independent operations share a stage: products with the same left operand or the same weight, and
                 element-wise operations and reductions over one iteration space; off: only dependent operations share
    gather       operands are read in place, through pointers or indices; off: a first stage copies the block's
                 operands into contiguous rows, and rows looked up in a table are copied before they are read
    """

    # fusion (options of a model, see `config.Options.decisions`)
    vertical: bool = True
    horizontal: bool = True
    gather: bool = True

    # register tiles and panels of shared weights (`kernels.tiles`, `kernels.stages.passes`)
    tile_rows: int = 12  # of a tile at most; their addresses live in integer registers
    panel_vectors: int = 0  # vectors of columns of a gate that a panel has at most; 0: as many as keep a tile busy
    gates: int = 6  # parts, split off a product, that lie side by side in a panel at most
    lookups: int = 384  # columns of a product with a pool from which on its sums are looked up (`kernels.lookups`)
    turn_bytes: int = 700_000  # weights from which on a core's own cache does not keep all for the next block,
    turn_rows: int = 24  # so that every other block begins with the last panel; more rows hide the time of reading
    prefetch: bool = True  # the operands of the code after a tile are prefetched while the tile computes

    # blocks of nodes (`kernels.stages.tasks`, `kernels.cpu`, `kernels.write.blocks`)
    rows: int = 48  # of products in a block: those of their left operands stay in the cache
    heavy_bytes: int = 1 << 22  # weights of a kernel from which on they are to be read less often,
    heavy_blocks: int = 4  # so that a block has so many times the rows
    group_nodes: int = 2016  # of a block in which those with the same matrix are found
    group_bytes: int = 1 << 24  # of the rows of such a block
    alone_nodes: int = 512  # of a block that is one stage in tiles
    ragged_bytes: int = 1 << 20  # of temporaries that depend on the extents of several nodes of a block

    # where a kernel is cut into stages and loops (`kernels.stages`)
    dear: int = 6  # `TensorOp.cost` of a value above which it is stored rather than computed twice,
    dear_places: int = 64  # and of one that is made of places alone: a mask
    long: int = 20  # `TensorOp.cost` of a function from which on its result is worth a loop of its own
    tiled_elements: int = 1 << 14  # of a value from which on it pays not to store it
    tile_bytes: int = 1 << 17  # of a tile of rows, so that it stays in the cache,
    fewest_rows: int = 8  # of such a tile, however long they are

    # the choice of kernels (`analysis.grouping`, `analysis.sharing`)
    split: bool = True  # operations that no loop or recursion carries become a separate kernel (`hoist`),
    split_worth: float = 4.0  # if their time is so many times its cost, as for a matrix product. Costs in nanoseconds:
    split_node: float = 25.0  # recording, scheduling and starting a node
    split_byte: float = 0.1  # storing a byte and reading it back
    split_multiply: float = 0.01  # a multiplication and addition of a product
    split_function: float = 0.3  # an element of exp, tanh, ...
    split_element: float = 0.05  # an element of anything else
    row_elements: int = 16  # of a row that is worth a node of its own, if nothing dearer is done with it
    refactor: bool = True  # a recursive call computes the matrix product of its result that its caller would
    table_rows: int = 256  # of a shared table whose products are computed for all rows
    without: tuple[str, ...] = ()  # decisions that are not taken, by `decision`

    # how kernels run (`runtime`)
    unit: int = 4000  # nanoseconds of work that are worth a thread
    launch: int = 400  # cost in nanoseconds of one more batch, without its weights: bounds the search for schedules
    figures: Figures | None = None  # of the machine; None: those of its kind, `figures_of`

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if f.name not in ("figures", "without"):
                _check(f.name, getattr(self, f.name), f.default)
        if not isinstance(self.without, tuple) or not all(isinstance(name, str) for name in self.without):
            raise ValueError(f"without cannot be {self.without!r}")
        if not isinstance(self.figures, Figures | None):
            raise ValueError(f"figures cannot be {self.figures!r}")

    def takes(self, kind: str, loc: Loc) -> bool:
        """Whether a decision is taken: `kind` is that of its note (`ir.notes`), `loc` its place."""
        return not self.without or decision(kind, loc) not in self.without


def decision(kind: str, loc: Loc) -> str:
    """Return the name of a decision of an analysis about an expression."""
    return f"{kind} {loc.function} {loc.line}:{loc.column}"


DEFAULT = Strategy()
