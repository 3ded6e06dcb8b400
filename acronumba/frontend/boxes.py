"""Names that nested functions bind by `nonlocal`: each is stored in a list of at most one element, shared by them.

Recursions, loops and branches treat it as any list.
"""

from __future__ import annotations

from dataclasses import dataclass

from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.value import StateKey, Val
from acronumba.frontend.lists import append, simple
from acronumba.frontend.names import check_part
from acronumba.frontend.walker import Frame, Walker


@dataclass(frozen=True)
class NonlocalCell:
    """The cell of a name that nested functions bind, too; its list is the value of the name in the state."""

    key: StateKey

    def values(self, w: Walker) -> ListVal:
        """Return the list that contains the value, if the name has one.

        A function that uses the name exists only on paths where the list does.
        """
        found = w.state.get(self.key)
        if found is None and w.errors:
            raise Rejected(None)  # a rejected value is not passed to a recursive function
        if found is None:
            seen = f"{self.key[1]}, a variable of a function made in an earlier iteration of a loop"
            raise w.reject("ACR206", seen=seen)
        w.check_poison(found)
        values = found.bound_value()
        assert isinstance(values, ListVal)
        return values

    def read(self, w: Walker, name: str) -> Val:
        """Return the value of the name; the instance fails where it has none."""
        values = self.values(w)
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        w.check(w.scalar("gt", w.ops.list_lengths(values), number(0)), "NameError", text)
        if w.block is None:
            raise Dead
        return values.item_at(w, number(0))

    def bind(self, w: Walker, val: Val) -> None:
        """Bind the name to a value."""
        check_part(w, val)
        self.unbind(w)
        append(w, self.values(w), val)

    def unbind(self, w: Walker) -> None:
        """Delete the name."""
        simple(w, self.values(w), "erase")


def open_boxes(w: Walker, frame: Frame) -> None:
    """Make the cells of a function that is about to be walked; those of its parameters have a value."""
    for name in sorted(frame.func.source.facts.boxed):
        key = (frame.scope, name)
        cell = w.cell(("box", frame.path, name))
        w.make_real(cell)
        given = w.state.get(key)
        w.state[key] = values = w.realise(StaticList((), cell))
        if given is not None:
            append(w, values, given)
        w.boxes[key] = NonlocalCell(key)
