"""Mini-batches of packs that come again.

In: packs, which never change, and the `Batch` that a packer has made of them. Out: the same `Batch` for the same packs,
as long as all of them live: packs are not kept alive. That they are the same objects says all that was found out of
them: that they are packs, of one length, of types that are accepted.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acronumba.data.pack import Packed
from acronumba.generics import Value

if TYPE_CHECKING:
    from acronumba.data.pack import Batch, Packer


class Joined:
    """A mini-batch of packs; it is dropped with the first of them."""

    def __init__(self, columns: Sequence[Packed], batch: Batch) -> None:
        self._batch: Batch | None = batch
        self._columns = [weakref.ref(column, self._forget) for column in columns]

    def _forget(self, column: object) -> None:
        self._batch = None

    def of(self, columns: Sequence[Value]) -> Batch | None:
        """Return the mini-batch of these columns, None if it is of others."""
        batch, refs = self._batch, self._columns
        if len(refs) != len(columns):
            return None
        for ref, column in zip(refs, columns, strict=True):
            if ref() is not column:
                return None
        return batch


def joined(packer: Packer, columns: Sequence[Value], batch: Batch) -> Joined | None:
    """Return a `Joined` of a mini-batch, if its columns are packs whose words it has as they are."""
    params = packer.schema.params
    for column, t in zip(columns, params, strict=True):
        if not isinstance(column, Packed) or column.bind(t, packer.layouts, packer.visible) is None:
            return None
    return None if batch.errors else Joined(columns, batch)
