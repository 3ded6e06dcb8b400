"""Sets in Python's order, as the interpreter has them: a list of entries, and the set of Python that it stands for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from acronumba.ir import nodes as ir
from acronumba.ir.types import ORDER, ListT, TupleT, Type, Word, entry_widths
from acronumba.ir.values import List, WordValue, unflatten

_OWN = frozenset(("next", "clone", "order"))
_CHANGES = frozenset("put remove update erase meet minus narrow exclude toggle".split())


def is_own(op: str, this: WordValue = None) -> bool:
    """Whether an operation on lists is one on sets in Python's order."""
    return op in _OWN or (op in _CHANGES and this.order is not None)


def reads_tables(program: ir.Program) -> bool:
    """Whether a program reads Python's tables of sets of the instance data."""
    instrs = (i for f in program.functions for block in f.blocks for i in block.instrs)
    return any(isinstance(i, ir.ListOp) and i.op == "clone" for i in instrs)


def is_ordered(item: Type) -> bool:
    """Whether lists with such elements are sets that have Python's order."""
    return isinstance(item, TupleT) and item.items[-1:] == (ORDER,)


def new(item: Type, given: List | None = None) -> List:
    """Return a new set, or a copy of a set of the instance data that is not changed."""
    if given is None:
        return List(item, [], 0, order=set())
    return List(item, list(given.words), given.count, order=given.origin)


def in_order(this: List, item: Type) -> List:
    """Return the list of the elements, in Python's order."""
    known = entries(this)
    order = known if this.order is None else this.order  # one of the data has its order
    return List(item, [word for k in order for word in known[k]], this.count)


def next_index(this: List) -> int:
    """Return the index of the element that `pop` takes, -1 if there is none. The next operation takes its entry out."""
    return list(entries(this)).index(this.order.pop()) if this.order else -1


def operate(op: str, args: Sequence[WordValue], outs: Sequence[Word]) -> tuple[WordValue, ...]:
    """Execute an operation and return the words of its results."""
    this = args[0]
    if op == "next":
        return (next_index(this),)
    if op in _OWN:
        (made,) = outs
        assert isinstance(made, ListT)
        return (new(made.item, this) if op == "clone" else in_order(this, made.item),)
    change(op, this, args[1:])
    return ()


def element(this: List, key: Sequence[WordValue]) -> Hashable:
    """Return the element of a set from its words."""
    assert isinstance(this.item, TupleT)
    return unflatten(key, this.item.items[0])  # type: ignore[no-any-return]


def entries(this: List) -> dict[Hashable, list[WordValue]]:
    """Return the words of each element."""
    width, _ = entry_widths(this.item)
    rows = [this.words[k * width : (k + 1) * width] for k in range(this.count)]
    return {element(this, row): row for row in rows}


def change(op: str, this: List, args: Sequence[WordValue]) -> None:
    """Carry out an operation that changes a set: on Python's set, from whose elements the entries follow."""
    known = entries(this)
    given: dict[Hashable, list[WordValue]] = {}
    for other in args:
        if isinstance(other, List):
            key, width = entry_widths(other.item)
            rows = [other.words[k * width : k * width + key] for k in range(other.count)]
            given |= {element(this, row): row for row in rows}
    known = given | known
    others = [a.order if isinstance(a, List) else a for a in args]
    match op:
        case "put":
            made = element(this, args)
            known.setdefault(made, list(args))
            this.order.add(made)
        case "remove":
            this.order.discard(list(entries(this))[args[0]])
        case "erase":
            this.order.clear()
        case "update":
            (other,) = args
            this.order.update(given if other.order is None else other.order)
        case "meet":
            this.order = others[0] & others[1]
        case "minus":
            this.order = others[0] - others[1]
        case "exclude":
            this.order -= others[0]
        case "toggle":
            this.order ^= others[0]
        case "narrow":
            this.order &= others[1]
    kept = [k for k in known if k in this.order]
    this.words[:] = [word for k in kept for word in known[k]]
    this.count, this.index = len(kept), None
