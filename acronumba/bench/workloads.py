"""The models of `acronumba.zoo`, with data and weights to measure them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from acronumba.api.model import Model
from acronumba.zoo import (
    beam_decoder,
    berxit,
    bilstm_tagger,
    birnn,
    child_sum_lstm,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model with data and weights."""

    name: str
    model: Model  # of one positional parameter and `p`
    params: Callable[[str | int], Any]  # from a size
    instances: Callable[[int], Any]  # how many
    read: Callable[[str], Any] | None  # reads a file of trees; None: instances have no words
    why: str  # purpose
    waits: bool = False  # whether computed values decide its control flow


def inputs(workload: Workload, size: str | int, batch: int, trees: str | None) -> tuple[Any, Any]:
    """Return instances and weights; the instances of a file are repeated from its beginning if it has too few."""
    p = workload.params(size)
    if trees is None or workload.read is None:
        return workload.instances(batch), p
    found = list(workload.read(trees))
    return [found[k % len(found)] for k in range(batch)], p


def _zoo(module: ModuleType, model: Model, why: str, suffix: str = "", waits: bool = False) -> Workload:
    return Workload(
        name=module.__name__.rpartition(".")[2] + suffix,
        model=model,
        params=module.params,
        instances=module.instances,
        read=getattr(module, "read_sst", None),
        why=why,
        waits=waits,
    )


ZOO: tuple[Workload, ...] = (
    _zoo(tree_lstm, tree_lstm.sentiment, "binary trees"),
    _zoo(child_sum_lstm, child_sum_lstm.classify, "trees with any number of children"),
    _zoo(mv_rnn, mv_rnn.sentiment, "a matrix per node"),
    _zoo(birnn, birnn.tag, "two directions, a class per word"),
    _zoo(bilstm_tagger, bilstm_tagger.tag, "rare words are spelled"),
    _zoo(nested_rnn, nested_rnn.encode, "a loop in a loop"),
    _zoo(listops, listops.classify, "a loop in a recursion"),
    _zoo(expressions, expressions.classify, "nested tuples without classes"),
    _zoo(encoder, encoder.encode, "attention over sentences of any length"),
    _zoo(moe, moe.mix, "weights chosen by a computed index"),
    _zoo(moe, moe.route_emulated, "a list of experts, chosen by data", "_emulated"),
    _zoo(drnn, drnn.generate_emulated, "trees grown as the data says", "_emulated"),
    _zoo(berxit, berxit.classify_emulated, "as many layers as the data says", "_emulated"),
    _zoo(stack_rnn, stack_rnn.parse_emulated, "a parser that is told its actions", "_emulated"),
    _zoo(graph_rnn, graph_rnn.generate_emulated, "a loop in a loop, with edges from the data", "_emulated"),
    _zoo(beam_decoder, beam_decoder.decode_emulated, "a beam that is told what to keep", "_emulated"),
    _zoo(decoder, decoder.generate_emulated, "attention over keys and values that grow", "_emulated"),
)
WAITING: tuple[Workload, ...] = (  # models of the zoo whose control flow depends on computed values
    _zoo(moe, moe.route, "a list of experts, chosen by a router", "_route", waits=True),
    _zoo(drnn, drnn.generate, "trees that decide how they grow", waits=True),
    _zoo(berxit, berxit.classify, "early exit from a stack of layers", waits=True),
    _zoo(stack_rnn, stack_rnn.parse, "a parser that decides its actions", waits=True),
    _zoo(graph_rnn, graph_rnn.generate, "a graph whose edges are drawn", waits=True),
    _zoo(beam_decoder, beam_decoder.decode, "beam search", waits=True),
    _zoo(decoder, decoder.generate, "sentences that decide when they end", waits=True),
)
