"""Train a doubly recurrent network (Alvarez-Melis and Jaakkola 2017): it reads an expression and grows its syntax tree.

A GRU reads the words of an expression of Python's library, such as `name + name * int`, and from its last state the
network grows a tree from the top: which word each node has, whether it has children, whether it has another sibling.
In training the data says how the tree grows; afterwards the network decides, by what it computes.
"""

import argparse
import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acronumba import init, model, nn, optim, pack, save, training
from acronumba.zoo.cells import GRU, gru

LEVELS, SIBLINGS = 5, 4  # at most


@dataclass
class Node:
    word: int
    children: "list[Node]"


@dataclass
class Expression:
    words: list[int]
    tree: list[Node]  # the topmost node


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    reader: GRU
    ancestral: GRU  # from parent to child
    fraternal: GRU  # from sibling to sibling
    start: np.ndarray  # [H]: of the reader, and the fraternal state before the first sibling
    u_ancestral: np.ndarray  # [H, H]
    u_fraternal: np.ndarray  # [H, H]
    topology: np.ndarray  # [2, H]: for "has children", "has another sibling"
    topology_b: np.ndarray  # [2]
    w: np.ndarray  # [V, H]: for words
    b: np.ndarray  # [V]
    parent: np.ndarray  # [V]: added if there are children
    more: np.ndarray  # [V]: added if there is another sibling


def read(words: list[int], p: Params):
    h = p.start
    for word in words:
        h = gru(p.reader, p.embed[word], h)
    return h


def family_loss(ancestral, x, children: list[Node], p: Params):
    """The loss of the children of a node with all that is below them."""
    ancestral, fraternal = gru(p.ancestral, x, ancestral), p.start
    total = np.float32(0)
    for k, child in enumerate(children):
        parent, more = len(child.children) > 0, k + 1 < len(children)
        fraternal = gru(p.fraternal, x, fraternal)
        h = np.tanh(p.u_fraternal @ fraternal + p.u_ancestral @ ancestral)
        y = p.topology @ h + p.topology_b
        total = (
            total + nn.binary_cross_entropy(y[0], np.float32(parent)) + nn.binary_cross_entropy(y[1], np.float32(more))
        )
        total = total + nn.cross_entropy(p.w @ h + p.b + parent * p.parent + more * p.more, child.word)
        x = p.embed[child.word]
        if parent:
            total = total + family_loss(ancestral, x, child.children, p)
    return total


@model
def loss(e: Expression, *, p: Params):
    h = read(e.words, p)
    return family_loss(h, h, e.tree, p)


def family(ancestral, x, level: int, p: Params) -> list:
    """The children of a node with all that is below them: pairs of a word and its children."""
    ancestral, fraternal = gru(p.ancestral, x, ancestral), p.start
    nodes = []
    more = True
    while more:
        fraternal = gru(p.fraternal, x, fraternal)
        h = np.tanh(p.u_fraternal @ fraternal + p.u_ancestral @ ancestral)
        y = p.topology @ h + p.topology_b
        parent = level < LEVELS and float(y[0]) > 0  # here, and below, it waits for the value
        more = len(nodes) + 1 < SIBLINGS and float(y[1]) > 0
        word = int(np.argmax(p.w @ h + p.b + parent * p.parent + more * p.more))
        x = p.embed[word]
        nodes.append(Node(word, family(ancestral, x, level + 1, p) if parent else []))
    return nodes


@model
def grow(words: list[int], *, p: Params) -> list:
    h = read(words, p)
    return family(h, h, 1, p)


def params(rng: np.random.Generator, size: int, words: int) -> Params:
    def cell() -> GRU:
        w, u = init.glorot(rng, (3 * size, size)), init.glorot(rng, (3 * size, size))
        return GRU(w=w, u=u, b=np.zeros(3 * size, np.float32))

    return Params(
        embed=init.normal(rng, (words, size), 0.5),
        reader=cell(),
        ancestral=cell(),
        fraternal=cell(),
        start=np.zeros(size, np.float32),
        u_ancestral=init.glorot(rng, (size, size)),
        u_fraternal=init.glorot(rng, (size, size)),
        topology=init.glorot(rng, (2, size)),
        topology_b=np.zeros(2, np.float32),
        w=init.glorot(rng, (words, size)),
        b=np.zeros(words, np.float32),
        parent=np.zeros(words, np.float32),
        more=np.zeros(words, np.float32),
    )


def syntax(node: ast.AST) -> tuple:
    """An expression as words with their operands; what is no operation has none."""
    match node:
        case ast.BinOp():
            return type(node.op).__name__, [syntax(node.left), syntax(node.right)]
        case ast.BoolOp():
            return type(node.op).__name__, [syntax(value) for value in node.values[:SIBLINGS]]
        case ast.Compare(ops=[op], comparators=[right]):
            return type(op).__name__, [syntax(node.left), syntax(right)]
        case ast.UnaryOp():
            return type(node.op).__name__, [syntax(node.operand)]
        case ast.Constant():
            return type(node.value).__name__, []
    return type(node).__name__, []


def in_order(tree: tuple) -> list[str]:
    """The words as they stand in the program: an operator between its operands, or before its only one."""
    word, below = tree
    if len(below) < 2:
        return [word, *(w for child in below for w in in_order(child))]
    out = in_order(below[0])
    for child in below[1:]:
        out += [word, *in_order(child)]
    return out


def expressions() -> tuple[list[Expression], list[str]]:
    """Expressions of Python's library, each once, and their words."""
    found = {}
    for path in sorted(Path(ast.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp):
                tree = syntax(node)
                if 3 <= len(in_order(tree)) <= 6:
                    found[" ".join(in_order(tree))] = tree  # what differs by brackets alone is there once
    words = sorted({word for text in found for word in text.split()})
    node = lambda tree: Node(words.index(tree[0]), [node(child) for child in tree[1]])
    return [Expression([words.index(w) for w in text.split()], [node(t)]) for text, t in found.items()], words


def accuracy(given: list[Expression], p: Params) -> float:
    """How many trees are right, every word of them."""
    return float(
        np.mean([list(a) == e.tree for a, e in zip(grow.batch([e.words for e in given], p=p), given, strict=True)])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network that grows trees.")
    parser.add_argument("--steps", type=int, default=400, help="mini-batches at most")
    parser.add_argument("--size", type=int, default=64, help="of states")
    parser.add_argument("--batch", type=int, default=32, help="expressions in a mini-batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where the best parameters go")
    parser.add_argument("--checkpoint", type=Path, help="written at every test, and resumed if it is there")
    parser.add_argument("--plot", type=Path, help="an SVG file for the curves")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    given, words = expressions()
    given = [given[k] for k in rng.permutation(len(given))]
    held, given = given[:150], given[150:]
    p = params(rng, args.size, len(words))
    few = given[:4]
    assert np.allclose(loss.batch(few, p=p).stack(), [loss(e, p=p) for e in few], rtol=1e-4)  # batched is plain

    packed = pack(given)
    opt = optim.Adam(5e-3)
    watch = training.Watch(args.steps, patience=5, measure="trees right")
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
