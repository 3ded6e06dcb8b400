"""``acronumba demo --train``: training of a model, shown live, on data that every Python has.

In: functions of the modules of Python's standard library, which become trees. Out: lines, curves, and predictions for
held-out functions. Everything but the times is the same in every run with one seed.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from acronumba import model, nn, optim, pack, training
from acronumba.bench.demo import title
from acronumba.zoo import tree_lstm
from acronumba.zoo.data import function_syntax, python_modules
from acronumba.zoo.tree_lstm import Params, Tree, encode

STEPS = 200
BATCH = 32
SIZE = 64
HELD_OUT = 5  # of so many functions, one
EVERY = 25  # steps between two tests
SHOWN = 8  # functions at the end


@model
def loss(t: Tree, module: int, *, p: Params) -> Any:
    """Return the cross-entropy of the model's prediction of a function's module."""
    h, _ = encode(t, p)
    return nn.cross_entropy(p.w_out @ h + p.b_out, module)


def run(
    steps: int = STEPS, size: int = SIZE, seed: int = 0, plot: str | os.PathLike[str] | None = None, most: int = 10**6
) -> int:
    """Show the model and its data, train it, and show its predictions.

    Parameters
    ----------
    steps : int
        Mini-batches.
    size : int
        Hidden size H of the model.
    seed : int
        Seed of weights, of the held-out set, and of mini-batches.
    plot : path, optional
        An SVG file for the curves.
    most : int
        Largest number of functions of a module.

    Returns
    -------
    int
        0 if the accuracy on held-out functions has improved, else 1; 2 if the folder of `plot` does not exist.
    """
    if plot is not None and not Path(plot).absolute().parent.is_dir():
        print(f"no folder for {str(plot)!r}", file=sys.stderr)
        return 2
    started = time.perf_counter()
    title("The model: a Tree-LSTM and its loss, written for one tree")
    print(inspect.getsource(tree_lstm.encode))
    print(inspect.getsource(inspect.unwrap(loss)))

    title("The task: which module of Python's standard library is a function from?")
    rng = np.random.default_rng(seed)
    modules = python_modules(tree_lstm.CLASSES)
    functions = [(f, k) for k, found in enumerate(modules.values()) for f in found[:most]]
    functions = [functions[k] for k in rng.permutation(len(functions))]
    trees = [tree_lstm.tree(function_syntax(f)) for f, _ in functions]
    labels = [k for _, k in functions]
    held = len(trees) // HELD_OUT
    print(f"{', '.join(modules)}: {len(trees):,} functions, their names and constants in binary trees;")
    print(f"{held} are held out. H = {size}, Adam, mini-batches of {BATCH}.\n")

    title("Learning")
    p = tree_lstm.params(size, seed)
    watch = _train(p, (trees[held:], labels[held:]), (trees[:held], labels[:held]), steps, rng)
    print(f"\n{watch.curve(height=8)}\n")
    if plot is not None:
        watch.plot(plot)

    title("Functions that it has not seen")
    names = list(modules)
    for (f, k), y in zip(functions[:SHOWN], tree_lstm.sentiment.batch(trees[:SHOWN], p=p), strict=False):
        said = int(np.argmax(y))
        verdict = "right" if said == k else f"wrong: it is from {names[k]}"
        print(f"{f'def {f.name}':<36} {names[said]:<16} {float(y[said]):4.0%}   {verdict}")
    print(f"\n{time.perf_counter() - started:.0f} seconds in all, with compiling, or loading what was compiled before.")
    return 0 if watch.tests[-1][1] > watch.tests[0][1] else 1


def _train(p: Params, seen: Any, held: Any, steps: int, rng: np.random.Generator) -> training.Watch:
    """Train; the first test is before the first step."""
    packed, labels = pack(seen[0]), np.asarray(seen[1])
    opt = optim.Adam(3e-3)
    watch = training.Watch(steps, measure="accuracy")
    with watch:
        watch.tested(_accuracy(p, *held))
        while not watch.over:
            some = rng.choice(len(packed), min(BATCH, len(packed)), replace=False)
            value, grads = loss.value_and_grad.batch(packed[some], labels[some], p=p)
            optim.clip(grads, 5.0)
            opt.update(p, grads)
            watch.took(value, instances=len(some))
            if watch.step % EVERY == 0 or watch.over:
                watch.tested(_accuracy(p, *held))
    return watch


def _accuracy(p: Params, trees: list[Tree], labels: list[int]) -> float:
    said = tree_lstm.sentiment.batch(trees, p=p).stack().argmax(axis=1)
    return float(np.mean(said == np.array(labels)))
