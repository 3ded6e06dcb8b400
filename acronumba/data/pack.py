"""Packing of instances into flat words (`Packer`), and snapshots for users (`Packed`).

In: the columns of a mini-batch and its `Schema`. Out: a `Batch`: one row of words per instance, whose references are
absolute addresses into heaps (`data.heap`). Packing works on whole columns (`data.packer`); instances with a value that
does not have its type are found by a second walk (`data.conform`), reported, and left out. `data.unpack` is the
inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from itertools import chain
from types import CodeType
from typing import Any, overload

import numpy as np

from acronumba.data import collect, conform
from acronumba.data.arrays import are_arrays
from acronumba.data.buffers import Memory
from acronumba.data.callables import hold_methods
from acronumba.data.carried import Copies, Maker
from acronumba.data.classes import field_names, is_struct
from acronumba.data.collect import Twice
from acronumba.data.copies import copied, unchanging
from acronumba.data.heap import (
    AllVisible,
    Heap,
    Mismatch,
    Move,
    Owned,
    Region,
    TooLarge,
    Visible,
    aligned,
    expect_shown,
    rebase,
    reference_columns,
    relayout,
    rest_of,
)
from acronumba.data.layouts import make_layouts
from acronumba.data.packer import PackerText, packer_text
from acronumba.data.reach import Reached, reached
from acronumba.data.schema import Reads, Schema, all_types, guess, infer, loose, loses, merge, restrict, schema_text
from acronumba.data.stream import Streams
from acronumba.data.tables import Inherited
from acronumba.data.unchanged import Guard, guard_of
from acronumba.data.unpack import Reader, Unpacker
from acronumba.data.unpacked_fields import UnpackedFields, kept_of
from acronumba.errors import DataError
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import NO_VALUE, ListT, MapT, NoneT, NoValue, StructT, TensorT, Type, UnionT, members, words
from acronumba.memory import Array, Words
from acronumba.records import record

__all__ = [
    "Batch", "Memory", "Packed", "Packer", "Reads", "Schema", "Unpacker", "infer",
    "merge", "pack", "restrict", "schema_text",
]  # fmt: skip


@record(kw_only=True, eq=False)
class Batch:
    """A packed mini-batch."""

    roots: Words  # int64[n, words of all parameters]; zeros for instances with an error
    errors: Mapping[int, DataError]  # by instance
    heaps: tuple[Heap, ...]  # memory that the roots refer to
    schema: Schema
    keep: tuple[Array, ...] = field(init=False)  # what addresses point into: it must live as long as they are used
    _owned: list[Owned] = field(init=False, default_factory=list)  # see `objects`

    def __post_init__(self) -> None:
        heaps = self.heaps
        keep = heaps[0].buffers if len(heaps) == 1 else tuple(chain.from_iterable([heap.buffers for heap in heaps]))
        object.__setattr__(self, "keep", keep)

    def __len__(self) -> int:
        return len(self.roots)

    def some(self, places: Words) -> Batch:
        """Return a mini-batch of some of the instances, by index."""
        errors = {j: self.errors[k] for j, k in enumerate(places.tolist()) if k in self.errors} if self.errors else {}
        return replace(self, roots=self.roots[places], errors=errors)

    @property
    def words(self) -> Words:
        """The words of the first heap (the only one, unless snapshots are among the columns)."""
        return self.heaps[0].words if self.heaps else np.zeros(0, np.int64)

    @property
    def objects(self) -> Owned:
        """The user's own objects and lists by their address."""
        if not self._owned:
            self._owned.append(Owned((heap, heap.objects) for heap in self.heaps))
        return self._owned[0]


_NOTHING: Mapping[type, Any] = {}
_NO_ROWS: Words = np.zeros(0, np.int64)
_LIBRARY: dict[str, Any] = {
    name: getattr(collect, name)
    for name in (
        "HeapBuilder expect expect_constant expect_function owners Ints Floats Bools Enums transpose entries "
        "none_for_no_value"
    ).split()
} | {
    "case_numbers": conform.case_numbers,
    "are_arrays": are_arrays,
    "expect_shown": expect_shown,
    "zeros": np.zeros,
    "int64": np.int64,
    "fromiter": np.fromiter,
    "flatnonzero": np.flatnonzero,
    "NONES": frozenset((type(None),)),
    "NOTHING": frozenset(),
    "NO_VALUE": NO_VALUE,
    "NO_VALUES": frozenset((NoValue,)),
}


