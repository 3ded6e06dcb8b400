"""Text about the backward pass: notes on saved values and lost gradients for `explain`; texts for `stages`.

In: an `Active` and the `Backward` of each kernel. Out: notes, or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from acronumba.analysis.active import Active
from acronumba.analysis.backward.derive import Backward, Source
from acronumba.ir.notes import Note
from acronumba.ir.reference import names_of_values, spec_text, tensor_text
from acronumba.ir.source import spanned
from acronumba.ir.spec import Dim
from acronumba.ir.vjp import NONE


def backward_notes(found: Active, derived: Sequence[Backward]) -> tuple[Note, ...]:
    """Return the notes of a program, without duplicates."""
    return tuple(dict.fromkeys((*_kept(derived), *_stops(found))))


def _kept(derived: Sequence[Backward]) -> Iterator[Note]:
    for d in derived:
        for v in d.kept:
            op = d.forward.body[v - len(d.forward.operands)]
            many = np.dtype(op.dtype).itemsize * int(np.prod([n for n in op.shape if isinstance(n, int)]))
            size = f"{many:,} bytes" if not any(isinstance(n, Dim) for n in op.shape) else f"{many:,} bytes per element"
            yield Note(loc=op.loc, kind="kept", text=f"{tensor_text(op.dtype, op.shape)}, {size} a node", option="")


def _stops(found: Active) -> Iterator[Note]:
    for read in found.stops:
        yield Note(loc=read.loc, kind="stops", text=f"{read.why or 'a number'} returns a Python number", option="")
    for op in found.ends:
        if op.op == "scale_gradient":
            if "_gradient" in spanned(op.loc):  # not inside of a function of `nn`, where it changes nothing
                yield Note(loc=op.loc, kind="stops", text="requested by the model", option="")
        elif op.op == "cast":
            yield Note(loc=op.loc, kind="stops", text="a cast to integers or bools", option="")
        elif op.op in NONE:
            yield Note(loc=op.loc, kind="stops", text=f"{op.op}: {NONE[op.op]}", option="")


def backward_text(d: Backward) -> str:
    """Return the derivative of a kernel as readable text."""
    names = names_of_values(d.forward)
    lines = [f"kept: {', '.join(names[v] for v in d.kept) or 'nothing'}"]
    if d.backward is not None:
        lines += [spec_text(d.backward).rstrip(), *(f"argument {k}: {_where(s)}" for k, s in enumerate(d.arguments))]
    for g in d.outputs:
        row = "" if g.row is None else f" from row {_row(g.row)}"
        lines.append(f"gives {names[g.operand]}{row}: {_where(g.source)}")
    for t in d.terms:
        at = f" from row {t.start[0]}, column {t.start[1]}" if any(t.start) else ""
        of = "" if t.row is None else f"[{_where(t.row.source)}]"
        lines.append(f"sums {names[t.of]}{of}{at}: {t.kind}({', '.join(_where(p.source) for p in t.parts)})")
    return "\n".join(lines) + "\n"


def _row(row: Source | int) -> str:
    return str(row) if isinstance(row, int) else _where(row)


def _where(s: Source) -> str:
    name = f"shared {s.number}[{_where(s.row)}]" if s.row is not None else f"{s.kind} {s.number}"
    return f"{name} from {s.start}" if s.start else name
