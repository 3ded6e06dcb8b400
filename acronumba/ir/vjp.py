"""The derivative of each operation: from the adjoint of its result to the adjoints of its arguments.

In: an operation (`Applied`) with the adjoint of its result, and a `Builder`. Out: the adjoint of each requested
argument, made of operations of `ir.ops` by the builder, which the other stages can print, interpret and compile.
`RULES` has a rule for each row of `TENSORS` that has a derivative, `NONE` the reason why each other row has none.

The adjoint of a value is the derivative of the loss by each of its elements. At a kink of an operation, the rule gives
a one-sided derivative, or a mean: `maximum` and `minimum` half to each of two equal arguments, `max` and `min` equal
shares to all largest (smallest) elements, `abs` 0 at 0, `arctan2` 0 if both arguments are 0.

Builders: `Eager` computes at once with NumPy (`ir.tape`); `analysis.backward` writes a kernel.

Source: A. Griewank, A. Walther, "Evaluating Derivatives", SIAM 2008, chapter 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from acronumba.ir.evaluate import apply
from acronumba.ir.ops import TENSORS, Attrs
from acronumba.ir.spec import Dim, Size
from acronumba.ir.traced import own_adjoints
from acronumba.records import record

Value: TypeAlias = Any  # a builder's form of a tensor: an array, the number of a value of a kernel
Sizes: TypeAlias = "tuple[Size, ...]"


@record(kw_only=True)
class Applied:
    """An operation with its result and the adjoint of the result."""

    op: str
    args: tuple[Value, ...]
    attrs: Attrs  # ints, run-time extents (`Dim`), ("value", k) for a number that is an operand
    result: Value
    adjoint: Value
    wanted: Collection[int]  # positions of arguments whose adjoints are requested


class Builder(ABC):
    """Makes operations. Extents are ints, or `Dim` if they are known at run time only."""

    broad: Sizes = ()  # shape that operands of an element-wise operation broadcast to, if extents do not tell

    @abstractmethod
    def op(self, name: str, args: Sequence[Value], shape: Sizes, dtype: str, attrs: Attrs = ()) -> Value:
        """Return the result of an operation."""

    @abstractmethod
    def shape(self, x: Value) -> Sizes:
        """Return the shape of a value."""

    @abstractmethod
    def dtype(self, x: Value) -> str:
        """Return the dtype of a value."""

    def number_of(self, attr: object) -> Value:
        """Return a static argument, or an extent, as a tensor int64 of rank 0."""
        if isinstance(attr, Dim):  # as many ones
            return self.op("sum", [self.full(1, (attr,), "int64")], (), "int64", ((0,),))
        return self.const(attr, "int64")

    # ---- creation

    def const(self, value: object, dtype: str) -> Value:
        return self.op("const", (), (), dtype, (value,))

    def full(self, value: object, shape: Sizes, dtype: str) -> Value:
        return self.broadcast(self.const(value, dtype), shape)

    def iota(self, n: Size) -> Value:
        return self.op("iota", (), (n,), "int64")

    # ---- element-wise

    def element(self, name: str, *args: Value, dtype: str = "") -> Value:
        """Return an element-wise operation on tensors, or numbers of their dtype, which broadcast."""
        like = next(x for x in args if type(x) is not float)
        values = [self.const(x, self.dtype(like)) if type(x) is float else x for x in args]
        dtype = dtype or ("bool" if TENSORS[name].gives == "bool" else self.dtype(values[-1]))
        return self.op(name, values, self.broadcast_shape(values), dtype)

    def broadcast_shape(self, values: Sequence[Value]) -> Sizes:
        shapes = [self.shape(x) for x in values]
        out: list[Size] = []
        for k in range(-max(map(len, shapes)), 0):
            wide = {s[k] for s in shapes if len(s) >= -k and s[k] != 1}
            known: set[Size] = {n for n in wide if isinstance(n, int)}
            if len(wide) > 1:  # some may turn out to be 1: the current operation has the result's extent
                wide = known or {self.broad[k]}
            out += wide or {1}
        return tuple(out)

    def neg(self, x: Value) -> Value:
        return self.element("neg", x)

    def add(self, x: Value, y: Value) -> Value:
        return self.element("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.element("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.element("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.element("div", x, y)

    def where(self, cond: Value, x: Value, y: Value) -> Value:
        like = self.dtype(y if type(x) is float else x)
        values = [self.const(v, like) if type(v) is float else v for v in (x, y)]
        return self.op("where", [cond, *values], self.broadcast_shape([cond, *values]), like)

    def cast(self, x: Value, dtype: str) -> Value:
        return x if self.dtype(x) == dtype else self.op("cast", [x], self.shape(x), dtype)

    # ---- shapes

    def reshape(self, x: Value, shape: Sizes) -> Value:
        return x if self.shape(x) == shape else self.op("reshape", [x], shape, self.dtype(x))

    def broadcast(self, x: Value, shape: Sizes) -> Value:
        return x if self.shape(x) == shape else self.op("broadcast", [x], shape, self.dtype(x))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        if list(order) == list(range(len(order))):
            return x
        return self.op("transpose", [x], tuple(self.shape(x)[k] for k in order), self.dtype(x), (tuple(order),))

    def swap(self, x: Value) -> Value:
        """Return the array with its last two axes exchanged."""
        rank = len(self.shape(x))
        return self.transpose(x, (*range(rank - 2), rank - 1, rank - 2))

    def take(self, x: Value, index: Value, axis: int) -> Value:
        shape = self.shape(x)
        wide = (*shape[:axis], *self.shape(index), *shape[axis + 1 :])
        return self.op("take", [x, index], wide, self.dtype(x), (axis,))

    def scatter(self, x: Value, index: Value, axis: int, n: Size) -> Value:
        """Return rows added where `take` has read them: of an axis of extent `n`."""
        shape = self.shape(x)
        whole = (*shape[:axis], n, *shape[axis + len(self.shape(index)) :])
        return self.op("scatter", [x, index], whole, self.dtype(x), (axis,))

    def cut(self, x: Value, axis: int, start: int, behind: Sequence[Dim], n: Size) -> Value:
        """Return `n` elements of an axis from `start` on, and as many more as the extents `behind` say."""
        shape = self.shape(x)
        if behind:
            places = self.element("add", self.iota(n), self.const(start, "int64"))
            for dim in behind:
                places = self.element("add", places, self.number_of(dim))
            return self.take(x, places, axis)
        starts = tuple(start if k == axis else 0 for k in range(len(shape)))
        part = (*shape[:axis], n, *shape[axis + 1 :])
        return x if part == shape else self.op("slice", [x], part, self.dtype(x), (starts, (1,) * len(shape)))

    def flip(self, x: Value, axis: int) -> Value:
        """Return an axis in reverse order."""
        n = self.shape(x)[axis]
        if n in (0, 1):
            return x
        if isinstance(n, int):
            starts = tuple(n - 1 if k == axis else 0 for k in range(len(self.shape(x))))
            steps = tuple(-1 if k == axis else 1 for k in range(len(self.shape(x))))
            return self.op("slice", [x], self.shape(x), self.dtype(x), (starts, steps))
        last = self.element("sub", self.number_of(n), self.const(1, "int64"))
        return self.take(x, self.element("sub", last, self.iota(n)), axis)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        shapes = [self.shape(x) for x in parts]
        total = sum(s[axis] for s in shapes)  # type: ignore[misc]
        whole = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
        return parts[0] if len(parts) == 1 else self.op("concat", parts, whole, self.dtype(parts[0]), (axis,))

    # ---- sums and products

    def total(self, x: Value, axes: tuple[int, ...]) -> Value:
        shape = tuple(n for k, n in enumerate(self.shape(x)) if k not in axes)
        return self.op("sum", [x], shape, self.dtype(x), (axes,)) if axes else x

    def scan(self, x: Value, axis: int, name: str = "cumsum") -> Value:
        return self.op(name, [x], self.shape(x), self.dtype(x), (axis,))

    def fold(self, g: Value, shape: Sizes) -> Value:
        """Return the sums of `g` over the axes that were broadcast from `shape`: the adjoint of broadcasting."""
        have = self.shape(g)
        if have == shape:
            return g
        skip = len(have) - len(shape)
        other = [(n, m) for n, m in zip(shape, have[skip:], strict=True) if n != m]
        if any(isinstance(n, Dim) for n, _ in other):
            return self.op("fold", [g], shape, self.dtype(g))
        axes = (*range(skip), *(k for k, n in enumerate(shape, skip) if n == 1 != have[k]))
        return self.reshape(self.total(g, axes), shape)

    def matmul(self, x: Value, y: Value) -> Value:
        """Return a product of matrices or vectors; if their leading axes differ, the product has the operation's."""
        sx, sy = self.shape(x), self.shape(y)
        lead_x, lead_y = sx[:-2], sy[:-2]
        lead = lead_x if lead_x == lead_y or not lead_y else lead_y if not lead_x else self.broad[:-2]
        tail = (*sx[-2:-1], *(sy[-1:] if len(sy) > 1 else ()))
        return self.op("matmul", [x, y], (*lead, *tail), self.dtype(x))


