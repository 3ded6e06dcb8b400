"""Any strategy gives the same bits."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from acronumba import Options, model, nn
from acronumba.errors import AcronumbaError
from acronumba.strategy import DEFAULT, Figures, Strategy
from tests.support.chosen import one_in
from tests.support.same_bits import bits

CHOICES: dict[str, tuple[Any, ...]] = {
    "tile_rows": (1, 2, 3, 5, 12),
    "panel_vectors": (0, 1, 2),
    "gates": (1, 2, 6),
    "lookups": (0, 384, 1 << 20),
    "turn_bytes": (0, 700_000, 1 << 30),
    "turn_rows": (0, 24, 1 << 30),
    "prefetch": (True, False),
    "rows": (1, 5, 48, 200),
    "heavy_bytes": (0, 1 << 22),
    "heavy_blocks": (1, 4),
    "group_nodes": (1, 7, 2016),
    "group_bytes": (1, 1 << 24),
    "alone_nodes": (1, 3, 512),
    "ragged_bytes": (1 << 12, 1 << 20),
    "dear": (0, 6, 100),
    "dear_places": (0, 64),
    "long": (1, 20, 1000),
    "tiled_elements": (0, 1 << 14, 1 << 30),
    "tile_bytes": (1 << 8, 1 << 17),
    "fewest_rows": (1, 8),
    "split": (True, False),
    "split_worth": (0.0, 4.0, 1e9),
    "split_node": (0.0, 25.0),
    "split_byte": (0.0, 0.1),
    "split_multiply": (0.01, 1.0),
    "split_function": (0.3, 100.0),
    "split_element": (0.05, 100.0),
    "row_elements": (0, 16, 1000),
    "table_rows": (0, 256),
    "refactor": (True, False),
    "without": ((), ("hoisted cells 84:20", "once cells 84:12"), ("moved attention 97:4",)),
    "unit": (1, 4000),
    "launch": (0, 400, 10**6),
    "figures": (None, Figures(), Figures(weights=1.0, multiply=5.0)),
}


def strategy(seed: int) -> Strategy:
    rng = random.Random(seed)
    return Strategy(**{name: rng.choice(found) for name, found in CHOICES.items()})


H = 40
RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


SHARED = {
    "w": normal(3 * H, 2 * H), "u": normal(H, H), "embed": normal(50, H), "each": normal(3, H, 2 * H), "mix": normal(H)
}  # fmt: skip


@model
def cells(words: list[int], *, w: Any, u: Any, embed: Any, each: Any, mix: Any) -> Any:
    """Return what comes of gates of two products, a chosen matrix, and a projection that no step carries."""
    h, out = mix, []
    for word in words:
        x = np.tanh(u @ embed[word])
        i, f, o = np.split(w @ np.concatenate([x, h]), 3)
        h = nn.sigmoid(o) * np.tanh(nn.sigmoid(f) * h + nn.sigmoid(i) * np.tanh(i))
        h = h + np.tanh(each[word % 3] @ np.concatenate([h, x]))
        out.append(nn.softmax(u @ h))
    return out


@model
def attention(x: np.ndarray, *, w: Any, u: Any, embed: Any, each: Any, mix: Any) -> Any:
    """Return an array of any length whose rows have seen each other."""
    q, k = x @ u, np.tanh(x @ u.T)
    return nn.softmax(q @ k.T / 6.0) @ nn.layer_norm(x, mix, mix)


COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "cells": (cells, [[int(n) for n in RNG.integers(0, 50, 1 + k % 9)] for k in range(30)]),
    "attention": (attention, [normal(n, H) for n in (1, 2, 7, 30, 61, 3)]),
}
WANTED: dict[str, list[Any]] = {}


@pytest.mark.parametrize(("name", "seed"), one_in(7, [(name, k) for k in range(8) for name in COLUMNS]))
def test_a_strategy_changes_no_bit(name: str, seed: int) -> None:
    f, column = COLUMNS[name]
    if name not in WANTED:
        WANTED[name] = [bits(r) for r in f.batch(column, **SHARED)]
    chosen = strategy(seed)
    for threads in (1, 2):
        found = f.with_options(strategy=chosen, threads=threads).batch(column, **SHARED)
        assert [bits(r) for r in found] == WANTED[name], chosen


def test_every_choice_is_drawn() -> None:
    of_options = {"vertical", "horizontal", "gather"}  # drawn in `test_combinations`
    assert CHOICES.keys() == {f.name for f in dataclasses.fields(Strategy)} - of_options
    for name, found in CHOICES.items():
        assert getattr(DEFAULT, name) in found, name


def test_options_say_what_is_decided() -> None:
    assert Options().decisions == DEFAULT
    assert Options(strategy=Strategy(rows=7), fuse=False).decisions == Strategy(rows=7, vertical=False)
    with pytest.raises(AcronumbaError, match="strategy"):
        Options(strategy=48)  # type: ignore[arg-type]


def test_a_strategy_is_part_of_what_is_compiled() -> None:
    f, column = COLUMNS["cells"]

    def kernels(chosen: Strategy | None) -> list[str]:
        stages = f.with_options(strategy=chosen).stages(column, **SHARED)
        return [stages[name] for name in stages if name.endswith("/cpu")]

    assert kernels(Strategy()) == kernels(None) != kernels(Strategy(rows=5))
