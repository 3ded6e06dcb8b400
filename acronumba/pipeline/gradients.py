"""Compiled gradients of a specialisation.

In: a `Compiled`, and which of its shared tensors gradients are wanted of. Out: a `Trained`, which runs a mini-batch
there and back; or why there is none (`missing`): then gradients are those of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.nodes import Program
from acronumba.ir.types import Array0T, TensorT, TupleT, Type, words
from acronumba.memory import address

if TYPE_CHECKING:
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.recorded import Failure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class There:
    """What a mini-batch has come to."""

    result: Callable[[int], Any]  # of an instance that did not fail
    failures: Mapping[int, Failure]
    gradients: Mapping[int, NDArray[Any]]  # by the number of the shared tensor: sums over instances


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


def trained(compiled: Compiled, wanted: frozenset[int], aux: bool) -> Trained | None:
    """Return the specialisation with compiled gradients of shared tensors; None where there are none yet."""
    key = wanted, aux
    with compiled.lock:
        if key not in compiled.derived:
            why = missing(compiled.program.result, aux)
            with compiled.timed("compile"):
                compiled.derived[key] = None if why else Trained(compiled, wanted, aux)
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
    """

    def __init__(self, compiled: Compiled, wanted: frozenset[int], aux: bool) -> None:
        from acronumba.pipeline.link import link_back

        self.compiled, self.place = compiled, place_of_loss(compiled.program.result, aux)
        self.back = link_back(compiled.plan, compiled.options, wanted, self.place + 1)

    def run(
        self, packed: Batch, leaves: Sequence[Any], frozen: frozenset[str] = frozenset(), *, mean: bool = False
    ) -> There:
        """Run a mini-batch there and back.

        Parameters
        ----------
        packed, leaves, frozen
            As for `Compiled.run`.
        mean
            Whether gradients are those of the mean over the instances that did not fail.
        """
        compiled = self.compiled
        run = compiled.run(packed, leaves, frozen=frozen, on=self.back.forward)
        good = [int(k) for k in run.ran if k not in run.errors]
        adjoint = np.full(1, 1.0 / max(len(good), 1) if mean else 1.0, self._dtype(compiled.program))
        return There(
            result=compiled.decoder(run, packed),
            failures=run.errors,
            gradients=self.back.gradients(run, run.words[good, self.place], np.full(len(good), address(adjoint))),
        )

    def _dtype(self, program: Program) -> str:
        loss = program.result.items[0] if isinstance(program.result, TupleT) else program.result
        loss = loss.scalar if isinstance(loss, Array0T) else loss
        assert isinstance(loss, TensorT)
        return loss.dtype
