"""How much memory there is, and how much the process has: asked at any depth of calls."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from acronumba import memory


def at_depth(n: int, fn: Callable[[], int]) -> int:
    return at_depth(n - 1, fn) if n else fn()


def frames() -> int:
    frame, n = sys._getframe(), 0
    while frame.f_back is not None:
        frame, n = frame.f_back, n + 1
    return n


@pytest.mark.parametrize("asked", [memory.resident, pytest.param(memory.available, marks=pytest.mark.long)])
def test_asked_next_to_the_recursion_limit_it_leaves_no_file_open(
    asked: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[Any] = []
    answered = rejected = 0
    free = sys.getrecursionlimit() - frames()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
        for n in range(free - 60, free + 2):
            try:
                assert at_depth(n, asked) > 0
                answered += 1
            except RecursionError:
                rejected += 1
        gc.collect()
    assert answered > 0 and rejected > 0
    assert not unraisable
