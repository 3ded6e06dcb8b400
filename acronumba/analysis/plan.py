"""The plan: tensor operations grouped into kernels, each one node of the dataflow graph.

In: a typed `Program`. Out: a `Plan`: the same program with its `Op`s replaced by `Emit`s, and the kernels they
record. Within a basic block all host instructions that can run do so, then all tensor operations that are ready
become one kernel, and so on; so blocks are first made as large as possible (jumps are threaded, blocks merged) and
dead code is removed. Equal kernels, also of different functions, are one. `host` generates code from the program,
`kernels` from the specifications.

A kernel reads: tensors and host numbers from outside of the group, one argument of each node (tensors first); shared
tensors; run-time extents, one number per int variable. If a node is several rows, each row reads its part of the
arguments. A kernel returns the values that are used outside of the group. Constants, views of shared tensors, and rows
`x[k]` of shared tensors are made in each kernel that reads them.

`analysis.passes` lists the passes, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from acronumba.analysis.passes import Draft, Pass, run_passes
from acronumba.config import Options
from acronumba.ir.nodes import Program
from acronumba.ir.notes import Note
from acronumba.ir.spec import KernelSpec, Use
from acronumba.records import record


@record(kw_only=True)
class Plan:
    """A program whose tensor operations are kernels."""

    program: Program  # without `Op`
    kernels: tuple[KernelSpec, ...]  # `Emit.kernel` counts in them
    uses: tuple[tuple[Use, ...], ...]  # per kernel: where it is recorded
    notes: tuple[Note, ...] = ()  # decisions of the analyses, for `Model.explain`
    texts: Mapping[str, str] = field(default_factory=dict)  # findings per analysis, in order, for `Model.stages`


def make_plan(program: Program, options: Options, after: Callable[[Pass, Draft], object] | None = None) -> Plan:
    """Return the program with its tensor operations grouped into kernels.

    Parameters
    ----------
    program
        A typed program.
    options
        Read are the options of `PASSES`; `blocks`: whether a kernel may hold more than one operation (besides
        operations that only move elements); `reuse` and `duplicate`: see `analysis.sharing.share`,
        `analysis.sharing.variants`.
    after
        Called after each pass with the pass and its draft.
    """
    d = run_passes(program, options, after)
    return Plan(program=d.program, kernels=d.kernels, uses=d.uses, notes=d.notes, texts=d.texts)


def plan_text(plan: Plan) -> str:
    """Return the specifications of all kernels and the host program, as text."""
    from acronumba.ir.printer import program_text
    from acronumba.ir.reference import spec_text

    return "\n".join([*(spec_text(k) for k in plan.kernels), program_text(plan.program)])
