"""Generator functions: inlined in the loop over their values, with the body of the loop inlined at each `yield`.

The two alternate as in Python. A generator has no value at run time: it must be iterated over where it is made. One
that calls itself runs to its end before the loop begins.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from acronumba.frontend.block import Point
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import EXPRESSIONS, WALKS, handles
from acronumba.frontend.instances import call_instance
from acronumba.frontend.kinds.iterators import Cursor, Generator
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.builtins import rest
from acronumba.frontend.loops import carried_names, end_loop, end_turn, iterate
from acronumba.frontend.names import named_iterator, waiting
from acronumba.frontend.source import changed
from acronumba.frontend.walker import Consumer, Loop, Walker


@handles(WALKS, Generator)
def walk_generator(
    w: Walker, gen: Generator, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[tuple[Any, str]], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk the body of a generator function, and call `turn` at each of its `yield`s."""
    func = gen.func
    if func.code in w.facts.recursive:
        _check_apart(w, gen, code)
        listed = replace(func, source=replace(func.source, node=_listing(func.source.node)))
        iterate(w, call_instance(w, listed, gen.params), turn, code, carried, otherwise)
        return True
    names = carried_names(w, code, carried)
    place = w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked
    here = Consumer(w.frame, Loop(), names, turn, place, len(w.handlers))
    w.frame.loops.append(here.loop)
    frame = w.push(func, (*w.frame.path, func.source.node.lineno, w.site, "yields"))
    frame.consumer = here
    w.outer_loc, w.asked = (w.loc, w.asked) if func.of_library else (None, [])
    w.source, w.caller = func.source, w.loc
    for name, val in gen.params.items():
        val = waiting(w, val, name) or named_iterator(w, val) if val.is_iterator else val
        w.kept(val)
        w.state[(frame.scope, name)] = val
    open_boxes(w, frame)
    w.body(func.source.body)
    ends = [*(point for point, _, _ in frame.returns), *w.leave()]
    w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked = here.place
    w.frames.pop()
    loop = w.frame.loops.pop()
    if not func.source.facts.nests:
        ends = [_without(p, frame.scope) for p in ends]
        loop.breaks[:] = [_without(p, frame.scope) for p in loop.breaks]
        loop.ends[:] = [_without(p, frame.scope) for p in loop.ends]
    end_loop(w, ends, loop, otherwise)
    return True


# ---- generators that call themselves: functions that return the list of what is yielded


_YIELDED = ".yielded"


