"""Ways back on a device: the graph is transposed by the processor, its kernels and the sums over nodes run there.

In: a `DeviceExecutor` that has run mini-batches there, and the kernels of the way back. Out: a `runtime.places.Place`.
Batches of backward kernels are written down and launched like those of the way there (`kernels.cuda.marshal`), the sums
of adjoints among them (`runtime.library.launch_sums`). The sums over nodes are one launch for all that add to different
arrays. What is computed has addresses of the processor's, as everything else; it is copied here when it is asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import tree
from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.kernels.cuda.generate import WARP, CudaCode
from acronumba.kernels.cuda.marshal import ROW, locate
from acronumba.kernels.cuda.sums import TASKS, code
from acronumba.locks import ForkLock
from acronumba.memory import address
from acronumba.runtime import state
from acronumba.runtime.batches import Batches
from acronumba.runtime.buffers import Words
from acronumba.runtime.devices.arrays import sweep
from acronumba.runtime.devices.device import Twin
from acronumba.runtime.devices.executor import UNLIMITED, DeviceExecutor, Launching, Stream, together
from acronumba.runtime.devices.launches import launches
from acronumba.runtime.places import WayMemory
from acronumba.runtime.summing import Job

_LAUNCHES = 256  # more than there are batches, that the table has room for
_ROWS = {"x", "g"}  # words of jobs that are the addresses of addresses of rows,
_ARRAYS = _ROWS | {"order", "starts", "index"}  # ... or of numbers


def sums_module() -> tree.Module:
    """Return the module of `runtime.library.launch_sums`."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(["acronumba.runtime.library.launch_sums"])
    return tree.Module("launch_sums", (locate(), *functions), ("note_sums",))


