"""Loops: unrolled over known items, else walked until the types of their loop-carried names are stable."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from acronumba.frontend.attributes import not_none
from acronumba.frontend.block import Fork, Point, State
from acronumba.frontend.cells import without_end
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import STATEMENTS, WALKS, handles
from acronumba.frontend.join_shapes import (
    AbsentShape,
    ContainerShape,
    JoinShape,
    MaybeShape,
    PartsShape,
    StaticShape,
    TensorShape,
    TypeShape,
    compatible_shapes,
)
from acronumba.frontend.kinds.errors import GROWS, ErrorValue, conversion
from acronumba.frontend.kinds.iterators import Range, Waiting
from acronumba.frontend.kinds.lists import ElementInfo, at_run_time
from acronumba.frontend.kinds.maps import ANY_SET, MapView
from acronumba.frontend.kinds.numbers import ALWAYS, NoneVal, Num, number
from acronumba.frontend.kinds.objects import ObjectValue, is_field, marker_of
from acronumba.frontend.kinds.records import without_known_keys
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal, several_sets
from acronumba.frontend.kinds.value import Steps, Val
from acronumba.frontend.magic import iterated, one_string
from acronumba.frontend.names import scope_of
from acronumba.frontend.source import assigned_names, yields
from acronumba.frontend.unrolling import note_turns, unrolled_range
from acronumba.frontend.walker import Loop, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import PLAIN, ListT, MapT, TupleT, Type, members, nesting, unlike
from acronumba.ir.visit import reads, writes


def write_loop(
    w: Walker, names: Sequence[tuple[Any, str]], test: Callable[[], Fork], body: Callable[[], None],
    advance: Callable[[], None], otherwise: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Emit a loop; it is walked until the join shapes of the state keys that it assigns, `names`, are stable.

    `otherwise` walks the `else` clause, for a loop that ends without `break`.
    """
    entry_block, entry_state = w.point()
    names = [key for key in names if key not in w.boxes]
    first: dict[Hashable, JoinShape] = {
        key: entry_state[key].loop_shape(w) if key in entry_state else AbsentShape() for key in names
    }
    place = (w.code.name, w.frame.path, w.site, len(names))
    known = {} if w.facts.complete else _known_shapes(w, zip(names, w.facts.loops.get(place, ()), strict=False))
    assumed = first | known
    moving: list[Any] = []
    for _ in range(20):
        before = w.mark()
        w.block, w.state = entry_block, dict(entry_state)
        head, vars = _enter_loop(w, assumed, entry_state)
        state = dict(w.state)
        no, here = _walk_iteration(w, test, body, advance)
        stable, least = True, {key: shape for key, shape in first.items() if key in known}
        if w.block is not None:
            least = _with_ends(w, least)
            wider = _with_ends(w, assumed)
            new = changed_fields(w, state, assumed)
            wider |= {key: state[key].loop_shape(w) if key in state else AbsentShape() for key in new}
            stable = not new and all(compatible_shapes(wider[k], assumed[k]) for k in assumed)
            if stable:
                if not any(_is_rejected(w.state.get(key)) for key in assumed):
                    store_back(w, assumed, vars)
                w.end(ir.Jump(block=head, loc=w.loc))
            else:
                moving = [k for k in assumed if not compatible_shapes(wider[k], assumed[k])]
                assumed = wider
        if stable and all(compatible_shapes(_after_iteration(least[k], before.names), assumed[k]) for k in known):
            w.facts.loops[place] = tuple(assumed[key] for key in names)
            end_loop(w, no, here, otherwise)
            return
        if stable:
            assumed, known = first, {}
        w.go_back(before)
    raise always_another(w, {key: assumed[key] for key in moving})


def _walk_iteration(
    w: Walker, test: Callable[[], tuple[list[Point], list[Point]]], body: Callable[[], None],
    advance: Callable[[], None]
) -> tuple[list[Point], Loop]:  # fmt: skip
    """Walk a loop from its condition to the next one; return the points where it ends, and the loop."""
    frame = w.frame
    frame.loops.append(Loop())
    yes, no = test()
    w.join(yes)
    if w.block is not None:
        try:
            body()
        except Dead:
            w.block = None
    here = frame.loops.pop()
    end_turn(w, here)
    if w.block is not None:
        advance()
    return no, here


