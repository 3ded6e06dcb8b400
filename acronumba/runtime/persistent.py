"""Mini-batches as one launch of all kernels, with a barrier of all blocks after each, instead of a launch for each.

In: a device and the code of the kernels (`kernels.cuda.persistent` makes one of them). Out: `note` writes the steps
behind what the launches need, so that they are copied together; `run` runs them. Which way is faster depends on the
model, the mini-batch and the GPU: a barrier may take less time than a launch, but all kernels have the registers and
the shared memory of the largest. Unless an option says it, both are measured: results have the same bits, so the first
mini-batch of a size is run several times.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from acronumba.errors import AcronumbaError
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import BARRIER, STEP, PersistentCode, persistent
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.runtime.dfg import Words, address

if TYPE_CHECKING:
    from acronumba.runtime.devices import Device

GIVEN_UP = "the blocks of a mini-batch have waited for each other in vain: with_options(persistent=False)"
PATIENCE = 1 << 25  # times that a block looks whether others have come: many seconds
_TRIALS = 3  # of each way, after one that is not counted
_LONG = 0.1  # seconds of trials, after which there are no more


log = logging.getLogger("acronumba")


@dataclass(slots=True, eq=False)
class Steps:
    """What the kernel is to do."""

    address: int  # of the barrier on the device; steps follow
    count: int
    blocks: int  # of the widest of them
    size: tuple[int, int]  # of the mini-batch, about
    end: int  # address behind what has been written
    word: Words  # that blocks set which have waited in vain


class PersistentRun:
    """Runs mini-batches, together or apart.

    Parameters
    ----------
    device : Device
        Where.
    codes : sequence of CudaCode
        The kernels, in the order of their functions' numbers.
    wanted : bool, optional
        Whether to run them together; None: as it turns out.
    """

    def __init__(self, device: Device, codes: Sequence[CudaCode], wanted: bool | None) -> None:
        self.together: dict[tuple[int, int], bool] = {}  # by size: whether that was faster
        self.seconds: dict[tuple[int, int], tuple[float, float]] = {}  # by size: of both ways, together and apart
        self._device = device
        self._wanted = wanted
        self._stages = max((len(code.entries) for code in codes), default=0)
        self._code: PersistentCode | None = None
        self._resident = 0
        self._spare: list[Words] = []
        if self._stages and wanted:
            self._load(codes)
            if not self._code:
                raise RuntimeError("blocks cannot wait for each other on this GPU: with_options(persistent=False)")
        elif self._stages and wanted is None and device.timed:
            try:
                self._load(codes)
            except (RuntimeError, MemoryError, TypeError, AcronumbaError) as error:
                log.warning("kernels are launched one by one: there is none that runs all of them: %s", error)
        # parameters of the kernel; their addresses; `about` of the loop that writes steps
        self._array = np.zeros(15, np.int64)
        at = address(self._array)
        self._places, self._about = at + 8 * 5, at + 8 * 10
        self._array[5:12] = *range(at, self._places, 8), 0, PATIENCE
        self._words = self._array.data

    def _load(self, codes: Sequence[CudaCode]) -> None:
        """Compile the kernel that runs all, if its blocks can wait for each other."""
        if not self._device.cooperative:
            return
        code = persistent(codes)
        ((self._handle,),) = self._device.load([code])
        weakref.finalize(self, self._device.unload, [self._handle]).atexit = False
        self._resident = self._device.processors * self._device.resident(self._handle, THREADS, code.shared)
        self._code = code if self._resident else None

    def room(self, launches: int) -> int:
        """Return the bytes that `note` needs at most."""
        return 64 + 8 * (BARRIER + STEP * self._stages * launches) if self._code else 0

    def note(
        self, write: Callable[..., int], words: int, table: int, launches: int, out: int, delta: int, most: int
    ) -> Steps | None:
        """Write the steps of launches, by at most so many blocks, at `out`; None if they are to run apart."""
        if not self._code:
            return None
        if not self._spare:
            self._spare.append(self._device.word())
        word = self._spare[-1]
        word[0] = 0
        self._words[10], self._words[14] = address(word), min(self._resident, most)
        count = write(words, table, launches, out, self._about)
        blocks, nodes = self._words[12], self._words[13]
        size = launches.bit_length(), nodes.bit_length()
        if not self._wanted and not self.together.get(size, True):
            return None
        self._spare.pop()
        return Steps(out + delta, count, blocks, size, out + 8 * (BARRIER + STEP * count), word)

    def give(self, word: Words) -> None:
        """Take a word of steps that nobody asks any more."""
        self._spare.append(word)

    def run(self, steps: Steps, scratch: int, own: int, apart: Callable[[], None]) -> None:
        """Run steps with the scratch of the batch and of warps; `apart` launches the same one by one."""
        words = self._words
        words[0], words[1], words[2], words[3] = steps.address + 8 * BARRIER, steps.count, scratch, own
        words[4] = steps.address

        def together() -> None:
            assert self._code is not None
            self._device.cooperate(self._handle, steps.blocks, self._code.shared, self._places)

        if self._wanted:
            together()
        elif steps.size not in self.together:
            self.together[steps.size] = self._faster(steps, together, apart)
        else:
            try:
                together()
            except (RuntimeError, MemoryError) as error:  # the GPU is shared with others now
                self._give_up(error, steps, apart)

    def _give_up(self, error: Exception, steps: Steps, apart: Callable[[], None]) -> None:
        log.warning("kernels are launched one by one from now on: %s", error)
        self.together[steps.size] = False
        apart()

    def _faster(self, steps: Steps, together: Callable[[], None], apart: Callable[[], None]) -> bool:
        """Run both ways in turn; return whether the first is faster. What takes long is not run again to find out."""
        best = [float("inf")] * 2
        barrier = np.array([0, self._words[10], self._words[11], 0]).view(np.uint8)
        begun = time.perf_counter()
        try:
            together()
            self._device.wait()
        except (RuntimeError, MemoryError) as error:  # the driver admits fewer blocks
            self._give_up(error, steps, apart)
            return False
        if time.perf_counter() - begun > _LONG and not steps.word[0]:
            return False
        for trial in range(1 + _TRIALS):
            for k, way in enumerate((apart, together)):
                self._device.upload(steps.address, barrier)
                self._device.wait()
                start = time.perf_counter()
                way()
                self._device.wait()
                if trial:
                    best[k] = min(best[k], time.perf_counter() - start)
            if trial and time.perf_counter() - begun > _LONG:
                break
        if steps.word[0]:
            steps.word[0] = 0
            self._give_up(RuntimeError(GIVEN_UP), steps, apart)
            return False
        self.seconds[steps.size] = best[1], best[0]
        return best[1] < best[0]
