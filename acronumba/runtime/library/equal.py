"""Equal nodes: a node of a kernel whose arguments and run-time extents are those of a recorded one is that node.

In: the words of a node that is about to be recorded. Out: the recorded node that is equal to it, if there is one. Nodes
are found in a table by the hash of their words, one place after the other (linear probing). An entry is the number of
its round or part, of which others are free, and a node. What counts is what the node's row holds now: an entry of a
node that was dropped, as its instance has failed, is free or that of the node which has its number since.

A kernel whose nodes are seldom equal is given up: its credit falls by one where none is found, and where one is rises
by what that saves. Whether nodes are looked for changes how many there are, and no bit of what they compute.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, ld, ld32, lds, st
from acronumba.runtime.library.extents import hash_words, same_words
from acronumba.runtime.library.records import halves, high_half, low_half
from acronumba.runtime.state import DONE

from acronumba.runtime.library.words import (  # isort: skip
    CREDIT, EQUAL, EQUAL_COUNT, EQUAL_MASK, EQUAL_ROUND, KERNELS, KIND, K_ARGS, K_DIMS, K_EQUAL_GAIN, K_EQUAL_MOST,
    K_WORDS, N, NCAP, NROOM, ROW, TABLE,
)  # fmt: skip


def find_equal(ST: i64, k: i64, at: i64, count: i64, n: i64) -> i64:
    """Return the node of kernel k whose words are those at an address; -1: there is none, and node n will be it.

    Parameters
    ----------
    k
        The kernel.
    at, count
        Where its arguments and run-time extents are, and how many.
    n
        The number of recorded nodes.
    """
    table, mask, round, kind, row, credit = lds(ST, EQUAL, EQUAL_MASK, EQUAL_ROUND, KIND, ROW, CREDIT)
    slot = hash_words(at, count, k + 1) & mask
    there = ld(table, slot)
    while high_half(there) == round:
        v = low_half(there)
        if v >= n:
            st(table, slot, halves(round, n))
            st(credit, k, ld(credit, k) - 1)
            return -1
        if ld32(kind, v) == k:
            if same_words(ld(row, v), at, count) != 0:
                kernel = ld(ST, TABLE) + 8 * K_WORDS * k
                st(credit, k, min(ld(credit, k) + ld(kernel, K_EQUAL_GAIN), ld(kernel, K_EQUAL_MOST)))
                return v
        slot = (slot + 1) & mask
        there = ld(table, slot)
    st(credit, k, ld(credit, k) - 1)
    enter(ST, slot, n)
    return -1


def enter(ST: i64, slot: i64, n: i64) -> None:
    """Store node n where the table is free; begin anew where failed instances have left too little room."""
    used = ld(ST, EQUAL_COUNT) + 1
    if 2 * used > ld(ST, EQUAL_MASK) + 1:
        next_equals(ST)
        used = 1
    st(ld(ST, EQUAL), slot, halves(ld(ST, EQUAL_ROUND), n))
    st(ST, EQUAL_COUNT, used)


def begin_equals(ST: i64) -> None:
    """Begin a mini-batch: look for nodes of all kernels of which that may pay."""
    credit, table = lds(ST, CREDIT, TABLE)
    for k in range(ld(ST, KERNELS)):
        st(credit, k, ld(table, K_WORDS * k + K_EQUAL_MOST))
    next_equals(ST)


def next_equals(ST: i64) -> None:
    """Forget the nodes that can be found."""
    st(ST, NROOM, ld(ST, NCAP))
    st(ST, EQUAL_COUNT, 0)
    st(ST, EQUAL_ROUND, ld(ST, EQUAL_ROUND) + 1)
    if ld(ST, EQUAL_ROUND) == 1 << 31:
        fill_bytes(ld(ST, EQUAL), 0, 8 * (ld(ST, EQUAL_MASK) + 1))
        st(ST, EQUAL_ROUND, 1)


def enter_equals(ST: i64) -> i64:
    """Enter the recorded nodes of kernels that are looked for into a new table."""
    equal, mask, round, kind, row, table = lds(ST, EQUAL, EQUAL_MASK, EQUAL_ROUND, KIND, ROW, TABLE)
    count = 0
    for v in range(ld(ST, N)):
        k = ld32(kind, v)
        kernel = table + 8 * K_WORDS * k
        if ld(kernel, K_EQUAL_MOST) != 0:
            slot = hash_words(ld(row, v), ld(kernel, K_ARGS) + ld(kernel, K_DIMS), k + 1) & mask
            while high_half(ld(equal, slot)) == round:
                slot = (slot + 1) & mask
            st(equal, slot, halves(round, v))
            count = count + 1
    st(ST, EQUAL_COUNT, count)
    return DONE
