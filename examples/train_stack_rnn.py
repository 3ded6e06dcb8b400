"""Train a parser with two stack RNNs that decides by what it computes: which of Python's operators bind first?

An expression such as `name + name * int` is a list of words. The parser shifts them onto a stack, or makes one entry of
the two topmost. It is trained on its own way: it decides, learns from the decision, and goes on while it was right
(early update, Collins and Roark 2004). So how long an instance runs is computed, too.
"""

import argparse
import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acronumba import init, model, nn, optim, pack, save, training
from acronumba.zoo.cells import LSTM, lstm

SHIFT, REDUCE = 0, 1


@dataclass
class Expression:
    words: list[int]
    actions: list[int]  # that lead to its tree


@dataclass
class Entry:
    """What lies on a stack: taking it away leaves the state of the one below."""

    x: np.ndarray  # [H]: its vector
    h: np.ndarray  # [H]: state of the LSTM after it
    c: np.ndarray  # [H]


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    buffer: LSTM
    stack: LSTM
    start: np.ndarray  # [H]: the bottom of both
    join: np.ndarray  # [H, 2H]
    join_b: np.ndarray  # [H]
    hidden: np.ndarray  # [H, 3H]: of the two topmost entries and the first word of the buffer
    hidden_b: np.ndarray  # [H]
    w_out: np.ndarray  # [2, H]
    b_out: np.ndarray  # [2]


def push(below: Entry, x, cell: LSTM) -> Entry:
    h, c = lstm(cell, x, below.h, below.c)
    return Entry(x, h, c)


def read(words: list[int], p: Params) -> list[Entry]:
    """The buffer: its bottom, then the words from the last to the first."""
    buffer = [Entry(p.start, p.start, p.start)]
    for word in reversed(words):
        buffer.append(push(buffer[-1], p.embed[word], p.buffer))
    return buffer


def scores(stack: list[Entry], buffer: list[Entry], p: Params):
    x = np.concatenate([stack[-1].h, stack[-2].h, buffer[-1].h])
    return p.w_out @ np.tanh(p.hidden @ x + p.hidden_b) + p.b_out


def act(action: int, stack: list[Entry], buffer: list[Entry], p: Params) -> None:
    if action == SHIFT:
        x = buffer.pop().x
    else:
        right = stack.pop().x
        left = stack.pop().x
        x = np.tanh(p.join @ np.concatenate([left, right]) + p.join_b)
    stack.append(push(stack[-1], x, p.stack))


@model
def loss(e: Expression, *, p: Params):
    buffer, stack = read(e.words, p), [Entry(p.start, p.start, p.start)]
    total, decisions = np.float32(0), 0
    for action in e.actions:
        if len(stack) > 2 and len(buffer) > 1:  # else there is nothing to decide
            y = scores(stack, buffer, p)
            total = total + nn.cross_entropy(y, action)
            decisions += 1
            if int(np.argmax(y)) != action:  # here it waits for the value
                break
        act(action, stack, buffer, p)
    return total / max(decisions, 1)


@model
def parse(words: list[int], *, p: Params) -> list[int]:
    buffer, stack = read(words, p), [Entry(p.start, p.start, p.start)]
    actions = []
    while len(buffer) > 1 or len(stack) > 2:
        if len(stack) > 2 and len(buffer) > 1:
            action = int(np.argmax(scores(stack, buffer, p)))
        else:
            action = SHIFT if len(buffer) > 1 else REDUCE
        act(action, stack, buffer, p)
        actions.append(action)
    return actions


def params(rng: np.random.Generator, size: int, words: int) -> Params:
    def cell() -> LSTM:
        w, u = init.glorot(rng, (4 * size, size)), init.glorot(rng, (4 * size, size))
        return LSTM(w=w, u=u, b=np.zeros(4 * size, np.float32))

    return Params(
        embed=init.normal(rng, (words, size), 0.5),
        buffer=cell(),
        stack=cell(),
        start=np.zeros(size, np.float32),
        join=init.glorot(rng, (size, 2 * size)),
        join_b=np.zeros(size, np.float32),
        hidden=init.glorot(rng, (size, 3 * size)),
        hidden_b=np.zeros(size, np.float32),
        w_out=init.glorot(rng, (2, size)),
        b_out=np.zeros(2, np.float32),
    )


def binary(node: ast.AST):
    """An expression as nested pairs of words; what is no operation is a word."""
    operator = lambda op: ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[2:-2]
    match node:
        case ast.BinOp():
            return binary(node.left), (operator(node.op), binary(node.right))
        case ast.BoolOp():
            tree = binary(node.values[0])
            for value in node.values[1:]:
                tree = tree, (type(node.op).__name__.lower(), binary(value))
            return tree
        case ast.Compare(ops=[op], comparators=[right]):
            return binary(node.left), (type(op).__name__, binary(right))
        case ast.UnaryOp():
            return type(node.op).__name__, binary(node.operand)
        case ast.Constant():
            return type(node.value).__name__
    return type(node).__name__


def words_of(tree) -> list[str]:
    return [tree] if isinstance(tree, str) else [*words_of(tree[0]), *words_of(tree[1])]


def actions_of(tree) -> list[int]:
    return [SHIFT] if isinstance(tree, str) else [*actions_of(tree[0]), *actions_of(tree[1]), REDUCE]


def expressions() -> tuple[list[Expression], list[str]]:
    """Expressions of several operators in Python's library that need no brackets, each once, and their words."""
    found = {}
    for path in sorted(Path(ast.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp) and plain(node):
                tree = binary(node)
                if 4 <= len(words_of(tree)) <= 12:
                    found[str(tree)] = tree
    words = sorted({word for tree in found.values() for word in words_of(tree)})
    made = [Expression([words.index(w) for w in words_of(t)], actions_of(t)) for t in found.values()]
    return made, words


def plain(node: ast.AST) -> bool:
    """Whether an expression needs no brackets: without them it is parsed to the same."""

    def simple(node: ast.AST) -> ast.AST:
        match node:
            case ast.BinOp():
                return ast.BinOp(simple(node.left), node.op, simple(node.right))
            case ast.BoolOp():
                return ast.BoolOp(node.op, [simple(value) for value in node.values])
            case ast.Compare():
                return ast.Compare(simple(node.left), node.ops, [simple(value) for value in node.comparators])
            case ast.UnaryOp():
                return ast.UnaryOp(node.op, simple(node.operand))
        return ast.Name("a")

    return "(" not in ast.unparse(simple(node))


def accuracy(given: list[Expression], p: Params) -> float:
    """How many trees are right, every bracket of them."""
    said = parse.batch([e.words for e in given], p=p)
    return float(np.mean([list(a) == e.actions for a, e in zip(said, given, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a parser.")
    parser.add_argument("--steps", type=int, default=120, help="mini-batches at most")
    parser.add_argument("--size", type=int, default=32, help="of states")
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
            if watch.step % 20 == 0 or watch.step == args.steps:
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
