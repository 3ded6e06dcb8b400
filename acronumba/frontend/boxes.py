"""Names that nested functions bind by `nonlocal`: each is stored in a list of at most one element, shared by them.

Recursions, loops and branches treat it as any list.
"""

from __future__ import annotations

from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import NAME_BOUND, NAME_READ, handles
from acronumba.frontend.kinds.lists import StaticList
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.unions import NonlocalCell
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.lists import append, simple
from acronumba.frontend.names import check_part
from acronumba.frontend.walker import Frame, Walker


def open_boxes(w: Walker, frame: Frame) -> None:
    """Make the nonlocal cells of a function that is about to be walked; the cells of its parameters have a value."""
    for name in sorted(frame.func.source.facts.boxed):
        cell = w.cell(("box", frame.path, name))
        w.make_real(cell)
        box = NonlocalCell(w.realise(StaticList((), cell)))
        given = w.state.get((frame.scope, name))
        if given is not None:
            append(w, box.inner, given)
        w.state[(frame.scope, name)] = box


@handles(NAME_READ, NonlocalCell)
def _read(w: Walker, box: NonlocalCell, name: str) -> Val:
    """Return the value of a name; the instance fails where it has none."""
    text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
    w.check(w.scalar("gt", w.list_lengths(box.inner), number(0)), "NameError", text)
    if w.block is None:
        raise Dead
    return box.inner.item_at(w, number(0))


@handles(NAME_BOUND, NonlocalCell)
def _bind(w: Walker, box: NonlocalCell, val: Val) -> None:
    check_part(w, val)
    simple(w, box.inner, "erase")
    append(w, box.inner, val)
