"""The state table: the one argument of all compiled run-time code.

The state that the host machine, the schedule, the layout and the execution of a mini-batch share is one int64 array:
addresses of columns, registers, limits, and where to resume after the caller has grown memory. There is no global
state: two threads that run one model have two tables. `AT` maps names to the numbers of words; the heads of the free
lists of frames, one per function, follow them, and a word for each kernel.

The structures that addresses point to, in words of 8 bytes:

    frame          +0 parent   +1 resume block   +2 address for the results   +3.. slots of variables; of functions
                   that spawn fibers, +3 is 1 + the number of those that have not returned, less 1 while it waits
                   for them
    stub           +0 parent   +1 the block where fibers arrive   +2 block after the spawn: what a fiber has as parent
    value record   words of `data.words.RECORD`
    list           words of `data.words.LIST`
    row of a class +0 number of the class   +1.. fields
    row of a node  arguments, run-time extents, value records of the results, run-time shapes
"""

from __future__ import annotations

from acronumba.emit.words import RecordLayout

STATE = RecordLayout("""
machine             address of the host machine
policy              who gives each node its level: BY_DEPTH, BY_AGENDA, BY_CALLER or BY_LOOKAHEAD
stage               where `drive` goes on: TO_RECORD, TO_SCHEDULE, TO_LAYOUT, TO_EXECUTE, or EXECUTED
stop                `drive` returns before this stage, so that stages can be timed; EXECUTED: never
pc                  block of the machine to go on with
fp                  frame of the running call
inst                instance that runs
n                   nodes recorded
top                 first free byte of the heap's chunk
end                 limit of the chunk
fuel                steps that the instance has left
ncap                capacity of the node columns
nroom               most nodes that may be recorded: less than `ncap` by as many as were equal to others
status              what the machine returns
need                what a status asks for: bytes, nodes or edges
part_end            instances up to the end of this part of the mini-batch
instances           ... of the mini-batch
part_start          ... before this part
aim                 bytes that the nodes of a part should take
least               instances that a part should have, even if they take more
ceiling             ... but not if they take more than so many bytes
node_most           bytes that no node takes more than, where that is known before extents are
part_nodes          nodes of the part that `part_bytes` knows
part_bytes          about how many bytes they take if no two results share a place
next                first instance that has not been started
steps               fuel of each instance at its start: at most SLICE
rest                steps that each instance may take beyond `steps`
left                the same of the current instance
spent               about how many steps were taken since the machine was entered
first               `n` when the fiber that runs was started or went on
base                `top` when it was
waits               whether the program reads values of tensors: only then the words down to `lives` are used
rounds              rounds that have been executed
more                whether fibers wait for the values of this round
single              1: `drive` returns after each stage that it is to stop at, of each round; 2: so, but first goes on
                    from a round that is executed
kept                bytes of the arenas that hold results of earlier rounds or parts
nodes_before        nodes of earlier rounds or parts
fcap                fibers that `runnable` and `waiting` have room for
runnable            int64[fcap, 2]: frame and instance of fibers that can go on, the next one last
rtop                number of them
waiting             int64[fcap, 2]: frame and instance of fibers that wait for a value
wtop                number of them
leads               int64[...]: of a block that a fiber goes on with, where in this table begin, and those of the next,
                    the words of its frame that lead to what it is about to use
weights             bytes of shared weights that the kernels read
granted             fuel at which `spent` was measured last
stubs               head of the list of free stubs
lives               int64[batch]: steps that each instance has left; DEAD if it has failed
roots               int64[batch, words of the parameters]
results             int64[batch, words of the result]
shared              int64[shared parameters]: number, reference, or address of a value record
shapes              int64[]: constant shapes
etop                where the next error record goes: instance, site, frame, values
root                the frame below all others: a parent without meaning,
root_pc             ... whose resume block is the scheduler or, in an epoch, the block that notes who has ended
root_dst
kind                int32[n]: kernel of the node
depth               int32[n]: 1 + the largest depth of its operands; 0 without
instance            int32[n]: instance that recorded it
row                 int64[n]: address of its row
first_room          `nroom` when the fiber that runs was started or went on
find_equal          address of the function that finds an equal node
sharer              int64[ncap]: node << 32 | instance: who takes a node of another; from `nroom` on, the last one first
double              int64[ncap]: node << 32 | the same node recorded again, beside `sharer`; see `runtime.doubles`
reader              int32[n, 2]: the last node that `library.equal` knows of those whose newest operand is the node, and
                    the next of those whose newest operand is that of the node; -1: none. Before the first row, 0: as if
                    any node could be equal to one that reads none
credit              int64[kernels, 2]: how many nodes of the kernel are looked for yet if none is equal to another, and
                    how many nodes are recorded then before it is looked for again; see `library.equal`
look                address of the words `look[kernels]`
equal               int64[...]: hash << 32 | node, or -1: the table in which nodes are looked for
equal_mask          its length, a power of two, less 1
equal_count         its entries
equal_first         address of the first table, 0: there is none; larger ones follow, each behind the one before
equal_most          length of the largest, at least 2 ncap
memo                int64[MEMO_ENTRIES, 4]: of nodes with one word in their row: the word, tag and kernel, node, row
memo_tag            what the second word must begin at: entries with another are none
equal_found         whether the mini-batch has had equal nodes
kernels             number of kernels
table               int64[kernels, words of KERNEL]: the kernels, see TABLE
key                 int32[n]: number of its kernel or, where batches have one length, of its (kernel, extents); the
                    same column as `kind` unless `keyed`
level               int32[n]: number of its (component, depth in it), or of its step
levels              number of levels
order               int32[n]: nodes in order of execution
spare               int32[n]
counts              int32[n + 2]
tally               int32[n + kernels]: zero between uses
keyed               whether batches of any kernel have nodes of the same run-time extents only
keys                number of keys
keytab              int64[n + kernels, 2]: kernel and address of the extents of each key
hash                int32[...]: 0, or 1 + key; its length, a power of two, is at least 2 n, and a round uses what it
                    needs
phased              whether `depth` is that in the component
place               int64[n], and one before it for what is no node: component << 48 | depth in it << 16 | group
placed              RECORDED: the machine has noted `place` and `adjacent` of all nodes, for the expected graph;
                    MEASURED: they are to be measured; 0: the round has not begun
noting              whether the machine notes which place reads a result last: the last layout shared places, of so many
                    nodes that reading their rows would take longer
noted_from          ... how many
noted_uses          whether the value records of nodes have, until `layout`, the largest place of the nodes that read
                    them, 0: none, and batches are in the order of places
leaf_uses           int64[kernels, most]: the same of those of a kernel's results whose kernel is known where they are
                    read, if it reads no results of nodes: all its nodes are one batch
most_groups         so many keys are groups; if there are more, the kernels are
groups              number of groups: vertices of the graph whose components are sought
group               int32[n]: group of the node, the column of `key` or of `kind`
marks               words of a row of the bit matrices: room for one bit more than there are groups
adjacent            bits[groups, groups]: a node of the row's group reads one of the column's
known               the same of the graph that `component` was made from
component           int32[groups]: its component; what a component reads has smaller numbers
known_first         bits[graphs, groups, groups]: `known` of all graphs that are remembered
component_first     int32[graphs, groups]: their components
known_groups        groups of these graphs
graphs              number of them, at most MOST_GRAPHS
graph               that of `known` and `component`
before              graph of the last round
followed            int64[graphs]: which came after each, the last time
replaced            which was forgotten last
deepest             int32[groups]: number of levels of each component
lfirst              int32[groups + 1]: first level of each component
bfirst              int32[groups + 1]: first batch of each component
size                int32[groups]: number of keys of each component
mixed               int32[groups]: whether a level of the component may hold several keys
visit               int32[groups, 5]: of the search for components
kfirst              int32[groups + 1]: first key of each component in `kinds`
kinds               int32[keys]: keys, by component
local               int32[keys]: number of the key in its component
bound               no schedule has fewer batches; -1: not looked for
effort              of the search, 0 to 3; -1: as it pays
unit                nanoseconds of work that are worth a thread
launch              nanoseconds that a batch costs beside its nodes
ccap                nodes that `chains` has room for
chains              int32[n, 8]: most nodes of eight kinds on a path to, or from, a node
own                 int32[n]: most nodes of its own kind on a path to the node (in one component, as all that follows)
height              int32[n]: the same on a path from it
longest             int32[keys]: the largest of `own` of each kind
scap                1 + nodes that the tables of the search have room for; 0: there are none
ecap                edges that they have room for
edges               number of edges
members             nodes of the graph that is searched: of a component, or all
gkinds              kinds of it
efirst              int32[members + 1]: first operand of each member
efrom               int32[edges]: operands
sfirst              int32[members + 1]: first successor of each member
snext               int32[edges]: successors
position            int32[n]: place of the node in `order`
skind               int32[members]: kind of the member
sstart              int32[kinds + 1]: number of members of smaller kinds
degree              int32[members]: operands (or successors) that have not run
queue               int32[members]: members that are ready, by kind
ready               int32[kinds, 2]: of each kind, first and last entry of the queue
mean                float64[keys]: mean depth of each key
score               float64[kinds]: how promising it is to run the kind next
rstart              int32[kinds]: where the kind's rows of `remain` and `able` begin
remain              int32[members + kinds]: members by kind and height that have not run
able                int32[members + kinds]: those of them that are ready
peak                int32[kinds]: the largest height of those that have not run
counted             int32[kinds]: end of the part of the queue that `able` knows
fresh               int32[kinds]: what a step would make ready; zero between uses
touched             int32[kinds]: kinds whose `fresh` is not zero
budget              visits that looking ahead may still take
word                int32[members]: a schedule: the kind of each step
best                int32[members]: the shortest so far
ran_at              int32[members]: number of the step at which it runs
late                int32[members]: the last step at which it can run
due                 int32[members + 1]: members for which a step is the last
agenda_step         int32[n]: number of its batch by the agenda
agenda_words        int32[n]: the agenda's schedule of each component, beginning at its first place in `order`
agenda_lengths      int32[groups]: length of each
depth_words         int32[n]: the same of the schedule by depth without phases
depth_lengths       int32[groups]
restricted          whether `agenda_words` and `depth_words` are of this mini-batch
batches             number of batches
run_batches         number of batches that have run
bstart              int32[batches + 1]: first position in `order`
bkey                int32[batches]: key
blevel              int32[batches]: level
offset              int64[batches, most, 2]: where each result begins (an address when `layout` is done), and the size
                    of a node's, in bytes; of a kernel with run-time extents that of all nodes
granule             bits: each of them begins at a multiple of 1 << granule bytes from the arena on; at least 6
coarse              0: granules are small; or they are as large as gaps of 1 / (1 << coarse) of all results allow
most                largest number of results of a kernel
sizes               int64[3 + most]: for a kernel's `plan`
largest             bytes that no tensor of a node may need, stored or not
arena               address, aligned to 64
arena_size          bytes of it
arena_used          bytes of it in use
planned             how far `layout` has come: 0; 1: no two results share a place, but some should; 2: places are shared
plenty              places are shared if the results of each node, and of 4096 more, could take more than so many bytes
result_bytes        bytes of results if no two share a place
result_bytes_before the same of earlier rounds or parts
work                address, aligned to 64: of the work area, where what is not returned lies if places are shared
work_size           bytes of it
work_used           bytes of it in use
work_most           most bytes of it that earlier parts have used
copy_at             where in the arena the next copy of what is returned goes
spoil               whether places that are free are filled with bits that no value should have
xcap                results that the next five have room for; result j of batch b is number x = b most + j
last                int32[x]: last batch that reads the result; its own if none does
dying               int32[batches]: 0, or 1 + a result that no batch after this one reads,
beside              int32[x]: ... 0, or 1 + the next of them
room                int64[x]: bytes of the place of a result
returned            int64[x]: bytes of nodes that are to be copied to the arena when the batch has run
free_pieces         int64[PIECES, 2]: free pieces of the work area by address: where, how many bytes
free_count          number of them
forms               int64[1 + classes]: addresses of the forms of results and rows, see `runtime.forms`
heap                int64[chunks, 2]: begin and end of the chunks of the heap
chunks              number of them
found               int64[found_room, 4]: rows and lists that results lead to
found_room          what it has room for
scratch             address, aligned to 64: what each thread needs, then blocks, then the rows of a batch
scratch_size        bytes of it
scratch_wanted      bytes of it that the batches need
stride              bytes of it for one thread, or one block that threads share
threads             threads that may work on a batch, the caller's included
areas               of `stride` bytes: of each thread, then of blocks that threads share at once, see `areas`
pool                address of the pool; 0: the caller works alone
ahead               int64[ahead_count, 2]: address and bytes of memory that the machine is about to use
ahead_count         how many such pieces
args                int64[n]: row of each node, in order of execution
fail                int64[n]: failure of each node, in order of execution: 0, or 1 + site; only of kernels that can fail
failures            not 0: some node has failed
taken               about how many nanoseconds the kernels that have run would take one thread
cuts                int64[1 + PARTS threads]: where the parts of a batch begin and end
firsts              int64[1 + blocks]: units of a stage before those of each block that threads share at once
run_slice           about how many nanoseconds of kernels run before `execute` returns; -1: it returns after each batch
hashing             address of the keys of SipHash, and of the hashes of constants: see `data.hashing`
sorter              address of the function that orders numbers of which some are NaN, as Python does
reading             what a read does beside: 0 nothing; NOTED: it notes the value; READS_GIVEN: it returns a noted one
notes               int64[notes_room, 3]: instance, number of the read, value: what was read, in order
notes_room          what it has room for
noted               number of them
recorded_reads                int64[batch, reads, 2]: where the next value of each read lies, and where its values end
ended               int64[batch]: instances of an epoch that have returned since it was looked at, in their order
ended_count         number of them
until               of an epoch: address of a word; while it is 0, and nobody has ended, `drive` goes on with the next
                    round. 0: it does not
etop_known          `etop` when it was looked at
patterns            address of the table of patterns that only run time knows: see `runtime.known_patterns`
asked               word of the pattern that is to be added
given               bytes of `kept` that hold nothing but results of earlier parts
part_most           most bytes that an earlier part has used of its arena and of the work area
free                heads of the lists of free frames follow, and for each kernel the first node that is looked for
                    whether it is equal to another
""")
AT = STATE.at

