"""Random programs, without random decisions of the analyses: the same bits.

Programs have a recursion over a tree and loops over words, of matrix products with shared weights, chosen
weights and rows of tables: what is hoisted, moved out of loops, computed once for all, or by the callee.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from acronumba.bench.tune_model import bits_of, decisions_of
from acronumba.strategy import Strategy
from tests.support.chosen import one_in
from tests.support.modules import import_file

H = 8
HEAD = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from acronumba import model

@dataclass
class Tree:
    word: int = 0
    left: Tree | None = None
    right: Tree | None = None

@dataclass
class P:
    e: np.ndarray
    ws: list[np.ndarray]
    wide: list[np.ndarray]
    big: np.ndarray
    b: np.ndarray

"""


def vector(rng: random.Random, depth: int = 0) -> str:
    """Return an expression of H elements over h, g, x, w and p."""
    inner = lambda: vector(rng, depth + 1)
    kind = rng.random()
    if depth > 2 or kind < 0.2:
        return rng.choice(["h", "g", "x", "p.e[w]", "p.b"])
    if kind < 0.5:
        return f"(p.ws[{rng.randrange(4)}] @ {inner()})"
    if kind < 0.6:
        return f"(p.wide[{rng.randrange(2)}] @ np.concatenate([{inner()}, {inner()}]))"
    if kind < 0.75:
        return f"np.tanh({inner()})"
    return f"(p.big[w] @ {inner()})" if kind < 0.8 else f"({inner()} {rng.choice('+*-')} {inner()})"


def program(rng: random.Random) -> str:
    """Return the source of a model `f` of a tree and words."""
    one = lambda: vector(rng, 1)
    lines = ["def helper(h, g, x, w, p):", f"    return {one()}", "", "def rec(t, p):", "    h = g = x = p.b"]
    lines += ["    w = t.word", "    if t.left is None or t.right is None:", f"        return {one()}"]
    lines += ["    g = rec(t.left, p)", "    h = rec(t.right, p)", f"    return np.tanh({vector(rng)})", "", "@model"]
    lines += ["def f(t: Tree, words: list[int], *, p: P):", "    g = x = p.b", "    w, out = 0, []"]
    lines += ["    h = rec(t, p)" if rng.random() < 0.5 else "    h = p.b", "    for w in words:"]
    for _ in range(rng.randint(1, 3)):
        v, kind = rng.choice("hgx"), rng.random()
        if kind < 0.5:
            lines.append(f"        {v} = np.tanh({vector(rng)})")
        elif kind < 0.65:
            lines.append(f"        {v} = np.tanh(helper(h, g, x, w, p))")
        elif kind < 0.8:
            lines += ["        for other in words:", f"            {v} = np.tanh({vector(rng)} + p.e[other])"]
        else:
            lines += ["        if w % 2 == 0:", f"            {v} = np.tanh({vector(rng)})"]
    lines += [f"        out.append({one()})"] * (rng.random() < 0.6)
    return HEAD + "\n".join([*lines, f"    return out, h, np.tanh({one()})"]) + "\n"


def tree(module: ModuleType, rng: random.Random, leaves: int) -> Any:
    word = rng.randrange(12)
    if leaves == 1:
        return module.Tree(word)
    left = rng.randrange(1, leaves)
    return module.Tree(word, tree(module, rng, left), tree(module, rng, leaves - left))


@pytest.mark.parametrize("seed", one_in(8, one_in(2, range(16), mark="slow")))
def test_any_decisions_may_be_left_out(tmp_path: Path, seed: int) -> None:
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    path = tmp_path / f"decisions_{seed}.py"
    path.write_text(program(rng), encoding="utf-8")
    module = import_file(path, f"random_decisions_{seed}")
    normal = lambda *shape: (noise.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    ws, wide = [normal(H, H) for _ in range(4)], [normal(H, 2 * H) for _ in range(2)]
    p = module.P(normal(rng.choice([12, 300, 300]), H), ws, wide, normal(12, H, H), normal(H))
    trees = [tree(module, rng, rng.choice([1, 2, 4, 7])) for _ in range(5)]
    words = [[rng.randrange(12) for _ in range(rng.choice([0, 1, 3, 5]))] for _ in trees]
    f = module.f.with_options(threads=1)
    want = bits_of(f.batch(trees, words, p=p))
    plan = f._compiled([trees, words], {"p": p}).plan
    keys = [changes["without"][0] for changes in decisions_of(plan.notes).values()]
    for share in (0.3, 0.9):
        without = tuple(key for key in keys if rng.random() < share)
        if without:
            assert bits_of(f.with_options(strategy=Strategy(without=without)).batch(trees, words, p=p)) == want, without
