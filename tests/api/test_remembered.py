"""What was rejected, and what groups of types ran with, is remembered: no call tries what the last one did."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors, Unsupported
from acronumba.frontend import lower as front


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that the front end has lowered since."""
    calls: list[Any] = []
    lower = front.lower

    def counted(fn: Any, *rest: Any) -> Any:
        calls.append(fn)
        return lower(fn, *rest)

    monkeypatch.setattr(front, "lower", counted)
    return calls


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return list(run())
    except InstanceErrors as error:
        return list(error.results)
    except AcronumbaError as error:
        return error.code, error.loc, str(error)


def helper(x):
    return eval("x")


SCALE = 2.0


def helped(x):
    return helper(x) + SCALE


def test_a_rejection_is_raised_again_without_trying(lowered: list[Any]) -> None:
    f = model(helped)
    first = outcome(lambda: f.batch([1.0, 2.0]))
    assert first[0].startswith("ACR") and lowered
    lowered.clear()
    caught = []
    for _ in range(3):
        assert outcome(lambda: f.batch([1.0, 2.0])) == first
        with pytest.raises(Unsupported) as info:
            f.batch([3.0])
        caught.append(info.value)
    assert not lowered and len(set(map(id, caught))) == 3
    outcome(lambda: f.batch([np.ones(2)]))
    assert lowered, "of other types"


def test_a_rejection_ends_when_the_code_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = model(helped)
    assert outcome(lambda: f.batch([1.0]))[0].startswith("ACR")

    def right(x):
        return 3 * x

    monkeypatch.setitem(globals(), "helper", right)
    assert outcome(lambda: f.batch([1.0])) == [5.0]
    monkeypatch.undo()
    assert outcome(lambda: f.batch([1.0]))[0].startswith("ACR")
    code, helper.__code__ = helper.__code__, right.__code__
    try:
        assert outcome(lambda: f.batch([1.0])) == [5.0]
    finally:
        helper.__code__ = code
    assert outcome(lambda: f.batch([1.0]))[0].startswith("ACR")


TABLE: Any = {"a": object()}


def of_a_global(x):
    return x * TABLE["a"]


def test_a_rejection_ends_when_a_global_changes(monkeypatch: pytest.MonkeyPatch, lowered: list[Any]) -> None:
    f = model(of_a_global)
    rejection = outcome(lambda: f.batch([1.0]))
    assert rejection[0].startswith("ACR")
    monkeypatch.setitem(TABLE, "a", 4.0)
    assert outcome(lambda: f.batch([2.0])) == [8.0]
    monkeypatch.setitem(TABLE, "a", object())
    lowered.clear()
    assert outcome(lambda: f.batch([1.0])) == rejection
    monkeypatch.setitem(globals(), "TABLE", {"a": 5.0})
    assert outcome(lambda: f.batch([2.0])) == [10.0]


def test_a_rejection_ends_when_a_closure_changes() -> None:
    value: Any = object()

    @model
    def f(x):
        return x * value

    assert outcome(lambda: f.batch([1.0]))[0].startswith("ACR")
    value = 3.0
    assert outcome(lambda: f.batch([1.0])) == [3.0]


def of_shared(x, *, p, n, m):
    return x[n] @ p["w"] * m


def test_a_rejection_belongs_to_shared_values_and_numbers_that_were_looked_at(lowered: list[Any]) -> None:
    f, x, p = model(of_shared), (1.0, np.ones(3)), {"w": np.ones(3)}
    wrong = outcome(lambda: f.batch([x], p=p, n=0, m=1))
    assert isinstance(wrong, tuple) and wrong[0].startswith("ACR")
    assert outcome(lambda: f.batch([x], p=p, n=1, m=1)) == [3.0]
    other = outcome(lambda: f.batch([x], p={"w": 1.0}, n=1, m=1))
    assert isinstance(other, tuple) and other[0].startswith("ACR")
    lowered.clear()
    for m in (2, 3):
        assert outcome(partial(f.batch, [x], p=p, n=0, m=m)) == wrong
        assert outcome(partial(f.batch, [x], p=p, n=1, m=m)) == [3.0 * m]
        assert outcome(partial(f.batch, [x], p={"w": 1.0}, n=1, m=m)) == other
    assert not lowered


class Node:
    def __init__(self, value: Any, inner: Any = None, unread: Any = None) -> None:
        self.value, self.inner, self.unread = value, inner, unread


def test_fields_that_nobody_reads_do_not_tell_two_calls_apart() -> None:
    """Of both calls all the fields have the same types; of what is read they differ."""

    @model
    def f(t):
        return t.inner.value + 1.0

    one = Node(1.0, Node(2.0), Node("s", Node(3.0)))
    other = Node("s", Node("s"), Node(1.0, Node(2.0)))
    rejection = outcome(lambda: f.batch([other]))
    assert outcome(lambda: f.batch([one])) == [f(one)]
    assert outcome(lambda: f.batch([other])) == rejection
    g = model(f.__wrapped__)
    assert outcome(lambda: g.batch([one])) == [f(one)]
    assert outcome(lambda: g.batch([other])) == rejection


def weigh(t):
    return t["size"] + sum(c["size"] for c in t["kids"]) + t["other"]


def test_what_is_rejected_for_a_group_is_not_tried_again(lowered: list[Any]) -> None:
    f = model(weigh)
    good = {"size": 1, "kids": [{"size": 2}], "other": 3}
    xs = [good, {"size": "s", "kids": [], "other": 1}, good, {"size": 1, "kids": [{"size": b"s"}], "other": 2}]
    first = outcome(lambda: f.batch(xs))
    assert first == [6, None, 6, None]
    lowered.clear()
    for _ in range(2):
        assert outcome(lambda: f.batch(xs)) == first
        assert outcome(lambda: f.batch(xs[:2])) == first[:2] or lowered
    lowered.clear()
    assert outcome(lambda: f.batch(xs[:2])) == first[:2]
    assert not lowered


def of_ranks(x):
    return x * 2 + 1


def test_a_call_in_many_groups_compiles_nothing_twice(lowered: list[Any], capfd: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.delenv("ACRONUMBA_QUIET", raising=False)
    f = model(of_ranks)
    xs = [np.ones((1,) * k) for k in (*range(1, 14), 20, 24, 28)]
    want = [f(x).tolist() for x in xs]
    assert [r.tolist() for r in f.batch(xs)] == want
    assert "groups of types" in " ".join(capfd.readouterr().err.split())
    lowered.clear()
    with monkeypatch.context() as patch:
        patch.setattr(type(f._entries[0].guard), "matches_types", None)  # nor is it looked for what fits
        for _ in range(2):
            assert [r.tolist() for r in f.batch(xs)] == want
            assert [r.tolist() for r in f.batch(xs[::-1])] == want[::-1]
    assert not lowered
    assert "groups of types" not in capfd.readouterr().err
    assert "groups of types" in str(f.explain(xs[:1]))
