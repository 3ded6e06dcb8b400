"""Features of Python: each is the plain call by the interpreter, as machine code and on the simulator of a GPU."""

from __future__ import annotations

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.plain_call import WAYS
from tests.support.python_features import FEATURES, INSTANCES, REJECTED

COLUMNS = list(zip(*INSTANCES, strict=True))
NAMED = {f.__name__: f for fs in FEATURES.values() for f in fs}
WORKING = [name for name in NAMED if name not in REJECTED]


@pytest.mark.parametrize(("way", "name"), by_ways(WORKING, WORKING, compiled=12, simulated=24))
def test_it_is_the_plain_call(way: str, name: str) -> None:
    WAYS[way](NAMED[name], *COLUMNS)


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(NAMED[name])._interpret(*COLUMNS)
    assert not isinstance(caught.value, InstanceErrors)


def test_how_many() -> None:
    assert len(NAMED) >= 209
    assert len(WORKING) >= 205
