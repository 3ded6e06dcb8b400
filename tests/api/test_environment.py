"""What the environment says: levels of checking and logging, limits of memory, depth and steps."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from acronumba import (
    AcronumbaError,
    InstanceErrors,
    model,
    pack,
)
from tests.support.api_models import Tree, assert_close, classify, double, params, trees

# ---- the environment


def test_verify_2_compares_every_batch_with_the_plain_call(monkeypatch):
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    p = params()
    assert_close(classify.batch(trees(), p=p), [classify(t, p=p) for t in trees()])
    monkeypatch.setattr("acronumba.api.check.FACTOR", -1.0)
    monkeypatch.setattr("acronumba.api.shadow.bound", lambda narrow, bits: -1.0)
    monkeypatch.setattr("acronumba.api.check.equal", lambda a, b: False)
    with pytest.raises(AcronumbaError, match="ACR799"):
        classify.batch(trees(), p=p)


@pytest.mark.parametrize("value", ["7", "yes", "-1"])
def test_wrong_levels_in_the_environment(monkeypatch, value):
    monkeypatch.setenv("ACRONUMBA_DEBUG", value)
    with pytest.raises(AcronumbaError, match="ACRONUMBA_DEBUG must be a number from 0 to 6"):
        double.batch([1])


@pytest.mark.parametrize(
    ("level", "last"), [("1", "time of compile: "), ("3", "plan: "), ("5", "kernel "), ("6", "run: ")]
)
def test_debug_levels_log_the_stages(monkeypatch, capfd, level, last):
    logger = logging.getLogger("acronumba")
    before = list(logger.handlers), logger.level
    monkeypatch.setenv("ACRONUMBA_DEBUG", level)
    try:
        double.with_options(max_steps=1000 + int(level)).batch([np.ones(3)])
    finally:
        logger.handlers[:], logger.level = before
    err = capfd.readouterr().err
    seen = [
        what
        for what in ("time of compile: ", "program: ", "plan: ", "host: ", "kernel ", "run: ")
        if f"acronumba {what}" in err
    ]
    order = ["time of compile: ", "program: ", "plan: ", "host: ", "kernel ", "run: "]
    assert seen == order[: order.index(last) + 1]


def test_nothing_is_logged_by_default(capfd):
    double.batch([1.0])
    assert capfd.readouterr() == ("", "")


def test_memory_is_rejected_before_it_is_allocated():
    @model
    def f(n):
        return np.zeros(n) + 1.0

    for options, size in (({"memory_limit": 10**6}, 10**7), ({}, 10**13)):
        with pytest.raises(InstanceErrors) as caught:
            f.with_options(**options).batch([10, size])
        assert list(caught.value.errors) == [1] and caught.value.errors[1].code == "ACR704"
        assert caught.value.results[0].shape == (10,)
    assert [r.shape for r in f.with_options(memory_limit=2**26, equal=False).batch([2**20] * 20)] == [(2**20,)] * 20
    assert [r.shape for r in f.batch([3, 0])] == [(3,), (0,)]


def test_a_chain_deeper_than_pythons_stack():
    @model
    def last(t: Tree):
        if t.left is None:
            return 6 // t.word
        return last(t.left) + 1

    chain, bad = Tree(2), Tree(0)
    for _ in range(5000):
        chain, bad = Tree(0, chain), Tree(0, bad)
    assert last.batch([chain, Tree(3)]) == [5003, 2]
    with pytest.raises(InstanceErrors) as caught:
        last.batch([chain, bad])
    assert type(caught.value.errors[1]) is ZeroDivisionError
    assert caught.value.errors[1].line == last.__wrapped__.__code__.co_firstlineno + 3
    assert caught.value.results[0] == 5003


def test_a_cycle_fails_only_the_instance_that_follows_it():
    cycle = Tree(1, None, Tree(1))
    cycle.left = cycle

    @model
    def leftmost(t: Tree):
        while t.left is not None:
            t = t.left
        return t.word

    @model
    def rightmost(t: Tree):
        while t.right is not None:
            t = t.right
        return t.word

    assert rightmost.batch([cycle, Tree(4)]) == [1, 4]
    with pytest.raises(InstanceErrors) as caught:
        leftmost.with_options(max_steps=10**5).batch([Tree(4), cycle])
    assert list(caught.value.errors) == [1] and caught.value.errors[1].code == "ACR702"
    assert caught.value.errors[1].line and caught.value.results[0] == 4


FACTOR = np.float32(2) * np.ones(3, np.float32)
OFFSET = 1


@model
def with_globals(x: np.ndarray, *, p: dict[str, np.ndarray]) -> np.ndarray:
    return x * FACTOR + p["b"] * OFFSET


def test_globals_are_looked_at_anew_where_parameters_are_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, p = pack([np.arange(3, dtype=np.float32)] * 2), pack({"b": np.ones(3, np.float32)})
    for _ in range(2):
        assert with_globals.batch(xs, p=p)[1].tolist() == [1, 3, 5]
    monkeypatch.setitem(globals(), "FACTOR", np.full(3, 3, np.float32))
    assert with_globals.batch(xs, p=p)[1].tolist() == [1, 4, 7]
    monkeypatch.setitem(globals(), "OFFSET", 5)
    assert with_globals.batch(xs, p=p)[1].tolist() == [5, 8, 11]
    monkeypatch.setitem(globals(), "FACTOR", np.full((1,), 2, np.float32))
    assert with_globals.batch(xs, p=p)[1].tolist() == [5, 7, 9]
    other = pack({"b": np.zeros(3, np.float32)})
    assert with_globals.batch(xs, p=other)[0].tolist() == [0, 2, 4]


def test_other_options_do_not_read_the_function_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.pipeline import compiled

    @model
    def f(x, *, w):
        return w @ x

    x, w = np.ones(3, np.float32), np.ones((2, 3), np.float32)
    assert f.batch([x], w=w)[0].tolist() == [3, 3]
    lowered = []
    lower = compiled.infer_and_lower
    monkeypatch.setattr(compiled, "infer_and_lower", lambda *args: lowered.append(1) or lower(*args))
    other = f.with_options(fuse=False)
    assert other.batch([x], w=w)[0].tolist() == [3, 3] and not lowered
    f.explain([x], w=w)
    assert not lowered
    assert other.batch([np.ones(3)], w=w)[0].dtype == np.float64 and len(lowered) == 1  # other types


def test_importing_the_package_leaves_the_compiler_for_the_first_mini_batch():
    program = """
        import sys
        import acronumba
        rooms = ("analysis", "frontend", "host", "kernels", "pipeline.compiled", "runtime.driver")
        print([name for name in sys.modules if name.startswith(tuple(f"acronumba.{room}" for room in rooms))])
        print([name for name in ("numba", "llvmlite", "networkx", "rich") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"
