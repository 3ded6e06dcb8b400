"""Columns among the instances: a program is made for them, never a result of its own and never many programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model, nn, pack
from acronumba.pipeline import compiled as pipeline
from tests.support.chosen import one_in

K, H = 7, 37
random = np.random.default_rng(7)
WX, WH = random.normal(size=(H, K)).astype("f") * 0.5, random.normal(size=(H, H)).astype("f") * 0.5
B, WO = random.normal(size=(H, 1)).astype("f"), random.normal(size=(K, H)).astype("f")
SHARED: dict[str, Any] = {"wx": WX, "wh": WH, "b": B, "wo": WO}


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("f")


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled, one by one."""
    made: list[Any] = []
    Compiled = pipeline.Compiled

    def counted(*args: Any) -> Any:
        made.append(Compiled(*args))
        return made[-1]

    monkeypatch.setattr(pipeline, "Compiled", counted)
    return made


@dataclass
class Step:
    x: np.ndarray
    before: Step | None = None


@model
def network(xs, *, wx, wh, b, wo):
    h = np.zeros((H, 1), np.float32)
    for x in xs:
        h = np.tanh(wx @ x + wh @ h + b)
    e = np.exp(wo @ h)
    return e / np.sum(e), e / e.sum(axis=0), h.mean(), np.linalg.norm(h)


@model
def chain(step, *, wx, wh, b, wo):
    def state(s):
        before = np.zeros((H, 1), np.float32) if s.before is None else state(s.before)
        return np.tanh(wx @ s.x + wh @ before + b)

    return nn.log_softmax(wo @ state(step), axis=0)


@model
def sums(x):
    y = x * x - np.float32(0.3)
    return (
        x.sum(), y.sum(), x.sum(0), y.sum(0), y.sum(1), y.prod(0), y.max(0), y.min(), y.mean(0), y.var(), y.std(0),
        np.argmax(y, axis=0), np.argmin(y), np.cumsum(y, axis=0), np.cumsum(y), nn.softmax(y, axis=0), nn.softmax(y),
        y.T.sum(0), y.T.sum(1), np.median(y, axis=0), np.sort(y, axis=0),
        np.exp(y).sum(0), np.exp(y).sum(), (y[:, None] * y).sum(0), (y[None] * y).sum((0, 1)), np.stack([y, x]).sum(1),
        np.concatenate([x, y]).sum(0), np.concatenate([x, y], axis=1).sum(0),
    )  # fmt: skip


@model
def products(x, a):
    y = a @ x
    return (
        y, y.T @ x, x.T @ x, x @ x.T, x.T @ a, x.T @ a @ x, np.einsum("ij,ik->jk", x, y), np.einsum("ij,ij->j", x, y),
        np.einsum("ij->", y), np.outer(x, y), np.tensordot(x, y, 2), (a @ a) @ x, np.concatenate([x, y], axis=1).T @ x,
    )  # fmt: skip


@model
def vectors(x, a):
    """Products of vectors that are columns."""
    v = x[:, 0]
    return v @ v, a @ v, v @ a, v @ x, x.T @ v, x.reshape(-1) @ x.ravel(), v.sum()


def columns_of(f: Any, n: int) -> tuple[list[Any], ...]:
    """Return five instances of a model whose arrays have so many columns."""
    seeds = range(5)
    if f is network:
        return ([[array(K, n, seed=10 * s + t) for t in range(s)] for s in seeds],)
    if f is chain:
        made: list[Any] = [None]
        for s in seeds:
            made.append(Step(array(K, n, seed=s), made[-1]))
        return (made[1:],)
    xs = [array(300, n, seed=s) for s in seeds]
    return (xs,) if f is sums else (xs, [array(300, 300, seed=s) for s in seeds])


def same_bits(got: Any, want: Any) -> bool:
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(same_bits, got, want))
    got, want = np.asarray(got), np.asarray(want)
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def close(got: Any, want: Any) -> bool:
    if isinstance(want, tuple):
        return all(map(close, got, want))
    return np.allclose(got, want, rtol=1e-3, atol=1e-3) and np.shape(got) == np.shape(want)


MODELS = [network, chain, sums, products, vectors]


