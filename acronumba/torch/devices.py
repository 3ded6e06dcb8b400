"""Modules on a GPU: their tensors where they lie, as the device of a model reads and writes them.

In: tensors of PyTorch on a device. Out: arrays that stand for them (`Tensors`): they have addresses and no elements,
and regions say where their elements are, as of all arrays on a device (`runtime.devices.resident`). Gradients are
written into memory of PyTorch, and results are tensors in the memory that they were computed in. `Places` is all that
is asked of PyTorch about devices; tests replace it, with tensors on the simulator.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch

from acronumba import foreign
from acronumba.errors.codes import reject
from acronumba.foreign import is_tensor
from acronumba.generics import Value
from acronumba.memory import Array, DType, address
from acronumba.runtime.devices.arrays import DeviceArray
from acronumba.runtime.devices.derived import Derived
from acronumba.runtime.devices.device import Device
from acronumba.runtime.devices.driver import Gpu
from acronumba.runtime.devices.names import open_device
from acronumba.runtime.devices.resident import Held, Resident

_ALIGNED = 16  # bytes: a tensor at another address is copied on the device


class Places:
    """Where tensors are."""

    def name(self, tensor: Any) -> str:
        """Return the name of a tensor's device, as models have it."""
        device = tensor.device
        return f"{device.type}:{device.index}" if device.index else str(device.type)

    def runs(self, name: str) -> bool:
        """Whether models compute on a device, other than the CPU."""
        return name.startswith("cuda")

    def device(self, name: str) -> Any:
        """Return PyTorch's device of a name."""
        return torch.device(_torch_name(name))

    def empty(self, name: str, dtype: DType, shape: Sequence[int]) -> Any:
        """Return a new tensor on a device."""
        return torch.empty(tuple(shape), dtype=foreign.Library.dtypes[dtype.name], device=_torch_name(name))

    def blank(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return an array that stands for a tensor."""
        return np.empty(shape, dtype)

    def moved(self, tensor: Any, name: str) -> Any:
        """Return a copy of a tensor on a device, or on the CPU."""
        return tensor.to(_torch_name(name))

    def shown(self, tensor: Any) -> None:
        """Let kernels reach the memory of a tensor."""

    def begin(self, name: str, device: Device) -> None:
        """Let what the device does from now on follow all that PyTorch does there so far."""
        assert isinstance(device, Gpu)
        device.follow(torch.cuda.current_stream(_torch_name(name)).cuda_stream)

    def end(self, name: str, device: Device) -> None:
        """Let what PyTorch does there from now on follow all that the device does so far."""
        assert isinstance(device, Gpu)
        device.precede(torch.cuda.current_stream(_torch_name(name)).cuda_stream)


def _torch_name(name: str) -> str:
    """Return the name that PyTorch has for a device: "cuda" is its current one."""
    return "cuda:0" if name == "cuda" else name


places = Places()
F = TypeVar("F", bound=Callable[..., Any])
Key = tuple[int, int]  # an instance, and the id of an array of its result


class _Here(threading.local):
    name = "cpu"  # the device of the call that runs


_here = _Here()


@contextmanager
def computing(name: str) -> Iterator[None]:
    """Compute on a device what follows, in order with PyTorch."""
    if name == "cpu":
        yield
        return
    before, _here.name = _here.name, name
    device = open_device(name)
    try:
        places.begin(name, device)
        try:
            yield
        finally:
            places.end(name, device)
    finally:
        _here.name = before


def placed(method: F) -> F:
    """Wrap a method of a model, so that it runs on the device of the modules of a call."""

    @functools.wraps(method)
    def call(self: Any, *columns: Any, **shared: Any) -> Any:
        there = self.on_device_of(shared)
        if there.there is None:
            return method(self, *columns, **shared)
        with computing(there.there.name):
            return method(there, *columns, **shared)

    return call  # type: ignore[return-value]


def device_of(modules: Sequence[tuple[str, torch.nn.Module]]) -> str:
    """Return the device of modules, which have a name each: a GPU, or else "cpu"; raise if they are on several."""
    firsts = (next(chain(module.parameters(), module.buffers()), None) for _, module in modules)
    if not any(first is not None and places.runs(places.name(first)) for first in firsts):
        return "cpu"  # tensors elsewhere are rejected when they are read
    found: dict[str, str] = {}
    for prefix, module in modules:
        for tensors in (module.named_parameters(prefix), module.named_buffers(prefix)):
            for name, tensor in tensors:
                found.setdefault(places.name(tensor), name)
    there = [device for device in found if places.runs(device)]
    if there and len(found) > 1:
        seen = ", ".join(f"`{name}` on {device}" for device, name in found.items())
        raise reject("ACR706", message="the parameters and buffers of a model must be on one device", seen=seen,
                     rewrite="net.to(device)")  # fmt: skip
    return there[0] if there else "cpu"


class _OfThread(threading.local):
    """State of one thread."""

    def __init__(self) -> None:
        self.regions: list[tuple[int, int, int]] = []


class _Borrowed:
    """Memory of a tensor that stands for that of an array."""

    def __init__(self, start: int, size: int, there: int) -> None:
        self.start, self.size, self.address = start, size, there
        self.region = start, start + size, there - start


class Tensors(Resident):
    """The tensors of modules on a device.

    Parameters
    ----------
    name, device
        The device.
    """

    def __init__(self, name: str, device: Device) -> None:
        super().__init__(device)
        self.name = name
        self.pool = _Pool(self)  # type: ignore[assignment]
        self._of: dict[int, tuple[Any, tuple[object, ...], Array, Any]] = {}  # by id, see `_stand_in`
        self._gone: list[tuple[int, Array]] = []
        self._thread = _OfThread()

    def regions_for(self, forms: Derived) -> list[tuple[int, int, int]]:
        """See `Resident.regions_for`: others' arrays may go at any time, and their addresses be those of others."""
        held = {id(h): h for a in forms.arrays if (h := self._find(a)) is not None}
        return [*(h.device_copy.region for h in held.values()), *self._thread.regions]

    def stand_ins(self, given: Sequence[Value]) -> tuple[Value, ...]:
        """Return values, with arrays in place of tensors on the device."""
        with self.lock:
            self._drop()
            out = tuple([self._stand_in(v) if is_tensor(v) and places.name(v) == self.name else v for v in given])
            if any(own is not None for _, _, _, own in self._of.values()):
                places.begin(self.name, self.device)  # they have been copied there
            self.version += 1  # what is written through `.data` has no version: all forms are packed anew
        return out

    def _stand_in(self, tensor: Any) -> Array:
        """Return the array that stands for a tensor."""
        key = id(tensor)
        found = self._of.get(key)
        form = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
        if found is not None and found[0]() is tensor and found[1] == form:
            if found[3] is not None:
                found[3].copy_(tensor.detach())
            return found[2]
        if found is not None:
            self._gone.append((key, found[2]))
            self._drop()
        own = None
        if not tensor.is_contiguous() or tensor.data_ptr() % _ALIGNED:
            own = tensor.detach().clone(memory_format=torch.contiguous_format)
        array = self.stand_for(tensor if own is None else own)
        self._of[key] = weakref.ref(tensor, lambda _: self._gone.append((key, array))), form, array, own
        return array

    def _drop(self) -> None:
        """Forget tensors that are no more; forms of them go, too, as others may get their addresses."""
        while self._gone:
            key, array = self._gone.pop()
            if key in self._of and self._of[key][2] is array:
                del self._of[key]
                self.drop(array)
                self._forms.clear()

    def stand_for(self, tensor: Any) -> Array:
        """Return an array that stands for a contiguous tensor, which lives as long as that."""
        array: Array = places.blank(tuple(tensor.shape), _dtype(tensor))
        if array.nbytes:
            places.shown(tensor)
            at = address(array)
            there = _Borrowed(at, array.nbytes, tensor.data_ptr())
            with self.lock:  # new ones: other threads may read the old ones
                self._held = {**self._held, at: Held("", array, there, 0, -1)}
                self._starts = sorted(self._held)
        return array

    @contextmanager
    def reading(self, tensors: Sequence[Any]) -> Iterator[list[Array]]:
        """Yield arrays that stand for contiguous tensors, which the kernels that this thread launches may read."""
        arrays = [self.stand_for(tensor) for tensor in tensors]
        self._thread.regions = [self._held[address(a)].device_copy.region for a in arrays if a.nbytes]
        try:
            yield arrays
        finally:
            self._thread.regions = []
            for array in arrays:
                self.drop(array)

    def drop(self, array: Array) -> None:
        """Forget an array that stands for a tensor."""
        if array.nbytes:
            gone = address(array)
            with self.lock:
                self._held = {at: held for at, held in self._held.items() if at != gone}
                self._starts = sorted(self._held)


class _Pool:
    """Memory of PyTorch for gradients."""

    def __init__(self, home: Tensors) -> None:
        self._home = weakref.ref(home)

    def array(self, dtype: DType, shape: Sequence[int]) -> DeviceArray:
        """Return a tensor with any elements."""
        home = self._home()
        assert home is not None
        tensor = places.empty(home.name, np.dtype(dtype), shape)
        places.shown(tensor)
        return DeviceArray(home.device, tensor.data_ptr(), dtype, shape, _Owned(tensor))


class _Owned:
    """Owner of memory of PyTorch."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def check(self) -> None: ...
    def export(self) -> None: ...


def _dtype(tensor: Any) -> DType:
    name = str(tensor.dtype).removeprefix("torch.")
    return np.dtype(name)


_homes: dict[str, Tensors] = {}
_opening = threading.Lock()


def home(name: str) -> Tensors:
    """Return the home of the tensors of modules on a device."""
    with _opening:
        if name not in _homes:
            _homes[name] = Tensors(name, open_device(name))
    return _homes[name]


def standing_for(tensor: Any) -> Array | None:
    """Return the array that stands for a tensor on a GPU, in its present memory; None if there is none."""
    there = _homes.get(places.name(tensor))  # opened, if a model has run there
    found = None if there is None else there._of.get(id(tensor))
    return found[2] if found is not None and found[1][0] == tensor.data_ptr() else None


def _at_home(device: object, given: tuple[Value, ...]) -> tuple[tuple[Value, ...], Any]:
    """Return shared values with arrays that stand for tensors on the device, and their home if there are some."""
    if _here.name == "cpu" or not any(is_tensor(v) and _is_here(v) for v in given):
        return given, None
    there = home(_here.name)
    assert there.device is device
    return there.stand_ins(given), there


def _is_here(tensor: Any) -> bool:
    return _here.name != "cpu" and places.name(tensor) == _here.name


def _fetched(tensor: Any) -> Any:
    return places.moved(tensor.detach(), "cpu") if _is_here(tensor) else None


def is_this(device: Any) -> bool:
    """Whether a device of PyTorch, or its name or number, is the one that the call that runs computes on.

    Of a GPU the number is not looked at: tensors of a model are on one.
    """
    return torch.device(device).type in ("cpu", this_device().type)


def this_device() -> Any:
    """Return the device that the call that runs computes on."""
    return places.device(_here.name)


def place() -> str:
    """Return the name in messages of the device that the call that runs computes on."""
    return "CPU" if _here.name == "cpu" else "GPU of its module"


foreign.Library.device = this_device
foreign.Library.is_here = _is_here
foreign.Library.fetched = _fetched
foreign.Library.at_home = _at_home


# ---- results and gradients


class Maker:
    """Makes tensors on a device of what was computed there.

    Parameters
    ----------
    name
        Of the device.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, array: Any) -> Any:
        """Return a tensor with the elements of an array, which is on the device or not."""
        if not isinstance(array, DeviceArray):
            return places.moved(torch.from_numpy(np.array(array)), self.name)
        if isinstance(array.owner, _Owned):
            return array.owner.tensor
        return torch.from_dlpack(array) if array.size else places.empty(self.name, array.dtype, array.shape)

    def within(self, memory: DeviceArray) -> Callable[[DeviceArray], Any]:
        """Return a function that makes tensors of arrays that lie in a piece of memory, in less time."""
        base = torch.from_dlpack(memory)
        storage, device, start = base.untyped_storage(), base.device, memory.address
        empty: dict[DType, Any] = {}

        def made(array: DeviceArray) -> Any:
            dtype = array.dtype  # its name takes longer than all of this
            if dtype not in empty:
                empty[dtype] = torch.empty(0, dtype=foreign.Library.dtypes[dtype.name], device=device)
            tensor = torch.empty_like(empty[dtype])
            return tensor.set_(storage, (array.address - start) // dtype.itemsize, array.shape)

        return made

    @contextmanager
    def rows(self, tensors: Mapping[Key, Any], apart: bool) -> Iterator[dict[Key, Array]]:
        """Yield arrays that stand for tensors on the device, while these are read; copies on the CPU if `apart`."""
        groups: dict[tuple[Any, ...], list[Key]] = {}
        for key, tensor in tensors.items():
            groups.setdefault((tensor.dtype, tensor.shape), []).append(key)
        wholes = [torch.stack([tensors[key] for key in keys]) for keys in groups.values()]

        def split(arrays: list[Array]) -> dict[Key, Array]:
            pairs = zip(groups.values(), arrays, strict=True)
            return {key: array[k, ...] for keys, array in pairs for k, key in enumerate(keys)}

        if apart:
            yield split([places.moved(whole, "cpu").numpy() for whole in wholes])
            return
        there = home(self.name)
        places.begin(self.name, there.device)
        with there.reading(wholes) as arrays:
            yield split(arrays)
