"""Comparisons of values of all kinds, and `in`."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from acronumba.data.schema import NODES
from acronumba.errors.codes import reject
from acronumba.frontend.attributes import attribute, not_none
from acronumba.frontend.block import Point
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.tables import row
from acronumba.frontend.conditions import truth, truth_value
from acronumba.frontend.exceptions import Dead, Hopeless, Restart
from acronumba.frontend.handlers import CONTAINS, EQUALS, EXPRESSIONS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import Func, Static
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal
from acronumba.frontend.kinds.nested import Nested
from acronumba.frontend.kinds.numbers import EnumVal, NoneVal, Num, number
from acronumba.frontend.kinds.objects import ObjectValue, Ref, SharedVal
from acronumba.frontend.kinds.records import Record
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.comparisons import BY_FIELDS, fields, same
from acronumba.frontend.library.comparisons import contains as in_iterable
from acronumba.frontend.magic import (
    call_special,
    has_method,
    is_derived,
    iterated,
    object_class,
    one_string,
    same_object,
    same_reference,
)
from acronumba.frontend.operators import is_float
from acronumba.frontend.walker import Walker
from acronumba.ir.functions import made_anew
from acronumba.ir.types import FLOAT, INT, StrT, StructT

DEEPEST = 16  # maximal depth of nested comparisons, beyond the depth of real data
DEEP = 6  # depth beyond which nested comparisons are counted,
MOST_COMPARED = 40  # and their maximal number
MOST_PAIRS = 512  # maximal number of pairs of element types in one comparison, each of which is compiled separately

_COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "eq",
    ast.IsNot: "ne",
}  # fmt: skip


_COMPARE_BY: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}

# The method of the right operand that Python calls where the left operand has none, or first if its class is derived.
_REFLECTED = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__"}


@handles(EXPRESSIONS, ast.Compare)
def compare_expr(w: Walker, node: ast.Compare) -> Val:
    """Evaluate a comparison or a chain of comparisons, which ends at the first false one."""
    if len(node.ops) == 1:
        op, right = node.ops[0], node.comparators[0]
        if isinstance(op, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
            return truth_value(w, node)
        if isinstance(op, ast.Is | ast.IsNot):
            return compare_values(w, op, _with_identity(w, node.left), _with_identity(w, right))
        return compare_values(w, op, w.expr(node.left), w.expr(right))
    left = w.expr(node.left)
    points: list[Point] = []
    rest: list[Point] = []
    vals: list[Val] = []
    for k, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
        try:
            right_val = w.expr(comparator)
        except Dead:
            w.block = None
            break
        result = compare_values(w, op, left, right_val)
        left = right_val
        if k == len(node.ops) - 1:
            ends, rest = w.leave(), []
        else:
            rest, ends = w.fork(truth(w, result))
            result = result if isinstance(result, Tensor) else number(False)
        points += ends
        vals += [result] * len(ends)
        w.join(rest)
        if not rest:
            break
    return w.join_values(points, vals)


def _with_identity(w: Walker, operand: ast.expr) -> Val:
    """Evaluate an operand of `is`: a row of a closed shape stays one, unless a list or dict in it is what it is."""
    val = w.value(operand)
    return val if isinstance(val, Nested) and not val.cls.shape.is_open else w.whole(val)


def compare_values(w: Walker, op: ast.cmpop, a: Val, b: Val, given: Num | None = None) -> Val:
    """Compare two values, each of which may be a union; `given`: see `same_element`."""
    w.check_poison(a, b)
    with _inside(w):
        if isinstance(op, ast.In | ast.NotIn):
            found = contains(w, a, b)
            return w.negate(found) if isinstance(op, ast.NotIn) else found
        tag = _tag_test(w, op, a, b)
        if tag is not None:
            return tag
        return w.each(a, lambda x: w.each(b, lambda y: _compare(w, op, x, y, given), itself=True), itself=True)


def _as_rows(w: Walker, a: Val, b: Val) -> tuple[Val, Val]:
    """Return two values; a list that is compared with a row of a closed shape becomes such a row."""
    if isinstance(a, Nested) and b.is_list and not b.nests:
        return a, w.named_in(b, StructT(a.cls))
    if isinstance(b, Nested) and a.is_list and not a.nests:
        return w.named_in(a, StructT(b.cls)), b
    return a, b


def _are_open(*vals: Val) -> bool:
    return all(v.cls.shape.is_open for v in vals if isinstance(v, Nested))


def _compare(w: Walker, op: ast.cmpop, a: Val, b: Val, given: Num | None) -> Val:
    """Compare two values, of which rows of closed shapes are compared item by item."""
    a, b = (a, b) if isinstance(op, ast.Is | ast.IsNot) and not _are_open(a, b) else _as_rows(w, a, b)
    if isinstance(op, ast.Is | ast.IsNot) and (isinstance(a, Record) or isinstance(b, Record)):
        same = same_dict(w, a, b)
        return w.negate(same) if isinstance(op, ast.IsNot) else same
    if not isinstance(a, Nested) or not isinstance(b, Nested):
        return compare_one(w, op, w.whole(a), w.whole(b), given)
    if isinstance(op, ast.Is | ast.IsNot):
        if a.cls.shape.is_open and a.cls is b.cls:  # a list or dict may have several rows
            return compare_one(w, op, a.opened(w), b.opened(w), given)
        if a.cls is b.cls and a.cls.shape.keys is None and a.var is not b.var and (a.own, b.own) != (False, False):
            return compare_one(w, op, a.opened(w), b.opened(w), given)  # one made in the call may have several rows
        same = same_reference(w, a.var, b.var)
        return w.negate(same) if isinstance(op, ast.IsNot) else same
    if isinstance(op, EQUALITY) and not a.cls.shape.may_equal(b.cls.shape):
        return number(isinstance(op, ast.NotEq))
    return w.call(w.constant(BY_FIELDS[type(op)]), (a, b), {})


def _tag_test(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare one of several constant strings with a constant; None for other values."""
    wanted = w.static(b)
    if type(wanted) is not str or not isinstance(op, ast.Eq | ast.NotEq) or not isinstance(a, UnionVal):
        return None
    if not all(isinstance(m, StrT) for m in a.possible):
        return None
    test = w.is_case(a, lambda t: t == StrT(wanted))
    return test if isinstance(op, ast.Eq) else w.negate(test)


