"""Objects made in the call: their `__init__`, changes by any name, identity, fields that are not always there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, pack
from tests.support.chosen import one_in
from tests.support.plain_call import agree, outcomes, plain

CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {}
W = (np.arange(16, dtype=np.float32).reshape(4, 4) % 5 - 2) / 4
VECTORS = [
    [np.float32(k + j) * np.array([1, -1, 0.5, 0], np.float32) for k in range(n)] for j, n in enumerate((3, 1, 4))
]
LISTS = [[3, 7, 1, 8], [5], [], [2, 2, 9]]


def case(*column: Any) -> Callable[..., Any]:
    def keep(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES[fn.__name__] = fn, list(column)
        return fn

    return keep


class Link:
    def __init__(self, v: Any, rest: Any = None) -> None:
        self.v = v
        self.rest = rest


class Total:
    def __init__(self) -> None:
        self.n = 0
        self.log: list[Any] = []
        self.h = np.zeros(4, np.float32)

    def add(self, k: int) -> None:
        self.n += k
        self.log.append(k)

    def step(self, x: Any) -> None:
        self.h = np.tanh(W @ self.h + x)
        if self.h.sum() > 0:
            self.add(int(np.argmax(self.h)))


class Scaled:
    by = np.array([2.0, 4.0])

    def __init__(self, v: Any) -> None:
        self.v = v


@case(1.0, 3.0)
def an_array_of_the_class(x):
    return Scaled(x).v * Scaled(x).by


# ---- one object, several names


@case(1, 9)
def two_names(x):
    a = Link(x)
    b = a
    b.v += 1
    return a.v, a is b


@case(1, 9, -3)
def either_of_two(x):
    a, b = Link(x), Link(2)
    c = a if x > 0 else b
    c.v = 70
    if x > 5:
        c = b
    c.v += 1
    return a.v, b.v, a is c, b is c, a is not b


@case(*LISTS)
def in_a_list_and_by_name(xs):
    links = [Link(x) for x in xs]
    first = links[0] if links else Link(0)
    for link in links:
        link.v *= 2
    first.v += 100
    return [link.v for link in links], first.v, sorted(links, key=lambda e: -e.v)[0].v if links else 0


@case(1, 2)
def in_a_field_of_another(x):
    inner = Link(x)
    outer = Link(inner, Link(inner))
    outer.v.v += 1
    outer.rest.v.v *= 10
    outer.rest.v = Link(5)
    return inner.v, outer.v is inner, outer.rest.v is inner


@case(1, 2)
def swapped_fields(x):
    p = Link(Link(x), Link(2))
    p.v, p.rest = p.rest, p.v
    p.v.v += 5
    return p.v.v, p.rest.v


@case(1)
def in_a_tuple_and_a_dict(x):
    o = Link(x)
    t, d = (o, o.v), {"o": o}
    o.v = 9
    d["o"].v += 1
    return t[0].v, t[1], d["o"] is t[0]


@case(1)
def by_nested_functions(x):
    o = Link(x)

    def grow():
        o.v += 10

    grow()
    grow()
    return (lambda k: o.v + k)(1)


@case(3, 0)
def returned_twice(x):
    o = Link(x)
    return [o, o, Link(x)], o


# ---- branches, loops, recursion


@case(*LISTS)
def changed_in_a_loop(xs):
    o = Link(0)
    for x in xs:
        if x == 1:
            continue
        o.v += x
        if x == 8:
            o.rest = Link(x)
            break
    return o.v, o.rest.v if o.rest is not None else None


@case(*LISTS)
def carried_from_turn_to_turn(xs):
    o = Link(0)
    best = o
    for x in xs:
        o = Link(x, o)
        if x > best.v:
            best = o
        best.v += 1
    return o.v, best.v, best is o


class Countdown:
    def __init__(self, n: int) -> None:
        self.left = n

    def more(self) -> bool:
        self.left -= 1
        return self.left >= 0


@case(0, 1, 5)
def changed_by_the_test_of_a_loop(n):
    c = Countdown(n)
    turns = 0
    while c.more():
        turns += c.left
    return turns, c.left


def deep_change(o, k):
    if k == 0:
        o.rest = None
        return 0
    o.v += k
    return 1 + deep_change(o, k - 1)


@case(0, 3)
def changed_by_a_recursion(x):
    o = Link(x, Link(1))
    seen = 0
    if o.rest is not None:
        seen = o.rest.v
        seen += deep_change(o, x)
        seen += 100 if o.rest is None else o.rest.v
    return seen, o.v


@case(1, 9)
def a_test_does_not_outlive_a_change(x):
    a = Link(x, Link(1))
    b = a if x <= 5 else Link(2)
    if a.rest is not None:
        b.rest = None
        return a.rest.v if a.rest is not None else -1
    return 0


@case(1, 3)
def a_test_does_not_outlive_a_turn(x):
    a = Link(x, Link(1, Link(2)))
    b = a if x <= 1 else Link(7, Link(8))
    total = 0
    if a.rest is not None:
        for _ in range(x):
            if a.rest is not None:
                total += a.rest.v
            b.rest = None
            b.v += 1
    return total, a.v, b.v


@case(0, 10, 3000)
def long_chain(n):
    head = None
    for i in range(n):
        head = Link(i, head)
    total, at = 0, head
    while at is not None:
        at.v += 1
        total += at.v
        at = at.rest
    return total


@case(*VECTORS)
def two_that_wait_for_values(xs):
    a, b = Total(), Total()
    for x in xs:
        a.step(x)
        b.step(-x)
    return a.n, a.log, a.h, b.n, b.log


def visit(t, total):
    if t is None:
        return
    visit(t.rest, total)
    total.step(np.float32(0.1) * t.v)
    total.add(1)


@case(*VECTORS)
def accumulator_of_a_recursion_that_waits(xs):
    head = None
    for x in xs:
        head = Link(x, head)
    total = Total()
    visit(head, total)
    return total.n, total.log, total.h


class Narrow:
    def __init__(self, v: int) -> None:
        self.v = v

    def grow(self) -> None:
        self.v += 1


class Wide(Narrow):
    def __init__(self, v: int) -> None:
        Narrow.__init__(self, v * 10)

    def grow(self) -> None:
        narrow = super()
        for _ in range(self.v):
            narrow.grow()
        self.v += 100


@case(*LISTS)
def of_several_classes(xs):
    os = [Narrow(x) if x % 2 else Wide(x) for x in xs]
    for o in os:
        o.grow()
    return [o.v for o in os], [isinstance(o, Wide) for o in os]


# ---- fields that are not always there


class Sometimes:
    kind = 3

    def __init__(self, x: int) -> None:
        if x > 0:
            self.x = x
        if x > 1:
            self.kind = x


@case(1, -1, 5)
def set_on_one_path(x):
    return Sometimes(x).x * 2


@case(1, -1, 5)
def set_on_one_path_and_changed(x):
    o = Sometimes(x)
    p = o if x > 3 else Sometimes(2)
    p.x += 1
    return o.x, p.kind, o.kind


@case(*LISTS)
def set_later(xs):
    os = [Narrow(x) for x in xs]
    for o in os:
        if o.v > 2:
            o.w = o.v
    return [getattr(o, "w", -1) for o in os], [hasattr(o, "w") for o in os]


@case(*LISTS)
def read_where_it_was_not_set(xs):
    os = [Narrow(x) for x in xs]
    for o in os:
        if o.v > 2:
            o.w = o.v
    return sum([o.w for o in os])


@case(1, -1, 2)
def result_with_the_fields_that_were_set(x):
    o = Sometimes(x)
    o.tag = x
    return [o, Sometimes(3)]


class Lazy:
    def __init__(self) -> None:
        self.ready = False

    def get(self, x: int) -> int:
        if self.ready:
            return self.value * 2
        self.value = x
        self.ready = x > 0
        return -1


@case(1, -1, 5)
def set_by_the_first_call(x):
    lazy = Lazy()
    return [lazy.get(x), lazy.get(x + 1), lazy.get(x)], lazy.value


@case(1, -1)
def never_set_on_this_path(x):
    lazy = Lazy()
    if x > 0:
        lazy.get(3)
    elif x < 0:
        return lazy.value
    return lazy.value


# ---- classes


@dataclass
class Reading:
    low: float
    high: float = 4.0
    scale: InitVar[float] = 2.0
    seen: list[float] = field(default_factory=list)
    gap: float = field(init=False)

    def __post_init__(self, scale: float) -> None:
        self.gap = (self.high - self.low) * scale
        self.extra = self.gap + 1

    def see(self, x: float) -> None:
        self.seen.append(x)
        self.low = min(self.low, x)


@case(1.0, 5.0)
def dataclass_with_post_init(x):
    r = Reading(x, scale=3.0)
    unchanged = Reading(2.0, x)
    r.see(x - 1)
    r.see(x)
    return r.low, r.gap, r.extra, r.seen, unchanged.gap, Reading(1.0).gap


@dataclass(frozen=True)
class Unit:
    a: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", self.a * 2)


@case(1.0, 5.0)
def frozen_with_post_init(x):
    return Unit(x).b + Unit(1.0).a, Unit(x) == Unit(1.0)


class Guarded:
    def __init__(self) -> None:
        self._x = 0
        self.changes = 0

    @property
    def x(self) -> int:
        return self._x

    @x.setter
    def x(self, value: int) -> None:
        self._x = 2 * value
        self.changes += 1


@case(1, 2)
def by_a_property(v):
    g = Guarded()
    g.x = v
    g.x += 1
    return g.x, g.changes


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: int) -> None:
        self.a = a

    def fill(self) -> None:
        self.b = self.a + 1


@case(1, -1)
def slots(x):
    s = Slotted(x)
    if x > 0:
        s.fill()
    return s.a, s.b


class Registered:
    """Part of something before `__init__` is done."""

    def __init__(self, others: list[Any], x: int) -> None:
        others.append(self)
        self.x = x
        self.place = len(others)


@case(0, 3)
def seen_while_it_is_made(n):
    all_of = []
    a, b = Registered(all_of, n), Registered(all_of, n + 1)
    b.x = 7
    return all_of[0].x, all_of[1].x, all_of[0] is a, a.place + b.place


class Owner:
    """Holds itself, and what holds it."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.me = self
        self.parts = [Part(self), Part(self)]
        self.before: Any = None


