"""Models with dicts and sets: aliases, memo dictionaries, keys and values of all kinds, failures, what is in what."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict, deque

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)


class Color(enum.Enum):
    R = 0
    G = 1
    B = 2


XS = [[3, 1, 2, 3], [], [5]]
N = [4, 0, 9]
X = [np.arange(3, dtype=np.float32), np.ones(3, np.float32), np.zeros(2, np.float32)]


@case(XS)
def alias_through_call(xs):
    def fill(d, v):
        d[v] = v * 2

    d = {}
    e = d
    for v in xs:
        fill(e, v)
    return d, e is d


@case(XS)
def returned_and_changed(xs):
    def make():
        d = {}
        d[0] = 1
        return d

    a, b = make(), make()
    for v in xs:
        a[v] = v
    return a, b


@case(XS, N)
def branch(xs, n):
    if n > 3:
        d = {1: 2}
    else:
        d = {}
    for v in xs:
        d[v] = n
    return d


@case(XS, N)
def branch_known(xs, n):
    d = {"a": 1} if n > 3 else {"a": 2}
    d["b"] = n
    return d


@case(XS, N)
def branch_keys(xs, n):
    d = {"a": 1} if n > 3 else {"b": 2}
    d["c"] = n
    return d, sorted([len(k) for k in d])


@case(XS, N)
def branch_keys_only(xs, n):
    d = {"a": 1} if n > 3 else {"b": 2}
    return d


@case(XS)
def nested_memo(xs):
    memo = {}

    def go(i, j):
        if (i, j) in memo:
            return memo[i, j]
        if i <= 0 or j <= 0:
            r = 1
        else:
            r = go(i - 1, j) + go(i, j - 1)
        memo[i, j] = r
        return r

    return [go(v, 3) for v in xs], len(memo)


@case(X, N)
def memo_arrays(x, n):
    def go(k, memo):
        if k in memo:
            return memo[k]
        r = x if k == 0 else np.tanh(go(k - 1, memo) + go(k - 2, memo)) if k > 1 else x * 2
        memo[k] = r
        return r

    return go(n, {})


@case(XS)
def list_values(xs):
    d = {}
    for v in xs:
        if v not in d:
            d[v] = []
        d[v].append(len(d))
    t = 0
    for k in d:
        for u in d[k]:
            t += u * k
    return d, t


@case(XS)
def changed_size(xs):
    d = {v: v for v in xs}
    for k in d:
        d[k + 100] = 1
    return d


@case(XS)
def values_changed(xs):
    d = {v: v for v in xs}
    for k in d:
        d[k] = d[k] + 100
    for k, v in d.items():
        d[k] = v * 2
    return d


@case(XS)
def del_in_loop(xs):
    d = {v: v for v in xs}
    for k in list(d):
        if k % 2:
            del d[k]
    return d


@case(XS)
def del_readd(xs):
    d = {v: v for v in xs}
    d[7] = 7
    d.pop(3, None)
    d[3] = 33
    d[1] = 11
    return list(d.items())


@case(XS)
def big(xs):
    d = {}
    for i in range(300):
        d[i * i * 7919 % 1009] = i
    s = 0
    for i in range(1100):
        s += d.get(i, 0)
    for i in range(0, 300, 3):
        d.pop(i * i * 7919 % 1009, None)
    t = 0
    for k, v in d.items():
        t = (t * 31 + k * v) % 1000003
    return s, t, len(d)


@case(XS)
def neg_big_keys(xs):
    d = {-1: 1, -2: 2, 2**62: 3, -(2**63): 4}
    d[0] = 5
    return [d[k] for k in d], d[-1], (2**62) in d


@case(XS)
def bool_lookup(xs):
    d = {1: 10, 0: 20}
    d[len(xs)] = 5
    return d[True], d[len(xs) > 0], d.get(False)


@case([np.array([3, 1, 3]), np.array([], np.int64), np.array([7])])
def numpy_lookup(a):
    d = {3: 1, 7: 2}
    d[0] = 0
    t = 0
    for v in a:
        t += d.get(v, 0)
    return t


@case([np.array([3, 1, 3]), np.array([], np.int64), np.array([7])])
def numpy_keys(a):
    d = {}
    for v in a:
        d[int(v)] = d.get(int(v), 0) + 1
    return d


@case(N, XS)
def mixed_values(n, xs):
    d = {}
    d["n"] = n
    d["xs"] = xs
    d["f"] = n * 0.5
    if n:
        d["f"] = n
    return d["f"], len(d["xs"]), d


@case(N, X)
def cache_like(n, x):
    cache = {}
    cache["h"] = x
    cache["c"] = x * 2
    for i in range(n):
        h, c = cache["h"], cache["c"]
        cache["c"] = np.tanh(c + h)
        cache["h"] = h * 0.5
    return cache["h"] + cache["c"]


@case(N)
def tuple_keys_mixed(n):
    d = {}
    d[1, "a"] = n
    d[n, "b"] = 2
    d[(n, "a")] = 3
    return d, (1, "b") in d


@case(N)
def none_key(n):
    d = {None: 1}
    d[n if n else None] = 5
    return d[None], len(d)


@case(N)
def str_int_keys(n):
    d = {"a": 1, 3: 2}
    d[n] = 7
    return d["a"], d[3], len(d), "zz" in d


@case(XS)
def empty_tuple_key(xs):
    d = {}
    d[()] = len(xs)
    return d[()], () in d, (1,) in d


@case(XS)
def set_ops(xs):
    s = set()
    for v in xs:
        s |= {v}
    t = s.copy()
    t -= {3}
    t ^= {1, 50}
    return s, t, s.isdisjoint(t), sorted(s & t), max(s | {0}), min(t), sum(t), len(s - t)


@case(XS)
def set_alias(xs):
    s = set(xs)
    t = s
    t.add(1000)
    u = s | t
    u.add(5000)
    return s, u


@case(XS)
def list_of_dicts(xs):
    ds = [{} for _ in range(2)]
    for v in xs:
        ds[v % 2][v] = v
    return ds


@case(XS)
def dict_in_tuple(xs):
    t = ({}, 1)
    t[0][5] = 5
    for v in xs:
        t[0][v] = v
    return t


@case(XS)
def fail_one(xs):
    d = {}
    for i, v in enumerate(xs):
        d[v] = i
    return d[5], d[5] // (len(xs) - 1)


@case(XS)
def popitem_all(xs):
    d = {v: v * v for v in xs}
    out = []
    while d:
        k, v = d.popitem()
        out.append(k + v)
    return out


@case(XS)
def pop_missing(xs):
    d = {v: v * v for v in xs}
    return d.pop(5)


@case(XS)
def equal_dicts(xs):
    a = {}
    b = {}
    for v in xs:
        a[v] = v * 1.0
    for v in reversed(xs):
        b[v] = v
    return a == b, a != b, a == {}


@case(XS)
def update_pairs(xs):
    d = {}
    d.update([(v, v + 1) for v in xs])
    d.update({9: 9})
    d.update(enumerate(xs))
    return d


@case(XS)
def zip_dict(xs):
    d = dict(zip(xs, range(10)))
    e = dict([(1, 2), (3, 4)])
    f = dict(a=1, b=len(xs))
    return d, e, f


@case(XS)
def setdefault_list_same(xs):
    d = {}
    a = d.setdefault(1, [])
    a.append(7)
    b = d.setdefault(1, [9])
    b.append(8)
    return d, a


@case(XS)
def dict_default_lists(xs):
    d = {0: [1]}
    for v in xs:
        d.setdefault(v, [0]).append(v)
    return d


@case(XS)
def get_list(xs):
    d = {}
    for v in xs:
        d[v % 2] = d.get(v % 2, []) + [v]
    return d


@case(XS)
def dict_comp_nested(xs):
    return {(i, j): i * j for i in xs for j in range(i) if j != 1}


@case(XS)
def dict_counts_sorted(xs):
    c = {}
    for v in xs:
        c[v] = c.get(v, 0) + 1
    return sorted(c.items(), key=lambda kv: (-kv[1], kv[0]))


@case(XS)
def while_in(xs):
    seen = set()
    v = len(xs)
    while v not in seen:
        seen.add(v)
        v = (v * 7 + 3) % 11
    return len(seen), v


@case(XS)
def dd_float(xs):
    d = defaultdict(float)
    for v in xs:
        d[v % 2] += v * 0.5
    x = d[77]
    return dict(d), x, 77 in d


@case(XS)
def counter_sub(xs):
    c = Counter(xs)
    c.update([3, 3])
    c.subtract([1])
    return dict(c), c.total(), c.most_common()


@case(XS)
def dq(xs):
    q = deque(xs, maxlen=2)
    q.append(9)
    q.appendleft(8)
    return list(q), 9 in q, q[0], q.index(8), len(q)


@case(XS)
def bfs(xs):
    graph = {0: [1, 2], 1: [3], 2: [3, 0], 3: []}
    dist = {0: 0}
    q = deque([0])
    while q:
        u = q.popleft()
        for v in graph[u]:
            if v not in dist:
                dist[v] = dist[u] + 1
                q.append(v)
    return dist


@case(XS)
def enum_values(xs):
    d = {}
    for v in xs:
        d[Color(v % 3)] = v
    return d


@case([Color.R, Color.B, Color.G])
def enum_count(c):
    d = {}
    d[c] = d.get(c, 0) + 1
    d[Color.R] = d.get(Color.R, 10) + 1
    return d


@case(X, N)
def shared_list_alias(x, n):
    rows = {}
    for i in range(n):
        rows[i % 3] = [x * i]
    for i in range(n):
        rows[i % 3].append(x)
    return [len(rows[k]) for k in rows], rows


@case(XS)
def while_memo_none(xs):
    best = {}
    for v in xs:
        old = best.get(v % 2)
        if old is None or v > old:
            best[v % 2] = v
    return best


@case(XS)
def in_values(xs):
    d = {v: v + 1 for v in xs}
    return 4 in d.values(), (3, 4) in d.items(), 3 in d.keys(), list(d.values()), len(d.items())


@case(XS)
def aug_tuple(xs):
    d = {}
    for v in xs:
        n, s = d.get(v % 2, (0, 0.0))
        d[v % 2] = (n + 1, s + v * 0.5)
    return d


@case(XS)
def dict_of_sets(xs):
    d = {}
    for v in xs:
        d.setdefault(v % 2, set()).add(v)
    return d


@case(XS)
def lists_as_values_loop(xs):
    d = {k: [] for k in range(3)}
    for v in xs:
        d[v % 3].append(v)
    return d


@case(XS)
def dict_of_dict_display(xs):
    d = {"a": {"x": 1}, "b": {"x": len(xs)}}
    return d["b"]["x"] + d["a"]["x"]


@case(XS)
def changed_inner(xs):
    d = {"a": {"x": 1}, "b": {"x": len(xs)}}
    d["b"]["x"] = 10
    d["b"]["y"] = 11
    return d


class Memo:
    """An object that remembers."""

    def __init__(self):
        self.table = {}
        self.hits = 0

    def get(self, n):
        if n in self.table:
            self.hits += 1
            return self.table[n]
        out = n if n < 2 else self.get(n - 1) + self.get(n - 2)
        self.table[n] = out
        return out


@case([5, 0, 20])
def memo_of_an_object(n):
    m = Memo()
    return m.get(n), m.hits, len(m.table)


def numbers_below(n):
    out = []
    for k in range(n):
        out.append(k)
    return out


@case([3, 0, 2])
def comprehensions_that_call_what_makes_a_list(n):
    lengths = {k: len(numbers_below(k)) for k in range(n)}
    return lengths, {len(numbers_below(k)) for k in range(n)}, any(len(numbers_below(k)) == 1 for k in range(n))
