"""The cells of PyTorch: functions over dtypes, ranks and kinds of numbers, against PyTorch itself.

A cell is one expression for one choice of kinds of its operands x, y, z. Many cells are the branches of one model, whose
first parameter says which one an instance takes; each result is compared with that of the plain call, in value, shape,
dtype and class, and gradients with those of `torch.autograd`. `tests/torch/test_cells.py` tries a part of the table,
this file all of it:

    python tests/torch/cells.py                    all cells, what differs and what is rejected
    python tests/torch/cells.py --only clamp       the cells whose text has this in it
    python tests/torch/cells.py --gradients        gradients, cell by cell
    python tests/torch/cells.py --operations       the operations of the survey: supported or rejected
"""

# ruff: noqa: E501 (the forms of expressions are long lines)

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import acronumba.torch
from acronumba import AcronumbaError, InstanceErrors
from acronumba.api import dispatch
from tests.support.modules import import_file

PYTHON = {"pybool": bool, "pyint": int, "pyfloat": float}
FLOATS = ("float32", "float64")
MAIN = ("float32", "int64", "bool")
DTYPES = (*MAIN, "float64", "int32", "uint8")
ALL = (*DTYPES, "int16", "int8")


@dataclass(frozen=True)
class Kind:
    """What an operand is: a Python number, or a tensor of a dtype and rank."""

    name: str
    rank: int = -1

    def __str__(self) -> str:
        return self.name if self.rank < 0 else f"{self.name}[{','.join('n' * self.rank)}]"


@dataclass(frozen=True)
class Cell:
    text: str
    kinds: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        names = ", ".join(f"{n}: {k}" for n, k in zip("xyz", self.kinds, strict=False))
        return f"{self.text} of {names or 'nothing'}"


SPECIAL = [
    0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    3.0,
    -7.25,
    1.5,
    float("inf"),
    -float("inf"),
    float("nan"),
    -0.0,
    3.0,
    100.0,
    25.0,
]
PLAIN = [0.3, 1.25, 2.0, 0.75, 0.2, 1.1, 0.9, 1.7]
INTS = [0, 1, -1, 2, 3, -7, 5, 4, 3, 7]
POSITIVE = [1, 2, 3, 1, 5, 4, 2, 6]
SIZES = {0: (), 1: (4,), 2: (2, 4), 3: (2, 2, 4)}
SETS = 4  # of values that each cell is tried with


def value(kind: Kind, which: int, place: int) -> Any:
    """Return a value of a kind: plain and positive ones first, then special ones."""
    rng = random.Random(f"{kind} {which} {place}")
    if kind.name in FLOATS or kind.name == "pyfloat":
        pool: Sequence[Any] = PLAIN if which == 0 else SPECIAL[:9] if which == 1 else SPECIAL
    elif kind.name in ("bool", "pybool"):
        pool = [True, True, False]
    elif kind.name == "uint8":
        pool = POSITIVE if which == 0 else [abs(k) for k in INTS]
    else:
        pool = POSITIVE if which == 0 else INTS
    if kind.rank < 0:
        return PYTHON[kind.name](rng.choice(pool))
    shape = SIZES[kind.rank]
    count = torch.Size(shape).numel()
    return torch.tensor([rng.choice(pool) for _ in range(count)], dtype=getattr(torch, kind.name)).reshape(shape)


# ---- the cells


