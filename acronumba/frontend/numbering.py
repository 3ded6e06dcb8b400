"""What is known of numbers of the host while IR is written: what was computed already, and what need not be computed.

In: an operation and its arguments. Out: the number that it gives, where that is known without another instruction.

Instructions are numbered by what they compute (dominator-based value numbering: Briggs, Cooper & Simpson 1997): one
that every way to the current block has passed is not written again. Extents that are computed twice from the same
numbers are one variable by this, so that arrays of these extents go together without a check at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acronumba.frontend.values import NOT_CONST, Num, number
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT

_FAR = 64  # dominating blocks that are looked through

Key = tuple[Any, ...]  # what an instruction computes, and from what


class Numbering:
    """The numbers of one function while it is written."""

    def __init__(self) -> None:
        self.over: dict[int, int] = {}  # of a block: one that dominates it, if any is known
        self.there: dict[int, dict[Key, tuple[int, ir.Instr]]] = {}  # by block: where in it something is computed
        self.made: dict[ir.Var, tuple[str, tuple[Num, ...]]] = {}  # what scalars are computed by, and from what

    def begin(self, block: int, over: Sequence[int]) -> None:
        """Note that every way to a new block passes one of some others."""
        self.there[block] = {}
        ways = [self._ways(b) for b in over]
        common = [b for b in ways[0] if all(b in w for w in ways[1:])] if ways else []
        self.over.pop(block, None)
        if common:
            self.over[block] = common[0]

    def _ways(self, block: int) -> list[int]:
        """Return a block and those that are known to dominate it, the nearest first."""
        out = [block]
        while len(out) < _FAR and out[-1] in self.over:
            out.append(self.over[out[-1]])
        return out

    def find(self, blocks: Sequence[Sequence[ir.Instr]], block: int, key: Key, far: bool) -> ir.Instr | None:
        """Return the instruction that has computed something on every way to the end of a block, or in it alone."""
        for b in self._ways(block) if far else (block,):
            found = self.there.get(b, {}).get(key)
            if found is not None:
                k, instr = found
                if k < len(blocks[b]) and blocks[b][k] is instr:  # else it was undone
                    return instr
        return None

    def note(self, block: int, key: Key, k: int, instr: ir.Instr) -> None:
        """Note that instruction `k` of a block computes something."""
        self.there.setdefault(block, {})[key] = k, instr

    def follows(self, a: ir.Var, b: ir.Var) -> bool:
        """Whether a number is another one and 1."""
        op, parts = self.made.get(a, ("", ()))
        return op == "add" and parts[0].var is b and parts[1].const == 1

    def simplified(self, op: str, args: Sequence[Num], naturals: Mapping[ir.Var, None]) -> Num | None:
        """Return what an operation on ints gives where an argument, or nothing but a constant, is the answer."""
        if not args or any(a.type != INT for a in args[-2:]):
            return None
        same = len(args) > 1 and _equal(args[-1], args[-2])
        a, b = args[-2:] if len(args) > 1 else (args[0], number(0))
        match op:
            case "add" | "sub":
                return self._sum(op, a, b, same)
            case "mul" if 1 in (a.const, b.const):
                return a if b.const == 1 else b
            case "mul" if 0 in (a.const, b.const):
                return number(0)
            case "floordiv" if b.const == 1:
                return a
            case "neg" if self.made.get(a.var, ("",))[0] == "neg":  # type: ignore[arg-type]
                return self.made[a.var][1][0]  # type: ignore[index]
            case "min" | "max" | "select" if same:
                return a
            case "max" if 0 in (a.const, b.const):
                other = a if b.const == 0 else b
                return other if is_natural(other, naturals) else None
            case "eq" | "le" | "ge" if same:
                return number(True)
            case "ne" | "lt" | "gt" if same:
                return number(False)
            case "ge" | "lt" if is_natural(a, naturals) and self._not_above_zero(b, naturals):
                return number(op == "ge")
            case "eq" | "ne" if (is_natural(a, naturals) and below(b)) or (is_natural(b, naturals) and below(a)):
                return number(op == "ne")
        return None

    def _sum(self, op: str, a: Num, b: Num, same: bool) -> Num | None:
        """Return what a sum or difference is; a constant that comes in twice is taken away again."""
        if b.const == 0:
            return a
        if op == "add":
            return b if a.const == 0 else None
        if same:
            return number(0)
        made, parts = self.made.get(a.var, ("", ())) if a.var is not None else ("", ())
        if made == "add":
            for part, other in (parts, reversed(parts)):
                if _equal(other, b):
                    return part
        return None

    def _not_above_zero(self, a: Num, naturals: Mapping[ir.Var, None]) -> bool:
        if a.const is not NOT_CONST:
            return bool(a.const <= 0)
        made, parts = self.made.get(a.var, ("", ())) if a.var is not None else ("", ())
        return made == "neg" and is_natural(parts[0], naturals)


def _equal(a: Num, b: Num) -> bool:
    if a.const is not NOT_CONST or b.const is not NOT_CONST:
        return bool(a.const is not NOT_CONST and b.const is not NOT_CONST and a.const == b.const)
    return a.var is not None and a.var is b.var


def below(a: Num) -> bool:
    """Whether a number is a constant below zero."""
    return a.const is not NOT_CONST and bool(a.const < 0)


def is_natural(a: Num, naturals: Mapping[ir.Var, None]) -> bool:
    """Whether an int is known not to be below zero."""
    if a.const is not NOT_CONST:
        return a.type == INT and bool(a.const >= 0)
    return a.var is not None and a.var in naturals


def fits(op: str, args: Sequence[Num], naturals: Mapping[ir.Var, None]) -> bool:
    """Whether the result of an operation on ints certainly fits a word: it needs no check."""
    return op in ("neg", "abs", "sub") and all(is_natural(a, naturals) for a in args)


def gives_natural(op: str, args: Sequence[Num], naturals: Mapping[ir.Var, None]) -> bool:
    """Whether an operation on ints gives one that is not below zero."""
    known = [is_natural(a, naturals) for a in args]
    match op:
        case "add" | "mul" | "min" | "floordiv":
            return all(known)
        case "max":
            return any(known)
        case "mod":
            return known[1]
        case "select":
            return known[1] and known[2]
        case "int":
            return True
    return False
