"""What recording equal nodes once saves, and what looking for them costs where there are none.

    python benchmarks/equal.py [--sst FILE] [--listops FILE] [--counts 64 1024] [--turns 15] [--json FILE]

Trees of the Sentiment Treebank (`--sst`, a file of trees), ListOps (`--listops`, its file; else random expressions) and
syntax trees of Python's library run with the option and without, in turns, in one process, on one thread. Of models
whose nodes are all different, the words are random numbers. Times are processor time; a ratio is the median over turns.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from acronumba import pack  # noqa: E402
from acronumba.bench.measure import machine, write_rows  # noqa: E402
from acronumba.zoo import birnn, listops, tree_lstm  # noqa: E402


def renumbered(trees: list[tree_lstm.Tree]) -> list[tree_lstm.Tree]:
    """Return trees of the same forms, of which no two leaves have one word."""
    numbers = itertools.count()

    def copied(t: tree_lstm.Tree) -> tree_lstm.Tree:
        if t.left is None or t.right is None:
            return tree_lstm.Tree(next(numbers))
        return tree_lstm.Tree(left=copied(t.left), right=copied(t.right))

    return [copied(t) for t in trees]


def leaves(t: tree_lstm.Tree) -> int:
    """Return how many leaves a tree has."""
    return 1 if t.left is None or t.right is None else leaves(t.left) + leaves(t.right)


def models(args: argparse.Namespace, size: int, count: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield names, models, instances and parameters."""
    syntax = tree_lstm.instances(count)
    if args.sst:
        yield "SST", tree_lstm.sentiment, tree_lstm.read_sst(args.sst)[:count], tree_lstm.params(size)
    expressions = listops.read(args.listops)[:count] if args.listops else listops.instances(count)
    yield "ListOps", listops.classify, expressions, listops.params(size)
    yield "syntax trees", tree_lstm.sentiment, syntax, tree_lstm.params(size)
    words = sum(map(leaves, syntax))
    yield "trees, all different", tree_lstm.sentiment, renumbered(syntax), tree_lstm.params(size, vocabulary=words)
    sentences = birnn.instances(count)
    numbers = itertools.count()
    sentences = [[next(numbers) for _ in words] for words in sentences]
    yield "birnn, all different", birnn.tag, sentences, birnn.params(size, vocabulary=next(numbers))


def in_turns(calls: list[Callable[[], Any]], turns: int) -> list[float]:
    """Return the median seconds of processor time of each call, and the median ratio of the last to the first."""
    for call in calls:
        call()
    times = []
    for turn in range(turns):
        row = [0.0] * len(calls)
        for k in range(len(calls))[:: 1 - 2 * (turn % 2)]:
            calls[k]()  # not measured: what ran before is no matter
            start = time.process_time()
            calls[k]()
            row[k] = time.process_time() - start
        times.append(row)
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return [*medians, statistics.median(row[-1] / row[0] for row in times)]


def measure(name: str, f: Any, instances: Any, params: Any, turns: int) -> dict[str, Any]:
    """Measure a model with the option and without; return the figures."""
    on, off = (f.with_options(equal=equal, threads=1) for equal in (True, False))
    trace = on.trace(instances, p=params)
    xs, p = pack(instances), pack(params)
    same = on.batch(xs, p=p) == off.batch(xs, p=p)
    seconds_on, seconds_off, ratio = in_turns([lambda: on.batch(xs, p=p), lambda: off.batch(xs, p=p)], turns)
    row = {
        "name": name, "instances": len(instances), "nodes": trace.nodes, "saved": trace.saved, "same": same,
        "on": seconds_on, "off": seconds_off, "ratio": ratio,
    }  # fmt: skip
    share = trace.saved / (trace.nodes + trace.saved)
    print(
        f"{name:24} {len(instances):5} {trace.nodes + trace.saved:8,} nodes, {share:6.1%} saved"
        f"   {1e3 * seconds_off:9.3f} ms -> {1e3 * seconds_on:9.3f} ms   {ratio:5.3f} times"
        + ("" if same else "   RESULTS DIFFER"),
        flush=True,
    )
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="What recording equal nodes once is worth.")
    parser.add_argument("--sst", type=Path, help="a file of the Stanford Sentiment Treebank")
    parser.add_argument("--listops", type=Path, help="a file of ListOps")
    parser.add_argument("--counts", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256], help="hidden sizes")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(machine())
    rows = []
    for size in args.sizes:
        for count in args.counts:
            for name, f, xs, p in models(args, size, count):
                rows.append({"size": size, **measure(f"{name} {size}", f, xs, p, args.turns)})
    if args.json:
        write_rows(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
