"""The dtype table: every operation over every pair of dtypes and kinds of numbers, against NumPy.

In: the tables of the front end (what can be called) and NumPy's own tables (`ufunc.types`: which dtypes it takes). Out:
*cells*, one expression for one choice of kinds each, many of them as the branches of one model, with values at the ends
of each dtype. A cell is right if each of its results has the type, the dtype, the shape and the bits of the plain call,
or the class of its exception. `tests/frontend/test_dtypes.py` tries a part of the table, this file all of it:

    python tests/dtypes.py                  all cells, by the interpreter of the plan
    python tests/dtypes.py --engine emit    by the interpreter of generated code; compiled: as machine code
    python tests/dtypes.py --only power     the cells whose text has this in it, with what differs
    python tests/dtypes.py --rejected        what is rejected, by code
"""

# ruff: noqa: E501 (the forms of expressions are long lines)

from __future__ import annotations

import argparse
import functools
import itertools
import math
import random
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.api import dispatch
from acronumba.api.dispatch import bind, specialise
from acronumba.ir.ops import TENSORS
from tests.support.modules import import_file

Value = Any
FLOATS = ("float32", "float64")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", *FLOATS)
PYTHON = ("pybool", "pyint", "pyfloat")


@dataclass(frozen=True)
class Kind:
    """What an operand is: a Python number (`pyint`), a NumPy scalar (`int8`), an array of rank 0 or 1."""

    name: str  # a dtype, or one of `PYTHON`
    rank: int = -1  # -1: a scalar, 0, 1 (and more where the values are given)

    def __str__(self) -> str:
        return self.name if self.rank < 0 else f"{self.name}[{'n' * self.rank}]"