class Part:
    def __init__(self, owner: Any) -> None:
        self.owner = owner


@case(0, 3)
def objects_that_hold_themselves_when_they_are_made(n):
    one = Owner(n)
    for k in range(n):
        other = Owner(k)
        other.before = one
        one = other
    return one, one.me is one, one.parts[1].owner.k, one.parts[0].owner is one


@dataclass(frozen=True)
class Selfish:
    k: int
    me: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "me", self)


@case(0, 3)
def frozen_objects_that_hold_themselves(n):
    one = Selfish(n)
    for k in range(n):
        one = Selfish(one.k + k)
    return one, one.me is one


@model
def frozen_and_done(n: int):
    one = Selfish(n)
    for k in range(n):
        one = Selfish(k)
    object.__setattr__(one, "k", 3)
    return one


def test_a_frozen_object_is_set_only_while_it_is_made() -> None:
    with pytest.raises(AcronumbaError, match="ACR113"):
        frozen_and_done.batch([2])


@dataclass
class Counted:
    n: int
    parts: list[int] = field(default_factory=list)


@case(0, 3)
def replaced_after_a_change(n):
    one = Counted(n)
    one.n += 1
    other = replace(one, n=n + 5)
    other.parts.append(n)
    other.n += 1
    for k in range(n):
        one = replace(one, n=one.n + k)
    return one, other, other.parts is one.parts


