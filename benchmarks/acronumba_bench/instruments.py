"""Instruments of a speed measurement in a checkout: all baselines, the limits of CPUs and GPUs, counters of energy."""

from __future__ import annotations

from functools import partial

from acronumba.bench.ceiling import Ceiling, ceiling
from acronumba.bench.instruments import Instruments
from acronumba_bench import baselines
from acronumba_bench.energy import counters, joules


def all_there_are() -> Instruments:
    """Return the instruments of this machine."""
    found, reasons = counters()
    return Instruments(makers=baselines.makers, ceiling=limits, joules=partial(joules, by=found), unmeasured=reasons)


def limits(device: str) -> Ceiling | None:
    """Measure the limits of a device; None of the simulator."""
    if device == "cpu":
        return ceiling()
    if device == "simulator":
        return None
    from acronumba_bench.gpu import floors
    from acronumba_bench.gpu.meter import Meter

    f = floors.Floors(Meter(int(device.partition(":")[2] or 0)))
    return floors.of_gpu(floors.rates(f), floors.chains(f))
