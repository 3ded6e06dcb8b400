"""Compiled pullbacks are those of the definition: cotangents of any result, gradients of parameters and instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError
from acronumba.api.cotangents import matched
from acronumba.api.forward import Forward, _Compiled
from acronumba.api.structures import float_arrays, structured
from acronumba.api.wanted import Choices, wanted_of
from acronumba.ir.interpret import InstanceFailure
from acronumba.zoo import (
    berxit,
    bilstm_tagger,
    birnn,
    child_sum_lstm,
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
from tests.support.random_gradients import TWENTIES, wrong_programs

ZOO = [
    (tree_lstm, tree_lstm.sentiment), (child_sum_lstm, child_sum_lstm.classify), (mv_rnn, mv_rnn.sentiment),
    (birnn, birnn.tag), (bilstm_tagger, bilstm_tagger.tag), (nested_rnn, nested_rnn.encode),
    (listops, listops.classify), (moe, moe.mix), (moe, moe.route_emulated), (stack_rnn, stack_rnn.parse),
    (berxit, berxit.classify), (graph_rnn, graph_rnn.generate_emulated), (moe, moe.route),
]  # fmt: skip


def names_of(call: Any, f: Any) -> tuple[str, ...]:
    """Return the parameters that hold arrays of floats."""
    code = f.__wrapped__.__code__
    own = [n for n, c in zip(code.co_varnames, call.columns, strict=False) if float_arrays(list(c))]
    return (*own, *(n for n, v in call.shared.items() if float_arrays(v)))


def cotangents(results: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [structured(r, lambda x: np.asarray(rng.standard_normal(np.shape(x)), np.asarray(x).dtype)) for r in results]


class Both:
    """Gradients of a mini-batch, from random cotangents of all its results: compiled, and by the reference."""

    def __init__(self, f: Any, columns: Any, shared: dict[str, Any], **options: Any) -> None:
        self.f = f.with_options(**options) if options else f
        self.call = self.f._bind(columns, shared)
        self.names = names_of(self.call, f)
        self.possible = bool(self.names)
        if self.possible:
            self.wanted = wanted_of(self.f._plain(), Choices.of(self.names, "sum", False, ()), self.call)
            self.forward = Forward(self.f, self.call, self.wanted, True)
            self.possible = all(isinstance(part, _Compiled) for part in self.forward.parts)

    def gradients(self, forward: Any = None) -> Any:
        forward = forward or self.forward
        given = cotangents(self.forward.results)  # what is one array for one of them may be two for the other
        return forward.pull({k: matched(r, given[k], k) for k, r in enumerate(forward.results)}, False)

    def error(self) -> float:
        """Return the largest difference, relative to the largest part of a gradient."""
        mine = float_arrays(list(self.gradients()))
        theirs = float_arrays(list(self.gradients(Forward(self.f, self.call, self.wanted, False))))
        assert len(mine) == len(theirs)
        scale = max((float(np.abs(g).max(initial=0.0)) for g in theirs), default=0.0)
        if not np.isfinite(scale) or scale > 1e6:
            return 0.0
        apart = (np.abs(np.asarray(a, np.float64) - b).max(initial=0.0) for a, b in zip(mine, theirs, strict=True))
        return float(max(apart, default=0.0)) / (scale or 1.0)


@pytest.mark.parametrize(("module", "f"), one_in(6, ZOO, ids=[f.__name__ for _, f in ZOO]))
def test_the_zoo(module: Any, f: Any) -> None:
    both = Both(f, [module.instances(3)], {"p": module.params(size=8)})
    assert both.possible and both.error() < 1e-5


@pytest.mark.parametrize("case", one_in(16, CASES, ids=[c.name for c in CASES]))
def test_models_of_the_language(case: Any) -> None:
    try:
        both = Both(case.model, case.columns, case.shared)
    except (AcronumbaError, InstanceFailure):
        return
    if both.possible:
        assert both.error() < 1e-4


def error_of(main: Any, columns: Any, shared: Any) -> float | None:
    both = Both(main, columns, shared)
    return both.error() if both.possible else None


@pytest.mark.parametrize("first", TWENTIES)
def test_random_programs(first: int, tmp_path: Path) -> None:
    wrong, many = wrong_programs(error_of, range(first, first + 20), tmp_path)
    assert not wrong and many > 0, (wrong, many)
