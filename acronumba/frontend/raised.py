"""Exceptions that a model may catch: the active `except` clauses, and where control flow reaches them.

In: the name of the exception of a failing operation, or a class. Out: the first clause that catches it. A raised
exception is a point of the program and a value, kept by its clause until the clause is walked (see `trying`).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from acronumba.ir.ops import SCALARS
from acronumba.ir.types import FLOAT, INT, Type

if TYPE_CHECKING:
    from acronumba.frontend.block import Point
    from acronumba.frontend.facts import Facts
    from acronumba.frontend.kinds.value import Constant, Val


@dataclass(eq=False)
class Clause:
    """An `except` clause that is active: what it catches, and the points where that was raised, with its value."""

    classes: tuple[type, ...]
    raised: list[tuple[Point, Val]] = field(default_factory=list)

    def catches(self, cls: type) -> bool:
        return issubclass(cls, self.classes)

    def note(self, points: Sequence[Point], val: Val) -> None:
        """Note that an exception is raised at points; code that follows, but cannot be reached, changes no state."""
        self.raised += [((block, dict(state)), val) for block, state in points]


@dataclass(eq=False)
class Handler:
    """The clauses of a `try` statement whose body is being walked; or of the callers of a recursive function."""

    clauses: Sequence[Clause]
    depth: int  # number of frames around it
    counter: int  # scopes with a higher number began inside


_OF_TENSORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError)  # that operations on tensors raise


class Catching:
    """The clauses around the point of emission."""

    handlers: list[Handler]  # of the `try` statements around it, the innermost last
    unclear = False  # whether the code is that of a function of PyTorch, which may raise another exception than it does
    facts: Facts
    reject: Callable[..., Exception]

    def catcher(self, cls: type) -> Clause | None:
        """Return the `except` clause that catches an exception of a class that is raised here; None if none does."""
        return next((c for h in reversed(self.handlers) for c in h.clauses if c.catches(cls)), None)

    def catches(self, error: str) -> bool:
        """Whether a failure by an exception of this name may be caught; reject one of PyTorch of an unclear class."""
        cls = self.raised_class(error) if self.handlers else None
        if cls is None:
            return False
        clause = self.catcher(cls)
        others = (IndexError, RuntimeError) if error == "IndexError" else _OF_TENSORS
        if self.unclear and (any(self.catcher(c) is not clause for c in others) or self._catches_of_pytorch()):
            seen = "an operation of PyTorch that may fail in `try`, with an exception that one of the clauses catches"
            raise self.reject("ACR101", seen=seen, rewrite="compute it before the `try` statement, or behind it")
        return clause is not None

    def _catches_of_pytorch(self) -> bool:
        """Whether a clause names an exception of PyTorch, such as `torch.linalg.LinAlgError`."""
        classes = (cls for h in self.handlers for c in h.clauses for cls in c.classes)
        return any(cls.__module__.partition(".")[0] == "torch" for cls in classes)

    def raised_class(self, error: str) -> type | None:
        """Return the class of the exception of a failure, by its name; None if the plain call would not raise it."""
        return RuntimeError if error == "ShapeMismatch" and self.facts.tensors else exception_class(error)


@lru_cache(maxsize=256)
def exception_class(error: str) -> type | None:
    """Return the class of the exception of a failure, by its name; None if the plain call would not raise it."""
    if error == "ShapeMismatch":
        return ValueError
    cls = getattr(builtins, error, None) or getattr(np.linalg, error, None)
    return cls if isinstance(cls, type) and issubclass(cls, BaseException) else None


# Messages of the library where it lacks something: the plain call would not raise these.
LIMITS = frozenset((
    "a replacement with a backslash that only run time knows",
    "a pattern that only run time knows has something that compiled patterns lack",
    "findall() by a pattern of several groups that only run time knows: use finditer()",
    "a standard deviation that is no normal float",
    "a variance of more than 63 bits",
    "pow() of a negative exponent and a modulus: compute the inverse first",
    "the distance of empty vectors, which is no float in SciPy",
    "scatter_add with an index that is smaller than the tensor is not supported",
    "squeeze(dim) of a last dimension whose size of 1 only run time knows",
    "squeeze(dim) of a dimension whose size only run time knows, and that is not 1",
    "squeeze() of a dimension whose size of 1 only run time knows: write squeeze(dim)",
    "statistics of ints of more than 53 bits",
))  # fmt: skip

TOO_LARGE = "the result does not fit 64 bits"
ZERO_DIVISION = "integer division or modulo by zero"


def scalar_failure(op: str, result: Type) -> tuple[str, str]:
    """Return the exception that an operation on Python numbers raises, and its message."""
    if SCALARS[op].divides and not (op == "floordiv" and result != FLOAT):
        return "ZeroDivisionError", "division by zero" if result == FLOAT else ZERO_DIVISION
    if result == INT:
        return "OverflowError", TOO_LARGE
    return ("OverflowError", "math range error") if SCALARS[op].grows else ("ValueError", "math domain error")


def is_endless(op: str, args: Sequence[Constant]) -> bool:
    """Whether the result of a constant power or shift exceeds 16,384 bits."""
    if op not in ("pow", "lshift") or not all(isinstance(a, int) for a in args):
        return False
    base, by = args
    return bool(by > 0 and by * (base.bit_length() if op == "pow" else 1) > 1 << 14)
