"""Regular expressions of the host program: a backtracking machine for the code of `ir.patterns`.

In: a `ListOp` "match". Out: its code, written with a `Writer`. The machine's registers and its stack are in the free
part of the heap's chunk; if that is too small, the chunk grows and the match begins anew. Its steps count as those of
the instance.

An entry of the stack is either a register and its value before, or a place of the code, a position to go on at, and the
least position: while it is greater, the entry stays, one position less.
"""

from __future__ import annotations

from acronumba.data.texts import HEAD
from acronumba.emit import tree
from acronumba.emit.tree import I64, select
from acronumba.host import texts
from acronumba.host.segments import Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp
from acronumba.ir.patterns import ADVANCE, ASCII, BITS, FULL, MOST, NUMBER, PLACES
from acronumba.runtime import state


def compile(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Look up the code of a pattern among those of the run; if it is not there, the caller adds it."""
    texts.use(w)
    w.helper("pattern_code", _KNOWN)
    text, flags = (w[v] for v in instr.args)
    code = w.b.let("code", tree.Call("pattern_code", (w.word("patterns"), text, flags), I64))
    with w.b.when(code.eq(0)):
        w.put("asked", text)
        w.leave(state.NEW_PATTERN, flags, w.spill(segment))
    w.assign(instr.outs[0], code)


_KNOWN = """
def pattern_code(table: i64, text: i64, flags: i64) -> i64:
    \"\"\"Return the code of a pattern; 0 if it is not in the table.\"\"\"
    size = ld(table)
    k = (text_hash(text) ^ flags) & (size - 1)
    while ld(table, 3 * k + 3) != 0:
        if ld(table, 3 * k + 2) == flags and text_same(ld(table, 3 * k + 1), text) != 0:
            return ld(table, 3 * k + 3)
        k = (k + 1) & (size - 1)
    return 0
"""


def match(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Match a pattern: the list of the marks of its groups and the last group; an empty list if it does not match."""
    b, reg, top = w.b, w.reg, w.reg["top"]
    texts.use(w)
    w.helper("pattern_match", _MACHINE)
    args = [w[v] for v in instr.args]
    budget = b.let("budget", reg["fuel"] + w.word("left"))
    count = b.let("count", tree.Call("pattern_match", (*args, top, reg["end"], budget), I64))
    with b.when(count.eq(-1)):
        w.leave(state.GROW_HEAP, (reg["end"] - top) * 2 + 4096, w.spill(segment))
    with b.when(count.eq(-2)):
        b.set(reg["fuel"], -1)
        w.put("left", 0)
        w.leave(state.FUEL, 0, w.spill(segment))
    used = b.let("used", budget - tree.load(top))
    over = b.let("over", select(used > reg["fuel"], used - reg["fuel"], 0))
    b.set(reg["fuel"], reg["fuel"] - used + over)
    w.put("left", w.word("left") - over)
    b.store(top, 0, top + 24)
    b.store(top, 1, count)
    b.store(top, 2, count)
    w.assign(instr.outs[0], top)
    b.set(top, top + 24 + count * 8)


_NUMBERS = {**{f"OP_{name}": k for name, k in NUMBER.items()}, **{name: k for k, name in enumerate(PLACES)}}
_MACHINE = (
    "".join(f"{name} = {k}\n" for name, k in _NUMBERS.items())
    + f'''
def pattern_has(table: i64, c: i64) -> i64:
    """Return 1 if a character is in a table."""
    if c < {ASCII}:
        return (ld(table, c // {BITS}) >> (c & {BITS - 1})) & 1
    n = ld(table, {ASCII // BITS})
    return text_place(table + {8 * (ASCII // BITS + 1)}, n, c) & 1


def pattern_word(table: i64, text: i64, k: i64, n: i64) -> i64:
    """Return 1 if there is a character at an index, and it is in a table."""
    if k < 0 or k >= n:
        return 0
    return pattern_has(table, ld(text, k))


def pattern_at(code: i64, pc: i64, text: i64, k: i64, n: i64) -> i64:
    """Return 1 if an index is a place of the kind that an instruction wants."""
    kind = ld(code, pc + 2)
    if kind == AT_BEGINNING_LINE:
        if k == 0:
            return 1
        return select(ld(text, k - 1) == 10, 1, 0)
    if kind == AT_BEGINNING:
        return select(k == 0, 1, 0)
    if k == n and kind <= AT_END_STRING:
        return 1
    if kind == AT_END_STRING:
        return 0
    if kind == AT_END_LINE:
        return select(ld(text, k) == 10, 1, 0)
    if kind == AT_END:
        if k != n - 1:
            return 0
        return select(ld(text, k) == 10, 1, 0)
    if n == 0:
        return ld(code, pc + 3)
    table = code + 8 * ld(code, pc + 1)
    before = pattern_word(table, text, k - 1, n)
    after = pattern_word(table, text, k, n)
    if kind == AT_BOUNDARY:
        return before ^ after
    return 1 - (before ^ after)


def pattern_push(stack: i64, height: i64, what: i64, value: i64, least: i64) -> i64:
    """Put an entry on the stack; return its new height."""
    at = stack + 24 * height
    st(at, 0, what)
    st(at, 1, value)
    st(at, 2, least)
    return height + 1


def pattern_set(stack: i64, height: i64, registers: i64, k: i64, value: i64) -> i64:
    """Set a register; its value before is put on the stack, whose new height is returned."""
    height = pattern_push(stack, height, -1 - k, ld(registers, k), 0)
    st(registers, k, value)
    return height


def pattern_cut(stack: i64, low: i64, height: i64) -> i64:
    """Forget the other ways above a height of the stack, but no old values of registers; return its new height."""
    for k in range(low, height):
        at = stack + 24 * k
        if ld(at) < 0:
            low = pattern_push(stack, low, ld(at), ld(at, 1), 0)
    return low


def pattern_undo(stack: i64, low: i64, height: i64, registers: i64):
    """Give the registers back their values when the stack had another height."""
    while height > low:
        height = height - 1
        at = stack + 24 * height
        if ld(at) < 0:
            st(registers, -1 - ld(at), ld(at, 1))


def pattern_same(text: i64, k: i64, other: i64, size: i64) -> i64:
    """Return 1 if two parts of a string are equal."""
    for j in range(size):
        if ld(text, k + j) != ld(text, other + j):
            return 0
    return 1


def pattern_match(pattern: i64, s: i64, first: i64, last: i64, how: i64, to: i64, limit: i64, fuel: i64) -> i64:
    """Return how many registers, of those two words behind `to`, are the result: 0 if the pattern does not match.

    -1: more memory is needed; -2: more steps. The word at `to` is the number of steps that are left.
    """
    code = pattern + {8 * HEAD}
    marks = ld(code, 1)
    registers = to + 24
    stack = registers + 8 * ld(code, 2) + 8
    room = (limit - stack) // 24 - 3
    if limit < stack or room < 1:
        return -1
    n = text_length(s)
    text = s + {8 * HEAD}
    if s <= 0:
        text = stack - 8
        st(text, 0, -1 - s)
    begin = max(min(first, n), 0)
    end = max(min(last, n), 0)
    start = begin
    while start <= end:
        pc = ld(code, 0)
        if ld(code, pc) == OP_CHAR and how & 1 != 0:
            while start < end and ld(text, start) != ld(code, pc + 1):
                start = start + 1
        for j in range(marks):
            st(registers, j, -1)
        st(registers, marks - 1, 0)
        height = 0
        k = start
        while pc >= 0:
            if height > room:
                return -1
            fuel = fuel - 1
            if fuel < 0:
                return -2
            op = ld(code, pc)
            x = ld(code, pc + 1)
            y = ld(code, pc + 2)
            good = 1
            if op == OP_CHAR:
                good = 0
                if k < end and ld(text, k) == x:
                    good = 1
                k = k + 1
                pc = pc + 2
            elif op == OP_SET:
                good = pattern_word(code + 8 * x, text, k, end)
                k = k + 1
                pc = pc + 2
            elif op == OP_RUN:
                low = k + y
                stop = min(end, k + ld(code, pc + 3))
                pc = pc + 4
                j = k
                while j < stop and pattern_has(code + 8 * x, ld(text, j)) != 0:
                    j = j + 1
                fuel = fuel - (j - k) // 8
                if j < low:
                    good = 0
                if j > low:
                    height = pattern_push(stack, height, pc, j - 1, low)
                k = j
            elif op == OP_TRY:
                height = pattern_push(stack, height, x, k, k)
                pc = pc + 2
            elif op == OP_JUMP:
                pc = x
            elif op == OP_MARK:
                height = pattern_set(stack, height, registers, x, k)
                if x & 1 != 0:
                    height = pattern_set(stack, height, registers, marks - 1, x // 2)
                pc = pc + 2
            elif op == OP_AT:
                good = pattern_at(code, pc, text, k, end)
                pc = pc + 4
            elif op == OP_SAME:
                low = ld(registers, 2 * x)
                size = ld(registers, 2 * x + 1) - low
                pc = pc + 2
                if low < 0 or size < 0 or size > end - k:
                    good = 0
                else:
                    fuel = fuel - size // 8
                    good = pattern_same(text, k, low, size)
                    k = k + size
            elif op == OP_KNOWN:
                if min(ld(registers, 2 * x), ld(registers, 2 * x + 1)) < 0:
                    pc = y
                else:
                    pc = pc + 3
            elif op == OP_ENTER:
                height = pattern_set(stack, height, registers, x, 0)
                height = pattern_set(stack, height, registers, x + 1, -1)
                pc = pc + 2
            elif op == OP_LOOP or op == OP_LAZY or op == OP_MORE:
                turns = ld(registers, x)
                most = ld(code, pc + 3)
                body = ld(code, pc + 4)
                again = 0
                if turns < most or most == {MOST}:
                    if ld(registers, x + 1) != k:
                        again = 1
                pc = pc + 5
                if turns < y:
                    height = pattern_set(stack, height, registers, x, turns + 1)
                    pc = body
                elif op == OP_LAZY:
                    if again != 0:
                        height = pattern_push(stack, height, body - 5, k, k)
                elif again != 0:
                    if op == OP_LOOP:
                        height = pattern_push(stack, height, pc, k, k)
                    height = pattern_set(stack, height, registers, x, turns + 1)
                    height = pattern_set(stack, height, registers, x + 1, k)
                    pc = body
                elif op == OP_MORE:
                    good = 0
            elif op == OP_BACK:
                k = k - x
                if k < 0:
                    good = 0
                pc = pc + 2
            elif op == OP_HOLD:
                height = pattern_set(stack, height, registers, x, height + 2)
                height = pattern_set(stack, height, registers, x + 1, k)
                pc = pc + 2
            elif op == OP_CUT:
                height = pattern_cut(stack, ld(registers, x), height)
                if y != 0:
                    k = ld(registers, x + 1)
                pc = pc + 3
            elif op == OP_DENY:
                low = ld(registers, x)
                pattern_undo(stack, low, height, registers)
                height = low
                good = 0
            elif op == OP_FAIL:
                good = 0
            elif (how == {FULL} and k != end) or (how == {ADVANCE} and k == begin):
                good = 0
            else:
                st(registers, 0, start)
                st(registers, 1, k)
                st(to, 0, fuel)
                return marks
            if good == 0:
                pc = -1
                while pc < 0 and height > 0:
                    height = height - 1
                    at = stack + 24 * height
                    if ld(at) < 0:
                        st(registers, -1 - ld(at), ld(at, 1))
                    else:
                        pc = ld(at)
                        k = ld(at, 1)
                        if k > ld(at, 2):
                            st(at, 1, k - 1)
                            height = height + 1
        if how & 1 == 0:
            break
        start = start + 1
    st(to, 0, fuel)
    return 0
'''
)
