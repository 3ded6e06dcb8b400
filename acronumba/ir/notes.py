"""What the analyses found out, for `Model.explain`: a note belongs to a place in the user's source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acronumba.errors import Loc


@dataclass(frozen=True, slots=True)
class Kind:
    """What can happen to an expression."""

    meaning: str  # for the legend of an explanation
    colour: str = "blue"
    told: str = ""  # the stage whose text is what was decided so; "" if there is none


KINDS: dict[str, Kind] = {  # in the order in which they are shown
    "unrolled": Kind("a short loop as one straight line: kernels reach from turn to turn"),
    "shared": Kind("the same tensor for all instances: not gathered", "cyan"),
    "row": Kind("a row of a table that all instances share", "cyan"),
    "once": Kind("computed once per mini-batch", "cyan", told="once"),
    "duplicated": Kind("the code has a copy for this context", told="copies"),
    "merged": Kind("kernels of several contexts are one, as a copy does not pay", told="copies"),
    "hoisted": Kind("a block of its own, as no recursion or loop carries what it reads", "green", told="hoist"),
    "moved": Kind("does not change in the loop: computed before it", "green", told="invariant"),
    "rows": Kind("recorded row by row, so that lengths do not matter", "green"),
    "fused": Kind("computed in the same block as another operation", "magenta"),
    "ghost": Kind("an arm of the branch waits for the other, so that instances line up", "yellow"),
    "fibers": Kind("goes on beside others of the same instance while it waits"),
    "serial": Kind("waits for others of the same instance, as it may need them"),
    "kept": Kind("kept for the way back: the gradient of its kernel reads it", "magenta"),
    "stops": Kind("no gradient goes through here", "yellow"),
    "wait": Kind("needs the value of a tensor: what was recorded so far runs first", "red"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One decision of one analysis."""

    loc: Loc  # where
    kind: str  # a key of `KINDS`
    text: str  # what and why, one plain sentence without a full stop
    option: str  # the option that switches it off; "" if none does


def notes_text(notes: Sequence[Note]) -> str:
    """Return notes as text, one line each."""
    return "".join(f"{n.loc.function} line {n.loc.line}: {n.kind}: {n.text}\n" for n in notes) or "nothing\n"


def told_in(stage: str, notes: Sequence[Note]) -> str:
    """Return the text of a stage that is what was decided in it."""
    return notes_text([note for note in notes if KINDS[note.kind].told == stage])
