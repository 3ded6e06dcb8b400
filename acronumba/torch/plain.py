"""The plain call of modules, methods and functions of PyTorch, and the float64 run beside it.

In: the callable and the arguments of an instance. Out: its result or exception, or an `Outcome`. The float64 run is one
plain call under a mode that does every operation twice, on the tensors and on their values in float64: control flow,
indices and dtypes are those of the plain call. Objects that the call writes to are restored after it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from acronumba.api import shadow
from acronumba.api.plain import Along, PlainCall
from acronumba.api.reference import SHARED, Outcome
from acronumba.api.shadow import Anchors, Number, Pair, ShadowArray, apply, current, narrow, wide, with_second
from acronumba.api.structures import rebuilt
from acronumba.foreign import comparable
from acronumba.generics import Value
from acronumba.ir.evaluate import factors, rounded
from acronumba.torch.random_numbers import numbers_for


@dataclass(frozen=True, slots=True)
class TorchCall(PlainCall):
    """A module, method or function of PyTorch with its shared values and bounds."""

    def arguments(self, instance: Sequence[Value]) -> tuple[Sequence[Value], dict[str, Value]]:
        """Return the arguments as they are: tensors stay tensors."""
        return instance, dict(self.shared)

    def call(self, args: Sequence[Value], shared: Mapping[str, Value]) -> Value:
        """Call the module, without gradients; what it writes to its objects and to those of the instance is undone."""
        args, numbers = numbers_for(args)
        with torch.no_grad(), unwritten((args, shared, self.fn)), numbers:
            return self.fn(*args, **shared)

    def reference(self) -> Along:
        """Return the float64 run beside this call."""
        return TorchReference(self)


# ---- objects as they were


@contextmanager
def unwritten(roots: Value) -> Iterator[None]:
    """Restore the attributes of objects, and the items of lists, dicts and sets, that are reached from `roots`."""
    kept = [(v, type(v)(v) if type(v) in _CONTAINERS else dict(vars(v))) for v in _reached(roots)]
    try:
        yield
    finally:
        for value, before in kept:
            _restore(value, before)


_CONTAINERS = (list, dict, set)
_SIMPLE = frozenset((str, bytes, int, float, bool, type(None), torch.Tensor, torch.nn.Parameter))
_LEAVES = (str, bytes, int, float, bool, type(None), type, torch.Tensor, np.ndarray, np.generic, types.ModuleType)


def _reached(root: Value) -> Iterator[Value]:
    """Yield the lists, dicts, sets and objects that are reached from a value, and what a function refers to."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        v = stack.pop()
        if isinstance(v, _LEAVES) or id(v) in seen:
            continue
        seen.add(id(v))
        if isinstance(v, list | tuple | set | frozenset | dict):
            inside = v.values() if isinstance(v, dict) else v
            if not _SIMPLE.issuperset(map(type, inside)):
                stack += inside
        elif isinstance(v, types.FunctionType):
            stack += [v.__globals__[n] for n in v.__code__.co_names if n in v.__globals__]
            stack += [cell.cell_contents for cell in v.__closure__ or () if cell != _EMPTY]
        elif isinstance(v, types.MethodType):
            stack += (v.__self__, v.__func__)
        elif hasattr(v, "__dict__"):
            stack += vars(v).values()
        if type(v) in _CONTAINERS or (isinstance(getattr(v, "__dict__", None), dict) and not isinstance(v, _CODE)):
            yield v


_EMPTY = types.CellType()
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def _restore(value: Value, before: Value) -> None:
    if type(value) is list:
        if len(value) != len(before) or not all(map(is_, value, before)):
            value[:] = before
        return
    held: Any = value if type(value) in _CONTAINERS else vars(value)
    same = len(held) == len(before)
    if type(value) is set:
        if not (same and held == before):
            value.clear()
            value.update(before)
    elif not (same and all(map(is_, held, before)) and all(map(is_, held.values(), before.values()))):
        held.clear()
        held.update(before)


# ---- the float64 run


class TorchReference:
    """A plain call, ready to be run with a second value in float64 beside each float of its tensors.

    Parameters
    ----------
    call : PlainCall
    """

    def __init__(self, call: PlainCall) -> None:
        self._call = call
        self._moved = Seconds()
        self._parameters = Seconds()  # from one run to the next

    def move(self, value: Value, second: Value, number: int = SHARED) -> None:
        """Replace the second value of a tensor, which is shared or of an instance."""
        self._moved.put(value, torch.from_numpy(np.array(second, np.float64)))

    def run(
        self,
        instance: Sequence[Value],
        flips: Collection[int] = (),
        *,
        steps: int | None = None,
        anchors: Anchors | None = None,
        number: int = SHARED,
    ) -> Outcome:
        """Run an instance; see `acronumba.api.reference.Reference.run`."""
        call = self._call if steps is None else replace(self._call, steps=steps)
        before = current.run
        current.run = run = shadow.ShadowRun(flips, anchors)
        if anchors is not None:
            anchors.begin()
        twice = Twice(self._moved, self._parameters)
        result, error = None, None
        try:
            with twice:
                result = call.run(instance)
            result = rebuilt(result, twice.outcome)
        except Exception as raised:
            error = raised
            error.__traceback__ = None
        finally:
            current.run = before
        return Outcome(result=result, error=error, choices=run.choices, nearest=run.nearest, single=run.single)


