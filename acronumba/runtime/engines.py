"""Engines, which run a plan: machine code, or the same code in plain Python.

In: the modules of a plan (the library of the run time, the host program, kernels, tiles). Out: an engine that calls
their entry points, and for each kernel the addresses that its row of the table takes. `threads_of_process` are the
threads that all engines share.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence

from acronumba.emit import tree
from acronumba.emit.compile import Deferred, Pending, call, callback, load
from acronumba.memory import Array
from acronumba.runtime.threads import ThreadPool

# The files of the library, in the order of its text.
_SCHEDULE = "keys components frontier batches schedule lookahead"
_FILES = f"{_SCHEDULE} workers extents equal rows liveness places cuts execute drive".split()


@functools.cache
def runtime_module() -> tree.Module:
    """Return the library code that every model runs: schedule, layout, execution."""
    from acronumba.emit.parse import parse_files

    functions = parse_files([f"acronumba.runtime.library.{name}" for name in _FILES])
    exports = ("bound", "drive", "edges", "find_equal", "number_keys", "pool_worker")
    return tree.Module("runtime", functions, exports, "Schedule, layout and execution of mini-batches.", compact=True)


def library() -> Deferred:
    """Return the module of the run time, made only if its machine code is not cached."""
    return Deferred(name="runtime", key="runtime", make=runtime_module)


_pools: list[ThreadPool] = []


def threads_of_process() -> ThreadPool:
    """Return the worker threads of this process; if two threads create them at once, the first ones stay."""
    if not _pools:
        _pools.append(ThreadPool(load([library()])[0].function("pool_worker")))
    return _pools[0]


def order_by_python(keys: int, count: int, order: int, descending: int) -> None:
    """Write the order, int64[count], in which Python's `sorted` puts float64 numbers.

    NaNs are unordered: the result depends on each step of Python's algorithm, so it is called here.
    """
    values = (ctypes.c_double * count).from_address(keys)[:]
    for k, place in enumerate(sorted(range(count), key=values.__getitem__, reverse=bool(descending))):
        ctypes.c_int64.from_address(order + 8 * k).value = place


@functools.cache
def sorter() -> tuple[int, object]:
    """Return the address of `order_by_python`, and its owner."""
    return callback(order_by_python, 4)


class Native:
    """Runs code in this process's memory: compiled, or interpreted with ACRONUMBA_ENGINE=interpreted."""

    reaches = False  # whether it must know the arrays that code reads and writes, see `reach`

    def __init__(
        self,
        modules: Sequence[tree.Module | Deferred | Pending],
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.loaded = load(modules, progress)
        self.address: dict[str, int] = {}
        for compiled in self.loaded[:2]:
            self.address |= compiled.address
        self.sorter = sorter()[0]
        self._drive = self.loaded[0].function("drive")

    def reach(self, array: Array) -> None:
        pass

    def drive(self, st: int) -> int:
        status: int = self._drive(st)
        return status

    def kernel(self, address: int, *args: int) -> None:
        call(address, *args)

    def call(self, name: str, st: int) -> int | None:
        result: int | None = self.loaded[0].call(name, st)
        return result


class Interpreted:
    """Runs the same code in plain Python with checked memory: slow, for tests and for study."""

    reaches = True

    def __init__(self, modules: Sequence[tree.Module]) -> None:
        from acronumba.emit import interpret

        self.interpret = interpret
        self.memory = interpret.InterpreterMemory()
        self.modules = modules
        self.sorter = self.memory.add_function(order_by_python)
        self.address: dict[str, int] = {}
        for module in modules:
            self.address |= self.memory.add_module(module)

    def reach(self, array: Array) -> None:
        if array.nbytes:
            self.memory.add(array)

    def drive(self, st: int) -> int:
        return int(self.interpret.run(self.modules[0], "drive", [st], memory=self.memory))

    def kernel(self, address: int, *args: int) -> None:
        self.memory.call(address, *args)

    def call(self, name: str, st: int) -> int | None:
        result: int | None = self.interpret.run(self.modules[0], name, [st], memory=self.memory)
        return result
