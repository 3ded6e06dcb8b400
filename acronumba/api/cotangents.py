"""Cotangents of a result: validation against the result, and assignment to its tensors.

In: the result of an instance and the user's cotangent, of the same structure; None stands for zeros, and for leaves
without a cotangent. Out: adjoints by the words of the tensors, or an error that names the instance and the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api.results import parts_of
from acronumba.api.structures import is_float_array
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.types import ArrayT
from acronumba.ir.written import elements

if TYPE_CHECKING:
    from acronumba.data.tensors import FoundArray, References


def matched(result: Value, cotangent: Any, number: int) -> dict[int, Any]:
    """Return the cotangent of each array of a result, by id; the sum for an array that occurs more than once.

    Parameters
    ----------
    result, cotangent
        Of one instance.
    number
        Of the instance, for messages.
    """
    out: dict[int, Any] = {}
    seen: set[int] = set()
    stack = [("", result, cotangent)]
    while stack:
        path, value, given = stack.pop()
        if given is None:
            continue
        if is_float_array(value):
            g = _fitting(value, given, number, path)
            out[id(value)] = out[id(value)] + g if id(value) in out else g
            continue
        parts = parts_of(value)
        if parts is None:
            rewrite = "None in its place"
            raise _wrong(number, path, f"{_form(value)} has no cotangent", _form(given), rewrite)
        if id(value) in seen:
            continue
        seen.add(id(value))
        others = parts_of(given)
        if others is None or [name for name, _ in others] != [name for name, _ in parts]:
            raise _wrong(number, path, f"the cotangent of {_form(value)} has another structure", _form(given))
        stack += [(path + name, v, g) for (name, v), (_, g) in reversed(list(zip(parts, others, strict=True)))]
    return out


def _fitting(value: Value, given: Any, number: int, path: str) -> Any:
    """Return a cotangent of an array, converted and validated."""
    array = np.asarray(value)
    if type(given) in (int, float) and not array.ndim:
        return np.asarray(given, array.dtype)
    g = np.asarray(given) if hasattr(type(given), "__array__") else None
    if g is None or (g.shape, g.dtype) != (array.shape, array.dtype):
        rewrite = f"cotangent.astype(np.{array.dtype})" if g is not None and g.shape == array.shape else ""
        raise _wrong(number, path, f"the cotangent of {_form(value)} does not fit", _form(given), rewrite)
    return g


def _wrong(number: int, path: str, message: str, seen: str, rewrite: str = "") -> Exception:
    return reject("ACR714", message=f"instance {number}, result{path}: {message}", seen=seen, rewrite=rewrite)


def _form(value: Value) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}"
    return "None" if value is None else type(value).__name__


def adjoints(
    found: Iterable[FoundArray], cotangents: Mapping[int, Any], references: References
) -> tuple[list[tuple[Any, Any]], dict[int, Any]]:
    """Return pairs of the word and adjoint of each tensor, and the cotangents of arrays without words.

    Arrays without words are in objects of instances, and the program does not read them.

    Parameters
    ----------
    found
        The arrays of a result.
    cotangents
        Cotangents by the ids of the arrays.
    references
        Follows the references in words.
    """
    out: list[tuple[Any, Any]] = []
    left = dict(cotangents)
    for one in found:
        g = left.pop(id(one.array), None)
        if g is None:
            continue
        if isinstance(one.type, ArrayT):
            out += _of_parts(one, one.type, g, references)
        else:
            out.append((one.words[0], g))
    return out, left


def _of_parts(one: FoundArray, t: ArrayT, g: Any, references: References) -> list[tuple[Any, Any]]:
    """Return the adjoints of the parts of an array that the model wrote into, from that of the array."""
    parts = references.items(one.words[0], 1)
    places: dict[int, Any] = {}  # indices of a part's elements among the elements of all parts
    count = 0

    def numbers(k: int) -> Any:
        nonlocal count
        if k not in places:
            shape = references.shape(parts[k], t.item.rank)
            size = int(np.prod(shape, dtype=np.int64))
            places[k] = np.arange(count, count + size).reshape(shape)
            count += size
        return places[k]

    where = elements(t, [int(n) for n in one.words[1:]], numbers)
    total = np.zeros(count, g.dtype)
    np.add.at(total, where.astype(np.int64).reshape(-1), g.reshape(-1))
    return [(parts[k], total[at.reshape(-1)].reshape(at.shape)) for k, at in places.items()]
