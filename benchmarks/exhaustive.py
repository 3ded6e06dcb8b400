"""What the default strategy and the tuned one are worth against the best that brute force finds, kernel by kernel.

    python benchmarks/exhaustive.py [--models NAME ...] [--size SIZE ...] [--batch N ...] [--json FILE]

All strategies that `acronumba tune` chooses from, further constants that decide (`BEYOND`), and pairs of what looks
better than the default run in turns in one process, on one thread, by its clock: batch by batch, so that each kernel
has times of its own. The least of many noisy times looks better than it is: what is best for a kernel in the first
turns is measured again, in fresh turns, beside the default and what `tune` chooses for that number of instances. Those
turns alone say how far both are from the best. Strategies that make other kernels count for the mini-batch as a whole.

Last come the seconds of measuring that tuning takes: as `tune` does it, mini-batch by mini-batch, and for each number
of rows that a kernel meets alone, both from the times of the default and by the turns that `tune` takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from acronumba import pack  # noqa: E402
from acronumba.bench import tune_model  # noqa: E402
from acronumba.bench.batch_times import by_thread, time_to_stop  # noqa: E402
from acronumba.bench.measure import Ratio, machine, ratio  # noqa: E402
from acronumba.bench.tune_model import CANDIDATES, Variant, text_of, variant  # noqa: E402
from acronumba.bench.workloads import (  # noqa: E402
    ZOO,
    Workload,
    inputs,
)
from acronumba.tuned import Choice  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

BEYOND: Mapping[str, Mapping[str, Any]] = {
    "nothing fetched ahead": {"prefetch": False},
    "tiles of 4 rows": {"tile_rows": 4},
    "tiles of 8 rows": {"tile_rows": 8},
    "panels of two gates": {"gates": 2},
    "no larger blocks for large weights": {"heavy_bytes": 1 << 39},
    "large blocks from 1 MB of weights": {"heavy_bytes": 1 << 20},
    "cheap values stored": {"dear": 3},
}
WHOLE = ""  # the name of all kernels of a mini-batch together
DEFAULT, TUNED = "default", "tuned"
LOOKS = 0.985  # times the default in the first turns: worth a pair
PAIRS = 3  # of what looks better, for each number of instances
SHORT = 2e-3  # seconds: what takes less is repeated until it takes this, three times at most
WITHIN = {DEFAULT: 1.06, TUNED: 1.03}  # times the best that is wanted
SHARE = 0.01  # of a mini-batch: kernels that take less are not counted in the summary

Times = dict[str, list[float]]  # by kernel, of each turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A kernel, or all of a mini-batch, at a number of instances."""

    model: str
    size: str | int
    instances: int
    kernel: str
    seconds: float  # of the default
    share: float  # of the mini-batch
    best: str  # of what was tried; `DEFAULT` if fresh turns do not say that another is better
    default: Ratio  # times the best, in fresh turns
    tuned: Ratio | None  # None: it has other kernels
    chosen: str  # by `tune`


@dataclass(slots=True)
class Tuning:
    """Seconds of measuring."""

    together: float = 0.0  # mini-batch by mini-batch
    apart: float = 0.0  # for each number of rows alone
    shapes: int = 0  # kernels and numbers of rows
    measured: float = 0.0  # that `tune` took, all included


@dataclass(slots=True)
class Case:
    """A model of a size with the strategies that generate different code."""

    workload: Workload
    size: str | int
    shared: dict[str, Any]
    instances: Any
    variants: list[Variant] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    kernels: dict[str, dict[str, object]] = field(default_factory=dict)  # by strategy: what each kernel computes

    def columns(self, n: int) -> list[Any]:
        """Return the packed instances of a mini-batch."""
        return [pack(self.instances[:n])]

    def add(self, name: str, changes: Mapping[str, Any], again: bool = False) -> Variant | None:
        """Add a strategy if its code is new, or `again`; return it."""
        columns = self.columns(1)
        one = variant(self.workload.model, name, changes, columns, self.shared)
        text = text_of(one, columns, self.shared)
        if text in self.texts and not again:
            return None
        self.texts.add(text)
        trace = one.model.trace(*columns, **self.shared).data
        self.kernels[name] = dict(zip(trace.kernels, trace.specs, strict=True))
        return one

    def seconds(self, one: Variant, columns: Sequence[Any], stop: float, repeats: int) -> dict[str, float]:
        """Return what each kernel takes in a mini-batch, and all: the least of some runs after an untimed one."""
        one.model.batch(*columns, **self.shared)
        runs = []
        for _ in range(repeats):
            out: dict[str, float] = defaultdict(float)
            with by_thread():
                records = one.model.trace(*columns, **self.shared).data.batches
            for r in records:
                took = max((r.seconds or 0.0) - stop, 1e-7)
                out[r.kernel] += took
                out[WHOLE] += took
            runs.append(out)
        return {name: min(run[name] for run in runs) for name in runs[0]}

    def turns(
        self, variants: Sequence[Variant], columns: Sequence[Any], stop: float, count: int, budget: float
    ) -> dict[str, Times]:
        """Return the seconds of each strategy and kernel in so many turns, fewer if they are slow."""
        start = time.perf_counter()
        once = [self.seconds(v, columns, stop, 1)[WHOLE] for v in variants]
        passed = time.perf_counter() - start
        repeats = min(3, max(1, math.ceil(SHORT / max(min(once), 1e-7))))
        count = max(3, min(count, int(budget / max(passed * repeats, 1e-9))))
        out: dict[str, Times] = {v.name: defaultdict(list) for v in variants}
        for k in range(count):
            for v in variants if k % 2 == 0 else reversed(variants):
                for name, took in self.seconds(v, columns, stop, repeats).items():
                    out[v.name][name].append(took)
        return out

    def comparable(self, name: str, kernel: str) -> bool:
        """Whether a strategy has a kernel that computes what the default's of that name does."""
        if kernel == WHOLE:
            return True
        mine, other = self.kernels[DEFAULT], self.kernels[name]
        return mine.keys() == other.keys() and mine[kernel] == other[kernel]


