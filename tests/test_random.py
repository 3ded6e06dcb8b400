"""`acronumba.random`: the generator against published vectors, statistics that a bad one fails, batch against plain.

All seeds are fixed, so that every test gives the same outcome in every run.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import acronumba
from acronumba import InstanceErrors, Unsupported, model, pack, random
from acronumba.random import Key
from tests.support.chosen import one_in

Generate = Callable[[np.ndarray, np.ndarray], np.ndarray]  # uint64 keys, uint64 counters (broadcast) -> uint64
U64 = np.uint64


def words(low: int, high: int) -> np.uint64:
    return U64(low | high << 32)


# ---- the generator

VECTORS = [  # counter, key, result: kat_vectors of Random123, "threefry2x32 20"
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@model
def generated(key: np.uint64, counter: np.uint64, counters: np.ndarray) -> Any:
    return random.threefry(key, counter), random.threefry(key, counters)


def test_known_answers() -> None:
    counters, keys, results = ([words(*v[k]) for v in VECTORS] for k in range(3))
    for how in ("plain", "batch"):
        columns = keys, counters, [np.full(9, c) for c in counters]
        got = list(map(generated, *columns)) if how == "plain" else generated.batch(*columns)
        for (one, several), expected in zip(got, results, strict=True):
            assert one == expected and type(one) is U64
            assert several.tolist() == [expected] * 9 and several.dtype == U64


def test_counters_and_keys_are_uint64() -> None:
    for wrong in (np.int64(3), np.arange(3), np.float32(1)):
        with pytest.raises(TypeError):
            random.threefry(wrong, U64(1))
        with pytest.raises(TypeError):
            random.threefry(U64(1), wrong)

    @model
    def signed(key: np.int64) -> Any:
        return random.threefry(key, U64(0))

    with pytest.raises(acronumba.TypeMismatch, match="threefry"):
        signed.batch([np.int64(1)])


def far(ones: np.ndarray, trials: int, bound: float = 5.5) -> bool:
    """Whether a count of fair coins is further from its mean than `bound` standard deviations, anywhere."""
    return bool(np.any(np.abs(ones - trials / 2) > bound * math.sqrt(trials) / 2))


def ones(x: np.ndarray) -> np.ndarray:
    """How often each of the 64 bits is set."""
    flat = x.ravel()
    return np.array([np.count_nonzero(flat & U64(1 << b)) for b in range(64)])


def chi_square_is_odd(counts: np.ndarray, expected: np.ndarray | float, bound: float = 5.0) -> bool:
    """Whether counts are too far from what is expected, or too near."""
    value = float(np.sum((counts - expected) ** 2 / expected))
    freedom = counts.size - 1
    return abs(value - freedom) > bound * math.sqrt(2 * freedom)


def differs_from(cdf: Callable[[np.ndarray], np.ndarray], xs: np.ndarray, bound: float = 2.2) -> bool:
    """Kolmogorov and Smirnov's test; chance exceeds the bound with a probability of about 1e-4."""
    ordered = cdf(np.sort(xs.ravel().astype(np.float64)))
    n = ordered.size
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1]))
    return bool(math.sqrt(n) * distance > bound)


def correlated(x: np.ndarray, y: np.ndarray, bound: float = 5.0) -> bool:
    x, y = x.ravel().astype(np.float64), y.ravel().astype(np.float64)
    return bool(abs(np.corrcoef(x, y)[0, 1]) * math.sqrt(x.size) > bound)


def as_unit(x: np.ndarray) -> np.ndarray:
    return (x >> U64(11)).astype(np.float64) * 2.0**-53


