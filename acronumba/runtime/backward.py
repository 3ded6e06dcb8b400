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
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.backward.derive import Pullback
from acronumba.analysis.backward.program import BackwardPlan
from acronumba.analysis.backward.reference import sweep
from acronumba.config import interpreted
from acronumba.data.row_grad import Gradient
from acronumba.emit import target, tree
from acronumba.emit.compile import Compiled, Deferred, load
from acronumba.ir.spec import FIXED, plan_words
from acronumba.kernels import sums
from acronumba.memory import Array, DeviceTensor, DType, Words, address, aligned
from acronumba.records import record
from acronumba.runtime.back_rows import BackRows
from acronumba.runtime.backends import Backend, BackwardMemory, CpuBackend
from acronumba.runtime.batches import Batches
from acronumba.runtime.buffers import KEPT_IN_TRAINING, ArenaPool, Buffers, Pieces
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Native
from acronumba.runtime.instances import Own
from acronumba.runtime.joint import joint
from acronumba.runtime.kernel_table import KernelTable
from acronumba.runtime.library import back_words as words
from acronumba.runtime.packing import Packer
from acronumba.runtime.program import KernelEntry, PackingLike
from acronumba.runtime.reference import replace_outer
from acronumba.runtime.run import Run
from acronumba.runtime.shared import Forms, Prepared
from acronumba.runtime.state import TABLE
from acronumba.runtime.summing import Collected, Sums, forms_of, tables_of
from acronumba.runtime.tables import Tables
from acronumba.runtime.trace import BackRecord

# Functions that are called from Python.
_CALLED = ("transpose", "make_room", "join", "pack_all", "collect", "rows_of_links", "read_scalars")
_LINKS = 1 << 16  # bytes of the first room for links
_PLACES = 1 << 20  # bytes of the first memory for results
_ZEROS = 1 << 12  # bytes of the first zeros
_DTYPES = ("float32", "float64")
_NO_TABLES = Tables((), {}, {}, (), {})
_KEPT = 1 << 22  # words of an array that is not kept for the next mini-batch


def transposer() -> tree.Module:
    """Return the module of `runtime.library.transpose` and the files that it calls."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(
        [f"acronumba.runtime.library.{name}" for name in ("own", "adjoints", "extents", "transpose")]
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
    return [dtype for dtype in _DTYPES if dtype in found]


@record(kw_only=True, eq=False)
class Seeds:
    """Start of the backward pass: the value records of losses, and their adjoints."""

    records: Words  # addresses of the value records of losses, or of other results
    adjoints: Words  # addresses of their adjoints
    instances: Words  # of each: the number of its instance
    keep: Sequence[Array] = ()  # arrays that the adjoints lie in


class Done(NamedTuple):
    """Result of a mini-batch's backward pass."""

    shared: dict[int, Gradient]  # gradients of shared tensors, by their number
    reached: set[int]  # numbers of the shared tensors that a result depends on; the others have zeros
    own: list[Array | None]  # gradients of arrays of instances
    records: Sequence[BackRecord]  # its batches, if they were timed
    loss: tuple[DeviceTensor, DType] | None  # the sum of the losses, as float64, if it stays on a device; their dtype
    bytes: int  # of memory, forward and backward pass together


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
        self.rows = BackRows(back, {dtype: self.adder(dtype) for dtype in _DTYPES})
        self.forms = forms_of(self.rows.sums, back.plan, self.backend.on, forward.threads)
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
        return len(self.back.specs) + _DTYPES.index(dtype)

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
            shared = way.gradients(sorted(tables))
            records, forms, loss = way.records() if timed else (), run.prepared.forms, None
            if forms is not None and len(seeds.keep) == 1:
                dtype = seeds.keep[0].dtype
                total = self.backend.total(forms, self.places_of(seeds.records), dtype.name)
                loss = None if total is None else (total, dtype)
            out = Done(shared, way.reached, way.own_adjoints(), records=records, loss=loss, bytes=way.bytes)
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


