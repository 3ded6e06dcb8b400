"""Unary and binary operators on numbers, arrays, sequences and objects with special methods."""

from __future__ import annotations

import ast
import math
import operator
import types
from collections.abc import Callable
from dataclasses import replace

from acronumba.data.source_guard import ABSENT
from acronumba.frontend.advice import operands
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.comprehensions import list_concat, list_repeat, to_list
from acronumba.frontend.conditions import host_value, truth_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import EXPRESSIONS, OPERANDS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import EnumVal, NoneVal, Num, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.torch_tensors import unfollowed
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.lists import new_list
from acronumba.frontend.magic import call_special, has_method, is_derived
from acronumba.frontend.raised import ZERO_DIVISION
from acronumba.frontend.walker import Walker
from acronumba.ir.types import BOOL, FLOAT, INT, BoolT

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip


OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
}  # fmt: skip


PYTHON: dict[type[ast.operator | ast.unaryop], Callable[..., Constant]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.MatMult: operator.matmul, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip


MAGIC = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.MatMult: "matmul",
}  # fmt: skip


def unary(w: Walker, op: ast.unaryop, val: Val) -> Val:
    """Apply `-`, `+` or `~`."""
    w.check_poison(val)

    def one(v: Val) -> Val:
        known = v.unary(w, op)
        if known is not None:
            return known
        if name is not None and has_method(w, v, name):
            return call_special(w, v, name, ())
        rejection = w.reject("ACR301", seen=f"{type(op).__name__} of {w.describe(v)}")
        raise impossible(w, PYTHON[type(op)], (v,), rejection)

    name = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}.get(type(op))
    return w.each(val, lambda v: one(as_python(w, v, (name,)) if name else v))


def binary(w: Walker, op: ast.operator, a: Val, b: Val) -> Val:
    """Apply a binary operator to two values, each of which may be a union."""
    w.check_poison(a, b)
    a, b = w.whole(a), w.whole(b)

    def one(x: Val, y: Val) -> Val:
        out = binary_one(w, op, x, y)
        if not w.following and w.block is not None:
            out = unfollowed(w, out)
        return w.made(out) if w.block is not None and isinstance(w.here, ast.expr) else out

    return w.each(a, lambda x: w.each(b, lambda y: one(x, y)))


def as_python(w: Walker, val: Val, names: tuple[str, ...]) -> Val:
    """Return a member of an `IntEnum` as an int, and a NamedTuple as a tuple, unless the class overrides `names`."""
    if isinstance(val, EnumVal) and issubclass(val.cls, int):
        kept = all(w.source_guard.attribute(val.cls, name) is vars(int).get(name, ABSENT) for name in names)
        return val.by_member(w, int) if kept else val
    cls = val.python_class if isinstance(val, SharedVal) or val.object_classes() else None
    if cls is None or not issubclass(cls, tuple):
        return val
    kept = not any(isinstance(w.source_guard.attribute(cls, name), types.FunctionType) for name in names)
    items = w.items_of(val) if kept else None
    return val if items is None else TupleVal(tuple(items))


def binary_one(w: Walker, op: ast.operator, a: Val, b: Val) -> Val:
    """Apply an operator to two values."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):  # NumPy takes an enum member as int64, not as weak
        names = (f"__{MAGIC[type(op)]}__", f"__r{MAGIC[type(op)]}__")
        a, b = as_python(w, a, names), as_python(w, b, names)
    if isinstance(op, ast.Mult):  # an integer scalar repeats a list or tuple, as an int does
        if (a.is_list or is_tuple(a)) and is_index(b):
            b = host_value(w, b, "the length of a sequence", index=True)
        elif (b.is_list or is_tuple(b)) and is_index(a):
            a = host_value(w, a, "the length of a sequence", index=True)
    known = by_kind(w, op, a, b) or _of_sequences(w, op, a, b) or operator_method(w, op, a, b)
    if known is not None:
        return known
    if any(isinstance(v, NoneVal) and v.given for v in (a, b)):
        w.fail("TypeError", "unsupported operand type(s): this value is None here")
        raise Dead
    seen = f"{w.describe(a)} {OPERATORS[type(op)]} {w.describe(b)}"
    rejection = w.reject("ACR301", seen=seen, rewrite=operands(op, a, b))
    if isinstance(op, ast.Mod) and a.family == "str":  # the format decides
        raise rejection
    raise impossible(w, PYTHON[type(op)], (a, b), rejection)


def by_kind(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Apply an operator as the kind of one of its operands does; None if neither knows it."""
    for v in (a, b):
        known = v.binary(w, op, a, b)
        if known is not None:
            return known
    return None


