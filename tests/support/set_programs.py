"""Random programs whose results depend on the order of sets, and random histories of sets.

`python -m tests.support.set_programs FIRST COUNT` compares programs with the plain call.
"""

from __future__ import annotations

import collections
import enum
import importlib.util
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acronumba import AcronumbaError, model
from tests.support.plain_call import agree, outcomes, plain


class Color(enum.Enum):
    RED = 1
    BLUE = 2
    GREEN = 3


# By kind of element: expressions of an element `x`, displays of constants, an int of `x`.
KEYS: dict[str, tuple[list[str], list[str], str]] = {
    "int": (["x % 7", "x * 3", "-x", "x // 2", "x * 64"], ["0", "-1", "8", "16", "7", "15", "1024"], "abs(x) % 3"),
    "str": (["x + 'a'", "x[:1]", "x * 2", "x.upper()"], ["'a'", "'b'", "''", "'hello'", "'é'"], "len(x)"),
    "tuple": (["(x[1], x[0])", "(x[0] % 3, x[1])"], ["(0, 0)", "(1, 2)", "(3, -1)"], "(x[0] + x[1]) % 3"),
    "bool": (["not x", "x"], ["True", "False"], "int(x)"),
    "color": (["x"], ["Color.RED", "Color.BLUE", "Color.GREEN"], "x.value % 2"),
    "optional": (["x"], ["None", "'a'", "'zz'"], "(0 if x is None else len(x))"),
}