@lru_cache(256)
def _compiled(text: str) -> CodeType:
    return compile(text, "<packer>", "exec")


class Packer:
    """Packs instances of a schema.

    Parameters
    ----------
    schema : Schema
        Types of the parameters.
    layouts : sequence of StructLayout
        Of all classes. Only the fields in them are looked at, and their types are those of the layouts.
    inherited : mapping from class to frozenset of str, optional
        Class attributes that are read through objects. An object with an instance attribute of such a name is an error,
        since it hides the class attribute.
    exact : bool
        Whether conversion is off: a number or list whose class is not that of its type does not conform.
    streams : Streams, optional
        Faster packing of columns of plain data, used from the second mini-batch on.
    tables : bool
        Whether the program reads Python's tables of sets, see `collect.Maps`.
    """

    def __init__(
        self, schema: Schema, layouts: Sequence[StructLayout], inherited: Inherited = _NOTHING, exact: bool = False,
        streams: Streams | None = None, tables: bool = True,
    ) -> None:  # fmt: skip
        self.schema = schema
        self._builder = partial(_LIBRARY["HeapBuilder"], tables=tables)
        self._exact = exact
        self._streams = streams
        self.layouts = tuple(layouts)
        self.visible = {
            cls: Visible(cls, own)
            for cls, names in inherited.items()
            if is_struct(cls) and (own := names - {*field_names(cls), *schema.fields.get(cls, ())})
        }
        self._by_class = {layout.cls: layout for layout in layouts}
        self._made: dict[tuple[int, ...], tuple[PackerText, Any]] = {}
        self._careful = hold_methods(all_types(schema))  # which lead back to their objects
        self._widths = [len(words(t)) for t in schema.params]

    @property
    def text(self) -> str:
        """The generated packer of all parameters."""
        return self._make(tuple(range(len(self.schema.params))))[0].text

    def _make(self, params: tuple[int, ...]) -> tuple[PackerText, Any]:
        """Return the packer of some of the parameters."""
        if params not in self._made:
            made = packer_text([self.schema.params[k] for k in params], self.layouts, self.visible, self._exact)
            names = _LIBRARY | dict(made.names) | {"HeapBuilder": self._builder}
            exec(_compiled(made.text), names)  # made from types only
            self._made[params] = made, names["pack"]
        return self._made[params]

    @overload
    def pack(self, columns: Sequence[Value], numbers: Sequence[int] | None = None) -> Batch: ...
    @overload
    def pack(self, columns: Sequence[Value], numbers: Sequence[int] | None, whole: bool) -> Batch | None: ...
    def pack(self, columns: Sequence[Value], numbers: Sequence[int] | None = None, whole: bool = False) -> Batch | None:
        """Pack a mini-batch.

        Parameters
        ----------
        columns : sequence
            One per positional parameter: a sequence of instances, an array [n, ...], or a `Packed`.
        numbers : sequence of int, optional
            Numbers of the instances for messages, by default 0, 1, 2 ...
        whole : bool
            Whether all instances must have the types of the schema; no errors are collected then.

        Returns
        -------
        Batch
            With a `DataError` for every instance that has a value of another type than in the schema. With `whole`,
            None if there is such an instance.

        Raises
        ------
        ValueError
            If the columns have different lengths.
        """
        if len(columns) != len(self.schema.params):
            raise ValueError(f"{len(self.schema.params)} columns expected, {len(columns)} given")
        if len(columns) == 1 and isinstance(columns[0], Packed):
            known = columns[0].bind(self.schema.params[0], self.layouts, self.visible)
            if known is not None:
                return Batch(roots=known[0], errors={}, heaps=known[1:], schema=self.schema)
        plain: dict[int, Value] = {}
        originals: dict[int, object] = {}  # the user's own objects by the ids of their copies
        parts: list[tuple[int, Words, Heap]] = [] if self._streams is None else self._streams.pack(columns)
        read = {k for k, _, _ in parts}
        for k, column in enumerate(columns):
            if k in read:
                continue
            bound = None
            if isinstance(column, Packed):
                bound = column.bind(self.schema.params[k], self.layouts, self.visible)
            if bound is not None:
                parts.append((k, *bound))
            elif isinstance(column, Packed):
                plain[k] = column.again()
            else:
                plain[k] = self._column(column, self.schema.params[k])
            originals |= getattr(plain.get(k), "originals", {})
        count = check_lengths(columns)
        if not plain and len(parts) == 1:
            ((_, roots, heap),) = parts
            return Batch(roots=roots, errors={}, heaps=(heap,), schema=self.schema)
        done = self._pack_plain(plain, count, range(count) if numbers is None else numbers, whole)
        if done is None:
            return None
        if originals:
            owned = (
                {region: [originals.get(id(v), v) for v in objects] for region, objects in heap.objects.items()}
                for heap in done.heaps
            )
            done = replace(done, heaps=tuple(replace(h, objects=of) for h, of in zip(done.heaps, owned, strict=True)))
        return self._joined(done, plain, parts) if parts else done

    def _joined(self, done: Batch, plain: Iterable[int], parts: Sequence[tuple[int, Words, Heap]]) -> Batch:
        """Join the columns packed now (`done`, with their numbers `plain`) and those packed before (`parts`)."""
        pieces = {k: words_of for k, words_of, _ in parts}
        at = 0
        for k in plain:
            pieces[k] = done.roots[:, at : at + self._widths[k]]
            at += self._widths[k]
        roots = np.concatenate([pieces[k] for k in range(len(pieces))], axis=1)
        if done.errors:
            roots[list(done.errors)] = 0
        found = {id(heap): heap for heap in (*done.heaps, *(heap for _, _, heap in parts))}
        return Batch(roots=roots, errors=done.errors, heaps=tuple(found.values()), schema=self.schema)

    @staticmethod
    def _column(column: Value, t: Type) -> Value:
        if isinstance(column, np.ndarray) and column.dtype != object and isinstance(t, TensorT):
            return column
        return column if type(column) in (list, Again) else list(column)

    def _pack_plain(
        self, columns: Mapping[int, Value], count: int, numbers: Sequence[int], whole: bool
    ) -> Batch | None:
        if not columns:
            return Batch(roots=np.zeros((count, 0), np.int64), errors={}, heaps=(), schema=self.schema)
        done = self._try(tuple(columns), list(columns.values()), count)
        if not isinstance(done, BaseException):
            return Batch(roots=done[1], errors={}, heaps=(done[0],), schema=self.schema)
        if whole and isinstance(done, Mismatch | KeyError | OverflowError):
            return None
        errors = self._errors(columns, numbers)
        if not errors:
            raise _rejection(done)
        if whole:
            return None
        good = [k for k in range(count) if k not in errors]
        done = self._try(tuple(columns), [[column[k] for k in good] for column in columns.values()], len(good))
        if isinstance(done, BaseException):
            raise _rejection(done)
        heap, some = done
        roots = np.zeros((count, some.shape[1]), np.int64)
        roots[good] = some
        return Batch(roots=roots, errors=errors, heaps=(heap,), schema=self.schema)

    def attempt(self, column: Value) -> Batch | None:
        """Return the packed single column, or None if a value does not have its type or cannot be read."""
        done = self._try((0,), [column], len(column))
        if isinstance(done, BaseException):
            return None
        return Batch(roots=done[1], errors={}, heaps=(done[0],), schema=self.schema)

    def guard(self, value: object, batch: Batch) -> Guard | None:
        """Return a guard that detects changes of a value since it was packed alone, or None if none is possible."""
        return guard_of(value, batch.heaps[0], self.layouts, self.visible) if len(batch.heaps) == 1 else None

    def faults(self, column: Value) -> set[tuple[type, str]]:
        """Return the fields that do not have their type in some object, by class and name."""
        return conform.Conformance(self.schema.params, self._by_class, self.visible).faults(column)

    def without(self, fields: Container[tuple[type, str]]) -> Packer:
        """Return a packer that does not look at some fields."""
        left = {c: {n: t for n, t in of.items() if (c, n) not in fields} for c, of in self.schema.fields.items()}
        schema = replace(self.schema, fields=left)
        return Packer(schema, make_layouts(restrict(schema, None).fields))

    def _try(self, params: tuple[int, ...], columns: list[Value], count: int) -> tuple[Heap, Words] | BaseException:
        """Return the result of `_call`, or the exception it raised: a property of the user's may raise anything."""
        try:
            return self._call(params, columns, count)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error

    def _call(self, params: tuple[int, ...], columns: list[Value], count: int) -> tuple[Heap, Words]:
        """Run the generated packer, in careful mode if objects are reached twice."""
        _, function = self._make(params)
        if not self._careful:
            try:
                return function(columns, count, False)  # type: ignore[no-any-return]
            except Twice:
                self._careful = True  # such data is likely to recur
        return function(columns, count, True)  # type: ignore[no-any-return]

    def _errors(self, columns: Mapping[int, Value], numbers: Sequence[int]) -> dict[int, DataError]:
        check = conform.Conformance([self.schema.params[k] for k in columns], self._by_class, self.visible)
        found = {}
        for k, values in enumerate(zip(*columns.values(), strict=True)):
            error = check.check(numbers[k], values)
            if error is not None:
                found[k] = error
        return found


