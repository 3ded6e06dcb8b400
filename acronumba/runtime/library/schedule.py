"""Scheduling: partitions the recorded dataflow graph into batches, in order of execution.

In: the node columns of the state table. Out: `order`, and the batches: nodes of one key, that is kernel and run-time
extents. Compiled library code, the same for every model.

depth      A node's level is its depth: 1 + that of its deepest operand (ACRoBat, TensorFlow Fold). With phases it
           counts inside a component of the graph of keys, see `components`.
agenda     See `frontier`.
lookahead  Always by components; a search if depth is not proved optimal. See `lookahead`.
caller     The levels are given: batch numbers from a user's function, checked by `runtime.levels`.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, st
from acronumba.runtime.library.batches import count_levels, make_batches
from acronumba.runtime.library.components import by_depth, find_components
from acronumba.runtime.library.frontier import agenda
from acronumba.runtime.library.keys import number_keys
from acronumba.runtime.library.lookahead import lookahead
from acronumba.runtime.library.words import LEVEL, NOTED_USES, PHASED, POLICY
from acronumba.runtime.state import BY_AGENDA, BY_DEPTH, BY_LOOKAHEAD, DONE


def schedule(ST: i64) -> i64:
    """Make the batches of all recorded nodes."""
    number_keys(ST)
    st(ST, NOTED_USES, 0)
    policy = ld(ST, POLICY)
    if policy == BY_LOOKAHEAD:
        return lookahead(ST, 1)
    if policy == BY_DEPTH and ld(ST, PHASED) != 0:
        find_components(ST)
        make_batches(ST, 1)
        return DONE
    if policy == BY_DEPTH:
        by_depth(ST)
    if policy == BY_AGENDA:
        status = agenda(ST, ld(ST, LEVEL))
        if status != DONE:
            return status
    count_levels(ST)
    make_batches(ST, 0)
    return DONE


def bound(ST: i64) -> i64:
    """Compute the lower bound of the number of batches, for a schedule that did not need it."""
    number_keys(ST)
    return lookahead(ST, 0)
