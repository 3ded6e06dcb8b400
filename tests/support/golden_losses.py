"""Losses whose backward kernels are kept as expected texts. Their lines are in the texts."""

from __future__ import annotations

from typing import Any

from acronumba import model, nn
from acronumba.zoo import tree_lstm
from acronumba.zoo.tree_lstm import Tree
from tests.support import golden_models


@model
def rnn_loss(t: golden_models.Tree, label: int, *, p: golden_models.Params) -> Any:
    return nn.cross_entropy(golden_models.encode(t, p), label)


@model
def lstm_loss(t: Tree, label: int, *, p: tree_lstm.Params) -> Any:
    h, _ = tree_lstm.encode(t, p)
    return nn.cross_entropy(p.w_out @ h + p.b_out, label)


LOSSES = {
    "tree_rnn": (rnn_loss, golden_models.CASES["tree_rnn"][1], golden_models.params()),
    "tree_lstm": (lstm_loss, tree_lstm.instances(2), tree_lstm.params(size=8)),
}
