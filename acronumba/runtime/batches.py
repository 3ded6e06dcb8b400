"""Batches of kernels outside of a plan: a state table for `execute` alone.

In: kernels, and batches described by compiled code or Python. Out: the batches have run.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from acronumba.ir.spec import plan_words
from acronumba.memory import Words, address, aligned
from acronumba.runtime import state
from acronumba.runtime.engines import Interpreted, Native, threads_of_process
from acronumba.runtime.program import KernelEntry
from acronumba.runtime.state import AT
from acronumba.strategy import DEFAULT


def run_one(engine: Native | Interpreted, entry: KernelEntry, params: Words, results: int = 1) -> None:
    """Run a kernel with table P for a batch of one node without extents, or marshal its launch."""
    nothing, sizes = np.zeros(1, np.int64), np.zeros(plan_words(results), np.int64)
    for held in (nothing, sizes, params):
        engine.reach(held)
    engine.kernel(entry.plan, address(nothing), address(sizes))
    engine.reach(scratch := aligned(int(sizes[0]) + 64))
    engine.kernel(entry.run, address(params), 0, 1, address(scratch))


class Batches:
    """State table for `execute`, with batches of kernels that are not part of a plan.

    Parameters
    ----------
    kernels
        Rows of `state.KERNEL`.
    most
        Results of a kernel, at most.
    unit
        See `state.STATE`.
    """

    def __init__(self, kernels: Words, most: int, unit: int = DEFAULT.unit) -> None:
        self.st: Words = np.zeros(AT["free"] + 1, np.int64)
        self.at = address(self.st)
        self._view = self.st.data  # faster than the array
        self._areas: tuple[int, int] = 0, 0  # bytes of an area of scratch, and threads
        self.sizes: Words = np.zeros(plan_words(most), np.int64)
        self.keep: dict[str, Any] = {}
        self.seconds: list[float] | None = None  # of each batch of the last run, if they are to be measured
        self.most = most
        self.use(kernels)
        self["sizes"], self["most"] = address(self.sizes), most
        self["single"], self["run_slice"], self["unit"] = 1, state.RUN_SLICE, unit

    def __setitem__(self, name: str, value: int) -> None:
        self._view[AT[name]] = value

    def use(self, kernels: Words) -> None:
        """Set the rows of the kernels."""
        self.table = kernels
        self["table"], self["kernels"] = address(kernels), len(kernels)

    def room(self, batches: int, entries: int) -> None:
        """Allocate tables for so many batches and entries of `args`."""
        lengths = (
            ("args", entries + 1, np.int64), ("fail", entries + 1, np.int64), ("bstart", batches + 2, np.int32),
            ("bkey", batches + 1, np.int32), ("keytab", 2 * batches + 2, np.int64),
            ("offset", 2 * (batches + 1) * max(self.most, 1), np.int64),
        )  # fmt: skip
        for name, length, dtype in lengths:
            if name not in self.keep or len(self.keep[name]) < length:
                self.keep[name] = np.empty(length + length // 2, dtype)
                self[name] = address(self.keep[name])

    def begin(self, batches: int, scratch: int, threads: int) -> None:
        """Prepare to run the batches."""
        words, at, stride = self._view, AT, (scratch + 127) & -64
        if stride > self._areas[0] or threads != self._areas[1]:
            self._areas, areas = (stride, threads), state.areas(threads)
            self.memory, self.cuts = aligned(stride * areas), np.zeros(1 + state.PARTS * threads, np.int64)
            self.firsts = np.zeros(1 + threads, np.int64)
            self["stride"], self["scratch"], self["areas"] = stride, address(self.memory), areas
            self["threads"] = threads
            self["cuts"], self["firsts"] = address(self.cuts), address(self.firsts)
        words[at["batches"]], words[at["stage"]], words[at["stop"]] = batches, state.TO_EXECUTE, state.EXECUTED
        words[at["run_batches"]] = words[at["failures"]] = words[at["taken"]] = words[at["rounds"]] = 0

    def execute(self, engine: Native, batches: int, scratch: int, threads: int) -> None:
        """Run the batches."""
        self.begin(batches, scratch, threads)
        self._view[AT["run_slice"]] = state.RUN_SLICE if self.seconds is None else -1
        pool = threads_of_process() if threads > 1 else None
        self._view[AT["pool"]] = pool.enter(threads) if pool is not None else 0
        try:
            status = None
            while status != state.DONE:
                start = time.perf_counter()
                status = engine.drive(self.at)
                if self.seconds is not None:
                    self.seconds.append(time.perf_counter() - start)
        finally:
            if pool is not None:
                pool.leave(threads)
