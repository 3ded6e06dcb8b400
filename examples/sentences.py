"""Lists of different lengths: a GRU reads words until a full stop, and attention goes over all its states."""

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn

FULL_STOP = 0


@dataclass
class Gru:
    w: np.ndarray  # [3H, H]: of the word, for reset, update, new
    u: np.ndarray  # [3H, H]: of the last state
    b: np.ndarray  # [3H]


def step(x, h, cell: Gru):
    rx, zx, nx = np.split(cell.w @ x + cell.b, 3)
    rh, zh, nh = np.split(cell.u @ h, 3)
    z = nn.sigmoid(zx + zh)
    return (1 - z) * np.tanh(nx + nn.sigmoid(rx + rh) * nh) + z * h


@model
def summarise(words: list[int], *, embed: np.ndarray, cell: Gru, start: np.ndarray, query: np.ndarray):
    h = start
    states = [start]
    for word in words:
        if word == FULL_STOP:
            break
        h = step(embed[word], h, cell)
        states.append(h)
    weights = [np.exp(np.tanh(np.dot(state, query))) for state in states]
    total = np.zeros_like(start)
    for weight, state in zip(weights, states, strict=True):
        total = total + weight * state
    return total / sum(weights)


def main() -> None:
    rng, size = np.random.default_rng(1), 32
    normal = lambda *shape: (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    cell = Gru(w=normal(3 * size, size), u=normal(3 * size, size), b=normal(3 * size))
    shared = {"embed": normal(50, size), "cell": cell, "start": normal(size), "query": normal(size) * 3}
    sentences = [rng.integers(0, 50, int(rng.integers(0, 40))).tolist() for _ in range(40)]

    one_by_one = [summarise(words, **shared) for words in sentences]
    batched = summarise.batch(sentences, **shared)
    assert np.allclose(batched.stack(), np.stack(one_by_one), rtol=1e-5, atol=1e-5)
    print(f"{len(sentences)} sentences, {sum(map(len, sentences))} words")


if __name__ == "__main__":
    main()
