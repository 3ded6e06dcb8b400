"""Subscripts, lists and comprehensions.

Lists whose items are known stay in pieces until something needs them at run time; others are objects of the heap.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from acronumba.frontend.calls.objects import is_tuple, python_class
from acronumba.frontend.emitter import (
    Dead,
    Resweep,
    is_choosable,
    is_own,
)  # fmt: skip
from acronumba.frontend.source import assigned_names, spot
from acronumba.frontend.tensors import HOST
from acronumba.frontend.values import (
    NOT_CONST,
    Cell,
    Choice,
    DictVal,
    EnumVal,
    Func,
    Generator,
    ListVal,
    NoneVal,
    Num,
    Poison,
    Range,
    Record,
    SharedVal,
    Static,
    StaticList,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    number,
)  # fmt: skip
from acronumba.frontend.walker import UNROLL, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Extent, Var
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    Array0T,
    BoolT,
    FloatT,
    IntT,
    ListT,
    TensorT,
    Type,
    UnionT,
    members,
    union,
    words,
)  # fmt: skip


class Lists(Walker):
    """Subscripts, lists and comprehensions."""

    # ---- subscripts

    def index_of(self, node: ast.expr) -> Any:
        """Evaluate an index: a value, or a `slice` of bounds and an int; a tuple of them for several axes."""
        if isinstance(node, ast.Tuple):
            return tuple(self.index_part(e) for e in node.elts)
        return self.index_part(node)

    def index_part(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Slice):
            return self.expr(node)
        parts = [None if x is None else (self.expr(x), x) for x in (node.lower, node.upper, node.step)]
        start, stop = (None if p is None else self.slice_bound(*p) for p in parts[:2])
        return slice(start, stop, 1 if parts[2] is None else self.slice_step(*parts[2]))

    def slice_bound(self, val: Val, node: ast.AST | None) -> Num | UnionVal | None:
        """Return a bound of a slice: a number, None where there is none, or a value that may be either at run time."""
        if isinstance(val, NoneVal):
            return None
        if isinstance(val, UnionVal):
            return val
        if isinstance(val, Tensor) and val.type.dtype == "uint64":
            val = self.signed(val, node)
        return self.host_value(val, node, "a slice bound", index=True)

    def slice_step(self, val: Val, node: ast.AST) -> int:
        step = 1 if isinstance(val, NoneVal) else self.static(val, node)
        if step is NOT_CONST:
            raise self.refuse("ACR403", node, seen="a slice whose step is known only at run time")
        if not isinstance(step, int):
            raise self.refuse("ACR301", node, seen=f"a slice step of {self.describe(val)}")
        if step == 0:
            self.fail("ValueError", "slice step cannot be zero", node)
            raise Dead
        return int(step)

    def cut(self, length: Extent, where: slice, node: ast.AST) -> tuple[Extent, int, Extent]:
        """Return start, step and count of a slice of a sequence of some length."""
        n, step = self.extent(length), where.step
        ends = (number(0), n) if step > 0 else (self.scalar("sub", n, number(1)), self.scalar("invert", n))
        start, stop = (
            self.bound_or(v, end, node) if isinstance(v, UnionVal) else v
            for v, end in zip((where.start, where.stop), ends, strict=True)
        )
        return self.slice_part(length, start, stop, step, node)

    def bound_or(self, val: UnionVal, end: Num, node: ast.AST) -> Num:
        """Return a bound that may be None at run time, which means the end of the sequence on its side."""

        def one(v: Val) -> Val:
            bound = self.slice_bound(v, node)
            return end if bound is None else self.as_int(bound) if isinstance(bound, Num) else bound

        out = self.each(val, one, node)
        if self.block is None:
            raise Dead
        assert isinstance(out, Num)
        return out

    def subscript(self, base: Val, index: ast.expr, node: ast.AST) -> Val:
        where = self.index_of(index)
        if isinstance(base, UnionVal):
            base = self.not_none(base, node)
        return self.each(base, lambda v: self.get_item(v, where, node), node)

    def get_item(self, base: Val, where: Any, node: ast.AST) -> Val:
        self.check_poison(base)
        if isinstance(base, Tensor):
            if isinstance(where, UnionVal):
                return self.each(where, lambda w: self.get_item(base, w, node), node)
            if not isinstance(where, tuple | slice) and is_tuple(where):  # one index for each axis
                where = self.items_of(where)
            parts = where if isinstance(where, tuple) else (where,)
            for k, v in enumerate(parts):
                if isinstance(v, UnionVal):  # also None, which is a new axis

                    def one(w: Val, k: int = k) -> Val:
                        return self.get_item(base, (*parts[:k], w, *parts[k + 1 :]), node)

                    return self.each(v, one, node)
            return self.index_tensor(base, parts, node)
        if isinstance(where, tuple):
            where = TupleVal(tuple(self._no_slices(where, node)))
        if isinstance(where, UnionVal):
            where = self.not_none(where, node)
            if isinstance(where, UnionVal):
                return self.each(where, lambda w: self.get_item(base, w, node), node)
        match base:
            case DictVal() | SharedVal():
                if isinstance(base, DictVal) or base.node.kind == "dict":
                    return self.dict_item(base, where, node)
            case Static(value=value) if isinstance(value, enum.EnumMeta) and isinstance(where, StrVal):
                return self.constant(value[where.value])
            case Static():  # list[int] in an annotation
                return base
        if isinstance(where, Tensor):
            where = self.list_index(where, node)
        elif isinstance(where, EnumVal):
            where = self.host_value(where, node, "an index of a list", index=True)
        items = self.items_of(base)
        if items is not None:
            if isinstance(where, slice):
                ends = [None if v is None else self.static(v, node) for v in (where.start, where.stop)]
                if NOT_CONST not in ends:
                    part = items[slice(ends[0], ends[1], where.step)]
                    return TupleVal(part) if isinstance(base, TupleVal | Record) else self.new_list(part, node)
                if isinstance(base, StaticList):
                    self.make_real(base.cell)
                if isinstance(base, StaticList | SharedVal) and python_class(base) is list:
                    base = self.at_run_time(base)
            elif isinstance(where, Num):
                where = self.host_value(where, node, "an index of a list", index=True)
                k = self.known(self.as_int(where) if where.type == BOOL else where)
                if k is not NOT_CONST:
                    if not -len(items) <= k < len(items):
                        self.fail("IndexError", "index out of range", node)
                        return Poison()
                    self.check_poison(items[int(k)], node=node)
                    return items[int(k)]
                if not items:
                    self.fail("IndexError", "index out of range", node)
                    return Poison()
                if all(map(is_choosable, items)):
                    return Choice(items, self.checked_index(where, number(len(items)), node))
                if isinstance(base, StaticList):
                    self.make_real(base.cell)
                base = self.at_run_time(base)
        if isinstance(base, ListVal):
            return self.index_list(base, where, node)
        raise self.refuse(
            "ACR301", node, seen=f"{self.describe(base)} cannot be indexed by {self.describe_index(where)}"
        )

    def list_index(self, x: Tensor, node: ast.AST) -> Num:
        """Return the value of a NumPy scalar that is the index of a list."""
        if x.type.dtype == "uint64" and not x.type.rank:
            most = self.from_number(number(2**63 - 1), "uint64", node)
            small = self.host(self.ufunc("le", (x, most), node), "an index of a list", node)
            self.check(small, "IndexError", "cannot fit 'numpy.uint64' into an index-sized integer", (), node)
            x = self.cast(x, "int64", node)
        return self.host_value(x, node, "an index of a list", index=True)

    def _no_slices(self, where: tuple[Any, ...], node: ast.AST) -> Iterator[Val]:
        for w in where:
            if isinstance(w, slice):
                raise self.refuse("ACR301", node, seen="a slice in a tuple index of something that is not an array")
            yield w

    def describe_index(self, where: Any) -> str:
        return "a slice" if isinstance(where, slice) else self.describe(where)

    def dict_item(self, base: Val, where: Any, node: ast.AST) -> Val:
        if not isinstance(where, StrVal):
            raise self.refuse("ACR309", node, seen=self.describe_index(where))
        if isinstance(base, DictVal):
            if where.value in base.keys:
                val = base.items[base.keys.index(where.value)]
                self.check_poison(val, node=node)
                return val
        else:
            assert isinstance(base, SharedVal)
            item = base.node.item(where.value)
            if item is not None:
                return self.shared_value(item)
        self.fail("KeyError", where.value, node)
        return Poison()

    def index_list(self, base: ListVal, where: Any, node: ast.AST) -> Val:
        n = self.list_lengths(base, node)
        if isinstance(where, slice):
            start, step, count = self.cut(self.word(n), where, node)
            return self.list_slice(base, self.extent(start), step, self.extent(count), node)
        if not isinstance(where, Num) or where.type == FLOAT:
            raise self.refuse("ACR301", node, seen=f"an index {self.describe(where)}")
        return self.list_get(base, self.checked_index(where, n, node), node)

    def checked_index(self, where: Num, n: Num, node: ast.AST, text: str = "list index out of range") -> Num:
        """Return an index counted from the front, having checked it."""
        i = self.read(self.as_int(where))
        inside = self.both(self.scalar("ge", i, self.scalar("neg", n)), self.scalar("lt", i, n))
        self.check(inside, "IndexError", text, (), node)
        if i.const is not NOT_CONST:
            return i if i.const >= 0 else self.scalar("add", i, n)
        return self.select(self.scalar("lt", i, number(0)), self.scalar("add", i, n), i)

    def list_get(self, base: ListVal, index: Num, node: ast.AST | None) -> Val:
        outs = tuple(self.var("item", w) for w in words(base.item))
        if self.block is None:
            return Poison()
        if outs:
            args = (base.var, self.word(self.read(index)))
            self.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=self.at(node)))
        return self.element_of(base, outs)

    def element_of(self, base: ListVal, outs: tuple[Var, ...]) -> Val:
        """Return the element of a list that lies in some words."""
        if isinstance(base.item, ListT):
            inner = self.list_of(base.item, outs[0], base.cell.pure)
            return replace(inner, outer=base)
        return self.from_words(base.item, outs)

    def list_slice(self, base: ListVal, start: Num, step: int, count: Num, node: ast.AST) -> ListVal:
        if self.block is None:
            return base
        cell = self.made_cell("slice", base.item, node)
        if base.item == NEVER:  # nothing was ever put into it: the part is a new empty list
            empty = ListVal(cell, self.var("part", ListT(cell.item)))
            self.emit(ir.ListNew(out=empty.var, width=self.width(empty), args=(), count=0, loc=self.at(node)))
            return empty
        out = self.var("part", ListT(base.item))
        args = (base.var, self.word(start), self.word(number(step)), self.word(count))
        self.emit(ir.ListOp(outs=(out,), op="slice", width=self.width(base), args=args, loc=self.at(node)))
        self.mix(cell, base.cell.pure)
        return ListVal(cell, out)

    def made_cell(self, what: str, item: Type, node: ast.AST | None) -> Cell:
        """Return what is known of the lists that an operation makes: they are new, with items of one type.

        `item` is `NEVER` where nothing was ever put into the list that they are made of: more may be put into them.
        """
        key = (what, self.frame.path, *spot(node))
        cell = self.cell(key)
        cell.real = True
        if item == NEVER:
            return cell
        cell.fixed = True
        if cell.item != item:
            cell.item = item
            self.know.changed = True
        return cell

    def place_of(self, target: ast.Subscript) -> tuple[ListVal, Any]:
        """Evaluate the list and the index of an item that is assigned: once, also where it is read first."""
        base = self.expr(target.value)
        self.check_poison(base)
        if isinstance(base, Tensor):
            raise self.refuse("ACR111", target, seen=f"an assignment into {self.describe(base)}")
        if isinstance(base, StaticList):
            self.make_real(base.cell)
            raise Resweep
        if not isinstance(base, ListVal):
            raise self.refuse("ACR113", target, seen=f"an assignment into {self.describe(base)}")
        self.check_mutable(base, target)
        return base, self.index_of(target.slice)

    def set_item(self, base: ListVal, where: Any, target: ast.Subscript, val: Val) -> None:
        if isinstance(where, slice):
            raise self.refuse("ACR109", target, seen="an assignment to a slice of a list")
        if isinstance(where, tuple):
            where = TupleVal(tuple(self._no_slices(where, target)))
        if isinstance(where, Tensor):
            where = self.list_index(where, target.slice)
        where = self.host_value(where, target.slice, "an index of a list", index=True)
        i = self.checked_index(where, self.list_lengths(base, target), target, "list assignment index out of range")
        self.alias(val)
        self.mix(base.cell, is_own(val))
        self.widen_list(base, val)
        args = (base.var, self.word(i), *self.to_words(val, base.item))
        if self.block is not None:
            self.emit(ir.ListOp(outs=(), op="set", width=self.width(base), args=args, loc=self.at(target)))

    def check_mutable(self, base: ListVal, node: ast.AST) -> None:
        self.touch(base)
        if not base.own:
            place = node.func if isinstance(node, ast.Call) else node
            name = ast.unparse(place.value) if isinstance(place, ast.Attribute | ast.Subscript) else "xs"
            rewrite = f"make a copy first: list({name})"
            raise self.refuse("ACR113", node, seen=f"a change of {self.describe(base)}", rewrite=rewrite)

    def touch(self, base: ListVal) -> None:
        """Note that lists of a type are changed."""
        cell = self.cells_by_type(ListT(base.item))
        if not cell.touched:
            cell.touched = True
            self.know.changed = True

    def index_tensor(self, x: Tensor, where: Sequence[Any], node: ast.AST) -> Val:
        """NumPy's basic indexing, and one integer array."""
        ellipsis = [k for k, w in enumerate(where) if isinstance(w, Static) and w.value is Ellipsis]
        if len(ellipsis) > 1:
            raise self.refuse("ACR301", node, seen="two ellipses in one index", rewrite="write one of them as `:`")
        used = sum(
            1 for w in where if not isinstance(w, NoneVal) and not (isinstance(w, Static) and w.value is Ellipsis)
        )
        if used > x.type.rank:
            raise self.refuse("ACR402", node, seen=f"{used} indices for {self.describe(x)}")
        full = [slice(None, None, 1)] * (x.type.rank - used)
        parts = list(where)
        if ellipsis:
            parts[ellipsis[0] : ellipsis[0] + 1] = full
        else:
            parts += full
        arrays = [
            w
            for w in parts
            if isinstance(w, Tensor | StaticList | TupleVal | SharedVal | ListVal)
            and not (isinstance(w, Tensor) and w.type.rank == 0)
        ]
        if len(arrays) > 1 or (arrays and any(isinstance(w, Num | Tensor) and w is not arrays[0] for w in parts)):
            raise self.refuse(
                "ACR202", node, seen="several indices that are arrays", rewrite="index one axis after the other"
            )
        cuts: list[Any] = []
        axis = 0
        for w in parts:  # 1. slices
            if isinstance(w, NoneVal):
                continue
            if isinstance(w, slice):
                cuts.append(self.cut(x.dims[axis], w, node))
            else:
                cuts.append((0, 1, x.dims[axis]))
            axis += 1
        out = self.slice(x, cuts, node)
        axis = 0
        shape: list[Any] = []
        for w in parts:  # 2. integers and arrays, 3. new axes
            if isinstance(w, NoneVal):
                shape.append(1)
                continue
            if isinstance(w, slice):
                shape.append(out.dims[axis])
                axis += 1
                continue
            if isinstance(w, EnumVal):
                w = self.host_value(w, node, "an index of an array", index=True)
            if isinstance(w, Num) and w.type == INT:
                out = self.take(out, w, axis, node)
                continue
            if not isinstance(w, Tensor):
                if self.sequence(w) is None and not isinstance(w, ListVal):
                    raise self.refuse("ACR301", node, seen=f"an index {self.describe(w)}")
                w = self.index_array(w, node)
            if w.type.dtype == "bool":
                raise self.refuse("ACR202", node, seen="a mask as an index: the extent would depend on values",
                                  rewrite="np.where(mask, x, 0)")  # fmt: skip
            if not w.type.rank and w.type.dtype == "uint64":
                w = self.signed(w, node)
            out = self.take(out, w, axis, node)
            for d in w.dims:
                shape.append(d)
                axis += 1
        if any(isinstance(w, NoneVal) for w in parts):
            out = self.reshape(out, shape, node)
        if ellipsis and not out.type.rank:  # an array that may be a view; else a scalar
            return out if out.array0 is not None and out.array0.const is True else replace(out, array0=number(True))
        return self.as_scalar(out)

    def index_array(self, w: Val, node: ast.AST) -> Tensor:
        """Return a sequence of indices as an array; an empty one is of ints, as in NumPy."""
        if isinstance(w, ListVal):
            return self.stack_list(w, 0, node, "int64" if w.item == NEVER else None, empty=True)
        return self.as_tensor(w, node=node)

    def static(self, val: Any, node: ast.AST | None) -> Any:
        """Return the Python value of something known when the model is compiled, NOT_CONST if it is not known."""
        match val:
            case Num():
                return self.known(val)
            case NoneVal():
                return None
            case StrVal(value=value) | Static(value=value):
                return value
            case EnumVal():
                return val.const
            case TupleVal() | StaticList():
                items = [self.static(v, node) for v in val.items]
                return NOT_CONST if NOT_CONST in items else tuple(items)
            case SharedVal(node=shared) if shared.kind in ("tuple", "list"):
                items = [self.static(v, node) for v in self.shared_items(val)]
                return NOT_CONST if NOT_CONST in items else tuple(items)
        return NOT_CONST

    # ---- lists

    def widen_list(self, base: ListVal, val: Val) -> None:
        """Let a list hold a value. A list that lies in another one has the type that the outer one says."""
        t, cell = self.type_of(val), base.cell.find()
        if base.outer is not None and cell.fixed and base.outer.cell.find().item == ListT(cell.item):
            outer = base.outer.cell.find()
            wider = union(cell.item, t)
            if wider != cell.item:
                self.widen_cell(outer, ListT(wider))
                raise Resweep
        self.widen_cell(base.cell, t)

    def append(self, base: ListVal, val: Val, node: ast.AST, op: str = "append", index: Num | None = None) -> None:
        self.check_mutable(base, node)
        self.alias(val)
        self.mix(base.cell, is_own(val))
        self.widen_list(base, val)
        if self.block is None:
            return
        at = () if index is None else (self.word(index),)
        args = (base.var, *at, *self.to_words(val, base.item))
        self.emit(ir.ListOp(outs=(), op=op, width=self.width(base), args=args, loc=self.at(node)))

    def extend(self, base: ListVal, val: Val, node: ast.AST) -> None:
        self.check_mutable(base, node)
        items = self.items_of(val)
        if items is not None:
            for v in items:
                self.append(base, v, node)
            return
        other = self.to_list(val, node)
        if other.item == NEVER:
            return
        self.mix(base.cell, other.cell.pure)
        self.widen_cell(base.cell, other.item)
        if other.item != base.item:
            self.unify_cells(base.cell, other.cell)
        if self.block is not None:
            args = (base.var, other.var)
            self.emit(ir.ListOp(outs=(), op="extend", width=self.width(base), args=args, loc=self.at(node)))

    def uniform(self, val: ListVal, node: Any) -> ListVal:
        """Return a list of arrays (and numbers, which become arrays) as one whose elements all have one type.

        Arrays of several ranks are refused: each list may still hold those of one rank alone. A number among arrays
        with axes fails at run time, as NumPy does.
        """
        if not isinstance(val.item, UnionT | Array0T):
            return val
        kinds: set[TensorT] = set()
        numbers: set[TensorT] = set()
        for m in members(val.item):
            m = m.scalar if isinstance(m, Array0T) else m
            if isinstance(m, TensorT):
                kinds.add(TensorT(m.dtype, (None,) * m.rank))
            elif isinstance(m, IntT | FloatT | BoolT):
                numbers.add(TensorT(HOST[m], ()))
        rank = max((t.rank for t in kinds), default=0)
        if not rank:
            kinds |= numbers
        if len(kinds) != 1:
            raise self.refuse("ACR303", node, seen=self.describe(val))

        def one(v: Val) -> Val:
            x = self.as_scalar(self.as_tensor(v, node=node))
            if x.type.rank != rank:
                self.fail("ValueError", "all input arrays must have the same shape", node)
            return x

        item = ast.Name("#item", ast.Store())
        return self.built(val, node, item, lambda: self.each(self.state[(self.frame.scope, "#item")], one, node), ())

    def stack_list(
        self, val: ListVal, axis: int, node: Any = None, dtype: str | None = None, empty: bool = False
    ) -> Tensor:
        """Stack a list whose length is known only at run time."""
        val = self.uniform(val, node)
        item = val.item
        if not isinstance(item, TensorT) or None not in item.shape:
            return super().stack_list(val, axis, node, dtype, empty)
        self.some_arrays(val, "stack", node)
        axis = self.axes_of(axis, item.rank + 1, node)[0]
        out = self.join_list(val, axis, node, lambda x: self.reshape(x, (*x.dims[:axis], 1, *x.dims[axis:]), node))
        return out if dtype is None else self.cast(out, dtype, node)

    def concat_list(self, val: ListVal, axis: int, node: Any = None) -> Tensor:
        """Concatenate a list whose length is known only at run time."""
        val = self.uniform(val, node)
        self.some_arrays(val, "concatenate", node)
        item = val.item
        if not isinstance(item, TensorT) or None not in item.shape:
            return super().concat_list(val, axis, node)
        return self.join_list(val, self.axes_of(axis, item.rank, node)[0], node, lambda x: x)

    def join_list(self, val: ListVal, axis: int, node: Any, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Concatenate f(x) of all arrays of a list, one after the other: their extents are known only at run time."""
        n = self.list_lengths(val, node)
        key = (self.frame.scope, "#joined")
        first = self.list_get(val, number(0), node)
        assert isinstance(first, Tensor)
        self.state[key] = f(first)

        def turn() -> None:
            joined, x = self.state[key], self.state[(self.frame.scope, "#item")]
            assert isinstance(joined, Tensor) and isinstance(x, Tensor)
            self.state[key] = self.concat([joined, f(x)], axis, node)

        rest = self.list_slice(val, number(1), 1, self.scalar("sub", n, number(1)), node)
        self.iterate(rest, node, ast.Name("#item", ast.Store()), turn, (), (key,))
        out = self.state.pop(key)
        assert isinstance(out, Tensor)
        return out

    def to_list(self, val: Val, node: ast.AST) -> ListVal:
        """Return an iterable as a list at run time (the same one if it is a list)."""
        if isinstance(val, ListVal):
            return val
        if isinstance(val, StaticList):
            return self.realise(val)
        if isinstance(val, Generator):
            got = self.comprehend(val.node)
            return self.to_list(got, node)
        out = self.collect(val, lambda v: v, node)
        return self.realise(out) if isinstance(out, StaticList) else out

    def collect(self, iterable: Val, f: Callable[[Val], Val], node: ast.AST) -> ListVal | StaticList:
        """Return the list of f(item) over an iterable."""
        items = self.items_of(iterable)
        if items is not None:
            got = self.new_list([f(v) for v in items], node)
            assert isinstance(got, ListVal | StaticList)
            return got
        return self.built(
            iterable, node, ast.Name("#item", ast.Store()), lambda: f(self.state[(self.frame.scope, "#item")]), ()
        )

    def built(
        self, iterable: Val, node: ast.AST, target: ast.expr, value: Callable[[], Val], inner: Sequence[ast.AST],
        conditions: Sequence[ast.expr] = (), what: str = "built",
    ) -> ListVal:  # fmt: skip
        """Build a list by a loop at run time; `what` tells the lists apart that one expression builds."""
        cell = self.cell((what, self.frame.path, *spot(node)))
        cell.real = True
        out = ListVal(cell.find(), self.var("list", ListT(cell.find().item)))
        self.emit(ir.ListNew(out=out.var, width=self.width(out), args=(), count=0, loc=self.at(node)))

        def turn() -> None:
            for c in conditions:
                yes, no = self.branch(c)
                self.frame.loops[-1].continues += no
                self.join(yes)
                if self.block is None:
                    return
            val = value()
            if self.block is not None:
                self.append(out, val, node)

        self.iterate(iterable, node, target, turn, inner)
        return out

    def list_concat(self, a: Val, b: Val, node: ast.AST) -> ListVal:
        x, y = self.to_list(a, node), self.to_list(b, node)
        if x.item == NEVER:
            x, y = y, x
        if y.item != NEVER:
            item = union(x.item, y.item)
            for part in (x, y):
                if part.item != item:
                    self.widen_cell(part.cell, item)
        out = self.list_slice(x, number(0), 1, self.list_lengths(x, node), node)
        if y.item == NEVER:
            return out
        self.mix(out.cell, y.cell.pure)
        if out.item != y.item:  # later more is added to the new list than there ever is in the two
            self.unify_cells(out.cell, y.cell)
        if self.block is not None:
            self.emit(ir.ListOp(outs=(), op="extend", width=self.width(out), args=(out.var, y.var), loc=self.at(node)))
        return out

    def list_repeat(self, seq: StaticList | ListVal, times: Num, node: ast.AST) -> Val:
        k = self.known(times)
        if isinstance(seq, StaticList) and k is not NOT_CONST and k <= UNROLL:
            return self.new_list(seq.items * k, node)
        if isinstance(seq, ListVal) or len(seq.items) != 1:
            part = self.to_list(seq, node)
            whole = self.list_slice(part, number(0), 1, number(0), node)
            turns = Range(number(0), times, number(1))
            self.iterate(turns, node, ast.Name("#item", ast.Store()), lambda: self.extend(whole, part, node), ())
            return whole
        cell = self.cell(("repeat", self.frame.path, *spot(node)))
        cell.real = True
        self.widen_cell(cell, self.type_of(seq.items[0]))
        self.mix(cell, is_own(seq.items[0]))
        out = ListVal(cell.find(), self.var("list", ListT(cell.find().item)))
        args = (self.word(self.scalar("max", self.read(times), number(0))), *self.to_words(seq.items[0], out.item))
        self.emit(ir.ListOp(outs=(out.var,), op="fill", width=self.width(out), args=args, loc=self.at(node)))
        return out

    def comprehend(self, node: ast.ListComp | ast.GeneratorExp) -> Val:
        """Evaluate a comprehension: known items one by one, others by a loop."""
        names = assigned_names([ast.Assign([g.target], ast.Constant(0)) for g in node.generators])
        self.counter += 1
        scope = (*self.frame.scope, "comprehension", self.counter)
        first = self.expr(node.generators[0].iter)
        self.scopes[scope] = (names, self._comprehension_func())
        overlays = self.frame.overlays
        overlays.append((scope, names))
        try:
            return self.generators(node, 0, first)
        finally:
            overlays.pop()
            for name in names:
                self.state.pop((scope, name), None)
                self.forget(scope, name)

    def _comprehension_func(self) -> Func:
        func = self.frame.func
        scope = self.frame.overlays[-1][0] if self.frame.overlays else self.frame.scope
        return Func(func.source, func.globals, func.closure, scope, func.fn)

    def generators(self, node: ast.ListComp | ast.GeneratorExp, k: int, iterable: Val) -> Val:
        gen = node.generators[k]
        if gen.is_async:
            raise self.refuse("ACR104", node)
        last = k == len(node.generators) - 1
        items = self.items_of(iterable)
        inner: list[ast.AST] = [ast.Expr(node.elt), *(ast.Expr(c) for g in node.generators[k:] for c in g.ifs)]
        if items is None and isinstance(iterable, Range):
            items = self.unrolled_range(iterable, gen.target, inner)
            if items is not None:
                self.note_turns(len(items), gen.iter)
        if items is not None and last:
            flags = []
            out: list[Val] = []
            static = True
            if gen.ifs:
                saved = self.snapshot(), self.block, self.state
                for item in items:
                    self.assign(gen.target, item)
                    verdict: Any = True
                    for c in gen.ifs:
                        v = self.static(self.expr(c), c)
                        verdict = verdict and v if v is not NOT_CONST else NOT_CONST
                        if verdict is NOT_CONST:
                            break
                    flags.append(verdict)
                static = NOT_CONST not in flags
                self.rollback(saved[0])
                self.block, self.state = saved[1], saved[2]
            if static:
                for n, item in enumerate(items):
                    if flags and not flags[n]:
                        continue
                    self.assign(gen.target, item)
                    val = self.part(node.elt)
                    if self.block is None:
                        return Poison()
                    out.append(val)
                return self.new_list(out, node)
        if last:
            return self.built(iterable, node, gen.target, lambda: self.part(node.elt), inner, gen.ifs)
        cell = self.cell(("nested", self.frame.path, *spot(node), k))
        cell.real = True
        result = ListVal(cell.find(), self.var("list", ListT(cell.find().item)))
        self.emit(ir.ListNew(out=result.var, width=self.width(result), args=(), count=0, loc=self.at(node)))

        def turn() -> None:
            for c in gen.ifs:
                yes, no = self.branch(c)
                self.frame.loops[-1].continues += no
                self.join(yes)
                if self.block is None:
                    return
            part = self.generators(node, k + 1, self.expr(node.generators[k + 1].iter))
            if self.block is not None:
                self.extend(result, part, node)

        self.iterate(iterable, node, gen.target, turn, inner)
        return result
