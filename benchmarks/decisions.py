"""Tune the models of the zoo, and write what each strategy and each decision left out won.

    python benchmarks/decisions.py [--models NAME ...] [--size SIZE] [--batch N] [--json FILE]

Seconds are processor time of the whole search, compilation included.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from acronumba import pack  # noqa: E402
from acronumba.bench import tune_model  # noqa: E402
from acronumba.bench.measure import write_rows  # noqa: E402
from acronumba.bench.workloads import WAITING, ZOO  # noqa: E402


def main() -> int:
    """Measure, print, write."""
    models = {w.name: w for w in (*ZOO, *WAITING)}
    parser = argparse.ArgumentParser(description="Tune the models of the zoo.")
    parser.add_argument("--models", nargs="+", default=[w.name for w in ZOO], choices=models, metavar="NAME")
    parser.add_argument("--size", default="small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.models:
        workload, begun = models[name], time.process_time()
        columns = {args.batch: [pack(workload.instances(args.batch))]}
        (choice,) = tune_model.tune(workload.model, columns, {"p": pack(workload.params(args.size))})
        seconds = time.process_time() - begun
        rows.append({"model": name, "instances": args.batch, "seconds": seconds, **dataclasses.asdict(choice)})
        print(f"{name}: {choice.name}, {seconds:.0f} s", flush=True)
        if args.json:  # as far as it is: an interrupted run is worth something
            write_rows(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
