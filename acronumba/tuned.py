"""What `acronumba tune` has found on this processor: read once per process, never needed, of no effect on any bit.

In: the folder of compiled code (`emit.cache`), which is private and says for each file whether it is what was written.
Out: a `Table`, and the options that a mini-batch of a model runs with. What is not understood counts as not there.
A process reads the table when its first model runs; one that is written later counts in the processes that start then.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from acronumba.config import VERSION, Options
from acronumba.emit import cache
from acronumba.emit.target import Target, host
from acronumba.strategy import DEFAULT, Figures, Strategy

FORMAT = 1
_FILE = "tuned.json"
_LARGEST = 1 << 26  # bytes of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A strategy that was tried for a number of instances."""

    name: str
    estimated: float  # times the default's, by the cost model
    ratio: float | None = None  # times the default's, measured; None: the estimate was reason enough to leave it
    low: float | None = None  # on fresh turns: the true ratio lies between these in 19 of 20 measurements
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What suits mini-batches of so many instances, up to `most`."""

    most: int | None  # instances; None: any number
    measured: int  # instances of the mini-batch that was measured
    name: str  # of what was chosen; "default"
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of `Strategy` that differ from the default
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Everything that was found."""

    figures: Figures | None = None
    models: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)  # by `model_key`, growing


_EMPTY = Table()


def key() -> str:
    """Return the name of this processor's table."""
    target = host()
    return "tuned" + hashlib.sha256(repr((FORMAT, VERSION, target)).encode()).hexdigest()[:40]


def read() -> Table:
    """Return the table, empty if there is none."""
    files = cache.read(key()) or {}
    try:
        return _table(json.loads(files.get(_FILE, b"{}")[:_LARGEST]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Table()


def write(table: Table) -> None:
    """Put a table in the place of the one there is."""
    cache.discard(key())
    cache.build(key(), {_FILE: json.dumps(dataclasses.asdict(table), indent=1).encode()})
    forget()


def change(changed: Callable[[Table], Table]) -> None:
    """Put what a function makes of the table in its place, after other processes that do so at once."""
    with cache.turn(key()):
        write(changed(read()))


def remove() -> bool:
    """Remove the table; return whether there was one."""
    there = cache.read(key()) is not None
    cache.discard(key())
    forget()
    return there


def options_for(fn: FunctionType, options: Options, instances: int) -> Options:
    """Return the options that a mini-batch of so many instances runs with: the same object where nothing was found."""
    if options.strategy is not None or (known := _known()) is _EMPTY:
        return options
    found = choice_for(fn, instances)
    return _with(options, known.figures, tuple(found.changes.items()) if found is not None else ())


def choice_for(fn: FunctionType, instances: int) -> Choice | None:
    """Return what was chosen for mini-batches of a model of so many instances, if it was tuned."""
    models = _known().models
    choices = models.get(model_key(fn), ()) if models else ()
    return next((c for c in choices if c.most is None or instances <= c.most), None)


@functools.lru_cache(maxsize=1024)
def model_key(fn: FunctionType) -> str:
    """Return what names a model in a table: its function, by name and source."""
    try:
        source = inspect.getsource(fn)
    except (OSError, TypeError):
        source = fn.__code__.co_code.hex()
    return f"{fn.__qualname__}-{hashlib.sha256(source.encode()).hexdigest()[:24]}"


_latest: list[tuple[Target, Table]] = []  # what this process has read, and of which processor


def _known() -> Table:
    """Return the table that this process knows."""
    target = host()
    if not _latest or _latest[0][0] is not target:
        found = read()
        _latest[:] = [(target, _EMPTY if found == _EMPTY else found)]
    return _latest[0][1]


def forget() -> None:
    """Read the table again when a model runs next."""
    _latest.clear()


@functools.lru_cache(maxsize=256)
def _with(options: Options, figures: Figures | None, changes: tuple[tuple[str, Any], ...]) -> Options:
    strategy = Strategy(**{"figures": figures, **dict(changes)})
    return options if strategy == DEFAULT else dataclasses.replace(options, strategy=strategy)


def _table(data: Any) -> Table:
    """Return a table as it was written.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        If it is none.
    """
    figures = data.get("figures")
    choices = {str(name): tuple(map(_choice, found)) for name, found in data.get("models", {}).items()}
    return Table(figures=None if figures is None else Figures(**figures), models=choices)


def _choice(data: Any) -> Choice:
    tried = tuple(Tried(**one) for one in data["tried"])
    changes = dict(data["changes"])
    most = [] if data["most"] is None else [data["most"]]
    if changes.keys() & {"figures"} or not all(map(_is_number, (*most, data["measured"]))):
        raise ValueError("no choice")
    Strategy(**changes)
    if not all(isinstance(t.name, str) and all(map(_is_number, _numbers(t))) for t in tried):
        raise ValueError("no trial")
    return Choice(**{**data, "name": str(data["name"]), "changes": changes, "tried": tried})


def _numbers(t: Tried) -> list[Any]:
    return [x for x in (t.estimated, t.ratio, t.low, t.high) if x is not None]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x < float("inf")


def lines_of(fn: FunctionType, instances: int) -> tuple[str, ...]:
    """Return what people who ask about a model are told: what was tried, and what it was worth."""
    found = choice_for(fn, instances)
    if found is None:
        return ()
    most = "any number of" if found.most is None else f"up to {found.most:,}"
    out = [f"{most} instances (measured with {found.measured:,}): {found.name}"]
    for t in found.tried:
        text = f"{t.name}: estimated {t.estimated:.2f} times the default"
        if t.ratio is not None:
            text += f", measured {t.ratio:.3f}"
        if t.low is not None and t.high is not None:
            text += f" ({t.low:.3f} to {t.high:.3f})"
        out.append(text)
    return tuple(out)
