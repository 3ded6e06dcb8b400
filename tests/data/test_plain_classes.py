"""Objects of plain classes as instances and as shared values: fields are what the objects have."""

from __future__ import annotations

import abc
import argparse
import copy
import pickle
import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from acronumba import AcronumbaError, DataError, InstanceErrors, load, model, pack, save
from acronumba.api.results import equal
from acronumba.data.classes import is_plain, names_of
from tests.support.plain_call import agree, outcomes, plain

RNG = np.random.default_rng(3)
E = RNG.standard_normal((9, 4)).astype(np.float32)
T = TypeVar("T")


class Tree:
    def __init__(self, word: int, left: Tree | None = None, right: Tree | None = None) -> None:
        self.word = word
        self.left = left
        self.right = right
        self.label = "never read"
        self.again = self  # nor followed

    @property
    def leaf(self) -> bool:
        return self.left is None

    def size(self) -> int:
        return 1 if self.left is None else self.left.size() + self.right.size()


class SlotTree:
    __slots__ = ("left", "right", "word")

    def __init__(self, word: int, left: SlotTree | None = None, right: SlotTree | None = None) -> None:
        self.word = word
        if left is not None:
            self.left, self.right = left, right

    @property
    def leaf(self) -> bool:
        return not hasattr(self, "left")


class Bare:
    pass


def bare(word: int, left: Any = None, right: Any = None) -> Bare:
    out = Bare()
    out.leaf = left is None
    if left is None:
        out.word = word
    else:
        out.left, out.right = left, right
    return out


def grown(make: Callable[..., Any], depth: int) -> Any:
    if depth == 0 or RNG.random() < 0.3:
        return make(int(RNG.integers(9)))
    return make(0, grown(make, depth - 1), grown(make, depth - 1))


def encode(t, E):
    if t.leaf:
        return E[t.word]
    return np.tanh(encode(t.left, E) + encode(t.right, E))


def encodes(t, *, E):
    return encode(t, E)


@pytest.mark.parametrize("make", [Tree, SlotTree, bare])
def test_trees_of_plain_classes(make: Callable[..., Any]) -> None:
    trees = [grown(make, 4) for _ in range(6)]
    wanted = plain(encodes, trees, E=E)
    for column in (trees, pack(trees), pack(trees)[:]):
        agree(outcomes(model(encodes).batch, column, E=E), wanted, close=True)
    agree(outcomes(model(encodes)._interpret, trees, E=E), wanted, close=True)
    shared = [trees[0], make(0, trees[1], trees[1])]  # one object twice
    agree(outcomes(model(encodes).batch, shared, E=E), plain(encodes, shared, E=E), close=True)


def test_a_field_that_an_object_lacks_fails_where_it_is_read() -> None:
    odd = Bare()
    odd.leaf = True
    trees = [bare(1), odd, bare(0, bare(2), bare(3))]
    agree(outcomes(model(encodes).batch, trees, E=E), plain(encodes, trees, E=E), close=True)
    with pytest.raises(InstanceErrors) as caught:
        model(encodes).batch(trees, E=E)
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], AttributeError)


def test_the_same_object_comes_back() -> None:
    trees = [grown(Tree, 2) for _ in range(3)]
    found = model(lambda t: (t, t.left)).batch(trees)
    assert all(a is t and b is t.left for (a, b), t in zip(found, trees, strict=True))
    (again, _), *_ = model(lambda t: (t, t.left)).batch(pack(trees))
    assert type(again) is Tree and again.word == trees[0].word and again.label == "never read"


def test_methods_and_inheritance() -> None:
    class Leafy(Tree):
        def size(self) -> int:
            return 10 * super().size()

    trees = [Tree(1), Leafy(2, Tree(3), Leafy(4)), Leafy(1)]

    def sizes(t):
        return t.size(), Tree.size(t), isinstance(t, Leafy)

    agree(list(model(sizes).batch(trees)), plain(sizes, trees))


class Named:
    kind = 3

    def __init__(self, v: Any) -> None:
        self.v = v


def test_an_attribute_of_the_class_and_then_of_an_object() -> None:
    f, objects = model(lambda o: (o.kind, o.v, hasattr(o, "w"), getattr(o, "w", 7))), [Named(1), Named(2)]
    for change in (lambda: None, lambda: setattr(objects[0], "kind", 5), lambda: setattr(objects[1], "kind", 2.5),
                   lambda: setattr(objects[0], "w", 1), lambda: delattr(objects[0], "w")):  # fmt: skip
        change()
        assert list(f.batch(objects)) == [f(o) for o in objects]


def test_types_are_those_of_the_batch() -> None:
    f = model(lambda o: o.v * 2)
    for values in ([1, 2], [1.5, 2], [np.float32(3), 1], [True, 4], [np.ones(2), np.ones(3)], [np.ones((2, 2))]):
        column = [Named(v) for v in values]
        agree(list(f.batch(column)), plain(f, column))


def test_what_cannot_be_stored_is_rejected_where_it_is_read() -> None:
    objects = [Named(1), Named(2)]
    objects[0].text = object()
    assert model(lambda o: o.v).batch(objects) == [1, 2]
    with pytest.raises(AcronumbaError, match="ACR304"):
        model(lambda o: o.text).batch(objects)


# ---- shared values


