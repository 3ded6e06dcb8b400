"""Shared values in the form that compiled code reads.

In: arrays and numbers as the user gives them. Out: one word each, value records, weights packed as kernels want them;
and whether all that still holds at the next call (`Prepared.holds`): arrays may be changed in place between calls.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.memory import address
from acronumba.runtime.buffers import Words
from acronumba.runtime.program import PackingLike


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packed:
    """Shared arrays packed for a kernel."""

    copies: tuple[NDArray[Any], ...]  # of the arrays
    array: NDArray[Any]

    def holds(self, given: Sequence[object], ks: Sequence[int]) -> bool:
        """Whether those of the arrays that are given, not computed, still have the bits that were packed."""
        return all(k >= len(given) or equal_bits(given[k], old) for k, old in zip(ks, self.copies, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """Shared values in the form that compiled code reads."""

    given: tuple[object, ...]  # the values, as they came
    table: Words  # one word each
    address: int  # of `table`
    copies: Mapping[int, NDArray[Any]]  # parameters whose array could not be used as it is
    entries: tuple[tuple[int, ...], ...]  # per kernel: what its parameter table ends with
    keep: tuple[NDArray[Any], ...]  # arrays and value records
    arrays: Mapping[int, NDArray[Any]]  # the tensors
    packed: Mapping[tuple[tuple[int, ...], object], Packed]  # by parameters and packing
    read: Mapping[int, NDArray[Any]]  # copies of the other parameters that computed ones are made of

    def holds(self) -> bool:
        """Whether the arrays still have the bits that were copied."""
        return (
            all(p.holds(self.given, ks) for (ks, _), p in self.packed.items())
            and all(equal_bits(self.given[k], old) for k, old in self.read.items())
            and all(
                np.array_equal(np.asarray(self.given[k]), old, equal_nan=old.dtype.kind == "f")
                for k, old in self.copies.items()
            )
        )


class Making:
    """Shared values while they are made ready."""

    def __init__(self, table: Words, last: Prepared | None) -> None:
        self.table = table
        self.keep: list[NDArray[Any]] = [table]
        self.arrays: dict[int, NDArray[Any]] = {}
        self.last = {} if last is None else last.packed
        self.packed: dict[tuple[tuple[int, ...], object], Packed] = {}

    def add(self, k: int, array: NDArray[Any]) -> None:
        """Make an array the tensor number k."""
        extents = np.array([*array.shape, 0], np.int64)
        record = np.array([address(array), -1, address(extents)], np.int64)
        self.keep += [array, extents, record]
        self.arrays[k] = array
        self.table[k] = address(record)

    def packing(self, ks: tuple[int, ...], packing: PackingLike | None) -> NDArray[Any]:
        """Return arrays as a kernel wants them; what was packed before is used if the arrays have not changed."""
        arrays = [self.arrays[k] for k in ks]
        if packing is None:
            return arrays[0]
        if (ks, packing) not in self.packed:
            old = self.last.get((ks, packing))
            if old is None or not all(map(equal_bits, arrays, old.copies)):
                old = Packed(copies=tuple(a.copy() for a in arrays), array=packing.apply(*arrays))
            self.packed[ks, packing] = old
            self.keep.append(old.array)
        return self.packed[ks, packing].array


def same(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return isinstance(a, int) and type(a) is type(b) and a == b


def equal_bits(value: object, old: NDArray[Any]) -> bool:
    """Whether the bits are equal."""
    array = np.asarray(value)
    if array.dtype != old.dtype or array.shape != old.shape:
        return False
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    size = f"u{old.dtype.itemsize}"
    return bool(np.array_equal(array.view(size), old.view(size)))
