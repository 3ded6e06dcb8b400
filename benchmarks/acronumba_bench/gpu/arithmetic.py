"""What instructions of arithmetic do, in all lanes of a warp: integers, floats, predicates, tensor cores.

In: an `Instruction`. Out: what runs it. Sums of products are rounded once, by float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba_bench.gpu.operands import (
    ALL,
    F32,
    F64,
    FULL,
    I32,
    I64,
    SHARED,
    U32,
    U64,
    WARP,
    Lanes,
    Read,
    Step,
    Unknown,
    floating,
    integer,
    is_predicate,
    pair,
    predicate,
    register,
    setter,
    term,
    word,
    writer,
)  # fmt: skip
from acronumba_bench.gpu.sass import Instruction

if TYPE_CHECKING:
    from acronumba_bench.gpu.emulate import Block, Warp

_LANE = np.arange(WARP)


def _simple(f: Callable[..., Any], kind: Callable[[str, Block], Read]) -> Callable[[Instruction, Block], Step]:
    """Return what makes an instruction of a register and its operands."""

    def make(i: Instruction, block: Block) -> Step:
        write, reads = writer(i.args[0]), [kind(a, block) for a in i.args[1:]]
        return lambda w, active: write(w, f(*(read(w) for read in reads)), active)

    return make


def _as_bits(x: Any) -> Any:
    return np.asarray(x, F32).view(U32)


def _fused(a: Any, b: Any, c: Any) -> Any:
    return _as_bits((np.asarray(a, F64) * np.asarray(b, F64) + np.asarray(c, F64)).astype(F32))


def _sum(i: Instruction, block: Block) -> Step:
    write, rest = writer(i.args[0]), list(i.args[1:])
    outs = []
    while is_predicate(rest[0]):
        outs.append(setter(rest.pop(0)))
    carries = "X" in i.parts
    terms = [term(a, block, carries) for a in rest[:3]]
    ins = [predicate(a) for a in rest[3:]]

    def step(w: Warp, active: Lanes) -> None:
        total = terms[0](w) + terms[1](w) + terms[2](w)
        for read in ins:
            total = total + read(w).astype(U64)
        write(w, (total & U64(FULL)).astype(U32), active)
        for n, put in enumerate(outs):
            put(w, np.broadcast_to(total >> U64(32) > n, WARP), active)

    return step


def _multiply(i: Instruction, block: Block) -> Step:
    signed = "U32" not in i.parts
    wide, high, carries = "WIDE" in i.parts, "HI" in i.parts, "X" in i.parts
    rest = list(i.args[1:])
    out = setter(rest.pop(0)) if is_predicate(rest[0]) else None
    left, right = integer(rest[0], block), integer(rest[1], block)
    add = pair(rest[2], block) if (wide or high) else integer(rest[2], block)
    carry = predicate(rest[3]) if carries and len(rest) > 3 else None
    writes = writer(i.args[0]), writer(i.args[0], 1)

    def extended(x: Any) -> Any:
        x = np.asarray(x, U32)
        return x.view(I32).astype(I64).view(U64) if signed else x.astype(U64)

    def step(w: Warp, active: Lanes) -> None:
        addend = np.asarray(add(w)).astype(U64)
        total = extended(left(w)) * extended(right(w)) + addend
        over = np.broadcast_to(total < addend, WARP)
        if carry is not None:
            total = total + carry(w).astype(U64)
        if high:
            write(w, (total >> U64(32)).astype(U32), active)
        else:
            write(w, (total & U64(FULL)).astype(U32), active)
            if wide:
                writes[1](w, (total >> U64(32)).astype(U32), active)
        if out is not None:
            out(w, over, active)

    write = writes[0]
    return step


def _lea(i: Instruction, block: Block) -> Step:
    rest = list(i.args[1:])
    out = setter(rest.pop(0)) if is_predicate(rest[0]) else None
    carry = predicate(rest.pop()) if "X" in i.parts else None
    write, high = writer(i.args[0]), "HI" in i.parts
    shift = U64(int(rest.pop(), 16))
    negated = rest[0].startswith("-") and not high
    low, add = integer(rest[0][negated:], block), term(rest[1], block, carry is not None)
    above = integer(rest[2], block) if len(rest) > 2 else None

    def step(w: Warp, active: Lanes) -> None:
        x = np.asarray(low(w), U32)
        x = x.view(I32).astype(I64).view(U64) if "SX32" in i.parts else x.astype(U64)
        if above is not None:
            x = x | np.asarray(above(w), U32).astype(U64) << U64(32)
        x = x << shift
        if negated:  # a carry leaves it, as where it is added to what is subtracted
            x = (~x & U64(FULL)) + U64(1)
        total = (x >> U64(32) if high else x if negated else x & U64(FULL)) + add(w)
        if carry is not None:
            total = total + carry(w).astype(U64)
        write(w, (total & U64(FULL)).astype(U32), active)
        if out is not None:
            out(w, np.broadcast_to(total >> U64(32) > 0, WARP), active)

    return step


def _shift(i: Instruction, block: Block) -> Step:
    write = writer(i.args[0])
    low, by, above = (integer(a, block) for a in i.args[1:])
    left, signed, high = i.parts[1] == "L", i.parts[2][0] == "S", "HI" in i.parts
    narrow = i.parts[2] in ("U32", "S32")

    def step(w: Warp, active: Lanes) -> None:
        n = np.minimum(np.asarray(by(w), U32), 32 if narrow else 63).astype(U64)
        lower, upper = np.asarray(low(w), U32).astype(U64), np.asarray(above(w), U32)
        if narrow and not left:
            x = upper.view(I32).astype(I64) >> n.astype(I64) if signed else upper.astype(U64) >> n
        else:
            x = lower | upper.astype(U64) << U64(32)
            x = x << n if left else x.view(I64) >> n.astype(I64) if signed else x >> n
            x = x >> 32 if high and signed else x >> U64(32) if high else x
        write(w, (x & (0xFFFFFFFF if x.dtype == I64 else U64(FULL))).astype(U32), active)

    return step


def _table(lut: int, a: Any, b: Any, c: Any) -> Any:
    """Combine bits by a truth table."""
    one = ~np.zeros_like(a)
    out = a & ~a
    for k in range(8):
        if lut >> k & 1:
            out = out | (a if k & 4 else one ^ a) & (b if k & 2 else one ^ b) & (c if k & 1 else one ^ c)
    return out


def _logic(i: Instruction, block: Block) -> Step:
    rest = list(i.args)
    out = setter(rest.pop(0)) if is_predicate(rest[0]) else None
    write = writer(rest[0])
    reads = [integer(a, block) for a in rest[1:4]]
    lut = int(rest[4], 16)

    def step(w: Warp, active: Lanes) -> None:
        a, b, c = (np.broadcast_to(np.asarray(read(w), U32), WARP) for read in reads)
        x = _table(lut, a, b, c)
        write(w, x, active)
        if out is not None:
            out(w, x != 0, active)

    return step


def _logic_of_predicates(i: Instruction, block: Block) -> Step:
    first, second = setter(i.args[0]), setter(i.args[1])
    reads = [predicate(a) for a in i.args[2:5]]
    luts = [int(a, 16) for a in i.args[5:7]]

    def step(w: Warp, active: Lanes) -> None:
        given = [read(w).copy() for read in reads]
        first(w, _table(luts[0], *given), active)
        second(w, _table(luts[1], *given), active)

    return step


def _combined(how: str, x: Any, y: Any) -> Any:
    return x & y if how == "AND" else x | y if how == "OR" else x ^ y


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "LT": lambda a, b: a < b, "GT": lambda a, b: a > b, "LE": lambda a, b: a <= b, "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: (a < b) | (a > b),
}  # fmt: skip


def _compare(i: Instruction, block: Block) -> Step:
    first, second = setter(i.args[0]), setter(i.args[1])
    floats = i.kind == "FSETP"
    kind = floating if floats else integer
    left, right = kind(i.args[2], block), kind(i.args[3], block)
    before = predicate(i.args[4])
    lower = predicate(i.args[5]) if "EX" in i.parts else None
    order, how = i.parts[1], "OR" if "OR" in i.parts else "XOR" if "XOR" in i.parts else "AND"
    signed = not floats and "U32" not in i.parts
    unordered = floats and len(order) == 3 and order.endswith("U")

    def step(w: Warp, active: Lanes) -> None:
        a, b = np.asarray(left(w)), np.asarray(right(w))
        if signed:
            a, b = a.astype(U32).view(I32), b.astype(U32).view(I32)
        nan = np.isnan(a) | np.isnan(b) if floats else False
        if order == "NAN":
            x = nan
        elif order == "NUM":
            x = ~np.asarray(nan)
        elif lower is not None:
            strict = order[0] + ("T" if order[0] in "LG" else "")
            x = (a != b) | lower(w) if order == "NE" else (
                (a == b) & lower(w) if order == "EQ" else _ORDERS[strict](a, b) | (a == b) & lower(w))  # fmt: skip
        else:
            x = _ORDERS[order[:2]](a, b)
            if unordered:
                x = x | nan
        given = before(w).copy()
        x = np.broadcast_to(x, WARP)
        first(w, _combined(how, x, given), active)
        second(w, _combined(how, ~x, given), active)

    return step


def _select(i: Instruction, block: Block) -> Step:
    kind = (lambda a, block: _bits_of(floating(a, block))) if i.kind == "FSEL" else integer
    write, yes, no, choice = writer(i.args[0]), kind(i.args[1], block), kind(i.args[2], block), predicate(i.args[3])
    return lambda w, active: write(w, np.where(choice(w), yes(w), no(w)), active)


def _bits_of(read: Read) -> Read:
    return lambda w: _as_bits(read(w))


def _least(i: Instruction, block: Block) -> Step:
    """FMNMX, VIMNMX: the smaller if a predicate holds, else the larger."""
    floats = i.kind == "FMNMX"
    kind = floating if floats else integer
    write, a, b, smaller = writer(i.args[0]), kind(i.args[1], block), kind(i.args[2], block), predicate(i.args[3])
    signed, nan = "U32" not in i.parts, "NAN" in i.parts

    def step(w: Warp, active: Lanes) -> None:
        x, y = np.asarray(a(w)), np.asarray(b(w))
        if floats:
            low, high = (np.minimum(x, y), np.maximum(x, y)) if nan else (np.fmin(x, y), np.fmax(x, y))
            write(w, _as_bits(np.where(smaller(w), low, high)), active)
            return
        if signed:
            x, y = x.astype(U32).view(I32), y.astype(U32).view(I32)
        write(w, np.where(smaller(w), np.minimum(x, y), np.maximum(x, y)).astype(I64) & FULL, active)

    return step


def _function(i: Instruction, block: Block) -> Step:
    functions: dict[str, Callable[[Any], Any]] = {
        "RCP": lambda x: 1 / x, "EX2": np.exp2, "LG2": np.log2, "RSQ": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt,
        "TANH": np.tanh, "SIN": np.sin, "COS": np.cos,
    }  # fmt: skip
    f = functions[i.parts[1]]
    write, read = writer(i.args[0]), floating(i.args[1], block)
    return lambda w, active: write(w, _as_bits(f(np.asarray(read(w), F32).astype(F64)).astype(F32)), active)


def _converted(i: Instruction, block: Block) -> Step:
    """I2F, F2I and their like."""
    kinds = [p for p in i.parts if p in ("U32", "S32", "U64", "S64", "F32", "U16", "S16", "U8", "S8")]
    writes = writer(i.args[0]), writer(i.args[0], 1)
    if i.kind == "F2I":
        to = kinds[0] if kinds else "S32"
        value = floating(i.args[1], block)

        def step(w: Warp, active: Lanes) -> None:
            bits = int(to[1:])
            low, high = (0, 2**bits - 1) if to[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            x = [0 if y != y else min(max(int(y) if abs(y) < 1e30 else (high if y > 0 else low), low), high)
                 for y in np.broadcast_to(value(w), WARP).astype(float)]  # fmt: skip
            whole = np.array([y & (2**64 - 1) for y in x], U64)
            writes[0](w, (whole & U64(FULL)).astype(U32), active)
            if bits == 64:
                writes[1](w, (whole >> U64(32)).astype(U32), active)

        return step
    kind = next((k for k in kinds if k != "F32"), "S32")
    read = pair(i.args[1], block) if kind.endswith("64") else integer(i.args[1], block)
    up = "RP" in i.parts

    def back(w: Warp, active: Lanes) -> None:
        x = np.asarray(read(w))
        if kind[0] == "S":
            x = x.view(I64) if kind == "S64" else x.astype(U32).view(I32)
        y = x.astype(F32)
        if up:
            y = np.where(y.astype(np.longdouble) < x, np.nextafter(y, F32(np.inf)), y)
        writes[0](w, _as_bits(y), active)

    return back


def _copied(i: Instruction, block: Block) -> Step:
    """LDC, CS2R: several registers."""
    count = 2 if "64" in i.parts or (i.kind == "CS2R" and "32" not in i.parts) else 4 if "128" in i.parts else 1
    writes = [writer(i.args[0], k) for k in range(count)]
    if "[R" in i.args[1] or "[UR" in i.args[1]:
        raise Unknown(i.text)
    source = "RZ" if i.args[1] == "SR_CLOCKLO" else i.args[1]  # no time goes by here
    reads = [word(source, block, k) for k in range(count)]

    def step(w: Warp, active: Lanes) -> None:
        for write, read in zip(writes, reads, strict=True):
            write(w, read(w), active)

    return step


def _special(i: Instruction, block: Block) -> Step:
    write, name = writer(i.args[0]), i.args[1]
    values: dict[str, Callable[[Warp], Any]] = {
        "SR_TID.X": lambda w: _LANE + WARP * w.number, "SR_LANEID": lambda w: _LANE,
        "SR_CTAID.X": lambda w: block.block, "SR_NCTAID.X": lambda w: block.blocks,
        "SR_CgaCtaId": lambda w: 0, "SR_SWINHI": lambda w: SHARED >> 32,
        "SR_VIRTUALSMID": lambda w: 0,
    }  # fmt: skip
    value = values[name]
    return lambda w, active: write(w, value(w), active)


def _shuffled(i: Instruction, block: Block) -> Step:
    put, write = setter(i.args[0]), writer(i.args[1])
    value, by = integer(i.args[2], block), integer(i.args[3], block)
    how = i.parts[1]

    def step(w: Warp, active: Lanes) -> None:
        x, n = np.broadcast_to(value(w), WARP), np.broadcast_to(by(w), WARP).astype(int)
        source = {"BFLY": _LANE ^ n, "IDX": n, "UP": _LANE - n, "DOWN": _LANE + n}[how] & 31
        write(w, x[source], active)
        put(w, ALL, active)

    return step


def _predicates_packed(i: Instruction, block: Block) -> Step:
    write, mask = writer(i.args[0]), int(i.args[3], 16)

    def step(w: Warp, active: Lanes) -> None:
        if i.kind[0] == "U":
            write(w, sum(w.up[k] << k for k in range(7)) & mask, active)
        else:
            write(w, sum(w.p[k].astype(int) << k for k in range(7)) & mask, active)

    return step


def _predicates_unpacked(i: Instruction, block: Block) -> Step:
    read, mask = integer(i.args[1], block), int(i.args[2], 16)

    def step(w: Warp, active: Lanes) -> None:
        x = np.broadcast_to(read(w), WARP)
        for k in range(7):
            if mask >> k & 1:
                np.copyto(w.p[k], (x >> U32(k) & U32(1)) != 0, where=active)

    return step


def _halves(i: Instruction, block: Block) -> Step:
    """HFMA2 as a way to write a constant."""
    if any(a not in ("-RZ", "RZ") for a in i.args[1:3]):
        raise Unknown(i.text)
    high, low = (int(np.float16(float(a)).view(np.uint16)) for a in i.args[3:5])
    write, value = writer(i.args[0]), high << 16 | low
    return lambda w, active: write(w, value, active)


def _checked(i: Instruction, block: Block) -> Step:
    """FCHK: whether a division needs its slow way."""
    put, a, b = setter(i.args[0]), floating(i.args[1], block), floating(i.args[2], block)

    def step(w: Warp, active: Lanes) -> None:
        x, y = abs(np.asarray(a(w), F64)), abs(np.asarray(b(w), F64))
        fine = np.isfinite(x) & (y > 2.0**-126) & (y < 2.0**126) & ((x == 0) | (x > 2.0**-100))
        put(w, np.broadcast_to(~fine, WARP), active)

    return step


def _vote(i: Instruction, block: Block) -> Step:
    *lanes, said, asked = i.args  # the register for the lanes may be left out
    write, put, read = [writer(to) for to in lanes], setter(said), predicate(asked)

    def step(w: Warp, active: Lanes) -> None:
        given = read(w) & active
        for each in write:
            each(w, int(sum(1 << k for k in range(WARP) if given[k])), active)
        put(w, np.full(WARP, given.any() if "ANY" in i.parts else bool((given == active).all())), active)

    return step


def _tensor(i: Instruction, block: Block) -> Step:
    """A product of tensor cores, as `kernels.cuda.simulator` has it."""
    bf16 = "BF16" in i.parts
    if not bf16 and "TF32" not in i.parts:
        raise Unknown(i.text)
    first = [register(a.split(".")[0]) for a in i.args[:4]]

    def words(w: Warp, k: int, count: int) -> Any:
        return np.zeros((count, WARP), U32) if k == 255 else w.r[k : k + count]

    def factors(x: Any, rows: int, count: int) -> Any:
        """Rows of one operand: registers of all lanes, of shape (registers, 8, 4)."""
        x = x.reshape(count, 8, 4)
        if not bf16:
            x = (x & U32(0xFFFFE000)).view(F32).astype(F64)
            halves = [np.concatenate([x[k], x[k + rows]], 1) for k in range(rows)]
        else:
            x = np.stack([x << U32(16), x & U32(0xFFFF0000)], -1).view(F32).astype(F64).reshape(count, 8, 8)
            halves = [np.concatenate([x[k], x[k + rows]], 1) for k in range(rows)]
        return np.concatenate(halves)

    def step(w: Warp, active: Lanes) -> None:
        a = factors(words(w, first[1], 4), 2, 4)
        b = factors(words(w, first[2], 2), 1, 2)
        c = words(w, first[3], 4).view(F32).astype(F64).reshape(2, 2, 8, 4).transpose(0, 2, 3, 1).reshape(16, 8)
        out = (a @ b.T + c).astype(F32).reshape(2, 8, 4, 2).transpose(0, 3, 1, 2).reshape(4, WARP)
        w.r[first[0] : first[0] + 4] = np.ascontiguousarray(out).view(U32)

    return step


def _digits(x: Any) -> Lanes:
    """Return the 32 bits of numbers, the lowest first."""
    return np.asarray(x, U32)[..., None] >> np.arange(32, dtype=U32) & 1


ARITHMETIC: dict[str, Callable[[Instruction, Block], Step]] = {
    "MOV": _simple(lambda x: x, integer), "VIADD": _simple(lambda a, b: a + b, integer), "R2UR": _copied,
    "IABS": _simple(lambda x: np.abs(np.asarray(x, U32).view(I32)).view(U32), integer),
    "IADD3": _sum, "IMAD": _multiply, "LEA": _lea, "SHF": _shift, "LOP3": _logic, "PLOP3": _logic_of_predicates,
    "ISETP": _compare, "FSETP": _compare, "SEL": _select, "FSEL": _select, "FMNMX": _least, "VIMNMX": _least,
    "IMNMX": _least, "FADD": _simple(lambda a, b: _as_bits(np.asarray(a, F32) + np.asarray(b, F32)), floating),
    "FMUL": _simple(lambda a, b: _as_bits(np.asarray(a, F32) * np.asarray(b, F32)), floating),
    "FFMA": _simple(_fused, floating), "MUFU": _function, "I2F": _converted, "I2FP": _converted, "F2I": _converted,
    "LDC": _copied, "CS2R": _copied, "S2R": _special, "S2UR": _special, "SHFL": _shuffled, "P2R": _predicates_packed,
    "P2UR": _predicates_packed, "R2P": _predicates_unpacked, "HFMA2": _halves, "FCHK": _checked, "VOTE": _vote,
    "VOTEU": _vote, "HMMA": _tensor, "POPC": _simple(lambda x: _digits(x).sum(-1, dtype=U32), integer),
    "FLO": _simple(lambda x: np.asarray(31 - _digits(x)[..., ::-1].argmax(-1), U32), integer),
}  # fmt: skip
