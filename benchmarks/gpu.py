"""Results and figures of the zoo on a GPU.

    python benchmarks/gpu.py [--models NAME ...] [--size small|large|N ...] [--batch N ...] [--json FILE]
    python benchmarks/gpu.py --compile 9.0          only compile, for a GPU of this compute capability; needs none

First every model's results are compared with the plain calls; a model that differs is not timed. Then mini-batches of
packed data take turns with the same on the processor, one thread. Launches are counted, and a run without results to
copy says what the launches alone take. What is compiled is kept in the cache directory: a machine without compilers
needs a copy of it, and a driver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from acronumba import pack
from acronumba.bench.ablate import inputs
from acronumba.bench.measure import machine
from acronumba.bench.workloads import WORKLOADS
from acronumba.check import leaves
from acronumba.kernels.cuda.cubins import machines
from acronumba.kernels.cuda.generate import generate
from acronumba.kernels.fusion import Fusion

HEAVY = {"berxit", "berxit_emulated"}  # of these, few instances are compared: the plain calls take long


def difference(mine: Any, wanted: Any) -> float:
    """Return the largest difference of two results, relative to the largest number; infinity if they are not alike."""
    worst = 0.0
    for a, b in zip(leaves(mine), leaves(wanted), strict=True):
        x, y = np.asarray(a.value), np.asarray(b.value)
        if isinstance(a.value, tuple) or x.dtype.kind != "f":
            if type(a.value) is not type(b.value) or not np.all(a.value == b.value):
                return float("inf")
        elif x.shape != y.shape or x.dtype != y.dtype:
            return float("inf")
        else:
            scale = max(1.0, float(np.max(np.abs(y), initial=0)))
            worst = max(worst, float(np.max(np.abs(x - y), initial=0)) / scale)
    return worst


def compiled(name: str, size: str | int, capability: tuple[int, int]) -> int:
    """Compile all kernels of a model; return how many functions they have."""
    workload = WORKLOADS[name]
    xs, p = inputs(workload, size, 2, None)
    f = workload.model
    one = f._specialise(f._bind((xs,), {"p": p}))[0]
    suffix = "a" if capability == (9, 0) else ""
    return sum(len(machines(generate(s, Fusion.of(one.options)), capability, suffix)) for s in one.plan.kernels)


def seconds(f: Any, least: float = 0.2) -> tuple[float, int]:
    """Return the median of the seconds that a call takes, and of how many calls."""
    f()
    times: list[float] = []
    end = time.perf_counter() + least
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 200):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times), len(times)


def row(name: str, size: str | int, batch: int) -> dict[str, Any]:
    """Compare and time a model."""
    workload = WORKLOADS[name]
    xs, p = inputs(workload, size, batch, None)
    there, here = workload.model.on("cuda"), workload.model.on("cpu").with_options(threads=1)
    begun = time.perf_counter()
    got = there.batch(xs, p=p)
    first = time.perf_counter() - begun
    some = range(min(batch, 1 if name in HEAVY else 8))
    worst = max(difference(got[k], workload.model(xs[k], p=p)) for k in some)
    out: dict[str, Any] = {"model": name, "size": size, "instances": batch, "difference": worst, "first": first}
    if worst > 1e-3:
        return out
    x, s = pack(xs), pack(p)
    out["gpu"], out["runs"] = seconds(lambda: there.batch(x, p=s))
    out["cpu"], _ = seconds(lambda: here.batch(x, p=s))
    trace = there.trace(x, p=s).data
    out["launches"], out["nodes"] = len(trace.batches), trace.nodes
    out["stages"] = dict(trace.seconds)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="*", default=[n for n in WORKLOADS if n not in HEAVY])
    parser.add_argument("--size", nargs="*", default=["small", "large"])
    parser.add_argument("--batch", nargs="*", type=int, default=[8, 64])
    parser.add_argument("--minutes", type=float, default=7.0, help="begin nothing new after so many")
    parser.add_argument("--compile", metavar="X.Y")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = [int(s) if s.isdigit() else s for s in args.size]
    if args.compile:
        major, minor = map(int, args.compile.split("."))
        for name in args.models:
            for size in sizes:
                print(f"{name} {size}: {compiled(name, size, (major, minor))} functions", flush=True)
        return 0
    from acronumba.runtime.gpu import gpu, missing

    if why := missing():
        print(f"no GPU to measure: {why}", file=sys.stderr)
        return 1
    end = time.perf_counter() + 60 * args.minutes
    rows: list[dict[str, Any]] = []
    for size in sizes:
        for name in args.models:
            for batch in args.batch:
                if time.perf_counter() > end:
                    break
                try:
                    rows.append(row(name, size, batch))
                except Exception as error:  # the other models are measured all the same; the exit status says it
                    rows.append({"model": name, "size": size, "instances": batch, "error": repr(error)})
                print(json.dumps(rows[-1]), flush=True)
                if args.json:
                    about = {"gpu": gpu(0).name, "capability": gpu(0).capability, "machine": machine(), "rows": rows}
                    args.json.write_text(json.dumps(about, indent=1) + "\n")
    return int(any("error" in r or r["difference"] > 1e-3 for r in rows))


if __name__ == "__main__":
    sys.exit(main())
