"""Value flow: the graph of tensor operations that may feed each other, anywhere in the program, and its cycles.

In: a `Program`, before or after its operations became kernels. Out: a `Flow`: its nodes are operations (`Op`) or
records of kernels (`Emit`), its edges go from a node to the nodes that may read its result. A cycle is a loop-carried
dependence, of a loop or a recursion: the next step needs the last one. The number of batches of a node in no cycle does
not grow with the steps.

A result travels through variables, arguments and results of calls, fields of rows and elements of lists; once it is
read (`Read`), through the numbers that are computed from it, to operations on them. Rows and lists are told apart by
allocation site, and their fields by name; the order within a function is ignored. That is Andersen's inclusion analysis
(L. O. Andersen, "Program Analysis and Specialization for the C Programming Language", 1994): each variable has the set
of operations and allocations that may reach it, and the sets grow along the assignments until nothing changes. It
over-approximates: every edge of a run is an edge here.

Cycles are strongly connected components (R. Tarjan, "Depth-first search and linear graph algorithms", 1972). A helper
that is called twice is in the program twice, unless it is recursive, and feeding one copy from the other is no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from acronumba.ir import nodes as ir
from acronumba.ir.types import ListT, RefT, TensorT
from acronumba.ir.visit import reads, writes
from acronumba.records import record


@record(kw_only=True)
class Flow:
    """The graph of the operations of a program."""

    nodes: tuple[ir.Op | ir.Emit, ...]  # in program order
    places: tuple[tuple[int, int], ...]  # per node: function and block
    near: tuple[frozenset[int], ...]  # per node: nodes whose result it reads in the same run of its block
    far: tuple[frozenset[int], ...]  # per node: nodes whose result of another run or block it may read

    def operands(self, node: int) -> frozenset[int]:
        """Return all nodes whose results the node may read."""
        return self.near[node] | self.far[node]


def value_flow(program: ir.Program) -> Flow:
    """Return the value flow of a program."""
    return Inclusion(program).run()


def components(operands: Sequence[Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph in topological order, dependences first.

    Parameters
    ----------
    operands
        Per node: the nodes it depends on.
    """
    out: list[list[int]] = []
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    inside: set[int] = set()
    for root in range(len(operands)):
        if root in number:
            continue
        work = [(root, iter(sorted(operands[root])))]
        number[root] = low[root] = len(number)
        open_.append(root)
        inside.add(root)
        while work:
            v, rest = work[-1]
            for u in rest:
                if u not in number:
                    number[u] = low[u] = len(number)
                    open_.append(u)
                    inside.add(u)
                    work.append((u, iter(sorted(operands[u]))))
                    break
                if u in inside:
                    low[v] = min(low[v], number[u])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == number[v]:
                    part = [open_.pop()]
                    while part[-1] != v:
                        part.append(open_.pop())
                    inside.difference_update(part)
                    out.append(sorted(part))
    return out


def in_cycles(operands: Sequence[Iterable[int]]) -> list[int]:
    """Return per node the number of its cycle (in topological order), or -1 if it is in none."""
    out = [-1] * len(operands)
    count = 0
    for part in components(operands):
        if len(part) > 1 or part[0] in operands[part[0]]:
            for v in part:
                out[v] = count
            count += 1
    return out


_Cell = tuple[int, str, int]  # allocation, field ("" for a list), word of the field or element


