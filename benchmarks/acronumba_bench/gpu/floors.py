"""Limits of a GPU: peak rates and minimal costs, which give lower bounds for the time of a mini-batch.

In: a `Meter`. Out: plain numbers, part by part, with the unit in the name (us: microseconds). A part that the GPU does
not support has a reason in place of numbers. Lower bounds: operations over `products`, bytes over `copied`, launches
times `node us`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from acronumba.bench.ceiling import Ceiling
from acronumba.emit import compile as compiler
from acronumba.kernels.cuda.marshal import ROW
from acronumba.kernels.cuda.writer import Grid
from acronumba.memory import address
from acronumba.runtime.devices.driver import DriverError
from acronumba.runtime.devices.launches import launch_module, launches
from acronumba_bench.gpu import ptx
from acronumba_bench.gpu.meter import Meter

CHAINS = (20, 200)  # launches, one after the other
_BEHIND = 5_000_000  # nanoseconds that the GPU is kept busy, while the timed work is queued
_FEW, _MANY = 200, 1200  # rounds: times are of the difference
_READERS = 1024  # threads of a block that read
_COPIED = 1 << 28
_WARM = 20_000  # rounds of arithmetic before the first measurement
_WORDS = 1 << 12  # bytes


class Floors:
    """The measuring kernels on one GPU.

    Parameters
    ----------
    meter
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.general = meter.module(ptx.GENERAL)
        self.memory = meter.allocate(_WORDS)
        for _ in range(4):
            self.warm()
        meter.wait()

    def warm(self) -> None:
        """Queue some milliseconds of arithmetic: an idle GPU has a slow clock."""
        self.meter.launch(self.general("multiply"), 4 * self.meter.multiprocessors, 256, _WARM, self.memory)

    def needs_clusters(self) -> None:
        """Raise an error on a GPU of before compute capability 9.0."""
        if self.meter.capability < (9, 0):
            raise DriverError("needs compute capability 9.0")

    def clusters(self, name: str) -> int:
        """Return a kernel that needs compute capability 9.0; these kernels are compiled on first use."""
        self.needs_clusters()
        return self._clusters(name)

    @cached_property
    def _clusters(self) -> Callable[[str], int]:
        return self.meter.module(ptx.CLUSTERS)

    def queued(self, work: Callable[[], None], tries: int = 9) -> float:
        """Return the GPU's seconds for work all of which is queued before it begins."""
        return self.meter.seconds(work, tries, partial(self.meter.launch, self.general("spin"), 1, 1, _BEHIND))

    def rounds(self, work: Callable[[int], None]) -> float:
        """Return the microseconds of one more round; `work` gets the number of rounds."""
        few, many = (self.queued(partial(self._cleared, work, n)) for n in (_FEW, _MANY))
        self.look()
        return (many - few) / (_MANY - _FEW) * 1e6

    def look(self) -> int:
        """Return the first word of the memory; raise an error if a thread has given up waiting."""
        first, gave_up = self.meter.words(self.memory, 2)
        if gave_up:
            raise DriverError("who waited gave up")
        return int(first)

    def _cleared(self, work: Callable[[int], None], rounds: int) -> None:
        self.meter.clear(self.memory, _WORDS)
        work(rounds)


def limits(f: Floors) -> dict[str, Any]:
    """Return the driver's data of the GPU, and whether a block is granted the promised amount of shared memory."""
    meter, function = f.meter, f.general("shared")
    most = meter.limits["shared bytes of a block, asked for"]
    found: dict[str, Any] = {**meter.limits, "driver CUDA": meter.version}

    def granted() -> bool:
        meter.grant(function, shared=most)
        meter.clear(f.memory, 8)
        meter.launch(function, 1, 32, f.memory, most, shared=most)
        return bool(meter.words(f.memory, 1)[0] == 42)

    return {**found, "shared bytes granted": tried(lambda: most if granted() else 0)}


