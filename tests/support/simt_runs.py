"""Runs kernels generated for a GPU on NumPy operands, in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.emit import interpret
from acronumba.ir.spec import FIXED, KernelSpec
from acronumba.kernels.cuda import generate, persistent, simulator, stream
from acronumba.kernels.cuda.writer import THREADS, WARPS
from acronumba.strategy import DEFAULT, Strategy
from tests.support.aligned import aligned_zeros
from tests.support.kernel_runs import extents_of

Array = Any


@dataclass
class Simulated:
    """A kernel, ready to run; see `kernel_runs.Runner`."""

    spec: KernelSpec
    code: generate.CudaCode
    seed: int = 0
    together: bool = False  # as a launch of the kernel that runs all, twice, so that the second time panels have stayed

    def __call__(
        self, nodes: Sequence[Sequence[Array]], shared: dict[int, Array] | None = None, dims: Sequence[int] = (),
        parts: Sequence[tuple[int, int]] | None = None, poison: bool = True, units: int = 0, times: int = 0,
        each: Sequence[Sequence[int]] | None = None,
    ) -> tuple[list[Any], Array]:  # fmt: skip
        """Run a batch, or parts of it one after the other; with `units`, by so many blocks.

        `each`: run-time extents of each node, where they are not all `dims`; results are lists of arrays, then.
        """
        spec, code = self.spec, self.code
        every = [tuple(own) for own in each] if each is not None else [tuple(dims)] * len(nodes)
        out: list[list[list[Array]]] = []
        failed = []
        for lo, hi in parts or [(0, len(nodes))]:
            blocks = units or -(-(hi - lo) // WARPS)
            results, failures = self.batch(nodes[lo:hi], shared or {}, every[lo:hi], blocks, times)
            out.append(results)
            failed.append(failures)
        assert code.entries and spec.results
        columns = [[x for part in column for x in part] for column in zip(*out, strict=True)]
        if each is not None:
            return columns, np.concatenate(failed)
        shapes = [extents_of(spec.body[v - len(spec.operands)].shape, dims) for v in spec.results]
        dtypes = [spec.body[v - len(spec.operands)].dtype for v in spec.results]
        stacked = [
            np.array(column, dtype).reshape(len(nodes), *shape)
            for column, dtype, shape in zip(columns, dtypes, shapes, strict=True)
        ]
        return stacked, np.concatenate(failed)

    def batch(
        self, nodes: Sequence[Sequence[Array]], shared: dict[int, Array], every: Sequence[Sequence[int]], blocks: int,
        times: int,
    ) -> tuple[list[list[Array]], Array]:  # fmt: skip
        spec, code = self.spec, self.code
        memory = interpret.InterpreterMemory()
        keep: list[Any] = []

        def place(array: Array) -> int:
            keep.append(array)
            memory.add(array)
            return int(array.ctypes.data)

        table = code.table
        words = np.zeros(table.words * len(nodes) + len(table.counted) * (len(nodes) + 1) + 1, np.int64)
        starts = words[table.words * len(nodes) : -1].reshape(len(table.counted), len(nodes) + 1)
        columns = words[: table.words * len(nodes)].reshape(table.words, len(nodes))
        placed: dict[int, int] = {}
        for i, node in enumerate(nodes):
            given = iter(node)
            for o in spec.operands:
                if o.kind == "shared":
                    continue
                x = next(given)
                match o.kind:
                    case "tensor":
                        array = np.array(x, o.dtype, order="C")
                        columns[o.index, i] = place(array) if array.size else 0
                    case "float":
                        columns[o.index, i] = np.float64(x).view(np.int64)
                    case "list":
                        rows = [place(np.array(row, o.dtype, order="C")) for row in x]
                        columns[o.index, i] = place(np.array([*rows, 0], np.int64))
                    case "numbers":
                        columns[o.index, i] = place(
                            np.array([*x, 0], o.dtype if o.dtype != "bool" else np.int64).view(np.int64)
                        )
                    case _:
                        columns[o.index, i] = int(x)
        results: list[list[Array]] = [[] for _ in spec.results]
        sizes = np.zeros(3 + len(spec.results), np.int64)
        added = np.zeros(1 + len(table.counted), np.int64)
        place(sizes), place(added)
        whole = own_bytes = 0
        for i, dims in enumerate(every or [(0,) * spec.dims]):
            extents = place(np.array([*dims, 0], np.int64))
            interpret.run(code.sizes, "sizes", [extents, len(nodes), sizes.ctypes.data], memory)
            whole = whole or int(sizes[0])
            own_bytes = max(own_bytes, int(sizes[1]))
            if i == len(nodes):
                break
            for k, v in enumerate(spec.results):
                op = spec.body[v - len(spec.operands)]
                row = np.full(extents_of(op.shape, dims), 7, op.dtype)
                assert sizes[2 + k] == row.itemsize * int(np.prod(row.shape)), "bytes of a result"
                results[k].append(row)
            if not spec.dims:
                continue
            interpret.run(code.sizes, "adds", [extents, added.ctypes.data], memory)
            columns[table.arguments : table.arguments + spec.dims, i] = dims
            for k in range(len(spec.results)):
                columns[table.result(k), i] = place(results[k][i]) if results[k][i].size else 0
            if table.places:
                columns[table.place, i] = whole - int(sizes[0])
            whole += int(added[0])
            starts[:, i + 1] = starts[:, i] + added[1:]
        failures = np.zeros(max(len(nodes), 1), np.int64)
        scratch = aligned_zeros((whole + 64,), "uint8")
        own = aligned_zeros((own_bytes * blocks * WARPS + 64,), "uint8")
        scratch[:whole] = own[: own_bytes * blocks * WARPS] = 255
        rows = [0] * len(results)
        if not spec.dims:
            for k, found in enumerate(results):
                stacked = np.array(found).reshape(len(nodes), *found[0].shape) if found else np.zeros(0)
                results[k] = [stacked[i, ...] for i in range(len(nodes))]
                rows[k] = place(stacked) if stacked.size else 0
        p_words = [place(words), place(failures), own_bytes, times, *rows]
        assert len(p_words) == FIXED + len(results)
        for use in code.shared:
            arrays = [np.array(shared[v], spec.operands[v].dtype, order="C") for v in use.operands]
            packed = arrays[0] if use.packing is None else use.packing.apply(*arrays)  # type: ignore[arg-type]
            p_words.append(placed.setdefault(id(packed), place(packed) if packed.size else 0))
        p = place(np.array(p_words, np.int64))
        given = p, len(nodes), place(scratch), place(own)
        if self.together:
            self.run_together(memory, given, blocks)
        else:
            gpu = simulator.Simulator(code.source, memory, self.seed)
            for entry, grids in zip(code.entries, code.grids, strict=True):
                gpu.launch(entry, blocks, THREADS, *given, shared=grids[0].pool)
        assert not scratch[whole:].any(), "scratch overrun"
        return results, failures[: len(nodes)]

    def run_together(self, memory: interpret.InterpreterMemory, given: tuple[int, int, int, int], blocks: int) -> None:
        """Run the functions twice in one launch; each is a level, by all blocks."""
        code = persistent.persistent([self.code], 227 << 10)
        p, nodes, scratch, warps = given
        place = tags = 0
        rows = []
        for function, grids in enumerate(self.code.grids):
            row = {"function": function, "nodes": nodes, "p": p, "scratch": scratch, "warps": warps, "blocks": blocks}
            rows.append(row | {"kept": place, "tags": tags})
            place += grids[0].kept
            tags += stream.TAG_BYTES
        rows = [row | {"wanted": k * blocks} for k, row in enumerate(rows * 2)]
        steps = np.array([[row.get(name, 0) for name in persistent.STEP.at] for row in rows], np.int64)
        barrier = np.array([0, 0, 1 << 20, 0], np.int64)
        memory.add(steps)
        memory.add(barrier)
        gpu = simulator.Simulator(code.source, memory, self.seed)
        at = steps.ctypes.data, len(steps), barrier.ctypes.data, 0  # there are no further rounds
        gpu.launch("run", blocks, THREADS, *at, shared=code.shared)


def simulate_all(specs: Sequence[KernelSpec], strategy: Strategy = DEFAULT) -> list[Simulated]:
    return [Simulated(spec, generate.generate(spec, strategy)) for spec in specs]
