"""What a rejection says to write instead: where it is code, it gives what the plain call of the original gives."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from tests.support.modules import import_file
from tests.support.plain_call import agree, outcomes, plain

TREES = """
class Node:
    def __init__(self, v, left=None):
        self.v = v
        self.left = left

class Box:
    def __init__(self):
        self.d = {}

    def get(self, k):
        if k not in self.d:
            self.d[k] = np.zeros(2)
        return self.d[k]

"""
VIEW = "a = np.zeros(3)\n    v = a[1:] if x[0] > 0 else a[:2]\n    "
SNIPPETS = [  # bodies of functions of an array of four numbers
    "x[0] = 1.0\n    return x.sum()",
    "x += 1\n    return x",
    "x *= x\n    return x.sum()",
    "x[1:] = 0.0\n    return x",
    "y = x.reshape(2, 2)\n    y[0] = 1.0\n    return y",
    "for row in [x, x]:\n        row[0] = 1.0\n    return 1",
    VIEW + "v[0] = x[0]\n    return a",
    VIEW + "v += 1\n    return a",
    "a = np.zeros(6)\n    p, q, r = np.split(a, 3)\n    q += 1\n    return a",
    "a = np.zeros(6)\n    p, q, r = np.split(a, 3)\n    q[0] = 1\n    return a",
    "d = {}\n    d['h'] = np.zeros(2)\n    d['h'][1] = 4\n    return d['h']",
    "c = Box()\n    for i, v in enumerate(x):\n        c.get(i % 2)[0] += v\n    return c.d[0]",
    "s = [(i, np.zeros(2)) for i in range(3)]\n    for i, v in enumerate(x):\n"
    "        s[i % 3][1][i % 2] += v\n    return s[0][1]",
    "y = np.zeros(2)\n    y += 1\n    z = [y, y][int(x[0] > 0)]\n    z += 1\n    return y",
    "return round(float(x[0]), 30)",
]


def load(tmp_path: Path, text: str) -> Any:
    """Return the module of a source, each time from a file of its own."""
    path = tmp_path / f"snippet_{len(list(tmp_path.iterdir()))}.py"
    path.write_text(text, encoding="utf-8")
    return import_file(path)


def source(body: str) -> str:
    return f"import numpy as np\n{TREES}\ndef f(x):\n    {body}\n"


def is_code(text: str) -> bool:
    """Whether a rewrite is a statement or an expression to put in the place of what was rejected."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return not text.isidentifier()


def applied(text: str, error: AcronumbaError) -> str:
    """Return the source with the rewrite: for the statement, or, of a copy of a name, in front of it."""
    lines = text.split("\n")
    at = error.line - 1
    line = lines[at]
    space = line[: len(line) - len(line.lstrip())]
    if error.rewrite.endswith(".copy()"):
        lines.insert(at, space + error.rewrite)
    else:
        lines[at] = space + error.rewrite
    return "\n".join(lines)


@pytest.mark.parametrize("body", SNIPPETS)
def test_a_rewrite_that_is_code_gives_what_the_original_gives(body: str, tmp_path: Path) -> None:
    text, column = source(body), [np.array([1.0, -2.0, 3.0, 0.5]), np.array([-1.0, 2.0, 0.0, 4.0])]
    wanted = plain(load(tmp_path, text).f, copy.deepcopy(column))
    for _ in range(4):
        f: Any = load(tmp_path, text).f
        rejected: AcronumbaError | None = None
        try:
            got = outcomes(model(f).batch, column)
        except AcronumbaError as error:
            rejected = error
        if rejected is None:
            agree(got, wanted)
            return
        assert rejected.rewrite
        if not is_code(rejected.rewrite):
            return
        text = applied(text, rejected)
    raise AssertionError(text)