# A row of `table`, of a kernel.
KERNEL = RecordLayout("""
plan        address of the function that says how large results are
run         address of the function that computes them
params      address of its parameter table
tensors     number of tensors among its arguments (they come first),
lists       ... of lists of tensors (they come next),
args        ... of arguments,
dims        ... of run-time extents,
results     ... of results
fallible    whether it can fail
cost        nanoseconds per node or row, about; where there are run-time extents, the mean of the batch at hand
rows        0, or the address of int64[2, args] if its nodes are several rows. That table says what row i of a node gets
            for an argument: 0 the same word, -1 element i of the list, else row i of the tensor, whose elements have so
            many bytes; then follow the ranks of those tensors
begin       0, or the address of the function `begin` of a kernel that can be run stage by stage
stages      their number
block       nodes of a block at most
shares      address of rows of STAGE
bytes       bytes that a node takes, about; 0: they depend on its extents
equal_tries 0, or the credit with which a mini-batch begins: its nodes are recorded once for all that are equal
equal_gain  what finding one adds to it
equal_pause most nodes of all kernels that are recorded before it is looked for again, once any has been found
equal_late  whether looking for them begins when a node of any kernel has been found: they read results of others
""")
TABLE = KERNEL.at

# A stage of a kernel that threads can share, see `shares`.
STAGE = RecordLayout("""
run         address of the function
weights     nanoseconds that its shared weights take
""")

