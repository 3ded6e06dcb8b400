"""Models as people have them: keys from arrays, heaps, functions that yield, `nonlocal`, strings taken apart."""

# ruff: noqa: B905, RUF005
from __future__ import annotations

import bisect
import functools
import heapq
import math
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)


XS = [[3, 1, 2, 3, 0], [7], [5, 5, 4]]
N = [4, 1, 7]
Y = [np.array([2, 0, 2, 1]), np.array([3]), np.array([1, 1, 0])]
SMALL = [y.astype(np.uint8) for y in Y]
X = [np.arange(4.0), np.ones(1), np.array([0.5, 2.0, -1.0])]
GRIDS = [np.array([[0, 0, 1], [1, 0, 0]]), np.zeros((2, 2), int), np.array([[0, 1], [0, 0], [1, 0]])]


# ---- NumPy's integers as keys


@case(Y)
def counted_labels(y):
    counts = Counter(y)
    return counts.most_common(1)[0][0], dict(counts), len(counts), sum(counts.values())


@case(SMALL)
def counted_small_labels(y):
    return dict(Counter(y)), sorted(set(y)), 2 in set(y), np.int64(1) in set(y)


@case(Y, X)
def groups_by_label(y, x):
    groups = defaultdict(list)
    for k, v in zip(y, x, strict=True):
        groups[k].append(v)
    return dict(groups), max(groups, key=lambda k: len(groups[k])), [np.sum(groups[k]) for k in sorted(groups)]


@case(Y)
def pairs_of_labels(y):
    d = {}
    for i in range(len(y) - 1):
        d[y[i], y[i + 1]] = d.get((y[i], y[i + 1]), 0) + 1
    return d, (2, 0) in d


@case(Y)
def counts_made_before(y):
    d = dict.fromkeys(range(5), 0)
    for k in y:
        d[k] += 1
    return d


@case(Y)
def classes_of_an_array(y):
    d = {c: np.sum(y == c) for c in np.unique(y)}
    return d, [d[c] for c in np.unique(y)], list(d)


