"""Mini-batches on a GPU: the machine, the schedule and the layout of the processor, kernels somewhere else.

In: a plan, as for `driver.Executable`. The processor runs everything up to the kernels; in their place it writes down
what each launch needs (`kernels.cuda.marshal`). Then what has been written is copied to the device in one piece, the
kernels are launched one after the other, and the results come back. A `Device` is a GPU or its simulator. Memory that
both have is known by regions: the arenas, what instances and shared values are packed in.
"""

from __future__ import annotations

import ctypes
import operator
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba import state
from acronumba.config import Options
from acronumba.kernels.cuda import launch
from acronumba.kernels.cuda.generate import CudaCode, generate
from acronumba.kernels.cuda.marshal import STREAM, WIDTH, WORDS, marshal
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.fusion import Fusion
from acronumba.locks import ForkLock
from acronumba.plan import Plan
from acronumba.runtime.dfg import Arena, Buffers, Words, address, aligned
from acronumba.runtime.driver import Executable, Failure, KernelEntry, _Compiled, _Prepared, _with_kernels
from acronumba.runtime.trace import STAGES
from acronumba.state import TABLE

_ROOM = 1 << 16  # bytes of the first buffer for what launches need
_LAUNCHES = 256  # that the first table has room for
_WARPS = THREADS // 32
_OWN = 1 << 28  # bytes of scratch of all warps, as long as one block has enough


class Device(Protocol):
    """A GPU."""

    blocks: int  # that run at the same time, about

    launcher: int  # address of a function of C that takes what `cuLaunchKernel` takes
    stream: int  # that everything is done in, one after the other

    def load(self, codes: Sequence[CudaCode]) -> list[list[int]]:
        """Return the handles of the functions of each kernel."""

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes; see `free`."""

    def free(self, at: int) -> None: ...

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to the device."""

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        """Copy bytes from the device, once all launches are done."""

    def wait(self) -> None:
        """Return when all launches are done; raise what has failed."""


