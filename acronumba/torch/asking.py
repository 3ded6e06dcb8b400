"""PyTorch's own answer about a call: the dtypes and ranks of its result, or why it takes no such arguments.

In: a function of PyTorch, and arguments as values of the front end. A call of the function with small tensors of the
same dtypes and ranks answers, when a model is compiled. Out: an `Answer`. So the rules of promotion, of which there are
many exceptions, are nowhere written down anew.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.torch_tensors import TorchTensor
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.walker import Walker
from acronumba.ir.types import BOOL, INT
from acronumba.records import record
from acronumba.torch.library import DTYPES

NAMES = {dtype: name for name, dtype in DTYPES.items()}  # NumPy's names of PyTorch's dtypes


@record(kw_only=True)
class Answer:
    """The dtypes and ranks that a function of PyTorch returns, or its error."""

    dtypes: tuple[str, ...] = ()  # of the tensors of its result, in order; "" for one of a dtype that we lack
    ranks: tuple[int, ...] = ()  # of these tensors
    error: str = ""  # the first line of its exception,
    kind: str = ""  # and the class of that


class _Unknown(Exception):
    pass


@record()
class _Like:
    """A tensor of a dtype and rank."""

    dtype: str
    rank: int


@record()
class _Array:
    """An array or scalar of NumPy, which few functions take."""

    dtype: str
    rank: int
    scalar: bool


@record()
class _Constant:
    """A constant; its class is kept since 1, 1.0 and True are equal."""

    kind: type
    value: Any


@record()
class _Items:
    """A tuple or list."""

    items: tuple[Any, ...]
    kind: type


def answer(w: Walker, function: Callable[..., Any], args: Sequence[Val], kwargs: Mapping[str, Val]) -> Answer | None:
    """Return PyTorch's answer about a call; None if one of the arguments has no example."""
    try:
        keys = tuple(_key(w, v) for v in args)
        named = tuple((name, _key(w, v)) for name, v in kwargs.items())
        return _asked(function, keys, named)
    except (_Unknown, TypeError):  # no example, or one that has no hash
        return None


def _key(w: Walker, val: Val) -> Any:
    if isinstance(val, TorchTensor):
        return _Like(val.dtype, val.rank)
    if isinstance(val, Tensor | ArrayRef):
        scalar = isinstance(val, Tensor) and not val.type.rank and val.array0 is None
        return _Array(val.type.dtype, val.type.rank, scalar)
    value = w.static(val)
    if value is not NOT_CONST:
        return _Constant(type(value), value)
    if isinstance(val, Num):
        kind = {BOOL: bool, INT: int}.get(val.type, float)
        return _Constant(kind, kind(1))
    items = w.items_of(val)
    if items is not None:
        return _Items(tuple(_key(w, v) for v in items), list if val.is_list else tuple)
    if val.python_class not in ODD:
        raise _Unknown
    return _Items((), val.python_class)


def _example(key: Any) -> Any:
    match key:
        case _Like():
            return torch.ones((2,) * key.rank, dtype=DTYPES[key.dtype])
        case _Array():
            array = np.ones((2,) * key.rank, key.dtype)
            return array[()] if key.scalar else array
        case _Items():
            return key.kind(map(_example, key.items))
    return torch.device("cpu") if isinstance(key.value, torch.device) else key.value


@functools.lru_cache(4096)
def _asked(function: Callable[..., Any], keys: tuple[Any, ...], named: tuple[Any, ...]) -> Answer:
    try:
        with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=()):
            warnings.simplefilter("ignore")
            out = function(
                *map(_example, keys), **{name: "cpu" if name == "device" else _example(k) for name, k in named}
            )
    except Exception as error:  # whatever PyTorch raises is its answer
        lines = str(error).splitlines()
        return Answer(error=lines[0] if lines else type(error).__name__, kind=type(error).__name__)
    tensors = [v for v in (out if isinstance(out, tuple | list) else (out,)) if isinstance(v, torch.Tensor)]
    return Answer(dtypes=tuple(NAMES.get(v.dtype, "") for v in tensors), ranks=tuple(v.ndim for v in tensors))


def checked(
    w: Walker, what: str, function: Callable[..., Any], args: Sequence[Val], kwargs: Mapping[str, Val]
) -> Answer | None:
    """Return PyTorch's answer about a call; let the instance fail if it raises an error whatever the elements are."""
    said = answer(w, function, args, kwargs)
    if said is not None and said.error:
        raise _fails(w, what, said, (*args, *kwargs.values()))
    return said


def check_classes(
    w: Walker, what: str, function: Callable[..., Any], args: Sequence[Val], kwargs: Mapping[str, Val]
) -> None:
    """Let the instance fail if PyTorch takes no arguments of these classes, whatever their dtypes and shapes are."""
    said = answer(w, function, args, kwargs)
    if said is not None and said.kind == "TypeError" and any(text in said.error for text in _OF_CLASSES):
        raise _fails(w, what, said, (*args, *kwargs.values()))


ODD = (list, tuple, str, dict, set)  # classes that are seldom right where there are tensors
TENSORS = ("input", "index", "mask", "src", "source", "target", "mat2", "vec2", "tensor")  # parameters that are tensors
_OF_CLASSES = ("must be Tensor, not", "invalid combination of arguments", "expected Tensor as element")


def _fails(w: Walker, what: str, said: Answer, given: Sequence[Val]) -> Exception:
    seen = f"{what} of {', '.join(map(w.describe, given))}: {said.error[:160]}"
    return w.fails(said.kind, w.reject("ACR301", seen=seen, rewrite=_rewrite(said.error)), said.error)


def _rewrite(error: str) -> str:
    if "must be Tensor, not" in error:
        return "torch.tensor(x)"
    if "same dtype" in error:
        return "x.to(y.dtype)"
    if "not implemented for" in error or "floating" in error or "dtype" in error:
        return "x.float()"
    return ""
