"""`Model.values`: what a line of the source computed, for each instance of a batched run.

In: a model, a mini-batch, and a line or the name of a variable. Out: for each instance the arrays that the line
computed, in order. The program is compiled once more, with the results of the line's operations stored in memory.
"""

from __future__ import annotations

import ast
import os
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from acronumba.api.dispatch import specialise
from acronumba.api.results import Results
from acronumba.errors import InstanceErrors, Loc, file_title
from acronumba.errors.codes import reject
from acronumba.frontend.advice import near
from acronumba.ir import nodes as ir
from acronumba.ir.graph import loops
from acronumba.ir.source import functions_of
from acronumba.memory import Array
from acronumba.pipeline.slices import memory_rejected
from acronumba.runtime.doubles import results_of

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.api.model import Model
    from acronumba.pipeline.compiled import Compiled

# Each instance has nodes of its own, in the order of its source, and all of them are in memory at the end.
STORED = {"equal": False, "recycle": False, "parts": False, "hoist": False, "forkjoin": False}


def values(model: Model, call: Call, at: int | str) -> Results[list[Array]]:
    """Return the arrays that a line, or the lines that assign a name, computed; see `Model.values`."""
    from acronumba.api.specialisations import Cache

    own = model._like(model.options.replace(**STORED))._share(Cache())  # type: ignore[arg-type]
    compiled, leaves, packed = specialise(own, call)
    assert packed is not None
    found = _operations(compiled, at)
    with memory_rejected():
        run = compiled.run(packed, leaves, on=compiled.storing(frozenset(found)))
    out: list[list[Array]] = [[] for _ in range(call.count)]
    for instance, spec, row in run.stored():
        for v, (shape, elements) in zip(spec.results, results_of(spec, row), strict=True):
            op = spec.body[v - len(spec.operands)]
            if (op.loc, op.name) in found and instance not in run.errors:
                out[instance].append(elements.reshape(shape))
    errors = {**{k: compiled.site_error(failure) for k, failure in run.errors.items()}, **packed.errors}
    run.close()
    if errors:
        raise InstanceErrors(errors, [None if k in errors else arrays for k, arrays in enumerate(out)])
    return Results.of(out)


