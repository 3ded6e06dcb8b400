"""Measure refactoring: the time of a mini-batch of trees without it, relative to the default's.

    python benchmarks/refactor.py [--sizes 256 512] [--counts 1 8 64 256] [--turns 25] [--json FILE]

The model is `tree_lstm`. Leaves differ in how many are equal: the `names` of functions of Python's standard library;
`words` of a vocabulary of 4,096 that are as frequent as 1 / rank, as in a language; `distinct`, words that are equally
frequent. Both strategies take turns in one process, on one thread. Times are processor time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402

from acronumba import pack  # noqa: E402
from acronumba.bench.measure import ratio, write_rows  # noqa: E402
from acronumba.bench.tune_model import turns, variant  # noqa: E402
from acronumba.zoo import tree_lstm  # noqa: E402

LEAVES = ("names", "words", "distinct")


def trees(leaves: str, count: int) -> list[tree_lstm.Tree]:
    """Return `count` trees; those of words have 5 to 39 leaves."""
    if leaves == "names":
        return tree_lstm.instances(count)
    rng = np.random.default_rng(count)
    weights = 1 / np.arange(1, tree_lstm.VOCABULARY + 1) if leaves == "words" else np.ones(tree_lstm.VOCABULARY)

    def grow(n: int, word: Callable[[], Any]) -> tree_lstm.Tree:
        if n == 1:
            return tree_lstm.Tree(word=int(word()))
        left = int(rng.integers(1, n))
        return tree_lstm.Tree(left=grow(left, word), right=grow(n - left, word))

    pick = lambda: rng.choice(tree_lstm.VOCABULARY, p=weights / weights.sum())
    return [grow(int(rng.integers(5, 40)), pick) for _ in range(count)]


def measure(size: int, leaves: str, count: int, many: int) -> dict[str, Any]:
    """Return how many times as long a mini-batch takes without refactoring, measured and by the cost model."""
    columns, shared = [pack(trees(leaves, count))], {"p": pack(tree_lstm.params(size))}
    names = {"default": {}, "without": {"refactor": False}}
    both = [variant(tree_lstm.sentiment, name, changes, columns, shared) for name, changes in names.items()]
    times = turns(both, many)
    found = ratio(times["without"], times["default"])
    row = {
        "size": size, "leaves": leaves, "instances": count, "times": found.median, "low": found.low,
        "high": found.high, "estimated": both[1].estimate / both[0].estimate,
    }  # fmt: skip
    print(row, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="What refactoring is worth.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="hidden sizes")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(h, leaves, n, args.turns) for h in args.sizes for leaves in LEAVES for n in args.counts]
    if args.json:
        write_rows(args.json, rows, turns=args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