def chain(f: Floors, name: str, blocks: int, *, graph: bool) -> dict[str, float]:
    """Return the time of chains of launches of an empty kernel, and of one more in a chain."""
    early = name == "dependent"
    one = partial(f.meter.launch, f.clusters(name) if early else f.general(name), blocks, 128, dependent=early)

    def work(count: int) -> None:
        for _ in range(count):
            one()

    found = {}
    for count in CHAINS:
        queue = partial(work, count)
        found[f"{count} us"] = f.queued(f.meter.captured(queue) if graph else queue) * 1e6
    first, last = CHAINS
    return {**found, "node us": (found[f"{last} us"] - found[f"{first} us"]) / (last - first)}


def chains(f: Floors) -> dict[str, Any]:
    """Return the time of chains of empty kernels: in a stream, in a graph, and with dependent launches."""
    out: dict[str, Any] = {}
    for blocks in (1, f.meter.multiprocessors):
        for where, graph in (("stream", False), ("graph", True)):
            for how, name in (("", "empty"), (", begun early", "dependent")):
                out[f"{where}{how}, {blocks} blocks"] = tried(partial(chain, f, name, blocks, graph=graph))
    return {**out, "our loop over launches": tried(partial(own_loop, f))}


def own_loop(f: Floors, count: int = 500) -> dict[str, float]:
    """Return the CPU time of a launch in the compiled loop that our mini-batches use."""
    empty = (f.general("empty"), 1, [Grid(1, 1)])
    words = launches(f.meter.driver, f.meter.stream, f.meter.multiprocessors, [[empty]])
    table = np.zeros((count, ROW.count), np.int64)
    table[:, ROW.at["nodes"]] = 1
    (loop,) = compiler.load([launch_module()])
    queued, done = [], []
    for _ in range(9):
        f.meter.wait()
        start = time.perf_counter()
        if error := loop.call("launch", words.address, address(table), count):
            raise DriverError(f"error {error}")
        queued.append(time.perf_counter() - start)
        f.meter.wait()
        done.append(time.perf_counter() - start)
    return {"queued us": float(np.median(queued)) / count * 1e6, "done us": float(np.median(done)) / count * 1e6}


def barriers(f: Floors) -> dict[str, Any]:
    """Return the microseconds of a barrier of the whole grid, a block per multiprocessor, and of clusters."""
    meter = f.meter
    out: dict[str, Any] = {}
    for name in ("counter", "flip"):
        for threads in (128, 256, 512):

            def grid(rounds: int, name: str = name, threads: int = threads) -> None:
                meter.launch(f.general(name), meter.multiprocessors, threads, f.memory, rounds, cooperative=True)

            out[f"grid, {name}, {threads} threads us"] = tried(partial(f.rounds, grid))
    for size in (2, 4, 8, 16):

        def cluster(size: int = size) -> float:
            function = f.clusters("cluster")
            if size > 8:
                meter.grant(function, clusters=True)
            return f.rounds(lambda rounds: meter.launch(function, size, 256, rounds, cluster=size))

        out[f"cluster of {size}, 256 threads us"] = tried(cluster)
    return out


def stages(f: Floors) -> dict[str, Any]:
    """Return the microseconds of a barrier of the whole grid in stages: of clusters, and of one block of each."""
    out: dict[str, Any] = {}
    for size in (2, 4, 8, 16):

        def staged(size: int = size) -> float:
            function, blocks = f.clusters("staged"), f.meter.multiprocessors // size * size
            if size > 8:
                f.meter.grant(function, clusters=True)
            return f.rounds(lambda rounds: f.meter.launch(function, blocks, 256, f.memory, rounds, cluster=size))

        out[f"grid, clusters of {size}, 256 threads us"] = tried(staged)
    return out


