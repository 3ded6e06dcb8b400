"""Large mini-batches run in parts: nothing changes but the memory they take, and what a trace says."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, pack, random
from acronumba.api import dispatch
from acronumba.api.model import model
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError
from acronumba.runtime import driver
from acronumba.zoo import drnn, graph_rnn, moe, stack_rnn
from acronumba.zoo import tree_lstm as trees
from tests.support import generate, memory_models
from tests.support.chosen import half, one_in, quarter, squares
from tests.support.hand import pack_trees, random_tree, tree_lstm
from tests.support.hand_runs import ENGINES, check, executable, weights
from tests.support.memory_models import WIDTH, ZOO, owner, sentences, shared_arrays

F32 = np.float32
last, all_states, some_states, until = (
    model(f.__wrapped__)  # what they have in memory is their own
    for f in (memory_models.last, memory_models.all_states, memory_models.some_states, memory_models.until)
)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are small, and what nothing may read any more is overwritten."""
    monkeypatch.setattr(driver, "_AIM", 1 << 14)
    monkeypatch.setattr(driver, "_LEAST", 2)
    monkeypatch.setattr(driver, "verify_level", lambda: 2)


def same_bits(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(pickle.dumps(x) == pickle.dumps(y) for x, y in zip(a, b, strict=True))


def whole(f: Any) -> Any:
    return f.with_options(parts=False)


# ---- values


MORE: dict[str, Any] = {
    "tree_lstm": (trees, trees.sentiment),
    "moe_emulated": (moe, moe.route_emulated),
    "stack_rnn_emulated": (stack_rnn, stack_rnn.parse_emulated),
    "drnn_emulated": (drnn, drnn.generate_emulated),
    "graph_rnn_emulated": (graph_rnn, graph_rnn.generate_emulated),
}


@pytest.mark.parametrize("name", one_in(2, half(ZOO | MORE)))
def test_zoo(name: str, cut: None) -> None:
    module, f = (ZOO | MORE)[name]
    xs = module.instances(24, **({"length": 6} if name == "berxit" else {}))
    p = module.params(WIDTH)
    want = whole(f).batch(xs, p=p)
    assert all(same_bits(f.batch(xs, p=p), want) for _ in range(3))
    trace = f.trace(xs, p=p)
    assert same_bits(trace.results, want)
    waits = name in ("berxit", "drnn", "stack_rnn", "beam_decoder")
    assert trace.parts == 1 if waits else trace.parts > 3
    assert trace.rounds > 1 if waits else trace.rounds == 1


@pytest.mark.parametrize("seed", one_in(2, quarter(range(24))))
def test_random_models(seed: int, cut: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "_AIM", 1)
    case = generate.generate(9000 + seed, 4)
    module = case.load(tmp_path, f"parts_{seed}")
    columns, shared = case.instances(module, 9), case.shared_values(module)
    off = dispatch.batch(whole(module.main), columns, shared)
    for done in [dispatch.batch(module.main, columns, shared) for _ in range(2)]:
        assert {k: str(e) for k, e in done.errors.items()} == {k: str(e) for k, e in off.errors.items()}
        for k, value in enumerate(off.results):
            assert k in off.errors or equal(done.results[k], value)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"schedule": "agenda"},
    {"schedule": "depth"},
    {"schedule": "depth", "phases": False},
    {"effort": 3},
    {"threads": 2},
    {"recycle": False},
    {"hoist": False, "blocks": False},
]


