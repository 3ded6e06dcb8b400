"""Objects, lists, dicts and arrays that are copied by `copy.copy` and `copy.deepcopy`, and changed."""

from __future__ import annotations

import copy
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)
RNG = np.random.default_rng(7)
H = 5


def weights(*shape: int) -> np.ndarray:
    """Return random weights."""
    return RNG.standard_normal(shape) * 0.5


XS = [np.arange(H) * 0.25, np.ones(H), np.linspace(-1, 1, H)]
N = [0, 1, 3]


class Net:
    def __init__(self):
        self.w = weights(H, H)
        self.cache = None
        self.count = 0
        self.log = [1, 2]
        self.table = {"a": 1.0, "b": 2.0}

    def forward(self, x):
        y = np.tanh(self.w @ x)
        self.cache = (x, y)
        self.count += 1
        return y


class Layer:
    def __init__(self, w, activate):
        self.w = w
        self.activate = activate
        self.out = None

    def __call__(self, x):
        self.out = self.activate(self.w @ x)
        return self.out


class Deep:
    def __init__(self):
        self.layers = [Layer(weights(H, H), np.tanh), Layer(weights(H, H) / 2, np.abs)]
        self.state = np.zeros(H)
        self.runs = 0

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        self.runs += 1
        self.state[self.runs] = x[0]
        self.state += x
        return x


class Pair(NamedTuple):
    a: list[int]
    b: float


@dataclass
class Item:
    value: float
    seen: bool = False
    tags: list[int] = field(default_factory=list)


@dataclass
class Node:
    value: float
    left: Node | None = None
    right: Node | None = None


NET, DEEP = Net(), Deep()
ITEMS = [Item(1.5), Item(2.0, True, [3]), Item(-1.0, False, [1, 2])]
NODES = [Node(1.0), Node(2.0, Node(3.0)), Node(1.0, Node(2.0, None, Node(7.0)), Node(-1.0))]


@case(XS)
def a_shared_object_is_copied(x):
    net = copy.copy(NET)
    y = net.forward(x)
    z = net.forward(y)
    return z, net.cache, net.count, NET.count, NET.cache is None


@case(XS)
def deeply(x):
    net = copy.deepcopy(NET)
    y = net.forward(x)
    net.w[0] = y
    net.w[1, 2] += 1.0
    net.log.append(7)
    net.table["a"] = 5.0
    return net.forward(x), net.w, net.log, NET.log, net.table["a"], NET.table["a"], NET.w[0]


@case(XS)
def objects_in_objects(x):
    net = deepcopy(DEEP)
    y = net.forward(x)
    y = net.forward(y)
    return y, net.state, DEEP.state, net.runs, [v.out is not None for v in DEEP.layers], net.layers[1].out


@case(XS)
def in_a_loop(x):
    net = copy.copy(NET)
    for _ in range(len(x)):
        x = net.forward(x)
    if x[0] > 0.1:
        net.cache = None
    return x, net.count, net.cache is None


@case(XS, N)
def in_each_turn(x, n):
    out = []
    for _ in range(n):
        net = copy.copy(NET)
        net.forward(x)
        out.append(net.count)
    return out


def again(net, x, n):
    if n == 0:
        return x
    return again(net, net.forward(x), n - 1)


@case(XS, N)
def through_a_recursion(x, n):
    net = copy.copy(NET)
    y = again(net, x, n)
    return y, net.count


@case(ITEMS)
def of_the_instance(t: Item):
    u = copy.copy(t)
    u.value = 7.0
    u.seen = not u.seen
    return u.value, t.value, u.seen, t.seen, u.tags is t.tags, len(u.tags)


@case(ITEMS)
def of_the_instance_deeply(t: Item):
    u = copy.deepcopy(t)
    u.tags.append(4)
    u.value += 1.0
    return u, t.tags, t.value


