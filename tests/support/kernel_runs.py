"""Runs generated kernels on NumPy operands, compiled or interpreted: the test double of the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.emit import compile as compiler
from acronumba.emit import interpret, tree
from acronumba.emit.target import Target, host
from acronumba.errors import NOWHERE
from acronumba.ir.spec import BLOCK, Dim, KernelOp, KernelSpec, Operand, Size, plan_words
from acronumba.kernels import cpu
from acronumba.kernels.tiles import tile_module
from acronumba.kernels.write.blocks import word_of
from acronumba.strategy import DEFAULT, Strategy
from tests.support.aligned import aligned_zeros

Array = Any


class SpecBuilder:
    """Makes specs by hand: `b.op("add", x, y, shape=...)`."""

    def __init__(self, name: str = "kernel", dims: int = 0) -> None:
        self.name, self.dims = name, dims
        self.operands: list[Operand] = []
        self.body: list[tuple[Any, ...]] = []
        self.values: list[tuple[str, tuple[Size, ...]]] = []
        self.arguments = self.shareds = 0

    def operand(self, kind: str, name: str, dtype: str = "", shape: tuple[Size, ...] = ()) -> int:
        assert not self.body, "operands first"
        dtype = dtype or {"int": "int64", "float": "float64", "bool": "bool"}[kind]
        index = self.shareds if kind == "shared" else self.arguments
        if kind == "shared":
            self.shareds += 1
        else:
            self.arguments += 1
        self.operands.append(Operand(kind, name, dtype, shape, index))
        self.values.append((dtype, shape))
        return len(self.values) - 1

    def tensor(self, name: str, *shape: Size, dtype: str = "float32") -> int:
        return self.operand("tensor", name, dtype, shape)

    def shared(self, name: str, *shape: Size, dtype: str = "float32") -> int:
        return self.operand("shared", name, dtype, shape)

    def op(
        self, op: str, *args: int, shape: tuple[Size, ...], dtype: str = "float32",
        attrs: tuple[Any, ...] = (), name: str = "",
        site: int = -1,
    ) -> int:  # fmt: skip
        self.body.append(KernelOp(op, args, attrs, dtype, shape, name, site, NOWHERE))
        self.values.append((dtype, shape))
        return len(self.values) - 1

    def spec(self, *results: int) -> KernelSpec:
        return KernelSpec(self.name, tuple(self.operands), self.dims, tuple(self.body), results)


def extents_of(shape: Sequence[Size], dims: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with the run-time extents of a node."""
    return tuple(dims[n.index] if isinstance(n, Dim) else n for n in shape)


