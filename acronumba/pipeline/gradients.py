"""Compiled gradients of a specialisation.

In: a `Compiled`, and the selection of its shared tensors. Out: a `Trained`, which runs the forward and backward pass of
a mini-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acronumba.generics import Value
from acronumba.ir.types import Array0T, TensorT, TorchT, TupleT, Type, UnionT, case_slices, words
from acronumba.memory import Array, address
from acronumba.pipeline.slices import Slices
from acronumba.records import record
from acronumba.runtime.backward import Seeds
from acronumba.runtime.instances import Own
from acronumba.runtime.state import MEMORY

if TYPE_CHECKING:
    from acronumba.data.buffers import TensorMaker
    from acronumba.data.decoder import Decoder
    from acronumba.data.pack import Batch
    from acronumba.memory import Words
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.backward import BackwardExecutable, Done
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.run import Run


@record(kw_only=True, eq=False)
class ForwardAndBackward:
    """Result of the forward and backward pass of a mini-batch."""

    result: Decoder  # of results, by the numbers of instances that did not fail
    losses: Array | None  # the results, if they are scalars that are on the CPU
    failures: Mapping[int, Failure]
    crowded: Sequence[int]  # instances that did not fit into memory beside the others
    mean: bool  # whether gradients are those of the mean, not of the sum
    back: Done  # gradients of shared tensors (arrays or `RowGrad`, summed over instances) and of `asked`
    asked: Sequence[Asked]  # arrays that are packed


@record()
class Asked:
    """A packed array of an instance or shared object with a requested gradient."""

    instance: int  # number, or SHARED for a shared object
    array: Any
    data: int  # address of its data
    by_rows: bool = False  # whether its gradient is to be by rows


SHARED = -1  # instead of an instance number
_NONE = np.zeros(0, np.int64)
_NOTHING = Own([], [], [])
_SHARES = 64  # adjoints of losses that are kept


def loss_type(result: Type, aux: bool) -> Type:
    """Return the type of the loss in a result; `aux`: it is the first of a pair."""
    return result.items[0] if aux and isinstance(result, TupleT) else result


def losses_in(t: Type, given: NDArray[np.int64]) -> list[tuple[str, Words, Words]]:
    """Return the rows and value records of the losses that are tensors, by dtype.

    Other losses are Python numbers, which are constants.

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
        case TorchT():
            return losses_in(t.inner, given)
        case UnionT():
            found = []
            for tag, (case, place) in enumerate(case_slices(t)):
                mine = np.flatnonzero(given[:, 0] == tag)
                found += [(dtype, mine[rows], of) for dtype, rows, of in losses_in(case, given[mine, place])]
            return found
    return []


def own_of(run: Run, asked: Sequence[Asked]) -> Own:
    """Convert `asked` to the instance numbers of a run."""
    if not asked:
        return _NOTHING
    numbers = np.array([a.instance for a in asked], np.int64)
    instances = np.where(numbers < 0, numbers, np.searchsorted(run.ran, numbers))
    by_rows = [a.by_rows for a in asked]
    return Own(instances.tolist(), [a.data for a in asked], [a.array for a in asked], by_rows)


def executable_of(
    compiled: Compiled, device: str, wanted: Collection[int], width: int | None, params: Collection[int],
    packed: Collection[int],
) -> BackwardExecutable:  # fmt: skip
    """Return the executable of the forward and backward pass on a device: see `pipeline.link.link_backward`."""
    plan = compiled.artifacts.gradient_plan
    if device == "cpu":
        from acronumba.pipeline.link import link_backward

        return link_backward(plan, compiled.options, wanted, width, params, packed, compiled.times.progress)
    from acronumba.pipeline.link_device import link_back_device
    from acronumba.runtime.devices.names import open_device

    on = open_device(device)
    return link_back_device(plan, compiled.options, on, wanted, width, params, packed, compiled.times.progress)


def trained(
    compiled: Compiled, wanted: frozenset[int], aux: bool, params: frozenset[int] = frozenset(),
    packed: frozenset[int] = frozenset(), device: str = "cpu",
) -> Trained:  # fmt: skip
    """Return the specialisation with compiled gradients."""
    key = wanted, aux, params, packed, device
    return compiled.derivatives.compiled(key, lambda: Trained(compiled, wanted, aux, params, packed, device))


