"""The user's source at positions (`Loc`) of a program."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

from acronumba.errors import Loc
from acronumba.ir.nodes import Program


def locs_of(program: Program) -> Iterator[Loc]:
    """Yield the source positions of all functions and instructions of a program."""
    for function in program.functions:
        yield function.loc
        for block in function.blocks:
            for instr in block.instrs:
                yield instr.loc
            yield block.end.loc


def line_text(loc: Loc) -> str:
    """Return the line of the user's source at a position, or ""."""
    return linecache.getline(loc.file, loc.line).strip() if loc.file else ""


@lru_cache(maxsize=64)
def _functions(text: str) -> tuple[tuple[int, int, int], ...]:
    """Return (first line, decorators included; def line; last line) of every function of a file's text, and of every
    assignment outside of functions, as it may hold a lambda.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    assigned = [n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign)]
    return tuple(
        (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.lineno, n.end_lineno or n.lineno)
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef)
    ) + tuple((n.lineno, n.lineno, n.end_lineno or n.lineno) for n in assigned)


def spanned(loc: Loc) -> str:
    """Return the user's expression at a position; "" if it takes more than one line."""
    if not loc.file or loc.end_line != loc.line:
        return ""
    line = linecache.getline(loc.file, loc.line).encode()
    return line[loc.column : loc.end_column].decode(errors="replace")


def functions_of(program: Program) -> Iterator[tuple[str, int, str]]:
    """Yield (file, line, text) of every outermost function (or assignment) of the user that the program comes from."""
    places: dict[str, set[int]] = {}
    for loc in locs_of(program):
        if loc.file:
            places.setdefault(loc.file, set()).add(loc.line)
    for file, lines in sorted(places.items()):
        text = linecache.getlines(file)
        functions = _functions("".join(text))
        spans = {min(around) for n in lines if (around := [f for f in functions if f[0] <= n <= f[2]])}
        for first, _, last in sorted(spans):
            yield file, first, "".join(text[first - 1 : last])
