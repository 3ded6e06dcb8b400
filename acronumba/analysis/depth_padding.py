"""Depth padding ("ghosts") of the shorter arms of a branch, for `schedule="depth"` (ACRoBat, arXiv 2305.10611).

In: a program with its kernels. Out: the same with a `PadDepth` at the end of each arm whose values are less deep than
the values of another arm. Depth orders the nodes of all instances, so two instances that took arms of one and of three
kernels would be two levels apart from there on, and all later nodes would run in two batches. With the difference added
to the values that leave the shorter arm they line up again. A larger depth is always valid; results do not change.

The depth of an arm is the longest chain of kernels recorded on it that leads to the value. It is known if the arms have
neither loops nor calls and read no tensor (nodes after a wait are not in the graph before it). Kernels that depend on
no loop-carried value (`carried`) do not count in a loop, as they are not part of the chain from step to step. Arms are
found from their joins: a block with several predecessors, the head of a loop (where steps join), and the returns of a
function. An arm that records nothing for a value and ends the step is not padded: that instance skips the step, and
stays at the depth of instances that are one step behind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from acronumba.analysis.simplify import simplify
from acronumba.analysis.value_flow import in_cycles, value_flow
from acronumba.ir import nodes as ir
from acronumba.ir.graph import dominators, live_at_start, loops, predecessors, successors
from acronumba.ir.notes import Note
from acronumba.ir.types import TensorT
from acronumba.ir.visit import Names, redirect, writes


def pad_branches(program: ir.Program) -> tuple[ir.Program, tuple[Note, ...], str]:
    """Return the program with padding, a note for each branch, and the depths of arms as text."""
    counted = _counted(program)
    functions, notes, lines = [], [], []
    for number, f in enumerate(program.functions):
        arms = _Arms(f, counted, returns=number > 0)
        functions.append(arms.run())
        notes += arms.notes
        lines += arms.lines
    text = "\n".join(lines) + "\n" if lines else "no branches of known and different depth\n"
    return replace(program, functions=tuple(functions)), tuple(dict.fromkeys(notes)), text


def _counted(program: ir.Program) -> set[int]:
    """Return the `id`s of the records that are a step of their arm's chain."""
    flow = value_flow(program)
    operands = [flow.operands(k) for k in range(len(flow.nodes))]
    cycle = in_cycles(operands)
    after = [c >= 0 for c in cycle]
    changed = True
    while changed:
        changed = False
        for k, sources in enumerate(operands):
            if not after[k] and any(after[u] for u in sources):
                after[k] = changed = True
    bodies = [set().union(*loops(f.blocks).values()) for f in program.functions]
    return {
        id(node)
        for node, (f, block), dependent in zip(flow.nodes, flow.places, after, strict=True)
        if dependent or block not in bodies[f]
    }


