"""Random numbers: dropout in a recursion over trees. Each node draws from a key of its own, a child of its parent's."""

from dataclasses import dataclass

import numpy as np

from acronumba import model, random


@dataclass
class Tree:
    word: int = -1
    left: "Tree | None" = None
    right: "Tree | None" = None


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [H, 2H]


def dropout(x: np.ndarray, key: random.Key, keep: float) -> np.ndarray:
    return np.where(random.bernoulli(key, keep, x.shape), x / keep, 0)


def encode(t: Tree, key: random.Key, keep: float, p: Params):
    if t.left is None:
        return dropout(p.embed[t.word], key, keep)
    left = encode(t.left, key.child(0), keep, p)
    right = encode(t.right, key.child(1), keep, p)
    return dropout(np.tanh(p.w @ np.concatenate([left, right])), key, keep)


@model
def sample(t: Tree, key: random.Key, *, keep: float, p: Params):
    return encode(t, key, keep, p)


def main() -> None:
    rng, size = np.random.default_rng(3), 24
    p = Params(
        embed=rng.standard_normal((50, size), np.float32),
        w=rng.standard_normal((size, 2 * size), np.float32) / np.float32(size) ** 0.5,
    )

    def random_tree(leaves: int) -> Tree:
        if leaves == 1:
            return Tree(word=int(rng.integers(50)))
        left = int(rng.integers(1, leaves))
        return Tree(left=random_tree(left), right=random_tree(leaves - left))

    trees = [random_tree(int(rng.integers(1, 15))) for _ in range(30)]
    keys = random.keys(2024, len(trees))
    batched = sample.batch(trees, keys, keep=0.75, p=p)
    for got, tree, key in zip(batched, trees, keys, strict=True):
        assert np.allclose(got, sample(tree, key, keep=0.75, p=p), rtol=1e-5, atol=1e-5)

    backwards = sample.batch(trees[::-1], keys[::-1], keep=0.75, p=p)
    assert all(np.array_equal(a, b) for a, b in zip(batched, list(backwards)[::-1], strict=True))
    zeros = np.mean([np.mean(x == 0) for x in batched])
    print(f"{zeros:.1%} of the numbers were dropped, the same ones in any order of the batch")


if __name__ == "__main__":
    main()
