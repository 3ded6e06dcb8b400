"""Tensors in device memory, which PyTorch, CuPy and others accept without a copy.

In: the address of a tensor in a device's memory, and the owner of that memory. Out: `DeviceArray`, which implements
`__cuda_array_interface__` (version 3) and DLPack (`__dlpack__`, as a managed tensor). `np.asarray` copies it to the
CPU.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from acronumba.data.buffers import Memory
from acronumba.emit import tree
from acronumba.emit.compile import Compiled, load
from acronumba.emit.parse import parse
from acronumba.generics import Value
from acronumba.memory import Array, DeviceTensor, DType, Owner, Words
from acronumba.records import record
from acronumba.runtime.devices.device import Device, DeviceCopy

_CPU, _CUDA = 1, 2  # kinds of devices in DLPack
_BYTE = np.dtype(np.uint8)
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # kinds of numbers in DLPack


class DeviceArray(DeviceTensor):
    """A contiguous tensor on a device.

    Users get them from `Results.device`, and as gradients within a block of `on_device`. The array may be written to:
    its memory holds nothing else. Results that are read on the CPU afterwards contain these writes.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    address : int
        Of the first element, in the memory of the device.
    """

    __slots__ = ("_device", "_owner", "address", "dtype", "shape")

    def __init__(self, device: Device, address: int, dtype: DType, shape: Sequence[int], owner: Owner) -> None:
        self.address = address
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self._device = device
        self._owner = owner

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> Device:
        """The device that it is on."""
        return self._device

    @property
    def owner(self) -> Owner:
        """The owner of its memory."""
        return self._owner

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self._device.name})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a device array cannot be converted to NumPy without a copy")
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            self._device.download(out.reshape(-1).view(np.uint8), self.address)
        self._device.wait()
        self._owner.check()
        return out if dtype is None else out.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device.number is None:
            raise AttributeError("the array is not on a GPU")
        self._ready()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            "stream": None,  # nothing is left to wait for
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        number = self._device.number
        return (_CPU, 0) if number is None else (_CUDA, number)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """Return a capsule with the tensor, whose computation has finished: `stream` is not needed."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the tensor can be exported only on its own device and without a copy")
        self._ready()
        return _capsule(self)

    def __reduce__(self) -> Any:
        raise TypeError("a device array cannot be pickled: convert it with np.asarray")

    def _ready(self) -> None:
        """Wait for the tensor, and mark its memory as exported: others may read it even after they have dropped it."""
        self._device.wait()
        self._owner.check()
        self._owner.export()

    @staticmethod
    def stack(arrays: Sequence[DeviceArray]) -> DeviceArray:
        """Stack arrays of one shape along a new first axis: a view if they are adjacent in memory, else a copy."""
        first = arrays[0]
        shape, size = (len(arrays), *first.shape), first.nbytes
        device = first._device
        if all(a.address == first.address + k * size for k, a in enumerate(arrays)):
            return DeviceArray(device, first.address, first.dtype, shape, _Owners([a._owner for a in arrays]))
        memory = OwnMemory(device, size * len(arrays), [a._owner for a in arrays])
        for k, a in enumerate(arrays):
            device.copy(memory.address + k * size, a.address, size)
        return DeviceArray(device, memory.address, first.dtype, shape, memory)

    @staticmethod
    def join(arrays: Sequence[DeviceArray]) -> tuple[DeviceArray, DeviceArray]:
        """Return the concatenation of arrays along the first axis, and the first row of each.

        The concatenation is a view if the arrays are adjacent in memory.
        """
        first, device = arrays[0], arrays[0]._device
        offsets = np.cumsum([0, *(a.shape[0] for a in arrays)], dtype=np.int64)
        shape = (int(offsets[-1]), *first.shape[1:])
        some = [a for a in arrays if a.size] or [first]
        if all(a.address + a.nbytes == b.address for a, b in pairwise(some)):
            owner: Owner = _Owners([a._owner for a in some])
            values = DeviceArray(device, some[0].address, first.dtype, shape, owner)
        else:
            memory = OwnMemory(device, sum(a.nbytes for a in some), [a._owner for a in some])
            at = memory.address
            for a in some:
                device.copy(at, a.address, a.nbytes)
                at += a.nbytes
            values = DeviceArray(device, memory.address, first.dtype, shape, memory)
        places = OwnMemory(device, offsets.nbytes)
        device.upload(places.address, offsets.view(np.uint8))
        return values, DeviceArray(device, places.address, offsets.dtype, offsets.shape, places)


