"""What the schedules come to in small models whose branches differ: batches, and time relative to the default's.

    python benchmarks/schedules.py [--sizes 8 64] [--counts 8 64] [--turns 41] [--json FILE]

Each model is a loop that data directs: `arms`, a branch of one product or of another; `optional`, a branch that is
taken or not, before a step; `three`, a branch of one step, of two or of none, before a step. All schedules take turns
in one process, on one thread. Times are processor time; a ratio is the median over turns.

Then the fewest batches of small mini-batches of ListOps expressions are found by exact search (`fewest`), beside those
of the schedules and the bound: whether a gap between the two is the schedule's or the bound's.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
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
from acronumba.zoo import listops  # noqa: E402

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


def fewest(kind: list[int], operands: list[list[int]], limit: int) -> int | None:
    """Return the fewest batches of a graph, by A* over the sets of nodes that have run; None after `limit` sets.

    It suffices to run all ready nodes of a kind. What is left takes at least, for each kind, as many batches as the
    longest chain of it among the nodes that are left.
    """
    nodes, kinds = range(len(kind)), range(max(kind) + 1)
    needs = [sum({1 << u for u in of}) for of in operands]
    chains = [[int(k == kind[v]) for k in kinds] for v in nodes]
    for v in reversed(nodes):
        for u in operands[v]:
            chains[u] = [max(a, b + (k == kind[u])) for k, (a, b) in enumerate(zip(chains[u], chains[v], strict=True))]
    longest = [sorted(((chains[v][k], 1 << v) for v in nodes), reverse=True) for k in kinds]
    mine = [[(1 << v, needs[v]) for v in nodes if kind[v] == k] for k in kinds]

    def left(done: int) -> int:
        return sum(next((n for n, bit in of if not done & bit), 0) for of in longest)

    queue, best = [(left(0), 0, 0)], {0: 0}
    while queue and len(best) < limit:
        _, steps, done = heapq.heappop(queue)
        if done == (1 << len(kind)) - 1:
            return -steps
        for of in mine if best[done] == -steps else ():
            after = done | sum(bit for bit, need in of if not done & bit and not need & ~done)
            if after != done and 1 - steps < best.get(after, len(kind) + 1):
                best[after] = 1 - steps
                heapq.heappush(queue, (1 - steps + left(after), steps - 1, after))
    return None


def exact(trees: int, count: int, limit: int = 200_000) -> dict[str, int]:
    """Return in how many of `count` mini-batches of ListOps expressions the fewest batches are reached, and by what."""
    p, out = listops.params(16), dict.fromkeys(("trees", "solved", "bound", *OPTIONS, "fewest", "at least"), 0)
    for seed in range(count):
        xs = listops.instances(trees, seed)
        seen: dict[str, list[int]] = {}

        def see(graph: Any, seen: dict[str, list[int]] = seen) -> Any:
            seen |= {k: graph[k].tolist() for k in ("signature", "operand", "operand_start")}
            return np.unique(np.stack([graph["depth"], graph["signature"]], 1), axis=0, return_inverse=True)[1].ravel()

        bound = listops.classify.with_options(schedule=see).trace(xs, p=p).lower_bound
        first = seen["operand_start"]
        operands = [[u for u in seen["operand"][a:b] if u >= 0] for a, b in itertools.pairwise(first)]
        kinds = sorted(set(seen["signature"]))
        least = fewest([kinds.index(k) for k in seen["signature"]], operands, limit)
        if least is None:
            continue
        out["solved"] += 1
        out["fewest"] += least
        out["at least"] += bound
        out["bound"] += bound == least
        for label, given in OPTIONS.items():
            out[label] += len(listops.classify.with_options(**given).trace(xs, p=p).batches) == least
    row = {**out, "trees": trees, "graphs": count}
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Batches and times of the schedules.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64], help="hidden sizes")
    parser.add_argument("--counts", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--graphs", type=int, default=40, help="of which the fewest batches are found, of each size")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(name, h, n, args.turns) for name in MODELS for h in args.sizes for n in args.counts]
    known = [exact(trees, args.graphs) for trees in (1, 2, 4, 8)]
    if args.json:
        write_rows(args.json, rows, turns=args.turns, exact=known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