def looks(times: Mapping[str, Times], name: str, kernel: str) -> float:
    """Return how many times as long as the default a strategy took, in the median of turns."""
    pairs = zip(times[name][kernel], times[DEFAULT][kernel], strict=True)
    return statistics.median(a / b for a, b in pairs)


def best_of(case: Case, times: Mapping[str, Times], kernel: str) -> str:
    """Return the strategy that is best for a kernel in some turns."""
    names = [name for name in times if case.comparable(name, kernel)]
    return min(names, key=lambda name: looks(times, name, kernel))


def pairs_of(case: Case, times: Mapping[str, Times], variants: Iterable[Variant]) -> list[Variant]:
    """Return new strategies: two changes at once of those that look better than the default for a mini-batch."""
    good = sorted((looks(times, v.name, WHOLE), v.name, v.changes) for v in variants if v.changes)
    good = [one for one in good if one[0] < LOOKS]
    out: list[Variant] = []
    for (_, a, first), (_, b, second) in itertools.combinations(good, 2):
        if len(out) < PAIRS and not first.keys() & second.keys():
            made = case.add(f"{a}, {b}", {**first, **second})
            out += [made] if made is not None else []
    return out


def verdict(fresh: Mapping[str, Times], kernel: str, found: str, has_tuned: bool) -> tuple[str, Ratio, Ratio | None]:
    """Return what is best in fresh turns, and how many times as long the default and the tuned strategy take."""
    if looks(fresh, found, kernel) >= 1.0:
        found = DEFAULT
    best = fresh[found][kernel]
    tuned = ratio(fresh[TUNED][kernel], best) if has_tuned else None
    return found, ratio(fresh[DEFAULT][kernel], best), tuned


def cost_of_turns(seconds: float, variants: int) -> float:
    """Return the seconds that `tune` takes to measure: all strategies, then one of them again beside the default."""
    out = 0.0
    for many, count in ((variants, tune_model._SCREEN), (2, tune_model._VALIDATE)):
        repeats = max(1, math.ceil(tune_model._SHORT / seconds))
        count = max(5, min(count, int(tune_model._SECONDS / (seconds * many * (1 + repeats)))))
        out += seconds * many * (2 + count * (1 + repeats))
    return out


def measure(case: Case, n: int, chosen: Choice, args: argparse.Namespace, stop: float) -> list[Row]:
    """Return what there is to say of a number of instances."""
    columns = case.columns(n)
    first = case.turns(case.variants, columns, stop, args.turns, args.seconds)
    more = pairs_of(case, first, case.variants)
    if more:
        second = case.turns([case.variants[0], *more], columns, stop, args.turns, args.seconds)
        for v in more:
            for kernel, xs in second[v.name].items():
                if case.comparable(v.name, kernel):  # by the default of their own turns, which may be fewer
                    ratios = itertools.cycle(x / y for x, y in zip(xs, second[DEFAULT][kernel], strict=True))
                    first.setdefault(v.name, {})[kernel] = [next(ratios) * y for y in first[DEFAULT][kernel]]
    total = statistics.median(first[DEFAULT][WHOLE])
    shares = {kernel: statistics.median(xs) / total for kernel, xs in first[DEFAULT].items()}
    found = {kernel: best_of(case, first, kernel) for kernel in shares}
    wanted = {found[kernel] for kernel, share in shares.items() if share >= SHARE} - {DEFAULT}
    tuned = case.add(TUNED, chosen.changes, again=True)
    assert tuned is not None
    again = [v for v in (*case.variants, *more) if v.name in wanted | {DEFAULT}]
    fresh = case.turns([*again, tuned], columns, stop, args.fresh, args.seconds)
    rows = []
    for kernel, share in shares.items():
        name = found[kernel] if found[kernel] in fresh else DEFAULT
        best, default, ours = verdict(fresh, kernel, name, case.comparable(TUNED, kernel))
        rows.append(
            Row(
                model=case.workload.name, size=case.size, instances=n, kernel=kernel, share=share, best=best,
                seconds=statistics.median(first[DEFAULT][kernel]), default=default, tuned=ours, chosen=chosen.name,
            )
        )  # fmt: skip
    return rows


