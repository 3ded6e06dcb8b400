"""Tables of a derivative for compiled code: KERNEL, SOURCE, GIVE and PART (`runtime.library.back_words`).

In: a `BackwardPlan`. Out: `BackRows`, constant tables, and the list of sums over nodes (`SumOf`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from acronumba.analysis.backward.derive import AdjointOutput, Backward, ParameterGradient, RowBlock, Source
from acronumba.analysis.backward.program import BackwardPlan
from acronumba.data.words import RECORD
from acronumba.ir.reference import names_of_values
from acronumba.ir.spec import Dim, KernelSpec, Size
from acronumba.memory import Words, address
from acronumba.records import record
from acronumba.runtime.kernel_table import ways_of_rows
from acronumba.runtime.library import back_words as words

_WAYS = {"whole": words.OF_WHOLE, "row": words.OF_ROWS, "item": words.OF_ITEMS}
_KINDS = {"result": words.OF_RESULT, "adjoint": words.OF_ADJOINT, "backward": words.OF_BACKWARD}


@record(kw_only=True, eq=False)
class SumOf:
    """A sum over the nodes of a kernel."""

    kernel: int
    name: str
    term: ParameterGradient
    dtype: str
    first: int  # number of its first part, among those of all sums
    parts: int  # those of the term; the number of the matrix of a stack; the value record of a matrix: if there are


class BackRows:
    """The rows of the derivative of a plan.

    Parameters
    ----------
    back
        The derivative.
    adders
        Map from dtypes to the numbers of the kernels that add up adjoints.

    Attributes
    ----------
    table : int
        Address of the rows of KERNEL.
    sums : list of SumOf
        In the order of kernels.
    parts : int
        Number of parts of all sums.
    numbers_are_computed : bool
        Whether sums ask for numbers of rows that kernels may have computed.
    """

    def __init__(self, back: BackwardPlan, adders: dict[str, int]) -> None:
        self.back, self.adders = back, adders
        self._keep: list[Words] = []
        self.sums: list[SumOf] = []
        self.parts = 0
        self.numbers_are_computed = any(_reads_numbers(b) for b in back.kernels if b is not None)
        self.table = self._rows([self._kernel(k) for k in range(len(back.kernels))])

    def _rows(self, rows: Sequence[Sequence[int]]) -> int:
        """Return the address of a table of int64, which lives as long as this object."""
        array = np.array([x for row in rows for x in row] or [0], np.int64)
        self._keep.append(array)
        return address(array)

    def _extent(self, shape: Sequence[Size], factor: int = 1) -> list[int]:
        """Return a row of EXTENT for the product of extents and a factor."""
        dims = [n.index for n in shape if isinstance(n, Dim)]
        factor *= math.prod(n for n in shape if isinstance(n, int))
        return [factor, len(dims), self._rows([dims]) if dims else 0]

    def _kernel(self, k: int) -> list[int]:
        back = self.back.kernels[k]
        if back is None:
            spec = self.back.plan.kernels[k]
            none = self._rows([[-1] * len(spec.results)])
            return [0, -1, len(spec.results), none, 0, 0, 0, 0, 0, 0, *self._places(spec), 0, 0, 0, 0, 0]
        spec = back.forward
        own = [spec.body[v - len(spec.operands)].dtype for v in spec.results[: len(spec.results) - len(back.kept)]]
        read = _adjoints_read(back)
        adds = self._rows([[self.adders[d] if j in read else -1 for j, d in enumerate(own)]])
        number = self.back.number[k]
        args = self._rows([self._source(back, s) for s in back.arguments])
        gives = self._rows([self._give(back, g) for g in back.outputs])
        first = self.parts
        parts = self._rows([row for term in back.terms for row in self._sum(k, back, term)])
        results = len(self.back.specs[number].results) if number >= 0 else 0
        before = len(back.arguments) + spec.dims
        width, rows = 8 * (before + results + len(own)), 0
        if spec.rows is not None:  # behind it lies the stand-in for a row of the forward node
            given = sum(o.kind != "shared" for o in spec.operands)
            width += 8 * (2 * given + spec.dims) + RECORD.size * len(spec.results)
            ways = ways_of_rows(spec)
            self._keep.append(ways)
            rows = address(ways)
        return [
            1, number, len(own), adds, len(back.arguments), args, before, results, len(back.outputs), gives,
            *self._places(spec), width, rows, self.parts - first, parts, first,
        ]  # fmt: skip

    def _places(self, spec: KernelSpec) -> list[int]:
        args = sum(o.kind != "shared" for o in spec.operands)
        return [8 * (args + spec.dims), args]

    def _source(self, back: Backward, source: Source, size: int = 4) -> list[int]:
        """Return a row of SOURCE; `size`: bytes of an element."""
        if source.kind == "argument":
            o = next(o for o in back.forward.operands if o.kind != "shared" and o.index == source.number)
            kind = words.AS_NUMBER if o.kind not in ("tensor", "list") else words.OF_ARGUMENT
            return [kind, source.number, source.start * size, 0, 0, 0, 0]
        if source.row is None:
            return [_KINDS[source.kind], source.number, source.start * size, 0, 0, 0, 0]
        of, place, *_ = self._source(back, source.row, 8)
        table = next(o for o in back.forward.operands if o.kind == "shared" and o.index == source.number)
        width = math.prod(n for n in table.shape[1:] if isinstance(n, int)) * size
        return [words.OF_TABLE, source.number, source.start * size, of, place, width, int(table.shape[0])]  # type: ignore[arg-type]

    def _give(self, back: Backward, give: AdjointOutput) -> list[int]:
        o = back.forward.operands[give.operand]
        size = np.dtype(o.dtype).itemsize
        source = self._source(back, give.source, size)
        rows = back.forward.rows
        way = words.OF_WHOLE if rows is None else _WAYS[rows[o.index]]
        if o.kind == "list":
            return [*source, o.index, 1, way, 0, 0, *[0] * 7, *self._extent(o.shape[1:], size), 0, 0, 0, 0, 0, 0]
        how = words.PART_ALL if give.row is None else words.PART_AT if isinstance(give.row, int) else words.PART_BY
        at = give.row if isinstance(give.row, int) else 0
        row = self._source(back, give.row, 8) if isinstance(give.row, Source) else [0] * 7
        extents = (self._extent(give.shape, size), self._extent(o.shape[1:], size), self._extent(o.shape[:1]))
        return [*source, o.index, 0, way, how, at, *row, *(x for e in extents for x in e)]

    def _sum(self, k: int, back: Backward, term: ParameterGradient) -> list[list[int]]:
        """Return rows of PART of a sum over the nodes of a kernel."""
        rows = [self._part(back, term, part) for part in term.parts]
        each = () if term.kind == "sum" else term.parts[0].shape[:-1]
        if term.row is not None:  # one number for all rows of its node
            source = self._source(back, term.row.source, 8)
            rows.append([*source, *self._extent(each), 0, 0, 0, int(source[0] != words.AS_NUMBER)])
        if term.which >= 0:  # the value record of the matrix
            rows.append([words.AS_NUMBER, term.which, 0, 0, 0, 0, 0, *self._extent(each), 0, 0, 0, 0])
        name = f"{term.kind} {names_of_values(back.forward)[term.of]}"
        self.sums.append(
            SumOf(kernel=k, name=name, term=term, dtype=term.parts[-1].dtype, first=self.parts, parts=len(rows))
        )
        self.parts += len(rows)
        return rows

    def _part(self, back: Backward, term: ParameterGradient, part: RowBlock) -> list[int]:
        number, whole = part.dtype == "int64", term.kind == "sum"
        size = np.dtype(part.dtype).itemsize
        source = self._source(back, part.source, size)
        rows = () if whole else part.shape if number else part.shape[:-1]
        step = [8, 0, 0] if number else self._extent(() if whole else part.shape[-1:], size)
        return [*source, *self._extent(rows), *step, int(number and source[0] != words.AS_NUMBER)]


def _adjoints_read(back: Backward) -> set[int]:
    """Return the results whose adjoints the backward pass reads."""
    parts = [p for t in back.terms for p in (*t.parts, *(() if t.row is None else (t.row,)))]
    sources = [*back.arguments, *(g.source for g in back.outputs), *(p.source for p in parts)]
    return {s.number for s in sources if s.kind == "adjoint"}


def _reads_numbers(back: Backward) -> bool:
    """Whether sums over the nodes of a kernel ask for numbers of rows that some kernel may have computed."""
    parts = [p for t in back.terms for p in (*t.parts, *(() if t.row is None else (t.row,)))]
    found = [p.source for p in parts if p.dtype == "int64"]
    found += [p.source.row for p in parts if p.source.row is not None]
    given = {o.index for o in back.forward.operands if o.kind not in ("shared", "tensor", "list")}
    return any(s.kind != "argument" or s.number not in given for s in found)
