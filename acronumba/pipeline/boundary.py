"""Error boundary around everything before a model runs: only the user's mistakes and `InternalError` pass it.

An exception of the compiler that is no rejection (a `RecursionError`, an `AttributeError`, a `VerifyError`) becomes an
`InternalError` that names the user's line that was being compiled; the exception itself is its cause.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, wraps
from types import FrameType, TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from acronumba.data.draws import NeedsNumbers
from acronumba.data.source_guard import Changed
from acronumba.errors import NOWHERE, AcronumbaError, Loc
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.locks import lazy

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_NUMPY = os.path.join(os.path.dirname(np.__file__), "")
_MODELS = os.path.join(HERE, "zoo", "")
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")
_COMPILERS = (f"{os.sep}numba{os.sep}", f"{os.sep}llvmlite{os.sep}")
# Exceptions that are no mistakes of the compiler: changed code, out of memory, the environment.
PASSED = (AcronumbaError, Changed, NeedsNumbers, MemoryError, OSError, ImportError, Warning)


_libraries: list[str] = [_NUMPY, HERE]  # folders


def add_library(folder: str) -> None:
    """Declare that the code in a folder belongs to a library."""
    _libraries.append(os.path.join(folder, ""))
    is_library.cache_clear()


@lru_cache(maxsize=1024)
def is_library(file: str) -> bool:
    """Whether code belongs to Python, NumPy, PyTorch or this package, and not to the user: its loops terminate."""
    if file.startswith(tuple(_libraries)):
        return not file.startswith(_MODELS)
    return file.startswith(_STANDARD) and "site-packages" not in file


class compiling:
    """Context manager that turns exceptions other than rejections and the user's own into an `InternalError`.

    Parameters
    ----------
    fn : function
        The model's plain function: its line is named if no better one is known.
    """

    __slots__ = ("_fn",)

    def __init__(self, fn: Any) -> None:
        self._fn = fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, PASSED) or _is_users(tb):
            return
        seen = f"{type(error).__name__}: {' '.join(str(error).split())}"
        loc = place(tb) or def_loc(self._fn)
        raise reject("ACR798", loc, seen=seen[:300], rewrite=_without_batching(self._fn)) from error


def bounded(method: Method) -> Method:
    """Wrap a method of an object that compiles the function `self.fn`, so that it runs within the boundary."""

    @wraps(method)
    def call(self: Any, *args: Value) -> Any:
        with compiling(self.fn):
            return method(self, *args)

    return call  # type: ignore[return-value]


def made_once(make: Callable[[Any], T]) -> lazy[T]:
    """Return a lazy attribute of an object that compiles a function, made within the boundary on first access."""
    return lazy(bounded(make))


def made_by_one(make: Callable[[Any], T]) -> lazy[T]:
    """Return an attribute like `made_once`, computed by only one thread, while it holds `self.lock`."""

    @wraps(make)
    def once(self: Any) -> T:
        with self.lock:
            if make.__name__ not in self.__dict__:
                self.__dict__[make.__name__] = make(self)
        return cast(T, self.__dict__[make.__name__])

    return made_once(once)


def _frames(tb: TracebackType | None) -> Iterator[FrameType]:
    """Yield the frames of a traceback, the innermost first."""
    found = []
    while tb is not None:
        found.append(tb.tb_frame)
        tb = tb.tb_next
    yield from reversed(found)


def _is_users(tb: TracebackType | None) -> bool:
    """Whether the exception was raised by code outside acronumba, such as a method of the user's data."""
    for frame in _frames(tb):
        file = frame.f_code.co_filename
        if file.startswith(HERE):
            return False
        if not (is_library(file) or file.startswith("<") or any(part in file for part in _COMPILERS)):
            return True
    return False


def place(tb: TracebackType | None) -> Loc | None:
    """Return the user's source position that was being compiled.

    That is the narrowest position in the innermost frame that has any, such as that of a pass's instruction, or of the
    front end's syntax node.
    """
    for frame in _frames(tb):
        if frame.f_code.co_filename.startswith(HERE):
            held = (v for v in frame.f_locals.values() if type(v).__module__.startswith("acronumba."))
            locs = [loc for v in held if isinstance(loc := v if isinstance(v, Loc) else getattr(v, "loc", None), Loc)]
            if locs := [loc for loc in locs if loc.file]:
                return min(locs, key=lambda loc: (loc.end_line - loc.line, loc.end_column - loc.column))
    return None


def def_loc(fn: Any) -> Loc:
    """Return where a function is defined."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return NOWHERE
    import linecache

    line = code.co_firstlineno
    if code.co_name == "<lambda>":
        spans = [at for at in code.co_positions() if None not in at and at[:3:2] != at[1::2]]
        if not spans:
            return Loc(code.co_filename, fn.__qualname__, line, 0, line, 1)
        starts, ends = min((at[0], at[2]) for at in spans), max((at[1], at[3]) for at in spans)
        return Loc(code.co_filename, fn.__qualname__, *starts, *ends)
    for number in range(line, line + 20):  # past the decorators
        text = linecache.getline(code.co_filename, number)
        if text.lstrip().startswith(("def ", "async def ")):
            column = len(text) - len(text.lstrip())
            return Loc(code.co_filename, fn.__qualname__, number, column, number, len(text.rstrip().encode()))
    return Loc(code.co_filename, fn.__qualname__, line, 0, line, 1)


def column_names(fn: Any, shared: Collection[str]) -> list[str]:
    """Return the names of the parameters that vary by instance, from those that all instances share."""
    code = fn.__code__
    return [name for name in code.co_varnames[: code.co_argcount] if name not in shared]


def _without_batching(fn: Any) -> str:
    """Return the advice to run the model without batching: the plain call of each instance."""
    code, name = getattr(fn, "__code__", None), getattr(fn, "__name__", "f")
    shared = "" if code is None else "".join(
        f", {p}={p}" for p in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    )  # fmt: skip
    several = code is not None and code.co_argcount > 1
    call = f"[{name}(*x{shared}) for x in zip(xs, ys)]" if several else f"[{name}(x{shared}) for x in xs]"
    return f"run it without batching meanwhile, `{call}`, and report it with the program, its data and this traceback"
