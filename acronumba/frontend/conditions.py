"""Conditions: branches, truth values, and the narrowing of names by tests."""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from acronumba.frontend.attributes import not_none
from acronumba.frontend.block import Fork, Point
from acronumba.frontend.calls.objects import (
    runtime_class,
)
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import CONDITIONS, EXPRESSIONS, handles
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import Ref, SharedVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.magic import call_special, has_method
from acronumba.frontend.names import path_of
from acronumba.frontend.walker import Walker
from acronumba.ir.types import BOOL, Array0T, NoneT, StructT, Type, case_slices, type_text


def narrow_to(w: Walker, node: ast.expr, val: Val, wanted: Callable[[Type], bool]) -> Fork:
    """Branch on whether the type of a value is a wanted one, and narrow its name on both sides."""
    w.check_poison(val)
    if w.block is None:
        return [], []
    path = path_of(w, node)
    if isinstance(val, UnionVal):
        test, either = is_any(w, val, wanted)
        sides: list[Val] = [
            w.keep(val, lambda t: t in either or wanted(t)),
            w.keep(val, lambda t: t in either or not wanted(t)),
        ]
    elif isinstance(val, Ref) and len(val.classes) > 1:
        keep = tuple(c for c in val.classes if wanted(StructT(c)))
        drop = tuple(c for c in val.classes if not wanted(StructT(c)))
        test = number(bool(keep)) if not keep or not drop else w.class_test(val.var, keep)
        sides = [Ref(keep, val.var, val.own), Ref(drop, val.var, val.own)]
    elif isinstance(val, Tensor) and val.array0 is not None and val.array0.const is NOT_CONST:
        array, scalar = (wanted(t) for t in (Array0T(val.type.dtype), val.type))
        test = number(array) if array == scalar else val.array0 if array else w.negate(val.array0)
        as_array, as_scalar = replace(val, array0=number(True)), replace(val, array0=None)
        sides = [val, val] if array == scalar else [as_array, as_scalar] if array else [as_scalar, as_array]
    else:
        here = w.leave()
        kind = kind_of(w, val)
        return (here, []) if kind is not None and wanted(kind) else ([], here)
    points: list[list[Point]] = []
    for point, side in zip(w.fork(test), sides, strict=True):
        w.enter(point)
        if point and path is not None and (path in w.state or len(path) > 2):
            w.state[path] = w.narrowed(side) if isinstance(side, UnionVal) else side
        points.append(w.leave())
    return points[0], points[1]


def is_any(w: Walker, val: UnionVal, wanted: Callable[[Type], bool]) -> tuple[Num, set[Type]]:
    """Return whether a value is of a wanted type, as a bool, and the member types that do not decide it."""
    parts = {m: (Array0T(m.dtype), m.scalar) for m in val.possible if isinstance(m, Array0T) and not m.sure}
    either: set[Type] = {m for m, (array, scalar) in parts.items() if wanted(array) != wanted(scalar)}
    test = w.is_case(val, lambda t: t not in either and wanted(t))
    for case, where in case_slices(val.type) if either else ():
        if case in either and isinstance(case, Array0T):
            array = Num(BOOL, var=val.vars[where][0])
            kind = array if wanted(Array0T(case.dtype)) else w.negate(array)
            test = w.either(test, w.both(w.is_case(val, partial(operator.eq, case)), kind))
    return test, either


def kind_of(w: Walker, val: Val) -> Type | None:
    """Return a type that stands for the class of a value, for `isinstance` and `is None`."""
    val = val.bound_value()
    if isinstance(val, SharedVal) and not val.object_classes():
        val = w.materialise(val)
    if val.word_type() is None and val.python_class is not object and not isinstance(val, TupleVal):
        return StructT(val.python_class)  # not representable at run time, but of a known class
    try:
        return w.type_of(val)
    except Rejected:
        return StructT(tuple) if isinstance(val, TupleVal) else None


