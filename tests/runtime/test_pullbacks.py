"""Compiled pullbacks are those of the definition: cotangents of any result, gradients of parameters and instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acronumba import AcronumbaError
from acronumba.ir.interpret import InstanceFailure
from acronumba.zoo import (
    berxit,
    bilstm_tagger,
    birnn,
    child_sum_lstm,
    decoder,
    encoder,
    expressions,
    graph_rnn,
    listops,
    moe,
    mv_rnn,
    nested_rnn,
    stack_rnn,
    tree_lstm,
)  # fmt: skip
from tests.support.all_models import CASES
from tests.support.chosen import one_in
from tests.support.random_gradients import TENS, wrong_programs
from tests.support.routes import Pullbacks

ZOO = [
    (tree_lstm, tree_lstm.sentiment), (child_sum_lstm, child_sum_lstm.classify), (mv_rnn, mv_rnn.sentiment),
    (birnn, birnn.tag), (bilstm_tagger, bilstm_tagger.tag), (nested_rnn, nested_rnn.encode),
    (listops, listops.classify), (moe, moe.mix), (moe, moe.route_emulated), (stack_rnn, stack_rnn.parse),
    (berxit, berxit.classify), (graph_rnn, graph_rnn.generate_emulated), (moe, moe.route),
    (decoder, decoder.generate_emulated), (encoder, encoder.encode), (expressions, expressions.classify),
]  # fmt: skip


@pytest.mark.parametrize(("module", "f"), one_in(6, one_in(2, ZOO, [f.__name__ for _, f in ZOO], "slow")))
def test_the_zoo(module: Any, f: Any) -> None:
    both = Pullbacks(f, [module.instances(3)], {"p": module.params(size=8)})
    assert both.possible and both.error() < 1e-5


@pytest.mark.parametrize("case", one_in(8, one_in(2, CASES, [c.name for c in CASES], "slow")))
def test_models_of_the_language(case: Any) -> None:
    try:
        both = Pullbacks(case.model, case.columns, case.shared)
    except (AcronumbaError, InstanceFailure):
        return
    if both.possible:
        assert both.error() < 1e-4


def error_of(main: Any, columns: Any, shared: Any) -> float | None:
    both = Pullbacks(main, columns, shared)
    return both.error() if both.possible else None


@pytest.mark.slow
@pytest.mark.parametrize("first", TENS)
def test_random_programs(first: int, tmp_path: Path) -> None:
    wrong, many = wrong_programs(error_of, range(first, first + 10), tmp_path)
    assert not wrong and many > 0, (wrong, many)
