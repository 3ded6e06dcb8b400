"""The figures of this machine: costs of tiles, copies, loops and functions, fitted to measured kernels.

In: nothing. Out: `Figures`, or nothing if they are no better than the present ones. An estimate is a sum of figures,
each times a count (`kernels.cost`), so that the figures can be fitted to the times of kernels of a few models, at
several numbers of instances. They are fitted to one half of the turns and tested on the other: a fit that does not
improve the estimates there is rejected.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba import pack
from acronumba.bench.batch_times import estimated, time_to_stop, timed_batches
from acronumba.bench.workloads import ZOO, inputs
from acronumba.kernels.cost import of_kernel
from acronumba.kernels.figures import figures_for
from acronumba.strategy import DEFAULT, Figures, Strategy

Floats: TypeAlias = NDArray[np.float64]

MODELS = ("tree_lstm", "birnn", "bilstm_tagger", "mv_rnn", "graph_rnn_emulated", "decoder_emulated")
INSTANCES = (1, 8, 64)
ROUNDS = 7  # runs, twice
NAMES = tuple(f.name for f in dataclasses.fields(Figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Result of the fit."""

    figures: Figures
    before: float  # median factor of error of the estimates, on held-out turns
    after: float
    kernels: int

    @property
    def better(self) -> bool:
        """Whether the figures are worth keeping."""
        return self.after < self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Kernels in mini-batches: the counts of their estimates, and their measured times."""

    counts: Floats  # [kernels, figures]: count of each figure
    first: Floats  # seconds, in one half of the turns
    second: Floats  # in the other


def measure(
    models: Sequence[str] = MODELS,
    instances: Sequence[int] = INSTANCES,
    size: str | int = "small",
    rounds: int = ROUNDS,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Fitted:
    """Measure the machine, on one thread.

    Parameters
    ----------
    models
        Names of models of the zoo whose kernels are measured.
    instances
        Of each mini-batch.
    size
        Of the models.
    rounds
        Runs of each mini-batch in each half.
    step
        Called with the number of finished steps and a text for the next one.
    """
    stop = time_to_stop()
    rows: dict[tuple[str, int, str], list[Floats | float]] = {}
    for name in models:
        step(1, name)
        for n in instances:
            for key, row in _rows(name, n, size, rounds, stop).items():
                rows[name, n, key] = row
    table = list(rows.values())
    known = Counted(
        counts=np.array([row[0] for row in table]),
        first=np.array([row[1] for row in table]),
        second=np.array([row[2] for row in table]),
    )
    begin = figures_for(DEFAULT)
    found = fit(known, begin)
    return Fitted(figures=found, before=_wrong(known, begin), after=_wrong(known, found), kernels=len(table))


def _rows(name: str, n: int, size: str | int, rounds: int, stop: float) -> dict[str, list[Floats | float]]:
    """Return for each kernel of a mini-batch its counts, and its seconds in two halves of the turns."""
    workload = next(w for w in ZOO if w.name == name)
    xs, p = inputs(workload, size, n, None)
    one, packed, shared = workload.model.with_options(threads=1), pack(xs), pack(p)
    halves = [timed_batches(one, packed, shared, rounds, stop) for _ in range(2)]
    units = [Strategy(figures=Figures(**{k: float(k == name) for k in NAMES})) for name in NAMES]
    estimates = {spec.name: [of_kernel(spec, unit) for unit in units] for _, spec, _ in halves[0]}
    out: dict[str, list[Floats | float]] = defaultdict(lambda: [np.zeros(len(NAMES)), 0.0, 0.0])
    for (record, spec, first), (_, _, second) in zip(*halves, strict=True):
        row = out[spec.name]
        row[0] = row[0] + np.array([estimated(record, each) for each in estimates[spec.name]])
        row[1], row[2] = row[1] + first, row[2] + second
    return out


def fit(known: Counted, begin: Figures) -> Figures:
    """Return the figures that minimise the mean error of the estimates, as a factor, on the first half.

    A small penalty keeps figures that the kernels do not determine near their start. The search is by coordinate
    descent with shrinking steps.
    """
    start = np.array([getattr(begin, name) for name in NAMES])

    def loss(figures: Floats) -> float:
        wrong = np.abs(np.log(known.counts @ figures / known.first))
        kept = np.log(figures / start) ** 2
        return float(np.where(wrong < 0.25, 2 * wrong**2, wrong - 0.125).sum() + 0.02 * kept.sum())

    found, best, by = start.copy(), loss(start), 0.5
    while by > 0.005:
        before = best
        for k in range(len(NAMES)):
            for factor in (math.exp(by), math.exp(-by)):
                tried = found.copy()
                tried[k] *= factor
                if (now := loss(tried)) < best:
                    found, best = tried, now
        if best == before:
            by /= 2
    return Figures(**{name: float(f"{x:.4g}") for name, x in zip(NAMES, found, strict=True)})


def _wrong(known: Counted, figures: Figures) -> float:
    """Return the median factor of error of the estimates on the second half."""
    each = known.counts @ np.array([getattr(figures, name) for name in NAMES])
    return math.exp(statistics.median(map(float, np.abs(np.log(each / known.second)))))
