"""Mutation: the lists and objects that an instruction may change, and those that it may read.

In: a `Program`. Out: for an instruction two sets of lists and rows, as integers with a bit for each allocation site
(`analysis.value_flow`: Andersen's inclusion analysis). Tensors and instance data never change. Of the lists that
existed before a call, the call can change only lists that are reachable from its arguments. (The lists that a function
may change, itself or through its callees, are a fixed point on the call graph, as in J. Banning, "An efficient way to
find the side effects of procedure calls and the aliases of variables", POPL 1979.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from acronumba.analysis.value_flow import Inclusion, bits_of
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.types import ListT, RefT

CHANGES = frozenset(
    "set append pop insert extend sort reverse put remove update erase next meet minus narrow exclude toggle".split()
)


def changed_by(instr: ir.Instr) -> ir.Var | None:
    """Return the list or row that an instruction itself changes."""
    match instr:
        case ir.ListOp() if instr.op in CHANGES:
            return instr.args[0]
        case ir.Store():
            return instr.ref
    return None


class Mutation:
    """Analysis of the lists and rows that the instructions of a program may change and read."""

    def __init__(self, program: ir.Program) -> None:
        self._solved = Inclusion(program)
        self._solved.fill()
        self._origin: dict[ir.Var, ir.Var] = {}
        self._first = len(self._solved.nodes)
        self._inside: dict[int, list[int]] = defaultdict(list)  # slots of the fields or elements of a row or list
        for key, slot in self._solved.slots.items():
            if isinstance(key, tuple):
                self._inside[key[0]].append(slot)
        self._changed = self._functions(program)

    def _functions(self, program: ir.Program) -> list[int]:
        """Return the lists and rows, as bits, that each function changes, except its local ones that never escape."""
        out = [0] * len(program.functions)
        calls: list[set[int]] = [set() for _ in program.functions]
        for number, f in enumerate(program.functions):
            mine = own_things(f)
            for instr in (i for b in f.blocks for i in b.instrs):
                changed_here = changed_by(instr)
                if changed_here is not None and changed_here not in mine:
                    out[number] |= self.held(changed_here)
                elif isinstance(instr, ir.Call | ir.Spawn):
                    calls[number].add(instr.function)
        changed = True
        while changed:
            changed = False
            for number, callees in enumerate(calls):
                new = out[number]
                for c in callees:
                    new |= out[c]
                if new != out[number]:
                    out[number], changed = new, True
        return out

    def add_function(self, function: ir.Function) -> None:
        """Add a function outlined from others, as the last of the program."""
        mine = own_things(function)
        out = 0
        for instr in (i for b in function.blocks for i in b.instrs):
            changed_here = changed_by(instr)
            if changed_here is not None and changed_here not in mine:
                out |= self.held(changed_here)
            elif isinstance(instr, ir.Call | ir.Spawn):
                out |= self._changed[instr.function]
        self._changed.append(out)

    def copied(self, v: ir.Var, source: ir.Var) -> None:
        """Let a new variable hold the values of `source`."""
        self._origin[v] = self._origin.get(source, source)

    def held(self, v: ir.Var) -> int:
        """Return the rows and lists that a variable may hold."""
        return self._solved.held(self._origin.get(v, v))

    def reach(self, vs: Iterable[ir.Var]) -> int:
        """Return the rows and lists that are reachable from variables."""
        out, new = 0, 0
        for v in vs:
            if isinstance(v.type, ListT | RefT):
                new |= self.held(v)
        while new:
            out |= new
            found = 0
            for site in bits_of(new):
                for slot in self._inside[site]:
                    found |= self._solved.sets[slot] >> self._first
            new = found & ~out
        return out

    def changes(self, instr: ir.Instr) -> int:
        """Return the lists and rows, as bits, that existed before the instruction and that it may change."""
        here = changed_by(instr)
        if here is not None:
            return self.held(here)
        match instr:
            case ir.Call() | ir.Spawn():
                return self._changed[instr.function] & self.reach(instr.args)
        return 0

    def touches(self, instr: ir.Instr) -> int:
        """Return the lists and rows, as bits, whose elements or fields the instruction may read or change."""
        match instr:
            case ir.Load() | ir.Store():
                return self.held(instr.ref)
            case ir.ListOp() | ir.Op() | ir.Emit():
                out = 0
                for v in instr.args[1:] if isinstance(instr, ir.ListOp) and instr.op == "fill" else instr.args:
                    if isinstance(v, ir.Var) and isinstance(v.type, ListT):
                        out |= self.held(v)
                return out
            case ir.Call() | ir.Spawn():
                return self.reach(instr.args)
        return 0


def own_things(function: ir.Function) -> set[ir.Var]:
    """Return the variables that hold only lists or rows created by the same run of the function."""
    single = definitions(function)
    return {
        v for v, i in single.items() if isinstance(i, ir.New | ir.ListNew) or (isinstance(i, ir.ListOp) and _makes(i))
    }


def _makes(instr: ir.ListOp) -> bool:
    return instr.op in ("slice", "fill", "match", "clone", "order")
