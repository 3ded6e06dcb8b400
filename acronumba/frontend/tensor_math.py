"""Reductions and products."""

from __future__ import annotations

import string
import warnings
from dataclasses import replace

import numpy as np

from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.ufuncs import Ufuncs
from acronumba.ir import nodes as ir

LANES = 16  # columns from which a product fills the CPU's vector registers without transposition


def _product_that_fits(x: Tensor, y: Tensor, inner: int) -> str:
    """Return the rewrite of a matrix product of shapes that do not fit: the transposition or order that does."""
    if y.type.rank == 2 and y.dims[1] == x.dims[-1]:
        return "transpose the right operand: `x @ y.T`"
    if x.type.rank == 2 and x.dims[0] == y.dims[inner]:
        return "transpose the left operand: `x.T @ y`"
    if y.dims[-1] == x.dims[max(0, x.type.rank - 2)]:
        return "exchange the operands: `y @ x`"
    side = "the first" if y.type.rank == 1 else "the second to last"
    return f"operands with equal dimensions: the last of the left is {x.dims[-1]}, {side} of the right {y.dims[inner]}"


class TensorMath(Ufuncs):
    """Reductions, scans, orders and products of tensors."""

    def reduce(self, op: str, x: Tensor, axes: tuple[int, ...], keepdims: bool, dtype: str | None = None) -> Tensor:
        """Reduce over sorted axes."""
        if op in ("sum", "prod"):
            x = self.cast(x, dtype or self._summed(op, x))
        elif op in ("any", "all"):
            x = self.cast(x, "bool")
        else:
            self._not_empty(x, axes)
        rest = tuple(d for a, d in enumerate(x.dims) if a not in axes)
        out = self.op(op, (x.ref,), x.type.dtype, rest, (axes,)) if axes else x
        if keepdims:
            out = self.reshape(out, tuple(1 if a in axes else d for a, d in enumerate(x.dims)))
        return out

    def reduce_from(
        self, op: str, x: Tensor, initial: Val, axes: tuple[int, ...], keepdims: bool, dtype: str | None = None
    ) -> Tensor:
        """Reduce with `initial` as an additional first element; there may be no other."""
        dtype = dtype or self._summed(op, x)
        x = self.cast(x, dtype)
        rest = [a for a in range(x.type.rank) if a not in axes]
        kept = tuple(x.dims[a] for a in rest)
        many = self.w.as_extent(self.count([x.dims[a] for a in axes]))
        rows = self.reshape(self.transpose(x, (*rest, *axes)), (*kept, many))
        first = self.broadcast_to(self.as_tensor(initial, dtype), (*kept, 1))
        out = self.reduce(op, self.concat([first, rows], len(kept)), (len(kept),), False, dtype)
        if keepdims:
            out = self.reshape(out, tuple(1 if a in axes else d for a, d in enumerate(x.dims)))
        return out

    def scan(self, op: str, x: Tensor, axis: int, dtype: str | None) -> Tensor:
        """Return the cumulative results of `op` along an axis."""
        x = self.cast(x, dtype or self._summed(op, x))
        return self.op(f"cum{op}", (x.ref,), x.type.dtype, x.dims, (axis,))

    def order(self, x: Tensor, axis: int) -> Tensor:
        """Return the stable `argsort` along an axis, with NaN last."""
        return self.op("argsort", (x.ref,), "int64", x.dims, (axis,))

    def search(self, x: Tensor, values: Tensor, right: bool) -> Tensor:
        """Return the positions of values in a sorted vector, before or (`right`) after equal elements."""
        side = "right" if right else "left"
        return self.op("searchsorted", (x.ref, values.ref), "int64", values.dims, (side,))

    def _summed(self, op: str, x: Tensor) -> str:
        """Return the dtype in which NumPy reduces elements: their own for maxima and minima."""
        if op in ("max", "min"):
            return x.type.dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.dtype_name(getattr(np, op)(np.ones((1,) * x.type.rank, x.type.dtype)).dtype)

    def _not_empty(self, x: Tensor, axes: tuple[int, ...]) -> None:
        message = "zero-size array to reduction operation which has no identity"
        for a in axes:
            d = x.dims[a]
            if d == 0:
                self.w.fail("ValueError", message)
                return
            if isinstance(d, ir.Var) and self.w.block is not None:
                self.w.check(self.w.scalar("gt", self.w.extent(d), number(0)), "ValueError", message)

    def mean(self, x: Tensor, axes: tuple[int, ...], keepdims: bool, dtype: str | None = None) -> Tensor:
        dtype = dtype or (x.type.dtype if x.type.dtype.startswith("float") else "float64")
        wide = dtype if dtype.startswith("float") else "float64"  # integers are summed, then divided as floats
        total = self.cast(self.reduce("sum", self.cast(x, dtype), axes, keepdims, dtype), wide)
        count = self.w.as_float(self.count([x.dims[a] for a in axes]))
        mean = self.element("div", [total, self.from_number(count, wide)], wide)
        return self.cast(mean, dtype)

    def variance(self, x: Tensor, axes: tuple[int, ...], keepdims: bool, ddof: Num) -> Tensor:
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        x = self.cast(x, dtype)
        centred = self.element("sub", [x, self.mean(x, axes, True)], dtype)
        total = self.reduce("sum", self.element("mul", [centred, centred], dtype), axes, keepdims, dtype)
        count = self.w.as_float(self.count([x.dims[a] for a in axes]))
        count = self.w.scalar("max", self.w.scalar("sub", count, self.w.as_float(ddof)), number(0.0))
        return self.element("div", [total, self.from_number(count, dtype)], dtype)

    def root(self, total: Tensor, order: float = 2) -> Tensor:
        """Return the root of a sum of squares, or of other powers, with derivative 0 where the sum is 0.

        It is a subgradient, as 0 is for `abs`; the derivative of a plain root would be infinite.
        """
        dtype = total.type.dtype
        zero, one = (self.from_number(number(k), dtype) for k in (0, 1))
        nothing = self.element("eq", [total, zero], "bool")
        some = self.element("where", [nothing, one, total], dtype)
        out = self.ufunc("sqrt", (some,)) if order == 2 else self.ufunc("pow", (some, number(1 / order)))
        return self.element("where", [nothing, zero, out], dtype)

    def arg_reduce(self, op: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
        if axis is None:
            shape = (1,) * x.type.rank
            x = self.flatten(x)
            axis = 0
        else:
            axis = self.axes_of(axis, x.type.rank)[0]
            shape = tuple(1 if a == axis else d for a, d in enumerate(x.dims))  # type: ignore[misc]
        if x.dims[axis] == 0 or isinstance(x.dims[axis], ir.Var):
            good = self.w.scalar("gt", self.w.extent(x.dims[axis]), number(0))
            self.w.check(good, "ValueError", f"attempt to get {op} of an empty sequence")
        rest = tuple(d for a, d in enumerate(x.dims) if a != axis)
        out = self.op(op, (x.ref,), "int64", rest, (axis,))
        return self.reshape(out, shape) if keepdims else out

    def places(self, mask: Tensor, why: str) -> list[Tensor]:
        """Return the positions of true elements of a mask, by axis, as `np.nonzero` does; their number is awaited.

        The flat index of the k-th is the number of elements whose cumulative count is at most k.
        """
        flat = self.flatten(self.cast(mask, "bool"))
        so_far = self.scan("sum", flat, 0, None)
        found = self.host(self.reduce("sum", flat, (0,), False), why)
        many = self.w.as_extent(found)
        columns = self.reshape(so_far, (1, *so_far.dims))
        before = self.element("le", [columns, self.reshape(self.iota(many, "int64"), (many, 1))], "bool")
        at = self.reduce("sum", before, (1,), False)
        out: list[Tensor] = []
        for d in reversed(mask.dims[1:]):
            n = self.from_number(self.w.scalar("max", self.w.extent(d), number(1)), "int64")
            out.append(self.element("mod", [at, n], "int64"))
            at = self.element("floordiv", [at, n], "int64")
        return [at, *reversed(out)]

    # ---- products

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        if not x.type.rank or not y.type.rank:
            raise self.mismatch(f"{self.w.describe(x)} @ {self.w.describe(y)}", "use *")
        ins, dtype = self.resolve(np.matmul, [x, y])
        x, y = self.promote(x, ins[0]), self.promote(y, ins[1])
        inner = 0 if y.type.rank == 1 else y.type.rank - 2
        if isinstance(x.dims[-1], int) and isinstance(y.dims[inner], int) and x.dims[-1] != y.dims[inner]:
            raise self.mismatch(f"{self.w.describe(x)} @ {self.w.describe(y)}", _product_that_fits(x, y, inner))
        k = self.same_extent(x.dims[-1], y.dims[inner], "the inner dimensions of a matrix product")
        x = self.refine(x, (*x.dims[:-1], k))
        y = self.refine(y, tuple(k if a == inner else d for a, d in enumerate(y.dims)))
        weight = isinstance(x.ref, ir.SharedArg) and not isinstance(y.ref, ir.SharedArg) and x.type.rank == 2
        if weight and y.type.rank == 2 and not (isinstance(y.dims[1], int) and y.dims[1] >= LANES):
            return self._columns(x, y, dtype)
        rows = x.dims[-2:-1] if x.type.rank > 1 else ()
        columns = y.dims[-1:] if y.type.rank > 1 else ()
        batch = self.broadcast_dims([x.dims[:-2], y.dims[:-2]])
        return self.op("matmul", (x.ref, y.ref), dtype, (*batch, *rows, *columns))

    def _columns(self, w: Tensor, y: Tensor, dtype: str) -> Tensor:
        """Return a weight times columns, computed as rows times the transposed weight, which many nodes share."""
        m, n = w.dims[0], y.dims[1]
        if n == 1:
            column = self.reshape(y, y.dims[:1])
            return self.reshape(self.op("matmul", (w.ref, column.ref), dtype, (m,)), (m, 1))
        rows, weight = y.turned or self.transpose(y, (1, 0)), self.transpose(w, (1, 0))
        out = self.op("matmul", (rows.ref, weight.ref), dtype, (n, m))
        return replace(self.transpose(out, (1, 0)), turned=out, fresh=True, base=None)

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        if not x.type.rank or not y.type.rank:
            return self.ufunc("mul", (x, y))
        if y.type.rank > 2:
            letters = string.ascii_letters
            left, right = letters[: x.type.rank], letters[x.type.rank : x.type.rank + y.type.rank]
            free = right[:-2] + right[-1]
            spec = f"{left},{right[:-2]}{left[-1]}{right[-1]}->{left[:-1]}{free}"
            return self.einsum(spec, [x, y])
        return self.matmul(x, y)

    def outer(self, x: Tensor, y: Tensor) -> Tensor:
        x, y = self.flatten(x), self.flatten(y)
        return self.ufunc("mul", (self.reshape(x, (x.dims[0], 1)), self.reshape(y, (1, y.dims[0]))))

    def einsum(self, spec: str, tensors: list[Tensor]) -> Tensor:
        """Einstein summation; operands are contracted from left to right."""
        left, _, out = self._spelled_out(spec.replace(" ", ""), tensors).partition("->")
        terms = left.split(",")
        wrong = sorted(c for c in {*left.replace(",", ""), *out} if c not in string.ascii_letters)
        if wrong:
            seen = f"einsum {spec!r} with {', '.join(map(repr, wrong))} for an axis"
            raise self.w.reject("ACR202", seen=seen, rewrite="name each axis by a letter")
        if len(terms) != len(tensors) or any(len(t) != x.type.rank for t, x in zip(terms, tensors, strict=False)):
            raise self.w.reject("ACR401", seen=f"einsum {spec!r} of {', '.join(map(self.w.describe, tensors))}")
        dtype = self.dtype_name(np.result_type(*(np.dtype(x.type.dtype) for x in tensors)))
        diagonals = [self._on_diagonals(x, t) for t, x in zip(terms, tensors, strict=True)]
        wide = {c for x, t in diagonals for c, d in zip(t, x.dims, strict=True) if d != 1}
        stretched = [self._without_ones(x, t, wide) for x, t in diagonals]
        terms, tensors = [t for _, t in stretched], [x for x, _ in stretched]
        sizes: dict[str, ir.Extent] = {}
        for t, x in zip(terms, tensors, strict=True):
            for c, d in zip(t, x.dims, strict=True):
                sizes[c] = self.same_extent(sizes[c], d, f"axis {c!r} of einsum") if c in sizes else d
        labels, acc = terms[0], self._labelled(self.promote(tensors[0], dtype), terms[0], sizes)
        for k in range(1, len(tensors)):
            y = self._labelled(self.promote(tensors[k], dtype), terms[k], sizes)
            later = set("".join(terms[k + 1 :]) + out)
            acc, labels = self._contract(acc, labels, y, terms[k], later, sizes)
        gone = tuple(a for a, c in enumerate(labels) if c not in out)
        if gone:
            acc = self.reduce("sum", acc, gone, False, dtype)
            labels = "".join(c for c in labels if c in out)
        if set(labels) != set(out):
            raise self.w.reject("ACR401", seen=f"einsum {spec!r}")
        return self.transpose(acc, tuple(labels.index(c) for c in out))

    def _spelled_out(self, spec: str, tensors: list[Tensor]) -> str:
        """Return an einsum specification with letters in place of `...`, and with an explicit result."""
        left, arrow, out = spec.partition("->")
        if not arrow:
            letters = left.replace("...", "").replace(",", "")
            out = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        free = [c for c in string.ascii_letters if c not in spec]
        terms = left.split(",")
        if len(terms) != len(tensors) or any(t.replace("...", "", 1).count(".") for t in (*terms, out)):
            raise self.w.reject("ACR401", seen=f"einsum {spec!r} of {', '.join(map(self.w.describe, tensors))}")
        several = [max(x.type.rank - len(t) + 3, 0) for t, x in zip(terms, tensors, strict=True) if "..." in t]
        most = max(several, default=0)
        more = iter(several)
        terms = [t.replace("...", "".join(free[most - next(more) : most])) if "..." in t else t for t in terms]
        return f"{','.join(terms)}->{out.replace('...', ''.join(free[:most]))}"

    def _on_diagonals(self, x: Tensor, labels: str) -> tuple[Tensor, str]:
        """Take the diagonal of axes with the same label, until all labels are distinct; return it with its labels."""
        for c in dict.fromkeys(labels):
            while labels.count(c) > 1:
                p = labels.index(c)
                q = labels.index(c, p + 1)
                rest = [a for a in range(x.type.rank) if a not in (p, q)]
                n = self.same_extent(x.dims[p], x.dims[q], f"axis {c!r} of einsum")
                at = self.iota(n, "int64")
                x = self.take_many(self.transpose(x, (p, q, *rest)), [at, at])
                labels = c + "".join(labels[a] for a in rest)
        return x, labels

    def _without_ones(self, x: Tensor, labels: str, wide: set[str]) -> tuple[Tensor, str]:
        """Drop axes of extent 1 whose label has another extent in another operand."""
        ones = [a for a, c in enumerate(labels) if x.dims[a] == 1 and c in wide]
        dims = tuple(d for a, d in enumerate(x.dims) if a not in ones)
        return self.reshape(x, dims), "".join(c for a, c in enumerate(labels) if a not in ones)

    def _labelled(self, x: Tensor, labels: str, sizes: dict[str, ir.Extent]) -> Tensor:
        return self.refine(x, tuple(sizes[c] for c in labels))

    def _contract(
        self, x: Tensor, a: str, y: Tensor, b: str, keep: set[str], sizes: dict[str, ir.Extent]
    ) -> tuple[Tensor, str]:
        alone = tuple(i for i, c in enumerate(a) if c not in b and c not in keep)
        if alone:
            x, a = self.reduce("sum", x, alone, False, x.type.dtype), "".join(c for c in a if c in b or c in keep)
        alone = tuple(i for i, c in enumerate(b) if c not in a and c not in keep)
        if alone:
            y, b = self.reduce("sum", y, alone, False, y.type.dtype), "".join(c for c in b if c in a or c in keep)
        batch = [c for c in a if c in b and c in keep]
        summed = [c for c in a if c in b and c not in keep]
        rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

        def grouped(t: Tensor, labels: str, groups: list[list[str]]) -> Tensor:
            t = self.transpose(t, tuple(labels.index(c) for g in groups for c in g))
            dims: list[ir.Extent] = [sizes[c] for c in groups[0]]
            for g in groups[1:]:
                dims.append(self.w.as_extent(self.count([sizes[c] for c in g])))
            return self.reshape(t, dims)

        p = grouped(x, a, [batch, rows, summed])
        q = grouped(y, b, [batch, summed, columns])
        out = self.matmul(p, q)
        labels = "".join([*batch, *rows, *columns])
        return self.reshape(out, tuple(sizes[c] for c in labels)), labels
