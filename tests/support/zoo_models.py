"""The models of the zoo with the modules that have parameters and instances for them."""

from __future__ import annotations

from typing import Any

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

ZOO: list[tuple[Any, Any]] = [
    (tree_lstm, tree_lstm.sentiment), (stack_rnn, stack_rnn.parse), (beam_decoder, beam_decoder.decode),
    (child_sum_lstm, child_sum_lstm.classify), (mv_rnn, mv_rnn.sentiment), (birnn, birnn.tag),
    (bilstm_tagger, bilstm_tagger.tag), (nested_rnn, nested_rnn.encode), (listops, listops.classify), (moe, moe.mix),
    (moe, moe.route), (moe, moe.route_emulated), (drnn, drnn.generate), (drnn, drnn.generate_emulated),
    (berxit, berxit.classify), (berxit, berxit.classify_emulated), (stack_rnn, stack_rnn.parse_emulated),
    (graph_rnn, graph_rnn.generate), (graph_rnn, graph_rnn.generate_emulated),
    (beam_decoder, beam_decoder.decode_emulated), (encoder, encoder.encode),
    (expressions, expressions.classify),
    (decoder, decoder.generate), (decoder, decoder.generate_emulated),
]  # fmt: skip
