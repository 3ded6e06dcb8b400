"""The derivatives of a specialisation: analyses for gradients and compiled backward passes, each made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from acronumba.pipeline.artifacts import Artifacts
from acronumba.pipeline.boundary import bounded

if TYPE_CHECKING:
    from acronumba.analysis.active import Active, RequestedValues
    from acronumba.analysis.backward.derive import Backward

T = TypeVar("T")


class Derivatives:
    """Computes the analyses and code for gradients of a program.

    Parameters
    ----------
    of
        The plan and the executables of the program.
    """

    def __init__(self, of: Artifacts) -> None:
        self.fn, self._of = of.fn, of
        self._active: dict[tuple[RequestedValues, int | None], Active] = {}
        self._backward: dict[tuple[RequestedValues, int | None], tuple[Backward, ...]] = {}
        self._compiled: dict[Hashable, Any] = {}

    @bounded
    def active(self, wanted: RequestedValues, width: int | None) -> Active:
        """Return the variables of the program that gradients flow through (see `analysis.active`)."""
        from acronumba.analysis.active import active

        if (wanted, width) not in self._active:
            self._active[wanted, width] = active(self._of.program, wanted, width)
        return self._active[wanted, width]

    @bounded
    def backward(self, wanted: RequestedValues, width: int | None) -> tuple[Backward, ...]:
        """Return the backward of each kernel of the plan (see `analysis.backward`)."""
        from acronumba.analysis.backward.program import derive_all

        if (wanted, width) not in self._backward:
            self._backward[wanted, width] = derive_all(self._of.gradient_plan, wanted, width)
        return self._backward[wanted, width]

    def compiled(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the compiled backward pass of a key, made on first use."""
        with self._of.lock:
            if key not in self._compiled:
                with self._of.times.stage("compile"):
                    self._compiled[key] = make()
            return cast(T, self._compiled[key])
