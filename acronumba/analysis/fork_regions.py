"""Parts of a function that may wait become calls where they can go on beside each other. See `analysis.forks`.

A region is what lies between two blocks of which the first dominates the second and the second comes behind the first
on every path: the arms of an `if`, a loop, a helper that was inlined. Where two regions, or a region and a call, may
wait and do not need each other, each region becomes a function, and a call stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.fibers import Facts, Item, Names, World, one_item, region_item, renumbered
from acronumba.analysis.flow import dominators, live_at_start, loops, simplify, successors
from acronumba.analysis.fork_calls import take_turns, what_needs
from acronumba.ir.nodes import (
    Block,
    Call,
    Const,
    Copy,
    Fail,
    Function,
    Instr,
    Jump,
    ListNew,
    Return,
    Var,
    reads,
    writes,
)


def outline_regions(world: World, number: int) -> None:
    """Rewrite one function of the program."""
    while True:
        function = world.functions[number]
        for chain in chains(function):
            new = _Chain(world, function, chain).run()
            if new is not None:
                world.functions[number] = remove_dead(simplify(new))
                break
        else:
            return


def chains(function: Function) -> list[list[int]]:
    """Return the lists of two or more blocks that each run of the first runs once, in order; long ones first."""
    blocks = function.blocks
    over = dominators(blocks)
    behind = _postdominators(blocks)
    around: list[set[int]] = [set() for _ in blocks]
    for head, body in loops(blocks).items():
        for k in body:
            around[k].add(head)
    next_: dict[int, int] = {}
    for k in range(len(blocks)):
        later = [p for p in behind[k] - {k} if k in over[p] and around[p] == around[k]]
        if later:
            next_[k] = max(later, key=lambda p: len(behind[p]))
    out = []
    for k in set(next_) - set(next_.values()):
        chain = [k]
        while chain[-1] in next_:
            chain.append(next_[chain[-1]])
        out.append(chain)
    return sorted(out, key=lambda chain: (-len(chain), chain))


def _postdominators(blocks: Sequence[Block]) -> list[set[int]]:
    """Return the blocks that every path from each block to a return goes through, itself included."""
    ends = {k for k, b in enumerate(blocks) if isinstance(b.end, Return)}
    alive = set(ends)
    changed = True
    while changed:
        changed = False
        for k, b in enumerate(blocks):
            if k not in alive and alive.intersection(successors(b.end)):
                alive.add(k)
                changed = True
    out = [set(alive) if k in alive else {k} for k in range(len(blocks))]
    for k in ends:
        out[k] = {k}
    changed = True
    while changed:
        changed = False
        for k in sorted(alive - ends, reverse=True):
            new = set.intersection(*(out[s] for s in successors(blocks[k].end) if s in alive)) | {k}
            if new != out[k]:
                out[k], changed = new, True
    return out


class _Chain:
    """Finds and outlines the regions of one chain of blocks."""

    def __init__(self, world: World, function: Function, chain: Sequence[int]) -> None:
        self.world = world
        self.function = function
        self.chain = chain
        self.over = dominators(function.blocks)

    def run(self) -> Function | None:
        """Return the function with regions as calls, if some can go on beside something else."""
        items = self._items()
        waiting = [item for item in items if any(map(self.world.waits, item.instrs))]
        if len(waiting) < 2 or not any(item.blocks for item in waiting):
            return None
        turns = take_turns(self.world, items, what_needs(self.world, items))
        chosen = [items[k] for _, spawned in turns for k in spawned if items[k].blocks]
        if not chosen:
            return None
        function = self.function
        for item in chosen:
            function = self._outlined(function, item, self.chain[self.chain.index(item.block) + 1])
        return function

    def _items(self) -> list[Item]:
        blocks, facts = self.function.blocks, Facts(self.function)
        out: list[Item] = []
        for n, k in enumerate(self.chain):
            out += [one_item(k, i, facts) for i in blocks[k].instrs]
            if n + 1 < len(self.chain):
                below = self.chain[n + 1]
                inside = frozenset(x for x in range(len(blocks)) if k in self.over[x] and below not in self.over[x])
                if inside - {k}:
                    region = region_item(k, inside - {k}, blocks, facts)
                    self._absorb(out, region)
                    out.append(region)
        return out

    def _absorb(self, items: list[Item], region: Item) -> None:
        """Take what only the region reads, as the start of a count, from before it into it."""
        wanted = set(region.reads)
        between: set[Var] = set()
        changed: set[Var] = set()
        for item in reversed(items):
            if item.blocks or item.block != region.block:
                break
            instr = item.instrs[0]
            if isinstance(instr, Const):
                continue
            moves = isinstance(instr, Copy) or (isinstance(instr, ListNew) and not instr.count)
            if moves and item.writes & wanted and not item.writes & between and not item.reads & changed:
                region.before = (instr, *region.before)
                wanted |= item.reads
            else:
                between |= item.reads | item.writes
                changed |= item.writes
        moved = {id(i) for i in region.before}
        if moved:
            items[:] = [item for item in items if item.blocks or id(item.instrs[0]) not in moved]
            region.instrs = (*region.before, *region.instrs)
            region.reads = region.reads.union(*map(reads, region.before))
            region.writes = region.writes.union(*map(writes, region.before))

    def _outlined(self, function: Function, item: Item, below: int) -> Function:
        """Return the function with a call in the place of a region."""
        blocks = list(function.blocks)
        made = {v for i in item.instrs for v in writes(i)}
        after = live_at_start(function.blocks)[below]
        results = tuple(dict.fromkeys(v for i in item.instrs for v in writes(i) if v in after))
        single = {v: i for b in function.blocks for i in b.instrs if isinstance(i, Const) for v in writes(i)}
        loc = next(i.loc for i in item.instrs if self.world.waits(i))

        order = [item.block, *sorted(item.blocks), below]
        at = {k: n for n, k in enumerate(order)}
        body = [Block(instrs=item.before, end=blocks[item.block].end), *(blocks[k] for k in sorted(item.blocks))]
        body = [replace(b, end=renumbered(b.end, at)) for b in body]
        body.append(Block(instrs=(), end=Return(args=results, loc=loc)))
        needed = live_at_start(tuple(body))[0]
        args = sorted(needed, key=lambda v: v.name)
        constants: list[Instr] = [single[v] for v in args if v in single and v not in made]
        args = [v for v in args if v not in single or v in made]
        names = Names(function)
        given = {v: names.var(v.name, v.type) if v in made else v for v in args}
        start = [*constants, *(Copy(out=v, src=g, loc=loc) for v, g in given.items() if v is not g)]
        body[0] = replace(body[0], instrs=(*start, *body[0].instrs))
        new = Function(
            name=function.name,
            params=tuple(given.values()),
            results=tuple(v.type for v in results),
            blocks=tuple(body),
            loc=function.loc,
        )
        for v, g in given.items():
            if v is not g:
                self.world.mutation.copied(g, v)
        number = self.world.add(remove_dead(simplify(new)), function.name, "part")

        elsewhere = self._written(function, item)
        outs = tuple(names.var(v.name, v.type) if v in elsewhere else v for v in results)
        call: list[Instr] = [Call(outs=outs, function=number, args=tuple(args), loc=loc)]
        call += [Copy(out=v, src=o, loc=loc) for v, o in zip(results, outs, strict=True) if v is not o]
        for v, o in zip(results, outs, strict=True):
            if v is not o:
                self.world.mutation.copied(o, v)
        gone = {id(i) for i in item.before}
        kept = tuple(i for i in blocks[item.block].instrs if id(i) not in gone)
        blocks[item.block] = Block(instrs=(*kept, *call), end=Jump(block=below, loc=loc))
        dead = Block(instrs=(), end=Fail(site=0, args=(), loc=loc))
        for k in item.blocks:
            blocks[k] = dead  # cannot be reached
        return replace(function, blocks=tuple(blocks))

    @staticmethod
    def _written(function: Function, item: Item) -> set[Var]:
        """Return what is assigned outside of a region, parameters included."""
        inside = {id(i) for i in item.instrs}
        others = (i for b in function.blocks for i in b.instrs if id(i) not in inside)
        return {v for i in others for v in writes(i)} | set(function.params)
