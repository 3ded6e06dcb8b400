"""The backward pass of a mini-batch: gradients of shared tensors, and of arrays of instances.

In: a run whose kernels have saved the values that the backward pass needs, and the value records of the losses. Out:
the gradients of the requested shared tensors. Three steps: compiled code transposes the recorded graph
(`runtime.library.transpose`); the batches of the transposed graph run like any others; then the sums over nodes run
(`runtime.summing`). A value that a kernel computes from shared tensors alone has one such sum, which is pulled back to
the tensors once, at the end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from acronumba.analysis.backward.program import BackwardPlan
from acronumba.analysis.backward.reference import sweep
from acronumba.config import interpreted
from acronumba.data.row_grad import Gradient
from acronumba.emit import target, tree
from acronumba.emit.compile import Compiled, Deferred, load
from acronumba.ir.spec import FIXED, KernelSpec
from acronumba.kernels import sums
from acronumba.memory import Array, DeviceTensor, DType, Words, address
from acronumba.records import record
from acronumba.runtime.back_rows import BackRows
from acronumba.runtime.backends import Backend, BackwardMemory, CpuBackend, Pull
from acronumba.runtime.batches import run_one
from acronumba.runtime.buffers import KEPT_IN_TRAINING, ArenaPool, Buffers, Pieces, side_by_side
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Native, threads_of_process
from acronumba.runtime.instances import Own
from acronumba.runtime.joint import joint
from acronumba.runtime.library import back_words as words
from acronumba.runtime.packing import Packer
from acronumba.runtime.program import KernelEntry
from acronumba.runtime.reference import replace_outer
from acronumba.runtime.run import Run
from acronumba.runtime.state import DONE, PAUSE
from acronumba.runtime.summing import Collected, Sums, forms_of, tables_of
from acronumba.runtime.tables import Tables
from acronumba.runtime.trace import BackRecord
from acronumba.runtime.workspace import DTYPES, Workspace

# Functions that are called from Python.
_CALLED = ("backward", "join", "pack_all", "collect", "rows_of_links", "read_scalars")
_LINKS = 1 << 16  # bytes of the first room for links
_PLACES = 1 << 20  # bytes of the first memory for results
_NO_TABLES = Tables((), {}, {}, (), {})


def transposer() -> tree.Module:
    """Return the module of `runtime.library.transpose` and the files that it calls."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(
        [f"acronumba.runtime.library.{name}" for name in ("own", "adjoints", "extents", "transpose", "back_pass")]
    )
    return tree.Module("transpose", functions, _CALLED, "The backward pass.", compact=True)


def library_of_gradients() -> Deferred:
    """Return the module of `transposer`, made only if its machine code is not cached."""
    return Deferred(name="transpose", key="transpose", make=transposer)


def dtypes_of(back: BackwardPlan) -> list[str]:
    """Return the dtypes of sums on a backward pass."""
    params = back.plan.program.shared
    found = {params[k].type.dtype for k in back.wanted}  # type: ignore[union-attr]
    for spec in back.plan.kernels:
        found |= {spec.body[v - len(spec.operands)].dtype for v in spec.results}
    return [dtype for dtype in DTYPES if dtype in found]


@record(kw_only=True, eq=False)
class Seeds:
    """Start of the backward pass: the value records of losses, and their adjoints."""

    records: Words  # addresses of the value records of losses, or of other results
    adjoints: Words  # addresses of their adjoints
    instances: Words  # of each: the number of its instance
    keep: Sequence[Array] = ()  # arrays that the adjoints lie in,
    constant: bool = False  # ... which come again, unchanged


class Done(NamedTuple):
    """Result of a mini-batch's backward pass."""

    shared: dict[int, Gradient]  # gradients of shared tensors, by their number
    reached: set[int]  # numbers of the shared tensors that a result depends on; the others have zeros
    own: list[Array | None]  # gradients of arrays of instances
    records: Sequence[BackRecord]  # its batches, if they were timed
    loss: tuple[DeviceTensor, DType] | None  # the sum of the losses, as float64, if it stays on a device; their dtype
    bytes: int  # of memory, forward and backward pass together, if they were timed or memory is limited


