"""Random programs over nested data without classes: dicts, tuples and lists that hold others of their kind."""

from __future__ import annotations

import random
from typing import Any

Variant = tuple[str, int, int, bool]  # its tag; numbers of values, of children; whether it has a list of children


class Grammar:
    """The forms of nodes and leaves, the data of these forms, and code that reads and makes them."""

    def __init__(self, seed: int) -> None:
        self.rand = rand = random.Random(seed)
        self.kind = rand.choice(("dict", "dict", "tuple", "tuple", "list"))
        self.leaf = rand.choice(("none", "float", "int", "text", "")) if self.kind != "list" else "float"
        count = rand.randint(1 if self.leaf else 2, 4)
        self.variants: list[Variant] = [
            (f"v{k}", rand.randint(0, 2), rand.choice((1, 2, 2)), rand.random() < 0.3) for k in range(count)
        ]
        if not self.leaf:
            self.variants[0] = ("v0", rand.randint(1, 2), 0, rand.random() < 0.3)
        self.named = rand.random() < 0.5  # dicts: whether their tag is the value of one key, or a key
        self.first = rand.random() < 0.5  # whether the tag is read first
        self.matches = self.kind == "tuple" and rand.random() < 0.4

    # ---- data

    def number(self) -> float:
        return float(self.rand.randint(-4, 4))

    def leaf_value(self) -> Any:
        return {"none": None, "float": self.number(), "int": self.rand.randint(0, 9), "text": "x"}.get(self.leaf)

    def data(self, depth: int) -> Any:
        """Return a random tree of at most some depth."""
        ends = [v for v in self.variants if not v[2]]
        if depth <= 0 and self.leaf:
            return self.leaf_value()
        if depth <= 0:
            return self.node(self.rand.choice(ends), depth)
        return self.node(self.rand.choice(self.variants), depth)

    def node(self, variant: Variant, depth: int) -> Any:
        rand = self.rand
        values = [self.number() for _ in range(variant[1])]
        kids = [self.data(depth - rand.randint(1, 2)) for _ in range(variant[2])]
        many = [self.data(depth - 2) for _ in range(rand.randint(0, 2))] if depth > 0 else []
        return self.made(variant, values, kids, many)

    def made(self, variant: Variant, values: list[Any], kids: list[Any], many: list[Any]) -> Any:
        tag, _, _, listed = variant
        if self.kind != "dict":
            items = [tag, *values, *kids, *([many] if listed else [])]
            return tuple(items) if self.kind == "tuple" else items
        out: dict[str, Any] = {"op": tag} if self.named else {tag: 1.0}
        out |= {f"n{k}": v for k, v in enumerate(values)} | {f"c{k}": v for k, v in enumerate(kids)}
        return out | ({"many": many} if listed else {})

    # ---- code

    def place(self, variant: Variant, what: str, k: int = 0) -> str:
        """Return the expression of a part of a node `t`."""
        if self.kind == "dict":
            return f't["{"many" if what == "m" else what + str(k)}"]'
        return f"t[{1 + k + (variant[1] if what in 'cm' else 0) + (variant[2] if what == 'm' else 0)}]"

    def test(self, variant: Variant) -> str:
        tag = variant[0]
        if self.kind != "dict":
            return f'k == "{tag}"' if self.first else f't[0] == "{tag}"'
        if self.named:
            return f'k == "{tag}"' if self.first else f't["op"] == "{tag}"'
        return self.rand.choice((f'"{tag}" in t', f't.get("{tag}") is not None'))

    def leaf_test(self) -> str:
        tests = {"none": "t is None", "float": "isinstance(t, float)", "int": "isinstance(t, int)"}
        return tests.get(self.leaf, "isinstance(t, str)")

    def inner_case(self, result: str) -> list[str]:
        """Return a case for nodes whose first child is of some variant."""
        rand = self.rand
        outer, inner = rand.choice(self.variants), rand.choice(self.variants)
        child = ", ".join([f'"{inner[0]}"', *["_"] * (inner[1] + inner[2] + inner[3])])
        parts = [*["_"] * outer[1], f"({child},)", *rand.choice((["*_"], ["_"] * (outer[2] - 1 + outer[3])))]
        return [f'        case ("{outer[0]}", {", ".join(parts)}):', f"            return {result}"] * bool(outer[2])

    def function(self, name: str, leaf: str, node: Any, inner: str) -> list[str]:
        """Return a recursive function: `leaf` is the result of a leaf; `node` returns that of a node of a variant.

        `inner` is the result of a node that is recognized by a child.
        """
        lines = [f"def {name}(t):"]
        if self.leaf:
            lines += [f"    if {self.leaf_test()}:", f"        return {leaf}"]
        if self.matches:
            lines += ["    match t:", *(self.inner_case(inner) if self.rand.random() < 0.5 else ())]
            for v in self.variants:
                parts = ", ".join(["_"] * (v[1] + v[2] + v[3]))
                lines += [f'        case ("{v[0]}", {parts}):', f"            return {node(v)}"]
            return lines
        if self.first and (self.kind != "dict" or self.named):
            lines.append("    k = t[0]" if self.kind != "dict" else '    k = t["op"]')
        for v in self.variants[:-1]:
            lines += [f"    if {self.test(v)}:", f"        return {node(v)}"]
        return [*lines, f"    return {node(self.variants[-1])}"]

    def parts(self, variant: Variant, what: str, form: str) -> list[str]:
        count = variant[1] if what == "n" else variant[2]
        return [form.format(self.place(variant, what, k)) for k in range(count)]

    def total(self) -> list[str]:
        leaf = {"none": "0.5", "float": "t", "int": "t * 0.5", "text": "1.5"}.get(self.leaf, "0.0")

        def node(v: Variant) -> str:
            terms = [*self.parts(v, "n", "{}"), *self.parts(v, "c", "total({})")]
            terms += [f"sum([total(c) for c in {self.place(v, 'm')}], 0.0)"] if v[3] else []
            return " + ".join([f"{len(v[0]) + v[1]}.0", *terms])

        return self.function("total", leaf, node, "0.25")

    def deep(self) -> list[str]:
        def node(v: Variant) -> str:
            below = self.parts(v, "c", "deep({})")
            return f"1 + max({', '.join(below)}, 0)" if below else "1"

        return self.function("deep", "0", node, "7")

    def mapped(self) -> list[str]:
        leaf = {"float": "t + 1.0", "int": "t + 1"}.get(self.leaf, "t")

        def node(v: Variant) -> str:
            values, kids = self.parts(v, "n", "{} * 2.0"), self.parts(v, "c", "mapped({})")
            many = [f"[mapped(c) for c in {self.place(v, 'm')}]"] if v[3] else []
            if self.kind != "dict":
                text = ", ".join([f'"{v[0]}"', *values, *kids, *many])
                return f"({text},)" if self.kind == "tuple" else f"[{text}]"
            keys = [f'"op": "{v[0]}"' if self.named else f'"{v[0]}": 1.0']
            keys += [f'"n{k}": {x}' for k, x in enumerate(values)] + [f'"c{k}": {x}' for k, x in enumerate(kids)]
            return "{" + ", ".join([*keys, *(f'"many": {x}' for x in many)]) + "}"

        return self.function("mapped", leaf, node, "t")


RESULTS = (
    ("total", "total(t)"), ("deep", "deep(t)"), ("mapped", "mapped(t)"), ("total mapped", "total(mapped(t))"),
    ("", "t"), ("mapped", "mapped(t) == t"), ("total deep", "(total(t), deep(t), t)"),
    ("deep mapped", "[deep(mapped(t))]"),
)  # fmt: skip


def program(seed: int) -> tuple[str, list[Any]]:
    """Return the source of a model `run(t)`, and instances."""
    grammar = Grammar(seed)
    rand = grammar.rand
    used, result = rand.choice(RESULTS)
    lines = ["from __future__ import annotations", "", ""]
    for name in used.split():
        lines += [*getattr(grammar, name)(), "", ""]
    lines += ["def run(t):", f"    return {result}", ""]
    deepest = rand.choice((1, 2, 3, 4, 6, 9))
    return "\n".join(lines), [grammar.data(rand.randint(0, deepest)) for _ in range(rand.choice((1, 2, 5, 9)))]