class Eager(Builder):
    """Computes immediately; a value is an array."""

    def op(self, name: str, args: Sequence[Value], shape: Sizes, dtype: str, attrs: Attrs = ()) -> Value:
        return apply(name, args, attrs, shape, dtype)  # type: ignore[arg-type]

    def shape(self, x: Value) -> Sizes:
        return tuple(np.shape(x))

    def dtype(self, x: Value) -> str:
        return str(x.dtype.name)


def adjoints(b: Builder, one: Applied) -> dict[int, Value]:
    """Return a map from positions of requested arguments to their adjoints, without adjoints that are always 0.

    An adjoint has the shape and dtype of its argument; for a list, of its elements stacked.
    """
    row = TENSORS[one.op]
    b.broad = b.shape(one.result)
    found: dict[int, Value] = {}
    for k, g in RULES[one.op](b, one).items():
        if k in one.wanted:
            a = one.args[k]
            g = b.fold(g, b.shape(a)) if row.kind == "element" or one.op == "broadcast" else g
            found[k] = b.cast(b.reshape(g, b.shape(a)), b.dtype(a))  # of equal extents each may have its own
    return found


Rule: TypeAlias = Callable[[Builder, Applied], dict[int, Value]]
Unary: TypeAlias = Callable[[Builder, Value, Value, Value], Value]  # (builder, argument, result, adjoint) -> adjoint


