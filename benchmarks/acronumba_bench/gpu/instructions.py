"""Cycles of instructions on a GPU, by its clock, beside what the estimator assumes (`cycles.Machine`).

In: the measuring kernels of a `Floors`. Out: plain numbers, part by part: cycles of an instruction of a warp, by the
number of warps of a multiprocessor; what cannot be measured has a reason in place of a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from acronumba_bench.gpu import clocks, cycles, sass
from acronumba_bench.gpu.emulate import Block, Memory
from acronumba_bench.gpu.floors import Floors, tried

WARPS = (1, 4, 8, 16)  # of a block: one, and 1, 2, 4 a scheduler
FEW, MANY = 4, 36  # rounds
TRIES = 3
APART = 1 << 16  # bytes between what two blocks read
SWEPT = 1 << 28  # bytes: more than the second cache has
SPUN = 2_000_000  # nanoseconds
ROOM = 48 << 10  # bytes of shared memory
TOGETHER = 8  # warps that copy together


@dataclass(frozen=True)
class Case:
    """A kernel of `clocks`, what it is given, and the warps that it makes sense for."""

    kernel: str
    words: tuple[int, ...] = ()
    warps: tuple[int, ...] = WARPS


CASES: Mapping[str, Case] = {
    "FFMA chained": Case("ffma"),
    "FFMA": Case("ffmas"),
    "HMMA chained": Case("hmma"),
    "HMMA": Case("hmmas"),
    "MUFU chained": Case("mufu"),
    "MUFU": Case("mufus"),
    "SHFL chained": Case("shfl"),
    "SHFL": Case("shfls"),
    "S2R chained": Case("s2r"),
    "BAR": Case("barrier"),
    "loop": Case("branch"),
    "BSYNC": Case("bsync"),
    "LDS chained": Case("reach"),
    "LD chained": Case("generic"),
    "LDS 4 bytes": Case("words"),
    "LDS 16 bytes, apart": Case("loads", (0,)),
    "LDS 16 bytes, pairs": Case("loads", (1,)),
    "LDS 16 bytes, four addresses": Case("loads", (3,)),
    "LDS 16 bytes, one address": Case("loads", (5,)),
    "second cache chained": Case("far", (), (1, 4)),
    "first cache chained": Case("cached", (), (1, 4)),
    "copy of 16 bytes": Case("copy", (0,), (1, 4)),
}
# of a constant: the case that shows it, its warps, and how many times an instruction takes it
CONSTANTS: Mapping[str, tuple[str, int, int]] = {
    "shared": ("LDS chained", 1, 1), "generic": ("LD chained", 1, 1), "l2": ("second cache chained", 1, 1),
    "copy": ("copy of 16 bytes", 1, 1), "special": ("S2R chained", 1, 1), "function": ("MUFU chained", 1, 1),
    "exchange": ("SHFL chained", 1, 1), "branch": ("loop", 1, 1), "converge": ("BSYNC", 1, 1), "barrier": ("BAR", 8, 1),
    "tensor": ("HMMA", 16, 4), "access": ("LDS 4 bytes", 16, 4),
}  # fmt: skip


class Clocks:
    """The kernels of `clocks` on one GPU, compiled when they are needed."""

    def __init__(self, floors: Floors) -> None:
        self.floors, self.meter = floors, floors.meter
        self.memory = self.meter.allocate(APART * max(self.meter.multiprocessors, 1))
        self._functions: dict[str, int] = {}

    def function(self, name: str) -> int:
        """Return a kernel."""
        if name not in self._functions:
            kernel = clocks.KERNELS.get(name) or clocks.straight(int(name.removeprefix("code_")))
            self._functions[name] = self.meter.module(kernel.text)(name)
        return self._functions[name]

    def taken(self, name: str, words: tuple[int, ...], warps: int, blocks: int, rounds: int) -> int:
        """Return the cycles of so many rounds."""
        at = self.floors.memory
        self.meter.clear(at, 16)
        self.meter.launch(self.function(name), blocks, 32 * warps, at, rounds, *words)
        return self.floors.look()

    def round(self, name: str, words: tuple[int, ...] = (), warps: int = 1, blocks: int = 1) -> float:
        """Return the cycles of a round."""
        self.floors.warm()
        if "P" in clocks.KERNELS[name].parameters:
            words = (self.memory, *words)
        few, many = (min(self.taken(name, words, warps, blocks, n) for _ in range(TRIES)) for n in (FEW, MANY))
        return (many - few) / (MANY - FEW)

    def gigahertz(self) -> float:
        """Return the rate of the clock, now."""
        self.floors.warm()
        self.meter.clear(self.floors.memory, 16)
        self.meter.launch(self.function("clock"), 1, 1, self.floors.memory, SPUN)
        cycles, nanoseconds = self.meter.words(self.floors.memory, 2)
        return float(cycles) / max(float(nanoseconds), 1)


def instructions(c: Clocks) -> dict[str, Any]:
    """Return the cycles of an instruction of each case, by the number of warps."""
    out: dict[str, Any] = {"GHz before": tried(c.gigahertz)}
    for name, case in CASES.items():
        out[name] = tried(partial(each, c, case))
    return out | {"GHz after": tried(c.gigahertz)}


def each(c: Clocks, case: Case) -> dict[str, float]:
    """Return the cycles of an instruction by the number of warps."""
    count = clocks.KERNELS[case.kernel].count
    return {str(warps): c.round(case.kernel, case.words, warps) / count for warps in case.warps}


def copies(c: Clocks) -> dict[str, Any]:
    """Return the cycles of copies from the second cache, and bytes that a multiprocessor copies in a cycle."""
    every, out = c.meter.multiprocessors, dict[str, Any]()
    ways = {"one block": (1, 0), "all blocks": (every, APART), "all blocks, the same bytes": (every, 0)}

    def rate(name: str, size: int, words: tuple[int, ...], warps: int, blocks: int) -> float:
        return size / c.round(name, words, warps, blocks)

    for how, (blocks, apart) in ways.items():
        size = 512 * clocks.COPIES * TOGETHER
        out[f"copies of 16 bytes, {how}, bytes"] = tried(partial(rate, "copies", size, (apart,), TOGETHER, blocks))
    for size in (16, 256, clocks.LARGEST):
        out[f"bulk copy of {size} bytes, cycles"] = tried(partial(bulk, c, (0, size, 1), 1))
        for how, (blocks, apart) in ways.items():
            most = clocks.BULKS
            found = tried(partial(bulk, c, (apart, size, most), blocks))
            out[f"bulk copies of {size} bytes, {how}, bytes"] = found if isinstance(found, str) else size * most / found
    return out


def bulk(c: Clocks, words: tuple[int, ...], blocks: int) -> float:
    """Return the cycles of a round of copies by one thread."""
    c.floors.needs_clusters()
    return c.round("bulk", words, 1, blocks)


def code(c: Clocks) -> dict[str, Any]:
    """Return the cycles of a line of 8 instructions of straight code: again, after other code, and after a sweep."""
    big = c.meter.allocate(SWEPT)

    def lines(size: int, warps: int) -> dict[str, float]:
        name, count = f"code_{size}", size * 64 / clocks.LINE
        c.floors.warm()
        other = f"code_{clocks.SIZES[-1] if size != clocks.SIZES[-1] else clocks.SIZES[-2]}"

        def cold(sweep: int) -> float:
            c.meter.launch(c.function(other), c.meter.multiprocessors, 32, c.floors.memory, 1)
            c.meter.clear(big, sweep)
            return c.taken(name, (), warps, 1, 1) / count

        once, again = (min(c.taken(name, (), warps, 1, n) for _ in range(TRIES)) for n in (1, 3))
        return {"again": (again - once) / 2 / count, "after other code": cold(4), "after a sweep": cold(SWEPT)}

    out = {f"{size} KB, {warps} warps": tried(partial(lines, size, warps)) for size in clocks.SIZES for warps in (1, 8)}
    c.meter.free(big)
    return out


PARTS: Mapping[str, Callable[[Clocks], dict[str, Any]]] = {"instructions": instructions, "copies": copies, "code": code}


def constants(measured: Mapping[str, Any], estimated: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what the estimator assumes, and what it should have assumed, from cycles of `instructions`."""
    out, assumed = {}, asdict(cycles.HOPPER)
    for name, (case, warps, times) in CONSTANTS.items():
        found, thought = measured.get(case), estimated.get(case)
        if isinstance(found, dict) and isinstance(thought, dict):
            off = (found[str(warps)] - thought[str(warps)]) / times
            out[name] = {"estimated": assumed[name], "measured": round(assumed[name] + off, 2)}
    return out


def estimated(code: sass.Code, case: Case, warps: int) -> float:
    """Return the cycles of an instruction that the estimator finds in a kernel's machine code."""
    kernel, taken = clocks.KERNELS[case.kernel], list[int]()
    for rounds in (1, 2):
        memory = Memory(APART)
        at = memory.place(np.zeros(APART // 8, np.int64))
        words = (at, rounds, *((at,) if "P" in kernel.parameters else ()), *case.words)
        block = Block(code, memory, words, 32 * warps, 1, 0, ROOM)
        taken.append(cycles.cycles([block.run()]))
    return (taken[1] - taken[0]) / kernel.count
