"""A simulated device: the simulator runs kernels for GPUs, in memory apart from the CPU's."""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from acronumba.kernels.cuda.cpu_memory import CpuMemory
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NodeCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.locks import ForkLock
from acronumba.memory import address, aligned, memory_at
from acronumba.runtime.devices.graphs import Node
from acronumba.runtime.devices.launches import Driver

if TYPE_CHECKING:
    from acronumba.kernels.cuda.simulated_graph import GraphNode

_REST = 0.05  # of the times that threads take turns, after which the CPU does
_ILLEGAL = 700  # the driver's number of an illegal address


class _Beside:
    """A kernel that runs beside the CPU: they take turns, so that all depends on the seed alone."""

    def __init__(self, run: Callable[[Callable[[], None]], None], chance: random.Random) -> None:
        self.over = False
        self.error: BaseException | None = None
        self._run, self._chance = run, chance
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self._mine.acquire()
        try:
            self._run(self._rest)
        except BaseException as error:  # raised in the thread that asks
            self.error = error
        self.over = True
        self._theirs.release()

    def _rest(self) -> None:
        if self._chance.random() < _REST:
            self._theirs.release()
            self._mine.acquire()

    def go_on(self) -> None:
        """Let the kernel run for a while."""
        self._mine.release()
        self._theirs.acquire()


