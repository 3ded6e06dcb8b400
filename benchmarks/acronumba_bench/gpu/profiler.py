"""Cycles and instructions of kernels by Nsight Compute, where it is installed.

In: the command of a program that launches kernels and prints a JSON reply whose `result` has a row for each launch, in
order. Out: those rows with the metrics of the profiler, or its complaint. Clocks and caches are left as they are.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

METRICS = {
    "cycles": "sm__cycles_active.max",
    "elapsed cycles": "gpc__cycles_elapsed.max",
    "instructions": "smsp__inst_executed.sum",
    "nanoseconds": "gpu__time_duration.sum",
}
_LOG = 3000  # characters of what the profiler says, where that has no rows


def program() -> str:
    """Return the path of the profiler, "" if it is not installed."""
    return shutil.which("ncu") or next(map(str, Path("/usr/local/cuda/bin").glob("ncu")), "")


def profile(command: Sequence[str], seconds: float) -> list[dict[str, Any]] | str:
    """Run a program under the profiler; return its rows with their metrics, or why there are none."""
    if not program():
        return "Nsight Compute is not installed"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.csv")
        options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        options += ["--cache-control", "none", "--metrics", ",".join(METRICS.values()), "--log-file", str(log)]
        try:
            done = subprocess.run(
                [program(), *options, *command], capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {seconds:.0f} s"
        said = log.read_text(errors="replace") if log.exists() else ""
    try:
        rows = json.loads(done.stdout.splitlines()[-1])["result"]
    except (ValueError, IndexError, KeyError):
        return f"no reply: {(done.stdout + done.stderr)[-_LOG:]}"
    found = metrics(said)
    if len(found) != len(rows):
        return f"{len(found)} launches of {len(rows)} have metrics: {said[:_LOG]}"
    return [row | own for row, own in zip(rows, found, strict=True)]


def metrics(log: str) -> list[dict[str, float]]:
    """Return the metrics of each launch from what the profiler has written."""
    lines = log.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    out = []
    for row in csv.DictReader(lines[start:]):
        if row.get("ID"):  # the line of units has none
            numbers = {name: row.get(metric) or "" for name, metric in METRICS.items()}
            out.append({name: float(text.replace(",", "")) for name, text in numbers.items() if text[:1].isdigit()})
    return out
