"""One kernel that runs whole mini-batches: all stages of all kernels of a plan, with a barrier of all blocks between.

In: the code of the kernels. Out: source of `numba.cuda` with one function to launch, of as many blocks as the GPU runs
at once (a cooperative launch):

    run(steps, count, S, T, barrier)
        steps       rows of `STEP`, in the GPU's memory
        S, T        scratch of the batch and of warps, as of the functions
        barrier     words of `BARRIER`

Each function is printed from the same tree or template as for a launch by itself, so results have the same bits; only
its `simt.Setting` is another. The shared memory of the functions would add up: here all shared arrays are parts of one
pool. A function's arrays lie behind the arrays of the functions that it calls, so that two overlap only if they are
never in use at once. And values that depend on the thread alone would be computed before the loop and occupy registers
in all functions: here each function gets its thread (`here`), which is read again for every step, and the number of
blocks that run it, which is that of a launch.

The barrier's counter only grows. One thread of each block adds 1 and polls until all blocks have come; adding releases
and polling acquires at the scope of the GPU, so that stores of any block before the barrier are visible to all blocks
after it. A thread that polls too often adds `GONE`: all others see it, now or later, and leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from acronumba.emit import simt
from acronumba.emit.words import RecordLayout
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.own import Placed
from acronumba.kernels.cuda.tiles import Tile
from acronumba.records import record

STEP = RecordLayout("""
function    its number; functions are numbered kernel by kernel
nodes       of the batch
p           its table P
blocks      by how many blocks it is run
""")
BARRIER = RecordLayout("""
come        how often blocks have come, 0 at first
word        address of a word that is set to 1 when blocks have waited in vain
looks       how often a block looks before it gives up
free
""")
GONE = 1 << 40  # more than blocks can come

_MET = f'''@cuda.jit(device=True)
def met(barrier, wanted):
    """Wait until blocks have come so often; return whether one of them has given up."""
    cuda.syncthreads()
    gone = i32(0)
    if cuda.threadIdx.x == 0:
        arrive(barrier, 1)
        left = ld(barrier, {BARRIER.at["looks"]})
        come = acquire(barrier)
        while come < wanted and left > 0:
            left -= 1
            come = acquire(barrier)
        if come < wanted:
            arrive(barrier, {GONE})
            st(ld(barrier, {BARRIER.at["word"]}), 0, 1)
        if come < wanted or come >= {GONE}:
            gone = i32(1)
    return cuda.syncthreads_or(gone) != 0
'''

_RUN = f'''@cuda.jit
def run(steps, count, S, T, barrier):
    """Run one function after the other, each by as many blocks as have something to do."""
    block = i64(cuda.blockIdx.x)
    every = i64(cuda.gridDim.x)
    for k in range(count):
        step = steps + k * {STEP.size}
        function = ld(step)
        nodes = ld(step, {STEP.at["nodes"]})
        P = ld(step, {STEP.at["p"]})
        blocks = ld(step, {STEP.at["blocks"]})
        if k > 0 and met(barrier, k * every):
            return
        if block < blocks:
'''


@record()
class PersistentCode:
    """The kernel that runs all others."""

    own: str  # text of its other code
    text: str  # with them
    shared: int  # bytes that a block shares
    entries: tuple[str, ...] = ("run",)
    parameters: int = 5
    tiles: tuple[Tile, ...] = ()  # that are no part of the text
    operations: tuple[Placed, ...] = ()  # operations of the user's own

    @property
    def source(self) -> str:
        """The text."""
        return self.text


def persistent(codes: Sequence[CudaCode]) -> PersistentCode:
    """Return the kernel that runs the given ones, whose functions are numbered in their order."""
    library: dict[str, simt.DeviceFunction] = {}
    stages: list[str] = []
    for number, code in enumerate(codes):
        for part in code.parts():
            if part.name in code.entries:
                own = part.name if part.name not in library else f"{part.name}_of_{number}"  # kernels may have one name
                stages.append(own)
                library[own] = part
            elif library.setdefault(part.name, part).write(simt.ALONE) != part.write(simt.ALONE):
                raise TypeError(f"two functions of the name {part.name}")
    with_thread, places = asking(library), pool(library)
    here = simt.Setting(thread="here", lane="(here & 31)", with_thread=with_thread)
    stage = replace(here, blocks="blocks", first=("blocks",))
    texts = [
        part.write(replace(stage if name in stages else here, name=name, places=places[name][0]))
        for name, part in library.items()
    ]
    calls = [
        line
        for k, name in enumerate(stages)
        for line in (
            f"{'elif' if k else 'if'} function == {k}:",
            f"    {name}({'thread_anew(), ' if name in with_thread else ''}blocks, P, nodes, S, T)",
        )
    ]
    shared = max((end for _, end in places.values()), default=0)
    header = f"# All stages of all kernels, which share one pool of {shared:,} bytes.\n"
    body = "".join(f"            {line}\n" for line in calls)
    own_text = f"{header}{_MET}\n\n{_RUN}{body}"
    operations = {found[0].text: found for code in codes for found in code.operations}
    text = "\n\n".join([*texts, own_text])
    return PersistentCode(own_text, text, shared, operations=tuple(operations.values()))


def asking(library: Mapping[str, simt.DeviceFunction]) -> frozenset[str]:
    """Return the functions that ask which thread this is, or call one that does."""
    found: set[str] = set()
    while more := {n for n, part in library.items() if n not in found and (part.asks or found & part.calls)}:
        found |= more
    return frozenset(found)


def pool(library: Mapping[str, simt.DeviceFunction]) -> dict[str, tuple[tuple[int, ...], int]]:
    """Map each function to the offsets of its arrays in the pool, and to the end of them and of its callees' arrays."""
    found: dict[str, tuple[tuple[int, ...], int]] = {}

    def end(name: str) -> int:
        if name not in found:
            at = max(map(end, library[name].calls & library.keys()), default=0)
            places: list[int] = []
            for array in library[name].arrays:
                places.append(-(-at // 16) * 16)
                at = places[-1] + array.size
            found[name] = tuple(places), at
        return found[name][1]

    for name in library:
        end(name)
    return found