def failures(generate: Generate) -> set[str]:
    """Return which tests of neighbouring keys and counters a generator fails."""
    keys, counters = np.arange(300, dtype=U64)[:, None] + U64(1000), np.arange(300, dtype=U64)
    with np.errstate(over="ignore"):
        table = generate(keys, counters)
        out = set()
        if far(ones(table), table.size):
            out.add("bits are balanced")
        for shift in (0, 20, 32, 56):
            if chi_square_is_odd(
                np.bincount((table >> U64(shift) & U64(255)).ravel(), minlength=256), table.size / 256
            ):
                out.add("bytes are even")
        if differs_from(lambda x: x, as_unit(table)):
            out.add("fractions are even")
        neighbours = {
            "counters": (table[:, 1:], table[:, :-1]),
            "keys": (table[1:], table[:-1]),
            "diagonals": (table[1:, :-1], table[:-1, 1:]),
        }
        for name, (a, b) in neighbours.items():
            if correlated(as_unit(a), as_unit(b)) or far(ones(a ^ b), a.size):
                out.add(f"{name} are independent")
            pairs = (a >> U64(60)) << U64(4) | b >> U64(60)
            if chi_square_is_odd(np.bincount(pairs.ravel(), minlength=256), a.size / 256):
                out.add(f"{name} are independent")
        if np.unique(table).size != table.size:
            out.add("no repetition")
        for bit in range(0, 64, 3):  # one bit of the key or counter flips each bit of the result half of the time
            for flipped in (generate(keys ^ U64(1 << bit), counters), generate(keys, counters ^ U64(1 << bit))):
                if far(ones(flipped ^ table), table.size):
                    out.add("avalanche")
    return out


def test_the_generator_passes() -> None:
    assert failures(random.threefry) == set()


def test_keys_of_a_seed_and_children_pass() -> None:
    first = int(random.key(5, 0).bits)
    children = np.array([[random.key(s).child(n).bits for n in range(40)] for s in range(40)])
    assert first == int(random.keys(5, 1)[0].bits)
    assert np.unique(children).size == 1600
    assert not far(ones(children), 1600) and not far(ones(children[1:] ^ children[:-1]), 1560)
    assert not far(ones(children[:, 1:] ^ children[:, :-1]), 1560)
    assert not far(ones(children[1:, :-1] ^ children[:-1, 1:]), 1521)


M = U64(6364136223846793005)


def murmur(x: np.ndarray) -> np.ndarray:
    """A good mixing of 64 bits (SplitMix64)."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


BAD: dict[str, tuple[Generate, str]] = {
    "a congruence": (lambda k, c: (k + c) * M + U64(1442695040888963407), "bytes are even"),
    "Weyl": (lambda k, c: k * M + c * U64(0x9E3779B97F4A7C15), "avalanche"),
    "keys are offsets": (lambda k, c: murmur(k + c), "diagonals are independent"),
    "neighbouring keys are alike": (lambda k, c: murmur((k >> U64(1)) * M + c), "keys are independent"),
    "a constant bit": (lambda k, c: murmur(murmur(k) + c) | U64(4), "bits are balanced"),
    "small": (lambda k, c: murmur(murmur(k) + c) >> U64(1), "fractions are even"),
    "short": (lambda k, c: murmur((murmur(k) + c) & U64(0xFFFF)), "no repetition"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_generators_fail(name: str) -> None:
    generate, test = BAD[name]
    assert test in failures(generate)


# ---- distributions

N = 200_000
KEY = random.key(11)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.array([math.erf(v) for v in (x / math.sqrt(2)).tolist()]))


CDFS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": lambda x: np.clip(x, 0, 1),
    "normal": normal_cdf,
    "gumbel": lambda x: np.exp(-np.exp(-x)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CDFS)
def test_distributions(name: str, dtype: Any) -> None:
    x = getattr(random, name)(KEY.child(1), N, dtype)
    assert x.dtype == dtype and np.all(np.isfinite(x))
    assert not differs_from(CDFS[name], x)
    assert not correlated(x[1:], x[:-1]) and not correlated(x[1:] ** 2, x[:-1] ** 2)
    if name == "uniform":
        assert x.min() >= 0 and x.max() < 1
        assert np.all(x * 2.0 ** (24 if dtype == np.float32 else 53) % 1 == 0)
    if name == "normal":
        assert abs(np.mean(x)) < 5 / math.sqrt(N)
        assert abs(np.mean(x.astype(np.float64) ** 2) - 1) < 5 * math.sqrt(2 / N)
        assert abs(np.mean(x.astype(np.float64) ** 4) - 3) < 5 * math.sqrt(96 / N)


def test_the_test_of_distributions_finds_a_wrong_one() -> None:
    sums = np.sum(random.uniform(KEY, (N, 4)) - 0.5, axis=1) * np.float32(math.sqrt(3))
    assert differs_from(normal_cdf, sums), "the sum of four uniform numbers is not normal"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["uniform", "normal", "gumbel"])
def test_the_ends_of_the_distributions(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest and the largest word give finite numbers inside the documented bounds."""
    ends = np.array([0, 2**64 - 1, 2**63, 2**63 - 1], U64)
    monkeypatch.setattr(random, "_draw", lambda key, kind, shape: ends)
    x = getattr(random, name)(KEY, 4, dtype).astype(np.float64)
    low, high = {
        "uniform": (0, 1),
        "normal": (-5.42, 5.42) if dtype == np.float32 else (-8.21, 8.21),
        "gumbel": (-3.61, 36.75),
    }[name]
    assert np.all(np.isfinite(x)) and low <= x.min() and x.max() <= high
    assert x.max() < 1 if name == "uniform" else abs(x.max() - high) < 0.02
    if name == "normal":
        assert x[0] == -x[1] and x[2] == -x[3] != 0


