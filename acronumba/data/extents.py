"""Chooses the arrays whose last axis a program specialises to extent 1, so-called columns.

In: the types of a mini-batch, as inferred. Out: the types that a program is compiled for. An array that is a column in
all instances of the first mini-batch is specialised; once a later mini-batch has another extent there, that array has a
dynamic extent in every later program.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from acronumba.data.schema import Schema
from acronumba.ir.types import DictT, ListT, TensorT, TorchT, TupleT, Type, UnionT, class_key, union

CHANGES = 3  # so many changes of the set of columns, and a model prefers a program for any extents


class KnownColumns:
    """State of the choice: the columns in the mini-batches that a model was compiled for."""

    def __init__(self) -> None:
        self._found: set[str] = set()
        self._wide: set[str] = set()  # paths of arrays that were not columns
        self._changes = 0

    @property
    def wide(self) -> int:
        """Number of arrays known not to be columns; with the types it determines the choices, up to their order."""
        return len(self._wide)

    def choose(self, schema: Schema) -> list[frozenset[str]]:
        """Return the sets of paths of arrays that a program may treat as columns, the best choice first.

        The second choice is for models that are rejected with the first.
        """
        arrays = arrays_of(schema)
        columns = {place for place, column in arrays.items() if column}
        wide = arrays.keys() - columns
        self._changes += not self._found.isdisjoint(wide - self._wide)
        self._found |= columns
        self._wide |= wide
        left = frozenset(columns - self._wide)
        if not left:
            return [left]
        return [left, frozenset()] if self._changes < CHANGES else [frozenset(), left]


def arrays_of(schema: Schema) -> dict[str, bool]:
    """Map the path of each array of rank 2 or more to whether the array is a column."""
    found: dict[str, bool] = {}

    def note(t: TensorT, place: str) -> TensorT:
        found[place] = t.column
        return t

    _map(schema, note)
    return found


def with_columns(schema: Schema, places: Container[str]) -> Schema:
    """Return a schema in which only the arrays at some paths are columns, and others have dynamic extents."""
    return _map(schema, lambda t, place: t if place in places else TensorT(t.dtype, (None,) * t.rank))


Change = Callable[[TensorT, str], TensorT]


def _map(schema: Schema, change: Change) -> Schema:
    params = tuple(_map_type(t, f"#{k}", change) for k, t in enumerate(schema.params))
    fields = {
        cls: {name: _map_type(t, f"{class_key(cls)}.{name}", change) for name, t in row.items()}
        for cls, row in schema.fields.items()
    }
    return Schema(params=params, fields=fields)


def _map_type(t: Type, place: str, change: Change) -> Type:
    match t:
        case TensorT() if t.rank > 1:
            return change(t, f"{place}: {t.dtype}[{', '.join('?' * t.rank)}]")
        case TorchT(TensorT() as inner):
            array = _map_type(inner, place, change)
            assert isinstance(array, TensorT)
            return TorchT(array)
        case ListT():
            return ListT(_map_type(t.item, f"{place}[...]", change), t.tupled)
        case TupleT():
            return TupleT(tuple(_map_type(item, f"{place}[{k}]", change) for k, item in enumerate(t.items)))
        case DictT():
            items = (_map_type(item, f"{place}[{k!r}]", change) for k, item in zip(t.keys, t.items, strict=True))
            return DictT(t.keys, tuple(items))
        case UnionT():
            return union(*(_map_type(m, place, change) for m in t.members))
    return t
