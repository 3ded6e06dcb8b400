"""Unrolling of loops over a constant range.

In: a range, the target and the body of a loop. Out: the numbers of the range if the loop is unrolled, None if it stays
a loop of the host program.

The iterations of an unrolled loop can share a kernel, and each can have types, shapes and weights of its own. This
costs code, which nested loops multiply. So a large loop is not unrolled, and in a large program, or without operations
on tensors, only a small one is, unless its iterations read different weights or parts of different types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from acronumba.frontend.exceptions import Abandoned, Dead, Rejected
from acronumba.frontend.kinds.iterators import Range
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.walker import MOST_INSTRUCTIONS, MOST_OPERATIONS, UNROLL, Loop, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.types import TensorT

BUDGET = 2048  # instructions of the program, beyond which (and without operations on tensors) only loops of
FEW_INSTRUCTIONS = 64  # instructions in all are unrolled for the index alone


def unrolled_range(
    w: Walker, r: Range, turn: Callable[[Val], object], code: ast.For | None, indexed: bool = False
) -> tuple[Val, ...] | None:
    """Return the numbers of a short constant range if the loop over it is to be unrolled; else None.

    It is unrolled if the variable is used in an index or a text and `fits` holds. Without `indexed`, it is also
    unrolled if the body is small and the range does not depend on shared parameters, as a small body does not justify
    a recompilation for each value of a parameter. Shared ints in the range of an unrolled loop become constants.
    """
    target = None if code is None else code.target
    if not isinstance(target, ast.Name | None):
        return None
    values = [w.present(v) for v in (r.start, r.stop, r.step)]
    if NOT_CONST in values or values[2] == 0:
        return None
    items = tuple(number(k) for k in range(*values)[: UNROLL + 1])
    if len(items) > UNROLL:
        return None
    used = w.facts.written_out
    if code is not None and target is not None:
        used = used or any(decides(stmt, target.id) for stmt in code.body)
    if not used and (not items or indexed or any(is_given(w, v) for v in (r.start, r.stop, r.step))):
        return None
    if not (fits(w, items, turn) if used else is_small(w, items, turn)):
        return None
    for v in (r.start, r.stop, r.step):
        w.decided(v)
    return items


def decides(node: ast.AST, name: str) -> bool:
    """Whether a name is used in an index or a text (but texts of `raise` and `assert`, which are made later)."""
    if isinstance(node, ast.Raise):
        return False
    parts: tuple[ast.AST, ...] = ()
    match node:
        case ast.Subscript(slice=index):
            parts = (index,)
        case ast.JoinedStr() | ast.Call(func=ast.Name(id="str" | "repr" | "format") | ast.Attribute(attr="format")):
            parts = (node,)
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=right):
            parts = (right,)
    if any(isinstance(m, ast.Name) and m.id == name for part in parts for m in ast.walk(part)):
        return True
    children = [node.test] if isinstance(node, ast.Assert) else ast.iter_child_nodes(node)
    return any(decides(child, name) for child in children)


def is_given(w: Walker, num: Num) -> bool:
    """Whether a number is, or is computed from, a shared parameter (not a global or a constant)."""
    if num.given is not None:
        return any(is_given(w, part) for part in num.given[1:])
    return num.const is NOT_CONST and num.shared is not None and re.split(r"[.[]", num.shared.path)[0] in w.roots


def note_turns(w: Walker, count: int) -> None:
    """Note for `explain` that a loop over a range is unrolled."""
    text = f"the {count} iterations are written out, one after the other"
    w.notes.append(Note(loc=w.loc, kind="unrolled", text=text, option=""))


def fits(w: Walker, items: Sequence[Val], turn: Callable[[Val], object]) -> bool:
    """Whether a loop whose variable is used in an index is to be unrolled.

    It is if its iterations are few instructions in all, or if each reads a weight of its own, or a part of a value
    whose parts differ in type. A loop that is not unrolled for its size alone is noted: if the rest of the program is
    rejected, the program is walked again with every such loop unrolled.
    """
    if w.facts.written_out or not items:
        return True
    key = (w.frame.path, w.site, len(items))
    if key not in w.fitting:
        w.fitting[key] = _tried(w, items, turn)
    w.facts.loops_kept |= not w.fitting[key]
    return w.fitting[key]


@contextmanager
def _trial(w: Walker) -> Iterator[None]:
    """Undo the walk of iterations of a loop in the body of the `with` statement."""
    before = w.mark()
    w.frame.loops.append(Loop())
    yield
    w.go_back(before)


def _tried(w: Walker, items: Sequence[Val], turn: Callable[[Val], object]) -> bool:
    """Decide `fits` by a trial walk of two iterations; each further one is assumed to add the code of the second."""
    if w.block is None:
        return True
    block, picked, blocks = w.block, w.picked, w.code.blocks
    first, start = len(blocks), len(blocks[block])

    def written() -> list[ir.Instr]:
        """Return the instructions emitted for the iterations; constants cost nothing."""
        all_ = [*blocks[block][start:], *(i for instrs in blocks[first:] for i in instrs)]
        return [i for i in all_ if not isinstance(i, ir.Const)]

    counts = []
    with _trial(w):
        for item in items[:2]:
            try:
                turn(item)
            except (Dead, Rejected):
                w.block = None
            counts.append(len(written()))
            if w.block is None:
                break
        made = written()
        apart = w.picked > picked or any(map(_reads_weight, made))
    w.picked = picked + apart
    whole = sum(len(instrs) for code in (*w.functions, w.code) if code is not None for instrs in code.blocks)
    large = whole >= BUDGET or not any(isinstance(i, ir.Op) for i in made)
    most = FEW_INSTRUCTIONS if large else MOST_INSTRUCTIONS
    return apart or counts[0] + (counts[-1] - counts[0] or counts[0]) * (len(items) - 1) <= most


def _reads_weight(instr: ir.Instr) -> bool:
    """Whether an instruction reads a part of rank 2 or more from a shared array."""
    if not isinstance(instr, ir.Op) or instr.op not in ("take", "slice") or not isinstance(instr.args[0], ir.SharedArg):
        return False
    return isinstance(instr.out.type, TensorT) and instr.out.type.rank > 1


def is_small(w: Walker, items: Sequence[Val], turn: Callable[[Val], object]) -> bool:
    """Whether the iterations of a loop are straight-line code of few operations, by a trial walk of the first.

    Then one kernel computes all iterations of the unrolled loop, where a loop would make nodes for each.
    """
    assert w.block is not None
    block, start, errors = w.block, len(w.code.blocks[w.block]), len(w.errors)
    with _trial(w):
        w.trying = True
        try:
            turn(items[0])
        except (Abandoned, Dead, Rejected):
            w.block = None
        straight = w.block == block and len(w.errors) == errors
        operations = sum(isinstance(i, ir.Op) for i in w.code.blocks[block][start:])
    return straight and 0 < operations * len(items) <= MOST_OPERATIONS
