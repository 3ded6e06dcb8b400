"""Instruments of a speed measurement: baselines, the limits of a device, and counters of energy.

In: nothing. Out: `Instruments`: in an installed copy NumPy by hand and the limits of one core; a checkout has more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from acronumba.bench.by_hand import BATCHED, BY_NUMPY
from acronumba.bench.by_hand.by_numpy import NUMPY
from acronumba.bench.by_hand.program import Program
from acronumba.bench.ceiling import Ceiling, ceiling

Maker: TypeAlias = Callable[[Any, Any], Program]  # from weights and instances; a `RuntimeError` says why it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """The means of a measurement. The defaults are those of an installed copy."""

    makers: Callable[[str, int, str], Mapping[str, Maker]]  # (workload, threads, device): baselines by name
    ceiling: Callable[[str], Ceiling | None]  # of a device
    joules: Callable[[Callable[[], object]], dict[str, float]] = lambda run: {}  # of a call, by the name of the counter
    unmeasured: tuple[str, ...] = ("only a checkout of the repository reads counters",)  # reasons for missing joules


def installed() -> Instruments:
    """Return the instruments that every copy has."""
    return Instruments(makers=_by_numpy, ceiling=lambda device: ceiling() if device == "cpu" else None)


def _by_numpy(workload: str, threads: int, device: str) -> dict[str, Maker]:
    """Return NumPy by hand, for the two models that are written so; its number of threads is fixed at its import."""
    there = device == "cpu" and workload in BATCHED
    return {BY_NUMPY: partial(BATCHED[workload], NUMPY)} if there else {}
