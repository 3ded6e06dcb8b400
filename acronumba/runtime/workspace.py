"""Memory of a backward pass, which later mini-batches reuse: tables, packed weights, the jobs of sums.

In: the executable of a backward pass, and the shared values of a mini-batch. Out: the words of `back_words.BACK` that
few mini-batches change, and room for what each of them writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.kernels.tiles import TYPES
from acronumba.memory import Array, Words, address, aligned
from acronumba.runtime.batches import Batches
from acronumba.runtime.buffers import Arena, side_by_side
from acronumba.runtime.kernel_table import KernelTable
from acronumba.runtime.library import back_words as words
from acronumba.runtime.library.back_words import FORM, HEAD, OWN, TOTAL
from acronumba.runtime.packing import Packer
from acronumba.runtime.program import PackingLike
from acronumba.runtime.shared import Forms, Prepared
from acronumba.runtime.state import TABLE
from acronumba.runtime.summing import Key

if TYPE_CHECKING:
    from acronumba.runtime.backward import BackwardExecutable

DTYPES = ("float32", "float64")
_ZEROS = 1 << 12  # bytes of the first zeros
_KEPT = 1 << 22  # words of a table that is not kept for the next mini-batch
_GROWING = ("heads", "firsts", "row_of", "alive", "rows_at", "of", "there", "turns", "held")


class Workspace:
    """Workspace of a backward pass: tables and packed weights. Later mini-batches reuse it."""

    def __init__(self, of: BackwardExecutable) -> None:
        specs = of.back.specs
        self.of = of
        self.words: Words = np.zeros(words.BACK.count, np.int64)
        self.at, self.view = address(self.words), self.words.data  # faster than the array
        self._keep: list[Array] = []  # arrays that words lead to
        strategy = of.forward.options.decisions
        self.kernels = KernelTable(specs, of.entries, strategy, of.engine.reach, step=8, more=len(DTYPES))
        self.nodes = Batches(self.kernels.rows, max((len(s.results) for s in specs), default=1), strategy.unit)
        self.sums = Batches(np.zeros((1, len(TABLE)), np.int64), 1, strategy.unit)
        self.packer = Packer(of.library, of.packings[1])
        self.tables: dict[str, Words] = {}
        self._large: list[str] = []  # of those, the ones that are not kept
        self.arenas: tuple[Arena, ...] = ()  # for links and results
        self._places: dict[str, NDArray[np.uint8]] = {}
        self._prepared: Prepared | None = None
        self.inputs: Words  # int64[3, shared]: see `_inputs`
        self.stay: list[int] = []  # numbers of the shared tensors whose gradients stay on a device
        self.read: dict[int, Array] = {}  # shared tensors as kernels want them, by their addresses
        for dtype in of.sums:
            self.kernels.add_function(of.adder(dtype), *of.backend.adder(dtype), cost=500)
        parts = of.rows.parts
        self.counts: Words = np.zeros(parts + 1, np.int64)
        self.places: Words = np.zeros(parts + 1, np.int64)
        self.nothing: Words = np.zeros(OWN.count, np.int64)  # a table of OWN without rows
        for name, array in (("counts", self.counts), ("places", self.places), ("starts", np.zeros_like(self.counts))):
            self._point(name, array)
        self["table"], self["most"], self["parts"] = of.rows.table, max(of.most, 1), parts
        self["drive"] = of.engine.address["drive"]
        self.zeros_of(_ZEROS)
        if of.runs_whole:
            self._describe_sums()

    def __setitem__(self, name: str, value: int) -> None:
        self.view[words.BACK.at[name]] = value

    def _point(self, name: str, array: Array) -> None:
        """Let a word lead to an array, which lives as long as another takes its place."""
        self.tables[name], self[name] = array, address(array)
        if len(array) > _KEPT and name in _GROWING:
            self._large.append(name)

    def _describe_sums(self) -> None:
        """Make the tables that `library.back_pass.make_jobs` reads and fills."""
        of, on = self.of, self.of.backend.on
        forms = [form for form in of.forms if form is not None and (form.key < 0 or form.key in of.back.wanted)]
        kernels, shared = of.back.plan.kernels, of.back.plan.program.shared
        code = {dtype: module.address for dtype, module in of.sums.items()}
        inner = list(dict.fromkeys(form.inner for form in forms if form.key < 0))
        ops = [kernels[k].body[v - len(kernels[k].operands)] for k, v in inner]
        self.inner = {key: np.empty(op.shape, op.dtype) for key, op in zip(inner, ops, strict=True)}  # type: ignore[type-var]
        given = [(k, 0, math.prod(shared[k].type.shape), t.name) for k, t in zip(of.wanted, of.dtypes, strict=True)]  # type: ignore[union-attr, arg-type]
        given += [(-1, address(a), a.size, a.dtype.name) for a in self.inner.values()]
        totals: Words = np.zeros((len(given) + 1, TOTAL.count), np.int64)
        for total, (k, at, count, dtype) in zip(totals, given, strict=False):
            size, tasks = count * np.dtype(dtype).itemsize, -(-count // on.lanes(TYPES[dtype]))
            total[:] = at, size, 0, k, code[dtype]["columns"], count, tasks
        keys: list[Key] = [*of.wanted, *inner]
        slots = {key: n for n, key in enumerate(keys)}
        rows: Words = np.zeros((len(forms) + 1, FORM.count), np.int64)
        for row, form in zip(rows, forms, strict=False):
            how = ("outer", "columns", "rows").index(form.function)
            run, sort = code[form.dtype][form.function], code[form.dtype]["sort_rows"]
            slot = slots[form.key if form.key >= 0 else form.inner]
            words_of = slot, how, run, sort, form.first, form.tasks, form.begin, form.whole, form.flops, *form.words
            row[: len(words_of)] = words_of
        most = len(slots) + len(forms)
        params: Words = np.zeros((most + 1, FIXED + sums.MOST_WORDS), np.int64)
        table: Words = np.zeros((most + 1, len(TABLE)), np.int64)
        table[:, TABLE["params"]] = address(params) + params.strides[0] * np.arange(most + 1)
        self.adding = adding = Batches(table, 1, of.forward.options.decisions.unit)
        adding.room(most, 0)
        numbers = np.arange(most)
        adding.keep["bstart"][0], adding.keep["bkey"][:most] = 0, numbers
        adding.keep["keytab"][: 2 * most : 2], adding.keep["keytab"][1 : 2 * most : 2] = numbers, 0
        adding.begin(0, sums.outer_scratch(on), of.forward.threads)
        self.adds, self._keep = totals, [params]
        self._point("totals", totals)
        self._point("forms", rows)
        self["forms_count"], self["slots"], self["adding"] = len(forms), len(slots), adding.at

    def room(self, nodes: int, inputs: int, batches: int) -> None:
        """Make room for so many nodes, shared tensors and arrays of instances, and batches of the forward pass."""
        at, view, most = words.BACK.at, self.view, self.view[words.BACK.at["most"]]
        entries, heads = view[at["entries"]], nodes * most + inputs
        for name, length in (
            ("heads", HEAD.count * heads), ("firsts", inputs + 1), ("row_of", nodes + 1), ("alive", nodes + 1),
            ("rows_at", view[at["row_bytes"]] // 8 + sums.SUM.count * heads + 1), ("of", entries + 1),
            ("there", entries + 1), ("turns", entries + 1),
        ):  # fmt: skip
            if name not in self.tables or len(self.tables[name]) < length:
                self._point(name, np.empty(length + length // 4, np.int64))
        room = {name: len(table) for name, table in self.tables.items()}
        heads, entries = room["heads"] // HEAD.count, min(room[name] for name in ("of", "there", "turns")) - 1
        inputs, batches = room["firsts"] - 1, batches + batches // 4
        self.nodes.room((2 + self.of.most) * batches + inputs + 1, entries + heads)
        for name, many in (
            ("nodes", min(room["row_of"], room["alive"]) - 1), ("inputs", inputs), ("heads", heads),
            ("entries", entries), ("bytes", 8 * (room["rows_at"] - 1)), ("batches", batches),
        ):  # fmt: skip
            self[f"room_{name}"] = many

    def hold(self, need: int) -> None:
        """Make room for so many words of the tables of sums."""
        self._point("held", np.empty(need + need // 4, np.int64))
        self["held_room"] = len(self.tables["held"])

    def release(self) -> None:
        """Drop tables that are too large to keep for the next mini-batch."""
        for name in self._large:
            self.tables.pop(name, None)
            self["held_room" if name == "held" else "room_nodes"] = 0
        self._large = []
        if self.arenas and any(arena.size > arena.pool.kept for arena in self.arenas):
            self.arenas = ()

    def place(self, name: str, size: int, dtype: str) -> Array:
        """Return uninitialised bytes aligned to 64; a name always returns the same memory."""
        if name not in self._places or self._places[name].nbytes < size:
            self._places[name] = aligned(size)
        return self._places[name][:size].view(dtype)

    def zeros_of(self, size: int) -> None:
        """Grow the memory of zeros to `size` bytes."""
        if "zeros" not in self.tables or size > self.tables["zeros"].nbytes:
            self._point("zeros", np.zeros(size // 8 + 8, np.int64))
            self["zeros_size"] = self.tables["zeros"].nbytes

    def pack(self, prepared: Prepared) -> None:
        """Pack shared tensors in the layouts of the backward kernels."""
        arrays, here, specs = prepared.arrays, prepared is self._prepared, self.of.back.specs
        if not here:
            self.read, self.inputs = {}, self._inputs(prepared)
            for k, name in enumerate(("arrays", "sizes", "adds")):
                self[name] = address(self.inputs) + k * self.inputs.strides[0]
            self["shared"], self["shareds"] = prepared.records_at, len(prepared.table)
            program, forms = self.of.back.plan.program, prepared.forms
            of_user = [k for k in self.of.wanted if k < len(program.shared) - len(program.once)]
            self.stay = [] if forms is None else [k for k in of_user if forms.holds(arrays[k])]
            self.forms = side_by_side((arrays[k].shape for k in self.of.wanted), self.of.dtypes)
            self.offsets: Words = np.array([at for _, _, at in self.forms[0]], np.int64)
        self._prepared = None
        if here and self.packer.repeat():
            self._prepared = prepared
            return
        self.packer.restart()
        for spec, entry, params in zip(specs, self.of.entries, self.kernels.params, strict=True):
            for k, use in enumerate(entry.shared):
                if use.packing is not None or not here:
                    given = [arrays[spec.operands[v].index] for v in use.operands]
                    found = given[0] if use.packing is None else self._packed(use.packing, given, prepared.forms)
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