def numbers(name: str) -> list[Value]:
    """Return the values of a dtype that are worth trying."""
    if name in ("bool", "pybool"):
        return [False, True]
    if name == "pyint":
        return [0, 1, -1, 2, 3, -7, 64, 127, 128, -129, 300, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, -(2**63)]
    if name == "pyfloat":
        name = "float64"
    if name in FLOATS:
        info = np.finfo(name)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 0.1, 1e10, -3e19, math.inf, -math.inf, math.nan]
        return [*special, float(info.max), -float(info.tiny), float(info.smallest_subnormal), 2.0**31, 2.0**63]
    info = np.iinfo(name)
    few = [0, 1, 2, 3, 7, 100, int(info.max), int(info.max) - 1, int(info.max) // 2 + 1]
    return few if name[0] == "u" else [*few, -1, -2, -7, int(info.min), int(info.min) + 1]


LITERALS = (
    "True 0 1 2 3 -1 -7 7 63 127 128 -128 -129 255 256 300 32768 65536 2147483648 4294967296 9007199254740993 "
    "9223372036854775807 -9223372036854775808 9223372036854775808 18446744073709551615 18446744073709551616 "
    "-9223372036854775809 10**30 -10**30 0.0 -0.0 0.5 1.0 2.0 3.0 -1.0 1e300 math.inf math.nan np.finfo(np.float64).eps "
    "np.finfo(np.float32).max np.iinfo(np.int8).max np.pi"
).split()


@dataclass(frozen=True)
class Cell:
    """An expression (or statements, the last of which returns) of operands x, y, z."""

    text: str
    kinds: tuple[Kind, ...] = ()
    values: tuple[tuple[Value, ...], ...] | None = None  # None: made from the kinds

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if "return " in self.text else [f"return {self.text}"]

    def __str__(self) -> str:
        names = ", ".join(f"{n}: {k}" for n, k in zip("xyz", self.kinds, strict=False))
        return f"{self.text!r} of {names or 'nothing'}"

    def instances(self, rng: random.Random, most: int) -> list[tuple[Value, ...]]:
        """Return operands for the cell, at most so many tuples of them."""
        if self.values is not None:
            given = list(self.values)
        else:
            scalars = [k for k in self.kinds if k.rank < 1]
            picks = list(itertools.product(*(numbers(k.name) for k in scalars)))
            if len(picks) > most:
                picks = rng.sample(picks, most)
            columns = [numbers(k.name) for k in self.kinds if k.rank == 1]
            table = list(zip(*itertools.product(*columns), strict=True)) if columns else []
            given = []
            for pick in picks:
                ones, many = iter(pick), iter(table)
                given.append(tuple(next(ones) if k.rank < 1 else next(many) for k in self.kinds))
        rows = [tuple(made(v, k) for v, k in zip(row, self.kinds, strict=True)) for row in given]
        return [row for row in rows if not self.endless(row)]

    def endless(self, operands: tuple[Value, ...]) -> bool:
        """Whether Python would compute a number of very many digits."""
        if "factorial" in self.text or "comb" in self.text or "perm" in self.text:
            return any(v > 50 for v in operands)
        if not any(op in self.text for op in ("**", "<<", "pow(")) or "math.pow" in self.text:
            return False
        names = dict(zip("xyz", operands, strict=False))
        both = re.fullmatch(r"(.+) (\*\*|<<) (.+)|pow\((.), (.)\)", self.text)
        if both is None:
            return False
        base, by = (names.get(t) if t in names else _number(t) for t in (both[1] or both[4], both[3] or both[5]))
        return isinstance(base, int) and isinstance(by, int) and by > 200


@functools.cache
def _literals() -> dict[str, Value]:
    source = f"import math\nimport numpy as np\n\n\ndef table():\n    return [{', '.join(LITERALS)}]\n"
    return dict(zip(LITERALS, imported(source)(), strict=True))


def _number(text: str) -> Value:
    return _literals().get(text.strip("()"))


def made(value: Value, kind: Kind) -> Value:
    """Return a value as what the kind says."""
    if kind.name in PYTHON:
        return {"pybool": bool, "pyint": int, "pyfloat": float}[kind.name](value)
    with np.errstate(all="ignore"):
        array = np.array(value, kind.name)
    return array if kind.rank >= 0 else array[()]


# ---- the cells

OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", "==", "!=", ">", ">=")
SCALARS = [*map(Kind, PYTHON), *map(Kind, DTYPES)]
ARRAYS = [Kind(d, 1) for d in DTYPES]
POINTS = [Kind(d, 0) for d in DTYPES]  # arrays of rank 0, which operations see as the scalars that they hold


def ufuncs() -> list[np.ufunc]:
    """Return the ufuncs that may be called."""
    from acronumba.frontend.calls.tables import ROWS

    found = {f.__name__: f for f in ROWS if isinstance(f, np.ufunc)}
    return [found[name] for name in sorted(found)]


def ufunc_name(f: np.ufunc) -> str:
    return f"np.{f.__name__}"


def unary() -> Iterator[Cell]:
    """Operators, ufuncs, conversions and methods of one operand."""
    texts = ["-x", "+x", "~x", "not x", "abs(x)", "np.array(x)", "np.asarray(x)", "np.where(x > 0, 1, 2)"]
    texts += ["np.where(x, x, 0)", "np.where(x, 1.5, x)", "np.where(True, x, x)", "(x, x)", "1 if x else 2", "x and 3"]
    texts += [f"{ufunc_name(f)}(x)" for f in ufuncs() if f.nin == 1]
    texts += [f"x ** {k}" for k in ("2", "3", "0.5", "2.0", "1", "0", "-1", "-0.5", "1.0", "0.0", "True")]
    texts += [f"{b}(x)" for b in ("int", "float", "bool", "round", "np.square", "np.reciprocal", "np.abs", "np.shape")]
    texts += [f"np.{d}(x)" for d in (*DTYPES[1:], "bool_", "float16")]
    texts += [f"np.array(x, np.{d})" for d in (*DTYPES[1:], "bool_")]
    for kind in (*SCALARS, *ARRAYS, *POINTS):
        for text in texts:
            yield Cell(text, (kind,))
        if kind.name not in PYTHON:
            for text in METHODS:
                yield Cell(text, (kind,))
    for kind in (*SCALARS, *POINTS):
        for text in MATH_UNARY:
            yield Cell(text, (kind,))


METHODS = [
    *(f"x.astype(np.{d})" for d in (*DTYPES[1:], "bool_", "float16")),
    *(f"x.astype(x.dtype, copy={c})" for c in (True, False)),
    "x.reshape(1, -1).T", "x.copy()", "x.item()", "x.T", "x.flatten()", "x.ravel()", "x.reshape(-1)", "np.zeros_like(x)", "np.ones_like(x)",
    "np.full_like(x, 1)", "np.full_like(x, 300)", "np.full_like(x, 1.5)", "np.full_like(x, True)", "np.copy(x)",
    "np.ones_like(x, np.int16)", "np.empty_like(x).dtype == x.dtype", "x.dtype == np.float32", "x.itemsize", "x.size",
]  # fmt: skip


def _math_unary() -> list[str]:
    names = (
        "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc fabs "
        "isnan isinf isfinite floor ceil trunc degrees radians gcd lcm factorial isqrt"
    )
    return [f"math.{n}(x)" for n in names.split()]


MATH_UNARY = _math_unary()
MATH_BINARY = [f"math.{n}(x, y)" for n in "atan2 hypot copysign fmod pow log gcd lcm comb perm isclose".split()]
BUILTIN_BINARY = ["min(x, y)", "max(x, y)", "pow(x, y)", "divmod(x, y)", "sum([x, y])", "sum((x, y), 1)", "(x, y)"]
STACKS = ["np.array([x, y])", "np.stack([x, y])", "np.array((x, y), np.float32)", "np.array([x, y], np.int8)"]
IN_PLACE = ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=")


def binary() -> Iterator[Cell]:
    """Operators, ufuncs, `where` and `clip` of two operands of every pair of kinds."""
    texts = [f"x {op} y" for op in OPERATORS]
    texts += [f"{ufunc_name(f)}(x, y)" for f in ufuncs() if f.nin == 2]
    texts += [
        "np.where(True, x, y)",
        "np.where(x, y, 0)",
        "np.where(x != 0, x, y)",
        "np.clip(x, 1, y)",
        "np.clip(x, y, y)",
    ]
    kinds = [*SCALARS, *ARRAYS]
    products = {f"{ufunc_name(f)}(x, y)" for f in ufuncs() if f.signature is not None}  # which take no numbers
    for a, b in itertools.product(kinds, kinds):
        for text in texts:
            if text not in products or (a.rank > 0 and b.rank > 0):
                yield Cell(text, (a, b))
        if a.rank < 0 and b.rank < 0:
            for text in (*BUILTIN_BINARY, *STACKS, *MATH_BINARY):
                yield Cell(text, (a, b))
        if a.rank == 1 and b.rank == 1:
            for text in ("np.concatenate([x, y])", "np.stack([x, y])", "np.array([x, y])", "x @ y", "np.dot(x, y)",
                         "np.outer(x, y)[0]", "np.einsum('i,i->i', x, y)"):  # fmt: skip
                small = (((0, 1, 1, 0), (1, 1, 0, 1)),)
                yield Cell(text, (a, b), small if "@" in text or "dot" in text else None)
        if a.rank == 1:
            yield Cell("np.polyval(x, y)", (a, b))
            for op in IN_PLACE:
                yield Cell(f"a = x.copy()\na {op} y\nreturn a", (a, b))
    for a, b in itertools.product(POINTS, (*SCALARS, *ARRAYS, *POINTS)):
        for op in ("+", "**", "<", "//"):
            yield Cell(f"x {op} y", (a, b))
            yield Cell(f"y {op} x", (a, b))


def literals() -> Iterator[Cell]:
    """Operators with a number that stands in the source."""
    for kind in (*SCALARS, *ARRAYS):
        for number, op in itertools.product(LITERALS, OPERATORS):
            yield Cell(f"x {op} {number}", (kind,))
            yield Cell(f"({number}) {op} x", (kind,))
        for number in LITERALS:
            for text in ("np.where(True, x, {})", "np.where(x, {}, x)", "np.maximum(x, {})", "np.minimum({}, x)",
                         "np.clip(x, {}, None)", "np.clip(x, None, {})", "np.power(x, {})", "np.add({}, x)"):  # fmt: skip
                yield Cell(text.format(number), (kind,))
            if kind.name not in PYTHON:
                yield Cell(f"np.full_like(x, {number})", (kind,))


def reductions() -> Iterator[Cell]:
    """Reductions of vectors and matrices, with and without dtype=."""
    scans: tuple[str, ...] = (
        "np.cumsum(x)",
        "x.cumsum(axis=0)",
        "np.cumprod(x, axis=-1)",
        "np.cumsum(x.reshape(-1, 1), axis=0)",
        "np.maximum.accumulate(x)",
        "np.minimum.accumulate(x)",
        "np.add.reduceat(x, [0, 1, 0])",
        "np.multiply.reduceat(x, [0, 1, 0])",
        "np.maximum.reduceat(x, [0, 1, 0])",
        "np.minimum.reduceat(x, [0, 1, 0])",
        "np.lib.stride_tricks.sliding_window_view(x, 2)",
    )
    names = "sum prod max min any all mean var std argmax argmin".split()
    for dtype in DTYPES:
        vector = numbers(dtype)
        many = [vector, vector[:1], vector[::-1], vector[:5], vector[-5:], []]
        if dtype in FLOATS:
            many = [[0.5, -1.0, 3.0], [0.0, -0.0], [-0.0, 0.0], [-0.0], [1.0, math.nan, 2.0, math.nan], [math.inf, 1.0],
                    [math.inf, -math.inf], []]  # fmt: skip
        rows = tuple((tuple(v),) for v in many)
        yield Cell("np.cumsum(x)", (Kind(dtype),))
        for name in names:
            yield Cell(f"x.{name}()", (Kind(dtype, 1),), rows)
            yield Cell(f"np.{name}(x, axis=0, keepdims=True)", (Kind(dtype, 1),), rows)
            yield Cell(f"np.{name}(x.reshape(1, -1), axis=0)", (Kind(dtype, 1),), rows)
            yield Cell(f"np.{name}(x)", (Kind(dtype),))
            if name in ("sum", "prod", "mean"):
                for d in DTYPES:
                    yield Cell(f"np.{name}(x, dtype=np.{'bool_' if d == 'bool' else d})", (Kind(dtype, 1),), rows)
                    if name == "sum":
                        yield Cell(f"np.cumsum(x, dtype=np.{'bool_' if d == 'bool' else d})", (Kind(dtype, 1),), rows)
        for text in (*scans, "np.linalg.norm(x)", "sum(x)", "min(x)", "max(x)", "sorted(x)", "any(x)", "all(x)", "list(x)", "x.tolist()",
                     "len(x)", "np.flip(x)", "x[::-1]"):  # fmt: skip
            yield Cell(text, (Kind(dtype, 1),), rows)
    nan = math.nan
    for keys in (
        (3.0, nan, 1.0, 2.0),
        (nan, 2.0, 1.0),
        (2.0, nan, nan, 1.0, 0.5),
        tuple([5.0, nan, 4.0, 3.0, nan, 2.0, 1.0] * 12),
    ):
        for text in ("sorted(list(x))", "sorted(x, reverse=True)", "sorted(x, key=lambda v: -v)", "min(x)", "max(x)"):
            for dtype in FLOATS:
                yield Cell(text, (Kind(dtype, 1),), ((keys,),))


def creation() -> Iterator[Cell]:
    """Arrays made of nothing, and of Python's numbers."""
    names = ["bool_", *DTYPES[1:], "float16"]
    for text in ("np.array([])", "np.asarray([])", "np.zeros(0)", "np.array([[]])", "np.array(())", "np.array([[], []])", "np.eye(2)",
                 "np.arange(3)", "np.arange(3.0)", "np.arange(0)", "np.arange(1, 2, 0.25)", "np.zeros(())", "np.ones(())",
                 "np.full((), 3)", "np.identity(2)", "np.array(5)", "np.array(2.5)", "np.array(True)", "np.array([True])",
                 "np.array([1, 2.5])", "np.array([1, True])", "np.array([[1, 2], [3, 4]])", "np.array([2**63 - 1, 2**63])",
                 "np.array(2**63)", "np.array(10**30)", "np.asarray(2**63)", "np.array([10**30])", "np.float32(1e300)"):  # fmt: skip
        yield Cell(text)
    for d in names:
        for text in (f"np.zeros(2, np.{d})", f"np.ones((), np.{d})", f"np.eye(2, dtype=np.{d})", f"np.array([], np.{d})",
                     f"np.arange(3, dtype=np.{d})", f"np.zeros(2, '{d.rstrip('_')}')"):  # fmt: skip
            yield Cell(text)
        for number in LITERALS:
            for text in (f"np.full(2, {number}, np.{d})", f"np.full(2, {number})", f"np.array({number}, np.{d})", f"np.{d}({number})",
                         f"np.array([{number}], np.{d})", f"np.array([{number}])"):  # fmt: skip
                yield Cell(text)
        for kind in SCALARS:
            yield Cell(f"np.full(2, x, np.{d})", (kind,))
            yield Cell(f"np.array([x, x], np.{d})", (kind,))
            yield Cell(f"a = [x]\nfor k in range(2):\n    a.append(x)\nreturn np.array(a, np.{d})", (kind,))
    for kind in SCALARS:
        yield Cell("np.full(2, x)", (kind,))
        yield Cell("a = [x]\nfor k in range(2):\n    a.append(x)\nreturn np.array(a)", (kind,))


def indices() -> Iterator[Cell]:
    """Indices of every integer dtype, in and out of range."""
    for kind in (*SCALARS, *POINTS):
        for text in ("np.arange(4)[x]", "np.take(np.arange(4), x)", "[5, 6, 7][x]", "(5, 6, 7)[x]", "np.arange(6).reshape(2, 3)[x]",
                     "np.arange(6).reshape(2, 3)[1, x]", "np.arange(6)[:x]", "np.arange(6)[x:]", "list(range(x % 5))"):  # fmt: skip
            yield Cell(text, (kind,))
    for kind in ARRAYS:
        for one in numbers(kind.name):
            for text in ("np.arange(4)[x]", "np.take(np.arange(4), x)"):
                yield Cell(text, (kind,), (((one, 1),),))


FAMILIES: dict[str, Callable[[], Iterator[Cell]]] = {
    "unary": unary, "binary": binary, "literals": literals, "reductions": reductions, "creation": creation,
    "indices": indices,
}  # fmt: skip


def cells(only: str = "") -> list[Cell]:
    """Return all cells, each once."""
    found = dict.fromkeys(c for family in FAMILIES.values() for c in family())
    return [c for c in found if only in str(c)]


# ---- models of many cells


@dataclass
class Sheet:
    """Cells that are the branches of one model, and the instances that try them."""

    cells: list[Cell]
    params: list[Kind]  # of all operands: one parameter for each kind and place
    source: str = ""
    lines: dict[int, int] = field(default_factory=dict)  # line of the source: number of the cell


def sheet(cells: Sequence[Cell]) -> Sheet:
    """Return a model of cells: its first parameter says which branch an instance takes."""
    params: dict[tuple[str, Kind], str] = {}
    for cell in cells:
        for name, kind in zip("xyz", cell.kinds, strict=False):
            params.setdefault((name, kind), f"{name}{len(params)}")
    lines = ["import math", "import numpy as np", "", f"def table({', '.join(['i', *params.values()])}):"]
    where: dict[int, int] = {}

    def branch(low: int, high: int, depth: int) -> None:
        pad = "    " * depth
        if high - low == 1:
            cell = cells[low]
            for name, kind in zip("xyz", cell.kinds, strict=False):
                lines.append(f"{pad}{name} = {params[name, kind]}")
            for line in cell.lines:
                lines.append(pad + line)
                where[len(lines)] = low
            return
        middle = (low + high) // 2
        lines.append(f"{pad}if i < {middle}:")
        branch(low, middle, depth + 1)
        branch(middle, high, depth)

    branch(0, len(cells), 1)
    return Sheet(list(cells), [k for _, k in params], "\n".join(lines) + "\n", where)


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="dtypes-"))


