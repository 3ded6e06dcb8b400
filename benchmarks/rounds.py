"""Figures of models that decide by what they compute: rounds, waits, batches, and the time against the plain call.

    python benchmarks/rounds.py [--size small|large|N] [--batch N] [--json FILE]

`floor` is the longest chain of waits of any one instance by data flow, what loops carry counted, and 1 more if
something is computed after the last of them. It is found from the results of the plain calls alone, so it knows nothing
of how the compiler sees the model. `serial` is with `forkjoin=False`. Everything is timed in this one process, on one
thread; times are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

from acronumba.bench.measure import machine, timed  # noqa: E402
from acronumba.zoo import beam_decoder, berxit, drnn, graph_rnn, moe, stack_rnn  # noqa: E402


def moe_chain(x: Any, result: Any) -> int:
    """Each token's expert; no token waits for another."""
    return 1 + 1


def drnn_chain(x: Any, result: list[Any]) -> int:
    """A node is decided one wait after the one before it, or after its parent; the label of the last one follows."""

    def last(nodes: list[Any], start: int, level: int) -> int:
        times = []
        for k, node in enumerate(nodes, 1):
            reads = level < drnn.LEVELS or k < drnn.SIBLINGS
            times.append(start + k - (not reads) + 1)  # of its label
            if node.children:
                times.append(last(node.children, start + k, level + 1))
        return max(times)

    return last(result, 0, 1)


def berxit_chain(x: Any, result: tuple[Any, int]) -> int:
    """A decision after each layer but the seventh, then the classes."""
    return min(result[1], berxit.LAYERS - 1) + 1


def stack_chain(x: Any, result: tuple[list[int], Any]) -> int:
    """A decision per action, unless there is nothing to reduce; what the last one does follows."""
    depth, waits = 1, 0
    for action in result[0]:
        waits += depth >= 3
        depth += 1 if action == stack_rnn.SHIFT else -1
    return waits + 1


def graph_chain(x: Any, result: Any) -> int:
    """A decision per possible edge, each after the one before; then the last state."""
    return sum(len(row) for row in result.edges) + 1


def beam_chain(x: Any, result: list[Any]) -> int:
    """One decision per word of the longest sentence; the sentences are what was decided upon."""
    return max(len(s.words) for s in result)


MODELS: dict[str, tuple[Any, str, str, Callable[[Any, Any], int]]] = {
    "moe": (moe, "route", "route_emulated", moe_chain),
    "drnn": (drnn, "generate", "generate_emulated", drnn_chain),
    "berxit": (berxit, "classify", "classify_emulated", berxit_chain),
    "stack_rnn": (stack_rnn, "parse", "parse_emulated", stack_chain),
    "graph_rnn": (graph_rnn, "generate", "generate_emulated", graph_chain),
    "beam_decoder": (beam_decoder, "decode", "decode_emulated", beam_chain),
}


def milliseconds(run: Callable[[], Any], times: int) -> float:
    return 1e3 * statistics.median(timed(run)[0] for _ in range(times))


def measure(name: str, size: str | int, batch: int) -> dict[str, Any]:
    module, decides, told, chain = MODELS[name]
    p, xs = module.params(size), module.instances(batch)
    model = getattr(module, decides).with_options(threads=1)
    serial, emulated = model.with_options(forkjoin=False), getattr(module, told).with_options(threads=1)
    one_by_one, plain = timed(lambda: [model(x, p=p) for x in xs])
    trace, other = model.trace(xs, p=p), serial.trace(xs, p=p)
    for run in (model, serial, emulated):
        run.batch(xs, p=p)
    times = 3 if one_by_one > 2 else 11
    return {
        "rounds": trace.rounds,
        "floor": max(chain(x, result) for x, result in zip(xs, plain, strict=True)),
        "waits": len(trace.data.waits),
        "nodes": trace.nodes,
        "batches": len(trace.batches),
        "mean batch": trace.nodes / len(trace.batches),
        "serial rounds": other.rounds,
        "serial batches": len(other.batches),
        "ms": milliseconds(lambda: model.batch(xs, p=p), times),
        "serial ms": milliseconds(lambda: serial.batch(xs, p=p), times),
        "emulated ms": milliseconds(lambda: emulated.batch(xs, p=p), times),
        "plain ms": 1e3 * one_by_one,
        "agree": str(model.check(xs, p=p)).splitlines()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--size", default="small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    size = int(args.size) if args.size.isdecimal() else args.size
    found = {}
    for name in args.models:
        found[name] = row = measure(name, size, args.batch)
        print(
            f"{name:13} {row['rounds']:5} rounds, floor {row['floor']:4}, serial {row['serial rounds']:5}; "
            f"{row['waits']:6,} waits; {row['nodes']:6,} nodes in {row['batches']:5,} batches of "
            f"{row['mean batch']:6.1f} (serial {row['serial batches']:,})\n"
            f"{'':13} {row['ms']:.1f} ms; serial {row['serial ms']:.1f}, emulated {row['emulated ms']:.1f}, "
            f"plain one by one {row['plain ms']:.0f}; {row['agree']}",
            flush=True,
        )
    if args.json:
        text = json.dumps({"size": size, "batch": args.batch, "machine": machine(), "models": found}, indent=2)
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
