"""Memory that holds NaN until something is written to it, so that whatever reads it too early is seen.

Each byte is 255: floats are NaN, integers -1, bools neither. Arenas are filled whenever a run takes one, also those
that an earlier run has used; places that a run uses again are filled as with ACRONUMBA_VERIFY=2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import acronumba.api.model  # noqa: F401  (all that allocates is imported)
from acronumba import memory
from acronumba.runtime import buffers, driver

Patch = Callable[[Any, str, Any], None]


def poison(patch: Patch = setattr) -> None:
    """Let all memory of this process be poisoned that a mini-batch computes in; `patch` as `setattr`."""
    plain, take, init = memory.aligned, buffers.ArenaPool.take, buffers.ArenaPool.__init__

    def aligned(size: int, zero: bool = False) -> Any:
        out = plain(size, zero)
        if not zero:
            out.fill(255)
        return out

    def taken(pool: Any, *args: Any, **kwargs: Any) -> Any:
        arena = take(pool, *args, **kwargs)
        arena.block.fill(255)
        return arena

    def made(pool: Any, wanted: int, allocate: Any = aligned, *args: Any, **kwargs: Any) -> None:
        init(pool, wanted, aligned if allocate is plain else allocate, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("acronumba") and getattr(module, "aligned", None) is plain:
            patch(module, "aligned", aligned)
    patch(buffers.ArenaPool, "take", taken)
    patch(buffers.ArenaPool, "__init__", made)
    patch(driver.Processor, "allocate", staticmethod(aligned))
    patch(driver, "verify_level", lambda: 2)
