"""The last mini-batch of a model whose arguments were all packed, to find its specialisation again in a few checks.

In: the arguments of `Model.batch`. Out: the `Call` and the `Fit` that `bind` and `existing` return. These depend on
the function and its signature, the device, the options after tuning, the specialisations in the order of their use, the
code and the outer variables that the compiler has read, the shared values, and the columns. The guard of the
specialisation compares the code, signature included, and the outer variables. Packs and snapshots never change, so it
is enough that they are the same objects; other packs are bound as ever. All else is compared here, at each call. Where
anything differs, the general way is taken.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from acronumba.api.arguments import Call
from acronumba.api.columns import is_packed
from acronumba.api.snapshot import Snapshot
from acronumba.api.specialisations import Fit
from acronumba.config import Options, without_refactoring
from acronumba.generics import Value
from acronumba.records import record
from acronumba.tuned import Table, options_for, table

if TYPE_CHECKING:
    from acronumba.pipeline.compiled import Compiled


class Model(Protocol):
    """The parts of a model that are compared."""

    _known: Known | None

    @property
    def tensors(self) -> bool: ...
    @property
    def device(self) -> str: ...
    @property
    def options(self) -> Options: ...
    @property
    def __wrapped__(self) -> Value: ...
    def _numbered(self, call: Call) -> Call: ...


@record(kw_only=True, eq=False)
class Known:
    """A mini-batch of packs, and all that its specialisation was chosen by."""

    call: Call
    fit: Fit
    device: str
    table: Table  # of tuning; with the same one, function and number of instances the options are the same
    options: Options  # with the results of tuning
    entries: list[Compiled]  # the specialisations that were looked through


def note(model: Model, call: Call, fit: Fit, options: Options, entries: list[Compiled]) -> None:
    """Remember a mini-batch, if all its arguments are packed."""
    packed = fit.packed is not None and not fit.packed.errors and all(map(is_packed, call.columns))
    if packed and len(call.frozen) == len(call.shared) and call.numbers is None and not model.tensors:
        model._known = Known(
            call=call, fit=fit, device=model.device, table=table(), options=options, entries=entries
        )  # fmt: skip


def tuned(model: Model, device: str, count: int) -> Options:
    """Return the options of a mini-batch after tuning."""
    if device == "cpu":
        return options_for(model.__wrapped__, model.options, count)
    return without_refactoring(model.options)  # devices sum in an order that refactoring would change


def again(model: Model, columns: Sequence[Value], shared: Mapping[str, Value]) -> tuple[Call, Fit] | None:
    """Return what `bind` and `existing` return for these arguments if it is found here, else None."""
    known = model._known
    if known is None or len(columns) != len(known.call.columns):
        return None
    last, (compiled, _, rows) = known.call, known.fit
    if len(shared) != len(last.shared):
        return None
    for name, value in shared.items():
        if type(value) is not Snapshot or last.shared.get(name) is not value.value:
            return None
    same, count = all(map(operator.is_, columns, last.columns)), last.count
    if not same:
        count = len(columns[0]) if all(map(is_packed, columns)) else 0
        if not count or any(len(column) != count for column in columns):
            return None
    entries = known.entries
    if entries != [compiled] and (compiled not in entries or any(c.used > compiled.used for c in entries)):
        return None
    if count != last.count and tuned(model, known.device, count) is not known.options:
        return None
    if compiled.fn is not model.__wrapped__ or model.device != known.device or table() is not known.table:
        return None
    call = Call(columns=tuple(columns), shared=last.shared, frozen=last.frozen, count=count)
    leaves = compiled.guard.leaves(call.shared, call.frozen) if model._numbered(call) is call else None
    packed = None if leaves is None else rows if same else compiled.pack_exact(call.columns)
    if leaves is None or packed is None:
        return None
    compiled.used = call.at
    return call, Fit(compiled, leaves, packed)
