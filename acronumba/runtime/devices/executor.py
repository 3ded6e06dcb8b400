"""Mini-batches on a GPU: the CPU runs the host machine, the schedule and the layout, the GPU runs the kernels.

In: a mini-batch, as for any `driver.Executor`. The CPU runs all stages up to the kernels, and writes the parameters of
each launch into a buffer (`kernels.cuda.marshal`). The buffer is copied to the device in one piece, and the kernels are
launched one after the other. If no node can fail and no decision needs a value, results are copied back only on demand,
so that the next mini-batch is recorded while the device computes this one. A `Device` is a GPU or its simulator. Memory
that both sides have (arenas, packed instances, packed shared values) is described by regions.
"""

from __future__ import annotations

import ctypes
import operator
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.waits import decisive
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.marshal import ROW, STREAM
from acronumba.kernels.cuda.persistent import PIECE
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.cuda.writer import Grid
from acronumba.locks import ForkLock
from acronumba.memory import Array, Words, address
from acronumba.records import record
from acronumba.runtime import state
from acronumba.runtime.buffers import Arena, Buffers
from acronumba.runtime.devices.arrays import sweep
from acronumba.runtime.devices.device import Device, DeviceCopy
from acronumba.runtime.devices.launches import Launches, launches
from acronumba.runtime.devices.pending import PendingResults
from acronumba.runtime.devices.persistent import APART, GIVEN_UP, GRAPH, TOGETHER, PersistentRun
from acronumba.runtime.driver import Executable
from acronumba.runtime.library.launch_words import (
    CRAMPED,
    FAILED,
    LATE,
    LAUNCHED,
    LOST,
    SCANT,
    UNKNOWN,
    UNWRITTEN,
    WARPS,
    WRITTEN,
)
from acronumba.runtime.minibatch import MiniBatch
from acronumba.runtime.run import Run
from acronumba.runtime.shared import Forms, Prepared
from acronumba.runtime.state import TABLE
from acronumba.runtime.trace import STAGES

_Row = tuple[int, int, int]  # of `Stream.regions`

_ROOM = 1 << 16  # bytes of the first buffer for parameters of launches
_LAUNCHES = 256  # that the first table has room for
_ARENAS = 4  # of which it is known where they are
_NOTHING: Words = np.zeros(1, np.int64)
_EXECUTE = STAGES.index("execute")
_COARSE = 4  # gaps between results take 1 / 16 of their memory at most, so that marks of levels are few
UNLIMITED = 1 << 62  # nanoseconds: `execute` itself takes no time, as kernels run elsewhere


@record(eq=False, frozen=False)
class _Copy:
    """Device copy of the memory range of some arrays, which may overlap."""

    arrays: tuple[Array, ...]
    device_copy: DeviceCopy
    bits: NDArray[np.uint8] | None  # that were copied from, if the user may change an array


@record(eq=False, frozen=False)
class _Shared:
    """Copies of shared values by address, and where they and the arrays that stay on the device are."""

    copies: dict[int, _Copy]
    there: list[_Row]  # of arrays that stay, and of their forms
    rows: list[_Row]
    fixed: bool  # whether nobody changes an array that was copied


