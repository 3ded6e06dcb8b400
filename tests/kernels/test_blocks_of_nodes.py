"""Kernels whose nodes have run-time extents of their own: any nodes may be one block."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from acronumba.emit import interpret, tree
from acronumba.emit.parse import parse_files
from acronumba.ir.spec import BLOCK, UNITS
from acronumba.runtime.state import STATE
from acronumba.strategy import DEFAULT, Strategy
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate
from tests.support.kernel_runs import compile_all, interpreted
from tests.support.ragged_kernels import APART, BLOCKS, lengths, nodes_of


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    runners = compile_all([*BLOCKS.values()], strategies=[Strategy(), APART])
    return {name: runners[2 * k : 2 * k + 2] for k, name in enumerate(BLOCKS)}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("apart", one_in(2, [False, True]))
def test_a_node_has_the_bits_that_it_has_alone(name: str, apart: bool, compiled: dict[str, Any]) -> None:
    spec, run = BLOCKS[name], compiled[name][apart]
    each = lengths(spec, 30)
    rows, shared = nodes_of(spec, each)
    alone = [[x[0] for x in run([row], shared, each=[own])[0]] for row, own in zip(rows, each, strict=True)]
    for i in (1, 15):
        for mine, expected in zip(alone[i], evaluate(spec, rows[i], shared, each[i]), strict=True):
            assert close(mine, expected)
    shared_out = [{"units": 3}, {"parts": [(0, 9), (9, 10), (10, 30)], "units": 7}] if name != "by_matrices" else []
    for how in ({}, {"parts": [(0, 9), (9, 10), (10, 30)]}, {"poison": 127}, *shared_out):
        results, _ = run(rows, shared, each=each, **how)
        for k, found in enumerate(results):
            for i, x in enumerate(found):
                assert x.tobytes() == alone[i][k].tobytes(), (how, i, each[i], k)


@pytest.mark.parametrize("name", one_in(3, BLOCKS))
def test_the_interpreter_gives_the_same(name: str, compiled: dict[str, Any]) -> None:
    spec = BLOCKS[name]
    each = lengths(spec, 2 if name == "by_matrices" else 5)
    rows, shared = nodes_of(spec, each)
    mine, _ = interpreted(spec)(rows, shared, each=each, units=2)
    theirs, _ = compiled[name][0](rows, shared, each=each)
    for one, other in zip(mine, theirs, strict=True):
        assert [x.tobytes() for x in one] == [x.tobytes() for x in other]


def test_a_block_has_no_more_rows_than_caches_keep() -> None:
    """The weights of `sentence` are read once for 48 rows of any sentences, not once for each sentence."""
    spec = BLOCKS["sentence"]
    runner = compile_all([spec])[0]
    begun: list[tuple[int, int]] = []
    each = [(n,) for n in (10, 20, 18, 1, 47, 1, 100, 3, 0, 0)]
    rows, shared = nodes_of(spec, each)

    class Noting(type(runner)):  # type: ignore[misc]
        def call(self, memory: Any, name: str, *args: int) -> Any:
            out = super().call(memory, name, *args)
            if name == "begin":
                begun.append((args[1], out))
            return out

    Noting(runner.spec, runner.code, runner.compiled, runner.tiles, runner.keep)(rows, shared, each=each, units=1)
    assert begun == [(0, 3), (3, 5), (5, 6), (6, 7), (7, 10)]
    assert DEFAULT.rows == 48


def test_what_a_block_needs_is_bounded() -> None:
    runner = compile_all([BLOCKS["attended"]])[0]
    out = np.zeros(8, np.int64)

    def scratch(n: int) -> int:
        extents = np.array([n], np.int64)
        runner.call(None, "plan", extents.ctypes.data, out.ctypes.data)
        return int(out[0])

    least = DEFAULT.ragged_bytes
    assert least < scratch(1) < least + (1 << 17)
    assert scratch(1 << 16) < (1 << 16) * 1000


# ---- cuts


def cuts_of(
    times: list[int], units: list[int] | None, parts: int, threads: int, borders: tuple[int, ...] = ()
) -> list[int]:
    """Return how the library cuts nodes that take so many nanoseconds and are so many units, in blocks."""
    module = tree.Module("cuts", parse_files([f"acronumba.runtime.library.{n}" for n in ("extents", "cuts")]), ())
    memory = interpret.InterpreterMemory()
    bounds = [0, *borders, len(times)]
    stride = 8 * (BLOCK.count + UNITS.count)
    blocks = np.zeros((len(bounds) - 1, stride // 8), np.int64)
    firsts, out, st = np.zeros(len(bounds), np.int64), np.full(parts + 1, -1, np.int64), np.zeros(STATE.count, np.int64)
    keep = [blocks, firsts, out, st]
    for k, (low, high) in enumerate(itertools.pairwise(bounds)):
        blocks[k, BLOCK.at["first"]], blocks[k, BLOCK.at["last"]] = low, high
        at = np.cumsum([0, *times[low:high]]).astype(np.int64)
        starts = np.cumsum([0, *units[low:high]]).astype(np.int64) if units is not None else None
        keep += [at] if starts is None else [at, starts]
        blocks[k, BLOCK.count + UNITS.at["times"]] = at.ctypes.data
        blocks[k, BLOCK.count + UNITS.at["starts"]] = 0 if starts is None else starts.ctypes.data
        firsts[k + 1] = firsts[k] + (high - low if starts is None else starts[-1])
    for array in keep:
        memory.add(array)
    words = {"threads": threads, "stride": stride, "cuts": out.ctypes.data, "firsts": firsts.ctypes.data}
    for name, word in words.items():
        st[STATE.at[name]] = word
    interpret.run(module, "cut_blocks", (st.ctypes.data, 0, blocks.ctypes.data, len(blocks), parts), memory)
    return out.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_complete_and_take_equal_times(seed: int) -> None:
    r = np.random.default_rng(seed)
    nodes = int(r.integers(1, 40))
    units = r.integers(0, 9, nodes)
    times = np.where(units > 0, units * r.integers(1, 1000, nodes), 0)
    threads = int(r.integers(1, 9))
    borders = tuple(np.sort(r.integers(0, nodes + 1, seed % 4)).tolist())
    for parts in {threads, 4 * threads, 3}:
        cuts = np.array(cuts_of(times.tolist(), units.tolist(), parts, threads, borders))
        assert cuts.tolist() == cuts_of(times.tolist(), units.tolist(), parts, threads)
        assert cuts[0] == 0 and cuts[-1] == units.sum() and (np.diff(cuts) >= 0).all()
        of_unit = np.repeat(times / np.maximum(units, 1), units)
        before = np.concatenate([[0.0], np.cumsum(of_unit)])
        if parts == 4 * threads:
            shares = np.repeat([4, 2, 1, 1], threads) / (8 * threads)
        else:
            shares = np.full(parts, 1 / parts)
        ends = np.cumsum(shares) * before[-1]
        longest = of_unit.max(initial=0.0)
        assert (np.abs(before[cuts[1:]] - ends) <= longest + 1e-6 * before[-1] + parts).all()


def test_nodes_that_are_units_are_not_cut() -> None:
    assert cuts_of([5, 5, 5, 5], None, 2, 2) == [0, 2, 4]
    assert cuts_of([100, 1, 1, 1], None, 2, 2) == [0, 0, 4]
    assert cuts_of([0, 0], None, 3, 3) == [0, 2, 2, 2]
