"""The data of the explorer: the compiled code and the trace of a mini-batch, as plain values for JSON.

In: an `Explored`. Out: a dict in the format of `schema.json`, which other viewers may read, too. A source position is
numbers: index into `files`, line from 1, columns in characters (`ast` counts bytes). -1 stands for none.
"""

from __future__ import annotations

import linecache
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from acronumba.config import VERSION
from acronumba.errors import Loc, file_title
from acronumba.ir.notes import KINDS
from acronumba.ir.spec import Use
from acronumba.memory import Array, native
from acronumba.runtime.trace import TraceData
from acronumba.views.explained import Block, Count, Explained
from acronumba.views.explorer.columns import Json, column
from acronumba.views.graphs import operands_of, result_shapes
from acronumba.views.words import letter

FORMAT = "acronumba.explorer/1"
MOST_NODES = 60_000  # that are in the data one by one; of more, whole instances are left out
MOST_LINES = 4_000  # of a stage
MOST_WAITS = 20_000
MOST_ERRORS = 200
MOST_WORDS = 400  # characters of a failure
MOST = (1 << 31) - 1  # a column holds 32 bits: bytes and nanoseconds of a batch count as that at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A stage of the compiler."""

    id: str  # "ir", "plan", "host", "cpu:3", "cuda:3", "analyses"
    title: str
    lines: Sequence[tuple[str, Loc | None, int]]  # text, place, number of the kernel or -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A mini-batch under one schedule."""

    name: str
    trace: TraceData
    bytes: Sequence[int]  # that each batch reads and writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """The data of the explorer's page."""

    model: str
    instances: int
    schedules: Sequence[Scheduled]  # the first one was executed
    options: Mapping[str, object]  # of the model
    runs: int = 1  # so often the mini-batch ran; the fastest is shown
    errors: Mapping[int, BaseException] = field(default_factory=dict)
    explained: Explained | None = None  # the compiler's decisions; without them, only the run is shown
    uses: Sequence[Sequence[Use]] = ()  # of each kernel
    sites: Array | None = None  # which of these recorded each node; None: known only where there is one
    texts: Sequence[Text] = ()


