"""Weights in fewer bits: accuracy, bytes and time of two models that are trained here, against float32.

    python benchmarks/compressed.py --data FOLDER [--steps 1000] [--epochs 4] [--on 0.3] [--params FOLDER] [--json F]
    python benchmarks/compressed.py --zoo [--size large] [--turns 15] [--json FILE]
    python benchmarks/compressed.py --products [--turns 15] [--json FILE]

FOLDER has `listops/*.tsv`, lines of ListOps to test on, and `sst/train.txt` and `sst/dev.txt`, trees of the Sentiment
Treebank. The reader of ListOps learns from random expressions; the Tree-LSTM, the model of `sst.py`, from all phrases
of the trees. Both learn in float32. Then float32 and pools of vectors, which begin with these weights, learn for `--on`
times as long; all other kinds are made of the weights as they are. `--params`: where weights are kept, and found again.

`--zoo`: how many times faster than float32 models of the zoo are, for vectors and instructions that this CPU has: with
int8, bf16, and pools of 64 vectors with products of 8, 6, 4 and 3 bits. `--products`: 512 rows by matrices of such
pools, against their codes as int8.
Times are processor time of one thread, in turns; ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np  # noqa: E402

import sst  # noqa: E402
from acronumba import compress, compression, leaves, load, model, nn, optim, pack, save  # noqa: E402
from acronumba.bench.measure import machine, timed  # noqa: E402
from acronumba.bench.workloads import inputs  # noqa: E402
from acronumba.compressed import Int8, Pool  # noqa: E402
from acronumba.emit.target import host, override  # noqa: E402
from acronumba.strategy import DEFAULT  # noqa: E402
from acronumba.views.progress import progress  # noqa: E402
from acronumba.zoo import listops  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

BATCHES = (1, 8, 64)
ZOO = ("birnn", "listops", "bilstm_tagger", "stack_rnn_emulated")  # of the same work with any weights
POOLS = (256, 64)  # vectors
WIDTHS = (6, 4, 3)  # bits of the other operand of a product, beside 8
Columns = tuple[Sequence[Any], ...]


@model
def listops_loss(e: listops.Expression, label: int, *, p: listops.Params) -> Any:
    h, _ = listops.encode(e, p)
    return nn.cross_entropy(p.w_out @ h + p.b_out, label)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model to train."""

    name: str
    loss: Any
    classify: Any
    start: Any  # parameters
    batches: Callable[[int, int], Columns]  # of a step, and a seed: the columns of a mini-batch
    steps: int
    rate: float
    skip: Mapping[str, tuple[str, ...]]  # by kind
    held: Sequence[Any]
    labels: Sequence[int]

    def accuracy(self, p: Any) -> float:
        return float(np.mean(self.classify.batch(self.held, p=p).stack().argmax(1) == self.labels))


def reading(data: Path, size: int, steps: int) -> Task:
    """Return the reader of ListOps."""
    p = listops.params(size)
    for bias in (p.b_leaf, p.b, p.b_out):
        bias[:] = 0
    p.b[size : 3 * size] = 1  # of what is forgotten
    held = [e for path in sorted((data / "listops").glob("*.tsv")) for e in listops.read(path)]

    def batches(step: int, seed: int) -> Columns:
        some = listops.instances(256, 1_000_000 * (1 + seed) + step)
        return some, [listops.value(e) for e in some]

    return Task(
        name="ListOps", loss=listops_loss, classify=listops.classify, start=p, batches=batches, steps=steps, rate=2e-3,
        skip={"pool": ("embed", "w_out")}, held=held, labels=[listops.value(e) for e in held],
    )  # fmt: skip


