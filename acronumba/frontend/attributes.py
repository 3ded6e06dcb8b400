"""Attributes of objects (their fields and classes), modules, enums and arrays."""

from __future__ import annotations

import ast
import enum
import functools
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from acronumba.data.classes import field_names
from acronumba.data.shared import SharedConst, can_hide, hiding
from acronumba.data.source_guard import ABSENT
from acronumba.foreign import Library, is_of_numba
from acronumba.frontend.advice import near, unknown
from acronumba.frontend.calls.objects import as_function, is_manager
from acronumba.frontend.calls.tables import row_of
from acronumba.frontend.exceptions import Dead, Rejected, Restart
from acronumba.frontend.handlers import ATTRIBUTES, DESCRIPTORS, EXPRESSIONS, ITEMS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.errors import ErrorValue, conversion
from acronumba.frontend.kinds.functions import NAMES, OF_MODELS, Func, Partial, Static, method_of
from acronumba.frontend.kinds.numbers import ALWAYS, EnumVal, Num, members_of, number
from acronumba.frontend.kinds.objects import MutableObject, ObjectValue, Ref, SharedVal, is_field
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.names import behind, function_value, is_computed, outside, path_of
from acronumba.frontend.walker import Walker
from acronumba.ir.functions import is_function_class
from acronumba.ir.types import INT, TEXT, UNSET, NoneT, OpaqueT, Type, UnionT, members


def not_none(w: Walker, val: Val) -> Val:
    """Let the instance fail where a union is None, and return it without None; any other value as it is."""
    if not isinstance(val, UnionVal) or not any(isinstance(m, NoneT) for m in val.possible):
        return val
    rest = w.keep(val, lambda t: not isinstance(t, NoneT))
    if w.block is None or not rest.possible:
        return ErrorValue()
    good = w.is_case(val, lambda t: not isinstance(t, NoneT))
    what = f"'{w.here.attr}'" if isinstance(w.here, ast.Attribute) else "it"
    error = "AttributeError" if isinstance(w.here, ast.Attribute) else "TypeError"
    text = (
        f"'NoneType' object has no attribute {what}" if isinstance(w.here, ast.Attribute) else "this value is None here"
    )
    w.check(good, error, text)
    return w.narrowed(rest)


def attribute(w: Walker, owner: Val, name: str) -> Val:
    """Read an attribute."""
    w.check_poison(owner)
    note_asked(w, owner, name)
    if owner.is_several:
        return w.each(owner, lambda v: attribute(w, v, name), itself=True)
    found = owner.attribute(w, name)
    if found is not None:
        return found
    cls = owner.shown or owner.python_class
    if cls is not object and hasattr(cls, name):
        return builtin_method(w, owner, cls, name)
    names = field_names(owner.cls) if isinstance(owner, ObjectValue) else dir(owner.python_class)
    rejection = w.reject("ACR307", seen=f"{w.describe(owner)} has no attribute {name!r}", rewrite=near(name, names))
    raise impossible(w, lambda x: getattr(x, name), (owner,), rejection)


def note_asked(w: Walker, owner: Val, name: str) -> None:
    """Note that an attribute of exceptions is read, so that they have it from the next iteration on."""
    if is_exception(owner) and name not in w.facts.asked:
        w.note(w.facts.asked, name)
        raise Restart


def is_exception(val: Val) -> bool:
    """Whether a value is an exception."""
    classes = val.object_classes()
    return bool(classes) and all(issubclass(c, BaseException) for c in classes)


def _not_known(w: Walker, owner: Val, name: str) -> Rejected:
    """Return the rejection of the read of an attribute that an exception does not have on all paths."""
    seen = f".{name} of {w.describe(owner)}, which an operation may have raised"
    return w.reject("ACR101", seen=seen, rewrite="raise an exception of your own, with what the clause needs")


def attribute_at_run_time(w: Walker, owner: Ref, name: str, raw: bool = False) -> Val:
    """Read an attribute of a run-time object of one class; `raw`: as the object came in, without the overlay."""
    (cls,) = owner.classes
    if name in field_names(cls) or name in w.facts.fields.get(cls, {}):
        return load(w, owner, name, raw)
    return inherited_attribute(w, owner, cls, name)


@handles(ATTRIBUTES, ObjectValue)
def attribute_of_fields(w: Walker, owner: ObjectValue, name: str) -> Val:
    """Read an attribute of an object that is its fields."""
    if name in owner.names:
        return owner.items[owner.names.index(name)]
    return inherited_attribute(w, owner, owner.cls, name)


