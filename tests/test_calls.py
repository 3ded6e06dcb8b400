"""Calls and subscripts read their arguments as NumPy and Python do, or refuse them under the argument.

The calls are generated: every function and method with a handler, with every parameter of its signature set to values
that are not the default. A call is as the plain call, or refused with the caret under that argument.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from generate import scalars

import acronumba.frontend.calls  # noqa: F401 -- its handlers
from acronumba import AcronumbaError, InstanceErrors, nn, random
from acronumba.check import compare
from acronumba.frontend.handlers import METHODS, ROWS, Row
from acronumba.frontend.signatures import UNSET, signature_of
from acronumba.results import equal

HEADER = """
import enum
import math
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn, random


class Part(enum.IntEnum):
    HEAD = 1
    BODY = 2


class Plain(enum.Enum):
    ONE = 1


@dataclass
class Some:
    n: "int | None" = None
    part: Part = Part.HEAD
"""
_NUMBERS = itertools.count()

# ---- what is given: texts of arguments, of `x` float32[2, 4], `v` float64[4], `i` int64[2, 4], `n` int, `y` float

X = "x"
REQUIRED: dict[Any, str] = {  # the arguments of a call that is in the language
    np.matmul: "x, x.T", np.dot: "x, x.T", np.outer: "v, v", np.inner: "x, x", np.vdot: "x, x",
    np.einsum: "'ij->ji', x", np.where: "x > 1, x, 0.0", np.clip: "x, 1, 3", np.invert: "i", np.bitwise_and: "i, i",
    np.bitwise_or: "i, i", np.bitwise_xor: "i, i", np.left_shift: "i, 2", np.right_shift: "i, 1",
    np.concatenate: "[x, x]", np.stack: "[x, x]", np.hstack: "[x, x]", np.vstack: "[x, x]", np.split: "x, 2",
    np.reshape: "x, (4, 2)", np.swapaxes: "x, 0, 1", np.moveaxis: "x, 0, 1", np.expand_dims: "x, 0",
    np.squeeze: "np.ones((1, 3))", np.broadcast_to: "v, (2, 4)", np.take: "x, 1", np.tile: "v, 2", np.zeros: "3",
    np.empty: "3", np.ones: "3", np.full: "3, 2.5", np.full_like: "x, 2.5", np.eye: "3", np.identity: "3",
    np.arange: "1, 4", np.result_type: "x, n", np.promote_types: "np.float32, np.int64", np.finfo: "np.float32",
    np.iinfo: "np.int32", np.atleast_1d: "x, y", random.threefry: "np.array([n, 2], np.uint64), np.uint64(3)",
    np.ndarray.dot: "x.T", np.ndarray.reshape: "4, 2", np.ndarray.swapaxes: "0, 1", np.ndarray.take: "1",
    np.ndarray.astype: "np.int64", np.ndarray.item: "3",
    int: "y", float: "n", bool: "n", len: "x", round: "y", range: "1, 7, n", zip: "[1, 2], [3, 4]",
    enumerate: "[n, 2]", reversed: "[n, 2]", list: "(n, 2)", tuple: "[n, 2]", sum: "[n, 2]", any: "[n > 9, True]",
    all: "[n > 9, True]", min: "[n, -6]", max: "[n, -6]", sorted: "[n, -6, 2]", iter: "[n, 2]", pow: "y, 2.0",
    divmod: "n, 3", type: "n", getattr: "x, 'shape'", map: "abs, [n, -6]", abs: "y",
    math.acosh: "y + 1.0", math.hypot: "y, 2.0", math.gcd: "n, 6", math.lcm: "n, 6", math.factorial: "n",
    math.isqrt: "n", math.comb: "n, 2", math.perm: "n, 2", math.prod: "[n, 2]", math.floor: "y", math.ceil: "y",
    math.trunc: "y", math.isclose: "y, 0.5", nn.sigmoid: "x", nn.erf: "x",
}  # fmt: skip
SELF: dict[Any, str] = {np.ndarray.squeeze: "np.ones((1, 3))", np.ndarray.tolist: "v"}
WRAPPED: dict[Any, str] = {  # what cannot be a result, or is not determined
    np.empty: "np.zeros_like({})", np.empty_like: "np.zeros_like({})", np.result_type: "np.zeros(2, {})",
    np.promote_types: "np.zeros(2, {})", np.finfo: "np.zeros({}.bits)", np.iinfo: "np.zeros({}.bits)",
    range: "list({})", zip: "list({})", enumerate: "list({})", reversed: "list({})", iter: "list({})",
    map: "list({})", type: "{}(7)",
}  # fmt: skip
OTHER: dict[str, tuple[str, ...]] = {  # values of a parameter, of which one at least is not its default
    "axis": ("1", "-1", "0", "(0,)", "None", "(0, 1)", "True", "1.0"), "dtype": ("np.float64", "'int32'", "int"),
    "out": ("x",), "keepdims": ("True", "1"), "initial": ("2.0",), "where": ("x > 1",),
    "casting": ("'unsafe'", "'no'"), "order": ("'F'", "'A'", "'K'", "'C'"), "subok": ("True", "False"),
    "signature": ("'f->f'",), "axes": ("(1, 0)", "[0, 1]", "(-1, 0)", "(0, 5)", "(0, 0)"), "ddof": ("1", "0.5"),
    "mean": ("1.0",), "correction": ("1",), "ord": ("1", "2", "'fro'", "np.inf"), "optimize": ("True",),
    "device": ("'cpu'",), "like": ("x",), "copy": ("True", "False", "None"), "ndmin": ("2",), "ndmax": ("1",),
    "shape": ("(4, 2)", "8", "[2, 4]", "(n, 2)"), "mode": ("'clip'",), "M": ("2",), "k": ("1", "-1", "1.0"),
    "start": ("1",), "stop": ("5",), "step": ("2",), "min": ("1",), "max": ("2",), "a_min": ("1",), "a_max": ("2",),
    "x": ("y",), "y": ("0.5",), "base": ("10",), "ndigits": ("1",), "strict": ("True",), "key": ("abs",),
    "default": ("7",), "reverse": ("True",), "mod": ("3",), "sentinel": ("1",), "bases": ("(int,)",), "dict": ("{}",),
    "rel_tol": ("0.1",), "abs_tol": ("0.5",), "iterable": ("(1, 2)",), "iterables": ("[3, 4]",),
}  # fmt: skip
PLACED: dict[str, str] = {"operands": "x", "shape": "2", "axes": "0", "args": "1", "arrays_and_dtypes": "y", "arys": "v",
                          "bounds": "1", "iterables": "[1, 2]", "coordinates": "1.0", "integers": "4"}  # fmt: skip


@dataclass
class Line:
    """A call in a model, and the argument that it is about."""

    call: str
    argument: str = ""
    wrapped: str = "{}"
    allowed: bool = False  # it must not be refused: the argument is the default

    @property
    def text(self) -> str:
        return self.wrapped.format(self.call)


def calls_of(row: Row) -> list[Line]:
    """Return calls with each parameter of a function or method set to other values, by name and by place."""
    function = row.function
    parameters = signature_of(function).parameters
    method = function in [r.function for r in METHODS.values()]
    name, wrapped = row.what, WRAPPED.get(function, "{}")
    shown = list(parameters.values())[1:] if method else list(parameters.values())
    if method:
        name = f"{SELF.get(function, X)}{row.what}"
    given = [ast.unparse(e) for e in ast.parse(f"f({base_of(row, shown)})", mode="eval").body.args]  # type: ignore[attr-defined]
    out = [Line(f"{name}({', '.join(given)})", wrapped=wrapped, allowed=True)]

    def add(arguments: list[str], about: str, allowed: bool = False) -> None:
        out.append(Line(f"{name}({', '.join(arguments)})", about, wrapped, allowed))

    for k, p in enumerate(shown):
        if p.kind == p.VAR_POSITIONAL:
            add([*given, PLACED[p.name]], PLACED[p.name])
            continue
        if p.default is p.empty:
            continue
        spare = [*given[: k if p.kind != p.KEYWORD_ONLY else None]]
        for value in OTHER[p.name]:
            if p.kind != p.POSITIONAL_ONLY:
                add([*spare, f"{p.name}={value}"], f"{p.name}={value}")
            between = shown[len(spare) : k]
            if p.kind != p.KEYWORD_ONLY and all(q.default not in (q.empty, UNSET) for q in between):
                add([*spare, *map(default_text, between), value], value)
        if p.default is not UNSET and p.kind != p.POSITIONAL_ONLY:
            text = f"{p.name}={default_text(p)}"
            add([*spare, text], text, allowed=True)
    add([*given, "nonsense=1"], "nonsense=1")
    if not any(p.kind == p.VAR_POSITIONAL for p in shown):
        plain = [p for p in shown if p.kind != p.KEYWORD_ONLY]
        rest = plain[len(given) :]
        if all(p.default is not UNSET for p in rest):
            add([*given, *map(default_text, rest), "None"], "None")
    return out


def base_of(row: Row, shown: list[inspect.Parameter]) -> str:
    """Return the arguments that a call needs."""
    if row.function in REQUIRED:
        return REQUIRED[row.function]
    required = [p for p in shown if p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    if row.what.startswith("math."):
        return ", ".join(["y", "0.5"][: len(required)])
    assert all(p.name in ("a", "x", "m", "x1", "x2", "prototype", "object", "A") for p in required), (
        f"{row.what}{signature_of(row.function)}: which arguments does a call need? Say so in REQUIRED."
    )
    return ", ".join(X for _ in required)


def default_text(p: inspect.Parameter) -> str:
    return "float" if p.default is float else repr(p.default)


# ---- running


@pytest.fixture
def program(tmp_path):
    """From the lines of a model's body to its module, imported from a file."""
    loaded = []

    def load(lines: list[str], parameters: str = "x, v, i, n, y"):
        name = f"calls_{next(_NUMBERS)}"
        returned = ", ".join(f"r{k}" for k in range(len(lines)))
        body = "".join(f"    r{k} = {line}\n" for k, line in enumerate(lines))
        path = tmp_path / f"{name}.py"
        path.write_text(f"{HEADER}\n\n@model\ndef f({parameters}):\n{body}    return ({returned},)\n")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]


