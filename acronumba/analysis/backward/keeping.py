"""A planned program whose kernels keep what their backward kernels read.

In: a planned `Program` and what comes back from each kernel. Out: the same program, whose records have further results
behind the others. Nothing in it reads them, so all other results have the bits that they have without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from acronumba.analysis.backward.differentiate import Derived
from acronumba.ir import nodes as ir
from acronumba.ir.spec import Dim
from acronumba.ir.types import TensorT
from acronumba.ir.visit import writes


def keeping(program: ir.Program, derived: Sequence[Derived]) -> ir.Program:
    """Return the program that records `Derived.forward` of each kernel."""
    return replace(program, functions=tuple(_function(f, derived) for f in program.functions))


def _function(f: ir.Function, derived: Sequence[Derived]) -> ir.Function:
    taken = {v.name for v in f.params} | {v.name for b in f.blocks for i in b.instrs for v in writes(i)}
    blocks = []
    for block in f.blocks:
        instrs = tuple(_record(i, derived[i.kernel], taken) if isinstance(i, ir.Emit) else i for i in block.instrs)
        blocks.append(replace(block, instrs=instrs))
    return replace(f, blocks=tuple(blocks))


def _record(i: ir.Emit, d: Derived, taken: set[str]) -> ir.Emit:
    outs, shapes = list(i.outs), list(i.shapes)
    lead = i.shapes[0][:1] if d.forward.rows is not None else ()  # rows of the node
    for v in d.kept:
        op = d.forward.body[v - len(d.forward.operands)]
        shape = (*lead, *(i.dims[n.index] if isinstance(n, Dim) else n for n in op.shape))
        name = next(n for n in _names(op.name or "kept") if n not in taken)
        taken.add(name)
        outs.append(ir.Var(name, TensorT(op.dtype, tuple(n if isinstance(n, int) else None for n in shape))))
        shapes.append(shape)
    return replace(i, outs=tuple(outs), shapes=tuple(shapes))


def _names(base: str) -> Iterator[str]:
    yield base
    k = 1
    while True:
        yield f"{base}_{k}"
        k += 1
