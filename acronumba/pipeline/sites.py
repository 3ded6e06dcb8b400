"""Source position of each recorded node, for kernels that are recorded at several positions.

Compiled code records only the kernel of each node. In: a `Plan`. Out: the same plan with one kernel per source
position. A mini-batch that is recorded again with it has the same nodes, in the same order, and the kernel gives the
position. Runs without a trace do not pay for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.analysis.waits import waiting_functions
from acronumba.config import Options
from acronumba.generics import Value
from acronumba.ir.nodes import Emit, Function
from acronumba.memory import Array
from acronumba.pipeline.link import link
from acronumba.records import record
from acronumba.runtime.idle import idle_kernels
from acronumba.runtime.memory_policy import Astray
from acronumba.runtime.trace import TraceData


@record(kw_only=True)
class Apart:
    """A plan with a separate kernel for each source position where a kernel is recorded."""

    plan: Plan
    kernel: NDArray[np.int64]  # by kernel: its number in the original plan
    site: NDArray[np.int64]  # number in the `uses` of that kernel

    def sites(self, found: TraceData, trace: TraceData) -> NDArray[np.int64] | None:
        """Return the site of each node of a trace from this plan's recording; None if the recordings differ."""
        alike = found.nodes == trace.nodes and (found.instance == trace.instance).all()
        if not alike or (self.kernel[found.kernel] != trace.kernel).any():
            return None
        return self.site[found.kernel]


def sites(
    plan: Plan,
    options: Options,
    trace: TraceData,
    roots: Array,
    shared: Sequence[Value],
    *,
    skip: Collection[int],
    keep: Sequence[Array],
) -> NDArray[np.int64] | None:
    """Return for each node of a trace the index in its kernel's `uses`; None if it cannot be found.

    Parameters
    ----------
    plan, options
        Of the run, in which every instance has one fiber.
    trace
        The trace, with the values that the program read.
    roots, shared, skip, keep
        The mini-batch, see `Executable.record`.
    """
    waits = bool(waiting_functions(plan.program))
    if waits and trace.read is None:
        return None
    apart = told_apart(plan)
    options = replace(options, threads=1, schedule="depth", memory_limit=None)
    made = link(apart.plan, options, kernels=idle_kernels(apart.plan.kernels))
    try:
        found = made.record(roots, shared, skip=skip, keep=keep, recorded_reads=trace.read if waits else None)
    except Astray:
        return None
    return apart.sites(found, trace)


def told_apart(plan: Plan) -> Apart:
    """Return a plan with a separate kernel for each source position where a kernel is recorded."""
    numbers = [(k, 0) for k in range(len(plan.kernels))]
    numbers += [(k, j) for k, uses in enumerate(plan.uses) for j in range(1, len(uses))]
    of = {(k, plan.uses[k][j].loc.path): n for n, (k, j) in enumerate(numbers) if plan.uses[k]}

    def renumbered(function: Function) -> Function:
        blocks = []
        for block in function.blocks:
            instrs = (
                replace(i, kernel=of.get((i.kernel, i.loc.path), i.kernel)) if isinstance(i, Emit) else i
                for i in block.instrs
            )
            blocks.append(replace(block, instrs=tuple(instrs)))
        return replace(function, blocks=tuple(blocks))

    program = replace(plan.program, functions=tuple(map(renumbered, plan.program.functions)))
    return Apart(
        plan=replace(plan, program=program, kernels=tuple(plan.kernels[k] for k, _ in numbers)),
        kernel=np.array([k for k, _ in numbers], np.int64),
        site=np.array([j for _, j in numbers], np.int64),
    )
