"""Random models (see `generate`) against the plain call: by the interpreter of the plan, and as machine code."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from acronumba import model
from tests.support import generate, habits
from tests.support.chosen import one_in

SEEDS = st.integers(0, 2**32 - 1)
# A smaller seed is not a smaller model: nothing is gained by shrinking. `fuzz.py` shrinks models.
once = settings(phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


def agree(folder: Path, seed: int, size: int, compiled: bool, source: Any = generate) -> None:
    """Fail, with the model's source, if a random model is not what the plain call says."""
    case = source.generate(seed, size)
    found = generate.differences(case, folder, compiled=compiled)
    assert not found, "\n".join([f"seed {seed}, size {size}", case.source, *map(str, found)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


@pytest.mark.long
@settings(once, max_examples=40)
@given(seed=SEEDS, size=st.integers(2, 9))
def test_the_interpreted_plan_is_the_plain_call(folder: Path, seed: int, size: int) -> None:
    agree(folder, seed, size, compiled=False)


@settings(once, max_examples=25)
@given(seed=SEEDS, size=st.integers(2, 9))
def test_the_interpreted_plan_of_what_users_write_is_the_plain_call(folder: Path, seed: int, size: int) -> None:
    agree(folder, seed, size, compiled=False, source=habits)


@pytest.mark.parametrize("seed", one_in(4, one_in(8, range(30), mark="slow")))
def test_machine_code_of_what_users_write_is_the_plain_call(folder: Path, seed: int) -> None:
    agree(folder, seed, 1 + seed % 4, compiled=True, source=habits)


@pytest.mark.parametrize("seed", one_in(4, one_in(4, range(30), mark="slow")))
def test_machine_code_is_the_plain_call(folder: Path, seed: int) -> None:
    agree(folder, seed, 1 + seed % 4, compiled=True)


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, 1000, 20))
def test_machine_code_of_a_thousand_models(folder: Path, start: int) -> None:
    # Other models each time, where ACRONUMBA_SEED says so.
    offset = int(os.environ.get("ACRONUMBA_SEED", "0")) * 1000
    for seed in range(start, start + 20):
        agree(folder, 100 + offset + seed, 3 + seed % 9, compiled=True)


@pytest.mark.full
@settings(once, max_examples=2000)
@given(seed=SEEDS, size=st.integers(2, 16))
def test_many_interpreted_plans(folder: Path, seed: int, size: int) -> None:
    agree(folder, seed, size, compiled=False)


def test_a_seed_is_one_model() -> None:
    assert generate.generate(5).source == generate.generate(5).source
    assert generate.generate(5).source != generate.generate(6).source


# ---- what random models found, by hand


@dataclass
class Leaf:
    x: float


@dataclass
class Wrap:
    inner: Leaf | Wrap | Both


@dataclass
class Both:
    first: Leaf | Wrap | Both
    y: np.ndarray


@dataclass
class Tree:
    x: np.ndarray
    children: list[Tree]


class Pair(NamedTuple):
    h: np.ndarray
    k: int


VECTORS = [np.arange(n, dtype=np.float32) for n in (3, 1, 4)]
TREES = [Tree(VECTORS[0], []), Tree(VECTORS[0] + 1, [Tree(VECTORS[0], []), Tree(VECTORS[0] * 2, [])])]


def bound_in_a_loop(xs: list[Any]) -> Any:
    for x in xs:
        y = x * 2
    return y.sum() + y.shape[0]


def halves_of_children(t: Tree) -> Any:
    below = [halves_of_children(c) for c in t.children]
    total = t.x
    for h in below:
        total = total + h * 0.5
    return total


def highest_of_children(t: Tree) -> Any:
    below = [highest_of_children(c) for c in t.children]
    return np.max(np.stack(below), axis=0) + t.x if below else t.x


def list_of_lists(x: Any, n: int) -> Any:
    kept: list[list[Any]] = [[] for _ in range(3)]
    for i in range(n):
        kept[i % 3].append(x * i)
    return [len(q) for q in kept], kept, sum([q[-1] for q in kept if q], x)


def lists_that_stay_empty(x: Any, n: int) -> Any:
    kept: list[list[Any]] = [[] for _ in range(n)]
    return sum([q[-1] for q in kept if q], x)


def replaced(x: Any, n: int) -> Any:
    pair = Pair(x, n)._replace(k=n + 1)
    return dataclasses.replace(Both(Leaf(1.0), x), y=pair.h * pair.k).y


def wrapped(t: Leaf | Wrap | Both) -> Any:
    if isinstance(t, Leaf):
        return np.float32(t.x)
    if isinstance(t, Wrap):
        return wrapped(t.inner) * 2
    return wrapped(t.first) + t.y


def two_dtypes(x: Any, n: int) -> Any:
    y = x.astype(np.float64) if n > 1 else x
    return np.concatenate([y, x]), np.stack([y, y])


