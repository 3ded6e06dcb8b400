"""The fixed cost of a training step: goals, and what was measured.

    python benchmarks/steps.py [--turns 31] [--json FILE]

Calls are the Python functions that are called in a step (loss, gradients, gradient descent) from packed data, after
three steps. Times are CPU time of one thread, medians over turns in which all competitors run; a ratio is the median
of the ratios of the turns. Losses and gradients are compared with those of NumPy by hand first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
if hasattr(os, "sched_setaffinity"):  # our updates have no setting for their threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
os.environ["ACRONUMBA_QUIET"] = "1"

import numpy as np  # noqa: E402

from acronumba import leaves, optim, pack  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402
from acronumba.bench.workloads import inputs  # noqa: E402
from acronumba_bench.baselines import training_numpy  # noqa: E402
from acronumba_bench.lessons import LESSONS  # noqa: E402

RATE = 1e-6  # so small that the weights hardly change
CASES = ((32, 4), (64, 8), (256, 8))  # sizes of states, and instances
GOALS = {  # from the name of a figure, model, size: the goal
    **{("calls", model, 32): 300.0 for model in ("tree_lstm", "birnn")},
    **{("milliseconds", model, 32): 0.3 for model in ("tree_lstm", "birnn")},
    **{("NumPy by hand", model, 64): 1.0 for model in ("tree_lstm", "birnn")},
    ("NumPy by hand", "birnn", 256): 1.1,
}


def calls(run: Callable[[], object]) -> int:
    """Return how many functions of Python a call calls."""
    count = 0

    def see(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    for _ in range(3):
        run()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def taken(run: Callable[[], object], times: int) -> float:
    """Return the milliseconds of CPU time of a call."""
    begin = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begin) / times * 1e3


def row(model: str, size: int, count: int, turns: int) -> dict[str, Any]:
    """Measure a step of a model."""
    lesson = next(lesson for lesson in LESSONS.values() if lesson.name == model)
    xs, p = inputs(lesson.workload, size, count, None)
    columns = lesson.columns(xs)
    trained, packed = lesson.loss.with_options(threads=1).value_and_grad, tuple(pack(c) for c in columns)
    by_hand, opt = training_numpy.TRAINED[model](p, columns, RATE), optim.SGD(RATE)
    (value, grads), (other, others) = trained.batch(*packed, p=p), by_hand.gradients()
    assert abs(value - other) < 1e-4 * abs(other), (value, other)
    for name, g in leaves(grads):
        assert np.allclose(g, others[name], rtol=1e-3, atol=1e-4 * np.abs(g).max()), name

    def step() -> None:
        _, grads = trained.batch(*packed, p=p)
        opt.update(p, grads)

    found = calls(step)
    times = max(1, int(10 / taken(step, 5)))
    pairs = []
    for turn in range(turns):
        pair = {k: taken((step, by_hand.run)[k], times) for k in ((0, 1) if turn % 2 else (1, 0))}
        pairs.append((pair[0], pair[1]))
    figures = {
        "calls": found, "milliseconds": statistics.median(mine for mine, _ in pairs),
        "NumPy by hand": statistics.median(theirs / mine for mine, theirs in pairs),
    }  # fmt: skip
    goals = {name: goal for (name, of, h), goal in GOALS.items() if (of, h) == (model, size)}
    made = {"model": model, "size": size, "instances": count, **figures, "goals": goals}
    print(f"{model:10} H={size:<4} {count} instances", *(
        f"{name} {x:.2f}" + (f" (goal {goals[name]})" if name in goals else "") for name, x in figures.items()
    ), flush=True)  # fmt: skip
    return made


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="The fixed cost of a training step.")
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [row(model, *case, args.turns) for case in CASES for model in ("tree_lstm", "birnn")]
    if args.json:
        write_rows(args.json, rows, turns=args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
