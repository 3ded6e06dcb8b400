"""Where the models of the tests register, each with the arguments of a batch; and how a batch is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model
from acronumba.check import compare
from acronumba.errors import InstanceErrors
from acronumba.results import equal

RNG = np.random.default_rng(7)
H, V, C = 5, 12, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model and one batch for it."""

    name: str
    model: Any
    columns: tuple[Any, ...]
    shared: dict[str, Any]


CASES: list[Case] = []


def weights(*shape: int) -> np.ndarray:
    """Return random float32 weights."""
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


def case(*columns: Any, **shared: Any) -> Callable[[Any], Any]:
    """Register a function as a model with the arguments of a batch; the function itself stays plain."""

    def register(fn: Any) -> Any:
        CASES.append(Case(name=fn.__name__, model=model(fn), columns=columns, shared=shared))
        return fn

    return register


def plain(case: Case) -> list[object]:
    """Return the results of the plain calls, or the exceptions that they raise."""
    out: list[object] = []
    for instance in zip(*case.columns, strict=True):
        try:
            out.append(case.model(*instance, **case.shared))
        except Exception as error:
            out.append(error)
    return out


def agree(got: list[object], expected: list[object], *, single: bool = False) -> None:
    assert len(got) == len(expected)
    for k, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if isinstance(theirs, Exception):
            assert type(mine) is type(theirs) and str(mine) == str(theirs), (k, mine, theirs)
        else:
            assert equal(mine, theirs) or compare(mine, theirs, theirs, single=single)[0] == "close", (k, mine, theirs)


def outcome(run, case: Case) -> list[object]:
    try:
        return list(run(*case.columns, **case.shared))
    except InstanceErrors as error:
        return [error.errors.get(k, result) for k, result in enumerate(error.results)]
