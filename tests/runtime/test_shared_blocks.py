"""Threads that share the stages of several blocks at once: the same bits, fewer jobs, parts that are complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import nn
from acronumba.api.model import Model, model
from acronumba.emit import interpret, tree
from acronumba.emit.parse import parse_files
from acronumba.runtime import engines, state
from acronumba.runtime.state import areas
from acronumba.strategy import Strategy
from tests.support.same_bits import bits

F32 = np.float32
WIDTH = 64


@model
def rows(x: np.ndarray, *, w: Any) -> Any:
    """Return each row by itself: nodes of several rows, whose blocks are all alike."""
    y = np.tanh(x @ w)
    return (y - y.mean(axis=-1, keepdims=True)) @ w + x


@model
def words(x: np.ndarray, *, w: Any) -> Any:
    """Return words that see each other: nodes take different times."""
    y = nn.softmax((x @ w) @ x.T) @ x
    return np.tanh(y @ w)


@model
def chain(x: np.ndarray, *, w: Any) -> Any:
    """Return a state after all words: a batch for each."""
    h = np.zeros(WIDTH, F32)
    for k in range(len(x)):
        h = np.tanh(w @ h + x[k])
    return h


MODELS: dict[str, Model[..., Any]] = {f.__name__: f for f in (rows, words, chain)}


def sentences(count: int, longest: int, seed: int = 0) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    r = np.random.default_rng(seed)
    lengths = r.integers(1, longest, count).tolist()
    xs = [r.standard_normal((n, WIDTH)).astype(F32) for n in lengths]
    return xs, {"w": (r.standard_normal((WIDTH, WIDTH)) / 8).astype(F32)}


def jobs(f: Any, xs: Any, p: Any) -> int:
    before = engines.threads_of_process().jobs
    f.batch(xs, **p)
    return engines.threads_of_process().jobs - before


@pytest.mark.usefixtures("every_thread_helps")
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    models = {n: MODELS[name].with_options(threads=n, strategy=Strategy(unit=100)) for n in (1, 2, 3, 8, 64)}
    for count, longest in ((0, 2), (1, 40), (3, 9), (40, 30)):
        xs, p = sentences(count, longest)
        want = bits(models[1].batch(xs, **p))
        assert [n for n, f in models.items() if bits(f.batch(xs, **p)) != want] == []


@model
def wide(x: np.ndarray, *, w: Any, v: Any) -> Any:
    """Return rows between whose products next to nothing is done."""
    y = np.tanh(x @ v)
    return (y - y[:, :1].max(axis=-1, keepdims=True)) @ v.T @ w


@pytest.mark.usefixtures("every_thread_helps")
def test_a_stage_that_is_too_little_to_be_shared() -> None:
    xs, p = sentences(40, 30)
    p["v"] = np.random.default_rng(1).standard_normal((WIDTH, 8 * WIDTH)).astype(F32) / 8
    want = bits(wide.with_options(threads=1).batch(xs, **p))
    for unit in range(5_000, 100_000, 10_000):  # of some, several blocks are shared, but not that stage
        f = wide.with_options(threads=64, strategy=Strategy(unit=unit))
        assert bits(f.batch(xs, **p)) == want, unit


@pytest.mark.usefixtures("every_thread_helps")
@pytest.mark.parametrize("name", ["rows", "words"])
def test_threads_share_several_blocks_in_one_job(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    xs, p = sentences(40, 30)
    f = MODELS[name].with_options(threads=16, strategy=Strategy(unit=100))
    assert areas(7) == 7 and areas(16) == 20
    several = jobs(f, xs, p)
    monkeypatch.setattr(state, "areas", lambda threads: threads)
    assert 0 < 2 * several < jobs(f, xs, p)


@model
def loss(x: np.ndarray, *, w: Any) -> Any:
    return np.sum(np.tanh(np.tanh(x @ w) @ w))


@pytest.mark.usefixtures("every_thread_helps")
def test_gradients_too() -> None:
    xs, p = sentences(20, 30)
    want = None
    for threads in (1, 2, 16):
        f = loss.with_options(threads=threads, strategy=Strategy(unit=100))
        value, found = f.value_and_grad.batch(xs, **p)
        mine = bits((value, found))
        want = want or mine
        assert mine == want, threads


# ---- parts of ranges that lie in blocks


@pytest.mark.parametrize("seed", range(10))
def test_a_range_is_run_block_by_block(seed: int) -> None:
    r = np.random.default_rng(seed)
    firsts = np.cumsum([0, *r.integers(0, 5, r.integers(1, 7))]).astype(np.int64)
    total, stride = int(firsts[-1]), 640
    cuts = np.sort(r.integers(0, total + 1, 4)).tolist()
    found: list[int] = []

    def noted(params: int, low: int, high: int, scratch: int) -> None:
        assert scratch == 7 and 0 <= low < high <= firsts[params // stride + 1] - firsts[params // stride]
        found.extend(int(firsts[params // stride]) + k for k in range(low, high))

    module = tree.Module("workers", parse_files(["acronumba.runtime.library.workers"]), ())
    memory = interpret.InterpreterMemory()
    memory.add(firsts)
    run = memory.add_function(noted)
    for low, high in zip([0, *cuts], [*cuts, total], strict=True):
        interpret.run(module, "run_part", (run, 0, low, high, 7, firsts.ctypes.data, stride), memory)
    assert found == [*range(total)]