def _known_shapes(w: Walker, earlier: Iterable[tuple[Hashable, JoinShape]]) -> dict[Hashable, JoinShape]:
    """Return the join shapes with which a loop may begin: of names that varied in its last walk, as facts only grow."""
    known: dict[Hashable, JoinShape] = {}
    for key, shape in earlier:
        val = w.state.get(key)
        if _lasts(shape) and isinstance(shape, MaybeShape) is (val is None or isinstance(val, MaybeUnbound)):
            joined = w.join_templates(AbsentShape() if val is None else StaticShape(val), shape)
            if compatible_shapes(joined, shape):
                known[key] = joined
    return known


def _lasts(a: JoinShape) -> bool:
    """Whether a join shape means the same in another walk: it has no values, variables, or types that facts widen."""
    match a:
        case TensorShape():
            return all(d is None or isinstance(d, int) for d in a.dims)
        case ContainerShape():
            return a.outer is None
        case MaybeShape():
            return _lasts(a.inner)
        case PartsShape():
            return isinstance(a.val, TupleVal | ObjectValue) and all(map(_lasts, a.items))
        case TypeShape():
            return not nesting(a.type)
    return False


def _after_iteration(a: JoinShape, known: Container[str]) -> JoinShape:
    """Return the join shape of values at the end of an iteration: extents vary but for `known` variables."""
    match a:
        case TensorShape():
            return replace(a, dims=tuple(d if isinstance(d, int) or (d and d.name in known) else None for d in a.dims))
        case MaybeShape():
            return MaybeShape(_after_iteration(a.inner, known))
        case PartsShape():
            return replace(a, items=tuple(_after_iteration(item, known) for item in a.items))
    return a


def _with_ends(w: Walker, shapes: Mapping[Hashable, JoinShape]) -> dict[Hashable, JoinShape]:
    """Return the joins of shapes with the values at the end of an iteration."""
    ends = {key: StaticShape(w.state[key]) if key in w.state else AbsentShape() for key in shapes}
    return {k: s if _is_rejected(w.state.get(k)) else w.join_templates(s, ends[k]) for k, s in shapes.items()}


def always_another(w: Walker, moving: Mapping[Any, JoinShape]) -> Rejected:
    """Return the rejection of a loop in which a type changes with every iteration."""
    names = sorted({str(key[-1]) for key in moving if not str(key[-1]).startswith("#")})
    found = "a type that changes with every iteration of the loop"
    for shape in moving.values():
        if isinstance(shape, TypeShape | ContainerShape) and without_end(w.template_type(shape)) == GROWS:
            found = GROWS
    return w.reject("ACR303", seen=f"{', '.join(names) or 'a value'}: {found}", rewrite=conversion(found))


def end_turn(w: Walker, loop: Loop) -> None:
    """End an iteration: continue from its end and from each `continue`."""
    points, loop.continues = [*loop.continues, *w.leave()], []
    w.join(points)


def end_loop(w: Walker, ends: Sequence[Point], loop: Loop, otherwise: Callable[[], None] | None) -> None:
    """Continue after a loop: from its ends, through its `else` clause, and from each `break`."""
    ends = [*ends, *loop.ends]
    if otherwise is not None:
        w.join(ends)
        if w.block is not None:
            otherwise()
        ends = w.leave()
    w.join([*ends, *loop.breaks])


def changed_fields(w: Walker, before: State, assumed: Mapping[Any, JoinShape]) -> list[Any]:
    """Return the keys of values made before a loop that an iteration changes and that are not loop-carried yet.

    They are fields of objects, and names of tensors that are changed in place.
    """
    keys = [k for k in {**before, **w.state} if len(k) == 2 and is_field(k) and k not in assumed and k[1]]
    there = [k for k in keys if marker_of(k) in before and marker_of(k) in w.state]
    there += [k for k in w.rebound if k in before and k in w.state and k not in assumed and k not in there]
    return [
        k for k in there if k not in before or k not in w.state or before[k] is None or not before[k].same(w.state[k])
    ]


