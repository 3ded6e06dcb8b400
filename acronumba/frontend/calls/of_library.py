"""Calls of Python's library: functions replaced by compiled ones, partial functions, `callable`."""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from acronumba.data.shared import describe_value, leaves_of
from acronumba.frontend.attributes import attribute
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_foreign_class, runtime_class
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comprehensions import to_list
from acronumba.frontend.conditions import kind_of
from acronumba.frontend.handlers import CALLS, handles
from acronumba.frontend.kinds.functions import Partial
from acronumba.frontend.kinds.iterators import Cycle, Range, Stream
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.itertools import count_by
from acronumba.frontend.source import changed
from acronumba.frontend.subscripts import get_item
from acronumba.ir.types import FLOAT, StructT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@row("start step", itertools.count, whole=True)
def _count(w: Walker, a: Args) -> Val:
    start, step = a["start"], a["step"]
    if not isinstance(start, Num) or not isinstance(step, Num) or FLOAT in (start.type, step.type):
        return w.call(w.constant(count_by), (start, step), {})
    start, step = w.read(w.as_int(start)), w.read(w.as_int(step))
    w.check(w.scalar("ne", step, number(0)), "ValueError", "itertools.count with a step of 0, in a batch")
    far = w.select(w.scalar("gt", step, number(0)), number(2**62), number(-(2**62)))
    return Stream(Range(start, far, step), advances=True)


@row("iterable", itertools.cycle, whole=True)
def _cycle(w: Walker, a: Args) -> Val:
    name = ast.unparse(a.where["iterable"] or ast.Constant(0))
    if name in changed(w.frame.func.source.body):
        raise w.reject("ACR202", seen=f"itertools.cycle({name}), a list that changes", rewrite=f"cycle(list({name}))")
    return Stream(Cycle(to_list(w, w.call(w.constant(list), (a["iterable"],), {}))), advances=True)


# ---- partial functions


def make_partial(w: Walker, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """`functools.partial(f, ...)`."""
    if not args:
        raise w.reject("ACR203", seen="partial without a function")
    return Partial(args[0], tuple(args[1:]), tuple(kwargs), tuple(kwargs.values()))


def make_getter(w: Walker, kind: Any, args: Sequence[Val]) -> Val:
    """`operator.itemgetter(...)`, `operator.attrgetter(...)`."""
    if not args:
        raise w.reject("ACR203", seen=f"{kind.__name__} without arguments")
    return Partial(w.constant(kind), tuple(args))


def make_adapted(w: Walker, cls: Any, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Make an object of a class of another library (`data.classes.Adapter`), such as `nn.Softmax(dim=1)`.

    It is made when the model is compiled, if its arguments are constants and it has no arrays.
    """
    given = [w.static(v) for v in (*args, *kwargs.values())]
    rewrite = "make it before the call, in the __init__ of the module"
    seen = f"{cls.__name__}(...), made in the call"
    if NOT_CONST in given or not is_foreign_class(cls):
        raise w.reject("ACR202", seen=seen, rewrite=rewrite)
    try:
        made = cls(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
    except (TypeError, ValueError) as error:
        raise w.reject("ACR203", seen=str(error)) from None
    shared = describe_value(f"{cls.__name__}()", made)
    if next(iter(leaves_of(shared)), None) is not None:
        raise w.reject("ACR202", seen=seen, rewrite=rewrite)
    return w.shared_value(shared)


@handles(CALLS, Partial)
def _call_partial(w: Walker, func: Partial, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    kind = getattr(func.func, "value", None)
    if kind not in (operator.itemgetter, operator.attrgetter):
        named = dict(zip(func.names, func.named, strict=True))
        return w.call(func.func, (*func.args, *args), {**named, **kwargs})
    if len(args) != 1 or kwargs:
        raise w.reject("ACR203", seen=f"{len(args)} arguments for what {kind.__name__} gives")

    def one(what: Val) -> Val:
        if kind is operator.itemgetter:
            return get_item(w, args[0], what)
        out: Val = args[0]
        names = w.static(what)
        if not isinstance(names, str):
            raise w.reject("ACR308", seen=f"attrgetter of {w.describe(what)}")
        for name in names.split("."):
            out = w.each(out, partial(_read, w, name))
        return out

    got = tuple(map(one, func.args))
    return got[0] if len(got) == 1 else TupleVal(got)


def _read(w: Walker, name: str, val: Val) -> Val:
    out: Val = attribute(w, val, name)
    return out


# ---- functions that are chosen by the class of their first argument


def is_generic(value: object) -> TypeGuard[types.FunctionType]:
    """Whether a value is a function under `functools.singledispatch`."""
    return isinstance(value, types.FunctionType) and value.__code__ is _WRAPPER


_WRAPPER = getattr(functools.singledispatch(id), "__code__")  # noqa: B009


def dispatched(w: Walker, generic: types.FunctionType, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call the function that is registered for the class of the first argument."""
    known = args[0].object_classes()
    kind = StructT(known[0]) if len(known) == 1 else kind_of(w, args[0])
    if kind is None:
        raise w.reject("ACR308", seen=f"{generic.__name__}({w.describe(args[0])})", rewrite="isinstance(x, C)")
    cls = runtime_class(kind)
    for base in cls.__mro__:
        w.source_guard.item(vars(generic)["registry"], base)
    return w.call(w.constant(vars(generic)["dispatch"](cls)), args, kwargs)


# ---- queries of values


@row("x", callable, whole=True)
def _callable(w: Walker, a: Args) -> Val:
    def one(val: Val) -> Val:
        if classes := val.object_classes():
            found = {any("__call__" in vars(base) for base in c.__mro__) for c in classes}
            if len(found) > 1:
                raise w.reject("ACR117", seen=f"callable() of {w.describe(val)}")
            return number(found.pop())
        return number(val.is_choosable)

    return w.each(a["x"], one)
