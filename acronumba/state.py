"""The state table: the one argument of all compiled run-time code.

Whatever the host machine, the schedule, the layout and the execution of a mini-batch share lies in one int64 array:
addresses of columns, registers, limits, and where to go on after the caller has made room. There is no global state:
two threads that run one model have two tables. `AT` gives the number of each word; the heads of the free lists of
frames, one per function, follow them.

What the addresses lead to, in words of 8 bytes:

    frame          +0 parent   +1 resume block   +2 address for the results   +3.. slots of variables
    value record   +0 address of the data   +1 node << 32 | depth   +2 address of the shape
    list           +0 address of the segment   +1 length   +2 capacity
    row of a class +0 number of the class   +1.. fields
    row of a node  arguments, run-time extents, value records of the results, run-time shapes
"""

from __future__ import annotations

_WORDS = """
machine     address of the host machine
policy      who gives each node its level: 0 depth (and phases), 1 agenda, 2 the caller
stage       where `drive` goes on: 0 machine, 1 schedule, 2 layout, 3 execute, 4 done
stop        `drive` returns before this stage, so that stages can be timed; 4: never
pc          block of the machine to go on with
fp          frame of the running call
inst        instance that runs
n           nodes recorded
top         first free byte of the heap's chunk
end         limit of the chunk
fuel        steps that the instance has left
ncap        capacity of the node columns
status      what the machine returns
need        what a status asks for: bytes, nodes or edges
batch       number of instances
next        first instance that has not been started
steps       fuel of each instance at its start: at most SLICE
rest        steps that each instance may take beyond `steps`
left        the same of the current instance
spent       about how many steps were taken since the machine was entered
first       `n` when the current instance was started
base        `top` when the current instance was started
roots       int64[batch, words of the parameters]
results     int64[batch, words of the result]
shared      int64[shared parameters]: number, reference, or address of a value record
shapes      int64[]: constant shapes
etop        where the next error record goes: instance, site, frame, values
root        the frame below all others: a parent without meaning,
root_pc     ... whose resume block is the scheduler
root_dst
kind        int32[n]: kernel of the node
depth       int32[n]: 1 + the largest depth of its operands, ghosts included; 0 without
instance    int32[n]: instance that recorded it
row         int64[n]: address of its row
kernels     number of kernels
table       int64[kernels, 11]: the kernels, see TABLE
key         int32[n]: number of its (kernel, extents); the same column as `kind` unless `keyed`
level       int32[n]: number of its (phase, depth), or of its batch where a policy says so
levels      number of levels
order       int32[n]: nodes in order of execution
spare       int32[n]
counts      int32[(1 + ghosts) n + 2]
tally       int32[n + kernels]: zero between uses
ghosts      most levels that a value may be deeper than its node: 0 without ghosts
phased      whether components of the kernel graph run one after the other
words       words of a row of the bit matrices: kernels / 64, rounded up
adjacent    bits[kernels, kernels]: a node of the row's kernel feeds one of the column's
known       the same of the graph that `component` was made from
reach       its closure
component   int32[kernels]: phase of the kernel
deepest     int32[kernels]: levels of each phase, then the first level of each
keyed       whether any kernel has run-time extents
keys        number of keys
keytab      int64[n + kernels, 2]: kernel and address of the extents of each key
hash        int32[hashes]: 0, or 1 + key
hashes      a power of two, at least 2 n
edges       number of edges
ecap        capacity of the edge columns
efirst      int32[n + 1]: first edge of each node
efrom       int32[edges]: the operand's node
sfirst      int32[n + 1]: first successor of each node
snext       int32[edges]: successors
degree      int32[n]: operands that have not run
mean        float64[n + kernels]: mean depth of each key
ready       int32[n + kernels, 2]: of each key, first and last node of the queue
batches     number of batches
run_batches number of batches that have run
bstart      int32[batches + 1]: first position in `order`
bkey        int32[batches]: key
blevel      int32[batches]: level
offset      int64[batches, most, 2]: where in the arena each result begins, and the size of a node's, in bytes
most        largest number of results of a kernel
sizes       int64[2 + most]: for a kernel's `plan`
largest     bytes that no tensor of a node may need, stored or not
arena       address, aligned to 64
asize       bytes of it
used        bytes of it in use
scratch     address, aligned to 64: what each thread needs, then the rows of a batch
ssize       bytes of it
stride      bytes of it for one thread
threads     threads that may work on a batch, the caller's included
pool        address of the pool; 0: the caller works alone
warm        int64[warms, 2]: address and bytes of memory that the machine is about to use
warms       how many such pieces
args        int64[n]: row of each node, in order of execution
fail        int64[n]: failure of each node, in order of execution: 0, or 1 + site; only of kernels that can fail
failures    not 0: some node has failed
free        heads of the lists of free frames follow
"""

NAMES = tuple(line.split()[0] for line in _WORDS.strip().splitlines())
AT = {name: k for k, name in enumerate(NAMES)}

# Words of a row of `table`: addresses of the kernel's two functions and of its parameter table; numbers of tensors
# among its arguments (they come first), of lists of tensors (they come next), of arguments, run-time extents and
# results; whether it can fail; nanoseconds per node or row, roughly; 0, or the address of int64[2, args] if its nodes
# are several rows. That table says what row i of a node gets for an argument: 0 the same word, -1 element i of the
# list, else row i of the tensor, whose elements have so many bytes; then follow the ranks of those tensors.
TABLE = {name: k for k, name in enumerate("plan run params tensors lists args dims results fallible cost rows".split())}

# What `drive` and the machine return. GROW_*: make room for `need` and call again. FUEL: the instance has none left.
# PAUSE: look whether anything has happened (a signal), and call again.
DONE, GROW_NODES, GROW_HEAP, GROW_ARENA, GROW_SCRATCH, GROW_EDGES, FUEL, PAUSE = range(8)

SLICE = 1 << 21  # steps of the machine after which it returns
PATIENCE = 200_000_000  # about how many nanoseconds of kernels run before `execute` returns

# Blocks of the machine that every host program has.
SCHEDULER, FAILED, LEAVE = range(3)

PHASES, AGENDA, CALLER = range(3)  # values of `policy`

FRAME = 3  # words of a frame before its slots
RECORD = 3  # words of a value record

# Sites of failures that no line of the program is to blame for.
STEPS, MEMORY = -1, -2


def constants() -> str:
    """Return the names of all words as constants for `emit.parse`, in capitals; those of `TABLE` begin with K_."""
    lines = [f"{name.upper()} = {k}" for name, k in AT.items()]
    lines += [f"K_{name.upper()} = {k}" for name, k in TABLE.items()]
    lines.append(f"K_WIDTH = {len(TABLE)}")
    shared = ("DONE", "GROW_ARENA", "GROW_SCRATCH", "GROW_EDGES", "PAUSE", "PATIENCE")
    lines += [f"{name} = {globals()[name]}" for name in shared]
    return "\n".join(lines) + "\n"
