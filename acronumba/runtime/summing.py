"""Sums over the nodes of a mini-batch: the gradients of shared tensors.

In: the addresses of the rows of each sum, in the order of recording. Out: the arrays of sums, computed by
`kernels.sums`, all in one run. See `analysis.backward.derive.ParameterGradient` for the kinds of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from acronumba.analysis.backward.derive import ParameterGradient
from acronumba.analysis.plan import Plan
from acronumba.data.words import RECORD
from acronumba.emit.compile import Compiled
from acronumba.emit.target import Target
from acronumba.ir.spec import FIXED, KernelSpec
from acronumba.kernels import sums
from acronumba.kernels.tiles import TYPES
from acronumba.memory import Array, Words, address
from acronumba.runtime.back_rows import SumOf
from acronumba.runtime.library.back_words import HEAD
from acronumba.runtime.shared import Prepared
from acronumba.runtime.tables import Rows, Tables, made_of, rows_in

WORDS = max(map(len, (sums.OUTER, sums.COLUMNS, sums.ROWS)))  # of a job


class SumRows(NamedTuple):
    """The rows of a sum."""

    sum: SumOf
    many: int
    rows: Sequence[Words]  # of each part: addresses, or numbers


class Job(NamedTuple):
    """A sum, cut into tasks that threads share."""

    dtype: str
    function: str  # of `kernels.sums`
    words: tuple[int, ...]
    tasks: int
    cost: int  # of a task
    total: Array  # the array that it adds to
    many: int  # rows that are added


class Sums:
    """The sums of a mini-batch.

    Parameters
    ----------
    kernels
        Backward kernels of the plan.
    prepared
        The shared values.
    totals
        Map from numbers of shared tensors to the arrays of their sums, still uninitialised.
    code, on
        Code of `kernels.sums`, by dtype; and the target that it was made for.
    tables
        Shared tensors whose gradients are returned by rows.
    threads
        Number of threads.

    Attributes
    ----------
    inner : dict
        Map from (kernel, number of a value) to the sum, for values that kernels compute from shared tensors alone.
    reached : set of int
        The numbers of the shared tensors with something to add, see `jobs`.
    """

    def __init__(
        self, kernels: Sequence[KernelSpec], prepared: Prepared, totals: Mapping[int, Array],
        code: Mapping[str, Compiled], on: Target, tables: Tables, threads: int,
    ) -> None:  # fmt: skip
        self.threads = threads
        self.kernels, self.prepared, self.totals, self.code, self.on = kernels, prepared, totals, code, on
        self.tables = tables
        self.inner: dict[tuple[int, int], Array] = {}
        self.reached: set[int] = set()
        self._blank = {id(g) for g in totals.values() if g.size}  # sums that nothing has been written to
        self._hold: list[Any] = []  # arrays that jobs read
        self._clearing: list[Job] = []  # on a device, whose sums the CPU does not set to zeros

    def jobs(self, found: Sequence[SumRows], heads: Words) -> list[Job]:
        """Return the jobs of all sums; sums without any row are set to zeros.

        `heads`: a row of HEAD for each shared tensor, with the adjoints of those that nodes read like any other value.
        """
        some = [k for k in np.flatnonzero(heads[:, HEAD.at["key"]]).tolist() if k in self.totals]
        jobs = [self._columns(self.totals[k], heads[k : k + 1, HEAD.at["source"]].copy()) for k in some]
        jobs += [job for one in found for job in self._jobs(one)]
        self.reached = {k for k, g in self.totals.items() if id(g) not in self._blank}
        for g in self.totals.values():
            self._begun(g)
        return self._clearing + [job for job in jobs if job.total.size]

    def _begun(self, total: Array) -> Array:
        """Return a sum that can be added to."""
        if id(total) in self._blank and self.on.warps:
            self._clearing.append(self._columns(total, np.zeros(0, np.int64)))
        elif self._is_first(total):
            total.fill(0)
        return total

    def _columns(self, total: Array, rows: Words) -> Job:
        """Return the job of a sum of arrays of the shape of the total."""
        self._hold.append(rows)
        dtype, count = total.dtype.name, len(rows)
        job = address(rows), count, total.size, address(total), self._is_first(total)
        return Job(dtype, "columns", job, -(-total.size // self.on.lanes(TYPES[dtype])), count, total, count)

    def _is_first(self, total: Array) -> bool:
        """Whether nothing has been written to a sum; from now on something has."""
        found = id(total) in self._blank
        self._blank.discard(id(total))
        return found

    def _jobs(self, found: SumRows) -> list[Job]:
        term, dtype, count, rows = found.sum.term, found.sum.dtype, found.many, found.rows
        if term.which >= 0:
            return self._jobs_of_each(dtype, term, *rows)
        spec = self.kernels[found.sum.kernel]
        first = len(spec.operands)
        of = spec.operands[term.of].index if term.of < first else -1
        if of >= 0:
            total = self.totals.get(of)
        else:
            op = spec.body[term.of - first]
            if (found.sum.kernel, term.of) not in self.inner:
                self.inner[found.sum.kernel, term.of] = total = np.empty(op.shape, op.dtype)  # type: ignore[arg-type]
                self._blank |= {id(total)} if total.size else set()
            total = self.inner[found.sum.kernel, term.of]
        if total is None or not total.size:
            return []
        if term.kind == "sum":
            return [self._columns(total, rows[0])]
        if term.kind == "rows":
            numbers = rows[0]
            if of in self.tables.apart:
                numbers = self.tables.places(of, numbers, len(self.prepared.arrays[of]))
            return self._table_rows(dtype, count, numbers, rows[1], self._begun(total))
        if term.row is None:
            return [self._outer(dtype, term, rows[0], rows[1], total, total)]
        self._begun(total)
        numbers = np.clip(rows[2], 0, len(total) - 1)
        groups = ((total[m], np.flatnonzero(numbers == m)) for m in np.unique(numbers).tolist())
        return [self._outer(dtype, term, rows[0][mine], rows[1][mine], matrix, total) for matrix, mine in groups]

    def _jobs_of_each(
        self, dtype: str, term: ParameterGradient, left: Words, right: Words, records: Words
    ) -> list[Job]:
        """Return the jobs of outer products, one for each shared tensor that is the matrix of some nodes."""
        numbers = numbers_of(records, self.prepared)
        jobs = []
        for k, total in self.totals.items():
            mine = np.flatnonzero(numbers == k)
            if len(mine) and total.size:
                jobs.append(self._outer(dtype, term, left[mine], right[mine], total, total))
        return jobs

    def _outer(
        self, dtype: str, term: ParameterGradient, left: Words, right: Words, matrix: Array, total: Array
    ) -> Job:
        """Return the job of outer products; a run-time extent is that of the matrix.

        `matrix`: the array to add to, which may be one of the matrices of `total`.
        """
        rows, columns = (
            size if isinstance(size := p.shape[-1], int) else all_of
            for p, all_of in zip(term.parts, matrix.shape, strict=True)
        )
        self._hold += left, right
        panels = sums.outer_panels(self.on, dtype, columns)
        first = (rows, columns) == matrix.shape and self._is_first(matrix)
        self._begun(matrix)
        step = matrix.strides[0] if matrix.shape[0] > 1 else matrix.shape[1] * matrix.itemsize
        where = address(matrix) + term.start[0] * step + term.start[1] * matrix.itemsize
        count, (each, tasks) = len(left), sums.outer_shares(self.on, panels, rows, self.threads)
        job = address(right), address(left), count, columns, rows, where, step, first, panels, each
        return Job(dtype, "outer", job, tasks, count * rows * columns // (32 * max(tasks, 1)), total, count)

    def _table_rows(self, dtype: str, count: int, numbers: Words, rows: Words, total: Array) -> list[Job]:
        most, width = len(total), total.size // len(total)
        index: Words = np.clip(numbers, 0, most - 1)
        order, starts, counts = np.empty(count, np.int64), np.empty(count + 1, np.int64), np.empty(most + 1, np.int64)
        groups = self.code[dtype].call(
            "sort_rows", address(index), count, address(order), address(starts), address(counts), most
        )
        self._hold += [index, order, starts]
        job = *map(address, (order, starts, index, rows)), width, address(total)
        return [Job(dtype, "rows", job, groups, width // 8 + 10, total, count)]


def parameters(jobs: Sequence[Job]) -> Words:
    """Return a row of int64 for each job: the table P of its function."""
    out = np.zeros((len(jobs), FIXED + WORDS), np.int64)
    out[:, FIXED:] = [(*job.words, *(0,) * (WORDS - len(job.words))) for job in jobs]
    return out


def numbers_of(records: Words, prepared: Prepared) -> Words:
    """Return the numbers of the shared tensors of value records."""
    return (records - address(prepared.records)) // RECORD.size


def tables_of(
    wanted: Sequence[int], found: Sequence[SumRows], ordinary: Mapping[int, Rows], plan: Plan, prepared: Prepared
) -> Tables:
    """Return the tables whose gradients are returned by rows.

    Parameters
    ----------
    wanted
        Numbers of the tables.
    found
        All sums.
    ordinary
        Map from shared tensors that nodes read like any other value to the rows that they read.
    plan, prepared
        The plan that was run, and its shared values.
    """
    read: dict[int, list[Rows]] = {k: [rows] for k, rows in ordinary.items()}
    dense = set(ordinary)
    for one in found:
        term, spec = one.sum.term, plan.kernels[one.sum.kernel]
        if term.which >= 0:
            parts: dict[int, Rows] = dict.fromkeys(numbers_of(one.rows[2], prepared).tolist())
        elif term.of >= len(spec.operands):  # it is pulled back to all that it is made of
            parts = rows_in(spec, term.of, prepared)
            dense.update(parts)
        else:
            k = spec.operands[term.of].index
            rows = one.rows[0] if term.kind == "rows" else one.rows[2] if term.row is not None else None
            parts = {k: None if rows is None else np.clip(rows, 0, len(prepared.arrays[k]) - 1)}
            dense |= set() if term.kind == "rows" else {k}
        for k, part in parts.items():
            read.setdefault(k, []).append(part)
    lengths = {k: a.shape[0] if a.ndim else -1 for k, a in prepared.arrays.items()}
    return Tables([k for k in wanted if lengths[k] >= 0], made_of(plan, prepared), read, dense, lengths)
