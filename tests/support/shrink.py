"""Makes a small program of one that shows something wrong, and prints it as a test.

In: a `Case` with its instances, and a function that says in a few words what is wrong with a text. Out: the shortest
text found of which it says the same. Model, instances and shared values are one module (`text_of`), so one mechanism
shrinks them all: its tree loses statements, items, arguments and fields, branches become their bodies, and expressions
become parts of themselves, 0 or 1.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

INSTANCES, SHARED = "INSTANCES", "SHARED"
Symptom = Callable[[str], str]


# ---- data as text


class _Texts:
    """Text of values; what is met twice gets a name, so that it stays one object."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.lines: list[str] = []
        self.met: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.keep: list[Any] = []

    def count(self, value: Any) -> None:
        parts = _parts(value)
        if parts is not None:
            self.keep.append(value)
            self.met[id(value)] = self.met.get(id(value), 0) + 1
            if self.met[id(value)] == 1:
                for _, part in parts:
                    self.count(part)

    def text(self, value: Any) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        text = self._text(value)
        shared = isinstance(value, list) or dataclasses.is_dataclass(value)
        if shared and self.met.get(id(value), 0) > 1:
            name = self.names[id(value)] = f"OBJECT_{len(self.names)}"
            self.lines.append(f"{name} = {text}")
            return name
        return text

    def _text(self, value: Any) -> str:
        if isinstance(value, np.ndarray):
            what = f"array({_numbers(value.tolist())}" if value.size else f"zeros({value.shape}"
            return f"np.{what}, np.{_dtype(value)})"
        if isinstance(value, np.generic):
            return f"np.{_dtype(value)}({_numbers(value.item())})"
        if isinstance(value, enum.Enum):
            return f"{type(value).__name__}.{value.name}"
        parts = _parts(value)
        if parts is None:
            return _numbers(value)
        texts = [(name, self.text(part)) for name, part in parts]
        if isinstance(value, dict):
            return "{" + ", ".join(f"{name!r}: {text}" for name, text in texts) + "}"
        inner = ", ".join(text for _, text in texts)
        if isinstance(value, list):
            return f"[{inner}]"
        if type(value) is tuple:
            return f"({inner}{',' if len(value) == 1 else ''})"
        name = type(value).__name__
        name = name if hasattr(self.module, name) else f"random.{name}"
        return f"{name}({', '.join(f'{n}={text}' for n, text in texts)})"


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return names and values of what a container holds; None of anything else."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(zip(getattr(value, "_fields", [""] * len(value)), value, strict=True))
    if dataclasses.is_dataclass(value):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def _dtype(value: Any) -> str:
    return "bool_" if value.dtype == bool else str(value.dtype)


def _numbers(value: Any) -> str:
    """Return numbers, and lists of them, as text that is also right for infinities and NaN."""
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    if isinstance(value, float) and not np.isfinite(value):
        return "np.nan" if value != value else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def text_of(source: str, module: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any]) -> str:
    """Return a module: the source, the instances as a list of tuples, and the shared values as a dict."""
    rows = [tuple(row) for row in zip(*columns, strict=True)]
    texts = _Texts(module)
    for value in (*(v for row in rows for v in row), *shared.values()):
        texts.count(value)
    instances = ", ".join(f"({', '.join(map(texts.text, row))},)" for row in rows)
    given = "{" + ", ".join(f"{k!r}: {texts.text(v)}" for k, v in shared.items()) + "}"
    lines = [source.rstrip(), "", "", *texts.lines, f"{INSTANCES} = [{instances}]", f"{SHARED} = {given}", ""]
    return ast.unparse(ast.parse("\n".join(lines))) + "\n"


# ---- smaller trees

Edit = Callable[[ast.Module], bool]  # changes a copy of the tree; False if there is nothing to do


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """Nodes in an order that is the same for equal trees."""
    return list(ast.walk(tree))


def _bodies(tree: ast.AST) -> Iterator[tuple[int, str, int]]:
    """Lists of statements: the number of the node, the field, and how many."""
    for at, node in enumerate(_nodes(tree)):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield at, name, len(body)


