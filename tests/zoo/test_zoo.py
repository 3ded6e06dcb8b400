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

from acronumba import nn
from acronumba.zoo import (
    beam_decoder,
    berxit,
    bilstm_tagger,
    birnn,
    cells,
    child_sum_lstm,
    data,
    decoder,
    drnn,
    encoder,
    expressions,
    graph_rnn,
    listops,
    moe,
    mv_rnn,
    nested_rnn,
    stack_rnn,
    tree_lstm,
)
from acronumba.zoo.tree_lstm import Tree
from tests.support.chosen import one_in

MODELS: list[tuple[ModuleType, Callable[..., Any]]] = [
    (tree_lstm, tree_lstm.sentiment),
    (child_sum_lstm, child_sum_lstm.classify),
    (mv_rnn, mv_rnn.sentiment),
    (birnn, birnn.tag),
    (bilstm_tagger, bilstm_tagger.tag),
    (nested_rnn, nested_rnn.encode),
    (listops, listops.classify),
    (expressions, expressions.classify),
    (moe, moe.mix),
    (moe, moe.route_emulated),
    (drnn, drnn.generate_emulated),
    (berxit, berxit.classify_emulated),
    (stack_rnn, stack_rnn.parse_emulated),
    (graph_rnn, graph_rnn.generate_emulated),
    (beam_decoder, beam_decoder.decode),
    (beam_decoder, beam_decoder.decode_emulated),
    (moe, moe.route),
    (drnn, drnn.generate),
    (berxit, berxit.classify),
    (stack_rnn, stack_rnn.parse),
    (graph_rnn, graph_rnn.generate),
    (encoder, encoder.encode),
    (decoder, decoder.generate),
    (decoder, decoder.generate_emulated),
]


def by_name(models: list[tuple[ModuleType, Callable[..., Any]]], of: int = 1) -> Any:
    """Parameters for models by their names; of each `of`, one runs by default."""
    ids = [f"{module.__name__.rpartition('.')[2]}-{model.__name__}" for module, model in models]
    return pytest.mark.parametrize(("module", "model"), one_in(of, models, ids))