def shared_attribute(w: Walker, owner: SharedVal, name: str) -> Val | None:
    """Read an attribute of a shared object as it came in; None for a shared list, tuple or dict."""
    shared = owner.node
    if shared.kind != "object":
        return None
    item = shared.item(name)
    if item is None:
        return inherited_attribute(w, owner, shared.cls, name)
    function = behind(w, item.value) if isinstance(item, SharedConst) else None
    return w.shared_value(item) if function is None else function_value(w, function)


@handles(EXPRESSIONS, ast.Attribute)
def attribute_expr(w: Walker, node: ast.Attribute) -> Val:
    """Read an attribute, with its type narrowed by an earlier test."""
    path = path_of(w, node)
    if path is not None and path in w.state and not is_field(path):
        return w.state[path]
    return attribute_of(w, attribute_owner(w, node), node)


@handles(ATTRIBUTES, MutableObject)
def made_attribute(w: Walker, owner: MutableObject, name: str) -> Val:
    """Read an attribute of an object whose fields are variables."""
    owner.must_exist(w)
    key = (owner.key, name)
    val = w.state.get(key)
    if val is None and name in w.facts.assigned and not inherits(w, owner.cls, name):  # later, or on another path
        w.fail("AttributeError", no_attribute(owner.cls, name))
        raise Dead
    if val is None or is_computed(w, owner, name):
        return inherited_attribute(w, owner, owner.cls, name)
    if isinstance(val, MaybeUnbound):
        own = val.value
        if inherits(w, owner.cls, name):
            return w.cond(val.bound, lambda: own, lambda: class_attribute(w, owner, owner.cls, name))
        w.check(val.bound, "AttributeError", no_attribute(owner.cls, name))
        val = own
        if w.block is not None:
            w.state[key] = val
    w.check_poison(val)
    return val


def has_attribute(w: Walker, owner: Val, name: str) -> Num:
    """Return whether an object has an attribute, as a bool of the program."""
    classes = owner.object_classes()
    if len(classes) == 1:
        if inherits(w, classes[0], name):
            return number(True)
        return owner.has_field(w, name) or _has_field(w, owner, name)
    cls = np.ndarray if isinstance(owner, Tensor) else owner.python_class
    if cls is not object:
        return number(hasattr(cls, name))
    value = w.static(owner)
    if value is NOT_CONST:
        raise w.reject("ACR308", seen=f"hasattr of {w.describe(owner)}")
    return number(hasattr(value, name))


def _has_field(w: Walker, owner: Val, name: str) -> Num:
    """Return whether a run-time object has an attribute that its class has not."""
    assert isinstance(owner, Ref)
    (cls,) = owner.classes
    t = w.facts.fields.get(cls, {}).get(name)
    if t is None and name not in field_names(cls):
        w.inherited.setdefault((cls, name), w.loc)
        return number(False)
    if t is None or UNSET not in members(t):
        return number(True)
    val = read_field(w, owner, name, t, raw=True)
    return w.is_case(val, lambda m: m != UNSET) if isinstance(val, UnionVal) else number(False)


def no_attribute(cls: type, name: str) -> str:
    """Return the message of Python's `AttributeError`."""
    return f"'{cls.__name__}' object has no attribute '{name}'"


def attribute_owner(w: Walker, node: ast.Attribute) -> Val:
    """Evaluate the object of an attribute, and narrow it: it is not None from then on."""
    owner = w.value(node.value)
    if isinstance(owner, UnionVal):
        owner = not_none(w, owner)
        base = path_of(w, node.value)
        if base is not None and w.block is not None and (base in w.state or len(base) > 2):
            w.state[base] = owner
    return owner


def attribute_of(w: Walker, owner: Val, node: ast.Attribute) -> Val:
    """Read an attribute of a value, and note its value under the path of the expression."""
    path = path_of(w, node)
    if path is not None:
        w.check_poison(w.state.get(path, owner))
    val = attribute(w, owner, node.attr)
    if path is not None and isinstance(owner, Ref) and not val.is_choosable:
        w.state[path] = val
    return val


def builtin_method(w: Walker, owner: Val, cls: type, name: str) -> Partial:
    """Return a method of a built-in type. Its other attributes, `x.flags`, are not supported."""
    if name == "__class__" or not callable(getattr(cls, name)):
        rewrite = "type(x)" if name == "__class__" else ""
        raise w.reject("ACR209", seen=f"{w.describe(owner)}.{name}", rewrite=rewrite)
    return method_of(owner, name)