def _unary(f: Unary) -> Rule:
    return lambda b, o: {0: f(b, o.args[0], o.result, o.adjoint)}


def _apart(*parts: Callable[[Builder, Applied], Value]) -> Rule:
    """Return a rule with one function per argument, of which only those of requested adjoints are called."""
    return lambda b, o: {k: part(b, o) for k, part in enumerate(parts) if k in o.wanted}


def _one_minus_square(b: Builder, x: Value) -> Value:
    return b.mul(b.element("sub", 1.0, x), b.element("add", 1.0, x))


def _one_plus_square(b: Builder, x: Value) -> Value:
    return b.element("add", b.mul(x, x), 1.0)


def _bell(b: Builder, x: Value) -> Value:
    return b.element("mul", b.element("exp", b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))


def _power(b: Builder, o: Applied) -> dict[int, Value]:
    (x, p), g = o.args, o.adjoint
    out = {}
    if 0 in o.wanted:  # 0 to the power of -1, times an exponent of 0, would be NaN
        less = b.where(b.element("eq", p, 0.0), 1.0, b.element("sub", p, 1.0))
        out[0] = b.mul(g, b.mul(p, b.element("pow", x, less)))
    if 1 in o.wanted:
        positive = b.element("gt", x, 0.0)
        out[1] = b.mul(g, b.where(positive, b.mul(o.result, b.element("log", b.where(positive, x, 1.0))), 0.0))
    return out


