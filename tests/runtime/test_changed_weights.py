"""Weights that are not packed may change in place between any two calls: every change is seen, to the last bit.

The property: the results are those of the same model without anything prepared before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.memory import same_bytes
from acronumba.runtime import shared


@dataclass
class Weights:
    w: np.ndarray  # in products of both sides, so in several layouts
    u: np.ndarray  # of another dtype than the state
    embed: np.ndarray  # read in place
    scale: np.ndarray  # in what is computed once
    b: np.ndarray
    turned: np.ndarray  # not contiguous


def step(words: list[int], *, p: Weights):
    h = p.b
    for word in words:
        h = np.tanh(p.w @ h + h @ p.w + (p.u.astype(np.float32) @ p.embed[word]) + (p.scale * p.b) + p.turned @ h)
    return h, p.w.T @ h


def made(rng: np.random.Generator, n: int) -> Weights:
    def normal(*shape: int) -> np.ndarray:
        return (0.3 * rng.standard_normal(shape)).astype(np.float32)

    square = normal(n, n)
    return Weights(square, normal(n, n).astype(np.float64), normal(9, n), normal(n), normal(n), normal(n, n).T)


def change(rng: random.Random, p: Weights) -> None:
    """Change one array in place, by a little, by much or not at all, or put another one in its place."""
    name = rng.choice([f.name for f in fields(p)])
    array = getattr(p, name)
    bits = array.view(f"u{array.itemsize}")
    place = tuple(rng.choice([0, n - 1, rng.randrange(n)]) for n in array.shape)
    match rng.randrange(8):
        case 0:  # one bit, of one element
            bits[place] ^= 1 << rng.randrange(8 * array.itemsize - 2)
        case 1:  # another zero
            array[place] = rng.choice([0.0, -0.0])
        case 2:  # NaNs of other bits
            bits[place] = {8: 0x7FF8 << 48, 4: 0x7FC00000}[array.itemsize] | rng.randrange(4)
        case 3:
            array *= array.dtype.type(0.5)
        case 4:  # what was there before
            array[place] = array[place]
        case 5:  # the same elements elsewhere
            setattr(p, name, array.copy(order="K"))
        case 6:  # two elements exchanged: no sum tells
            other = tuple(rng.randrange(n) for n in array.shape)
            bits[place], bits[other] = bits[other].copy(), bits[place].copy()
        case 7:
            p.w, p.turned = (p.turned.T.copy(), p.w.T) if rng.random() < 0.5 else (p.w, p.w.T)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 40))])
def test_every_change_in_place_is_seen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(shared, "_FEW", rng.choice([0, 1 << 12]))
    p, f = made(np.random.default_rng(seed), rng.choice([5, 16, 33])), model(step)
    prepared = []
    for _ in range(20):
        for _ in range(rng.randrange(3)):
            change(rng, p)
        words = [[rng.randrange(9) for _ in range(rng.randrange(1, 4))] for _ in range(rng.randrange(1, 4))]
        got = bytes_of(f.batch(words, p=p))
        values = f._entries[0].executable.shared
        prepared.append(values.recent[-1])
        held, values.recent = values.recent, []  # nothing is known
        fresh = bytes_of(f.batch(words, p=p))
        values.recent = held
        assert got == fresh
    assert len({*map(id, prepared)}) < len(prepared)  # some were not prepared anew


def bytes_of(results: Any) -> list[bytes]:
    return [a.tobytes() for pair in results for a in pair]


def test_an_array_is_compared_once_however_often_it_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    p, f = made(np.random.default_rng(0), 70), model(step)
    for _ in range(2):
        f.batch([[1, 2]], p=p)
    compared: list[int] = []

    def counted(a: Any, b: Any) -> bool:
        compared.append(id(b))
        return same_bytes(a, b)

    monkeypatch.setattr(shared, "same_bytes", counted)
    f.batch([[1, 2]], p=p)
    assert compared
    assert len(compared) == len(set(compared))


@pytest.mark.parametrize("without", [False, True])
def test_bytes_are_compared(without: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba import memory

    if without:
        monkeypatch.setattr(memory, "_compare", None)
        monkeypatch.setattr(memory, "_PIECE", 64)
    for n in (0, 1, 63, 64, 65, 1000):
        a = np.arange(n, dtype=np.float32).reshape(-1, 1)
        assert same_bytes(a, a.copy())
        for k in {0, n // 2, n - 1} if n else ():
            b = a.copy()
            b.view(np.uint8).reshape(-1)[4 * k + 3] ^= 128
            assert not same_bytes(a, b)
