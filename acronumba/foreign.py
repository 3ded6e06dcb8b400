"""Arrays of other libraries, which `as_numpy` converts to NumPy.

In: objects with `__array__` or `__dlpack__`: tensors of PyTorch and JAX, arrays of CuPy, columns of pandas. Out: an
array that shares their memory if possible, or a sentence that gives the reason why not. No library is imported.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from acronumba.generics import Value
from acronumba.memory import Array, Home

AWAY = "but models read the memory of the CPU"
_FEW = 16  # tensors up to which each is converted by itself
_CPU = 1  # of DLPack's kinds of devices
_SIMPLE = frozenset((int, float, complex, bool, str, bytes, type(None), np.ndarray))


Foreign: TypeAlias = Any  # an object of PyTorch


class Library:
    """PyTorch, once `acronumba.torch` is imported."""

    tensor: type | None = None  # the class of its tensors
    from_numpy: Callable[[Array], Foreign]
    dtypes: Mapping[str, Foreign]  # its dtypes by NumPy's names
    device: Callable[[], Foreign]  # that the call that runs computes on
    size: type | None = None  # the class of shapes
    constants: tuple[type, ...] = ()  # classes of its constants: dtypes, devices
    folder: str = ""  # of its code
    name_of: Callable[[Foreign], str] = staticmethod(lambda value: "")  # "torch.tanh"; "" for what is not PyTorch's
    functions: Callable[[], list[str]] = staticmethod(list)  # the names of those that are supported
    advice: Callable[[str], str] = staticmethod(lambda name: "")  # what to write in place of a function without a row
    is_instance: Callable[[str, type], bool]  # whether a tensor of a dtype is an instance of a class
    unclear: tuple[type, ...] = ()  # classes that models do not tell from others
    operate: Foreign  # walker, class of an operator in the syntax tree, operands -> value
    contexts: Mapping[Foreign, Callable[..., Foreign]] = {}  # of `with`: whether gradients are followed
    undecorated: Callable[[Foreign], Foreign] = staticmethod(lambda fn: None)  # what stands for a decorated function
    detach: Foreign  # the method that stops gradients
    strided: Foreign  # the layout of dense tensors
    arrays_of: Callable[[Sequence[Foreign]], Sequence[Array] | None]  # copies of tensors; None if they are not alike
    # Of a call whose module is on a device, see `torch.devices`:
    is_here: Callable[[Foreign], bool] = staticmethod(lambda tensor: False)  # whether a tensor is there, too
    fetched: Callable[[Foreign], Foreign] = staticmethod(lambda tensor: None)  # its copy on the CPU, if it is
    # what stands for shared values on a device, and their home there, if some are
    at_home: Callable[[Value, tuple[Value, ...]], tuple[tuple[Value, ...], Home | None]] = staticmethod(
        lambda device, given: (given, None)
    )


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch; never before `acronumba.torch` is imported."""
    return _is_tensor_class(type(value))


def _is_tensor_class(cls: type) -> bool:
    return Library.tensor is not None and issubclass(cls, Library.tensor)


def is_tensor_of(value: Foreign, dtype: str, shape: tuple[int | None, ...]) -> bool:
    """Whether a tensor of PyTorch is in the CPU's memory, with this dtype (NumPy's name) and shape."""
    return bool(
        value.dtype is Library.dtypes[dtype]
        and value.shape == shape
        and (value.is_cpu or Library.is_here(value))
        and value.layout is Library.strided
    )


def place_of(value: Foreign) -> object:
    """Return where a tensor of PyTorch keeps its elements, and how; None for any other value."""
    return (value.data_ptr(), value.dtype, value.shape, value.stride()) if is_tensor(value) else None


def rows_of(value: Foreign) -> Foreign:
    """Return the rows of a tensor of PyTorch as a list; any other value unchanged."""
    return list(value.unbind()) if is_tensor(value) and value.ndim else value


def to_tensor(array: Array) -> Foreign:
    """Return a tensor of PyTorch with the elements of an array."""
    return Library.from_numpy(np.array(array))


class TensorArray(np.ndarray):
    """The elements of a tensor of PyTorch, which is told apart from an array by this class."""


def comparable(value: Foreign) -> Foreign:
    """Return the elements of a tensor, to be compared; any other value, or tensor that NumPy cannot read, as it is."""
    array = as_numpy(value) if is_tensor(value) else ""
    return value if isinstance(array, str) else array.view(TensorArray)


class OfParts:
    """Base class of records of arrays that NumPy sees as an array, and models as a record; not a foreign array."""

    later: tuple[str, ...] = ()  # fields that are missing in older files


