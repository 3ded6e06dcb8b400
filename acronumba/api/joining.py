"""Continuous batching: instances join and leave the runs of a model between execution rounds.

In: instances with shared values that do not change, between two rounds. Out: after each round, the finished instances,
with the result or exception that `Model.batch` gives. Each specialisation and each version of the shared values has its
own run (`pipeline.joined`). A full run admits no more instances, and ends when its last instance has left. Runs take
rounds in turns. Instances that cannot join, or whose run breaks, are left to `Model.batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from acronumba.api.arguments import Call
from acronumba.api.dispatch import bind, compile_for, existing, failures, specialise
from acronumba.api.model import Model
from acronumba.api.specialisations import Fit
from acronumba.generics import Value
from acronumba.pipeline.joined import Joined, joinable

_SLOTS = 4096  # of a run


@dataclass(slots=True, eq=False)
class Member:
    """An instance that takes part."""

    calls: Call  # of all instances that joined together with this one
    place: int  # its index in `calls`
    run: Joined
    number: int  # in the run
    since: int  # rounds of the run before it joined

    @property
    def call(self) -> Call:
        """The call of this instance alone."""
        return self.calls.some([self.place])

    @property
    def rounds(self) -> int:
        """Number of rounds that the instance has taken part in."""
        return self.run.rounds - self.since


@dataclass(frozen=True, slots=True)
class Gone:
    """An instance that has left its run."""

    member: Member
    result: Value
    error: BaseException | None  # instead of a result
    broken: bool = False  # whether the run cannot go on: the instance is left to `Model.batch`


class Flow:
    """The current runs of a model.

    Parameters
    ----------
    model : Model
    slots : int
        Capacity of a run, in instances.

    Attributes
    ----------
    bell : int64[1]
        If not 0, `round` returns after the present round. May be set while a round runs.
    """

    def __init__(self, model: Model[..., Any], slots: int = _SLOTS) -> None:
        self._model, self._slots = model, slots
        self.bell = np.ones(1, np.int64)
        self._runs: dict[Joined, dict[int, Member]] = {}  # members by number; the first run is next
        self._bound: tuple[object, dict[str, Value]] = (None, {})  # the user's shared values, and the bound ones
        self.epochs = 0  # number of runs begun
        self.rounds = 0  # number of rounds of all runs

    def __len__(self) -> int:
        """Number of instances in runs."""
        return sum(map(len, self._runs.values()))

    @property
    def bytes(self) -> int:
        """Bytes of tensors that the runs hold."""
        return sum(run.epoch.bytes for run in self._runs)

    def waits(self, instances: Sequence[tuple[Value, ...]], shared: Mapping[str, Value]) -> bool:
        """Whether a specialisation of the model can be joined; one is compiled for `instances` if none exists."""
        if self._model.device != "cpu":
            return False
        if not self._model._entries:
            try:
                specialise(self._model, self._call(instances, shared), packed=False)
            except Exception:
                return False
        return any(map(joinable, tuple(self._model._entries)))

    def join(self, instances: Sequence[tuple[Value, ...]], shared: Mapping[str, Value]) -> list[Member | None]:
        """Add instances from the next round on; None for an instance that cannot join, see `Model.batch`.

        Parameters
        ----------
        instances
            A value for each positional parameter.
        shared
            All shared values, which must not change. Values other than the last ones start new runs.
        """
        out: list[Member | None] = []
        for found in self._fits(instances, shared):
            out += [None] if found is None else self._join(*found)
        return out

    def withdraw(self, member: Member) -> None:
        """Let an instance leave without a result."""
        members = self._runs.get(member.run, {})
        if members.pop(member.number, None) is not None:
            member.run.withdraw(member.number)
            self._close(member.run)

    def round(self) -> list[Gone]:
        """Run a round of the next run, or several while the bell is 0 and none is done; return the instances done."""
        run = next(iter(self._runs))
        members = self._runs[run] = self._runs.pop(run)
        before = run.rounds
        try:
            left = run.round(len(self._runs) == 1)
        except Exception:
            del self._runs[run]
            return [Gone(member, None, None, broken=True) for member in members.values()]
        self.rounds += run.rounds - before
        gone = []
        for number, result, failure in left:
            member = members.pop(number)
            gone.append(Gone(member, result, None if failure is None else self._error(member, failure)))
        self._close(run)
        return gone

    def _error(self, member: Member, failure: Any) -> BaseException:
        try:
            return failures(self._model, member.call, member.run.compiled, {0: failure})[0]
        except BaseException as error:
            return error

    def _close(self, run: Joined) -> None:
        """End a run if nobody takes part in it."""
        if not self._runs[run]:
            del self._runs[run]
            run.epoch.close()

    def _call(self, instances: Sequence[tuple[Value, ...]], shared: Mapping[str, Value]) -> Call:
        known, values = self._bound
        columns = map(list, zip(*instances, strict=True))
        call = bind(self._model, [*columns], values if known is shared else shared)
        self._bound = shared, dict(call.shared)
        return replace(call, frozen=frozenset(call.shared))

    def _fits(
        self, instances: Sequence[tuple[Value, ...]], shared: Mapping[str, Value]
    ) -> list[tuple[Call, Fit] | None]:
        """Return calls of all or of single instances, in order, with specialisations; None for an instance without."""
        try:
            call = self._call(instances, shared)
            found = [self._kept(call)]
            if found[0] is None and call.count > 1:  # existing specialisations may fit each instance
                found = [self._kept(call.some([k])) for k in range(call.count)]
            if None in found:
                found = [(call, compile_for(self._model, call))]
        except Exception:
            return [None] if len(instances) == 1 else [one for x in instances for one in self._fits([x], shared)]
        return found

    def _kept(self, call: Call) -> tuple[Call, Fit] | None:
        fit = existing(self._model, call)
        return None if fit is None else (call, fit)

    def _join(self, call: Call, fit: Fit) -> list[Member | None]:
        out: list[Member | None] = [None] * call.count
        packed = fit.packed
        if packed is None or not joinable(fit.compiled):
            return out
        left = [k for k in range(call.count) if k not in packed.errors]
        while left:
            run = self._run(fit)
            some, left = left[: run.epoch.room], left[run.epoch.room :]
            for k, number in zip(some, run.join(packed, some), strict=True):
                out[k] = self._runs[run][number] = Member(call, k, run, number, run.rounds)
        return out

    def _run(self, fit: Fit) -> Joined:
        """Return a run that has room for an instance."""
        for run in self._runs:
            if run.matches(fit.compiled, fit.leaves) and run.epoch.room > 0:
                return run
        run = Joined(fit.compiled, fit.leaves, self._slots, self.bell)
        self._runs[run] = {}
        self.epochs += 1
        return run
