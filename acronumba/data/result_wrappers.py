"""Conversion of results to Python classes that words do not represent: Counter, deque, defaultdict, range.

Such a value is stored as a dict or list. For a result, or an item of a returned tuple, a `Wrap` names the class that
the dict or list is converted to.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from acronumba.generics import Value
from acronumba.records import record


@record()
class Whole:
    """A value built from a dict or list."""

    kind: type
    extra: Value = None  # `maxlen` of a deque, `default_factory` of a defaultdict


@record()
class Parts:
    """A tuple or dict with items to convert."""

    items: tuple[Value, ...]  # wraps
    keys: tuple[str, ...] | None = None  # of a dict


Wrap: TypeAlias = Whole | Parts | None  # None: no conversion


def wrapped(value: Value, wrap: Wrap) -> Value:
    """Convert a decoded result to the classes that `wrap` names."""
    return value if wrap is None else _wrapped(value, wrap, {})


def _wrapped(value: Value, wrap: Wrap, made: dict[int, Value]) -> Value:
    """Convert a value; `made` maps ids of dicts and lists to their conversions, so that aliases stay aliases."""
    if wrap is None or value is None:
        return value
    if isinstance(wrap, Whole):
        if id(value) not in made:
            known = value.__class__ is tuple and wrap.kind is not range
            made[id(value)] = wrap.kind(value) if known else _MADE[wrap.kind](value, wrap.extra)
        return made[id(value)]
    if wrap.keys is not None:
        return {k: _wrapped(value[k], w, made) for k, w in zip(wrap.keys, wrap.items, strict=True)}
    return tuple([_wrapped(v, w, made) for v, w in zip(value, wrap.items, strict=True)])


_MADE: Mapping[type, Any] = {
    Counter: lambda value, extra: Counter(value),
    OrderedDict: lambda value, extra: OrderedDict(value),
    defaultdict: lambda value, extra: defaultdict(extra, value),
    deque: lambda value, extra: deque(value, extra),
    range: lambda value, extra: range(*value),
}