def inherited_attribute(w: Walker, owner: Val, cls: type, name: str) -> Val:
    """Read an attribute that an object has by its class, not hidden by an attribute of its own.

    That no attribute hides it is checked when an object of the data is packed and when a shared value is read. Python
    looks up `__call__`, `__len__` and operators in the class alone: see `class_attribute`.
    """
    if is_exception(owner) and not name.startswith("__"):
        holder = w.source_guard.owner(cls, name)
        if holder is None or holder.__module__ == "builtins":
            raise _not_known(w, owner, name)
    if can_hide(cls, w.source_guard.attribute(cls, name)):
        w.inherited.setdefault((cls, name), w.loc)
        if issubclass(cls, enum.Enum):
            for member in cls:
                if w.source_guard.item(member, name) is not ABSENT:
                    seen, rewrite = hiding(cls, name)
                    raise w.reject("ACR308", seen=f"{cls.__name__}.{member.name}: {seen}", rewrite=rewrite)
    return class_attribute(w, owner, cls, name)


def class_attribute(w: Walker, owner: Val, cls: type, name: str) -> Val:
    """Read a method, property or class variable of an object."""
    if name == "__class__" and not isinstance(owner, Static):
        return Static(cls)
    raw = w.source_guard.attribute(cls, name)
    if raw is ABSENT or isinstance(raw, types.MemberDescriptorType):
        names = (*field_names(cls), *dir(cls))
        rejection = w.reject("ACR307", seen=f"{cls.__name__} has no attribute {name!r}", rewrite=near(name, names))
        if raw is not ABSENT or isinstance(owner, Static) or w.has(cls, "__getattr__"):
            raise rejection
        if can_hide(cls, raw):
            w.inherited.setdefault((cls, name), w.loc)  # no object may have it
        raise w.fails("AttributeError", rejection, no_attribute(cls, name))
    return bound_attribute(w, owner, cls, name, raw, w.source_guard.owner(cls, name))


def bound_attribute(w: Walker, owner: Val, cls: type, name: str, raw: Any, holder: type | None) -> Val:
    """Bind an attribute found in a class to an object, or to the class itself, by Python's descriptor protocol."""
    of_class = isinstance(owner, Static)
    if isinstance(raw, property):
        if raw.fget is None or of_class:
            raise w.reject("ACR307", seen=f"{cls.__name__}.{name}")
        return w.call(own_method(w, raw.fget), (owner,), {})
    if isinstance(raw, staticmethod):
        return own_method(w, raw.__func__) if row_of(raw.__func__) is None else Static(raw.__func__)
    if isinstance(raw, classmethod) and is_of_numba(raw.__func__):
        return Static(getattr(cls, name))
    if isinstance(raw, classmethod):
        return Partial(own_method(w, raw.__func__), (owner if of_class else Static(cls),))
    if name in ("_replace", "_asdict") and issubclass(cls, tuple):
        return method_of(owner, name)
    if as_function(raw) is not None:
        return own_method(w, raw) if of_class else Partial(own_method(w, raw), (owner,), is_method=True)
    is_bound = not of_class and hasattr(type(raw), "__get__")  # `str.split` of a member of an enum, for example
    of_str = of_class and holder is str and isinstance(raw, types.MethodDescriptorType)  # `str.upper`
    if raw is object.__init__ or raw is object.__setattr__ or of_str or (row_of(raw) is not None and not is_bound):
        return Static(raw)
    if hasattr(type(raw), "__get__") and not isinstance(raw, type):
        handler = None if of_class else DESCRIPTORS.get(type(raw))
        if handler is not None:
            return handler(w, owner, cls, name, raw)  # type: ignore[no-any-return]
        seen = f"{cls.__name__}.{name}, a descriptor of class {type(raw).__name__}"
        raise w.reject("ACR210", seen=seen)
    return outside(w, raw, name, holder, f"{cls.__name__}.{name}") if holder else w.constant(raw)


def inherits(w: Walker, cls: type, name: str) -> bool:
    """Whether objects of a class inherit an attribute from it where they have none of their own."""
    return w.has(cls, name) and not isinstance(w.source_guard.attribute(cls, name), types.MemberDescriptorType)


@handles(ATTRIBUTES, Partial)
def super_attribute(w: Walker, owner: Partial, name: str) -> Val | None:
    """Read an attribute of `super()`: of the next class in the method resolution order that has it."""
    if w.static(owner.func) is not super:
        return None
    first, obj = owner.args
    if is_exception(obj) and name == "__init__":
        order = obj.python_class.__mro__
        base = next(c for c in order[order.index(w.static(first)) + 1 :] if name in vars(c))
        if base.__module__ == "builtins":
            return Partial(Static(BaseException.__init__), (obj,))
    cls = obj.value if isinstance(obj, Static) else obj.python_class
    w.source_guard.owner(cls, name)  # and the method resolution order
    order = cls.__mro__
    for base in order[order.index(w.static(first)) + 1 :]:
        raw = vars(base).get(name, ABSENT) if base is object else w.source_guard.item(base, name)
        if raw is not ABSENT:
            return bound_attribute(w, obj, cls, name, raw, base)
    raise w.reject("ACR307", seen=f"super() of {cls.__name__} has no attribute {name!r}")


