"""Parts of `acronumba bench` that are in a checkout of the repository alone: they are not installed.

In: the name of a module in `benchmarks/acronumba_bench`. Out: the module, or None in an installed copy.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NEEDED = "a checkout of the repository: benchmarks/acronumba_bench is not installed"


def find(name: str) -> ModuleType | None:
    """Import a module of the checkout that this copy of the package is in; return None if it is in none."""
    if not (FOLDER / "acronumba_bench").is_dir():
        return None
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(f"acronumba_bench.{name}")
