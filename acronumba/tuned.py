"""The results of `acronumba tune` on this CPU, read once per process; they do not affect the bits of results.

In: the folder of compiled code (`emit.cache`), which is private and checks each file for corruption. Out: a `Table`,
and the options that a mini-batch of a model runs with. An entry that cannot be parsed counts as missing. A process
reads the table when its first model runs; a table that is written later is for processes that start later.
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
    """A measured strategy for a number of instances."""

    name: str
    estimated: float  # times the default's, by the cost model
    ratio: float | None = None  # times the default's, measured; None: the estimate was reason enough to leave it
    low: float | None = None  # on fresh turns: the true ratio lies between these in 19 of 20 measurements
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The best strategy for mini-batches of up to `most` instances."""

    most: int | None  # instances; None: any number
    measured: int  # instances of the mini-batch that was measured
    name: str  # name of the chosen strategy; "default"
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of `Strategy` that differ from the default
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The results of tuning for one CPU."""

    figures: Figures | None = None
    models: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)  # by `model_key`, growing


_EMPTY = Table()


def key() -> str:
    """Return the cache key of this CPU's table."""
    target = host()
    return "tuned" + hashlib.sha256(repr((FORMAT, VERSION, target)).encode()).hexdigest()[:40]


def read() -> Table:
    """Return the table; an empty one if none can be read."""
    files = cache.read(key()) or {}
    try:
        return _table(json.loads(files.get(_FILE, b"{}")[:_LARGEST]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Table()


def write(table: Table) -> None:
    """Replace the stored table."""
    cache.discard(key())
    cache.build(key(), {_FILE: json.dumps(dataclasses.asdict(table), indent=1).encode()})
    forget()


def change(changed: Callable[[Table], Table]) -> None:
    """Replace the stored table by `changed(table)`, under a lock between processes."""
    with cache.turn(key()):
        write(changed(read()))


def remove() -> bool:
    """Remove the stored table; return whether it existed."""
    there = cache.read(key()) is not None
    cache.discard(key())
    forget()
    return there


def options_for(fn: FunctionType, options: Options, instances: int) -> Options:
    """Return the options for a mini-batch of `instances` instances; the same object without tuning results."""
    if options.strategy is not None or (known := table()) is _EMPTY:
        return options
    found = choice_for(fn, instances)
    return _with(options, known.figures, tuple(found.changes.items()) if found is not None else ())


def choice_for(fn: FunctionType, instances: int) -> Choice | None:
    """Return the choice for mini-batches of `instances` instances of a model, or None if it was not tuned."""
    models = table().models
    choices = models.get(model_key(fn), ()) if models else ()
    return next((c for c in choices if c.most is None or instances <= c.most), None)


@functools.lru_cache(maxsize=1024)
def model_key(fn: FunctionType) -> str:
    """Return the key of a model in a table: the name of its function and a hash of its source."""
    try:
        source = inspect.getsource(fn)
    except (OSError, TypeError):
        source = fn.__code__.co_code.hex()
    return f"{fn.__qualname__}-{hashlib.sha256(source.encode()).hexdigest()[:24]}"


_latest: list[tuple[Target, Table]] = []  # the table that this process has read, with its CPU


def table() -> Table:
    """Return the table of this process, read on first use."""
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
    """Parse a table from JSON data.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        If the data is no table.
    """
    figures = data.get("figures")
    choices = {str(name): tuple(map(_choice, found)) for name, found in data.get("models", {}).items()}
    return Table(figures=None if figures is None else Figures(**figures), models=choices)


def _choice(data: Any) -> Choice:
    tried = tuple(Tried(**one) for one in data["tried"])
    changes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data["changes"].items()}
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
    """Return the lines that describe a model's tuning: the strategies tried, and their times."""
    found = choice_for(fn, instances)
    if found is None:
        return ()
    most = "any number of" if found.most is None else f"up to {found.most:,}"
    out = [f"{most} instances (measured with {found.measured:,}): {found.name}"]
    for t in found.tried:
        text = f"{t.name}: estimated to take {t.estimated:.2f} times as long as the default"
        if t.ratio is not None:
            text += f", measured {t.ratio:.3f} times"
        if t.low is not None and t.high is not None:
            text += f" ({t.low:.3f} to {t.high:.3f})"
        out.append(text)
    return tuple(out)