# What the threads of `runtime.threads` share; each part has a cache line of its own.
POOL = RecordLayout("""
claim[8]    epoch << 32 | next unit
jobs[24]    two rows of JOB: that of the epoch, and that of the one before
finished[8] units that are done
lock[8]     whether there is a job
wanted[8]   most threads that any of the mini-batches that run may use, their callers' included
""")
JOB = RecordLayout("""
run         address of a function of params, low, high, scratch
params      what it is given
rows        what is to be shared
units       into how many parts
scratch     of the caller,
stride      ... and how far apart those of threads are
slots       threads that have one
cuts        address of int64[units + 1]: where they begin and end; 0: they are equally long
firsts      address of int64[1 + blocks]: what is to be shared lies in blocks; rows before those of each, whose params
            are `stride` apart; 0: it does not
""")

TO_RECORD, TO_SCHEDULE, TO_LAYOUT, TO_EXECUTE, EXECUTED = range(5)  # values of `stage` and `stop`

# What `drive` and the machine return. GROW_*: make room for `need` and call again. FUEL: the instance has none left.
# PAUSE: look whether anything has happened (a signal), and call again. WAIT (of the machine): every fiber waits for a
# value. NODES_FAILED: nodes of a round have failed; their instances are to be marked as DEAD before the next. ASTRAY: a
# read is to be told a value, and none is left. NEW_PATTERN: add a regular expression to `patterns`, and call again.
DONE, GROW_NODES, GROW_HEAP, GROW_ARENA, GROW_SCRATCH, GROW_EDGES, FUEL, PAUSE, GROW_CHAINS = range(9)
GROW_FIBERS, WAIT, NODES_FAILED, GROW_LIVES, GROW_FOUND, GROW_WORK, GROW_NOTES, ASTRAY, NEW_PATTERN = range(9, 18)