def is_foreign(value: object) -> bool:
    """Whether a value is an array of another library."""
    return is_foreign_class(type(value))


def is_foreign_class(cls: type) -> bool:
    """Whether the objects of a class are arrays of another library."""
    return _says_array(cls)


@lru_cache(1024)
def _says_array(cls: Any) -> bool:
    if issubclass(cls, np.ndarray | np.generic | OfParts):
        return False
    return hasattr(cls, "__array__") or hasattr(cls, "__dlpack__")


def as_numpy(value: Any) -> Array | str:
    """Convert an array of another library to NumPy, without a copy if it is in the CPU's memory.

    Returns
    -------
    array or str
        A sentence if the conversion is impossible: the array is on another device, or NumPy lacks its dtype.
    """
    if isinstance(value, np.ndarray):
        return value
    if is_tensor(value) and (here := Library.fetched(value)) is not None:
        value = here
    if is_tensor(value) and value.is_cpu:
        try:
            return value.detach().numpy()  # type: ignore[no-any-return]
        except (RuntimeError, TypeError) as error:
            if getattr(value, "is_neg", bool)():
                return as_numpy(value.detach().resolve_neg())
            return _why(value, error)
    if is_tensor(value):
        return f"a tensor on the device {value.device}, {AWAY}"
    if not _on_processor(value):
        return "an array on a GPU: copy it to the CPU first"
    try:
        plain = value.detach() if hasattr(value, "detach") else value  # else PyTorch rejects to export it
        # If both exist, `__array__` takes half the time; it shares the memory, too.
        return np.asarray(plain) if hasattr(plain, "__array__") else np.from_dlpack(plain)
    except Exception as error:
        return _why(value, error)


def _on_processor(value: Any) -> bool:
    if hasattr(value, "__dlpack_device__"):
        try:
            return int(value.__dlpack_device__()[0]) == _CPU
        except Exception:  # a device that DLPack has no number for
            return True
    return not hasattr(value, "__cuda_array_interface__")


def _why(value: Any, error: Exception) -> str:
    """Say why NumPy has no array of a value."""
    kind, dtype = type(value).__name__, str(getattr(value, "dtype", ""))
    if dtype.endswith("float16"):
        return f"an array of dtype {dtype}"
    lines = str(error).splitlines()
    return f"an object of class {kind}, which NumPy cannot read: {lines[0] if lines else type(error).__name__}"


def numpy_array(value: Any) -> Array:
    """Return the array of `as_numpy`, or raise `TypeError` if there is none."""
    found = as_numpy(value) if is_foreign(value) else np.asarray(value)
    if isinstance(found, str):
        raise TypeError(found)
    return found


def natives(values: Sequence[Any], made: dict[int, tuple[Any, Any]]) -> list[Any]:
    """Return values with foreign arrays replaced by NumPy arrays; values that cannot be converted stay.

    Parameters
    ----------
    values : sequence
    made : dict
        Cache by id of (object, its NumPy array), which is extended. One object becomes one array.
    """
    tensors = len(values) > 1 and all(map(_is_tensor_class, set(map(type, values))))
    if tensors and (len(values) > _FEW or Library.is_here(values[0])):
        ids = list(map(id, values))
        new = dict(zip(ids, values, strict=True))
        if len(new) == len(values) and new.keys().isdisjoint(made):
            arrays = Library.arrays_of(values)
            if arrays is not None:
                made.update(zip(ids, zip(values, arrays, strict=True), strict=True))
                return list(arrays)
    out = []
    for v in values:
        if is_foreign(v):
            if id(v) not in made:
                found = as_numpy(v)
                made[id(v)] = v, v if isinstance(found, str) else found
            v = made[id(v)][1]
        out.append(v)
    return out


def is_simple(cls: type) -> bool:
    """Whether the objects of a class neither are nor hold an array of another library."""
    return cls in _SIMPLE


def is_of_numba(value: object) -> bool:
    """Whether a value is an object of Numba: a compiled function, a class or a type of its own."""
    return any((getattr(x, "__module__", None) or "").startswith("numba.") for x in (type(value), value))


def source_function(value: object) -> types.FunctionType | None:
    """Return the Python function that Numba has compiled by `njit`, `jit` or `cfunc`; None for any other value."""
    if not type(value).__module__.startswith("numba.core."):
        return None
    found = getattr(value, "__wrapped__", None)
    return found if isinstance(found, types.FunctionType) else None


# Models that call functions of Numba: their definition is the Python source, see `api.plain.SourceCall`.
BY_SOURCE: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()
