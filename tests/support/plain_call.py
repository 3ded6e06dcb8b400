"""The comparison of a model with the plain call: what it returns for each instance, and what it raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acronumba import model
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


def interpreted(f: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Fail unless the interpreter of the IR gives what the plain calls give."""
    agree(outcomes(model(f)._interpret, *columns), plain(f, *columns), close=True)


def compiled(f: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Fail unless machine code gives what the plain calls give, for all instances and for one alone."""
    wanted = plain(f, *columns)
    agree(outcomes(model(f).batch, *columns), wanted, close=True)
    agree(outcomes(model(f).batch, *[c[1:2] for c in columns]), wanted[1:2], close=True)


def simulated(f: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Fail unless the simulator of a GPU gives what the plain calls give."""
    agree(outcomes(model(f).on("simulator").batch, *columns), plain(f, *columns), close=True, single=True)


WAYS = {f.__name__: f for f in (interpreted, compiled, simulated)}


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
