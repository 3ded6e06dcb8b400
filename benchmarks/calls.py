"""The fixed cost of a forward call, on one thread: microseconds of CPU time, and calls of Python functions.

    python benchmarks/calls.py [--models NAME ...] [--against CHECKOUT] [--turns N] [--json FILE]

Of small mini-batches (H = 32, 4 instances): a call of packs, the same with all results read, and its stage "pack". Of
one instance with H = 1,024, given as an object: what it costs to look through weights that are not packed. With another
checkout, such as one of an older commit, both take turns, each in a process of its own. A time is a median of turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["ACRONUMBA_QUIET"] = "1"

MODELS = ("birnn", "tree_lstm", "listops", "encoder")
CALLS, TURNS = 200, 11


def seconds(run: Callable[[], Any], calls: int) -> float:
    """Return the CPU seconds of a call."""
    begin = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - begin) / calls


def python_calls(run: Callable[[], Any]) -> int:
    """Return how many Python functions a call calls."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    run()
    sys.setprofile(None)
    return count


def turn(f: Any, xs: Any, p: Any, one: Any, large: tuple[Any, Any]) -> dict[str, float]:
    """Return the measurements of a model; `large`: weights that are not packed, and the same packed."""

    def call() -> Any:
        return f.batch(xs, p=p)

    def read() -> Any:
        return list(call())

    def of_one(weights: Any) -> float:
        f.batch(one, p=weights)
        return seconds(lambda: f.batch(one, p=weights), 3)

    for _ in range(20):
        read()
    return {
        "call": seconds(call, CALLS),
        "call, all read": seconds(read, CALLS),
        "stage pack": statistics.median(f.trace(xs, p=p).data.seconds["pack"] for _ in range(15)),
        "Python calls": python_calls(call),
        "weights looked through": of_one(large[0]) - of_one(large[1]),
    }


def serve(models: list[str]) -> None:
    """Measure a turn for each line of the input, and print it."""
    from acronumba import pack
    from acronumba.bench.workloads import ZOO, inputs

    given: dict[str, tuple[Any, ...]] = {}
    for name in models:
        workload = next(w for w in ZOO if w.name == name)
        xs, p = inputs(workload, 32, 4, None)
        one, large = inputs(workload, 1024, 1, None)
        given[name] = workload.model.with_options(threads=1), pack(xs), pack(p), one, (large, pack(large))
    for _ in sys.stdin:
        print(json.dumps({name: turn(*of) for name, of in given.items()}), flush=True)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--against", type=Path)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.models)
        return 0
    here = Path(__file__).resolve().parents[1]
    command = [sys.executable, __file__, "--serve", "--models", *args.models]
    servers = {
        name: subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, path in {"before": args.against, "now": here}.items()
        if path is not None
    }
    turns: dict[str, list[Any]] = {name: [] for name in servers}
    for _ in range(args.turns):
        for name, server in servers.items():
            assert server.stdin is not None
            assert server.stdout is not None
            print("turn", file=server.stdin, flush=True)
            turns[name].append(json.loads(server.stdout.readline()))
    rows = []
    for model in args.models:
        for what in turns["now"][0][model]:
            scale = 1 if what == "Python calls" else 1e6
            row = {n: round(scale * statistics.median(t[model][what] for t in of), 1) for n, of in turns.items()}
            rows.append({"model": model, "what": what, **row})
            print(rows[-1], flush=True)
    if args.json:
        from acronumba.bench.measure import write_rows

        write_rows(args.json, rows, turns=args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
