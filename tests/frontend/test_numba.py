"""Functions and classes of Numba in models: the Python source of a function is its definition."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba import njit, prange, types, vectorize
from numba.experimental import jitclass
from numba.typed import Dict, List

from acronumba import InstanceErrors, Unsupported, model
from tests.support.plain_call import WAYS, agree, outcomes

RNG = np.random.default_rng(0)
XS = [RNG.normal(size=n) for n in (4, 1, 3)]


@njit(parallel=True, fastmath=True)
def total(a):  # type: ignore[no-untyped-def]
    s = 0.0
    for i in prange(len(a)):
        s += a[i]
    return s


@njit
def warping(a, b, p=1.0):  # type: ignore[no-untyped-def]
    d = np.full((len(a) + 1, len(b) + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = p * abs(a[i - 1] - b[j - 1]) + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[-1, -1]


@njit
def fibonacci(n):  # type: ignore[no-untyped-def]
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@njit
def containers(a):  # type: ignore[no-untyped-def]
    doubled = List()
    for x in a:
        doubled.append(x * 2)
    found = Dict.empty(types.int64, types.float64)
    for i in range(len(a)):
        found[i % 3] = a[i]
    numbers = List.empty_list(types.float64)
    numbers.append(1.5)
    return len(doubled), found[0], numbers[0], types.int32(a[0]), numba.float32(a[0])


@numba.cfunc("float64(float64)")
def square(x):  # type: ignore[no-untyped-def]
    return x * x


@vectorize(["float32(float32,float32)", "float64(float64,float64)"])
def smaller(x, y):  # type: ignore[no-untyped-def]
    if x < y:
        return x * 0.5
    return y + 1


@vectorize
def scaled(x, y):  # type: ignore[no-untyped-def]
    return x * y if x > 0 else y


@vectorize(["boolean(float64,float64)", "boolean(int64,int64)"])
def between(x, y):  # type: ignore[no-untyped-def]
    return not (x > y or x == 0.5) and y < 2


@numba.guvectorize(["void(float64[:],float64[:],float64[:])", "void(float32[:],float32[:],float32[:])"], "(n),(n)->()")
def dot(a, b, out):  # type: ignore[no-untyped-def]
    out[0] = 0
    for i in range(len(a)):
        out[0] += a[i] * b[i]


@numba.guvectorize(["void(float64[:,:],float64[:],int64,float64[:])"], "(m,n),(n),()->(m)")
def affine(a, x, k, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = k + (a[i] * x).sum()


MODELS = {
    "prange": lambda x: total(x),
    "a default argument, loops": lambda x: (warping(x, x[::-1]), warping(x, x * 0.5, 2.0)),
    "recursion": lambda x: fibonacci(len(x)),
    "typed containers, casts": lambda x: containers(x),
    "cfunc": lambda x: square(float(x[0])),
}
VECTORIZED = {
    "dtypes of a signature": lambda x: (smaller(x, x[::-1]), smaller(x, np.float32(2)), smaller(x[0], 0.5)),
    "float32": lambda x: smaller(x.astype(np.float32), np.float32(0.5)),
    "bools": lambda x: (between(x, 0.25), between(len(x), 3), between(x[:, None], x)),
    "rows": lambda x: (dot(x, x), dot(np.outer(x, x), x), dot(x.astype(np.float32), np.float32([1.0] * len(x)))),
    "axes and numbers": lambda x: (affine(np.outer(x, x), x, 2), affine(x[None], np.stack([x, x * 2]), np.arange(2))),
    "without signatures": lambda x: (scaled(x, 2.0), scaled(x[0], x[-1]), scaled(x[:, None], x)),
}


@pytest.mark.parametrize("name", MODELS)
def test_functions_under_njit(name: str) -> None:
    run = model(MODELS[name])
    assert run.check(XS).count("different") == 0
    if name == "recursion":  # Numba takes seconds to compile others
        assert list(run.batch(XS)) == list(map(MODELS[name], XS))


@pytest.mark.parametrize("name", VECTORIZED)
def test_vectorize(name: str) -> None:
    run = VECTORIZED[name]
    agree(outcomes(model(run).batch, XS), list(map(run, XS)), close=True)
    assert model(run).check(XS).ok


@pytest.mark.parametrize("way", WAYS)
def test_every_way(way: str) -> None:
    def f(x: np.ndarray) -> Any:
        return np.asarray(warping(x, x * 0.5) + square(0.5))

    WAYS[way](f, XS)


@model
@njit
def mean(x, scale=2.0):  # type: ignore[no-untyped-def]
    return x.sum() * scale / len(x)


def test_a_model_may_be_under_njit() -> None:
    assert mean(XS[0]) == mean.__wrapped__(XS[0])
    assert mean.check(XS).ok
    assert mean.with_options(equal=False)(XS[0]) == mean(XS[0])


@njit
def past_the_end(x, n):  # type: ignore[no-untyped-def]
    return x[n] * 2**n


def test_python_decides_where_numba_differs() -> None:
    """Numba reads past the end, and its ints wrap."""

    @model
    def f(x: np.ndarray, n: int) -> Any:
        return past_the_end(x, n)

    with pytest.raises(InstanceErrors) as failed:
        f.batch(XS, [3, 3, 0])
    assert {k: type(e) for k, e in failed.value.errors.items()} == {1: IndexError}
    assert f.check(XS, [3, 3, 0]).ok


@jitclass([("a", types.int64)])
class Jitted:
    def __init__(self, a):  # type: ignore[no-untyped-def]
        self.a = a


@numba.stencil
def neighbours(a):  # type: ignore[no-untyped-def]
    return a[0] + a[1]


@numba.guvectorize("(n)->()")
def summed(a, out):  # type: ignore[no-untyped-def]
    out[0] = a.sum()


REJECTED: dict[str, tuple[Any, str]] = {
    "jitclass": (lambda x: Jitted(len(x)).a, "the class without @jitclass"),
    "stencil": (lambda x: neighbours(x), "a loop over the indices"),
    "guvectorize": (lambda x: summed(x), "a function with signatures and one result"),
    "out=": (lambda x: scaled(x, x, out=x), "out of a function under vectorize"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_is_rejected(name: str) -> None:
    run, text = REJECTED[name]
    with pytest.raises(Unsupported, match=text):
        model(run).batch(XS)


def test_data_of_numba_is_rejected() -> None:
    with pytest.raises(Exception, match=r"pass list\(x\)"):
        model(lambda xs: xs[0]).batch([List([1.0])])
