"""Backward passes on a device: the CPU transposes the graph, the device runs its kernels and the sums over nodes.

In: a `DeviceExecutor` that has run forward passes, and the kernels of the backward pass. Out: a
`runtime.backends.Backend`. Batches of backward kernels are marshalled and launched like those of the forward pass
(`kernels.cuda.marshal`), the sums of adjoints among them (`runtime.library.launch_sums`). Sums over nodes follow in the
same buffer (`runtime.library.launch_jobs`), and all is one launch where that is faster. Results have CPU addresses, as
everything else; they are copied to the CPU on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.kernels import sums
from acronumba.kernels.cuda.generate import WARP, CudaCode
from acronumba.kernels.cuda.marshal import locate
from acronumba.kernels.cuda.sums import FUNCTIONS, JOB, code
from acronumba.locks import ForkLock
from acronumba.memory import Array, DeviceTensor, Words, address, memory_at
from acronumba.runtime import state
from acronumba.runtime.backends import BackwardMemory, Pieces
from acronumba.runtime.batches import Batches
from acronumba.runtime.devices.arrays import DeviceArray, Pooled, sweep
from acronumba.runtime.devices.device import DeviceCopy
from acronumba.runtime.devices.executor import (
    UNLIMITED,
    DeviceExecutor,
    Launching,
    Stream,
    bytes_of,
    device_copy_of,
)
from acronumba.runtime.devices.launches import launches
from acronumba.runtime.devices.pending import together
from acronumba.runtime.devices.persistent import GIVEN_UP, PersistentRun
from acronumba.runtime.shared import Forms
from acronumba.runtime.summing import Job

_LAUNCHES = 256  # more than there are batches, that the table has room for
_CONSTANTS = 64  # arrays that come again, at most
_LATE = 32  # launches that nobody has waited for, at most
_NUMBERS = {name: k for k, name in enumerate(FUNCTIONS)}
_SIZES = {"float32": 4, "float64": 8}
_REST = (0,) * (JOB.count - JOB.at["words"])
_SPANS = {"outer": sums.OUTER_CHUNK, "columns": sums.SUM_CHUNK}  # rows of a part of a long sum, at least
_PARTS = 1 << 28  # bytes that the parts of a sum may take


SUMS_EXPORTS = ("note_sums", "cut_jobs", "note_jobs")


def sums_module() -> tree.Module:
    """Return the module of `runtime.library.launch_sums` and `launch_jobs`."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(["acronumba.runtime.library.launch_sums", "acronumba.runtime.library.launch_jobs"])
    return tree.Module("launch_sums", (locate(), *functions), SUMS_EXPORTS)


def sums_code() -> Deferred:
    """Return the module of `sums_module`, made only if its machine code is not cached."""
    return Deferred(name="launch_sums", key="launch_sums", make=sums_module)


