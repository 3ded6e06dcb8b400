"""Properties of every schedule, and of every result: on the models of the zoo and on random ones."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import Results, nn
from acronumba.api import dispatch
from acronumba.api.model import Model, model
from acronumba.config import BITWISE
from acronumba.zoo import birnn, child_sum_lstm, mv_rnn, tree_lstm
from tests.support import generate
from tests.support.chosen import squares
from tests.support.same_bits import bits

SHUFFLED = random.Random(1)
RANDOM = (6, 57, 200, 349)  # seeds of random models, some with failing instances


@dataclasses.dataclass
class Subject:
    """A model with instances."""

    model: Any
    columns: Sequence[Sequence[Any]]
    shared: dict[str, Any]

    def run(self, order: Sequence[int], **options: Any) -> dict[int, Any]:
        """Return result or exception of some instances, by number."""
        model = self.model.with_options(**options) if options else self.model
        done = dispatch.batch(model, [[c[k] for k in order] for c in self.columns], self.shared)
        return {k: done.errors.get(n) or done.results[n] for n, k in enumerate(order)}

    @property
    def count(self) -> int:
        return len(self.columns[0])


def zoo(module: Any, name: str, count: int = 6) -> Subject:
    return Subject(getattr(module, name), [module.instances(count, seed=2)], {"p": module.params(16)})


@model
def chain(word: int, steps: int, *, w: np.ndarray, embed: np.ndarray) -> Any:
    """Depths that differ: what is at one depth is not of one kernel."""
    h = embed[word]
    kept = [h]
    for k in range(steps):
        if k % 3 == word % 3:
            h = np.tanh(w @ h)
        elif k % 2:
            h = nn.sigmoid(h) * kept[k // 2]
        kept.append(h)
    return h, np.stack(kept).sum(axis=0), steps * word


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Subject]:
    folder: Path = tmp_path_factory.mktemp("properties")
    made: dict[str, Subject] = {}

    def make(name: str) -> Subject:
        match name:
            case "tree_lstm":
                return zoo(tree_lstm, "sentiment")
            case "child_sum_lstm":
                return zoo(child_sum_lstm, "classify")
            case "mv_rnn":
                return zoo(mv_rnn, "sentiment")
            case "birnn":
                return zoo(birnn, "tag")
            case "chain":
                rng = np.random.default_rng(0)
                shared = {"w": rng.standard_normal((9, 9)), "embed": rng.standard_normal((7, 9))}
                return Subject(chain, [[int(k) for k in rng.integers(0, 7, 12)], [k % 7 for k in range(12)]], shared)
        case = generate.generate(int(name.removeprefix("random ")), 4)
        module = case.load(folder, name.replace(" ", "_"))
        return Subject(module.main, case.instances(module, 9), case.shared_values(module))

    def get(name: str) -> Subject:
        if name not in made:
            made[name] = make(name)
        return made[name]

    return get


NAMES = ["tree_lstm", "child_sum_lstm", "mv_rnn", "birnn", "chain", *(f"random {seed}" for seed in RANDOM)]
EVERY = pytest.mark.parametrize("name", NAMES)


def same_bits(a: dict[int, Any], b: dict[int, Any]) -> bool:
    return a.keys() == b.keys() and all(bits(a[k]) == bits(b[k]) for k in a)


# ---- schedules


def check_trace(trace: Any, by_depth: bool = True) -> None:
    """Check that a trace is of a schedule: of one by phase and depth, or of any."""
    data = trace.data
    n = data.nodes
    first, second = data.edges[:, 0], data.edges[:, 1]
    key = data.phase.astype(np.int64) * (int(data.depth.max(initial=0)) + 1) + data.depth
    assert not by_depth or (key[first] < key[second]).all(), "producers come first, by phase and then by depth"
    assert (data.batch[first] < data.batch[second]).all(), "and in an earlier batch"
    takers = set(map(tuple, data.takers.tolist()))
    of = {v: [k for u, k in takers if u == v] for v in set(second.tolist())}
    edges = data.edges.tolist()
    assert all((u, k) in takers for u, v in edges for k in of[v]), "no instance reads what it does not take"
    place = np.empty(n, np.int64)
    place[data.order] = np.arange(n)
    assert (np.sort(data.order) == np.arange(n)).all(), "every node is executed once"
    assert (np.diff(data.batch[data.order]) >= 0).all(), "batch after batch"
    assert (np.bincount(data.batch, minlength=len(data.batches)) == [b.size for b in data.batches]).all()
    for number, batch in enumerate(data.batches):
        nodes = np.flatnonzero(data.batch == number)
        assert batch.size > 0
        assert {data.kernels[k] for k in data.kernel[nodes]} == {batch.kernel}, "a batch is of one kernel"
        assert not by_depth or set(zip(data.phase[nodes], data.depth[nodes], strict=True)) == {
            (batch.phase, batch.depth)
        }
    assert trace.lower_bound <= len(trace.batches)
    assert not trace.optimal or trace.lower_bound == len(trace.batches)


@EVERY
def test_a_schedule_is_one(subjects: Callable[[str], Subject], name: str) -> None:
    s = subjects(name)
    check_trace(s.model.trace(*s.columns, **s.shared))


@pytest.mark.parametrize("name", ["tree_lstm", "chain", "random 57"])
@pytest.mark.parametrize(
    "options", [{"schedule": "agenda"}, {"schedule": "depth", "phases": False}, {"blocks": False}], ids=str
)
def test_other_schedules_are_schedules(subjects: Callable[[str], Subject], name: str, options: dict[str, Any]) -> None:
    s = subjects(name)
    check_trace(
        s.model.with_options(**options).trace(*s.columns, **s.shared), by_depth=options.get("schedule") != "agenda"
    )


def test_batches_are_shared_between_instances(subjects: Callable[[str], Subject]) -> None:
    s = subjects("tree_lstm")
    alone = [len(s.model.trace([tree], **s.shared).batches) for tree in s.columns[0]]
    assert len(s.model.trace(*s.columns, **s.shared).batches) == max(alone)


# ---- results


@EVERY
def test_company_order_and_split_change_no_bit(subjects: Callable[[str], Subject], name: str) -> None:
    s = subjects(name)
    everyone = s.run(range(s.count))
    order = SHUFFLED.sample(range(s.count), s.count)
    assert same_bits(s.run(order), everyone), "in another order"
    half = s.count // 2
    assert same_bits(s.run(order[:half]) | s.run(order[half:]), everyone), "in two batches"
    assert same_bits({k: v for n in range(s.count) for k, v in s.run([n]).items()}, everyone), "one by one"
    doubled = [*range(s.count), *order]
    twice = dispatch.batch(s.model, [[c[k] for k in doubled] for c in s.columns], s.shared)
    for place, k in enumerate(doubled):
        assert bits(twice.errors.get(place) or twice.results[place]) == bits(everyone[k]), "each twice"


@pytest.mark.parametrize(("switch", "name"), squares(BITWISE, ["chain", "random 200"]))
def test_options_change_no_bit(subjects: Callable[[str], Subject], name: str, switch: str) -> None:
    s = subjects(name)
    everyone = range(s.count)
    assert same_bits(s.run(everyone, **{switch: False}), s.run(everyone))


@pytest.mark.parametrize("name", ["tree_lstm", "random 6"])
@pytest.mark.parametrize(
    "options", [{"schedule": "agenda"}, {"threads": 1}, {"threads": 3}, {"blocks": False}], ids=str
)
def test_schedules_threads_and_blocks_change_no_bit(
    subjects: Callable[[str], Subject], name: str, options: dict[str, Any]
) -> None:
    s = subjects(name)
    everyone = range(s.count)
    assert same_bits(s.run(everyone, **options), s.run(everyone))


@pytest.mark.parametrize("name", ["tree_lstm", "chain"])
@pytest.mark.parametrize("switch", ["reuse", "duplicate"])
def test_reuse_and_duplicate_change_only_rounding(subjects: Callable[[str], Subject], name: str, switch: str) -> None:
    s = subjects(name)
    check = s.model.with_options(**{switch: False}).check(*s.columns, **s.shared)
    assert check.ok, check


def test_a_schedule_of_the_users_own_changes_no_bit(subjects: Callable[[str], Subject]) -> None:
    s = subjects("chain")

    def one_by_one(columns: Any) -> Any:
        return np.arange(len(columns["kernel"]), dtype=np.int32)

    assert same_bits(s.run(range(s.count), schedule=one_by_one), s.run(range(s.count)))
    check_trace(s.model.with_options(schedule=one_by_one).trace(*s.columns, **s.shared), by_depth=False)


@EVERY
def test_nan_stays_in_its_instance(subjects: Callable[[str], Subject], name: str) -> None:
    s = subjects(name)

    def poisoned(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return np.full_like(value, np.nan)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(value, **{n: poisoned(v) for n, v in vars(value).items()})
        return [poisoned(v) for v in value] if isinstance(value, list) else value

    everyone = s.run(range(s.count))
    bad = s.count // 2
    columns = [[poisoned(v) if k == bad else v for k, v in enumerate(c)] for c in s.columns]
    done = Subject(s.model, columns, s.shared).run(range(s.count))
    del done[bad], everyone[bad]
    assert same_bits(done, everyone)


@EVERY
def test_packed_instances_give_the_same_bits(subjects: Callable[[str], Subject], name: str) -> None:
    from acronumba import pack

    s = subjects(name)
    packed = Subject(s.model, [pack(c) for c in s.columns], s.shared)
    done = dispatch.batch(packed.model, packed.columns, s.shared)
    assert isinstance(done.results, Results)
    everyone = s.run(range(s.count))
    assert {k: bits(v) for k, v in everyone.items()} == {
        k: bits(done.errors.get(k) or done.results[k]) for k in range(s.count)
    }


def test_models_of_these_tests_are_models(subjects: Callable[[str], Subject]) -> None:
    assert all(isinstance(subjects(name).model, Model) for name in NAMES)
