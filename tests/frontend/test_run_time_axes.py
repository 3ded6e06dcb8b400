"""Expressions over axes of run-time extent: NumPy's results, with extents 0 and 1 too, and their gradients."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from tests.support.chosen import one_in
from tests.support.everywhere import difference
from tests.support.expressions_over_rows import EXPRESSIONS, NO_SLOPE, source
from tests.support.modules import import_file
from tests.support.plain_call import outcomes, plain
from tests.support.routes import BOUNDS, errors_by_route, slope_error

NAMES = list(EXPRESSIONS)
SMOOTH = [name for name in NAMES if name not in NO_SLOPE]
EXTENTS = (0, 1, 2, 5, 17)
WEIGHT = np.array([[1, -2, 0.5, 1], [0, 1, 0, 0.5], [2, 0, 1, 0], [0, 0, -1, 1]])  # the first row changes no digits


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    path = tmp_path_factory.mktemp("expressions") / "expressions.py"
    path.write_text(source(), encoding="utf-8")
    return import_file(path)


def model_of(models: types.ModuleType, name: str) -> Any:
    return getattr(models, f"f{NAMES.index(name)}")


def given(dtype: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 4)).astype(dtype) for n in EXTENTS]
    places = [rng.integers(0, max(n, 1), min(n, 3)) for n in EXTENTS]
    k, b = rng.standard_normal((5, 4, 3)), rng.standard_normal(5)
    return xs, places, {name: v.astype(dtype) for name, v in (("w", WEIGHT), ("k", k), ("b", b))}


def check(models: types.ModuleType, name: str, way: str) -> None:
    f, (xs, places, shared) = model_of(models, name), given(np.float32)
    with np.errstate(all="ignore"):
        wanted = plain(f.__wrapped__, xs, places, **shared)
    run = {"interpreted": f._interpret, "compiled": f.batch, "simulated": f.on("simulator").batch}[way]
    for n, mine, theirs in zip(EXTENTS, outcomes(run, xs, places, **shared), wanted, strict=True):
        assert not difference(mine, theirs, ulps=256), n
    assert not all(isinstance(r, Exception) for r in wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_values(models: types.ModuleType, name: str) -> None:
    check(models, name, "interpreted")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", one_in(15, one_in(2, NAMES, mark="slow")))
def test_values_of_machine_code(models: types.ModuleType, name: str) -> None:
    check(models, name, "compiled")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", one_in(10, one_in(4, NAMES, mark="slow")))
def test_values_on_the_simulator(models: types.ModuleType, name: str) -> None:
    check(models, name, "simulated")


def instances(f: Any) -> tuple[list[list[Any]], dict[str, Any]]:
    """Return those that do not fail, in float64."""
    xs, places, shared = given(np.float64)
    good = [not isinstance(r, Exception) for r in plain(f.__wrapped__, xs, places, **shared)]
    return [[v for v, g in zip(column, good, strict=True) if g] for column in (xs, places)], shared


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", one_in(3, SMOOTH))
def test_slopes(models: types.ModuleType, name: str) -> None:
    """The definition of the gradient of the weights against central differences, of one instance."""
    f = model_of(models, name)
    columns, shared = instances(f)
    found = slope_error(f, columns, shared, min(3, len(columns[0])) - 1)
    assert found is not None and found < BOUNDS["differences"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", one_in(50, one_in(6, SMOOTH, mark="slow")))
def test_gradients_by_all_routes(models: types.ModuleType, name: str) -> None:
    f = model_of(models, name)
    columns, shared = instances(f)
    errors, many = errors_by_route(f, columns, shared, {"threads": 2, "schedule": "depth", "fuse": False})
    assert many and errors and all(v <= BOUNDS[k] for k, v in errors.items()), errors