class _Arms:
    """Pads the arms of one function."""

    def __init__(self, function: ir.Function, counted: set[int], *, returns: bool) -> None:
        self.function = function
        self.blocks = function.blocks
        self.counted = counted
        self.returns = returns  # whether any caller reads its results
        self.before = predecessors(self.blocks)
        self.over = dominators(self.blocks)
        self.back = {(k, s) for k, b in enumerate(self.blocks) for s in successors(b.end) if s in self.over[k]}
        self.names = Names(function)
        self.live = live_at_start(self.blocks)
        self.pads: dict[tuple[int, int], dict[ir.Var, int]] = defaultdict(dict)  # (block, next; -1: returns) -> levels
        self.notes: list[Note] = []
        self.lines: list[str] = []

    def run(self) -> ir.Function:
        for join, preds in enumerate(self.before):
            ahead = sorted({p for p in preds if (p, join) not in self.back})
            self._join([(p, join) for p in ahead], {})
            self._join([(p, join) for p in sorted(set(preds) - set(ahead))], {})
        if self.returns:
            ends = {k: b.end.args for k, b in enumerate(self.blocks) if isinstance(b.end, ir.Return)}
            self._join([(k, -1) for k in ends], ends)
        if not self.pads:
            return self.function
        blocks = list(self.blocks)
        new = len(blocks)
        for (k, to), levels in self.pads.items():
            loc = blocks[k].end.loc
            to_padded = {v: self.names.var(f"{v.name}_deep", v.type) for v in levels}
            pads: list[ir.Instr] = [ir.PadDepth(out=w, src=v, levels=levels[v], loc=loc) for v, w in to_padded.items()]
            if to >= 0:
                pads += [ir.Copy(out=v, src=w, loc=loc) for v, w in to_padded.items()]
            end = blocks[k].end
            if isinstance(end, ir.Return):
                end = replace(end, args=tuple(to_padded.get(v, v) for v in end.args))
                blocks[k] = ir.Block(instrs=(*blocks[k].instrs, *pads), end=end)
            elif isinstance(end, ir.Branch):  # an arm without a block of its own
                blocks[k] = replace(blocks[k], end=redirect(end, to, len(blocks)))
                blocks.append(ir.Block(instrs=tuple(pads), end=ir.Jump(block=to, loc=loc)))
            else:
                blocks[k] = replace(blocks[k], instrs=(*blocks[k].instrs, *pads))
        function = replace(self.function, blocks=tuple(blocks))
        return simplify(function) if len(blocks) > new else function

    def _join(self, edges: list[tuple[int, int]], ends: dict[int, tuple[ir.Var, ...]]) -> None:
        """Pad the values that leave the arms which end with the edges."""
        if len(edges) < 2:
            return
        top = max(set.intersection(*(self.over[k] for k, _ in edges)), key=lambda k: len(self.over[k]))
        region = self._region(top, [k for k, _ in edges])
        if region is None:
            return
        at_end = self._depths(top, region)
        if ends:
            slots = list(zip(*ends.values(), strict=True))
        else:
            written = {v for k in region for i in self.blocks[k].instrs for v in writes(i)}
            joined = [v for v in self._ordered(region) if v in written and v in self.live[edges[0][1]]]
            slots = [(v,) * len(edges) for v in joined]
        for values in slots:
            if not isinstance(values[0].type, TensorT):
                continue
            depths = [at_end[k].get(v, 0) for (k, _), v in zip(edges, values, strict=True)]
            most = max(depths)
            for edge, v, depth in zip(edges, values, depths, strict=True):
                if depth == most or (edge in self.back and depth == 0):
                    continue
                self._pad(top, edge, v, most - depth)

    def _pad(self, top: int, edge: tuple[int, int], v: ir.Var, levels: int) -> None:
        source = self._source(edge[0], v)
        if any(self._source(edge[0], u) is source for u in self.pads[edge]):
            return  # two names of one value
        self.pads[edge][v] = levels
        at = self.blocks[top].end.loc
        last = [i.loc.line for i in self.blocks[edge[0]].instrs if isinstance(i, ir.Emit)]
        arm = f"the branch of line {last[-1]}" if last and edge[0] != top else "a branch without kernels"
        kernels = f"{levels} kernel{'s' * (levels > 1)}"
        text = f"{arm} is padded by {kernels}, to the depth of the longest branch"
        self.notes.append(Note(loc=at, kind="ghost", text=text, option="ghosts"))
        self.lines.append(f"{self.function.name}, branch of line {at.line}: {v.name} + {levels} on {arm}")

    def _source(self, block: int, v: ir.Var) -> ir.Var:
        """Return the variable that `v` was copied from in the block."""
        for i in reversed(self.blocks[block].instrs):
            if v in writes(i):
                if not isinstance(i, ir.Copy):
                    break
                v = i.src
        return v

    def _ordered(self, region: Sequence[int]) -> list[ir.Var]:
        return list(dict.fromkeys(v for k in region for i in self.blocks[k].instrs for v in writes(i)))

    def _region(self, top: int, ends: list[int]) -> list[int] | None:
        """Return the blocks between `top` and `ends`, in order, or None if they contain loops, calls or waits."""
        found: set[int] = set()
        work = [k for k in ends if k != top]
        while work:
            k = work.pop()
            if k not in found:
                found.add(k)
                if any(isinstance(i, ir.Call | ir.Read | ir.Spawn | ir.Join) for i in self.blocks[k].instrs):
                    return None
                work += [p for p in self.before[k] if p != top]
        order: list[int] = []
        rest = set(found)
        while rest:
            ready = sorted(k for k in rest if not rest & set(self.before[k]))
            if not ready:
                return None  # a loop
            order += ready
            rest -= set(ready)
        return order

    def _depths(self, top: int, region: Sequence[int]) -> dict[int, dict[ir.Var, int]]:
        """Return the depths of variables at the end of each block, counted from the end of `top`; missing: 0."""
        out: dict[int, dict[ir.Var, int]] = {top: {}}
        for k in region:
            env: dict[ir.Var, int] = {}
            for p in self.before[k]:
                for v, d in out[p].items():
                    env[v] = max(env.get(v, 0), d)
            for i in self.blocks[k].instrs:
                if isinstance(i, ir.Emit):
                    depth = max((env.get(v, 0) for v in i.args), default=0) + (id(i) in self.counted)
                elif isinstance(i, ir.Copy):
                    depth = env.get(i.src, 0)
                else:
                    depth = 0
                for v in writes(i):
                    env[v] = depth
            out[k] = env
        return out