def always_fails(t: Tree) -> Any:
    for c in t.children:
        always_fails(c)
    return t.x * (1 // (len(t.children) * 0))


def named_again(n: int, up: list[Any]) -> int:
    if n > 3:
        other = up  # noqa: F841 (so that the list may have two names)
    return n


def best_of_a_list_that_stays_empty(n: int) -> Any:
    none: list[Any] = []
    named_again(n, none)
    below = max(none, key=lambda v: v[0], default=None)
    constant = max(range(0), default=n), min((k for k in range(3, 3)), default=None), min([], default=4)
    return min([5 for _ in none], default=7), max((v for v in none), default=2.5), below, constant


def best_by_a_key_that_fails(x: Any, n: int) -> Any:
    return min([x] * n, key=lambda v: n // 0, default=x)


def sorted_by_tuples_in_tuples(x: Any, n: int) -> Any:
    places = sorted(range(n), key=lambda k: ((k % 3, -k), x.sum()))
    places.sort(key=lambda k: (-(k % 2), ((k % 4,), k)), reverse=True)
    return places, min(range(n), key=lambda k: (0, (k % 3, -k)), default=-1), sorted([((k % 2, k), 1) for k in places])


def last_of(kept: list[Any], n: int) -> Any:
    if n <= 0:
        return kept[-1] * 2 + len(kept)
    return last_of(kept, n - 1) + kept[0]


def computed_and_kept_before_a_call(x: Any, n: int) -> Any:
    kept = [x]
    kept.append(np.tanh(x * 3) + x)  # the call must not be made before this is there
    below = last_of(kept, n)
    kept.append(below)
    return below, len(kept), last_of(kept, 1)


def keep_if_positive(kept: list[Any], x: Any, n: int) -> Any:
    if n <= 0:
        return x
    if x[-1] > 0:  # waits
        kept.append(x)
    return keep_if_positive(kept, x * 2 - 1, n - 1)


def keep_more(kept: list[Any], x: Any, n: int) -> Any:
    if n <= 0:
        return x
    return keep_more(kept, keep_if_positive(kept, x + 1, n), n - 1)


def how_many(kept: list[Any], x: Any, n: int) -> Any:
    if n <= 0:
        return len(kept)
    if x[-1] > 100:  # waits
        return -len(kept)
    return how_many(kept, x + 1, n - 1) * 10 + len(kept)


def changed_by_what_a_call_calls(x: Any, n: int) -> Any:
    kept = [x]
    y = keep_more(kept, x, n)
    before = how_many(kept, x, 3)
    z = keep_more(kept, x - 1, 2)
    return y, before, z, len(kept), how_many(kept, x, 2)


def triangle(n: int) -> int:
    return 0 if n <= 0 else n + triangle(n - 1)


def changed_between_calls(x: Any, n: int) -> Any:
    odd, even, y = 0, 1, x
    for k in range(n):
        below = triangle(k)
        if below % 2:
            odd, y = odd + below, y * 2
            if k > 4:
                even = odd - k
        else:
            even += 1
    first = triangle(n) + odd
    if first % 2:
        odd, even = odd + first, even + 5
    else:
        odd = even - 3
    second = triangle(odd % 6)  # what was saved for the call before it has changed
    return odd, even, y, first, second, triangle(even % 5) + odd + even


def nan_on_either_side(x: Any, y: Any) -> Any:
    larger, smaller = np.maximum(x, y), np.minimum(x, y)
    places = np.argmax(x, axis=1), np.argmin(y, axis=1), np.argmax(x), np.argmin(y)
    return (
        larger,
        smaller,
        places,
        np.max(x, axis=0),
        np.min(y, axis=1),
        x.max(),
        y.min(),
        np.clip(x, -1, 1),
        np.sign(x),
    )


STRANGE = [
    np.array([[1, np.nan, 0.5, -np.inf, 3, np.nan, -2], [np.nan, 2, np.inf, 1, 0, -0.0, 2]], np.float32),
    np.array([[1, 2, 0.5, -1, 3, 2, -2], [0, 2, 4, 1, 0, -0.0, np.nan]], np.float32),
    np.array([[np.nan, 2, 0.5], [0, np.nan, 4]], np.float32),
]


COLUMNS: dict[Any, list[Any]] = {
    nan_on_either_side: [STRANGE, [STRANGE[1], STRANGE[0], STRANGE[2][::-1].copy()]],
    changed_between_calls: [VECTORS, [0, 3, 9]],
    changed_by_what_a_call_calls: [VECTORS, [0, 2, 3]],
    computed_and_kept_before_a_call: [VECTORS, [0, 2, 7]],
    best_of_a_list_that_stays_empty: [[0, 2, 7]],
    best_by_a_key_that_fails: [VECTORS, [0, 2, 7]],
    sorted_by_tuples_in_tuples: [VECTORS, [0, 2, 7]],
    bound_in_a_loop: [[VECTORS[:1], VECTORS, []]],
    halves_of_children: [TREES],
    highest_of_children: [TREES],
    list_of_lists: [VECTORS, [0, 2, 7]],
    lists_that_stay_empty: [VECTORS, [0, 2, 7]],
    replaced: [VECTORS, [0, 2, 7]],
    wrapped: [[Leaf(1.0), Wrap(Leaf(2.0)), Wrap(Wrap(Leaf(3.0)))]],
    two_dtypes: [VECTORS, [0, 2, 7]],
    always_fails: [TREES],
}


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("fn", one_in(2, COLUMNS), ids=lambda fn: fn.__name__)
def test_what_random_models_found(fn: Any, compiled: bool) -> None:
    assert not generate.compare(model(fn), COLUMNS[fn], {}, compiled=compiled)


def test_a_class_that_the_first_mini_batch_lacks_is_compiled_later() -> None:
    m = model(wrapped)
    assert m.batch([Wrap(Leaf(2.0))]) == [np.float32(4.0)]
    assert m.batch([Wrap(Both(Leaf(2.0), VECTORS[0]))])[0].tolist() == [4.0, 6.0, 8.0]


def test_a_shared_array_of_rank_0() -> None:
    m = model(scaled)
    w = np.array(2.0, np.float32)
    assert m.batch(VECTORS, w=w)[0].tolist() == scaled(VECTORS[0], w=w).tolist()


def scaled(x: Any, *, w: Any) -> Any:
    return x * w
