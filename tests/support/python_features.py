"""Features of Python, each as a small model: what `docs/language.md` lists, and what `test_python_features.py` runs.

Each function is one feature: its docstring is the row of the table, `GROUPS` its section. All take the same instances:
an array, an int, a list of ints that may be empty, a list of floats, and a member of an enum.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import enum
import functools
import heapq
import itertools
import math
import operator
import re
import statistics
from collections import Counter, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from itertools import accumulate, chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np

FEATURES: dict[str, list[Callable[..., Any]]] = {}
Model = Callable[..., Any]


def of(group: str) -> Callable[[Model], Model]:
    """Put a function into a section of the table."""

    def add(function: Model) -> Model:
        FEATURES.setdefault(group, []).append(function)
        return function

    return add


class Measured:
    """What computes something once."""

    def __init__(self, n: int) -> None:
        self.n = n

    @functools.cached_property
    def double(self) -> int:
        return self.n * 2


class Ranked:
    """What has ranks."""

    RANKS = range(1, 9, 2)


class Kind(enum.Enum):
    """What an instance may be."""

    A = 1
    B = 2
    C = 3


@dataclass
class Point:
    """A pair of numbers."""

    x: float
    y: float = 0.0
    tags: list[int] = field(default_factory=list)

    def norm(self) -> float:
        return math.sqrt(self.x * self.x + self.y * self.y)

    @property
    def total(self) -> float:
        return self.x + self.y

    @staticmethod
    def unit() -> Point:
        return Point(1.0, 0.0)

    @classmethod
    def of(cls, n: int) -> Point:
        return cls(float(n), 1.0)

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)


class Ordered:
    """What has an order, elements, slices and a text of its own."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __lt__(self, other: Ordered) -> bool:
        return self.n > other.n

    def __getitem__(self, i: Any) -> Any:
        return [self.n, 7, 8][i]

    def __str__(self) -> str:
        return "ordered"


class Pair(NamedTuple):
    """Two values."""

    a: int
    b: float


Two = namedtuple("Two", ["first", "second"])

INSTANCES = [
    (np.array([1.0, -2.0, 3.0], np.float32), 3, [4, 1, 3, 1], [0.5, 2.0, -1.0], Kind.B),
    (np.array([0.5, 0.25, 0.0], np.float32), 0, [], [], Kind.A),
    (np.array([-1.0, 2.0, 8.0], np.float32), 5, [2], [1.5], Kind.C),
    (np.array([2.0, 2.0, 2.0], np.float32), 1, [1, 2, 3, 4, 5, 6, 7], [3.0, 2.0, 1.0, 0.0], Kind.B),
]

# ---- statements


@of("Statements")
def assign_several(x, n, xs, ws, k):
    """`a = b = x`"""
    a = b = n + 1
    return a, b


@of("Statements")
def unpack(x, n, xs, ws, k):
    """`a, (b, c) = ...`"""
    a, (b, c) = n, (n + 1, x)
    return a + b, c


@of("Statements")
def unpack_star(x, n, xs, ws, k):
    """`a, *rest = ...`"""
    first, *rest = [n, *xs]
    return first, rest


@of("Statements")
def swap(x, n, xs, ws, k):
    """`a, b = b, a`"""
    a, b = n, 7
    a, b = b, a
    return a, b


@of("Statements")
def augmented(x, n, xs, ws, k):
    """`a += b`, `-=`, `*=`, `//=`, `%=`, `**=`"""
    a = n + 10
    a += 2
    a -= 1
    a *= 3
    a //= 2
    a %= 7
    a **= 2
    return a


@of("Statements")
def annotated(x, n, xs, ws, k):
    """`a: int = b`"""
    a: int = n
    return a


@of("Statements")
def if_elif_else(x, n, xs, ws, k):
    """`if` `elif` `else`"""
    if n > 3:
        y = x
    elif n > 0:
        y = x * 2
    else:
        y = x * 3
    return y


@of("Statements")
def while_loop(x, n, xs, ws, k):
    """`while`"""
    i = 0
    while i < n:
        x = x * 0.5
        i += 1
    return x


@of("Statements")
def while_else(x, n, xs, ws, k):
    """`while` ... `else`"""
    i = 0
    while i < n:
        if i == 2:
            break
        i += 1
    else:
        i = 100
    return i


@of("Statements")
def for_else(x, n, xs, ws, k):
    """`for` ... `else`"""
    for v in xs:
        if v == 3:
            found = v
            break
    else:
        found = -1
    return found


@of("Statements")
def for_else_known(x, n, xs, ws, k):
    """`for` ... `else` over known items"""
    for v in (1, 2, 3):
        if v == n:
            break
    else:
        return -1
    return v


@of("Statements")
def break_continue(x, n, xs, ws, k):
    """`break`, `continue`"""
    total = 0
    for v in xs:
        if v == 1:
            continue
        if v > 5:
            break
        total += v
    return total


@of("Statements")
def nested_loops(x, n, xs, ws, k):
    """nested loops"""
    total = 0
    for i in range(n):
        for j in range(i):
            total += i * j
    return total


@of("Statements")
def early_return(x, n, xs, ws, k):
    """`return` anywhere"""
    for v in xs:
        if v > 2:
            return v
    return -1


@of("Statements")
def assert_statement(x, n, xs, ws, k):
    """`assert`"""
    assert n >= 0
    return n


@of("Statements")
def assert_message(x, n, xs, ws, k):
    """`assert c, f"..."`"""
    assert n < 5, f"too many: {n} of {xs}"
    return n


@of("Statements")
def raise_statement(x, n, xs, ws, k):
    """`raise E("...")`"""
    if n == 5:
        raise ValueError("five")
    return n


@of("Statements")
def raise_formatted(x, n, xs, ws, k):
    """`raise E(f"... {x}")`"""
    if n == 5:
        raise ValueError(f"bad n: {n!r} {len(xs):03d}" + str(xs))
    return n


@of("Statements")
def try_lookup(x, n, xs, ws, k):
    """`try` ... `except E`"""
    try:
        return xs[n]
    except IndexError:
        return -1


