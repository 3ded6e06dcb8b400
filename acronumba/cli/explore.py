"""`acronumba explore`: the explorer's page of a model of a file.

In: a file, and the name of a model in it. Out: a self-contained page, or its data as JSON; the path is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from acronumba.api.exploration import RUNS
from acronumba.cli.examples import example_of


def explore(args: argparse.Namespace) -> int:
    """Write the page or the data; return the exit status."""
    if (found := example_of(args)) is None:
        return 2
    model, columns, shared = found
    explored = model.explored(columns, shared, runs=RUNS)
    out = Path(args.out or f"{model.__name__}.{'json' if args.json else 'html'}")
    print(explored.json(out) if args.json else explored.html(out))
    if args.open:
        open_file(out)
    return 0


def open_file(path: Path) -> None:
    """Show a file in a browser."""
    import webbrowser

    webbrowser.open(path.resolve().as_uri())
