"""`acronumba picture`: the schedule or the dataflow graph of a mini-batch, or measurements, as an SVG file.

In: a file and the name of a model in it, or the output of `acronumba bench --json`. Out: a file that browsers and
GitHub display; its path is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from acronumba.cli.examples import example_of
from acronumba.cli.explore import open_file


def picture(args: argparse.Namespace) -> int:
    """Draw it; return the exit status."""
    given = str(args.model)
    if given.endswith(".json"):
        from acronumba.bench import checkout

        if (there := checkout.find("chart")) is None:
            print(f"Charts of measurements need {checkout.NEEDED}", file=sys.stderr)
            return 2
        return _write(args, Path(given).stem, there.chart(Path(given)))
    if (found := example_of(args)) is None:
        return 2
    from acronumba.views.pictures import graph_svg, schedule_svg

    model, columns, shared = found
    name = given.rpartition(":")[2]
    trace = model.trace(*columns, **shared).data
    try:
        text = schedule_svg(trace, name) if args.graph is None else graph_svg(trace, name, args.graph)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return _write(args, name, text)


def _write(args: argparse.Namespace, name: str, text: str) -> int:
    path = Path(args.out or f"{name}.svg")
    path.write_text(text, encoding="utf-8")
    print(path)
    if args.open:
        open_file(path)
    return 0
