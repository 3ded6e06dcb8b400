"""Random programs that call operations of the tests' own, in branches and loops."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.support.fuzz import load

VECTORS = (
    "np.tanh({v})", "{v} * -1.25", "{v}[::-1]", "{v} + {s}", "decay({v})", "decay({v}, -0.5)", "decay(c=0.25, x={v})",
    "spread({v}, k)[0]", "spread({v}, 1)[1][:, 1]", "np.concatenate([{v}, {w}])[:6]", "{v}[1:]", "decay({v}[:3])",
    "decay(np.concatenate([{v}, {w}]))[:5]", "p * {s}", "decay(p)", "spread(p, 1)[0]", "{v}.copy()",
)  # fmt: skip
NUMBERS = ("{v}.sum()", "decay({v}).sum() * 0.5", "np.tanh({s})", "{s} * 0.5", "spread({v}, 2)[1].sum()", "np.sin({s})")
TESTS = ("k > 1", "len(x) > 3", "{s} > 0.1", "spread({v}, k)[2] > 4")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def one(self, forms: tuple[str, ...], vectors: list[str], numbers: list[str]) -> str:
        pick = self.random.choice
        return pick(forms).format(v=pick(vectors), w=pick(vectors), s=pick(numbers))

    def block(self, vectors: list[str], numbers: list[str], depth: int, pad: str) -> tuple[list[str], str, str]:
        """Return statements, and the last vector and number that they assign."""
        vectors, numbers, out = [*vectors], [*numbers], []
        for _ in range(self.random.randint(1, 4)):
            x, s, kind = self.new(), self.new(), self.random.random()
            if kind < 0.7 or not depth:
                vector = kind < 0.4
                out.append(f"{pad}{x} = {self.one(VECTORS if vector else NUMBERS, vectors, numbers)}")
                (vectors if vector else numbers).append(x)
                continue
            out += [f"{pad}{x}, {s} = {self.random.choice(vectors)}, {self.random.choice(numbers)}"]
            loops = self.random.random() < 0.5
            head = "for i in range(k)" if loops else f"if {self.one(TESTS, vectors, numbers)}"
            lines, last, number = self.block([*vectors, x], [*numbers, s], depth - 1, pad + "    ")
            bound = f"{x}, {s} = np.tanh({last})[:6], np.tanh({number})" if loops else f"{x}, {s} = {last}, {number}"
            out += [f"{pad}{head}:", *lines, f"{pad}    {bound}"]
            vectors.append(x)
            numbers.append(s)
        return out, vectors[-1], numbers[-1]


def program(seed: int, folder: Path, loss: bool = False) -> Any:
    """Return a random function of a vector, another, an int and a shared vector; `loss`: of one float."""
    writer = _Writer(seed)
    lines, x, s = writer.block(["x", "y"], ["z"], 2, "    ")
    result = f"{s} + {x}.sum()" if loss else f"{s}, {x}, spread({x}, k)"
    head = ["import numpy as np", "from tests.support.own_operations import decay, spread", ""]
    body = ["def f(x, y, k: int, *, p):", "    z = np.sum(x) * 0.1", *lines, f"    return {result}", ""]
    return load("\n".join([*head, *body]), folder).f
