"""Arrays of other libraries: `as_numpy` is the one way from them to NumPy.

In: anything that says what it is by `__array__` or `__dlpack__`: tensors of PyTorch and JAX, arrays of CuPy, columns of
pandas. Out: an array that shares its memory where it can, or a sentence why there is none. No library is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_CPU = 1  # of DLPack's kinds of devices
_SIMPLE = frozenset((int, float, complex, bool, str, bytes, type(None), np.ndarray))


class OfParts:
    """What looks like an array to NumPy, and is a record of arrays to models: no array of another library."""

    later: tuple[str, ...] = ()  # fields that files have not always had


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


def as_numpy(value: Any) -> npt.NDArray[Any] | str:
    """Return an array of another library as one of NumPy, without a copy where it is in the processor's memory.

    Returns
    -------
    array or str
        A sentence that says why there is no such array: on another device, of a dtype that NumPy does not have.
    """
    if isinstance(value, np.ndarray):
        return value
    if not _on_processor(value):
        return "an array on a GPU: copy it to the CPU first"
    try:
        plain = value.detach() if hasattr(value, "detach") else value  # what PyTorch follows back is not given away
        # Of what has both, `__array__` takes half the time; it shares the memory, too.
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


def numpy_array(value: Any) -> npt.NDArray[Any]:
    """Return what `as_numpy` does, or raise where there is no array."""
    found = as_numpy(value) if is_foreign(value) else np.asarray(value)
    if isinstance(found, str):
        raise TypeError(found)
    return found


def natives(values: Sequence[Any], made: dict[int, tuple[Any, Any]]) -> list[Any]:
    """Return values with NumPy's arrays in the place of others; what cannot be converted stays.

    Parameters
    ----------
    values : sequence
    made : dict
        What was converted, with its array, by id; new ones are added. One object becomes one array.
    """
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