def test_normal_quantiles_are_exact_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from statistics import NormalDist

    step = np.concatenate([np.arange(0, 2**24, 2**24 // 997), np.arange(20)]).astype(U64)
    expected = np.array([NormalDist().inv_cdf((2 * int(k) + 1) / 2**25) for k in step])
    monkeypatch.setattr(random, "_draw", lambda key, kind, shape: step << U64(40))
    assert np.allclose(random.normal(KEY, step.size), expected, rtol=2e-6, atol=0)
    monkeypatch.setattr(random, "_draw", lambda key, kind, shape: step << U64(40) | U64(1 << 39))
    wide = np.array([NormalDist().inv_cdf((2 * int(k) + 1 + 2.0**-28) / 2**25) for k in step])
    assert np.allclose(random.normal(KEY, step.size, np.float64), wide, rtol=1e-13, atol=0)


def biased(word: np.ndarray, n: int) -> np.ndarray:
    return (word >> U64(56)).astype(np.int64) % n


def test_integers() -> None:
    x = random.integers(KEY, -2, 5, N)
    assert x.dtype == np.int64 and x.min() == -2 and x.max() == 4
    assert not chi_square_is_odd(np.bincount(x + 2), N / 7)
    assert chi_square_is_odd(np.bincount(biased(random.bits(KEY, N), 100)), N / 100), "a biased one is found"
    assert not chi_square_is_odd(np.bincount(random.integers(KEY, 0, 100, N)), N / 100)
    wide = random.integers(KEY, 2**60, 2**60 + 2**32, N) - 2**60
    assert wide.min() >= 0 and wide.max() < 2**32 and not differs_from(lambda v: v / 2**32, wide)
    assert np.all(random.integers(KEY, 3, 4, 100) == 3)
    for low, high in ((0, 0), (3, 2), (0, 2**32 + 1)):
        with pytest.raises(ValueError, match="high - low"):
            random.integers(KEY, low, high)


@pytest.mark.parametrize("n", [1, 3, 2**32 - 1, 2**32, 641, 2**31 + 7])
def test_integers_are_the_high_half_of_a_product(n: int) -> None:
    raw = np.concatenate([random.bits(KEY, 500), np.array([0, 1, 2**64 - 1, 2**32, 2**32 - 1], U64)])
    assert random._below(raw, U64(n)).tolist() == [int(w) * n >> 64 for w in raw]


def test_bernoulli() -> None:
    for p in (0.5, 0.1, np.float32(0.9)):
        hits = random.bernoulli(KEY, p, N)
        assert hits.dtype == bool and abs(hits.mean() - float(p)) < 5 * math.sqrt(float(p) * (1 - float(p)) / N)
    assert not random.bernoulli(KEY, 0.0, 1000).any() and random.bernoulli(KEY, 1.0, 1000).all()
    assert not random.bernoulli(KEY, math.nan, 100).any()
    rates = np.linspace(0, 1, 11)
    many = random.bernoulli(KEY, rates, (N // 10, 11))
    assert np.all(np.abs(many.mean(axis=0) - rates) <= 5 * np.sqrt(rates * (1 - rates) / (N // 10)))
    assert random.bernoulli(KEY, rates).shape == (11,)
    for shape in ((), 3, (11, 3)):
        with pytest.raises(ValueError, match="broadcast"):
            random.bernoulli(KEY, rates, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_choice(dtype: Any) -> None:
    weights = np.array([3, 0, 1, 6, 2, 0], dtype)
    x = random.choice(KEY, weights, N // 4)
    counts = np.bincount(x, minlength=6)
    assert x.dtype == np.int64 and counts[[1, 5]].tolist() == [0, 0]
    inside = [0, 2, 3, 4]
    assert not chi_square_is_odd(counts[inside], weights[inside] / 12 * (N // 4))
    assert not chi_square_is_odd(np.bincount(random.choice(KEY, 6, N)), N / 6)
    for wrong in (0, -1, 2**32 + 1, np.ones((2, 2)), np.float32(1)):
        with pytest.raises(ValueError, match="choice"):
            random.choice(KEY, wrong)


def test_choice_among_very_many() -> None:
    """Clocks are fine enough that no index is favoured where thousands compete."""
    x = random.choice(KEY, np.ones(5000, np.float32), 400)
    assert not differs_from(lambda v: (v + 0.5) / 5000, x)
    assert np.unique(x).size > 350


KINDS: dict[str, Callable[[Key, int], np.ndarray]] = {
    "bits": lambda k, n: as_unit(random.bits(k, n)),
    "uniform": lambda k, n: random.uniform(k, n, np.float64),
    "normal": lambda k, n: random.normal(k, n, np.float64),
    "gumbel": lambda k, n: random.gumbel(k, n, np.float64),
    "integers": lambda k, n: random.integers(k, 0, 1 << 20, n),
    "bernoulli": lambda k, n: random.bernoulli(k, 0.5, n),
    "choice": lambda k, n: random.choice(k, 1 << 20, n),
    "weights": lambda k, n: random.choice(k, np.ones(2), n),
}


def test_kinds_of_draws_from_one_key_are_independent() -> None:
    draws = [draw(KEY, N // 8) for draw in KINDS.values()]
    for k, x in enumerate(draws):
        assert not any(correlated(x, y) for y in draws[:k])


@pytest.mark.parametrize("kind", KINDS)
def test_children_and_neighbouring_keys_are_independent(kind: str) -> None:
    n = N // 8
    related = [KEY, KEY.child(0), KEY.child(1), KEY.child(-1), KEY.child(0).child(0), KEY.child(0).child(1)]
    related += [random.key(seed, i) for seed, i in ((11, 1), (12, 0), (12, 1), (-11, 0), (11 + 2**32, 0))]
    assert len({k.bits for k in related}) == len(related)
    draws = [KINDS[kind](k, n) for k in related]
    for k, x in enumerate(draws):
        assert not any(correlated(x, y) for y in draws[:k])


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_draw_begins_with_a_shorter_one(kind: str) -> None:
    assert KINDS[kind](KEY, 40)[:7].tolist() == KINDS[kind](KEY, 7).tolist()


# ---- keys


def test_keys() -> None:
    assert random.keys(3, 5) == [random.key(3, i) for i in range(5)]
    assert random.key(3) == random.key(3, 0) != random.key(4)
    key = random.key(3)
    assert key.child(2) == key.child(np.int32(2)) == key.child(np.uint64(2)) != key.child(3)
    assert key.child(-1) == key.child(np.int8(-1))
    assert pickle.loads(pickle.dumps(key)) == key == copy.deepcopy(key)
    assert hash(pickle.loads(pickle.dumps(key))) == hash(key)
    with pytest.raises(AttributeError):
        key.bits = U64(1)  # type: ignore[misc]
    for wrong in (1.5, np.float32(2)):
        with pytest.raises(TypeError, match="integer"):
            key.child(wrong)
    with pytest.raises(ValueError, match="a single integer"):
        key.child(np.arange(3))
    with pytest.raises(OverflowError):
        random.key(2**63)
    assert random.keys(3, 0) == []


def test_wrong_dtypes_and_shapes() -> None:
    for draw in (random.uniform, random.normal, random.gumbel):
        with pytest.raises(TypeError, match=r"float32 or np\.float64"):
            draw(KEY, 3, np.int32)
        assert draw(KEY, 3, np.dtype(np.float64)).dtype == np.float64
        for shape in (-1, (2, -3)):
            with pytest.raises(ValueError, match="negative"):
                draw(KEY, shape)


def test_the_package_offers_it() -> None:
    assert acronumba.random is random and "random" in acronumba.__all__
    for name in random.__all__:
        assert getattr(random, name).__doc__


# ---- in models


@dataclass
class Task:
    key: Key
    keys: list[Key]
    weights: np.ndarray
    steps: int
    inner: Task | None = None
    names: dict[str, Key] = field(default_factory=dict)


@model
def everything(task: Task, at: np.int32) -> Any:
    """Every draw, of constant and run-time shapes, from keys in fields, lists and loops."""
    key, n = task.key, task.steps
    walk = np.zeros(3, np.float32)
    seen = []
    for i in range(n):
        step = key.child(i)
        walk = walk + random.normal(step, 3) * random.uniform(step)
        seen.append(random.integers(step, -i - 1, i + 1))
    total = np.float32(0)
    for other in task.keys:
        total = total + random.gumbel(other)
    if task.inner is not None:
        total = total + random.uniform(task.inner.key)
    rest = [random.bernoulli(key.child(k)) for k in range(n)]
    computed = random.bits(key.child(at)), random.bits(key.child(random.choice(key, 5))), key.child(at)
    shapes = random.bits(key), random.bits(key, n), random.bits(key, (2, n)), random.bits(key, (2, 3)), \
        random.uniform(key, (n, 2)), random.normal(key, (1, 1, 2)), random.gumbel(key, n)  # fmt: skip
    double = random.uniform(key, 2, np.float64), random.normal(key, 2, np.float64), random.gumbel(key, 2, np.float64)
    chosen = random.choice(key, task.weights), random.choice(key, task.weights, (2, n)), random.choice(key, n + 1, 2)
    truths = random.bernoulli(key, task.weights), random.bernoulli(key, task.weights, (n, task.weights.shape[0]))
    return walk, seen, total, rest, computed, shapes, double, chosen, truths, random.integers(key, 0, 2**32, 5)


def tasks(n: int) -> tuple[list[Task], list[np.int32]]:
    r = np.random.default_rng(8)
    made = []
    for i in range(n):
        key = random.key(21, i)
        weights = r.random(1 + i % 4).astype(np.float32)
        inner = Task(key.child(-9), [], weights, 0) if i % 3 else None
        made.append(Task(key, random.keys(i, i % 3), weights, i % 5, inner))
    return made, [np.int32(i * i - 3) for i in range(n)]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [x for v in value for x in leaves(v)]
    return [value.bits if isinstance(value, Key) else value]


def alike(a: Any, b: Any, exactly: bool) -> None:
    xs, ys = leaves(a), leaves(b)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y) and x.dtype == y.dtype and np.shape(x) == np.shape(y)
        if x.dtype.kind != "f" or exactly:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-5 if x.dtype == np.float32 else 1e-12, atol=0)


def test_batch_is_plain() -> None:
    made, at = tasks(12)
    for got, task, k in zip(everything.batch(made, at), made, at, strict=True):
        alike(got[1:], everything(task, k)[1:], exactly=False)
        np.testing.assert_allclose(got[0], everything(task, k)[0], rtol=1e-5, atol=1e-5)


def test_the_check_against_float64_holds_for_many_single_draws() -> None:
    @model
    def singles(key: Key) -> Any:
        return random.normal(key), random.gumbel(key), random.uniform(key), random.normal(key, dtype=np.float64)

    report = singles.check(random.keys(77, 400))
    assert report.ok, str(report)


def test_draws_do_not_depend_on_order_or_batch() -> None:
    made, at = tasks(12)
    whole = list(everything.batch(made, at))
    order = np.random.default_rng(1).permutation(12)
    for k, got in zip(order, everything.batch([made[k] for k in order], [at[k] for k in order]), strict=True):
        alike(got, whole[k], exactly=True)
    for cut in (1, 5):
        parts = [*everything.batch(made[:cut], at[:cut]), *everything.batch(made[cut:], at[cut:])]
        alike(parts, whole, exactly=True)
    alike(list(everything.batch(pack(made), at)), whole, exactly=True)
    twice = list(everything.batch([made[3]] * 3, [at[3]] * 3))
    alike(twice, [whole[3]] * 3, exactly=True)


OPTIONS: list[dict[str, Any]] = [
    {k: False} for k in ("reuse", "duplicate", "hoist", "phases", "blocks", "fuse", "horizontal",
                         "gather_fusion")
] + [{"schedule": "depth"}, {"schedule": "agenda"}, {"threads": 1}, {"threads": 3}]  # fmt: skip


@model
def some(key: Key, weights: np.ndarray, n: int) -> Any:
    x = np.zeros(3, np.float32)
    for i in range(n):
        step = key.child(i)
        x = np.tanh(x + random.normal(step, 3) * random.uniform(step))
    at = random.choice(key, weights)
    return x, at, random.bits(key.child(at), n), random.integers(key, -n, 1), random.bernoulli(key, weights)


@pytest.mark.parametrize("options", one_in(6, OPTIONS), ids=str)
def test_draws_do_not_depend_on_options(options: dict[str, Any]) -> None:
    made, _ = tasks(7)
    columns = [t.key for t in made], [t.weights for t in made], [t.steps for t in made]
    alike(list(some.with_options(**options).batch(*columns)), list(some.batch(*columns)), exactly=True)
    alike([some(*args)[1:] for args in zip(*columns, strict=True)], [g[1:] for g in some.batch(*columns)], exactly=True)


@model
def tree(key: Key, depth: int) -> Any:
    if depth == 0:
        return random.normal(key, 2)
    return tree(key.child(0), depth - 1) - tree(key.child(1), depth - 1)


def test_keys_go_down_a_recursion() -> None:
    keys, depths = random.keys(9, 6), [0, 1, 2, 3, 4, 2]
    for got, key, depth in zip(tree.batch(keys, depths), keys, depths, strict=True):
        np.testing.assert_allclose(got, tree(key, depth), rtol=1e-5, atol=1e-5)


def test_shared_keys_and_keys_made_in_a_model() -> None:
    @model
    def same(x: float, *, key: Key, seed: int) -> Any:
        return x + random.normal(key, 2), random.key(seed, 4), random.bits(KEY)

    got = list(same.batch([0.0, 0.0, 1.0], key=random.key(1), seed=6))
    alike(got, [same(x, key=random.key(1), seed=6) for x in (0.0, 0.0, 1.0)], exactly=False)
    assert np.array_equal(got[0][0], got[1][0]) and got[0][1] == random.key(6, 4)


def test_a_scalar_draw_is_fused_with_what_uses_it() -> None:
    @model
    def noisy(x: np.ndarray, key: Key) -> Any:
        return np.tanh(x + random.normal(key) * 0.1)

    trace = noisy.trace(np.ones((5, 8), np.float32), random.keys(0, 5))
    assert trace.nodes == 5 and len(trace.batches) == 1


def test_wrong_use_in_a_model() -> None:
    @model
    def numpys(x: float) -> Any:
        return x + np.random.normal()  # noqa: NPY002

    with pytest.raises(Unsupported, match="ACR211") as rejected:
        numpys.batch([1.0])
    assert "acronumba.random" in str(rejected.value)

    @model
    def no_key(seed: int) -> Any:
        return random.uniform(seed)  # type: ignore[arg-type]

    with pytest.raises(acronumba.AcronumbaError, match="bits"):
        no_key.batch([1])

    @model
    def half(key: Key) -> Any:
        return random.uniform(key, dtype=np.float16)

    @model
    def part(key: Key) -> Any:
        return random.uniform(key.child(0.5))

    @model
    def empty(key: Key, n: int) -> Any:
        return random.integers(key, 0, n)

    @model
    def less(key: Key, n: int) -> Any:
        return random.uniform(key, n - 1), random.uniform(key, (2, n - 1))

    for wrong, error in ((half, TypeError), (part, TypeError), (less, ValueError)):
        with pytest.raises(InstanceErrors) as failed:
            wrong.batch([KEY], *[[0]] * (wrong is less))
        assert type(failed.value.errors[0]) is error
    with pytest.raises(InstanceErrors) as failed:
        empty.batch([KEY, KEY, KEY], [1, 0, 2])
    assert list(failed.value.errors) == [1] and type(failed.value.errors[1]) is ValueError
    assert failed.value.results[0] == 0

    @model
    def changed(key: Key) -> Any:
        key.bits = np.uint64(0)  # type: ignore[misc]
        return random.uniform(key)

    with pytest.raises(acronumba.AcronumbaError):
        changed.batch([KEY])


def test_a_value_that_is_no_key_is_an_error_of_its_instance() -> None:
    @model
    def draw(key: Key) -> Any:
        return random.uniform(key, 2)

    with pytest.raises(InstanceErrors) as failed:
        draw.batch([KEY, Key(3), KEY])  # type: ignore[arg-type]
    assert list(failed.value.errors) == [1] and isinstance(failed.value.errors[1], acronumba.DataError)
    assert np.array_equal(failed.value.results[2], random.uniform(KEY, 2))
