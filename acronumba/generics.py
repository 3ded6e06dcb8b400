"""Type variables for a model's parameters and result, for type checkers; and `Value`, any value of the user's.

They have defaults, so that a bare `Model` or `Results` stands for any types. Python supports defaults from 3.13 on;
type checkers take the names of `typing_extensions`, which is not imported. `of_columns` gives a method such as
`Model.batch` the signature of the model: a column for each positional parameter, and the keyword-only ones by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

Value: TypeAlias = Any  # a value of the user's program, of any class
ArrowArray: TypeAlias = Any  # an array of pyarrow, which has no types for type checkers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar, Concatenate, Generic, Protocol, overload

    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    T = TypeVar("T", covariant=True, default=Any)
    K = ParamSpec("K")
    Out = TypeVar("Out", covariant=True, default=Any)

    class _HasFields(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Value]]

    S = TypeVar("S", bound=dict[Value, Value] | list[Value] | tuple[Value, ...] | _HasFields)  # holds parameters
    G = TypeVar("G", covariant=True, default=Any)  # a structure of gradients

    class Whole: ...  # gradients of whole parameters: those of one parameter have its structure

    class _Nothing: ...  # only `...` takes it as its one parameter

    class _CallOf(Protocol[P]):
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    class OfColumns(Generic[P, Out]):
        """A method that takes columns; of models with more than four the rest is not checked."""

        @overload
        def __call__(self: OfColumns[[_Nothing], Out], *columns: Value, **shared: Value) -> Out: ...
        @overload
        def __call__(
            self: OfColumns[Concatenate[Value, K], Out], a: Value, /,
            *more: K.args, **shared: K.kwargs,
        ) -> Out: ...  # fmt: skip
        @overload
        def __call__(
            self: OfColumns[Concatenate[Value, Value, K], Out], a: Value, b: Value, /,
            *more: K.args, **shared: K.kwargs,
        ) -> Out: ...  # fmt: skip
        @overload
        def __call__(
            self: OfColumns[Concatenate[Value, Value, Value, K], Out], a: Value, b: Value, c: Value, /,
            *more: K.args, **shared: K.kwargs,
        ) -> Out: ...  # fmt: skip
        @overload
        def __call__(
            self: OfColumns[Concatenate[Value, Value, Value, Value, K], Out], a: Value, b: Value, c: Value, d: Value, /,
            *more: K.args, **shared: K.kwargs,
        ) -> Out: ...  # fmt: skip
        @overload
        def __call__(
            self: OfColumns[Concatenate[Value, Value, Value, Value, Value, K], Out],
            a: Value, b: Value, c: Value, d: Value, e: Value, /, *columns: Value, **shared: Value,
        ) -> Out: ...  # fmt: skip
        def __call__(self, *columns: Value, **shared: Value) -> Value: ...  # type: ignore[misc]

    class Method(Protocol[Out]):
        @overload
        def __get__(self, model: None, owner: type, /) -> Callable[..., Out]: ...
        @overload
        def __get__(self, model: _CallOf[P], owner: type | None = None, /) -> OfColumns[P, Out]: ...

    def of_columns(method: Callable[..., Out]) -> Method[Out]: ...

else:
    from typing import ParamSpec, TypeVar

    P, R, T, G = ParamSpec("P"), TypeVar("R"), TypeVar("T", covariant=True), TypeVar("G", covariant=True)
    of_columns = lambda method: method
