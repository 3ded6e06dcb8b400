"""Memory policy: how buffers grow when compiled code asks for more, and which instances fail if they may not.

In: a mini-batch that has stopped with a status. Out: more memory, or the failure of an instance that needs too much.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from acronumba.config import Options
from acronumba.data.words import RECORD
from acronumba.memory import Words, available, native
from acronumba.runtime import state
from acronumba.runtime.buffers import ArenaPool, Buffers
from acronumba.runtime.minibatch import MiniBatch
from acronumba.runtime.recorded import Failure, Recorded
from acronumba.runtime.state import MEMORY, STEPS, TABLE

_SOON = 0.1  # seconds for which the system's answer about free memory is cached, as asking takes a while
_MANY = 8  # an instance that takes so many times the steps of the others is not like them


class TooLarge(MemoryError):
    """A mini-batch needs more memory than allowed.

    Attributes
    ----------
    surely : list of int
        Instances that need more memory by themselves.
    suspects : list of int
        Instances that took by far the most steps, the worst first: the others may fit without them.
    alone : list of int
        Instances that took most of the memory before.
    most : int
        Estimate of the number of instances that fit at once.
    """

    def __init__(
        self, text: str, surely: Sequence[int] = (), suspects: Sequence[int] = (), most: float = 1 << 62
    ) -> None:
        super().__init__(text)
        self.surely, self.suspects, self.most = [*surely], [*suspects], max(1, int(most))
        self.alone: list[int] = []

    def numbered(self, instances: Words | None) -> TooLarge:
        """Return a copy with the caller's instance numbers; None: unchanged."""
        if instances is not None:
            for name in ("surely", "suspects", "alone"):
                setattr(self, name, instances[getattr(self, name)].tolist())
        return self


class Astray(Exception):
    """A run that replays recorded reads diverges from the run that recorded them."""


