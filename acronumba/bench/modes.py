"""The measurements of `acronumba bench` as a table: a `Mode` is one of them.

In: arguments of the command line. Out: `MODES`, those of an installed copy: the speed of the zoo.
`acronumba_bench.modes` of a checkout has the same table with all rows.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.console import RenderableType

from acronumba.bench import speed
from acronumba.bench.instruments import Instruments, installed
from acronumba.bench.view import speeds_view
from acronumba.bench.workloads import WAITING, ZOO, Workload

Step = Callable[[int, str], None]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode(Generic[Result]):
    """A measurement: its subjects, defaults of its arguments, and its functions."""

    subjects: Callable[[Namespace], Mapping[str, str]]  # names of workloads or sets of lengths, each with its purpose
    default: Callable[[Namespace], Sequence[str]]  # those that are measured if none are named
    batches: Sequence[int] = (64,)
    rounds: int = 15
    in_child: bool = False  # in a process of its own, where NumPy reads its number of threads
    steps: Callable[[Namespace, Sequence[str]], int]  # calls of `step`
    measure: Callable[[Namespace, Sequence[str], Step], Result]  # of the named subjects
    view: Callable[[Result, int], RenderableType]  # of a result, in so many columns
    plot: Callable[[Result, str], object] | None = None
    failed: Callable[[Result], bool] = lambda result: False  # whether the exit status is 1


def speed_of(
    workloads: Mapping[str, Workload], default: Sequence[Workload], make: Callable[[], Instruments]
) -> Mode[speed.Speeds]:
    """Return the measurement of speed."""

    def measure(args: Namespace, names: Sequence[str], step: Step) -> speed.Speeds:
        return speed.measure(
            [workloads[name] for name in names],
            make(),
            sizes=args.size,
            batches=args.batch,
            trees=args.trees,
            rounds=args.rounds,
            threads=args.threads,
            device=args.device,
            step=step,
        )

    return Mode(
        subjects=lambda args: {name: w.why for name, w in workloads.items()},
        default=lambda args: [w.name for w in default],
        in_child=True,
        steps=lambda args, names: len(names) * len(args.size) * len(args.batch),
        measure=measure,
        view=lambda result, width: speeds_view(result),
        failed=lambda result: any(row.wrong for row in result.rows),
    )


_MODELS = {w.name: w for w in (*ZOO, *WAITING)}
MODES: Mapping[str, Mode[Any]] = {"speed": speed_of(_MODELS, (*ZOO, *WAITING), installed)}
