"""Failures of instances: from the record of compiled code to the user's own exception.

In: the failure as compiled code recorded it (name of the exception, message, source line) and the instance. The
instance is run again by the plain call, which is the definition: its exception is reported, with the traceback that the
user knows. Where the plain call does not raise (an overflow of 64 bits, too many steps) or cannot get that far (a
recursion too deep for Python, too many steps before it), the recorded exception is reported.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from types import FrameType, TracebackType

import numpy as np

from acronumba.api.meter import Endless
from acronumba.api.plain import PlainCall
from acronumba.errors import AcronumbaError, DataError, ShapeMismatch, Unsupported
from acronumba.generics import Value
from acronumba.pipeline.boundary import is_library
from acronumba.pipeline.failures import TOO_MANY_STEPS, with_line

ENDLESS = (TOO_MANY_STEPS, "ACR704")  # the plain call would not terminate either: too many steps, too much memory

UNORDERED = "ACR118"


def is_final(machine: BaseException) -> bool:
    """Whether the recorded exception is reported: the plain call would fail in another way, or may not terminate.

    A step of the plain call that is one C call cannot be interrupted: a power, a sum over a `range`, an array. A
    rejection of this instance alone is about a mutation of its data, which the plain call would perform.
    """
    if is_unordered(machine):
        return False
    if isinstance(machine, DataError) or (isinstance(machine, AcronumbaError) and machine.code in ENDLESS):
        return True
    return isinstance(machine, Unsupported) or beyond_64_bits(machine)


def is_unordered(machine: BaseException) -> bool:
    """Whether an instance has read an attribute before it has written it: the plain call may find it, or may not."""
    return isinstance(machine, Unsupported) and machine.code == UNORDERED


def beyond_64_bits(machine: BaseException) -> bool:
    """Whether an int overflowed 64 bits: the plain call would continue, perhaps with an array of this length."""
    return isinstance(machine, OverflowError) and "64 bits" in str(machine)


def plain_failure(call: PlainCall, instance: Sequence[Value], machine: BaseException) -> BaseException:
    """Return the exception of an instance that failed in compiled code.

    Parameters
    ----------
    call : PlainCall
        The user's function, stopped at its bounds.
    instance
        Its positional arguments.
    machine : BaseException
        The recorded exception (see `pipeline.failures`).
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
    """Return the recorded shape mismatch with the shapes found, if the plain call failed first at the same line."""
    if not isinstance(told, ValueError) or (line and machine.line and (line, file) != (machine.line, machine.file)):
        told.__traceback__ = None
        return told
    if not machine.seen:
        trace = _user_frame(told)
        machine.seen = (trace and _shapes(machine, trace.tb_frame)) or " ".join(str(told).split())
    told.__traceback__ = None
    return machine


def _shapes(machine: ShapeMismatch, frame: FrameType) -> str:
    """Return the shapes of the arrays that the failed expression names, and which transposition would fit."""
    start, end = machine.loc.column, machine.loc.end_column
    text = machine.source.encode()[start:end].decode(errors="ignore")
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:  # the expression goes on in the next line
        return ""
    arrays = {ast.unparse(e): a for e in ast.walk(expression) if isinstance(a := _named(e, frame), np.ndarray)}
    said = ", ".join(f"`{name}` is {a.dtype}{list(a.shape)}" for name, a in arrays.items())
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.MatMult):
        left, right = (arrays.get(ast.unparse(side)) for side in (expression.left, expression.right))
        if left is not None and right is not None and left.ndim and right.ndim:
            fits = [expression.left] if left.ndim == 2 and left.shape[0] == right.shape[max(-2, -right.ndim)] else []
            fits += [expression.right] if right.ndim == 2 and left.shape[-1] == right.shape[1] else []
            said += f"; `{ast.unparse(fits[0])}.T` would fit" if fits else ""
    return said


def _named(e: ast.AST, frame: FrameType) -> object:
    """Return the value of a name, field or entry in a frame, or None; no code of the user runs."""
    match e:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Attribute(value=of, attr=name):
            return getattr(_named(of, frame), "__dict__", {}).get(name)
        case ast.Subscript(value=of, slice=ast.Constant(value=key)):
            table = _named(of, frame)
            return table.get(key) if type(table) is dict else None
    return None


def user_line(error: BaseException) -> tuple[int | None, str | None]:
    """Return line and file of the innermost frame of an exception that is the user's code."""
    trace = _user_frame(error)
    return (None, None) if trace is None else (trace.tb_lineno, trace.tb_frame.f_code.co_filename)


def _user_frame(error: BaseException) -> TracebackType | None:
    found, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library(file) and linecache.getline(file, 1):
            found = trace
        trace = trace.tb_next
    return found
