"""Equal nodes: a node with the same kernel and words as a recorded node is replaced by it.

In: the row of a node that is about to be recorded, and a hash of it. Out: the recorded node that is equal to it, if
there is one.

The invariant: two nodes are one only if they have the same kernel and the same words in their rows, except for the
records of their results. These words are all that differs between calls of a kernel (`ir.spec`): its arguments, its
run-time extents, and the extents of its results, of which the first is the number of rows of a node of several. An
argument is a number, compared by its bits, or the address of a value record, which stands for one tensor as long as
the mini-batch runs: no operation writes into the result of another, and the heap gives no address twice. A list may
grow behind its address, and failures belong to one instance: nodes of kernels with list arguments, or that may fail,
are never one (`host.instructions.once_if_equal`). With ACRONUMBA_VERIFY=3 shared nodes are computed again for each use.

A node that reads results of nodes can only be equal to one that was recorded after the newest of them. So it is looked
for among the nodes that have this node as their newest operand: they form a list, see `reader` in `state.STATE`. In a
recurrence that list is empty, and the host program then enters the node without a search. Nodes beyond the first
EQUAL_READERS of a list, and nodes that read no results of nodes, are found in a hash table with linear probing. An
entry is the hash and a node, or -1 if it is empty. The table is small at first, so that a round of few nodes needs
little of the cache; when it is half full, it is copied to one behind it that is four times as large (the largest may be
twice as large). The node's present row counts: the entry of a node that was dropped, as its instance has failed, is
empty, or an entry of the node that has its number since. A list ends at such an entry.

In front of the table is a memo of nodes with one word to compare, such as rows of a table of vectors: the host program
finds them there without touching their rows (`host.instructions`). An entry has the word itself, so it is exact; all
entries become invalid if a round begins or nodes are dropped, and are made again by the search that follows.

Kernels whose nodes are seldom equal are searched seldom: the credit of a kernel falls by one for each failed search,
and rises by the saved time for each success. When the credit is used up, the search pauses for a number of recorded
nodes, and resumes with little credit; the next pause is four times as long, or twice if any node of the mini-batch has
been found, up to a length at which failed searches cost little compared with the work. If many nodes have been recorded
and none found, the table and the code of the search are no longer in the cache, and a search takes several times as
long: pauses may be longer then. Kernels that read results of others begin with little credit, as they are seldom equal
if no other node is, and get more when the first node is found. Whether nodes are searched for changes the number of
nodes, and no bit of their results.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, inline, ld, ld32, lds, st, st32
from acronumba.runtime.library.extents import same_words
from acronumba.runtime.library.records import halves, high_half, low_half, memo_of
from acronumba.runtime.state import EQUAL_AGAIN, EQUAL_MANY, EQUAL_NONE, EQUAL_PAUSE, EQUAL_READERS, EQUAL_SLOTS

from acronumba.runtime.library.words import (  # isort: skip
    CREDIT, EQUAL, EQUAL_COUNT, EQUAL_FIRST, EQUAL_FOUND, EQUAL_MASK, EQUAL_MOST, KERNELS, KIND, K_EQUAL_GAIN,
    K_EQUAL_LATE, K_EQUAL_PAUSE, K_EQUAL_TRIES, K_TENSORS, K_WORDS, LOOK, MEMO, MEMO_TAG, N, NCAP, NROOM, READER, ROW,
    TABLE,
)  # fmt: skip


def find_equal(
    ST: i64, k: i64, at: i64, given: i64, count: i64, extents: i64, more: i64, hash: i64, newest: i64, n: i64
) -> i64:
    """Return the node of kernel k that has the same words in its row, or -1; node n is entered then.

    Parameters
    ----------
    k
        The kernel.
    at
        The row of the node.
    given, count
        The first word of the arguments and run-time extents, and their number.
    extents, more
        The first word of the extents of the results, and their number.
    hash
        Of the kernel and all these words: 31 bits.
    newest
        The last recorded node whose result it reads; -1: there is none.
    n
        The number of recorded nodes.
    """
    v = -1
    readers = EQUAL_READERS
    if newest >= 0:
        reader = ld(ST, READER)
        v = ld32(reader, 2 * newest)
        readers = 0
        while v >= 0 and v < n and readers < EQUAL_READERS:
            if is_equal(ST, k, v, at, given, count, extents, more) != 0:
                gain(ST, k)
                return v
            v = ld32(reader, 2 * v + 1)
            readers = readers + 1
        if readers < EQUAL_READERS:
            if readers > 0:
                st32(reader, 2 * n + 1, ld32(reader, 2 * newest))
            st32(reader, 2 * newest, n)
    if readers == EQUAL_READERS:
        v = find_in_table(ST, k, at, given, count, extents, more, hash, n)
        if v >= 0:
            gain(ST, k)
            return v
    pay(ST, k, n)
    return -1


@inline
def is_equal(ST: i64, k: i64, v: i64, at: i64, given: i64, count: i64, extents: i64, more: i64) -> i64:
    """Return whether node v is of kernel k and has the same words in its row as there are at address `at`."""
    kind, row = lds(ST, KIND, ROW)
    if ld32(kind, v) == k:
        other = ld(row, v)
        same = same_words(other + 8 * given, at + 8 * given, count)
        return same & same_words(other + 8 * extents, at + 8 * extents, more)
    return 0


def find_in_table(ST: i64, k: i64, at: i64, given: i64, count: i64, extents: i64, more: i64, hash: i64, n: i64) -> i64:
    """Return the node in the hash table that has the same words in its row, or -1; node n is entered then."""
    table, mask = lds(ST, EQUAL, EQUAL_MASK)
    only = ld(at, given)
    slot = hash & mask
    there = ld(table, slot)
    while there >= 0:
        v = low_half(there)
        if v >= n:
            st(table, slot, halves(hash, n))
            remember(ST, k, only, count + more, n, at)
            return -1
        if high_half(there) == hash:
            if is_equal(ST, k, v, at, given, count, extents, more) != 0:
                remember(ST, k, only, count + more, v, ld(ld(ST, ROW), v))
                return v
        slot = (slot + 1) & mask
        there = ld(table, slot)
    st(table, slot, halves(hash, n))
    used = ld(ST, EQUAL_COUNT) + 1
    st(ST, EQUAL_COUNT, used)
    if 2 * used > mask + 1:
        enlarge(ST, n)
    remember(ST, k, only, count + more, n, at)
    return -1


def remember(ST: i64, k: i64, word: i64, count: i64, v: i64, at: i64) -> None:
    """Enter node v of kernel k, whose row is at address `at` and has `count` words to compare, into the memo."""
    if count == 1 and ld(ld(ST, TABLE), K_WORDS * k + K_TENSORS) == 0:
        place = memo_of(ld(ST, MEMO), word, k)
        st(place, 0, word)
        st(place, 1, ld(ST, MEMO_TAG) + k)
        st(place, 2, v)
        st(place, 3, at)


def gain(ST: i64, k: i64) -> None:
    """Add the saving of an equal node to the credit of its kernel; the first one gives credit to all kernels."""
    credit = ld(ST, CREDIT) + 16 * k
    kernel = ld(ST, TABLE) + 8 * K_WORDS * k
    st(credit, 0, min(ld(credit) + ld(kernel, K_EQUAL_GAIN), ld(kernel, K_EQUAL_TRIES)))
    if ld(ST, EQUAL_FOUND) == 0:
        begin_looking(ST, 1)


def pay(ST: i64, k: i64, n: i64) -> None:
    """Take the cost of a failed search from the credit of a kernel; pause if none is left."""
    credit = ld(ST, CREDIT) + 16 * k
    left = ld(credit) - 1
    if left == 0:
        most = ld(ld(ST, TABLE), K_WORDS * k + K_EQUAL_PAUSE)
        if ld(ST, EQUAL_FOUND) == 0:
            most = most * min(1 + n // EQUAL_MANY, EQUAL_NONE)
        pause = min(ld(credit, 1), most)
        st(ld(ST, LOOK), k, n + pause)
        st(credit, 1, (4 - 2 * ld(ST, EQUAL_FOUND)) * pause)
        left = EQUAL_AGAIN
    st(credit, 0, left)


def enlarge(ST: i64, n: i64) -> None:
    """Make a larger table; start with an empty one if failed instances have left too little memory for it."""
    table, mask = lds(ST, EQUAL, EQUAL_MASK)
    slots = min(4 * (mask + 1), ld(ST, EQUAL_MOST))
    if slots == mask + 1:
        begin_table(ST, table, slots)
        return
    larger = table + 8 * (mask + 1)
    begin_table(ST, larger, slots)
    count = 0
    for k in range(mask + 1):
        entry = ld(table, k)
        if entry >= 0:
            if low_half(entry) <= n:
                slot = high_half(entry) & (slots - 1)
                while ld(larger, slot) >= 0:
                    slot = (slot + 1) & (slots - 1)
                st(larger, slot, entry)
                count = count + 1
    st(ST, EQUAL_COUNT, count)


def begin_table(ST: i64, table: i64, slots: i64) -> None:
    """Start with an empty table of so many slots."""
    fill_bytes(table, 255, 8 * slots)
    st(ST, EQUAL, table)
    st(ST, EQUAL_MASK, slots - 1)
    st(ST, EQUAL_COUNT, 0)


def begin_equals(ST: i64) -> None:
    """Begin a mini-batch."""
    if ld(ST, EQUAL_FIRST) != 0:
        st(ST, MEMO_TAG, ld(ST, MEMO_TAG) + ld(ST, KERNELS))
        begin_looking(ST, 0)
        begin_table(ST, ld(ST, EQUAL_FIRST), min(EQUAL_SLOTS, ld(ST, EQUAL_MOST)))


def begin_looking(ST: i64, found: i64) -> None:
    """Give credit to the kernels, or, when the first node has been `found`, to those that began with little."""
    credit, look, table = lds(ST, CREDIT, LOOK, TABLE)
    for k in range(ld(ST, KERNELS)):
        if ld(table, K_WORDS * k + K_EQUAL_LATE) == found:
            st(credit, 2 * k, (1 + found) * ld(table, K_WORDS * k + K_EQUAL_TRIES))
            st(credit, 2 * k + 1, EQUAL_PAUSE)
            st(look, k, 0)
        elif found == 0:
            st(credit, 2 * k, EQUAL_AGAIN)
            st(credit, 2 * k + 1, 4 * EQUAL_PAUSE)
            st(look, k, EQUAL_PAUSE)
    st(ST, EQUAL_FOUND, found)


def next_equals(ST: i64) -> None:
    """Begin another round or part: empty the table, as nodes are numbered from 0 again."""
    look, n = lds(ST, LOOK, N)
    if ld(ST, EQUAL_FIRST) != 0:
        st(ST, NROOM, ld(ST, NCAP))
        st(ST, MEMO_TAG, ld(ST, MEMO_TAG) + ld(ST, KERNELS))
        for k in range(ld(ST, KERNELS)):
            st(look, k, max(ld(look, k) - n, 0))
        if ld(ST, EQUAL_COUNT) != 0:
            begin_table(ST, ld(ST, EQUAL_FIRST), min(EQUAL_SLOTS, ld(ST, EQUAL_MOST)))
