"""Dead code: instructions whose results nobody reads and that have no other effect.

In: a `Function`, and the operations whose results are asked for. Out: the function without dead code. An instruction
that may fail stays, as the plain call would fail there, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import replace

from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.visit import reads, writes


def is_pure(instr: ir.Instr) -> bool:
    """Whether the instruction may be removed if nothing reads the variables that it assigns."""
    match instr:
        case ir.Scalar() | ir.Op():
            return instr.site < 0
        case ir.ListOp():
            return instr.op in (
                "len", "get", "slice", "fill", "find", "join", "decimal", "pattern", "match", "clone", "order"
            )  # fmt: skip
        case ir.Check() | ir.Store() | ir.Call() | ir.Emit() | ir.Spawn() | ir.Join():
            return False
        case _:
            return True


def remove_dead(function: ir.Function, kept: Set[tuple[Loc, str]] = frozenset()) -> ir.Function:
    """Return the function without pure instructions whose results nobody reads, except those in `kept`."""
    by: dict[ir.Var, list[ir.Instr]] = defaultdict(list)
    work: list[ir.Var] = []
    live: set[ir.Var] = set()

    def want(vs: Iterable[ir.Var]) -> None:
        for v in vs:
            if v not in live:
                live.add(v)
                work.append(v)

    for block in function.blocks:
        for instr in block.instrs:
            for v in writes(instr):
                by[v].append(instr)
            if not is_pure(instr):
                want(reads(instr))
            elif kept and isinstance(instr, ir.Op) and (instr.loc, instr.out.name) in kept:
                want(writes(instr))
        want(reads(block.end))
    while work:
        for instr in by[work.pop()]:
            want(reads(instr))

    def keep(instr: ir.Instr) -> bool:
        return not is_pure(instr) or any(v in live for v in writes(instr))

    blocks = tuple(replace(b, instrs=tuple(i for i in b.instrs if keep(i))) for b in function.blocks)
    return replace(function, blocks=blocks)