class Inclusion:
    """Solves the inclusions. A set is an integer whose bits are nodes, then allocations.

    `analysis.fibers.mutation` reads the solution too.
    """

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.nodes: list[ir.Op | ir.Emit] = []
        self.places: list[tuple[int, int]] = []
        self.made: list[ir.New | ir.ListNew | ir.ListOp] = []  # per allocation: the instruction that makes it
        self.slots: dict[ir.Var | _Cell, int] = {}
        self.sets: list[int] = []
        self.told: list[int] = []  # the part of the set that has been passed on to `watch`
        self.into: list[set[int]] = []  # slots that include this one
        self.watch: list[list[Callable[[int], None]]] = []  # per slot: callbacks for an allocation that reaches it
        self.fields = {s.cls: [(f.name, j) for f in s.fields for j in range(f.width)] for s in program.layouts}
        self.work: list[int] = []
        # Numbers matter where some may have been read from tensors.
        self.numbers = any(isinstance(i, ir.Read) for f in program.functions for b in f.blocks for i in b.instrs)

    def _matters(self, v: ir.Var) -> bool:
        return self.numbers or isinstance(v.type, TensorT | RefT | ListT)

    def slot(self, key: ir.Var | _Cell) -> int:
        if key not in self.slots:
            self.slots[key] = len(self.sets)
            self.sets.append(0)
            self.told.append(0)
            self.into.append(set())
            self.watch.append([])
        return self.slots[key]

    def add(self, slot: int, bits: int) -> None:
        if bits & ~self.sets[slot]:
            self.sets[slot] |= bits
            self.work.append(slot)

    def include(self, source: int, target: int) -> None:
        if source != target and target not in self.into[source]:
            self.into[source].add(target)
            self.add(target, self.sets[source])

    def at(self, ref: ir.Var, act: Callable[[int], None]) -> None:
        """Do something with every allocation that reaches a variable."""
        slot = self.slot(ref)
        self.watch[slot].append(act)
        for site in bits_of(self.told[slot] >> len(self.nodes)):
            act(site)

    def solve(self) -> None:
        """Grow the sets to the least fixed point."""
        while self.work:
            slot = self.work.pop()
            new = self.sets[slot] & ~self.told[slot]
            self.told[slot] |= new
            for site in bits_of(new >> len(self.nodes)):
                for act in list(self.watch[slot]):
                    act(site)
            for target in self.into[slot]:
                self.add(target, self.sets[slot])

    def held(self, v: ir.Var) -> int:
        """Return the allocations that a variable may hold, one bit each."""
        return self.sets[self.slots[v]] >> len(self.nodes) if v in self.slots else 0

    def fill(self) -> None:
        """Add the whole program."""
        for f, function in enumerate(self.program.functions):
            for k, block in enumerate(function.blocks):
                for instr in block.instrs:
                    if isinstance(instr, ir.Op | ir.Emit):
                        self.nodes.append(instr)
                        self.places.append((f, k))
        number = 0
        for function in self.program.functions:
            for block in function.blocks:
                for instr in block.instrs:
                    if isinstance(instr, ir.Op | ir.Emit):
                        for v in writes(instr):
                            self.add(self.slot(v), 1 << number)
                        number += 1
                    else:
                        self._instruction(instr)
        self.solve()

    def run(self) -> Flow:
        """Return the graph of the operations."""
        self.fill()
        near: list[frozenset[int]] = []
        far: list[frozenset[int]] = []
        for function in self.program.functions:
            for block in function.blocks:
                self._reads(block, near, far)
        return Flow(nodes=tuple(self.nodes), places=tuple(self.places), near=tuple(near), far=tuple(far))

    def _instruction(self, instr: ir.Instr) -> None:
        match instr:
            case ir.Copy():
                self._move(instr.src, instr.out)
            case ir.Read():
                self._move(instr.tensor, instr.out)
            case ir.Scalar():
                for v in instr.args:
                    self._move(v, instr.out)
            case ir.New():
                site = self._site(instr, instr.out)
                for (name, j), v in zip(self.fields[instr.cls], instr.args, strict=True):
                    self._put(v, (site, name, j))
            case ir.Load():
                for j, v in enumerate(instr.outs):
                    self._from(instr.ref, instr.field, j, v)
            case ir.Store():
                for j, v in enumerate(instr.args):
                    self.at(instr.ref, partial(self._put_at, v, j, field=instr.field))
            case ir.ListNew():
                site = self._site(instr, instr.out)
                for k, v in enumerate(instr.args):
                    self._put(v, (site, "", k % instr.width))
            case ir.ListOp():
                self._list(instr)
            case ir.Call() | ir.Spawn():
                callee = self.program.functions[instr.function]
                for v, p in zip(instr.args, callee.params, strict=True):
                    self._move(v, p)
                for block in callee.blocks:
                    if isinstance(block.end, ir.Return):
                        if isinstance(instr, ir.Spawn) and instr.into is not None:
                            for j, v in enumerate(block.end.args):
                                self.at(instr.into[0], partial(self._put_at, v, j))
                            continue
                        for v, out in zip(block.end.args, instr.outs, strict=True):
                            self._move(v, out)

    def _list(self, instr: ir.ListOp) -> None:
        it, width = instr.args[0], instr.width
        match instr.op:
            case "get" | "pop" | "join":
                for j, v in enumerate(instr.outs):
                    self._from(it, "", j, v)
            case "set" | "append" | "insert" | "put":
                for j, v in enumerate(instr.args[-width:] if width else ()):
                    self.at(it, partial(self._put_at, v, j))
            case "extend" | "update" | "meet" | "minus" | "narrow" | "toggle":
                for v in instr.args[1:]:
                    self.at(v, lambda source: self.at(it, lambda site: self._elements(source, site, width)))
            case "slice" | "clone" | "order":
                site = self._site(instr, instr.outs[0])
                self.at(it, lambda source: self._elements(source, site, width))
            case "match":
                self._site(instr, instr.outs[0])
            case "fill":
                site = self._site(instr, instr.outs[0])
                for j, v in enumerate(instr.args[1:]):
                    self._put(v, (site, "", j))

    def _site(self, instr: ir.New | ir.ListNew | ir.ListOp, out: ir.Var) -> int:
        self.made.append(instr)
        self.add(self.slot(out), 1 << (len(self.nodes) + len(self.made) - 1))
        return len(self.made) - 1

    def _move(self, source: ir.Var, target: ir.Var) -> None:
        if self._matters(source):
            self.include(self.slot(source), self.slot(target))

    def _put(self, v: ir.Var, cell: _Cell) -> None:
        if self._matters(v):
            self.include(self.slot(v), self.slot(cell))

    def _put_at(self, v: ir.Var, word: int, site: int, field: str = "") -> None:
        self._put(v, (site, field, word))

    def _from(self, ref: ir.Var, field: str, word: int, v: ir.Var) -> None:
        if self._matters(v):
            self.at(ref, lambda site: self.include(self.slot((site, field, word)), self.slot(v)))

    def _elements(self, source: int, target: int, width: int) -> None:
        for j in range(width):
            self.include(self.slot((source, "", j)), self.slot((target, "", j)))

    def _reads(self, block: ir.Block, near: list[frozenset[int]], far: list[frozenset[int]]) -> None:
        """Append the operands of the block's nodes."""
        here: dict[
            ir.Var, tuple[frozenset[int], int]
        ] = {}  # nodes of this run of the block, others: whose result it is
        mask = (1 << len(self.nodes)) - 1
        nothing: tuple[frozenset[int], int] = (frozenset(), 0)

        def held(v: ir.Var) -> tuple[frozenset[int], int]:
            if not self._matters(v):
                return nothing
            if v in here:
                return here[v]
            bits = self.sets[self.slot(v)]
            others = bits & mask
            if isinstance(v.type, ListT):
                for site in bits_of(bits >> len(self.nodes)):
                    others |= self.sets[self.slot((site, "", 0))] & mask
            return frozenset(), others

        for instr in block.instrs:
            if isinstance(instr, ir.Op | ir.Emit):
                used = reads(instr) if self.numbers else [v for v in instr.args if isinstance(v, ir.Var)]
                found = [held(v) for v in used]
                node = frozenset((len(near),))
                near.append(frozenset(u for close, _ in found for u in close))
                far.append(frozenset(u for _, others in found for u in bits_of(others)))
                for v in writes(instr):
                    here[v] = node, 0
                continue
            sources: tuple[ir.Var, ...] = ()
            if isinstance(instr, ir.Copy | ir.Read) or (self.numbers and isinstance(instr, ir.Scalar)):
                sources = reads(instr)
            found = [here.get(v) or held(v) for v in sources] if any(v in here for v in sources) else []
            for v in writes(instr):
                here.pop(v, None)
                if found:
                    near_here = frozenset(u for close, _ in found for u in close)
                    others = 0
                    for _, bits in found:
                        others |= bits
                    here[v] = near_here, others


def bits_of(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, in order."""
    out = []
    while bits:
        out.append((bits & -bits).bit_length() - 1)
        bits &= bits - 1
    return out
