"""Nested functions, lambdas and methods: layers are values of plain Python, compiled together with the model."""

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Dense:
    w: np.ndarray  # [M, N]
    b: np.ndarray  # [M]

    def __call__(self, x):
        return self.w @ x + self.b


@dataclass
class Params:
    first: Dense
    middle: Dense
    last: Dense
    scale: np.ndarray  # [H]


def repeat(times: int, layer, x):
    for _ in range(times):
        x = layer(x)
    return x


@model
def refine(x: np.ndarray, times: int, *, p: Params, smooth: bool):
    activation = nn.gelu if smooth else nn.relu

    def block(h):
        return h + activation(p.middle(nn.layer_norm(h, p.scale)))

    h = repeat(times, block, p.first(x))
    return (lambda y: y / np.sqrt(np.sum(y * y) + 1e-6))(p.last(h))


def main() -> None:
    rng, size = np.random.default_rng(4), 40
    dense = lambda m, n: Dense(
        (rng.standard_normal((m, n)) / n**0.5).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    )
    p = Params(dense(size, 8), dense(size, size), dense(3, size), np.ones(size, np.float32))
    xs = rng.standard_normal((64, 8)).astype(np.float32)
    times = rng.integers(0, 10, 64).tolist()

    for smooth in (True, False):  # a shared bool is a constant of the compiled model
        one_by_one = [refine(x, n, p=p, smooth=smooth) for x, n in zip(xs, times, strict=True)]
        batched = refine.batch(xs, times, p=p, smooth=smooth)
        assert np.allclose(batched.stack(), np.stack(one_by_one), rtol=1e-4, atol=1e-5)
    print(f"{len(xs)} vectors, refined 0 to {max(times)} times each")


if __name__ == "__main__":
    main()
