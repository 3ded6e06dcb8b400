"""Backward passes on a device: the CPU transposes the graph, the device runs its kernels and the sums over nodes.

In: a `DeviceExecutor` that has run forward passes, and the kernels of the backward pass. Out: a
`runtime.backends.Backend`. Batches of backward kernels are marshalled and launched like those of the forward pass
(`kernels.cuda.marshal`), the sums of adjoints among them (`runtime.library.launch_sums`). Sums over nodes that add to
different arrays share one launch. Results have CPU addresses, as everything else; they are copied to the CPU on demand.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import tree
from acronumba.emit.simt import WARP as WARP_SIZE
from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.kernels.cuda.generate import WARP, CudaCode
from acronumba.kernels.cuda.marshal import ROW, locate
from acronumba.kernels.cuda.sums import FUNCTIONS, TASKS, code
from acronumba.locks import ForkLock
from acronumba.memory import Array, DeviceTensor, Words, address, word_at
from acronumba.runtime import state
from acronumba.runtime.backends import BackwardMemory, Pieces
from acronumba.runtime.batches import Batches
from acronumba.runtime.devices.arrays import Pool, sweep
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
from acronumba.runtime.shared import Forms
from acronumba.runtime.summing import Job

_LAUNCHES = 256  # more than there are batches, that the table has room for
_ROWS = {"x", "g"}  # words of jobs that are the addresses of addresses of rows,
_ARRAYS = _ROWS | {"order", "starts", "index"}  # ... or of numbers
_SPANS = {"outer": sums.OUTER_CHUNK, "columns": sums.SUM_CHUNK}  # rows of a part of a long sum, at least
_PARTS = 1 << 28  # bytes that the parts of a sum may take


def sums_module() -> tree.Module:
    """Return the module of `runtime.library.launch_sums`."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(["acronumba.runtime.library.launch_sums"])
    return tree.Module("launch_sums", (locate(), *functions), ("note_sums",))


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
        Map from names in `runtime.library.launch` to the compiled functions that launch.
    drive, note_sums
        Addresses of compiled functions.
    """

    def __init__(
        self, executor: DeviceExecutor, codes: Sequence[CudaCode], dtypes: Sequence[str],
        calls: Mapping[str, Callable[..., int]], drive: int, note_sums: int,
    ) -> None:  # fmt: skip
        super().__init__(executor.device)
        device = self.device
        self.on = WARP
        self._lock = ForkLock()  # one backward pass at a time: they have the same stream and the same memory
        self._kernels = {dtype: len(codes) + k for k, dtype in enumerate(dtypes)}
        functions = self._loaded([*codes, *map(code, dtypes)])
        self.launches = launches(device.driver, device.stream, device.processors, functions, drive)
        self._words = self.launches.address
        self.stream = Stream(device, lambda launches: 0)
        self._write, self._apart, self._loop = calls["write"], calls["apart"], calls["launch"]
        self._note_sums = note_sums
        self.pool = Pool(device, device_copy_of)
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
            try:
                yield
            finally:
                self.of = self.before = None  # what a run has goes with it
                self.device.wait()

    # ---- batches

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        self.of, stream = of, self.stream
        self._place(of)
        while True:
            batches.begin(count, scratch, 1)
            batches["run_slice"] = UNLIMITED
            status = self._write(self._words, stream.address, address(batches.st))
            if status < 0:
                self.device.reject(-status)
            assert status == state.DONE
            if not stream["missing"]:
                break
            stream.room(2 * (len(stream.buffer) + stream["missing"]), count + _LAUNCHES)
        if stream["launches"]:
            self._call(self._apart, stream, stream.address)

    @property
    def _of(self) -> BackwardMemory:
        assert self.of is not None, "nothing runs"
        return self.of

    def _place(self, of: BackwardMemory) -> None:
        """Set the stream's regions for a backward pass; copy arrays that are not on the device yet."""
        before = of.run.buffers.stream
        assert isinstance(before, Stream)
        self.before = before
        known = {(start, end, shift) for start, end, shift in before.regions.reshape(-1, 3).tolist()}
        forms = of.run.prepared.forms
        rows = sorted(known if forms is None else known.union(forms.regions()))
        missing = [a for a in of.read if a.nbytes and not _covered(rows, address(a), a.nbytes)]
        ranges = [(start, end) for start, end, _ in DeviceExecutor.ranges({id(a): a for a in missing}.values())]
        if ranges:
            place = self.stream.stage([memory_at(start, end) for start, end in ranges])
            for start, end in ranges:
                rows.append((start, end, place - start))
                place += end - start + 255 & -256
        if of.zeros.nbytes:
            at = address(of.zeros)
            rows.append((at, at + of.zeros.nbytes, self._zeros(of.zeros.nbytes) - at))
        if of.size:
            self.places = self._have("places", of.size).address - of.start
            rows.append((of.start, of.start + of.size, self.places))
        self.stream.place(np.array(sorted(rows), np.int64).reshape(-1))

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
        found = together(piece for piece in pieces if piece[0] < piece[1])
        for start, end in found:
            self.device.download(memory_at(start, end), start + self.places)
        if found:
            self.device.wait()

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
        table = self._tables(self._levels(jobs, there))
        self._call(self._loop, self.stream, address(table), len(table))
        for at, total in here.items():
            self.device.download(bytes_of(total), there[at])
        if here:
            self.device.wait()
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
        table = self._tables(self._levels(jobs, places))
        self._call(self._loop, self.stream, address(table), len(table))
        self.device.wait()  # what was staged is there

    def total(self, forms: Forms, records: Words, dtype: str) -> DeviceTensor | None:
        places = self._moved(np.array([word_at(record) for record in records.tolist()], np.int64))
        return forms.total(places, dtype) if len(places) and places.all() else None

    def _levels(self, jobs: Sequence[Job], there: Mapping[int, int]) -> list[list[_Work]]:
        """Return levels of work, each run concurrently: spans of all cut sums, then at most one sum per array."""
        cuts = [_Cut.of(job) for job in jobs]
        place = self._have("parts", sum(cut.parts * cut.size for cut in cuts if cut is not None)).address
        levels: list[list[_Work]] = [[]]
        count: dict[int, int] = {}
        for job, cut in zip(jobs, cuts, strict=True):
            at = address(job.total)
            words = _named(job)
            words["c"] += there[at] - at
            work = _Work(job.dtype, job.function, words, job.tasks, job.many)
            if cut is not None:
                levels[0] += cut.spans(work, place)
                work = cut.sum(work, place)
                place += cut.parts * cut.size
            count[at] = level = count.get(at, 0) + 1
            levels += [[]] if level == len(levels) else []
            levels[level].append(work)
        return levels

    def _tables(self, levels: Sequence[Sequence[_Work]]) -> Words:
        """Copy the task tables to the device; return rows of ROW: a launch for each level and dtype."""
        groups = [[w for w in level if w.dtype == d] for level in levels for d in self._kernels]
        every = [work for level in levels for work in level]
        image = Image(self, sum(2 + TASKS.count + FIXED + len(w.words) + 4 * w.many + 1 for w in every))
        rows = np.zeros((0, ROW.count), np.int64)
        for group in groups:
            if group:
                row = np.zeros(ROW.count, np.int64)
                row[ROW.at["kernel"]], row[ROW.at["nodes"]] = self._kernels[group[0].dtype], sum(w.tasks for w in group)
                row[ROW.at["p"]] = image.put(np.array([image.put(self._tasks(group, image)), len(group)], np.int64))
                rows = np.concatenate([rows, row[None]])
        image.send()
        return rows

    def _tasks(self, group: Sequence[_Work], image: Image) -> Words:
        """Return the rows of TASKS of a launch."""
        rows: Words = np.zeros((len(group), TASKS.count), np.int64)
        before = 0
        for row, work in zip(rows, group, strict=True):
            given = dict(work.words)
            for name in given.keys() & _ARRAYS:
                array = memory_at(given[name], given[name] + 8 * (work.tasks + 1 if name == "starts" else work.many))
                numbers = array.view(np.int64)
                given[name] = image.put(self._moved(numbers) if name in _ROWS else numbers)
            row[TASKS.at["first"]], row[TASKS.at["end"]] = before, before + work.tasks
            row[TASKS.at["what"]] = FUNCTIONS.index(work.function)
            row[TASKS.at["words"]] = image.put(np.array([*(0,) * FIXED, *given.values()], np.int64))
            before += work.tasks
        return rows.reshape(-1)

    def _moved(self, addresses: Words) -> Words:
        """Return the device addresses of CPU addresses; 0 for those in no region."""
        start, end, shift = self.stream.regions.reshape(-1, 3).T
        k = np.maximum(np.searchsorted(start, addresses, side="right") - 1, 0)
        known = (addresses >= start[k]) & (addresses < end[k])
        return np.where(known, addresses + shift[k], 0)


