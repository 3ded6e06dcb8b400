"""The compiled program and inputs of a traced run, so that a `Trace` can record it again with other options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acronumba.memory import Array

if TYPE_CHECKING:
    from acronumba.config import Options
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A mini-batch with its specialisation."""

    compiled: Compiled
    instances: int
    record: Callable[[Options, TraceData], TraceData]  # the trace with other options, from that with its own
    sites: Callable[[TraceData], Array | None]  # source position of each node, see `Compiled.sites`
