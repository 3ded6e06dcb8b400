"""Conversion of failures recorded by compiled code to Python exceptions."""

from __future__ import annotations

import builtins

import numpy as np

from acronumba import errors
from acronumba.errors import AcronumbaError, DataError, Loc, ShapeMismatch
from acronumba.errors.codes import CODES, reject

TOO_MANY_STEPS = "ACR702"


def machine_failure(error: str, text: str, loc: Loc, *, endless: bool = False) -> BaseException:
    """Return the exception of a recorded failure, from its class name, message and source position."""
    made: BaseException
    if endless:
        made = reject(TOO_MANY_STEPS, loc, seen=text)
    elif error in CODES:
        made = reject(error, loc, seen=text)
    elif error == "ShapeMismatch":
        made = ShapeMismatch("ACR401", text, loc)
    elif error == "DataError":
        made = DataError(text, loc=loc)
    else:
        cls = getattr(errors, error, None) or getattr(builtins, error, None) or getattr(np.exceptions, error, None)
        if isinstance(cls, type) and issubclass(cls, BaseException) and not issubclass(cls, AcronumbaError):
            made = cls(text)
        else:
            made = RuntimeError(f"{error}: {text}" if text else error)
        made.raised = error  # type: ignore[attr-defined]
    return with_line(made, loc.line, loc.file)


def with_line(error: BaseException, line: int | None, file: str | None) -> BaseException:
    """Set the attributes `line` and `file` of an exception (acronumba's own have them)."""
    if not isinstance(error, AcronumbaError) and line:
        error.line = line  # type: ignore[attr-defined]
        error.file = file  # type: ignore[attr-defined]
    return error
