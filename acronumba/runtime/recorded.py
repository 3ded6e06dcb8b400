"""The recorded graph and the schedule of a run, read from its buffers.

In: the buffers that compiled code has filled. Out: dependences, failures of nodes, the rounds of a trace.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.errors import Loc
from acronumba.ir.types import BoolT, FloatT, Word
from acronumba.memory import Words, address, native, word_at
from acronumba.records import record
from acronumba.runtime import state
from acronumba.runtime.buffers import Buffers
from acronumba.runtime.engines import Interpreted, Native
from acronumba.runtime.levels import COLUMNS
from acronumba.runtime.library.records import high_half, low_half, result_of, results_at
from acronumba.runtime.program import Host
from acronumba.runtime.state import AT, TABLE
from acronumba.runtime.trace import BatchRecord, Extents, Wait

_CHAIN = 64  # calls that a failure's chain holds at most


@record(kw_only=True)
class Failure:
    """The reason why an instance has no result."""

    site: int  # number in `Program.sites`; `state.STEPS`, `state.MEMORY`
    values: tuple[int | float | bool, ...] = ()  # for the message of the site
    calls: tuple[Loc, ...] = ()  # where the function was called, and its caller, ...: the innermost first


@record(kw_only=True, eq=False)
class Round:
    """Graph and schedule of one round: recorded until all instances wait. n nodes, m edges."""

    kernel: NDArray[np.int32]  # int32[n]: kernels
    depth: NDArray[np.int32]  # int32[n]: depth in its phase
    phase: NDArray[np.int32]  # int32[n]
    instance: NDArray[np.int32]  # int32[n]: instances as the machine numbers them
    sharers: NDArray[np.int32]  # int32[s, 2]: node and instance that takes it, recorded by another or earlier
    batch: NDArray[np.int32]  # int32[n]
    order: NDArray[np.int32]  # int32[n]: nodes in order of execution
    edges: NDArray[np.int32]  # int32[m, 2]: producer and consumer, numbered over all rounds
    batches: tuple[BatchRecord, ...]
    bound: int  # of batches
    waits: tuple[Wait, ...]  # for values of this round
    results: dict[int, int]  # value record -> node, of this round and those before; nodes numbered over all rounds


class Recorded:
    """Reads buffers of one plan.

    Parameters
    ----------
    plan
        What was recorded.
    host
        The host program that records it.
    engine
        What runs the functions of the library.
    shapes : int64[...]
        The constant shapes.
    """

    def __init__(self, plan: Plan, host: Host, engine: Native | Interpreted, shapes: Words) -> None:
        self.plan = plan
        self.host = host
        self.engine = engine
        self.shapes = shapes
        self.memory = {address(shapes): shapes}
        self.result_words = len(plan.program.functions[0].results)

    def edges(self, buffers: Buffers) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return first[n + 1] and operand[m]: node v reads the nodes operand[first[v]:first[v + 1]]."""
        self._complete(buffers, "edges")
        n = buffers["n"]
        return buffers.tables["efirst"][: n + 1].copy(), buffers.tables["efrom"][: buffers["edges"]].copy()

    def lower_bound(self, buffers: Buffers) -> int:
        """Return a lower bound of the number of batches of any schedule; the schedule itself stays."""
        if buffers["policy"] != state.BY_LOOKAHEAD or buffers["bound"] < 0:
            kept = {name: buffers.columns[name].copy() for name in COLUMNS}
            words = {name: buffers[name] for name in ("batches", "levels")}
            self._complete(buffers, "bound")
            for name, column in kept.items():
                buffers.columns[name][:] = column
            for name, word in words.items():
                buffers[name] = word
        return buffers["bound"]

    def _complete(self, buffers: Buffers, name: str) -> None:
        """Call a function of the library, growing memory, until it is done."""
        while (status := self.engine.call(name, buffers.address)) != state.DONE:
            assert status is not None
            buffers.grow_tables(status)

    def failed(self, buffers: Buffers) -> list[tuple[int, Failure]]:
        """Return the instances and failures of nodes, in program order."""
        fallible = buffers.table.rows[:, TABLE["fallible"]]
        order = buffers.column("order", buffers["n"])
        at = np.flatnonzero(fallible[buffers.columns["kind"][order]])
        fail = buffers.columns["fail"]
        at = at[fail[at] != 0]
        at = at[np.argsort(order[at], kind="stable")]
        return [(int(buffers.columns["instance"][order[i]]), Failure(site=int(fail[i]) - 1)) for i in at]

    def failed_on_host(self, buffers: Buffers, start: int) -> list[tuple[int, Failure]]:
        """Return the instances and failures that the machine has noted, but for the first `start`."""
        stride = 3 + self.host.values
        count = (buffers["etop"] - buffers.where["errors"]) // (8 * stride)
        out: list[tuple[int, Failure]] = []
        if count == start:
            return out
        for row in buffers.errors[start * stride : count * stride].reshape(count - start, stride):
            instance, site, frame = (int(x) for x in row[:3])
            values = tuple(_value(row[3 + k], t) for k, t in enumerate(self.host.types[site]))
            out.append((instance, Failure(site=site, values=values, calls=self.calls(buffers, frame))))
        return out

    def rows(self, buffers: Buffers) -> NDArray[np.int64]:
        """Return the number of rows of each node: 1 unless its kernel has `rows`."""
        n = buffers["n"]
        kinds, at = buffers.column("kind", n), buffers.column("row", n)
        out = np.ones(n, np.int64)
        table = buffers.table.rows
        for v in np.flatnonzero(table[kinds, TABLE["rows"]]) if n else ():
            args, dims = table[kinds[v], [TABLE["args"], TABLE["dims"]]]
            shape = word_at(int(at[v] + 8 * (args + dims + 2)))
            out[v] = word_at(shape)
        return out

    def round(self, buffers: Buffers, before: Sequence[Round]) -> Round:
        """Return the graph and schedule since the last round. Tables for this do not count as memory of the run."""
        with buffers.tables_apart():
            return self._round(buffers, before)

    def _round(self, buffers: Buffers, before: Sequence[Round]) -> Round:
        n, batches = buffers["n"], buffers["batches"]
        start = sum(len(r.kernel) for r in before)
        kinds = buffers.column("kind", n).copy()
        results = before[-1].results if before else {}
        edges = self._edges_of_all(buffers, start, results)
        order = buffers.column("order", n).copy()
        starts = buffers.columns["bstart"][: batches + 1].copy()
        batch = np.empty(n, np.int32)
        batch[order] = np.repeat(np.arange(batches, dtype=np.int32), native(np.diff(starts)))
        phase, depth = self._phases(buffers)
        heads = order[starts[:-1]] if n else order[:0]
        rows = np.add.reduceat(self.rows(buffers)[order], starts[:-1]) if n else order
        names = tuple(s.name for s in self.plan.kernels)
        several_rows = [s.rows is not None for s in self.plan.kernels]
        waiting = buffers.queues["waiting"][: 2 * buffers["wtop"]].reshape(-1, 2) if buffers["more"] else ()
        return Round(
            kernel=kinds,
            depth=depth,
            phase=phase,
            instance=buffers.column("instance", n).copy(),
            sharers=_sharers(buffers),
            batch=batch,
            order=order,
            edges=edges,
            batches=tuple(
                BatchRecord(
                    phase=int(phase[v]),
                    depth=int(depth[v]),
                    kernel=names[kinds[v]],
                    size=int(size),
                    round=len(before) if self.host.waiting else 0,
                    rows=int(r) * several_rows[kinds[v]],
                    extents=self._extents(buffers, order[low:high]),
                )
                for v, size, r, (low, high) in zip(heads, np.diff(starts), rows, pairwise(starts), strict=True)
            ),
            bound=self.lower_bound(buffers),
            waits=tuple(
                Wait(round=len(before), instance=int(k), loc=self.host.waits[word_at(int(frame) + 8)])
                for frame, k in waiting
            ),
            results=results,
        )

    def _edges_of_all(self, buffers: Buffers, start: int, results: dict[int, int]) -> NDArray[np.int32]:
        """Return the edges to this round's nodes, numbered from `start`, those from nodes of earlier rounds included.

        `results` maps value records to nodes of earlier rounds; this round's are added.
        """
        n = buffers["n"]
        first, source = self.edges(buffers)
        to = np.repeat(np.arange(n, dtype=np.int32), native(np.diff(first)))
        edges: NDArray[np.int32] = np.stack([source, to], axis=1) + start
        if self.host.waiting:
            table = buffers.table.rows[buffers.column("kind", n)]
            args, dims, several = (table[:, TABLE[name]] for name in ("args", "dims", "results"))
            row, own = buffers.column("row", n), results_at(args, dims)
            if start:
                older = [(results[a], start + v) for v in range(n) for a in self._operands(buffers, v) if a in results]
                edges = np.concatenate([np.array(older, np.int32).reshape(-1, 2), edges])
            results.update({int(result_of(row[v], own[v], j)): start + v for v in range(n) for j in range(several[v])})
        return edges

    def _phases(self, buffers: Buffers) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the phase of each node, and its depth in the phase."""
        n, policy = buffers["n"], buffers["policy"]
        if policy != state.BY_LOOKAHEAD and not (policy == state.BY_DEPTH and buffers["phased"]):
            return np.zeros(n, np.int32), buffers.column("depth", n).copy()
        groups, first_level = buffers["groups"], buffers.fixed["lfirst"]
        component = buffers.fixed["component_first"][buffers["graph"] * groups :]
        phase = component[buffers.column("key" if buffers["groups"] == buffers["keys"] else "kind", n)]
        depth = buffers.column("level", n) - first_level[phase]
        # Components are numbered over all keys; count only those that occur.
        return np.unique(phase, return_inverse=True)[1].astype(np.int32), depth

    def _operands(self, buffers: Buffers, node: int) -> list[int]:
        """Return the value records that a node reads, elements of lists included."""
        table = buffers.table.rows[buffers.columns["kind"][node]]
        tensors, lists = (int(table[TABLE[name]]) for name in ("tensors", "lists"))
        row = int(buffers.columns["row"][node])
        found = [word_at(row + 8 * k) for k in range(tensors)]
        for k in range(tensors, tensors + lists):
            it = word_at(row + 8 * k)
            found += [word_at(word_at(it) + 8 * i) for i in range(word_at(it + 8))]
        return found

    def _extents(self, buffers: Buffers, nodes: NDArray[np.int32]) -> Extents:
        """Return the distinct run-time extents of the nodes of a batch, each with its number of nodes."""
        table = buffers.table.rows
        if not table[buffers.columns["kind"][nodes[0]], TABLE["dims"]]:
            return (((), len(nodes)),)
        return tuple(Counter(self.extents(buffers, v) for v in nodes).items())

    def node_sizes(self, buffers: Buffers, node: int) -> NDArray[np.float64]:
        """Return the bytes that a node takes: of scratch, of each result, of its largest tensor."""
        table = buffers.table.rows
        row = table[buffers.columns["kind"][node]]
        self.engine.kernel(int(row[TABLE["plan"]]), self._extents_at(buffers, node), buffers["sizes"])
        return buffers.fixed["sizes"][: 2 + row[TABLE["results"]]].astype(np.float64)

    def node_bytes(self, buffers: Buffers, node: int) -> NDArray[np.float64]:
        """Return the bytes of each result of a node; those of its largest tensor if it exceeds any memory."""
        sizes = self.node_sizes(buffers, node)
        results, largest = sizes[1:-1], sizes[-1]
        return np.full_like(results, largest) if largest > buffers["largest"] else results

    def extents(self, buffers: Buffers, node: int) -> tuple[int, ...]:
        """Return the run-time extents of a node."""
        table = buffers.table.rows
        at = self._extents_at(buffers, node)
        return tuple(word_at(at + 8 * k) for k in range(table[buffers.columns["kind"][node], TABLE["dims"]]))

    def _extents_at(self, buffers: Buffers, node: int) -> int:
        """Return the address of the run-time extents of a node."""
        table = buffers.table.rows
        return int(buffers.columns["row"][node]) + 8 * int(table[buffers.columns["kind"][node], TABLE["args"]])

    def calls(self, buffers: Buffers, frame: int) -> tuple[Loc, ...]:
        """Return the call stack of a frame, the innermost call first."""
        out: list[Loc] = []
        root = buffers.address + 8 * AT["root"]
        while len(out) < _CHAIN:
            frame = word_at(frame)
            if frame == root:
                break
            block = word_at(frame + 8)
            if block == self.host.arrive:  # a stub: it says where it was spawned, and by whom
                block = word_at(frame + 16)
                frame = word_at(frame)
            out.append(self.host.calls[block])
        return tuple(out)


def _sharers(buffers: Buffers) -> NDArray[np.int32]:
    words = buffers.sharers[::-1]
    found: NDArray[np.int32] = np.stack([high_half(words), low_half(words)], axis=1).astype(np.int32)
    return found


def _value(word: np.int64, type: Word) -> int | float | bool:
    if isinstance(type, FloatT):
        return float(struct.unpack("d", struct.pack("q", int(word)))[0])
    return bool(word) if isinstance(type, BoolT) else int(word)