@functools.lru_cache(maxsize=1024)
def _listing(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return the function that returns the list of the values that a generator function yields."""
    made: ast.FunctionDef = _Listing().visit(copy.deepcopy(function))
    begin = ast.Assign([ast.Name(_YIELDED, ast.Store())], ast.List([], ast.Load()))
    made.body = [begin, *made.body, ast.Return(ast.Name(_YIELDED, ast.Load()))]
    for part in (begin, made.body[-1]):
        ast.copy_location(part, function)
    ast.fix_missing_locations(made)
    return made


class _Listing(ast.NodeTransformer):
    depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        out = self.generic_visit(node) if self.depth == 1 else node
        self.depth -= 1
        return out

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.copy_location(ast.Return(ast.Name(_YIELDED, ast.Load())), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Yield(value=value):
                name, given = "append", value or ast.Constant(None)
            case ast.YieldFrom(value=value):
                name, given = "extend", value
            case _:
                return node
        call = ast.Call(ast.Attribute(ast.Name(_YIELDED, ast.Load()), name, ast.Load()), [given], [])
        node.value = ast.copy_location(call, node.value)
        return node


def _check_apart(w: Walker, gen: Generator, code: ast.For | None) -> None:
    """Reject a generator that calls itself if it shows that it runs to its end before the loop over it begins."""
    func = gen.func
    mutated = changed(func.source.body)
    for node in ast.walk(func.source.node):
        given = node.value if isinstance(node, ast.Yield) else None
        for part in given.elts if isinstance(given, ast.Tuple) else [given]:
            if isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in mutated:
                seen = f"{ast.unparse(part)}, which {func.source.name}, a generator that calls itself, changes later"
                raise w.reject("ACR104", gen.node, seen=seen, rewrite=f"yield a copy: list({ast.unparse(part)})")
    if code is None or isinstance(gen.node, ast.GeneratorExp):
        return
    inside, outside = ({n for part in body for n in ast.walk(part) if isinstance(n, ast.Attribute)}
                       for body in (func.source.body, code.body))  # fmt: skip
    written = {n.attr for n in outside if not isinstance(n.ctx, ast.Load)}
    begun = gen.node if isinstance(gen.node, ast.Call) else code.iter
    used = {n.id for n in ast.walk(begun) if isinstance(n, ast.Name)} | func.source.facts.free
    if not written.isdisjoint(n.attr for n in inside):
        seen = f"a loop over {func.source.name}, a generator that calls itself, that sets an attribute which it reads"
        raise w.reject("ACR104", begun, seen=seen, rewrite=f"for ... in list({ast.unparse(begun)})")
    for name in sorted(used & _touched(code.body)):
        val = w.state.get((w.frame.scope, name))
        if val is not None and not val.is_input and (val.assignable or val.is_mapping or val.object_classes()):
            seen = f"a loop over {func.source.name}, a generator that calls itself, that may change {name}"
            raise w.reject("ACR104", begun, seen=seen, rewrite=f"for ... in list({ast.unparse(begun)})")


def _touched(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names of the values that statements may mutate: directly, by a method or in a function of the user."""
    found = {part.partition(".")[0].partition("[")[0] for part in changed(body)}
    for node in (n for stmt in body for n in ast.walk(stmt)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in vars(builtins)):
            found |= {v.id for v in node.args if isinstance(v, ast.Name)}
    return found - {_YIELDED}


def _without(point: Point, scope: Any) -> Point:
    return point[0], {k: v for k, v in point[1].items() if k[0] != scope}


@handles(WALKS, Cursor)
def walk_rest(
    w: Walker, val: Cursor, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[tuple[Any, str]], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk a loop over the items of an iterator that `next` has not read."""
    iterate(w, w.call(w.constant(rest), (val.inner, val.position), {}), turn, code, carried, otherwise)
    return True


@handles(EXPRESSIONS, ast.Yield)
def _yield(w: Walker, node: ast.Yield) -> Val:
    hand_over(w, w.value(node.value) if node.value is not None else NoneVal())
    return NoneVal()


@handles(EXPRESSIONS, ast.YieldFrom)
def _yield_from(w: Walker, node: ast.YieldFrom) -> Val:
    code = ast.For(ast.Tuple([]), node.value, [ast.Expr(node)], [])
    iterate(w, w.value(node.value), lambda item: hand_over(w, item), code)
    return NoneVal()


def hand_over(w: Walker, val: Val) -> None:
    """Walk the body of the loop that consumes a yielded value.

    The frame of the generator is not on the stack meanwhile. Invariant: at the end, also by an exception, the stack is
    as before: its frames by identity, none of the body above. `Walker.go_back` cuts stacks to their former lengths.
    """
    frame = w.frame
    here = frame.consumer
    if here is None:
        raise w.reject("ACR104")
    w.check_poison(val)
    if w.block is None:
        raise Dead
    place = w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked
    frames = [*w.frames]
    w.frames.pop()
    outer = here.frame
    around = [*outer.loops]
    outer.loops[:] = [*around[:-1], *frame.loops, here.loop]  # `break` and `continue` refer to the innermost
    w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked = here.place
    handlers, w.handlers = w.handlers, w.handlers[: here.handlers]
    try:
        here.turn(val)
    except Dead:
        w.block = None
    finally:
        outer.loops[:] = around
        w.frames[:] = frames
        w.handlers = handlers
        w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked = place
    end_turn(w, here.loop)
    if w.block is None:
        raise Dead
