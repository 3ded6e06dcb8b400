"""Errors and source positions.

Compile-time errors carry a code, a position and a rewrite (`Unsupported`, `TypeMismatch`, `ShapeMismatch`); run-time
failures belong to instances (`InstanceErrors`). The codes and their pages are in `acronumba.errors.codes`.
"""

from __future__ import annotations

import copyreg
import linecache
import os
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Loc:
    """A range in a source file. Lines count from 1, columns from 0 as in `ast`."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    # The call in whose place the function was walked, if it was: a range is the same whoever calls it.
    caller: Loc | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_cell(self.file) or self.file}:{self.line}:{self.column + 1}"

    @property
    def path(self) -> tuple[Loc, ...]:
        """The range and its chain of calls, the innermost first; it distinguishes two uses of one range."""
        out, loc = [self], self.caller
        while loc is not None:
            out.append(loc)
            loc = loc.caller
        return tuple(out)


NOWHERE = Loc("", "", 0, 0, 0, 0)


def file_title(file: str) -> str:
    """Return the display name of a file: its base name; for a cell of a notebook, ``In [3]``."""
    return _cell(file) or os.path.basename(file)


def _cell(file: str) -> str:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In [{cells[file]}]" if file in cells else ""


class AcronumbaError(Exception):
    """Base class of the errors of acronumba.

    Parameters
    ----------
    code : str
        A stable code, a key of `acronumba.errors.codes.CODES`; `acronumba error CODE` prints its page.
    message : str
        One sentence in the user's terms.
    loc : Loc
        Position in the user's source, or `NOWHERE`.
    seen : str
        The types, shapes or names found there.
    rewrite : str
        One change of the program that works.

    Attributes
    ----------
    others : tuple of AcronumbaError
        Further errors of the same compilation (see `together`); `str` prints them too.
    """

    def __init__(
        self, code: str = "", message: str = "", loc: Loc = NOWHERE, seen: str = "", rewrite: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self._message = message
        self.loc = loc
        self.seen = seen
        self.rewrite = rewrite
        self.others: tuple[AcronumbaError, ...] = ()
        self.steps = 0  # how many expressions were walked before a function was rejected
        # Stored, so that the caret is right in another process, or after the file has changed.
        self.source: str = linecache.getline(loc.file, loc.line).rstrip("\n") if loc.file else ""

    @property
    def message(self) -> str:
        """The sentence alone."""
        return self._message

    @property
    def file(self) -> str | None:
        """The user's file, or None."""
        return self.loc.file or None

    @property
    def line(self) -> int | None:
        """The line in the file, from 1, or None."""
        return self.loc.line or None

    @property
    def column(self) -> int | None:
        """The column in the line, from 1, or None."""
        return self.loc.column + 1 if self.loc.line else None

    def __str__(self) -> str:
        if not self.others:
            return format_rejection(self)
        count = 1 + len(self.others)
        return "\n\n".join((format_rejection(self), *map(format_rejection, self.others), f"({count} errors)"))

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses have other signatures: make the bare exception and restore its attributes.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class OneFrame:
    """Context manager that cuts tracebacks to one frame of acronumba, so that they show the user's lines.

    Internal errors, and exceptions of the user's own code, keep all frames.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, AcronumbaError) and error.code != "ACR799" and tb is not None:
            tb.tb_next = None


one_frame = OneFrame()


class InternalError(AcronumbaError):
    """A bug in acronumba, found before the model ran; its `__cause__` is the original exception."""


class Unsupported(AcronumbaError):
    """Something that is not supported."""


class TypeMismatch(AcronumbaError, TypeError):
    """Values of incompatible types."""


class ShapeMismatch(AcronumbaError, ValueError):
    """Tensors of incompatible shapes."""


class ScheduleError(AcronumbaError, ValueError):
    """The batches of a user's `schedule` function are invalid."""


class DataError(AcronumbaError, ValueError):
    """A value of an instance that does not conform to its declared type, or cannot be stored.

    Attributes
    ----------
    instance : int or None
        Number of the instance.
    path : str
        Path of the value: ``"[17].left.right.word"``.
    """

    def __init__(
        self,
        message: str = "",
        *,
        instance: int | None = None,
        path: str = "",
        code: str = "ACR701",
        loc: Loc = NOWHERE,
        seen: str = "",
        rewrite: str = "",
    ) -> None:
        super().__init__(code, message, loc, seen, rewrite)
        self.instance = instance
        self.path = path


