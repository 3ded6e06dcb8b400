"""The origin of a NaN: the line of the plain call that makes the first one.

In: a model, a mini-batch, its results. Out: a `FirstNaN`. The plain call of one instance whose result has a NaN runs
under a trace function, which looks at the variables of the user's functions after each line.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import numpy as np

from acronumba.api.plain import PlainCall
from acronumba.errors import file_title
from acronumba.foreign import as_numpy, is_foreign
from acronumba.generics import Value
from acronumba.pipeline.boundary import is_library

_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # parts of a line of the function around


@dataclass(frozen=True, slots=True)
class FirstNaN:
    """Where the plain call of an instance makes its first NaN (or infinity, if its result has no NaN).

    Attributes
    ----------
    instance : int
        Number of the instance.
    file, line, function
        Position in the user's source; an empty file and line 0 if an argument has it already.
    values : dict of str to str
        The arrays and numbers that the line names, before it ran and after, as text: dtype, shape, least and largest
        element, how many elements are NaN.
    infinity : FirstNaN or None
        Where the call makes its first infinity, if the line of the NaN reads one.
    """

    instance: int
    file: str
    line: int
    function: str
    values: Mapping[str, str]
    infinity: FirstNaN | None = None

    def __str__(self) -> str:
        text = f"instance {self.instance}: {self._lines()}"
        return text if self.infinity is None else f"{text}\nthe first infinity: {self.infinity._lines()}"

    def _lines(self) -> str:
        lines = ["an argument is not finite"]
        if self.line:
            where = f"{file_title(self.file)}:{self.line}, in {self.function}"
            lines = [where, *(f"    {line}" for line in _statement(self.file, self.line).splitlines())]
        return "\n".join([*lines, *(f"  {name}: {text}" for name, text in self.values.items())])

    __repr__ = __str__


def find_nan(call: PlainCall, columns: Sequence[Value], results: Sequence[Value]) -> FirstNaN | None:
    """Return the origin of the NaN in the first of the results that has one, or of an infinity if none has."""
    for wrong in (np.isnan, np.isinf):
        for k, result in enumerate(results):
            if any(is_wrong(v, wrong) for _, v in _arrays_in("", result)):
                return _origin(call, k, [column[k] for column in columns], wrong)
    return None


def _origin(call: PlainCall, k: int, instance: Sequence[Value], wrong: np.ufunc) -> FirstNaN:
    tracer = _Tracer(wrong)
    with suppress(_Found):
        PlainCall.run(call, instance, tracer)
    infinity = _origin(call, k, instance, np.isinf) if wrong is np.isnan and tracer.infinite else None
    return FirstNaN(k, tracer.file, tracer.line, tracer.function, tracer.values, infinity)


class _Found(BaseException):
    """Ends the plain call; not an `Exception`, so that the user's code does not catch it."""


