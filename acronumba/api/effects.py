"""What each option is worth for a mini-batch: nodes, batches, passes over nodes, bytes.

In: a model and the arguments of a batch. Out: an `Effect` for every option that can be switched and for every other
schedule. The mini-batch is recorded and scheduled anew for each of them, unless the option changes only what is in a
kernel. Nothing is computed, unless the model waits for values: then kernels are compiled. Times are for `acronumba
bench --ablate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acronumba import config
from acronumba.config import Options
from acronumba.kernels.account import accountant
from acronumba.kernels.strategy import Fusion

if TYPE_CHECKING:
    from acronumba.api.model import Model, _Call
    from acronumba.runtime.trace import TraceData

OF_DEPTH = ("phases", "ghosts")  # serve the schedule "depth" alone
OPTIMISATIONS = tuple("reuse duplicate hoist phases ghosts blocks fuse horizontal gather_fusion forkjoin".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a mini-batch comes to under one schedule."""

    schedule: str
    nodes: int
    batches: int
    lower_bound: int  # no schedule of these nodes has fewer batches
    optimal: bool  # proved: there are no fewer
    launches: int  # passes over the nodes of a batch: stages of kernels
    bytes: int  # that these read and write, as if there were no caches
    product_flops: int  # of all products: two for each term
    rounds: int = 1  # 1 + how often all fibers had to wait for values


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A mini-batch recorded with one option changed."""

    option: str  # its name
    value: bool | str  # what it was changed to
    count: Count


def count(trace: TraceData, options: Options) -> Count:
    """Return what a trace comes to: nodes and batches as recorded, launches and bytes by `kernels.account`."""
    fusion = Fusion.of(options)
    of = {name: accountant(spec, fusion) for name, spec in zip(trace.kernels, trace.specs, strict=True)}
    made = [of[b.kernel](b.size, extents) for b, extents in zip(trace.batches, trace.extents, strict=True)]
    return Count(
        schedule=options.schedule if isinstance(options.schedule, str) else "your function",
        nodes=trace.nodes,
        batches=len(trace.batches),
        lower_bound=trace.lower_bound,
        optimal=trace.optimal,
        launches=sum(len(a.stages) for a in made),
        bytes=sum(a.bytes for a in made),
        product_flops=sum(a.product_flops * (b.rows or b.size) for a, b in zip(made, trace.batches, strict=True)),
        rounds=trace.rounds,
    )


def switchable() -> tuple[str, ...]:
    """Return the optimisations that this version can switch off, in the order of `Options`."""
    return tuple(name for name in OPTIMISATIONS if name not in config.NO_EFFECT)


def changes(options: Options) -> list[tuple[str, bool | str]]:
    """Return the changes of one option each that `effects` tries: each optimisation, and each other schedule."""
    out: list[tuple[str, bool | str]] = [(name, not getattr(options, name)) for name in switchable()]
    return out + [("schedule", name) for name in config.SCHEDULES if name != options.schedule]


def effects(
    model: Model, call: _Call, trace: TraceData, step: Callable[[int, str], None] = lambda count, text: None
) -> tuple[Effect, ...]:
    """Return what a mini-batch comes to with each option changed alone.

    Parameters
    ----------
    model
        With the options to start from.
    call
        The arguments of the batch.
    trace
        What `model` records of it.
    step
        Called with 1 and a text after each option.
    """
    from acronumba.api.model import Model, _Cache

    compiled = model._specialise(call, packed=False)[0]
    out = []
    for name, value in changes(model.options):
        options = model.options.replace(**{name: value})
        # What is compiled for this alone is not kept.
        other = Model(model.__wrapped__, options=options, _cache=_Cache({model.options: [compiled]}))
        changed = other._specialise(call, packed=False)[0]
        recorded = trace if changed.records_like(compiled) else other._record(call)[1]
        out.append(Effect(option=name, value=value, count=count(recorded, options)))
        step(1, f"{name}={value!r}")
    return tuple(out)
