"""The forward pass of `vjp`, which keeps the state of its backward pass.

In: a call, and the `Selection` of gradients. Out: results, failures, and `Forward.pullback`. The instances of
one type run together by compiled code if it has a backward pass, else one at a time by the reference.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from acronumba.api.cotangents import adjoints
from acronumba.api.dispatch import exception_of, specialise
from acronumba.api.gradients import Lossy, alike
from acronumba.api.structures import float_arrays
from acronumba.api.wanted import Selection, Totals
from acronumba.data.row_grad import Gradient, total
from acronumba.data.tensors import FoundArray, InMemory, arrays_in
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.interpret import InstanceFailure
from acronumba.ir.types import ArrayT
from acronumba.ir.values import unflatten
from acronumba.memory import Array, homes
from acronumba.pipeline.pullback import Pullback, pullback

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.api.specialisations import Fit
    from acronumba.data.pack import Batch
    from acronumba.ir.tape import Recorder, Tape
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.gradients import Asked
    from acronumba.runtime.run import Run

Cotangents: TypeAlias = Mapping[int, Mapping[int, Gradient]]  # of each instance, by the ids of the arrays of its result


class ForwardPart(Protocol):
    """Instances that ran together: by compiled code, or by the reference."""

    def pullback(self, cotangents: Cotangents) -> tuple[dict[int, Totals], Totals]:
        """Return the gradients of each instance, and the sums of gradients that are not known per instance.

        `cotangents`: per instance that has not failed, by the ids of the arrays of its result.
        """

    def reads_cotangents(self, given: Iterable[tuple[int, int]]) -> bool:
        """Whether `pullback` looks into cotangents, of these instances and arrays; else only kernels do."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class _Compiled:
    """Instances that ran as a mini-batch of compiled code."""

    wanted: Selection
    passes: Pullback
    run: Run
    found: Mapping[int, Sequence[FoundArray]]  # by instance: the arrays of its result
    place: Mapping[int, int]  # by instance: its number in the run
    references: InMemory
    asked: Sequence[Asked]
    tensors: Mapping[int, int]  # numbers of shared tensors, and ids of their arrays

    def pullback(self, cotangents: Cotangents) -> tuple[dict[int, Totals], Totals]:
        """Return the gradients of each instance, and the sums of gradients that are not known per instance."""
        of: dict[int, Gradient] = {}
        seeds: list[tuple[int, int, Array]] = []
        mine: dict[int, dict[int, Value]] = {}
        for k, found in self.found.items():
            pairs, unread = adjoints(found, cotangents[k], self.references)
            seeds += [(self.place[k], word, g) for word, g in pairs]
            mine[k] = _handed_on(unread, self.wanted, k, of)
        gradients, own = self.passes.pullback(self.run, seeds, self.asked)
        number = {place: k for k, place in self.place.items()}
        for a, x in zip(self.asked, own, strict=True):
            if x is not None and a.instance >= 0:
                mine[number[a.instance]][id(a.array)] = x
            elif x is not None:
                of[id(a.array)] = total([of[id(a.array)], x] if id(a.array) in of else [x])
        for n, g in gradients.items():
            key = self.tensors[n]
            of[key] = total([of[key], g]) if key in of else g
        totals = {k: Totals(of={}, own=of_instance) for k, of_instance in mine.items()}
        return totals, Totals(of=of, own={})

    def reads_cotangents(self, given: Iterable[tuple[int, int]]) -> bool:
        """Whether some are of arrays that the model wrote into, or that the program does not read.

        Without shared values on the device, kernels read copies of cotangents.
        """
        if self.run.prepared.forms is None or self.run.pending is None:
            return True
        mine = {(k, id(a.array)) for k, found in self.found.items() for a in found if not isinstance(a.type, ArrayT)}
        return not mine.issuperset(key for key in given if key[0] in self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taped:
    """Instances that ran by the reference."""

    wanted: Selection
    recorder: Recorder
    tapes: Mapping[int, tuple[Tape, Sequence[FoundArray]]]  # by instance, with the arrays of its result

    def reads_cotangents(self, given: Iterable[tuple[int, int]]) -> bool:
        return True

    def pullback(self, cotangents: Cotangents) -> tuple[dict[int, Totals], Totals]:
        """Return the gradients of each instance, and those of shared arrays in unread cotangents."""
        totals, wanted = {}, self.wanted
        of: dict[int, Gradient] = {}
        for k, (tape, found) in self.tapes.items():
            seeds: dict[int, Gradient] = {}
            pairs, unread = adjoints(found, cotangents[k], self.recorder)
            for word, g in pairs:
                n = tape.number(word)
                seeds[n] = seeds[n] + g if n in seeds else g
            found_of = wanted.totals(tape, seeds, k, wide=False)
            totals[k] = replace(found_of, own={**found_of.own, **_handed_on(unread, wanted, k, of)})
        return totals, Totals(of=of, own={})


def _records_given(
    packed: Batch, run: Run, leaves: int, tensors: Container[int], wanted: bool
) -> Callable[[int], bool]:
    """Return whether a value record is that of an array without a gradient: shared, or of an instance unless `wanted`.

    `leaves`: the number of shared values; `tensors`: numbers of those with gradients.
    """
    table = run.prepared.table[:leaves].tolist()
    shared = {record for n, record in enumerate(table) if n not in tensors}
    heaps = [] if wanted else [(heap.base, heap.base + heap.words.nbytes) for heap in packed.heaps]
    return lambda record: record in shared or any(start <= record < end for start, end in heaps)


def _handed_on(
    unread: Mapping[int, Gradient], wanted: Selection, k: int, of: dict[int, Gradient]
) -> dict[int, Gradient]:
    """Return the gradients of arrays of an instance that the program does not read; add those of shared arrays to `of`.

    The gradient of such an array is its cotangent in the result, in `unread`; all maps are by id.
    """
    named = wanted.own(k) if unread else set()
    for key in (unread.keys() & wanted.arrays.keys()) - named:
        of[key] = total([of[key], unread[key]]) if key in of else unread[key]
    return {key: g for key, g in unread.items() if key in named}


class Forward:
    """The forward pass of a mini-batch, which can be followed by a backward pass.

    Parameters
    ----------
    model
        The model to run.
    call
        The arguments.
    wanted
        The selection of gradients.
    together
        Whether to use compiled code where it has a backward pass.
    mark
        Checksum of a shared array, to detect changes.
    fit
        The specialisation that fits the call, with its packed instances, if it is known.
    """

    def __init__(
        self, model: Lossy, call: Call, wanted: Selection, together: bool, mark: Callable[[Array], int] | None = None,
        fit: Fit | None = None,
    ) -> None:  # fmt: skip
        self.call, self.wanted, self._mark = call, wanted, mark or checksum
        self.results: list[Value] = [None] * call.count
        self.errors: dict[int, BaseException] = {}
        self.parts: list[ForwardPart] = []
        self.arrays: dict[int, list[Value]] = {}  # by instance: the float arrays of its result
        self.made: list[Value] = []  # the tensors of PyTorch that were made for results
        self._model = model
        self.there = model.there
        self._marks: dict[int, tuple[str, Array, int]] = {}  # by id: path, shared array and checksum
        for members, of in alike(model, call, together, self.errors, fit):
            some = call if len(members) == call.count else call.some(members)
            compiled, leaves, packed = of or specialise(model, some, together)
            mine = wanted.of(compiled, leaves, packed, call)
            mine.check(compiled, leaves, None)
            mine.check_apart(compiled, leaves, call, members)
            if packed is not None:
                tensors = mine.tensors(compiled, leaves)
                given = frozenset(mine.columns), mine.packed(compiled, leaves), model.device
                passes = pullback(compiled, frozenset(tensors), *given)
                run = passes.run(packed, leaves, some.frozen)
                self._together(members, mine, passes, packed, run, tensors, leaves)
            else:
                self._apart(members, mine, compiled, leaves)
            for param, leaf in zip(compiled.program.shared, leaves, strict=False):
                for a in float_arrays(leaf):
                    self._marks[id(a)] = param.path, a, self._mark(a)

    def _together(
        self, members: Sequence[int], wanted: Selection, passes: Pullback, packed: Batch, run: Run,
        tensors: Mapping[int, int], leaves: Sequence[Value],
    ) -> None:  # fmt: skip
        compiled = passes.compiled
        stay = self.there is not None
        decode = compiled.decoder(run, packed, stay, made=self.made, tensors=self.there)
        heap = run.buffers.chunks[: run.buffers.used]
        references = InMemory(run.reader(), compiled.packer.layouts, compiled.program.layouts, heap)
        found, place, constant = {}, {}, wanted.constant(compiled, leaves)
        given = _records_given(packed, run, len(leaves), tensors, bool(wanted.columns))
        for j, k in enumerate(members):
            place[k] = j
            if j in packed.errors:
                self.errors[k] = packed.errors[j]
            elif j in run.errors:
                failure = compiled.site_error(run.errors[j])
                self.errors[k] = exception_of(
                    self._model, wanted.instance(self.call, k), self.call, failure, soon=compiled.artifacts.forks
                )
        good = [j for j, k in enumerate(members) if k not in self.errors]
        rows = run.words[good].tolist()
        for j, result, row in zip(good, decode.some(good), rows, strict=True):
            k = members[j]
            self.results[k] = result
            found[k] = arrays_in(result, compiled.program.result, row, references)
            apart = {row[n] for n in constant}.difference(w for n, w in enumerate(row) if n not in constant)
            self.arrays[k] = [a.array for a in found[k] if a.words[-1] not in apart and not given(a.words[-1])]
        asked = [a for a in wanted.asked(compiled, packed, members) if a.instance not in run.errors]
        asked += wanted.asked_of_shared(compiled, leaves, run)
        part = _Compiled(
            wanted=wanted, passes=passes, run=run, found=found, place=place, references=references, asked=asked,
            tensors=tensors,
        )  # fmt: skip
        weakref.finalize(part, passes.give, run.prepared).atexit = False
        self.parts.append(part)

    def _apart(self, members: Sequence[int], wanted: Selection, compiled: Compiled, leaves: Sequence[Value]) -> None:
        recorder = compiled.recorder_of_tapes(leaves)
        tapes = {}
        for k in members:
            instance = wanted.instance(self.call, k)
            try:
                values, tape = recorder.record(instance)
            except InstanceFailure as failure:
                self.errors[k] = exception_of(self._model, instance, self.call, compiled.site_error(failure))
                continue
            self.results[k] = unflatten(values, compiled.program.result)
            found = arrays_in(self.results[k], compiled.program.result, values, recorder)
            self.arrays[k] = [a.array for a in found]
            recorder.note_given()
            recorder.fix(word for one in found for word in one.words)
            tapes[k] = tape, found
        self.parts.append(_Taped(wanted=wanted, recorder=recorder, tapes=tapes))

    def pullback(self, cotangents: Cotangents, one: bool) -> Any:
        """Return gradients in their structures; `cotangents`: per instance, by the ids of the arrays of its result."""
        totals, sums = self.gradients(cotangents)
        return self.wanted.structures(totals, sums, 1.0, wide=False, one=one)

    def gradients(self, cotangents: Cotangents) -> tuple[dict[int, Totals], list[Totals]]:
        """Return gradients by the ids of arrays: of each instance, and sums that are not known per instance."""
        for path, array, mark in self._marks.values():
            if self._mark(array) != mark:
                raise reject("ACR706", message=f"`{path}` has changed since the results were computed",
                             rewrite="call the pullback before updating the parameters")  # fmt: skip
        totals: dict[int, Totals] = {}
        sums: list[Totals] = []
        for part in self.parts:
            own, together = part.pullback(cotangents)
            totals |= own
            sums.append(together)
        return totals, sums


def checksum(array: Array) -> int:
    """Return the CRC-32 of an array's bytes, and how often what is on its device was updated, to detect changes."""
    updates = sum(home.version for home in homes if home.holds(array))
    return updates << 32 | zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
