"""The trainings of ``acronumba bench --train``: losses of models of the zoo, with labels.

Labels are random numbers: the time of a step does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model, nn
from acronumba.bench.workloads import Workload
from acronumba.zoo import bilstm_tagger, birnn, child_sum_lstm, drnn, expressions, mv_rnn, stack_rnn, tree_lstm
from acronumba.zoo.data import Array
from acronumba_bench.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A loss of a model, with labels for its instances."""

    workload: Workload  # of the model: instances and weights
    loss: Any  # a `Model` of the instance, its labels and `p`
    labels: Callable[[np.random.Generator, Any], Any]  # of an instance; None: they are in the instance

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.workload.name

    def columns(self, xs: Sequence[Any]) -> tuple[list[Any], ...]:
        """Return instances with labels, equal in every call."""
        rng = np.random.default_rng(0)
        return list(xs), [self.labels(rng, x) for x in xs]


@model
def of_sentiment(t: tree_lstm.Tree, label: int, *, p: tree_lstm.Params) -> Array:
    h, _ = tree_lstm.encode(t, p)
    return nn.cross_entropy(p.w_out @ h + p.b_out, label)


@model
def of_tags(words: list[int], tags: list[int], *, p: birnn.Params) -> Array:
    vectors = [p.embed[w] for w in words]
    forward, backward = birnn.read(vectors, p.forward), birnn.read(vectors[::-1], p.backward)
    total = np.float32(0)
    for f, b, tag in zip(forward, reversed(backward), tags):  # noqa: B905  # one state per word in all
        total = total + nn.cross_entropy(p.w_out @ np.concatenate([f, b]) + p.b_out, tag)
    return total


@model
def of_kinds(node: child_sum_lstm.Node, label: int, *, p: child_sum_lstm.Params) -> Array:
    return -np.log(child_sum_lstm.classify(node, p=p)[label])


@model
def of_places(e: expressions.Expression, place: int, *, p: expressions.Params) -> Array:
    return nn.cross_entropy(p.w_out @ expressions.encode(e, p) + p.b_out, place)


@model
def of_matrices(t: tree_lstm.Tree, label: int, *, p: mv_rnn.Params) -> Array:
    return -np.log(mv_rnn.sentiment(t, p=p)[label])


@model
def of_spelled(sentence: list[bilstm_tagger.Word], tags: list[int], *, p: bilstm_tagger.Params) -> Array:
    total = np.float32(0)
    for y, tag in zip(bilstm_tagger.tag(sentence, p=p), tags):  # noqa: B905  # one tag per word
        total = total - np.log(y[tag])
    return total


@model
def of_actions(sentence: stack_rnn.Sentence, actions: list[int], *, p: stack_rnn.Params) -> Array:
    scores, _ = stack_rnn.parse_emulated(sentence, p=p)
    total = np.float32(0)
    for y, action in zip(scores, actions):  # noqa: B905  # one before each action
        total = total + nn.cross_entropy(y, action)
    return total


@model
def of_sentences(sentence: stack_rnn.Sentence, size: float, *, p: stack_rnn.Params) -> Array:
    _, x = stack_rnn.parse(sentence, p=p)
    return nn.mse(x, np.float32(size))


def of_nodes(nodes: list[drnn.Node], word: int) -> Array:
    total = np.float32(0)
    for node in nodes:
        total = total - np.log(node.probabilities[word]) + of_nodes(node.children, word)
    return total


@model
def of_trees(start: drnn.Start, word: int, *, p: drnn.Params) -> Array:
    return of_nodes(drnn.generate(start, p=p), word)


def _one(classes: int) -> Callable[[np.random.Generator, Any], int]:
    return lambda rng, x: int(rng.integers(classes))


def _each(classes: int) -> Callable[[np.random.Generator, Any], list[int]]:
    return lambda rng, x: rng.integers(classes, size=len(x)).tolist()


_ALL = (
    ("tree_lstm", of_sentiment, _one(tree_lstm.CLASSES)),
    ("birnn", of_tags, _each(birnn.CLASSES)),
    ("child_sum_lstm", of_kinds, _one(child_sum_lstm.CLASSES)),
    ("expressions", of_places, _one(expressions.CLASSES)),
    ("mv_rnn", of_matrices, _one(mv_rnn.CLASSES)),
    ("bilstm_tagger", of_spelled, _each(bilstm_tagger.CLASSES)),
    ("stack_rnn_emulated", of_actions, lambda rng, x: list(x.actions)),
    ("stack_rnn", of_sentences, lambda rng, x: float(rng.random())),
    ("drnn", of_trees, _one(drnn.WORDS)),
)
LESSONS: dict[str, Lesson] = {
    name: Lesson(workload=WORKLOADS[name], loss=loss, labels=labels) for name, loss, labels in _ALL
}
