"""Shared values in the form that compiled code reads.

In: arrays and numbers as the user gives them. Out: one word each, value records, weights packed in the layouts of
kernels; and whether these are still valid at the next call (`Prepared.holds`), as arrays may change in place between
calls.
"""

from __future__ import annotations

import math
import operator
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from acronumba.analysis.plan import Plan
from acronumba.data.words import RECORD
from acronumba.foreign import Library, as_numpy, numpy_array, place_of
from acronumba.generics import Value
from acronumba.ir.nodes import Once, Shared, SharedParam
from acronumba.ir.types import FloatT, TensorT
from acronumba.kernels.lookups import LookupPacking
from acronumba.kernels.tiles import Packer
from acronumba.locks import lazy
from acronumba.memory import Array, Words, address, aligned, home_of, homes, same_bytes
from acronumba.records import record
from acronumba.runtime.batches import run_one
from acronumba.runtime.engines import Interpreted, Native
from acronumba.runtime.program import KernelEntry, PackingLike
from acronumba.runtime.watched import WatchedArrays

SharedValue: TypeAlias = "Array | np.generic | float | int"  # the word of a packed list, dict or object is an int


@record(kw_only=True, eq=False)
class Packed:
    """Shared arrays packed for a kernel."""

    copies: tuple[Array, ...]  # of the arrays; those that were computed here, which nobody changes, themselves
    array: Array


@record(kw_only=True, eq=False)
class Prepared:
    """Shared values in the form that compiled code reads."""

    given: tuple[object, ...]  # the values, as they came
    table: Words  # one word each
    address: int  # of `table`
    copies: Mapping[int, Array]  # parameters whose array could not be used as it is
    places: Mapping[int, object]  # of these: where the given tensors keep their elements; None: they do not share them
    entries: tuple[tuple[int, ...], ...]  # per kernel: the last words of its parameter table
    keep: tuple[Array, ...]  # arrays and value records
    memory: Mapping[int, Array]  # those that have elements, by their addresses
    arrays: Mapping[int, Array]  # the tensors
    packed: Mapping[tuple[tuple[int, ...], PackingLike], Packed]  # by parameters and packing
    compared: Mapping[int, Array]  # copies of the given parameters that were packed, or that computed ones are made of
    records: Words  # value records, one for each entry of `table`,
    records_at: int  # ... and where they lie
    by: Packer | None  # packs the weights of each call
    watched: WatchedArrays  # the arrays that are read where the user has them
    forms: Forms | None  # of the arrays that stay on a device

    def is_of(self, given: Sequence[object]) -> bool:
        """Whether these are the values, and their arrays lie where they lay; elements may have changed."""
        alike = all(map(operator.is_, given, self.given)) or all(map(same, given, self.given))
        return alike and self.watched.are_unchanged()

    def is_valid(self) -> bool:
        """Whether the arrays still have the bits that were copied.

        What is prepared depends on the arrays alone; all bytes of each that is not read in place are compared, once.
        """
        return all(equal_bits(self.given[k], old) for k, old in self.compared.items()) and all(
            k in self.compared or equal_bits(_as_read(self.given[k], old.dtype), old) for k, old in self.copies.items()
        )

    def is_in_place(self) -> bool:
        """Whether the tensors of another library lie where they lay; False if an array had to be copied."""
        return all(place is not None and place_of(self.given[k]) == place for k, place in self.places.items())

    def pack_anew(self) -> None:
        """Pack the arrays as they are now, into the same memory."""
        assert self.by is not None
        if self.by.repeat():
            return
        self.by.restart()
        for ks, packing in self.packed:
            packing.apply(*(self.arrays[k] for k in ks), by=self.by)


class Forms(Protocol):
    """Arrays that a device makes of those that stay there, see `runtime.devices.derived`."""

    @property
    def home(self) -> Value:
        """The home of those that stay, see `runtime.devices.resident`."""

    def holds(self, array: Array) -> bool:
        """Whether an array is on the device."""

    def regions(self) -> list[tuple[int, int, int]]:
        """Return the regions of all arrays: start, end, the device's address less the start."""

    def read(self, arrays: Iterable[Array]) -> None:
        """Fetch arrays that shared values are computed of, here: they are made anew after a change."""

    def form(self, packing: PackingLike, arrays: Sequence[Array]) -> Array | None:
        """Return the packed form, whose elements are on the device alone; None: the arrays are packed here."""

    def compute(self, kernels: Value, array: Array, read: Sequence[Array], marshal: Callable[[int], None]) -> None:
        """Compute an array of others, on the device alone; `marshal` writes the launch into a stream."""

    def renew(self) -> None:
        """Make all of the arrays as they are now, if it is not."""


