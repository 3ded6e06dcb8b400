"""Pools for reading results by column: one per type of list, dict, object or array that columns refer to.

In: the addresses that columns refer to, with the instance of each. Out: the values at these addresses, read as columns
again. Pools of recursive types, which refer to one another, are one `CycleOfPools`: a breadth-first search finds all
addresses, every value is created empty, and then filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from keyword import iskeyword
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from acronumba.data.attribute_order import as_assigned
from acronumba.data.classes import field_names, maker_of, set_field, setter_of, shown_as
from acronumba.data.texts import HEAD
from acronumba.generics import Value
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import NO_VALUE, UNSET, TensorT, Type, members
from acronumba.memory import native

if TYPE_CHECKING:
    from acronumba.data.buffers import Memory
    from acronumba.data.heap import Owned
    from acronumba.ir.nodes import StructLayout
    from acronumba.memory import Array, Words

Values: TypeAlias = Callable[[], list[Value]]  # makes a column of values, once the values it refers to are made
# Reads a column of one type: from the words of its rows, and the instance number of each row.
Take: TypeAlias = "Callable[[Reading, Words, Words], Values]"
# Makes the values at some addresses, or fills the given empty ones.
Make: TypeAlias = "Callable[[list[Value] | None], list[Value]]"
FEW_KEYS = 16  # largest number of keys of dicts that are made by a display
FEW_CLASSES = 256  # largest number of classes with generated code to set attributes
Key: TypeAlias = "Type | type"
MOST = 1 << 16  # instances that are read together
_WAVES = 64  # of a knot, from which on
_WAVE = 16  # values must have been found in each, on average


class Deep(Exception):
    """Raised for long chains of references, where a breadth-first search has many small rounds."""


class Reading:
    """Instances that are being unpacked."""

    def __init__(self, memory: Memory, known: Owned | None, pools: int) -> None:
        self.memory = memory
        self.known = known
        self.addresses: list[list[Words]] = [[] for _ in range(pools)]  # by pool, in pieces
        self.owners: list[list[Words]] = [[] for _ in range(pools)]  # the instances with these references
        self.counts = [0] * pools
        self.values: list[list[Value]] = [[]] * pools  # of all these addresses
        self.data: list[tuple[Words, Words]] = []  # where arrays lie that may be on a device yet, and their bytes
        self.texts: dict[int, str] = {}  # by their words
        self._tensors: dict[int, tuple[Array, Value]] = {}  # arrays and their tensors of PyTorch, by id

    def refer(self, pool: int, addresses: Words, owners: Words) -> Values:
        """Add addresses to a pool."""
        first = self.counts[pool]
        last = self.counts[pool] = first + len(addresses)
        self.addresses[pool].append(addresses)
        self.owners[pool].append(owners)
        return lambda: self.values[pool] if last - first == self.counts[pool] else self.values[pool][first:last]

    def referred(self, pool: int, first: int) -> tuple[Words, Words]:
        """Return the addresses of a pool from index `first` on, and the instance of each."""
        pieces, owners = self.addresses[pool], self.owners[pool]
        if first:
            count = 0
            for k in range(len(pieces) - 1, -1, -1):
                count += len(pieces[k])
                if count == self.counts[pool] - first:
                    pieces, owners = pieces[k:], owners[k:]
                    break
        return (pieces[0], owners[0]) if len(pieces) == 1 else (np.concatenate(pieces), np.concatenate(owners))

    def torch(self, array: Value) -> Value:
        """Return the tensor of PyTorch for an array."""
        return self.memory.torch(array, self._tensors)

    def strings(self, column: list[int]) -> list[str]:
        """Return the strings of words."""
        texts = self.texts
        new = [word for word in dict.fromkeys(column) if word not in texts]
        texts.update((word, chr(~word)) for word in new if word < 0)
        records = np.array([word for word in new if word > 0], np.int64)
        lengths = self.memory.gather(records, 1)[:, 0]
        ends = lengths.cumsum()
        at = (records + 8 * HEAD - 8 * (ends - lengths)).repeat(native(lengths))
        at += 8 * np.arange(len(at))
        codes = self.memory.gather(at, 1)[:, 0].astype("<u4")
        characters, last = codes.tobytes().decode("utf-32-le", "surrogatepass"), ends.tolist()
        parts = (characters[a:b] for a, b in zip([0, *last], last, strict=False))
        texts.update(zip(records.tolist(), parts, strict=True))
        return list(map(texts.__getitem__, column))


class Pool:
    """The values that columns of one type refer to."""

    number: int
    owned = True  # whether values may be the user's own objects
    hashed = False  # whether it hashes its elements
    immutable = False  # whether values are created with all their contents at once

    def find(self, reading: Reading, addresses: Words, owners: Words) -> Make:
        """Read the values at addresses, which are all different within an instance."""
        raise NotImplementedError

    def empty(self, count: int) -> list[Value]:
        """Return so many values that will be filled."""
        raise NotImplementedError

    def known(self, reading: Reading, places: Words, ordered: Words) -> tuple[dict[int, Value], Words | None]:
        """See `_known`."""
        return _known(reading.known if self.owned else None, places, int(ordered[0]), int(ordered[-1]))

    def read(self, reading: Reading) -> Callable[[], None]:
        """Find the referred addresses; return a function that makes their values."""
        if not reading.counts[self.number]:
            return lambda: None
        addresses, owners = reading.referred(self.number, 0)
        ordered = np.sort(addresses)
        places, owner, again = _distinct(addresses, owners, ordered)
        known, rest = self.known(reading, places, ordered)
        made = self.find(reading, places[rest], owner[rest]) if known else self.find(reading, places, owner)

        def make() -> None:
            values = made(None)
            if known:
                new = iter(values)
                values = [known[k] if k in known else next(new) for k in range(len(places))]
            reading.values[self.number] = values if again is None else [values[k] for k in again]

        return make


class CycleOfPools:
    """Pools that refer to one another.

    Parameters
    ----------
    pools
        Their values can be created empty.
    """

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._pools = sorted(pools, key=lambda pool: pool.hashed)  # these are filled last

    def read(self, reading: Reading) -> Callable[[], None]:
        """Find the referred addresses and all that are reachable from them; return a function that makes their values.

        Raises
        ------
        Deep
        """
        there: dict[Pool, dict[int, int]] = {pool: {} for pool in self._pools}  # numbers by address and instance
        numbers: dict[Pool, list[int]] = {pool: [] for pool in self._pools}  # of all references
        values: dict[Pool, list[Value]] = {pool: [] for pool in self._pools}  # by number
        makers: list[tuple[Pool, list[Value], Make]] = []
        wave = found = 0
        while new := [pool for pool in self._pools if len(numbers[pool]) < reading.counts[pool.number]]:
            wave += 1
            if wave > _WAVES and found < _WAVES * _WAVE * (wave // _WAVES):
                raise Deep
            for pool in new:
                addresses, owners = reading.referred(pool.number, len(numbers[pool]))
                some, places, owner = _numbered(there[pool], addresses, owners)
                numbers[pool] += some
                found += len(places)
                if not len(places):
                    continue
                known, rest = pool.known(reading, places, np.sort(places))
                if known:
                    places, owner = places[rest], owner[rest]
                empty = pool.empty(len(places))
                makers.append((pool, empty, pool.find(reading, places, owner)))
                made = iter(empty)
                values[pool] += [known[k] if k in known else next(made) for k in range(len(known) + len(empty))]

        def make() -> None:
            for pool in self._pools:
                reading.values[pool.number] = list(map(values[pool].__getitem__, numbers[pool]))
            for pool in self._pools:
                for of, empty, fill in makers:
                    if of is pool:
                        fill(empty)

        return make


def _numbered(there: dict[int, int], addresses: Words, owners: Words) -> tuple[list[int], Words, Words]:
    """Return a number for each pair of address and instance, and the pairs that were not yet in `there`."""
    before = len(there)
    keys = (addresses >> 3) * MOST + owners
    numbers = [there.setdefault(key, len(there)) for key in keys.tolist()]
    if len(there) - before == len(numbers):
        return numbers, addresses, owners
    highest = np.maximum.accumulate(np.array([before - 1, *numbers]))
    first = highest[1:] > highest[:-1]
    return numbers, addresses[first], owners[first]


def _distinct(addresses: Words, owners: Words, ordered: Words) -> tuple[Words, Words, list[int] | None]:
    """Return the distinct pairs of address and instance, and with duplicates the index of each pair among them.

    `ordered` are the sorted addresses.
    """
    if (ordered[1:] != ordered[:-1]).all():
        return addresses, owners, None
    order = np.lexsort((addresses, owners))
    places, owner = addresses[order], owners[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (places[1:] != places[:-1]) | (owner[1:] != owner[:-1])
    if new.all():
        return addresses, owners, None
    again = np.empty(len(order), np.int64)
    again[order] = new.cumsum() - 1
    return places[new], owner[new], again.tolist()


def _known(known: Owned | None, addresses: Words, low: int, high: int) -> tuple[dict[int, Value], Words | None]:
    """Return the user's own objects among the values at addresses, by index, and the indices of the others.

    `low` and `high` are the least and the largest of the addresses.
    """
    found = {} if known is None or not known.between(low, high) else known.among(addresses)
    if not found:
        return found, None
    rest = np.ones(len(addresses), np.bool_)
    rest[list(found)] = False
    return found, rest.nonzero()[0]


class Lists(Pool):
    """Lists, or tuples, of one type."""

    def __init__(self, item: Take, width: int, tupled: bool) -> None:
        self._item = item
        self._width = width
        self.immutable = tupled

    def entries(self, reading: Reading, addresses: Words, owners: Words) -> tuple[Words, Words, list[int]]:
        """Return the words of all elements, the instance of each, and the end of each list."""
        memory, width = reading.memory, self._width
        heads = memory.gather(addresses, 2)
        counts = heads[:, 1]
        ends = counts.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        at = (heads[:, 0] - 8 * width * (ends - counts)).repeat(native(counts))
        at += 8 * width * np.arange(total)
        return memory.gather(at, width), owners.repeat(native(counts)), ends.tolist()

    def empty(self, count: int) -> list[Value]:
        return [[] for _ in range(count)]

    def find(self, reading: Reading, addresses: Words, owners: Words) -> Make:
        table, owner, ends = self.entries(reading, addresses, owners)
        items = self._item(reading, table, owner)

        def make(empty: list[Value] | None) -> list[Value]:
            values = items()
            if self.immutable:
                return [tuple(values[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
            if empty is None:
                return [values[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            for one, a, b in zip(empty, [0, *ends], ends, strict=False):
                one.extend(values[a:b])
            return empty

        return make


class NamedLists(Lists):
    """Lists, or tuples, of a closed shape: rows that refer to them."""

    def entries(self, reading: Reading, addresses: Words, owners: Words) -> tuple[Words, Words, list[int]]:
        return super().entries(reading, reading.memory.gather(addresses, 2)[:, 1], owners)


class Maps(Lists):
    """Dicts, or sets, of one type."""

    hashed = True

    def __init__(self, key: Take, item: Take | None, width: int) -> None:
        self._key, self._value = key, item
        self._width = width

    def empty(self, count: int) -> list[Value]:
        return [set() if self._value is None else {} for _ in range(count)]

    def find(self, reading: Reading, addresses: Words, owners: Words) -> Make:
        table, owner, ends = self.entries(reading, addresses, owners)
        keys = self._key(reading, table, owner)
        items = None if self._value is None else self._value(reading, table, owner)

        def make(empty: list[Value] | None) -> list[Value]:
            names, starts = keys(), [0, *ends]
            made: list[Value]
            if items is None:
                made = [set(names[a:b]) for a, b in zip(starts, ends, strict=False)]
            else:
                made = _dicts(names, items(), ends)
            for one, values in zip(empty or (), made, strict=False):
                one.update(values)
            return made if empty is None else empty

        return make


class NamedMaps(NamedLists, Maps):
    """Dicts of a closed shape: rows that refer to them."""


def _dicts(keys: list[Value], values: list[Value], ends: list[int]) -> list[dict[Value, Value]]:
    """Return dicts; `ends` are the ends of each dict's keys and values."""
    count = ends[0] if ends else 0
    if not 0 < count <= FEW_KEYS or len(keys) != count * len(ends) or keys != keys[:count] * len(ends):
        pairs = list(zip(keys, values, strict=True))
        return [dict(pairs[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    return dict_maker(count)(keys[:count], zip(*[iter(values)] * count, strict=True))  # the same keys in all of them


@lru_cache(FEW_KEYS)
def dict_maker(count: int) -> Callable[[Sequence[Value], Iterable[tuple[Value, ...]]], list[dict[Value, Value]]]:
    """Return a function that makes dicts with the same `count` keys from tuples of values.

    It is a comprehension of displays, which is three times as fast as `dict` and `zip`.
    """
    names = [f"v{k}" for k in range(count)]
    shown = ", ".join(f"k{k}: {name}" for k, name in enumerate(names))
    keys = ", ".join(f"k{k}" for k in range(count))
    made: dict[str, Value] = {}
    exec(f"def make({keys}, rows):\n    return [{{{shown}}} for {', '.join(names)}, in rows]\n", made)
    make = made["make"]
    return lambda found, rows: make(*found, rows)


@lru_cache(FEW_CLASSES)
def assignment(names: tuple[str, ...]) -> Callable[..., None]:
    """Return a function that sets attributes of objects from one column each, in a third of the time of `setattr`."""
    parts = ", ".join(f"v{k}" for k in range(len(names)))
    columns = ", ".join(f"c{k}" for k in range(len(names)))
    body = "; ".join(f"one.{name} = v{k}" for k, name in enumerate(names))
    made: dict[str, Value] = {}
    exec(f"def fill(objects, {columns}):\n    for one, {parts} in zip(objects, {columns}, strict=True): {body}\n", made)
    return made["fill"]  # type: ignore[no-any-return]


class Constructor:
    """Constructor of the objects of a class.

    Parameters
    ----------
    layout
        Memory layout of their rows.
    """

    def __init__(self, layout: StructLayout) -> None:
        self.cls = layout.cls
        self.size = layout.size
        order = as_assigned(layout.cls, (f.name for f in layout.fields))
        self.fields = sorted(layout.fields, key=lambda f: order.index(f.name))
        self.names = field_names(layout.cls)
        self.make = shown_as(layout.cls)  # of a NamedTuple
        self.stored = frozenset(f.name for f in layout.fields)
        self.shape = layout.cls.shape if is_shape(layout.cls) else None
        # a NamedTuple or tuple: made with all its fields at once
        self.immutable = issubclass(layout.cls, tuple) or (self.shape is not None and self.shape.keys is None)
        self.optional = any(UNSET in members(f.type) for f in layout.fields)  # objects may be without some field
        names = tuple(f.name for f in self.fields)
        plain = not self.optional and all(name.isidentifier() and not iskeyword(name) for name in names)
        self._assign = assignment(names) if names and plain else None

    def fill_all(self, objects: list[Value], columns: Sequence[list[Value]]) -> None:
        """Set the fields of objects, from one column per field."""
        put, usual = setter_of(self.cls), cast(object, self.cls.__setattr__)
        if self._assign is not None and put is usual:
            self._assign(objects, *columns)
            return
        for f, column in zip(self.fields, columns, strict=True):
            for one, value in zip(objects, column, strict=True):
                if value is not NO_VALUE:
                    put(one, f.name, value)  # as frozen dataclasses do

    def made(self, found: dict[str, Value]) -> Value:
        """Create an immutable object from all its attributes."""
        if self.shape is not None:
            return self.shape.make([found[name] for name in self.names])
        out = self.make([found.pop(name) for name in self.names])
        for name, value in found.items():
            set_field(out, name, value)
        return out


class Objects(Pool):
    """Objects of one class."""

    def __init__(self, kind: Constructor, fields: Sequence[tuple[str, Take]]) -> None:
        self._kind = kind
        self._fields = fields

    @property
    def immutable(self) -> bool:  # type: ignore[override]
        return self._kind.immutable

    def empty(self, count: int) -> list[Value]:
        make = maker_of(self._kind.cls)
        return [make() for _ in range(count)]

    def find(self, reading: Reading, addresses: Words, owners: Words) -> Make:
        kind = self._kind
        assert not len(addresses) or kind.stored.issuperset(kind.names), "an object has no owner"
        table = reading.memory.gather(addresses, kind.size)
        columns = [(name, take(reading, table, owners)) for name, take in self._fields]

        def make(empty: list[Value] | None) -> list[Value]:
            if kind.immutable:
                names = [name for name, _ in columns]
                rows = zip(*(column() for _, column in columns), strict=True) if columns else repeat((), len(table))
                return [kind.made(dict(zip(names, row, strict=True))) for row in rows]
            objects = self.empty(len(table)) if empty is None else empty
            kind.fill_all(objects, [column() for _, column in columns])
            return objects

        return make


class Arrays(Pool):
    """Arrays of one dtype and rank; scalars of NumPy if they have no axes, unless they are `array0`."""

    owned = False

    def __init__(self, t: TensorT, array0: bool = False) -> None:
        self._dtype = np.dtype(t.dtype)
        self._shape = None if None in t.shape else t.shape  # None: some extents are in memory
        self._rank = t.rank
        self._array0 = array0

    def find(self, reading: Reading, addresses: Words, owners: Words) -> Make:
        memory = reading.memory
        records = memory.gather(addresses, 3)
        shape: Value = self._shape
        if memory.pending is not None:
            many = math.prod(shape) if shape is not None else memory.gather(records[:, 2], self._rank).prod(axis=1)
            reading.data.append((records[:, 0], np.full(len(records), many * self._dtype.itemsize)))
        if shape is not None:
            return lambda _: memory.alike(records[:, 0], self._dtype, shape, self._array0, owners)
        extents = memory.gather(records[:, 2], self._rank)
        return lambda _: memory.shaped(records[:, 0], self._dtype, extents, self._array0, owners)
