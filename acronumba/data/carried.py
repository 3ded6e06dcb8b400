"""The objects of a pack that was unpickled, each created on first access.

In: a pack's words and the values outside them. Out: objects and lists that replace the user's originals, which are in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from acronumba.data.buffers import Memory
from acronumba.data.heap import Heap, Region
from acronumba.data.unpack import Reader, Unpacker
from acronumba.generics import Value
from acronumba.ir.types import StructT
from acronumba.locks import ForkLock


class Store(Protocol):
    """Source from which the objects of a pack are created."""

    heap: Heap

    def unpacker(self) -> Unpacker: ...
    def memory(self) -> Memory: ...
    def rest(self, new: bool = True) -> Callable[[int], Value]: ...


class Copies(Sequence[Value]):
    """The objects of a region of an unpickled pack, each created once, on first access."""

    def __init__(self, maker: Maker, region: Region) -> None:
        self._maker = maker
        self._region = region

    def __len__(self) -> int:
        return self._region.rows

    def __getitem__(self, row: Value) -> Value:
        return self._maker.object(self._region, row)


class Maker:
    """Creates the objects of an unpickled pack."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = ForkLock()
        self._made: dict[int, Value] = {}

    def object(self, region: Region, row: int) -> Value:
        """Return the object or list of a row."""
        store = self._store
        address = store.heap.address(region) + 8 * region.width * row
        with self._lock:
            if address not in self._made:
                reader = Reader(store.unpacker(), store.memory(), rest=store.rest(), made=self._made)
                reader.find([(region.listed or StructT(region.cls), address)])  # type: ignore[arg-type]
            return self._made[address]