class Twin:
    """Memory of the device for some of the processor's."""

    def __init__(self, device: Device, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.address = device.allocate(max(self.size, 1))
        weakref.finalize(self, device.free, self.address).atexit = False  # the end of the process frees it, too


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """What the device has of arrays, which may overlap: a range of memory."""

    arrays: tuple[NDArray[Any], ...]
    twin: Twin
    bits: NDArray[np.uint8] | None  # that were copied, if the user may change an array


@dataclass(slots=True, eq=False)
class _Stream:
    """What launches of one run need: see `kernels.cuda.marshal`."""

    words: Words
    buffer: NDArray[np.uint8]
    table: Words
    regions: Words
    twin: Twin  # of the buffer


class DeviceExecutable(Executable):
    """A plan that is run on a device.

    Parameters
    ----------
    plan, options, progress
        As for `Executable`.
    device
        Where kernels run.
    """

    def __init__(
        self, plan: Plan, options: Options, device: Device, progress: Callable[[str, int, int], None] | None = None
    ) -> None:
        self.device = device
        self.codes = [generate(spec, Fusion.of(options)) for spec in plan.kernels]
        self._once = sorted({once.kernel for once in plan.program.once})
        self._lock = ForkLock()  # of the device's scratch memory, and of the twins
        self._copies: dict[int, _Copy] = {}  # of what the last run has read, by address
        self._read: tuple[NDArray[Any], ...] = ()  # these arrays
        self._fixed: list[tuple[int, int, int]] = []  # their rows of `_Stream.regions`
        self._scratch: dict[str, Twin] = {}
        # Results keep their places: what is read again later may lie anywhere in the arena.
        super().__init__(plan, options.replace(recycle=False, parts=False, threads=1), progress=progress)
        handles = device.load([code for k, code in enumerate(self.codes) if k not in self._once])
        self._launches = self._launcher(handles)

    def _launcher(self, handles: list[list[int]]) -> tuple[Words, ...]:
        """Return the words that the loop over launches reads; what they lead to lives as long as they do."""
        kernels = np.zeros((len(self.codes), 2), np.int64)
        functions: list[tuple[int, int, int]] = []
        for k, own in zip((k for k in range(len(self.codes)) if k not in self._once), handles, strict=True):
            kernels[k] = len(functions), len(own)
            functions += [(h, grid.nodes, grid.times) for h, grid in zip(own, self.codes[k].grids, strict=True)]
        table = np.array([*functions, (0, 0, 0)], np.int64)
        words = np.zeros(launch.WORDS, np.int64)
        words[:4] = address(words) + 8 * np.arange(4, 8)
        words[8:] = self.device.launcher, self.device.stream, self.device.blocks, address(kernels), address(table)
        return words, kernels, table

    def _load(self, progress: Callable[[str, int, int], None] | None) -> tuple[_Compiled, tuple[KernelEntry, ...]]:
        modules = [marshal(spec, code) for spec, code in zip(self.plan.kernels, self.codes, strict=True)]
        modules.append(launch.launch_module())
        once = [self.plan.kernels[k] for k in self._once]
        engine, computed = _with_kernels((*self.modules, *modules), once, Fusion.of(self.options), progress)
        entries: list[KernelEntry] = []
        loaded = engine.loaded[len(self.modules) :]
        for k, (code, c) in enumerate(zip(self.codes, loaded, strict=False)):
            plan, run = c.address["plan"], c.address["run"]
            entries.append(KernelEntry(plan=plan, run=run, shared=code.shared, tiles=(0, k), keep=c))
        self._loop = loaded[len(self.codes)]
        for k, entry in zip(self._once, computed, strict=True):  # computed by the processor, before all others
            entries[k] = entry
        return engine, tuple(entries)

    # ------------------------------------------------------------------------------------------------------- memory

    def _stream(self, buffers: Buffers) -> _Stream:
        """Return the stream of a state table."""
        if not isinstance(buffers.stream, _Stream):
            buffers.stream = _Stream(np.zeros(WORDS, np.int64), *self._room(_ROOM, _LAUNCHES))
        assert isinstance(buffers.stream, _Stream)
        return buffers.stream

    def _room(self, size: int, launches: int) -> tuple[NDArray[np.uint8], Words, Words, Twin]:
        buffer = aligned(size)
        twin = Twin(self.device, address(buffer), len(buffer))
        return buffer, np.zeros(launches * WIDTH, np.int64), np.zeros(0, np.int64), twin

    def _begin(self, buffers: Buffers, roots: Words, prepared: _Prepared, arena: Arena, parts: bool) -> None:
        super()._begin(buffers, roots, prepared, arena, parts)
        stream = address(self._stream(buffers).words)
        for k, params in enumerate(buffers.columns_of_kernels):
            if k not in self._once:
                params[-2] = stream

    def _copy(self, start: int, end: int, arrays: tuple[NDArray[Any], ...], changes: bool) -> _Copy:
        """Return the device's copy of a range of memory, made anew if arrays are others or have other bits."""
        bits = np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
        known = self._copies.get(start)
        if known is not None and len(known.arrays) == len(arrays) and all(map(operator.is_, known.arrays, arrays)):
            if not changes or (known.bits is not None and np.array_equal(known.bits, bits)):
                return known
            twin = known.twin
        else:
            twin = Twin(self.device, start, end - start)
        self.device.upload(twin.address, bits)
        return _Copy(arrays, twin, bits.copy() if changes else None)

    def _ranges(self, arrays: Iterable[NDArray[Any]]) -> Iterator[tuple[int, int, tuple[NDArray[Any], ...]]]:
        """Yield ranges of memory that do not overlap, and the arrays that lie in each."""
        start = end = 0
        those: list[NDArray[Any]] = []
        for array in sorted(arrays, key=address):
            at = address(array)
            if those and at >= end:
                yield start, end, tuple(those)
                those = []
            if not those:
                start = end = at
            those.append(array)
            end = max(end, at + array.nbytes)
        if those:
            yield start, end, tuple(those)

    def _regions(
        self, buffers: Buffers, arenas: Sequence[Arena], keep: Sequence[NDArray[Any]], stable: bool
    ) -> list[Twin]:
        """Say where on the device is what the processor has; return the arenas' twins."""
        stream = self._stream(buffers)
        prepared = buffers.prepared
        assert isinstance(prepared, _Prepared)
        read = (*prepared.keep, *keep)
        same = len(read) == len(self._read) and all(a is b for a, b in zip(read, self._read, strict=True))
        if not (same and stable):
            # the user's own memory, also where it came as something else that has an array
            users = set() if stable else {id(a) for k, a in prepared.arrays.items() if k < len(prepared.given)}
            arrays = {id(a): a for a in read if a.nbytes}
            self._copies = {
                start: self._copy(start, end, those, not users.isdisjoint(map(id, those)))
                for start, end, those in self._ranges(arrays.values())
            }
            copies = [copy.twin for copy in self._copies.values()]
            self._fixed = [(t.start, t.start + t.size, t.address - t.start) for t in copies]
            self._read = read
        twins = [self._arena_twin(arena) for arena in arenas]
        rows = sorted([*self._fixed, *((t.start, t.start + t.size, t.address - t.start) for t in twins)])
        stream.regions = np.array(rows, np.int64).reshape(-1)
        self._reset(stream)
        return twins

    def _arena_twin(self, arena: Arena) -> Twin:
        if not isinstance(arena.twin, Twin):
            arena.twin = Twin(self.device, arena.address, arena.size)
        assert isinstance(arena.twin, Twin)
        return arena.twin

    @staticmethod
    def _reset(stream: _Stream) -> None:
        start = address(stream.buffer)
        for name, value in (
            ("top", start), ("end", start + len(stream.buffer)), ("delta", stream.twin.address - start),
            ("launches", 0), ("table", address(stream.table)), ("capacity", len(stream.table) // WIDTH),
            ("regions", address(stream.regions)), ("count", len(stream.regions) // 3), ("missing", 0),
        ):  # fmt: skip
            stream.words[STREAM[name]] = value

    # ------------------------------------------------------------------------------------------------------- stages

    def _stages(
        self, buffers: Buffers, arenas: list[Arena], works: list[Arena], failures: dict[int, Failure], timed: bool,
        last: int, rounds: list[Any], keep: Sequence[NDArray[Any]], stable: bool,
    ) -> tuple[dict[str, float], list[float]]:  # fmt: skip
        caller = callable(self.options.schedule)
        waiting = self.host.waiting
        last = 4 if waiting else last
        buffers["single"] = int(waiting)
        buffers["patience"] = state.PATIENCE
        seconds: dict[str, float] = {}
        taken: list[float] = []
        while True:
            buffers["policy"] = self._policy
            for stop in range(1, last + 1) if timed else (1, 3, last) if caller else (3, last):
                start = time.perf_counter()
                if stop > last:
                    break
                if caller and buffers["stage"] == 1:
                    self._levels(buffers)
                    buffers["policy"] = state.BY_CALLER
                buffers["stop"] = stop
                if stop == STAGES.index("execute"):
                    taken += self._execute(buffers, arenas, works, failures, keep, timed, stable)
                else:
                    self._drive(buffers, arenas, works, failures)
                if timed:
                    seconds[STAGES[stop]] = seconds.get(STAGES[stop], 0.0) + time.perf_counter() - start
                    if waiting and stop == STAGES.index("schedule") and (buffers["n"] or not rounds):
                        rounds.append(self._round(buffers, rounds))
            if not buffers["more"]:
                return seconds, taken

    def _drive(self, buffers: Buffers, arenas: list[Arena], works: list[Arena], failures: dict[int, Failure]) -> None:
        while (status := self.engine.drive(buffers.address)) != state.DONE:
            self._grow(buffers, arenas, works, status, failures)

    def _execute(
        self, buffers: Buffers, arenas: list[Arena], works: list[Arena], failures: dict[int, Failure],
        keep: Sequence[NDArray[Any]], timed: bool, stable: bool,
    ) -> list[float]:  # fmt: skip
        """Write down what the launches of a round need, launch, and copy the results back."""
        with self._lock:
            twins = self._regions(buffers, arenas, keep, stable)
            stream = self._stream(buffers)
            rounds = buffers["rounds"]
            self._drive(buffers, arenas, works, failures)
            while missing := int(stream.words[STREAM["missing"]]):
                room = 2 * (len(stream.buffer) + missing)
                regions = stream.regions
                stream.buffer, stream.table, _, stream.twin = self._room(room, buffers["batches"] + _LAUNCHES)
                stream.regions = regions
                self._reset(stream)
                buffers["stage"], buffers["run_batches"], buffers["rounds"] = 3, 0, rounds
                self._drive(buffers, arenas, works, failures)
            taken = self._launch(stream, timed)
            self._fetch(buffers, arenas[-1], twins[-1])
            self._note_failures(buffers, stream, failures)
        return taken

    def _launch(self, stream: _Stream, timed: bool) -> list[float]:
        start = address(stream.buffer)
        used = int(stream.words[STREAM["top"]]) - start
        self.device.upload(stream.twin.address, stream.buffer[:used])
        count = int(stream.words[STREAM["launches"]])
        launches = stream.table.reshape(-1, WIDTH)[:count]
        words, _, _ = self._launches
        words[6] = self._room_for("batch", int(launches[:, 4].max(initial=0)))
        own = int(launches[:, 5].max(initial=0))  # bytes of a warp: where they are many, fewer blocks run at once
        most = int(launches[:, 1].max(initial=1)) if own else self.device.blocks
        words[10] = max(1, min(self.device.blocks, most, _OWN // (own * _WARPS) if own else self.device.blocks))
        words[7] = self._room_for("warps", own * _WARPS * int(words[10]))
        taken = []
        for first, many in ((k, 1) for k in range(count)) if timed else ((0, count),):
            begun = time.perf_counter()
            error = self._loop.call("launch", address(words), address(stream.table) + 8 * WIDTH * first, many)
            if error or timed:
                self.device.wait()
            if error:
                raise RuntimeError(f"a kernel could not be launched: error {error} of the driver")
            taken.append(time.perf_counter() - begun)
        return taken if timed else []

    def _room_for(self, name: str, size: int) -> int:
        """Return the address of scratch memory of a name, at least so many bytes."""
        have = self._scratch.get(name)
        if have is None or have.size < size:
            self._scratch.pop(name, None)  # given back before more is asked for
            self._scratch[name] = have = Twin(self.device, 0, max(size + size // 4, 1 << 16))
        return have.address

    def _fetch(self, buffers: Buffers, arena: Arena, twin: Twin) -> None:
        """Copy the results of a round to the arena."""
        low = buffers["arena"] - arena.address
        data = np.asarray(arena.block)[low : low + buffers["used"]]
        if len(data):
            self.device.download(data, twin.address + low)

    def _note_failures(self, buffers: Buffers, stream: _Stream, failures: dict[int, Failure]) -> None:
        """Bring failures of nodes where the processor's kernels leave them."""
        launches = stream.table.reshape(-1, WIDTH)[: int(stream.words[STREAM["launches"]])]
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        start = buffers.columns["bstart"]
        fail = buffers.columns["fail"]
        for b, (kernel, nodes, _, fails, _, _) in enumerate(launches.tolist()):
            if not table[kernel, TABLE["fallible"]]:
                continue
            found = np.zeros(nodes, np.int64)
            self.device.download(found.view(np.uint8), fails)
            low, high = int(start[b]), int(start[b + 1])
            if table[kernel, TABLE["rows"]]:  # nodes of several rows: a node fails as its first row that fails
                order = buffers.column("order", buffers["n"])[low:high]
                rows = self._rows(buffers)[order]
                firsts = np.cumsum(rows) - rows
                found = np.array(
                    [next((x for x in found[a : a + n] if x), 0) for a, n in zip(firsts, rows, strict=True)]
                )
            fail[low:high] = found
            if found.any():
                buffers["failures"] = 1
        if buffers["more"] and buffers["failures"]:
            self._fail_nodes(buffers, failures)


class SimulatedDevice:
    """The simulator as a device: its memory is apart from the processor's, and checked."""

    blocks = 3
    stream = 0

    def __init__(self, seed: int = 0) -> None:
        from acronumba.emit.interpret import Memory

        self.memory = Memory()
        self.seed = seed
        self.launches = 0
        self._arrays: dict[int, NDArray[Any]] = {}
        self._loaded: list[tuple[Any, str]] = []
        self._error: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 11)(self._launch)
        self.launcher = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def load(self, codes: Sequence[CudaCode]) -> list[list[int]]:
        from acronumba.kernels.cuda.simulator import Simulator

        handles = []
        for code in codes:
            gpu = Simulator(code.source, self.memory, self.seed)
            handles.append([len(self._loaded) + k for k in range(len(code.entries))])
            self._loaded += [(gpu, entry) for entry in code.entries]
        return handles

    def _launch(self, handle: int, blocks: int, *rest: int) -> int:
        """Stand in for `cuLaunchKernel`."""
        y, z, threads, threads_y, threads_z, shared, stream, params, extra = rest
        assert (y, z, threads_y, threads_z, shared, stream, extra) == (1, 1, 1, 1, 0, self.stream, 0)
        gpu, entry = self._loaded[handle]
        words = ctypes.c_int64.from_address
        args = [words(words(params + 8 * k).value).value for k in range(4)]
        self.launches += 1
        try:
            gpu.launch(entry, blocks, threads, *args)
        except Exception as error:  # an exception cannot go through compiled code: `wait` raises it
            self._error = error
            return 700  # the driver's number of an illegal address
        return 0

    def wait(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def allocate(self, size: int) -> int:
        array = aligned(size)
        array[:] = 255
        at = address(array)
        self.memory.add(array)
        self._arrays[at] = array
        return at

    def free(self, at: int) -> None:
        array = self._arrays.pop(at)
        self.memory.remove(array)

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        view, start = self.memory.place(at, len(data), 1, "upload", True)
        np.frombuffer(view, np.uint8, len(data), start)[:] = data

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        view, start = self.memory.place(at, len(data), 1, "download", False)
        data[:] = np.frombuffer(view, np.uint8, len(data), start)


def open_device(name: str) -> Device:
    """Return the device of a name that `config.check_device` has passed."""
    if name == "simulator":
        return SimulatedDevice()
    from acronumba.runtime.gpu import gpu

    return gpu(int(name.partition(":")[2] or 0))
