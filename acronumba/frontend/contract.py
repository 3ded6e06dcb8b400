"""Reductions and products."""

from __future__ import annotations

import string
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from acronumba.frontend.block import Refused
from acronumba.frontend.tensors import Node
from acronumba.frontend.ufuncs import Ufuncs
from acronumba.frontend.values import Num, Tensor, Val, number
from acronumba.ir import nodes as ir

LANES = 16  # of so many columns a product fills the vectors of a processor, without the transposes


class Contract(Ufuncs):
    """Reductions and products."""

    def reduce(
        self, op: str, x: Tensor, axis: Any, keepdims: bool, node: Node = None, dtype: str | None = None
    ) -> Tensor:
        axes = self.axes_of(axis, x.type.rank, node)
        if op in ("sum", "prod"):
            x = self.cast(x, dtype or self._summed(op, x), node)
        elif op in ("any", "all"):
            x = self.cast(x, "bool", node)
        else:
            self._not_empty(x, axes, node)
        rest = tuple(d for a, d in enumerate(x.dims) if a not in axes)
        out = self.op(op, (x.ref,), x.type.dtype, rest, (axes,), node) if axes else x
        if keepdims:
            out = self.reshape(out, tuple(1 if a in axes else d for a, d in enumerate(x.dims)), node)
        return out

    def reduce_from(
        self, op: str, x: Tensor, initial: Val, axes: tuple[int, ...], keepdims: bool, node: Node = None,
        dtype: str | None = None,
    ) -> Tensor:  # fmt: skip
        """Reduce with one more element, which comes first; there may be no other."""
        dtype = dtype or self._summed(op, x)
        x = self.cast(x, dtype, node)
        rest = [a for a in range(x.type.rank) if a not in axes]
        kept = tuple(x.dims[a] for a in rest)
        many = self.as_extent(self.count([x.dims[a] for a in axes]))
        rows = self.reshape(self.transpose(x, (*rest, *axes), node), (*kept, many), node)
        first = self.from_number(initial, dtype, node) if isinstance(initial, Num) else self.as_tensor(initial)
        first = self.broadcast_to(self.cast(first, dtype, node), (*kept, 1), node)
        out = self.reduce(op, self.concat([first, rows], len(kept), node), (len(kept),), False, node, dtype)
        if keepdims:
            out = self.reshape(out, tuple(1 if a in axes else d for a, d in enumerate(x.dims)), node)
        return out

    def scan(self, op: str, x: Tensor, axis: int, dtype: str | None, node: Node = None) -> Tensor:
        """Return what `op` gives of the elements up to each one along an axis."""
        x = self.cast(x, dtype or self._summed(op, x), node)
        return self.op(f"cum{op}", (x.ref,), x.type.dtype, x.dims, (axis,), node)

    def order(self, x: Tensor, axis: int, node: Node = None) -> Tensor:
        """Return which element stands at each place in order along an axis: equal ones stay, NaN comes last."""
        return self.op("argsort", (x.ref,), "int64", x.dims, (axis,), node)

    def search(self, x: Tensor, values: Tensor, right: bool, node: Node = None) -> Tensor:
        """Return where values belong among the elements of a vector, before equal ones or behind them."""
        side = "right" if right else "left"
        return self.op("searchsorted", (x.ref, values.ref), "int64", values.dims, (side,), node)

    def _summed(self, op: str, x: Tensor) -> str:
        """Return the dtype that NumPy sums, or multiplies, elements in; maxima and minima have their own."""
        if op in ("max", "min"):
            return x.type.dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.dtype_name(getattr(np, op)(np.ones((1,) * x.type.rank, x.type.dtype)).dtype)

    def _not_empty(self, x: Tensor, axes: tuple[int, ...], node: Node) -> None:
        message = "zero-size array to reduction operation which has no identity"
        for a in axes:
            d = x.dims[a]
            if d == 0:
                self.fail("ValueError", message, node)
                return
            if isinstance(d, ir.Var) and self.block is not None:
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

    def variance(self, x: Tensor, axis: Any, keepdims: bool, ddof: Num, node: Node = None) -> Tensor:
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        x = self.cast(x, dtype, node)
        centred = self.element("sub", [x, self.mean(x, axis, True, node)], dtype, node)
        total = self.reduce("sum", self.element("mul", [centred, centred], dtype, node), axis, keepdims, node, dtype)
        count = self.as_float(self.count([x.dims[a] for a in self.axes_of(axis, x.type.rank, node)]))
        count = self.scalar("max", self.scalar("sub", count, self.as_float(ddof)), number(0.0))
        return self.element("div", [total, self.from_number(count, dtype, node)], dtype, node)

    def root(self, total: Tensor, order: float = 2, node: Node = None) -> Tensor:
        """Return the root of a sum of squares, or of other powers: its derivative where all of them are 0 is 0.

        That is between the derivatives of all sides, as 0 is for `abs`; of the root alone it is infinite.
        """
        dtype = total.type.dtype
        zero, one = (self.from_number(number(k), dtype, node) for k in (0, 1))
        nothing = self.element("eq", [total, zero], "bool", node)
        some = self.element("where", [nothing, one, total], dtype, node)
        out = self.ufunc("sqrt", (some,), node) if order == 2 else self.ufunc("pow", (some, number(1 / order)), node)
        return self.element("where", [nothing, zero, out], dtype, node)

    def arg_reduce(self, op: str, x: Tensor, axis: int | None, keepdims: bool, node: Node = None) -> Tensor:
        if axis is None:
            shape = (1,) * x.type.rank
            x = self.flatten(x, node)
            axis = 0
        else:
            axis = self.axes_of(axis, x.type.rank, node)[0]
            shape = tuple(1 if a == axis else d for a, d in enumerate(x.dims))  # type: ignore[misc]
        if x.dims[axis] == 0 or isinstance(x.dims[axis], ir.Var):
            good = self.scalar("gt", self.extent(x.dims[axis]), number(0))
            self.check(good, "ValueError", f"attempt to get {op} of an empty sequence", (), node)
        rest = tuple(d for a, d in enumerate(x.dims) if a != axis)
        out = self.op(op, (x.ref,), "int64", rest, (axis,), node)
        return self.reshape(out, shape, node) if keepdims else out

    def places(self, mask: Tensor, why: str, node: Node = None) -> list[Tensor]:
        """Return where a mask holds, as a place on each axis, in order: how many there are is waited for.

        The k-th is after as many elements as have at most k before and in them.
        """
        flat = self.flatten(self.cast(mask, "bool", node), node)
        so_far = self.scan("sum", flat, 0, None, node)
        found = self.host(self.reduce("sum", flat, (0,), False, node), why, node)
        many = self.as_extent(found)
        columns = self.reshape(so_far, (1, *so_far.dims), node)
        before = self.element(
            "le", [columns, self.reshape(self.iota(many, "int64", node), (many, 1), node)], "bool", node
        )
        at = self.reduce("sum", before, (1,), False, node)
        out: list[Tensor] = []
        for d in reversed(mask.dims[1:]):
            n = self.from_number(self.scalar("max", self.extent(d), number(1)), "int64", node)
            out.append(self.element("mod", [at, n], "int64", node))
            at = self.element("floordiv", [at, n], "int64", node)
        return [at, *reversed(out)]

    # ---- products

    def matmul(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        if not x.type.rank or not y.type.rank:
            raise self.refuse("ACR401", node, seen=f"{self.describe(x)} @ {self.describe(y)}", rewrite="use *")
        ins, dtype = self.resolve(np.matmul, [x, y], node)
        x, y = self.promote(x, ins[0], node), self.promote(y, ins[1], node)
        inner = 0 if y.type.rank == 1 else y.type.rank - 2
        try:
            k = self.same_extent(x.dims[-1], y.dims[inner], "the inner dimensions of a matrix product", node)
        except Refused:
            raise self.refuse("ACR401", node, seen=f"{self.describe(x)} @ {self.describe(y)}") from None
        x = self.refine(x, (*x.dims[:-1], k))
        y = self.refine(y, tuple(k if a == inner else d for a, d in enumerate(y.dims)))
        weight = isinstance(x.ref, ir.SharedArg) and not isinstance(y.ref, ir.SharedArg) and x.type.rank == 2
        if weight and y.type.rank == 2 and not (isinstance(y.dims[1], int) and y.dims[1] >= LANES):
            return self._columns(x, y, dtype, node)
        rows = x.dims[-2:-1] if x.type.rank > 1 else ()
        columns = y.dims[-1:] if y.type.rank > 1 else ()
        batch = self.broadcast_dims([x.dims[:-2], y.dims[:-2]], node)
        return self.op("matmul", (x.ref, y.ref), dtype, (*batch, *rows, *columns), (), node)

    def _columns(self, w: Tensor, y: Tensor, dtype: str, node: Node) -> Tensor:
        """The product of a weight and columns: that of rows and the transposed weight, which many nodes share."""
        m, n = w.dims[0], y.dims[1]
        if n == 1:
            column = self.reshape(y, y.dims[:1], node)
            return self.reshape(self.op("matmul", (w.ref, column.ref), dtype, (m,), (), node), (m, 1), node)
        rows, weight = y.turned or self.transpose(y, (1, 0), node), self.transpose(w, (1, 0), node)
        out = self.op("matmul", (rows.ref, weight.ref), dtype, (n, m), (), node)
        return replace(self.transpose(out, (1, 0), node), turned=out, fresh=True, base=None)

    def dot(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        if not x.type.rank or not y.type.rank:
            return self.ufunc("mul", (x, y), node)
        if y.type.rank > 2:
            letters = string.ascii_letters
            left, right = letters[: x.type.rank], letters[x.type.rank : x.type.rank + y.type.rank]
            free = right[:-2] + right[-1]
            spec = f"{left},{right[:-2]}{left[-1]}{right[-1]}->{left[:-1]}{free}"
            return self.einsum(spec, [x, y], node)
        return self.matmul(x, y, node)

    def outer(self, x: Tensor, y: Tensor, node: Node = None) -> Tensor:
        x, y = self.flatten(x, node), self.flatten(y, node)
        return self.ufunc("mul", (self.reshape(x, (x.dims[0], 1), node), self.reshape(y, (1, y.dims[0]), node)), node)

    def einsum(self, spec: str, tensors: list[Tensor], node: Node = None) -> Tensor:
        """Contract by an Einstein summation; operands are contracted from left to right."""
        left, _, out = self._spelled_out(spec.replace(" ", ""), tensors, node).partition("->")
        terms = left.split(",")
        wrong = sorted(c for c in {*left.replace(",", ""), *out} if c not in string.ascii_letters)
        if wrong:
            seen = f"einsum {spec!r} with {', '.join(map(repr, wrong))} for an axis"
            raise self.refuse("ACR202", node, seen=seen, rewrite="name each axis by a letter")
        if len(terms) != len(tensors) or any(len(t) != x.type.rank for t, x in zip(terms, tensors, strict=False)):
            raise self.refuse("ACR401", node, seen=f"einsum {spec!r} of {', '.join(map(self.describe, tensors))}")
        dtype = self.dtype_name(np.result_type(*(np.dtype(x.type.dtype) for x in tensors)), node)
        diagonals = [self._on_diagonals(x, t, node) for t, x in zip(terms, tensors, strict=True)]
        wide = {c for x, t in diagonals for c, d in zip(t, x.dims, strict=True) if d != 1}
        stretched = [self._without_ones(x, t, wide, node) for x, t in diagonals]
        terms, tensors = [t for _, t in stretched], [x for x, _ in stretched]
        sizes: dict[str, ir.Extent] = {}
        for t, x in zip(terms, tensors, strict=True):
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

    def _spelled_out(self, spec: str, tensors: list[Tensor], node: Node) -> str:
        """Return the text of an Einstein summation with letters in place of `...`, and with its result."""
        left, arrow, out = spec.partition("->")
        if not arrow:
            letters = left.replace("...", "").replace(",", "")
            out = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        free = [c for c in string.ascii_letters if c not in spec]
        terms = left.split(",")
        if len(terms) != len(tensors) or any(t.replace("...", "", 1).count(".") for t in (*terms, out)):
            raise self.refuse("ACR401", node, seen=f"einsum {spec!r} of {', '.join(map(self.describe, tensors))}")
        several = [max(x.type.rank - len(t) + 3, 0) for t, x in zip(terms, tensors, strict=True) if "..." in t]
        most = max(several, default=0)
        more = iter(several)
        terms = [t.replace("...", "".join(free[most - next(more) : most])) if "..." in t else t for t in terms]
        return f"{','.join(terms)}->{out.replace('...', ''.join(free[:most]))}"

    def _on_diagonals(self, x: Tensor, labels: str, node: Node) -> tuple[Tensor, str]:
        """Return the diagonal of each two axes of one label."""
        for c in dict.fromkeys(labels):
            while labels.count(c) > 1:
                p = labels.index(c)
                q = labels.index(c, p + 1)
                rest = [a for a in range(x.type.rank) if a not in (p, q)]
                n = self.same_extent(x.dims[p], x.dims[q], f"axis {c!r} of einsum", node)
                at = self.iota(n, "int64", node)
                x = self.take_many(self.transpose(x, (p, q, *rest), node), [at, at], node)
                labels = c + "".join(labels[a] for a in rest)
        return x, labels

    def _without_ones(self, x: Tensor, labels: str, wide: set[str], node: Node) -> tuple[Tensor, str]:
        """Leave out axes of extent 1 that other operands have of another extent."""
        ones = [a for a, c in enumerate(labels) if x.dims[a] == 1 and c in wide]
        dims = tuple(d for a, d in enumerate(x.dims) if a not in ones)
        return self.reshape(x, dims, node), "".join(c for a, c in enumerate(labels) if a not in ones)

    def _labelled(self, x: Tensor, labels: str, sizes: dict[str, ir.Extent]) -> Tensor:
        return self.refine(x, tuple(sizes[c] for c in labels))

    def _contract(
        self, x: Tensor, a: str, y: Tensor, b: str, keep: set[str], sizes: dict[str, ir.Extent], node: Node
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
            dims: list[ir.Extent] = [sizes[c] for c in groups[0]]
            for g in groups[1:]:
                dims.append(self.as_extent(self.count([sizes[c] for c in g])))
            return self.reshape(t, dims, node)

        p = grouped(x, a, [batch, rows, summed])
        q = grouped(y, b, [batch, summed, columns])
        out = self.matmul(p, q, node)
        labels = "".join([*batch, *rows, *columns])
        return self.reshape(out, tuple(sizes[c] for c in labels), node), labels
