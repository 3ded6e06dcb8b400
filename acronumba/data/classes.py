"""Classes whose objects are made of fields: dataclasses, NamedTuples, and plain classes of Python.

In: a class or an object. Out: whether the class is one of these, and the names of its fields. A dataclass or NamedTuple
declares its fields; the fields of a plain class are the attributes that its objects have.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import keyword
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from acronumba.generics import Value
from acronumba.ir.shapes import is_shape
from acronumba.records import record

_OF_PYTHON = 1 << 9  # of `type.__flags__`: the class was made at run time, not in C
_HOOKS = (
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__class__",
)  # methods that let code decide over attributes
_ARRAYS = ("__array__", "__array_interface__", "__cuda_array_interface__", "__dlpack__")
_PLAIN_BASES = ("typing", "abc", "collections.abc", "argparse")  # modules of base classes without state
_NO_OBJECTS = (type, enum.Enum, BaseException, np.generic, np.ndarray, types.ModuleType)


@record()
class Adapter:
    """How objects of a class of another library are read: as plain objects, or as lists and dicts."""

    names: Callable[[Value], tuple[str, ...]]  # the attributes of an object
    wrong: Callable[[Value], str]  # why an object cannot be read; "" if it can
    container: Callable[[Value], list[Value] | dict[str, Value] | None]  # its items, if it is a list or dict
    step: Callable[[Value, str], str]  # how an attribute is read, in source text: ".weight"
    get: Callable[[Value, str], Value] = getattr  # reads an attribute
    fixed: Callable[[Value], Iterable[str]] = (
        lambda value: ()
    )  # attributes that code cannot assign, in the order of `names`


_adapters: dict[type, Adapter] = {}  # by base class


def adapt(base: type, adapter: Adapter) -> None:
    """Declare how objects of a class and its subclasses are read."""
    _adapters[base] = adapter
    for known in (_makes_objects, _oddness, _places, _declared, _adapter_of):
        known.cache_clear()


_shown: dict[type, Callable[[list[Value]], Value]] = {}  # by NamedTuple: what makes its values in results


def show_as(cls: type, make: Callable[[list[Value]], Value]) -> None:
    """Declare how a NamedTuple is shown in results: by a function of the list of its fields."""
    _shown[cls] = make


def shown_as(cls: type) -> Callable[[list[Value]], Value]:
    """Return the function that makes a NamedTuple in a result."""
    return _shown.get(cls) or partial(tuple.__new__, cls)


def adapter_of(cls: Any) -> Adapter | None:
    """Return the adapter of a class; None for classes without one."""
    return _adapter_of(cls)


@lru_cache(1024)
def _adapter_of(cls: type) -> Adapter | None:
    return next((_adapters[base] for base in cls.__mro__ if base in _adapters), None)


_registered: dict[type, tuple[str, ...]] = {}


def register(cls: type, fields: Iterable[str]) -> None:
    """Declare the fields of a class's objects if acronumba cannot find them, as for a class with computed attributes.

    Parameters
    ----------
    cls : type
        Objects of it may be in instances and in shared values from now on.
    fields : iterable of str
        Attributes that can be read of every object; their annotations in the class count, if there are any.
    """
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if not isinstance(cls, type) or not names or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise TypeError("register takes a class, and the names of its fields")
    _registered[cls] = names
    for known in (_makes_objects, _oddness, _places, _declared):
        known.cache_clear()


def is_record(cls: type) -> bool:
    """Whether a class declares its fields: a dataclass, NamedTuple, shape, or class of attrs, pydantic, msgspec."""
    return (
        is_shape(cls)
        or is_dataclass(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        or bool(_declares(cls))
    )


def _declares(cls: type) -> tuple[str, ...]:
    return _declared(cls)


@lru_cache(1024)
def _declared(cls: type) -> tuple[str, ...]:
    """Return the registered fields, or those declared by attrs, pydantic or msgspec; none of these is imported."""
    if cls in _registered:
        return _registered[cls]
    if "__attrs_attrs__" in vars(cls):
        return tuple(a.name for a in vars(cls)["__attrs_attrs__"])
    fields = vars(cls).get("__pydantic_fields__") or getattr(cls, "__struct_fields__", ())
    return tuple(fields) if isinstance(fields, dict | tuple) else ()


def is_struct(cls: type) -> bool:
    """Whether objects of the class are stored as rows: of a dataclass, a NamedTuple, or a plain class."""
    return is_record(cls) or is_plain(cls)


def is_object(value: object) -> bool:
    """Whether the value is an instance of a dataclass, NamedTuple or plain class."""
    cls: Any = type(value)
    return _makes_objects(cls)


_makes_objects = lru_cache(1024)(is_struct)


def is_plain(cls: type) -> bool:
    """Whether a class is plain: no record, and its objects' state is in their `__dict__` and slots alone."""
    return not is_record(cls) and not oddness(cls)


