"""Charts of the measurements that `acronumba bench --json` and `benchmarks/sst.py --json` write.

In: the file. Out: SVG. Times are shown as ratios of the baselines to ours, for the first size in the file and its
largest number of instances; a training is shown by its losses and accuracies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.errors.codes import reject
from acronumba.views.curves import Line, Panel, curves_svg
from acronumba.views.pictures import bars_svg

OURS = {"plain": "ours, objects"}  # our row for a baseline; "ours, packed" if its data is prepared
BASELINES = {
    "plain": "plain calls, one by one",
    "NumPy by hand": "NumPy, batched by hand",
    "PyTorch by hand": "PyTorch, batched by hand",
    "DyNet": "DyNet, batched automatically",
}


def chart(path: Path) -> str:
    """Return the picture of a file."""
    told = json.loads(path.read_text(encoding="utf-8"))
    if losses := {name: t for name, t in told.items() if isinstance(t, dict) and "losses" in t}:
        return curves_svg(loss_panels(losses))
    rows = told.get("rows") or [{}]
    if "ceiling" not in told or "seconds" not in rows[0]:
        rewrite = "acronumba bench --json FILE.json, without --ablate, --scaling and others"
        raise reject("ACR710", message=f"{path} does not hold times of models and baselines", rewrite=rewrite)
    size = str(rows[0]["size"])
    instances = max(row["instances"] for row in rows if str(row["size"]) == size)
    found = ratios(told, size, instances)
    there = [name for name in BASELINES if any(name in row for row in found.values())]
    return bars_svg(
        f"Time relative to acronumba: {instances} instances, size {size}",
        {model: [row.get(name) for name in there] for model, row in found.items()},
        [BASELINES[name] for name in there],
        "times as long as acronumba (1: as fast), logarithmic",
    )


def ratios(told: Mapping[str, Any], size: str, instances: int) -> dict[str, dict[str, float]]:
    """Return for each model the ratios of the baselines' times to ours."""
    out: dict[str, dict[str, float]] = {}
    for row in told["rows"]:
        if (str(row["size"]), row["instances"]) == (size, instances):
            median = {name: seconds["median"] for name, seconds in row["seconds"].items()}
            there = (name for name in BASELINES if name in median)
            out[row["workload"]] = {name: median[name] / median[OURS.get(name, "ours, packed")] for name in there}
    return out


def loss_panels(told: Mapping[str, Mapping[str, Any]]) -> list[Panel]:
    """Return the curves of trainings: losses, as means of 20 steps, and accuracies after each epoch."""
    losses = []
    for name, t in told.items():
        k = min(20, len(t["losses"]))
        means = np.convolve(t["losses"], np.full(k, 1 / k), "valid").tolist()
        losses.append(Line(name=name, x=range(k, k + len(means)), y=means))
    exact = [Line(name=n, x=range(1, len(t["accuracy"]) + 1), y=t["accuracy"]) for n, t in told.items()]
    return [Panel(title="training loss over steps", lines=losses), Panel(title="dev accuracy over epochs", lines=exact)]
