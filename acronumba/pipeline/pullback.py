"""Compiled pullbacks of a specialisation: from adjoints of results to adjoints of parameters.

In: a `Compiled`, and the selection of gradients. Out: a `Pullback`, which runs a mini-batch and, any number of times,
its backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.data.row_grad import Gradient
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.memory import Array, address
from acronumba.pipeline.gradients import Asked, executable_of, own_of
from acronumba.pipeline.slices import memory_rejected

if TYPE_CHECKING:
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.run import Run
    from acronumba.runtime.shared import Prepared


def pullback(
    compiled: Compiled, wanted: frozenset[int], params: frozenset[int], packed: frozenset[int], device: str = "cpu"
) -> Pullback:
    """Return the specialisation with compiled pullbacks."""
    key = "pullback", wanted, params, packed, device
    return compiled.derivatives.compiled(key, lambda: Pullback(compiled, wanted, params, packed, device))


class Pullback:
    """A specialisation with its backward pass from all results.

    Parameters
    ----------
    compiled
        The specialisation.
    wanted, params, packed
        Numbers of shared tensors, of positional parameters, and of shared objects and lists, whose arrays to
        differentiate by.
    device
        Where it runs.
    """

    def __init__(
        self, compiled: Compiled, wanted: frozenset[int], params: frozenset[int], packed: frozenset[int], device: str
    ) -> None:
        self.compiled = compiled
        self.back = executable_of(compiled, device, wanted, None, params, packed)

    def run(self, packed: Batch, leaves: Sequence[Value], frozen: frozenset[str]) -> Run:
        """Run a mini-batch and keep the state of its backward pass. See `Compiled.run`."""
        from acronumba.runtime.state import MEMORY

        with memory_rejected():
            run = self.compiled.run(packed, leaves, frozen=frozen, on=self.back.forward)
        if (many := sum(failure.site == MEMORY for failure in run.errors.values())) > 1:
            raise reject("ACR704", seen=f"{many} of {len(run.ran)} instances did not fit in memory beside the others")
        return run

    def give(self, prepared: Prepared) -> None:
        """Let later mini-batches use the packed weights of a run whose backward pass runs no more."""
        self.back.forward.shared.give(prepared)

    def pullback(
        self, run: Run, seeds: Sequence[tuple[int, int, Array]], asked: Sequence[Asked]
    ) -> tuple[Mapping[int, Gradient], Sequence[Array | None]]:
        """Run the backward pass.

        Parameters
        ----------
        run
            The result of `run`.
        seeds
            Instances, value records of their results, and adjoints.
        asked
            Packed arrays whose gradients are asked for.

        Returns
        -------
        tuple
            The gradients of shared tensors by number, without those that no result with an adjoint depends on; and for
            each array of `asked` its gradient, or None.
        """
        from acronumba.runtime.backward import Seeds

        arrays = [np.ascontiguousarray(g) for _, _, g in seeds]
        where = Seeds(
            records=np.array([record for _, record, _ in seeds], np.int64),
            adjoints=np.array(list(map(address, arrays)), np.int64),
            instances=np.searchsorted(run.ran, np.array([k for k, _, _ in seeds], np.int64)),
            keep=arrays,
        )
        with memory_rejected():
            done = self.back.gradients(run, where, own_of(run, asked))
        return {n: g for n, g in done.shared.items() if n in done.reached}, done.own