class InstanceErrors(AcronumbaError, ExceptionGroup):
    """Some instances of a mini-batch failed; the others did not.

    Parameters
    ----------
    errors : mapping of int to BaseException
        The exception of each instance that failed. A group cannot hold `SystemExit` and the like: `exceptions` has a
        `RuntimeError` instead, whose cause is the exception.
    results : sequence
        The results of all instances, None where one failed.
    """

    errors: dict[int, BaseException]
    results: Sequence[Any]

    def __new__(cls, errors: Mapping[int, BaseException], results: Sequence[Any] = ()) -> InstanceErrors:
        ordered = dict(sorted(errors.items()))
        self = super().__new__(cls, _summary(ordered, len(results)), list(map(_member, ordered.values())))
        self.errors = ordered
        self.results = results
        return self

    def __init__(self, errors: Mapping[int, BaseException], results: Sequence[Any] = ()) -> None:
        super().__init__("ACR700", _summary(errors, len(results)))
        first = self.errors[min(self.errors)]
        if isinstance(first, AcronumbaError):
            self.loc: Loc = first.loc
            self.source: str = first.source

    def __str__(self) -> str:
        kinds: dict[str, list[int]] = {}
        for instance, error in self.errors.items():
            kinds.setdefault(_described(error), []).append(instance)
        lines = [self.message]
        for text, instances in list(kinds.items())[:5]:
            some, more = instances[:3], len(instances) - 3
            lines.append(f"  [{', '.join(map(str, some))}{f' and {more} more' * (more > 0)}] {text}")
        if len(kinds) > 5:
            lines.append(f"  ... and {sum(map(len, list(kinds.values())[5:]))} more")
        return "\n".join(lines)

    def derive(self, excs: Sequence[Exception]) -> ExceptionGroup[Exception]:  # type: ignore[override]
        """Return the group of some of the exceptions (`subgroup` and `split` go through here)."""
        members = zip(self.errors.items(), self.exceptions, strict=True)
        kept = {instance: error for (instance, error), member in members if any(member is e for e in excs)}
        if len(kept) != len(excs):  # parts of an instance's own exception group, whose instance is unknown
            return ExceptionGroup(self.message, excs)
        return InstanceErrors(kept, self.results)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (sendable(self.errors), list(self.results)), None


def _described(error: BaseException) -> str:
    """Return an exception of an instance in one line, and its line of source below."""
    text, line, file = str(error), getattr(error, "line", None), getattr(error, "file", None)
    where = f" ({file_title(file)}:{line})" if line and file else f" (line {line})" if line else ""
    source: list[str] = []
    if isinstance(error, AcronumbaError):  # in one line, without position and rewrite
        text = f"{error.code}: {error.message}" + (f" ({error.seen})" if error.seen else "")
        source = _source_lines(error)
    elif line and file and (found := linecache.getline(file, line).strip()):
        source = [found]
    first = f"{type(error).__name__}{where}: {' '.join(text.split())}"
    return "\n      ".join([first, *source])


def _member(error: BaseException) -> Exception:
    """Return the exception, or for others than `Exception` one that an exception group may hold."""
    if isinstance(error, Exception):
        return error
    made = _member_like(error)
    made.__cause__ = error
    return made


def _member_like(error: BaseException) -> Exception:
    return RuntimeError(f"{type(error).__name__}: {error}")


def sendable(errors: Mapping[int, BaseException]) -> dict[int, BaseException]:
    """Return exceptions in a form that survives pickling."""
    return {k: error if _comes_back(error) else _member_like(error) for k, error in errors.items()}


def _comes_back(error: BaseException) -> bool:
    """Whether an exception survives pickling: some classes take other arguments than those they store."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _summary(errors: Mapping[int, BaseException], count: int) -> str:
    failed = f"{len(errors)} of {count}" if count else f"{len(errors)}"
    return f"{failed} instance{'s' * ((count or len(errors)) != 1)} failed"


def together(errors: Iterable[AcronumbaError]) -> AcronumbaError:
    """Return one exception for several errors: the first by position, with the rest as its `others`.

    Equal errors at the same position count once.
    """
    distinct = {(e.code, e.loc, e.seen): e for e in reversed(list(errors))}
    ordered = sorted(distinct.values(), key=lambda e: (e.loc.file, e.loc.line, e.loc.column))
    for error in ordered:
        error.others = ()
    ordered[0].others = tuple(ordered[1:])
    return ordered[0]


def format_rejection(error: AcronumbaError) -> str:
    """Return the text of one error: code, message, position, source line with a caret, types found, rewrite."""
    lines = [f"{error.code}: {error.message}" if error.code else error.message]
    loc = error.loc
    if loc.file:
        lines.append(f"  {loc}" + (f", in {loc.function}" if loc.function else ""))
        lines += [f"    {line}" for line in _source_lines(error)]
        lines += [f"  called from {call}, in {call.function}" for call in loc.path[1:]]
    if error.seen:
        lines.append(f"  seen: {error.seen}")
    if error.rewrite:
        lines.append(f"  instead: {error.rewrite}")
    return "\n".join(lines)


def _source_lines(error: AcronumbaError) -> list[str]:
    """Return the source line of an error without its indent, and a line of carets under the expression."""
    if not error.source:
        return []
    loc, text = error.loc, error.source.expandtabs()
    start = len(_before(error.source, loc.column).expandtabs())
    same_line = loc.end_line == loc.line
    end = len(_before(error.source, loc.end_column).expandtabs()) if same_line else len(text)
    indent = len(text) - len(text.lstrip())
    start, end = max(start, indent), max(end, start + 1)
    return [text[indent:], " " * (start - indent) + "^" * (end - start)]


def _before(source: str, column: int) -> str:
    """Return the part of the line before a column, which `ast` counts in bytes of UTF-8."""
    return source.encode()[:column].decode(errors="ignore")
