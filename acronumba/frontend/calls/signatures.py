"""Signatures of NumPy's functions and of Python's builtins.

In: a function, or a method of a built-in type. Out: its `inspect.Signature`. The table `TEXTS` has signatures that
`inspect` does not find (C functions of NumPy before 2.4, some builtins) or finds in part (`**kwargs`). A method of
arrays without an entry has the parameters of the NumPy function of its name. `tables.bind` binds calls to signatures.
"""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import functools
import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from types import BuiltinMethodType, FunctionType, MethodDescriptorType
from typing import Any

import numpy as np

UNSET: Any = ...  # the default of an optional parameter without a default value

_UFUNC = "*, where=True, casting='same_kind', order='K', dtype=None, subok=True, signature=...)"
_REDUCED = "axis=None, dtype=None, out=None, keepdims=False, initial=..., where=True)"
_EXTREME = "axis=None, out=None, keepdims=False, initial=..., where=True)"
_CLIP = f"out=None, *, min=..., max=..., {_UFUNC[3:]}"

TEXTS: dict[Any, str] = {
    np.r_: "(*parts)",
    np.c_: "(*parts)",
    np.mgrid: "(*parts)",
    np.ogrid: "(*parts)",
    np.where: "(condition, x=..., y=..., /)",
    np.clip: f"(a, a_min=..., a_max=..., {_CLIP}",
    np.dot: "(a, b, out=None)",
    np.inner: "(a, b, /)",
    np.vdot: "(a, b, /)",
    np.einsum: "(subscripts, /, *operands, out=None, optimize=False, dtype=None, order='K', casting='safe')",
    np.concatenate: "(arrays, /, axis=0, out=None, *, dtype=None, casting='same_kind')",
    np.zeros: "(shape, dtype=None, order='C', *, device=None, like=None)",
    np.from_dlpack: "(x, /, *, device=None, copy=None)",
    np.empty: "(shape, dtype=None, order='C', *, device=None, like=None)",
    np.empty_like: "(prototype, /, dtype=None, order='K', subok=True, shape=None, *, device=None)",
    np.arange: "(start=..., stop=None, step=1, dtype=None, *, device=None, like=None)",
    np.array: "(object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, like=None)",
    np.asarray: "(a, dtype=None, order=None, *, device=None, copy=None, like=None)",
    np.ascontiguousarray: "(a, dtype=None, *, like=None)",
    np.pad: "(array, pad_width, mode='constant', *, constant_values=..., stat_length=..., end_values=..., "
    "reflect_type=...)",
    np.asanyarray: "(a, dtype=None, order=None, *, device=None, copy=None, like=None)",
    np.asfortranarray: "(a, dtype=None, *, like=None)",
    np.bincount: "(x, /, weights=None, minlength=0)",
    np.can_cast: "(from_, to, casting='safe')",
    np.copyto: "(dst, src, casting='same_kind', where=True)",
    np.lexsort: "(keys, axis=-1)",
    np.may_share_memory: "(a, b, /, max_work=0)",
    np.min_scalar_type: "(a, /)",
    np.putmask: "(a, /, mask, values)",
    np.ravel_multi_index: "(multi_index, dims, mode='raise', order='C')",
    np.result_type: "(*arrays_and_dtypes)",
    np.shares_memory: "(a, b, /, max_work=-1)",
    np.unravel_index: "(indices, shape, order='C')",
    np.promote_types: "(type1, type2, /)",
    np.ndarray.conj: "(self, /)",
    np.ndarray.sort: "(a, axis=-1, kind=None, order=None, *, stable=None)",
    np.ndarray.clip: f"(self, /, min=..., max=..., out=None, {_UFUNC}",
    np.ndarray.sum: f"(self, /, {_REDUCED}",
    np.ndarray.prod: f"(self, /, {_REDUCED}",
    np.ndarray.max: f"(self, /, {_EXTREME}",
    np.ndarray.min: f"(self, /, {_EXTREME}",
    np.ndarray.any: "(self, /, axis=None, dtype=None, out=None, keepdims=False, *, where=True)",
    np.ndarray.all: "(self, /, axis=None, dtype=None, out=None, keepdims=False, *, where=True)",
    np.ndarray.mean: "(self, /, axis=None, dtype=None, out=None, keepdims=False, *, where=True)",
    np.ndarray.var: "(self, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=..., "
    "correction=...)",
    np.ndarray.std: "(self, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=..., "
    "correction=...)",
    np.ndarray.argmax: "(self, /, axis=None, out=None, *, keepdims=False)",
    np.ndarray.argmin: "(self, /, axis=None, out=None, *, keepdims=False)",
    np.ndarray.dot: "(self, other, /, out=None)",
    np.ndarray.reshape: "(self, /, *shape, order='C', copy=None)",
    np.ndarray.transpose: "(self, /, *axes)",
    np.ndarray.swapaxes: "(self, axis1, axis2, /)",
    np.ndarray.squeeze: "(self, /, axis=None)",
    np.ndarray.ravel: "(self, /, order='C')",
    np.ndarray.flatten: "(self, /, order='C')",
    np.ndarray.take: "(self, /, indices, axis=None, out=None, mode='raise')",
    np.ndarray.copy: "(self, /, order='C')",
    np.ndarray.astype: "(self, /, dtype, order='K', casting='unsafe', subok=True, copy=True)",
    np.ndarray.item: "(self, /, *args)",
    np.ndarray.tolist: "(self, /)",
    builtins.int: "(x=0, /, base=...)",
    builtins.float: "(x=0.0, /)",
    builtins.bool: "(x=False, /)",
    builtins.str: "(object='', /)",
    builtins.list: "(iterable=(), /)",
    builtins.dict: "(*args, **kwargs)",
    builtins.set: "(*args)",
    builtins.next: "(iterator, default=..., /)",
    builtins.slice: "(start, stop=..., step=None, /)",
    builtins.hasattr: "(obj, name, /)",
    collections.deque: "(iterable=(), maxlen=None)",
    collections.defaultdict: "(*args, **kwargs)",
    collections.OrderedDict: "(*args, **kwargs)",
    collections.Counter: "(*args, **kwargs)",
    itertools.count: "(start=0, step=1)",
    builtins.tuple: "(iterable=(), /)",
    builtins.range: "(*bounds)",
    builtins.zip: "(*iterables, strict=False)",
    builtins.enumerate: "(iterable, start=0)",
    builtins.reversed: "(sequence, /)",
    builtins.min: "(*args, key=None, default=...)",
    builtins.max: "(*args, key=None, default=...)",
    builtins.iter: "(object, sentinel=..., /)",
    builtins.type: "(object, bases=..., dict=..., /)",
    builtins.getattr: "(object, name, default=..., /)",
    builtins.vars: "(object, /)",
    copy.deepcopy: "(x, memo=None)",
    math.hypot: "(*coordinates)",
    math.log: "(x, base=..., /)",
    list.pop: "(self, index=-1, /)",
    dict.get: "(self, key, default=None, /)",
    dict.keys: "(self, /)",
    dict.values: "(self, /)",
    dict.items: "(self, /)",
}


