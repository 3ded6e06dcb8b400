"""The Tree-LSTM on the Sentiment Treebank, trained here and by PyTorch from the same start: curves, accuracy, time.

    python benchmarks/sst.py --data FOLDER [--trees 2000] [--epochs 3] [--size 64] [--json FILE] [--plot FILE.svg]

The recipe is that of Tai, Socher and Manning (2015) for five classes: a loss at every phrase, mini-batches of 25; word
vectors begin random, as in one of their comparisons; Adam in place of Adagrad, and no dropout. PyTorch is batched by
hand level by level. Both do each step in turn, with the same weights at first, the same mini-batches and the same Adam.
Times are of steps alone, one thread each; that of the first, which compiles, stands apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])

import numpy as np  # noqa: E402

from acronumba import init, leaves, model, nn, optim  # noqa: E402
from acronumba.bench.by_hand.trees import Forest, Level  # noqa: E402
from acronumba.bench.measure import machine, timed  # noqa: E402
from acronumba.views.curves import curves_svg, curves_text  # noqa: E402
from acronumba.views.progress import progress  # noqa: E402
from acronumba_bench.chart import loss_panels  # noqa: E402

CLASSES = 5
OURS, TORCH = "acronumba", "PyTorch by hand"


@dataclass
class Tree:
    label: int
    word: int = 0  # a leaf's number; 0: not among the words that are trained on
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray[Any, Any]  # [V, H]
    w_leaf: np.ndarray[Any, Any]  # [3H, H]: gates i, o, u
    b_leaf: np.ndarray[Any, Any]  # [3H]
    w: np.ndarray[Any, Any]  # [5H, 2H]: gates i, f of the left, f of the right, o, u
    b: np.ndarray[Any, Any]  # [5H]
    w_out: np.ndarray[Any, Any]  # [C, H]
    b_out: np.ndarray[Any, Any]  # [C]


def encode(t: Tree, p: Params) -> Any:
    """Return state and memory of a phrase, and the loss of all phrases in it."""
    if t.left is None:
        i, o, u = np.split(p.w_leaf @ p.embed[t.word] + p.b_leaf, 3)
        c = nn.sigmoid(i) * np.tanh(u)
        h = nn.sigmoid(o) * np.tanh(c)
        return h, c, nn.cross_entropy(p.w_out @ h + p.b_out, t.label)
    hl, cl, left = encode(t.left, p)
    hr, cr, right = encode(t.right, p)  # type: ignore[arg-type]
    i, fl, fr, o, u = np.split(p.w @ np.concatenate([hl, hr]) + p.b, 5)
    c = nn.sigmoid(i) * np.tanh(u) + nn.sigmoid(fl) * cl + nn.sigmoid(fr) * cr
    h = nn.sigmoid(o) * np.tanh(c)
    return h, c, left + right + nn.cross_entropy(p.w_out @ h + p.b_out, t.label)


@model
def loss(t: Tree, *, p: Params) -> Any:
    return encode(t, p)[2]


@model
def classify(t: Tree, *, p: Params) -> Any:
    return p.w_out @ encode(t, p)[0] + p.b_out


def params(rng: np.random.Generator, words: int, size: int) -> Params:
    """Return the weights that both begin with."""
    forget = np.zeros(5 * size, np.float32)
    forget[size : 3 * size] = 1.0
    return Params(
        embed=init.normal(rng, (words, size), 0.1),
        w_leaf=init.glorot(rng, (3 * size, size)),
        b_leaf=np.zeros(3 * size, np.float32),
        w=init.glorot(rng, (5 * size, 2 * size)),
        b=forget,
        w_out=init.glorot(rng, (CLASSES, size)),
        b_out=np.zeros(CLASSES, np.float32),
    )


def read(path: Path, numbers: dict[str, int] | None = None) -> tuple[list[Tree], dict[str, int]]:
    """Read trees; words that occur twice get numbers from 1 on, unless `numbers` has them."""
    lines = path.read_text(encoding="utf-8").replace("(", " ( ").replace(")", " ) ").split("\n")
    tokens = [[token for token in line.split(" ") if token] for line in lines if line]
    if numbers is None:
        found = Counter(token for line in tokens for token in line if token not in "()" and not token.isdigit())
        numbers = {word: k for k, word in enumerate(sorted(word for word, n in found.items() if n > 1), 1)}

    def tree(left: list[str]) -> Tree:
        left.pop()
        t = Tree(int(left.pop()))
        if left[-1] == "(":
            t.left, t.right = tree(left), tree(left)
        else:
            t.word = numbers.get(left.pop(), 0)
        left.pop()
        return t

    return [tree(line[::-1]) for line in tokens if line], numbers


def flatten(trees: Sequence[Tree]) -> tuple[Forest, list[int], list[int]]:
    """Return trees as levels, the words of their leaves, and the labels of all nodes by number."""
    words: list[int] = []
    labels: list[list[int]] = [[]]  # of leaves, then of each height
    children: list[list[tuple[int, int]]] = [[]]  # of the nodes of each height, as height and place

    def place(t: Tree) -> tuple[int, int]:
        if t.left is None or t.right is None:
            words.append(t.word)
            height = 0
        else:
            pair = place(t.left), place(t.right)
            height = 1 + max(pair[0][0], pair[1][0])
            if len(children) == height:
                children.append([])
                labels.append([])
            children[height] += pair
        labels[height].append(t.label)
        return height, len(labels[height]) - 1

    roots = [place(t) for t in trees]
    starts = np.cumsum([0, *map(len, labels)]).tolist()
    number = lambda at: starts[at[0]] + at[1]
    levels = [
        Level(
            start=starts[h], roots=starts[h + 1], stop=starts[h + 1], children=np.array(list(map(number, children[h])))
        )
        for h in range(1, len(labels))
    ]
    forest = Forest(levels=tuple(levels), roots=np.array(list(map(number, roots))), count=starts[-1])
    return forest, words, [label for of in labels for label in of]


class Torch:
    """The same model, loss and Adam in PyTorch."""

    def __init__(self, p: Params, rate: float) -> None:
        import torch

        from acronumba_bench.baselines import training_torch

        torch.set_num_threads(1)
        self.torch, self.cells = torch, training_torch
        self.w = training_torch.parameters(p)
        self.opt = torch.optim.Adam(self.w.values(), lr=rate, fused=True)

    def scores(self, prepared: Any) -> tuple[Any, Any, int]:
        """Return the scores of all phrases, where the roots are, and how many trees there are."""
        torch, w = self.torch, self.w
        plan, words, numbers, _ = prepared
        x = torch.nn.functional.embedding(words, w["embed"])
        n = x.shape[1]
        outer = torch.cat(self.cells.leaf_cell(x, w), 1)
        waiting, states = outer.new_zeros((0, 2 * n)), [outer[:, :n]]
        for inner, below, order, left in plan:
            children = torch.cat([waiting.index_select(0, inner), outer.index_select(0, below)])
            pairs = children.index_select(0, order).view(-1, 2, 2 * n)
            h, c = self.cells.inner_cell(pairs[:, :, :n].reshape(-1, 2 * n), pairs[:, 0, n:], pairs[:, 1, n:], w)
            states.append(h)
            waiting = torch.cat([waiting.index_select(0, left), torch.cat([h, c], 1)])
        return torch.addmm(w["b_out"], torch.cat(states), w["w_out"].T), numbers, len(numbers)

    def prepare(self, trees: Sequence[Tree]) -> Any:
        """Return a mini-batch as levels: what a loader of data would make, not part of a step."""
        forest, words, labels = flatten(trees)
        plan, _ = self.cells.carried(forest, len(words))
        return plan, *(self.torch.from_numpy(np.array(x, np.int64)) for x in (words, forest.roots, labels))

    def step(self, prepared: Any) -> float:
        """Do a step; return its loss."""
        self.opt.zero_grad(set_to_none=True)
        y, _, count = self.scores(prepared)
        value = self.torch.nn.functional.cross_entropy(y, prepared[3], reduction="sum") / count
        value.backward()
        self.opt.step()
        return float(value.detach())

    def classes(self, trees: Sequence[Tree]) -> Any:
        """Return the classes of trees."""
        with self.torch.inference_mode():
            y, roots, _ = self.scores(self.prepare(trees))
            return y[roots].argmax(1).numpy()


class Ours:
    """The model, as it is written."""

    def __init__(self, p: Params, rate: float) -> None:
        self.p, self.opt = p, optim.Adam(rate)
        self.trained = loss.with_options(threads=1).value_and_grad

    def prepare(self, trees: Sequence[Tree]) -> Any:
        return trees

    def step(self, trees: Sequence[Tree]) -> float:
        value, grads = self.trained.batch(trees, p=self.p)
        self.opt.update(self.p, grads)
        return float(value)

    def classes(self, trees: Sequence[Tree]) -> Any:
        return classify.batch(trees, p=self.p).stack().argmax(1)


def train(
    both: dict[str, Any], trees: Sequence[Tree], held: Sequence[Tree], args: argparse.Namespace,
    rng: np.random.Generator, step: Callable[[int, str], None],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train both in turns; return what there is to tell of each."""
    told: dict[str, dict[str, Any]] = {name: {"losses": [], "accuracy": [], "seconds": []} for name in both}
    labels = np.array([t.label for t in held])
    for epoch in range(args.epochs):
        order = rng.permutation(len(trees))
        for start in range(0, len(order) - args.batch + 1, args.batch):
            some = [trees[k] for k in order[start : start + args.batch]]
            for name, it in both.items():
                prepared = it.prepare(some)
                seconds, value = timed(partial(it.step, prepared))
                told[name]["seconds"].append(seconds)
                told[name]["losses"].append(value)
            step(1, f"epoch {epoch + 1} of {args.epochs}")
        classes = {name: it.classes(held) for name, it in both.items()}
        for name, found in classes.items():
            told[name]["accuracy"].append(float(np.mean(found == labels)))
            told[name]["same"] = float(np.mean(found == classes[OURS]))
        print(f"epoch {epoch + 1:2}  " + "   ".join(f"{n}: {told[n]['accuracy'][-1]:.4f}" for n in both), flush=True)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with train.txt and dev.txt")
    parser.add_argument("--trees", type=int, default=2000, help="of the training set, the first")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    trees, numbers = read(args.data / "train.txt")
    held, _ = read(args.data / "dev.txt", numbers)
    trees = trees[: args.trees]
    p = params(rng, len(numbers) + 1, args.size)
    both = {OURS: Ours(p, args.rate), TORCH: Torch(p, args.rate)}
    start = {name: w.copy() for name, w in leaves(p)}
    begun = time.perf_counter()
    with progress("training", args.epochs * (len(trees) // args.batch)) as step:
        told = train(both, trees, held, args, rng, step)
    moved = max(float(np.abs(w - start[name]).max()) for name, w in leaves(p))
    result = {
        "machine": machine(), "trees": len(trees), "held out": len(held), "epochs": args.epochs, "size": args.size,
        "batch": args.batch, "rate": args.rate, "seed": args.seed, "largest change of a weight": moved,
        "minutes": (time.perf_counter() - begun) / 60,
    }  # fmt: skip
    print("\n" + curves_text(loss_panels(told)) + "\n")
    for name, t in told.items():
        first, *rest = t.pop("seconds")
        t |= {"first step": first, "other steps": sum(rest), "median step": float(np.median(rest or [first]))}
        print(
            f"{name:16} dev accuracy {t['accuracy'][-1]:.4f}, as acronumba in {t['same']:.1%};"
            f" {t['other steps']:.1f} s in {len(rest)} steps, {t['median step'] * 1e3:.1f} ms each; first {first:.1f} s"
        )
        t["losses"] = [round(float(x), 5) for x in t["losses"]]
        result[name] = t
    if args.json:
        args.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    if args.plot:
        args.plot.write_text(curves_svg(loss_panels(told)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
