"""One kernel that runs whole mini-batches: all stages of all kernels of a plan, with a barrier of blocks between.

In: the code of the kernels. Out: source of `numba.cuda` with one function to launch, of as many blocks as the GPU runs
at once (a cooperative launch):

    run(steps, count, barrier, post)
        steps       rows of `STEP`, in the GPU's memory: those of one level do not depend on each other
        barrier     words of `BARRIER`
        post        words of `POST`, in the CPU's memory; 0: the kernel ends with the steps

Each function is printed from the same tree or template as for a launch by itself, so results have the same bits; only
its `simt.Setting` is another. The shared memory of the functions would add up: here all shared arrays are parts of one
pool. A function's arrays lie behind the arrays of the functions that it calls, so that two overlap only if they are
never in use at once. And values that depend on the thread alone would be computed before the loop and occupy registers
in all functions: here each function gets its thread (`here`), which is read again for every step, its block and the
number of blocks that run it, which is that of a launch.

*The gate.* A block that is done with a step adds 1 to a counter, which only grows. It does not wait there: in its next
step it waits, at the gate of the function, until the blocks of all steps of earlier levels have come so far. Behind the
gate a function reads what other blocks have computed; in front of it addresses and weights, while others still work.
A function without a gate has it in front. Blocks that no step of a level needs do not come at all. So a block of a
level comes only after the count has reached what all levels before add up to, and the count cannot reach that earlier.
Adding releases and polling acquires at the scope of the GPU, so that stores of any block before are visible behind the
gate. A thread that polls too often adds `GONE`: all others see it, now or later, and leave at the end of their step.

*Weights that stay.* Behind the pool lie tags (`kernels.cuda.stream`), and behind them places for panels of weights. A
step says where the panel of its function has its place. Who makes the steps (`runtime.library.launch_steps`) gives each
function a place of its own while there is room; others share one, and copy the panel anew if another function has been
there. So a tag is the number of the function and that of the panel.

*Rounds.* With `post` the kernel does one table of steps after the other. The first block looks at a word of the CPU's
memory, and passes on what the CPU has posted. All blocks copy the table, and what its steps read, from the CPU's
memory. When all steps are done, the first block stores the values that the CPU waits for there, then the number of the
table. Each block comes once more then: the next table is copied over this one when none reads it any more. So nothing
is launched or copied by the driver between two rounds. After `stay` looks in vain the kernel ends, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from acronumba.emit import simt
from acronumba.emit.words import RecordLayout
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.own import Placed
from acronumba.kernels.cuda.stream import TAG_BYTES
from acronumba.kernels.cuda.tiles import THREADS, Tile
from acronumba.kernels.cuda.writer import Grid
from acronumba.records import record

STEP = RecordLayout("""
first       the first of the blocks that run it
blocks      how many blocks do
function    its number; functions are numbered kernel by kernel
nodes       of the batch
p           its table P
scratch     S: scratch of the batch,
warps       T: ... of the warps of the step
wanted      how often blocks must have come before, altogether
kept        bytes from the first place to that of its panel
tags        bytes from the first tag to its tags
""")
BARRIER = RecordLayout("""
come        how often blocks have come, 0 at first
word        address of a word that is set to 1 when blocks have waited in vain
looks       how often a block looks before it gives up
go          number of the last table of steps that all blocks may begin with; LEAVE: they are to end
stay        how often the first block looks for the next table
table[12]   what the CPU has posted: words of POST from `steps` on
""")
POST = RecordLayout("""
turn        number of the last table of steps that the CPU has posted; LEAVE: the kernel is to end
steps       the GPU's address of the steps,
count       ... how many
base        how often blocks have come before this table,
total       ... and how often when its steps are done; then each block comes once more
pieces      the GPU's address of rows of PIECE: what the CPU waits for,
bring       ... how many
source      what all blocks copy first: address in the CPU's memory,
to          ... address in the GPU's memory,
words       ... how many words
source2     the same of a second part
to2         ... address in the GPU's memory,
words2      ... how many words
apart[3]    what the GPU stores is in another line of the cache
done        number of the last table whose values are there
left        1: the kernel has ended
lost        1: blocks have waited in vain
rest[5]     of that line
""")
PIECE = RecordLayout("""
at          address in the GPU's memory
to          address in the CPU's memory
words       how many
""")
LEAVE = 1 << 40  # more than there are tables
GONE = 1 << 40  # more than blocks can come
MOST = 227 << 10  # bytes that a block of an H100 may share
TAGS = 16  # rows of tags: of the place that functions share, and of functions that have places of their own

_PASSED = f'''@cuda.jit(device=True)
def passed(barrier, wanted):
    """Let the first thread wait until blocks have come so often; return 0, so that it does that once."""
    if wanted > 0 and cuda.threadIdx.x == 0:
        left = ld(barrier, {BARRIER.at["looks"]})
        come = acquire(barrier)
        while come < wanted and left > 0:
            left -= 1
            come = acquire(barrier)
        if come < wanted:
            arrive(barrier, {GONE})
            give(ld(barrier, {BARRIER.at["word"]}), 1)
        if come < wanted or come >= {GONE}:
            pool(i32, FORGOTTEN, 1)[0] = i32(1)
    return 0
'''


def _at(record: RecordLayout, name: str) -> int:
    return 8 * record.at[name]


_FIRST = POST.at["steps"]  # the words from it on are passed on
_TABLE = {name: BARRIER.at["table"] + POST.at[name] - _FIRST for name in list(POST.at)[_FIRST : _FIRST + 12]}

_ROUNDS = f'''@cuda.jit(device=True)
def next_table(barrier, post, turn):
    """Let the first thread wait for a table of this number; return whether there is none any more."""
    gone = pool(i32, FORGOTTEN, 1)
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            left = ld(barrier, {BARRIER.at["stay"]})
            go = seen(post)
            while go < turn and left > 0:
                left -= 1
                go = seen(post)
            if go == turn and gone[0] == 0:
                for k in range(12):
                    st(barrier, {BARRIER.at["table"]} + k, look(post + 8 * ({_FIRST} + k)))
                release(barrier + {_at(BARRIER, "go")}, turn)
        else:
            left = ld(barrier, {BARRIER.at["looks"]})
            go = acquire(barrier + {_at(BARRIER, "go")})
            while go < turn and left > 0:
                left -= 1
                go = acquire(barrier + {_at(BARRIER, "go")})
        if go != turn:
            gone[0] = i32(1)
    return 0


@cuda.jit(device=True)
def take(barrier, source, to, words):
    """Copy words from the CPU's memory, by all blocks."""
    first = i64(cuda.blockIdx.x) * THREADS + i64(cuda.threadIdx.x)
    step = i64(cuda.gridDim.x) * THREADS
    source, to, words = ld(barrier, source), ld(barrier, to), ld(barrier, words)
    for k in range(first, words, step):
        st(to, k, look(source + 8 * k))
    return 0


