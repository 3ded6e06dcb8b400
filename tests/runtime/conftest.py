"""What tests of the runtime share."""

from __future__ import annotations

from typing import Any

import pytest

from acronumba.kernels.cuda import compat, cubins, generate
from tests.support.gpu_driver import Driver


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver for which nothing need be compiled: the machine code of a function is its name."""
    made = Driver()

    def machines(code: generate.CudaCode, capability: Any, suffix: str) -> list[compat.Machine]:
        assert (capability, suffix) == ((9, 0), "a")
        (handles,) = made.device.load([code])
        made.handles |= {f"entry of {e}".encode(): h for e, h in zip(code.entries, handles, strict=True)}
        return [compat.Machine(e.encode(), f"entry of {e}", "", 1, 0, 0, 0) for e in code.entries]

    monkeypatch.setattr(cubins, "machines", machines)
    return made
