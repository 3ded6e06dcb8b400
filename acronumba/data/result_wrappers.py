"""What a result is beside its words: a counter, a deque, a dict with a default.

The words of such a value are those of a dict or list. Where one is returned, or lies in a returned tuple, a `Wrap` says
what is made of that.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from acronumba.records import record


@record()
class Whole:
    """A value that is made of a dict or list."""

    kind: type
    extra: Any = None  # the most elements of a deque, what gives the default of a dict


@record()
class Parts:
    """A tuple or dict of which some items are made of others."""

    items: tuple[Any, ...]  # wraps
    keys: tuple[str, ...] | None = None  # of a dict


Wrap: TypeAlias = Whole | Parts | None  # None: the value is what its words say


def wrapped(value: Any, wrap: Wrap) -> Any:
    """Return what a result is, of what its words say."""
    return value if wrap is None else _wrapped(value, wrap, {})


def _wrapped(value: Any, wrap: Wrap, made: dict[int, Any]) -> Any:
    """Return the same; what was made of the same dict or list before is one object."""
    if wrap is None or value is None:
        return value
    if isinstance(wrap, Whole):
        if id(value) not in made:
            made[id(value)] = _MADE[wrap.kind](value, wrap.extra)
        return made[id(value)]
    if wrap.keys is not None:
        return {k: _wrapped(value[k], w, made) for k, w in zip(wrap.keys, wrap.items, strict=True)}
    return tuple([_wrapped(v, w, made) for v, w in zip(value, wrap.items, strict=True)])


_MADE: Mapping[type, Any] = {
    Counter: lambda value, extra: Counter(value),
    OrderedDict: lambda value, extra: OrderedDict(value),
    defaultdict: lambda value, extra: defaultdict(extra, value),
    deque: lambda value, extra: deque(value, extra),
}
