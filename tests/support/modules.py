"""Modules that a test writes, or finds beside the package."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path


def import_file(path: Path, name: str = "") -> types.ModuleType:
    """Import a file, under its own name if no other is given; a file that is imported again is read again."""
    name = name or path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
