"""The tail of a product is cut where a function waits for a function: into few loops, with the bits of one loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.kernels.stages import passes
from acronumba.kernels.stages.steps import Step
from acronumba.zoo import mv_rnn
from tests.support.chosen import one_in, squares


def lstm(x: Any, h: Any, c: Any, *, w: Any, b: Any) -> Any:
    i, f, o, u = np.split(w @ np.concatenate([x, h]) + b, 4)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(u)
    return nn.sigmoid(o) * np.tanh(c), c


def gru(x: Any, h: Any, *, w: Any, u: Any) -> Any:
    z, r, n = np.split(w @ x, 3)
    uz, ur, un = np.split(u @ h, 3)
    z = nn.sigmoid(z + uz)
    return (1 - z) * np.tanh(n + nn.sigmoid(r + ur) * un) + z * h


def deep(x: Any, *, w: Any) -> Any:
    y = np.tanh(w @ x)
    return np.exp(np.tanh(np.exp(y) - y) * y), y


def rows(x: Any, *, w: Any, b: Any) -> Any:
    """Two rows of a node, whose functions come before the columns are taken apart."""
    a, c = np.split(nn.sigmoid(x @ w + b), 2, axis=1)
    return np.tanh(a * 3) * c


def of_one_column(x: Any, *, w: Any) -> Any:
    return np.tanh(nn.sigmoid(w @ x))


def normal(*shape: int, dtype: str) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 2).astype(dtype)


def instances(count: int, *shapes: tuple[int, ...], dtype: str) -> list[tuple[Any, ...]]:
    r = np.random.default_rng(3)
    return [tuple(r.standard_normal(s).astype(dtype) for s in shapes) for _ in range(count)]


def operands(name: str, n: int, dtype: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """Columns of instances, and shared weights."""
    k = 9
    match name:
        case "lstm":
            shared = {"w": normal(4 * n, k + n, dtype=dtype), "b": normal(4 * n, dtype=dtype)}
            return instances(70, (k,), (n,), (n,), dtype=dtype), shared
        case "gru":
            shared = {"w": normal(3 * n, k, dtype=dtype), "u": normal(3 * n, n, dtype=dtype)}
            return instances(70, (k,), (n,), dtype=dtype), shared
        case "rows":
            shared = {"w": normal(k, 2 * n, dtype=dtype), "b": normal(2 * n, dtype=dtype)}
            return instances(30, (2, k), dtype=dtype), shared
        case "of_one_column":
            return instances(70, (k,), dtype=dtype), {"w": normal(1, k, dtype=dtype)}
    return instances(70, (k,), dtype=dtype), {"w": normal(n, k, dtype=dtype)}


STEPS = {"lstm": 2, "gru": 2, "deep": 4, "rows": 2, "of_one_column": 1}
FUNCTIONS = {f.__name__: f for f in (lstm, gru, deep, rows, of_one_column)}


@pytest.mark.parametrize(("name", "n", "dtype"), one_in(2, squares(STEPS, [16, 37], ["float32", "float64"])))
def test_steps_have_the_bits_of_one_loop(name: str, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = FUNCTIONS[name]
    columns, shared = operands(name, n, dtype)
    found: list[list[Step]] = []

    def noted(*args: Any) -> list[Step]:
        found.append(cut(*args))
        return found[-1]

    cut = passes.steps_of
    monkeypatch.setattr(passes, "steps_of", noted)
    got = run(f, columns, shared)
    assert max(len(steps) for steps in found) == STEPS[name]
    monkeypatch.setattr(passes, "steps_of", lambda tail, *_: [Step(done=list(tail))])
    expected = run(f, columns, shared)
    for mine, other in zip(got, expected, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
    for mine, instance in zip(got, columns, strict=True):
        plain = f(*instance, **shared)
        for a, b in zip(mine, plain if isinstance(plain, tuple) else (plain,), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-5)


@model
def cell(x: Any, h: Any, c: Any, *, w: Any) -> Any:
    """Of what the tail reads, `c` has a known extent; `h` may have one element, for all columns."""
    y = nn.sigmoid(w @ x) * np.reshape(c, (w.shape[0],))
    return y, np.tanh(y) + h


def test_what_a_tail_reads_and_stores_is_fetched_before() -> None:
    rng = np.random.default_rng(0)
    columns = [[rng.standard_normal(n).astype(np.float32) for _ in range(5)] for n in (9, 48, 48)]
    stages = cell.stages(*columns, w=normal(48, 9, dtype="float32"))
    (kernel,) = (name for name in stages if name.startswith("kernels/") and name.endswith("/cpu"))
    _, *loops = stages[kernel].split("fetched while the tile computes")
    (fetched,) = (text.split("call_address", 1)[0] for text in loops)
    assert {*re.findall(r"prefetch\((c|result_\d)", fetched)} == {"c", "result_0", "result_1"}


def test_matrices_of_the_next_node_are_fetched_while_tiles_compute() -> None:
    stages = mv_rnn.sentiment.stages(mv_rnn.instances(3), p=mv_rnn.params(32))
    (text,) = (stages[name] for name in stages if re.search("compose_41/cpu$", name))
    before, after = text.split("fetched while the tiles compute")
    assert "prefetch" not in before
    fetched, _ = after.split("call_address", 1)
    assert {*re.findall(r"prefetch_far\((ml|mr|result)", fetched)} == {"ml", "mr", "result"}


def run(f: Callable[..., Any], columns: list[tuple[Any, ...]], shared: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Compile and run; each call compiles anew."""
    results = model(f).batch(*zip(*columns, strict=True), **shared)
    return [r if isinstance(r, tuple) else (r,) for r in results]


@model
def broadcast(x: Any, b: Any, *, w: Any) -> Any:
    return nn.sigmoid(w @ x + np.tanh(b))


@model
def taken(x: Any, t: Any, i: int, *, w: Any) -> Any:
    return nn.sigmoid(w @ x + np.tanh(t[i]))


@model
def part(x: Any, t: Any, s: int, *, w: Any) -> Any:
    return nn.sigmoid(w @ x + np.tanh(t)[s : s + 16])


@pytest.mark.parametrize("n", [1, 16])
def test_functions_of_what_is_only_known_at_run_time(n: int) -> None:
    """Which element they are of is known to the code of one loop only: nothing is kept for the next."""
    w = normal(16, 9, dtype="float32")
    xs = [x for (x,) in instances(5, (9,), dtype="float32")]
    assert broadcast.check(xs, [b for (b,) in instances(5, (n,), dtype="float32")], w=w).ok
    tables = [t for (t,) in instances(5, (4, 16), dtype="float32")]
    assert taken.check(xs, tables, [0, 3, 1, -1, 2], w=w).ok
    assert part.check(xs, [t for (t,) in instances(5, (20,), dtype="float32")], [0, 4, 1, 2, 3], w=w).ok
