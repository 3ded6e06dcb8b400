"""How long models take to start: in new processes, with nothing compiled before and with everything.

In: workloads and sizes. Out: `Starts` of plain numbers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from acronumba.bench.measure import machine
from acronumba.bench.workloads import Workload

_WARM = 3  # runs of which the median counts
_PROGRAM = """
import json, sys, time
import numpy
start = time.perf_counter()
import acronumba
imported = time.perf_counter() - start
from acronumba.bench.ablate import inputs
from acronumba.bench.workloads import WORKLOADS
name, size, batch = json.loads(sys.argv[1])
workload = WORKLOADS[name]
xs, p = inputs(workload, size, batch, None)
start = time.perf_counter()
workload.model.batch(xs, p=p)
print(json.dumps([imported, time.perf_counter() - start]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One workload at one size."""

    workload: str
    size: str | int
    instances: int
    imported: float  # seconds of `import acronumba` after NumPy's; median of warm runs
    cold: float  # seconds of the first mini-batch: nothing was compiled before
    warm: float  # the same if everything was; median


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Everything that was measured."""

    machine: dict[str, Any]
    rows: tuple[Start, ...]


def measure(
    workloads: Sequence[Workload],
    *,
    sizes: Sequence[str | int] = ("small",),
    batch: int = 8,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Starts:
    """Start each workload in new processes: once with an empty folder for compiled code, then with what is in it."""
    rows = []
    for size in sizes:
        for workload in workloads:
            step(1, f"{workload.name}, {size}")
            with tempfile.TemporaryDirectory() as folder:
                cold = _start(workload.name, size, batch, folder)
                warm = [_start(workload.name, size, batch, folder) for _ in range(_WARM)]
            rows.append(
                Start(
                    workload=workload.name,
                    size=size,
                    instances=batch,
                    imported=statistics.median(imported for imported, _ in warm),
                    cold=cold[1],
                    warm=statistics.median(first for _, first in warm),
                )
            )
    return Starts(machine=machine(), rows=tuple(rows))


def _start(name: str, size: str | int, batch: int, folder: str) -> tuple[float, float]:
    """Return the seconds of the import and of the first mini-batch in a new process.

    Python's own compiled files are kept in the folder, too, as those of an installed package are.
    """
    kept = {"ACRONUMBA_CACHE_DIR": f"{folder}/code", "PYTHONPYCACHEPREFIX": f"{folder}/python"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([name, size, batch])],
        env={**os.environ, **kept, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    imported, first = json.loads(done.stdout)
    return imported, first
