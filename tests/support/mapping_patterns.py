"""Random programs with mapping patterns: over JSON-like nodes, records, hash tables, and values of other kinds."""

from __future__ import annotations

import random
from typing import Any

from tests.support.records import form

__all__ = ["form", "program"]

FIELDS = ("op", "value", "left", "right", "args", "flag")


class Patterns:
    """Nodes with some sets of keys, and functions that match them."""

    def __init__(self, seed: int) -> None:
        self.rand = rand = random.Random(seed)
        self.sets = [("op", *rand.sample(FIELDS[1:], rand.randint(1, 3))) for _ in range(rand.randint(1, 3))]
        self.leaves = rand.choice((("none",), ("int",), ("float", "none"), ("text", "int"), ()))
        self.tags = [f"t{k}" for k in range(rand.randint(1, 3))]
        self.made = rand.random() < 0.3
        self.count = 0

    # ---- data

    def leaf(self) -> Any:
        kind = self.rand.choice(self.leaves or ("int",))
        number = self.rand.randint(0, 5)
        return {"none": None, "int": number, "float": float(number), "text": "x"}[kind]

    def node(self, depth: int) -> Any:
        if depth <= 0:
            return self.leaf() if self.leaves else {"op": self.rand.choice(self.tags), "value": self.rand.randint(0, 5)}
        out: dict[str, Any] = {}
        for key in self.rand.choice(self.sets):
            out[key] = self.field(key, depth - 1)
        return out

    def field(self, key: str, depth: int) -> Any:
        if key == "op":
            return self.rand.choice(self.tags)
        if key == "value":
            return self.rand.randint(0, 5)
        if key == "flag":
            return self.rand.random() < 0.5
        if key == "args":
            return [self.node(depth) for _ in range(self.rand.randint(0, 3))]
        return self.node(depth)

    # ---- code

    def bind(self, prefix: str = "b") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pattern(self, depth: int, bound: dict[str, str]) -> str:
        """Return a pattern of a node; `bound` are the names that it binds, and what they are."""
        rand = self.rand
        keys = rand.sample(rand.choice(self.sets), rand.randint(0, 2))
        parts = [f'"{key}": {self.part(key, depth, bound)}' for key in keys]
        if rand.random() < 0.25:
            name = self.bind("rest")
            bound[name] = "dict"
            parts.append(f"**{name}")
        out = "{" + ", ".join(parts) + "}"
        if rand.random() < 0.15:
            name = self.bind()
            bound[name] = "itself"
            return f"{out} as {name}"
        return out

    def part(self, key: str, depth: int, bound: dict[str, str]) -> str:
        rand, how = self.rand, self.rand.random()
        kind = {"op": "text", "value": "number", "flag": "bool", "args": "list"}.get(key, "node")
        if how < 0.4:
            name = self.bind()
            bound[name] = kind
            return name
        if how < 0.5:
            return "_"
        if kind == "text":
            return rand.choice((f'"{rand.choice(self.tags)}"', f'"{self.tags[0]}" | "{self.tags[-1]}"', "str()"))
        if kind == "number":
            return rand.choice(("0", "1 | 2", "int()", "3"))
        if kind == "bool":
            return rand.choice(("True", "False"))
        if kind == "list":
            return self.listed()
        leaf = {"none": "None", "int": "int()", "float": "float()", "text": "str()"}
        if depth > 0 and how < 0.8:
            return self.pattern(depth - 1, bound)
        return leaf[rand.choice(self.leaves)] if self.leaves else "{}"

    def listed(self) -> str:
        return self.rand.choice(("[]", "[_]", "[_, *_]", "[_, _]", "[{}, *_]"))

    def result(self, bound: dict[str, str]) -> str:
        terms = [str(self.rand.randint(1, 9))]
        for name, kind in bound.items():
            if kind == "number":
                terms.append(name)
            elif kind == "bool":
                terms.append(f"(2 if {name} else 3)")
            elif kind == "text":
                terms.append(f"len({name})")
            elif kind == "list":
                terms.append(f"sum([walk(c) for c in {name}])")
            elif kind == "node":
                terms.append(f"walk({name})")
            elif kind == "dict":
                terms.append(f"len({name}) * 10")
        return " + ".join(terms)

    def guard(self, bound: dict[str, str]) -> str:
        tests = {"number": "{} > 2", "text": '{} == "t0"', "bool": "{}", "list": "len({}) > 1", "dict": "len({}) > 1"}
        known = [(n, k) for n, k in bound.items() if k in tests]
        if not known or self.rand.random() < 0.7:
            return ""
        name, kind = self.rand.choice(known)
        return f" if {tests[kind].format(name)}"

    def program(self) -> str:
        lines = ["from __future__ import annotations", "", "", "def walk(t):", "    match t:"]
        leaf = {"none": "None", "int": "int()", "float": "float()", "text": "str()"}
        for _ in range(self.rand.randint(1, 5)):
            bound: dict[str, str] = {}
            text = self.pattern(1, bound)
            lines += [f"        case {text}{self.guard(bound)}:", f"            return {self.result(bound)}"]
        for kind in dict.fromkeys(self.leaves):
            if self.rand.random() < 0.7:
                lines += [f"        case {leaf[kind]}:", f"            return {self.rand.randint(1, 5)}"]
        lines += ["        case _:", "            return 100", "", ""]
        used = self.rand.choice(("walk(t)", "(walk(t), first(t))", "(first(t), t)"))
        bound = {}
        text = self.pattern(1, bound)
        name = self.bind("r")
        out = f"{name}" if self.rand.random() < 0.5 else ", ".join([*(n for n, k in bound.items() if k != "list"), "1"])
        keys = self.rand.sample(self.rand.choice(self.sets), 1)
        lines += [
            "def first(t):",
            "    match t:",
            f"        case {text}:",
            f"            return ({out if out[0] != 'r' or 'rest' in out else '7'},)",
        ]
        lines += [
            f'        case {{"{keys[0]}": {name}, **more}}:',
            f"            return ({name}, more)" if self.rand.random() < 0.3 else "            return (len(more),)",
        ]
        return "\n".join([*lines, "    return None", "", "", "def run(t):", f"    return {used}", ""])


def program(seed: int) -> tuple[str, list[Any]]:
    """Return the source of a model `run(t)`, and instances."""
    made = Patterns(seed)
    text = made.program()
    return text, [made.node(made.rand.randint(0, 3)) for _ in range(made.rand.choice((1, 3, 6)))]
