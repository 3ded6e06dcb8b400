"""Type variables for a model's parameters and result, for type checkers; and `Value`, any value of the user's.

They have defaults, so that a bare `Model` or `Results` stands for any types. Python supports defaults from 3.13 on;
type checkers take the names of `typing_extensions`, which is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

Value: TypeAlias = Any  # a value of the user's program, of any class
ArrowArray: TypeAlias = Any  # an array of pyarrow, which has no types for type checkers

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    T = TypeVar("T", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P, R, T = ParamSpec("P"), TypeVar("R"), TypeVar("T", covariant=True)
