"""Objects of classes of attrs, pydantic and msgspec, and of classes that were registered, as instances."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, pack, register
from acronumba.data import classes

P = np.arange(10.0)


@model
def total(t: Any, *, p: np.ndarray) -> Any:
    h = p[t.word]
    if t.left is not None:
        h = h + total(t.left, p=p)
    return h


@model
def scaled(x: float, *, t: Any) -> Any:
    return x * t.word


def _attrs() -> list[Any]:
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Open:
        word: int
        left: Any = None

    @attrs.frozen(slots=False)
    class Frozen:
        word: int
        left: Any = None

    return [Open, Frozen]


def _pydantic() -> list[Any]:
    pydantic = pytest.importorskip("pydantic")

    class Row(pydantic.BaseModel):
        word: int
        left: Any = None

    return [Row]


def _msgspec() -> list[Any]:
    msgspec = pytest.importorskip("msgspec")

    class Open(msgspec.Struct):
        word: int
        left: Any = None

    class Frozen(msgspec.Struct, frozen=True, kw_only=True):
        word: int
        left: Any = None

    return [Open, Frozen]


@pytest.mark.parametrize("make", [_attrs, _pydantic, _msgspec])
def test_their_objects_are_instances_and_shared_values(make: Any) -> None:
    for cls in make():
        trees = [cls(word=1), cls(word=2, left=cls(word=3))]
        assert list(total.batch(trees, p=P)) == [1.0, 5.0]
        packed = pack(trees)
        assert list(total.batch(packed, p=P)) == [1.0, 5.0]
        assert list(packed) == trees
        assert total.check(trees, p=P).ok
        assert list(scaled.batch([1.0, 2.0], t=cls(word=3))) == [3.0, 6.0]
        assert list(scaled.batch([1.0, 2.0], t=pack(cls(word=3)))) == [3.0, 6.0]
        same = model(lambda t: t)
        assert same.batch(trees)[1] is trees[1]


class Message:
    """Computes what it has."""

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("a message never changes")


def test_a_class_that_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [Message(word=1, left=None), Message(word=2, left=Message(word=3, left=None))]
    with pytest.raises(AcronumbaError, match="cannot be stored"):
        total.batch(trees, p=P)
    monkeypatch.setattr(classes, "_registered", {})
    register(Message, ["word", "left"])
    assert list(total.batch(trees, p=P)) == [1.0, 5.0]
    assert list(total.batch(pickle.loads(pickle.dumps(pack(trees))), p=P)) == [1.0, 5.0]
    for wrong in ((Message, []), (3, ["a"]), (Message, ["no name"])):
        with pytest.raises(TypeError, match="register takes"):
            register(*wrong)