class SimulatedDevice:
    """The simulator as a device: its memory is apart from the CPU's, and accesses to it are checked.

    A kernel that waits for the CPU runs while `idle` is asked; all else waits for it.
    """

    name = "the simulator"
    number: int | None = None
    processors = 2
    shared = 227 << 10
    stream = 0
    timed = False
    cooperative = True
    graphs = True

    def __init__(self, seed: int = 0) -> None:
        from acronumba.emit.interpret import InterpreterMemory

        self.memory = InterpreterMemory()
        self.cpu = CpuMemory()
        self.seed = seed
        self.launches = 0
        self._lock = ForkLock()
        self._arrays: dict[int, NDArray[np.uint8]] = {}
        self._freed: list[int] = []
        self._numbers = itertools.count()  # of functions and graphs
        self._loaded: dict[int, tuple[Any, str, int]] = {}
        self._nodes: dict[int, tuple[Callable[[], GraphNode], str]] = {}
        self._graphs: dict[int, list[list[Node]]] = {}
        self._error: BaseException | None = None
        self._beside: _Beside | None = None
        self._turns = threading.RLock()
        self._chance = random.Random(seed)
        self._callbacks = {
            "launch": self._callback(self._launch, 11),
            "cooperate": self._callback(self._cooperate, 10),
            "upload": self._callback(self._upload, 4),
            "record": self._callback(lambda event, stream: None, 2),
            "reach": self._callback(lambda event: self.reach(event), 1),
            "graph": self._callback(self._launch_graph, 2),
            "download": self._callback(lambda to, at, size, stream: self.download(memory_at(to, to + size), at), 4),
            "wait": self._callback(lambda stream: self.wait(), 1),
        }
        self.driver = Driver(**{k: ctypes.cast(f, ctypes.c_void_p).value or 0 for k, f in self._callbacks.items()})

    def __enter__(self) -> SimulatedDevice:
        return self

    def __exit__(self, *_: object) -> None: ...

    def compile(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> None: ...

    def load(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> list[list[int]]:
        from acronumba.kernels.cuda.own import simulated_names
        from acronumba.kernels.cuda.simulated_graph import GraphNode
        from acronumba.kernels.cuda.simulator import Simulator

        handles = []
        for code in codes:
            names = simulated_names(code.operations, self.memory)
            handles.append([next(self._numbers) for _ in code.entries])
            if isinstance(code, NodeCode):
                make = partial(GraphNode, code.source, self.memory, self.seed, names)
                self._nodes |= {h: (make, entry) for h, entry in zip(handles[-1], code.entries, strict=True)}
                continue
            gpu = Simulator(code.source, self.memory, self.seed, names, self.cpu)
            many = code.parameters
            self._loaded |= {h: (gpu, entry, many) for h, entry in zip(handles[-1], code.entries, strict=True)}
        return handles

    def unload(self, handles: Sequence[int]) -> None:
        for handle in handles:
            self._loaded.pop(handle, None)
            self._nodes.pop(handle, None)

    def resident(self, function: int, threads: int, shared: int) -> int:
        return 2

    def _callback(self, does: Callable[..., None], arguments: int) -> Any:
        """Return a function of C that stands in for one of the driver's."""

        def call(*args: int) -> int:
            try:
                does(*args)
            except Exception as error:  # it cannot go through compiled code: `reject` raises it
                self._error = error
                return _ILLEGAL
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(call)

    def _launch(self, handle: int, blocks: int, *rest: int) -> None:
        y, z, threads, threads_y, threads_z, shared, stream, params, extra = rest
        assert (y, z, threads_y, threads_z, stream, extra) == (1, 1, 1, 1, self.stream, 0)
        with self._turn():
            gpu, entry, many = self._loaded[handle]
            words = ctypes.c_int64.from_address
            args = [words(words(params + 8 * k).value).value for k in range(many)]
            self.launches += 1
            gpu.launch(entry, blocks, threads, *args, shared=shared)

    def _cooperate(self, handle: int, blocks: int, *rest: int) -> None:
        y, z, threads, threads_y, threads_z, shared, stream, places = rest
        assert (y, z, threads, threads_y, threads_z, stream) == (1, 1, THREADS, 1, 1, self.stream)
        with self._turn():
            gpu, entry, many = self._loaded[handle]
            words = ctypes.c_int64.from_address
            self.launches += 1
            args = [words(words(places + 8 * k).value).value for k in range(many)]
            if args[-1]:  # it waits for the CPU
                run = partial(gpu.launch, entry, blocks, threads, *args, shared=shared)
                self._beside = _Beside(lambda rest: run(rest=rest), self._chance)
                return
            gpu.launch(entry, blocks, threads, *args, shared=shared)

    def graph(self, levels: Sequence[Sequence[Node]]) -> int:
        handle = next(self._numbers) + 1  # not 0
        self._graphs[handle] = [list(level) for level in levels]
        return handle

    def forget_graph(self, handle: int) -> None:
        del self._graphs[handle]

    def _launch_graph(self, handle: int, stream: int) -> None:
        from acronumba.kernels.cuda.simulated_graph import run

        with self._turn():
            self.launches += 1
            levels = [
                [(*self._nodes[n.function], n.blocks, n.row, n.shared) for n in level] for level in self._graphs[handle]
            ]
            run(levels, THREADS, self._chance)

    def _upload(self, at: int, source: int, size: int, stream: int) -> None:
        self.upload(at, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(source)))

    def reject(self, error: int) -> NoReturn:
        found, self._error = self._error, None
        raise found or RuntimeError(f"error {error}")

    def idle(self) -> bool:
        with self._turns:
            kernel = self._beside
            if kernel is not None:
                kernel.go_on()
                if kernel.over:
                    self._beside = None
                    if kernel.error is not None:
                        raise kernel.error
        return self._beside is None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold what follows until no kernel runs beside any more."""
        with self._turns:
            while not self.idle():
                pass
            yield

    def wait(self) -> None:
        with self._turn():
            pass

    @property
    def allocated(self) -> dict[int, NDArray[np.uint8]]:
        """Map from addresses to allocated arrays."""
        with self._lock:
            while self._freed:  # here, as a collection of garbage may come in the middle of anything
                self.memory.remove(self._arrays.pop(self._freed.pop()))
        return self._arrays

    def allocate(self, size: int) -> int:
        array = aligned(size)
        array[:] = 255
        at = address(array)
        known = self.allocated
        self.memory.add(array)
        known[at] = array
        return at

    def free(self, at: int) -> None:
        self._freed.append(at)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        made = aligned(size)
        self.cpu.add(made)
        return made

    def copy(self, to: int, at: int, size: int) -> None:
        with self._turn():
            view, start = self.memory.place(at, size, 1, "copy", False)
            self.upload(to, np.frombuffer(view, np.uint8, size, start))

    def event(self) -> int:
        return 0

    def reach(self, event: int) -> None:
        with self._turn():
            pass

    def forget(self, event: int) -> None: ...

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        with self._turn():
            view, start = self.memory.place(at, len(data), 1, "upload", True)
            np.frombuffer(view, np.uint8, len(data), start)[:] = data

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        with self._turn():
            view, start = self.memory.place(at, len(data), 1, "download", False)
            data[:] = np.frombuffer(view, np.uint8, len(data), start)


@functools.cache
def simulator() -> SimulatedDevice:
    """Return the device that models of this process share."""
    return SimulatedDevice()
