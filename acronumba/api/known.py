"""The specialisation of a model's last mini-batch of packs, found again in a few checks.

In: the arguments of `Model.batch`, or of `ValueAndGrad.batch`. Out: the `Call` and the `Fit` that `bind` and `existing`
return. These depend on the function and its signature, the device, the options after tuning, the specialisations in the
order of their use, the code and the outer variables that the compiler has read, the shared values, and the columns. The
guard of the specialisation compares the code, signature included, and the outer variables. Snapshots never change, so
it is enough that they are the same objects; `api.kept` compares the structure of all other shared values. The columns
must be packs, and are not kept alive: if they are those that came last, their words are known (`data.joined`), else
they are bound as ever. All else is compared here, at each call. Where anything differs, the general way is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.api.arguments import Call
from acronumba.api.columns import is_packed
from acronumba.api.snapshot import Snapshot
from acronumba.api.specialisations import Fit
from acronumba.config import Options, without_refactoring
from acronumba.generics import Value
from acronumba.records import record
from acronumba.tuned import Table, options_for, table

if TYPE_CHECKING:
    from acronumba.api.dispatch import Batched
    from acronumba.api.kept import Kept
    from acronumba.pipeline.compiled import Compiled


@record(kw_only=True, eq=False)
class Known:
    """A specialisation, and all that it was chosen by, but for the columns."""

    compiled: Compiled
    columns: int  # how many
    count: int  # of instances
    shared: Mapping[str, Value]  # all of them snapshots, or compared by a `Kept`
    frozen: frozenset[str]
    device: str
    table: Table  # of tuning; with the same one, function and number of instances the options are the same
    given: Options  # of the model,
    options: Options  # ... with the results of tuning
    entries: list[Compiled]  # the specialisations that were looked through


def note(model: Batched, call: Call, fit: Fit, options: Options, entries: list[Compiled]) -> None:
    """Remember a mini-batch, if all its arguments are packed."""
    packed = fit.packed is not None and not fit.packed.errors and all(map(is_packed, call.columns))
    kept = call.same
    if (
        not packed
        or call.numbers is not None
        or model.tensors
        or (kept is None and len(call.frozen) < len(call.shared))
    ):
        return
    known = Known(
        compiled=fit.compiled, columns=len(call.columns), count=call.count, shared=call.shared, frozen=call.frozen,
        device=model.device, table=table(), given=model.options, options=options, entries=entries,
    )  # fmt: skip
    if kept is None:
        model._known = known
    else:
        kept.known = known


def tuned(model: Batched, device: str, count: int) -> Options:
    """Return the options of a mini-batch after tuning."""
    if device == "cpu":
        return options_for(model.__wrapped__, model.options, count)  # type: ignore[arg-type]
    return without_refactoring(model.options)  # devices sum in an order that refactoring would change


def again(
    model: Batched, columns: Sequence[Value], shared: Mapping[str, Value], kept: Kept | None = None
) -> tuple[Call, Fit] | None:
    """Return the results of `bind` and `existing` for these arguments if they are known, else None.

    `kept`: what compares the shared values that are no snapshots.
    """
    known = model._known if kept is None else kept.known
    if known is None or len(columns) != known.columns or len(shared) != len(known.shared):
        return None
    for name, value in shared.items():
        snapshot = type(value) is Snapshot
        held = value.value if snapshot else value
        if snapshot is not (name in known.frozen) or known.shared.get(name, known) is not held:
            return None
    compiled, entries = known.compiled, known.entries
    packed = compiled.same_packs(columns)
    count = _length(columns) if packed is None else len(packed.roots)
    if not count:
        return None
    if entries != [compiled] and (compiled not in entries or any(c.used > compiled.used for c in entries)):
        return None
    if count != known.count and tuned(model, known.device, count) is not known.options:
        return None
    if compiled.fn is not model.__wrapped__ or model.device != known.device or table() is not known.table:
        return None
    if model.options is not known.given or (kept is not None and not kept.is_unchanged()):
        return None
    call = Call(columns=tuple(columns), shared=known.shared, frozen=known.frozen, count=count, same=kept)
    leaves = compiled.guard.leaves(call.shared, call.frozen, kept) if model._numbered(call) is call else None
    if leaves is None:
        return None
    if packed is None and (packed := compiled.pack_exact(call.columns)) is None:
        return None
    compiled.used = call.at
    return call, Fit(compiled, leaves, packed)


def _length(columns: Sequence[Value]) -> int:
    """Return the number of instances; 0 if some column is no pack, or has another length."""
    lengths = {len(column) if is_packed(column) else 0 for column in columns}
    return lengths.pop() if len(lengths) == 1 else 0