class Stream:
    """Buffers, regions and tables of one run's launches: see `kernels.cuda.marshal`."""

    def __init__(self, device: Device, spare: Callable[[int], int], read: int = 0) -> None:
        self.device = device
        self.read = read  # most results of a launch that the CPU waits for
        self.spare = spare  # from a number of launches to the bytes of their steps, see `runtime.devices.persistent`
        self.words: Words = np.zeros(STREAM.count, np.int64)
        self.address = address(self.words)
        self.view = self.words.data
        self.regions: Words = np.zeros(0, np.int64)
        # by arenas, as results may be held while others are computed: (shared regions, packed arrays, all regions)
        self.known: dict[tuple[_Row, ...], tuple[list[_Row], list[weakref.ref[Array]], Words]] = {}
        self.pending: PendingResults | None = None  # the results of the last run
        self.shared: object = None  # owner of the copies of shared values in `regions`
        self.marks: Words = np.zeros(0, np.int64)  # see `kernels.cuda.marshal`
        self.staged: tuple[NDArray[np.uint8], DeviceCopy] | None = None  # for packed instances
        self["event"] = event = device.event()
        self._end = weakref.finalize(self, device.forget, event)
        self._end.atexit = False
        self.room(_ROOM, _LAUNCHES)

    @property
    def alive(self) -> bool:
        """Whether it still has its memory: a run that ends in a cycle of garbage gives its buffers back without."""
        return self._end.alive

    def room(self, size: int, launches: int) -> None:
        """Allocate a buffer of `size` bytes, and tables for so many launches."""
        size = size + 63 & -64
        buffer = self.device.pinned(size + self.spare(launches))
        self.device_copy = device_copy_of(self.device, address(buffer), len(buffer))
        self.buffer, self.start = buffer, self.device_copy.start
        self.table: Words = np.zeros(launches * ROW.count, np.int64)
        self["start"], self["tail"], self["delta"] = (
            self.start,
            self.start + size,
            self.device_copy.address - self.start,
        )
        self["table"], self["capacity"] = address(self.table), launches
        self.pieces: Words = np.zeros((launches * self.read + 1) * PIECE.count, np.int64)
        self["pieces"] = address(self.pieces)

    def mark(self, size: int) -> None:
        """Make room for the marks of all granules of the memory that results lie in."""
        granules = (size >> state.LEAST_GRANULE) + 1 if self.spare(1) and size else 0
        if granules > self["mark_room"]:
            self.marks = np.zeros(granules, np.int32)
            self["marks"], self["mark_room"] = address(self.marks), granules

    def place(self, regions: Words) -> None:
        """Set the regions."""
        self.regions = regions
        self["regions"], self["count"], self["last"] = address(regions), len(regions) // 3, 0

    def stage(self, pieces: Sequence[NDArray[np.uint8]]) -> int:
        """Copy pieces to the device, 256 bytes or a multiple apart; return the address of the first."""
        size = sum(len(piece) + 255 & -256 for piece in pieces)
        self.device.reach(self["event"])  # what was staged for the last run is there
        if self.staged is None or self.staged[1].size < size:
            self.staged = None  # given back before more is asked for
            room = size + size // 4
            self.staged = self.device.pinned(room), device_copy_of(self.device, 0, room)
        memory, there = self.staged
        at = 0
        for piece in pieces:
            memory[at : at + len(piece)] = piece
            at += len(piece) + 255 & -256
        self.device.upload(there.address, memory[:size])
        return there.address

    def begin(self) -> None:
        """Make it ready for launches that are marshalled without a mini-batch."""
        self["top"], self["end"] = self.start, self["tail"]
        self["arena"] = self["used"] = self["granule"] = address(_NOTHING)

    def __getitem__(self, name: str) -> int:
        return self.view[STREAM.at[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self.view[STREAM.at[name]] = value

    @property
    def launches(self) -> Words:
        """Rows of ROW."""
        return self.table.reshape(-1, ROW.count)[: self["launches"]]


class Launching:
    """Loads kernels and launches their functions, with scratch memory for them.

    Parameters
    ----------
    device
        Where.
    """

    launches: Launches
    persistent: PersistentRun
    _words: int  # address of the launches
    _apart: Callable[..., int]  # functions of `runtime.library.launch`
    _together: Callable[..., int]
    _graphed: Callable[..., int]

    def __init__(self, device: Device) -> None:
        self.device = device
        self._scratch: dict[str, DeviceCopy] = {}

    def _loaded(self, codes: Sequence[CudaCode]) -> list[list[tuple[int, int, tuple[Grid, ...]]]]:
        """Load kernels; return for each function the handle, the number of blocks that run at once, and the grids."""
        device = self.device
        handles = device.load(codes)
        weakref.finalize(self, device.unload, [h for own in handles for h in own]).atexit = False
        return [
            [
                (handle, device.processors * device.resident(handle, THREADS, grids[0].pool), grids)
                for handle, grids in zip(own, code.grids, strict=True)
            ]
            for code, own in zip(codes, handles, strict=True)
        ]

    def _call(self, function: Callable[..., int], stream: Stream, *args: int) -> bool:
        """Call compiled code that launches; True: it raises where that fails."""
        error = function(self._words, *args)
        if error < 0:
            self._widen(stream)
            error = function(self._words, *args)
        if error:
            self.device.reject(error)
        return True

    def _start(self, stream: Stream) -> Words | None:
        """Launch all kernels; return the word that blocks set on a time-out, if there is one."""
        launches, at = stream["launches"], stream.address
        if not launches:
            return None
        size = launches.bit_length(), stream["total"].bit_length()
        if self.persistent.way(size) == APART:
            self._call(self._apart, stream, at)
            return None
        word, about = self.persistent.word(), self.persistent.about
        ways = {
            APART: lambda: self._call(self._apart, stream, at),
            TOGETHER: lambda: self._call(self._together, stream, at, about),
            GRAPH: lambda: self._graph(stream),
        }
        self.persistent.run(size, word, ways)
        return word

    def _graph(self, stream: Stream) -> bool:
        """Launch the graph that a mini-batch needs; return whether there is one."""
        done = self._graphed(self._words, stream.address, self.persistent.about)
        if done == SCANT:
            self._widen(stream)
            done = self._graphed(self._words, stream.address, self.persistent.about)
        if done == UNKNOWN and self.persistent.make_graph():
            done = self._graphed(self._words, stream.address, self.persistent.about)
        if done > 0:
            self.device.reject(done)
        return not done

    def _widen(self, stream: Stream) -> None:
        """Make room for the scratch memory of a stream's launches."""
        words = self.launches
        words["scratch"], words["scratch_size"] = self._room_for("scratch", stream["batch"])
        words["warps"], words["warps_size"] = self._room_for("warps", stream["warp"] * WARPS * words["blocks"])

    def _room_for(self, name: str, size: int) -> tuple[int, int]:
        """Return the address and the size, at least `size` bytes, of scratch memory of a name."""
        have = self._scratch.get(name)
        if have is None or have.size < size:
            self.launches[f"{name}_size"] = 0
            have = self._more(name, size)
        return have.address, have.size

    def _have(self, name: str, size: int) -> DeviceCopy:
        """Return memory of a name with at least so many bytes."""
        have = self._scratch.get(name)
        return have if have is not None and have.size >= size else self._more(name, size)

    def _more(self, name: str, size: int) -> DeviceCopy:
        """Return new scratch memory of a name; its old memory is freed first."""
        self._scratch.pop(name, None)
        self._scratch[name] = device_copy_of(self.device, 0, max(size + size // 4, 1 << 16))
        return self._scratch[name]


class DeviceExecutor(Launching):
    """Runs kernels on a device.

    Parameters
    ----------
    device
        Where kernels run.
    codes
        Of the kernels, in the order of the plan.
    calls
        Compiled functions that launch, by their names in `runtime.library.launch`.
    """

    def __init__(self, device: Device, codes: Sequence[CudaCode], calls: Mapping[str, Callable[..., int]]) -> None:
        super().__init__(device)
        self.codes = codes
        self.allocate = device.pinned
        self._lock = ForkLock()  # of the device's scratch memory, and of the copies
        self._shared: dict[Prepared, _Shared] = {}  # of the last few that came
        self._packed: dict[int, tuple[weakref.ref[Array], DeviceCopy | None]] = {}  # memory of packed instances
        self._write, self._send, self._loop = calls["write"], calls["send"], calls["launch"]
        self._apart, self._together, self._all = calls["apart"], calls["together"], calls["whole"]
        self._rounds, self._dismiss, self._graphed = calls["rounds"], calls["dismiss"], calls["graphed"]
        self._bring_of = calls["fetch"]

    def attach(self, executable: Executable) -> None:
        self.arenas, self.memory_policy, self.recorded = (
            executable.arenas,
            executable.memory_policy,
            executable.recorded,
        )
        self.host, self.engine, self.prepared = executable.host, executable.engine, executable.shared
        self.prepared.device, self.prepared.waits = self.device, self.host.waiting
        plan, device = executable.plan, self.device
        self._once = {once.kernel for once in plan.program.once}  # these run on the CPU
        there = [k for k in range(len(plan.kernels)) if k not in self._once]
        self._fallible = any(op.site >= 0 for k in there for op in plan.kernels[k].body)
        with _lock:
            _executors.add(self)
        codes = [self.codes[k] for k in there]
        functions: list[list[tuple[int, int, tuple[Grid, ...]]]] = [[] for _ in plan.kernels]
        for k, own in zip(there, self._loaded(codes), strict=True):
            functions[k] = own
        drive = self.engine.address["drive"]
        self.launches = launches(device.driver, device.stream, device.processors, functions, drive)
        self._words = self.launches.address
        self._bring = partial(self._bring_of, self._words)
        self._read = max(map(len, decisive(plan.program).values()), default=0) if self.host.waiting else 0
        self.persistent = PersistentRun(
            device, codes, executable.options.persistent, self._read, stays=self.host.waiting
        )
        self.launches["whole"] = int(not self.persistent.able)

    # ------------------------------------------------------------------------------------------------------- memory

    def _stream(self, buffers: Buffers) -> Stream:
        """Return the stream of a state table."""
        if not isinstance(buffers.stream, Stream) or not buffers.stream.alive:
            buffers.stream = Stream(self.device, self.persistent.room, self._read)
        assert isinstance(buffers.stream, Stream)
        return buffers.stream

    def begin(self, m: MiniBatch, fresh: bool) -> None:
        m.buffers["single"] = int(self.host.waiting)
        m.buffers["run_slice"] = UNLIMITED
        m.buffers["coarse"] = _COARSE if self.persistent.able else 0
        before, stream = m.buffers.stream, self._stream(m.buffers).address
        if fresh or m.buffers.stream is not before:
            for k, params in enumerate(m.buffers.table.params):
                if k not in self._once:
                    params[-2] = stream

    def _copy(self, start: int, end: int, arrays: tuple[Array, ...], changes: bool, last: Mapping[int, _Copy]) -> _Copy:
        """Return the device copy of a range of memory, renewed if its arrays are other ones or have other bits."""
        known = last.get(start)
        same = known is not None and len(known.arrays) == len(arrays) and all(map(operator.is_, known.arrays, arrays))
        if known is not None and same and not changes:
            return known
        bits = np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
        if known is not None and same:
            if known.bits is not None and np.array_equal(known.bits, bits):
                return known
        else:
            known = _Copy(arrays, device_copy_of(self.device, start, end - start), None)
        own = bits.copy() if changes else bits  # the user may change it before it is on the device
        # Sets of shared values with an array in common share its device copy, and the bits that were copied.
        known.bits = None
        self.device.upload(known.device_copy.address, own)
        known.bits = own if changes else None
        return known

    @staticmethod
    def ranges(arrays: Iterable[Array]) -> Iterator[tuple[int, int, tuple[Array, ...]]]:
        """Yield ranges of memory that do not overlap, and the arrays that lie in each."""
        start = end = 0
        those: list[Array] = []
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

    def _share(self, prepared: Prepared, stable: bool) -> list[_Row]:
        """Copy shared values that the device does not have; return the regions of all."""
        known, forms = self._shared.get(prepared), prepared.forms
        there = known.there if known is not None and stable else [] if forms is None else forms.regions()
        if known is None or not (stable or (known.fixed and known.there == there)):
            # the user's own memory, also where it came as something else that has an array
            given = {id(a) for k, a in prepared.arrays.items() if k < len(prepared.given)}
            packed = {id(p.array) for p in prepared.packed.values()} if prepared.by is not None else set()
            users = packed if stable else packed | given
            arrays = {id(a): a for a in prepared.keep if a.nbytes and (forms is None or not forms.holds(a))}
            before = known or next(reversed(self._shared.values()), None)
            last = {} if before is None else before.copies
            copies = {
                start: self._copy(start, end, those, not users.isdisjoint(map(id, those)), last)
                for start, end, those in self.ranges(arrays.values())
            }
            found = [*there, *(copy.device_copy.region for copy in copies.values())]
            rows = known.rows if known is not None and known.rows == found else found
            known = _Shared(copies, there, rows, fixed=(packed | given).isdisjoint(arrays))
            kept = {p: at for p, at in self._shared.items() if p in self.prepared.recent and p is not prepared}
            self._shared = kept | {prepared: known}
        return known.rows

    def _pack(self, stream: Stream, keep: Sequence[Array], forms: Forms | None) -> list[_Row]:
        """Copy the arrays of packed instances; an array that is used a second time gets a permanent copy."""
        rows: list[_Row] = []
        fresh: dict[int, Array] = {}
        for array in keep:
            at = address(array)
            known, device_copy = self._packed.get(at, (None, None))
            if not array.nbytes or at in fresh or (forms is not None and forms.holds(array)):
                continue
            if known is None or known() is not array:
                fresh[at] = array
                continue
            if device_copy is None:
                self._packed[at] = known, device_copy = known, device_copy_of(self.device, at, array.nbytes)
                self.device.upload(device_copy.address, bytes_of(array))
            rows.append(device_copy.region)
        if fresh:
            self._packed = {at: one for at, one in self._packed.items() if one[0]() is not None}
            self._packed |= {at: (weakref.ref(array), None) for at, array in fresh.items()}
            place = stream.stage([bytes_of(array) for array in fresh.values()])
            for at, array in fresh.items():
                rows.append((at, at + array.nbytes, place - at))
                place += array.nbytes + 255 & -256
        return rows

    def _regions(self, m: MiniBatch) -> Stream:
        """Return a mini-batch's stream with its regions set, which map CPU memory to device memory."""
        stream, arenas, keep = self._stream(m.buffers), m.arenas, m.keep
        stream.mark(max([arena.size for arena in arenas], default=0))
        shared = self._share(m.prepared, m.stable)
        stream.shared = self._shared[m.prepared].copies
        if not self._placed(stream, shared, arenas, keep):
            own = tuple([self._arena_copy(arena).region for arena in arenas])
            rows = sorted([*shared, *self._pack(stream, keep, m.prepared.forms), *own])
            stream.place(np.array(rows, np.int64).reshape(-1))
            # the stream's own memory may be overwritten: only arrays with permanent copies are cached
            if all(self._packed.get(address(a), (None, None))[1] is not None for a in keep if a.nbytes):
                stream.known.pop(own, None)
                stream.known = dict([*stream.known.items()][1 - _ARENAS :])
                stream.known[own] = shared, [*map(weakref.ref, keep)], stream.regions
        return stream

    def _placed(self, stream: Stream, shared: list[_Row], arenas: Sequence[Arena], keep: Sequence[Array]) -> bool:
        """Whether regions for these arrays are cached; the stream uses them, then."""
        known = stream.known.get(tuple([self._arena_copy(arena).region for arena in arenas]))
        if known is None or known[0] is not shared or not _alike(known[1], keep):
            return False
        if known[2] is not stream.regions:
            stream.place(known[2])
        return True

    def _arena_copy(self, arena: Arena) -> DeviceCopy:
        device_copy = arena.device_copy
        if not isinstance(device_copy, DeviceCopy) or not device_copy.alive:
            arena.device_copy = device_copy = device_copy_of(self.device, arena.address, arena.size)
        return device_copy

    # ------------------------------------------------------------------------------------------------------- stages

    def whole(self, m: MiniBatch) -> bool:
        """Run all stages in one call if the regions are cached and no memory must grow; else some stages, or none."""
        if m.last < _EXECUTE or m.timed or m.by_caller:
            return False
        if self.host.waiting:
            return not m.watched and self._all_rounds(m)
        known = self._shared.get(m.prepared)
        if known is None or not (m.stable or known.fixed):
            return False
        with self._lock, self.device:
            sweep()
            stream, shared = self._stream(m.buffers), self._share(m.prepared, m.stable)
            stream.shared = self._shared[m.prepared].copies
            if not self._placed(stream, shared, m.arenas, m.keep):
                return False
            done = self._all(self._words, stream.address, m.buffers.address)
            if done < 0:
                self.device.reject(-done)
            if done != UNWRITTEN:
                word = self._start(stream) if done == WRITTEN else None
                self._settle(m, stream, word)
                return True
            status = self.launches["status"]
        if status != state.DONE:
            self.memory_policy.grow(m, status)
        return False

    def _all_rounds(self, m: MiniBatch) -> bool:
        """Run all rounds of a program that waits for values, by one kernel that stays where that is faster."""
        buffers, about, way = m.buffers, self.persistent.about, self.persistent
        with self._lock, self.device:
            sweep()
            stream = self._regions(m)
            way["phase"] = 0
            try:
                while True:
                    done = self._rounds(self._words, stream.address, buffers.address, about)
                    if done in (UNWRITTEN, WRITTEN, CRAMPED):  # what follows needs the driver
                        self._let_go()
                    if done == UNWRITTEN:
                        self._make_room(m, stream)
                        stream = self._regions(m)
                    elif done == CRAMPED:
                        self._widen(stream)
                    elif done == WRITTEN:
                        self._fetch(m, stream, self._start(stream))
                    elif done == FAILED:
                        self._fail(m, stream)
                    elif done == LATE:
                        self._look_after()
                    elif done == LOST:
                        raise RuntimeError(GIVEN_UP)
                    elif done < 0:
                        self.device.reject(-done)
                    if done == LAUNCHED or (done in (WRITTEN, FAILED) and not buffers["more"]):
                        break
            finally:
                self._let_go()
            start, size = buffers["arena"], buffers["arena_used"]
            first = m.arenas[-1].address
            stream.pending = self._pending(m, m.arenas, first, start + size - first, None)
        return True

    def _pending(
        self, m: MiniBatch, arenas: Sequence[Arena], start: int, size: int, word: Words | None
    ) -> PendingResults:
        return PendingResults(self.device, arenas, start, size, word, self.persistent, m.prepared.forms, self._bring)

    def _fetch(self, m: MiniBatch, stream: Stream, word: Words | None) -> None:
        """Copy back what the program waits for, and the failures of nodes."""
        pieces = stream.pieces.reshape(-1, PIECE.count)[: stream["bring"]]
        pending = self._pending(m, m.arenas[-1:], m.buffers["arena"], m.buffers["arena_used"], word)
        pending.some(pieces[:, PIECE.at["to"]], 8 * pieces[:, PIECE.at["words"]])
        if self._fallible and stream["end"] < stream["tail"]:
            self._note_failures(m, stream, pending)

    def _let_go(self) -> None:
        """Wait until the kernel that stays between rounds has left."""
        while self._dismiss(self.persistent.about) == LATE:
            self._look_after()

    def _look_after(self) -> None:
        """Raise if the kernel that stays has failed, as it says nothing for long."""
        way = self.persistent
        there, way["there"] = way["there"], 0  # unless there is no error
        if self.device.idle() and not way.says():
            raise RuntimeError("the kernel of a mini-batch has ended without a word")
        way["there"] = there

    def _make_room(self, m: MiniBatch, stream: Stream) -> None:
        """Make room for what compiled code has asked for."""
        if missing := stream["missing"]:
            stream.room(2 * (len(stream.buffer) + missing), m.buffers["batches"] + _LAUNCHES)
            stream["missing"] = 0
        else:
            self.memory_policy.grow(m, self.launches["status"])

    def stops(self, m: MiniBatch) -> Sequence[int]:
        if m.timed:
            return range(1, m.last + 1)
        first = (state.TO_SCHEDULE,) if m.by_caller else ()
        return [stop for stop in (*first, state.TO_EXECUTE, m.last) if stop <= m.last]

    def advance(self, m: MiniBatch, stop: int) -> float:
        start = time.perf_counter()
        if stop == _EXECUTE:
            self._execute(m)
        else:
            self._drive(m)
        return time.perf_counter() - start

    def _drive(self, m: MiniBatch) -> None:
        while (status := self.engine.drive(m.buffers.address)) != state.DONE:
            self.memory_policy.grow(m, status)

    def _execute(self, m: MiniBatch) -> None:
        """Marshal and launch the kernels of a round; copy back the values and failures that are needed now."""
        buffers = m.buffers
        with self._lock, self.device:
            sweep()
            stream = self._regions(m)
            rounds = buffers["rounds"]
            self._write_down(m, stream)
            while missing := stream["missing"]:
                stream.room(2 * (len(stream.buffer) + missing), buffers["batches"] + _LAUNCHES)
                buffers["stage"], buffers["run_batches"], buffers["rounds"] = state.TO_EXECUTE, 0, rounds
                self._write_down(m, stream)
            word = None
            if m.timed:
                m.taken += self._one_by_one(stream)
            else:
                word = self._start(stream)
            self._settle(m, stream, word)

    def _settle(self, m: MiniBatch, stream: Stream, word: Words | None) -> None:
        """Note where results will be, and the word that tells whether the run has failed (`word`); copy back what is
        needed now: all results if the program waits for values, and failures of nodes.
        """
        start, size = m.buffers["arena"], m.buffers["arena_used"]
        stream.pending = self._pending(m, m.arenas[-1:], start, size, word)
        if self.host.waiting:
            stream.pending.all()
        if self._fallible and stream["end"] < stream["tail"]:
            self._note_failures(m, stream, stream.pending)

    def _write_down(self, m: MiniBatch, stream: Stream) -> None:
        """Run the schedule and write the parameters of the launches."""
        status = self._write(self._words, stream.address, m.buffers.address)
        if status < 0:
            self.device.reject(-status)
        if status != state.DONE:
            self.memory_policy.grow(m, status)
            self._drive(m)

    def finish(self, m: MiniBatch, run: Run) -> None:
        """Give the run its pending results, which are copied from the device on demand."""
        stream = m.buffers.stream
        if isinstance(stream, Stream) and stream.pending is not None:
            run.pending, stream.pending = stream.pending, None

    def _one_by_one(self, stream: Stream) -> list[float]:
        """Launch the kernels of one batch after the other; return the seconds of each."""
        taken: list[float] = []
        if stream["launches"]:
            self._call(self._send, stream, stream.address)
        for k in range(stream["launches"]):
            start = time.perf_counter()
            self._call(self._loop, stream, stream["table"] + ROW.size * k, 1)
            self.device.wait()
            taken.append(time.perf_counter() - start)
        return taken

    def _note_failures(self, m: MiniBatch, stream: Stream, pending: PendingResults) -> None:
        """Copy failures of nodes to where kernels on the CPU store them."""
        low, high = stream["end"] - stream.start, stream["tail"] - stream.start
        self.device.download(stream.buffer[low:high], stream.device_copy.address + low)
        self.persistent.wait()
        pending.check()
        if stream.buffer[low:high].any():
            self._fail(m, stream)

    def _fail(self, m: MiniBatch, stream: Stream) -> None:
        """Note the failures that have come back."""
        buffers = m.buffers
        buffers["failures"] = 1
        start, fail = buffers.columns["bstart"], buffers.columns["fail"]
        table = buffers.table.rows
        for b, (kernel, nodes, _, fails, *_) in enumerate(stream.launches.tolist()):
            if not fails:
                continue
            at = fails - stream.device_copy.address
            found: Words = stream.buffer[at : at + 8 * nodes].view(np.int64)
            first, last = int(start[b]), int(start[b + 1])
            if table[kernel, TABLE["rows"]]:  # nodes of several rows: a node fails as its first row that fails
                order = buffers.column("order", buffers["n"])[first:last]
                rows = self.recorded.rows(buffers)[order]
                firsts = np.cumsum(rows) - rows
                found = np.array(
                    [next((x for x in found[a : a + n] if x), 0) for a, n in zip(firsts, rows, strict=True)]
                )
            fail[first:last] = found
        if buffers["more"]:
            self.memory_policy.fail_nodes(m)


_executors: weakref.WeakSet[DeviceExecutor] = weakref.WeakSet()
_lock = ForkLock()  # of these


def device_copy_of(device: Device, start: int, size: int) -> DeviceCopy:
    """Return memory of a device; if it is full, the arenas that models hold there for later are freed first."""
    try:
        return DeviceCopy(device, start, size)
    except MemoryError:
        with _lock:
            others = list(_executors)
        for other in others:
            if other.device is device:
                other.arenas.clear()
        return DeviceCopy(device, start, size)


def _alike(known: Sequence[weakref.ref[Array]], arrays: Sequence[Array]) -> bool:
    return len(known) == len(arrays) and all(map(operator.is_, [one() for one in known], arrays))


def bytes_of(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
