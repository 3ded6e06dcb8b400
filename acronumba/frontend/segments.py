"""The segments of generator functions that wait: their code continues where it was when the next item is asked for.

In: the body of a generator function. Out: its segments, divided at each `yield`, and at the loops and branches around
them. `pulling` walks them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from acronumba.frontend.source import yields

END = -1  # the number of the segment behind the last one
Step = tuple[Any, ...]


class Unsupported(Exception):
    """A `yield` is in a statement that cannot be divided."""


class Segments:
    """The segments of a generator function: lists of steps, of which the last one continues in another segment."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.steps: list[list[Step]] = []
        self.entries: list[int] = []  # segments that may come next when an item is asked for
        self.names: list[str] = []  # of the items of `yield from`
        at = self.add(entry=True)
        self.steps[self.divide(body, at, END, END)].append(("go", END))

    def add(self, entry: bool = False) -> int:
        self.steps.append([])
        if entry:
            self.entries.append(len(self.steps) - 1)
        return len(self.steps) - 1

    def divide(self, body: Sequence[ast.stmt], at: int, after: int, head: int) -> int:
        """Add steps to a segment; return that in which the code continues. `break` and `continue` go to the others."""
        plain: list[ast.stmt] = []
        for stmt in body:
            if not yields([stmt]):
                if not plain:
                    self.steps[at].append(("do", plain, after, head))
                plain.append(stmt)
                continue
            plain = []
            at = self.divide_one(stmt, at, after, head)
        return at

    def divide_one(self, stmt: ast.stmt, at: int, after: int, head: int) -> int:
        match stmt:
            case ast.Expr(value=ast.Yield(value=value)) if value is None or not yields([value]):
                then = self.add(entry=True)
                self.steps[at].append(("yield", value, then))
                return then
            case ast.Expr(value=ast.YieldFrom(value=value)) if not yields([value]):
                each = f".each{len(self.steps)}"
                self.names.append(each)
                given = ast.Expr(ast.Yield(ast.Name(each, ast.Load())))
                loop = ast.For(ast.Name(each, ast.Store()), value, [given], [])
                return self.divide_one(ast.fix_missing_locations(ast.copy_location(loop, stmt)), at, after, head)
            case ast.If(test=test, body=body, orelse=orelse):
                yes, no, then = self.add(), self.add(), self.add(entry=True)
                self.steps[at].append(("branch", test, yes, no))
                self.steps[self.divide(body, yes, after, head)].append(("go", then))
                self.steps[self.divide(orelse, no, after, head)].append(("go", then))
                return then
            case ast.While(test=test, body=body, orelse=orelse):
                turn, yes, no, then = self.add(entry=True), self.add(), self.add(), self.add(entry=True)
                self.steps[at].append(("go", turn))
                self.steps[turn].append(("branch", test, yes, no))
                self.steps[self.divide(body, yes, then, turn)].append(("go", turn))
                self.steps[self.divide(orelse, no, after, head)].append(("go", then))
                return then
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse) if not yields([iterable]):
                turn, no, then = self.add(entry=True), self.add(), self.add(entry=True)
                self.steps[at] += [("begin", iterable, turn), ("go", turn)]
                self.steps[turn].append(("next", target, turn, no))
                self.steps[self.divide(body, turn, then, turn)].append(("go", turn))
                self.steps[self.divide(orelse, no, after, head)].append(("go", then))
                return then
        raise Unsupported
