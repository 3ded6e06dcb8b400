"""Unpacking: from words to Python values.

In: the result words of a mini-batch (one row per instance) and the buffers that their addresses point into. Out: a
`Decoder`: results are made lazily, one at a time here, several at once in `unpack_columns`. Arrays are read-only views
of the buffers and keep them alive. Aliasing is preserved within one instance. The user's own objects are returned
themselves: rows that were packed from objects have owners (`heap.Owned`). There is no recursion over data: a chain of a
million objects is a long list here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from acronumba.data.buffers import Memory
from acronumba.data.classes import new_object, setter_of
from acronumba.data.codec import Find, Read, TensorForm
from acronumba.data.codecs import codec, holds_references
from acronumba.data.decoder import FEW, FEW_CYCLIC, Decoder
from acronumba.data.pools import Constructor, Deep
from acronumba.data.texts import text_at
from acronumba.data.unpack_columns import ColumnReader, InfiniteType
from acronumba.data.words import MADE
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import NO_VALUE, Array0T, ArrayT, DictT, IntT, ListT, MapT, TensorT, TupleT, Type, maker, words
from acronumba.ir.written import elements
from acronumba.locks import lazy
from acronumba.memory import Array, Words

if TYPE_CHECKING:
    from acronumba.data.heap import Owned

_NO_RECORD = [0, 0, 0]  # of an instance without a result
Rest: TypeAlias = Callable[[int], Value]  # the unpacked attributes of the row at an address, see `heap.rest_of`


class Unpacker:
    """Builds Python values of one type.

    Parameters
    ----------
    result : Type
        Of the values.
    layouts : sequence of StructLayout
        Layouts of the classes of objects in values; the tag of a row is an index into it.
    """

    def __init__(self, result: Type, layouts: Sequence[StructLayout]) -> None:
        self.type = result
        self.layouts = tuple(layouts)
        self.width = len(words(result))
        self._items: dict[Type, tuple[Read, Find | None, int, TensorForm | None]] = {}
        self.read = codec(result).read(result, 0)
        self.find = codec(result).find(result, 0)
        self.classes = [Class(layout) for layout in self.layouts]
        items = result.items if isinstance(result, TupleT | DictT) else (result,)
        tensors = [t for t in items if isinstance(t, TensorT) or (isinstance(t, Array0T) and t.sure)]
        # The forms of values that are tensors, or tuples or dicts of these: each is one value record.
        self._forms = list(map(TensorForm.of, tensors)) if len(tensors) == len(items) else []
        # A list whose elements refer to no objects, lists or dicts.
        self._listed = result if isinstance(result, ListT) and not holds_references(result.item) else None
        # ... which are arrays of one shape: all of a list, or of a few lists, are read at once
        form = None if self._listed is None else self.item(self._listed.item)[3]
        self._at_once = form if form is not None and form.shape is not None else None

    def decoder(self, rows: Words, memory: Memory, objects: Owned | None = None, rest: Rest | None = None) -> Decoder:
        """Return a decoder of the values of instances, by instance number.

        Parameters
        ----------
        rows : int64[n, words of the type]
            The words of every instance.
        memory : Memory
            All memory that addresses point into.
        objects : optional
            The user's own objects, by address of their rows (see `Batch.objects`).
        rest : optional
            The unpacked attributes of a row.
        """
        columns = self._columns if rest is None else None

        def many(ks: Sequence[int]) -> list[Value]:
            if self._at_once is not None and len(ks) < few:
                lists = self._few_lists(rows[ks, 0].tolist(), memory, objects)
                return list(map(decode, ks)) if lists is None else lists
            assert columns is not None
            try:
                return columns.read(rows[ks], memory, objects)
            except Deep:
                return list(map(decode, ks))

        listed = self._listed

        def decode(k: int) -> Value:
            if self._at_once is not None and (lists := self._few_lists([int(rows[k, 0])], memory, objects)):
                return lists[0]
            reader = Reader(self, memory, objects, rest)
            return reader.value(rows[k].tolist()) if listed is None else reader.list_at(listed, int(rows[k, 0]))

        one = self._tensors(rows, memory)
        if one is not None:
            return Decoder.of(one) if columns is None else Decoder(one, many)
        some = memory.pending is not None and not memory.pending.all_if_few()
        few = 0  # lists of fewer instances are made by `_few_lists`
        if columns is None:
            return Decoder.of(decode)
        if some:  # what is decoded together is copied together
            return Decoder(decode if self._at_once is not None else lambda k: many([k])[0], many, few=2)
        few = FEW_CYCLIC if columns.cyclic else FEW
        return Decoder(decode, many, few if self._at_once is None else 2)

    def _few_lists(self, addresses: list[int], memory: Memory, objects: Owned | None) -> list[Value] | None:
        """Return the lists, or tuples, at some addresses, whose elements are all made at once; None if they cannot be.

        They are arrays of one shape, each of its own record: where two are one, or lie in several buffers, or a list is
        the user's own, `Reader` reads one list after the other.
        """
        form, t = self._at_once, self._listed
        assert form is not None
        assert form.shape is not None
        assert t is not None
        if objects is not None and any(objects.get(address) is not None for address in addresses):
            return None
        records = [memory.words(at, length) for at, length in [memory.words(address, 2) for address in addresses]]
        values = memory.arrays(list(chain.from_iterable(records)), form.dtype, form.shape)
        if values is None:
            return None
        made = iter(values)
        return [(tuple if t.tupled else list)(islice(made, len(of))) for of in records]

    def _tensors(self, rows: Words, memory: Memory) -> Callable[[int], Value] | None:
        """Return the decoder of values that are tensors, or tuples, lists or dicts of these; None if they are not."""
        t = self.type
        if not self._forms:
            return None
        parts = [self._tensor_column(form, rows[:, k], memory) for k, form in enumerate(self._forms)]
        if not isinstance(t, TupleT | DictT):
            return parts[0]
        made_of = maker(t)
        return lambda k: made_of([part(k) for part in parts])

    @lazy
    def _columns(self) -> ColumnReader | None:
        """Reader of several values at once; None for types that it cannot read."""
        try:
            return ColumnReader(self.type, self.classes)
        except InfiniteType:
            return None

    def _tensor_column(self, kind: TensorForm, column: Words, memory: Memory) -> Callable[[int], Value]:
        """Return the decoder of tensors; their value records are read when the first one is asked for."""
        found: list[tuple[list[int], list[tuple[int, ...]] | None]] = []
        column = column.copy()
        few = len(column) <= FEW and memory.pending is None

        def read_few() -> tuple[list[int], list[tuple[int, ...]] | None]:
            records = [memory.words(at, 3) if at else _NO_RECORD for at in column.tolist()]
            shapes = None
            if kind.shape is None:
                rank = kind.rank
                shapes = [tuple(memory.words(extents, rank)) if extents else (0,) * rank for _, _, extents in records]
            found.append(([data for data, _, _ in records], shapes))
            return found[0]

        def read() -> tuple[list[int], list[tuple[int, ...]] | None]:
            if memory.pending is not None and kind.shape is not None:
                there = memory.pending.records(column, math.prod(kind.shape) * kind.dtype.itemsize)
                if there is not None:
                    found.append((there, None))
                    return found[0]
            valid = column.nonzero()[0]
            some = len(valid) < len(column)
            records = memory.gather(column[valid] if some else column, 3)
            places, extents = records[:, 0], None if kind.shape is not None else memory.gather(records[:, 2], kind.rank)
            if memory.pending is not None and len(valid):
                many = math.prod(kind.shape) if extents is None else extents.prod(axis=1)  # type: ignore[arg-type]
                memory.pending.some(places, many * kind.dtype.itemsize)
            if some:
                places = _spread(places, valid, column)
                extents = None if extents is None else _spread(extents, valid, column)
            found.append((places.tolist(), None if extents is None else list(map(tuple, extents.tolist()))))
            return found[0]

        def decode(k: int) -> Value:
            data, shapes = found[0] if found else (read_few if few else read)()
            shape = kind.shape if shapes is None else shapes[k]
            return memory.tensor(data[k], kind.dtype, shape, kind.array0)  # type: ignore[arg-type]

        return decode

    def item(self, t: Type) -> tuple[Read, Find | None, int, TensorForm | None]:
        """Return how list elements are read: the reader, the finder of references or None, the width in words, and the
        form of tensors.
        """
        found = self._items.get(t)
        if found is None:
            found = self._items[t] = (
                codec(t).read(t, 0),
                codec(t).find(t, 0) if holds_references(t) else None,
                len(words(t)),
                TensorForm.of(t) if isinstance(t, TensorT) else None,
            )
        return found


def _spread(values: Words, places: Words, like: Words) -> Words:
    """Return an array with rows at some places, and zeros elsewhere."""
    out = np.zeros((len(like), *values.shape[1:]), np.int64)
    out[places] = values
    return out


class Class(Constructor):
    """Constructor of single objects of a class."""

    def __init__(self, layout: StructLayout) -> None:
        super().__init__(layout)
        self.put = setter_of(layout.cls)
        self.reads = [(f.name, codec(f.type).read(f.type, f.offset)) for f in self.fields]
        self.finds = [codec(f.type).find(f.type, f.offset) for f in self.fields if holds_references(f.type)]

    def fill(self, out: Value, reader: Reader, data: list[int], rest: dict[str, Value]) -> None:
        """Set the attributes of an object."""
        put = self.put
        for name, read in self.reads:
            value = read(reader, data)
            if not self.optional or value is not NO_VALUE:
                put(out, name, value)
        for name, value in rest.items():
            put(out, name, value)

    def tuple(self, reader: Reader, data: list[int], rest: dict[str, Value]) -> Value:
        """Create a NamedTuple, without a call of the user's `__new__`, or a matrix."""
        return self.made({name: read(reader, data) for name, read in self.reads} | rest)


