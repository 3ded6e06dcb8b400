"""Control flow: conditions that narrow what they test, loops, `match`.

A loop is walked until what it carries has a stable type; one over known items is unrolled.
"""

from __future__ import annotations

import ast
import operator
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acronumba.data.shared import SharedNode
from acronumba.frontend.calls.objects import python_class, runtime_class
from acronumba.frontend.emitter import (
    Abandoned,
    Dead,
    Point,
    Refused,
    State,
    TAbsent,
    Template,
    TStatic,
    equal_templates,
)  # fmt: skip
from acronumba.frontend.source import assigned_names
from acronumba.frontend.values import (
    NOT_CONST,
    Bound,
    Choice,
    DictVal,
    Enumerate,
    EnumVal,
    Func,
    ListVal,
    Maybe,
    NoneVal,
    Num,
    Poison,
    Range,
    Record,
    Ref,
    Reversed,
    SharedVal,
    Static,
    StaticList,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    case_slices,
    number,
)  # fmt: skip
from acronumba.frontend.walker import MOST_OPERATIONS, UNROLL, Loop, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Var
from acronumba.ir.notes import Note
from acronumba.ir.types import (
    BOOL,
    INT,
    Array0T,
    FloatT,
    NoneT,
    StructT,
    Type,
    type_text,
)  # fmt: skip
from acronumba.ir.visit import reads, writes

AMBIGUOUS = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
EMPTY = "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."


