"""Calls of functions that are not the user's own, by tables of handlers; constructors; methods of built-in types."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import operator
import pkgutil
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.data.classes import CLASS_VARIABLE, adapter_of, field_names, is_written, own_constructor
from acronumba.foreign import Library, is_of_numba
from acronumba.frontend import calls, library
from acronumba.frontend.advice import unknown
from acronumba.frontend.attributes import attribute, not_none
from acronumba.frontend.calls.arguments import Args, bind, place_of
from acronumba.frontend.calls.of_arrays import as_dtype
from acronumba.frontend.calls.of_library import make_adapted, make_getter, make_partial
from acronumba.frontend.calls.of_numba import call_numba
from acronumba.frontend.calls.of_operations import row_of_operation
from acronumba.frontend.calls.of_settings import SETTINGS, change_setting
from acronumba.frontend.calls.of_views import array_view, function_view
from acronumba.frontend.calls.signatures import arity, has_init, signature_of
from acronumba.frontend.calls.tables import Row, row_of
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import METHODS, handles
from acronumba.frontend.impossible import impossible, not_taken
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.errors import conversion
from acronumba.frontend.kinds.functions import Static, method_of
from acronumba.frontend.kinds.iterators import Starred
from acronumba.frontend.kinds.numbers import EnumVal, NoneVal, members_of, number
from acronumba.frontend.kinds.objects import ObjectValue
from acronumba.frontend.kinds.torch_tensors import unfollowed
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.library.decorators import late_row
from acronumba.frontend.library.numpy_shapes import vectorize, vectorized
from acronumba.frontend.lists import new_list
from acronumba.frontend.made import made_by_fields, made_by_init, set_attribute, super_of
from acronumba.frontend.names import alias, check_part, default_value
from acronumba.frontend.raising import is_plain_dataclass, made_exception, set_arguments
from acronumba.frontend.source import MUTATORS
from acronumba.frontend.torch_writes import stop_made
from acronumba.frontend.writing import assign_item
from acronumba.ir.types import BoolT, FloatT, IntT, TorchT, type_text
from acronumba.operations import Operation

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

for _package in (calls, library):  # importing their files fills `tables.ROWS`
    for _file in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_file.name)


def call_static(w: Walker, value: Any, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Call a function, class or other object that is known at compile time."""
    if any(value is c for c in (np.matrix, np.asmatrix, np.bmat)):
        seen = _name_of(w, f"np.{value.__name__}")
        raise w.reject("ACR202", seen=seen, rewrite="np.array(x), with `@` for matrix products")
    if is_of_numba(value):
        return call_numba(w, value, args, kwargs)
    if isinstance(value, Operation):
        return call_row(w, row_of_operation(value), args, kwargs)
    home = str(getattr(value, "__module__", ""))
    if home.startswith("numpy.ma") or home == "datetime":
        rewrite = "np.where(mask, x, 0), or `where=mask` of sums" if home != "datetime" else conversion("of class date")
        raise w.reject("ACR201", seen=_name_of(w, f"{home}.{value}"), rewrite=rewrite)
    if any(value is setting for setting in SETTINGS):
        return change_setting(w, value, args, kwargs)
    star = args[-1] if args else None
    binds = has_init(value) or ((known := row_of(value)) and known.honoured == "self *args kwargs")
    if isinstance(star, Starred) and not binds:
        count = arity(value)
        if count is None:
            raise w.reject("ACR203", seen=star.describe(w), rewrite="give the arguments one by one: f(xs[0], xs[1])")
        args = [*args[:-1], *star.spread(w, [None] * (count - len(args) + 1), False, _name_of(w, value))]
    if isinstance(value, type):
        return construct(w, value, args, kwargs)
    if isinstance(value, np.vectorize):
        return vectorized_call(w, value, args, kwargs)
    if isinstance(value, types.MethodDescriptorType) and value.__objclass__ is str and args:
        return w.call(method_of(args[0], value.__name__), args[1:], kwargs)
    view = function_view(w, value, args, kwargs)
    if view is not None:
        return view
    known = row_of(value) or late_row(value)
    if known is not None:
        return call_row(w, known, args, kwargs)
    if isinstance(value, np.ufunc) or (getattr(value, "__module__", "") or "").split(".")[0] in ("numpy", "scipy"):
        raise w.reject("ACR202", seen=_name_of(w, f"np.{getattr(value, '__name__', value)}"))
    if value is object.__setattr__ and len(args) == 3 and isinstance(name := w.static(args[1]), str):
        set_attribute(w, args[0], name, args[2])
        return NoneVal()
    if value is object.__init__:
        return NoneVal()
    if value is BaseException.__init__ and args and not kwargs:
        set_arguments(w, args[0], args[1:])
        return NoneVal()
    theirs = Library.name_of(value)
    if theirs:
        raise unknown(w, "ACR202", _name_of(w, theirs), theirs.rpartition(".")[2])
    module = getattr(value, "__module__", None)
    if module == "dataclasses" and getattr(value, "__name__", "") == "replace":
        return replace_fields(w, args, kwargs)
    name = getattr(value, "__qualname__", None) or repr(value)
    code = "ACR211" if module and "random" in str(module) and "numpy" in str(module) else "ACR201"
    if isinstance(value, functools.partial):
        func = w.constant(value.func)
        raise w.reject("ACR210", seen=f"functools.partial of {w.describe(func)}", rewrite="a lambda")
    raise w.reject(code, seen=_name_of(w, f"{module + '.' if module and module != 'builtins' else ''}{name}"))


