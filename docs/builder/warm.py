"""What a process imports that is forked for each lesson and each model: all that these would import."""

from __future__ import annotations

import importlib

import numba
import sphinx.cmd.build  # noqa: F401 - the main module of the process that builds

from builder import gallery, kernel  # noqa: F401

MODULES = (
    "ipykernel.kernelapp", "ipykernel.zmqshell", "acronumba.pipeline.compiled", "acronumba.pipeline.link",
    "acronumba.frontend.lower", "acronumba.data.stream", "acronumba.api.exploration", "acronumba.views.explain",
)  # fmt: skip
for name in MODULES:
    importlib.import_module(name)


@numba.njit("int64(int64)")
def _one(number: int) -> int:
    """Let Numba read its tables."""
    return number + 1
