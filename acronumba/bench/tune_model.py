"""Search for the best strategy of a model, by number of instances: by the cost model, then by measurements.

In: a model with instances. Out: a `tuned.Choice` for each range of numbers of instances. A strategy changes how all
kernels are generated (`CANDIDATES`), or leaves out one decision of the analyses about one expression of the model
(`decisions_of`): what is split off a kernel, moved out of a loop, computed for a whole table or by the callee. The
mini-batch is recorded with each strategy, which compiles no kernel: those that are far worse by the cost model are
left, and so are those that generate code which is known. The others must give the bits of the default, and take turns
with it in one process, in CPU time of the thread; the best ones are measured again, on fresh turns. One is chosen if
the whole interval of the ratio is below 1; then others are tried on top of it. The second measurement is needed, since
most gains of 10% in the first turns are noise.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from acronumba.api.model import Model
from acronumba.bench.batch_times import estimated
from acronumba.bench.measure import Ratio, ratio, timed
from acronumba.config import Options
from acronumba.errors.codes import reject
from acronumba.ir.notes import Note
from acronumba.kernels.cost import of_kernel
from acronumba.runtime.trace import TraceData
from acronumba.strategy import Strategy, decision
from acronumba.tuned import Choice, Tried

Changes: TypeAlias = "Mapping[str, Any]"  # fields of `Strategy`

CANDIDATES: Mapping[str, Changes] = {
    "not split": {"split": False},
    "smaller operations split": {"split_worth": 1.0},
    "products in the caller": {"refactor": False},
    "no tables of products": {"table_rows": 0},
    "cheap values computed again": {"dear": 12},
    "blocks of 24 rows": {"rows": 24},
    "blocks of 96 rows": {"rows": 96},
    "blocks of 192 rows": {"rows": 192},
    "panels of one vector": {"panel_vectors": 1},
    "panels of two vectors": {"panel_vectors": 2},
    "functions in one loop": {"long": 1 << 20},
    "panels always in one order": {"turn_bytes": 1 << 39},
}
# What the analyses decide about an expression, by the kind of their notes, and what is done without.
DECISIONS: Mapping[str, str] = {
    "hoisted": "not split at {}",
    "moved": "in each step at {}",
    "once": "not once for all at {}",
    "refactored": "product in the caller of {}",
}
_HOPELESS = 1.25  # times the default that the cost model says
_MOST = 10  # decisions that are measured: the best by the cost model
_SCREEN, _VALIDATE = 7, 25  # turns
_LOOKS = 0.985  # largest ratio in the first turns for a second measurement
_SHORT = 2e-3  # seconds: a shorter run is repeated until it takes this long
_LONG = 0.1  # seconds: of a mini-batch that takes longer, so many instances are measured that it takes about this
_SECONDS = 10.0  # that the turns of one comparison take at most: slow models get fewer
_RECORD, _COMPILE, _SEARCH = 12.0, 25.0, 45.0  # seconds of the process until no more is estimated, compiled, compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The model with a strategy, ready to run a mini-batch."""

    name: str
    changes: Changes
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
    begun = time.process_time()
    default = variant(model, "default", {}, columns, shared)
    took, _ = timed(default.run, time.thread_time)
    if took > _LONG and n > 1:
        n = max(1, int(n * _LONG / took))
        columns = [column[:n] for column in columns]
        default = variant(model, "default", {}, columns, shared)
    base = chosen = default
    left, tried = _promising(default, n, columns, shared, step, begun)
    while left and time.process_time() < begun + _SEARCH:
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
            if time.process_time() > begun + _SEARCH:
                break
            fresh = turns([base, one], _VALIDATE)
            valid = ratio(fresh[one.name], fresh[base.name])
            tried[one.name] = _told(one.name, one.estimate / default.estimate, valid)
            if valid.high < 1.0:
                chosen = base = one
                more = [(v, both(one.changes, v.changes)) for _, v in good if v is not one]
                left = [
                    variant(model, f"{one.name}, {v.name}", changes, columns, shared)
                    for v, changes in more
                    if changes is not None
                ]
                tried.update({v.name: Tried(name=v.name, estimated=v.estimate / default.estimate) for v in left})
                break
    return Choice(most=most, measured=n, name=chosen.name, changes=chosen.changes, tried=tuple(tried.values()))


