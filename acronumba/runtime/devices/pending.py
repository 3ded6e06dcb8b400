"""Results of a run that are on a device, and are copied to the CPU on demand."""

from __future__ import annotations

import operator
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from acronumba.memory import Array, Words, address
from acronumba.runtime.buffers import Arena
from acronumba.runtime.devices.arrays import DeviceMemory
from acronumba.runtime.devices.device import Device, DeviceCopy
from acronumba.runtime.devices.persistent import GIVEN_UP, PersistentRun
from acronumba.runtime.shared import Forms

_least, _most = np.minimum.reduce, np.maximum.reduce
_START = operator.itemgetter(0)
_APART = 1 << 14  # bytes between two results that are copied with them
_FEW = 1 << 19  # bytes of all results that are copied at once
_PIECES = 64  # of results, at most: more pieces are copied as one


def together(starts: Words, ends: Words) -> list[tuple[int, int]]:
    """Merge ranges of memory into a few to copy, (start, end) each, with the gaps between near ones."""
    if not len(starts):
        return []
    order = starts.argsort()
    low, high = starts[order], np.maximum.accumulate(ends[order])
    cuts = (low[1:] - high[:-1] > _APART).nonzero()[0]
    if len(cuts) >= _PIECES:
        return [(int(low[0]), int(high[-1]))]
    firsts, lasts = [0, *(cuts + 1).tolist()], [*cuts.tolist(), len(low) - 1]
    return [(int(low[a]), int(high[b])) for a, b in zip(firsts, lasts, strict=True)]


class PendingResults:
    """Results of a run that are on the device.

    Parameters
    ----------
    device
        Where.
    arenas
        In whose copies on the device they lie.
    start, size
        The part of the last arena that the run has used: address, bytes; it may have used all of the others.
    word
        What says whether the run has failed, if it can.
    persistent
        That gets it back.
    forms
        Of shared arrays that stay on the device: parts of these may be results.
    fetch
        `runtime.library.launch.fetch` for the device's launches.
    """

    def __init__(
        self, device: Device, arenas: Sequence[Arena], start: int, size: int, word: Words | None,
        persistent: PersistentRun, forms: Forms | None, fetch: Callable[..., int],
    ) -> None:  # fmt: skip
        self._fetch = fetch
        self.device, self.word, self.persistent, self.forms = device, word, persistent, forms
        self.arenas = [(arena, arena.address, arena.size) for arena in arenas[:-1]]
        self.arenas.append((arenas[-1], start, size))
        self._copied: list[tuple[int, int]] = []  # ranges, by their starts

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.word is not None and not ends():
            self.persistent.give(self.word)

    def check(self) -> None:
        """Raise if the blocks of the run have waited for each other in vain; all is done when this is asked."""
        if self.word is not None and self.word[0]:
            raise RuntimeError(GIVEN_UP)

    def export(self) -> None:
        """Note that others have the memory."""
        for arena, _, _ in self.arenas:
            arena.exported = True

    def all(self) -> None:
        """Copy all of them."""
        if self.arenas[-1][2] or len(self.arenas) > 1:
            self._copy([(arena, [(start, start + size)]) for arena, start, size in self.arenas])
        self.arenas = [(self.arenas[-1][0], 0, 0)]

    def all_if_few(self) -> bool:
        """Copy all of them if that takes no longer than another copy; return whether it did."""
        few = sum(size for _, _, size in self.arenas) <= _FEW
        if few:
            self.all()
        return few

    def some(self, starts: Words, sizes: Words | int) -> None:
        """Copy the results at these addresses, of these sizes in bytes, to the CPU."""
        if not len(starts):
            self._copy([])
            return
        ends = starts + sizes
        low, high = int(_least(starts)), int(_most(ends))
        if self._has(low, high):
            return
        arena, start, size = self.arenas[-1]
        if start <= low and high <= start + size and high - low <= _APART:
            self._copy([(arena, [(low, high)])])
            return
        found = []
        elsewhere = np.ones(len(starts), bool)
        for arena, start, size in self.arenas:
            inside = (starts >= start) & (ends <= start + size)
            elsewhere &= ~inside
            found.append((arena, together(starts[inside], ends[inside])))
        if self.forms is not None and elsewhere.any():
            self.forms.home.refresh_at(starts[elsewhere])
        self._copy(found)

    def records(self, column: Words, size: int) -> list[int] | None:
        """Copy the results with these value records, of so many bytes each, if that is one copy.

        Return where their data lie, or None: nothing was copied.
        """
        arena, start, room = self.arenas[-1]
        device_copy = arena.device_copy
        assert isinstance(device_copy, DeviceCopy)
        many, out = len(column), np.empty(len(column) + 2, np.int64)
        where = start, start + room, device_copy.address - arena.address
        late = self.persistent.late
        with self.device:
            error = self._fetch(address(column), many, size, address(out), *where)
            if error > 0:
                self.device.reject(error)
            if error:
                return None
            self.persistent.waited(late)
        self.check()
        *places, low, high = out.tolist()
        self._copied = sorted([*self._copied, (low, high)])
        return places

    def need(self, start: int, size: int) -> None:
        """Copy all of them if one that is read is not among those that were copied."""
        if self._has(start, start + size):
            return
        if any(first <= start and start + size <= first + many for _, first, many in self.arenas):
            self.all()
        elif self.forms is not None:
            self.forms.home.refresh_at(np.array([start]))

    def _has(self, low: int, high: int) -> bool:
        """Whether a range of memory was copied."""
        k = bisect_right(self._copied, low, key=_START) - 1
        return k >= 0 and high <= self._copied[k][1]

    def memory(self, arrays: Sequence[Array]) -> DeviceMemory:
        """Return a reader of the results that leaves those in the last arena on the device."""
        arena, *_ = self.arenas[-1]
        refresh = None if self.forms is None else self.forms.home.refresh_at
        if len(self.arenas) > 1:
            self._copy([(one, [(at, at + many)]) for one, at, many in self.arenas[:-1]])
            self.arenas = self.arenas[-1:]
        device_copy = arena.device_copy
        assert isinstance(device_copy, DeviceCopy)
        shift = device_copy.address - arena.address
        return DeviceMemory(arrays, self.device, arena.address, arena.address + arena.size, shift, self, refresh)

    def _copy(self, pieces: Sequence[tuple[Arena, Sequence[tuple[int, int]]]]) -> None:
        with self.device:
            for arena, those in pieces:
                device_copy = arena.device_copy
                assert isinstance(device_copy, DeviceCopy)
                block = np.asarray(arena.block)
                for start, end in those:
                    low, high = start - arena.address, end - arena.address
                    self.device.download(block[low:high], device_copy.address + low)
            self.persistent.wait()
        self.check()
        self._copied = sorted([*self._copied, *(piece for _, those in pieces for piece in those)])