_made = itertools.count()


def imported(source: str) -> Callable[..., Any]:
    """Return the function of a source text, written to a file that messages can quote."""
    name = f"dtypes_{next(_made)}"
    path = folder() / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return import_file(path).table  # type: ignore[no-any-return]


def rejections(error: Any) -> Iterator[Any]:
    yield error
    yield from error.others


# ---- comparison


@dataclass
class Report:
    """What came of cells."""

    tried: int = 0
    compared: int = 0  # results
    rejected: dict[Cell, Any] = field(default_factory=dict)  # the errors
    limits: Counter[Cell] = field(default_factory=Counter)  # results beyond 64 bits
    different: dict[Cell, list[str]] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)  # of the IR, that the cells were compiled to

    def add(self, other: Report) -> None:
        self.tried += other.tried
        self.compared += other.compared
        self.rejected |= other.rejected
        self.limits += other.limits
        self.different |= other.different
        self.operations |= other.operations

    def __str__(self) -> str:
        codes = Counter(e.code for e in self.rejected.values())
        by = ", ".join(f"{code} {n:,}" for code, n in sorted(codes.items()))
        return (
            f"cells tried: {self.tried:,}, results compared: {self.compared:,}, cells rejected: {len(self.rejected):,} ({by}), "
            f"cells different: {len(self.different):,}"
        )


