"""The command that runs random programs: what it finds it makes small, and prints as a test that fails."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acronumba
from tests.support import fuzz, generate, routes, shrink
from tests.support.chosen import one_in


def test_a_number_is_one_program_with_its_options() -> None:
    assert fuzz.case_of(7).source == fuzz.case_of(7).source != fuzz.case_of(8).source
    assert fuzz.options_of(7, "compiled") == fuzz.options_of(7, "compiled")
    assert len({str(fuzz.options_of(k, "interpreter")) for k in range(20)}) > 5


@pytest.mark.parametrize(
    ("error", "accepted"),
    [("the result does not fit 64 bits", True), ("int too large for 64 bits", True), ("math range error", False),
     ("cannot convert float infinity to integer", False)],
)  # fmt: skip
def test_only_the_limit_of_64_bits_fails_where_the_plain_call_does_not(
    error: str, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(model: Any, columns: Any, shared: Any) -> Any:
        return [None, 2.0], {0: OverflowError(error)}

    monkeypatch.setattr(generate, "_interpreted", fails)
    report = generate.examine(acronumba.model(lambda x: x), [[1.0, 2.0]], {}, compiled=False)
    assert [d.instance for d in report.differences] == ([] if accepted else [0])


def test_instances_as_text_are_the_instances(tmp_path: Path) -> None:
    from acronumba.api.results import equal

    for number in range(12):
        case = fuzz.case_of(number)
        module = fuzz.load(case.source, tmp_path)
        columns, shared = case.instances(module, 6), case.shared_values(module)
        again = fuzz.load(shrink.text_of(case.source, module, columns, shared), tmp_path)
        plain = generate.plain_results(module.main.__wrapped__, columns, shared)
        other = generate.plain_results(again.main.__wrapped__, list(zip(*again.INSTANCES, strict=True)), again.SHARED)
        for a, b in zip(plain, other, strict=True):
            # The classes of the two modules are two.
            assert type(a).__name__ == type(b).__name__
            assert equal(a, b) or isinstance(a, Exception) or "fuzz_" in type(a).__module__ or repr(a) == repr(b)


NODES = """
from dataclasses import dataclass
import numpy as np
from acronumba import model

@dataclass
class Node:
    x: np.ndarray
    parts: list

@dataclass
class Params:
    w: np.ndarray

def total(node, p):
    out = p.w @ node.x
    for part in node.parts:
        if len(part.parts) < 7:
            out = out + np.tanh(total(part, p) * 0.5)
        else:
            out = out * 2
    return out

@model
def main(node, n, *, p):
    unused = [k * 2 for k in range(n)]
    return total(node, p) + len(unused)
"""


def test_what_is_met_twice_stays_one_object(tmp_path: Path) -> None:
    module = fuzz.load(NODES, tmp_path)
    leaf = module.Node(np.array([np.nan, -np.inf, 0.1], np.float32), [])
    again = fuzz.load(shrink.text_of(NODES, module, [[module.Node(leaf.x, [leaf, leaf])]], {"k": 1.5}), tmp_path)
    ((root,),) = again.INSTANCES
    assert root.parts[0] is root.parts[1] and again.SHARED == {"k": 1.5}
    assert root.parts[0].x.tobytes() == leaf.x.tobytes() and root.parts[0].x.dtype == np.float32


@pytest.mark.slow
def test_a_wrong_result_is_found_and_becomes_a_small_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = generate._interpreted

    def wrong(model: Any, columns: Any, shared: Any) -> Any:
        results, errors = right(model, columns, shared)
        if "np.tanh(" in inspect.getsource(inspect.getmodule(model.__wrapped__)):
            results = [None if k not in errors else r for k, r in enumerate(results)]
        return results, errors

    classes = {
        "Node": generate.Class(
            "Node",
            [("x", generate.Tens("float32", (3,))), ("parts", generate.ListOf(generate.Obj("Node")))],
        )
    }
    shared = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    case = generate.Case(NODES, (generate.Obj("Node"), generate.INT), shared, classes, 3)
    monkeypatch.setattr(fuzz, "case_of", lambda number: case)
    monkeypatch.setattr(generate, "_interpreted", wrong)
    out = fuzz.outcome_of(5, "interpreter", tmp_path)
    assert out.kind == "types" and out.instances == 8
    text = fuzz.small_test(out, 300.0)
    assert "np.tanh(" in text and "def test_program_5()" in text and len(text.splitlines()) < 25, text
    test = vars(fuzz.load(text, tmp_path))["test_program_5"]
    with pytest.raises(AssertionError):
        test()
    monkeypatch.setattr(generate, "_interpreted", right)
    test()


def test_a_process_that_dies_or_takes_too_long_is_a_finding(tmp_path: Path) -> None:
    options: dict[str, Any] = {}
    dies = "import os\nos._exit(3)\n"
    assert fuzz.symptom(dies, "interpreter", 0, options, tmp_path) == "the process dies (3)"
    hangs = "import time\ntime.sleep(60)\n"
    assert fuzz.symptom(hangs, "interpreter", 0, options, tmp_path, limit=0.5) == "takes too long"


def test_the_command_counts(root: Path) -> None:
    command = [sys.executable, "tests/fuzz.py", "--count", "4", "--jobs", "1", "--from", "17"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "programs: 4 interpreter" in done.stdout and "instances: 32" in done.stdout
    assert "differences: 0" in done.stdout


PROGRAMS = one_in(20, range(30, 50), mark="slow")


@pytest.mark.parametrize("number", PROGRAMS)
def test_gradients_by_five_routes(number: int, tmp_path: Path) -> None:
    """The tape is what the four others are compared with."""
    found = fuzz.outcome_of(number, "gradients", tmp_path)
    assert not found.wrong, found.text
    assert found.rejected or {"compiled", "simulator"} <= found.errors.keys() <= routes.BOUNDS.keys()


def test_a_route_that_differs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "errors_by_route", lambda *_: ({"compiled": 1e-9, "simulator": 1.0}, 4))
    found = fuzz.outcome_of(30, "gradients", tmp_path)
    assert found.wrong and found.kind == "gradients differ: simulator"
    tally = fuzz.Tally()
    tally.add(found)
    assert "gradients by simulator: 1 programs, median 1.0e+00" in str(tally) and "differences: 1" in str(tally)
