"""Simplification of control flow: fewer, larger basic blocks.

In: a `Function`. Out: the same function with jumps threaded and blocks merged, so that basic blocks, and with them
kernels, are large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from acronumba.ir.graph import definitions, successors
from acronumba.ir.nodes import Block, Branch, Const, Function, Jump
from acronumba.ir.visit import retarget


def simplify(function: Function) -> Function:
    """Return the function with jumps threaded, blocks merged and unreachable ones gone, in reverse postorder."""
    single = definitions(function)
    blocks = dict(enumerate(function.blocks))
    changed = True
    while changed:
        changed = False

        final = _threads(blocks)
        for k, block in list(blocks.items()):
            end = block.end
            if isinstance(end, Branch) and isinstance(c := single.get(end.cond), Const):
                end = Jump(block=end.yes if c.value else end.no, loc=end.loc)
            end = retarget(end, final.__getitem__)
            if end != block.end:
                blocks[k] = replace(block, end=end)
                changed = True
        reached = _order(blocks)
        blocks = {k: blocks[k] for k in reached}
        count = Counter(s for b in blocks.values() for s in successors(b.end))
        for k in reached:
            while k in blocks and isinstance(end := blocks[k].end, Jump) and end.block not in (0, k):
                if count[end.block] != 1:
                    break
                after = blocks.pop(end.block)
                blocks[k] = Block(instrs=blocks[k].instrs + after.instrs, end=after.end)
                changed = True
    order = _order(blocks)
    number = {k: n for n, k in enumerate(order)}
    out = tuple(replace(blocks[k], end=retarget(blocks[k].end, number.__getitem__)) for k in order)
    return replace(function, blocks=out)


def _threads(blocks: Mapping[int, Block]) -> dict[int, int]:
    """Return for each block the block that a jump to it ends up in."""
    out = {}
    for k in blocks:
        to, seen = k, {k}
        while not blocks[to].instrs and isinstance(end := blocks[to].end, Jump) and end.block not in seen:
            to = end.block
            seen.add(to)
        out[k] = to
    return out


def _order(blocks: Mapping[int, Block]) -> list[int]:
    """Return the reachable blocks in reverse postorder; the "yes" side of a branch comes first."""
    out: list[int] = []
    seen = {0}
    stack = [(0, list(successors(blocks[0].end)))]
    while stack:
        k, rest = stack[-1]
        if rest:
            s = rest.pop()
            if s not in seen:
                seen.add(s)
                stack.append((s, list(successors(blocks[s].end))))
        else:
            out.append(k)
            stack.pop()
    return out[::-1]
