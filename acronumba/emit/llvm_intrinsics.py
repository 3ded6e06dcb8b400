"""Intrinsics of the language as LLVM's instructions: vectors, C's library, atomic accesses, copies of memory.

In: calls of intrinsics. Out: lines of LLVM, and the operands that hold the results.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Callable

from acronumba.emit import tree
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.llvm_text import constant_text, lanes_text, llvm_type, suffix
from acronumba.emit.llvm_values import Values
from acronumba.emit.target import has_dots, has_halves, has_picks, processor
from acronumba.emit.tree import I8, I64, Ty


class Intrinsics(Values):
    """Expressions, intrinsics among them."""

    flushing = False  # whether denormals are flushed where code is written

    def intrinsic(self, e: tree.Call) -> str:
        row = INTRINSICS.get(e.name)
        if row is None:
            raise self.wrong(f"call of unknown function {e.name!r}")
        return self.i_libm(e, row.c) if row.called else RULES[e.name](self, e)

    def args(self, e: tree.Call, count: int, *, same: bool = True) -> list[str]:
        if len(e.args) != count or (same and any(a.type != e.args[0].type for a in e.args)):
            raise self.wrong(f"{e.name}({', '.join(str(a.type) for a in e.args)})")
        return [self.expr(a) for a in e.args]

    def through(self, e: tree.Call, name: str) -> str:
        args = self.args(e, len(INTRINSICS[e.name].args))
        return self.intrinsic_call(f"{name}.{suffix(e.type)}", e.type, *[(a, e.type) for a in args])

    def i_abs(self, e: tree.Call) -> str:
        if e.type.kind == "f":
            return self.through(e, "llvm.fabs")
        (a,) = self.args(e, 1)
        return self.intrinsic_call(f"llvm.abs.{suffix(e.type)}", e.type, (a, e.type), extra="i1 false")

    def i_plain(self, e: tree.Call) -> str:
        a, b = self.args(e, 2)
        return self.value(f"{e.name} {llvm_type(e.type)} {a}, {b}")

    def i_libm(self, e: tree.Call, base: str) -> str:
        """Call C's function lane by lane."""
        if e.type.kind != "f":
            raise self.wrong(f"{e.name} of {e.type}")
        args = self.args(e, len(INTRINSICS[e.name].args))
        scalar = llvm_type(e.type.scalar)
        f = self.outside.need(base + ("f" if e.type.bits == 32 else ""), scalar, ", ".join([scalar] * len(args)))

        def one(values: list[str]) -> str:
            return self.value(f"call {scalar} {f}({', '.join(f'{scalar} {v}' for v in values)}) nobuiltin nounwind")

        if e.type.lanes == 1:
            return one(args)
        type, out = llvm_type(e.type), "poison"
        for k in range(e.type.lanes):
            lane = one([self.value(f"extractelement {type} {a}, i32 {k}") for a in args])
            out = self.value(f"insertelement {type} {out}, {scalar} {lane}, i32 {k}")
        return out

    def i_lanes(self, e: tree.Call) -> str:
        return lanes_text(e.type)

    def halving(self, e: tree.Call, step: Callable[[str, str, Ty], str]) -> str:
        (v,) = self.args(e, 1)
        type = e.args[0].type
        if e.type != type.scalar or type.lanes & (type.lanes - 1):
            raise self.wrong(f"{e.name} of {type} -> {e.type}")
        while type.lanes > 1:
            half, whole = type.lanes // 2, llvm_type(type)

            def part(first: int, v: str = v, half: int = half, whole: str = whole) -> str:
                lanes = ", ".join(f"i32 {first + k}" for k in range(half))
                return self.value(f"shufflevector {whole} {v}, {whole} poison, <{half} x i32> <{lanes}>")

            low, high = part(0), part(half)
            type = Ty(type.kind, type.bits, half)
            if half == 1:
                low, high = (self.value(f"extractelement <1 x {llvm_type(type)}> {x}, i32 0") for x in (low, high))
            v = step(low, high, type)
        return v

    def i_hsum(self, e: tree.Call) -> str:
        name = "fadd" if e.type.kind == "f" else "add"
        return self.halving(e, lambda a, b, t: self.value(f"{name} {llvm_type(t)} {a}, {b}"))

    def i_extreme(self, e: tree.Call) -> str:
        """Lower hmax and hmin: a if a is beyond b or a is NaN, else b."""
        order = "gt" if e.name == "hmax" else "lt"

        def step(a: str, b: str, t: Ty) -> str:
            type, bits = llvm_type(t), llvm_type(Ty("i", 1, t.lanes))
            if t.kind == "i":
                wins = self.value(f"icmp s{order} {type} {a}, {b}")
            else:
                beyond = self.value(f"fcmp o{order} {type} {a}, {b}")
                nan = self.value(f"fcmp uno {type} {a}, {a}")
                wins = self.value(f"or {bits} {beyond}, {nan}")
            return self.value(f"select {bits} {wins}, {type} {a}, {type} {b}")

        return self.halving(e, step)

    def i_pairs(self, e: tree.Call) -> str:
        """Lower pairs; LLVM selects the single instruction that x86 has for this."""
        a, b = self.args(e, 2)
        n, narrow = e.type.lanes, e.args[0].type
        if narrow != Ty("i", 16, 2 * n) or e.type != Ty("i", 32, n):
            raise self.wrong(f"pairs of {narrow} -> {e.type}")
        low, high = self.neighbours(self.products(narrow, (a, "sext"), (b, "sext")), 2, n)
        return self.value(f"add {llvm_type(e.type)} {low}, {high}")

    def i_dots(self, e: tree.Call) -> str:
        """Lower dots: to the instruction if this machine has it."""
        c, a, b = self.args(e, 3, same=False)
        n, narrow, type = e.type.lanes, e.args[1].type, llvm_type(e.type)
        bits = 32 * n
        if narrow != Ty("i", 8, 4 * n) or e.args[2].type != narrow or e.type != Ty("i", 32, n) != e.args[0].type:
            raise self.wrong(f"dots of {e.args[0].type}, {narrow}, {e.args[2].type} -> {e.type}")
        if bits in (128, 256, 512) and has_dots(processor()[1], bits):
            held = llvm_type(narrow) if _dots_take_bytes() else type
            x, y = (self.value(f"bitcast {llvm_type(narrow)} {v} to {held}") for v in (a, b))
            f = self.outside.need(f"llvm.x86.avx512.vpdpbusd.{bits}", type, f"{type}, {held}, {held}")
            return self.value(f"call {type} {f}({type} {c}, {held} {x}, {held} {y})")
        for part in self.neighbours(self.products(narrow, (a, "zext"), (b, "sext")), 4, n):
            c = self.value(f"add {type} {c}, {part}")
        return c

    def i_to_bf16(self, e: tree.Call) -> str:
        """Lower to_bf16: to the instruction if this machine has it."""
        (x,) = self.args(e, 1)
        n, old = e.type.lanes, e.args[0].type
        if old != tree.F32.vector(n) or e.type != Ty("i", 16, n):
            raise self.wrong(f"to_bf16 of {old} -> {e.type}")
        type, held = llvm_type(old), llvm_type(e.type)
        if n in (8, 16) and has_halves(processor()[1], 32 * n):
            found = f"<{n} x bfloat>"
            f = self.outside.need(f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * n}", found, type)
            return self.value(f"bitcast {found} {self.value(f'call {found} {f}({type} {x})')} to {held}")
        words = Ty("i", 32, n)
        wide, flags = llvm_type(words), llvm_type(Ty("i", 1, n))

        def number(k: int) -> str:
            return constant_text(k, words)

        bits = self.value(f"bitcast {type} {x} to {wide}")
        upper = self.value(f"lshr {wide} {bits}, {number(16)}")
        odd = self.value(f"and {wide} {upper}, {number(1)}")
        rounded = self.value(f"add {wide} {self.value(f'add {wide} {bits}, {number(0x7FFF)}')}, {odd}")
        rounded = self.value(f"lshr {wide} {rounded}, {number(16)}")
        zero = self.value(f"and {wide} {upper}, {number(0x8000)}")
        exponent = self.value(f"and {wide} {bits}, {number(0x7F800000)}")
        small = self.value(f"icmp eq {wide} {exponent}, {number(0)}")
        rounded = self.value(f"select {flags} {small}, {wide} {zero}, {wide} {rounded}")
        nan = self.value(f"fcmp uno {type} {x}, {x}")
        quiet = self.value(f"or {wide} {upper}, {number(0x40)}")
        rounded = self.value(f"select {flags} {nan}, {wide} {quiet}, {wide} {rounded}")
        return self.value(f"trunc {wide} {rounded} to {held}")

    def i_dots_bf16(self, e: tree.Call) -> str:
        """Lower dots_bf16: to the instruction if this machine has it."""
        c, a, b = self.args(e, 3, same=False)
        n, narrow, type = e.type.lanes, e.args[1].type, llvm_type(e.type)
        if narrow != Ty("i", 16, 2 * n) or e.args[2].type != narrow or e.type != tree.F32.vector(n) != e.args[0].type:
            raise self.wrong(f"dots_bf16 of {e.args[0].type}, {narrow}, {e.args[2].type} -> {e.type}")
        if has_halves(processor()[1], 32 * n):
            held = f"<{2 * n} x bfloat>"
            x, y = (self.value(f"bitcast {llvm_type(narrow)} {v} to {held}") for v in (a, b))
            f = self.outside.need(f"llvm.x86.avx512bf16.dpbf16ps.{32 * n}", type, f"{type}, {held}, {held}")
            return self.value(f"call {type} {f}({type} {c}, {held} {x}, {held} {y})")
        words = Ty("i", 32, n)
        wide = llvm_type(words)
        x, y = (self.value(f"bitcast {llvm_type(narrow)} {v} to {wide}") for v in (a, b))
        for op, number in (("and", -0x10000), ("shl", 16)):
            halves = [self.value(f"{op} {wide} {v}, {constant_text(number, words)}") for v in (x, y)]
            p, q = (self.value(f"bitcast {wide} {v} to {type}") for v in halves)
            c = self.fma_without_denormals(p, q, c, e.type)
        return c

    def fma_without_denormals(self, a: str, b: str, c: str, type: Ty) -> str:
        """Return a * b + c, where what is denormal once it is rounded to 24 bits is 0; nothing in it is denormal."""
        if self.flushing:
            return self.intrinsic_call(f"llvm.fma.{suffix(type)}", type, (a, type), (b, type), (c, type))
        name, flags, words = llvm_type(type), llvm_type(Ty("i", 1, type.lanes)), Ty("i", 32, type.lanes)
        wide, large = llvm_type(words), constant_text(2.0**24, type)

        def fma(a: str, c: str) -> tuple[str, str]:
            out = self.intrinsic_call(f"llvm.fma.{suffix(type)}", type, (a, type), (b, type), (c, type))
            return out, self.intrinsic_call(f"llvm.fabs.{suffix(type)}", type, (out, type))

        sums, size = fma(a, c)
        _, scaled = fma(*(self.value(f"fmul {name} {v}, {large}") for v in (a, c)))
        tiny = self.value(f"fcmp olt {name} {size}, {constant_text(2.0**-126, type)}")
        below = self.value(f"fcmp olt {name} {scaled}, {constant_text(2.0**-102, type)}")
        tiny = self.value(f"or {flags} {tiny}, {below}")
        bits = self.value(f"bitcast {name} {sums} to {wide}")
        zero = self.value(f"and {wide} {bits}, {constant_text(-0x80000000, words)}")
        bits = self.value(f"select {flags} {tiny}, {wide} {zero}, {wide} {bits}")
        return self.value(f"bitcast {wide} {bits} to {name}")

    def i_flush(self, e: tree.Call) -> str:
        """Let x86 flush denormals, which it does once results are rounded, if it has no instruction for dots_bf16."""
        (on,) = e.args
        assert isinstance(on, tree.Const)
        if platform.machine().lower() not in ("x86_64", "amd64") or has_halves(processor()[1], 512):
            return ""
        if (room := "  %mxcsr = alloca i32") not in self.entry:
            self.entry.append(room)
        for name in ("stmxcsr", "ldmxcsr"):
            f = self.outside.need(f"llvm.x86.sse.{name}", "void", "ptr")
            self.line(f"call void {f}(ptr %mxcsr)")
            if name == "stmxcsr":
                word = self.value("load i32, ptr %mxcsr")
                word = self.value(f"or i32 {word}, 32832" if on.value else f"and i32 {word}, -32833")
                self.line(f"store i32 {word}, ptr %mxcsr")
        self.flushing = bool(on.value)
        return ""

    def i_pick(self, e: tree.Call) -> str:
        """Lower pick: to the instruction if this machine has it."""
        a, b, at = self.args(e, 3)
        type, n = llvm_type(e.type), e.type.lanes
        if e.type != Ty("i", 16, n) or n & (n - 1):
            raise self.wrong(f"pick of {e.type}")
        if n == 32 and has_picks(processor()[1]):
            f = self.outside.need("llvm.x86.avx512.vpermi2var.hi.512", type, f"{type}, {type}, {type}")
            return self.value(f"call {type} {f}({type} {a}, {type} {at}, {type} {b})")
        whole = llvm_type(Ty("i", 16, 2 * n))
        lanes = ", ".join(f"i32 {k}" for k in range(2 * n))
        both = self.value(f"shufflevector {type} {a}, {type} {b}, <{2 * n} x i32> <{lanes}>")
        out = "poison"
        for k in range(n):
            number = self.value(f"extractelement {type} {at}, i32 {k}")
            number = self.value(f"and i16 {number}, {2 * n - 1}")
            lane = self.value(f"extractelement {whole} {both}, i16 {number}")
            out = self.value(f"insertelement {type} {out}, i16 {lane}, i32 {k}")
        return out

    def products(self, narrow: Ty, *operands: tuple[str, str]) -> str:
        """Return the products of two vectors of integers in 32 bits; each operand is (value, "sext" or "zext")."""
        wide = llvm_type(Ty("i", 32, narrow.lanes))
        x, y = (self.value(f"{how} {llvm_type(narrow)} {v} to {wide}") for v, how in operands)
        return self.value(f"mul nsw {wide} {x}, {y}")

    def neighbours(self, v: str, count: int, n: int) -> list[str]:
        """Return vectors of the first, second, ... of each `count` neighbours among the lanes of i32."""
        wide = llvm_type(Ty("i", 32, count * n))

        def each(first: int) -> str:
            lanes = ", ".join(f"i32 {count * k + first}" for k in range(n))
            return self.value(f"shufflevector {wide} {v}, {wide} poison, <{n} x i32> <{lanes}>")

        return [each(first) for first in range(count)]

    def i_extract(self, e: tree.Call) -> str:
        v, k = self.args(e, 2, same=False)
        return self.value(f"extractelement {llvm_type(e.args[0].type)} {v}, i64 {k}")

    def i_insert(self, e: tree.Call) -> str:
        v, k, x = self.args(e, 3, same=False)
        return self.value(f"insertelement {llvm_type(e.type)} {v}, {llvm_type(e.args[2].type)} {x}, i64 {k}")

    def i_overflows(self, e: tree.Call) -> str:
        a, b = self.args(e, 2)
        name = f"llvm.s{e.name.removesuffix('_overflows')}.with.overflow.i64"
        f = self.outside.need(name, "{ i64, i1 }", "i64, i64")
        pair = self.value(f"call {{ i64, i1 }} {f}(i64 {a}, i64 {b})")
        return self.value(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def i_seldom(self, e: tree.Call) -> str:
        f = self.outside.need("llvm.expect.i1", "i1", "i1, i1")
        return self.value(f"call i1 {f}(i1 {self.args(e, 1)[0]}, i1 false)")

    def i_prefetch(self, e: tree.Call) -> str:
        f = self.outside.need("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        near = 3 if e.name == "prefetch" else 2
        self.line(f"call void {f}(ptr {self.pointer(e.args[0])}, i32 0, i32 {near}, i32 1)")
        return ""

    def i_copy(self, e: tree.Call) -> str:
        name = "llvm.memcpy" if e.name == "copy_bytes" else "llvm.memmove"
        f = self.outside.need(f"{name}.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        to, source, count = self.pointer(e.args[0]), self.pointer(e.args[1]), self.expr(e.args[2])
        self.line(f"call void {f}(ptr {to}, ptr {source}, i64 {count}, i1 false)")
        return ""

    def i_fill(self, e: tree.Call) -> str:
        f = self.outside.need("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        to, value, count = self.pointer(e.args[0]), self.expr(e.args[1]), self.expr(e.args[2])
        value = self.converted(value, e.args[1].type, I8, "value")
        self.line(f"call void {f}(ptr {to}, i8 {value}, i64 {count}, i1 false)")
        return ""

    def i_atomic(self, e: tree.Call) -> str:
        given = [self.expr(a) for a in e.args[1:]]
        if any(a.type != I64 for a in e.args):
            raise self.wrong(f"{e.name} takes i64 only")
        at = self.value(f"inttoptr i64 {self.expr(e.args[0])} to ptr")
        match e.name:
            case "atomic_load":
                return self.value(f"load atomic i64, ptr {at} acquire, align 8")
            case "atomic_store":
                self.line(f"store atomic i64 {given[0]}, ptr {at} release, align 8")
                return ""
            case "atomic_add":
                return self.value(f"atomicrmw add ptr {at}, i64 {given[0]} seq_cst")
        pair = self.value(f"cmpxchg ptr {at}, i64 {given[0]}, i64 {given[1]} seq_cst seq_cst")
        return self.value(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def i_pause(self, e: tree.Call) -> str:
        machine = platform.machine().lower()
        if machine in ("x86_64", "amd64"):
            self.line(f"call void {self.outside.need('llvm.x86.sse2.pause', 'void', '')}()")
        elif machine in ("arm64", "aarch64"):
            self.line(f"call void {self.outside.need('llvm.aarch64.hint', 'void', 'i32')}(i32 1)")
        return ""

    def i_give_way(self, e: tree.Call) -> str:
        name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
        self.value(f"call i32 {self.outside.need(name, 'i32', '')}()")
        return ""

    def i_shuffle(self, e: tree.Call) -> str:
        a, b = self.expr(e.args[0]), self.expr(e.args[1])
        if not isinstance(e.args[2], tree.Const):
            raise self.wrong(f"{e.name}: the distance is no constant")
        n, d = e.type.lanes, int(e.args[2].value)
        if e.name == "shuffle_low":
            lanes = [i if not i & d else n + i - d for i in range(n)]
        else:
            lanes = [i + d if not i & d else n + i for i in range(n)]
        type = llvm_type(e.type)
        picked = ", ".join(f"i32 {k}" for k in lanes)
        return self.value(f"shufflevector {type} {a}, {type} {b}, <{n} x i32> <{picked}>")


@functools.cache
def _dots_take_bytes() -> bool:
    """Whether LLVM's function of the instruction takes vectors of bytes; before LLVM 22 it takes them as i32."""
    from llvmlite import binding

    return bool(binding.llvm_version_info[0] >= 22)


def _through(name: str) -> Callable[[Intrinsics, tree.Call], str]:
    return lambda lowering, e: lowering.through(e, name)


RULES: dict[str, Callable[[Intrinsics, tree.Call], str]] = {
    "fma": _through("llvm.fma"),
    "sqrt": _through("llvm.sqrt"),
    "floor": _through("llvm.floor"),
    "abs": Intrinsics.i_abs,
    "copysign": _through("llvm.copysign"),
    "umin": _through("llvm.umin"),
    "umax": _through("llvm.umax"),
    "udiv": Intrinsics.i_plain,
    "urem": Intrinsics.i_plain,
    "lshr": Intrinsics.i_plain,
    "pairs": Intrinsics.i_pairs,
    "dots": Intrinsics.i_dots,
    "to_bf16": Intrinsics.i_to_bf16,
    "dots_bf16": Intrinsics.i_dots_bf16,
    "pick": Intrinsics.i_pick,
    "lanes": Intrinsics.i_lanes,
    "hsum": Intrinsics.i_hsum,
    "hmax": Intrinsics.i_extreme,
    "hmin": Intrinsics.i_extreme,
    "extract": Intrinsics.i_extract,
    "insert": Intrinsics.i_insert,
    "add_overflows": Intrinsics.i_overflows,
    "sub_overflows": Intrinsics.i_overflows,
    "mul_overflows": Intrinsics.i_overflows,
    "seldom": Intrinsics.i_seldom,
    "prefetch": Intrinsics.i_prefetch,
    "prefetch_far": Intrinsics.i_prefetch,
    "copy_bytes": Intrinsics.i_copy,
    "move_bytes": Intrinsics.i_copy,
    "fill_bytes": Intrinsics.i_fill,
    "atomic_load": Intrinsics.i_atomic,
    "atomic_store": Intrinsics.i_atomic,
    "atomic_add": Intrinsics.i_atomic,
    "atomic_cas": Intrinsics.i_atomic,
    "flush_denormals": Intrinsics.i_flush,
    "pause": Intrinsics.i_pause,
    "give_way": Intrinsics.i_give_way,
    "shuffle_low": Intrinsics.i_shuffle,
    "shuffle_high": Intrinsics.i_shuffle,
}