def _larger(strict: str) -> Rule:
    def rule(b: Builder, o: Applied) -> dict[int, Value]:
        g, out = o.adjoint, {}
        for k in o.wanted:
            mine, other = o.args[k], o.args[1 - k]
            even = b.where(b.element("eq", mine, other), b.element("mul", g, 0.5), 0.0)
            out[k] = b.where(b.element(strict, mine, other), g, even)
        return out

    return rule


def _by_square(b: Builder, o: Applied, of: Value) -> Value:
    """The angle of nothing at all, where both are 0, has the derivative 0."""
    y, x = o.args
    part = b.mul(o.adjoint, of)
    return b.where(b.element("eq", of, 0.0), part, b.div(part, b.add(b.mul(x, x), b.mul(y, y))))


def _kept(b: Builder, o: Applied) -> Sizes:
    """Return the shape of the argument of a reduction with 1 for the axes that vanish."""
    (axes,) = o.attrs
    return tuple(1 if k in axes else n for k, n in enumerate(b.shape(o.args[0])))


def _sum(b: Builder, o: Applied) -> dict[int, Value]:
    return {0: b.broadcast(b.reshape(o.adjoint, _kept(b, o)), b.shape(o.args[0]))}


def _prod(b: Builder, o: Applied) -> dict[int, Value]:
    """The product of all others: exact where none, one or more elements are 0."""
    (axes,), x = o.attrs, o.args[0]
    kept, dtype = _kept(b, o), b.dtype(x)
    nil = b.element("eq", x, 0.0)
    safe = b.where(nil, 1.0, x)
    many = b.reshape(b.total(b.cast(nil, dtype), axes), kept)
    rest = b.reshape(b.op("prod", [safe], b.shape(o.result), dtype, (axes,)), kept)
    alone = b.element("and", nil, b.element("eq", many, 1.0), dtype="bool")
    others = b.where(b.element("eq", many, 0.0), b.div(rest, safe), b.where(alone, rest, 0.0))
    return {0: b.mul(b.reshape(b.cast(o.adjoint, dtype), kept), others)}


def _extreme(b: Builder, o: Applied) -> dict[int, Value]:
    (axes,), x = o.attrs, o.args[0]
    kept, dtype = _kept(b, o), b.dtype(x)
    best = b.cast(b.element("eq", x, b.reshape(o.result, kept)), dtype)
    many = b.reshape(b.total(best, axes), kept)
    return {0: b.mul(best, b.div(b.reshape(o.adjoint, kept), many))}


def _from_here(b: Builder, g: Value, axis: int) -> Value:
    """Return the sums of each element and all later ones: a reversed cumsum."""
    return b.flip(b.scan(b.flip(g, axis), axis), axis)


def _cumprod(b: Builder, o: Applied) -> dict[int, Value]:
    """Rule of `cumprod`: division up to the first 0; at the first 0, products without it; 0 behind it."""
    (axis,), (x,), g = o.attrs, o.args, o.adjoint
    nil = b.element("eq", x, 0.0)
    many = b.scan(b.cast(nil, b.dtype(x)), axis)
    first = b.element("and", nil, b.element("eq", many, 1.0), dtype="bool")
    without = b.scan(b.where(first, 1.0, x), axis, "cumprod")
    before = b.div(_from_here(b, b.mul(g, o.result), axis), b.where(nil, 1.0, x))
    there = b.where(first, _from_here(b, b.mul(g, without), axis), 0.0)
    return {0: b.where(b.element("eq", many, 0.0), before, there)}


def _record(b: Builder, o: Applied) -> dict[int, Value]:
    """Each adjoint goes to the element that was the largest (smallest) so far: the last of equal ones."""
    (axis,), (x,), g = o.attrs, o.args, o.adjoint
    shape = b.shape(x)
    n, behind = shape[axis], (1,) * (len(shape) - axis - 1)
    places = b.reshape(b.iota(n), (n, *behind))
    own = b.element("or", b.element("eq", x, o.result), b.element("isnan", x), dtype="bool")
    holder = b.scan(b.where(own, places, b.const(0, "int64")), axis, "cummax")
    column = (*shape[:axis], 1, n, *shape[axis + 1 :])
    hit = b.element("eq", b.reshape(holder, column), b.reshape(places, (n, 1, *behind)))
    return {0: b.total(b.where(hit, b.reshape(g, column), 0.0), (axis + 1,))}