_PRODUCTS = frozenset(("matmul", "rmatmul", "mm", "mv", "bmm", "dot", "inner", "linear"))  # of the first two arguments


def _rounded(x: Value) -> Value:
    """Return a factor of matrix products with as many bits as factors have now, see `ir.evaluate.rounding`."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float64:
        return x
    return torch.from_numpy(rounded(x.detach().numpy()))


class Seconds:
    """Tensors with their values in float64, by id."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, Any, int]] = {}  # the tensor is kept alive, so that its id stays its own

    def get(self, tensor: Any) -> Any:
        """Return the values of a tensor, or None: not known, or it has been written to since."""
        _, second, version = self._held.get(id(tensor), (None, None, 0))
        return second if second is not None and version in (-1, tensor._version) else None

    def put(self, tensor: Any, second: Any, *, final: bool = False) -> None:
        """Set the values of a tensor; `final`: as long as it is not written to."""
        self._held[id(tensor)] = tensor, second, tensor._version if final else -1


class Twice(TorchFunctionMode):  # type: ignore[misc]
    """Does every operation twice: on tensors, and on their values in float64."""

    def __init__(self, moved: Seconds, parameters: Seconds) -> None:
        super().__init__()
        self._seconds = Seconds()
        self._moved = moved
        self._parameters = parameters

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__iter__:
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args))
        given, kwargs = [*args, *(kwargs or {}).values()], kwargs or {}
        if not any(map(_carries, given)):
            return self._told(func(*args, **kwargs))
        seconds = _each(self.second, args), _each(self.second, kwargs)
        versions = [(x, x._version) for x in _tensors(given)]
        own, name = func(*_each(narrow, args), **_each(narrow, kwargs)), _name(func)
        if name in _DECIDE:
            own = _DECIDE[name](name, own, _each(self._shadow, args), kwargs)
        if factors.bits < 24 and name in _PRODUCTS:
            both, *rest = seconds
            seconds = ([*map(_rounded, both[:2]), *both[2:]], *rest)
        written = func == _SET_DATA or any(x._version != version for x, version in versions)
        if not written and not _has_floats(own):
            return own
        return self._paired(own, self._again(func, name, own, *seconds), name)

    def second(self, value: Value) -> Any:
        """Return a tensor or another argument in float64."""
        if isinstance(value, torch.Tensor):
            return self._second(value) if value.is_floating_point() else value
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        return _WIDE_TYPES.get(value, value) if isinstance(value, str | type) else wide(value)

    def outcome(self, value: Value) -> Value:
        """Return a part of the result with its second value."""
        own = comparable(value)
        if own is value or own.dtype.kind != "f":
            return own
        return Pair(own, self._second(value).detach().numpy())

    def _second(self, x: Any) -> Any:
        found = self._seconds.get(x)
        if found is None:
            found = self._moved.get(x)
            if found is None:
                found = self._parameters.get(x)
            if found is None:
                found = x.detach().to(torch.float64, copy=True)
                if isinstance(x, torch.nn.Parameter):
                    self._parameters.put(x, found, final=True)
            self._told(x)
            self._seconds.put(x, found)
        return found

    def _shadow(self, value: Value) -> Any:
        """Return a tensor as an array that has a second value."""
        if not isinstance(value, torch.Tensor):
            return value
        made: Any = value.detach().numpy().view(ShadowArray)
        made._wide = self._second(value).detach().numpy() if value.is_floating_point() else None
        return made

    def _told(self, own: Value) -> Any:
        """Note whether there are values of float32, and return the result."""
        if isinstance(own, torch.Tensor) and own.dtype == torch.float32:
            current.run.single = True
        return own

    def _again(self, func: Any, name: str, own: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Do an operation in float64."""
        if isinstance(own, _Whole):
            return own.second
        if name in _CASTS:
            return args[0].double()
        if name == "requires_grad_":
            return args[0]
        if isinstance(own, tuple) and hasattr(own, "indices"):  # of `max`, `sort`: the same elements
            return _elements(name, own.indices, args, kwargs), own.indices
        out = func(*args, **{**kwargs, "dtype": torch.float64} if name in _FROM_DATA else kwargs)
        anchors = current.run.anchors
        return anchors.scaled(out, 0.0) if anchors is not None and (name in _CONSTANT or func == _DATA) else out

    def _paired(self, own: Any, second: Any, name: str) -> Any:
        """Return a result whose floats know their second values."""
        if isinstance(own, _Whole):
            own = own.own
        if isinstance(own, torch.Tensor):
            if own.is_floating_point():
                self._told(own)
                self._seconds.put(own, second.double())
        elif isinstance(own, np.ndarray):
            if name == "numpy" and own.dtype.kind == "f":
                own = own.view(ShadowArray)
                own._wide = second
        elif isinstance(own, float):
            return with_second(Number, own, float(second)) if name in ("item", "tolist") else own
        elif isinstance(own, tuple | list):
            made = [self._paired(x, y, name) for x, y in zip(own, second, strict=True)]
            return made if isinstance(own, list) else own
        return own


_DATA, _SET_DATA = torch.Tensor.data.__get__, torch.Tensor.data.__set__
_CASTS = frozenset(("float", "half", "bfloat16", "double"))
_FROM_DATA = frozenset(("tensor", "as_tensor", "new_tensor"))
_CONSTANT = frozenset(("detach", "item", "tolist", "numpy"))  # of which there is no gradient
_WIDE_TYPES: dict[Any, Any] = {
    "torch.FloatTensor": "torch.DoubleTensor", torch.FloatTensor: torch.DoubleTensor,
}  # fmt: skip


def _name(func: Any) -> str:
    name: str = getattr(func, "__name__", "")
    return name[2:-2] if name.startswith("__") else name


def _each(f: Callable[[Any], Any], value: Any) -> Any:
    """Return a structure of arguments with `f` of each."""
    if isinstance(value, dict):
        return {k: _each(f, v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_each(f, v) for v in value])
    return f(value)


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    for v in values:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, list | tuple):
            yield from _tensors(v)


def _carries(value: Value) -> bool:
    """Whether an argument has or may have a second value."""
    if isinstance(value, torch.Tensor):
        return bool(value.is_floating_point())
    if isinstance(value, list | tuple):
        return any(map(_carries, value))
    return type(value) in (ShadowArray, Number)


def _has_floats(value: Value) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value.is_floating_point())
    if isinstance(value, list | tuple):
        return any(map(_has_floats, value))
    return isinstance(value, float | _Whole) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _elements(name: str, indices: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements of a tensor that `max`, `sort` and the like found along an axis."""
    x, place = args[0] if args else kwargs["input"], 2 if name in ("topk", "kthvalue") else 1
    dim = kwargs.get("dim", args[place] if len(args) > place else -1)
    if indices.dim() == x.dim():
        return x.gather(dim, indices)
    return x.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


# ---- decisions


@dataclass(frozen=True, slots=True)
class _Whole:
    """A rounded tensor, with its second values."""

    own: Any
    second: Any


def _compare(name: str, own: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(own, torch.Tensor):
        return own
    return _as(own, apply(_COMPARED[name], tuple(args), {}))


def _best(name: str, own: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    find = np.argmax if name.endswith("max") else np.argmin
    given = dict(zip(("input", "dim", "keepdim"), args, strict=False)) | dict(kwargs)
    x, dim = given["input"], given.get("dim")
    if not np.size(x) or not (dim is None or isinstance(dim, int)):
        return own
    if not name.startswith("arg"):
        if isinstance(own, torch.Tensor):  # the largest of all, or of two
            return own
        indices = _as(own.indices, apply(find, (x,), {"axis": dim}))
        if indices is own.indices:
            return own
        return type(own)((_elements(name, indices, [torch.from_numpy(narrow(x)), dim], {}), indices))
    return _as(own, apply(find, (x,), {"axis": dim}))


def _whole(name: str, own: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if len(args) != 1 or kwargs or not isinstance(args[0], ShadowArray):
        return own
    found = apply(_ROUNDED[name], tuple(args), {})
    rounded = _as(own, found)
    return _Whole(rounded, torch.from_numpy(np.array(wide(found)))) if own.is_floating_point() else rounded


def _as(own: Any, found: Any) -> Any:
    """Return a result as a tensor like `own`; `own` itself if they are equal."""
    made = torch.from_numpy(np.array(narrow(found))).reshape(own.shape).to(own.dtype)
    return own if torch.equal(made, own) else made


_COMPARED: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "not_equal": np.not_equal,
}  # fmt: skip
_ROUNDED: dict[str, Any] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "fix": np.trunc, "round": np.round, "sign": np.sign,
    "int": np.trunc, "long": np.trunc,
}  # fmt: skip
_DECIDE: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_COMPARED, _compare),
    **dict.fromkeys(("argmax", "argmin", "max", "min"), _best),
    **dict.fromkeys(_ROUNDED, _whole),
}
