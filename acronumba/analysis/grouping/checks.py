"""Removal of repeated checks, in functions that wait.

In: a `Function` whose extents are resolved (`analysis.grouping.extents`). Out: the same without checks that are
dominated by an equal check. A check stays behind the reads of tensors before it, and instructions that rely on it stay
behind it: `float(f(x))` and then `float(g(x))` would be two waits if both checked the extent of `x`. Source:
dominator-based value numbering (Briggs, Cooper & Simpson 1997).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions, dominators, fixed_variables


def remove_repeated_checks(function: ir.Function) -> ir.Function:
    """Return the function without checks that were made on every path to them; unchanged if it never waits."""
    if not any(isinstance(i, ir.Read) for b in function.blocks for i in b.instrs):
        return function
    single = definitions(function)
    stable = fixed_variables(function)
    over = dominators(function.blocks)
    blocks = list(function.blocks)
    asked: list[set[object]] = [set() for _ in blocks]
    for k in sorted(range(len(blocks)), key=lambda k: len(over[k])):  # dominators first
        asked[k] = set().union(*(asked[d] for d in over[k]))
        out: list[ir.Instr] = []
        for instr in blocks[k].instrs:
            if isinstance(instr, ir.Check):
                question = _number(instr.cond, single, stable)
                if question in asked[k]:
                    continue
                if question is not None:
                    asked[k].add(question)
            out.append(instr)
        blocks[k] = replace(blocks[k], instrs=tuple(out))
    return replace(function, blocks=tuple(blocks))


def _number(v: ir.Var, single: Mapping[ir.Var, ir.Instr], stable: set[ir.Var]) -> object:
    """Return a value number of a host number, equal for equal computations; None if the variable may change."""
    match single.get(v):
        case ir.Const(value=value):
            return ("const", v.type, repr(value))
        case ir.Copy(src=src):
            return _number(src, single, stable)
        case ir.Scalar(op=op, args=args, site=-1):
            parts = tuple(_number(a, single, stable) for a in args)
            return None if None in parts else (op, parts)
    return v if v in stable else None