def _matmul(b: Builder, o: Applied) -> dict[int, Value]:
    (x, y), g, out = o.args, o.adjoint, {}
    sx, sy = b.shape(x), b.shape(y)
    if len(sx) == len(sy) == 1:
        return {k: b.mul(g, o.args[1 - k]) for k in o.wanted}
    if max(len(sx), len(sy)) == 2 and 1 in (len(sx), len(sy)):  # a matrix and a vector
        m = int(len(sx) == 1)
        matrix, vector = o.args[m], o.args[1 - m]
        if m in o.wanted:
            rows, columns = (g, vector) if m == 0 else (vector, g)
            column, row = (*b.shape(rows), 1), (1, *b.shape(columns))
            out[m] = b.mul(b.reshape(rows, column), b.reshape(columns, row))
        if 1 - m in o.wanted:
            out[1 - m] = b.matmul(b.swap(matrix), g) if m == 0 else b.matmul(matrix, g)
        return out
    whole = (
        *b.broad[: len(b.broad) - (len(sx) > 1) - (len(sy) > 1)],
        *(sx[-2:-1] or (1,)),
        sy[-1] if len(sy) > 1 else 1,
    )
    left, right = b.reshape(x, sx if len(sx) > 1 else (1, *sx)), b.reshape(y, sy if len(sy) > 1 else (*sy, 1))
    g, b.broad = b.reshape(g, whole), whole
    if 0 in o.wanted:
        out[0] = b.reshape(b.fold(b.matmul(g, b.swap(right)), b.shape(left)), sx)
    if 1 in o.wanted:
        rows = _flat(whole[:-1])
        if rows is not None and len(b.shape(right)) == 2 and b.shape(left)[:-1] == whole[:-1]:
            left, g = b.reshape(left, (rows, sx[-1])), b.reshape(g, (rows, whole[-1]))
        out[1] = b.reshape(b.fold(b.matmul(b.swap(left), g), b.shape(right)), sy)
    return out


def _flat(shape: Sizes) -> Size | None:
    """Return the number of elements if it is an int or a single run-time extent, else None."""
    dims, known = [n for n in shape if isinstance(n, Dim)], math.prod(n for n in shape if isinstance(n, int))
    if not dims:
        return known
    return dims[0] if len(dims) == known == 1 else None


def _slice(b: Builder, o: Applied) -> dict[int, Value]:
    """Rule of `slice`: padding with zeros if its extents are host numbers, else a scatter."""
    (starts, steps), g, shape = o.attrs, o.adjoint, b.shape(o.args[0])
    for axis, (start, step, n, m) in enumerate(zip(starts, steps, b.shape(o.result), shape, strict=True)):
        if n == m and start == 0 and step == 1:
            continue
        here = b.shape(g)
        if step == 1 and all(isinstance(size, int) for size in (start, n, m)):
            before, behind = (start, m - start - n) if n else (m, 0)
            zeros = [
                b.full(0.0, (*here[:axis], k, *here[axis + 1 :]), b.dtype(g)) if k else None for k in (before, behind)
            ]
            parts = [x for x in (zeros[0], g if n else None, zeros[1]) if x is not None]
            g = b.concat(parts, axis) if parts else g
            continue
        places = b.element("mul", b.iota(n), b.const(step, "int64"))
        g = b.scatter(g, b.element("add", places, b.number_of(start)), axis, m)
    return {0: g}


