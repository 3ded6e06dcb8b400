"""Kernels for CPUs: from a `KernelSpec` to functions of the small language.

`kernels.stages` decides which values are stored and in which order, `kernels.write` writes the loops of each stage;
this module writes the functions around them, and lays out scratch memory. The entry point is `generate`. The compiled
form is described in `ir.spec`; after the shared entries its table P holds the addresses of the tiles in the order of
`KernelCode.tiles`.

A kernel works on blocks of nodes, stage by stage; values that a stage passes to a later one lie in the block's scratch.
A stage is a function of a range of its units, tiles of panels or nodes, so that threads can share it; thread-local data
(addresses of rows, sums of a tile) lie in the thread's scratch. No two units write to the same memory.

The order of summation of every product is fixed by the operation alone: k ascending with one fma per term, by chunks
of `ir.spec.CHUNK` terms; or, if both operands belong to the node and one is a vector whose products are sums along
contiguous memory, lanes along k and a fixed tree. Results of a node therefore do not depend on its batch.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from functools import partial
from pathlib import Path

from acronumba.emit import tree
from acronumba.emit.outline import outlined
from acronumba.emit.target import Target
from acronumba.emit.tree import F64, I64, Builder, Expr, const, convert, intrinsic, select
from acronumba.ir.spec import BLOCK, PARAMETERS, UNITS, Dim, KernelSpec
from acronumba.kernels import lookups
from acronumba.kernels.cost import MOST, Estimate, Time, estimate, stored_by, typical_cost
from acronumba.kernels.facts import KernelFacts, SharedUse, StageWork
from acronumba.kernels.own import table_places
from acronumba.kernels.stages.index import ONE, ZERO, Poly, count, rounded, size_poly
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.passes import passes_of, table_of, tile_shape
from acronumba.kernels.stages.tasks import Band, Nest, Product, ProductStage, RowStage, Single, Stages
from acronumba.kernels.tiles import TileKey, tallest
from acronumba.kernels.write import math
from acronumba.kernels.write.blocks import BlockOfNodes, word_of
from acronumba.kernels.write.element import DTYPES
from acronumba.kernels.write.groups import GroupSlots, GroupWriter, group_units
from acronumba.kernels.write.kernel import (
    LANE_BUFFER,
    Gathered,
    Home,
    Kernel,
    OwnSlots,
    RaggedSlots,
    Scratch,
    identifier,
)
from acronumba.kernels.write.matrices import Slots
from acronumba.kernels.write.products import ProductWriter, most_rows
from acronumba.kernels.write.tiled import Tiles, units
from acronumba.kernels.write.writer import Writer, row_step
from acronumba.operations import OwnCall
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy


@record(kw_only=True)
class KernelCode(KernelFacts):
    """A generated kernel."""

    module: tree.Module  # exports "plan" and "run"; if there are stages, also "begin" and theirs; notes: the facts


def generate(
    spec: KernelSpec, target: Target, strategy: Strategy = DEFAULT, precision: str = "float32"
) -> KernelCode:  # fmt: skip
    """Return the code of a kernel.

    Parameters
    ----------
    spec : KernelSpec
        The computation of one node.
    target : Target
        The CPU.
    strategy : Strategy
        Decides which operations are fused. Equal arguments give equal text, by which compiled code is cached.
    precision : str
        "bf16": of products, see `kernels.stages.halves`; others are those of GPUs.
    """
    return Generator(spec, target, strategy, precision).run()


def _numbers(attr: object) -> list[int]:
    """Return the operands that a static argument refers to."""
    match attr:
        case ("value", int(k)):
            return [k]
        case tuple():
            return [k for a in attr for k in _numbers(a)]
    return []


class Generator:
    """Generates the code of a kernel; `kernels.cuda.generate` has a subclass for GPUs."""

    def __init__(
        self, spec: KernelSpec, target: Target, strategy: Strategy, precision: str = "float32"
    ) -> None:  # fmt: skip
        self.target, self.strategy, self.given = target, strategy, spec
        self.stages = self._planned(precision)
        self.graph = self.stages.graph
        self.spec = self.graph.spec
        self.gathered = self.stages.gathered
        self.blocked = self.stages.blocked
        self.scratch = Scratch()
        self.slots: dict[tuple[str, int], Slots] = {}  # by ("stage", number), or ("value", v) for products of one node
        self.groups: dict[int, GroupSlots] = {}  # by number of the stage
        self.kernel = self._kernel()

    def _planned(self, precision: str) -> Stages:
        return plan_stages(self.given, self.target, self.strategy, precision)

    def _names(self) -> list[str]:
        out: list[str] = []
        taken: set[str] = set()
        for v in range(self.graph.count):
            name = base = identifier(self.graph.source(v).name, f"v{v}")
            k = 1
            while name in taken:
                k += 1
                name = f"{base}_{k}"
            taken.add(name)
            out.append(name)
        return out

    @property
    def ragged(self) -> bool:
        """Whether nodes of a batch have run-time extents, which may differ."""
        return self.spec.dims > 0

    def _kernel(self) -> Kernel:
        names = self._names()
        block = self._block()
        kernel = Kernel(
            name=self.spec.name, stages=self.stages, target=self.target, homes={}, scratch=self.scratch, block=block,
            table={}, table_slot=-1, lane_slot=-1, gathered={}, names=names,
        )  # fmt: skip
        self._fixed_slots(kernel, block)
        for v in self.gathered:
            row = self._row(v)
            kernel.gathered[v] = Gathered(self._block_slot(f"{names[v]}_rows", row, block), row)
        self._homes(kernel, block)
        for number, stage in enumerate(self.stages.stages):
            if isinstance(stage, ProductStage):
                self._stage_slots(kernel, number, stage)
            elif stage.grouped is not None:
                self._group_slots(number, stage.grouped, block)
            else:
                if stage.band is not None:
                    self._outside_slots(kernel, number, stage.band)
                for item in stage.items:
                    if isinstance(item, Single) and item.kind == "own":
                        self._own_slots(kernel, item.value, number, stage)
                    if isinstance(item, Single) and item.kind == "product":
                        self._product_slots(self.stages.products[item.value], number, bool(stage.lead))
        return kernel

    @property
    def _alone(self) -> bool:
        """Whether the only stage is in tiles: it passes nothing to another, so a block may have any number of nodes."""
        only = self.stages.stages[0] if len(self.stages.stages) == 1 and not self.gathered else None
        return isinstance(only, RowStage) and bool(only.lead)

    def _block(self) -> Poly:
        """Return the maximum number of nodes of a block."""
        rows = self.stages.rows
        if self.ragged and self._alone:
            return Poly.of(self.strategy.alone_nodes)
        block = Poly.of(rows)
        if self.blocked:
            if not self.ragged:
                block = Poly.of(max(1, rows // max([1, *(m.constant or 0 for m in self.stages.leads)])))
            if any(isinstance(s, RowStage) and s.grouped for s in self.stages.stages):
                block = block * max(1, self._many_rows() // (block.constant or 1))
        return block

    def _block_slot(self, name: str, row: Poly, block: Poly) -> int:
        """Return a new slot of so many bytes for each node of a block."""
        return self.scratch.add(name, row if row.constant is None and self.ragged else row * block)

    def _fixed_slots(self, kernel: Kernel, block: Poly) -> None:
        """Lay out the scratch that every kernel has."""
        if self.blocked:
            self.scratch.add("block", Poly.of(BLOCK.size + UNITS.size * len(self.stages.stages)))
        if self.ragged:
            self._ragged_slots(kernel, block)
        kernel.lane_slot = self.scratch.add("lane_buffer", Poly.of(LANE_BUFFER), own=0)
        if self.blocked:
            numbers = {v for op in self.spec.body for attr in op.attrs for v in _numbers(attr)}
            used = [
                v
                for v, o in enumerate(self.spec.operands)
                if o.kind != "shared" and v not in self.gathered and (self.graph.users[v] or v in numbers)
            ]
            kernel.table = {v: k for k, v in enumerate(used)}
            kernel.table_slot = self.scratch.add("words", block * 8 * max(1, len(used)))

    def _ragged_slots(self, kernel: Kernel, block: Poly) -> None:
        """Lay out the tables of a block whose nodes have run-time extents: sizes, times and starts of each node."""
        kernel.ragged = RaggedSlots()
        if not self.blocked:
            return
        size = (block + 1) * 8
        kernel.ragged.places = self.scratch.add("places", size)
        for number, stage in enumerate(self.stages.stages):
            if isinstance(stage, RowStage) and stage.grouped is None:
                kernel.ragged.times[number] = self.scratch.add("times", size)
            if stage.lead and (isinstance(stage, RowStage) or count(stage.lead).constant is None):
                kernel.ragged.starts[number] = self.scratch.add("starts", size)

    def _many_rows(self) -> int:
        """Return the number of nodes of a block: many, to find equal matrices, but their rows must fit in the cache."""
        row = sum((self._row(v).constant or 0) for v in self.stages.stored)
        return min(self.strategy.group_nodes, self.strategy.group_bytes // max(1, row))

    def _homes(self, kernel: Kernel, block: Poly) -> None:
        made: dict[int, int] = {}
        local: set[int] = set()
        used: dict[int, set[int]] = {}
        for number, stage in enumerate(self.stages.stages):
            values = stored_by(stage)
            made.update(dict.fromkeys(values, number))
            for v in [*values, *stage.views] if isinstance(stage, RowStage) else values:
                for u in self.stages.reads[v]:
                    used.setdefault(u, set()).add(number)
            for items in [stage.items] if isinstance(stage, RowStage) else [stage.front, stage.end]:
                for item in items:
                    if isinstance(item, Nest):
                        local |= {v for v in item.values if count(self.graph.shape(v)) == ONE}
                    elif item.kind == "check":
                        for a in self.graph.checked(item.value):
                            for u in [a] if self.stages.leaf(a) else self.stages.reads[a]:
                                used.setdefault(u, set()).add(number)
        products = [s for s in self.stages.stages if isinstance(s, ProductStage)]
        fronts = {v for s in products for item in s.front for v in item.values}
        ends = {v for s in products for item in s.end for v in item.values}
        stored = {v for s in products for v in s.tail} | fronts | ends
        for v, number in made.items():
            stage = self.stages.stages[number]
            if isinstance(stage, ProductStage) and v not in stored:
                continue  # a product that lives in the current panel only
            size = count(self.graph.shape(v)) * DTYPES[self.graph.dtype(v)].size
            results = [k for k, r in enumerate(self.spec.results) if r == v]
            name = kernel.names[v] + "_rows"
            if results:
                home = Home("result", results[0], size, tuple(results[1:]))
            elif isinstance(stage, RowStage) and stage.lead and used.get(v, set()) <= {number}:
                home = self._tile_home(kernel, number, v)
            elif v in fronts:
                home = self._front_home(kernel, number, v)
            elif (isinstance(stage, RowStage) or v in ends) and used.get(v, set()) <= {number}:
                home = Home("row", self.scratch.add(kernel.names[v] + "_at", size, own=number), size)
            else:
                row = self._row(v)
                home = Home("block", self._block_slot(name, row, block), row)
            home.local = v in local
            kernel.homes[v] = home

    def _outside_slots(self, kernel: Kernel, number: int, band: Band) -> None:
        """Lay out the values outside of a band: one number for each row of a tile."""
        for v in sorted(band.outside):
            size = self._tile_height(number) * DTYPES[self.graph.dtype(v)].size
            kernel.outside[v] = self.scratch.add(f"{kernel.names[v]}_outside", size, own=number)

    def _front_home(self, kernel: Kernel, number: int, v: int) -> Home:
        """Return a home for a value of a front: a row for each row of a block's tile."""
        raise NotImplementedError

    def _tile_height(self, number: int) -> Poly:
        """Return the maximum number of rows of a stage's tiles."""
        return Poly.of(f"tile{number}")

    def _tile_home(self, kernel: Kernel, number: int, v: int) -> Home:
        """Return a home for the rows of a value in a tile: reuses that of a value whose last read is for this one."""
        stage = self.stages.stages[number]
        assert isinstance(stage, RowStage)
        dtype = DTYPES[self.graph.dtype(v)]
        row = row_step(self.graph.shape(v)[len(stage.lead) :], self.target.lanes(dtype.ty)) * dtype.size
        for u, same in self.stages.reads[v].items():
            home = kernel.homes.get(u)
            if (
                same
                and home is not None
                and home.kind == "tile"
                and home.row_bytes == row
                and DTYPES[self.graph.dtype(u)].size == dtype.size
                and stage.last(u, self.stages.reads) == [v]
            ):
                return Home("tile", home.slot, row)
        kernel.tile_bytes[number] = kernel.tile_bytes.get(number, ZERO) + row
        size = row * self._tile_height(number)
        return Home("tile", self.scratch.add(kernel.names[v] + "_tile", size, own=number), row)

    def _row(self, v: int) -> Poly:
        """Return the bytes from one node's row of a value to the next: rows start at cache lines if that is known."""
        size = count(self.graph.shape(v)) * DTYPES[self.graph.dtype(v)].size
        known = size.constant
        return Poly.of(-(-known // 64) * 64) if known is not None else size

    def _stage_slots(self, kernel: Kernel, number: int, stage: ProductStage) -> None:
        passes = passes_of(stage, self.stages, self.target)
        many = most_rows(kernel, number, stage)
        _, rows, pieces = table_of(passes, many)
        if kernel.ragged is not None and number in kernel.ragged.starts:
            kernel.ragged.owners[number] = self.scratch.add("owners", many * 8, own=number)
        dtype = DTYPES[self.graph.dtype(stage.parts[0].product.value)]
        width = self.target.lanes(dtype.ty) * dtype.size
        looked_up = (p.product for p in stage.parts if p.product.form == "lookups")
        tables = max((ProductWriter.inner(p) for p in looked_up), default=0)
        self.slots["stage", number] = Slots(
            self.scratch.add("rows", rows, own=number),
            self.scratch.add("lengths", Poly.of(8 * pieces), own=number),
            self.scratch.add("sums", Poly.of(width * max(p.rows * p.members * p.vectors for p in passes)), own=number),
            tables=self.scratch.add("tables", Poly.of(lookups.scratch_bytes(tables)), own=number) if tables else -1,
        )

    def _group_slots(self, number: int, product: Product, block: Poly) -> None:
        dtype = DTYPES[self.graph.dtype(product.value)]
        (n,) = self.graph.shape(product.value)
        q, rows = tile_shape([1], n, self.target, dtype.name, self.strategy)
        width = q * self.target.lanes(dtype.ty) * dtype.size
        self.groups[number] = GroupSlots(
            matrices=self.scratch.add("matrices", block * 8, own=number),
            vectors=self.scratch.add("vectors", block * 8, own=number),
            order=self.scratch.add("order", block * 8, own=number),
            rows=self.scratch.add("rows", block * 8, own=number),
            length=self.scratch.add("length", Poly.of(8), own=number),
            sums=self.scratch.add("sums", Poly.of(rows * width), own=number),
            panel=self.scratch.add("panel", size_poly(self.graph.shape(product.right)[0]) * width, own=number),
        )

    def _own_slots(self, kernel: Kernel, v: int, number: int, stage: RowStage) -> None:
        """Lay out the scratch of a call of an operation of the user's own; its results in a stage are one call."""
        op = self.graph.op(v)
        assert op is not None
        call, *shapes = op.attrs
        assert isinstance(call, OwnCall)
        taken = {u for own in kernel.own.values() for u in own.values}
        if v in taken:
            return
        values, slots = [-1] * len(shapes), [-1] * len(shapes)
        values[call.number] = v
        for u in (item.value for item in stage.items if isinstance(item, Single) and item.kind == "own"):
            other = self.graph.op(u)
            beside = other.attrs[0] if other is not None and other.args == op.args and u not in taken else None
            if isinstance(beside, OwnCall) and beside.text == call.text and values[beside.number] < 0:
                values[beside.number] = u
        for k, shape in enumerate(shapes):
            if values[k] < 0:
                size = count(shape) * DTYPES[call.dtypes[k]].size  # type: ignore[arg-type]
                slots[k] = self.scratch.add(f"{call.operation.__name__}_{k}", size, own=number)
        _, words = table_places([g.rank for g in call.given] + list(call.ranks))
        table = self.scratch.add("table", Poly.of(8 * words), own=number)
        kernel.own[v] = OwnSlots(table, tuple(values), tuple(slots))

    def _product_slots(self, product: Product, number: int, tiles: bool) -> None:
        """Lay out the scratch of a product of a node's local matrices; `tiles`: whether its stage is in tiles."""
        if product.how != "panel":
            return
        dtype = DTYPES[self.graph.dtype(product.value)]
        most, _ = tile_shape([1], product.columns, self.target, dtype.name, self.strategy)
        lanes = self.target.lanes(dtype.ty)
        sums = (
            max(q * tallest(q, self.target, self.strategy.tile_rows) for q in range(1, most + 1)) * lanes * dtype.size
        )
        shape = self.graph.shape(product.left)
        rows = self._tile_height(number) if tiles else size_poly(shape[-2])
        columns = rounded(product.columns, lanes) if tiles else Poly.of(most * lanes)
        inner = rounded(self.graph.shape(product.right)[-2], lanes)
        self.slots["value", product.value] = Slots(
            self.scratch.add("rows", rows * (8 * len(product.pieces)), own=number),
            self.scratch.add("lengths", Poly.of(8 * len(product.pieces)), own=number),
            self.scratch.add("sums", Poly.of(sums), own=number),
            self.scratch.add("panel", inner * columns * dtype.size, own=number),
        )

    # ---- functions

    def run(self) -> KernelCode:
        functions = self._functions()
        if self.kernel.tiles or self.kernel.owns:  # now it is known how many entries P has before these
            functions = self._functions()
        helpers = [power(name) for name in self.kernel.helpers]
        maths = math.closure(self.kernel.wanted)
        work = self._work() if self.blocked else ()
        exports = ("plan", "run", *(["begin", *(w.stage for w in work)] if work else []))
        shared = tuple(SharedUse(v, p) for v, p in self.kernel.shared)  # type: ignore[arg-type]
        tiles = [TileKey(r + 1, v, t) for (v, t), rows in self.kernel.tiles.items() for r in range(rows)]
        cost = int(min(self.estimate.node(), MOST)) + 1
        block = self.kernel.block.constant or 1
        typical = typical_cost(self.given)
        facts = KernelFacts(
            shared=shared, tiles=tuple(tiles), stages=work, block=block, cost=cost, typical=typical,
            owns=tuple(self.kernel.owns),
        )  # fmt: skip
        whole = tree.Module(
            self.spec.name, (*maths, *helpers, *functions), exports, header=self._header(), notes=facts.notes()
        )
        module = outlined(whole)
        known = {f.name: getattr(facts, f.name) for f in fields(facts)}
        return KernelCode(module=module, **known)

    def _functions(self) -> list[tree.Function]:
        functions: list[tree.Function] = []
        if self.blocked:
            functions.append(self._begin())
            for number, stage in enumerate(self.stages.stages):
                functions.append(self._stage_function(number, stage))
            functions.append(self._blocks())
        else:
            items = [item for s in self.stages.stages if isinstance(s, RowStage) for item in s.items]
            w = ProductWriter(
                self.kernel, self.slots, "run", ("P", "lo", "hi", "S"), f"{self.spec.name}: nodes lo..hi."
            )
            w.rows(items, w.f["lo"], w.f["hi"], None)
            w.f.ret()
            functions.append(w.f.function())
        functions.append(self._plan())
        return functions

    def _header(self) -> str:
        locs = [op.loc for op in self.spec.body if op.loc.line]
        if not locs:
            return f"Kernel {self.spec.name}."
        lines = sorted({loc.line for loc in locs})
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
        return f"Kernel {self.spec.name}: {where} of {Path(locs[0].file).name}."

    def _work(self) -> tuple[StageWork, ...]:
        out = []
        for number, stage in enumerate(self.stages.stages):
            read = 0
            if isinstance(stage, ProductStage):
                read = self.stages.weight_bytes(stage)
            elif stage.grouped is not None:
                left = stage.grouped.left
                read = (count(self.graph.shape(left)).constant or 0) * DTYPES[self.graph.dtype(left)].size
            out.append(StageWork(f"stage_{number}", read))
        return tuple(out)

    @functools.cached_property
    def estimate(self) -> Estimate:
        """Estimated time of the kernel."""
        return estimate(self.stages, self.target)

    def _time(self, w: Writer, name: str, time: Time) -> Expr:
        """Return the nanoseconds that a node takes, or a stage of it."""
        found = dict(time.terms)
        fixed = found.pop((), 0.0) + 1
        if not found:
            return const(int(min(fixed, MOST)), I64)
        total: Expr = const(round(fixed, 2), F64)
        for moving, each in found.items():
            term: Expr = const(round(each, 2) or each, F64)
            for n in moving:
                term = term * convert(w.number(size_poly(n)), F64)
            total = total + term
        total = w.bind(name, total)
        return convert(select(total < float(MOST), total, const(float(MOST), F64)), I64)

    def _stage_function(self, number: int, stage: RowStage | ProductStage) -> tree.Function:
        what = "tiles u0..u1 of products" if isinstance(stage, ProductStage) else "nodes u0..u1, loops"
        if isinstance(stage, RowStage) and stage.lead:
            what = "tiles u0..u1 of rows"
        grouped = isinstance(stage, RowStage) and stage.grouped is not None
        if grouped:
            what = "panels u0..u1 of matrices"
        w = GroupWriter(
            self.kernel, self.slots, f"stage_{number}", ("S", "u0", "u1", "T"), f"Of the block at S: {what}."
        )
        for name, word in (("P", "table"), ("i0", "first"), ("i1", "last")):
            if name != "i1" or isinstance(stage, ProductStage) or (stage.lead and self.ragged) or grouped:
                w.bind(name, tree.load(w.f["S"], BLOCK.at[word]))
        if isinstance(stage, ProductStage):
            w.products(number, stage)
        elif stage.lead:
            Tiles(w, number, stage).write()
        elif stage.grouped is not None:
            w.product(stage.grouped, self.groups[number])
        else:
            w.rows(stage.items, w.f["u0"], w.f["u1"], w.f["i0"])
        w.f.ret()
        return w.f.function()

    def _blocks(self) -> tree.Function:
        w = Writer(self.kernel, "run", ("P", "lo", "hi", "S"), f"{self.spec.name}: nodes lo..hi, in blocks.")
        f = w.f
        if self.kernel.tile_bytes:
            f.store(f["S"], BLOCK.at["finer"], 0)
        i0 = w.variable("i0", f["lo"])
        with f.while_(i0 < f["hi"]), w.scope():
            i1 = f.let("i1", tree.Call("begin", (f["P"], i0, f["hi"], f["S"]), I64))
            for number in range(len(self.stages.stages)):
                units = tree.load(f["S"], word_of(number, "count"))
                f.do(tree.Call(f"stage_{number}", (f["S"], const(0, I64), units, f["S"]), tree.VOID))
            f.set(i0, i1)
        f.ret()
        return f.function()

    def _begin(self) -> tree.Function:
        """Return the function that describes a block: its nodes, the units of its stages, where its operands are."""
        doc = "Describe the block from node i0 on; return its end."
        w = ProductWriter(self.kernel, self.slots, "begin", ("P", "i0", "hi", "S"), doc)
        w.f.result = I64
        w.f.store(w.f["S"], BLOCK.at["table"], w.f["P"])
        w.f.store(w.f["S"], BLOCK.at["first"], w.f["i0"])
        last = self._ragged_nodes(w) if self.ragged else self._equal_nodes(w)
        w.f.store(w.f["S"], BLOCK.at["last"], last)
        w.f.ret(last)
        return w.f.function()

    def _equal_nodes(self, w: ProductWriter) -> Expr:
        """Describe a block of nodes of which all are alike; return its end."""
        f, s = w.f, w.f["S"]
        end = w.bind("end", f["i0"] + w.number(self.kernel.block))
        i1 = w.bind("i1", select(end < f["hi"], end, f["hi"]))
        nodes = w.bind("count", i1 - f["i0"])
        f.store(s, BLOCK.at["own"], self.scratch.fixed()[1])
        for number, stage in enumerate(self.stages.stages):
            if isinstance(stage, ProductStage):
                many = w.units(stage, w.rows_of(stage, nodes))
            else:
                many = nodes * units(w, number, stage) if stage.lead else nodes
                if stage.grouped is not None:
                    many = const(group_units(self.kernel, stage.grouped), I64)
            f.store(s, word_of(number, "count"), many)
            f.store(s, word_of(number, "time"), nodes * self._time(w, "time", self.estimate.steady(number)))
            for name in ("times", "starts"):
                f.store(s, word_of(number, name), 0)
        if self.kernel.table or self.gathered:
            f.comment("the operands of the block's nodes")
            at = w.bind("words_at", tree.load(f["P"], PARAMETERS.at["nodes"]))
            with w.loop("r", 0, nodes) as r:
                self._operands(w, r, w.bind("words_of", tree.load(at, f["i0"] + r)))
        return i1

    def _ragged_nodes(self, w: ProductWriter) -> Expr:
        """Describe a block of nodes with run-time extents; return its end."""
        rows = None if self._alone else self.kernel.block.constant
        return BlockOfNodes(
            w, rows, lambda k: self._time(w, "time", self.estimate.steady(k)), partial(self._operands, w)
        ).write()

    def _operands(self, w: Writer, r: Expr, words: Expr) -> None:
        """Note where the operands of a node of the block are, or copy them to its rows."""
        f = w.f
        table = w.scratch(self.kernel.table_slot) if self.kernel.table else None
        for v in [*self.kernel.table, *self.gathered]:
            operand, name = self.spec.operands[v], self.kernel.names[v]
            word = tree.load(words, operand.index)
            if operand.kind == "tensor":
                word = tree.load(w.bind(f"{name}_record", word))
            word = w.bind(name, word)
            if table is not None and v in self.kernel.table:
                f.store(w.plus(table, self.kernel.block * (8 * self.kernel.table[v])), r, word)
            else:
                size = w.number(count(self.graph.shape(v)) * DTYPES[self.graph.dtype(v)].size)
                w.row = r
                to = w.block_row(f"{name}_row", self.kernel.gathered[v])
                f.do(intrinsic("copy_bytes", to, word, size, type=tree.VOID))

    def _plan(self) -> tree.Function:
        w = Writer(
            self.kernel, "plan", ("D", "OUT"), doc="Bytes of scratch, and of each result of a node; nanoseconds."
        )
        total: Expr = const(self.scratch.fixed()[1], I64)
        for number, stage in enumerate(self.stages.stages):
            if self.ragged and isinstance(stage, ProductStage) and count(stage.lead).constant is None:
                rows = w.bind("rows", w.number(count(stage.lead)))
                least = w.number(self.kernel.block)
                w.symbols[f"rows{number}"] = w.bind("rows", select(rows < least, least, rows))
        if self.scratch.dynamic():
            size, most = w.bind("size", w.ends()), self.strategy.ragged_bytes
            total = total + select(size < most, const(most, I64), size)
        own: Expr | None = None
        for number in range(len(self.stages.stages)):
            if self.scratch.dynamic(number):
                end = w.bind("end", w.ends(number))
                own = end if own is None else w.bind("own", select(own < end, end, own))
        total = total if own is None else total + own
        w.f.store(w.f["OUT"], 0, total)
        w.f.store(w.f["OUT"], 2 + len(self.spec.results), self._time(w, "time", self.estimate.steady()))
        return self._sizes(w)

    def _sizes(self, w: Writer) -> tree.Function:
        for k, v in enumerate(self.spec.results):
            w.f.store(w.f["OUT"], 1 + k, w.number(count(self.graph.shape(v)) * DTYPES[self.graph.dtype(v)].size))
        w.f.store(w.f["OUT"], 1 + len(self.spec.results), self._largest(w.f))
        w.f.ret()
        return w.f.function()

    def _largest(self, f: Builder) -> Expr:
        """Return the bytes of the largest tensor of a node. The other sizes are meaningless if these are too many."""
        sizes: dict[tuple[int, ...], int] = {}  # run-time extents -> the other factors
        for op in self.spec.body:
            fixed = DTYPES[op.dtype].size
            for n in op.shape:
                fixed *= 1 if isinstance(n, Dim) else n
            moving = tuple(sorted(n.index for n in op.shape if isinstance(n, Dim)))
            sizes[moving] = max(fixed, sizes.get(moving, 0))
        largest = f.let("largest", const(float(sizes.pop((), 0)), F64))
        f.comment("in floating point, which does not wrap")
        for moving, fixed in sorted(sizes.items()):
            size: Expr = const(float(fixed), F64)
            for k in moving:
                size = size * convert(tree.load(f["D"], k), F64)
            size = f.let("size", size)
            f.set(largest, select(size > largest, size, largest))
        return convert(select(largest < 2.0**62, largest, const(2.0**62, F64)), I64)


def power(name: str) -> tree.Function:
    """Return the power of integers by repeated squaring; the exponent is not negative."""
    ty = tree.Ty("i", int(name.rsplit("i", 1)[1]))
    f = Builder(name, [("a", ty), ("b", ty)], result=ty, doc="a to the power b, wrapping.")
    out = f.let("out", const(1, ty))
    base = f.let("base", f["a"])
    left = f.let("left", f["b"])
    with f.while_(left.ne(const(0, ty))):
        with f.when((left & 1).ne(const(0, ty))):
            f.set(out, out * base)
        f.set(base, base * base)
        f.set(left, intrinsic("lshr", left, const(1, ty)))
    f.ret(out)
    return f.function()
