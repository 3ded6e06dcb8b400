"""A simulated device whose clock counts launches."""

from __future__ import annotations

from typing import Any

from acronumba.runtime.devices.simulated import SimulatedDevice


class Clocked(SimulatedDevice):
    """A device whose clock counts launches."""

    timed = True
    graphs = False

    def __init__(self, seconds: float, loading: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds  # of a cooperative launch; another takes one
        self.loading = loading  # seconds more of the first one
        self.cooperations = 0

    def _cooperate(self, *args: Any) -> None:
        self.cooperations += 1
        super()._cooperate(*args)

    def now(self) -> float:
        loading = self.loading if self.cooperations else 0.0
        return loading + self.launches + self.cooperations * (self.seconds - 1)