UNARY = """
-x | +x | ~x | abs(x) | not x | float(x) | int(x) | bool(x) | x.item() | x.tolist() | x.numpy() | len(x)
x.abs() | x.neg() | x.exp() | x.exp2() | x.expm1() | x.log() | x.log2() | x.log10() | x.log1p() | x.sqrt() | x.rsqrt()
x.square() | x.reciprocal() | x.sign() | x.floor() | x.ceil() | x.round() | x.round(decimals=1) | x.trunc() | x.frac()
x.sin() | x.cos() | x.tan() | x.asin() | x.acos() | x.atan() | x.sinh() | x.cosh() | x.tanh() | x.asinh() | x.acosh()
x.atanh() | x.erf() | x.erfc() | x.sigmoid() | x.logit() | x.deg2rad() | x.rad2deg() | x.sinc() | torch.positive(x)
x.isnan() | x.isinf() | x.isfinite() | x.signbit() | x.logical_not() | x.bitwise_not() | torch.isposinf(x)
x.nan_to_num() | x.clamp(min=0) | x.clamp(max=1) | x.clamp(0, 1) | x.clamp(min=0.5) | x.clamp(-1.5, 2.5) | x.clamp_min(1)
x ** 2 | x ** 3 | x ** 0.5 | x ** -1 | x ** 2.0 | x.pow(2) | x.pow(-2) | x.pow(0) | 2 ** x | 2.5 ** x | torch.pow(2, x)
x.float_power(2) | x + 1 | 1 - x | x * 2 | 2 / x | x / 2 | x + 0.5 | x * True | x // 2 | 7 // x | x % 3 | 7 % x | x % 2.5
x.add(1, alpha=2) | x.sub(1, alpha=2) | x.div(2, rounding_mode='floor') | x.div(2, rounding_mode='trunc') | x.fmod(2) | x.remainder(-3)
x == 1 | x != 0 | x < 1 | x >= 0.5 | 1 < x | x == True | x & 1 | x | 2 | x ^ 1 | x << 1 | x >> 1 | x & True
torch.where(x > 0, x, 0) | torch.where(x > 0, 1.0, x) | torch.where(x > 0, 1, 2) | torch.where(x > 0, 1.0, 2.0) | x.masked_fill(x > 0, 2)
x.masked_fill(x > 0, 1.5) | x.lerp(x + 1, 0.3) | torch.addcmul(x, x, x) | torch.addcmul(x, x, x, value=2) | torch.addcdiv(x, x, x)
torch.relu(x) | F.relu(x) | F.relu6(x) | F.leaky_relu(x) | F.leaky_relu(x, 0.3) | F.elu(x) | F.elu(x, 0.5) | F.selu(x) | F.celu(x)
F.gelu(x) | F.gelu(x, approximate='tanh') | F.silu(x) | F.mish(x) | F.softplus(x) | F.softplus(x, 2, 5) | F.softsign(x)
F.tanhshrink(x) | F.softshrink(x) | F.hardshrink(x) | F.threshold(x, 0.5, 2.0) | F.hardtanh(x) | F.hardtanh(x, -0.5, 2.0)
F.hardsigmoid(x) | F.hardswish(x) | F.logsigmoid(x) | F.tanh(x) | F.sigmoid(x)
F.softmax(x, dim=0) | F.log_softmax(x, dim=0) | x.softmax(-1) | x.log_softmax(-1) | F.softmin(x, 0) | F.softmax(x) | F.softmax(x, 0, dtype=torch.float64)
F.glu(x)
x.float() | x.double() | x.long() | x.int() | x.bool() | x.byte() | x.short() | x.char() | x.to(torch.float64) | x.to(torch.int32) | x.to('cpu') | x.type(torch.FloatTensor)
x.type() | x.type(torch.long) | x.clone() | x.detach() | x.data | x.contiguous() | x.cpu() | torch.autograd.Variable(x) | x.requires_grad_(False)
x.is_floating_point() | x.dim() | x.ndim | x.numel() | x.nelement() | x.size() | x.shape | x.dtype == torch.float32 | torch.is_tensor(x) | x.is_cuda
torch.zeros_like(x) | torch.ones_like(x) | torch.full_like(x, 2) | torch.full_like(x, 1.5) | torch.zeros_like(x, dtype=torch.long) | x.new_zeros(2) | x.new_ones((2, 3))
x.new_full((2,), 1) | x.new_tensor([1, 0]) | x.new_tensor(1.5) | x.new([1, 0]) | torch.tensor(x) | torch.as_tensor(x) | torch.tensor([x, 1]) | torch.zeros(2, dtype=x.dtype)
torch.equal(x, x) | torch.allclose(x, x) | x.isclose(x)
"""
REDUCED = """
x.sum() | x.sum(0) | x.sum(-1) | x.sum(0, True) | x.sum(dim=0, keepdim=True) | x.sum((0,)) | x.sum(dtype=torch.float64) | torch.sum(x, axis=0) | x.sum(())
x.mean() | x.mean(0) | x.mean(-1, keepdim=True) | x.mean(dtype=torch.float64) | x.prod() | x.prod(0) | x.prod(-1, True) | x.any() | x.any(0) | x.all() | x.all(-1, True)
x.max() | x.max(0) | x.max(-1, keepdim=True) | x.max(0)[0] | x.max(0).indices | torch.max(x, dim=0) | x.min() | x.min(0) | x.min(-1, True) | x.min(0).values
x.amax() | x.amax(0) | x.amax((0,), True) | x.amin(-1) | x.argmax() | x.argmax(0) | x.argmax(-1, True) | x.argmin() | x.argmin(0) | x.argmax(dim=0)
x.std() | x.std(0) | x.std(unbiased=False) | x.std(0, False) | x.var() | x.var(-1) | x.var(0, keepdim=True) | x.var(correction=0) | x.var(False)
x.norm() | x.norm(1) | x.norm(2) | x.norm(p=2, dim=0) | x.norm(3) | x.norm(0) | x.norm(float('inf')) | x.norm(dim=-1, keepdim=True) | torch.norm(x, 2, 0) | torch.linalg.norm(x) | torch.linalg.vector_norm(x, 1)
x.logsumexp(0) | x.logsumexp(-1, True) | torch.logsumexp(x, dim=0) | x.cumsum(0) | x.cumsum(-1) | x.cumprod(0) | x.cumsum(0, dtype=torch.float64) | x.median() | x.count_nonzero()
F.normalize(x, dim=0) | F.normalize(x, p=1, dim=-1) | x.sum() / x.numel() | x.max(1)[1]
"""
BINARY = """
x + y | x - y | x * y | x / y | x ** y | x < y | x == y | x != y | x >= y | x & y | x | y | x ^ y
x.add(y) | torch.add(x, y, alpha=2) | torch.sub(x, y, alpha=2) | torch.mul(x, y) | torch.div(x, y) | torch.true_divide(x, y)
torch.div(x, y, rounding_mode='floor') | torch.div(x, y, rounding_mode='trunc') | torch.maximum(x, y) | torch.minimum(x, y) | torch.max(x, y) | torch.min(x, y)
x // y | x % y | torch.fmod(x, y) | torch.remainder(x, y) | torch.floor_divide(x, y) | torch.pow(x, y) | torch.atan2(x, y) | torch.eq(x, y) | torch.gt(x, y) | x.le(y)
torch.where(x > 0, x, y) | torch.where(x != 0, y, x) | x.masked_fill(x != 0, y) | torch.clamp(x, min=y) | x.clamp(max=y) | torch.lerp(x, y, 0.25) | torch.addcmul(x, y, y)
torch.logical_and(x, y) | torch.logical_or(x, y) | torch.logical_xor(x, y) | torch.isclose(x, y) | torch.fmax(x, y) | torch.fmin(x, y) | torch.hypot(x, y) | torch.logaddexp(x, y)
torch.copysign(x, y) | x.type_as(y) | x.to(y) | torch.dist(x, y) | torch.rsub(x, y) | torch.heaviside(x, y) | x.float_power(y)
"""
PRODUCTS = {
    (
        1,
        1,
    ): "x @ y | torch.dot(x, y) | x.matmul(y) | torch.outer(x, y) | torch.ger(x, y) | torch.inner(x, y) | F.cosine_similarity(x, y, dim=0) | F.pairwise_distance(x, y) | torch.einsum('i,i->', x, y) | torch.einsum('i,j->ij', [x, y])",
    (
        2,
        1,
    ): "x @ y | torch.mv(x, y) | x.matmul(y) | torch.matmul(x, y) | torch.einsum('ij,j->i', x, y) | torch.addmv(torch.ones(2, dtype=x.dtype), x, y)",
    (
        2,
        2,
    ): "x @ y.t() | torch.mm(x, y.t()) | x.t().mm(y) | F.cosine_similarity(x, y) | F.pairwise_distance(x, y) | F.pairwise_distance(x, y, keepdim=True) | torch.addmm(x @ y.t(), x, y.t()) | torch.addmm(x @ y.t(), x, y.t(), beta=0.5, alpha=2) | torch.einsum('ij,kj->ik', x, y)",
    (
        3,
        3,
    ): "torch.bmm(x, y.transpose(1, 2)) | x @ y.transpose(1, 2) | torch.matmul(x, y[0].t()) | torch.baddbmm(x @ y.transpose(1, 2), x, y.transpose(1, 2))",
}
OF_NUMBERS = """
torch.tensor(x) | torch.tensor([x, 1]) | torch.tensor([x, x]) | torch.full((2,), x) | torch.zeros(2) + x | torch.ones(2, dtype=torch.long) * x | torch.FloatTensor([x]) | torch.LongTensor([x, 1])
torch.tensor([[x], [1]]) | torch.tensor(x, dtype=torch.float64) | torch.tensor(x, dtype=torch.long) | torch.tensor([x], dtype=torch.bool) | torch.as_tensor(x) | torch.full((2, 2), x, dtype=torch.float64)
torch.zeros(2).new_full((2,), x) | torch.full_like(torch.zeros(2, dtype=torch.int32), x) | torch.ones(3).masked_fill(torch.tensor([True, False, True]), x)
"""
MADE = """
torch.zeros(2, 3) | torch.zeros((2, 3)) | torch.zeros([2]) | torch.zeros(()) | torch.zeros(size=(2,)) | torch.ones(2) | torch.empty(2).shape | torch.full((2,), 3) | torch.full((2,), 1.5) | torch.full((2,), True)
torch.arange(5) | torch.arange(1, 4) | torch.arange(0, 1, 0.25) | torch.arange(3.0) | torch.arange(6, 0, -2) | torch.arange(3, dtype=torch.float32) | torch.linspace(0, 1, 5) | torch.eye(3) | torch.eye(2, 3)
torch.tensor(1.0) | torch.tensor(1) | torch.tensor(True) | torch.tensor([]) | torch.tensor([1, 2.5]) | torch.tensor([[1, 2], [3, 4]]) | torch.tensor([True, 1]) | torch.tensor([1], dtype=torch.int16) | torch.tensor((1, 2))
torch.FloatTensor([1, 2]) | torch.LongTensor([[1]]) | torch.ByteTensor([1, 0]) | torch.BoolTensor([True]) | torch.IntTensor([3]) | torch.DoubleTensor([1]) | torch.Tensor([1, 2]) | torch.FloatTensor(2, 3).shape | torch.LongTensor([1.5])
torch.zeros(2, dtype=torch.bool) | torch.ones(2, dtype=torch.uint8) | torch.zeros(2).double() | torch.get_default_dtype() == torch.float32 | torch.zeros(0).sum() | torch.zeros(0).shape | torch.zeros(2, 0).sum(1) | torch.scalar_tensor(2)
"""


