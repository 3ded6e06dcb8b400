"""The way back of a mini-batch: gradients of shared tensors.

In: a run whose kernels have kept what the way back needs, and the value records of the losses. Out: the gradient of
each shared tensor that is wanted. Three steps: the recorded graph is transposed by compiled code
(`runtime.library.transpose`); its batches run like any others; then the sums over nodes (`kernels.sums`) do. What a
kernel makes of shared tensors alone has one such sum; it is pulled back to the tensors at the end, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.backward.derive import Backward, Give, Part, Source, Term
from acronumba.analysis.backward.program import WayBack
from acronumba.analysis.backward.reference import sweep
from acronumba.data.words import RECORD
from acronumba.emit import target, tree
from acronumba.emit.compile import Compiled, load
from acronumba.ir.reference import names_of_values
from acronumba.ir.spec import FIXED, Dim, KernelSpec, Size
from acronumba.kernels import sums
from acronumba.kernels.cost import cost
from acronumba.kernels.tiles import TYPES
from acronumba.memory import address
from acronumba.runtime.batches import Batches
from acronumba.runtime.buffers import ArenaPool, Buffers, Pieces, Words
from acronumba.runtime.driver import Executable, ways_of_rows
from acronumba.runtime.engines import Native
from acronumba.runtime.instances import Own
from acronumba.runtime.jobs import Here, Job, Place, WayMemory
from acronumba.runtime.joint import joint
from acronumba.runtime.library import back_words as words
from acronumba.runtime.packing import Packer
from acronumba.runtime.program import KernelEntry
from acronumba.runtime.run import Run
from acronumba.runtime.state import TABLE
from acronumba.runtime.tables import Tables, made_of, shared_in
from acronumba.runtime.trace import BackRecord

_CALLED = ("transpose", "make_room", "join", "pack_turned", "collect", "count_rows_of")  # from Python
_LINKS = 1 << 16  # bytes of the first room for links
_PLACES = 1 << 20  # bytes of the first room for what is computed
_DTYPES = ("float32", "float64")
_WAYS = {"whole": words.OF_WHOLE, "row": words.OF_ROWS, "item": words.OF_ITEMS}


def transposer() -> tree.Module:
    """Return the library code of `runtime.library.transpose` and `own`."""
    from acronumba.emit.parse import parse_files

    functions = parse_files([f"acronumba.runtime.library.{name}" for name in ("own", "transpose")])
    return tree.Module("transpose", functions, _CALLED, "The way back.", compact=True)


def dtypes_of(back: WayBack) -> list[str]:
    """Return the dtypes of sums on a way back."""
    params = back.plan.program.shared
    found = {params[k].type.dtype for k in back.wanted}  # type: ignore[union-attr]
    for spec in back.plan.kernels:
        found |= {spec.body[v - len(spec.operands)].dtype for v in spec.results}
    return [dtype for dtype in _DTYPES if dtype in found]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """The parts of a sum over the nodes of a kernel."""

    kernel: int
    name: str
    term: Term
    dtype: str
    parts: tuple[Part, ...]  # those of the term, then the number of the matrix of a stack, if there is one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seeds:
    """Where the way back begins."""

    records: Words  # addresses of the value records of losses, or of other results
    adjoints: Words  # addresses of their adjoints
    instances: Words  # of each: the number of its instance
    keep: Sequence[NDArray[Any]] = ()  # what the adjoints lie in


class Done(NamedTuple):
    """What a mini-batch has come to on the way back."""

    shared: dict[int, Any]  # gradients of shared tensors, by their number
    own: list[NDArray[Any] | None]  # gradients of arrays of instances
    records: Callable[[], tuple[BackRecord, ...]]  # its batches


class BackExecutable:
    """The way back of a plan, ready to run.

    Parameters
    ----------
    forward
        What runs the plan of `back`.
    back
        The derivative.
    engine, entries
        Backward kernels, in the order of `back.specs`.
    library
        Of `transposer`.
    place
        Where it runs; the processor, if it is not given.
    """

    def __init__(
        self, forward: Executable, back: WayBack, engine: Native, entries: Sequence[KernelEntry], library: Compiled,
        place: Place | None = None,
    ) -> None:  # fmt: skip
        self.forward, self.back, self.engine, self.entries, self.library = forward, back, engine, entries, library
        self.sums = {dtype: load([sums.deferred(dtype, target.host())])[0] for dtype in dtypes_of(back)}
        self.place = place or Here(engine, self.sums, forward.threads)
        self.costs = [cost(spec) for spec in back.specs]
        self.most = max((len(b.forward.results) - len(b.kept) for b in back.kernels if b is not None), default=0)
        self._keep: list[Words] = []
        self.table = self._rows([self._kernel(k) for k in range(len(back.kernels))])
        self.parts = [
            _Parts(
                kernel=k,
                name=f"{t.kind} {names_of_values(b.forward)[t.of]}",
                term=t,
                dtype=t.parts[-1].dtype,
                parts=(*t.parts, *(() if t.row is None else (t.row,))),
            )
            for k, b in enumerate(back.kernels)
            if b is not None
            for t in b.terms
        ]
        self.numbers_are_computed = any(_reads_numbers(b) for b in back.kernels if b is not None)
        self.links, self.places = ArenaPool(_LINKS), ArenaPool(_PLACES)
        self.sums_of_all = ArenaPool(0)  # memory for gradients
        self.packings = ArenaPool(0), ArenaPool(0)  # ... for weights packed on the way there, and back
        forward.shared.packer = partial(Packer, library, self.packings[0])
        self.zeros = 1 << 12  # bytes of zeros: as many as the largest adjoint of the last mini-batches had

    def packer(self) -> Packer:
        """Return what packs weights for the way back of a mini-batch."""
        return Packer(self.library, self.packings[1])

    # ---- tables

    def _rows(self, rows: Sequence[Sequence[int]]) -> int:
        """Return the address of words that stay."""
        array = np.array([x for row in rows for x in row] or [0], np.int64)
        self._keep.append(array)
        return address(array)

    def _extent(self, shape: Sequence[Size], factor: int = 1) -> list[int]:
        """Return a row of EXTENT for the product of extents and a factor."""
        dims = [n.index for n in shape if isinstance(n, Dim)]
        factor *= math.prod(n for n in shape if isinstance(n, int))
        return [factor, len(dims), self._rows([dims]) if dims else 0]

    def _adder(self, dtype: str) -> int:
        """Return the number of the kernel that adds up adjoints of a dtype."""
        return len(self.back.specs) + _DTYPES.index(dtype)

    def _kernel(self, k: int) -> list[int]:
        back = self.back.kernels[k]
        if back is None:
            spec = self.back.plan.kernels[k]
            none = self._rows([[-1] * len(spec.results)])
            return [0, -1, len(spec.results), none, 0, 0, 0, 0, 0, *self._places(spec), 0, 0]
        spec = back.forward
        own = [spec.body[v - len(spec.operands)].dtype for v in spec.results[: len(spec.results) - len(back.kept)]]
        read = _adjoints_read(back)
        adds = self._rows([[self._adder(d) if j in read else -1 for j, d in enumerate(own)]])
        number = self.back.number[k]
        args = self._rows([self._source(back, s) for s in back.arguments])
        gives = self._rows([self._give(back, g) for g in back.gives])
        results = len(self.back.specs[number].results) if number >= 0 else 0
        width, rows = 8 * (len(back.arguments) + results + len(own)), 0
        if spec.rows is not None:  # behind it lies what stands for a row of the forward node
            given = sum(o.kind != "shared" for o in spec.operands)
            width += 8 * (2 * given + spec.dims) + RECORD.size * len(spec.results)
            ways = ways_of_rows(spec)
            self._keep.append(ways)
            rows = address(ways)
        return [
            1, number, len(own), adds, len(back.arguments), args, results, len(back.gives), gives, *self._places(spec),
            width, rows,
        ]  # fmt: skip

    def _places(self, spec: KernelSpec) -> list[int]:
        args = sum(o.kind != "shared" for o in spec.operands)
        return [8 * (args + spec.dims), args]

    def _source(self, back: Backward, source: Source, size: int = 4, number: bool = False) -> list[int]:
        """Return a row of SOURCE; `size`: bytes of an element."""
        kinds = {"result": words.OF_RESULT, "adjoint": words.OF_ADJOINT, "backward": words.OF_BACKWARD}
        if source.kind == "argument":
            o = next(o for o in back.forward.operands if o.kind != "shared" and o.index == source.number)
            kind = words.AS_NUMBER if o.kind not in ("tensor", "list") else words.OF_ARGUMENT
            return [kind, source.number, source.start * size, 0, 0, 0, 0]
        if source.row is None:
            return [kinds[source.kind], source.number, source.start * size, 0, 0, 0, 0]
        of, place, *_ = self._source(back, source.row, 8)
        table = next(o for o in back.forward.operands if o.kind == "shared" and o.index == source.number)
        width = math.prod(n for n in table.shape[1:] if isinstance(n, int)) * size
        return [words.OF_TABLE, source.number, source.start * size, of, place, width, int(table.shape[0])]  # type: ignore[arg-type]

    def _give(self, back: Backward, give: Give) -> list[int]:
        o = back.forward.operands[give.operand]
        size = np.dtype(o.dtype).itemsize
        source = self._source(back, give.source, size)
        rows = back.forward.rows
        way = words.OF_WHOLE if rows is None else _WAYS[rows[o.index]]
        if o.kind == "list":
            return [*source, o.index, 1, way, 0, 0, *[0] * 7, *self._extent(o.shape[1:], size), 0, 0, 0, 0, 0, 0]
        how = words.PART_ALL if give.row is None else words.PART_AT if isinstance(give.row, int) else words.PART_BY
        at = give.row if isinstance(give.row, int) else 0
        row = self._source(back, give.row, 8) if isinstance(give.row, Source) else [0] * 7
        extents = (self._extent(give.shape, size), self._extent(o.shape[1:], size), self._extent(o.shape[:1]))
        return [*source, o.index, 0, way, how, at, *row, *(x for e in extents for x in e)]

    # ---- a mini-batch

    def gradients(self, run: Run, seeds: Seeds, own: Own, tables: Collection[int] = ()) -> Done:
        """Return the gradients of the shared tensors that are wanted, and those of arrays of instances.

        Those of `tables` are wanted by rows: they are a `RowGrad`, unless more than rows of them is read.
        """
        several = len(run.nodes_of_rounds) > 1
        graph = joint(self.forward, run, self.library) if several else run.buffers
        with self.place.turn():
            way = _Run(self, run, graph, seeds, own, tables)
            out = Done(shared=way.gradients(), own=way.own_adjoints(), records=way.records)
        if several:
            self.forward.give_buffers(graph)
        return out


def _reads_numbers(back: Backward) -> bool:
    """Whether sums over the nodes of a kernel ask for numbers of rows that some kernel may have computed."""
    parts = [p for t in back.terms for p in (*t.parts, *(() if t.row is None else (t.row,)))]
    found = [p.source for p in parts if p.dtype == "int64"]
    found += [p.source.row for p in parts if p.source.row is not None]
    given = {o.index for o in back.forward.operands if o.kind not in ("shared", "tensor", "list")}
    return any(s.kind != "argument" or s.number not in given for s in found)


def _adjoints_read(back: Backward) -> set[int]:
    """Return the results whose adjoints the way back reads."""
    parts = [p for t in back.terms for p in (*t.parts, *(() if t.row is None else (t.row,)))]
    sources = [*back.arguments, *(g.source for g in back.gives), *(p.source for p in parts)]
    return {s.number for s in sources if s.kind == "adjoint"}


class _Run:
    """The way back of one mini-batch."""

    def __init__(
        self, of: BackExecutable, run: Run, graph: Buffers, seeds: Seeds, own: Own, tables: Collection[int]
    ) -> None:
        self.of, self.run, self.back = of, run, of.back
        self.buffers, self.prepared = graph, run.prepared
        self.n = self.buffers["n"]
        self.losses, self.seeds, self.loss_of = (
            np.ascontiguousarray(x, np.int64) for x in (seeds.records, seeds.adjoints, seeds.instances)
        )
        self.own, self.by_rows, self.given = own, set(tables), seeds.keep
        self.words: Words = np.zeros(words.BACK.count, np.int64)
        self.state = Batches(
            len(self.back.specs) + len(_DTYPES), max((len(s.results) for s in self.back.specs), default=1)
        )
        self._kernels()

    def __setitem__(self, name: str, value: int) -> None:
        self.words[words.BACK.at[name]] = value

    def __getitem__(self, name: str) -> int:
        return int(self.words[words.BACK.at[name]])

    def _kernels(self) -> None:
        """Describe the kernels of the way back, with shared tensors packed as they want them."""
        self.packed: list[NDArray[Any]] = []
        packer = self.of.packer()
        for k, (spec, entry) in enumerate(zip(self.back.specs, self.of.entries, strict=True)):
            shared = []
            for use in entry.shared:
                arrays = [self.prepared.arrays[spec.operands[v].index] for v in use.operands]
                shared.append(arrays[0] if use.packing is None else use.packing.apply(*arrays, by=packer))
            self.packed += shared
            params = np.array([0] * (FIXED + len(spec.results)) + [*map(address, shared), *entry.tiles], np.int64)
            self.state.add(k, entry.run, params, self.of.costs[k])
            row = self.state.table[k]
            row[TABLE["plan"]], row[TABLE["results"]] = entry.plan, len(spec.results)
            if entry.stages:
                shares = np.array([(s.address, s.cost, s.weights // 100) for s in entry.stages], np.int64)
                self.packed.append(shares)
                row[TABLE["begin"]], row[TABLE["stages"]] = entry.begin, len(shares)
                row[TABLE["shares"]] = address(shares)
        for dtype in self.of.sums:
            run, tail = self.of.place.adder(dtype)
            self.state.add(self.of._adder(dtype), run, np.array([0] * FIXED + [*tail], np.int64), 500)

    def records(self) -> tuple[BackRecord, ...]:
        """Return the batches in order of execution."""
        batches, columns = self["batches"], self.state.keep
        numbers = columns["keytab"][: 2 * batches : 2].tolist() if batches else []
        sizes = np.diff(columns["bstart"][: batches + 1]).tolist() if batches else []
        names = [spec.name for spec in self.back.specs]
        return (
            *(
                BackRecord(kernel=names[k] if k < len(names) else "adjoints", size=size,
                           what="nodes" if k < len(names) else "adjoints")
                for k, size in zip(numbers, sizes, strict=True)
            ),
            *self.summed,
        )  # fmt: skip

    def gradients(self) -> dict[int, Any]:
        params = self.back.plan.program.shared
        arrays = self.prepared.arrays
        self._transpose()
        _, _, place, zeros, _ = self.memory
        memory = WayMemory(
            run=self.run, read=[*self.packed, *self.given], zeros=zeros, start=place.address, size=self.placed
        )
        self.of.place.execute(memory, self.state, self["batches"], self["scratch"])
        if self.of.numbers_are_computed:
            self.of.place.fetch_all()
        found = [(parts, *rows) for parts in self.of.parts if (rows := self._collect(parts)) is not None]
        self.tables = self._tables(found)
        room = Pieces(self.of.sums_of_all)
        self.grads = {
            k: room.array(self.tables.shape(k, arrays[k].shape), params[k].type.dtype)  # type: ignore[union-attr]
            for k in sorted(self.back.wanted)
        }
        self.blank = {address(g) for g in self.grads.values() if g.size}  # of those that nothing has been written to
        self._ordinary()
        self.inner: dict[tuple[int, int], NDArray[Any]] = {}
        self._sums(found)
        for (k, v), g in self.inner.items():
            spec = self.back.plan.kernels[k]
            self._pull(spec, [arrays[o.index] if o.kind == "shared" else None for o in spec.operands], {v: g})
        for once in reversed(self.back.plan.program.once):
            if once.index in self.grads and (g := self.grads.pop(once.index)).any():
                spec = self.back.plan.kernels[once.kernel]
                numbers = [self.prepared.given[k] for k in once.numbers]
                operands = [arrays[o.index] if o.kind == "shared" else numbers[o.index] for o in spec.operands]
                self._pull(spec, operands, {spec.results[0]: g})
        return {k: self.tables.gradient(k, g, arrays[k].shape) for k, g in self.grads.items()}

    def _tables(self, found: Sequence[tuple[_Parts, int, list[Words]]]) -> Tables:
        """Return the tables whose gradients are wanted by rows; `found`: what sums there are."""
        if not self.by_rows:
            return Tables((), {}, {}, (), {})
        heads = self.memory[0]["heads"].reshape(-1, words.HEAD.count)[self.n * self["most"] :]
        whole = {k for k in self.back.wanted if heads[k][1]}
        read: dict[int, list[Words]] = {}
        for parts, count, rows in found:
            spec = self.back.plan.kernels[parts.kernel]
            first = len(spec.operands)
            if parts.term.which >= 0:
                whole.update(self._numbers(rows[2][:count]).tolist())
                continue
            if parts.term.of >= first:  # it is pulled back to all that it is made of
                whole |= shared_in(spec, parts.term.of)
                continue
            k = spec.operands[parts.term.of].index
            if parts.term.kind == "rows":
                read.setdefault(k, []).append(np.clip(rows[0][:count], 0, len(self.prepared.arrays[k]) - 1))
            else:
                whole.add(k)
        lengths = {k: a.shape[0] if a.ndim else -1 for k, a in self.prepared.arrays.items()}
        tables = [k for k in self.by_rows if lengths[k] >= 0]
        return Tables(tables, made_of(self.back.plan), read, whole, lengths)

    def _pull(self, spec: KernelSpec, operands: Sequence[Any], seeds: Mapping[int, NDArray[Any]]) -> None:
        """Take the gradient of what is made of shared tensors alone back to them."""
        with np.errstate(all="ignore"):
            found = sweep(spec, operands, (), seeds)
        for v, o in enumerate(spec.operands):
            if o.kind == "shared" and o.index in self.grads and v in found:
                self.grads[o.index] += found[v]

    # ---- transposition

    def _transpose(self) -> None:
        """Make the batches; with more room, again, where there was too little."""
        buffers, n = self.buffers, self.n
        self["table"] = self.of.table
        self.of.library.call("make_room", buffers.address, address(self.words))
        own_table = self.own.table(self.of._adder)
        owns = len(own_table) - 1
        heads = n * max(self.of.most, 1) + len(self.prepared.arrays) + len(self.prepared.table) + owns
        shareds = len(self.prepared.table)
        sums_most = n * max(self.of.most, 1) + shareds + owns
        own = {
            "heads": words.HEAD.count * heads, "row_of": n + 1, "alive": n + 1,
            "rows": self["row_bytes"] // 8 + sums.SUM.count * sums_most + 1,
        }  # fmt: skip
        memory = {name: np.empty(size, np.int64) for name, size in own.items()}
        arrays = np.zeros(shareds, np.int64)
        sizes = np.zeros(shareds, np.int64)
        adds = np.zeros(shareds, np.int64)
        for k, array in self.prepared.arrays.items():
            arrays[k], sizes[k] = address(array), array.nbytes
            adds[k] = self.of._adder(array.dtype.name) if array.dtype.name in self.of.sums else 0
        self.state.room((2 + self.of.most) * buffers["batches"] + shareds + owns + 1, self["entries"] + sums_most)
        self.shareds = {"arrays": arrays, "sizes": sizes, "adds": adds}
        while True:
            links, place = self.of.links.take(self.of.links.wanted), self.of.places.take(self.of.places.wanted)
            zeros = np.zeros(self.of.zeros // 8, np.int64)
            self.words[:] = 0
            tables: dict[str, NDArray[Any]] = {
                "losses": self.losses, "seeds": self.seeds, "loss_of": self.loss_of, "own": own_table, "zeros": zeros,
            }  # fmt: skip
            for name, table in (*memory.items(), *self.shareds.items(), *tables.items()):
                self[name] = address(table)
            self["table"], self["most"] = self.of.table, max(self.of.most, 1)
            self["shared"], self["shareds"] = address(self.prepared.records), shareds
            self["losses_count"], self["owns"] = len(self.losses), owns
            self["links"], self["links_end"] = links.address, links.address + links.size
            self["place"], self["place_end"] = place.address, place.address + place.size
            self.of.library.call("transpose", buffers.address, address(self.words), address(self.state.st))
            used, placed = self["links"] - links.address, self["place"] - place.address
            self.of.zeros = max(self.of.zeros, self["largest"] + 7)
            if not self["lost"] and placed <= place.size and self["largest"] <= zeros.nbytes:
                break
            self.of.links.wanted, self.of.places.wanted = max(used, links.size), max(placed, place.size)
        self.of.links.wanted, self.of.places.wanted = max(used, _LINKS), max(placed, _PLACES)
        self.placed = placed
        self.memory = (memory, links, place, zeros, own_table)

    def _ordinary(self) -> None:
        """Add what shared tensors got that nodes read like any other value."""
        heads = self.memory[0]["heads"].reshape(-1, words.HEAD.count)[self.n * self["most"] :]
        known = [k for k in self.grads if heads[k][1]]
        self.of.place.fetch([int(heads[k][0]) for k in known], [self.grads[k].nbytes for k in known])
        for k in self.grads:
            source, key = heads[k]
            if key:
                g = self._begun(self.grads[k])
                there = np.frombuffer((np.ctypeslib.ctypes.c_char * g.nbytes).from_address(int(source)), g.dtype)  # type: ignore[attr-defined]
                g += there.reshape(g.shape)

    def own_adjoints(self) -> list[NDArray[Any] | None]:
        """Return the adjoints of arrays of instances, None where there is none."""
        first = self.n * self["most"] + self["shareds"]
        heads = self.memory[0]["heads"].reshape(-1, words.HEAD.count)[first : first + self["owns"]]
        self.of.place.fetch(*self.own.places_of(heads))
        return self.own.adjoints(heads)

    # ---- sums over nodes

    def _begun(self, total: NDArray[Any]) -> NDArray[Any]:
        """Return a sum that can be added to."""
        if total.size and address(total) in self.blank:
            self.blank.remove(address(total))
            total.fill(0)
        return total

    def _is_first(self, total: NDArray[Any]) -> bool:
        """Whether nothing has been written to a sum; from now on something has."""
        found = address(total) in self.blank
        self.blank.discard(address(total))
        return found

    def _sums(self, found: Sequence[tuple[_Parts, int, list[Words]]]) -> None:
        """Run the sums over nodes: terms with how many rows their parts have, and where these lie."""
        jobs: list[Job] = []
        self.summed: list[BackRecord] = []
        for parts, count, rows in found:
            jobs += self._jobs(parts, count, rows)
            self.summed.append(BackRecord(kernel=parts.name, what="sum", size=count))
        for g in self.grads.values():
            self._begun(g)
        if jobs:
            self.of.place.add_up(jobs)

    def _collect(self, parts: _Parts) -> tuple[int, list[Words]] | None:
        """Return how many rows the parts of a term have, and where these lie."""
        k, back, library = parts.kernel, self.back.kernels[parts.kernel], self.of.library
        assert back is not None
        table, counts = [], []
        for part in parts.parts:
            number = part.dtype == "int64"
            size = np.dtype(part.dtype).itemsize
            whole = parts.term.kind == "sum"
            rows = () if whole else part.shape if number else part.shape[:-1]
            step = [8, 0, 0] if number else self.of._extent(() if whole else part.shape[-1:], size)
            if part is parts.term.row:  # one number for all rows of its node
                rows, step = parts.parts[0].shape[:-1], [0, 0, 0]
            source = self.of._source(back, part.source, size)
            table.append([*source, *self.of._extent(rows), *step, 0, int(number and source[0] != words.AS_NUMBER)])
            counts.append(self._count(k, rows))
        if parts.term.which >= 0:  # the value record of the matrix
            rows = parts.parts[0].shape[:-1]
            source = [words.AS_NUMBER, parts.term.which, 0, 0, 0, 0, 0]
            table.append([*source, *self.of._extent(rows), 0, 0, 0, 0, 0])
            counts.append(self._count(k, rows))
        found = [np.empty(count + 1, np.int64) for count in counts]
        at = words.PART.at["to"]
        for row, array in zip(table, found, strict=True):
            row[at] = address(array)
        memory = np.array(table, np.int64)
        library.call("collect", self.buffers.address, address(self.words), k, address(memory), len(table))
        return (counts[0], found) if counts[0] else None

    def _count(self, k: int, rows: Sequence[Size]) -> int:
        alive = self.memory[0]["row_of"][: self.n] != 0
        extent = np.array(self.of._extent(rows), np.int64)
        back = self.back.kernels[k]
        if not extent[1] and back is not None and back.forward.rows is None:
            return int(extent[0] * np.count_nonzero(alive & (self.buffers.column("kind", self.n) == k)))
        return int(self.of.library.call("count_rows_of", self.buffers.address, address(self.words), k, address(extent)))

    def _jobs(self, parts: _Parts, count: int, rows: Sequence[Words]) -> list[Job]:
        term, dtype, rows = parts.term, parts.dtype, [of[:count] for of in rows]
        if term.which >= 0:
            return self._jobs_of_each(dtype, term, *rows)
        spec = self.back.plan.kernels[parts.kernel]
        first = len(spec.operands)
        of = spec.operands[term.of].index if term.of < first else -1
        if of >= 0:
            total = self.grads.get(of)
        else:
            op = spec.body[term.of - first]
            total = self.inner.setdefault((parts.kernel, term.of), np.zeros(op.shape, op.dtype))  # type: ignore[arg-type]
        if total is None or not total.size:
            return []
        lanes = self.of.place.on.lanes(TYPES[dtype])
        if term.kind == "sum":
            first = self._is_first(total)
            given: dict[str, int | Words] = {"g": rows[0], "count": count, "k": total.size}
            given |= {"c": address(total), "first": int(first)}
            tasks = -(-total.size // lanes)
            return [Job(dtype=dtype, what="columns", total=total, first=first, tasks=tasks, cost=count,
                        words=given, rows=("g",))]  # fmt: skip
        if term.kind == "rows":
            numbers = rows[0]
            if of in self.tables.apart:
                numbers = self.tables.places(of, numbers, len(self.prepared.arrays[of]))
            return self._table_rows(dtype, count, numbers, rows[1], self._begun(total))
        chosen: list[tuple[Words, Words, int, NDArray[Any]]] = [(rows[0], rows[1], count, total)]
        if term.row is not None:
            self._begun(total)
            numbers = np.clip(rows[2], 0, len(total) - 1)
            groups = [(total[m], np.flatnonzero(numbers == m)) for m in np.unique(numbers).tolist()]
            chosen = [(rows[0][of], rows[1][of], len(of), matrix) for matrix, of in groups]
        return [self._outer(dtype, term, *one) for one in chosen]

    def _jobs_of_each(self, dtype: str, term: Term, left: Words, right: Words, records: Words) -> list[Job]:
        """Return the jobs of outer products, one for each shared tensor that is the matrix of some nodes."""
        numbers = self._numbers(records)
        jobs = []
        for k, total in self.grads.items():
            of = np.flatnonzero(numbers == k)
            if len(of) and total.size:
                jobs.append(self._outer(dtype, term, left[of], right[of], len(of), total))
        return jobs

    def _numbers(self, records: Words) -> Words:
        """Return which shared tensors value records are of."""
        return (records - address(self.prepared.records)) // RECORD.size

    def _outer(self, dtype: str, term: Term, left: Words, right: Words, count: int, total: NDArray[Any]) -> Job:
        """Return the job of outer products; an extent that is known at run time only is all of the matrix's."""
        rows, columns = (
            size if isinstance(size := p.shape[-1], int) else all_of
            for p, all_of in zip(term.parts, total.shape, strict=True)
        )
        on = self.of.place.on
        panels = sums.outer_panels(on, dtype, columns)
        first = (rows, columns) == total.shape and self._is_first(total)
        self._begun(total)
        step = total.strides[0] if total.shape[0] > 1 else total.shape[1] * total.itemsize
        where = address(total) + term.start[0] * step + term.start[1] * total.itemsize
        tasks = sums.outer_tasks(on, panels, rows)
        given: dict[str, int | Words] = {
            "x": right, "g": left, "count": count, "k": columns, "m": rows, "c": where, "step": step,
            "first": int(first), "panels": panels,
        }  # fmt: skip
        return Job(dtype=dtype, what="outer", total=total, first=first, tasks=tasks, words=given, rows=("x", "g"),
                   cost=count * rows * columns // (32 * max(tasks, 1)))  # fmt: skip

    def _table_rows(self, dtype: str, count: int, numbers: Words, rows: Words, total: NDArray[Any]) -> list[Job]:
        most, width = len(total), total.size // len(total)
        index: Words = np.clip(numbers, 0, most - 1)
        order, starts, counts = np.empty(count, np.int64), np.empty(count + 1, np.int64), np.empty(most + 1, np.int64)
        groups = self.of.sums[dtype].call(
            "sort_rows", address(index), count, address(order), address(starts), address(counts), most
        )
        given: dict[str, int | Words] = {"order": order, "starts": starts, "index": index, "g": rows, "k": width}
        given["c"] = address(total)
        return [Job(dtype=dtype, what="rows", total=total, first=False, tasks=groups, cost=width // 8 + 10,
                    words=given, rows=("g",))]  # fmt: skip