def _promising(
    default: Variant, n: int, columns: Sequence[Any], shared: Mapping[str, Any], step: Callable[[int, str], None],
    begun: float,
) -> tuple[list[Variant], dict[str, Tried]]:  # fmt: skip
    """Return the strategies that are worth measuring, and the estimates of those there was time for."""
    trace = default.model.trace(*columns, **shared)
    assert trace.ran is not None
    found, tried = [], dict[str, Tried]()
    decisions = decisions_of(trace.ran.compiled.plan.notes)
    for name, changes in {**CANDIDATES, **decisions}.items():
        if name not in decisions:
            step(1, f"{name}, {n} instances")
        if time.process_time() > begun + _RECORD:
            break
        one = _ready(default.model, name, changes, columns, shared)
        recorded = trace.ran.record(one.model.options, trace.data)
        if name in decisions and recorded is trace.data:  # the same plan
            continue
        seconds = estimate_of(recorded, one.model.options)
        tried[name] = Tried(name=name, estimated=seconds / default.estimate)
        if seconds < _HOPELESS * default.estimate:
            found.append(dataclasses.replace(one, estimate=seconds))
    best = sorted((one for one in found if one.name in decisions), key=lambda one: one.estimate)[:_MOST]
    texts, left, wanted = {text_of(default, columns, shared)}, [], bits_of(default.run())
    for one in sorted(found, key=lambda one: one.estimate):
        in_time = time.process_time() < begun + _COMPILE
        text = text_of(one, columns, shared) if in_time and (one.name not in decisions or one in best) else None
        if text in texts:
            del tried[one.name]
        elif text is not None:
            texts.add(text)
            left.append(one)
            if bits_of(one.run()) != wanted:
                raise reject("ACR799", message="a strategy changed the bits of a result", seen=one.name)
    return left, tried


def decisions_of(notes: Iterable[Note]) -> dict[str, Changes]:
    """Return the strategies that leave out one decision of the analyses, by name."""
    names: dict[str, str] = {}
    for note in notes:
        if note.kind in DECISIONS:
            line = f"{note.loc.function} line {note.loc.line}"
            names.setdefault(decision(note.kind, note.loc), DECISIONS[note.kind].format(line))
    many = Counter(names.values())
    return {
        f"{name}, column {key.rpartition(':')[2]}" if many[name] > 1 else name: {"without": (key,)}
        for key, name in names.items()
    }


def both(a: Changes, b: Changes) -> Changes | None:
    """Return two changes at once; None if they are of one parameter."""
    if a.keys() & b.keys() - {"without"}:
        return None
    without = tuple(dict.fromkeys([*a.get("without", ()), *b.get("without", ())]))
    return {**a, **b, **({"without": without} if without else {})}


def bits_of(value: Any) -> Any:
    """Return a result in a form that is equal for two results if all their bits are."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return [(bits_of(k), bits_of(v)) for k, v in value.items()]
    if isinstance(value, Sequence | set) and not isinstance(value, str | bytes):
        return [type(value).__name__, *map(bits_of, value)]
    return bits_of(vars(value)) if hasattr(value, "__dict__") else repr(value)


def _told(name: str, by_model: float, valid: Ratio) -> Tried:
    return Tried(name=name, estimated=by_model, ratio=valid.median, low=valid.low, high=valid.high)


def _median(a: Sequence[float], b: Sequence[float]) -> float:
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def variant(
    model: Model[..., Any], name: str, changes: Changes, columns: Sequence[Any], shared: Mapping[str, Any]
) -> Variant:
    """Return the model with a strategy; it has run once."""
    one = _ready(model, name, changes, columns, shared)
    trace = one.model.trace(*columns, **shared).data
    return dataclasses.replace(one, estimate=estimate_of(trace, one.model.options))


def _ready(
    model: Model[..., Any], name: str, changes: Changes, columns: Sequence[Any], shared: Mapping[str, Any]
) -> Variant:
    """Return the model with a strategy, without an estimate."""
    one = model.with_options(strategy=Strategy(**changes), threads=1)
    return Variant(name=name, changes=changes, model=one, estimate=0.0, run=lambda: one.batch(*columns, **shared))


def estimate_of(trace: TraceData, options: Options) -> float:
    """Return the seconds of the kernels of a mini-batch by the cost model."""
    on = options.decisions, None, options.precision
    estimates = {name: of_kernel(spec, *on) for name, spec in zip(trace.kernels, trace.specs, strict=True)}
    return sum(estimated(record, estimates[record.kernel]) for record in trace.batches)


def text_of(one: Variant, columns: Sequence[Any], shared: Mapping[str, Any]) -> str:
    """Return the code that a strategy generates."""
    stages = one.model.stages(*columns, **shared)
    return "\n".join(stages[name] for name in stages if name == "host" or name.endswith("/cpu"))


def turns(variants: Sequence[Variant], count: int) -> dict[str, list[float]]:
    """Return the seconds of each variant in `count` turns, or fewer if they are slow; the order alternates.

    A turn begins with an untimed run: each variant has weights of its own, which others have driven out of the caches.
    """
    once = {v.name: min(timed(v.run, time.thread_time)[0] for _ in range(2)) for v in variants}
    repeats = max(1, math.ceil(_SHORT / max(min(once.values()), 1e-7)))
    count = max(5, min(count, int(_SECONDS / max(sum(once.values()) * (1 + repeats), 1e-9))))
    out: dict[str, list[float]] = {v.name: [] for v in variants}
    for k in range(count):
        for v in variants if k % 2 == 0 else reversed(variants):
            v.run()
            out[v.name].append(min(timed(v.run, time.thread_time)[0] for _ in range(repeats)))
    return out
