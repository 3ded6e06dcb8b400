"""Run-time extents: one variable for each, wherever it is read.

In: a `Function`. Out: the function in which every operand of a tensor operation has its extents in constants or
variables, and equal extents in the same variable, so that kernels know which of their extents are equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.agree import fits
from acronumba.ir.graph import definitions, dominators, fixed_variables
from acronumba.ir.types import INT, TensorT
from acronumba.ir.visit import reads, rename, writes


class Extents:
    """Resolves extents, and copies of variables that are assigned once.

    An `ExtentOf` becomes a constant, the variable in the shape of an operation, or the first equal `ExtentOf`. One is
    added wherever an operand of an operation has a run-time extent that no variable holds, so that
    `Grouping._extents_at` always finds one.
    """

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.single = definitions(function)
        # A check may have proved more extents of a copy: instructions that store or pass it read the copy.
        self.handed_on = {
            v
            for b in function.blocks
            for i in (*b.instrs, b.end)
            if not isinstance(i, ir.Op | ir.ExtentOf | ir.Copy)
            for v in reads(i)
        }
        self.fixed = fixed_variables(function)
        self.dominators = dominators(function.blocks)
        self.to: dict[ir.Var, ir.Var] = {}
        self.known: dict[tuple[ir.Var, int], list[tuple[int, ir.Var]]] = defaultdict(list)
        self.names = {v.name for b in function.blocks for i in b.instrs for v in writes(i)}
        self.names |= {v.name for v in function.params}

    def run(self) -> ir.Function:
        blocks = []
        for k, block in enumerate(self.function.blocks):
            local: dict[tuple[ir.Var, int], ir.Extent] = {}
            out: list[ir.Instr] = []
            for old in block.instrs:
                instr = rename(old, self.to)
                assert not isinstance(instr, ir.End)
                if isinstance(instr, ir.Op):
                    for arg in instr.args:
                        if isinstance(arg, ir.Var) and isinstance(arg.type, TensorT):
                            self._operand(k, arg, local, out, instr.loc)
                if isinstance(instr, ir.ExtentOf):
                    instr = self._extent(k, instr, local)
                if (
                    isinstance(instr, ir.Copy)
                    and instr.out in self.single
                    and instr.src in self.fixed
                    and (fits(instr.src.type, instr.out.type) or instr.out not in self.handed_on)
                ):
                    self.to[instr.out] = instr.src
                    continue
                out.append(instr)
                for v in writes(instr):
                    if v not in self.fixed:
                        for key in [key for key in local if v in (key[0], local[key])]:
                            del local[key]
                if isinstance(instr, ir.Op):
                    local |= {(instr.out, axis): n for axis, n in enumerate(instr.shape)}
            blocks.append(ir.Block(instrs=tuple(out), end=block.end))
        # A loop may read a copy before the block that makes it was seen: rename once more.
        final = tuple(
            ir.Block(instrs=tuple(rename(i, self.to) for i in b.instrs), end=rename(b.end, self.to))  # type: ignore[misc, arg-type]
            for b in blocks
        )
        return replace(self.function, blocks=final)

    def _value(
        self, k: int, tensor: ir.Var, axis: int, local: Mapping[tuple[ir.Var, int], ir.Extent]
    ) -> ir.Extent | None:
        assert isinstance(tensor.type, TensorT)
        constant = tensor.type.shape[axis]
        if constant is not None:
            return constant
        by = self.single.get(tensor)
        if isinstance(by, ir.Op):
            extent = by.shape[axis]
            if isinstance(extent, int) or extent in self.fixed:
                return self.to.get(extent, extent) if isinstance(extent, ir.Var) else extent
        if tensor in self.fixed:
            for block, var in self.known[tensor, axis]:
                if block in self.dominators[k]:
                    return var
        return local.get((tensor, axis))

    def _note(self, k: int, instr: ir.ExtentOf, local: dict[tuple[ir.Var, int], ir.Extent]) -> None:
        if instr.tensor in self.fixed and instr.out in self.fixed:
            self.known[instr.tensor, instr.axis].append((k, instr.out))
        else:
            local[instr.tensor, instr.axis] = instr.out

    def _extent(self, k: int, instr: ir.ExtentOf, local: dict[tuple[ir.Var, int], ir.Extent]) -> ir.Instr:
        value = self._value(k, instr.tensor, instr.axis, local)
        if isinstance(value, int):
            return ir.Const(out=instr.out, value=value, loc=instr.loc)
        if value is not None:
            return ir.Copy(out=instr.out, src=value, loc=instr.loc)
        self._note(k, instr, local)
        return instr

    def _operand(
        self, k: int, tensor: ir.Var, local: dict[tuple[ir.Var, int], ir.Extent], out: list[ir.Instr], loc: Loc
    ) -> None:
        assert isinstance(tensor.type, TensorT)
        for axis in range(tensor.type.rank):
            if self._value(k, tensor, axis, local) is None:
                name = f"{tensor.name}_extent{axis}"
                while name in self.names:
                    name += "_"
                self.names.add(name)
                var = ir.Var(name, INT)
                instr = ir.ExtentOf(out=var, tensor=tensor, axis=axis, loc=loc)
                self.single[var] = instr
                if tensor in self.fixed:
                    self.fixed.add(var)
                out.append(instr)
                self._note(k, instr, local)
