"""Running mini-batches: a plan made executable.

In: a `Plan`, its kernels, and per mini-batch the packed words of the instances and the shared values. Out: a `Run`
with the words of the results, the failures by instance, and what was recorded and scheduled. One compiled call does
everything (`drive`); it returns early only where memory must grow, and is called again. An `Executable` may be used
by many threads at once: each run has buffers of its own from a pool.
"""

from __future__ import annotations

import math
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.config import Options, verify_level
from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.errors import Loc
from acronumba.host.machine import make_host
from acronumba.ir.nodes import Once
from acronumba.ir.spec import FIXED, KernelSpec
from acronumba.ir.types import FloatT, TensorT
from acronumba.kernels.cost import cost
from acronumba.kernels.strategy import Fusion
from acronumba.memory import address, aligned, available, word_at
from acronumba.runtime import state
from acronumba.runtime.buffers import Arena, ArenaPool, Buffers, Words
from acronumba.runtime.engines import Interpreted, Native, library, runtime_module, threads_of_process, with_kernels
from acronumba.runtime.forms import forms
from acronumba.runtime.levels import COLUMNS, check_levels
from acronumba.runtime.prepared import Making, Prepared, same
from acronumba.runtime.program import Host, KernelEntry
from acronumba.runtime.run import Failure, Round, Run
from acronumba.runtime.state import AT, MEMORY, NEVER, NODE_BYTES, STEPS, TABLE
from acronumba.runtime.threads import available_threads
from acronumba.runtime.trace import STAGES, BatchRecord, TraceData, Wait

_CHAIN = 64  # calls that a failure's chain holds at most
_SETS = 2  # of shared values that are kept ready: who compares two models takes them in turn
_WAKE = 5e-5  # seconds of work that are worth waking a thread for
_LAUNCH = 400  # nanoseconds that the start of a batch takes
_STREAM = 100  # bytes of weights in a nanosecond: half a tile of rows is idle at the end of a batch, for all of them
_FRESH = np.array(  # words that are 0 when a run begins
    [
        AT[name]
        for name in (
            "stage pc n next batches used edges failures spent run_batches taken rounds more single kept rtop wtop "
            "stubs planned plain wsize wused wmost plains past part weighed weight"
        ).split()
    ]
)
_POLICIES = {"depth": state.BY_DEPTH, "agenda": state.BY_AGENDA, "lookahead": state.BY_LOOKAHEAD}
_MANY = 8  # an instance that takes so many times the steps of the others is not like them
_PLENTY = 256  # bytes: where nodes have smaller results, finding out which may share a place costs above 1% of the time
_AIM = 32 << 20  # bytes that the nodes of a part take: more drive each other out of the caches
_LEAST = 128  # instances of a part: fewer share the reading of weights and the start of a batch less well
_HEAVY = 1 << 30  # bytes: more than a node of a kernel with run-time extents is thought to take before they are known
_LARGEST = 1 << 36  # bytes of a tensor that is read but never stored which are always allowed


class _TooLarge(Exception):
    """Instances whose own tensors need more memory than allowed."""

    def __init__(self, instances: list[int]) -> None:
        self.instances = instances


