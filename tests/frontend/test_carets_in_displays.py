"""An iterator that is stored in a display is rejected with the caret under the iterator."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from acronumba import Unsupported, model


def in_a_tuple(xs: list[int]) -> Any:
    return (
        1,
        itertools.chain(xs, xs))  # fmt: skip


def in_a_dict(xs: list[int]) -> Any:
    return {
        "a": 1,
        "b": itertools.chain(xs, xs)}  # fmt: skip


def in_a_list(xs: list[int]) -> Any:
    return [
        itertools.chain(xs, xs)]  # fmt: skip


@pytest.mark.parametrize("fn", [in_a_tuple, in_a_dict, in_a_list])
def test_the_caret_is_under_the_iterator(fn: Any) -> None:
    with pytest.raises(Unsupported) as info:
        model(fn).batch([[1, 2]])
    error = info.value
    assert error.code == "ACR114" and "^" * len("itertools.chain(xs, xs)") in str(error)
    assert "^" * (len("itertools.chain(xs, xs)") + 1) not in str(error)
