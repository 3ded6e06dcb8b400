"""Models that read, make, keep and return tuples of a length that only run time knows, each with its instances."""

# ruff: noqa: C417, RUF005, RUF007 -- as people write it

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

TUPLES = [(1, 2), (3,), (4, 5, 6), (1, 1, 2, 3, 5)]
LISTS = [list(t) for t in TUPLES]
EITHER = [(1, 2), [3], (4, 5, 6), [1, 1, 2, 3, 5]]
NESTED = [((1, 2), 3), 5, (((1, 4, 4),),), (1, (2, 3, (4,)))]
CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def case(*columns: Any) -> Callable[[Any], Any]:
    """Register a function of one parameter: with each of some columns, or with tuples alone."""

    def register(f: Any) -> Any:
        CASES.extend((f, (column,)) for column in columns or (TUPLES,))
        return f

    return register


@case(TUPLES, LISTS, EITHER)
def is_read(t):
    total = 0
    for x in t:
        total += x
    pairs = [a * b for a, b in zip(t, t[1:], strict=False)]
    first, *rest = t
    numbers = {x: i for i, x in enumerate(t)}
    return total, len(t), t[0] + t[-1], 3 in t, pairs, first, rest, numbers, [i * x for i, x in enumerate(t)]


@case(TUPLES, LISTS)
def goes_into_functions(t):
    ends = min(t), max(t), sorted(t, reverse=True), list(reversed(t)), sum(x * 2 for x in t), any(x > 2 for x in t)
    mapped = list(map(lambda v: v + 1, t)), [*filter(lambda v: v > 1, t)], functools.reduce(lambda a, b: a * b, t)
    return ends, mapped, math.prod(t), t.index(t[-1]), t.count(1), len(set(t)), np.array(t), np.mean(t), np.eye(7)[t[0]]


@case(TUPLES, LISTS, EITHER)
def is_of_a_class(t):
    return isinstance(t, tuple), isinstance(t, list), isinstance(t, (list, tuple)), not t


@case(TUPLES, LISTS)
def has_a_type(t):
    return type(t) is tuple, type(t) is list


@case()
def is_compared(t):
    return t == (1, 2), t != (1, 2), t < (2,), t >= (1, 1), t == t[:2], t == [1, 2], t != [1, 2], max([t, t[1:] + (0,)])


@case()
def is_added(t):
    return t + (7,), (7,) + t, t + t, t * 2, 2 * t, t[1:], t[::-1], tuple(t), (*[0], *t)


@case()
def grows(t):
    out, ends = (), [(0, 0)]
    for x in t:
        out = out + (x,)
        ends[0] += (x,)
    return out, ends, len(out), isinstance(out, tuple)


@case()
def beams(t):
    kept = [((), 0.0)]
    for n in t:
        kept = sorted([((*path, k), s + k / n) for path, s in kept for k in range(3)], key=lambda e: -e[1])[:2]
    return kept


@dataclass
class Kept:
    what: Any
    rest: tuple[int, ...]


@case()
def is_kept(t):
    parts = [t[i:] for i in range(len(t))]
    named = {k: t[:k] for k in range(3)}
    one = Kept(parts[0], t[1:])
    one.rest = one.rest + (1,)
    return parts, named[1], one, (t, (t, 1))


@case(TUPLES, EITHER)
def is_one_of_several(t):
    longer = t if len(t) > 2 else None
    listed = t if len(t) > 1 else [0]
    known = t if len(t) > 3 else (0,)
    return longer, listed, known, len(listed), isinstance(listed, tuple), sum(known)


@case(TUPLES, LISTS)
def is_matched(t):
    match t:
        case (a,):
            return a, [], 0
        case (a, b):
            return a + b, [], 1
        case (a, *rest):
            return a, rest, 2


@case()
def is_taken_apart(t):
    return 0 if not t else t[0] + is_taken_apart(t[1:])


@case(NESTED)
def depth(t):
    return 1 + max([depth(c) for c in t]) if isinstance(t, tuple) else 0


@case(NESTED)
def leaves(t):
    if not isinstance(t, tuple):
        return (t,)
    out = ()
    for c in t:
        out = out + leaves(c)
    return out


class Node:
    def __init__(self, value, children=()):
        self.value = value
        self.children = children


@dataclass
class Tree:
    value: int
    children: tuple[Tree, ...] = ()


def forest(make, box, other):
    """Return trees of a class, with children in boxes of one class, or of two."""
    inner = make(1, other([make(2), make(3, box([make(4)]))]))
    return [make(1, box([inner, make(5)])), make(5), make(6, box([make(7, other([make(8)])), make(9), inner]))]


FORESTS = (
    forest(Node, tuple, tuple),
    forest(Node, list, tuple),
    forest(Tree, tuple, tuple),
    forest(Tree, tuple, list),  # not as the annotation says
)


@case(*FORESTS)
def total(t):
    return t.value + sum(total(c) for c in t.children) * len(t.children)


@case(*FORESTS)
def listed(t):
    here = isinstance(t.children, list)
    for c in t.children:
        here = here or listed(c)
    return here


@case(FORESTS[2])
def made(t):
    return Tree(t.value + 1, tuple([made(c) for c in t.children]))


@case(FORESTS[0], FORESTS[1])
def returned(t):
    return t.children, t.children[:1], tuple(returned(c)[1] for c in t.children[:1])


@case()
def is_too_short(t):
    return t[2]


# ---- keys of dicts and sets


@case([*TUPLES, ()])
def is_a_key(t):
    d = {t: 1, (1, 2): 2}
    parts = {t[:i]: i for i in range(len(t) + 1)}
    seen = {t[i:j] for i in range(len(t)) for j in range(i, len(t) + 1)}
    asked = d.get((1, 2), 0), d.get((3,), -1), d[t], (True, 2) in d, (7, 7) in seen, t[:2] in seen
    return d, parts, sorted(parts), len(seen), asked, {(i % 2, t[:i]): i for i in range(len(t))}