def _rejection(error: BaseException) -> BaseException:
    """Return the exception to raise if packing fails although every instance conforms."""
    if isinstance(error, TooLarge):
        return reject("ACR704", seen=str(error))
    if isinstance(error, Mismatch | KeyError | OverflowError):
        made = RuntimeError("instances that conform to their types could not be packed; this is a bug in acronumba")
        made.__cause__ = error
        return made
    return error


def check_lengths(columns: Sequence[Value]) -> int:
    """Return the number of instances, or raise `ValueError` as ``zip(strict=True)`` does."""
    count = len(columns[0])
    for k, column in enumerate(columns[1:], 2):
        if len(column) != count:
            wrong = "shorter" if len(column) < count else "longer"
            others = "argument 1" if k == 2 else f"arguments 1-{k - 1}"
            raise ValueError(f"batch() argument {k} is {wrong} than {others}")
    return count


# --- Snapshots ------------------------------------------------------------------------------------------------------


@record(eq=False, frozen=False)
class _Store:
    """State shared by the slices of one pack. It keeps the user's own objects alive: models may return them."""

    schema: Schema
    layouts: tuple[StructLayout, ...]  # of the packed fields: not of fields with a value of another type
    heap: Heap
    usable: bool = True  # whether the words hold all instances, but for such fields
    count: int = -1  # number of packed instances
    kept: Mapping[Region, Sequence[Value]] = field(default_factory=dict)  # if the words hold all else, see `_kept`
    pairs: Sequence[tuple[Value, Value]] = ()  # the user's own objects and their copies, see `Packed._plain`
    others: dict[tuple[StructLayout, ...], tuple[Heap, Move]] = field(default_factory=dict)  # the heap by other layouts
    last: tuple[Type, tuple[StructLayout, ...], AllVisible, tuple[Heap, Move | None] | None] | None = None  # see `bind`

    def unpacker(self) -> Unpacker:
        return Unpacker(self.schema.params[0], self.layouts)

    def memory(self) -> Memory:
        return Memory(self.heap.buffers)

    def stored(self) -> dict[type, frozenset[str]]:
        """Return the fields that the words hold, by class."""
        return {layout.cls: frozenset(f.name for f in layout.fields) for layout in self.layouts}

    def rest(self, new: bool = True) -> Callable[[int], Value]:
        """Return a function from the address of a row to its unpacked attributes; to copies of them if `new`."""
        get = Owned([(self.heap, self.kept if self.heap.rests is None else self.heap.rests)]).get
        if not new:
            return get

        def read(address: int) -> Value:
            rest = get(address) or {}
            return dict(zip(rest, unchanging(list(rest.values()))[0], strict=True))

        return read

    def originals(self) -> dict[int, object]:
        """Return the user's own objects by the ids of their copies."""
        return {id(copy): own for own, copy in self.pairs}

    def rests(self, reached: Reached | None = None) -> Mapping[Region, Sequence[Value]]:
        """Return the unpacked attributes by region, without regions that have none.

        With `reached`, a part of the heap, they are those of its rows, by its regions.
        """
        known: Mapping[Region, Sequence[Value]] = self.kept if self.heap.rests is None else self.heap.rests
        copies: dict[int, Value] = {}
        stored = self.stored()
        if not known and self.heap.rests is None:
            known, copies = self.heap.objects, {id(own): copy for own, copy in self.pairs}
        found: dict[Region, list[Value]] = {}
        whole = {r: r for r in self.heap.regions}
        parts = whole if reached is None else dict(zip(reached.heap.regions, self.heap.regions, strict=True))
        for part, region in parts.items():
            rows = range(region.rows) if reached is None else reached.rows.get(part, _NO_ROWS).tolist()
            of = known.get(region)
            if of is not None and known is self.heap.objects:
                objects = [copies.get(id(v), v) for v in (of[row] for row in rows)]
                found[part] = [rest_of(v, stored.get(type(v), ())) for v in objects]
            elif of is not None:
                found[part] = of.some(rows) if isinstance(of, UnpackedFields) else [of[row] for row in rows]
        return {r: rests for r, rests in found.items() if any(rests)}

    def bind(self, t: Type, layouts: tuple[StructLayout, ...], visible: AllVisible) -> tuple[Heap, Move | None] | None:
        """Return the heap for a program with these layouts, see `with_layouts`; None if its types differ too much."""
        last = self.last
        if last is None or last[0] is not t or last[1] is not layouts or last[2] is not visible:
            fits = self._agrees(t, layouts) and not self._hides(visible)
            self.last = last = t, layouts, visible, self.with_layouts(layouts) if fits else None
        return last[3]

    def _hides(self, visible: AllVisible) -> bool:
        """Whether an instance attribute hides a class attribute that is read."""
        for region in self.heap.regions:
            seen = None if region.cls is None else visible.get(region.cls)
            if seen is None:
                continue
            if self.heap.rests is None:
                shown = seen.of(list(self.heap.objects[region]))
            else:
                shown = all(map(seen.names.isdisjoint, self.heap.rests.get(region, ())))
            if not shown:
                return True
        return False

    def _agrees(self, t: Type, layouts: tuple[StructLayout, ...]) -> bool:
        if not same_words(self.schema.params[0], t):
            return False
        mine = {layout.cls: {f.name: f.type for f in layout.fields} for layout in self.layouts}
        for layout in layouts:
            own = mine.get(layout.cls)
            if own is not None and not all(f.name in own and same_words(own[f.name], f.type) for f in layout.fields):
                return False
        return True

    def with_layouts(self, layouts: tuple[StructLayout, ...]) -> tuple[Heap, Move | None]:
        """Return the heap with rows in other layouts, and the map of addresses (None: unchanged)."""
        present = {region.cls for region in self.heap.regions if region.cls is not None}
        new, old = ({c.cls: (k, c) for k, c in enumerate(ls) if c.cls in present} for ls in (layouts, self.layouts))
        if new == old:
            return self.heap, None
        if layouts not in self.others:
            self.others[layouts] = relayout(self.heap, {layout.cls: layout for layout in self.layouts}, layouts)
        return self.others[layouts]


