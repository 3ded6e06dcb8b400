"""`Trace.lines`: the time of each line of the source, forward and backward.

In: a trace with the seconds of each batch. Out: `Lines`. A batch is one kernel; its seconds are divided among the lines
of the kernel's operations by their estimated work, and among the places where its nodes were recorded by their number.
"""

from __future__ import annotations

import linecache
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from acronumba.errors import Loc, file_title
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import KernelSpec, Size, Use
from acronumba.views.summary import Summarised, Summary

if TYPE_CHECKING:
    from acronumba.api.trace import Trace

_Line: TypeAlias = tuple[str, int]

SOME = 16  # in place of a length that was not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTime:
    """The time of a source line."""

    file: str
    line: int
    forward: float  # seconds
    backward: float

    @property
    def text(self) -> str:
        """The line."""
        return linecache.getline(self.file, self.line).strip()


class Lines(Sequence[LineTime], Summarised):
    """The times of all lines that kernels compute, the slowest first. Can be printed, and is a table in a notebook."""

    def __init__(self, model: str, lines: Sequence[LineTime]) -> None:
        self._model, self._lines = model, lines

    def __getitem__(self, index: int) -> LineTime:  # type: ignore[override]
        return self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def _summary(self) -> Summary:
        from acronumba.views.report import seconds_text

        whole = sum(t.forward + t.backward for t in self) or 1.0
        back = any(t.backward for t in self)
        rows = [
            (
                f"{file_title(t.file)}:{t.line}", f"{(t.forward + t.backward) / whole:.0%}", seconds_text(t.forward),
                *((seconds_text(t.backward),) if back else ()), t.text,
            )
            for t in self
        ]  # fmt: skip
        words = f"{seconds_text(sum(t.forward for t in self))} forward"
        words += f", {seconds_text(sum(t.backward for t in self))} backward" * back
        heads = ("line", "share", "forward", *(("backward",) if back else ()), "source")
        return Summary(self._model, words, heads, tuple(rows))

    def __str__(self) -> str:
        return str(self._summary())

    __repr__ = __str__


def lines(trace: Trace) -> Lines:
    """Return the times of the lines of a trace."""
    data = trace.data
    forward, backward = defaultdict[_Line, float](float), defaultdict[_Line, float](float)
    uses = trace.ran.compiled.plan.uses if trace.ran is not None else ()
    sites = None
    if trace.ran is not None and any(len({u.loc.line for u in of}) > 1 for of in uses):
        sites = trace.ran.sites(data)
    for number, batch in enumerate(data.batches):
        nodes = np.flatnonzero(data.batch == number)
        k = int(data.kernel[nodes[0]])
        spec, extents = data.specs[k], batch.extents[0][0] if batch.extents else ()
        for site, many in zip(*np.unique(sites[nodes], return_counts=True), strict=True) if sites is not None else ():
            of = _of_spec(spec, extents) if site == 0 else _of_use(uses[k][int(site)])
            _add(forward, of, (batch.seconds or 0.0) * int(many) / len(nodes))
        if sites is None:
            _add(forward, _of_spec(spec, extents), batch.seconds or 0.0)
    for record in data.back:
        if record.spec is not None:
            _add(backward, _of_spec(record.spec, ()), record.seconds or 0.0)
    found = [LineTime(file=f, line=n, forward=forward[f, n], backward=backward[f, n]) for f, n in {*forward, *backward}]
    return Lines(trace.model, sorted(found, key=lambda t: (-t.forward - t.backward, t.file, t.line)))


def _add(times: dict[_Line, float], work: Mapping[_Line, float], seconds: float) -> None:
    whole = sum(work.values())
    for line, part in work.items():
        times[line] += seconds * part / whole


def _of_use(use: Use) -> dict[_Line, float]:
    """Return the lines of a kernel at another place, where each operation counts alike."""
    out: dict[_Line, float] = defaultdict(float)
    for loc, _ in use.operations or ((use.loc, ""),):
        out[_line(loc)] += 1.0
    return out


def _of_spec(spec: KernelSpec, extents: Sequence[int]) -> dict[_Line, float]:
    """Return the lines of a kernel with their estimated work, in additions."""
    first, out = len(spec.operands), defaultdict[_Line, float](float)

    def size(n: Size) -> int:
        return n if isinstance(n, int) else extents[n.index] if n.index < len(extents) else SOME

    for op in spec.body:
        each = TENSORS[op.op].cost
        if op.op == "matmul":
            v = op.args[0]
            each = size((spec.operands[v].shape if v < first else spec.body[v - first].shape)[-1])
        if op.loc.file:
            out[_line(op.loc)] += math.prod(map(size, op.shape)) * each
    return {line: max(work, 1.0) for line, work in out.items()}


def _line(loc: Loc) -> _Line:
    return loc.file, loc.line
