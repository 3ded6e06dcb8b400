"""Keys of nodes: the kernel or, if all nodes of a batch must have equal extents, kernel and run-time extents. Nodes of
one key may be one batch.

In: the node columns of the state table. Out: `key`, and the table of keys.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, ld, ld32, lds, st, st32
from acronumba.runtime.library.extents import hash_words, same_words

from acronumba.runtime.library.words import (  # isort: skip
    HASH, KERNELS, KEY, KEYED, KEYS, KEYTAB, KIND, K_ARGS, K_DIMS, K_WORDS, N, ROW, TABLE,
)  # fmt: skip


def number_keys(ST: i64) -> None:
    """Set the key number of each node: the number of its kernel, if extents are not part of keys."""
    n, kernels, keytab = lds(ST, N, KERNELS, KEYTAB)
    for k in range(kernels):
        st(keytab, 2 * k, k)
        st(keytab, 2 * k + 1, 0)
    count = kernels
    if ld(ST, KEYED) != 0:
        kind, key, row, table, hash = lds(ST, KIND, KEY, ROW, TABLE, HASH)
        slots = 2  # as many as this round needs: clearing all that the largest one needed would cost each of them
        while slots < 2 * n:
            slots = 2 * slots
        mask = slots - 1
        fill_bytes(hash, 0, 4 * slots)
        for v in range(n):
            k = ld32(kind, v)
            dims = ld(table, K_WORDS * k + K_DIMS)
            if dims == 0:
                st32(key, v, k)
            else:
                at = ld(row, v) + 8 * ld(table, K_WORDS * k + K_ARGS)
                slot = hash_words(at, dims, k + 1) & mask
                found = -1
                while found < 0:
                    there = ld32(hash, slot)
                    if there == 0:
                        st32(hash, slot, count + 1)
                        st(keytab, 2 * count, k)
                        st(keytab, 2 * count + 1, at)
                        found = count
                        count = count + 1
                    else:
                        same = 0
                        if ld(keytab, 2 * there - 2) == k:
                            same = same_words(ld(keytab, 2 * there - 1), at, dims)
                        if same != 0:
                            found = there - 1
                        slot = (slot + 1) & mask
                st32(key, v, found)
    st(ST, KEYS, count)
