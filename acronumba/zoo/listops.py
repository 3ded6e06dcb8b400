"""Tree-LSTM that reads ListOps (Nangia & Bowman 2018): nested lists of digits under MIN, MAX, MED and SM.

In: an expression, as ``[MAX 2 9 [MIN 4 7] 0]``. Out: the probabilities of the ten digits that its value can be. An
expression has any number of arguments, each a digit or an expression: a loop inside a recursion. As in the paper's
trees, the operator is composed with one argument after another and at last with the closing bracket.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 128, "large": 256}  # H
CLASSES = 10  # C
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
SYMBOLS = (*"0123456789", *OPERATORS, "]")  # V of them
CLOSE = SYMBOLS.index("]")
ARGUMENTS = (2, 5)
DEPTH = 6


@dataclass
class Expression:
    symbol: int  # index into SYMBOLS: a digit, or an operator
    arguments: list[Expression] = field(default_factory=list)  # of an operator


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w_leaf: np.ndarray  # [3H, H]: gates i, o, u
    b_leaf: np.ndarray  # [3H]
    w: np.ndarray  # [5H, 2H]: gates i, f of the left, f of the right, o, u
    b: np.ndarray  # [5H]
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def leaf(symbol: int, p: Params) -> tuple[Array, Array]:
    """Return state h and memory c of a symbol, float32[H] each."""
    i, o, u = np.split(p.w_leaf @ p.embed[symbol] + p.b_leaf, 3)
    c = nn.sigmoid(i) * np.tanh(u)
    return nn.sigmoid(o) * np.tanh(c), c


def compose(hl: Array, cl: Array, hr: Array, cr: Array, p: Params) -> tuple[Array, Array]:
    """Return state h and memory c of two parts together, float32[H] each."""
    i, fl, fr, o, u = np.split(p.w @ np.concatenate([hl, hr]) + p.b, 5)
    c = nn.sigmoid(i) * np.tanh(u) + nn.sigmoid(fl) * cl + nn.sigmoid(fr) * cr
    return nn.sigmoid(o) * np.tanh(c), c


def encode(e: Expression, p: Params) -> tuple[Array, Array]:
    """Return state h and memory c of an expression, float32[H] each."""
    h, c = leaf(e.symbol, p)
    if e.symbol < 10:
        return h, c
    for argument in e.arguments:
        ha, ca = encode(argument, p)
        h, c = compose(h, c, ha, ca, p)
    hc, cc = leaf(CLOSE, p)
    return compose(h, c, hc, cc, p)


@model
def classify(e: Expression, *, p: Params) -> Array:
    """Return the probabilities of the values, float32[C]."""
    h, _ = encode(e, p)
    return nn.softmax(p.w_out @ h + p.b_out)


def value(e: Expression) -> int:
    """Return the value of an expression, 0 to 9: the class to be learned."""
    if e.symbol < 10:
        return e.symbol
    values = [value(a) for a in e.arguments]
    operator = SYMBOLS[e.symbol]
    if operator == "[MIN":
        return min(values)
    if operator == "[MAX":
        return max(values)
    return int(statistics.median(values)) if operator == "[MED" else sum(values) % 10


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        embed=normal(rng, len(SYMBOLS), h),
        w_leaf=normal(rng, 3 * h, h),
        b_leaf=normal(rng, 3 * h),
        w=normal(rng, 5 * h, 2 * h),
        b=normal(rng, 5 * h),
        w_out=normal(rng, CLASSES, h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0) -> list[Expression]:
    """Return `n` random expressions of 2 to 5 arguments, at most 6 deep, one argument in four an expression."""
    rng = random.Random(seed)

    def expression(depth: int) -> Expression:
        arguments = [
            expression(depth - 1) if depth > 1 and rng.random() < 0.25 else Expression(rng.randrange(10))
            for _ in range(rng.randint(*ARGUMENTS))
        ]
        return Expression(SYMBOLS.index(rng.choice(OPERATORS)), arguments)

    return [expression(DEPTH) for _ in range(n)]


def read(path: str | PathLike[str]) -> list[Expression]:
    """Read a file of ListOps: in each line a label, a tab and an expression, as ``5	( ( ( [MAX 5 ) 2 ) ] )``.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    list of Expression
        Without the labels, which `value` gives too.

    Raises
    ------
    ValueError
        Where a line is not an expression; the message has the file and the line.
    """
    with open(path, encoding="utf-8") as lines:
        return [_read_expression(line, f"{path}:{k}") for k, line in enumerate(lines, 1) if line.strip()]


def _read_expression(line: str, where: str) -> Expression:
    _, _, text = line.rpartition("\t")
    root = Expression(-1)
    stack = [root]
    for token in text.split():
        if token in "()":  # the brackets of the binary tree, which follow from the others
            continue
        if token not in SYMBOLS:
            raise ValueError(f"{where}: not an expression of ListOps: {token!r}")
        if token == "]":
            if len(stack) == 1 or not stack.pop().arguments:
                raise ValueError(f"{where}: not an expression of ListOps: a list is closed that has no beginning")
            continue
        part = Expression(SYMBOLS.index(token))
        stack[-1].arguments.append(part)
        if part.symbol >= 10:
            stack.append(part)
    if len(stack) != 1 or len(root.arguments) != 1:
        raise ValueError(f"{where}: not an expression of ListOps: the brackets do not match")
    return root.arguments[0]
