"""Equal nodes: a node of a kernel whose row has the same words as that of a recorded one is that node.

In: the row of a node that is about to be recorded, and a hash of it. Out: the recorded node that is equal to it, if
there is one.

The invariant: two nodes are one only if they have the same kernel and the same words in their rows, but for the
records of their results. These words are all that differs between calls of a kernel (`ir.spec`): its arguments, its
run-time extents, and the extents of its results, of which the first is how many rows a node has that is several. An
argument is a number, compared by its bits, or the address of a value record, which stands for one tensor as long as
the mini-batch runs: no operation writes into the result of another, and the heap gives no address twice. A list may
grow behind its address, and what may fail has a failure of its own in each instance: nodes of such kernels are never
one (`host.instructions.once_if_equal`). With ACRONUMBA_VERIFY=3 nodes are computed again for those that share them.

Nodes are found in a table by the hash, one place after the other (linear probing). An entry is the hash
and a node, or -1 where none is. The table is small at first, so that a round of few nodes needs little of the cache;
where it is half full, one that is four times as large (the largest may be twice as large) is made of it, behind it.
What counts is what the node's row holds now: an entry of a node that was dropped, as its instance has failed, is free
or that of the node which has its number since.

A kernel whose nodes are seldom equal is looked for seldom: its credit falls by one where none is found, and where one
is rises by what that saves. Where it is used up, looking pauses until so many nodes have been recorded, and begins
again with little credit; the next pause is four times as long, or twice if any node of the mini-batch has been found,
up to where looking in vain costs little beside the work. Where many have been recorded and none has been found,
entries and code that are looked at so seldom are not in the cache, and looking takes several times as long: pauses
may be longer then.
Kernels that read results of others begin with little credit, as they are seldom equal where nothing else is, and get
more when the first node is found. Whether nodes are looked for changes how many there are, and no bit of what they
compute.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, ld, ld32, lds, st
from acronumba.runtime.library.extents import same_words
from acronumba.runtime.library.records import halves, high_half, low_half
from acronumba.runtime.state import EQUAL_AGAIN, EQUAL_MANY, EQUAL_NONE, EQUAL_PAUSE, EQUAL_SLOTS

from acronumba.runtime.library.words import (  # isort: skip
    CREDIT, EQUAL, EQUAL_COUNT, EQUAL_FIRST, EQUAL_FOUND, EQUAL_MASK, EQUAL_MOST, KERNELS, KIND, K_EQUAL_GAIN,
    K_EQUAL_LATE, K_EQUAL_PAUSE, K_EQUAL_TRIES, K_WORDS, LOOK, N, NCAP, NROOM, ROW, TABLE,
)  # fmt: skip


def find_equal(ST: i64, k: i64, at: i64, given: i64, count: i64, extents: i64, more: i64, hash: i64, n: i64) -> i64:
    """Return the node of kernel k that has the same words in its row; -1: there is none, and node n will be it.

    Parameters
    ----------
    k
        The kernel.
    at
        The row of the node.
    given, count
        The first word of the arguments and run-time extents, and how many there are.
    extents, more
        The first word of the extents of the results, and how many there are.
    hash
        Of the kernel and all these words: 31 bits.
    n
        The number of recorded nodes.
    """
    table, mask, kind, row = lds(ST, EQUAL, EQUAL_MASK, KIND, ROW)
    slot = hash & mask
    there = ld(table, slot)
    while there >= 0:
        v = low_half(there)
        if v >= n:
            st(table, slot, halves(hash, n))
            pay(ST, k, n)
            return -1
        if high_half(there) == hash:
            if ld32(kind, v) == k:
                other = ld(row, v)
                same = same_words(other + 8 * given, at + 8 * given, count)
                if same & same_words(other + 8 * extents, at + 8 * extents, more) != 0:
                    gain(ST, k)
                    return v
        slot = (slot + 1) & mask
        there = ld(table, slot)
    st(table, slot, halves(hash, n))
    used = ld(ST, EQUAL_COUNT) + 1
    st(ST, EQUAL_COUNT, used)
    if 2 * used > mask + 1:
        enlarge(ST, n)
    pay(ST, k, n)
    return -1


def gain(ST: i64, k: i64) -> None:
    """Add to the credit of a kernel what an equal node saves; the first one lets all kernels be looked for."""
    credit = ld(ST, CREDIT) + 16 * k
    kernel = ld(ST, TABLE) + 8 * K_WORDS * k
    st(credit, 0, min(ld(credit) + ld(kernel, K_EQUAL_GAIN), ld(kernel, K_EQUAL_TRIES)))
    if ld(ST, EQUAL_FOUND) == 0:
        begin_looking(ST, 1)


def pay(ST: i64, k: i64, n: i64) -> None:
    """Take from the credit of a kernel what it takes to look for a node; where nothing is left, pause."""
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
    """Make a larger table; begin anew where failed instances have left too little room for one."""
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
    """Let an empty table be the one that nodes are looked for in."""
    fill_bytes(table, 255, 8 * slots)
    st(ST, EQUAL, table)
    st(ST, EQUAL_MASK, slots - 1)
    st(ST, EQUAL_COUNT, 0)


def begin_equals(ST: i64) -> None:
    """Begin a mini-batch."""
    if ld(ST, EQUAL_FIRST) != 0:
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
    """Begin another round or part: forget the nodes that can be found; the next ones are counted anew."""
    look, n = lds(ST, LOOK, N)
    if ld(ST, EQUAL_FIRST) != 0:
        st(ST, NROOM, ld(ST, NCAP))
        for k in range(ld(ST, KERNELS)):
            st(look, k, max(ld(look, k) - n, 0))
        if ld(ST, EQUAL_COUNT) != 0:
            begin_table(ST, ld(ST, EQUAL_FIRST), min(EQUAL_SLOTS, ld(ST, EQUAL_MOST)))