class Workspace:
    """Workspace of a backward pass: tables and packed weights. Later mini-batches reuse it."""

    def __init__(self, of: BackwardExecutable) -> None:
        specs = of.back.specs
        self.of = of
        self.words: Words = np.zeros(words.BACK.count, np.int64)
        self.at, self.view = address(self.words), self.words.data  # faster than the array
        strategy = of.forward.options.decisions
        self.kernels = KernelTable(specs, of.entries, strategy, of.engine.reach, step=8, more=len(_DTYPES))
        self.nodes = Batches(self.kernels.rows, max((len(s.results) for s in specs), default=1), strategy.unit)
        self.sums = Batches(np.zeros((1, len(TABLE)), np.int64), 1, strategy.unit)
        self.packer = Packer(of.library, of.packings[1])
        self.zeros: Words = np.zeros(_ZEROS // 8, np.int64)
        self.zeros_at = address(self.zeros)
        self.arrays: dict[str, tuple[Words, int]] = {}  # with their addresses
        self._places: dict[str, NDArray[np.uint8]] = {}
        self._prepared: Prepared | None = None
        self.inputs: Words  # int64[3, shared]: see `_inputs`
        self.stay: list[int] = []  # numbers of the shared tensors whose gradients stay on a device
        self.read: dict[int, Array] = {}  # shared tensors as kernels want them, by their addresses
        for dtype in of.sums:
            self.kernels.add_function(of.adder(dtype), *of.backend.adder(dtype), cost=500)

    def array(self, name: str, length: int) -> tuple[Words, int]:
        """Return an uninitialised int64 array of at least `length` words, and its address; keep it for later."""
        made = np.empty(length + length // 4, np.int64)
        if length <= _KEPT:
            self.arrays[name] = made, address(made)
        return made, address(made)

    def place(self, name: str, size: int, dtype: str) -> Array:
        """Return uninitialised bytes aligned to 64; a name always returns the same memory."""
        if name not in self._places or self._places[name].nbytes < size:
            self._places[name] = aligned(size)
        return self._places[name][:size].view(dtype)

    def zeros_of(self, size: int) -> None:
        """Grow the memory of zeros to `size` bytes."""
        if size > self.zeros.nbytes:
            self.zeros = np.zeros(size // 8 + 8, np.int64)
            self.zeros_at = address(self.zeros)

    def pack(self, prepared: Prepared) -> None:
        """Pack shared tensors in the layouts of the backward kernels."""
        arrays, here, specs = prepared.arrays, prepared is self._prepared, self.of.back.specs
        on_device = len(specs) - len(self.of.back.pullbacks)  # the others run here
        if prepared.forms is not None:
            pulled = (o.index for spec in specs[on_device:] for o in spec.operands if o.kind == "shared")
            prepared.forms.refresh([arrays[k] for k in pulled])
        if not here:
            self.read, self.inputs = {}, self._inputs(prepared)
            self.inputs_at = address(self.inputs)
            forms = prepared.forms
            self.stay = [] if forms is None else [k for k in self.of.wanted if forms.holds(arrays[k])]
            self.forms = [(arrays[k].shape, t, arrays[k].size * t.itemsize)
                          for k, t in zip(self.of.wanted, self.of.dtypes, strict=True)]  # fmt: skip
        self._prepared = None
        if here and self.packer.repeat():
            self._prepared = prepared
            return
        self.packer.restart()
        for number, (spec, entry, params) in enumerate(zip(specs, self.of.entries, self.kernels.params, strict=True)):
            forms = prepared.forms if number < on_device else None
            for k, use in enumerate(entry.shared):
                if use.packing is not None or not here:
                    given = [arrays[spec.operands[v].index] for v in use.operands]
                    found = given[0] if use.packing is None else self._packed(use.packing, given, forms)
                    params[FIXED + len(spec.results) + k] = at = address(found)
                    self.read[at] = found
        if prepared.forms is not None:
            prepared.forms.renew()
        self._prepared = prepared

    def _packed(self, packing: PackingLike, given: Sequence[Array], forms: Forms | None) -> Array:
        form = None if forms is None else forms.form(packing, given)
        return packing.apply(*given, by=self.packer) if form is None else form

    def _inputs(self, prepared: Prepared) -> Words:
        """Return, for each shared tensor, its address, its size in bytes, and the kernel that adds up its adjoints."""
        table = np.zeros((3, len(prepared.table)), np.int64)
        for k, array in prepared.arrays.items():
            dtype = array.dtype.name
            table[:, k] = address(array), array.nbytes, self.of.adder(dtype) if dtype in self.of.sums else 0
        return table


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
        self.before, self.bytes = run.buffers.peak, 0  # of memory: of the forward pass; of both passes

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

    def gradients(self, tables: Sequence[int]) -> dict[int, Gradient]:
        """Run the backward pass; return the gradients of shared tensors."""
        of, program, arrays, kernels = self.of, self.back.plan.program, self.prepared.arrays, self.back.plan.kernels
        counts, backend = self._transpose(), of.backend
        backend.execute(self._memory, self.state, self["batches"], self["scratch"])
        heads = self._heads(self.n * self.most, len(self.prepared.table))
        read = {*tables, *(once.index for once in program.once)} & {*self.back.wanted} if tables else set()
        linked = [k for k in sorted(read) if heads[k, words.HEAD.at["key"]]]
        if linked or of.rows.numbers_are_computed or any(self.own.by_rows):  # these say which rows
            backend.fetch_all()
        self.collected = found = self._collect(counts)
        by_rows, shapes = _NO_TABLES, self.workspace.forms
        if tables:
            by_rows = self._tables(tables, linked)
            found_shapes = [by_rows.shape(k, arrays[k].shape) for k in of.wanted]
            shapes = [(n, t, t.itemsize * math.prod(n)) for n, (_, t, _) in zip(found_shapes, shapes, strict=True)]
        made, ats = Pieces(of.sums_of_all).arrays(shapes)
        grads = dict(zip(of.wanted, made, strict=True))
        addresses = dict(zip(of.wanted, ats, strict=True))
        totals = Sums(kernels, self.prepared, grads, addresses, of.sums, backend.on, by_rows, self.threads)
        stay = [grads[k] for k in self.workspace.stay]
        there = backend.add_up(totals.jobs(found, of.rows.sums, of.forms, heads), self.workspace.sums, stay)
        self.reached = totals.reached
        self._late: list[tuple[Array, Array]] = []  # parts of sums that stay
        for (k, v), g in totals.inner.items():
            self._pull(grads, k, v, g, there)
        for once in reversed(program.once):
            if once.index not in grads:
                continue
            g = grads.pop(once.index)
            if once.index in self.reached:
                self._pull(grads, once.kernel, kernels[once.kernel].results[0], g, there, once.numbers)
        if self._late:
            backend.add_to(there, self._late)
        if not tables and not there:
            return grads  # type: ignore[return-value]
        return {k: by_rows.gradient(k, there.get(address(g), g), arrays[k].shape) for k, g in grads.items()}

    def _tables(self, tables: Sequence[int], linked: Sequence[int]) -> Tables:
        """Return the tables whose gradients are returned by rows; `linked`: those that nodes read like other values."""
        arrays = self.prepared.arrays
        found = [self.collected.of(s) for s in self.of.rows.sums if self.collected.counts[s.first]]
        ordinary = {
            k: self._rows_read(k, arrays[k].nbytes // max(len(arrays[k]), 1) if arrays[k].ndim else 0) for k in linked
        }
        return tables_of(tables, found, ordinary, self.back.plan, self.prepared)

    def _pull(
        self, grads: dict[int, Array], k: int, value: int, g: Array, there: Mapping[int, Array],
        numbers: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Take the gradient of a value of a kernel that is made of shared tensors alone back to them.

        `there`: the gradients that stay on a device; `numbers`: the shared numbers that are the kernel's arguments.
        """
        arrays, spec = self.prepared.arrays, self.back.plan.kernels[k]
        if (k, value) in self.of.pullbacks:
            made = self.back.pullbacks[k, value]
            found = list(zip(made.of, self._pulled(self.of.pullbacks[k, value], made, g, numbers), strict=True))
        else:
            given = [self.prepared.given[n] for n in numbers]
            if self.prepared.forms is not None:
                self.prepared.forms.refresh([arrays[o.index] for o in spec.operands if o.kind == "shared"])
            operands = [
                arrays[o.index] if o.kind == "shared" else given[o.index] if given else None for o in spec.operands
            ]
            with np.errstate(all="ignore"):
                adjoints = sweep(spec, operands, (), {value: g})
            found = [
                (o.index, adjoints[v]) for v, o in enumerate(spec.operands) if o.kind == "shared" and v in adjoints
            ]
        for of, part in found:
            if of in grads:
                if address(grads[of]) in there:
                    self._late.append((grads[of], part))
                else:
                    grads[of] += part
                self.reached.add(of)

    def _pulled(self, number: int, made: Pullback, g: Array, numbers: Sequence[int]) -> list[Array]:
        """Run the pullback's kernel, on a batch of one node."""
        workspace, spec, entry = self.workspace, made.spec, self.of.entries[number]
        record: Words = np.array([address(g), -1, 0])
        words_of = [
            address(record) if s.kind == "adjoint" else self.prepared.table[numbers[s.number]] for s in made.arguments
        ]
        node, nothing = np.array([*words_of, 0], np.int64), np.zeros(1, np.int64)
        nodes, sizes = np.array([address(node)]), np.zeros(plan_words(len(spec.results)), np.int64)
        out = []
        for j, v in enumerate(spec.results):
            op = spec.body[v - len(spec.operands)]
            shape = tuple(int(n) for n in op.shape)  # type: ignore[arg-type]
            size = math.prod(shape) * np.dtype(op.dtype).itemsize
            out.append(workspace.place(f"{number} {j}", size, op.dtype).reshape(shape))
        params = workspace.kernels.params[number]
        params[: FIXED + len(out)] = [address(nodes), address(nothing), address(nothing), 0, *map(address, out)]
        self.of.engine.kernel(entry.plan, address(nothing), address(sizes))
        scratch = workspace.place("scratch", int(sizes[0]) + 64, "uint8")
        self.of.engine.kernel(entry.run, address(params), 0, 1, address(scratch))
        return out

    def _heads(self, first: int, count: int) -> Words:
        """Return rows of HEAD."""
        return self.heads[words.HEAD.count * first : words.HEAD.count * (first + count)].reshape(-1, words.HEAD.count)

    def own_adjoints(self) -> list[Array | None]:
        """Return the adjoint of each array of instances, or None."""
        if not self.own.arrays:
            return []
        heads = self._heads(self.n * self.most + self["shareds"], self["owns"])
        self.of.backend.fetch(partial(self.own.places_of, heads))
        return self.own.adjoints(
            heads,
            lambda k, width: self._rows_read(self["shareds"] + k, width),
        )

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

    def _fill(self) -> tuple[int, dict[str, Words]]:
        """Fill the words that `transpose` reads, but for places in memory that may have to grow.

        Return the bytes of its tables, and these.
        """
        of, buffers, workspace, seeds, at = self.of, self.buffers, self.workspace, self.seeds, words.BACK.at
        view, call, n, most = self.words, of.library.call, self.n, self.most
        own, shareds = self.own.table(of.adder), len(self.prepared.table)
        owns = len(own) - 1
        workspace.words[:] = 0
        view[at["table"]], view[at["most"]] = of.rows.table, most
        call("make_room", buffers.address, workspace.at)
        entries, row_bytes = view[at["entries"]], view[at["row_bytes"]]
        heads = n * most + shareds + owns
        self.state.room((2 + of.most) * buffers["batches"] + shareds + owns + 1, entries + heads)
        workspace.words[:] = 0
        tables, known = {}, workspace.arrays
        for name, length in (
            ("heads", words.HEAD.count * heads), ("firsts", shareds + owns + 1), ("row_of", n + 1), ("alive", n + 1),
            ("rows", row_bytes // 8 + sums.SUM.count * heads + 1), ("of", entries + 1), ("there", entries + 1),
            ("turns", entries + 1), ("counts", of.rows.parts + 1),
        ):  # fmt: skip
            last = known.get(name)
            tables[name], view[at[name]] = (
                last if last is not None and len(last[0]) >= length else workspace.array(name, length)
            )
        self.heads, self.firsts = tables["heads"], tables["firsts"]
        for name, k in (("arrays", 0), ("sizes", 1), ("adds", 2)):
            view[at[name]] = workspace.inputs_at + k * workspace.inputs.strides[0]
        for name, given in (
            ("losses", seeds.records), ("seeds", seeds.adjoints), ("loss_of", seeds.instances), ("own", own),
        ):  # fmt: skip
            tables[name] = held = np.ascontiguousarray(given, np.int64)
            view[at[name]] = address(held)
        view[at["table"]], view[at["most"]], view[at["owns"]] = of.rows.table, most, owns
        view[at["shared"]], view[at["shareds"]] = self.prepared.records_at, shareds
        view[at["losses_count"]] = len(seeds.records)
        return row_bytes + 8 * (words.HEAD.count + sums.SUM.count) * heads, tables

    def _transpose(self) -> Words:
        """Make the batches, again with more memory if it was too small. Return the number of rows of each sum."""
        of, buffers, workspace, view, at = self.of, self.buffers, self.workspace, self.words, words.BACK.at
        table_bytes, tables = self._fill()
        counts = tables["counts"][: of.rows.parts + 1]
        start = workspace.words.copy()
        while True:
            links, place = of.links.take(of.links.wanted), of.places.take(of.places.wanted)
            workspace.words[:] = start
            counts[:] = 0
            view[at["zeros"]] = workspace.zeros_at
            view[at["links"]], view[at["links_end"]] = links.address, links.address + links.size
            view[at["place"]], view[at["place_end"]] = place.address, place.address + place.size
            of.library.call("transpose", buffers.address, workspace.at, self.state.at)
            used, placed = view[at["links"]] - links.address, view[at["place"]] - place.address
            self.bytes = self.before + used + placed + table_bytes
            of.forward.memory_policy.check_back(self.bytes, placed - place.size)
            largest = view[at["largest"]]
            if not view[at["lost"]] and placed <= place.size and largest <= workspace.zeros.nbytes:
                break
            of.links.wanted, of.places.wanted = max(used, links.size), max(placed, place.size)
            workspace.zeros_of(largest)
        of.links.wanted, of.places.wanted = max(used, _LINKS), max(placed, _PLACES)
        self._keep = links, place, tables
        self._memory = BackwardMemory(
            run=self.run,
            read=[*workspace.read.values(), *self.seeds.keep],
            zeros=workspace.zeros,
            start=place.address,
            size=placed,
        )
        return counts

    # ---- sums over nodes

    def _collect(self, counts: Words) -> Collected:
        """Return the addresses of the rows of each sum."""
        ends = counts.cumsum()
        every = np.empty(int(ends[-1]) + 1, np.int64)
        at, starts = address(every), ends - counts
        places = starts * 8 + at
        self["places"] = address(places)
        self.of.library.call("collect", self.buffers.address, self.workspace.at)
        return Collected(every, at, counts.tolist(), starts.tolist())
