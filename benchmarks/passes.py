"""What LLVM's own lists of passes would be worth: time of compiling, time and bits of mini-batches.

    python benchmarks/passes.py [LIST ...] [--models NAME ...] [--counts 8 64] [--sizes small] [--rounds 40] [--json F]

A list is "quick", what `emit.passes` says, "O1" or "O3", LLVM's own with its level, or names of llvmlite's passes:
"sroa+instruction_combine+simplify_cfg@2". Each compiles the models anew, kept in a cache of its own; mini-batches run
in a random order, round by round, in one process, on one thread. Times are processor time; a ratio, to the first list,
is the median over rounds.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["ACRONUMBA_QUIET"] = "1"

from acronumba import model, pack  # noqa: E402
from acronumba.bench.measure import machine  # noqa: E402
from acronumba.emit import compile, passes  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

OURS = passes.PASSES, passes.LEVEL, passes.optimise


def own_list(level: int, module: Any, target_machine: Any) -> None:
    """Run LLVM's own list of a level."""
    from llvmlite import binding

    builder = binding.create_pass_builder(target_machine, binding.create_pipeline_tuning_options(level))
    builder.getModulePassManager().run(module, builder)


def use(name: str) -> None:
    """Compile with a list of passes from now on."""
    passes.PASSES, passes.LEVEL, passes.optimise = OURS
    if name in ("O1", "O2", "O3"):
        passes.PASSES, passes.LEVEL = (name,), int(name[1])
        passes.optimise = functools.partial(own_list, int(name[1]))
    elif name != "quick":
        names, _, level = name.partition("@")
        passes.PASSES = (*OURS[0][:2], *names.split("+"))
        passes.LEVEL = int(level or OURS[1])
    passes.target_machine.cache_clear()
    compile.environment.cache_clear()
    compile.forget()


def compiled(names: list[str], workload: Any, xs: Any, p: Any) -> tuple[list[Callable[[], Any]], list[float]]:
    """Return what runs a mini-batch by code of each list, and the seconds that its first one took."""
    runs: list[Callable[[], Any]] = []
    seconds: list[float] = []
    for name in names:
        use(name)
        f = model(workload.model.__wrapped__, threads=1)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ACRONUMBA_CACHE_DIR"] = folder
            start = time.process_time()
            f.batch(xs, p=p)
            seconds.append(time.process_time() - start)
        runs.append(functools.partial(f.batch, xs, p=p))
    return runs, seconds


def bits(results: Any) -> list[bytes]:
    """Return the bits of all arrays and numbers of results."""
    if isinstance(results, list | tuple):
        return [b for r in results for b in bits(r)]
    if hasattr(results, "__dict__"):
        return bits(list(vars(results).values()))
    return [results.tobytes() if hasattr(results, "tobytes") else repr(results).encode()]


def measure(names: list[str], model_name: str, count: int, size: Any, rounds: int) -> dict[str, Any]:
    """Measure a model; return the figures."""
    workload = WORKLOADS[model_name]
    xs, p = pack(workload.instances(count)), pack(workload.params(size))
    runs, first = compiled(names, workload, xs, p)
    found = [bits(list(run())) for run in runs]
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for k in random.sample(range(len(runs)), len(runs)):
            start = time.thread_time()
            runs[k]()
            times[k].append(time.thread_time() - start)
    ratios = [statistics.median(b / a for a, b in zip(times[0], t, strict=True)) for t in times]
    row = {
        "model": model_name, "count": count, "size": size, "seconds": statistics.median(times[0]),
        "first": dict(zip(names, first, strict=True)), "ratios": dict(zip(names, ratios, strict=True)),
        "same": all(f == found[0] for f in found),
    }  # fmt: skip
    shown = "  ".join(f"{n} {r:.3f} ({s:.2f} s)" for n, r, s in zip(names, ratios, first, strict=True))
    print(f"{model_name:22} {count:4} {size!s:6} {1e3 * row['seconds']:9.3f} ms  {shown}", end="")
    print("" if row["same"] else "   BITS DIFFER", flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="What LLVM's own lists of passes would be worth.")
    parser.add_argument("lists", nargs="*", default=["O3", "quick"])
    parser.add_argument("--models", nargs="+", default=[n for n in WORKLOADS if not n.startswith("berxit")][:21])
    parser.add_argument("--counts", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--sizes", nargs="+", default=["small"], help="small, large or numbers")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(machine(), "first mini-batch in brackets")
    sizes = [int(s) if s.isdigit() else s for s in args.sizes]
    rows = [measure(args.lists, m, c, s, args.rounds) for s in sizes for m in args.models for c in args.counts]
    means = {n: statistics.geometric_mean(r["ratios"][n] for r in rows) for n in args.lists}
    most = {n: max(r["ratios"][n] for r in rows) for n in args.lists}
    print("geometric mean", *(f"{n} {means[n]:.3f} (at most {most[n]:.3f})" for n in args.lists))
    if args.json:
        told = {"machine": machine(), "rows": rows, "means": means, "most": most}
        args.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
