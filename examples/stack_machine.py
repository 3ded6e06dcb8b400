"""A stack machine: every instance is a program of its own, and the model is its interpreter.

The stack is an ordinary Python list made in the call; what lies on it are vectors.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from acronumba import model


class Do(Enum):
    PUSH = "push"
    ADD = "add"
    MIX = "mix"
    TWICE = "twice"


@dataclass
class Step:
    do: Do
    word: int = 0


@model
def run(program: list[Step], *, embed: np.ndarray, w: np.ndarray):
    stack = []
    for step in program:
        if step.do is Do.PUSH:
            stack.append(embed[step.word])
        elif step.do is Do.TWICE:
            stack.append(stack[-1])
        else:
            right = stack.pop()
            left = stack.pop()
            if step.do is Do.ADD:
                stack.append(left + right)
            else:
                stack.append(np.tanh(w @ np.concatenate([left, right])))
    return stack[-1], len(stack)


def random_program(rng: np.random.Generator, steps: int) -> list[Step]:
    program, height = [Step(Do.PUSH, 1)], 1
    for _ in range(steps):
        do = [Do.PUSH, Do.TWICE, Do.ADD, Do.MIX][int(rng.integers(4 if height > 1 else 2))]
        program.append(Step(do, int(rng.integers(20))))
        height += 1 if do in (Do.PUSH, Do.TWICE) else -1
    return program


def main() -> None:
    rng, size = np.random.default_rng(2), 48
    embed = rng.standard_normal((20, size)).astype(np.float32)
    w = (rng.standard_normal((size, 2 * size)) / size).astype(np.float32)
    programs = [random_program(rng, int(rng.integers(0, 50))) for _ in range(60)]

    one_by_one = [run(program, embed=embed, w=w) for program in programs]
    batched = run.batch(programs, embed=embed, w=w)
    for (top, height), (expected, expected_height) in zip(batched, one_by_one, strict=True):
        assert height == expected_height
        assert np.allclose(top, expected, rtol=1e-5, atol=1e-5)
    print(f"{len(programs)} programs, {sum(map(len, programs))} steps")


if __name__ == "__main__":
    main()
