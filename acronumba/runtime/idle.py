"""Kernels that compute nothing, behind the interface of compiled kernels.

In: specifications. Out: `KernelEntry`s. The recorded graph does not depend on values, or they come from recorded reads
(`Executable.record`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from acronumba.emit.compile import callback
from acronumba.ir.spec import KernelSpec, plan_words
from acronumba.records import record
from acronumba.runtime.program import KernelEntry


@record()
class PlainUse:
    """A shared array without packing."""

    operands: tuple[int, ...]
    packing: None = None


def idle_kernels(specs: Sequence[KernelSpec]) -> tuple[KernelEntry, ...]:
    """Return kernels that compiled code can call, and that compute nothing: their results have no bytes."""

    def entry(spec: KernelSpec) -> KernelEntry:
        def plan(at: int, out: int) -> None:
            ctypes.memset(out, 0, 8 * plan_words(len(spec.results)))

        return entry_of(spec, plan, lambda table, low, high, scratch: None)

    return tuple(map(entry, specs))


def entry_of(
    spec: KernelSpec, plan: Callable[[int, int], None], run: Callable[[int, int, int, int], None]
) -> KernelEntry:
    """Return the entry of functions of Python."""
    (plan_at, a), (run_at, b) = callback(plan, 2), callback(run, 4)
    return KernelEntry(plan=plan_at, run=run_at, shared=plain_uses(spec), keep=(a, b))


def plain_uses(spec: KernelSpec) -> tuple[PlainUse, ...]:
    """Return the uses of the shared arrays of a kernel that reads them unpacked."""
    return tuple(PlainUse((k,)) for k, o in enumerate(spec.operands) if o.kind == "shared")
