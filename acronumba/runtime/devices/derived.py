"""Arrays that a device makes of parameters that stay there: packed forms, and values made of parameters alone.

In: packings and arrays, or the kernels of `Program.once`. Out: arrays that have an address and no memory of the CPU
behind it, which is written to; the device's memory has the elements. They are made again after the parameters have
changed (`renew`), by launches whose parameters are on the device already: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from acronumba.kernels.cuda.generate import CudaCode
from acronumba.locks import ForkLock
from acronumba.memory import Array, Words, address, aligned, memory_at
from acronumba.records import record
from acronumba.runtime.batches import run_one
from acronumba.runtime.devices.device import Device, DeviceCopy
from acronumba.runtime.devices.executor import DeviceExecutor, Launching, Stream, bytes_of, device_copy_of
from acronumba.runtime.devices.launches import launches
from acronumba.runtime.devices.steps import Work
from acronumba.runtime.engines import Native
from acronumba.runtime.program import KernelEntry, PackingLike
from acronumba.runtime.updates import DTYPES

if TYPE_CHECKING:
    from acronumba.runtime.devices.resident import Resident

LANES = 32
_LOW = 20  # bits of a number that a float32 has exactly
Marshal: TypeAlias = "Callable[[int], None]"  # writes a launch into a stream
_Row = tuple[int, int, int]  # of `Stream.regions`


class OnceKernels(Launching):
    """Kernels of values that are made of parameters alone, on a device; they are loaded when one is wanted.

    Parameters
    ----------
    device
        Where.
    codes, entries
        The kernels, by their numbers in the plan; and what marshals their launches.
    calls, engine
        Compiled functions that launch, by their names in `runtime.library.launch`; the engine that marshals.
    """

    def __init__(
        self, device: Device, codes: Mapping[int, CudaCode], entries: Mapping[int, KernelEntry],
        calls: Mapping[str, Callable[..., int]], engine: Native,
    ) -> None:  # fmt: skip
        super().__init__(device)
        self.entries, self._codes, self._engine = entries, codes, engine
        self._send, self._again = calls["send"], calls["again"]
        self._lock, self._loaded_already = ForkLock(), False

    def stream(self, regions: Iterable[_Row]) -> Stream:
        """Return a stream for a launch; what it reads and writes lies in the regions."""
        with self._lock, self.device:
            if not self._loaded_already:
                functions = dict(zip(self._codes, self._loaded([*self._codes.values()]), strict=True))
                every = [functions.get(k, []) for k in range(max(functions) + 1)]
                self.launches = launches(self.device.driver, self.device.stream, self.device.processors, every)
                self._words, self._loaded_already = self.launches.address, True
            stream = Stream(self.device, lambda launches: 0)
            stream.place(np.array(sorted({*regions}), np.int64).reshape(-1))
            stream.begin()
            return stream

    def marshal(self, kernel: int, head: Sequence[int], given: Sequence[Array], stream: int) -> None:
        """Write a launch for one node; `head`: of the table P, `given`: shared arrays as the kernel reads them."""
        entry = self.entries[kernel]
        run_one(self._engine, entry, np.array([*head, *map(address, given), stream, entry.tiles[-1]], np.int64))

    def launch(self, stream: Stream, send: bool = False) -> None:
        """Launch what a stream has, or only copy to the device what that needs."""
        with self._lock, self.device:
            self._call(self._send if send else self._again, stream, stream.address)


@record(eq=False)
class _Form:
    """A packed form."""

    array: Array  # has an address and no elements
    device_copy: DeviceCopy
    index: DeviceCopy  # the address of each element

    @property
    def work(self) -> Work:
        words = self.index.address, self.array.size, self.device_copy.address
        return Work(self.array.dtype.name, "gather", words, -(-self.array.size // LANES))


@record(eq=False)
class _Computed:
    """A value that is made of parameters alone."""

    array: Array  # has an address and no elements
    device_copy: DeviceCopy
    kernels: OnceKernels
    stream: Stream  # with its launch
    keep: tuple[DeviceCopy, ...]  # of arrays that it reads and that are not on the device otherwise


class Made:
    """Forms and values, in the order in which they are made of the parameters."""

    def __init__(self, home: Resident) -> None:
        self.home, self.version = home, -1
        self.forms: dict[tuple[object, ...], _Form | None] = {}  # by packing and arrays
        self.steps: dict[int, _Form | _Computed] = {}  # by the array's id
        self._new: list[_Form | _Computed] = []

    def add(self, step: _Form | _Computed) -> None:
        self._new.append(step)
        self.steps = {**self.steps, id(step.array): step}  # other threads may read the old one

    def renew(self) -> None:
        """Make them of the parameters as they are now, if they are not."""
        with self.home.lock:
            version, works = self.home.version, []
            for step in self._new if self.version == version else self.steps.values():
                if isinstance(step, _Form):
                    works.append(step.work)
                else:
                    self.home.launch(works)
                    works = []
                    step.kernels.launch(step.stream)
            self.home.launch(works)
            self.version, self._new = version, []


class Derived:
    """Arrays that a device makes of one set of shared values: see `runtime.shared.Forms`."""

    def __init__(self, home: Resident, packed: Made) -> None:
        self.home = home
        self.packed = packed  # forms of parameters, which other sets share
        self.own = Made(home)  # values, and forms of these
        self.fetches = False  # whether the CPU has computed something of the parameters, which it must after a change
        self.arrays: tuple[Array, ...] = ()  # the tensors among the shared values

    def _region(self, array: Array) -> _Row | None:
        step = self.own.steps.get(id(array)) or self.packed.steps.get(id(array))
        return self.home.region(array) if step is None else step.device_copy.region

    def holds(self, array: Array) -> bool:
        return self._region(array) is not None

    def regions(self) -> list[_Row]:
        steps = *self.packed.steps.values(), *self.own.steps.values()
        return [*self.home.regions_for(self), *(step.device_copy.region for step in steps)]

    def read(self, arrays: Iterable[Array]) -> None:
        found = [a for a in arrays if self.holds(a)]
        self.fetches = self.fetches or bool(found)
        self.home.refresh(found)
        mine = [step for a in found if isinstance(step := self.own.steps.get(id(a)), _Computed)]
        if mine:
            self.renew()
            with self.home.device:
                for step in mine:
                    self.home.device.download(bytes_of(step.array), step.device_copy.address)
                self.home.device.wait()

    def renew(self) -> None:
        self.packed.renew()
        self.own.renew()

    def form(self, packing: PackingLike, arrays: Sequence[Array]) -> Array | None:
        key = packing, *((address(a), a.shape, a.dtype) for a in arrays)
        with self.home.lock:
            made = self.own if any(id(a) in self.own.steps for a in arrays) else self.packed
            if key not in made.forms:
                rows = [self._region(a) for a in arrays]
                places = [address(a) + row[2] for a, row in zip(arrays, rows, strict=True) if row is not None]
                there = len(places) == len(arrays)
                made.forms[key] = form = _form(self.home.device, packing, arrays, places) if there else None
                if form is not None:
                    made.add(form)
            form = made.forms[key]
        if form is None:
            self.read(arrays)
        return None if form is None else form.array

    def compute(self, kernels: OnceKernels, array: Array, read: Sequence[Array], marshal: Marshal) -> None:
        with self.home.lock, self.home.device:
            there = device_copy_of(self.home.device, address(array), array.nbytes)
            regions = {id(a): self._region(a) for a in read if a.nbytes}
            others = {id(a): a for a in read if id(a) in regions and regions[id(a)] is None}
            copies = []
            for start, end, _ in DeviceExecutor.ranges(others.values()):
                copies.append(device_copy_of(self.home.device, start, end - start))
                self.home.device.upload(copies[-1].address, memory_at(start, end).copy())
            rows = [row for row in regions.values() if row is not None]
            stream = kernels.stream([*rows, *(c.region for c in copies), there.region])
            marshal(stream.address)
            assert stream["launches"] == 1, "the launch of one node has room"
            kernels.launch(stream, send=True)
            self.own.add(_Computed(array, there, kernels, stream, tuple(copies)))


def _form(device: Device, packing: PackingLike, arrays: Sequence[Array], at: Sequence[int]) -> _Form | None:
    """Return a form whose elements are elements of arrays, or 0; None if some are anything else.

    `at`: where the arrays are on the device.
    """
    ends = np.cumsum([1, *(a.size for a in arrays)]).tolist()
    numbers = [np.arange(start, start + a.size).reshape(a.shape) for start, a in zip(ends, arrays, strict=False)]

    def packed(of: Callable[[Words], Array]) -> Array:
        return packing.apply(*(of(n).astype(a.dtype) for n, a in zip(numbers, arrays, strict=True)))

    low, high = packed(lambda n: n & (1 << _LOW) - 1), packed(lambda n: n >> _LOW)
    if {low.dtype} != {a.dtype for a in arrays} or low.dtype.name not in DTYPES:
        return None
    found = (high.astype(np.int64) << _LOW) + low.astype(np.int64)
    if not np.array_equal(packed(np.sqrt), np.sqrt(found.astype(np.float64)).astype(low.dtype)):
        return None
    places = [start + np.arange(a.size) * a.itemsize for start, a in zip(at, arrays, strict=True)]
    index: Words = np.concatenate([[0], *places])[found.reshape(-1)]
    virtual = aligned(low.nbytes).view(low.dtype).reshape(low.shape)
    there = device_copy_of(device, 0, index.nbytes)
    device.upload(there.address, bytes_of(index))
    device.wait()
    return _Form(virtual, device_copy_of(device, address(virtual), virtual.nbytes), there)