class Again(list[Value]):
    """Copies of the instances of a pack, which will be packed again.

    Parameters
    ----------
    values : list
    originals : mapping from int to object
        The user's own objects, which a model returns, by the ids of their copies.
    """

    def __init__(self, values: list[Value], originals: Mapping[int, object]) -> None:
        super().__init__(values)
        self.originals = originals

    def some(self, members: Sequence[int]) -> Again:
        """Return some of the instances."""
        return Again([self[k] for k in members], self.originals)


class Packed(Sequence[Value]):
    """A snapshot of instances: one column of a mini-batch, accepted wherever instances are.

    Slices, and lists or arrays of indices or bools, select instances without copying them. Elements are copies, made
    when they are asked for. A model that returns objects of the instances returns the user's own, which a pack
    therefore keeps alive. It can be pickled; where it is loaded, the objects that models return are made when they are
    first asked for.
    """

    __acronumba_packed__ = True
    __slots__ = ("__weakref__", "_array", "_once", "_plain", "_roots", "_store", "schema")

    def __init__(self, store: _Store, roots: Words, plain: list[Value] | None, array: Array | None = None) -> None:
        self._once: list[Value] | Array | None = None  # what `once` returns
        self._array = array  # if the instances are its rows: the array, or an empty one of its dtype and rank
        self.schema = store.schema
        self._store = store
        self._roots = roots  # int64[n, words]
        # Copies of the instances, if a value is not packed since it cannot be stored or contradicts its annotation.
        # Whether that matters depends on the fields that a model reads.
        self._plain = plain

    def __len__(self) -> int:
        return len(self._roots)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice | list[int] | Array) -> Packed: ...
    def __getitem__(self, index: int | slice | list[int] | Array) -> Value:
        if isinstance(index, slice | list) or (isinstance(index, np.ndarray) and index.ndim):
            if not isinstance(index, slice) and np.ndim(index) != 1:
                raise IndexError(f"indices must have one axis, not {np.ndim(index)}")
            rows = index if isinstance(index, slice) else np.arange(len(self))[index if len(index) else slice(0)]
            plain = None if self._plain is None else [self._plain[k] for k in np.arange(len(self))[rows]]
            return Packed(self._store, self._roots[rows], plain, None if self._array is None else self._array[:0])
        if self._plain is not None:
            return copied([self._plain[index]])[0][0]
        place = range(len(self))[index]
        return self._unpack(self._roots[place : place + 1])(0)

    def __iter__(self) -> Iterator[Value]:
        if self._plain is not None:
            return iter(copied(self._plain)[0])
        decode = self._unpack(self._roots)
        return map(decode, range(len(self)))

    def _unpack(self, roots: Words) -> Any:
        store = self._store
        return store.unpacker().decoder(roots, store.memory(), rest=store.rest())

    def again(self) -> Again:
        """Return the instances, which will be packed again."""
        if self._plain is not None:
            return Again(self._plain, self._store.originals())
        store = self._store
        reader = Reader(store.unpacker(), store.memory(), rest=store.rest(new=False))
        values = [reader.value(row) for row in self._roots.tolist()]
        owned = Owned([(store.heap, store.heap.objects)])
        found = {id(v): own for at, v in reader.made.items() if (own := owned.get(at)) is not None}
        return Again(values, store.originals() | found)

    def value(self) -> list[Value] | Array:
        """Return the instances as a shared value: the array that they are the rows of, read-only, or a list."""
        if self._array is None:
            return list(self)
        if len(self._array) < len(self):
            self._array = np.stack(list(self))
            self._array.flags.writeable = False
        return self._array

    def once(self) -> list[Value] | Array:
        """Return `value()`, made in the first call: for readers that change nothing."""
        if self._once is None:
            self._once = self.value()
        return self._once

    def __repr__(self) -> str:
        return f"Packed({len(self)} instances)"

    def bind(
        self, t: Type, layouts: tuple[StructLayout, ...], visible: AllVisible = _NOTHING
    ) -> tuple[Words, Heap] | None:
        """Return the words of the instances for a program with these layouts, and the heap that they refer to.

        None if the program's types differ so much that the instances must be packed anew, or if some object hides a
        class attribute that is read.
        """
        bound = self._store.bind(t, layouts, visible) if self._store.usable else None
        if bound is None:
            return None
        heap, move = bound
        if move is None:
            return self._roots, heap
        roots = self._roots.copy()
        for column in reference_columns(words(self.schema.params[0])):
            roots[:, column] = move(roots[:, column])
        return roots, heap

    def __reduce__(self) -> tuple[Any, ...]:
        heap, roots = self._store.heap, self._roots
        columns = list(reference_columns(words(self.schema.params[0])))
        part = None if len(roots) == self._store.count else reached(heap, roots[:, columns].reshape(-1))
        rests = self._store.rests(part)
        if part is not None:
            heap, roots = part.heap, roots.copy()
            roots[:, columns] = part.move(roots[:, columns])
        bases = {name: int(pool.ctypes.data) for name, pool in heap.pools.items()}
        state = (heap.words, heap.base, heap.regions, dict(heap.pools), bases, rests, self._store.usable)
        some = None if self._array is None else self._array[:0]
        return _restore, (self.schema, self._store.layouts, state, roots, self._plain, some)