def shapes_of(case: Case, n: int, stop: float) -> dict[tuple[str, int], float]:
    """Return the seconds of the default for each kernel and number of rows in a mini-batch."""
    with by_thread():
        records = case.variants[0].model.trace(*case.columns(n), **case.shared).data.batches
    return {(r.kernel, r.rows or r.size): max((r.seconds or 0.0) - stop, 1e-7) for r in records}


def told(row: Row) -> str:
    """Return a line of the table."""
    default, tuned = row.default, f"{row.tuned.median:6.3f}" if row.tuned is not None else "     -"
    return (
        f"{row.model:21} {row.size!s:>5} {row.instances:4} {row.kernel or '(all)':20} {1e6 * row.seconds:9.1f} us"
        f" {row.share:5.0%} {default.median:6.3f} ({default.low:.3f} to {default.high:.3f}) {tuned}  {row.best}"
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """Return how many kernels are how far from the best."""
    out = []
    counted = [row for row in rows if row.share >= SHARE]
    for name, most in WITHIN.items():
        for what, some in (
            ("kernels", [row for row in counted if row.kernel != WHOLE]),
            ("mini-batches", [row for row in counted if row.kernel == WHOLE]),
        ):
            far = [r.median for row in some if (r := row.default if name == DEFAULT else row.tuned) is not None]
            if far:
                good = sum(x <= most for x in far)
                out.append(
                    f"{name}: {good} of {len(far)} {what} within {most - 1:.0%} of the best that was found; "
                    f"median {statistics.median(far):.3f}, most {max(far):.3f}"
                )
    return out


def run(workload: Workload, size: str | int, args: argparse.Namespace, stop: float, tuning: Tuning) -> list[Row]:
    """Measure a model of a size."""
    xs, p = inputs(workload, size, max(args.batch), None)
    case = Case(workload=workload, size=size, shared={"p": pack(p)}, instances=xs)
    for name, changes in {DEFAULT: {}, **CANDIDATES, **BEYOND}.items():
        made = case.add(name, changes)
        if made is not None:
            case.variants.append(made)
    start = time.thread_time()
    choices = tune_model.tune(workload.model, {n: case.columns(n) for n in args.batch}, case.shared)
    tuning.measured += time.thread_time() - start
    rows, shapes = [], dict[tuple[str, int], float]()
    for n, chosen in zip(sorted(set(args.batch)), choices, strict=True):
        tried = 1 + len(chosen.tried)
        rows += measure(case, n, chosen, args, stop)
        mine = shapes_of(case, n, stop)
        tuning.together += cost_of_turns(sum(mine.values()), tried)
        tuning.apart += sum(cost_of_turns(t, tried) for shape, t in mine.items() if shape not in shapes)
        shapes |= mine
    tuning.shapes += len(shapes)
    return rows


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [w.name for w in ZOO]
    parser.add_argument("--models", nargs="+", default=names, choices=[*WORKLOADS], metavar="NAME")
    parser.add_argument("--size", nargs="+", default=["small", "large"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--turns", type=int, default=5, help="in which the best is looked for")
    parser.add_argument("--fresh", type=int, default=15, help="in which it is compared")
    parser.add_argument("--seconds", type=float, default=5.0, help="that the turns of one comparison take, about")
    parser.add_argument("--share", type=float, default=0.1, help="of a mini-batch, of kernels that get a line")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(given)
    stop, rows, tuning, begun = time_to_stop(), list[Row](), Tuning(), time.perf_counter()
    todo = [(w, s) for s in args.size for w in map(WORKLOADS.__getitem__, args.models)]
    print("model, size, instances, kernel: time of the default, its share, times the best; tuned; which is best")
    for k, (workload, size) in enumerate(todo):
        passed = time.perf_counter() - begun
        print(f"[{k + 1} of {len(todo)}, {passed:.0f} s] {workload.name}, {size}", file=sys.stderr, flush=True)
        found = run(workload, int(size) if size.isdecimal() else size, args, stop, tuning)
        print("\n".join(told(row) for row in found if row.share >= args.share), flush=True)
        rows += found
        if args.json:  # as far as it is: an interrupted run is worth something
            told_of = {"tuning": dataclasses.asdict(tuning), "rows": [*map(dataclasses.asdict, rows)]}
            text = {"machine": machine(), **told_of}
            args.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    print("\n".join(summary(rows)))
    print(
        f"measuring takes {tuning.together:.0f} s mini-batch by mini-batch, and {tuning.apart:.0f} s, "
        f"{tuning.apart / max(tuning.together, 1e-9):.1f} times as long, for {tuning.shapes:,} numbers of rows of "
        f"kernels alone; `tune` took {tuning.measured:.0f} s in all"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
