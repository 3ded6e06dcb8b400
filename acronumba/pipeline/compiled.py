"""The whole compiler: from a function and a sample of its data to a `Compiled`.

    infer      types of the instances (data.pack), structure of the shared values (data.shared)
    lower      the user's functions -> Program (frontend), again if it reads fewer fields than were inferred
    plan       Program -> Plan: kernels and host program
    load       Plan -> Executable: machine code

`Compiled` is one specialisation of a model, and has four parts: its `Guard` checks whether it fits a call, its
`Artifacts` are the plan and machine code, its `SharedPacks` pack shared lists and objects, and its `Derivatives` are
for gradients. Nothing is compiled to machine code before the first mini-batch runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING

from acronumba.config import Options
from acronumba.data.decoder import Decoder
from acronumba.data.result_wrappers import wrapped
from acronumba.data.shared import SharedTree, describe
from acronumba.errors import Loc
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.ordered import reads_tables
from acronumba.ir.types import holds_arrays
from acronumba.locks import lazy
from acronumba.memory import Array, refuse_stale
from acronumba.pipeline.artifacts import Artifacts
from acronumba.pipeline.boundary import made_once
from acronumba.pipeline.derivatives import Derivatives
from acronumba.pipeline.failures import machine_failure
from acronumba.pipeline.given_objects import note_writer
from acronumba.pipeline.guard import Guard
from acronumba.pipeline.log import Times, bar, debug
from acronumba.pipeline.lowering import infer_and_lower
from acronumba.pipeline.packed_shared import SharedPacks
from acronumba.pipeline.running import Running
from acronumba.pipeline.slices import Slices, memory_rejected

if TYPE_CHECKING:
    from acronumba.analysis.plan import Plan
    from acronumba.data.buffers import TensorMaker
    from acronumba.data.extents import KnownColumns
    from acronumba.data.joined import Joined
    from acronumba.data.pack import Batch, Packer
    from acronumba.data.schema import Schema
    from acronumba.data.stream import Streams
    from acronumba.data.unpack import Unpacker
    from acronumba.frontend.lower import Lowered
    from acronumba.ir.interpret import InstanceFailure, Interpreter
    from acronumba.ir.nodes import Program, StructLayout
    from acronumba.ir.tape import Recorder
    from acronumba.pipeline.rejected import Attempt
    from acronumba.runtime.driver import Executable
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.run import Run
    from acronumba.runtime.trace import TraceData


_NO_BAR = nullcontext()


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
    tensors : bool
        Whether tensors of PyTorch are tensors in the code of the function, not arrays.
    earlier : sequence of Schema
        The types of earlier specialisations, whose functions the data may hold again.

    Raises
    ------
    AcronumbaError
        All rejections of the function, each with its source position and a rewrite.
    """

    def __init__(
        self, fn: FunctionType, columns: Sequence[Sequence[Value]], shared: Mapping[str, Value], options: Options,
        like: Compiled | None = None, seen: KnownColumns | None = None, rejected: list[Attempt] | None = None,
        tree: SharedTree | None = None, tensors: bool = False, earlier: Sequence[Schema] = (),
    ) -> None:  # fmt: skip
        self.fn, self.options, self.tree = fn, options, tree or describe(shared)
        self.used = 0  # when it was used last, by a clock of `api`
        self._slow = True  # whether the last run took long enough for the next to show a progress bar
        self.times = Times(fn)
        found = (like.schema, like.lowered) if like else self._lower(columns, shared, seen, rejected, tensors, earlier)
        self.schema: Schema = found[0]
        self.lowered: Lowered = found[1]
        note_writer(fn, self.lowered)
        self.program: Program = self.lowered.program
        self.instructions = sum(len(block.instrs) for f in self.program.functions for block in f.blocks)
        self.artifacts = Artifacts(self.program, options, self.times)
        if not like:
            self.artifacts.verify(self.program)
        debug(2, "program", lambda: self.artifacts.text("ir"))
        self.guard = Guard(fn, self.tree, self.schema, self.lowered, shared)
        self.shared = SharedPacks(fn, self.schema, self.lowered, self._read_layouts, self.guard)
        self.derivatives = Derivatives(self.artifacts)
        self.slices = Slices()
        self._joined: Joined | None = None

    def _lower(
        self, columns: Sequence[Sequence[Value]], shared: Mapping[str, Value], seen: KnownColumns | None,
        rejected: list[Attempt] | None, tensors: bool, earlier: Sequence[Schema],
    ) -> tuple[Schema, Lowered]:  # fmt: skip
        from acronumba.data.hints import hints_guard

        schema, lowered = infer_and_lower(
            columns, shared, self.tree, self.times, seen, rejected, tensors, self.options.state, earlier
        )
        for cls in schema.fields:
            lowered.source_guard.include(hints_guard(cls))
        return schema, lowered

    @property
    def plan(self) -> Plan:
        """Kernels and host program."""
        return self.artifacts.plan

    @property
    def executable(self) -> Executable:
        """Machine code for the CPU."""
        return self.artifacts.executable

    @made_once
    def packer(self) -> Packer:
        """Packs instances of this schema."""
        return self._new_packer(exact=False)

    @made_once
    def _streams(self) -> Streams:
        """Packs columns of plain data."""
        from acronumba.data.stream import Streams

        return Streams(self.schema.params, self.program.result, self.program.layouts, self._read_layouts)

    @made_once
    def _exact_packer(self) -> Packer:
        """Packs instances whose types are those of this schema without any conversion."""
        return self._new_packer(exact=True)

    def _new_packer(self, exact: bool) -> Packer:
        from acronumba.data.pack import Packer

        tables = reads_tables(self.program)
        return Packer(self.schema, self._read_layouts, self.lowered.inherited, exact, self._streams, tables)

    @lazy
    def _read_layouts(self) -> tuple[StructLayout, ...]:
        """The layouts, with the fields that the program reads of given objects; its own objects may have others."""
        return tuple(
            replace(layout, fields=tuple(f for f in layout.fields if f.name in self.lowered.reads.get(layout.cls, ())))
            for layout in self.program.layouts
        )

    @made_once
    def unpacker(self) -> Unpacker:
        """Builds results from words."""
        from acronumba.data.pack import Unpacker

        return Unpacker(self.program.result, self.program.layouts)

    def pack(self, columns: Sequence[Value], numbers: Sequence[int] | None = None, whole: bool = False) -> Batch | None:
        """Return the instances as words, with a `DataError` for each that does not conform; `whole`: None then."""
        return self._checked(self.packer.pack(columns, numbers, whole))

    def _checked(self, packed: Batch | None) -> Batch | None:
        """Reject objects whose attributes are assigned in two heaps: one object may be in both."""
        if packed is None or len(packed.heaps) < 2:
            return packed
        for cls, names in self.lowered.overlaid.items():
            if sum(any(r.cls is cls and r.rows for r in heap.regions) for heap in packed.heaps) > 1:
                name, loc = next(iter(names.items()))
                seen = f"an assignment to .{name} of objects of several packs, which may be one object"
                raise reject("ACR113", loc, seen, "pass the instances themselves, or one pack")
        return packed

    def same_packs(self, columns: Sequence[Value]) -> Batch | None:
        """Return the result of `pack_exact` for these columns, if they are the packs that it was called with last."""
        return None if self._joined is None else self._joined.of(columns)

    def pack_exact(self, columns: Sequence[Value], numbers: Sequence[int] | None = None) -> Batch | None:
        """Return the instances as words if `Guard.accepts` is true for them and all conform, else None."""
        if (known := self.same_packs(columns)) is not None:
            return known
        packs = [c for c in columns if hasattr(c, "schema")]
        if self.guard.observed is not None and not packs:
            packed = self._exact_packer.pack(columns, numbers, True)  # a faster test than `Guard.accepts`
            if packed is not None:
                return self._checked(packed)
        packed = self.pack(columns, numbers, whole=True) if self.guard.accepts(columns) else None
        if packed is not None and len(packs) == len(columns):
            from acronumba.data.joined import joined

            self._joined = joined(self.packer, packs, packed)
        return packed

    def run(
        self, packed: Batch, leaves: Sequence[Value], frozen: frozenset[str] = frozenset(), timed: bool = False,
        device: str = "cpu", on: Executable | None = None, tight: bool = False,
    ) -> Run:  # fmt: skip
        """Run a packed mini-batch.

        Parameters
        ----------
        packed, leaves
            The results of `pack` and `Guard.leaves`.
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
        given = self.shared.batches(leaves, frozen)
        words, keep = self.shared.words(packed, leaves, given)
        stable, skip = self.guard.stable(frozen), packed.errors
        executable = on or (self.artifacts.executable if device == "cpu" else self.artifacts.on(device))
        start = time.perf_counter()
        with bar(f"running {len(packed)} instances") if self._slow else _NO_BAR:
            run = executable.run(packed.roots, words, skip=skip, keep=keep, stable=stable, timed=timed, tight=tight)
        if given:
            run.heaps = [heap for batch in given.values() for heap in batch.heaps]
        self._slow = time.perf_counter() - start > 0.3
        debug(6, "run", lambda: f"{len(packed)} instances, {run.nodes} nodes")
        return run

    def running(
        self, packed: Batch, leaves: Sequence[Value], frozen: frozenset[str], device: str, timed: bool,
        tensors: TensorMaker | None,
    ) -> Running:  # fmt: skip
        """Run a packed mini-batch in as many pieces as memory wants, see `Running`."""
        return Running(self, packed, leaves, frozen, device, timed, tensors)

    def record(self, packed: Batch, leaves: Sequence[Value], like: TraceData | None = None) -> TraceData:
        """Record and schedule a packed mini-batch, and execute only kernels whose values are read. See `run`.

        If a trace with other options (`like`) has the values that the same program read, nothing is executed.
        """
        from acronumba.runtime.memory_policy import Astray

        words, keep = self.shared.words(packed, leaves)
        waits = self.artifacts.waits
        recorded_reads = like.read if like is not None and waits and not self.artifacts.forks else None
        if recorded_reads is not None or not waits:
            try:
                return self.artifacts.recorder.record(
                    packed.roots, words, skip=packed.errors, keep=keep, recorded_reads=recorded_reads
                )
            except Astray:  # sums in another order led to other branches
                pass
        with memory_rejected():
            return self.executable.record(packed.roots, words, skip=packed.errors, keep=keep)

    def sites(self, packed: Batch, leaves: Sequence[Value], trace: TraceData) -> Array | None:
        """Return for each node of a trace the index in its kernel's `uses`; None if instances have several fibers.

        The mini-batch is recorded once more for it.
        """
        from acronumba.pipeline.sites import sites

        if self.artifacts.forks:
            return None
        words, keep = self.shared.words(packed, leaves)
        return sites(self.plan, self.options, trace, packed.roots, words, skip=packed.errors, keep=keep)

    def storing(self, kept: frozenset[tuple[Loc, str]]) -> Executable:
        """Return an executable of its own that stores the results of some operations, and keeps its nodes."""
        made = Artifacts(replace(self.program, kept=kept), self.options, self.times).executable
        made.keeps_nodes = True
        return made

    def records_like(self, other: Compiled) -> bool:
        """Whether both have the same recordings and schedules: their options differ in nothing relevant to these."""

        def relevant(c: Compiled) -> tuple[object, ...]:
            o = c.options
            phases = o.phases or o.schedule != "depth"
            return c.plan.kernels, c.artifacts.text("plan"), o.schedule, o.effort, o.ragged, o.equal, phases

        return relevant(self) == relevant(other)

    def decoder(
        self, run: Run, packed: Batch, stay: bool = False, copies: bool = False, made: list[Value] | None = None,
        tensors: TensorMaker | None = None,
    ) -> Decoder:  # fmt: skip
        """Return the decoder of results, by instance number; see `Run.reader`.

        Tensors of PyTorch that are made for results are appended to `made`. `tensors` makes them of arrays, if they
        are to be on a device.
        """
        found: list[Decoder] = []
        wrap = self.lowered.wrap

        def decode() -> Decoder:  # keeps the run alive, which owns the memory of the words
            if not found:
                here = tensors is not None and holds_arrays(self.program.result)
                reader = run.reader(stay and not here, copies)
                reader.made, reader.tensors = made, tensors
                given = replace(packed, heaps=(*packed.heaps, *run.heaps)) if run.heaps else packed
                found.append(self.unpacker.decoder(run.words, reader, given.objects))
            return found[0]

        def many(ks: Sequence[int]) -> list[Value]:
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

    def interpreter(self, leaves: Sequence[Value], *, planned: bool = True) -> Interpreter:
        """Return the reference interpreter of the plan (or of the program before it)."""
        from acronumba.ir.interpret import Interpreter

        refuse_stale(leaves)
        kernels = self.plan.kernels if planned else ()
        program = self.plan.program if planned else self.program
        return Interpreter(program, leaves, kernels=kernels, max_steps=self.options.max_steps)

    def recorder_of_tapes(self, leaves: Sequence[Value]) -> Recorder:
        """Return the interpreter of the program that records tapes, for gradients."""
        from acronumba.ir.tape import Recorder

        refuse_stale(leaves)
        return Recorder(self.program, leaves, max_steps=self.options.max_steps)
