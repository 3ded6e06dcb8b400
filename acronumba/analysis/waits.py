"""Waits: reads of tensors by the host program, and the functions that may execute one.

In: a `Program`, before or after planning. Out: the functions that may wait, themselves or through callees
(`waiting_functions`), whether an instance may have several fibers (`forks`), and each wait with its line, as text
(`waits_text`) and as notes (`waits_notes`). A call of a function that cannot wait is an ordinary call; a call of a
function that may wait needs a frame that outlives the round.

A function may wait if it reads a tensor or calls a function that may wait: the least fixed point over the call graph.
"""

from __future__ import annotations

from collections.abc import Iterator

from acronumba.ir.nodes import Call, Emit, Function, Program, Read, Spawn
from acronumba.ir.notes import Note
from acronumba.ir.types import TensorT


def waiting_functions(program: Program) -> frozenset[int]:
    """Return the numbers of the functions that may wait for the value of a tensor, themselves or through callees."""
    calls: list[set[int]] = []
    out: set[int] = set()
    for number, function in enumerate(program.functions):
        instrs = [i for b in function.blocks for i in b.instrs]
        calls.append({i.function for i in instrs if isinstance(i, Call | Spawn)})
        if any(isinstance(i, Read) for i in instrs):
            out.add(number)
    before = -1
    while before < (before := len(out)):
        out |= {number for number, callees in enumerate(calls) if callees & out}
    return frozenset(out)


def decisive(program: Program) -> dict[int, set[int]]:
    """Return the results of each kernel, of a program after planning, that the host program may read: of rank 0."""
    out: dict[int, set[int]] = {}
    if waiting_functions(program):
        for emit in (i for f in program.functions for b in f.blocks for i in b.instrs if isinstance(i, Emit)):
            found = {k for k, v in enumerate(emit.outs) if not (isinstance(v.type, TensorT) and v.type.rank)}
            out.setdefault(emit.kernel, set()).update(found)
    return out


def forks(program: Program) -> bool:
    """Whether an instance may have several fibers."""
    return any(isinstance(i, Spawn) for f in program.functions for b in f.blocks for i in b.instrs)


def waits_text(program: Program) -> str:
    """Return as text, per function, its waits (line, dtype read, and reason) and its calls of functions that wait."""
    waiting = waiting_functions(program)
    lines: list[str] = []
    for number, function in enumerate(program.functions):
        if number not in waiting:
            continue
        lines.append(f"{function.name}:")
        own = [f"    line {i.loc.line}: {_dtype(i)} for {i.why or 'the host'}" for i in _waits(function)]
        called = dict.fromkeys(
            f"    line {i.loc.line}: calls {program.functions[i.function].name}"
            for b in function.blocks
            for i in b.instrs
            if isinstance(i, Call | Spawn) and i.function in waiting
        )
        lines += [*dict.fromkeys(own), *called]
    return "\n".join(lines) + "\n" if lines else "nothing waits\n"


def waits_notes(program: Program) -> tuple[Note, ...]:
    """Return a note for each wait."""
    out: dict[Note, None] = {}
    for function in program.functions:
        for i in _waits(function):
            text = f"waits for the value of a {_dtype(i)}, which {i.why or 'the host'} needs"
            out[Note(loc=i.loc, kind="wait", text=text, option="")] = None
    return tuple(out)


def _waits(function: Function) -> Iterator[Read]:
    for block in function.blocks:
        for instr in block.instrs:
            if isinstance(instr, Read):
                yield instr


def _dtype(read: Read) -> str:
    assert isinstance(read.tensor.type, TensorT)
    return read.tensor.type.dtype
