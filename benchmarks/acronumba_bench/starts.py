"""Start-up times of models: in new processes, with an empty cache, with a full one, and after an edit.

In: workloads and sizes. Out: `Starts` of plain numbers. Seconds are CPU time, of all threads.
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

from acronumba.bench.checkout import FOLDER
from acronumba.bench.measure import machine
from acronumba.bench.workloads import Workload
from acronumba_bench.workloads import WORKLOADS

_WARM = 3  # number of warm runs, of which the median counts
_OTHERS = ("tree_lstm", "birnn")  # compiled before a second model: the first of these that is another model
_ACTIVATIONS = frozenset(("tanh", "sigmoid", "relu", "gelu", "silu", "softmax"))
_PROGRAM = """
import json, sys, time
import numpy
start = time.process_time()
import acronumba
imported = time.process_time() - start
from acronumba_bench.starts import first_batches
print(json.dumps([imported, *first_batches(*json.loads(sys.argv[1]))]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One workload at one size; seconds of CPU time of first mini-batches."""

    workload: str
    size: str | int
    instances: int
    imported: float  # `import acronumba`, after NumPy's; median of warm runs
    cold: float  # with an empty cache
    second: float  # after another model was compiled
    comment: float | None  # after a comment was added above the compiled model; None: it has no file of its own
    constant: float | None  # the same, before one of its functions had a factor more
    structure: float | None  # the same, before the model had a branch more
    warm: float  # all was; median
    batch: float  # the mini-batch after that, when nothing is left to do but to compute it; median


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

    Python's own compiled files exist from the beginning, like those of an installed package.
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
    def start(code: str, edit: str = "", of: str = workload.name) -> tuple[float, ...]:
        return _start(of, size, batch, folder, code, edit)

    cold = start("own")
    warm = [start("own") for _ in range(_WARM)]
    edits: dict[str, float | None] = dict.fromkeys(EDITS)
    if (source := source_of(workload)) is not None:
        start("own", "none")  # a model of a file beside
        known = {edit: change(source, workload) for edit, change in EDITS.items()}
        edits |= {edit: start("own", edit)[1] for edit, text in known.items() if text is not None}
    start("other", of=next(name for name in _OTHERS if name != workload.name))
    second = start("other")
    for code in ("own", "other"):
        shutil.rmtree(f"{folder}/{code}")
    return Start(
        workload=workload.name,
        size=size,
        instances=batch,
        imported=statistics.median(imported for imported, _, _ in warm),
        cold=cold[1],
        second=second[1],
        comment=edits["comment"],
        constant=edits["constant"],
        structure=edits["structure"],
        warm=statistics.median(first for _, first, _ in warm),
        batch=statistics.median(again for _, _, again in warm),
    )


def _start(name: str, size: str | int, batch: int, folder: str, code: str, edit: str = "") -> tuple[float, ...]:
    """Return the seconds of the import, of the first mini-batch, and of the next one, in a new process."""
    kept = {"ACRONUMBA_CACHE_DIR": f"{folder}/{code}", "PYTHONPYCACHEPREFIX": f"{folder}/pycache"}
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(FOLDER)])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([name, size, batch, edit])],
        env={**os.environ, **kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(json.loads(done.stdout))


def first_batches(name: str, size: str | int, batch: int, edit: str = "") -> tuple[float, float]:
    """Return the seconds of the first two mini-batches of a workload, of its own file or of one with an edit."""
    workload = WORKLOADS[name]
    model, instances = workload.model, workload.instances
    if edit:
        module = _edited(workload, edit)
        model, instances = getattr(module, model.__name__), getattr(module, "instances", instances)
    xs, p = instances(batch), workload.params(size)
    times = [time.process_time()]
    for _ in range(2):
        model.batch(xs, p=p)
        times.append(time.process_time())
    return times[1] - times[0], times[2] - times[1]


def source_of(workload: Workload) -> str | None:
    """Return the source of a model's file in the zoo; None for other models."""
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
    path.write_text((edit in EDITS and EDITS[edit](source, workload)) or source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("edited", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["edited"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _with_comment(source: str, workload: Workload) -> str:
    """Return a text with two lines of comment above the first function."""
    first = next(s for s in ast.parse(source).body if isinstance(s, ast.FunctionDef))
    line = min([first.lineno, *(decorator.lineno for decorator in first.decorator_list)]) - 1
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:line], "# A comment,\n# and more of it.\n", *lines[line:]])


def _with_factor(source: str, workload: Workload) -> str | None:
    """Return a source with the first activation multiplied by a number; None if it has no activation."""
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


def _with_branch(source: str, workload: Workload) -> str | None:
    """Return a source whose model begins with a test of its first argument; None if that has nothing to test."""
    tree = ast.parse(source)
    name = workload.model.__wrapped__.__name__
    function = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == name)
    test = _large(function.args.args[0].arg, workload.instances(1)[0])
    if test is None:
        return None
    docstring = ast.get_docstring(function) is not None
    function.body[docstring:docstring] = ast.parse(f"if {test}:\n    raise ValueError('too large')").body
    return ast.unparse(ast.fix_missing_locations(tree))


def _large(name: str, value: Any) -> str | None:
    """Return a condition that some number in a value is large."""
    if isinstance(value, int):
        return f"{name} > 1_000_000"
    if isinstance(value, list):
        return f"len({name}) > 1_000_000"
    inside = ((f"{name}.{field}", getattr(value, field)) for field in getattr(value, "__dataclass_fields__", ()))
    return next((test for path, part in inside if (test := _large(path, part)) is not None), None)


EDITS: dict[str, Callable[[str, Workload], str | None]] = {
    "comment": _with_comment, "constant": _with_factor, "structure": _with_branch,
}  # fmt: skip