def hops(f: Floors) -> dict[str, Any]:
    """Return the microseconds from one block to another: through memory, and through the memory that blocks share."""
    meter = f.meter
    out: dict[str, Any] = {}
    for other in sorted({1, 2, meter.multiprocessors // 2, meter.multiprocessors - 1}):

        def far(other: int = other) -> dict[str, Any]:
            hop = partial(meter.launch, f.general("hop"), meter.multiprocessors, 32, f.memory, cooperative=True)
            seconds = f.rounds(lambda rounds: hop(rounds, other)) / 2
            return {"us": seconds, "multiprocessors": meter.words(f.memory, 4)[2:].tolist()}

        out[f"memory, block {other}"] = tried(far)

    def near() -> float:
        function = f.clusters("near")
        return f.rounds(lambda rounds: meter.launch(function, 2, 32, f.memory, rounds, cluster=2)) / 2

    return {**out, "cluster us": tried(near)}


def rates(f: Floors) -> dict[str, Any]:
    """Return bytes copied and read, and operations multiplied and added, per second."""
    meter, out = f.meter, dict[str, Any]()
    turn = meter.multiprocessors * _READERS * 16 * ptx.LOADS  # bytes that a block of each multiprocessor reads

    def copied() -> float:
        from_, to = meter.allocate(_COPIED), meter.allocate(_COPIED)
        meter.clear(from_, _COPIED)
        seconds = f.queued(partial(meter.copy, to, from_, _COPIED))
        meter.free(from_)
        meter.free(to)
        return 2 * _COPIED / seconds / 1e9

    def read(blocks: int, turns: int, rounds: int) -> float:
        size = turn * blocks * turns
        memory = meter.allocate(size)
        meter.clear(memory, size)
        function, count = f.general("read"), meter.multiprocessors * blocks
        seconds = f.queued(partial(meter.launch, function, count, _READERS, memory, turns, rounds, f.memory))
        meter.free(memory)
        return size * rounds / seconds / 1e9

    def arithmetic(name: str, flops: int, rounds: int = 500) -> float:
        function = f.general(name)
        threads = 256
        blocks = meter.multiprocessors * meter.resident(function, threads)
        seconds = f.queued(partial(meter.launch, function, blocks, threads, rounds, f.memory))
        return blocks * threads * rounds * flops * ptx.REPEATS / seconds / 1e12

    out["copied, read and written GB/s"] = tried(copied)
    for blocks, turns in ((1, 1), (2, 1), (2, 2)):
        name = f"read again, {turn * blocks * turns / 1e6:.0f} MB, GB/s"
        out[name] = tried(partial(read, blocks, turns, 40))
    out["read from memory GB/s"] = tried(partial(read, 2, max(_COPIED // turn, 8), 1))
    out["float32 TFLOP/s"] = tried(partial(arithmetic, "multiply", 2 * ptx.CHAINS))
    out["TF32 mma.sync TFLOP/s"] = tried(partial(arithmetic, "tensor", 2 * 16 * 8 * 8 * ptx.TILES // 32))
    return out


def tried(measure: Callable[[], Any]) -> Any:
    """Return a measurement, or the text of a driver or memory error, so that the other measurements go on."""
    try:
        return measure()
    except (DriverError, MemoryError) as error:
        return f"not measured: {error}"


PARTS: Mapping[str, Callable[[Floors], dict[str, Any]]] = {
    "limits": limits,
    "chains": chains,
    "barriers": barriers,
    "rates": rates,
    "hops": hops,
    "stages": stages,
}


def of_gpu(rates: Mapping[str, Any], chains: Mapping[str, Any]) -> Ceiling:
    """Return the ceiling of a GPU from `rates` and `chains`. Three TF32 products are as exact as one in float32."""

    def number(value: Any) -> float:
        return value if isinstance(value, float) else 0.0  # a failed measurement is a text

    tensor, plain = number(rates["TF32 mma.sync TFLOP/s"]), number(rates["float32 TFLOP/s"])
    one = chains["stream, 1 blocks"]
    return Ceiling(
        gflops=1e3 * max(plain, tensor / 3),
        copied=number(rates["copied, read and written GB/s"]),
        launch=1e-6 * number(one["node us"] if isinstance(one, dict) else one),
    )