def _take(b: Builder, o: Applied) -> dict[int, Value]:
    (axis,), (x, index), g = o.attrs, o.args, o.adjoint
    shape = b.shape(x)
    if b.shape(index):
        return {0: b.scatter(g, index, axis, shape[axis])}
    places = b.reshape(b.iota(shape[axis]), (shape[axis], *(1 for _ in shape[axis + 1 :])))
    here = b.element("eq", places, b.cast(index, "int64"))
    row = b.reshape(g, (*shape[:axis], 1, *shape[axis + 1 :]))
    return {0: b.where(here, row, 0.0)}


def _windows(b: Builder, o: Applied) -> dict[int, Value]:
    """Rule of `windows`: each element gets the adjoints of all windows that it is in."""
    (axis,), shape = o.attrs, b.shape(o.result)
    many, size = shape[axis], shape[axis + 1]
    places = b.element("add", b.reshape(b.iota(many), (many, 1)), b.reshape(b.iota(size), (1, size)))
    return {0: b.scatter(o.adjoint, places, axis, b.shape(o.args[0])[axis])}


def _concat(b: Builder, o: Applied) -> dict[int, Value]:
    (axis,), out, start = o.attrs, {}, 0
    behind: list[Dim] = []
    for k, a in enumerate(o.args):
        n = b.shape(a)[axis]
        if k in o.wanted:
            out[k] = b.cut(o.adjoint, axis, start, behind, n)
        if isinstance(n, Dim):
            behind.append(n)
        else:
            start += n
    return out


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(k) for k in range(len(order)))


def _scaled(b: Builder, o: Applied) -> dict[int, Value]:
    factor = o.attrs[0]
    return {0: b.element("mul", o.adjoint, factor)} if factor else {}


