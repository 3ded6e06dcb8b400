"""A shared list, dict or object in words: packed once, and again when it has changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from acronumba.data.unchanged import Latest
from acronumba.errors.codes import refuse

if TYPE_CHECKING:
    from acronumba.data.pack import Batch, Packer


class PackedShared:
    """A shared value of a program, packed.

    Parameters
    ----------
    path, root : str
        How the user would write it, and the name that this begins with.
    packer
        Of such values.
    """

    def __init__(self, path: str, root: str, packer: Packer) -> None:
        self.root = root
        self._path, self._packer = path, packer
        self._latest = Latest()

    def batch(self, value: Any, frozen: bool) -> Batch:
        """Return the value packed; `frozen`: nobody changes it any more."""
        packed: Batch = self._latest.batch(value, frozen, partial(self._pack, value), self._packer.guard)
        return packed

    def _pack(self, value: Any) -> Batch:
        batch = self._packer.pack([[value]])
        for error in batch.errors.values():
            raise refuse("ACR501", seen=f"{self._path}: {error.message}", rewrite=error.rewrite)
        return batch