# Methods of ufuncs.
OF_UFUNCS = {
    "reduce": "(array, /, axis=0, dtype=None, out=None, keepdims=False, initial=..., where=True)",
    "accumulate": "(array, /, axis=0, dtype=None, out=None)",
    "reduceat": "(array, /, indices, axis=0, dtype=None, out=None)",
    "at": "(a, indices, b, /)",
    "outer": f"(A, B, /, out=None, {_UFUNC}",
}


@functools.cache
def signature_of(function: Any) -> inspect.Signature:
    """Return the signature of a function, or of a method of a built-in type (with `self`)."""
    if function in TEXTS:
        return _read(TEXTS[function])
    if isinstance(function, np.ufunc) and function.signature is not None:
        return _read(
            f"(x1, x2, /, out=None, *, axes=..., axis=..., keepdims=..., {_UFUNC.replace('*, where=True, ', '')}"
        )
    if isinstance(function, BuiltinMethodType) and isinstance(function.__self__, np.ufunc):
        return _read(OF_UFUNCS[function.__name__])
    if isinstance(function, np.ufunc) and function.nout == 2:
        return _read(f"({'x' if function.nin == 1 else 'x1, x2'}, out1=None, out2=None, /, out=..., {_UFUNC}")
    if isinstance(function, np.ufunc):
        return _read(f"({'x' if function.nin == 1 else 'x1, x2'}, /, out=None, {_UFUNC}")
    if isinstance(function, type) and issubclass(function, np.generic):
        return _read("(value=0, /)")
    if isinstance(function, MethodDescriptorType) and function.__objclass__ is np.ndarray:
        function = getattr(np, function.__name__)
    known = [p.replace(default=_default(p)) for p in inspect.signature(function).parameters.values()]
    return inspect.Signature(known)


def has_init(function: object) -> bool:
    """Whether it is a class whose `__init__` is a function of Python: arguments are bound to that."""
    plain = isinstance(function, type) and not issubclass(function, BaseException | tuple)
    return plain and isinstance(function.__init__, FunctionType) and not is_dataclass(function)  # type: ignore[misc]


def arity(function: Callable[..., object]) -> int | None:
    """Return the number of arguments that a function of the library takes, if there is only one; else None."""
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):  # it has none
        return None
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    alone = all(p.kind in fixed and p.default is inspect.Parameter.empty for p in parameters)
    return len(parameters) if alone else None


def _default(parameter: inspect.Parameter) -> Any:
    """Return the default of a parameter; `np._NoValue` is replaced by the value that it means, or by `UNSET`."""
    if parameter.default is np._NoValue:
        return {"keepdims": False, "where": True}.get(parameter.name, UNSET)
    return parameter.default


def _read(text: str) -> inspect.Signature:
    """Return the signature that a text in Python's syntax describes."""
    module = ast.parse(f"lambda {text[1:-1]}: 0", mode="eval")
    assert isinstance(module.body, ast.Lambda)
    a = module.body.args
    plain = [*a.posonlyargs, *a.args]
    defaults = [*[None] * (len(plain) - len(a.defaults)), *a.defaults]
    kinds = [inspect.Parameter.POSITIONAL_ONLY] * len(a.posonlyargs) + [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(
        a.args
    )
    out = [_parameter(p.arg, kind, d) for p, kind, d in zip(plain, kinds, defaults, strict=True)]
    if a.vararg is not None:
        out.append(_parameter(a.vararg.arg, inspect.Parameter.VAR_POSITIONAL, None))
    if a.kwarg is not None:
        out.append(_parameter(a.kwarg.arg, inspect.Parameter.VAR_KEYWORD, None))
    for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        out.append(_parameter(p.arg, inspect.Parameter.KEYWORD_ONLY, default))
    return inspect.Signature(out)


def _parameter(name: str, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    return inspect.Parameter(name, kind, default=value)