@case(TUPLES)
def leaves_a_dict(t):
    d = {t[:i]: i for i in range(len(t) + 1)}
    d.pop(t[:1])
    del d[()]
    e = dict(d)
    e[(*t, 1)] = 5
    e.update(d)
    return d, e, d == e, d | e, {t[i:] if i % 2 else None: i for i in range(len(t))}


@case([["a", "b", "a", "b"], ["ab"], ["a", "bc"], []])
def of_strings(words):
    counts = {}
    for i in range(len(words)):
        pair = tuple(words[i : i + 2])
        counts[pair] = counts.get(pair, 0) + 1
    return counts, counts.get(("a", "b"), 0), counts.get(("zz",), 0)


@case([{(1,): 1, (1, 2): 2}, {(2, 3): 3, (): 4}, {(1, 2, 3): 3}])
def given_keys(d):
    return sorted(d), d.get((1,), -1), [d[k] for k in d], (2, 3) in d, {k: v + 1 for k, v in d.items()}


@case([{(1,), (1, 2)}, {(2, 3)}, {()}])
def given_elements(s):
    return (1,) in s, (1, 2) in s, len(s), s


@case(TUPLES)
def no_such_key(t):
    return {t[:1]: 1}[t]


@case([1, 2, 6])
def prefix_beam_search(n):
    """Decode a connectionist temporal classification (Hannun et al., 2014), as it is usually written."""
    never = -1e30
    beam = [((), (0.0, never))]
    for t in range(n):
        new = defaultdict(lambda: (never, never))
        for s in range(3):
            p = np.log([0.1, 0.5, 0.4][(s + t) % 3])
            for prefix, (blank, other) in beam:
                if s == 0:
                    b, o = new[prefix]
                    new[prefix] = (np.logaddexp(b, np.logaddexp(blank + p, other + p)), o)
                    continue
                end = prefix[-1] if prefix else None
                longer = prefix + (s,)
                b, o = new[longer]
                o = np.logaddexp(o, np.logaddexp(blank + p, other + p) if s != end else blank + p)
                new[longer] = (b, o)
                if s == end:
                    b, o = new[prefix]
                    new[prefix] = (b, np.logaddexp(o, other + p))
        beam = sorted(new.items(), key=lambda e: np.logaddexp(*e[1]), reverse=True)[:4]
    return beam[0][0], -np.logaddexp(*beam[0][1])


# ---- what such models also do


def empty_counts():
    def zero():
        return 0, 0.0

    return defaultdict(zero)


@case([0, 1, 3])
def defaults_made_by_a_helper(n):
    counts = empty_counts()
    for i in range(n):
        new = empty_counts()
        for k in range(i + 1):
            many, total = counts[k]
            new[k] = (many + 1, total + k / 2)
        counts = new
    return dict(counts)


def largest(*args):
    if all(a == -np.inf for a in args):
        return -np.inf
    most = np.max(args)
    return most + np.log(sum(np.exp(a - most) for a in args))


@case([0, 1, 2, 5])
def numbers_of_several_kinds(n):
    pair = (0, -np.inf)
    for i in range(n):
        pair = (largest(*pair), largest(pair[0], np.float64(i), pair[1])) if i % 3 else (pair[0], i)
    return pair, np.mean(pair), np.array([pair[0], 1])


# ---- what a review found


class Pair(NamedTuple):
    x: int
    y: int


@case([Pair(1, 2), Pair(3, 4)])
def slice_of_a_named_tuple(p):
    n = p.x % 2 + 1
    return p[:1], p[::-1], p[::-1] == (2, 1), isinstance(p[:1], tuple), p[1:] + (1,), p[:n], (p.x, 5, 6)[:n]


@case([[1, 2], [0, 0], [3, 1]])
def index_of_an_array(position):
    grid = np.arange(16.0).reshape(4, 4)
    seen = np.zeros((4, 4), bool)
    seen[tuple(position)] = True
    grid[tuple(k for k in position)] += 10.0
    return grid[tuple(position)], int(seen.sum()), grid[:, tuple(position)], grid[tuple(position), 0]


def gather(t, out):
    if t:
        out.append(t[0])
        gather(t[1:], out)


def without_one(t):
    return [t] if len(t) < 2 else [(t[i], *rest) for i in range(len(t)) for rest in without_one(t[:i] + t[i + 1 :])]


@case(TUPLES[:3])
def beside_lists_that_change(t):
    out = []
    gather(t, out)
    return out, without_one(t), [x + 1 for x in out]


def paths(n, path):
    if n == 0:
        return [path]
    return [p for i in range(2) for p in paths(n - 1, (*path, i))]


@case([0, 1, 3])
def grows_by_recursion(n):
    return paths(n, ())


@case()
def meets_unlike_tuples(t):
    halves = (0.5, 1.0) if len(t) > 2 else t
    named = ("x", 1) if len(t) > 1 else t
    order = sorted([t, t[1:], t[:1]], key=lambda q: (len(q), q))
    same = t
    return halves, named, order, same is t, sorted({t[:i]: i for i in range(3)}.items())


BIGRAMS = {("a", "b"): 0.5, ("b", "a"): 0.25}


@case([["a", "b", "a"], ["b", "b"], ["a"]])
def asks_a_table(words):
    total = 0.0
    for i in range(len(words)):
        total += BIGRAMS.get(tuple(words[i : i + 2]), 0.1)
    return total, tuple(words) in BIGRAMS, {(): 0}.get(tuple(words[:0]), 1), tuple(range(1, len(words))) == [1, 2]
