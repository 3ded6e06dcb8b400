"""An explanation for the terminal: the user's source with remarks on each line, and the effect of each option.

In: an `Explained`. Out: a rich renderable that fits 80 columns, or plain text. On the left of a line are the letters of
the blocks that compute it and their phases; below it, the remarks of the analyses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from acronumba.config import OF_DEPTH
from acronumba.errors import file_title
from acronumba.ir.notes import KINDS
from acronumba.views.console import plain_text
from acronumba.views.explained import Block, Count, Explained, Remark, SourceFunction, SourceLine
from acronumba.views.report import bytes_text
from acronumba.views.words import counted

_ORDER = {kind: k for k, kind in enumerate(KINDS)}  # that remarks are shown in
_BLOCK = "bold yellow"
_MOST = 4  # remarks shown below a line, if they are not of more kinds


def explanation_view(e: Explained) -> RenderableType:
    """Return the whole explanation."""
    c = e.count
    bound = "proved optimal" if c.optimal else f"at least {c.lower_bound:,}"
    rounds = f", {counted(c.rounds, 'execution round')}" if c.rounds > 1 else ""
    head = Text(f"{e.model}: ", "bold").append(
        f"{counted(e.instances, 'instance')}, {counted(c.nodes, 'node')} in {counted(c.batches, 'batch')} "
        f"({bound}){rounds}",
        "bold",
    )
    parts: list[RenderableType] = [head]
    parts += _section("per-instance values", e.parameters)
    parts += _section("shared parameters", e.shared or ("none",))
    parts += _section("constants (another value compiles anew)", e.constants)
    parts += _listed("called, not inlined", e.recursive)
    parts += _source(e)
    parts += _legend(e)
    if e.blocks:
        parts += ["", Text("Static blocks: one kernel each, in order of execution", "bold")]
        parts += [_block(b) for b in e.blocks]
    parts += _effects(e)
    parts += _section("warnings", e.warnings)
    parts += _section("tuned", e.tuned)
    return Group(*parts)


def _source(e: Explained) -> list[RenderableType]:
    """Return the lines of all functions with the decisions about them."""
    parts: list[RenderableType] = []
    file = ""
    for function in e.functions:
        parts.append("")
        if function.file != file:
            file = function.file
            parts += [Text(_shown(file), "bold"), Text("block phase", "dim")]  # static blocks, program phases
        parts.append(_function(function))
    return parts


def source_text(e: Explained, width: int = 100) -> str:
    """Return the source lines with the decisions about them, as plain text."""
    return plain_text(Group(*_source(e)), width)


def explanation_text(e: Explained, width: int = 80) -> str:
    """Return the explanation as plain text, without a line break at its end."""
    return plain_text(explanation_view(e), width)


def _shown(file: str) -> str:
    """Return a path relative to the working directory if it is inside of it, else the file's name."""
    try:
        short = os.path.relpath(file)
    except ValueError:  # another drive
        return file_title(file)
    return file_title(file) if short.startswith("..") else short


def _grid(*widths: int | None) -> Table:
    """Return a table without lines; a column of width None takes the remaining width, and wraps."""
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    for width in widths:
        if width is None:
            table.add_column(overflow="fold", ratio=1)
        else:
            table.add_column(width=width, no_wrap=True)
    return table


def _section(title: str, lines: tuple[str, ...]) -> Iterator[RenderableType]:
    if lines:
        yield from ("", Text(f"{title}:", "bold"))
        table = _grid(0, None)
        for line in lines:
            table.add_row("", Text(line))
        yield table


def _listed(title: str, names: Sequence[str]) -> Iterator[RenderableType]:
    if names:
        yield from ("", Text(f"{title}: ", "bold").append(", ".join(names), "not bold"))


# --------------------------------------------------------------------------------------------------------------- lines


def _function(function: SourceFunction) -> Table:
    """Return the lines of a function in columns: blocks, phases, number, text."""
    code = "\n".join(line.text for line in function.lines)
    texts = Syntax(code, "python", theme="ansi_dark", background_color="default").highlight(code).split("\n")
    left = max(5, *(len(_listing(line.blocks)) for line in function.lines))
    right = max(5, *(len(_listing(line.phases)) for line in function.lines))
    table = _grid(left, right, len(str(function.lines[-1].number)), None)
    for line, text in zip(function.lines, texts, strict=False):
        number = Text(str(line.number), "dim")
        table.add_row(Text(_listing(line.blocks), _BLOCK), Text(_listing(line.phases), "dim"), number, text)
        for remark in _shortened(line):
            table.add_row("", "", "", remark)
    return table


def _listing(items: Sequence[object]) -> str:
    """Return "A B"; of many, the first and the last."""
    text = " ".join(map(str, items))
    return text if len(text) <= 9 else f"{items[0]}..{items[-1]}"


def _shortened(line: SourceLine) -> Iterator[Table]:
    """Yield the remarks of a line: the first of each kind, and more up to `_MOST`."""
    found = list(_merged(line))
    kinds = [kind for kind, _ in found]
    first = {kinds.index(kind) for kind in kinds}
    others = [k for k in range(len(found)) if k not in first]
    shown = first | set(others[: max(_MOST - len(first), 0)])
    for k in sorted(shown):
        yield _indented(found[k][1], line)
    if len(found) > len(shown):
        yield _indented(Text(f"... and {len(found) - len(shown)} more", "dim"), line)