def _operations(compiled: Compiled, at: int | str) -> set[tuple[Loc, str]]:
    """Return the operations that compute the values of statements, and reject statements with none.

    An operation of a helper that a statement calls, and that is inlined, belongs to the statement.
    """
    statements, name = _statements(compiled, at)
    found: set[tuple[Loc, str]] = set()
    for function in compiled.program.functions:
        evaluations: dict[_Evaluation, list[_Op]] = defaultdict(list)
        around = loops(function.blocks)
        for k, block in enumerate(function.blocks):
            heads = [function.blocks[head].end.loc for head, body in around.items() if k in body]
            inside = {evaluation for head in heads for _, evaluation in _evaluations(head, statements)}
            for op in (i for i in block.instrs if isinstance(i, ir.Op)):
                for place, evaluation in _evaluations(op.loc, statements):
                    evaluations[evaluation].append(_Op(op, place, k, evaluation in inside))
        for (statement, _), ops in evaluations.items():
            found |= _values_of(statement, ops, name, at)
    if not found:
        file = compiled.fn.__code__.co_filename
        computed = sorted({op.loc.line for op in _ops(compiled.program) if op.loc.file == file})
        assigned = {name for _, _, text in functions_of(compiled.program)
                    for node in ast.walk(ast.parse(textwrap.dedent(text))) for name in _parts(node)[1]}  # fmt: skip
        meant = near(str(at), assigned)
        raise reject("ACR706", message=f"`at={at!r}`: no array is computed there in a batch",
                     seen="control flow, Python numbers, results of recursive calls, or no such line or name",
                     rewrite=f"{meant and f'{meant} Or '}one of the lines {', '.join(map(str, computed))}")  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement of the source."""

    file: str
    lines: range
    values: frozenset[_Range]  # the expressions that its value is one of
    alone: bool  # whether it assigns one name


_Range: TypeAlias = tuple[int, int, int, int]  # line, column, end line, end column
_Evaluation: TypeAlias = tuple[_Statement, tuple[Loc, ...]]  # a statement, and the calls that lead to it


@dataclass(frozen=True, slots=True)
class _Op:
    """An operation of a statement."""

    op: ir.Op
    place: Loc  # of the expression of the statement that it belongs to
    block: int
    repeated: bool  # whether the statement has a loop around it


def _evaluations(loc: Loc, statements: Sequence[_Statement]) -> Iterator[tuple[Loc, _Evaluation]]:
    """Yield the positions in statements among a position and its calls, each with the evaluation."""
    for k, place in enumerate(loc.path):
        for statement in statements:
            if place.file == statement.file and place.line in statement.lines:
                yield place, (statement, loc.path[k + 1 :])


def _values_of(statement: _Statement, ops: Sequence[_Op], name: str, at: int | str) -> set[tuple[Loc, str]]:
    """Return the operations whose results are the value of a statement; those named, if it assigns a name to some."""
    read = {a for o in ops for a in o.op.args if isinstance(a, ir.Var)}
    last = [o for o in ops if o.op.out not in read and _range(o.place) in statement.values]
    named = [o for o in ops if name and re.fullmatch(name if name == "v" else rf"{name}(_\d+)?", o.op.out.name)]
    chosen = named or last
    problem = "comes out of a loop in it" if any(o.repeated for o in chosen) else ""
    if not named and any(o.place is not o.op.loc for o in chosen):  # it may be of another line of the helper
        problem = "comes out of a function that it calls"
    if len({o.block for o in chosen}) < len(chosen) or (chosen and not (named or statement.alone)):
        problem = "is several arrays"
    if problem:
        raise reject("ACR706", chosen[0].place, message=f"`at={at!r}`: the value of this line {problem}",
                     rewrite="name one of its variables, or a line of the function or loop")  # fmt: skip
    return {(o.op.loc, o.op.out.name) for o in chosen}


def _range(loc: Loc) -> _Range:
    return loc.line, loc.column, loc.end_line, loc.end_column


def _ops(program: ir.Program) -> Iterator[ir.Op]:
    return (i for f in program.functions for b in f.blocks for i in b.instrs if isinstance(i, ir.Op))


def _statements(compiled: Compiled, at: int | str) -> tuple[list[_Statement], str]:
    """Return the statements that `at` stands for; and the name, if it is one."""
    file, line = compiled.fn.__code__.co_filename, at
    if isinstance(at, str):
        file, _, number = at.rpartition(":")
        line = int(number) if file and number.isdecimal() else 0
    out = []
    for path, first, text in functions_of(compiled.program):
        indent = len(text) - len(text.lstrip())
        for node in ast.walk(ast.parse(textwrap.dedent(text))):
            value, names = _parts(node)
            if value is None or not (at in names if not line else isinstance(node, ast.stmt)):
                continue
            end = value.end_lineno if isinstance(node, ast.If | ast.While | ast.For) else node.end_lineno  # type: ignore[attr-defined]
            lines = range(node.lineno + first - 1, (end or node.lineno) + first)  # type: ignore[attr-defined]
            if line and not (line in lines and file_title(path) in (file_title(file), os.path.basename(file))):
                continue
            ranges = {_range_of(part, first, indent) for part in (*_alternatives(value), node)}
            out.append(_Statement(path, lines, frozenset(ranges), len(names) < 2))
    return out, "" if line else str(at)


def _parts(node: ast.AST) -> tuple[ast.expr | None, list[str]]:
    """Return the value of a statement or named expression, and the names that it is assigned to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=value):
            targets = [target]
        case ast.NamedExpr(target=target, value=value):
            targets = [target]
        case ast.Return(value=value) | ast.Expr(value=value) | ast.If(test=value) | ast.While(test=value):
            targets = []
        case ast.For(iter=value):
            targets = []
        case _:
            return None, []
    return value, [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def _alternatives(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that the value of an expression is one of."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_alternatives(body), *_alternatives(orelse))
        case ast.BoolOp(values=values):
            yield from (part for inner in values for part in _alternatives(inner))
        case ast.NamedExpr(value=inner):
            yield from _alternatives(inner)
        case _:
            yield value


def _range_of(node: ast.AST, first: int, indent: int) -> _Range:
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    return start[0] + first - 1, start[1] + indent, end[0] + first - 1, end[1] + indent
