"""Energy of a function call in joules, on machines with energy counters.

In: a function. Out: joules of one call by the name of each counter: of CPUs by RAPL, as Linux shows it; of GPUs by
NVML. A counter includes everything that its chip does meanwhile, also for other programs.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
SECONDS = 1.0  # a measurement takes at least so long: counters are read in steps of a millisecond and more


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A counter of energy."""

    read: Callable[[], float]  # joules so far
    range: float | None = None  # joules at which it begins anew


def counters(root: Path = POWERCAP) -> tuple[dict[str, Counter], tuple[str, ...]]:
    """Return the counters of this machine by name, and the reasons why others are missing."""
    found, reasons = _processors(root)
    try:
        found |= _gpus(ctypes.CDLL("libnvidia-ml.so.1"))
    except OSError:
        reasons.append("no NVML")
    return found, tuple(reasons)


def joules(
    run: Callable[[], Any], by: Mapping[str, Counter], *, at_least: float = SECONDS, warm: int = 1
) -> dict[str, float]:
    """Return the joules of one call by each counter; the function is called until `at_least` seconds have passed."""
    if not by:
        return {}
    for _ in range(warm):
        run()
    before = {name: counter.read() for name, counter in by.items()}
    start, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - start < at_least:
        run()
        calls += 1
    out = {}
    for name, counter in by.items():
        used = counter.read() - before[name]
        if used < 0 and counter.range is not None:
            used += counter.range
        out[name] = used / calls
    return out


def _processors(root: Path) -> tuple[dict[str, Counter], list[str]]:
    """Return the counters of CPU packages: `intel-rapl:0` and so on, also on AMD CPUs."""
    found: dict[str, Counter] = {}
    reasons: list[str] = []
    for zone in sorted(root.glob("intel-rapl:*")):
        if zone.name.count(":") > 1:  # a part of a package
            continue
        try:
            name = (zone / "name").read_text().strip()
            most = float((zone / "max_energy_range_uj").read_text()) / 1e6
            float((zone / "energy_uj").read_text())
        except OSError as error:
            reasons.append(f"RAPL cannot be read ({error.strerror})")
            continue
        found[name] = Counter(read=lambda file=zone / "energy_uj": float(file.read_text()) / 1e6, range=most)  # type: ignore[misc]
    if not found and not reasons:
        reasons.append("no RAPL")
    return found, reasons


def _gpus(nvml: Any) -> dict[str, Counter]:
    """Return the counters of the GPUs that NVML lists, if they have one."""
    found: dict[str, Counter] = {}
    count = ctypes.c_uint()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return found
    for k in range(count.value):
        device, used = ctypes.c_void_p(), ctypes.c_ulonglong()
        if nvml.nvmlDeviceGetHandleByIndex_v2(k, ctypes.byref(device)):
            continue

        def read(device: ctypes.c_void_p = device) -> float:
            value = ctypes.c_ulonglong()
            nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value))
            return value.value / 1e3

        if not nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(used)):
            found[f"GPU {k}"] = Counter(read=read)
    return found
