"""The models of `acronumba.zoo`, as plain calls: against formulas, their data, their dtypes."""

from __future__ import annotations

import ast
import dataclasses
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from acronumba.bench import yardsticks
from acronumba.zoo import birnn, child_sum_lstm, data, mv_rnn, tree_lstm
from acronumba.zoo.tree_lstm import Tree

MODELS: list[tuple[ModuleType, Callable[..., Any]]] = [
    (tree_lstm, tree_lstm.sentiment),
    (child_sum_lstm, child_sum_lstm.classify),
    (mv_rnn, mv_rnn.sentiment),
    (birnn, birnn.tag),
]
BY_NAME = pytest.mark.parametrize(("module", "model"), MODELS, ids=[m.__name__.rpartition(".")[2] for m, _ in MODELS])
SST = "(3 (2 It) (4 (3 (2 really) (3 works)) (2 .)))\n\n(2 (2 (1 No) (2 one)) (2 knows))\n(1 Ugh)\n"


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def wide(value: Any) -> Any:
    """The weights with every array in float64."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: wide(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value.astype(np.float64)


def tree_formula(t: Tree, p: Any) -> tuple[Any, Any]:
    """Equations 9 to 14 of Tai et al., gate by gate."""
    size = len(p.b_leaf) // 3
    if t.left is None or t.right is None:
        x = p.embed[t.word]
        gates = [p.w_leaf[k * size : (k + 1) * size] @ x + p.b_leaf[k * size : (k + 1) * size] for k in range(3)]
        c = sigmoid(gates[0]) * np.tanh(gates[2])
        return sigmoid(gates[1]) * np.tanh(c), c
    (hl, cl), (hr, cr) = tree_formula(t.left, p), tree_formula(t.right, p)
    rows = [p.w[k * size : (k + 1) * size] for k in range(5)]
    g = [w[:, :size] @ hl + w[:, size:] @ hr + p.b[k * size : (k + 1) * size] for k, w in enumerate(rows)]
    c = sigmoid(g[0]) * np.tanh(g[4]) + sigmoid(g[1]) * cl + sigmoid(g[2]) * cr
    return sigmoid(g[3]) * np.tanh(c), c


def child_sum_formula(node: child_sum_lstm.Node, p: Any) -> tuple[Any, Any]:
    size = p.u_forget.shape[0]
    x = (p.w @ p.embed[node.kind] + p.b).reshape(4, size)
    below = [child_sum_formula(child, p) for child in node.children]
    total = sum((h for h, _ in below), np.zeros(size))
    i, o, u = x[:3] + (p.u @ total).reshape(3, size)
    c = sigmoid(i) * np.tanh(u) + sum((sigmoid(x[3] + p.u_forget @ h) * c for h, c in below), np.zeros(size))
    return sigmoid(o) * np.tanh(c), c


def mv_formula(t: Tree, p: Any) -> tuple[Any, Any]:
    size = len(p.b)
    if t.left is None or t.right is None:
        return p.vectors[t.word], p.matrices[t.word]
    (a, left), (b, right) = mv_formula(t.left, p), mv_formula(t.right, p)
    v = np.tanh(p.w[:, :size] @ (right @ a) + p.w[:, size:] @ (left @ b) + p.b)
    return v, p.w_matrix[:, :size] @ left + p.w_matrix[:, size:] @ right


def birnn_formula(words: list[int], p: Any) -> list[Any]:
    def states(order: list[int], cell: Any) -> list[Any]:
        out = [cell.start]
        for w in order:
            out.append(np.tanh(cell.w @ p.embed[w] + cell.u @ out[-1] + cell.b))
        return out[1:]

    pairs = zip(states(words, p.forward), states(words[::-1], p.backward)[::-1], strict=True)
    return [softmax(p.w_out @ np.concatenate(pair) + p.b_out) for pair in pairs]


def test_tree_lstm_is_its_formula() -> None:
    p, wide_p = tree_lstm.params(16), wide(tree_lstm.params(16))
    for t in tree_lstm.instances(5):
        expected = softmax(wide_p.w_out @ tree_formula(t, wide_p)[0] + wide_p.b_out)
        assert np.abs(tree_lstm.sentiment(t, p=p) - expected).max() < 1e-5


def test_child_sum_lstm_is_its_formula() -> None:
    p, wide_p = child_sum_lstm.params(16), wide(child_sum_lstm.params(16))
    for node in child_sum_lstm.instances(5):
        expected = softmax(wide_p.w_out @ child_sum_formula(node, wide_p)[0] + wide_p.b_out)
        assert np.abs(child_sum_lstm.classify(node, p=p) - expected).max() < 1e-5


def test_mv_rnn_is_its_formula() -> None:
    p, wide_p = mv_rnn.params(16), wide(mv_rnn.params(16))
    for t in mv_rnn.instances(5):
        expected = softmax(wide_p.w_out @ mv_formula(t, wide_p)[0] + wide_p.b_out)
        assert np.abs(mv_rnn.sentiment(t, p=p) - expected).max() < 1e-5


def test_birnn_is_its_formula() -> None:
    p, wide_p = birnn.params(16), wide(birnn.params(16))
    for words in [*birnn.instances(4), []]:
        got, expected = birnn.tag(words, p=p), birnn_formula(words, wide_p)
        assert len(got) == len(words)
        assert all(np.abs(a - b).max() < 1e-5 for a, b in zip(got, expected, strict=True))


class Watched(np.ndarray):
    """An array that notes the dtype of everything computed from it."""

    seen: set[str] = set()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        arrays = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        return self._note(getattr(ufunc, method)(*arrays, **kw))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._note(super().__array_function__(func, types, args, kwargs))

    @classmethod
    def _note(cls, result: Any) -> Any:
        if result is None:
            return None
        for r in result if isinstance(result, list | tuple) else [result]:
            if r.dtype.kind == "f":
                cls.seen.add(r.dtype.name)
        return [r.view(cls) for r in result] if isinstance(result, list) else np.asarray(result).view(cls)


@BY_NAME
def test_every_intermediate_is_float32(module: ModuleType, model: Callable[..., Any]) -> None:
    def watch(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(
                value, **{f.name: watch(getattr(value, f.name)) for f in dataclasses.fields(value)}
            )
        return value.view(Watched)

    Watched.seen = set()
    model(module.instances(1)[0], p=watch(module.params(8)))
    assert Watched.seen == {"float32"}


@BY_NAME
def test_results_are_probabilities(module: ModuleType, model: Callable[..., Any]) -> None:
    p = module.params(12, seed=3)
    for x in module.instances(6, seed=3):
        result = model(x, p=p)
        for row in arrays(result):
            assert row.dtype == np.float32 and row.shape == (module.CLASSES,)
            assert math.isclose(float(row.sum()), 1, rel_tol=1e-5) and row.min() >= 0


def arrays(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]


@BY_NAME
def test_batched_results_are_as_near_to_float64_as_promised(module: ModuleType, model: Any) -> None:
    p, instances = module.params(32), module.instances(24, seed=5)
    batched = model.batch(instances, p=p)
    assert len(batched) == len(instances)
    wide_p = wide(p)
    for x, got in zip(instances, batched, strict=True):
        plain, exact = model(x, p=p), model(x, p=wide_p)
        assert type(got) is type(plain)
        for a, b, c in zip(arrays(got), arrays(plain), arrays(exact), strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            assert np.abs(a - c).max() <= max(1e-5 * np.abs(c).max(), 4 * np.abs(b - c).max())


@BY_NAME
def test_results_do_not_depend_on_the_rest_of_the_batch(module: ModuleType, model: Any) -> None:
    p, instances = module.params(24), module.instances(9, seed=6)
    together = [arrays(r) for r in model.batch(instances, p=p)]
    backwards = [arrays(r) for r in model.batch(instances[::-1], p=p)][::-1]
    alone = [arrays(r) for r in model.batch(instances[4:5], p=p)]
    for one, other in [*zip(together, backwards, strict=True), (together[4], alone[0])]:
        assert [a.tobytes() for a in one] == [b.tobytes() for b in other]


@BY_NAME
def test_a_batch_takes_fewer_launches_than_nodes(module: ModuleType, model: Any) -> None:
    trace = model.trace(module.instances(16, seed=7), p=module.params(16))
    assert trace.lower_bound <= len(trace.batches) < trace.nodes / 4
    assert sum(batch.size for batch in trace.batches) == trace.nodes


@BY_NAME
def test_sizes_and_seeds(module: ModuleType, model: Callable[..., Any]) -> None:
    def flat(value: Any) -> list[Any]:
        if dataclasses.is_dataclass(value):
            return [a for f in dataclasses.fields(value) for a in flat(getattr(value, f.name))]
        return [value]

    small = flat(module.params("small"))
    assert {a.dtype.name for a in small} == {"float32"}
    assert small[0].shape[-1] == module.SIZES["small"]
    assert all(np.array_equal(a, b) for a, b in zip(flat(module.params(8, 1)), flat(module.params(8, 1)), strict=True))
    assert not np.array_equal(flat(module.params(8, 1))[0], flat(module.params(8, 2))[0])
    matrix = flat(module.params(64))[0]
    assert math.isclose(float(matrix.std()) * 64**0.5, 1, rel_tol=0.05)
    with pytest.raises(ValueError, match="'small', 'large'"):
        module.params("huge")


@BY_NAME
def test_instances_are_the_same_for_a_seed_and_differ_between_seeds(
    module: ModuleType, model: Callable[..., Any]
) -> None:
    assert module.instances(5, seed=1) == module.instances(5, seed=1)
    assert module.instances(5, seed=1) != module.instances(5, seed=2)
    assert module.instances(0) == []


def test_instances_are_the_same_in_another_process(root: Path) -> None:
    code = "from acronumba.zoo import birnn; print(birnn.instances(3))"
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(birnn.instances(3))


def test_syntax_of_a_function() -> None:
    function = ast.parse("def area(w, h):\n    if not w: return 0\n    return w * h").body[0]
    assert data.function_syntax(function) == ("area", ("w", "h"), (("Not", "w"), "0"), ("w", "Mult", "h"))
    assert data.function_syntax(ast.parse("def f(): pass").body[0]) == ("f", "Pass")
    assert list(data.words(data.function_syntax(function))) == "area w h Not w 0 w Mult h".split()
    assert data.binarised(("a", "b", ("c", "d", "e"), "f")) == ("a", ("b", (("c", ("d", "e")), "f")))


def test_functions_of_the_library_have_the_lengths_promised() -> None:
    lengths = [len(words) for words in birnn.instances(60, seed=4)]
    assert len(lengths) == 60 and min(lengths) >= data.WORDS[0] and max(lengths) <= data.WORDS[1]
    assert len(set(lengths)) > 10


def test_trees_of_sst(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text(SST)
    it_works, no_one, ugh = tree_lstm.read_sst(path)

    def text(t: Tree) -> Any:
        return t.word if t.left is None or t.right is None else (text(t.left), text(t.right))

    number = {w: data.word_id(w, tree_lstm.VOCABULARY) for w in "It really works . No one knows Ugh".split()}
    assert text(it_works) == (number["It"], ((number["really"], number["works"]), number["."]))
    assert text(no_one) == ((number["No"], number["one"]), number["knows"])
    assert text(ugh) == number["Ugh"]
    assert birnn.read_sst(path)[0] == [number[w] for w in "It really works .".split()]
    assert mv_rnn.read_sst(path, 7)[2].word == data.word_id("Ugh", 7)


@pytest.mark.parametrize("line", ["(2 (2 a)", "(2 a))", "2 a", "()", "((2 a) b)", "(2)"])
def test_broken_lines_of_sst_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "broken.txt"
    path.write_text("(2 fine)\n" + line + "\n")
    with pytest.raises(ValueError, match=r"broken\.txt:2: not a tree"):
        tree_lstm.read_sst(path)


def test_trees_batched_by_hand_agree_with_plain_calls() -> None:
    p = tree_lstm.params(24)
    trees = [*tree_lstm.instances(20), Tree(word=3)]
    flat = yardsticks.flatten(trees)
    by_level = yardsticks.tree_lstm_by_level(p)(flat)
    plain = np.stack(yardsticks.plain(tree_lstm.sentiment, trees, p))
    assert by_level.shape == plain.shape and by_level.dtype == np.float32
    assert np.abs(by_level - plain).max() < 1e-6
    assert len(flat.leaves) + sum(len(level.nodes) for level in flat.levels) == flat.count
    done = set(flat.leaves.tolist())
    for level in flat.levels:  # children are computed before their parents, and every node once
        assert done.issuperset([*level.left.tolist(), *level.right.tolist()])
        assert done.isdisjoint(level.nodes.tolist())
        done.update(level.nodes.tolist())
