"""The decorators of the library: `implements`, `primitive` and `apart`.

Functions and classes of the library are written in the compiled language, as models are, and inlined where a model
calls the functions for which they stand. Facts known at compile time (types, axes, ranks, None) decide which branches
are compiled. A primitive has a Python definition and a rule, by which the compiler makes operations of its call.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import Handler, Rank0, Row, row, row_of
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.iterators import Stream
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

F = TypeVar("F", bound=Callable[..., Any])


def implements(
    *functions: Any, axis: str = "", choices: Mapping[str, Sequence[Any]] | None = None, writes: bool = False,
    iterator: bool = False, rearranges: bool = False
) -> Callable[[F], F]:  # fmt: skip
    """Register the decorated function as the code of functions, or of methods such as `list.index`.

    A call of a function of Python is bound to the signature of the decorated function; the result is an iterator if
    `iterator`. A function that `rearranges` items is called at compile time if all items are known.

    A call of a function of NumPy or SciPy is bound to its own signature. The parameters of the decorated function are
    honoured: by name, or by position if NumPy's function lacks the name. Arguments of a ufunc arrive in the dtypes in
    which NumPy computes, other arguments as the call gives them. An argument is rejected, with the caret under it, if
    its value is not in its `choices`, or if an axis is not an int. An `axis` of "flat" also allows None, "several"
    None and tuples, and "" None if that is NumPy's default. A function that `writes` gets arrays themselves, in place
    of their values. A function of a package that is optional is given by its name, "scipy.special.expit".
    """

    def register(f: F) -> F:
        def add(function: Any) -> None:
            if isinstance(function, np.ufunc) and function.signature is None:
                row("x y"[: 2 * function.nin - 1], function)(_of_ufunc(function, f))
            elif _is_of_arrays(function):
                row(_parameters(f), function, rank0="any", whole=writes)(_of_arrays(f, axis, choices or {}))
            else:
                handler = _of_python(f, function if rearranges else None, iterator)
                row(_parameters(f), function, rank0="any", whole=True, signature=f)(handler)

        for function in functions:
            if isinstance(function, str):
                LATER[function] = add
            else:
                add(function)
        return f

    return register


LATER: dict[str, Callable[[Any], None]] = {}  # how to add the row of a function, by its name in an optional package
_ADDED: set[str] = set()  # keys of `LATER` that have rows


def late_row(value: Any) -> Row | None:
    """Add rows for optional packages imported so far; return the row of a value, None if it has none."""
    for name, add in LATER.items():
        module, _, attribute = name.rpartition(".")
        if name not in _ADDED and module in sys.modules:
            _ADDED.add(name)
            if hasattr(sys.modules[module], attribute):
                add(getattr(sys.modules[module], attribute))
    return row_of(value)


APART: set[Callable[..., object]] = set()


def apart(f: F) -> F:
    """Register the decorated function as one that is not inlined. It must not raise."""
    APART.add(f)
    return f


def primitive(rule: Handler, whole: bool = False, rank0: Rank0 = "scalar") -> Callable[[F], F]:
    """Register the decorated function as a primitive: its calls are compiled by `rule`, and its code never is."""

    def register(f: F) -> F:
        row(_parameters(f), f, whole=whole, rank0=rank0)(rule)
        return f

    return register


def _parameters(f: Callable[..., Any]) -> str:
    """Return the names of all parameters of a function of the library."""
    parameters = inspect.signature(f).parameters.values()
    return " ".join(f"*{p.name}" if p.kind == p.VAR_POSITIONAL else p.name for p in parameters)


def _is_of_arrays(function: Any) -> bool:
    """Whether a function, method or method of a ufunc is one of NumPy or SciPy."""
    places = (function, getattr(function, "__objclass__", None), type(getattr(function, "__self__", None)))
    return any((getattr(p, "__module__", None) or "").split(".")[0] in ("numpy", "scipy") for p in places)


def _bound(f: Callable[..., Any], a: Args) -> tuple[list[Val], dict[str, Val]]:
    """Return bound arguments as the positional and the keyword arguments of a function of the library."""
    args: list[Val] = []
    named: dict[str, Val] = {}
    for name, p in inspect.signature(f).parameters.items():
        if p.kind == p.VAR_POSITIONAL:
            args += a.rest
        elif p.kind == p.VAR_KEYWORD:
            others = a[name]
            assert isinstance(others, DictVal)
            named |= zip(others.keys, others.items, strict=True)
        elif p.kind == p.KEYWORD_ONLY:
            named[name] = a[name]
        else:
            args.append(a[name])
    return args, named


# ---- functions of Python


def _of_python(f: Callable[..., Any], function: Any, iterator: bool) -> Handler:
    """Return the handler of a function of Python; `function` is called at compile time if all items are known."""

    def handler(w: Walker, a: Args) -> Val:
        for name, val in a.values.items():
            if name.startswith("*") and isinstance(val, TupleVal):
                a = a.replaced(name, TupleVal(tuple(v.origin for v in val.items)))
            else:
                a = a.replaced(name, val.origin)
        out = None if function is None else _of_known(w, function, f, a)
        if out is None and f in ROLLED and _is_unknown(w, a):
            return w.call(w.constant(ROLLED[f]), *_bound(f, a))
        if out is None:
            out = w.call(w.constant(f), *_bound(f, a))
        return Stream(out) if iterator and not out.is_iterator else out

    return handler


def _is_unknown(w: Walker, a: Args) -> bool:
    """Whether the last argument is None, or not known at compile time."""
    return w.static(list(a.values.values())[-1]) in (None, NOT_CONST)


# Code whose tuples have a length that is known at compile time, by its last parameter; code that yields tuples of any.
ROLLED: dict[Callable[..., object], Callable[..., object]] = {}
MOST = 257  # one more than the most items that are rearranged at compile time


def _of_known(w: Walker, function: Any, f: Callable[..., Any], a: Args) -> Val | None:
    """Return the result of a function that rearranges items as a tuple; None if some are unknown, or too many."""

    def known(val: Val) -> Any:
        items = None if isinstance(val, Tensor) or val.is_lazy else w.items_of(val)
        return w.static(val) if items is None else items

    args, named = _bound(f, a)
    parts: list[Any] = [known(v) for v in args]
    options: dict[str, Any] = {name: v if name == "fillvalue" else w.static(v) for name, v in named.items()}
    if any(v is NOT_CONST for v in (*parts, *options.values())):
        return None
    try:
        found = list(itertools.islice(function(*parts, **options), MOST))
    except (TypeError, ValueError) as error:
        raise w.reject("ACR203", seen=str(error)) from None
    if len(found) == MOST:
        return None
    return TupleVal(tuple(TupleVal(v) if isinstance(v, tuple) else v for v in found))


# ---- functions of NumPy and SciPy


def _of_ufunc(ufunc: np.ufunc, f: Callable[..., Any]) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        parts = list(map(w.ops.as_operand, a.values.values()))
        ins, out = w.ops.resolve(ufunc, parts)
        return w.call(w.constant(f), tuple(w.ops.operands(parts, ins, out)), {})

    return handler


def _of_arrays(f: Callable[..., Any], axis: str, choices: Mapping[str, Sequence[Any]]) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        for name, values in choices.items():
            a.choice(name, *values)
        if "axis" in a.given:
            _check_axis(w, a, axis)
        return w.call(w.constant(f), *_bound(f, a))

    return handler


# NumPy's names of the array that has the axis.
ARRAYS = ("a", "x", "x1", "m", "arr", "array", "ar", "y", "p")


def _check_axis(w: Walker, a: Args, kinds: str) -> None:
    """Reject an axis that `kinds` does not allow, or that the array does not have."""
    value = a.static("axis")
    if value is None and (kinds in ("flat", "several") or (not kinds and "axis" in a.optional)):
        return
    if isinstance(value, tuple) and kinds != "several":
        raise w.reject("ACR202", a.where["axis"], seen=f"several axes for {a.what}", rewrite="one axis")
    name = next((n for n in ARRAYS if not isinstance(a.values.get(n, NoneVal()), NoneVal)), "")
    if not name:
        a.whole("axis")
        return
    with w.at_node(a.where[name]):
        rank = w.ops.as_tensor(a.values[name]).type.rank
    if rank and kinds == "several":
        a.axes("axis", rank)
    elif rank:
        a.axis("axis", rank)


# ---- rejections


def _reject(w: Walker, a: Args) -> Val:
    raise w.reject("ACR202", seen=a.static("what"), rewrite=a.static("instead"))


@primitive(rule=_reject)
def rejected(what, instead):
    """Reject the call that is compiled: library code calls this for arguments that it does not support."""
    raise NotImplementedError(what, instead)
