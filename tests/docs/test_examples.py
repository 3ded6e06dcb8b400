"""Every script in `examples/` runs and finds that batched and plain results agree; so does the demo. Some train."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from acronumba.bench import demo_training, openblas
from acronumba.cli.main import main
from tests.support.chosen import one_in

EXAMPLES = sorted((Path(__file__).resolve().parent.parent.parent / "examples").glob("*.py"))


TRAINING = [path for path in EXAMPLES if path.stem.startswith("train_")][::-1]  # the one that compiles least first
PLAIN = [path for path in EXAMPLES if path not in TRAINING]
OTHERS = ("train_drnn", "train_tagger", "train_tree_lstm")  # the tests below run the last two
TRAINED = [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in OTHERS), id=p.stem) for p in TRAINING]
SMALL = ["--size", "8", "--batch", "4"]
TREEBANK = "(3 (2 It) (4 (2 is) (3 (3 very) (3 good))))\n(1 (2 Not) (1 (2 so) (2 8\u00a01\\/2)))\n"


def run(path: Path, root: Path, *arguments: object) -> str:
    """Run a script as a user does; return what it prints."""
    paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(path), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"
    return done.stdout


@pytest.mark.parametrize("path", one_in(3, PLAIN, [p.stem for p in PLAIN]))
def test_example(path: Path, root: Path) -> None:
    run(path, root)


@pytest.mark.long
@pytest.mark.parametrize("path", TRAINED)
def test_an_example_that_trains(path: Path, root: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.safetensors"
    more = ["--plot", tmp_path / "loss.svg", "--save", tmp_path / "best.safetensors", "--checkpoint", there]
    out = run(path, root, "--steps", 3, *SMALL, *more)
    assert re.search(r"^step     3   loss \S+ +\D+ [\d.]+$", out, re.M)
    assert "\nloss\n" in out
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")
    assert load_file(tmp_path / "best.safetensors")
    assert load_file(there)["watch.losses"].shape == (3,)


@pytest.mark.long
def test_an_example_resumes_to_the_same_bits(root: Path, tmp_path: Path) -> None:
    path = root / "examples" / "train_tagger.py"
    for steps, name in ((3, "halves"), (6, "halves"), (6, "whole")):
        run(path, root, "--steps", steps, *SMALL, "--checkpoint", tmp_path / name)
    halves, whole = load_file(tmp_path / "halves"), load_file(tmp_path / "whole")
    assert halves.keys() == whole.keys()
    assert whole["watch.losses"].shape == (6,)
    tests = {"watch.at", "watch.tested"}  # the first half was tested at its end
    assert all(np.array_equal(halves[name], whole[name]) for name in whole.keys() - tests)


@pytest.mark.long
def test_the_tree_lstm_reads_the_treebank(root: Path, tmp_path: Path) -> None:
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text(TREEBANK, encoding="utf-8")
    out = run(root / "examples" / "train_tree_lstm.py", root, "--steps", 2, *SMALL, "--data", tmp_path)
    assert "step     2" in out


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_the_treebank_is_learnt_as_by_pytorch(root: Path, tmp_path: Path) -> None:
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text(4 * TREEBANK, encoding="utf-8")
    given = ["--data", tmp_path, "--size", 8, "--batch", 2, "--epochs", 3, "--json", tmp_path / "told.json"]
    out = run(root / "benchmarks" / "sst.py", root, *given)
    told = json.loads((tmp_path / "told.json").read_text())
    assert np.allclose(told["acronumba"]["losses"], told["PyTorch by hand"]["losses"], rtol=1e-4)
    assert len(told["acronumba"]["losses"]) == 12
    assert "as acronumba in 100.0%" in out


@pytest.mark.long
def test_the_demo_learns_and_does_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = demo_training.python_modules(5)  # to read the library takes a second
    monkeypatch.setattr(demo_training, "python_modules", lambda n: modules)
    told = []
    for plot in (None, tmp_path / "loss.svg"):
        demo_training.run(steps=25, size=8, most=30, plot=plot)
        *lines, seconds = capsys.readouterr().out.splitlines()
        assert re.match(r"\d+ seconds in all", seconds)
        told.append(lines)
    assert told[0] == told[1]
    assert (tmp_path / "loss.svg").exists()
    text = "\n".join(told[0])
    assert "def loss(t: Tree, module: int, *, p: Params)" in text
    for line in (r"step     0 +accuracy 0\.\d+", r"step    25   loss \S+ +accuracy 0\.\d+", r"def \w+ +\w+ +\d+%   "):
        assert re.search(f"^{line}", text, re.M)


def test_the_demo_draws_what_it_learns_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--plot", "loss.svg"]) == 2
    assert "--train" in capsys.readouterr().err
    assert main(["demo", "--train", "--plot", str(tmp_path / "nowhere" / "loss.svg")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_the_demo_agrees_and_shows_what_was_batched(root: Path) -> None:
    code = "import sys; from acronumba.bench import demo; sys.exit(demo.run(trees=12, size=32))"
    environment = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "def encode(t: Tree, p: Params)" in done.stdout
    assert "they agree" in done.stdout
    assert "kernel calls without batching" in done.stdout
    for competitor in ("one tree at a time", "by hand level by level", "from Python objects", "packed once"):
        assert re.search(rf"{competitor}\s+[\d.]+ ms +[\d.]+ x", done.stdout)


def test_openblas_is_asked_for_one_thread() -> None:
    setting = openblas.best_setting(threads=1)
    assert setting["OPENBLAS_NUM_THREADS"] == "1"
    assert set(setting) <= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE"}


def test_examples_compare_batched_with_plain() -> None:
    assert len(EXAMPLES) >= 6
    for path in EXAMPLES:
        text = path.read_text()
        assert ".batch(" in text
        assert "assert " in text
