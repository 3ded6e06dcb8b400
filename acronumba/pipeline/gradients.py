"""Compiled gradients of a specialisation.

In: a `Compiled`, and which of its shared tensors gradients are wanted of. Out: a `Trained`, which runs a mini-batch
there and back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.types import Array0T, TensorT, TupleT, Type, UnionT, case_slices, words
from acronumba.memory import address

if TYPE_CHECKING:
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.backward import Done, Seeds
    from acronumba.runtime.buffers import Words
    from acronumba.runtime.instances import Own
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.run import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class There:
    """What a mini-batch has come to."""

    result: Callable[[int], Any]  # of an instance that did not fail
    failures: Mapping[int, Failure]
    crowded: Sequence[int]  # instances that did not fit into memory beside the others
    mean: bool  # whether gradients are those of the mean, not of the sum
    back: Done  # gradients of shared tensors: arrays, or `RowGrad`, sums over instances; of each of `asked`
    asked: Sequence[Asked]  # arrays that are packed


@dataclass(frozen=True, slots=True)
class Asked:
    """A packed array, of an instance or of a shared object, whose gradient is wanted."""

    instance: int  # SHARED: of a shared object
    array: Any
    data: int  # address of its data
    by_rows: bool = False  # whether it is wanted by rows


SHARED = -1  # in place of the number of an instance
_NONE = np.zeros(0, np.int64)
_ALL = 1 << 40  # instances: more than there are


def loss_type(result: Type, aux: bool) -> Type:
    """Return the type of the loss in a result; `aux`: it is the first of a pair."""
    return result.items[0] if aux and isinstance(result, TupleT) else result


def losses_in(t: Type, given: NDArray[np.int64]) -> list[tuple[str, Words, Words]]:
    """Return the losses that are tensors: of each dtype which rows they are in, and their value records.

    Others are numbers of Python, which are constants.

    Parameters
    ----------
    t
        The type of the loss.
    given
        int64[n, words]: of each instance.
    """
    match t:
        case TensorT() | Array0T():
            return [(t.dtype, np.arange(len(given)), given[:, -1])]
        case UnionT():
            found = []
            for tag, (case, place) in enumerate(case_slices(t)):
                mine = np.flatnonzero(given[:, 0] == tag)
                found += [(dtype, mine[rows], of) for dtype, rows, of in losses_in(case, given[mine, place])]
            return found
    return []


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
    by_rows = [a.by_rows for a in asked]
    return Own(instances.tolist(), [a.data for a in asked], [a.array for a in asked], by_rows)


def trained(
    compiled: Compiled, wanted: frozenset[int], aux: bool, params: frozenset[int] = frozenset(),
    packed: frozenset[int] = frozenset(),
) -> Trained:  # fmt: skip
    """Return the specialisation with compiled gradients."""
    key = wanted, aux, params, packed
    with compiled.lock:
        if key not in compiled.derived:
            with compiled.timed("compile"):
                compiled.derived[key] = Trained(compiled, wanted, aux, params, packed)
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

        self.compiled, self.loss = compiled, loss_type(compiled.program.result, aux)
        self.width = len(words(self.loss))
        self.most = _ALL  # instances that fit into memory at once, about
        self.calm, self.patience = 0, 2  # mini-batches that have run since that changed, and how many there shall be
        self.back = link_back(compiled.plan, compiled.options, wanted, self.width, params, packed)

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
            Whether gradients are those of the mean over the instances that did not fail, if all fit into memory.
        """
        from acronumba.pipeline.compiled import memory_refused
        from acronumba.runtime.state import MEMORY

        compiled = self.compiled
        run = compiled.run(packed, leaves, frozen=frozen, on=self.back.forward)
        alone = len(run.ran) == 1
        crowded = [k for k, failure in run.errors.items() if failure.site == MEMORY and not alone]
        mean = mean and not crowded
        good = np.array([k for k in run.ran.tolist() if k not in run.errors], np.int64)
        arrays = asked(run)
        seeds = self._seeds(run, good, 1.0 / max(len(good), 1) if mean else 1.0)
        with memory_refused():
            done = self.back.gradients(run, seeds, own_of(run, arrays), tables)
        self.back.forward.shared.give(run.prepared)
        failures = {k: failure for k, failure in run.errors.items() if k not in crowded}
        return There(
            result=compiled.decoder(run, packed), failures=failures, crowded=crowded, mean=mean, back=done, asked=arrays
        )

    def pieces(self, count: int) -> list[Words]:
        """Return which of so many instances run at once: as many as have found memory lately."""
        return np.array_split(np.arange(count), max(-(-count // self.most), 1))

    def went(self, fitted: int) -> None:
        """Note how many instances at once fitted into memory at worst: after some mini-batches more are tried again."""
        if fitted < self.most:
            self.most, self.calm, self.patience = fitted, 0, 2 * self.patience
        elif self.most < _ALL:
            self.calm += 1
            if self.calm == self.patience:
                self.most, self.calm = 2 * self.most, 0

    def _seeds(self, run: Run, good: Words, share: float) -> Seeds:
        """Return where the way back begins: the losses of instances that did not fail, in their order."""
        from acronumba.runtime.backward import Seeds

        found = losses_in(self.loss, run.words[good, : self.width])
        adjoints = [np.full(1, share, dtype) for dtype, _, _ in found]
        rows = np.concatenate([rows for _, rows, _ in found] or [_NONE])
        order = np.argsort(rows, kind="stable")
        of = [np.full(len(rows), address(adjoint)) for adjoint, (_, rows, _) in zip(adjoints, found, strict=True)]
        return Seeds(
            records=np.concatenate([records for _, _, records in found] or [_NONE])[order],
            adjoints=np.concatenate(of or [_NONE])[order],
            instances=np.searchsorted(run.ran, good[rows[order]]),
            keep=adjoints,
        )
