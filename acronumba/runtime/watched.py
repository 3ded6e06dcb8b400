"""NumPy arrays that compiled code reads, and whether they still lie where they lay, with the same form; and names.

In: arrays. Out: `WatchedArrays`: a table with a row for each (ARRAY, see below), which one compiled call compares with
the array objects (`runtime.library.watched`). An array object can get another place, shape, step or dtype, or become
read-only, and be the same object: `a.resize`, `a.shape = ...`, `a.dtype = ...`, `a.setflags`.

The fields of an array object are part of NumPy's binary interface. They are compared with what NumPy says of an array
once; where they differ, and where code is interpreted, NumPy is asked for the form of each array.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import types
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from acronumba.config import interpreted
from acronumba.data.source_guard import ABSENT, SourceGuard
from acronumba.emit import tree
from acronumba.emit.compile import Compiled, Deferred, load
from acronumba.generics import Value
from acronumba.memory import Array, Words, address

# A row of ARRAY: address of the object, and of its data; number of axes, address of the dtype, flags; address of
# int64[2, axes]: shape and steps.
OBJECT, DATA, AXES, DTYPE, FLAGS, EXTENTS, WORDS = range(7)
# Words of an array object, behind the head that all objects have; those of 32 bits by numbers of half words.
OF_DATA, OF_SHAPE, OF_STEPS, OF_DTYPE = 0, 2, 3, 5
OF_AXES, OF_FLAGS = 2, 12
IN_ONE_PIECE = 0x101  # flags: C-contiguous, aligned
HEAD: int = object.__basicsize__


def watched_module() -> tree.Module:
    """Return the module of `runtime.library.watched`."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(["acronumba.runtime.library.watched"])
    exports = ("unchanged", "read_alike", "names_unchanged")
    return tree.Module("watched", functions, exports, "Arrays and names that are compared.")


def deferred() -> Deferred:
    """Return the module, made only if its machine code is not cached."""
    return Deferred(name="watched", key=f"watched {HEAD}", make=watched_module)


class _Calls:
    """The compiled functions; Python waits, so that nobody changes an object meanwhile."""

    def __init__(self) -> None:
        self._code: Compiled = load([deferred()])[0]
        self.unchanged = self._function("unchanged", 2)
        self.read_alike = self._function("read_alike", 5)
        self.names_unchanged = self._function("names_unchanged", 3)

    def _function(self, name: str, count: int) -> Callable[..., int]:
        return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(self._code.address[name])


@functools.cache
def _calls() -> _Calls | None:
    """Return the functions; None if array objects cannot be read."""
    if interpreted():
        return None
    sample = np.zeros((4, 6), np.float32)[::2, 1::3]
    words = np.frombuffer(ctypes.string_at(id(sample) + HEAD, 56), np.int64)
    halves = words.view(np.int32)
    if (words[OF_DATA], words[OF_DTYPE], halves[OF_AXES]) != (address(sample), id(sample.dtype), 2):
        return None
    extents = [ctypes.string_at(int(words[k]), 16) for k in (OF_SHAPE, OF_STEPS)]
    return _Calls() if extents == [np.array(x, np.int64).tobytes() for x in (sample.shape, sample.strides)] else None


def _form(array: Array) -> tuple[object, ...]:
    return address(array), array.shape, array.strides, array.dtype, array.flags.writeable


class WatchedArrays:
    """Arrays, as they were when this was made.

    Attributes
    ----------
    arrays : list of array
    addresses : list of int
        Where the elements lie.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = list(arrays)
        self.addresses = list(map(address, arrays))
        self._calls = _calls()
        self._rows: Words = np.zeros((len(arrays) + 1, WORDS), np.int64)
        self._keep: list[object] = [a.dtype for a in arrays]
        for row, a, at in zip(self._rows, arrays, self.addresses, strict=False):
            extents = np.array([*a.shape, *a.strides, 0], np.int64)
            self._keep.append(extents)
            row[:] = id(a), at, a.ndim, id(a.dtype), 0, address(extents)
            row[FLAGS] = np.frombuffer(ctypes.string_at(id(a) + HEAD, 56), np.int32)[OF_FLAGS]
        self._at = address(self._rows)
        self._forms = [] if self._calls else list(map(_form, self.arrays))

    def are_unchanged(self) -> bool:
        """Whether all arrays lie where they lay, and have the form and flags that they had."""
        if self._calls is None:
            return list(map(_form, self.arrays)) == self._forms
        return self._calls.unchanged(self._at, len(self.arrays)) != 0

    def read_alike(self, others: Sequence[Array], to: int, step: int) -> bool:
        """Write the addresses of other arrays, if they are in one piece and have the forms of the first of these.

        Parameters
        ----------
        others
            NumPy arrays.
        to, step
            Where to write the first address, and bytes from one to the next.
        """
        if self._calls is None:
            return False
        given = array("q", map(id, others))
        return self._calls.read_alike(self._at, given.buffer_info()[0], len(others), to, step) != 0


_PARTS = {"__code__": "PyFunction_GetCode", "__defaults__": "PyFunction_GetDefaults",
          "__kwdefaults__": "PyFunction_GetKwDefaults"}  # fmt: skip


class WatchedNames:
    """The lookups of a `SourceGuard`, repeated by one compiled call: it says what `SourceGuard.is_valid` says.

    Python's C interface looks up items of dicts by names, and parts of functions; the guard does with all others.
    """

    def __init__(self, guard: SourceGuard) -> None:
        self._calls = _calls()
        self._rest, self._others = guard, len(guard)  # it keeps all that is looked at alive
        if self._calls is None:
            return
        items, parts = list[tuple[int, ...]](), list[tuple[int, ...]]()

        def item(holder: Value, name: Value, value: Value) -> bool:
            found = gc.get_referents(holder) if type(holder) is types.MappingProxyType else [holder]
            taken = len(found) == 1 and type(found[0]) is dict and type(name) is str
            if taken:
                there = 0 if value is ABSENT else id(value)
                items.append((_of_python("PyDict_GetItem"), id(found[0]), id(name), there))
            return taken

        def attribute(holder: Value, name: str, value: Value) -> bool:
            taken = name in _PARTS and type(holder) is types.FunctionType
            if taken:
                parts.append((_of_python(_PARTS[name]), id(holder), 0, 0 if value is None else id(value)))
            return taken

        self._guard, self._rest = guard, guard.rest(item, attribute)
        self._others = len(self._rest)
        self._rows: Words = np.array([*items, *parts, (0,) * 4], np.int64)
        self._given = address(self._rows), len(items), len(parts)

    def are_unchanged(self) -> bool:
        """Whether every lookup gives the object that it gave."""
        if self._calls is not None and not self._calls.names_unchanged(*self._given):
            return False
        return not self._others or self._rest.is_valid()


def _of_python(name: str) -> int:
    """Return the address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
