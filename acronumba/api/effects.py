"""The effect of each option on a mini-batch: nodes, batches, kernel stages, bytes.

In: options, and a function that records a mini-batch with other options. Out: an `Effect` for every option that can be
switched and for every other schedule. The mini-batch is recorded and scheduled anew for each of them, unless the option
changes only the code of kernels. Nothing is computed, unless the model waits for values and an instance has several
fibers: otherwise the values that a read of a tensor gives are known from the run with the present options. `acronumba
bench --ablate` measures times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acronumba.config import OPTIMISATIONS, SCHEDULES, Options
from acronumba.generics import Value
from acronumba.kernels.account import Account, accountant
from acronumba.views.explained import Count, Effect

if TYPE_CHECKING:
    from acronumba.runtime.trace import TraceData


def accounts(trace: TraceData, options: Options) -> list[list[tuple[Account, int]]]:
    """Return for each batch, per group of nodes with equal extents, the account and the number of nodes or rows."""
    on = options.decisions, None, options.precision
    of = {name: accountant(spec, *on) for name, spec in zip(trace.kernels, trace.specs, strict=True)}
    return [
        [
            (one, b.rows * many // b.size if b.rows else many)
            for one, (_, many) in zip(of[b.kernel](b.extents), b.extents, strict=True)
        ]
        for b in trace.batches
    ]


def count(trace: TraceData, options: Options) -> Count:
    """Return the counts of a trace: nodes and batches as recorded, launches and bytes by `kernels.account`."""
    made = accounts(trace, options)
    return Count(
        schedule=options.schedule if isinstance(options.schedule, str) else "your function",
        nodes=trace.nodes,
        batches=len(trace.batches),
        lower_bound=trace.lower_bound,
        optimal=trace.optimal,
        launches=sum(len(parts[0][0].stages) for parts in made),
        bytes=sum(a.bytes for parts in made for a, _ in parts),
        product_flops=sum(a.product_flops * many for parts in made for a, many in parts),
        rounds=trace.rounds,
    )


def changes(options: Options) -> list[tuple[str, Value]]:
    """Return the single-option changes that `effects` tries: each optimisation, and each other schedule."""
    out: list[tuple[str, Value]] = [(name, not getattr(options, name)) for name in OPTIMISATIONS]
    return out + [("schedule", name) for name in SCHEDULES if name != options.schedule]


def effects(
    options: Options,
    record: Callable[[Options], TraceData],
    step: Callable[[int, str], None] = lambda count, text: None,
) -> tuple[Effect, ...]:
    """Return the counts of a mini-batch with each option changed alone.

    Parameters
    ----------
    options
        The present options.
    record
        Returns the trace of the mini-batch with other options.
    step
        Called with 1 and a text after each option.
    """
    out = []
    for name, value in changes(options):
        changed = options.replace(**{name: value})
        out.append(Effect(option=name, value=value, count=count(record(changed), changed)))
        step(1, f"{name}={value!r}")
    return tuple(out)
