"""The guard of a specialisation: decides whether it is valid for a call.

In: the shared values of a call, and its instances. Out: the values of the shared leaves, or None if the source code or
the structure of shared or outer values has changed; and whether the instances have the types that were compiled.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING

from acronumba.data.shared import SharedTree, matcher, reaches_twice, without
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.types import ListT, MapT, StructT, TensorT
from acronumba.locks import lazy
from acronumba.pipeline.boundary import column_names
from acronumba.pipeline.fit import OuterMatch, getter, has_numbers, holds, root_of

if TYPE_CHECKING:
    from acronumba.data.schema import Schema
    from acronumba.errors import Loc
    from acronumba.frontend.lower import Lowered
    from acronumba.runtime.watched import WatchedNames


class Guard:
    """Decides whether a specialisation fits a call.

    Parameters
    ----------
    fn
        The function.
    tree, shared
        The structure of the shared values, and the values.
    schema, lowered
        The types of the instances, and the typed program.

    Raises
    ------
    AcronumbaError
        If the program copies shared values deeply that reach an object on two ways.
    """

    def __init__(
        self, fn: FunctionType, tree: SharedTree, schema: Schema, lowered: Lowered, shared: Mapping[str, Value]
    ) -> None:
        self._schema, self._lowered = schema, lowered
        self._columns = column_names(fn, tree.roots)
        self._shared = tree.roots.keys()
        params = lowered.program.shared
        # What a written attribute was before the batch matters only if instances may read it.
        written = {} if lowered.begin_shared else lowered.overlaid
        self._match = [
            (name, matcher(without(root, written), lowered.inherited, lowered.unread))
            for name, root in tree.roots.items()
        ]
        self._source_guard = lowered.source_guard
        self._outer = [
            OuterMatch(g, lowered.inherited, lowered.unread, written) for g in lowered.globals if not g.fixed
        ]
        self._names = names = [*tree.roots, *(o.path for o in self._outer)]
        self._getters = [getter(param.path, names) for param in params]
        self._array_roots = frozenset(self.root(p.path) for p in params if isinstance(p.type, TensorT))
        roots, demanded = self._roots(shared), [(p, getter(p, names)) for p in sorted(lowered.demanded)]
        self._demanded = [(get, get(roots)) for _, get in demanded]
        self._outer_demanded = [(get, get(roots)) for path, get in demanded if self.root(path) not in tree.roots]
        self._reads_outer = any(self.root(p.path) not in tree.roots for p in params)
        kinds = (p.type for p in params if self.root(p.path) not in tree.roots)
        self.reads_outer_data = any(isinstance(t, TensorT | ListT | MapT | StructT) for t in kinds)  # not only numbers
        self._apart = [(paths, [getter(p, names) for p in paths], loc) for paths, loc in lowered.apart.items()]
        self._distinct = [
            [[getter(path, names) for path in paths] for paths in objects]
            for objects in lowered.distinct
            if sum(map(len, objects)) > 1
        ]
        self._last: tuple[dict[str, Value], list[Value]] | None = None  # snapshots, and their leaves
        self._accepted: tuple[list[Schema], bool] | None = None  # types of packs, and what `accepts` returned
        self._known: tuple[tuple[object, list[Value]], ...] = ()  # shared values by `Call.same`, and their leaves
        for path, loc in self._find_aliases(roots):
            raise reject("ACR202", loc, f"copy.deepcopy of shared values that also contain {path} on another path",
                          "copy.copy(x) of each part that is changed")  # fmt: skip

    def root(self, path: str) -> str:
        """Return the shared parameter or outer variable that a path begins with."""
        return root_of(path, self._names)

    def stable(self, frozen: frozenset[str]) -> bool:
        """Whether no shared array can change; `frozen`: the shared parameters that are frozen."""
        return self._array_roots <= frozen

    def _roots(self, shared: Mapping[str, Value]) -> Mapping[str, Value]:
        return {**{o.path: o.read() for o in self._outer}, **shared}

    def _find_aliases(self, roots: Mapping[str, Value]) -> Iterator[tuple[str, Loc]]:
        """Yield the paths and source positions of aliases in shared values that are copied as if they had none."""
        for paths, getters, loc in self._apart:
            seen: set[int] = set()
            found = (path + again.strip() for path, get in zip(paths, getters, strict=True)
                     if (again := reaches_twice(get(roots), seen)))  # fmt: skip
            yield from ((path, loc) for path in found)

    def _same_objects(self, roots: Mapping[str, Value]) -> bool:
        """Whether the same paths as before lead to the same objects, if attributes of their classes are written."""
        for objects in self._distinct:
            try:
                found = [{id(get(roots)) for get in paths} for paths in objects]
            except (AttributeError, LookupError):  # a part that the program does not read is gone
                return False
            if any(len(ids) > 1 for ids in found) or len(set[int]().union(*found)) < len(found):
                return False
        return True

    # ---- shared values

    def leaves(
        self, shared: Mapping[str, Value], frozen: frozenset[str] = frozenset(), same: object = None
    ) -> list[Value] | None:
        """Return the values of `program.shared`, or None if the structure of the values, or the code, has changed.

        The result is cached for snapshots (the parameters in `frozen`) while they are the same objects, and for values
        of which `same` says that they have not changed: see `Call.same`.
        """
        if shared.keys() != self._shared or not self._code.are_unchanged():
            return None
        last = self._last
        for known, leaves in self._known:
            if known is same:
                return leaves if self._outer_holds(shared) else None
        if last is not None and frozen == last[0].keys() and all(shared[n] is v for n, v in last[0].items()):
            return last[1] if self._outer_holds(shared) else None
        found = self._leaves(shared)
        if found is not None and not self._reads_outer:
            if len(frozen) == len(shared):
                self._last = dict(shared), found
            if same is not None:
                self._known = ((same, found), *self._known[:1])
        return found

    @lazy
    def _code(self) -> WatchedNames:
        """All code and names that the compiler has read."""
        from acronumba.runtime.watched import WatchedNames

        return WatchedNames(self._source_guard)

    def _outer_holds(self, shared: Mapping[str, Value]) -> bool:
        """Whether outer variables are as they were, with the values of them that are constants of the program."""
        if self._outer and not all(o.matches() for o in self._outer):
            return False
        if not self._outer_demanded:
            return True
        roots = self._roots(shared)
        return all(get(roots) == value for get, value in self._outer_demanded)

    def _leaves(self, shared: Mapping[str, Value]) -> list[Value] | None:
        for name, match in self._match:
            if not match(shared[name]):
                return None
        roots = shared
        if self._outer:
            if not all(o.matches() for o in self._outer):
                return None
            roots = self._roots(shared)
        if any(get(roots) != value for get, value in self._demanded) or any(self._find_aliases(roots)):
            return None
        if not self._same_objects(roots):
            return None
        return [get(roots) for get in self._getters]

    def constants(self) -> list[str]:
        """Return the shared ints and extents of data that are constants of the program, with their values."""
        from acronumba.data.extents import arrays_of

        paths, names = sorted(self._lowered.demanded), self._columns
        columns = [place.removesuffix("?]") + "1]" for place, column in arrays_of(self._schema).items() if column]
        return [
            *(f"{path} = {value}" for path, (_, value) in zip(paths, self._demanded, strict=True)),
            *(f"{re.sub(r'^#([0-9]+)', lambda m: names[int(m[1])], place)}" for place in columns),
        ]

    # ---- instances

    @lazy
    def observed(self) -> Mapping[type, frozenset[str]] | None:
        """The fields that `accepts` must check, by class; None if it need not check anything."""
        from acronumba.data.hints import Observed, class_hints

        fields = self._schema.fields
        open_fields = any(
            isinstance(class_hints(cls).get(name), Observed) and has_numbers(fields.get(cls, {}).get(name))
            for cls, names in self._lowered.reads.items()
            for name in names
        )
        if open_fields:
            return self._lowered.reads
        return {} if any(has_numbers(t) for t in self._schema.params) else None

    def accepts(self, columns: Sequence[Sequence[Value]]) -> bool:
        """Whether values without an annotation have the types that were compiled.

        The packer converts as annotations allow (a float field accepts an int); inferred types must be the same.
        If all columns are packs, the result depends on nothing but their types, which are immutable: it is kept for
        the types that came last.
        """
        if self.observed is None:
            return True
        types: list[Schema] = [column.schema for column in columns if hasattr(column, "schema")]
        if len(types) < len(columns):
            return self._holds(columns, self.observed)
        last = self._accepted
        if last is None or len(last[0]) != len(types) or not all(map(operator.is_, last[0], types)):
            last = self._accepted = types, self._holds(columns, self.observed)
        return last[1]

    def matches_types(self, columns: Sequence[Sequence[Value]]) -> bool:
        """Whether these instances have the types that were compiled; if so, values that do not conform are bad data."""
        from acronumba.data.schema import hides

        reads = self._lowered.reads
        return self._holds(columns, reads) and not hides(columns, reads, self._lowered.inherited)

    def _holds(self, columns: Sequence[Sequence[Value]], reads: Mapping[type, frozenset[str]]) -> bool:
        from acronumba.data.pack import infer

        seen, mine = infer(columns, reads), self._schema.fields
        if not all(holds(t, s) for t, s in zip(self._schema.params, seen.params, strict=True)):
            return False
        return all(
            name in mine.get(cls, {}) and holds(mine[cls][name], fields[name])
            for cls, fields in seen.fields.items()
            for name in fields
        )
