"""`acronumba tune`: measure this machine, or find the best strategy for a model; or remove the results.

In: nothing, or a file and the name of a model in it. Out: the table of the CPU (`acronumba.tuned`), which is optional.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from types import FunctionType
from typing import Any

from acronumba.cli.examples import find_example


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", nargs="?", metavar="FILE.py:MODEL", help="without it, measure the machine")
    parser.add_argument(
        "--batch", nargs="+", type=int, metavar="N", help="instances per mini-batch (default: as the file has them)"
    )
    parser.add_argument("--remove", action="store_true", help="delete all results for this CPU")


def tune(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from acronumba import tuned

    if args.remove:
        print("The table is removed." if tuned.remove() else "There is no table.")
        return 0
    if args.batch and min(args.batch) < 1:
        print("--batch takes positive numbers", file=sys.stderr)
        return 2
    if args.model is None:
        return _tune_machine()
    file, _, name = str(args.model).rpartition(":")
    if not file or not name:
        print("Say which model: acronumba tune FILE.py:MODEL", file=sys.stderr)
        return 2
    return _tune_model(file, name, sorted(set(args.batch or ())))


def _tune_machine() -> int:
    from acronumba import tuned
    from acronumba.bench import tune_machine
    from acronumba.views.progress import progress

    with progress("measuring this machine", len(tune_machine.MODELS)) as step:
        found = tune_machine.measure(step=step)
    print(f"{found.kernels} kernels: estimates were wrong by {found.before:.2f} times in the median,")
    print(f"with the measurements of this machine by {found.after:.2f} times, in turns that they were not fitted to.")
    if not found.better:
        print("Nothing is kept: what was known before estimates as well.")
        return 0
    tuned.change(lambda known: dataclasses.replace(known, figures=found.figures))
    for field in dataclasses.fields(found.figures):
        print(f"  {field.name:10}{getattr(found.figures, field.name):>10.4g} ns")
    return 0


def _tune_model(file: str, name: str, sizes: list[int]) -> int:
    from acronumba import pack, tuned
    from acronumba.bench import tune_model
    from acronumba.views.progress import progress

    model, columns, shared = find_example(file, name, max(sizes, default=None))
    there = len(columns[0])
    if sizes and sizes[-1] > there:
        print(f"{file} has {there} instances only", file=sys.stderr)
        return 2
    packed: dict[int, Any] = {n: [pack(column[:n]) for column in columns] for n in sizes or [there]}
    given = {k: pack(v) if _has_arrays(v) else v for k, v in shared.items()}
    with progress(f"tuning {name}", len(packed) * len(tune_model.CANDIDATES)) as step:
        choices = tune_model.tune(model, packed, given, step)
    fn = model.__wrapped__
    assert isinstance(fn, FunctionType)
    key = tuned.model_key(fn)
    tuned.change(lambda known: dataclasses.replace(known, models={**known.models, key: choices}))
    for choice in choices:
        first, *rest = tuned.lines_of(fn, choice.measured)
        print("\n".join([first, *(f"  {line}" for line in rest)]))
    return 0


def _has_arrays(value: Any) -> bool:
    """Whether a shared value is worth packing: numbers and strings are constants."""
    return not isinstance(value, int | float | str | bytes | None)
