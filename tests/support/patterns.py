"""Random regular expressions, and the machine for them, by itself."""

from __future__ import annotations

import random
import re

import numpy as np

from acronumba.data.texts import record_of
from acronumba.emit import compile, parse, tree
from acronumba.host import patterns, texts
from acronumba.ir.patterns import NotSupported, code_of, marks_of

LETTERS = "aaabbbc1 _AKéK\nx"
_ATOMS = [*"abcabc.éA1 _K", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\W", "[a-c]", r"[\dx]", r"\n"]
_PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
_TIMES = ["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??", "{1,2}?", "*+", "++", "?+"]
FLAGS = [0, 0, 0, re.I, re.A, re.M, re.S, re.I | re.A]


class Patterns:
    """Makes random patterns."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.opened = 0
        self.closed: list[int] = []

    def alternatives(self, depth: int) -> str:
        return "|".join(self.sequence(depth) for _ in range(self.r.choice([1, 1, 1, 2, 3])))

    def sequence(self, depth: int) -> str:
        return "".join(self.item(depth) for _ in range(self.r.choice([0, 1, 1, 2, 2, 3])))

    def item(self, depth: int) -> str:
        atom = self.atom(depth)
        return atom + self.r.choice(_TIMES) if atom not in _PLACES and self.r.random() < 0.4 else atom

    def atom(self, depth: int) -> str:
        r, k = self.r, self.r.random()
        if depth == 0 or k < 0.4:
            return r.choice(_ATOMS)
        if k < 0.6:
            self.opened += 1
            number = self.opened
            inner = self.alternatives(depth - 1)
            self.closed.append(number)
            return f"(?P<g{number}>{inner})" if r.random() < 0.2 else f"({inner})"
        if k < 0.72:
            return f"(?:{self.alternatives(depth - 1)})"
        if k < 0.8:
            return r.choice(_PLACES)
        if k < 0.85 and self.closed:
            return f"\\{r.choice(self.closed)}(?:)"
        if k < 0.9:
            return f"(?{r.choice('=!>')}{self.alternatives(depth - 1)})"
        if k < 0.94:
            return f"(?<{r.choice('=!')}{r.choice(['a', '[ab]', 'ab', 'a|b', '(?:ab|cd)', '^', '.'])})"
        if k < 0.97 and self.closed:
            return f"(?({r.choice(self.closed)}){self.sequence(depth - 1)}|{self.sequence(depth - 1)})"
        return f"(?{r.choice(['i', '-i', 's', 'm', 'a', 's-i'])}:{self.alternatives(depth - 1)})"


class Machine:
    """The compiled machine."""

    def __init__(self) -> None:
        functions = parse.parse(texts._TEXT)
        functions += parse.parse(patterns._MACHINE, functions=functions)
        (self.made,) = compile.load([tree.Module("patterns", tuple(functions), ("pattern_match",))])
        self.memory = np.zeros(1 << 16, np.int64)

    def marks(self, code: str, text: str, first: int, last: int, how: int, steps: int = 20_000) -> list[int] | None:
        """Return what `marks_of` does; None if more steps or memory are needed."""
        program, record = (np.array(record_of(s), np.int64) for s in (code, text))
        word = ~ord(text) if len(text) == 1 else record.ctypes.data
        at, end = self.memory.ctypes.data, self.memory.ctypes.data + self.memory.nbytes
        count = self.made.function("pattern_match")(program.ctypes.data, word, first, last, how, at, end, steps)
        return None if count < 0 else self.memory[3 : 3 + count].tolist()


def check(machine: Machine, seed: int, count: int) -> int:
    """Compare the machine with `re` for random patterns and strings; return how often patterns matched."""
    r = random.Random(seed)
    matched = 0
    for _ in range(count):
        source, flags = Patterns(r).alternatives(3), r.choice(FLAGS)
        try:
            code = code_of(re.compile(source, flags))
        except (re.error, NotSupported):
            continue
        for _ in range(5):
            text = "".join(r.choice(LETTERS) for _ in range(r.choice([0, 1, 2, 3, 5, 8])))
            first, last, how = (
                r.choice([0, 0, 0, r.randint(0, len(text))]),
                r.choice([2**62, len(text)]),
                r.randrange(4),
            )
            got = machine.marks(code, text, first, last, how)
            if got is not None:
                wanted = marks_of(code, text, first, last, how)
                assert got == wanted, (source, flags, text, first, last, how, got, wanted)
                matched += bool(wanted)
    return matched


def is_pattern(source: str) -> bool:
    try:
        re.compile(source)
    except re.error:
        return False
    return True


def random_patterns(seed: int, count: int) -> list[tuple[str, str]]:
    """Return random patterns, of which few are invalid, each with a text."""
    r = random.Random(seed)
    out = []
    while len(out) < count:
        source = Patterns(r).alternatives(2)
        if is_pattern(source) or r.random() < 0.1:
            out.append((source, "".join(r.choices(LETTERS, k=r.randint(0, 8)))))
    return out