class Making:
    """Shared values while they are prepared."""

    def __init__(
        self, table: Words, last: Prepared | None, given: int, by: Packer | None, forms: Forms | None = None
    ) -> None:
        self.table = table
        self.forms = forms
        self.given = given  # how many parameters are not computed
        self.records: Words = np.zeros((len(table), RECORD.count), np.int64)
        self.keep: list[Array] = [table, self.records]
        self.arrays: dict[int, Array] = {}
        self.last = {} if last is None else last.packed
        self.packed: dict[tuple[tuple[int, ...], PackingLike], Packed] = {}
        self.compared: dict[int, Array] = {}
        self.by = by
        self.same: Mapping[int, int] = {}  # computed tensors that are packed from given ones: see `SharedValues._casts`
        self.pools: Mapping[int, tuple[int, int]] = {}  # see `SharedValues._pools`

    def add(self, k: int, array: Array) -> None:
        """Set tensor number k to an array."""
        extents = np.array([*array.shape, 0], np.int64)
        self.records[k] = address(array), -1, address(extents)
        self.keep += [array, extents]
        self.arrays[k] = array
        self.table[k] = address(self.records) + RECORD.size * k

    def take(self, params: Sequence[SharedParam], given: Sequence[SharedValue]) -> dict[int, Array]:
        """Add the given values; return the arrays that had to be copied."""
        copies: dict[int, Array] = {}
        for k, (param, value) in enumerate(zip(params, given, strict=True)):
            match param.type:
                case TensorT(dtype=dtype, shape=shape):
                    array = _as_read(value, dtype)
                    if array.shape != shape:
                        raise ValueError(f"{param.path} has shape {array.shape}, not {shape}")
                    if array is not value:
                        copies[k] = array
                    self.add(k, array)
                case FloatT():
                    self.table[k] = struct.unpack("q", struct.pack("d", value))[0]
                case _:
                    self.table[k] = int(value)
        return copies

    def copy(self, k: int, last: Array | None = None) -> Array:
        """Return the copy that an array is compared with: `last`, if it still has the bits; a computed one itself."""
        if k >= self.given:
            return self.arrays[k]
        if k not in self.compared:
            same = last is not None and equal_bits(self.arrays[k], last)
            self.compared[k] = last if same and last is not None else self.arrays[k].copy()
        return self.compared[k]

    def packing(self, ks: tuple[int, ...], packing: PackingLike | None) -> Array:
        """Return arrays in the layout that a kernel reads; a packed array is reused if its sources have not changed."""
        ks = self.pools[ks[0]] if isinstance(packing, LookupPacking) else tuple(self.same.get(k, k) for k in ks)
        arrays = [self.arrays[k] for k in ks]
        if packing is None:
            return arrays[0]
        if self.forms is not None and (form := self.forms.form(packing, arrays)) is not None:
            self.keep.append(form)
            return form
        if (ks, packing) not in self.packed and self.by is not None:
            self.packed[ks, packing] = Packed(copies=(), array=packing.apply(*arrays, by=self.by))
        if (ks, packing) not in self.packed:
            old = self.last.get((ks, packing))
            lasts = [None] * len(ks) if old is None else old.copies
            copies = tuple(map(self.copy, ks, lasts))
            same = old is not None and all(a is b or equal_bits(a, b) for a, b in zip(copies, old.copies, strict=True))
            array = old.array if old is not None and same else packing.apply(*arrays)
            self.packed[ks, packing] = Packed(copies=copies, array=array)
        self.keep.append(self.packed[ks, packing].array)
        return self.packed[ks, packing].array


def _as_read(value: object, dtype: DTypeLike) -> Array:
    """Return a value as the array that compiled code reads, which may be the value itself."""
    return np.asarray(numpy_array(value), dtype, order="C")


def _place(value: object, read: Array) -> object:
    """Return `place_of` a value if the array that is read shares its elements, else None."""
    found = as_numpy(value)
    return place_of(value) if isinstance(found, np.ndarray) and address(found) == address(read) else None


