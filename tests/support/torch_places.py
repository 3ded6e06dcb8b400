"""Modules on the simulator: tensors of the CPU that count as its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from acronumba.runtime.devices.simulated import simulator
from acronumba.torch import devices

SIMULATOR = "simulator"


class OnSimulator(devices.Places):
    """Tensors with these storages are on the simulator."""

    def __init__(self) -> None:
        self.there: dict[int, Any] = {}  # storages, by their addresses
        self.down: list[tuple[int, ...]] = []  # shapes of tensors that were copied to the CPU,
        self.up: list[tuple[int, ...]] = []  # ... and to the simulator

    def name(self, tensor: Any) -> str:
        if tensor.device.type != "cpu":
            return str(tensor.device.type)
        return SIMULATOR if tensor.untyped_storage().data_ptr() in self.there else "cpu"

    def runs(self, name: str) -> bool:
        return name == SIMULATOR

    def device(self, name: str) -> Any:
        """Return the device that models see: a GPU."""
        return torch.device("cuda:0" if name == SIMULATOR else name)

    def shown(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        if (
            storage.nbytes()
            and storage.data_ptr() not in self.there
            and storage.data_ptr() not in simulator().allocated
        ):
            whole = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            simulator().memory.add(whole)
            self.there[storage.data_ptr()] = whole

    def empty(self, name: str, dtype: Any, shape: Any) -> Any:
        made = torch.full(tuple(shape), 0, dtype=devices.foreign.Library.dtypes[dtype.name])
        if made.is_floating_point():
            made.fill_(float("nan"))
        self.shown(made)
        return made

    def blank(self, shape: Any, dtype: Any) -> Any:
        return np.full(shape, np.nan if dtype.kind == "f" else 1, dtype)

    def moved(self, tensor: Any, name: str) -> Any:
        (self.down if name == "cpu" else self.up).append(tuple(tensor.shape))
        made = tensor.clone()
        if name != "cpu":
            self.shown(made)
        return made

    def begin(self, name: str, device: Any) -> None: ...
    def end(self, name: str, device: Any) -> None: ...

    def is_there(self, tensor: Any) -> bool:
        """Whether a tensor is in memory of the simulator."""
        at, known = tensor.data_ptr(), simulator().allocated
        return any(start <= at < start + len(a) for start, a in [*known.items(), *self.there.items()])

    def put(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return a module, whose tensors are on the simulator from now on."""
        for tensor in (*module.parameters(), *module.buffers()):
            self.shown(tensor)
        return module


@contextmanager
def on_simulator() -> Iterator[OnSimulator]:
    before, devices.places = devices.places, OnSimulator()
    try:
        yield devices.places
    finally:
        for whole in devices.places.there.values():
            simulator().memory.remove(whole)
        devices.places = before