class BackwardExecutable:
    """The backward pass of a plan, ready to run. Safe from several threads.

    Parameters
    ----------
    forward
        Executable of the plan of `back`.
    back
        The derivative.
    engine, entries
        Backward kernels, in the order of `back.specs`.
    library
        Compiled module of `transposer`.
    backend
        Backend to run on; default: the CPU.
    """

    def __init__(
        self, forward: Executable, back: BackwardPlan, engine: Native, entries: Sequence[KernelEntry],
        library: Compiled, backend: Backend | None = None,
    ) -> None:  # fmt: skip
        self.forward, self.back, self.engine, self.entries, self.library = forward, back, engine, entries, library
        on, precision = target.host(), "float32" if backend else forward.options.precision
        self.sums = {dtype: load([sums.deferred(dtype, on, precision)])[0] for dtype in dtypes_of(back)}
        if interpreted():
            for dtype, code in self.sums.items():
                replace_outer(code, dtype, precision)
        self.backend = backend or CpuBackend(engine, self.sums, forward.threads)
        self.pullbacks = dict(
            zip(back.pullbacks, range(len(back.specs) - len(back.pullbacks), len(back.specs)), strict=True)
        )
        self.most = max((len(b.forward.results) - len(b.kept) for b in back.kernels if b is not None), default=0)
        self.rows = BackRows(back, {dtype: self.adder(dtype) for dtype in DTYPES})
        self.forms = forms_of(self.rows.sums, back.plan, self.backend.on, forward.threads)
        self.runs_whole = backend is None and None not in self.forms  # whether one compiled call can do it all
        self.wanted = sorted(back.wanted)
        self.dtypes = [np.dtype(back.plan.program.shared[k].type.dtype) for k in self.wanted]  # type: ignore[union-attr]
        self.links, self.places = ArenaPool(_LINKS), ArenaPool(_PLACES, kept=KEPT_IN_TRAINING)
        forward.arenas.kept = KEPT_IN_TRAINING
        self.sums_of_all = ArenaPool(0)  # memory for gradients
        self.packings = ArenaPool(0), ArenaPool(0)  # ... for weights packed on the forward pass, and back
        forward.shared.packer = partial(Packer, library, self.packings[0])
        self._workspaces: deque[Workspace] = deque(maxlen=4)

    def adder(self, dtype: str) -> int:
        """Return the number of the kernel that adds up adjoints of a dtype."""
        return len(self.back.specs) + DTYPES.index(dtype)

    def gradients(
        self, run: Run, seeds: Seeds, own: Own, tables: Collection[int] = (), timed: bool = False
    ) -> Done:  # fmt: skip
        """Return the gradients of the requested shared tensors and of arrays of instances.

        The gradient of a shared tensor in `tables` is a `RowGrad` if nodes read it by rows alone. `timed`: batches run
        one by one on a CPU, and are measured.
        """
        several = len(run.nodes_of_rounds) > 1
        graph = joint(self.forward, run, self.library) if several else run.buffers
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = Workspace(self)
        workspace.pack(run.prepared)
        workspace.nodes.seconds = [] if timed else None
        with self.backend.turn():
            way = _BackwardRun(self, workspace, run, graph, seeds, own)
            shared = way.gradients(sorted(tables), timed)
            records, forms, loss = way.records() if timed else (), run.prepared.forms, None
            if forms is not None and len(seeds.keep) == 1:
                dtype = seeds.keep[0].dtype
                total = self.backend.total(forms, self.places_of(seeds.records), dtype.name)
                loss = None if total is None else (total, dtype)
            out = Done(shared, way.reached, way.own_adjoints(), records=records, loss=loss, bytes=way.bytes)
        workspace.release()
        self._workspaces.append(workspace)
        if several:
            self.forward.give_buffers(graph)
        return out

    def places_of(self, records: Words) -> Words:
        """Return where the data of value records lie."""
        records = np.ascontiguousarray(records, np.int64)
        found, at = np.empty_like(records), address(records) + 8 * np.arange(len(records))
        self.library.call("read_scalars", address(at), len(at), 8, address(found))  # RECORD_DATA comes first
        return found


