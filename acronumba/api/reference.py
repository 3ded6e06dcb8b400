"""The float64 run of a function beside its plain call.

In: the user's function and the arguments of an instance. Out: an `Outcome`: the result of the function, with a second
value in float64 beside each float (`shadow`). No compiled code takes part: the user's own code runs.

So that no operation loses the second value, functions are copied, with other globals: `float` makes a `Number`, and
NumPy, `math` and the user's classes are replaced by copies, too. No source text is edited.
"""

from __future__ import annotations

import abc
import builtins
import enum
import functools
import math
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import nn, random
from acronumba.api.meter import Range
from acronumba.api.shadow import STAND_INS, Anchors, Number, ShadowArray, ShadowRun, apply, current, with_second
from acronumba.data.classes import is_record
from acronumba.foreign import as_numpy, is_foreign, is_of_numba, source_function
from acronumba.frontend.library.numba import at_once, by_element, by_rows, no_items, no_keys, python_of_numba
from acronumba.frontend.whole_arrays import whole_function
from acronumba.generics import Value
from acronumba.operations import Operation, run_definition

SHARED = -1  # instead of an instance number

if TYPE_CHECKING:
    from acronumba.api.plain import PlainCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a run."""

    result: Value  # result of the function, with shadow arrays; see `wide`
    error: Exception | None  # exception of the function
    choices: int  # number of decisions between near values
    nearest: float  # smallest distance in such a decision, relative to the values' magnitude
    single: bool  # whether there were values of float32


class Reference:
    """A function with its shared values, ready to be run along the plain call.

    Parameters
    ----------
    call : PlainCall
        The plain call of the function.
    """

    def __init__(self, call: PlainCall) -> None:
        self._copies = _Copies()
        self._own: dict[int, _Copies] = {}  # by the number of the instance
        shared = {name: self._copies.of(value) for name, value in call.shared.items()}
        outer = call.outer and replace(call.outer, values=tuple(map(self._copies.of, call.outer.values)))
        self._call = replace(call, fn=self._copies.of(call.fn), shared=shared, outer=outer)

    def move(self, value: Value, second: Value, number: int = SHARED) -> None:
        """Replace the second value of an array or NumPy scalar, which is shared or of an instance."""
        made = self._of(number).of(value)
        if isinstance(made, ShadowArray):
            made._wide = second
        else:
            made.wide = np.float64(second)

    def run(
        self,
        instance: Sequence[Value],
        flips: Collection[int] = (),
        *,
        steps: int | None = None,
        anchors: Anchors | None = None,
        number: int = SHARED,
    ) -> Outcome:
        """Run an instance, with at most `steps` steps if given, and with its `anchors`.

        `number` is that of the instance: objects in it are copied apart from those of shared values and of other
        instances, even if they are the same object.

        Exceptions of the function are in the `Outcome`; see also `PlainCall.run`.
        """
        call = self._call if steps is None else replace(self._call, steps=steps)
        args = [self._of(number).of(value) for value in instance]
        before = current.run
        current.run = run = ShadowRun(flips, anchors)
        if anchors is not None:
            anchors.begin()
        result, error = None, None
        try:
            result = call.run(args)
        except Exception as raised:
            error = raised
            error.__traceback__ = None
        finally:
            current.run = before
        return Outcome(result=result, error=error, choices=run.choices, nearest=run.nearest, single=run.single)

    def _of(self, number: int) -> _Copies:
        return self._copies if number == SHARED else self._own.setdefault(number, _Copies(self._copies))


class _Copies:
    """Copies of values of the plain call, with shadow arrays: one copy of each object.

    Parameters
    ----------
    code : optional
        Another table, whose copies of functions, classes and modules are reused.
    """

    def __init__(self, code: _Copies | None = None) -> None:
        self._code = code
        self._made: dict[int, Value] = {}  # by `id`
        self._kept: list[Value] = []  # the copied originals, kept alive so that ids stay unique
        self._globals: dict[int, dict[str, Value]] = {}
        inside = dict(vars(builtins), float=Number, sum=_calls(sum), range=Range)
        self._builtins = inside

    def of(self, value: Value) -> Value:
        """Return the deep copy of a value."""
        stack = [value]
        later: list[tuple[Value, Value]] = []  # containers, and their empty copies
        while stack:
            v = stack[-1]
            if id(v) in self._made or _is_simple(v):
                stack.pop()
                continue
            if isinstance(v, tuple) and (type(v) is tuple or hasattr(v, "_fields")):
                rest = [x for x in v if id(x) not in self._made and not _is_simple(x)]
                if rest:
                    stack += rest
                    continue
                cls = tuple if type(v) is tuple else self._class(type(v))
                self._keep(v, tuple.__new__(cls, map(self._known, v)))
            elif type(v) in (list, dict, set) or self._is_object(v):
                shell = type(v)() if type(v) in (list, dict, set) else object.__new__(self._class(type(v)))
                self._keep(v, shell)
                later.append((v, shell))
                stack.pop()
                stack += v if type(v) in (list, set) else v.values() if type(v) is dict else _state(v).values()
                continue
            else:
                self._keep(v, self._leaf(v))
            stack.pop()
        for v, shell in later:
            self._fill(v, shell)
        return self._known(value)

    def _keep(self, value: Value, made: Value) -> Value:
        self._made[id(value)] = made
        self._kept.append(value)
        return made

    def _known(self, value: Value) -> Value:
        return value if _is_simple(value) else self._made[id(value)]

    def _is_object(self, v: Value) -> bool:
        if is_of_numba(v) or isinstance(v, Operation):
            return False
        return not isinstance(v, type) and type(v) not in STAND_INS and self._class(type(v)) is not type(v)

    def _fill(self, v: Value, shell: Value) -> None:
        if isinstance(v, list):
            shell += map(self._known, v)
        elif isinstance(v, dict):
            shell.update((k, self._known(x)) for k, x in v.items())
        elif isinstance(v, set):
            shell.update(map(self._known, v))
        else:
            for name, x in _state(v).items():
                object.__setattr__(shell, name, self._known(x))

    def _leaf(self, v: Value) -> Value:
        if is_of_numba(v):
            return self._of_numba(v)
        if isinstance(v, Operation):
            return functools.partial(self.of(run_definition), v, self.of(v.source))
        if isinstance(v, np.generic):
            return with_second(STAND_INS[type(v)], v, np.float64(v)) if type(v) in STAND_INS else v
        if type(v) is float:
            return with_second(Number, v, v)
        if isinstance(v, type):
            return STAND_INS.get(v) or self._class(v)
        if isinstance(v, np.ndarray) or (is_foreign(v) and not hasattr(v, "__array_function__")):
            array = as_numpy(v)
            return v if isinstance(array, str) or array.dtype.kind not in "fiub" else array.view(ShadowArray)
        if self._code is not None:
            return self._code.of(v)
        if getattr(type(v), "__acronumba_model__", False):
            return self.of(v.__wrapped__)
        if isinstance(v, types.FunctionType):
            if v in _AS_ONE or _is_of_numpy(v):
                return _calls(v)
            return self._function(v) if _is_code_of_users(v.__module__) else v
        if isinstance(v, types.MethodType):
            return types.MethodType(self.of(v.__func__), self.of(v.__self__))
        if isinstance(v, types.ModuleType):
            if v is math or v.__name__.partition(".")[0] == "numpy" or _is_code_of_users(v.__name__):
                return _Seen(v, self)
            return v
        return _calls(v) if _is_of_numpy(v) else v

    def _of_numba(self, v: Value) -> Value:
        """Return the copy of a function's source, or the function of Python for a function of Numba."""
        source = source_function(v)
        if source is not None:
            return self.of(source)
        stands_for = python_of_numba(v)
        if isinstance(stands_for, functools.partial):
            function, loops, *layout = stands_for.args
            if layout:
                return functools.partial(self.of(by_rows), self.of(function), loops, *layout)
            whole = whole_function(function)
            forms, how = ([function], by_element) if whole is None else ([function, whole], at_once)
            return functools.partial(self.of(how), *map(self.of, forms), loops)
        if stands_for in (list, dict):
            made: Value = functools.partial(stands_for)
            made.empty_list, made.empty = no_items, no_keys
            return made
        return v if stands_for is None else self._builtins.get(stands_for.__name__, self.of(stands_for))

    def _function(self, fn: types.FunctionType) -> Any:
        scope = self._globals.setdefault(
            id(fn.__globals__), {"__builtins__": self._builtins, "__name__": fn.__module__}
        )
        self._kept.append(fn.__globals__)
        cells = tuple(types.CellType() for _ in fn.__closure__ or ())
        made = types.FunctionType(fn.__code__, scope, fn.__name__, None, cells or None)
        self._keep(fn, made)
        made.__qualname__, made.__dict__ = fn.__qualname__, dict(fn.__dict__)
        made.__defaults__ = fn.__defaults__ and tuple(map(self.of, fn.__defaults__))
        made.__kwdefaults__ = fn.__kwdefaults__ and {k: self.of(v) for k, v in fn.__kwdefaults__.items()}
        for cell, old in zip(cells, fn.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.of(old.cell_contents)
            except ValueError:
                continue  # nothing is assigned to it yet
        for name in _names(fn.__code__):
            if name in fn.__globals__ and name not in scope:
                scope[name] = self.of(fn.__globals__[name])
        return made

    def _class(self, cls: Any) -> Any:
        """Return a copy of a class with copied methods; classes of libraries, and unusual ones, stay unchanged."""
        if self._code is not None:
            return self._code._class(cls)
        if id(cls) in self._made:
            return self._made[id(cls)]
        odd = type(cls) not in (type, abc.ABCMeta) or issubclass(cls, BaseException | enum.Enum)
        odd = odd or (issubclass(cls, tuple) and not hasattr(cls, "_fields"))
        if type(cls) not in (type, abc.ABCMeta) and is_record(cls):  # of another library: a class of the same methods
            maker, bases, odd = type, (object,), not _is_code_of_users(cls.__module__)
        else:
            maker, bases = type(cls), cls.__bases__
        if odd or not _is_code_of_users(cls.__module__) or not all(map(self._can_be_base, bases)):
            return self._keep(cls, cls)
        own = {k: v for k, v in vars(cls).items() if not isinstance(v, _DESCRIPTORS)}
        code = {k: v for k, v in own.items() if isinstance(v, _CODE)}
        rest = {k: v for k, v in own.items() if k not in code and k not in ("__dict__", "__weakref__")}
        rest["__init_subclass__"] = classmethod(lambda made, **options: None)  # the user's has seen the class
        if maker is not type(cls):
            code = {
                k: v for k, v in code.items() if isinstance(v, types.FunctionType) and _is_code_of_users(v.__module__)
            }
            rest = {"__module__": cls.__module__}
        rest["__shadow_of__"] = cls
        made = self._keep(cls, maker(cls.__name__, tuple(map(self._class, bases)), rest))
        made.__qualname__ = cls.__qualname__
        for name, v in code.items():
            if isinstance(v, property):
                v = property(*(f and self.of(f) for f in (v.fget, v.fset, v.fdel)))
            elif isinstance(v, staticmethod | classmethod):
                v = type(v)(self.of(v.__func__))
            else:
                v = self.of(v)
            setattr(made, name, v)
        for name, v in rest.items():
            if isinstance(v, np.ndarray | np.generic | float):
                setattr(made, name, self.of(v))
        return made

    def _can_be_base(self, cls: type) -> bool:
        return cls in (object, tuple) or self._class(cls) is not cls or cls.__module__ in ("typing", "abc")


_CODE = (types.FunctionType, staticmethod, classmethod, property)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_AS_ONE: frozenset[Any] = frozenset(
    (nn.sigmoid, nn.erf, nn.scale_gradient, random.threefry)
)  # operations, though in Python
# Modules of acronumba that models call.
_OWN = (
    "acronumba.nn", "acronumba.random", "acronumba.zoo", "acronumba.bench", "acronumba.frontend.library.numba",
    "acronumba.operations",
)  # fmt: skip
_SIMPLE = (bool, int, str, bytes, complex, type(None), enum.Enum, np.dtype, types.CodeType)


def _is_simple(v: Value) -> bool:
    return isinstance(v, _SIMPLE)


def _is_code_of_users(module: str | None) -> bool:
    """Whether functions and classes of a module are copied: not those of libraries."""
    if module is None:
        return True
    root = module.partition(".")[0]
    if root == "acronumba":
        return module.startswith(_OWN)
    return root == "__main__" or (root not in sys.stdlib_module_names and root not in ("numpy", "builtins"))


def _is_of_numpy(v: Value) -> bool:
    """Whether it is a function of NumPy or of `math`."""
    module = getattr(v, "__module__", None) or ""
    return isinstance(v, np.ufunc) or (callable(v) and (module.partition(".")[0] == "numpy" or module == "math"))


def _calls(func: Any) -> Callable[..., Any]:
    """Return the function for shadow arrays."""

    def call(*args: Value, **kwargs: Value) -> Value:
        if func is sum and not isinstance(args[0], list | tuple):
            args = (list(args[0]), *args[1:])
        return apply(func, args, kwargs)

    return call


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a code object and its nested code objects look up."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _state(v: Value) -> dict[str, Value]:
    """Return the attributes of an object, from its `__dict__` and slots."""
    slots = (s for cls in type(v).__mro__ for s in _slots(cls))
    found = {name: getattr(v, name) for name in slots if hasattr(v, name)}
    return {**found, **getattr(v, "__dict__", {})}


def _slots(cls: type) -> Sequence[str]:
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return [n for n in names if n not in ("__dict__", "__weakref__")]


class _Seen:
    """A module as the copies see it."""

    def __init__(self, module: types.ModuleType, copies: _Copies) -> None:
        self._module = module
        self._copies = copies

    def __getattr__(self, name: str) -> Any:
        value = self._copies.of(getattr(self._module, name))
        self.__dict__[name] = value
        return value