def _restore(
    schema: Schema, layouts: tuple[StructLayout, ...], state: Any, roots: Words, plain: list[Value] | None,
    array: Array | None,
) -> Packed:  # fmt: skip
    old_words, base, regions, pools, bases, rests, usable = state
    new_words = _aligned_copy(old_words)
    pools = {name: _aligned_copy(pool) for name, pool in pools.items()}
    heap = Heap(words=new_words, regions=regions, pools=pools, rests=rests)
    move = rebase(heap, base, bases)
    roots = roots.copy()
    for column in reference_columns(words(schema.params[0])):
        roots[:, column] = move(roots[:, column])
    out = Packed(_store_of_words(schema, layouts, heap, usable, len(roots)), roots, plain, array)
    if not any(isinstance(r.listed, MapT) and r.listed.item is None for r in regions):
        return out
    values = list(out) if plain is None else plain  # sets have another order here: hashes may be others, and tables are
    batch = Packer(schema, layouts).pack([values])
    kept = kept_of(batch.heaps[0], layouts) if plain is None else {}
    store = _Store(schema, layouts, batch.heaps[0], usable and not batch.errors, len(batch), kept=kept)
    return Packed(store, batch.roots, plain, array)


def _store_of_words(schema: Schema, layouts: tuple[StructLayout, ...], heap: Heap, usable: bool, count: int) -> _Store:
    """Return the store of an unpickled pack: its objects are in another process, and are created on first access."""
    objects: dict[Region, Sequence[object]] = {}
    store = _Store(schema, layouts, replace(heap, objects=objects), usable, count)
    maker = Maker(store)
    objects |= {r: Copies(maker, r) for r in heap.regions if r.kind in ("rows", "heads")}
    return store