NOTED, READS_GIVEN = 1, 2  # values of `reading`
RECORDED, MEASURED = 1, 2  # values of `placed`
DEAD = -1  # entry of `lives` for an instance that has failed
STUB = 3  # words of a stub

SLICE = 1 << 21  # steps of the machine after which it returns
# About how many nanoseconds of kernels run before `execute` returns. Tiny numbers take ten times as long as others.
RUN_SLICE = 20_000_000

# Blocks of the machine that every host program has.
SCHEDULER, FAILED, LEAVE = range(3)

BY_DEPTH, BY_AGENDA, BY_CALLER, BY_LOOKAHEAD = range(4)  # values of `policy`

EQUAL_SLOTS = 64  # entries of the table with which a round begins to look for equal nodes
EQUAL_READERS = 4  # nodes for which one node is the newest that they read are known by it, the others in the table
MEMO_ENTRIES, MEMO_BYTES = 1 << 12, 32  # of the memo: how many there are, and the bytes of each
EQUAL_PAUSE = 32  # nodes that are recorded before a kernel is looked for again whose nodes were not equal
EQUAL_MANY = 1024  # nodes, after which pauses may be longer, while no node of the mini-batch has been equal to another:
EQUAL_NONE = 4  # so many times as long at most
EQUAL_AGAIN = 4  # nodes of it that are looked for then, if none is found