class Trained:
    """A specialisation with its backward pass.

    Parameters
    ----------
    compiled
        The specialisation.
    wanted
        Numbers of the shared tensors to differentiate by.
    aux
        Whether the result is a pair of the loss and anything else.
    params, packed
        Positional parameters, and shared objects and lists, whose arrays to differentiate by.
            device
        Where it runs.
    """

    def __init__(
        self, compiled: Compiled, wanted: frozenset[int], aux: bool, params: frozenset[int], packed: frozenset[int],
        device: str,
    ) -> None:  # fmt: skip
        self.compiled, self.loss = compiled, loss_type(compiled.program.result, aux)
        self.width = len(words(self.loss))
        self.slices = Slices()
        self._shares: dict[tuple[str, float], Array] = {}  # adjoints of losses that came last,
        self._places: tuple[Array | None, Words] = None, _NONE  # ... and the addresses of one, for each loss
        self.back = executable_of(compiled, device, wanted, self.width, params, packed)

    def run(
        self, packed: Batch, leaves: Sequence[Value], frozen: frozenset[str] = frozenset(), *,
        asked: Callable[[Run], Sequence[Asked]] = lambda run: (), tables: Collection[int] = (), mean: bool = False,
        tight: bool = False, timed: bool = False, tensors: TensorMaker | None = None,
    ) -> ForwardAndBackward:  # fmt: skip
        """Run the forward and backward pass of a mini-batch.

        Parameters
        ----------
        packed, leaves, frozen
            As for `Compiled.run`.
        asked
            From a run to the packed arrays whose gradients are asked for.
        tables
            Shared tensors whose gradients are to be by rows.
        mean
            Whether gradients are those of the mean over the instances that did not fail, if all fit into memory.
        tight
            See `Compiled.run`.
        timed
            Whether the batches of the backward pass are measured.
        tensors
            See `Compiled.decoder`.

        Raises
        ------
        MemoryError
            If the instances do not fit into memory for both passes.
        """
        compiled = self.compiled
        run = compiled.run(packed, leaves, frozen=frozen, on=self.back.forward, tight=tight)
        alone = tight and len(packed) == 1
        crowded = [k for k, failure in run.errors.items() if failure.site == MEMORY and not alone]
        mean, good = mean and not crowded, run.ran
        if run.errors:
            good = np.array([k for k in good.tolist() if k not in run.errors], np.int64)
        arrays = asked(run)
        seeds = self._seeds(run, good, 1.0 / max(len(good), 1) if mean else 1.0)
        done = self.back.gradients(run, seeds, own_of(run, arrays), tables, timed)
        self.back.forward.shared.give(run.prepared)
        failures = {k: failure for k, failure in run.errors.items() if k not in crowded}
        result = compiled.decoder(run, packed, tensors is not None, tensors=tensors)
        return ForwardAndBackward(
            result=result, losses=self._losses(run, seeds.records, done), failures=failures,
            crowded=crowded, mean=mean, back=done, asked=arrays,
        )  # fmt: skip

    def _losses(self, run: Run, records: Words, done: Done) -> Array | None:
        """Return the losses of the instances that did not fail, if they are results and scalars on the CPU."""
        t = self.compiled.program.result
        there = run.pending is not None or done.loss is not None or self.compiled.lowered.wrap is not None
        if there or not isinstance(t, TensorT) or t.shape:
            return None
        records, losses = np.ascontiguousarray(records), np.empty(len(records), t.dtype)
        self.back.library.call("read_scalars", address(records), len(records), losses.itemsize, address(losses))
        return losses

    def _seeds(self, run: Run, good: Words, share: float) -> Seeds:
        """Return the seeds of the backward pass: the losses of instances that did not fail, in order."""
        if len(good) == len(run.words) and run.all_ran and isinstance(self.loss, TensorT | Array0T):
            one = self._share(self.loss.dtype, share)
            of, places = self._places
            if of is not one or len(places) != len(good):
                places = np.full(len(good), address(one))
                self._places = one, places
            records = np.ascontiguousarray(run.words[:, self.width - 1])
            return Seeds(records=records, adjoints=places, instances=good, keep=(one,), constant=True)
        found = losses_in(self.loss, run.words[good, : self.width]) or [("float32", _NONE, _NONE)]
        keep = [self._share(dtype, share) for dtype, _, _ in found]
        _, rows, records = found[0]
        adjoint = np.empty(len(rows), np.int64)
        adjoint.fill(address(keep[0]))
        if len(found) > 1:
            adjoints = [np.full(len(rows), address(a)) for a, (_, rows, _) in zip(keep, found, strict=True)]
            rows, records, adjoint = (
                np.concatenate(x) for x in ([f[1] for f in found], [f[2] for f in found], adjoints)
            )
            order = np.argsort(rows, kind="stable")
            rows, records, adjoint = rows[order], records[order], adjoint[order]
        instances = good[rows] if run.all_ran else np.searchsorted(run.ran, good[rows])
        return Seeds(records=records, adjoints=adjoint, instances=instances, keep=keep, constant=True)

    def _share(self, dtype: str, share: float) -> Array:
        """Return an array of one adjoint."""
        key = dtype, share
        found = self._shares.get(key)
        if found is None:
            if len(self._shares) >= _SHARES:
                self._shares = {}
            found = self._shares[key] = np.array([share], dtype)
            found.flags.writeable = False
        return found
