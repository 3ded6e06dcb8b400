"""The figures of this processor: what `kernels.cost` and the run time multiply by what they count."""

from __future__ import annotations

from acronumba.emit.target import Target, host
from acronumba.strategy import Figures, Strategy, figures_of


def figures_for(strategy: Strategy, target: Target | None = None) -> Figures:
    """Return the figures of a machine; None: this one."""
    return strategy.figures or figures_of((target or host()).vector_bits)


def reading(weights: int, strategy: Strategy) -> int:
    """Return the nanoseconds that reading so many bytes of shared weights takes, on this processor."""
    return int(weights * figures_for(strategy).weights)
