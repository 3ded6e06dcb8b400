"""A mini-batch of packs that comes again: found in a few checks, and never where something differs.

The property: after any change of what the choice of a specialisation depends on, a model that has run before does what
a fresh model of the same function does.
"""

from __future__ import annotations

import collections
import itertools
import random
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.api import dispatch, gradients, kept
from acronumba.data.pack import Packed
from acronumba.data.source_guard import ABSENT, SourceGuard
from acronumba.errors import AcronumbaError
from acronumba.runtime.watched import WatchedNames


@dataclass
class Params:
    w: np.ndarray
    b: np.ndarray


def plain(x, *, p: Params):
    return np.tanh(p.w @ x + p.b)


FACTOR = 2
SCALES = {"a": 3}


def step(x, *, p: Params):
    return np.tanh(p.w @ x + p.b) * FACTOR * SCALES["a"]


def other(x, *, p: Params):
    return p.w @ x - p.b * FACTOR


def scaled(x, *, p: Params, k: int = 1):
    return (p.w @ x + p.b) * FACTOR * SCALES["a"] * k


def other_scaled(x, *, p: Params, k: int = 1):
    return p.w @ x - p.b * FACTOR - k


def sum_scaled(x, *, p: Params, k: int = 1):
    return np.sum((p.w @ x + p.b) * FACTOR * SCALES["a"] * k)


def sum_step(x, *, p: Params):
    return np.sum((p.w @ x + p.b) * FACTOR * SCALES["a"])


def other_sum_step(x, *, p: Params):
    return np.sum(p.w @ x - p.b * FACTOR)


def other_sum_scaled(x, *, p: Params, k: int = 1):
    return np.sum(p.w @ x - p.b * FACTOR - k)


