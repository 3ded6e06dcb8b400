"""Kernels for a GPU: from a `KernelSpec` to functions of the small language that `emit.simt` prints for `numba.cuda`.

A kernel is a function per stage, launched one after the other over all nodes of a batch; values that a stage passes to
a later one lie in scratch memory of the batch. The compiled form:

    NAME_0(P, nodes, S, T)   the first stage, NAME_1 the next; by any number of blocks of `tiles.THREADS` threads
                             P: table as for kernels on CPUs, in the GPU's memory, but
                             P[0]  address of the words of all nodes, see `kernels.cuda.nodes`
                             P[2]  of a kernel with run-time extents: bytes of T for one warp
                             P[FIXED + k]  of a kernel without: address of result k of all nodes
                             S: scratch of the batch; T: scratch of the warps
    sizes(D, nodes, OUT)     on the CPU: OUT[0] = bytes of S for so many nodes, OUT[1] = bytes of T for one warp,
                             OUT[2 + k] = bytes of result k of a node, then bytes of the largest tensor of a node
    adds(D, OUT)             on the CPU, of a kernel with run-time extents: OUT[0] = further bytes of S for a node, then
                             the counts of the node, see `NodeTable.counted`

An argument word is, by the operand's kind: "tensor": the address of its data; "int", "bool": the number; "float": the
bits of a double; "list": the address of the addresses of its elements' data; "numbers": the address of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from acronumba.emit import simt, tree
from acronumba.emit.target import Target
from acronumba.emit.tree import I64, Ty
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cpu import Generator, power
from acronumba.kernels.cuda import own
from acronumba.kernels.cuda.depths import Work, levels
from acronumba.kernels.cuda.ends import Ends
from acronumba.kernels.cuda.matrices import Matrices, rows_of
from acronumba.kernels.cuda.nodes import Counted, NodeTable
from acronumba.kernels.cuda.stream import MANY, TILE, units_of
from acronumba.kernels.cuda.streamed import Streams
from acronumba.kernels.cuda.teams import TeamWriter, team_of
from acronumba.kernels.cuda.tiled import HEIGHTS, BlockTiles, counted
from acronumba.kernels.cuda.tiles import Tile, kind_of
from acronumba.kernels.cuda.writer import WARPS, Grid, SimtWriter, Tiles, whose
from acronumba.kernels.facts import SharedUse
from acronumba.kernels.stages.index import Poly, count
from acronumba.kernels.stages.passes import passes_of
from acronumba.kernels.stages.tasks import Product, ProductStage, RowStage, Single, Stages
from acronumba.kernels.write import math
from acronumba.kernels.write.kernel import Home, Kernel, RaggedSlots
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy


@record(kw_only=True)
class Warp(Target):
    """A warp as a target: a vector of any type has a lane for each thread."""

    def lanes(self, type: Ty) -> int:
        return simt.WARP

    @property
    def warps(self) -> bool:
        return True

    def column_step(self, type: Ty) -> int:
        return 8


WARP = Warp(name="cuda", features="", vector_bits=1024, registers=32)


@record()
class CudaCode:
    """A generated kernel."""

    text: str  # of numba.cuda functions
    tiles: tuple[Tile, ...]  # that they call
    entries: tuple[str, ...]  # the functions to launch, in order
    grids: tuple[tuple[Grid, ...], ...]  # of each of them, the first for the most nodes
    sizes: tree.Module  # exports "sizes"; of a kernel with run-time extents also "adds"
    table: NodeTable
    shared: tuple[SharedUse, ...]  # entries of P behind the results
    module: tree.Module  # of the functions
    parameters: int = 4  # of each function
    operations: tuple[own.Placed, ...] = ()  # operations of the user's own that they call

    @property
    def levels(self) -> int:
        """How many levels the functions have: those of one do not depend on each other."""
        return 1 + max((grids[0].level for grids in self.grids), default=-1)

    @property
    def pool(self) -> int:
        """The most bytes that a block of a launch has to ask for."""
        return max((grids[0].pool for grids in self.grids), default=0)

    @property
    def source(self) -> str:
        """Source text of the kernel and of the tiles that it calls."""
        return "\n\n".join([*(tile.text() for tile in self.tiles), self.text])

    def parts(self) -> tuple[simt.DeviceFunction, ...]:
        """Return the functions, tiles first, for any setting."""
        tiles = (part for tile in self.tiles for part in tile.parts())
        return (*tiles, *(own.part_of(call) for call, _ in self.operations), *simt.parts(self.module))


def generate(spec: KernelSpec, strategy: Strategy = DEFAULT, precision: str = "float32") -> CudaCode:
    """Return the code of a kernel, with products of this precision. The same arguments give the same text."""
    return _Generator(spec, WARP, strategy, precision).code()


@record()
class _Made:
    """A function of a kernel."""

    function: tree.Function
    grids: tuple[Grid, ...]
    work: Work


class _Generator(Generator):
    def __init__(self, spec: KernelSpec, target: Target, strategy: Strategy, precision: str) -> None:
        self.precision = precision
        super().__init__(spec, target, strategy)
        places = any(whose(self.kernel, slot) == "node" for slot in range(len(self.scratch.slots)))
        self.table = NodeTable.of(spec, places, tuple(self._counted()))

    def _planned(self, precision: str) -> Stages:
        stages = super()._planned(precision)
        if self.precision in ("float32", "tf32x3") and self.strategy.vertical and self.strategy.gather:
            Ends(stages, self._alone_in_block).run()
        return stages

    def _alone_in_block(self, stages: Stages, stage: ProductStage) -> bool:
        """Whether one block has whole rows of a stage's products."""
        passes = passes_of(stage, stages, self.target)
        gates = [sum(part.gates for part in parts) for one in passes for call in one.calls for parts in call.members]
        return len(passes) == 1 and stage.n <= units_of(stage.n, max(gates), MANY)

    def _front_home(self, kernel: Kernel, number: int, v: int) -> Home:
        row = self._row(v)
        slot = self.scratch.add(f"{kernel.names[v]}_of_tile", row * TILE, own=number)
        kernel.fronts.add(slot)
        return Home("front", slot, row)

    def _counted(self) -> Iterator[Counted]:
        """Yield the counts that differ from node to node: rows, or tiles of rows."""
        found: dict[Counted, None] = {}
        for stage in self.stages.stages:
            if isinstance(stage, ProductStage) and count(stage.lead).constant is None:
                found[Counted(count(stage.lead))] = None
            elif isinstance(stage, RowStage) and stage.lead:
                found |= dict.fromkeys(counted(stage))
        yield from found

    def _block(self) -> Poly:
        return Poly.of("block")  # all nodes of the batch

    def _fixed_slots(self, kernel: Kernel, block: Poly) -> None:
        kernel.ragged = RaggedSlots() if self.ragged else None

    def _stage_slots(self, kernel: Kernel, number: int, stage: ProductStage) -> None:
        pass

    def _group_slots(self, number: int, product: Product, block: Poly) -> None:
        pass

    def _product_slots(self, product: Product, number: int, tiles: bool) -> None:
        pass

    def _tile_height(self, number: int) -> Poly:
        return Poly.of(HEIGHTS[0])

    def code(self) -> CudaCode:
        made: list[_Made] = []
        called: set[Tile] = set()
        if self.gathered:
            w = self._writer(len(made), "copies of operands, side by side")
            w.gather(self.gathered)
            made.append(_Made(w.f.function(), (Grid(WARPS, 1),), Work.all()))
        for stage in self.stages.stages:
            if isinstance(stage, ProductStage):
                # each pass is a function, with separate shared memory and registers
                for one in passes_of(stage, self.stages, self.target) if stage.n else ():
                    w = self._writer(len(made), "tiles of products")
                    kind = kind_of(w.graph.dtype(stage.parts[0].product.value), self.precision)
                    products = (Streams if kind == "float32" or stage.across else Tiles)(w, stage, one)
                    products.write()
                    called |= w.called
                    made.append(_Made(w.f.function(), products.grids(), Work.of_pass(self.stages, stage, one)))
                continue
            work = Work.of_rows(self.stages, stage)
            if stage.lead:
                w = self._writer(len(made), "tiles of rows")
                tiles = BlockTiles(w, stage)
                tiles.write()
                called |= w.called
                made.append(_Made(w.f.function(), tiles.grids(), work))
                continue
            w = self._writer(len(made), "loops over nodes")
            made.append(_Made(w.f.function(), (self._rows(w, stage),), work))
        return self._code(made, called)

    def _rows(self, w: TeamWriter, stage: RowStage) -> Grid:
        """Write tasks that are done node by node."""
        if stage.grouped is not None and rows_of(self.stages, stage.grouped):
            products = Matrices(w, stage.grouped)
            products.write()
            return products.grid()
        items = [Single("product", stage.grouped.value)] if stage.grouped is not None else stage.items
        team = team_of(self.stages, items)
        return w.nodes_of_teams(items, team) if team > 1 else w.nodes(items)

    def _code(self, made: Sequence[_Made], called: set[Tile]) -> CudaCode:
        helpers = [power(name) for name in self.kernel.helpers]
        maths = math.closure(self.kernel.wanted)
        functions = [one.function for one in made]
        entries = tuple(f.name for f in functions)
        grids = tuple(
            tuple(replace(grid, level=level) for grid in one.grids)
            for one, level in zip(made, levels([one.work for one in made]), strict=True)
        )
        module = tree.Module(self.spec.name, (*maths, *helpers, *functions), entries, header=self._header())
        shared = tuple(SharedUse(v, p) for v, p in self.kernel.shared)  # type: ignore[arg-type]
        calls = own.calls_of(self.spec)
        text = "\n\n\n".join([*(own.text_of(call) for call, _ in calls), simt.module_text(module)])
        return CudaCode(
            text, tuple(sorted(called)), entries, grids, self._sizes_module(), self.table, shared, module,
            operations=calls,
        )  # fmt: skip

    def _writer(self, number: int, what: str) -> TeamWriter:
        w = TeamWriter(
            self.kernel,
            self.slots,
            f"{self.spec.name}_{number}",
            ("P", "nodes", "S", "T"),
            f"{self.spec.name}: {what}.",
        )
        w.start_function(self.table, self.precision)
        return w

    def _sizes_module(self) -> tree.Module:
        functions = [self._sizes_function(), *([self._adds_function()] if self.ragged else [])]
        return tree.Module(f"{self.spec.name}_sizes", tuple(functions), tuple(f.name for f in functions))

    def _sizes_function(self) -> tree.Function:
        w = SimtWriter(
            self.kernel, self.slots, "sizes", ("D", "nodes", "OUT"), "Bytes of scratch, and of every result of a node."
        )
        w.start_function(self.table)
        w.f.store(w.f["OUT"], 0, w.end_of("batch"), type=I64)
        w.f.store(w.f["OUT"], 1, w.own_bytes(), type=I64)
        w.f.set(w.f["OUT"], w.f["OUT"] + 8)
        return self._sizes(w)

    def _adds_function(self) -> tree.Function:
        w = SimtWriter(self.kernel, self.slots, "adds", ("D", "OUT"), "What one more node adds.")
        w.table = self.table
        w.f.store(w.f["OUT"], 0, w.end_of("node"), type=I64)
        for k, one in enumerate(self.table.counted, 1):
            tiles = w.bind("tiles", (w.number(one.rows) + (one.height - 1)) // one.height)
            w.f.store(w.f["OUT"], k, tiles * w.number(one.times), type=I64)
        w.f.ret()
        return w.f.function()
