"""The stable codes of errors.

`CODES` has one entry per code: exception class, message and rewrite. A code never changes its meaning and is never
reused. `reject` makes the exception. The page of each code (its meaning, a program that raises it and one that works)
is a Markdown file in `pages/`, read only when it is shown.

    ACR1xx statements and expressions     ACR4xx shapes                       ACR6xx values of tensors that Python needs
    ACR2xx calls and functions            ACR5xx shared parameters            ACR7xx run time
    ACR3xx types and data
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from acronumba.errors import (
    NOWHERE,
    AcronumbaError,
    DataError,
    InternalError,
    Loc,
    ScheduleError,
    ShapeMismatch,
    TypeMismatch,
    Unsupported,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One code."""

    code: str
    error: type[AcronumbaError]  # the exception that carries it
    title: str  # default message
    rewrite: str  # default advice


def _table() -> dict[str, Code]:
    rows: dict[type[AcronumbaError], dict[int, tuple[str, str]]] = {
        Unsupported: {
            101: (
                "this use of `try` is not supported",
                "test the condition with `if` before the operation that could fail",
            ),
            102: ("this `with` is not supported", "remove the `with`"),
            103: ("`global` is not supported", "pass the value as an argument and return the new value"),
            104: ("this use of `yield` or `await` is not supported", "append to a list and return it"),
            105: ("`del` of this is not supported", "leave it out"),
            106: ("imports inside a model are not supported", "move the import to the top of the file"),
            107: ("class definitions inside a model are not supported", "move the class to the top level of the file"),
            108: ("this statement is not supported", "use statements of the language"),
            111: ("this array cannot be written to", "write into a copy: `x = x.copy()`"),
            112: ("an in-place change would be visible through another reference", "write `x = x + y`"),
            113: (
                "a parameter, or an object reachable from it, cannot be mutated",
                "change a copy: `list(x)`, `dataclasses.replace(x, ...)`",
            ),
            114: ("an iterator cannot be stored, or read again here", "make a list: `[... for ...]`, `list(...)`"),
            116: (
                "a run-time value cannot be converted to a string",
                "return the value and make the text from the results",
            ),
            117: ("this expression is not supported", "use expressions of the language"),
            118: (
                "an attribute is read before this instance has assigned it",
                "assign it first, as instances have no order, or let each begin with what was there: `state='initial'`",
            ),
            201: (
                "this function is not part of the model and cannot be called from it",
                "call it before or after the batch; the plain call can run any function",
            ),
            202: ("this NumPy function or argument is not supported", "express it with functions of the language"),
            203: (
                "the arguments do not match the signature of the function",
                "call the function with the arguments of its definition",
            ),
            204: (
                "the source of this function cannot be read",
                "put the function into a file (or a notebook) and import it again",
            ),
            205: ("inside a model, another model can only be called plainly", "call it plainly: `g(x)`"),
            206: (
                "a function can be called and passed, but not returned or stored at run time",
                "return its result; keep functions in a tuple or list display: (f, g)",
            ),
            207: ("this recursion has no base case", "add a path that returns without recursion"),
            208: (
                "a model has positional parameters for instances and keyword-only parameters for shared values",
                "name each parameter; put shared parameters after `*`",
            ),
            209: ("this method or attribute is not supported", "use a function or method of the language"),
            210: ("decorated, built-in and C functions cannot be compiled", "call a plain function"),
            211: (
                "`np.random` is not supported",
                "draw from a key that is a positional parameter: acronumba.random.normal(key, shape)",
            ),
            601: (
                "Python needs a single number here, but the array does not have exactly one element",
                "select or reduce the elements: `x.any()`, `x.all()`, `x.sum()`, `x[0]`",
            ),
            602: (
                "the conversion to a Python number loses the gradient",
                "compute with the array (`np.sqrt(x)`); or stop the gradient: `nn.stop_gradient(x)`",
            ),
        },
        TypeMismatch: {
            301: ("the types are incompatible", "convert one of the values, or pass values of another type"),
            302: (
                "the value may be None or of another class here",
                "test it first: `if x is not None`, `isinstance`, `match`",
            ),
            303: ("these values have no common type", "give the values one type, for example a dataclass"),
            304: (
                "this value cannot be stored, so it cannot be read",
                "store a number or an enum instead, or do not read it",
            ),
            305: ("the number of values to unpack is wrong", "unpack into as many names as there are values"),
            306: ("the variable may be unbound here", "assign the variable on every path"),
            307: ("there is no such attribute", "use a field of the class"),
            308: ("this object cannot be a value at run time", "use numbers or an enum instead"),
            309: (
                "this value cannot be the key of a dict",
                "use an int, bool, string, member of an enum, None, or a tuple of these",
            ),
            310: ("this dtype is not supported", "use float32 or float64"),
            311: (
                "a loss must be one float for each instance",
                "return a scalar: `nn.cross_entropy(...)`, `np.sum(...)`",
            ),
            501: ("this value cannot be a shared parameter", "pass an array, a number, or a dataclass of them"),
            706: (
                "the arguments of the call do not match the model",
                "pass a sequence per positional parameter and the shared values by name",
            ),
            708: ("the file does not contain these parameters", "give `like` the structure that was saved"),
            714: (
                "a cotangent does not match its result",
                "pass the structure of the result, with None for values other than float tensors",
            ),
            715: (
                "the current values of this array are on a device",
                'f.on("cuda") within the block of `on_device`, or fetch() first',
            ),
            713: (
                "these parameters cannot be updated",
                "pass the gradients that `value_and_grad` returned for these parameters",
            ),
        },
        ShapeMismatch: {
            401: ("the shapes are incompatible", "print the shapes in a plain call, and reshape or transpose an array"),
            402: ("there is no such axis", "use an axis from -rank to rank - 1"),
            403: ("this dimension must be known when the model is compiled", "use a constant or a shared int"),
            404: (
                "a reshape cannot change the number of elements",
                "give a shape with as many elements, or -1 for one dimension",
            ),
            703: (
                "the results cannot be stacked or joined",
                "`results.ragged()` joins arrays of different lengths; otherwise stack the leaves of equal shape: "
                "`np.stack([r[0] for r in results])`",
            ),
            707: ("the columns have different lengths", "pass as many elements for each parameter"),
            709: ("the file contains tensors of other shapes", "give `like` the shapes that were saved"),
        },
        AcronumbaError: {
            700: ("some instances of the mini-batch failed", "look at `.errors` and `.results` of the exception"),
            702: (
                "the instance did not finish within `max_steps` steps",
                "check the loop on this line, or raise the limit with `with_options(max_steps=...)`",
            ),
            704: (
                "the mini-batch does not fit in memory",
                "pass fewer instances at once, or raise `with_options(memory_limit=...)`",
            ),
            705: ("the option or device does not exist", "see `acronumba.Options`"),
            710: ("the file has no data for the model", "define `example()` in the file"),
            712: (
                "the code of the model changed repeatedly during its compilation",
                "do not change the code while `batch` compiles it",
            ),
            799: ("this is a bug in acronumba", "report it with the program and its data"),
        },
        ScheduleError: {
            711: (
                "the function given as `schedule` returned no valid batches",
                "number the distinct pairs of depth and signature: "
                "`np.unique(np.stack([c['depth'], c['signature']], axis=1), axis=0, return_inverse=True)[1]`",
            )
        },
        InternalError: {
            798: (
                "a bug in acronumba prevented the compilation of your program",
                "run the plain call meanwhile, `[f(x) for x in xs]`, and report it with the program and its data",
            )
        },
        DataError: {
            701: ("a value of this instance does not have its declared type", "correct the value, or the annotation")
        },
    }
    codes = [
        Code(code=f"ACR{number}", error=error, title=title, rewrite=rewrite)
        for error, texts in rows.items()
        for number, (title, rewrite) in texts.items()
    ]
    return {entry.code: entry for entry in sorted(codes, key=lambda entry: entry.code)}


