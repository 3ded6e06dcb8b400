"""Memory of one run: the state table, the heap, the columns of the dataflow graph.

In: the sizes that a plan needs. Out: `Buffers`, which compiled code fills, which grow when it asks, and which later
runs reuse; and arenas, the memory of results, which live as long as any array that was handed out. See
`acronumba.runtime.state` for the layout of the state table.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.spec import plan_words
from acronumba.memory import Array, DType, Words, address, aligned, available, native
from acronumba.runtime.kernel_table import KernelTable
from acronumba.runtime.known_patterns import KnownPatterns
from acronumba.runtime.state import (
    AT,
    GROW_CHAINS,
    GROW_FOUND,
    MEMO_BYTES,
    MEMO_ENTRIES,
    MOST_GRAPHS,
    MOST_GROUPS,
    NEVER,
    NOTED,
    PIECES,
    READS_GIVEN,
)

Form: TypeAlias = tuple[tuple[int, ...], DType, int]  # of an array: shape, dtype, place in bytes
_nbytes: Callable[[Array], int] = attrgetter("nbytes")
_CHUNK = 1 << 20  # bytes of the first chunk of a heap
_NODES = 1 << 12  # capacity of the first columns
_LEAST_CHUNK, _LEAST_NODES = 1 << 14, 1 << 7  # the same where memory is tight
_STEP = 8  # where memory is tight, the heap and columns grow by one of so many parts
_COPIED = 44  # bytes of a node that are kept when columns grow
_MANY = 1 << 20  # capacity of columns that are not kept for the next run
_WARMS = 16  # pieces of memory that are fetched before a run
_CACHE = 1 << 20  # bytes: more than these are not fetched, as they would drive each other out
_FIBERS = 256  # that the first queues have room for
_NOTES = 1 << 10  # that there is room for at first
_KEPT = 1 << 28  # a larger heap or arena is given back to the system when its run is over
KEPT_IN_TRAINING = 1 << 31  # ... of what is trained, or if two runs in succession have needed it: the next one will,
_FREE = 4  # so many times its size being free then; the system would fill it with zeros each time

# words that are 0 when a run begins, as the heads of the free lists are
_FRESH = (
    "stage pc n next batches arena_used edges failures spent run_batches taken rounds more single kept rtop "
    "wtop stubs planned result_bytes work_size work_used work_most result_bytes_before nodes_before part_start "
    "part_nodes part_bytes placed reading noted ended_count until given part_most"
).split()

# int32 tables of the search for a schedule, by what they have entries for; see `acronumba.runtime.state`
_OF_GROUPS = tuple("deepest lfirst bfirst size mixed kfirst agenda_lengths depth_lengths".split())
_OF_MEMBERS = tuple(
    "height efirst sfirst position skind degree queue word best ran_at late due agenda_step agenda_words "
    "depth_words".split()
)
_OF_KINDS = tuple("sstart rstart peak counted fresh touched".split())


class Arena:
    """Memory for results of one run. Arrays made from it keep it alive; with the last one it returns to the pool."""

    def __init__(self, block: NDArray[np.uint8], pool: ArenaPool, device_copy: object = None) -> None:
        self.block = block
        self.pool = pool
        self.address = address(block)
        self.size = len(block)
        self.device_copy = device_copy  # the same memory on a device
        self.exported = False  # whether others have that: they may still read it when they have dropped it

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, True), "version": 3}

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ends():
            self.pool.give(self.block, None if self.exported else self.device_copy)


class ArenaPool:
    """Pool of unused arenas. Thread-safe.

    Parameters
    ----------
    wanted : int
        Estimate of the bytes that the next run will use.
    allocate : callable
        From a number of bytes to memory aligned to 64 bytes, for arenas of up to `_KEPT` bytes.
    kept : int
        Largest arena, in bytes, that is reused after a single run. At most one arena above `_KEPT` is held.
    idle : int
        Maximum number of unused arenas.
    """

    def __init__(
        self, wanted: int, allocate: Callable[[int], NDArray[np.uint8]] = aligned, kept: int = _KEPT, idle: int = 4
    ) -> None:
        self._free: deque[tuple[NDArray[np.uint8], object]] = deque(maxlen=idle)
        self.wanted = wanted
        self.allocate = allocate
        self.kept = kept
        self._last = self._steady = 0  # bytes that the last run has used, and both of the last two

    def take(self, size: int, most: int = 1 << 62) -> Arena:
        """Return an arena of at least `size` bytes; a new one is a quarter larger, for reuse, up to `most` bytes."""
        for _ in range(len(self._free)):
            try:
                block, device_copy = self._free.popleft()
            except IndexError:
                break
            if len(block) >= size:
                return Arena(block, self, device_copy)
        size = max(min(size + size // 4, most) if size <= _KEPT else size, size, 1 << 16)
        return Arena((self.allocate if size <= _KEPT else aligned)(size), self)

    def clear(self) -> None:
        """Release all unused arenas."""
        self._free.clear()

    def note(self, used: int) -> None:
        """Estimate what the next run will use, after a run that has used so many bytes."""
        self.wanted = max(used, self.wanted - self.wanted // 8)
        self._last, self._steady = used, min(self._last, used)

    def give(self, block: NDArray[np.uint8], device_copy: object) -> None:
        size = len(block)
        if size > _KEPT:
            self._free.clear()
        steady = size <= min(2 * self._steady, KEPT_IN_TRAINING)
        if size <= self.kept or (steady and _FREE * size <= available()):
            self._free.append((block, device_copy))


class Pieces:
    """Allocates writable pieces of an arena, which returns to its pool when the last piece is collected.

    Parameters
    ----------
    pool
        Pool of the arena; its `wanted` grows with the pieces asked for.
    """

    def __init__(self, pool: ArenaPool) -> None:
        self._pool, self._arena, self._used = pool, pool.take(pool.wanted), 0
        self.__array_interface__ = {**self._arena.__array_interface__, "data": (self._arena.address, False)}

    def __call__(self, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialised bytes, aligned to 64 bytes."""
        at = self._used
        self._used += (size + 63) & -64
        self._pool.wanted = max(self._pool.wanted, self._used)
        if self._used > self._arena.size:
            return aligned(size)
        return np.asarray(self)[at : at + size]

    def arrays(self, forms: Sequence[Form], size: int) -> tuple[list[Array], int]:
        """Return arrays of such shapes and dtypes, uninitialised, and where they are: see `side_by_side`."""
        room = self(size)
        return [np.ndarray(shape, dtype, room, at) for shape, dtype, at in forms], address(room)


