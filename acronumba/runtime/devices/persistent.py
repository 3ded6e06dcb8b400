"""Mini-batches as one launch instead of a launch for each kernel: of a kernel that is all, or of a graph of kernels.

In: a device and the code of the kernels. Out: the words that compiled code needs for it (`runtime.library.launch`);
`run` runs a mini-batch. In the one kernel (`kernels.cuda.persistent`) there is a barrier of all blocks behind each
level; a graph (`kernels.cuda.graphs`) has nodes instead. Which way is faster depends on the model, the mini-batch and
the GPU: a barrier may take less time than a launch, but all kernels get the registers and the shared memory of the
largest. Unless an option decides, all are measured: results have the same bits, so the first mini-batch of a size is
run several times.
"""

from __future__ import annotations

import ctypes
import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from acronumba.errors import AcronumbaError
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NODE, nodes_of
from acronumba.kernels.cuda.persistent import BARRIER, PIECE, POST, STEP, PersistentCode, persistent
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.memory import Words, address
from acronumba.runtime.devices.graphs import Graphs
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
APART, TOGETHER, GRAPH = "apart", "together", "graph"  # a launch for each kernel, or one kernel, or a graph
Ways: TypeAlias = "Mapping[str, Callable[[], bool]]"  # what runs a mini-batch; False: it cannot, nothing has been done


