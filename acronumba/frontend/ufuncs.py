"""Conversion to arrays and element-wise functions, with NumPy's rules for dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.nested import FLAT
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.shapes import Shapes
from acronumba.frontend.tensors import PYTHON
from acronumba.ir.ops import SCALARS, TENSORS
from acronumba.ir.types import INT, Array0T

CLIP: np.ufunc = getattr(np, "_core").umath.clip  # noqa: B009 -- its rules of dtypes have no public name


# Ufuncs that users call: operations of the IR, and functions composed of these.
CALLED: dict[str, np.ufunc] = {
    **{name: row.ufunc for name, row in TENSORS.items() if row.ufunc is not None},
    "square": np.square, "reciprocal": np.reciprocal,
}  # fmt: skip
UFUNCS: dict[str, np.ufunc] = {**CALLED, "positive": np.positive, "clip": CLIP}

_SUMS = {"add", "sub", "neg", "positive"}  # their derivatives do not depend on the operands
_SMOOTH = {"mul", "pow"}  # finite for any finite second operand


class Ufuncs(Shapes):
    """Conversion to arrays, and element-wise functions."""

    def as_tensor(self, val: Val, dtype: str | None = None) -> Tensor:
        """Return `np.array(val, dtype)` of a number or an array, or of nested sequences of them."""
        if val.nests:
            raise self.w.reject("ACR303", seen=f"an array of {self.w.describe(val)}", rewrite=FLAT)
        items = val.sequence(self.w)
        if items == ():
            return self.full((0,), number(0.0), dtype or "float64")
        made = self.stack([self._item(v, dtype) for v in items], 0) if items else val.array(self.w, dtype)
        if made is None:
            raise self.w.reject("ACR301", seen=self.w.describe(val), rewrite="pass an array or a number")
        return made

    def as_operand(self, val: Val) -> Num | Tensor:
        """Return an operand of a ufunc: an array, or a Python number, which has no dtype of its own."""
        return val if isinstance(val, Num) else self.as_tensor(val)

    def _item(self, val: Val, dtype: str | None) -> Tensor:
        """Return an item of a sequence that is converted to an array, as a tensor."""
        if isinstance(val, Tensor) and dtype is not None and val.python_type != Array0T(val.type.dtype):
            self.fits_array(val.type, dtype)
        return self.as_tensor(val, dtype)

    def ufunc(self, op: str, args: Sequence[Val], mask: Tensor | None = None) -> Tensor:
        """Apply an element-wise operation that is a NumPy ufunc.

        With a `mask`, only elements where it is true are used; the others cause no failure and have no derivative.
        """
        parts = list(map(self.as_operand, args))
        if op in TENSORS and TENSORS[op].compares:
            return self._comparison(op, parts)
        ins, out = self.resolve(UFUNCS[op], parts)
        tensors = self.operands(parts, ins, out)
        if mask is not None:
            safe = self.shielded(op, tensors, parts, mask)
            if out[0] != "f":
                parts = [p if x is y else y for p, x, y in zip(parts, tensors, safe, strict=True)]
            tensors = safe
        match op:
            case "positive":
                return self.as_scalar(tensors[0])
            case "square":
                return self.element("mul", [tensors[0], tensors[0]], out)
            case "reciprocal":  # of integers: 1 / x, truncated
                wide = out if out.startswith("float") else "float64"
                one = self.from_number(number(1), wide)
                return self.cast(self.element("div", [one, self.cast(tensors[0], wide)], wide), out)
            case "clip":
                first, *bounds = tensors
                for name, bound in zip(("maximum", "minimum"), bounds, strict=True):
                    pair = [first, bound]  # of zeros of different sign the second wins: with single bounds, x
                    if all(d == 1 for t in bounds for d in t.dims):
                        pair.reverse()
                    first = self.element(name, pair, out)
                return first
            case "pow" if out.startswith("float"):
                return self._power(tensors, parts, out)
            case "pow":
                return self._whole_power(tensors, parts[1], out)
        return self.element(op, tensors, out)

    def shielded(self, op: str, tensors: Sequence[Tensor], parts: Sequence[Tensor | Num], mask: Tensor) -> list[Tensor]:
        """Return operands with elements where the mask is false replaced by a harmless number.

        Their results are not used, but their derivatives are multiplied by 0, which is NaN if they are infinite; and
        integer powers may fail. `parts` are the operands before their conversion to tensors.
        """
        smooth = TENSORS[op].smooth if op in TENSORS else 1
        floats = tensors[-1].type.dtype.startswith("float")
        if op in _SUMS or not (floats or op == "pow"):
            return list(tensors)
        out = []
        for x, given in zip(tensors, parts, strict=True):
            value = self.w.known(given) if isinstance(given, Num) else NOT_CONST
            if value is not NOT_CONST and -math.inf < value < math.inf:
                if value > 0 or (floats and op in _SMOOTH):
                    out.append(x)
                    continue
            safe = self.from_number(number(smooth), x.type.dtype)
            out.append(self.element("where", [mask, x, safe], x.type.dtype))
        return out

    def operands(self, parts: Sequence[Tensor | Num], ins: Sequence[str], out: str) -> list[Tensor]:
        """Return operands as tensors of the dtypes that a ufunc requires."""
        cast = self.promote if out == "float64" else self.cast  # a comparison gives no float64 to warn of
        return [
            cast(p, d) if isinstance(p, Tensor) else self.from_number(p, d) for p, d in zip(parts, ins, strict=True)
        ]

    def _comparison(self, op: str, parts: list[Tensor | Num]) -> Tensor:
        """Compare operands; integers are compared by value, also if no dtype holds both."""
        for k, p in enumerate(parts):
            other = parts[1 - k]
            if not isinstance(p, Num) or p.type != INT or not isinstance(other, Tensor):
                continue
            if np.dtype(other.type.dtype).kind not in "iu":
                continue
            info = np.iinfo(other.type.dtype)
            if p.const is NOT_CONST:
                if other.type.dtype != "int64":
                    parts[k] = self.from_number(p, "int64")
            elif not -(2**63) <= p.const < 2**64:  # beyond all integers of NumPy
                sides = [p.const if a is p else 0 for a in parts]
                always = self.from_number(number(SCALARS[op].reference(*sides)), "bool")
                return self.broadcast_to(always, other.dims)
            elif not info.min <= p.const <= info.max:
                parts[k] = self.from_number(p, self.natural(p))
        ins, out = self.resolve(UFUNCS[op], parts)
        x, y = self.operands(parts, ins, out)
        if sorted(ins) != ["int64", "uint64"]:
            return self.element(op, [x, y], out)
        signed = ins.index("int64")
        both = [x, y]
        zero = self.from_number(number(0), "int64")
        negative = self.element("lt", [both[signed], zero], "bool")
        sides = [-1 if k == signed else 0 for k in range(2)]
        then = self.from_number(number(SCALARS[op].reference(*sides)), "bool")
        both[signed] = self.cast(both[signed], "uint64")
        return self.element("where", [negative, then, self.element(op, both, out)], out)

    def bound_of(self, num: Num, upper: bool, limit: int) -> Num:
        """Return a bound of np.clip: a Python int beyond the limit of the dtype is that limit."""
        if num.const is not NOT_CONST:
            return number((min if upper else max)(num.const, limit))
        fits = -(2**63) <= limit < 2**63
        return self.w.scalar("min" if upper else "max", num, number(limit)) if fits else num

    def power(self, x: Tensor | Num, y: Tensor | Num) -> Tensor:
        """The operator `**`; NumPy's special cases of arrays (square root, square of bools) exclude NumPy scalars."""
        array = number(any(p.type.rank for p in (x, y) if isinstance(p, Tensor)))
        for p in (x, y):
            array = self.w.either(array, p.array0) if isinstance(p, Tensor) and p.array0 is not None else array
        if array.const is not False and isinstance(x, Tensor) and x.type.dtype == "bool" and y.type == INT:
            value = self.w.known(y) if isinstance(y, Num) and array.const is not NOT_CONST else NOT_CONST
            if value is NOT_CONST and isinstance(y, Num):  # the dtype would depend on it
                raise self.w.reject("ACR301", seen="bools raised to a run-time int",
                                  rewrite="x.astype(np.int64) ** n")  # fmt: skip
            if value == 2:
                return self.ufunc("square", (x,))
        if array.const is True:
            return self.ufunc("pow", (x, y))
        ins, out = self.resolve(np.power, [x, y])
        tensors = self.operands([x, y], ins, out)
        power = self.element("pow", tensors, out) if out[0] == "f" else self._whole_power(tensors, y, out)
        if array.const is False or not out.startswith("float"):
            return power
        root = self._power(tensors, [x, y], out)
        return self.element("where", [self.from_number(array, "bool"), root, power], out)

    def _power(self, tensors: list[Tensor], parts: list[Tensor | Num], dtype: str) -> Tensor:
        """`np.power` of floats: a single exponent of 0.5 is the square root, also for infinities and zeros."""
        x, exponent = tensors
        given = parts[1]
        if isinstance(given, Tensor) and any(d != 1 for d in given.dims):
            return self.element("pow", tensors, dtype)
        value = self.w.known(given) if isinstance(given, Num) else NOT_CONST
        if value is not NOT_CONST and value != 0.5:
            return self.element("pow", tensors, dtype)
        root = self.element("sqrt", [x], dtype)
        if value is not NOT_CONST:
            return root
        half = self.element("eq", [exponent, self.from_number(number(0.5), dtype)], "bool")
        # The derivative of the root at 0 is infinite: it is not taken where the exponent is another.
        guarded = self.element("where", [half, x, self.from_number(number(1.0), dtype)], dtype)
        root = self.element("sqrt", [guarded], dtype)
        return self.element("where", [half, root, self.element("pow", tensors, dtype)], dtype)

    def _whole_power(self, tensors: Sequence[Tensor], exponent: Tensor | Num, dtype: str) -> Tensor:
        """`np.power` of integers; the instance fails if an exponent is negative."""
        message = "Integers to negative integer powers are not allowed."
        if np.dtype(dtype).kind != "i":
            return self.element("pow", tensors, dtype)
        if isinstance(exponent, Num):
            good = self.w.scalar("ge", self.w.as_int(exponent), number(0))
            if good.const is not True:  # an empty array has no exponent to fail on
                dims = self.broadcast_dims([t.dims for t in tensors])
                good = self.w.either(good, self.w.scalar("eq", self.count(dims), number(0)))
            self.w.check(good, "ValueError", message)
            return self.element("pow", tensors, dtype)
        if self.w.catches("ValueError"):  # known only when it is computed, which the instance awaits
            whole = self.element("ge", [exponent, self.from_number(number(0), exponent.type.dtype)], "bool")
            self.w.check(self.all_true(whole, "an exponent in `try`"), "ValueError", message)
        site = self.w.failure_site("ValueError", message)
        dims = self.broadcast_dims([t.dims for t in tensors])
        return self.op("pow", [t.ref for t in tensors], dtype, dims, (), site)

    def where(self, cond: Val, a: Val, b: Val) -> Tensor:
        c = self.cast(self.as_tensor(cond), "bool")
        parts = [self.as_operand(a), self.as_operand(b)]
        kinds = [np.dtype(p.type.dtype) if isinstance(p, Tensor) else PYTHON[p.type](0) for p in parts]
        whole = [self.natural(p) if isinstance(p, Num) else p.type.dtype for p in parts]
        dtype = self.dtype_name(np.result_type(*kinds))
        x, y = (  # a Python number becomes an array first, which is then cast, without a check
            self.promote(p, dtype)
            if isinstance(p, Tensor)
            else self.cast(self.from_number(p, n if self.const_wraps(p, dtype) else dtype), dtype)
            for p, n in zip(parts, whole, strict=True)
        )
        return self.element("where", [c, x, y], dtype)

    def const_wraps(self, num: Num, dtype: str) -> bool:
        """Whether a Python int may not be a value of an integer dtype, and is then cast like an array."""
        if num.type != INT or np.dtype(dtype).kind not in "iu":
            return False
        info = np.iinfo(dtype)
        return num.const is NOT_CONST or not info.min <= num.const <= info.max
