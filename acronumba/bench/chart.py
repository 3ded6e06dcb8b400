"""A bar chart of what `acronumba bench --json` has written: how many times longer the baselines take.

In: the file. Out: SVG, of the first size in it and the most instances that were measured with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acronumba.errors.codes import refuse
from acronumba.views.pictures import bars_svg

OURS = {"plain": "ours, objects"}  # what a baseline is compared with; "ours, packed" where it is prepared, too
BASELINES = {
    "plain": "plain calls, one by one",
    "NumPy by hand": "NumPy, batched by hand",
    "PyTorch by hand": "PyTorch, batched by hand",
    "DyNet": "DyNet, batched automatically",
}


def ratios(told: dict[str, Any], size: str, instances: int) -> dict[str, dict[str, float]]:
    """Return for each model how many times longer each baseline takes."""
    out: dict[str, dict[str, float]] = {}
    for row in told["rows"]:
        if (str(row["size"]), row["instances"]) == (size, instances):
            median = {name: seconds["median"] for name, seconds in row["seconds"].items()}
            there = (name for name in BASELINES if name in median)
            out[row["workload"]] = {name: median[name] / median[OURS.get(name, "ours, packed")] for name in there}
    return out


def chart(path: Path) -> str:
    """Return the chart of a file: of its first size, and the most instances measured with it."""
    told = json.loads(path.read_text(encoding="utf-8"))
    rows = told.get("rows") or [{}]
    if "ceiling" not in told or "seconds" not in rows[0]:
        rewrite = "acronumba bench --json FILE.json, without --ablate, --scaling and others"
        raise refuse("ACR710", message=f"{path} does not hold times of models and baselines", rewrite=rewrite)
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
