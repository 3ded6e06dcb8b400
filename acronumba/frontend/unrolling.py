"""Which loops over a constant range are written out, turn by turn, and which stay loops of the host program.

In: a range, the target and the body of a loop. Out: the numbers that it takes, or None where it stays a loop.

Written out, the turns can share a kernel, and each can have types, shapes and weights of its own. It costs code: nested
loops would multiply theirs. So what is large stays a loop, unless its turns read other weights or parts of other types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

from acronumba.frontend.block import Abandoned, Dead, Rejected
from acronumba.frontend.values import NOT_CONST, Num, Range, Val, number
from acronumba.frontend.walker import MOST_INSTRUCTIONS, MOST_OPERATIONS, UNROLL, Loop, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.types import TensorT


def unrolled_range(
    w: Walker, r: Range, target: ast.expr, inner: Sequence[ast.AST], body: Callable[[], object], indexed: bool = False
) -> tuple[Val, ...] | None:
    """Return the values of a short constant range if its turns are to be written out.

    They are where the variable indexes something, or is part of a text, and they fit, and (unless only `indexed` loops
    are) where the body is small. In the first case shared ints that the range is made of become constants; a small
    body is no reason to compile again for another value of a parameter.
    """
    if not isinstance(target, ast.Name):
        return None
    values = [w.present(v) for v in (r.start, r.stop, r.step)]
    if NOT_CONST in values or values[2] == 0:
        return None
    items = tuple(number(k) for k in range(*values)[: UNROLL + 1])
    if len(items) > UNROLL:
        return None
    used = any(decides(stmt, target.id) for stmt in inner) or w.facts.written_out
    if not used and (not items or indexed or any(is_given(w, v) for v in (r.start, r.stop, r.step))):
        return None
    if not (fits(w, items, target, body) if used else is_small(w, items, target, body)):
        return None
    for v in (r.start, r.stop, r.step):
        w.decided(v)
    return items


def decides(node: ast.AST, name: str) -> bool:
    """Whether a name stands in an index, or in what a text is made of: that of `raise` and `assert` is made later."""
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
    """Return whether a number is that of a shared parameter, or made of one, not of a global or a constant."""
    if num.given is not None:
        return any(is_given(w, part) for part in num.given[1:])
    return num.const is NOT_CONST and num.shared is not None and re.split(r"[.[]", num.shared.path)[0] in w.roots


def note_turns(w: Walker, count: int) -> None:
    """Note for `explain` that a loop over a range is written out."""
    text = f"the {count} iterations are written out, one after the other"
    w.notes.append(Note(loc=w.loc, kind="unrolled", text=text, option=""))


def fits(w: Walker, items: Sequence[Val], target: ast.expr, body: Callable[[], object]) -> bool:
    """Return whether the turns of a loop whose variable indexes something are written out.

    They are if they are few instructions in all. More of them are, too, where each reads a weight of its own, or a part
    of something whose parts differ in their types. What stays a loop by its size alone is noted: where the rest of the
    program cannot do with that, all is walked again and every loop is written out.
    """
    if w.facts.written_out or not items:
        return True
    key = (w.frame.path, w.site, len(items))
    if key not in w.fitting:
        w.fitting[key] = _tried(w, items, target, body)
    w.facts.loops_kept |= not w.fitting[key]
    return w.fitting[key]


def _tried(w: Walker, items: Sequence[Val], target: ast.expr, body: Callable[[], object]) -> bool:
    """Try two turns of a loop: whether all of them are to be written out. What the second adds, the others do."""
    if w.block is None:
        return True
    before, here, loc, block, picked = w.mark(), w.here, w.loc, w.block, w.picked
    blocks = w.code.blocks
    first, start = len(blocks), len(blocks[block])

    def written() -> list[ir.Instr]:
        """Return what the turns have written; constants cost nothing."""
        all_ = [*blocks[block][start:], *(i for instrs in blocks[first:] for i in instrs)]
        return [i for i in all_ if not isinstance(i, ir.Const)]

    counts = []
    w.frame.loops.append(Loop())
    for item in items[:2]:
        try:
            w.assign(target, item)
            body()
        except (Dead, Rejected):
            w.block = None
        counts.append(len(written()))
        if w.block is None:
            break
    apart = w.picked > picked or any(map(_reads_weight, written()))
    w.go_back(before)
    w.here, w.loc, w.picked = here, loc, picked + apart
    return apart or counts[0] + (counts[-1] - counts[0] or counts[0]) * (len(items) - 1) <= MOST_INSTRUCTIONS


def _reads_weight(instr: ir.Instr) -> bool:
    """Whether an instruction takes a matrix, or more, out of a shared array."""
    if not isinstance(instr, ir.Op) or instr.op not in ("take", "slice") or not isinstance(instr.args[0], ir.SharedArg):
        return False
    return isinstance(instr.out.type, TensorT) and instr.out.type.rank > 1


def is_small(w: Walker, items: Sequence[Val], target: ast.expr, body: Callable[[], object]) -> bool:
    """Try the first turn of a loop: whether it is a straight line of so few operations that one kernel has all.

    As a loop, each turn would be nodes of its own.
    """
    assert w.block is not None
    before, here, loc, block = w.mark(), w.here, w.loc, w.block
    start, errors = len(w.code.blocks[block]), len(w.errors)
    w.trying = True
    w.frame.loops.append(Loop())
    try:
        w.assign(target, items[0])
        body()
    except (Abandoned, Dead, Rejected):
        w.block = None
    straight = w.block == block and len(w.errors) == errors
    operations = sum(isinstance(i, ir.Op) for i in w.code.blocks[block][start:])
    w.go_back(before)
    w.here, w.loc = here, loc
    return straight and 0 < operations * len(items) <= MOST_OPERATIONS
