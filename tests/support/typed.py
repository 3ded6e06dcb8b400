"""What type checkers know of models: checked by `make lint`, and by `tests/api/test_types.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np

from acronumba import Check, Explanation, Model, Packed, Results, Snapshot, Stages, model, pack


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
assert_type(depth.batch([Tree(1)]).stack(), Any)
assert_type(Results.of([1, 2]), Results[int])


def tested(m: Model[..., int], trees: Packed, p: Snapshot) -> tuple[Check, Explanation, Stages]:
    return m.check(trees, p=p), m.explain(trees, p=p), m.stages(trees, p=p)


assert_type(tested(depth, pack([Tree(1)]), pack({"p": P})), tuple[Check, Explanation, Stages])
