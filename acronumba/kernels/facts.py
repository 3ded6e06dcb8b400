"""Facts about a compiled kernel: `KernelFacts`, and their form in the notes of its module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from acronumba.emit.tree import Note
from acronumba.kernels.lookups import LookupPacking
from acronumba.kernels.stages.weights import InRegisters, SideBySide, Step, ViewPacking
from acronumba.kernels.tiles import AnyPacking, CodePacking, Packing, PairPacking, TileKey
from acronumba.records import record


@record()
class SharedUse:
    """An entry of the table P: the address of a shared operand's array, or of a packed copy of one or more."""

    operands: tuple[int, ...]  # numbers of the operands in the spec
    packing: AnyPacking | ViewPacking | SideBySide | InRegisters | LookupPacking | None


@record()
class StageWork:
    """A stage of a kernel, and the bytes of weights that it reads."""

    stage: str  # entry point
    weights: int  # bytes of matrices that several nodes share, and that it reads however few the nodes


@record(kw_only=True)
class KernelFacts:
    """Facts about a compiled kernel: shared operands, tiles, stages and costs."""

    shared: tuple[SharedUse, ...]
    tiles: tuple[TileKey, ...]  # their addresses follow the shared entries in P
    stages: tuple[StageWork, ...] = ()
    block: int = 1  # most nodes of a block
    cost: int = 0  # estimated nanoseconds of a node
    typical: int = 0  # the same on a typical CPU, see `kernels.cost.typical_cost`
    owns: tuple[str, ...] = ()  # calls of operations of the user's own; their addresses follow the tiles in P

    def notes(self) -> Sequence[Note]:
        """Return the facts as lists that JSON can hold."""
        return [_plain(getattr(self, f.name)) for f in fields(self)]

    @staticmethod
    def of(notes: Sequence[Note]) -> KernelFacts:
        """Return the facts that notes hold."""
        return KernelFacts(**{f.name: _made(v) for f, v in zip(fields(KernelFacts), notes, strict=True)})


_KINDS = {
    kind.__name__: kind
    for kind in (
        SharedUse,
        StageWork,
        TileKey,
        Packing,
        CodePacking,
        PairPacking,
        ViewPacking,
        SideBySide,
        InRegisters,
        LookupPacking,
        Step,
    )
}


def _plain(value: Any) -> Note:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if type(value).__name__ in _KINDS:
        return {type(value).__name__: [_plain(getattr(value, f.name)) for f in fields(value)]}
    plain: Note = value
    return plain


def _made(value: Any) -> Any:
    match value:
        case list():
            return tuple(map(_made, value))
        case dict():
            ((name, of_fields),) = value.items()
            return _KINDS[name](*map(_made, of_fields))
    return value