CODES: Mapping[str, Code] = _table()


def reject(code: str, loc: Loc = NOWHERE, seen: str = "", rewrite: str = "", message: str = "") -> AcronumbaError:
    """Return the exception of a code, to be raised, or collected for `errors.together`.

    Parameters
    ----------
    code : str
        A key of `CODES`.
    loc : Loc
        The exact expression.
    seen, rewrite : str
        The types, shapes or names found there, and one change that works (by default the code's own).
    message : str
        A sentence more exact than the title of the code.
    """
    entry = CODES[code]
    text = message or entry.title
    rewrite = rewrite or entry.rewrite
    if entry.error is DataError:
        return DataError(text, code=code, loc=loc, seen=seen, rewrite=rewrite)
    return entry.error(code, text, loc, seen, rewrite)


def read_page(code: str) -> tuple[str, dict[str, str]]:
    """Return the explanation on a code's page and its programs, or raise `KeyError`.

    The programs are by name: `Rejected` or `Wrong` raises the code, `Right` is the correct program.
    """
    from importlib import resources

    file = resources.files("acronumba.errors") / "pages" / f"{CODES[code].code}.md"
    markdown = file.read_text(encoding="utf-8")
    named = re.compile(r"^(\w+):\n\n```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
    _, _, text = named.sub("", markdown).partition("\n")
    return text.strip(), dict(named.findall(markdown))


def page_text(code: str) -> str:
    """Return the page of a code as it is shown at a terminal, or raise `KeyError`."""
    entry = CODES[code]
    text, programs = read_page(code)
    parts = [
        f"{code}: {entry.title}",
        f"Raised as acronumba.{entry.error.__name__}.",
        textwrap.fill(text, 100),
        textwrap.fill(f"Instead: {entry.rewrite}.", 100),
    ]
    for name, program in programs.items():
        parts += [f"{name}:", textwrap.indent(program, "    ").rstrip()]
    return "\n\n".join(parts) + "\n"
