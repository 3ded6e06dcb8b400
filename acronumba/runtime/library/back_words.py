"""Layouts of the tables of the backward pass, for `runtime.library.transpose` and `runtime.back_rows`.

`B_HEADS` is the number of the word `heads` of `BACK`, `BK_OWN` the number of `own` in a row of `KERNEL`, and so on; a
row of a table has `..._BYTES` bytes.
"""

from __future__ import annotations

from acronumba.emit.words import RecordLayout
from acronumba.kernels.sums import LINK, SUM, WORDS_OF

BACK = RecordLayout("""
table       address of the rows of KERNEL, one for each kernel of the plan
heads       address of rows of HEAD: for each node as many as `most`, then one for each shared tensor, and each of OWN
most        most results of a kernel that may have an adjoint
shared      address of the value records of shared tensors, in one piece,
shareds     ... and how many there are
arrays      int64[shareds]: where each shared tensor lies
sizes       int64[shareds]: bytes of each,
adds        int64[shareds]: kernel that adds up parts of its adjoint
losses      int64[losses_count]: value records of losses
seeds       int64[losses_count]: where the adjoint of each is,
loss_of     int64[losses_count]: which instance each is of
losses_count how many there are
own         rows of OWN: arrays of instances whose adjoints are wanted, by `data` and `instance`,
owns        ... and how many there are
firsts      int64[shareds + owns]: the first link of the parts of the adjoint of each; 0: there are no links
zeros       address of zeros, as many as the largest adjoint has
largest     bytes of the largest of them
counts      int64[parts]: how many rows each part of a sum has,
places      int64[parts]: ... and where the next address of one is written; or the number, if it is wanted itself
alive       int64[n]: nodes of the batch at hand that have an adjoint
there       int64[entries]: of each row of theirs, its forward row,
of          int64[entries]: ... its node,
turns       int64[entries]: ... and which row of that it is
rows        first free byte of the rows of backward nodes
row_of      int64[n]: row of the backward node of each node; 0 without
links       first free byte of the links,
links_end   ... and the end of their room
place       first free byte of what is computed on the backward pass,
place_end   ... and the end of its room
made        entries of `args` of the backward pass
entries     most entries of `args` that all backward nodes need,
row_bytes   ... and most bytes of their rows
scratch     most bytes of scratch that a batch needs
batches     of the backward pass
lost        whether links had no room
stage       how far `backward` has come: TO_COUNT, TO_TRANSPOSE, TO_RUN, TO_COLLECT, TO_ADD, or ADDED,
stop        ... and before which stage it returns
drive       address of `drive`
room_nodes  nodes,
room_inputs ... shared tensors and arrays of instances,
room_heads  ... rows of HEAD,
room_entries ... entries of backward nodes,
room_bytes  ... bytes of their rows and of rows of `SUM`,
room_batches ... and batches that the tables have room for
rows_at     where `rows` begins,
links_at    ... `links`,
place_at    ... and `place`
zeros_size  bytes of zeros
parts       parts of all sums
adding      address of the state table of the batches of sums, one batch for each job
forms       rows of FORM, one for each sum,
forms_count ... and how many there are
totals      rows of TOTAL: shared tensors in order, then values inside of kernels,
slots       ... and how many there are
starts      int64[parts]: where the rows of each part begin
held        int64[held_room]: the rows of all parts, and tables of jobs,
held_room   ... words of it,
held_rows   ... words that the rows take,
held_need   ... and words that are needed
jobs        number of jobs
""")

# Stages of `backward`, and what it returns beside DONE and PAUSE.
TO_COUNT, TO_TRANSPOSE, TO_RUN, TO_COLLECT, TO_ADD, ADDED = range(6)
NEEDS_ROOM, NEEDS_MEMORY, NEEDS_SCRATCH, NEEDS_HELD = -1, -2, -3, -4

# A sum over nodes that is the same in every mini-batch but for its rows and where its total lies.
FORM = RecordLayout("""
slot        number of its total
how         BY_OUTER, BY_COLUMNS or BY_ROWS
run         address of the function of `kernels.sums`
sort        of BY_ROWS: address of `sort_rows`
first       number of its first part
tasks       tasks of the job
begin       bytes from the start of the total
whole       whether it writes all of the total
flops       of a row
k           columns of the part that it writes; of BY_COLUMNS elements; of BY_ROWS elements of a row
m           rows of that part; of BY_ROWS rows of the total
step        bytes from row to row
panels      panels of columns,
each        ... and how many of them a task has
""")
BY_OUTER, BY_COLUMNS, BY_ROWS = range(3)

