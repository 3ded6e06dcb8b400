"""`acronumba explore`: the explorer's page of a model of a file.

In: a file, and the name of a model in it. Out: a self-contained page, or its data as JSON; the path is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from acronumba.api.exploration import RUNS
from acronumba.cli.show import find_example


def explore(args: argparse.Namespace) -> int:
    """Write the page or the data; return the exit status."""
    file, _, name = str(args.model).rpartition(":")
    if not file or not name:
        print("Say which model: acronumba explore FILE.py:MODEL", file=sys.stderr)
        return 2
    model, columns, shared = find_example(file, name, args.n)
    found = model.explored(columns, shared, runs=RUNS)
    out = Path(args.out or f"{name}.{'json' if args.json else 'html'}")
    print(found.json(out) if args.json else found.html(out))
    if args.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0
