"""The figures of this CPU: unit costs for the counts of `kernels.cost` and the run time."""

from __future__ import annotations

from acronumba.emit.target import Target, host
from acronumba.strategy import Figures, Strategy, figures_of


def figures_for(strategy: Strategy, target: Target | None = None) -> Figures:
    """Return the figures of a machine; None: this one."""
    return strategy.figures or figures_of((target or host()).vector_bits)


def reading(weights: int, strategy: Strategy) -> int:
    """Return the nanoseconds that reading `weights` bytes of shared weights takes, on this CPU."""
    return int(weights * figures_for(strategy).weights)
