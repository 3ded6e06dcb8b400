"""The host machine: scalars, lists, rows, calls, failures and growth, compiled and in plain Python."""

from __future__ import annotations

import math
import os
import random
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from acronumba.analysis.plan import make_plan
from acronumba.config import Options
from acronumba.data.words import MADE
from acronumba.emit import text, tree
from acronumba.host.machine import generate
from acronumba.ir import nodes as n
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import BOOL, FLOAT, INT, ListT, TensorT, TupleT
from acronumba.pipeline.link import link
from acronumba.runtime import buffers as dfg
from acronumba.runtime import state
from acronumba.runtime.driver import Executable
from acronumba.runtime.memory_policy import TooLarge
from acronumba.runtime.recorded import Failure
from tests.support.hand import (
    F32,
    LAYOUT,
    REF,
    TREE,
    Hand,
    Tree,
    number,
    pack_trees,
    program,
    random_tree,
    read_tensor,
    straight,
    tree_lstm,
    tree_lstm_plain,
)
from tests.support.hand_runs import ENGINES, check, executable, weights, words

# ------------------------------------------------------------------------------------------------------- scalars

INTS = [
    0, 1, -1, 2, -2, 3, 7, -7, 62, 63, 64, 1 << 31, -(1 << 31), 3037000500, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-300, 5e-324, 1e300, -1e300, math.pi, 710.0, -745.5,
    0.1, 9.223372036854775e18, 9.223372036854776e18, -9.223372036854775e18, -9.223372036854776e18, -1e19,
    4503599627370497.5,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


def _scalar_cases() -> list[tuple[str, str]]:
    """(operation, kind of its arguments): i int, f float, b bool."""
    out = []
    for name, row in SCALARS.items():
        if name == "same" or "t" in row.args + row.result:  # references, strings: `frontend/test_strings.py`
            continue
        kinds = "if" if "a" in row.args else "ifb" if "x" in row.args else row.args[0]
        out += [(name, k) for k in kinds]
    return out


CASES = _scalar_cases()


def _scalar_program() -> n.Program:
    """Parameters: number of the case, two ints, two floats, two bools; results: an int, a float, a bool."""
    sites: list[n.Site] = []
    params = [("which", INT), ("x", INT), ("y", INT), ("u", FLOAT), ("v", FLOAT), ("p", BOOL), ("q", BOOL)]
    h = Hand("f", params, [INT, FLOAT, BOOL], sites)
    which, x, y, u, v, p, q = h.params
    number_ = 0
    for k, (name, kind) in enumerate(CASES):
        with h.block(number_):
            h.branch(h.scalar("eq", which, h.const(k)), number_ + 1, number_ + 2)
        with h.block(number_ + 1):
            row = SCALARS[name]
            args = {"i": (x, y), "f": (u, v), "b": (p, q)}[kind][: len(row.args)]
            if name == "select":
                args = (p, *{"i": (x, y), "f": (u, v), "b": (p, q)}[kind])
            r = h.scalar(name, *args)
            h.ret(*_fit(h, r))
        number_ += 2
    with h.block(number_):
        h.fail("ValueError", "no such case")
    return program([h], sites, [t for _, t in params], TupleT((INT, FLOAT, BOOL)))


def _fit(h: Hand, r: n.Var) -> tuple[n.Var, n.Var, n.Var]:
    return (
        r if r.type == INT else h.const(0),
        r if r.type == FLOAT else h.const(0.0),
        r if r.type == BOOL else h.const(False),
    )


def _expected(name: str, args: tuple[Any, ...]) -> Any:
    """Python's result, or None where the instance must fail."""
    try:
        value = SCALARS[name].reference(*args)
    except (ArithmeticError, ValueError, MemoryError):
        return None
    if name == "pow" and isinstance(args[0], int) and args[1] < 0:
        return None  # a float in Python: the front end rejects it
    if isinstance(value, complex) or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 63):
        return None
    return value


def _close(name: str, a: float, b: float) -> bool:
    if a != a or b != b:
        return a != a and b != b
    if name in ("hypot", "erf", "erfc", "asinh", "acosh", "atanh", "expm1", "log1p"):
        return a == b or abs(a - b) <= 2 * math.ulp(b)
    return struct.pack("d", a) == struct.pack("d", b)


