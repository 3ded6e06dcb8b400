"""What gradients keep and where they stop, for `explain`.

In: an `Active` and what comes back from each kernel. Out: notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from acronumba.analysis.active import Active
from acronumba.analysis.backward.differentiate import Derived
from acronumba.ir.notes import Note
from acronumba.ir.reference import tensor_text
from acronumba.ir.source import spanned
from acronumba.ir.spec import Dim
from acronumba.ir.vjp import NONE


def backward_notes(found: Active, derived: Sequence[Derived]) -> tuple[Note, ...]:
    """Return the notes of a program: each thing once, at its place."""
    return tuple(dict.fromkeys((*_kept(derived), *_stops(found))))


def _kept(derived: Sequence[Derived]) -> Iterator[Note]:
    for d in derived:
        for v in d.kept:
            op = d.forward.body[v - len(d.forward.operands)]
            many = np.dtype(op.dtype).itemsize * int(np.prod([n for n in op.shape if isinstance(n, int)]))
            size = f"{many:,} bytes" if not any(isinstance(n, Dim) for n in op.shape) else f"{many:,} bytes per element"
            yield Note(loc=op.loc, kind="kept", text=f"{tensor_text(op.dtype, op.shape)}, {size} a node", option="")


def _stops(found: Active) -> Iterator[Note]:
    for read in found.stops:
        yield Note(loc=read.loc, kind="stops", text=f"{read.why or 'a number'} makes a number of Python", option="")
    for op in found.ends:
        if op.op == "scale_gradient":
            if "_gradient" in spanned(op.loc):  # not inside of a function of `nn`, where it changes nothing
                yield Note(loc=op.loc, kind="stops", text="as it is asked for", option="")
        elif op.op == "cast":
            yield Note(loc=op.loc, kind="stops", text="a cast to integers or bools", option="")
        elif op.op in NONE:
            yield Note(loc=op.loc, kind="stops", text=f"{op.op}: {NONE[op.op]}", option="")
