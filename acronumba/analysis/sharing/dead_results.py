"""Results of calls that are never read: a copy of the function does not compute them.

In: a `Program` without dead code. Out: the same, in which a call with unread results runs a copy of the function
without them, if that saves a matrix product. The root of a tree is the usual case: the model reads less of it than a
parent would. Copies have separate kernels, so a copy that saves less would only make batches smaller.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from acronumba.analysis.dead import remove_dead
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.visit import copied, numbered, reads


def drop_dead_results(program: ir.Program) -> tuple[ir.Program, tuple[Note, ...]]:
    """Return the program with calls of copies that compute less, and notes."""
    dead = _DeadResults(program)
    number = 0
    while number < len(dead.functions):  # copies come behind
        dead.function(number)
        number += 1
    if not dead.notes:
        return program, ()
    return replace(program, functions=_called(dead.functions)), tuple(dict.fromkeys(dead.notes))


class _DeadResults:
    """The functions of a program, and copies of them without some results."""

    def __init__(self, program: ir.Program) -> None:
        self.functions = list(program.functions)
        self.names = {f.name for f in program.functions}
        self.copies: dict[tuple[int, frozenset[int]], int | None] = {}  # None: a copy would save no matrix product
        self.notes: list[Note] = []

    def function(self, number: int) -> None:
        """Rewrite a function so that its calls run copies without unread results."""
        function = self.functions[number]
        used = {v for b in function.blocks for i in (*b.instrs, b.end) for v in reads(i)}
        blocks = tuple(
            replace(b, instrs=tuple(self.call(i, used) if isinstance(i, ir.Call) else i for i in b.instrs))
            for b in function.blocks
        )
        self.functions[number] = replace(self.functions[number], blocks=blocks)

    def call(self, call: ir.Call, used: Set[ir.Var]) -> ir.Call:
        """Return the call, of a copy without the results that are not `used` if that pays."""
        dead = frozenset(k for k, v in enumerate(call.outs) if v not in used)
        if not dead or (copy := self.copy(call.function, dead)) is None:
            return call
        names = " and ".join(f"`{call.outs[k].name}`" for k in sorted(dead))
        name = self.functions[call.function].name
        told = f"a copy of `{name}` runs here, without the matrix products of {names}, which are never read"
        self.notes.append(Note(loc=call.loc, kind="duplicated", text=told, option="duplicate"))
        return replace(call, function=copy, outs=_others(call.outs, dead))

    def copy(self, number: int, dead: frozenset[int]) -> int | None:
        """Return the number of the copy of a function without some results; None if it would save nothing."""
        key = number, dead
        if key not in self.copies:
            self.copies[key] = None
            function = self.functions[number]
            less = remove_dead(_without(function, dead))
            if _products(less) < _products(function):
                self.copies[key] = len(self.functions)
                self.functions.append(copied(less, numbered(function.name, self.names)))
        return self.copies[key]


def _others(xs: tuple[ir.Var, ...], dead: Set[int]) -> tuple[ir.Var, ...]:
    return tuple(x for k, x in enumerate(xs) if k not in dead)


def _without(function: ir.Function, dead: Set[int]) -> ir.Function:
    """Return the function without some of its results."""
    ends = (
        replace(b.end, args=_others(b.end.args, dead)) if isinstance(b.end, ir.Return) else b.end
        for b in function.blocks
    )
    blocks = tuple(replace(b, end=end) for b, end in zip(function.blocks, ends, strict=True))
    return replace(function, blocks=blocks, results=tuple(w for k, w in enumerate(function.results) if k not in dead))


def _products(function: ir.Function) -> int:
    """Return the number of matrix products that a function records itself."""
    return sum(isinstance(i, ir.Op) and TENSORS[i.op].kind == "product" for b in function.blocks for i in b.instrs)


def _called(functions: list[ir.Function]) -> tuple[ir.Function, ...]:
    """Return the functions that the first one calls, itself or by others, and renumber calls."""
    found, todo = {0}, [0]
    while todo:
        calls = (i.function for b in functions[todo.pop()].blocks for i in b.instrs if isinstance(i, ir.Call))
        new = {*calls} - found
        found |= new
        todo += new
    number = {k: n for n, k in enumerate(sorted(found))}

    def renumbered(i: ir.Instr) -> ir.Instr:
        return replace(i, function=number[i.function]) if isinstance(i, ir.Call) else i

    return tuple(
        replace(
            functions[k], blocks=tuple(replace(b, instrs=tuple(map(renumbered, b.instrs))) for b in functions[k].blocks)
        )
        for k in number
    )
