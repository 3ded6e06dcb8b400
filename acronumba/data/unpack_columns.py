"""Unpacking of several instances at once, column by column.

In: the words of some instances. Out: the list of their values, equal to those that `unpack.Reader` makes one at a time.
First all references are followed from the outside in. Each type of list, dict, object or array has a pool (`pools`):
the addresses in a column are added to its pool, and the words at these addresses become columns again. Then values are
made from the inside out, a whole column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.data.pools import (
    MOST,
    Arrays,
    CycleOfPools,
    Key,
    Kind,
    Lists,
    Maps,
    Objects,
    Pool,
    Reading,
    Take,
    Values,
    dict_maker,
)
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
    maker,
    union,
    union_word,
    with_parts,
    words,
)
from acronumba.ir.written import elements

if TYPE_CHECKING:
    from acronumba.data.buffers import Memory
    from acronumba.data.heap import Owned
    from acronumba.memory import Words


class InfiniteType(Exception):
    """A type contains itself through immutable values, which cannot be created empty."""


class Columns:
    """Reads values of one type.

    Parameters
    ----------
    result : Type
    classes : sequence of Kind
        The classes, indexed by the tags of their rows.

    Raises
    ------
    InfiniteType
        If the type contains itself through immutable values (NamedTuples), which are created after their contents.
    """

    def __init__(self, result: Type, classes: Sequence[Kind]) -> None:
        self._classes = classes
        self._of = {kind.cls: k for k, kind in enumerate(classes)}
        self._wide: dict[Type, Any] = {}  # list and dict types, with those that differ only in extents merged
        self._open: list[TensorT] = []  # tensors with extents of run time
        self._look(result, set())
        self._numbers: dict[Key, int] = {}
        self._pools: list[Pool] = []
        self._making: list[int] = []  # pools that are being made, the innermost last
        self._refers: set[tuple[int, int]] = set()  # which pool refers to which
        self._take = self._column(result, 0)
        self._order = self._ordered()  # topological order: a pool before the pools it refers to
        self.cyclic = any(
            isinstance(pool, CycleOfPools) for pool in self._order
        )  # whether values may hold others of their type

    def read(self, rows: Words, memory: Memory, known: Owned | None) -> list[Any]:
        """Return the values of the rows, each row being the words of one instance.

        Raises
        ------
        Deep
            If values refer to one another in long chains.
        """
        if len(rows) > MOST:
            return [*self.read(rows[:MOST], memory, known), *self.read(rows[MOST:], memory, known)]
        reading = Reading(memory, known, len(self._pools))
        values = self._take(reading, rows, np.arange(len(rows)))
        makers = [pool.read(reading) for pool in self._order]
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

    def _pool(self, key: Key, make: Callable[[], Pool]) -> int:
        """Return the number of a pool."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self._refers.update((outer, number) for outer in self._making[-1:])
        if number == len(self._pools):
            self._pools.append(Pool())  # until it is made
            self._making.append(number)
            pool = self._pools[number] = make()
            pool.number = self._making.pop()
        return number

    def _ordered(self) -> list[Pool | CycleOfPools]:
        """Return the pools in topological order; each cycle of pools is one `CycleOfPools`."""
        reach = [{b for a, b in self._refers if a == k} for k in range(len(self._pools))]
        for through in range(len(reach)):
            for found in reach:
                if through in found:
                    found |= reach[through]
        out: list[Pool | CycleOfPools] = []
        cyclic = set[int]()
        for k in sorted(range(len(reach)), key=lambda k: (-len(reach[k]), k in reach[k])):
            if k not in reach[k]:
                out.append(self._pools[k])
            elif k not in cyclic:
                some = [j for j in reach[k] if k in reach[j]]
                cyclic.update(some)
                if any(self._pools[j].immutable for j in some):
                    raise InfiniteType
                out.append(CycleOfPools(self._pools[j] for j in some))
        return out

    def _lists(self, t: ListT) -> Pool:
        return Lists(self._column(t.item, 0), len(words(t.item)), t.tupled)

    def _maps(self, t: MapT) -> Pool:
        item = None if t.item is None else self._column(t.item, len(words(t.key)))
        return Maps(self._column(t.key, 0), item, len(words(t.entry)))

    def _objects(self, cls: type) -> Pool:
        kind = self._classes[self._of[cls]]
        return Objects(kind, [(f.name, self._column(f.type, f.offset)) for f in kind.fields])

    # --- The columns ---

    def _references(self, t: Type, at: int) -> Take:
        """Return a reader of a column of references to values of one type."""
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
                number = self._pool(Array0T(t.dtype), lambda: Arrays(t.scalar, array0=True))
            case TensorT():
                several = any(_may_be_one(t, other) for other in self._open)
                wide = TensorT(t.dtype, (None,) * t.rank) if several else t
                number = self._pool(wide, lambda: Arrays(wide))
            case _:
                raise TypeError(t)
        return lambda reading, rows, owners: reading.refer(number, rows[:, at], owners)

    def _column(self, t: Type, at: int) -> Take:
        """Return a reader of a column of values whose words begin at index `at` of their row."""
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
        """Return a reader of a column of tuples, or of dicts with constant keys."""
        parts: list[Take] = []
        for item in t.items:
            parts.append(self._column(item, at))
            at += len(words(item))
        made_of = maker(t)

        def make(rows: int, columns: list[Values]) -> list[Any]:
            found = zip(*(column() for column in columns), strict=True) if columns else repeat((), rows)
            if isinstance(t, DictT) and t.keys:
                return dict_maker(len(t.keys))(t.keys, found)
            return list(found) if made_of is tuple else list(map(made_of, found))

        def take(reading: Reading, rows: Words, owners: Words) -> Values:
            columns = [part(reading, rows, owners) for part in parts]
            return lambda: make(len(rows), columns)

        return take

    def _optional(self, t: UnionT, at: int) -> Take:
        """Return a reader of a column of optional references (0 for None), or of references to several classes."""
        nothing = NO_VALUE if UNSET in t.members else None
        empty: Take = lambda reading, rows, owners: lambda: [nothing] * len(rows)
        rest = [m for m in t.members if not isinstance(m, NoneT)]
        if TEXT in rest:
            return _cases(lambda rows: rows[:, at] != 0, {0: empty, 1: self._column(TEXT, at)})
        if len(rest) == 1:
            return _cases(lambda rows: rows[:, at] != 0, {0: empty, 1: self._references(rest[0], at)})
        objects = {self._of[m.cls]: self._references(m, at) for m in rest if isinstance(m, StructT)} | {-1: empty}

        def take(reading: Reading, rows: Words, owners: Words) -> Values:
            tags = np.full(len(rows), -1)
            there = rows[:, at].nonzero()[0]
            tags[there] = reading.memory.gather(rows[there, at], 1)[:, 0] % MADE
            return _cases(lambda _: tags, objects)(reading, rows, owners)

        return take


def _cases(number: Callable[[Words], Any], takes: dict[int, Take]) -> Take:
    """Return a reader of a column whose rows have different cases; `number` returns the case of each row."""

    def take(reading: Reading, rows: Words, owners: Words) -> Values:
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
    """Return the contents of an array that the model wrote into, from its words."""
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
    """Return a type with every extent dynamic: types with equal memory layouts share a pool, to preserve aliasing."""
    return TensorT(t.dtype, (None,) * t.rank) if isinstance(t, TensorT) else with_parts(t, _erased)
