"""Methods bound to objects as values: in the data, stored by the call, in results."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from acronumba import DataError, InstanceErrors, model, pack
from tests.support.plain_call import WAYS, compiled, interpreted


class Base:
    def __init__(self, k):
        self.k = k
        self.ops = {"+": self.plus, "-": self.minus}

    def plus(self, x):
        return x + self.k

    def minus(self, x):
        return x - self.k


class Derived(Base):
    def plus(self, x):
        return 10 * x + self.k

    def twice(self, x):
        return 2 * x * self.k


class Counter:
    def __init__(self, n):
        self.n = n
        self.step = self.up

    def up(self):
        self.n += 1

    def down(self):
        self.n -= 2


class Held:
    def __init__(self, f, g):
        self.f, self.g = f, g

    def first(self):
        return self.f[0]

    def count(self):
        return len(self.f)


def by_name(o, name, x):
    return o.ops[name](x)


def held(h, x):
    return h.f(x), h.g(x) if h.g is not None else None


def returned(h):
    return h.f, h.g


def made(n, b):
    a = Counter(n)
    fs = [a.up, a.down, a.step]
    if b:
        fs.append(a.up)
    for f in fs:
        f()
    return a.n


def chosen(n, b):
    a, c, maybe = Counter(n), Counter(10), None
    f = a.up if b else c.down
    f()
    if n > 2:
        maybe = c.up
    if maybe is not None:
        maybe()
    return a.n, c.n


def in_lists(n, b):
    counters = [Counter(k) for k in range(n)]
    fs = []
    for a in counters:
        fs.append(a.up if a.n % 2 == b else a.down)
    for f in fs:
        f()
    return [a.n for a in counters]


def in_dicts(n, b):
    a = Counter(n)
    d = {}
    d["u"] = a.up
    d["d"] = a.down
    for key in ["u", "d", "u", "d"][:n]:
        d[key]()
    return a.n


def in_recursions(n, b):
    a = Counter(0)

    def go(f, k):
        if k:
            f()
            go(a.up if k % 2 else a.down, k - 1)

    go(a.up, n)
    return a.n


class Parts:
    def __init__(self, k):
        self.ops = {"u": self.up, "all": [self.up, lambda x: self.k * x]}
        self.k = k
        self.child = Part(self)

    def up(self, x):
        return self.k + x


class Part:
    def __init__(self, parent):
        self.parent = parent
        self.itself = lambda: self


def of_own_fields(n, b):
    try:
        p = Parts(n)
        found = p.ops["u"](1), [f(2) for f in p.ops["all"]], list(map(p.ops["u"], range(2)))
        return found, p.child.parent is p, p.child.itself() is p.child
    except AttributeError:
        return None


class Left:
    def __init__(self, k, where):
        self.k = k
        where.f = self.plus

    plus = Base.plus


def left_elsewhere(n, b):
    where = Held(None, None)
    x = Left(n, where)
    y = Left(n + 1, where) if b else x
    xs = [x, y]
    y.k += 5
    return where.f(4), xs[0].k


def bound_to_lists(n):
    return (Held([n], 1).first if n > 2 else Held([n, 2], 2).count), Base(n)


def holders(seed: int, count: int) -> list[Held]:
    r = random.Random(seed)
    some = [Base(2), Derived(3), Derived(4), Base(5)]
    out = []
    for _ in range(count):
        a, b = r.choice(some), r.choice(some)
        out.append(Held(r.choice([a.plus, a.minus, a.twice] if isinstance(a, Derived) else [a.plus]), b.minus))
        out[-1].g = r.choice([None, out[-1].g])
    return out


@pytest.mark.parametrize("way", WAYS)
def test_of_the_data(way: str) -> None:
    objects = [Base(1), Derived(2), Base(3)]
    WAYS[way](by_name, objects * 2, ["+", "-", "*", "-", "+", "+"], list(range(6)))
    WAYS[way](held, holders(1, 8), list(range(8)))


@pytest.mark.parametrize("f", [made, chosen, in_lists, in_dicts, in_recursions, of_own_fields, left_elsewhere])
def test_of_objects_made_in_the_call(f: Any) -> None:
    compiled(f, [0, 1, 2, 3, 4, 5], [True, False, True, True, False, True])
    interpreted(f, [0, 3, 4], [True, False, True])


def test_results_are_bound_to_the_objects() -> None:
    some = holders(2, 6)
    assert list(model(returned).batch(some)) == list(map(returned, some))
    model(returned).check(some)


def test_results_bound_to_objects_made_in_the_call() -> None:
    for n, (method, base) in zip([1, 5], model(bound_to_lists).batch([1, 5]), strict=True):
        assert method() == (5 if n == 5 else 2) and type(method.__self__) is Held
        assert base.ops["-"].__self__ is base and base.ops["-"](1) == 1 - n


def test_packs_and_other_methods_later() -> None:
    f = model(held)
    for seed in range(3):
        some = holders(seed, 5)
        wanted = [held(h, 2) for h in some]
        assert list(f.batch(some, [2] * 5)) == wanted
        assert list(f.batch(pickle.loads(pickle.dumps(pack(some))), [2] * 5)) == wanted


def test_a_method_of_another_class_fails_alone() -> None:
    with pytest.raises(InstanceErrors) as caught:
        model(held).batch([Held(Base(1).plus, None), Held([].append, None)], [1, 2])
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], DataError)
