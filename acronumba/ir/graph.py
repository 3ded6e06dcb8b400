"""Control flow graphs of functions.

In: a `Function` or its blocks. Out: which block comes before which, dominators and loops, which variables live where a
block starts, which are assigned once.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from acronumba.ir import nodes as ir
from acronumba.ir.visit import reads, writes


def successors(end: ir.End) -> tuple[int, ...]:
    """Return the blocks that may follow."""
    match end:
        case ir.Jump():
            return (end.block,)
        case ir.Branch():
            return (end.yes, end.no)
        case _:
            return ()


def predecessors(blocks: tuple[ir.Block, ...]) -> list[list[int]]:
    """Return the predecessors of each block, one entry per edge."""
    out: list[list[int]] = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        for s in successors(block.end):
            out[s].append(k)
    return out


def definitions(function: ir.Function) -> dict[ir.Var, ir.Instr]:
    """Return the instruction that assigns each variable that is assigned once (parameters have none)."""
    out: dict[ir.Var, ir.Instr] = {}
    twice: set[ir.Var] = set(function.params)
    for block in function.blocks:
        for instr in block.instrs:
            for v in writes(instr):
                if v in out:
                    twice.add(v)
                out[v] = instr
    return {v: i for v, i in out.items() if v not in twice}


def fixed_variables(function: ir.Function) -> set[ir.Var]:
    """Return the variables that have one value for the whole call: parameters included."""
    assigned = Counter(function.params)
    assigned.update(v for b in function.blocks for i in b.instrs for v in writes(i))
    return {v for v, count in assigned.items() if count == 1}


def dominators(blocks: tuple[ir.Block, ...]) -> list[set[int]]:
    """Return the blocks that dominate each block, itself included."""
    before = predecessors(blocks)
    out = [set(range(len(blocks))) for _ in blocks]
    out[0] = {0}
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            new = set.intersection(*(out[p] for p in before[k])) | {k}
            if new != out[k]:
                out[k], changed = new, True
    return out


def live_at_start(blocks: tuple[ir.Block, ...]) -> list[set[ir.Var]]:
    """Return the variables that are read after the start of each block before they are assigned."""
    out: list[set[ir.Var]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(blocks))):
            b = blocks[k]
            live = {v for s in successors(b.end) for v in out[s]} | set(reads(b.end))
            for i in reversed(b.instrs):
                live -= set(writes(i))
                live |= set(reads(i))
            if live != out[k]:
                out[k], changed = live, True
    return out


def loops(blocks: tuple[ir.Block, ...]) -> dict[int, set[int]]:
    """Return the blocks of each natural loop, by its head."""
    before = predecessors(blocks)
    out: dict[int, set[int]] = defaultdict(set)
    for k, over in enumerate(dominators(blocks)):
        for head in successors(blocks[k].end):
            if head in over:
                body = out[head]
                body.add(head)
                work = [k]
                while work:
                    b = work.pop()
                    if b not in body:
                        body.add(b)
                        work += before[b]
    return out
