"""Tensor operations: NumPy's rules of dtypes and shapes, reduced to the operations of `ir.ops`.

Each method takes abstract values and emits IR. Extents that are known are checked here, when the model is compiled;
others by checks of the instance at run time. `numpy_calls` maps NumPy's names to these methods.
"""

from __future__ import annotations

import ast
import itertools
import operator
import string
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.errors import Loc
from acronumba.frontend.emitter import Emitter, Refused
from acronumba.frontend.values import (
    NOT_CONST,
    ListVal,
    Num,
    SharedVal,
    StaticList,
    Tensor,
    TupleVal,
    Val,
    number,
)  # fmt: skip
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Extent, SharedArg, Var
from acronumba.ir.types import BOOL, DTYPES, FLOAT, INT, NEVER, Array0T, BoolT, FloatT, IntT, NeverT, TensorT, host_word

Node = ast.AST | Loc | None
PYTHON = {INT: int, FLOAT: float, BOOL: bool}
HOST = {INT: "int64", FLOAT: "float64", BOOL: "bool"}
NOT_A_NUMBER = "cannot convert float NaN to integer"
INFINITE = "cannot convert float infinity to integer"
CLIP: Any = getattr(np, "_core").umath.clip  # noqa: B009 -- its rules of dtypes have no public name
COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
UFUNCS: dict[str, Any] = {
    "neg": np.negative, "abs": np.absolute, "sign": np.sign, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor, "not": np.invert, "isnan": np.isnan,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "lshift": np.left_shift, "rshift": np.right_shift,
    "square": np.square, "reciprocal": np.reciprocal, "positive": np.positive, "clip": CLIP,
}  # fmt: skip


