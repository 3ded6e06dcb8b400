"""Train a Tree-LSTM: on films that were liked or not, or on functions of Python's library.

    python examples/train_tree_lstm.py                  which module is a function from?
    python examples/train_tree_lstm.py --data FOLDER    train.txt and dev.txt of the Stanford Sentiment Treebank

Every phrase that has a label counts (Tai, Socher and Manning 2015): in the treebank all of them, else the root.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acronumba import init, model, nn, optim, pack, save, training
from acronumba.zoo.data import binarised, function_syntax, python_modules, word_id

VOCABULARY = 4096
CLASSES = 5


@dataclass
class Tree:
    label: int = -1  # a class, or -1: none
    word: int = -1  # a leaf's number
    left: "Tree | None" = None
    right: "Tree | None" = None


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w_leaf: np.ndarray  # [3H, H]: gates i, o, u
    b_leaf: np.ndarray  # [3H]
    w: np.ndarray  # [5H, 2H]: gates i, f of the left, f of the right, o, u
    b: np.ndarray  # [5H]
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def cell(t: Tree, p: Params):
    """The state and memory of a phrase, and the loss of all phrases in it."""
    if t.left is None:
        i, o, u = np.split(p.w_leaf @ p.embed[t.word] + p.b_leaf, 3)
        c = nn.sigmoid(i) * np.tanh(u)
        h = nn.sigmoid(o) * np.tanh(c)
        return h, c, phrase_loss(h, t.label, p)
    hl, cl, left = cell(t.left, p)
    hr, cr, right = cell(t.right, p)
    i, fl, fr, o, u = np.split(p.w @ np.concatenate([hl, hr]) + p.b, 5)
    c = nn.sigmoid(i) * np.tanh(u) + nn.sigmoid(fl) * cl + nn.sigmoid(fr) * cr
    h = nn.sigmoid(o) * np.tanh(c)
    return h, c, left + right + phrase_loss(h, t.label, p)


def phrase_loss(h, label: int, p: Params):
    return nn.cross_entropy(p.w_out @ h + p.b_out, label) if label >= 0 else np.float32(0)


@model
def loss(t: Tree, *, p: Params):
    return cell(t, p)[2]


@model
def classify(t: Tree, *, p: Params):
    return p.w_out @ cell(t, p)[0] + p.b_out


def params(rng: np.random.Generator, size: int) -> Params:
    forget = np.zeros(5 * size, np.float32)
    forget[size : 3 * size] = 1.0  # at first, remember
    return Params(
        embed=init.normal(rng, (VOCABULARY, size), 0.3),
        w_leaf=init.glorot(rng, (3 * size, size)),
        b_leaf=np.zeros(3 * size, np.float32),
        w=init.glorot(rng, (5 * size, 2 * size)),
        b=forget,
        w_out=init.glorot(rng, (CLASSES, size)),
        b_out=np.zeros(CLASSES, np.float32),
    )


def read_treebank(path: Path) -> list[Tree]:
    """Read lines such as ``(3 (2 It) (4 (2 is) (3 good)))``."""

    def tree(tokens: list[str]) -> Tree:
        tokens.pop()  # the bracket
        t = Tree(label=int(tokens.pop()))
        if tokens[-1] == "(":
            t.left, t.right = tree(tokens), tree(tokens)
        else:
            t.word = word_id(tokens.pop(), VOCABULARY)
        tokens.pop()
        return t

    lines = path.read_text(encoding="utf-8").replace("(", " ( ").replace(")", " ) ").split("\n")
    tokens = ([token for token in line.split(" ") if token] for line in lines)  # words may hold other white space
    return [tree(found[::-1]) for found in tokens if found]


def functions(rng: np.random.Generator) -> tuple[list[Tree], list[Tree]]:
    """Functions of five modules of Python's library as trees over their names: what is trained on, what is held out."""

    def tree(syntax) -> Tree:
        if isinstance(syntax, str):
            return Tree(word=word_id(syntax, VOCABULARY))
        return Tree(left=tree(syntax[0]), right=tree(syntax[1]))

    trees = []
    for k, found in enumerate(python_modules(CLASSES).values()):
        for function in found:
            trees.append(tree(binarised(function_syntax(function))))
            trees[-1].label = k
    trees = [trees[k] for k in rng.permutation(len(trees))]
    return trees[150:], trees[:150]


def accuracy(trees: list[Tree], p: Params) -> float:
    scores = classify.batch(trees, p=p).stack()
    return float(np.mean(scores.argmax(axis=1) == [t.label for t in trees]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a Tree-LSTM.")
    parser.add_argument("--data", type=Path, help="a folder with train.txt and dev.txt of the treebank")
    parser.add_argument("--steps", type=int, default=300, help="mini-batches at most")
    parser.add_argument("--size", type=int, default=64, help="of states")
    parser.add_argument("--batch", type=int, default=25, help="trees in a mini-batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where the best parameters go")
    parser.add_argument("--checkpoint", type=Path, help="written at every test, and resumed if it is there")
    parser.add_argument("--plot", type=Path, help="an SVG file for the curves")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    if args.data:
        trees, held = (read_treebank(args.data / name) for name in ("train.txt", "dev.txt"))
    else:
        trees, held = functions(rng)
    p = params(rng, args.size)
    few = trees[:4]
    assert np.allclose(loss.batch(few, p=p).stack(), [loss(t, p=p) for t in few], rtol=1e-4)  # batched is plain

    packed = pack(trees)
    opt = optim.Adam(2e-3)
    watch = training.Watch(args.steps, patience=5)
    if args.checkpoint and args.checkpoint.exists():
        training.resume(args.checkpoint, p, opt, watch, rng)
    with watch:
        while not watch.over:
            some = packed[rng.choice(len(packed), args.batch)]
            value, grads = loss.value_and_grad.batch(some, p=p)
            optim.clip(grads, 5.0)
            opt.update(p, grads)
            watch.took(value, instances=len(some))
            if watch.step % 30 == 0 or watch.step == args.steps:
                best = watch.tested(accuracy(held, p))
                if best and args.save:
                    save(args.save, p)
                if args.checkpoint:
                    training.checkpoint(args.checkpoint, p, opt, watch, rng)

    print(watch.curve())
    if args.plot:
        watch.plot(args.plot)


if __name__ == "__main__":
    main()
