"""Data as users have it: their own objects come back, and what one instance holds is no harm to the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import model, pack

F32 = np.float32


# ---- objects that come back


@dataclass
class Tree:
    word: int
    name: str = "default"
    left: Tree | None = None
    anything: Any = None


@dataclass(frozen=True)
class Frozen:
    word: int
    name: str  # no default


class Named(NamedTuple):
    word: int
    name: str
    inner: tuple[int, ...] = ()


class Odd(Named):
    """A NamedTuple that is not made as its fields say."""

    def __new__(cls, word: int) -> Odd:
        return super().__new__(cls, word + 1, "odd")


@dataclass(slots=True)
class Slots:
    word: int
    name: str
    many: tuple[int, ...] = ()
    inner: list[Slots] = field(default_factory=list)


@dataclass
class Pair:
    a: Any
    b: Any


def itself(t):
    return t


def chosen(t):
    return t if t.word > 0 else [t]


def within(t):
    return [t, (t, 1), {"k": t}], Pair(t, t.word)


def part(t):
    return t.left, t.left.left


def sequences(t):
    return t.many, t.inner, t.inner[0]


def cycle() -> Tree:
    out = Tree(1, "cycle")
    out.left = Tree(2, "inside", out)
    return out


OBJECTS: dict[str, list[Any]] = {
    "dataclass": [Tree(1, "a", Tree(2, "b"), {1, 2}), Tree(3, "c")],
    "frozen": [Frozen(1, "a"), Frozen(2, "b")],
    "named tuple": [Named(1, "a", (1, 2)), Named(2, "b")],
    "odd tuple": [Odd(1), Odd(2)],
    "slots": [Slots(1, "a", (1,), [Slots(2, "b")]), Slots(3, "c", (), [])],
    "cycle": [cycle(), cycle()],
}
CASES = [
    *((name, fn) for name in OBJECTS for fn in (itself, chosen, within)),
    ("cycle", part),
    ("slots", sequences),
]


def same(a: Any, b: Any) -> bool:
    """Whether two results are built alike of the very same objects."""
    if type(a) in (list, tuple) and a is not b:
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is dict:
        return type(b) is dict and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if type(a) is Pair:
        return type(b) is Pair and same(a.a, b.a) and same(a.b, b.b)
    return a is b or (type(a) is int and a == b)


def text(value: Any) -> str:
    return repr(value)


@pytest.mark.parametrize(("name", "fn"), CASES, ids=[f"{name}-{fn.__name__}" for name, fn in CASES])
def test_results_are_the_users_own_objects(name: str, fn: Callable[[Any], Any]) -> None:
    xs = OBJECTS[name] if fn is not sequences else OBJECTS[name][:1]
    f, packed = model(fn), pack(xs)
    plain = [fn(x) for x in xs]
    for given, some in ((xs, plain), (packed, plain), (packed[::-1], plain[::-1]), (packed[1:], plain[1:])):
        if len(some):
            assert all(same(a, b) for a, b in zip(f.batch(given), some, strict=True))
    # One that has been to another process has copies, complete ones.
    there = pickle.loads(pickle.dumps(packed))
    assert [text(r) for r in f.batch(there)] == [text(r) for r in plain]
    assert same(list(f.batch(there)), list(f.batch(there)))
    again = pickle.loads(pickle.dumps(there))
    assert [text(r) for r in f.batch(again)] == [text(r) for r in plain]


@pytest.mark.parametrize("name", OBJECTS)
def test_elements_of_packs_are_whole_copies(name: str) -> None:
    xs = OBJECTS[name]
    for packed in (pack(xs), pickle.loads(pickle.dumps(pack(xs)))):
        assert [text(v) for v in packed] == [text(v) for v in xs] and text(packed[0]) == text(xs[0])
        assert packed[0] is not xs[0] and type(packed[0]) is type(xs[0])


def test_attributes_that_are_no_fields_stay() -> None:
    t = Tree(1)
    t.extra = "more"  # type: ignore[attr-defined]
    packed = pack([t])
    assert packed[0].extra == "more" and pickle.loads(pickle.dumps(packed))[0].extra == "more"
    assert model(itself).batch(pickle.loads(pickle.dumps(packed)))[0].extra == "more"


def test_an_object_of_several_instances_is_one() -> None:
    shared = Tree(1, "shared")
    xs = [Tree(2, "a", shared), Tree(3, "b", shared)]

    @model
    def left(t):
        return t.left, t.left.word

    for packed in (xs, pack(xs), pickle.loads(pickle.dumps(pack(xs)))):
        first, second = left.batch(packed)
        assert first[0] is second[0] and first[0].name == "shared"
    assert left.batch(pack(xs))[0][0] is shared


def test_packs_that_a_model_with_wider_types_packs_again() -> None:
    @model
    def either(t):
        return t, (1 if t.anything is None else 2)

    xs = [Tree(1, "a"), Tree(2, "b")]
    packed = pack(xs)
    either.batch([Tree(1, "a", None, 3), Tree(2)])
    assert either.batch(packed)[0][0] is xs[0] and either.batch(packed)[1] == (xs[1], 1)


def test_shared_objects_come_back_whole() -> None:
    root = Tree(1, "root", Tree(2, "left", Tree(3, "last")))

    @model
    def walk(x, *, t):
        total = x
        while t.left is not None:
            total += t.word
            t = t.left
        return total, t

    assert walk.batch([1, 2], t=root)[1] == (5, root.left.left)  # type: ignore[union-attr]
    assert walk.batch([1, 2], t=root)[1][1].name == "last"


def test_what_a_model_makes_says_nothing_of_what_it_is_given() -> None:
    @model
    def made(t):
        return t if t.word > 1 else Tree(t.word + 5, "made")

    xs = [Tree(1, "a"), Tree(2, "b"), Tree(3, "c", Tree(4, "d"))]
    for given in (xs, pack(xs)):
        first, second, third = made.batch(given)
        assert first == Tree(6, "made") and second is xs[1] and third is xs[2]
