"""Random programs of whose every line the value is known, to compare `Model.values` with the plain call.

In: a seed. Out: the text of a module with a model, and instances. A copy of it, in which each assignment and each
`return` notes its value, is the plain call that `wrong_lines` compares with: as many arrays, in the same order.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.modules import import_file

HEAD = """\
import numpy as np
from acronumba import model, nn


class Node:
    def __init__(self, x, children):
        self.x = x
        self.children = children


"""
UNARY = ("np.tanh({0})", "nn.sigmoid({0})", "{0} * np.float32(0.5)", "p['w'] @ {0}", "np.abs({0})", "{0}[::-1] + {0}",
         "np.where({0} > 0, {0}, {1})")  # fmt: skip
BINARY = ("{0} + {1}", "{0} - {1}", "np.maximum({0}, {1})", "p['u'] @ np.concatenate([{0}, {1}])",
          "np.stack([{0}, {1}]).sum(axis=0)")  # fmt: skip


class Writer:
    """Writes one module."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.helpers: list[str] = []
        self.fresh = 0

    def module(self) -> str:
        for k in range(self.rng.randrange(3)):
            self.helper(f"helper_{k}")
        recursive = self.rng.random() < 0.6
        self.lines += ["@model", "def f(node, words, *, p):", "    a = node.x + p['b']", "    n = len(words)"]
        names = self.body(["a"], 1, self.rng.randrange(3, 8), "f" if recursive else "")
        self.lines.append(f"    return {self.expression(names)}")
        return HEAD + "\n".join(self.lines) + "\n"

    def helper(self, name: str) -> None:
        self.lines.append(f"def {name}(s, t, p):")
        names = self.body(["s", "t"], 1, self.rng.randrange(1, 4), "")
        self.lines += [f"    return {self.expression(names)}", "", ""]
        self.helpers.append(name)

    def expression(self, names: list[str]) -> str:
        some = [self.rng.choice(names) for _ in range(2)]
        if self.rng.random() < 0.4:
            form = self.rng.choice(UNARY)
        else:
            form = self.rng.choice(BINARY)
        if self.rng.random() < 0.3:
            some[0] = f"({self.rng.choice(BINARY).format(*(self.rng.choice(names) for _ in range(2)))})"
        return form.format(*some)

    def body(self, names: list[str], depth: int, count: int, me: str) -> list[str]:
        """Write statements; return the names that are bound after all of them."""
        names, pad = list(names), "    " * depth
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.4 or depth > 3:
                self.fresh += self.rng.random() < 0.7
                name = self.rng.choice([f"v{self.fresh}", *(n for n in names if n not in ("s", "t"))])
                self.lines.append(f"{pad}{name} = {self.expression(names)}")
                names += [name] if name not in names else []
            elif kind < 0.48:
                name = self.rng.choice(names)
                self.lines += [f"{pad}{name} = {name} + p['b']", f"{pad}{name} += {self.expression(names)}"]
            elif kind < 0.58 and self.helpers:
                self.lines.append(f"{pad}{names[-1]} = {self.rng.choice(self.helpers)}({names[0]}, {names[-1]}, p)")
            elif kind < 0.72 and me:
                test = self.rng.choice(("n > 1", f"float({names[-1]}[0]) > 0", "words and words[0] % 2 == 0"))
                self.lines.append(f"{pad}if {test}:")
                self.body(names, depth + 1, self.rng.randrange(1, 3), me)
                if self.rng.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    self.body(names, depth + 1, 1, me)
            elif kind < 0.86 and me:
                self.lines += [f"{pad}for word in words:", f"{pad}    {names[0]} = {names[0]} + p['e'][word]"]
                self.body([*names], depth + 1, self.rng.randrange(1, 3), "")
            elif me:
                self.lines += [f"{pad}for child in node.children:", f"{pad}    c = f(child, words[1:], p=p)",
                               f"{pad}    {names[0]} = np.tanh({names[0]} + c)"]  # fmt: skip
            else:
                self.lines.append(f"{pad}{names[0]} = {self.expression(names)}")
        return names


class _Noted(ast.NodeTransformer):
    """Notes the value of each assignment and `return` by its line."""

    def _wrapped(self, node: Any) -> Any:
        name = ast.Name("_note", ast.Load())
        node.value = ast.Call(name, [ast.Constant(node.lineno), node.value], [])
        return ast.fix_missing_locations(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._wrapped(node)

    def visit_Return(self, node: ast.Return) -> Any:
        return self._wrapped(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        sum_ = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)  # type: ignore[union-attr]
        return self._wrapped(ast.copy_location(ast.Assign([node.target], sum_), node))


def instances(seed: int, count: int = 4) -> tuple[list[Any], list[list[int]]]:
    """Return trees, as (vector, children), and lists of words."""
    rng = np.random.default_rng(seed)

    def tree(depth: int) -> Any:
        children = [tree(depth - 1) for _ in range(int(rng.integers(0, 3)))] if depth else []
        return rng.standard_normal(3).astype(np.float32), children

    return [tree(2) for _ in range(count)], [
        rng.integers(5, size=int(rng.integers(0, 4))).tolist() for _ in range(count)
    ]


def wrong_lines(seed: int, folder: Path) -> tuple[list[str], int]:
    """Return the lines of a program at which `values` differs from the plain call, and how many were compared."""
    text = Writer(seed).module()
    path = folder / f"values_{seed}.py"
    path.write_text(text, encoding="utf-8")
    module = import_file(path)
    noted: dict[int, list[Any]] = defaultdict(list)

    def note(line: int, value: Any) -> Any:
        noted[line].append(np.array(value) if isinstance(value, np.ndarray) else None)
        return value

    tree = _Noted().visit(ast.parse(text))
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        function.decorator_list = []
    plain: dict[str, Any] = {"_note": note}
    exec(compile(tree, "plain", "exec"), plain)

    def node(spec: Any) -> Any:
        return module.Node(spec[0], [node(child) for child in spec[1]])

    rng = np.random.default_rng(0)
    shapes = {"w": (3, 3), "u": (3, 6), "b": (3,), "e": (5, 3)}
    p = {name: (rng.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()}
    specs, words = instances(seed)
    nodes = [node(spec) for spec in specs]
    expected = []
    for x, ws in zip(nodes, words, strict=True):
        noted.clear()
        plain["f"](x, ws, p=p)
        expected.append(dict(noted))
    wrong, compared = [], 0
    for line in sorted({line for found in expected for line in found}):
        try:
            found = module.f.values(nodes, words, at=f"{path.name}:{line}", p=p)
        except AcronumbaError as error:
            if isinstance(error, InstanceErrors) or error.code != "ACR706":
                wrong.append(f"{path.name}:{line}: {error}")
            continue
        compared += 1
        for k, arrays in enumerate(found):
            right = expected[k].get(line, [])
            if not (len(arrays) == len(right) and all(_alike(a, b) for a, b in zip(arrays, right, strict=True))):
                wrong.append(f"{path.name}:{line}, instance {k}: {arrays}, not {right}")
                break
    return wrong, compared


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-3, atol=1e-4)
