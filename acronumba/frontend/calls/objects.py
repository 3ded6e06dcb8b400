"""Python's own objects behind abstract values: the functions, classes and types that a model names.

In: an object, a type of the IR or an abstract value. Out: the plain function behind it, or the Python class that it
has at run time.
"""

from __future__ import annotations

import contextlib
import functools
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from acronumba.foreign import Library, source_function
from acronumba.frontend.kinds.value import Val
from acronumba.ir.shapes import class_of_values
from acronumba.ir.types import Array0T, ListT, StructT, TensorT, TorchT, Type

_FOR_MODELS = (
    "acronumba.nn", "acronumba.random", "acronumba.compressed", "acronumba.zoo", "acronumba.bench",
    "acronumba.frontend.library.", "acronumba.torch.rows.", "acronumba.torch.implements",
    "acronumba.torch.zoo.",
)  # fmt: skip
_FOREIGN = (sysconfig.get_path("stdlib"), str(Path(np.__file__).parent))


def as_function(value: Any) -> types.FunctionType | None:
    """Return a plain function itself, or the one that a `Model`, `lru_cache` or Numba wraps; None for other values."""
    if isinstance(value, types.FunctionType):
        return value
    if (source := source_function(value)) is not None:
        return source
    wrapped = getattr(value, "__wrapped__", None)
    if (type(value).__name__ == "Model" or isinstance(value, functools._lru_cache_wrapper)) and isinstance(
        wrapped, types.FunctionType
    ):
        return wrapped
    return None


@contextlib.contextmanager
def _example() -> Iterator[None]:
    yield


def is_manager(value: object) -> TypeGuard[types.FunctionType]:
    """Whether a value is a function under `contextlib.contextmanager`."""
    return isinstance(value, types.FunctionType) and value.__code__ is _example.__code__


def is_foreign(fn: types.FunctionType) -> bool:
    """Whether a function is never compiled: one of Python, NumPy or SciPy, or internal to this package."""
    file, module = fn.__code__.co_filename, fn.__module__ or ""
    if module.startswith("scipy.") or (module.startswith("acronumba.") and not module.startswith(_FOR_MODELS)):
        return True
    if Library.folder and file.startswith(Library.folder):
        return True
    return file.startswith(_FOREIGN) and (file.startswith(_FOREIGN[1]) or "site-packages" not in file)


def is_foreign_class(cls: type) -> bool:
    """Whether a class is one of PyTorch."""
    return cls.__module__.startswith("torch.")


def is_tuple(val: Val) -> bool:
    """Whether a value is certainly a tuple or a NamedTuple."""
    return issubclass(val.python_class, tuple)


def runtime_class(t: Type) -> type:
    """Return the Python class of the values of an IR type."""
    from acronumba.ir.types import PLAIN, DictT, EnumT, FunctionT, MapT, MethodT, NoneT, ScalarT, StrT, TupleT

    plain = next((cls for cls, known in PLAIN.items() if known == t), None)
    if plain is not None:
        return plain
    match t:
        case StrT():
            return str
        case FunctionT(fn=fn):
            return type(fn)
        case MethodT():
            return types.MethodType
        case NoneT():
            return type(None)
        case EnumT(cls=cls) | StructT(cls=cls):
            return class_of_values(cls)
        case Array0T(sure=True):
            return np.ndarray
        case ScalarT():
            return np.dtype(t.dtype).type
        case TorchT():
            assert Library.tensor is not None
            return Library.tensor
        case TensorT():
            return np.ndarray if t.rank else np.dtype(t.dtype).type
        case TupleT():
            return list if t.listed else tuple
        case DictT():
            return dict
        case MapT():
            return t.python
        case ListT():
            return tuple if t.tupled else list
    return object
