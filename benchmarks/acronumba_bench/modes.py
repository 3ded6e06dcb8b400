"""All measurements of `acronumba bench`: the table of `acronumba.bench.modes` with the rows that a checkout has."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from acronumba.bench.modes import Mode, Step, speed_of
from acronumba.bench.run import CHILD
from acronumba.bench.workloads import WAITING, ZOO, Workload
from acronumba_bench import ablate, costs, lengths, ragged, scaling, starts, torch_modules, training, views
from acronumba_bench.instruments import all_there_are
from acronumba_bench.lessons import LESSONS
from acronumba_bench.workloads import WORKLOADS


def _workloads(names: Sequence[str]) -> list[Workload]:
    return [WORKLOADS[name] for name in names]


def _why(args: Namespace) -> dict[str, str]:
    return {name: w.why for name, w in WORKLOADS.items()}


def _zoo(args: Namespace) -> list[str]:
    return [w.name for w in (*ZOO, *WAITING)]


def _of_all(args: Namespace, names: Sequence[str]) -> int:
    return len(names) * len(args.size) * len(args.batch)


def _of_sizes(args: Namespace, names: Sequence[str]) -> int:
    return len(names) * len(args.size)


def _given(args: Namespace, *names: str) -> dict[str, Any]:
    """Return arguments of the command line by the names of the parameters of `measure`."""
    parameter = {"size": "sizes", "batch": "batches"}
    return {parameter.get(name, name): getattr(args, name) for name in names}


def _ablate(args: Namespace, names: Sequence[str], step: Step) -> ablate.Ablation:
    (size,), (batch,) = args.size, args.batch
    given = {"size": size, "batch": batch, "count": args.rounds, **_given(args, "trees", "threads")}
    return ablate.ablate(_workloads(names), step=step, **given)


def _scaling(args: Namespace, names: Sequence[str], step: Step) -> scaling.Scaling:
    given = _given(args, "size", "batch", "trees", "rounds", "threads")
    return scaling.measure(_workloads(names), step=step, **given)


def _starts(args: Namespace, names: Sequence[str], step: Step) -> starts.Starts:
    (batch,) = args.batch
    return starts.measure(_workloads(names), sizes=args.size, batch=batch, step=step)


def _costs(args: Namespace, names: Sequence[str], step: Step) -> costs.Costs:
    return costs.measure(_workloads(names), step=step, **_given(args, "size", "batch", "trees", "rounds"))


def _train(args: Namespace, names: Sequence[str], step: Step) -> training.Steps:
    if CHILD in os.environ and hasattr(os, "sched_setaffinity"):  # our updates have no setting for their threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-args.threads :])
    given = _given(args, "size", "batch", "trees", "rounds", "threads")
    return training.measure([LESSONS[name] for name in names], step=step, **given)


def _sets(args: Namespace) -> dict[str, str]:
    found = {name: f"lengths of {path or 'docstrings'}" for name, path in lengths.sets(args.lengths).items()}
    return {**found, ragged.ALONE: "attention alone, sentences of one length"}


def _ragged_steps(args: Namespace, names: Sequence[str]) -> int:
    alone = ragged.ALONE in names
    return (len(names) - alone) * len(args.size) * len(args.batch) + alone * len(ragged.LENGTHS)


def _ragged(args: Namespace, names: Sequence[str], step: Step) -> ragged.Ragged:
    sets = lengths.load(args.lengths, [name for name in names if name != ragged.ALONE])
    given = _given(args, "size", "batch", "rounds", "threads")
    return ragged.measure(sets, attention=ragged.ALONE in names, step=step, **given)


def _torch(args: Namespace, names: Sequence[str], step: Step) -> torch_modules.ModuleSpeeds:
    return torch_modules.measure(names, step=step, **_given(args, "size", "batch", "rounds", "threads"))


def _any_wrong(result: training.Steps | ragged.Ragged | torch_modules.ModuleSpeeds) -> bool:
    return any(row.wrong for row in result.rows)


MODES: Mapping[str, Mode[Any]] = {
    "speed": speed_of(WORKLOADS, (*ZOO, *WAITING), all_there_are),
    "ablate": Mode(
        subjects=_why,
        default=lambda args: [w.name for w in WORKLOADS.values() if not w.waits],
        steps=lambda args, names: len(names) * len(ablate.variants()),
        measure=_ablate,
        view=views.ablation_view,
        plot=views.plot,
        failed=lambda result: any(o.verdict == "costs" for o in result.options),
    ),
    "scaling": Mode(
        subjects=_why,
        default=_zoo,
        batches=scaling.BATCHES,
        steps=_of_sizes,
        measure=_scaling,
        view=lambda result, width: views.scaling_view(result),
        plot=views.plot_scaling,
    ),
    "starts": Mode(
        subjects=_why,
        default=_zoo,
        batches=(8,),
        steps=_of_sizes,
        measure=_starts,
        view=lambda result, width: views.starts_view(result),
    ),
    "costs": Mode(
        subjects=_why,
        default=_zoo,
        steps=_of_sizes,
        measure=_costs,
        view=lambda result, width: views.costs_view(result),
    ),
    "train": Mode(
        subjects=lambda args: {name: lesson.workload.why for name, lesson in LESSONS.items()},
        default=lambda args: list(LESSONS),
        in_child=True,
        steps=_of_all,
        measure=_train,
        view=lambda result, width: views.training_view(result),
        failed=_any_wrong,
    ),
    "torch": Mode(
        subjects=lambda args: torch_modules.MODULES,
        default=lambda args: list(torch_modules.MODULES),
        in_child=True,
        steps=_of_all,
        measure=_torch,
        view=lambda result, width: torch_modules.modules_view(result),
        failed=_any_wrong,
    ),
    "ragged": Mode(
        subjects=_sets,
        default=lambda args: list(_sets(args)),
        batches=(32,),
        rounds=5,
        in_child=True,
        steps=_ragged_steps,
        measure=_ragged,
        view=lambda result, width: views.ragged_view(result),
        failed=_any_wrong,
    ),
}
