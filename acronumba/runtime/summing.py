"""Sums over the nodes of a mini-batch: the gradients of shared tensors.

In: the addresses of the rows of each sum, in the order of recording. Out: the arrays of sums, computed by
`kernels.sums`, all in one run. See `analysis.backward.derive.ParameterGradient` for the kinds of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

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

_NAMES = {np.dtype(name): name for name in ("float32", "float64")}
_HEAD, _REST = (0,) * FIXED, (0,) * sums.MOST_WORDS


Key: TypeAlias = "int | tuple[int, int]"  # number of a shared tensor; or kernel and number of a value inside


class SumRows(NamedTuple):
    """The rows of a sum."""

    sum: SumOf
    many: int
    rows: Sequence[Words]  # of each part: addresses, or numbers


class Collected(NamedTuple):
    """The rows of all sums."""

    words: Words  # one part after the other
    address: int
    counts: Sequence[int]  # rows of each part,
    starts: Sequence[int]  # ... and where they begin

    def of(self, s: SumOf) -> SumRows:
        """Return the rows of a sum."""
        parts = range(s.first, s.first + s.parts)
        return SumRows(s, self.counts[s.first], [self.words[self.starts[k] :][: self.counts[k]] for k in parts])


class Form(NamedTuple):
    """A sum that is the same in every mini-batch but for its rows and where its total lies."""

    key: int  # number of the shared tensor that it is of; -1: it is of a value inside of a kernel,
    inner: tuple[int, int]  # ... which these are
    dtype: str
    first: int  # number of its first part
    function: str  # of `kernels.sums`: "outer", "columns" or "rows"
    tasks: int
    begin: int  # bytes from the start of the total
    whole: bool  # whether it writes all of the total
    flops: int  # of a row
    words: tuple[int, ...]  # those that do not change: columns, rows, bytes of a row, panels, each


def forms_of(found: Sequence[SumOf], plan: Plan, on: Target, threads: int) -> list[Form | None]:
    """Return the forms of sums; None for one whose jobs depend on more, see `Sums._jobs`."""
    return [_form_of(one, plan, on, threads) for one in found]


def _form_of(one: SumOf, plan: Plan, on: Target, threads: int) -> Form | None:
    term, spec = one.term, plan.kernels[one.kernel]
    inside = term.of >= len(spec.operands)
    shape: Sequence[Any] = spec.body[term.of - len(spec.operands)].shape if inside else spec.operands[term.of].shape
    if term.which >= 0 or term.row is not None or not all(isinstance(n, int) for n in shape):
        return None
    key = -1 if inside else spec.operands[term.of].index
    size, item = math.prod(shape), np.dtype(one.dtype).itemsize
    given = key, (one.kernel, term.of), one.dtype, one.first
    if term.kind == "sum":
        return Form(*given, "columns", -(-size // on.lanes(TYPES[one.dtype])), 0, True, size, (size,))
    if term.kind == "rows":
        return Form(*given, "rows", 0, 0, False, 0, (size // max(shape[0], 1), shape[0]))
    rows, columns = (
        n if isinstance(n := part.shape[-1], int) else every for part, every in zip(term.parts, shape, strict=True)
    )
    panels = sums.outer_panels(on, one.dtype, columns)
    each, tasks = sums.outer_shares(on, panels, rows, threads)
    step = shape[1] * item
    begin = term.start[0] * step + term.start[1] * item
    return Form(
        *given, "outer", tasks, begin, (rows, columns) == tuple(shape), rows * columns,
        (columns, rows, step, panels, each),
    )  # fmt: skip


class Job(NamedTuple):
    """A sum, cut into tasks that threads share."""

    dtype: str
    function: str  # of `kernels.sums`
    words: tuple[int, ...]
    tasks: int
    cost: int  # of a task
    total: Array  # the array that it adds to
    many: int  # rows that are added


_job = partial(tuple.__new__, Job)


class Sums:
    """The sums of a mini-batch.

    Parameters
    ----------
    kernels
        Backward kernels of the plan.
    prepared
        The shared values.
    totals, addresses
        Map from numbers of shared tensors to the arrays of their sums, still uninitialised; and where these lie.
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
        addresses: Mapping[int, int], code: Mapping[str, Compiled], on: Target, tables: Tables, threads: int,
    ) -> None:  # fmt: skip
        self.threads, self.addresses = threads, addresses
        self.kernels, self.prepared, self.totals, self.code, self.on = kernels, prepared, totals, code, on
        self.tables = tables
        self.inner: dict[tuple[int, int], Array] = {}
        self.reached: set[int] = set()
        self._blank: set[Key] = {k for k, g in totals.items() if g.size}  # sums that nothing has been written to
        self._hold: list[Any] = []  # arrays that jobs read
        self._clearing: list[Job] = []  # on a device, whose sums the CPU does not set to zeros

    def jobs(self, found: Collected, every: Sequence[SumOf], forms: Sequence[Form | None], heads: Words) -> list[Job]:
        """Return the jobs of all sums; sums without any row are set to zeros.

        `heads`: a row of HEAD for each shared tensor, with the adjoints of those that nodes read like any other value.
        """
        some = [k for k in heads[:, HEAD.at["key"]].nonzero()[0].tolist() if k in self.totals and self.totals[k].size]
        jobs = [self._columns(k, self.totals[k], heads[k : k + 1, HEAD.at["source"]].copy()) for k in some]
        counts, starts, at, blank, addresses = found.counts, found.starts, found.address, self._blank, self.addresses
        for one, form in zip(every, forms, strict=True):
            count = counts[one.first]
            if not count:
                continue
            if form is None or form.function == "rows":
                jobs += self._jobs(found.of(one))
                continue
            shared, inner, dtype, part, function, tasks, begin, whole, flops, words = form
            total = self.totals.get(shared) if shared >= 0 else self._inside(inner)
            if total is None or not total.size:
                continue
            key, to = (shared, addresses[shared] + begin) if shared >= 0 else (inner, address(total) + begin)
            first = whole and key in blank
            if first:
                blank.remove(key)
            elif key in blank:
                self._begun(key, total)
            rows = at + 8 * starts[part]
            if function == "outer":
                columns, height, step, panels, each = words
                left = at + 8 * starts[part + 1]
                job = left, rows, count, columns, height, to, step, first, panels, each
                jobs.append(_job((dtype, "outer", job, tasks, count * flops // (32 * (tasks or 1)), total, count)))
            else:
                jobs.append(_job((dtype, "columns", (rows, count, flops, to, first), tasks, count, total, count)))
        self.reached = self.totals.keys() - blank
        for k in self.totals.keys() & blank:
            self._begun(k, self.totals[k])
        return self._clearing + jobs

    def _inside(self, inner: tuple[int, int]) -> Array:
        """Return the sum of a value inside of a kernel."""
        if inner not in self.inner:
            op = self.kernels[inner[0]].body[inner[1] - len(self.kernels[inner[0]].operands)]
            shape: Any = op.shape
            self.inner[inner] = total = np.empty(shape, op.dtype)
            self._blank |= {inner} if total.size else set()
        return self.inner[inner]

    def _begun(self, key: Key, total: Array) -> None:
        """Make it possible to add to a sum."""
        if key in self._blank and self.on.warps:
            self._clearing.append(self._columns(key, total, np.zeros(0, np.int64)))
        elif self._is_first(key):
            total.fill(0)

    def _is_first(self, key: Key) -> bool:
        """Whether nothing has been written to a sum; from now on something has."""
        found = key in self._blank
        self._blank.discard(key)
        return found

    def _columns(self, key: Key, total: Array, rows: Words) -> Job:
        """Return the job of a sum of arrays of the shape of the total."""
        self._hold.append(rows)
        dtype, count = _NAMES[total.dtype], len(rows)
        job = address(rows), count, total.size, address(total), self._is_first(key)
        return Job(dtype, "columns", job, -(-total.size // self.on.lanes(TYPES[dtype])), count, total, count)

    def _jobs(self, found: SumRows) -> list[Job]:
        """Return the jobs of a sum that has no form."""
        term, dtype, count, rows = found.sum.term, found.sum.dtype, found.many, found.rows
        if term.which >= 0:
            return self._jobs_of_each(dtype, term, *rows)
        spec = self.kernels[found.sum.kernel]
        inside = term.of >= len(spec.operands)
        key: Key = (found.sum.kernel, term.of) if inside else spec.operands[term.of].index
        total = self.totals.get(key) if isinstance(key, int) else self._inside(key)
        if total is None or not total.size:
            return []
        if term.kind == "sum":
            return [self._columns(key, total, rows[0])]
        if term.kind == "rows":
            self._begun(key, total)
            numbers = rows[0]
            if isinstance(key, int) and key in self.tables.apart:
                numbers = self.tables.places(key, numbers, len(self.prepared.arrays[key]))
            return [self._table_rows(dtype, count, numbers, rows[1], total)]
        if term.row is None:
            return [self._outer(dtype, term, rows[0], rows[1], total, total, key)]
        self._begun(key, total)
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
                jobs.append(self._outer(dtype, term, left[mine], right[mine], total, total, k))
        return jobs

    def _outer(
        self, dtype: str, term: ParameterGradient, left: Words, right: Words, matrix: Array, total: Array, key: Key = -1
    ) -> Job:
        """Return the job of outer products; a run-time extent is that of the matrix.

        `matrix`: the array to add to, one of the matrices of `total`; or that itself, the sum of shared tensor `key`.
        """
        rows, columns = (
            size if isinstance(size := p.shape[-1], int) else all_of
            for p, all_of in zip(term.parts, matrix.shape, strict=True)
        )
        self._hold += left, right
        panels = sums.outer_panels(self.on, dtype, columns)
        first = (rows, columns) == matrix.shape and self._is_first(key)
        self._begun(key, total)
        step = matrix.strides[0] if matrix.shape[0] > 1 else matrix.shape[1] * matrix.itemsize
        where = address(matrix) + term.start[0] * step + term.start[1] * matrix.itemsize
        count, (each, tasks) = len(left), sums.outer_shares(self.on, panels, rows, self.threads)
        job = address(right), address(left), count, columns, rows, where, step, first, panels, each
        return Job(dtype, "outer", job, tasks, count * rows * columns // (32 * max(tasks, 1)), total, count)

    def _table_rows(self, dtype: str, count: int, numbers: Words, rows: Words, total: Array) -> Job:
        most, width = len(total), total.size // len(total)
        index = np.minimum(np.maximum(numbers, 0), most - 1)  # `clip` asks for the limits of int64 first
        block = np.empty(2 * count + most + 2, np.int64)
        at, order = address(index), address(block)
        starts, counts = order + 8 * count, order + 8 * (2 * count + 1)
        groups = self.code[dtype].call("sort_rows", at, count, order, starts, counts, most)
        self._hold += [index, block, rows]
        job = order, starts, at, address(rows), width, address(total)
        return Job(dtype, "rows", job, groups, width // 8 + 10, total, count)


def parameters(jobs: Sequence[Job]) -> Words:
    """Return a row of int64 for each job: the table P of its function."""
    return np.array([(*_HEAD, *job.words, *_REST[len(job.words) :]) for job in jobs], np.int64)


def numbers_of(records: Words, prepared: Prepared) -> Words:
    """Return the numbers of the shared tensors of value records."""
    return (records - prepared.records_at) // RECORD.size


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
