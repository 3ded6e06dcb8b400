"""Figures and tables of the documentation, computed from `benchmarks/results`.

Of a page, ``<!--f EXPRESSION:FORMAT-->1.8<!--/f-->`` is the value of an expression of the functions of
`tests.support.results`, ``<!-- figures: FILE -->`` stands before what a benchmark prints of a file, ``<!-- table:
EXPRESSION -->`` before a table in Markdown. Neither GitHub nor the site shows comments. `tests/docs/test_figures.py`
compares all of them, and with ``--update-golden`` writes them.
"""

from __future__ import annotations

import copy
import inspect
import io
import re
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from acronumba.bench import view
from acronumba.bench.ceiling import Ceiling
from acronumba.bench.measure import Quartiles
from acronumba.bench.speed import Speed, Speeds
from acronumba_bench import views
from acronumba_bench.ragged import Attention, Layer, Ragged
from acronumba_bench.scaling import Scale, Scaling
from acronumba_bench.starts import Start, Starts
from acronumba_bench.torch_modules import ModuleSpeed, ModuleSpeeds, modules_view
from acronumba_bench.training import Steps, TrainingStep
from tests.support import results

FIGURE = re.compile(r"<!--f (.*?):([^:]*?)-->(.*?)<!--/f-->", re.S)
SHOWN = re.compile(r"<!-- figures: (\S+) -->\n```text\n(.*?)```\n", re.S)
TABLE = re.compile(r"<!-- table: (.*?) -->\n((?:\|.*\n)+)")
OF_NUMBERS = {"min": min, "max": max, "sum": sum, "sorted": sorted, "len": len, "median": median}


def filled(page: str) -> str:
    """Return a page with every figure and every table computed anew."""
    page = FIGURE.sub(lambda m: f"<!--f {m[1]}:{m[2]}-->{format(value(m[1]), m[2])}<!--/f-->", page)
    page = TABLE.sub(lambda m: f"<!-- table: {m[1]} -->\n{value(m[1])}", page)
    return SHOWN.sub(lambda m: f"<!-- figures: {m[1]} -->\n```text\n{printed(m[1])}```\n", page)


def value(expression: str) -> Any:
    """Return the value of an expression of the functions of `results`, and of what numbers need."""
    known = {name: f for name, f in vars(results).items() if hasattr(f, "__wrapped__") or inspect.isfunction(f)}
    return eval(expression, {"__builtins__": {}, **known, **OF_NUMBERS})


def printed(file: str) -> str:
    """Return the table that a benchmark prints of a file."""
    name = Path(file).stem
    if name in results.TEXTS:
        return results.TEXTS[name]()
    console = Console(width=80, file=io.StringIO())
    console.print(_view(copy.deepcopy(results.result(name))))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"


def _view(shown: dict[str, Any]) -> Any:
    if "layers" in shown:
        layers = tuple(Layer(**row) for row in shown.pop("layers"))
        alone = tuple(Attention(**row) for row in shown.pop("attention"))
        return views.ragged_view(Ragged(layers=layers, attention=alone, **shown))
    rows = shown.pop("rows")
    if "torch" in shown:
        for row in rows:
            row |= {k: {name: Quartiles(**q) for name, q in row[k].items()} for k in ("forward", "training")}
        modules = [ModuleSpeed(**row) for row in rows]
        return modules_view(ModuleSpeeds(rows=tuple(modules), **shown))
    if "verdicts" in rows[0]:
        made = [Speed(seconds={name: Quartiles(**q) for name, q in row.pop("seconds").items()}, **row) for row in rows]
        return view.speeds_view(Speeds(rows=tuple(made), ceiling=Ceiling(**shown.pop("ceiling")), **shown))
    if "unmeasured" in shown:
        steps = [
            TrainingStep(seconds={k: Quartiles(**q) for k, q in row.pop("seconds").items()}, **row) for row in rows
        ]
        return views.training_view(Steps(rows=tuple(steps), **shown))
    if "threads" in shown:
        scales = [Scale(seconds=Quartiles(**row.pop("seconds")), **row) for row in rows]
        return views.scaling_view(Scaling(rows=tuple(scales), **shown))
    return views.starts_view(Starts(rows=tuple(Start(**row) for row in rows), **shown))