def outcome(f: Callable[[], Any]) -> Any:
    """Return what a call gives, or its exception."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f()
    except Exception as error:
        return error


def limited(mine: Any, plain: Any, cell: Cell, operands: Sequence[Value]) -> bool:
    """Whether a failure is one of those that the language has in place of a result.

    Python's ints have 64 bits, there are no complex numbers, and an int to the power of an int is an int.
    """
    if isinstance(mine, ValueError) and "complex" in str(mine):
        return isinstance(plain, complex)
    if isinstance(mine, TypeError) and "to a negative power is a float" in str(mine):
        return isinstance(plain, float | complex | ZeroDivisionError)
    if not isinstance(mine, OverflowError) or "64 bits" not in str(mine):
        return False
    if cell.text == "sum((x, y), 1)" and any(map(beyond, itertools.accumulate(operands, initial=1))):
        return True  # on the way
    wide = any(isinstance(v, np.ndarray | np.generic) and v.dtype == np.uint64 for v in operands)
    python = not any(isinstance(v, np.ndarray | np.generic) for v in operands)
    return beyond(plain) or wide or (python and any(beyond(_number(t)) for t in LITERALS if t in cell.text))


def beyond(value: Any) -> bool:
    """Whether a value has an int of more than 64 bits."""
    if isinstance(value, tuple | list):
        return any(map(beyond, value))
    return type(value) is int and not -(2**63) <= value < 2**63


def compare(mine: Any, plain: Any, near: Callable[[Any, Any], bool], alike: bool = True) -> str:
    """Return what differs, or "".

    `near`: whether two floating-point results of one dtype are both right. `alike`: whether failures are of one class;
    where several things are wrong with an instance, NumPy may find another first, which users are given in any case.
    """
    if isinstance(plain, Exception) or isinstance(mine, Exception):
        if not alike and isinstance(plain, Exception) and isinstance(mine, Exception):
            return ""
        if type(mine) is not type(plain) and not _same_failure(mine, plain):
            return f"{mine!r}, not {plain!r}"
        return ""
    scalars = isinstance(mine, np.generic) and isinstance(plain, np.generic)
    if type(mine) is not type(plain) and not (scalars and mine.dtype == plain.dtype):  # uint64 has two classes
        return f"{mine!r} ({type(mine).__name__}), not {plain!r} ({type(plain).__name__})"
    if isinstance(plain, tuple | list):
        if len(mine) != len(plain):
            return f"{mine!r}, not {plain!r}"
        return next((d for d in (compare(a, b, near) for a, b in zip(mine, plain, strict=True)) if d), "")
    if isinstance(plain, np.ndarray | np.generic):
        if mine.dtype != plain.dtype or mine.shape != plain.shape:
            return f"{mine!r}, not {plain!r}"
    elif not isinstance(plain, float):
        return "" if mine == plain else f"{mine!r}, not {plain!r}"
    a, b = np.asarray(mine), np.asarray(plain)
    same = a == b
    if a.dtype.kind == "f":
        same = (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if np.all(same) or near(a, b):
        return ""
    at = np.flatnonzero(~same.ravel())
    where = f" at {at[:4].tolist()}" if a.ndim else ""
    return f"{a.ravel()[at][:4].tolist()}, not {b.ravel()[at][:4].tolist()} ({a.dtype}){where}"


def _same_failure(mine: Any, plain: Any) -> bool:
    """Whether the machine found what the plain call tells in other words; users are given the plain call's."""
    from acronumba import ShapeMismatch

    if isinstance(mine, ShapeMismatch):
        return isinstance(plain, ValueError)
    if type(mine) is TypeError:
        return isinstance(plain, TypeError) and type(plain).__module__.startswith("numpy.")  # a private class of NumPy
    return isinstance(mine, IndexError) and isinstance(plain, OverflowError)  # np.uint64(2**63) as an index