class BackDevice(Launching):
    """A device as the place of ways back.

    Parameters
    ----------
    executor
        Of the way there.
    codes
        Of the backward kernels, in their order.
    dtypes
        Of sums.
    calls
        Compiled functions that launch, by their names in `runtime.library.launch`.
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
        self._lock = ForkLock()  # one way back at a time: they have the same stream and the same memory
        self._kernels = {dtype: len(codes) + k for k, dtype in enumerate(dtypes)}
        functions = self._loaded([*codes, *map(code, dtypes)])
        self.launches = launches(device.driver, device.stream, device.processors, functions, drive)
        self._words = self.launches.address
        self.stream = Stream(device, lambda launches: 0)
        self._write, self._apart, self._loop = calls["write"], calls["apart"], calls["launch"]
        self._note_sums = note_sums

    def tail(self, kernel: int) -> tuple[int, int]:
        """Return what the table P of a kernel ends with, for `kernels.cuda.marshal`."""
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
                self.device.wait()

    # ---- batches

    def execute(self, of: WayMemory, batches: Batches, count: int, scratch: int) -> None:
        self.of, stream = of, self.stream
        self._place(of)
        while True:
            batches.begin(count, scratch, 1)
            batches["run_slice"] = UNLIMITED
            status = self._write(self._words, stream.address, address(batches.st))
            if status < 0:
                self.device.refuse(-status)
            assert status == state.DONE
            if not stream["missing"]:
                break
            stream.room(2 * (len(stream.buffer) + stream["missing"]), count + _LAUNCHES)
        if stream["launches"]:
            self._call(self._apart, stream, stream.address)

    def _place(self, of: WayMemory) -> None:
        """Say where everything is; copy what is not there yet."""
        before = of.run.buffers.stream
        assert isinstance(before, Stream)
        self.before = before  # it owns what its regions lead to
        rows = [(start, end, shift) for start, end, shift in before.regions.reshape(-1, 3).tolist()]
        missing = [a for a in of.read if a.nbytes and not _covered(rows, address(a), a.nbytes)]
        ranges = [(start, end) for start, end, _ in DeviceExecutor.ranges({id(a): a for a in missing}.values())]
        if ranges:
            place = self.stream.stage([_memory(start, end) for start, end in ranges])
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

    def _have(self, name: str, size: int) -> Twin:
        """Return memory of a name with at least so many bytes."""
        have = self._scratch.get(name)
        return have if have is not None and have.size >= size else self._more(name, size)

    def _zeros(self, size: int) -> int:
        """Return the address of so many zeros."""
        have = self._scratch.get("zeros")
        if have is None or have.size < size:
            have = self._more("zeros", size)
            self.device.upload(have.address, np.zeros(have.size, np.uint8))
        return have.address

    # ---- what is asked for

    def fetch(self, starts: Sequence[int], sizes: Sequence[int]) -> None:
        """See `Place`; what lies in neither of the memories of results, is here."""
        of = self.of
        found: list[tuple[int, int]] = []
        there: list[tuple[int, int]] = []
        for start, size in zip(starts, sizes, strict=True):
            inside = of.start <= start and start + size <= of.start + of.size
            (found if inside else there).append((start, start + size))
        self._download(found)
        if there and of.run.pending is not None:
            at, end = np.array(there, np.int64).T
            of.run.pending.some(at, end - at)

    def fetch_all(self) -> None:
        of = self.of
        if of.run.pending is not None:
            of.run.pending.all()
        self._download([(of.start, of.start + of.size)])

    def _download(self, pieces: Sequence[tuple[int, int]]) -> None:
        """Copy pieces of what the way back has computed."""
        for start, end in together(piece for piece in pieces if piece[0] < piece[1]):
            self.device.download(_memory(start, end), start + self.places)
        self.device.wait()

    # ---- sums over nodes

    def add_up(self, jobs: Sequence[Job], batches: Batches) -> None:
        totals = {address(job.total): job.total for job in jobs}
        place = self._have("totals", sum(g.nbytes + 255 & -256 for g in totals.values())).address
        there = {}
        stored = {address(job.total) for job in jobs if _named(job).get("first")}
        for at, total in totals.items():
            there[at] = place
            if at not in stored:
                self.device.upload(place, _bytes(total))
            place += total.nbytes + 255 & -256
        table = self._tables(jobs, there)
        self._call(self._loop, self.stream, address(table), len(table))
        for at, total in totals.items():
            self.device.download(_bytes(total), there[at])
        self.device.wait()

    def _tables(self, jobs: Sequence[Job], there: Mapping[int, int]) -> Words:
        """Copy what the jobs need; return rows of ROW: launches, of which each adds to an array once."""
        levels: list[list[Job]] = []
        count: dict[int, int] = {}
        for job in jobs:
            level = count.setdefault(address(job.total), 0)
            count[address(job.total)] += 1
            levels += [[]] if level == len(levels) else []
            levels[level].append(job)
        groups = [[j for j in level if j.dtype == d] for level in levels for d in self._kernels]
        image = _Image(self, sum(1 + TASKS.count + FIXED + len(job.words) + 4 * job.many + 1 for job in jobs))
        rows = np.zeros((0, ROW.count), np.int64)
        for group in groups:
            if group:
                row = np.zeros(ROW.count, np.int64)
                row[ROW.at["kernel"]], row[ROW.at["nodes"]] = self._kernels[group[0].dtype], sum(j.tasks for j in group)
                row[ROW.at["p"]] = image.put(np.array([image.put(self._tasks(group, image, there))], np.int64))
                rows = np.concatenate([rows, row[None]])
        image.send()
        return rows

    def _tasks(self, jobs: Sequence[Job], image: _Image, there: Mapping[int, int]) -> Words:
        """Return the rows of TASKS of the jobs of a launch."""
        rows: Words = np.zeros((len(jobs), TASKS.count), np.int64)
        before = 0
        for row, job in zip(rows, jobs, strict=True):
            given = _named(job)
            for name in given.keys() & _ARRAYS:
                array = _memory(given[name], given[name] + 8 * (job.tasks + 1 if name == "starts" else job.many))
                numbers = array.view(np.int64)
                given[name] = image.put(self._moved(numbers) if name in _ROWS else numbers)
            at = address(job.total)
            given["c"] += there[at] - at
            row[TASKS.at["first"]], row[TASKS.at["end"]] = before, before + job.tasks
            row[TASKS.at["what"]] = sums.SUMS.index(job.function)
            row[TASKS.at["words"]] = image.put(np.array([*(0,) * FIXED, *given.values()], np.int64))
            before += job.tasks
        return rows.reshape(-1)

    def _moved(self, addresses: Words) -> Words:
        """Return the device's addresses of what is at addresses."""
        start, end, shift = self.stream.regions.reshape(-1, 3).T
        k = np.maximum(np.searchsorted(start, addresses, side="right") - 1, 0)
        known = (addresses >= start[k]) & (addresses < end[k])
        return np.where(known, addresses + shift[k], 0)


class _Image:
    """Words that are copied to the device in one piece."""

    def __init__(self, of: BackDevice, most: int) -> None:
        self._device, self._there = of.device, of._have("image", 8 * most).address
        self._words: Words = np.zeros(most, np.int64)
        self._used = 0

    def put(self, words: Words) -> int:
        """Return where words will be."""
        at = self._used
        self._words[at : at + len(words)] = words
        self._used += len(words)
        return self._there + 8 * at

    def send(self) -> None:
        """Copy them."""
        self._device.upload(self._there, self._words[: self._used].view(np.uint8))


def _named(job: Job) -> dict[str, int]:
    """Return the words of a job by their names."""
    return dict(zip(sums.WORDS_OF[job.function], map(int, job.words), strict=True))


def _covered(rows: Sequence[tuple[int, int, int]], at: int, size: int) -> bool:
    """Whether memory lies in one of the regions."""
    return any(start <= at and at + size <= end for start, end, _ in rows)


def _memory(start: int, end: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
