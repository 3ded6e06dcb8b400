"""Operations on tensors that move elements: indexing, joining, splitting and creation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST
from acronumba.frontend.numbering import is_natural
from acronumba.frontend.tensors import HOST, TensorOps, dims_text
from acronumba.ir import nodes as ir
from acronumba.ir.types import FLOAT, INT, NEVER, BoolT, FloatT, IntT, ListT, TensorT


class Shapes(TensorOps):
    """Indexing, joining, splitting and creation of tensors."""

    # ---- indexing

    def reshape(self, x: Tensor, dims: Sequence[ir.Extent]) -> Tensor:
        """Reshape to extents whose product is known to be right."""
        if tuple(dims) == x.dims:
            return x
        return replace(self.op("reshape", (x.ref,), x.type.dtype, dims, (), base=x), known=x.known)

    def reshape_to(self, x: Tensor, shape: Sequence[Num]) -> Tensor:
        """Reshape as NumPy does; at most one extent may be negative, and is inferred from the others."""
        values = [self.w.known(n) for n in shape]
        holes = [k for k, v in enumerate(values) if v is not NOT_CONST and v < 0]
        if len(holes) > 1:
            raise self.no_reshape(f"reshape to {tuple(values)}")
        total = self.count(x.dims)
        loose = [k for k, v in enumerate(values) if v is NOT_CONST and not is_natural(shape[k], self.w.naturals)]
        if loose and not holes:
            shape = self._with_rest(shape, loose, total)
        for n, v in zip(shape, values, strict=True):
            if v is NOT_CONST:
                whole = self.w.scalar("ge", self.w.read(n), number(0))
                self.w.check(whole, "ValueError", "can only specify one unknown dimension")
        dims: list[ir.Extent] = [self.w.as_extent(self.w.as_int(n)) for n in shape]
        given = self.count([d for k, d in enumerate(dims) if k not in holes])
        message = "cannot reshape an array of size {0} into shape with {1} elements"
        if holes:
            if given.const is not NOT_CONST and total.const is not NOT_CONST:
                if given.const == 0 or total.const % given.const:
                    raise self.no_reshape(f"{self.w.describe(x)} to {tuple(values)}")
                dims[holes[0]] = total.const // given.const
            else:
                self.w.check(self.w.scalar("gt", given, number(0)), "ValueError", message, (total, given))
                rest = self.w.scalar("mod", total, given)
                self.w.check(self.w.scalar("eq", rest, number(0)), "ValueError", message, (total, given))
                dims[holes[0]] = self.w.as_extent(self.w.scalar("floordiv", total, given))
        elif given.const is not NOT_CONST and total.const is not NOT_CONST:
            if given.const != total.const:
                raise self.no_reshape(f"{self.w.describe(x)} to {tuple(values)}")
        else:
            self.w.check(self.w.scalar("eq", total, given), "ValueError", message, (total, given))
        return self.reshape(x, dims)

    def _with_rest(self, shape: Sequence[Num], loose: Sequence[int], total: Num) -> list[Num]:
        """Return a shape in which an extent that is negative at run time is inferred from `total`."""
        out = [self.w.read(n) for n in shape]
        unknown = {k: self.w.scalar("lt", out[k], number(0)) for k in loose}
        given, several = number(1), number(0)
        for k, n in enumerate(out):
            given = self.w.scalar("mul", given, self.w.select(unknown[k], number(1), n) if k in unknown else n)
        for hole in unknown.values():
            several = self.w.scalar("add", several, self.w.scalar("int", hole))
        once = self.w.scalar("le", several, number(1))
        self.w.check(once, "ValueError", "can only specify one unknown dimension")
        fits = self.w.either(self.w.scalar("eq", several, number(0)), self.w.scalar("gt", given, number(0)))
        self.w.check(fits, "ValueError", "cannot reshape an array of size {0}", (total,))
        rest = self.w.scalar("floordiv", total, self.w.scalar("max", given, number(1)))
        return [self.w.select(unknown[k], rest, n) if k in unknown else n for k, n in enumerate(out)]

    def flatten(self, x: Tensor) -> Tensor:
        return x if x.type.rank == 1 else self.reshape(x, (self.w.as_extent(self.count(x.dims)),))

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        if sorted(order) != list(range(x.type.rank)):
            raise self.no_axis(f"axes {tuple(order)} of a tensor of rank {x.type.rank}")
        if list(order) == list(range(x.type.rank)):
            return x
        dims = tuple(x.dims[a] for a in order)
        return self.op("transpose", (x.ref,), x.type.dtype, dims, (tuple(order),), base=x)

    def broadcast_to(self, x: Tensor, dims: Sequence[ir.Extent]) -> Tensor:
        if x.type.rank > len(dims):
            raise self.mismatch(f"{self.w.describe(x)} to {dims_text(dims)}")
        for have, want in zip(x.dims, dims[len(dims) - x.type.rank :], strict=True):
            if isinstance(have, int) and isinstance(want, int):
                if have not in (1, want):
                    raise self.mismatch(f"{self.w.describe(x)} to {dims_text(dims)}")
            elif have is not want and have != 1:
                one = self.w.scalar("eq", self.w.extent(have), number(1))
                good = self.w.either(one, self.w.scalar("eq", self.w.extent(have), self.w.extent(want)))
                self.w.check(
                    good,
                    "ShapeMismatch",
                    "cannot broadcast a dimension of {0} to {1}",
                    (self.w.extent(have), self.w.extent(want)),
                )
        if tuple(dims) == x.dims:
            return x
        return self.op("broadcast", (x.ref,), x.type.dtype, dims, (), base=x)

    def slice(self, x: Tensor, parts: Sequence[tuple[ir.Extent, int, ir.Extent]]) -> Tensor:
        """Select the elements start + step * k, k < count, along each axis."""
        if all(s == 0 and step == 1 and n == d for (s, step, n), d in zip(parts, x.dims, strict=True)):
            return x
        starts, steps = tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        dims = tuple(p[2] for p in parts)
        return self.op("slice", (x.ref,), x.type.dtype, dims, (starts, steps), base=x)

    def slice_part(
        self, length: ir.Extent, start: Num | None, stop: Num | None, step: int
    ) -> tuple[ir.Extent, int, ir.Extent]:
        """Return the start, step and count of a Python slice of a sequence of a given length."""
        if step == 1 and start is not None and stop is not None and self._one(length, start, stop):
            return self.w.as_extent(start), 1, 1
        n = self.w.extent(length)
        values = [None if v is None else self.w.known(v) for v in (start, stop)]
        if n.const is not NOT_CONST and NOT_CONST not in values:
            r = range(*slice(values[0], values[1], step).indices(n.const))
            return (r.start if len(r) else 0), step, len(r)
        low = number(0 if step > 0 else -1)
        high = n if step > 0 else self.w.scalar("sub", n, number(1))

        def clamp(v: Num | None, default: Num) -> Num:
            if v is None:
                return default
            v = self.w.as_int(v)
            value = self.w.known(v)
            v = number(value) if value is not NOT_CONST else self.w.read(v)
            if v.const is not NOT_CONST:
                shifted = self.w.scalar("add", v, n) if v.const < 0 else v
            else:
                below = self.w.scalar("min", v, number(0))  # so that the sum cannot overflow
                shifted = self.w.select(self.w.scalar("lt", v, number(0)), self.w.scalar("add", below, n), v)
            return self.w.scalar("max", low, self.w.scalar("min", high, shifted))

        first, last = (clamp(start, low), clamp(stop, high)) if step > 0 else (clamp(start, high), clamp(stop, low))
        gap = self.w.scalar("sub", last, first) if step > 0 else self.w.scalar("sub", first, last)
        count = self.w.scalar("floordiv", self.w.scalar("add", gap, number(abs(step) - 1)), number(abs(step)))
        count = self.w.scalar("max", count, number(0))
        if count.const is not NOT_CONST and count.const == 0:
            first = number(0)
        elif first.const is NOT_CONST or first.const < 0:
            first = self.w.select(self.w.scalar("eq", count, number(0)), number(0), first)
        return self.w.as_extent(first), step, self.w.as_extent(count)

    def _one(self, length: ir.Extent, start: Num, stop: Num) -> bool:
        """Whether a slice certainly has one element: `x[t : t + 1]`, where a loop variable `t` is below the length."""
        if start.var is None or stop.var is None or not self.w.code.numbering.follows(stop.var, start.var):
            return False
        end = self.w.below.get(start.var)
        if end is None:
            return False
        return end.var is length if isinstance(length, ir.Var) else end.const is not NOT_CONST and end.const <= length

    def take(self, x: Tensor, index: Num | Tensor, axis: int) -> Tensor:
        """Index one axis by an int, an integer scalar or an integer array."""
        d = x.dims[axis]
        rest = (x.dims[:axis], x.dims[axis + 1 :])
        if isinstance(index, Tensor):
            checked = self.checked(index, d, axis)
            dims = (*rest[0], *index.dims, *rest[1])
            view = None if index.type.rank else x  # a view by a number, a copy by an array
            return self.op("take", (x.ref, checked.ref), x.type.dtype, dims, (axis,), base=view)
        i = self.inside(index, d, axis)
        return self.op("take", (x.ref, self.argument(i)), x.type.dtype, (*rest[0], *rest[1]), (axis,), base=x)

    def inside(self, index: Num, extent: ir.Extent, axis: int) -> Num:
        """Return an index of one axis counted from the front; the instance fails where it is out of range."""
        if index.type == FLOAT:
            raise self.w.reject("ACR301", seen=f"an index {self.w.describe(index)}")
        i = self.w.as_int(index)
        value = self.w.known(i)
        if value is not NOT_CONST and isinstance(extent, int):
            if not -extent <= value < extent:
                self.w.fail("IndexError", f"index {value} is out of bounds for axis {axis} with size {extent}")
                return number(0)
            return number(value % extent)
        i, n = self.w.read(i), self.w.extent(extent)
        inside = self.w.both(self.w.scalar("ge", i, self.w.scalar("neg", n)), self.w.scalar("lt", i, n))
        text = f"index {{0}} is out of bounds for axis {axis} with size {{1}}"
        self.w.check(inside, "IndexError", text, (i, n))
        if self.w.block is not None and not (i.const is not NOT_CONST and i.const >= 0):
            i = self.w.select(self.w.scalar("lt", i, number(0)), self.w.scalar("add", i, n), i)
        return i

    def checked(self, index: Tensor, d: ir.Extent, axis: int) -> Tensor:
        """Return an integer array as checked positions along an axis; the instance fails where one is out of range."""
        if np.dtype(index.type.dtype).kind not in "iu":
            seen = f"an index of dtype {index.type.dtype}"
            raise self.w.reject("ACR301", seen=seen, rewrite="an index of integers: `x[i.astype(np.int64)]`")
        size = d if isinstance(d, int) else "?"
        text = f"an index is out of bounds for axis {axis} with size {size}"
        index = self.cast(index, "int64")
        if self.w.catches("IndexError"):  # known only when it is computed, which the instance awaits
            ends = [self.from_number(n, "int64") for n in (self.w.scalar("neg", self.w.extent(d)), self.w.extent(d))]
            above = self.element("ge", [index, ends[0]], "bool")
            inside = self.element("and", [above, self.element("lt", [index, ends[1]], "bool")], "bool")
            self.w.check(self.all_true(inside, "an index in `try`"), "IndexError", text)
        site = self.w.failure_site("IndexError", text)
        args = (index.ref, self.argument(self.w.extent(d)))
        return self.op("index", args, "int64", index.dims, (), site)

    def take_many(self, x: Tensor, places: Sequence[Tensor]) -> Tensor:
        """Index the first axes, each by an array of checked positions; these are broadcast together."""
        self.broadcast_dims([p.dims for p in places])
        at = places[0]
        for p, d in zip(places[1:], x.dims[1:], strict=False):
            step = self.from_number(self.w.extent(d), "int64")
            at = self.element("add", [self.element("mul", [at, step], "int64"), p], "int64")
        rest = x.dims[len(places) :]
        flat = self.reshape(x, (self.w.as_extent(self.count(x.dims[: len(places)])), *rest))
        return self.op("take", (flat.ref, at.ref), x.type.dtype, (*at.dims, *rest), (0,))

    def windows(self, x: Tensor, size: ir.Extent, axis: int) -> Tensor:
        """Return sliding windows along an axis, which is replaced by two: the windows, and the elements of each."""
        many = self.w.scalar("add", self.w.scalar("sub", self.w.extent(x.dims[axis]), self.w.extent(size)), number(1))
        message = "window shape cannot be larger than input array shape"
        self.w.check(self.w.scalar("gt", many, number(0)), "ValueError", message)
        if self.w.block is None:
            raise Dead
        dims = (*x.dims[:axis], self.w.as_extent(many), size, *x.dims[axis + 1 :])
        return self.op("windows", (x.ref,), x.type.dtype, dims, (axis,), base=x)

    def scatter(self, x: Tensor, places: Tensor, n: ir.Extent) -> Tensor:
        """Return `n` rows; row k is the sum, in order, of the rows of `x` whose checked position in `places` is k."""
        return self.op("scatter", (x.ref, places.ref), x.type.dtype, (n, *x.dims[1:]), (0,))

    def concat(self, tensors: list[Tensor], axis: int, dtype: str | None = None) -> Tensor:
        if not tensors:
            raise self.w.reject("ACR401", seen="no arrays to concatenate")
        rank = tensors[0].type.rank
        if any(t.type.rank != rank for t in tensors):
            raise self.mismatch(", ".join(map(self.w.describe, tensors)), "arrays of one rank: `x[None]` adds an axis")
        if not rank:
            raise self.mismatch("numbers, which cannot be concatenated", "use np.stack")
        axis = self.axes_of(axis, rank)[0]
        cast = self.promote if dtype is None else self.cast
        dtype = dtype or self.dtype_name(np.result_type(*(np.dtype(t.type.dtype) for t in tensors)))
        tensors = [cast(t, dtype) for t in tensors]
        dims = list(tensors[0].dims)
        for t in tensors[1:]:
            for a in range(rank):
                if a != axis:
                    dims[a] = self.same_extent(dims[a], t.dims[a], "dimensions of concatenated arrays")
        total = number(0)
        for t in tensors:
            total = self.w.scalar("add", total, self.w.extent(t.dims[axis]))
        tensors = [self.refine(t, (*dims[:axis], t.dims[axis], *dims[axis + 1 :])) for t in tensors]
        dims[axis] = self.w.as_extent(total)
        if len(tensors) == 1:
            return tensors[0]
        return self.op("concat", [t.ref for t in tensors], dtype, dims, (axis,))

    def stack(self, tensors: list[Tensor], axis: int) -> Tensor:
        rank = tensors[0].type.rank + 1
        axis = self.axes_of(axis, rank)[0]
        if any(t.type.rank != rank - 1 for t in tensors):
            raise self.mismatch(", ".join(map(self.w.describe, tensors)))
        out = self.concat([self.reshape(t, (*t.dims[:axis], 1, *t.dims[axis:])) for t in tensors], axis)
        return replace(out, known=tensors[0].known) if len(tensors) == 1 else out

    def split(self, x: Tensor, sections: int | Sequence[Num], axis: int) -> list[Tensor]:
        """Split a tensor along an axis, into equal parts or at given indices."""
        axis = self.axes_of(axis, x.type.rank)[0]
        d = x.dims[axis]
        cuts: list[tuple[Num, Num]] = []
        if isinstance(sections, int):
            if sections <= 0:
                raise self.w.reject("ACR404", seen=f"a split into {sections} parts")
            if isinstance(d, int):
                if d % sections:
                    raise self.w.reject("ACR404", seen=f"a dimension of {d} in {sections} equal parts")
                size = number(d // sections)
            else:
                rest = self.w.scalar("mod", self.w.extent(d), number(sections))
                message = "array split does not result in an equal division"
                self.w.check(self.w.scalar("eq", rest, number(0)), "ValueError", message)
                size = self.w.scalar("floordiv", self.w.extent(d), number(sections))
            cuts = [(self.w.scalar("mul", size, number(k)), size) for k in range(sections)]
            parts = [(self.w.as_extent(a), 1, self.w.as_extent(n)) for a, n in cuts]
        else:
            bounds: list[Num | None] = [None, *sections, None]
            parts = [self.slice_part(d, a, b, 1) for a, b in itertools.pairwise(bounds)]
        whole: list[tuple[ir.Extent, int, ir.Extent]] = [(0, 1, n) for n in x.dims]
        return [self.slice(x, [*whole[:axis], p, *whole[axis + 1 :]]) for p in parts]

    # ---- creation

    def full(self, dims: Sequence[ir.Extent], value: Num | Tensor, dtype: str | None) -> Tensor:
        if isinstance(value, Num):  # a float becomes an array first, which is then cast, without a check
            dtype = dtype or self.natural(value)
            first = "int64" if dtype == "bool" and value.type == INT else dtype
            first = "float64" if value.type == FLOAT and dtype != "float32" else first
            scalar = self.cast(self.from_number(value, first), dtype)
        else:
            scalar = self.cast(value, dtype or value.type.dtype)
        self.not_negative(dims)
        out = self.as_array(self.broadcast_to(scalar, dims))
        out.filled = scalar
        return out

    def not_negative(self, dims: Sequence[ir.Extent]) -> None:
        """Check that extents computed by the user are not negative."""
        message = "negative dimensions are not allowed"
        for d in dims:
            if isinstance(d, ir.Var):
                self.w.check(self.w.scalar("ge", self.w.extent(d), number(0)), "ValueError", message)
            elif d < 0:
                raise self.w.reject("ACR401", seen=f"a dimension of {d}")

    def iota(self, n: ir.Extent, dtype: str) -> Tensor:
        return self.op("iota", (), dtype, (n,))

    def arange(self, start: Num, stop: Num, step: Num, dtype: str | None) -> Tensor:
        if dtype == "bool":
            raise self.w.reject("ACR202", seen="np.arange of bools")
        if FLOAT in (start.type, stop.type, step.type):
            values = [self.w.known(v) for v in (start, stop, step)]
            if NOT_CONST in values:
                raise self.w.reject("ACR403", seen="np.arange of floats that are known only at run time")
            array = np.arange(*values, dtype=dtype)
            name = self.dtype_name(array.dtype)
            parts = [self.from_number(number(v.item()), name) for v in array]
            return self.stack(parts, 0) if parts else self.full((0,), number(0), name)
        start, stop, step = (self.w.as_int(self.w.read(v)) for v in (start, stop, step))
        message = "Maximum allowed size exceeded"
        self.w.check(self.w.scalar("ne", step, number(0)), "ZeroDivisionError", message)
        gap = self.w.scalar("sub", stop, start)
        count = self.w.scalar("neg", self.w.scalar("floordiv", self.w.scalar("neg", gap), step))
        count = self.w.scalar("max", count, number(0))
        out = self.iota(self.w.as_extent(count), dtype or "int64")
        if step.const != 1:
            out = self.element("mul", [out, self.from_number(step, out.type.dtype)], out.type.dtype)
        if start.const != 0:
            out = self.element("add", [out, self.from_number(start, out.type.dtype)], out.type.dtype)
        return out

    def eye(self, rows: ir.Extent, columns: ir.Extent, k: int, dtype: str) -> Tensor:
        self.not_negative((rows, columns))
        i = self.reshape(self.iota(rows, "int64"), (rows, 1))
        j = self.reshape(self.iota(columns, "int64"), (1, columns))
        if k:
            i = self.element("add", [i, self.from_number(number(k), "int64")], "int64")
        return self.cast(self.element("eq", [i, j], "bool"), dtype)

    def only_element(self, x: Tensor, empty: str, several: str) -> Tensor:
        """Return the only element of an array as a tensor of rank 0.

        An array of another size is rejected if its size is known; else the instance fails with one of the messages.
        """
        if not x.type.rank:
            return x
        n = self.count(x.dims)
        if n.const is not NOT_CONST and n.const != 1:
            raise self.w.reject("ACR601", seen=self.w.describe(x))
        error = "RuntimeError" if self.w.facts.tensors else "ValueError"
        if empty != several:
            self.w.check(self.w.scalar("gt", n, number(0)), error, empty)
        self.w.check(self.w.scalar("eq", n, number(1)), error, several)
        if self.w.block is None:
            return self.op("reshape", (x.ref,), x.type.dtype, ())
        return self.reshape(x, ())

    def some_arrays(self, val: ListVal, what: str) -> None:
        """Check that a list is not empty; raise `Dead` if it is always empty."""
        some = self.w.scalar("gt", self.list_lengths(val), number(0))
        self.w.check(some, "ValueError", f"need at least one array to {what}")
        if val.item == NEVER:
            raise self.w.never()

    def stack_rows(self, val: ListVal, axis: int, dtype: str | None = None, empty: bool = False) -> Tensor:
        """Stack a list of numbers, or of arrays of one known shape; `empty`: a list of numbers may be empty."""
        item = val.item
        if item == NEVER and empty:
            return self.full((0,), number(0), dtype or "float64")
        n = self.list_lengths(val)
        if not (empty and (isinstance(item, IntT | FloatT | BoolT) or (isinstance(item, TensorT) and not item.rank))):
            self.some_arrays(val, "stack")
        if isinstance(item, IntT | FloatT | BoolT):
            item = TensorT(HOST[item], ())
        if not isinstance(item, TensorT):
            raise self.w.reject("ACR301", seen=f"a stack of {self.w.describe(val)}")
        dims = (self.w.as_extent(n), *(d for d in item.shape if d is not None))
        # The operation runs later: it reads a copy of the list, which nothing mutates.
        copy = self.w.var("rows", ListT(val.item))
        args = (val.var, self.w.word(number(0)), self.w.word(number(1)), self.w.word(n))
        self.w.emit(ir.ListOp(outs=(copy,), op="slice", width=self.width(val), args=args, loc=self.w.loc))
        out = self.op("stack", (copy,), item.dtype, dims)
        if dtype is not None:
            out = self.cast(out, dtype)
        if axis != 0:
            axis = self.axes_of(axis, out.type.rank)[0]
            order = list(range(1, out.type.rank))
            order.insert(axis, 0)
            out = self.transpose(out, order)
        return out

    def concat_rows(self, val: ListVal, axis: int) -> Tensor:
        """Concatenate a list of arrays of one known shape."""
        stacked = self.stack_rows(val, 0)
        rank = stacked.type.rank - 1
        if not rank:
            raise self.w.reject("ACR401", seen=self.w.describe(val), rewrite="use np.stack")
        axis = self.axes_of(axis, rank)[0]
        order = list(range(1, rank + 1))
        order.insert(axis, 0)
        moved = self.transpose(stacked, order)
        joined = self.w.as_extent(self.count([moved.dims[axis], moved.dims[axis + 1]]))
        return self.reshape(moved, (*moved.dims[:axis], joined, *moved.dims[axis + 2 :]))