# Units in the last place that a function may be off (see `kernels.write.math`; C's own functions of float64 are allowed 2).
ULPS = {
    **{name: 2.0 for name, row in TENSORS.items() if row.c},
    "exp": 1.06,
    "expm1": 1.85,
    "log": 0.9,
    "log1p": 1.3,
    "logaddexp": 2.0,
    "logaddexp2": 3.0,
    "fmax": 0.0,  # of zeros of two signs NumPy takes one or the other, by where they stand in an array
    "fmin": 0.0,
    "exp2": 2.0,
    "cbrt": 2.0,
    "hypot": 2.0,
    "float_power": 2.0,
    "ldexp": 1.0,
    "deg2rad": 1.0,
    "rad2deg": 1.0,
    "degrees": 1.0,
    "radians": 1.0,
    "sin": 2.0,
    "cos": 2.0,
    "tanh": 1.4,
    "pow": 2.0,
    "power": 2.0,
    "**": 2.0,
}
SUMS = (
    "sum(",
    "matvec(",
    "vecmat(",
    "vecdot(",
    "cumprod(",
    "prod(",
    "mean(",
    "var(",
    "std(",
    "norm(",
    "@",
    "dot(",
    "einsum(",
)
_FUNCTION = re.compile(rf"np\.({'|'.join(f for f in ULPS if f.isidentifier())})\(|(\*\*)|\b(pow)\(")


