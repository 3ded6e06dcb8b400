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
from itertools import accumulate

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
from acronumba.runtime.backends import BackwardMemory, Pieces, Pull
from acronumba.runtime.batches import Batches, run_one
from acronumba.runtime.devices.arrays import DeviceArray, Pooled, sweep
from acronumba.runtime.devices.device import DeviceCopy
from acronumba.runtime.devices.executor import UNLIMITED, DeviceExecutor, Launching, Stream, bytes_of, device_copy_of
from acronumba.runtime.devices.launches import launches
from acronumba.runtime.devices.pending import together
from acronumba.runtime.devices.persistent import GIVEN_UP, PersistentRun
from acronumba.runtime.engines import Native
from acronumba.runtime.shared import Forms
from acronumba.runtime.summing import Job

_LAUNCHES = 256  # more than there are batches, that the table has room for
_CONSTANTS = 64  # arrays that come again, at most
_ONE: Words = np.ones(1, np.int64)
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
    engine
        Engine that runs what marshals launches.
    wanted
        Whether to run a backward pass as one launch; None: whichever is faster.
    """

    def __init__(
        self, executor: DeviceExecutor, codes: Sequence[CudaCode], dtypes: Sequence[str],
        calls: Mapping[str, Callable[..., int]], engine: Native, wanted: bool | str | None,
    ) -> None:  # fmt: skip
        super().__init__(executor.device)
        device = self.device
        self.on = WARP
        self._lock = ForkLock()  # one backward pass at a time: they have the same stream and the same memory
        self._kernels = {dtype: len(codes) + k for k, dtype in enumerate(dtypes)}
        self._first = len(codes)  # of the kernels of sums
        every = [*codes, *map(code, dtypes)]
        functions = self._loaded(every)
        self.launches = launches(device.driver, device.stream, device.processors, functions, engine.address["drive"])
        self._words = self.launches.address
        self.persistent = PersistentRun(device, every, wanted)
        self.stream = Stream(device, self.persistent.room)
        self._calls, self._write = calls, calls["write"]
        self._apart, self._together, self._graphed = calls["apart"], calls["together"], calls["graphed"]
        self._engine, self._note_sums = engine, engine.address["note_sums"]
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
            self._write_down([self._table((), {})])
            self._launch()

    def _launch(self) -> None:
        """Launch what has been written."""
        word = self._start(self.stream)
        if word is not None:
            self._words_of_runs.append(word)

    def _write_down(self, work: Sequence[Words | list[Pull]]) -> None:
        """Write the launches of the batches that are left, then of `work`, one behind the other: rows of JOB, waves."""
        stream, (batches, count, scratch) = self.stream, self._left
        kernels, jobs = len(self._kernels), [part for part in work if not isinstance(part, list)]
        cut = [
            self._calls["cut_jobs"](address(rows), len(rows), _SPANS["outer"], _SPANS["columns"], _PARTS)
            for rows in jobs
        ]
        parts = self._have("parts", max(cut)).address
        while True:
            batches.begin(count, scratch, 1)
            status = self._write(self._words, stream.address, address(batches.st))
            if status < 0:
                self.device.reject(-status)
            assert status == state.DONE
            for part in work:
                if isinstance(part, list):
                    self._note_wave(part)
                else:
                    rows = part.copy()  # which are written to
                    self._calls["note_jobs"](stream.address, address(rows), len(rows), self._first, kernels, parts)
            if not stream["missing"]:
                break
            levels = sum(1 + rows[:, JOB.at["level"]].max(initial=-1) for rows in jobs)
            launches = count + levels * kernels + sum(map(len, work))
            stream.room(2 * (len(stream.buffer) + stream["missing"]), launches + _LAUNCHES)
        self._left = batches, 0, scratch

    def _note_wave(self, wave: Sequence[Pull]) -> None:
        """Write the launches of pullbacks that do not depend on each other, behind all others."""
        stream = self.stream
        before, first = (stream["used"], stream["mark_room"]), stream["levels"]
        stream["used"], stream["mark_room"], last = address(_ONE), 0, first  # so that no mark says where they come
        for pull in wave:
            assert pull.entry is not None
            stream["levels"] = first
            run_one(self._engine, pull.entry, pull.params, len(pull.parts))
            last = max(last, stream["levels"])
        (stream["used"], stream["mark_room"]), stream["levels"] = before, last

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

    def add_up(
        self, jobs: Sequence[Job], batches: Batches, pulls: Sequence[Pull], wanted: Sequence[Array],
        stay: Sequence[Array],
    ) -> Mapping[int, Array]:  # fmt: skip
        totals = {address(job.total): job.total for job in jobs}
        forms = self._of.run.prepared.forms
        own = {address(a): forms.home.pool.array(a.dtype, a.shape) for a in stay if a.nbytes} if forms else {}
        there = {at: array.address for at, array in own.items()}
        there |= self._places("totals", [total for at, total in totals.items() if at not in own])
        work: list[Words | list[Pull]] = [self._table(jobs, there)]
        if pulls:
            self._place_pulls(pulls, there)
        sources: list[Words] = []  # which jobs lead to
        for wave in _waves(pulls):
            pairs = [pair for pull in wave for pair in zip(pull.totals, pull.parts, strict=True)]
            added = [self._sum_of_one(to, part, sources) for to, part in pairs if to is not None and to.size]
            work += [wave, self._table(added, there)]
        self._write_down(work)
        self._launch()
        here = [a for a in wanted if a.nbytes and address(a) not in own]
        for total in here:
            self.device.download(bytes_of(total), there[address(total)])
        if here:
            self._settle()
        pooled = [a.owner for a in own.values() if isinstance(a, DeviceArray) and isinstance(a.owner, Pooled)]
        if forms is not None and not here and len(pooled) == len(own):
            self._late = True  # whoever reads them waits
            forms.home.watched.add(self)
            for owner in pooled:
                owner.wait_for(self)
        return own

    def _place_pulls(self, pulls: Sequence[Pull], there: Mapping[int, int]) -> None:
        """Set the regions of what pullbacks read and write; `there`: the device's addresses of totals."""
        parts = [part for pull in pulls for part in pull.parts]
        places = {**there, **self._places("pulled", parts)}
        found = {address(a): a.nbytes for a in (*parts, *(pull.adjoint for pull in pulls)) if a.nbytes}
        rows = [(at, at + size, places[at] - at) for at, size in found.items()]
        rows += map(tuple, self.stream.regions.reshape(-1, 3).tolist())  # type: ignore[arg-type]
        self.stream.place(np.array(sorted(rows), np.int64).reshape(-1))

    def _places(self, name: str, arrays: Sequence[Array]) -> dict[int, int]:
        """Return where arrays lie on the device, in scratch memory of a name, by their addresses."""
        those = {address(a): a.nbytes + 255 & -256 for a in arrays}
        place = self._have(name, sum(those.values())).address
        return dict(zip(those, accumulate(those.values(), initial=place), strict=False))

    def _sum_of_one(self, total: Array, part: Array, sources: list[Words]) -> Job:
        """Return the job that adds a part to a total."""
        sources.append(np.array([address(part)], np.int64))
        words = address(sources[-1]), 1, total.size, address(total), 0
        return Job(total.dtype.name, "columns", words, -(-total.size // (self.on.vector_bits // 32)), 1, total, 1)

    def total(self, forms: Forms, losses: Words, dtype: str) -> DeviceTensor | None:
        places = self._moved(losses)
        return forms.home.total(places, dtype) if len(places) and places.all() else None

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


def _waves(pulls: Sequence[Pull]) -> Iterator[list[Pull]]:
    """Yield pullbacks, in order, that neither read what others of the same list add to nor store to the same memory."""
    wave: list[Pull] = []
    written: set[int] = set()
    for pull in pulls:
        own = {address(a) for a in (*pull.parts, *pull.totals) if a is not None}
        if address(pull.adjoint) in written or not written.isdisjoint(map(address, pull.parts)):
            yield wave
            wave, written = [], set()
        wave.append(pull)
        written |= own
    if wave:
        yield wave
