"""Types of functions, classes and bound methods in data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType

from acronumba.generics import Value
from acronumba.ir.functions import known_function
from acronumba.ir.types import FunctionT, MethodT, NoneT, OpaqueT, StructT, Type, all_parts, members, union, with_parts

MOST_FUNCTIONS = 64  # in one place of the data


def storable_union(*found: Type) -> Type:
    """Return the union of the storable types; an `OpaqueT` if only None is storable, `NEVER` for no types."""
    flat = [m for t in found for m in members(t)]
    stored = [t for t in flat if not isinstance(t, OpaqueT)]
    opaque = [t for t in flat if isinstance(t, OpaqueT)]
    if opaque and all(isinstance(t, NoneT) for t in stored):
        return opaque[0]
    return union(*stored)


def types_of_functions(values: list[Value]) -> Type:
    """Return the union of the types of functions."""
    found = map(known_function, {id(v): v for v in values}.values())
    t = storable_union(*(OpaqueT(f) if isinstance(f, str) else FunctionT(f) for f in found))
    return OpaqueT(f"one of more than {MOST_FUNCTIONS} functions") if len(members(t)) > MOST_FUNCTIONS else t


def types_of_methods(values: list[Value], observed: Callable[[list[Value]], Type]) -> Type:
    """Return the union of the types of methods that are bound to objects."""
    by: dict[Value, list[Value]] = {}
    for v in values:
        by.setdefault(v.__func__, []).append(v.__self__)
    found: list[Type] = []
    for fn, owners in by.items():
        inner = observed(owners)
        known = isinstance(fn, FunctionType) and all(isinstance(m, StructT) for m in members(inner))
        found.append(MethodT(fn, inner) if known else OpaqueT(f"the method {fn.__name__} of an object"))
    return storable_union(*found) if len(found) <= MOST_FUNCTIONS else OpaqueT(f"one of {len(found)} methods")


def hold_methods(types: Iterable[Type]) -> bool:
    return any(isinstance(u, MethodT) for u in all_parts(*types))


def holds_functions(t: Type) -> bool:
    return any(isinstance(u, FunctionT) for u in all_parts(t))


def with_functions_of(t: Type, other: Type) -> Type:
    """Return the union of two types if they differ in functions alone, or in None; else the first."""
    both = union(t, other) if holds_functions(t) and t != other else t
    few = sum(isinstance(u, FunctionT) for u in all_parts(both)) <= MOST_FUNCTIONS
    return both if few and _any_function(both) in (_any_function(t), _any_function(other)) else t


def _any_function(t: Type) -> Type:
    """Return a type with one function in place of all."""
    return FunctionT(None) if isinstance(t, FunctionT) else with_parts(t, _any_function)
