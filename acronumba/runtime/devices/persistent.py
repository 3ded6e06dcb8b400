"""Mini-batches as one launch of all kernels, with a barrier of all blocks after each, instead of a launch for each.

In: a device and the code of the kernels (`kernels.cuda.persistent` makes one kernel of them). Out: the words that
compiled code needs for it (`runtime.library.launch`); `run` runs a mini-batch. Which way is faster depends on the
model, the mini-batch and the GPU: a barrier may take less time than a launch, but all kernels get the registers and the
shared memory of the largest. Unless an option decides, both are measured: results have the same bits, so the first
mini-batch of a size is run several times.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.errors import AcronumbaError
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import BARRIER, PIECE, POST, STEP, PersistentCode, persistent
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.memory import Words, address
from acronumba.runtime.library.launch_words import ABOUT

if TYPE_CHECKING:
    from acronumba.runtime.devices.device import Device

GIVEN_UP = "the blocks of a mini-batch have waited for each other in vain: with_options(persistent=False)"
LOOKS = 1 << 25  # times that a block looks whether others have come: many seconds
STAY = 1 << 11  # times that the kernel looks for the next round: some milliseconds
_BOUND = 1 << 20  # times that the CPU looks for the values of a round, before it asks the driver for errors: likewise
_TRIALS = 3  # of each way, after one that is not counted
_LONG = 0.1  # seconds of trials, after which there are no more
_LATE = 64  # runs whose results nobody has asked for, at most, before all is waited for


log = logging.getLogger("acronumba")


class PersistentRun:
    """Runs mini-batches as one launch ("together") or as one launch per batch ("apart").

    Parameters
    ----------
    device : Device
        The device to run on.
    codes : sequence of CudaCode
        The kernels, in the order of their functions' numbers.
    wanted : bool, optional
        Whether to run them together; None: whichever is faster, by measurement.
    read : int, optional
        The most results of a kernel that the CPU waits for.
    """

    def __init__(self, device: Device, codes: Sequence[CudaCode], wanted: bool | None, read: int = 0) -> None:
        self.together: dict[tuple[int, int], bool] = {}  # by size: whether that was faster
        self.seconds: dict[tuple[int, int], tuple[float, float]] = {}  # by size: of both ways, together and apart
        self._device = device
        self._wanted = wanted
        self._read = read
        self._stages = max((len(code.entries) for code in codes), default=0)
        self._code: PersistentCode | None = None
        self._resident = 0
        self._spare: list[Words] = []
        self._late: deque[Words] = deque()  # of runs that may go on
        if self._stages and wanted:
            self._load(codes)
            if not self._code:
                raise RuntimeError("blocks cannot wait for each other on this GPU: with_options(persistent=False)")
        elif self._stages and wanted is None and device.timed:
            try:
                self._load(codes)
            except (RuntimeError, MemoryError, TypeError, AcronumbaError) as error:
                log.warning("kernels are launched one by one: there is none that runs all of them: %s", error)
        self._array = np.zeros(ABOUT.count, np.int64)
        self.about = address(self._array)  # see `runtime.library.launch`
        self._words = self._array.data
        for k, name in enumerate(("steps", "count", "barrier", "post")):
            self._words[ABOUT.at["parameters"] + k] = self.about + 8 * ABOUT.at[name]
        self["looks"] = LOOKS
        if self._code:
            self["most"], self["handle"], self["shared"] = self._resident, self._handle, self._code.shared
            self["room"], self["stages"] = self._code.room, self._stages
            self["functions"] = sum(len(code.entries) for code in codes)
        self._ways = np.full(64, -1 if wanted and self._code else 0, np.int64)
        self["ways"], self["bound"] = address(self._ways), _BOUND if device.timed else 1
        if self._code and read:
            self._stay()

    def _stay(self) -> None:
        """Allocate what a kernel needs that stays between rounds."""
        self._mapped = memory = self._device.pinned(POST.size + BARRIER.size).view(np.int64)
        memory[:] = 0
        post, begin = memory[: POST.count], memory[POST.count :]
        begin[BARRIER.at["word"]] = address(post) + 8 * POST.at["lost"]
        begin[BARRIER.at["stay"]] = STAY
        self["rounds"], self["begin"] = address(post), address(begin)
        self["place"] = place = self._device.allocate(BARRIER.size)
        weakref.finalize(self, self._device.free, place).atexit = False

    def __getitem__(self, name: str) -> int:
        return self._words[ABOUT.at[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._words[ABOUT.at[name]] = value

    def _load(self, codes: Sequence[CudaCode]) -> None:
        """Compile the kernel that runs all, if its blocks can wait for each other."""
        if not self._device.cooperative:
            return
        code = persistent(codes, self._device.shared)
        ((self._handle,),) = self._device.load([code])
        weakref.finalize(self, self._device.unload, [self._handle]).atexit = False
        self._resident = self._device.processors * self._device.resident(self._handle, THREADS, code.shared)
        self._code = code if self._resident else None

    @property
    def able(self) -> bool:
        """Whether mini-batches can be run together."""
        return self._code is not None

    def says(self) -> bool:
        """Return whether the kernel that stays between rounds has said that it has left, or that a round is done."""
        post = self._mapped
        return bool(post[POST.at["left"]] or post[POST.at["done"]] == post[POST.at["turn"]])

    def room(self, launches: int) -> int:
        """Return the bytes that `note` needs at most."""
        steps = self._stages * launches  # and there are as many levels at most
        pieces = PIECE.size * (self._read * launches + 1)
        return 64 + BARRIER.size + (STEP.size + 16) * steps + 16 + pieces if self._code else 0

    def way(self, size: tuple[int, int]) -> bool | None:
        """Return whether mini-batches of a size are run together; None: not yet measured."""
        if not self._code:
            return False
        return self._wanted or self.together.get(size)

    def word(self) -> Words:
        """Return the word that blocks of the next run set if a barrier times out; see `give`."""
        if not self._spare and len(self._late) >= _LATE:
            self.wait()
        if not self._spare:
            block = self._device.pinned(8 * _LATE).view(np.int64)
            self._spare += [block[k : k + 1] for k in range(_LATE)]
        word = self._spare.pop()
        word[0] = 0
        self["word"] = address(word)
        return word

    def give(self, word: Words) -> None:
        """Return a word for reuse. Its run may not have ended, so it is reused only after a `wait`."""
        self._late.append(word)

    def wait(self) -> None:
        """Wait until all launches and copies are done; words given back before may be reused then."""
        late = len(self._late)
        self._device.wait()
        for _ in range(min(late, len(self._late))):
            self._spare.append(self._late.popleft())

    def run(self, size: tuple[int, int], word: Words, together: Callable[[], None], apart: Callable[[], None]) -> None:
        """Run a mini-batch in one launch or many; `way(size)` is not False. Both callables copy their parameters."""
        if self._wanted:
            together()
        elif size not in self.together:
            self.together[size] = self._faster(size, word, together, apart)
            self._ways[size[0]] |= self.together[size] << size[1]
        else:
            try:
                together()
            except (RuntimeError, MemoryError) as error:  # the GPU is shared with others now
                self._give_up(error, size, apart)

    def _give_up(self, error: Exception, size: tuple[int, int], apart: Callable[[], None]) -> None:
        log.warning("kernels are launched one by one from now on: %s", error)
        self.together[size] = False
        self._ways[size[0]] &= ~(1 << size[1])
        apart()

    def _faster(
        self, size: tuple[int, int], word: Words, together: Callable[[], None], apart: Callable[[], None]
    ) -> bool:
        """Run both ways in turn; return whether the first is faster. What takes long is not run again to find out."""
        best = [float("inf")] * 2
        try:
            for _ in range(2):  # the driver loads a kernel when it is launched for the first time
                begun = time.perf_counter()
                together()
                self._device.wait()
        except (RuntimeError, MemoryError) as error:  # the driver admits fewer blocks
            self._give_up(error, size, apart)
            return False
        if time.perf_counter() - begun > _LONG and not word[0]:
            return False
        for trial in range(1 + _TRIALS):
            for k, way in enumerate((apart, together)):
                self._device.wait()
                start = time.perf_counter()
                way()
                self._device.wait()
                if trial:
                    best[k] = min(best[k], time.perf_counter() - start)
            if trial and time.perf_counter() - begun > _LONG:
                break
        if word[0]:
            word[0] = 0
            self._give_up(RuntimeError(GIVEN_UP), size, apart)
            return False
        self.seconds[size] = best[1], best[0]
        return best[1] < best[0]
