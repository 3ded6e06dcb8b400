"""Expressions as plain tuples, each read by a network that grows with it (after Allamanis et al. 2017).

In: nested tuples and lists, as a parser makes them, without classes. Out: the probabilities of six places where such
an expression may stand. A `match` over five forms inside a recursion, weights in a dict that is asked by names in the
data, and numbers in the data that enter the vectors. The labels are the places where the expressions were found.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from acronumba import model, nn
from acronumba.generics import Value
from acronumba.zoo.data import Array, hidden_size, normal, python_functions, vectors, word_id

Expression: TypeAlias = tuple[Value, ...]  # ("number", 2.0), ("name", 17) or a form with an operator, as in `encode`

SIZES = {"small": 256, "large": 512}  # H
PLACES = ("tested", "assigned", "returned", "iterated", "raised", "alone")
CLASSES = len(PLACES)  # C
VOCABULARY = 4096  # V: names and strings, hashed
PARTS = (3, 64)  # expressions with fewer or more parts are left out
_KINDS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr)
OPERATORS = tuple(
    sorted(k for k, c in vars(ast).items() if k[0].isupper() and isinstance(c, type) and issubclass(c, _KINDS))
)


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    operators: dict[str, np.ndarray]  # [H] each
    w_number: np.ndarray  # [H]
    b_number: np.ndarray  # [H]
    w_unary: np.ndarray  # [H, H]
    w: np.ndarray  # [H, 2H]: of the left and the right operand
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def combine(operator: Array, left: Array, right: Array, p: Params) -> Array:
    """Return the vector of an operator with two operands, float32[H]."""
    return np.tanh(operator + p.w @ np.concatenate([left, right]))


def encode(e: Expression, p: Params) -> Array:
    """Return the vector of an expression, float32[H]."""
    match e:
        case ("number", value):
            size = np.float32(np.sign(value) * np.log1p(abs(value)))
            return np.tanh(p.w_number * size + p.b_number)
        case ("name", word):
            return p.embed[word]
        case ("unary", name, operand):
            return np.tanh(p.operators[name] + p.w_unary @ encode(operand, p))
        case ("binary", name, left, right):
            return combine(p.operators[name], encode(left, p), encode(right, p), p)
        case (_, name, parts):  # f(x, y) as (f x) y
            operator = p.operators[name]
            state = operator
            for part in parts:
                state = combine(operator, state, encode(part, p), p)
            return state


@model
def classify(e: Expression, *, p: Params) -> Array:
    """Return the probabilities of the places, float32[C]."""
    return nn.softmax(p.w_out @ encode(e, p) + p.b_out)


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        embed=normal(rng, VOCABULARY, h),
        operators={name: normal(rng, h) for name in OPERATORS},
        w_number=vectors(rng, h),
        b_number=vectors(rng, h),
        w_unary=normal(rng, h, h),
        w=normal(rng, h, 2 * h),
        w_out=normal(rng, CLASSES, h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0) -> list[Expression]:
    """Return `n` expressions of Python's standard library."""
    return [e for e, _ in examples(n, seed)]


def examples(n: int, seed: int = 0) -> list[tuple[Expression, int]]:
    """Return `n` expressions of Python's standard library, each with its place, an index into `PLACES`."""
    found = [x for f in python_functions(n, seed) for x in read(f)]
    random.Random(seed).shuffle(found)
    return [found[k % len(found)] for k in range(n)]


def read(tree: ast.AST) -> list[tuple[Expression, int]]:
    """Return the expressions of a syntax tree that are no parts of others, with their places."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.If(test=value) | ast.While(test=value) | ast.Assert(test=value):
                place = "tested"
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                place = "assigned"
            case ast.Return(value=ast.expr() as value):
                place = "returned"
            case ast.For(iter=value):
                place = "iterated"
            case ast.Raise(exc=ast.expr() as value):
                place = "raised"
            case ast.Expr(value=value):
                place = "alone"
            case _:
                continue
        if PARTS[0] <= sum(isinstance(part, ast.expr) for part in ast.walk(value)) <= PARTS[1]:
            found.append((expression(value), PLACES.index(place)))
    return found


def expression(node: ast.AST) -> Expression:
    """Return a syntax node as nested tuples."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e30:
            return "number", float(value)
        case ast.Constant(value=value):
            return _name(repr(value))
        case ast.Name(id=name):
            return _name(name)
        case ast.UnaryOp(op=op, operand=operand):
            return "unary", _kind(op), expression(operand)
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return "binary", _kind(op), expression(left), expression(right)
        case ast.Attribute(value=value, attr=name):
            return "binary", "Attribute", expression(value), _name(name)
        case ast.Subscript(value=value, slice=index):
            return "binary", "Subscript", expression(value), expression(index)
        case ast.BoolOp(op=op, values=values):
            return "many", _kind(op), [expression(value) for value in values]
    return "many", _kind(node), [expression(part) for part in _parts(node)]


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the nearest expressions below a node: the function of a call, its arguments, values of keywords."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            yield part
        else:
            yield from _parts(part)


def _kind(node: ast.AST) -> str:
    return type(node).__name__


def _name(text: str) -> Expression:
    return "name", word_id(text, VOCABULARY)
