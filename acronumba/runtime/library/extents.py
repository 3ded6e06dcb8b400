"""Run-time extents of nodes, which differ within a batch: `plan` computes the sizes of a node from them."""

from __future__ import annotations

from acronumba.emit.language import call_address, i64, inline, ld, lshr

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, K_ARGS, K_DIMS, K_PLAN, SIZES, TABLE,
)  # fmt: skip


def extents_of(ST: i64, k: i64, i: i64) -> i64:
    """Return the address of the run-time extents of the node at position i of the order."""
    return ld(ld(ST, ARGS), i) + 8 * ld(ld(ST, TABLE), k + K_ARGS)


@inline
def same_words(one: i64, other: i64, count: i64) -> i64:
    """Return whether `count` words at two addresses are equal."""
    for j in range(count):
        if ld(one, j) != ld(other, j):
            return 0
    return 1


def hash_words(at: i64, count: i64, h: i64) -> i64:
    """Return the hash `h` updated by `count` words."""
    for j in range(count):
        h = (h ^ ld(at, j)) * 6364136223846793005
        h = h ^ lshr(h, 29)
    return h


def plan_node(ST: i64, k: i64, at: i64, known: i64) -> i64:
    """Fill `sizes` with the sizes of a node whose extents are at address `at`; return `at`.

    `known` is the return value for the last node of the kernel, or 0: if its extents are equal, `sizes` stays, and
    `known` is returned.
    """
    table = ld(ST, TABLE)
    if known != 0:
        if same_words(at, known, ld(table, k + K_DIMS)) != 0:
            return known
    call_address(ld(table, k + K_PLAN), at, ld(ST, SIZES))
    return at
