"""A tree: the recursion follows the data of each instance, so no two instances do the same operations."""

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Tree:
    word: int = -1  # a leaf's number
    left: "Tree | None" = None
    right: "Tree | None" = None


@dataclass
class Params:
    embed: np.ndarray  # [100, 64]
    w: np.ndarray  # [64, 128]
    b: np.ndarray  # [64]
    w_out: np.ndarray  # [3, 64]


def encode(t: Tree, p: Params):
    if t.left is None:
        return p.embed[t.word]
    children = np.concatenate([encode(t.left, p), encode(t.right, p)])
    return np.tanh(p.w @ children + p.b)


@model
def classify(t: Tree, *, p: Params):
    return nn.softmax(p.w_out @ encode(t, p))


def random_tree(rng: np.random.Generator, leaves: int) -> Tree:
    if leaves == 1:
        return Tree(word=int(rng.integers(100)))
    left = int(rng.integers(1, leaves))
    return Tree(left=random_tree(rng, left), right=random_tree(rng, leaves - left))


def main() -> None:
    rng = np.random.default_rng(0)
    normal = lambda *shape: (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    p = Params(embed=normal(100, 64), w=normal(64, 128), b=normal(64), w_out=normal(3, 64))
    trees = [random_tree(rng, int(rng.integers(1, 30))) for _ in range(50)]

    one_by_one = [classify(t, p=p) for t in trees]  # plain Python and NumPy
    batched = classify.batch(trees, p=p)  # the same, batched by the compiler
    assert np.allclose(batched.stack(), np.stack(one_by_one), rtol=1e-5, atol=1e-6)

    trace = classify.trace(trees, p=p)
    print(f"{len(trees)} trees, {trace.nodes} nodes of the graph in {len(trace.batches)} batches")


if __name__ == "__main__":
    main()
