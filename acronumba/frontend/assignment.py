"""Assignment to names, items and tuples of targets; `x op= y`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from acronumba.data.shared import SharedNode
from acronumba.frontend.arrays import WHERE_IT_WAS_MADE, as_view, came_in, count_indices, own_root, written_tensor
from acronumba.frontend.attributes import attribute_of, attribute_owner, not_none
from acronumba.frontend.chosen import is_array
from acronumba.frontend.columns import column
from acronumba.frontend.comprehensions import as_iterable, extend, to_list
from acronumba.frontend.dicts import changed_in_place
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import AUGMENTED, STATEMENTS, STORED, TARGETS, UNPACKED, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.iterators import Zip
from acronumba.frontend.kinds.lists import ListVal, is_row
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.numbers import NoneVal, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Index, Val
from acronumba.frontend.library.itertools import sliced
from acronumba.frontend.lists import list_slice, new_list
from acronumba.frontend.made import about_to_change, set_attribute
from acronumba.frontend.magic import call_special, has_method, index_value, iterated
from acronumba.frontend.names import alias, bind_name, forget, in_use, path_of
from acronumba.frontend.operators import BINARY, MAGIC, OPERATORS, binary
from acronumba.frontend.overlay import note_target
from acronumba.frontend.records import record_in_place
from acronumba.frontend.subscripts import (
    each_place,
    get_item,
    index_parts,
    item_in_pieces,
    item_of_axes,
    item_place,
    not_assignable,
    set_in_pieces,
    set_item,
)
from acronumba.frontend.walker import Walker
from acronumba.frontend.writing import assign_item, change_item, each_index, index_places
from acronumba.ir import nodes as ir
from acronumba.ir.types import ArrayT, TupleT


def assign_starred(w: Walker, elts: Sequence[ast.expr], val: Val) -> None:
    """Assign the items of a value to several targets, of which one is starred."""
    if val.is_lazy:
        val = as_iterable(w, val)
    items = w.items_of(val)
    at = next(k for k, e in enumerate(elts) if isinstance(e, ast.Starred))
    after = len(elts) - at - 1
    if items is None:
        xs = to_list(w, not_none(w, val) if isinstance(val, UnionVal) else val)
        n = w.ops.list_lengths(xs)
        text = f"not enough values to unpack (expected at least {at + after}, got {{0}})"
        w.check(w.scalar("ge", n, number(at + after)), "ValueError", text, (n,))
        for k, e in enumerate(elts):
            if isinstance(e, ast.Starred):
                rest = w.scalar("sub", n, number(at + after))
                w.assign(e.value, list_slice(w, xs, number(at), 1, rest))
                continue
            place = number(k) if k < at else w.scalar("sub", n, number(len(elts) - k))
            w.assign(e, xs.item_at(w, place))
        return
    if len(items) < at + after:
        rejection = w.reject("ACR305", seen=f"{len(items)} values for at least {at + after} names")
        text = f"not enough values to unpack (expected at least {at + after}, got {len(items)})"
        raise w.fails("ValueError", rejection, text)
    star = elts[at]
    assert isinstance(star, ast.Starred)
    middle = items[at : len(items) - after]
    for e, v in zip(elts[:at], items[:at], strict=True):
        w.assign(e, v)
    w.assign(star.value, new_list(w, middle))
    for e, v in zip(elts[at + 1 :], items[len(items) - after :], strict=True):
        w.assign(e, v)


def unpack(w: Walker, val: Val, count: int) -> Sequence[Val]:
    """Return the items of a value that is unpacked into `count` names."""
    w.check_poison(val)
    if val.is_lazy:  # one item too many is asked for
        val = as_iterable(w, w.call(w.constant(sliced), (val, number(0), number(count + 1), number(1)), {}))
    if has_method(w, val, "__iter__"):
        return unpack(w, iterated(w, val), count)
    items = w.items_of(val)
    if items is not None:
        if len(items) != count:
            rejection = w.reject("ACR305", seen=f"{len(items)} values for {count} names")
            raise w.fails("ValueError", rejection, f"expected {count} values to unpack, got {len(items)}")
        return items
    handler = _of_union if val.nests and val.is_several else UNPACKED.get(type(val))
    if handler is not None:
        return handler(w, val, count)
    if not val.iterable:
        raise impossible(w, iter, (val,), w.reject("ACR305", seen=f"{w.describe(val)} cannot be unpacked"))
    return _of_list(w, to_list(w, val), count)


@handles(UNPACKED, ListVal)
def _of_list(w: Walker, val: ListVal, count: int) -> Sequence[Val]:
    length = w.ops.list_lengths(val)
    text = f"expected {count} values to unpack, got {{0}}"
    w.check(w.scalar("eq", length, number(count)), "ValueError", text, (length,))
    return [val.item_at(w, number(k)) for k in range(count)]


@handles(UNPACKED, Tensor, ArrayRef)
def _of_array(w: Walker, val: Tensor | ArrayRef, count: int) -> Sequence[Val]:
    if not val.dims:
        raise impossible(w, iter, (val,), w.reject("ACR305", seen=f"{w.describe(val)} cannot be unpacked"))
    n = w.ops.same_extent(val.dims[0], count, "values to unpack")
    x = w.ops.refine(val, (n, *val.dims[1:])) if isinstance(val, Tensor) else val
    return [get_item(w, x, number(k)) for k in range(count)]


@handles(UNPACKED, UnionVal)
def _of_union(w: Walker, val: Val, count: int) -> Sequence[Val]:
    got = w.each(val, lambda v: TupleVal(tuple(unpack(w, v, count))), itself=True)
    return unpack(w, got, count)


@handles(UNPACKED, Zip)
def _of_columns(w: Walker, val: Zip, count: int) -> Sequence[Val]:
    """`xs, ys = zip(*pairs)`."""
    rows = val.parts[0]
    if val.starred and isinstance(rows, ListVal) and isinstance(t := rows.item, TupleT) and len(t.items) == count:
        text = f"not enough values to unpack (expected {count}, got 0)"
        w.check(rows.truth(w), "ValueError", text)
        return [column(w, rows, number(k)) for k in range(count)]
    return _of_list(w, to_list(w, val), count)


@handles(STATEMENTS, ast.AugAssign)
def _augmented(w: Walker, stmt: ast.AugAssign) -> None:
    with rejected_alone(w, [stmt.target]):
        augmented(w, stmt)


def augmented(w: Walker, stmt: ast.AugAssign) -> None:
    """Walk `x op= y`."""
    target = stmt.target
    if isinstance(target, ast.Subscript):
        found = item_in_pieces(w, target)
        if found is not None and is_row(found[1]):
            new = updated(w, found[1].items[found[2]], stmt)
            if w.state.get(found[0]) is found[1] and set_in_pieces(w, target, new):
                return
            raise w.reject("ACR209", seen=ast.unparse(target), rewrite=_written_out(stmt))
        with w.at_node(target):
            base, where, within = item_place(w, target)
            each_place(w, base, lambda b: change_of(w, within(b), where, target, stmt))
        return
    if isinstance(target, ast.Attribute):
        with w.at_node(target):
            owner = attribute_owner(w, target)
            about_to_change(w, owner)
            old = attribute_of(w, owner, target)
            new = updated(w, old, stmt)
            if new is not old and type(old) not in AUGMENTED:
                set_attribute(w, owner, target.attr, new)
        return
    assert isinstance(target, ast.Name)
    old = w.value(ast.copy_location(ast.Name(target.id, ast.Load()), target))
    new = updated(w, old, stmt)
    if new is not old and type(old) not in AUGMENTED:
        forget(w, w.frame.scope, target.id)
        with w.at_node(target):
            bind_name(w, target.id, new)


def updated(w: Walker, old: Val, stmt: ast.AugAssign) -> Val:
    """Return the new value of the target of an augmented assignment."""
    with w.at_node(stmt):
        return in_place(w, old, w.expr(stmt.value), stmt)


def change_of(w: Walker, base: Val, where: Index, target: ast.Subscript, stmt: ast.AugAssign) -> None:
    """`x[i] op= y`."""
    if isinstance(base, Tensor | ArrayRef):
        change_elements(w, base, where, stmt)
        return
    old = get_item(w, base, where)
    if type(base) in STORED:
        STORED[type(base)](w, base, where, updated(w, old, stmt))
        return
    if has_method(w, base, "__setitem__"):
        new = updated(w, old, stmt)
        call_special(w, base, "__setitem__", (index_value(where), new))
        return
    new = updated(w, old, stmt)
    if not base.assignable:  # a list in a tuple has been extended nevertheless
        raise not_assignable(w, base)
    if not isinstance(old, ArrayRef) and type(old) not in AUGMENTED:  # an array has been changed in place
        set_item(w, base, where, target, new)


def change_elements(w: Walker, base: Tensor | ArrayRef, where: Index, stmt: ast.AugAssign) -> None:
    """`x[i] op= y` on an array."""
    assert isinstance(stmt.target, ast.Subscript)
    if isinstance(base, Tensor):
        written_tensor(w, base, "an assignment")
        w.expr(stmt.value)
        return
    change_at(w, base, index_parts(w, base, where), stmt)


def change_at(w: Walker, ref: ArrayRef, where: Sequence[Index], stmt: ast.AugAssign) -> None:
    """`x[i] op= y` on an array that is written to; an index of arrays and masks reads a copy and writes it back."""
    if each_index(w, where, lambda at: change_at(w, ref, at, stmt)):
        return
    places = index_places(w, ref, where)
    if any(map(is_array, places)):
        change_item(w, ref, places, lambda: w.expr(stmt.value), partial(elements_changed, w, stmt))
        return
    old = item_of_axes(w, ref, where)
    with w.at_node(stmt):
        new = changed(w, old, w.expr(stmt.value), stmt)
    assign_item(w, ref, where, new)


def elements_changed(w: Walker, stmt: ast.AugAssign, old: Tensor, value: Val, mask: Tensor | None) -> Val:
    """Return the elements of `old op value`, computed only where a mask is true."""
    name = BINARY.get(type(stmt.op))
    with w.at_node(stmt):
        if mask is None or name is None:
            return changed(w, old, value, stmt)
        return check_fit(w, old, w.ops.ufunc(name, (old, value), mask), stmt)


def changed(w: Walker, old: Val, value: Val, stmt: ast.AugAssign, several: bool = False) -> Val:
    """Return the elements of `old op value`; if `old` is an array, they must fit it as NumPy demands (`check_fit`).

    `several`: `old` is one of several possible arrays; where the elements do not fit, the instance fails.
    """
    before = w.whole(old)
    assert isinstance(before, Tensor)
    array = isinstance(old, ArrayRef) or before.type.rank or before.array0 is not None

    def one(v: Val) -> Val:
        new = w.whole(binary(w, stmt.op, before, v))
        return check_fit(w, before, new, stmt, several) if array and isinstance(new, Tensor) else new

    w.check_poison(value)
    return w.each(w.whole(value), one)


def check_fit(w: Walker, before: Tensor, new: Tensor, stmt: ast.AugAssign, several: bool = False) -> Tensor:
    """Check that new elements fit an array in place: a dtype that can be cast to its own, and its shape."""
    fits = np.can_cast(new.type.dtype, before.type.dtype, "same_kind")
    if fits and new.type.rank == before.type.rank:
        for a, b in zip(before.dims, new.dims, strict=True):
            w.ops.same_extent(a, b, "in-place result")
        return new
    if several:
        text = f"{w.describe(before)} cannot become {w.describe(new)} in place"
        w.fail("ValueError" if fits else "TypeError", text)
        raise Dead
    seen = f"{w.describe(before)} would become {w.describe(new)}"
    raise w.reject("ACR112", seen=seen, rewrite=_written_out(stmt))


def in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign, several: bool = False) -> Val:
    """Return the value of `old op= value`: the same list or array, changed in place, or the value of `old op value`."""
    w.check_poison(old, value)
    if isinstance(old, UnionVal):
        itself = all(isinstance(t, ArrayT) for t in old.possible)  # each possible array is changed in place
        own = old.is_own

        def one(v: Val) -> Val:
            x = v.children()[0].marked if v.is_tensor else v.marked
            if own and x is not None:
                x.named = False  # the name is bound to the result
            new = in_place(w, v, value, stmt, True)
            return NoneVal() if itself else new

        new = w.each(old, one, itself=True)
        return old if itself else new
    if isinstance(old, ArrayRef):  # all its elements change, for every name
        assign_item(w, old, (), changed(w, old, value, stmt, several))
        return old
    handler = AUGMENTED.get(type(old))
    if handler is not None:
        return handler(w, old, stmt.op, value)  # type: ignore[no-any-return]
    for kind in (list_in_place, record_in_place, map_in_place, method_in_place):
        found = kind(w, old, value, stmt)
        if found is not None:
            return found
    return operator_in_place(w, old, value, stmt)


def list_in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign) -> Val | None:
    """`old += value` of a list, which is mutated; None for other values and operators."""
    if not old.is_list or isinstance(value, Tensor):  # NumPy takes an array's operator before the list's
        return None
    if isinstance(stmt.op, ast.Mult):
        seen = f"*= of {w.describe(old)}, which may have another name"
        raise w.reject("ACR209", seen=seen, rewrite=_written_out(stmt))
    items = old.mutable(w) if isinstance(stmt.op, ast.Add) else None
    if isinstance(items, ListVal):
        extend(w, items, value)
    return items


def map_in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign) -> Val | None:
    """`old |= value` of a dict or set, which is mutated; None for other values and operators."""
    known = old.python_class in (dict, set, defaultdict)
    entries = old.hashed(w) if known and isinstance(stmt.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor) else None
    return changed_in_place(w, stmt.op, entries, value) if isinstance(entries, MapVal) else None


def method_in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign) -> Val | None:
    """`old op= value` of an object with a method for it; None if its class has none."""
    magic = f"__i{MAGIC[type(stmt.op)]}__"
    if has_method(w, old, magic):
        return call_special(w, old, magic, (value,))
    if old.python_class not in (list, dict, set) and w.has(old.python_class, magic):
        raise w.reject("ACR209", seen=magic, rewrite=_written_out(stmt))
    return None


def operator_in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign) -> Val:
    """Return the value of `old op value`, which must fit `old` if that is an array."""
    new = binary(w, stmt.op, old, value)
    if not isinstance(old, Tensor) and w.block is not None:  # a number, say, that becomes an array
        return w.made(new)
    if isinstance(old, Tensor) and (old.type.rank or old.array0 is not None):
        check_in_place(w, old, new, stmt)
    if isinstance(new, Tensor):
        kept = old.array0 if isinstance(old, Tensor) else None
        places = old.places if isinstance(old, Tensor) else ()
        new = Tensor(new.type, new.ref, new.dims, fresh=True, array0=kept, places=places)
    return new


def check_in_place(w: Walker, old: Tensor, new: Val, stmt: ast.AugAssign) -> None:
    """Reject `x op= y` where it is not the same as `x = x op y`."""
    name = ast.unparse(stmt.target)
    rewrite = own_root(w, name) or _written_out(stmt)  # an input takes no new value either
    own = old.own and not in_use(w, old)
    if old.array0 is not None and old.array0.const is not True:
        seen = f"{name} may be an array of rank 0, which keeps its place, or a NumPy scalar"
        raise w.reject("ACR112", seen=seen, rewrite=rewrite)
    other = not isinstance(new, Tensor) or new.type.dtype != old.type.dtype or new.type.rank != old.type.rank
    if not own and old.whole.read_from is not None:
        count_indices(w, old.whole.read_from.place)
    if (not own or other) and old.whole.places:  # an array that is written to, from the next iteration on
        written_tensor(w, old, "an assignment")
        return
    if not own or isinstance(old.ref, ir.SharedArg):
        rewrite = as_view(w, old, name) or (rewrite if came_in(w, old) else WHERE_IT_WAS_MADE)
        raise w.reject("ACR112", seen=f"{name}, {w.describe(old)}, may be seen elsewhere", rewrite=rewrite)
    if other:
        seen = f"{w.describe(old)} would become {w.describe(new)}"
        raise w.reject("ACR112", seen=seen, rewrite=rewrite)
    if isinstance(new, Tensor):
        for a, b in zip(old.dims, new.dims, strict=True):
            w.ops.same_extent(a, b, "in-place result")


def _written_out(stmt: ast.AugAssign) -> str:
    """Return the assignment that makes a new value, as text: `x = x + y` for `x += y`."""
    place = ast.unparse(stmt.target)
    return f"{place} = {place} {OPERATORS[type(stmt.op)]} {ast.unparse(stmt.value)}"


@contextmanager
def rejected_alone(w: Walker, targets: Iterable[ast.expr]) -> Iterator[None]:
    """If an assignment to a field is rejected, make the field an `ErrorValue`: reads of it are no further errors."""
    try:
        yield
    except Rejected:
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            for e in parts:
                owner = _known_owner(w, e.value) if isinstance(e, ast.Attribute) else None
                if owner is not None:
                    note_target(w, owner, e.attr)  # type: ignore[attr-defined]
            paths = [path_of(w, e) for e in parts if isinstance(e, ast.Attribute)]
            w.state |= {path: ErrorValue() for path in paths if path is not None}
        raise


def _known_owner(w: Walker, expression: ast.expr) -> Val | None:
    """Return the value of a local name, or of a part of a shared object, without evaluating it; None for others."""
    if isinstance(expression, ast.Attribute):
        base = _known_owner(w, expression.value)
        part = base.node.item(expression.attr) if isinstance(base, SharedVal) else None
        return SharedVal(part) if isinstance(part, SharedNode) else None
    path = path_of(w, expression) if isinstance(expression, ast.Name) else None
    return None if path is None else w.state.get(path)


@handles(STATEMENTS, ast.Assign)
def _assign(w: Walker, stmt: ast.Assign) -> None:
    match stmt:
        case ast.Assign(targets=[ast.Tuple()], value=ast.IfExp(test=test, body=yes, orelse=no)) if _makes_iterator(
            yes
        ) or _makes_iterator(no):
            branches: list[ast.stmt] = [ast.copy_location(ast.Assign(stmt.targets, v), stmt) for v in (yes, no)]
            STATEMENTS[ast.If](w, ast.copy_location(ast.If(test, branches[:1], branches[1:]), stmt))
            return
    with rejected_alone(w, stmt.targets):
        val = w.value(stmt.value)
        if len(stmt.targets) > 1:
            alias(val)
        for target in stmt.targets:
            w.assign(target, val)


def _makes_iterator(call: ast.expr) -> bool:
    """Whether an expression is a call such as `zip(*pairs)`, whose result is unpacked on one of two paths."""
    makers = ("zip", "map", "filter", "reversed", "enumerate")
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in makers


@handles(STATEMENTS, ast.AnnAssign)
def _annotated(w: Walker, stmt: ast.AnnAssign) -> None:
    if stmt.value is not None:
        with rejected_alone(w, [stmt.target]):
            w.assign(stmt.target, w.value(stmt.value))


@handles(TARGETS, ast.Name)
def _to_name(w: Walker, target: ast.Name, val: Val) -> None:
    bind_name(w, target.id, val)


@handles(TARGETS, ast.Tuple, ast.List)
def _to_several(w: Walker, target: ast.Tuple | ast.List, val: Val) -> None:
    elts = target.elts
    if any(isinstance(e, ast.Starred) for e in elts):
        assign_starred(w, elts, val)
        return
    for e, v in zip(elts, unpack(w, val, len(elts)), strict=True):
        w.assign(e, v)


@handles(TARGETS, ast.Subscript)
def _to_item(w: Walker, target: ast.Subscript, val: Val) -> None:
    if set_in_pieces(w, target, val):
        return
    base, where, within = item_place(w, target)
    each_place(w, base, lambda b: store_item(w, within(b), where, val, target))


def store_item(w: Walker, base: Val, where: Index, val: Val, target: ast.Subscript) -> None:
    """`x[i] = v`."""
    if has_method(w, base, "__setitem__"):
        call_special(w, base, "__setitem__", (index_value(where), val))
        return
    handler = STORED.get(type(base))
    if handler is not None:
        handler(w, base, where, val)
    elif isinstance(base, ArrayRef):
        assign_item(w, base, index_parts(w, base, where), val)
    elif isinstance(base, Tensor):
        written_tensor(w, base, "an assignment")
    elif base.assignable:
        set_item(w, base, where, target, val)
    else:
        raise not_assignable(w, base)
