"""Sums over nodes on a GPU: the functions of `kernels.sums`, as one kernel for each dtype that does many jobs at once.

In: a dtype. Out: a `CudaCode` whose one function has the signature of all kernels, `sums(P, nodes, S, T)`: P[0] is the
address of rows of `TASKS`, P[1] their number, and `nodes` the number of all tasks. A warp takes one task after the
other, of any job; each task is done by one warp alone, in the order of `kernels.sums`. So no bit depends on the number
of blocks, and nothing is added atomically. Jobs of one launch must not add to the same array.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from acronumba.emit import simt, tree
from acronumba.emit.parse import parse
from acronumba.emit.words import RecordLayout
from acronumba.kernels import sums
from acronumba.kernels.cuda.generate import WARP, CudaCode
from acronumba.kernels.cuda.nodes import NodeTable
from acronumba.kernels.cuda.writer import WARPS, Grid

TASKS = RecordLayout("""
end         tasks of the launch up to the last of this job,
first       ... and before the first of it
what        number of the function, in `FUNCTIONS`
words       address of the words of the job, the table P of the function
""")

FUNCTIONS = (*sums.SUMS, "spans")
OUTER, COLUMNS, ROWS, ADJOINTS, SPANS = range(len(FUNCTIONS))  # their numbers

# A sum that the CPU asks for, see `runtime.library.launch_jobs`.
JOB = RecordLayout(f"""
kernel      number of the kernel that does it
what        number of the function, in `FUNCTIONS`
tasks       how many it has
many        rows that are added
item        bytes of an element
total       number of the last job before that adds to the same total; -1: there is none
shift       from the address of the total to the GPU's
words[{max(map(len, sums.WORDS_OF.values()))}]   of the function, but for those that all have
level       0, or behind that of the job before, and of the parts
parts       how many a long sum is cut into; 0: it is not cut,
span        ... rows of each,
size        ... bytes of the sum of one,
place       ... where their sums lie,
height      ... rows of such a sum,
columns     ... and columns
""")

_RUN = '''
def {entry}(P, nodes, S, T) -> None:
    """{doc}: the tasks of all jobs, shared out to warps."""
    t = block() * WARPS + thread() // 32
    warps = blocks() * WARPS
    jobs, count = lds(P, 0, 1)
    while t < nodes:
        low = 0
        high = count - 1
        while low < high:
            middle = (low + high) // 2
            if ld(jobs + middle * TASKS_BYTES, TASKS_END) <= t:
                low = middle + 1
            else:
                high = middle
        job = jobs + low * TASKS_BYTES
        what, words = lds(job, TASKS_WHAT, TASKS_WORDS)
        at = t - ld(job, TASKS_FIRST)
{choice}
        t = t + warps
'''
KNOWN = tuple(tree.Function(name, (), tree.I64, []) for name in ("block", "blocks", "thread"))  # of `emit.simt`


@functools.cache
def code(dtype: str) -> CudaCode:
    """Return the kernel of a dtype."""
    names = [sums.name_of(name, dtype) for name in FUNCTIONS]
    return code_of_tasks(f"sums_{dtype}", f"Sums over nodes, {dtype}", sums.functions(dtype, WARP), names)


def code_of_tasks(entry: str, doc: str, own: tuple[tree.Function, ...], names: Sequence[str]) -> CudaCode:
    """Return the kernel that does tasks of functions `name(words, low, high, S)`, which TASKS gives by number."""
    choice = [
        line
        for k, name in enumerate(names)
        for line in (f"        {'elif' if k else 'if'} what == {k}:", f"            {name}(words, at, at + 1, S)")
    ]
    numbers = {"WARPS": WARPS, "TASKS_BYTES": TASKS.size, **TASKS.constants("TASKS_")}
    given = "\n".join(f"{name} = {n}" for name, n in numbers.items())
    text = _RUN.format(entry=entry, doc=doc, choice="\n".join(choice))
    run = parse(f"{given}\n{text}", functions=(*own, *KNOWN))
    module = tree.Module(entry, (*own, *run), (entry,))
    return CudaCode(
        text=simt.module_text(module),
        tiles=(),
        entries=(entry,),
        grids=((Grid(WARPS, 1),),),
        sizes=tree.Module(f"{entry}_sizes", (), ()),
        table=NodeTable(0),
        shared=(),
        module=module,
    )