class BackDevice(Launching):
    """Backend of backward passes on a device.

    Parameters
    ----------
    executor
        Executor of the forward pass.
    codes
        Code of the backward kernels, in their order.
    dtypes
        Dtypes of sums.
    calls
        Map from names in `runtime.library.launch` and `launch_jobs` to the compiled functions.
    drive, note_sums
        Addresses of compiled functions.
    wanted
        Whether to run a backward pass as one launch; None: whichever is faster.
    """

    def __init__(
        self, executor: DeviceExecutor, codes: Sequence[CudaCode], dtypes: Sequence[str],
        calls: Mapping[str, Callable[..., int]], drive: int, note_sums: int, wanted: bool | str | None,
    ) -> None:  # fmt: skip
        super().__init__(executor.device)
        device = self.device
        self.on = WARP
        self._lock = ForkLock()  # one backward pass at a time: they have the same stream and the same memory
        self._kernels = {dtype: len(codes) + k for k, dtype in enumerate(dtypes)}
        self._first = len(codes)  # of the kernels of sums
        every = [*codes, *map(code, dtypes)]
        functions = self._loaded(every)
        self.launches = launches(device.driver, device.stream, device.processors, functions, drive)
        self._words = self.launches.address
        self.persistent = PersistentRun(device, every, wanted)
        self.stream = Stream(device, self.persistent.room)
        self._calls, self._write = calls, calls["write"]
        self._apart, self._together, self._graphed = calls["apart"], calls["together"], calls["graphed"]
        self._note_sums = note_sums
        self._given: tuple[Words, list[tuple[int, int, int]]] = np.zeros(0, np.int64), []  # what `_regions` are made of
        self._regions: list[tuple[int, int, int]] = []  # of the forward pass
        self._covers: dict[tuple[int, int], bool] = {}  # whether they have an array: its address and size
        self._constants: dict[int, tuple[Array, DeviceCopy]] = {}  # by address
        self._words_of_runs: list[Words] = []  # what launches say whether they have failed by
        self._left: tuple[Batches, int, int]  # batches that are not launched yet, how many, and bytes of scratch
        self.of: BackwardMemory | None = None  # of the backward pass that runs,
        self.before: Stream | None = None  # ... and of the forward pass, which owns the memory of its regions

    def tail(self, kernel: int) -> tuple[int, int]:
        """Return the last words of a kernel's table P, for `kernels.cuda.marshal`."""
        return self.stream.address, kernel

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        return self._note_sums, self.tail(self._kernels[dtype])

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._lock, self.device:
            sweep()
            if len(self._words_of_runs) > _LATE or self._lost():
                self._settle()
            self._late = False
            try:
                yield
            except BaseException:
                self.persistent.wait()
                raise
            finally:
                self.of = self.before = None  # what a run has goes with it
            if not self._late:
                self._settle()

    def check(self) -> None:
        """Raise if a backward pass has failed whose results stay on the device; all are done when this is asked."""
        if self._lost():
            raise RuntimeError(GIVEN_UP)

    def export(self) -> None: ...

    def _lost(self) -> bool:
        """Whether blocks of a launch have waited for each other in vain."""
        return any(word[0] for word in [*self._words_of_runs])

    def _settle(self) -> None:
        """Wait until all is done; raise if a launch has failed."""
        self.persistent.wait()
        lost = self._lost()
        while self._words_of_runs:
            self.persistent.give(self._words_of_runs.pop())
        if lost:
            raise RuntimeError(GIVEN_UP)

    # ---- batches

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        """See `Backend`. The batches are launched with the sums behind them, unless their results are wanted before."""
        self.of = of
        self._place(of)
        batches["arena"], batches["arena_used"], batches["run_slice"] = of.start, of.size, UNLIMITED
        batches["granule"] = state.LEAST_GRANULE  # as `transpose` places results
        self.stream.mark(of.size)
        self._left = batches, count, scratch

    def _go_on(self) -> None:
        """Launch the batches, if they are not."""
        if self._left[1]:
            self._write_down(self._table((), {}))
            self._launch()

    def _launch(self) -> None:
        """Launch what has been written."""
        word = self._start(self.stream)
        if word is not None:
            self._words_of_runs.append(word)

    def _write_down(self, jobs: Words) -> None:
        """Write the launches of the batches that are left, and of sums: rows of JOB."""
        stream, (batches, count, scratch) = self.stream, self._left
        at, many, kernels = address(jobs), len(jobs), len(self._kernels)
        size = self._calls["cut_jobs"](at, many, _SPANS["outer"], _SPANS["columns"], _PARTS)
        parts = self._have("parts", size).address
        while True:
            batches.begin(count, scratch, 1)
            status = self._write(self._words, stream.address, address(batches.st))
            if status < 0:
                self.device.reject(-status)
            assert status == state.DONE
            self._calls["note_jobs"](stream.address, at, many, self._first, kernels, parts)
            if not stream["missing"]:
                break
            launches = count + (1 + jobs[:, JOB.at["level"]].max(initial=-1)) * kernels
            stream.room(2 * (len(stream.buffer) + stream["missing"]), launches + _LAUNCHES)
        self._left = batches, 0, scratch

    @property
    def _of(self) -> BackwardMemory:
        assert self.of is not None, "nothing runs"
        return self.of

    def _place(self, of: BackwardMemory) -> None:
        """Set the stream's regions for a backward pass; copy arrays that are not on the device yet."""
        before = of.run.buffers.stream
        assert isinstance(before, Stream)
        self.before = before
        forms = of.run.prepared.forms
        there = [] if forms is None else forms.regions()
        if self._given[0] is not before.regions or self._given[1] != there:
            known = {(start, end, shift) for start, end, shift in before.regions.reshape(-1, 3).tolist()}
            self._given, self._regions, self._covers = (before.regions, there), sorted(known.union(there)), {}
        rows = [*self._regions]
        missing = [a for a in of.read if a.nbytes and not self._covered(address(a), a.nbytes)]
        ranges = [(start, end) for start, end, _ in DeviceExecutor.ranges({id(a): a for a in missing}.values())]
        if ranges:
            place = self.stream.stage([memory_at(start, end) for start, end in ranges])
            for start, end in ranges:
                rows.append((start, end, place - start))
                place += end - start + 255 & -256
        if len(self._constants) > _CONSTANTS:
            self._constants = {}
        rows += [self._constant(a) for a in of.constants if a.nbytes]
        if of.zeros.nbytes:
            at = address(of.zeros)
            rows.append((at, at + of.zeros.nbytes, self._zeros(of.zeros.nbytes) - at))
        if of.size:
            self.places = self._have("places", of.size).address - of.start
            rows.append((of.start, of.start + of.size, self.places))
        self.stream.place(np.array(sorted(rows), np.int64).reshape(-1))

    def _constant(self, array: Array) -> tuple[int, int, int]:
        """Return the region of an array that does not change: it is copied once."""
        at = address(array)
        known = self._constants.get(at)
        if known is None:
            known = self._constants[at] = array, device_copy_of(self.device, at, array.nbytes)
            self.device.upload(known[1].address, bytes_of(array))
        return known[1].region

    def _covered(self, at: int, size: int) -> bool:
        """Whether memory lies in one of the regions of the forward pass."""
        found = self._covers.get((at, size))
        if found is None:
            found = any(start <= at and at + size <= end for start, end, _ in self._regions)
            self._covers[at, size] = found
        return found

    def _zeros(self, size: int) -> int:
        """Return the address of so many zeros."""
        have = self._scratch.get("zeros")
        if have is None or have.size < size:
            have = self._more("zeros", size)
            self.device.upload(have.address, np.zeros(have.size, np.uint8))
        return have.address

    # ---- the protocol

    def fetch(self, wanted: Callable[[], Pieces]) -> None:
        """See `Backend`. Addresses outside of the results of both passes are on the CPU already."""
        of = self._of
        found: list[tuple[int, int]] = []
        there: list[tuple[int, int]] = []
        for start, size in zip(*wanted(), strict=True):
            inside = of.start <= start and start + size <= of.start + of.size
            (found if inside else there).append((start, start + size))
        self._download(found)
        if there and of.run.pending is not None:
            at, end = np.array(there, np.int64).T
            of.run.pending.some(at, end - at)

    def fetch_all(self) -> None:
        of = self._of
        if of.run.pending is not None:
            of.run.pending.all()
        self._download([(of.start, of.start + of.size)])

    def _download(self, pieces: Sequence[tuple[int, int]]) -> None:
        """Copy ranges of the backward pass's results to the CPU."""
        low, high = np.array([piece for piece in pieces if piece[0] < piece[1]], np.int64).reshape(-1, 2).T
        found = together(low, high)
        if found:
            self._go_on()
        for start, end in found:
            self.device.download(memory_at(start, end), start + self.places)
        if found:
            self._settle()

    # ---- sums over nodes

    def add_up(self, jobs: Sequence[Job], batches: Batches, stay: Sequence[Array]) -> Mapping[int, Array]:
        totals = {address(job.total): job.total for job in jobs}
        forms = self._of.run.prepared.forms
        own = {address(a): forms.array(a.dtype, a.shape) for a in stay if a.nbytes} if forms is not None else {}
        here = {at: total for at, total in totals.items() if at not in own}
        place = self._have("totals", sum(g.nbytes + 255 & -256 for g in here.values())).address
        there = {at: array.address for at, array in own.items()}
        for at, total in here.items():
            there[at] = place
            place += total.nbytes + 255 & -256
        self._write_down(self._table(jobs, there))
        self._launch()
        for at, total in here.items():
            self.device.download(bytes_of(total), there[at])
        if here:
            self._settle()
        pooled = [a.owner for a in own.values() if isinstance(a, DeviceArray) and isinstance(a.owner, Pooled)]
        if forms is not None and not here and len(pooled) == len(own):
            self._late = True  # whoever reads them waits
            forms.watch(self)
            for owner in pooled:
                owner.wait_for(self)
        return own  # type: ignore[return-value]

    def add_to(self, there: Mapping[int, Array], parts: Sequence[tuple[Array, Array]]) -> None:
        given = [(total, np.ascontiguousarray(part, total.dtype)) for total, part in parts]
        place = self.stream.stage([bytes_of(part) for _, part in given])
        regions, rows = self.stream.regions.reshape(-1, 3).tolist(), np.zeros(len(given), np.int64)
        jobs, lanes = [], self.on.vector_bits // 32
        for k, (total, part) in enumerate(given):
            rows[k] = at = address(part)
            regions.append([at, at + part.nbytes, place - at])
            place += part.nbytes + 255 & -256
            words = address(rows) + 8 * k, 1, total.size, address(total), 0
            jobs.append(Job(total.dtype.name, "columns", words, -(-total.size // lanes), 1, total, 1))
        self.stream.place(np.array(sorted(regions), np.int64).reshape(-1))
        places = {at: one.address for at, one in there.items()}  # type: ignore[attr-defined]
        self._write_down(self._table(jobs, places))
        self._call(self._apart, self.stream, self.stream.address)  # once: these are added to
        self.device.wait()  # what was staged is there

    def total(self, forms: Forms, losses: Words, dtype: str) -> DeviceTensor | None:
        places = self._moved(losses)
        return forms.total(places, dtype) if len(places) and places.all() else None

    def _table(self, jobs: Sequence[Job], there: Mapping[int, int]) -> Words:
        """Return a row of JOB for each job; `there`: the device's address of each total."""
        last: dict[int, int] = {}
        rows = []
        for k, job in enumerate(jobs):
            at = address(job.total)
            rows.append((
                self._kernels[job.dtype], _NUMBERS[job.function], job.tasks, job.many, _SIZES[job.dtype],
                last.get(at, -1), there[at] - at, *job.words, *_REST[len(job.words) :],
            ))  # fmt: skip
            last[at] = k
        return np.array(rows, np.int64).reshape(len(rows), JOB.count)

    def _moved(self, addresses: Words) -> Words:
        """Return the device addresses of CPU addresses; 0 for those in no region."""
        low, high = (int(addresses.min()), int(addresses.max())) if len(addresses) else (0, 0)
        for first, last, offset in self.stream.regions.reshape(-1, 3).tolist():
            if first <= low and high < last:
                return addresses + offset
        start, end, shift = self.stream.regions.reshape(-1, 3).T
        k = np.maximum(np.searchsorted(start, addresses, side="right") - 1, 0)
        known = (addresses >= start[k]) & (addresses < end[k])
        return np.where(known, addresses + shift[k], 0)
