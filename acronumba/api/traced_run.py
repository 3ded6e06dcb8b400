"""What ran: a trace keeps it, to tell more than it has recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acronumba.config import Options
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A mini-batch, with what it was compiled to."""

    compiled: Compiled
    instances: int
    record: Callable[[Options, TraceData], TraceData]  # with other options, from what was recorded with its own
    sites: Callable[[TraceData], NDArray[Any] | None]  # where each node was recorded, see `Compiled.sites`
