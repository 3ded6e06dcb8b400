"""What a process imports and compiles that is forked for each lesson and each model: all that these would."""

from __future__ import annotations

import contextlib
import importlib
from pkgutil import iter_modules

import sphinx.cmd.build  # noqa: F401 - the main module of the process that builds

from acronumba.emit.compile import load
from acronumba.runtime.engines import library
from builder import gallery, kernel  # noqa: F401

MODULES = ("ipykernel.kernelapp", "ipykernel.zmqshell")
PACKAGES = ("analysis", "api", "data", "emit", "frontend", "ir", "kernels", "pipeline", "runtime", "views")
for name in MODULES:
    importlib.import_module(name)
for name in PACKAGES:
    package = importlib.import_module(f"acronumba.{name}")
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ImportError):  # a library that it needs is not installed
            importlib.import_module(module.name)
gallery.entries()  # imports the models of the zoo

LIBRARY = load([library()])  # the code that every model runs