@contextmanager
def _inside(w: Walker) -> Iterator[None]:
    """Count nested comparisons, and reject a comparison that exceeds the limits of depth and number."""
    w.comparisons.append(w.here)
    w.compared += len(w.comparisons) > DEEP
    try:
        if w.compared > MOST_COMPARED or len(w.comparisons) > DEEPEST:
            raise _hopeless(w)
        yield
    finally:
        w.comparisons.pop()
        if not w.comparisons:
            w.compared = w.paired = 0


def _hopeless(w: Walker) -> Hopeless:
    return Hopeless(reject("ACR303", w.loc, "a comparison of deeply nested data of many types", NODES))


def same_element(w: Walker, a: Val, b: Val, given: Num | None = None) -> Num:
    """Return whether two elements are equal as in containers: identical, or equal by `==`.

    The identity of numbers is not known: where both are NaN, the instance fails if the bool `given` (by default true)
    holds.
    """
    with _inside(w):
        out = w.each(a, lambda x: w.each(b, lambda y: _same(w, x, y, given), itself=True), itself=True)
    assert isinstance(out, Num)
    return out


_NAN_AND_NAN = "NaN and NaN, which are equal where they are one object: ask `math.isnan` before"


def _same(w: Walker, a: Val, b: Val, given: Num | None) -> Val:
    w.paired += 1
    if w.paired > MOST_PAIRS:
        raise _hopeless(w)
    a, b = _as_rows(w, a, b)
    if a.nests and b.nests:
        return truth(w, _compare(w, ast.Eq(), a, b, given))
    a, b = w.whole(a), w.whole(b)
    if isinstance(a, Ref) and isinstance(b, Ref) and any(has_method(w, v, "__eq__") for v in (a, b)):
        same_one = same_reference(w, a.var, b.var)
        return w.cond(same_one, lambda: number(True), lambda: truth(w, compare_one(w, ast.Eq(), a, b, given)))
    if not (_may_be_nan(a) and _may_be_nan(b)):
        return truth(w, compare_one(w, ast.Eq(), a, b, given))
    wanted = number(True) if given is None else given
    if isinstance(a, Num) and isinstance(b, Num):
        both = w.both(w.scalar("isnan", w.read(a)), w.scalar("isnan", w.read(b)))
        w.check(w.negate(w.both(wanted, both)), "ACR117", _NAN_AND_NAN)
        return truth(w, compare_one(w, ast.Eq(), a, b, given))
    equal = w.ops.ufunc("eq", (a, b))
    odd = w.ops.ufunc("and", tuple(w.ops.ufunc("ne", (v, v)) for v in (a, b)))

    def checked() -> Num:
        same = truth(w, equal)
        w.check(w.either(same, w.negate(wanted)), "ACR117", _NAN_AND_NAN)
        return same

    return w.cond(truth(w, w.ops.ufunc("or", (equal, odd))), checked, lambda: number(False))


