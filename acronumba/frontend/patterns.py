"""`match` statements: patterns tested against values, and names narrowed by them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from acronumba.frontend.alternatives import by_alternative
from acronumba.frontend.attributes import attribute
from acronumba.frontend.block import Fork, Point
from acronumba.frontend.calls.objects import runtime_class
from acronumba.frontend.comparisons import compare_values
from acronumba.frontend.comprehensions import to_list
from acronumba.frontend.conditions import class_filter, narrow_to, truth
from acronumba.frontend.dicts import rest_of_dict
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import STATEMENTS, handles
from acronumba.frontend.kinds.functions import OneOfFunctions, Static
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import StateKey, Val
from acronumba.frontend.lists import list_slice, new_list
from acronumba.frontend.names import bind_name, path_of
from acronumba.frontend.subscripts import get_item
from acronumba.frontend.walker import Walker
from acronumba.ir.types import NoneT, Type


@handles(STATEMENTS, ast.Match)
def match_statement(w: Walker, stmt: ast.Match) -> None:
    """Walk a `match` statement."""
    subject = w.value(stmt.subject)
    subject = subject if subject.nests else w.whole(subject)
    path = path_of(w, stmt.subject)
    hidden = (w.frame.scope, f"#match{stmt.lineno}") if path is None and subject.nests else None
    if hidden is not None:
        path = hidden
        w.state[path] = subject
    rest = [w.point()]
    done: list[Point] = []
    current = subject
    for case in stmt.cases:
        w.join(rest)
        rest = []
        if w.block is None:
            break
        if path is not None and path in w.state:
            current = w.state[path]
        try:
            if path is not None and current.nests and current.is_several and not _takes_all(case.pattern):
                _by_alternative(w, case.pattern, current, rest, path)
            else:
                pattern(w, case.pattern, current, rest, path)
            if case.guard is not None and w.block is not None:
                yes, no = w.branch(case.guard)
                rest += no
                w.join(yes)
        except Dead:
            w.block = None
        w.body(case.body)
        done += w.leave()
    for _, state in (*done, *rest) if hidden is not None else ():
        state.pop(hidden, None)
    w.join([*done, *rest])


def _takes_all(p: ast.pattern) -> bool:
    return isinstance(p, ast.MatchAs) and (p.pattern is None or _takes_all(p.pattern))


def _by_alternative(
    w: Walker, p: Any, val: Val, fails: list[Point], path: StateKey, match: Callable[..., None] | None = None
) -> None:  # fmt: skip
    """Match each shape of a value: continue where it matches, and append the points where it does not to `fails`."""

    def run() -> Fork:
        no: list[Point] = []
        try:
            (match or pattern)(w, p, w.state[path], no, path)
        except Dead:
            w.block = None
        return w.leave(), no

    yes, no = by_alternative(w, path, val, run)
    for _, state in (*yes, *no) if match is not None else ():  # the path is of an item, which has no name
        state.pop(path, None)
    _go_on(w, (yes, no), fails)


def pattern(w: Walker, p: ast.pattern, val: Val, fails: list[Point], path: tuple[Any, ...] | None) -> None:
    """Match a value: continue where it matches, and append the points where it does not to `fails`."""
    with w.at_node(p):
        _pattern(w, p, val, fails, path)


def _pattern(w: Walker, p: ast.pattern, val: Val, fails: list[Point], path: tuple[Any, ...] | None) -> None:
    match p:
        case ast.MatchAs(pattern=inner, name=name):
            if inner is not None:
                pattern(w, inner, val, fails, path)
            if name is not None and w.block is not None:
                if path is not None and path in w.state:
                    val = w.state[path]
                bind_name(w, name, val)
        case ast.MatchOr(patterns=patterns):
            rest = [w.point()]
            done: list[Point] = []
            for q in patterns:
                w.join(rest)
                rest = []
                if w.block is None:
                    break
                try:
                    pattern(w, q, val, rest, path)
                except Dead:
                    w.block = None
                done += w.leave()
            fails += rest
            w.join(done)
        case ast.MatchSingleton(value=value):
            if value is None:
                _split_match(w, val, lambda t: isinstance(t, NoneT), fails, path)
            else:
                _match_test(w, compare_values(w, ast.Is(), val, w.constant(value)), fails)
        case ast.MatchValue(value=value):
            _match_test(w, compare_values(w, ast.Eq(), val, w.expr(value)), fails)
        case ast.MatchClass():
            class_pattern(w, p, val, fails, path)
        case ast.MatchSequence():
            sequence_pattern(w, p, val, fails)
        case ast.MatchMapping():
            mapping_pattern(w, p, val, fails)
        case _:
            raise w.reject("ACR117", seen=type(p).__name__)


def _go_on(w: Walker, out: Fork, fails: list[Point]) -> None:
    """Continue on one side of a fork, and append the points of the other to `fails`."""
    fails += out[1]
    w.join(out[0])


def _match_test(w: Walker, test: Val, fails: list[Point]) -> None:
    _go_on(w, w.fork(truth(w, test)), fails)


def _split_match(
    w: Walker, val: Val, wanted: Callable[[Type], bool], fails: list[Point], path: StateKey | None
) -> Val:  # fmt: skip
    """Continue where the type of a value is a wanted one; return the narrowed value."""
    out, inner = narrow_to(w, path, val, wanted)
    _go_on(w, out, fails)
    return w.state[path] if path in w.state else inner.narrowed(w)


_OF_ITSELF = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)  # `case list(x)`: x is the list


def class_pattern(w: Walker, p: ast.MatchClass, val: Val, fails: list[Point], path: Any) -> None:
    """Match a value against a class, and its attributes."""
    cls = w.expr(p.cls)
    if not isinstance(cls, Static) or not isinstance(cls.value, type):
        raise w.reject("ACR308", p.cls, seen=w.describe(cls))
    if isinstance(val, OneOfFunctions):
        raise w.reject("ACR308", seen=f"a class pattern of {w.describe(val)}", rewrite="if isinstance(x, C)")
    inner = _split_match(w, val, class_filter(w, cls), fails, path)
    if w.block is None:
        return
    kind = cls.value
    if len(p.patterns) == 1 and kind in _OF_ITSELF:
        pattern(w, p.patterns[0], inner, fails, path)
        return
    w.source_guard.attribute(kind, "__match_args__")
    names = list(getattr(kind, "__match_args__", ()))
    if len(p.patterns) > len(names):
        raise w.reject("ACR203", seen=f"{kind.__name__}() with {len(p.patterns)} positional patterns")
    for name, q in [*zip(names, p.patterns, strict=False), *zip(p.kwd_attrs, p.kwd_patterns, strict=True)]:
        if w.block is None:
            return
        pattern(w, q, attribute(w, inner, name), fails, None)


def sequence_pattern(w: Walker, p: ast.MatchSequence, val: Val, fails: list[Point], _: object = None) -> None:
    """Match a value against patterns for its items; of several types, for each type by itself."""
    one = _of_one_type(w, p, val, fails, (list, tuple), sequence_pattern)
    if one is not None:
        _items(w, p.patterns, one, fails)


def _of_one_type(
    w: Walker, p: ast.MatchSequence | ast.MatchMapping, val: Val, fails: list[Point], kinds: tuple[type, ...],
    match: Callable[..., None],
) -> Val | None:  # fmt: skip
    """Return a value of one type; None if it has several, of which each that is of one of `kinds` has been matched."""
    several = isinstance(val, UnionVal)
    if several:
        val = _split_match(w, val, lambda t: issubclass(runtime_class(t), kinds), fails, None)
        if w.block is None:
            return None
    if not val.is_several or not (several or val.nests):
        return val
    item: StateKey = (w.frame.scope, f"#match{p.lineno}:{p.col_offset}")
    w.state[item] = val
    _by_alternative(w, p, val, fails, item, match)
    return None


def mapping_pattern(w: Walker, p: ast.MatchMapping, val: Val, fails: list[Point], _: object = None) -> None:
    """Match the values of some keys of a dict, and bind a new dict of the others."""
    one = _of_one_type(w, p, val, fails, (dict,), mapping_pattern)
    if one is None:
        return
    one = one.as_container(w)
    if not issubclass(one.python_class, dict):
        fails += w.leave()
        return
    keys = [w.expr(key) for key in p.keys]
    for key in keys:
        _match_test(w, compare_values(w, ast.In(), key, one), fails)
        if w.block is None:
            return
    items = [get_item(w, one, key) for key in keys]
    for q, item in zip(p.patterns, items, strict=True):
        pattern(w, q, item, fails, None)
        if w.block is None:
            return
    if p.rest is not None:
        bind_name(w, p.rest, rest_of_dict(w, one, keys))


def _items(w: Walker, patterns: Sequence[ast.pattern], val: Val, fails: list[Point]) -> None:
    """Match the items of a value of one type."""
    star = next((k for k, q in enumerate(patterns) if isinstance(q, ast.MatchStar)), None)
    val = to_list(w, val) if val.python_class is range else val.opened(w)
    w.check_items(val, "__len__", "__getitem__")
    items = w.items_of(val)
    if items is None and isinstance(val, ListVal):
        n = w.ops.list_lengths(val)
        fixed = len(patterns) - (star is not None)
        _match_test(w, w.scalar("eq" if star is None else "ge", n, number(fixed)), fails)
        if w.block is None:
            return
        for k, q in enumerate(patterns):
            if k == star:
                count = w.scalar("sub", n, number(fixed))
                assert isinstance(q, ast.MatchStar)
                if q.name:
                    bind_name(w, q.name, list_slice(w, val, number(k), 1, count))
                continue
            back = len(patterns) - k
            at = number(k) if star is None or k < star else w.scalar("sub", n, number(back))
            pattern(w, q, val.item_at(w, at), fails, None)
        return
    if items is None or not issubclass(val.python_class, Sequence) or issubclass(val.python_class, str):
        fails += w.leave()
        return
    if (star is None and len(items) != len(patterns)) or (star is not None and len(items) < len(patterns) - 1):
        fails += w.leave()
        return
    if star is not None:
        q = patterns[star]
        assert isinstance(q, ast.MatchStar)
        after = len(patterns) - star - 1
        if q.name:
            bind_name(w, q.name, new_list(w, items[star : len(items) - after]))
        pairs = [*zip(patterns[:star], items[:star], strict=True)]
        pairs += [*zip(patterns[star + 1 :], items[len(items) - after :], strict=True)]
    else:
        pairs = [*zip(patterns, items, strict=True)]
    for q, item in pairs:
        if w.block is not None:
            pattern(w, q, item, fails, None)
