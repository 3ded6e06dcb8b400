"""Baselines: what is written by hand computes what the plain calls do."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np
import pytest

from acronumba.bench.agreement import agreement, in_float64, plain
from acronumba.bench.by_hand import BY_NUMPY
from acronumba.bench.by_hand.program import steps
from acronumba.bench.by_hand.trees import flatten
from acronumba.bench.workloads import WAITING, ZOO
from acronumba.zoo import drnn, encoder, graph_rnn, tree_lstm
from acronumba.zoo.tree_lstm import Tree
from acronumba_bench import baselines
from acronumba_bench.workloads import WORKLOADS

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
KINDS = [
    BY_NUMPY,
    pytest.param(baselines.TORCH_EACH, marks=TORCH),
    pytest.param(baselines.BY_TORCH, marks=TORCH),
]


@functools.cache
def case(workload: str, count: int) -> tuple[Any, Any, Any, Any]:
    w = WORKLOADS[workload]
    p, xs = w.params(8), w.instances(count)
    exact = plain(w.model, xs, in_float64(p))
    return p, xs, plain(w.model, xs, p), exact


def test_every_model_of_the_zoo_has_baselines() -> None:
    assert set(baselines.BATCHED) == {w.name for w in (*ZOO, *WAITING)}
    assert baselines.makers("branches") == {}


@TORCH
def test_every_model_of_the_zoo_is_there_one_by_one() -> None:
    from acronumba_bench.baselines.one_by_one import ONE_BY_ONE

    assert set(ONE_BY_ONE) == set(baselines.BATCHED)


@pytest.mark.skipif(
    importlib.util.find_spec("dynet") is None,
    reason="needs dyNET38, an optional competitor, with wheels for Python 3.8 to 3.11 only",
)
@pytest.mark.parametrize("workload", ["tree_lstm", "birnn"])
def test_dynet_agrees_with_the_plain_calls(workload: str) -> None:
    p, xs, expected, exact = case(workload, 6)
    program = baselines.makers(workload)[baselines.BY_DYNET](p, xs)
    for _ in range(2):
        verdict, error = agreement(program.results(program.run()), expected, exact)
        assert verdict == "close", error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", baselines.BATCHED)
@pytest.mark.parametrize("count", [1, 6])
def test_baselines_agree_with_the_plain_calls(workload: str, kind: str, count: int) -> None:
    p, xs, expected, exact = case(workload, count)
    program = baselines.makers(workload)[kind](p, xs)
    for _ in range(2):  # the second time in memory that the first has used
        verdict, error = agreement(program.results(program.run()), expected, exact)
        assert verdict in ("equal", "close"), error


@pytest.mark.parametrize("kind", KINDS)
def test_causal_sentences(kind: str) -> None:
    w = WORKLOADS["encoder"]
    p, xs = encoder.params(8, causal=True), [*w.instances(3), [4]]
    program = baselines.makers("encoder")[kind](p, xs)
    exact = plain(w.model, xs, in_float64(p))
    verdict, error = agreement(program.results(program.run()), plain(w.model, xs, p), exact)
    assert verdict in ("equal", "close"), error


READING = ("moe", "moe_route", "drnn", "berxit", "stack_rnn", "beam_decoder", "beam_decoder_emulated", "decoder")


@TORCH
@pytest.mark.parametrize("workload", [w for w in baselines.BATCHED if w not in (*READING, "graph_rnn")])
def test_everything_is_put_on_the_device(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that computes nothing, but rejects what lies elsewhere."""
    from acronumba_bench.baselines import by_torch
    from acronumba_bench.baselines.one_by_one import ONE_BY_ONE

    monkeypatch.setattr(by_torch, "_finished", lambda out, device: out)
    p, xs, *_ = case(workload, 1)
    if workload != "drnn_emulated":  # which asks for the number of a row
        by_torch.inferring(ONE_BY_ONE[workload], "meta")(p, xs).run()
    batched = baselines.BATCHED[workload]
    by_torch.inferring(lambda p, xs: batched(by_torch.namespace("meta"), p, xs), "meta")(p, xs).run()