def oddness(cls: type) -> str:
    """Name the base class or attribute hook by which a class is not plain; empty if it is plain."""
    return _oddness(cls)


@lru_cache(1024)
def _oddness(cls: type) -> str:
    if issubclass(cls, _NO_OBJECTS):
        return "it is no class of plain objects"
    if type(cls) not in (type, abc.ABCMeta) and type(cls).__module__ != "typing":
        return f"a metaclass, {type(cls).__name__}"
    hooks = _HOOKS if adapter_of(cls) is None else ("__getattribute__", "__class__")  # an adapter reads attributes
    for base in cls.__mro__[:-1]:
        if base is types.SimpleNamespace or base in _adapters:
            continue
        if not base.__flags__ & _OF_PYTHON or _is_of_library(base):
            return f"it is derived from {base.__name__}" if base is not cls else "it is no class of Python code"
        for name in (*hooks, *_ARRAYS):
            if name in vars(base) and not is_record(base):
                return f"`{name}`"
    made_by = (object.__new__, types.SimpleNamespace.__new__)
    return "" if cls.__new__ in made_by and cls is not object else "`__new__`"


def _is_of_library(cls: type) -> bool:
    """Whether a class belongs to Python, NumPy or this package, and its objects are more than their fields."""
    root = cls.__module__.partition(".")[0]
    if root == "__main__" or adapter_of(cls) is not None or cls.__module__ in _PLAIN_BASES:
        return False
    return root in sys.stdlib_module_names or (root in ("numpy", "scipy", "acronumba") and not is_record(cls))


def field_names(cls: type) -> tuple[str, ...]:
    """Return the declared fields of a dataclass, NamedTuple or the like, in order; a plain class declares none."""
    maker: Any = cls
    if is_shape(cls):
        return cls.shape.names
    if is_dataclass(cls):
        return tuple([f.name for f in fields(maker)])
    return tuple(maker._fields) if issubclass(cls, tuple) and hasattr(cls, "_fields") else _declares(cls)


def fields_in_order(cls: type, names: Iterable[str]) -> list[str]:
    """Return some fields of a class in the order of its rows: declared ones first, others by name."""
    given = set(names)
    declared = [n for n in field_names(cls) if n in given]
    return declared + sorted(given.difference(declared))


def names_of(value: Value) -> tuple[str, ...]:
    """Return the field names of an object: the declared ones, or for a plain class its attributes, sorted."""
    cls = type(value)
    adapter = adapter_of(cls)
    if adapter is not None:
        return adapter.names(value)
    if is_record(cls):
        return field_names(cls)
    slots, computed = _places_of(cls)
    own = getattr(value, "__dict__", {})
    found = {n for n in slots if hasattr(value, n)}
    return tuple(sorted(found.union(n for n in own if n not in computed and type(n) is str)))


