"""The way back for several instances at once: results are read column by column.

In: the words of some instances. Out: the list of their values, just as `unpack.Reader` makes them one by one. First
all that is referred to is found, from the outside in: there is a pool for each type of lists, dicts, objects and
arrays; the addresses that a column refers to are added to its pool, and what lies there becomes columns again. Then
values are made from the inside out, a whole column at a time. This is for types that do not contain themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from acronumba.data.classes import field_names, new_object, set_field, setter_of
from acronumba.data.texts import HEAD
from acronumba.data.words import MADE
from acronumba.ir.types import (
    NO_VALUE,
    TEXT,
    UNSET,
    Array0T,
    ArrayT,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    MapT,
    NeverT,
    NoneT,
    OpaqueT,
    ScalarT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    UnsetT,
    case_slices,
    is_matrix,
    union,
    union_word,
    words,
)
from acronumba.ir.written import elements

if TYPE_CHECKING:
    from acronumba.data.buffers import Memory, Words
    from acronumba.data.heap import Owned
    from acronumba.ir.nodes import StructLayout

Values: TypeAlias = Callable[[], list[Any]]  # a column of values, when what it refers to has been made
# What a column of one type is made of: of the words of its rows, and of the number of the instance of each.
Take: TypeAlias = "Callable[[_Reading, Words, Words], Values]"
FEW_KEYS = 16  # of dicts that are made by a display
_Key: TypeAlias = "Type | type"


class _Reading:
    """Some instances while they are read."""

    def __init__(self, memory: Memory, known: Owned | None, pools: int) -> None:
        self.memory = memory
        self.known = known
        self.addresses: list[list[Words]] = [[] for _ in range(pools)]  # by pool, in pieces
        self.owners: list[list[Words]] = [[] for _ in range(pools)]  # the instances that refer to these
        self.counts = [0] * pools
        self.values: list[list[Any]] = [[]] * pools  # of all these addresses
        self.texts: dict[int, str] = {}  # by their words

    def refer(self, pool: int, addresses: Words, owners: Words) -> Values:
        """Add addresses to a pool."""
        first = self.counts[pool]
        last = self.counts[pool] = first + len(addresses)
        self.addresses[pool].append(addresses)
        self.owners[pool].append(owners)
        return lambda: self.values[pool] if last - first == self.counts[pool] else self.values[pool][first:last]

    def strings(self, column: list[int]) -> list[str]:
        """Return the strings of words."""
        texts = self.texts
        new = [word for word in dict.fromkeys(column) if word not in texts]
        texts.update((word, chr(~word)) for word in new if word < 0)
        records = np.array([word for word in new if word > 0], np.int64)
        lengths = self.memory.gather(records, 1)[:, 0]
        ends = lengths.cumsum()
        at = (records + 8 * HEAD - 8 * (ends - lengths)).repeat(lengths)
        at += 8 * np.arange(len(at))
        codes = self.memory.gather(at, 1)[:, 0].astype("<u4")
        characters, last = codes.tobytes().decode("utf-32-le", "surrogatepass"), ends.tolist()
        parts = (characters[a:b] for a, b in zip([0, *last], last, strict=False))
        texts.update(zip(records.tolist(), parts, strict=True))
        return list(map(texts.__getitem__, column))


class _Pool:
    """All that columns of one type refer to."""

    number: int
    owned = True  # whether what lies there may be the user's own

    def find(self, reading: _Reading, addresses: Words, owners: Words) -> Values:
        """Read what lies at addresses, all different within an instance."""
        raise NotImplementedError

    def read(self, reading: _Reading) -> Callable[[], None]:
        """Find what was referred to; return what makes it."""
        pieces, owners = reading.addresses[self.number], reading.owners[self.number]
        if not reading.counts[self.number]:
            return lambda: None
        one = len(pieces) == 1
        addresses = pieces[0] if one else np.concatenate(pieces)
        ordered = np.sort(addresses)
        places, owner, again = _distinct(addresses, owners[0] if one else np.concatenate(owners), ordered)
        known, rest = _known(reading.known if self.owned else None, places, int(ordered[0]), int(ordered[-1]))
        made = self.find(reading, places[rest], owner[rest]) if known else self.find(reading, places, owner)

        def make() -> None:
            values = made()
            if known:
                new = iter(values)
                values = [known[k] if k in known else next(new) for k in range(len(places))]
            reading.values[self.number] = values if again is None else [values[k] for k in again]

        return make


def _distinct(addresses: Words, owners: Words, ordered: Words) -> tuple[Words, Words, list[int] | None]:
    """Return the different pairs of an address and an instance; and, if some are alike, which pair each one is.

    `ordered` are the addresses in their order.
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


