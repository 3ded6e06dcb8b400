"""Runs kernels generated for a GPU on NumPy operands, in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.emit import interpret
from acronumba.ir.spec import FIXED, Dim, KernelSpec
from acronumba.kernels.cuda import generate, simulator
from acronumba.kernels.cuda.writer import THREADS, WARPS
from acronumba.kernels.strategy import EVERYTHING, Fusion
from tests.support.aligned import aligned_zeros

Array = Any


@dataclass
class Simulated:
    """A kernel, ready to run; see `kernel_runs.Runner`."""

    spec: KernelSpec
    code: generate.CudaCode
    seed: int = 0

    def __call__(
        self, nodes: Sequence[Sequence[Array]], shared: dict[int, Array] | None = None, dims: Sequence[int] = (),
        parts: Sequence[tuple[int, int]] | None = None, poison: bool = True, units: int = 0, times: int = 0,
    ) -> tuple[list[Array], Array]:  # fmt: skip
        """Run a batch, or parts of it one after the other; with `units`, by so many blocks."""
        spec, code = self.spec, self.code
        out: list[list[Array]] = []
        failed = []
        for lo, hi in parts or [(0, len(nodes))]:
            results, failures = self.batch(nodes[lo:hi], shared or {}, dims, units or -(-(hi - lo) // WARPS), times)
            out.append(results)
            failed.append(failures)
        assert code.entries and spec.results
        return [np.concatenate(column) for column in zip(*out, strict=True)], np.concatenate(failed)

    def batch(
        self, nodes: Sequence[Sequence[Array]], shared: dict[int, Array], dims: Sequence[int], blocks: int, times: int
    ) -> tuple[list[Array], Array]:
        spec, code = self.spec, self.code
        memory = interpret.Memory()
        keep: list[Any] = []

        def place(array: Array) -> int:
            keep.append(array)
            memory.add(array)
            return int(array.ctypes.data)

        extents = np.array([*dims, 0], np.int64)
        sizes = np.zeros(3 + len(spec.results), np.int64)
        interpret.run(code.sizes, "sizes", [place(extents), len(nodes), place(sizes)], memory)
        words = np.zeros((max(1, sum(o.kind != "shared" for o in spec.operands)), len(nodes)), np.int64)
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
                        words[o.index, i] = place(array) if array.size else 0
                    case "float":
                        words[o.index, i] = np.float64(x).view(np.int64)
                    case "list":
                        rows = [place(np.array(row, o.dtype, order="C")) for row in x]
                        words[o.index, i] = place(np.array([*rows, 0], np.int64))
                    case "numbers":
                        words[o.index, i] = place(
                            np.array([*x, 0], o.dtype if o.dtype != "bool" else np.int64).view(np.int64)
                        )
                    case _:
                        words[o.index, i] = int(x)
        results = []
        for k, v in enumerate(spec.results):
            op = spec.body[v - len(spec.operands)]
            shape = tuple(dims[n.index] if isinstance(n, Dim) else n for n in op.shape)
            row = np.full((len(nodes), *shape), 7, op.dtype)
            assert sizes[2 + k] == row.itemsize * int(np.prod(shape)), "bytes of a row"
            results.append(row)
        failures = np.zeros(max(len(nodes), 1), np.int64)
        scratch = aligned_zeros((int(sizes[0]) + 64,), "uint8")
        own = aligned_zeros((int(sizes[1]) * blocks * WARPS + 64,), "uint8")
        scratch[: int(sizes[0])] = own[: int(sizes[1]) * blocks * WARPS] = 255
        table = [place(words), place(failures), place(extents), times, *(place(r) if r.size else 0 for r in results)]
        assert len(table) == FIXED + len(results)
        for use in code.shared:
            arrays = [np.array(shared[v], spec.operands[v].dtype, order="C") for v in use.operands]
            packed = arrays[0] if use.packing is None else use.packing.apply(*arrays)  # type: ignore[arg-type]
            table.append(placed.setdefault(id(packed), place(packed) if packed.size else 0))
        p = place(np.array(table, np.int64))
        gpu = simulator.Simulator(code.source, memory, self.seed)
        for entry in code.entries:
            gpu.launch(entry, blocks, THREADS, p, len(nodes), place(scratch), place(own))
        assert not scratch[int(sizes[0]) :].any(), "scratch overrun"
        return results, failures[: len(nodes)]


def simulate_all(specs: Sequence[KernelSpec], fusion: Fusion = EVERYTHING) -> list[Simulated]:
    return [Simulated(spec, generate.generate(spec, fusion)) for spec in specs]