def _merged(line: SourceLine) -> Iterator[tuple[str, Text]]:
    """Yield the remarks of a line with their kinds; equal remarks on several values are merged."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for remark in line.remarks:
        subject, predicate = _parts(remark)
        groups.setdefault((remark.kind, predicate), {})[subject] = None
    for (kind, predicate), subjects in sorted(groups.items(), key=lambda group: _ORDER[group[0][0]]):
        of = ", ".join(filter(None, subjects))
        said = predicate.removeprefix("is ")
        if of and said != predicate and KINDS[kind].meaning.startswith(said):
            said = of  # the legend says the rest
        elif len(subjects) > 1 and said != predicate:
            said = f"{of} ({said})"
        else:
            said = f"{of}{':' * (of != '' and said == predicate)} {predicate}".strip()
        yield kind, Text(f"{kind}: ", KINDS[kind].colour).append(said, "dim")


def _parts(remark: Remark) -> tuple[str, str]:
    """Return the subject and the predicate of a remark."""
    if sentence := re.match(r"(`[^`]*`|\S+) (is .*)", remark.text):
        return sentence[1], sentence[2]
    e = remark.expression
    silent = remark.kind in ("hoisted", "moved", "rows") and e not in remark.text and "`" not in remark.text
    return f"`{e}`" if silent and 0 < len(e) <= 32 else "", remark.text


def _indented(text: Text, line: SourceLine) -> Table:
    """Return text for below the line, indented like its code and wrapped."""
    indent = min(len(line.text) - len(line.text.lstrip()), 16)
    table = Table.grid(padding=0, expand=True)
    table.add_column(width=indent + 2, no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    table.add_row(Text(" " * indent + "^ ", "dim"), text)
    return table


def _legend(e: Explained) -> Iterator[RenderableType]:
    """Yield the legend of the marks that occur."""
    kinds = {r.kind for f in e.functions for line in f.lines for r in line.remarks}
    if kinds:
        yield ""
        table = _grid(10, None)
        for name, kind in KINDS.items():
            if name in kinds:
                table.add_row(Text(name, kind.colour), Text(kind.meaning, "dim"))
        yield table


# ---------------------------------------------------------------------------------------------------- blocks, effects


def _block(block: Block) -> Table:
    table = _grid(2, None)
    phases = f"phase{'s' * (len(block.phases) > 1)} {_listing(block.phases)}"
    used = f"{phases}, {counted(block.nodes, 'node')} in {counted(block.batches, 'batch')}"
    head = Text(f"{block.name}: ", "bold").append(
        used if block.nodes else "once per mini-batch" if block.once else "not used", ""
    )
    table.add_row(Text(block.letter, _BLOCK), head)
    for number, stage in enumerate(block.stages, 1):
        inner = _grid(8, None)
        inner.add_row(Text(f"stage {number}", "dim"), Text(stage))
        table.add_row("", inner)
    for call in block.calls[:_MOST]:
        table.add_row("", Text(call, "dim"))
    if len(block.calls) > _MOST:
        table.add_row("", Text(f"... and {len(block.calls) - _MOST} more calls", "dim"))
    for title, items in (("shared", block.shared), ("per node", block.varying), ("results", block.results)):
        if items:
            inner = _grid(8, None)
            inner.add_row(Text(title, "dim"), Text(", ".join(items)))
            table.add_row("", inner)
    return table


def _effects(e: Explained) -> Iterator[RenderableType]:
    """Yield a table of the mini-batch's counts with each option changed alone, compared with the present counts."""
    if not e.effects:
        return
    yield from ("", Text("With one option changed, this mini-batch would need", "bold"))
    table = _grid(1, 20, None)
    same: list[str] = []
    elsewhere: list[str] = []
    for effect in e.effects:
        name = f'"{effect.value}"' if isinstance(effect.value, str) else str(effect.value)
        setting = f"{effect.option}={name}"
        differences = list(_differences(effect.count, e.count))
        if differences:
            table.add_row("", Text(setting, "bold"), Text("; ".join(differences)))
        else:
            (elsewhere if effect.option in OF_DEPTH and e.count.schedule != "depth" else same).append(setting)
    if table.row_count:
        yield table
    yield from _listed("the same with", same)
    yield from _listed('the same, because only schedule="depth" uses them', elsewhere)


def _differences(changed: Count, now: Count) -> Iterator[str]:
    """Yield "18 batches instead of 61", and the same for each other count that differs: the changed one first."""
    if changed.rounds != now.rounds:
        yield f"{counted(changed.rounds, 'execution round')} instead of {now.rounds:,}"
    if changed.batches != now.batches:
        yield f"{counted(changed.batches, 'batch')} instead of {now.batches:,}"
    if changed.nodes != now.nodes:
        yield f"{counted(changed.nodes, 'node')} instead of {now.nodes:,}"
    elif changed.batches == now.batches and changed.launches != now.launches:
        yield f"{counted(changed.launches, 'kernel stage')} instead of {now.launches:,}"
    if changed.bytes != now.bytes:
        yield f"{bytes_text(changed.bytes)} moved instead of {bytes_text(now.bytes)}"