class Control(Walker):
    """Control flow: conditions that narrow what they test, loops, `match`."""

    # ---- conditions

    def path_of(self, node: ast.expr) -> tuple[Any, ...] | None:
        """Return the state key of a name or of a part of it: what a test may narrow."""
        match node:
            case ast.Name(id=name):
                for overlay, names in reversed(self.frame.overlays):
                    if name in names:
                        return (overlay, name)
                return (self.frame.scope, name) if name in self.frame.locals else None
            case ast.Attribute(value=value, attr=attr):
                base = self.path_of(value)
                return None if base is None else (*base, attr)
            case ast.NamedExpr(target=target):
                return self.path_of(target)
        return None

    def branch(self, test: ast.expr) -> tuple[list[Point], list[Point]]:
        """Evaluate a condition; return the points where it is true and false. Tests narrow what they test."""
        match test:
            case ast.BoolOp(op=op, values=values):
                rest: list[Point] = [self.point()]
                done: list[Point] = []
                for value in values:
                    self.join(rest)
                    if self.block is None:
                        rest = []
                        break
                    try:
                        yes, no = self.branch(value)
                    except Dead:
                        self.block = None
                        rest = []
                        break
                    rest, leave = (yes, no) if isinstance(op, ast.And) else (no, yes)
                    done += leave
                return (rest, done) if isinstance(op, ast.And) else (done, rest)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                yes, no = self.branch(inner)
                return no, yes
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                yes, no = self.narrow(left, self.expr(left), lambda t: isinstance(t, NoneT))
                return (yes, no) if isinstance(op, ast.Is) else (no, yes)
            case ast.Call(func=ast.Name(id="isinstance"), args=[what, kinds]) if not test.keywords:
                wanted = self.class_filter(self.expr(kinds), kinds)
                val = self.expr(what)
                self.check_poison(val)
                if self.block is not None and self.kind_of(val) is None:
                    raise self.refuse("ACR308", what, seen=f"isinstance of {self.describe(val)}")
                return self.narrow(what, val, wanted)
        val = self.expr(test)
        if self.block is None:
            return [], []
        if isinstance(val, UnionVal) and any(isinstance(m, NoneT) for m in val.possible):
            some, none = self.narrow(test, val, lambda t: not isinstance(t, NoneT))
            self.join(some)
            path = self.path_of(test)
            only = self.narrowed(self.keep(val, lambda t: not isinstance(t, NoneT)))
            if path is not None and path in self.state:
                only = self.state[path]
            on, off = self.fork(self.truth(only, test))
            return [p for p in (on,) if p], [p for p in (off,) if p] + none
        on, off = self.fork(self.truth(val, test))
        return [p for p in (on,) if p], [p for p in (off,) if p]

    def narrow(self, node: ast.expr, val: Val, wanted: Callable[[Type], bool]) -> tuple[list[Point], list[Point]]:
        """Branch on what a value is, and narrow its name on both sides."""
        self.check_poison(val)
        if self.block is None:
            return [], []
        path = self.path_of(node)
        if isinstance(val, UnionVal):
            test, either = self.is_any(val, wanted)
            sides: list[Val] = [
                self.keep(val, lambda t: t in either or wanted(t)),
                self.keep(val, lambda t: t in either or not wanted(t)),
            ]
        elif isinstance(val, Ref) and len(val.classes) > 1:
            keep = tuple(c for c in val.classes if wanted(StructT(c)))
            drop = tuple(c for c in val.classes if not wanted(StructT(c)))
            test = number(bool(keep)) if not keep or not drop else self.class_test(val.var, keep)
            sides = [Ref(keep, val.var), Ref(drop, val.var)]
        elif isinstance(val, Tensor) and val.array0 is not None and val.array0.const is NOT_CONST:
            array, scalar = (wanted(t) for t in (Array0T(val.type.dtype), val.type))
            test = number(array) if array == scalar else val.array0 if array else self.negate(val.array0)
            as_array, as_scalar = replace(val, array0=number(True)), replace(val, array0=None)
            sides = [val, val] if array == scalar else [as_array, as_scalar] if array else [as_scalar, as_array]
        else:
            here = self.point()
            self.block = None
            kind = self.kind_of(val)
            return ([here], []) if kind is not None and wanted(kind) else ([], [here])
        points: list[list[Point]] = []
        for point, side in zip(self.fork(test), sides, strict=True):
            if point is None:
                points.append([])
                continue
            self.enter(point)
            if path is not None and (path in self.state or len(path) > 2):
                self.state[path] = self.narrowed(side) if isinstance(side, UnionVal) else side
            points.append([self.point()])
        self.block = None
        return points[0], points[1]

    def is_any(self, val: UnionVal, wanted: Callable[[Type], bool]) -> tuple[Num, set[Type]]:
        """Return the bool whether a value is of a wanted type, and the members whose values may be or not be."""
        parts = {m: (Array0T(m.dtype), m.scalar) for m in val.possible if isinstance(m, Array0T) and not m.sure}
        either: set[Type] = {m for m, (array, scalar) in parts.items() if wanted(array) != wanted(scalar)}
        test = self.is_case(val, lambda t: t not in either and wanted(t))
        for case, where in case_slices(val.type) if either else ():
            if case in either and isinstance(case, Array0T):
                array = Num(BOOL, var=val.vars[where][0])
                kind = array if wanted(Array0T(case.dtype)) else self.negate(array)
                test = self.either(test, self.both(self.is_case(val, partial(operator.eq, case)), kind))
        return test, either

    def kind_of(self, val: Val) -> Type | None:
        """Return a type that stands for the class of a value, for `isinstance` and `is None`."""
        match val:
            case SharedVal(node=node):
                if node.kind == "object":
                    return StructT(node.cls)
                val = self.materialise(val)
            case Maybe():
                return self.kind_of(val.value)
        try:
            return self.type_of(val)
        except Refused:
            return None

    def class_filter(self, kinds: Val, node: ast.AST) -> Callable[[Type], bool]:
        """Return the test that `isinstance` makes of a type."""
        if isinstance(kinds, TupleVal):
            tests = [self.class_filter(k, node) for k in kinds.items]
            return lambda t: any(f(t) for f in tests)
        if isinstance(kinds, Static) and isinstance(kinds.value, types.UnionType):
            tests = [self.class_filter(Static(c), node) for c in kinds.value.__args__]
            return lambda t: any(f(t) for f in tests)
        if isinstance(kinds, NoneVal):
            return lambda t: isinstance(t, NoneT)
        if not isinstance(kinds, Static) or not isinstance(kinds.value, type):
            raise self.refuse("ACR308", node, seen=self.describe(kinds))
        cls = kinds.value

        def is_one(t: Type) -> bool:
            if not isinstance(t, Array0T) or t.sure:
                return issubclass(runtime_class(t), cls)
            found = {is_one(Array0T(t.dtype)), is_one(t.scalar)}
            if len(found) > 1:
                raise self.refuse("ACR308", node, seen=f"a test of {type_text(t)} beside other types")
            return found.pop()

        return is_one

    def truth(self, val: Val, node: ast.AST | None) -> Num:
        """Return the bool that Python takes a value for."""
        self.check_poison(val)
        match val:
            case Num():
                if val.type == BOOL:
                    return self.read(val)
                val = self.read(val)
                return number(bool(val.const)) if val.const is not NOT_CONST else self.scalar("bool", val)
            case NoneVal():
                return number(False)
            case StrVal(value=value):
                return number(bool(value))
            case TupleVal() | StaticList() | DictVal():
                return number(bool(val.items))
            case ListVal():
                return self.scalar("gt", self.list_lengths(val, node), number(0))
            case Tensor():
                return self.truth(self.truth_of_array(val, node), node)
            case Record() | Ref() | SharedVal(node=SharedNode(kind="object")):
                classes = val.classes if isinstance(val, Ref) else (python_class(val),)
                if any(self.has(c, "__bool__") for c in classes):
                    raise self.refuse("ACR209", node, seen="__bool__")
                if any(issubclass(c, tuple) or self.has(c, "__len__") for c in classes):
                    if all(issubclass(c, tuple) for c in classes):
                        return number(True)
                    raise self.refuse("ACR209", node, seen="__len__ as a condition")
                return number(True)
            case SharedVal(node=shared):
                return number(bool(shared.items))
            case EnumVal(cls=cls):
                decides = self.deciding(cls, "__bool__", "__len__")
                if decides == "__bool__":
                    method = self.class_attribute(val, cls, decides, node)
                    return self.truth(self.call(method, (), {}, node), node)
                if decides:
                    raise self.refuse("ACR209", node, seen=f"{decides} as a condition")
                return self.by_member(val, bool)
            case Static() | Func() | Bound() | Choice():
                return number(True)
            case UnionVal():
                out = self.each(val, lambda v: self.truth(v, node), node)
                assert isinstance(out, Num)
                return out
            case Range():
                return self.scalar("gt", self.range_count(val), number(0))
        raise self.refuse("ACR301", node, seen=f"{self.describe(val)} as a condition")

    def truth_of_array(self, x: Tensor, node: ast.AST | None) -> Num:
        """Read what decides whether an array of one element is true."""
        x = self.only_element(x, EMPTY, AMBIGUOUS, node)
        if x.type.dtype == "uint64":  # which a host number may not hold
            x = self.cast(x, "bool", node)
        return self.host(x, "a condition", node)

    def host_value(self, val: Val, node: ast.AST | None, what: str, index: bool = False) -> Num:
        """Return a value as a Python number; that of a tensor is read, which may wait.

        Parameters
        ----------
        what
            Who needs the number, in the user's terms: "float()".
        index
            Python asks for an integer: floats and NumPy's bools are none.
        """
        if isinstance(val, UnionVal):
            val = self.not_none(val, node)
        if isinstance(val, EnumVal) and issubclass(val.cls, int):
            val = self.by_member(val, int)
        if isinstance(val, Tensor):
            if val.type.rank:
                raise self.refuse("ACR601", node, seen=f"{what} of {self.describe(val)}")
            if not index or val.type.dtype.startswith(("int", "uint")):
                return self.host(val, what, node)
        if not isinstance(val, Num) or (index and isinstance(val.type, FloatT)):
            rewrite = "int(x)" if isinstance(val, Num | Tensor) else ""
            raise self.refuse("ACR301", node, seen=f"{what} of {self.describe(val)}", rewrite=rewrite)
        return val

    # ---- loops

    def snapshot(self) -> tuple[Any, ...]:
        lists: list[list[Any]] = [f.returns for f in self.frames]
        lists.append(self.notes)
        lists += [x for f in self.frames for loop in f.loops for x in (loop.breaks, loop.continues)]
        return (
            len(self.code.blocks), {k: len(b) for k, b in enumerate(self.code.blocks)}, list(self.code.ends),
            dict(self.code.names), len(self.errors), dict(self.widenings),
            [(x, len(x)) for x in lists],
        )  # fmt: skip

    def rollback(self, snap: tuple[Any, ...]) -> None:
        count, sizes, ends, names, errors, self.widenings, lists = snap
        del self.code.blocks[count:]
        for k, n in sizes.items():
            del self.code.blocks[k][n:]
        self.code.ends = ends
        self.code.names = names
        del self.errors[errors:]
        for x, n in lists:
            del x[n:]

    def loop(
        self,
        names: Sequence[tuple[Any, str]],
        test: Callable[[], tuple[list[Point], list[Point]]],
        body: Callable[[], None],
        advance: Callable[[], None],
    ) -> None:
        """Write a loop: `names` are the state keys that it assigns. Walked until their templates are stable."""
        entry_block, entry_state = self.point()
        assumed: dict[Any, Template] = {
            key: self.loop_template(entry_state[key]) if key in entry_state else TAbsent() for key in names
        }
        facts = {(k[0], k[1]) for k in names}
        for _ in range(20):
            snap = self.snapshot()
            self.block, self.state = entry_block, dict(entry_state)
            vars: dict[Any, tuple[Var, ...]] = {}
            head_state: State = {k: v for k, v in entry_state.items() if len(k) == 2 or (k[0], k[1]) not in facts}
            for key, shape in assumed.items():
                val, vars[key] = self.instantiate(shape, key[1])
                if val is not None:
                    head_state[key] = val
                if vars[key]:
                    self.store(shape, vars[key], entry_state.get(key))
            head = self.new_block()
            self.end(ir.Jump(block=head, loc=self.loc))
            self.block, self.state = head, head_state
            self.settle_all()
            frame = self.frame
            frame.loops.append(Loop())
            yes, no = test()
            self.join(yes)
            if self.block is not None:
                try:
                    body()
                except Dead:
                    self.block = None
            here = frame.loops.pop()
            points = [*here.continues, *([self.point()] if self.block is not None else [])]
            self.join(points)
            if self.block is not None:
                advance()
            stable = True
            if self.block is not None:
                wider = {
                    key: shape if _is_refused(self.state.get(key)) else
                    self.join_templates(shape, TStatic(self.state[key]) if key in self.state else TAbsent())
                    for key, shape in assumed.items()
                }  # fmt: skip
                stable = all(equal_templates(wider[k], assumed[k]) for k in assumed)
                if stable:
                    if not any(_is_refused(self.state.get(key)) for key in assumed):
                        self.store_back(assumed, vars)
                    self.end(ir.Jump(block=head, loc=self.loc))
                else:
                    assumed = wider
            if stable:
                self.join([*no, *here.breaks])
                return
            self.rollback(snap)
        raise self.refuse("ACR303", None, seen="a variable whose type changes at every turn of the loop")

    def store_back(self, assumed: Mapping[Any, Template], vars: Mapping[Any, tuple[Var, ...]]) -> None:
        """Assign the values at the end of a turn to the loop's variables, all at once."""
        assert self.block is not None
        start_block, start = self.block, len(self.code.blocks[self.block])
        for key, shape in assumed.items():
            if vars[key]:
                self.store(shape, vars[key], self.state.get(key))
        outs = {v for vs in vars.values() for v in vs}
        if self.block != start_block:
            return  # conversions made blocks of their own: their results are fresh variables
        tail = self.code.blocks[start_block][start:]
        written: set[Var] = set()
        hazard = False
        for instr in tail:
            hazard = hazard or any(r in written for r in reads(instr))
            written.update(v for v in writes(instr) if v in outs)
        if not hazard:
            return
        del self.code.blocks[start_block][start:]
        late: list[ir.Instr] = []
        for instr in tail:
            if isinstance(instr, ir.Copy) and instr.out in outs:
                temp = self.var(instr.out.name, instr.out.type)
                self.emit(replace(instr, out=temp))
                late.append(replace(instr, src=temp))
            else:
                self.emit(instr)
        for instr in late:
            self.emit(instr)

    def loop_names(self, body: Sequence[ast.stmt] | Sequence[ast.AST], *more: str) -> list[tuple[Any, str]]:
        names = sorted(assigned_names(body) | set(more))
        return [(self.frame.scope, n) for n in names]

    def while_loop(self, stmt: ast.While) -> None:
        if stmt.orelse:
            raise self.refuse("ACR110", stmt.orelse[0])
        names = self.loop_names([*stmt.body, ast.Expr(stmt.test)])
        self.loop(names, lambda: self.branch(stmt.test), lambda: self.body(stmt.body), lambda: None)

    def for_loop(self, stmt: ast.For) -> None:
        if stmt.orelse:
            raise self.refuse("ACR110", stmt.orelse[0])
        iterable = self.expr(stmt.iter)
        self.iterate(iterable, stmt, stmt.target, lambda: self.body(stmt.body), stmt.body)

    def iterate(
        self, iterable: Val, node: ast.AST, target: ast.expr, body: Callable[[], None], inner: Sequence[ast.AST],
        extra: Sequence[tuple[Any, str]] = (),
    ) -> None:  # fmt: skip
        """Walk a body for each item of an iterable: unrolled if the items are known, else as a loop."""
        self.check_poison(iterable)
        if isinstance(iterable, UnionVal):
            iterable = self.not_none(iterable, node)
            if isinstance(iterable, UnionVal):
                raise self.refuse("ACR302", node, seen=self.describe(iterable))
        items = self.items_of(iterable)
        if items is None and isinstance(iterable, Range):
            items = self.unrolled_range(iterable, target, inner, body)
        if items is not None:
            if isinstance(iterable, Range):
                self.note_turns(len(items), node.iter if isinstance(node, ast.For) else node)
            self.unrolled(items, target, body)
            return
        length, get = self.protocol(iterable, node)
        self.counter += 1
        index_key = (self.frame.scope, f"#{self.counter}")
        self.state[index_key] = number(0)

        def index() -> Num:
            out = self.state[index_key]
            assert isinstance(out, Num)
            return out

        def test() -> tuple[list[Point], list[Point]]:
            yes, no = self.fork(self.scalar("lt", index(), length()))
            return [p for p in (yes,) if p], [p for p in (no,) if p]

        def turn() -> None:
            self.assign(target, get(index()))
            body()

        def advance() -> None:
            self.state[index_key] = self.scalar("add", index(), number(1))

        overlay = self.frame.overlays[-1][0] if self.frame.overlays else None
        names = [*self.loop_names(inner), index_key, *extra]
        for n in sorted(assigned_names([ast.Assign([target], ast.Constant(0))])):
            scope = overlay if overlay is not None and n in self.frame.overlays[-1][1] else self.frame.scope
            names.append((scope, n))
        self.loop(list(dict.fromkeys(names)), test, turn, advance)
        self.state.pop(index_key, None)

    def unrolled(self, items: Sequence[Val], target: ast.expr, body: Callable[[], None]) -> None:
        frame = self.frame
        loop = Loop()
        frame.loops.append(loop)
        for item in items:
            if self.block is None:
                break
            try:
                self.assign(target, item)
                body()
            except Dead:
                self.block = None
            points = [*loop.continues, *([self.point()] if self.block is not None else [])]
            loop.continues = []
            self.join(points)
        frame.loops.pop()
        self.join([*([self.point()] if self.block is not None else []), *loop.breaks])

    def unrolled_range(
        self, r: Range, target: ast.expr, inner: Sequence[ast.AST], body: Callable[[], None] | None = None
    ) -> tuple[Val, ...] | None:
        """Return the values of a short constant range if its variable indexes something or its `body` is small.

        Where the variable indexes, shared ints that the range is made of become constants; a small body is no reason
        to compile again for another value of a parameter.
        """
        if not isinstance(target, ast.Name):
            return None
        values = [self.present(v) for v in (r.start, r.stop, r.step)]
        if NOT_CONST in values or values[2] == 0:
            return None
        items = tuple(number(k) for k in range(*values)[: UNROLL + 1])
        if len(items) > UNROLL:
            return None
        used = any(
            isinstance(n, ast.Subscript)
            and any(isinstance(m, ast.Name) and m.id == target.id for m in ast.walk(n.slice))
            for stmt in inner
            for n in ast.walk(stmt)
        )
        if not used and (not items or body is None or any(map(self.given, (r.start, r.stop, r.step)))):
            return None
        if not used and body is not None and not self.small(items, target, body):
            return None
        for v in (r.start, r.stop, r.step):
            self.known(v)
        return items

    def given(self, num: Num) -> bool:
        """Return whether a number is that of a shared parameter, not of a global or a constant."""
        return num.const is NOT_CONST and num.shared is not None and re.split(r"[.[]", num.shared.path)[0] in self.roots

    def note_turns(self, count: int, over: ast.AST) -> None:
        """Note for `explain` that a loop over a range is written out."""
        text = f"the {count} turns are written out, one after the other"
        self.notes.append(Note(loc=self.at(over), kind="unrolled", text=text, option=""))

    def small(self, items: Sequence[Val], target: ast.expr, body: Callable[[], None]) -> bool:
        """Try the first turn of a loop: whether it is a straight line of so few operations that one kernel has all.

        As a loop, each turn would be nodes of its own.
        """
        assert self.block is not None
        snap, block, state = self.snapshot(), self.block, self.state
        start, errors = len(self.code.blocks[block]), len(self.errors)
        where, trying, depth = (self.source, self.loc, self.outer_loc), self.trying, len(self.frames)
        inside = [(x, len(x)) for f in self.frames for x in (f.loops, f.overlays)]
        self.state, self.trying = dict(state), True
        self.frame.loops.append(Loop())
        try:
            self.assign(target, items[0])
            body()
        except (Abandoned, Dead, Refused):
            self.block = None
        straight = self.block == block and len(self.errors) == errors
        operations = sum(isinstance(i, ir.Op) for i in self.code.blocks[block][start:])
        del self.frames[depth:]
        for x, n in inside:
            del x[n:]
        self.rollback(snap)
        self.block, self.state, self.trying = block, state, trying
        self.source, self.loc, self.outer_loc = where
        return straight and 0 < operations * len(items) <= MOST_OPERATIONS

    def range_count(self, r: Range) -> Num:
        gap = self.scalar("sub", r.stop, r.start)
        count = self.scalar("neg", self.scalar("floordiv", self.scalar("neg", gap), r.step))
        return self.scalar("max", count, number(0))

    def protocol(self, iterable: Val, node: ast.AST) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
        """Return how to get the length of an iterable, and an item of it."""
        match iterable:
            case Range():
                count, step, start = self.range_count(iterable), iterable.step, iterable.start
                return lambda: count, lambda i: self.scalar("add", start, self.scalar("mul", i, step))
            case ListVal():
                return lambda: self.list_lengths(iterable, node), lambda i: self.list_get(iterable, i, node)
            case Tensor() if iterable.type.rank:
                n = self.extent(iterable.dims[0])
                return lambda: n, lambda i: self.row(iterable, i, node)
            case Enumerate():
                length, get = self.protocol(iterable.inner, node)
                start = iterable.start
                return length, lambda i: TupleVal((self.scalar("add", i, start), get(i)))
            case Reversed():
                length, get = self.protocol(iterable.inner, node)
                n = length()
                last = self.scalar("sub", n, number(1))
                return lambda: n, lambda i: get(self.scalar("sub", last, i))
            case Zip():
                parts = [self.protocol(self.at_run_time(p), node) for p in iterable.parts]
                if iterable.strict:
                    first = parts[0][0]()
                    for length, _ in parts[1:]:
                        good = self.scalar("eq", first, length())
                        self.check(good, "ValueError", "zip() arguments have different lengths", (), node)

                def shortest() -> Num:
                    out = parts[0][0]()
                    for length, _ in parts[1:]:
                        out = self.scalar("min", out, length())
                    return out

                return shortest, lambda i: TupleVal(tuple(get(i) for _, get in parts))
            case StaticList() | SharedVal() | TupleVal() if self.items_of(iterable) is not None:
                return self.protocol(self.at_run_time(iterable), node)
            case Tensor():
                raise self.refuse("ACR301", node, seen="iteration over a rank-0 array")
        raise self.refuse("ACR301", node, seen=f"{self.describe(iterable)} cannot be iterated over")

    def at_run_time(self, val: Val) -> Val:
        """Return an iterable whose items are known as a list at run time."""
        items = self.items_of(val)
        if items is None or isinstance(val, Tensor | ListVal):
            return val
        cell = self.cell(("runtime", self.frame.path, self.loc))
        return self.realise(StaticList(items, cell))

    def row(self, x: Tensor, index: Num, node: ast.AST) -> Tensor:
        """Return row `index` of a tensor; the index is known to be inside."""
        rest = x.dims[1:]
        ref = self.word(self.read(index)) if self.block is not None else self.var("", INT)
        return self.op("take", (x.ref, ref), x.type.dtype, rest, (0,), node, base=x)

    # ---- match

    def match_statement(self, stmt: ast.Match) -> None:
        subject = self.expr(stmt.subject)
        path = self.path_of(stmt.subject)
        rest = [self.point()]
        done: list[Point] = []
        current = subject
        for case in stmt.cases:
            self.join(rest)
            rest = []
            if self.block is None:
                break
            if path is not None and path in self.state:
                current = self.state[path]
            try:
                self.pattern(case.pattern, current, rest, path)
                if case.guard is not None and self.block is not None:
                    yes, no = self.branch(case.guard)
                    rest += no
                    self.join(yes)
            except Dead:
                self.block = None
            if self.block is not None:
                self.body(case.body)
            if self.block is not None:
                done.append(self.point())
                self.block = None
        self.join([*done, *rest])

    def pattern(self, p: ast.pattern, val: Val, fails: list[Point], path: tuple[Any, ...] | None) -> None:
        """Match a value: go on where it fits, collect where it does not."""
        match p:
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self.pattern(inner, val, fails, path)
                if name is not None and self.block is not None:
                    if path is not None and path in self.state:
                        val = self.state[path]
                    self.bind(name, val)
            case ast.MatchOr(patterns=patterns):
                rest = [self.point()]
                done: list[Point] = []
                for q in patterns:
                    self.join(rest)
                    rest = []
                    if self.block is None:
                        break
                    try:
                        self.pattern(q, val, rest, path)
                    except Dead:
                        self.block = None
                    if self.block is not None:
                        done.append(self.point())
                        self.block = None
                fails += rest
                self.join(done)
            case ast.MatchSingleton(value=value):
                if value is None:
                    self._split_match(val, lambda t: isinstance(t, NoneT), fails, path)
                else:
                    self._match_test(self.compare(ast.Is(), val, self.constant(value), p), fails)
            case ast.MatchValue(value=value):
                self._match_test(self.compare(ast.Eq(), val, self.expr(value), p), fails)
            case ast.MatchClass():
                self.class_pattern(p, val, fails, path)
            case ast.MatchSequence(patterns=patterns):
                self.sequence_pattern(p, patterns, val, fails)
            case _:
                raise self.refuse("ACR117", p, seen=type(p).__name__)

    def _match_test(self, test: Val, fails: list[Point]) -> None:
        yes, no = self.fork(self.truth(test, None))
        if no is not None:
            fails.append(no)
        self.join([yes] if yes is not None else [])

    def _split_match(self, val: Val, wanted: Callable[[Type], bool], fails: list[Point], path: Any) -> Val:
        """Go on where a value is of the wanted kind; return it narrowed."""
        fake = ast.Constant(value=0)
        yes, no = self.narrow(fake, val, wanted)
        fails_from = no
        inner: Val = val
        if isinstance(val, UnionVal):
            inner_u, outer_u = self.keep(val, wanted), self.keep(val, lambda t: not wanted(t))
            inner = inner_u
            for point in fails_from:
                if path is not None and outer_u.possible:
                    self.enter(point)
                    self.state[path] = self.narrowed(outer_u)
                    fails.append(self.point())
                    self.block = None
                else:
                    fails.append(point)
            self.join(yes)
            if self.block is not None:
                inner = self.narrowed(inner_u)
        elif isinstance(val, Ref) and len(val.classes) > 1:
            keep = tuple(c for c in val.classes if wanted(StructT(c)))
            drop = tuple(c for c in val.classes if not wanted(StructT(c)))
            for point in fails_from:
                if path is not None and drop:
                    point[1][path] = Ref(drop, val.var)
                fails.append(point)
            self.join(yes)
            inner = Ref(keep, val.var)
        else:
            fails += fails_from
            self.join(yes)
        if path is not None and self.block is not None:
            self.state[path] = inner
        return inner

    def class_pattern(self, p: ast.MatchClass, val: Val, fails: list[Point], path: Any) -> None:
        cls = self.expr(p.cls)
        if not isinstance(cls, Static) or not isinstance(cls.value, type):
            raise self.refuse("ACR308", p.cls, seen=self.describe(cls))
        inner = self._split_match(val, self.class_filter(cls, p), fails, path)
        if self.block is None:
            return
        kind = cls.value
        if p.patterns and kind in (int, float, bool, str):
            self.pattern(p.patterns[0], inner, fails, path)
            return
        self.witness.attribute(kind, "__match_args__")
        names = list(getattr(kind, "__match_args__", ()))
        if len(p.patterns) > len(names):
            raise self.refuse("ACR203", p, seen=f"{kind.__name__}() with {len(p.patterns)} positional patterns")
        for name, q in [*zip(names, p.patterns, strict=False), *zip(p.kwd_attrs, p.kwd_patterns, strict=True)]:
            if self.block is None:
                return
            self.pattern(q, self.attribute(inner, name, p), fails, None)

    def sequence_pattern(self, p: ast.AST, patterns: Sequence[ast.pattern], val: Val, fails: list[Point]) -> None:
        star = next((k for k, q in enumerate(patterns) if isinstance(q, ast.MatchStar)), None)
        if isinstance(val, UnionVal):
            val = self._split_match(
                val, lambda t: runtime_class(t) in (tuple, list) or issubclass(runtime_class(t), tuple), fails, None
            )
            if self.block is None:
                return
        items = self.items_of(val)
        if items is None and isinstance(val, ListVal):
            n = self.list_lengths(val, p)
            fixed = len(patterns) - (star is not None)
            self._match_test(self.scalar("eq" if star is None else "ge", n, number(fixed)), fails)
            if self.block is None:
                return
            for k, q in enumerate(patterns):
                if k == star:
                    count = self.scalar("sub", n, number(fixed))
                    assert isinstance(q, ast.MatchStar)
                    if q.name:
                        self.bind(q.name, self.list_slice(val, number(k), 1, count, p))
                    continue
                back = len(patterns) - k
                at = number(k) if star is None or k < star else self.scalar("sub", n, number(back))
                self.pattern(q, self.list_get(val, at, p), fails, None)
            return
        if items is None or isinstance(val, DictVal):
            fails.append(self.point())
            self.block = None
            return
        if (star is None and len(items) != len(patterns)) or (star is not None and len(items) < len(patterns) - 1):
            fails.append(self.point())
            self.block = None
            return
        if star is not None:
            q = patterns[star]
            assert isinstance(q, ast.MatchStar)
            after = len(patterns) - star - 1
            if q.name:
                self.bind(q.name, self.new_list(items[star : len(items) - after], p))
            pairs = [*zip(patterns[:star], items[:star], strict=True)]
            pairs += [*zip(patterns[star + 1 :], items[len(items) - after :], strict=True)]
        else:
            pairs = [*zip(patterns, items, strict=True)]
        for q, item in pairs:
            if self.block is not None:
                self.pattern(q, item, fails, None)


def _is_refused(val: Val | None) -> bool:
    """Whether a value is missing because an expression was refused."""
    return isinstance(val, Poison) and not val.why
