"""Packed shared lists, dicts and objects: packed once, and again after a change.

In: the values of a program's shared leaves. Out: `Batch`es of lists, dicts and objects, and the words of all leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from acronumba.data.skeleton import Skeleton
from acronumba.data.tables import DICTS
from acronumba.data.unchanged import Latest
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import DictT, ListT, MapT, StructT, Type, all_parts
from acronumba.memory import Array, homes, refresh_stale
from acronumba.pipeline.boundary import made_once

if TYPE_CHECKING:
    from types import FunctionType

    from acronumba.data.pack import Batch, Packer
    from acronumba.data.schema import Schema
    from acronumba.frontend.lower import Lowered
    from acronumba.ir.nodes import StructLayout
    from acronumba.pipeline.guard import Guard


def gives_away(t: Type) -> bool:
    """Whether a result may be, or contain, a mutable part of the shared values."""
    return any(isinstance(u, StructT | ListT | MapT | DictT) for u in all_parts(t))


class PackedShared:
    """A shared value of a program, packed.

    Parameters
    ----------
    path, root : str
        Source expression of the value, and the name it begins with.
    packer
        Packer of values of this type.
    given_away : bool
        Whether results of the program may be parts of the value: the user can then mutate even a frozen one.
    """

    def __init__(self, path: str, root: str, packer: Packer, given_away: bool) -> None:
        self.root = root
        self._path, self._packer, self._given_away = path, packer, given_away
        self._latest = Latest()

    def batch(self, value: Value, frozen: bool) -> Batch:
        """Return the packed value; `frozen`: the value does not change."""
        fixed = frozen and not self._given_away
        packed: Batch = self._latest.batch(value, fixed, partial(self._pack, value), self._packer.guard)
        return packed

    def _pack(self, value: Value) -> Batch:
        known = isinstance(self._packer.schema.params[0], MapT) and type(value) in DICTS
        batch = self._packer.pack([[dict(value) if known else value]])
        for error in batch.errors.values():
            raise reject("ACR501", seen=f"{self._path}: {error.message}", rewrite=error.rewrite)
        return batch


class SharedPacks:
    """Packs the shared lists, dicts and objects of a specialisation.

    Parameters
    ----------
    fn
        The function.
    schema, lowered
        Types of the instances, and the typed program.
    layouts
        Layouts of classes, with the fields that the program reads.
    guard
        Knows the roots of paths.
    """

    def __init__(
        self, fn: FunctionType, schema: Schema, lowered: Lowered, layouts: Sequence[StructLayout], guard: Guard
    ) -> None:
        self.fn, self._schema, self._lowered, self._layouts, self._guard = fn, schema, lowered, layouts, guard

    @made_once
    def _packs(self) -> dict[int, PackedShared]:
        """The shared lists, dicts and objects, by number."""
        from acronumba.data.pack import Packer, Schema
        from acronumba.data.stream import Streams

        program, found = self._lowered.program, {}
        given_away = gives_away(program.result)
        for k, param in enumerate(program.shared):
            if isinstance(param.type, ListT | MapT | StructT):
                schema = Schema(params=(param.type,), fields=self._schema.fields)
                streams = Streams(schema.params, program.result, program.layouts)
                exact = any(isinstance(t, StructT) and is_shape(t.cls) for t in all_parts(param.type))
                packer = Packer(schema, self._layouts, self._lowered.inherited, exact, streams=streams)
                found[k] = PackedShared(param.path, self._guard.root(param.path), packer, given_away)
        return found

    def batches(self, leaves: Sequence[Value], frozen: frozenset[str] = frozenset()) -> dict[int, Batch]:
        """Return the packed shared lists, dicts and objects, by number."""
        packs = self._packs
        for k in packs if homes else ():
            refresh_stale(Skeleton(leaves[k]).leaves)
        return {k: p.batch(leaves[k], p.root in frozen) for k, p in packs.items()} if packs else {}

    def words(
        self, packed: Batch | None, leaves: Sequence[Value], batches: Mapping[int, Batch] | None = None
    ) -> tuple[Sequence[Value], Sequence[Array]]:
        """Return the shared values, with lists and objects as words, and the owners of the memory they refer to."""
        if batches is None:
            batches = self.batches(leaves)
        keep = () if packed is None else packed.keep
        if not batches:
            return leaves, keep
        words = list(leaves)
        for k, batch in batches.items():
            words[k] = int(batch.roots[0, 0])
            keep += batch.keep
        return words, keep
