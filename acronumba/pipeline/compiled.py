"""The compiler from end to end: a function and a sample of its data become a `Compiled`.

    infer      types of the instances (data.pack), structure of the shared values (data.shared)
    lower      the user's functions -> Program (frontend), again if it reads fewer fields than were inferred
    plan       Program -> Plan: kernels and host program
    load       Plan -> Executable: machine code

`Compiled` is one specialisation of a model; `Compiled.leaves` checks whether it fits the shared values of a call, and
its packer whether it fits the instances. Nothing is compiled to machine code before the first mini-batch runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from acronumba.config import Options, verify_level
from acronumba.data.decoder import Decoder
from acronumba.data.shared import (
    SharedLeaf,
    SharedTree,
    describe,
    matcher,
    reaches_twice,
)
from acronumba.data.source_guard import SourceGuard
from acronumba.errors import AcronumbaError
from acronumba.errors.codes import reject
from acronumba.ir.types import (
    INT,
    ListT,
    MapT,
    StructT,
    TensorT,
)  # fmt: skip
from acronumba.locks import ForkLock, lazy
from acronumba.memory import Array
from acronumba.pipeline.boundary import bounded, compiling, made_once
from acronumba.pipeline.failures import machine_failure
from acronumba.pipeline.fit import (
    OuterMatch,
    getter,
    has_numbers,
    holds,
    orders_by_layout,
    packed_of,
    root_of,
    same_types,
)
from acronumba.pipeline.log import Patience, bar, debug
from acronumba.pipeline.slices import Slices, memory_rejected

if TYPE_CHECKING:
    from acronumba.analysis.active import Active, Wanted
    from acronumba.analysis.backward.derive import Backward
    from acronumba.analysis.passes import Draft, Pass
    from acronumba.analysis.plan import Plan
    from acronumba.data.extents import Columns
    from acronumba.data.pack import Batch, Packer
    from acronumba.data.schema import Schema
    from acronumba.data.stream import Streams
    from acronumba.data.unpack import Unpacker
    from acronumba.errors import Loc
    from acronumba.frontend.lower import Lowered
    from acronumba.ir.interpret import InstanceFailure, Interpreter
    from acronumba.ir.nodes import Program, StructLayout
    from acronumba.ir.spec import KernelSpec
    from acronumba.ir.tape import Recorder
    from acronumba.pipeline.packed_shared import PackedShared
    from acronumba.pipeline.rejected import Attempt
    from acronumba.runtime.driver import Executable
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.run import Run
    from acronumba.runtime.trace import TraceData


class Compiled:
    """One specialisation of a model: for one schema of the instances, one structure of shared values, one `Options`.

    Parameters
    ----------
    fn : function
        The user's function.
    columns : sequence of sequences
        The instances, a column per positional parameter: their types are inferred.
    shared : mapping
        Values of the keyword-only parameters.
    options : Options
    like : Compiled, optional
        A specialisation of the function with other options, if it fits: the typed program does not depend on options.
    seen : Columns, optional
        The columns in the mini-batches that the function was compiled for before.
    rejected : list of Attempt, optional
        Collects the rejections of the front end.
    tree : SharedTree, optional
        The structure of the shared values, where it is known.

    Raises
    ------
    AcronumbaError
        All rejections of the function, each with its source position and a rewrite.
    """

    def __init__(
        self,
        fn: FunctionType,
        columns: Sequence[Sequence[Any]],
        shared: Mapping[str, Any],
        options: Options,
        like: Compiled | None = None,
        seen: Columns | None = None,
        rejected: list[Attempt] | None = None,
        tree: SharedTree | None = None,
    ) -> None:
        self.fn = fn
        self.options = options
        self.tree: SharedTree = tree or describe(shared)
        self.seconds: dict[str, float] = {}
        self._patience = Patience(fn.__qualname__)
        self.used = 0  # when it was used last, by a clock of `api`
        self._slow = True  # whether the last run took long enough for the next to show a progress bar
        self.lock = ForkLock()
        self._devices: dict[str, Executable] = {}  # executables by device, other than the CPU
        self.schema: Schema
        self.lowered: Lowered
        found = (like.schema, like.lowered) if like else self._lower(columns, shared, seen, rejected)
        self.schema, self.lowered = found
        self.program: Program = self.lowered.program
        self.reads: Mapping[type, frozenset[str]] = self.lowered.reads
        if not like:
            from acronumba.data.hints import hints_guard

            for cls in self.schema.fields:
                self.lowered.source_guard.include(hints_guard(cls))
            if verify_level():
                self._verify(self.program)
        debug(2, "program", lambda: self.text("ir"))
        self._match = [(name, matcher(root, self.lowered.inherited)) for name, root in self.tree.roots.items()]
        self._source_guard: SourceGuard = self.lowered.source_guard
        self._outer = [OuterMatch(g, self.lowered.inherited) for g in self.lowered.globals if not g.fixed]
        names = [*self.tree.roots, *(o.path for o in self._outer)]
        self._getters = [getter(param.path, names) for param in self.program.shared]
        arrays = (p.path for p in self.program.shared if isinstance(p.type, TensorT))
        self._array_roots = frozenset(root_of(path, names) for path in arrays)
        roots, demanded = self._roots(shared), (getter(path, names) for path in sorted(self.lowered.demanded))
        self._demanded = [(get, get(roots)) for get in demanded]
        read = (*(p.path for p in self.program.shared), *self.lowered.demanded)
        self._reads_outer = any(root_of(path, names) not in self.tree.roots for path in read)
        kinds = (p.type for p in self.program.shared if root_of(p.path, names) not in self.tree.roots)
        self.reads_outer_data = any(isinstance(t, TensorT | ListT | MapT | StructT) for t in kinds)  # not only numbers
        self._apart = [(paths, [getter(p, names) for p in paths], loc) for paths, loc in self.lowered.apart.items()]
        self._check_apart(roots)
        self._last: tuple[dict[str, Any], list[Any]] | None = None  # snapshots, and their leaves
        self._active: dict[tuple[Wanted, int | None], Active] = {}
        self.slices = Slices()
        self.derived: dict[object, Any] = {}  # derived objects of other modules, see `pipeline.gradients`
        self._backward: dict[tuple[Wanted, int | None], tuple[Backward, ...]] = {}

    def _lower(
        self, columns: Sequence[Sequence[Any]], shared: Mapping[str, Any], seen: Columns | None,
        rejected: list[Attempt] | None,
    ) -> tuple[Schema, Lowered]:  # fmt: skip
        """Infer and lower, with columns as such unless that is rejected or changes the order of a sum."""
        from acronumba.data.extents import Columns
        from acronumba.data.pack import infer

        packed = packed_of(self.tree, shared)
        found = infer([*columns, *packed], None)
        rejection: AcronumbaError | None = None
        attempts: list[Attempt] = []
        for places in [frozenset[str]()] if packed else (seen or Columns()).choose(found):
            try:
                schema, lowered = self._lower_for(columns, shared, packed, found, places, attempts)
            except AcronumbaError as error:
                rejection = rejection or error
                continue
            if not places or not orders_by_layout(lowered.program):
                return schema, lowered
        if rejected is not None:
            rejected += attempts
        assert rejection is not None
        raise rejection

    def _lower_for(
        self,
        columns: Sequence[Sequence[Any]],
        shared: Mapping[str, Any],
        packed: Sequence[Sequence[Any]],
        found: Schema,
        places: Container[str],
        attempts: list[Attempt],
    ) -> tuple[Schema, Lowered]:
        """Infer and lower until the types of the fields that are read equal the schema, with columns at some paths."""
        from acronumba.data.extents import with_columns
        from acronumba.data.pack import infer
        from acronumba.frontend.lower import Read, lower
        from acronumba.pipeline.rejected import Attempt

        def get(leaf: SharedLeaf) -> Any:
            return getter(leaf.path, list(shared))(shared)

        constants = {leaf.path: get(leaf) for leaf in self.tree.leaves if leaf.type == INT}
        schema, read = with_columns(found, places), list[Read]()
        narrowed: list[tuple[Mapping[type, frozenset[str]], Schema]] = []
        while True:
            try:
                with self.timed("lower"):
                    lowered = lower(self.fn, schema.params[: len(columns)], schema.fields, self.tree, constants, read)
            except AcronumbaError:
                attempts += [Attempt(r, narrowed, places, self.tree, shared) for r in read]
                raise
            with self.timed("infer"):
                narrow = with_columns(infer([*columns, *packed], lowered.reads), places)
            if same_types(schema, narrow, lowered.reads):
                return replace(narrow, params=narrow.params[: len(columns)]), lowered
            schema = narrow
            narrowed.append((lowered.reads, narrow))

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        with self._patience.part(stage), compiling(self.fn):
            yield
        spent = time.perf_counter() - start
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        debug(1, f"time of {stage}", lambda: f"{self.fn.__qualname__}: {spent:.3f} s")

    def _verify(self, program: Program, kernels: Sequence[KernelSpec] = ()) -> None:
        from acronumba.ir.verify import verify

        verify(program, kernels)

    def _roots(self, shared: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**{o.path: o.read() for o in self._outer}, **shared}

    def _find_aliases(self, roots: Mapping[str, Any]) -> Iterator[tuple[str, Loc]]:
        """Yield the paths and source positions of aliases in shared values that are copied as if they had none."""
        for paths, getters, loc in self._apart:
            seen: set[int] = set()
            found = (path + again.strip() for path, get in zip(paths, getters, strict=True)
                     if (again := reaches_twice(get(roots), seen)))  # fmt: skip
            yield from ((path, loc) for path in found)

    def _check_apart(self, roots: Mapping[str, Any]) -> None:
        for path, loc in self._find_aliases(roots):
            raise reject("ACR202", loc, f"copy.deepcopy of shared values that hold {path} at another place, too",
                          "copy.copy(x) of each part that is changed")  # fmt: skip

    def leaves(self, shared: Mapping[str, Any], frozen: frozenset[str] = frozenset()) -> list[Any] | None:
        """Return the values of `program.shared`, or None if the structure of the values, or the code, has changed.

        For snapshots (the parameters in `frozen`) the result is cached while they are the same objects.
        """
        if not self._source_guard.is_valid():
            return None
        last = self._last
        if last is not None and frozen == last[0].keys() and all(shared[n] is v for n, v in last[0].items()):
            return last[1] if all(o.matches() for o in self._outer) else None
        found = self._leaves(shared)
        if found is not None and not self._reads_outer and len(frozen) == len(shared):
            self._last = dict(shared), found
        return found

    def _leaves(self, shared: Mapping[str, Any]) -> list[Any] | None:
        for name, match in self._match:
            if not match(shared[name]):
                return None
        roots = shared
        if self._outer:
            if not all(o.matches() for o in self._outer):
                return None
            roots = self._roots(shared)
        if any(get(roots) != value for get, value in self._demanded) or any(self._find_aliases(roots)):
            return None
        return [get(roots) for get in self._getters]

    @made_once
    def packer(self) -> Packer:
        """Packs instances of this schema."""
        from acronumba.data.pack import Packer

        return Packer(self.schema, self._read_layouts, self.lowered.inherited, streams=self._streams)

    @made_once
    def _streams(self) -> Streams:
        """Packs columns of plain data."""
        from acronumba.data.stream import Streams

        return Streams(self.schema.params, self.program.result, self.program.layouts)

    @made_once
    def _exact_packer(self) -> Packer:
        """Packs instances whose types are those of this schema without any conversion."""
        from acronumba.data.pack import Packer

        return Packer(self.schema, self._read_layouts, self.lowered.inherited, exact=True, streams=self._streams)

    @lazy
    def _read_layouts(self) -> tuple[StructLayout, ...]:
        """The layouts, with the fields that the program reads of given objects; its own objects may have others."""
        return tuple(
            replace(layout, fields=tuple(f for f in layout.fields if f.name in self.reads.get(layout.cls, ())))
            for layout in self.program.layouts
        )

    @made_once
    def unpacker(self) -> Unpacker:
        """Builds results from words."""
        from acronumba.data.pack import Unpacker

        return Unpacker(self.program.result, self.program.layouts)

    @made_once
    def plan(self) -> Plan:
        """Kernels and host program."""
        from acronumba.analysis.plan import make_plan, plan_text

        with self.lock:
            if "plan" not in self.__dict__:
                with self.timed("plan"):
                    plan = make_plan(self.program, self.options, self._after)
                if verify_level():
                    self._verify(plan.program, plan.kernels)
                debug(3, "plan", lambda: plan_text(plan))
                self.__dict__["plan"] = plan
        made: Plan = self.__dict__["plan"]
        return made

    def _after(self, one: Pass, draft: Draft) -> None:
        """Verify the result of a pass (`ACRONUMBA_VERIFY=2`), and log the pass."""
        if verify_level() > 1:
            self._verify(draft.program, draft.kernels)
        debug(5, "pass", lambda: f"{self.fn.__qualname__}: {one.name}")

    @made_once
    def executable(self) -> Executable:
        """Machine code."""
        from acronumba.pipeline.link import link

        with self.lock:
            if "executable" not in self.__dict__:
                plan = self.plan
                with self.timed("compile"), bar(f"compiling {self.fn.__qualname__}", self.progress) as step:
                    self.__dict__["executable"] = link(plan, self.options, progress=step)
                debug(4, "host", self.host_text)
                for k, spec in enumerate(plan.kernels):
                    debug(5, f"kernel {spec.name}", partial(self.kernel_text, k))
        made: Executable = self.__dict__["executable"]
        return made

    @bounded
    def on(self, device: str) -> Executable:
        """Return the executable for a device."""
        if device == "cpu":
            return self.executable
        from acronumba.pipeline.link_device import link_device
        from acronumba.runtime.devices.names import open_device

        with self.lock:
            if device not in self._devices:
                with self.timed("compile"), bar(f"compiling {self.fn.__qualname__}", self.progress) as step:
                    self._devices[device] = link_device(self.plan, self.options, open_device(device), step)
        return self._devices[device]

    @property
    def modules(self) -> int:
        """Number of its modules of machine code in memory."""
        made = (self.__dict__.get("executable"), self.__dict__.get("recorder"), *self._devices.values())
        return sum(len(e.linked.modules) + len(e.kernels) for e in made if e is not None)

    @property
    def forks(self) -> bool:
        """Whether an instance may have several fibers."""
        from acronumba.analysis.waits import forks

        return forks(self.plan.program)

    @made_once
    def recorder(self) -> Executable:
        """Executable with kernels that compute nothing, for `record`."""
        from acronumba.pipeline.link import link
        from acronumba.runtime.reference import idle_kernels

        with self.lock:
            if "recorder" not in self.__dict__:
                kernels = idle_kernels(self.plan.kernels)
                options = replace(self.options, threads=1, memory_limit=None)  # of runs that compute something
                self.__dict__["recorder"] = link(self.plan, options, kernels=kernels)
        made: Executable = self.__dict__["recorder"]
        return made

    def host_text(self) -> str:
        """Return the host program as text."""
        from acronumba.emit.text import joined
        from acronumba.pipeline.texts import host_lines

        return joined(host_lines(self.plan, self.options))

    def kernel_text(self, k: int) -> str:
        """Return the code of a kernel as text."""
        from acronumba.emit.text import joined
        from acronumba.pipeline.texts import kernel_lines

        return joined(kernel_lines(self.plan.kernels[k], self.options))

    def cuda_text(self, k: int) -> str:
        """Return the code of a kernel for a GPU as text."""
        from acronumba.pipeline.texts import cuda_code

        return cuda_code(self.plan.kernels[k], self.options).text

    @property
    def constants(self) -> list[str]:
        """The shared ints and extents of data that are constants of the program, with their values."""
        from acronumba.data.extents import arrays_of

        paths = sorted(self.lowered.demanded)
        names = self.fn.__code__.co_varnames
        columns = [place.removesuffix("?]") + "1]" for place, column in arrays_of(self.schema).items() if column]
        return [
            *(f"{path} = {value}" for path, (_, value) in zip(paths, self._demanded, strict=True)),
            *(f"{re.sub(r'^#([0-9]+)', lambda m: names[int(m[1])], place)}" for place in columns),
        ]

    def pack(self, columns: Sequence[Any], numbers: Sequence[int] | None = None, whole: bool = False) -> Batch | None:
        """Return the instances as words, with a `DataError` for each that does not conform; `whole`: None then."""
        return self.packer.pack(columns, numbers, whole)

    def pack_exact(self, columns: Sequence[Any], numbers: Sequence[int] | None = None) -> Batch | None:
        """Return the instances as words if `accepts` is true for them and all conform, else None."""
        if self._observed is not None and not any(hasattr(c, "schema") for c in columns):
            packed = self._exact_packer.pack(columns, numbers, True)  # a faster test than `accepts`
            if packed is not None:
                return packed
        return self.pack(columns, numbers, whole=True) if self.accepts(columns) else None

    def run(
        self, packed: Batch, leaves: Sequence[Any], frozen: frozenset[str] = frozenset(), timed: bool = False,
        device: str = "cpu", on: Executable | None = None, tight: bool = False,
    ) -> Run:  # fmt: skip
        """Run a packed mini-batch.

        Parameters
        ----------
        packed, leaves
            The results of `pack` and `leaves`.
        frozen : frozenset of str
            The shared parameters that are frozen.
        timed : bool
            Measure the stages one by one.
        device : str
            Where kernels run.
        on : Executable, optional
            The executable to use, if not this specialisation's own.
        tight : bool
            Whether memory was too small for more instances at once.

        Raises
        ------
        MemoryError
            If they do not fit into memory; see `pipeline.slices`.
        """
        given = self.shared_batches(leaves, frozen)
        words, keep = self.shared_words(packed, leaves, given)
        stable = self._array_roots <= frozen
        skip = packed.errors
        executable = on or self.on(device)
        start = time.perf_counter()
        with bar(f"running {len(packed)} instances") if self._slow else nullcontext():
            run = executable.run(packed.roots, words, skip=skip, keep=keep, stable=stable, timed=timed, tight=tight)
        run.heaps = [heap for batch in given.values() for heap in batch.heaps]
        self._slow = time.perf_counter() - start > 0.3
        debug(6, "run", lambda: f"{len(packed)} instances, {run.nodes} nodes")
        return run

    def record(self, packed: Batch, leaves: Sequence[Any], like: TraceData | None = None) -> TraceData:
        """Record and schedule a packed mini-batch, and execute only kernels whose values are read. See `run`.

        If a trace with other options (`like`) has the values that the same program read, nothing is executed.
        """
        from acronumba.analysis.waits import waiting_functions
        from acronumba.runtime.memory_policy import Astray

        words, keep = self.shared_words(packed, leaves)
        waits = bool(waiting_functions(self.plan.program))
        recorded_reads = like.read if like is not None and waits and not self.forks else None
        if recorded_reads is not None or not waits:
            try:
                return self.recorder.record(
                    packed.roots, words, skip=packed.errors, keep=keep, recorded_reads=recorded_reads
                )
            except Astray:  # sums in another order led to other branches
                pass
        with memory_rejected():
            return self.executable.record(packed.roots, words, skip=packed.errors, keep=keep)

    def sites(self, packed: Batch, leaves: Sequence[Any], trace: TraceData) -> Array | None:
        """Return for each node of a trace the index in its kernel's `uses`; None if instances have several fibers.

        The mini-batch is recorded once more for it.
        """
        from acronumba.pipeline.sites import sites

        if self.forks:
            return None
        words, keep = self.shared_words(packed, leaves)
        return sites(self.plan, self.options, trace, packed.roots, words, skip=packed.errors, keep=keep)

    def records_like(self, other: Compiled) -> bool:
        """Whether both have the same recordings and schedules: their options differ in nothing relevant to these."""
        mine, theirs = (
            (c.plan.kernels, c.text("plan"), o.schedule, o.effort, o.ragged, o.equal, o.phases or o.schedule != "depth")
            for c in (self, other)
            for o in (c.options,)
        )
        return mine == theirs

    def shared_words(
        self, packed: Batch | None, leaves: Sequence[Any], batches: Mapping[int, Batch] | None = None
    ) -> tuple[list[Any], list[Any]]:
        """Return the shared values, with lists and objects as words, and the owners of the memory they refer to."""
        words, keep = list(leaves), [] if packed is None else list(packed.keep)
        for k, batch in (self.shared_batches(leaves) if batches is None else batches).items():
            words[k] = int(batch.roots[0, 0])
            keep += batch.keep
        return words, keep

    def shared_batches(self, leaves: Sequence[Any], frozen: frozenset[str] = frozenset()) -> dict[int, Batch]:
        """Return the packed shared lists, dicts and objects, by number."""
        return {k: p.batch(leaves[k], p.root in frozen) for k, p in self._packed_shared.items()}

    @made_once
    def _packed_shared(self) -> dict[int, PackedShared]:
        """The shared lists, dicts and objects, by number."""
        from acronumba.data.pack import Packer, Schema
        from acronumba.data.stream import Streams
        from acronumba.pipeline.packed_shared import PackedShared, gives_away

        names = [*self.tree.roots, *(o.path for o in self._outer)]
        found, given_away = {}, gives_away(self.program.result)
        for k, param in enumerate(self.program.shared):
            if isinstance(param.type, ListT | MapT | StructT):
                schema = Schema(params=(param.type,), fields=self.schema.fields)
                streams = Streams(schema.params, self.program.result, self.program.layouts)
                packer = Packer(schema, self._read_layouts, self.lowered.inherited, streams=streams)
                found[k] = PackedShared(param.path, root_of(param.path, names), packer, given_away)
        return found

    def decoder(self, run: Run, packed: Batch, stay: bool = False, copies: bool = False) -> Decoder:
        """Return the decoder of results, by instance number; see `Run.reader`."""
        from acronumba.data.heap import Owned
        from acronumba.data.result_wrappers import wrapped

        made: list[Decoder] = []
        heaps, wrap = (*packed.heaps, *run.heaps), self.lowered.wrap

        def decode() -> Decoder:  # keeps the run alive, which owns the memory of the words
            if not made:
                reader = run.reader(stay, copies)
                made.append(self.unpacker.decoder(run.words, reader, Owned((h, h.objects) for h in heaps)))
            return made[0]

        def many(ks: Sequence[int]) -> list[Any]:
            values = decode().some(ks)
            return values if wrap is None else [wrapped(value, wrap) for value in values]

        return Decoder(lambda k: wrapped(decode().one(k), wrap), many, few=1)

    def site_error(self, record: Failure | InstanceFailure) -> BaseException:
        """Return the exception for a failure recorded by the driver or the interpreter."""
        from acronumba.ir.interpret import InstanceFailure, message
        from acronumba.runtime import state

        if isinstance(record, InstanceFailure):
            if record.site >= 0 or record.error != "RuntimeError":
                return machine_failure(record.error, record.text, record.loc)
            return machine_failure(record.error, record.text, record.loc, endless=True)
        where = record.calls[0] if record.calls else self.program.functions[0].loc
        if record.site == state.STEPS:
            return machine_failure("RuntimeError", f"more than {self.options.max_steps:,} steps", where, endless=True)
        if record.site == state.MEMORY:
            seen = "its tensors, lists and objects"
            return reject("ACR704", where, seen=seen, message="this instance alone does not fit in memory")
        site = self.plan.program.sites[record.site]
        return machine_failure(site.error, message(site.text, record.values), site.loc)

    def trace(self, run: Run, total: float) -> TraceData:
        """Return the record of a run that was timed."""
        from acronumba.runtime.trace import STAGES

        seconds = {**dict.fromkeys(STAGES[1:], 0.0), **run.seconds, "total": total - run.noted}
        return replace(run.trace(), seconds=seconds)

    def progress(self, name: str, number: int, count: int) -> None:
        """Report the progress of the compilation."""
        self._patience.at(f"{name}, module {number + 1} of {count}")
        debug(5, "module", lambda: f"{self.fn.__qualname__}: {name} ({number} of {count})")

    def accepts(self, columns: Sequence[Sequence[Any]]) -> bool:
        """Whether values without an annotation have the types that were compiled.

        The packer converts as annotations allow (a float field accepts an int); inferred types must be the same.
        """
        return self._observed is None or self._holds(columns, self._observed)

    def _holds(self, columns: Sequence[Sequence[Any]], reads: Mapping[type, frozenset[str]]) -> bool:
        from acronumba.data.pack import infer

        seen, mine = infer(columns, reads), self.schema.fields
        if not all(holds(t, s) for t, s in zip(self.schema.params, seen.params, strict=True)):
            return False
        return all(
            name in mine.get(cls, {}) and holds(mine[cls][name], fields[name])
            for cls, fields in seen.fields.items()
            for name in fields
        )

    @lazy
    def _observed(self) -> Mapping[type, frozenset[str]] | None:
        """The fields that `accepts` must check, by class; None if it need not check anything."""
        from acronumba.data.hints import Observed, class_hints

        open_fields = any(
            isinstance(class_hints(cls).get(name), Observed) and has_numbers(self.schema.fields.get(cls, {}).get(name))
            for cls, names in self.reads.items()
            for name in names
        )
        if open_fields:
            return self.reads
        return {} if any(has_numbers(t) for t in self.schema.params) else None

    def matches_types(self, columns: Sequence[Sequence[Any]]) -> bool:
        """Whether these instances have the types that were compiled; if so, values that do not conform are bad data."""
        from acronumba.data.schema import hides

        return self._holds(columns, self.reads) and not hides(columns, self.reads, self.lowered.inherited)

    def interpreter(self, leaves: Sequence[Any], *, planned: bool = True) -> Interpreter:
        """Return the reference interpreter of the plan (or of the program before it)."""
        from acronumba.ir.interpret import Interpreter

        kernels = self.plan.kernels if planned else ()
        program = self.plan.program if planned else self.program
        return Interpreter(program, leaves, kernels=kernels, max_steps=self.options.max_steps)

    def recorder_of_tapes(self, leaves: Sequence[Any]) -> Recorder:
        """Return the interpreter of the program that records tapes, for gradients."""
        from acronumba.ir.tape import Recorder

        return Recorder(self.program, leaves, max_steps=self.options.max_steps)

    @bounded
    def active(self, wanted: Wanted, width: int | None) -> Active:
        """Return the variables of the program that gradients flow through (see `analysis.active`)."""
        from acronumba.analysis.active import active

        if (wanted, width) not in self._active:
            self._active[wanted, width] = active(self.program, wanted, width)
        return self._active[wanted, width]

    @bounded
    def backward(self, wanted: Wanted, width: int | None) -> tuple[Backward, ...]:
        """Return the backward of each kernel of the plan (see `analysis.backward`)."""
        from acronumba.analysis.backward.program import derive_all

        if (wanted, width) not in self._backward:
            self._backward[wanted, width] = derive_all(self.plan, wanted, width)
        return self._backward[wanted, width]

    def text(self, stage: str) -> str:
        """Return the text of the stage ``ir`` or ``plan``."""
        if stage == "ir":
            from acronumba.ir.printer import program_text

            return program_text(self.program)
        from acronumba.analysis.plan import plan_text

        return plan_text(self.plan)


def compile_model(
    fn: FunctionType,
    columns: Sequence[Sequence[Any]],
    shared: Mapping[str, Any],
    options: Options,
    like: Compiled | None = None,
    seen: Columns | None = None,
    rejected: list[Attempt] | None = None,
    tree: SharedTree | None = None,
) -> Compiled:
    """Compile a function for the types of these instances and the structure of these shared values; see `Compiled`."""
    with compiling(fn):
        return Compiled(fn, columns, shared, options, like, seen, rejected, tree)
