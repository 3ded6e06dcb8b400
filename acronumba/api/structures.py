"""Structures of gradients: the float arrays in a user's value, and the same structure with gradients.

In: nestings of dataclasses, plain objects, dicts, lists and tuples. Out: the same with an array for each float array,
and None for any other leaf. An array that is reached twice is one leaf: both occurrences get the same gradient.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from acronumba.api.results import parts_of
from acronumba.data.classes import is_object, names_of
from acronumba.data.skeleton import Skeleton, has_parts
from acronumba.errors.codes import reject
from acronumba.foreign import Library, as_numpy, is_foreign, is_simple, is_tensor
from acronumba.generics import Value


def is_float_array(value: object) -> bool:
    """Whether a value has a gradient: an array, NumPy scalar, or array of another library, of floats."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind == "f"
    if is_tensor(value) and Library.is_here(value):
        return bool(value.dtype.is_floating_point)  # type: ignore[attr-defined]
    array = as_numpy(value) if is_foreign(value) else ""
    return not isinstance(array, str) and array.dtype.kind == "f"


def structured(value: Value, gradient: Callable[[Value], Value]) -> Value:
    """Return the structure of a value with the gradient of each float array, and None for any other leaf.

    Parameters
    ----------
    value
        The user's value; it may contain itself.
    gradient : callable
        From a float array to its gradient; called once for each.
    """
    return rebuilt(value, lambda v: gradient(v) if is_float_array(v) else None)


def rebuilt(value: Value, leaf: Callable[[Value], Value]) -> Value:
    """Return the structure of a value with other leaves.

    Parameters
    ----------
    value
        The user's value; it may contain itself.
    leaf : callable
        From a value without parts to its replacement; called once for each object.
    """
    skeleton = Skeleton(value)
    return skeleton.rebuilt(list(map(leaf, skeleton.leaves)))


def native(value: Value) -> Value:
    """Return a value with the arrays of other libraries replaced by NumPy arrays; the value itself if it holds none."""
    return rebuilt(value, _native_leaf) if _holds_foreign(value) else value


def _native_leaf(value: Value) -> Value:
    array = as_numpy(value) if is_foreign(value) else value
    return value if isinstance(array, str) else array


def _holds_foreign(value: Value) -> bool:
    seen: set[int] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if is_foreign(v):
            return True
        if has_parts(v) and id(v) not in seen:
            seen.add(id(v))
            inner = v if isinstance(v, list | tuple) else _parts(v).values()
            stack += [x for x in inner if not is_simple(type(x))]
    return False


def float_arrays(value: Value) -> list[Value]:
    """Return the float arrays of a value, each once."""
    if is_tensor(value):
        return [value] if is_float_array(value) else []
    return list(filter(is_float_array, Skeleton(value).leaves))


def paths_of(value: Value, root: str) -> dict[int, str]:
    """Return the path of each float array of a value, by id: `p.cells[0].w`."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    stack = [(root, value)]
    while stack:
        path, v = stack.pop()
        if is_float_array(v):
            found.setdefault(id(v), path)
        elif id(v) not in seen:
            seen.add(id(v))
            stack += [(path + step, part) for step, part in reversed(parts_of(v) or [])]
    return found


def objects_of(value: Value) -> dict[int, Value]:
    """Return all objects reachable from a value, itself included, by id."""
    found: dict[int, Value] = {}
    seen: set[int] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if id(v) not in seen and has_parts(v):
            seen.add(id(v))
            if is_object(v):
                found[id(v)] = v
            stack += [part for _, part in parts_of(v) or []]
    return found


def _parts(v: Value) -> dict[Value, Value]:
    if isinstance(v, dict):
        return v
    if isinstance(v, list):
        return dict(enumerate(v))
    return {name: getattr(v, name) for name in names_of(v) if hasattr(v, name)}


_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[['\"]([^'\"]*)['\"]\]")


def steps_of(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the root name and the steps of a path: `p.cells[0].w`, or in the form of `leaves`, `p.cells.0.w`."""
    name = re.match(r"\w+", path)
    steps: list[str] = []
    at = name.end() if name else 0
    while name and at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            break
        steps.append(next(part for part in step.groups() if part is not None))
        at = step.end()
    if not name or at < len(path):
        raise reject(
            "ACR706", message=f"`{path}` is not a path", rewrite="name a parameter, or a part of one: `p.encoder`"
        )
    return name[0], tuple(steps)


def part_at(value: Value, path: str, steps: tuple[str, ...]) -> Value:
    """Return the part of a value that steps lead to."""
    for step in steps:
        if isinstance(value, dict):
            found = {str(k): v for k, v in value.items()}
        elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            found = {str(k): v for k, v in enumerate(value)}
        else:
            found = {n: getattr(value, n) for n in names_of(value) if hasattr(value, n)} if is_object(value) else {}
        if step not in found:
            raise reject("ACR706", message=f"`{path}` does not exist", seen=f"`{step}` of {type(value).__name__}",
                         rewrite=f"one of: {', '.join(found)}" if found else "")  # fmt: skip
        value = found[step]
    return value
