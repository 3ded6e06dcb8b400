"""The plain call that tells a failure is stopped where it would not end, and costs nothing else."""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from acronumba.api.check import check
from acronumba.api.dispatch import bind, run
from acronumba.api.meter import Endless
from acronumba.api.plain import PlainCall
from tests.support.chosen import one_in

F = np.float32
X = np.ones(2, F)


@dataclass
class Tree:
    kind: int = 0
    left: Tree | None = None
    right: Tree | None = None


def by_while(x):
    n = 0
    while n < 10:
        x = np.tanh(x)
        if float(x[0]) > 2:
            n = n + 1
    return x


def by_one_line(x):
    while float(x[0]) == 1.0: x = x * x  # fmt: skip  # noqa: E701
    return x


def waits(x):
    while float(x[0]) < 2:
        x = np.tanh(x)
    return x


def by_comprehension(x):
    return sum([waits(x * k) for k in range(3)])


def by_list(x):
    xs = [x]
    while float(xs[-1][0]) < 2:
        xs.append(xs[-1] * 1)
    return xs[0]


ENDLESS = [by_while, by_one_line, by_comprehension, by_list]


def children(never: Any) -> Any:
    def go(t, x):
        if t.kind == 1:
            if float(x[1]) < 9:
                raise ValueError(f"child of kind {t.kind}")
            return x
        if t.kind == 2:
            return never(x)
        if t.left is None or t.right is None:
            return x
        a = go(t.left, x)
        b = go(t.right, x)
        return a + b if float(a[0]) < 100 else a

    return _model_of(go)


def _model_of(go: Any) -> Any:
    @model(max_steps=3000, memory_limit=1 << 26)
    def root(t: Tree, x):
        return go(t, x)

    return root


@pytest.mark.parametrize("never", ENDLESS)
@pytest.mark.parametrize("first", one_in(2, ["endless", "raises"]))
def test_a_child_that_never_ends_does_not_keep_the_failure_of_another(never: Any, first: str) -> None:
    """What comes first in the program is the failure, and the other instances have their results."""
    kinds = (2, 1) if first == "endless" else (1, 2)
    ts = [Tree(0, Tree(), Tree()) for _ in range(64)]
    ts[5] = Tree(0, *(Tree(kind) for kind in kinds))
    root = children(never)
    with pytest.raises(InstanceErrors) as caught:
        root.batch(ts, [X] * 64)
    (k, error), *others = caught.value.errors.items()
    assert k == 5 and not others
    if first == "raises":
        assert type(error) is ValueError and str(error) == "child of kind 1"
    else:
        assert isinstance(error, AcronumbaError) and error.code in ("ACR702", "ACR704")
    assert all(np.array_equal(caught.value.results[n], X * 2) for n in range(64) if n != 5)
    assert root.check(ts, [X] * 64).ok


def long(x):
    total = 0.0
    for k in range(60_000):
        total = total + k * 0.5
    return x if float(x[0]) + total < 0 else x * 1


def test_a_child_that_takes_long_does_not_keep_the_words_of_another() -> None:
    root = children(long).with_options(max_steps=10**7)
    ts = [Tree(0, Tree(), Tree()), Tree(0, Tree(2), Tree(1))]
    with pytest.raises(InstanceErrors) as caught:
        root.batch(ts, [X] * 2)
    assert {k: str(error) for k, error in caught.value.errors.items()} == {1: "child of kind 1"}
    assert type(caught.value.errors[1]) is ValueError


def lines(n):
    total = 0
    for k in range(n):
        total += k
    return total


def one_more(k):
    return k + 1


def calls(n):
    return sum(map(one_more, range(n)))


def generator(n):
    return sum(k for k in range(n))


def sorts(n):
    return sorted(range(n), key=lambda k: -k)


@pytest.mark.parametrize("fn", [lines, calls, generator, sorts, *ENDLESS])
def test_a_plain_call_has_a_bound(fn: Any) -> None:
    arg = X if fn in ENDLESS else 10_000
    with pytest.raises(Endless):
        PlainCall(fn, {}, 5_000).run([arg])
    if fn not in ENDLESS:
        assert PlainCall(fn, {}, 5_000).run([20]) == fn(20)


def grows(n):
    xs = [0.0] * 1000
    while n:
        xs = xs + xs
    return xs


def test_a_plain_call_has_a_bound_of_memory() -> None:
    with pytest.raises(Endless, match="memory"):
        PlainCall(grows, {}, 10**9, 1 << 25).run([1])


def test_who_traces_goes_on_tracing() -> None:
    """A debugger and a measurement of coverage have a function there, too. No thread is left."""
    seen = []

    def debugger(frame: Any, event: str, arg: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return debugger

    threads, before = threading.active_count(), sys.gettrace()
    for fn, arg in ((lines, 5), (by_while, X), (lambda x: x / 0, 1)):
        sys.settrace(debugger)
        try:
            PlainCall(fn, {}, 100).run([arg])
        except (Endless, ZeroDivisionError):
            pass
        finally:
            kept = sys.gettrace()
            sys.settrace(before)
        assert kept is debugger and fn.__name__ not in seen
    assert threading.active_count() == threads and sys.gettrace() is before


def test_check_stops_a_plain_call_that_the_batch_has_ended() -> None:
    """A compiler that misread the loop."""

    @model(max_steps=1000)
    def halves(x):
        while float(x[0]) > 0.5:
            x = x * 0.5
        return x

    call = bind(halves, [[X]], {})
    done = run(halves, call)
    verdict = check(model(by_while), call.columns, call.shared, done).verdicts[0]
    assert verdict.verdict == "different" and "does not end" in verdict.where


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_the_plain_call_of_a_cached_function_uses_its_cache():
    f = model(fibonacci)
    assert list(f.batch([5, 10])) == [5, 55]
    assert f(80) == 23416728348467685
    assert fibonacci.cache_info().currsize > 80