class Program:
    """A random function `f(xs, given, n)` of a list and a set of elements, and data for it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kind = self.random.choice(["int", "int", "str", "str", *KEYS])
        self.changed, self.constants, self.rank = KEYS[self.kind]
        self.sets, self.owned = ["given", "s0", "s1"], ["s0", "s1"]
        self.lines: list[str] = []
        for _ in range(self.random.randint(3, 11)):
            self.statement()
        self.text = self._text()

    def pick(self, *of: str) -> str:
        return self.random.choice(of)

    def display(self) -> str:
        return "{" + ", ".join(self.random.sample(self.constants, self.random.randint(1, len(self.constants)))) + "}"

    def set(self, depth: int = 0) -> str:
        """Return an expression whose value is a set."""
        a = self.pick(*self.sets)
        if depth > 2 or self.random.random() < 0.2:
            return a
        b = self.set(depth + 1)
        methods = self.pick("union", "intersection", "difference", "symmetric_difference")
        return self.pick(
            f"set(xs[{self.random.randrange(3)}:])", f"{{{self.pick(*self.changed)} for x in {b}}}", self.display(),
            f"({b} {self.pick('|', '&', '-', '^')} {self.set(depth + 1)})", f"set({b})", f"helper({a}, {b})",
            f"{a}.{methods}({self.pick(b, 'xs', 'given')})", f"grow({self.random.randrange(1, 5)}, {a})", f"{a}.copy()",
            f"{{*{a}, {self.pick(*self.constants)}}}", "set({x: 1 for x in xs})", f"({b} if n > 3 else {a})",
        )  # fmt: skip

    def statement(self) -> None:
        """Add a statement that makes, changes or iterates over a set."""
        a, b, mine, c = self.pick(*self.sets), self.set(), self.pick(*self.owned), self.pick(*self.constants)
        name = f"v{len(self.lines)}"
        one = self.pick(
            f"{name} = {b}", f"{name} = set({b})", f"out.append(list({b}))", f"out.append([x for x in {b}])",
            f"for x in {b}:\n    acc.append(x)", f"{mine}.add({c})", f"{mine}.discard({c})", f"{mine} |= {b}",
            f"{mine} {self.pick('&=', '-=', '^=')} {b}", f"if {mine}:\n    acc.append({mine}.pop())",
            f"{mine}.update({self.pick(b, 'xs')})", f"out.append([*{a}])", f"out.append(sorted({a}, key=rank))",
            f"for i, x in enumerate({a}):\n    if i < 3:\n        acc.append(x)", f"out.append(list(tuple({a})))",
            f"for x, y in zip({a}, {b}):\n    acc.append(x)\n    acc.append(y)", f"table[n % 3] = {a} | {b}",
            f"if {a}:\n    acc.append(next(iter({a})))",
            f"if {a}:\n    acc.append({self.pick('max', 'min')}({a}, key=rank))",
            f"total += sum(0.1 * {self.rank} + 1e16 * ({self.rank} % 2) for x in {a})", f"bag.append(set({b}))",
            f"for x in {a}:\n    if {self.rank} > 1:\n        break\n    acc.append(x)",
            f"for b in bag:\n    acc.extend(b)\n    b.add({c})",
            f"for x in list({a}):\n    if {self.rank} % 2 == 0:\n        {mine}.discard(x)",
        )  # fmt: skip
        if one.startswith(name):
            self.sets.append(name)
            self.owned += [name] * one.startswith(f"{name} = set(")
        elif self.random.random() < 0.15:
            head = self.pick("if n % 2 == 0:", "for i in range(n):")
            one = "\n    ".join([head, *one.split("\n")])
        self.lines += one.split("\n")

    def _text(self) -> str:
        start = "out, acc, bag, table, total, s0, s1 = [], [], [], {}, 0.0, set(xs), set()"
        body = "\n".join(
            "    " + line for line in [start, *self.lines, "return out, acc, total, list(s0 ^ s1), s0, s1"]
        )
        ends = self.pick("r", "r | q", "r - q", "{x for x in r}"), self.pick("r", "r | s")
        return (
            "from tests.support.set_programs import Color\n"
            f"rank = lambda x: {self.rank}\n"
            f"def helper(p, q):\n    r = set(p)\n    r.{self.pick('update', 'difference_update')}(q)\n"
            f"    return {ends[0]}\n"
            "def grow(n, s):\n    if n == 0:\n        return set(s)\n    r = grow(n - 1, s)\n"
            f"    r.{self.pick('add', 'discard')}({self.pick(*self.constants)})\n"
            f"    for x in r:\n        if n > 2:\n            break\n    return {ends[1]}\n"
            f"def f(xs, given, n):\n{body}\n"
        )

    def data(self, count: int = 8) -> list[tuple[list[Any], set[Any], int]]:
        """Return arguments for the function."""
        return [self._arguments() for _ in range(count)]

    def _arguments(self) -> tuple[list[Any], set[Any], int]:
        element = elements(self.kind, self.random)
        return (
            [element() for _ in range(self.random.choice([1, 4, 12, 40]))],
            a_set(element, self.random),
            self.random.randrange(6),
        )

    def function(self, folder: Path) -> Callable[..., Any]:
        """Return the function, defined in a file."""
        path = folder / f"set_program_{abs(hash(self.text))}.py"
        path.write_text(self.text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.f  # type: ignore[no-any-return]


def elements(kind: str, r: random.Random) -> Callable[[], Any]:
    """Return a function that draws elements."""
    most = r.choice([3, 10, 60, 400])
    ends = (-1, -2, 2**61 - 1, 1 - 2**61, 2**61, 2**62, -(2**63), 2**63 - 1)
    makers: dict[str, Callable[[], Any]] = {
        "int": lambda: r.randrange(-most, most) * r.choice([1, 1, 8, 2**20]),
        "huge": lambda: r.choice(ends) if r.random() < 0.5 else r.randrange(-most, most) * r.choice([1, 2**50]),
        "str": lambda: r.choice(["", "a", "é", "中", "😀"]) * r.randrange(3) + str(r.randrange(most)),
        "tuple": lambda: (r.randrange(-4, 9), r.randrange(most)),
        "bool": lambda: r.random() < 0.5,
        "color": lambda: r.choice(list(Color)),
        "optional": lambda: r.choice([None, "a", "zz", str(r.randrange(most))]),
    }
    return makers[kind]


def a_set(element: Callable[[], Any], r: random.Random) -> set[Any]:
    """Return a set that elements were added to, and taken from."""
    out = set()
    for _ in range(r.choice([1, 5, 20, 60])):
        out.add(element())
        if len(out) > 1 and r.random() < 0.2:
            out.discard(next(iter(out)))
    return out


def main(first: int, count: int) -> None:
    """Compare programs with the plain call, and print what differs."""
    tally: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            program = Program(seed)
            f = program.function(Path(folder))
            columns = list(zip(*program.data(), strict=True))
            try:
                agree(outcomes(model(f).batch, *columns), plain(f, *columns))
                tally["right"] += 1
            except AssertionError as error:
                tally["different"] += 1
                print(seed, str(error)[:300])
            except AcronumbaError as error:
                tally[f"{error.code} {getattr(error, 'seen', '')[:60]}"] += 1
    print(tally.most_common(10))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