def class_filter(w: Walker, kinds: Val) -> Callable[[Type], bool]:
    """Return the predicate on types that `isinstance(x, kinds)` tests."""

    def classes(known: Constant) -> Iterator[type]:
        if isinstance(known, tuple | types.UnionType):
            for part in known if isinstance(known, tuple) else known.__args__:
                yield from classes(part)
        elif isinstance(known, type):
            yield known
        else:
            raise w.reject("ACR308", seen=w.describe(kinds))

    def is_one(t: Type, cls: type) -> bool:
        if not isinstance(t, Array0T) or t.sure:
            return issubclass(runtime_class(t), cls)
        found = {is_one(Array0T(t.dtype), cls), is_one(t.scalar, cls)}
        if len(found) > 1:
            raise w.reject("ACR308", seen=f"a test of {type_text(t)} beside other types")
        return found.pop()

    wanted = tuple(classes(w.static(kinds)))
    return lambda t: any(is_one(t, cls) for cls in wanted)


def truth(w: Walker, val: Val) -> Num:
    """Return the truth value of a value: `bool(val)`."""
    w.check_poison(val)
    classes = val.object_classes()
    if classes:
        return truth_of_object(w, val, classes)
    found: Val | None = val.truth(w)
    if found is None and val.is_several:
        found = w.each(val, lambda v: truth(w, v))
    if not isinstance(found, Num):
        raise w.reject("ACR301", seen=f"{w.describe(val)} as a condition")
    return found


def truth_of_object(w: Walker, val: Val, classes: tuple[type, ...]) -> Num:
    """Return the truth value of an object by its `__bool__`, or else its `__len__`; true if it has none."""
    if not any(w.has(c, "__bool__") or w.has(c, "__len__") for c in classes):
        return number(True)
    if all(issubclass(c, tuple) for c in classes):
        return number(True)

    def by_method(v: Val) -> Val:
        name = next((n for n in ("__bool__", "__len__") if has_method(w, v, n)), "")
        return truth(w, call_special(w, v, name, ())) if name else number(True)

    found = w.each(val, by_method)
    if w.block is None:
        raise Dead
    assert isinstance(found, Num)
    return found


def host_value(w: Walker, val: Val, what: str, index: bool = False) -> Num:
    """Return a value as a Python number; the element of a tensor is read, which may suspend the instance.

    Parameters
    ----------
    what
        The operation that needs the number, in the user's terms: "float()".
    index
        Whether Python demands an integer here, which excludes floats and NumPy bools.
    """
    val = w.whole(val)
    if isinstance(val, UnionVal):
        val = not_none(w, val)
    if isinstance(val, UnionVal):  # an int on one path and a scalar of NumPy on the other, for example

        def one(v: Val) -> Val:
            x = host_value(w, v, what, index)
            return w.as_int(x) if index else w.read(x)

        val = w.each(val, one)
        if w.block is None:
            raise Dead
    found = val.host_number(w, what, index)
    if found is None:
        rewrite = "int(x)" if val.numeric else ""
        raise w.reject("ACR301", seen=f"{what} of {w.describe(val)}", rewrite=rewrite)
    return found


def truth_value(w: Walker, node: ast.expr) -> Val:
    """Return the truth value of a condition, as a bool."""
    yes, no = w.branch(node)
    points = [*yes, *no]
    return w.join_values(points, [number(True)] * len(yes) + [number(False)] * len(no))


@handles(EXPRESSIONS, ast.IfExp)
def _if_expression(w: Walker, node: ast.IfExp) -> Val:
    points: list[Point] = []
    vals: list[Val] = []
    for starts, part in zip(w.branch(node.test), (node.body, node.orelse), strict=True):
        w.join(starts)
        try:
            vals += [w.value(part)] if starts else []
        except Dead:
            w.block = None
        points += w.leave()
    return w.join_values(points, vals)