class Executable:
    """A plan that can be run.

    Parameters
    ----------
    plan
        What to run.
    options
        `schedule`, `effort`, `phases`, `max_steps`, `memory_limit`; what kernels fuse (`Fusion.of`).
    kernels
        Ready kernels in the order of the plan; None: those of `kernels.cpu`, compiled for this machine.
    interpret
        Run machine, schedule and layout in plain Python. `kernels` is called with the engine and returns the kernels.
    progress
        Called with (name of a module, its number, how many there are) while compiling.
    """

    def __init__(
        self,
        plan: Plan,
        options: Options,
        *,
        kernels: Sequence[KernelEntry] | Callable[[Interpreted], Sequence[KernelEntry]] | None = None,
        interpret: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.plan = plan
        self.options = options
        self.host: Host = make_host(plan, options)
        self.modules: tuple[tree.Module | Deferred, ...] = (library(), self.host.module)
        if interpret:
            self.engine: Native | Interpreted = Interpreted((runtime_module(), self.host.module))
            assert callable(kernels)
            self.kernels = tuple(kernels(self.engine))
        elif kernels is None:
            self.engine, self.kernels = self._load(progress)
        else:
            assert not callable(kernels)
            self.engine = Native(self.modules, progress)
            self.kernels = tuple(kernels)
        self.result_words = len(plan.program.functions[0].results)
        self.shapes: Words = np.array([*self.host.shapes, 0], np.int64)
        self.engine.reach(self.shapes)
        self.forms = forms(plan.program.functions[0].results, plan.program.layouts)
        for form in self.forms:
            self.engine.reach(form)
        self.arenas = ArenaPool(1 << 16)
        self.works = ArenaPool(0)
        self.threads = 1 if interpret else self.options.threads or available_threads()
        self._recent = 1.0  # seconds that the kernels of the last run would have taken one thread, about
        self._buffers: deque[Buffers] = deque(maxlen=8)
        self.recent: list[Prepared] = []  # shared values that came last, the last one last
        given = options.schedule
        self._policy = _POLICIES[given] if isinstance(given, str) else state.BY_DEPTH
        self.parts = options.parts and not self.host.waiting  # whether a mini-batch may run in parts

    def _load(self, progress: Callable[[str, int, int], None] | None) -> tuple[Native, tuple[KernelEntry, ...]]:
        """Compile everything."""
        return with_kernels(self.modules, self.plan.kernels, Fusion.of(self.options), progress)

    # ------------------------------------------------------------------------------------------------- shared values

    def prepare(self, shared: Sequence[Any], stable: bool = False) -> Prepared:
        """Return the shared values in compiled form; what was made for the last call is used where it still holds.

        Parameters
        ----------
        shared
            One value per entry of `Program.shared`: array, number, or the word of a packed row or list. Those of
            `Program.once` are computed here, anew where anything that they are made of has changed.
        stable
            The arrays do not change any more; otherwise those that kernels want packed are compared with the packed.
        """
        given = tuple(shared)
        last = next((p for p in reversed(self.recent) if all(map(same, given, p.given))), None)
        if last is not None and (stable or last.holds()):
            if last is not self.recent[-1]:
                self.recent = [*(p for p in self.recent if p is not last), last]
            return last
        rest = [p for p in self.recent if p is not last]
        last = last or next(reversed(rest), None)
        program = self.plan.program
        params = program.shared[: len(program.shared) - len(program.once)]
        assert len(params) == len(given)
        making = Making(table=np.zeros(len(program.shared) + 1, np.int64), last=last)
        copies: dict[int, NDArray[Any]] = {}
        for k, (param, value) in enumerate(zip(params, given, strict=True)):
            match param.type:
                case TensorT(dtype=dtype, shape=shape):
                    array = np.asarray(value, dtype, order="C")
                    if array.shape != shape:
                        raise ValueError(f"{param.path} has shape {array.shape}, not {shape}")
                    if array is not value:
                        copies[k] = array
                    making.add(k, array)
                case FloatT():
                    making.table[k] = struct.unpack("q", struct.pack("d", value))[0]
                case _:
                    making.table[k] = int(value)
        for once in program.once:
            self._compute(once, making)
        entries = tuple(self._entries(k, making) for k in range(len(self.kernels)))
        for array in making.keep:
            self.engine.reach(array)
        operands = (o for once in program.once for o in self.plan.kernels[once.kernel].operands)
        sources = {o.index for o in operands if o.kind == "shared"} - {k for ks, _ in making.packed for k in ks}
        made = Prepared(
            given=given,
            table=making.table,
            address=address(making.table),
            copies=copies,
            entries=entries,
            keep=tuple(making.keep),
            arrays=making.arrays,
            packed=making.packed,
            read={k: making.arrays[k].copy() for k in sorted(sources) if k in making.arrays and k < len(given)},
        )
        self.recent = [*rest, made][-_SETS:]
        return made

    def _entries(self, kernel: int, making: Making) -> tuple[int, ...]:
        """Return what the parameter table of a kernel ends with."""
        spec, entry = self.plan.kernels[kernel], self.kernels[kernel]
        arrays = (
            making.packing(tuple(spec.operands[v].index for v in use.operands), use.packing) for use in entry.shared
        )
        return (*map(address, arrays), *entry.tiles)

    def _compute(self, once: Once, making: Making) -> None:
        """Compute a shared tensor: run its kernel for a batch of one."""
        param = self.plan.program.shared[once.index]
        assert isinstance(param.type, TensorT)
        entry = self.kernels[once.kernel]
        tail = self._entries(once.kernel, making)
        shape = tuple(n for n in param.type.shape if n is not None)
        result = aligned(math.prod(shape) * np.dtype(param.type.dtype).itemsize)
        array = result.view(param.type.dtype).reshape(shape)
        words = np.array([*(making.table[k] for k in once.numbers), 0], np.int64)
        nodes, failures, sizes = np.array([address(words)]), np.zeros(1, np.int64), np.zeros(3, np.int64)
        head = [address(nodes), address(failures), address(failures), 0, address(result)]
        params = np.array([*head, *tail], np.int64)
        for held in (words, nodes, failures, sizes, params, result, *making.keep):
            self.engine.reach(held)
        self.engine.kernel(entry.plan, address(failures), address(sizes))
        scratch = aligned(int(sizes[0]) + 64)
        self.engine.reach(scratch)
        self.engine.kernel(entry.run, address(params), 0, 1, address(scratch))
        making.add(once.index, array)

    # ------------------------------------------------------------------------------------------------------ buffers

    def _take(self) -> Buffers:
        try:
            return self._buffers.pop()
        except IndexError:
            pass
        specs = self.plan.kernels
        buffers = Buffers(
            functions=self.host.functions,
            kernels=len(specs),
            most=max((len(s.results) for s in specs), default=0),
            keyed=any(s.dims for s in specs),
            ghosts=self.host.ghosts,
            reach=self.engine.reach,
        )
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        for k, (spec, kernel) in enumerate(zip(specs, self.kernels, strict=True)):
            args = [o for o in spec.operands if o.kind != "shared"]
            items = [o for o in args if spec.rows is not None and spec.rows[o.index] == "item"]
            params = np.zeros(FIXED + len(spec.results) + len(kernel.shared) + len(kernel.tiles), np.int64)
            self.engine.reach(params)
            buffers.columns_of_kernels.append(params)
            table[k, TABLE["plan"]], table[k, TABLE["run"]] = kernel.plan, kernel.run
            table[k, TABLE["params"]] = address(params)
            table[k, TABLE["tensors"]] = sum(o.kind == "tensor" and o not in items for o in args)
            table[k, TABLE["lists"]] = sum(o.kind == "list" or (o.kind == "tensor" and o in items) for o in args)
            table[k, TABLE["args"]] = len(args)
            table[k, TABLE["dims"]], table[k, TABLE["results"]] = spec.dims, len(spec.results)
            table[k, TABLE["cost"]] = cost(spec)
            table[k, TABLE["bytes"]] = _bytes(spec)
            table[k, TABLE["fallible"]] = int(any(op.site >= 0 for op in spec.body))
            if kernel.stages:
                shares = np.array([(s.address, s.cost, s.weights // _STREAM) for s in kernel.stages], np.int64)
                self.engine.reach(shares)
                buffers.columns_of_table.append(shares)
                table[k, TABLE["begin"]], table[k, TABLE["stages"]] = kernel.begin, len(shares)
                table[k, TABLE["shares"]] = address(shares)
            if spec.rows is not None:
                ways = np.zeros((2, max(len(args), 1)), np.int64)
                for o in args:
                    way = spec.rows[o.index]
                    ways[0, o.index] = {"whole": 0, "item": -1, "row": np.dtype(o.dtype).itemsize}[way]
                    ways[1, o.index] = 1 + len(o.shape)
                self.engine.reach(ways)
                buffers.columns_of_table.append(ways)
                table[k, TABLE["rows"]] = address(ways)
        weights = table[: len(specs), TABLE["bytes"]]
        buffers["heaviest"] = int(weights.max(initial=1)) if weights.all() else _HEAVY
        buffers["machine"] = self.engine.address["machine"]
        buffers["policy"] = self._policy
        buffers["phased"] = int(self.options.phases)
        buffers["effort"] = -1 if self.options.effort is None else self.options.effort
        buffers["launch"] = _launch(specs)
        buffers["steps"] = min(self.options.max_steps, state.SLICE)
        buffers["rest"] = max(0, self.options.max_steps - state.SLICE)
        buffers["largest"] = max(self.options.memory_limit or available(), _LARGEST)
        buffers["ceiling"] = self._limit() // 2
        buffers["shapes"] = address(self.shapes)
        buffers["root_pc"] = state.SCHEDULER
        buffers["waits"] = int(self.host.waiting)
        buffers["forms"] = address(self.forms[0])
        buffers["sorter"] = self.engine.sorter
        return buffers

    def _begin(self, buffers: Buffers, roots: Words, prepared: Prepared, arena: Arena, parts: bool) -> None:
        batch = len(roots)
        if buffers.prepared is not prepared:
            for spec, params, entries in zip(
                self.plan.kernels, buffers.columns_of_kernels, prepared.entries, strict=True
            ):
                params[FIXED + len(spec.results) :] = entries
            buffers.prepared = prepared
        buffers.begin()
        st = buffers.st
        st[AT["free"] :] = 0
        st[_FRESH] = 0
        buffers["stop"] = 4
        buffers["fuel"] = buffers["granted"] = buffers["steps"]
        buffers["instances"] = batch
        buffers["batch"] = min(batch, 1) if parts else batch
        buffers["aim"], buffers["least"] = min(_AIM, buffers["ceiling"]), _LEAST
        buffers["roots"] = address(roots)
        buffers["results"] = buffers.words("results", batch * self.result_words)
        buffers.results[: batch * self.result_words] = 0  # instances that fail leave it so
        buffers["etop"] = buffers.words("errors", batch * (3 + self.host.values))
        buffers["shared"] = prepared.address
        buffers["arena"], buffers["asize"] = arena.address, arena.size
        buffers["plenty"] = _PLENTY if self.options.recycle else NEVER
        if self.host.waiting:
            buffers["inst"] = -1
            buffers.begin_fibers(batch)

    # ---------------------------------------------------------------------------------------------------------- run

    def run(
        self,
        roots: Words,
        shared: Sequence[Any] = (),
        *,
        skip: Collection[int] = (),
        keep: Sequence[NDArray[Any]] = (),
        stable: bool = False,
        timed: bool = False,
        last: int = 4,
    ) -> Run:
        """Run a mini-batch.

        Parameters
        ----------
        roots
            int64[batch, words]: the words of the positional parameters of each instance.
        shared
            One value per entry of `Program.shared`, see `prepare`.
        skip
            Instances that are not run (their words are never looked at).
        keep
            The arrays that `roots` point into.
        stable
            The shared arrays do not change any more.
        timed
            Measure the stages one by one.
        last
            Number in `STAGES` of the last stage: less than 4 leaves the results without values. A program that waits
            for values is always executed.

        Raises
        ------
        MemoryError
            If the results need more memory than allowed. (An instance that needs too much while it runs fails alone.)
        ScheduleError
            If a user's schedule is none.
        """
        instances = None
        given = roots = np.ascontiguousarray(roots, np.int64)
        if len(skip):
            instances = np.array([k for k in range(len(roots)) if k not in skip], np.int64)
            roots = roots[instances]
        start = time.perf_counter()
        prepared = self.prepare(shared, stable)
        for array in (roots, *keep):
            self.engine.reach(array)
        buffers = self._take()
        arena = self.arenas.take(self.arenas.wanted)
        self.engine.reach(arena.block)
        self._begin(buffers, roots, prepared, arena, self.parts and last == 4)
        verify = verify_level() > 1
        buffers["spoil"] = int(verify)
        works = [self.works.take(self.works.wanted)] if self.works.wanted else []
        self._work_in(buffers, works)
        buffers.warm(keep)
        failures: dict[int, Failure] = {}
        arenas = [arena]
        rounds: list[Round] = []
        buffers["threads"] = threads = max(1, min(self.threads, int(self._recent / _WAKE)))
        buffers["pool"] = threads_of_process().enter(threads) if threads > 1 else 0
        try:
            seconds, taken = self._stages(buffers, arenas, works, failures, timed, last, rounds, keep, stable)
        except _TooLarge as error:
            found = error.instances if instances is None else instances[error.instances].tolist()
            rest = self.run(given, shared, skip={*skip, *found}, keep=keep, stable=stable, timed=timed)
            rest.errors = dict(sorted({**rest.errors, **{k: Failure(site=MEMORY) for k in found}}.items()))
            return rest
        finally:
            if threads > 1:
                threads_of_process().leave(threads)
        noted = seconds.pop("noted", 0.0)
        seconds["total"] = time.perf_counter() - start - noted
        if buffers["stage"] == 4:
            self._recent = 1e-9 * buffers["taken"]
        used = buffers["kept"] + buffers["used"]
        buffers.cool()
        self.arenas.wanted = max(used, self.arenas.wanted - self.arenas.wanted // 8)
        if works:
            self.works.wanted = max(buffers["wused"], buffers["wmost"], self.works.wanted - self.works.wanted // 8 - 1)
        run = Run(self, buffers, arenas, prepared, roots, instances, tuple(keep), seconds, taken, rounds)
        run.noted = noted
        run.errors = run._errors(failures)
        if verify:
            run.report_missed()
        if run.errors:
            run.words[list(run.errors)] = 0  # what failed has no result: these words are of an earlier mini-batch
        return run

    def record(
        self,
        roots: Words,
        shared: Sequence[Any] = (),
        *,
        skip: Collection[int] = (),
        keep: Sequence[NDArray[Any]] = (),
    ) -> TraceData:
        """Record and schedule a mini-batch, and execute nothing that no value is read of. See `run`."""
        run = self.run(roots, shared, skip=skip, keep=keep, timed=True, last=STAGES.index("schedule"))
        trace = run.trace()
        run.close()
        return trace

    def _stages(
        self,
        buffers: Buffers,
        arenas: list[Arena],
        works: list[Arena],
        failures: dict[int, Failure],
        timed: bool,
        last: int,
        rounds: list[Round],
        keep: Sequence[NDArray[Any]],
        stable: bool,
    ) -> tuple[dict[str, float], list[float]]:
        """Run the stages, in one call if nothing must grow; return, where timed, their seconds and each batch's."""
        caller = callable(self.options.schedule)
        waiting = self.host.waiting
        if waiting:
            last = 4
        buffers["single"] = int(timed or caller)
        seconds: dict[str, float] = {}
        taken: list[float] = []
        buffers["patience"] = -1 if timed else state.PATIENCE
        while True:
            buffers["policy"] = self._policy
            for stop in range(1, last + 1) if timed else (1, last) if caller else (last,):
                start = time.perf_counter()
                if caller and buffers["stage"] == 1:
                    self._levels(buffers)
                    buffers["policy"] = state.BY_CALLER
                buffers["stop"] = stop
                if timed and stop == STAGES.index("execute"):
                    taken += self._batches(buffers, arenas, works, failures)
                    seconds["execute"] = sum(taken)
                    continue
                while (status := self.engine.drive(buffers.address)) != state.DONE:
                    self._grow(buffers, arenas, works, status, failures)
                if timed:
                    seconds[STAGES[stop]] = seconds.get(STAGES[stop], 0.0) + time.perf_counter() - start
                    if stop == STAGES.index("schedule") and (buffers["n"] or not rounds):
                        begun = time.perf_counter()
                        rounds.append(self._round(buffers, rounds))
                        seconds["noted"] = seconds.get("noted", 0.0) + time.perf_counter() - begun
            if not buffers["more"] and buffers["batch"] == buffers["instances"]:
                return seconds, taken

    def _batches(
        self, buffers: Buffers, arenas: list[Arena], works: list[Arena], failures: dict[int, Failure]
    ) -> list[float]:
        """Execute what was scheduled; return the seconds of each batch."""
        taken: list[float] = []
        while True:
            start = time.perf_counter()
            status = self.engine.drive(buffers.address)
            if len(taken) < buffers["batches"]:
                taken.append(time.perf_counter() - start)
            if status == state.DONE:
                return taken
            self._grow(buffers, arenas, works, status, failures)

    def _levels(self, buffers: Buffers) -> None:
        """Ask the user's schedule."""
        self.engine.call("number_keys", buffers.address)
        first, source = self._edges(buffers)
        n = buffers["n"]
        columns = {name: buffers.column(name, n).copy() for name in ("kind", "depth", "instance", "key")}
        columns |= {"first": first, "operand": source}
        for column in columns.values():
            column.flags.writeable = False
        assert callable(self.options.schedule)
        levels = np.asarray(self.options.schedule(columns))
        check_levels(levels, columns["key"], first, source)
        buffers.column("level", n)[:] = levels
        buffers["levels"] = int(levels.max()) + 1 if n else 0

    def _edges(self, buffers: Buffers) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return first[n + 1] and operand[m]: node v reads the nodes operand[first[v]:first[v + 1]]."""
        self._complete(buffers, "edges")
        n = buffers["n"]
        return buffers.tables["efirst"][: n + 1].copy(), buffers.tables["efrom"][: buffers["edges"]].copy()

    def _lower_bound(self, buffers: Buffers) -> int:
        """Return a number of batches that no schedule goes below; what was scheduled stays as it is."""
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
        """Call a function of the library until it has all the room it wants."""
        while (status := self.engine.call(name, buffers.address)) != state.DONE:
            assert status is not None
            buffers.grow_tables(status)

    def _limit(self) -> int:
        return self.options.memory_limit or available() // 2

    def _grow(
        self, buffers: Buffers, arenas: list[Arena], works: list[Arena], status: int, failures: dict[int, Failure]
    ) -> None:
        """Make the room that compiled code asks for; the last of the arenas is the one to go on with."""
        need = buffers["need"]
        match status:
            case state.GROW_HEAP:
                if buffers.another(need):
                    buffers.next_chunk(need)
                elif (room := self._limit() - buffers.bytes) >= need:
                    buffers.next_chunk(need, room)
                else:
                    self._no_memory(buffers, failures)
            case state.GROW_NODES:
                capacity = max(2 * buffers["ncap"], buffers["n"] + need)
                if buffers.bytes * 2 > self._limit():
                    self._no_memory(buffers, failures)
                else:
                    buffers.grow_nodes(capacity, buffers["n"])
            case state.PAUSE:
                pass  # Python looks for signals between two calls
            case state.FUEL:
                left = min(state.SLICE, buffers["left"])
                if left:
                    buffers["fuel"] = buffers["granted"] = left
                    buffers["left"] -= left
                else:
                    self._abandon(buffers, failures, STEPS)
            case state.GROW_CHAINS | state.GROW_EDGES:
                buffers.grow_tables(status)
            case state.GROW_SCRATCH:
                if buffers.bytes + need > self._limit():
                    self._too_many_rows(buffers, need)
                buffers.grow_scratch(need)
            case state.GROW_LIVES | state.GROW_FOUND:
                buffers.grow_lives(status)
            case state.GROW_ARENA | state.GROW_WORK if self._peak(buffers) > self._limit():
                if buffers["planned"] or buffers["more"] or not self.options.recycle or need == 1 << 62:
                    self._too_large(buffers)
                buffers["plenty"] = -1
            case state.GROW_WORK:
                works.clear()  # before there is another one
                works.append(self.works.take(need, need + self._limit() - self._peak(buffers)))
                self._work_in(buffers, works)
            case state.GROW_ARENA:
                if not buffers["kept"]:
                    arenas.clear()  # of this run: nothing lies in it
                room = 2 * sum(a.size for a in arenas)
                most = self._limit() - buffers.bytes - buffers["kept"]
                arena = self.arenas.take(max(need, min(room, most)), most)
                arenas.append(arena)
                self.engine.reach(arena.block)
                buffers["arena"], buffers["asize"] = arena.address, arena.size
            case state.GROW_FIBERS:
                buffers.grow_fibers(2 * buffers["fcap"])
            case state.NODES_FAILED:
                self._fail_nodes(buffers, failures)
            case _:
                raise AssertionError(f"status {status}")

    def _work_in(self, buffers: Buffers, works: Sequence[Arena]) -> None:
        """Make a block the work area, if there is one."""
        for arena in works:
            self.engine.reach(arena.block)
            buffers["work"], buffers["wsize"] = arena.address, arena.size

    @staticmethod
    def _peak(buffers: Buffers) -> int:
        """Return how many bytes the mini-batch needs at once."""
        return buffers.bytes + buffers["kept"] + buffers["used"] + max(buffers["wused"], buffers["wmost"])

    def _abandon(self, buffers: Buffers, failures: dict[int, Failure], site: int) -> None:
        """Fail the instance that runs; what it has allocated is forgotten."""
        if buffers["pc"] == state.SCHEDULER:
            raise MemoryError("no memory is left for the next instance")
        loop = self.host.loops.get(buffers["pc"])
        calls = self._calls(buffers, buffers["fp"])
        failures[buffers["inst"]] = Failure(site=site, calls=calls if loop is None else (loop, *calls))
        if self.host.waiting:
            buffers.lives[buffers["inst"]] = state.DEAD
        buffers["n"] = buffers["first"]
        buffers.rewind(buffers["base"])
        buffers["stubs"] = 0
        buffers.st[AT["free"] :] = 0
        buffers["pc"] = state.SCHEDULER

    def _no_memory(self, buffers: Buffers, failures: dict[int, Failure]) -> None:
        """Fail the instance that has used up the memory."""
        if (runaway := self._runaway(buffers)) >= 0:
            raise _TooLarge([runaway])
        self._abandon(buffers, failures, MEMORY)

    def _runaway(self, buffers: Buffers) -> int:
        """Return the instance that has taken many times the steps of the others, between which it waits; or -1."""
        if not self.host.waiting:
            return -1
        left = buffers.lives[: buffers["next"]].copy()
        if buffers["inst"] >= 0:
            left[buffers["inst"]] = buffers["fuel"] + buffers["left"]
        taken = np.where(left < 0, 0, self.options.max_steps - left)
        found = int(np.argmax(taken))
        others = np.delete(taken, found)
        return found if not len(others) or taken[found] > _MANY * max(1, int(np.median(others))) else -1

    def _fail_nodes(self, buffers: Buffers, failures: dict[int, Failure]) -> None:
        """Note the failures of nodes of a round or part; what their instances still have to do is dropped."""
        for instance, failure in self._failed(buffers):
            if not self.host.waiting:
                failures.setdefault(instance, failure)
            elif buffers.lives[instance] >= 0:
                failures.setdefault(instance, failure)
                buffers.lives[instance] = state.DEAD
        buffers["failures"] = 0

    def _failed(self, buffers: Buffers) -> list[tuple[int, Failure]]:
        """Return the instances and failures of nodes, in program order."""
        fallible = buffers.fixed["table"].reshape(-1, len(TABLE))[:, TABLE["fallible"]]
        order = buffers.column("order", buffers["n"])
        at = np.flatnonzero(fallible[buffers.columns["kind"][order]])
        fail = buffers.columns["fail"]
        at = at[fail[at] != 0]
        at = at[np.argsort(order[at], kind="stable")]
        return [(int(buffers.columns["instance"][order[i]]), Failure(site=int(fail[i]) - 1)) for i in at]

    def _too_large(self, buffers: Buffers) -> NoReturn:
        """Raise `TooLarge` for the instances that no memory suffices for, `MemoryError` if there are none."""
        if buffers["rounds"] and (runaway := self._runaway(buffers)) >= 0:
            raise _TooLarge([runaway])
        n, batches, most = buffers["n"], buffers["batches"], buffers.most
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        place, sizes = buffers.columns["offset"][: 2 * batches * most].reshape(batches, most, 2).transpose(2, 0, 1)
        order, start = buffers.column("order", n), buffers.columns["bstart"][: batches + 1]
        kinds = buffers.column("kind", n)[order[start[:-1]]]
        last = np.full((batches, most), batches)
        if buffers["planned"]:
            last[place >= 0] = buffers.tables["last"][: batches * most].reshape(batches, most)[place >= 0]
        batch = np.repeat(np.arange(batches), np.diff(start))
        there = np.arange(most) < table[kinds, TABLE["results"]][batch, None]
        need = (sizes.astype(np.float64)[batch] * self._rows(buffers)[order, None])[there]
        of, since, until = (
            np.broadcast_to(x, there.shape)[there]
            for x in (buffers.column("instance", n)[order, None], batch[:, None], last[batch] + 1)
        )
        # What an instance needs grows by a result when its batch runs, and then shrinks when the last reader has run.
        of, when, change = np.tile(of, 2), np.concatenate([since, until]), np.concatenate([need, -need])
        turns = np.lexsort((change, when, of))
        peaks = np.zeros(int(of.max(initial=-1)) + 1)
        np.maximum.at(peaks, of[turns], np.cumsum(change[turns]))
        if found := np.flatnonzero(peaks > self._limit()).tolist():
            raise _TooLarge(found)
        seen = buffers["used"] + buffers["wused"] if buffers["planned"] else int(need.sum())
        seen += buffers["kept"]  # of earlier rounds or parts
        what = "for results" if seen > self._limit() else "at once"
        seen = seen if seen > self._limit() else self._peak(buffers)
        raise MemoryError(f"the mini-batch needs {seen:,} bytes {what}, more than `memory_limit`")

    def _too_many_rows(self, buffers: Buffers, need: int) -> NoReturn:
        """Raise `TooLarge` for the instances whose arrays have more rows than memory has room for words of them."""
        n = buffers["n"]
        table = buffers.fixed["table"].reshape(-1, len(TABLE))[buffers.column("kind", n)]
        widths = 8.0 * (2 + table[:, TABLE["args"]] + table[:, TABLE["tensors"]])  # see `rows.rows_width`
        large = self._rows(buffers) * widths > self._limit() - buffers.bytes
        if large.any():
            raise _TooLarge(np.unique(buffers.column("instance", n)[large]).tolist())
        raise MemoryError(f"the mini-batch needs {need:,} bytes of scratch, more than `memory_limit`")

    def _rows(self, buffers: Buffers) -> NDArray[np.int64]:
        """Return how many rows each node is: 1 unless its kernel has `rows`."""
        n = buffers["n"]
        kinds, at = buffers.column("kind", n), buffers.column("row", n)
        out = np.ones(n, np.int64)
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        for v in np.flatnonzero(table[kinds, TABLE["rows"]]) if n else ():
            args, dims = table[kinds[v], [TABLE["args"], TABLE["dims"]]]
            shape = word_at(int(at[v] + 8 * (args + dims + 2)))
            out[v] = word_at(shape)
        return out

    def _round(self, buffers: Buffers, before: Sequence[Round]) -> Round:
        """Return what was recorded and scheduled since the last round."""
        n, batches = buffers["n"], buffers["batches"]
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        start = sum(len(r.kinds) for r in before)
        kinds = buffers.column("kind", n).copy()
        first, source = self._edges(buffers)
        to = np.repeat(np.arange(n, dtype=np.int32), np.diff(first))
        edges = np.stack([source, to], axis=1) + start
        results = before[-1].results if before else {}
        if self.host.waiting:
            row = buffers.column("row", n)
            args, dims, several = (table[kinds, TABLE[name]] for name in ("args", "dims", "results"))
            records = row + 8 * (args + dims)
            if before:
                older = [(results[a], start + v) for v in range(n) for a in self._operands(buffers, v) if a in results]
                edges = np.concatenate([np.array(older, np.int32).reshape(-1, 2), edges])
            results.update({int(records[v]) + 24 * j: start + v for v in range(n) for j in range(several[v])})
        keys = buffers.column("key", n)
        order = buffers.column("order", n).copy()
        starts = buffers.columns["bstart"][: batches + 1].copy()
        batch = np.empty(n, np.int32)
        batch[order] = np.repeat(np.arange(batches, dtype=np.int32), np.diff(starts))
        phase = np.zeros(n, np.int32)
        depth = buffers.column("depth", n).copy()
        policy = buffers["policy"]
        if policy == state.BY_LOOKAHEAD or (policy == state.BY_DEPTH and buffers["phased"]):
            component, first_level = buffers.fixed["component"], buffers.fixed["lfirst"]
            phase = component[keys if buffers["groups"] == buffers["keys"] else kinds]
            depth = buffers.column("level", n) - first_level[phase]
            # Components are numbered over all keys; count only those that occur.
            phase = np.unique(phase, return_inverse=True)[1].astype(np.int32)
        heads = order[starts[:-1]] if n else order[:0]
        rows = np.add.reduceat(self._rows(buffers)[order], starts[:-1]) if n else order
        names = tuple(s.name for s in self.plan.kernels)
        several_rows = [s.rows is not None for s in self.plan.kernels]
        extents = tuple(self._extents(buffers, v) for v in heads)
        waiting = buffers.queues["waiting"][: 2 * buffers["wtop"]].reshape(-1, 2) if buffers["more"] else ()
        return Round(
            kinds=kinds,
            depth=depth,
            phase=phase,
            inst=buffers.column("instance", n).copy(),
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
                )
                for v, size, r in zip(heads, np.diff(starts), rows, strict=True)
            ),
            extents=extents,
            bound=self._lower_bound(buffers),
            waits=tuple(
                Wait(round=len(before), instance=int(k), loc=self.host.waits[word_at(int(frame) + 8)])
                for frame, k in waiting
            ),
            results=results,
        )

    def _operands(self, buffers: Buffers, node: int) -> list[int]:
        """Return the value records that a node reads, those of lists included."""
        table = buffers.fixed["table"].reshape(-1, len(TABLE))[buffers.columns["kind"][node]]
        tensors, lists = (int(table[TABLE[name]]) for name in ("tensors", "lists"))
        row = int(buffers.columns["row"][node])
        found = [word_at(row + 8 * k) for k in range(tensors)]
        for k in range(tensors, tensors + lists):
            it = word_at(row + 8 * k)
            found += [word_at(word_at(it) + 8 * i) for i in range(word_at(it + 8))]
        return found

    def _extents(self, buffers: Buffers, node: int) -> tuple[int, ...]:
        """Return the run-time extents of a node."""
        table = buffers.fixed["table"].reshape(-1, len(TABLE))
        args, dims = table[buffers.columns["kind"][node], [TABLE["args"], TABLE["dims"]]]
        at = int(buffers.columns["row"][node]) + 8 * int(args)
        return tuple(word_at(at + 8 * k) for k in range(dims))

    def _calls(self, buffers: Buffers, frame: int) -> tuple[Loc, ...]:
        """Return the calls on the way to a frame, the innermost first."""
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


def _bytes(spec: KernelSpec) -> int:
    """Return about how many bytes a node takes; 0 if that depends on its extents."""
    if spec.dims or spec.rows is not None:
        return 0
    ops = [spec.body[v - len(spec.operands)] for v in spec.results]
    sizes = (math.prod(n for n in op.shape if isinstance(n, int)) * np.dtype(op.dtype).itemsize for op in ops)
    return NODE_BYTES + sum(sizes)


def _launch(specs: Sequence[KernelSpec]) -> int:
    """Return about how many nanoseconds a batch takes beside its nodes, over all kernels: its start, its weights."""
    weights = 0
    for spec in specs:
        read = {k for op in spec.body if op.op == "matmul" for k in op.args if k < len(spec.operands)}
        for operand in (spec.operands[k] for k in read):
            if operand.kind == "shared":
                weights += math.prod(n for n in operand.shape if isinstance(n, int)) * np.dtype(operand.dtype).itemsize
    return _LAUNCH + weights // (_STREAM * max(len(specs), 1))
