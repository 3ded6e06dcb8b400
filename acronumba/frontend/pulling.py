"""Iterators whose items are asked for one at a time: several side by side in `zip`, or one by `next`.

A generator function is walked in the loop over its values (`generators`), which asks for nothing. Here an iterable is a
`Pull`, which emits the code that asks for the next item: of a list, of `map`, `filter`, `zip` and generator expressions
with one `for` over such iterables, and of generator functions of this form.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from acronumba.frontend.block import Fork, Point
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import PULLS, WAITING, handles
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.iterators import Begun, Cursor, Generator, Pull, Stream, Waiting, Zip
from acronumba.frontend.kinds.lists import at_run_time
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import is_field
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import StateKey, Val
from acronumba.frontend.loops import one_iterable, write_loop
from acronumba.frontend.magic import iterated
from acronumba.frontend.names import alias, begin, named_iterator
from acronumba.frontend.operators import binary
from acronumba.frontend.segments import END, Segments, Unsupported
from acronumba.frontend.source import assigned_names
from acronumba.frontend.walker import Frame, Loop, Walker
from acronumba.records import record


def begun_pull(w: Walker, val: Val, known: bool = False) -> Pull | None:
    """Return how the items of an iterable are asked for, beginning here; None if it cannot be asked."""
    pull = pull_of(w, val, new_key(w, "at"), known)
    if pull is not None:
        pull.begin()
    return pull


def pull_of(w: Walker, val: Val, place: StateKey, known: bool = False) -> Pull | None:
    """Return how the items of an iterable are asked for, with state keys made from `place`; None if it cannot be asked.

    With `known`, items that are known are asked for one by one, in code without loops.
    """
    handler = PULLS.get(type(val))
    if handler is None:
        val = iterated(w, one_iterable(w, val.origin))
        handler = PULLS.get(type(val))
    if handler is not None and val.is_lazy:
        found: Pull | None = handler(w, val, place, known)
        return found
    if val.is_lazy or isinstance(val, Cursor):
        return None
    items = None if val.is_live else w.items_of(val)
    if items is not None and known:
        rest = iter(items)
        return Pull(begin=_nothing, ask=lambda: _next_known(w, rest), count=len(items))
    length, get = w.turns(val if items is None else at_run_time(w, items))

    def ask() -> tuple[list[Point], Val]:
        k = _stored(w, place)
        assert isinstance(k, Num)
        if k.var is not None:
            w.naturals.add(k.var)
        yes, no = w.fork(w.scalar("lt", k, length()))
        for _, state in no:
            state[place] = number(2**62)  # it has ended, even if a list becomes longer
        w.join(yes)
        item = _alive(w, lambda: get(k))
        if w.block is not None:
            w.state[place] = w.scalar("add", k, number(1))
        return no, item

    return Pull(begin=lambda: w.state.update({place: number(0)}), ask=ask, keys=(place,))


def _stored(w: Walker, key: StateKey) -> Val:
    """Return a value of an iterator that has begun."""
    found = w.state.get(key)
    if found is None:  # it has not begun on any path that was walked so far
        w.fail("RuntimeError", "an iterator that has not begun", ours=True)
        raise Dead
    return found.bound_value()


def _nothing() -> None:
    pass


@handles(PULLS, Begun)
def _of_begun(w: Walker, val: Begun, place: StateKey, known: bool) -> Pull | None:
    inner = None if val.inner.python_class is set else pull_of(w, val.inner, place, known)
    if inner is None:
        return None

    def ask() -> tuple[list[Point], Val]:
        val.check(w)
        return inner.ask()

    return replace(inner, ask=ask)


@handles(PULLS, Waiting)
def _of_waiting(w: Walker, val: Waiting, place: StateKey, known: bool) -> Pull:
    return replace(val.pull, begin=_nothing)


def _next_known(w: Walker, rest: Iterator[Val]) -> tuple[list[Point], Val]:
    item = next(rest, None)
    return (w.leave(), ErrorValue()) if item is None else ([], item)


def _alive(w: Walker, read: Callable[[], Val]) -> Val:
    """Return a value; any if this point is, or becomes, unreachable."""
    try:
        return read() if w.block is not None else ErrorValue()
    except Dead:
        w.block = None
        return ErrorValue()


def known_count(w: Walker, val: Val) -> int | None:
    """Return the number of items of an iterable, if they are known one by one."""
    val = val.origin
    if isinstance(val, Zip):
        counts = [known_count(w, v) for v in val.parts]
        return None if val.starred or None in counts else min(c for c in counts if c is not None)
    if isinstance(val, Generator):
        form = _form(val)
        return None if form is None or form.tests else known_count(w, val.params[form.source])
    items = None if val.is_lazy or val.is_iterator else w.items_of(val)
    return None if items is None else len(items)


def new_key(w: Walker, name: str) -> StateKey:
    w.counter += 1
    return (w.frame.scope, f"#{name}{w.counter}")


# ---- generators of one loop


@record()
class Form:
    """The parts of a generator function that is one loop: `for target in source`, tests, and a `yield`."""

    source: str  # the parameter over which it iterates
    target: ast.expr
    tests: tuple[ast.expr, ...]
    item: ast.expr


def _form(gen: Generator) -> Form | None:
    match gen.func.source.node:
        case ast.FunctionDef(body=[ast.For(target=target, iter=ast.Name(id=source), body=body, orelse=[])]):
            tests: list[ast.expr] = []
            while True:
                match body:
                    case [ast.If(test=test, body=inner, orelse=[])]:
                        tests.append(test)
                        body = inner
                    case [ast.Expr(value=ast.Yield(value=ast.expr() as item))]:
                        return Form(source, target, tuple(tests), item) if source in gen.params else None
                    case _:
                        return None
    return None


@handles(PULLS, Generator)
def _of_generator(w: Walker, gen: Generator, place: StateKey, known: bool) -> Pull | None:
    form = _form(gen)
    if gen.func.code in w.facts.recursive:
        return None
    chained = _chained(w, gen)
    if chained is not None:
        return _of_chain(w, chained, place)
    if form is None or (is_field(place) and not gen.func.of_library):  # which ends if an item fails
        return _waiting_function(w, gen, place)
    inner = pull_of(w, gen.params[form.source], (place[0], f"{place[1]}."), known and not form.tests)
    if inner is None:
        return None
    w.counter += 1
    scope = (w.counter, gen.func.source.name)  # of the names of all its items
    bound: list[ast.stmt] = [ast.Assign([form.target], ast.Constant(0)), *map(ast.Expr, form.tests)]
    names = [(scope, n) for n in assigned_names(bound)]

    def ask() -> tuple[list[Point], Val]:
        with _resumed(w, gen.func, scope) as frame:
            _begin_item(w, gen, form, frame)
            exhausted = _next_that_fits(w, form, inner, names) if form.tests else _next(w, form, inner)
            return exhausted, _alive(w, lambda: w.value(form.item))

    return Pull(begin=inner.begin, ask=ask, keys=(*inner.keys, *names), count=None if form.tests else inner.count)


def _next(w: Walker, form: Form, inner: Pull) -> list[Point]:
    """Bind the target to the next item; return the points where there is none."""
    no, item = inner.ask()
    _alive(w, lambda: w.assign(form.target, item) or item)  # type: ignore[func-returns-value]
    return no


def _next_that_fits(w: Walker, form: Form, inner: Pull, names: Sequence[StateKey]) -> list[Point]:
    """Bind the target to the next item for which the tests hold; return the points where there is none."""
    exhausted: list[Point] = []

    def test() -> Fork:
        no = _next(w, form, inner)
        return w.leave(), no

    def body() -> None:
        loop = w.frame.loops[-1]
        for c in form.tests:
            try:
                yes, no = w.branch(c)
            except Dead:
                w.block = None
                return
            loop.continues += no
            w.join(yes)
            if w.block is None:
                return
        loop.breaks += w.leave()

    write_loop(w, [*inner.keys, *names], test, body, lambda: None, lambda: exhausted.extend(w.leave()))
    return exhausted


@contextmanager
def _resumed(w: Walker, func: Func, scope: StateKey, names: Collection[str] = ()) -> Iterator[Frame]:
    """Walk code of a generator function in the body of the `with` statement; `names` are in its scope, too."""
    place, depth = (w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked), len(w.frames)
    frame = w.push(func, (*w.frame.path, func.source.node.lineno, w.site, "asked"))
    del w.scopes[frame.scope]
    frame.scope = scope
    frame.locals |= set(names)
    w.scopes[scope] = (frame.locals, func)
    w.outer_loc, w.asked = (w.loc, w.asked) if func.of_library else (None, [])
    w.source, w.caller = func.source, w.loc
    try:
        yield frame
    finally:
        w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked = place
        del w.frames[depth:]


def _begin_item(w: Walker, gen: Generator, form: Form, frame: Frame) -> None:
    """Bind the parameters of a generator of one loop, and go to its item."""
    for name, val in gen.params.items():
        if name != form.source:
            w.kept(val)
            w.state[frame.scope, name] = named_iterator(w, val) if val.is_iterator else val
    open_boxes(w, frame)
    w.move_to(form.item)


def _chained(w: Walker, gen: Generator) -> tuple[Val, ...] | None:
    """Return the iterables of which a generator yields the items, one after the other, if they are known."""
    match gen.func.source.body:
        case [
            ast.For(iter=ast.Name(id=name), target=ast.Name(id=part), body=[ast.Expr(value=ast.YieldFrom() as each)])
        ]:
            found = gen.params.get(name)
            if isinstance(found, TupleVal) and isinstance(each.value, ast.Name) and each.value.id == part:
                return found.items
    return None


def _of_chain(w: Walker, vals: Sequence[Val], place: StateKey) -> Pull | None:
    parts: list[Pull] = []
    for k, v in enumerate(vals):
        part = pull_of(w, v, (place[0], f"{place[1]}.{k}"))
        if part is None:
            return None
        parts.append(part)

    def begin() -> None:
        w.state[place] = number(0)
        for part in parts:
            part.begin()

    def ask() -> tuple[list[Point], Val]:
        found: list[tuple[Point, Val]] = []
        for k, part in enumerate(parts):
            now = _stored(w, place)
            assert isinstance(now, Num)
            yes, later = w.fork(w.scalar("le", now, number(k)))
            w.join(yes)
            ended, item = part.ask() if w.block is not None else ([], now)
            found += [(point, item) for point in w.leave()]
            for _, state in ended:
                state[place] = number(k + 1)
            w.join([*ended, *later])
            if w.block is None:
                break
        exhausted = w.leave()
        return exhausted, w.join_values([point for point, _ in found], [item for _, item in found])

    return Pull(begin=begin, ask=ask, keys=(place, *(key for part in parts for key in part.keys)))


# ---- generator functions that wait


def _waiting_function(w: Walker, gen: Generator, place: StateKey) -> Pull | None:
    try:
        segments = _segments(gen.func.source.node)
    except Unsupported:
        return None
    machine = Machine(w, gen, ("object", place), segments)
    return Pull(begin=machine.begin, ask=machine.ask, keys=machine.keys)


@lru_cache(maxsize=1024)
def _segments(function: ast.FunctionDef) -> Segments:
    return Segments(function.body)


MOST = 2  # machines inside of one another


class Machine:
    """Asks a generator function for its items; its names, and the number of the next segment, are fields of a scope."""

    def __init__(self, w: Walker, gen: Generator, scope: StateKey, segments: Segments) -> None:
        self.w, self.gen, self.scope, self.segments = w, gen, scope, segments
        self.next, self.given = (scope, ".next"), (scope, ".given")
        # Those of C ask what they are over again when they are asked again behind its end.
        self.asks_again = gen.func.of_library and gen.func.source.name in ("accumulate", "takewhile", "dropwhile")
        names = gen.func.source.facts.assigned
        self.keys: tuple[StateKey, ...] = (self.next, *((scope, n) for n in sorted(names)))

        self.kinds: dict[str, Callable[..., None]] = {
            "do": self.do, "yield": self.give, "go": self.go, "branch": self.branch, "begin": self.begin_loop,
            "next": self.next_item,
        }  # fmt: skip

    def begin(self) -> None:
        w = self.w
        w.state[self.scope, ""] = NoneVal()
        w.state[self.next] = number(0)
        for name, val in self.gen.params.items():
            if val.is_iterator:
                val = as_waiting(w, val) or Stream(begin(w, val.origin), ())
            w.kept(val)
            w.state[self.scope, name] = val

    def ask(self) -> tuple[list[Point], Val]:
        w = self.w
        exhausted: list[Point] = []
        if w.asking == MOST:  # each contains the code of the inner ones several times
            seen = f"generators that wait for one another, {MOST + 1} of them"
            raise w.reject("ACR104", seen=seen, rewrite="make the inner one a list: list(...)")
        _stored(w, self.next)

        def test() -> Fork:
            now = _stored(w, self.next)
            assert isinstance(now, Num)
            return w.fork(w.scalar("ne", now, number(END)))

        with _resumed(w, self.gen.func, self.scope, self.segments.names) as frame:
            w.asking += 1
            open_boxes(w, frame)
            try:
                write_loop(w, self.keys, test, self.dispatch, lambda: None, lambda: exhausted.extend(w.leave()))
            finally:
                w.asking -= 1
        return exhausted, _alive(w, lambda: _stored(w, self.given))

    def dispatch(self) -> None:
        """Walk the segment that comes next."""
        w = self.w
        now = _stored(w, self.next)
        assert isinstance(now, Num)
        *others, last = self.segments.entries
        for k in others:
            yes, no = w.fork(w.scalar("eq", now, number(k)))
            w.join(yes)
            self.walk(k)
            w.join(no)
        self.walk(last)

    def walk(self, k: int) -> None:
        """Walk a segment, and those in which it continues alone; no point is open behind it."""
        w = self.w
        if w.block is not None:
            w.state[self.next] = number(END)  # if it fails
        for kind, *args in self.segments.steps[k]:
            if w.block is None:
                return
            try:
                self.kinds[kind](*args)
            except Dead:
                w.block = None

    def go(self, k: int, points: Sequence[Point] | None = None) -> None:
        """Continue in a segment, of which the loop decides."""
        w = self.w
        for point in w.leave() if points is None else points:
            point[1][self.next] = number(k)
            w.frame.loops[0].continues.append(point)

    def do(self, body: Sequence[ast.stmt], after: int, head: int) -> None:
        w, frame = self.w, self.w.frame
        loop, count = Loop(), len(frame.returns)
        frame.loops.append(loop)
        w.body(body)
        frame.loops.pop()
        self.go(after, loop.breaks)
        self.go(head, loop.continues)
        self.go(END, [point for point, _, _ in frame.returns[count:]])
        del frame.returns[count:]

    def branch(self, test: ast.expr, yes: int, no: int) -> None:
        w = self.w
        with w.at_node(test):
            holds, fails = w.branch(test)
        w.join(holds)
        self.walk(yes)
        w.join(fails)
        self.walk(no)

    def iterable(self, turn: int) -> StateKey:
        return (self.scope, f".iterable{turn}")

    def pull(self, turn: int) -> Pull:
        w = self.w
        val = _stored(w, self.iterable(turn))
        pull = pull_of(w, val, (self.scope, f".at{turn}"))
        if pull is None:
            seen = f"a loop over {w.describe(val)} in a generator that waits"
            raise w.reject("ACR104", seen=seen, rewrite="a list: list(...)")
        return pull

    def begin_loop(self, iterable: ast.expr, turn: int) -> None:
        w = self.w
        val = iterated(w, one_iterable(w, w.value(iterable).origin))
        items = None if val.is_lazy or val.is_live else w.items_of(val)
        val = begin(w, val if items is None else at_run_time(w, items))
        w.kept(val)
        w.state[self.iterable(turn)] = val
        self.pull(turn).begin()

    def next_item(self, target: ast.expr, turn: int, no: int) -> None:
        w = self.w
        ended, item = self.pull(turn).ask()
        here, state = w.block, w.state
        if self.asks_again:
            for point in ended:
                point[1][self.next] = number(turn)
            w.frame.loops[0].ends += ended
        else:
            w.join(ended)
            self.walk(no)
        w.block, w.state = here, state
        if w.block is not None:
            w.assign(target, item)

    def give(self, value: ast.expr | None, then: int) -> None:
        w = self.w
        val = NoneVal() if value is None else w.value(value)
        w.check_poison(val)
        w.kept(val)
        alias(val)
        w.state[self.given] = val
        w.state[self.next] = number(then)
        w.frame.loops[0].breaks += w.leave()


@handles(WAITING, Generator, Stream, Waiting, Zip)
def as_waiting(w: Walker, val: Val) -> Waiting | None:
    """Return an iterator as one that is asked for items from here on; None if it cannot be asked."""
    if isinstance(val, Waiting):
        return val
    w.counter += 1
    key = ("object", w.counter)
    inner = begin(w, val.origin)
    before = w.mark()
    w.state[key, ""] = NoneVal()
    pull = pull_of(w, inner, (key, ".at"))
    if pull is None:
        w.go_back(before)
        return None
    pull.begin()
    return Waiting(inner, key, pull)


# ---- zip


@handles(PULLS, Zip)
def _of_zip(w: Walker, val: Zip, place: StateKey, known: bool) -> Pull | None:
    if val.starred:
        return None
    parts: list[Pull] = []
    for k, v in enumerate(val.parts):
        part = pull_of(w, v, (place[0], f"{place[1]}.{k}"), known)
        if part is None:
            return None
        parts.append(part)
    counter = place

    def begin() -> None:
        for part in parts:
            part.begin()
        if val.start is not None:
            w.state[counter] = val.start

    def ask() -> tuple[list[Point], Val]:
        no, items = row(w, val, parts)
        return no, _alive(w, lambda: TupleVal((*counted(w, val, counter), *items)))

    keys = [k for part in parts for k in part.keys]
    counts = [part.count for part in parts]
    count = None if None in counts else min(c for c in counts if c is not None)
    return Pull(begin=begin, ask=ask, keys=(*keys, *([counter] if val.start is not None else [])), count=count)


def counted(w: Walker, val: Zip, counter: StateKey) -> tuple[Val, ...]:
    """Return the number of the current item of `enumerate`, and increment it; nothing for `zip`."""
    if val.start is None:
        return ()
    now = _stored(w, counter)
    w.state[counter] = binary(w, ast.Add(), now, number(1))
    return (now,)


def row(w: Walker, val: Zip, parts: Sequence[Pull]) -> tuple[list[Point], list[Val]]:
    """Ask each part for an item, in their order; return the points where one has none, and the items."""
    ends: list[Point] = []
    items: list[Val] = []
    for k, part in enumerate(parts):
        no, item = part.ask()
        here, state = w.block, w.state
        if val.strict and no:
            no = _same_lengths(w, parts, k, no)
        ends += no
        w.block, w.state = here, state
        if w.block is None:
            break
        items.append(item)
    return ends, items


def _same_lengths(w: Walker, parts: Sequence[Pull], k: int, ends: list[Point]) -> list[Point]:
    """Raise `ValueError` where a part has ended, and another one has not: `zip(..., strict=True)`."""
    text = "zip() argument lengths differ"
    w.join(ends)
    if k:
        w.fail("ValueError", text)
        return w.leave()
    for part in parts[1:]:
        no, _ = part.ask()
        if w.block is not None:
            w.fail("ValueError", text)
        w.join(no)
    return w.leave()
