"""The columns of a call: positional arguments as sequences of instances.

In: the user's argument for a positional parameter. Out: a list, an array, or a `Packed`. An infinite iterator is
rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count, cycle, islice, repeat
from operator import length_hint

import numpy as np

from acronumba.data.classes import is_record
from acronumba.data.hints import Hint
from acronumba.errors.codes import reject
from acronumba.foreign import as_numpy, is_foreign
from acronumba.generics import Value
from acronumba.locks import undivided

_SOME = 1 << 16  # items taken from an iterator between checks of the free memory


def as_columns(values: Sequence[Value], names: Sequence[str], hint: Callable[[str], Hint] | None = None) -> list[Value]:
    """Return the positional arguments of a batch as sequences; an infinite iterator is not drained.

    Parameters
    ----------
    values : sequence
        The arguments.
    names : sequence of str
        Names of their parameters.
    hint : callable, optional
        From the name of a parameter to the hint of its annotation, which gives the class of Arrow structs.
    """
    for value in values:
        if type(value) is not list and not is_packed(value):
            break
    else:
        return list(values)
    named = zip(range(len(values)), values, names, strict=False)
    found = [None if isinstance(v, Iterator) else _column(v, n, k, hint) for k, v, n in named]
    count = min((len(column) for column in found if column is not None), default=None)
    for k, value in enumerate(values):
        if found[k] is None:
            # One more than there are instances is enough to see that there are too many.
            found[k] = _drained(value, names[k]) if count is None else list(islice(value, count + 1))
    return found


def _drained(values: Iterator[Value], name: str) -> list[Value]:
    """Return the items of an iterator; raise if it is known to be infinite, or fills the memory."""
    with undivided:
        from acronumba.memory import available

    endless = type(values) in (count, cycle) or (type(values) is repeat and not _has_length(values))
    out: list[Value] = []
    free = available()
    while not endless and (some := list(islice(values, _SOME))):
        out += some
        endless = len(some) == _SOME and available() < free // 2
    if endless:
        del out
        raise reject(
            "ACR706",
            message=f"the column for `{name}` is infinite, or needs more than half of the free memory",
            seen=type(values).__name__,
            rewrite="itertools.islice(values, n) for the first n",
        )
    return out


def _column(value: Value, name: str, k: int, hint: Callable[[str], Hint] | None) -> Value:
    """Return positional argument `k` of a batch as a sequence."""
    if is_packed(value) or type(value) is list:
        return value
    _reject_table(value, name)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        with undivided:
            from acronumba.data import arrow
        if arrow.is_arrow(value):
            return arrow.column_of(value, name) if hint is None else arrow.column_of(value, name, hint(name))
    if has_rows(value):
        array = as_numpy(value)
        if isinstance(array, str):
            raise reject("ACR706", message=f"the column for `{name}` cannot be read", seen=array)
        value = array
    if isinstance(value, np.ndarray) and value.ndim:
        return value if type(value) in (np.ndarray, np.memmap) else list(value)  # subclasses may override rows
    if isinstance(value, str | bytes | np.ndarray) or is_record(type(value)) or not isinstance(value, Iterable):
        shared = f"; if all instances share it, put `*` before `{name}` and pass it by name" if k else ""
        raise reject(
            "ACR706",
            message=f"the column for `{name}` must be a sequence of instances",
            seen=type(value).__name__,
            rewrite=f"for one instance, call the model itself or pass [{name}]{shared}",
        )
    return list(value)


def has_rows(value: Value) -> bool:
    """Whether a value is a tensor of another library, and not a container of Python values such as a Series."""
    return is_foreign(value) and hasattr(value, "__dlpack__")


def _reject_table(value: Value, name: str) -> None:
    """Reject tables, which hold the columns of several parameters, and objects with indexing but no iteration."""
    if isinstance(value, Mapping) or _is_table(value):
        named = value if isinstance(value, Mapping) else getattr(value, "column_names", getattr(value, "columns", ()))
        keys = [k for k in named if isinstance(k, str)][:2] or ["a", "b"]
        raise reject(
            "ACR706",
            message=f"the column for `{name}` is a table: pass each of its columns for a separate parameter",
            seen=type(value).__name__,
            rewrite=", ".join(f'{"d" if isinstance(value, Mapping) else "df"}["{k}"]' for k in keys),
        )
    if hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__") and not isinstance(value, Iterable):
        raise reject(
            "ACR706",
            message=f"the column for `{name}` has rows that can only be accessed by index",
            seen=type(value).__name__,
            rewrite="[d[k] for k in range(len(d))]; of rows with a value for each parameter: *zip(*rows)",
        )


def _has_length(values: Iterator[Value]) -> bool:
    """Whether an iterator knows how much it has left."""
    try:
        return length_hint(values, -1) >= 0
    except TypeError:
        return False


def _is_table(value: Value) -> bool:
    """Whether a value is a table with named columns, such as a DataFrame, which iterates over the names."""
    return hasattr(type(value), "__dataframe__") or not callable(getattr(value, "columns", len))


def is_packed(value: Value) -> bool:
    return getattr(type(value), "__acronumba_packed__", False)


def groups(columns: Sequence[Value]) -> dict[Hashable, list[int]]:
    """Group instance numbers by the types of the instances, the largest group first."""
    with undivided:
        from acronumba.data.pack import infer
    found: dict[Hashable, list[int]] = {}
    for k, instance in enumerate(zip(*columns, strict=True)):
        found.setdefault(infer([[v] for v in instance]).key, []).append(k)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0])))