def _without(at: int, name: str, lo: int, hi: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = _nodes(tree)[at]
        body = getattr(node, name)
        if all(isinstance(s, ast.Pass) for s in body[lo:hi]):
            return False
        body[lo:hi] = []
        if not body and name == "body":
            body.append(ast.Pass())
        return True

    return edit


def _unwrapped(at: int, name: str, k: int, inner: str) -> Edit:
    def edit(tree: ast.Module) -> bool:
        body = getattr(_nodes(tree)[at], name)
        body[k : k + 1] = getattr(body[k], inner)
        return True

    return edit


def statements(tree: ast.Module) -> Iterator[Edit]:
    """Take statements away, many at once first; put a body in place of its branch or loop."""
    bodies = list(_bodies(tree))
    most = max(n for _, _, n in bodies)
    size = 1 << (most.bit_length() - 1)
    while size:
        for at, name, n in bodies:
            if size <= n:
                for lo in reversed(range(0, n - size + 1, size)):
                    yield _without(at, name, lo, lo + size)
        size //= 2
    nodes = _nodes(tree)
    for at, name, _ in bodies:
        for k, statement in enumerate(getattr(nodes[at], name)):
            for inner in ("body", "orelse"):
                if isinstance(statement, ast.If | ast.For | ast.While) and getattr(statement, inner):
                    yield _unwrapped(at, name, k, inner)
            if isinstance(statement, ast.Match):
                for case in range(len(statement.cases)):
                    yield _case(at, name, k, case)


def _case(at: int, name: str, k: int, case: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        body = getattr(_nodes(tree)[at], name)
        body[k : k + 1] = body[k].cases[case].body
        return True

    return edit


def arrays(tree: ast.Module) -> Iterator[Edit]:
    """Put ones or zeros in place of the numbers of arrays: of all, then of each."""

    def filled(kind: str, only: int | None) -> Edit:
        def edit(tree: ast.Module) -> bool:
            found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "np.array"]
            for node in found if only is None else found[only : only + 1]:
                values = np.array(_plain(node.args[0]))
                node.func = ast.parse(f"np.{kind}", mode="eval").body
                node.args[0] = ast.parse(repr(values.shape), mode="eval").body
            return bool(found)

        return edit

    count = sum(isinstance(n, ast.Call) and ast.unparse(n.func) == "np.array" for n in ast.walk(tree))
    if count:
        yield from (filled(kind, only) for only in (None, *range(count)) for kind in ("ones", "zeros"))


def _plain(node: ast.expr) -> Any:
    """Return nested lists of numbers; infinities and NaN are names there."""
    match node:
        case ast.List(elts):
            return [_plain(e) for e in elts]
        case ast.UnaryOp(ast.USub(), operand):
            return -_plain(operand)
        case ast.Attribute(attr=name):
            return float(name)
        case ast.Constant(value):
            return value
    raise ValueError(ast.unparse(node))


LISTS = {ast.List: ("elts",), ast.Tuple: ("elts",), ast.Call: ("args", "keywords"), ast.Dict: ("keys", "values"),
         ast.Match: ("cases",), ast.BoolOp: ("values",)}  # fmt: skip


def instances(tree: ast.Module) -> Iterator[Edit]:
    """Take instances away."""
    last = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == INSTANCES]
    return items(tree, only=last[0].value if last else None)


def items(tree: ast.Module, only: ast.AST | None = None) -> Iterator[Edit]:
    """Take items away: of lists, tuples, dicts and calls; or of one of them alone."""

    def without(at: int, names: Sequence[str], lo: int, hi: int) -> Edit:
        def edit(tree: ast.Module) -> bool:
            node = _nodes(tree)[at]
            for name in names:
                have = getattr(node, name)
                have[lo:hi] = []
            return bool(getattr(node, names[0])) or not isinstance(node, ast.Match | ast.BoolOp | ast.Tuple)

        return edit

    for at, node in enumerate(_nodes(tree)):
        if only is not None and node is not only:
            continue
        names = LISTS.get(type(node), ())
        groups = [names] if isinstance(node, ast.Dict) else [(n,) for n in names]
        for group in groups:
            n = len(getattr(node, group[0]))
            size = 1 << (max(n, 1).bit_length() - 1)
            while size and n:
                for lo in reversed(range(0, n - size + 1, size)):
                    yield without(at, group, lo, lo + size)
                size //= 2