@pytest.mark.parametrize(
    ("f", "options"),
    squares([last, all_states, some_states, until], OPTIONS),
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_options(f: Any, options: dict[str, Any], cut: None) -> None:
    shared, xs = shared_arrays(), sentences(40, 30)
    f = f.with_options(**options)
    want = whole(f).batch(xs, **shared)
    assert all(same_bits(f.batch(xs, **shared), want) for _ in range(3))
    trace = f.trace(xs, **shared)
    assert same_bits(trace.results, want) and (trace.parts > 3) == (f.__wrapped__ is not until.__wrapped__)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule", ["lookahead", "depth", "agenda"])
def test_engines(engine: str, schedule: str, cut: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_AIM", 1)
    monkeypatch.setattr(driver, "_LEAST", 1)
    rng = np.random.default_rng(3)
    shared = weights(rng)
    given = [random_tree(rng, k) for k in (7, 1, 3, 9, 2, 7, 7, 1, 4)]
    rows, roots = pack_trees(given)
    for parts in (True, False):
        run = executable(tree_lstm(), engine, schedule=schedule, parts=parts).run(
            roots, shared, keep=[rows], timed=True
        )
        check(run, given, shared)
        assert run.trace().parts == (9 if parts else 1) and run.trace().nodes == run.nodes


@model
def noisy(key: random.Key, steps: int, *, w: np.ndarray) -> Any:
    h = random.normal(key, (32,)).astype(np.float32)
    for k in range(steps):
        h = np.tanh(w @ h + random.uniform(key.child(k), (32,)).astype(np.float32))
    return h


def test_random_numbers_are_those_of_the_instance(cut: None) -> None:
    w = shared_arrays()["w"]
    keys, steps = random.keys(7, 60), [k % 9 for k in range(60)]
    done = noisy.batch(keys, steps, w=w)
    assert noisy.trace(keys, steps, w=w).parts > 3
    assert same_bits(done, whole(noisy).batch(keys, steps, w=w))
    assert noisy.check(keys, steps, w=w).ok


def test_several_python_threads(cut: None) -> None:
    shared = shared_arrays()
    inputs = [sentences(20 + k, 20 + k) for k in range(8)]
    want = [whole(some_states).batch(xs, **shared) for xs in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for got, wanted in zip(pool.map(lambda xs: some_states.batch(xs, **shared), inputs), want, strict=True):
                assert same_bits(got, wanted)


def test_results_stay_whatever_is_called_next(cut: None) -> None:
    shared = shared_arrays()
    inputs = [sentences(40, 30), sentences(50, 20, below=5), sentences(30, 40, below=7)]
    early = [some_states.batch(xs, **shared) for xs in inputs]  # nothing of them is decoded before all have run
    for xs in inputs[::-1]:
        last.batch(xs, **shared), some_states.batch(xs, **shared)
    for xs, done in zip(inputs, early, strict=True):
        assert same_bits(done, whole(some_states).batch(xs, **shared))


def test_memory_of_results_grows_from_part_to_part(cut: None) -> None:
    """In the first mini-batch of a model, nobody knows how much will be returned."""
    shared, xs = shared_arrays(), sentences(300, 40)
    want = whole(all_states).batch(xs, **shared)
    done = all_states.with_options(max_steps=10**7 + 1).batch(xs, **shared)
    all_states.with_options(max_steps=10**7 + 1).batch(xs[::-1], **shared)
    assert same_bits(done, want)


def test_packed_columns_slices_stack_and_no_instances(cut: None) -> None:
    shared, xs = shared_arrays(), sentences(60, 30)
    want = whole(last).batch(xs, **shared)
    done = last.batch(pack(xs)[5:], **shared)
    assert same_bits(done, want[5:]) and same_bits(done[3:9], want[8:14])
    assert done.stack().tobytes() == want[5:].stack().tobytes() and not done.stack().flags.writeable
    assert len(last.batch([], **shared)) == 0


# ---- failures


@dataclass
class Sentence:
    words: list[int]


@model
def fails(sentence: Sentence, *, w: np.ndarray, embed: np.ndarray) -> Any:
    h, words = embed[0], sentence.words
    for k in words:
        h = np.tanh(w @ h + embed[k])
        if k == 8:
            raise ValueError(f"eight after {len(words)}")
    while len(words) == 11:
        h = h + embed[1]
    return h, embed[np.argmax(h) % 9 + (5 if len(words) % 7 == 0 else 0)]  # an index that only the kernel knows


def test_failures_have_the_number_of_their_instance(cut: None) -> None:
    shared, xs = shared_arrays(), [Sentence(words) for words in sentences(200, 12)]
    for k, words in ((31, [1] * 11), (90, ["no"]), (150, [2] * 11), (199, [1, 2, 99])):
        xs[k] = Sentence(words)  # type: ignore[arg-type]
    seen = []
    for f in (fails, whole(fails), fails.with_options(schedule="agenda")):
        with pytest.raises(InstanceErrors) as caught:
            f.with_options(max_steps=500).batch(xs, **shared)
        seen.append(caught.value)
    first = {k: (type(e), str(e), getattr(e, "line", 0)) for k, e in seen[0].errors.items()}
    assert {type(e).__name__ for e in seen[0].errors.values()} >= {"DataError", "IndexError", "ValueError"}
    assert {31, 90, 150, 199} < set(first) and len(first) < 150
    for other in seen[1:]:
        assert {k: (type(e), str(e), getattr(e, "line", 0)) for k, e in other.errors.items()} == first
        assert all(
            k in first or same_bits([a], [b])
            for k, (a, b) in enumerate(zip(seen[0].results, other.results, strict=True))
        )
    assert [k for k, x in enumerate(seen[0].results) if x is None] == list(first)
    trace = fails.with_options(max_steps=500).trace(xs, **shared)
    assert list(trace.errors) == list(first) and trace.parts > 3


@model
def large(n: int, *, w: np.ndarray) -> Any:
    x = np.ones((n, 1024), np.float32)
    for _ in range(n // 512):
        x = np.sin(x + w)
    return x.sum()


def test_memory() -> None:
    w = np.ones(1024, F32)
    xs = [1024] * 20  # of 4 MB and more each
    limited = large.with_options(memory_limit=40 << 20, equal=False)
    trace = limited.trace(xs, w=w)
    assert trace.parts > 3 and trace.peak_bytes <= 40 << 20
    assert same_bits(trace.results, large.batch(xs, w=w))
    sliced = whole(limited).trace(xs, w=w)
    assert sliced.parts > 1 and sliced.peak_bytes <= 40 << 20 and same_bits(sliced.results, trace.results)
    xs[13] = 1 << 15  # more than there is, alone
    with pytest.raises(InstanceErrors) as caught:
        limited.batch(xs, w=w)
    assert list(caught.value.errors) == [13] and "ACR704" in str(caught.value.errors[13])
    assert all(x is not None for k, x in enumerate(caught.value.results) if k != 13)


def test_what_is_returned_need_not_fit_as_a_whole() -> None:
    shared, xs = shared_arrays(256), sentences(200, 100)
    want = all_states.batch(xs, **shared)
    assert sum(a.nbytes for states in want for a in states) > 8 << 20
    for parts in (True, False):
        trace = all_states.with_options(memory_limit=8 << 20, parts=parts).trace(xs, **shared)
        assert same_bits(trace.results, want) and trace.peak_bytes <= 8 << 20


# ---- how it is cut


def test_peak_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_AIM", 1 << 20)
    monkeypatch.setattr(driver, "_LEAST", 8)
    xs, p = trees.instances(400), trees.params(256)
    f = trees.sentiment
    on, off = f.trace(xs, p=p), whole(f).trace(xs, p=p)
    assert off.parts == 1 and off.peak_bytes > 4 * on.peak_bytes
    assert "micro-batches" in str(on) and "micro-batches" not in str(off)
    done = [f.batch(xs, p=p) for _ in range(2)][1]
    assert owner(done[0]) < 3 * 400 * done[0].nbytes + (1 << 16)  # results of all parts, and what an arena has to spare


def test_each_part_takes_about_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much instances differ; the last part is not a remainder."""
    monkeypatch.setattr(driver, "_AIM", 1 << 20)
    monkeypatch.setattr(driver, "_LEAST", 1)
    shared = shared_arrays(256)
    xs = sorted(sentences(600, 40), key=len)
    for given in (xs, xs[::-1], sentences(600, 40)):
        data = last.with_options(equal=False).trace(given, **shared).data
        assert data.parts > 5
        weights = []
        first = 0
        for count in parts_of(data):
            weights.append(sum(len(x) for x in given[first : first + count]) * (1024 + 256))
            first += count
        assert first == 600 and max(weights) < 1.3 * (1 << 20)
    assert min(weights) > 0.5 * (1 << 20)  # where they are in no order


def parts_of(data: Any) -> list[int]:
    """Return how many instances each part of a trace has: no batch has nodes of two parts."""
    ends = []
    most = -1
    for b in range(len(data.batches)):
        nodes = data.instance[data.batch == b]
        if nodes.min() > most:
            ends.append(int(nodes.min()))
        most = max(most, int(nodes.max()))
    return np.diff([*ends, int(data.instance.max()) + 1]).tolist()


def test_parts_have_instances_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_AIM", 1)
    monkeypatch.setattr(driver, "_LEAST", 64)
    shared, xs = shared_arrays(), sentences(150, 9)
    assert last.trace(xs, **shared).parts == 3 and parts_of(last.trace(xs, **shared).data) == [50, 50, 50]
    assert last.trace(xs[:64], **shared).parts == 1


@model
def sums(xs: np.ndarray, *, w: np.ndarray) -> Any:
    for _ in range(len(xs) % 2 + 2):
        xs = np.tanh(xs @ w)
    return xs.sum(axis=0)


def test_extents_are_weighed(cut: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of many rows takes more than one of few, as one node of it or row by row."""
    monkeypatch.setattr(driver, "_AIM", 1 << 18)
    w = shared_arrays()["w"]
    short, long = ([np.ones((n, 32), F32) for _ in range(120)] for n in (2, 200))
    for f in (sums, sums.with_options(hoist=False)):
        assert f.trace(short, w=w).parts == 1 and f.trace(long, w=w).parts > 5
        assert same_bits(f.batch(long, w=w), whole(f).batch(long, w=w))


def test_a_schedule_of_ones_own_is_asked_for_each_part(cut: None) -> None:
    seen: list[np.ndarray] = []

    def by_depth(columns: Any) -> Any:
        seen.append(np.unique(columns["instance"]))
        depth, key = columns["depth"], columns["signature"]
        return np.unique(depth.astype(np.int64) << 32 | key, return_inverse=True)[1].astype(np.int32)

    shared, xs = shared_arrays(), sentences(60, 20)
    f = last.with_options(schedule=by_depth)
    assert same_bits(f.batch(xs, **shared), whole(last).batch(xs, **shared))
    assert len(seen) > 3 and np.concatenate(seen).tolist() == list(range(60))

    def wrong(columns: Any) -> Any:
        return np.zeros(len(columns["kernel"]), np.int32)

    with pytest.raises(AcronumbaError, match="ACR711"):
        last.with_options(schedule=wrong).batch(xs, **shared)


def test_a_trace_shows_what_ran(cut: None) -> None:
    shared, xs = shared_arrays(), sentences(60, 20)
    f = last.with_options(equal=False)  # which parts do not share
    on, off = f.trace(xs, **shared), whole(f).trace(xs, **shared)
    assert on.nodes == off.nodes and sum(b.size for b in on.batches) == on.nodes
    assert sorted(on.data.instance.tolist()) == sorted(off.data.instance.tolist())
    assert len(on.batches) > len(off.batches) and on.lower_bound <= len(on.batches)
    assert on.graph.number_of_edges() == off.graph.number_of_edges()
    assert all(on.data.instance[u] == on.data.instance[v] for u, v in on.data.edges.tolist())
    assert all(on.data.batch[u] < on.data.batch[v] for u, v in on.data.edges.tolist())
    assert all(b.seconds is not None for b in on.batches)
    explained = last.explain(xs, **shared)  # of the mini-batch as a whole
    assert explained.count.batches == len(off.batches)