@pytest.mark.parametrize("f", one_in(4, MODELS), ids=lambda f: f.__name__)
def test_a_column_has_the_same_bits_in_any_company(f: Any, compilations: list[Any]) -> None:
    shared = SHARED if f in (network, chain) else {}
    f = model(f.__wrapped__)
    known, wide = columns_of_plain(f, 1), columns_of_plain(f, 3)
    alone = list(f.batch(*known, **shared))
    assert len(compilations) == 1
    mixed = list(f.batch(*([*a, *b] for a, b in zip(known, wide, strict=True)), **shared))
    assert len(compilations) == (1 if f.__name__ == "vectors" else 2)
    again = list(f.batch(*known, **shared))
    one = [f.batch(*([v] for v in instance), **shared)[0] for instance in zip(*known, strict=True)]
    for k, instance in enumerate(zip(*known, strict=True)):
        assert close(alone[k], f(*instance, **shared))
        for other in (mixed[k], again[k], one[k]):
            assert same_bits(alone[k], other)


def columns_of_plain(f: Any, n: int) -> tuple[list[Any], ...]:
    return columns_of(next(m for m in MODELS if m.__wrapped__ is f.__wrapped__), n)


def test_what_reads_columns_alone_is_made_for_them(compilations: list[Any]) -> None:
    f = model(network.__wrapped__)
    f.batch(*columns_of(network, 1), **SHARED)
    column = "xs[...]: float32[?, 1]"
    assert compilations[0].guard.constants() == [f"H = {H}", column]
    f.batch(*columns_of(network, 2), **SHARED)
    assert compilations[1].guard.constants() == [f"H = {H}"]
    assert len(compilations) == 2
    assert column in str(model(network.__wrapped__).explain(*columns_of(network, 1), **SHARED))


@model
def shapes(x, ys, z):
    total = x.sum() + z["u"].sum() * 2 + z["v"].sum() * 3
    for y in ys:
        total = total + y.sum() * 5
    return total, x.shape[1], (x.T @ x).sum()


def test_mini_batches_of_random_shapes_compile_a_few_times(compilations: list[Any]) -> None:
    draw = np.random.default_rng(0)
    f = model(shapes.__wrapped__)

    def some() -> Any:
        return array(draw.integers(1, 4), draw.integers(1, 3), seed=int(draw.integers(100)))

    for _ in range(50):
        count = int(draw.integers(1, 3))
        instances = [(some(), [some() for _ in range(2)], {"u": some(), "v": some()}) for _ in range(count)]
        got = f.batch(*zip(*instances, strict=True))
        for instance, result in zip(instances, got, strict=True):
            assert close(result, f(*instance))
    assert len(compilations) <= 4


def test_extents_that_change_one_after_the_other_end_in_one_program(compilations: list[Any]) -> None:
    @model
    def f(x, y, u, v, w):
        return x.sum() + y.sum() + u.sum() + v.sum() + w.sum()

    for k in range(6):
        widths = [2 if j < k else 1 for j in range(5)]
        assert f.batch(*([array(2, n)] for n in widths))
    assert len(compilations) == 4
    for k in range(6):  # no column is taken for one any more
        assert f.batch(*([array(2, 2 if j == k else 1)] for j in range(5)))
    assert len(compilations) == 4


def test_columns_of_an_array_and_of_a_pack(compilations: list[Any]) -> None:
    f = model(products.__wrapped__)
    xs, matrices = array(6, 300, 1), array(6, 300, 300, seed=1)
    want = list(f.batch(list(xs), list(matrices)))
    for columns in (
        (xs, matrices),
        (pack(xs), pack(matrices)),
        (pack(list(xs)), pack(list(matrices))[:]),
        (xs, pack(matrices)),
    ):
        assert all(map(same_bits, f.batch(*columns), want))
    assert len(compilations) == 1
    mixed = pack([*xs, array(300, 2)])
    several = [*matrices, matrices[0]]
    assert all(map(same_bits, f.batch(mixed, several)[:6], want))
    assert all(map(same_bits, f.batch(mixed[:6], several[:6]), want))
    wide = array(7, 300, 2)
    assert close(f.batch(wide, several)[0], f(wide[0], several[0]))
    assert close(f.batch(pack(wide), several)[0], f(wide[0], several[0]))
    assert len(compilations) == 2


