"""Value numbering and simplification of host numbers while IR is emitted.

In: an operation and its arguments. Out: its result, where that is known without another instruction.

Value numbering is dominator-based (Briggs, Cooper & Simpson 1997): an instruction is not emitted again if every path
to the current block has passed an equal one. So extents computed twice from the same numbers are one variable, and
arrays of these extents match without a check at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT

if TYPE_CHECKING:
    from acronumba.frontend.block import FunctionCode

_FAR = 64  # maximal number of dominating blocks that are searched
Key = tuple[Any, ...]  # the operation and operands of an instruction


class Naturals:
    """The variables of ints that are not negative: lengths and counters, and extents where an array has them.

    An int that the user computed is an extent from the instruction on that has tested it: on other paths it may be
    negative. Such a variable is known together with this instruction, as long as the instruction stays.
    """

    def __init__(self, block: Callable[[], int | None], code: Callable[[], FunctionCode]) -> None:
        self._block, self._code = block, code
        self._always: set[ir.Var] = set()
        self._tested: dict[ir.Var, list[tuple[int, int, ir.Instr]]] = {}  # block, position, instruction there

    def add(self, var: ir.Var) -> None:
        """Note a variable that is never negative, by its making."""
        self._always.add(var)

    def tested(self, extents: Iterable[ir.Extent | None]) -> None:
        """Note extents that the last instruction of the current block has found not to be negative."""
        block = self._block()
        if block is None or not (instrs := self._code().blocks[block]):
            return
        for n in extents:
            if isinstance(n, ir.Var) and n not in self._always:
                self._tested.setdefault(n, []).append((block, len(instrs) - 1, instrs[-1]))

    def __contains__(self, var: object) -> bool:
        if var in self._always:
            return True
        found, block = self._tested.get(var), self._block()  # type: ignore[call-overload]
        if not found or block is None:
            return False
        code = self._code()
        ways = code.numbering.ways(block)
        return any(b in ways and k < len(code.blocks[b]) and code.blocks[b][k] is instr for b, k, instr in found)


class Numbering:
    """Value numbering of one function during its emission."""

    def __init__(self) -> None:
        self.over: dict[int, int] = {}  # by block: its nearest known dominator
        self.there: dict[Key, dict[int, tuple[int, ir.Instr]]] = {}  # by key and block: position and instruction
        self.true: dict[int, ir.Var] = {}  # by block: a bool that holds where it begins
        self.made: dict[ir.Var, tuple[str, tuple[Num, ...]]] = {}  # operation and arguments of each scalar

    def begin(self, block: int, over: Sequence[int]) -> None:
        """Note a new block; every path to it passes one of the blocks `over`."""
        self.true.pop(block, None)
        ways = [self.ways(b) for b in over]
        self.over.pop(block, None)
        for b in ways[0] if ways else ():
            if all(b in w for w in ways[1:]):
                self.over[block] = b
                break

    def ways(self, block: int) -> list[int]:
        """Return a block and its known dominators, the nearest first."""
        out = [block]
        while len(out) < _FAR and out[-1] in self.over:
            out.append(self.over[out[-1]])
        return out

    def find(self, blocks: Sequence[Sequence[ir.Instr]], block: int, key: Key, far: bool) -> ir.Instr | None:
        """Return an instruction with this key that every path to the end of a block passes; None if there is none.

        Without `far`, only the block itself is searched.
        """
        places = self.there.get(key)
        if places is None:
            return None
        for b in self.ways(block) if far else (block,):
            found = places.get(b)
            if found is not None:
                k, instr = found
                if k < len(blocks[b]) and blocks[b][k] is instr:  # else it was undone
                    return instr
        return None

    def note(self, block: int, key: Key, k: int, instr: ir.Instr) -> None:
        """Note that instruction `k` of a block has this key."""
        self.there.setdefault(key, {})[block] = k, instr

    def holds(self, block: int, var: ir.Var) -> bool:
        """Whether every path to a block has found that a bool holds."""
        return any(self.true.get(b) is var for b in self.ways(block))

    def follows(self, a: ir.Var, b: ir.Var) -> bool:
        """Whether `a` is `b + 1`."""
        op, parts = self.made.get(a, ("", ()))
        return op == "add" and parts[0].var is b and parts[1].const == 1

    def simplified(self, op: str, args: Sequence[Num], naturals: Container[ir.Var]) -> Num | None:
        """Return the result of an operation on ints if it is one of its arguments or a constant; else None."""
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
        """Return a sum or difference if it is one of its operands or a constant; `(a + b) - b` is `a`."""
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

    def _not_above_zero(self, a: Num, naturals: Container[ir.Var]) -> bool:
        if a.const is not NOT_CONST:
            return bool(a.const <= 0)
        made, parts = self.made.get(a.var, ("", ())) if a.var is not None else ("", ())
        return made == "neg" and is_natural(parts[0], naturals)


def _equal(a: Num, b: Num) -> bool:
    if a.const is not NOT_CONST or b.const is not NOT_CONST:
        return bool(a.const is not NOT_CONST and b.const is not NOT_CONST and a.const == b.const)
    return a.var is not None and a.var is b.var


def below(a: Num) -> bool:
    """Whether a number is a negative constant."""
    return a.const is not NOT_CONST and bool(a.const < 0)


def is_natural(a: Num, naturals: Container[ir.Var]) -> bool:
    """Whether an int is known not to be negative."""
    if a.const is not NOT_CONST:
        return a.type == INT and bool(a.const >= 0)
    return a.var is not None and a.var in naturals


def fits(op: str, args: Sequence[Num], naturals: Container[ir.Var]) -> bool:
    """Whether the result of an operation on ints is known to fit a word, so that it needs no check."""
    return op in ("neg", "abs", "sub") and all(is_natural(a, naturals) for a in args)


def gives_natural(op: str, args: Sequence[Num], naturals: Container[ir.Var]) -> bool:
    """Whether the result of an operation on ints is known not to be negative."""
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