@of("Statements")
def try_finally(x, n, xs, ws, k):
    """`try` ... `except (A, B) as e` ... `else` ... `finally`"""
    out = []
    for i in range(n):
        try:
            out.append(10 // (i - 1))
            if i == 3:
                raise KeyError(i)
        except (ZeroDivisionError, KeyError) as e:
            out.append(7 if isinstance(e, KeyError) else 8)
        else:
            out.append(9)
        finally:
            out.append(i)
    return out


@of("Statements")
def raise_from(x, n, xs, ws, k):
    """`raise E from e`, `raise`"""
    try:
        try:
            return 6 // (n - 2)
        except ZeroDivisionError as e:
            raise ValueError("two") from e
    except ValueError:
        return 0


@of("Statements")
def suppressed(x, n, xs, ws, k):
    """`with contextlib.suppress(E)`"""
    found = -1
    with contextlib.suppress(IndexError):
        found = xs[n]
    return found


@of("Statements")
def pass_statement(x, n, xs, ws, k):
    """`pass`"""
    if n:
        pass
    return n


@of("Statements")
def del_name(x, n, xs, ws, k):
    """`del x`"""
    y = x * 2
    z = y + 1
    del y
    return z


@of("Statements")
def del_item(x, n, xs, ws, k):
    """`del xs[i]`"""
    ys = [5, 6, 7, *xs]
    del ys[1]
    del ys[-1]
    return ys


@of("Statements")
def del_slice(x, n, xs, ws, k):
    """`del xs[a:b]`"""
    ys = [5, 6, 7, *xs]
    del ys[1:3]
    return ys


@of("Statements")
def with_errstate(x, n, xs, ws, k):
    """`with np.errstate(...)`"""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x / (x - x)
    return np.where(x > 0, 1.0, 0.0) + 0 * n, y.shape[0]


@of("Statements")
def match_literals(x, n, xs, ws, k):
    """`match` of literals"""
    match n:
        case 0:
            return 10
        case 1 | 2:
            return 20
        case m if m > 4:
            return m
        case _:
            return -1


@of("Statements")
def match_enum(x, n, xs, ws, k):
    """`match` of members of an enum"""
    match k:
        case Kind.A:
            return 1
        case Kind.B:
            return 2
    return 3


@of("Statements")
def match_tuple(x, n, xs, ws, k):
    """`match` of tuples"""
    match (n, len(xs)):
        case (0, _):
            return 1
        case (a, b):
            return a * b


@of("Statements")
def match_dict(x, n, xs, ws, k):
    """`match` of dicts"""
    d = {"op": "mul", "args": [n, 2], "at": 1}
    match d:
        case {"op": "add", "args": [a, b]}:
            return a + b, 0
        case {"op": "mul", "args": [a, b], **rest} if a > 1:
            return a * b, len(rest)
    return 0, 0


@of("Statements")
def match_class(x, n, xs, ws, k):
    """`match` of dataclasses"""
    p = Point(float(n), 2.0)
    match p:
        case Point(x=0.0):
            return 0.0
        case Point(x=a, y=b):
            return a + b


@of("Statements")
def match_string(x, n, xs, ws, k):
    """`match` of strings"""
    mode = "low" if n < 3 else "high"
    match mode:
        case "low":
            return x
        case "high":
            return x * 2


@of("Statements")
def match_sequence(x, n, xs, ws, k):
    """`match` of lists"""
    match xs:
        case []:
            return 0
        case [a]:
            return a
        case [a, *rest]:
            return a + len(rest)


@of("Statements")
def walrus(x, n, xs, ws, k):
    """`(a := b)`"""
    if (m := n * 2) > 4:
        return m
    return -m


@of("Statements")
def global_constant(x, n, xs, ws, k):
    """global constants"""
    return n * LIMIT


LIMIT = 7

# ---- expressions


@of("Expressions")
def conditional(x, n, xs, ws, k):
    """`a if c else b`"""
    return x if n > 2 else x * 2


@of("Expressions")
def chained(x, n, xs, ws, k):
    """`a < b < c`"""
    return 0 < n < 4


@of("Expressions")
def and_or_not(x, n, xs, ws, k):
    """`and`, `or`, `not`"""
    return (n > 2 and not xs) or n == 1


@of("Expressions")
def or_default(x, n, xs, ws, k):
    """`a or b` of numbers"""
    return n or 17


@of("Expressions")
def int_arithmetic(x, n, xs, ws, k):
    """`+ - * // % **` of ints"""
    return n + 1, n - 2, n * 3, n // 2, -n % 4, n**3


@of("Expressions")
def float_arithmetic(x, n, xs, ws, k):
    """`+ - * / // % **` of floats"""
    f = n + 0.5
    return f * 2, f / 3, f // 2, f % 2, f**2


@of("Expressions")
def true_division(x, n, xs, ws, k):
    """`a / b` of ints"""
    return n / 4


@of("Expressions")
def bits(x, n, xs, ws, k):
    """`& | ^ << >> ~`"""
    return n & 1, n | 8, n ^ 3, n << 2, n >> 1, ~n


@of("Expressions")
def is_none(x, n, xs, ws, k):
    """`x is None`"""
    y = None if n == 0 else x
    if y is None:
        return x
    return y + 1


@of("Expressions")
def none_or_value(x, n, xs, ws, k):
    """a value that may be None as the result"""
    return None if n == 0 else n


@of("Expressions")
def isinstance_test(x, n, xs, ws, k):
    """`isinstance`"""
    y = Point(1.0) if n > 2 else Pair(n, 2.0)
    if isinstance(y, Point):
        return y.x
    return y.b


@of("Expressions")
def int_or_float(x, n, xs, ws, k):
    """a number that is int on one path and float on another"""
    best = 0
    for w in ws:
        if w > best:
            best = w
    return best


@of("Expressions")
def int_or_float_arithmetic(x, n, xs, ws, k):
    """arithmetic with such a number"""
    best = 0 if n < 2 else 0.5
    return best + 1, best * 2, best > 0, x * best


@of("Expressions")
def mixed_list(x, n, xs, ws, k):
    """lists that mix ints and floats"""
    ys = [0, 1.5]
    ys.append(n)
    return sum(ys), ys


@of("Expressions")
def mixed_scalars(x, n, xs, ws, k):
    """lists that mix numbers and NumPy scalars"""
    ys = [0.0]
    for i in range(n):
        ys.append(x[i % 3] * 2)
    return np.array(ys).sum() > 1, len(ys)


@of("Expressions")
def string_constant(x, n, xs, ws, k):
    """strings compared"""
    mode = "a" if n > 2 else "b"
    return 1 if mode == "a" else 2


@of("Expressions")
def string_in(x, n, xs, ws, k):
    """`s in ("a", "b")`"""
    mode = "a" if n > 2 else "c" if n else "d"
    return mode in ("a", "c"), mode not in ["d"]


@of("Expressions")
def string_result(x, n, xs, ws, k):
    """strings as results"""
    return "many" if n > 2 else "few"


@of("Expressions")
def string_list(x, n, xs, ws, k):
    """lists of strings"""
    out = []
    for v in xs:
        out.append("odd" if v % 2 else "even")
    return out


@of("Expressions")
def f_string_key(x, n, xs, ws, k):
    """f-strings of the variable of a loop, as keys"""
    p = {"w0": 2.0, "w1": 3.0}
    y = x
    for i in range(2):
        y = y * p[f"w{i}"]
    return y


@of("Expressions")
def lambda_call(x, n, xs, ws, k):
    """`lambda`"""
    f = lambda v: v * 2 + n  # noqa: E731
    return f(x)


@of("Expressions")
def nested_function(x, n, xs, ws, k):
    """nested functions"""

    def twice(v):
        return v * 2 + n

    return twice(twice(x))


@of("Expressions")
def default_arguments(x, n, xs, ws, k):
    """default and keyword arguments"""

    def f(a, b=2, *, c=3):
        return a * b + c

    return f(n), f(n, 3), f(n, c=5), f(b=1, a=n)


@of("Expressions")
def star_arguments(x, n, xs, ws, k):
    """`def f(*args)`"""

    def f(*args):
        total = 0
        for a in args:
            total += a
        return total

    return f(1, n, 3), f()


@of("Expressions")
def star_call(x, n, xs, ws, k):
    """`f(*args)` with a tuple"""

    def f(a, b, c):
        return a + b * c

    args = (n, 2, 3)
    return f(*args)


@of("Expressions")
def star_call_list(x, n, xs, ws, k):
    """`f(*xs)` with a list"""

    def f(a, b):
        return a - b

    pair = [n, 2]
    return f(*pair)


@of("Expressions")
def star_call_max(x, n, xs, ws, k):
    """`max(*xs)` of a list of run-time length"""
    return max(*xs, 0, 1)


@of("Expressions")
def keyword_call(x, n, xs, ws, k):
    """`f(**kw)`"""

    def f(a, b):
        return a - b

    kw = {"a": n, "b": 2}
    return f(**kw)


@of("Expressions")
def kwargs_function(x, n, xs, ws, k):
    """`def f(**kw)`"""

    def f(**kw):
        return kw["a"] + kw.get("b", 10)

    return f(a=n), f(a=n, b=1)


@of("Expressions")
def recursion(x, n, xs, ws, k):
    """recursion"""

    def fib(m):
        return m if m < 2 else fib(m - 1) + fib(m - 2)

    return fib(n)


@of("Expressions")
def function_argument(x, n, xs, ws, k):
    """functions as arguments and in tuples"""

    def apply(f, v):
        return f(v)

    fs = (np.tanh, np.exp)
    return apply(np.tanh, x), fs[0](x) + fs[1](x * 0)


@of("Expressions")
def functions_in_a_list(x, n, xs, ws, k):
    """functions in a list that grows"""
    fs = []
    for i in range(n):
        fs.append(math.sin if i % 2 else math.cos)
    return sum([f(0.5) for f in fs]), fs


@of("Expressions")
def ternary_function(x, n, xs, ws, k):
    """a function chosen at run time"""
    f = np.tanh if n > 2 else np.abs
    return f(x)


# ---- lists


@of("Lists")
def list_display(x, n, xs, ws, k):
    """`[a, b]`, `[*xs, a]`"""
    return [n, 1], [*xs, n]


@of("Lists")
def list_append(x, n, xs, ws, k):
    """`append`"""
    out = []
    for i in range(n):
        out.append(x * i)
    return out


@of("Lists")
def list_extend(x, n, xs, ws, k):
    """`extend`, `+=`"""
    out = [1]
    out.extend(xs)
    out += [n]
    return out


@of("Lists")
def list_insert(x, n, xs, ws, k):
    """`insert`"""
    out = list(xs)
    out.insert(0, n)
    out.insert(-1, 9)
    return out


@of("Lists")
def list_pop(x, n, xs, ws, k):
    """`pop`"""
    out = [7, 8, *xs]
    a = out.pop()
    b = out.pop(0)
    return a, b, out


@of("Lists")
def list_remove(x, n, xs, ws, k):
    """`remove`"""
    out = [n, 3, *xs]
    out.remove(3)
    return out


@of("Lists")
def list_clear(x, n, xs, ws, k):
    """`clear`"""
    out = [1, *xs]
    out.clear()
    out.append(n)
    return out


@of("Lists")
def list_index(x, n, xs, ws, k):
    """`index`"""
    return [9, *xs, 9].index(9), [*xs, 3].index(3)


@of("Lists")
def list_count(x, n, xs, ws, k):
    """`count`"""
    return xs.count(1), [1, n, 1].count(1)


@of("Lists")
def list_reverse(x, n, xs, ws, k):
    """`reverse`"""
    out = list(xs)
    out.append(n)
    out.reverse()
    return out


@of("Lists")
def list_copy(x, n, xs, ws, k):
    """`copy`"""
    a = [n, *xs]
    b = a.copy()
    b.append(1)
    return a, b


@of("Lists")
def list_sort(x, n, xs, ws, k):
    """`sort`"""
    out = list(xs)
    out.sort()
    return out


@of("Lists")
def list_sort_key(x, n, xs, ws, k):
    """`sort(key=, reverse=)`"""
    out = list(xs)
    out.sort(key=lambda v: -v % 3, reverse=True)
    return out


@of("Lists")
def list_set(x, n, xs, ws, k):
    """`xs[i] = v`"""
    out = [0, 0, 0]
    out[1] = n
    out[-1] += 2
    return out


@of("Lists")
def list_slice(x, n, xs, ws, k):
    """`xs[a:b:c]`"""
    return xs[1:], xs[:-1], xs[::2], xs[::-1]


@of("Lists")
def list_slice_set(x, n, xs, ws, k):
    """`xs[a:b] = ys`"""
    out = [0, 1, 2, 3, *xs]
    out[1:3] = [n, n, n]
    return out


@of("Lists")
def list_slice_steps(x, n, xs, ws, k):
    """`xs[a:b:c] = ys`, `del xs[a:b:c]`"""
    ys = [n, *xs, 5, 6, 7]
    ys[1::2] = ys[1::2][::-1]
    zs = list(ys)
    del zs[::-2]
    return ys, zs


@of("Lists")
def list_of_unlike_things(x, n, xs, ws, k):
    """`[tokens, score]`: a list of unlike things that is not changed"""
    best = [[], 0.0]
    for t in xs:
        best = [[*best[0], t], best[1] + t * 0.5]
    tokens, score = best
    return best, len(tokens) + score


@of("Lists")
def list_sorted_by_comparison(x, n, xs, ws, k):
    """`sorted` of strings, lists, tuples of these and objects with `__lt__`"""
    names = ["b", "a", "ab"][: n % 3 + 1]
    return sorted(names), sorted([[t % 2, t] for t in xs]), [o.n for o in sorted([Ordered(t) for t in xs])]


@of("Lists")
def list_slice_all(x, n, xs, ws, k):
    """`xs[:] = ys`"""
    out = [0, 1]
    other = out
    out[:] = xs
    return other


@of("Lists")
def list_concat(x, n, xs, ws, k):
    """`xs + ys`"""
    return xs + [n]


@of("Lists")
def list_repeat(x, n, xs, ws, k):
    """`xs * n`"""
    return [0.0] * n, [1, 2] * 2


@of("Lists")
def list_equal(x, n, xs, ws, k):
    """`xs == ys`"""
    return xs == [1, 2], [n, 1] == [0, 1], xs != []


@of("Lists")
def list_less(x, n, xs, ws, k):
    """`xs < ys`"""
    return xs < [2], [n, 1] <= [1, 0]


@of("Lists")
def list_in(x, n, xs, ws, k):
    """`v in xs`"""
    return 3 in xs, n not in xs


@of("Lists")
def list_of_lists(x, n, xs, ws, k):
    """lists of lists"""
    grid = [[0] * 3 for _ in range(2)]
    grid[1][2] = n
    grid[0][0] += 1
    return grid


@of("Lists")
def list_comprehension(x, n, xs, ws, k):
    """`[f(v) for v in xs if c]`"""
    return [v * 2 for v in xs if v > 1]


@of("Lists")
def list_comprehension_nested(x, n, xs, ws, k):
    """`[... for a in xs for b in ys]`"""
    return [a * b for a in xs for b in range(n)]


@of("Lists")
def list_of_comprehension(x, n, xs, ws, k):
    """`[[...] for ...]`"""
    return [[i * j for j in range(i)] for i in range(n)]


@of("Lists")
def list_aliases(x, n, xs, ws, k):
    """two names of one list"""
    a = [n]
    b = a
    b.append(2)
    return a


@of("Lists")
def list_of_tuples(x, n, xs, ws, k):
    """lists of tuples"""
    pairs = [(v, v * 0.5) for v in xs]
    total = 0.0
    for a, b in pairs:
        total += a * b
    return total, pairs


@of("Lists")
def list_truth(x, n, xs, ws, k):
    """`if xs:`, `while stack:`"""
    stack = [n, 2]
    out = 0
    while stack:
        out += stack.pop()
    return out, 1 if xs else 2


@of("Lists")
def tuple_methods(x, n, xs, ws, k):
    """`t.index`, `t.count`"""
    t = (1, n, 3, 3)
    return t.count(3), t.index(3)


@of("Lists")
def tuple_operators(x, n, xs, ws, k):
    """`t + u`, `t * 2`, `t[a:b]`, `t == u`, `t < u`"""
    t = (1, n)
    return t + (2,), t * 2, (t + t)[1:3], t == (1, 3), t < (1, 2)


@of("Lists")
def tuple_of_run_time(x, n, xs, ws, k):
    """`tuple(xs)`"""
    return tuple(xs), tuple([n, 1, 2])


@of("Lists")
def tuple_that_grows(x, n, xs, ws, k):
    """`t + (v,)` in a loop, `(*xs, v)`"""
    t = ()
    for v in xs:
        t = t + (v,)
    return t, (*xs, n)


# ---- dicts and sets


@of("Dicts and sets")
def dict_of_constant_keys(x, n, xs, ws, k):
    """`d["h"] = x` of constant keys, with values of several types"""
    d = {"h": x, "n": 0}
    for i in range(n):
        d["h"] = d["h"] + 1
        d["n"] += i
    d["seen"] = [n]
    return d, len(d)


@of("Dicts and sets")
def trie(x, n, xs, ws, k):
    """`cur = cur.setdefault(ch, {})`: tries"""
    root = {}
    for w in ws:
        cur = root
        for ch in w:
            cur = cur.setdefault(ch, {})
        cur["$"] = True
    return root


@of("Dicts and sets")
def dict_display(x, n, xs, ws, k):
    """`{"a": x}`, `d["a"]`"""
    d = {"a": x, "b": n}
    return d["a"] * d["b"]


@of("Dicts and sets")
def dict_int_keys(x, n, xs, ws, k):
    """`d[i] = v` with int keys"""
    d = {}
    for v in xs:
        d[v] = x * v
    s = x
    for v in xs:
        s = s + d[v]
    return s, len(d)


@of("Dicts and sets")
def dict_string_keys(x, n, xs, ws, k):
    """`d["a"] = v`"""
    d = {}
    d["a"] = n
    d["b"] = n + 1
    if n > 2:
        d["a"] = 5
    return d["a"] + d["b"]


@of("Dicts and sets")
def dict_tuple_keys(x, n, xs, ws, k):
    """`d[i, j]`"""
    d = {}
    for i in range(n):
        for j in range(i):
            d[i, j] = i * 10 + j
    return d.get((2, 1), -1), (3, 0) in d, len(d)


@of("Dicts and sets")
def dict_enum_keys(x, n, xs, ws, k):
    """keys that are members of an enum"""
    d = {Kind.A: 1.0, Kind.B: 2.0}
    d[Kind.C] = 3.0
    return d[k]


@of("Dicts and sets")
def dict_enum_table(x, n, xs, ws, k):
    """`TABLE[kind]` of a constant dict"""
    return {Kind.A: 1, Kind.B: 20, Kind.C: 300}[k]


@of("Dicts and sets")
def dict_bool_keys(x, n, xs, ws, k):
    """bool keys"""
    d = {}
    for v in xs:
        d[v > 2] = v
    return d


@of("Dicts and sets")
def dict_of_functions(x, n, xs, ws, k):
    """a dict of functions"""
    act = {"tanh": np.tanh, "abs": np.abs}
    name = "tanh" if n > 2 else "abs"
    return act[name](x)


@of("Dicts and sets")
def dict_result(x, n, xs, ws, k):
    """dicts as results"""
    d = {}
    for i in range(n):
        d[i * 3] = x[0] * i
    return d


@of("Dicts and sets")
def dict_in(x, n, xs, ws, k):
    """`k in d`, `len(d)`, `if d:`"""
    d = {v: 1 for v in xs}
    return 3 in d, 9 not in d, len(d), 1 if d else 0


@of("Dicts and sets")
def dict_get(x, n, xs, ws, k):
    """`d.get(k)`, `d.get(k, v)`"""
    d = {v: v * 2 for v in xs}
    y = d.get(3)
    return d.get(n, -1), -1 if y is None else y


@of("Dicts and sets")
def dict_setdefault(x, n, xs, ws, k):
    """`d.setdefault(k, []).append(v)`"""
    groups = {}
    for v in xs:
        groups.setdefault(v % 3, []).append(v)
    return groups


@of("Dicts and sets")
def dict_pop(x, n, xs, ws, k):
    """`d.pop(k)`, `d.pop(k, v)`"""
    d = {v: v * 2 for v in [1, 2, 3, *xs]}
    a = d.pop(2)
    return a, d.pop(99, -1), d


@of("Dicts and sets")
def dict_popitem(x, n, xs, ws, k):
    """`d.popitem()`"""
    d = {v: v * 2 for v in [1, *xs]}
    return d.popitem(), d


@of("Dicts and sets")
def dict_del(x, n, xs, ws, k):
    """`del d[k]`"""
    d = {v: v * 2 for v in [1, 2, *xs]}
    del d[1]
    d[1] = 0
    return list(d), d


@of("Dicts and sets")
def dict_clear(x, n, xs, ws, k):
    """`d.clear()`, `d.copy()`, `dict(d)`"""
    d = {v: 1 for v in [1, *xs]}
    e = d.copy()
    g = dict(e)
    d.clear()
    g[n] = 5
    return d, e, g


@of("Dicts and sets")
def dict_update(x, n, xs, ws, k):
    """`d.update(e)`, `d | e`, `d |= e`"""
    d = {v: 1 for v in xs}
    e = {1: 2, 50: 3}
    both = d | e
    d.update(e)
    e |= {n: 9}
    return both, d, e


@of("Dicts and sets")
def dict_merge(x, n, xs, ws, k):
    """`{**a, "k": v}`"""
    a = {"x": 1, "y": n}
    return {**a, "z": 3, "x": 5}


@of("Dicts and sets")
def dict_items(x, n, xs, ws, k):
    """`for k, v in d.items()`"""
    d = {v: v * 0.5 for v in xs}
    total = 0.0
    for a, b in d.items():
        total += a * b
    return total


@of("Dicts and sets")
def dict_keys_values(x, n, xs, ws, k):
    """`d.keys()`, `d.values()`, `for k in d`"""
    d = {v: v * 2 for v in xs}
    return list(d.keys()), sum(d.values()), [a for a in d], list(d)


@of("Dicts and sets")
def dict_sorted(x, n, xs, ws, k):
    """`sorted(d)`, `sorted(d.items(), key=...)`"""
    d = {v: -v % 4 for v in xs}
    return sorted(d), sorted(d.items(), key=lambda kv: kv[1])


@of("Dicts and sets")
def dict_max(x, n, xs, ws, k):
    """`max(d, key=d.get)`"""
    d = {v: -v % 4 for v in [*xs, 1]}
    return max(d, key=d.get), max(d.values())


@of("Dicts and sets")
def dict_comprehension(x, n, xs, ws, k):
    """`{k: v for ... if c}`"""
    return {i: i * i for i in xs if i > 1}


@of("Dicts and sets")
def dict_enumerate(x, n, xs, ws, k):
    """`{v: i for i, v in enumerate(xs)}`"""
    where = {v: i for i, v in enumerate(xs)}
    return where.get(1, -1)


@of("Dicts and sets")
def dict_zip(x, n, xs, ws, k):
    """`dict(zip(xs, ys))`"""
    return dict(zip(xs, ws, strict=False))


@of("Dicts and sets")
def dict_count(x, n, xs, ws, k):
    """`d[k] = d.get(k, 0) + 1`"""
    d = {}
    for v in xs:
        d[v] = d.get(v, 0) + 1
    return d


@of("Dicts and sets")
def dict_augmented(x, n, xs, ws, k):
    """`d[k] += v`"""
    d = {0: 0.0, 1: 0.0}
    for v in xs:
        d[v % 2] += v
    return d


@of("Dicts and sets")
def dict_memo(x, n, xs, ws, k):
    """the memo dictionary of a recursion"""

    def fib(m, memo):
        if m in memo:
            return memo[m]
        out = m if m < 2 else fib(m - 1, memo) + fib(m - 2, memo)
        memo[m] = out
        return out

    return fib(n + 20, {})


@of("Dicts and sets")
def dict_memo_closure(x, n, xs, ws, k):
    """the memo dictionary of a nested function"""
    memo = {}

    def paths(i, j):
        if i == 0 or j == 0:
            return 1
        if (i, j) not in memo:
            memo[i, j] = paths(i - 1, j) + paths(i, j - 1)
        return memo[(i, j)]

    return paths(n, 4), len(memo)


@of("Dicts and sets")
def dict_of_dicts(x, n, xs, ws, k):
    """dicts of dicts"""
    d = {}
    for v in xs:
        if v % 2 not in d:
            d[v % 2] = {}
        d[v % 2][v] = v * 10
    return d


@of("Dicts and sets")
def dict_trees(x, n, xs, ws, k):
    """trees of dicts, tuples and lists"""

    def grow(m):
        return {"name": "leaf"} if m < 1 else {"name": "n", "kids": [grow(m - 1), grow(m - 2)]}

    def count(t):
        return 1 + sum([count(c) for c in t.get("kids", [])])

    return count(grow(n)), grow(2)


@of("Dicts and sets")
def dict_of_arrays(x, n, xs, ws, k):
    """dicts of arrays"""
    h = {-1: x}
    for t in range(n):
        h[t] = np.tanh(h[t - 1] + t)
    return h[n - 1]


@of("Dicts and sets")
def dict_key_error(x, n, xs, ws, k):
    """`KeyError` of the instance"""
    d = {v: 1 for v in xs}
    return d[4]


@of("Dicts and sets")
def dict_equal(x, n, xs, ws, k):
    """`d == e`"""
    d = {v: 1 for v in xs}
    return d == {2: 1}, d != {}


@of("Dicts and sets")
def dict_fromkeys(x, n, xs, ws, k):
    """`dict.fromkeys(xs, v)`"""
    return dict.fromkeys(xs, 0)


@of("Dicts and sets")
def dict_in_object(x, n, xs, ws, k):
    """a dict in a list and in a tuple"""
    d = {}
    stack = [d]
    stack[0][n] = 1
    pair = (d, n)
    pair[0][n + 1] = 2
    return d


@of("Dicts and sets")
def set_display(x, n, xs, ws, k):
    """`{a, b}`, `set()`, `s.add(v)`, `v in s`, `len(s)`"""
    s = {1, n}
    for v in xs:
        s.add(v)
    return len(s), 3 in s, s


@of("Dicts and sets")
def set_of(x, n, xs, ws, k):
    """`set(xs)`, `{... for ...}`, `sorted(s)`"""
    s = set(xs)
    return len(s), sorted(s), sorted({v % 3 for v in xs}, reverse=True)


@of("Dicts and sets")
def set_in_order(x, n, xs, ws, k):
    """`for v in s`, `list(s)`, `s.pop()`, `next(iter(s))`, `sorted(s, key=f)`, in Python's order"""
    s = set(xs) | {n, 15, 7}
    out = [v for v in s if v != n]
    first = next(iter(s))
    return out, list(s - {1}), s.pop(), first, sorted(s, key=lambda v: v % 3)


@of("Dicts and sets")
def set_operators(x, n, xs, ws, k):
    """`s | t`, `s & t`, `s - t`, `s ^ t`"""
    s, t = set(xs), {1, 2, 3}
    return s | t, s & t, s - t, s ^ t


@of("Dicts and sets")
def set_compare(x, n, xs, ws, k):
    """`s == t`, `s <= t`, `s < t`"""
    s = set(xs)
    return s == {2}, s <= {1, 2, 3, 4}, s < {2}, s >= {1}


@of("Dicts and sets")
def set_remove(x, n, xs, ws, k):
    """`discard`, `remove`, `update`, `union`, `difference`, `intersection`"""
    s = {7, *xs}
    s.discard(3)
    s.discard(100)
    s.remove(7)
    s.update([n, n])
    return s, s.union({5}), s.difference(xs), s.intersection([1, 2])


@of("Dicts and sets")
def set_visited(x, n, xs, ws, k):
    """a set of what was visited"""
    seen = set()
    out = []
    for v in xs:
        if v in seen:
            continue
        seen.add(v)
        out.append(v)
    return out


@of("Dicts and sets")
def set_of_tuples(x, n, xs, ws, k):
    """sets of tuples"""
    s = {(v, v % 2) for v in xs}
    return (1, 1) in s, len(s)


# ---- built-in functions


@of("Built-in functions")
def builtin_len(x, n, xs, ws, k):
    """`len`"""
    return len(xs), len(x), len((1, 2)), len(range(n))


@of("Built-in functions")
def builtin_range(x, n, xs, ws, k):
    """`range(a, b, c)` in a loop"""
    return [i for i in range(n, -1, -2)]


@of("Built-in functions")
def range_value(x, n, xs, ws, k):
    """a `range` indexed"""
    r = range(2, 20, 3)
    return r[1], r[-1], r[n]


@of("Built-in functions")
def range_run_time(x, n, xs, ws, k):
    """a `range` of run-time length indexed, measured, `in`"""
    r = range(1, n + 4)
    return r[2], len(r), 2 in r, r[-1]


@of("Built-in functions")
def range_passed(x, n, xs, ws, k):
    """a `range` passed and stored"""

    def total(r):
        out = 0
        for v in r:
            out += v
        return out

    rs = (range(n), range(3))
    return total(rs[0]), total(rs[1])


@of("Built-in functions")
def range_slice(x, n, xs, ws, k):
    """`range(n)[a:b]`"""
    return sum(range(10)[2:5]), list(range(n + 3)[1:])


@of("Built-in functions")
def range_compare(x, n, xs, ws, k):
    """`range(a) == range(b)`"""
    return range(n) == range(3), range(0) == range(2, 2)


@of("Built-in functions")
def range_step_in(x, n, xs, ws, k):
    """`v in range(a, b, c)`"""
    return n in range(1, 10, 2), 4 in range(n)


@of("Built-in functions")
def range_list(x, n, xs, ws, k):
    """`list(range(n))`, `reversed(range(n))`"""
    return list(range(n)), [i for i in reversed(range(n))]


@of("Built-in functions")
def builtin_min_max(x, n, xs, ws, k):
    """`min`, `max`"""
    return min(n, 3), max(n, 2, 4), min([*xs, 9]), max(xs, default=-1)


@of("Built-in functions")
def builtin_min_key(x, n, xs, ws, k):
    """`min(xs, key=f)`"""
    return min([*xs, 9], key=lambda v: v % 3)


@of("Built-in functions")
def builtin_sum(x, n, xs, ws, k):
    """`sum`"""
    return sum(xs), sum(ws), sum([v * 2 for v in xs]), sum(v for v in xs if v > 1)


@of("Built-in functions")
def builtin_sum_arrays(x, n, xs, ws, k):
    """`sum` of arrays"""
    return sum([x * i for i in range(n)], x)


@of("Built-in functions")
def builtin_any_all(x, n, xs, ws, k):
    """`any`, `all`"""
    return any(v > 3 for v in xs), all(v > 0 for v in xs), any([n > 2, n == 1])


@of("Built-in functions")
def builtin_abs_round(x, n, xs, ws, k):
    """`abs`, `round`, `int`, `float`, `bool`"""
    return abs(n - 3), round(n * 0.7), int(n * 0.9), float(n), bool(n)


@of("Built-in functions")
def builtin_round_digits(x, n, xs, ws, k):
    """`round(x, 2)`"""
    return round(n / 7, 2), round(1.005 * n, 1)


@of("Built-in functions")
def builtin_divmod_pow(x, n, xs, ws, k):
    """`divmod`, `pow`"""
    return divmod(n, 2), pow(n, 2), pow(n, 3, 7)


@of("Built-in functions")
def builtin_zip(x, n, xs, ws, k):
    """`zip`"""
    return [a * b for a, b in zip(xs, ws, strict=False)]


@of("Built-in functions")
def builtin_zip_star(x, n, xs, ws, k):
    """`zip(*pairs)` of known length"""
    pairs = [(1, n), (2, n + 1)]
    a, b = zip(*pairs, strict=True)
    return a, b


@of("Built-in functions")
def builtin_enumerate(x, n, xs, ws, k):
    """`enumerate`"""
    return [i * v for i, v in enumerate(xs, 1)]


@of("Built-in functions")
def builtin_reversed(x, n, xs, ws, k):
    """`reversed`"""
    return [v for v in reversed(xs)]


@of("Built-in functions")
def builtin_sorted(x, n, xs, ws, k):
    """`sorted`"""
    return sorted(xs), sorted(xs, reverse=True), sorted(xs, key=lambda v: -v)


@of("Built-in functions")
def builtin_map(x, n, xs, ws, k):
    """`map`"""
    return list(map(lambda v: v * 2, xs))


@of("Built-in functions")
def builtin_map_several(x, n, xs, ws, k):
    """`map(f, xs, ys)`"""
    return list(map(lambda a, b: a * b, xs, ws))


@of("Built-in functions")
def builtin_filter(x, n, xs, ws, k):
    """`filter`"""
    return list(filter(lambda v: v > 1, xs))


@of("Built-in functions")
def builtin_list_tuple(x, n, xs, ws, k):
    """`list`, `tuple`"""
    return list(xs), tuple((n, 1)), list((n, 2))


@of("Built-in functions")
def builtin_isinstance_number(x, n, xs, ws, k):
    """`isinstance(x, (int, float))`"""
    v = n if n > 1 else n * 0.5
    return isinstance(v, int), isinstance(v, (int, float))


@of("Built-in functions")
def builtin_type(x, n, xs, ws, k):
    """`type(x) is int`"""
    return type(n) is int, type(x).__name__ == "ndarray"


@of("Built-in functions")
def builtin_hasattr(x, n, xs, ws, k):
    """`hasattr`, `getattr`"""
    p = Point(1.0)
    return hasattr(p, "x"), hasattr(p, "zz"), getattr(p, "y"), getattr(p, "zz", 5)  # noqa: B009


@of("Built-in functions")
def builtin_callable(x, n, xs, ws, k):
    """`callable`"""
    return callable(np.tanh), callable(n)


@of("Built-in functions")
def builtin_next(x, n, xs, ws, k):
    """`next(... for ... if c)`"""
    return next((v for v in xs if v > 2), -1)


@of("Built-in functions")
def builtin_iter(x, n, xs, ws, k):
    """`iter`, `next`"""
    it = iter((n, n + 1))
    return next(it) * 10 + next(it)


@of("Built-in functions")
def builtin_slice(x, n, xs, ws, k):
    """`slice(a, b)`"""
    s = slice(1, None)
    return x[s], xs[s]


@of("Built-in functions")
def builtin_complex_call(x, n, xs, ws, k):
    """`int.bit_length`, `float.is_integer`"""
    return n.bit_length(), (n * 0.5).is_integer()


@of("Built-in functions")
def math_functions(x, n, xs, ws, k):
    """`math.sqrt`, `exp`, `log`, `floor`, `ceil`, `pi`, `inf`"""
    return math.sqrt(n), math.exp(-n), math.log(n + 1), math.floor(n * 0.7), math.ceil(n * 0.7), math.pi, -math.inf


@of("Built-in functions")
def math_isnan(x, n, xs, ws, k):
    """`math.isnan`, `isinf`, `isclose`, `prod`"""
    return math.isnan(n * 1.0), math.isinf(n * 1.0), math.isclose(n, 3.0), math.prod(xs)


@of("Built-in functions")
def math_fsum(x, n, xs, ws, k):
    """`math.fsum`"""
    return math.fsum([0.5, n])


@of("Statements")
def function_nonlocal(x, n, xs, ws, k):
    """`nonlocal`"""

    def count():
        nonlocal n
        n += 1

    count()
    return n


@of("Built-in functions")
def frozen_set(x, n, xs, ws, k):
    """`frozenset`"""
    return len(frozenset(xs))


# ---- classes


@of("Classes")
def class_slices(x, n, xs, ws, k):
    """`o[a:b]` by a `__getitem__` of its own, `str(o)` by `__str__`"""
    o = Ordered(n)
    return o[1:], o[0], str(o), f"<{o}>"


@of("Classes")
def dataclass_made(x, n, xs, ws, k):
    """a dataclass made, read and returned"""
    p = Point(float(n), 2.0)
    return p.x + p.y, p


@of("Classes")
def dataclass_method(x, n, xs, ws, k):
    """methods and properties"""
    p = Point(float(n), 2.0)
    return p.norm(), p.total


@of("Classes")
def dataclass_static(x, n, xs, ws, k):
    """static and class methods"""
    return Point.unit().x, Point.of(n).x


@of("Classes")
def dataclass_operator(x, n, xs, ws, k):
    """`__add__`"""
    return (Point(1.0) + Point(float(n), 3.0)).total


@of("Classes")
def dataclass_replace(x, n, xs, ws, k):
    """`dataclasses.replace`"""
    return replace(Point(1.0, 2.0), y=float(n))


@of("Classes")
def dataclass_list(x, n, xs, ws, k):
    """lists of dataclasses"""
    ps = [Point(float(v)) for v in xs]
    return sum(p.x for p in ps), ps


@of("Classes")
def dataclass_equal(x, n, xs, ws, k):
    """`a == b` of dataclasses"""
    return Point(float(n)) == Point(3.0)


@of("Classes")
def named_tuple_made(x, n, xs, ws, k):
    """NamedTuples"""
    p = Pair(n, 0.5)
    a, b = p
    return p.a + b, p._replace(a=1), p[1], p == (3, 0.5)


@of("Classes")
def namedtuple_made(x, n, xs, ws, k):
    """`collections.namedtuple`"""
    t = Two(n, x)
    return t.second * t.first


@of("Classes")
def enum_members(x, n, xs, ws, k):
    """members of an enum: `==`, `is`, `.value`, `in`"""
    return k == Kind.A, k is Kind.B, k.value, k in (Kind.A, Kind.C)


@of("Classes")
def enum_iteration(x, n, xs, ws, k):
    """`for m in Enum`"""
    total = 0
    for m in Kind:
        if m == k:
            total += m.value * 10
    return total


# ---- functools, itertools, collections, operator


@of("Library")
def functools_reduce(x, n, xs, ws, k):
    """`functools.reduce`"""
    return reduce(lambda a, b: a * 2 + b, xs, 1), functools.reduce(max, [n, 2, 3])


@of("Library")
def functools_partial(x, n, xs, ws, k):
    """`functools.partial`"""

    def f(a, b, c=1):
        return a * b + c

    g = partial(f, 2, c=n)
    return g(3), g(b=4), g(1, c=0)


@of("Library")
def functools_lru_cache(x, n, xs, ws, k):
    """`functools.lru_cache`, `functools.cache`"""
    return cached_fib(n + 10)


@lru_cache(maxsize=None)
def cached_fib(n):
    return n if n < 2 else cached_fib(n - 1) + cached_fib(n - 2)


@of("Library")
def itertools_chain(x, n, xs, ws, k):
    """`itertools.chain`"""
    return [v for v in chain(xs, [n], range(2))], sum(itertools.chain(xs, xs))


@of("Library")
def itertools_product(x, n, xs, ws, k):
    """`itertools.product`"""
    return [a * 10 + b for a, b in product(xs, range(2))], len(list(product([1, 2], repeat=2)))


@of("Library")
def itertools_accumulate(x, n, xs, ws, k):
    """`itertools.accumulate`"""
    return list(accumulate(xs)), list(accumulate(xs, max)), list(itertools.accumulate(xs, initial=n))


@of("Library")
def itertools_pairwise(x, n, xs, ws, k):
    """`itertools.pairwise`"""
    return [b - a for a, b in pairwise(xs)]


@of("Library")
def itertools_zip_longest(x, n, xs, ws, k):
    """`itertools.zip_longest`"""
    return [a + b for a, b in itertools.zip_longest(xs, range(n), fillvalue=0)]


@of("Library")
def itertools_islice(x, n, xs, ws, k):
    """`itertools.islice`"""
    return list(itertools.islice(xs, 2)), list(itertools.islice(xs, 1, None, 2))


@of("Library")
def itertools_repeat(x, n, xs, ws, k):
    """`itertools.repeat(v, n)`"""
    return list(itertools.repeat(n, 3))


@of("Library")
def itertools_repeat_without_end(x, n, xs, ws, k):
    """`itertools.repeat(v)`"""
    return [a * b for a, b in zip(xs, itertools.repeat(2), strict=False)]


@of("Library")
def deque_rotate(x, n, xs, ws, k):
    """`deque.rotate`"""
    q = deque(xs)
    q.rotate(1)
    q.rotate(n)
    q.rotate(-5)
    return list(q)


@of("Library")
def itertools_groupby(x, n, xs, ws, k):
    """`itertools.groupby`"""
    return [(key, len(list(group))) for key, group in itertools.groupby(xs, key=lambda v: v > 2)]


@of("Library")
def itertools_combinations(x, n, xs, ws, k):
    """`itertools.combinations(xs, 2)`"""
    return [a * b for a, b in itertools.combinations(xs, 2)]


@of("Library")
def itertools_permutations(x, n, xs, ws, k):
    """`itertools.permutations(xs)`, `combinations(xs, r)`, `product(xs, repeat=r)` of run-time lengths"""
    found = [c for r in range(3) for c in itertools.combinations(xs, r)]
    return [a * 10 + b for a, b in itertools.permutations((1, 2, 3), 2)], next(itertools.permutations(xs)), found


@of("Library")
def itertools_takewhile(x, n, xs, ws, k):
    """`itertools.takewhile`, `dropwhile`"""
    small = list(itertools.takewhile(lambda v: v < 4, xs))
    return small, list(itertools.dropwhile(lambda v: v < 4, xs))


@of("Library")
def itertools_starmap(x, n, xs, ws, k):
    """`itertools.starmap`"""
    return list(itertools.starmap(lambda a, b: a * b, [(1, n), (2, 3)]))


@of("Library")
def itertools_count(x, n, xs, ws, k):
    """`itertools.count` in `zip`"""
    return [i * v for i, v in zip(itertools.count(1), xs, strict=False)]


@of("Library")
def collections_deque(x, n, xs, ws, k):
    """`collections.deque`: `append`, `popleft`"""
    q = deque([n])
    out = []
    while q:
        v = q.popleft()
        out.append(v)
        if v > 1:
            q.append(v // 2)
            q.append(v - 2)
    return out


@of("Library")
def collections_deque_ends(x, n, xs, ws, k):
    """`deque`: `appendleft`, `pop`, `len`, `q[0]`"""
    q = collections.deque(xs)
    q.appendleft(n)
    q.append(5)
    return q.pop(), len(q), q[0], list(q)


@of("Library")
def collections_defaultdict(x, n, xs, ws, k):
    """`collections.defaultdict(list)`"""
    d = defaultdict(list)
    for v in xs:
        d[v % 2].append(v)
    return dict(d)


@of("Library")
def collections_defaultdict_int(x, n, xs, ws, k):
    """`collections.defaultdict(int)`"""
    d = defaultdict(int)
    for v in xs:
        d[v] += 1
    return dict(d), len(d)


@of("Library")
def collections_counter(x, n, xs, ws, k):
    """`collections.Counter`"""
    c = Counter(xs)
    return c[1], c[99], len(c)


@of("Library")
def collections_counter_common(x, n, xs, ws, k):
    """`Counter.most_common`"""
    return Counter(xs).most_common(2)


@of("Library")
def operator_functions(x, n, xs, ws, k):
    """`operator.add`, `mul`, `lt`, ..."""
    return operator.add(n, 1), operator.mul(x, 2.0), operator.lt(n, 3), reduce(operator.mul, xs, 1)


@of("Library")
def operator_itemgetter(x, n, xs, ws, k):
    """`operator.itemgetter`"""
    return sorted([(v, -v) for v in xs], key=operator.itemgetter(1))


@of("Library")
def operator_attrgetter(x, n, xs, ws, k):
    """`operator.attrgetter`"""
    return max([Point(float(v)) for v in [1, *xs]], key=operator.attrgetter("x")).x


@of("Classes")
def cached_property(x, n, xs, ws, k):
    """`functools.cached_property`"""
    return Measured(n).double + Measured(1).double


@of("Library")
def heaps(x, n, xs, ws, k):
    """`heapq.heappush`, `heappop`, `heapify`, `nsmallest`, ..."""
    heap = [v % 3 for v in xs]
    heapq.heapify(heap)
    heapq.heappush(heap, n)
    return heapq.heappop(heap), heap, heapq.nsmallest(2, xs), heapq.nlargest(2, xs)


@of("Library")
def regular_expressions(x, n, xs, ws, k):
    """`re.compile`, `match`, `search`, `fullmatch`, `finditer`, `findall`, `split`, `sub`"""
    s = f"{n} a{n}b {n:05d}"
    m = re.search(r"(?P<word>[a-z])(\d+)", s)
    found = re.findall(r"-?\d+", s), re.split(r"\s+", s), re.sub(r"(\d)(\w)", r"\2\1", s)
    return found, m and (m["word"], m.span(2)), [t.start() for t in re.finditer("a|b", s)]


@of("Library")
def places_by_bisection(x, n, xs, ws, k):
    """`bisect.bisect`, `bisect_left`, `insort`, ..."""
    found = sorted(xs)
    bisect.insort(found, n)
    return found, bisect.bisect(found, 2), bisect.bisect_left(found, 2)


@of("Statements")
def generator_function(x, n, xs, ws, k):
    """`yield` and `yield from` in a function that a loop goes over"""

    def doubled():
        for v in xs:
            yield v * 2
        yield from range(n)

    return [v + 1 for v in doubled()], sum(doubled())


@of("Dicts and sets")
def numpy_keys(x, n, xs, ws, k):
    """NumPy integers as keys"""
    counts = Counter(np.array([n, n + 1, n]))
    return dict(counts), counts.most_common(1)[0][0]


@of("Library")
def itertools_count_of_a_step(x, n, xs, ws, k):
    """`itertools.count(a, step)`"""
    down = [a for a, _ in zip(itertools.count(n, -2), xs, strict=False)]
    return next(v for v in itertools.count(n, n + 1) if v > 20), down


@of("Library")
def itertools_cycle(x, n, xs, ws, k):
    """`itertools.cycle`"""
    turns = itertools.cycle(("x", "o"))
    named = [(next(turns), v) for v in xs]
    return named, [a * b for a, b in zip(xs, itertools.cycle([n, 2]), strict=False)]


@of("Statements")
def import_in_a_function(x, n, xs, ws, k):
    """`import` in a function"""
    import math as m
    from collections import Counter as Counts

    return m.sqrt(n), Counts(xs)[1]


@of("Statements")
def print_is_left_out(x, n, xs, ws, k):
    """`print(...)`, which only the plain call does"""
    print("n is", n, f"{n / 3:.2f}")
    return n


@of("Expressions")
def texts_of_numbers(x, n, xs, ws, k):
    """`str(x)`, `f"{n:03d}"`, `f"{x:.2f}"`, `"%g" % x`, `"{:,}".format(n)` of run-time numbers"""
    texts = str(-n), f"{n:03d}|{n:<4}|{n:+}", f"{n / 7:.2f} {n / 8:7.1%}", "%d, %s" % (n, n > 2), "{:x}".format(n)
    return texts, str(n / 7), "%g %.3e" % (n / 3, 1e9 * n), f"{1e5 * n:,}|{n / 9:10.4}"


@of("Expressions")
def texts_of_containers(x, n, xs, ws, k):
    """`str(xs)`, `f"{[n, s]!r}"`, `str(d)` of lists, tuples and dicts"""
    return str([n / 2, "it's", None]), f"{(xs, ws)!r}", str({"a": (n,), "b": xs}), repr(f"{n}")


@of("Built-in functions")
def first_of_an_iterable(x, n, xs, ws, k):
    """`next(iter(d))`, `next(iter(xs), v)`"""
    return next(iter({n: k})), next(iter(xs), None), next(iter({"a": k}.items())), next(zip(xs, ws, strict=False), None)


@of("Expressions")
def stars_with_defaults(x, n, xs, ws, k):
    """`f(a, *xs)` with a list, for `def f(a, b=1, *rest)`"""

    def f(a, b=1, *rest):
        return a + b + sum(rest)

    return f(n, *xs)


@of("Library")
def statistics_of_a_list(x, n, xs, ws, k):
    """`statistics.mean`, `fmean`, `median`, `median_low`, `median_high`, `stdev`, `pvariance`, ..."""
    return (
        statistics.mean([n, *xs]),
        statistics.fmean([n, 7]),
        statistics.median([n, 2.5, 4]),
        statistics.stdev([n, 0.5]),
    )


@of("Built-in functions")
def names_of_a_module(x, n, xs, ws, k):
    """`vars(math)["sin"]`, `getattr(math, name)` of a name of run time"""
    return vars(math)["sin"](n), getattr(math, "sin" if n > 2 else "cos")(0.5)


@of("Built-in functions")
def texts_in_other_bases(x, n, xs, ws, k):
    """`bin`, `oct`, `hex`, `int.bit_count`"""
    return bin(n), oct(n), hex(-n), n.bit_count(), bin(n).count("1")


@of("Built-in functions")
def attribute_of_a_name(x, n, xs, ws, k):
    """`getattr(o, name)` of a name of run time"""
    return [getattr(Point(float(n), 2.0), name) for name in ("x", "y", "x")[: n % 4]], getattr(
        Point(1.0, 2.0), "y" * n, 7.0
    )


@of("Dicts and sets")
def all_of_a_set(x, n, xs, ws, k):
    """`all` and `any` over a set"""
    return all(v > 1 for v in set(xs)), any(v > 1 for v in set(xs)), sum(1 for v in set(xs) if v > 1)


@of("Expressions")
def unpacked_if(x, n, xs, ws, k):
    """`a, b = zip(*pairs) if pairs else ((), ())`"""
    pairs = [(v, v * v) for v in xs]
    a, b = zip(*pairs, strict=False) if pairs else ((), ())
    return sum(a) - sum(b), list(b)


@of("Classes")
def range_of_a_class(x, n, xs, ws, k):
    """a `range` as an attribute of a class"""
    return sum(v for v in Ranked.RANKS if v < n), n in Ranked.RANKS


def below(n):
    yield n
    for part in (n // 2, n - 3):
        if part > 0:
            yield from below(part)


@of("Statements")
def generator_that_calls_itself(x, n, xs, ws, k):
    """a generator that calls itself"""
    found = []
    for v in below(n):
        found.append(v * 2)
    return found, sum(below(n)), any(v > 2 for v in below(n))


@contextlib.contextmanager
def noted(log, name):
    log.append(name)
    yield len(log)
    log.append("end of " + name)


@of("Statements")
def context_managers(x, n, xs, ws, k):
    """`with` of a `contextlib.contextmanager` or `nullcontext`"""
    log = []
    with noted(log, "a") as count, contextlib.nullcontext(n) as m:
        log.append("many" if m > count else "few")
    return log, count


@functools.singledispatch
def told(v):
    return 0


@told.register
def _(v: int):
    return v + 1


@told.register
def _(v: Point):
    return told(len(v.tags))


@of("Library")
def functions_by_class(x, n, xs, ws, k):
    """`functools.singledispatch`"""
    return told(n), told(Point(1.0, tags=xs)), told(x)


REJECTED = [  # what is not supported
    "frozen_set",
]  # fmt: skip
