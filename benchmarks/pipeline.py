"""Figures of the pipeline: speed against NumPy batched by hand, host time, packing, compile time, growth.

    python benchmarks/pipeline.py [--trees FILE] [--json FILE]

`--trees` is a file of trees in the format of the Stanford Sentiment Treebank; without it functions of Python's
standard library are parsed. Everything that is compared runs in this one process, in turn, on one thread; medians are
printed, with the lower and upper quartile where a spread matters. Compile times are taken in fresh processes with a
cache of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

HIDDEN = 256
BATCHES = (64, 256, 1024, 4096)
BLOCKS = (20, 60, 150, 300)


def trees(path: str | None, count: int) -> list[Any]:
    from acronumba.zoo import tree_lstm

    found = tree_lstm.read_sst(path) if path else tree_lstm.instances(min(count, 2000))
    while len(found) < count:
        found = found + found
    return found[:count]


def speed(path: str | None) -> dict[str, Any]:
    """Tree-LSTM, 64 trees: ours against NumPy by hand per level."""
    import numpy as np

    from acronumba import pack
    from acronumba.bench.by_hand.by_numpy import NUMPY
    from acronumba.bench.measure import interleaved, quartiles
    from acronumba.zoo import tree_lstm
    from acronumba_bench import baselines

    xs, p = trees(path, 64), tree_lstm.params(HIDDEN)
    by_level = baselines.BATCHED["tree_lstm"](NUMPY, p, xs)
    packed, snapshot = pack(xs), pack(p)
    ours = tree_lstm.sentiment.with_options(threads=1)
    results = ours.batch(xs, p=p)
    plain = [tree_lstm.sentiment(x, p=p) for x in xs]
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(results, plain, strict=True))
    times = interleaved(
        {
            "plain": lambda: [tree_lstm.sentiment(x, p=p) for x in xs[:8]],
            "numpy by hand": by_level.run,
            "ours, objects": lambda: ours.batch(xs, p=p),
            "ours, packed": lambda: ours.batch(packed, p=snapshot),
            "ours, objects, all threads": lambda: tree_lstm.sentiment.batch(xs, p=p),
        },
        21,
    )
    times["plain"] = times["plain"].scaled(8)
    runs = [ours.trace(packed, p=snapshot).seconds for _ in range(31)]  # a trace kept alive would keep its memory
    stage = {k: statistics.median(t[k] for t in runs) for k in runs[0]}
    trace = ours.trace(packed, p=snapshot)
    objects = sum(1 for x in xs for _ in _nodes(x))
    packing = [ours.trace(xs, p=p).seconds["pack"] for _ in range(31)]
    return {
        "largest difference from plain": error,
        "milliseconds": {k: asdict(t.scaled(1e3)) for k, t in times.items()},
        "times faster than numpy by hand": times["numpy by hand"].median / times["ours, objects"].median,
        "times faster, packed": times["numpy by hand"].median / times["ours, packed"].median,
        "nodes": trace.nodes,
        "batches": len(trace.batches),
        "at least": trace.lower_bound,
        "record, ns per node": stage["record"] / trace.nodes * 1e9,
        "schedule, ns per node": stage["schedule"] / trace.nodes * 1e9,
        "packing, us per object": asdict(quartiles(packing).scaled(1e6 / objects)),
    }


def _nodes(tree: Any) -> Any:
    stack = [tree]
    while stack:
        t = stack.pop()
        if t is not None:
            yield t
            stack += [t.left, t.right]


def growth(path: str | None) -> list[dict[str, float]]:
    """Time and memory of ever larger batches, H = 32."""
    from acronumba.zoo import tree_lstm

    p = tree_lstm.params(32)
    rows = []
    for n in BATCHES:
        xs = trees(path, n)
        tree_lstm.sentiment.batch(xs, p=p)
        runs = [tree_lstm.sentiment.trace(xs, p=p) for _ in range(3)]
        best = min(runs, key=lambda t: t.seconds["total"])
        rows.append(
            {
                "trees": n,
                "nodes": best.nodes,
                "milliseconds": best.seconds["total"] * 1e3,
                "microseconds per node": best.seconds["total"] / best.nodes * 1e6,
                "peak MB": best.peak_bytes / 1e6,
                "bytes per node": best.peak_bytes / best.nodes,
            }
        )
    return rows


_FIRST = """
import time; start = time.perf_counter()
from acronumba.zoo import tree_lstm
xs, p = tree_lstm.instances(64), tree_lstm.params({hidden})
start = time.perf_counter()
tree_lstm.sentiment.batch(xs, p=p)
print(time.perf_counter() - start)
"""


def first_call() -> dict[str, float]:
    """The first call of a process, with an empty cache and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "ACRONUMBA_CACHE_DIR": cache}
        program = [sys.executable, "-c", _FIRST.format(hidden=HIDDEN)]
        runs = [
            float(subprocess.run(program, env=env, check=True, capture_output=True, text=True).stdout) for _ in range(4)
        ]
    return {"compiled": runs[0], "from the cache": statistics.median(runs[1:])}