def _known(known: Owned | None, addresses: Words, low: int, high: int) -> tuple[dict[int, Any], Words | None]:
    """Return the user's own among what lies at addresses, by place, and the places of the rest.

    `low` and `high` are the least and the largest of the addresses.
    """
    found = {} if known is None or not known.between(low, high) else known.among(addresses)
    if not found:
        return found, None
    rest = np.ones(len(addresses), np.bool_)
    rest[list(found)] = False
    return found, rest.nonzero()[0]


class _Lists(_Pool):
    """Lists of one type."""

    def __init__(self, item: Take, width: int) -> None:
        self._item = item
        self._width = width

    def entries(self, reading: _Reading, addresses: Words, owners: Words) -> tuple[Words, Words, list[int]]:
        """Return the words of all elements, the instance of each, and where each list ends."""
        memory, width = reading.memory, self._width
        heads = memory.gather(addresses, 2)
        counts = heads[:, 1]
        ends = counts.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        at = (heads[:, 0] - 8 * width * (ends - counts)).repeat(counts)
        at += 8 * width * np.arange(total)
        return memory.gather(at, width), owners.repeat(counts), ends.tolist()

    def find(self, reading: _Reading, addresses: Words, owners: Words) -> Values:
        table, owner, ends = self.entries(reading, addresses, owners)
        items = self._item(reading, table, owner)

        def make() -> list[Any]:
            values = items()
            return [values[a:b] for a, b in zip([0, *ends], ends, strict=False)]

        return make


class _Maps(_Lists):
    """Dicts, or sets, of one type."""

    def __init__(self, key: Take, item: Take | None, width: int) -> None:
        self._key, self._value = key, item
        self._width = width

    def find(self, reading: _Reading, addresses: Words, owners: Words) -> Values:
        table, owner, ends = self.entries(reading, addresses, owners)
        keys = self._key(reading, table, owner)
        items = None if self._value is None else self._value(reading, table, owner)

        def make() -> list[Any]:
            names, starts = keys(), [0, *ends]
            if items is None:
                return [set(names[a:b]) for a, b in zip(starts, ends, strict=False)]
            return _dicts(names, items(), ends)

        return make


