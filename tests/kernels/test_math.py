"""Functions of floats: worst error, special values as in NumPy, one answer per value whatever the width and lane."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

from acronumba.emit import arithmetic, compile, interpret, target, tree
from acronumba.emit.tree import F32, F64, I32, I64, Ty
from acronumba.ir.ops import TENSORS
from acronumba.kernels.write import math as library

OF_C = {row.name: row for row in TENSORS.values() if row.c}
UNARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf", "sign",
         *(name for name, row in OF_C.items() if row.arity == 1))  # fmt: skip
BINARY = ("arctan2", "pow", "maximum", "minimum", "mod", "floordiv")
WIDTHS = (1, 4)  # and the machine's own
erfc = np.vectorize(math.erfc, otypes=[np.float64])
erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "sigmoid": sigmoid, "erf": erf, "sign": np.sign, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
    "mod": np.mod, "floordiv": np.floor_divide, **{name: getattr(np, name, erfc) for name in OF_C},
}  # fmt: skip

# Units in the last place, as documented. C's own functions (sin, cos, erf, pow ... of float64) are allowed 2.
WORST_SINGLE = {
    **dict.fromkeys(OF_C, 0.51),
    "exp": 1.02,
    "expm1": 1.3,
    "log": 0.86,
    "log1p": 1.3,
    "sin": 1.5,
    "cos": 1.5,
    "tanh": 1.34,
    "sigmoid": 2.41,
    "erf": 0.98,
    "sign": 0.0,
}
WORST_DOUBLE = {
    **dict.fromkeys(OF_C, 2.0),
    "exp": 1.06,
    "expm1": 1.85,
    "log": 0.9,
    "log1p": 1.3,
    "sin": 2.0,
    "cos": 2.0,
    "tanh": 1.4,
    "sigmoid": 2.5,
    "erf": 2.0,
    "sign": 0.0,
}


@functools.cache
def module_for(scalar: Ty, lanes: int) -> tree.Module:
    """Return a module with a loop over arrays for every function: apply_NAME(X, [Y,] out, n)."""
    type = scalar.vector(lanes)
    loops = []
    for name in UNARY + BINARY:
        operands = ["x", "y"][: 1 if name in UNARY else 2]
        f = tree.Builder(f"apply_{name}", [(p, I64) for p in (*operands, "out", "n")])
        size = type.bits // 8
        with f.loop("i", 0, f["n"] * size, size * lanes) as i:
            given = tuple(tree.Load(f[p] + i, type) for p in operands)
            f.store_lanes(f["out"] + i, tree.Call(f"{name}_{type}", given, type))
        f.ret()
        loops.append(f.function())
    functions = library.closure((name, type) for name in UNARY + BINARY)
    return tree.Module(f"math_{type}", (*functions, *loops), tuple(f.name for f in loops))


@functools.cache
def compiled(scalar: Ty, lanes: int) -> compile.Compiled:
    return compile.load([module_for(scalar, lanes)])[0]


def apply(name: str, scalar: Ty, lanes: int, *arrays: np.ndarray, interpreted: bool = False) -> np.ndarray:
    """Run a function over arrays of one length; the rest of the last vector is filled with ones."""
    n = len(arrays[0])
    padded = [np.concatenate([a, np.ones(-n % lanes, a.dtype)]) for a in arrays]
    out = np.empty_like(padded[0])
    arguments = [*(a.ctypes.data for a in padded), out.ctypes.data, len(out)]
    if interpreted:
        memory = interpret.InterpreterMemory(*padded, out)
        interpret.run(module_for(scalar, lanes), f"apply_{name}", arguments, memory)
    else:
        compiled(scalar, lanes).call(f"apply_{name}", *arguments)
    return out[:n]


def native(scalar: Ty) -> int:
    return target.host().lanes(scalar)


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal with the sign of zeros; all NaNs are one."""
    number = f"i{actual.dtype.itemsize}"
    nan = np.isnan(actual) & np.isnan(expected)
    wrong = np.flatnonzero(~nan & (actual.view(number) != expected.view(number)))
    assert not len(wrong), f"{actual[wrong][:5]} instead of {expected[wrong][:5]} at {wrong[:5]}"


def errors(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the errors in units of the last place; infinite where NaN, infinity or the sign differ."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        ulps = np.abs(actual.astype(exact.dtype) - exact) / np.spacing(np.abs(rounded)).astype(exact.dtype)
    same = (np.isnan(actual) & np.isnan(rounded)) | (actual == rounded)
    kind = (np.isfinite(actual) == np.isfinite(rounded)) & (np.isnan(actual) == np.isnan(rounded))
    sign = np.signbit(actual) == np.signbit(rounded)
    ulps = np.where(same & (sign | np.isnan(actual)), np.where(np.isfinite(ulps), ulps, 0), ulps)
    return np.where(kind & (sign | np.isnan(actual)), ulps, np.inf)


def singles(first: int, last: int, step: int) -> np.ndarray:
    """Every `step`-th float32 by bits."""
    return np.arange(first, last, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def doubles(n: int) -> np.ndarray:
    random = np.random.default_rng(7)
    bits = random.integers(0, 1 << 64, n, dtype=np.uint64).view(np.float64)
    powers = 10 ** random.uniform(-12, 3, n)
    around_one = 1 + random.standard_normal(n) * 1e-3
    return np.concatenate([bits, powers, -powers, around_one, random.uniform(-750, 750, n), random.uniform(-2, 2, n)])


SPECIAL = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 1e-45, -1e-45, 1e-40,
    -1e-40, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 88.7, 88.73, -87.0, -87.5, -100.0, -103.9, -104.5, 9.0, 10.0,
    100.0, 71475.0, 71477.0, 1e10, -1e30, 5e-324, 1e-310, 709.7, 709.8, -708.0, -720.0, -745.0, -746.0,
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_error_of_singles(name: str) -> None:
    x = singles(0, 1 << 32, 30011)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.float64))
    found = errors(apply(name, F32, native(F32), x), exact)
    assert found.max() <= WORST_SINGLE[name], f"{found.max()} ulp at {x[found.argmax()]!r}"


