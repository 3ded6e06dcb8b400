"""`Model.explain`: the compiler's decisions, on the user's own source lines.

In: a specialisation and the trace of a mini-batch. Out: an `Explanation`: every compiled function, line by line, with
the blocks (kernels) that compute the line, their phases, and the findings of each analysis with reasons (`Plan.notes`);
then the blocks, and the effect of each option on this mini-batch (`effects`). Nothing is computed for it, unless the
model waits for values (`effects`). `views.explain` prints the explanation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api.effects import count
from acronumba.errors import Loc
from acronumba.ir.ops import shown_name
from acronumba.ir.source import functions_of, spanned
from acronumba.ir.spec import FAR, Dim, KernelSpec, Operand, Use
from acronumba.ir.types import type_text
from acronumba.kernels.account import expression_text, fusion_notes, stage_texts
from acronumba.pipeline.boundary import column_names
from acronumba.tuned import lines_of
from acronumba.views.explained import Block, Effect, Explained, Remark, SourceFunction, SourceLine
from acronumba.views.words import letter

if TYPE_CHECKING:
    from acronumba.ir.notes import Note
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData

_FEW_ITEMS = 8  # items of a dict or list of shared values that have a line each


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Explained):
    """The compiler's decisions. `str` and rich print it."""

    def __str__(self) -> str:
        from acronumba.views.explain import explanation_text

        return explanation_text(self)

    __repr__ = __str__

    def __rich__(self) -> Any:
        from acronumba.views.explain import explanation_view

        return explanation_view(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from acronumba.views.explain import source_text
        from acronumba.views.explorer.summary import preformatted, table_summary
        from acronumba.views.words import counted

        c = self.count
        words = f"{counted(self.instances, 'instance')}, {counted(c.nodes, 'node')} in {counted(c.batches, 'batch')}"
        rows = [(b.letter, b.name, "; ".join(b.stages), f"{b.nodes:,}", f"{b.batches:,}") for b in self.blocks]
        heads = ("", "kernel", "what it does", "nodes", "batches")
        source = preformatted(source_text(self))
        return {"text/plain": str(self), "text/html": source + table_summary(self.model, words, heads, rows)}

    def to_text(self, path: str | Path, width: int = 80) -> Path:
        """Write it as plain text; return the path."""
        from acronumba.views.explain import explanation_text

        Path(path).write_text(explanation_text(self, width) + "\n", encoding="utf-8")
        return Path(path)


def explanation(
    compiled: Compiled, trace: TraceData, instances: int, effects: tuple[Effect, ...], more: Sequence[Note] = (),
    remarks: Sequence[str] = (),
) -> Explanation:  # fmt: skip
    """Explain the compiler's decisions for a mini-batch, and their effect.

    Parameters
    ----------
    compiled
        The specialisation that was recorded.
    trace
        The trace of the mini-batch.
    instances : int
        Number of instances in the mini-batch.
    effects
        Effect of each option, see `effects.effects`.
    more
        Further notes, besides those of the plan.
    remarks
        Remarks on the model's calls so far, a line each.
    """
    program, options = compiled.program, compiled.options
    names = column_names(compiled.fn, compiled.tree.roots)
    blocks = _blocks(compiled, trace)
    return Explanation(
        model=compiled.fn.__qualname__,
        instances=instances,
        parameters=tuple(f"{n}: {type_text(t)}" for n, t in zip(names, program.params, strict=False)),
        shared=_shared_texts((s.path, type_text(s.type)) for s in program.shared),
        constants=tuple(compiled.guard.constants()),
        recursive=tuple(f.name for f in program.functions[1:]),
        functions=_functions(compiled, blocks, trace, more),
        blocks=blocks,
        effects=effects,
        warnings=(*program.warnings, *remarks),
        count=count(trace, options),
        tuned=lines_of(compiled.fn, instances),
    )


# -------------------------------------------------------------------------------------------------------------- blocks


def _blocks(compiled: Compiled, trace: TraceData) -> tuple[Block, ...]:
    """Return the kernels in order of execution, with kernels that were not recorded last."""
    paths = [s.path for s in compiled.plan.program.shared]
    strategy, precision = compiled.options.decisions, compiled.options.precision
    used = list(dict.fromkeys(trace.kernel[trace.order].tolist()))
    order = [*used, *(k for k in range(len(trace.specs)) if k not in used)]
    once = {o.kernel for o in compiled.plan.program.once}
    out = []
    for number, k in enumerate(order):
        spec = trace.specs[k]
        mine = trace.kernel == k
        out.append(
            Block(
                letter=letter(number),
                name=spec.name,
                expression=expression_text(spec, strategy, paths=paths),
                calls=_calls(compiled.plan.uses[k]),
                places=tuple(dict.fromkeys(_places(spec, compiled.plan.uses[k]))),
                operations=tuple(shown_name(op.op, op.attrs) for op in spec.body),
                stages=stage_texts(spec, strategy, paths=paths, precision=precision),
                shared=tuple(_operand(o, paths[o.index]) for o in spec.operands if o.kind == "shared"),
                varying=tuple(_operand(o, o.name) for o in spec.operands if o.kind != "shared"),
                results=tuple(_value(spec, value) for value in spec.results),
                phases=tuple(np.unique(trace.phase[mine]).tolist()),
                nodes=int(mine.sum()),
                batches=len(set(trace.batch[mine].tolist())),
                once=k in once,
            )
        )
    return tuple(out)


def _places(spec: KernelSpec, uses: Sequence[Use]) -> Iterator[Loc]:
    """Yield the source positions where a kernel is recorded, then those of its operations."""
    yield from (use.loc for use in uses)
    operations = chain((loc for use in uses for loc, _ in use.operations), (op.loc for op in spec.body))
    yield from (loc for loc in operations if loc.line)


def _calls(uses: Sequence[Use]) -> tuple[str, ...]:
    """Return the calls through which a kernel is reached, without those of functions that are compiled separately."""
    return tuple(dict.fromkeys(call_text(use.loc) for use in uses if use.loc.caller is not None))


def call_text(loc: Loc) -> str:
    """Return "lstm, called from read line 69, from tag line 94"."""
    calls = ", ".join(f"from {call.function} line {call.line}" for call in loc.path[1:])
    return f"{loc.function}, called {calls}" if calls else loc.function


def _operand(o: Operand, name: str) -> str:
    return f"{name}: {_tensor(o.dtype, o.shape) if o.shape or o.kind in ('tensor', 'shared') else o.kind}"


def _value(spec: KernelSpec, k: int) -> str:
    op = spec.body[k - len(spec.operands)]
    return f"{op.name or op.op}: {_tensor(op.dtype, op.shape)}"


def _tensor(dtype: str, shape: tuple[int | Dim, ...]) -> str:
    return f"{dtype}[{', '.join('?' if isinstance(n, Dim) or n == FAR else str(n) for n in shape)}]"


# --------------------------------------------------------------------------------------------------------------- lines


def _functions(
    compiled: Compiled, blocks: Sequence[Block], trace: TraceData, more: Sequence[Note]
) -> tuple[SourceFunction, ...]:
    """Return the source of every compiled function, with blocks and remarks; the model's file first."""
    letters: dict[tuple[str, int], list[Block]] = defaultdict(list)
    for block in blocks:
        for place in dict.fromkeys((p.file, p.line) for p in block.places):
            letters[place].append(block)
    remarks = _remarks(compiled, trace, more)
    home = compiled.fn.__code__.co_filename
    out = []
    for file, first, text in sorted(functions_of(compiled.program), key=lambda f: (f[0] != home, f[0], f[1])):
        lines = []
        for number, line in enumerate(text.removesuffix("\n").split("\n"), first):
            here = letters[file, number]
            lines.append(
                SourceLine(
                    number=number,
                    text=line.rstrip(),
                    blocks=tuple(b.letter for b in here),
                    phases=tuple(sorted({phase for b in here for phase in b.phases})),
                    remarks=remarks.get((file, number), ()),
                )
            )
        out.append(SourceFunction(file=file, lines=tuple(lines)))
    return tuple(out)


def _remarks(compiled: Compiled, trace: TraceData, more: Sequence[Note]) -> dict[tuple[str, int], tuple[Remark, ...]]:
    """Map each source line to its remarks from left to right, without repetition; waits have their rounds."""
    waits: dict[Loc, list[int]] = defaultdict(list)
    for wait in trace.waits:
        waits[wait.loc].append(wait.round)
    notes: dict[tuple[str, int], list[Note]] = defaultdict(list)
    paths, strategy = [s.path for s in compiled.plan.program.shared], compiled.options.decisions
    precision = compiled.options.precision
    fused = (fusion_notes(spec, strategy, paths=paths, precision=precision) for spec in compiled.plan.kernels)
    for note in chain(compiled.lowered.notes, compiled.plan.notes, *fused, more):
        notes[note.loc.file, note.loc.line].append(note)
    made: dict[tuple[str, int], dict[Remark, None]] = defaultdict(dict)
    for place, here in notes.items():
        for note in sorted(here, key=lambda n: n.loc.column):
            cost = ""
            if note.kind == "wait":
                rounds = waits[note.loc]
                cost = f": {len(rounds):,} times, in {len(set(rounds)):,} of {trace.rounds:,} execution rounds"
            remark = Remark(
                kind=note.kind,
                text=note.text + cost,
                option=note.option,
                expression=spanned(note.loc),
                column=note.loc.column,
            )
            made[place][remark] = None
    for loc, kind, read in _reads(compiled):
        place = loc.file, loc.line
        if not any(note.kind == kind for note in notes[place]):
            text = ", ".join(f"`{path}`" for path in read)
            made[place][Remark(kind=kind, text=text, option="reuse", expression="", column=loc.column)] = None
    return {place: tuple(here) for place, here in made.items()}


def _reads(compiled: Compiled) -> Iterable[tuple[Loc, str, tuple[str, ...]]]:
    """Yield the shared tensors that kernels read at a line: as a whole ("shared"), or a row chosen by data ("row")."""
    paths = [s.path for s in compiled.plan.program.shared]
    found: dict[tuple[str, int, str], dict[str, None]] = defaultdict(dict)
    locs: dict[tuple[str, int, str], Loc] = {}
    for spec in compiled.plan.kernels:
        for op in spec.body:
            shared = [k for k in op.args if k < len(spec.operands) and spec.operands[k].kind == "shared"]
            row = op.op == "take" and shared[:1] == [op.args[0]]
            for k in shared:
                key = op.loc.file, op.loc.line, "row" if row else "shared"
                locs.setdefault(key, op.loc)
                found[key][paths[spec.operands[k].index]] = None
    for key, names in found.items():
        yield locs[key], key[2], tuple(names)


def _shared_texts(values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the paths and types of shared values; those of many items of a dict or list, all alike, as one."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, text in values:
        whole, _, item = path.rpartition("[")
        found.setdefault((whole if item else path, text), []).append(path)
    out = []
    for (whole, text), paths in found.items():
        many = len(paths) > _FEW_ITEMS
        out += [f"{whole}[...]: {text}, {len(paths)} times"] if many else [f"{path}: {text}" for path in paths]
    return tuple(out)