def names_among(cls: type, objects: Iterable[Value]) -> set[str]:
    """Return the union of the fields of some objects of a plain class."""
    slots, computed = _places_of(cls)
    found: set[str] = set(slots)
    if cls.__dictoffset__:
        found.update(*[o.__dict__ for o in objects])
    return {n for n in found - computed if type(n) is str and n.isidentifier() and not keyword.iskeyword(n)}


def _places_of(cls: type) -> tuple[tuple[str, ...], frozenset[str]]:
    return _places(cls)


@lru_cache(1024)
def _places(cls: type) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the slots of a class, and the names of its data descriptors such as properties."""
    slots: dict[str, None] = {}
    computed: set[str] = set()
    for base in reversed(cls.__mro__):
        for name, found in vars(base).items():
            slots.pop(name, None)
            computed.discard(name)
            if isinstance(found, types.MemberDescriptorType) and name != "__dict__":  # of a `SimpleNamespace`
                slots[name] = None
            elif hasattr(type(found), "__set__"):
                computed.add(name)
    return tuple(slots), frozenset(computed)


CLASS_VARIABLE: Any = dataclasses._FIELD_CLASSVAR  # type: ignore[attr-defined]


def is_written(init: Any) -> bool:
    """Whether an `__init__` was written by the user, not generated by `dataclasses`."""
    return "__create_fn__" not in init.__code__.co_qualname


def own_constructor(cls: Any) -> str:
    """Return the name of the user-defined constructor method of a dataclass or NamedTuple; "" if it has none."""
    if type(cls).__call__ is not type.__call__:
        return "__call__ of the metaclass"
    if issubclass(cls, tuple):
        made = getattr(cls.__new__, "__globals__", {}).get("__name__", "")  # set by `collections.namedtuple`
        own = "__init__" if cls.__init__ is not object.__init__ else "__new__"
        return "" if own == "__new__" and made.startswith("namedtuple_") else own
    code = getattr(cls.__init__, "__code__", None)
    if code is None or is_written(cls.__init__):
        return "__init__"
    given = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    every = cls.__dataclass_fields__.values()
    if set(given) != {f.name for f in every if f.init and f._field_type is not CLASS_VARIABLE}:
        return "__init__"  # of a base class
    of_c = isinstance(cls.__new__, types.BuiltinFunctionType) and issubclass(cls, BaseException)
    if cls.__new__ is not object.__new__ and not of_c:
        return "__new__"
    code = getattr(cls.__setattr__, "__code__", None)
    if code is not None and "__create_fn__" not in code.co_qualname:
        return "__setattr__"
    return "__post_init__" if "__post_init__" in cls.__init__.__code__.co_names else ""


def new_object(cls: type) -> Value:
    """Create an object of a class with no field set, without a call of the user's `__new__` or `__init__`."""
    return maker_of(cls)()


def maker_of(cls: type) -> Callable[[], Value]:
    """Return a function that creates an object of a class, see `new_object`."""
    maker: Any = cls
    if is_shape(cls):
        return cls.shape.python
    if issubclass(cls, types.SimpleNamespace):
        return partial(types.SimpleNamespace.__new__, cls)
    if hasattr(cls, "__pydantic_fields__") and hasattr(cls, "model_construct"):
        return maker.model_construct  # type: ignore[no-any-return]
    if hasattr(cls, "__struct_fields__"):
        return partial(cls, **dict.fromkeys(_declares(cls)))
    return partial(object.__new__, cls)


def setter_of(cls: type) -> Callable[[Value, str, Value], None]:
    """Return a function that sets a field of a new object, even if its class is frozen."""
    if hasattr(cls, "__struct_fields__"):
        return sys.modules["msgspec"].structs.force_setattr  # type: ignore[no-any-return]
    if is_shape(cls):
        places = dict(zip(cls.shape.names, cls.shape.places, strict=False))
        return lambda value, name, part: value.__setitem__(places[name], part)
    return object.__setattr__


def set_field(value: Value, name: str, part: Value) -> None:
    """Set a field of an object that is being made."""
    setter_of(type(value))(value, name, part)