BY_NAME, HALF = by_name(MODELS), by_name(MODELS, 2)
WIDTH = 24  # one for all that is compiled here: each of a model is other code
CLASSIFIERS = (tree_lstm, child_sum_lstm, mv_rnn, birnn, bilstm_tagger, listops, expressions)
SST = "(3 (2 It) (4 (3 (2 really) (3 works)) (2 .)))\n\n(2 (2 (1 No) (2 one)) (2 knows))\n(1 Ugh)\n"


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def mapped(f: Callable[[Any], Any], value: Any) -> Any:
    """The weights with every array changed."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {x.name: mapped(f, getattr(value, x.name)) for x in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    if isinstance(value, list):
        return [mapped(f, v) for v in value]
    if isinstance(value, dict):
        return {key: mapped(f, v) for key, v in value.items()}
    return f(value) if isinstance(value, np.ndarray) else value


def wide(value: Any) -> Any:
    """The weights with every array in float64."""
    return mapped(lambda a: a.astype(np.float64), value)


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers in a result or in weights."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [a for f in dataclasses.fields(value) for a in leaves(getattr(value, f.name))]
    if isinstance(value, dict):
        return leaves(list(value.values()))
    if isinstance(value, list | tuple):
        return [a for v in value for a in leaves(v)]
    return [value]


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


def encoder_formula(words: list[int], p: Any) -> Any:
    """Word by word and head by head."""

    def normed(x: Any) -> Any:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5)

    x = [normed(p.embed[w] + p.position[k]) for k, w in enumerate(words)]
    for of in p.layers:
        q, k, v = ([(w @ row).reshape(p.heads, -1) for row in x] for w in (of.wq, of.wk, of.wv))
        out = []
        for at, row in enumerate(x):
            seen = range(at + 1 if p.causal else len(words))
            heads = []
            for h in range(p.heads):
                chances = softmax(np.array([q[at][h] @ k[j][h] for j in seen]) / math.sqrt(len(q[at][h])))
                heads.append(sum(c * v[j][h] for c, j in zip(chances, seen, strict=True)))
            row = normed(row + of.wo @ np.concatenate(heads)) * of.scale_attention + of.shift_attention
            hidden = of.w_in @ row + of.b_in
            hidden = hidden * [0.5 * (1 + math.erf(a / math.sqrt(2))) for a in hidden]
            out.append(normed(row + of.w_out @ hidden + of.b_out) * of.scale + of.shift)
        x = out
    return np.stack(x)


@pytest.mark.parametrize("causal", one_in(2, [True, False]))
def test_an_encoder_is_its_formula_alone_and_in_a_batch(causal: bool) -> None:
    p = encoder.params(WIDTH, causal=causal)
    wide_p, xs = wide(p), [*encoder.instances(3), [5], [7, 7]]
    for words, got in zip(xs, encoder.encode.batch(xs, p=p), strict=True):
        expected = encoder_formula(words, wide_p)
        assert got.dtype == np.float32 and got.shape == (len(words), WIDTH)
        assert max(np.abs(a - expected).max() for a in (got, encoder.encode(words, p=p))) < 1e-5


def test_a_causal_encoder_does_not_look_ahead() -> None:
    words = encoder.instances(1)[0]
    for causal in (True, False):
        p = encoder.params(WIDTH, causal=causal)
        whole, part = encoder.encode.batch([words, words[:-1]], p=p)
        assert (np.abs(whole[:-1] - part).max() < 1e-5) == causal


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


def test_cells_are_their_formulas() -> None:
    rng = np.random.default_rng(0)
    x, h, c = (rng.standard_normal(n) for n in (3, 5, 5))
    of_lstm, of_gru = wide(cells.lstm_params(rng, 5, 3)), wide(cells.gru_params(rng, 5, 3))

    def gates(cell: Any) -> tuple[list[Any], list[Any]]:
        rows = [slice(k, k + 5) for k in range(0, len(cell.b), 5)]
        return [cell.w[r] @ x + cell.b[r] for r in rows], [cell.u[r] @ h for r in rows]

    i, f, o, u = (a + b for a, b in zip(*gates(of_lstm), strict=True))
    memory = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
    got = cells.lstm(of_lstm, x, h, c)
    assert np.allclose(got, (sigmoid(o) * np.tanh(memory), memory), rtol=1e-12)
    (xr, xz, xn), (hr, hz, hn) = gates(of_gru)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    assert np.allclose(cells.gru(of_gru, x, h), z * h + (1 - z) * np.tanh(xn + r * hn), rtol=1e-12)


def expression_formula(e: expressions.Expression, p: Any) -> Any:
    if e[0] == "number":
        return np.tanh(p.w_number * (math.copysign(math.log(1 + abs(e[1])), e[1]) if e[1] else 0) + p.b_number)
    if e[0] == "name":
        return p.embed[e[1]]
    operator = p.operators[e[1]]
    if e[0] == "unary":
        return np.tanh(p.w_unary @ expression_formula(e[2], p) + operator)
    given = [expression_formula(part, p) for part in (e[2:] if e[0] == "binary" else e[2])]
    half = len(operator)
    state = given.pop(0) if e[0] == "binary" else operator
    for x in given:
        state = np.tanh(p.w[:, :half] @ state + p.w[:, half:] @ x + operator)
    return state


def test_expressions_are_their_formula() -> None:
    p, wide_p = expressions.params(16), wide(expressions.params(16))
    for e in [*expressions.instances(8), ("number", 0.0), ("number", -3.5), ("many", "Tuple", [])]:
        expected = softmax(wide_p.w_out @ expression_formula(e, wide_p) + wide_p.b_out)
        assert np.abs(expressions.classify(e, p=p) - expected).max() < 1e-5


def test_expressions_of_syntax_are_plain_tuples() -> None:
    text = "if not x: y = a.b[-2] * f(1, k=True)\nwhile 0 < a <= 9 or b: (a, *b)\nreturn"
    name = {n: ("name", data.word_id(n, expressions.VOCABULARY)) for n in ("a", "b", "f", "x", "True")}
    item = ("binary", "Subscript", ("binary", "Attribute", name["a"], name["b"]), ("unary", "USub", ("number", 2.0)))
    call = ("many", "Call", [name["f"], ("number", 1.0), name["True"]])
    between = ("many", "Compare", [("number", 0.0), name["a"], ("number", 9.0)])
    places = {place: k for k, place in enumerate(expressions.PLACES)}
    assert expressions.read(ast.parse(text)) == [
        (("many", "Or", [between, name["b"]]), places["tested"]),
        (("binary", "Mult", item, call), places["assigned"]),
        (("many", "Tuple", [name["a"], ("many", "Starred", [name["b"]])]), places["alone"]),
    ]


def test_deep_and_long_expressions_are_one_program() -> None:
    p, deep = expressions.params(8), ("number", 1.0)
    for _ in range(300):
        deep = ("unary", "USub", ("many", "Add", [deep, ("name", 3)]))
    xs = [deep, ("name", 3), ("many", "Tuple", [("name", k) for k in range(500)]), ("number", 2.0)]
    for got, x in zip(expressions.classify.batch(xs, p=p), xs, strict=True):
        assert np.abs(got - expressions.classify(x, p=p)).max() < 1e-6


def test_listops_are_their_binary_trees() -> None:
    p = listops.params(16)
    leaf = [Tree(word=k) for k in range(len(listops.SYMBOLS))]
    e = listops.Expression

    def tree(x: listops.Expression) -> Tree:
        if x.symbol < 10:
            return leaf[x.symbol]
        t = leaf[x.symbol]
        for argument in x.arguments:
            t = Tree(left=t, right=tree(argument))
        return Tree(left=t, right=leaf[listops.CLOSE])

    for x in [*listops.instances(5), e(7), e(10, [])]:
        same: Any = p  # the weights of a Tree-LSTM by the same names
        expected, _ = tree_lstm.encode(tree(x), same)
        assert np.array_equal(listops.encode(x, p)[0], expected)


def test_expressions_are_read_and_have_values(tmp_path: Path) -> None:
    path = tmp_path / "some.tsv"
    path.write_text(
        "5\t( ( ( [MAX 5 ) 2 ) ] )\n\n"
        "6\t( ( ( ( [SM 9 ) ( ( ( ( [MED 1 ) 8 ) 7 ) ] ) ) 0 ) ] )\n"
        "2\t( ( ( ( [MIN 3 ) ( ( ( [MED 1 ) 4 ) ] ) ) 9 ) ] )\n7\t7\n"
    )
    found = listops.read(path)
    assert [listops.value(x) for x in found] == [5, 6, 2, 7]
    assert [len(x.arguments) for x in found] == [2, 3, 3, 0]
    assert listops.SYMBOLS[found[1].arguments[1].symbol] == "[MED"
    values = [listops.value(x) for x in listops.instances(300)]
    assert set(values) == set(range(10))


@pytest.mark.parametrize("text", ["( [MAX 1", "( 1 ) ]", "1 2", "[AVG 1 ]", "( ( [MAX ] )"])
def test_broken_expressions_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.tsv"
    path.write_text("1\t1\n1\t" + text + "\n")
    with pytest.raises(ValueError, match=r"broken\.tsv:2: not an expression"):
        listops.read(path)


# --------------------------------------------------------------------------- computed decisions, and the same from data


def test_a_router_decides_as_a_list_and_as_a_stack_of_experts() -> None:
    p = moe.params(16)
    chosen = set()
    for x in moe.instances(8):
        experts = [int(np.argmax(p.w_router @ p.embed[w])) for w in x.words]
        chosen.update(experts)
        routed = moe.route(x, p=p)
        told = moe.route_emulated(dataclasses.replace(x, experts=experts), p=p)
        for a, b, c in zip(routed, told, moe.mix(x, p=p), strict=True):
            assert np.array_equal(a, b)
            assert np.allclose(a, c, rtol=1e-5, atol=1e-6)
    assert len(chosen) == moe.EXPERTS


def test_trees_grow_as_they_are_told_to() -> None:
    def shape(nodes: list[drnn.Node]) -> drnn.Shape:
        return drnn.Shape([shape(n.children) for n in nodes])

    def levels(nodes: list[drnn.Node]) -> int:
        return 1 + max(levels(n.children) for n in nodes) if nodes else 0

    def families(nodes: list[drnn.Node]) -> list[int]:
        return [len(nodes), *(f for n in nodes if n.children for f in families(n.children))]

    p = drnn.params(32)
    trees = []
    for x in drnn.instances(64):
        tree = drnn.generate(x, p=p)
        told = drnn.generate_emulated(dataclasses.replace(x, shape=shape(tree)), p=p)
        for a, b in zip(leaves(tree), leaves(told), strict=True):
            assert np.array_equal(a, b)
        trees.append(tree)
    assert {levels(t) for t in trees} == {1, 2, 3, 4}
    assert {f for t in trees for f in families(t)} == {1, 2, 3, 4}
    assert len({str(shape(t)) for t in trees}) > 16
    assert len({int(n.word) for t in trees for n in t}) > 8


def test_sentences_leave_the_layers_when_they_are_told_to() -> None:
    p = berxit.params(32)
    used = []
    for x in berxit.instances(64, length=16):
        probabilities, layers = berxit.classify(x, p=p)
        told, certain = berxit.classify_emulated(dataclasses.replace(x, layers=layers), p=p)
        assert np.array_equal(probabilities, told)
        assert certain >= 0.5 or layers == berxit.LAYERS
        used.append(layers)
    assert len(set(used)) >= 5
    assert max(used.count(k) for k in used) < 40


def test_a_parser_takes_the_actions_that_it_is_told() -> None:
    p = stack_rnn.params(32)
    depths = set()
    taken: list[int] = []
    for x in stack_rnn.instances(64):
        actions, vector = stack_rnn.parse(x, p=p)
        scores, told = stack_rnn.parse_emulated(dataclasses.replace(x, actions=actions), p=p)
        assert np.array_equal(vector, told)
        assert actions.count(stack_rnn.SHIFT) == len(x.words) and len(actions) == 2 * len(x.words) - 1
        depth, left = 0, len(x.words)
        for action, score in zip(actions, scores, strict=True):
            valid = [k for k in range(3) if (left > 0 if k == stack_rnn.SHIFT else depth > 1)]
            assert action == max(valid, key=score.__getitem__)
            depth, left = (depth + 1, left - 1) if action == stack_rnn.SHIFT else (depth - 1, left)
            depths.add(depth)
        taken += actions
    assert len(depths) > 5
    assert min(taken.count(k) for k in range(3)) > len(taken) / 20


def test_graphs_have_the_edges_that_they_are_told() -> None:
    p = graph_rnn.params(32)
    counts = []
    for x in graph_rnn.instances(16):
        graph = graph_rnn.generate(x, p=p)
        probabilities, state = graph_rnn.generate_emulated(dataclasses.replace(x, edges=graph.edges), p=p)
        assert np.array_equal(graph.state, state)
        assert [len(row) for row in graph.edges] == list(range(1, graph_rnn.NODES))
        for edges, draws, chances in zip(graph.edges, x.draws, probabilities, strict=True):
            assert edges == [int(d < c) for d, c in zip(draws, chances, strict=True)]
        counts.append(sum(map(sum, graph.edges)))
    assert len(set(counts)) > 4
    assert 20 < min(counts) < max(counts) < 120


def test_beams_find_what_scores_best_and_are_of_many_lengths() -> None:
    p = beam_decoder.params(32)
    lengths = []
    for x in beam_decoder.instances(64):
        found = beam_decoder.decode(x, p=p)
        assert [s.score for s in found] == sorted((s.score for s in found), reverse=True)
        assert len(found) == beam_decoder.BEAM and len({str(s.words) for s in found}) == beam_decoder.BEAM
        for s in found:
            ended = [int(w) == beam_decoder.END for w in s.words]
            assert not any(ended[:-1]) and (ended[-1] or len(s.words) == beam_decoder.LENGTH)
        best = found[0]
        h = c = p.start[x.vector]
        vector, total = p.begin, 0.0
        for word in best.words:
            h, c = cells.lstm(p.cell, vector, h, c)
            total += math.log(softmax((p.w_out @ h + p.b_out).astype(np.float64))[word])
            vector = p.embed[word]
        assert math.isclose(total, float(best.score), rel_tol=1e-4)
        lengths.append(max(len(s.words) for s in found))
    assert len(set(lengths)) > 6
    assert max(lengths.count(n) for n in lengths) < 40


def test_what_does_not_depend_on_a_wait_shares_its_round() -> None:
    assert moe.route.trace(moe.instances(8), p=moe.params(16)).rounds == 2
    steps = drnn.SIBLINGS * drnn.LEVELS  # along the longest way, a round each
    p = drnn.params(64)
    trace = drnn.generate.trace(drnn.instances(16), p=p)
    assert trace.rounds <= steps + 1
    assert drnn.generate.with_options(forkjoin=False).trace(drnn.instances(16), p=p).rounds > 4 * steps


@pytest.mark.parametrize("width", [16, 64])
def test_beams_keep_what_they_are_told(width: int) -> None:
    p = beam_decoder.params(width)
    for x in beam_decoder.instances(16, seed=2):
        found = beam_decoder.decode_emulated(x, p=p)
        assert len(found) == len(x.rounds[-1])
        assert max(len(s.words) for s in found) == len(x.rounds)


@pytest.mark.parametrize("model", one_in(2, [decoder.generate_emulated, decoder.generate], ["emulated", "waits"]))
def test_what_is_kept_is_what_a_whole_sentence_computes(model: Any) -> None:
    """A word is the most probable one after all before it, which go through the layers anew for each."""
    p, xs = decoder.params(WIDTH), decoder.instances(12)
    lengths = []
    for x, found in zip(xs, model.batch(xs, p=p), strict=True):
        written, total = [int(w) for w in found.words], 0.0
        for k, word in enumerate(written):
            before = x.words + written[:k]
            state = np.stack([p.embed[w] for w in before]) + p.position[: len(before)]
            state = nn.layer_norm(state)
            for layer in p.layers:
                state = encoder.apply(state, layer, p.heads, causal=True)
            scores = p.w_out @ state[-1] + p.b_out
            assert scores[word] >= scores.max() - 1e-4
            total += math.log(softmax(scores.astype(np.float64))[word])
        assert math.isclose(total, float(found.score), rel_tol=1e-4)
        ended = [word == decoder.END for word in written]
        if model is decoder.generate:
            assert not any(ended[:-1]) and (ended[-1] or len(written) == decoder.LENGTH)
        else:
            assert len(written) == x.follow
        lengths.append(len(written))
    assert len(set(lengths)) > 4


def test_keys_of_all_lengths_are_one_batch() -> None:
    p, xs = decoder.params(WIDTH), decoder.instances(16)
    batches = {}
    for ragged in (True, False):
        trace = decoder.generate.with_options(ragged=ragged).trace(xs, p=p)
        batches[ragged] = len(trace.batches) / trace.rounds
    assert batches[True] < 10 < 2 * batches[True] < batches[False]


class Watched(np.ndarray):
    """An array that notes the dtype of everything computed from it."""

    seen: set[str] = set()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        if "out" in kw:
            kw["out"] = tuple(x.view(np.ndarray) for x in kw["out"])
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
    Watched.seen = set()
    model(module.instances(1)[0], p=mapped(lambda a: a.view(Watched), module.params(8)))
    assert Watched.seen == {"float32"}


@by_name([(module, model) for module, model in MODELS if module in CLASSIFIERS])
def test_results_are_probabilities(module: ModuleType, model: Callable[..., Any]) -> None:
    p = module.params(12, seed=3)
    for x in module.instances(6, seed=3):
        result = model(x, p=p)
        for row in leaves(result):
            assert row.dtype == np.float32 and row.shape == (module.CLASSES,)
            assert math.isclose(float(row.sum()), 1, rel_tol=1e-5) and row.min() >= 0


@HALF
def test_batched_results_are_as_near_to_float64_as_promised(module: ModuleType, model: Any) -> None:
    p, instances = module.params(WIDTH), module.instances(24, seed=5)
    batched = model.batch(instances, p=p)
    assert len(batched) == len(instances)
    wide_p = wide(p)
    for x, got in zip(instances, batched, strict=True):
        plain, exact = model(x, p=p), model(x, p=wide_p)
        assert type(got) is type(plain)
        for a, b, c in zip(leaves(got), leaves(plain), leaves(exact), strict=True):
            assert type(a) is type(b)
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert np.shape(a) == np.shape(b)
            assert np.abs(a - c).max() <= max(1e-5 * np.abs(c).max(), 4 * np.abs(b - c).max())


def bits(result: Any) -> list[Any]:
    """What a result is, to the bit."""
    return [np.asarray(a).tobytes() for a in leaves(result)]


@HALF
def test_results_do_not_depend_on_the_rest_of_the_batch(module: ModuleType, model: Any) -> None:
    """Batches of 1, 8, 64 and 256 instances, drawn in any order, some of them twice."""
    p, distinct, rng = module.params(WIDTH), module.instances(40, seed=6), np.random.default_rng(6)
    if module is berxit:
        distinct = berxit.instances(40, seed=6, length=16)
    alone = [bits(model.batch([x], p=p)[0]) for x in distinct]
    for size in (8, 64, 256):
        chosen = rng.integers(len(distinct), size=size).tolist()
        results = model.batch([distinct[k] for k in chosen], p=p)
        assert all(bits(r) == alone[k] for k, r in zip(chosen, results, strict=True))


def test_sentences_that_are_certain_leave_the_batch() -> None:
    p, sentences = berxit.params(32), berxit.instances(64, length=16)
    layers = np.array([berxit.classify(x, p=p)[1] for x in sentences])
    trace = berxit.classify.trace(sentences, p=p)
    alive = [int((layers >= k).sum()) for k in range(1, berxit.LAYERS + 1)]
    assert alive[0] == 64 and len(set(alive)) >= 5
    for k, count in enumerate(alive):  # round k runs a layer of those alive, and the classes of those that have left
        sizes = [batch.size for batch in trace.batches if batch.round == k]
        assert sizes.count(count) >= 3
        left = alive[k - 1] - count if 0 < k < berxit.LAYERS - 1 else alive[k - 1]
        assert [size for size in sizes if size != count] == ([left] if k else [64 * 16])  # all words at once, at first


@HALF
def test_a_batch_takes_fewer_launches_than_nodes(module: ModuleType, model: Any) -> None:
    trace = model.trace(module.instances(48, seed=7), p=module.params(WIDTH))
    assert trace.lower_bound <= len(trace.batches) < trace.nodes / 4
    assert sum(batch.size for batch in trace.batches) == trace.nodes


@by_name(list({module: (module, model) for module, model in MODELS}.values()))
def test_sizes_and_seeds(module: ModuleType, model: Callable[..., Any]) -> None:
    def flat(value: Any) -> list[Any]:
        return [a for a in leaves(value) if isinstance(a, np.ndarray)]

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
