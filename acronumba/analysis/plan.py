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

First of all it is found out which operands are the same tensor for all instances (`analysis.sharing.share`), what is a
row of a table of products (`analysis.sharing.tables`), what is computed from shared tensors alone, once per mini-batch
(`analysis.sharing.once`), and, as the results are shared tensors that may travel like any other, where these are read.
(Not again and again: a recursion may make a new one of what it was given.) Last, copies of kernels that do not pay are
merged (`analysis.sharing.copies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.fibers.fork import fork
from acronumba.analysis.ghosts import pad_arms
from acronumba.analysis.grouping.blocks import Grouping, Kernels
from acronumba.analysis.grouping.checks import remove_repeated_checks
from acronumba.analysis.grouping.extents import Extents
from acronumba.analysis.grouping.hoist import NO_SPLIT, split
from acronumba.analysis.grouping.invariant import move_invariants
from acronumba.analysis.grouping.rows import rows_text
from acronumba.analysis.phases import phases_text
from acronumba.analysis.sharing.bypass import pass_by
from acronumba.analysis.sharing.copies import merge_copies
from acronumba.analysis.sharing.once import Computed, find_once
from acronumba.analysis.sharing.share import share
from acronumba.analysis.sharing.tables import tabulate
from acronumba.analysis.simplify import simplify
from acronumba.analysis.value_flow import value_flow
from acronumba.analysis.waits import waiting_functions, waits_notes, waits_text
from acronumba.config import Options, verify_level
from acronumba.errors import Loc
from acronumba.ir.nodes import Program
from acronumba.ir.notes import Note, notes_text
from acronumba.ir.spec import KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A program whose tensor operations are kernels."""

    program: Program  # without `Op`
    kernels: tuple[KernelSpec, ...]  # `Emit.kernel` counts in them
    uses: tuple[tuple[Loc, ...], ...]  # per kernel: where it is recorded
    notes: tuple[Note, ...] = ()  # what the analyses decided, for `Model.explain`
    texts: Mapping[str, str] = field(default_factory=dict)  # per analysis, in order: what it found, for `Model.stages`


_TOLD = {  # analyses whose text is what they have decided, and the kinds of their notes
    "once": ("once",),
    "invariant": ("moved",),
    "hoist": ("hoisted",),
    "copies": ("duplicated", "merged"),
}


def make_plan(program: Program, options: Options) -> Plan:
    """Return the program with its tensor operations grouped into kernels.

    Parameters
    ----------
    program
        A typed program.
    options
        `reuse`, `duplicate`, `hoist`: see `analysis.sharing.share`, `analysis.sharing.copies`, `analysis.sharing.once`,
        `analysis.grouping.rows`. `blocks`: whether a kernel may hold more than one operation (besides those that only
        move elements). `ghosts`: see `analysis.ghosts`. `forkjoin`: see `analysis.fibers.fork`.
    """
    program, computed, told, texts = _shared(program, options)
    table = Kernels(program, options)
    notes = [*told]
    program = replace(program, functions=tuple(remove_dead(simplify(f)) for f in program.functions))
    if options.hoist:
        program, moved = move_invariants(program)
        notes += moved
    # The extents it adds are read by the grouping alone: nothing may be removed in between.
    program = replace(program, functions=tuple(remove_repeated_checks(Extents(f).run()) for f in program.functions))
    apart = NO_SPLIT
    if options.hoist and options.blocks:
        apart = split(program, value_flow(program))
        notes += apart.notes()
    functions = tuple(remove_dead(Grouping(f, table, apart).run()) for f in program.functions)
    once = tuple(map(table.once, computed))
    kernels, uses = table.finish()
    notes += table.notes
    program = replace(program, functions=functions, once=once)
    program, kernels, uses, merged = merge_copies(program, kernels, uses, options)
    notes += merged
    if options.hoist:
        texts["rows"] = rows_text(kernels)
    for name, kinds in _TOLD.items():
        texts[name] = notes_text([note for note in notes if note.kind in kinds])
    notes += waits_notes(program)
    texts["waits"] = waits_text(program)
    texts["phases"] = phases_text(program, kernels, uses)
    if options.ghosts and options.schedule == "depth":
        program, padded, texts["ghosts"] = pad_arms(program)
        notes += padded
    # Last: what comes before need not know of fibers.
    if options.forkjoin and waiting_functions(program):
        program, forks = fork(program)
        notes += forks
        texts["forks"] = notes_text(forks)
    return Plan(program=program, kernels=kernels, uses=uses, notes=tuple(notes), texts=texts)


def _shared(
    program: Program, options: Options
) -> tuple[Program, tuple[Computed, ...], tuple[Note, ...], dict[str, str]]:
    """Find what is shared, and what is computed from it once; return that, notes and texts."""
    check = verify_level() > 1
    first = share(program, options, check=check)
    passed, copied = pass_by(first.program, options)
    if copied:
        first = share(passed, options, check=check)
    program, computed, told = find_once(tabulate(first.program, options), options)
    shares = share(program, options, check=check) if computed else first
    notes = dict.fromkeys((*first.notes, *shares.notes, *copied, *told))
    text = [f"once {shares.program.shared[c.index].path}: line {c.loc.line}\n" for c in computed]
    return shares.program, computed, tuple(notes), {"sharing": "".join([shares.text, *text])}


def plan_text(plan: Plan) -> str:
    """Return the specifications of all kernels and the host program, as text."""
    from acronumba.ir.printer import program_text
    from acronumba.ir.reference import spec_text

    return "\n".join([*(spec_text(k) for k in plan.kernels), program_text(plan.program)])