def _may_be_nan(val: Val) -> bool:
    if isinstance(val, Tensor):
        return val.type.dtype.startswith("float")
    return isinstance(val, Num) and val.type == FLOAT and (val.const is NOT_CONST or val.const != val.const)


def compare_one(w: Walker, op: ast.cmpop, a: Val, b: Val, given: Num | None = None) -> Val:
    """Compare two values."""
    negated = isinstance(op, ast.NotEq | ast.IsNot)
    objects = compare_objects(w, op, a, b, given)
    if objects is not None:
        return objects
    if isinstance(op, ast.Is | ast.IsNot):
        same = same_container(w, a, b)
        if same is not None:
            return w.negate(same) if negated else same
    known = _by_kind(w, op, a, b)
    if known is None and not isinstance(op, ast.Is | ast.IsNot):
        one, other = as_tuple(w, a), as_tuple(w, b)
        if isinstance(one, TupleVal) and isinstance(other, TupleVal):
            if one is a and other is b:
                return compare_tuples(w, op, one, other, given)
            return compare_by_fields(w, op, a, b, given)
        known = None if one is a and other is b else _by_kind(w, op, one, other)
        a, b = one, other
    if known is not None:
        return known
    kinds = {a.family, b.family}
    if isinstance(op, EQUALITY) and len(kinds) == 2 and "" not in kinds:  # a string never equals a tuple
        return number(negated)
    raise not_compared(w, op, a, b)