def nearness(cell: Cell, operands: Sequence[Value], f: Callable[..., Any]) -> Callable[[Any, Any], bool]:
    """Return whether a result is as near to the exact one as is promised; results of other cells have NumPy's bits."""
    if "uint32" in cell.text:  # out of its range C says nothing, and NumPy's arrays and scalars differ
        return lambda mine, plain: (
            mine.dtype == np.uint32 and _in_range(mine, plain, operands[0], "cumsum" in cell.text)
        )
    found = _FUNCTION.search(cell.text)
    sums = any(s in cell.text for s in SUMS)
    if found is None and not sums:
        return lambda mine, plain: False

    def near(mine: Any, plain: Any) -> bool:
        if mine.dtype.kind != "f":
            return False
        wide = np.float64 if mine.dtype == np.float32 else np.longdouble
        exact = outcome(
            lambda: f(*(np.asarray(v).astype(wide) if np.asarray(v).dtype != bool else v for v in operands))
        )
        if isinstance(exact, Exception) or np.shape(exact) != mine.shape:
            return False
        with np.errstate(all="ignore"):
            exact = np.asarray(exact)
            rounded = exact.astype(mine.dtype)
            special = ~(np.isfinite(mine) & np.isfinite(rounded))
            plainly = (mine == plain) & (np.signbit(mine) == np.signbit(plain)) | np.isnan(mine) & np.isnan(plain)
            error = np.abs(mine.astype(wide) - exact)
            if sums:
                own, most = np.abs(plain.astype(wide) - exact), np.abs(exact[np.isfinite(exact)])
                part = 1e-5 if mine.dtype == np.float32 else 1e-12
                limit = np.maximum(part * np.max(most, initial=0), 4 * own)
            else:
                assert found is not None
                ulps = ULPS[next(g for g in found.groups() if g)]  # the largest float has no spacing
                limit = np.where(ulps == 0, 0.0, ulps * np.spacing(np.abs(rounded)).astype(wide))
                # A Python float beside one of float32 is rounded to it, which the exact result is not of.
                error = np.minimum(error, np.abs(mine.astype(wide) - plain.astype(wide)))
            return bool(np.all(np.where(special, plainly, error <= limit)))

    return near


