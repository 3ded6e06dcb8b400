"""One kernel that runs whole mini-batches: all stages of all kernels of a plan, with a barrier of all blocks between.

In: the code of the kernels. Out: source of `numba.cuda` with one function to launch, of as many blocks as the GPU runs
at once (a cooperative launch):

    run(steps, count, S, T, barrier)
        steps       rows of `STEP`, in the GPU's memory
        S, T        scratch of the batch and of warps, as of the functions
        barrier     words of `BARRIER`

Each function is the very text that is launched alone otherwise, so results have the same bits. What a block's threads
share would add up over the functions, though: here all arrays are parts of one pool. A function's own come behind
those of the functions that it calls, so that two overlap only where they are never needed at once. And what depends on
the thread alone would be computed before the loop and kept in registers for all functions: here each is told its thread
(`here`), which is read again for every step, and by how many blocks it is run, which is as many as a launch would have.

The barrier counts up and never down. One thread of each block adds 1 and looks until all have come; adding releases
and looking acquires at the scope of the GPU, so that what was stored before by any block is read after by all. Who
looks too often in vain adds `GONE`: everyone sees it, now or later, and leaves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acronumba.emit.words import Words
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.tiles import Tile

STEP = Words("""
function    its number; functions are numbered kernel by kernel
nodes       of the batch
p           its table P
blocks      by how many blocks it is run
""")
BARRIER = Words("""
come        how often blocks have come, 0 at first
word        address of a word that is set to 1 when blocks have waited in vain
patience    how often a block looks before it gives up
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
        left = ld(barrier, {BARRIER.at["patience"]})
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

_FUNCTION = re.compile(r"^@cuda\.jit(?:\(.*\))?\ndef (\w+)\(.*\n(?:(?: .*)?\n)*", re.M)
_THREAD = re.compile(r"i64\(cuda\.(threadIdx\.x|laneid)\)")
_ARRAY = re.compile(r"^( +\w+ = )cuda\.shared\.array\(([\d+* ]+), ([fi])(\d+), 16\)$", re.M)


@dataclass(frozen=True, slots=True)
class PersistentCode:
    """The kernel that runs all others."""

    own: str  # text of what it has beside them
    text: str  # with them
    shared: int  # bytes that a block shares
    entries: tuple[str, ...] = ("run",)
    parameters: int = 5
    tiles: tuple[Tile, ...] = ()  # that are no part of the text

    @property
    def source(self) -> str:
        """The text."""
        return self.text


def persistent(codes: Sequence[CudaCode]) -> PersistentCode:
    """Return the kernel that runs the given ones, whose functions are numbered in their order."""
    library: dict[str, str] = {}
    stages: list[str] = []
    for number, code in enumerate(codes):
        for name, text in functions(code.source).items():
            if name not in code.entries:
                if library.setdefault(name, text) != text:
                    raise TypeError(f"two functions of the name {name}")
                continue
            own = name if name not in library else f"{name}_of_{number}"  # kernels may have one name
            text = text.replace("@cuda.jit\n", "@cuda.jit(device=True)\n", 1)
            text = text.replace("i64(cuda.gridDim.x)", "blocks")
            library[own] = text.replace(f"def {name}(", f"def {own}(blocks, ", 1)
            stages.append(own)
    pooled, ends = pool(library)
    told = tell(pooled)
    calls = [
        line
        for k, name in enumerate(stages)
        for line in (
            f"{'elif' if k else 'if'} function == {k}:",
            f"    {name}({'thread_anew(), ' if name in told else ''}blocks, P, nodes, S, T)",
        )
    ]
    shared = max(ends.values(), default=0)
    header = f"# All stages of all kernels, which share one pool of {shared:,} bytes.\n"
    body = "".join(f"            {line}\n" for line in calls)
    own_text = f"{header}{_MET}\n\n{_RUN}{body}"
    return PersistentCode(own_text, "\n\n".join([*pooled.values(), own_text]), shared)


def calls_of(library: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each function which of the others it calls."""
    return {
        name: sorted({word for word in re.findall(r"\b(\w+)\(", text) if word in library and word != name})
        for name, text in library.items()
    }


def tell(library: dict[str, str]) -> set[str]:
    """Give each function that asks which thread this is a first parameter that says so; return these functions."""
    calls = calls_of(library)
    told: set[str] = set()
    while more := {n for n in library if n not in told and (_THREAD.search(library[n]) or told & {*calls[n]})}:
        told |= more
    for name, text in library.items():
        text = _THREAD.sub(lambda m: "here" if m[1] == "threadIdx.x" else "(here & 31)", text)
        library[name] = re.sub(r"\b(\w+)\(", lambda m: f"{m[0]}here, " if m[1] in told else m[0], text)
    return told


def functions(source: str) -> dict[str, str]:
    """Return the text of each function of a source."""
    return {m[1]: m[0].rstrip() + "\n" for m in _FUNCTION.finditer(f"{source}\n")}


def pool(library: dict[str, str]) -> tuple[dict[str, str], dict[str, int]]:
    """Make all arrays that threads of a block share parts of one pool.

    Returns
    -------
    texts, ends
        The functions, and for each where in the pool what it needs ends, with the functions that it calls.
    """
    texts: dict[str, str] = {}
    ends: dict[str, int] = {}
    calls = calls_of(library)

    def place(name: str) -> int:
        if name not in ends:
            at = max(map(place, calls[name]), default=0)

            def part(array: re.Match[str]) -> str:
                nonlocal at
                start = -(-at // 16) * 16
                count = sum(math.prod(map(int, part.split("*"))) for part in array[2].split("+"))
                at = start + count * int(array[4]) // 8
                return f"{array[1]}pool({array[3]}{array[4]}, {start}, {count})"

            texts[name] = _ARRAY.sub(part, library[name])
            if "shared.array(" in texts[name]:
                raise TypeError(f"shared memory of {name} in a form that has no place in a pool")
            ends[name] = at
        return ends[name]

    for name in library:
        place(name)
    return {name: texts[name] for name in library}, ends