def columns() -> list[list[Any]]:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    return [[x, x[::-1] * 2], [np.arange(4.0), np.ones(4)], [x.astype(np.int64) * 3, x.astype(np.int64)], [4, 5],
            [0.5, 0.75]]  # fmt: skip


def refusals(module: Any, given: list[list[Any]]) -> list[AcronumbaError]:
    """Return what is refused when a model is compiled."""
    try:
        module.f._interpret(*given)
    except InstanceErrors:
        return []
    except AcronumbaError as error:
        return [error, *error.others]
    return []


def plain(text: str, module: Any, given: list[list[Any]], names: list[str]) -> list[Any] | Exception:
    """Return what an expression gives for each instance, or how it fails."""
    out = []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for row in zip(*given, strict=True):
                own = [np.copy(v) if isinstance(v, np.ndarray) else v for v in row]
                out.append(scalars(eval(text, vars(module), dict(zip(names, own, strict=True)))))
    except Exception as error:
        return error
    return out


def check(lines: list[Line], program: Any, given: list[list[Any]], parameters: str = "x, v, i, n, y") -> None:
    """Fail unless each line gives what the plain call gives, or is refused under its argument."""
    names = parameters.split(", ")
    module = program(["0"], parameters)
    expected = [plain(line.text, module, given, names) for line in lines]
    working = [k for k, e in enumerate(expected) if not isinstance(e, Exception)]
    source = module.f.__wrapped__.__code__.co_firstlineno + 2  # behind the decorator and the `def`
    refused = set()
    for error in refusals(program([lines[k].text for k in working], parameters), given):
        line = lines[working[error.line - source]]
        refused.add(line.text)
        assert not line.allowed, f"{line.text} is in the language:\n{error}"
        start, end = span(line, f"    r{error.line - source} = ")
        loc = error.loc
        under = start <= loc.column and loc.end_column <= end and loc.end_line == loc.line
        assert under, f"the caret is not under {line.argument!r}:\n{error}"
    runs = [k for k in working if lines[k].text not in refused]
    if runs:
        results = program([lines[k].text for k in runs], parameters).f._interpret(*given)
        for j, result in enumerate(results):
            for mine, k in zip(result, runs, strict=True):
                theirs = expected[k][j]
                same = equal(scalars(mine), theirs) or compare(scalars(mine), theirs, theirs)[0] == "close"
                assert same, f"{lines[k].text} gives {mine!r}, not {theirs!r}"
    for k in set(range(len(lines))) - set(working):  # the plain call fails: so must each instance, or it is refused
        try:
            program([lines[k].text], parameters).f._interpret(*given)
        except InstanceErrors as errors:
            assert len(errors.errors) == len(given[0]), lines[k].text
        except AcronumbaError as error:
            assert error.line == source, error
        else:
            raise AssertionError(f"{lines[k].text}: the plain call raises {expected[k]!r}")


def span(line: Line, before: str) -> tuple[int, int]:
    """Return the columns of the argument in its line, where it is written last, or of the call."""
    start = len(before) + (line.text.rindex(line.argument) if line.argument else 0)
    return start, start + len(line.argument or line.text)


EVERY = [*ROWS.values(), *METHODS.values()]


@pytest.mark.parametrize("row", EVERY, ids=[r.what for r in EVERY])
def test_every_parameter_is_honoured_or_refused_under_the_argument(row: Row, program: Any) -> None:
    check(calls_of(row), program, columns())
