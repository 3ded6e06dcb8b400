"""Layouts of the tables that `runtime.library.launch` reads: `LAUNCH_NODES` is the number of word `nodes` of `LAUNCH`.

A table of rows also has `ROW_BYTES`, the bytes of a row.
"""

from __future__ import annotations

from acronumba.emit.words import RecordLayout
from acronumba.kernels import sums
from acronumba.kernels.cuda.graphs import NODE
from acronumba.kernels.cuda.marshal import ROW, STREAM
from acronumba.kernels.cuda.persistent import BARRIER, PIECE, POST, STEP
from acronumba.kernels.cuda.sums import JOB, TASKS
from acronumba.kernels.cuda.tiles import THREADS

# Results of `whole` and `rounds`. Of `rounds` alone: PAUSED: call again. CRAMPED: there is not enough scratch memory.
# FAILED: nodes have failed. LATE: the GPU takes long. LOST: its blocks have waited for each other in vain.
LAUNCHED, WRITTEN, UNWRITTEN, PAUSED, CRAMPED, FAILED, LATE, LOST = range(8)
SCANT, UNKNOWN, CROWDED = -1, -2, -3  # results of `graphed`
WARPS = THREADS // 32
OWN = 1 << 28  # bytes of scratch of all warps, as long as one block has enough

LAUNCH = RecordLayout("""
parameters[4]   addresses of the next four words: what the driver calls kernelParams
p               P of the launch at hand,
nodes           ... nodes,
scratch         ... S: scratch memory of a batch,
warps           ... T: scratch memory of warps
launch          address of `cuLaunchKernel`,
cooperate       ... of `cuLaunchCooperativeKernel`,
upload          ... of `cuMemcpyHtoDAsync`,
record          ... of `cuEventRecord`,
reach           ... of `cuEventSynchronize`,
download        ... of `cuMemcpyDtoHAsync`,
wait            ... of `cuStreamSynchronize`,
drive           ... of `drive`
stream          the stream of the GPU
kernels         rows of KERNEL
functions       rows of FUNCTION
grids           rows of GRID
processors      multiprocessors
scratch_size    bytes of the scratch memory of a batch,
warps_size      ... of warps
most            most blocks of a launch, if all have scratch memory
blocks          most blocks of a launch of this mini-batch
graph           address of `cuGraphLaunch`
whole           whether `whole` launches
status          what `drive` has returned, see `whole`
""")
KERNEL = RecordLayout("""
first           the first of its functions
count           how many there are
""")
FUNCTION = RecordLayout("""
handle          of the driver
blocks          most blocks that run at the same time
grids           the first of its grids
count           how many there are
uses            how many steps of the mini-batch run it
place           from the first place of panels of weights to its place, in bytes; -1: it has none yet
tags            from the first tag to its tags, in bytes
""")
GRID = RecordLayout("""
nodes           `Grid.nodes`
times           `Grid.times`
cost            `Grid.cost`
counted         `Grid.counted`
panels          `Grid.panels`
kept            `Grid.kept`
pool            `Grid.pool`
level           `Grid.level`
""")
ABOUT = RecordLayout("""
steps           what the one kernel is told: address of its steps,
count           ... how many,
barrier         ... address of its barrier
post            ... address of words of POST, or 0
parameters[4]   addresses of these
word            `word` of the barrier
looks           `looks` of it
widest          how many blocks the widest step has
most            most blocks that may wait for each other
handle          of the driver
shared          bytes of shared memory
room            ... of them for panels of weights that stay
functions       how many functions there are,
stages          ... most of a kernel
levels          how many levels the steps have
base            how often blocks have come before the steps,
total           ... and have come when all is done
ways            int64[64]: by the bits of the number of launches: the bits of numbers of nodes that one kernel runs
rounds          address of words of POST, for a kernel that stays between rounds
place           the GPU's address of its barrier,
begin           ... address of words that it begins with
there           whether the kernel is there
phase           of a round: 0: to be recorded; 1: its launches are written; 2: the kernel has been told
bound           how often the CPU looks before it returns LATE
graphs          rows of GRAPH,
known           ... how many
key             the key of the graph that a mini-batch needs, see `runtime.library.launch_graph`,
key_words       ... how many words
table           the GPU's address of the rows of nodes,
rows            ... how many there is room for
""")
GRAPH = RecordLayout("""
handle          of the driver
key             address of the words of its key,
words           ... how many
""")

_TABLES = {
    "LAUNCH_": LAUNCH, "KERNEL_": KERNEL, "FUNCTION_": FUNCTION, "GRID_": GRID, "ABOUT_": ABOUT, "STREAM_": STREAM,
    "ROW_": ROW, "STEP_": STEP, "BARRIER_": BARRIER, "TASKS_": TASKS, "POST_": POST, "PIECE_": PIECE,
    "JOB_": JOB, "GRAPH_": GRAPH, "NODE_": NODE,
}  # fmt: skip
_PLACES: dict[str, int] = {}
for _prefix, _table in _TABLES.items():
    _PLACES |= _table.constants(_prefix) | {f"{_prefix}BYTES": _table.size}
_PLACES["JOB_WORDS_COUNT"] = JOB.at["level"] - JOB.at["words"]
for _function, _names in sums.WORDS_OF.items():
    _PLACES |= {f"{_function.upper()}_{name.upper()}": k for k, name in enumerate(_names)}


def __getattr__(name: str) -> int:
    try:
        return _PLACES[name]
    except KeyError:
        raise AttributeError(f"no word of a table for launches: {name}") from None
