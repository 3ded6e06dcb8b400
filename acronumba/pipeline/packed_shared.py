"""Packed shared lists, dicts and objects: packed once, and again after a change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from acronumba.data.unchanged import Latest
from acronumba.errors.codes import reject
from acronumba.ir.types import DictT, ListT, MapT, StructT, TupleT, Type, UnionT

if TYPE_CHECKING:
    from acronumba.data.pack import Batch, Packer


def gives_away(t: Type) -> bool:
    """Whether a result may be, or contain, a mutable part of the shared values."""
    match t:
        case StructT() | ListT() | MapT() | DictT():
            return True
        case TupleT(items) | UnionT(items):
            return any(map(gives_away, items))
    return False


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

    def batch(self, value: Any, frozen: bool) -> Batch:
        """Return the packed value; `frozen`: the value does not change."""
        fixed = frozen and not self._given_away
        packed: Batch = self._latest.batch(value, fixed, partial(self._pack, value), self._packer.guard)
        return packed

    def _pack(self, value: Any) -> Batch:
        batch = self._packer.pack([[value]])
        for error in batch.errors.values():
            raise reject("ACR501", seen=f"{self._path}: {error.message}", rewrite=error.rewrite)
        return batch
