"""Attributes of objects that came in, as the call writes them: each instance has its own, the objects do not change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.overlays import outcomes, program, state_of, verdict
from tests.support.plain_call import agree


class Tree:
    def __init__(self, v: float, *kids: Tree) -> None:
        self.v = v
        self.kids = list(kids)


class Counted(Tree):
    def __init__(self, v: float, *kids: Counted) -> None:
        super().__init__(v, *kids)
        self.n = 10


class Part:
    def __init__(self) -> None:
        self.last = 0.0


class Net:
    def __init__(self) -> None:
        self.w = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
        self.hidden = np.full(3, 7.0, np.float32)
        self.count = 5
        self.outs: list[Any] = []
        self.part = Part()

    def start(self) -> None:
        self.hidden = np.zeros(3, np.float32)
        self.outs = []
        self.part.last = 0.0

    def step(self, v: float) -> None:
        self.hidden = np.tanh(self.w @ self.hidden + np.float32(v))
        self.outs.append(self.hidden)
        self.part.last = v

    def visit(self, t: Tree) -> None:
        for kid in t.kids:
            self.visit(kid)
        self.step(t.v)


TREES = [Tree(1.0, Tree(2.0), Tree(3.0, Tree(4.0))), Tree(5.0), Tree(6.0, Tree(7.0))]
CASES: list[Callable[..., Any]] = []


def case(fn: Callable[..., Any]) -> Callable[..., Any]:
    CASES.append(fn)
    return fn


@case
def in_a_loop(t, *, net):
    net.start()
    for kid in t.kids:
        net.step(kid.v)
    return net.hidden, len(net.outs), net.part.last


@case
def in_a_recursion(t, *, net):
    net.start()
    net.visit(t)
    total = net.hidden
    for out in net.outs:
        total = total + out
    return total, net.part.last


@case
def states_of_nodes(t, *, net):
    def up(t):
        total = np.zeros(3, np.float32)
        for kid in t.kids:
            up(kid)
            total = total + kid.state[0]
        t.state = np.tanh(net.w @ total + np.float32(t.v)), len(t.kids)

    up(t)
    return t.state


@case
def by_another_name(t, *, net):
    a = net.part
    a.last = t.v
    net.part.seen = t.v > 2
    u = t
    u.mark = a.last + 1.0
    return net.part.last, a.seen, t.mark


@case
def on_one_branch(t, *, net):
    if t.v > 2:
        net.hidden = np.ones(3, np.float32)
    else:
        net.hidden = np.zeros(3, np.float32)
        t.mark = 9.0
    if t.v <= 2:
        t.mark += 1.0
    return net.hidden, t.v


@case
def in_nested_functions(t, *, net):
    net.count = 0

    def add():
        net.count += 1

    for _ in t.kids:
        add()
    return net.count, [add() for _ in t.kids], net.count


@case
def made_or_given(t, *, net):
    u = Tree(t.v) if t.v > 2 else t
    t.mark = 3.0
    u.mark = u.v
    u.mark = u.mark + 1.0
    return u.mark, t.mark


@case
def on_one_path_only(t, *, net):
    net.hidden = np.zeros(3, np.float32)
    if t.v > 2:
        me = net

        def set_it():
            me.hidden = me.hidden + np.float32(t.v)

        set_it()
    if t.v > 2:
        me.hidden = me.hidden + np.float32(1)
    return net.hidden


@case
def arrays_in_place(t, *, net):
    net.hidden = np.zeros(3, np.float32)
    h = net.hidden
    net.hidden[0] = t.v
    net.hidden += 1
    t.row = h
    for kid in t.kids:
        t.row[1] += kid.v
    return -net.hidden, h, t.row


@pytest.mark.parametrize("fn", CASES)
def test_like_the_plain_call_on_copies(fn: Callable[..., Any]) -> None:
    net, before = Net(), state_of([TREES, Net()])
    wanted = [fn(*copy.deepcopy([t]), net=copy.deepcopy(net)) for t in TREES]
    f = model(fn)
    runs = (f.batch, f._interpret, f.with_options(forkjoin=False).batch, f.with_options(state="initial").batch)
    for run in runs:
        agree(outcomes(run, TREES, net), wanted, close=True)
        assert state_of([TREES, net]) == before
    agree(outcomes(f.batch, pack(TREES), net), wanted, close=True)
    assert equal(list(f.batch(TREES[::-1], net=net))[::-1], list(f.batch(TREES, net=net)))
    assert f.check(TREES, net=net).ok and state_of([TREES, net]) == before


def test_what_was_there_before_the_batch_changes_no_program() -> None:
    net = Net()
    f = model(in_a_loop)
    wanted = list(f.batch(TREES, net=net))
    for hidden in (None, np.zeros(9), "text"):
        net.hidden = hidden
        agree(list(f.batch(TREES, net=net)), wanted)
    assert len(f._entries) == 1


# ---- reads before the first assignment


def counts(t, *, net):
    net.count += 1
    return net.count


def test_a_shared_attribute_is_assigned_before_it_is_read() -> None:
    f, net = model(counts), Net()
    with pytest.raises(InstanceErrors) as caught:
        f.batch(TREES, net=net)
    assert {getattr(e, "code", "") for e in caught.value.errors.values()} == {"ACR118"}
    assert list(f.with_options(state="initial").batch(TREES, net=net)) == [6, 6, 6]
    assert net.count == 5


def never_set(t, *, net):
    if t.v > 2:
        net.late = 1
        t.late = 2
    return net.late, t.late


def test_an_attribute_that_nobody_has_set_is_python_s_error() -> None:
    net = Net()
    got = outcomes(model(never_set).batch, TREES, net)
    assert isinstance(got[0], AttributeError) and "'late'" in str(got[0])
    assert got[1:] == [(1, 2), (1, 2)] and not hasattr(net, "late")


def adds_up(t, *, net):
    for kid in t.kids:
        t.n += kid.n
        kid.n = 0
    return t.n, [kid.n for kid in t.kids]


def test_an_attribute_of_the_data_is_assigned_before_it_is_read_too() -> None:
    kid = Counted(2.0)
    trees = [Counted(1.0, kid), Counted(3.0), Counted(4.0, kid, Counted(5.0))]
    g, net = model(adds_up), Net()
    for given in (trees, pack(trees)):
        got = outcomes(g.batch, given, net)
        assert [getattr(e, "code", "") for e in got] == ["ACR118"] * 3
        assert outcomes(g.with_options(state="initial").batch, given, net) == [(20, [0]), (10, []), (30, [0, 0])]
    assert [t.n for t in (*trees, kid)] == [10] * 4
    twice = [TREES[0], TREES[0]]  # no instance can find what another one has assigned
    got = list(model(states_of_nodes).batch(twice, net=net))
    assert equal(got[0], got[1])


# ---- what is rejected


@dataclass(frozen=True)
class Frozen:
    v: float


def of_frozen(t, *, net):
    f.v = 1.0
    return f.v


f = Frozen(1.0)


def of_a_list(t, *, net):
    net.outs.append(t.v)
    return len(net.outs)


def of_a_result(t, *, net):
    t.v = 1.0
    return t


def one_of_several(t, *, net):
    net.parts[0].last = 1.0
    return net.parts[len(t.kids)].last


def of_a_cached_function(t, *, net):
    @lru_cache
    def cached(v):
        net.count = v
        return v

    return cached(t.v) + net.count


def deleted(t, *, net):
    net.count = 1
    del net.count
    return t.v


@pytest.mark.parametrize(
    ("fn", "code"),
    [
        (of_frozen, "ACR113"), (of_a_list, "ACR113"), (of_a_result, "ACR113"), (one_of_several, "ACR113"),
        (of_a_cached_function, "ACR210"), (deleted, "ACR105"),
    ],
)  # fmt: skip
def test_rejected(fn: Callable[..., Any], code: str) -> None:
    net: Any = Net()
    net.parts = [Part(), Part(), Part()]
    with pytest.raises(AcronumbaError) as caught:
        model(fn).batch(TREES, net=net)
    assert caught.value.code == code and caught.value.line


def both(t, *, net):
    net.part.last = t.v
    return net.other.last


def by_identity(t, *, net):
    net.part.last = t.v if net.part is net.other else -t.v
    return net.part.last, net.part is not net.other


def rejected_unless_one(t, *, net):
    net.part.made = [t.v]
    return net.other.made[0]


def test_objects_on_several_paths() -> None:
    net: Any = Net()
    for f in (both, by_identity, rejected_unless_one):
        g = model(f)
        for _ in range(2):
            for other in (Part(), net.part, Part()):
                net.other = other
                try:
                    want: Any = [f(t, net=copy.deepcopy(net)) for t in copy.deepcopy(TREES)]
                except AttributeError:
                    with pytest.raises(AcronumbaError, match="ACR307"):
                        g.batch(TREES, net=net)
                    continue
                assert list(g.batch(TREES, net=net)) == want
                assert g.check(TREES, net=net).ok
                assert net.part.last == net.other.last == 0


def of_two_columns(a, b):
    a.mark = 1.0
    b.mark = 2.0
    return a.mark


def test_one_object_in_two_packs_is_rejected() -> None:
    g = model(of_two_columns)
    assert list(g.batch(TREES, TREES)) == [2.0, 2.0, 2.0]
    assert list(g.batch(TREES, TREES[::-1])) == [1.0, 2.0, 1.0]
    for columns in ((pack(TREES), TREES), (pack(TREES), pack(TREES))):
        with pytest.raises(AcronumbaError, match="ACR113"):
            g.batch(*columns)


class Held:
    def __init__(self) -> None:
        self.state = np.ones(3)


def in_place_behind_a_failure(held, x, *, net):
    before = net.early
    net.early = held.state
    net.early += 1
    x += 1
    return before


def test_plain_calls_for_messages_change_no_arrays() -> None:
    net: Any = Net()
    net.early = np.zeros(3)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    given = [Held(), Held()]
    with pytest.raises(InstanceErrors):
        model(in_place_behind_a_failure).batch(given, [np.ones(3), fixed], net=net)
    assert all((h.state == 1).all() for h in given) and not net.early.any()


# ---- random programs

MORE = [pytest.param(range(n, n + 20), marks=pytest.mark.slow) for n in range(1000, 1500, 20)]


@pytest.mark.parametrize("seeds", [range(6), range(6, 12), *MORE])
def test_random_programs_interpreted(seeds: range, module_of: Any) -> None:
    for seed in seeds:
        found = verdict(seed, module_of(program(seed)), ["_interpret"])
        assert found == "" or found.startswith("ACR"), (seed, found)


@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(100, 140))])
def test_random_programs_compiled(seed: int, module_of: Any) -> None:
    found = verdict(seed, module_of(program(seed)), ["batch"])
    assert found == "" or found.startswith("ACR"), (seed, found)