def texts(table: str) -> list[str]:
    return [t.strip() for t in table.replace("\n", " | ").split(" | ") if t.strip()]


def _split(table: str) -> list[str]:
    """Return the texts of a table; `x | y` and the like are texts of their own."""
    out: list[str] = []
    for t in texts(table):
        if out and (out[-1], t) in (("x", "2"), ("x", "y")):
            out[-1] = f"{out[-1]} | {t}"
        else:
            out.append(t)
    return out


def unary(dtypes: Sequence[str], ranks: Sequence[int]) -> Iterator[Cell]:
    for dtype, rank in itertools.product(dtypes, ranks):
        for text in (*_split(UNARY), *_split(REDUCED)):
            yield Cell(text, (Kind(dtype, rank),))


def binary(dtypes: Sequence[str], ranks: Sequence[tuple[int, int]]) -> Iterator[Cell]:
    for a, b in itertools.product(dtypes, dtypes):
        for p, q in ranks:
            for text in _split(BINARY):
                yield Cell(text, (Kind(a, p), Kind(b, q)))
    for a, number in itertools.product(dtypes, PYTHON):
        for p in sorted({p for p, _ in ranks}):
            for text in _split(BINARY):
                if text in ("x.to(y)", "torch.max(x, y)", "torch.min(x, y)"):  # y is a device, or an axis
                    continue
                yield Cell(text, (Kind(a, p), Kind(number)))
                if text.startswith(("x ", "torch.")):
                    yield Cell(text, (Kind(number), Kind(a, p)))