_TREE = """
@dataclass
class Tree:
    word: int
    left: 'Tree | None' = None
    right: 'Tree | None' = None
"""
_FUNCTION = """
def f{k}(t, p):
    if t.left is None:
        return np.tanh(p.w @ p.embed[t.word])
    a = f{next}(t.left, p)
    b = f{k}(t.right, p)
    if t.word > {k}:
        a = a + b
    return np.tanh(p.w @ a) + b
"""
_COMPILE = """
import os, sys, time
sys.path.insert(0, {folder!r})
import many, numpy as np
from acronumba.emit import compile
from acronumba.host.machine import make_host
from acronumba.pipeline.compiled import Compiled
from acronumba.config import Options
p = many.Params(np.zeros((9, 16), np.float32), np.zeros((16, 16), np.float32))
tree = many.Tree(1, many.Tree(2), many.Tree(3))
c = Compiled(many.main.__wrapped__, [[tree]], {{"p": p}}, Options())
compile.load([])
start = time.perf_counter()
module = make_host(c.plan, c.options).module
made = time.perf_counter()
compile.load([module])
dispatches = [s for f in module.functions for s in f.body if type(s).__name__ == "Dispatch"]
print(time.perf_counter() - made, made - start, sum(len(d.blocks) for d in dispatches))
"""


def host_compile() -> list[dict[str, float]]:
    """Compile time of host programs of ever more blocks."""
    rows = []
    for want in BLOCKS:
        with tempfile.TemporaryDirectory() as folder:
            count = max(1, round((want - 4) / 9))
            text = ["import numpy as np", "from dataclasses import dataclass", "from acronumba import model"]
            text += [_TREE]
            text += ["@dataclass\nclass Params:\n    embed: np.ndarray\n    w: np.ndarray"]
            text += [_FUNCTION.format(k=k, next=(k + 1) % count) for k in range(count)]
            text += ["@model\ndef main(t, *, p):\n    return f0(t, p)\n"]
            (Path(folder) / "many.py").write_text("\n".join(text))
            env = {**os.environ, "ACRONUMBA_CACHE_DIR": str(Path(folder) / "cache")}
            program = [sys.executable, "-c", _COMPILE.format(folder=folder)]
            out = subprocess.run(program, env=env, check=True, capture_output=True, text=True).stdout.split()
        rows.append(
            {"blocks": int(out[2]), "seconds": float(out[0]), "ms per block": float(out[0]) / int(out[2]) * 1e3}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--trees", help="a file of trees")
    parser.add_argument("--json", help="write the figures there")
    args = parser.parse_args()
    from acronumba.bench.measure import machine

    figures = {
        "machine": machine(),
        "speed": speed(args.trees),
        "first call, seconds": first_call(),
        "host program": host_compile(),
        "growth": growth(args.trees),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if args.json:
        Path(args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
