"""Waits: which functions may have to wait for the value of a tensor.

In: a `Program`. Out: the numbers of the functions that contain a `Read`, or call one that does: the smallest fixed
point on the call graph.
"""

from __future__ import annotations

from collections import defaultdict

from acronumba.ir.nodes import Call, Program, Read, Spawn


def waiting_functions(program: Program) -> frozenset[int]:
    """Return the functions that may wait, themselves or in what they call."""
    callers: dict[int, set[int]] = defaultdict(set)
    work = []
    for number, function in enumerate(program.functions):
        for block in function.blocks:
            for instr in block.instrs:
                if isinstance(instr, Read):
                    work.append(number)
                elif isinstance(instr, Call | Spawn):
                    callers[instr.function].add(number)
    out: set[int] = set()
    while work:
        number = work.pop()
        if number not in out:
            out.add(number)
            work += callers[number]
    return frozenset(out)
