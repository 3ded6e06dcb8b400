"""Notes: decisions of the analyses for `Model.explain`, each with its position in the user's source."""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.errors import Loc
from acronumba.records import record


@record()
class NoteKind:
    """A kind of note."""

    meaning: str  # for the legend of an explanation
    colour: str = "blue"
    stage: str = ""  # the stage whose text lists these decisions; "" if none does


KINDS: dict[str, NoteKind] = {  # in the order in which they are shown
    "unrolled": NoteKind("a short unrolled loop: kernels span its iterations"),
    "shared": NoteKind("the same tensor for all instances (shared parameter): not gathered", "cyan"),
    "row": NoteKind("a row of a table that all instances share", "cyan"),
    "once": NoteKind("computed once per mini-batch", "cyan", stage="once"),
    "duplicated": NoteKind("compiled separately for each set of weights or for leaves", stage="copies"),
    "refactored": NoteKind("the matrix product of a call's result is computed inside the call"),
    "merged": NoteKind("copies of a kernel that would bring no benefit are compiled as one", stage="copies"),
    "hoisted": NoteKind("separate kernel: not in the recurrence, all steps batch together", "green", stage="hoist"),
    "moved": NoteKind("loop-invariant: computed once before the loop", "green", stage="invariant"),
    "rows": NoteKind("row-wise: recorded row by row, so that lengths do not matter", "green"),
    "fused": NoteKind("fused with another operation into one kernel stage", "magenta"),
    "rounded": NoteKind("a matrix product whose factors are rounded to fewer bits (option `precision`)", "yellow"),
    "operation": NoteKind("an operation of your own: one call of its kernel for each node", "magenta"),
    "fibers": NoteKind("fork-join: runs concurrently with other fibers of the instance"),
    "serial": NoteKind("waits for other code of the same instance, as it may need its results"),
    "kept": NoteKind("kept for the backward pass: the gradient of its kernel reads it", "magenta"),
    "fails": NoteKind("instances that get here fail, as in Python: this operation raises for any values", "red"),
    "stops": NoteKind("no gradient flows through here", "yellow"),
    "wait": NoteKind("sync point: needs the value of a tensor, so all recorded operations run first", "red"),
}


@record(kw_only=True)
class Note:
    """One decision of one analysis."""

    loc: Loc  # where
    kind: str  # a key of `KINDS`
    text: str  # decision and reason, one plain sentence without a full stop
    option: str  # the option that switches it off; "" if none does


def notes_text(notes: Sequence[Note]) -> str:
    """Return notes as text, one line each."""
    return "".join(f"{n.loc.function} line {n.loc.line}: {n.kind}: {n.text}\n" for n in notes) or "nothing\n"


def decisions_in(stage: str, notes: Sequence[Note]) -> str:
    """Return the text of a stage that lists its decisions."""
    return notes_text([note for note in notes if KINDS[note.kind].stage == stage])