@handles(OPERANDS, Tensor)
def _of_arrays(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Apply an operator of NumPy; None if it does not convert one of the values to an array."""
    if not all(_is_operand(w, op, v, other) for v, other in ((a, b), (b, a))):
        return None
    if isinstance(op, ast.MatMult):
        return w.ops.matmul(w.ops.as_tensor(a), w.ops.as_tensor(b))
    x, y = w.ops.as_operand(a), w.ops.as_operand(b)
    return w.ops.power(x, y) if isinstance(op, ast.Pow) else w.ops.ufunc(BINARY[type(op)], (x, y))


def _is_operand(w: Walker, op: ast.operator, val: Val, other: Val) -> bool:
    """Whether NumPy's operator converts a value to an array: a list or tuple, too, except in `list * scalar`."""
    if isinstance(op, ast.Mult) and (val.is_list or is_tuple(val)):
        return isinstance(other, Tensor) and (other.type.rank > 0 or other.array0 is not None)
    return isinstance(val, ListVal) or val.numeric or val.sequence(w) is not None


def _of_sequences(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Concatenate two lists or tuples, or repeat one; None for other values."""
    kinds = (list, tuple)
    if isinstance(op, ast.Add) and a.python_class is b.python_class and a.python_class in kinds:
        head, tail = a.sequence(w), b.sequence(w)
        if head is not None and tail is not None:
            return new_list(w, (*head, *tail)) if a.is_list else TupleVal((*head, *tail), shown=a.shown or b.shown)
        return replace(list_concat(w, a, b), cls=a.python_class)
    for seq, times in ((a, b), (b, a)):
        if isinstance(op, ast.Mult) and isinstance(times, Num) and times.type == INT and seq.python_class in kinds:
            return _repeated(w, seq, times)
    return None


def _repeated(w: Walker, seq: Val, times: Num) -> Val:
    """Repeat a list or tuple."""
    if seq.is_list:
        return list_repeat(w, seq, times)
    items, count = seq.sequence(w), w.known(times)
    if items is not None and count is not NOT_CONST:
        return TupleVal(items * count, shown=seq.shown)
    return replace(to_list(w, list_repeat(w, seq.plain, times)), cls=tuple)


def operator_method(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Call `__add__`, `__radd__` and so on of an object; the latter first if a subclass overrides it."""
    turns = [(a, b, f"__{MAGIC[type(op)]}__"), (b, a, f"__r{MAGIC[type(op)]}__")]
    if is_derived(w, a, b, overriding=turns[1][2]):
        turns.reverse()
    for x, y, name in turns:
        if has_method(w, x, name) and (x is a or a.object_classes() != b.object_classes()):
            return call_special(w, x, name, (y,))
    return None


@handles(OPERANDS, Num)
def _of_numbers(w: Walker, op: ast.operator, a: Val, b: Val) -> Num | None:
    name = BINARY.get(type(op))
    return arithmetic(w, name, a, b) if name is not None and isinstance(a, Num) and isinstance(b, Num) else None


def arithmetic(w: Walker, op: str, a: Num, b: Num) -> Num:
    """Arithmetic on Python numbers."""
    if op in ("and", "or", "xor") and a.type == BOOL and b.type == BOOL:
        if op == "xor":
            return w.scalar("differ", w.read(a), w.read(b))
        return (w.both if op == "and" else w.either)(w.read(a), w.read(b))
    if op in ("and", "or", "xor", "lshift", "rshift"):
        if FLOAT in (a.type, b.type):
            rejection = w.reject("ACR301", seen=f"{w.describe(a)} {op} {w.describe(b)}")
            raise impossible(w, next(PYTHON[k] for k, name in BINARY.items() if name == op), (a, b), rejection)
        a, b = w.read(w.as_int(a)), w.read(w.as_int(b))
        if op in ("lshift", "rshift"):
            w.check(w.scalar("ge", b, number(0)), "ValueError", "negative shift count")
        return w.scalar(op, a, b)
    if op == "pow" and FLOAT not in (a.type, b.type):
        exponent = w.known(b)
        if exponent is not NOT_CONST and exponent < 0:
            return w.float_power(a, b, "ZeroDivisionError", "0.0 cannot be raised to a negative power")
        whole = w.scalar("ge", w.as_int(b), number(0))
        w.check(whole, "TypeError", "an int to a negative power is a float: write float(a) ** b", ours=True)
    if op == "pow" and FLOAT in (a.type, b.type):
        return w.float_power(a, b, "ZeroDivisionError", "0.0 cannot be raised to a negative power")
    if FLOAT in (a.type, b.type):
        return w.scalar(op, w.as_float(a), w.as_float(b))
    if op == "div" and is_float(a) and is_float(b):
        return w.scalar(op, w.as_float(a), w.as_float(b))
    if op == "div":
        return w.scalar("quotient", w.as_int(a), w.as_int(b))
    x, y = w.read(w.as_int(a)), w.read(w.as_int(b))
    if op == "floordiv":  # its failure site is that of overflow
        w.check(w.scalar("ne", y, number(0)), "ZeroDivisionError", ZERO_DIVISION)
    out = w.scalar(op, x, y)
    if op in ("add", "sub", "mul") and out.const is NOT_CONST and w.present(a) is not NOT_CONST is not w.present(b):
        return replace(out, given=(op, a, b))  # `out` may be one of them: `k + 0` is `k`
    return out


def is_float(num: Num) -> bool:
    """Whether a number is known to be no integer that a float rounds, and no float that such an integer becomes."""
    if num.const is NOT_CONST:
        return isinstance(num.type, BoolT)
    return not 2**53 <= abs(num.const) < math.inf


def is_index(val: Val) -> bool:
    """Whether a value is an integer scalar of NumPy, which repeats a list (an array of rank 0 does not)."""
    return (
        isinstance(val, Tensor)
        and val.array0 is None
        and not val.type.rank
        and val.type.dtype.startswith(("int", "uint"))
    )


@handles(EXPRESSIONS, ast.BinOp)
def _binary_operator(w: Walker, node: ast.BinOp) -> Val:
    a, b = w.part(node.left), w.part(node.right)
    return binary(w, node.op, a, b)


@handles(EXPRESSIONS, ast.UnaryOp)
def _unary_operator(w: Walker, node: ast.UnaryOp) -> Val:
    return truth_value(w, node) if isinstance(node.op, ast.Not) else unary(w, node.op, w.expr(node.operand))
