"""`Model.values`: what a line computed for each instance of a batched run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, nn
from acronumba.zoo import listops, stack_rnn, tree_lstm
from tests.support.all_models import CASES
from tests.support.seen_values import wrong_values
from tests.support.value_programs import wrong_lines


@dataclass
class Tree:
    word: int = 0
    left: Tree | None = None
    right: Tree | None = None


def cell(a, b, p):
    h = np.concatenate([a, b])
    return np.tanh(p["w"] @ h + p["b"])


@model
def encode(t: Tree, *, p: dict):
    if t.left is None or t.right is None:
        return p["embed"][t.word]
    out = cell(encode(t.left, p=p), encode(t.right, p=p), p)
    if float(out[0]) > 0:
        out = out * 2
    return out


@model
def read(words: list[int], *, p: dict):
    scale = nn.softmax(p["b"])
    h = np.zeros(4, np.float32)
    n = len(words)
    for word in words:
        u, v = np.split(p["two"][word], 2)
        h = np.tanh(u * scale) if n > 2 else h + v
    total = sum(p["two"][word] for word in words)
    return h, total


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


P = {"embed": normal(5, 4), "w": normal(4, 8), "b": normal(4), "two": normal(5, 8)}
TREES = [Tree(1), Tree(0, Tree(2), Tree(3)), Tree(0, Tree(2), Tree(0, Tree(1), Tree(2)))]
WORDS = [[0, 1], [1, 2, 3], []]


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(k for k, line in enumerate(lines) if text in line)


def test_a_line_of_a_helper_and_a_name() -> None:
    at = f"test_values.py:{line_of('return np.tanh(p[')}"
    inner, outer = [encode.values(TREES, at=at, p=P), encode.values(TREES, at="out", p=P)]
    assert [len(found) for found in inner] == [0, 1, 2]
    for found, both, tree in zip(inner, outer, TREES, strict=True):
        if found:
            doubled = found[-1] * 2 if found[-1][0] > 0 else found[-1]
            np.testing.assert_allclose(doubled, encode(tree, p=P), atol=1e-6)
            assert both[0].dtype == np.float32 and len(both) == len(found) + sum(x[0] > 0 for x in found)


def test_each_turn_of_a_loop_and_shared_values() -> None:
    scale = read.values(WORDS, at="scale", p=P)
    assert [len(found) for found in scale] == [1, 1, 1]
    np.testing.assert_allclose(scale[0][0], nn.softmax(P["b"]), atol=1e-6)
    assert [len(found) for found in read.values(WORDS, at="h", p=P)] == [3, 4, 1]
    for name, half in (("u", slice(4)), ("v", slice(4, 8))):
        found = read.values(WORDS, at=name, p=P)
        assert [[x.tolist() for x in xs] for xs in found] == [[P["two"][w][half].tolist() for w in ws] for ws in WORDS]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("n", "no array"),
        ("nothing", "no array"),
        ("scal", "did you mean `scale`"),
        (1, "no array"),
        ("total", "comes out of a loop"),
    ],
)
def test_what_has_no_array_is_rejected(at: Any, said: str) -> None:
    with pytest.raises(AcronumbaError, match=said) as raised:
        read.values(WORDS[:2], at=at, p=P)
    assert raised.value.code == "ACR706"


def test_an_instance_that_fails_has_none() -> None:
    with pytest.raises(InstanceErrors) as raised:
        read.values([[0], [9], [1, 2]], at="h", p=P)
    first, wrong, last = raised.value.results
    assert [*raised.value.errors] == [1] and wrong is None and (len(first), len(last)) == (2, 3)
    assert len(read.values([], at="h", p=P)) == 0


SOME = ("in_place", "concatenate_data", "either_shape", "helper_with_args", "stacked_rnn")


@pytest.mark.parametrize("name", SOME)
def test_values_are_those_that_plain_calls_assign(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    assert wrong_values(case.model, case.columns, case.shared) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "name", "names"),
    [(tree_lstm, "sentiment", ["c", "h"]), (listops, "classify", ["h", "cc"]), (stack_rnn, "parse", ["h"])],
)
def test_values_of_models_of_the_zoo(module: Any, name: str, names: list[str]) -> None:
    assert wrong_values(getattr(module, name), (module.instances(3),), {"p": module.params(16)}, names) == []


@model
def twice(x, *, w):
    y = w @ x
    z = w @ x
    unused = np.tanh(z)  # noqa: F841
    return y + z


def test_lines_that_compute_the_same_or_are_not_used() -> None:
    w = normal(2, 2)
    for at, value in (("y", w[:, 0]), ("z", w[:, 0]), ("unused", np.tanh(w[:, 0]))):
        (found,) = twice.values([np.array([1, 0], np.float32)], at=at, w=w)
        np.testing.assert_allclose(found, [value], rtol=1e-5)


MORE = [pytest.param(62, marks=pytest.mark.long), *(pytest.param(k, marks=pytest.mark.slow) for k in range(100, 160))]


@pytest.mark.parametrize("seed", [9, *MORE])
def test_values_of_each_line_of_random_programs(seed: int, tmp_path: Path) -> None:
    wrong, compared = wrong_lines(seed, tmp_path)
    assert not wrong and compared > 0


def test_a_call_whose_result_is_not_read_is_run() -> None:
    found = visited.values(TREES, at="h", p=P)  # the recursive calls compute nothing that the result needs
    assert [len(arrays) for arrays in found] == [1, 3, 5]


@model
def visited(t: Tree, *, p: dict):
    h = np.tanh(p["w"] @ np.concatenate([p["b"], p["embed"][t.word]]))
    seen = h
    if t.left is not None and t.right is not None:
        seen = seen + visited(t.left, p=p) + visited(t.right, p=p)
    return h * 2
