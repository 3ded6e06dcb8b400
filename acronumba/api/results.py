"""`Results` of a call of a model: a sequence that equals the list of the plain results.

In: a function that decodes the result of one instance, or a list. Out: a lazy sequence, whose elements are decoded
when they are first asked for and are then kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, overload

import numpy as np

from acronumba.data.classes import is_object, names_of, new_object, set_field
from acronumba.data.decoder import FEW, Decoder
from acronumba.errors.codes import reject
from acronumba.foreign import is_tensor, numpy_array
from acronumba.generics import R, T, Value
from acronumba.ir.functions import is_function_class, known_function
from acronumba.memory import Array
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData

    _Arrays = TypeVar("_Arrays", bound=Array | tuple[Array, ...] | list[Array] | dict[Value, Array])

_UNSET: Any = object()
MANY = 64  # largest number of results decoded together, so that access to the first one is fast


class Results(Sequence[T]):
    """The results of a mini-batch, in the order of its instances; `Model.batch` returns them.

    A sequence that equals the list of the plain results. Its arrays are read-only views that remain valid.

    Parameters
    ----------
    count : int
        Number of instances.
    decode : Decoder
        A function from instance numbers to results; called at most once per instance (per thread).
    there : Decoder, optional
        The same, but tensors stay on the device; None if they are in the CPU's memory anyway.
    """

    __slots__ = ("_decode", "_singles", "_there", "_values")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, count: int, decode: Decoder, there: Decoder | None = None) -> None:
        self._values: list[Value] = [_UNSET] * count
        self._decode = decode
        self._there = there
        self._singles = 0  # results that were decoded alone

    @classmethod
    def of(cls, values: Iterable[R]) -> Results[R]:
        """Wrap values as results."""
        out: Any = cls(0, Decoder.of(_nothing))
        out._values = list(values)
        return out  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Results[T]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            places = range(len(self))[index]
            there = self._there
            return type(self)(
                len(places),
                Decoder(lambda k: self[places[k]], lambda ks: self.some([places[k] for k in ks])),
                None if there is None else Decoder.of(lambda k: there.one(places[k])),
            )
        value = self._values[index]
        if value is _UNSET:
            place = range(len(self))[index]
            if self._singles >= FEW:
                self.some(range(place, min(place + MANY, len(self))))
            else:
                self._singles += 1
                self._values[place] = self._decode.one(place)
            value = self._values[place]
        return value

    def __iter__(self) -> Iterator[T]:
        for first in range(0, len(self), MANY):
            yield from self.some(range(first, min(first + MANY, len(self))))

    def some(self, places: Sequence[int]) -> list[Value]:
        """Return some of the results; decoding several together takes less time."""
        values = self._values
        new = [k for k in places if values[k] is _UNSET]
        found = self._decode.some(new)
        for k, value in zip(new, found, strict=True):
            values[k] = value
        return found if len(new) == len(places) else [values[k] for k in places]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(equal(a, b) for a, b in zip(self, other, strict=True))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from acronumba.views.explorer.summary import ROWS, table_summary
        from acronumba.views.words import counted

        rows = [(str(k), type(self[k]).__name__, _shape(self[k]), repr(self[k])) for k in range(min(len(self), ROWS))]
        words = counted(len(self), "instance") + (f", the first {ROWS} shown" if len(self) > ROWS else "")
        heads = ("instance", "type", "shape", "value")
        return {"text/plain": repr(self), "text/html": table_summary("Results", words, heads, rows)}

    def __repr__(self) -> str:
        shown = ", ".join(_short(self[k]) for k in range(min(3, len(self))))
        return f"Results([{shown}{', ...' if len(self) > 3 else ''}]) of {len(self)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Results.of, (list(self),)

    @property
    def device(self) -> Results[T]:
        """The same results with every tensor left where it was computed.

        On a GPU this neither copies to the CPU nor waits: a tensor is an object with
        `__cuda_array_interface__` and `__dlpack__`, for PyTorch (`torch.from_dlpack`), CuPy and others;
        `np.asarray` makes a copy. On the CPU these are the results themselves.
        """
        return self if self._there is None else Results(len(self), self._there)

    @overload
    def stack(self: Results[_Arrays]) -> _Arrays: ...
    @overload
    def stack(self: Results[float]) -> Array: ...
    @overload
    def stack(self: Results[Value]) -> Value: ...
    def stack(self) -> Value:
        """Return one value of the structure of a result whose leaves are the stacked leaves of all results.

        Arrays get a leading axis, numbers and bools become arrays, None stays None. Nothing is copied if the arrays
        already are contiguous in memory. The arrays are read-only.

        Raises
        ------
        ShapeMismatch
            If a leaf is not uniform over the instances (the message names two of them), or there are no instances.
        """
        if not len(self):
            raise reject("ACR703", message="there are no results to stack")
        return self._stacked(rows=False).leaves(list(self), "result")

    def ragged(self) -> Any:
        """Return one value of the structure of a result whose leaves are the joined leaves of all results.

        Arrays, which may differ in their first dimension, become a pair: all rows concatenated, and the offset of the
        first row of each instance. Other leaves are those of `stack`. Nothing is copied if the arrays already are
        contiguous in memory. The arrays are read-only.

        Returns
        -------
        Ragged, or a structure of them
            `values` [rows, ...] and `offsets`, int64 [n + 1]: the rows of instance k are
            ``values[offsets[k] : offsets[k + 1]]``.

        Raises
        ------
        ShapeMismatch
            If a leaf differs in more than its first dimension (the message names two instances), or there are no
            results.
        """
        if not len(self):
            raise reject("ACR703", message="there are no results to join")
        return self._stacked(rows=True).leaves(list(self), "result")

    def _stacked(self, rows: bool) -> Stacked:
        return Stacked(rows)


class Ragged(NamedTuple):
    """Arrays with different first dimensions in one, in the layout of other libraries' jagged tensors."""

    values: Any  # all rows
    offsets: Any  # int64 [n + 1]: the first row of each array, and the end of the last


