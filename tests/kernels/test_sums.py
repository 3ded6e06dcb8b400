"""Sums over nodes: outer products, columns, rows of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.emit import interpret, target
from acronumba.emit.arithmetic import from_bf16, to_bf16
from acronumba.emit.compile import load
from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.kernels.cuda import generate
from acronumba.kernels.cuda import sums as cuda_sums
from acronumba.kernels.cuda.simulator import Simulator
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.tiles import TYPES
from acronumba.memory import address, aligned
from tests.support.chosen import one_in

RNG = np.random.default_rng(5)
WIDTHS = [512, 256, 128]


def pointers(rows: np.ndarray) -> np.ndarray:
    """Addresses of rows that do not lie one after the other; at least one word."""
    return np.array([address(rows) + k * rows.strides[0] for k in range(len(rows))] or [0], np.int64)


def spread(n: int, width: int, dtype: str) -> np.ndarray:
    return np.flip(RNG.standard_normal((n, width + 3)).astype(dtype)[:, :width], 0)


class Machine:
    """Runs the functions: as machine code, or in plain Python with checked memory."""

    def __init__(self, dtype: str, bits: int, *, compiled: bool = True, precision: str = "float32") -> None:
        with target.override(vector_bits=bits) as self.on:
            self.module = sums.module(dtype, self.on, precision)
            self.code = load([self.module])[0] if compiled else None
        self.dtype, self.memory = dtype, interpret.InterpreterMemory()
        if not compiled:
            self.memory.add_module(self.module)

    def __call__(self, name: str, job: dict[str, Any], tasks: list[tuple[int, int]]) -> None:
        given = [address(v) if isinstance(v, np.ndarray) else v for v in job.values()]
        words = np.array([0] * FIXED + given, np.int64)
        scratch = aligned(sums.outer_scratch(self.on))
        scratch[:] = 255  # NaN: what is there must not matter
        for low, high in tasks:
            self.call(name, [words, scratch, *job.values()], address(words), low, high, address(scratch))

    def call(self, name: str, reach: list[Any], *args: int) -> int:
        if self.code is not None:
            return self.code.call(name, *args)  # type: ignore[no-any-return]
        for array in reach:
            if isinstance(array, np.ndarray) and array.nbytes:
                self.memory.add(array)
        return interpret.run(self.module, name, list(args), memory=self.memory)  # type: ignore[return-value]


def outer(
    run: Machine, x: np.ndarray, g: np.ndarray, c: np.ndarray, first: bool, step: int = 99, threads: int = 1
) -> None:
    panels = sums.outer_panels(run.on, run.dtype, x.shape[1])
    each, tasks = sums.outer_shares(run.on, panels, g.shape[1], threads)
    job = {
        "x": pointers(x), "g": pointers(g), "count": len(x), "k": x.shape[1], "m": g.shape[1], "c": c,
        "step": c.strides[0], "first": int(first), "panels": panels,
        "each": each,
    }  # fmt: skip
    assert list(job) == sums.OUTER
    if run.code is None:
        for rows in (x, g):
            if rows.nbytes:
                run.memory.add(rows.base if rows.base is not None else rows)
    run("outer", job, [(k, min(k + step, tasks)) for k in range(0, tasks, step)])


SHAPES = [(0, 5, 3), (1, 1, 1), (3, 17, 4), (129, 16, 11), (260, 83, 6), (140, 200, 23), (2, 100, 1300)]


@pytest.mark.parametrize("dtype", one_in(2, ["float32", "float64"]))
@pytest.mark.parametrize("bits", one_in(2, WIDTHS))
def test_outer_products_add_up(bits: int, dtype: str) -> None:
    run = Machine(dtype, bits)
    for n, k, m in SHAPES:
        x, g = spread(n, k, dtype), spread(n, m, dtype)
        for first in (True, False):
            whole = RNG.standard_normal((m, k + 2)).astype(dtype)
            c, beside = whole[:, :k], whole[:, k:].copy()
            wanted = g.T.astype(np.float64) @ x.astype(np.float64) + (0 if first else c)
            outer(run, x, g, c, first)
            np.testing.assert_allclose(c, wanted, atol=2e-4 if dtype == "float32" else 1e-11)
            assert np.array_equal(whole[:, k:], beside)  # nothing else is written


def test_bits_depend_on_no_width_and_no_cut() -> None:
    x, g = spread(300, 101, "float32"), spread(300, 37, "float32")
    found = []
    for bits in WIDTHS:
        for step, threads in ((1, 1), (99, 1), (1, 3), (99, 16)):
            c = np.ones((37, 101), np.float32)
            outer(Machine("float32", bits), x, g, c, False, step, threads)
            found.append(c.tobytes())
    assert len(set(found)) == 1


def rounded(x: np.ndarray) -> np.ndarray:
    return from_bf16(to_bf16(x)).astype(np.float64)


def test_outer_products_in_bf16() -> None:
    for n, k, m in SHAPES:
        x, g = spread(n, k, "float32"), spread(n, m, "float32")
        for first in (True, False):
            before, found = RNG.standard_normal((m, k + 2)).astype(np.float32), []
            for bits, step, threads in ((512, 99, 1), (256, 1, 3), (128, 99, 16)):
                c = before.copy()
                outer(Machine("float32", bits, precision="bf16"), x, g, c[:, :k], first, step, threads)
                wanted = rounded(g).T @ rounded(x) + (0 if first else before[:, :k])
                np.testing.assert_allclose(c[:, :k], wanted, atol=2e-4)
                assert np.array_equal(c[:, k:], before[:, k:])
                found.append(c.tobytes())
            assert len(set(found)) == 1


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize(("n", "k", "m"), [(2, 18, 3), (130, 3, 12)])
def test_no_byte_beside_is_read_or_written(n: int, k: int, m: int, precision: str) -> None:
    run = Machine("float32", 128, compiled=False, precision=precision)
    x, g = (np.ascontiguousarray(spread(n, w, "float32")) for w in (k, m))
    c = np.zeros((m, k), np.float32)
    outer(run, x, g, c, True)
    np.testing.assert_allclose(c, g.T @ x if precision == "float32" else rounded(g).T @ rounded(x), atol=1e-4)


@pytest.mark.parametrize("bits", WIDTHS)
def test_columns_add_up(bits: int) -> None:
    run = Machine("float32", bits)
    for n, k in ((0, 3), (1, 1), (255, 40), (600, 17)):
        g, tasks = spread(n, k, "float32"), -(-k // run.on.lanes(TYPES["float32"]))
        for first in (True, False):
            c = np.full(k, 7, np.float32)
            job = {"g": pointers(g), "count": n, "k": k, "c": c, "first": int(first)}
            assert list(job) == sums.COLUMNS
            run("columns", job, [(t, t + 1) for t in range(tasks)])
            np.testing.assert_allclose(c, (0 if first else 7) + g.sum(0, dtype=np.float64), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_a_table_add_up(dtype: str) -> None:
    run = Machine(dtype, 256)
    for n, k, most in ((0, 3, 4), (1, 9, 1), (50, 5, 7), (40, 33, 500)):
        index, g = RNG.integers(0, most, n), spread(n, k, dtype)
        order, starts, counts = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(most + 1, np.int64)
        args = (index if n else order, order, starts, counts)
        at = [address(a) for a in args]
        groups = run.call("sort_rows", [], at[0], n, at[1], at[2], at[3], most)
        assert order[:n].tolist() == np.argsort(index, kind="stable").tolist()
        assert groups == len(np.unique(index))
        c = RNG.standard_normal((most, k)).astype(dtype)
        wanted = c.astype(np.float64)
        np.add.at(wanted, index, g)
        job = {"order": order, "starts": starts, "index": args[0], "g": pointers(g), "k": k, "c": c}
        assert list(job) == sums.ROWS
        run("rows", job, [(t, t + 1) for t in range(groups)])
        np.testing.assert_allclose(c, wanted, atol=1e-5 if dtype == "float32" else 1e-13)


class Launch:
    """Jobs that a kernel for GPUs does at once, in the simulator."""

    def __init__(self, dtype: str) -> None:
        self.code, self.memory, self.dtype = cuda_sums.code(dtype), interpret.InterpreterMemory(), dtype
        self.on = generate.WARP
        self.rows: list[list[int]] = []
        self.keep: list[Any] = []

    def place(self, array: np.ndarray) -> int:
        self.keep.append(array)
        if array.nbytes:
            self.memory.add(array if array.base is None else array.base)
        return address(array)

    def add(self, name: str, job: dict[str, Any], tasks: int) -> None:
        given = [self.place(v) if isinstance(v, np.ndarray) else v for v in job.values()]
        words = self.place(np.array([0] * FIXED + given, np.int64))
        first = self.rows[-1][0] if self.rows else 0
        self.rows.append([first + tasks, first, cuda_sums.FUNCTIONS.index(name), words])

    def run(self, blocks: int, seed: int) -> None:
        table = self.place(np.array(self.rows, np.int64))
        given = self.place(np.array([table, len(self.rows)], np.int64))
        gpu = Simulator(self.code.source, self.memory, seed)
        gpu.launch(self.code.entries[0], blocks, THREADS, given, self.rows[-1][0], 0, 0)


@pytest.mark.parametrize(
    ("dtype", "shapes"), one_in(2, [("float32", [(0, 5, 3), (130, 140, 6)]), ("float64", SHAPES[:4])])
)
def test_all_jobs_of_a_launch_on_a_gpu(dtype: str, shapes: Any) -> None:
    """The bits depend on no number of blocks, and on no order of threads."""
    tight: dict[str, Any] = {"atol": 2e-4 if dtype == "float32" else 1e-11}
    cases = [
        (spread(n, k, dtype), spread(n, m, dtype), RNG.standard_normal((m, k + 2)).astype(dtype)) for n, k, m in shapes
    ]
    index = np.array([3, 0, 3, 3, 5], np.int64)
    picked, order = spread(5, 37, dtype), np.argsort(index, kind="stable")
    starts = np.array([0, 1, 4, 5])
    found = []
    for blocks, seed in ((1, 0), (3, 1)):
        launch = Launch(dtype)
        totals = []
        for x, g, start in cases:
            for rows in (x, g):
                launch.place(rows)
            c, columns = start.copy(), np.full(g.shape[1], 7, dtype)
            panels = sums.outer_panels(launch.on, dtype, x.shape[1])
            each, tasks = sums.outer_shares(launch.on, panels, g.shape[1], 1)
            launch.add("outer", {
                "x": pointers(x), "g": pointers(g), "count": len(x), "k": x.shape[1], "m": g.shape[1], "c": c,
                "step": c.strides[0], "first": 0, "panels": panels, "each": each,
            }, tasks)  # fmt: skip
            job = {"g": pointers(g), "count": len(g), "k": g.shape[1], "c": columns, "first": 1}
            launch.add("columns", job, -(-g.shape[1] // 32))
            totals += [c, columns]
        table = np.ones((6, 37), dtype)
        launch.place(picked)
        job = {"order": order, "starts": starts, "index": index, "g": pointers(picked), "k": 37, "c": table}
        launch.add("rows", job, 3)
        launch.run(blocks, seed)
        found.append([*totals, table])
    for (x, g, start), c, columns in zip(cases, found[0][:-1:2], found[0][1:-1:2], strict=True):
        wanted = start[:, : x.shape[1]] + g.T.astype(np.float64) @ x.astype(np.float64)
        np.testing.assert_allclose(c[:, : x.shape[1]], wanted, **tight)
        assert np.array_equal(c[:, x.shape[1] :], start[:, x.shape[1] :])  # nothing else is written
        np.testing.assert_allclose(columns, g.sum(0, dtype=np.float64), **tight)
    wanted = np.ones((6, 37))
    np.add.at(wanted, index, picked)
    np.testing.assert_allclose(found[0][-1], wanted, **tight)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*found, strict=True))