def products(dtypes: Sequence[str]) -> Iterator[Cell]:
    for (p, q), table in PRODUCTS.items():
        for a, b in itertools.product(dtypes, dtypes):
            for text in texts(table):
                yield Cell(text, (Kind(a, p), Kind(b, q)))


def made() -> Iterator[Cell]:
    for text in texts(MADE):
        yield Cell(text)
    for number in PYTHON:
        for text in texts(OF_NUMBERS):
            yield Cell(text, (Kind(number),))


def few() -> list[Cell]:
    """Return the cells that are tried by default."""
    out = [*unary(MAIN, (0, 1)), *unary(("float64", "int32", "uint8"), (1,)), *unary(("float32",), (2,))]
    out += [*binary(MAIN, ((1, 1), (1, 0))), *products(("float32", "int64")), *made()]
    return list(dict.fromkeys(out))


def every() -> list[Cell]:
    """Return all cells."""
    out = [
        *unary(ALL, (0, 1, 2)),
        *binary(DTYPES, ((1, 1), (0, 1), (1, 0), (0, 0), (2, 1))),
        *products(DTYPES),
        *made(),
    ]
    return list(dict.fromkeys(out))


# ---- models of many cells


@dataclass
class Report:
    tried: int = 0
    compared: int = 0  # results
    rejected: dict[Cell, str] = field(default_factory=dict)  # though PyTorch computes them: the messages
    different: dict[Cell, str] = field(default_factory=dict)

    def add(self, other: Report) -> None:
        self.tried += other.tried
        self.compared += other.compared
        self.rejected |= other.rejected
        self.different |= other.different

    def __str__(self) -> str:
        return (
            f"cells tried: {self.tried:,}, results compared: {self.compared:,}, "
            f"rejected: {len(self.rejected):,}, different: {len(self.different):,}"
        )


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="torch-cells-"))


