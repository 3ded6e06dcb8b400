"""Random programs of PyTorch: straight lines, branches, loops, lists, views and writes, made from a seed.

Types of variables: V a vector of 3 floats, M a matrix of rows of 3, S a tensor of rank 0, J a vector of ints below 3,
I an int, L a list of vectors.
"""

from __future__ import annotations

import random
import re

EXPRESSIONS = {
    "V": [
        "({V} + {V})", "({V} * {V})", "torch.tanh({V})", "{V}.sigmoid()", "self.l({V})", "({V} * {I})", "({S} * {V})",
        "torch.relu({V} - 0.5)", "F.softmax({V}, dim=-1)", "{M}.sum(0)", "{M}.mean(dim=0)", "{M}[-1]", "{M}[{I} % 2]",
        "torch.where({V} > 0, {V}, {V})", "torch.cat([{V}[:1], {V}[1:]])", "({V} @ self.l.weight)", "{V}.flip(0)",
        "{V}.masked_fill({V} < 0, 0.5)", "{M}.max(0)[0]", "({V} / ({V}.abs() + 1))", "{V}.clamp(-1, 2.5)", "{L}[0]",
        "torch.stack([{V}, {V}]).prod(0)", "{V}[{J}]", "{L}[-1]", "{V}.detach()", "{V}.clone()",
    ],
    "M": [
        "torch.stack([{V}, {V}])", "({M} + {V})", "self.l({M})", "({M} * {V}.unsqueeze(0))", "torch.outer({V}, {V})",
        "torch.cat([{M}, {V}.view(1, -1)], dim=0)", "torch.stack({L})",
    ],
    "S": ["{V}.sum()", "{V}.max()", "({V} * {V}).sum()", "{V}.norm()", "{V}[1]", "torch.dot({V}, {V})", "{V}.mean()"],
    "J": ["(({J} + 1) % 3)", "torch.argsort({V})", "{J}.flip(0)", "({V} > 0).long()", "torch.arange(3)", "({J} // 2)"],
    "I": ["{V}.argmax().item()", "(({I} * 2 + 1) % 5)", "len({L})", "int({J}[0])", "{M}.size(0)"],
    "L": ["[{V} for _ in range(2)]", "[{V}, {V}]", "[v * 2 for v in {L}]", "list({L})", "{L}[::-1]", "({L} + [{V}])"],
}  # fmt: skip
ALIASES = {
    "V": ["{v}", "{v}.view(-1)", "{v}.detach()", "{v}.contiguous()", "{v}.data"], "M": ["{v}", "{v}[:]"], "L": ["{v}"],
}  # fmt: skip
WRITES = {
    "V": [
        "{v} += {V}", "{v} *= 0.5", "{v}[0] = {S}", "{v}[{I} % 3] = 1.5", "{v}[1] += {S}", "{v}.add_({V})",
        "{v}[:2] = {V}[1:]", "{v}[{v} > 1] = 0", "{v}.tanh_()", "{v}.copy_({V})", "{v}.masked_fill_({V} > 0, 0.25)",
        "{v}[{J}[:1]] = 2", "{v}.clamp_(min=-1)", "{v}.data[0] = 1",
    ],
    "M": ["{v}[0] = {V}", "{v}[{I} % 2] += {V}", "{v} += {V}", "{v}[:, 0] = 1", "{v}[-1][0] = 3", "{v}[:, 1] *= 2"],
    "L": ["{v}.append({V})", "{v}[0] = {V}", "{v}[-1] = {v}[0]", "{v}.insert(0, {V})", "{v}.reverse()"],
}  # fmt: skip
TESTS = ["{S} > 0.3", "{I} % 2 == 0", "{V}.argmax() == 1", "({V} > 0).any()", "len({L}) > 2"]
HEAD = """import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)

    def forward(self, x, w, m, n, j, xs):
"""


class Program:
    """A program under construction; names of what came in are never written to."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = {"V": ["x", "w"], "M": ["m"], "S": ["x.sum()"], "J": ["j"], "I": ["n"], "L": ["xs"]}
        self.own: dict[str, list[str]] = {t: [] for t in self.names}
        self.count = 0

    def text(self) -> str:
        for _ in range(self.random.randint(4, 9)):
            self.statement(2, "        ")
        returned = [name for t in "VMSJIL" for name in self.names[t][-3:]]
        return HEAD + "\n".join([*self.lines, f"        return {', '.join(returned)}\n"])

    def filled(self, template: str, depth: int, v: str = "") -> str:
        """Return a template with expressions of at most a depth for its types."""
        return re.sub(r"\{(\w)\}", lambda at: v if at[1] == "v" else self.expression(at[1], depth), template)

    def expression(self, t: str, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.random.choice(self.names[t])
        return self.filled(self.random.choice(EXPRESSIONS[t]), depth - 1)

    def bind(self, t: str, value: str, indent: str) -> None:
        self.count += 1
        name = f"{t.lower()}{self.count}"
        if self.own[t] and self.random.random() < 0.4 and not any(v in value for v in ("x", "w", "m[")):
            name = self.random.choice(self.own[t])
        self.lines.append(f"{indent}{name} = {value}")
        if name not in self.names[t]:
            self.names[t].append(name)
            self.own[t].append(name)

    def statement(self, depth: int, indent: str) -> None:
        kind = self.random.random()
        t = self.random.choice("VVVMSJIL")
        changed = self.random.choice("VVVML")
        if kind < 0.4 or not depth:
            value = self.expression(t, 3)
            self.bind(t, f"({value} * 1)" if t in "VM" else f"list({value})" if t == "L" else value, indent)
        elif kind < 0.65 and self.own[changed]:
            v = self.random.choice(self.own[changed])
            self.lines.append(indent + self.filled(self.random.choice(WRITES[changed]), 1, v))
        elif kind < 0.75 and self.own[changed]:
            v = self.random.choice(self.own[changed])
            self.bind(changed, self.filled(self.random.choice(ALIASES[changed]), 0, v), indent)
        elif kind < 0.88:
            self.block(f"if {self.filled(self.random.choice(TESTS), 1)}:", depth, indent)
        else:
            self.count += 1
            self.block(f"for k{self.count} in range({self.random.choice(['2', 'n'])}):", depth, indent)

    def block(self, head: str, depth: int, indent: str) -> None:
        """Write a block, whose names end with it."""
        self.lines.append(indent + head)
        before = [{t: list(v) for t, v in names.items()} for names in (self.names, self.own)]
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth - 1, indent + "    ")
        self.names, self.own = before
