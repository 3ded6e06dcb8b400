"""The plan: which tensor operations are computed together, as one kernel and one node of the dataflow graph.

In: a typed `Program`. Out: a `Plan`: the same program with its `Op`s replaced by `Emit`s, and the kernels they
record. Within a basic block all host instructions that can run do so, then all tensor operations that are ready
become one kernel, and so on; so blocks are first made as large as possible (jumps are threaded, blocks merged) and
dead code goes. Equal kernels, also of different functions, are one. `hostgen` makes code of the program, `kernels` of
the specifications.

What a kernel reads: tensors and host numbers from outside of the group, one argument of each node (tensors first);
shared tensors; run-time extents, one number per int variable. What it returns: the values that something outside of
the group uses. Constants, and what is computed from shared tensors and constants alone, are computed anew in each
kernel that wants them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acronumba.analysis.blocks import Grouping, Kernels
from acronumba.analysis.carried import value_flow
from acronumba.analysis.dead import remove_dead
from acronumba.analysis.extents import Extents
from acronumba.analysis.flow import simplify
from acronumba.analysis.ghosts import pad_arms
from acronumba.analysis.hoist import NO_SPLIT, split
from acronumba.analysis.invariant import move_invariants
from acronumba.analysis.notes import Note, notes_text
from acronumba.analysis.phases import phases_text
from acronumba.config import Options
from acronumba.errors import Loc
from acronumba.ir.nodes import Program
from acronumba.kernels.spec import KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A program whose tensor operations are kernels."""

    program: Program  # without `Op`
    kernels: tuple[KernelSpec, ...]  # `Emit.kernel` counts in them
    uses: tuple[tuple[Loc, ...], ...]  # per kernel: where it is recorded
    notes: tuple[Note, ...] = ()  # what the analyses decided, for `Model.explain`
    texts: Mapping[str, str] = field(default_factory=dict)  # per analysis, in order: what it found, for `Model.stages`


def make_plan(program: Program, options: Options) -> Plan:
    """Return the program with its tensor operations grouped into kernels.

    Parameters
    ----------
    program
        A typed program.
    options
        `blocks`: whether a kernel may hold more than one operation (besides those that only move elements).
    """
    table = Kernels(program, options)
    notes: list[Note] = []
    program = replace(program, functions=tuple(remove_dead(simplify(f)) for f in program.functions))
    if options.hoist:
        program, moved = move_invariants(program)
        notes += moved
    # The extents it adds are read by the grouping alone: nothing may be removed in between.
    program = replace(program, functions=tuple(Extents(f).run() for f in program.functions))
    apart = NO_SPLIT
    if options.hoist and options.blocks:
        apart = split(program, value_flow(program))
        notes += apart.notes()
    functions = (remove_dead(Grouping(f, table, apart).run()) for f in program.functions)
    program = replace(program, functions=tuple(functions))
    kernels, uses = table.finish()
    texts = {"hoist": notes_text(notes), "phases": phases_text(program, kernels, uses)}
    if options.ghosts and options.schedule == "depth":
        program, padded, texts["ghosts"] = pad_arms(program)
        notes += padded
    return Plan(program=program, kernels=kernels, uses=uses, notes=tuple(notes), texts=texts)


def plan_text(plan: Plan) -> str:
    """Return the specifications of all kernels and the host program, as text."""
    from acronumba.ir.printer import program_text
    from acronumba.kernels.reference import spec_text

    return "\n".join([*(spec_text(k) for k in plan.kernels), program_text(plan.program)])
