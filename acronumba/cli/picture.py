"""`acronumba picture`: the schedule or the dataflow graph of a mini-batch, or measurements, as an SVG file.

In: a file and the name of a model in it, or the output of `acronumba bench --json`. Out: a file that browsers and
GitHub display; its path is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from acronumba.cli.show import find_example


def picture(args: argparse.Namespace) -> int:
    """Draw it; return the exit status."""
    given = str(args.model)
    file, _, name = given.rpartition(":")
    if given.endswith(".json"):
        from acronumba.bench import checkout

        if (there := checkout.find("chart")) is None:
            print(f"Charts of measurements need {checkout.NEEDED}", file=sys.stderr)
            return 2
        return _write(args.out or f"{Path(given).stem}.svg", there.chart(Path(given)))
    if not file or not name:
        print("Say what to draw: acronumba picture FILE.py:MODEL, or FILE.json", file=sys.stderr)
        return 2
    from acronumba.views.pictures import graph_svg, schedule_svg

    model, columns, shared = find_example(file, name, args.n)
    trace = model.trace(*columns, **shared).data
    try:
        text = schedule_svg(trace, name) if args.graph is None else graph_svg(trace, name, args.graph)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return _write(args.out or f"{name}.svg", text)


def _write(path: str, text: str) -> int:
    Path(path).write_text(text, encoding="utf-8")
    print(path)
    return 0
