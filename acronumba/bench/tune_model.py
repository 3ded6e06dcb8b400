"""Search for the best strategy of a model, by number of instances: by the cost model, then by measurements.

In: a model with instances. Out: a `tuned.Choice` for each range of numbers of instances. Strategies that generate the
same code as the default are skipped, and those that are far worse by the cost model. The others take turns with the
default in one process, in CPU time of the thread; the best ones are measured again, on fresh turns. One is chosen if
the whole interval of the ratio is below 1; then others are tried on top of it. The second measurement is needed, since
most gains of 10% in the first turns are noise.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acronumba.api.model import Model
from acronumba.bench.batch_times import estimated
from acronumba.bench.measure import Ratio, ratio, timed
from acronumba.kernels.cost import of_kernel
from acronumba.strategy import Strategy
from acronumba.tuned import Choice, Tried

CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "not split": {"split": False},
    "products in the call": {"refactor": True},
    "blocks of 24 rows": {"rows": 24},
    "blocks of 96 rows": {"rows": 96},
    "blocks of 192 rows": {"rows": 192},
    "panels of one vector": {"panel_vectors": 1},
    "panels of two vectors": {"panel_vectors": 2},
    "functions in one loop": {"long": 1 << 20},
    "panels always in one order": {"turn_bytes": 1 << 39},
}
_HOPELESS = 1.5  # times the default that the cost model says
_SCREEN, _VALIDATE = 7, 25  # turns
_LOOKS = 0.985  # largest ratio in the first turns for a second measurement
_SHORT = 2e-3  # seconds: a shorter run is repeated until it takes this long
_SECONDS = 20.0  # that the turns of one comparison take at most: slow models get fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The model with a strategy, ready to run a mini-batch."""

    name: str
    changes: Mapping[str, Any]
    model: Model[..., Any]
    estimate: float  # seconds of the kernels
    run: Callable[[], object]


def tune(
    model: Model[..., Any], columns: Mapping[int, Sequence[Any]], shared: Mapping[str, Any],
    step: Callable[[int, str], None] = lambda n, text: None,
) -> tuple[Choice, ...]:  # fmt: skip
    """Return the best strategies for a model.

    Parameters
    ----------
    model
        The model; its options beside `strategy` and `threads` count.
    columns
        By the number of instances: the packed columns of a call.
    shared
        Its shared values, packed.
    step
        Called with the number of finished steps and a text for the next one.
    """
    sizes = sorted(columns)
    found = []
    for k, n in enumerate(sizes):
        most = int(math.sqrt(n * sizes[k + 1])) if k + 1 < len(sizes) else None
        found.append(_tune_one(model, n, most, columns[n], shared, step))
    return tuple(found)


def _tune_one(
    model: Model[..., Any], n: int, most: int | None, columns: Sequence[Any], shared: Mapping[str, Any],
    step: Callable[[int, str], None],
) -> Choice:  # fmt: skip
    default = variant(model, "default", {}, columns, shared)
    base, chosen, tried = default, default, dict[str, Tried]()
    texts = {text_of(default, columns, shared)}
    left: list[Variant] = []
    for name, changes in CANDIDATES.items():
        step(1, f"{name}, {n} instances")
        one = variant(model, name, changes, columns, shared)
        text = text_of(one, columns, shared)
        if text in texts:
            continue
        texts.add(text)
        by_model = one.estimate / default.estimate
        tried[name] = Tried(name=name, estimated=by_model)
        if by_model < _HOPELESS:
            left.append(one)
    while left:
        screened = turns([base, *left], _SCREEN)
        good = []
        for one in left:
            seen = _median(screened[one.name], screened[base.name])
            if base is default:
                tried[one.name] = dataclasses.replace(tried[one.name], ratio=seen)
            if seen < _LOOKS:
                good.append((seen, one))
        left = []
        for _, one in sorted(good, key=lambda pair: pair[0])[:2]:
            fresh = turns([base, one], _VALIDATE)
            valid = ratio(fresh[one.name], fresh[base.name])
            tried[one.name] = _told(one.name, one.estimate / default.estimate, valid)
            if valid.high < 1.0:
                chosen = base = one
                left = [
                    variant(model, f"{one.name}, {v.name}", {**one.changes, **v.changes}, columns, shared)
                    for _, v in good
                    if v is not one and not one.changes.keys() & v.changes.keys()
                ]
                tried.update({v.name: Tried(name=v.name, estimated=v.estimate / default.estimate) for v in left})
                break
    return Choice(most=most, measured=n, name=chosen.name, changes=chosen.changes, tried=tuple(tried.values()))


def _told(name: str, by_model: float, valid: Ratio) -> Tried:
    return Tried(name=name, estimated=by_model, ratio=valid.median, low=valid.low, high=valid.high)


def _median(a: Sequence[float], b: Sequence[float]) -> float:
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def variant(
    model: Model[..., Any], name: str, changes: Mapping[str, Any], columns: Sequence[Any], shared: Mapping[str, Any]
) -> Variant:
    """Return the model with a strategy; it has run once."""
    one = model.with_options(strategy=Strategy(**changes), threads=1)
    trace = one.trace(*columns, **shared).data
    on = one.options.decisions, None, one.options.precision
    estimates = {name: of_kernel(spec, *on) for name, spec in zip(trace.kernels, trace.specs, strict=True)}
    seconds = sum(estimated(record, estimates[record.kernel]) for record in trace.batches)
    return Variant(name=name, changes=changes, model=one, estimate=seconds, run=lambda: one.batch(*columns, **shared))


def text_of(one: Variant, columns: Sequence[Any], shared: Mapping[str, Any]) -> str:
    """Return the code that a strategy generates."""
    stages = one.model.stages(*columns, **shared)
    return "\n".join(stages[name] for name in stages if name == "host" or name.endswith("/cpu"))


def turns(variants: Sequence[Variant], count: int) -> dict[str, list[float]]:
    """Return the seconds of each variant in `count` turns, or fewer if they are slow; the order alternates."""
    once = {v.name: min(timed(v.run, time.thread_time)[0] for _ in range(2)) for v in variants}
    repeats = max(1, math.ceil(_SHORT / max(min(once.values()), 1e-7)))
    count = max(5, min(count, int(_SECONDS / max(sum(once.values()) * repeats, 1e-9))))
    out: dict[str, list[float]] = {v.name: [] for v in variants}
    for k in range(count):
        for v in variants if k % 2 == 0 else reversed(variants):
            out[v.name].append(min(timed(v.run, time.thread_time)[0] for _ in range(repeats)))
    return out
