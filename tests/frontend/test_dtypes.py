"""Every operation over every pair of dtypes and kinds of numbers, against NumPy (see `dtypes`): a sample, or all."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, Unsupported, model
from acronumba.host.texts import TEXTS
from acronumba.ir.ops import SCALARS, TENSORS
from tests.support import dtypes, numpy_table

ENGINES = ("plan", "emit", "compiled")


@cache
def table() -> list[dtypes.Cell]:
    return dtypes.cells()


def sample(count: int, seed: int) -> list[dtypes.Cell]:
    return random.Random(seed).sample(table(), count)


def agree(cells: list[dtypes.Cell], engine: str, size: int = 100, most: int = 12) -> dtypes.Report:
    """Fail if a cell differs; return what was tried."""
    report = dtypes.Report()
    for page in dtypes.pages(cells, size):
        report.add(dtypes.try_cells(page, engine, most))
    texts = [f"{cell}: {found[0]}" for cell, found in report.different.items()]
    assert not texts, "\n".join(texts[:20])
    assert report.compared
    return report


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(10, 30))])
def test_a_sample_of_the_table(seed: int) -> None:
    report = agree(sample(250, seed), "plan")
    assert len(report.rejected) < report.tried / 3


def test_a_sample_as_generated_code_in_plain_python() -> None:
    agree(sample(30, 3), "emit", size=30, most=3)


@pytest.mark.long
def test_a_sample_as_machine_code() -> None:
    agree(sample(50, 4), "compiled")


@pytest.mark.full
@pytest.mark.parametrize("family", dtypes.FAMILIES)
def test_the_whole_table(family: str) -> None:
    report = agree(list(dict.fromkeys(dtypes.FAMILIES[family]())), "plan", most=40)
    print(report)


@pytest.mark.full
@pytest.mark.parametrize("family", dtypes.FAMILIES)
def test_much_of_the_table_as_machine_code(family: str) -> None:
    cells = list(dict.fromkeys(dtypes.FAMILIES[family]()))
    agree(random.Random(5).sample(cells, min(2000, len(cells))), "compiled")


# Of no dtype's own, and tested elsewhere: random numbers, functions of `nn`, identity of objects, strings, operations
# of the user's own, and what a `try` asks before a function of `math`.
OF_GRADIENTS = {"fold", "scatter", "scale_gradient"}
OF_TRY = {name for name in SCALARS if name.startswith("defined_")}
ELSEWHERE = {"threefry", "sigmoid", "same", "own", *TEXTS, *OF_GRADIENTS, *OF_TRY}


@pytest.mark.long
def test_each_operation_has_a_cell() -> None:
    """A new row of `ir.ops` needs cells: the operations are those that the cells are compiled to."""
    by_text: dict[tuple[str, bool], list[dtypes.Cell]] = {}
    for family in ("unary", "binary", "reductions", "indices"):
        for cell in dtypes.FAMILIES[family]():
            python = all(k.name in dtypes.PYTHON for k in cell.kinds)
            by_text.setdefault((cell.text, python and family == "unary"), []).append(cell)
    rng = random.Random(7)
    cells = [c for some in by_text.values() for c in rng.sample(some, 1)]
    ints, bools, vector = dtypes.Kind("pyint"), dtypes.Kind("pybool"), dtypes.Kind("int64", 1)
    cells += [dtypes.Cell(f"x {op} y", (k, k)) for op in ("/", "^", "//", "%", "<<", ">>") for k in (ints, bools)]
    cells += [
        dtypes.Cell("x < y", (ints, dtypes.Kind("pyfloat"))),
        dtypes.Cell("~x", (ints,)),
        dtypes.Cell("round(x)", (dtypes.Kind("pyfloat"),)),
        dtypes.Cell("np.eye(2)"),
    ]
    ufuncs = [row for row in TENSORS.values() if row.ufunc is not None and row.takes in ("any", "float")]
    for row in ufuncs:  # what is drawn above may be of a dtype that is rejected
        floats = (dtypes.Kind("float64"), dtypes.Kind("float64", 1))[: row.arity]
        cells.append(dtypes.Cell(f"{dtypes.ufunc_name(row.ufunc)}({', '.join('xy'[: row.arity])})", floats))
    cells += [
        dtypes.Cell("np.array([v for v in x])", (vector,)),
        dtypes.Cell("np.argsort(x)", (vector,)),
        dtypes.Cell("np.searchsorted(x, x)", (vector,)),
        dtypes.Cell("np.array([int(v) for v in x])", (vector,)),
    ]
    report = agree(list(dict.fromkeys(cells)), "plan", most=4)
    assert {*TENSORS, *SCALARS} - report.operations == ELSEWHERE


def test_each_function_of_numpy_has_a_cell() -> None:
    from acronumba.frontend.calls.tables import ROWS

    texts = "\n".join({cell.text for cell in table()}) + numpy_table.ARRAY_API + numpy_table.USUAL
    functions = {
        f.__name__
        for f in ROWS
        if (not hasattr(f, "__self__") and getattr(f, "__module__", "") == "numpy") or isinstance(f, np.ufunc)
    }
    assert {name for name in functions if f"np.{name}(" not in texts} <= FUNCTIONS_OF_SHAPES
    methods = {f.__name__ for f in ROWS if getattr(f, "__objclass__", None) is np.ndarray}
    assert {name for name in methods if f".{name}(" not in texts} <= METHODS_OF_SHAPES


# These move elements, whatever their dtype, or are other names; their tests are those of shapes.
FUNCTIONS_OF_SHAPES = set(
    "apply_along_axis copyto fill_diagonal put_along_axis "
    "amax amin ascontiguousarray atleast_1d broadcast_to empty expand_dims hstack inner moveaxis ndim promote_types "
    "ravel reshape result_type split squeeze swapaxes tile transpose vdot vstack".split()
)
METHODS_OF_SHAPES = set("__abs__ sort squeeze swapaxes transpose".split())


# ---- what the table found, by hand


def both(f: Callable[..., Any], *columns: list[Any]) -> None:
    """Compare texts, which show type, dtype and the sign of zeros."""
    with np.errstate(all="ignore"):
        plain = [f(*row) for row in zip(*columns, strict=True)]
    assert list(map(repr, model(f).batch(*columns))) == list(map(repr, plain))


def halves(x: Any) -> Any:
    return x**0.5, np.power(x, 0.5), [v**0.5 for v in x]


def in_order(xs: list[float]) -> Any:
    return sorted(xs), sorted(xs, reverse=True), sorted(xs, key=lambda v: -v), max(xs), min(xs)


def quotients(a: int, b: int) -> Any:
    return a / b, a < b / 3, a == float(b)


def least(x: Any, y: Any, z: Any) -> Any:
    return min(x, y), max(x, y), min(y, x, z), max(x, y, z)


def copied(x: Any) -> Any:
    y = x.astype(np.float32, copy=False)
    y += 1
    return y, x


def test_a_power_of_one_half_is_a_square_root_of_arrays_only() -> None:
    both(halves, [np.array([-math.inf, -0.0, 4.0]), np.array([-0.0, 2.0])])


def test_keys_with_nan_are_ordered_as_python_orders_them() -> None:
    rng = random.Random(1)
    some = [math.nan, 1.0, -0.0, 0.0, 2.0, -3.0]
    both(in_order, [[rng.choice(some) for _ in range(n)] for n in (1, 2, 3, 5, 20, 63, 70, 200) for _ in range(4)])


def test_the_least_is_found_as_numpy_compares() -> None:
    """A Python float beside a scalar of float32 is rounded to it, an int64 beside a float64 too."""
    both(least, [5e-324, 1 + 1e-12, 0.1], [np.float32(-0.0), np.float32(1), np.float32(0.1)], [0, 1, 2])
    ints = [np.int64(2**63 - 2), np.int64(2**53 + 1), np.int64(2**63 - 1)]
    both(least, ints, [2.0**63, 2.0**53, np.inf], [np.float64(2.0**63), np.float64(2.0**53), np.float64(1)])


def truncated(x: Any) -> int:
    return math.trunc(x)


def test_arrays_have_no_trunc() -> None:
    with pytest.raises(InstanceErrors) as failed:
        model(truncated).batch([np.float64(2.5), np.array(2.5)])
    assert failed.value.results[0] == 2 and isinstance(failed.value.errors[1], TypeError)


def test_ints_that_are_no_floats() -> None:
    rng = random.Random(2)
    ints = [rng.choice((-1, 1)) * rng.getrandbits(rng.choice((3, 53, 54, 63))) or 1 for _ in range(200)]
    both(quotients, ints, ints[::-1])


def test_astype_without_a_copy_is_no_copy() -> None:
    with pytest.raises(Unsupported) as rejected:
        model(copied).batch([np.ones(3, np.float32)])
    assert rejected.value.code == "ACR112"


@pytest.mark.parametrize("value", [300, -200])
def test_an_int_out_of_range_is_an_overflow(value: int) -> None:
    def f(x: Any, k: int) -> Any:
        return x + k

    with pytest.raises(InstanceErrors) as failed:
        model(f).batch([np.ones(2, np.int8)] * 2, [1, value])
    assert isinstance(failed.value.errors[1], OverflowError)
    assert str(failed.value.errors[1]) == f"Python integer {value} out of bounds for int8"