class Layer:
    def __init__(self, n: int, m: int, act: str = "tanh") -> None:
        self.W, self.b, self.act = RNG.standard_normal((m, n)), np.zeros(m), act

    def __call__(self, x: Any) -> Any:
        y = self.W @ x + self.b
        return np.tanh(y) if self.act == "tanh" else y


class Net:
    scale = 2.0

    def __init__(self) -> None:
        self.layers = [Layer(3, 4), Layer(4, 2, "")]
        self.by_name = {"out": Layer(2, 2)}
        self.owner = self

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.by_name["out"](x) * self.scale


NET = Net()
XS = [RNG.standard_normal(3) for _ in range(4)]


def forward(x, *, net):
    return net.forward(x)


def test_a_model_object_is_shared() -> None:
    f, net = model(forward), Net()
    agree(outcomes(f.batch, XS, net=net), plain(forward, XS, net=net), close=True)
    compiled = f.stages(XS, net=net)["ir"]
    net.layers[0].W = net.layers[0].W * 2  # other weights, in other objects: the same program
    other = copy.deepcopy(net)
    other.unused = "something else"
    for each in (net, other, pack(net)):
        agree(outcomes(f.batch, XS, net=each), plain(forward, XS, net=net), close=True)
    assert f.stages(XS, net=other)["ir"] == compiled
    net.layers[1].act = "tanh"  # another program
    net.scale = 0.5
    agree(outcomes(f.batch, XS, net=net), plain(forward, XS, net=net), close=True)


def test_a_global_object() -> None:
    def f(x):
        return NET.forward(x)

    agree(outcomes(model(f).batch, XS), plain(f, XS), close=True)


@pytest.mark.parametrize("make", [types.SimpleNamespace, argparse.Namespace])
def test_namespaces(make: Callable[..., Any]) -> None:
    p = make(w=np.ones((2, 3)), n=3)

    def f(x, *, p):
        return p.w @ x * p.n

    agree(outcomes(model(f).batch, XS, p=p), plain(f, XS, p=p), close=True)
    agree(outcomes(model(f).batch, XS, p=pack(p)), plain(f, XS, p=p), close=True)
    agree(outcomes(model(lambda p: p.w.sum() * p.n).batch, [p, p]), [np.float64(18.0)] * 2)


def test_saved_and_loaded(tmp_path: Any) -> None:
    net = [Layer(2, 3), Layer(3, 1)]
    save(tmp_path / "net", {"layers": net})
    again = load(tmp_path / "net", like={"layers": [Layer(2, 3), Layer(3, 1)]})["layers"]
    assert all(equal(a, b) for a, b in zip(net, again, strict=True))


# ---- which classes are plain


class Slots:
    __slots__ = ("a",)


class Typed(Generic[T]):
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def act(self) -> None: ...


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    pass


class Dict(dict):  # type: ignore[type-arg]
    pass


class Computed:
    def __getattr__(self, name: str) -> int:
        return 1


class Array:
    def __array__(self) -> Any:
        return np.zeros(2)


class Made:
    def __new__(cls) -> Made:
        return super().__new__(cls)


def test_which_classes_are_plain() -> None:
    assert all(map(is_plain, (Tree, Slots, Typed, Abstract, Bare, types.SimpleNamespace)))
    odd = (
        OfMeta,
        Dict,
        Computed,
        Array,
        Made,
        object,
        type,
        pickle.Pickler,
        np.random.Generator,
        types.ModuleType,
        int,
    )
    assert not any(map(is_plain, odd))
    assert names_of(Tree(1)) == ("again", "label", "left", "right", "word") and names_of(SlotTree(1)) == ("word",)


@pytest.mark.parametrize("cls", [OfMeta, Computed, Made, Dict])
def test_others_are_rejected_where_they_are_read(cls: type) -> None:
    objects = [Named(cls()), Named(cls())]
    assert model(lambda o: 1).batch(objects) == [1, 1]
    with pytest.raises(AcronumbaError):
        model(lambda o: o.v.x).batch(objects)
    with pytest.raises(AcronumbaError, match="ACR501"):
        model(lambda o, *, p: p.x).batch([1], p=cls())


def test_a_wrong_object_is_the_error_of_its_instance() -> None:
    objects = [Named(Tree(1)), Named(Tree(2)), Named(3)]
    f = model(lambda o: o.v.word)
    f.batch(objects[:2])
    with pytest.raises(InstanceErrors) as caught:
        f.batch(objects)
    assert list(caught.value.errors) == [2] and not isinstance(caught.value.errors[2], DataError)
    assert caught.value.results == [1, 2, None]


class Counted:
    def __init__(self, size: int) -> None:
        self.size = size
        self.begin()
        self.again = 2 * size

    def begin(self) -> None:
        self.zero = 0


class Spanned(Counted):
    def __init__(self, tag: str, left: int) -> None:
        self.tag = tag
        super().__init__(left)
        self.left = left


def test_attributes_of_results_are_in_the_order_of_their_assignment() -> None:
    def spans(n: int) -> list[Spanned]:
        out = [Spanned("x", k) for k in range(n)]
        for one in out:
            one.last = one.size  # type: ignore[attr-defined]
        return out

    for some in (model(spans).batch([2, 3]), [model(spans).batch([2])[0]]):
        for one in (one for row in some for one in row):
            assert list(vars(one)) == list(vars(spans(1)[0])) == ["tag", "size", "zero", "again", "left", "last"]
