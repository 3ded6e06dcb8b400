"""Tail duplication of the code after a loop without iterations, such as a loop over the children of a leaf.

In: a program whose shared operands are known (`analysis.sharing.share`). Out: the program in which a loop's condition
is tested once before the loop; if it makes no step, a copy of the block behind the loop runs, in which the variables
that the loop changes have their values on entry. In `p.u @ total`, with `total` the sum of the children's states, these
are zeros for a leaf: the product is then the same for all leaves, `analysis.sharing.per_batch` computes it before any
instance runs, and leaves, half of the nodes of a tree, do without it.

This is done where it pays: in recursive functions, as a recursion ends where such a loop makes no step, and where it
makes a matrix product the same for all instances. A product of shared operands may be summed up in another order than a
product of each node, so the option `duplicate` decides about it. Source: tail duplication (Mueller & Whalley, "Avoiding
conditional branches by code replication", PLDI 1995).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from acronumba.analysis.sharing.per_batch import same_for_all
from acronumba.analysis.simplify import simplify
from acronumba.analysis.value_flow import in_cycles
from acronumba.config import Options
from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.graph import fixed_variables, live_at_start, loops, predecessors, successors
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.visit import Names, reassigned, rename, writes


def duplicate_loop_exits(program: ir.Program, options: Options) -> tuple[ir.Program, tuple[Note, ...]]:
    """Return the program in which loops without iterations are bypassed, and notes.

    Parameters
    ----------
    program
        Before grouping, with its shared operands known.
    options
        `reuse`, `duplicate`: both are needed.
    """
    if not (options.reuse and options.duplicate):
        return program, ()
    calls = [
        {i.function for b in f.blocks for i in b.instrs if isinstance(i, ir.Call | ir.Spawn)} for f in program.functions
    ]
    recursive = in_cycles(calls)
    if max(recursive) < 0:
        return program, ()
    free = same_for_all(program, options)
    functions = list(program.functions)
    notes: list[Note] = []
    for k, function in enumerate(functions):
        if recursive[k] >= 0:
            exits = _LoopExits(simplify(function), free[k])
            functions[k] = exits.run()
            notes += exits.notes
    return replace(program, functions=tuple(functions)), tuple(dict.fromkeys(notes))


class _LoopExits:
    """Adds ways past the loops of one function."""

    def __init__(self, function: ir.Function, free: Iterable[ir.Var]) -> None:
        self.function = function
        shared = (i.out for b in function.blocks for i in b.instrs if isinstance(i, ir.Shared | ir.Const))
        self.free = frozenset((*free, *shared))  # variables that are the same for all instances
        self.fixed = fixed_variables(function)
        self.names = Names(function)
        self.live = list(live_at_start(function.blocks))  # at the start of each block, but for those of `begun`
        self.begun: set[ir.Var] = set()  # values on entry of copied loops
        self.notes: list[Note] = []

    def run(self) -> ir.Function:
        """Return the function."""
        blocks = list(self.function.blocks)
        before = predecessors(self.function.blocks)
        for head, body in loops(self.function.blocks).items():
            end = blocks[head].end
            outside = [p for p in before[head] if p not in body]
            if not isinstance(end, ir.Branch) or len(outside) != 1 or not _harmless(blocks[head].instrs):
                continue
            behind = [b for b in successors(end) if b not in body]
            if len(behind) != 1 or before[behind[0]] != [head] or behind[0] == head:
                continue
            entry, after = outside[0], behind[0]
            start = self._start(blocks[entry], {v for b in body for i in blocks[b].instrs for v in writes(i)})
            product = self._product(blocks[after], start)
            if product is None or not isinstance(blocks[entry].end, ir.Jump):
                continue
            self._copy(blocks, entry, head, after, start)
            text = "if the preceding loop has no iterations, this matrix product is the same for all instances"
            self.notes.append(Note(loc=product, kind="duplicated", text=text, option="duplicate"))
        return replace(self.function, blocks=tuple(blocks))

    def _start(self, entry: ir.Block, changed: set[ir.Var]) -> dict[ir.Var, ir.Var]:
        """Map each variable assigned in the loop to the variable that it is a copy of on entry."""
        out: dict[ir.Var, ir.Var] = {}
        for instr in entry.instrs:
            for v in writes(instr):
                out.pop(v, None)
            if isinstance(instr, ir.Copy) and instr.out in changed:
                source = out.get(instr.src, instr.src)
                if source in self.fixed:
                    out[instr.out] = source
        return out

    def _product(self, after: ir.Block, start: dict[ir.Var, ir.Var]) -> Loc | None:
        """Return the position of the first product that is the same for all instances if a loop makes no step."""
        same = set(self.free)
        to = dict(start)
        for instr in after.instrs:
            if isinstance(instr, ir.Copy):
                to[instr.out] = to.get(instr.src, instr.src)
            elif isinstance(instr, ir.Op) and instr.site < 0 and instr.out not in self.free:
                args = [a if isinstance(a, ir.SharedArg) else to.get(a, a) for a in instr.args]
                if args and all(isinstance(a, ir.SharedArg) or a in same for a in args):
                    same.add(instr.out)
                    if TENSORS[instr.op].kind == "product":
                        return instr.loc
        return None

    def _copy(self, blocks: list[ir.Block], entry: int, head: int, after: int, start: dict[ir.Var, ir.Var]) -> None:
        """Add a block that tests whether the loop makes a step, and a copy of the block behind the loop."""
        live = {v for s in successors(blocks[after].end) for v in self.live[s]} | self.begun
        for k in (head, after):
            blocks[k] = self._joined(blocks[k], live)
        end = blocks[head].end
        assert isinstance(end, ir.Branch)
        ask, alone = len(blocks), len(blocks) + 1
        self.live += (self.live[head], self.live[after])
        self.begun |= set(start.values())
        to = dict(start)
        asked = self._renamed(blocks[head].instrs, to)
        cond = to.get(end.cond, end.cond)
        yes, no = (alone, head) if end.yes == after else (head, alone)
        blocks.append(ir.Block(instrs=asked, end=ir.Branch(cond=cond, yes=yes, no=no, loc=end.loc)))
        copied = self._renamed(blocks[after].instrs, to)
        last = rename(blocks[after].end, to)
        assert isinstance(last, ir.End)
        blocks.append(ir.Block(instrs=copied, end=last))
        blocks[entry] = replace(blocks[entry], end=ir.Jump(block=ask, loc=blocks[entry].end.loc))

    def _joined(self, block: ir.Block, live: set[ir.Var]) -> ir.Block:
        """Return a block that assigns variables read behind it by `Copy`, so that another block may assign them too."""
        instrs: list[ir.Instr] = []
        copies: list[ir.Copy] = []
        to: dict[ir.Var, ir.Var] = {}
        for instr in block.instrs:
            for v in writes(instr):
                if v in self.fixed and v in live:
                    to[v] = self.names.var(f"{v.name}_here", v.type)
                    copies.append(ir.Copy(out=v, src=to[v], loc=instr.loc))
            instrs.append(reassigned(instr, to))
        end = rename(block.end, to)
        assert isinstance(end, ir.End)
        self.fixed = self.fixed.difference(to).union(to.values())
        return ir.Block(instrs=(*instrs, *copies), end=end)

    def _renamed(self, instrs: Iterable[ir.Instr], to: dict[ir.Var, ir.Var]) -> tuple[ir.Instr, ...]:
        """Return a copy of instructions that assigns new variables; `to`: which stand for which, before and after."""
        out: list[ir.Instr] = []
        for instr in instrs:
            fresh = {v: self.names.var(v.name, v.type) for v in writes(instr) if v in self.fixed}
            read = rename(instr, to)
            assert not isinstance(read, ir.End)
            out.append(reassigned(read, fresh))
            for v in writes(instr):
                to.pop(v, None)  # a variable that several blocks assign is assigned here, too
            to |= fresh
        return tuple(out)


def _harmless(instrs: Iterable[ir.Instr]) -> bool:
    """Whether instructions cannot fail and change nothing."""
    return all(
        isinstance(i, ir.Const | ir.Load | ir.IsNull | ir.Shared | ir.Copy)
        or (isinstance(i, ir.Scalar) and i.site < 0)
        or (isinstance(i, ir.ListOp) and i.op == "len")
        for i in instrs
    )