class _Owners:
    """Several of them."""

    def __init__(self, owners: Sequence[Owner]) -> None:
        self._owners = owners

    def check(self) -> None:
        for owner in self._owners:
            owner.check()

    def export(self) -> None:
        for owner in self._owners:
            owner.export()


class OwnMemory(_Owners):
    """Memory of a tensor copied from others; `check` checks the owners of these."""

    def __init__(self, device: Device, size: int, owners: Sequence[Owner] = ()) -> None:
        super().__init__(owners)
        self._device_copy = DeviceCopy(device, 0, size)
        self.address = self._device_copy.address

    def export(self) -> None: ...


class Pool:
    """Memory of a device for tensors that live for a step; used again without waiting, as all is done in order.

    Parameters
    ----------
    device
        The device.
    make
        Makes memory of a size: (device, start, size).
    """

    def __init__(self, device: Device, make: Callable[[Device, int, int], DeviceCopy]) -> None:
        self._device, self._make = device, make
        self._free: dict[int, list[DeviceCopy]] = {}

    def array(self, dtype: DType, shape: Sequence[int]) -> DeviceArray:
        """Return a tensor with any elements."""
        size = 1 << max(math.prod(shape) * np.dtype(dtype).itemsize - 1, 63).bit_length()
        free = self._free.setdefault(size, [])
        block = free.pop() if free else self._make(self._device, 0, size)
        return DeviceArray(self._device, block.address, dtype, shape, Pooled(block, free))


class Pooled(_Owners):
    """Memory that is given back, unless it was exported; `wait_for`: who says whether its computation has failed."""

    def __init__(self, block: DeviceCopy, free: list[DeviceCopy]) -> None:
        super().__init__(())
        self.block = block
        self._free: list[DeviceCopy] | None = free

    def __del__(self) -> None:
        if self._free is not None:
            self._free.append(self.block)

    def wait_for(self, owner: Owner) -> None:
        self._owners = (owner,)

    def export(self) -> None:
        self._free = None


