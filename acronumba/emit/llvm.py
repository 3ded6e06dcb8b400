"""Trees to LLVM.

Comes in: a `tree.Module`. Goes out: its functions inside an LLVM module of llvmlite's, for the one intrinsic of
`compile` to call. The instructions are written as text, line by line: building llvmlite's objects first would take
several times as long, and LLVM reads the text anyway. Rules that make results the same everywhere: no fast-math
flag, no contraction, no reordering, loads and stores aligned to one element, calls of libm marked so that no pass
may replace them by another implementation.

A local is an `alloca` of the entry block (LLVM makes registers of them), a `Dispatch` is a `switch`, and `Goto` is
a direct jump.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

from acronumba.emit import tree
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.tree import I1, I8, I64, VOID, Ty

VERSION = 1  # part of the key of every compiled module: count up when lowering changes


class Malformed(TypeError):
    """A tree that has no meaning: a bug of the generator that made it."""


_SCALARS = {"i": lambda bits: f"i{bits}", "f": lambda bits: {32: "float", 64: "double"}[bits]}


@functools.cache
def llvm_type(type: Ty) -> str:
    """Return LLVM's name of a type."""
    if type == VOID:
        return "void"
    name = _SCALARS[type.kind](type.bits)
    return name if type.lanes == 1 else f"<{type.lanes} x {name}>"


@functools.cache
def _stored(type: Ty) -> Ty:
    """Return the type that holds a value in memory: a bit takes a byte."""
    return Ty("i", 8, type.lanes) if type.bits == 1 else type


@functools.cache
def _suffix(type: Ty) -> str:
    name = f"{type.kind}{type.bits}"
    return name if type.lanes == 1 else f"v{type.lanes}{name}"


def _float_text(value: float, bits: int) -> str:
    if bits == 32:
        value = ctypes.c_float(value).value
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _integer_text(value: int, bits: int) -> str:
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


@functools.cache
def _splat_text(scalar: str, value: str, lanes: int) -> str:
    return f"<{', '.join([f'{scalar} {value}'] * lanes)}>"


def constant_text(value: int | float, type: Ty) -> str:
    """Return a constant as LLVM writes it, without its type."""
    if type.kind == "f":
        text = _float_text(float(value), type.bits)
    else:
        text = _integer_text(int(value), type.bits)
    if type.lanes == 1:
        return text
    return _splat_text(llvm_type(type.scalar), text, type.lanes)


def _lanes_text(type: Ty) -> str:
    scalar = llvm_type(type.scalar)
    return f"<{', '.join(f'{scalar} {constant_text(k, type.scalar)}' for k in range(type.lanes))}>"


_INTEGER = {"+": "add", "-": "sub", "*": "mul", "//": "sdiv", "%": "srem", "<<": "shl", ">>": "ashr", "&": "and",
            "|": "or", "^": "xor"}  # fmt: skip
_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne",
           "u<": "ult", "u<=": "ule", "u>": "ugt", "u>=": "uge", "u==": "eq", "u!=": "ne"}  # fmt: skip
_ORDERED = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