def own_method(w: Walker, fn: Any) -> Val:
    function = behind(w, fn)
    if function is None:
        raise w.reject("ACR210", seen=repr(fn))
    out = function_value(w, function)
    if not isinstance(out, Func) and row_of(function) is None and not is_manager(function):  # made by `dataclass`, say
        if Library.name_of(function):
            owner, _, name = function.__qualname__.removesuffix(".forward").rpartition(".")
            raise unknown(w, "ACR202", f"{owner}.{name}" if owner else name, name)
        raise w.reject("ACR201", seen=f"{function.__qualname__}, whose source cannot be read")
    return out


@handles(ATTRIBUTES, Static)
def attribute_of_constant(w: Walker, owner: Static, name: str) -> Val:
    """Read an attribute of a compile-time object."""
    return static_attribute(w, owner.value, name)


def names_of_module(w: Walker, module: types.ModuleType) -> Val:
    """`vars(module)`, as a shared dict."""
    return outside(w, vars(module), 0, _held(module), f"vars({module.__name__})")


@functools.cache
def _held(module: types.ModuleType) -> tuple[dict[str, Any]]:
    return (vars(module),)


def static_attribute(w: Walker, value: Any, name: str) -> Val:
    """Read an attribute of a module, class or dtype."""
    if value is np and name == "random":
        raise w.reject("ACR211")
    if isinstance(value, types.ModuleType):
        if not hasattr(value, name):
            seen = f"module {value.__name__} has no attribute {name!r}"
            rewrite = near(name, dir(value)) or "use a name that the module has"
            raise w.reject("ACR307", seen=seen, rewrite=rewrite)
        inner = getattr(value, name)
        if name == "__dict__":
            return names_of_module(w, value)
        if value is np or value.__name__ == "math" or name not in vars(value):
            w.source_guard.item(value, name)
            return w.constant(inner)
        return outside(w, inner, name, vars(value), f"{value.__name__.rsplit('.', 1)[-1]}.{name}")
    if isinstance(value, type):
        if issubclass(value, enum.Enum) and name in value.__members__:
            return w.constant(value[name])
        if name in ("__name__", "__qualname__", "__module__"):
            return w.constant(getattr(value, name))
        return class_attribute(w, Static(value), value, name)
    if type(value).__name__ == "Model" and name in OF_MODELS:
        raise w.reject("ACR205", seen=f".{name}")
    if name in NAMES and is_function_class(type(value)) and isinstance(getattr(value, name, None), str):
        return w.constant(getattr(value, name))
    if isinstance(value, np.ufunc) and callable(getattr(value, name, None)):
        return Static(getattr(value, name))
    if isinstance(value, np.dtype | np.finfo | np.iinfo) and hasattr(value, name):
        found = getattr(value, name)
        return w.ops.scalar_constant(found) if isinstance(found, np.generic) else w.constant(found)
    if isinstance(value, Library.constants) and hasattr(value, name):
        return w.constant(getattr(value, name))
    raise w.reject("ACR209", seen=f"{w.describe(Static(value))}.{name}")


@handles(ATTRIBUTES, EnumVal)
def enum_attribute(w: Walker, owner: EnumVal, name: str) -> Val:
    """Read an attribute of a member of an enum."""
    if owner.const is not NOT_CONST:
        if name in ("name", "value"):
            return value_of_member(w, owner.const, name)
    elif name in ("name", "value") and w.source_guard.owner(owner.cls, name) is enum.Enum:
        values = [getattr(m, name) for m in members_of(owner.cls)]
        if all(type(v) is int for v in values) or all(type(v) is float for v in values):
            return owner.by_member(w, lambda member: member.value)
        if all(type(v) is str for v in values):
            return text_by_member(w, owner, values)
        members = members_of(owner.cls)
        places = [w.scalar("eq", Num(INT, var=w.word(owner)), number(k)) for k in range(len(members) - 1)]
        return w.switch(zip([*places, ALWAYS], (partial(value_of_member, w, m, name) for m in members), strict=True))
    return inherited_attribute(w, owner, owner.cls, name)