@cuda.jit(device=True)
def bring(barrier):
    """Store what the CPU waits for in its memory, by one block."""
    row = ld(barrier, {_TABLE["pieces"]})
    for _ in range(ld(barrier, {_TABLE["bring"]})):
        at, to, words = ld(row, 0), ld(row, 1), ld(row, 2)
        for k in range(i64(cuda.threadIdx.x), words, THREADS):
            give(to + 8 * k, ld(at, k))
        row += {PIECE.size}
    return 0
'''


_RUN = f'''@cuda.jit
def run(steps, count, barrier, post):
    """Run one function after the other, each by as many blocks as have something to do."""
    gone = pool(i32, FORGOTTEN, 1)
    kept_tags = pool(i32, FORGOTTEN + 16, TAGS)
    kept_places = pool(f32, FORGOTTEN + 16 + 4 * TAGS, 1)
    thread = i64(cuda.threadIdx.x)
    if thread == 0:
        gone[0] = i32(0)
    if thread < TAGS:
        kept_tags[thread] = i32(-1)
    cuda.syncthreads()
    turn = 0
    while True:
        left = i32(0)
        if post != 0:
            if turn > 0 and cuda.blockIdx.x == 0:
                passed(barrier, ld(barrier, {_TABLE["total"]}) + i64(cuda.gridDim.x))
            turn += 1
            next_table(barrier, post, turn)
            if cuda.threadIdx.x == 0:
                left = gone[0]
            if step_ends(left) != 0:
                break
            take(barrier, {_TABLE["source"]}, {_TABLE["to"]}, {_TABLE["words"]})
            take(barrier, {_TABLE["source2"]}, {_TABLE["to2"]}, {_TABLE["words2"]})
            cuda.syncthreads()
            if cuda.threadIdx.x == 0:
                arrive(barrier, 1)
            passed(barrier, ld(barrier, {_TABLE["base"]}) + i64(cuda.gridDim.x))
            if cuda.threadIdx.x == 0:
                left = gone[0]
            if step_ends(left) != 0:
                break
            steps = ld(barrier, {_TABLE["steps"]})
            count = ld(barrier, {_TABLE["count"]})
        over = 0
        for k in range(count):
            step = steps + k * {STEP.size}
            block = i64(cuda.blockIdx.x) - ld(step, {STEP.at["first"]})
            blocks = ld(step, {STEP.at["blocks"]})
            if block >= 0 and block < blocks:
                function = ld(step, {STEP.at["function"]})
                nodes = ld(step, {STEP.at["nodes"]})
                P = ld(step, {STEP.at["p"]})
                S = ld(step, {STEP.at["scratch"]})
                T = ld(step, {STEP.at["warps"]})
                wanted = ld(step, {STEP.at["wanted"]})
                kept = ld(step, {STEP.at["kept"]}) + shared_at(address(kept_places))
                tags = ld(step, {STEP.at["tags"]}) + shared_at(address(kept_tags))
{{body}}
                left = i32(0)
                if cuda.threadIdx.x == 0:
                    left = gone[0]
                if step_ends(left) != 0:
                    over = 1
                    break
                if cuda.threadIdx.x == 0:
                    arrive(barrier, 1)
        if post == 0 or over != 0:
            break
        passed(barrier, ld(barrier, {_TABLE["total"]}))
        left = i32(0)
        if cuda.threadIdx.x == 0:
            left = gone[0]
        if step_ends(left) != 0:
            break
        if cuda.blockIdx.x == 0:
            bring(barrier)
            cuda.syncthreads()
            if cuda.threadIdx.x == 0:
                tell(post + {_at(POST, "done")}, turn)
        if cuda.threadIdx.x == 0:
            arrive(barrier, 1)
    if post != 0 and cuda.blockIdx.x == 0 and cuda.threadIdx.x == 0:
        release(barrier + {_at(BARRIER, "go")}, {LEAVE})
        tell(post + {_at(POST, "left")}, 1)