@case(N)
def made_in_the_call(n):
    a = Item(1.0, False, [n])
    b = copy.copy(a)
    c = copy.deepcopy(a)
    a.tags.append(5)
    b.value = 2.0
    c.tags.append(6)
    return a, b, c


@case(N)
def one_object_twice_is_one_copy(n):
    a = Item(1.0)
    b = [n]
    c, d, e = copy.deepcopy((a, a, b))
    c.value = 2.0
    e.append(1)
    return a.value, c.value, d.value, b, e


@case(XS)
def arrays(x):
    a, b = copy.copy(x), copy.deepcopy(x)
    a[0] = 5.0
    b[1] = 6.0
    return a, b, x


@case(XS)
def a_written_array(x):
    a = x.copy()
    a[0] = 5.0
    b = copy.deepcopy(a)
    c = copy.copy(a)
    a[1] = 6.0
    b[2] = 7.0
    return a, b, c


@case(XS, N)
def lists_and_dicts(x, n):
    a = [n, 2]
    b, c = copy.copy(a), copy.deepcopy(a)
    a.append(3)
    d = {"a": n, "b": 2}
    e, f = copy.copy(d), copy.deepcopy(d)
    e["a"] = 7
    f["c"] = 8
    g = {n}
    h = copy.copy(g)
    h.add(9)
    return a, b, c, d, e, f, g, h


@case(XS, N)
def what_cannot_change_is_itself(x, n):
    t = (n, 2.5, "a", None, True)
    return copy.copy(t), copy.deepcopy(t), copy.copy(n), copy.deepcopy(None), copy.deepcopy("ab"), copy.copy(x[0])


@case(N)
def named_tuples(n):
    p = Pair([n], 1.0)
    q, r = copy.copy(p), copy.deepcopy(p)
    r.a.append(1)
    return q.b, p.a, r.a, q.a


class Own:
    def __init__(self, v):
        self.v = v

    def __copy__(self):
        return Own(self.v + 1)


@case(N)
def a_copy_of_ones_own(n):
    return copy.copy(Own(n)).v


class Plain:
    def apply(self, x):
        return x + 1


class Holder:
    def __init__(self):
        self.act = Plain()
        self.n = 0

    def step(self, x):
        self.n += 1
        return self.act.apply(x)


HOLDER = Holder()


@case(XS, N)
def an_object_without_fields_in_a_row(x, n):
    h = copy.copy(HOLDER)
    return again_step(h, x, n), h.n


def again_step(h, x, n):
    return x if n == 0 else again_step(h, h.step(x), n - 1)


@case(XS)
def on_one_path_only(x):
    net = NET
    if x[0] > 0.5:
        net = copy.copy(net)
    return net.w @ x


@case(N)
def lists_that_may_be_one(n):
    a, b = [0], [7]
    for k in range(n):
        a.append(k * 2)
    c = a if n > 1 else b
    given = (a, b, c, n)
    mine = copy.deepcopy(given)
    mine[2].append(77)
    mine[0].append(5)
    return mine, given


STATE = {"w": weights(H, H), "b": weights(H), "n": np.zeros(H)}


@case(XS, N)
def arrays_of_a_copied_dict_change(x, n):
    mine, other = copy.deepcopy(STATE), deepcopy({"w": x * 2, "b": x.sum()})
    mine["b"] -= n
    other["w"] += x
    for k in range(n):
        mine["n"] += x
        mine["w"] *= 1.5
        mine["w"][k % 2] = x
    for name in mine:
        mine[name] += 1
    return mine, other, STATE["b"]


@case(XS, N)
def arrays_of_copied_lists_and_objects_change(x, n):
    rows, deep = copy.deepcopy([x, np.outer(x, x)]), copy.deepcopy((n, [{"v": x}, np.outer(x, x)]))
    rows[0] -= n
    rows[1] *= 2
    deep[1][1] += x
    deep[1][0]["v"] -= 1
    return rows, deep, x
