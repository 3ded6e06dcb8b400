"""Execution of a mini-batch: as a whole, or in slices if memory is too small for all instances at once.

In: packed instances and their specialisation. Out: a `Running`, with decoders of the results, failures, and the trace.
Results of a piece are copied out of its memory, which is reused for the next one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.data.decoder import Decoder
from acronumba.generics import Value
from acronumba.runtime.recorded import Failure
from acronumba.runtime.state import MEMORY
from acronumba.runtime.trace import STAGES, TIMED, TraceData, empty_trace, joined

if TYPE_CHECKING:
    from acronumba.data.buffers import TensorMaker
    from acronumba.data.pack import Batch
    from acronumba.memory import Words
    from acronumba.pipeline.compiled import Compiled


class Running:
    """The execution of a mini-batch.

    Parameters
    ----------
    compiled, packed, leaves, frozen, device
        As for `Compiled.run`.
    timed : bool
        Whether to record and time, for `trace`.

    Attributes
    ----------
    failures : dict of int to Failure
        By instance.
    """

    def __init__(
        self, compiled: Compiled, packed: Batch, leaves: Sequence[Value], frozen: frozenset[str], device: str,
        timed: bool, tensors: TensorMaker | None = None,
    ) -> None:  # fmt: skip
        self._tensors = tensors
        self._compiled, self._packed, self._leaves = compiled, packed, leaves
        self._frozen, self._device, self._timed = frozen, device, timed
        self.failures: dict[int, Failure] = {}
        self._whole: tuple[Decoder, Decoder | None] | None = None  # if all ran at once
        self._values: dict[int, Value] = {}  # results, of instances that ran in pieces
        self._there: dict[int, tuple[Decoder, int]] = {}  # per instance: its piece on the device, and index
        self._traces: list[tuple[TraceData, Words]] = []
        for k in compiled.slices.run(len(packed), self._piece):
            self.failures[k] = Failure(site=MEMORY)

    def _piece(self, places: Words, tight: bool) -> Sequence[int]:
        compiled, whole = self._compiled, len(places) == len(self._packed)
        packed = self._packed if whole else self._packed.some(places)
        begin = time.perf_counter()
        run = compiled.run(packed, self._leaves, self._frozen, self._timed, self._device, tight=tight)
        numbers = range(len(places)) if whole else places.tolist()
        crowded: set[int] = set()
        if run.errors:
            if not (tight and len(places) == 1):
                crowded = {k for k, failure in run.errors.items() if failure.site == MEMORY}
            self.failures |= {numbers[k]: failure for k, failure in run.errors.items() if k not in crowded}
        if self._timed:
            total = time.perf_counter() - begin - run.noted
            seconds = {**dict.fromkeys(STAGES[1:], 0.0), **run.seconds, "total": total}
            self._traces.append((replace(run.trace(), seconds=seconds), places))
        there = compiled.decoder(run, packed, stay=True) if run.pending is not None else None
        if whole and not crowded:
            own = self._tensors
            self._whole = compiled.decoder(run, packed, stay=own is not None, tensors=own), there
            return ()
        good = [k for k in range(len(places)) if k not in run.errors and k not in packed.errors]
        found = compiled.decoder(run, packed, copies=True, tensors=self._tensors).some(good)
        self._values |= zip([numbers[k] for k in good], found, strict=True)
        if there is None:
            run.close()
        else:
            self._there |= {numbers[k]: (there, k) for k in good}
        return sorted(crowded)

    def decoders(self) -> tuple[Decoder, Decoder | None]:
        """Return the decoder of results of instances without a failure, and that of results on the device, or None."""
        if self._whole is not None:
            return self._whole
        there = self._there
        return (
            Decoder.of(self._values.__getitem__),
            Decoder.of(lambda k: there[k][0].one(there[k][1])) if there else None,
        )

    def trace(self, before: Mapping[str, float]) -> TraceData:
        """Return the trace; `before`: the seconds of the preceding stages."""
        data = joined(self._traces) if self._traces else empty_trace()
        seconds = {**dict.fromkeys(TIMED, 0.0), **data.seconds}
        return replace(data, seconds=seconds | {**before, "total": sum(before.values()) + seconds["total"]})