RULES: Mapping[str, Rule] = {
    "neg": _unary(lambda b, x, y, g: b.neg(g)),
    "abs": _unary(lambda b, x, y, g: b.mul(g, b.element("sign", x))),
    "exp": _unary(lambda b, x, y, g: b.mul(g, y)),
    "expm1": _unary(lambda b, x, y, g: b.mul(g, b.element("add", y, 1.0))),
    "log": _unary(lambda b, x, y, g: b.div(g, x)),
    "log1p": _unary(lambda b, x, y, g: b.div(g, b.element("add", x, 1.0))),
    "log2": _unary(lambda b, x, y, g: b.div(b.element("mul", g, 1 / math.log(2)), x)),
    "log10": _unary(lambda b, x, y, g: b.div(b.element("mul", g, 1 / math.log(10)), x)),
    "sqrt": _unary(lambda b, x, y, g: b.div(b.element("mul", g, 0.5), y)),
    "sin": _unary(lambda b, x, y, g: b.mul(g, b.element("cos", x))),
    "cos": _unary(lambda b, x, y, g: b.neg(b.mul(g, b.element("sin", x)))),
    "tan": _unary(lambda b, x, y, g: b.mul(g, _one_plus_square(b, y))),
    "arcsin": _unary(lambda b, x, y, g: b.div(g, b.element("sqrt", _one_minus_square(b, x)))),
    "arccos": _unary(lambda b, x, y, g: b.neg(b.div(g, b.element("sqrt", _one_minus_square(b, x))))),
    "arctan": _unary(lambda b, x, y, g: b.div(g, _one_plus_square(b, x))),
    "sinh": _unary(lambda b, x, y, g: b.mul(g, b.element("cosh", x))),
    "cosh": _unary(lambda b, x, y, g: b.mul(g, b.element("sinh", x))),
    "tanh": _unary(lambda b, x, y, g: b.mul(g, b.element("sub", 1.0, b.mul(y, y)))),
    "arcsinh": _unary(lambda b, x, y, g: b.div(g, b.element("sqrt", _one_plus_square(b, x)))),
    "arccosh": _unary(
        lambda b, x, y, g: b.div(
            g, b.mul(b.element("sqrt", b.element("sub", x, 1.0)), b.element("sqrt", b.element("add", x, 1.0)))
        )
    ),
    "arctanh": _unary(lambda b, x, y, g: b.div(g, _one_minus_square(b, x))),
    "sigmoid": _unary(lambda b, x, y, g: b.mul(g, b.mul(y, b.element("sub", 1.0, y)))),
    "erf": _unary(lambda b, x, y, g: b.mul(g, _bell(b, x))),
    "erfc": _unary(lambda b, x, y, g: b.neg(b.mul(g, _bell(b, x)))),
    "add": _apart(lambda b, o: o.adjoint, lambda b, o: o.adjoint),
    "sub": _apart(lambda b, o: o.adjoint, lambda b, o: b.neg(o.adjoint)),
    "mul": _apart(lambda b, o: b.mul(o.adjoint, o.args[1]), lambda b, o: b.mul(o.adjoint, o.args[0])),
    "div": _apart(
        lambda b, o: b.div(o.adjoint, o.args[1]), lambda b, o: b.neg(b.div(b.mul(o.adjoint, o.result), o.args[1]))
    ),
    "mod": _apart(
        lambda b, o: o.adjoint, lambda b, o: b.neg(b.mul(o.adjoint, b.element("floordiv", *o.args)))
    ),
    "pow": _power,
    "arctan2": _apart(lambda b, o: _by_square(b, o, o.args[1]), lambda b, o: b.neg(_by_square(b, o, o.args[0]))),
    "copysign": _apart(
        lambda b, o: b.mul(o.adjoint, b.mul(b.element("sign", o.args[0]), b.element("copysign", 1.0, o.args[1])))
    ),
    "maximum": _larger("gt"),
    "minimum": _larger("lt"),
    "where": _apart(
        lambda b, o: None,
        lambda b, o: b.where(o.args[0], o.adjoint, 0.0),
        lambda b, o: b.where(o.args[0], 0.0, o.adjoint),
    ),
    "cast": _apart(lambda b, o: o.adjoint),
    "sum": _sum,
    "prod": _prod,
    "max": _extreme,
    "min": _extreme,
    "cumsum": _apart(lambda b, o: _from_here(b, o.adjoint, o.attrs[0])),
    "cumprod": _cumprod,
    "cummax": _record,
    "cummin": _record,
    "matmul": _matmul,
    "reshape": _apart(lambda b, o: b.reshape(o.adjoint, b.shape(o.args[0]))),
    "transpose": _apart(lambda b, o: b.transpose(o.adjoint, _inverse(o.attrs[0]))),
    "broadcast": _apart(lambda b, o: o.adjoint),
    "slice": _slice,
    "take": _take,
    "windows": _windows,
    "concat": _concat,
    "stack": _apart(lambda b, o: o.adjoint),
    "scale_gradient": _scaled,
    "fold": _apart(lambda b, o: b.broadcast(o.adjoint, b.shape(o.args[0]))),
    "scatter": _apart(lambda b, o: b.take(o.adjoint, o.args[1], o.attrs[0])),
    "own": own_adjoints,
}  # fmt: skip

_STEPS = "its result is piecewise constant"
_PLACES = "its result is an index"
_BITS = "it has integer or bool values"
_MADE = "it has no argument"

NONE: Mapping[str, str] = {
    "sign": _STEPS, "floor": _STEPS, "floordiv": _STEPS, "isnan": _STEPS,
    "eq": _STEPS, "ne": _STEPS, "lt": _STEPS, "le": _STEPS, "gt": _STEPS, "ge": _STEPS,
    "any": _STEPS, "all": _STEPS, "argmax": _PLACES, "argmin": _PLACES, "argsort": _PLACES, "searchsorted": _PLACES,
    "index": _PLACES,
    "not": _BITS, "and": _BITS, "or": _BITS, "xor": _BITS, "lshift": _BITS, "rshift": _BITS, "threefry": _BITS,
    "const": _MADE, "iota": _MADE,
}  # fmt: skip


def differentiable(op: str, place: int, attrs: Attrs) -> bool:
    """Whether the result of an operation has a derivative, other than 0, by the argument at position `place`."""
    if op == "scale_gradient":
        return bool(attrs[0])
    first = {"copysign", "take", "scatter"}
    return op in RULES and not (op == "where" and not place) and not (op in first and place)
