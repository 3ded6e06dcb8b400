"""Where the models of the tests register, each with the arguments of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model
from tests.support import plain_call

RNG = np.random.default_rng(7)
H, V, C = 5, 12, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model and one batch for it."""

    name: str
    model: Any
    columns: tuple[Any, ...]
    shared: dict[str, Any]

    def plain(self) -> list[Any]:
        """Return the results of the plain calls, or the exceptions that they raise."""
        return plain_call.plain(self.model, *self.columns, **self.shared)

    def outcomes(self, run: Callable[..., Any]) -> list[Any]:
        """Return the results of a mini-batch, or the exceptions of its instances."""
        return plain_call.outcomes(run, *self.columns, **self.shared)


CASES: list[Case] = []


def weights(*shape: int) -> np.ndarray:
    """Return random float32 weights."""
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


def into(cases: list[Case]) -> Callable[..., Callable[[Any], Any]]:
    """Return a decorator that registers a function as a model with a batch; the function itself stays plain."""

    def case(*columns: Any, **shared: Any) -> Callable[[Any], Any]:
        def register(fn: Any) -> Any:
            cases.append(Case(name=fn.__name__, model=model(fn), columns=columns, shared=shared))
            return fn

        return register

    return case


case = into(CASES)
