"""Constant propagation of extents: after `check n == 512` the extent is 512.

In: a `Function` whose extents are resolved (`analysis.grouping.extents`). Out: the function in which instructions
behind such a check read the constant, and arrays with this extent are read as arrays whose type has it. So kernels have
the constant in place of a run-time extent. Later questions about it are answered and removed: whether it is 1, say.

The blocks that a check dominates are behind it. So are the instructions that follow in its own block, unless an
operation before it has the extent: both may become one kernel, in which an extent is either known or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions, dominators, fixed_variables
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import TensorT
from acronumba.ir.visit import Names, reads, rename, writes
from acronumba.records import record


@record(frozen=False)
class _Facts:
    """Facts that hold at a point of the program."""

    numbers: dict[ir.Var, ir.Var] = field(default_factory=dict)  # extents -> the variable of the constant
    tensors: dict[ir.Var, ir.Var] = field(default_factory=dict)  # arrays -> the same, of a type with known extents
    true: set[ir.Var] = field(default_factory=set)  # bools

    def __or__(self, other: _Facts) -> _Facts:
        return _Facts(self.numbers | other.numbers, self.tensors | other.tensors, self.true | other.true)


def replace_proved(function: ir.Function) -> ir.Function:
    """Return the function with constants for extents that a check has proved."""
    return _Proved(function).run()


class _Proved:
    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.single = definitions(function)
        self.fixed = fixed_variables(function)
        self.names = Names(function)
        self.extents: dict[ir.Var, list[tuple[ir.Var, int]]] = {}  # -> the arrays and axes that have them
        for instr in (i for b in function.blocks for i in b.instrs):
            if isinstance(instr, ir.ExtentOf) and {instr.tensor, instr.out} <= self.fixed:
                self.extents.setdefault(instr.out, []).append((instr.tensor, instr.axis))
        for instr in (i for b in function.blocks for i in b.instrs):
            if isinstance(instr, ir.Op) and instr.out in self.fixed:
                for axis, n in enumerate(instr.shape):
                    if isinstance(n, ir.Var) and n in self.extents:
                        self.extents[n].append((instr.out, axis))

    def run(self) -> ir.Function:
        if not any(self._proves(i) for b in self.function.blocks for i in b.instrs):
            return self.function
        over = dominators(self.function.blocks)
        blocks = list(self.function.blocks)
        found: dict[int, _Facts] = {}
        for k in sorted(range(len(blocks)), key=lambda k: len(over[k])):  # dominators first
            facts = _Facts()
            made = set(self.function.params)  # variables that exist at the start of the block
            for d in sorted(over[k] - {k}, key=lambda d: len(over[d])):
                facts |= found[d]
                made.update(v for i in blocks[d].instrs for v in writes(i))
            blocks[k], found[k] = self._block(blocks[k], facts, made)
        return replace(self.function, blocks=tuple(blocks))

    def _proves(self, instr: ir.Instr) -> tuple[ir.Var, ir.Var] | None:
        """Return an extent and the constant that a check proves it to be."""
        by = self.single.get(instr.cond) if isinstance(instr, ir.Check) else None
        if isinstance(by, ir.Scalar) and by.op == "eq":
            for n, c in (by.args, by.args[::-1]):
                known = self.single.get(c)
                if n in self.extents and isinstance(known, ir.Const) and isinstance(known.value, int):
                    if known.value >= 0:
                        return n, c
        return None

    def _block(self, block: ir.Block, facts: _Facts, made: set[ir.Var]) -> tuple[ir.Block, _Facts]:
        """Return a block rewritten with the facts that hold in it, and the facts that hold behind it."""
        later = _Facts()  # known behind the block
        out: list[ir.Instr] = []
        has: set[ir.Var] = set()  # operands, results and extents of the operations so far
        for old in block.instrs:
            instr = self._known(old, facts)
            if instr is None:
                continue
            out.append(instr)
            made.update(writes(instr))
            if isinstance(instr, ir.Op):
                has |= {instr.out, *reads(instr)}
            proved = self._proves(instr)
            if proved is not None and isinstance(instr, ir.Check):
                n, c = proved
                there = [(x, axis) for x, axis in self.extents[n] if x in made]
                mixed = has & {n, *(facts.tensors.get(x, x) for x, _ in there)}
                known = later if mixed else facts
                known.numbers[n] = c
                known.true.add(instr.cond)
                for x, axis in there:
                    before = later.tensors.get(x) or facts.tensors.get(x, x)
                    out.append(copy := self._copy(before, axis, c, instr))
                    (later if x in later.tensors else known).tensors[x] = copy.out
        end: ir.End = rename(block.end, facts.numbers)  # type: ignore[assignment]
        return replace(block, instrs=tuple(out), end=end), facts | later

    def _copy(self, x: ir.Var, axis: int, c: ir.Var, at: ir.Check) -> ir.Copy:
        constant = self.single[c]
        assert isinstance(x.type, TensorT) and isinstance(constant, ir.Const) and isinstance(constant.value, int)
        shape = (*x.type.shape[:axis], constant.value, *x.type.shape[axis + 1 :])
        return ir.Copy(out=self.names.var(x.name, TensorT(x.type.dtype, shape)), src=x, loc=at.loc)

    def _known(self, old: ir.Instr, facts: _Facts) -> ir.Instr | None:
        """Return an instruction rewritten with facts; None if nothing is left to do."""
        if not facts.numbers:
            return old

        def value(v: ir.Var) -> object:
            by = self.single.get(v)
            return True if v in facts.true else by.value if isinstance(by, ir.Const) else None

        to: Mapping[ir.Var, ir.Var] = facts.numbers | facts.tensors if isinstance(old, ir.Op) else facts.numbers
        instr = rename(old, to)
        assert not isinstance(instr, ir.End)
        match instr:
            case ir.ExtentOf(tensor=x, axis=axis) if isinstance(t := facts.tensors.get(x, x).type, TensorT):
                n = t.shape[axis]
                return instr if n is None else self._constant(instr.out, n, instr)
            case ir.Scalar(op="either", args=(a, b)) if value(a) is True or value(b) is True:
                return self._constant(instr.out, True, instr)
            case ir.Scalar(op=op, args=args, site=-1) if SCALARS[op].result == "b" and instr is not old:
                found = [value(a) for a in args]
                if all(isinstance(v, int) for v in found):
                    return self._constant(instr.out, SCALARS[op].reference(*found), instr)
            case ir.Check(cond=cond) if value(cond) is True:
                return None
        return instr

    def _constant(self, out: ir.Var, value: int | bool, at: ir.Instr) -> ir.Const:
        made = ir.Const(out=out, value=value, loc=at.loc)
        if out in self.single:
            self.single[out] = made
        return made