class MemoryPolicy:
    """Grows the memory of mini-batches of one plan, within limits.

    Parameters
    ----------
    options
        `memory_limit`, `max_steps`, `recycle`.
    recorded
        Reads the buffers.
    arenas, pieces, works
        Pools of memory for results, for results of epochs, and for memory that is reused within a run.
    """

    def __init__(
        self, options: Options, recorded: Recorded, arenas: ArenaPool, pieces: ArenaPool, works: ArenaPool
    ) -> None:
        self.options = options
        self.recorded = recorded
        self.host = recorded.host
        self.engine = recorded.engine
        self.arenas = arenas
        self.pieces = pieces
        self.works = works
        self._known_until, self._half = 0.0, 0  # half of the memory that is free, and until when that is believed

    @property
    def limit(self) -> int:
        """Number of bytes that a mini-batch may take."""
        if self.options.memory_limit:
            return self.options.memory_limit
        if (now := time.monotonic()) > self._known_until:
            self._known_until, self._half = now + _SOON, available() // 2
        return self._half

    def prepare(self, buffers: Buffers, tight: bool, count: int) -> None:
        """Shrink buffers that exceed half of the limit, or if the run must not depend on memory of earlier runs."""
        if buffers.tight != tight or (tight and count == 1) or buffers.bytes > self.limit // 2:
            buffers.start_small(tight)
            self.arenas.clear()
            self.works.clear()

    def check_whole(self, buffers: Buffers) -> None:
        """Raise `TooLarge` if a mini-batch, which has run, has used buffers of earlier runs that exceed the limit."""
        self._check(buffers)

    def check_back(self, need: int, more: int) -> None:
        """Raise MemoryError if a backward pass needs too much: `need` bytes, `more` of them still to be allocated."""
        limit = self.options.memory_limit
        if (more > 0 and more > self.limit) if limit is None else need > limit:
            raise MemoryError(f"the forward and backward pass need {need:,} bytes at once, more than `memory_limit`")

    def grow(self, m: MiniBatch, status: int) -> None:
        """Grow the memory that compiled code asks for; the last arena is used from now on."""
        buffers = m.buffers
        need = buffers["need"]
        match status:
            case state.GROW_HEAP:
                room = self.limit - buffers.peak
                if buffers.another(need):
                    buffers.next_chunk(need)
                elif (size := buffers.chunk_size(need, room)) <= room:
                    buffers.next_chunk(need, size)
                else:
                    self._no_memory(m)
            case state.GROW_NODES:
                capacity = buffers.nodes_wanted(need)
                if buffers.bytes_with_nodes(capacity) > self.limit:
                    self._no_memory(m)
                else:
                    buffers.grow_nodes(capacity, buffers["n"])
            case state.PAUSE:
                pass  # Python looks for signals between two calls
            case state.FUEL:
                self._refuel(m)
            case state.GROW_CHAINS | state.GROW_EDGES:
                buffers.grow_tables(status)
                self._check(buffers)
            case state.GROW_SCRATCH:
                room = self.limit - buffers.peak + buffers.scratch.nbytes
                if self._least_scratch(buffers, need) > room and self._may_plan(m):
                    buffers["plenty"] = -1
                else:
                    buffers.grow_scratch(need if need <= room else self._fewer_threads(buffers, need, room))
            case state.GROW_LIVES | state.GROW_FOUND:
                buffers.grow_lives(status)
            case state.GROW_ARENA | state.GROW_WORK if buffers.peak > self.limit:
                if need == 1 << 62 or not self._may_plan(m):
                    self._too_large(buffers)
                buffers["plenty"] = -1
            case state.GROW_WORK:
                m.works.clear()  # before there is another one
                m.works.append(self.works.take(need, need + max(0, self.limit - buffers.peak)))
                self.work_in(m)
            case state.GROW_ARENA:
                self._arena_for(m, need)
            case state.GROW_FIBERS:
                buffers.grow_fibers(2 * buffers["fcap"])
                self._check(buffers)
            case state.NODES_FAILED:
                self.fail_nodes(m)
            case state.GROW_NOTES:
                buffers.grow_notes(2 * buffers["notes_room"])
            case state.NEW_PATTERN:
                buffers.add_pattern()
            case state.ASTRAY:
                raise Astray
            case _:
                raise AssertionError(f"status {status}")

    def _refuel(self, m: MiniBatch) -> None:
        """Let the instance that runs take more steps; if there are none left, it fails."""
        buffers = m.buffers
        left = min(state.SLICE, buffers["left"])
        if left:
            buffers["fuel"] = buffers["granted"] = left
            buffers["left"] -= left
        else:
            self._abandon(m, STEPS)

    def _may_plan(self, m: MiniBatch) -> bool:
        """Whether results could share memory, and do not yet."""
        buffers = m.buffers
        return not m.epoch and not buffers["planned"] and not buffers["more"] and self.options.recycle

    def _arena_for(self, m: MiniBatch, need: int) -> None:
        """Continue in an arena with `size` free bytes."""
        buffers = m.buffers
        if not buffers["kept"]:
            m.arenas.clear()  # of this run: nothing lies in it
        pool, room = self.arenas, 2 * sum(a.size for a in m.arenas)
        if m.epoch:  # pieces are given back one by one
            pool, room = self.pieces, self.pieces.wanted
        most = need + max(0, self.limit - buffers.peak)
        arena = pool.take(max(need, min(room, most)), most)
        m.arenas.append(arena)
        self.engine.reach(arena.block)
        buffers["arena"], buffers["arena_size"] = arena.address, arena.size

    def work_in(self, m: MiniBatch) -> None:
        """Make the block of `m.works`, if it has one, the work area."""
        for arena in m.works:
            self.engine.reach(arena.block)
            m.buffers["work"], m.buffers["work_size"] = arena.address, arena.size

    def _abandon(self, m: MiniBatch, site: int) -> None:
        """Fail the instance that runs, and free the memory that it has allocated."""
        buffers = m.buffers
        loop = self.host.loops.get(buffers["pc"])
        calls = self.recorded.calls(buffers, buffers["fp"])
        m.failures[buffers["inst"]] = Failure(site=site, calls=calls if loop is None else (loop, *calls))
        if self.host.waiting:
            buffers.lives[buffers["inst"]] = state.DEAD
        buffers["n"], buffers["nroom"] = buffers["first"], buffers["first_room"]
        buffers["memo_tag"] += buffers["kernels"]
        buffers["placed"] = state.MEASURED
        buffers.rewind(buffers["base"])
        buffers["stubs"] = 0
        buffers.heads[:] = 0
        buffers["pc"] = state.SCHEDULER

    def _check(self, buffers: Buffers) -> None:
        """Raise `TooLarge` if the mini-batch has exceeded the limit."""
        if (peak := buffers.peak) > self.limit:
            self._reject(buffers, f"the mini-batch needs {peak:,} bytes, more than `memory_limit`", peak)

    def _reject(self, buffers: Buffers, text: str, seen: float) -> NoReturn:
        """Raise `TooLarge` for a mini-batch that needs at least `seen` bytes."""
        raise TooLarge(text, most=buffers["part_end"] * (self.limit / max(1.0, seen)))

    def _no_memory(self, m: MiniBatch) -> None:
        """Fail the instance that has used most of the memory, or raise `TooLarge` for the mini-batch."""
        buffers, text = m.buffers, "no memory is left for the next instance"
        if len(m.roots) > 1 and (suspects := self._runaways(buffers)):
            raise TooLarge(text, suspects=suspects)
        before = sum(c.nbytes for c in buffers.chunks[: buffers.used]) - buffers.taken_since(buffers["base"])
        alone = len(m.roots) == 1
        if buffers["pc"] == state.SCHEDULER or (not alone and (self.host.waiting or before > self.limit // 4)):
            raise TooLarge(text, most=max(1, buffers["next"] - 1) / 2)
        self._abandon(m, MEMORY)

    def _runaways(self, buffers: Buffers) -> list[int]:
        """Return the instances that took many times the median steps of all that took fewer; the worst first."""
        if not self.host.waiting:
            return []
        left = buffers.lives[: buffers["next"]].copy()
        if buffers["inst"] >= 0:
            left[buffers["inst"]] = buffers["fuel"] + buffers["left"]
        taken = np.where(left < 0, 0, self.options.max_steps - left)
        order = np.argsort(-taken, kind="stable")
        found = 0
        while found < len(order):
            others = taken[order[found + 1 :]]
            if len(others) and taken[order[found]] <= _MANY * max(1, int(np.median(others))):
                break
            found += 1
        return [int(k) for k in order[:found]]

    def fail_nodes(self, m: MiniBatch) -> None:
        """Record the failures of nodes of a round or part; their instances stop."""
        for instance, failure in self.recorded.failed(m.buffers):
            if not self.host.waiting:
                m.failures.setdefault(instance, failure)
            elif m.buffers.lives[instance] >= 0:
                m.failures.setdefault(instance, failure)
                m.buffers.lives[instance] = state.DEAD
        m.buffers["failures"] = 0

    def _too_large(self, buffers: Buffers) -> NoReturn:
        """Raise `TooLarge`, with the instances that no memory suffices for."""
        text = "the mini-batch needs {0:,} bytes {1}, more than `memory_limit`"
        if buffers["rounds"] and buffers["instances"] > 1 and (suspects := self._runaways(buffers)):
            raise TooLarge(text.format(buffers.peak, "at once"), suspects=suspects)
        n, batches, most = buffers["n"], buffers["batches"], buffers.most
        table = buffers.table.rows
        place, sizes = buffers.columns["offset"][: 2 * batches * most].reshape(batches, most, 2).transpose(2, 0, 1)
        order, start = buffers.column("order", n), buffers.columns["bstart"][: batches + 1]
        kinds = buffers.column("kind", n)[order[start[:-1]]]
        last = np.full((batches, most), batches)
        if buffers["planned"]:
            last[place >= 0] = buffers.tables["last"][: batches * most].reshape(batches, most)[place >= 0]
        batch = np.repeat(np.arange(batches), native(np.diff(start)))
        there = np.arange(most) < table[kinds, TABLE["results"]][batch, None]
        rows = self.recorded.rows(buffers)[order, None]
        need = sizes.astype(np.float64)[batch] * rows
        for i in np.flatnonzero(table[kinds, TABLE["dims"]][batch]).tolist():
            need[i, there[i]] = self.recorded.node_bytes(buffers, order[i]) * rows[i]
        need = need[there]
        of, since, until = (
            np.broadcast_to(x, there.shape)[there]
            for x in (buffers.column("instance", n)[order, None], batch[:, None], last[batch] + 1)
        )
        # What an instance needs grows by a result when its batch runs, and then shrinks when the last reader has run.
        of, when, change = np.tile(of, 2), np.concatenate([since, until]), np.concatenate([need, -need])
        turns = np.lexsort((change, when, of))
        peaks = np.zeros(int(of.max(initial=-1)) + 1)
        np.maximum.at(peaks, of[turns], np.cumsum(change[turns]))
        if found := np.flatnonzero(peaks > self.limit).tolist():
            raise TooLarge(text.format(int(peaks.max()), "for an instance"), surely=found)
        seen = buffers["arena_used"] + buffers["work_used"] if buffers["planned"] else int(need.sum())
        seen += buffers["kept"]  # of earlier rounds or parts
        what = "for results" if seen > self.limit else "at once"
        seen = seen if seen > self.limit else buffers.peak
        self._reject(buffers, text.format(seen, what), max(seen, buffers.peak))

    def _fewer_threads(self, buffers: Buffers, need: int, room: int) -> int:
        """Reduce the number of threads until their scratch fits in `room` bytes; return how many bytes they need."""
        stride, threads = buffers["stride"], buffers["threads"]
        rows = need - stride * buffers["areas"]
        if self._least_scratch(buffers, need) > room:
            self._too_much_scratch(buffers, need, room)
        while rows + stride * state.areas(threads) > room:
            threads -= 1
        buffers["threads"], buffers["areas"] = threads, state.areas(threads)
        buffers["scratch_wanted"] = rows + stride * buffers["areas"]
        return buffers["scratch_wanted"]

    @staticmethod
    def _least_scratch(buffers: Buffers, need: int) -> int:
        """Return the bytes of scratch that one thread needs, where all together need so many."""
        return need - buffers["stride"] * (buffers["areas"] - 1)

    def _too_much_scratch(self, buffers: Buffers, need: int, room: int) -> NoReturn:
        """Raise `TooLarge` for the instances whose scratch, or whose words of rows, exceed the limit."""
        n = buffers["n"]
        table = buffers.table.rows[buffers.column("kind", n)]
        words = table[:, TABLE["args"]] + table[:, TABLE["tensors"]]  # see `rows.rows_width`
        more = table[:, TABLE["dims"]] + RECORD.count * table[:, TABLE["results"]]
        widths = 8.0 * (2 + words + np.where(table[:, TABLE["dims"]], more, 0))
        needs = self.recorded.rows(buffers) * widths * (table[:, TABLE["rows"]] != 0)
        for v in np.flatnonzero(table[:, TABLE["dims"]]).tolist():
            needs[v] += self.recorded.node_sizes(buffers, v)[0]
        text = f"the mini-batch needs {need:,} bytes of scratch, more than `memory_limit`"
        if (large := needs > self.limit).any():
            raise TooLarge(text, surely=np.unique(buffers.column("instance", n)[large]).tolist())
        self._reject(buffers, text, self.limit + need - room)
