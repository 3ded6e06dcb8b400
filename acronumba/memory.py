"""Addresses of arrays, and sizes of memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.generics import Value

Words: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[Any]  # of any dtype
DType: TypeAlias = np.dtype[np.generic]


def memory_at(start: int, end: int) -> NDArray[np.uint8]:
    """Return the bytes of a range of memory."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))


def word_at(at: int) -> int:
    """Return the word at an address."""
    return ctypes.c_int64.from_address(at).value


_DATA: int = object.__basicsize__  # bytes: the place of the address in an array object, part of NumPy's interface


def _tells_address() -> bool:
    """Whether array objects begin with the address of their data."""
    held = np.arange(12)
    samples = held, held[3:], held.reshape(3, 4)[1:, ::-2], held[:0], held.astype(np.uint8)
    return ctypes.sizeof(ctypes.c_void_p) == 8 and all(
        word_at(id(a) + _DATA) == a.__array_interface__["data"][0] for a in samples
    )


_DIRECT = sys.implementation.name == "cpython" and _tells_address()
_WORDS = (ctypes.c_int64 * ((1 << 59) - 1)).from_address(0) if _DIRECT else ()  # all of memory


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    if _DIRECT and type(array) is np.ndarray:
        return _WORDS[id(array) + _DATA >> 3]  # in a tenth of the time
    return int(array.__array_interface__["data"][0])


_NUMBERS: Words = np.arange(1 << 10)
_NUMBERS.flags.writeable = False


def numbers(count: int) -> Words:
    """Return the numbers below a count, not to be written to."""
    return _NUMBERS[:count] if count <= len(_NUMBERS) else np.arange(count)


def _comparing() -> Callable[[int, int, int], int] | None:
    """Return `memcmp` of the C library, None if there is none."""
    try:
        found = (ctypes.CDLL("msvcrt") if os.name == "nt" else ctypes.CDLL(None)).memcmp
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    return found


_compare = _comparing()
_PIECE = 1 << 19  # bytes that are compared at once without it: what comes of that stays in the cache


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two contiguous arrays of one size have the same bytes; nothing is copied."""
    if _compare is not None:
        return _compare(address(a), address(b), a.nbytes) == 0
    mine, theirs = a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)
    return all(np.array_equal(mine[k : k + _PIECE], theirs[k : k + _PIECE]) for k in range(0, a.nbytes, _PIECE))


def native(numbers: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """Return counts or indices as integers of a pointer's size: `repeat` and `bincount` accept no larger ones."""
    return numbers.astype(np.intp, copy=False)


ALIGNMENT = 64  # bytes: a cache line


def aligned(size: int, zero: bool = False) -> NDArray[np.uint8]:
    """Return an array of bytes that begins on a cache line: zeros, or uninitialised."""
    raw = (np.zeros if zero else np.empty)(size + ALIGNMENT, np.uint8)
    skip = -address(raw) % ALIGNMENT
    return raw[skip : skip + size]


def available() -> int:
    """Return the number of free bytes of memory."""
    try:
        for line in _kernel_file("/proc/meminfo").splitlines():
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 1 << 33


def installed() -> int:
    """Return the memory of the machine in bytes, or 8 GB if unknown."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 1 << 33


def resident() -> int:
    """Return the resident memory of the process in bytes, or 0 if unknown."""
    try:
        return int(_kernel_file("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _kernel_file(path: str) -> bytes:
    """Return the contents of a short file of the kernel.

    It is read without a file object, since a plain call may need it at any depth: next to the recursion limit, a file
    object fails after the file is open, and leaves it open.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)


class Owner(Protocol):
    """Owner of a tensor's memory."""

    def check(self) -> None:
        """Raise if the computation of the tensor, which has finished, has failed."""

    def export(self) -> None:
        """Note that the memory was exported to another library."""


class DeviceTensor:
    """An array in a device's memory: `runtime.devices.arrays.DeviceArray`."""

    address: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        raise NotImplementedError

    @property
    def device(self) -> Value:
        """The device that it is on."""
        raise NotImplementedError


class Home(Protocol):
    """A device that current values of arrays are on, while the arrays are stale: see `runtime.devices.resident`."""

    device: Value
    version: int  # increased with each change

    def holds(self, array: Array) -> bool:
        """Whether an array lies in one of these arrays."""

    def reject_stale(self, array: Array) -> None:
        """Raise if an array that it holds is stale."""

    def regions(self) -> Sequence[tuple[int, int, int]]:
        """Return where arrays lie: the same object as long as it holds the same ones."""

    def hold(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """Be the home of further arrays, which have a name each; nothing is done if one of them cannot be there."""

    def refresh(self, arrays: Iterable[Array]) -> None:
        """Copy the current values of some arrays, also others, to the CPU."""

    def prepare(self, of: Value, given: tuple[Value, ...]) -> Value:
        """See `runtime.shared.SharedValues.prepare`; None: no array is stale."""

    def step(self, rule: str, groups: Sequence[Sequence[Value]], numbers: Sequence[float], by_rows: bool) -> None:
        """See `runtime.updates.step`; the second array of a group may be by rows: only these change if `by_rows`."""

    def clip(self, arrays: Sequence[Value], most: float) -> Value:
        """See `optim.clip`: scale arrays of the device, of a total norm of at most `most`; return the norm before."""


homes: list[Home] = []  # of the blocks that are open


def home_of(array: object) -> Home | None:
    """Return the home of an array, if it has one."""
    if homes and isinstance(array, np.ndarray):
        return next((home for home in homes if home.holds(array)), None)
    return None


def home_on(device: object) -> Home | None:
    """Return the home on a device, if there is one."""
    return next((home for home in homes if home.device is device), None)


def refuse_stale(arrays: Iterable[object]) -> None:
    """Raise if an array is stale."""
    for array in arrays if homes else ():
        if (home := home_of(array)) is not None:
            home.reject_stale(array)  # type: ignore[arg-type]


def refresh_stale(values: Iterable[object]) -> None:
    """Copy the current values of arrays to the CPU, where they are stale."""
    for value in values if homes else ():
        if (home := home_of(value)) is not None:
            home.refresh([value])  # type: ignore[list-item]
