"""What an edit of a model compiles anew: nothing that stays the same, whatever its name and wherever it stands."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba.emit import cache, compile
from acronumba.kernels import cpu

SOURCE = '''
"""A Tree-LSTM."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Tree:
    word: int
    left: Tree | None = None
    right: Tree | None = None


def leaf(t, p):
    c = np.tanh(p["embed"][t.word])
    return nn.sigmoid(c) * c, c


def encode(t, p):
    if t.left is None or t.right is None:
        return leaf(t, p)
    hl, cl = encode(t.left, p)
    hr, cr = encode(t.right, p)
    x = p["u"] @ hl + p["v"] @ hr
    c = np.tanh(x) + nn.sigmoid(x) * cl + cr
    return np.tanh(c), c


@model(threads=1)
def classify(t, *, p):
    h, _ = encode(t, p)
    return nn.softmax(p["w"] @ h)
'''
H = 24
RNG = np.random.default_rng(1)
PARAMS = {
    "embed": RNG.standard_normal((9, H), dtype=np.float32),
    **{name: RNG.standard_normal((H, H), dtype=np.float32) for name in "uvw"},
}

Build = Callable[[str], list[str]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Run an edited model as a new process would; return the names of the modules that were compiled.

    No other kernel is generated.
    """
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    names: list[str] = []
    generated: list[str] = []
    build, generate = compile._build, cpu.generate

    def noted_kernel(spec: Any, *rest: Any) -> Any:
        generated.append(spec.name)
        return generate(spec, *rest)

    monkeypatch.setattr(cpu, "generate", noted_kernel)

    def noted(pending: Any) -> Any:
        names.append(pending.name)
        return build(pending)

    monkeypatch.setattr(compile, "_build", noted)
    count = 0

    def run(source: str) -> list[str]:
        nonlocal count
        count += 1
        name = f"edited_{count}"
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        tree = module.Tree
        xs = [tree(1), tree(0, tree(2), tree(0, tree(3), tree(4)))]
        names.clear()
        generated.clear()
        compile.forget()
        results = list(module.classify.batch(xs, p=PARAMS))
        for x, y in zip(xs, results, strict=True):
            np.testing.assert_allclose(y, module.classify(x, p=PARAMS), rtol=1e-5)
        assert generated == [name for name in names if name in generated]
        return list(names)

    run(SOURCE)
    yield run
    compile.forget()


def edited(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1, old
    return SOURCE.replace(old, new)


def test_the_same_source_compiles_nothing(built: Build) -> None:
    assert built(SOURCE) == []


def test_a_comment_and_other_names_compile_nothing(built: Build) -> None:
    assert built(edited("def encode(", "# a comment\n# and another\ndef encode(")) == []
    assert built(edited('"""A Tree-LSTM."""', "")) == []
    assert built(SOURCE.replace("encode", "embedded").replace("hl", "left_h")) == []


def test_a_constant_compiles_one_kernel(built: Build) -> None:
    (name,) = built(edited("nn.sigmoid(c) * c, c", "nn.sigmoid(c) * c * np.float32(0.5), c"))
    assert name.startswith(("encode", "leaf"))


def test_the_last_line_compiles_one_kernel(built: Build) -> None:
    (name,) = built(edited('nn.softmax(p["w"] @ h)', 'nn.softmax(np.tanh(p["w"] @ h))'))
    assert name.startswith("classify")


def test_a_new_branch_compiles_the_host_program_and_its_kernels(built: Build) -> None:
    names = built(edited("    return np.tanh(c), c", "    if t.word > 7:\n        c = c * c\n    return np.tanh(c), c"))
    assert "host_classify" in names and not [n for n in names if n == "runtime" or n.startswith(("tiles", "classify"))]