def _dicts(keys: list[Any], values: list[Any], ends: list[int]) -> list[dict[Any, Any]]:
    """Return dicts; `ends` says where the keys and values of each end."""
    count = ends[0] if ends else 0
    if not 0 < count <= FEW_KEYS or len(keys) != count * len(ends) or keys != keys[:count] * len(ends):
        pairs = list(zip(keys, values, strict=True))
        return [dict(pairs[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    return dict_maker(count)(keys[:count], zip(*[iter(values)] * count, strict=True))  # the same keys in all of them


@lru_cache(FEW_KEYS)
def dict_maker(count: int) -> Callable[[Sequence[Any], Iterable[tuple[Any, ...]]], list[dict[Any, Any]]]:
    """Return the function that makes dicts of the same keys, so many, from the values of each.

    It is a comprehension of displays, which is three times as fast as `dict` and `zip`.
    """
    names = [f"v{k}" for k in range(count)]
    shown = ", ".join(f"k{k}: {name}" for k, name in enumerate(names))
    keys = ", ".join(f"k{k}" for k in range(count))
    made: dict[str, Any] = {}
    exec(f"def make({keys}, rows):\n    return [{{{shown}}} for {', '.join(names)}, in rows]\n", made)
    make = made["make"]
    return lambda found, rows: make(*found, rows)


class Kind:
    """How objects of a class are made.

    Parameters
    ----------
    layout
        How their rows lie in memory.
    """

    def __init__(self, layout: StructLayout) -> None:
        self.cls = layout.cls
        self.size = layout.size
        self.fields = layout.fields
        self.names = field_names(layout.cls)
        self.stored = frozenset(f.name for f in layout.fields)
        self.matrix = is_matrix(layout.cls)
        # A NamedTuple, or a matrix: made with all its fields at once.
        self.immutable = self.matrix or issubclass(layout.cls, tuple)

    def made(self, found: dict[str, Any]) -> Any:
        """Return one that is made with all its attributes at once."""
        if self.matrix:
            return np.asarray(found["array"]).view(np.matrix)
        out: Any = tuple.__new__(self.cls, [found.pop(name) for name in self.names])
        for name, value in found.items():
            set_field(out, name, value)
        return out


class _Objects(_Pool):
    """Objects of one class."""

    def __init__(self, kind: Kind, fields: Sequence[tuple[str, Take]]) -> None:
        self._kind = kind
        self._fields = fields

    def find(self, reading: _Reading, addresses: Words, owners: Words) -> Values:
        kind = self._kind
        assert not len(addresses) or kind.stored.issuperset(kind.names), "an object has no owner"
        table = reading.memory.gather(addresses, kind.size)
        columns = [(name, take(reading, table, owners)) for name, take in self._fields]

        def make() -> list[Any]:
            if kind.immutable:
                names = [name for name, _ in columns]
                rows = zip(*(column() for _, column in columns), strict=True) if columns else repeat((), len(table))
                return [kind.made(dict(zip(names, row, strict=True))) for row in rows]
            objects, put = [new_object(kind.cls) for _ in range(len(table))], setter_of(kind.cls)
            for name, column in columns:
                for one, value in zip(objects, column(), strict=True):
                    if value is not NO_VALUE:
                        put(one, name, value)  # as frozen dataclasses do
            return objects

        return make


class _Arrays(_Pool):
    """Arrays of one dtype and rank; scalars of NumPy if they have no axes, unless they are `array0`."""

    owned = False

    def __init__(self, t: TensorT, array0: bool = False) -> None:
        self._dtype = np.dtype(t.dtype)
        self._shape = None if None in t.shape else t.shape  # None: some extents are in memory
        self._rank = t.rank
        self._array0 = array0

    def find(self, reading: _Reading, addresses: Words, owners: Words) -> Values:
        memory = reading.memory
        records = memory.gather(addresses, 3)
        shape: Any = self._shape
        if shape is not None:
            return lambda: memory.alike(records[:, 0], self._dtype, shape, self._array0)
        extents = memory.gather(records[:, 2], self._rank)
        return lambda: memory.shaped(records[:, 0], self._dtype, extents, self._array0)


class Endless(Exception):
    """A type contains itself."""


class Columns:
    """Reads values of one type.

    Parameters
    ----------
    result : Type
    classes : sequence of Kind
        As their rows number them.

    Raises
    ------
    Endless
        If the type contains itself.
    """

    def __init__(self, result: Type, classes: Sequence[Kind]) -> None:
        self._classes = classes
        self._of = {kind.cls: k for k, kind in enumerate(classes)}
        self._wide: dict[Type, Any] = {}  # what is one pool, though its types differ in extents
        self._open: list[TensorT] = []  # tensors with extents of run time
        self._look(result, set())
        self._numbers: dict[_Key, _Pool | None] = {}  # None: it is being made
        self._pools: list[_Pool] = []  # what one refers to comes before it
        self._take = self._column(result, 0)

    def read(self, rows: Words, memory: Memory, known: Owned | None) -> list[Any]:
        """Return the values whose words are the rows, each of an instance of its own."""
        reading = _Reading(memory, known, len(self._pools))
        values = self._take(reading, rows, np.arange(len(rows)))
        makers = [pool.read(reading) for pool in reversed(self._pools)]
        for make in reversed(makers):
            make()
        return values()

    # --- The pools ---

    def _look(self, t: Type, inside: set[type]) -> None:
        """Find which types have one pool."""
        match t:
            case TensorT() if None in t.shape:
                self._open.append(t)
            case ListT() | MapT():
                key = _erased(t)
                self._wide[key] = union(self._wide.get(key, t), t)
                self._look(t.item if isinstance(t, ListT) else t.entry, inside)
            case TupleT(items) | DictT(_, items) | UnionT(items):
                for item in items:
                    self._look(item, inside)
            case StructT(cls) if cls not in inside:
                inside.add(cls)
                for f in self._classes[self._of[cls]].fields:
                    self._look(f.type, inside)

    def _pool(self, key: _Key, make: Callable[[], _Pool]) -> int:
        """Return the number of a pool."""
        if key not in self._numbers:
            self._numbers[key] = None
            pool = self._numbers[key] = make()
            pool.number = len(self._pools)
            self._pools.append(pool)
        found = self._numbers[key]
        if found is None:
            raise Endless
        return found.number

    def _lists(self, t: ListT) -> _Pool:
        return _Lists(self._column(t.item, 0), len(words(t.item)))

    def _maps(self, t: MapT) -> _Pool:
        item = None if t.item is None else self._column(t.item, len(words(t.key)))
        return _Maps(self._column(t.key, 0), item, len(words(t.entry)))

    def _objects(self, cls: type) -> _Pool:
        kind = self._classes[self._of[cls]]
        return _Objects(kind, [(f.name, self._column(f.type, f.offset)) for f in kind.fields])

    # --- The columns ---

    def _references(self, t: Type, at: int) -> Take:
        """Return how a column of references to what is of one type is read."""
        match t:
            case ListT():
                key = _erased(t)
                number = self._pool(key, lambda: self._lists(self._wide[key]))
            case MapT():
                key = _erased(t)
                number = self._pool(key, lambda: self._maps(self._wide[key]))
            case StructT(cls):
                number = self._pool(cls, lambda: self._objects(cls))
            case Array0T():
                number = self._pool(Array0T(t.dtype), lambda: _Arrays(t.scalar, array0=True))
            case TensorT():
                several = any(_may_be_one(t, other) for other in self._open)
                wide = TensorT(t.dtype, (None,) * t.rank) if several else t
                number = self._pool(wide, lambda: _Arrays(wide))
            case _:
                raise TypeError(t)
        return lambda reading, rows, owners: reading.refer(number, rows[:, at], owners)

    def _column(self, t: Type, at: int) -> Take:
        """Return how a column is read, of values whose words begin at a place of their row."""
        match t:
            case IntT():
                return lambda reading, rows, owners: rows[:, at].tolist
            case FloatT():
                return lambda reading, rows, owners: rows[:, at].copy().view(np.float64).tolist
            case BoolT():
                return lambda reading, rows, owners: rows[:, at].astype(np.bool_).tolist
            case EnumT() | ScalarT():
                made = tuple(t.cls).__getitem__ if isinstance(t, EnumT) else np.dtype(t.dtype).type  # type: ignore[var-annotated,arg-type]
                return lambda reading, rows, owners: lambda: list(map(made, rows[:, at].tolist()))
            case UnsetT() | NoneT() | NeverT() | OpaqueT() | StrT():
                value = t.value if isinstance(t, StrT) else NO_VALUE if isinstance(t, UnsetT) else None
                return lambda reading, rows, owners: lambda: [value] * len(rows)
            case TextT():
                return lambda reading, rows, owners: lambda: reading.strings(rows[:, at].tolist())
            case TensorT() | Array0T(sure=True) | StructT() | ListT() | MapT():
                return self._references(t, at)
            case Array0T():
                both = (self._references(t.scalar, at + 1), self._references(Array0T(t.dtype), at + 1))
                return _cases(lambda rows: rows[:, at], dict(enumerate(both)))
            case ArrayT():
                return lambda reading, rows, owners: (
                    lambda: [_written(t, reading.memory, row) for row in rows[:, at:].tolist()]
                )
            case TupleT() | DictT():
                return self._items(t, at)
            case UnionT() if union_word(t) is not None:
                return self._optional(t, at)
            case UnionT():
                places = enumerate(case_slices(t))
                return _cases(
                    lambda rows: rows[:, at], {k: self._column(case, at + of.start) for k, (case, of) in places}
                )

    def _items(self, t: TupleT | DictT, at: int) -> Take:
        """Return how a column of tuples is read, or of dicts whose keys are known."""
        parts: list[Take] = []
        for item in t.items:
            parts.append(self._column(item, at))
            at += len(words(item))

        def make(rows: int, columns: list[Values]) -> list[Any]:
            found = zip(*(column() for column in columns), strict=True) if columns else repeat((), rows)
            if isinstance(t, DictT):
                return dict_maker(len(t.keys))(t.keys, found) if t.keys else [{} for _ in found]
            return list(map(list, found)) if t.listed else list(found)

        def take(reading: _Reading, rows: Words, owners: Words) -> Values:
            columns = [part(reading, rows, owners) for part in parts]
            return lambda: make(len(rows), columns)

        return take

    def _optional(self, t: UnionT, at: int) -> Take:
        """Return how a column of references is read that may be 0, or of references to objects of several classes."""
        nothing = NO_VALUE if UNSET in t.members else None
        empty: Take = lambda reading, rows, owners: lambda: [nothing] * len(rows)
        rest = [m for m in t.members if not isinstance(m, NoneT)]
        if TEXT in rest:
            return _cases(lambda rows: rows[:, at] != 0, {0: empty, 1: self._column(TEXT, at)})
        if len(rest) == 1:
            return _cases(lambda rows: rows[:, at] != 0, {0: empty, 1: self._references(rest[0], at)})
        objects = {self._of[m.cls]: self._references(m, at) for m in rest if isinstance(m, StructT)} | {-1: empty}

        def take(reading: _Reading, rows: Words, owners: Words) -> Values:
            tags = np.full(len(rows), -1)
            there = rows[:, at].nonzero()[0]
            tags[there] = reading.memory.gather(rows[there, at], 1)[:, 0] % MADE
            return _cases(lambda _: tags, objects)(reading, rows, owners)

        return take


def _cases(number: Callable[[Words], Any], takes: dict[int, Take]) -> Take:
    """Return how a column is read of which each row is of one of several cases."""

    def take(reading: _Reading, rows: Words, owners: Words) -> Values:
        numbers = number(rows)
        found: list[tuple[Words, Values]] = []  # the rows of each case; together all rows
        for k, inner in takes.items():
            some = (numbers == k).nonzero()[0]
            if len(some) == len(rows):
                return inner(reading, rows, owners)
            if len(some):
                found.append((some, inner(reading, rows[some], owners[some])))

        def make() -> list[Any]:
            order = np.empty(len(rows), np.int64)
            order[np.concatenate([some for some, _ in found])] = np.arange(len(rows))
            values = list(chain.from_iterable([column() for _, column in found]))
            return list(map(values.__getitem__, order.tolist()))

        return make

    return take


def _written(t: ArrayT, memory: Memory, row: Sequence[int]) -> Any:
    """Return the elements of an array that the model wrote into, whose words these are."""
    segment, length = memory.words(row[0], 2)
    parts = memory.words(segment, length)

    def part(k: int) -> Any:
        data, _, extents = memory.words(parts[k], 3)
        return memory.array(data, np.dtype(t.item.dtype), tuple(memory.words(extents, t.item.rank)))

    out = elements(t, row[1 : 1 + t.numbers], part)
    out.flags.writeable = False
    return out


def _may_be_one(a: TensorT, b: TensorT) -> bool:
    """Whether one array may have both types."""
    alike = a.dtype == b.dtype and a.rank == b.rank
    return alike and all(None in (m, n) or m == n for m, n in zip(a.shape, b.shape, strict=True))


def _erased(t: Type) -> Type:
    """Return a type of lists or dicts without extents: what lies in memory alike may be one object."""
    match t:
        case TensorT():
            return TensorT(t.dtype, (None,) * t.rank)
        case ListT(item):
            return ListT(_erased(item))
        case MapT():
            return MapT(_erased(t.key), None if t.item is None else _erased(t.item), t.given)
        case TupleT(items):
            return TupleT(tuple(map(_erased, items)), t.listed)
        case DictT(keys, items):
            return DictT(keys, tuple(map(_erased, items)))
        case UnionT(items):
            return UnionT(tuple(map(_erased, items)))
    return t