def value_of_member(w: Walker, member: Any, name: str) -> Val:
    """Return the name or value of a member of an enum; a list, tuple or dict is a shared value."""
    value = getattr(member, name)
    if isinstance(value, list | tuple | dict):
        return outside(w, value, "_value_", vars(member), f"{type(member).__name__}.{member.name}.value")
    return w.constant(value)


def text_by_member(w: Walker, owner: EnumVal, texts: Sequence[str]) -> Val:
    """Return the string of a member of an enum that is known only at run time."""

    def case(k: int) -> tuple[Num, Callable[[], Val]]:
        test = ALWAYS if k == len(texts) - 1 else w.scalar("eq", Num(INT, var=w.word(owner)), number(k))
        return test, lambda: w.from_words(TEXT, w.to_words(w.constant(texts[k]), TEXT))

    return w.switch(map(case, range(len(texts))))


def load(w: Walker, ref: Ref, name: str, raw: bool = False) -> Val:
    """Read a field of an object of one class."""
    cls = ref.classes[0]
    t = w.facts.fields.get(cls, {}).get(name)
    if t is None:
        raise w.reject("ACR304", seen=f"{cls.__name__}.{name}, of which no instance has a value")
    if isinstance(t, OpaqueT):
        raise w.reject("ACR304", seen=f"{cls.__name__}.{name} is {t.what}", rewrite=conversion(t.what))
    if isinstance(t, UnionT) and any(isinstance(m, OpaqueT) for m in t.members):
        what = next(m.what for m in t.members if isinstance(m, OpaqueT))
        raise w.reject("ACR304", seen=f"{cls.__name__}.{name} is {what} in some instances")
    val = read_field(w, ref, name, t, raw)
    return there(w, ref, val, name) if UNSET in members(t) else val


@handles(ITEMS, Ref)
def items_of_named_tuple(w: Walker, ref: Ref) -> tuple[Val, ...] | None:
    """Return the fields of a NamedTuple."""
    if len(ref.classes) > 1 or not issubclass(ref.classes[0], tuple):
        return None
    return tuple(load(w, ref, n) for n in field_names(ref.classes[0]))


def read_field(w: Walker, ref: Ref, name: str, t: Type, raw: bool = False) -> Val:
    """Read the content of a field of an object, which may be `UNSET`."""
    cls = ref.classes[0]
    if ref.own is not True and not raw and cls not in w.facts.fixed and name in w.facts.overlaid.get(cls, ()):
        seen = f"all fields of a {cls.__name__}, whose .{name} is assigned elsewhere"
        raise w.reject("ACR113", seen=seen, rewrite="read the fields one by one")
    return w.read_row(cls, ref.var, ref.own, name, t)


def there(w: Walker, owner: Ref, val: Val, name: str) -> Val:
    """Return a field that may be `UNSET`: in that case the attribute of the class, or the instance fails."""
    cls = owner.classes[0]
    if not isinstance(val, UnionVal):
        return class_attribute(w, owner, cls, name)
    if is_exception(owner):
        raise _not_known(w, owner, name)
    rest = w.keep(val, lambda t: t != UNSET)
    good = w.is_case(val, lambda t: t != UNSET)
    if inherits(w, cls, name):
        return w.cond(good, lambda: w.narrowed(rest), lambda: class_attribute(w, owner, cls, name))
    w.check(good, "AttributeError", no_attribute(cls, name))
    return w.narrowed(rest)


@handles(ATTRIBUTES, Tensor)
def tensor_attribute(w: Walker, x: Tensor, name: str) -> Val:
    """Read an attribute of an array."""
    match name:
        case "T":
            return w.ops.transpose(x, tuple(reversed(range(x.type.rank))))
        case "mT" if x.type.rank > 1:
            return w.ops.transpose(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))
        case "real":
            return x
        case "imag":
            return w.ops.full(x.dims, number(0), x.type.dtype)
        case "shape":
            return TupleVal(tuple(w.extent(d) for d in x.dims))
        case "ndim":
            return number(x.type.rank)
        case "size":
            return w.ops.count(x.dims)
        case "dtype":
            return Static(np.dtype(x.type.dtype))
        case "itemsize":
            return number(np.dtype(x.type.dtype).itemsize)
        case "nbytes":
            return w.scalar("mul", w.ops.count(x.dims), number(np.dtype(x.type.dtype).itemsize))
    if not hasattr(np.ndarray, name):
        rejection = w.reject("ACR307", seen=f"an array has no attribute {name!r}")
        raise rejection if w.facts.tensors else impossible(w, lambda x: getattr(x, name), (x,), rejection)
    return builtin_method(w, x, np.ndarray, name)
