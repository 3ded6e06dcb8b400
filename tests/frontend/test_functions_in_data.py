"""Functions and classes in the data of instances: called, compared, stored, returned, in later batches."""

from __future__ import annotations

import functools
import math
import operator
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, pack
from acronumba.api.check import compare
from acronumba.api.results import equal
from acronumba.errors import InternalError
from acronumba.pipeline.compiled import Compiled
from tests.support import held_functions
from tests.support.plain_call import compiled, interpreted, outcomes, plain


@dataclass
class Layer:
    f: Callable[..., Any]
    x: float = 1.0
    g: Callable[..., Any] | None = None


class Node:
    def __init__(self, act: Any = None, kids: tuple[Any, ...] = (), x: float = 0.0) -> None:
        self.act, self.kids, self.x = act, list(kids), x

    @classmethod
    def made(cls) -> Node:
        return cls()


class Boxed:
    def __init__(self, x: float) -> None:
        self.x = x


def double(v: float) -> float:
    return 2 * v


def factorial(n: float) -> float:
    return 1.0 if n <= 1 else n * factorial(n - 1)


def two(a: float, b: float = 3.0) -> float:
    return a + b


def scaled(k: Any) -> Callable[[float], float]:
    return lambda v: k * v


LAYERS = [
    Layer(math.tanh), Layer(double, 2.0, abs), Layer(lambda v: v + 1), Layer(abs, -3.0, double), Layer(float, 2.5),
    Layer(int, 2.7, double), Layer(factorial, 5.0), Layer(scaled(2), 1.5, scaled(3)), Layer(round, 2.5),
]  # fmt: skip


def called(d: Layer) -> Any:
    return d.f(d.x) if d.g is None else d.g(d.f(d.x))


def stored(d: Layer) -> Any:
    some = [d.f]
    for _ in range(2):
        some.append(double)
    some.append(d.g)
    out = 0.0
    for f in some:
        if f is not None:
            out += f(d.x)
    return out, (d.f if d.x > 1 else double)(d.x), {1: d.f}[1](d.x)


def returned(d: Layer) -> Any:
    return d.f, d.g, [d.f, double, d.g], {"f": d.f}


def compared(d: Layer) -> Any:
    return d.f.__name__, d.f is double, d.f == abs, d.f != d.g, d.g is not None and d.g is not d.f, callable(d.g)


def made(d: Layer) -> Any:
    return d.f(d.x), isinstance(d.x, float)


def run(n: Node) -> Any:
    return n.x if n.act is None else n.act(*[run(k) for k in n.kids])


def one_or_two(n: Node) -> Any:
    if n.act is None:
        return n.x
    return n.act(one_or_two(n.kids[0])) if len(n.kids) == 1 else n.act(one_or_two(n.kids[0]), one_or_two(n.kids[1]))


LEAVES = [Node(x=0.1 * k) for k in range(4)]
TREES = [
    Node(operator.add, (Node(math.tanh, (LEAVES[1],)), LEAVES[2])), Node(double, (LEAVES[3],)), LEAVES[0],
    Node(operator.mul, (LEAVES[1], Node(math.pow, (LEAVES[2], LEAVES[3])))),
]  # fmt: skip


@pytest.mark.parametrize("f", [called, stored, returned])
def test_functions_of_all_kinds(f: Any) -> None:
    interpreted(f, LAYERS)
    interpreted(f, LAYERS[::-1])
    interpreted(f, LAYERS[:1])


def test_they_run_as_machine_code() -> None:
    compiled(called, LAYERS)
    assert list(model(called).batch(pack(LAYERS))) == [called(d) for d in LAYERS]
    assert model(returned).check(LAYERS).ok


def test_identity_and_names() -> None:
    interpreted(compared, [Layer(math.tanh, g=double), Layer(double, g=double), Layer(abs), Layer(double)])
    interpreted(compared, [Layer(abs, g=abs), Layer(np.abs, g=abs)])


@pytest.mark.parametrize("f", [run, one_or_two])
def test_trees_of_functions(f: Any) -> None:
    interpreted(f, TREES)


def test_a_wrong_number_of_arguments_fails_in_its_instance() -> None:
    wrong = [Node(math.tanh, (LEAVES[1], LEAVES[2])), *TREES, Node(operator.add, (LEAVES[1],)), Node(3, (LEAVES[1],))]
    interpreted(one_or_two, wrong)
    interpreted(run, wrong[:-1])
    interpreted(called, [Layer(operator.add), Layer(two), Layer(double)])


def test_classes() -> None:
    @model
    def f(d: Layer) -> Any:
        return d.f(d.x).x, d.f is Boxed

    assert list(f.batch([Layer(Boxed), Layer(Boxed, 2.0)])) == [(1.0, True), (2.0, True)]


