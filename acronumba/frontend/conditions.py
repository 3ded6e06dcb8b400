"""Conditions: branches, truth values, and the narrowing of names by tests."""

from __future__ import annotations

import ast
import builtins
import operator
import types
from collections.abc import Callable, Iterator

from acronumba.foreign import Library
from acronumba.frontend.alternatives import split_condition
from acronumba.frontend.attributes import not_none
from acronumba.frontend.block import Fork, Point
from acronumba.frontend.calls.objects import runtime_class
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import CONDITIONS, EXPRESSIONS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.functions import OneOfFunctions, Static
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Constant, StateKey, Val
from acronumba.frontend.magic import call_special, has_method
from acronumba.frontend.names import path_of
from acronumba.frontend.walker import Walker
from acronumba.ir.types import Array0T, ArrayT, NoneT, StructT, TorchT, Type, as_array, type_text


def narrow_to(w: Walker, path: StateKey | None, val: Val, wanted: Callable[[Type], bool]) -> tuple[Fork, Val]:
    """Branch on whether the type of a value is a wanted one, and narrow the name at `path` on both sides.

    Return the points where it is and where it is not, and the value where it is.
    """
    w.check_poison(val)
    if w.block is None:
        return ([], []), val
    split = val.split(w, wanted)
    if split is None:
        here = w.leave()
        kind = kind_of(w, val)
        return ((here, []) if kind is not None and wanted(kind) else ([], here)), val
    test, *sides = split
    points: list[list[Point]] = []
    for point, side in zip(w.fork(test), sides, strict=True):
        w.enter(point)
        if point and path is not None and (path in w.state or len(path) > 2):
            w.state[path] = side.narrowed(w)
        points.append(w.leave())
    return (points[0], points[1]), sides[0]


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
        t = t if w.facts.tensors else as_array(t)
        if cls in Library.unclear:
            raise w.reject("ACR308", seen=f"a test of the class {cls.__name__} of PyTorch", rewrite="its values")
        if isinstance(t, TorchT):
            array = t.inner.seen if isinstance(t.inner, ArrayT) else t.inner
            return Library.is_instance(array.dtype, cls)
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
        rejection = w.reject("ACR301", seen=f"{what} of {w.describe(val)}", rewrite=rewrite)
        asks = operator.index if index else getattr(builtins, what.removesuffix("()"), float)
        raise impossible(w, asks, (val,), rejection)
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
        path = path_of(w, test)
        (some, none), left = narrow_to(w, path, val, lambda t: not isinstance(t, NoneT))
        w.join(some)
        val = w.state.get(path or (), left.narrowed(w))
    with w.at_node(test):
        return val, *w.fork(truth(w, val)), none


@handles(CONDITIONS, ast.expr)
def _by_value(w: Walker, test: ast.expr) -> Fork:
    return split_condition(w, test, _is_true)


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
        return _by_value(w, test)
    yes, no = w.branch(test.operand)
    return no, yes


@handles(CONDITIONS, ast.Compare)
def _by_comparison(w: Walker, test: ast.Compare) -> Fork:
    return split_condition(w, test, _is_none)  # type: ignore[arg-type]


def _is_none(w: Walker, test: ast.Compare) -> Fork:
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            path = path_of(w, left)
            named = None if path is None else w.state.get(path)
            if named is not None and named.is_iterator:  # the test does not read from it
                return ([], w.leave()) if isinstance(op, ast.Is) else (w.leave(), [])
            val = w.value(left)
            val = val if val.nests else w.whole(val)
            (yes, no), _ = narrow_to(w, path_of(w, left), val, lambda t: isinstance(t, NoneT))
            return (yes, no) if isinstance(op, ast.Is) else (no, yes)
    return _is_true(w, test)


@handles(CONDITIONS, ast.Call)
def _by_call(w: Walker, test: ast.Call) -> Fork:
    return split_condition(w, test, _is_instance)  # type: ignore[arg-type]


def _is_instance(w: Walker, test: ast.Call) -> Fork:
    if not is_type_test(w, test):
        return _is_true(w, test)
    what, kinds = test.args
    cls = w.expr(kinds)
    with w.at_node(kinds):
        wanted = class_filter(w, cls)
    val = w.value(what)
    val = val if val.nests else w.whole(val)
    w.check_poison(val)
    if isinstance(val, OneOfFunctions) and all(isinstance(v, SharedVal) for v in val.options):
        return _is_one_of(w, test, path_of(w, what), val, wanted)
    if w.block is not None and kind_of(w, val) is None:
        raise w.reject("ACR308", what, seen=f"isinstance of {w.describe(val)}")
    return narrow_to(w, path_of(w, what), val, wanted)[0]


def _is_one_of(
    w: Walker, test: ast.expr, path: StateKey | None, val: OneOfFunctions, wanted: Callable[[Type], bool]
) -> Fork:
    """Test the class of one of several modules, and narrow it to those that pass, and to those that do not."""
    good = [wanted(StructT(v.object_classes()[0])) for v in val.options]
    parts = [val.some_of(w, [g is wish for g in good]) for wish in (True, False)]
    _, yes, no, none = by_truth(w, test, val.is_one_of(w, good))
    for points, part in ((yes, parts[0]), (no, parts[1])):
        for _, state in points:
            if path is not None and part is not None:
                state[path] = part
    return yes, no + none


def is_type_test(w: Walker, node: ast.Call) -> bool:
    """Whether a call is `isinstance(x, kinds)`, by Python's own function of that name."""
    if not isinstance(node.func, ast.Name) or node.func.id != "isinstance" or len(node.args) != 2 or node.keywords:
        return False
    func = w.value(node.func)
    return isinstance(func, Static) and func.value is isinstance
