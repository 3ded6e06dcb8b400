"""A program as text: deterministic, in the grammar of `ir.nodes`.

In: a `Program`, before or after planning. Out: text for people and for golden files. The user's source line is printed
as a comment whenever it changes.
"""

from __future__ import annotations

import linecache
import os
from typing import NamedTuple, assert_never

from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.types import ListT, RefT, TensorT, type_text
from acronumba.ir.visit import writes


class Line(NamedTuple):
    """A line of text, with its source position and instruction."""

    text: str
    loc: Loc | None = None  # position in the user's source
    instr: ir.Instr | ir.End | None = None


def program_text(program: ir.Program) -> str:
    """Return the whole program as text: shared values, layouts, sites, functions."""
    return "\n".join(line.text for line in program_lines(program)).rstrip() + "\n"


def program_lines(program: ir.Program) -> list[Line]:
    """Return the lines of `program_text`."""
    params = ", ".join(map(type_text, program.params))
    lines = [Line(f"program {program.name}({params}) -> {type_text(program.result)}")]
    lines += [Line(f"warning {w}") for w in program.warnings]
    lines += [Line(f"shared {k} {p.path}: {type_text(p.type)}") for k, p in enumerate(program.shared)]
    lines += [Line(f"once {o.index} = kernel {o.kernel}") for o in program.once]
    lines += [Line(layout_text(k, s)) for k, s in enumerate(program.layouts)]
    lines += [
        Line(f"site {k} {s.error} {s.text!r} {_place(s.loc)}".rstrip(), s.loc) for k, s in enumerate(program.sites)
    ]
    for function in program.functions:
        lines += [Line(""), *function_lines(function, program)]
    return lines


def layout_text(number: int, layout: ir.StructLayout) -> str:
    """Return "layout 0 Tree: 1 word: int, 2 left: Tree | None"; the number before a field is its first word."""
    fields = ", ".join(f"{f.offset} {f.name}: {type_text(f.type)}" for f in layout.fields)
    return f"layout {number} {layout.cls.__qualname__}: {fields}".rstrip(": ")


def function_text(function: ir.Function, program: ir.Program | None = None) -> str:
    """Return one function as text; with the program, calls and shared operands are printed by name."""
    return "\n".join(line.text for line in function_lines(function, program))


def function_lines(function: ir.Function, program: ir.Program | None = None) -> list[Line]:
    """Return the lines of `function_text`."""
    params = ", ".join(f"{p.name}: {type_text(p.type)}" for p in function.params)
    results = ", ".join(map(type_text, function.results)) or "None"
    lines = [Line(f"def {function.name}({params}) -> {results}:", function.loc)]
    last: tuple[str, int] = ("", 0)
    for number, block in enumerate(function.blocks):
        label = f"{number:>2}: "
        for instr in (*block.instrs, block.end):
            if instr.loc.line and (instr.loc.file, instr.loc.line) != last:
                last = (instr.loc.file, instr.loc.line)
                lines.append(Line(f"    # {_place(instr.loc)}  {_source(instr.loc)}".rstrip(), instr.loc))
            lines.append(Line(label + _line(instr, program), instr.loc, instr))
            label = "    "
    return lines


