"""Names of devices: which exist, which is requested, and how a device is opened."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

from acronumba.config import variable
from acronumba.errors.codes import reject

if TYPE_CHECKING:
    from acronumba.runtime.devices.device import Device


def open_device(name: str) -> Device:
    """Return the device of a name that `check_device` has passed."""
    if name == "simulator":
        from acronumba.runtime.devices.simulated import simulator

        return simulator()
    from acronumba.runtime.devices.driver import gpu

    return gpu(int(name.partition(":")[2] or 0))


def default_device() -> str:
    """Return ACRONUMBA_DEVICE (default "cpu")."""
    name = variable("ACRONUMBA_DEVICE")
    return check_device(name) if name else "cpu"


def check_device(device: str) -> str:
    """Return the name of a device; raise if this machine has none of that name."""
    if device == "cpu":
        return device
    if device == "simulator":
        if importlib.util.find_spec("greenlet") is None:
            raise reject(
                "ACR705", message="the simulator needs greenlet", seen=repr(device), rewrite="pip install greenlet"
            )
        return device
    if re.fullmatch(r"cuda(:\d+)?", str(device)):
        from acronumba.runtime.devices.driver import missing

        number = int(device.partition(":")[2] or 0)
        if why := missing(number):
            raise reject("ACR705", message=f"GPU kernels cannot run: {why}", seen=repr(device), rewrite='.on("cpu")')
        return f"cuda:{number}" if number else "cuda"
    there = "cpu, cuda, cuda:1 and so on, simulator"
    raise reject(
        "ACR705", message=f"unknown device; available devices: {there}", seen=repr(device), rewrite='.on("cpu")'
    )