class PersistentRun:
    """Runs mini-batches as one launch of a kernel ("together") or of a graph, or as one launch per batch ("apart").

    Parameters
    ----------
    device : Device
        The device to run on.
    codes : sequence of CudaCode
        The kernels, in the order of their functions' numbers.
    wanted : bool or "graph", optional
        Whether to run them together; None: whichever is faster, by measurement.
    read : int, optional
        The most results of a kernel that the CPU waits for.
    stays : bool, optional
        Whether the kernel stays between rounds.
    """

    def __init__(
        self, device: Device, codes: Sequence[CudaCode], wanted: bool | str | None, read: int = 0, stays: bool = False
    ) -> None:
        self.best: dict[tuple[int, int], str] = {}  # by size: the fastest way
        self.seconds: dict[tuple[int, int], dict[str, float]] = {}  # by size: of each way
        self._device = device
        self._wanted = {True: TOGETHER, False: APART, None: ""}.get(wanted, GRAPH)  # type: ignore[arg-type]
        self._read = read
        self._stages = max((len(code.entries) for code in codes), default=0)
        self._code: PersistentCode | None = None
        self.graphs: Graphs | None = None
        self._resident = 0
        self._spare: list[Words] = []
        self._late: deque[Words] = deque()  # of runs that may go on
        if self._stages:
            self._make(codes)
        self._array = np.zeros(ABOUT.count, np.int64)
        self.about = address(self._array)  # see `runtime.library.launch`
        self._words = self._array.data
        for k, name in enumerate(("steps", "count", "barrier", "post")):
            self._words[ABOUT.at["parameters"] + k] = self.about + 8 * ABOUT.at[name]
        self["looks"] = LOOKS
        self["stages"], self["functions"] = self._stages, sum(len(code.entries) for code in codes)
        if self._code:
            self["most"], self["handle"], self["shared"] = self._resident, self._handle, self._code.shared
            self["room"] = self._code.room
        if self.graphs:
            self["graphs"], self["table"] = address(self.graphs.words), self.graphs.table
            self["rows"] = self.graphs.rows
        self._ways = np.full(64, -1 if self._wanted == TOGETHER and self._code else 0, np.int64)
        self["ways"], self["bound"] = address(self._ways), _BOUND if device.timed else 1
        if self._code and stays:
            self._stay()

    def _make(self, codes: Sequence[CudaCode]) -> None:
        """Load what runs all kernels in one launch, as far as it is wanted and can be had."""
        if self._wanted == TOGETHER:
            self._load(codes)
            if not self._code:
                raise RuntimeError("blocks cannot wait for each other on this GPU: with_options(persistent=False)")
        elif self._wanted == GRAPH:
            if not self._device.graphs:
                raise RuntimeError("the GPU's driver has no graphs of kernels: with_options(persistent=None)")
            self.graphs = Graphs(self._device, codes)
        elif not self._wanted and self._device.timed:
            for load in (self._compile, self._load, self._load_nodes):
                try:
                    load(codes)
                except (RuntimeError, MemoryError, TypeError, AcronumbaError) as error:
                    log.warning("kernels are launched one by one: there is none that runs all of them: %s", error)

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

    def _compile(self, codes: Sequence[CudaCode]) -> None:
        """Compile what the next two load, at the same time."""
        one = [persistent(codes, self._device.shared)] if self._device.cooperative else []
        self._device.compile([*one, *(map(nodes_of, codes) if self._device.graphs else ())])

    def _load_nodes(self, codes: Sequence[CudaCode]) -> None:
        """Compile the kernels as nodes of graphs."""
        if self._device.graphs:
            self.graphs = Graphs(self._device, codes)

    @property
    def able(self) -> bool:
        """Whether mini-batches can be run in one launch."""
        return self._code is not None or self.graphs is not None

    def says(self) -> bool:
        """Return whether the kernel that stays between rounds has said that it has left, or that a round is done."""
        post = self._mapped
        return bool(post[POST.at["left"]] or post[POST.at["done"]] == post[POST.at["turn"]])

    def room(self, launches: int) -> int:
        """Return the bytes that `note` needs at most."""
        steps = self._stages * launches  # and there are as many levels at most
        pieces = PIECE.size * (self._read * launches + 1)
        one = 64 + BARRIER.size + (STEP.size + 16) * steps + 16 + pieces if self._code else 0
        return max(one, 64 + (3 * NODE.size + 88) * steps + 16 if self.graphs else 0)

    def way(self, size: tuple[int, int]) -> str | None:
        """Return how mini-batches of a size are run; None: not yet measured."""
        if not self.able:
            return APART
        return self._wanted or self.best.get(size)

    def make_graph(self) -> bool:
        """Make the graph that a mini-batch needs; return whether it is there."""
        assert self.graphs is not None
        key = (ctypes.c_int64 * self["key_words"]).from_address(self["key"])
        made = self.graphs.make(np.array(key, np.int64))
        self["known"] = self.graphs.known
        return made

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
        late = self.late
        self._device.wait()
        self.waited(late)

    @property
    def late(self) -> int:
        """How many words were given back whose runs may not have ended."""
        return len(self._late)

    def waited(self, late: int) -> None:
        """Note that all is done that was launched when `late` was so many."""
        for _ in range(min(late, len(self._late))):
            self._spare.append(self._late.popleft())

    def run(self, size: tuple[int, int], word: Words, ways: Ways) -> None:
        """Run a mini-batch, in one launch or many; `way(size)` is not "apart". All callables copy their parameters."""
        if not self._wanted and size not in self.best:
            self.best[size] = best = self._faster(size, word, ways)
            self._ways[size[0]] |= int(best == TOGETHER) << size[1]
            return
        best = self._wanted or self.best[size]
        try:
            if not ways[best]():
                known = self.seconds.get(size, {})
                other = TOGETHER if known.get(TOGETHER, np.inf) < known.get(APART, np.inf) else APART
                ways[other]()
        except (RuntimeError, MemoryError) as error:  # the GPU is shared with others now
            if self._wanted:
                raise
            self._give_up(error, size, ways)

    def _give_up(self, error: Exception, size: tuple[int, int], ways: Ways) -> None:
        log.warning("kernels are launched one by one from now on: %s", error)
        self.best[size] = APART
        self._ways[size[0]] &= ~(1 << size[1])
        ways[APART]()

    def _faster(self, size: tuple[int, int], word: Words, ways: Ways) -> str:
        """Run all ways in turn; return the fastest. What takes long is not run again to find out."""
        best: dict[str, float] = {APART: float("inf")}
        begun = time.perf_counter()
        for way, there in ((TOGETHER, self._code), (GRAPH, self.graphs)):
            try:
                for _ in range(2 if there else 0):  # the driver loads a kernel when it is launched for the first time
                    begun = time.perf_counter()
                    if not ways[way]():
                        break
                    self._device.wait()
                else:
                    if there and time.perf_counter() - begun <= _LONG:
                        best[way] = float("inf")
            except (RuntimeError, MemoryError) as error:  # the driver admits fewer blocks
                log.warning("kernels are not run %s in mini-batches of this size: %s", way, error)
        if word[0]:
            return self._lost(size, word, ways)
        for trial in range(1 + _TRIALS):
            for way in best:
                self._device.wait()
                start = time.perf_counter()
                ways[way]()
                self._device.wait()
                if trial:
                    best[way] = min(best[way], time.perf_counter() - start)
            if len(best) == 1 or (trial and time.perf_counter() - begun > _LONG):
                break
        if word[0]:
            return self._lost(size, word, ways)
        self.seconds[size] = best
        return min(best, key=lambda way: best[way])

    def _lost(self, size: tuple[int, int], word: Words, ways: Ways) -> str:
        word[0] = 0
        self._give_up(RuntimeError(GIVEN_UP), size, ways)
        return APART
