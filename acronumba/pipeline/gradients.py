"""Compiled gradients of a specialisation.

In: a `Compiled`, and which of its shared tensors gradients are wanted of. Out: a `Trained`, which runs a mini-batch
there and back; or why there is none (`missing`): then gradients are those of the reference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.ir.nodes import Program
from acronumba.ir.types import Array0T, TensorT, TupleT, Type, words
from acronumba.memory import address

if TYPE_CHECKING:
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.backward import Done
    from acronumba.runtime.instances import Own
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.run import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class There:
    """What a mini-batch has come to."""

    result: Callable[[int], Any]  # of an instance that did not fail
    failures: Mapping[int, Failure]
    back: Done  # gradients of shared tensors: arrays, or `RowGrad`, sums over instances; of each of `asked`
    asked: Sequence[Asked]  # arrays that are packed


@dataclass(frozen=True, slots=True)
class Asked:
    """A packed array, of an instance or of a shared object, whose gradient is wanted."""

    instance: int  # SHARED: of a shared object
    array: Any
    data: int  # address of its data


SHARED = -1  # in place of the number of an instance


def missing(result: Type, aux: bool) -> str:
    """Return why the way back of a plan cannot be compiled yet; nothing if it can."""
    if place_of_loss(result, aux) < 0:
        return "the loss is a number of Python on some paths"
    return ""


def place_of_loss(result: Type, aux: bool) -> int:
    """Return which word of the result refers to the loss, a tensor; -1 if it may be a number."""
    loss = result.items[0] if aux and isinstance(result, TupleT) else result
    if isinstance(loss, TensorT):
        return 0
    return len(words(loss)) - 1 if isinstance(loss, Array0T) else -1


@functools.cache
def _nothing() -> Own:
    from acronumba.runtime.instances import Own

    return Own([], [], [])


def own_of(run: Run, asked: Sequence[Asked]) -> Own:
    """Return what is asked of a run, with its numbers of instances."""
    from acronumba.runtime.instances import Own

    if not asked:
        return _nothing()
    numbers = np.array([a.instance for a in asked], np.int64)
    instances = np.where(numbers < 0, numbers, np.searchsorted(run.ran, numbers))
    return Own(instances.tolist(), [a.data for a in asked], [a.array for a in asked])


def trained(
    compiled: Compiled, wanted: frozenset[int], aux: bool, params: frozenset[int] = frozenset(),
    packed: frozenset[int] = frozenset(),
) -> Trained | None:  # fmt: skip
    """Return the specialisation with compiled gradients; None where there are none yet."""
    key = wanted, aux, params, packed
    with compiled.lock:
        if key not in compiled.derived:
            why = missing(compiled.program.result, aux)
            with compiled.timed("compile"):
                compiled.derived[key] = None if why else Trained(compiled, wanted, aux, params, packed)
        return compiled.derived[key]  # type: ignore[no-any-return]


class Trained:
    """A specialisation with its way back.

    Parameters
    ----------
    compiled
        The specialisation.
    wanted
        Numbers of shared tensors.
    aux
        Whether its result is a pair, of which the first is the loss.
    params, packed
        Positional parameters, and shared objects and lists, whose arrays are wanted.
    """

    def __init__(
        self, compiled: Compiled, wanted: frozenset[int], aux: bool, params: frozenset[int], packed: frozenset[int]
    ) -> None:
        from acronumba.pipeline.link import link_back

        self.compiled, self.place = compiled, place_of_loss(compiled.program.result, aux)
        self.back = link_back(compiled.plan, compiled.options, wanted, self.place + 1, params, packed)

    def run(
        self, packed: Batch, leaves: Sequence[Any], frozen: frozenset[str] = frozenset(), *,
        asked: Callable[[Run], Sequence[Asked]] = lambda run: (), tables: Collection[int] = (), mean: bool = False,
    ) -> There:  # fmt: skip
        """Run a mini-batch there and back.

        Parameters
        ----------
        packed, leaves, frozen
            As for `Compiled.run`.
        asked
            Returns of a run which packed arrays' gradients are wanted.
        tables
            Shared tensors whose gradients are wanted by rows.
        mean
            Whether gradients are those of the mean over the instances that did not fail.
        """
        from acronumba.runtime.backward import Seeds

        compiled = self.compiled
        run = compiled.run(packed, leaves, frozen=frozen, on=self.back.forward)
        good = [int(k) for k in run.ran if k not in run.errors]
        adjoint = np.full(1, 1.0 / max(len(good), 1) if mean else 1.0, self._dtype(compiled.program))
        seeds = Seeds(
            records=run.words[good, self.place],
            adjoints=np.full(len(good), address(adjoint)),
            instances=np.searchsorted(run.ran, good),
        )
        arrays = asked(run)
        done = self.back.gradients(run, seeds, own_of(run, arrays), tables)
        self.back.forward.shared.give(run.prepared)
        return There(result=compiled.decoder(run, packed), failures=run.errors, back=done, asked=arrays)

    def _dtype(self, program: Program) -> str:
        loss = program.result.items[0] if isinstance(program.result, TupleT) else program.result
        loss = loss.scalar if isinstance(loss, Array0T) else loss
        assert isinstance(loss, TensorT)
        return loss.dtype
