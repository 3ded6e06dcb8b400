"""NumPy tells an array of rank 0 from a scalar, and so do results: `np.array(5)` is no `np.int64(5)`.

`PRODUCERS` are all ways to come by either, `OPERATIONS` what sees an array of rank 0 as the scalar that it holds. Each
is compared with the plain call, in machine code and interpreted, type included.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, ShapeMismatch, model, pack
from acronumba.api.results import equal
from tests.support.chosen import one_in
from tests.support.modules import import_file

# x: float64[n], s: a scalar, a: an array of rank 0, i: such an array of an int, k: an int, m: float64[1]
PRODUCERS = """
np.array(5)  np.array(k)  np.array(s)  np.array(a)  np.asarray(x[0])  np.asarray(a)  np.asarray(s, np.float32)
np.array(k > 0)  np.where(k > 0, 1, 2)  np.where(s > 0, s, 2.0)  np.where(a > 0, a, s)  np.where(x > 0, x, s)[0]
np.zeros(())  np.ones((), np.float32)  np.full((), s)  np.full((), k)  np.full((), a)  np.zeros_like(s)  np.ones_like(a)
np.full_like(s, 2)  np.zeros_like(x, shape=())  x[:1].reshape(())  np.reshape(m, ())  np.reshape(s, ())  m.reshape(())
np.reshape(a, ())  np.reshape(k, ())  s.reshape(())  a.reshape(())  np.squeeze(m, 0)  m.squeeze(0)  np.squeeze(s)
a.squeeze()  x[0, ...]  x[..., 0]  x[k, ...]  x[i, ...]  a[...]  a[()]  s[()]  s[...]  x[0]  x[i]  np.take(x, i)
a.copy()  s.copy()  np.copy(s)  np.copy(a)  a.astype(np.float32)  s.astype(np.float32)  a.astype(np.float64)
a.astype(np.float64, copy=False)  a.T  s.T  a.transpose()  np.transpose(a)  np.transpose(s)  np.transpose(k)
np.broadcast_to(s, ())  np.broadcast_to(a, ())  np.expand_dims(s, ())  np.moveaxis(a, (), ())  np.float64(a)
np.float32(k)  np.stack([a, a])[0]  [a, s][0]  (a, s, a[()])  [a, np.zeros(())]  [v for v in x]  [v for v in (a, s)]
min(a, 3.0)  max(a, 3.0)  max(a, s)  min([a])  sum([a])  sum([a, a])  sum([], a)  sorted([a, s, np.array(0.5)])
a and s  a or s  a if k > 0 else s  a if k > 0 else None  a if k > 0 else 5  p  p.T  g  p.copy()  p[()]  p + 1
"""
OPERATIONS = """
+a  -a  abs(a)  np.abs(a)  a + 1  a * s  2.0 - a  a > 1  a == a  ~i  np.clip(a, 0, 1)  a.clip(None, 1)
np.sum(a)  a.sum()  np.sum(a, keepdims=True)  np.max(a)  np.mean(a)  np.std(a)  np.argmax(a)
np.dot(a, a)  np.vdot(a, a)  a.dot(a)
np.inner(a, a)  np.outer(a, a)  np.einsum(',->', a, a)  np.stack([a, a])  np.array([a, s])  np.flip(a)  np.ravel(a)
np.linalg.norm(a)  np.logical_not(a)  np.minimum(a, 1)  a ** 2  a ** 0.5  s ** 0.5  2.0 ** a  (-a) ** 0.5  z ** 0.5
z[()] ** 0.5  np.array(True) ** 2  np.bool_(True) ** 2  (z if k > 0 else z[()]) ** 0.5  (a if k > 0 else s) + 1
float(a)  int(a)  bool(a)  a.item()  a.tolist()  a.shape  a.ndim  a.size  list(range(i))  [10, 20, 30][i]  not a
divmod(a, 2.0)  pow(a, 2)  math.sqrt(a)  np.prod(a)  a.all()  np.any(a)  np.atleast_1d(a)  np.ascontiguousarray(a)
isinstance(a, np.ndarray)  isinstance(s, np.ndarray)  isinstance(a, float)  isinstance(s, float)  type(a) is np.ndarray
isinstance(a if k > 0 else s, np.ndarray)  isinstance(a if k > 0 else s, (np.ndarray, np.generic))  i * [1, 2]
nn.sigmoid(a)  nn.sigmoid(s)  nn.relu(a)  nn.erf(a)  nn.gelu(a)  nn.logsumexp(x)  random.uniform(random.key(0, k))
"""
HEADER = """
import math
import numpy as np
from acronumba import model, nn, random
g = np.array(7.0)
"""


def lines(text: str) -> list[str]:
    return [part for line in text.strip().split("\n") for part in line.split("  ")]


def columns() -> list[list[Any]]:
    return [
        [np.array([2.5, 1.5]), np.array([0.5, 4.0, 1.0])], [np.float64(2.0), np.float64(0.25)],
        [np.array(2.5), np.array(0.125)], [np.array(1), np.array(0)], [1, 0], [np.ones(1), np.zeros(1)],
        [np.array(-np.inf), np.array(-0.0)],
    ]  # fmt: skip


def load(tmp_path: Path, name: str, body: str) -> Any:
    """Return a module that is made of a text."""
    path = tmp_path / f"{name}.py"
    path.write_text(HEADER + body)
    return import_file(path)


@pytest.mark.parametrize("text", [PRODUCERS, OPERATIONS], ids=["producers", "operations"])
@pytest.mark.filterwarnings("ignore")
def test_types_are_those_of_the_plain_call(text: str, tmp_path: Path) -> None:
    parts = lines(text)
    body = "".join(f"    r{k} = {part}\n" for k, part in enumerate(parts))
    returned = ", ".join(f"r{k}" for k in range(len(parts)))
    source = f"@model\ndef f(x, s, a, i, k, m, z, *, p):\n{body}    return ({returned},)\n"
    f = load(tmp_path, f"rank0_{len(parts)}", source).f
    for shared in (np.array(1.5), np.float64(1.5)):
        plain = [f(*row, p=shared) for row in zip(*columns(), strict=True)]
        for got in (f.batch(*columns(), p=shared), f._interpret(*columns(), p=shared)):
            for mine, theirs in zip(got, plain, strict=True):
                wrong = {part: (m, t) for part, m, t in zip(parts, mine, theirs, strict=True) if not alike(m, t)}
                assert not wrong


def alike(mine: Any, plain: Any) -> bool:
    if isinstance(plain, np.ndarray | np.floating) and type(mine) is type(plain):
        close = np.allclose(mine, plain, rtol=1e-13, atol=0, equal_nan=True)
        return bool(close and mine.dtype == plain.dtype and mine.shape == plain.shape)
    if isinstance(plain, tuple | list) and type(mine) is type(plain):
        return len(mine) == len(plain) and all(map(alike, mine, plain))
    return equal(mine, plain)


# ---- where values go


@dataclass
class Box:
    a: Any
    s: Any


@model
def in_structures(x: np.ndarray):
    a = np.sum(x) + np.zeros(())
    b = np.array(a)
    return {"k": [(a, b)], "box": Box(b, a)}, [a, b], [b, b], (a[...], b[...], b[()]), [[b], [a]]


@model
def across_a_branch(x: np.ndarray):
    v = np.array(1.0) if len(x) > 1 else np.float64(2.0)
    w = np.array(2.0) if len(x) > 1 else None
    match v:
        case np.ndarray():
            kind = 1
        case _:
            kind = 2
    if isinstance(v, float):
        return v, kind, w
    return kind, v, 0.0 if w is None else w + 1


@model
def across_a_loop(x: np.ndarray):
    acc, first, best, pair = np.zeros(()), None, np.array(2.0), (np.zeros(()), np.float64(0))
    for v in x:
        acc = acc + v
        first = np.asarray(v) if first is None else first + v
        best = min(best, v)
        pair = pair[1] + v, np.asarray(pair[0])
    return acc, first, best, pair, acc**0.5, acc + 1, isinstance(acc, np.ndarray), sum(x), sum(x, np.zeros(()))


@model
def in_lists(x: np.ndarray):
    mixed, arrays = [np.zeros(())], [np.zeros(()) for v in x]
    for v in x:
        mixed.append(v)  # noqa: PERF402
    arrays.append(np.ones(()))
    stacked = np.stack(mixed), np.array(mixed), np.stack(arrays), np.array(arrays, np.float32)
    return mixed, mixed[0], mixed[-1], sorted(mixed), sum(mixed), max(mixed), arrays, sum(arrays), stacked


def from_the_front(x, k, acc):
    return acc if k >= len(x) else from_the_front(x, k + 1, acc + x[k])


def from_the_end(x, k):
    return np.ones(()) if k >= len(x) else from_the_end(x, k + 1) * x[k]


def always_an_array(x, k):
    return np.ones(()) if k >= len(x) else np.asarray(always_an_array(x, k + 1) * x[k])


@model
def through_recursion(x: np.ndarray):
    return from_the_front(x, 0, np.zeros(())), from_the_end(x, 0), always_an_array(x, 0)


@model
def in_place(x: np.ndarray):
    acc = np.zeros(())
    whole = np.array(3)
    before = acc + 1
    for v in x:
        acc += v
    whole += 2
    scalar = x.sum()
    scalar += 1
    return acc, before, whole, whole + 1, scalar


PLACES = [in_structures, across_a_branch, across_a_loop, in_lists, through_recursion, in_place]


@pytest.mark.parametrize("f", one_in(2, PLACES), ids=lambda f: f.__name__)
def test_types_are_kept_wherever_values_go(f: Any) -> None:
    xs = [np.array([1.0, 2.0, 3.0]), np.array([]), np.array([4.0])]
    plain = [f(x) for x in xs]
    assert equal(list(f.batch(xs)), plain)
    assert equal(list(f._interpret(xs)), plain)
    assert f.check(xs).ok


# ---- data and shared values


@model
def itself(x):
    return x, isinstance(x, np.ndarray)


@model
def fields(x):
    return x.a, x.s, x, x.a + x.s


@model
def items(x):
    return x, list(x), [v + 1 for v in x]


A: Callable[..., Any] = np.array
S = np.float64


@pytest.mark.parametrize(
    ("f", "column"),
    [
        (itself, [A(1.0), A(2.0)]),
        (itself, [S(1.0), A(2.0)]),
        (itself, [A(1.0), np.int8(2), None, A([1.0]), 3, S(2.0), A(2.0, np.float32)]),
        (items, [[A(1.0), S(2.0)], [S(3.0)], []]),
        (items, [(A(1.0), S(2.0)), (S(3.0), S(1.0))]),
        (fields, [Box(A(1.0), S(2.0)), Box(A(3.0), S(4.0))]),
        (fields, [Box(A(1.0), S(2.0)), Box(S(3.0), A(4.0))]),
    ],
)
def test_data_keep_their_types(f: Any, column: list[Any]) -> None:
    plain = [f(x) for x in column]
    packed = pack(column)
    for data in (column, packed, pickle.loads(pickle.dumps(packed))):
        assert equal(list(f.batch(data)), plain)
    assert equal(list(f._interpret(column)), plain)


def last(x, k, p):
    return p if k >= len(x) else last(x, k + 1, p)


@model
def with_shared(x: np.ndarray, *, p, q):
    return (
        p,
        p + 1,
        np.sum(x) + p,
        isinstance(p, np.ndarray),
        p.T,
        last(x, 0, p),
        q,
        q[0],
        q[len(x) % 2],
        list(q),
    )


@model
def of_a_box(x: np.ndarray, *, p):
    return p, p.a, p.s, p.a + len(x)


def test_shared_values_keep_their_types() -> None:
    xs = [np.ones(2), np.zeros(3)]
    for p in (A(2.0), S(2.0), A(3.0)):
        plain = [with_shared(x, p=p, q=[p, S(3.0)]) for x in xs]
        assert equal(list(with_shared.batch(xs, p=p, q=[p, S(3.0)])), plain)
        boxed = Box(p, S(3.0))
        assert equal(list(of_a_box.batch(xs, p=pack(boxed))), [of_a_box(x, p=boxed) for x in xs])


# ---- results


@model
def mixed(x: np.ndarray):
    return np.zeros(()) if len(x) > 1 else np.float64(1.0), np.array(len(x))


def test_stacking() -> None:
    xs = [np.ones(2), np.ones(1), np.ones(3)]
    values, lengths = mixed.batch(xs).stack()
    assert equal((values, lengths), (A([0.0, 1.0, 0.0]), A([2, 1, 3])))
    result = mixed.batch(xs)[0][0]
    assert type(result) is np.ndarray and not result.flags.writeable
    with pytest.raises(ShapeMismatch):
        itself.batch([A(1.0), A([1.0])]).stack()


# ---- what is rejected


@model
def in_place_of_either(x: np.ndarray):
    acc = np.zeros(())
    for v in x:
        acc = acc + v
    acc += 1
    return acc


@model
def in_place_of_a_broadcast(x: np.ndarray):
    a = np.broadcast_to(x[0], ())
    a += 1
    return a


@model
def type_of_either(x: np.ndarray):
    return type(np.array(1.0) if len(x) > 1 else np.float64(1.0)) is np.ndarray


@model
def rounded(x: np.ndarray):
    return round(np.array(2.5))


@pytest.mark.parametrize(
    ("f", "code"),
    [
        (in_place_of_either, "ACR112"),
        (in_place_of_a_broadcast, "ACR112"),
        (type_of_either, "ACR308"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_what_would_differ_is_rejected(f: Any, code: str) -> None:
    with pytest.raises(AcronumbaError) as rejected:
        f.batch([np.ones(2)])
    assert rejected.value.code == code


def failure(f: Any, xs: Sequence[Any]) -> type[BaseException]:
    with pytest.raises(InstanceErrors) as failed:
        f.batch(xs)
    return type(failed.value.errors[0])


def test_an_array_is_not_rounded() -> None:
    assert failure(rounded, [np.ones(2)]) is TypeError


@model
def folded(xs: list[np.ndarray]):
    acc = np.zeros(())
    for x in xs:
        acc = acc + np.sum(np.tanh(x))
    return np.exp(acc)


@model
def folded_scalars(xs: list[np.ndarray]):
    acc = np.float64(0)
    for x in xs:
        acc = acc + np.sum(np.tanh(x))
    return np.exp(acc)


def test_a_value_that_may_be_either_costs_no_node() -> None:
    data = [[np.full(4, 0.1 * k) for k in range(n)] for n in (3, 0, 2)]
    mine, theirs = folded.trace(data), folded_scalars.trace(data)
    assert (mine.nodes, len(mine.batches)) == (theirs.nodes, len(theirs.batches))


NAMES = """
def helper(c, a):
    return (a, 1) if c else (a + 1, 2)

