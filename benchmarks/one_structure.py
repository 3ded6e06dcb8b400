"""Ours against compilers that want the structure of a mini-batch fixed: JAX, and onnxruntime; one thread, CPU time.

    python benchmarks/one_structure.py [--models NAME ...] [--cells 32:4 ...] [--rounds N] [--json FILE]

A cell is H and the number of instances. Both are used where they are installed; their results are compared with those
of the plain calls first. `first` is with the first result read, `list` with all of them. Competitors take turns in one
process; a time is the median of the turns, a ratio that of the other's time to ours.
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
os.environ["ACRONUMBA_QUIET"] = "1"

import numpy as np  # noqa: E402

from acronumba import pack  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402
from acronumba.bench.workloads import ZOO, inputs  # noqa: E402
from acronumba_bench import baselines  # noqa: E402

CELLS = ("32:4", "64:8", "256:8", "256:64")
UNTIMED, TURN = 10, 0.03  # calls at the beginning of a turn; seconds of a turn, about
OURS = ("ours", "ours, first", "ours, list")


def turns(competitors: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of a call of each, in turns."""
    calls = {}
    for name, run in competitors.items():
        for _ in range(UNTIMED):
            run()
        begin = time.process_time()
        run()
        calls[name] = max(1, int(TURN / max(time.process_time() - begin, 1e-6)))
    taken: dict[str, list[float]] = {name: [] for name in competitors}
    for k in range(rounds):
        for name in sorted(competitors, reverse=bool(k % 2)):
            for _ in range(min(calls[name], UNTIMED)):
                competitors[name]()
            begin = time.process_time()
            for _ in range(calls[name]):
                competitors[name]()
            taken[name].append((time.process_time() - begin) / calls[name])
    return {name: statistics.median(times) for name, times in taken.items()}


def measure(name: str, size: int, count: int, rounds: int) -> dict[str, Any]:
    """Return a row: microseconds of each competitor."""
    workload = next(w for w in ZOO if w.name == name)
    xs, p = inputs(workload, size, count, None)
    ours = workload.model.with_options(threads=1)
    packed, shared = pack(xs), pack(p)
    competitors: dict[str, Callable[[], Any]] = dict(
        zip(
            OURS,
            (
                lambda: ours.batch(packed, p=shared),
                lambda: ours.batch(packed, p=shared)[0],
                lambda: list(ours.batch(packed, p=shared)),
            ),
            strict=True,
        )
    )
    expected = [workload.model(x, p=p) for x in xs]
    for label, make in baselines.of_one_structure(name).items():
        program = make(p, xs)
        for got, want in zip(program.results(program.run()), expected, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-3, atol=2e-5)
        competitors[label] = program.run
    found = turns(competitors, rounds)
    row = {"model": name, "H": size, "instances": count}
    row |= {label: round(1e6 * seconds, 1) for label, seconds in found.items()}
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["tree_lstm", "birnn", "listops", "encoder"])
    parser.add_argument("--cells", nargs="+", default=CELLS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    for reason in baselines.missing():
        print(f"left out: {reason}", flush=True)
    cells = [tuple(map(int, cell.split(":"))) for cell in args.cells]
    rows = [measure(name, size, count, args.rounds) for name in args.models for size, count in cells]
    if args.json:
        write_rows(args.json, rows, rounds=args.rounds, versions=baselines.versions())
    return 0


if __name__ == "__main__":
    sys.exit(main())
