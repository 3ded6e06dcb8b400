"""Random programs with recursive functions under `functools.cache`: of the module, nested, calling one another."""

from __future__ import annotations

import random
from typing import Any

HEADER = """
import functools
from functools import cache, lru_cache


"""
_DECORATORS = ["@cache", "@lru_cache", "@lru_cache(maxsize=None)", "@functools.lru_cache(4)", "@functools.cache"]
_KINDS = ("int", "str", "pair", "flag", "float", "maybe")
_SMALLER = {
    "int": ["{x} - 1", "{x} - 2", "{x} // 2"],
    "str": ["{x}[1:]", "{x}[:-1]", "{x}[2:]"],
    "pair": ["({x}[0] - 1, {x}[1])", "({x}[1] - 1, {x}[0] - 1)"],
    "flag": ["not {x}", "True", "{x}"],
    "float": ["{x} * 0.5", "{x}"],
    "maybe": ["None", "{x}", "n - 1"],
}
_WEIGHT = {
    "int": "{x}", "str": "len({x})", "pair": "{x}[0] - {x}[1]", "flag": "(2 if {x} else 1)", "float": "{x}",
    "maybe": "(0 if {x} is None else {x})",
}  # fmt: skip
_FIRST = {"int": "k", "str": "s", "pair": "(k, len(s))", "flag": "k > 2", "float": "0.5 * k", "maybe": "k"}


class _Program:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.signatures: list[tuple[str, list[str]]] = []
        self.tuples = self.r.random() < 0.3  # whether results are tuples

    def call(self, name: str, kinds: list[str]) -> str:
        args = ["n - " + self.r.choice("122")]
        for k, kind in enumerate(kinds):
            args.append(self.r.choice(_SMALLER[kind]).format(x=f"x{k}") if self.r.random() < 0.7 else self.first(kind))
        return f"{name}({', '.join(args)})"

    def first(self, kind: str) -> str:
        return {"int": "n", "str": "'ab'", "pair": "(n, 1)", "flag": "n > 1", "float": "1.5", "maybe": "None"}[kind]

    def function(self, name: str, kinds: list[str], captured: bool) -> list[str]:
        r, of = self.r, dict(self.signatures)
        weights = [_WEIGHT[kind].format(x=f"x{k}") for k, kind in enumerate(kinds)]
        weights += ["len(s)", "k"] if captured else []
        own = " + ".join(r.sample(weights, min(len(weights), 2)) or ["1"])
        base = "(1, n)" if self.tuples else r.choice(["1", "n", own])
        lines = [r.choice(_DECORATORS)] if r.random() < 0.85 else []
        lines += [f"def {name}({', '.join(['n', *(f'x{k}' for k in range(len(kinds)))])}):", "    if n <= 0:"]
        lines += [f"        return {base}"]
        if r.random() < 0.15:
            lines += [f"    if n == {r.randint(2, 9)}:", '        raise ValueError("unlucky")']
        calls = []
        for _ in range(r.choice([1, 2, 2, 3])):
            other = name if r.random() < 0.7 else r.choice(list(of))
            calls.append(self.call(other, of[other]))
        if self.tuples:
            lines += [f"    a, b = {calls[0]}"]
            lines += [f"    c, d = {call}\n    a, b = a + d, b - c % 7" for call in calls[1:]]
            lines += [f"    return a % 1009, (b + {own}) % 13" if "float" not in kinds else "    return a % 1009, n"]
        else:
            lines += [f"    return ({' + '.join([*calls, own])}) % 100_003"]
        return lines

    def text(self) -> str:
        r = self.r
        names = ["f", "g", "h"][: r.choice([1, 2, 2, 3])]
        self.signatures = [(name, r.choices(_KINDS, k=r.choice([0, 1, 1, 2]))) for name in names]
        nested = r.random() < 0.5
        made = [self.function(name, kinds, nested) for name, kinds in self.signatures]
        body = [line for lines in made for part in lines for line in part.split("\n")] if nested else []
        out = HEADER + ("" if nested else "\n\n".join("\n".join(lines) for lines in made))
        calls = []
        for _ in range(r.choice([1, 2, 3])):
            name, kinds = r.choice(self.signatures)
            calls.append(f"{name}({', '.join(['k', *(_FIRST[kind] for kind in kinds)])})")
        inner = [*body, f"return {', '.join(calls)}"]
        lines = ["def one(s, k):", *(f"    {line}" for line in inner), "", "", "def main(s, k):", "    out = []"]
        lines += ["    for t in (s, s[1:]):"]
        if r.random() < 0.3:
            lines += ["        try:", "            out.append((one(t, k), 0))", "        except ValueError:"]
            lines += ["            k = k - 1"]
        else:
            lines += ["        out.append((one(t, k), 1))"]
        lines += ["    return out"]
        return out + "\n\n\n" + "\n".join(lines) + "\n"


def program(seed: int) -> str:
    """Return the text of a module with a function `main` of a string and an int."""
    return _Program(seed).text()


def instances(seed: int) -> tuple[list[str], list[int]]:
    """Return a column of strings and one of ints."""
    r = random.Random(seed)
    strings = ["".join(r.choices("abc", k=r.randint(0, 6))) for _ in range(6)]
    return strings, [r.randint(0, 14) for _ in range(6)]


def clear(module: Any) -> None:
    """Forget the results of the plain calls."""
    for value in vars(module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