@handles(EXPRESSIONS, ast.BoolOp)
def bool_op(w: Walker, node: ast.BoolOp) -> Val:
    """`and` and `or` as values: the last one evaluated."""
    points: list[Point] = []
    vals: list[Val] = []
    for k, part in enumerate(node.values):
        try:
            val = w.expr(part)
        except Dead:
            w.block = None
            break
        if k == len(node.values) - 1:
            ends, rest = [(w.leave(), val)], []
        else:
            val, yes, no, none = by_truth(w, part, val)
            if isinstance(node.op, ast.And):
                ends, rest = [(none, NoneVal()), (no, val)], yes
            else:
                ends, rest = [(yes, val)], [*no, *none]
        for some, v in ends:
            points += some
            vals += [v] * len(some)
        w.join(rest)
        if w.block is None:
            break
    return w.join_values(points, vals)


def by_truth(w: Walker, test: ast.expr, val: Val) -> tuple[Val, list[Point], list[Point], list[Point]]:
    """Branch on the truth value of an expression, narrowed not to be None.

    Return its value where it is not None, and the points where it is true, where it is false, and where it is None.
    """
    none: list[Point] = []
    if isinstance(val, UnionVal) and any(isinstance(m, NoneT) for m in val.possible):
        some, none = narrow_to(w, test, val, lambda t: not isinstance(t, NoneT))
        w.join(some)
        val = w.narrowed(w.keep(val, lambda t: not isinstance(t, NoneT)))
        val = w.state.get(path_of(w, test) or (), val)
    with w.at_node(test):
        return val, *w.fork(truth(w, val)), none


@handles(CONDITIONS, ast.expr)
def _is_true(w: Walker, test: ast.expr) -> Fork:
    _, yes, no, none = by_truth(w, test, w.expr(test))
    return yes, no + none


@handles(CONDITIONS, ast.BoolOp)
def _one_or_all(w: Walker, test: ast.BoolOp) -> Fork:
    rest: list[Point] = [w.point()]
    done: list[Point] = []
    for value in test.values:
        w.join(rest)
        try:
            yes, no = w.branch(value) if rest else ([], [])
        except Dead:
            yes, no = [], []
        rest, leave = (yes, no) if isinstance(test.op, ast.And) else (no, yes)
        done += leave
    return (rest, done) if isinstance(test.op, ast.And) else (done, rest)


@handles(CONDITIONS, ast.UnaryOp)
def _negated(w: Walker, test: ast.UnaryOp) -> Fork:
    if not isinstance(test.op, ast.Not):
        return _is_true(w, test)
    yes, no = w.branch(test.operand)
    return no, yes


@handles(CONDITIONS, ast.Compare)
def _is_none(w: Walker, test: ast.Compare) -> Fork:
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            yes, no = narrow_to(w, left, w.expr(left), lambda t: isinstance(t, NoneT))
            return (yes, no) if isinstance(op, ast.Is) else (no, yes)
    return _is_true(w, test)


@handles(CONDITIONS, ast.Call)
def _is_instance(w: Walker, test: ast.Call) -> Fork:
    if not is_type_test(w, test):
        return _is_true(w, test)
    what, kinds = test.args
    cls = w.expr(kinds)
    with w.at_node(kinds):
        wanted = class_filter(w, cls)
    val = w.expr(what)
    w.check_poison(val)
    if w.block is not None and kind_of(w, val) is None:
        raise w.reject("ACR308", what, seen=f"isinstance of {w.describe(val)}")
    return narrow_to(w, what, val, wanted)


def is_type_test(w: Walker, node: ast.Call) -> bool:
    """Whether a call is `isinstance(x, kinds)`, by Python's own function of that name."""
    if not isinstance(node.func, ast.Name) or node.func.id != "isinstance" or len(node.args) != 2 or node.keywords:
        return False
    func = w.value(node.func)
    return isinstance(func, Static) and func.value is isinstance
