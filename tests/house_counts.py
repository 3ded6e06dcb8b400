"""How simple the house is, in figures: kinds of values, functions that tell them apart, positions that are handed on.

    python tests/house_counts.py

`test_house` keeps each figure at or below its limit.
"""

from __future__ import annotations

import ast
import functools
import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "acronumba"
WHAT = re.compile(r"(?:Return )?[Ww]hat\b")  # how a docstring begins that does not name its noun
CONTROL = {f"{walker}.{name}" for walker in ("w", "self", "sweep") for name in ("fork", "enter", "join")}
ANY_NODE = {"", "ast.AST", "ast.expr", "ast.stmt", "ast.AST | None", "ast.expr | None"}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Map the path of each file below the package to its syntax tree. No collection of garbage goes over the trees."""
    paths = sorted(PACKAGE.rglob("*.py"))
    gc.disable()
    out = {str(p.relative_to(PACKAGE)): ast.parse(p.read_text(encoding="utf-8")) for p in paths}
    gc.freeze()
    gc.enable()
    return out


def functions(room: str = "") -> Iterator[ast.FunctionDef]:
    """Yield all functions, with inner ones, of the files whose paths begin with `room`."""
    for path, tree in trees().items():
        if path.startswith(room):
            yield from (f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef))


def parameters(f: ast.FunctionDef) -> list[ast.arg]:
    """Return all parameters of a function."""
    a = f.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]


@functools.cache
def kinds() -> frozenset[str]:
    """Return the names of the classes of abstract values: those that derive from `Value`."""
    nodes = (n for path, tree in trees().items() if path.startswith("frontend") for n in tree.body)
    bases = {c.name: {ast.unparse(b) for b in c.bases} for c in nodes if isinstance(c, ast.ClassDef)}
    derived = {"Value"}
    while more := {name for name, of in bases.items() if of & derived} - derived:
        derived |= more
    return frozenset(name for name in derived if name != "Value" and not name.startswith("_"))


def told_apart(f: ast.FunctionDef) -> set[str]:
    """Return the kinds of values that a function names in `isinstance` or in the cases of a `match`."""
    found: set[str] = set()
    for node in ast.walk(f):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            found |= {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            found.add(node.cls.id)
    return found & kinds()


def dispatching() -> int:
    """Count the functions of the front end that tell three or more kinds of values apart."""
    return sum(len(told_apart(f)) >= 3 for f in functions("frontend"))


def branching_by_hand() -> int:
    """Count the functions of the front end that fork and join control flow themselves, and not by a combinator."""
    return sum(bool(CONTROL & set(map(ast.unparse, own_calls(f)))) for f in functions("frontend"))


def own_calls(f: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what a function calls, functions inside it aside."""
    open_: list[ast.AST] = list(f.body)
    while open_:
        node = open_.pop()
        if not isinstance(node, ast.FunctionDef):
            open_ += ast.iter_child_nodes(node)
            if isinstance(node, ast.Call):
                yield node.func


def node_parameters() -> int:
    """Count the parameters `node` of the front end that may be any node: those that hand on a position."""
    return sum(
        a.arg == "node" and (ast.unparse(a.annotation) if a.annotation else "") in ANY_NODE
        for f in functions("frontend")
        for a in parameters(f)
    )


def nameless_docstrings() -> int:
    """Count the docstrings of the package that begin with "What" or "Return what"."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (n for tree in trees().values() for n in ast.walk(tree) if isinstance(n, documented))
    return sum(bool(WHAT.match(ast.get_docstring(n) or "")) for n in nodes)


def lines_with_any() -> int:
    """Count the lines of the package that say `Any`, imports and `torch` aside: PyTorch has no types."""
    files = (p for p in PACKAGE.rglob("*.py") if "torch" not in p.relative_to(PACKAGE).parts)
    lines = (line for p in files for line in p.read_text(encoding="utf-8").splitlines())
    return sum(bool(re.search(r"\bAny\b", line)) and "import" not in line for line in lines)


def package_lines() -> int:
    """Count the lines of Python in the package."""
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in PACKAGE.rglob("*.py"))


# What is counted, how, and the most that there may be. A limit goes down with what it limits, and never up; those of
# kinds, of lines and of `Any` may go up by those of a feature that users asked for, as PyTorch's code and data without
# classes.
COUNTS: dict[str, tuple[Callable[[], int], int]] = {
    "classes of abstract values": (lambda: len(kinds()), 39),
    "functions that tell three or more of them apart": (dispatching, 3),
    "functions that fork and join control flow themselves": (branching_by_hand, 37),
    "parameters `node` that hand on a position": (node_parameters, 22),
    'docstrings that begin with "What"': (nameless_docstrings, 2),
    "lines with `Any`": (lines_with_any, 720),
    "lines of Python in the package": (package_lines, 136_600),
}

if __name__ == "__main__":
    for name, (count, most) in COUNTS.items():
        print(f"{count():7,} of at most {most:7,}  {name}")
