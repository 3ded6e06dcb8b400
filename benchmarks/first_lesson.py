"""The times of lesson 1: a batch against as many plain calls, for a small and for a large matrix.

    python benchmarks/first_lesson.py [--turns 40] [--json FILE]

Times are processor time of one thread, of the fastest of some turns. Plain calls take equally long: four tell about
all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402

from acronumba import model, pack  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402

SIZES, COUNTS, FEW, LONG = {"small": 64, "large": 2048}, (1, 8, 64, 512), 4, 2e-3


@model(threads=1)
def layer(x: np.ndarray, *, w: np.ndarray) -> Any:
    """Return a layer without a bias, float32[H]."""
    return np.tanh(w @ x)


def measure(name: str, count: int, turns: int) -> dict[str, Any]:
    """Return the seconds of plain calls and of a batch."""
    rng = np.random.default_rng(0)
    size = SIZES[name]
    w = (rng.standard_normal((size, size)) / size**0.5).astype(np.float32)
    xs = rng.standard_normal((count, size)).astype(np.float32)
    packed = pack(w)
    runs: dict[str, tuple[Callable[[], Any], float]] = {
        "plain": (lambda: [layer(x, w=w) for x in xs[:FEW]], count / len(xs[:FEW])),
        "batch": (lambda: layer.batch(xs, w=packed), 1.0),
    }
    times: dict[str, list[float]] = {key: [] for key in runs}
    for run, _ in runs.values():
        run()
    for _ in range(turns):
        for key, (run, factor) in runs.items():
            begin, calls = time.process_time(), 0
            while calls == 0 or time.process_time() - begin < LONG:
                run()
                calls += 1
            times[key].append((time.process_time() - begin) / calls * factor)
    row = {"matrix": name, "size": size, "n": count} | {key: min(of) for key, of in times.items()}
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="The times of lesson 1.")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(name, n, args.turns) for name in SIZES for n in COUNTS]
    if args.json:
        write_rows(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