@pytest.mark.parametrize("engine", ENGINES)
def test_scalars_are_pythons(engine: str) -> None:
    run = executable(_scalar_program(), engine)
    rng = random.Random(1)
    cases = []
    for k, (_name, kind) in enumerate(CASES):
        pool: list[Any] = {"i": INTS, "f": FLOATS, "b": [False, True]}[kind]
        pairs = [(a, b) for a in pool for b in pool]
        if engine == "interpreted":
            pairs = rng.sample(pairs, min(len(pairs), 12))
        cases += [(k, kind, a, b, c) for a, b in pairs for c in ([False, True] if _name == "select" else [False])]

    # Shifts and powers by huge numbers are not for Python.
    def sane(case: tuple[int, str, Any, Any, bool]) -> bool:
        name, kind = CASES[case[0]]
        return not (kind == "i" and name in ("pow", "lshift") and abs(case[3]) > 64 and abs(case[2]) > 1)

    cases = [c for c in cases if sane(c)]
    rows = []
    for k, kind, a, b, c in cases:
        ints, floats, bools = (0, 0), (0.0, 0.0), (c, False)
        if kind == "i":
            ints = (a, b)
        elif kind == "f":
            floats = (a, b)
        else:
            bools = (a, b)
        rows.append((k, *ints, *floats, *bools))
    done = run.run(words(rows))
    for k, (case, kind, a, b, c) in enumerate(cases):
        name = CASES[case][0]
        args = (a, b)[: len(SCALARS[name].args)]
        if name == "select":
            args = (a, a, b) if kind == "b" else (c, a, b)
        want = _expected(name, args)
        label = f"{name}{args}"
        if want is None:
            assert k in done.errors, label
            assert run.plan.program.sites[done.errors[k].site].text.startswith(name)
            continue
        assert k not in done.errors, label
        row = done.words[k]
        if isinstance(want, bool):
            assert bool(row[2]) == want, label
        elif isinstance(want, int):
            assert row[0] == want, label
        else:
            assert _close(name, number(row[1], FLOAT), want), label


def test_values_of_a_failure() -> None:
    p = straight(lambda f, x, y: f.scalar("floordiv", x, y), [("x", INT), ("y", INT)], [INT], INT)
    done = executable(p, "compiled").run(words([(7, 2), (7, 0), (-7, 2)]))
    assert done.errors == {1: Failure(site=0, values=(7, 0))}
    assert done.words[:, 0].tolist()[::2] == [3, -4]


# --------------------------------------------------------------------------------------------------------- lists


def _list_program() -> n.Program:
    """f(n): builds a list of pairs (int, float) through every operation; returns its contents folded to two numbers."""
    sites: list[n.Site] = []
    item = TupleT((INT, FLOAT))
    h = Hand("f", [("n", INT)], [INT, FLOAT, INT], sites)
    (count,) = h.params
    i, acc, total = h.var("i", INT), h.var("acc", INT), h.var("total", FLOAT)
    pair = [INT, FLOAT]
    with h.block(0):
        zero, one, half = h.const(0), h.const(1), h.const(0.5)
        xs = h.list_new(item)
        keys = h.list_new(FLOAT)
        h.copy(i, zero)
        h.copy(acc, zero)
        h.copy(total, h.const(0.0))
        h.jump(1)
    with h.block(1):
        h.branch(h.scalar("lt", i, count), 2, 3)
    with h.block(2):
        f = h.scalar("mul", h.scalar("float", h.scalar("mod", h.scalar("mul", i, h.const(7)), h.const(5))), half)
        h.list_op("append", xs, i, f, width=2)
        h.list_op("append", keys, f)
        h.copy(i, h.scalar("add", i, one))
        h.jump(1)
    with h.block(3):
        h.list_op("sort", xs, keys, h.const(False), width=2)
        h.list_op("insert", xs, zero, h.const(-1), h.const(8.0), width=2)
        h.list_op("insert", xs, h.list_op("len", xs, outs=[INT]), h.const(-2), h.const(9.0), width=2)
        two = h.const(2)
        length = h.list_op("len", xs, outs=[INT])
        odd = h.list_op("slice", xs, one, two, h.scalar("floordiv", length, two), outs=[ListT(item)], width=2)
        h.list_op("extend", odd, odd, width=2)
        h.list_op("reverse", odd, width=2)
        h.list_op("extend", xs, odd, width=2)
        full = h.list_op("fill", h.const(3), count, half, outs=[ListT(item)], width=2)
        h.list_op("set", full, one, h.const(100), h.const(0.25), width=2)
        h.list_op("extend", xs, full, width=2)
        a, b = h.list_op("pop", xs, one, outs=pair, width=2)
        h.list_op("append", xs, a, b, width=2)
        h.copy(i, zero)
        h.jump(4)
    with h.block(4):
        h.branch(h.scalar("lt", i, h.list_op("len", xs, outs=[INT])), 5, 6)
    with h.block(5):
        a, b = h.list_op("get", xs, i, outs=pair, width=2)
        h.copy(acc, h.scalar("mod", h.scalar("add", h.scalar("mul", acc, h.const(31)), a), h.const(1000003)))
        h.copy(total, h.scalar("add", h.scalar("mul", total, h.const(1.01)), b))
        h.copy(i, h.scalar("add", i, h.const(1)))
        h.jump(4)
    with h.block(6):
        h.ret(acc, total, h.list_op("len", xs, outs=[INT]))
    return program([h], sites, [INT], TupleT((INT, FLOAT, INT)))


