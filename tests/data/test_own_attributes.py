"""Attributes that are set on one object, and hide what its class has."""

from __future__ import annotations

import enum
import gc
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest

from acronumba import DataError, InstanceErrors, TypeMismatch, model, pack
from acronumba.api.model import Model

# ---- attributes that are set on one object


@dataclass
class Marked:
    v: float
    deep = False
    scale: ClassVar[float] = 2.0

    def go(self) -> float:
        return self.v

    @classmethod
    def of_class(cls) -> float:
        return 1.0

    @staticmethod
    def of_nothing() -> float:
        return 3.0

    @property
    def thrice(self) -> float:
        return self.v * 3.0


@dataclass
class Chain:
    v: float
    below: Chain | None = None

    def go(self) -> float:
        return self.v


class Named(NamedTuple):
    v: float


class WithMore(Named):
    deep = False


class Kind(enum.Enum):
    A = 1
    B = 2

    def go(self) -> float:
        return 2.0


@dataclass
class Kinded:
    kind: Kind


@model
def reads_an_attribute(o: Any) -> Any:
    return 2.0 if o.deep else 1.0


@model
def reads_a_class_variable(o: Any) -> Any:
    return o.scale * o.v


@model
def calls_a_method(o: Any) -> Any:
    return o.go()


@model
def calls_a_class_method(o: Any) -> Any:
    return o.of_class()


@model
def calls_a_static_method(o: Any) -> Any:
    return o.of_nothing()


@model
def asks_with_a_default(o: Any) -> Any:
    return getattr(o, "extra", 1.0)


@model
def shared_attribute(v: float, *, o: Any) -> Any:
    return v * o.scale if o.deep else v * o.go() * getattr(o, "extra", 1.0)


MARKED = Marked(4.0)


@model
def global_attribute(v: float) -> Any:
    return v * MARKED.scale if MARKED.deep else v * MARKED.go() * getattr(MARKED, "extra", 1.0)


def nine() -> float:
    return 9.0


def errors_of(f: Model, column: Sequence[Any]) -> Any:
    with pytest.raises(InstanceErrors) as caught:
        f.batch(column)
    return caught.value.errors


HIDDEN: list[tuple[Model, str, Any]] = [
    (reads_an_attribute, "deep", True),
    (reads_a_class_variable, "scale", 7.0),
    (calls_a_method, "go", nine),
    (calls_a_class_method, "of_class", nine),
    (calls_a_static_method, "of_nothing", nine),
    (asks_with_a_default, "extra", 9.0),
]


@pytest.mark.parametrize(("f", "name", "value"), HIDDEN, ids=lambda v: v if isinstance(v, str) else "")
def test_an_attribute_of_an_instance_is_not_ignored(f: Model, name: str, value: Any) -> None:
    plain, other = Marked(1.0), Marked(5.0)
    assert list(f.batch([plain, other])) == [f(plain), f(other)]
    setattr(other, name, value)
    assert f(other) != f(plain) or name == "deep"
    columns = [[plain, other], pack([plain, other])]
    if not callable(value):
        columns.append(pickle.loads(pickle.dumps(columns[1])))
    for column in columns:
        errors = errors_of(f, column)
        assert list(errors) == [1]
        error = errors[1]
        assert isinstance(error, DataError) and error.path == f"[1].{name}"
        assert f"`{name}`" in str(error) and error.rewrite
    delattr(other, name)
    assert list(f.batch([plain, other])) == [f(plain), f(other)]


@pytest.mark.parametrize(("name", "value"), [("deep", True), ("go", nine), ("extra", 9.0)])
def test_an_attribute_of_a_shared_value_is_not_ignored(name: str, value: Any) -> None:
    shared = Marked(4.0)
    for f, o, given in ((shared_attribute, shared, {"o": shared}), (global_attribute, MARKED, {})):
        assert f.batch([1.0], **given)[0] == f(1.0, **given)
        setattr(o, name, value)
        for _ in range(2):
            with pytest.raises(TypeMismatch, match=f"ACR501(.|\n)*`{name}` was set on this object"):
                f.batch([1.0], **given)
        delattr(o, name)
        o.unread = 3.0
        assert f.batch([1.0], **given)[0] == f(1.0, **given)


@model
def along(o: Chain) -> float:
    return o.go() + along(o.below) if o.below is not None else o.go()


@model
def along_shared(v: float, *, o: Chain) -> float:
    return v + along(o)


def test_an_attribute_deep_inside() -> None:
    data = Chain(1.0, Chain(2.0, Chain(3.0)))
    assert along.batch([data])[0] == along(data) and along_shared.batch([1.0], o=data)[0] == along_shared(1.0, o=data)
    data.below.below.go = nine  # type: ignore[union-attr,method-assign]
    assert errors_of(along, [data])[0].path == "[0].below.below.go"
    with pytest.raises(TypeMismatch, match=r"ACR501(.|\n)*below.go hides(.|\n)*a subclass of Chain"):
        along_shared.batch([1.0], o=data)


def test_a_method_of_another_object_hides_too() -> None:
    first, other = Chain(1.0), Chain(2.0)
    other.go = first.go  # type: ignore[method-assign]
    assert calls_a_method(other) == 1.0
    for column in ([first, other], pack([first, other])):
        assert errors_of(calls_a_method, column)[1].path == "[1].go"
    del other.go
    assert list(calls_a_method.batch([first, other])) == [1.0, 2.0]


def test_a_batch_leaves_objects_as_small_as_they_were() -> None:
    """Python makes the `__dict__` of an object when it is first asked for: time for each, and memory for ever."""

    class Light(Marked):  # no test gave one of its objects an attribute
        pass

    data = [Light(float(k)) for k in range(50)]
    for f in (f for f, *_ in HIDDEN):
        f.batch(data)
        f.batch(pack(data))
    assert not [o for o in data if any(type(v) is dict for v in gc.get_referents(o))]


def test_what_nothing_hides() -> None:
    @model
    def thrice_of(o: Any) -> Any:
        return o.thrice

    o = Marked(2.0)
    o.__dict__["thrice"] = 100.0  # a property goes first
    o.unread = 1.0  # type: ignore[attr-defined]
    assert thrice_of.batch([o])[0] == thrice_of(o) == 6.0
    pair = WithMore(1.0)
    assert reads_an_attribute.batch([pair])[0] == 1.0
    pair.deep = True
    assert isinstance(errors_of(reads_an_attribute, [pair])[0], DataError)


def test_an_attribute_of_a_member_of_an_enumeration(patch: pytest.MonkeyPatch) -> None:
    @model
    def of_kind(o: Kinded) -> float:
        return o.kind.go()

    data = [Kinded(Kind.A), Kinded(Kind.B)]
    assert list(of_kind.batch(data)) == [2.0, 2.0]
    patch.setattr(Kind.B, "go", nine)
    with pytest.raises(TypeMismatch, match=r"Kind.B: `go` was set"):
        of_kind.batch(data)
