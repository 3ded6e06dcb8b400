"""What each option is worth for a mini-batch, in nodes and batches.

In: a model and the arguments of a batch. Out: an `Effect` for every option that can be switched and for every other
schedule. The mini-batch is recorded and scheduled anew for each of them; kernels are not compiled and nothing is
computed, so it takes a moment per option. Times are for `acronumba bench --ablate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acronumba import config
from acronumba.config import Options

if TYPE_CHECKING:
    from acronumba.api import Model, _Call

OPTIMISATIONS = tuple("reuse duplicate hoist phases ghosts blocks fuse horizontal gather_fusion forkjoin".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A mini-batch recorded with one option changed."""

    option: str  # its name
    value: bool | str  # what it was changed to
    nodes: int
    batches: int
    lower_bound: int  # no schedule of these nodes has fewer batches
    optimal: bool  # proved: there are no fewer
    planned: bool  # whether the plan is another one


def switchable() -> tuple[str, ...]:
    """Return the optimisations that this version can switch off, in the order of `Options`."""
    return tuple(name for name in OPTIMISATIONS if name not in config.NO_EFFECT)


def changes(options: Options) -> list[tuple[str, bool | str]]:
    """Return the changes of one option each that `effects` tries: each optimisation, and each other schedule."""
    out: list[tuple[str, bool | str]] = [(name, not getattr(options, name)) for name in switchable()]
    return out + [("schedule", name) for name in config.SCHEDULES if name != options.schedule]


def effects(
    model: Model, call: _Call, step: Callable[[int, str], None] = lambda count, text: None
) -> tuple[Effect, ...]:
    """Return what a mini-batch comes to with each option changed alone.

    Parameters
    ----------
    model
        With the options to start from.
    call
        The arguments of the batch.
    step
        Called with 1 and a text after each option.
    """
    from acronumba.api import Model

    plan = model._record(call)[0].text("plan")
    out = []
    for name, value in changes(model.options):
        other = Model(model.__wrapped__, options=model.options.replace(**{name: value}))
        compiled, trace = other._record(call)
        out.append(
            Effect(
                option=name,
                value=value,
                nodes=trace.nodes,
                batches=len(trace.batches),
                lower_bound=trace.lower_bound,
                optimal=trace.optimal,
                planned=compiled.text("plan") != plan,
            )
        )
        step(1, f"{name}={value!r}")
    return tuple(out)
