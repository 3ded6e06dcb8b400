"""The command line of benchmarks that print one row for each model and number of instances."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acronumba.bench.measure import write_rows

Row = Callable[[str, int, int, str | None], dict[str, Any]]  # of a model, instances, rounds, a file of trees


def main(text: str | None, models: Sequence[str], rounds: int, row: Row) -> None:
    """Print the rows that the command line asks for, and write them to a file if it names one."""
    parser = argparse.ArgumentParser(description=(text or "").split("\n")[0])
    parser.add_argument("--models", nargs="*", default=models)
    parser.add_argument("--batch", nargs="*", type=int, default=[8, 64])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--trees")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.models:
        for batch in args.batch:
            rows.append(row(name, batch, args.rounds, args.trees))
            print(" ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if args.json:
        write_rows(args.json, rows)
