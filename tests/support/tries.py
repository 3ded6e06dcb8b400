"""Random programs with `try`: nested, in loops and recursion, with jumps, `raise` in clauses, `finally`, kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

HEAD = """
import contextlib
import numpy as np


class Own(Exception):
    pass


class Told(Own):
    def __init__(self, n, more=0):
        super().__init__("told")
        self.n = n
        self.more = more


class Odd(ValueError):
    pass


"""

CLASSES = (
    "ValueError", "KeyError", "IndexError", "LookupError", "ZeroDivisionError", "ArithmeticError", "Own", "Told", "Odd",
    "Exception", "(KeyError, Own)", "(IndexError, ZeroDivisionError)", "TypeError", "StopIteration", "AssertionError",
)  # fmt: skip
RAISED = (
    "ValueError('v')", "Own", "Own()", "Told({e})", "Told({e}, {e})", "Odd({e})", "KeyError({e})", "IndexError",
    "StopIteration", "Own('o') from None", "ArithmeticError()",
)  # fmt: skip
KEYS = ["a", "b", "c", "q", "zz"]


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.left = 0
        self.size = self.r.choice([3, 4, 6, 9])
        self.names = 0
        self.tensors = self.r.random() < 0.4
        self.generates = self.r.random() < 0.3
        self.where = "f"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def number(self, depth: int = 0) -> str:
        """Return an expression of an int, which may fail."""
        r, sub = self.r, self.number
        if depth > 2 or r.random() < 0.35:
            return r.choice(["n", "t", "k", str(r.randint(-2, 4)), "len(out)"])
        kinds = ["{a} + {b}", "{a} - {b}", "xs[{a}]", "{a} // {b}", "{a} % {b}", "ids[w]", "max({a}, {b})", "len(w)"]
        kinds += ["abs({a})", "out[{a}]", "(xs[{a}] if {a} > {b} else {b})", "sum(xs[{a}:])", "made[{a}]", "min(xs)"]
        kinds += [
            "next(x for x in xs)",
            "int(q / {b})",
            "sum(x // {b} for x in xs)",
            "len([x for x in xs if made[x] > {a}])",
        ]
        if self.where == "f":
            kinds += ["g(n - 1, {a}, xs, ids, w, z)", "g(n - 2, {a}, xs, ids, w, z)", "h({a}, xs, ids, w)"]
        elif self.where == "g" and r.random() < 0.6:
            kinds += ["g(n - 1, {a}, xs, ids, w, z)"] * 3
        if self.tensors:
            kinds += ["int(z[{a}] * 3)", "int(z[np.argmax(z) + {a}])", "int(np.sum(z[np.array([0, {a}])]))"] * 2
        return r.choice(kinds).format(a=sub(depth + 1), b=sub(depth + 1))

    def test(self) -> str:
        """Return a condition."""
        kinds = ["{a} > {b}", "{a} == {b}", "w in ids", "{a} % 2 == 0", "len(xs) > {a}", "{a} in made"]
        return self.r.choice(kinds).format(a=self.number(1), b=self.number(1))

    def body(self, depth: int, loop: bool, caught: str, returns: bool = True) -> None:
        """Write some statements; `caught` is the name of an exception that may be raised again."""
        for _ in range(self.r.randint(1, 3)):
            self.statement(depth, loop, caught, returns)

    def statement(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        r = self.r
        self.left -= 1
        kinds = ["assign", "assign", "append", "raise", "store"]
        if returns:
            kinds.append("return")
        if loop:
            kinds += ["break", "continue"]
        if caught:
            kinds += ["again", "read"]
        if self.left > 0 and depth < 6:
            kinds += ["if", "if", "try", "try", "try", "try", "for", "while", "suppress", "assert"]
            if self.generates and self.where == "f":
                kinds += ["generated"] * 2
        getattr(self, "write_" + r.choice(kinds))(depth, loop, caught, returns)

    def write_assign(self, depth: int, *_: Any) -> None:
        self.line(depth, f"{self.r.choice('tk')} {self.r.choice(['=', '=', '+=', '//='])} {self.number()}")

    def write_append(self, depth: int, *_: Any) -> None:
        self.line(depth, f"out.append({self.number()})")

    def write_store(self, depth: int, *_: Any) -> None:
        to = self.r.choice(["made[{a}] = {b}", "out[{a}] = {b}", "made[{a}] += {b}", "del made[{a}]"])
        self.line(depth, to.format(a=self.number(1), b=self.number(1)))

    def write_raise(self, depth: int, *_: Any) -> None:
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, f"raise {self.r.choice(RAISED).format(e=self.number(1))}")

    def write_again(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, self.r.choice(["raise", f"raise {caught}", f"raise Own() from {caught}"]))

    def write_read(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.line(depth, f"if isinstance({caught}, Told):")
        self.line(depth + 1, f"out.append({caught}.n + {caught}.more)")
        self.line(depth, f"elif isinstance({caught}, {self.r.choice(CLASSES)}):")
        self.line(depth + 1, f"out.append({self.r.randint(50, 60)})")

    def write_return(self, depth: int, *_: Any) -> None:
        value = self.number() if self.where != "f" else f"t, k, {self.number(1)}, out"
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, f"return {value}")

    def write_break(self, depth: int, *_: Any) -> None:
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, "break")

    def write_continue(self, depth: int, *_: Any) -> None:
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, "continue")

    def write_assert(self, depth: int, *_: Any) -> None:
        self.line(depth, f"assert {self.test()}, 'no'")

    def write_if(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.line(depth, f"if {self.test()}:")
        self.body(depth + 1, loop, caught, returns)
        if self.r.random() < 0.4:
            self.line(depth, "else:")
            self.body(depth + 1, loop, caught, returns)

    def write_for(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.names += 1
        over = self.r.choice(["xs", "range(3)", "out[:3]", "list(made)[:4]", "reversed(xs)", "map(abs, xs)"])
        self.line(depth, f"for i{self.names} in {over}:")
        self.line(depth + 1, f"k = i{self.names}")
        self.body(depth + 1, True, caught, returns)
        if self.r.random() < 0.3:
            self.line(depth, "else:")
            self.body(depth + 1, loop, caught, returns)

    def write_while(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.names += 1
        name = f"j{self.names}"
        self.line(depth, f"{name} = 0")
        self.line(depth, f"while {name} < {self.r.randint(1, 4)}:")
        self.line(depth + 1, f"{name} += 1")
        self.body(depth + 1, True, caught, returns)

    def write_suppress(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        names = ", ".join(self.r.sample(["KeyError", "IndexError", "ZeroDivisionError", "Own"], self.r.randint(1, 2)))
        self.line(depth, f"with contextlib.suppress({names}):")
        self.body(depth + 1, loop, caught, returns)

    def write_generated(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        self.names += 1
        self.line(depth, f"for i{self.names} in made_by({self.number(1)}, xs, ids, w):")
        self.line(depth + 1, f"k = i{self.names}")
        self.body(depth + 1, True, caught, returns)

    def write_try(self, depth: int, loop: bool, caught: str, returns: bool) -> None:
        r = self.r
        self.line(depth, "try:")
        self.body(depth + 1, loop, caught, returns)
        clauses = r.choice([0, 1, 1, 1, 2, 3])
        for cls in r.sample(CLASSES, clauses):
            self.names += 1
            name = f"e{self.names}" if r.random() < 0.6 else ""
            self.line(depth, f"except {cls} as {name}:" if name else f"except {cls}:")
            self.body(depth + 1, loop, name or caught, returns)
        if clauses and r.random() < 0.15:
            self.line(depth, "except:")
            self.body(depth + 1, loop, caught, returns)
        if clauses and r.random() < 0.4:
            self.line(depth, "else:")
            self.body(depth + 1, loop, caught, returns)
        if not clauses or r.random() < 0.35:
            self.line(depth, "finally:")
            self.body(depth + 1, loop if r.random() < 0.5 else False, "", returns and r.random() < 0.3)

    def function(self, where: str, left: int, depth: int = 1) -> None:
        self.where, self.left = where, left
        self.body(depth, False, "")
        if self.r.random() < 0.9:
            self.write_try(depth, False, "", True)
        self.body(depth, False, "")


def program(seed: int) -> str:
    """Return the text of a program with a function `f`."""
    w = Writer(seed)
    w.line(0, "def h(k, xs, ids, w):")
    w.line(1, "n, t, out, made, q, z = 1, 0, [k], {0: 1, 2: 3}, 1.5, np.array([1.0, 2.0, 0.5])")
    w.function("h", w.size // 3)
    w.line(1, "return t")
    w.line(0, "")
    w.line(0, "")
    w.line(0, "def g(n, k, xs, ids, w, z):")
    w.line(1, "t, out, made, q = n, [], {1: 2}, 2.5")
    w.line(1, "if n <= 0:")
    w.line(2, f"return {w.r.choice(['k', 'xs[k]', '10 // k', 'ids[w]'])}")
    w.function("g", w.size // 2)
    w.line(1, "return t + k")
    w.line(0, "")
    w.line(0, "")
    if w.generates:
        w.line(0, "def made_by(k, xs, ids, w):")
        w.line(1, "n, t, out, made, q, z = 2, 0, [k], {0: 1, 2: 3}, 1.5, np.array([1.0, 2.0, 0.5])")
        w.line(1, "for x in xs:")
        w.line(2, "try:")
        w.where = "h"
        w.line(3, f"t += {w.number()}")
        w.line(3, f"yield {w.number()}")
        w.line(2, f"except {w.r.choice(CLASSES)}:")
        w.line(3, f"yield {w.r.choice(['-5', 't', w.number()])}")
        w.line(0, "")
        w.line(0, "")
    w.line(0, "def f(n: int, xs: list[int], w: str, q: float, z: np.ndarray):")
    w.line(1, "ids, t, k, out, made = {'a': 1, 'b': 0, 'c': 7}, 0, 1, [], {1: 5, 3: 0}")
    if w.r.random() < 0.8:
        w.line(1, "try:")
        w.function("f", w.size, 2)
        w.line(1, "except Exception as e:")
        w.line(2, "out.append(-77 if isinstance(e, LookupError) else -78 if isinstance(e, ArithmeticError) else -79)")
    else:
        w.function("f", w.size)
    w.line(1, "return t, k, n, out")
    return HEAD + "\n".join(w.lines) + "\n"


def columns() -> list[list[Any]]:
    """Return the columns of a mini-batch."""
    r = random.Random(1)
    count = 14
    return [
        [r.randint(0, 4) for _ in range(count)],
        [[r.randint(-3, 5) for _ in range(r.randint(0, 4))] for _ in range(count)],
        [r.choice(KEYS) for _ in range(count)],
        [r.choice([0.0, 1.0, -2.5, 1e300]) for _ in range(count)],
        [np.array([r.uniform(-1, 1) for _ in range(3)]) for _ in range(count)],
    ]


COLUMNS = columns()