def instr_text(instr: ir.Instr | ir.End, program: ir.Program | None = None) -> str:
    """Return one instruction as text, without the types of its results."""
    match instr:
        case ir.Const():
            right = repr(instr.value)
        case ir.Copy():
            right = f"copy {instr.src.name}"
        case ir.Scalar():
            right = " ".join([instr.op, ", ".join(a.name for a in instr.args)]) + _site(instr.site)
        case ir.IsNull():
            right = f"null {instr.ref.name}"
        case ir.ClassTag():
            right = f"tag {instr.ref.name}"
        case ir.IsMade():
            right = f"made {instr.ref.name}"
        case ir.Check():
            return f"check {instr.cond.name}{_site(instr.site)}{_given(instr.args)}"
        case ir.Load():
            right = f"load {instr.ref.name}.{instr.field}"
        case ir.New():
            right = f"{'copy of given' if instr.given else 'new'} {instr.cls.__name__}{_given(instr.args) or '()'}"
        case ir.Store():
            return f"store {instr.ref.name}.{instr.field} = {', '.join(a.name for a in instr.args) or '()'}"
        case ir.ListNew():
            right = f"list of {instr.count} [{', '.join(a.name for a in instr.args)}]"
        case ir.ListOp():
            right = f"{instr.op}{_given(instr.args)}"
        case ir.ExtentOf():
            right = f"extent {instr.tensor.name} {instr.axis}"
        case ir.Shared():
            right = f"shared {_shared(instr.index, program)}"
        case ir.Op():
            right = _op(instr, program)
        case ir.Emit():
            dims = f" dims {', '.join(d.name for d in instr.dims)}" if instr.dims else ""
            right = f"emit {instr.kernel}{_given(instr.args) or '()'}{dims}"
        case ir.Call():
            right = f"call {_callee(instr, program)}{_given(instr.args) or '()'}"
        case ir.Read():
            right = f"read {instr.tensor.name}"
        case ir.Spawn():
            to = f"{instr.into[0].name}[{instr.into[1].name}]" if instr.into else ", ".join(v.name for v in instr.outs)
            right = f"{_callee(instr, program)}{_given(instr.args) or '()'}"
            return f"spawn {to} = {right}" if to else f"spawn {right}"
        case ir.Join():
            right = "join"
        case ir.Jump():
            return f"jump {instr.block}"
        case ir.Branch():
            return f"branch {instr.cond.name} {instr.yes} {instr.no}"
        case ir.Return():
            return " ".join(["return", ", ".join(a.name for a in instr.args)]).rstrip()
        case ir.Fail():
            return f"fail{_site(instr.site)}{_given(instr.args)}"
        case _:
            assert_never(instr)
    left = ", ".join(v.name for v in writes(instr))
    return f"{left} = {right}" if left else right


def _line(instr: ir.Instr | ir.End, program: ir.Program | None) -> str:
    """Return an instruction with the types that its text does not show, in a second column."""
    text = instr_text(instr, program)
    match instr:
        case ir.Op():
            types = _tensor_text(instr.out, instr.shape)
        case ir.Emit():
            types = ", ".join(_tensor_text(v, s) for v, s in zip(instr.outs, instr.shapes, strict=True))
        case ir.Load() | ir.ListOp() | ir.Call() | ir.Join() | ir.Shared() | ir.ListNew() | ir.Copy():
            shown = (v for v in writes(instr) if isinstance(v.type, TensorT | ListT | RefT))
            types = ", ".join(type_text(v.type) for v in shown)
        case _:
            types = ""
    return f"{text:<48}  {types}".rstrip()


def _op(op: ir.Op, program: ir.Program | None) -> str:
    args = [_shared(a.index, program) if isinstance(a, ir.SharedArg) else a.name for a in op.args]
    inner = ", ".join([*args, *map(_static, op.attrs)])
    return f"{op.op}({inner}){_site(op.site)}"


def _callee(instr: ir.Call | ir.Spawn, program: ir.Program | None) -> str:
    return program.functions[instr.function].name if program else str(instr.function)


def _static(attr: object) -> str:
    match attr:
        case ir.Var():
            return attr.name
        case tuple():
            return "(" + ", ".join(map(_static, attr)) + ("," if len(attr) == 1 else "") + ")"
        case _:
            return repr(attr)


def _tensor_text(var: ir.Var, shape: tuple[ir.Extent, ...]) -> str:
    dtype = var.type.dtype if isinstance(var.type, TensorT) else type_text(var.type)
    return f"{dtype}[{', '.join(n.name if isinstance(n, ir.Var) else str(n) for n in shape)}]"


def _shared(index: int, program: ir.Program | None) -> str:
    return program.shared[index].path if program else f"shared[{index}]"


def _site(site: int) -> str:
    return f" site {site}" if site >= 0 else ""


def _given(args: tuple[ir.Var, ...]) -> str:
    return f"({', '.join(a.name for a in args)})" if args else ""


def _place(loc: Loc) -> str:
    return f"{os.path.basename(loc.file)}:{loc.line}" if loc.line else ""


def _source(loc: Loc) -> str:
    return linecache.getline(loc.file, loc.line).strip()
