"""Models at the corners of Python: loops with `else`, slices assigned, iterators, deques, counters, ranges."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)


XS = [[3, 1, 2, 3], [], [5], [1, 2, 3, 4, 5, 6]]
N = [4, 0, 9, 2]


@case(XS, N)
def for_else_nested(xs, n):
    out = []
    for a in xs:
        for b in range(n):
            if b == a:
                break
        else:
            out.append(a)
            continue
        out.append(-a)
    else:
        out.append(100)
    return out


@case(XS, N)
def while_else_return(xs, n):
    i = 0
    while i < len(xs):
        if xs[i] > n:
            return i
        i += 1
    else:
        return -1


@case(XS, N)
def helper_for_else(xs, n):
    def find(v):
        for k, x in enumerate(xs):
            if x == v:
                return k
        else:
            return -5

    return [find(v) for v in range(n)]


@case(XS, N)
def else_binds(xs, n):
    for v in xs:
        if v > 2:
            break
        w = v
    else:
        w = 77
    return w


@case(XS, N)
def slices(xs, n):
    a = [0, 1, 2, 3, 4, 5]
    a[1:3] = a
    b = list(xs)
    b[n:] = [9, 9]
    c = list(xs)
    c[:0] = [7]
    d = list(xs)
    d[-2:] = []
    e = list(xs)
    e[5:2] = [1]
    return a, b, c, d, e


@case(XS, N)
def del_slices(xs, n):
    a = [0, 1, 2, 3, 4, 5, *xs]
    del a[-3:]
    del a[1:3], a[0]
    b = list(range(6))
    del b[n : n + 1]
    return a, b


@case(XS, N)
def del_fails(xs, n):
    a = list(xs)
    del a[2]
    return a


@case(XS, N)
def index_bounds(xs, n):
    a = [*xs, 3, 1, 3]
    return a.index(3), a.index(3, 1), a.index(1, -2), a.index(3, -1), a.count(3)


@case(XS, N)
def index_by_no_elements(xs, n):
    a = np.arange(3.0)
    i = slice(1, None)
    return a[[]], a[()], (a[:, None] * a)[(n % 2, i)]


@case(XS, N)
def index_fails(xs, n):
    return xs.index(n)


@case(XS, N)
def remove_fails(xs, n):
    a = list(xs)
    a.remove(3)
    return a


@case(XS, N)
def compare_lists(xs, n):
    a = list(xs)
    return (
        a == xs,
        a < [3, 1],
        a <= [3, 1, 2, 3],
        a > [1],
        a >= [],
        [n] > a,
        [[n], xs] == [[4], a],
        a != [5],
        xs == [5.0],
    )


@case(XS, N)
def ranges(xs, n):
    r = range(n, -n, -2)
    return (
        list(r),
        len(r),
        [r[i] for i in range(len(r))],
        r[-1] if len(r) else 0,
        list(r[1:]),
        list(r[::-1]),
        list(r[:2]),
        2 in r,
        3 in r,
        r == range(4, -4, -2),
        sum(r),
        r.start,
        bool(r),
    )


@case(XS, N)
def range_fails(xs, n):
    return range(3)[n]


@case(XS, N)
def itools(xs, n):
    return (
        list(itertools.accumulate(xs, operator.mul)),
        list(itertools.accumulate([], initial=n)),
        list(itertools.islice(xs, 1, 3)),
        list(itertools.chain([1], xs, [])),
        list(itertools.product(xs, repeat=2))[:3],
        list(itertools.combinations(xs, 2))[:4],
        list(itertools.pairwise(xs)),
        [list(g) for k, g in itertools.groupby(sorted(xs))],
        list(itertools.zip_longest(xs, [1], fillvalue=-1)),
        functools.reduce(operator.add, xs, 10),
    )


@case(XS, N)
def reduce_fails(xs, n):
    return functools.reduce(max, xs)


@case(XS, N)
def partials(xs, n):
    f = functools.partial(max, n)
    g = functools.partial(f, 2)
    return (
        f(1),
        g(7),
        list(map(functools.partial(operator.add, n), xs)),
        sorted([(x, -x) for x in xs], key=operator.itemgetter(1)),
    )


@case(XS, N)
def partial_chosen(xs, n):
    def mul(a, b):
        return a * b

    f = functools.partial(mul, 2) if n > 3 else functools.partial(mul, 3)
    return f(n)


@case(XS, N)
def deques(xs, n):
    q = deque(xs)
    q.extend([1, 2])
    q.extendleft([8, 9])
    a = q.popleft()
    q.remove(1)
    q.insert(1, 50)
    q[0] = 77
    del q[1]
    q.reverse()
    return list(q), a, q.count(2), len(q), max(q), sum(q), [v * 2 for v in q], q == deque([1]), 77 in q


@case(XS, N)
def deque_window(xs, n):
    w = deque(maxlen=3)
    out = []
    for v in range(n):
        w.append(v)
        out.append(sum(w))
    return out


@case(XS, N)
def deque_fails(xs, n):
    q = deque(xs)
    q.popleft()
    return q.popleft()


@case(XS, N)
def deque_merge(xs, n):
    q = deque(xs) if n > 3 else deque([1])
    for i in range(n):
        q.append(i)
    return list(q)


@case(XS, N)
def deque_matched(xs, n):
    q = deque(xs, maxlen=2)
    p = copy.copy(q)
    p.append(n)
    match q:
        case [a, b]:
            return a * b, [n], p
        case [a, *rest]:
            return a, rest, p
    return -1, [0], p


@case(XS, N)
def defaults_updated(xs, n):
    d = defaultdict(int)
    for v in xs:
        d[v] += n
    e = d
    d |= {n: 1}
    return d | {7: 7}, d is e, copy.deepcopy(tuple(xs)), d[-1]


@case(XS, N)
def deque_helper(xs, n):
    def push(q, v):
        q.append(v)

    q = deque()
    for v in xs:
        push(q, v)

    def rec(q, k):
        if k == 0:
            return 0
        q.append(k)
        return 1 + rec(q, k - 1)

    return rec(q, n), list(q)


@case(XS, N)
def dds(xs, n):
    d = defaultdict(list)
    for v in xs:
        d[v % 2].append(v)
    e = defaultdict(lambda: n)
    e[1] += 1
    return dict(d), dict(e), d.get(7), 7 in d, sorted(d), e[5], len(e)


@case(XS, N)
def counters(xs, n):
    c = Counter(xs)
    c[n] += 2
    return dict(c), c.most_common(1), sum(c.values()), c[12345], 12345 in c, Counter(a=1)["a"]


@case(XS, N)
def next_default(xs, n):
    return next((v for v in xs if v > 2), None), next((i for i, v in enumerate(xs) if v == n), -1)


@case(XS, N)
def next_fails(xs, n):
    return next(v for v in xs if v > n)


@case(XS, N)
def next_lazy(xs, n):
    return next((v for v in [*xs, 0] if 10 // (v - 0) > 1 or v == 5), -1) if xs else 0


@case(XS, N)
def fstr(xs, n):
    d = {"k0_1": 5, "k1": 6}
    return d[f"k{0}_{1:d}"], d[f"{'k'}{True:d}"], f"{3.14159:.2f}"


@case(XS, N)
def msgs(xs, n):
    if n > 8:
        raise ValueError(f"n={n:>5} xs={xs!r}", n)
    assert n != 2, ("tuple", n)
    return n


@case(XS, N)
def setcomp(xs, n):
    s = {v % 3 for v in xs}
    t = {(v, w) for v in xs for w in range(2) if v != w}
    return s, t, len(t), s <= {0, 1, 2}, {*xs, n}


@case(XS, N)
def optional_dict(xs, n):
    d = None
    if n > 2:
        d = {1: n}
    return -1 if d is None else d[1]


@case(XS, N)
def dict_loop_carried(xs, n):
    d = {}
    for v in xs:
        e = {}
        e[v] = len(d)
        d = e
    return d


@case(XS, N)
def dict_swap(xs, n):
    prev, cur = {0: 0}, {}
    for v in xs:
        for k in prev:
            cur[k + v] = prev[k] + 1
        prev, cur = cur, {}
    return prev


@case(XS, N)
def viterbi_like(xs, n):
    V = [{}]
    for s in ("a", "b"):
        V[0][s] = len(s) * 1.0
    path = {s: [s] for s in ("a", "b")}
    for t in range(1, n):
        V.append({})
        new = {}
        for s in ("a", "b"):
            best = max((V[t - 1][q] * 0.5 + t, q) for q in ("a", "b")) if False else (V[t - 1]["a"] * 0.5 + t, "a")
            V[t][s] = best[0]
            new[s] = path["a"] + [s]
        path = new
    return V[-1], path["b"]


@case(XS, N)
def none_values(xs, n):
    d = {}
    for v in xs:
        d[v] = None if v % 2 else v
    return d, [k for k in d if d[k] is None]


@case(XS, N)
def union_values(xs, n):
    d = {}
    for v in xs:
        d[v] = v if v % 2 else v * 0.5
    return d, sum(d.values())


@case(XS, N)
def list_in_cond(xs, n):
    return [k for k in range(n) if k not in xs]


@case(XS, N)
def with_err(xs, n):
    with np.errstate(all="ignore"):
        with np.errstate(divide="ignore"):
            y = n * 2
        z = y + 1
    return z


@case(XS, N)
def hasattrs(xs, n):
    return hasattr(xs, "append"), hasattr(n, "foo"), callable(len), callable(n)


@case(XS, N)
def slc(xs, n):
    s = slice(1, 3)
    t = slice(None, None, 2)
    return xs[s], xs[t], (1, 2, 3, 4)[s]


@case(XS, N)
def filters(xs, n):
    return (
        list(filter(None, xs)),
        list(filter(lambda v: v > n, xs)),
        sum(filter(lambda v: v % 2, xs)),
        list(itertools.filterfalse(lambda v: v % 2, xs)),
        list(map(lambda a, b: a + b, xs, range(9))),
    )


@case(XS, N)
def counts(xs, n):
    out = []
    for i in itertools.count(2, 3):
        if i > n:
            break
        out.append(i)
    return out, list(zip(itertools.count(), xs))


@dataclass
class Maybes:
    one: int | None
    more: list[int] | None


MAYBES = [Maybes(1, None), Maybes(None, [2]), Maybes(7, [1, 2])]


@case(MAYBES)
def tests_hold_in_nested_functions(t: Maybes):
    def first(a):
        if t.one is not None:
            more = t.more if t.more is not None else [t.one, a]
            return [t.one, *more]
        return [a]

    def down(n):
        if n <= 0 or t.one is None:
            return 0
        return t.one + down(n - 1)

    return first(1), down(3)


@case(XS, N)
def own_function_by_the_name_of_pythons(xs, n):
    isinstance = max  # noqa: A001
    return isinstance(n, 3), 1 if isinstance(0, n) else 2


@case([[1.0, 2.0, 0.5], [3.0]])
def condition_that_fails_where_nobody_comes(xs):
    total = 0.0
    for k, x in enumerate(sorted(xs)):
        if k == 3:
            break
        if x < 0:
            while first < max(xs, default=0.0):  # noqa: F821
                continue
        total += x
    first = total
    return first


@case(XS, N)
def generator_that_is_named_where_it_is_read(xs, n):
    total = sum(g := (x * 2 for x in xs if x > 1))  # noqa: F841
    return total + n


class Uncountable:
    def __init__(self, first):
        self.first = first

    def __len__(self):
        return self.first[::0]


@case(XS, N)
def condition_that_always_fails_at_some(xs, n):
    s = Uncountable(n)
    if n > 3:
        while s:
            s = s[0]
    return (n, s.first)


def _pattern(v):
    match v:
        case [_, _]:
            return 1
        case [_, *_]:
            return 3
        case _:
            return 2


@case(XS, N)
def sequence_patterns(xs, n):
    known = ["ab", [n, 2], (n, 2), {1, 2}, {"a": n, "b": 2}, range(2), np.arange(2), deque([n, 2]), n, None]
    return [_pattern(v) for v in known], _pattern(range(n)), _pattern(xs), _pattern(zip(xs, xs))


@case(XS, N)
def last_values(xs, n):
    acc, prev, s, t = (), None, "a", ""
    for v in xs:
        prev, t = acc, s
        acc = (v, 1)
        s = "b" if v > 2 else "c"
    return acc, prev, s, t


class Last:
    def __init__(self):
        self.value = None


@case(XS, N)
def last_fields(xs, n):
    a, b = Last(), Last()
    for v in xs:
        b.value = a.value
        a.value = v * 1.5 if v > 3 else v
    return a.value, b.value


@case(N)
def conditions_over_known_items(n):
    log, calls, y = [], 0, 0

    def keep(x):
        nonlocal calls
        calls += 1
        log.append(-x)
        return x != 2

    a = [y for x in (1, 2, 3) if (y := x * 2) > 2]
    b = [x for x in (1, 2, 3) if log.append(x) is None]
    c = [x / (x - 1) for x in (1, 2, 3) if x != 1 if 1 / (x - 1) > 0]
    d = [v for v in (1, None, n) if v is not None if v > 1]
    e = [x + calls for x in (1, 2, n) if keep(x)]
    f = [calls := calls + x for x in (1, 2, 3) if calls % 2]
    g = sum(x for x in (1, 2, 3) if keep(x)), tuple(x for x in (1, 2, 3) if keep(x) if log.append(n) is None)
    return a, b, c, d, e, f, g, log, calls, y


@case(XS, N)
def arrays_compared_with_objects(xs, n):
    a = np.array([[1.0, n], [2.0, np.nan]])
    one, rows = Uncountable(n), np.array(xs) if xs else np.zeros(2)
    return a == one, one != a, rows == Maybes(1, None), (Maybes(n, None) != rows).sum()


def _same_list(xs, found):
    return [found for _ in xs]


@case(XS, N)
def empty_tuple_or_list(xs, n):
    found = []
    same = _same_list(xs, found)
    chosen = tuple(found) if n > 3 else [n]
    return sum(chosen), len(same)


def counter(start):
    c = start

    def count():
        nonlocal c
        c += 1
        return c

    return count, lambda: c


@case(XS, N)
def counters_made_in_branches(xs, n):
    one, seen = counter(0)
    one()
    if n > 3:
        one, seen = counter(n)
    two = counter(1)[0] if xs else counter(2.5)[0]
    for x in xs:
        two()
        if x == n:
            two = counter(n)[0]
            break
    return one(), seen(), one(), two(), two()


@case(XS, N)
def iterators_made_and_read_in_one_loop(xs, n):
    out = []
    for x in xs:
        it = (v + x for v in xs)
        for k in range(n):
            pairs = zip(xs, range(k))
            out += [a + b for a, b in pairs]
        out.append(sum(it))
    return out, {**dict[int, int]({1: n})}, list[int](xs)


NEAR = [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62]


@case(NEAR, [2.0**53, 2.0**53 + 2, 2.0**53, -(2.0**53), 2.0**62])
def ints_beside_floats(n, x):
    y, big = 2**53 + 1, 9007199254740992.0
    known = y == big, y in [big], sorted([y, big])[0], min(y, big), (y, 1) == (big, 1), np.inf > 2**2000
    ordered = sorted([n, x]), sorted([(n, 1), (x, 2)], reverse=True), min(n, big), max(big, n), max(x, y)
    chained = -big < n < big, 0 < n <= big, big <= n, big == n != x, n < np.inf, n == 9.2e18, x < 2**2000, x == y
    return known, ordered, chained, n in (big, 1.5), x in {n, 5}, [x, n].index(n), {y: 1, n: 2}.get(x)


@case(["٣", "-１2", "x٣", " 𝟙𝟡\u2003", "²", "", "1_０", "०x"])
def numbers_of_any_script(s):
    try:
        number = int(s)
    except ValueError:
        number = -1
    return number, float(s) if number > 0 else s
