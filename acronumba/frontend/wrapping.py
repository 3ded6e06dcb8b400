"""Python forms of results that their words do not tell (deques, counters); `data.result_wrappers` rebuilds them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from acronumba.data.result_wrappers import Parts, Whole, Wrap
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.maps import DictVal, MapVal
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.walker import Walker


def unwrapped(w: Walker, val: Val) -> tuple[Val, Any]:
    """Return a result as a value of its words alone, and its wrapper; the wrapper of None is `ANYTHING`."""
    match val:
        case NoneVal():
            return val, ANYTHING
        case ListVal() | MapVal() if val.children():
            inner, *more = val.children()
            extra = w.static(more[0]) if more else None
            if extra is NOT_CONST or (val.cls is defaultdict and not (extra is None or isinstance(extra, type))):
                seen = f"{w.describe(val)}, whose {'default' if val.cls is defaultdict else 'maxlen'} is not known"
                raise w.reject("ACR308", seen=seen, rewrite=val.stored_as)
            return inner, Whole(val.cls, extra)
        case TupleVal() | DictVal():
            parts = [unwrapped(w, v) for v in val.items]
            wraps = tuple(p for _, p in parts)
            if all(p is ANYTHING or p is None for p in wraps):
                return val, None
            items = tuple(v for v, _ in parts)
            if isinstance(val, TupleVal):
                return TupleVal(items), Parts(wraps)
            return DictVal(val.keys, items), Parts(wraps, val.keys)
    return val, None


ANYTHING = object()


def either(w: Walker, a: Any, b: Any) -> Any:
    """Return the common wrapper of two results; reject results with different wrappers."""
    if a is ANYTHING or b is ANYTHING:
        return b if a is ANYTHING else a
    if isinstance(a, Parts) and isinstance(b, Parts) and a.keys == b.keys and len(a.items) == len(b.items):
        return Parts(tuple(either(w, x, y) for x, y in zip(a.items, b.items, strict=True)), a.keys)
    if a != b:
        kinds = " and ".join(f"a {x.kind.__name__}" if isinstance(x, Whole) else "another value" for x in (a, b))
        raise w.reject("ACR308", seen=f"results that are {kinds}", rewrite="return the same kind on every path")
    return a


def finished(wrap: Any) -> Wrap:
    """Return the wrapper of a model's results; parts that are always None need none."""
    if isinstance(wrap, Parts):
        return Parts(tuple(map(finished, wrap.items)), wrap.keys)
    return None if wrap is ANYTHING else wrap
