"""Training that stays on a device: `on_device` holds parameters and the state of optimisers there.

In: parameters as `acronumba.leaves` takes them, and optimisers. Out: a block in which models on that device, gradients
and `optim` work without copies of parameters; see `runtime.devices.resident`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np

from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.memory import Array, homes
from acronumba.optim import Optimiser
from acronumba.runtime.devices.names import check_device, default_device, open_device
from acronumba.runtime.devices.resident import Resident
from acronumba.storage import leaves


class OnDevice:
    """A block in which arrays are on a device; made by `on_device`."""

    def __init__(self, device: str, arrays: Sequence[tuple[str, Array]]) -> None:
        self.device = device
        self._arrays = arrays
        self._home: Resident | None = None

    def __repr__(self) -> str:
        return f"<{len(self._arrays)} arrays on {self.device}, {'open' if self._home else 'closed'}>"

    def fetch(self) -> None:
        """Copy the arrays' current values to the CPU, where they stay read-only: to save or to look at them.

        Raises
        ------
        TypeMismatch
            If an array was written to meanwhile, which its base or another view allows. That is lost.
        """
        if self._home is None:
            raise reject("ACR715", message="the block is over", rewrite="read the arrays: they have their values")
        self._home.fetch()

    def __enter__(self) -> OnDevice:
        if self._home is not None:
            raise reject("ACR715", message="the block has begun already", rewrite="on_device(...) for each block")
        home = Resident(open_device(self.device))
        home.hold(self._arrays)
        homes.append(home)
        self._home = home
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        home, self._home = self._home, None
        assert home is not None
        try:
            home.fetch(report=error is None)
        finally:
            homes.remove(home)
            home.release()


def on_device(*values: Value, device: str | None = None) -> OnDevice:
    """Return a context in which parameters, and the state of optimisers, are on a device.

    Within the block, models on this device (`f.on("cuda")`) read the parameters there, their gradients stay there, and
    optimisers update parameters there. The arrays are stale and read-only meanwhile; they get their values back at the
    end, also if it is an exception.

    Parameters
    ----------
    *values
        Parameters, with contiguous arrays of float32 or float64, and optimisers. The state of other optimisers is put
        there at their first update.
    device : str, optional
        "cuda", "cuda:1" or "simulator"; default: ``ACRONUMBA_DEVICE``, or else "cuda".

    Raises
    ------
    ValueMismatch
        If the device does not exist.
    TypeMismatch
        If an array cannot be on it, or is on a device already.

    Examples
    --------
    >>> with on_device(p, opt) as there:  # doctest: +SKIP
    ...     for trees, labels in draws:
    ...         value, grads = step.batch(trees, labels, p=p)
    ...         opt.update(p, grads)
    """
    named = default_device() if device is None else device
    name = check_device("cuda" if device is None and named == "cpu" else named)
    if name == "cpu":
        raise reject("ACR705", message="parameters are on the CPU anyway", seen=repr(device),
                     rewrite='on_device(..., device="cuda")')  # fmt: skip
    found: dict[int, tuple[str, Array]] = {}
    for k, value in enumerate(values):
        before = f"{type(value).__name__}." if isinstance(value, Optimiser) else f"{k}." if len(values) > 1 else ""
        for path, array in leaves(value.state if isinstance(value, Optimiser) else value):
            if np.size(array):
                found.setdefault(id(array), (before + path, array))
    return OnDevice(name, list(found.values()))
