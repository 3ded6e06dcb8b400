"""The functions, methods and modules of PyTorch, written as models are; importing this package adds their rows."""

from __future__ import annotations

import importlib
import pkgutil

for _file in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_file.name)

importlib.import_module(f"{__name__}.in_place").derive()