def _list_plain(count: int) -> tuple[int, float, int]:
    xs = [(i, (i * 7 % 5) * 0.5) for i in range(count)]
    xs.sort(key=lambda x: x[1])
    xs.insert(0, (-1, 8.0))
    xs.insert(len(xs), (-2, 9.0))
    odd = xs[1::2][: len(xs) // 2]
    odd.extend(odd)
    odd.reverse()
    xs.extend(odd)
    full = [(count, 0.5)] * 3
    full[1] = (100, 0.25)
    xs.extend(full)
    xs.append(xs.pop(1))
    acc, total = 0, 0.0
    for a, b in xs:
        acc, total = (acc * 31 + a) % 1000003, total * 1.01 + b
    return acc, total, len(xs)


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_are_pythons(engine: str) -> None:
    counts = [0, 1, 2, 3, 8, 9, 17, 40] + ([1000, 3000] if engine == "compiled" else [])
    done = executable(_list_program(), engine).run(words([(c,) for c in counts]))
    assert not done.errors
    got = [(int(a), number(b, FLOAT), int(c)) for a, b, c in done.words]
    assert got == [_list_plain(c) for c in counts]


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(descending: bool) -> None:
    def make(f: Hand, *values: n.Var) -> tuple[n.Var, ...]:
        keys = f.list_new(INT, *values)
        xs = f.list_new(INT, *(f.const(k) for k in range(len(values))))
        f.list_op("sort", xs, keys, f.const(descending))
        return tuple(f.list_op("get", xs, f.const(k), outs=[INT]) for k in range(len(values)))

    size = 7
    p = straight(make, [(f"k{k}", INT) for k in range(size)], [INT] * size, TupleT((INT,) * size))
    rng = random.Random(3)
    rows = [[rng.randrange(-2, 3) for _ in range(size)] for _ in range(50)]
    done = executable(p, "compiled").run(words(rows))
    for row, got in zip(rows, done.words, strict=True):
        assert got.tolist() == sorted(range(size), key=row.__getitem__, reverse=descending)


# ------------------------------------------------------------------------------------------------ rows and calls


def _sum_program() -> n.Program:
    """The sum of all words of a tree, by recursion; rows are made on the way."""
    sites: list[n.Site] = []
    main = Hand("main", [("t", REF)], [INT, REF], sites)
    with main.block(0):
        total, copy = main.call(1, main.params[0], outs=[INT, REF])
        main.ret(total, copy)
    h = Hand("walk", [("t", REF)], [INT, REF], sites)
    (t,) = h.params
    with h.block(0):
        h.branch(h.null(t), 1, 2)
    with h.block(1):
        h.ret(h.const(0), h.const(None, REF))
    with h.block(2):
        a, left = h.call(1, h.load(t, "left", REF), outs=[INT, REF])
        b, right = h.call(1, h.load(t, "right", REF), outs=[INT, REF])
        total = h.scalar("add", h.scalar("add", a, b), h.load(t, "word", INT))
        h.ret(total, h.new(Tree, right, left, total))
    return program([main, h], sites, [TREE], TupleT((INT, TREE)))


def chain(length: int) -> Tree:
    t = Tree(None, None, 1)
    for _ in range(length - 1):
        t = Tree(t, None, 1)
    return t


@pytest.mark.parametrize("engine", ENGINES)
def test_recursion_and_growth(engine: str) -> None:
    # 20,000 frames do not fit the first chunk of the heap.
    lengths = [1, 5, 20_000, 3] if engine == "compiled" else [1, 5, 60, 3]
    rows, roots = pack_trees([chain(k) for k in lengths])
    run = executable(_sum_program(), engine)
    done = run.run(roots, keep=[rows])
    assert not done.errors
    assert done.words[:, 0].tolist() == lengths
    # The row that was made mirrors the tree: its right side holds the rest.
    heap = {a.ctypes.data: a for a in done.memory if a.dtype == np.int64 and a.nbytes}
    at = int(done.words[1, 1])
    chunk = next(a for base, a in heap.items() if base <= at < base + a.nbytes)
    row = chunk[(at - chunk.ctypes.data) // 8 :][:4].tolist()
    assert row[0] == MADE and row[1] == 0 and row[2] != 0 and row[3] == 5


def test_a_million_frames_deep() -> None:
    length = 1_000_000
    rows = np.zeros((length, 4), np.int64)
    rows[:, 3] = 1
    rows[:-1, 1] = rows.ctypes.data + 32 * np.arange(1, length)
    roots = np.array([[rows.ctypes.data]], np.int64)
    run = executable(_sum_program(), "compiled", memory_limit=1 << 30)
    for _ in range(2):  # the second time in buffers that have grown
        done = run.run(roots, keep=[rows])
        assert not done.errors
        assert done.words[0, 0] == length
        done.close()


def test_endless_recursion_fails_its_instance_only() -> None:
    t = Tree(None, None, 1)
    rows, roots = pack_trees([t, chain(3)])
    at = (int(roots[0, 0]) - rows.ctypes.data) // 32
    rows[at, 1] = roots[0, 0]  # its own left child
    roots = np.concatenate([roots, roots[1:]])
    small = executable(_sum_program(), "compiled", memory_limit=1 << 24)
    with pytest.raises(TooLarge) as caught:
        small.run(roots, keep=[rows])
    assert [*caught.value.surely, *caught.value.suspects, *caught.value.alone] == [0]
    done = small.run(roots, keep=[rows], skip=[0])
    assert not done.errors and done.words[1:, 0].tolist() == [3, 3]
    done = small.run(roots, keep=[rows], skip=[1, 2], tight=True)
    assert set(done.errors) == {0} and done.errors[0].site == state.MEMORY and len(done.errors[0].calls) == 64
    done = executable(_sum_program(), "compiled", max_steps=1000).run(roots, keep=[rows])
    assert {k: e.site for k, e in done.errors.items()} == {0: state.STEPS}
    assert done.words[1:, 0].tolist() == [3, 3]


def test_endless_loop_runs_out_of_steps() -> None:
    sites: list[n.Site] = []
    h = Hand("f", [("x", INT)], [INT], sites)
    with h.block(0):
        h.jump(1)
    with h.block(1):
        h.branch(h.scalar("eq", h.params[0], h.const(0)), 1, 2)
    with h.block(2):
        h.ret(h.params[0])
    done = executable(program([h], sites, [INT], INT), "compiled", max_steps=10_000).run(words([(5,), (0,), (6,)]))
    assert {k: e.site for k, e in done.errors.items()} == {1: state.STEPS}
    assert done.words[[0, 2], 0].tolist() == [5, 6]


def test_swapped_arguments() -> None:
    sites: list[n.Site] = []
    main = Hand("main", [("k", INT), ("a", INT), ("b", INT)], [INT, INT], sites)
    with main.block(0):
        main.ret(*main.call(1, *main.params, outs=[INT, INT]))
    h = Hand("swap", [("k", INT), ("a", INT), ("b", INT)], [INT, INT], sites)
    k, a, b = h.params
    with h.block(0):
        h.branch(h.scalar("eq", k, h.const(0)), 1, 2)
    with h.block(1):
        h.ret(a, b)
    with h.block(2):
        h.ret(*h.call(1, h.scalar("sub", k, h.const(1)), b, a, outs=[INT, INT]))
    p = program([main, h], sites, [INT, INT, INT], TupleT((INT, INT)))
    done = executable(p, "compiled").run(words([(0, 1, 2), (1, 1, 2), (2, 1, 2), (7, 3, 4)]))
    assert done.words.tolist() == [[1, 2], [2, 1], [1, 2], [4, 3]]


# -------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("blocks", [True, False])
def test_tree_lstm(engine: str, blocks: bool) -> None:
    rng = np.random.default_rng(0)
    shared = weights(rng)
    trees = [random_tree(rng, k) for k in (1, 2, 5, 9)]
    rows, roots = pack_trees(trees)
    run = executable(tree_lstm(), engine, blocks=blocks)
    for _ in range(2):
        check(run.run(roots, shared, keep=[rows]), trees, shared)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule", ["depth", "agenda"])
def test_everything_grows(engine: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly any room at first: the machine leaves and goes on in the middle of everything."""
    monkeypatch.setattr(dfg, "_NODES", 2)
    monkeypatch.setattr(dfg, "_CHUNK", 64)
    rng = np.random.default_rng(1)
    shared = weights(rng)
    trees = [random_tree(rng, k) for k in (9, 1, 12, 5)]
    rows, roots = pack_trees(trees)
    run = executable(tree_lstm(), engine, schedule=schedule)
    done = run.run(roots, shared, keep=[rows])
    assert done.nodes == 2 * (9 + 1 + 12 + 5)
    check(done, trees, shared)
    done.close()
    monkeypatch.setattr(dfg, "_NODES", 1)
    run = executable(_list_program(), engine)
    done = run.run(words([(c,) for c in (0, 3, 20, 9)]))
    assert [(int(a), number(b, FLOAT), int(c)) for a, b, c in done.words] == [_list_plain(c) for c in (0, 3, 20, 9)]


def test_failures_in_host_and_kernels() -> None:
    rng = np.random.default_rng(2)
    shared = weights(rng)
    trees = [random_tree(rng, k) for k in (3, 4, 5, 6, 2)]
    no_word = trees[1]
    while no_word.left is not None:
        no_word = no_word.left
    no_word.word = 99
    trees[3].right = None
    rows, roots = pack_trees(trees)
    run = executable(tree_lstm(), "compiled")
    done = run.run(roots, shared, keep=[rows])
    assert set(done.errors) == {1, 3}
    sites = run.plan.program.sites
    assert sites[done.errors[1].site].error == "IndexError"
    assert sites[done.errors[3].site].error == "AttributeError"
    (call,) = done.errors[3].calls
    assert call.function == "sentiment"
    check(done, trees, shared, skip=(1, 3))
    assert 3 not in done.trace().instance.tolist()
    # The same instances, with those two left out.
    again = run.run(roots, shared, keep=[rows], skip={1, 3})
    assert not again.errors
    for k in (0, 2, 4):
        np.testing.assert_array_equal(
            read_tensor(again.words[k, 0], F32, (3,)), read_tensor(done.words[k, 0], F32, (3,))
        )
    assert set(again.trace().instance.tolist()) == {0, 2, 4}


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_to_run(engine: str) -> None:
    shared = weights(np.random.default_rng(0))
    run = executable(tree_lstm(), engine)
    done = run.run(np.zeros((0, 1), np.int64), shared)
    assert done.words.shape == (0, 1) and not done.errors
    assert done.nodes == done.batches == 0 and done.trace().lower_bound == 0
    done = run.run(np.zeros((2, 1), np.int64), shared, skip={0, 1})
    assert done.nodes == 0 and not done.errors


def test_results_stay_valid() -> None:
    rng = np.random.default_rng(3)
    shared = weights(rng)
    run = executable(tree_lstm(), "compiled")
    kept = []
    for k in range(6):
        trees = [random_tree(rng, 3 + k) for _ in range(4)]
        rows, roots = pack_trees(trees)
        done = run.run(roots, shared, keep=[rows])
        record = next(a for a in done.memory if a.dtype == np.uint8)
        address = np.array([read_tensor(w, "int64", (0,)).size for w in done.words[:, 0]])
        assert address.sum() == 0
        import ctypes

        at = ctypes.c_int64.from_address(int(done.words[0, 0])).value - record.ctypes.data
        kept.append((record[at : at + 12].view(F32), tree_lstm_plain(trees[0], *shared)))
        done.close()
    for got, want in kept:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_threads_share_an_executable() -> None:
    rng = np.random.default_rng(4)
    shared = weights(rng)
    run = executable(tree_lstm(), "compiled")
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            own = np.random.default_rng(seed)
            for _ in range(4):
                trees = [random_tree(own, int(own.integers(1, 9))) for _ in range(5)]
                rows, roots = pack_trees(trees)
                check(run.run(roots, shared, keep=[rows]), trees, shared)
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems


def test_shared_arrays_may_change() -> None:
    rng = np.random.default_rng(5)
    shared = weights(rng)
    trees = [random_tree(rng, 4)]
    rows, roots = pack_trees(trees)
    run = executable(tree_lstm(), "compiled")
    for _ in range(3):
        check(run.run(roots, shared, keep=[rows]), trees, shared)
        for array in shared:
            array += 0.1
    shared = weights(rng)
    check(run.run(roots, shared, keep=[rows]), trees, shared)


@pytest.mark.parametrize("engine", ENGINES)
def test_run_time_extents(engine: str) -> None:
    """Vectors of any length: x * 2 + shared number, and the length as a host number."""
    vec = TensorT("float64", (None,))

    def make(f: Hand, x: n.Var) -> tuple[n.Var, ...]:
        m = f.extent(x, 0)
        scale = f.shared(0, FLOAT)
        y = f.op("mul", x, scale, shape=(m,), dtype="float64")
        z = f.op("add", y, x, shape=(m,), dtype="float64")
        return z, f.scalar("add", m, f.const(1))

    p = straight(make, [("x", vec)], [vec, INT], TupleT((vec, INT)), shared=[("scale", FLOAT)])
    run = executable(p, engine)
    (spec,) = run.plan.kernels
    assert spec.dims == 1
    arrays = [np.arange(k, dtype=float) for k in (3, 1, 3, 0, 5)]
    shapes = np.array([[a.size] for a in arrays], np.int64)
    records = np.array([[a.ctypes.data, -1, shapes[k].ctypes.data] for k, a in enumerate(arrays)], np.int64)
    roots = np.array([[records[k].ctypes.data] for k in range(len(arrays))], np.int64)
    done = run.run(roots, [2.0], keep=[*arrays, shapes, records])
    assert not done.errors
    assert done.batches == 1  # of lengths 3, 1, 0, 5
    for k, a in enumerate(arrays):
        assert done.words[k, 1] == a.size + 1
        import ctypes

        shape = ctypes.c_int64.from_address(int(done.words[k, 0]) + 16).value
        assert ctypes.c_int64.from_address(shape).value == a.size
        if a.size:
            np.testing.assert_array_equal(read_tensor(done.words[k, 0], "float64", a.shape), 3 * a)


def test_text_is_deterministic_and_reads_back() -> None:
    first, second = (generate(make_plan(tree_lstm(), Options()), Options()) for _ in range(2))
    assert text.module_text(first) == text.module_text(second)
    assert "def machine(ST)" in text.module_text(first)
    assert isinstance(first, tree.Module)
    assert LAYOUT.size == 4


def _heavy(threads: int) -> tuple[Executable, list[Any], list[Tree], Any, Any]:
    rng = np.random.default_rng(6)
    o = Options(threads=threads)
    run = link(make_plan(tree_lstm(96, 50), o), o)
    shared = [(rng.standard_normal(s) * 0.2).astype(F32) for s in ((50, 96), (192, 192), (96, 3))]
    trees = [random_tree(rng, int(rng.integers(1, 30)), 50) for _ in range(40)]
    rows, roots = pack_trees(trees)
    return run, shared, trees, rows, roots


def _results(run: Executable, shared: Sequence[Any], rows: Any, roots: Any) -> Any:
    run._recent = 1.0  # the threads are to help whatever the last run took
    done = run.run(roots, shared, keep=[rows])
    assert not done.errors
    return np.stack([read_tensor(w, F32, (3,)) for w in done.words[:, 0]])


def test_threads_do_not_change_bits() -> None:
    run, shared, trees, rows, roots = _heavy(1)
    want = _results(run, shared, rows, roots)
    for k in (0, 1, 2):
        np.testing.assert_allclose(want[k], tree_lstm_plain(trees[k], *shared), rtol=1e-4, atol=1e-5)
    run, *_ = _heavy(3)
    for _ in range(5):
        np.testing.assert_array_equal(_results(run, shared, rows, roots), want)
    outcomes: list[bool] = []

    def work() -> None:
        outcomes.extend(np.array_equal(_results(run, shared, rows, roots), want) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert outcomes == [True] * 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    run, shared, _, rows, roots = _heavy(2)
    want = _results(run, shared, rows, roots)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if np.array_equal(_results(run, shared, rows, roots), want) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