def _enter_loop(
    w: Walker, assumed: Mapping[Any, JoinShape], entry: State
) -> tuple[int, dict[Any, tuple[ir.Var, ...]]]:  # fmt: skip
    """Begin the loop header, with variables for the loop-carried names; return the block and the variables."""
    vars: dict[Any, tuple[ir.Var, ...]] = {}
    facts = {(k[0], k[1]) for k in assumed}
    changing = w.facts.assigned
    state: State = {
        k: v for k, v in entry.items() if len(k) == 2 or ((k[0], k[1]) not in facts and changing.isdisjoint(k[2:]))
    }
    for key, shape in assumed.items():
        val, vars[key] = w.instantiate(shape, key[1])
        if val is not None:
            state[key] = val
        if vars[key]:
            w.store(shape, vars[key], entry.get(key))
    assert w.block is not None
    head = w.new_block(w.block)
    w.end(ir.Jump(block=head, loc=w.loc))
    w.block, w.state = head, state
    w.settle_all()
    return head, vars


def store_back(w: Walker, assumed: Mapping[Any, JoinShape], vars: Mapping[Any, tuple[ir.Var, ...]]) -> None:
    """Assign the values at the end of an iteration to the loop's variables, as a parallel copy.

    If a value is read from a variable that has been assigned, all values go through variables of their own. Where a
    conversion makes new blocks, any read of an assigned variable counts, as blocks are not in the order of execution.
    """
    assert w.block is not None
    blocks, ends = w.code.blocks, w.code.ends
    first, start, count = w.block, len(blocks[w.block]), len(blocks)
    for key, shape in assumed.items():
        if vars[key]:
            w.store(shape, vars[key], w.state.get(key))
    outs = {v for vs in vars.values() for v in vs}
    parts = [(first, start), *((k, 0) for k in range(count, len(blocks)))]
    every = [instr for k, at in parts for instr in blocks[k][at:]]
    written = {v for instr in every for v in writes(instr) if v in outs} if len(parts) > 1 else set()
    hazard = any(end is not None and not written.isdisjoint(reads(end)) for end in (ends[k] for k, _ in parts))
    for instr in every:
        hazard = hazard or not written.isdisjoint(reads(instr))
        written.update(v for v in writes(instr) if v in outs)
    if not hazard:
        return
    temps: dict[ir.Var, ir.Var] = {}
    for k, at in parts:
        for j, instr in enumerate(blocks[k][at:], at):
            if isinstance(instr, ir.Copy) and instr.out in outs:
                temps[instr.out] = temps.get(instr.out) or w.var(instr.out.name, instr.out.type)
                blocks[k][j] = replace(instr, out=temps[instr.out])
    for out, temp in temps.items():
        w.emit(ir.Copy(out=out, src=temp, loc=w.loc))


def loop_names(w: Walker, body: Sequence[ast.stmt] | Sequence[ast.AST], *more: str) -> list[tuple[Any, str]]:
    """Return the state keys of the names that a loop assigns."""
    names = sorted(assigned_names(body) | set(more))
    here = w.frame.consumer
    given = here.names if here is not None and yields(body) else ()
    outer = w.frame.func.source.facts.outer
    return [*((scope_of(w, n)[0] if n in outer else w.frame.scope, n) for n in names), *given]


