"""Generator functions: inlined in the loop over their values, with the body of the loop inlined at each `yield`.

The two alternate as in Python. A generator has no value at run time: it must be iterated over where it is made.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from acronumba.frontend.block import Point
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.functions import is_of_library
from acronumba.frontend.handlers import EXPRESSIONS, WALKS, handles
from acronumba.frontend.kinds.iterators import Cursor, Generator, Zip
from acronumba.frontend.kinds.numbers import NoneVal, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.builtins import rest
from acronumba.frontend.loops import carried_names, end_loop, end_turn, iterate
from acronumba.frontend.names import named_iterator
from acronumba.frontend.operators import binary
from acronumba.frontend.walker import Consumer, Loop, Walker


@handles(WALKS, Generator)
def walk_generator(
    w: Walker, gen: Generator, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[tuple[Any, str]], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk the body of a generator function, and call `turn` at each of its `yield`s."""
    func = gen.func
    if any(f.func.code == func.code for f in w.frames):
        seen = f"{func.source.name}, a generator that calls itself"
        raise w.reject("ACR104", gen.node, seen=seen, rewrite="return a list instead of yielding its elements")
    names = carried_names(w, code, carried)
    place = w.source, w.here, w.loc, w.outer_loc, w.caller
    here = Consumer(w.frame, Loop(), names, turn, place, len(w.handlers))
    w.frame.loops.append(here.loop)
    frame = w.push(func, (*w.frame.path, func.source.node.lineno, w.site, "yields"))
    frame.consumer = here
    w.outer_loc = w.loc if is_of_library(func) else None
    w.source, w.caller = func.source, w.loc
    for name, val in gen.params.items():
        val = named_iterator(w, val) if val.is_iterator else val
        w.kept(val)
        w.state[(frame.scope, name)] = val
    open_boxes(w, frame)
    w.body(func.source.body)
    ends = [*(point for point, _, _ in frame.returns), *w.leave()]
    w.source, w.here, w.loc, w.outer_loc, w.caller = here.place
    w.frames.pop()
    loop = w.frame.loops.pop()
    if not func.source.facts.nests:
        ends = [_without(p, frame.scope) for p in ends]
        loop.breaks[:] = [_without(p, frame.scope) for p in loop.breaks]
    end_loop(w, ends, loop, otherwise)
    return True


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


@handles(WALKS, Zip)
def walk_enumerated(
    w: Walker, val: Zip, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[tuple[Any, str]], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk a loop over `enumerate(g(...))`; any other loop over a `Zip` is left to the caller."""
    if val.start is None or not isinstance(val.parts[0], Generator):
        return False
    w.counter += 1
    count = (w.frame.scope, f"#turn{w.counter}")
    w.state[count] = val.start

    def counted(item: Val) -> None:
        given = TupleVal((w.state[count], item))
        w.state[count] = binary(w, ast.Add(), w.state[count], number(1))
        turn(given)

    iterate(w, val.parts[0], counted, code, [*carried, count], otherwise)
    w.state.pop(count, None)
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
    """Walk the body of the loop that consumes a yielded value."""
    frame = w.frame
    here = frame.consumer
    if here is None:
        raise w.reject("ACR104")
    w.check_poison(val)
    if w.block is None:
        raise Dead
    place = w.source, w.here, w.loc, w.outer_loc, w.caller
    w.frames.pop()
    outer = here.frame
    outer.loops.remove(here.loop)
    outer.loops += [*frame.loops, here.loop]  # `break` and `continue` refer to the innermost
    w.source, w.here, w.loc, w.outer_loc, w.caller = here.place
    handlers, w.handlers = w.handlers, w.handlers[: here.handlers]
    try:
        here.turn(val)
    except Dead:
        w.block = None
    finally:
        del outer.loops[len(outer.loops) - len(frame.loops) - 1 :]
        outer.loops.append(here.loop)
        w.frames.append(frame)
        w.handlers = handlers
        w.source, w.here, w.loc, w.outer_loc, w.caller = place
    end_turn(w, here.loop)
    if w.block is None:
        raise Dead
