"""A union of classes and `match`: the value of logical formulas, each connective with weights of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Atom:
    name: int


@dataclass
class Not:
    inner: Formula


@dataclass
class And:
    parts: list[Formula]


@dataclass
class Implies:
    premise: Formula
    conclusion: Formula


Formula = Atom | Not | And | Implies


@dataclass
class Params:
    atoms: np.ndarray  # [A, H]
    w_not: np.ndarray  # [H, H]
    w_and: np.ndarray  # [H, H]
    w_implies: np.ndarray  # [H, 2H]
    out: np.ndarray  # [H]


def meaning(f: Formula, p: Params):
    match f:
        case Atom(name):
            return p.atoms[name]
        case Not(inner):
            return np.tanh(p.w_not @ meaning(inner, p))
        case And(parts):
            total = np.zeros_like(p.out)
            for part in parts:
                total = total + np.tanh(p.w_and @ meaning(part, p))
            return total / len(parts)
        case Implies(premise, conclusion):
            return np.tanh(p.w_implies @ np.concatenate([meaning(premise, p), meaning(conclusion, p)]))


@model
def truth(f: Formula, *, p: Params):
    return nn.sigmoid(np.dot(p.out, meaning(f, p)))


def random_formula(rng: np.random.Generator, depth: int) -> Formula:
    kind = int(rng.integers(4)) if depth else 0
    below = lambda: random_formula(rng, depth - 1)
    if kind == 0:
        return Atom(int(rng.integers(30)))
    if kind == 1:
        return Not(below())
    if kind == 2:
        return And([below() for _ in range(int(rng.integers(1, 4)))])
    return Implies(below(), below())


def main() -> None:
    rng, size = np.random.default_rng(3), 32
    normal = lambda *shape: (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    p = Params(normal(30, size), normal(size, size), normal(size, size), normal(size, 2 * size), normal(size) * 4)
    formulas = [random_formula(rng, 6) for _ in range(80)]

    one_by_one = [truth(f, p=p) for f in formulas]
    batched = truth.batch(formulas, p=p)
    assert np.allclose(batched.stack(), np.stack(one_by_one), rtol=1e-5, atol=1e-6)
    print(f"{len(formulas)} formulas, truth from {min(one_by_one):.2f} to {max(one_by_one):.2f}")


if __name__ == "__main__":
    main()