class DeviceMemory(Memory):
    """The buffers of a mini-batch, with tensors as arrays of the device.

    Computed tensors are returned in place. Given tensors are copied, as the device's copy of them changes with the
    user's arrays.

    Parameters
    ----------
    arrays
        As for `Memory`.
    device
        The device of the tensors.
    start, end, shift
        Range of the computed tensors, in CPU addresses; device address minus CPU address.
    owner
        Of this memory.
    refresh
        Fetches the given tensors at addresses, if they are on the device.
    """

    __slots__ = ("_device", "_end", "_owner", "_refresh", "_shift", "_start", "_within")

    def __init__(
        self, arrays: Sequence[Array], device: Device, start: int, end: int, shift: int, owner: Owner,
        refresh: Callable[[Words], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(arrays)
        self._refresh = refresh
        self._within: Callable[[Value], Value] | None = None  # see `TensorMaker`
        self._device, self._start, self._end, self._shift, self._owner = device, start, end, shift, owner

    def arrays(self, records: list[int], dtype: DType, shape: tuple[int, ...]) -> list[Value] | None:
        return None

    def alike(self, addresses: Words, dtype: DType, shape: tuple[int, ...], array0: bool, owners: Words) -> list[Value]:
        return [self.tensor(at, dtype, shape, array0) for at in addresses.tolist()]

    def shaped(self, addresses: Words, dtype: DType, extents: Words, array0: bool, owners: Words) -> list[Value]:
        places = zip(addresses.tolist(), map(tuple, extents.tolist()), strict=True)
        return [self.tensor(at, dtype, shape, array0) for at, shape in places]

    def torch(self, array: Array, known: dict[int, tuple[Array, Value]]) -> Value:
        if self.tensors is None:
            return super().torch(array, known)
        if id(array) not in known:
            known[id(array)] = array, self._tensor(array)
            if self.made is not None:
                self.made.append(known[id(array)][1])
        return known[id(array)][1]

    def _tensor(self, array: Value) -> Value:
        """Return a tensor of PyTorch on the device."""
        assert self.tensors is not None
        if not (isinstance(array, DeviceArray) and array.size and array.owner is self._owner):
            return self.tensors(array)
        if self._within is None:
            at, size = self._start + self._shift, self._end - self._start
            self._within = self.tensors.within(DeviceArray(self._device, at, _BYTE, (size,), self._owner))
        return self._within(array)

    def tensor(self, address: int, dtype: DType, shape: tuple[int, ...], array0: bool) -> Value:
        size: int = math.prod(shape)
        if size and self._start <= address < self._end:
            return DeviceArray(self._device, address + self._shift, dtype, shape, self._owner)
        if size and self._refresh is not None:
            self._refresh(np.array([address]))
        data = self.array(address, dtype, shape)
        memory = OwnMemory(self._device, data.nbytes)
        self._device.upload(memory.address, data.copy().reshape(-1).view(np.uint8))
        return DeviceArray(self._device, memory.address, dtype, shape, memory)


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
        ("deleted", ctypes.c_int64),  # manager_ctx, which is ours
        ("deleter", ctypes.c_void_p),
    )


_NAME = b"dltensor"  # of a capsule until somebody takes the tensor
# prototypes of our own: the functions of `ctypes.pythonapi` are everybody's
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@record(eq=False, frozen=False)
class _Exported:
    """A tensor exported to another library, or in a capsule that was not consumed yet."""

    tensor: _Tensor
    shape: object
    array: DeviceArray
    capsule: object | None

    @property
    def gone(self) -> bool:
        """Whether the consumer has deleted the tensor."""
        if self.capsule is None:
            return bool(self.tensor.deleted)
        if _is_valid(self.capsule, _NAME):
            return sys.getrefcount(self.capsule) <= 2  # ours, and the one of the question
        self.capsule = None
        return bool(self.tensor.deleted)


_exported: list[_Exported] = []


def sweep() -> None:
    """Release tensors without references."""
    if _exported:
        _exported[:] = [one for one in _exported if not one.gone]


@cache
def _deleter() -> Compiled:
    """Return compiled code that marks a tensor as deleted.

    The tensor's consumer may call it in any thread, with or without the GIL, and while an exception propagates: Python
    code cannot run there.
    """
    index = _Tensor.deleted.offset // 8
    functions = parse(f"def delete(tensor: i64):\n    st(tensor, {index}, 1)\n")
    return load([tree.Module("dlpack", tuple(functions), ("delete",))])[0]


def _capsule(array: DeviceArray) -> Any:
    sweep()
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    kind, number = array.__dlpack_device__()
    tensor = _Tensor(
        data=array.address, device_type=kind, device_id=number, ndim=array.ndim, code=_CODES[array.dtype.kind],
        bits=8 * array.dtype.itemsize, lanes=1, shape=ctypes.addressof(shape), strides=None, byte_offset=0,
        deleted=0, deleter=_deleter().address["delete"],
    )  # fmt: skip
    capsule = _new(ctypes.addressof(tensor), _NAME, None)
    _exported.append(_Exported(tensor, shape, array, capsule))
    return capsule
