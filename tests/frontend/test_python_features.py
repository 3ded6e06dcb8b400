"""Features of Python: each is the plain call by the interpreter, as machine code and on the simulator of a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.plain_call import agree, outcomes, plain
from tests.support.python_features import FEATURES, INSTANCES, REFUSED

COLUMNS = list(zip(*INSTANCES, strict=True))
NAMED = {f.__name__: f for fs in FEATURES.values() for f in fs}
WORKING = [name for name in NAMED if name not in REFUSED]


def some(step: int) -> list[Any]:
    """Return all names, of which those between every so many are slow."""
    return [n if k % step == 0 else pytest.param(n, marks=pytest.mark.slow) for k, n in enumerate(WORKING)]


@pytest.mark.parametrize("name", WORKING)
def test_interpreted(name: str) -> None:
    f = NAMED[name]
    agree(outcomes(model(f)._interpret, *COLUMNS), plain(f, *COLUMNS), close=True)


@pytest.mark.parametrize("name", some(4))
def test_batched(name: str) -> None:
    f = NAMED[name]
    expected = plain(f, *COLUMNS)
    agree(outcomes(model(f).batch, *COLUMNS), expected, close=True)
    agree(outcomes(model(f).batch, *[c[1:2] for c in COLUMNS]), expected[1:2], close=True)


@pytest.mark.parametrize("name", some(24))
def test_simulated(name: str) -> None:
    f = NAMED[name]
    agree(outcomes(model(f).on("simulator").batch, *COLUMNS), plain(f, *COLUMNS), close=True, single=True)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(NAMED[name])._interpret(*COLUMNS)
    assert not isinstance(caught.value, InstanceErrors)


def test_how_many() -> None:
    assert len(NAMED) >= 209
    assert len(WORKING) >= 205
