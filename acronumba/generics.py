"""The type variables of models: what type checkers know of a model's parameters and result.

A bare `Model` or `Results` is one of anything: variables have defaults, which Python itself knows from 3.13 on, and
type checkers by the names of `typing_extensions`, which is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    T = TypeVar("T", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P, R, T = ParamSpec("P"), TypeVar("R"), TypeVar("T", covariant=True)
