"""Tensors that stay on a device: for PyTorch, CuPy and others, which take them without a copy.

In: the address of a tensor in a device's memory, and what keeps that memory. Out: `DeviceArray`, which has the two
protocols that libraries of the field exchange arrays by: `__cuda_array_interface__` (version 3) and DLPack
(`__dlpack__`, as a managed tensor). NumPy gets a copy of it (`np.asarray`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acronumba.runtime.dfg import Arena, Words
from acronumba.runtime.unpack import Memory

if TYPE_CHECKING:
    from acronumba.runtime.device import Device

_CPU, _CUDA = 1, 2  # kinds of devices in DLPack
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # kinds of numbers in DLPack


class DeviceArray:
    """A contiguous tensor on a device.

    Not to be made by users: `Results.device` has them. It may be written by who takes it; no result shares its memory
    unless the model returned one tensor twice.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    address : int
        Of the first element, in the memory of the device.
    """

    __slots__ = ("_device", "_owner", "address", "dtype", "shape")

    def __init__(self, device: Device, address: int, dtype: np.dtype[Any], shape: Sequence[int], owner: object) -> None:
        self.address = address
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self._device = device
        self._owner = owner  # as long as it lives, the memory is the tensor's

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self._device.name})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a device cannot be NumPy's without a copy")
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            self._device.download(out.reshape(-1).view(np.uint8), self.address)
            self._device.wait()
        return out if dtype is None else out.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device.number is None:
            raise AttributeError("the array is not on a GPU")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            "stream": self._device.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        number = self._device.number
        return (_CPU, 0) if number is None else (_CUDA, number)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """Return a capsule with the tensor; what computes it is done then, whatever the stream of who asks."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("only the tensor itself can be had, where it is")
        self._device.wait()
        return _capsule(self)

    @staticmethod
    def stack(arrays: Sequence[DeviceArray]) -> DeviceArray:
        """Return arrays of one shape with a leading axis: a view if they lie side by side, else a copy."""
        first = arrays[0]
        shape, size = (len(arrays), *first.shape), first.nbytes
        device = first._device
        if all(a.address == first.address + k * size for k, a in enumerate(arrays)):
            return DeviceArray(device, first.address, first.dtype, shape, tuple(a._owner for a in arrays))
        from acronumba.runtime.device import Twin

        memory = Twin(device, 0, size * len(arrays))
        for k, a in enumerate(arrays):
            device.copy(memory.address + k * size, a.address, size)
        return DeviceArray(device, memory.address, first.dtype, shape, memory)


class DeviceMemory(Memory):
    """The buffers of a mini-batch, whose tensors are those of the device.

    Parameters
    ----------
    arrays
        As for `Memory`.
    device
        Where tensors are.
    regions : int64[count, 3]
        Start, end, the device's address less the start: memory that both have, by address.
    arena
        Where what was computed lies: tensors keep it, and nothing else of the run.
    owner
        What keeps all other regions.
    """

    __slots__ = ("_arena", "_device", "_owner", "_regions")

    def __init__(
        self, arrays: Sequence[NDArray[Any]], device: Device, regions: Words, arena: Arena, owner: object
    ) -> None:
        super().__init__(arrays)
        self._device, self._regions, self._arena, self._owner = device, regions, arena, owner

    def tensor(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        k = int(np.searchsorted(self._regions[:, 1], address, "right"))
        if not math.prod(shape):
            return DeviceArray(self._device, 0, dtype, shape, None)
        if k == len(self._regions) or self._regions[k, 0] > address:
            raise IndexError(f"address {address:#x} is in no buffer of the device")
        owner = self._arena if self._regions[k, 0] == self._arena.address else self._owner
        return DeviceArray(self._device, address + int(self._regions[k, 2]), dtype, shape, owner)


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_exported: dict[int, tuple[object, ...]] = {}  # what tensors that others have consist of, by address
_NAME = b"dltensor"  # until somebody takes it


def _delete(at: int) -> None:
    _exported.pop(at, None)


def _destroy(capsule: int) -> None:
    """Delete a tensor that nobody has taken; the capsule is about to go, so it is only an address here."""
    if _is_valid(capsule, _NAME):
        _delete(_pointer(capsule, _NAME))


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)
_destroyer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)
# prototypes of our own: the functions of `ctypes.pythonapi` are everybody's
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _capsule(array: DeviceArray) -> Any:
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    kind, number = array.__dlpack_device__()
    tensor = _Tensor(
        data=array.address, device_type=kind, device_id=number, ndim=array.ndim, code=_CODES[array.dtype.kind],
        bits=8 * array.dtype.itemsize, lanes=1, shape=ctypes.addressof(shape), strides=None, byte_offset=0,
        manager_ctx=None, deleter=ctypes.cast(_deleter, ctypes.c_void_p).value,
    )  # fmt: skip
    at = ctypes.addressof(tensor)
    _exported[at] = tensor, shape, array
    return _new(at, _NAME, ctypes.cast(_destroyer, ctypes.c_void_p))