class Grown:
    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.kids = [Grown(depth - 1), Grown(depth - 2)] if depth > 1 else []

    def size(self) -> int:
        return 1 + sum([k.size() for k in self.kids])


@case(0, 1, 4)
def made_by_a_recursive_init(n):
    g = Grown(n)
    g.depth += 1
    return g.size(), g.depth


class Vector:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.a + other.a, self.b + other.b)

    def __mul__(self, k: Any) -> Vector:
        return Vector(self.a * k, self.b * k)

    def __rmul__(self, k: Any) -> Vector:
        return self * k

    def __neg__(self) -> Vector:
        return Vector(-self.a, -self.b)

    def __abs__(self) -> Any:
        return abs(self.a) + abs(self.b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.a == other.a and self.b == other.b

    def __lt__(self, other: Vector) -> bool:
        return self.a < other.a

    def __len__(self) -> int:
        return 2

    def __getitem__(self, k: int) -> Any:
        return self.a if k == 0 else self.b

    def __iter__(self) -> Any:
        return iter([self.a, self.b])

    def __contains__(self, x: Any) -> bool:
        return x in (self.a, self.b)

    def __call__(self, x: Any) -> Any:
        return self.a * x + self.b

    def __bool__(self) -> bool:
        return self.a != 0


@case(1.0, 0.0, -3.0)
def special_methods(x):
    u, v = Vector(x, 1.0), Vector(2.0, x)
    w = -(u + v) * 2 + 3 * u
    total = 0.0
    for e in w:
        total += e
    both = [*w], [2 * e for e in u], list(v), sum(u)
    return total, len(w), w[0], w[1], x in u, 7.5 in u, u == v, u != v, u < v, u > v, w(2.0), abs(w), not u, both


class Grid:
    def __init__(self, n: int) -> None:
        self.n = n
        self.cells = [0] * (n * n)

    def __getitem__(self, at: Any) -> int:
        i, j = at
        return self.cells[i * self.n + j]

    def __setitem__(self, at: Any, value: int) -> None:
        i, j = at
        self.cells[i * self.n + j] = value


@case(*LISTS)
def items_of_an_object(xs):
    g = Grid(3)
    for k, x in enumerate(xs):
        g[k % 3, x % 3] = x
        g[0, 0] += 1
    return g.cells, g[0, 0]


class Memory:
    """An array as a field that is written into, part by part."""

    def __init__(self, n: int) -> None:
        self.M = np.zeros((n, 4), np.float32)
        self.dW = np.zeros(4, np.float32)
        self.t = 0

    def write(self, x: Any) -> None:
        self.M[self.t] = x
        self.dW += x
        self.t += 1


@case(*VECTORS)
def arrays_as_fields(xs):
    m = Memory(4)
    for x in xs:
        m.write(x)
    return m.M, m.dW, m


@case(*VECTORS)
def arrays_as_fields_of_several(xs):
    ms = [Memory(4), Memory(4)]
    longer = ms[0] if len(xs) > 2 else ms[1]
    for x in xs:
        for m in ms:
            m.write(x)
    longer.M[0] = 7
    return [m.M.sum(axis=0) for m in ms]


class Hidden:
    def __init__(self, x: int) -> None:
        self.__x = x

    def __twice(self) -> int:
        return 2 * self.__x

    def grow(self) -> int:
        self.__x += 1
        return self.__twice()


class MoreHidden(Hidden):
    def __init__(self, x: int) -> None:
        super().__init__(x)
        self.__x = 100

    def both(self) -> tuple[int, int]:
        return self.grow(), self.__x

    def again(self) -> MoreHidden:
        return self.__class__(self.__x)


@case(1, 2)
def private_names(x):
    h = MoreHidden(x)
    return h.both(), h.again().both(), h


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_like_the_plain_call(name: str) -> None:
    fn, column = CASES[name]
    wanted = plain(fn, column)
    for run in (model(fn).batch, model(fn)._interpret, model(fn).with_options(forkjoin=False).batch):
        agree(outcomes(run, column), wanted, close=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_on_the_simulator(name: str) -> None:
    fn, column = CASES[name]
    agree(outcomes(model(fn).on("simulator").batch, column), plain(fn, column), close=True)


def test_an_object_is_one_object_in_the_result() -> None:
    (a, b, c), d = model(returned_twice).batch([3])[0]
    assert type(a) is Link and a is b is d and a is not c and vars(a) == {"v": 3, "rest": None}


def test_a_result_has_the_fields_that_were_set() -> None:
    found = model(result_with_the_fields_that_were_set).batch([1, -1, 2])
    assert [sorted(vars(o)) for o, _ in found] == [["tag", "x"], ["tag"], ["kind", "tag", "x"]]
    assert all(sorted(vars(o)) == ["kind", "x"] for _, o in found)


# ---- what is rejected


class Given:
    def __init__(self, x: int, rest: Given | None = None) -> None:
        self.x = x
        self.rest = rest
        self.xs = [x]


def changes_a_parameter(t):
    t.x = 3
    return t.x


def changes_what_may_be_a_parameter(t):
    g = Given(1, t)
    g.rest.x = 3
    return g.x


def changes_a_list_of_a_parameter(t):
    g = Given(1, t)
    g.rest.xs.append(3)
    return g.x


OWN = Given(3)


def changes_a_global(t):
    OWN.x = t.x
    return t.x


def adds_to_a_list_of_a_global(t):
    g = Given(1)
    g.xs = OWN.xs
    g.xs.append(t.x)
    return g.x


class WithHook:
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args)


class OfMeta(metaclass=Meta):
    pass


class Doubles:
    def __get__(self, owner: Any, cls: Any = None) -> int:
        return 7

    def __set__(self, owner: Any, value: Any) -> None:
        pass


class WithDescriptor:
    x = Doubles()


class Computed:
    def __getattr__(self, name: str) -> int:
        return 1


class Fixed:
    __slots__ = ("a",)


@dataclass(frozen=True)
class Frozen:
    a: int


def sets_slot_that_is_none(t):
    f = Fixed()
    f.b = t.x
    return f.a


def sets_a_frozen_field(t):
    f = Frozen(t.x)
    f.a = 3
    return f.a


def sets_a_descriptor(t):
    d = WithDescriptor()
    d.x = t.x
    return t.x


REJECTED = {
    changes_a_list_of_a_parameter: "ACR113",
    changes_a_global: "ACR113",
    adds_to_a_list_of_a_global: "ACR113",
    sets_slot_that_is_none: "ACR307",
    sets_a_frozen_field: "ACR113",
    sets_a_descriptor: "ACR210",
    lambda t: WithHook() is None: "ACR210",
    lambda t: OfMeta() is None: "ACR210",
    lambda t: WithDescriptor().x: "ACR210",
    lambda t: Computed().y: "ACR210",
}


@pytest.mark.parametrize("fn", REJECTED)
def test_rejected(fn: Callable[..., Any]) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(lambda t: fn(t)).batch([Given(1), Given(2)])
    assert caught.value.code == REJECTED[fn] and caught.value.line and caught.value.seen


@pytest.mark.parametrize("fn", [changes_a_parameter, changes_what_may_be_a_parameter])
def test_a_parameter_is_changed_for_the_instance_alone(fn: Callable[..., Any]) -> None:
    column = [Given(1), Given(2, Given(3))]
    wanted = plain(fn, copy.deepcopy(column))
    for given in (column, pack(column)):
        agree(list(model(fn).batch(given)), wanted)
    assert [t.x for t in column] == [1, 2]


def test_an_object_of_a_class_of_the_data_may_be_changed_where_it_is_made() -> None:
    def f(t):
        g = Given(t.x, t)
        g.x += 5
        g.xs.append(g.x)
        return g.x, g.rest.x, g.xs, t.xs

    column = [Given(1), Given(2, Given(3))]
    for given in (column, pack(column)):
        agree(list(model(f).batch(given)), plain(f, column))


def test_a_deep_structure_is_built_and_returned() -> None:
    def f(n):
        head = None
        for i in range(n):
            head = Link(i, head)
            head.v += 1
        return head

    at, count = model(f).batch([100_000])[0], 0
    while at is not None:
        at, count = at.rest, count + 1
    assert count == 100_000
