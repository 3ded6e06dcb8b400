"""Products in bf16: times against float32 and against PyTorch in bf16, and the accuracy of two trained models.

    python benchmarks/halves.py [--models encoder tree_lstm] [--sizes 256 512 1024] [--turns 15] [--json FILE]
    python benchmarks/halves.py --training [--sizes 256 512] [--turns 9] [--json FILE]
    python benchmarks/halves.py --data FOLDER [--steps 1000] [--epochs 4] [--params FOLDER] [--json FILE]

Times are processor time of one thread, in turns; ratios are medians over the turns. The instances are packed, as
PyTorch's are prepared beforehand. PyTorch runs the texts of `acronumba_bench.baselines`, with everything in bf16, and
with bf16 in matrix products alone; the faster one counts. `error`: the largest difference of a result from that in
float32, relative to the largest magnitude in its array. `--training`: the loss is the sum of the squares of results.
`--data`: as for `compressed.py`; the models learn in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np  # noqa: E402

import compressed  # noqa: E402
from acronumba import compression, leaves, model, pack  # noqa: E402
from acronumba.bench.measure import machine, timed  # noqa: E402
from acronumba.bench.workloads import inputs  # noqa: E402
from acronumba.zoo import birnn, encoder, tree_lstm  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

MODELS = ("encoder", "tree_lstm", "birnn", "bilstm_tagger")
INSTANCES = 64


@model
def tree_loss(t: tree_lstm.Tree, *, p: tree_lstm.Params) -> Any:
    return np.sum(tree_lstm.sentiment(t, p=p) ** 2)


@model
def encoder_loss(words: list[int], *, p: encoder.Params) -> Any:
    return np.sum(encoder.encode(words, p=p) ** 2)


@model
def tag_loss(words: list[int], *, p: birnn.Params) -> Any:
    loss = np.float32(0)
    for y in birnn.tag(words, p=p):
        loss = loss + np.sum(y * y)
    return loss


LOSSES: dict[str, Any] = {"tree_lstm": tree_loss, "encoder": encoder_loss, "birnn": tag_loss}


def by_torch(name: str, p: Any, xs: Sequence[Any]) -> dict[str, Callable[[], object]]:
    """Return PyTorch's programs in bf16; none without PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    from acronumba_bench.baselines import BATCHED
    from acronumba_bench.baselines.by_torch import TORCH

    torch.set_num_threads(1)
    low = torch.bfloat16

    def whole(a: Any) -> Any:
        return torch.from_numpy(a).to(low) if a.dtype == np.float32 else torch.from_numpy(a)

    everything = replace(
        TORCH, array=whole, weight=lambda m: whole(np.ascontiguousarray(m.T)), empty=partial(torch.empty, dtype=low),
        host=lambda a: a.float().numpy(),
    )  # fmt: skip
    products = replace(
        TORCH,
        weight=everything.weight,
        product=lambda x, w: torch.mm(x.to(low), w).float(),
        affine=lambda b, x, w: torch.mm(x.to(low), w).float().add_(b),
        add_product_=lambda y, x, w: y.add_(torch.mm(x.to(low), w)),
    )
    found: dict[str, Callable[[], object]] = {}
    for way, library in (("all in bf16", everything), ("products in bf16", products)):
        run = BATCHED[name](library, p, xs).run

        def inference(run: Callable[[], object] = run) -> object:
            with torch.inference_mode():
                return run()

        found[way] = inference
    return found


