"""Element-wise functions and operators: arithmetic, comparisons, logic, functions of `math`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from acronumba import foreign, nn
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.torch_tensors import TorchTensor, as_torch
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.decorators import primitive
from acronumba.frontend.torch_math import array_in, array_of, promoted_dtype
from acronumba.frontend.walker import Walker
from acronumba.ir.types import INT
from acronumba.torch.asking import checked
from acronumba.torch.implements import implements, is_tensor, promoted


def named(name: str) -> list[Any]:
    """Return the function of `torch`, its method of tensors, and its like in `torch.nn.functional` and `special`."""
    places = (torch, torch.Tensor, F, torch.special)
    return list(dict.fromkeys(getattr(p, name) for p in places if hasattr(p, name)))


def apply(w: Walker, what: str, function: Any, numpy: Any, operands: Sequence[Val], compares: bool = False) -> Val:
    """Compute an element-wise function in the dtype that PyTorch returns, or to which it promotes what it compares."""
    said = checked(w, what, function, operands, {})
    assert said is not None
    inner = [array_in(w, v) for v in operands]
    dtype = promoted_dtype(inner) if compares else said.dtypes[0]
    if not dtype:
        raise w.reject("ACR310", seen=f"the result of {what}")
    if numpy in PLAIN and isinstance(operands[1], Num) and w.known(operands[1]) not in (NOT_CONST, 0):
        numpy = PLAIN[numpy]
    if numpy is power:
        numpy, operands = _power_by(w, operands, dtype)
    parts = [_number(w, v, dtype) if isinstance(v, Num) else w.ops.cast(array_of(w, v), dtype) for v in operands]
    out = w.call(w.constant(numpy), parts, {})
    w.check_poison(out)
    assert isinstance(out, Tensor)
    return as_torch(w.ops.cast(w.ops.as_scalar(out), said.dtypes[0]))


def _power_by(w: Walker, operands: Sequence[Val], dtype: str) -> tuple[Any, Sequence[Val]]:
    """Return the function of a power: a root for the number 0.5, as PyTorch has it."""
    exponent = operands[1]
    if not isinstance(exponent, Num):
        return power_of_tensor, operands
    return (np.sqrt, operands[:1]) if dtype[0] == "f" and w.known(exponent) == 0.5 else (power, operands)


def _number(w: Walker, num: Num, dtype: str) -> Tensor:
    """Return a number as an array of a dtype; an int that the dtype does not hold wraps."""
    whole = dtype[0] in "iu" and num.type == INT
    return w.ops.cast(w.ops.from_number(num, "int64"), dtype) if whole else w.ops.from_number(num, dtype)


def of_elements(signature: Callable[..., Any], numpy: Any, functions: Sequence[Any], compares: bool = False) -> None:
    """Add the rows of functions of PyTorch that are one function of NumPy, element by element."""

    def add(function: Any) -> None:
        def handler(w: Walker, a: Args) -> Val:
            if "out" in a.given:
                raise w.reject("ACR202", a.where["out"], seen=f"out= of {a.what}", rewrite="leave it out")
            operands = [_operand(w, a, v) for name, v in a.values.items() if name not in ("out", "inplace")]
            return apply(w, a.what, function, numpy, operands, compares)

        names = " ".join(signature.__code__.co_varnames)
        row(names, function, rank0="any", signature=signature, aliases={"x": "input", "self": "input"})(handler)

    for function in functions:
        add(function)


def _operand(w: Walker, a: Args, val: Val) -> Val:
    if isinstance(val, Num | TorchTensor):
        return val
    raise w.reject("ACR301", seen=f"{w.describe(val)} for {a.what}", rewrite="torch.tensor(x), or float(x)")


def unary(input, *, out=None): ...


def binary(input, other, *, out=None): ...


def power_of(input, exponent, *, out=None): ...


def flat(function):
    """Return a function of NumPy as PyTorch has it: by floats its derivative is 0, so what leads to them is reached."""
    return lambda x: np.where(True, function(x), x) if x.dtype.kind == "f" else function(x)


nearest = flat(np.rint)


# ---- one function of NumPy each


UNARY = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "arcsin": np.arcsin, "acos": np.arccos, "arccos": np.arccos, "atan": np.arctan, "arctan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "arcsinh": np.arcsinh,
    "acosh": np.arccosh, "arccosh": np.arccosh, "atanh": np.arctanh, "arctanh": np.arctanh, "erf": nn.erf,
    "sigmoid": nn.sigmoid, "expit": nn.sigmoid, "reciprocal": np.reciprocal, "neg": np.negative,
    "negative": np.negative, "abs": np.abs, "absolute": np.abs, "square": np.square,
    "floor": flat(np.floor), "ceil": flat(np.ceil), "trunc": flat(np.trunc), "fix": flat(np.trunc),
    "bitwise_not": np.invert, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "sinc": np.sinc,
}  # fmt: skip
TESTS = {
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "signbit": np.signbit, "logical_not": np.logical_not,
}  # fmt: skip
BINARY = {
    "mul": np.multiply, "multiply": np.multiply, "true_divide": np.true_divide, "maximum": np.maximum,
    "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "atan2": np.arctan2, "arctan2": np.arctan2,
    "hypot": np.hypot, "copysign": lambda x, y: np.where(True, np.copysign(x, y), y), "logaddexp": np.logaddexp,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}  # fmt: skip
COMPARED = {
    "eq": np.equal, "ne": np.not_equal, "not_equal": np.not_equal, "lt": np.less, "less": np.less,
    "le": np.less_equal, "less_equal": np.less_equal, "gt": np.greater, "greater": np.greater,
    "ge": np.greater_equal, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


def sign(x):
    """Return -1, 0 or 1; 0 of NaN."""
    if x.dtype == np.bool_:
        return x.copy()
    return np.where(np.isnan(x), x.dtype.type(0), np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def heaviside(x, y):
    """Return 0, y or 1 where x is negative, zero or positive; 0 of NaN."""
    return np.where(x == 0, y, np.where(x > 0, x.dtype.type(1), x.dtype.type(0)))


def rsqrt(x):
    """Return the reciprocal square root."""
    return 1 / np.sqrt(x)


def dividing(function):
    """Return a function of a dividend and a divisor that fails where ints are divided by 0."""

    def divided(x, y):
        if x.dtype.kind != "f" and np.any(y == 0):
            raise RuntimeError("ZeroDivisionError")
        return function(x, y)

    return divided


def fmod_of_number(x, y):
    """Return the remainder by a divisor that is not 0, with the sign of x; its derivatives are 1 and a quotient."""
    if x.dtype.kind != "f":
        return np.fmod(x, y)
    nothing = np.where(np.isinf(y), x.dtype.type(0), y - nn.stop_gradient(y)) * nn.stop_gradient(np.trunc(x / y))
    return nn.stop_gradient(np.fmod(x, y)) + (x - nn.stop_gradient(x)) - nothing


floor_divide, remainder, fmod = map(dividing, (np.floor_divide, np.remainder, fmod_of_number))


def _power_rule(w: Walker, a: Args) -> Val:
    x, y = a.tensor("x"), a.tensor("y")
    known = x.type.dtype[0] == "f"
    return w.ops.element("pow", [x, y], x.type.dtype) if known else w.ops.ufunc("pow", [x, y])


@primitive(rule=_power_rule)
def power(x, y):
    """Return x to the power of y, of the same dtype."""
    raise NotImplementedError(x, y)


def exp2(x):
    """Return 2 to the power of x."""
    return power(x.dtype.type(2), x)


def power_of_tensor(x, y):
    """Return x to the power of y, of the same dtype; of ints and negative powers, the quotient rounded toward 0."""
    if x.dtype.kind != "i":
        return power(x, y)
    even = np.where((y & 1) == 0, x.dtype.type(1), x.dtype.type(-1))
    inverse = np.where(x == 1, x, np.where(x == -1, even, x.dtype.type(0)))
    return np.where(y < 0, inverse, power(x, np.maximum(y, x.dtype.type(0))))


# What is computed where no divisor is 0.
PLAIN = {floor_divide: np.floor_divide, remainder: np.remainder, fmod: fmod_of_number}

for _names, _signature, _compares in ((UNARY, unary, False), (TESTS, unary, True), (BINARY, binary, False),
                                      (COMPARED, binary, True)):  # fmt: skip
    for _name, _numpy in _names.items():
        of_elements(_signature, _numpy, named(_name), _compares)
of_elements(unary, np.abs, [torch.Tensor.__abs__])
of_elements(unary, exp2, named("exp2"))
of_elements(unary, flat(sign), [*named("sign"), *named("sgn")])
of_elements(binary, heaviside, named("heaviside"))
of_elements(unary, rsqrt, named("rsqrt"))
of_elements(binary, floor_divide, named("floor_divide"))
of_elements(binary, remainder, named("remainder"))
of_elements(binary, fmod, named("fmod"))
of_elements(power_of, power, named("pow"))


# ---- operators


_BINARY: dict[type[ast.AST], tuple[str, Any, Any]] = {
    ast.Add: ("+", operator.add, np.add), ast.Sub: ("-", operator.sub, np.subtract),
    ast.Mult: ("*", operator.mul, np.multiply), ast.Div: ("/", operator.truediv, np.true_divide),
    ast.FloorDiv: ("//", operator.floordiv, floor_divide), ast.Mod: ("%", operator.mod, remainder),
    ast.Pow: ("**", operator.pow, power), ast.BitAnd: ("&", operator.and_, np.bitwise_and),
    ast.BitOr: ("|", operator.or_, np.bitwise_or), ast.BitXor: ("^", operator.xor, np.bitwise_xor),
    ast.LShift: ("<<", operator.lshift, np.left_shift), ast.RShift: (">>", operator.rshift, np.right_shift),
    ast.USub: ("-", operator.neg, np.negative), ast.UAdd: ("+", operator.pos, np.positive),
    ast.Invert: ("~", operator.invert, np.invert),
}  # fmt: skip
_COMPARED: dict[type[ast.AST], tuple[str, Any, Any]] = {
    ast.Eq: ("==", operator.eq, np.equal), ast.NotEq: ("!=", operator.ne, np.not_equal),
    ast.Lt: ("<", operator.lt, np.less), ast.LtE: ("<=", operator.le, np.less_equal),
    ast.Gt: (">", operator.gt, np.greater), ast.GtE: (">=", operator.ge, np.greater_equal),
}  # fmt: skip


def operate(w: Walker, op: type[ast.AST], operands: Sequence[Val]) -> Val:
    """Apply an operator of Python to tensors and numbers."""
    if op is ast.MatMult:
        checked(w, "@", operator.matmul, operands, {})
        x, y = (array_of(w, v) for v in operands)
        return as_torch(w.ops.matmul(x, y))
    what, function, numpy = (_BINARY | _COMPARED)[op]
    if op is ast.UAdd:
        checked(w, what, function, operands, {})
        return operands[0]
    return apply(w, what, function, numpy, operands, op in _COMPARED)


foreign.Library.operate = operate


@implements(torch.positive, torch.Tensor.positive, asks=True, views=True)
def positive(input):
    return input


# ---- sums with a factor, quotients


@implements(*named("add"), asks=True)
def add(input, other, *, alpha=1, out=None):
    x, y = promoted(input, other)
    return x + y if isinstance(alpha, int) and alpha == 1 else x + y * x.dtype.type(alpha)


@implements(*named("sub"), *named("subtract"), asks=True)
def sub(input, other, *, alpha=1, out=None):
    x, y = promoted(input, other)
    return x - y if isinstance(alpha, int) and alpha == 1 else x - y * x.dtype.type(alpha)


@implements(torch.rsub, asks=True)
def rsub(input, other, *, alpha=1):
    x, y = promoted(input, other)
    return y - x if isinstance(alpha, int) and alpha == 1 else y - x * x.dtype.type(alpha)


@implements(*named("div"), *named("divide"), asks=True)
def div(input, other, *, rounding_mode=None, out=None):
    if rounding_mode is None:
        x, y = promoted(input, other, floats=True)
        return x / y
    x, y = promoted(input, other)
    if x.dtype.kind == "f":
        return np.where(True, np.floor_divide(x, y) if rounding_mode == "floor" else np.trunc(x / y), x + y)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    quotient = floor_divide(x, y)
    return quotient + ((np.remainder(x, y) != 0) & ((x < 0) != (y < 0)))


@implements(*named("frac"), asks=True)
def frac(input, *, out=None):
    return input - np.trunc(input)


@implements(*named("round"), asks=True)
def rounded(input, *, decimals=0, out=None):
    if decimals == 0:
        return nearest(input) if input.dtype.kind == "f" else input.copy()
    scale = input.dtype.type(10.0**decimals)
    return nearest(input * scale) / scale


@implements(*named("float_power"), asks=True)
def float_power(input, exponent, *, out=None):
    x = input.astype(np.float64) if is_tensor(input) else input
    y = exponent.astype(np.float64) if is_tensor(exponent) else exponent
    return power(np.asarray(x, np.float64), np.asarray(y, np.float64))


@implements(*named("erfc"), asks=True)
def erfc(input, *, out=None):
    (x,) = promoted(input, floats=True)
    return 1 - nn.erf(x)


@implements(*named("logit"), asks=True)
def logit(input, eps=None, *, out=None):
    (x,) = promoted(input, floats=True)
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


# ---- choices


@implements(*named("clamp"), *named("clip"), asks=True)
def clamp(input, min=None, max=None, *, out=None):
    if min is None:
        x, high = promoted(input, max)
        return np.where(x <= high, x, np.where(np.isnan(x), x, high))
    if max is None:
        x, low = promoted(input, min)
        return np.where(x >= low, x, np.where(np.isnan(x), x, low))
    x, low, high = promoted(input, min, max)
    x = np.where(x >= low, x, np.where(np.isnan(x), x, low))
    return np.where(x <= high, x, np.where(np.isnan(x), x, high))


@implements(*named("clamp_min"), asks=True)
def clamp_min(input, min):
    return clamp(input, min)


@implements(*named("clamp_max"), asks=True)
def clamp_max(input, max):
    return clamp(input, None, max)


@implements(*named("lerp"), asks=True)
def lerp(input, end, weight, *, out=None):
    if isinstance(weight, float | int):
        return input + weight * (end - input) if weight < 0.5 else end - (end - input) * (1 - weight)
    return np.where(weight < 0.5, input + weight * (end - input), end - (end - input) * (1 - weight))


@implements(*named("addcmul"), asks=True)
def addcmul(input, tensor1, tensor2, *, value=1, out=None):
    x, y, z = promoted(input, tensor1, tensor2)
    return x + y * z if isinstance(value, int) and value == 1 else x + x.dtype.type(value) * y * z


@implements(*named("addcdiv"), asks=True)
def addcdiv(input, tensor1, tensor2, *, value=1, out=None):
    x, y, z = promoted(input, tensor1, tensor2)
    return x + y / z if isinstance(value, int) and value == 1 else x + x.dtype.type(value) * (y / z)


@implements(*named("nan_to_num"), asks=True)
def nan_to_num(input, nan=None, posinf=None, neginf=None, *, out=None):
    return np.nan_to_num(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


# ---- comparisons of whole tensors


@implements(torch.equal, torch.Tensor.equal, asks=True)
def equal(input, other):
    if input.ndim != other.ndim or input.shape != other.shape:
        return False
    return bool(np.all(input == other))


@implements(torch.isclose, torch.Tensor.isclose, asks=True)
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return np.isclose(input, other, rtol, atol, equal_nan)


@implements(torch.allclose, torch.Tensor.allclose, asks=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(np.all(np.isclose(input, other, rtol, atol, equal_nan)))