def not_compared(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Exception:
    """Return the exception to raise for a comparison that the language does not know."""
    code = "ACR117" if isinstance(op, EQUALITY) else "ACR301"  # equality is defined for all values
    rejection = w.reject(code, seen=f"{w.describe(a)} compared with {w.describe(b)}")
    if code == "ACR301" and isinstance(a, Ref) and isinstance(b, Ref) and not a.is_several | b.is_several:
        names = f"'{a.python_class.__name__}' and '{b.python_class.__name__}'"
        return w.fails("TypeError", rejection, f"'{_SIGNS[type(op)]}' not supported between instances of {names}")
    return impossible(w, _COMPARE_BY.get(type(op), operator.is_), (a, b), rejection)


EQUALITY = ast.Eq | ast.NotEq | ast.Is | ast.IsNot


def _by_kind(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Val | None:
    """Compare two values as the kind of one of them does; None if neither knows how."""
    for v in sorted((a, b), key=lambda v: v.compares_first, reverse=True):
        known = v.compare(w, op, a, b)
        if known is not None:
            return known
    return None


@handles(EQUALS, Tensor)
def _compare_arrays(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Val | None:
    if isinstance(op, ast.Is | ast.IsNot):
        return None
    if {a.family, b.family} & {"None", "str"}:
        raise not_compared(w, op, a, b)
    return w.ops.ufunc(_COMPARE[type(op)], (a, b))


@handles(EQUALS, Num)
def _compare_numbers(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    if not isinstance(a, Num) or not isinstance(b, Num):
        return None
    if isinstance(op, ast.Is | ast.IsNot) and a.type != b.type:
        return number(isinstance(op, ast.IsNot))
    if FLOAT in (a.type, b.type):
        return compare_floats(w, _COMPARE[type(op)], a, b)
    return w.scalar(_COMPARE[type(op)], w.as_int(a), w.as_int(b))


@handles(EQUALS, NoneVal)
def _compare_none(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    same = a.family == b.family
    return number(same != isinstance(op, ast.NotEq | ast.IsNot)) if isinstance(op, EQUALITY) else None


def same_container(w: Walker, a: Val, b: Val) -> Num | None:
    """Return whether two values are the same list, dict or set, as a bool; None for other values; reject arrays.

    Lists and dicts of known items are made at run time from the next iteration on: only then they have an identity.
    """
    if isinstance(a, SharedVal) and isinstance(b, SharedVal) and (a.node.path == b.node.path or a.is_object_as(b)):
        w.facts.compared.add(a.node.cls)
        return number(w.facts.same.first(a.node.path) == w.facts.same.first(b.node.path))
    if is_tuple(a) and is_tuple(b) and not a.is_local() and not b.is_local():
        if isinstance(a, ListVal) and isinstance(b, ListVal):  # inputs; all empty tuples are one object
            empty = [w.scalar("eq", w.ops.list_lengths(v), number(0)) for v in (a, b)]
            return w.either(same_reference(w, a.var, b.var), w.both(*empty))
    for kinds in ((ListVal, StaticList), (MapVal, DictVal)):
        if isinstance(a, kinds) and isinstance(b, kinds):
            for v in (a, b):
                if isinstance(v, DictVal) and v.cell is not None:
                    v.mutable(w)  # it has an identity, as if it were mutated
                if isinstance(v, StaticList) and not v.cell.find().real:
                    w.make_real(v.cell)
                    raise Restart
            if isinstance(a, ListVal | MapVal) and isinstance(b, ListVal | MapVal):
                return same_reference(w, a.var, b.var)
    kept = TupleVal | StaticList | ListVal | DictVal | MapVal | SharedVal
    both = isinstance(a, kept) and isinstance(b, kept) and a.python_class is b.python_class
    if both or isinstance(a, Tensor | ObjectValue) or isinstance(b, Tensor | ObjectValue):
        seen = f"`is` of {w.describe(a)} and {w.describe(b)}"
        raise w.reject("ACR117", seen=seen, rewrite="compare by `==`, or by a number that tells them apart")
    return None


def same_dict(w: Walker, a: Val, b: Val) -> Num:
    """Return whether two values, of which one is a record, are the same dict, as a bool."""
    for v, other in ((a, b), (b, a)):
        if v.is_mapping and not v.is_input and isinstance(other, Record):
            v.mutable(w)  # it has an identity, as if it were mutated
    rows = [v.marker(w) if isinstance(v, Record) else v for v in (a, b)]
    if isinstance(rows[0], Nested) and isinstance(rows[1], Nested):
        return same_reference(w, rows[0].var, rows[1].var)
    return number(isinstance(a, Record) and isinstance(b, Record) and a.key == b.key)


def as_tuple(w: Walker, val: Val) -> Val:
    """Return a NamedTuple without comparisons of its own as the tuple of its items; any other value as it is."""
    cls = val.python_class if isinstance(val, ObjectValue | Ref) else None
    if cls is None or not issubclass(cls, tuple):
        return val
    names = (f"__{name}__" for name in dict.fromkeys(_COMPARE.values()))
    if any(isinstance(w.source_guard.attribute(cls, name), FunctionType) for name in names):
        return val
    items = w.items_of(val)
    return val if items is None else TupleVal(items)


def compare_objects(w: Walker, op: ast.cmpop, a: Val, b: Val, given: Num | None = None) -> Val | None:
    """Compare two values by the methods of their classes if one is an object; None if the classes do not decide."""
    if isinstance(op, ast.Is | ast.IsNot):
        same = same_object(w, a, b)
        return same if same is None or isinstance(op, ast.Is) else w.negate(same)
    first, second = object_class(a), object_class(b)
    if first is None and second is None:
        return None
    name = f"__{_COMPARE[type(op)]}__"
    turns = [(a, b, name), (b, a, _REFLECTED.get(name, name))]
    if is_derived(w, a, b):
        turns.reverse()
    if name in _REFLECTED:
        for x, y, method in turns:
            if has_method(w, x, method) and not _is_generated(w, x, method):
                return call_special(w, x, method, (y,))
            if has_method(w, x, method) and first is second:
                return compare_by_fields(w, op, a, b, given)
        return None
    for x, y, _ in turns:
        if name == "__ne__" and has_method(w, x, "__ne__"):
            return call_special(w, x, "__ne__", (y,))
        if has_method(w, x, "__eq__") and not _is_generated(w, x, "__eq__"):
            found = call_special(w, x, "__eq__", (y,))
            return w.negate(truth(w, found)) if name == "__ne__" else found
    if first is second and has_method(w, a, "__eq__"):
        return compare_by_fields(w, op, a, b, given)
    if first is not None and second is not None and first is not second:
        return number(name == "__ne__")
    for v in (a, b):
        if isinstance(v, Tensor) and v.type.rank:  # each element differs from the object
            return w.call(w.constant(np.full_like), [v, number(name == "__ne__")], {"dtype": w.constant(bool)})
    same = same_object(w, a, b) if first is not None and second is not None else number(False)
    return same if same is None or name == "__eq__" else w.negate(same)


def _is_generated(w: Walker, val: Val, name: str) -> bool:
    """Whether `dataclasses` has written a comparison."""
    cls: Any = object_class(val)
    code = w.source_guard.attribute(cls, name).__code__
    return dataclasses.is_dataclass(cls) and "__create_fn__" in code.co_qualname


def compare_by_fields(w: Walker, op: ast.cmpop, a: Val, b: Val, given: Num | None = None) -> Val:
    """Compare two objects field by field; by a recursive function if their fields contain such a pair again."""
    pair = a.python_class, b.python_class
    if pair in w.facts.nested:
        return w.call(w.constant(BY_FIELDS[type(op)]), (a, b), {})
    if pair in w.comparing:
        w.facts.nested.add(pair)
        raise Restart
    w.comparing.append(pair)
    try:
        return compare_values(w, op, fields_compared(w, a), fields_compared(w, b), given)
    finally:
        w.comparing.pop()


def fields_compared(w: Walker, val: Val) -> Val:
    """Return the compared fields of a dataclass or NamedTuple, as a tuple; a row of a closed shape opened."""
    if val.nests:
        return val.opened(w)
    if object_class(val) is None:
        return as_tuple(w, val)
    cls: Any = object_class(val)
    return TupleVal(tuple(attribute(w, val, f.name) for f in dataclasses.fields(cls) if f.compare))


row("obj", fields, whole=True)(lambda w, a: fields_compared(w, a["obj"]))
row("a b", same, whole=True)(lambda w, a: same_element(w, a["a"], a["b"]))


def compare_tuples(w: Walker, op: ast.cmpop, a: TupleVal, b: TupleVal, given: Num | None = None) -> Num:
    """Compare tuples item by item."""
    equality = isinstance(op, ast.Eq | ast.NotEq)
    if equality and len(a.items) != len(b.items):
        return number(isinstance(op, ast.NotEq))
    same, until = [], number(True)  # whether all items so far are the same
    for x, y in zip(a.items, b.items, strict=False):
        wanted = until if given is None else w.both(given, until)
        same.append(same_element(w, x, y, wanted))
        until = w.both(until, same[-1])
    if equality:
        return w.negate(until) if isinstance(op, ast.NotEq) else until

    def decided(k: int) -> Num:  # by the first that differ
        if k == len(same):
            return truth(w, compare_values(w, op, number(len(a.items)), number(len(b.items))))
        pairs = [*zip(a.items, b.items, strict=False)][k:]

        def here() -> Num:
            return truth(w, compare_values(w, op, *pairs[0], given))

        if not any(_may_not_be_ordered(x, y) for x, y in pairs):
            return w.select(same[k], decided(k + 1), here())
        return truth(w, w.cond(same[k], lambda: decided(k + 1), here))

    return decided(0)


def _may_not_be_ordered(a: Val, b: Val) -> bool:
    """Whether `<` of two values may raise, so that it must not be evaluated in vain."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    return a.is_several or b.is_several or {a.family, b.family} not in ({"number"}, {"str"})


@handles(EQUALS, EnumVal)
def _compare_members(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare a member of an enum, by its value or its number; None if that does not decide."""
    identity, negated = isinstance(op, ast.Is | ast.IsNot), isinstance(op, ast.NotEq | ast.IsNot)
    for v in (a, b):
        own = w.deciding(v.cls, f"__{_COMPARE[type(op)]}__") if isinstance(v, EnumVal) else ""
        if own and not identity:
            raise w.reject("ACR209", seen=f"{own} of {w.describe(v)}")
    member, other = (a, b) if isinstance(a, EnumVal) else (b, a)
    assert isinstance(member, EnumVal)
    cls: Any = member.cls
    if isinstance(other, EnumVal) and other.cls is cls:
        if not isinstance(op, EQUALITY):
            return None
        if member.const is not NOT_CONST and other.const is not NOT_CONST:
            return number((member.const is other.const) != negated)
        x, y = (Num(INT, var=w.word(v)) for v in (member, other))
        return w.scalar("ne" if negated else "eq", x, y)
    if identity and not isinstance(other, EnumVal):
        return number(negated)
    if isinstance(op, ast.Eq | ast.NotEq) and cls.__eq__ is object.__eq__ and other.family:
        return number(negated)
    known = other.const if isinstance(other, Num | EnumVal) else NOT_CONST
    if other.python_class is str:
        known = other.static(w)
    if known is NOT_CONST:
        ints = (v.by_member(w, int) if isinstance(v, EnumVal) and issubclass(v.cls, int) else v for v in (a, b))
        return _compare_numbers(w, op, *ints) if isinstance(other, Num) else None
    test = _COMPARE_BY[type(op)]
    try:
        return member.by_member(w, lambda m: bool(test(m, known) if member is a else test(known, m)))
    except TypeError:  # of `<`
        return None


@handles(EQUALS, Func)
def _compare_functions(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare functions by identity; reject those that one definition may have made again, which count as one."""
    found = [v.fn if isinstance(v, Func) else w.static(v) for v in (a, b)]
    if not isinstance(op, EQUALITY) or any(isinstance(v, Func) and v.fn is None for v in (a, b)):
        return None
    same = found[0] is found[1]
    if same and (made_anew(found[0]) or found[0] in w.unwrapped):
        seen = f"{w.describe(a)} and {w.describe(b)}"
        raise w.reject("ACR117", seen=seen, rewrite="compare names, or numbers that you give them")
    return number(same is isinstance(op, ast.Eq | ast.Is))


@handles(EQUALS, Static)
def compare_known(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare compile-time values for equality: dtypes, classes, modules."""
    if not isinstance(op, EQUALITY):
        return None
    x, y = w.static(a), w.static(b)
    if x is not NOT_CONST and y is not NOT_CONST:
        try:
            return number(bool(_COMPARE_BY[type(op)](x, y)))
        except TypeError:  # a dtype and a string that is none
            pass
    elif any(isinstance(v, type | FunctionType | BuiltinFunctionType) for v in (x, y)):
        if {a.family, b.family} & {"number", "str", "None", "tuple", "list", "dict"}:  # which never equal a function
            return number(isinstance(op, ast.NotEq | ast.IsNot))
    raise not_compared(w, op, a, b)


def compare_floats(w: Walker, name: str, a: Num, b: Num) -> Num:
    """Compare two Python numbers, one of them a float; an int that no float represents is not rounded."""
    if a.const is not NOT_CONST is not b.const:
        return w.scalar(name, a, b)
    if is_float(a) or is_float(b):
        return w.scalar(name, w.as_float(a), w.as_float(b))
    (x, x_rest), (y, y_rest) = exact_parts(w, a), exact_parts(w, b)
    return w.select(w.scalar("eq", x, y), w.scalar(name, x_rest, y_rest), w.scalar(name, x, y))


def exact_parts(w: Walker, num: Num) -> tuple[Num, Num]:
    """Return a float near a number, and how much more the number is; of one beyond all floats, the sign of that."""
    if num.const is not NOT_CONST and abs(num.const) > sys.float_info.max:
        return number(math.inf if num.const > 0 else -math.inf), number(-1 if num.const > 0 else 1)
    return w.as_float(num), w.scalar("rest", w.read(num)) if num.type == INT else number(0)


@handles(CONTAINS, ListVal)
def search(w: Walker, a: Val, b: Val) -> Num:
    """`a in b`, by a loop over the items."""
    found = w.call(w.constant(in_iterable), (a, b.plain), {})
    assert isinstance(found, Num)
    return found


def contains(w: Walker, a: Val, b: Val) -> Num:
    """`a in b`."""
    b = one_string(w, not_none(w, b)).opened(w)
    if b.is_several:
        found = w.each(b, lambda v: contains(w, a, v))
        assert isinstance(found, Num)
        return found
    if has_method(w, b, "__contains__"):
        return truth(w, call_special(w, b, "__contains__", (a,)))
    b = b if is_tuple(b) else iterated(w, b)
    if b.is_lazy or b.is_iterator:
        return truth(w, w.call(w.constant(in_iterable), (a, b), {}))
    known = b.contains(w, a)
    if known is not None:
        return known
    items = w.items_of(b)
    if items is None:
        rejection = w.reject("ACR301", seen=f"`in` {w.describe(b)}", rewrite="any(x == a for x in xs)")
        raise impossible(w, lambda x: None in x, (b,), rejection)
    out = number(False)
    for item in items:
        out = w.either(out, same_element(w, item, a))
    return out