TOTAL = RecordLayout("""
to          address
size        bytes
blank       whether nothing has been written to it
shared      number of the shared tensor that it is the gradient of; -1: it is of a value inside of a kernel
columns     address of the function `columns` of its dtype
count       elements
tasks       of `columns`
""")

KERNEL = RecordLayout("""
active      whether it has an adjoint at all
kernel      number of its backward kernel; -1: there is nothing to compute
own         results that may have an adjoint
dtypes      int64[own]: kernel that adds up adjoints of this result; -1: it has none
args        arguments of the backward kernel
sources     rows of SOURCE, of the arguments
before      words of the row of a backward node before the addresses of its results: arguments and run-time extents
results     results of the backward kernel
gives       number of parts of adjoints that it gives,
given       ... and rows of GIVE
records     bytes from the row of a forward node to the records of its results
forward     words from the row of a forward node to its run-time extents
width       bytes of the row of a backward node
rows        0, or of nodes of several rows how each gets its arguments: the same word of `state.KERNEL`
summed      parts of sums over its nodes,
parts       ... rows of PART,
first       ... and the number of the first
""")

# Where something lies: see `analysis.backward.derive.Source`.
SOURCE = RecordLayout("""
kind        OF_ARGUMENT, OF_RESULT, OF_ADJOINT, OF_BACKWARD, OF_TABLE, or AS_NUMBER: an argument, itself
number      of the argument, result, ... or shared tensor
start       bytes
row_kind    of OF_TABLE: where the index lies, a kind,
row_number  ... and its number
row_bytes   bytes of a row,
rows        ... and how many rows there are
""")
OF_ARGUMENT, OF_RESULT, OF_ADJOINT, OF_BACKWARD, OF_TABLE, AS_NUMBER = range(6)

# A product of extents.
EXTENT = RecordLayout("""
factor      a number that is known
count       ... and how many run-time extents
dims        int64[count]: their numbers
""")

GIVE = RecordLayout(f"""
source[{SOURCE.count}]    what is given
arg         argument of the forward node that it is for
list        whether that is a list, whose elements get a piece each
way         of nodes of several rows: OF_WHOLE, OF_ROWS, OF_ITEMS, what each row has read of it
part        PART_ALL, or which row: PART_AT (a constant), PART_BY (what `row` says)
at          the constant
row[{SOURCE.count}]       what says which row
size[{EXTENT.count}]     bytes of the piece; of a list, of an element
width[{EXTENT.count}]    bytes of a row
rows[{EXTENT.count}]     rows of the operand
""")
PART_ALL, PART_AT, PART_BY = range(3)
OF_WHOLE, OF_ROWS, OF_ITEMS = range(3)

# A part of a sum over nodes.
PART = RecordLayout(f"""
source[{SOURCE.count}]    where the first row lies
rows[{EXTENT.count}]     how many rows a node has
step[{EXTENT.count}]     bytes from one to the next
read        whether it is what lies there, int64, that is wanted
""")

HEAD = RecordLayout("""
source      address of the only part; or of the first link
key         0: there is none; -1: there are links; else 1 + key of the only part
""")

OWN = RecordLayout("""
data        address of the data,
instance    ... and which instance it is of; -1: it is shared
size        bytes of it
adds        kernel that adds up parts of its adjoint
""")

JOB = RecordLayout("""
turned      whether the array has gates * n rows of k elements; 0: k rows of gates * n elements
array       its address,
stride      ... and bytes from row to row
to          address of the packed form
k           elements of a column
gates       matrices side by side,
n           ... and columns of each
columns     of each in a panel
size        bytes of an element
panels      bytes from panel to panel,
step        ... and from k to k + 1
""")

_PLACES = BACK.constants("B_") | {"B_BYTES": BACK.size}
for _prefix, _table in {
    "BK_": KERNEL, "SOURCE_": SOURCE, "GIVE_": GIVE, "EXTENT_": EXTENT, "PART_": PART, "HEAD_": HEAD, "LINK_": LINK,
    "SUM_": SUM, "OWN_": OWN, "JOB_": JOB, "FORM_": FORM, "TOTAL_": TOTAL,
}.items():  # fmt: skip
    _PLACES |= _table.constants(_prefix) | {f"{_prefix}BYTES": _table.size}
for _job, _words in WORDS_OF.items():
    _PLACES |= {f"{_job.upper()}_{word.upper()}": k for k, word in enumerate(_words)}


def __getattr__(name: str) -> int:
    try:
        return _PLACES[name]
    except KeyError:
        raise AttributeError(f"no word of a table: {name}") from None
