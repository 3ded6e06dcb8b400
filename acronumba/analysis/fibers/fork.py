"""Fibers inside of one instance: calls that may wait and do not need each other go on side by side.

In: a planned program, as the last analysis. Out: the program in which some calls are `Spawn`, with a `Join` before what
needs their results, and a note for each place where a fiber begins, or where none can. Nothing is annotated: what needs
what is found by data flow, and which lists a call may change by `analysis.fibers.mutation`. Three things fork:

Calls of one basic block (`calls`). In program order, each instruction runs as soon as it needs no result that is
still awaited; a call that may wait is spawned. When nothing more can run, a join, and on with the rest. So calls are
spawned together although something that needs their results stands between them. Nothing runs before a check that it
relies on.

Loops of known length (`loops`). Their steps are parted: what may wait, with all that it needs, is independent of
other steps; the rest carries something from one step to the next, or changes a list. The loop becomes two:

    parts = fill(n, 0)                      for x in xs:                  if what is left is but one `append` to a
    for i in range(n):                          y = f(x)                  list that nothing else has seen yet, that
        spawn parts[i] = step(xs, i)            if float(y) > 0:          list is `parts`, and the second loop goes
    join                                            total = total + y
    for i in range(n):
        y = parts[i]; ...                   the rest of the step, in order: sums have the bits of the plain call

The independent part is a function of its own, unless it is a call already. A loop that may be left early stays: steps
behind the last would run. Steps in which something fails may now run before others that fail first in the plain call;
the instance fails all the same, and `Model` finds out what comes first.

Arms of conditions, loops of any kind, and helpers that were inlined (`regions`): what of them needs each other
becomes a function where something else can go on beside it, and what stands in its place is a call of a basic block.

Source: fork-join parallelism in dynamic batching is ACRoBat's (arXiv 2305.10611, section 4.2), there by annotation;
loop distribution by dependence is D. Kuck et al., "Dependence graphs and compiler optimizations", POPL 1981.
"""

from __future__ import annotations

from dataclasses import replace

from acronumba.analysis.fibers.calls import Scheduler
from acronumba.analysis.fibers.loops import Loops
from acronumba.analysis.fibers.regions import outline_regions
from acronumba.analysis.fibers.world import World
from acronumba.analysis.waits import waiting_functions
from acronumba.ir.nodes import Program
from acronumba.ir.notes import Note


def fork(program: Program) -> tuple[Program, tuple[Note, ...]]:
    """Return the program with independent calls that may wait as fibers, and what was decided.

    Parameters
    ----------
    program
        Planned: no analysis that groups or moves tensor operations comes after this one.
    """
    world = World(program, set(waiting_functions(program)))
    number = 0
    while number < len(world.functions):  # the parts of steps that become functions come behind
        if number in world.waiting:
            outline_regions(world, number)
            Loops(world, number).run()
            world.functions[number] = Scheduler(world, world.functions[number]).run()
        number += 1
    return replace(program, functions=tuple(world.functions)), tuple(dict.fromkeys(world.notes))
