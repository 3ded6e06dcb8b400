"""What a plain call assigns to its variables, in order, to compare with `Model.values`."""

from __future__ import annotations

import sys
from collections import defaultdict
from types import FrameType
from typing import Any

import numpy as np

from acronumba.errors import AcronumbaError, InstanceErrors
from acronumba.zoo import cells


class Seen:
    """The arrays that variables of functions hold after each line, in the order in which they came."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.arrays: dict[str, list[np.ndarray]] = defaultdict(list)
        self.last: dict[FrameType, dict[str, Any]] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        before = self.last.setdefault(frame, {name: _key(v) for name, v in frame.f_locals.items()})
        for name, v in frame.f_locals.items():
            if before.get(name) != _key(v):
                before[name] = _key(v)
                if isinstance(v, np.ndarray | np.generic):
                    self.arrays[name].append(np.array(v))
        return self


def _key(v: Any) -> Any:
    return (id(v), np.array(v).tobytes()) if isinstance(v, np.ndarray | np.generic) else id(v)


def seen(model: Any, instance: list[Any], shared: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """Return the arrays that the variables of a model's file and of `zoo.cells` held in a plain call."""
    found = Seen({model.__wrapped__.__code__.co_filename, cells.__file__})
    sys.settrace(found)
    try:
        model(*instance, **shared)
    finally:
        sys.settrace(None)
    return found.arrays


def wrong_values(
    model: Any, columns: tuple[Any, ...], shared: dict[str, Any], names: set[str] | None = None
) -> list[str]:
    """Return the differences between `values` at each variable and what plain calls assign to it.

    A variable that takes the value of another, or the result of a recursive call, is not computed by its line: so the
    values found are some of those that are assigned, in their order.
    """
    plain = [seen(model, [column[k] for column in columns], shared) for k in range(len(columns[0]))]
    wrong = []
    for name in sorted({name for found in plain for name in found} if names is None else names):
        try:
            values = model.values(*columns, at=name, **shared)
        except InstanceErrors:
            continue
        except AcronumbaError as error:
            if error.code != "ACR706":
                wrong.append(f"{name}: {error}")
            continue
        for k, found in enumerate(values):
            rest, last = iter(plain[k].get(name, ())), np.zeros((0, 0, 0))
            for value in found:
                if not _alike(value, last) and not any(_alike(value, last := other) for other in rest):
                    wrong.append(f"{name} of instance {k}: {value} is not assigned, or not in this order")
                    break
    return wrong


def _alike(value: np.ndarray, other: np.ndarray) -> bool:
    return (
        value.shape == other.shape
        and value.dtype == other.dtype
        and np.allclose(value, other, rtol=1e-3, atol=1e-4, equal_nan=True)
    )
