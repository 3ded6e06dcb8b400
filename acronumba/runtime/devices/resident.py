"""Arrays that stay on a device for a while: parameters with their packed forms, and the state of optimisers.

In: a device and NumPy arrays. Out: a `Resident`, the home of the arrays (`memory.homes`) until `release`. An array's
address stands for the device's memory, as everywhere (`kernels.cuda.marshal`): the array is stale, and read-only.
Packed forms have addresses, too, and no memory of the CPU is written for them: `Forms` finds out once which element of
an array each element of a form is, and a kernel copies them when the arrays have changed (`devices.steps`). What the
CPU computes of parameters is made of arrays that are fetched before (`refresh`).
"""

from __future__ import annotations

import weakref
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from acronumba.data.later import Later
from acronumba.data.row_grad import RowGrad
from acronumba.emit.compile import load
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.kernels.cuda.marshal import ROW
from acronumba.kernels.cuda.sums import TASKS
from acronumba.locks import ForkLock
from acronumba.memory import Array, Owner, Words, address, homes, memory_at
from acronumba.records import record
from acronumba.runtime.devices.arrays import DeviceArray, Pool
from acronumba.runtime.devices.derived import LANES, Derived, Made
from acronumba.runtime.devices.device import Device, DeviceCopy
from acronumba.runtime.devices.executor import Launching, bytes_of, device_copy_of
from acronumba.runtime.devices.launches import launch_code, launches
from acronumba.runtime.devices.steps import FUNCTIONS, PIECE, RULE, Work, code
from acronumba.runtime.shared import Prepared, SharedValues
from acronumba.runtime.updates import DTYPES

_WIDE = np.dtype(np.float64)
_NAMES = {np.dtype(name): name for name in DTYPES}
_TABLES = 32  # that launches are made of once


class There(Protocol):
    """Memory of a device that stands for a range of the CPU's: `DeviceCopy`, or what others own."""

    start: int
    size: int
    address: int
    region: tuple[int, int, int]


@record(eq=False, frozen=False)
class Held:
    """An array that is held."""

    name: str
    array: Array
    device_copy: There
    bits: int  # checksum of the array, which nobody changes while it is held
    version: int = 0  # of the values that the array has