def carried_names(w: Walker, code: ast.For | None, more: Sequence[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Return the state keys that the iterations of a loop assign: those of a `for` loop of the user, and others."""
    names = [*loop_names(w, code.body if code is not None else ()), *more]
    own: frozenset[str] = frozenset()
    if w.frame.overlays:
        overlay, own, carried = w.frame.overlays[-1]
        names += [(overlay, n) for n in sorted(carried)]
    bound = frozenset() if code is None else assigned_names([ast.Assign([code.target], ast.Constant(0))])
    names += [(w.frame.scope, n) for n in sorted(bound - own)]
    return list(dict.fromkeys(names))


@handles(STATEMENTS, ast.While)
def while_loop(w: Walker, stmt: ast.While) -> None:
    """Walk a `while` loop."""
    names = loop_names(w, [*stmt.body, ast.Expr(stmt.test)])
    write_loop(w, names, lambda: w.branch(stmt.test), lambda: w.body(stmt.body), lambda: None, _orelse(w, stmt.orelse))


def _orelse(w: Walker, stmts: Sequence[ast.stmt]) -> Callable[[], None] | None:
    return (lambda: w.body(stmts)) if stmts else None


@handles(STATEMENTS, ast.For)
def for_loop(w: Walker, stmt: ast.For) -> None:
    """Walk a `for` loop."""
    otherwise = _orelse(w, stmt.orelse)
    try:
        iterable = w.value(stmt.iter)
        w.check_poison(iterable)
    except Rejected as error:
        walk_anyway(w, stmt)
        raise error

    def turn(item: Val) -> None:
        w.assign(stmt.target, item)
        w.body(stmt.body)

    iterate(w, iterable, turn, stmt, otherwise=otherwise)


def walk_anyway(w: Walker, stmt: ast.For) -> None:
    """Walk the body of a loop with a rejected iterable once, to find the errors in it."""
    w.go_on()
    for name in assigned_names([ast.Assign([stmt.target], ast.Constant(0))]):
        w.state[(w.frame.scope, name)] = ErrorValue()
    yes, no = w.fork(w.unknown_bool())
    w.join(yes)
    w.frame.loops.append(Loop())
    w.body(stmt.body)
    w.frame.loops.pop()
    w.join(no)


def iterate(
    w: Walker, iterable: Val, turn: Callable[[Val], None], code: ast.For | None = None,
    carried: Sequence[tuple[Any, str]] = (), otherwise: Callable[[], None] | None = None
) -> None:  # fmt: skip
    """Call `turn` with each item of an iterable: unrolled if the items are known, else in a loop.

    `code` is the `for` loop of the user that this is; `carried` are state keys that the iterations assign beside it.
    """
    w.check_poison(iterable)
    iterable = iterated(w, one_iterable(w, iterable.origin))
    walk = WALKS.get(type(iterable))
    if walk is not None and walk(w, iterable, turn, code, carried, otherwise):
        return
    items = w.items_of(iterable)
    if items is None and isinstance(iterable, Range):
        items = unrolled_range(w, iterable, turn, code)
    if items is not None:
        if isinstance(iterable, Range):
            with w.at_node(w.here.iter if isinstance(w.here, ast.For) else w.here):
                note_turns(w, len(items))
        unrolled(w, items_in_turn(w, iterable, items), turn, otherwise)
        return
    steps = iterable.steps(w)
    if steps is not None:
        _stepwise(w, steps, turn, otherwise)
        return
    length, get = w.turns(iterable)
    w.counter += 1
    index_key = (w.frame.scope, f"#{w.counter}")
    w.state[index_key] = number(0)

    def index() -> Num:
        out = w.state[index_key]
        assert isinstance(out, Num)
        if out.var is not None:
            w.naturals.add(out.var)
        return out

    def test() -> Fork:
        return w.fork(w.scalar("lt", index(), length()))

    def advance() -> None:
        check_whole(w, iterable)
        w.state[index_key] = w.scalar("add", index(), number(1))

    names = carried_names(w, code, [index_key, *carried])
    with walking(w, iterable):
        write_loop(w, names, test, lambda: turn(get(index())), advance, otherwise)
    w.state.pop(index_key, None)


@contextmanager
def walking(w: Walker, iterable: Val) -> Iterator[None]:
    """Note that the loop in the body of the `with` statement iterates over the dicts and deques in an iterable."""
    cells = iterable.walked_cells()
    keys = [(w.frame.scope, f"#taken out of {k}") for k in range(len(w.walked), len(w.walked) + len(cells))]
    w.walked += zip(cells, keys, strict=True)
    try:
        yield
    finally:
        del w.walked[len(w.walked) - len(cells) :]
    for key in keys:
        w.state.pop(key, None)


def check_whole(w: Walker, iterable: Val) -> None:
    """Reject a loop that goes on after an entry was taken out of the dict or deque over which it iterates."""
    count = len(iterable.walked_cells())
    for _, key in w.walked[len(w.walked) - count :]:
        if key in w.state:
            raise w.taken_out[key]


def take_from(w: Walker, cell: ElementInfo, is_set: bool, rejection: Rejected, changes: bool = False) -> None:
    """Note that an entry is taken out of a dict or deque: loops over it must end, else they are rejected.

    So is an iterator over it of which some items may have been read; any, if every change ends iterators (`changes`).
    """
    for key, val in w.state.items():
        val = None if val is None else val.bound_value()
        begun = isinstance(val, Waiting) or str(key[-1]).startswith(".iterable")
        if val is not None and (begun or (changes and val.is_iterator)):
            if any(c.find() is cell.find() for c in val.walked_cells()):
                raise rejection
    for c, key in w.walked:
        if c.find() is cell.find() or (is_set and c is ANY_SET):
            w.taken_out[key] = rejection
            w.state[key] = NoneVal()


def fold(w: Walker, name: str, iterable: Val, body: Callable[[Val, Val], Val], state: Val) -> Val:
    """Return the last state of a loop that computes `state = body(state, item)` for each item of an iterable."""
    key = (w.frame.scope, f"#{name}({len(w.loops_around)})")
    w.state[key] = state

    def turn(item: Val) -> None:
        w.state[key] = body(w.state[key], item)

    iterate(w, iterable, turn, carried=(key,))
    if w.block is None:
        raise Dead
    return w.state.pop(key)


def one_iterable(w: Walker, val: Val) -> Val:
    """Return a union of strings, of dicts, or of lists and tuples, as one iterable; reject other unions."""
    if val.nests:
        return w.each(not_none(w, val), lambda v: _in_order(w, v.opened(w)), itself=True)
    if not isinstance(val, UnionVal):
        return val
    one = one_string(w, not_none(w, val))
    for cls in (int, float, bool):
        one = unless(w, one, lambda t: t == PLAIN[cls], f"'{cls.__name__}' object is not iterable")  # noqa: B023
    if not isinstance(one, UnionVal):
        return one
    if all(isinstance(t, MapT) and t.item is not None for t in one.possible):
        return MapView(one, "keys")
    if several_sets(one):
        return MapView(one, "ordered")
    if not all(isinstance(t, ListT | TupleT) for t in one.possible):
        tuples = "test it first: `isinstance`; if it comes from a list of unlike things, make that a tuple: (a, b)"
        raise w.reject("ACR302", seen=w.describe(one), rewrite=tuples if unlike(one.possible) else "")
    return w.each(one, lambda v: at_run_time(w, v.items) if isinstance(v, TupleVal) else v.plain)


def unless(w: Walker, val: Val, bad: Callable[[Type], bool], text: str, ours: bool = False) -> Val:
    """Return a value of several types where it is of a good one; it fails where it is not. None may be good."""
    found = val.split(w, bad) if any(map(bad, members(w.type_of(val)))) else None
    if found is None or all(map(bad, members(w.type_of(val)))):
        return val
    test, _, good = found
    w.check(w.negate(test), "TypeError", text, ours=ours)
    if w.block is None:
        raise Dead
    return good.narrowed(w)


def _in_order(w: Walker, val: Val) -> Val:
    """Return a list, tuple or dict as a list at run time, so that it can be one of several iterables."""
    items = w.items_of(val)
    if items is None and not val.iterable:
        raise w.reject("ACR301", seen=f"{w.describe(val)} cannot be iterated over")
    return val.plain if items is None else at_run_time(w, items)


def _is_live(val: Val) -> bool:
    return val.is_live or (val.is_iterator and any(map(_is_live, val.children())))


def items_in_turn(w: Walker, iterable: Val, items: Sequence[Val]) -> Iterator[Val]:
    """Yield known items; those of a dict that may be written to meanwhile are read when their turn comes."""
    if not _is_live(iterable):
        yield from items
        return
    for k in range(len(items) + 1):
        now = w.items_of(iterable)
        if now is None or len(now) != len(items):  # keys are added in the loop, which is an error
            raise without_known_keys(w, iterable)
        if k < len(items):
            yield now[k]


def unrolled(
    w: Walker, items: Iterable[Val], turn: Callable[[Val], None], otherwise: Callable[[], None] | None
) -> None:  # fmt: skip
    """Call `turn` once for each known item."""
    frame = w.frame
    loop = Loop()
    frame.loops.append(loop)
    for item in items:
        try:
            turn(item)
        except Dead:
            w.block = None
        end_turn(w, loop)
        if w.block is None:
            break
    frame.loops.pop()
    end_loop(w, w.leave(), loop, otherwise)


def _stepwise(
    w: Walker, steps: Steps, turn: Callable[[Val], None], otherwise: Callable[[], None] | None
) -> None:  # fmt: skip
    """Call `turn` for each item, of which run time knows whether there is one."""
    loop, ends = Loop(), list[Point]()
    w.frame.loops.append(loop)

    def one(read: Callable[[], Val] | None) -> None:
        if read is None:
            ends.extend(w.leave())
        else:
            turn(read())

    for step in steps:
        if w.block is None:
            break
        test, read = step()
        loop.continues += w.along([(test, read), (ALWAYS, None)], one)[0]
        end_turn(w, loop)
    w.frame.loops.pop()
    end_loop(w, [*ends, *w.leave()], loop, otherwise)


def _is_rejected(val: Val | None) -> bool:
    """Whether a value is missing because an expression was rejected."""
    return isinstance(val, ErrorValue) and not val.why