'''


@record()
class PersistentCode:
    """The kernel that runs all others."""

    own: str  # text of its other code
    text: str  # with them
    shared: int  # bytes that a block shares
    room: int  # bytes of them for panels of weights that stay
    entries: tuple[str, ...] = ("run",)
    parameters: int = 4
    tiles: tuple[Tile, ...] = ()  # that are no part of the text
    operations: tuple[Placed, ...] = ()  # operations of the user's own

    @property
    def source(self) -> str:
        """The text."""
        return self.text


def persistent(codes: Sequence[CudaCode], most: int = MOST) -> PersistentCode:
    """Return the kernel that runs the given ones, whose functions are numbered in their order.

    `most`: bytes that a block may share.
    """
    library: dict[str, simt.DeviceFunction] = {}
    stages: list[str] = []
    grids: list[Grid] = []  # the first of each
    for number, code in enumerate(codes):
        for part in code.parts():
            if part.name in code.entries:
                own = part.name if part.name not in library else f"{part.name}_of_{number}"  # kernels may have one name
                grids.append(code.grids[code.entries.index(part.name)][0])
                stages.append(own)
                library[own] = part
            elif library.setdefault(part.name, part).write(simt.ALONE) != part.write(simt.ALONE):
                raise TypeError(f"two functions of the name {part.name}")
    with_thread, places = asking(library), pool(library)
    here = simt.Setting(thread="here", lane="(here & 31)", with_thread=with_thread)
    forgotten = max((end for _, end in places.values()), default=0) + 15 & -16
    first = forgotten + 16 + TAGS * TAG_BYTES
    stay = [grid.kept if first + grid.kept <= most else 0 for grid in grids]
    texts: list[str] = []
    calls: list[str] = []
    for name, part in library.items():
        setting = replace(here, name=name, places=places[name][0])
        if name in stages:
            number = stages.index(name)
            setting = replace(setting, block="block", blocks="blocks", first=_GIVEN, gate=_GATE)
            if stay[number]:
                setting = replace(setting, number=number)
            calls += _call(number, name, name in with_thread, part.gates)
        texts.append(part.write(setting))
    room = min(sum(size + 15 & -16 for size in stay), most - first if any(stay) else 0)
    header = f"# All stages of all kernels, which share one pool of {forgotten:,} bytes.\n"
    header += f"FORGOTTEN = {forgotten}\nTAGS = {TAGS * TAG_BYTES // 4}\nTHREADS = {THREADS}\n\n\n"
    body = "\n".join(f"                {line}" for line in calls)
    own_text = f"{header}{_PASSED}\n\n{_ROUNDS}\n\n{_RUN.replace('{body}', body)}"
    operations = {found[0].text: found for code in codes for found in code.operations}
    text = "\n\n".join([*texts, own_text])
    return PersistentCode(own_text, text, first + room, room, operations=tuple(operations.values()))


_GIVEN = ("blocks", "block", "barrier", "wanted", "kept", "tags")  # further parameters of a function
_GATE = "wanted = passed(barrier, wanted)"


def _call(number: int, name: str, asks: bool, gates: bool) -> list[str]:
    """Return the lines that call a function for a step, behind a gate if it has none."""
    thread = "thread_anew(), " if asks else ""
    return [
        f"{'elif' if number else 'if'} function == {number}:",
        *([] if gates else [f"    {_GATE}", "    cuda.syncthreads()"]),
        f"    {name}({thread}{', '.join(_GIVEN)}, P, nodes, S, T)",
    ]


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