@case([[[1, 0, 1], [0, 1, 2.5]], [[2, 0, 1], [0, 1, 1.0]], [[0, 0, 3], [1, 1, 0.5]]], N)
def keys_from_a_list_of_both_numbers(moves, n):
    d = {}
    for i in range(n):
        d[moves[i % 2][0] + i // 2] = i
    return d, moves[0][0] in d, d.get(moves[1][2], -1)


# ---- heaps and sorted lists


@case(XS)
def heap_of_tuples(xs):
    heap = []
    for i, x in enumerate(xs):
        heapq.heappush(heap, (x % 3, i, float(x)))
    first = heapq.heappop(heap)
    return first, heap, heapq.heappushpop(heap, (0, -1, 2.0)), heap


@case(XS)
def heap_of_a_list(xs):
    heap = list(xs)
    heapq.heapify(heap)
    out = [heapq.heapreplace(heap, 9)]
    while heap:
        out.append(heapq.heappop(heap))
    return out, heapq.nsmallest(2, xs), heapq.nlargest(2, xs, key=lambda v: -v)


@case([[], [1.0]])
def heap_that_is_empty(xs):
    heap = list(xs)
    return heapq.heappop(heap)


@case(XS, N)
def places_in_sorted_lists(xs, n):
    s = []
    for x in xs:
        bisect.insort(s, x)
    return s, bisect.bisect(s, n), bisect.bisect_left(s, 3), bisect.bisect_right(s, 3, 1), bisect.bisect([0.5, 1.5], n)


# ---- functions that yield


def regions(image):
    h, w = image.shape
    for i in range(h - 1):
        for j in range(w - 1):
            yield image[i : i + 2, j : j + 2], i, j


@case(GRIDS)
def convolved(image):
    out = np.zeros((image.shape[0] - 1, image.shape[1] - 1))
    for region, i, j in regions(image):
        out[i, j] = np.sum(region * 0.5)
    return out


def counting(n):
    i = 0
    while True:
        yield i
        i += 1
        if i > n:
            return


@case(N)
def a_loop_that_is_left(n):
    t = 0
    for v in counting(n):
        if v == 5:
            break
        if v == 2:
            continue
        t += v
    else:
        t += 100
    for v in counting(n):
        if v * v > 10:
            return t, v
    return t, -1


@case(N)
def generators_in_generators(n):
    def evens():
        for v in counting(n):
            if v % 2 == 0:
                yield v

    pairs = []
    for a in evens():
        for b in counting(a):
            pairs.append((a, b))
    return pairs, [v * 2 for v in evens()], list(evens()), sum(evens()), max(counting(n)), sorted(evens(), reverse=True)


@case(N)
def both_sides_change_a_list(n):
    xs = [1, 2, 3]

    def lengths():
        for i in range(n):
            xs.append(i)
            yield len(xs)

    out = []
    for k, v in enumerate(lengths(), 2):
        xs.append(v)
        out.append(k * 10 + v)
    return out, xs


def joined(a, n):
    yield from a
    yield -1
    yield from counting(n)


@case(XS, N)
def values_passed_on(xs, n):
    return list(joined(xs, n)), dict.fromkeys(joined([], n), 1)


def neighbours(grid, x, y):
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        if 0 <= x + dx < grid.shape[0] and 0 <= y + dy < grid.shape[1] and grid[x + dx, y + dy] == 0:
            yield x + dx, y + dy


@case(GRIDS)
def breadth_first(grid):
    seen = {(0, 0)}
    queue = [(0, 0)]
    order = []
    while queue:
        c = queue.pop(0)
        order.append(c)
        for nb in neighbours(grid, *c):
            if nb not in seen:
                seen.add(nb)
                queue.append(nb)
    return order


class Bag:
    def __init__(self, xs):
        self.xs = xs

    def __iter__(self):
        for x in self.xs:
            yield x + 1


@case(XS)
def an_object_that_yields(xs):
    return list(Bag(xs)), [v * 2 for v in Bag(xs)]


# ---- names that nested functions bind


class Tree:
    def __init__(self, v, left=None, right=None):
        self.v, self.left, self.right = v, left, right


def tree(n):
    return Tree(n, tree(n - 1), tree(n - 2)) if n > 0 else None


@case([tree(3), tree(5), tree(1)])
def deepest(t):
    found, depth = None, 0

    def go(t, d):
        nonlocal found, depth
        if t is None:
            return 0
        if d > depth:
            depth = d
            found = t.v
        return go(t.left, d + 1) + go(t.right, d + 1) + 1

    size = go(t, 1)
    return found, depth, size


@case(N, [np.ones(3), np.arange(3.0), np.zeros(3)])
def an_array_that_a_function_binds(n, x):
    s = np.zeros(3)
    share = 0

    def add(v):
        nonlocal s, share
        s = s + v * x
        share = share + 0.5

    for i in range(n):
        add(i)
        if i == 2:
            s[0] = 7.0
    return s, share


@case(N)
def counters_of_their_own(n):
    def make():
        c = 0

        def inc():
            nonlocal c
            c += 1
            return c

        return inc

    f, g = make(), make()
    return f(), f(), g(), [f() for _ in range(n)]


@case(N)
def a_loop_binds_it_too(n):
    i = -1

    def put():
        nonlocal i
        i = 50

    out = []
    for i in range(n):
        if i == 1:
            put()
        out.append(i)
    return out, i


@case(N)
def bound_on_some_paths(n):
    def put():
        nonlocal k
        k = n

    if n > 1:
        put()
    if n > 5:
        k = 0
    return k


# ---- strings


@case(["a b  c", " aab\tba ", "", "xa a a ", "-12a"], [" ", "a", "b", "a", "1"])
def strings_taken_apart(s, q):
    return s.split(), s.split(q), s.split(q, 1), s.split(None, 1), s.strip(), s.strip("a "), s.lstrip(), s.rstrip("a")


@case(["a b  c", "aab ba", "", "xa a a ", "-12a"], [" ", "a", "b", "a", "1"])
def strings_changed(s, q):
    both = s.replace(q, "xy"), s.replace("", "-", 2), s.replace(q, "", 1)
    return both, s.count(q), s.count(""), s.rfind(q), s.partition(q), s.capitalize(), s.zfill(8)


# ---- what NumPy and SciPy have


@case(GRIDS, [np.ones((2, 3, 2)), np.arange(24.0).reshape(2, 3, 4), np.zeros((2, 3, 0))])
def functions_along_an_axis(grid, x):
    means = np.apply_along_axis(np.mean, 0, grid), np.apply_along_axis(np.sum, -1, x.transpose(2, 0, 1)[:1])
    outer = np.apply_along_axis(lambda r: np.outer(r, r), 0, grid), np.apply_along_axis(np.cumsum, 1, grid)
    return means, outer, np.dot(np.ones((2, 3)), x), np.dot(np.ones(3), x)


@case(XS, X)
def lists_in_arithmetic(xs, x):
    floats = [v * 0.5 for v in xs]
    most = np.max(floats)
    return (
        floats - most,
        most - floats,
        floats + most,
        floats / most,
        xs + np.max(xs),
        floats * np.ones(len(xs)),
        xs - x[0],
    )


@case([[0.1] * 10, [1e16, 1.0, -1e16, 1.0], [1.0, 2.0**-53, 2.0**-106], [math.inf, 1.0], [math.inf, -math.inf], []])
def exact_sums(xs):
    return math.fsum(xs), math.fsum(x * 0.5 for x in xs)


# ---- objects that hold others of their kind


@dataclass
class Node:
    v: int
    left: Node | None = None
    right: Node | None = None


def node(n):
    return Node(n, node(n - 1), node(n - 2)) if n > 0 else Node(0)


@case([node(3), node(2), node(4)], [node(3), node(3), node(4)])
def equal_trees(a, b):
    return a == b, a != b, a in [b, a.left]


class Leaf(NamedTuple):
    value: list


class Merged(NamedTuple):
    children: tuple
    order: int


@case(N)
def equal_clusters(n):
    clusters = [Leaf([float(i), 1.0]) for i in range(n)]
    while len(clusters) > 1:
        a, b = clusters[0], clusters[1]
        clusters = [c for c in clusters if c != a and c != b]
        clusters.append(Merged((a, b), len(clusters)))
    return clusters[0] == clusters[0], len(clusters)


# ---- lists that are empty at first, inside of others


@case([{0: [1, 2], 1: [0], 2: [0, 1]}, {0: [1], 1: [0]}, {0: []}])
def all_shortest_paths(friends):
    paths = {0: [[]]}
    frontier = [(0, v) for v in friends[0]]
    while frontier:
        before, user = frontier.pop(0)
        new = [path + [user] for path in paths[before]]
        old = paths.get(user, [])
        least = len(old[0]) if old else float("inf")
        paths[user] = old + [path for path in new if len(path) <= least and path not in old]
        frontier.extend((user, v) for v in friends[user] if v not in paths)
    return paths


# ---- results that are more than lists and dicts


@case(XS)
def counters_and_deques(xs):
    last = deque(maxlen=2)
    places = defaultdict(list)
    for i, x in enumerate(xs):
        last.append(x)
        places[x].append(i)
    counts = Counter(xs)
    return last, places, {"counts": counts, "n": len(xs)}, counts, OrderedDict(counts), tuple(x * 2 for x in xs)


@case(XS)
def a_counter_or_nothing(xs):
    if len(xs) > 2:
        return Counter(xs)
    return None


# ---- columns of rows


@case([[[1, 2, 3], [4, 5, 6]], [[1, 2], [3, 4, 5], [0, 7]], [[]]])
def columns_of_lists(rows):
    t = tuple(rows[0])
    parts = len(t), t[1:] == t, [v for v in t if v in (1, 4)], t.count(1), isinstance(t, tuple), isinstance(t, list)
    turned = list(map(list, zip(*rows)))
    return turned, [sum(c) for c in zip(*rows)], [max(c) - min(c) for c in zip(*rows)], parts


@case([[(1, 2.0), (3, 4.0)], [(0, 1.5)], []])
def columns_of_pairs(pairs):
    xs, ys = zip(*pairs)
    return sum(xs), max(ys), xs[0], len(ys), [x * y for x, y in zip(xs, ys)], np.array(ys), xs


# ---- parameters that are left out


@case(XS)
def left_out(xs, negated=False, names=("a", "b"), weights=[0.5, 0.25], first=None):  # noqa: B006
    if negated:
        xs.append(1)
    return [w * x for w, x in zip(weights, xs)], len(names), names[0], first if first is None else xs[first]


# ---- generator expressions that have a name, or that a loop goes over


@case(XS)
def named_expressions(xs):
    k = 2
    scaled = (x * k for x in xs if x != k)
    k = 3
    lengths = (len(r) for r in [xs, [1]])
    return sum(scaled), min(lengths, key=lambda v: abs(v - 2))


@case(XS)
def loops_over_expressions(xs):
    ys = list(xs)
    out = []
    for v in (y * 2 for y in ys if y != 1):
        if v > 8:
            break
        out.append(v)
        if len(ys) < 6:
            ys.append(v)
    pairs = [(a, b) for a, b in ((x, y) for x in xs for y in range(x) if y != 1)]
    total = 0
    for i, v in enumerate((x for x in xs), 1):
        total += i * v
    return out, pairs, total


# ---- properties that are computed once


class Vector:
    def __init__(self, w):
        self.w = w

    @functools.cached_property
    def norm(self):
        return np.sqrt(np.sum(self.w * self.w))


@case([np.ones(2), np.arange(2.0), np.zeros(3)], N)
def a_property_that_is_kept(x, n):
    v = Vector(x + 1)
    if n > 2:
        x = x / v.norm
    v.w = v.w * 3
    return v.norm, x, v.norm


@case([Vector(np.ones(2)), Vector(np.arange(2.0)), Vector(np.ones(3))])
def a_property_of_what_came_in(v):
    return v.w / v.norm, v.norm


# ---- builtins in arguments of the same builtins, and names that generator expressions bind


@case([[[1, 2], [3]], [[]], []], N)
def builtins_of_builtins(rows, n):
    found = any(any(y > n for y in row) for row in rows), all(all(y > n for y in row) for row in rows)
    sums = sum(sum(row) for row in rows), sum(sum(y for y in row) for row in rows), sum(rows, [])
    added = list(map(lambda row: list(map(lambda y: y + n, row)), rows))
    return found, sums, added, next((next((y for y in row if y > 2), 0) for row in rows), -1)


@case([[1, 2], [3], [], [5, -1, 2]], [2, 1, 0, 3])
def names_bound_in_generators(xs, n):
    iterable, last, end, total = n, -1, -1, 0
    found = any((last := x) > iterable for x in xs)
    for x in ((end := y) for y in xs):
        if x > n:
            break
    for x in xs:
        if any((y := z) > x for z in xs):
            total += y
    rows = [any((last := x) > n for x in xs) for _ in xs]
    return found, last, end, total, rows, sum((end := x) for x in xs)


# ---- numbers that become objects


class Scaled:
    def __init__(self, a):
        self.a = a

    def __mul__(self, other):
        return Scaled(self.a * (other.a if isinstance(other, Scaled) else other))


@case([0, 1, 3])
def a_number_that_becomes_an_object(n):
    p = 2.0
    for _ in range(n):
        p = Scaled(3.0) * p
    return p.a if isinstance(p, Scaled) else p
