"""What type checkers know of models: checked by `make lint`, and by `tests/api/test_types.py`."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from acronumba import (
    Check,
    Explanation,
    Model,
    Packed,
    Results,
    Snapshot,
    Stages,
    Trace,
    ValueAndGrad,
    model,
    pack,
    value_and_grad,
    vjp,
)


@dataclass
class Tree:
    word: int


@model
def embed(t: Tree, *, p: np.ndarray) -> tuple[float, int]:
    return float(p[t.word]), t.word


@model(threads=1)
def depth(t: Tree) -> int:
    return t.word


P = np.ones(3)
assert_type(embed(Tree(1), p=P), tuple[float, int])
assert_type(embed.batch([Tree(1)], p=P), Results[tuple[float, int]])
assert_type(embed.batch([Tree(1)], p=P)[0], tuple[float, int])
assert_type(embed.batch([Tree(1)], p=P)[:1], Results[tuple[float, int]])
assert_type(depth(Tree(1)), int)
assert_type(depth.with_options(threads=2).on("cpu").batch([Tree(1)])[0], int)
assert_type(list(depth.batch([Tree(1)])), list[int])
assert_type(depth.batch([Tree(1)]).stack(), NDArray[Any])
assert_type(embed.batch([Tree(1)], p=P).stack(), Any)
assert_type(Results.of([1, 2]), Results[int])


def tested(m: Model[..., int], trees: Packed, p: Snapshot) -> tuple[Check, Explanation, Stages]:
    return m.check(trees, p=p), m.explain(trees, p=p), m.stages(trees, p=p)


assert_type(tested(depth, pack([Tree(1)]), pack({"p": P})), tuple[Check, Explanation, Stages])


@dataclass
class Params:
    w: np.ndarray


@model
def many(t: Tree, k: int, scale: float = 1.0, *, p: Params, bias: bool = True) -> np.ndarray:
    return p.w * t.word * k * scale


@model
def pair(x: np.ndarray, *, p: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return p["w"] @ x, x


@model
def loss(x: np.ndarray, y: int, *, p: Params) -> float:
    return float((p.w @ x - y) ** 2)


@model
def untyped(x, y, *, w):  # type: ignore[no-untyped-def]
    return w @ x


# What varies has a column, also what has a default; the rest is shared, by name.
trees, ones, p = [Tree(1)], [1], Params(P)
weights: dict[str, np.ndarray] = {"w": P}
assert_type(many.batch(trees, ones, p=p), Results[np.ndarray])
assert_type(many.batch(trees, ones, [0.5], p=p, bias=False).stack(), np.ndarray)
assert_type(many.trace(pack(trees), np.ones(1), p=pack(p)), Trace)
assert_type(pair.batch(np.ones((2, 3)), p=weights).stack(), tuple[np.ndarray, np.ndarray])
assert_type(untyped.batch(trees, ones, w=P).stack(), Any)
many.batch(trees, ones)  # type: ignore[call-overload] # pyright: ignore
many.batch(trees, p=p)  # type: ignore[call-overload] # pyright: ignore
many.check(trees, ones, [0.5], ones, p=p)  # type: ignore[call-overload] # pyright: ignore
untyped.explain(trees, ones, v=P)  # type: ignore[call-overload] # pyright: ignore
depth.with_options(schedul="agenda")  # type: ignore[call-arg] # pyright: ignore
model(threads="two")(pair.__wrapped__)  # type: ignore[call-overload] # pyright: ignore

# Gradients have the structure of the parameters.
value, grads = loss.value_and_grad.batch([P], ones, p=p)
assert_type(grads, Params)
assert_type(loss.value_and_grad.with_options(threads=1)(P, 1, p=p).grads, Params)
assert_type(value_and_grad(loss, reduce="sum").batch([P], ones, p=p).grads, Params)
assert_type(value_and_grad(loss, wrt="p.w").batch([P], ones, p=p).grads, Any)
assert_type(vjp(many).batch(trees, ones, p=p)[0], Results[np.ndarray])


def any_loss(f: ValueAndGrad) -> Any:
    return f.batch([P], ones, p=p).grads