class _Tracer:
    """A trace function that ends the call behind the first line that makes a NaN."""

    file, line, function = "", 0, ""
    infinite = False  # whether the line reads an infinity

    def __init__(self, wrong: np.ufunc) -> None:
        self.values: dict[str, str] = {}
        self._wrong = wrong
        self._given: dict[int, object] = {}  # the arrays among the arguments, which have no NaN and do not change
        self._last: dict[FrameType, tuple[int, dict[str, object]]] = {}  # the line that runs, and variables before it

    def __call__(self, frame: FrameType, event: str, arg: object) -> _Tracer | None:
        code = frame.f_code
        if is_library(code.co_filename) or code.co_name in _COMPREHENSIONS:
            return None
        if event == "call":
            if not self._last:
                self._look_at_arguments(frame.f_locals)
            elif frame.f_back in self._last:  # what an expression made for this call
                self._look(frame.f_back, frame.f_locals)
            self._last[frame] = code.co_firstlineno, {}
        elif event in ("line", "return"):
            self._look(frame, {**frame.f_locals, "the result": arg} if event == "return" else frame.f_locals)
            self._last[frame] = frame.f_lineno, dict(frame.f_locals)
            if event == "return":
                del self._last[frame]
        return self

    def _look_at_arguments(self, variables: Mapping[str, object]) -> None:
        for name, value in variables.items():
            for path, v in _arrays_in(name, value):
                self._given[id(v)] = v
                if self._is_wrong(v):
                    self.values[path] = _described(v)
        if self.values:
            raise _Found

    def _look(self, frame: FrameType, variables: Mapping[str, object]) -> None:
        """Stop if a variable has a NaN: the line before made it."""
        found = [
            (path, v) for name, value in variables.items() for path, v in _arrays_in(name, value)
            if id(v) not in self._given and self._is_wrong(v)
        ]  # fmt: skip
        if not found:
            return
        self.line, before = self._last[frame]
        self.file, self.function = frame.f_code.co_filename, frame.f_code.co_name
        named = {name: before.get(name) for name in _names(self.file, self.line)}
        self.values = {name: _described(v) for name, v in named.items() if _array(v) is not None}
        self.infinite = any(is_wrong(v, np.isinf) for v in named.values())
        self.values |= {f"{path} =" if path in self.values else path: _described(v) for path, v in found}
        raise _Found

    def _is_wrong(self, v: object) -> bool:
        return is_wrong(v, self._wrong)


def _names(file: str, line: int) -> list[str]:
    """Return the names in a line of source, in order."""
    text = _statement(file, line)
    for attempt in (text, f"{text} pass", text.removeprefix("return ")):
        try:
            return [e.id for e in ast.walk(ast.parse(attempt)) if isinstance(e, ast.Name)]
        except SyntaxError:
            continue
    return []


def _statement(file: str, line: int) -> str:
    """Return the text of the statement at a line, up to its colon if it has a block."""
    lines = linecache.getlines(file)
    with suppress(SyntaxError):
        around = [
            (node.lineno, node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno)
            for node in ast.walk(ast.parse("".join(lines)))
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line)
        ]
        first, last = max(around, default=(line, line))
        return textwrap.dedent("".join(lines[first - 1 : max(last or line, first)])).strip()
    return linecache.getline(file, line).strip()


def _arrays_in(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the arrays and floats in a value, with their paths."""
    waiting, seen = [(name, value)], set[int]()
    while waiting:
        path, v = waiting.pop()
        if _array(v) is not None:
            yield path, v
        elif id(v) not in seen:
            seen.add(id(v))
            if isinstance(v, list | tuple):
                waiting += [(f"{path}[{k}]", inner) for k, inner in enumerate(v)]
            elif isinstance(v, dict):
                waiting += [(f"{path}[{k!r}]", inner) for k, inner in v.items()]
            elif hasattr(v, "__dict__") and not callable(v):
                waiting += [(f"{path}.{k}", inner) for k, inner in vars(v).items()]


def _array(v: object) -> np.ndarray | np.generic | None:
    """Return an array or float as NumPy's, None for any other value."""
    if is_foreign(v):
        v = as_numpy(v)
    if isinstance(v, float):
        return np.float64(v)
    return v if isinstance(v, np.ndarray | np.generic) else None


def is_wrong(v: object, wrong: np.ufunc) -> bool:
    """Return whether an array or float has an element for which `wrong`, `np.isnan` or `np.isinf`, is true."""
    array = _array(v)
    return array is not None and array.dtype.kind in "fc" and bool(wrong(array).any())


def _described(v: object) -> str:
    array = _array(v)
    assert array is not None
    if not array.ndim:
        return f"{array!r}" if isinstance(v, np.generic | np.ndarray) else f"{v!r}"
    text = f"{array.dtype}{list(array.shape)}"
    if array.dtype.kind not in "fiu" or not array.size:
        return text
    fine = np.extract(~np.isnan(array), array)
    parts = [f"{fine.min():.4g} to {fine.max():.4g}"] if fine.size else []
    if fine.size < array.size:
        parts.append(f"{array.size - fine.size} of {array.size} are NaN")
    return f"{text}, {', '.join(parts)}"
