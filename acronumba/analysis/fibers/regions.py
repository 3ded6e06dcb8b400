"""Outlining of function parts that may wait into calls that can run concurrently. See `analysis.fibers.fork`.

A *chain* is a list of blocks, each of which dominates the next and is postdominated by it: all run once, in order,
whenever the first runs. Its *items* are the instructions of these blocks and the regions between two of them: the arms
of an `if`, a loop, an inlined helper. By their dependences, items that may wait fall into *strands*: a strand is an
item that needs no awaited result, with all items that need no other awaited result. Strands do not depend on each
other. If a chain has several, it is rewritten:

    items that need no strand     of the tensors that strands read, all are recorded before the first is awaited
    strand, strand, strand        each a call of a function made of it, or one read of a tensor
    all the rest
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.fibers.calls import dependents
from acronumba.analysis.fibers.world import Facts, Item, World, one_item, region_item
from acronumba.analysis.simplify import simplify
from acronumba.ir import nodes as ir
from acronumba.ir.graph import dominating, dominators, live_at_start, loops, predecessors, successors
from acronumba.ir.visit import Names, reads, retarget, writes
from acronumba.records import record


def outline_regions(world: World, number: int, around: object = None) -> None:
    """Rewrite the chains of one function that are directly in a loop (see `loop_name`), or in none."""
    while True:
        function = world.functions[number]
        for chain in chains(function, around):
            new = _Chain(world, function, chain).run()
            if new is not None:
                world.functions[number] = remove_dead(simplify(new))
                break
        else:
            return


def loop_name(function: ir.Function, head: int) -> object:
    """Return a name of a loop that stays while the function is rewritten: its condition, or its position."""
    end = function.blocks[head].end
    return end.cond if isinstance(end, ir.Branch) else end.loc


def chains(function: ir.Function, directly_in: object = None) -> list[list[int]]:
    """Return the chains of two or more blocks, the longest first, that are in the innermost loop `directly_in`.

    None: those in no loop.
    """
    blocks = function.blocks
    over = dominators(blocks)
    behind = _postdominators(blocks)
    around: list[set[int]] = [set() for _ in blocks]
    found = loops(blocks)
    for head, body in found.items():
        for k in body:
            around[k].add(head)

    def innermost(k: int) -> object:
        heads = sorted(around[k], key=lambda head: len(found[head]))
        return loop_name(function, heads[0]) if heads else None

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
    out = [chain for chain in out if innermost(chain[0]) == directly_in]
    return sorted(out, key=lambda chain: (-len(chain), chain))


def _postdominators(blocks: tuple[ir.Block, ...]) -> list[set[int]]:
    """Return the blocks that every path from each block to a return goes through, itself included."""
    before = [*predecessors(blocks), [k for k, b in enumerate(blocks) if isinstance(b.end, ir.Return)]]
    return [over - {len(blocks)} for over in dominating(before, len(blocks))[:-1]]


@record()
class _Turn:
    """The next part of a chain that runs at once, as indices of items."""

    before: tuple[int, ...]  # items that need no strand
    strands: tuple[tuple[int, ...], ...]
    rest: tuple[int, ...]


class _Chain:
    """Finds and outlines the strands of one chain of blocks."""

    def __init__(self, world: World, function: ir.Function, chain: Sequence[int]) -> None:
        self.world = world
        self.function = function
        self.chain = chain
        self.over = dominators(function.blocks)
        self.names = Names(function)
        self.items = self._items()

    def run(self) -> ir.Function | None:
        """Return the function with strands as calls, if some can go on beside something else."""
        waiting = [item for item in self.items if self._waits(item)]
        if (
            len(waiting) < 2
            or not self._closed()
            or any(isinstance(i, ir.Spawn | ir.Join) for item in self.items for i in self._own(item))
        ):
            return None
        needs = dependents(self.world, self.items)
        done: tuple[int, ...] = ()
        while True:
            turn = self._turn(done, needs)
            if len(turn.strands) > 1 and not self._beside(turn):
                return self._rewritten(turn)
            if not turn.strands:
                return None
            # strands beside each other as they are; of a single one, nothing else waits while its first item does
            strands = turn.strands if len(turn.strands) > 1 else (self._first(turn.strands[0]),)
            done = tuple(sorted({*turn.before, *(k for strand in strands for k in strand)}))

    def _closed(self) -> bool:
        """Whether nothing leads out of the chain before its end but to the blocks of its regions."""
        blocks = self.function.blocks
        inside = {item.block: item.blocks for item in self.items if item.blocks}
        for k, below in pairwise(self.chain):
            region = inside.get(k, frozenset())
            if not region.union({below}).issuperset(s for x in (k, *region) for s in successors(blocks[x].end)):
                return False
        return True

    def _turn(self, done: Sequence[int], needs: Sequence[set[int]]) -> _Turn:
        """Return the next turn after that of the items that are done."""
        before = set(done)
        strands: list[list[int]] = []
        of: dict[int, int] = {}
        rest: set[int] = set()
        for k, item in enumerate(self.items):
            if k in before:
                continue
            if needs[k] & rest:
                rest.add(k)
                continue
            found = {of[j] for j in needs[k] if j in of}
            if not found and not self._waits(item):
                before.add(k)
            elif len(found) > 1:
                rest.add(k)
            else:
                (s,) = found or {len(strands)}
                if s == len(strands):
                    strands.append([])
                strands[s].append(k)
                of[k] = s
        kept: list[tuple[int, ...]] = []
        for strand in strands:
            wanted: set[int] = set()
            for k in reversed(strand):
                if k in wanted or self._waits(self.items[k]):
                    wanted |= {k, *needs[k]}
            kept.append(tuple(k for k in strand if k in wanted))
            rest |= set(strand) - wanted
        return _Turn(tuple(sorted(before)), tuple(kept), tuple(sorted(rest)))

    def _waits(self, item: Item) -> bool:
        return any(map(self.world.waits, item.instrs))

    @staticmethod
    def _own(item: Item) -> Sequence[ir.Instr]:
        return () if item.blocks else item.instrs

    def _single(self, strand: Sequence[int]) -> bool:
        """Whether a strand is a single instruction, a call or a read, which needs no new function."""
        return len(strand) == 1 and not self.items[strand[0]].blocks

    def _first(self, strand: Sequence[int]) -> tuple[int, ...]:
        """Return a strand up to the first item that may wait."""
        n = next(n for n, k in enumerate(strand) if self._waits(self.items[k]))
        return tuple(strand[: n + 1])

    def _beside(self, turn: _Turn) -> bool:
        """Whether the strands already run concurrently without a rewrite."""
        if not all(map(self._single, turn.strands)):
            return False
        places = [strand[0] for strand in turn.strands]
        between = range(min(places), max(places))
        if len({self.items[k].block for k in places}) > 1 or any(self.items[k].blocks for k in between):
            return False
        # Calls that are spawned are sorted out by `calls`; what is read must have been recorded before.
        first = next((k for k in places if isinstance(self.items[k].instrs[0], ir.Read)), max(places))
        return not any(k in between and k > first for k in turn.before)

    def _items(self) -> list[Item]:
        blocks, facts = self.function.blocks, Facts(self.function)
        out: list[Item] = []
        for n, k in enumerate(self.chain):
            out += [one_item(k, i, facts) for i in blocks[k].instrs]
            if n + 1 < len(self.chain):
                below = self.chain[n + 1]
                inside = frozenset(x for x in range(len(blocks)) if k in self.over[x] and below not in self.over[x])
                if inside - {k}:
                    region = region_item(k, inside - {k}, below, blocks, self.over, facts)
                    self._absorb(out, region)
                    out.append(region)
        return out

    def _absorb(self, items: list[Item], region: Item) -> None:
        """Move assignments from before the region into it if only the region reads them: the start of a count, say."""
        wanted = set(region.reads)
        between: set[ir.Var] = set()
        changed: set[ir.Var] = set()
        for item in reversed(items):
            if item.blocks or item.block != region.block:
                break
            instr = item.instrs[0]
            if isinstance(instr, ir.Const):
                continue
            moves = isinstance(instr, ir.Copy) or (isinstance(instr, ir.ListNew) and not instr.count)
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

    def _rewritten(self, turn: _Turn) -> ir.Function:
        """Return the function with the chain rewritten."""
        blocks = list(self.function.blocks)
        to = {k: len(blocks) + n for n, k in enumerate(self.chain)}  # the blocks of the rest
        middle = len(blocks) + len(self.chain)
        end = blocks[self.chain[-1]].end
        loc = end.loc
        before = self._parts(turn.before, {}, ir.Jump(block=middle, loc=loc))
        rest = self._parts(turn.rest, to, end)
        blocks += [rest[to[k]] for k in self.chain]
        for k, b in {**before, **{k: b for k, b in rest.items() if k < len(self.function.blocks)}}.items():
            blocks[k] = b
        blocks.append(ir.Block(instrs=(), end=ir.Jump(block=to[self.chain[0]], loc=loc)))
        live = live_at_start(tuple(blocks))[to[self.chain[0]]]
        calls: list[ir.Instr] = []
        for strand in turn.strands:
            if self._single(strand):
                calls += self.items[strand[0]].instrs
            else:
                calls += self._outlined(strand, live)
        blocks[middle] = replace(blocks[middle], instrs=tuple(calls))
        return replace(self.function, blocks=tuple(blocks))

    def _parts(self, chosen: Collection[int], to: Mapping[int, int], end: ir.End) -> dict[int, ir.Block]:
        """Return blocks of the chain, by number, with the chosen items only; `to` renumbers, `end` is the last end."""
        blocks = self.function.blocks
        items = [self.items[k] for k in chosen]
        instrs: dict[int, list[ir.Instr]] = {k: [] for k in self.chain}
        regions: dict[int, Item] = {}
        for item in items:
            if item.blocks:
                regions[item.block] = item
                instrs[item.block] += item.before
            else:
                instrs[item.block] += item.instrs
        number = {k: to.get(k, k) for k in range(len(blocks))}
        out: dict[int, ir.Block] = {}
        for n, k in enumerate(self.chain):
            if n + 1 == len(self.chain):
                after = end
            elif k in regions:
                after = retarget(blocks[k].end, number.__getitem__)
            else:
                after = ir.Jump(block=number[self.chain[n + 1]], loc=blocks[k].end.loc)
            out[number[k]] = ir.Block(instrs=tuple(instrs[k]), end=after)
        for item in regions.values():
            out |= {k: replace(blocks[k], end=retarget(blocks[k].end, number.__getitem__)) for k in item.blocks}
        return out

    def _outlined(self, strand: Sequence[int], after: Collection[ir.Var]) -> list[ir.Instr]:
        """Make a function of a strand; return the call. `after`: the variables that are read behind the strand."""
        items = [self.items[k] for k in strand]
        instrs = [i for item in items for i in item.instrs]
        made = {v for i in instrs for v in writes(i)}
        results = tuple(dict.fromkeys(v for i in instrs for v in writes(i) if v in after))
        single = {v: i for b in self.function.blocks for i in b.instrs if isinstance(i, ir.Const) for v in writes(i)}
        loc = next(i.loc for i in instrs if self.world.waits(i))

        parts = self._parts(strand, {}, ir.Return(args=results, loc=loc))
        order = [self.chain[0], *(k for k in sorted(parts) if k != self.chain[0])]
        at = {k: n for n, k in enumerate(order)}
        body = [replace(parts[k], end=retarget(parts[k].end, at.__getitem__)) for k in order]
        needed = live_at_start(tuple(body))[0]
        args = sorted(needed, key=lambda v: v.name)
        constants: list[ir.Instr] = [single[v] for v in args if v in single and v not in made]
        args = [v for v in args if v not in single or v in made]
        names = self.names
        given = {v: names.var(v.name, v.type) if v in made else v for v in args}
        start = [*constants, *(ir.Copy(out=v, src=g, loc=loc) for v, g in given.items() if v is not g)]
        body[0] = replace(body[0], instrs=(*start, *body[0].instrs))
        new = ir.Function(
            name=self.function.name,
            params=tuple(given.values()),
            results=tuple(v.type for v in results),
            blocks=tuple(body),
            loc=self.function.loc,
        )
        for v, g in given.items():
            if v is not g:
                self.world.mutation.copied(g, v)
        number = self.world.add(remove_dead(simplify(new)), self.function.name, "part")

        elsewhere = self._written(items)
        outs = tuple(names.var(v.name, v.type) if v in elsewhere else v for v in results)
        call: list[ir.Instr] = [ir.Call(outs=outs, function=number, args=tuple(args), loc=loc)]
        for v, o in zip(results, outs, strict=True):
            if v is not o:
                call.append(ir.Copy(out=v, src=o, loc=loc))
                self.world.mutation.copied(o, v)
        return call

    def _written(self, items: Sequence[Item]) -> set[ir.Var]:
        """Return the variables that are assigned outside of a strand, parameters included."""
        inside = {id(i) for item in items for i in item.instrs}
        others = (i for b in self.function.blocks for i in b.instrs if id(i) not in inside)
        return {v for i in others for v in writes(i)} | set(self.function.params)
