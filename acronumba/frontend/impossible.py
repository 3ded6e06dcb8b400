"""Operations that Python rejects, too: they fail at run time, in the instances that get there.

In: an operation that the language does not know for some values. Out: the exception to raise; whether Python has the
operation is asked of Python, with examples of the values (`Value.example`).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence

from acronumba.frontend.exceptions import Rejected
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.words import Words


def impossible(w: Words, operation: Callable[..., Constant], operands: Sequence[Val], rejection: Rejected) -> Exception:
    """Return the exception to raise for a rejected operation: `Dead`, behind a failure, where Python raises, too.

    Inside of a call of a function of Python or NumPy, Python is asked of that call.
    """
    if w.asked:
        operation, operands = w.asked[0]
    elif w.outer_loc is not None:
        return rejection
    examples = [v.example(w) for v in operands if rejection.error is not None]
    if any(e is NOT_CONST for e in examples):
        return rejection
    try:
        operation(*examples)
    except (TypeError, AttributeError) as error:
        name = "TypeError" if isinstance(error, TypeError) else "AttributeError"
        return w.fails(name, rejection, str(error).partition("\n")[0])
    except IndexError as error:
        if str(error).startswith("only integers, slices"):  # of NumPy, for an index of this class
            return w.fails("IndexError", rejection, str(error))
    except Exception:  # depends on the values
        return rejection
    return rejection


def not_taken(function: Callable[..., Constant], count: int, names: Iterable[str]) -> str:
    """Return why a Python function takes no call of so many arguments, and some by name; "" if it does, or others."""
    if not isinstance(function, types.FunctionType):
        return ""
    given = [None] * count, dict.fromkeys(names)
    try:
        inspect.signature(function).bind(*given[0], **given[1])
    except TypeError:
        try:
            function(*given[0], **given[1])
        except TypeError as error:
            return str(error)
    return ""


def not_iterable(w: Words, val: Val) -> Exception:
    """Return the exception to raise for a value over which the language cannot iterate."""
    return impossible(w, iter, (val,), w.reject("ACR301", seen=f"{w.describe(val)} cannot be iterated over"))