def _in_range(mine: Any, plain: Any, x: Any, running: bool) -> bool:
    """Whether two casts to uint32, or `running` sums of them, differ only where a float is no value of it."""
    x = np.asarray(x)
    if x.dtype.kind != "f" or mine.shape != x.shape:
        return False
    with np.errstate(all="ignore"):
        outside = ~((x > -1) & (x < 2.0**32))
    if running:
        outside = np.logical_or.accumulate(outside)
    return bool(np.all((mine == plain) | outside))


# ---- engines


def _recorded(model: Any, columns: Sequence[Any], engine: str) -> list[Any]:
    """Return the result or the machine's own exception of each instance."""
    from acronumba import InstanceErrors

    before = dispatch.plain_failure
    dispatch.plain_failure = lambda call, instance, machine: machine
    try:
        if engine == "plan":
            got, errors = model._interpret(*columns), {}
        elif engine == "program":
            got, errors = model._interpret(*columns, planned=False), {}
        elif engine == "emit":
            return _emitted(model, columns)
        else:
            done = dispatch.batch(model, columns, {})
            got, errors = done.results, done.errors
    except InstanceErrors as failed:
        got, errors = failed.results, failed.errors
    finally:
        dispatch.plain_failure = before
    return [errors[k] if k in errors else got[k] for k in range(len(columns[0]))]


def _emitted(model: Any, columns: Sequence[Any]) -> list[Any]:
    """Run everything that is generated, host program and kernels, in plain Python."""
    from acronumba.emit.target import host
    from acronumba.kernels.cpu import generate
    from acronumba.runtime.program import KernelEntry
    from tests.support.reference_kernels import link_interpreted

    compiled, leaves, packed = specialise(model, bind(model, columns, {}))

    def kernels(engine: Any) -> list[KernelEntry]:
        out = []
        for spec in compiled.plan.kernels:
            code = generate(spec, host())
            assert not code.tiles
            at = engine.memory.add_module(code.module)
            out.append(KernelEntry(plan=at["plan"], run=at["run"], shared=code.shared))
        return out

    machine = link_interpreted(compiled.plan, compiled.options, kernels)
    words, keep = compiled.shared.words(packed, leaves)
    run = machine.run(packed.roots, words, skip=packed.errors, keep=keep)
    decode = compiled.decoder(run, packed)
    return [compiled.site_error(run.errors[k]) if k in run.errors else decode(k) for k in range(len(columns[0]))]


