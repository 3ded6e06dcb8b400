"""Random programs over small formulas: tuples that begin with their form, and hold keys, indices or formulas."""

from __future__ import annotations

import random
from typing import Any

HEADER = """import numpy as np

TABLE = np.arange(8.0)
NAMES = {"p": 1.0, "q": -1.0, "r": 0.25}
ROWS = {name: np.full(2, x) for name, x in NAMES.items()}


"""
LEAVES = {  # what a leaf holds, and its value
    "index": ("TABLE[{}]", lambda rand: rand.randrange(8)),
    "key": ("NAMES[{}]", lambda rand: rand.choice("pqr")),
    "number": ("{} * 2.0", lambda rand: float(rand.randint(-4, 4))),
    "row": ("ROWS[{}].sum()", lambda rand: rand.choice("pqr")),
    "text": ("len({}) * 0.5", lambda rand: rand.choice(("a", "bc", ""))),
}
PARTS = (*LEAVES, "child", "children")


class Forms:
    """Forms by name, with what their tuples hold; the first holds no others."""

    def __init__(self, seed: int) -> None:
        self.rand = rand = random.Random(seed)
        self.forms = {"f0": [rand.choice(list(LEAVES))]}
        for k in range(1, rand.randint(3, 6)):
            held = [rand.choice(PARTS) for _ in range(rand.randint(1, 3))]
            self.forms[f"f{k}"] = sorted(held, key=lambda part: part == "children")
        self.rest = rand.random() < 0.5  # whether the last form is what is left

    def value(self, depth: int) -> Any:
        """Return a random formula of at most some depth."""
        rand = self.rand
        ends = [name for name, held in self.forms.items() if not {"child", "children"} & {*held}]
        name = rand.choice(ends if depth <= 0 else list(self.forms))
        return (name, *(self.part(kind, depth - 1) for kind in self.forms[name]))

    def part(self, kind: str, depth: int) -> Any:
        if kind in LEAVES:
            return LEAVES[kind][1](self.rand)
        if kind == "child":
            return self.value(depth)
        return [self.value(depth) for _ in range(self.rand.randint(0, 3))]

    def term(self, kind: str, name: str) -> str:
        if kind in LEAVES:
            return LEAVES[kind][0].format(name)
        return f"value({name})" if kind == "child" else f"sum([value(x) for x in {name}], 0.0)"

    def function(self) -> list[str]:
        """Return a function that tells the forms apart, by `match` or by their first items."""
        lines = ["def value(t):"]
        matched = self.rand.random() < 0.6
        lines += ["    match t:"] if matched else []
        for k, (form, held) in enumerate(self.forms.items()):
            last = self.rest and k == len(self.forms) - 1
            names = [f"{form}_{j}" if matched else f"t[{j + 1}]" for j in range(len(held))]
            result = " + ".join([f"{k}.0", *map(self.term, held, names)])
            if matched:
                tag = "_" if last else f'"{form}"'
                lines += [f"        case ({', '.join([tag, *names])}):", f"            return {result}"]
            else:
                lines += [f"    return {result}"] if last else [f'    if t[0] == "{form}":', f"        return {result}"]
        return lines if self.rest else [*lines, '    raise ValueError("no such form")']


def program(seed: int) -> tuple[str, list[Any]]:
    """Return the source of a model `value(t)`, and instances."""
    forms = Forms(seed)
    text = HEADER + "\n".join(forms.function()) + "\n"
    return text, [forms.value(forms.rand.randint(0, 3)) for _ in range(forms.rand.choice((1, 2, 5)))]
