"""Control flow graphs of functions.

In: a `Function` or its blocks. Out: predecessors, dominators and loops of blocks, variables that are live at the start
of a block, variables that are assigned once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

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
    return dominating([successors(b.end) for b in blocks], 0)


def dominating(below: Sequence[Sequence[int]], root: int) -> list[set[int]]:
    """Return the nodes of a graph that every path from the root to each node goes through, itself included.

    `below` has the successors of each node. A node that no path leads to has itself alone.
    """
    order = _reverse_postorder(below, root)
    rank = {k: n for n, k in enumerate(order)}
    before: list[list[int]] = [[] for _ in below]
    for k in order:
        for s in below[k]:
            before[s].append(k)
    above = {root: root}  # the next dominator of each node, as far as it is known (Cooper, Harvey, Kennedy 2001)
    changed = True
    while changed:
        changed = False
        for k in order[1:]:
            new, *others = (p for p in before[k] if p in above)
            for p in others:
                while new != p:
                    if rank[new] > rank[p]:
                        new = above[new]
                    else:
                        p = above[p]
            if above.get(k) != new:
                above[k], changed = new, True
    out = [{k} for k in range(len(below))]
    for k in order[1:]:
        out[k] |= out[above[k]]
    return out


def _reverse_postorder(below: Sequence[Sequence[int]], root: int) -> list[int]:
    out, seen = [], {root}
    work = [(root, iter(below[root]))]
    while work:
        k, rest = work[-1]
        for s in rest:
            if s not in seen:
                seen.add(s)
                work.append((s, iter(below[s])))
                break
        else:
            out.append(k)
            work.pop()
    return out[::-1]


def live_at_start(blocks: tuple[ir.Block, ...]) -> list[set[ir.Var]]:
    """Return the variables that are read after the start of each block before they are assigned."""
    read, assigned = [], []
    for b in blocks:
        first = set(reads(b.end))
        own: set[ir.Var] = set()
        for i in reversed(b.instrs):
            made = writes(i)
            own.update(made)
            first.difference_update(made)
            first.update(reads(i))
        read.append(first)
        assigned.append(own)
    out: list[set[ir.Var]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(blocks))):
            live = read[k].union(*(out[s] - assigned[k] for s in successors(blocks[k].end)))
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