class _BackwardRun:
    """The backward pass of one mini-batch."""

    def __init__(
        self, of: BackwardExecutable, workspace: Workspace, run: Run, graph: Buffers, seeds: Seeds, own: Own
    ) -> None:
        self.of, self.back, self.workspace, self.run, self.buffers = of, of.back, workspace, run, graph
        self.prepared = run.prepared
        self.n = self.buffers["n"]
        self.most = max(of.most, 1)
        self.seeds, self.own = seeds, own
        self.threads = of.forward.threads
        self.words, self.state = workspace.view, workspace.nodes
        self.reached: set[int] = set()  # numbers of the shared tensors with an adjoint
        self.before, self.bytes = 0, 0  # of memory: of the forward pass; of both passes

    def __setitem__(self, name: str, value: int) -> None:
        self.words[words.BACK.at[name]] = value

    def __getitem__(self, name: str) -> int:
        return self.words[words.BACK.at[name]]

    def records(self) -> tuple[BackRecord, ...]:
        """Return the batches in order of execution."""
        batches, columns = self["batches"], self.state.keep
        numbers = columns["keytab"][: 2 * batches : 2]
        sizes = np.diff(columns["bstart"][: batches + 1])
        specs = self.back.specs
        seconds = self.state.seconds if self.state.seconds and len(self.state.seconds) >= batches else [None] * batches

        def record(k: int, size: int, seconds: float | None) -> BackRecord:
            if k >= len(specs):
                return BackRecord(kernel="adjoints", what="adjoints", size=size, seconds=seconds)
            return BackRecord(kernel=specs[k].name, what="nodes", size=size, seconds=seconds, spec=specs[k])

        summed = (BackRecord(kernel=s.name, what="sum", size=many) for s in self.of.rows.sums
                  if (many := self.collected.counts[s.first]))  # fmt: skip
        return (*map(record, numbers.tolist(), sizes.tolist(), seconds), *summed)

    def gradients(self, tables: Sequence[int], timed: bool) -> dict[int, Gradient]:
        """Run the backward pass; return the gradients of shared tensors."""
        if timed or self.of.forward.options.memory_limit is not None:
            self.before = self.run.buffers.peak
        if self.of.runs_whole and not tables and not timed:
            return self._whole()
        of, program, arrays, kernels = self.of, self.back.plan.program, self.prepared.arrays, self.back.plan.kernels
        backend, workspace = of.backend, self.workspace
        self._run(words.TO_RUN)
        place = workspace.arenas[1]
        memory = BackwardMemory(
            run=self.run, read=[*workspace.read.values(), *(() if self.seeds.constant else self.seeds.keep)],
            constants=self.seeds.keep if self.seeds.constant else (), zeros=workspace.tables["zeros"],
            start=place.address, size=self["place"] - place.address,
        )  # fmt: skip
        backend.execute(memory, self.state, self["batches"], self["scratch"])
        heads = self._heads(self.n * self.most, len(self.prepared.table))
        read = {*tables, *(once.index for once in program.once)} & {*self.back.wanted} if tables else set()
        linked = [k for k in sorted(read) if heads[k, words.HEAD.at["key"]]]
        if linked or of.rows.numbers_are_computed or any(self.own.by_rows):  # these say which rows
            backend.fetch_all()
        self.collected = found = self._collect()
        by_rows, (forms, size) = _NO_TABLES, workspace.forms
        if tables:
            by_rows = self._tables(tables, linked)
            shapes = [by_rows.shape(k, arrays[k].shape) for k in of.wanted]
            forms, size = side_by_side(shapes, of.dtypes)
        made, start = Pieces(of.sums_of_all).arrays(forms, size)
        grads = dict(zip(of.wanted, made, strict=True))
        addresses = {k: start + at for k, (_, _, at) in zip(of.wanted, forms, strict=True)}
        totals = Sums(kernels, self.prepared, grads, addresses, of.sums, backend.on, by_rows, self.threads)
        stay = [grads[k] for k in workspace.stay]
        jobs = totals.jobs(found, of.rows.sums, of.forms, heads)
        self.reached, inner = totals.reached, [*totals.inner.items()]
        pulls = [pull for pull in self._pulls(grads, inner) if pull.entry] if backend.on.warps else []
        wanted = [g for k, g in grads.items() if k < len(program.shared) - len(program.once)]
        there = backend.add_up(jobs, workspace.sums, pulls, wanted, stay)
        if not backend.on.warps:
            self._pull_all(grads, inner)
        if not tables and not there:
            return grads  # type: ignore[return-value]
        now = {k: there.get(address(g), g) if g.size else g for k, g in grads.items()}  # empty ones share addresses
        return {k: by_rows.gradient(k, g, arrays[k].shape) for k, g in now.items()}

    def _pulls(self, grads: dict[int, Array], inner: Sequence[tuple[tuple[int, int], Array]]) -> Iterator[Pull]:
        """Yield what takes the gradients of values made of shared tensors alone back to these, to be done in order."""
        kernels, computed = self.back.plan.kernels, self.back.plan.program.once
        for (k, v), g in inner:
            yield self._pull(k, v, g, (), grads)
        for once in reversed(computed):
            if once.index in grads and once.index in self.reached:
                yield self._pull(once.kernel, kernels[once.kernel].results[0], grads[once.index], once.numbers, grads)
        for once in computed:
            grads.pop(once.index, None)

    def _pull_all(self, grads: dict[int, Array], inner: Sequence[tuple[tuple[int, int], Array]]) -> None:
        """Take the gradients of all such values back, on the CPU."""
        for pull in self._pulls(grads, inner):
            if pull.entry is not None:
                run_one(self.of.engine, pull.entry, pull.params, len(pull.parts))
            for total, part in zip(pull.totals, pull.parts, strict=True):
                if total is not None:
                    total += part

    def _tables(self, tables: Sequence[int], linked: Sequence[int]) -> Tables:
        """Return the tables whose gradients are returned by rows; `linked`: those that nodes read like other values."""
        arrays = self.prepared.arrays
        found = [self.collected.of(s) for s in self.of.rows.sums if self.collected.counts[s.first]]
        ordinary = {
            k: self._rows_read(k, arrays[k].nbytes // max(len(arrays[k]), 1) if arrays[k].ndim else 0) for k in linked
        }
        return tables_of(tables, found, ordinary, self.back.plan, self.prepared)

    def _pull(self, k: int, value: int, g: Array, numbers: Sequence[int], grads: Mapping[int, Array]) -> Pull:
        """Return the `Pull` of a value of a kernel, whose gradient is `g`.

        `numbers`: the shared numbers that are the kernel's arguments.
        """
        workspace = self.workspace
        if (k, value) not in self.of.pullbacks:
            found = [] if self.of.backend.on.warps else self._swept(self.back.plan.kernels[k], value, g, numbers)
            self.reached.update(of for of, _ in found if of in grads)
            return Pull([part for _, part in found], [grads.get(of) for of, _ in found], g, None, workspace.nothing, ())
        made, number = self.back.pullbacks[k, value], self.of.pullbacks[k, value]
        record: Words = np.array([address(g), -1, 0])
        words_of = [
            address(record) if s.kind == "adjoint" else self.prepared.table[numbers[s.number]] for s in made.arguments
        ]
        node, nothing = np.array([*words_of, 0], np.int64), np.zeros(1, np.int64)
        nodes, out = np.array([address(node)]), []
        for j, v in enumerate(made.spec.results):
            op = made.spec.body[v - len(made.spec.operands)]
            size = math.prod(op.shape) * np.dtype(op.dtype).itemsize  # type: ignore[arg-type]
            out.append(workspace.place(f"{number} {j}", size, op.dtype).reshape(op.shape))  # type: ignore[arg-type]
        params = workspace.kernels.params[number].copy()
        params[: FIXED + len(out)] = [address(nodes), address(nothing), address(nothing), 0, *map(address, out)]
        self.reached.update(of for of in made.of if of in grads)
        keep = record, node, nothing, nodes
        return Pull(out, [*map(grads.get, made.of)], g, self.of.entries[number], params, keep)

    def _swept(self, spec: KernelSpec, value: int, g: Array, numbers: Sequence[int]) -> list[tuple[int, Array]]:
        """Return the parts that the gradient of a value adds to those of shared tensors, by the definition."""
        arrays, given = self.prepared.arrays, [self.prepared.given[n] for n in numbers]
        operands = [arrays[o.index] if o.kind == "shared" else given[o.index] if given else None for o in spec.operands]
        with np.errstate(all="ignore"):
            adjoints = sweep(spec, operands, (), {value: g})
        return [(o.index, adjoints[v]) for v, o in enumerate(spec.operands) if o.kind == "shared" and v in adjoints]

    def _heads(self, first: int, count: int) -> Words:
        """Return rows of HEAD."""
        return self.heads[words.HEAD.count * first : words.HEAD.count * (first + count)].reshape(-1, words.HEAD.count)

    def own_adjoints(self) -> list[Array | None]:
        """Return the adjoint of each array of instances, or None."""
        if not self.own.arrays:
            return []
        heads = self._heads(self.n * self.most + self["shareds"], self["owns"])
        self.of.backend.fetch(partial(self.own.places_of, heads))
        return self.own.adjoints(heads, lambda k, width: self._rows_read(self["shareds"] + k, width))

    def _rows_read(self, k: int, width: int) -> Words | None:
        """Return the rows that adjoints of input k are for, or None if an adjoint is for all of it.

        Inputs are shared tensors, then arrays of instances.
        """
        link, call = int(self.firsts[k]), self.of.library.call
        count = call("rows_of_links", link, width, 0) if link and width else -1
        if count < 0:
            return None
        rows = np.empty(count, np.int64)
        call("rows_of_links", link, width, address(rows))
        return rows

    # ---- transposition

    def _run(self, stop: int) -> None:
        """Run compiled code up to a stage, again with more memory where it was too small."""
        of, workspace, view, at, own = self.of, self.workspace, self.words, words.BACK.at, self.own
        seeds, links, places = self.seeds, of.links, of.places
        table = own.table(of.adder) if own.arrays else workspace.nothing
        held = [np.ascontiguousarray(x, np.int64) for x in (seeds.records, seeds.adjoints, seeds.instances)]
        self._keep = [*held, table]
        view[at["losses"]], view[at["seeds"]], view[at["loss_of"]] = map(address, held)
        view[at["losses_count"]] = len(held[0])
        view[at["own"]], view[at["owns"]] = address(table), len(own.arrays) and len(table) - 1
        view[at["stage"]], view[at["stop"]] = words.TO_COUNT, stop
        sizes = [arena.size for arena in workspace.arenas]
        if not sizes or sizes[0] < links.wanted or sizes[1] < places.wanted:
            self._take(links.wanted, places.wanted)
        call, graph = of.library.function("backward"), self.buffers.address
        while (status := call(graph, workspace.at, self.state.at)) != DONE:
            if status != PAUSE:
                self._grow(status)
        used, placed = self._measure()
        links.wanted, places.wanted = max(used, _LINKS), max(placed, _PLACES)
        self.heads, self.firsts = workspace.tables["heads"], workspace.tables["firsts"]

    def _take(self, links: int, places: int) -> None:
        """Take memory for links and results."""
        view, at, of = self.words, words.BACK.at, self.of
        self.workspace.arenas = found = of.links.take(links), of.places.take(places)
        for name, arena in zip(("links", "place"), found, strict=True):
            view[at[f"{name}_at"]], view[at[f"{name}_end"]] = arena.address, arena.address + arena.size

    def _measure(self) -> tuple[int, int]:
        """Return how many bytes links and results take; raise if there is no room for them."""
        view, at, (links, place) = self.words, words.BACK.at, self.workspace.arenas
        used, placed = view[at["links"]] - links.address, view[at["place"]] - place.address
        heads = self.n * self.most + view[at["shareds"]] + view[at["owns"]]
        tables = view[at["row_bytes"]] + 8 * (words.HEAD.count + sums.SUM.count) * heads
        self.bytes = self.before + used + placed + tables
        self.of.forward.memory_policy.check_back(self.bytes, placed - place.size)
        return used, placed

    def _grow(self, status: int) -> None:
        """Grow the memory that compiled code asks for."""
        workspace, view, at = self.workspace, self.words, words.BACK.at
        if status == words.NEEDS_ROOM:
            workspace.room(self.n, view[at["shareds"]] + view[at["owns"]], self.buffers["batches"])
        elif status == words.NEEDS_SCRATCH:
            self.state.begin(view[at["batches"]], view[at["scratch"]], self.threads)
        elif status == words.NEEDS_HELD:
            workspace.hold(view[at["held_need"]])
        else:
            (used, placed), (links, place) = self._measure(), workspace.arenas
            workspace.zeros_of(view[at["largest"]])
            self._take(max(used, links.size), max(placed, place.size))

    def _whole(self) -> dict[int, Gradient]:
        """Run the backward pass in one compiled call; return the gradients of shared tensors."""
        of, workspace = self.of, self.workspace
        made, start = Pieces(of.sums_of_all).arrays(*workspace.forms)
        np.add(workspace.offsets, start, workspace.adds[: len(made), words.TOTAL.at["to"]])
        pool = threads_of_process() if self.threads > 1 else None
        self.state["pool"] = workspace.adding["pool"] = pool.enter(self.threads) if pool is not None else 0
        try:
            self._run(words.ADDED)
        finally:
            if pool is not None:
                pool.leave(self.threads)
        blank = workspace.adds[:, words.TOTAL.at["blank"]].tolist()
        self.reached = {k for k, empty in zip(of.wanted, blank, strict=False) if not empty}
        inner = zip(workspace.inner.items(), blank[len(of.wanted) :], strict=False)
        self._pull_all(grads := dict(zip(of.wanted, made, strict=True)), [g for g, empty in inner if not empty])
        return grads  # type: ignore[return-value]

    # ---- sums over nodes

    def _collect(self) -> Collected:
        """Return the addresses of the rows of each sum."""
        counts = self.workspace.counts
        ends = counts.cumsum()
        every = np.empty(int(ends[-1]) + 1, np.int64)
        at, starts = address(every), ends - counts
        self.workspace.places[:] = starts * 8 + at
        self.of.library.call("collect", self.buffers.address, self.workspace.at)
        return Collected(every, at, counts.tolist(), starts.tolist())