class Declarations:
    """What the lowered functions use from outside: intrinsics of LLVM and C's library."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def need(self, name: str, result: str, params: str) -> str:
        if name not in self.lines:
            self.lines[name] = f'declare {result} @"{name}"({params})'
        return f'@"{name}"'


class _Lowering:
    """One function: `line` by line into `self.lines`; `expr` returns the operand's text."""

    def __init__(
        self, module: tree.Module, function: tree.Function, names: Mapping[str, tree.Function], outside: Declarations
    ) -> None:
        self.module, self.function, self.names, self.outside = module, function, names, outside
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.labels = 0
        self.open = True  # the current block has no terminator yet
        self.locals: dict[str, Ty] = {}
        self.loops: list[tuple[str, str]] = []  # (label of continue, label of break); a Dispatch puts (head, end)
        self.callees: set[str] = set()  # functions of the module that this one calls
        self.dispatch: list[tuple[tree.Dispatch, dict[int, str], str, int]] = []

    # ---- the pieces of text

    def wrong(self, message: str) -> Malformed:
        return Malformed(f"{self.module.name}.{self.function.name}: {message}")

    def value(self, instruction: str) -> str:
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def line(self, instruction: str) -> None:
        self.lines.append("  " + instruction)

    def fresh(self, name: str) -> str:
        self.labels += 1
        return f"{name}{self.labels}"

    def label(self, name: str) -> None:
        """Start a block; fall into it from the one before."""
        if self.open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self.open = True

    def jump(self, name: str) -> None:
        if self.open:
            self.lines.append(f"  br label %{name}")
            self.open = False

    def branch(self, cond: tree.Expr, yes: str, no: str) -> None:
        if cond.type != I1:
            raise self.wrong(f"a condition of type {cond.type}")
        self.lines.append(f"  br i1 {self.expr(cond)}, label %{yes}, label %{no}")
        self.open = False

    def slot(self, local: tree.Local) -> str:
        """Return the address of a local, made when first seen."""
        known = self.locals.get(local.name)
        if known is None:
            self.locals[local.name] = local.type
            self.entry.append(f'  %"v.{local.name}" = alloca {llvm_type(local.type)}')
        elif known != local.type:
            raise self.wrong(f"local {local.name!r} is {known} and {local.type}")
        return f'%"v.{local.name}"'

    def run(self) -> str:
        """Return the text of the function."""
        f = self.function
        for p in f.params:
            self.line(f'store {llvm_type(p.type)} %"p.{p.name}", ptr {self.slot(p)}')
        self.body(f.body)
        if self.open:
            self.line("ret void" if f.result == VOID else f"ret {llvm_type(f.result)} zeroinitializer")
        params = ", ".join(f'{llvm_type(p.type)} %"p.{p.name}"' for p in f.params)
        mode = {"always": " alwaysinline", "never": " noinline", "auto": ""}[f.inline]
        if any(isinstance(x, tree.Dispatch) and x.entries is not None for x in f.body):
            mode += " optsize minsize"  # a large machine: what LLVM would unroll and unswitch takes it quadratic time
        elif self.module.compact:
            mode += " optsize"
        head = f"define internal {llvm_type(f.result)} {symbol(self.module, f.name)}({params}) nounwind{mode} {{"
        return "\n".join([head, "entry:", *self.entry, "  br label %start", "start:", *self.lines, "}"])

    # ---- statements

    def body(self, body: tree.Body) -> None:
        for stmt in body:
            if not self.open:
                return  # nothing after a jump is ever reached
            _STATEMENTS[type(stmt)](self, stmt)

    def assign(self, s: tree.Assign) -> None:
        if s.value.type != s.target.type:
            raise self.wrong(f"{s.target.name!r} of type {s.target.type} = {s.value.type}")
        value = self.expr(s.value)
        self.line(f"store {llvm_type(s.value.type)} {value}, ptr {self.slot(s.target)}")

    def store(self, s: tree.Store) -> None:
        pointer = self.pointer(s.address)
        value, type = self.expr(s.value), s.value.type
        held = _stored(type)
        if held != type:
            value = self.value(f"zext {llvm_type(type)} {value} to {llvm_type(held)}")
        align, name = max(1, held.bits // 8), llvm_type(held)
        if s.lanes_left is None:
            self.line(f"store {name} {value}, ptr {pointer}, align {align}")
            return
        mask = self.mask(s.lanes_left, held)
        flags = f"<{held.lanes} x i1>"
        if _masked_has_align_argument():
            f = self.outside.need(f"llvm.masked.store.{_suffix(held)}.p0", "void", f"{name}, ptr, i32, {flags}")
            self.line(f"call void {f}({name} {value}, ptr {pointer}, i32 {align}, {flags} {mask})")
        else:
            f = self.outside.need(f"llvm.masked.store.{_suffix(held)}.p0", "void", f"{name}, ptr, {flags}")
            self.line(f"call void {f}({name} {value}, ptr align {align} {pointer}, {flags} {mask})")

    def if_(self, s: tree.If) -> None:
        yes, no, end = self.fresh("then"), self.fresh("else"), self.fresh("fi")
        self.branch(s.cond, yes, no if s.no else end)
        self.label(yes)
        self.body(s.yes)
        reached = self.open or not s.no
        self.jump(end)
        if s.no:
            self.label(no)
            self.body(s.no)
            reached = reached or self.open
            self.jump(end)
        if reached:
            self.label(end)

    def while_(self, s: tree.While) -> None:
        head, inner, end = self.fresh("while"), self.fresh("do"), self.fresh("done")
        self.label(head)
        if isinstance(s.cond, tree.Const) and s.cond.value:
            self.jump(inner)
        else:
            self.branch(s.cond, inner, end)
        self.label(inner)
        self.loops.append((head, end))
        self.body(s.body)
        self.loops.pop()
        self.jump(head)
        self.label(end)

    def for_(self, s: tree.For) -> None:
        if s.step <= 0 or s.var.type != I64:
            raise self.wrong(f"a loop over {s.var.name!r} of type {s.var.type} by {s.step}")
        head, inner, step, end = self.fresh("for"), self.fresh("do"), self.fresh("next"), self.fresh("done")
        start, stop = self.expr(s.start), self.expr(s.stop)
        counter = f"%c{self.labels}"
        self.entry.append(f"  {counter} = alloca i64")
        self.line(f"store i64 {start}, ptr {counter}")
        self.label(head)
        k = self.value(f"load i64, ptr {counter}")
        more = self.value(f"icmp slt i64 {k}, {stop}")
        self.line(f"br i1 {more}, label %{inner}, label %{end}")
        self.open = False
        self.label(inner)
        self.line(f"store i64 {k}, ptr {self.slot(s.var)}")
        self.loops.append((step, end))
        self.body(s.body)
        self.loops.pop()
        self.label(step)
        self.line(f"store i64 {self.value(f'add nsw i64 {k}, {s.step}')}, ptr {counter}")
        self.jump(head)
        self.label(end)

    def break_(self, s: tree.Break) -> None:
        if not self.loops:
            raise self.wrong("break outside a loop")
        self.jump(self.loops[-1][1])

    def continue_(self, s: tree.Continue) -> None:
        if not self.loops:
            raise self.wrong("continue outside a loop")
        self.jump(self.loops[-1][0])

    def return_(self, s: tree.Return) -> None:
        result = self.function.result
        if (VOID if s.value is None else s.value.type) != result:
            raise self.wrong(f"return of {s.value.type if s.value else 'nothing'} where {result} is expected")
        self.line("ret void" if s.value is None else f"ret {llvm_type(result)} {self.expr(s.value)}")
        self.open = False

    def do(self, s: tree.Do) -> None:
        self.expr(s.expr)

    def comment(self, s: tree.Comment) -> None:
        pass

    def dispatch_(self, s: tree.Dispatch) -> None:
        head, end, bad = self.fresh("dispatch"), self.fresh("done"), self.fresh("bad")
        blocks = {number: self.fresh(f"pc{number}.") for number, _, _ in s.blocks}
        if len(blocks) != len(s.blocks):
            raise self.wrong("two blocks of one number")
        type = llvm_type(s.var.type)
        entries = blocks if s.entries is None else sorted(s.entries)
        if not blocks.keys() >= set(entries):
            raise self.wrong(f"a dispatch on {sorted(set(entries) - blocks.keys())}: there are no such blocks")
        cases = " ".join(f"{type} {number}, label %{blocks[number]}" for number in entries)
        # Where the entries are given, the first dispatch is apart from the later ones: then no block dominates the
        # others, and LLVM's passes for loops, which take time quadratic in the blocks, see no loop around all of
        # them.
        for label in (None, head) if s.entries is not None else (head,):
            if label is not None:
                self.label(label)
            pc = self.value(f"load {type}, ptr {self.slot(s.var)}")
            self.line(f"switch {type} {pc}, label %{bad} [ {cases} ]")
            self.open = False
        self.loops.append((head, end))
        self.dispatch.append((s, blocks, head, len(self.loops)))
        for number, _, body in s.blocks:
            self.label(blocks[number])
            self.body(body)
            self.jump(head)
        self.dispatch.pop()
        self.loops.pop()
        self.label(bad)
        self.line(f"call void {self.outside.need('llvm.trap', 'void', '')}()")
        self.line("unreachable")
        self.open = False
        self.label(end)

    def innermost(self, what: str) -> tuple[tree.Dispatch, dict[int, str], str]:
        if not self.dispatch:
            raise self.wrong(f"{what} outside a dispatch")
        s, blocks, head, depth = self.dispatch[-1]
        if len(self.loops) != depth:
            raise self.wrong(f"{what} inside a loop of a block")
        return s, blocks, head

    def goto(self, s: tree.Goto) -> None:
        dispatch, blocks, _ = self.innermost("goto")
        if s.block not in blocks:
            raise self.wrong(f"goto {s.block}: there is no such block")
        self.line(f"store {llvm_type(dispatch.var.type)} {s.block}, ptr {self.slot(dispatch.var)}")
        self.jump(blocks[s.block])

    def again(self, s: tree.Again) -> None:
        self.jump(self.innermost("again")[2])

    # ---- expressions

    def expr(self, e: tree.Expr) -> str:
        return _EXPRESSIONS[type(e)](self, e)

    def const(self, e: tree.Const) -> str:
        return constant_text(e.value, e.type)

    def local(self, e: tree.Local) -> str:
        return self.value(f"load {llvm_type(e.type)}, ptr {self.slot(e)}")

    def same(self, left: tree.Expr, right: tree.Expr, op: str) -> str:
        if left.type != right.type:
            raise self.wrong(f"{left.type} {op} {right.type}")
        return llvm_type(left.type)

    def binary(self, e: tree.Binary) -> str:
        type = self.same(e.left, e.right, e.op)
        name = (_INTEGER if e.type.kind == "i" else _FLOAT).get(e.op)
        if name is None or e.type != e.left.type:
            raise self.wrong(f"{e.left.type} {e.op} {e.right.type} -> {e.type}")
        left = self.expr(e.left)
        return self.value(f"{name} {type} {left}, {self.expr(e.right)}")

    def unary(self, e: tree.Unary) -> str:
        arg, type = self.expr(e.arg), llvm_type(e.type)
        if e.op == "-":
            return self.value(f"fneg {type} {arg}" if e.type.kind == "f" else f"sub {type} zeroinitializer, {arg}"
                              if e.type.lanes > 1 else f"sub {type} 0, {arg}")  # fmt: skip
        if e.op == "~" and e.type.kind == "i":
            return self.value(f"xor {type} {arg}, {constant_text(-1, e.type)}")
        raise self.wrong(f"{e.op} {e.type}")

    def compare(self, e: tree.Compare) -> str:
        type = self.same(e.left, e.right, e.op)
        left = self.expr(e.left)
        right = self.expr(e.right)
        if e.left.type.kind == "f":
            return self.value(f"fcmp {_ORDERED[e.op]} {type} {left}, {right}")
        return self.value(f"icmp {_SIGNED[e.op]} {type} {left}, {right}")

    def select(self, e: tree.Select) -> str:
        type = self.same(e.yes, e.no, "or")
        if e.cond.type.bits != 1 or e.cond.type.lanes not in (1, e.type.lanes):
            raise self.wrong(f"select by {e.cond.type} of {e.type}")
        cond, yes, no = self.expr(e.cond), self.expr(e.yes), self.expr(e.no)
        return self.value(f"select {llvm_type(e.cond.type)} {cond}, {type} {yes}, {type} {no}")

    def convert(self, e: tree.Convert) -> str:
        return self.converted(self.expr(e.arg), e.arg.type, e.type, e.how)

    def converted(self, arg: str, old: Ty, new: Ty, how: str) -> str:
        if old == new:
            return arg
        a, b = llvm_type(old), llvm_type(new)
        if how == "spread":
            if old != new.scalar:
                raise self.wrong(f"spread of {old} to {new}")
            one = self.value(f"insertelement {b} poison, {a} {arg}, i32 0")
            return self.value(f"shufflevector {b} {one}, {b} poison, <{new.lanes} x i32> zeroinitializer")
        if how == "bits":
            if old.bits * old.lanes != new.bits * new.lanes:
                raise self.wrong(f"bits of {old} as {new}")
            return self.value(f"bitcast {a} {arg} to {b}")
        if old.lanes != new.lanes or how not in ("value", "unsigned"):
            raise self.wrong(f"conversion {how!r} of {old} to {new}")
        unsigned = how == "unsigned" or old.bits == 1
        if old.kind == "i" and new.kind == "i":
            if new.bits > old.bits:
                return self.value(f"{'zext' if unsigned else 'sext'} {a} {arg} to {b}")
            if new.bits == 1:
                return self.value(f"icmp ne {a} {arg}, {constant_text(0, old)}")
            return self.value(f"trunc {a} {arg} to {b}")
        if old.kind == "i":
            return self.value(f"{'uitofp' if unsigned else 'sitofp'} {a} {arg} to {b}")
        if new.kind == "i":
            if new.bits == 1:
                return self.value(f"fcmp une {a} {arg}, {constant_text(0.0, old)}")
            return self.value(f"{'fptoui' if unsigned else 'fptosi'} {a} {arg} to {b}")
        return self.value(f"{'fpext' if new.bits > old.bits else 'fptrunc'} {a} {arg} to {b}")

    # ---- memory

    def pointer(self, address: tree.Expr) -> str:
        """Return an address as a pointer; `base + index` becomes an offset, which LLVM folds into the access."""
        if address.type != I64:
            raise self.wrong(f"an address of type {address.type}")
        if isinstance(address, tree.Binary) and address.op == "+":
            base = self.value(f"inttoptr i64 {self.expr(address.left)} to ptr")
            return self.value(f"getelementptr i8, ptr {base}, i64 {self.expr(address.right)}")
        return self.value(f"inttoptr i64 {self.expr(address)} to ptr")

    def mask(self, left: tree.Expr, type: Ty) -> str:
        """Return the lanes before `left` (any int64) of a vector of the type, as a vector of bits."""
        if left.type != I64 or type.lanes == 1:
            raise self.wrong(f"a mask of {type} from {left.type}")
        n = self.intrinsic_call("llvm.smin.i64", I64, (self.expr(left), I64), (str(type.lanes), I64))
        n = self.intrinsic_call("llvm.smax.i64", I64, (n, I64), ("0", I64))
        number = Ty("i", type.bits, type.lanes)
        n = self.converted(self.converted(n, I64, number.scalar, "value"), number.scalar, number, "spread")
        return self.value(f"icmp slt {llvm_type(number)} {_lanes_text(number)}, {n}")

    def load(self, e: tree.Load) -> str:
        pointer = self.pointer(e.address)
        held = _stored(e.type)
        align, name = max(1, held.bits // 8), llvm_type(held)
        if e.lanes_left is None:
            value = self.value(f"load {name}, ptr {pointer}, align {align}")
        else:
            mask = self.mask(e.lanes_left, held)
            fill = constant_text(e.fill, held)
            flags = f"<{held.lanes} x i1>"
            if _masked_has_align_argument():
                f = self.outside.need(f"llvm.masked.load.{_suffix(held)}.p0", name, f"ptr, i32, {flags}, {name}")
                value = self.value(f"call {name} {f}(ptr {pointer}, i32 {align}, {flags} {mask}, {name} {fill})")
            else:
                f = self.outside.need(f"llvm.masked.load.{_suffix(held)}.p0", name, f"ptr, {flags}, {name}")
                value = self.value(f"call {name} {f}(ptr align {align} {pointer}, {flags} {mask}, {name} {fill})")
        return self.converted(value, held, e.type, "value")

    # ---- calls

    def intrinsic_call(self, name: str, result: Ty, *args: tuple[str, Ty], extra: str = "") -> str:
        params = [llvm_type(t) for _, t in args] + (["i1"] if extra else [])
        f = self.outside.need(name, llvm_type(result), ", ".join(params))
        given = ", ".join([f"{llvm_type(t)} {a}" for a, t in args] + ([extra] if extra else []))
        if result == VOID:
            self.line(f"call void {f}({given})")
            return ""
        return self.value(f"call {llvm_type(result)} {f}({given})")

    def call(self, e: tree.Call) -> str:
        callee = self.names.get(e.name)
        if callee is not None:
            if tuple(a.type for a in e.args) != tuple(p.type for p in callee.params) or e.type != callee.result:
                given = ", ".join(str(a.type) for a in e.args)
                wanted = ", ".join(str(p.type) for p in callee.params)
                raise self.wrong(f"call {e.name}({given}) -> {e.type} of {e.name}({wanted}) -> {callee.result}")
            self.callees.add(e.name)
            return self.called(symbol(self.module, e.name), e)
        if e.name == "call_address":
            if any(a.type != I64 for a in e.args):
                raise self.wrong("call_address takes i64 only")
            target = self.value(f"inttoptr i64 {self.expr(e.args[0])} to ptr")
            return self.called(target, e, skip=1)
        row = INTRINSICS.get(e.name)
        if row is None:
            raise self.wrong(f"call of unknown function {e.name!r}")
        return self.i_libm(e, row.c) if row.called else RULES[e.name](self, e)

    def called(self, target: str, e: tree.Call, skip: int = 0) -> str:
        args = ", ".join([f"{llvm_type(a.type)} {self.expr(a)}" for a in e.args[skip:]])
        if e.type == VOID:
            self.line(f"call void {target}({args})")
            return ""
        return self.value(f"call {llvm_type(e.type)} {target}({args})")

    # ---- intrinsics

    def args(self, e: tree.Call, count: int, *, same: bool = True) -> list[str]:
        if len(e.args) != count or (same and any(a.type != e.args[0].type for a in e.args)):
            raise self.wrong(f"{e.name}({', '.join(str(a.type) for a in e.args)})")
        return [self.expr(a) for a in e.args]

    def through(self, e: tree.Call, name: str) -> str:
        args = self.args(e, len(INTRINSICS[e.name].args))
        return self.intrinsic_call(f"{name}.{_suffix(e.type)}", e.type, *[(a, e.type) for a in args])

    def i_abs(self, e: tree.Call) -> str:
        if e.type.kind == "f":
            return self.through(e, "llvm.fabs")
        (a,) = self.args(e, 1)
        return self.intrinsic_call(f"llvm.abs.{_suffix(e.type)}", e.type, (a, e.type), extra="i1 false")

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
        return _lanes_text(e.type)

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

    def i_prefetch(self, e: tree.Call) -> str:
        f = self.outside.need("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        self.line(f"call void {f}(ptr {self.pointer(e.args[0])}, i32 0, i32 3, i32 1)")
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


def _through(name: str) -> Callable[[_Lowering, tree.Call], str]:
    return lambda lowering, e: lowering.through(e, name)


_STATEMENTS: dict[type, Callable[[_Lowering, Any], None]] = {
    tree.Assign: _Lowering.assign,
    tree.Store: _Lowering.store,
    tree.If: _Lowering.if_,
    tree.While: _Lowering.while_,
    tree.For: _Lowering.for_,
    tree.Break: _Lowering.break_,
    tree.Continue: _Lowering.continue_,
    tree.Return: _Lowering.return_,
    tree.Do: _Lowering.do,
    tree.Comment: _Lowering.comment,
    tree.Dispatch: _Lowering.dispatch_,
    tree.Goto: _Lowering.goto,
    tree.Again: _Lowering.again,
}
_EXPRESSIONS: dict[type, Callable[[_Lowering, Any], str]] = {
    tree.Const: _Lowering.const,
    tree.Local: _Lowering.local,
    tree.Binary: _Lowering.binary,
    tree.Unary: _Lowering.unary,
    tree.Compare: _Lowering.compare,
    tree.Select: _Lowering.select,
    tree.Convert: _Lowering.convert,
    tree.Load: _Lowering.load,
    tree.Call: _Lowering.call,
}
RULES: dict[str, Callable[[_Lowering, tree.Call], str]] = {
    "fma": _through("llvm.fma"),
    "sqrt": _through("llvm.sqrt"),
    "floor": _through("llvm.floor"),
    "abs": _Lowering.i_abs,
    "copysign": _through("llvm.copysign"),
    "umin": _through("llvm.umin"),
    "umax": _through("llvm.umax"),
    "udiv": _Lowering.i_plain,
    "urem": _Lowering.i_plain,
    "lshr": _Lowering.i_plain,
    "lanes": _Lowering.i_lanes,
    "hsum": _Lowering.i_hsum,
    "hmax": _Lowering.i_extreme,
    "hmin": _Lowering.i_extreme,
    "extract": _Lowering.i_extract,
    "insert": _Lowering.i_insert,
    "add_overflows": _Lowering.i_overflows,
    "sub_overflows": _Lowering.i_overflows,
    "mul_overflows": _Lowering.i_overflows,
    "prefetch": _Lowering.i_prefetch,
    "copy_bytes": _Lowering.i_copy,
    "move_bytes": _Lowering.i_copy,
    "fill_bytes": _Lowering.i_fill,
    "atomic_load": _Lowering.i_atomic,
    "atomic_store": _Lowering.i_atomic,
    "atomic_add": _Lowering.i_atomic,
    "atomic_cas": _Lowering.i_atomic,
    "pause": _Lowering.i_pause,
    "give_way": _Lowering.i_give_way,
    "shuffle_low": _Lowering.i_shuffle,
    "shuffle_high": _Lowering.i_shuffle,
}


@functools.cache
def _masked_has_align_argument() -> bool:
    """Whether masked accesses take the alignment as an argument; from LLVM 22 on it is an attribute of the pointer."""
    from llvmlite import binding

    return bool(binding.llvm_version_info[0] < 22)


def symbol(module: tree.Module, name: str) -> str:
    """Return the name of a function inside LLVM."""
    return f'@"acronumba.{module.name}.{name}"'


def function_texts(module: tree.Module) -> tuple[dict[str, str], dict[str, str]]:
    """Return the LLVM text of the functions that entry points reach, by name, and of outside ones, by symbol."""
    outside = Declarations()
    names = {f.name: f for f in module.functions}
    if len(names) != len(module.functions):
        raise Malformed(f"{module.name}: two functions of one name")
    for name in module.exports:
        if name not in names:
            raise Malformed(f"{module.name}: no function {name!r} to export")
        if any(p.type != I64 for p in names[name].params):
            raise Malformed(f"{module.name}.{name}: an entry point takes i64 only")
    lowered: dict[str, str] = {}
    waiting = list(module.exports)
    while waiting:
        name = waiting.pop()
        if name not in lowered:
            lowering = _Lowering(module, names[name], names, outside)
            lowered[name] = lowering.run()
            waiting += lowering.callees
    return {name: lowered[name] for name in names if name in lowered}, dict(sorted(outside.lines.items()))


def lower(llvm_ir_module: Any, module: tree.Module) -> dict[str, Any]:
    """Write the functions of a module into an LLVM module.

    Parameters
    ----------
    llvm_ir_module : llvmlite.ir.Module
        Receives the functions, with internal linkage, and the declarations they need.
    module : tree.Module
        The functions.

    Returns
    -------
    dict
        llvmlite.ir.Function by name of every function that entry points reach.

    Raises
    ------
    Malformed
        If types disagree or a name is unknown.
    """
    return insert(llvm_ir_module, module, *function_texts(module))


def insert(
    llvm_ir_module: Any, module: tree.Module, texts: Mapping[str, str], outside: Mapping[str, str]
) -> dict[str, Any]:
    """Write functions whose texts are ready (see `function_texts`) into an LLVM module; return them by name."""
    from llvmlite import ir

    class Written(ir.Function):  # type: ignore[misc]
        """A function whose text is ready."""

        text = ""

        def __str__(self) -> str:
            return self.text

    def llvmlite_type(type: Ty) -> Any:
        if type == VOID:
            return ir.VoidType()
        scalar = ir.IntType(type.bits) if type.kind == "i" else ir.FloatType() if type.bits == 32 else ir.DoubleType()
        return scalar if type.lanes == 1 else ir.VectorType(scalar, type.lanes)

    for name, text in outside.items():
        if name not in llvm_ir_module.globals:
            declared = Written(llvm_ir_module, ir.FunctionType(ir.VoidType(), []), name)
            declared.text = text + "\n"
    out = {}
    for f in module.functions:
        if f.name not in texts:
            continue
        type = ir.FunctionType(llvmlite_type(f.result), [llvmlite_type(p.type) for p in f.params])
        written = Written(llvm_ir_module, type, f"acronumba.{module.name}.{f.name}")
        written.text = texts[f.name] + "\n"
        out[f.name] = written
    return out
