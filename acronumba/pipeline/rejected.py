"""Cached rejections of the front end, valid while the code and data they depend on are unchanged.

In: the code and data that were read until the function was rejected. Out: whether it would be rejected now. The cache
(`api.specialisations`) compares the types of a call, and the structure of its shared values.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.data.shared import SameObjects, describe_value, shared_key
from acronumba.errors import AcronumbaError
from acronumba.generics import Value
from acronumba.pipeline.fit import getter, packed_of

if TYPE_CHECKING:
    from acronumba.data.schema import Schema
    from acronumba.data.shared import SharedTree
    from acronumba.frontend.lower import Read


class Attempt:
    """One failed attempt to lower a function.

    Parameters
    ----------
    read
        The code and globals that the front end had read.
    narrowed
        For each iteration, the fields that were read, and the schema inferred from these alone.
    places
        Paths of arrays that were treated as columns.
    tree, shared
        The structure of the shared values, and the values.
    """

    def __init__(
        self, read: Read, narrowed: Sequence[tuple[Mapping[type, frozenset[str]], Schema]], places: Container[str],
        tree: SharedTree, shared: Mapping[str, Value],
    ) -> None:  # fmt: skip
        self._source_guards = read.source_guards
        self._outer = [(g, shared_key(g.shared)) for g in read.globals if not g.fixed]
        self._narrowed, self._places = tuple(narrowed), places
        self._tree = tree  # keeps alive objects that are compared by id
        roots = self._roots(shared)
        self._same = self._same_objects(roots)
        found = (getter(path, list(roots)) for path in sorted(read.demanded))
        self._demanded = [(get, get(roots)) for get in found]

    def _roots(self, shared: Mapping[str, Value]) -> Mapping[str, Value]:
        return {**{g.path: g.read() for g, _ in self._outer}, **shared}

    def _same_objects(self, roots: Mapping[str, Value]) -> Mapping[str, str]:
        """Return which paths lead to the same objects."""
        same = SameObjects()
        for path, shared in (*self._tree.roots.items(), *((g.path, g.shared) for g, _ in self._outer)):
            same.add(shared, roots[path])
        return same.paths

    def _same_outer(self) -> bool:
        """Whether globals and closure variables still have the structure that they had."""
        try:
            return all(shared_key(describe_value(g.path, g.read())) == key for g, key in self._outer)
        except (KeyError, ValueError):  # a global is gone; an empty cell
            return False

    def matches(self, columns: Sequence[Value], shared: Mapping[str, Value]) -> bool:
        """Whether the attempt would be rejected now, for a call of such types."""
        from acronumba.data.extents import with_columns
        from acronumba.data.pack import infer

        if shared.keys() != self._tree.roots.keys():
            return False
        if not all(w.is_valid() for w in self._source_guards) or not self._same_outer():
            return False
        roots = self._roots(shared)
        if any(get(roots) != value for get, value in self._demanded) or self._same_objects(roots) != self._same:
            return False
        given = [*columns, *packed_of(self._tree, shared)]
        return all(with_columns(infer(given, reads), self._places) == schema for reads, schema in self._narrowed)


class Rejected:
    """The rejection of a function for a call.

    Parameters
    ----------
    fn : function
    error : AcronumbaError
    attempts : sequence of Attempt
        All attempts; not empty.
    """

    def __init__(self, fn: types.FunctionType, error: AcronumbaError, attempts: Sequence[Attempt]) -> None:
        self._fn = fn
        self._error = copy.copy(error)  # without the frames that it was raised in
        self._attempts = tuple(attempts)

    def matches(self, fn: types.FunctionType, columns: Sequence[Value], shared: Mapping[str, Value]) -> bool:
        """Whether the function would be rejected now, for a call of such types."""
        return fn is self._fn and all(attempt.matches(columns, shared) for attempt in self._attempts)

    def again(self) -> AcronumbaError:
        """Return the error, to be raised once more."""
        return copy.copy(self._error)
