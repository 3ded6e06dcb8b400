"""`itertools`, `functools.reduce`, `operator` and others in the compiled language; calls of them are inlined.

An iterator is the list of its elements, consumed once. With all items known, functions in `KNOWN` run at compile time.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

from acronumba.frontend.calls import of_math as mathematics

WRITTEN: dict[Any, Callable[..., Any]] = {}  # a library function -> the function that is compiled in its place
ITERATORS: set[Any] = set()  # keys of `WRITTEN` that return an iterator
# Functions that only rearrange items: where all items are known, they are called on the abstract values themselves.
KNOWN = frozenset((
    itertools.chain, itertools.product, itertools.pairwise, itertools.zip_longest, itertools.combinations,
    itertools.permutations, itertools.combinations_with_replacement, itertools.islice,
))  # fmt: skip


def has_written(function: Any) -> bool:
    """Whether a value is a library function that `WRITTEN` replaces."""
    try:
        return function in WRITTEN
    except TypeError:  # it is not hashable
        return False


def stands_for(function: Any, iterator: bool = True) -> Callable[[Any], Any]:
    """Register the decorated function to be compiled in place of a library function."""

    def register(f: Any) -> Any:
        WRITTEN[function] = f
        if iterator:
            ITERATORS.add(function)
        return f

    return register


WRITTEN |= {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.truediv: lambda a, b: a / b,
    operator.floordiv: lambda a, b: a // b,
    operator.mod: lambda a, b: a % b,
    operator.pow: lambda a, b: a**b,
    operator.matmul: lambda a, b: a @ b,
    operator.and_: lambda a, b: a & b,
    operator.or_: lambda a, b: a | b,
    operator.xor: lambda a, b: a ^ b,
    operator.lshift: lambda a, b: a << b,
    operator.rshift: lambda a, b: a >> b,
    operator.concat: lambda a, b: a + b,
    operator.neg: lambda a: -a,
    operator.pos: lambda a: +a,
    operator.inv: lambda a: ~a,
    operator.not_: lambda a: not a,
    operator.truth: lambda a: bool(a),
    operator.lt: lambda a, b: a < b,
    operator.le: lambda a, b: a <= b,
    operator.eq: lambda a, b: a == b,
    operator.ne: lambda a, b: a != b,
    operator.ge: lambda a, b: a >= b,
    operator.gt: lambda a, b: a > b,
    operator.is_: lambda a, b: a is b,
    operator.is_not: lambda a, b: a is not b,
    operator.contains: lambda a, b: b in a,
    operator.getitem: lambda a, b: a[b],
}
WRITTEN[int.bit_length] = mathematics.bit_length
WRITTEN[float.is_integer] = mathematics.is_integer
WRITTEN[math.fsum] = mathematics.fsum


@stands_for(functools.reduce, iterator=False)
def reduce(function: Any, iterable: Any, *initial: Any) -> Any:
    if len(initial) > 0:
        out = initial[0]
        for x in iterable:
            out = function(out, x)
        return out
    items = list(iterable)
    if len(items) == 0:
        raise TypeError("reduce() of empty iterable with no initial value")
    out = items[0]
    for x in items[1:]:
        out = function(out, x)
    return out


@stands_for(itertools.chain)
def chain(*iterables: Any) -> Any:
    out = []
    for part in iterables:
        for x in part:
            out.append(x)
    return out


@stands_for(vars(itertools.chain)["from_iterable"])
def from_iterable(iterable: Any) -> Any:
    return [x for part in iterable for x in part]


@stands_for(itertools.product)
def product(*iterables: Any, repeat: Any = 1) -> Any:
    parts = iterables * repeat
    if len(parts) == 0:
        return [()]
    if len(parts) == 1:
        return [(x,) for x in parts[0]]
    if len(parts) == 2:
        return [(x, y) for x in parts[0] for y in parts[1]]
    return [(x, *rest) for x in parts[0] for rest in product(*parts[1:])]


@stands_for(itertools.accumulate)
def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    items = list(iterable)
    out: list[Any] = []
    if initial is None:
        if len(items) == 0:
            return out
        total = items[0]
        rest = items[1:]
    else:
        total = initial
        rest = items
    out.append(total)
    for x in rest:
        total = total + x if func is None else func(total, x)
        out.append(total)
    return out


@stands_for(itertools.pairwise)
def pairwise(iterable: Any) -> Any:
    items = list(iterable)
    return list(zip(items, items[1:], strict=False))


@stands_for(itertools.zip_longest)
def zip_longest(a: Any, b: Any, *, fillvalue: Any = None) -> Any:
    left, right = list(a), list(b)
    out = []
    for k in range(max(len(left), len(right))):
        x = left[k] if k < len(left) else fillvalue
        y = right[k] if k < len(right) else fillvalue
        out.append((x, y))
    return out


@stands_for(itertools.islice)
def islice(iterable: Any, *bounds: Any) -> Any:
    items = list(iterable)
    if len(bounds) == 1:
        return items[: bounds[0]]
    if len(bounds) == 2:
        return items[bounds[0] : bounds[1]]
    return items[bounds[0] : bounds[1] : bounds[2]]


@stands_for(itertools.repeat)
def repeat(object: Any, times: Any) -> Any:
    return [object for _ in range(times)]


@stands_for(itertools.groupby)
def groupby(iterable: Any, key: Any = None) -> Any:
    out: list[Any] = []
    for x in iterable:
        k = x if key is None else key(x)
        if len(out) > 0 and out[-1][0] == k:
            out[-1][1].append(x)
        else:
            out.append((k, [x]))
    return out


@stands_for(itertools.combinations)
def combinations(iterable: Any, r: Any) -> Any:
    items = list(iterable)
    if r == 1:
        return [(x,) for x in items]
    if r == 2:
        return [(items[i], items[j]) for i in range(len(items)) for j in range(i + 1, len(items))]
    return [(items[i], *rest) for i in range(len(items)) for rest in combinations(items[i + 1 :], r - 1)]


@stands_for(itertools.combinations_with_replacement)
def combinations_with_replacement(iterable: Any, r: Any) -> Any:
    items = list(iterable)
    if r == 1:
        return [(x,) for x in items]
    return [(items[i], *rest) for i in range(len(items)) for rest in combinations_with_replacement(items[i:], r - 1)]


@stands_for(itertools.permutations)
def permutations(iterable: Any, r: Any = None) -> Any:
    items = list(iterable)
    if r == 1:
        return [(x,) for x in items]
    n = len(items)
    rest = (n if r is None else r) - 1
    return [(items[i], *part) for i in range(n) for part in permutations(items[:i] + items[i + 1 :], rest)]


@stands_for(itertools.takewhile)
def takewhile(predicate: Any, iterable: Any) -> Any:
    out = []
    for x in iterable:
        if not predicate(x):
            break
        out.append(x)
    return out


@stands_for(itertools.dropwhile)
def dropwhile(predicate: Any, iterable: Any) -> Any:
    out = []
    dropping = True
    for x in iterable:
        if dropping and predicate(x):
            continue
        dropping = False
        out.append(x)
    return out


@stands_for(itertools.starmap)
def starmap(function: Any, iterable: Any) -> Any:
    return [function(*args) for args in iterable]


@stands_for(itertools.filterfalse)
def filterfalse(function: Any, iterable: Any) -> Any:
    if function is None:
        return [x for x in iterable if not x]
    return [x for x in iterable if not function(x)]


@stands_for(itertools.compress)
def compress(data: Any, selectors: Any) -> Any:
    return [x for x, s in zip(data, selectors, strict=False) if s]


@stands_for(filter)
def filter_(function: Any, iterable: Any) -> Any:
    if function is None:
        return [x for x in iterable if x]
    return [x for x in iterable if function(x)]


@stands_for(vars(dict)["fromkeys"], iterator=False)
def fromkeys(iterable: Any, value: Any = None) -> Any:
    out = {}
    for k in iterable:
        out[k] = value
    return out


def most_common(pairs: Any, n: Any = None) -> Any:
    """Return (element, count) pairs by decreasing count: the first `n`, or all."""
    out = sorted(pairs, key=lambda pair: pair[1], reverse=True)
    return out if n is None else out[:n]