def vectorized_call(w: Walker, value: np.vectorize, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Call a function decorated with `np.vectorize`."""
    if value.otypes or value.excluded or value.signature or kwargs:
        raise w.reject(
            "ACR202", seen=_name_of(w, "np.vectorize") + ", with options", rewrite="a loop over the elements"
        )
    return w.call(w.constant(vectorized), (w.constant(value.pyfunc), NoneVal(), *args), {})


def _name_of(w: Walker, default: str) -> str:
    """Return the source text of the called expression; `default` if the current node is no call."""
    return ast.unparse(w.here.func) if isinstance(w.here, ast.Call) else default


def call_row(w: Walker, row: Row, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a function or method by the handler of its row."""

    def called(*values: Constant) -> Constant:
        return row.function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    around, w.asked = w.asked, [*w.asked, (called, (*args, *kwargs.values()))]
    block, blocks = w.block, len(w.code.blocks)
    try:
        val = _call_row(w, row, args, kwargs)
    except Rejected as error:
        alone = (block, blocks) == (w.block, len(w.code.blocks))  # not in the middle of a loop, say
        wrong = alone and error.error is not None and error.error.code in ("ACR203", "ACR301")
        if wrong and (text := not_taken(row.function, len(args), kwargs)):
            raise w.fails("TypeError", error, text) from None
        raise impossible(w, called, (), error) if wrong else error from None
    finally:
        w.asked = around
    return val if w.following or w.block is None else unfollowed(w, stop_made(w, val, args))


def _call_row(w: Walker, row: Row, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    if row.whole or row.views:
        return distribute(w, row, Args(w, row, args, kwargs))
    a = Args(w, row, list(map(w.whole, args)), {k: w.whole(v) for k, v in kwargs.items()})
    a.into = kwargs.get("out")
    return distribute(w, row, a)


def distribute(w: Walker, row: Row, a: Args) -> Val:
    """Call the handler of a row once per alternative of each union among the arguments; only once if it is `whole`."""
    if row.whole:
        return _as_python(w, row, a, row.handler(w, a))
    found = _first_choice(a)
    if found is None:
        return _as_python(w, row, a, row.handler(w, a))
    name, which, with_case = found

    def one(case: Val) -> Val:
        made = distribute(w, row, with_case(case))
        return w.made(made) if w.block is not None and isinstance(w.here, ast.expr) else made

    return w.each(which if name in a.optional else not_none(w, which), one, itself=row.views)


def _first_choice(a: Args) -> tuple[str, UnionVal, Callable[[Val], Args]] | None:
    """Return the first union among the arguments: its parameter, itself, a function that substitutes an alternative."""
    for name, val in a.values.items():
        items = val.items if name.startswith("*") and isinstance(val, TupleVal) else (val,)
        for k, item in enumerate(items):
            choice = _choice(item)
            if choice is not None:
                which, whole = choice
                return name, which, functools.partial(_with_case, a, name, k, whole)
    return None


def _with_case(a: Args, name: str, k: int, whole: Callable[[Val], Val], case: Val) -> Args:
    """Return the arguments with an alternative in place of a union; `k` is its index in the `*` parameter."""
    if not name.startswith("*"):
        return a.replaced(name, whole(case))
    return a.replaced(name, TupleVal((*a.rest[:k], whole(case), *a.rest[k + 1 :])))


_MOST_MIXED = 3  # numbers with several possible dtypes in one sequence: each at least doubles the code


def _choice(item: Val) -> tuple[UnionVal, Callable[[Val], Val]] | None:
    """Return the union that an argument is, or holds, and a function that puts an alternative in its place.

    In a sequence only numbers with several possible dtypes count: they determine the dtype of NumPy's result.
    """
    if isinstance(item, UnionVal):
        return item, lambda case: case
    items = item.children() if item.python_class in (list, tuple) and _mixed(item) <= _MOST_MIXED else ()
    for j, v in enumerate(items):
        inner = _choice(v) if not isinstance(v, UnionVal) or _mixed(v) else None
        if inner is not None:
            which, part = inner
            return which, lambda case, j=j, part=part: item.with_children([*items[:j], part(case), *items[j + 1 :]])
    return None


def _mixed(item: Val) -> int:
    """Return how many numbers of a sequence, nested ones included, have several possible dtypes."""
    if isinstance(item, UnionVal):
        return int(len(_dtypes(item)) > 1)
    return sum(map(_mixed, item.children())) if item.python_class in (list, tuple) else 0


def _dtypes(val: UnionVal) -> set[str]:
    """Return the dtypes of the alternatives of a union; the empty set if one of them has no dtype.

    With tensors of PyTorch among them, the types of all: rank counts in PyTorch's promotion, too.
    """
    if any(isinstance(t, TorchT) for t in val.possible):
        return set(map(type_text, val.possible))
    plain: dict[type, str] = {IntT: "int64", FloatT: "float64", BoolT: "bool"}
    found = {getattr(t, "dtype", plain.get(type(t), "")) for t in val.possible}
    return set() if "" in found else found


def _as_python(w: Walker, row: Row, a: Args, result: Val) -> Val:
    """Mark a result without axes as an array or a NumPy scalar, as `Row.rank0` says."""
    if not isinstance(result, Tensor) or result.type.rank or row.rank0 == "any":
        return result
    first = next(iter(a.values.values()))
    kind = row.rank0
    if kind == "first" and isinstance(first, Tensor) and not first.type.rank:
        return replace(result, array0=first.array0) if result is not first else result
    if kind == "scalar":
        return w.ops.as_scalar(result)
    if result.array0 is not None and result.array0.const is True:
        return result
    # With a `base` it is a view of an array with axes; else it is a new array.
    return replace(result, array0=number(True)) if result.base is not None else w.ops.as_array(result)


def construct(w: Walker, cls: type, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Call a class: a conversion, a dtype, a dataclass or NamedTuple."""
    known = row_of(cls)
    if known is not None:
        return call_row(w, known, args, kwargs)
    if cls is np.vectorize:
        return w.call(w.constant(vectorize), args, kwargs)
    if cls is functools.partial:
        return make_partial(w, args, kwargs)
    if cls in (operator.itemgetter, operator.attrgetter):
        return make_getter(w, cls, args)
    if issubclass(cls, np.generic):

        def scalar(w: Walker, a: Args) -> Val:
            return as_dtype(w, a["x"], w.ops.dtype_name(cls))

        return call_row(
            w, Row(function=cls, signature=cls, what=cls.__name__, honoured="x", handler=scalar), args, kwargs
        )
    if issubclass(cls, enum.Enum):
        given = _arguments(w, cls.__name__, inspect.Signature([_named("value")]), args, kwargs)
        value = w.static(given["value"])
        if value is NOT_CONST and all(type(m.value) is int for m in cls):
            return enum_of(w, cls, given["value"])
        if value is NOT_CONST:
            raise w.reject("ACR308", seen=f"{cls.__name__} of a run-time value")
        try:
            return w.constant(cls(value))
        except ValueError as error:
            w.fail("ValueError", str(error))
            raise Dead from None
    if issubclass(cls, np.dtype):
        given = _arguments(w, "dtype", inspect.Signature([_named("dtype")]), args, kwargs)
        value = w.static(given["dtype"])
        try:
            return Static(np.dtype(value))
        except TypeError:  # not a constant, or no dtype
            raise w.reject("ACR202", seen=f"np.dtype of {w.describe(given['dtype'])}") from None
    if issubclass(cls, BaseException) and not is_plain_dataclass(cls):
        return made_exception(w, cls, args, kwargs)
    if dataclasses.is_dataclass(cls):
        return _dataclass(w, cls, args, kwargs)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(w, cls, args, kwargs)
    if cls is super:
        return super_of(w, args)
    if adapter_of(cls) is not None:
        return make_adapted(w, cls, args, kwargs)
    return made_by_init(w, cls, args, kwargs)


def enum_of(w: Walker, cls: type[enum.Enum], val: Val) -> Val:
    """Return the member of an enum whose value is a run-time int."""
    value = w.read(w.as_int(host_value(w, val, f"{cls.__name__}()", index=True)))
    out = number(-1)
    for k, member in enumerate(members_of(cls)):
        out = w.select(w.scalar("eq", value, number(member.value)), number(k), out)
    w.check(w.scalar("ge", out, number(0)), "ValueError", f"{{0}} is not a valid {cls.__name__}", (value,))
    return EnumVal(cls, var=w.word(out))


def _dataclass(w: Walker, cls: Any, args: list[Val], kwargs: dict[str, Val]) -> Val:
    w.source_guard.layout(cls)
    for name in ("__init__", "__new__", "__setattr__", "__post_init__"):
        w.source_guard.attribute(cls, name)
    own = own_constructor(cls)
    if own == "__init__" and isinstance(cls.__init__, types.FunctionType) and is_written(cls.__init__):
        return made_by_init(w, cls, args, kwargs)
    if own and own != "__post_init__":
        rewrite = f"compute the fields first, and pass them to a class without `{own}`"
        raise w.reject("ACR210", seen=f"{cls.__name__} with a user-defined `{own}`", rewrite=rewrite)
    given = [f for f in cls.__dataclass_fields__.values() if f.init and f._field_type is not CLASS_VARIABLE]
    positional = [f.name for f in given if not f.kw_only]
    out = _bind_fields(w, cls, positional, [f.name for f in given], args, kwargs)
    fields = [f for f in cls.__dataclass_fields__.values() if f._field_type is not CLASS_VARIABLE]
    for f in fields:
        if f.name in out:
            continue
        if f.default is not dataclasses.MISSING:
            out[f.name] = default_value(w, f.default, f, "default", f"{cls.__name__}({f.name})")
        elif f.default_factory is not dataclasses.MISSING:
            factory = f.default_factory
            out[f.name] = new_list(w, ()) if factory is list else w.call(Static(factory), (), {})
        elif f.init:
            raise w.reject("ACR203", seen=f"{cls.__name__} without {f.name}")
    names = tuple(f.name for f in dataclasses.fields(cls) if f.name in out)
    if not own and cls not in w.facts.changing and len(names) == len(dataclasses.fields(cls)):
        return ObjectValue(cls, names, tuple(out[n] for n in names))
    rest = tuple(out[f.name] for f in fields if f.name not in names and f.name in out) if own else None
    return made_by_fields(w, cls, {n: out[n] for n in names}, rest)


def _named_tuple(w: Walker, cls: type, args: list[Val], kwargs: dict[str, Val]) -> Val:
    w.source_guard.layout(cls)
    _only_fields(w, cls)
    names = field_names(cls)
    out = _bind_fields(w, cls, list(names), list(names), args, kwargs)
    defaults = getattr(cls, "_field_defaults", {})
    for name, value in defaults.items():
        if name not in out:
            out[name] = default_value(w, value, defaults, name, f"{cls.__name__}({name})")
    missing = [n for n in names if n not in out]
    if missing:
        raise w.reject("ACR203", seen=f"{cls.__name__} without {', '.join(missing)}")
    return ObjectValue(cls, names, tuple(out[n] for n in names))


def _named(name: str, kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD) -> inspect.Parameter:
    return inspect.Parameter(name, kind)


def _arguments(
    w: Walker, what: str, signature: inspect.Signature, args: list[Val], kwargs: dict[str, Val]
) -> dict[str, Val]:
    """Bind a call to a signature; return the arguments that were given, by name."""
    values, _ = bind(w, what, signature.parameters, args, kwargs)
    for name, p in signature.parameters.items():
        if name not in values and p.default is inspect.Parameter.empty:
            raise w.reject("ACR203", seen=f"{what} without {name}")
    return values


def _only_fields(w: Walker, cls: type) -> None:
    """Reject a class whose constructor does more than store its fields."""
    for name in ("__init__", "__new__", "__setattr__", "__post_init__"):
        w.source_guard.attribute(cls, name)
    if own := own_constructor(cls):
        rewrite = f"compute the fields first, and pass them to a class without `{own}`"
        raise w.reject("ACR210", seen=f"{cls.__name__} with a user-defined `{own}`", rewrite=rewrite)


def _bind_fields(
    w: Walker, cls: type, positional: list[str], names: list[str], args: list[Val], kwargs: dict[str, Val]
) -> dict[str, Val]:
    keywords = [_named(n, inspect.Parameter.KEYWORD_ONLY) for n in names if n not in positional]
    parameters = {p.name: p for p in (*map(_named, positional), *keywords)}
    out, _ = bind(w, cls.__name__, parameters, args, kwargs)
    for v in out.values():
        alias(v)
        check_part(w, v)
    return out


def replace_fields(w: Walker, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """`dataclasses.replace` and `_replace`."""
    if len(args) != 1:
        raise w.reject("ACR203", place_of(w, 1, len(args)), seen=f"{len(args)} arguments for replace(obj)")

    def one(obj: Val) -> Val:
        cls = next(iter(obj.object_classes()), None)
        if cls is None:
            raise w.reject("ACR301", seen=f"replace of {w.describe(obj)}")
        names = field_names(cls)
        for k in kwargs:
            if k not in names:
                raise w.reject("ACR307", seen=f"{cls.__name__} has no field {k!r}")
        if dataclasses.is_dataclass(cls):  # `replace` calls the constructor
            init = [f.name for f in dataclasses.fields(cls) if f.init]
            given = {n: kwargs[n] if n in kwargs else attribute(w, obj, n) for n in init}
            return construct(w, cls, [], given | kwargs)
        return ObjectValue(cls, names, tuple(kwargs[n] if n in kwargs else attribute(w, obj, n) for n in names))

    return w.each(args[0], one)


# ---- methods of built-in types


def call_method(w: Walker, owner: Val, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Call a method of a built-in type."""
    part = owner.row_item(w, args[0]) if name == "get" and args and not kwargs else None
    if part is not None:
        return part
    owner = owner.as_container(w)
    if owner.is_several:
        return w.each(owner, lambda o: call_method(w, o, name, args, kwargs), itself=True)
    cls = np.ndarray if isinstance(owner, Tensor) else owner.python_class
    if cls in (list, tuple) and callable(getattr(cls, name, None)):
        given = _arguments(w, f".{name}", signature_of(getattr(cls, name)), [owner, *args], kwargs)
        named = {k: v for k, v in given.items() if k in kwargs}
        args, kwargs = [v for k, v in given.items() if k not in named][1:], named
    if name in MUTATORS and (owner.is_list or owner.is_mapping):
        owner = owner.mutable(w)
    own = owner.method(w, name, args, kwargs)
    if own is not None:
        return own
    known = row_of(getattr(owner.shown or cls, name, None))
    if known is not None:
        static = isinstance(inspect.getattr_static(owner.shown or cls, name), staticmethod)
        return call_row(w, known, args if static else [owner, *args], kwargs)
    if name == "_replace":
        return replace_fields(w, [owner, *args], kwargs)
    seen = f"the method .{name} of {w.describe(owner)}"
    if cls is Library.tensor:
        raise unknown(w, "ACR209", seen, name)
    raise w.reject("ACR209", seen=seen)


@handles(METHODS, ArrayRef)
def array_method(w: Walker, ref: ArrayRef, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Call a method of an array that is written to."""
    if name == "fill" and len(args) == 1 and not kwargs:
        assign_item(w, ref, (), args[0])
        return NoneVal()
    view = array_view(w, ref, name, args, kwargs)
    if view is not None:
        return view
    known = row_of(getattr(np.ndarray, name, None))
    if known is not None and known.whole:
        return call_row(w, known, [ref, *args], kwargs)
    return call_method(w, w.whole(ref), name, args, kwargs)
