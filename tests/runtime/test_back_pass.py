"""One compiled call of the backward pass does, to the bit, what its stages do that run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import leaves, model, pack, value_and_grad
from acronumba.memory import Array
from acronumba.runtime import backward, workspace

SIZE = 6


class Params:
    """Arrays that a loss reads in all ways that sums over nodes have."""

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        def array(*shape: int) -> Array:
            return (0.4 * rng.standard_normal(shape)).astype(dtype)

        self.table, self.w, self.u, self.b = array(9, SIZE), array(SIZE, SIZE), array(SIZE, 2 * SIZE), array(SIZE)
        self.gate, self.out, self.rare, self.nothing = array(SIZE), array(SIZE), array(SIZE, SIZE), array(SIZE, 0)


@model
def loss(words: list[int], y: float, *, p: Params) -> Any:
    h = p.b  # of a sentence without words: the array itself is what the loss reads
    square = p.w.T @ p.w  # a value of shared arrays alone
    for i in words:
        x = p.table[i]
        h = np.tanh(p.u @ np.concatenate([h, x]) + square @ x + p.b)
        if i == 8:
            h = p.rare @ h * p.gate
    return (p.out @ h - y) ** 2 + np.sum(p.nothing) + np.sum(p.gate) * 0.1


def stage_by_stage(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    of = backward._BackwardRun.gradients
    with monkeypatch.context() as patch:
        patch.setattr(backward._BackwardRun, "gradients", lambda self, tables, timed: of(self, tables, True))
        return run()


def in_one(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    whole, used = backward._BackwardRun._whole, list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(backward._BackwardRun, "_whole", lambda self: used.append(1) or whole(self))
        found = run()
    assert used
    return found


def bits(found: Any) -> tuple[Any, ...]:
    return found.value, *((name, g.dtype, g.tobytes()) for name, g in leaves(found.grads))


@pytest.mark.parametrize("seed", range(4))
def test_mini_batches_of_all_sizes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    p, count = Params(rng, "float64" if seed == 3 else "float32"), 60
    words = [
        rng.integers(0, 9, rng.integers(0, 40) if k % 7 == 0 else rng.integers(0, 5)).tolist() for k in range(count)
    ]
    columns = pack(words), pack(rng.standard_normal(count).tolist())
    trained = value_and_grad(loss.with_options(threads=1 + seed % 2))
    if seed == 2:
        monkeypatch.setattr(workspace, "_KEPT", 40)  # most tables are dropped after each mini-batch
    for _ in range(12):
        some = rng.integers(0, count, rng.integers(1, 1 + rng.choice([3, 20, 200])))
        batch = [column[some] for column in columns]

        def run(batch: Any = batch) -> Any:
            return bits(trained.batch(*batch, p=p))

        ways = [in_one, stage_by_stage]
        rng.shuffle(ways)
        first, second, third = (way(run, monkeypatch) for way in (*ways, in_one))
        assert first == second == third


def test_joined_packs_are_dropped_with_the_first_of_them() -> None:
    xs, ys, others = pack([[1, 2], [3]]), pack([1.0, 2.0]), pack([5.0, 2.0])
    p, trained = Params(np.random.default_rng(0), "float32"), value_and_grad(loss)
    before = [bits(trained.batch(xs, y, p=p)) for y in (ys, others, ys)]
    assert before[0] == before[2] != before[1]
    del ys
    assert bits(trained.batch(xs, pack([1.0, 2.0]), p=p)) == before[0]
    assert bits(trained.batch(xs[::-1], pack([2.0, 1.0]), p=p))[0] == pytest.approx(float(before[0][0]))
    with pytest.raises(Exception, match="different lengths"):
        trained.batch(xs, pack([1.0]), p=p)
