"""Execution of mini-batches with a linked plan.

In: a linked plan (`pipeline.link`), and per mini-batch the packed words of the instances and the shared values. Out: a
`Run` with the words of the results, the failures by instance, the recorded graph and its schedule. One compiled call
does everything (`drive`); it returns early only if memory must grow, and is called again. An `Executable` is
thread-safe: each run takes buffers from a pool. Its `Executor` decides where kernels run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.config import Options, verify_level
from acronumba.data.hashing import hash_table
from acronumba.kernels.figures import reading
from acronumba.memory import Array, Words, address, aligned, available
from acronumba.runtime import state
from acronumba.runtime.buffers import ArenaPool, Buffers
from acronumba.runtime.doubles import compare_doubles
from acronumba.runtime.engines import threads_of_process
from acronumba.runtime.forms import forms
from acronumba.runtime.kernel_table import KernelTable, weights_bytes
from acronumba.runtime.levels import check_levels
from acronumba.runtime.memory_policy import Astray, MemoryPolicy, TooLarge
from acronumba.runtime.minibatch import MiniBatch, Nodes
from acronumba.runtime.program import Linked
from acronumba.runtime.recorded import Recorded
from acronumba.runtime.run import Run
from acronumba.runtime.shared import Prepared, SharedValue, SharedValues
from acronumba.runtime.state import AT, MEMORY, TABLE
from acronumba.runtime.threads import available_threads
from acronumba.runtime.trace import STAGES, TraceData

_WAKE = 5e-5  # seconds of work that are worth waking a thread for
_POLICIES = {"depth": state.BY_DEPTH, "agenda": state.BY_AGENDA, "lookahead": state.BY_LOOKAHEAD}
_PLENTY = 256  # bytes: where nodes have smaller results, finding out which may share a place costs above 1% of the time
_NOTED_FROM = 4096  # nodes: the rows of fewer are in the cache when their readers are looked for
_AIM = 32 << 20  # bytes that the nodes of a part take: more drive each other out of the caches
_LEAST = 128  # instances of a part: fewer share the reading of weights and the start of a batch less well
_PIECE = 4 << 20  # bytes of an arena of an epoch, at least
_PIECES = 16  # of them that are kept for the next epoch
_HEAVY = 1 << 30  # bytes: more than a node of a kernel with run-time extents is thought to take before they are known
_LARGEST = 1 << 36  # bytes of a tensor that is read but never stored which are always allowed
_COLUMNS = {"kernel": "kind", "depth": "depth", "instance": "instance", "signature": "key"}  # of a user's schedule
_FORMER = {"kind": "kernel", "key": "signature", "first": "operand_start"}  # former names, for one release
_SCHEDULE, _EXECUTE = STAGES.index("schedule"), STAGES.index("execute")


CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.perf_counter)  # that batches are timed by


class Executor(Protocol):
    """Runs the stages of a mini-batch: decides where kernels run, and which stages one compiled call includes."""

    @property
    def allocate(self) -> Callable[[int], NDArray[np.uint8]]:
        """Allocator of memory for results: from a size in bytes to memory aligned to 64 bytes."""

    def attach(self, executable: Executable) -> None:
        """Attach to an executable; called once, when the executable is made."""

    def begin(self, m: MiniBatch, fresh: bool) -> None:
        """Begin a mini-batch; `fresh`: its buffers have not seen its shared values before."""

    def whole(self, m: MiniBatch) -> bool:
        """Run all stages in one call if possible; return whether that was done."""

    def stops(self, m: MiniBatch) -> Sequence[int]:
        """Return the last stage of each call, in order."""

    def advance(self, m: MiniBatch, stop: int) -> float:
        """Run up to the end of a stage; return the seconds that it took."""

    def finish(self, m: MiniBatch, run: Run) -> None:
        """Set the addresses of the results in the run."""


class Processor:
    """Executor on the CPU: kernels run within the same compiled call."""

    allocate = staticmethod(aligned)

    def attach(self, executable: Executable) -> None:
        self.engine, self.memory_policy = executable.engine, executable.memory_policy

    def begin(self, m: MiniBatch, fresh: bool) -> None:
        words = m.buffers.view
        words[AT["single"]] = int(m.timed or m.epoch or m.watched)  # whether a call does not run more than a round
        words[AT["run_slice"]] = -1 if m.timed else state.RUN_SLICE

    def whole(self, m: MiniBatch) -> bool:
        return False

    def stops(self, m: MiniBatch) -> Sequence[int]:
        if m.timed:
            return range(1, m.last + 1)
        return (1, m.last) if m.watched else (m.last,)

    def advance(self, m: MiniBatch, stop: int) -> float:
        if m.timed and stop == _EXECUTE:
            return self._batches(m)
        start = time.perf_counter()
        while (status := self.engine.drive(m.buffers.address)) != state.DONE:
            self.memory_policy.grow(m, status)
            if m.failures:
                m.buffers["until"] = 0
        return time.perf_counter() - start

    def _batches(self, m: MiniBatch) -> float:
        """Execute the scheduled batches one by one; return the seconds of all."""
        taken, clock = list[float](), CLOCK.get()
        while True:
            start = clock()
            status = self.engine.drive(m.buffers.address)
            if len(taken) < m.buffers["batches"]:
                taken.append(clock() - start)
            if status == state.DONE:
                m.taken += taken
                return sum(taken)
            self.memory_policy.grow(m, status)

    def finish(self, m: MiniBatch, run: Run) -> None:
        pass


class Executable:
    """A plan that can be run.

    Parameters
    ----------
    plan
        The plan to run.
    options
        `schedule`, `effort`, `phases`, `max_steps`, `memory_limit`.
    linked
        Its host program and kernels.
    executor
        Runs the kernels; default: the CPU.

    Attributes
    ----------
    keeps_nodes : bool
        Whether runs of a program that waits note the nodes of each round, for `runtime.joint`.
    """

    keeps_nodes = False

    def __init__(self, plan: Plan, options: Options, linked: Linked, executor: Executor | None = None) -> None:
        self.plan = plan
        self.options = options
        self.linked = linked
        self.host, self.engine, self.kernels = linked.host, linked.engine, linked.kernels
        self.executor = executor or Processor()
        shapes: Words = np.array([*self.host.shapes, 0], np.int64)
        self._hashing = hash_table(self.host.hashed)
        self.forms = forms(plan.program.functions[0].results, plan.program.layouts)
        for array in (shapes, self._hashing, *self.forms):
            self.engine.reach(array)
        self.arenas, self.works = ArenaPool(1 << 16, self.executor.allocate), ArenaPool(0)
        self._leads = _leads(self.host.leads)
        self.engine.reach(self._leads)
        self.recorded = Recorded(plan, self.host, self.engine, shapes)
        self.pieces = ArenaPool(_PIECE, self.executor.allocate, idle=_PIECES)
        self.memory_policy = MemoryPolicy(options, self.recorded, self.arenas, self.pieces, self.works)
        self.shared = SharedValues(plan, self.kernels, self.engine)
        self.threads = 1 if linked.interpreted else options.threads or available_threads()
        self._recent = 1.0  # seconds that the kernels of the last run would have taken one thread, about
        self._buffers: deque[Buffers] = deque(maxlen=8)
        given = options.schedule
        self._policy = _POLICIES[given] if isinstance(given, str) else state.BY_DEPTH
        self._parts = options.parts and not self.host.waiting  # whether a mini-batch may run in parts
        self.executor.attach(self)

    # ------------------------------------------------------------------------------------------------------ buffers

    def take_buffers(self) -> Buffers:
        """Return buffers that no run uses."""
        try:
            return self._buffers.pop()
        except IndexError:
            pass
        specs, reach = self.plan.kernels, self.engine.reach
        kernels = KernelTable(specs, self.kernels, self.options.decisions, reach)
        kernels.describe_recording(self.host.equal)
        buffers = Buffers(
            functions=self.host.functions,
            table=kernels,
            most=max((len(s.results) for s in specs), default=0),
            keyed=not self.options.ragged and any(s.dims for s in specs),
            equal=(("sharer", "double") if self.host.doubles else ("sharer",)) if self.host.equal else (),
            reach=reach,
        )
        weights = kernels.rows[: kernels.count, TABLE["bytes"]]
        buffers["node_most"] = int(weights.max(initial=1)) if weights.all() else _HEAVY
        buffers["machine"] = self.engine.address["machine"]
        buffers["find_equal"] = self.engine.address["find_equal"]
        buffers["cuts"] = buffers.words("cuts", 1 + state.PARTS * self.threads)
        buffers["firsts"] = buffers.words("firsts", 1 + self.threads)
        buffers["policy"] = self._policy
        buffers["phased"] = int(self.options.phases)
        buffers["effort"] = -1 if self.options.effort is None else self.options.effort
        buffers["unit"] = self.options.decisions.unit
        buffers["weights"] = bytes_read = weights_bytes(specs, self.options.precision)
        each = reading(bytes_read, self.options.decisions) // max(len(specs), 1)
        buffers["launch"] = self.options.decisions.launch + each
        buffers["leads"] = address(self._leads)
        buffers["steps"] = min(self.options.max_steps, state.SLICE)
        buffers["rest"] = max(0, self.options.max_steps - state.SLICE)
        buffers["largest"] = max(self.options.memory_limit or available(), _LARGEST)
        buffers["ceiling"] = self.memory_policy.limit // 2
        buffers["shapes"] = address(self.recorded.shapes)
        buffers["root_pc"] = state.SCHEDULER
        buffers["waits"] = int(self.host.waiting)
        buffers["forms"] = address(self.forms[0])
        buffers["sorter"] = self.engine.sorter
        buffers["hashing"] = address(self._hashing)
        return buffers

    def give_buffers(self, buffers: Buffers) -> None:
        """Return buffers to the pool, for the next run."""
        self._buffers.append(buffers)

    def _begin(self, m: MiniBatch) -> None:
        buffers, prepared, batch = m.buffers, m.prepared, len(m.roots)
        words, at, width = buffers.view, AT, self.recorded.result_words
        parts = self._parts and m.last == _EXECUTE
        if fresh := buffers.prepared is not prepared:
            for k, entries in enumerate(prepared.entries):
                buffers.table.set_shared(k, entries)
            buffers.prepared = prepared
        buffers.begin()
        words[at["nroom"]] = words[at["ncap"]]
        words[at["stop"]] = state.EXECUTED
        words[at["fuel"]] = words[at["granted"]] = words[at["steps"]]
        words[at["instances"]] = batch
        words[at["part_end"]] = min(batch, 1) if parts else batch
        words[at["aim"]], words[at["least"]] = min(_AIM, words[at["ceiling"]]), _LEAST
        words[at["roots"]] = address(m.roots)
        words[at["results"]] = buffers.words("results", batch * width)
        buffers.results[: batch * width] = 0  # instances that fail leave it so
        words[at["etop"]] = buffers.words("errors", batch * (3 + self.host.values))
        words[at["shared"]] = prepared.address
        words[at["arena"]], words[at["arena_size"]] = m.arenas[0].address, m.arenas[0].size
        words[at["plenty"]] = _PLENTY if self.options.recycle and not m.doubles else state.NEVER
        words[at["noted_from"]] = _NOTED_FROM
        words[at["spoil"]] = int(verify_level() > 1)
        if self.host.waiting:
            buffers["inst"] = -1
            buffers.begin_fibers(batch)
            buffers["root_pc"] = self.host.ended if m.epoch else state.SCHEDULER
        if m.epoch:
            buffers.begin_epoch(batch)
        if m.noting:
            buffers.begin_notes()
        elif m.recorded_reads is not None:
            buffers.begin_recorded_reads(m.recorded_reads, batch, self.host.reads)
        self.executor.begin(m, fresh)

    # ---------------------------------------------------------------------------------------------------------- run

    def run(
        self,
        roots: Words,
        shared: Sequence[SharedValue] = (),
        *,
        skip: Collection[int] = (),
        keep: Sequence[Array] = (),
        stable: bool = False,
        timed: bool = False,
        last: int = _EXECUTE,
        recorded_reads: Words | None = None,
        tight: bool = False,
    ) -> Run:
        """Run a mini-batch.

        Parameters
        ----------
        roots
            int64[batch, words]: the words of the positional parameters of each instance.
        shared
            One value per entry of `Program.shared`, see `SharedValues`.
        skip
            Instances that are not run (their words are never read).
        keep
            The arrays that `roots` point into.
        stable
            The shared arrays do not change any more.
        timed
            Measure the stages one by one.
        last
            Number in `STAGES` of the last stage. Before "execute" results have no values, unless the program waits.
        recorded_reads
            Values that another run has recorded; the program's reads of tensors return them.
        tight
            A larger mini-batch has run out of memory: buffers begin small, and grow in small steps.

        Raises
        ------
        TooLarge
            If more memory is needed than allowed. An instance that has used up most of it fails alone, and the others
            run, unless they do not fit either.
        ScheduleError
            If a user's schedule is none.
        """
        roots = np.ascontiguousarray(roots, np.int64)
        instances, start = _others(len(roots), skip) if skip else None, time.perf_counter()
        roots = roots if instances is None else roots[instances]
        prepared = self.shared.prepare(shared, stable)
        m = self._mini_batch(roots, prepared, keep, stable, timed, last, recorded_reads, tight=tight)
        try:
            self._with_threads(m, self._stages)
            if self.options.memory_limit is not None:
                self.memory_policy.check_whole(m.buffers)
        except TooLarge as error:
            if recorded_reads is not None:
                raise Astray from None
            error.alone = [k for k, failure in m.failures.items() if failure.site == MEMORY]
            raise error.numbered(instances) from None
        m.seconds["total"] = time.perf_counter() - start - m.noted
        return self._done(m, instances)

    def _done(self, m: MiniBatch, instances: Words | None) -> Run:
        """Return the run of a mini-batch that has been run; `instances` are their numbers, if some were left out."""
        self._remember(m)
        run = Run(self.recorded, self.give_buffers, m, instances)
        if m.buffers.view[AT["spoil"]]:
            run.report_missed()
        self.executor.finish(m, run)
        return run

    def record(
        self,
        roots: Words,
        shared: Sequence[SharedValue] = (),
        *,
        skip: Collection[int] = (),
        keep: Sequence[Array] = (),
        recorded_reads: Words | None = None,
    ) -> TraceData:
        """Record and schedule a mini-batch; execute only batches whose values the host program reads. See `run`.

        Raises
        ------
        Astray
            If the run comes to other reads than the run that noted `recorded_reads`.
        TooLarge
            If more memory is needed than allowed, even without the instances that need far more than others.
        """
        left_out = {*skip}
        while True:
            try:
                run = self.run(
                    roots, shared, skip=left_out, keep=keep, timed=True, last=_SCHEDULE, recorded_reads=recorded_reads
                )
                break
            except TooLarge as error:
                if not (found := [*error.surely, *error.alone, *error.suspects]):
                    raise
                left_out |= {*found}
        if recorded_reads is not None and not run.buffers.all_reads_recorded:
            raise Astray
        trace = run.trace()
        run.close()
        return trace

    def _mini_batch(
        self, roots: Words, prepared: Prepared, keep: Sequence[Array], stable: bool, timed: bool, last: int,
        recorded_reads: Words | None, epoch: bool = False, tight: bool = False,
    ) -> MiniBatch:  # fmt: skip
        """Return a mini-batch that is ready to run."""
        if reaches := self.engine.reaches:
            for array in (roots, *keep):
                self.engine.reach(array)
        buffers = self.take_buffers()
        if tight or buffers.tight or self.options.memory_limit is not None:
            self.memory_policy.prepare(buffers, tight, len(roots))
        pool = self.pieces if epoch else self.arenas
        arena = pool.take(0 if tight else pool.wanted)
        if reaches:
            self.engine.reach(arena.block)
        m = MiniBatch(
            buffers=buffers, prepared=prepared, roots=roots, keep=keep, arenas=[arena],
            works=[self.works.take(self.works.wanted)] if self.works.wanted and not tight else [],
            stable=stable, timed=timed, last=_EXECUTE if self.host.waiting else last,
            by_caller=callable(self.options.schedule),
            noting=self.host.waiting and last == _SCHEDULE and recorded_reads is None, recorded_reads=recorded_reads,
            keeps_nodes=self.keeps_nodes and self.host.waiting, doubles=self.host.doubles, epoch=epoch,
        )  # fmt: skip
        self._begin(m)
        if m.works:
            self.memory_policy.work_in(m)
        buffers.fetch_ahead(keep)
        return m

    def epoch(self, shared: Sequence[SharedValue], slots: int, keep: Sequence[Array] = ()) -> MiniBatch:
        """Return a mini-batch without instances, which up to `slots` instances can join; see `runtime.epoch`.

        Parameters
        ----------
        shared
            As of `run`: arrays that do not change any more.
        slots
            How many instances can join it.
        keep
            The arrays that shared values point into.
        """
        roots: Words = np.zeros((slots, len(self.plan.program.functions[0].params)), np.int64)
        prepared = self.shared.prepare(shared, stable=True)
        return self._mini_batch(roots, prepared, keep, True, False, _EXECUTE, None, epoch=True)

    def round(self, m: MiniBatch, until: int = 0) -> None:
        """Run a round of an epoch, or several, see `state.STATE`."""
        buffers, before = m.buffers, m.buffers["rounds"]
        buffers["taken"], buffers["etop_known"] = 0, buffers["etop"]
        buffers["until"] = 0 if m.watched else until
        self._with_threads(m, lambda m: self._round(m, self.executor.stops(m)))
        self._recent = 1e-9 * buffers["taken"] / max(1, buffers["rounds"] - before)

    def _with_threads(self, m: MiniBatch, work: Callable[[MiniBatch], None]) -> None:
        """Run stages, with as many threads as the last run's kernels could have used."""
        alone = m.buffers.tight and len(m.roots) == 1  # whether it fits must not depend on how long runs have taken
        threads = 1 if alone or self.threads == 1 else max(1, min(self.threads, int(self._recent / _WAKE)))
        words = m.buffers.view
        words[AT["threads"]] = threads
        words[AT["areas"]] = state.areas(threads)
        if threads == 1:
            words[AT["pool"]] = 0
            work(m)
            return
        m.buffers["pool"] = threads_of_process().enter(threads)
        try:
            work(m)
        finally:
            threads_of_process().leave(threads)

    def _stages(self, m: MiniBatch) -> None:
        """Run the stages, in one call if no memory must grow; if timed, note the recorded graph of each round."""
        words = m.buffers.view
        words[AT["policy"]] = self._policy
        if self.executor.whole(m):
            return
        while True:
            try:
                self._round(m, self.executor.stops(m))
            except TooLarge as error:
                if error.surely:
                    error.surely = self._all_too_large(m, error.surely)
                raise
            if not words[AT["more"]] and words[AT["part_end"]] == words[AT["instances"]]:
                return

    def _all_too_large(self, m: MiniBatch, found: list[int]) -> list[int]:
        """Return the instances too large for any memory: `found`, of the current part, and those of later parts."""
        buffers, top = m.buffers, m.buffers["top"]
        while buffers["part_end"] < buffers["instances"]:
            for name in ("arena_used", "work_used", "result_bytes", "planned", "stubs"):
                buffers[name] = 0
            buffers.heads[:] = 0
            buffers.rewind(top)
            buffers["stage"] = state.EXECUTED  # as if it had run, and taken no memory
            try:
                self._round(m, (state.TO_SCHEDULE, state.TO_EXECUTE))
            except TooLarge as error:
                if not error.surely:
                    break
                found += error.surely
        return found

    def _round(self, m: MiniBatch, stops: Sequence[int]) -> None:
        """Run the stages of a round or part up to each stop in turn; of all rounds, if no stop lies between them."""
        buffers = m.buffers
        buffers.view[AT["policy"]] = self._policy
        for stop in stops:
            taken = 0.0
            if m.by_caller and buffers["stage"] == state.TO_SCHEDULE:
                start = time.perf_counter()
                self._levels(buffers)
                buffers["policy"] = state.BY_CALLER
                taken = time.perf_counter() - start
            buffers.view[AT["stop"]] = stop
            taken += self.executor.advance(m, stop)
            if m.timed:
                m.seconds[STAGES[stop]] = m.seconds.get(STAGES[stop], 0.0) + taken
                if stop == _SCHEDULE and (buffers["n"] or not m.rounds):
                    start = time.perf_counter()
                    m.rounds.append(self.recorded.round(buffers, m.rounds))
                    m.noted += time.perf_counter() - start
        if m.doubles and buffers["stage"] == state.EXECUTED:
            compare_doubles(buffers, self.plan.kernels)
        if m.keeps_nodes:
            n = buffers["n"]
            kind, instance, row = (buffers.column(name, n).copy() for name in ("kind", "instance", "row"))
            m.nodes.append(Nodes(kind=kind, instance=instance, row=row))

    def _levels(self, buffers: Buffers) -> None:
        """Ask the user's schedule."""
        self.engine.call("number_keys", buffers.address)
        first, source = self.recorded.edges(buffers)
        n = buffers["n"]
        columns = {name: buffers.column(of, n).copy() for name, of in _COLUMNS.items()}
        columns |= {"operand_start": first, "operand": source}
        for column in columns.values():
            column.flags.writeable = False
        columns |= {old: columns[name] for old, name in _FORMER.items()}
        assert callable(self.options.schedule)
        levels = np.asarray(self.options.schedule(columns))
        check_levels(levels, columns["signature"], first, source)
        buffers.column("level", n)[:] = levels
        buffers["levels"] = int(levels.max()) + 1 if n else 0

    def _remember(self, m: MiniBatch) -> None:
        """Update the estimates of the next run's time and memory."""
        buffers, words = m.buffers, m.buffers.view
        if words[AT["stage"]] == _EXECUTE:
            self._recent = 1e-9 * words[AT["taken"]]
        used = words[AT["kept"]] + words[AT["arena_used"]]
        buffers.note_run()
        self.arenas.note(used)
        if m.works and not buffers.tight:
            self.works.wanted = max(
                buffers["work_used"], buffers["work_most"], self.works.wanted - self.works.wanted // 8 - 1
            )


def _others(count: int, out: Collection[int]) -> Words:
    """Return the numbers of the instances that run."""
    return np.array([k for k in range(count) if k not in out], np.int64)


def _leads(leads: Mapping[int, tuple[int, ...]]) -> Words:
    """Return the table `leads` of `state.STATE`."""
    blocks = 1 + max(leads, default=-1)
    counts = [len(leads.get(k, ())) for k in range(blocks)]
    starts = np.cumsum([blocks + 1, *counts])
    return np.array([*starts, *(x for k in range(blocks) for x in leads.get(k, ()))], np.int64)
