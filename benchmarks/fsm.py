"""A learned schedule, for comparison: ED-Batch's finite state machine (Chen et al., ICML 2023).

In: the columns that a user's `schedule` gets. Out: a policy, which is itself such a function, so that any model can be
run with it: `f.with_options(schedule=learn([columns]))`; `columns_of` records the columns of a mini-batch.

The state is what is ready: the keys, sorted by how many nodes of each (S_sort of the paper). An action runs all ready
nodes of a key and is rewarded by -1 plus a share of the nodes that are ready of those that no node of their own key
is in the way of. The table of values is learned on one mini-batch, by 10-step Q-learning with exploration, and is
then followed greedily on others; in a state that it has not seen, the key of the best reward runs. This is a
re-implementation from the paper. It is slow, and no option of models: `lookahead` finds fewer batches without
learning.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Columns: TypeAlias = Mapping[str, NDArray[Any]]
State: TypeAlias = tuple[int, ...]

_SHARE = 0.5  # weight of the share of ready nodes in the reward
_RATE = 0.2  # of learning
_STEPS = 10  # that are looked ahead by a reward
_EXPLORE = 0.3  # probability of a random action at the beginning; falls to 0


class _Run:
    """A graph that is being scheduled."""

    def __init__(self, columns: Columns) -> None:
        keys, first, source = (columns[name].tolist() for name in ("key", "first", "operand"))
        self.keys: list[int] = keys
        self.readers: list[list[int]] = [[] for _ in keys]  # of each node
        self.waits = [first[v + 1] - first[v] for v in range(len(keys))]
        self.followers: list[list[int]] = [[] for _ in keys]  # next nodes of its own key
        self.held = [0] * len(keys)  # nodes of its own key that are in the way
        near: list[dict[int, frozenset[int]]] = []  # of each key, the last nodes on paths that end here
        for v, key in enumerate(keys):
            here: dict[int, frozenset[int]] = {}
            for u in source[first[v] : first[v + 1]]:
                self.readers[u].append(v)
                for k, nodes in near[u].items():
                    here[k] = here.get(k, frozenset()) | nodes
            self.held[v] = len(here.get(key, ()))
            for u in here.get(key, ()):
                self.followers[u].append(v)
            near.append({**here, key: frozenset((v,))})
        self.ready: dict[int, list[int]] = {}
        self.free: dict[int, int] = {}  # of each key: nodes that no other of their key is in the way of
        for v, key in enumerate(keys):
            if not self.waits[v]:
                self.ready.setdefault(key, []).append(v)
            self.free[key] = self.free.get(key, 0) + (not self.held[v])
        self.batches: list[list[int]] = []

    def state(self) -> State:
        return tuple(sorted(self.ready, key=lambda k: (-len(self.ready[k]), k)))

    def reward(self, key: int) -> float:
        return _SHARE * len(self.ready[key]) / self.free[key] - 1

    def run(self, key: int) -> None:
        nodes = self.ready.pop(key)
        self.batches.append(nodes)
        self.free[key] -= len(nodes)
        for v in nodes:
            for u in self.readers[v]:
                self.waits[u] -= 1
                if not self.waits[u]:
                    self.ready.setdefault(self.keys[u], []).append(u)
            for u in self.followers[v]:
                self.held[u] -= 1
                self.free[key] += not self.held[u]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A schedule: call it with columns."""

    values: dict[State, dict[int, float]] = field(default_factory=dict)

    def choose(self, run: _Run) -> int:
        """Return the key to run next."""
        known = self.values.get(run.state(), {})
        if known:
            return max(known, key=lambda k: known[k])
        return max(sorted(run.ready), key=run.reward)

    def __call__(self, columns: Columns) -> NDArray[np.int32]:
        run = _Run(columns)
        while run.ready:
            run.run(self.choose(run))
        levels = np.zeros(len(run.keys), np.int32)
        for number, nodes in enumerate(run.batches):
            levels[nodes] = number
        return levels


def learn(graphs: Sequence[Columns], episodes: int = 300, at_least: int = 0, seed: int = 0) -> Policy:
    """Return the policy that did best on the graphs.

    Parameters
    ----------
    graphs
        Columns of mini-batches, which take turns.
    episodes
        How often one of them is scheduled.
    at_least
        Stop when the graphs together take no more batches than this.
    seed
        Of the exploration.
    """
    rng = random.Random(seed)
    learner, best = Policy(), Policy()
    fewest = sum(len(g["key"]) for g in graphs) + 1
    for episode in range(episodes):
        if fewest <= at_least:
            break
        run = _Run(graphs[episode % len(graphs)])
        path: list[tuple[State, int, float]] = []
        while run.ready:
            explores = rng.random() < _EXPLORE * (1 - episode / episodes)
            key = rng.choice(sorted(run.ready)) if explores else learner.choose(run)
            path.append((run.state(), key, run.reward(key)))
            run.run(key)
        for t in reversed(range(len(path))):
            state, key, _ = path[t]
            goal = sum(reward for _, _, reward in path[t : t + _STEPS])
            if t + _STEPS < len(path):
                goal += max(learner.values[path[t + _STEPS][0]].values())
            known = learner.values.setdefault(state, {})
            known[key] = known.get(key, goal) + _RATE * (goal - known.get(key, goal))
        if episode % 10 == 9 or episode == episodes - 1:
            count = sum(int(learner(g).max(initial=-1)) + 1 for g in graphs)
            if count < fewest:
                fewest, best = count, Policy(values={s: dict(v) for s, v in learner.values.items()})
    return best


def columns_of(model: Any, *columns: Sequence[Any], **shared: Any) -> Columns:
    """Return the columns of a mini-batch of a model."""
    seen: list[Columns] = []

    def look(given: Columns) -> NDArray[np.int32]:
        seen.append(given)
        return Policy()(given)

    schedule: Callable[[Columns], NDArray[np.int32]] = look
    model.with_options(schedule=schedule).batch(*columns, **shared)
    return seen[0]
