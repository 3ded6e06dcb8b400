"""Reading functions: from a Python function to its syntax tree with exact positions.

In: a function object. Out: a `Source` (tree, file, line numbers as in the file), or `NoSource` with the reason. The
file's text comes from `linecache`, which also knows notebooks. `scan` finds the statements that are in no version
of the language.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from acronumba.errors import Loc

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NoSource(Exception):
    """The source of a function cannot be read; the argument says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A function of the user, or one nested in it."""

    node: FunctionNode
    file: str
    name: str  # qualified name, for positions and messages

    def loc(self, node: ast.AST) -> Loc:
        """Return the position of a node of this function."""
        line = getattr(node, "lineno", getattr(self.node, "lineno", 0))
        column = getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", line) or line
        return Loc(self.file, self.name, line, column, end_line, getattr(node, "end_col_offset", column + 1) or 0)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements; a lambda's is one return."""
        if isinstance(self.node, ast.Lambda):
            ret = ast.Return(value=self.node.body)
            return [ast.copy_location(ret, self.node.body)]
        return self.node.body


@lru_cache(maxsize=256)
def _parse(file: str, text: str) -> ast.Module:
    return ast.parse(text, file)


@lru_cache(maxsize=1024)
def _read(code: types.CodeType) -> Source:
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise NoSource(f"{code.co_filename} cannot be read")
    try:
        tree = _parse(code.co_filename, "".join(lines))
    except SyntaxError as error:
        raise NoSource(f"{code.co_filename} is not Python: {error.msg}") from None
    found = [n for n in _functions(tree) if _matches(n, code)]
    if len(found) > 1:  # several lambdas on one line: the one whose body the code's instructions lie in
        spots = [(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None]
        found = [n for n in found if isinstance(n, ast.Lambda) and any(_inside(n.body, *s) for s in spots)] or found
        found.sort(key=lambda n: -n.lineno * 10_000 - n.col_offset)
    if not found:
        raise NoSource("the file has changed since it was imported")
    return Source(found[0], code.co_filename, code.co_qualname.replace("<locals>.", ""))


def _functions(tree: ast.AST) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def _matches(node: FunctionNode, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        same_name, first = code.co_name == "<lambda>", node.lineno
    else:
        same_name = node.name == code.co_name
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    args = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    return same_name and first == code.co_firstlineno and args == list(code.co_varnames[:count])


def _inside(node: ast.AST, line: int, column: int) -> bool:
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    end = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    return start <= (line, column) < end


def read_source(fn: types.FunctionType) -> Source:
    """Return the source of a function.

    Raises
    ------
    NoSource
        If there is no file, as for `exec` and the interactive prompt, or if it has changed.
    """
    return _read(fn.__code__)  # its own: what `functools.wraps` names as wrapped is another function


def assigned_names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that statements may bind, not looking into nested functions."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
                return
            case ast.Lambda():
                return
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                for inner in ast.walk(node):
                    if isinstance(inner, ast.NamedExpr):
                        names.add(inner.target.id)
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for stmt in body:
        visit(stmt)
    return frozenset(names)


_FORBIDDEN: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], str], ...] = (
    ((ast.Try, ast.TryStar), "ACR101"),
    ((ast.With, ast.AsyncWith), "ACR102"),
    ((ast.Global, ast.Nonlocal), "ACR103"),
    ((ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFunctionDef, ast.AsyncFor), "ACR104"),
    (ast.Delete, "ACR105"),
    ((ast.Import, ast.ImportFrom), "ACR106"),
    (ast.ClassDef, "ACR107"),
)


def spot(node: ast.AST | None) -> tuple[int | str, ...]:
    """Return what tells a node apart from the others of its function, the same in every walk."""
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return (type(node).__name__, *(getattr(node, n, 0) or 0 for n in names))


def is_forbidden(node: ast.AST) -> bool:
    """Whether `scan` reports a node."""
    return any(isinstance(node, kinds) for kinds, _ in _FORBIDDEN)


def scan(source: Source) -> Iterator[tuple[str, ast.AST]]:
    """Yield (code, node) for every statement that no version of the language has, in order of position."""
    found: list[tuple[str, ast.AST]] = []

    def visit(node: ast.AST) -> None:
        for kinds, code in _FORBIDDEN:
            if isinstance(node, kinds):
                found.append((code, node))
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    if isinstance(source.node, ast.AsyncFunctionDef):
        found.append(("ACR104", source.node))
    for stmt in source.body:
        visit(stmt)
    found.sort(key=lambda f: (getattr(f[1], "lineno", 0), getattr(f[1], "col_offset", 0)))
    yield from found