def packed_words(schema: Schema, layouts: tuple[StructLayout, ...], heap: Heap, roots: Words) -> Packed:
    """Return a pack of words without objects, such as Arrow data; the heap has `rests`."""
    return Packed(_store_of_words(schema, layouts, heap, True, len(roots)), roots, None)


def _aligned_copy(pool: Array) -> Array:
    out = aligned(pool.size, pool.dtype)
    out[:] = pool
    return out


def same_words(narrow: Type, wide: Type) -> bool:
    """Whether every value of one type has the same words as a value of another."""
    if narrow == wide:
        return True
    if isinstance(narrow, ListT) and isinstance(wide, ListT) and narrow.tupled == wide.tupled:
        return same_words(narrow.item, wide.item)
    if isinstance(narrow, TensorT) and isinstance(wide, TensorT):
        return (
            narrow.dtype == wide.dtype
            and narrow.rank == wide.rank
            and all(b is None or a == b for a, b in zip(narrow.shape, wide.shape, strict=True))
        )
    if isinstance(wide, UnionT) and len(words(wide)) == 1 and not isinstance(narrow, NoneT) and len(words(narrow)) == 1:
        rest = [m for m in wide.members if not isinstance(m, NoneT)]
        if all(isinstance(m, StructT | NoneT) for m in members(narrow)):
            return all(m in wide.members for m in members(narrow))
        return len(rest) == 1 and not isinstance(narrow, UnionT) and same_words(narrow, rest[0])
    return False