@record(eq=False)
class Done:
    """A mini-batch that has run."""

    results: Results
    errors: dict[int, BaseException]
    compiled: Compiled | None = None  # None if there are no instances
    trace: TraceData | None = None  # if it was asked for
    call: Call | None = None  # the call that `compiled` ran for


def _how_alike(first: Value, value: Value) -> str:
    """Return a suggestion for two results that cannot be joined."""
    arrays = all(hasattr(v, "dtype") and hasattr(v, "shape") for v in (first, value))
    if arrays and first.dtype != value.dtype:
        return "compute one dtype on every path; the warnings of `explain` name the lines where float64 begins"
    if arrays and len(first.shape) == len(value.shape) and first.shape[1:] == value.shape[1:]:
        return "`results.ragged()` joins arrays of different lengths"
    library = "torch" if is_tensor(first) else "np"
    return f"stack the leaves of equal shape: `{library}.stack([r[0] for r in results])`"


def is_device_array(value: Any) -> bool:
    """Whether a value is a tensor that is on a device; see `acronumba.runtime.devices.arrays`."""
    return hasattr(type(value), "__dlpack__") and not isinstance(value, np.ndarray | np.generic)


def _shape(value: Value) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray | np.generic) else ""


def _nothing(index: int) -> Value:
    raise IndexError(index)


def _short(value: Value) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def equal(a: Value, b: Value) -> bool:
    """Whether two results are the same: structure, types, dtypes and values; NaN equals NaN."""
    stack = [(a, b)]
    seen: set[tuple[int, int]] = set()  # pairs of objects that are being compared: results may contain themselves
    while stack:
        x, y = stack.pop()
        if type(x) is not type(y):
            return False
        parts = parts_of(x)
        if parts is None:
            if not _equal_leaves(x, y):
                return False
        elif (id(x), id(y)) not in seen:
            seen.add((id(x), id(y)))
            others = parts_of(y) or []
            if [name for name, _ in parts] != [name for name, _ in others]:
                return False
            stack += [(p, q) for (_, p), (_, q) in zip(parts, others, strict=True)]
    return True


def _equal_leaves(x: Value, y: Value) -> bool:
    if is_tensor(x):
        x, y = numpy_array(x), numpy_array(y)
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype == y.dtype and bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
    if is_function_class(type(x)):  # functions of one definition count as one
        return known_function(x) is known_function(y)
    return bool(x == y) or (isinstance(x, float) and x != x and y != y)


def parts_of(value: Value) -> list[tuple[str, Value]] | None:
    """Return the parts of a dict, object, list or tuple with the steps that lead to them; None for anything else."""
    if isinstance(value, dict):
        return [(f"[{k!r}]", v) for k, v in value.items()]
    if isinstance(value, MethodType):
        return [(".__func__", value.__func__), (".__self__", value.__self__)]
    if is_object(value):
        return [(f".{n}", getattr(value, n)) for n in names_of(value) if hasattr(value, n)]
    if isinstance(value, list | tuple):
        return [(f"[{k}]", v) for k, v in enumerate(value)]
    return None


