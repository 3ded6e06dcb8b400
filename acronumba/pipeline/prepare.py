"""Ahead-of-time compilation of code shared by all models: for container images, courses, and first runs on a machine.

Out: the libraries of the run time, of gradients, of parameter updates and of packed data, and the tiles of matrix
products. `prepare` puts their machine code into the disk cache, where every model finds it.
"""

from __future__ import annotations

from collections.abc import Callable

from acronumba.data.stream import reader
from acronumba.emit import target
from acronumba.emit.compile import Deferred, load
from acronumba.kernels import sums
from acronumba.kernels.tiles import TileKey, deferred, tallest, widest
from acronumba.runtime import updates, watched
from acronumba.runtime.backward import library_of_gradients
from acronumba.runtime.engines import library

DTYPES = ("float32", "float64")


def modules() -> list[Deferred]:
    """Return the modules that models share."""
    on = target.host()
    tiles = (
        deferred([TileKey(rows + 1, vectors, dtype) for rows in range(tallest(vectors, on))], on)
        for dtype in DTYPES
        for vectors in range(1, widest(on) + 1)
    )
    per_dtype = (f(dtype, on) for dtype in DTYPES for f in (sums.deferred, updates.deferred))
    return [library(), library_of_gradients(), reader(), watched.deferred(), *per_dtype, *tiles]


def prepare(progress: Callable[[str, int, int], None] | None = None) -> tuple[int, int]:
    """Compile the modules that models share; return the number of modules, and of those compiled now.

    Parameters
    ----------
    progress : callable, optional
        Called before each module with its name, its number and the number of modules.
    """
    made = load(modules(), progress)
    return len(made), sum(not m.cached for m in made)