@TORCH
@pytest.mark.parametrize("workload", baselines.BATCHED)
def test_programs_for_graphs_give_the_same_work_in_every_run(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba_bench.baselines import by_torch

    def captured(run: Any, device: str) -> tuple[Any, Any]:
        run()
        monkeypatch.setattr(by_torch, "_put", None)  # from the second run on nothing is copied
        return (lambda: None), run()

    monkeypatch.setattr(by_torch, "captured", captured)
    monkeypatch.setattr(by_torch, "_finished", lambda out, device: out)
    p, xs, expected, exact = case(workload, 6)
    made = by_torch.in_graph(baselines.BATCHED[workload], "cpu:0")
    if workload in READING:
        with pytest.raises(by_torch.NotCapturedError, match="it reads what it has computed"):
            made(p, xs)
        return
    program = made(p, xs)
    verdict, error = agreement(program.results(program.run()), expected, exact)
    assert verdict in ("equal", "close"), error


@TORCH
def test_what_changes_from_run_to_run_is_no_graph() -> None:
    from acronumba.bench.by_hand.program import Program
    from acronumba_bench.baselines import by_torch

    tape, rows = by_torch._Tape("cpu:0"), iter([[1], [2]])
    program = Program(run=lambda: tape.namespace.index(next(rows)), results=list)
    tape.run(program)
    with pytest.raises(by_torch.NotCapturedError, match="depends on what it has computed"):
        tape.run(program)


def test_agreement_holds_to_the_bound() -> None:
    one = [np.ones(3, np.float32)]
    assert agreement(one, one, [np.ones(3)]) == ("close", 0.0)
    off = [np.array([1, 1, 1.0001], np.float32)]
    assert agreement(off, one, [np.ones(3)])[0] == "different"
    rough = [np.array([1, 1, 1.00003], np.float32)]  # another plain call than that of the instance in question
    got, expected, exact = off + rough, one + rough, [np.ones(3)] * 2
    assert agreement(got, expected, exact)[0] == "different"
    assert agreement(got, expected, exact, alone=False)[0] == "close"
    assert agreement(off + one, one + one, exact, alone=False)[0] == "different"
    assert agreement([one], one, [np.ones(3)])[0] == "different"
    assert agreement([], one, [np.ones(3)])[0] == "different"
    assert agreement([2], [1], [2])[0] == "undecided"  # the plain call itself depends on rounding


def test_trees_are_numbered_from_their_leaves_up() -> None:
    trees = [*tree_lstm.instances(20), Tree(word=3)]
    forest, words = flatten(trees)
    done = set(range(len(words)))
    for level in forest.levels:  # children are computed before their parents, and every node once
        children = level.children.tolist()
        assert done.issuperset(children) and len(children) == 2 * (level.stop - level.start)
        assert [n in forest.roots for n in range(level.start, level.stop)] == [
            n >= level.roots for n in range(level.start, level.stop)
        ]
        assert len(done) == level.start
        done.update(range(level.start, level.stop))
    assert len(done) == forest.count and forest.roots[-1] == words.index(3, len(words) - 1)


def test_steps_of_sequences() -> None:
    order = steps([2, 0, 3])
    assert order.order.tolist() == [2, 0, 1]
    assert order.spans == ((0, 2), (2, 4), (4, 5))
    assert order.at.tolist() == [2, 0, 3, 1, 4]
    assert order.of_each(["c0", "a0", "c1", "a1", "c2"]) == [["a0", "a1"], [], ["c0", "c1", "c2"]]
    assert steps([]).spans == ()


def test_what_a_program_does_not_do_is_said() -> None:
    p, xs, *_ = case("graph_rnn", 1)
    with pytest.raises(ValueError, match="graphs of one size"):
        baselines.makers("graph_rnn")[BY_NUMPY](p, [*xs, *graph_rnn.instances(1, nodes=4)])
    p, xs, *_ = case("berxit", 1)
    short = [type(xs[0])(xs[0].words[:5], 1)]
    with pytest.raises(ValueError, match="sentences of one length"):
        baselines.makers("berxit")[BY_NUMPY](p, [*xs, *short])


def test_emulated_trees_of_any_shape() -> None:
    leaf = drnn.Shape([])
    xs = [drnn.Start(1, drnn.Shape([leaf])), drnn.Start(2, drnn.Shape([drnn.Shape([leaf, leaf]), leaf, leaf]))]
    w = WORKLOADS["drnn_emulated"]
    p = w.params(8)
    program = baselines.makers("drnn_emulated")[BY_NUMPY](p, xs)
    exact = plain(w.model, xs, in_float64(p))
    assert agreement(program.results(program.run()), plain(w.model, xs, p), exact)[0] == "close"