_made = itertools.count()


def places(cells: Sequence[Cell]) -> dict[tuple[str, Kind], str]:
    """Return the parameters of the model of cells: one for each place and kind."""
    out: dict[tuple[str, Kind], str] = {}
    for cell in cells:
        for name, kind in zip("xyz", cell.kinds, strict=False):
            out.setdefault((name, kind), f"{name}{len(out)}")
    return out


def sheet(cells: Sequence[Cell]) -> tuple[Any, dict[int, Cell]]:
    """Return the function whose first argument says which cell it computes, and the cells by lines of its source."""
    params = places(cells)
    lines = ["import torch", "import torch.nn.functional as F", "", f"def table({', '.join(['i', *params.values()])}):"]
    where: dict[int, Cell] = {}

    def branch(low: int, high: int, depth: int) -> None:
        pad = "    " * depth
        if high - low == 1:
            cell = cells[low]
            for name, kind in zip("xyz", cell.kinds, strict=False):
                lines.append(f"{pad}{name} = {params[name, kind]}")
            lines.append(f"{pad}return {cell.text}")
            where[len(lines)] = cell
            return
        middle = (low + high) // 2
        lines.append(f"{pad}if i < {middle}:")
        branch(low, middle, depth + 1)
        branch(middle, high, depth)

    branch(0, len(cells), 1)
    path = folder() / f"torch_cells_{next(_made)}.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return import_file(path).table, where


def outcome(f: Any) -> Any:
    """Return what a call gives, or its exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f()
    except Exception as error:
        return error


def recorded(model: Any, columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the result or the machine's own exception of each instance."""
    before = dispatch.plain_failure
    dispatch.plain_failure = lambda call, instance, machine: machine
    try:
        got, errors = model.batch(*columns), {}
    except InstanceErrors as failed:
        got, errors = failed.results, failed.errors
    finally:
        dispatch.plain_failure = before
    return [errors[k] if k in errors else got[k] for k in range(len(columns[0]))]


