"""Launches of a kernel for a GPU, emulated: arrays of random numbers in memory, as the runtime would lay them out.

In: a `KernelSpec`, its code, a number of nodes. Out: what each warp of a block issues, and results, to be compared with
those of the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import interpret
from acronumba.ir.spec import FAR, Dim, KernelSpec, Operand, Size
from acronumba.kernels.cuda.compat import Machine
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import BARRIER, STEP, PersistentCode
from acronumba.kernels.cuda.stream import TAG_BYTES
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.cuda.writer import WARPS, Grid
from acronumba_bench.gpu import cycles, sass
from acronumba_bench.gpu.emulate import Block, Issued, Memory

Array = NDArray[Any]


def blocks_of(grids: tuple[Grid, ...], counts: list[int], most: int) -> int:
    """Return the number of blocks of a launch, as `runtime.library.launch.blocks_of` chooses it.

    `counts`: of nodes, and of whatever else grids count.
    """
    wanted = [-(-counts[g.counted] // g.nodes) * g.times for g in grids]
    if grids[0].panels:
        return grids[0].panels * min(wanted[0], max(cycles.PROCESSORS // grids[0].panels, 1))
    times = [-(-n // cycles.PROCESSORS) * g.cost for n, g in zip(wanted, grids, strict=True)]
    best = 0
    for k in range(1, len(grids)):
        if wanted[k] <= most and times[k] < times[best]:
            best = k
    return min(wanted[best], most)


@cache
def _read(code: bytes, entry: str) -> sass.Code:
    return sass.read(code, entry)


@dataclass
class Launch:
    """A batch of a kernel: its arrays in memory; the operands of each node are kept for comparison."""

    spec: KernelSpec
    code: CudaCode
    nodes: int
    extent: int = 8  # of all run-time extents
    seed: int = 0
    at: Callable[[int], int] | None = None  # where so many bytes will lie, if not here

    def __post_init__(self) -> None:
        spec, table, nodes = self.spec, self.code.table, self.nodes
        self.rng = np.random.default_rng(self.seed)
        dims = [self.extent] * spec.dims
        size = self._bytes()
        self.memory = Memory(size, self.at(size + 512) if self.at else 0)
        self.given: list[dict[int, Array]] = [{} for _ in range(nodes)]
        words = np.zeros(table.words * nodes + len(table.counted) * (nodes + 1) + 1, np.int64)
        columns = words[: table.words * nodes].reshape(table.words, nodes)
        starts = words[table.words * nodes : -1].reshape(len(table.counted), nodes + 1)
        for o in spec.operands:
            if o.kind != "shared":
                columns[o.index] = [self._word(o, i) for i in range(nodes)]
        batch, own, sizes, added = self._sizes(dims)
        self.results: list[list[int]] = []
        for k, v in enumerate(spec.results):
            op = spec.body[v - len(spec.operands)]
            row = np.zeros(self._shape(op.shape), op.dtype)
            assert sizes[k] == row.nbytes
            first = self.memory.place(np.zeros((nodes, *row.shape), op.dtype))
            self.results.append([first + i * row.nbytes for i in range(nodes)])
            if spec.dims:
                columns[table.result(k)] = self.results[-1]
        if spec.dims:
            columns[table.arguments : table.arguments + spec.dims] = self.extent
            if table.places:
                columns[table.place] = added[0] * np.arange(nodes)  # behind the scratch that all nodes share
            starts[:] = np.outer(added[1:], np.arange(nodes + 1))
        self.counts = [nodes, *(int(n) * nodes for n in added[1:])]
        scratch = self.memory.place(np.zeros(batch + int(added[0]) * nodes + 64, np.uint8))
        self.own, self.scratch = own, scratch
        failures = np.zeros(max(nodes, 1), np.int64)
        p = [self.memory.place(words), self.memory.place(failures), own, 0]
        p += [0 if spec.dims else found[0] for found in self.results]
        self.shared: dict[int, Array] = {}
        for use in self.code.shared:
            arrays = [self._shared(v) for v in use.operands]
            packed = arrays[0] if use.packing is None else use.packing.apply(*arrays)  # type: ignore[arg-type]
            p.append(self.memory.place(packed))
        self.p = self.memory.place(np.array(p, np.int64))

    def _bytes(self) -> int:
        """Return an upper bound of the memory that all arrays take."""
        spec = self.spec
        total = 1 << 26  # scratch of many blocks, too
        for o in spec.operands:
            size = 8 * int(np.prod(self._shape(o.shape), dtype=np.int64)) + 1024
            total += (2 * size if o.kind == "shared" else size * self.nodes) * 2
        for op in spec.body:
            total += (8 * int(np.prod(self._shape(op.shape), dtype=np.int64)) + 1024) * (self.nodes + 8)
        return total

    def _shape(self, shape: Iterable[Size]) -> tuple[int, ...]:
        return tuple(self.extent if isinstance(n, Dim) or n == FAR else n for n in shape)

    def _values(self, shape: tuple[int, ...], dtype: str) -> Array:
        if "float" in dtype:
            return np.tanh(self.rng.standard_normal(shape)).astype(dtype)
        return self.rng.integers(0, 2, shape).astype(dtype)

    def _word(self, o: Operand, i: int) -> int:
        """Return the argument word of a node."""
        shape = self._shape(o.shape)
        match o.kind:
            case "tensor":
                x = self.given[i][o.index] = self._values(shape, o.dtype)
                return self.memory.place(x, 64)
            case "float":
                return int(np.float64(0.5).view(np.int64))
            case "list":
                rows = [self.memory.place(self._values(shape[1:], o.dtype), 64) for _ in range(shape[0])]
                return self.memory.place(np.array([*rows, 0], np.int64))
            case "numbers":
                return self.memory.place(np.zeros(shape[0] + 1, np.int64))
        return int(self.rng.integers(0, self._choices(o)))

    def _choices(self, o: Operand) -> int:
        """Return how many values an integer may have: as many as there are rows of all tables whose row it names."""
        v = self.spec.operands.index(o)
        uses = [op for op in self.spec.body if v in op.args]
        most = [self._shape(self.spec.operands[op.args[0]].shape)[0] for op in uses
                if op.op == "take" and op.attrs == (0,) and op.args[0] < len(self.spec.operands)]  # fmt: skip
        return min(most) if most and len(most) == len(uses) else 2

    def _shared(self, v: int) -> Array:
        if v not in self.shared:
            shape = self._shape(self.spec.operands[v].shape)
            scale = np.sqrt(shape[-1]) if shape else 1
            dtype = self.spec.operands[v].dtype
            self.shared[v] = (self._values(shape, dtype) / scale).astype(dtype)
        return self.shared[v]

    def _sizes(self, dims: list[int]) -> tuple[int, int, Array, Array]:
        """Return bytes of scratch of the batch and of a warp, of each result, and what a node adds."""
        memory = interpret.InterpreterMemory()
        sizes = np.zeros(3 + len(self.spec.results), np.int64)
        added = np.zeros(1 + len(self.code.table.counted), np.int64)
        extents = np.array([*dims, 0], np.int64)
        for array in (sizes, added, extents):
            memory.add(array)
        interpret.run(self.code.sizes, "sizes", [extents.ctypes.data, self.nodes, sizes.ctypes.data], memory)
        if self.spec.dims:
            interpret.run(self.code.sizes, "adds", [extents.ctypes.data, added.ctypes.data], memory)
        return int(sizes[0]), int(sizes[1]), sizes[2:], added

    def run(self, machine: Machine, entry: str, blocks: int, block: int) -> list[list[Issued]]:
        """Run one block of a function; return what its warps issue."""
        top = self.memory.top  # scratch memory of warps is free again afterwards
        own = self.memory.place(np.zeros(self.own * blocks * WARPS + 64, np.uint8))
        pool = self.code.grids[self.code.entries.index(entry)][0].pool
        arguments = (self.p, self.nodes, self.scratch, own)
        one = Block(_read(machine.code, entry), self.memory, arguments, THREADS, blocks, block, machine.shared + pool)
        issued, self.memory.top = one.run(), top
        return issued

    def estimate(self, machine: Machine, entry: str, grids: tuple[Grid, ...], resident: int) -> tuple[int, int]:
        """Return the blocks of a launch of a function, and its cycles."""
        blocks = blocks_of(grids, self.counts, cycles.PROCESSORS * resident)
        together = min(-(-blocks // cycles.PROCESSORS), resident)
        most = 0
        for block in dict.fromkeys((0, blocks - 1)):
            trace = self.run(machine, entry, blocks, block)
            most = max(most, cycles.cycles([trace] * together, busy=min(blocks, cycles.PROCESSORS)))
        return blocks, most

    def step(self, machine: Machine, code: PersistentCode) -> int:
        """Estimate the cycles of the batch as a step of the kernel that runs all, here of this kernel alone.

        Its weights have stayed in shared memory, and there is nobody to wait for; a function is a level.
        """
        barrier = np.zeros(BARRIER.count, np.int64)
        barrier[BARRIER.at["come"]], barrier[BARRIER.at["looks"]] = 1 << 30, 1
        rows = self.rows()
        taken = []
        for times in (2, 3):
            steps = self.table(rows, times), len(rows) * times, self.memory.place(barrier), 0
            blocks = max(row["blocks"] for row in rows)
            one = Block(_read(machine.code, "run"), self.memory, steps, THREADS, blocks, 0, code.shared)
            taken.append(cycles.cycles([one.run()], busy=blocks))
        return taken[1] - taken[0]

    def rows(self) -> list[dict[str, int]]:
        """Return the batch as steps of the kernel that runs all, here of this kernel alone: words of `STEP`."""
        own = np.zeros(self.own * cycles.PROCESSORS * WARPS + 64, np.uint8)
        common = {"nodes": self.nodes, "p": self.p, "scratch": self.scratch, "warps": self.memory.place(own)}
        rows, kept = [], 0
        for function, grids in enumerate(self.code.grids):
            blocks = blocks_of(grids, self.counts, cycles.PROCESSORS)
            own_words = {"function": function, "blocks": blocks, "kept": kept, "tags": function * TAG_BYTES}
            rows.append(common | own_words)
            kept += grids[0].kept
        return rows

    def table(self, rows: list[dict[str, int]], times: int) -> int:
        """Place the steps so many times, each of which waits for all before; return their address."""
        words, wanted = [], 0
        for row in rows * times:
            words.append([(row | {"wanted": wanted}).get(name, 0) for name in STEP.at])
            wanted += row["blocks"]
        return self.memory.place(np.array(words, np.int64))

    def result(self, k: int, i: int) -> Array:
        """Return a result of a node."""
        op = self.spec.body[self.spec.results[k] - len(self.spec.operands)]
        return self.memory.read(self.results[k][i], np.zeros(self._shape(op.shape), op.dtype))
