"""Python forms of results that their words do not tell (deques, counters); `data.result_wrappers` rebuilds them."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from acronumba.data.result_wrappers import Parts, Whole, Wrap
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.walker import Walker
from acronumba.ir.types import NONE


def unwrapped(w: Walker, val: Val) -> tuple[Val, Any]:
    """Return a result as a value of its words alone, and its wrapper; the wrapper of None is `ANYTHING`."""
    cls = val.python_class
    if cls is not dict and issubclass(cls, deque | dict):
        inner, *more = val.children()
        extra = w.static(more[0]) if more else None
        if extra is NOT_CONST or (cls is defaultdict and not (extra is None or isinstance(extra, type))):
            seen = f"{w.describe(val)}, whose {'default' if cls is defaultdict else 'maxlen'} is not known"
            raise w.reject("ACR308", seen=seen, rewrite=val.stored_as)
        return inner, Whole(cls, extra)
    if cls is range:
        return TupleVal(val.children()), Whole(range)
    if val.shown is not None:
        return val, Whole(val.shown)
    parts = [unwrapped(w, v) for v in val.result_parts()]
    wraps = tuple(p for _, p in parts)
    if all(p is ANYTHING or p is None for p in wraps):
        return val, ANYTHING if val.word_type() == NONE else None
    keys = val.keys if isinstance(val, DictVal) else None
    return val.with_children([v for v, _ in parts]), Parts(wraps, keys)


ANYTHING = object()


def either(w: Walker, a: Any, b: Any) -> Any:
    """Return the common wrapper of two results; reject results with different wrappers."""
    if a is ANYTHING or b is ANYTHING:
        return b if a is ANYTHING else a
    if isinstance(a, Parts) and isinstance(b, Parts) and a.keys == b.keys and len(a.items) == len(b.items):
        return Parts(tuple(either(w, x, y) for x, y in zip(a.items, b.items, strict=True)), a.keys)
    if a != b and all(x is None or (isinstance(x, Whole | Parts) and _is_tuple(x)) for x in (a, b)):
        return None
    if a != b:
        kinds = " and ".join(f"a {x.kind.__name__}" if isinstance(x, Whole) else "another value" for x in (a, b))
        raise w.reject("ACR308", seen=f"results that are {kinds}", rewrite="return the same kind on every path")
    return a


def _is_tuple(wrap: Whole | Parts) -> bool:
    """Whether a wrapper may be left out, as it makes tuples of a class of tuples alone."""
    if isinstance(wrap, Whole):
        return issubclass(wrap.kind, tuple)
    return all(x is None or x is ANYTHING or _is_tuple(x) for x in wrap.items)


def finished(wrap: Any) -> Wrap:
    """Return the wrapper of a model's results; parts that are always None need none."""
    if isinstance(wrap, Parts):
        return Parts(tuple(map(finished, wrap.items)), wrap.keys)
    return None if wrap is ANYTHING else wrap