def test_arrays_and_gradients() -> None:
    @model
    def loss(plan: list[Any], x: np.ndarray, *, w: np.ndarray) -> Any:
        y = w @ x
        for f in plan:
            y = f(y)
        return np.sum(y)

    plans, xs, w = [[np.tanh, lambda v: v * v], [np.exp], []], [np.ones(2), np.arange(2.0), np.ones(2)], np.ones((3, 2))
    done = loss.value_and_grad.batch(plans, xs, w=w)
    want = [loss(p, x, w=w) for p, x in zip(plans, xs, strict=True)]
    np.testing.assert_allclose(list(done.losses), want, rtol=1e-12)
    more = w.copy()
    more[1, 0] += 1e-6
    slope = sum(loss(p, x, w=more) - v for p, x, v in zip(plans, xs, want, strict=True)) / 1e-6
    np.testing.assert_allclose(3 * done.grads[1, 0], slope, rtol=1e-5)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    made: list[None] = []
    init = Compiled.__init__

    def counted(self: Compiled, *args: Any, **kwargs: Any) -> None:
        made.append(None)
        init(self, *args, **kwargs)

    monkeypatch.setattr(Compiled, "__init__", counted)
    return made


def test_a_function_that_is_new_is_compiled_once(compilations: list[None]) -> None:
    m, rng = model(called), random.Random(1)
    some = [math.tanh, math.sin, double, abs, float]
    for _ in range(12):
        batch = [Layer(rng.choice(some), rng.random()) for _ in range(2)]
        assert m._interpret(batch) == [called(d) for d in batch]
    assert len(compilations) <= len(some)


def test_lambdas_made_anew_count_as_one(compilations: list[None]) -> None:
    m = model(called)
    for _ in range(4):
        batch = [Layer(lambda v: v - 1), Layer(scaled(2)), Layer(lambda v, k=3.0: v * k)]
        assert m._interpret(batch) == [called(d) for d in batch]
    assert len(compilations) == 1
    with pytest.raises(AcronumbaError, match="ACR117"):
        model(compared)._interpret([Layer(scaled(2), g=scaled(2)), Layer(double)])


def test_functions_that_always_hold_new_values_are_rejected(compilations: list[None]) -> None:
    def add(k: float) -> Callable[[float], float]:
        return lambda v: v + k

    m = model(called)
    told = ""
    for k in range(20):
        try:
            assert m._interpret([Layer(add(k))]) == [1.0 + k]
        except AcronumbaError as error:
            told = str(error)
    assert "an object with `__call__`" in told and len(compilations) < 20


@pytest.mark.parametrize(
    ("f", "seen", "rewrite"),
    [
        (functools.partial(two, 1.0), "functools.partial", "a lambda"),
        (Node.made, "the method made", "keep the object"),
        ([].append, "the method append", "keep the object"),
        (scaled([1.0]), "holds values of its own", "an object with `__call__`"),
    ],
)
def test_what_cannot_be_data_is_rejected(f: Any, seen: str, rewrite: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(called)._interpret([Layer(f)])
    assert seen in str(caught.value) and rewrite in str(caught.value)
    with pytest.raises(InstanceErrors) as failed:  # others are not affected
        model(called).batch([Layer(double), Layer(f)])
    assert list(failed.value.errors) == [1] and failed.value.results[0] == 2.0
    assert seen in str(failed.value.errors[1]) and rewrite in str(failed.value.errors[1])


def test_packs_refer_to_functions_by_their_names() -> None:
    packed = pickle.loads(pickle.dumps(pack([Layer(double), Layer(math.tanh)])))
    assert model(called).batch(packed)[0] == 2.0
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(pack([Layer(lambda v: v)]))


def test_a_list_for_optional_parameters() -> None:
    @model
    def f(d: Layer, xs: list[float]) -> Any:
        return d.f(*xs)

    columns = [Layer(two), Layer(two)], [[1.0], [1.0, 2.0]]
    assert list(f.batch(*columns)) == list(map(f, *columns))


def test_a_generator_as_the_arguments() -> None:
    def f(d: Layer, xs: list[float]) -> Any:
        return d.f(*(2 * x for x in xs)), d.f(*map(abs, xs))

    columns = [Layer(two), Layer(double)], [[1.0, -2.0], [3.0]]
    assert list(model(f).batch(*columns)) == list(map(f, *columns))


def check_random(seed: int, module_of: Callable[[str], Any]) -> bool:
    """Compare a random program with its plain calls; return whether it was rejected."""
    module = module_of(held_functions.program(seed))
    some = held_functions.instances(module, seed)
    try:
        got = outcomes(model(module.main)._interpret, some)
    except InternalError:
        raise
    except AcronumbaError:
        return True
    for mine, theirs in zip(got, plain(module.main, some), strict=True):
        if isinstance(theirs, Exception):
            assert isinstance(mine, Exception), (seed, mine, theirs)
        elif not isinstance(mine, AcronumbaError):
            assert equal(mine, theirs) or compare(mine, theirs, theirs)[0] in ("equal", "close"), (seed, mine, theirs)
    return False


def test_random_programs(module_of: Callable[[str], Any]) -> None:
    assert sum(check_random(seed, module_of) for seed in range(12)) < 6