def pack(instances: Sequence[Value] | Array) -> Packed:
    """Return a snapshot of instances.

    Parameters
    ----------
    instances : sequence, or array [n, ...]
        One value per instance.

    Returns
    -------
    Packed
        One column of a mini-batch. Later changes of the instances are not seen.
    """
    if isinstance(instances, Packed):
        return instances
    column = instances if isinstance(instances, np.ndarray) and instances.dtype != object else list(instances)
    schema = None if isinstance(column, np.ndarray) else guess(column)
    packer = None if schema is None else Packer(schema, make_layouts(schema.fields), exact=loose(schema))
    batch = None if packer is None else packer.attempt(column)
    if schema is None or packer is None or batch is None:
        schema = infer([column])
        packer = Packer(schema, make_layouts(schema.fields))
        batch = packer.pack([column])
    while batch.errors and (faults := packer.faults(column)):  # such fields are in the copies alone
        packer = packer.without(faults)
        batch = packer.pack([column])
    whole = packer.schema is schema and not batch.errors and not loses(schema)
    plain, pairs = (None, []) if whole else copied(list(column))
    kept = kept_of(batch.heaps[0], packer.layouts) if whole else {}
    pairs += chain.from_iterable(rests.pairs for rests in kept.values() if isinstance(rests, UnpackedFields))
    usable = not batch.errors
    store = _Store(schema, packer.layouts, batch.heaps[0], usable, len(batch), kept=kept, pairs=pairs)
    return Packed(store, batch.roots, plain, column[:0] if isinstance(column, np.ndarray) else None)
