"""Random models that make objects and change them by several names; see `tests/frontend/test_random_objects.py`.

In: the number of a program. Out: its text. Objects have numbers, arrays, lists and references to each other as fields;
they are made, aliased, linked, put into lists, passed to methods and recursions, changed in branches and loops, and
compared by `is`. What may be missing is asked for by `hasattr` or read all the same.
"""

from __future__ import annotations

import random

HEADER = """
import numpy as np


class A:
    tag = 1

    def __init__(self, k):
        self.k = k
        self.v = np.array([1.0, -0.5, 0.25], np.float32) * np.float32(k % 7)
        self.n = None
        self.xs = [k]

    def bump(self, d):
        self.k = (self.k + d) % 997

    def link(self, o):
        self.n = o
        return self

    def mix(self, o):
        self.v = np.tanh(self.v * np.float32(0.5) + o.v)
        o.bump(len(self.xs))

    def total(self):
        return self.k + sum(self.xs) + (self.n.k if self.n is not None else 0)


class B(A):
    tag = 2

    def __init__(self, k):
        super().__init__(k + 1)
        if k % 2:
            self.e = k

    def bump(self, d):
        super().bump(2 * d)
        self.tag = self.tag + 1


class C:
    def __init__(self, o):
        self.o = o
        self.count = 0

    def step(self, d):
        self.count += 1
        self.o.bump(d + self.count)
        return self.o.k


def touch(o, depth):
    o.bump(depth)
    if depth > 0 and o.n is not None:
        o.xs.append(depth)
        return 1 + touch(o.n, depth - 1)
    return o.k


def grow(k):
    if k <= 0:
        return A(0)
    return B(k).link(grow(k - 2))
"""


class Program:
    """Draws the body of one model."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names = ["a", "b"]
        self.ints = ["x", "total"]
        self.budget = self.rng.randint(8, 22)

    def text(self) -> str:
        self.line(1, "total = 0")
        self.line(1, "a, b = A(x), B(x + 1)")
        self.line(1, "c = C(a)")
        self.line(1, "os = [a]" if self.rng.random() < 0.5 else "os = []")
        while self.budget > 0:
            self.statement(1, self.names)
        result = "total % 997, [o.k for o in os], [o.xs for o in (a, b)], a.v, b.v, a is b, c.o is a, c.count"
        extra = self.rng.choice(["", ", a", ", c", ", os"])
        self.line(1, f"return {result}{extra}")
        return HEADER + "\n\ndef f(x, xs):\n" + "\n".join(self.lines) + "\n"

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def number(self) -> str:
        return self.rng.choice([*self.ints, "1", "3", "len(xs)", "a.k", "b.k % 5", "c.count"])

    def condition(self, names: list[str]) -> str:
        o, p = self.rng.choice(names), self.rng.choice(names)
        return self.rng.choice([
            f"{o}.k % 3 == {self.rng.randint(0, 2)}", f"{o} is {p}", f"{o}.n is None", f"{o}.n is not None",
            f"x > {self.rng.randint(0, 6)}", f"len({o}.xs) > 2", f"{o}.v.sum() > 0", f"hasattr({o}, 'e')",
            f"isinstance({o}, B)", f"total % 2 == {self.rng.randint(0, 1)}",
        ])  # fmt: skip

    def block(self, indent: int, names: list[str]) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.statement(indent, names)

    def statement(self, indent: int, names: list[str]) -> None:
        self.budget -= 1
        o, p = self.rng.choice(names), self.rng.choice(names)
        mine = [n for n in names if n in self.names]
        simple = [
            f"{o}.k = ({self.number()}) % 997", f"{o}.k += {self.rng.randint(1, 9)}", f"{o}.n = {p}", f"{o}.n = None",
            f"{o}.xs.append({self.number()} % 100)", f"{o}.bump({self.number()} % 10)", f"{o}.mix({p})",
            f"{o}.v = {o}.v + {p}.v * np.float32(0.25)", f"{o}.e = {self.number()} % 50",
            f"total += getattr({o}, 'e', 3) + {o}.tag", f"total += {o}.total()", f"{o}.link({p})",
            f"os.append({o})", f"total += touch({o}, {self.rng.randint(0, 3)})",
            f"total += c.step({self.number()} % 7)",
            f"c.o = {o}", f"{o}, {p} = {p}, {o}" if o in mine and p in mine and o != p else f"{o}.k += 1",
            f"total += {o}.k if {self.condition(names)} else 1",
        ]  # fmt: skip
        if mine:
            target = self.rng.choice(mine)
            simple += [f"{target} = {o}", f"{target} = {self.rng.choice('AB')}({self.number()} % 50)",
                       f"{target} = grow({self.number()} % 6)", f"{target} = c.o", f"c = C({target})"]  # fmt: skip
        roll = self.rng.random()
        if roll < 0.6 or indent > 3 or self.budget <= 0:
            self.line(indent, self.rng.choice(simple))
        elif roll < 0.78:
            self.line(indent, f"if {self.condition(names)}:")
            self.block(indent + 1, names)
            if self.rng.random() < 0.5:
                self.line(indent, "else:")
                self.block(indent + 1, names)
        elif roll < 0.84:
            self.line(indent, f"if {o}.n is not None:")
            self.line(indent + 1, f"total += {o}.n.k")
            self.block(indent + 1, names)
            self.line(indent + 1, f"total += {o}.n.k if {o}.n is not None else 7")
        elif roll < 0.94:
            self.line(indent, self.rng.choice(["for t in xs:", "for t in range(x % 4):"]))
            self.ints.append("t")
            self.block(indent + 1, names)
            self.line(indent + 1, f"total += t * {o}.k % 31")
            self.ints.pop()
        else:
            self.line(indent, "for o in list(os):")
            self.block(indent + 1, [*names, "o"])


def program(seed: int) -> str:
    """Return the text of program number `seed`: a module with a function `f(x, xs)`."""
    return Program(seed).text()


COLUMNS = ([0, 1, 2, 5, 8], [[], [3], [1, 2], [4, 4, 1], [7]])