def try_cells(
    given: Sequence[Cell], engine: str = "plan", most: int = 40, seed: int = 0, alike: bool = True
) -> Report:  # fmt: skip
    """Compile cells into one model and compare all their results with the plain call (`alike`: see `compare`)."""
    from acronumba import AcronumbaError, model

    report = Report(tried=len(given))
    left = list(given)
    rng = random.Random(seed)
    while left:
        page = sheet(left)
        f = imported(page.source)
        m = model(f)
        columns: list[list[Any]] = [[] for _ in range(len(page.params) + 1)]
        where = {key: k + 1 for k, key in enumerate(_places(left))}
        defaults = [made(np.full((1,) * max(k.rank, 0), numbers(k.name)[0]).tolist(), k) for k in page.params]
        tried: list[tuple[Cell, tuple[Value, ...]]] = []
        for k, cell in enumerate(left):
            for operands in cell.instances(rng, most):
                row = [k, *defaults]
                for name, kind, value in zip("xyz", cell.kinds, operands, strict=False):
                    row[where[name, kind]] = value
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
                tried.append((cell, operands))
        try:
            got = _recorded(m, columns, engine)
        except Exception as error:  # a cell that cannot be compiled is one that differs
            bad: dict[Cell, Any] = {}
            if isinstance(error, AcronumbaError):
                bad = {left[page.lines[e.loc.line]]: e for e in rejections(error) if e.loc.line in page.lines}
            report.rejected |= bad
            if not bad and len(left) == 1:
                if isinstance(error, AcronumbaError):
                    report.rejected[left[0]] = error
                else:
                    report.different[left[0]] = [f"{type(error).__name__}: {error}"]
                break
            if not bad:  # of all together, or a crash: look for it
                middle = len(left) // 2
                for half in (left[:middle], left[middle:]):
                    report.add(replace(try_cells(half, engine, most, seed, alike), tried=0))
                break
            left = [c for c in left if c not in bad]
            continue
        report.operations |= operations(m, columns)
        for j, ((cell, operands), mine) in enumerate(zip(tried, got, strict=True)):
            row = [column[j] for column in columns]
            plain = outcome(functools.partial(f, *row))
            if limited(mine, plain, cell, operands):
                report.limits[cell] += 1
                continue
            report.compared += 1

            at = [where[place] for place in zip("xyz", cell.kinds, strict=False)]
            near = nearness(cell, operands, functools.partial(_replaced, f, row, at))
            difference = compare(mine, plain, near, alike)
            if difference:
                report.different.setdefault(cell, []).append(f"{', '.join(map(repr, operands))}: {difference}")
        break
    return report


def _replaced(f: Callable[..., Any], row: Sequence[Any], at: Sequence[int], *operands: Any) -> Any:
    """Call a sheet for other operands."""
    other = list(row)
    for k, value in zip(at, operands, strict=True):
        other[k] = value
    return f(*other)


def operations(model: Any, columns: Sequence[Any]) -> set[str]:
    """Return the names of the operations of a model's program."""
    from acronumba.ir import nodes

    program = specialise(model, bind(model, columns, {}), packed=False)[0].program
    instrs = (i for function in program.functions for block in function.blocks for i in block.instrs)
    return {i.op for i in instrs if isinstance(i, nodes.Op | nodes.Scalar)}


def _places(cells: Iterable[Cell]) -> dict[tuple[str, Kind], None]:
    return {(name, kind): None for cell in cells for name, kind in zip("xyz", cell.kinds, strict=False)}


def pages(given: Sequence[Cell], size: int) -> Iterator[Sequence[Cell]]:
    for k in range(0, len(given), size):
        yield given[k : k + size]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=("plan", "program", "emit", "compiled"), default="plan")
    parser.add_argument("--only", default="", help="cells whose text has this in it")
    parser.add_argument("--family", choices=FAMILIES, help="one family of cells")
    parser.add_argument("--size", type=int, default=100, help="cells in one model")
    parser.add_argument("--most", type=int, default=40, help="operands of one cell")
    parser.add_argument("--seed", type=int, default=0, help="draws other operands where a cell has more")
    parser.add_argument("--sample", type=int, default=0, help="so many cells, drawn at random")
    parser.add_argument("--rejected", action="store_true", help="show what is rejected")
    parser.add_argument("--show", type=int, default=40, help="how many differences to show")
    options = parser.parse_args()
    chosen = [c for c in (list(FAMILIES[options.family]()) if options.family else cells()) if options.only in str(c)]
    chosen = list(dict.fromkeys(chosen))
    if options.sample:
        chosen = random.Random(0).sample(chosen, min(options.sample, len(chosen)))
    total = Report()
    for k, page in enumerate(pages(chosen, options.size)):
        total.add(try_cells(page, options.engine, options.most, options.seed))
        if k % 20 == 19:
            print(f"... {total}", flush=True)
    if options.rejected:
        by: dict[tuple[str, str], list[Cell]] = {}
        for cell, error in total.rejected.items():
            by.setdefault((error.code, cell.text), []).append(cell)
        for (code, text), some in sorted(by.items()):
            print(f"{code}  {text!r}: {len(some)}, e.g. {some[0]}; seen: {total.rejected[some[0]].seen}")
    grouped: dict[str, list[Cell]] = {}
    for cell in total.different:
        grouped.setdefault(cell.text, []).append(cell)
    for text, some in sorted(grouped.items(), key=lambda item: -len(item[1]))[: options.show]:
        print(f"DIFFERENT {text!r} ({len(some)} cells)")
        for cell in some[:4]:
            print(f"    {cell}: {total.different[cell][0][:300]}")
    print(total)