class Stacked:
    """Makes one value of values of one structure."""

    def __init__(self, rows: bool) -> None:
        self.rows = rows  # arrays are joined along their first axis, in which they may differ

    def leaves(self, values: list[Value], path: str) -> Value:
        """Return the value; `path` says where in the results the values are."""
        first = values[0]
        form = self.form(first)
        for k, value in enumerate(values):
            if self.form(value) != form:
                seen = f"instance 0: {_form_text(first)}; instance {k}: {_form_text(value)}"
                message = f"{path} is not alike in instances 0 and {k}"
                raise reject("ACR703", message=message, seen=seen, rewrite=_how_alike(first, value))
        if is_device_array(first) or isinstance(first, np.ndarray | np.generic | bool | int | float):
            return self.joined(values)
        if isinstance(first, dict):
            return {k: self.leaves([v[k] for v in values], f"{path}[{k!r}]") for k in first}
        if is_object(first):
            parts = {n: self.leaves([getattr(v, n) for v in values], f"{path}.{n}") for n in names_of(first)}
            return _rebuild(first, parts)
        if isinstance(first, list | tuple):
            items = [self.leaves([v[k] for v in values], f"{path}[{k}]") for k in range(len(first))]
            if isinstance(first, list):
                return items
            return type(first)(items) if hasattr(first, "n_fields") else tuple(items)  # of PyTorch: `return_types.max`
        return first if all(v is first or v == first for v in values) else list(values)

    def joined(self, values: list[Value]) -> Value:
        """Return the stacked or joined leaves."""
        first: Any = values[0]
        if is_device_array(first):
            return Ragged(*type(first).join(values)) if self.rows and first.ndim else type(first).stack(values)
        if isinstance(first, np.ndarray) and first.ndim:
            return _joined(values) if self.rows else _stack_arrays(values)
        out = np.array(values)
        out.flags.writeable = False
        return out

    def form(self, value: Value) -> tuple[Value, ...]:
        """Key: values can be joined if their keys are equal (their parts are compared apart)."""
        if isinstance(value, np.ndarray | np.generic) or is_device_array(value):
            shape = (None, *value.shape[1:]) if self.rows and value.ndim else value.shape
            return is_device_array(value), value.dtype, shape
        if isinstance(value, dict):
            return dict, *value
        if isinstance(value, list | tuple) and not is_object(value):
            return type(value), len(value)
        return (type(value), *sorted(names_of(value))) if is_object(value) else (type(value),)


def _rebuild(first: Value, parts: dict[str, Value]) -> Value:
    """Create an object of the class of `first` with other fields, without a call of its `__init__`."""
    if isinstance(first, tuple):
        return type(first)(**parts)
    out = new_object(type(first))
    for name, value in parts.items():
        set_field(out, name, value)
    return out


def _form_text(value: Value) -> str:
    if isinstance(value, np.ndarray | np.generic) or is_device_array(value):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple) and not is_object(value):
        return f"{type(value).__name__} of {len(value)}"
    return "None" if value is None else type(value).__name__


def _stack_arrays(arrays: list[Array]) -> Array:
    """Stack the arrays along a leading axis, as a view if they are evenly spaced in one buffer."""
    first = arrays[0]
    addresses = _addresses(arrays)
    out = None
    if len(addresses) > 1:
        step = addresses[1] - addresses[0]
        if step >= first.nbytes > 0 and all(b - a == step for a, b in pairwise(addresses)):
            shape, strides = (len(arrays), *first.shape), (step, *first.strides)
            out = np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
    if out is None:
        out = np.stack(arrays)
        out.flags.writeable = False
    return out


def _addresses(arrays: Sequence[Array]) -> list[int]:
    """Return the addresses of arrays that are contiguous parts of one buffer; empty if they are not."""
    base = arrays[0].base
    if base is None or not all(a.base is base and a.flags.c_contiguous for a in arrays):
        return []
    return [a.__array_interface__["data"][0] for a in arrays]


def _joined(arrays: list[Array]) -> Ragged:
    """Return the rows of all arrays, as a view if the arrays are adjacent in one buffer."""
    offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    some = [a for a in arrays if a.size] or arrays[:1]
    addresses = _addresses(some)
    if addresses and all(a + x.nbytes == b for (a, b), x in zip(pairwise(addresses), some, strict=False)):
        shape = (int(offsets[-1]), *some[0].shape[1:])
        values = np.lib.stride_tricks.as_strided(some[0], shape, some[0].strides, writeable=False)
    else:
        values = np.concatenate(arrays)
    values.flags.writeable = offsets.flags.writeable = False
    return Ragged(values, offsets)
