"""The plan: which tensor operations are computed together, as one kernel and one node of the dataflow graph.

In: a typed `Program`. Out: a `Plan`: the same program with its `Op`s replaced by `Emit`s, and the kernels they
record. Within a basic block all host instructions that can run do so, then all tensor operations that are ready
become one kernel, and so on; so blocks are first made as large as possible (jumps are threaded, blocks merged) and
dead code goes. Equal kernels, also of different functions, are one. `host` makes code of the program, `kernels` of
the specifications.

What a kernel reads: tensors and host numbers from outside of the group, one argument of each node (tensors first);
shared tensors; run-time extents, one number per int variable. Where a node is several rows, each row reads its part of
the arguments. What it returns: the values that something outside of the group uses. Constants, views of
shared tensors and rows of them that a number names, computed or not, are made anew in each kernel that wants them.

`analysis.passes` lists what is done, in order.
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
    notes: tuple[Note, ...] = ()  # what the analyses decided, for `Model.explain`
    texts: Mapping[str, str] = field(default_factory=dict)  # per analysis, in order: what it found, for `Model.stages`


def make_plan(program: Program, options: Options, after: Callable[[Pass, Draft], object] | None = None) -> Plan:
    """Return the program with its tensor operations grouped into kernels.

    Parameters
    ----------
    program
        A typed program.
    options
        Those that `PASSES` name, and `blocks`: whether a kernel may hold more than one operation (besides those that
        only move elements); `reuse` and `duplicate`: see `analysis.sharing.share`, `analysis.sharing.copies`.
    after
        Called after each pass with it and what it has made.
    """
    d = run_passes(program, options, after)
    return Plan(program=d.program, kernels=d.kernels, uses=d.uses, notes=d.notes, texts=d.texts)


def plan_text(plan: Plan) -> str:
    """Return the specifications of all kernels and the host program, as text."""
    from acronumba.ir.printer import program_text
    from acronumba.ir.reference import spec_text

    return "\n".join([*(spec_text(k) for k in plan.kernels), program_text(plan.program)])