@model
def after_a_merge(x):
    a = ZERO
    if x[0] > 1:
        a = a + 1
    b = a
    a += 1
    return a, b

@model
def in_a_loop(x):
    a = ZERO
    b = a + 0
    for v in x:
        if v > 1:
            b = a
        a += v
    return a, b

@model
def of_two(x):
    a, b = ZERO, ZERO + 1
    for v in x:
        a, b = b, a
        a += v
    return a, b

@model
def in_a_tuple(x):
    a = ZERO
    t = (a, 1) if x[0] > 1 else (a + 1, 2)
    a += 1
    return a, t

@model
def from_a_helper(x):
    a = ZERO
    t = helper(x[0] > 1, a)
    a += 1
    return a, t

@model
def in_a_default(x):
    a = ZERO
    g = lambda v=a: v
    a += 1
    return a, g()

@model
def in_a_method(x):
    a = ZERO
    g = a.sum
    a += 1
    return a, g()

@model
def in_a_list(x):
    a = ZERO
    xs = [a, a + 1]
    xs[0] += 1
    return a, xs[0]

@model
def under_one_name(x):
    a = ZERO
    for v in x:
        for u in x:
            if u > v:
                a += v
    return a
"""


@pytest.mark.parametrize("zero", ["np.zeros(())", "np.zeros(1)"])
def test_a_write_in_place_is_seen_under_all_names_or_rejected(zero: str, tmp_path: Path) -> None:
    module = load(tmp_path, f"names_{'one' if '1' in zero else 'none'}", NAMES.replace("ZERO", zero))
    xs = [np.array([2.0, 1.0, 3.0]), np.array([0.5, 2.0])]
    rejected = {}
    for name, f in vars(module).items():
        if hasattr(f, "batch"):
            try:
                results = list(f._interpret(xs))
            except AcronumbaError as error:
                rejected[name] = error.code
            else:
                assert equal(results, [f(x) for x in xs]), name
    assert set(rejected.values()) <= {"ACR112"} and "under_one_name" not in rejected
