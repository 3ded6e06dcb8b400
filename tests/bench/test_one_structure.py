"""Baselines that are compiled for one structure: what they compute is what the plain calls compute."""

from __future__ import annotations

import importlib.util
import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acronumba.bench import measure, speed
from acronumba.bench.agreement import agreement, in_float64, plain
from acronumba.bench.by_hand.by_numpy import NUMPY
from acronumba.bench.by_hand.program import Program
from acronumba.bench.instruments import Instruments
from acronumba.bench.view import ONE_STRUCTURE, speeds_view
from acronumba_bench import baselines
from acronumba_bench.baselines.one_structure import OF_ONE_STRUCTURE
from acronumba_bench.workloads import WORKLOADS


class ByNumPy:
    """Their operations in NumPy."""

    def array(self, a: Any) -> Any:
        return np.asarray(a)

    def weight(self, m: Any) -> Any:
        return m.T

    def take(self, table: Any, index: Any) -> Any:
        return table[np.asarray(index)]

    def affine(self, x: Any, w: Any, b: Any = None) -> Any:
        return x @ w if b is None else x @ w + b

    def product(self, a: Any, b: Any) -> Any:
        return a @ b

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def multiply(self, a: Any, b: Any) -> Any:
        return a * b

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def tanh(self, x: Any) -> Any:
        return np.tanh(x)

    def gelu(self, x: Any) -> Any:
        return NUMPY.gelu_(x.copy())

    def softmax(self, x: Any) -> Any:
        return NUMPY.softmax(x)

    def layer_norm(self, x: Any, scale: Any, shift: Any, width: int) -> Any:
        return NUMPY.layer_norm(x, scale, shift)

    def part(self, x: Any, start: int, stop: int, axis: int = 0) -> Any:
        return x[start:stop] if axis == 0 else x[:, start:stop]

    def concat(self, parts: Any, axis: int = 0) -> Any:
        return np.concatenate(parts, axis)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def spread(self, row: Any, count: int) -> Any:
        return np.broadcast_to(row, (count, len(row)))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("name", OF_ONE_STRUCTURE)
def test_a_structure_written_down_computes_the_plain_calls(name: str, count: int) -> None:
    w = WORKLOADS[name]
    p, xs = w.params(8), w.instances(count)
    run, results = OF_ONE_STRUCTURE[name](ByNumPy(), p, xs)
    verdict, error = agreement(results(run()), plain(w.model, xs, p), plain(w.model, xs, in_float64(p)))
    assert verdict == "close", error


@pytest.mark.parametrize("label", ONE_STRUCTURE)
@pytest.mark.parametrize("name", OF_ONE_STRUCTURE)
def test_compilers_of_one_structure_agree(name: str, label: str) -> None:
    w = WORKLOADS[name]
    p, xs = w.params(8), w.instances(5)
    try:
        program = baselines.of_one_structure(name)[label](p, xs)
    except RuntimeError as error:
        pytest.skip(f"{error}: an optional competitor")
    verdict, error = agreement(
        program.results(program.run()), plain(w.model, xs, p), plain(w.model, xs, in_float64(p)), alone=False
    )
    assert verdict == "close", error


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert baselines.of_one_structure("mv_rnn") == {}
    for found, threads, reason in ((None, 1, "onnx and onnxruntime are not installed"), (1, 2, "on one thread only")):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, found=found: found)
        made, reasons = speed._made(baselines.of_one_structure("birnn", threads), None, [])
        assert not made and set(reasons) == set(ONE_STRUCTURE)
        assert reason in reasons[baselines.BY_ONNXRUNTIME]


def test_they_have_a_table_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(p: Any, xs: Any) -> Program:
        raise RuntimeError("jax is not installed")

    w = WORKLOADS["birnn"]
    instruments = Instruments(
        makers=lambda *of: {
            baselines.BY_JAX: never,
            baselines.BY_ONNXRUNTIME: lambda p, xs: baselines.BATCHED["birnn"](NUMPY, p, xs),
        },
        ceiling=lambda device: None,
    )
    monkeypatch.setattr(measure, "SHORT", 0.0)
    s = speed.measure([w], instruments, sizes=(8,), batches=(2,), rounds=1)
    file = io.StringIO()
    Console(file=file, width=80).print(speeds_view(s))
    assert "No JAX, one structure (jax is not installed): birnn" in file.getvalue()
    head, row = file.getvalue().partition("compiled for one structure ")[2].splitlines()[:2]
    assert head.split() == ["onnxruntime,", "one", "shape"] and float(row.split()[1]) > 0
