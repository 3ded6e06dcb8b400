"""Unpacking of several instances at once, column by column.

In: the words of some instances. Out: the list of their values, equal to those that `unpack.Reader` makes one at a time.
First all references are followed from the outside in. Each type of list, dict, object or array has a pool (`pools`):
the addresses in a column are added to its pool, and the words at these addresses become columns again. Then values are
made from the inside out, a whole column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.data.codecs import codec
from acronumba.data.pools import (
    MOST,
    Arrays,
    Constructor,
    CycleOfPools,
    Key,
    Lists,
    Maps,
    NamedLists,
    NamedMaps,
    Objects,
    Pool,
    Reading,
    Take,
)
from acronumba.generics import Value
from acronumba.ir.types import Array0T, ListT, MapT, StructT, TensorT, Type, parts, union, with_parts, words

if TYPE_CHECKING:
    from acronumba.data.buffers import Memory
    from acronumba.data.heap import Owned
    from acronumba.memory import Words


class InfiniteType(Exception):
    """A type contains itself through immutable values, which cannot be created empty."""


class ColumnReader:
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

    def __init__(self, result: Type, classes: Sequence[Constructor]) -> None:
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

    def read(self, rows: Words, memory: Memory, known: Owned | None) -> list[Value]:
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
        if memory.pending is not None and reading.data:
            starts, sizes = zip(*reading.data, strict=True)
            memory.pending.some(np.concatenate(starts), np.concatenate(sizes))
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
            case StructT(cls) if cls not in inside:
                inside.add(cls)
                for f in self._classes[self._of[cls]].fields:
                    self._look(f.type, inside)
        for part in parts(t):
            self._look(part, inside)

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
        if kind.shape is not None and kind.shape.is_open and kind.fields:
            (held,) = kind.fields
            pool = self._maps(held.type) if isinstance(held.type, MapT) else self._lists(held.type)  # type: ignore[arg-type]
            pool.__class__ = NamedMaps if isinstance(held.type, MapT) else NamedLists
            return pool
        return Objects(kind, [(f.name, self._column(f.type, f.offset)) for f in kind.fields])

    # --- The columns ---

    def class_number(self, cls: type) -> int:
        """Return the tag of the rows of a class."""
        return self._of[cls]

    def references(self, t: Type, at: int) -> Take:
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
        return codec(t).take(t, at, self)


def _may_be_one(a: TensorT, b: TensorT) -> bool:
    """Whether one array may have both types."""
    alike = a.dtype == b.dtype and a.rank == b.rank
    return alike and all(None in (m, n) or m == n for m, n in zip(a.shape, b.shape, strict=True))


def _erased(t: Type) -> Type:
    """Return a type with every extent dynamic: types with equal memory layouts share a pool, to preserve aliasing."""
    return TensorT(t.dtype, (None,) * t.rank) if isinstance(t, TensorT) else with_parts(t, _erased)
