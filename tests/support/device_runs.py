"""Whole mini-batches on the simulator, and a model for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from acronumba import model
from acronumba.api import check
from acronumba.api.dispatch import bind, specialise
from acronumba.api.model import Model
from acronumba.pipeline.link_device import link_device
from acronumba.runtime.devices.simulated import SimulatedDevice, simulator


class Run:
    """A mini-batch on the simulator."""

    def __init__(self, f: Model, *columns: Any, seed: int = 0, times: int = 1, **shared: Any) -> None:
        call = bind(f, columns, shared)
        compiled, values, packed = specialise(f, call)
        self.executable = link_device(compiled.plan, compiled.options, SimulatedDevice(seed))
        words, keep = compiled.shared.words(packed, values)
        for _ in range(times):
            self.run = self.executable.run(packed.roots, words, skip=packed.errors, keep=keep)
        result = compiled.decoder(self.run, packed)
        self.results = [None if k in self.run.errors else result(k) for k in range(call.count)]
        self.errors = {k: compiled.site_error(e) for k, e in self.run.errors.items()}

    @property
    def launches(self) -> int:
        return self.executable.executor.device.launches  # type: ignore[attr-defined,no-any-return]


def together(f: Model) -> Model:
    return f.with_options(persistent=True)


def same_bits(mine: list[Any], other: list[Any]) -> None:
    for a, b in zip(mine, other, strict=True):
        for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (a, b)), strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


class Batches:
    """A model on the simulator, one mini-batch after the other."""

    def __init__(self, f: Model, xs: Any, seed: int = 0, on: Any = None, **shared: Any) -> None:
        self.compiled = specialise(f, bind(f, (xs,), shared))[0]
        self.f, self.shared, self.device = f, shared, on or SimulatedDevice(seed)
        self.executable = link_device(self.compiled.plan, self.compiled.options, self.device)
        self.executor: Any = self.executable.executor
        self.packed: dict[int, Any] = {}
        self.stable = False  # whether shared values do not change

    def __call__(self, xs: Any) -> list[Any]:
        return self.results(self.start(xs))

    def start(self, xs: Any) -> Any:
        if id(xs) not in self.packed:
            _, values, packed = specialise(self.f, bind(self.f, (xs,), self.shared))
            self.packed[id(xs)] = xs, packed, self.compiled.shared.words(packed, values)
        _, packed, (words, keep) = self.packed[id(xs)]
        return self.executable.run(packed.roots, words, keep=keep, stable=self.stable), packed

    def results(self, started: Any, stay: bool = False) -> list[Any]:
        result = self.compiled.decoder(*started, stay)
        return [result(k) for k in range(len(started[1]))]


def alike(mine: Any, wanted: Any) -> None:
    for a, b in check.together(mine, wanted):
        if isinstance(a.value, np.ndarray | np.generic | float) and np.asarray(a.value).dtype.kind == "f":
            assert np.allclose(a.value, b.value, rtol=1e-4, atol=2e-5, equal_nan=True)
            assert np.asarray(a.value).dtype == np.asarray(b.value).dtype
        else:
            assert type(a.value) is type(b.value) and np.all(a.value == b.value)


@model
def chain(xs: list[np.ndarray], *, w: np.ndarray) -> np.ndarray:
    h = np.zeros(5, np.float32)
    for x in xs:
        h = np.tanh(w @ (h + x))
    return h


def weights() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)


def sequences(*lengths: int) -> list[list[np.ndarray]]:
    r = np.random.default_rng(1)
    return [[r.standard_normal(5).astype(np.float32) for _ in range(n)] for n in lengths]


@model
def until(x: np.ndarray, *, w: np.ndarray) -> tuple[int, np.ndarray]:
    n = 0
    while n < 6 and float(x.sum()) < 4.0:
        x = w @ x * 1.5 + w[0]
        n += 1
    return n, x


@model
def picked(x: np.ndarray, k: int, *, w: np.ndarray) -> np.ndarray:
    return w @ (w[k] + x * w[np.argmax(x) + k])


def in_rounds(way: Callable[[Model], Model]) -> tuple[Run, Run]:
    """Run a program with decisions one way, and launch by launch; the results must be the same."""
    w = np.abs(weights())
    xs = [np.full(5, v, np.float32) for v in (0.1, 0.01, 0.5, 2.0, 0.02)]
    apart = Run(until, xs, w=w)
    done = Run(way(until), xs, w=w, seed=1)
    same_bits(done.results, apart.results)
    for x, mine in zip(xs, done.results, strict=True):
        alike(mine, until(x, w=w))
    return done, apart


def fail_alone(way: Callable[[Model], Model]) -> None:
    """Run instances of which two fail; the others must have the same bits as launch by launch."""
    w = weights()
    columns = [np.arange(5, dtype=np.float32) - 3 * i for i in range(6)], [0, 3, -1, 0, 2, 0]
    done, apart = Run(way(picked), *columns, w=w), Run(picked, *columns, w=w)
    assert sorted(done.errors) == sorted(apart.errors) == [1, 4]
    for k in (0, 2, 3, 5):
        assert done.results[k].tobytes() == apart.results[k].tobytes()


@contextmanager
def counted() -> Iterator[dict[str, list[int]]]:
    """Collect the bytes of each copy to the device and back."""
    device, bytes_of = simulator(), {"up": [], "down": []}  # type: ignore[var-annotated]
    upload, download = device.upload, device.download

    def up(at: int, data: Any) -> None:
        bytes_of["up"].append(len(data))
        upload(at, data)

    def down(data: Any, at: int) -> None:
        bytes_of["down"].append(len(data))
        download(data, at)

    device.upload, device.download = up, down  # type: ignore[method-assign]
    try:
        yield bytes_of
    finally:
        del device.upload, device.download
