"""A completed mini-batch: words of its results, failures by instance, and the recorded graph for a trace.

In: the buffers when a run has ended. Out: `Run`, which owns them until it is closed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from acronumba.data.buffers import Copying, Memory, OnDemand, Pending
from acronumba.ir.spec import KernelSpec
from acronumba.memory import Array, Words, address, numbers, word_at
from acronumba.runtime.buffers import Buffers
from acronumba.runtime.library.records import high_half, node_of
from acronumba.runtime.minibatch import MiniBatch, Nodes
from acronumba.runtime.recorded import Failure, Recorded
from acronumba.runtime.shared import Prepared
from acronumba.runtime.state import AT
from acronumba.runtime.trace import TraceData

if TYPE_CHECKING:
    from acronumba.data.heap import Heap

log = logging.getLogger("acronumba")


class Run:
    """A mini-batch that was run. Owns its buffers until it is collected or closed; arrays of its arena live on.

    Attributes
    ----------
    words : int64[batch, words of the result]
        Results of instances without an error. Their references point into `memory`.
    errors : dict of int to Failure
        By instance.
    seconds : mapping of str to float
        "total", and the stages where they were measured.
    taken : list of float
        Seconds of each batch, where they were measured.
    nodes_of_rounds : list of Nodes
        Nodes of each round, if `Executable.keeps_nodes`.
    noted : float
        Seconds besides, in which rounds were noted down for `trace`.
    """

    pending: Pending | None = None  # results that are not on the CPU yet
    heaps: Sequence[Heap] = ()  # of shared objects and lists

    def __init__(
        self, recorded: Recorded, give: Callable[[Buffers], object], m: MiniBatch, instances: Words | None
    ) -> None:
        self._recorded = recorded
        self._give = give
        self._prepared = m.prepared
        self._roots = m.roots
        self._keep = m.keep
        self._instances = instances
        self._arenas = tuple(m.arenas)
        self._of_arenas: dict[int, Array] = {}  # their memory, by address, when it is read
        self._rounds = m.rounds
        self._noting = m.noting
        self.nodes_of_rounds = m.nodes
        self.seconds: Mapping[str, float] = m.seconds
        self.taken: Sequence[float] = m.taken
        self.noted = m.noted
        width = recorded.result_words
        words = m.buffers.results[: len(m.roots) * width].reshape(len(m.roots), width)
        if instances is None:
            self.words: Words = words
        else:
            self.words = np.zeros((int(instances[-1]) + 1 if len(instances) else 0, width), np.int64)
            self.words[instances] = words
        self._buffers: Buffers | None = m.buffers  # from here on `close` gives them back
        self.errors = self._errors(m.failures)
        if self.errors:
            self.words[list(self.errors)] = 0  # failed instances have no result: their words are of an earlier run

    def close(self) -> None:
        """Release the buffers: `words` and their references become invalid; arrays of the arena stay valid."""
        buffers, self._buffers = self._buffers, None
        if buffers is not None:
            self.words = self.words[:0]
            buffers.trim()
            self._give(buffers)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_buffers", None) is not None and not ends():  # at its end Python takes modules apart
            self.close()

    @property
    def buffers(self) -> Buffers:
        if self._buffers is None:
            raise ValueError("the run is closed")
        return self._buffers

    @property
    def ran(self) -> Words:
        """The numbers of the instances that were run; others had been left out."""
        return numbers(len(self._roots)) if self._instances is None else self._instances

    @property
    def all_ran(self) -> bool:
        """Whether no instance was left out: they have the numbers of the call."""
        return self._instances is None

    @property
    def prepared(self) -> Prepared:
        """The shared values."""
        return self._prepared

    @property
    def memory(self) -> tuple[Array, ...]:
        """All arrays that references in the results may point into."""
        return (*self._by_address.values(), *self._keep)

    @property
    def _by_address(self) -> dict[int, Array]:
        """Map from addresses to the memory that references may point into, besides the packed instances."""
        return {**self._own, **self._recorded.memory, **self._prepared.memory}

    @property
    def _own(self) -> dict[int, Array]:
        """Map from addresses to the memory of this run."""
        buffers, used = self.buffers, self.buffers.used
        if not self._of_arenas:
            self._of_arenas = {arena.address: np.asarray(arena) for arena in self._arenas}
        return {**dict(zip(buffers.starts[:used], buffers.chunks, strict=False)), **self._of_arenas}

    def _rest(self) -> dict[int, Array]:
        """Map from addresses to all other memory."""
        kept = {address(a): a for a in self._keep if a.nbytes}
        return {**kept, **self._recorded.memory, **self._prepared.memory}

    def reader(self, stay: bool = False, copies: bool = False) -> Memory:
        """Return a reader of `memory`.

        With `stay`, tensors are left where they were computed; with `copies`, they are copied, so that they do not keep
        the run's memory alive.
        """
        if copies:
            if self.pending is not None:
                self.pending.all()
            if self._prepared.forms is not None:
                self._prepared.forms.home.refresh(self._prepared.arrays.values())
            memory = Copying()
            for base, array in {**{address(a): a for a in self._keep if a.nbytes}, **self._by_address}.items():
                memory.add(base, array)
            return memory
        if stay and self.pending is not None:
            return self.pending.memory(self.memory)
        return (Memory if self.pending is None else OnDemand)((), self.pending, self._own, self._rest)

    @property
    def nodes(self) -> int:
        """Number of nodes of the dataflow graph."""
        return self.buffers["nodes_before"] + self.buffers["n"]

    @property
    def batches(self) -> int:
        """Number of batches; of several rounds or parts, of the last."""
        return self.buffers["batches"]

    def stored(self) -> Iterator[tuple[int, KernelSpec, int]]:
        """Yield the instance, the kernel and the address of the row of each node, if the executable keeps nodes."""
        rounds, buffers = self.nodes_of_rounds, self.buffers
        if not self._recorded.host.waiting:
            kind, instance, row = (buffers.column(name, buffers["n"]) for name in ("kind", "instance", "row"))
            rounds = [Nodes(kind=kind, instance=instance, row=row)]
        for nodes in rounds:
            for k, instance, row in zip(nodes.kind.tolist(), nodes.instance.tolist(), nodes.row.tolist(), strict=True):
                yield self._instance(instance), self._recorded.plan.kernels[k], row

    def _read(self) -> Words | None:
        """Return the recorded reads, or None if the reads of an instance have no fixed order or an instance failed."""
        if not self._noting or self.errors or self._recorded.host.arrive >= 0:
            return None
        notes = self.buffers.notes.copy()
        notes[:, 0] = self.ran[notes[:, 0]]
        return notes

    def _instance(self, k: int) -> int:
        return k if self._instances is None else int(self._instances[k])

    def _errors(self, memory: Mapping[int, Failure]) -> dict[int, Failure]:
        e, buffers = self._recorded, self.buffers
        words = buffers.view
        if not memory and not words[AT["failures"]] and words[AT["etop"]] == buffers.where["errors"]:
            return {}
        out = {self._instance(k): failure for k, failure in memory.items()}
        for instance, failure in e.failed_on_host(buffers, 0):
            out[self._instance(instance)] = failure
        if buffers["failures"]:
            for instance, failure in e.failed(buffers):  # the first in program order is Python's
                out.setdefault(self._instance(instance), failure)
        return dict(sorted(out.items()))

    def report_missed(self) -> None:
        """Log the operands of kernels that were one array for all instances, though they are not shared."""
        e, buffers = self._recorded, self.buffers
        n = buffers["n"]
        kinds, instances, rows = (buffers.column(name, n) for name in ("kind", "instance", "row"))
        shared = set(high_half(buffers.sharers).tolist())  # nodes that are one by `equal`
        arrays = {address(a): e.plan.program.shared[k].path for k, a in self._prepared.arrays.items()}
        for k, spec in enumerate(e.plan.kernels):
            nodes = np.flatnonzero(kinds == k)
            if len(np.unique(instances[nodes])) < 2:
                continue
            for o in spec.operands:
                if o.kind == "tensor" and (spec.rows is None or spec.rows[o.index] != "item"):
                    records = [word_at(int(rows[v]) + 8 * o.index) for v in nodes]
                    found = {(word_at(r), node_of(word_at(r + 8))) for r in records}  # nodes may share a place
                    if len(found) == 1 and next(iter(found))[1] not in shared:
                        where = arrays.get(found.pop()[0], "one array of the instances")
                        log.warning("kernel %s: %s is %s for all instances", spec.name, o.name, where)

    def trace(self) -> TraceData:
        """Return the graph and its schedule; of all rounds or parts if the run was timed, else of the last."""
        e, buffers = self._recorded, self.buffers
        rounds, waiting = self._rounds or [e.round(buffers, [])], e.host.waiting
        starts = np.cumsum([0, *(len(r.kernel) for r in rounds)])
        firsts = np.cumsum([0, *(len(r.batches) for r in rounds)])
        phases = np.cumsum([0, *(int(r.phase.max(initial=-1)) + 1 for r in rounds)]).tolist()
        pairs = zip(rounds, phases, strict=False)
        batches = tuple(replace(b, phase=b.phase + at) for r, at in pairs for b in r.batches)
        if self.taken:
            batches = tuple(replace(b, seconds=taken) for b, taken in zip(batches, self.taken, strict=True))

        def column(name: str, offsets: Sequence[int] | None = None) -> NDArray[np.int32]:
            parts = [getattr(r, name) for r in rounds]
            if offsets is not None:
                parts = [part + offset for part, offset in zip(parts, offsets, strict=False)]
            return np.concatenate(parts).astype(np.int32)

        inst = column("instance")
        sharers = np.concatenate([r.sharers for r in rounds])
        sharers[:, 0] += np.repeat(starts[:-1], [len(r.sharers) for r in rounds]).astype(np.int32)
        waits = tuple(w for r in rounds for w in r.waits)
        if self._instances is not None:
            inst = self._instances[inst].astype(np.int32)
            sharers[:, 1] = self._instances[sharers[:, 1]]
            waits = tuple(replace(w, instance=self._instance(w.instance)) for w in waits)
        bound = sum(r.bound for r in rounds)
        return TraceData(
            nodes=int(starts[-1]), kernel=column("kernel"), depth=column("depth"), phase=column("phase", phases),
            instance=inst, sharers=sharers, batch=column("batch", firsts.tolist()),
            order=column("order", starts.tolist()), edges=column("edges"),
            kernels=tuple(s.name for s in e.plan.kernels), specs=e.plan.kernels, batches=batches,
            lower_bound=bound, optimal=len(batches) == bound,
            rounds=len(rounds) if waiting else 1, parts=1 if waiting else len(rounds), waits=waits,
            read=self._read(), seconds=self.seconds, peak_bytes=buffers.peak,
            unshared_bytes=buffers["result_bytes_before"] + buffers["result_bytes"] + buffers.bytes,
        )  # fmt: skip
