"""Expressions of the language as LLVM's instructions.

In: expressions. Out: lines of LLVM, and the operands that hold the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from acronumba.emit import tree
from acronumba.emit.llvm_text import (
    Declarations,
    Malformed,
    constant_text,
    lanes_text,
    llvm_type,
    stored,
    suffix,
    symbol,
)
from acronumba.emit.tree import I1, I64, VOID, Ty

_INTEGER = {"+": "add", "-": "sub", "*": "mul", "//": "sdiv", "%": "srem", "<<": "shl", ">>": "ashr", "&": "and",
            "|": "or", "^": "xor"}  # fmt: skip
_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne",
           "u<": "ult", "u<=": "ule", "u>": "ugt", "u>=": "uge", "u==": "eq", "u!=": "ne"}  # fmt: skip
_ORDERED = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


class Values:
    """The lines of one function, and its expressions: `expr` returns the operand's text."""

    def __init__(
        self, module: tree.Module, function: tree.Function, names: Mapping[str, tree.Function], outside: Declarations,
        numbers: dict[str, int],
    ) -> None:  # fmt: skip
        self.module, self.function, self.names, self.outside = module, function, names, outside
        self.numbers = numbers  # of functions of the module, in the order in which they are reached
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.labels = 0
        self.open = True  # the current block has no terminator yet
        self.locals: dict[str, tuple[Ty, str]] = {}  # by name: the type, and where it is

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
        """Start a block; the previous block falls through to it."""
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
        """Return the address of a local, made at its first use; its name does not appear in the text."""
        known = self.locals.get(local.name)
        if known is None:
            known = self.locals[local.name] = local.type, f"%v{len(self.locals)}"
            self.entry.append(f"  {known[1]} = alloca {llvm_type(local.type)}")
        elif known[0] != local.type:
            raise self.wrong(f"local {local.name!r} is {known[0]} and {local.type}")
        return known[1]

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

    def pointer(self, address: tree.Expr) -> str:
        """Return an address as a pointer; `base + index` becomes an offset, which LLVM folds into the access."""
        if address.type != I64:
            raise self.wrong(f"an address of type {address.type}")
        if isinstance(address, tree.Binary) and address.op == "+":
            base = self.value(f"inttoptr i64 {self.expr(address.left)} to ptr")
            return self.value(f"getelementptr i8, ptr {base}, i64 {self.expr(address.right)}")
        return self.value(f"inttoptr i64 {self.expr(address)} to ptr")

    def mask(self, left: tree.Expr, type: Ty, hidden: bool = False) -> str:
        """Return the lanes before `left` (any int64) of a vector of the type, as a vector of bits.

        `hidden`: from optimisations. If LLVM 22 knows that a mask has one lane, it turns a truncating masked store into
        a store of the wider number, and so writes beyond the end (X86: `reduceMaskedStoreToScalarStore`).
        """
        if left.type != I64 or type.lanes == 1:
            raise self.wrong(f"a mask of {type} from {left.type}")
        n = self.intrinsic_call("llvm.smin.i64", I64, (self.expr(left), I64), (str(type.lanes), I64))
        n = self.intrinsic_call("llvm.smax.i64", I64, (n, I64), ("0", I64))
        if hidden:
            n = self.value(f'call i64 asm "", "=r,0"(i64 {n})')
        number = Ty("i", type.bits, type.lanes)
        n = self.converted(self.converted(n, I64, number.scalar, "value"), number.scalar, number, "spread")
        return self.value(f"icmp slt {llvm_type(number)} {lanes_text(number)}, {n}")

    def load(self, e: tree.Load) -> str:
        pointer = self.pointer(e.address)
        held = stored(e.type)
        align, name = max(1, held.bits // 8), llvm_type(held)
        if e.lanes_left is None:
            value = self.value(f"load {name}, ptr {pointer}, align {align}")
        else:
            mask = self.mask(e.lanes_left, held)
            fill = constant_text(e.fill, held)
            flags = f"<{held.lanes} x i1>"
            if masked_has_align_argument():
                f = self.outside.need(f"llvm.masked.load.{suffix(held)}.p0", name, f"ptr, i32, {flags}, {name}")
                value = self.value(f"call {name} {f}(ptr {pointer}, i32 {align}, {flags} {mask}, {name} {fill})")
            else:
                f = self.outside.need(f"llvm.masked.load.{suffix(held)}.p0", name, f"ptr, {flags}, {name}")
                value = self.value(f"call {name} {f}(ptr align {align} {pointer}, {flags} {mask}, {name} {fill})")
        return self.converted(value, held, e.type, "value")

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
            return self.called(f"@{symbol(self.numbers.setdefault(e.name, len(self.numbers)))}", e)
        if e.name == "call_address":
            if any(a.type != I64 for a in e.args):
                raise self.wrong("call_address takes i64 only")
            target = self.value(f"inttoptr i64 {self.expr(e.args[0])} to ptr")
            return self.called(target, e, skip=1)
        return self.intrinsic(e)

    def intrinsic(self, e: tree.Call) -> str:
        """Return the operand of a call of the language itself."""
        raise NotImplementedError

    def called(self, target: str, e: tree.Call, skip: int = 0) -> str:
        args = ", ".join([f"{llvm_type(a.type)} {self.expr(a)}" for a in e.args[skip:]])
        if e.type == VOID:
            self.line(f"call void {target}({args})")
            return ""
        return self.value(f"call {llvm_type(e.type)} {target}({args})")


_EXPRESSIONS: dict[type, Callable[[Values, Any], str]] = {
    tree.Const: Values.const,
    tree.Local: Values.local,
    tree.Binary: Values.binary,
    tree.Unary: Values.unary,
    tree.Compare: Values.compare,
    tree.Select: Values.select,
    tree.Convert: Values.convert,
    tree.Load: Values.load,
    tree.Call: Values.call,
}


@functools.cache
def masked_has_align_argument() -> bool:
    """Whether masked accesses take the alignment as an argument, not as an attribute of the pointer (LLVM 22 on)."""
    from llvmlite import binding

    return bool(binding.llvm_version_info[0] < 22)
