"""Failures of instances: from the machine's record to the user's own exception.

In: what the machine knows (name of the exception, message, place) and the instance. The instance is run again by the
plain call, which is the definition: its exception is the answer, with the traceback that the user knows. Where the
plain call does not raise (an overflow of 64 bits, too many steps) or cannot get that far (a recursion too deep for
Python, too many steps before it), the machine's own is the answer.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

from acronumba.api.plain import Endless, PlainCall
from acronumba.errors import AcronumbaError, DataError, ShapeMismatch, Unsupported
from acronumba.pipeline.boundary import is_library
from acronumba.pipeline.failures import TOO_MANY_STEPS, with_line

ENDLESS = (TOO_MANY_STEPS, "ACR704")  # the plain call would not come back either: too many steps, too much memory


def is_final(machine: BaseException) -> bool:
    """Whether the machine's own account is the answer: the plain call fails otherwise, or may not come back.

    A step of the plain call that is one call of C cannot be stopped: a power, a sum over a `range`, an array. What is
    refused for this instance alone is a change of its data: the plain call would make it.
    """
    if isinstance(machine, DataError) or (isinstance(machine, AcronumbaError) and machine.code in ENDLESS):
        return True
    return isinstance(machine, Unsupported) or beyond_64_bits(machine)


def beyond_64_bits(machine: BaseException) -> bool:
    """Whether an int did not fit: Python's have no limit, so that it would go on, perhaps with an array so long."""
    return isinstance(machine, OverflowError) and "64 bits" in str(machine)


def plain_failure(call: PlainCall, instance: Sequence[Any], machine: BaseException) -> BaseException:
    """Return the exception of an instance that the machine found to fail.

    Parameters
    ----------
    call : PlainCall
        The user's function; beyond its bounds it is given up.
    instance
        Its positional arguments.
    machine : BaseException
        The machine's own account (see `pipeline.failures`).
    """
    if is_final(machine):
        return machine
    try:
        call.run(instance)
    except Endless:
        return machine
    except (RecursionError, MemoryError) as error:
        return error if isinstance(machine, type(error)) else machine
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != getattr(machine, "raised", ""):
            raise  # not the model's: somebody wants to end all of this
        line, file = user_line(error)
        error = with_line(error, line or getattr(machine, "line", None), file or getattr(machine, "file", None))
        if isinstance(machine, ShapeMismatch) and not isinstance(error, ShapeMismatch):
            return _shape(machine, error, line, file)
        error.__traceback__ = None  # its frames would keep all data alive
        return error
    return machine


def _shape(machine: ShapeMismatch, told: BaseException, line: int | None, file: str | None) -> BaseException:
    """Return the clash of shapes with the words of NumPy, if it is the one that the plain call met first."""
    if not isinstance(told, ValueError) or (line and machine.line and (line, file) != (machine.line, machine.file)):
        told.__traceback__ = None
        return told
    if not machine.seen:
        machine.seen = " ".join(str(told).split())
    return machine


def user_line(error: BaseException) -> tuple[int | None, str | None]:
    """Return line and file of the innermost frame of an exception that is the user's code."""
    found: tuple[int | None, str | None] = (None, None)
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library(file) and linecache.getline(file, 1):
            found = trace.tb_lineno, file
        trace = trace.tb_next
    return found
