"""From a plan to an executable: host program, kernels and tiles are generated, compiled and linked.

In: a `Plan`, options and the kernels' target. Out: an `Executable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from acronumba.analysis.plan import Plan
from acronumba.config import Options, interpreted, verify_level
from acronumba.emit import tree
from acronumba.emit.compile import Deferred, Pending, load
from acronumba.emit.target import Target
from acronumba.emit.target import host as processor
from acronumba.host.machine import make_host
from acronumba.ir.spec import KernelSpec, same_but_shared
from acronumba.kernels import tiles
from acronumba.kernels.facts import KernelFacts
from acronumba.kernels.own import address_of, own_calls
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Native, library
from acronumba.runtime.program import KernelEntry, Linked, StageEntry
from acronumba.runtime.reference import reference_kernels
from acronumba.strategy import Strategy

if TYPE_CHECKING:
    from acronumba.runtime.backward import BackwardExecutable

Progress: TypeAlias = Callable[[str, int, int], None]  # from module name, number, and count of modules


def link(
    plan: Plan, options: Options, *, kernels: Sequence[KernelEntry] | None = None, progress: Progress | None = None
) -> Executable:
    """Return the executable of a plan on the CPU.

    Parameters
    ----------
    plan, options
        The plan to run, and its options.
    kernels
        Compiled kernels in the order of the plan; None: those of `kernels.cpu`, compiled for this machine.
    progress
        Called while compiling.
    """
    host = make_host(plan, options, doubles=verify_level() > 2)
    modules = (library(), host.module)
    if kernels is None:
        engine, kernels = with_kernels(modules, plan.kernels, options.decisions, progress, options.precision)
    else:
        engine = Native(modules, progress)
    return Executable(
        plan,
        options,
        Linked(host=host, modules=modules, engine=engine, kernels=tuple(kernels), interpreted=interpreted()),
    )


def link_backward(
    plan: Plan, options: Options, wanted: Collection[int], width: int | None, params: Collection[int] = (),
    packed: Collection[int] = (),
    progress: Progress | None = None,
) -> BackwardExecutable:  # fmt: skip
    """Return the executable of a plan and its backward pass on the CPU.

    Parameters
    ----------
    plan, options, progress
        As for `link`.
    wanted
        Shared tensors to differentiate by.
    width
        Number of words of the loss, at the front of the result; None: all tensors in the result have adjoints.
    params, packed
        Positional parameters, and shared objects and lists, whose arrays to differentiate by, too.
    """
    from acronumba.analysis.backward.program import plan_backward
    from acronumba.runtime.backward import BackwardExecutable, library_of_gradients

    back = plan_backward(plan, wanted, width, params, packed)
    forward = link(back.plan, replace(options, equal=False, recycle=False, parts=False), progress=progress)
    forward.keeps_nodes = True
    engine, entries = with_kernels((library(),), back.specs, options.decisions, progress, options.precision)
    return BackwardExecutable(forward, back, engine, entries, load([library_of_gradients()])[0])


def deferred_kernel(spec: KernelSpec, target: Target, strategy: Strategy, precision: str = "float32") -> Deferred:
    """Return the module of a kernel, generated only if its machine code is not cached; its notes are `KernelFacts`.

    The key is all that `kernels.cpu.generate` reads: the spec without the names and lines of the user's source and
    without the numbers of shared parameters, which decide names and comments alone, the target, the strategy, and the
    precision if it has an effect on a CPU.
    """

    def make() -> tree.Module:
        from acronumba.kernels.cpu import generate

        return generate(spec, target, strategy, precision).module

    key = f"kernel {same_but_shared(spec, lines=False)} {target} {strategy}{' bf16' * (precision == 'bf16')}"
    return Deferred(name=spec.name, key=key, make=make)


def with_kernels(
    modules: tuple[tree.Module | Deferred, ...],
    specs: Sequence[KernelSpec],
    strategy: Strategy,
    progress: Progress | None,
    precision: str = "float32",
) -> tuple[Native, tuple[KernelEntry, ...]]:
    """Compile the modules, the kernels and the tiles that the kernels call."""
    if interpreted():
        return Native(modules, progress), reference_kernels(specs, precision)
    target = processor()
    first: dict[object, int] = {}  # kernels that differ only in their shared tensors have the same code
    number = [first.setdefault(same_but_shared(spec, lines=False), len(first)) for spec in specs]
    kernels = [Pending(deferred_kernel(specs[number.index(k)], target, strategy, precision)) for k in range(len(first))]
    known = [KernelFacts.of(kernel.notes) for kernel in kernels]
    wanted: dict[tuple[str, int], set[tiles.TileKey]] = {}
    for one in known:
        for key in one.tiles:
            wanted.setdefault((key.dtype, key.vectors), set()).add(key)
    of_tiles = [tiles.deferred(keys, target) for _, keys in sorted(wanted.items())]
    engine = Native((*modules, *kernels, *of_tiles), progress)
    compiled = engine.loaded[len(modules) :]
    tile: dict[str, int] = {}
    for module in compiled[len(kernels) :]:
        tile |= module.address
    calls = {text: found for spec in specs for text, found in own_calls(spec).items()}
    entries = [
        KernelEntry(
            plan=c.address["plan"],
            run=c.address["run"],
            shared=one.shared,
            tiles=(*(tile[key.name] for key in one.tiles), *(address_of(*calls[text]) for text in one.owns)),
            begin=c.address.get("begin", 0),
            stages=tuple(StageEntry(address=c.address[s.stage], weights=s.weights) for s in one.stages),
            block=one.block,
            cost=one.cost,
            typical=one.typical,
            keep=(c, *(calls[text] for text in one.owns)),
        )
        for one, c in zip(known, compiled, strict=False)
    ]
    return engine, tuple(entries[k] for k in number)
