"""A linked plan: the host program with its tables, and callable kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.errors import Loc
from acronumba.ir.types import Type, Word
from acronumba.memory import Array
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.runtime.engines import Interpreted, Native


@record(kw_only=True)
class Host:
    """The host program, with the tables to run it and to decode its errors."""

    module: tree.Module  # exports "machine"
    shapes: tuple[int, ...]  # the constant shapes, one after the other
    functions: int  # number of free lists
    values: int  # most values of an error record, behind its 3 other words
    calls: Mapping[int, Loc]  # resume block -> the call
    loops: Mapping[int, Loc]  # block that a loop goes on with, after a pause -> the loop
    types: Mapping[int, tuple[Word, ...]]  # site -> types of its values
    waiting: bool  # whether the program waits for values
    waits: Mapping[int, Loc]  # block that a fiber goes on with -> the read that it waited for
    leads: Mapping[int, tuple[int, ...]]  # such a block -> words of its frame that refer to data it will use
    reads: int  # the numbers of its reads are below
    arrive: int  # block of `stub` that spawned calls return to; -1 if there are none
    ended: int  # block that instances of an epoch return to
    hashed: tuple[Type, ...] = ()  # constants, and classes of enum members, whose hashes it reads (`host.sets`)
    equal: frozenset[int] = frozenset()  # kernels whose equal nodes are recorded once
    doubles: bool = False  # whether a node that is equal to another is recorded, too: see `runtime.doubles`


class PackingLike(Protocol):
    """A packed layout of shared arrays."""

    @property
    def apply(self) -> Callable[..., Array]:
        """Function that packs arrays; its argument `by` is a `Packer`."""


class SharedUseLike(Protocol):
    """An entry of a kernel's table: an unpacked shared array, or one or more packed arrays."""

    @property
    def operands(self) -> tuple[int, ...]: ...
    @property
    def packing(self) -> PackingLike | None: ...


@record(kw_only=True)
class StageEntry:
    """A stage of a kernel that threads can share."""

    address: int
    weights: int  # bytes of shared weights that it reads, however few the nodes


@record(kw_only=True)
class KernelEntry:
    """A kernel ready to be called."""

    plan: int  # address of its function `plan`
    run: int  # address of its function `run`
    shared: tuple[SharedUseLike, ...] = ()
    tiles: tuple[int, ...] = ()  # addresses
    begin: int = 0  # address of its function `begin`, if it can be run stage by stage
    stages: tuple[StageEntry, ...] = ()
    block: int = 1  # nodes of a block at most
    cost: int = 0  # nanoseconds that a node takes, about; 0: nobody has said
    typical: int = 0  # the same on a typical CPU; 0: unknown
    keep: object = None  # owner of the code


@record(kw_only=True, eq=False)
class Linked:
    """A linked plan."""

    host: Host
    modules: tuple[tree.Module | Deferred, ...]  # the library, the host program
    engine: Native | Interpreted  # that runs them
    kernels: tuple[KernelEntry, ...]  # in the order of the plan
    interpreted: bool = False  # in plain Python
