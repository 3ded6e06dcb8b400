"""Models that write into arrays which lie in dicts, lists, tuples and objects, and that return these."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)


N = [2, 3, 1]
X = [np.arange(3.0) + 1, np.arange(5.0) - 2, np.ones(1), np.zeros(8)]


# ---- stored by an item


@case(X)
def put_into_a_dict(x):
    d = {}
    for k in ("a", "b"):
        d[k] = np.zeros(2)
    d["a"][0] = x[0]
    d["b"] += 1
    d["b"][1] += x[-1]
    return d


@case(X)
def put_where_there_is_none(x):
    d = {}
    for i, v in enumerate(x):
        if i % 2 not in d:
            d[i % 2] = np.zeros(2)
        d[i % 2][i % 2] += v
    s = d.get(0)
    s[1] = -1
    d[5] = s
    return d, sorted(d)


@case(X)
def put_by_defaults(x):
    d, e = {}, defaultdict(lambda: np.zeros(2))
    for i, v in enumerate(x):
        d.setdefault(i % 3, np.zeros(2))[i % 2] += v
        e[i % 3] += v
        e[i % 2][1] -= 1
    return d, dict(e), e[7]


@case(X)
def put_twice_by_defaults(x):
    d = {}
    d.setdefault(0, np.zeros(2))[1] = x[0]
    d.setdefault(0, np.zeros(2))[0] += x[-1]
    return d[0].sum(), len(d), d.get(0)


class Memo:
    def __init__(self):
        self.d, self.rows, self.h = {}, [], None

    def get(self, k):
        if k not in self.d:
            self.d[k] = np.zeros(2)
        return self.d[k]


@case(X)
def in_a_dict_of_an_object(x):
    c = Memo()
    for i, v in enumerate(x):
        c.get(i % 2)[0] += v
        if c.h is None:
            c.h = np.zeros(2)
        c.h[i % 2] += v
        c.rows.append(c.get(i % 2))
    c.rows[0][1] = 7
    return c.d, c.h, c.rows


@case(X)
def taken_out_and_put_back(x):
    d = {i: np.zeros(2) for i in range(2)}
    a = d.pop(0)
    a[0] = x[0]
    d[0] = a
    a[1] = 3
    q = deque()
    for v in x:
        q.append(np.zeros(2))
        q[0][0] += v
        q[-1][1] = v
    b = q.popleft()
    b[1] -= 1
    return d, a, list(q), b


@case(X)
def one_array_at_several_places(x):
    same, z = [np.zeros(2)] * 3, np.zeros(2)
    named = [z, z, z]
    for i, v in enumerate(x):
        same[i % 3][i % 2] += v
        named[i % 3][i % 2] -= v
    return same, named, z


@case(X)
def put_into_a_list(x):
    s = [np.zeros(2)] * 3
    for i in range(3):
        s[i] = np.zeros(2)
    for i, v in enumerate(x):
        s[i % 3][i % 2] += v
    return s


# ---- results that hold them


class Box:
    def __init__(self, n=2):
        self.a = np.zeros(n)
        self.view = self.a[1:]


@case(N)
def results_are_dicts(n):
    d = {i: np.zeros(2) for i in range(n)}
    d[0][1] = n
    return {"d": d, "s": d[0].sum()}, list(d.values()), list(d.items()), [d], (d, d)


@case(N)
def results_are_objects(n):
    boxes, by_key = [Box() for _ in range(n)], {i: Box(3) for i in range(n)}
    boxes[0].a[1] = n
    for i in range(n):
        by_key[i].a = by_key[i].a + 1
    by_key[0].a += n
    return [b.a for b in boxes], boxes[0].view, [[b.view] for b in boxes], {k: b.a for k, b in by_key.items()}


@case(N)
def results_are_views(n):
    m = np.zeros((n + 1, 3))
    for i in range(n):
        for j in range(3):
            m[i, j] = i * 3 + j
    whole = np.arange(12.0).reshape(3, 4) * n
    whole[1, 2] = -1
    rows = [m, m[1:], m[:, ::2], m[0], m.T, m[::-1], m[:, 1], m[n:, 1:], m[:0]]
    parts = {
        "a": whole,
        "b": whole[:, 1],
        "c": whole.T[2:],
        "d": whole[1, 3:0:-1],
        "e": whole[None, 2],
        "f": whole[2:2],
    }
    none = [np.zeros((0, 3)), np.zeros((n, 0))]
    for a in none:
        a += 1
    return rows, parts, none


@case(N)
def results_of_rank_0_and_ints(n):
    a, b = np.zeros(()), np.zeros(3, np.int8)
    a[...] = n
    b[n % 3] = n
    kept = [a, a]
    kept[0] += 1
    return kept, {"b": b, "n": n}


@case(N)
def results_of_one_list_seen_twice(n):
    s = [np.zeros(2) for _ in range(n)]
    for a in s:
        a += n
    s[0][0] = 5
    return s, s, {"s": s}


# ---- None, or an array, written to


@case(X)
def none_at_first(x):
    h, s, t = None, [None] * 3, [None for _ in range(len(x))]
    for i, v in enumerate(x):
        if h is None:
            h = np.zeros(2)
        h[0] += v
        if s[i % 3] is None:
            s[i % 3] = np.zeros(2)
        s[i % 3][i % 2] += v
        t[i] = np.zeros(2)
        t[i][0] = v
    for a in t:
        a[1] = 5
    return h, s, t


@case(X)
def none_is_no_array(x):
    s = [None] * 3
    for i in range(len(x)):
        s[i % 3] = np.zeros(2)
    s[2][0] = x[0]
    return s


# ---- sums and stacks of them


@case(N)
def summed_and_stacked(n):
    d, s = {i: np.zeros(2) for i in range(n)}, [np.zeros((2, 2), np.float32) for _ in range(n)]
    d[0][1] = n
    for i, a in enumerate(s):
        a[i % 2] += n
    first = sum(d.values()), sum(s), sum(s, np.ones(2)), np.sum(s, axis=0), np.mean(s, axis=0), np.mean(s)
    stacked = np.stack(s), np.array(s), np.stack(list(d.values()))
    s[0][0] = 9
    d[0] += 1
    return first, stacked, max(d, key=lambda k: d[k][1]), {k: v / 2 for k, v in d.items()}, s[0] @ s[-1]


# ---- in tuples, lists and dicts that lie in others


@case(X)
def in_tuples(x):
    s = [(i, np.zeros(2)) for i in range(3)]
    d = {i: (np.zeros(2), i) for i in range(2)}
    for i, v in enumerate(x):
        s[i % 3][1][i % 2] += v
        d[i % 2][0][1] = v
    for i, a in s:
        a[0] += i
    return s, d


@case(X)
def in_dicts_of_dicts(x):
    d = {"a": {"w": np.zeros(2)}, "b": {"w": np.zeros(2)}}
    rows = [{"a": np.zeros(2), "b": len(x)} for _ in x]
    for k in ("a", "b"):
        d[k]["w"][0] += x[0]
        d[k]["w"] *= 2
    for v in d.values():
        for w in v.values():
            w += 1
    rows[0]["a"][1] = x[-1]
    return d, rows


@case(X)
def in_lists_of_lists(x):
    s = [[np.zeros(2)] for _ in range(2)]
    d = {i: [np.zeros(2)] for i in range(2)}
    deep = [[[np.zeros(2)]] for _ in x]
    for i, v in enumerate(x):
        s[i % 2][0][i % 2] += v
        s[i % 2].append(s[i % 2][-1] + 1)
        d[i % 2][0][1] = v
        deep[i][0][0][1] = v
    return s, d, deep


@case(X)
def a_list_put_into_two(x):
    a = []
    s, t = [a], {"k": a}
    s[0].append(np.zeros(2))
    a[0][1] = 3
    t["k"][0] += x[0]
    t["k"].append(np.ones(2))
    s[0][-1][0] = x[-1]
    return a, s, t


# ---- of several shapes in one dict


P = {"W": np.ones((2, 3)), "b": np.ones(2)}
V = [np.arange(3.0) + 1, np.ones(3)]


@case(V)
def gradients_by_name(x):
    p = {"W": np.ones((2, 3)), "b": np.ones(2)}
    g, e = {k: np.zeros_like(v) for k, v in p.items()}, {}
    e["W"], e["b"] = np.zeros_like(P["W"]), np.zeros(2)
    for i in range(3):
        g["W"] += np.outer(x[:2], x)
        g["b"][0] += x[i]
        e["W"] -= g["W"]
        e["b"] += x[:2]
    for k in p:
        p[k] -= 0.1 * g[k]
    for k in e:
        e[k] = np.clip(e[k], -1, 1)
    return p, g, e


@case(V)
def parameters_made_new_and_in_place(x):
    p = {"W": np.ones((2, 3)), "b": np.ones(2)}
    g = {k: np.zeros_like(v) for k, v in p.items()}
    g["W"] += np.outer(x[:2], x)
    g["b"][0] += 1
    for k in p:
        p[k] = p[k] - 0.1 * g[k]
    for k in p:
        p[k] -= 0.1 * g[k]
    return p, g


@case(V)
def gradients_like_what_came_in(x):
    g, h = {k: np.zeros_like(v) for k, v in P.items()}, {}
    for k in P:
        h[k] = np.zeros_like(P[k])
    for i in range(3):
        g["W"] += np.outer(x[:2], x)
        g["b"] += x[:2] * i
        h["W"][1] -= x
        h["b"] *= 2
        h["b"] += 1
    return g, h


@case([*V, np.ones(1)])
def one_of_two_shapes(x):
    g = [np.zeros((2, 2)), np.zeros(2)]
    k = len(x) % 2
    g[k] += x[0]
    g[k][0] = 3
    for a in g:
        a += 1
    return g


@case([2, 1])
def what_does_not_fit_fails(n):
    d = {i: np.zeros(2) for i in range(n)}
    d[7] = np.zeros((3, 2))
    d[8 - n] = np.zeros(2)
    d[7] += np.ones((3, 2))
    return d


@case(X)
def one_of_several_kinds(x):
    s = [0.0, 1.0, 2.0]
    d = np.zeros(3) if len(x) > 1 else s
    d[0] = float(x[0])
    d[1] += float(x[-1])
    return d, s, float(d[2])


@case(X)
def made_in_turn_by_one_line(x):
    y, outs = x * 2, []
    for f in (np.tanh, np.abs, np.cos):
        made = f(y)
        made[0] += 1
        column = y.reshape(-1, 1)
        made += column.sum()
        outs.append(column.sum())
        y = made
    return y, outs
