"""What the analyses found out, for `Model.explain`: a note belongs to a place in the user's source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acronumba.errors import Loc

KINDS = tuple("unrolled shared row once duplicated merged hoisted moved rows fused ghost wait fibers serial".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One decision of one analysis.

    kind        what happened to the expression
    unrolled    the turns of a loop over it are written out, one after the other
    shared      it is the same tensor for all instances
    row         it is a row of a shared table
    once        it is computed once per mini-batch
    duplicated  the code has a copy for this context
    merged      kernels of several contexts are one, as a copy does not pay
    hoisted     it does not depend on what a recursion or loop carries: a kernel of its own
    moved       it does not change in the loop: it is computed before the loop
    rows        it is recorded as rows
    fused       it is computed in the same kernel as another
    ghost       an arm of the branch is padded to the depth of the other
    wait        Python needs its value: what was recorded so far runs first
    fibers      calls, or steps of a loop, that may wait go on side by side
    serial      ... follow each other
    """

    loc: Loc  # where
    kind: str  # one of `KINDS`
    text: str  # what and why, one plain sentence without a full stop
    option: str  # the option that switches it off; "" if none does


def notes_text(notes: Sequence[Note]) -> str:
    """Return notes as text, one line each."""
    return "".join(f"{n.loc.function} line {n.loc.line}: {n.kind}: {n.text}\n" for n in notes) or "nothing\n"