def weights(seed: int, n: int = 4) -> Params:
    rng = np.random.default_rng(seed)
    return Params(rng.standard_normal((n, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32))


def vectors(seed: int, count: int, dtype: str = "f4") -> list[np.ndarray]:
    return list(np.random.default_rng(seed).standard_normal((count, 4)).astype(dtype))


def outcome(f: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return [(r.dtype, r.tobytes()) for r in f.batch(*args, **kwargs)]
    except AcronumbaError as error:
        return type(error), error.code


def slopes(f: Any, *args: Any, **kwargs: Any) -> Any:
    """The outcome of the loss and its gradients."""
    try:
        done = f.value_and_grad.batch(*args, **kwargs)
        found = done.value, done.grads.w, done.grads.b
        return [(r.dtype, r.tobytes()) for r in found], repr(done.losses)
    except AcronumbaError as error:
        return type(error), error.code


def test_the_same_packs_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    f, xs, p = model(step), pack(vectors(0, 5)), pack(weights(0))
    first = outcome(f, xs, p=p)
    outcome(f, xs, p=p)
    monkeypatch.setattr(dispatch, "existing", None)  # it is not called
    assert outcome(f, xs, p=p) == first
    halves = [outcome(f, xs[:3], p=p), outcome(f, xs[3:], p=p)]
    assert halves[0] + halves[1] == first


def test_the_guard_of_a_specialisation_has_the_code_of_its_function() -> None:
    f = model(step)
    f.batch(pack(vectors(0, 2)), p=pack(weights(0)))
    seen = f._entries[0].guard._source_guard._seen
    assert {(id(step), name) for name in (".__code__", ".__defaults__", ".__kwdefaults__")} <= seen.keys()


def test_packs_are_not_kept_alive() -> None:
    f, p = model(plain), pack(weights(0))
    for _ in range(2):
        xs = pack(vectors(0, 3))
        f.batch(xs, p=p)
    held = xs._store.heap.words
    before = sys.getrefcount(held)
    del xs
    f.batch(pack(vectors(1, 3)), p=p)
    assert sys.getrefcount(held) < before


def test_few_python_calls() -> None:
    f, xs, p = model(plain).with_options(threads=1), pack(vectors(0, 5)), pack(weights(0))
    for _ in range(3):
        f.batch(xs, p=p)
    calls = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    f.batch(xs, p=p)
    sys.setprofile(None)
    assert calls <= 130  # 250 before


def changes(rng: random.Random, monkeypatch: pytest.MonkeyPatch, f: Any, state: dict[str, Any]) -> None:
    """Change something that a call depends on, or nothing."""
    match rng.randrange(15):
        case 0:
            monkeypatch.setattr(sys.modules[__name__], "FACTOR", rng.choice([2, 3, 2.5, np.float32(2)]))
        case 1:
            monkeypatch.setitem(SCALES, "a", rng.choice([3, 4]))
        case 2:
            monkeypatch.setattr(f.__wrapped__, "__code__", rng.choice(state["codes"]))
        case 3 if state["takes_k"]:
            monkeypatch.setattr(f.__wrapped__, "__kwdefaults__", rng.choice([{"k": 1}, {"k": 2}, {"k": 1.5}]))
        case 4:
            state["p"] = pack(weights(rng.randrange(3)))
        case 5:
            state["p"] = weights(rng.randrange(3))
        case 6:
            state["xs"] = pack(vectors(rng.randrange(3), rng.randrange(1, 6), rng.choice(["f4", "f8"])))
        case 7:
            state["xs"] = vectors(rng.randrange(3), 3, rng.choice(["f4", "f8"]))
        case 8:
            state["xs"] = state["xs"][: rng.randrange(1, 4)]
        case 9:
            f._entries.clear()
        case 10:
            monkeypatch.setenv("ACRONUMBA_DEVICE", rng.choice(["cpu", "nothing", ""]))
        case 11 if state["takes_k"]:
            state["k"] = rng.choice([{}, {"k": 2}, {"k": 1.5}])
        case 12 if isinstance(state["p"], Params):
            state["p"].b = vectors(rng.randrange(3), 1, rng.choice(["f4", "f4", "f8"]))[0]
        case 13 if isinstance(state["p"], Params):
            state["p"].w += np.float32(0.5)
        case 14:
            state["xs"] = rng.choice([state["xs"], *state["seen"]])
    state["seen"].append(state["xs"])


def try_changes(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch, fn: Any, another: Any, ways: list[Any], many: int = 16
) -> None:
    """Change things between calls of a model, and compare each with a call of a fresh model."""
    f, codes = model(fn), (fn.__code__, another.__code__)
    state: dict[str, Any] = {"xs": pack(vectors(0, 3)), "p": pack(weights(0)), "k": {}, "codes": codes, "seen": []}
    state["takes_k"] = "k" in fn.__code__.co_varnames
    for _ in range(many):
        changes(rng, monkeypatch, f, state)
        way = rng.choice(ways)
        for _ in range(2):
            got = way(f, state["xs"], p=state["p"], **state["k"])
        given = [list(state["xs"]), state["p"].value if hasattr(state["p"], "value") else state["p"]]
        assert got == way(model(fn), given[0], p=given[1], **state["k"])


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 12))])
def test_any_change_is_seen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = (scaled, other_scaled) if seed % 2 else (step, other)
    try_changes(random.Random(seed), monkeypatch, *functions, [outcome])


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 12))])
def test_any_change_is_seen_by_gradients(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TRIES", 1 << 30)
    functions = (sum_scaled, other_sum_scaled) if seed % 2 else (sum_step, other_sum_step)
    try_changes(random.Random(seed), monkeypatch, *functions, [slopes, slopes, outcome])


def test_a_step_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    f, xs, p = model(sum_scaled), pack(vectors(0, 5)), weights(0)
    first = slopes(f, xs, p=p, k=1)
    slopes(f, xs, p=p, k=1)
    monkeypatch.setattr(gradients, "bind", None)  # it is not called
    assert slopes(f, xs, p=p, k=1) == first
    assert slopes(f, xs[[0, 1, 2, 3, 4]], p=p, k=1) == first


def other_function(a: int = 1, *, k: int = 2) -> int:
    return a - k


def put(holder: Any, name: str, value: Any) -> None:
    """Set an item of a dict, or an attribute of a class or module, or remove it."""
    if isinstance(holder, dict):
        holder.pop(name, None) if value is ABSENT else holder.__setitem__(name, value)
    elif value is not ABSENT:
        setattr(holder, name, value)
    elif name in vars(holder):
        delattr(holder, name)


@pytest.mark.parametrize("seed", range(3))
def test_compiled_lookups_say_what_the_guard_says(seed: int) -> None:
    rng, objects = random.Random(seed), [object() for _ in range(3)]
    some, names = {f"n{k}": rng.choice(objects) for k in range(6)}, [f"n{k}" for k in range(8)]
    of_class = type("C", (type("B", (), dict(some)),), dict(some))
    fn, cell = types.FunctionType(scaled.__code__, {}, "fn", (1,), None), types.CellType(objects[0])
    fn.__kwdefaults__ = {"k": None}
    holders: list[Any] = [dict(some), collections.defaultdict(int, some), types.ModuleType("m"), of_class]
    guard = SourceGuard()
    guard.function(fn)
    guard.place(cell, "")
    guard.owner(of_class, "n7")
    for holder, name in itertools.product(holders, names):
        guard.item(holder, name)
    first = [(*at, vars(at[0]).get(at[1], ABSENT) if not isinstance(at[0], dict) else at[0].get(at[1], ABSENT))
             for at in itertools.product(holders, names)]  # fmt: skip
    code, defaults, kwdefaults = fn.__code__, fn.__defaults__, fn.__kwdefaults__
    watched, said = WatchedNames(guard), set()
    for _ in range(300):
        match rng.randrange(8):
            case 0 | 1 | 2:
                put(rng.choice(holders), rng.choice(names), rng.choice([ABSENT, *objects]))
            case 3:  # a dict grows, and has another table
                holders[0].update({str(k): k for k in range(99)})
                for k in range(99):
                    del holders[0][str(k)]
            case 4:
                fn.__code__ = rng.choice([code, other_function.__code__])
            case 5:
                fn.__defaults__, fn.__kwdefaults__ = rng.choice([defaults, None, (2,)]), rng.choice([kwdefaults, {}])
            case 6:
                cell.cell_contents = rng.choice(objects)
            case 7:  # all as it was
                fn.__code__, fn.__defaults__, fn.__kwdefaults__ = code, defaults, kwdefaults
                cell.cell_contents = objects[0]
                for at in first:
                    put(*at)
        said.add(guard.is_valid())
        assert watched.are_unchanged() == guard.is_valid()
    assert said == {False, True}


def test_types_of_packs_that_do_not_fit_are_seen() -> None:
    """A column whose types are a union is looked at once for each pack, and rejected, or run, as ever."""

    def total(x):
        return x[0] + 1

    f = model(total)
    wide, narrow = pack([(1,), (2.5,)]), pack([(1,), (2,)])
    for _ in range(3):
        assert list(f.batch(wide)) == [2, 3.5]
        assert [type(r) for r in f.batch(narrow)] == [int, int]
        assert list(f.batch(wide[:1])) == [2]
    assert isinstance(wide, Packed)


def test_columns_of_different_lengths_are_rejected_whatever_came_before() -> None:
    def added(x, y, *, p: Params):
        return x + y + p.b

    f, p = model(added), pack(weights(0))
    xs, ys = pack(vectors(0, 3)), pack(vectors(1, 3))
    for _ in range(2):
        f.batch(xs, ys, p=p)
    for columns in ((xs, ys[:2]), (xs[:2], ys), (xs[:0], ys[:1])):
        with pytest.raises(AcronumbaError, match="ACR707"):
            f.batch(*columns, p=p)
    assert len(f.batch(xs[:0], ys[:0], p=p)) == 0
    assert len(f.batch(xs[1:], ys[:2], p=p)) == 2
