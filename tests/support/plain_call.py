"""The comparison of a model with the plain call: what it returns for each instance, and what it raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acronumba.api.check import compare
from acronumba.api.results import equal
from acronumba.errors import InstanceErrors


def plain(f: Callable[..., Any], *columns: Sequence[Any], **shared: Any) -> list[Any]:
    """Return the results of the plain calls, or the exceptions that they raise."""
    out: list[Any] = []
    for instance in zip(*columns, strict=True):
        try:
            out.append(f(*instance, **shared))
        except Exception as error:
            out.append(error)
    return out


def outcomes(run: Callable[..., Any], *columns: Sequence[Any], **shared: Any) -> list[Any]:
    """Return the results of a mini-batch, or the exceptions of its instances."""
    try:
        return list(run(*columns, **shared))
    except InstanceErrors as failed:
        return [failed.errors.get(k, result) for k, result in enumerate(failed.results)]


def agree(got: Sequence[Any], wanted: Sequence[Any], *, close: bool = False, single: bool = False) -> None:
    """Fail unless results are equal, and exceptions those of the plain calls with the same text.

    With `close`, floats may differ as `acronumba.check` allows (`single`: where one operation may be in float32).
    """
    assert len(got) == len(wanted)
    for k, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if isinstance(theirs, Exception):
            assert type(mine) is type(theirs) and str(mine) == str(theirs), (k, mine, theirs)
        elif not equal(mine, theirs):
            assert close and compare(mine, theirs, theirs, single=single)[0] in ("equal", "close"), (k, mine, theirs)