def sentiment(data: Path, size: int, epochs: int) -> Task:
    """Return the Tree-LSTM on the Sentiment Treebank."""
    trees, numbers = sst.read(data / "sst" / "train.txt")
    held, _ = sst.read(data / "sst" / "dev.txt", numbers)
    many = max(1, len(trees) // 25)

    def batches(step: int, seed: int) -> Columns:
        order = np.random.default_rng((seed, step // many)).permutation(len(trees))
        at = 25 * (step % many)
        return ([trees[k] for k in order[at : at + 25]],)

    return Task(
        name="SST", loss=sst.loss, classify=sst.classify,
        start=sst.params(np.random.default_rng(0), len(numbers) + 1, size), batches=batches, steps=epochs * many,
        rate=1e-3, skip={"pool": ("w_out",)}, held=held, labels=[t.label for t in held],
    )  # fmt: skip


def train(task: Task, p: Any, seed: int, steps: int, rate: float, pooled: compression.Pooled | None = None) -> None:
    """Change parameters in place, by steps that become shorter."""
    opt = optim.Adam(rate)
    step = task.loss.value_and_grad
    with progress(f"training {task.name}", steps) as told:
        for k in range(steps):
            opt.rate = rate * 0.5 * (1 + np.cos(np.pi * k / steps))
            value, grads = step.batch(*task.batches(k, seed), p=p)
            optim.clip(grads, 5.0)
            if pooled is None:
                opt.update(p, grads)
            else:
                pooled.update(opt, grads)
            told(1, f"loss {float(value):.3f}")


def kept(folder: Path | None, name: str, like: Any, make: Callable[[], Any]) -> Any:
    """Return what a file has, or make it and write the file."""
    path = None if folder is None else folder / f"{name}.safetensors"
    if path is not None and path.exists():
        return load(path, like=like)
    made = make()
    if path is not None:
        save(path, made)
    return made


def all_kinds(task: Task, args: argparse.Namespace) -> dict[str, Any]:
    """Return parameters of each kind."""
    on = max(1, int(args.on * task.steps))

    def whole() -> Any:
        train(task, task.start, 0, task.steps, task.rate)
        return task.start

    def trained_on() -> Any:
        again = compression.Pooled(p, skip=task.skip["pool"]).trained["params"]  # a copy
        train(task, again, 1, on, task.rate / 2)
        return again

    def with_pools(vectors: int) -> Any:
        pooled = compression.Pooled(p, skip=task.skip["pool"], vectors=vectors)
        train(task, pooled.params, 1, on, task.rate / 2, pooled)
        return pooled.compressed()

    p = kept(args.params, f"{task.name}", task.start, whole)
    found = {
        "float32": p,
        "float32, trained on": kept(args.params, f"{task.name}-on", p, trained_on),
        "bf16": compress(p, "bf16"),
        "int8": compress(p, "int8"),
    }
    for vectors in POOLS:
        pools = compress(p, "pool", skip=task.skip["pool"], vectors=vectors)
        found[f"pool of {vectors}"] = pools
        made = kept(args.params, f"{task.name}-pool{vectors}", pools, partial(with_pools, vectors))
        found[f"pool of {vectors}, trained on"] = made
    for name in ("int8", *(f"pool of {vectors}, trained on" for vectors in POOLS)):
        found |= {f"{name}, {bits} bits": compression.with_bits(found[name], bits) for bits in WIDTHS}
    return found


def ratios(one: Any, xs: Any, ps: Mapping[str, Any], turns: int, by: str = "p") -> dict[str, float]:
    """Return how many times faster than with the first parameters, named `by`, a model is with each of them."""
    ours, packed = one.with_options(threads=1), pack(xs)
    runs = [(name, pack(p)) for name, p in ps.items()]
    for _, p in runs:
        ours.batch(packed, **{by: p})
    once = timed(lambda: ours.batch(packed, **{by: runs[0][1]}), time.thread_time)[0]
    repeats = max(1, int(5e-3 / max(once, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in ps}
    for _ in range(turns):
        for name, p in runs:
            ours.batch(packed, **{by: p})
            took = [timed(partial(ours.batch, packed, **{by: p}), time.thread_time)[0] for _ in range(repeats)]
            found[name].append(statistics.median(took))
    first = found[runs[0][0]]
    return {name: statistics.median(a / b for a, b in zip(first, took, strict=True)) for name, took in found.items()}


def trained(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train both models and return a row for each kind of weights."""
    rows = []
    for task in (reading(args.data, 128, args.steps), sentiment(args.data, 128, args.epochs)):
        ps = all_kinds(task, args)
        before = task.classify.batch(task.held, p=ps["float32"])
        times = [ratios(task.classify, task.held[:n], ps, args.turns) for n in BATCHES]
        for name, p in ps.items():
            told, moved = compression.report(ps["float32"], p), task.classify.batch(task.held, p=p)
            apart = compression.difference(before, moved)
            faster = {n: found[name] for n, found in zip(BATCHES, times, strict=True)}
            row = {
                "model": task.name, "weights": name, "accuracy": task.accuracy(p), "bytes": told.after,
                "smaller": told.before / told.after, "largest difference": apart.largest,
                "other classes": len(apart.chosen) / apart.instances,
                "times faster": faster,
            }  # fmt: skip
            rows.append(row)
            print(
                f"{task.name:8} {name:29} accuracy {row['accuracy']:.4f}  {told.after:10,} bytes"
                f" ({row['smaller']:.1f} times fewer)  faster at 1, 8, 64:"
                + " ".join(f"{x:5.2f}" for x in faster.values())
                + f"  other classes: {row['other classes']:.2%}",
                flush=True,
            )
    return rows


def few_vectors(p: Any) -> dict[str, Any]:
    """Return parameters whose large matrices are made of 64 vectors, for several numbers of bits."""
    small = [name for name, array in leaves(p) if array.ndim != 2 or Pool.unfit(array, 64) or len(array) < 64]
    pools = compress(p, "pool", skip=small, vectors=64)
    return {f"pool of 64, {bits} bits": compression.with_bits(pools, bits) for bits in (8, *WIDTHS)}


def of_zoo(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return how much faster models of the zoo are, for each kind of CPU that this one can be."""
    here = host()
    plain = replace(here, features=",".join(x for x in here.features.split(",") if "vnni" not in x))
    kinds = {"as it is": None, "without VNNI": plain, "AVX2": replace(plain, vector_bits=256, registers=16)}
    if not here.dots:
        del kinds["without VNNI"]
    if here.vector_bits <= 256:
        del kinds["AVX2"]
    rows = []
    for kind, target in kinds.items():
        for name in ZOO:
            workload = WORKLOADS[name]
            with nullcontext() if target is None else override(target):
                one = model(workload.model.__wrapped__)  # compiled for this target
                times = {}
                for n in BATCHES:
                    xs, p = inputs(workload, args.size, n, None)
                    given = {"float32": p, "int8": compress(p, "int8"), "bf16": compress(p, "bf16"), **few_vectors(p)}
                    times[n] = ratios(one, xs, given, args.turns)
            rows.append({"CPU": kind, "model": name, "size": args.size, "times faster": times})
            text = "   ".join(f"{n}: {' '.join(f'{x:.2f}' for x in t.values())}" for n, t in times.items())
            print(f"{kind:13} {name:18} {text}", flush=True)
    return rows


@model
def rows_by(x: np.ndarray, *, w: Any) -> Any:
    return x @ w.T


def of_products(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return how many times faster than its codes on VNNI a product with a pool of 64 vectors is, looked up."""
    one, rows = rows_by.with_options(strategy=replace(DEFAULT, lookups=0)), []
    random = np.random.default_rng(0)
    x = random.standard_normal((512, 1024)).astype(np.float32)
    for k in (128, 256, 1024):
        for n in (128, 256, 384, 512, 1024, 2048):
            w = Pool.of(random.standard_normal((n, k)).astype(np.float32), vectors=64)
            codes = Int8(w.codes, np.repeat(w.scale, n))
            given = {"int8": codes} | {f"{b} bits": compression.with_bits(w, b) for b in (8, *WIDTHS)}
            found = ratios(one, [np.ascontiguousarray(x[:, :k])], given, args.turns, "w")
            rows.append({"terms": k, "columns": n, "times faster": found})
            print(f"{k:5} terms {n:5} columns  " + "  ".join(f"{b}: {t:.2f}" for b, t in found.items()), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with listops/*.tsv, sst/train.txt and sst/dev.txt")
    parser.add_argument("--steps", type=int, default=1000, help="of ListOps, 256 expressions each")
    parser.add_argument("--epochs", type=int, default=4, help="of the Treebank")
    parser.add_argument("--on", type=float, default=0.3, help="of these, once more with pools")
    parser.add_argument("--params", type=Path, help="a folder for weights")
    parser.add_argument("--zoo", action="store_true", help="times of models of the zoo, with random weights")
    parser.add_argument("--products", action="store_true", help="times of products alone that look sums up")
    parser.add_argument("--size", default="large")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not (args.zoo or args.products) and args.data is None:
        parser.error("--data FOLDER, --zoo or --products")
    result = {"machine": machine(), "turns": args.turns}
    if args.zoo:
        result["zoo"] = of_zoo(args)
    elif args.products:
        result["products"] = of_products(args)
    else:
        result |= {"steps": args.steps, "epochs": args.epochs, "on": args.on, "models": trained(args)}
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
