"""`Model.values`: what a line of the source computed, for each instance of a batched run.

In: a model, a mini-batch, and a line or the name of a variable. Out: for each instance the arrays that the line
computed, in order. The program is compiled once more, with the results of the line's operations stored in memory.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from acronumba.api.dispatch import specialise
from acronumba.api.results import Results
from acronumba.errors import InstanceErrors, Loc
from acronumba.errors.codes import reject
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
    """Return the operations that compute the values of lines, and reject lines with none.

    An operation of a helper that a line calls, and that is inlined, belongs to the line. The value of the line is what
    its outermost operation computes, of which no other operation of the line reads the result.
    """
    lines, name = _lines(compiled, at)  # which of them assign the name alone
    found: set[tuple[Loc, str]] = set()
    for function in compiled.program.functions:
        of_lines: dict[tuple[Loc, ...], list[_Op]] = defaultdict(list)  # by line and what called it
        around = loops(function.blocks)
        for k, block in enumerate(function.blocks):
            heads = [function.blocks[head].end.loc.path for head, body in around.items() if k in body]
            for op in (i for i in block.instrs if isinstance(i, ir.Op)):
                for place, evaluation in _evaluations(op.loc, lines):
                    repeated = any(evaluation in (e for _, e in _evaluations(head[0], lines)) for head in heads)
                    of_lines[evaluation].append(_Op(op, place, repeated))
        for (line, *_), ops in of_lines.items():
            found |= _outermost(ops, name, at, lines[line.file, line.line])
    if not found:
        file = compiled.fn.__code__.co_filename
        computed = sorted({op.loc.line for op in _ops(compiled.program) if op.loc.file == file})
        raise reject("ACR706", message=f"`at={at!r}`: no array is computed there in a batch",
                     seen="control flow, Python numbers, or no such line or name",
                     rewrite=f"one of the lines {', '.join(map(str, computed))}")  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class _Op:
    """An operation of a line."""

    op: ir.Op
    place: Loc  # of the expression of the line that it belongs to
    repeated: bool  # whether the line has a loop around it


def _evaluations(loc: Loc, lines: Mapping[tuple[str, int], bool]) -> Iterator[tuple[Loc, tuple[Loc, ...]]]:
    """Yield the positions on the lines among a position and its calls, each with the line and what called that."""
    for k, place in enumerate(loc.path):
        if (place.file, place.line) in lines:
            yield place, (replace(place, column=0, end_line=0, end_column=0, caller=None), *loc.path[k + 1 :])


def _outermost(ops: Sequence[_Op], name: str, at: int | str, alone: bool) -> set[tuple[Loc, str]]:
    """Return the operations whose results are the value of a line; those named, if it assigns a name to some."""
    read = {a for o in ops for a in o.op.args if isinstance(a, ir.Var)}
    places = {o.place for o in ops}
    last = [o for o in ops if o.op.out not in read and not any(_inside(o.place, other) for other in places)]
    named = [o for o in ops if name and re.fullmatch(name if name == "v" else rf"{name}(_\d+)?", o.op.out.name)]
    problem = "comes out of a loop in it" if any(o.repeated for o in named or last) else ""
    if problem or not (named or alone):
        place = (named or last or ops)[0].place
        problem = problem or "is not told from the others that it assigns"
        raise reject("ACR706", place, message=f"`at={at!r}`: the value of this line {problem}",
                     rewrite="name a line of the helper or loop, or one that reads the value")  # fmt: skip
    return {(o.op.loc, o.op.out.name) for o in named or last}


def _inside(a: Loc, b: Loc) -> bool:
    """Whether a range is a part of another one."""
    begin, end = (b.line, b.column), (b.end_line, b.end_column)
    return a != b and begin <= (a.line, a.column) and (a.end_line, a.end_column) <= end


def _ops(program: ir.Program) -> Iterator[ir.Op]:
    return (i for f in program.functions for b in f.blocks for i in b.instrs if isinstance(i, ir.Op))


def _lines(compiled: Compiled, at: int | str) -> tuple[dict[tuple[str, int], bool], str]:
    """Return the lines (file, number) that `at` stands for, with whether each has one value; and the name, if any."""
    own = compiled.fn.__code__.co_filename
    if isinstance(at, int):
        return {(own, at): True}, ""
    file, _, line = at.rpartition(":")
    if file and line.isdecimal():
        files = {op.loc.file for op in _ops(compiled.program)}
        return {(path, int(line)): True for path in files if Path(path).name == Path(file).name}, ""
    functions = functions_of(compiled.program)
    return {(f, k): one for f, first, text in functions for k, one in _assigned(at, first, text).items()}, at


def _assigned(name: str, first: int, text: str) -> dict[int, bool]:
    """Return the lines of the statements in a function's text that assign a name, and whether they assign it alone."""
    lines: dict[int, bool] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if name in names:
                rest = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                lines |= dict.fromkeys((first + line - 1 for line in rest), len(names) == 1)
    return lines
