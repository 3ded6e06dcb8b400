"""Outlining: cuts functions that are too large for LLVM into pieces.

In: a `tree.Function`. Out: the same with its nests of loops as separate functions, which it calls. The time of LLVM's
passes grows with the square of a function's size, or faster; a call costs nothing compared with a nest. Nests that
differ only in their locals, such as the heads of attention, become one function.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from acronumba.emit import text, tree
from acronumba.emit.tree import VOID, Local

MOST = 48  # loops of a function that stays whole


def outlined(module: tree.Module) -> tree.Module:
    """Return a module whose functions have few loops each."""
    names = {f.name for f in module.functions}
    out: list[tree.Function] = []
    for f in module.functions:
        if _loops(f.body) > MOST:
            pieces = _Pieces(f, names)
            whole = replace(f, body=pieces.cut(f.body))
            out += pieces.made
            f = whole
        out.append(f)
    return replace(module, functions=tuple(out))


class _Pieces:
    """The pieces of one function."""

    def __init__(self, function: tree.Function, names: set[str]) -> None:
        self.function, self.names = function, names
        self.made: list[tree.Function] = []
        self.known: dict[str, str] = {}  # text of a piece whose locals are numbered -> the name of the function
        self.uses = _uses(function.body)  # how often each local is read, and assigned

    def cut(self, body: tree.Body) -> tree.Body:
        """Return statements with calls in place of the nests among them."""
        out: tree.Body = []
        title = "nest"
        for stmt in body:
            if isinstance(stmt, tree.Comment) and stmt.text:
                title = stmt.text
            if isinstance(stmt, tree.For) and _loops([stmt]) > MOST // 2:
                stmt = replace(stmt, body=self.cut(stmt.body))
            elif isinstance(stmt, tree.For) and self._stands_alone(stmt):
                stmt = self._piece(stmt, title)
            out.append(stmt)
        return out

    def _stands_alone(self, nest: tree.For) -> bool:
        """Whether locals that a nest assigns are used only in it, and it has no jumps out of it."""
        inside = _uses([nest])
        if any(self.uses[v.name] != inside[v.name] for v in _assigned([nest])):
            return False
        return not any(isinstance(s, tree.Return | tree.Dispatch | tree.Goto | tree.Again) for s in _statements([nest]))

    def _piece(self, nest: tree.For, title: str) -> tree.Stmt:
        """Make a nest a function, unless an equal one exists; return the call."""
        own = {v.name for v in _assigned([nest])}
        given = list({v.name: v for v in _read([nest]) if v.name not in own}.values())
        number: dict[str, str] = {}
        for name in (*(v.name for v in given), *(v.name for v in _assigned([nest]))):
            number.setdefault(name, f"x{len(number)}")
        params = tuple(Local(number[v.name], v.type) for v in given)
        shape = text.function_text(tree.Function("piece", params, VOID, [_renamed(nest, number)]))
        name = self.known.get(shape, "")
        if not name:
            name = self.known[shape] = self._name(title)
            doc = f"{title}: a part of `{self.function.name}`."
            self.made.append(tree.Function(name, tuple(given), VOID, [nest], inline="never", doc=doc))
        return tree.Do(tree.Call(name, tuple(given), VOID))

    def _name(self, title: str) -> str:
        word = "".join(c if c.isalnum() else "_" for c in title.partition(",")[0].strip())
        base = name = f"{self.function.name}_{word}"
        k = 1
        while name in self.names:
            k += 1
            name = f"{base}_{k}"
        self.names.add(name)
        return name


def _statements(body: Sequence[Any]) -> Iterator[Any]:
    """Yield statements and, recursively, the statements in them."""
    for stmt in body:
        yield stmt
        for f in dataclasses.fields(stmt):
            inner = getattr(stmt, f.name)
            if isinstance(inner, list):
                yield from _statements(inner)


def _uses(body: tree.Body) -> dict[str, tuple[int, int]]:
    """Count the reads and assignments of each local."""
    read, assigned = Counter(v.name for v in _read(body)), Counter(v.name for v in _assigned(body))
    return {name: (read[name], assigned[name]) for name in (*read, *assigned)}


def _loops(body: tree.Body) -> int:
    return sum(isinstance(s, tree.For | tree.While) for s in _statements(body))


def _assigned(body: tree.Body) -> Iterator[Local]:
    for stmt in _statements(body):
        if isinstance(stmt, tree.Assign):
            yield stmt.target
        elif isinstance(stmt, tree.For):
            yield stmt.var


def _read(body: tree.Body) -> Iterator[Local]:
    """Yield the locals that statements read, in order, with repetitions."""
    for stmt in _statements(body):
        for f in dataclasses.fields(stmt):
            value = getattr(stmt, f.name)
            if f.name not in ("target", "var") and isinstance(value, tree.Expr):
                yield from _locals(value)


def _locals(e: tree.Expr) -> Iterator[Local]:
    if isinstance(e, Local):
        yield e
        return
    for f in dataclasses.fields(e):  # type: ignore[arg-type]
        value = getattr(e, f.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, tree.Expr):
                yield from _locals(part)


def _renamed(x: Any, to: dict[str, str]) -> Any:
    """Return a statement or expression with locals under other names."""
    if isinstance(x, Local):
        return replace(x, name=to[x.name])
    if isinstance(x, list | tuple):
        return type(x)(_renamed(part, to) for part in x if not isinstance(part, tree.Comment))
    if not dataclasses.is_dataclass(x) or isinstance(x, tree.Ty | type):
        return x
    return replace(x, **{f.name: _renamed(getattr(x, f.name), to) for f in dataclasses.fields(x)})