MOST_GRAPHS = 8  # graphs of groups that are remembered
MOST_GROUPS = 1024  # a graph of more keys is cut into components by kernels: its bit matrix would be too large

CACHE = 1 << 19  # bytes: kernels that use more of weights and results leave nothing else in a core's own cache
FRAME = 3  # words of a frame before its slots
MARKED = 1 << 31  # bit of the head of a value record, above its depth: the value is returned

LEAST_GRANULE, LARGEST_GRANULE = 6, 12  # bits, see `granule`
PARTS = 4  # into which threads cut a batch, each
GROUP = 256  # units of work (`unit`) that each thread gets of blocks at once
NEVER = 1 << 62  # value of `plenty`: no two results share a place
PIECES = 256  # most pieces of free memory in the list; pieces freed beyond it are not reused
NODE_BYTES = 256  # that a node takes beside its results, about: arguments, value records, entries in columns

# Sites of failures that no line of the program is to blame for.
STEPS, MEMORY = -1, -2


def areas(threads: int) -> int:
    """Return the number of scratch areas for so many threads: one each, and one for each block that they share at once.

    A single block uses the caller's area. Of several, each is shared by four threads, which read a quarter of the
    weights each.
    """
    blocks = threads // 4
    return threads + blocks if blocks > 1 else threads
