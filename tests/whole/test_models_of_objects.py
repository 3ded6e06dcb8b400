"""Models written with classes give what the plain call gives: compiled, in the interpreter, in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acronumba import model
from tests.support.chosen import one_in
from tests.support.models_of_objects import CASES
from tests.support.plain_call import agree, outcomes, plain


@pytest.mark.parametrize("fn", one_in(2, CASES), ids=lambda fn: fn.__name__)
def test_it_is_what_the_plain_call_is(fn: Callable[..., Any]) -> None:
    f, column = model(fn), CASES[fn]
    wanted = plain(fn, column)
    agree(outcomes(f.batch, column), wanted, close=True)
    agree(outcomes(f._interpret, column), wanted, close=True)
    agree(outcomes(f.batch, column[::-1]), wanted[::-1], close=True)


@pytest.mark.slow
@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_on_the_simulator(fn: Callable[..., Any]) -> None:
    column = CASES[fn]
    agree(outcomes(model(fn).on("simulator").batch, column), plain(fn, column), close=True)
    agree(outcomes(model(fn).with_options(forkjoin=False, blocks=False).batch, column), plain(fn, column), close=True)
