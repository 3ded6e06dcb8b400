"""Models of special methods, and of assignments to items: what Python calls and evaluates, and in which order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.support.cases import Case, into
from tests.support.models_of_corners import XS, N

CASES: list[Case] = []
case = into(CASES)


class Steps:
    def __init__(self):
        self.seen = []

    def __getitem__(self, at):
        return [a.step if isinstance(a, slice) else a for a in at] if isinstance(at, tuple) else at.step

    def __setitem__(self, at, step):
        self.seen += [at.step, step]


@case(XS, N)
def steps_of_slices(xs, n):
    o, at, a = Steps(), slice(n, 3), np.array([*xs, 1, 2])
    o[n:], o[::1], o[at] = 5, 6, 7
    o[n:3] = o[::-2]
    a[1:] += 1
    a[::1] *= 2
    return o[n:3], o[:], o[::1], o[at], o[n:, ::2, at, 1], o.seen, xs[at], xs[::1], a[at], a, "abcd"[at]


class Base:
    def __init__(self, n):
        self.n = n

    def __sub__(self, other):
        return 1

    def __radd__(self, other):
        return 2

    def __lt__(self, other):
        return self.n < other.n

    def __ge__(self, other):
        return self.n + 3 >= other.n

    def __le__(self, other):
        return self.n < other.n

    def __eq__(self, other):
        return self.n == 4


class Derived(Base):
    def __rsub__(self, other):
        return 3

    def __gt__(self, other):
        return self.n > other.n + 100

    def __eq__(self, other):
        return True


class Unequal(Base):
    def __ne__(self, other):
        return self.n == 9


@case(XS, N)
def derived_operands(xs, n):
    objects = [Base(n), Derived(n + 1), Unequal(n), Base(n + 1)]
    pairs = [(a, b) for a in objects for b in objects]
    found = [(a < b, a >= b, a <= b, a == b, a != b) for a, b in pairs]
    among = [a in (b,) for a, b in pairs], Base(4) in [Base(x) for x in xs]
    return found, objects[0] - objects[1], Derived(n) - Base(n), Base(n) + Derived(n), among


class Pair(NamedTuple):
    x: int
    y: int = 1

    def __len__(self):
        return 99

    def __getitem__(self, at):
        return [at, self.x]

    def __contains__(self, value):
        return value == 55

    def __bool__(self):
        return self.x > 4

    def __neg__(self):
        return 7


class Seven(NamedTuple):
    x: int
    y: int = 1

    def __iter__(self):
        return iter([7, self.x, 9])

    def __reversed__(self):
        return iter([8])


@case(XS, N)
def methods_of_named_tuples(xs, n):
    p, s = Pair(n), Seven(n)
    a, b, c = s
    x, y = p
    turned = list(reversed(s))
    asked = len(p), p[n], 55 in p, n in p, 1 if p else 2, not p, -p
    return asked, [*p], p.y, x, y, p + p, p == Pair(n), a, b, c, list(s), sum(s), max(s), s.x, s, turned


def _added_to(t, k, value):
    try:
        t[k] += value
    except TypeError:
        return t
    except IndexError:
        return k


@case(XS, N)
def changed_items_of_tuples(xs, n):
    a = np.zeros(2)
    t = ([*xs, 1], a, 5)
    kinds = ({n}, {2: n}, {"a": n}, np.zeros(()))
    row = (n, 1) if n > 3 else {0: n}
    for k in 0, 1:
        try:
            kinds[k] |= {n} if k == 0 else {n: k}
        except TypeError:
            _added_to(t, k, [n, k])
    _added_to(kinds, 3, n)
    at = _added_to(row, 0, 1), row, _added_to(t, n, n)
    return t, a, kinds, at, [_added_to(([x], x), 0, [n]) for x in xs]


@case(XS, N)
def order_of_assignments_that_fail(xs, n):
    seen = []

    def saw(v):
        seen.append(v)
        return v

    try:
        saw("abc")[saw(0)] += saw("x")
    except TypeError:
        saw(1)
    try:
        _, saw((n, 2))[saw(0) : saw(1)] = saw(4), saw(n)
    except TypeError:
        saw(2)
    try:
        saw(n)[saw(0)] += saw(3)
    except TypeError:
        saw(3)
    try:
        (1, 2)[{}[n]] = 1
    except KeyError:
        saw(4)
    return seen
