"""Fibers within an instance: independent calls that may wait run concurrently.

In: a planned program, as the last analysis. Out: the program in which some calls are `Spawn`, with a `Join` before the
first use of their results, and a note at each position where a fiber begins or cannot begin. No annotations are needed:
dependences are found by data flow, and the lists that a call may change by `analysis.fibers.mutation`. Three things
fork:

Calls of one basic block (`calls`). In program order, each instruction runs as soon as it needs no result that is
still awaited; a call that may wait is spawned. When no instruction can run, a join follows, then the rest. So calls are
spawned together even if an instruction between them needs their results. No instruction runs before a check that it
relies on.

Loops of known length (`loops`). A step is split in two: the part that may wait, with all that it needs, is independent
of other steps; the rest carries values from one step to the next, or changes a list. The loop becomes two:

    parts = fill(n, 0)                      for x in xs:                  if what is left is but one `append` to a
    for i in range(n):                          y = f(x)                  list that nothing else has seen yet, that
        spawn parts[i] = step(xs, i)            if float(y) > 0:          list is `parts`, and the second loop goes
    join                                            total = total + y
    for i in range(n):
        y = parts[i]; ...                   the rest of the step, in order: sums have the bits of the plain call

The independent part becomes a function, unless it is a call already. A loop that may be left early stays: steps behind
the last would run. A step that fails may now run before a step that fails first in the plain call; the instance fails
all the same, and `Model` determines the first failure.

Arms of conditions, loops of any kind, and inlined helpers (`regions`): parts that depend on each other become a
function if something else can go on meanwhile, and are replaced by a call of it.

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
    """Return the program with independent calls that may wait as fibers, and notes on the decisions.

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
