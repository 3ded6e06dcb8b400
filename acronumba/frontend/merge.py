"""Merging of states where control flow joins: the least join shape of a name's values, and its variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acronumba.frontend.array_forms import array_of_numbers
from acronumba.frontend.block import Cases, Point, State
from acronumba.frontend.cells import endless, without_end
from acronumba.frontend.exceptions import Dead, Rejected, Restart
from acronumba.frontend.join_shapes import (
    AbsentShape,
    ArrayShape,
    ChoiceShape,
    ContainerShape,
    ErrorShape,
    JoinShape,
    MaybeShape,
    PartsShape,
    StaticShape,
    TensorShape,
    TypeShape,
    choices_of,
    is_own,
)
from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef, Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import OneOfFunctions, choices_with_none, options_of
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal, map_type
from acronumba.frontend.kinds.numbers import ALWAYS, NoneVal, Num, number
from acronumba.frontend.kinds.objects import is_field, marker_of
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Val, Value
from acronumba.frontend.naming import loosest, note_named, note_shared
from acronumba.frontend.nesting import close
from acronumba.frontend.words import Words
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, INT, Array0T, FunctionT, ListT, TensorT, Type, UnionT, members, union, words
from acronumba.records import record


@record(eq=False, frozen=False)
class _Pending(Value):
    """A merged value for which the reads of its extents are not emitted yet."""

    type: Type
    vars: tuple[ir.Var, ...]
    fresh: bool = False
    places: tuple[AllocationSite, ...] = ()
    passed: bool = False


class Merge(Words):
    """Joins of points, states and values."""

    def each(self, val: Val, f: Callable[[Val], Val], itself: bool = False) -> Val:
        """Apply `f` to each alternative of a union and merge the results.

        An alternative of a wrong type fails at run time, as in the plain call; if all do, the first rejection is
        raised. An alternative that the language does not support is rejected. With `itself`, an array that is written
        to is passed to `f` as its `ArrayRef`, else as its elements.
        """
        if not val.is_several:
            return f(val)
        rejected: list[Rejected] = []

        def one(read: Callable[[], Val]) -> Val:
            case = read()
            self.steps += 1
            try:
                return f(case if itself else self.whole(case))
            except Rejected as error:
                if error.error is not None and not fails_plainly(error.error.code):
                    raise
                rejected.append(error)
                self.fail_as(error, case)
                raise Dead from None

        points, results = self.along(val.alternatives(self), one)
        if rejected and not points:
            raise rejected[0]
        return self.join_values(points, results)

    def switch(self, cases: Cases[Callable[[], Val]]) -> Val:
        """Evaluate the branch of the first test that holds, and return its value."""
        out = self.join_values(*self.along(cases, operator.call))
        if self.block is None:
            raise Dead
        return out

    def cond(self, test: Num, yes: Callable[[], Val], no: Callable[[], Val]) -> Val:
        """Lazy select: evaluate only the branch that is taken, as `yes() if test else no()` does."""
        return self.switch([(test, yes), (ALWAYS, no)])

    def fail_as(self, error: Rejected, case: Val) -> None:
        what = self.describe(case)
        name = "AttributeError" if error.error is not None and error.error.code == "ACR307" else "TypeError"
        self.fail(name, f"this value is {what} here")

    # ---- merging

    def join(self, points: Sequence[Point]) -> None:
        """Join the control flow of several points, and continue there."""
        self.join_values(points, None)

    def join_values(self, points: Sequence[Point], values: Sequence[Val] | None) -> Val:
        """Merge the states of several points, and one value of each, in a new block, which becomes the current one."""
        if not points:
            self.block = None
            return ErrorValue()
        if len(points) == 1:
            self.block, self.state = points[0]
            return values[0] if values is not None else NoneVal()
        keys = dict.fromkeys(k for _, s in points for k in s)
        ends = [p[0] for p in points]
        states = [p[1] for p in points]
        merged: State = {}
        for key in keys:
            if key == "refined" or (is_field(key) and not all(marker_of(key) in s for s in states)):
                continue  # an object that does not exist on every path is unreachable
            vals = [s.get(key) for s in states]
            if all(v is vals[0] for v in vals):
                merged[key] = vals[0]  # type: ignore[assignment]
                continue
            if len(key) > 2:  # a narrowed part of a name: dropped unless it is the same on every path
                continue
            merged[key] = self._merge(vals, ends, states, str(key[1]))
        result: Val = NoneVal()
        for v in values or ():
            note_shared(v)
        if values is not None:
            result = self._merge(list(values), ends, states, "")
        self.meet(ends, merged)
        self.settle_all()
        return self.settle(result)

    def settle_all(self) -> None:
        """Emit the reads of extents of merged values, now that the merged block is the current one."""
        for key, val in list(self.state.items()):
            if val is not None:
                self.state[key] = self.settle(val)
                note_named(self.state[key])

    def settle(self, val: Val) -> Val:
        if not _has_pending(val):
            return val
        if isinstance(val, _Pending) and isinstance(val.type, TensorT):
            out = self.tensor(val.vars[0], val.fresh)
            out.places, out.passed = val.places, val.passed
            return out
        if isinstance(val, _Pending):
            found = self.from_words(val.type, val.vars)
            if not isinstance(found, UnionVal):
                return found
            one = Tensor(TensorT("float32", ()), val.vars[0], (), fresh=True) if val.fresh else None
            return replace(found, places=val.places, marked=one)
        return val.with_children(tuple(map(self.settle, val.children())))

    def _merge(self, vals: list[Val | None], ends: list[int], states: list[State], name: str) -> Val:
        """Merge the values of one name: find their least join shape, and store each value at the end of its point."""
        known = [v for v in {id(v): v for v in vals}.values() if not _rejected_for_now(v)] or vals
        shape: JoinShape = StaticShape(known[0]) if known[0] is not None else AbsentShape()
        for v in known[1:]:
            shape = self.join_templates(shape, StaticShape(v) if v is not None else AbsentShape())
        out, vars = self.instantiate(shape, name)
        for k, v in enumerate(vals):
            if vars and not _rejected_for_now(v):
                self._in(ends, states, k, partial(self.store, shape, vars, v))
        result: Val = out
        return result

    def _in(self, ends: list[int], states: list[State], k: int, f: Callable[[], None]) -> None:
        """Emit at the end of the k-th point."""
        saved = self.block, self.state
        self.block, self.state = ends[k], states[k]
        try:
            f()
            assert self.block is not None
            ends[k] = self.block
        finally:
            self.block, self.state = saved

    def join_templates(self, a: JoinShape, b: JoinShape) -> JoinShape:
        """Return the least join shape that covers two others."""
        if isinstance(a, TypeShape) and isinstance(b, TypeShape):  # most are
            return self._join_types(a, b)
        match a, b:
            case (ErrorShape(), _):
                return a
            case (_, ErrorShape()):
                return b
            case (AbsentShape(), AbsentShape()):
                return a
            case (AbsentShape(), StaticShape(val=ErrorValue())):
                return b.val.join_shape(self)
            case (AbsentShape(), StaticShape()):
                return MaybeShape(_copied(b.val.bound_value().join_shape(self)))
            case (AbsentShape(), MaybeShape()):
                return b
            case (AbsentShape(), _):
                return MaybeShape(_copied(b))
            case (_, AbsentShape()):
                return self.join_templates(b, a)
            case (StaticShape(), StaticShape()) if a.val.same(b.val):
                return StaticShape(loosest([a.val, b.val]))
            case (StaticShape(), _) | (_, StaticShape()):
                return self._join_known(a, b)
            case (PartsShape(), PartsShape()) if a.val.alike(b.val):
                val = a.val.united(self, b.val)
                return val.joined_parts(tuple(map(self.join_templates, a.items, b.items)))
            case (ChoiceShape(), ChoiceShape()):
                return self._join_choices(a, b)
            case (PartsShape() | ChoiceShape(), _) | (_, PartsShape() | ChoiceShape()) if _are_choices(a, b):
                return self.join_templates(ChoiceShape(choices_with_none(a)), ChoiceShape(choices_with_none(b)))
            case (MaybeShape(), MaybeShape()):
                return MaybeShape(self.join_templates(a.inner, b.inner))
            case (MaybeShape(), _):
                return MaybeShape(self.join_templates(a.inner, b))
            case (_, MaybeShape()):
                return MaybeShape(self.join_templates(a, b.inner))
            case (TensorShape(), TensorShape()) if a.kind == b.kind:
                return _join_tensors(*_known_together(a, b))  # type: ignore[arg-type]
            case (ArrayShape() | TensorShape(), ArrayShape() | TensorShape()) if a.kind == b.kind:
                return self._join_arrays(*_known_together(a, b))
            case (ContainerShape(), ContainerShape()) if a.cls is b.cls and (a.is_sequence or _may_be_one(a, b)):
                return self._join_containers(a, b)
        self._realise(a, b)
        for one in (a, b):
            if isinstance(one, ArrayShape):
                self.pass_itself([one.ref.place])
        return self._join_types(a, b)

    def _join_types(self, a: JoinShape, b: JoinShape) -> JoinShape:
        """Join values that are words of one type from here on."""
        try:
            t = union(self.template_type(a), self.template_type(b))
        except Rejected as error:
            return ErrorShape(error.error.seen if error.error is not None else "")
        t = close(self, t)
        if endless(t):
            return ErrorShape(without_end(t), "ACR303")
        own = isinstance(t, UnionT) and is_own(a) and is_own(b)
        return TypeShape(t, tuple(dict.fromkeys((*places_of(a), *places_of(b)))), own)

    def _join_containers(self, a: ContainerShape, b: ContainerShape) -> ContainerShape:
        """Join run-time lists, tuples, dicts or sets of one class."""
        if not a.is_sequence:
            return ContainerShape(self.unify_cells(a.cell, b.cell), a.cls)
        self.make_real(a.cell)
        self.make_real(b.cell)
        kept = self.stays_empty(a.cell, b.cell) or self.stays_empty(b.cell, a.cell)
        own = a.own and b.own and not kept
        return ContainerShape(self.unify_cells(a.cell, b.cell), a.cls, own, a.outer or b.outer)

    def _realise(self, a: JoinShape, b: JoinShape) -> None:
        """Make two lists or dicts at run time, of which one has known items and cannot be joined with the other."""
        (cls, one), (other_cls, other) = _container(a), _container(b)
        known = [t for t in (a, b) if isinstance(t, PartsShape)]
        if one is None or other is None or cls is not other_cls or not known:
            return
        if cls is dict and len(known) == 2:
            parts = [v for t in known for v in t.items]
            if not _can_be_stored(parts) or len({isinstance(v, ContainerShape | PartsShape) for v in parts}) > 1:
                return  # what holds structures and others is a record
        self.make_real(one)
        self.make_real(other)
        raise Restart

    def _join_known(self, a: JoinShape, b: JoinShape) -> JoinShape:
        """Join two join shapes, at least one of which is a value that is not the same on both paths."""
        x, y = (t.val.join_shape(self) if isinstance(t, StaticShape) else t for t in (a, b))
        if not isinstance(x, StaticShape) and not isinstance(y, StaticShape):
            return self.join_templates(x, y)
        if isinstance(x, MaybeShape) or isinstance(y, MaybeShape):
            inner = [t.inner if isinstance(t, MaybeShape) else t for t in (x, y)]
            return MaybeShape(self.join_templates(*inner))
        if _are_choices(x, y):
            return self.join_templates(ChoiceShape(choices_with_none(x)), ChoiceShape(choices_with_none(y)))
        if any(isinstance(t, TypeShape) and any(isinstance(m, FunctionT) for m in members(t.type)) for t in (x, y)):
            return TypeShape(union(self.template_type(x), self.template_type(y)))
        functions = [t.val.stored_type(self) for t in (x, y) if isinstance(t, StaticShape) and t.val.is_choosable]
        others = [t.type for t in (x, y) if isinstance(t, TypeShape)]
        if others and functions and functions[0] is not None:
            return TypeShape(union(functions[0], others[0]))
        seen = [self.describe(t.val) if isinstance(t, StaticShape) else "something else" for t in (a, b)]
        return ErrorShape(f"{seen[0]} in one branch, {seen[1]} in another")

    def _join_arrays(self, a: ArrayShape | TensorShape, b: ArrayShape | TensorShape) -> JoinShape:
        """Join arrays, at least one of which is written to: both have one form from the next iteration on."""
        places = [t.places if isinstance(t, TensorShape) else (t.ref.place,) for t in (a, b)]
        kinds = {p.find().kind for some in places for p in some}
        if not all(places) or len(kinds) > 1:  # an input, or a view of an array of another kind: selected at run time
            self.pass_itself([p for some in places for p in some])
            return TypeShape(union(self.template_type(a), self.template_type(b)), (*places_of(a), *places_of(b)))
        if (
            len({p.find() for some in places for p in some}) > 1
            or isinstance(a, TensorShape)
            or isinstance(b, TensorShape)
        ):
            self.unify_places([p for some in places for p in some])
            return ErrorShape("arrays of two forms, of which one is written to", "ACR112")
        if a.ref.form() != b.ref.form():  # of two parts
            self.pass_itself([p for some in places for p in some])
            return TypeShape(union(self.template_type(a), self.template_type(b)), (*places_of(a), *places_of(b)))
        numbers = zip(a.numbers, b.numbers, strict=True)
        joined = tuple(x if x is not None and y is not None and x.same(y) else None for x, y in numbers)
        return _by_numbers(ArrayShape(a.ref, joined))

    def _join_choices(self, a: ChoiceShape, b: ChoiceShape) -> ChoiceShape:
        """Join two sets of possible functions or classes; each is an option once."""
        joined = list(a.options)
        for option in b.options:
            k = next((k for k, other in enumerate(joined) if other.val.alike(option.val)), None)
            if k is None:
                joined.append(option)
            else:
                (joined[k],) = choices_with_none(self.join_templates(joined[k], option))
        return ChoiceShape(tuple(joined))

    def template_type(self, a: JoinShape) -> Type:
        """Return the type of the values that a join shape covers."""
        match a:
            case TypeShape():
                return a.type
            case TensorShape():
                return Array0T(a.type.dtype) if a.array0 else a.type
            case ContainerShape() if a.is_sequence:
                return ListT(a.cell.find().item, tupled=a.cls is tuple)
            case ContainerShape():
                return map_type(a.cell, a.cls is set)
            case ArrayShape():
                return self.type_of(a.ref)
            case PartsShape():
                return a.val.parts_type(self, a.items)
            case StaticShape():
                return self.type_of(a.val)
            case ChoiceShape():
                found = [option.val.stored_type(self) for option in a.options]
                if None not in found and all(isinstance(option, StaticShape) for option in a.options):
                    return union(*(t for t in found if t is not None))
                raise self.reject("ACR206", seen=" or ".join(self.describe(option.val) for option in a.options))
        raise self.reject("ACR308", seen="a value that may be missing")

    def instantiate(self, a: JoinShape, name: str) -> tuple[Any, tuple[ir.Var, ...]]:
        """Return a value in fresh variables for a join shape, to be settled in the merged block, and the variables."""
        match a:
            case StaticShape():
                return a.val, ()
            case ErrorShape():
                return ErrorValue(a.why, a.code), ()
            case AbsentShape():
                return None, ()
            case MaybeShape():
                bound = self.var(f"{name}_bound", BOOL)
                inner, vars = self.instantiate(a.inner, name)
                return MaybeUnbound(inner, Num(BOOL, var=bound)), (bound, *vars)
            case PartsShape():
                parts = [self.instantiate(item, name) for item in a.items]
                return a.val.with_children([p[0] for p in parts]), tuple(v for p in parts for v in p[1])
            case TensorShape():
                var = self.var(name, a.type)
                if all(isinstance(d, int) for d in a.dims):
                    dims: Any = a.dims
                    flag = number(True) if a.array0 else None
                    out = Tensor(
                        a.type, var, dims, fresh=a.fresh, aliased=not a.fresh, array0=flag, places=a.places,
                        passed=a.passed,
                    )  # fmt: skip
                    return out, (var,)
                return _Pending(a.type, (var,), a.fresh, a.places, a.passed), (var,)
            case ArrayShape():
                return self._instantiate_array(a, name)
            case ContainerShape() if a.is_sequence:
                var = self.var(name, ListT(a.cell.find().item))
                return ListVal(a.cell.find(), var, a.cls, a.outer, own=a.own), (var,)
            case ContainerShape():
                var = self.var(name, words(map_type(a.cell, a.cls is set))[0])
                return MapVal(a.cell.find(), var, a.cls), (var,)
            case ChoiceShape():
                var = self.var(name, INT)
                parts = [self.instantiate(option, name) for option in a.options]
                choice = OneOfFunctions(tuple(p[0] for p in parts), Num(INT, var=var))
                return choice, (var, *(v for p in parts for v in p[1]))
            case TypeShape():
                vars = tuple(self.var(name, w) for w in words(a.type))
                return _Pending(a.type, vars, a.own, a.places), vars

    def _instantiate_array(self, a: ArrayShape, name: str) -> tuple[ArrayRef, tuple[ir.Var, ...]]:
        vals: list[Val] = []
        vars: list[ir.Var] = []
        for old, kept in zip(a.ref.numbers(), a.numbers, strict=True):
            if kept is not None:
                vals.append(kept)
                continue
            if isinstance(old, ListVal):
                vars.append(self.var(name, ListT(old.item)))
                vals.append(ListVal(old.cell, vars[-1]))
            else:
                vars.append(self.var(name, INT))
                vals.append(Num(INT, var=vars[-1]))
        return self.note_extents(array_of_numbers(a.ref, vals)), tuple(vars)

    def template_width(self, a: JoinShape) -> int:
        match a:
            case MaybeShape():
                return 1 + self.template_width(a.inner)
            case PartsShape():
                return sum(map(self.template_width, a.items))
            case StaticShape() | ErrorShape() | AbsentShape():
                return 0
            case ChoiceShape():
                return 1 + sum(map(self.template_width, a.options))
            case ContainerShape():
                return 1
            case ArrayShape():
                return len(a.loose)
        return len(words(self.template_type(a)))

    def store(self, a: JoinShape, vars: tuple[ir.Var, ...], val: Val | None) -> None:
        """Assign a value to the variables of a join shape, at the point of emission."""
        match a:
            case StaticShape() | ErrorShape() | AbsentShape():
                return
            case MaybeShape():
                flag = val.bound if isinstance(val, MaybeUnbound) else number(val is not None)
                self.emit(ir.Copy(out=vars[0], src=self.word(flag), loc=self.loc))
                inner = None if val is None else val.bound_value()
                stored = partial(self._store_or_zero, a.inner, vars[1:])
                if flag.var is not None and _is_converted(a.inner, inner):  # an unbound value has no class to test
                    self.meet_again(self.along([(flag, inner), (ALWAYS, None)], stored)[0])
                else:
                    stored(inner)
            case PartsShape():
                assert val is not None
                at = 0
                for item, v in zip(a.items, val.unshared(self).children(), strict=True):
                    width = self.template_width(item)
                    self.store(item, vars[at : at + width], v)
                    at += width
            case ChoiceShape():
                assert val is not None
                self.emit(ir.Copy(out=vars[0], src=self.word(self._option(a, val)), loc=self.loc))
                at = 1
                for option in a.options:
                    outs = vars[at : at + self.template_width(option)]
                    at += len(outs)
                    given = next((v for v in options_of(val) if v.alike(option.val)), None)
                    self._store_or_zero(option, outs, given)
            case _:
                assert val is not None
                srcs = val.joined_words(self, a)
                if srcs is None and isinstance(a, TypeShape) and a.own:
                    srcs = self.unmarked_words(val, a.type)
                if srcs is None:
                    srcs = self.to_words(val, self.template_type(a))
                for out, src in zip(vars, srcs, strict=True):
                    if out is not src:
                        self.emit(ir.Copy(out=out, src=src, loc=self.loc))

    def _option(self, a: ChoiceShape, val: Val) -> Num:
        """Return the number of a value among the options of a join shape."""
        if not isinstance(val, OneOfFunctions):
            return number(next(k for k, option in enumerate(a.options) if option.val.alike(val)))
        places = [self._option(a, v) for v in val.options]
        out = places[-1]
        for k in range(len(places) - 1):
            out = self.select(self.scalar("eq", val.index, number(k)), places[k], out)
        return out

    def _store_or_zero(self, a: JoinShape, vars: tuple[ir.Var, ...], val: Val | None) -> None:
        """Assign a value to the variables of a join shape, or zeros if it is None."""
        if val is not None:
            self.store(a, vars, val)
            return
        for out in vars:
            self.emit(ir.Copy(out=out, src=self.zero(out.type), loc=self.loc))


def _are_choices(a: JoinShape, b: JoinShape) -> bool:
    """Whether the values of both are functions, classes or modules, or None in one of them."""
    return bool((choices_of(a) or choices_of(b)) and choices_with_none(a) and choices_with_none(b))


def _container(a: JoinShape) -> tuple[type | None, ElementInfo | None]:
    """Return the class and the element info of a list, dict or set; None for any other value."""
    match a:
        case ContainerShape() if a.cls is not tuple:
            return list if a.is_sequence else dict, a.cell
        case PartsShape(val=StaticList(cell=cell)):
            return list, cell
        case PartsShape(val=DictVal(cell=cell)):
            return dict, cell
    return None, None


def _may_be_one(a: ContainerShape, b: ContainerShape) -> bool:
    """Whether two dicts or sets may have one element info: they have, or neither is of a type of the instance data."""
    x, y = a.cell.find(), b.cell.find()
    return x is y or not (x.data or y.data)


def _by_numbers(a: ArrayShape) -> JoinShape:
    """Return the join shape of an array if all its varying numbers are host numbers; else an error shape."""
    if any(isinstance(v, Tensor) for v in a.loose):
        return ErrorShape("parts of an array by an index that is computed: use .copy()", "ACR112")
    return a


def _copied(a: JoinShape) -> JoinShape:
    """Return the join shape of a value that is bound on some paths only: its parts need variables on all of them."""
    match a:
        case ArrayShape():
            known = (v if isinstance(v, Num) and v.const is not NOT_CONST else None for v in a.ref.numbers())
            return _by_numbers(ArrayShape(a.ref, tuple(known)))
        case PartsShape():
            return PartsShape(a.val, tuple(map(_copied, a.items)))
    return a


def _rejected_for_now(val: Val | None) -> bool:
    """Whether a value was rejected for lack of facts that the next iteration may have."""
    return isinstance(val, ErrorValue) and val.for_now


def places_of(a: JoinShape) -> tuple[AllocationSite, ...]:
    """Return the possible allocation sites of the arrays in a join shape."""
    match a:
        case StaticShape():
            return tuple(a.val.places_in())
        case TensorShape() | TypeShape():
            return a.places
        case ArrayShape():
            return (a.ref.place,)
        case PartsShape():
            return tuple(p for item in a.items for p in places_of(item))
    return ()


def _is_converted(a: JoinShape, val: Val | None) -> bool:
    """Whether a value is a union that is stored as another type."""
    return isinstance(val, UnionVal) and isinstance(a, TypeShape) and val.type != a.type


def _can_be_stored(items: Sequence[JoinShape]) -> bool:
    """Whether values can be stored in memory: none is a function or another compile-time value."""
    return not any(
        isinstance(t, StaticShape | ChoiceShape | ErrorShape) or (isinstance(t, PartsShape) and not t.val.compound)
        for t in items
    )


def _known_together(*several: ArrayShape | TensorShape) -> list[ArrayShape | TensorShape]:
    """Return joined arrays; a view of another array than the rest loses its allocation sites, which are not unified."""
    if len({p.find() for t in several for p in places_of(t)}) < 2:
        return list(several)

    def viewed(t: TensorShape) -> bool:
        return t.viewed or any(p.find().kind != t.kind[:2] for p in t.places)

    return [replace(t, places=()) if isinstance(t, TensorShape) and viewed(t) else t for t in several]


def _join_tensors(a: TensorShape, b: TensorShape) -> TensorShape:
    """Join tensors of one dtype and rank."""
    dims = tuple(x if x is not None and x == y else None for x, y in zip(a.dims, b.dims, strict=True))
    t = union(a.type, b.type)
    assert isinstance(t, TensorT)
    places = tuple(dict.fromkeys((*a.places, *b.places))) if a.places and b.places else ()
    return TensorShape(t, dims, a.fresh and b.fresh, a.array0, places, a.passed or b.passed, a.viewed or b.viewed)


def _has_pending(val: Val | None) -> bool:
    return isinstance(val, _Pending) or (val is not None and any(map(_has_pending, val.children())))


def fails_plainly(code: str) -> bool:
    """Whether the plain call also fails where an operation on one alternative of a union is rejected with a code."""
    return code[3] in "346" and code not in ("ACR303", "ACR309", "ACR310", "ACR403")