def names(tree: ast.Module) -> Iterator[Edit]:
    """Take a field from a class and all its objects, or a parameter from a function and all its calls."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
            for k, name in enumerate(fields):
                yield _less(node.name, name, k)
        if isinstance(node, ast.FunctionDef):
            for k, arg in enumerate(node.args.args):
                yield _less(node.name, arg.arg, k)


def _less(owner: str, name: str, k: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        for node in _nodes(tree):
            if isinstance(node, ast.ClassDef) and node.name == owner:
                rest = [s for s in node.body if not (isinstance(s, ast.AnnAssign) and ast.unparse(s.target) == name)]
                node.body = rest or [ast.Pass()]
            elif isinstance(node, ast.FunctionDef) and node.name == owner:
                del node.args.args[k]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == owner:
                node.keywords = [w for w in node.keywords if w.arg != name]
                node.args[k : k + 1] = []
            elif isinstance(node, ast.MatchClass) and ast.unparse(node.cls) == owner:
                node.patterns[k : k + 1] = []
            elif isinstance(node, ast.Assign) and owner == "main" and ast.unparse(node.targets[0]) == INSTANCES:
                for row in node.value.elts:  # type: ignore[attr-defined]
                    row.elts[k : k + 1] = []
        return True

    return edit


def expressions(tree: ast.Module) -> Iterator[Edit]:
    """Put a part of an expression, or a constant, in its place; the largest first."""

    def put(at: int, new: ast.expr) -> Edit:
        def edit(tree: ast.Module) -> bool:
            old = _nodes(tree)[at]
            for parent in ast.walk(tree):
                for name, value in ast.iter_fields(parent):
                    if value is old:
                        setattr(parent, name, copy.deepcopy(new))
                        return True
                    if isinstance(value, list):
                        for k, item in enumerate(value):
                            if item is old:
                                value[k] = copy.deepcopy(new)
                                return True
            return False

        return edit

    found = []
    for at, node in enumerate(_nodes(tree)):
        if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            continue
        text = ast.unparse(node)
        found.append((len(text), at, node, text))
    for length, at, node, text in sorted(found, key=lambda f: -f[0]):
        if isinstance(node, ast.Name | ast.Constant) and length < 3:
            continue
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        if isinstance(node, ast.Call):
            parts = [n for n in parts if n is not node.func]
            if isinstance(node.func, ast.Attribute):
                parts.append(node.func.value)
        for part in parts:
            if not (isinstance(part, ast.Name) and part.id in ("np", "nn", "math", "random", "dataclasses")):
                yield put(at, part)
        if isinstance(node, ast.Constant):
            simple = {int: "0 1", float: "0.0 1.0", bool: ""}.get(type(node.value), "")
            rest = [c for c in simple.split() if c != text]
        else:
            rest = ["0", "1", "1.0", "True", "False", "None"] if length > 2 else []
        if not (isinstance(node, ast.Constant) and text in ("0", "1", "0.0", "1.0")):
            for constant in rest:
                yield put(at, ast.parse(constant, mode="eval").body)


def shrunk(text: str, symptom: Symptom, seconds: float) -> str:
    """Return a smaller text with the same symptom.

    Parameters
    ----------
    text : str
        Of a module, see `text_of`.
    symptom : function
        From such a text to what is wrong with it, in a few words; "" if nothing is.
    seconds : float
        When to end at the latest, about.
    """
    wanted = symptom(text)
    if not wanted:
        return text
    end = time.monotonic() + seconds
    tree, before = ast.parse(text), ""
    tried: set[str] = set()
    while text != before:
        before = text
        for edits in (arrays, instances, statements, names, items, statements, expressions):
            todo, k = list(edits(tree)), 0
            while k < len(todo) and time.monotonic() < end:
                smaller = copy.deepcopy(tree)
                try:
                    candidate = ast.unparse(ast.fix_missing_locations(smaller)) + "\n" if todo[k](smaller) else text
                    compile(candidate, "candidate", "exec")
                except (IndexError, ValueError, SyntaxError, AttributeError):
                    candidate = text  # an edit that makes no program
                if candidate not in tried and len(candidate) < len(text) and symptom(candidate) == wanted:
                    # What was not tried yet lies at the same place, or before it.
                    text, tree = candidate, ast.parse(candidate)
                    todo = list(edits(tree))
                else:
                    k += 1
                tried.add(candidate)
    return text


def test_text(text: str, name: str, options: dict[str, Any], compiled: bool, expected: Sequence[str]) -> str:
    """Return a file for pytest: the module, and a test that compares it with the plain call."""
    given = "".join(f", {k}={v!r}" for k, v in options.items())
    model = f"main.with_options({given[2:]})" if given else "main"
    says = "".join(f"    # the plain call: {line}\n" for line in expected)
    return (
        f"{text.rstrip()}\n\n\ndef test_{name}() -> None:\n    from tests.support import generate\n\n{says}"
        f"    columns = [list(column) for column in zip(*{INSTANCES}, strict=True)]\n"
        f"    assert not generate.compare({model}, columns, {SHARED}, compiled={compiled})\n"
    )
