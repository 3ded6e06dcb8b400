"""What the schedules come to in small models whose branches differ: batches, and time relative to the default's.

    python benchmarks/schedules.py [--sizes 8 64] [--counts 8 64] [--turns 41] [--json FILE]

Each model is a loop that data directs: `arms`, a branch of one product or of another; `optional`, a branch that is
taken or not, before a step; `three`, a branch of one step, of two or of none, before a step. All schedules take turns
in one process, on one thread. Times are processor time; a ratio is the median over turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402

from acronumba import model, nn, pack  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "depth": {"schedule": "depth"},
    "agenda": {"schedule": "agenda"},
    "effort=0": {"effort": 0},
    "effort=3": {"effort": 3},
}


@model
def arms(steps: list[int], *, a: np.ndarray, b: np.ndarray) -> Any:
    """Return a state, float32[H]: each step is one product or the other."""
    h = a[0]
    for step in steps:
        h = np.tanh(a @ h) if step == 0 else np.maximum(b @ h, 0)
    return h


@model
def optional(steps: list[int], *, a: np.ndarray, b: np.ndarray) -> Any:
    """Return a state, float32[H]: some steps have a product before that of all steps."""
    h = a[0]
    for step in steps:
        if step == 0:
            h = np.tanh(a @ h)
        h = np.tanh(b @ h)
    return h


@model
def three(steps: list[int], *, a: np.ndarray, b: np.ndarray) -> Any:
    """Return a state, float32[H]: steps have one product, two or none before that of all steps."""
    h = a[0]
    for step in steps:
        if step == 0:
            h = np.tanh(a @ h)
        elif step == 1:
            h = nn.softmax(np.maximum(b @ np.tanh(a @ h), 0))
        h = np.tanh(b @ h) + h
    return h


MODELS = {"arms": (arms, 2), "optional": (optional, 2), "three": (three, 3)}


def inputs(name: str, size: int, count: int) -> tuple[list[list[int]], dict[str, np.ndarray]]:
    """Return instances and weights."""
    rng = np.random.default_rng(count)
    weights = {k: (rng.standard_normal((size, size)) / size**0.5).astype(np.float32) for k in "ab"}
    xs = [rng.integers(MODELS[name][1], size=length).tolist() for length in rng.integers(1, 20, size=count)]
    return xs, weights


def measure(name: str, size: int, count: int, turns: int) -> dict[str, Any]:
    """Return batches and ratios of time for each schedule, and the microseconds of a mini-batch with the default."""
    f, (xs, weights) = MODELS[name][0], inputs(name, size, count)
    shared, packed = {k: pack(w) for k, w in weights.items()}, pack(xs)
    models = {label: f.with_options(threads=1, **given) for label, given in OPTIONS.items()}
    traces = {label: g.trace(xs, **weights) for label, g in models.items()}
    calls = max(1, int(0.02 / traces["default"].seconds["total"]))
    times: dict[str, list[float]] = {label: [] for label in models}
    for turn in range(turns):
        for label in list(models)[:: 1 - 2 * (turn % 2)]:
            begin = time.process_time()
            for _ in range(calls):
                models[label].batch(packed, **shared)
            times[label].append((time.process_time() - begin) / calls)
    ratio = {k: statistics.median(x / y for x, y in zip(t, times["default"], strict=True)) for k, t in times.items()}
    row = {
        "model": name, "size": size, "instances": count, "nodes": traces["default"].nodes,
        "at least": traces["default"].lower_bound, "us": 1e6 * statistics.median(times["default"]),
        "batches": {label: len(trace.batches) for label, trace in traces.items()}, "times": ratio,
    }  # fmt: skip
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Batches and times of the schedules.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64], help="hidden sizes")
    parser.add_argument("--counts", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(name, h, n, args.turns) for name in MODELS for h in args.sizes for n in args.counts]
    if args.json:
        write_rows(args.json, rows, turns=args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