class Files:
    """Numbers of source files."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def place(self, loc: Loc | None) -> list[int]:
        """Return [file, line, column, end line, end column], columns in characters; [] for None."""
        if loc is None or not loc.line:
            return []
        start, end = _characters(loc.file, loc.line, loc.column), _characters(loc.file, loc.end_line, loc.end_column)
        return [self.of(loc.file), loc.line, start, loc.end_line, end]

    def line(self, loc: Loc | None) -> list[int]:
        """Return [file, line], or [-1, -1]."""
        return [self.of(loc.file), loc.line] if loc is not None and loc.line else [-1, -1]

    def of(self, name: str) -> int:
        return self.number.setdefault(name, len(self.number))


def _characters(file: str, line: int, column: int) -> int:
    return len(linecache.getline(file, line).encode()[:column].decode(errors="replace"))


def explorer_data(given: Explored) -> dict[str, Json]:
    """Return the data of the explorer, see `schema.json`."""
    files, trace = Files(), given.schedules[0].trace
    kept = _kept(trace)
    explained = given.explained
    waits = [[w.round, w.instance, *files.line(w.loc)] for w in trace.waits[:MOST_WAITS]]
    data: dict[str, Json] = {
        "schema": FORMAT,
        "made": {
            "acronumba": VERSION,
            "python": platform.python_version(),
            "processor": platform.machine(),
            "runs": given.runs,
            "options": {name: _plain(value) for name, value in given.options.items()},
        },
        "model": given.model,
        "summary": _summary(given, trace, len(kept)),
        "meanings": {name: kind.meaning for name, kind in KINDS.items()},
        "sources": _sources(explained, files),
        "kernels": _kernels(given, files),
        "texts": [_text(text, files) for text in given.texts],
        "nodes": _nodes(trace, kept, given),
        "schedules": [_schedule(s, trace, kept, bool(given.options.get("ragged", True))) for s in given.schedules],
        "waits": waits,
        "back": [[b.kernel, b.what, b.size] for b in trace.back],
        "options": [
            {"option": e.option, "value": str(e.value), **asdict(e.count)}
            for e in (explained.effects if explained else ())
        ],
        "now": asdict(explained.count if explained else _count(given)),
        "errors": {
            str(k): f"{type(e).__name__}: {e}"[:MOST_WORDS] for k, e in list(given.errors.items())[:MOST_ERRORS]
        },
    }
    return {**data, "files": list(map(file_title, files.number))}


def _plain(value: object) -> bool | int | float | str | None:
    return value if isinstance(value, bool | int | float | str | None) else getattr(value, "__name__", "a function")


def _summary(given: Explored, trace: TraceData, shown: int) -> dict[str, Json]:
    return {
        "instances": given.instances,
        "nodes": trace.nodes,
        "edges": len(trace.edges),
        "saved": len(trace.sharers),
        "shown": shown,
        "batches": len(trace.batches),
        "lower_bound": trace.lower_bound,
        "optimal": trace.optimal,
        "rounds": trace.rounds,
        "parts": trace.parts,
        "peak_bytes": trace.peak_bytes,
        "seconds": dict(trace.seconds),
        "schedule": given.schedules[0].name,
    }


def _count(given: Explored) -> Count:
    trace = given.schedules[0].trace
    return Count(
        schedule=given.schedules[0].name, nodes=trace.nodes, batches=len(trace.batches),
        lower_bound=trace.lower_bound, optimal=trace.optimal, launches=len(trace.batches),
        bytes=sum(given.schedules[0].bytes), product_flops=0, rounds=trace.rounds,
    )  # fmt: skip


def _sources(explained: Explained | None, files: Files) -> list[dict[str, Json]]:
    return [
        {
            "file": files.of(function.file),
            "first": function.lines[0].number,
            "lines": [line.text for line in function.lines],
            "remarks": [
                [line.number, r.kind, r.text, r.option, r.expression] for line in function.lines for r in line.remarks
            ],
        }
        for function in (explained.functions if explained else ())
        if function.lines
    ]


def _kernels(given: Explored, files: Files) -> list[dict[str, Json]]:
    trace = given.schedules[0].trace
    blocks = {b.name: b for b in (given.explained.blocks if given.explained else ())}
    nodes = np.bincount(native(trace.kernel), minlength=len(trace.specs))
    seconds: dict[str, float] = {}
    for b in trace.batches:
        seconds[b.kernel] = seconds.get(b.kernel, 0.0) + (b.seconds or 0.0)
    out = []
    for k, spec in enumerate(trace.specs):
        uses = given.uses[k] if k < len(given.uses) else ()
        block = blocks.get(spec.name)
        out.append(
            {
                "name": spec.name,
                **_block(block, k),
                "nodes": int(nodes[k]),
                "seconds": seconds.get(spec.name, 0.0),
                "shapes": list(result_shapes(spec)),
                "sites": [files.place(use.loc) for use in uses],
                "places": [files.place(loc) for loc in (block.places if block else ()) if loc.line],
            }
        )
    return out


def _block(block: Block | None, k: int) -> dict[str, Json]:
    """Return the explanation of a kernel; if it has none, a letter and empty fields."""
    if block is None:
        empty: dict[str, Json] = {key: [] for key in ("calls", "phases", "stages", "shared", "varying", "results")}
        return {**empty, "letter": letter(k), "expression": "", "batches": 0, "once": False}
    return {
        "letter": block.letter,
        "expression": block.expression,
        "calls": list(block.calls),
        "batches": block.batches,
        "phases": list(block.phases),
        "once": block.once,
        "stages": list(block.stages),
        "shared": list(block.shared),
        "varying": list(block.varying),
        "results": list(block.results),
    }


def _text(text: Text, files: Files) -> dict[str, Json]:
    lines: list[list[str | int]] = [[line, *files.line(loc), kernel] for line, loc, kernel in text.lines[:MOST_LINES]]
    if len(text.lines) > MOST_LINES:
        lines.append([f"... and {len(text.lines) - MOST_LINES:,} more lines", -1, -1, -1])
    return {"id": text.id, "title": text.title, "lines": lines}


def _kept(trace: TraceData) -> Array:
    """Return the nodes that the data list one by one: all, or those of as many first instances as fit."""
    if trace.nodes <= MOST_NODES:
        return np.arange(trace.nodes)
    whole = int(np.searchsorted(np.cumsum(np.bincount(native(trace.instance))), MOST_NODES, side="right"))
    takers = trace.takers
    return np.unique(takers[takers[:, 1] < max(whole, 1), 0])[:MOST_NODES]


def _nodes(trace: TraceData, kept: Array, given: Explored) -> dict[str, Json]:
    start, producers = operands_of(trace)
    number = np.full(trace.nodes, -1)
    number[kept] = np.arange(len(kept))
    counts = start[kept + 1] - start[kept]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    edges = np.repeat(start[kept] - offsets[:-1], native(counts)) + np.arange(offsets[-1])
    sharers = trace.sharers[number[trace.sharers[:, 0]] >= 0]
    only = np.array([0 if len(of) == 1 else -1 for of in given.uses] or [-1] * len(trace.specs), np.int64)
    sites = only[trace.kernel] if given.sites is None else given.sites
    return {
        "number": column(kept),
        "kernel": column(trace.kernel[kept]),
        "instance": column(trace.instance[kept]),
        "depth": column(trace.depth[kept]),
        "shared": column(number[sharers[:, 0]]),  # node shared[k] is taken by instance sharer[k], too
        "sharer": column(sharers[:, 1]),
        "operands": column(offsets),  # of node v: operand[operands[v]:operands[v + 1]]
        "operand": column(number[producers[edges]]),
        "place": column(sites[kept]),
    }


def _schedule(given: Scheduled, ran: TraceData, kept: Array, ragged: bool) -> dict[str, Json]:
    trace = given.trace
    alike = trace.nodes == ran.nodes and trace.kernels == ran.kernels
    alike = alike and bool((trace.kernel == ran.kernel).all() and (trace.instance == ran.instance).all())
    number = {name: k for k, name in reversed(list(enumerate(trace.kernels)))}
    return {
        "name": given.name,
        "lower_bound": trace.lower_bound,
        "optimal": trace.optimal,
        "rounds": trace.rounds,
        "batch": column(trace.batch[kept]) if alike else None,
        "kernel": column(number[b.kernel] for b in trace.batches),
        "size": column(b.size for b in trace.batches),
        "rows": column(b.rows for b in trace.batches),
        "phase": column(b.phase for b in trace.batches),
        "depth": column(b.depth for b in trace.batches),
        "round": column(b.round for b in trace.batches),
        "key": column(_keys(trace, number, ragged)),
        "nanoseconds": column(min(round((b.seconds or 0.0) * 1e9), MOST) for b in trace.batches),
        "bytes": column(min(n, MOST) for n in given.bytes),
    }


def _keys(trace: TraceData, number: Mapping[str, int], ragged: bool) -> Iterable[int]:
    """Yield a number for each batch: batches of one number could be one, if no node of one reads the other's."""
    known: dict[object, int] = {}
    for b in trace.batches:
        yield known.setdefault((number[b.kernel], () if ragged else b.extents), len(known))


def placed(text: str, places: Iterable[Loc], kernels: Mapping[str, int]) -> Iterator[tuple[str, Loc | None, int]]:
    """Yield the lines of an analysis, each with the source position and the kernel that it names: "encode line 15",
    "encode_15:".

    A line that names no function belongs to the only file with a source position at that line, if there is only one.
    """
    found: dict[tuple[str, int], Loc] = {}
    files: dict[int, set[str]] = {}
    for loc in places:
        found.setdefault((loc.function, loc.line), loc)
        found.setdefault(("", loc.line), loc)
        files.setdefault(loc.line, set()).add(loc.file)
    for line in text.removesuffix("\n").split("\n"):
        at = re.search(r"([\w.<>]*) ?\bline (\d+)", line)
        number = int(at[2]) if at else 0
        near = found.get(("", number)) if len(files.get(number, ())) == 1 else None
        name = re.match(r"\s*(\w+):", line)
        yield line, found.get((at[1], number), near) if at else None, kernels.get(name[1], -1) if name else -1
