"""What the small passes of the analysis are worth: the time of a mini-batch without each, relative to that with it.

    python benchmarks/small_passes.py [--sizes small large] [--counts 8 64] [--turns 31] [--json FILE]

A pass is left out by replacing it with one that returns its program. A model is a row only if the pass changes its
program. Both versions take turns in one process, on one thread. Times are CPU time; a ratio is the median over turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["ACRONUMBA_QUIET"] = "1"

from acronumba import pack  # noqa: E402
from acronumba.analysis import passes  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

# Functions of `analysis.passes`, and what takes the place of each.
LEFT_OUT: dict[str, Callable[..., Any]] = {
    "duplicate_loop_exits": lambda program, options: (program, ()),
    "drop_dead_results": lambda program: (program, ()),
    "embed_then_project": lambda program, options: program,
}


def versions(name: str, model: str, size: str) -> tuple[Any, Any] | None:
    """Return a model compiled with and without a pass; None if both have the same plan."""
    workload = WORKLOADS[model]
    xs, p = workload.instances(2), workload.params(size)
    with_pass = workload.model.with_options(threads=1)
    without = with_pass.with_options(max_steps=10**8 - 1 - list(LEFT_OUT).index(name))  # specialisations of its own
    plans = [with_pass.stages(xs, p=p)["plan"]]
    original = getattr(passes, name)
    setattr(passes, name, LEFT_OUT[name])
    plans.append(without.stages(xs, p=p)["plan"])
    setattr(passes, name, original)
    return (with_pass, without) if plans[0] != plans[1] else None


def measure(models: tuple[Any, Any], name: str, model: str, size: str, count: int, turns: int) -> dict[str, Any]:
    """Return nodes and batches with and without a pass, and how many times longer a mini-batch takes without it."""
    xs, p = pack(WORKLOADS[model].instances(count)), pack(WORKLOADS[model].params(size))
    traces = [f.trace(xs, p=p) for f in models]
    calls = max(1, int(0.02 / traces[0].seconds["total"]))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for k in (0, 1) if turn % 2 else (1, 0):
            begin = time.process_time()
            for _ in range(calls):
                models[k].batch(xs, p=p)
            times[k].append((time.process_time() - begin) / calls)
    row = {
        "pass": name, "model": model, "size": size, "instances": count,
        "nodes": [t.nodes for t in traces], "batches": [len(t.batches) for t in traces],
        "times": statistics.median(y / x for x, y in zip(*times, strict=True)),
    }  # fmt: skip
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="What the small passes of the analysis are worth.")
    parser.add_argument("--sizes", nargs="+", default=["small"])
    parser.add_argument("--counts", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name, model, size in product(LEFT_OUT, WORKLOADS, args.sizes):
        if (models := versions(name, model, size)) is not None:
            rows += [measure(models, name, model, size, count, args.turns) for count in args.counts]
    if args.json:
        write_rows(args.json, rows, turns=args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
