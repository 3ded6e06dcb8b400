"""How long models take to start: in new processes, with nothing compiled before, with everything, and after an edit.

In: workloads and sizes. Out: `Starts` of plain numbers. Seconds are processor time, of all threads.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acronumba.bench.measure import machine
from acronumba.bench.workloads import WORKLOADS, Workload

_WARM = 3  # runs of which the median counts
_OTHERS = ("tree_lstm", "birnn")  # what was compiled before a second model: the first of them that is not the model
_ACTIVATIONS = frozenset(("tanh", "sigmoid", "relu", "gelu", "silu", "softmax"))
_PROGRAM = """
import json, sys, time
import numpy
start = time.process_time()
import acronumba
imported = time.process_time() - start
from acronumba.bench.starts import first_batch
print(json.dumps([imported, first_batch(*json.loads(sys.argv[1]))]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One workload at one size; seconds of processor time of first mini-batches."""

    workload: str
    size: str | int
    instances: int
    imported: float  # `import acronumba`, after NumPy's; median of warm runs
    cold: float  # nothing was compiled before
    second: float  # another model was
    comment: float | None  # all was, before there was a comment above the model; None: it has no file of its own
    constant: float | None  # the same, before one of its functions had a factor more
    warm: float  # all was; median


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Everything that was measured."""

    machine: dict[str, Any]
    rows: tuple[Start, ...]


def measure(
    workloads: Sequence[Workload],
    *,
    sizes: Sequence[str | int] = ("small",),
    batch: int = 8,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Starts:
    """Start each workload in new processes.

    Python's own compiled files are there from the beginning, as those of an installed package are.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _start("birnn", 8, 2, folder, "python")
        for size in sizes:
            for workload in workloads:
                step(1, f"{workload.name}, {size}")
                rows.append(_row(workload, size, batch, folder))
    return Starts(machine=machine(), rows=tuple(rows))


def _row(workload: Workload, size: str | int, batch: int, folder: str) -> Start:
    def start(code: str, edit: str = "", of: str = workload.name) -> tuple[float, float]:
        return _start(of, size, batch, folder, code, edit)

    cold = start("own")
    warm = [start("own") for _ in range(_WARM)]
    edits: dict[str, float | None] = dict.fromkeys(EDITS)
    if (source := source_of(workload)) is not None:
        start("own", "none")  # a model of a file beside
        edits |= {edit: start("own", edit)[1] for edit, change in EDITS.items() if change(source) is not None}
    start("other", of=next(name for name in _OTHERS if name != workload.name))
    second = start("other")
    for code in ("own", "other"):
        shutil.rmtree(f"{folder}/{code}")
    return Start(
        workload=workload.name,
        size=size,
        instances=batch,
        imported=statistics.median(imported for imported, _ in warm),
        cold=cold[1],
        second=second[1],
        comment=edits["comment"],
        constant=edits["constant"],
        warm=statistics.median(first for _, first in warm),
    )


def _start(name: str, size: str | int, batch: int, folder: str, code: str, edit: str = "") -> tuple[float, float]:
    """Return the seconds of the import and of the first mini-batch in a new process."""
    kept = {"ACRONUMBA_CACHE_DIR": f"{folder}/{code}", "PYTHONPYCACHEPREFIX": f"{folder}/pycache"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([name, size, batch, edit])],
        env={**os.environ, **kept, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    imported, first = json.loads(done.stdout)
    return imported, first


def first_batch(name: str, size: str | int, batch: int, edit: str = "") -> float:
    """Return the seconds of the first mini-batch of a workload, of its own file or of one with an edit."""
    workload = WORKLOADS[name]
    model, instances = workload.model, workload.instances
    if edit:
        module = _edited(workload, edit)
        model, instances = getattr(module, model.__name__), getattr(module, "instances", instances)
    xs, p = instances(batch), workload.params(size)
    start = time.process_time()
    model.batch(xs, p=p)
    return time.process_time() - start


def source_of(workload: Workload) -> str | None:
    """Return the text of the file that a model of the zoo is in; None for others."""
    function = workload.model.__wrapped__
    if not function.__module__.startswith("acronumba.zoo.") or not hasattr(
        sys.modules[function.__module__], function.__name__
    ):
        return None
    return Path(inspect.getsourcefile(function) or "").read_text(encoding="utf-8")


def _edited(workload: Workload, edit: str) -> Any:
    """Return the module of a model, from a file with an edit."""
    source = source_of(workload)
    assert source is not None
    path = Path(os.environ["ACRONUMBA_CACHE_DIR"]).parent / "edited.py"
    path.write_text((edit in EDITS and EDITS[edit](source)) or source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("edited", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["edited"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _with_comment(source: str) -> str:
    """Return a text with two lines of comment above the first function."""
    first = next(s for s in ast.parse(source).body if isinstance(s, ast.FunctionDef))
    line = min([first.lineno, *(decorator.lineno for decorator in first.decorator_list)]) - 1
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:line], "# A comment,\n# and more of it.\n", *lines[line:]])


def _with_factor(source: str) -> str | None:
    """Return a text in which the first activation is multiplied by a number; None where there is no activation."""
    tree = ast.parse(source)
    for function in (s for s in tree.body if isinstance(s, ast.FunctionDef)):
        for node in ast.walk(function):
            for name, value in ast.iter_fields(node):
                if (
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Attribute)
                    and value.func.attr in _ACTIVATIONS
                ):
                    setattr(node, name, ast.BinOp(value, ast.Mult(), ast.Constant(0.5)))
                    return ast.unparse(ast.fix_missing_locations(tree))
    return None


EDITS: dict[str, Callable[[str], str | None]] = {"comment": _with_comment, "constant": _with_factor}