class TensorOps(Emitter):
    """The emitter with tensor operations."""

    # ---- emission

    def op(
        self,
        op: str,
        args: Sequence[Var | SharedArg],
        dtype: str,
        dims: Sequence[Extent],
        attrs: tuple[object, ...] = (),
        node: Node = None,
        site: int = -1,
        base: Tensor | None = None,
    ) -> Tensor:
        """Emit one operation and return its result, which may be a view of `base`."""
        t = TensorT(dtype, tuple(d if isinstance(d, int) else None for d in dims))
        out = self.var("", t)
        self.lengths.update({id(d): d for d in dims if isinstance(d, Var)})
        if self.block is not None:
            self.emit(
                ir.Op(out=out, op=op, args=tuple(args), attrs=attrs, shape=tuple(dims), site=site, loc=self.at(node))
            )
        return Tensor(t, out, tuple(dims), fresh=base is None, base=base)

    def as_tensor(self, val: Val, dtype: str | None = None, node: Node = None) -> Tensor:
        """Return a value as a tensor; host numbers become rank 0, lists and tuples are stacked.

        `dtype` is what a host number is cast to (by default NumPy's own choice for it).
        """
        if isinstance(val, Num):
            return self.from_number(val, dtype or self.natural(val, node), node)
        return self.array_of(val, None, node)

    def array_of(self, val: Val, dtype: str | None, node: Node = None) -> Tensor:
        """Return what np.array makes of an array, or of nested sequences of arrays and numbers."""
        match val:
            case Tensor():
                return val if dtype is None else self.cast(val, dtype, node)
            case TupleVal() | StaticList() | SharedVal() if self.sequence(val) is not None:
                items = self.sequence(val)
                assert items is not None
                if not items:
                    return self.full((0,), number(0.0), dtype or "float64", node)
                return self.stack([self._item(v, dtype, node) for v in items], 0, node)
            case ListVal():
                return self._array_of_list(val, dtype, node)
        raise self.refuse("ACR301", node, seen=self.describe(val), rewrite="pass an array or a number")

    def _array_of_list(self, val: ListVal, dtype: str | None, node: Node) -> Tensor:
        """Return the array of a list that may be empty: that is of floats, whatever the list could hold."""
        item = val.item
        numbers = isinstance(item, IntT | FloatT | BoolT | NeverT) or (isinstance(item, TensorT) and not item.rank)
        if not (numbers and (dtype or item in (FLOAT, NEVER))):
            text = (
                "np.array of an empty list is float64[0], not what it is of others; give it a dtype, or test `if xs:`"
            )
            some = self.scalar("gt", self.list_lengths(val, node), number(0))
            self.check(some, "TypeError", text, (), node)
        return self.stack_list(val, 0, node, dtype, empty=numbers)

    def _item(self, val: Val, dtype: str | None, node: Node) -> Tensor:
        """Return an item of a sequence that becomes an array."""
        if isinstance(val, Num):
            return self.from_number(val, dtype or self.natural(val, node), node)
        if isinstance(val, Tensor) and dtype is not None and val.python_type != Array0T(val.type.dtype):
            self.fits_array(val.type, dtype, node)
        return self.array_of(val, dtype, node)

    def as_array(self, x: Tensor) -> Tensor:
        """Return a copy as an array: it is one of rank 0 where there are no axes."""
        return Tensor(x.type, x.ref, x.dims, fresh=True, array0=None if x.type.rank else number(True))

    def as_scalar(self, x: Tensor) -> Tensor:
        """Return what an operation gives that found nothing to do: of an array of rank 0 a NumPy scalar."""
        return x if x.array0 is None else Tensor(x.type, x.ref, x.dims, fresh=True)

    def fits_array(self, t: TensorT, dtype: str, node: Node = None) -> None:
        """Refuse NumPy scalars in np.array([...], dtype) that are not all values of the dtype.

        NumPy takes them for Python's numbers there, and fails where one is out of range.
        """
        if not t.rank and np.dtype(dtype).kind in "iu" and not np.can_cast(t.dtype, dtype):
            seen = f"a {t.dtype} scalar in an array of {dtype}"
            raise self.refuse("ACR202", node, seen=seen, rewrite=f"np.array([...]).astype(np.{dtype})")

    def sequence(self, val: Val) -> tuple[Val, ...] | None:
        """Return the items of a sequence whose length is known, else None."""
        match val:
            case TupleVal() | StaticList():
                return val.items
            case SharedVal(node=node) if node.kind in ("tuple", "list"):
                return self.shared_items(val)
        return None

    def from_number(self, num: Num, dtype: str, node: Node = None) -> Tensor:
        """Return a Python number as a tensor of rank 0; the instance fails where NumPy does not convert it."""
        kind = np.dtype(dtype).kind
        if num.const is not NOT_CONST:
            try:
                with np.errstate(all="ignore"):
                    np.array(num.const, dtype)
                value = {"b": bool, "f": float}.get(kind, int)(num.const)
            except (OverflowError, ValueError) as error:
                self.fail(type(error).__name__, str(error), node)
                value = 0
            return self.op("const", (), dtype, (), (value,), node)
        if num.type != BOOL and kind in "iu" and (num.type, dtype) != (INT, "int64") and self.block is not None:
            num = self.read(num)
            self._check_range(num, dtype, node)
        return self.op("cast", (self.word(num),), dtype, (), (), node)

    def _check_range(self, num: Num, dtype: str, node: Node) -> None:
        """Check that a Python int or float, without its fraction, is a value of an integer dtype."""
        info = np.iinfo(dtype)
        least, most = int(info.min), int(info.max)
        if num.type == FLOAT:
            self.check(self.negate(self.scalar("isnan", num)), "ValueError", NOT_A_NUMBER, (), node)
            self.check(self.negate(self.scalar("isinf", num)), "OverflowError", INFINITE, (), node)
            whole = float(least - 1) == least  # no float is between them
            low = self.scalar("ge" if whole else "gt", num, number(float(least if whole else least - 1)))
            high = self.scalar("lt", num, number(float(most + 1)))
        else:
            low = self.scalar("ge", num, number(max(least, -(2**63))), node=node)
            high = self.scalar("le", num, number(min(most, 2**63 - 1)), node=node)
        text = f"Python integer {{0}} out of bounds for {dtype}"
        self.check(self.both(low, high), "OverflowError", text, (num,), node)

    def scalar_constant(self, value: np.generic, node: Node = None) -> Tensor:
        """Return a NumPy scalar that is known when the model is compiled."""
        out = self.from_number(number(value.item()), self.dtype_name(value.dtype, node), node)
        out.const = value.item()
        return out

    def natural(self, num: Num, node: Node = None) -> str:
        """Return the dtype that NumPy gives an array of a Python number."""
        if num.const is not NOT_CONST:
            return self.dtype_name(np.asarray(num.const).dtype, node)
        return HOST[num.type]

    def cast(self, x: Tensor, dtype: str, node: Node = None) -> Tensor:
        if x.type.dtype == dtype:
            return x
        return self.op("cast", (x.ref,), dtype, x.dims, (), node)

    def promote(self, x: Tensor, dtype: str, node: Node = None) -> Tensor:
        """Cast an operand to the dtype that NumPy's rules, not the user, ask for."""
        if (x.type.dtype, dtype) == ("float32", "float64") and self.block is not None:
            self.widenings[self.at(node)] = None
        return self.cast(x, dtype, node)

    def dtype_name(self, dtype: Any, node: Node = None) -> str:
        known = np.dtype(dtype)
        name = str(known.name)
        if name not in DTYPES or not known.isnative:
            raise self.refuse("ACR310", node, seen=name if known.isnative else f"{known.str!r}, of other byte order")
        return name

    # ---- values that Python needs

    def host(self, x: Tensor, why: str, node: Node = None) -> Num:
        """Return the value of a tensor of rank 0 as a Python number; this may wait for it."""
        if x.const is not NOT_CONST:
            return number(x.const)
        if x.type.dtype == "uint64":
            most = self.from_number(number(2**63 - 1), "uint64", node)
            small = self.host(self.element("le", [x, most], "bool", node), why, node)
            self.check(small, "OverflowError", "int too large for 64 bits", (), node)
        word = host_word(x.type.dtype)
        out = self.var("", word)
        if self.block is not None:
            self.emit(ir.Read(out=out, tensor=self.variable(x), loc=self.at(node), why=why))
        return Num(word, var=out)

    def only_element(self, x: Tensor, empty: str, several: str, node: Node = None) -> Tensor:
        """Return the one element of an array as a tensor of rank 0.

        An array of another size is refused if that is known, else the instance fails with one of the messages.
        """
        if not x.type.rank:
            return x
        n = self.count(x.dims)
        if n.const is not NOT_CONST and n.const != 1:
            raise self.refuse("ACR601", node, seen=self.describe(x))
        if empty != several:
            self.check(self.scalar("gt", n, number(0)), "ValueError", empty, (), node)
        self.check(self.scalar("eq", n, number(1)), "ValueError", several, (), node)
        if self.block is None:
            return self.op("reshape", (x.ref,), x.type.dtype, (), (), node)
        return self.reshape(x, (), node)

    # ---- element-wise

    def resolve(self, ufunc: Any, args: Sequence[Tensor | Num], node: Node) -> tuple[list[str], str]:
        """Return the dtypes that a ufunc computes with and returns, by NumPy's own rules (Python numbers are weak)."""
        kinds = tuple(np.dtype(a.type.dtype) if isinstance(a, Tensor) else PYTHON[a.type] for a in args)
        given = tuple(k if k is not bool else np.dtype(bool) for k in kinds)
        try:
            *ins, out = ufunc.resolve_dtypes((*given, None))
        except TypeError as error:
            raise self.refuse("ACR301", node, seen=f"{ufunc.__name__}: {str(error).splitlines()[0]}") from None
        return [self.dtype_name(d, node) for d in ins], self.dtype_name(out, node)

    def ufunc(self, op: str, args: Sequence[Val], node: Node = None) -> Tensor:
        """Apply an element-wise operation that is a NumPy ufunc."""
        parts = [a if isinstance(a, Num) else self.as_tensor(a, node=node) for a in args]
        if op in COMPARISONS:
            return self._comparison(op, parts, node)
        ins, out = self.resolve(UFUNCS[op], parts, node)
        tensors = self._operands(parts, ins, out, node)
        if op == "pow":
            self._check_power(parts, ins, node)
        match op:
            case "positive":
                return self.as_scalar(tensors[0])
            case "square":
                return self.element("mul", [tensors[0], tensors[0]], out, node)
            case "reciprocal":  # of integers: 1 / x without its fraction
                wide = out if out.startswith("float") else "float64"
                one = self.from_number(number(1), wide, node)
                return self.cast(self.element("div", [one, self.cast(tensors[0], wide, node)], wide, node), out, node)
            case "clip":
                first, *bounds = tensors
                for name, bound in zip(("maximum", "minimum"), bounds, strict=True):
                    pair = [first, bound]  # of zeros of two signs the second wins: with single bounds, x
                    if all(d == 1 for t in bounds for d in t.dims):
                        pair.reverse()
                    first = self.element(name, pair, out, node)
                return first
            case "pow" if out.startswith("float"):
                return self._power(tensors, parts, out, node)
        return self.element(op, tensors, out, node)

    def _operands(self, parts: Sequence[Tensor | Num], ins: Sequence[str], out: str, node: Node) -> list[Tensor]:
        """Return operands with the dtypes that a ufunc asks for."""
        cast = self.promote if out == "float64" else self.cast  # a comparison has no float64 to warn of
        return [
            cast(p, d, node) if isinstance(p, Tensor) else self.from_number(p, d, node)
            for p, d in zip(parts, ins, strict=True)
        ]

    def _comparison(self, op: str, parts: list[Tensor | Num], node: Node) -> Tensor:
        """Compare; of integers the values, whatever their dtypes hold."""
        for k, p in enumerate(parts):
            other = parts[1 - k]
            if not isinstance(p, Num) or p.type != INT or not isinstance(other, Tensor):
                continue
            if np.dtype(other.type.dtype).kind not in "iu":
                continue
            info = np.iinfo(other.type.dtype)
            if p.const is NOT_CONST:
                if other.type.dtype != "int64":
                    parts[k] = self.from_number(p, "int64", node)
            elif not -(2**63) <= p.const < 2**64:  # beyond all integers of NumPy
                sides = [p.const if a is p else 0 for a in parts]
                always = self.from_number(number(COMPARISONS[op](*sides)), "bool", node)
                return self.broadcast_to(always, other.dims, node)
            elif not info.min <= p.const <= info.max:
                parts[k] = self.from_number(p, self.natural(p, node), node)
        ins, out = self.resolve(UFUNCS[op], parts, node)
        x, y = self._operands(parts, ins, out, node)
        if sorted(ins) != ["int64", "uint64"]:
            return self.element(op, [x, y], out, node)
        signed = ins.index("int64")
        both = [x, y]
        zero = self.from_number(number(0), "int64", node)
        negative = self.element("lt", [both[signed], zero], "bool", node)
        sides = [-1 if k == signed else 0 for k in range(2)]
        then = self.from_number(number(COMPARISONS[op](*sides)), "bool", node)
        both[signed] = self.cast(both[signed], "uint64", node)
        return self.element("where", [negative, then, self.element(op, both, out, node)], out, node)

    def bound_of(self, num: Num, upper: bool, limit: int, node: Node = None) -> Num:
        """Return a bound of np.clip: a Python int beyond the limit of the dtype is that limit."""
        if num.const is not NOT_CONST:
            return number((min if upper else max)(num.const, limit))
        fits = -(2**63) <= limit < 2**63
        return self.scalar("min" if upper else "max", num, number(limit), node=node) if fits else num

    def power(self, x: Tensor | Num, y: Tensor | Num, node: Node = None) -> Tensor:
        """The operator `**`: of NumPy's scalars it has no square roots, and no squares of bools."""
        array = number(any(p.type.rank for p in (x, y) if isinstance(p, Tensor)))
        for p in (x, y):
            array = self.either(array, p.array0) if isinstance(p, Tensor) and p.array0 is not None else array
        if array.const is not False and isinstance(x, Tensor) and x.type.dtype == "bool" and y.type == INT:
            value = self.known(y) if isinstance(y, Num) and array.const is not NOT_CONST else NOT_CONST
            if value is NOT_CONST and isinstance(y, Num):  # the dtype would depend on it
                raise self.refuse("ACR301", node, seen="bools to the power of an int that is no constant",
                                  rewrite="x.astype(np.int64) ** n")  # fmt: skip
            if value == 2:
                return self.ufunc("square", (x,), node)
        if array.const is True:
            return self.ufunc("pow", (x, y), node)
        ins, out = self.resolve(np.power, [x, y], node)
        tensors = self._operands([x, y], ins, out, node)
        self._check_power([x, y], ins, node)
        power = self.element("pow", tensors, out, node)
        if array.const is False or not out.startswith("float"):
            return power
        root = self._power(tensors, [x, y], out, node)
        return self.element("where", [self.from_number(array, "bool", node), root, power], out, node)

    def _power(self, tensors: list[Tensor], parts: list[Tensor | Num], dtype: str, node: Node) -> Tensor:
        """np.power of floats: with one exponent for all, 0.5 is the square root, of infinities and zeros too."""
        x, exponent = tensors
        if any(d != 1 for d in exponent.dims):
            return self.element("pow", tensors, dtype, node)
        given = parts[1]
        value = self.known(given) if isinstance(given, Num) else NOT_CONST
        if value is not NOT_CONST and value != 0.5:
            return self.element("pow", tensors, dtype, node)
        root = self.element("sqrt", [x], dtype, node)
        if value is not NOT_CONST:
            return root
        half = self.element("eq", [exponent, self.from_number(number(0.5), dtype, node)], "bool", node)
        return self.element("where", [half, root, self.element("pow", tensors, dtype, node)], dtype, node)

    def _check_power(self, parts: list[Tensor | Num], ins: list[str], node: Node) -> None:
        if np.dtype(ins[1]).kind != "i":
            return
        exponent = parts[1]
        message = "Integers to negative integer powers are not allowed."
        if isinstance(exponent, Num):
            self.check(self.scalar("ge", self.as_int(exponent), number(0)), "ValueError", message, (), node)
        else:
            raise self.refuse("ACR202", node, seen="an integer array to the power of an integer array",
                              rewrite="use a Python int as the exponent, or float arrays")  # fmt: skip

    def element(self, op: str, tensors: Sequence[Tensor], dtype: str, node: Node = None) -> Tensor:
        """Apply an element-wise operation to tensors that already have its dtypes."""
        dims = self.broadcast_dims([t.dims for t in tensors], node)
        return self.op(op, [t.ref for t in tensors], dtype, dims, (), node)

    def broadcast_dims(self, shapes: Sequence[Sequence[Extent]], node: Node = None) -> tuple[Extent, ...]:
        """Return the extents that shapes broadcast to, checking those that are run-time."""
        rank = max(map(len, shapes), default=0)
        out: list[Extent] = []
        for axis in range(-rank, 0):
            column = [s[axis] for s in shapes if len(s) >= -axis]
            fixed = {n for n in column if isinstance(n, int) and n != 1}
            if len(fixed) > 1:
                texts = " and ".join(_dims_text(s) for s in shapes)
                raise self.refuse("ACR401", node, seen=f"shapes {texts} do not broadcast")
            loose = list(dict.fromkeys(n for n in column if isinstance(n, Var)))
            if fixed:
                size: Extent = fixed.pop()
                for n in loose:
                    self._check_extent(n, size, True, node)
            elif loose:
                size = loose[0]
                for n in loose[1:]:
                    self._check_extent(size, n, True, node)
                    one = self.scalar("eq", self.extent(size), number(1), node=node)
                    size = self.word(self.select(one, self.extent(n), self.extent(size)))
            else:
                size = 1
            out.append(size)
        return tuple(out)

    def _check_extent(self, a: Extent, b: Extent, broadcast: bool, node: Node) -> None:
        """Check that two extents are equal (or, to broadcast, that one of them is 1)."""
        if self.block is None or a is b:
            return
        x, y = self.extent(a), self.extent(b)
        good = self.scalar("eq", x, y, node=node)
        if broadcast:
            good = self.either(good, self.scalar("eq", x, number(1), node=node))
            if not isinstance(b, int):
                good = self.either(good, self.scalar("eq", y, number(1), node=node))
        self.check(good, "ShapeMismatch", "extents {0} and {1} do not go together", (x, y), node)

    def same_extent(self, a: Extent, b: Extent, what: str, node: Node = None) -> Extent:
        """Return one extent for two that must be equal, the constant one if there is one."""
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                raise self.refuse("ACR401", node, seen=f"{what}: {a} and {b}")
            return a
        self._check_extent(a, b, False, node)
        return a if isinstance(a, int) else b

    def refine(self, x: Tensor, dims: Sequence[Extent]) -> Tensor:
        """Return the tensor with extents that a check has just proved constant."""
        if tuple(dims) == x.dims or not isinstance(x.ref, Var):
            return x
        key: Any = ("refined", x.ref, tuple(dims))
        found = self.state.get(key)
        if isinstance(found, Tensor):
            return found
        t = TensorT(x.type.dtype, tuple(d if isinstance(d, int) else None for d in dims))
        if t == x.type:
            return x
        out = self.var(x.ref.name, t)
        if self.block is not None:
            self.emit(ir.Copy(out=out, src=x.ref, loc=self.loc))
        result = Tensor(t, out, tuple(dims), aliased=True)
        self.state[key] = result
        return result

    def where(self, cond: Val, a: Val, b: Val, node: Node = None) -> Tensor:
        c = self.cast(self.as_tensor(cond, node=node), "bool", node)
        parts = [x if isinstance(x, Num) else self.as_tensor(x, node=node) for x in (a, b)]
        kinds = [np.dtype(p.type.dtype) if isinstance(p, Tensor) else PYTHON[p.type](0) for p in parts]
        whole = [self.natural(p, node) if isinstance(p, Num) else p.type.dtype for p in parts]
        dtype = self.dtype_name(np.result_type(*kinds), node)
        x, y = (  # a Python number becomes an array first, which is then cast, without a check
            self.promote(p, dtype, node)
            if isinstance(p, Tensor)
            else self.cast(self.from_number(p, n if self.const_wraps(p, dtype) else dtype, node), dtype, node)
            for p, n in zip(parts, whole, strict=True)
        )
        return self.element("where", [c, x, y], dtype, node)

    def const_wraps(self, num: Num, dtype: str) -> bool:
        """Whether a Python int may not be a value of an integer dtype, and is then cast like an array."""
        if num.type != INT or np.dtype(dtype).kind not in "iu":
            return False
        info = np.iinfo(dtype)
        return num.const is NOT_CONST or not info.min <= num.const <= info.max

    # ---- reductions

    def axes_of(self, axis: Any, rank: int, node: Node = None) -> tuple[int, ...]:
        """Return normalised axes: None is all of them."""
        if axis is None:
            return tuple(range(rank))
        axes = axis if isinstance(axis, tuple) else (axis,)
        out = []
        for a in axes:
            if not -rank <= a < rank:
                raise self.refuse("ACR402", node, seen=f"axis {a} of a tensor of rank {rank}")
            out.append(a % rank)
        if len(set(out)) != len(out):
            raise self.refuse("ACR402", node, seen=f"axis {axis} twice")
        return tuple(sorted(out))

    def reduce(
        self, op: str, x: Tensor, axis: Any, keepdims: bool, node: Node = None, dtype: str | None = None
    ) -> Tensor:
        axes = self.axes_of(axis, x.type.rank, node)
        if op in ("sum", "prod"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                native = getattr(np, op)(np.ones((1,) * x.type.rank, x.type.dtype)).dtype
            x = self.cast(x, dtype or self.dtype_name(native), node)
        elif op in ("any", "all"):
            x = self.cast(x, "bool", node)
        else:
            self._not_empty(x, axes, node)
        rest = tuple(d for a, d in enumerate(x.dims) if a not in axes)
        out = self.op(op, (x.ref,), x.type.dtype, rest, (axes,), node) if axes else x
        if keepdims:
            out = self.reshape(out, tuple(1 if a in axes else d for a, d in enumerate(x.dims)), node)
        return out

    def _not_empty(self, x: Tensor, axes: tuple[int, ...], node: Node) -> None:
        message = "zero-size array to reduction operation which has no identity"
        for a in axes:
            d = x.dims[a]
            if d == 0:
                self.fail("ValueError", message, node)
                return
            if isinstance(d, Var) and self.block is not None:
                self.check(self.scalar("gt", self.extent(d), number(0)), "ValueError", message, (), node)

    def mean(self, x: Tensor, axis: Any, keepdims: bool, node: Node = None, dtype: str | None = None) -> Tensor:
        dtype = dtype or (x.type.dtype if x.type.dtype.startswith("float") else "float64")
        wide = dtype if dtype.startswith("float") else "float64"  # integers are summed as such, and divided as floats
        total = self.cast(self.reduce("sum", self.cast(x, dtype, node), axis, keepdims, node, dtype), wide, node)
        count = self.count([x.dims[a] for a in self.axes_of(axis, x.type.rank, node)])
        mean = self.element("div", [total, self.from_number(self.read_float(count), wide, node)], wide, node)
        return self.cast(mean, dtype, node)

    def read_float(self, num: Num) -> Num:
        return self.as_float(num)

    def count(self, dims: Sequence[Extent]) -> Num:
        """Return the product of extents."""
        out = number(1)
        for d in dims:
            out = self.scalar("mul", out, self.extent(d))
        return out

    def variance(self, x: Tensor, axis: Any, keepdims: bool, ddof: Num, node: Node = None) -> Tensor:
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        x = self.cast(x, dtype, node)
        centred = self.element("sub", [x, self.mean(x, axis, True, node)], dtype, node)
        total = self.reduce("sum", self.element("mul", [centred, centred], dtype, node), axis, keepdims, node, dtype)
        count = self.as_float(self.count([x.dims[a] for a in self.axes_of(axis, x.type.rank, node)]))
        count = self.scalar("max", self.scalar("sub", count, self.as_float(ddof)), number(0.0))
        return self.element("div", [total, self.from_number(count, dtype, node)], dtype, node)

    def arg_reduce(self, op: str, x: Tensor, axis: int | None, keepdims: bool, node: Node = None) -> Tensor:
        if axis is None:
            shape = (1,) * x.type.rank
            x = self.flatten(x, node)
            axis = 0
        else:
            axis = self.axes_of(axis, x.type.rank, node)[0]
            shape = tuple(1 if a == axis else d for a, d in enumerate(x.dims))  # type: ignore[misc]
        if x.dims[axis] == 0 or isinstance(x.dims[axis], Var):
            good = self.scalar("gt", self.extent(x.dims[axis]), number(0))
            self.check(good, "ValueError", f"attempt to get {op} of an empty sequence", (), node)
        rest = tuple(d for a, d in enumerate(x.dims) if a != axis)
        out = self.op(op, (x.ref,), "int64", rest, (axis,), node)
        return self.reshape(out, shape, node) if keepdims else out

    # ---- products

    def matmul(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        if not x.type.rank or not y.type.rank:
            raise self.refuse("ACR401", node, seen=f"{self.describe(x)} @ {self.describe(y)}", rewrite="use *")
        ins, dtype = self.resolve(np.matmul, [x, y], node)
        x, y = self.promote(x, ins[0], node), self.promote(y, ins[1], node)
        inner = 0 if y.type.rank == 1 else y.type.rank - 2
        try:
            k = self.same_extent(x.dims[-1], y.dims[inner], "the inner extents of a product", node)
        except Refused:
            raise self.refuse("ACR401", node, seen=f"{self.describe(x)} @ {self.describe(y)}") from None
        x = self.refine(x, (*x.dims[:-1], k))
        y = self.refine(y, tuple(k if a == inner else d for a, d in enumerate(y.dims)))
        rows = x.dims[-2:-1] if x.type.rank > 1 else ()
        columns = y.dims[-1:] if y.type.rank > 1 else ()
        batch = self.broadcast_dims([x.dims[:-2], y.dims[:-2]], node)
        return self.op("matmul", (x.ref, y.ref), dtype, (*batch, *rows, *columns), (), node)

    def dot(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        if not x.type.rank or not y.type.rank:
            return self.ufunc("mul", (x, y), node)
        if y.type.rank > 2:
            raise self.refuse("ACR202", node, seen="np.dot with a tensor of rank 3", rewrite="use np.einsum or @")
        if x.type.rank > 2 and y.type.rank == 2:
            return self.matmul(x, y, node)
        return self.matmul(x, y, node)

    def outer(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        x, y = self.flatten(x, node), self.flatten(y, node)
        return self.ufunc("mul", (self.reshape(x, (x.dims[0], 1), node), self.reshape(y, (1, y.dims[0]), node)), node)

    def einsum(self, spec: str, tensors: list[Tensor], node: Node = None) -> Tensor:
        """Contract by an Einstein summation; operands are contracted from left to right."""
        spec = spec.replace(" ", "")
        if "." in spec:
            raise self.refuse("ACR202", node, seen=f"einsum {spec!r}", rewrite="write the axes out, without ...")
        left, arrow, out = spec.partition("->")
        terms = left.split(",")
        wrong = sorted(c for c in {*left.replace(",", ""), *out} if c not in string.ascii_letters)
        if wrong:
            seen = f"einsum {spec!r} with {', '.join(map(repr, wrong))} for an axis"
            raise self.refuse("ACR202", node, seen=seen, rewrite="name each axis by a letter")
        if not arrow:
            out = "".join(sorted(c for c in set(left) if left.count(c) == 1 and c != ","))
        if len(terms) != len(tensors) or any(len(t) != x.type.rank for t, x in zip(terms, tensors, strict=False)):
            raise self.refuse("ACR401", node, seen=f"einsum {spec!r} of {', '.join(map(self.describe, tensors))}")
        dtype = self.dtype_name(np.result_type(*(np.dtype(x.type.dtype) for x in tensors)), node)
        sizes: dict[str, Extent] = {}
        for t, x in zip(terms, tensors, strict=True):
            if len(set(t)) != len(t):
                raise self.refuse("ACR202", node, seen=f"einsum {spec!r}: an axis twice in one operand")
            for c, d in zip(t, x.dims, strict=True):
                sizes[c] = self.same_extent(sizes[c], d, f"axis {c!r} of einsum", node) if c in sizes else d
        labels, acc = terms[0], self._labelled(self.promote(tensors[0], dtype, node), terms[0], sizes)
        for k in range(1, len(tensors)):
            y = self._labelled(self.promote(tensors[k], dtype, node), terms[k], sizes)
            later = set("".join(terms[k + 1 :]) + out)
            acc, labels = self._contract(acc, labels, y, terms[k], later, sizes, node)
        gone = tuple(a for a, c in enumerate(labels) if c not in out)
        if gone:
            acc = self.reduce("sum", acc, gone, False, node, dtype)
            labels = "".join(c for c in labels if c in out)
        if set(labels) != set(out):
            raise self.refuse("ACR401", node, seen=f"einsum {spec!r}")
        return self.transpose(acc, tuple(labels.index(c) for c in out), node)

    def _labelled(self, x: Tensor, labels: str, sizes: dict[str, Extent]) -> Tensor:
        return self.refine(x, tuple(sizes[c] for c in labels))

    def _contract(
        self, x: Tensor, a: str, y: Tensor, b: str, keep: set[str], sizes: dict[str, Extent], node: Node
    ) -> tuple[Tensor, str]:
        alone = tuple(i for i, c in enumerate(a) if c not in b and c not in keep)
        if alone:
            x, a = self.reduce("sum", x, alone, False, node, x.type.dtype), "".join(c for c in a if c in b or c in keep)
        alone = tuple(i for i, c in enumerate(b) if c not in a and c not in keep)
        if alone:
            y, b = self.reduce("sum", y, alone, False, node, y.type.dtype), "".join(c for c in b if c in a or c in keep)
        batch = [c for c in a if c in b and c in keep]
        summed = [c for c in a if c in b and c not in keep]
        rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

        def grouped(t: Tensor, labels: str, groups: list[list[str]]) -> Tensor:
            t = self.transpose(t, tuple(labels.index(c) for g in groups for c in g), node)
            dims: list[Extent] = [sizes[c] for c in groups[0]]
            for g in groups[1:]:
                dims.append(self.as_extent(self.count([sizes[c] for c in g])))
            return self.reshape(t, dims, node)

        p = grouped(x, a, [batch, rows, summed])
        q = grouped(y, b, [batch, summed, columns])
        out = self.matmul(p, q, node)
        labels = "".join([*batch, *rows, *columns])
        return self.reshape(out, tuple(sizes[c] for c in labels), node), labels

    # ---- addressing

    def reshape(self, x: Tensor, dims: Sequence[Extent], node: Node = None) -> Tensor:
        """Reshape to extents whose product is known to be right."""
        if tuple(dims) == x.dims:
            return x
        return self.op("reshape", (x.ref,), x.type.dtype, dims, (), node, base=x)

    def reshape_to(self, x: Tensor, shape: Sequence[Num], node: Node = None) -> Tensor:
        """Reshape as NumPy does, with at most one negative extent, which is what is left."""
        values = [self.known(n) for n in shape]
        holes = [k for k, v in enumerate(values) if v is not NOT_CONST and v < 0]
        if len(holes) > 1:
            raise self.refuse("ACR404", node, seen=f"reshape to {tuple(values)}")
        total = self.count(x.dims)
        loose = [k for k, v in enumerate(values) if v is NOT_CONST and id(shape[k].var) not in self.lengths]
        if loose and not holes:
            shape = self._with_rest(shape, loose, total, node)
        for n, v in zip(shape, values, strict=True):
            if v is NOT_CONST:
                whole = self.scalar("ge", self.read(n), number(0))
                self.check(whole, "ValueError", "can only specify one unknown dimension", (), node)
        dims: list[Extent] = [self.as_extent(self.as_int(n)) for n in shape]
        given = self.count([d for k, d in enumerate(dims) if k not in holes])
        message = "cannot reshape an array of size {0} into shape with {1} elements"
        if holes:
            if given.const is not NOT_CONST and total.const is not NOT_CONST:
                if given.const == 0 or total.const % given.const:
                    raise self.refuse("ACR404", node, seen=f"{self.describe(x)} to {tuple(values)}")
                dims[holes[0]] = total.const // given.const
            else:
                self.check(self.scalar("gt", given, number(0)), "ValueError", message, (total, given), node)
                rest = self.scalar("mod", total, given, node=node)
                self.check(self.scalar("eq", rest, number(0)), "ValueError", message, (total, given), node)
                dims[holes[0]] = self.as_extent(self.scalar("floordiv", total, given, node=node))
        elif given.const is not NOT_CONST and total.const is not NOT_CONST:
            if given.const != total.const:
                raise self.refuse("ACR404", node, seen=f"{self.describe(x)} to {tuple(values)}")
        else:
            self.check(self.scalar("eq", total, given), "ValueError", message, (total, given), node)
        return self.reshape(x, dims, node)

    def _with_rest(self, shape: Sequence[Num], loose: Sequence[int], total: Num, node: Node) -> list[Num]:
        """Return a shape with what is left of `total` in the place of a number that is negative at run time."""
        out = [self.read(n) for n in shape]
        unknown = {k: self.scalar("lt", out[k], number(0)) for k in loose}
        given, several = number(1), number(0)
        for k, n in enumerate(out):
            given = self.scalar("mul", given, self.select(unknown[k], number(1), n) if k in unknown else n)
        for hole in unknown.values():
            several = self.scalar("add", several, self.scalar("int", hole))
        once = self.scalar("le", several, number(1))
        self.check(once, "ValueError", "can only specify one unknown dimension", (), node)
        fits = self.either(self.scalar("eq", several, number(0)), self.scalar("gt", given, number(0)))
        self.check(fits, "ValueError", "cannot reshape an array of size {0}", (total,), node)
        rest = self.scalar("floordiv", total, self.scalar("max", given, number(1)), node=node)
        return [self.select(unknown[k], rest, n) if k in unknown else n for k, n in enumerate(out)]

    def flatten(self, x: Tensor, node: Node = None) -> Tensor:
        return x if x.type.rank == 1 else self.reshape(x, (self.as_extent(self.count(x.dims)),), node)

    def transpose(self, x: Tensor, order: Sequence[int], node: Node = None) -> Tensor:
        if sorted(order) != list(range(x.type.rank)):
            raise self.refuse("ACR402", node, seen=f"axes {tuple(order)} of a tensor of rank {x.type.rank}")
        if list(order) == list(range(x.type.rank)):
            return x
        dims = tuple(x.dims[a] for a in order)
        return self.op("transpose", (x.ref,), x.type.dtype, dims, (tuple(order),), node, base=x)

    def broadcast_to(self, x: Tensor, dims: Sequence[Extent], node: Node = None) -> Tensor:
        if x.type.rank > len(dims):
            raise self.refuse("ACR401", node, seen=f"{self.describe(x)} to {_dims_text(dims)}")
        for have, want in zip(x.dims, dims[len(dims) - x.type.rank :], strict=True):
            if isinstance(have, int) and isinstance(want, int):
                if have not in (1, want):
                    raise self.refuse("ACR401", node, seen=f"{self.describe(x)} to {_dims_text(dims)}")
            elif have is not want and have != 1:
                one = self.scalar("eq", self.extent(have), number(1))
                good = self.either(one, self.scalar("eq", self.extent(have), self.extent(want)))
                self.check(
                    good,
                    "ShapeMismatch",
                    "cannot broadcast an extent {0} to {1}",
                    (self.extent(have), self.extent(want)),
                    node,
                )
        if tuple(dims) == x.dims:
            return x
        return self.op("broadcast", (x.ref,), x.type.dtype, dims, (), node, base=x)

    def slice(self, x: Tensor, parts: Sequence[tuple[Extent, int, Extent]], node: Node = None) -> Tensor:
        """Cut out of each axis the elements start + step * k, k < count."""
        if all(s == 0 and step == 1 and n == d for (s, step, n), d in zip(parts, x.dims, strict=True)):
            return x
        starts, steps = tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        dims = tuple(p[2] for p in parts)
        return self.op("slice", (x.ref,), x.type.dtype, dims, (starts, steps), node, base=x)

    def slice_part(
        self, length: Extent, start: Num | None, stop: Num | None, step: int, node: Node = None
    ) -> tuple[Extent, int, Extent]:
        """Return start, step and count of Python's slice of a sequence of some length."""
        n = self.extent(length)
        values = [None if v is None else self.known(v) for v in (start, stop)]
        if n.const is not NOT_CONST and NOT_CONST not in values:
            r = range(*slice(values[0], values[1], step).indices(n.const))
            return (r.start if len(r) else 0), step, len(r)
        low = number(0 if step > 0 else -1)
        high = n if step > 0 else self.scalar("sub", n, number(1))

        def clamp(v: Num | None, default: Num) -> Num:
            if v is None:
                return default
            v = self.as_int(v)
            value = self.known(v)
            v = number(value) if value is not NOT_CONST else self.read(v)
            if v.const is not NOT_CONST:
                shifted = self.scalar("add", v, n) if v.const < 0 else v
            else:
                below = self.scalar("min", v, number(0))  # so that the sum cannot overflow
                shifted = self.select(self.scalar("lt", v, number(0)), self.scalar("add", below, n), v)
            return self.scalar("max", low, self.scalar("min", high, shifted))

        first, last = (clamp(start, low), clamp(stop, high)) if step > 0 else (clamp(start, high), clamp(stop, low))
        gap = self.scalar("sub", last, first) if step > 0 else self.scalar("sub", first, last)
        count = self.scalar("floordiv", self.scalar("add", gap, number(abs(step) - 1)), number(abs(step)), node=node)
        count = self.scalar("max", count, number(0))
        if count.const is not NOT_CONST and count.const == 0:
            first = number(0)
        elif first.const is NOT_CONST or first.const < 0:
            first = self.select(self.scalar("eq", count, number(0)), number(0), first)
        return self.as_extent(first), step, self.as_extent(count)

    def take(self, x: Tensor, index: Num | Tensor, axis: int, node: Node = None) -> Tensor:
        """Index one axis by an int, an integer scalar or an integer array."""
        d = x.dims[axis]
        rest = (x.dims[:axis], x.dims[axis + 1 :])
        text = f"index {{0}} is out of bounds for axis {axis} with size {{1}}"
        if isinstance(index, Tensor):
            if np.dtype(index.type.dtype).kind not in "iu":
                raise self.refuse("ACR301", node, seen=f"an index of dtype {index.type.dtype}")
            size = d if isinstance(d, int) else "?"
            site = self.site("IndexError", f"an index is out of bounds for axis {axis} with size {size}", node)
            args = (self.cast(index, "int64", node).ref, self.argument(self.extent(d)))
            checked = self.op("index", args, "int64", index.dims, (), node, site)
            dims = (*rest[0], *index.dims, *rest[1])
            return self.op("take", (x.ref, checked.ref), x.type.dtype, dims, (axis,), node)
        if index.type == FLOAT:
            raise self.refuse("ACR301", node, seen=f"an index {self.describe(index)}")
        i = self.as_int(index)
        value = self.known(i)
        if value is not NOT_CONST and isinstance(d, int):
            if not -d <= value < d:
                self.fail("IndexError", f"index {value} is out of bounds for axis {axis} with size {d}", node)
                return self.op("take", (x.ref,), x.type.dtype, (*rest[0], *rest[1]), (axis,), node)
            i = number(value % d)
        else:
            i, n = self.read(i), self.extent(d)
            inside = self.both(self.scalar("ge", i, self.scalar("neg", n)), self.scalar("lt", i, n))
            self.check(inside, "IndexError", text, (i, n), node)
            if self.block is not None and not (i.const is not NOT_CONST and i.const >= 0):
                i = self.select(self.scalar("lt", i, number(0)), self.scalar("add", i, n), i)
        return self.op("take", (x.ref, self.argument(i)), x.type.dtype, (*rest[0], *rest[1]), (axis,), node, base=x)

    def signed(self, index: Tensor, node: Node = None) -> Tensor:
        """Return an index or a bound as int64; what that does not hold is beyond any axis."""
        if index.type.dtype == "uint64":
            most = self.from_number(number(2**63 - 1), "uint64", node)
            index = self.element("minimum", [index, most], "uint64", node)
        return self.cast(index, "int64", node)

    def argument(self, num: Num) -> Var:
        """Return the variable of a number that an operation reads, where the code can be reached or not."""
        return self.word(num) if self.block is not None else self.var("", num.type)

    def concat(self, tensors: list[Tensor], axis: int, node: Node = None, dtype: str | None = None) -> Tensor:
        if not tensors:
            raise self.refuse("ACR401", node, seen="no arrays to concatenate")
        rank = tensors[0].type.rank
        if any(t.type.rank != rank for t in tensors):
            raise self.refuse("ACR401", node, seen=", ".join(map(self.describe, tensors)))
        if not rank:
            raise self.refuse("ACR401", node, seen="numbers, which cannot be concatenated", rewrite="use np.stack")
        axis = self.axes_of(axis, rank, node)[0]
        cast = self.promote if dtype is None else self.cast
        dtype = dtype or self.dtype_name(np.result_type(*(np.dtype(t.type.dtype) for t in tensors)), node)
        tensors = [cast(t, dtype, node) for t in tensors]
        dims = list(tensors[0].dims)
        for t in tensors[1:]:
            for a in range(rank):
                if a != axis:
                    dims[a] = self.same_extent(dims[a], t.dims[a], "extents of concatenated arrays", node)
        total = number(0)
        for t in tensors:
            total = self.scalar("add", total, self.extent(t.dims[axis]))
        tensors = [self.refine(t, (*dims[:axis], t.dims[axis], *dims[axis + 1 :])) for t in tensors]
        dims[axis] = self.as_extent(total)
        if len(tensors) == 1:
            return tensors[0]
        return self.op("concat", [t.ref for t in tensors], dtype, dims, (axis,), node)

    def stack(self, tensors: list[Tensor], axis: int, node: Node = None) -> Tensor:
        rank = tensors[0].type.rank + 1
        axis = self.axes_of(axis, rank, node)[0]
        if any(t.type.rank != rank - 1 for t in tensors):
            raise self.refuse("ACR401", node, seen=", ".join(map(self.describe, tensors)))
        return self.concat([self.reshape(t, (*t.dims[:axis], 1, *t.dims[axis:]), node) for t in tensors], axis, node)

    def split(self, x: Tensor, sections: int | Sequence[Num], axis: int, node: Node = None) -> list[Tensor]:
        """Return the parts of a tensor along an axis: equal ones, or those between some indices."""
        axis = self.axes_of(axis, x.type.rank, node)[0]
        d = x.dims[axis]
        cuts: list[tuple[Num, Num]] = []
        if isinstance(sections, int):
            if sections <= 0:
                raise self.refuse("ACR404", node, seen=f"a split into {sections} parts")
            if isinstance(d, int):
                if d % sections:
                    raise self.refuse("ACR404", node, seen=f"an extent of {d} in {sections} equal parts")
                size = number(d // sections)
            else:
                rest = self.scalar("mod", self.extent(d), number(sections), node=node)
                message = "array split does not result in an equal division"
                self.check(self.scalar("eq", rest, number(0)), "ValueError", message, (), node)
                size = self.scalar("floordiv", self.extent(d), number(sections), node=node)
            cuts = [(self.scalar("mul", size, number(k)), size) for k in range(sections)]
            parts = [(self.as_extent(a), 1, self.as_extent(n)) for a, n in cuts]
        else:
            bounds: list[Num | None] = [None, *sections, None]
            parts = [self.slice_part(d, a, b, 1, node) for a, b in itertools.pairwise(bounds)]
        whole: list[tuple[Extent, int, Extent]] = [(0, 1, n) for n in x.dims]
        return [self.slice(x, [*whole[:axis], p, *whole[axis + 1 :]], node) for p in parts]

    # ---- creation

    def full(self, dims: Sequence[Extent], value: Num | Tensor, dtype: str | None, node: Node = None) -> Tensor:
        if isinstance(value, Num):  # a float becomes an array first, which is then cast, without a check
            dtype = dtype or self.natural(value, node)
            first = "int64" if dtype == "bool" and value.type == INT else dtype
            first = "float64" if value.type == FLOAT and dtype != "float32" else first
            scalar = self.cast(self.from_number(value, first, node), dtype, node)
        else:
            scalar = self.cast(value, dtype or value.type.dtype, node)
        self.not_negative(dims, node)
        return self.as_array(self.broadcast_to(scalar, dims, node))

    def not_negative(self, dims: Sequence[Extent], node: Node = None) -> None:
        """Check extents that the user computed."""
        message = "negative dimensions are not allowed"
        for d in dims:
            if isinstance(d, Var):
                self.check(self.scalar("ge", self.extent(d), number(0)), "ValueError", message, (), node)
            elif d < 0:
                raise self.refuse("ACR401", node, seen=f"an extent of {d}")

    def iota(self, n: Extent, dtype: str, node: Node = None) -> Tensor:
        return self.op("iota", (), dtype, (n,), (), node)

    def arange(self, start: Num, stop: Num, step: Num, dtype: str | None, node: Node = None) -> Tensor:
        if dtype == "bool":
            raise self.refuse("ACR202", node, seen="np.arange of bools")
        if FLOAT in (start.type, stop.type, step.type):
            values = [self.known(v) for v in (start, stop, step)]
            if NOT_CONST in values:
                raise self.refuse("ACR403", node, seen="np.arange of floats that are known only at run time")
            array = np.arange(*values, dtype=dtype)
            name = self.dtype_name(array.dtype)
            parts = [self.from_number(number(v.item()), name, node) for v in array]
            return self.stack(parts, 0, node) if parts else self.full((0,), number(0), name, node)
        start, stop, step = (self.as_int(self.read(v)) for v in (start, stop, step))
        message = "Maximum allowed size exceeded"
        self.check(self.scalar("ne", step, number(0)), "ZeroDivisionError", message, (), node)
        gap = self.scalar("sub", stop, start, node=node)
        count = self.scalar("neg", self.scalar("floordiv", self.scalar("neg", gap), step, node=node), node=node)
        count = self.scalar("max", count, number(0))
        out = self.iota(self.as_extent(count), dtype or "int64", node)
        if step.const != 1:
            out = self.element("mul", [out, self.from_number(step, out.type.dtype, node)], out.type.dtype, node)
        if start.const != 0:
            out = self.element("add", [out, self.from_number(start, out.type.dtype, node)], out.type.dtype, node)
        return out

    def eye(self, rows: Extent, columns: Extent, k: int, dtype: str, node: Node = None) -> Tensor:
        self.not_negative((rows, columns), node)
        i = self.reshape(self.iota(rows, "int64", node), (rows, 1), node)
        j = self.reshape(self.iota(columns, "int64", node), (1, columns), node)
        if k:
            i = self.element("add", [i, self.from_number(number(k), "int64", node)], "int64", node)
        return self.cast(self.element("eq", [i, j], "bool", node), dtype, node)

    def stack_list(
        self, val: ListVal, axis: int, node: Node = None, dtype: str | None = None, empty: bool = False
    ) -> Tensor:
        """Stack a list whose length is known only at run time; `empty`: of numbers it may be empty."""
        val = self.uniform(val, node)
        item = val.item
        if item == NEVER and empty:
            return self.full((0,), number(0), dtype or "float64", node)
        n = self.list_lengths(val, node)
        if not (empty and (isinstance(item, IntT | FloatT | BoolT) or (isinstance(item, TensorT) and not item.rank))):
            self.some_arrays(val, "stack", node)
        if isinstance(item, IntT | FloatT | BoolT):
            item = TensorT(HOST[item], ())
        if not isinstance(item, TensorT):
            raise self.refuse("ACR301", node, seen=f"a stack of {self.describe(val)}")
        dims = (self.as_extent(n), *(d for d in item.shape if d is not None))
        # The operation runs later: it reads a copy, which nothing changes.
        copy = self.var("rows", val.var.type)
        args = (val.var, self.word(number(0)), self.word(number(1)), self.word(n))
        self.emit(ir.ListOp(outs=(copy,), op="slice", width=self.width(val), args=args, loc=self.at(node)))
        out = self.op("stack", (copy,), item.dtype, dims, (), node)
        if dtype is not None:
            out = self.cast(out, dtype, node)
        if axis != 0:
            axis = self.axes_of(axis, out.type.rank, node)[0]
            order = list(range(1, out.type.rank))
            order.insert(axis, 0)
            out = self.transpose(out, order, node)
        return out

    def some_arrays(self, val: ListVal, what: str, node: Node) -> None:
        """Check that a list has elements; what follows cannot be reached where it stays empty."""
        some = self.scalar("gt", self.list_lengths(val, node), number(0))
        self.check(some, "ValueError", f"need at least one array to {what}", (), node)
        if val.item == NEVER:
            raise self.never(node)

    def uniform(self, val: ListVal, node: Node) -> ListVal:
        """Return the list with elements of one type; the walker can convert them."""
        return val

    def concat_list(self, val: ListVal, axis: int, node: Node = None) -> Tensor:
        """Concatenate a list whose length is known only at run time, of arrays of one shape."""
        stacked = self.stack_list(val, 0, node)
        rank = stacked.type.rank - 1
        if not rank:
            raise self.refuse("ACR401", node, seen=self.describe(val), rewrite="use np.stack")
        axis = self.axes_of(axis, rank, node)[0]
        order = list(range(1, rank + 1))
        order.insert(axis, 0)
        moved = self.transpose(stacked, order, node)
        joined = self.as_extent(self.count([moved.dims[axis], moved.dims[axis + 1]]))
        return self.reshape(moved, (*moved.dims[:axis], joined, *moved.dims[axis + 2 :]), node)

    def list_lengths(self, val: ListVal, node: Node = None) -> Num:
        out = self.var("length", INT)
        if self.block is not None:
            self.emit(ir.ListOp(outs=(out,), op="len", width=self.width(val), args=(val.var,), loc=self.at(node)))
        return Num(INT, var=out)

    def width(self, val: ListVal) -> int:
        from acronumba.ir.types import words

        return len(words(val.item))


def _dims_text(dims: Sequence[Extent]) -> str:
    return "(" + ", ".join(str(d) if isinstance(d, int) else "?" for d in dims) + ("," if len(dims) == 1 else "") + ")"
