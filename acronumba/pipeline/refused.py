"""What the front end has refused is not tried again while nothing that it rests on has changed.

In: what was read of the function until it was refused. Out: whether that would be refused now. The types of a call, and
the structure of its shared values, are compared by whoever keeps this (`api.kept`).
"""

from __future__ import annotations

import copy
import types
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acronumba.data.shared import describe_value, shared_key
from acronumba.errors import AcronumbaError
from acronumba.pipeline.fit import getter, packed_of

if TYPE_CHECKING:
    from acronumba.data.schema import Schema
    from acronumba.data.shared import SharedTree
    from acronumba.frontend.lower import Read


class Attempt:
    """One try to lower a function, which was refused.

    Parameters
    ----------
    read
        What the front end had read.
    narrowed
        The fields that were read, and the types as they are where only these are looked at, from try to try.
    places
        What was taken for columns.
    tree, shared
        The shared values, and their structure.
    """

    def __init__(
        self,
        read: Read,
        narrowed: Sequence[tuple[Mapping[type, frozenset[str]], Schema]],
        places: Container[str],
        tree: SharedTree,
        shared: Mapping[str, Any],
    ) -> None:
        self._source_guards = read.source_guards
        self._outer = [(g, shared_key(g.shared)) for g in read.globals if not g.fixed]
        self._narrowed, self._places = tuple(narrowed), places
        self._tree = tree  # keeps alive what is told apart by its id
        roots = self._roots(shared)
        found = (getter(path, list(roots)) for path in sorted(read.demanded))
        self._demanded = [(get, get(roots)) for get in found]

    def _roots(self, shared: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**{g.path: g.read() for g, _ in self._outer}, **shared}

    def _same_outer(self) -> bool:
        """Whether globals and closure variables still have the structure that they had."""
        try:
            return all(shared_key(describe_value(g.path, g.read())) == key for g, key in self._outer)
        except (KeyError, ValueError):  # there is none any more; an empty cell
            return False

    def matches(self, columns: Sequence[Any], shared: Mapping[str, Any]) -> bool:
        """Whether it would be refused now, for a call of such types."""
        from acronumba.data.extents import with_columns
        from acronumba.data.pack import infer

        if not all(w.is_valid() for w in self._source_guards) or not self._same_outer():
            return False
        roots = self._roots(shared) if self._demanded else shared
        if any(get(roots) != value for get, value in self._demanded):
            return False
        given = [*columns, *packed_of(self._tree, shared)]
        return all(with_columns(infer(given, reads), self._places) == schema for reads, schema in self._narrowed)


class Refused:
    """What was refused of a function for a call.

    Parameters
    ----------
    fn : function
    error : AcronumbaError
    attempts : sequence of Attempt
        All that were made; not empty.
    """

    def __init__(self, fn: types.FunctionType, error: AcronumbaError, attempts: Sequence[Attempt]) -> None:
        self._fn = fn
        self._error = copy.copy(error)  # without the frames that it was raised in
        self._attempts = tuple(attempts)

    def matches(self, fn: types.FunctionType, columns: Sequence[Any], shared: Mapping[str, Any]) -> bool:
        """Whether the function would be refused now, for a call of such types."""
        return fn is self._fn and all(attempt.matches(columns, shared) for attempt in self._attempts)

    def again(self) -> AcronumbaError:
        """Return the refusal, to be raised once more."""
        return copy.copy(self._error)