@dataclass
class Runner:
    """A generated kernel, ready to run."""

    spec: KernelSpec
    code: cpu.KernelCode
    compiled: Any  # None: interpreted
    tiles: dict[Any, int]
    keep: list[Any]

    def call(self, memory: interpret.InterpreterMemory | None, name: str, *args: int) -> Any:
        if self.compiled is None:
            return interpret.run(self.code.module, name, args, memory)
        return self.compiled.call(name, *args)

    def __call__(
        self, nodes: Sequence[Sequence[Array]], shared: dict[int, Array] | None = None, dims: Sequence[int] = (),
        parts: Sequence[tuple[int, int]] | None = None, poison: int = 255, units: int = 0, times: int = 0,
        each: Sequence[Sequence[int]] | None = None, finer: int = 0,
    ) -> tuple[list[Array], Array]:  # fmt: skip
        """Run a batch; `nodes[i]` are the operands of node i in the order of the spec without the shared ones.

        An array that several nodes are given is one array in memory.
        With `units`, each stage is cut into so many, as threads share it: the last is run first, each finds scratch of
        its own in which nothing was left, and no two may write to the same place of what they share.

        `times`: how many batches the kernel has run before. `poison`: what each byte of scratch is at first. Of 127,
        all numbers there are so large that their products are infinite: if one was multiplied, that is an error.

        `each`: run-time extents of each node, where they are not all `dims`. `finer`: how often tiles are halved, with
        `units`.

        Returns the results, one array with a leading axis for the batch each (with `each`: a list of arrays), and the
        failures.
        """
        spec, code = self.spec, self.code
        memory = interpret.InterpreterMemory() if self.compiled is None else None
        keep: list[Any] = []

        def place(array: Array) -> int:
            keep.append(array)
            if memory is not None:
                memory.add(array)
            return array.ctypes.data  # type: ignore[no-any-return]

        every = [tuple(own) for own in each] if each is not None else [tuple(dims)] * len(nodes)
        plan = np.zeros(plan_words(len(spec.results)), np.int64)
        shared = shared or {}
        given = [v for v, o in enumerate(spec.operands) if o.kind != "shared"]
        count = max([o.index for o in spec.operands if o.kind != "shared"], default=0) + 1
        width = count + spec.dims + len(spec.results)
        words = np.zeros((max(len(nodes), 1), width), np.int64)
        placed: dict[tuple[int, str], int] = {}
        for i, operands in enumerate(nodes):
            words[i, count : count + spec.dims] = every[i]
            for v, x in zip(given, operands, strict=True):
                o = spec.operands[v]
                if o.kind == "tensor":
                    if (id(x), o.dtype) not in placed:
                        data = np.array(x, o.dtype, order="C")
                        assert data.shape == extents_of(o.shape, every[i]), o
                        placed[id(x), o.dtype] = place(data)
                    record = np.array([placed[id(x), o.dtype], 0, 0], np.int64)
                    words[i, o.index] = place(record)
                elif o.kind == "float":
                    words[i, o.index] = np.float64(x).view(np.int64)
                else:
                    words[i, o.index] = int(x)
        base = place(words)
        at = np.array([base + 8 * width * i for i in range(len(nodes))] + [0], np.int64)
        failures = np.zeros(max(len(nodes), 1), np.int64)
        place(plan)
        results: list[Any] = [[] for _ in spec.results]
        size = 0
        for i, own in enumerate(every or [tuple(dims)]):
            extents = np.array([*own, 0], np.int64)
            self.call(memory, "plan", place(extents), plan.ctypes.data)
            size = max(size, int(plan[0]))
            for k, v in enumerate(spec.results if i < len(nodes) else ()):
                op = spec.body[v - len(spec.operands)]
                shape = extents_of(op.shape, own)
                assert plan[1 + k] == np.dtype(op.dtype).itemsize * int(np.prod(shape)), "bytes of a result"
                results[k].append(np.full(shape, 7, op.dtype))
        whole = [np.concatenate([np.ravel(x) for x in found]) if found else np.zeros(0) for found in results]
        starts = []
        for k, (found, array) in enumerate(zip(results, whole, strict=True)):
            starts.append(place(array))
            before = 0
            for i, x in enumerate(found):
                words[i, count + spec.dims + k] = starts[k] + array.itemsize * before
                found[i] = array[before : before + x.size].reshape(x.shape)
                before += x.size
        scratch = aligned_zeros((size + 64,), "uint8")
        scratch[:] = poison
        scratch[size:] = 0
        if spec.dims:
            starts = [8 * (count + spec.dims + k) for k in range(len(spec.results))]
        table = [place(at), place(failures), 8 * count, times, *starts]
        for use in code.shared:
            arrays = [np.array(shared[v], spec.operands[v].dtype, order="C") for v in use.operands]
            assert [a.shape for a in arrays] == [spec.operands[v].shape for v in use.operands]
            table.append(place(arrays[0] if use.packing is None else use.packing.apply(*arrays)))
        if memory is not None and code.tiles:
            addresses: dict[Any, int] = {}
            functions = memory.add_module(tile_module(code.tiles, host()))
            addresses = {key: functions[key.name] for key in code.tiles}
        else:
            addresses = self.tiles
        table += [addresses[key] for key in code.tiles]
        p = np.array(table, np.int64)
        place(p), place(scratch)
        for lo, hi in parts or [(0, len(nodes))]:
            if not units or not code.stages:
                self.call(memory, "run", p.ctypes.data, lo, hi, scratch.ctypes.data)
                continue
            while lo < hi:
                scratch[8 * BLOCK.at["finer"] :][:8].view(np.int64)[0] = finer
                lo = self.call(memory, "begin", p.ctypes.data, lo, hi, scratch.ctypes.data)
                for k, stage in enumerate(code.stages):
                    head = 8 * word_of(k, "count")
                    many = int(scratch[head : head + 8].view(np.int64)[0])
                    written = np.zeros(scratch.shape, bool)
                    for u in reversed(range(units)):
                        low, high = many * u // units, many * (u + 1) // units
                        if low == high and u % 16:  # nothing to do, as for the 16th
                            continue
                        before = scratch.copy()
                        own = aligned_zeros(scratch.shape, "uint8")
                        own[:size] = 255
                        place(own)
                        self.call(memory, stage.stage, scratch.ctypes.data, low, high, own.ctypes.data)
                        assert not own[size:].any(), "scratch overrun"
                        changed = scratch != before
                        assert not (written & changed).any(), "two units write to one place"
                        written |= changed
        assert not scratch[size:].any(), "scratch overrun"
        if poison == 127:
            assert not np.isinf(scratch[: len(scratch) // 4 * 4].view(np.float32)).any(), "odd bits were multiplied"
        if each is None:
            shapes = [extents_of(spec.body[v - len(spec.operands)].shape, dims) for v in spec.results]
            results = [x.reshape(len(nodes), *shape) for x, shape in zip(whole, shapes, strict=True)]
        return results, failures[: len(nodes)]


def compile_all(
    specs: Sequence[KernelSpec], target: Target | None = None, strategies: Sequence[Strategy] = (),
    precision: str = "float32",
) -> list[Runner]:  # fmt: skip
    """Compile many kernels at once; with `strategies`, one kernel of each spec for each of them."""
    target = target or host()
    specs = [spec for spec in specs for _ in strategies or [0]]
    settings = [*strategies] * (len(specs) // len(strategies)) if strategies else [DEFAULT] * len(specs)
    codes = [cpu.generate(spec, target, strategy, precision) for spec, strategy in zip(specs, settings, strict=True)]
    keys = sorted({key for code in codes for key in code.tiles}, key=lambda k: (k.dtype, k.vectors, k.rows))
    modules: list[tree.Module] = [code.module for code in codes]
    groups: dict[tuple[str, int], list[Any]] = {}
    for key in keys:
        groups.setdefault((key.dtype, key.vectors), []).append(key)
    modules += [tile_module(group, target) for group in groups.values()]
    loaded = compiler.load(modules)
    tiles = {}
    for group, compiled in zip(groups.values(), loaded[len(codes) :], strict=True):
        for key in group:
            tiles[key] = compiled.address[key.name]
    return [Runner(s, c, m, tiles, [loaded]) for s, c, m in zip(specs, codes, loaded, strict=False)]


def interpreted(
    spec: KernelSpec, target: Target | None = None, strategy: Strategy = DEFAULT, precision: str = "float32"
) -> Runner:  # fmt: skip
    return Runner(spec, cpu.generate(spec, target or host(), strategy, precision), None, {}, [])
