"""Tests of nested data of several shapes: each shape is tested alone, and the name is narrowed to those that remain.

`t[0] == "add"`, `"left" in d`, `len(t) == 2`, `d.get("children")` and patterns tell shapes apart. Where the value of
a name has one of several, a condition that reads it is evaluated for each; the known length, keys or constant tag of a
shape decides at compile time. A name of an item, `kind = t[0]`, narrows the name of the tuple, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache

from acronumba.frontend.block import Fork, Point
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.kinds.functions import Func, Static
from acronumba.frontend.kinds.value import StateKey, Val
from acronumba.frontend.merge import fails_plainly
from acronumba.frontend.names import path_of
from acronumba.frontend.walker import Walker
from acronumba.ir.types import NONE, StructT, members

_PLAIN = (len, type, isinstance, bool, str)  # functions whose calls cost little to repeat for each shape


def note_item(w: Walker, base: ast.expr, owner: Val, index: Val, item: Val) -> None:
    """Note that a value is an item of a name of several shapes, which a test of it narrows."""
    path = path_of(w, base)
    if path is None or not owner.nests or not owner.is_several or w.state.get(path) is not owner:
        return
    kinds = members(owner.word_type() or NONE)
    if w.facts.changing.isdisjoint(m.cls for m in kinds if isinstance(m, StructT)):  # the item stays the same
        w.items_read[id(item)] = item, path, owner, index


def split_condition(w: Walker, test: ast.expr, handler: Callable[[Walker, ast.expr], Fork]) -> Fork:
    """Evaluate a condition; for each shape of a name in it by itself."""
    found = _subject(w, test)
    if found is None:
        return handler(w, test)
    path, val, named = found
    return by_alternative(w, path, val, lambda: handler(w, test), named)


def by_alternative(
    w: Walker, path: StateKey, val: Val, run: Callable[[], Fork], named: Sequence[tuple[StateKey, Val]] = ()
) -> Fork:
    """Branch on each alternative of the value at a path; narrow it to those that come out on each side.

    `named` are names of items of the value, with their index.
    """
    outs: tuple[list[tuple[Point, int]], list[tuple[Point, int]]] = [], []
    rejected: list[Rejected] = []
    kept = [w.state[key] for key, _ in named]
    alternatives: dict[int, Val] = {}

    def one(branch: tuple[int, Callable[[], Val]]) -> None:
        k, read = branch
        alternatives[k] = w.state[path] = read()
        found = _one(w, alternatives[k], run, named, rejected)
        w.block = None
        for out, points in zip(outs, found, strict=True):
            out += [(point, k) for point in points]

    w.along(((test, (k, read)) for k, (test, read) in enumerate(val.alternatives(w))), one)
    if rejected and len(rejected) == len(alternatives):
        raise rejected[0]
    for out in outs:
        places = sorted({k for _, k in out})
        for (_, state), k in out if len(places) > 1 else ():
            if state.get(path) is alternatives[k]:
                state[path] = val.some_of_alternatives(w, places)
            for (key, _), old in zip(named, kept, strict=True):
                state[key] = old
    w.block = None
    return [point for point, _ in outs[0]], [point for point, _ in outs[1]]


def _one(
    w: Walker, val: Val, run: Callable[[], Fork], named: Sequence[tuple[StateKey, Val]], rejected: list[Rejected]
) -> Fork:  # fmt: skip
    try:
        for key, index in named:
            part = val.row_item(w, index)
            if part is not None:
                w.state[key] = part
        return run()
    except Dead:
        w.block = None
    except Rejected as error:
        if error.error is not None and not fails_plainly(error.error.code):
            raise
        rejected.append(error)
        w.fail_as(error, val)
    return [], []


def _subject(w: Walker, test: ast.expr) -> tuple[StateKey, Val, list[tuple[StateKey, Val]]] | None:
    """Return the name in a condition whose value is of several shapes, its value, and names of its items."""
    if isinstance(test, ast.BoolOp | ast.UnaryOp | ast.Name):
        return None
    for node in _names_in(test):
        path = path_of(w, node)
        val = None if path is None else w.state.get(path)
        if path is None or val is None:
            continue
        if val.nests and val.is_several:
            return (path, val, []) if _is_small(w, test) else None
        item = w.items_read.get(id(val))
        owner = None if item is None or item[0] is not val else w.state.get(item[1])
        if item is not None and owner is not None and owner.is_several and owner.narrows(item[2]):
            return (item[1], owner, [(path, item[3])]) if _is_small(w, test) else None
    return None


@lru_cache(maxsize=4096)
def _names_in(test: ast.expr) -> tuple[ast.Name, ...]:
    return tuple(node for node in ast.walk(test) if isinstance(node, ast.Name))


def _is_small(w: Walker, test: ast.expr) -> bool:
    """Whether a condition may be evaluated several times: it calls nothing that is recursive."""
    for node in ast.walk(test):
        if isinstance(node, ast.NamedExpr | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.Await):
            return False
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            func: Val | None = w.value(node.func) if isinstance(node.func, ast.Name) else None
            plain = isinstance(func, Static) and func.value in _PLAIN
            if not plain and not (isinstance(func, Func) and func.code not in w.facts.recursive):
                return False
    return not _is_type_test(test)


def _is_type_test(test: ast.expr) -> bool:
    """Whether a condition is `x is None` or `isinstance(x, ...)`, which narrow a name without a test of each shape."""
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(), _]):
            return True
    return False