def columns_of(cells: Sequence[Cell], sets: int) -> list[list[Any]]:
    params = places(cells)
    columns: list[list[Any]] = [[] for _ in range(len(params) + 1)]
    for k, cell in enumerate(cells):
        given = {(n, kind) for n, kind in zip("xyz", cell.kinds, strict=False)}
        for which in range(sets if cell.kinds else 1):
            columns[0].append(k)
            for column, (name, kind) in zip(columns[1:], params, strict=True):
                column.append(value(kind, which if (name, kind) in given else 0, "xyz".index(name)))
    return columns


def compiled(cells: Sequence[Cell], report: Report, run: Any) -> list[tuple[list[Cell], Any]]:
    """Run models of cells; return the cells of each with what `run(cells, function)` gives, without those rejected."""
    left = list(cells)
    while left:
        f, lines = sheet(left)
        try:
            return [(left, run(left, f))]
        except AcronumbaError as error:
            bad = {lines[e.loc.line]: str(e) for e in (error, *error.others) if e.loc.line in lines}
            internal = any("ACR798" in text for text in bad.values())
            if bad and not internal:
                report.rejected |= bad
                left = [c for c in left if c not in bad]
                continue
            what = str(error)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
        if len(left) == 1:
            report.different[left[0]] = what
            return []
        middle = len(left) // 2
        return [*compiled(left[:middle], report, run), *compiled(left[middle:], report, run)]
    return []


def try_cells(cells: Sequence[Cell], sets: int = SETS, size: int = 150) -> Report:
    """Compare the results of cells with those of plain calls."""
    report = Report(tried=len(cells))
    for start in range(0, len(cells), size):
        chunk = cells[start : start + size]
        raises = {c: refused(c) for c in chunk}
        run = functools.partial(_run, sets=sets)
        for part in ([c for c in chunk if not raises[c]], [c for c in chunk if raises[c]]):
            for done, results in compiled(part, report, run):
                _compare(done, results, report)
        report.rejected = {c: e for c, e in report.rejected.items() if not refused(c)}
    return report


@functools.cache
def refused(cell: Cell) -> bool:
    """Whether PyTorch raises an error for all values of a cell that are tried."""
    f, _ = sheet([cell])
    columns = columns_of([cell], SETS)
    return all(isinstance(outcome(functools.partial(f, *row)), Exception) for row in zip(*columns, strict=True))


def _run(cells: Sequence[Cell], f: Any, sets: int) -> Any:
    columns = columns_of(cells, sets)
    got = recorded(acronumba.torch.model(f), columns)
    return [(k, got[j], outcome(functools.partial(f, *(c[j] for c in columns)))) for j, k in enumerate(columns[0])]


def _compare(cells: Sequence[Cell], results: Any, report: Report) -> None:
    for k, mine, plain in results:
        report.compared += 1
        difference = differs(mine, plain)
        if difference:
            report.different.setdefault(cells[k], difference)


def differs(mine: Any, plain: Any) -> str:
    """Return what differs, or ""."""
    if isinstance(plain, Exception) or isinstance(mine, Exception):
        both = isinstance(plain, Exception) and isinstance(mine, Exception)
        return "" if both else f"{mine!r}, not {plain!r}"
    if isinstance(plain, tuple | list):
        if (
            not isinstance(mine, tuple | list)
            or isinstance(mine, list) != isinstance(plain, list)
            or len(mine) != len(plain)
        ):
            return f"{mine!r}, not {plain!r}"
        return next((d for d in map(differs, mine, plain) if d), "")
    if isinstance(plain, torch.Tensor):
        if not isinstance(mine, torch.Tensor) or (mine.dtype, mine.shape) != (plain.dtype, plain.shape):
            return f"{mine!r}, not {plain!r}"
        return "" if close(mine, plain) else f"{mine!r}, not {plain!r}"
    if type(mine) is not type(plain):
        return f"{mine!r} ({type(mine).__name__}), not {plain!r} ({type(plain).__name__})"
    if hasattr(plain, "dtype"):
        same = mine.dtype == plain.dtype and mine.shape == plain.shape
        return "" if same and close(torch.from_numpy(mine), torch.from_numpy(plain)) else f"{mine!r}, not {plain!r}"
    if isinstance(plain, float):
        return "" if close(torch.tensor(mine), torch.tensor(plain)) else f"{mine!r}, not {plain!r}"
    return "" if mine == plain else f"{mine!r}, not {plain!r}"


