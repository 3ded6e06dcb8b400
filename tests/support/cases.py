"""Functions of tests, each with the columns of a batch, collected by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

Case: TypeAlias = tuple[Callable[..., Any], tuple[Sequence[Any], ...]]
F = TypeVar("F")


def into(cases: list[Case]) -> Callable[..., Callable[[F], F]]:
    """Return a decorator `case(*columns)` that adds a function to a list, and leaves it as it is."""

    def case(*columns: Sequence[Any]) -> Callable[[F], F]:
        def add(function: F) -> F:
            cases.append((function, columns))  # type: ignore[arg-type]
            return function

        return add

    return case