@pytest.mark.full
@pytest.mark.parametrize("name", UNARY)
def test_error_of_all_singles(name: str) -> None:
    for first in range(0, 1 << 32, 1 << 24):
        x = singles(first, first + (1 << 24), 1)
        with np.errstate(all="ignore"):
            exact = REFERENCE[name](x.astype(np.float64))
        y = apply(name, F32, native(F32), x)
        found = errors(y, exact)
        assert found.max() <= WORST_SINGLE[name], f"{found.max()} ulp at {x[found.argmax()]!r}"
        assert_same_bits(apply(name, F32, 1, x[::64]), y[::64])


@pytest.mark.parametrize("name", UNARY)
def test_error_of_doubles(name: str) -> None:
    x = doubles(4000)
    extended = np.finfo(np.longdouble).nmant > 60 and name not in ("erf", "erfc")
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.longdouble) if extended else x)
    found = errors(apply(name, F64, native(F64), x), exact)
    allowed = WORST_DOUBLE[name] + (0 if extended or name == "sign" else 2)  # NumPy's own error
    assert found.max() <= allowed, f"{found.max()} ulp at {x[found.argmax()]!r}"


@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, scalar: Ty) -> None:
    """Infinities, NaN, zeros and their signs, the edges of each range."""
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, arithmetic.dtype(scalar))
        exact = REFERENCE[name](x.astype(np.float64) if scalar == F32 else x)
    found = errors(apply(name, scalar, native(scalar), x), exact)
    assert found.max() <= 3, f"{found.max()} ulp at {x[found.argmax()]!r}"


def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(11)
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL, dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(special, special))
    n = 5000
    more = random.standard_normal(n) * 3, np.abs(random.standard_normal(n)) * 2, random.integers(-9, 9, n)
    other = random.standard_normal(n) * 3, random.standard_normal(n) * 20, random.integers(-9, 9, n)
    return np.concatenate([x, *more]).astype(dtype), np.concatenate([y, *other]).astype(dtype)


@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum", "mod", "floordiv"])
def test_two_arguments_equal_numpy(name: str, scalar: Ty) -> None:
    x, y = pairs(arithmetic.dtype(scalar))
    with np.errstate(all="ignore"):
        expected = REFERENCE[name](x, y)
    actual = apply(name, scalar, native(scalar), x, y)
    if name in ("maximum", "minimum"):  # which of two zeros wins is open in NumPy
        np.testing.assert_array_equal(actual, expected)
    else:
        assert_same_bits(actual, expected)


@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
def test_angle(scalar: Ty) -> None:
    x, y = pairs(arithmetic.dtype(scalar))
    found = errors(
        apply("arctan2", scalar, native(scalar), x, y), np.arctan2(x.astype(np.float64), y.astype(np.float64))
    )
    assert found.max() <= (0.51 if scalar == F32 else 3)


@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
def test_power(scalar: Ty) -> None:
    x, y = pairs(arithmetic.dtype(scalar))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    found = errors(apply("pow", scalar, native(scalar), x, y), exact)
    worst = 0.51 if scalar == F32 else 3
    assert found.max() <= worst, f"{found.max()} ulp at {x[found.argmax()]!r}, {y[found.argmax()]!r}"


@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_same_bits_in_every_lane_and_width(name: str, scalar: Ty) -> None:
    x, y = pairs(arithmetic.dtype(scalar))
    x, y = x[::7], y[::7]
    arrays = [x] if name in UNARY else [x, y]
    wide = apply(name, scalar, native(scalar), *arrays)
    for lanes in WIDTHS:
        assert_same_bits(apply(name, scalar, lanes, *arrays), wide)
    shifted = apply(name, scalar, native(scalar), *[np.roll(a, 1) for a in arrays])
    assert_same_bits(np.roll(shifted, -1), wide)


@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("scalar", [F32, F64], ids=str)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_plain_python_gives_the_same_bits(name: str, scalar: Ty, lanes: int) -> None:
    x, y = pairs(arithmetic.dtype(scalar))
    x, y = (np.concatenate([a[:44], a[2000::501]]) for a in (x, y))
    arrays = [x] if name in UNARY else [x, y]
    assert_same_bits(apply(name, scalar, lanes, *arrays, interpreted=True), apply(name, scalar, lanes, *arrays))


def test_closure_holds_what_is_called_once() -> None:
    functions = library.closure([("pow", F32), ("tanh", F32), ("exp", F64)])
    names = [f.name for f in functions]
    assert len(names) == len(set(names))
    assert {"pow_f32", "tanh_f32", "exp_f64", "log_f64", "exp_near_f32"} <= set(names)
    assert names.index("exp_near_f64") < names.index("exp_f64") < names.index("pow_f32")


def test_functions_exist_for_floats_and_words_of_64_bits_only() -> None:
    assert set(library.functions(I64)) == {"rotated", "threefry"}
    with pytest.raises(TypeError, match="no functions of i32"):
        library.functions(I32)
    with pytest.raises(KeyError):
        library.functions(F32)["arcsine"]