def close(mine: torch.Tensor, plain: torch.Tensor) -> bool:
    if not plain.dtype.is_floating_point:
        return torch.equal(mine, plain)
    near = 2e-6 if plain.dtype == torch.float32 else 1e-13
    return torch.allclose(mine, plain, rtol=near, atol=near, equal_nan=True)


# ---- gradients


def gradients(cells: Sequence[Cell], size: int = 60, sets: int = 2) -> Report:
    """Compare the gradients of sums of results with those of PyTorch, for finite values."""
    report = Report(tried=len(cells))
    for start in range(0, len(cells), size):
        chunk = [c for c in cells[start : start + size] if _differentiable(c)]
        for done, results in compiled(chunk, report, functools.partial(_gradients, sets=sets)):
            for k, mine, plain in results:
                report.compared += 1
                difference = _unlike(mine, plain)
                if difference:
                    report.different.setdefault(done[k], difference)
    return report


def _leaves(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out] if out.requires_grad else []
    return [v for part in out for v in _leaves(part)] if isinstance(out, tuple | list) else []


def _differentiable(cell: Cell) -> bool:
    f, _ = sheet([cell])
    columns = _with_gradients(columns_of([cell], 1))
    out = outcome(functools.partial(f, *(c[0] for c in columns)))
    return not isinstance(out, Exception) and bool(_leaves(out))


def _with_gradients(columns: list[list[Any]]) -> list[list[Any]]:
    def one(v: Any) -> Any:
        tensor = isinstance(v, torch.Tensor) and v.dtype.is_floating_point
        return v.clone().requires_grad_() if tensor else v

    return [[one(v) for v in column] for column in columns]


def _gradients(cells: Sequence[Cell], f: Any, sets: int) -> Any:
    columns = columns_of(cells, sets)
    mine, plain = _with_gradients(columns), _with_gradients(columns)
    got = acronumba.torch.model(f).batch(*mine)
    out = []
    for j, k in enumerate(columns[0]):
        own = [c[j] for c in mine if isinstance(c[j], torch.Tensor) and c[j].requires_grad]
        theirs = [c[j] for c in plain if isinstance(c[j], torch.Tensor) and c[j].requires_grad]
        want = outcome(functools.partial(f, *(c[j] for c in plain)))
        theirs_found = want if isinstance(want, Exception) else outcome(functools.partial(_followed, want, theirs))
        if not isinstance(theirs_found, Exception):  # else PyTorch has no derivative
            out.append((k, _followed(got[j], own), theirs_found))
    return out


def _followed(out: Any, wanted: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients of a weighted sum of results; zeros where nothing depends on a tensor."""
    leaves = _leaves(out)
    if not leaves:
        return [torch.zeros_like(x) for x in wanted]
    total = sum((v.double() * (1 + torch.arange(v.numel()).reshape(v.shape))).sum() for v in leaves)
    found = torch.autograd.grad(total, list(wanted), allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]


def _unlike(mine: Sequence[torch.Tensor], plain: Sequence[torch.Tensor]) -> str:
    for a, b in zip(mine, plain, strict=True):
        near = 2e-5 if b.dtype == torch.float32 else 1e-10
        if a.dtype != b.dtype or a.shape != b.shape or not torch.allclose(a, b, rtol=near, atol=near, equal_nan=True):
            return f"{a!r}, not {b!r}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--size", type=int, default=150)
    given = parser.parse_args()
    cells = [c for c in (few() if given.few else every()) if given.only in str(c)]
    if given.gradients:
        report = gradients([c for c in cells if any(k.name in FLOATS for k in c.kinds)], given.size)
    else:
        report = try_cells(cells, size=given.size)
    for name, found in (("rejected", report.rejected), ("different", report.different)):
        for cell, text in found.items():
            print(f"{name}: {cell}: {' '.join(text.split())[:300]}")
    print(report)


if __name__ == "__main__":
    main()
