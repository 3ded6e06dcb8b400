"""Operations on tensors: emission, dtypes, element-wise application, host values.

Constant extents are checked here, at compile time; others by checks of the instance at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.errors import Loc
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST
from acronumba.frontend.merge import Merge
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, DTYPES, FLOAT, INT, TensorT, host_word

Node = ast.AST | Loc | None


PYTHON = {INT: int, FLOAT: float, BOOL: bool}
HOST = {INT: "int64", FLOAT: "float64", BOOL: "bool"}
NOT_A_NUMBER = "cannot convert float NaN to integer"
INFINITE = "cannot convert float infinity to integer"


class TensorOps:
    """Operations on tensors; `w` emits them."""

    def __init__(self, w: Merge) -> None:
        self.w = w

    # ---- emission

    def op(
        self, op: str, args: Sequence[ir.Var | ir.SharedArg], dtype: str, dims: Sequence[ir.Extent],
        attrs: tuple[object, ...] = (), site: int = -1, base: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Emit one operation and return its result, which may be a view of `base`."""
        t = TensorT(dtype, tuple(d if isinstance(d, int) else None for d in dims))
        out = self.w.var("", t)
        if self.w.block is not None:
            self.w.emit(
                ir.Op(out=out, op=op, args=tuple(args), attrs=attrs, shape=tuple(dims), site=site, loc=self.w.loc)
            )
            self.w.naturals.tested(dims)
        return Tensor(t, out, tuple(dims), fresh=base is None, base=base)

    def from_number(self, num: Num, dtype: str) -> Tensor:
        """Return a Python number as a tensor of rank 0; the instance fails where NumPy does not convert it."""
        kind = np.dtype(dtype).kind
        if num.const is not NOT_CONST:
            try:
                with np.errstate(all="ignore"):
                    np.array(num.const, dtype)
                value = {"b": bool, "f": float}.get(kind, int)(num.const)
            except (OverflowError, ValueError) as error:
                self.w.fail(type(error).__name__, str(error))
                value = 0
            return self.op("const", (), dtype, (), (value,))
        if num.type != BOOL and kind in "iu" and (num.type, dtype) != (INT, "int64") and self.w.block is not None:
            num = self.w.read(num)
            self._check_range(num, dtype)
        out = self.op("cast", (self.w.word(num),), dtype, ())
        out.known = num if num.type == INT and dtype == "int64" else None
        return out

    def _check_range(self, num: Num, dtype: str) -> None:
        """Check that a Python int, or a truncated float, is a value of an integer dtype."""
        info = np.iinfo(dtype)
        least, most = int(info.min), int(info.max)
        if num.type == FLOAT:
            self.w.check(self.w.negate(self.w.scalar("isnan", num)), "ValueError", NOT_A_NUMBER)
            self.w.check(self.w.negate(self.w.scalar("isinf", num)), "OverflowError", INFINITE)
            whole = float(least - 1) == least  # no float is between them
            low = self.w.scalar("ge" if whole else "gt", num, number(float(least if whole else least - 1)))
            high = self.w.scalar("lt", num, number(float(most + 1)))
        else:
            low = self.w.scalar("ge", num, number(max(least, -(2**63))))
            high = self.w.scalar("le", num, number(min(most, 2**63 - 1)))
        text = f"Python integer {{0}} out of bounds for {dtype}"
        self.w.check(self.w.both(low, high), "OverflowError", text, (num,))

    def scalar_constant(self, value: np.generic) -> Tensor:
        """Return a compile-time constant that is a NumPy scalar."""
        out = self.from_number(number(value.item()), self.dtype_name(value.dtype))
        out.const = value.item()
        return out

    def natural(self, num: Num) -> str:
        """Return the dtype that NumPy gives an array of a Python number."""
        if num.const is not NOT_CONST:
            return self.dtype_name(np.asarray(num.const).dtype)
        return HOST[num.type]

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        if x.type.dtype == dtype:
            return x
        return self.op("cast", (x.ref,), dtype, x.dims)

    def promote(self, x: Tensor, dtype: str) -> Tensor:
        """Cast an operand by NumPy's promotion rules; note where float32 becomes float64."""
        if (x.type.dtype, dtype) == ("float32", "float64") and self.w.block is not None:
            self.w.widenings[self.w.loc] = None
        return self.cast(x, dtype)

    def dtype_name(self, dtype: np.typing.DTypeLike) -> str:
        known = np.dtype(dtype)
        name = str(known.name)
        if name not in DTYPES or not known.isnative:
            raise self.w.reject("ACR310", seen=name if known.isnative else f"{known.str!r}, of other byte order")
        return name

    def as_array(self, x: Tensor) -> Tensor:
        """Return a copy as an array: of rank 0, not a NumPy scalar, if it has no axes."""
        array0 = None if x.type.rank else number(True)
        return Tensor(x.type, x.ref, x.dims, fresh=True, array0=array0, known=x.known)

    def as_scalar(self, x: Tensor) -> Tensor:
        """Return the result of an operation that leaves the elements as they are: of a rank-0 array, a NumPy scalar."""
        return x if x.array0 is None else Tensor(x.type, x.ref, x.dims, fresh=True)

    def fits_array(self, t: TensorT, dtype: str) -> None:
        """Reject NumPy scalars in np.array([...], dtype) whose dtype has values that `dtype` cannot represent.

        NumPy treats them as Python numbers there, and raises if one is out of range.
        """
        if not t.rank and np.dtype(dtype).kind in "iu" and not np.can_cast(t.dtype, dtype):
            seen = f"a {t.dtype} scalar in an array of {dtype}"
            raise self.w.reject("ACR202", seen=seen, rewrite=f"np.array([...]).astype(np.{dtype})")

    # ---- element-wise

    def resolve(self, ufunc: np.ufunc, args: Sequence[Tensor | Num]) -> tuple[list[str], str]:
        """Return the dtypes that a ufunc computes with and returns, by NumPy's own rules (Python numbers are weak)."""
        kinds = tuple(np.dtype(a.type.dtype) if isinstance(a, Tensor) else PYTHON[a.type] for a in args)
        given = tuple(k if k is not bool else np.dtype(bool) for k in kinds)
        try:
            found = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))
        except TypeError as error:
            rejection = self.w.reject("ACR301", seen=f"{ufunc.__name__}: {str(error).splitlines()[0]}")
            raise impossible(self.w, ufunc, args, rejection) from None
        ins, out = list(found[: ufunc.nin]), found[ufunc.nin]
        if out != np.float16:  # float32 represents all float16 values, and gives the same answers
            ins = [np.dtype(np.float32) if d == np.float16 else d for d in ins]
        return [self.dtype_name(d) for d in ins], self.dtype_name(out)

    def element(self, op: str, tensors: Sequence[Tensor], dtype: str) -> Tensor:
        """Apply an element-wise operation to tensors that already have its dtypes."""
        dims = self.broadcast_dims([t.dims for t in tensors])
        if any(t.turned is not None for t in tensors):
            turned = [self._turned(t) for t in tensors]
            if None not in turned:  # in the layout of the product: the transposes may never be needed
                refs = [t.ref for t in turned if t is not None]
                out = self.op(op, refs, dtype, tuple(reversed(dims)))
                whole = self.op("transpose", (out.ref,), dtype, dims, ((1, 0),))
                whole.turned = out
                return whole
        return self.op(op, [t.ref for t in tensors], dtype, dims)

    def _turned(self, x: Tensor) -> Tensor | None:
        """Return the transpose of an operand, as a matrix, if it exists already or costs nothing; else None."""
        if x.turned is not None or not x.type.rank:
            return x if x.turned is None else x.turned
        if x.type.rank == 1:
            return self.op("reshape", (x.ref,), x.type.dtype, (x.dims[0], 1), (), base=x)
        if 1 in x.dims:
            return self.op("reshape", (x.ref,), x.type.dtype, tuple(reversed(x.dims)), (), base=x)
        return None

    def broadcast_dims(self, shapes: Sequence[Sequence[ir.Extent]]) -> tuple[ir.Extent, ...]:
        """Return the extents to which shapes broadcast; run-time extents are checked."""
        rank = max(map(len, shapes), default=0)
        out: list[ir.Extent] = []
        for axis in range(-rank, 0):
            column = [s[axis] for s in shapes if len(s) >= -axis]
            fixed = {n for n in column if isinstance(n, int) and n != 1}
            if len(fixed) > 1:
                texts = " and ".join(dims_text(s) for s in shapes)
                raise self.mismatch(
                    f"shapes {texts} do not broadcast",
                    "in each pair of dimensions, from the last: equal, or one of them 1",
                )
            loose = list(dict.fromkeys(n for n in column if isinstance(n, ir.Var)))
            if fixed:
                size: ir.Extent = fixed.pop()
                for n in loose:
                    self._check_extent(n, size, True)
            elif loose:
                size = loose[0]
                for n in loose[1:]:
                    self._check_extent(size, n, True)
                    one = self.w.scalar("eq", self.w.extent(size), number(1))
                    size = self.w.word(self.w.select(one, self.w.extent(n), self.w.extent(size)))
            else:
                size = 1
            out.append(size)
        return tuple(out)

    def _check_extent(self, a: ir.Extent, b: ir.Extent, broadcast: bool) -> None:
        """Check that two extents are equal (or, to broadcast, that one of them is 1)."""
        if self.w.block is None or a is b:
            return
        x, y = self.w.extent(a), self.w.extent(b)
        good = self.w.scalar("eq", x, y)
        if broadcast:
            good = self.w.either(good, self.w.scalar("eq", x, number(1)))
            if not isinstance(b, int):
                good = self.w.either(good, self.w.scalar("eq", y, number(1)))
        self.w.check(good, "ShapeMismatch", "dimensions {0} and {1} do not match", (x, y))

    def same_extent(self, a: ir.Extent, b: ir.Extent, what: str) -> ir.Extent:
        """Check that two extents are equal; return the constant one, if either is constant."""
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                raise self.mismatch(f"{what}: {a} and {b}")
            return a
        self._check_extent(a, b, False)
        return a if isinstance(a, int) else b

    def refine(self, x: Tensor, dims: Sequence[ir.Extent]) -> Tensor:
        """Return a tensor with extents that a check has proved constant."""
        t = TensorT(x.type.dtype, tuple(d if isinstance(d, int) else None for d in dims))
        if t == x.type or not isinstance(x.ref, ir.Var):
            return x
        key: Any = ("refined", x.ref, tuple(dims))
        found = self.w.state.get(key)
        if isinstance(found, Tensor):
            return found
        out = self.w.var(x.ref.name, t)
        if self.w.block is not None:
            self.w.emit(ir.Copy(out=out, src=x.ref, loc=self.w.loc))
        whole = x.whole
        result = Tensor(t, out, tuple(dims), aliased=True, places=whole.places, read_from=whole.read_from)
        self.w.state[key] = result
        return result

    # ---- host values

    def all_true(self, x: Tensor, why: str) -> Num:
        """Return whether all elements of an array of bools are true as a Python bool; its read may suspend."""
        axes = tuple(range(x.type.rank))
        return self.host(self.op("all", (x.ref,), "bool", (), (axes,)) if axes else x, why)

    def host(self, x: Tensor, why: str) -> Num:
        """Return the value of a tensor of rank 0 as a Python number; its read may suspend the instance."""
        if x.const is not NOT_CONST:
            return number(x.const)
        if x.known is not None:
            return x.known
        if x.type.dtype == "uint64":
            most = self.from_number(number(2**63 - 1), "uint64")
            small = self.host(self.element("le", [x, most], "bool"), why)
            self.w.check(small, "OverflowError", "int too large for 64 bits", ours=True)
        word = host_word(x.type.dtype)
        out = self.w.var("", word)
        if self.w.block is not None:
            self.w.emit(ir.Read(out=out, tensor=self.w.variable(x), loc=self.w.loc, why=why))
        return Num(word, var=out)

    # ---- extents

    def axes_of(self, axis: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Return normalised, sorted axes."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        out = []
        for a in axes:
            if not -rank <= a < rank:
                raise self.no_axis(f"axis {a} of a tensor of rank {rank}")
            out.append(a % rank)
        if len(set(out)) != len(out):
            raise self.w.reject("ACR402", seen=f"axis {axis} twice")
        return tuple(sorted(out))

    def no_axis(self, seen: str) -> Exception:
        """Return the exception to raise for an axis that a tensor does not have."""
        return self.w.fails("IndexError" if self.w.facts.tensors else "AxisError", self.w.reject("ACR402", seen=seen))

    def mismatch(self, seen: str, rewrite: str = "") -> Exception:
        """Return the exception to raise for tensors of shapes that never fit."""
        return self.w.fails("ShapeMismatch", self.w.reject("ACR401", seen=seen, rewrite=rewrite))

    def no_reshape(self, seen: str) -> Exception:
        """Return the exception to raise for a new shape with another number of elements."""
        return self.w.fails("ValueError", self.w.reject("ACR404", seen=seen))

    def count(self, dims: Sequence[ir.Extent]) -> Num:
        """Return the product of extents."""
        out = number(1)
        for d in dims:
            out = self.w.scalar("mul", out, self.w.extent(d))
        return out

    def list_lengths(self, val: ListVal) -> Num:
        out = self.w.var("length", INT)
        self.w.naturals.add(out)
        if self.w.block is not None:
            self.w.emit(ir.ListOp(outs=(out,), op="len", width=self.width(val), args=(val.var,), loc=self.w.loc))
        return Num(INT, var=out)

    def width(self, val: ListVal) -> int:
        from acronumba.ir.types import words

        return len(words(val.item))

    def argument(self, num: Num) -> ir.Var:
        """Return the variable of a number as an argument of an operation, also in unreachable code."""
        return self.w.word(num) if self.w.block is not None else self.w.var("", num.type)

    def signed(self, index: Tensor) -> Tensor:
        """Return an index or a bound as int64; larger uint64 values are clipped, as they exceed any axis."""
        if index.type.dtype.startswith("float") and 0 not in index.dims:  # an array of an empty list has floats
            raise self.w.reject("ACR301", seen=f"an index {self.w.describe(index)}", rewrite="its ints: x.astype(int)")
        if index.type.dtype == "uint64":
            most = self.from_number(number(2**63 - 1), "uint64")
            index = self.element("minimum", [index, most], "uint64")
        return self.cast(index, "int64")


def dims_text(dims: Sequence[ir.Extent]) -> str:
    return "(" + ", ".join(str(d) if isinstance(d, int) else "?" for d in dims) + ("," if len(dims) == 1 else "") + ")"