class Resident(Launching):
    """Arrays on a device, and what is done with them there.

    Parameters
    ----------
    device
        The device.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.version = 0  # increased with each change
        self.lock = ForkLock()
        self._held: dict[int, Held] = {}  # by address
        self._starts: list[int] = []
        self._rows: list[tuple[int, int, int]] | None = None  # regions, unless they have changed
        self.pool = Pool(device, device_copy_of)
        self.watched: weakref.WeakSet[Owner] = weakref.WeakSet()  # who says whether steps have failed
        self._tables: dict[tuple[Work, ...], Table] = {}  # by works, those that were asked for last at the end
        self._forms: weakref.WeakKeyDictionary[SharedValues, tuple[Made, Derived, Prepared]]
        self._forms = weakref.WeakKeyDictionary()
        with device:
            functions = self._loaded([code(dtype) for dtype in DTYPES])
        self.launches = launches(device.driver, device.stream, device.processors, functions)
        self._loop = load([launch_code()])[0].function("launch")

    # ---- arrays

    def hold(self, arrays: Sequence[tuple[str, Array]]) -> None:
        wrong = [f"`{name}` {why}" for name, a in arrays if (why := _unfit(a))]
        ends = [(address(a), address(a) + a.nbytes, name) for name, a in arrays if a.nbytes] if not wrong else []
        ends += [
            (start, start + size, "") for home in homes if isinstance(home, Resident) for start, size in home.places()
        ]
        for (_, end, name), (start, _, other) in pairwise(sorted(ends)):
            if start < end:
                wrong.append(
                    f"`{other or name}` shares memory with {f'`{name}`' if name and other else 'what is there already'}"
                )
        if wrong:
            raise reject("ACR715", message="these arrays cannot be on a device", seen="; ".join(wrong),
                         rewrite="np.array(w) in their place, and one array for each")  # fmt: skip
        with self.device:
            for name, array in arrays:
                if array.nbytes:
                    self._hold(name, array)
        self._starts, self._rows = sorted(self._held), None

    def _hold(self, name: str, array: Array) -> None:
        at = address(array)
        held = Held(name, array, device_copy_of(self.device, at, array.nbytes), _bits(array), self.version)
        self.device.upload(held.device_copy.address, bytes_of(array))
        array.flags.writeable = False
        self._held[at] = held

    def _find(self, array: Array) -> Held | None:
        """Return the array that another one lies in, if it is held."""
        at = address(array)
        k = bisect_right(self._starts, at) - 1
        held = self._held[self._starts[k]] if k >= 0 and array.nbytes else None
        return held if held is not None and at < held.device_copy.start + held.device_copy.size else None

    def holds(self, array: Array) -> bool:
        return self._find(array) is not None

    def region(self, array: Array) -> tuple[int, int, int] | None:
        """Return the region that an array lies in, if it is held."""
        held = self._find(array)
        return None if held is None else held.device_copy.region

    def places(self) -> list[tuple[int, int]]:
        """Return the addresses and sizes of all arrays."""
        return [(at, held.array.nbytes) for at, held in self._held.items()]

    def regions(self) -> list[tuple[int, int, int]]:
        """Return the regions of `kernels.cuda.marshal` of all arrays."""
        if self._rows is None:
            self._rows = [held.device_copy.region for held in self._held.values()]
        return self._rows

    def regions_for(self, forms: Derived) -> list[tuple[int, int, int]]:
        """Return the regions of all arrays that kernels may read which read these forms."""
        return self.regions()

    def reject_stale(self, array: Array) -> None:
        held = self._find(array)
        if held is not None and held.version != self.version:
            raise reject("ACR715", seen=f"`{held.name}`, which {self.device.name} has updated")

    def refresh(self, arrays: Iterable[Array]) -> None:
        """Fetch the values of those arrays that are held."""
        found = {id(h): h for a in arrays if (h := self._find(a)) is not None and h.version != self.version}
        with self.device:
            for held in found.values():
                at = held.device_copy.start
                self.device.download(memory_at(at, at + held.array.nbytes), held.device_copy.address)
            if found:
                self.device.wait()
                for owner in [*self.watched]:
                    owner.check()
        for held in found.values():
            held.bits, held.version = _bits(held.array), self.version

    def refresh_at(self, addresses: Words) -> None:
        """Fetch the values of those arrays that have these addresses."""
        starts, held = np.array(self._starts), [self._held[at] for at in self._starts]
        for k in np.unique(np.searchsorted(starts, addresses, side="right") - 1).tolist():
            end = held[k].device_copy.start + held[k].device_copy.size if k >= 0 else 0
            if k >= 0 and (addresses[addresses >= starts[k]] < end).any():
                self.refresh([held[k].array])

    def fetch(self, report: bool = True) -> None:
        """Fetch the values of all arrays, which stay read-only; `report`: raise if one of them was written to."""
        written = [h for h in self._held.values() if h.array.flags.writeable or _bits(h.array) != h.bits]
        for held in written:
            held.array.flags.writeable, held.version = False, -1
        self.refresh([held.array for held in self._held.values()])
        if written and report:
            names = ", ".join(f"`{held.name}`" for held in written)
            raise reject("ACR715", message="an array was written to while it was on a device, which is lost",
                         seen=names, rewrite="write before the block, or after it")  # fmt: skip

    def release(self) -> None:
        """Make arrays that were held ordinary ones."""
        for held in self._held.values():
            held.array.flags.writeable = True
        self._held, self._starts, self._rows = {}, [], None
        self._forms.clear()

    # ---- shared values of models

    def prepare(self, of: SharedValues, given: tuple[Value, ...]) -> Prepared | None:
        others = (h for h in homes if h is not self and any(isinstance(a, np.ndarray) and h.holds(a) for a in given))
        if of.device is not self.device or any(others):
            for array in given:
                if isinstance(array, np.ndarray):
                    self.reject_stale(array)
            return None
        with self.lock, self.device:
            packed, forms, known = self._forms.get(of) or (Made(self), None, None)
            valid = known is not None and known.is_of(given) and known.is_valid()
            if known is None or forms is None or not valid or (forms.fetches and forms.own.version != self.version):
                forms = Derived(self, packed)
                known = of.make(given, forms)
                forms.arrays = tuple(known.arrays.values())
                self._forms[of] = packed, forms, known
            forms.renew()
            if of.waits:
                self.refresh(a for k, a in known.arrays.items() if k in of.named)
        return known

    # ---- work

    def launch(self, works: Sequence[Work], numbers: Sequence[float] = ()) -> None:
        """Do works, all at once; `numbers`: what the words NUMBERS stand for."""
        asked = tuple([work for work in works if work.tasks])
        if not asked:
            return
        with self.lock, self.device:
            known = self._tables.pop(asked, None) or self._table(asked, len(numbers))
            self._tables[asked] = known  # the last one that came
            known.send(np.array(numbers, np.float64).view(np.int64))
            if error := self._loop(self.launches.address, known.rows_at, len(known.rows)):
                self.device.reject(error)

    def _table(self, works: Sequence[Work], numbers: int) -> Table:
        """Return a table of works in memory of the device, which may be that of a table that was last used long ago."""
        old = self._tables.pop(next(iter(self._tables))) if len(self._tables) == _TABLES else None
        size = 8 * (sum(2 + TASKS.count + len(w.words) for w in works) + numbers)
        there = None if old is None else old.device_copy
        if there is None or there.size < size:
            there = device_copy_of(self.device, 0, max(size, 1 << 12))
        table = Table(there, numbers)
        for k, dtype in enumerate(DTYPES):
            group = [work for work in works if work.dtype == dtype]
            if group:
                table.add(k, group)
        return table

    def step(self, rule: str, groups: Sequence[Sequence[Value]], numbers: Sequence[float], by_rows: bool) -> None:
        keep: list[object] = []
        with self.device:
            self.launch([self._rule(rule, group, NUMBERS, by_rows, keep) for group in groups], numbers)
        self.version += 1

    def _rule(self, rule: str, group: Sequence[Value], numbers: int, by_rows: bool, keep: list[object]) -> Work:
        size, dtype = group[0].size, _NAMES[group[0].dtype]
        width, rows, index, many = size, 1, 0, 0
        for g in group:
            if isinstance(g, RowGrad):
                many, width = len(g.index), size // max(g.shape[0], 1)
                rows, index = many if by_rows else g.shape[0], self.there(g.index, keep)
        pieces = -(-width // PIECE)
        places = [self.there(a.rows if isinstance(a, RowGrad) else a, keep) for a in group]
        words = width, pieces, index, many, int(not by_rows), numbers
        assert len(words) == RULE.count
        return Work(dtype, rule, (*words, *places), rows * pieces)

    def there(self, array: Value, keep: list[object]) -> int:
        """Return the address on the device of an array, which is copied if it is not there yet."""
        if isinstance(array, DeviceArray) and array.device is self.device:
            return array.address
        if isinstance(array, np.ndarray) and (row := self.region(array)) is not None:
            return address(array) + row[2]
        mine = self.pool.array(array.dtype, array.shape)
        self.device.upload(mine.address, bytes_of(np.array(array, order="C")))
        keep.append(mine)
        return mine.address

    def clip(self, arrays: Sequence[DeviceArray], most: float) -> Later:
        ends = np.cumsum([-(-a.size // PIECE) for a in arrays])
        with self.device:
            parts, out = self.pool.array(_WIDE, (int(ends[-1]),)), self.pool.array(_WIDE, (2,))
            starts = parts.address + 8 * (ends - [-(-a.size // PIECE) for a in arrays])
            self.launch([
                Work(a.dtype.name, "squares", (a.address, a.size, at), -(-a.size // PIECE))
                for a, at in zip(arrays, starts.tolist(), strict=True)
            ])  # fmt: skip
            norm = Work("float64", "norm", (parts.address, int(ends[-1]), out.address, NUMBERS), 1)
            self.launch([norm], [most])
            keep: list[object] = []
            self.launch([self._rule("scale", [a], out.address + 8, False, keep) for a in arrays])
        return Later(_WIDE, lambda: float(np.asarray(out)[0]))

    def total(self, addresses: Words, dtype: str) -> DeviceArray:
        """Return the sum of elements at addresses on the device, as float64."""
        many, first, size = len(addresses), int(addresses[0]), np.dtype(dtype).itemsize
        with self.device:
            out = self.pool.array(_WIDE, ())
            if int(addresses[-1]) - first == (many - 1) * size and (addresses[1:] - addresses[:-1] == size).all():
                self.launch([Work(dtype, "total", (first, many, out.address), 1)])  # side by side
                return out
            mine = self._have("losses", many * 16).address
            self.device.upload(mine, addresses.view(np.uint8).copy())
            found = mine + 8 * many
            self.launch([Work(dtype, "gather", (mine, many, found), -(-many // LANES))])
            self.launch([Work(dtype, "total", (found, many, out.address), 1)])
        return out


NUMBERS = -1  # among the words of a work: the address of the numbers of the launch


class Table:
    """Launches of some works: rows of ROW, and words on the device, which begin with the numbers of the launch."""

    def __init__(self, device_copy: DeviceCopy, numbers: int) -> None:
        self.device_copy = device_copy
        self.rows: list[Words] = []
        self._words: Words = np.zeros(numbers, np.int64)
        self._pieces: list[Words] = [self._words]
        self._used = numbers
        self._sent = False

    def _put(self, words: Sequence[int] | Words) -> int:
        """Add words; return their address on the device."""
        self._pieces.append(np.array(words, np.int64))
        self._used += len(words)
        return self.device_copy.address + 8 * (self._used - len(words))

    def add(self, kernel: int, group: Sequence[Work]) -> None:
        """Add the launch of a kernel."""
        tasks: Words = np.zeros((len(group), TASKS.count), np.int64)
        ends = np.cumsum([work.tasks for work in group])
        tasks[:, TASKS.at["end"]], tasks[:, TASKS.at["first"]] = ends, ends - [work.tasks for work in group]
        tasks[:, TASKS.at["what"]] = [FUNCTIONS.index(work.function) for work in group]
        numbers = self.device_copy.address
        words = [[numbers if word == NUMBERS else word for word in work.words] for work in group]
        tasks[:, TASKS.at["words"]] = [self._put(own) for own in words]
        row = np.zeros(ROW.count, np.int64)
        row[ROW.at["kernel"]], row[ROW.at["nodes"]] = kernel, ends[-1]
        row[ROW.at["p"]] = self._put([self._put(tasks.reshape(-1)), len(group)])
        self.rows.append(row)

    def send(self, numbers: Words) -> None:
        """Copy to the device what it does not have."""
        device, at = self.device_copy.device, self.device_copy.address
        if not self._sent:
            self._pieces[0] = numbers
            device.upload(at, np.concatenate(self._pieces).view(np.uint8))
            self._table = np.concatenate(self.rows)
            self.rows_at, self._sent, self._pieces = address(self._table), True, []
        elif not np.array_equal(numbers, self._words):
            device.upload(at, numbers.view(np.uint8))
        self._words = numbers


def _unfit(array: Array) -> str:
    """Return why an array cannot be held, or nothing."""
    if not isinstance(array, np.ndarray):
        return f"is no array of NumPy ({type(array).__name__})"
    if array.dtype.name not in DTYPES or not array.dtype.isnative:
        return f"is an array of {array.dtype}, not float32 or float64"
    if not array.flags.c_contiguous:
        return "is not contiguous"
    if not array.flags.writeable:
        held = any(home.holds(array) for home in homes)
        return "is on a device already" if held else "is read-only"
    return ""


def _bits(array: Array) -> int:
    return zlib.crc32(bytes_of(array).data)
