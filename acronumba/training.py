"""Helpers for hand-written training loops: progress, early stopping, curves, and checkpoints.

The loop is the user's: a mini-batch, `value_and_grad.batch`, `optim`. A `Watch` counts its steps and shows them; a
`checkpoint` holds the complete state of the loop, and `resume` continues with the same bits.

>>> from acronumba import training
>>> watch = training.Watch(steps=3, patience=2)
>>> with watch:
...     while not watch.over:
...         watch.took(1 / (1 + watch.step), instances=8)
...         best = watch.tested(0.5)
step     1   loss 1        accuracy 0.5
step     2   loss 0.5      accuracy 0.5
step     3   loss 0.3333   accuracy 0.5
>>> watch.best
(1, 0.5)
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from acronumba.optim import Optimiser
from acronumba.storage import leaves, load, save, shapes
from acronumba.views.console import in_notebook
from acronumba.views.curves import Line, Panel, curves_svg, curves_text
from acronumba.views.learning import Bar, Live

__all__ = ["Epochs", "Watch", "checkpoint", "resume"]

_RECENT = 20  # steps of which the speed is shown


class Epochs:
    """The mini-batches of some epochs: each epoch is a new permutation of the instances, cut into mini-batches.

    The permutation of an epoch depends on the seed and its number alone, so a resumed loop draws what an uninterrupted
    one draws. The last mini-batch of an epoch may be smaller.

    Parameters
    ----------
    *columns : pack, array or list
        As of `Model.batch`, of one length. Mini-batches of a pack are packed already.
    batch : int
        Instances of a mini-batch.
    epochs : int
        Number of epochs.
    seed : int
        Of the permutations.
    start : int
        Number of mini-batches to skip: the steps that a resumed loop has done, `Watch.step`.

    Yields
    ------
    column, or tuple of columns if there are several

    Examples
    --------
    >>> import numpy as np
    >>> from acronumba import training
    >>> draws = training.Epochs(["a", "b", "c", "d"], np.arange(4), batch=2, epochs=2)
    >>> len(draws), [(xs, ys.tolist()) for xs, ys in draws]
    (4, [(['c', 'a'], [2, 0]), (['b', 'd'], [1, 3]), (['d', 'a'], [3, 0]), (['c', 'b'], [2, 1])])
    """

    def __init__(self, *columns: Any, batch: int, epochs: int = 1, seed: int = 0, start: int = 0) -> None:
        count = len(columns[0])
        if any(len(column) != count for column in columns):
            raise ValueError(f"the columns have {', '.join(str(len(column)) for column in columns)} instances")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        self._columns, self._batch, self._seed, self._start = columns, batch, seed, start
        self._steps = -(-count // batch)  # of an epoch
        self._last = self._steps * epochs

    def __len__(self) -> int:
        return max(0, self._last - self._start)

    def __iter__(self) -> Iterator[Any]:
        for step in range(self._start, self._last):
            epoch, k = divmod(step, self._steps)
            if k == 0 or step == self._start:
                order = np.random.default_rng([self._seed, epoch]).permutation(len(self._columns[0]))
            some = order[k * self._batch : (k + 1) * self._batch]
            drawn = tuple(
                [column[i] for i in some] if isinstance(column, list) else column[some] for column in self._columns
            )
            yield drawn if len(drawn) > 1 else drawn[0]


class Watch:
    """Counts the steps of a training loop and shows its progress.

    As a context manager it shows a bar at a terminal: steps, loss, the last measurement, instances per second, time
    left; in a notebook it shows its curves while they grow. Measurements on held-out data are also printed, a line
    each, and at the end the mean of the last losses. The first loss that is NaN or infinite is printed, and `over` is
    then true.

    Parameters
    ----------
    steps : int
        Largest number of steps.
    patience : int, optional
        Number of tests in a row without improvement after which the loop is over; by default it never is.
    measure : str
        Name of the measure on held-out data.
    lower : bool
        Whether lower values are better, as for a loss.
    show : bool
        Whether to print and to show the bar.

    Attributes
    ----------
    losses : list of float
        Of each step.
    tests : list of (int, float)
        The number of steps and the measurement after them.
    """

    def __init__(
        self, steps: int, *, patience: int | None = None, measure: str = "accuracy", lower: bool = False,
        show: bool = True,
    ) -> None:  # fmt: skip
        self.steps: int = steps
        self.patience: int | None = patience
        self.measure: str = measure
        self.lower: bool = lower
        self.show: bool = show
        self.losses: list[float] = []
        self.tests: list[tuple[int, float]] = []
        self._bar = Bar(steps)
        self._live: Live | None = None  # in a notebook
        self._ends: deque[tuple[float, int]] = deque(maxlen=_RECENT + 1)  # when a step ended, and its instances

    def __repr__(self) -> str:
        return f"<Watch: step {self.step} of {self.steps}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": curves_svg(self.panels)}

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return len(self.losses)

    @property
    def best(self) -> tuple[int, float] | None:
        """The first of the best `tests`; None if there is none. NaN is worse than any number."""
        found = [(k, v) for k, v in self.tests if v == v]
        return (min if self.lower else max)(found, key=lambda test: test[1]) if found else None

    @property
    def over(self) -> bool:
        """Whether all steps are done, the last loss is not finite, or the last tests brought no improvement."""
        if self.step >= self.steps or (self.losses and not math.isfinite(self.losses[-1])):
            return True
        since = self.best[0] if self.best else -1
        return self.patience is not None and sum(k > since for k, _ in self.tests) >= self.patience

    def took(self, loss: Any, instances: int) -> None:
        """Count a step.

        Parameters
        ----------
        loss : float
            Of its mini-batch.
        instances : int
            How many it had.
        """
        self.losses.append(float(loss))
        self._ends.append((time.perf_counter(), instances))
        if self.show:
            self._bar.show(self.step, self._told())
            if self._live is not None:
                self._live.update()
            if not math.isfinite(self.losses[-1]) and all(map(math.isfinite, self.losses[-2:-1])):
                print(f"step {self.step:5}   the loss is {self.losses[-1]}: `loss.find_nan` tells where it comes from")

    def tested(self, value: Any) -> bool:
        """Record a measurement on held-out data after this step, and print it.

        Returns
        -------
        bool
            Whether it is the best so far, so that the parameters are worth saving.
        """
        since = self.tests[-1][0] if self.tests else 0
        recent = self.losses[since:] or self.losses[-1:]
        self.tests.append((self.step, float(value)))
        self._ends.clear()  # measuring is no part of a step's time
        if self.show:
            loss = f"loss {np.mean(recent):<8.4g}" if recent else " " * 13
            print(f"step {self.step:5}   {loss} {self.measure} {self.tests[-1][1]:.4g}")
        return self.best == self.tests[-1]

    def _told(self) -> str:
        parts = [f"loss {self.losses[-1]:.3g}"]
        if self.tests:
            parts.append(f"{self.measure} {self.tests[-1][1]:.3g}")
        if len(self._ends) > 1:
            seconds = self._ends[-1][0] - self._ends[0][0]
            parts.append(f"{sum(n for _, n in list(self._ends)[1:]) / max(seconds, 1e-9):,.0f}/s")
        return "  ".join(parts)

    def __enter__(self) -> Watch:
        self._ends.clear()
        if self.show and in_notebook():
            self._live = Live(self)
        elif self.show:
            self._bar.start(self.step)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._live is not None:
            self._live.update(now=True)
            self._live = None
        tested = self.tests[-1][0] if self.tests else 0
        if self.show and error is None and self.step > tested:
            print(f"step {self.step:5}   loss {np.mean(self.losses[max(tested, self.step - _RECENT) :]):.4g}")

    @property
    def panels(self) -> list[Panel]:
        """Curves of the losses and of the measurements."""
        numbers = list(range(1, self.step + 1))
        out = [Panel(title="loss", lines=[Line(name="training", x=numbers, y=self.losses)])]
        if self.tests:
            held = Line(name="held out", x=[k for k, _ in self.tests], y=[v for _, v in self.tests])
            out.append(Panel(title=self.measure, lines=[held]))
        return out

    def curve(self, width: int = 72, height: int = 10) -> str:
        """Return the curves in plain characters, `width` columns wide and `height` lines high each."""
        return curves_text(self.panels, width, height)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write the curves to an SVG file."""
        Path(path).write_text(curves_svg(self.panels), encoding="utf-8")

    @property
    def state(self) -> dict[str, Any]:
        """The state of the watch in a checkpoint."""
        tested = np.array([v for _, v in self.tests], np.float64)
        return {
            "losses": np.array(self.losses, np.float64),
            "at": np.array([k for k, _ in self.tests], np.int64),
            "tested": tested,
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.losses = state["losses"].tolist()
        self.tests = list(zip(state["at"].tolist(), state["tested"].tolist(), strict=True))


def checkpoint(
    path: str | os.PathLike[str], params: object, opt: Optimiser, watch: Watch, rng: np.random.Generator
) -> None:
    """Write the complete state of a training loop to a safetensors file.

    The file is replaced atomically, so that it is never incomplete.

    Parameters
    ----------
    path : path
        Of the file; replaced if it exists.
    params : object
        The parameters; their trainable arrays (`acronumba.leaves`) are written.
    opt : Optimiser
        The optimiser, whose `state` is written, but not its `rate`.
    watch : Watch
        Steps, losses and tests so far.
    rng : np.random.Generator
        The generator that mini-batches and keys are drawn from.
    """
    _check(opt, watch, rng)
    if not opt.state:
        opt.begin(params)
    save(path, _parts(params, opt, watch.state, rng))


def resume(
    path: str | os.PathLike[str], params: object, opt: Optimiser, watch: Watch, rng: np.random.Generator
) -> None:
    """Restore the state of a loop from a checkpoint: the following steps have the same bits.

    Parameters
    ----------
    path : path
        Of the file.
    params, opt, watch, rng
        As given to `checkpoint`, but with any numbers; changed in place.

    Raises
    ------
    TypeMismatch, ShapeMismatch
        If the file holds other parameters, or the state of another optimiser or generator. Nothing has changed then.
    FileNotFoundError
        If the file does not exist.
    """
    _check(opt, watch, rng)
    fresh = copy.copy(opt)
    fresh.begin(params)
    there = shapes(path)
    kept = {k: np.empty(there.get(f"watch.{k}", v.shape), v.dtype) for k, v in watch.state.items()}
    found = load(path, _parts(params, fresh, kept, rng))
    for name, w in _trained(params).items():
        w[...] = found["params"][name]
    opt.state, watch.state = found["opt"], found["watch"]
    rng.bit_generator.state = _as_state(found["rng"], rng.bit_generator.state)


def _check(opt: object, watch: object, rng: object) -> None:
    """Raise `TypeError` for arguments in the wrong order, or of the wrong kind."""
    wanted = {"opt": (opt, Optimiser), "watch": (watch, Watch), "rng": (rng, np.random.Generator)}
    for name, (value, kind) in wanted.items():
        if not isinstance(value, kind):
            article = "an" if kind is Optimiser else "a"
            raise TypeError(f"{name} must be {article} {kind.__name__}, not {type(value).__name__}")


def _parts(params: object, opt: Optimiser, watch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"params": _trained(params), "opt": opt.state, "watch": watch, "rng": _as_words(rng.bit_generator.state)}


def _trained(params: object) -> dict[str, np.ndarray[Any, Any]]:
    return {name: w for name, w in leaves(params) if isinstance(w, np.ndarray)}


def _as_words(state: Any) -> dict[str, Any]:
    """Return the state of a bit generator as arrays: its ints have up to 128 bits. Its kind is a part of the names."""
    out: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            out[name] = _as_words(value)
        elif isinstance(value, int):
            out[name] = np.array([value & (2**64 - 1), value >> 64], np.uint64)
        elif not isinstance(value, str):
            out[name] = value
    return {state["bit_generator"]: out} if "bit_generator" in state else out


def _as_state(words: dict[str, Any], like: Any) -> Any:
    """Return arrays as the state of a bit generator of the kind of `like`."""
    words = words[like["bit_generator"]] if "bit_generator" in like else words
    out: dict[str, Any] = {}
    for name, value in like.items():
        if isinstance(value, dict):
            out[name] = _as_state(words[name], value)
        elif isinstance(value, int):
            low, high = (int(word) for word in words[name])
            out[name] = low | high << 64
        else:
            out[name] = value if isinstance(value, str) else words[name]
    return out