def in_turns(runs: Mapping[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Return the seconds of each run, turn by turn; each is run once before it is timed."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    repeats = {name: max(1, int(5e-3 / max(timed(run, time.process_time)[0], 1e-6))) for name, run in runs.items()}
    for _ in range(turns):
        for name, run in runs.items():
            run()
            took = [timed(run, time.process_time)[0] for _ in range(repeats[name])]
            found[name].append(statistics.median(took))
    return found


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def forward(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the times of mini-batches."""
    rows = []
    for name in args.models or MODELS:
        for size in args.sizes or (256, 512, 1024):
            xs, p = inputs(WORKLOADS[name], size, INSTANCES, None)
            single = WORKLOADS[name].model.with_options(threads=1)
            half, packed = single.with_options(precision="bf16"), pack(xs)
            runs = {"float32": partial(single.batch, packed, p=p), "bf16": partial(half.batch, packed, p=p)}
            before, after = (run() for run in runs.values())
            times = in_turns(runs | by_torch(name, p, xs), args.turns)
            torch = {way: ratio(took, times["bf16"]) for way, took in times.items() if way not in runs}
            row = {
                "model": name, "size": size, "milliseconds": {k: 1e3 * statistics.median(v) for k, v in times.items()},
                "float32 / bf16": ratio(times["float32"], times["bf16"]), "PyTorch in bf16 / bf16": torch,
                "error": compression.difference(before, after).largest,
            }  # fmt: skip
            rows.append(row)
            told = "  ".join(f"{way} {x:.2f}" for way, x in torch.items())
            print(
                f"{name:14} {size:5}  float32 {row['float32 / bf16']:.2f}  {told}  error {row['error']:.1e}", flush=True
            )
    return rows


def training(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the times of losses with gradients."""
    rows = []
    for name in args.models or LOSSES:
        for size in args.sizes or (256, 512):
            xs, p = inputs(WORKLOADS[name], size, INSTANCES, None)
            single = LOSSES[name].with_options(threads=1).value_and_grad
            half, packed = single.with_options(precision="bf16"), pack(xs)
            runs = {"float32": partial(single.batch, packed, p=p), "bf16": partial(half.batch, packed, p=p)}
            (_, before), (_, after) = (run() for run in runs.values())
            pairs = zip(leaves(before), leaves(after), strict=True)
            off = [float(np.abs(a - b).max() / (np.abs(a).max() or 1)) for (_, a), (_, b) in pairs if np.size(a)]
            times = in_turns(runs, args.turns)
            row = {
                "model": name, "size": size, "milliseconds": {k: 1e3 * statistics.median(v) for k, v in times.items()},
                "float32 / bf16": ratio(times["float32"], times["bf16"]), "error": max(off),
            }  # fmt: skip
            rows.append(row)
            print(f"{name:14} {size:5}  float32 {row['float32 / bf16']:.2f}  error {row['error']:.1e}", flush=True)
    return rows


def accuracy(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the accuracy of trained models."""
    rows = []
    for task in (compressed.reading(args.data, 128, args.steps), compressed.sentiment(args.data, 128, args.epochs)):

        def whole(task: compressed.Task = task) -> Any:
            compressed.train(task, task.start, 0, task.steps, task.rate)
            return task.start

        p = compressed.kept(args.params, task.name, task.start, whole)
        half = replace(task, classify=task.classify.with_options(precision="bf16"))
        results = [one.classify.batch(task.held, p=p) for one in (task, half)]
        apart = compression.difference(*results)
        row = {
            "model": task.name, "instances": len(task.held),
            "float32": task.accuracy(p), "bf16": half.accuracy(p), "largest difference": apart.largest,
            "other classes": len(apart.chosen) / apart.instances,
        }  # fmt: skip
        rows.append(row)
        print("  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS)
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--training", action="store_true", help="times of losses with gradients")
    parser.add_argument("--data", type=Path, help="a folder with listops/*.tsv, sst/train.txt and sst/dev.txt")
    parser.add_argument("--steps", type=int, default=1000, help="of ListOps, 256 expressions each")
    parser.add_argument("--epochs", type=int, default=4, help="of the Treebank")
    parser.add_argument("--params", type=Path, help="a folder for weights")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = {"machine": machine(), "instances": INSTANCES, "turns": args.turns}
    if args.data is not None:
        result["trained"] = accuracy(args)
    elif args.training:
        result["training"] = training(args)
    else:
        result["forward"] = forward(args)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
