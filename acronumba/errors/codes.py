"""The stable codes of refusals.

`CODES` has one entry per code: which exception is raised, and a title. A code never changes its meaning and is never
used again. The page of each code (what it means, a program that raises it and one that works) is in
`acronumba.pages`; `refuse` makes the exception.

    ACR1xx statements and expressions     ACR4xx shapes                       ACR6xx values of tensors that Python needs
    ACR2xx calls and functions            ACR5xx shared parameters            ACR7xx run time
    ACR3xx types and data
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from acronumba.errors import (
    NOWHERE,
    AcronumbaError,
    DataError,
    Loc,
    ScheduleError,
    ShapeMismatch,
    TypeMismatch,
    Unsupported,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One code: the exception class that carries it and a sentence for its title."""

    code: str
    error: type[AcronumbaError]
    title: str


def _table() -> dict[str, Code]:
    rows: dict[type[AcronumbaError], dict[int, str]] = {
        Unsupported: {
            101: "`try` is not in the language",
            102: "`with` is not in the language",
            103: "`global` and `nonlocal` are not in the language",
            104: "generators and coroutines are not in the language",
            105: "`del` is not in the language",
            106: "imports inside a model are not in the language",
            107: "class definitions inside a model are not in the language",
            108: "this statement is not in the language",
            109: "this target of an assignment is not in the language",
            110: "`else` of a loop is not in the language",
            111: "elements of a tensor cannot be assigned",
            112: "this tensor cannot be changed in place: it may have another name",
            113: "what is reached from a parameter cannot be changed",
            114: "a generator expression must be consumed at once",
            115: "only list comprehensions are in the language",
            116: "strings exist only as constants",
            117: "this expression is not in the language",
            201: "this function is not part of the model and cannot be called from it",
            202: "this NumPy function or argument is not in the language",
            203: "the arguments do not fit the function",
            204: "the source of this function cannot be read",
            205: "a model inside a model is called plainly",
            206: "a closure cannot escape from the function that made it",
            207: "this recursion never ends",
            208: "a model has positional parameters, and keyword-only ones for what is shared",
            209: "this method or attribute is not in the language",
            210: "decorated, built-in and C functions cannot be compiled",
            211: "`np.random` is not in the language",
            601: "Python needs one number here, and this is an array of another size",
        },
        TypeMismatch: {
            301: "the types do not go together",
            302: "the value may be None or of another class here",
            303: "no one type describes these values",
            304: "this value cannot be stored, so it cannot be read",
            305: "the number of values to unpack is wrong",
            306: "the variable may have no value here",
            307: "there is no such attribute",
            308: "this object cannot be a value at run time",
            309: "the key of a dict must be a constant",
            310: "this dtype is not supported",
            501: "this value cannot be a shared parameter",
            706: "the arguments of the call do not fit the model",
            708: "the file does not hold these parameters",
        },
        ShapeMismatch: {
            401: "the shapes do not go together",
            402: "there is no such axis",
            403: "this extent must be known when the model is compiled",
            404: "the sizes do not fit the reshape",
            703: "the results cannot be stacked",
            707: "the columns have different lengths",
            709: "the file holds tensors of other shapes",
        },
        AcronumbaError: {
            700: "some instances of the mini-batch failed",
            702: "the instance did not finish within `max_steps` steps",
            704: "the mini-batch does not fit in memory",
            705: "the option or device does not exist",
            710: "there is nothing to show",
            712: "the code of the model changed again and again while it was compiled",
            799: "this is a mistake of acronumba: please report it",
        },
        ScheduleError: {
            711: "the function given as `schedule` returned no valid batches",
        },
        DataError: {
            701: "a value of this instance does not have its declared type",
        },
    }
    flat = [(number, error, title) for error, titles in rows.items() for number, title in titles.items()]
    return {f"ACR{n}": Code(code=f"ACR{n}", error=error, title=title) for n, error, title in sorted(flat, key=_number)}


def _number(row: tuple[int, type[AcronumbaError], str]) -> int:
    return row[0]


CODES: Mapping[str, Code] = _table()


def refuse(code: str, loc: Loc = NOWHERE, seen: str = "", rewrite: str = "", message: str = "") -> AcronumbaError:
    """Return the exception of a code, to be raised, or collected for `errors.together`.

    Parameters
    ----------
    code : str
        A key of `CODES`.
    loc : Loc
        The exact expression.
    seen, rewrite : str
        What was seen there, and one change that works (by default the one of the code's page).
    message : str
        A sentence more exact than the title of the code.
    """
    entry = CODES[code]
    text = message or entry.title
    if not rewrite:
        from acronumba.pages import PAGES

        rewrite = PAGES[code].rewrite if code in PAGES else ""
    if entry.error is DataError:
        return DataError(text, code=code, loc=loc, seen=seen, rewrite=rewrite)
    return entry.error(code, text, loc, seen, rewrite)


def page_text(code: str) -> str:
    """Return the offline page of a code, or raise `KeyError`."""
    from acronumba.pages import PAGES

    entry = CODES[code]
    page = PAGES[code]
    parts = [f"{code}: {entry.title}", f"Raised as acronumba.{entry.error.__name__}.", textwrap.fill(page.text, 100)]
    if page.rewrite:
        parts.append(textwrap.fill(f"Instead: {page.rewrite}.", 100))
    if page.wrong:
        parts += ["Refused:" if code < "ACR7" else "Wrong:", _indent(page.wrong)]
    if page.right:
        parts += ["Right:", _indent(page.right)]
    return "\n\n".join(parts) + "\n"


def _indent(code: str) -> str:
    return "\n".join(("    " + line).rstrip() for line in code.strip("\n").splitlines())