class Image:
    """Words that are copied to the device in one piece."""

    def __init__(self, of: Launching, most: int) -> None:
        self._device, self._there = of.device, of._have("image", 8 * most).address
        self._words: Words = np.zeros(most, np.int64)
        self._used = 0

    def put(self, words: Words) -> int:
        """Add words to the image; return their address on the device."""
        at = self._used
        self._words[at : at + len(words)] = words
        self._used += len(words)
        return self._there + 8 * at

    def send(self) -> None:
        """Copy them."""
        self._device.upload(self._there, self._words[: self._used].view(np.uint8))


class _Work(NamedTuple):
    """A job, with the device address of the array that it adds to."""

    dtype: str
    function: str  # of `kernels.cuda.sums`
    words: dict[str, int]  # of the function; those of `_ARRAYS` are CPU addresses
    tasks: int
    many: int  # rows that are added


class _Cut(NamedTuple):
    """How a long sum is cut into parts, to occupy more warps; the same on every device."""

    span: int  # rows of each part,
    parts: int  # ... how many there are,
    size: int  # ... and bytes of the sum of one
    rows: int
    columns: int

    @classmethod
    def of(cls, job: Job) -> _Cut | None:
        """Return how a job is cut; None if it is not cut."""
        span = _SPANS.get(job.function, job.many)
        if job.many <= span:
            return None
        words = _named(job)
        rows, columns = words.get("m", 1), words["k"]
        size = rows * columns * np.dtype(job.dtype).itemsize
        span *= max(-(-job.many * size // (span * _PARTS)), 1)
        return cls(span, -(-job.many // span), size, rows, columns)

    def spans(self, work: _Work, place: int) -> list[_Work]:
        """Return one work item per part; their sums lie one after the other from address `place` on."""
        out = []
        for k in range(self.parts):
            low = k * self.span
            many = min(self.span, work.many - low)
            words = work.words | {"count": many, "c": place + k * self.size, "first": 1}
            words |= {name: words[name] + 8 * low for name in words.keys() & _ROWS}
            if "step" in words:
                words["step"] = self.size // self.rows
            out.append(work._replace(words=words, many=many))
        return out

    def sum(self, work: _Work, place: int) -> _Work:
        """Return the work that adds up the sums of the parts."""
        panels = -(-self.columns // WARP_SIZE)
        given = {
            "parts": place, "apart": self.size, "count": self.parts, "m": self.rows, "k": self.columns,
            "c": work.words["c"], "step": work.words.get("step", 0), "first": work.words["first"], "panels": panels,
        }  # fmt: skip
        return _Work(work.dtype, "spans", given, self.rows * panels, 0)


def _named(job: Job) -> dict[str, int]:
    """Return the words of a job by their names."""
    return dict(zip(sums.WORDS_OF[job.function], map(int, job.words), strict=True))


def _covered(rows: Sequence[tuple[int, int, int]], at: int, size: int) -> bool:
    """Whether memory lies in one of the regions."""
    return any(start <= at and at + size <= end for start, end, _ in rows)


def memory_at(start: int, end: int) -> NDArray[np.uint8]:
    """Return the bytes of a range of memory."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
