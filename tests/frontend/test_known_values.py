"""Texts, slices and settings that are known when a model is compiled are the plain call's, in three ways."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_known_values import CASES
from tests.support.plain_call import WAYS

IDS = [f.__name__ for f, _ in CASES]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave NumPy's settings as they were."""
    with np.errstate(), np.printoptions(), warnings.catch_warnings():
        yield


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=4, simulated=10))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def warning_as_error(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return n + 1


def warnings_kept(n):
    with warnings.catch_warnings(record=True) as found:
        return len(found)


def errors_raised(n):
    np.seterr(all="raise")
    return n


def settings_read(n):
    old = np.seterr(all="ignore")
    return len(old)


def in_a_loop(n):
    idx = [slice(None), slice(None)]
    for k in range(n):
        idx[0] = k
    return np.ones((3, 3))[tuple(idx)]


def two_names(n):
    a = [slice(None), slice(None)]
    b = a
    a[0] = 1
    return np.ones((3, 3))[tuple(b)]


REJECTED = [
    (warning_as_error, "ACR102"), (warnings_kept, "ACR102"), (errors_raised, "ACR102"), (settings_read, "ACR"),
    (in_a_loop, "ACR308"), (two_names, "ACR308"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "code"), REJECTED, ids=lambda v: getattr(v, "__name__", None))
def test_what_is_not_known_is_rejected(f: Any, code: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1, 2])
    assert not isinstance(caught.value, InstanceErrors)
    assert str(caught.value).startswith(code)


def split_in_heads(x, *, w, heads):
    width = w.shape[0] // heads  # before anything needs `heads` when the model is compiled
    y = np.reshape(x @ w.T, (x.shape[0], heads, w.shape[0] // heads))
    return np.transpose(y, (1, 0, 2)).sum(axis=1) * width


@pytest.mark.parametrize("heads", [2, 4])
def test_a_shared_int_that_one_use_makes_a_constant_is_one_everywhere(heads: int) -> None:
    m, w = model(split_in_heads), np.arange(64.0).reshape(8, 8)
    xs = [np.arange(8.0 * n).reshape(n, 8) for n in (1, 3, 2)]
    for h in (heads, 8):  # another value is another program
        for x, found in zip(xs, m.batch(xs, w=w, heads=h), strict=True):
            assert np.array_equal(found, split_in_heads(x, w=w, heads=h))
        compiled = m._compiled((xs,), {"w": w, "heads": h})
        assert all(p.path != "heads" for p in compiled.program.shared)
        assert all(s.dims <= 1 for s in compiled.plan.kernels)  # the number of rows alone
