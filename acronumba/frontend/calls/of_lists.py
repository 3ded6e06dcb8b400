"""Methods of lists, but for those of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.calls.of_collections import deque_method
from acronumba.frontend.calls.of_order import sort_list
from acronumba.frontend.comprehensions import as_iterable, extend
from acronumba.frontend.conditions import host_value
from acronumba.frontend.handlers import METHODS, handles
from acronumba.frontend.kinds.lists import ListVal, inner_value
from acronumba.frontend.kinds.numbers import NoneVal, number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.lists import append, checked_index, simple
from acronumba.frontend.names import check_free
from acronumba.ir import nodes as ir
from acronumba.ir.types import words

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@handles(METHODS, ListVal)
def _list_method(w: Walker, base: ListVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Call a method of a list or deque; None if it is not supported, or in the library."""
    if not base.is_list:
        return deque_method(w, base, name, args) if not base.is_plain else None
    match name, args:
        case "append", [val]:
            check_free(w, val)
            append(w, base, val)
            return NoneVal()
        case "extend", [val]:
            extend(w, base, as_iterable(w, val, at_once=False))
            return NoneVal()
        case "pop", [] | [_]:
            n = w.ops.list_lengths(base)
            w.check(w.scalar("gt", n, number(0)), "IndexError", "pop from empty list")
            if args:
                i = checked_index(w, host_value(w, args[0], ".pop()", index=True), n, "pop index out of range")
            else:
                i = w.scalar("sub", n, number(1))
            outs = tuple(w.var("item", t) for t in words(base.item))
            if w.block is not None:
                w.emit(ir.ListOp(outs=outs, op="pop", width=w.ops.width(base), args=(base.var, w.word(i)), loc=w.loc))
            return inner_value(w, base, base.item, outs)
        case "insert", [index, val]:
            n, i = w.ops.list_lengths(base), w.read(w.as_int(host_value(w, index, ".insert()", index=True)))
            i = w.select(
                w.scalar("lt", i, number(0)), w.scalar("max", number(0), w.scalar("add", i, n)), w.scalar("min", i, n)
            )
            append(w, base, val, "insert", i)
            return NoneVal()
        case "sort", []:
            sort_list(w, base, kwargs.get("key", NoneVal()), kwargs.get("reverse", number(False)))
            return NoneVal()
        case "clear" | "reverse", []:
            simple(w, base, "erase" if name == "clear" else name)
            return NoneVal()
    return None