def test_optional_columns_and_columns_in_tuples(compilations: list[Any]) -> None:
    @model
    def f(pair, maybe):
        return pair[0] @ pair[1].T if maybe is None else pair[0] @ pair[1].T + maybe

    def batch(n: int, m: int) -> Any:
        columns = [(array(3, n), array(4, n, seed=k)) for k in range(3)], [None, array(3, m), None]
        got = f.batch(*columns)
        return all(close(r, f(*i)) for r, i in zip(got, zip(*columns, strict=True), strict=True))

    assert batch(1, 1) and batch(1, 4) and batch(2, 1) and batch(2, 4)
    assert len(compilations) == 3


def test_what_is_rejected_for_columns_fails_for_the_instances_instead() -> None:
    @model
    def f(x):
        return x @ np.ones((3, 2), np.float32)

    with pytest.raises(InstanceErrors) as caught:
        f.batch([array(2, 1), array(2, 1)])
    assert sorted(caught.value.errors) == [0, 1]
    assert len(f.batch([array(2, 3)])) == 1


def test_code_for_columns_alone_is_run_for_columns() -> None:
    @model
    def f(x):
        return np.squeeze(x, axis=1) if x.shape[1] == 1 else x[:, 0]

    for n in (1, 1):
        assert same_bits(f.batch([array(4, n)])[0], f(array(4, n)))


def many(count: int) -> Callable[[int], list[Any]]:
    return lambda n: [array(3, n, seed=k) for k in range(count)]


def test_an_array_that_is_no_column_is_never_read_as_one(compilations: list[Any]) -> None:
    @model
    def f(xs):
        total = np.float32(0)
        for x in xs:
            total = total + x.sum() * x.shape[1]
        return total

    f.batch([many(3)(1)])
    same = array(3, 1)
    for odd in ([same, array(3, 2), same], [array(3, 0)], [array(1, 3), same], [*many(40)(1)[:-1], array(3, 2)]):
        assert close(f.batch([odd, [same]])[0], f(odd))
    assert len(compilations) == 2


def one_by_one(x):
    return [x[:, t : t + 1] for t in range(x.shape[1])]


def in_a_loop(x):
    out, n = [], x.shape[1]
    for t in range(n):
        for u in range(1, x.shape[0]):
            out.append(x[u : u + 1, t : t + 1])
    return out


def backwards(x):
    return [(x[:, t : t + 1], x[s : s + 1]) for t, s in zip(reversed(range(x.shape[1])), range(5), strict=False)]


def beyond(x):
    """Slices that may be empty, or are cut off."""
    out = [(0, 0)]
    for t in range(x.shape[1] + 1):
        out.append((x[:, t : t + 1].shape[1], x[:, t : t + 2].shape[1]))
        out.append((x[t : t + 1].shape[0], x[:, t - 1 : t].shape[1]))
        y = x[:, 1:]
        out.append((y[:, t : t + 1].shape[1], x[:, -t - 1 : -t].shape[1]))
    for t in range(x.shape[1]):
        x = x[:, 1:]
        out.append((x[:, t : t + 1].shape[1], x.shape[1]))
    for t in range(-2, x.shape[1]):
        out.append((x[:, t : t + 1].shape[1], 0))
    return out


@pytest.mark.parametrize("plain", [one_by_one, in_a_loop, backwards, beyond], ids=lambda f: f.__name__)
def test_slices_of_one_column(plain: Any) -> None:
    f = model(plain)
    xs = [array(m, n, seed=m + n) for m, n in [(3, 4), (1, 1), (2, 0), (5, 2), (0, 3)]]
    for got, x in zip(f.batch(xs), xs, strict=True):
        want = plain(x)
        assert len(got) == len(want)
        assert all(
            same_bits(np.asarray(a), np.asarray(b))
            for g, v in zip(got, want, strict=True)
            for a, b in zip(parts(g), parts(v), strict=True)
        )
    if plain is one_by_one:
        assert "float32[?, 1]" in f.stages(xs)["ir"].splitlines()[0]


def parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
