"""Trees to LLVM.

In: a `tree.Module`. Out: its functions as LLVM's text, line by line: building llvmlite's objects first would take
several times as long, and LLVM parses the text anyway. Rules that make results the same everywhere: no fast-math flag,
no contraction, no reordering, loads and stores aligned to one element, calls of libm marked so that no pass may replace
them by another implementation.

A local is an `alloca` of the entry block (LLVM promotes them to registers), a `Dispatch` is a `switch`, and `Goto` is a
direct jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from acronumba.emit import tree
from acronumba.emit.llvm_intrinsics import Intrinsics
from acronumba.emit.llvm_text import Declarations, Malformed, llvm_type, stored, suffix, symbol
from acronumba.emit.llvm_values import masked_has_align_argument
from acronumba.emit.tree import I64, VOID

VERSION = 1  # part of the key of every compiled module: count up when lowering changes


class _Lowering(Intrinsics):
    """Lowers one function, statement by statement, into `self.lines`."""

    def __init__(
        self, module: tree.Module, function: tree.Function, names: Mapping[str, tree.Function], outside: Declarations,
        numbers: dict[str, int],
    ) -> None:  # fmt: skip
        super().__init__(module, function, names, outside, numbers)
        self.loops: list[tuple[str, str]] = []  # (label of continue, label of break); a Dispatch puts (head, end)
        self.dispatch: list[tuple[tree.Dispatch, dict[int, str], str, int]] = []

    def run(self) -> str:
        """Return the text of the function."""
        f = self.function
        for p in f.params:
            self.line(f"store {llvm_type(p.type)} %p{self.slot(p)[1:]}, ptr {self.slot(p)}")
        self.body(f.body)
        if self.open:
            self.line("ret void" if f.result == VOID else f"ret {llvm_type(f.result)} zeroinitializer")
        params = ", ".join(f"{llvm_type(p.type)} %p{self.slot(p)[1:]}" for p in f.params)
        seen = "" if f.name in self.module.exports else "internal "
        mode = {"always": " alwaysinline", "never": " noinline", "auto": ""}[f.inline]
        if any(isinstance(x, tree.Dispatch) and x.entries is not None for x in f.body):
            mode += " optsize minsize"  # a large machine
        elif self.module.compact:
            mode += " optsize"
        name = symbol(self.numbers[f.name])
        head = f"define {seen}{llvm_type(f.result)} @{name}({params}) nounwind{mode} {{"
        return "\n".join([head, "entry:", *self.entry, "  br label %start", "start:", *self.lines, "}"])

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
        held = stored(type)
        if held != type:
            value = self.value(f"zext {llvm_type(type)} {value} to {llvm_type(held)}")
        align, name = max(1, held.bits // 8), llvm_type(held)
        if s.lanes_left is None:
            self.line(f"store {name} {value}, ptr {pointer}, align {align}")
            return
        mask = self.mask(s.lanes_left, held, hidden=held.kind != "f" and held.bits < 64)
        flags = f"<{held.lanes} x i1>"
        if masked_has_align_argument():
            f = self.outside.need(f"llvm.masked.store.{suffix(held)}.p0", "void", f"{name}, ptr, i32, {flags}")
            self.line(f"call void {f}({name} {value}, ptr {pointer}, i32 {align}, {flags} {mask})")
        else:
            f = self.outside.need(f"llvm.masked.store.{suffix(held)}.p0", "void", f"{name}, ptr, {flags}")
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


def function_texts(module: tree.Module) -> tuple[dict[str, str], dict[str, str]]:
    """Return two maps: LLVM text of the functions that entry points reach, by name; declarations, by symbol.

    Functions are in the order of their numbers: first the entry points, then the others in order of their first call.
    """
    outside = Declarations()
    names = {f.name: f for f in module.functions}
    if len(names) != len(module.functions):
        raise Malformed(f"{module.name}: two functions of one name")
    for name in module.exports:
        if name not in names:
            raise Malformed(f"{module.name}: no function {name!r} to export")
        if any(p.type != I64 for p in names[name].params):
            raise Malformed(f"{module.name}.{name}: an entry point takes i64 only")
    numbers = {name: k for k, name in enumerate(module.exports)}
    lowered: dict[str, str] = {}
    while len(lowered) < len(numbers):  # each may reach others
        name = next(islice(numbers, len(lowered), None))
        lowered[name] = _Lowering(module, names[name], names, outside, numbers).run()
    return lowered, dict(sorted(outside.lines.items()))


def module_text(module: tree.Module) -> str:
    """Return the LLVM text of a module; its entry points can be found from outside, by `symbol` of their numbers.

    Parameters
    ----------
    module : tree.Module
        The functions. Names, of the module, of its functions and of their locals, have no part in the text.

    Raises
    ------
    Malformed
        If types disagree or a name is unknown.
    """
    functions, outside = function_texts(module)
    return "\n".join([*outside.values(), *functions.values(), ""])