def same(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return isinstance(a, int) and type(a) is type(b) and a == b


_FEW = 1 << 12  # bytes: of fewer, copies are compared in less time than arrays


def equal_bits(value: object, old: Array) -> bool:
    """Whether the bits are equal."""
    array = numpy_array(value)
    if array.dtype != old.dtype or array.shape != old.shape:
        return False
    if old.nbytes < _FEW:
        return array.tobytes() == old.tobytes()
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return same_bytes(array, old)


_SETS = 2  # sets of shared values that are cached: a comparison of two models takes them in turn


class SharedValues:
    """Prepares shared values for a plan, and caches those used last.

    Parameters
    ----------
    plan
        The plan whose parameters they are.
    kernels
        Entries of the kernels, in the order of the plan: they say which arrays are packed.
    engine
        Computes the tensors of `Program.once`.

    Attributes
    ----------
    packer : callable, optional
        Makes what packs the weights of one call. With it arrays are packed at every call, and never compared.
    """

    packer: Callable[[], Packer] | None = None
    device: object = None  # that the kernels run on, if it is not the CPU,
    there: Value = None  # ... and those of `Program.once` there, see `runtime.devices.derived`
    waits: bool = False  # whether the host program waits for values

    def __init__(self, plan: Plan, kernels: Sequence[KernelEntry], engine: Native | Interpreted) -> None:
        self.plan = plan
        self.kernels = kernels
        self.engine = engine
        self.recent: list[Prepared] = []  # that came last, the last one last
        computed = (o for once in plan.program.once for o in plan.kernels[once.kernel].operands)
        self._constant = all(o.kind != "shared" for o in computed)  # whether computed tensors never change
        self._idle: deque[Prepared] = deque(maxlen=_SETS)  # packed for calls that are over

    @lazy
    def _casts(self) -> Mapping[int, int]:
        """Map from computed tensors that are a given one in a wider dtype, and are only ever packed, to the given one.

        They take no memory: packing writes the wider dtype.
        """
        program, specs = self.plan.program, self.plan.kernels
        given = len(program.shared) - len(program.once)
        found: dict[int, int] = {}
        for once in program.once:
            spec = specs[once.kernel]
            if len(spec.body) != 1 or len(spec.operands) != 1 or spec.body[0].op != "cast":
                continue
            source = spec.operands[0]
            narrow, wide = np.dtype(source.dtype), np.dtype(spec.body[0].dtype)
            exact = narrow.kind == wide.kind == "f" and narrow.itemsize < wide.itemsize
            if exact and source.kind == "shared" and source.index < given:
                found[once.index] = source.index
        alone = self._read(lambda packing: packing is None)
        return {k: source for k, source in found.items() if k not in alone}

    def _read(self, by: Callable[[PackingLike | None], bool]) -> set[int]:
        """Return the shared tensors that the host program reads, or kernels that want them in some ways."""
        program = self.plan.program
        uses = ((spec, u) for spec, e in zip(self.plan.kernels, self.kernels, strict=True) for u in e.shared)
        found = {spec.operands[v].index for spec, use in uses if by(use.packing) for v in use.operands}
        instrs = (i for f in program.functions for block in f.blocks for i in block.instrs)
        return found | {i.index for i in instrs if isinstance(i, Shared)}

    @lazy
    def _pools(self) -> Mapping[int, tuple[int, int]]:
        """Map from computed tensors whose rows are taken from a pool to two tensors: the pool and the row numbers."""
        found: dict[int, tuple[int, int]] = {}
        for once in self.plan.program.once:
            if self.plan.program.shared[once.index].pool:
                spec = self.plan.kernels[once.kernel]
                pool, index = next(op.args for op in spec.body if op.op == "take")
                (numbers,) = spec.body[index - len(spec.operands)].args
                found[once.index] = spec.operands[pool].index, spec.operands[numbers].index
        return found

    @lazy
    def named(self) -> frozenset[int]:
        """Shared tensors that the host program names."""
        return frozenset(self._read(lambda packing: False))

    @lazy
    def _looked_up(self) -> frozenset[int]:
        """Tensors of `_pools` that only the packing of the pool reads: they need not be computed."""
        read = self._read(lambda packing: not isinstance(packing, LookupPacking))
        return frozenset(k for k in self._pools if k not in read)

    def prepare(self, shared: Sequence[SharedValue], stable: bool = False) -> Prepared:
        """Return the shared values in compiled form; reuses the last call's where they are still valid.

        Parameters
        ----------
        shared
            One value per given entry of `Program.shared`: array, number, or the word of a packed row or list. Entries
            of `Program.once` are computed here, or on the device that the arrays stay on; again if one has changed.
        stable
            The arrays do not change any more; otherwise arrays that are packed are compared with their last bits.
        """
        given = tuple(shared)
        given, home = (given, None) if self.device is None else Library.at_home(self.device, given)
        if homes and home is None:
            home = next((home for a in given if (home := home_of(a)) is not None), None)
        if home is not None and (there := home.prepare(self, given)) is not None:
            return there  # type: ignore[no-any-return]
        anew = self.packer is not None and not stable
        if anew and (idle := self._take_idle(given)) is not None:
            idle.pack_anew()
            return idle
        last = self._last_of(given)
        if last is not None and not anew and (stable or last.is_valid()):
            if last is not self.recent[-1]:
                self.recent = [*(p for p in self.recent if p is not last), last]
            return last
        rest = [p for p in self.recent if p is not last]
        last = last or next(reversed(rest), None)
        made = self._make(given, None if anew else last, self.packer() if anew and self.packer else None, None)
        if not anew:
            self.recent = [*rest, made][-_SETS:]
        return made

    def make(self, given: tuple[SharedValue, ...], forms: Forms) -> Prepared:
        """Return shared values some of whose arrays stay on a device."""
        return self._make(given, None, None, forms)

    def _make(
        self, given: Sequence[SharedValue], last: Prepared | None, by: Packer | None, forms: Forms | None
    ) -> Prepared:
        program = self.plan.program
        params = program.shared[: len(program.shared) - len(program.once)]
        assert len(params) == len(given)
        table = np.zeros(len(program.shared) + 1, np.int64)
        making = Making(table=table, last=last, given=len(given), by=by, forms=forms)
        copies = making.take(params, given)
        making.same = self._casts if self.packer is None and forms is None else {}
        making.pools = self._pools
        computed = [o for o in program.once if o.index not in making.same and o.index not in self._looked_up]
        for once in computed:
            self._compute(once, making)
        entries = tuple(self._entries(k, making) for k in range(len(self.kernels)))
        for array in making.keep:
            self.engine.reach(array)
        operands = (o for once in computed for o in self.plan.kernels[once.kernel].operands)
        for k in () if by is not None else {o.index for o in operands if o.kind == "shared"}:
            if k in making.arrays and (forms is None or not forms.holds(making.arrays[k])):
                making.copy(k)
        return Prepared(
            given=tuple(given),
            table=making.table,
            address=address(making.table),
            copies=copies,
            places={} if by is None else {k: _place(given[k], array) for k, array in copies.items()},
            entries=entries,
            keep=tuple(making.keep),
            memory={address(array): array for array in making.keep if array.nbytes},
            arrays=making.arrays,
            packed=making.packed,
            records=making.records,
            records_at=address(making.records),
            compared=making.compared,
            by=by,
            watched=WatchedArrays([a for k, a in making.arrays.items() if k < len(given) and a is given[k]]),
            forms=forms,
        )

    def _last_of(self, given: Sequence[object]) -> Prepared | None:
        """Return the shared values that were prepared of the same arrays and numbers, or None."""
        for found in reversed(self.recent):
            if found.is_of(given):
                return found
        return None

    def give(self, prepared: Prepared) -> None:
        """Return shared values that a call has packed and no longer needs to the pool."""
        if prepared.by is not None and self._constant:
            self._idle.append(prepared)

    def _take_idle(self, given: Sequence[object]) -> Prepared | None:
        """Return shared values that no call uses, of the same arrays and numbers."""
        for _ in range(len(self._idle)):
            try:
                found = self._idle.popleft()
            except IndexError:
                break
            if found.is_of(given) and found.is_in_place():
                return found
        return None

    def _entries(self, kernel: int, making: Making) -> tuple[int, ...]:
        """Return the last words of a kernel's parameter table: addresses of shared arrays, then tiles."""
        entry = self.kernels[kernel]
        return (*map(address, self._given(kernel, entry, making)), *entry.tiles)

    def _given(self, kernel: int, entry: KernelEntry, making: Making) -> list[Array]:
        """Return the shared arrays that a kernel reads, as it reads them."""
        operands = self.plan.kernels[kernel].operands
        return [making.packing(tuple([operands[v].index for v in use.operands]), use.packing) for use in entry.shared]

    def _compute(self, once: Once, making: Making) -> None:
        """Compute a shared tensor: run its kernel for a batch of one."""
        param = self.plan.program.shared[once.index]
        assert isinstance(param.type, TensorT)
        entry, forms, there = self.kernels[once.kernel], making.forms, self.there
        shape = tuple(n for n in param.type.shape if n is not None)
        array = aligned(math.prod(shape) * np.dtype(param.type.dtype).itemsize).view(param.type.dtype).reshape(shape)
        words = np.array([*(making.table[k] for k in once.numbers), 0], np.int64)
        nodes, failures = np.array([address(words)]), np.zeros(1, np.int64)
        head = [address(nodes), address(failures), address(failures), 0, address(array)]
        if forms is not None:
            read = [making.arrays[o.index] for o in self.plan.kernels[once.kernel].operands if o.kind == "shared"]
            # What the program names may be returned, and must stay as it is after a change.
            if there is not None and once.index not in self.named and array.size and any(map(forms.holds, read)):
                given = self._given(once.kernel, there.entries[once.kernel], making)
                forms.compute(there, array, given, lambda stream: there.marshal(once.kernel, head, given, stream))
                making.add(once.index, array)
                return
            forms.read(read)
            making.forms = None  # the CPU packs its own
        params = np.array([*head, *self._entries(once.kernel, making)], np.int64)
        making.forms = forms
        for held in (words, nodes, failures, array, *making.keep):
            self.engine.reach(held)
        run_one(self.engine, entry, params)
        making.add(once.index, array)