class Reader:
    """Decodes values, of one instance or of several that share objects.

    First all reachable objects and lists are found and created empty. Immutable values (NamedTuples, tuples) are
    created after their contents, and then the others are filled.

    Parameters
    ----------
    unpacker : Unpacker
    memory : Memory
    known, rest
        See `Unpacker.decoder`.
    made : dict, optional
        Values that earlier readers have made, by address.
    """

    def __init__(
        self, unpacker: Unpacker, memory: Memory, known: Owned | None = None, rest: Rest | None = None,
        made: dict[int, Value] | None = None,
    ) -> None:  # fmt: skip
        self._unpacker = unpacker
        self._memory = memory
        self._known = known
        self._rest = rest
        self.made = {} if made is None else made  # objects, lists and arrays by address
        self._rows: dict[int, tuple[Class, list[int], dict[str, Value]]] = {}
        self._lists: dict[int, tuple[ListT, list[int], int]] = {}  # with the length
        self._texts: dict[int, str] = {}
        self._tensors: dict[int, tuple[Array, Value]] = {}  # arrays and their tensors of PyTorch, by id
        self._maps: dict[int, tuple[MapT, list[int], int]] = {}  # dicts and sets, with the length

    def value(self, row: list[int]) -> Value:
        """Return the value with these words."""
        found: list[tuple[Type, int]] = []
        self._unpacker.find(row, found)
        self.find(found)
        return self._unpacker.read(self, row)

    def list_at(self, t: ListT, address: int) -> Value:
        """Return the list, or tuple, at an address; its elements refer to no objects, lists or dicts."""
        user = None if self._known is None else self._known.get(address)
        if user is not None:
            return user
        segment, length = self._memory.words(address, 2)
        data = self._memory.words(segment, length * self._unpacker.item(t.item)[2])
        values = self._items(t.item, data, length)
        return tuple(values) if t.tupled else values

    def find(self, found: list[tuple[Type, int]]) -> None:
        """Create the objects and lists at some addresses, and everything reachable from them."""
        if not found:
            return
        self._discover(found)
        for address, (kind, data, rest) in self._rows.items():
            if not kind.immutable:
                kind.fill(self.made[address], self, data, rest)
        for address, (listed, data, length) in self._lists.items():
            if not listed.tupled:
                self.made[address][:] = self._items(listed.item, data, length)
        for address, (mapped, data, length) in self._maps.items():
            entries = self._items(mapped.entry, data, length)
            self.made[address].update(entries if mapped.item is not None else [key for key, _ in entries])

    def _items(self, t: Type, data: list[int], length: int) -> list[Value]:
        """Return the elements of a list, by the type of an element."""
        if isinstance(t, IntT):
            return data
        read, _, width, form = self._unpacker.item(t)
        if form is not None and len(data) > 1:
            return self._arrays(form, data)
        if not width:  # one constant, any number of times
            return [read(self, []) for _ in range(length)]
        return [read(self, data[k : k + width]) for k in range(0, len(data), width)]

    def _discover(self, later: list[tuple[Type, int]]) -> None:
        """Create every reachable object and list; immutable ones after their contents."""
        made, rows, lists = self.made, self._rows, self._lists
        later = [*later]
        while later:
            todo: list[tuple[Type | None, int]] = [later.pop()]  # None: the elements of this tuple have been made
            while todo:
                t, address = todo.pop()
                if t is None:
                    if address in rows:
                        kind, data, rest = rows[address]
                        made[address] = kind.tuple(self, data, rest)
                    else:
                        listed, data, length = lists[address]
                        made[address] = tuple(self._items(listed.item, data, length))
                    continue
                if address in made or address in rows or address in lists:
                    continue
                user = None if self._known is None else self._known.get(address)
                if user is not None:
                    made[address] = user
                    continue
                fixed, inner = self._list(t, address) if isinstance(t, ListT | MapT) else self._row(address)
                if fixed:
                    todo.append((None, address))
                (todo if fixed else later).extend(inner)

    def _row(self, address: int) -> tuple[bool, list[tuple[Type, int]]]:
        """Create an empty object unless it is a NamedTuple; return whether it is one, and its references."""
        kind = self._unpacker.classes[self._memory.words(address, 1)[0] % MADE]
        data = self._memory.words(address, kind.size)
        assert self._rest is not None or kind.stored.issuperset(kind.names), "an object has no owner"
        rest = {} if self._rest is None else self._rest(address) or {}
        self._rows[address] = kind, data, rest
        if not kind.immutable:
            self.made[address] = new_object(kind.cls)
        found: list[tuple[Type, int]] = []
        for find in kind.finds:
            find(data, found)
        return kind.immutable, found

    def _list(self, t: ListT | MapT, address: int) -> tuple[bool, list[tuple[Type, int]]]:
        """Create an empty list, dict or set; return whether it is a tuple instead, and its references."""
        segment, length, _ = self._memory.words(address, 3)
        _, find, width, _ = self._unpacker.item(t.entry if isinstance(t, MapT) else t.item)
        data = self._memory.words(segment, length * width)
        tupled = isinstance(t, ListT) and t.tupled
        if isinstance(t, ListT):
            self._lists[address] = t, data, length
        else:
            self._maps[address] = t, data, length
        if not tupled:
            self.made[address] = [None] * length if isinstance(t, ListT) else set() if t.item is None else {}
        found: list[tuple[Type, int]] = []
        if find is not None:
            for k in range(0, len(data), width):
                find(data[k : k + width], found)
        return tupled, found

    def text(self, word: int) -> str:
        """Return the string of a word."""
        found = self._texts.get(word)
        if found is None:
            found = self._texts[word] = text_at(word, self._memory.words)
        return found

    def array(self, kind: TensorForm, address: int) -> Value:
        """Return the array, or NumPy scalar, of a value record."""
        key = -address if kind.array0 else address  # the same record may be seen as an array and as a scalar
        if key in self.made:
            return self.made[key]
        data, _, extents = self._memory.words(address, 3)
        shape = tuple(self._memory.words(extents, kind.rank)) if kind.shape is None else kind.shape
        self.made[key] = out = self._memory.tensor(data, kind.dtype, shape, kind.array0)
        return out

    def _arrays(self, kind: TensorForm, records: list[int]) -> list[Value]:
        """Return the arrays, or NumPy scalars, of value records."""
        if kind.shape is not None and not kind.array0 and self.made.keys().isdisjoint(records):
            values = self._memory.arrays(records, kind.dtype, kind.shape)
            if values is not None:
                self.made.update(zip(records, values, strict=True))
                return values
        return [self.array(kind, record) for record in records]

    def torch(self, array: Value) -> Value:
        """Return the tensor of PyTorch for an array."""
        return self._memory.torch(array, self._tensors)

    def written(self, t: ArrayT, part: TensorForm, address: int, numbers: list[int]) -> Value:
        """Return the contents of an array that the model wrote into, from the list of its parts."""
        segment, length, _ = self._memory.words(address, 3)
        parts = self._memory.words(segment, length)
        out = elements(t, numbers, lambda k: self.array(part, parts[k]))
        out.flags.writeable = False
        return out
