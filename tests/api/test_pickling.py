"""Models and what they return in other processes: by name, else by value."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, Results, model, pack

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """
import pickle, sys
from dataclasses import dataclass
import numpy as np
from acronumba import model, pack

@dataclass
class Tree:
    word: int
    kids: "list[Tree]"

def leaf(k, p):
    return p[k]

@model(threads=1)
def total(t: Tree, *, p):
    h = leaf(t.word, p)
    for k in t.kids:
        h = h + total(k, p=p)
    return np.tanh(h)

TREES = [Tree(k % 3, [Tree(1, []), Tree(2, [])]) for k in range(4)]
P = np.arange(12, dtype=np.float32).reshape(3, 4)
if __name__ == "__main__":
    import cloudpickle
    given = cloudpickle.dumps((total, TREES[:2], P))
    out = [x.tobytes() for x in total.batch(TREES[:2], p=P)]
    sys.stdout.buffer.write(pickle.dumps((given, pickle.dumps(total), out)))
"""
READER = """
import pickle, sys
given, alone, out = pickle.loads(sys.stdin.buffer.read())
total, trees, p = pickle.loads(given)
assert [x.tobytes() for x in total.batch(trees, p=p)] == out
assert total.options.threads == 1
assert total.__wrapped__.__globals__["total"] is total
assert "total" in repr(pickle.loads(alone))
from acronumba import AcronumbaError
try:
    total.batch(trees, p=object())
except AcronumbaError as error:
    print(error)
"""


def run(*args: str, **options: Any) -> bytes:
    there = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    done = subprocess.run([sys.executable, *args], capture_output=True, env=there, check=False, **options)
    assert not done.returncode, done.stderr.decode()
    return done.stdout


def test_a_model_of_a_script_goes_to_a_process_that_has_no_such_file(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    written = run(str(script), cwd=tmp_path)
    script.unlink()
    told = run("-c", READER, input=written).decode()
    assert "script.py:" in told
    assert "def total(t: Tree" in told or "leaf(t.word, p)" in told  # the user's line, whose file is not there


def test_a_closure_goes_by_value() -> None:
    pytest.importorskip("cloudpickle")
    scale = 3.0

    @model
    def scaled(x: float) -> float:
        return scale * x

    again = pickle.loads(pickle.dumps(scaled))
    assert list(again.batch([1.0, 2.0])) == [3.0, 6.0]
    assert again.options == scaled.options


class Odd(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def test_failures_survive_with_their_numbers() -> None:
    errors = {1: ValueError("no"), 3: Odd(1, 2)}
    failed = InstanceErrors(errors, Results.of([1, None, 2, None]))
    again = pickle.loads(pickle.dumps(failed))
    assert list(again.errors) == [1, 3]
    assert str(again.errors[1]) == "no"
    assert str(again.errors[3]) == "Odd: 1 and 2"
    assert list(again.results) == [1, None, 2, None]


def test_results_survive() -> None:
    double = model(lambda x: (x * 2, [x[0]]))
    results = double.batch(pack(np.arange(6.0).reshape(3, 2)))
    assert pickle.loads(pickle.dumps(results)) == results
    assert pickle.loads(pickle.dumps(results[1:])) == results[1:]
