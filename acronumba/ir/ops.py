"""The operations of the IR, one row each: what NumPy and `math` calls are reduced to.

`TENSORS` are the operations of `ir.nodes.Op` and `kernels.spec.KernelOp`; `SCALARS` those of `ir.nodes.Scalar`.
`reference` is the operation's definition in NumPy or Python. Every backend has a row for every operation here; a test
proves it.

Tensor operations, with x, y, ... tensors (rank 0 included) and c host numbers:

    element-wise   neg abs sign exp log sqrt sin cos tanh sigmoid erf floor not isnan       x
                   add sub mul div floordiv mod pow maximum minimum and or xor              x, y of one dtype
                   eq ne lt le gt ge -> bool                                                x, y of one dtype
                   where                                                                    bool, x, y
                   cast                                                                     x -> dtype of the result
        Arguments broadcast as in NumPy. A run-time extent of an argument may turn out to be 1 and is then broadcast.
        An argument may be a host number: a tensor of rank 0 and dtype int64, float64 or bool (its variable says which).
    reductions     sum prod max min any all   x      attrs (axes,): sorted tuple; the axes vanish
                   argmax argmin              x      attrs (axis,); result int64; the first wins, NaN wins
    products       matmul                     x, y   NumPy's matmul, ranks 1 and up, leading axes broadcast
    addressing     reshape                    x      to the shape of the result, row-major order
                   transpose                  x      attrs (permutation,)
                   broadcast                  x      to the shape of the result
                   slice                      x      attrs (starts, steps): a tuple each, one entry per axis; start an
                                                     Extent not below 0, step an int not 0; extents from the result
                   take                       x, i   attrs (axis,); i: host int or integer tensor of any rank;
                                                     negative counts from the end; shape x[:axis] + i.shape +
                                                     x[axis+1:]; out of range fails at the op's site (site -1: the
                                                     index was checked before)
                   concat                     x...   attrs (axis,)
                   stack                      list   the elements of a run-time list (arrays of one constant shape, or
                                                     numbers) as the rows of one array; shape (length, *element)
    creation       const                      -      attrs (value,); rank 0
                   iota                       -      attrs (); rank 1: 0, 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # np.ndarray or NumPy scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOp:
    """A row of `TENSORS`."""

    name: str
    kind: str  # "element" | "reduce" | "arg" | "product" | "address" | "stack" | "create"
    arity: int  # -1: any number
    reference: Callable[..., Array]  # (arrays, attrs with ints for extents, shape, dtype) -> array


def _element(f: Callable[..., Array]) -> Callable[..., Array]:
    def reference(args: Sequence[Array], attrs: tuple[Any, ...], shape: tuple[int, ...], dtype: str) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(f(*args)).astype(dtype, copy=False)

    return reference


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


def _reduce(f: Callable[..., Array]) -> Callable[..., Array]:
    def reference(args: Sequence[Array], attrs: tuple[Any, ...], shape: tuple[int, ...], dtype: str) -> Array:
        return np.asarray(f(args[0], axis=attrs[0])).astype(dtype, copy=False)

    return reference


def _slice(args: Sequence[Array], attrs: tuple[Any, ...], shape: tuple[int, ...], dtype: str) -> Array:
    index = tuple(start + step * np.arange(n) for start, step, n in zip(*attrs, shape, strict=True))
    return args[0][np.ix_(*index)] if index else args[0]


ELEMENT: Mapping[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "floor": np.floor,
    "not": np.invert,
    "isnan": np.isnan,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "cast": lambda x: x,
}
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan"})
REDUCTIONS: Mapping[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all,
}  # fmt: skip
_ARITY = {
    "where": 3,
    **dict.fromkeys("add sub mul div floordiv mod pow maximum minimum and or xor eq ne lt le gt ge".split(), 2),
}


def _arg(f: Callable[..., Array]) -> Callable[..., Array]:
    return lambda args, attrs, shape, dtype: np.asarray(f(args[0], axis=attrs[0]), dtype)


def _table() -> dict[str, TensorOp]:
    rows = [TensorOp(name=k, kind="element", arity=_ARITY.get(k, 1), reference=_element(f)) for k, f in ELEMENT.items()]
    rows += [TensorOp(name=k, kind="reduce", arity=1, reference=_reduce(f)) for k, f in REDUCTIONS.items()]
    rows += [
        TensorOp(name="argmax", kind="arg", arity=1, reference=_arg(np.argmax)),
        TensorOp(name="argmin", kind="arg", arity=1, reference=_arg(np.argmin)),
        TensorOp(name="matmul", kind="product", arity=2, reference=lambda a, t, s, d: np.matmul(a[0], a[1])),
        TensorOp(name="reshape", kind="address", arity=1, reference=lambda a, t, s, d: np.reshape(a[0], s)),
        TensorOp(name="transpose", kind="address", arity=1, reference=lambda a, t, s, d: np.transpose(a[0], t[0])),
        TensorOp(name="broadcast", kind="address", arity=1, reference=lambda a, t, s, d: np.broadcast_to(a[0], s)),
        TensorOp(name="slice", kind="address", arity=1, reference=_slice),
        TensorOp(name="take", kind="address", arity=2, reference=lambda a, t, s, d: np.take(a[0], a[1], axis=t[0])),
        TensorOp(name="concat", kind="address", arity=-1, reference=lambda a, t, s, d: np.concatenate(a, axis=t[0])),
        TensorOp(name="stack", kind="stack", arity=1, reference=lambda a, t, s, d: np.asarray(a[0]).reshape(s)),
        TensorOp(name="const", kind="create", arity=0, reference=lambda a, t, s, d: np.asarray(t[0], d)),
        TensorOp(name="iota", kind="create", arity=0, reference=lambda a, t, s, d: np.arange(s[0], dtype=d)),
    ]  # fmt: skip
    return {row.name: row for row in rows}


TENSORS: Mapping[str, TensorOp] = _table()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarOp:
    """A row of `SCALARS`. Types: i int, f float, b bool, a either number (both arguments alike), x any word (both
    alike).
    """

    name: str
    args: str  # types of the arguments, one letter each
    result: str  # type of the result; a, x: that of the arguments
    fails: bool  # whether it needs a site: int overflow, division by zero, domain, NaN to int, negative shift
    reference: Callable[..., Any]


def _scalars() -> dict[str, ScalarOp]:
    import operator as o

    def row(name: str, args: str, result: str, fails: bool, reference: Callable[..., Any]) -> ScalarOp:
        return ScalarOp(name=name, args=args, result=result, fails=fails, reference=reference)

    rows = [
        row("add", "aa", "a", True, o.add), row("sub", "aa", "a", True, o.sub), row("mul", "aa", "a", True, o.mul),
        row("div", "ff", "f", True, o.truediv), row("floordiv", "aa", "a", True, o.floordiv),
        row("mod", "aa", "a", True, o.mod),
        row("pow", "aa", "a", True, o.pow),  # ints: the exponent is not negative (checked: fails otherwise)
        row("neg", "a", "a", True, o.neg), row("abs", "a", "a", True, abs),
        row("min", "aa", "a", False, min), row("max", "aa", "a", False, max),
        row("eq", "aa", "b", False, o.eq), row("ne", "aa", "b", False, o.ne), row("lt", "aa", "b", False, o.lt),
        row("le", "aa", "b", False, o.le), row("gt", "aa", "b", False, o.gt), row("ge", "aa", "b", False, o.ge),
        row("and", "ii", "i", False, o.and_), row("or", "ii", "i", False, o.or_), row("xor", "ii", "i", False, o.xor),
        row("invert", "i", "i", False, o.invert), row("lshift", "ii", "i", True, o.lshift),
        row("rshift", "ii", "i", True, o.rshift),
        row("not", "b", "b", False, o.not_), row("both", "bb", "b", False, lambda a, b: a and b),
        row("either", "bb", "b", False, lambda a, b: a or b), row("differ", "bb", "b", False, o.ne),
        row("select", "bxx", "x", False, lambda c, a, b: a if c else b),
        row("same", "xx", "b", False, o.is_),  # references
        row("int", "b", "i", False, int), row("float", "i", "f", False, float), row("bool", "a", "b", False, bool),
        row("trunc", "f", "i", True, int), row("round", "f", "i", True, round),
        row("floor", "f", "i", True, math.floor), row("ceil", "f", "i", True, math.ceil),
    ]  # fmt: skip
    rows += [
        row(k, "f", "f", True, getattr(math, k))
        for k in (
            "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
            "fabs"
        ).split()
    ]
    rows += [row(k, "f", "b", False, getattr(math, k)) for k in ("isnan", "isinf", "isfinite")]
    rows += [row(k, "ff", "f", True, getattr(math, k)) for k in ("atan2", "hypot", "copysign", "fmod")]
    return {r.name: r for r in rows}


SCALARS: Mapping[str, ScalarOp] = _scalars()