def side_by_side(shapes: Iterable[tuple[int, ...]], dtypes: Iterable[DType]) -> tuple[list[Form], int]:
    """Return shapes and dtypes with a place for each array, in bytes, and how many bytes all of them take."""
    found, end = list[Form](), 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        found.append((shape, dtype, end))
        end += (math.prod(shape) * dtype.itemsize + 63) & -64
    return found, end


class Buffers:
    """State table, heap and columns of one run at a time."""

    def __init__(
        self, *, functions: int, table: KernelTable, most: int, keyed: bool, equal: Sequence[str] = (),
        reach: Callable[[Array], object],
    ) -> None:  # fmt: skip
        self.table, self.most, self.keyed, self.reach = table, most, keyed, reach
        self.kernels = kernels = table.count
        self.equal = equal  # columns of nodes that are equal to others; none if no kernel's are recorded once
        self.st: Words = np.zeros(AT["free"] + functions + kernels, np.int64)
        self.heads = self.st[AT["free"] : AT["free"] + functions]
        self.fresh = np.array([*map(AT.__getitem__, _FRESH), *range(AT["free"], AT["free"] + functions)])
        self.view = self.st.data  # its words: faster than the array, and than items of this object
        reach(self.st)
        self.address = address(self.st)
        self.chunks: list[Words] = []
        self.starts: list[int] = []  # their addresses
        self.where: dict[str, int] = {}  # addresses of `errors`, `results` and `lives`
        self.used = 0  # chunks of the heap that the run has entered
        self.columns: dict[str, Array] = {}
        self.tables: dict[str, Array] = {}  # of the search for a schedule; not there before they are asked for
        self.stream: object = None  # the `Stream` for launches on a device
        self.prepared: object = None  # the shared values that its parameter tables hold
        self.errors: Words = np.empty(0, np.int64)
        self.results: Words = np.empty(0, np.int64)
        self.scratch: NDArray[np.uint8] = aligned(1 << 12)
        reach(self.scratch)
        groups = max(kernels, MOST_GROUPS) if keyed else kernels
        assert groups < 1 << 15, "`place` has 16 bits for a component"
        bits = groups * (groups // 64 + 1) + 1
        words = {"sizes": plan_words(most), "credit": 2 * kernels + 1, "leaf_uses": kernels * most + 1, "heap": 32}
        words |= {"ahead": 2 * _WARMS, "followed": MOST_GRAPHS, "memo": MEMO_ENTRIES * MEMO_BYTES * bool(equal) // 8}
        self.fixed: dict[str, Array] = {
            "adjacent": np.zeros(bits, np.int64),
            "known_first": np.zeros(MOST_GRAPHS * bits, np.int64),
            "component_first": np.zeros(MOST_GRAPHS * groups + 1, np.int32),
            **{name: np.zeros(length, np.int64) for name, length in words.items()},
            "visit": np.zeros(5 * groups + 1, np.int32),
            **{name: np.zeros(groups + 1, np.int32) for name in _OF_GROUPS},
        }
        for name, array in self.fixed.items():
            reach(array)
            self[name] = address(array)
        self["table"] = address(table.rows)
        self["memo_tag"] = 1
        self["kernels"], self["most"], self["keyed"], self["most_groups"] = kernels, most, int(keyed), MOST_GROUPS
        self["look"] = self.address + 8 * (AT["free"] + functions)
        self["scratch"], self["scratch_size"] = address(self.scratch), len(self.scratch)
        self.lives: Words = np.empty(0, np.int64)
        self.queues: dict[str, Words] = {}  # `runnable` and `waiting`; not there if the program does not wait
        self.patterns = KnownPatterns(reach)
        self.tight = False  # whether buffers grow in small steps
        self.last_run = (0, 0)  # nodes of the last run, bytes of the heap that it used
        self._given: tuple[int, ...] = ()  # the numbers of the arrays that the last run was given
        self._ahead_of: tuple[object, ...] = ()  # key that the pieces of `ahead` were made for
        self.grow_nodes(_NODES, 0)

    def __setitem__(self, name: str, value: int) -> None:
        self.view[AT[name]] = value

    def __getitem__(self, name: str) -> int:
        return self.view[AT[name]]

    @property
    def peak(self) -> int:
        """Number of bytes that the mini-batch needs at once, without results of earlier parts."""
        words, at = self.view, AT
        part = max(words[at["arena_used"]] + words[at["work_used"]], words[at["part_most"]])
        return self.bytes + words[at["kept"]] - words[at["given"]] + part

    @property
    def bytes(self) -> int:
        """Bytes of the heap, the columns, and other memory except tensors of nodes."""
        tables = (self.scratch, self.errors, self.results, self.lives)
        return self.column_bytes + sum(
            map(_nbytes, (*self.chunks, *self.tables.values(), *self.queues.values(), *tables))
        )

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(map(_nbytes, self.columns.values())) - (0 if self.keyed else self.columns["key"].nbytes)

    def start_small(self, tight: bool) -> None:
        """Release all memory that has grown; with `tight`, buffers grow in small steps from now on."""
        self.tight = tight
        self.chunks, self.starts, self.used = [], [], 0
        self.tables, self.queues, self.where = {}, {}, {}
        self.errors = self.results = self.lives = self.st[:0]
        for name in ("ccap", "scap", "ecap", "found_room", "xcap", "fcap"):
            self[name] = 0
        self.grow_scratch(1 << 12)
        self.grow_nodes(_LEAST_NODES if tight else _NODES, 0)

    def fetch_ahead(self, arrays: Sequence[Array]) -> None:
        """Note the memory to prefetch for the next run: packed instances, heap and columns in the last run's sizes.

        Instances that the last run did not have were packed just now and are in the cache. Arrays are compared by the
        `id` of the first and the last, which a new array may share with a collected one: a wrong prefetch is harmless.
        """
        given = (len(arrays), id(arrays[0]), id(arrays[-1])) if arrays else ()
        if given != self._given:
            self._given, arrays = given, ()
        known = (len(arrays) and given, self.last_run, self.starts[0], self.view[AT["ncap"]])
        if known == self._ahead_of:
            return
        self._ahead_of = known
        nodes, heap = self.last_run
        pieces = [(address(a), a.nbytes) for a in arrays[:8] if a.dtype == np.int64]
        pieces.append((self.starts[0], min(heap, self.chunks[0].nbytes)))
        many = min(nodes, self["ncap"])
        pieces += [(self[name], self.columns[name].itemsize * many) for name in ("kind", "depth", "instance", "row")]
        if sum(size for _, size in pieces) > _CACHE:
            pieces = []
        self.fixed["ahead"][: 2 * len(pieces)] = [x for piece in pieces for x in piece]
        self["ahead_count"] = len(pieces)

    def note_run(self) -> None:
        """Note how many nodes and bytes of the heap the finished run has used."""
        words = self.view
        self.last_run = (words[AT["n"]], words[AT["top"]] - self.starts[0] if self.used == 1 else 0)

    def add_pattern(self) -> None:
        """Add the pattern that the host program has not found to those that it looks up."""
        self.patterns.add(self["asked"], self["need"])
        self["patterns"] = self.patterns.address

    # ---- heap

    def trim(self) -> None:
        """Release memory that is too large to hold for the next run."""
        if self.used > 1 and sum(c.nbytes for c in self.chunks) > _KEPT:
            self.chunks, self.starts, self.used = [], [], 0
        if self["ncap"] > _MANY:
            self.grow_nodes(_NODES, 0)
            self.tables = {}
            for name in ("ccap", "scap", "ecap", "found_room", "xcap"):
                self[name] = 0

    def begin(self) -> None:
        """Start with an empty heap."""
        if self.used > 1:  # the last run needed several chunks: make them one
            size = sum(c.nbytes for c in self.chunks[: self.used])
            self.chunks, self.starts = [], []
            self.add_chunk(min(size, _KEPT))
        elif not self.chunks:
            self.add_chunk(_LEAST_CHUNK if self.tight else _CHUNK)
        self.used = 0
        self.next_chunk(0)
        self.st[self.fresh] = 0
        self.patterns.begin()
        self.view[AT["patterns"]] = self.patterns.address

    def add_chunk(self, size: int) -> None:
        chunk = np.empty((size + 7) // 8, np.int64)
        self.reach(chunk)
        self.chunks.append(chunk)
        self.starts.append(address(chunk))
        heap, k = self.fixed["heap"], 2 * len(self.chunks)
        if k > len(heap):
            heap = self.fixed["heap"] = np.concatenate([heap, heap])
            self.reach(heap)
            self["heap"] = address(heap)
        heap[k - 2 : k] = self.starts[-1], self.starts[-1] + chunk.nbytes

    def another(self, need: int) -> bool:
        """Whether a chunk of an earlier run, or of an instance that has failed, has room for `need` bytes."""
        return self.used < len(self.chunks) and self.chunks[self.used].nbytes >= need

    def chunk_size(self, need: int, room: int) -> int:
        """Return the size in bytes of the next chunk: at least `need`, and at most `room` if `need` allows.

        If memory is tight it does not depend on `room`, so that neither does whether a mini-batch fits.
        """
        if self.tight:
            return max(need, sum(c.nbytes for c in self.chunks) // _STEP, _LEAST_CHUNK)
        return max(need, min(room, 2 * self.chunks[-1].nbytes if self.chunks else _CHUNK))

    def next_chunk(self, need: int, size: int = 0) -> None:
        """Continue the heap in a chunk with `need` free bytes; a new chunk has `size` bytes."""
        if not self.another(need):
            del self.chunks[self.used :], self.starts[self.used :]
            self.add_chunk(max(need, size))
        words, start = self.view, self.starts[self.used]
        words[AT["top"]], words[AT["end"]] = start, start + self.chunks[self.used].nbytes
        self.used = words[AT["chunks"]] = self.used + 1

    def taken_since(self, top: int) -> int:
        """Return the bytes allocated since the top of the heap was at this address; later chunks count as a whole."""
        taken = 0
        for start, chunk in zip(reversed(self.starts[: self.used]), reversed(self.chunks[: self.used]), strict=True):
            if start <= top <= start + chunk.nbytes:
                return taken + start + chunk.nbytes - top
            taken += chunk.nbytes
        return taken

    def rewind(self, top: int) -> None:
        """Free all that was allocated since the top of the heap was at this address."""
        while True:
            start = self.starts[self.used - 1]
            if start <= top <= start + self.chunks[self.used - 1].nbytes or self.used == 1:
                break
            self.used -= 1
        self["chunks"] = self.used
        self["top"] = top
        self["end"] = start + self.chunks[self.used - 1].nbytes

    # ---- columns

    def nodes_wanted(self, need: int) -> int:
        """Return the next capacity of the columns: room for at least `need` more nodes."""
        shared = self["ncap"] - self["nroom"]
        more = self["ncap"] // _STEP if self.tight else self["ncap"]
        return max(self["ncap"] + more, self["n"] + shared + need)

    def bytes_with_nodes(self, capacity: int) -> int:
        """Return the number of bytes that are needed at once while columns grow to a capacity."""
        sizes = (dtype.itemsize * length for dtype, length in self._lengths(capacity).values())
        return self.peak - self.column_bytes + sum(sizes) + _COPIED * self["n"]

    def _lengths(self, capacity: int) -> dict[str, tuple[DType, int]]:
        """Return the dtypes and lengths of columns for so many nodes."""
        int32, int64 = np.dtype(np.int32), np.dtype(np.int64)
        kernels = self.kernels
        lengths: dict[str, tuple[DType, int]] = {
            "kind": (int32, capacity), "depth": (int32, capacity), "instance": (int32, capacity),
            "row": (int64, capacity), "level": (int32, capacity), "order": (int32, capacity),
            "spare": (int32, capacity + kernels),
            "counts": (int32, capacity + 2), "tally": (int32, capacity + kernels),
            "bstart": (int32, capacity + 1), "bkey": (int32, capacity), "blevel": (int32, capacity),
            "offset": (int64, 2 * capacity * self.most), "args": (int64, capacity), "fail": (int64, capacity),
            "keytab": (int64, 2 * self.keys(capacity)), "kinds": (int32, self.keys(capacity)),
            "local": (int32, self.keys(capacity)), "place": (int64, capacity + 1),
        }  # fmt: skip
        if self.keyed:
            hashes = 1 << (2 * capacity - 1).bit_length()
            lengths |= {"key": (int32, capacity), "hash": (int32, hashes)}
        if self.equal:
            most = 1 << (2 * capacity - 1).bit_length()
            lengths |= {"equal": (int64, 5 * most // 3)} | dict.fromkeys(self.equal, (int64, capacity))  # 1 + 1/2 + ...
            lengths |= {"reader": (int64, capacity + 1)}
        return lengths

    def grow_nodes(self, capacity: int, n: int) -> None:
        """Grow the node columns to `capacity` nodes; entries of the first n nodes stay."""
        shared = {name: self._of_shared(name).copy() for name in self.equal if n}
        begun = (self["equal"] - self["equal_first"]) // 8  # where the table of equal nodes begins
        slots = self["equal_mask"] + 1 if self.equal and n else 0
        kept = {name: self.columns[name][:n].copy() for name in ("kind", "depth", "instance", "row") if n}
        if self.columns:
            kept["place"] = self.columns["place"][: n + 1].copy()
        if slots:
            kept["equal"] = self.columns["equal"][begun : begun + slots].copy()
            kept["reader"] = self.columns["reader"][: n + 1].copy()
        self.columns = {}
        for name, (dtype, length) in self._lengths(capacity).items():
            column = np.zeros(length, dtype) if name == "tally" else np.empty(length, dtype)
            if name in kept:
                column[: len(kept[name])] = kept[name]
            self.columns[name] = column
            self.reach(column)
            self[name] = address(column)
        self["place"] += 8
        if not self.keyed:
            self.columns["key"] = self.columns["kind"]
            self["key"] = self["kind"]
        self["first_room"] += capacity - self["ncap"]
        self["ncap"], self["nroom"] = capacity, capacity - max(map(len, shared.values()), default=0)
        for name, words in shared.items():
            self.columns[name][self["nroom"] :] = words
        if self.equal:
            most = 1 << (2 * capacity - 1).bit_length()
            self["equal_first"], self["equal_most"] = self["equal"], most
            self.columns["reader"][0] = 0
            self["reader"] += 8

    @property
    def sharers(self) -> Words:
        """int64[m]: shared nodes and the instances that use them, node << 32 | instance, the last first."""
        return self._of_shared("sharer")

    @property
    def pairs(self) -> Words:
        """int64[m]: the same nodes, and the nodes that were recorded again for them: node << 32 | node."""
        return self._of_shared("double")

    def _of_shared(self, name: str) -> Words:
        return self.columns[name][self["nroom"] : self["ncap"]] if self["nroom"] < self["ncap"] else self.st[:0]

    def grow_tables(self, status: int) -> None:
        """Grow the tables that `status` names to hold all nodes, and as many edges as are needed."""
        nodes, keys = self["ncap"], self.keys()
        if status == GROW_CHAINS:
            self.add_tables({"chains": (8 * nodes, 4), "own": (nodes, 4), "longest": (keys, 4)})
            self["ccap"] = nodes
            return
        lengths = dict.fromkeys(_OF_MEMBERS, (nodes + 1, 4)) | dict.fromkeys(_OF_KINDS, (keys + 1, 4))
        lengths |= {"remain": (nodes + keys, 4), "able": (nodes + keys, 4), "ready": (2 * keys, 4)}
        lengths |= {"mean": (keys, 8), "score": (keys, 8), "efrom": (self["need"], 4), "snext": (self["need"], 4)}
        self.add_tables(lengths)
        self.tables["fresh"][:] = 0
        self["scap"], self["ecap"] = nodes + 1, self["need"]

    def grow_lives(self, status: int) -> None:
        """Grow the tables of `liveness`: that of values reachable from results, or those of the results of batches."""
        if status == GROW_FOUND:
            self["found_room"] = max(4 * self["found_room"], self["part_end"] + 64)
            self.add_tables({"found": (4 * self["found_room"], 8)})
        else:
            self["xcap"] = count = self["need"] + self["need"] // 2
            self.add_tables(dict.fromkeys(("last", "dying", "beside"), (count, 4)))
            self.add_tables({"room": (count, 8), "returned": (count, 8), "free_pieces": (2 * PIECES, 8)})

    def add_tables(self, lengths: Mapping[str, tuple[int, int]]) -> None:
        for name, (length, size) in lengths.items():
            self.tables[name] = np.empty(length, np.int32 if size == 4 else np.int64)
            self.reach(self.tables[name])
            self[name] = address(self.tables[name])

    @contextmanager
    def tables_apart(self) -> Iterator[None]:
        """Context that releases the tables of the search that are added in it."""
        caps = ("ccap", "scap", "ecap")
        tables, words = dict(self.tables), [(name, self[name]) for name in (*caps, *self.tables) if name in AT]
        yield
        self.tables = tables
        for name, word in words:
            self[name] = word

    def keys(self, capacity: int = 0) -> int:
        """Return the maximum number of keys."""
        return self.kernels + (capacity or self["ncap"] if self.keyed else 0)

    def grow_scratch(self, size: int) -> None:
        self.scratch = aligned(size)
        self.reach(self.scratch)
        self["scratch"], self["scratch_size"] = address(self.scratch), size

    def begin_fibers(self, batch: int) -> None:
        """Allocate the queues for the fibers of so many instances."""
        self.words("lives", batch)
        self["lives"] = self.where["lives"]
        if self["fcap"] <= batch:
            self.grow_fibers(max(_FIBERS, batch + 1))

    def begin_epoch(self, slots: int) -> None:
        """Begin an epoch of at most `slots` instances: none has joined, and results never share memory."""
        self["instances"] = self["part_end"] = 0
        self["plenty"] = NEVER
        self.add_tables({"ended": (slots, 8)})

    def grow_fibers(self, capacity: int) -> None:
        """Grow the queues to `capacity` fibers; queued fibers stay."""
        for name, top in (("runnable", "rtop"), ("waiting", "wtop")):
            queue = np.empty(2 * capacity, np.int64)
            self.reach(queue)
            held = 2 * self[top]
            if held:
                queue[:held] = self.queues[name][:held]
            self.queues[name] = queue
            self[name] = address(queue)
        self["fcap"] = capacity

    # ---- values that are read

    @property
    def notes(self) -> Words:
        """Recorded reads as int64[n, 3]: instance, number of the read, value."""
        return self.tables["notes"].reshape(-1, 3)[: self["noted"]]

    def begin_notes(self) -> None:
        """Start to record the values of reads."""
        self["reading"] = NOTED
        self.grow_notes(_NOTES)

    def grow_notes(self, room: int) -> None:
        """Grow the table of recorded reads; its entries stay."""
        held = self.tables["notes"][: 3 * self["noted"]] if self["noted"] else self.st[:0]
        self.add_tables({"notes": (3 * room, 8)})
        self.tables["notes"][: len(held)] = held
        self["notes_room"] = room

    def begin_recorded_reads(self, notes: Words, batch: int, reads: int) -> None:
        """Replay reads: each read of each instance returns its recorded values, in order."""
        number = notes[:, 0] * reads + notes[:, 1]
        values = np.ascontiguousarray(notes[np.argsort(number, kind="stable"), 2])
        ends = np.cumsum(np.bincount(native(number), minlength=batch * reads))
        places = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        self.add_tables({"recorded_reads": (2 * batch * reads, 8)})
        self.tables["recorded_reads"][:] = (address(values) + 8 * places).reshape(-1)
        self.tables["values_told"] = values
        self.reach(values)
        self["reading"] = READS_GIVEN

    @property
    def all_reads_recorded(self) -> bool:
        """Whether every recorded value has been consumed by a read."""
        begin, end = self.tables["recorded_reads"].reshape(-1, 2).T
        return bool(np.array_equal(begin, end))

    def column(self, name: str, n: int) -> Array:
        """Return the first n entries of a column."""
        return self.columns[name][:n]

    def words(self, name: str, count: int) -> int:
        """Allocate `count` words for `errors`, `results` or `lives`; return the address."""
        if name not in self.where or len(getattr(self, name)) < count:
            array = np.empty(max(count, 64), np.int64)
            setattr(self, name, array)
            self.reach(array)
            self.where[name] = address(array)
        return self.where[name]
