"""Runs the cells of a page in a worker of the browser, as a notebook would.

In: the code of a cell, and a function `say(kind, value)`. Out: what the cell prints ("text") and shows ("html"), the
explorer's pages that it writes ("page", name and text), and the line of its code where it fails ("line"). All cells
share the names of a module `__main__`, apart from the names here.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import acronumba.learn
from acronumba.errors import AcronumbaError

Say = Callable[[str, object], object]
_count = 0


def start() -> None:
    """Begin with no names."""
    os.environ["ACRONUMBA_ENGINE"] = "interpreted"
    sys.modules["__main__"] = types.ModuleType("__main__")


class _Out:
    """Standard output and standard error: what is printed is said at once."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def write(self, text: str) -> int:
        self._say("text", text)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def run(code: str, say: Say) -> bool:
    """Run a cell; return whether no exception left it."""
    global _count
    _count += 1
    name = f"<cell {_count}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # so that its functions have a source
    kept, written = (sys.stdout, sys.stderr), dict(_pages())
    sys.stdout = sys.stderr = out = _Out(say)  # type: ignore[assignment]
    acronumba.learn.show_html = lambda page: say("html", page)
    try:
        _execute(code, name, say)
        return True
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: they end the cell, not the worker
        out.write(_told(error, name))
        if line := _line(error, name):
            say("line", line)
        return False
    finally:
        sys.stdout, sys.stderr = kept
        acronumba.learn.show_html = None
        for page, at in _pages():
            if written.get(page) != at:
                say("page", [page, Path(page).read_text(encoding="utf-8")])


def _execute(code: str, name: str, say: Say) -> None:
    space = vars(sys.modules["__main__"])
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), space)
        page = value._repr_html_() if hasattr(value, "_repr_html_") and not isinstance(value, type) else None
        if page is not None:
            say("html", page)
        elif value is not None:
            print(repr(value))


def _pages() -> Iterator[tuple[str, int]]:
    return ((path.name, path.stat().st_mtime_ns) for path in Path().glob("*.html"))


def _told(error: BaseException, name: str) -> str:
    """Return what a terminal would show, without the frames of this file."""
    if isinstance(error, AcronumbaError):
        return f"{error}\n"
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != name:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb))


def _line(error: BaseException, name: str) -> int:
    """Return the line of the cell where it fails, or 0."""
    if isinstance(error, AcronumbaError) and error.loc.file == name:
        return error.loc.line
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno or 0
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return (lines[-1] if lines else 0) or 0
