"""`acronumba explain`, `show`, `check` and `trace`: what the methods of a model report, for a model of a file."""

from __future__ import annotations

import argparse
import sys

from acronumba.cli.examples import example_of
from acronumba.config import at_terminal


def explain(args: argparse.Namespace) -> int:
    """Print the explanation of a mini-batch; return the exit status."""
    if (found := example_of(args)) is None:
        return 2
    model, columns, shared = found
    _print(model.explain(*columns, **shared))
    return 0


def show(args: argparse.Namespace) -> int:
    """Print a stage, or the names of the stages; return the exit status."""
    if (found := example_of(args)) is None:
        return 2
    model, columns, shared = found
    stages = model.stages(*columns, **shared)
    if args.stage is None:
        print("\n".join(stages))
        return 0
    from acronumba.views.stages import print_stages

    try:
        print_stages(stages, [args.stage])
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    return 0


def check(args: argparse.Namespace) -> int:
    """Print the comparison with the plain call; return 1 if a result is wrong."""
    if (found := example_of(args)) is None:
        return 2
    model, columns, shared = found
    checked = model.check(*columns, **shared)
    _print(checked)
    return 0 if checked.ok else 1


def trace(args: argparse.Namespace) -> int:
    """Print the batches and the times of a mini-batch; return the exit status."""
    if (found := example_of(args)) is None:
        return 2
    model, columns, shared = found
    _print(model.trace(*columns, **shared))
    return 0


def _print(report: object) -> None:
    if at_terminal(sys.stdout):
        from rich.console import Console

        Console().print(report)
    else:
        print(report)
