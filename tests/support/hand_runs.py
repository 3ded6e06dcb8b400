"""Runs of programs that are written by hand (see `hand`): compiled, and in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.analysis.plan import make_plan
from acronumba.config import Options
from acronumba.ir import nodes as n
from acronumba.pipeline.link import link
from acronumba.runtime.driver import Executable
from acronumba.runtime.reference import reference_kernels
from acronumba.runtime.run import Run
from tests.support.hand import (
    F32,
    Tree,
    bits,
    read_tensor,
    tree_lstm_plain,
)
from tests.support.reference_kernels import interpreted_kernels, link_interpreted

ENGINES = ["compiled", "interpreted"]


def executable(p: n.Program, engine: str, **options: Any) -> Executable:
    o = Options(**options)
    plan = make_plan(p, o)
    if engine == "interpreted":
        return link_interpreted(plan, o, interpreted_kernels(plan.kernels))
    return link(plan, o, kernels=reference_kernels(plan.kernels))


def words(rows: Sequence[Sequence[Any]]) -> Any:
    return np.array([[bits(x) for x in row] for row in rows], np.int64).reshape(len(rows), -1)


SHAPES = ((10, 4), (8, 8), (4, 3))


def weights(rng: np.random.Generator) -> list[Any]:
    return [(rng.standard_normal(s) * 0.5).astype(F32) for s in SHAPES]


def check(done: Run, trees: Sequence[Tree], shared: Sequence[Any], skip: Sequence[int] = ()) -> None:
    for k, t in enumerate(trees):
        if k not in skip:
            got = read_tensor(done.words[k, 0], F32, (3,))
            np.testing.assert_allclose(got, tree_lstm_plain(t, *shared), rtol=1e-4, atol=1e-6)
