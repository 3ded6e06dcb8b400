"""The schedule `lookahead`: components of the graph of keys one by one, each with few batches, and a bound below them.

In: the node columns, as for `schedule`, whose components, levels, frontier and batches are used. Out: levels of fewer
batches, and `bound`, -1 if it was not computed. Compiled library code, the same for every model.

A batch runs all ready nodes of one key, so a schedule is a word over keys, and only the keys are to be chosen. It is
feasible iff the keys of every path of the graph are a subsequence of it: the shortest common supersequence of all
paths is to be found, which is NP-hard with two keys already.

Bound. Of each key, the nodes of one path run in different batches: no schedule has fewer batches than the sum, over
the keys, of the most nodes of the key on one path. A component of one key (a leaf, a classifier, an LSTM, a tree)
has as many depths: the schedule by depth is optimal, and nothing more is done. In a component of several keys a pass
over its nodes finds the sum (`chains`). If the schedule by depth has as many batches, it is proved optimal; this is
the usual end. Otherwise the component is searched, as far as `effort` says, until the bound is reached:

    0   `look`: run next the key with the largest share of ready nodes, counting nodes that begin the longest remaining
        chains of their key ("soft tightness"). If all nodes that begin the longest chains are ready, the bound of the
        rest falls with the batch: such keys go first. If no key is such, a key whose run makes one.
    1   `prune`: leave out the steps that no node needs.
    2   the same on the reversed graph, pruned.
    3   also the schedules by the agenda, by depth in the component and by depth without components, restricted to the
        component and pruned. A schedule restricted to the keys of a component is feasible for the component, and
        pruning adds nothing: so there are never more batches than the best of these three has.

Each is compared with the schedule by depth in the component. Without an `effort`, a search is skipped if three quarters
of the batches above the bound (about the number that the first search saves) cost less time than the search: on a CPU a
batch is cheap, and a schedule that takes longer to find than it saves is no gain. A batch costs its launch, or the
reading of its weights. If a search does not pay even if one batch were enough, the bound is not computed either, until
it is requested (`bound`: a trace). If a search pays, 2 and 3, which save a third of what is left, are still left out if
the first search has left too few batches above the bound.

The bound is of ED-Batch (Chen et al. 2023), whose condition for a safe batch implies a tight one; soft tightness,
pruning and the guarantee are new here. All tables are linear in the nodes and edges of a component.
"""

from __future__ import annotations

from acronumba.emit.language import (
    copy_bytes,
    f64,
    fill_bytes,
    i32,
    i32x8,
    i64,
    lanes,
    ld,
    ld32,
    ldf,
    lds,
    load,
    select,
    st,
    st32,
    stf,
    store,
)
from acronumba.runtime.library.batches import make_batches
from acronumba.runtime.library.components import component_levels, find_components
from acronumba.runtime.library.frontier import advance, agenda, graph, start
from acronumba.runtime.library.records import component_of, group_of, node_of, place_of
from acronumba.runtime.state import DONE, GROW_CHAINS

from acronumba.runtime.library.words import (  # isort: skip
    ABLE, AGENDA_LENGTHS, AGENDA_STEP, AGENDA_WORDS, ARGS, BEST, BFIRST, BKEY, BOUND, BSTART, BUDGET, CCAP, CHAINS,
    COUNTED, COUNTS, DEEPEST, DEGREE, DEPTH, DEPTH_LENGTHS, DEPTH_WORDS, DUE, EFFORT, EFIRST, EFROM, FRESH, GKINDS,
    GROUPS, HEIGHT, KEY, KEYS, KIND, K_LISTS, K_SHARES, K_STAGES, K_TENSORS, K_WORDS, LATE, LAUNCH, LEVEL, LFIRST,
    LIST_ITEMS, LIST_LENGTH, LOCAL, LONGEST, MEMBERS, MIXED, N, NOTED_USES, ORDER, OWN, PEAK, PLACE, QUEUE, RAN_AT,
    READY, RECORD_HEAD, REMAIN, RESTRICTED, RSTART, SCORE, SFIRST, SIZE, SKIND, SNEXT, SPARE, STAGE_WEIGHTS,
    STAGE_BYTES, TABLE, TOUCHED, WORD,
)  # fmt: skip

NEAR = 8  # so many heights below the largest count in the score of a kind
TIGHT = 1000.0  # more than any share
START = 6000  # nanoseconds that one more search takes,
SEARCH = 60  # and per node
WHOLE = 12  # of as many batches above the bound
FIRST = 9  # the first search saves so many,
MORE = 4  # and a further one


def lookahead(ST: i64, improve: i64) -> i64:
    """Make batches by component; compute the bound; with `improve`, search the components above the bound."""
    find_components(ST)
    make_batches(ST, 1)
    groups, size, bfirst = lds(ST, GROUPS, SIZE, BFIRST)
    total = 0
    searched = 0
    unknown = 0
    st(ST, RESTRICTED, 0)
    for c in range(groups):
        batches = ld32(bfirst, c + 1) - ld32(bfirst, c)
        least = batches
        if ld32(size, c) > 1 and batches > 1:
            if improve != 0 and ld(ST, EFFORT) < 0 and pays(ST, c, batches - 1, FIRST) == 0:
                unknown = 1
            elif ld(ST, N) > ld(ST, CCAP):
                return GROW_CHAINS
            else:
                least = chains(ST, c, 0)
                if batches > least and improve != 0:
                    status = search(ST, c, least)
                    if status != DONE:
                        return status
                    searched = 1
        total = total + least
    st(ST, BOUND, -1 if unknown else total)
    if searched != 0:
        st(ST, NOTED_USES, 0)
        component_levels(ST)
        make_batches(ST, 1)
    return DONE


def chains(ST: i64, c: i64, back: i64) -> i64:
    """Find the most nodes of its kind on a path to each member, `own` (back: from it, `height`); sum up the largest."""
    kind, key, order, args, level, local, table = lds(ST, KIND, KEY, ORDER, ARGS, LEVEL, LOCAL, TABLE)
    chain, longest, own = lds(ST, CHAINS, LONGEST, HEIGHT if back else OWN)
    first = ld32(ld(ST, LFIRST), c)
    low = ld32(ld(ST, BSTART), ld32(ld(ST, BFIRST), c))
    high = ld32(ld(ST, BSTART), ld32(ld(ST, BFIRST), c + 1))
    kinds = ld32(ld(ST, SIZE), c)
    fill_bytes(longest, 0, 4 * kinds)
    for block in range(0, kinds, 8):  # eight kinds at a time
        if back != 0:
            for x in range(low, high):
                store(chain + 32 * ld32(order, x), i32x8(0))
        for i in range(low, high):
            x = i
            if back != 0:
                x = low + high - 1 - i
            v = ld32(order, x)
            at = ld(args, x)
            k = table + 8 * K_WORDS * ld32(kind, v)
            mine = ld32(local, ld32(key, v)) - block
            most = i32x8(0)
            if back != 0:
                most = load(i32x8, chain + 32 * v)
            else:
                tensors = ld(k, K_TENSORS)
                for j in range(tensors):
                    u = node_of(ld(ld(at, j), RECORD_HEAD))
                    if u >= 0 and ld32(level, u) >= first:
                        most = max(most, load(i32x8, chain + 32 * u))
                for j in range(ld(k, K_LISTS)):
                    items = ld(ld(at, tensors + j), LIST_ITEMS)
                    for e in range(ld(ld(at, tensors + j), LIST_LENGTH)):
                        u = node_of(ld(ld(items, e), RECORD_HEAD))
                        if u >= 0 and ld32(level, u) >= first:
                            most = max(most, load(i32x8, chain + 32 * u))
            most = most + select(lanes(i32x8) == i32x8(i32(mine)), i32x8(1), i32x8(0))
            store(chain + 32 * v, most)
            if mine >= 0 and mine < 8:
                d = ld32(chain, 8 * v + mine)
                st32(own, x - low, d)
                st32(longest, block + mine, max(ld32(longest, block + mine), d))
            if back != 0:
                tensors = ld(k, K_TENSORS)
                for j in range(tensors):
                    u = node_of(ld(ld(at, j), RECORD_HEAD))
                    if u >= 0 and ld32(level, u) >= first:
                        store(chain + 32 * u, max(most, load(i32x8, chain + 32 * u)))
                for j in range(ld(k, K_LISTS)):
                    items = ld(ld(at, tensors + j), LIST_ITEMS)
                    for e in range(ld(ld(at, tensors + j), LIST_LENGTH)):
                        u = node_of(ld(ld(items, e), RECORD_HEAD))
                        if u >= 0 and ld32(level, u) >= first:
                            store(chain + 32 * u, max(most, load(i32x8, chain + 32 * u)))
    total = 0
    for t in range(kinds):
        total = total + ld32(longest, t)
    return total


def pays(ST: i64, c: i64, batches: i64, share: i64) -> i64:
    """Return whether one more search of component c is worth its time if it saves a share of so many batches."""
    kind, order, table, bstart, bfirst = lds(ST, KIND, ORDER, TABLE, BSTART, BFIRST)
    low = ld32(bfirst, c)
    high = ld32(bfirst, c + 1)
    reading = 0  # nanoseconds for the weights of all batches
    for b in range(low, high):
        k = table + 8 * K_WORDS * ld32(kind, ld32(order, ld32(bstart, b)))
        for s in range(ld(k, K_STAGES)):
            reading = reading + ld(ld(k, K_SHARES) + STAGE_BYTES * s, STAGE_WEIGHTS)
    each = max(ld(ST, LAUNCH), reading // max(high - low, 1))
    members = ld32(bstart, high) - ld32(bstart, low)
    if batches * share * each > (START + members * SEARCH) * WHOLE:
        return 1
    return 0


def search(ST: i64, c: i64, least: i64) -> i64:
    """Search a schedule of component c, until it has `least` batches, and give the nodes their steps."""
    bfirst = ld(ST, BFIRST)
    first = ld32(bfirst, c)
    depths = ld32(bfirst, c + 1) - first
    low = ld32(ld(ST, BSTART), first)
    effort = ld(ST, EFFORT)
    more = 1
    if effort < 0 and pays(ST, c, depths - least, FIRST) == 0:
        return DONE
    status = graph(ST, c)
    if status != DONE:
        return status
    word = ld(ST, WORD)
    count = depths
    chains(ST, c, 1)
    count = consider(ST, look(ST, 0), count, effort)
    if effort < 0:
        more = pays(ST, c, count - least, MORE)
    if count > least and (effort < 0 or effort > 1) and more != 0:
        count = consider(ST, look(ST, 1), count, 1)
    if count > least and (effort < 0 or effort > 2) and more != 0:
        if ld(ST, RESTRICTED) == 0:
            status = guarantees(ST)
            if status != DONE:
                return status
            status = graph(ST, c)
            if status != DONE:
                return status
        for i in range(depths):
            st32(word, i, ld32(ld(ST, LOCAL), ld32(ld(ST, BKEY), first + i)))
        count = consider(ST, depths, count, 1)
        length = ld32(ld(ST, AGENDA_LENGTHS), c)
        copy_bytes(word, ld(ST, AGENDA_WORDS) + 4 * low, 4 * length)
        count = consider(ST, length, count, 1)
        length = ld32(ld(ST, DEPTH_LENGTHS), c)
        copy_bytes(word, ld(ST, DEPTH_WORDS) + 4 * low, 4 * length)
        count = consider(ST, length, count, 1)
    if count < depths:
        follow(ST, c, ld(ST, BEST), count)
    return DONE


def consider(ST: i64, length: i64, most: i64, more: i64) -> i64:
    """Make the schedule in `word`, pruned if `more`, the best if it is shorter than `most`; return the best length."""
    if more != 0:
        length = prune(ST, length)
    if length >= most:
        return most
    copy_bytes(ld(ST, BEST), ld(ST, WORD), 4 * length)
    return length


def follow(ST: i64, c: i64, word: i64, length: i64) -> None:
    """Set the depths of the nodes of component c to the steps at which a schedule runs them."""
    step = ld(ST, RAN_AT)
    start(ST, 0)
    for i in range(length):
        advance(ST, 0, ld32(word, i), i, step)
    order = ld(ST, ORDER) + 4 * ld32(ld(ST, BSTART), ld32(ld(ST, BFIRST), c))
    place = ld(ST, PLACE)
    for i in range(ld(ST, MEMBERS)):
        v = ld32(order, i)
        st(place, v, place_of(c, ld32(step, i), group_of(ld(place, v))))
    st32(ld(ST, DEEPEST), c, length)
    st32(ld(ST, MIXED), c, 0)


def guarantees(ST: i64) -> i64:
    """Cut the schedules of the whole graph by the agenda and by depth into those of the components, once."""
    if ld(ST, RESTRICTED) != 0:
        return DONE
    status = agenda(ST, ld(ST, AGENDA_STEP))
    if status != DONE:
        return status
    restrict(ST, ld(ST, AGENDA_STEP), ld(ST, AGENDA_WORDS), ld(ST, AGENDA_LENGTHS))
    restrict(ST, ld(ST, DEPTH), ld(ST, DEPTH_WORDS), ld(ST, DEPTH_LENGTHS))
    st(ST, RESTRICTED, 1)
    return DONE


def restrict(ST: i64, time: i64, words: i64, lengths: i64) -> None:
    """Write the schedule that runs nodes in the order of `time` as a word for each component."""
    n, key, local, place, bstart, bfirst, sorted = lds(ST, N, KEY, LOCAL, PLACE, BSTART, BFIRST, SPARE)
    last, counts = lds(ST, COUNTED, COUNTS)
    fill_bytes(counts, 0, 4 * (n + 1))
    for v in range(n):
        t = ld32(time, v) + 1
        st32(counts, t, ld32(counts, t) + 1)
    for t in range(n):
        st32(counts, t + 1, ld32(counts, t + 1) + ld32(counts, t))
    for v in range(n):
        t = ld32(time, v)
        st32(sorted, ld32(counts, t), v)
        st32(counts, t, ld32(counts, t) + 1)
    fill_bytes(last, 255, 4 * ld(ST, KEYS))
    fill_bytes(lengths, 0, 4 * ld(ST, GROUPS))
    for i in range(n):
        v = ld32(sorted, i)
        k = ld32(key, v)
        t = ld32(time, v)
        if ld32(last, k) != t:
            st32(last, k, t)
            c = component_of(ld(place, v))
            length = ld32(lengths, c)
            st32(words, ld32(bstart, ld32(bfirst, c)) + length, ld32(local, k))
            st32(lengths, c, length + 1)


def prune(ST: i64, length: i64) -> i64:
    """Leave out the steps of `word` that no member needs. Returns the number of remaining steps, all of them needed.

    Members run as late as they can in one pass from the back; then from the front as early as they can, where a step
    is skipped if it is the last chance of no member that has not run.
    """
    word, late, due, queue, ready = lds(ST, WORD, LATE, DUE, QUEUE, READY)
    start(ST, 1)
    for i in range(length):
        at = length - 1 - i
        advance(ST, 1, ld32(word, at), at, late)
    fill_bytes(due, 0, 4 * length)
    for v in range(ld(ST, MEMBERS)):
        at = ld32(late, v)
        st32(due, at, ld32(due, at) + 1)
    start(ST, 0)
    left = 0
    for i in range(length):
        if ld32(due, i) != 0:
            t = ld32(word, i)
            for x in range(ld32(ready, 2 * t), ld32(ready, 2 * t + 1)):
                at = ld32(late, ld32(queue, x))
                st32(due, at, ld32(due, at) - 1)
            advance(ST, 0, t, left, ld(ST, RAN_AT))
            st32(word, left, t)
            left = left + 1
    return left


def look(ST: i64, back: i64) -> i64:
    """Write a schedule to `word`, by soft tightness; back: on the reversed graph, and then reverse it."""
    n, kinds, kind = lds(ST, MEMBERS, GKINDS, SKIND)
    height = ld(ST, OWN if back else HEIGHT)
    longest, queue, ready, begin, remain, able = lds(ST, LONGEST, QUEUE, READY, RSTART, REMAIN, ABLE)
    peak, counted, score, word = lds(ST, PEAK, COUNTED, SCORE, WORD)
    start(ST, back)
    total = 0
    for t in range(kinds):
        st32(begin, t, total)
        st32(peak, t, ld32(longest, t))
        st32(counted, t, ld32(ready, 2 * t))
        total = total + ld32(longest, t) + 1
    fill_bytes(remain, 0, 4 * total)
    fill_bytes(able, 0, 4 * total)
    for v in range(n):
        at = ld32(begin, ld32(kind, v)) + ld32(height, v)
        st32(remain, at, ld32(remain, at) + 1)
    st(ST, BUDGET, 2 * n)
    done = 0
    length = 0
    while done < n:
        best = -1
        most = -1.0
        for t in range(kinds):
            high = ld32(ready, 2 * t + 1)
            if ld32(ready, 2 * t) < high:
                if ld32(counted, t) < high:
                    for i in range(ld32(counted, t), high):
                        at = ld32(begin, t) + ld32(height, ld32(queue, i))
                        st32(able, at, ld32(able, at) + 1)
                    st32(counted, t, high)
                    stf(score, t, tightness(ST, t))
                if ldf(score, t) > most:
                    most = ldf(score, t)
                    best = t
        if most < TIGHT and ld(ST, BUDGET) > 0:
            best = peek(ST, back, best)
        low = ld32(ready, 2 * best)
        high = ld32(ready, 2 * best + 1)
        for i in range(low, high):
            at = ld32(begin, best) + ld32(height, ld32(queue, i))
            st32(remain, at, ld32(remain, at) - 1)
            st32(able, at, ld32(able, at) - 1)
        done = done + high - low
        advance(ST, back, best, length, ld(ST, RAN_AT))
        at = ld32(peak, best)
        while at > 0 and ld32(remain, ld32(begin, best) + at) == 0:
            at = at - 1
        st32(peak, best, at)
        st32(word, length, best)
        length = length + 1
    if back != 0:
        for i in range(length // 2):
            t = ld32(word, i)
            st32(word, i, ld32(word, length - 1 - i))
            st32(word, length - 1 - i, t)
    return length


def tightness(ST: i64, t: i64) -> f64:
    """Return the share of ready members among the highest of kind t, those one lower counting half as much."""
    remain = ld(ST, REMAIN) + 4 * ld32(ld(ST, RSTART), t)
    able = ld(ST, ABLE) + 4 * ld32(ld(ST, RSTART), t)
    peak = ld32(ld(ST, PEAK), t)
    some = 0.0
    all = 0.0
    weight = 1.0
    for j in range(min(NEAR, peak)):
        some = some + weight * f64(ld32(able, peak - j))
        all = all + weight * f64(ld32(remain, peak - j))
        weight = weight / 2.0
    share = some / all
    if ld32(able, peak) == ld32(remain, peak):
        share = share + TIGHT
    return share


def peek(ST: i64, back: i64, otherwise: i64) -> i64:
    """Return the best kind whose run makes some kind tight; `otherwise` if none does."""
    kinds, kind = lds(ST, GKINDS, SKIND)
    first = ld(ST, EFIRST if back else SFIRST)
    next = ld(ST, EFROM if back else SNEXT)
    height = ld(ST, OWN if back else HEIGHT)
    degree, queue, ready, begin, remain, able = lds(ST, DEGREE, QUEUE, READY, RSTART, REMAIN, ABLE)
    peak, score, fresh, touched, left = lds(ST, PEAK, SCORE, FRESH, TOUCHED, BUDGET)
    best = otherwise
    most = -1.0
    for t in range(kinds):
        low = ld32(ready, 2 * t)
        high = ld32(ready, 2 * t + 1)
        if low < high:
            count = 0
            for i in range(low, high):
                v = ld32(queue, i)
                begins = ld32(first, v)
                ends = ld32(first, v + 1)
                left = left - 1 - (ends - begins)
                for e in range(begins, ends):
                    u = ld32(next, e)
                    d = ld32(degree, u) - 1
                    st32(degree, u, d)
                    k = ld32(kind, u)
                    if d == 0 and ld32(height, u) == ld32(peak, k):
                        if ld32(fresh, k) == 0:
                            st32(touched, count, k)
                            count = count + 1
                        st32(fresh, k, ld32(fresh, k) + 1)
            for i in range(low, high):
                v = ld32(queue, i)
                for e in range(ld32(first, v), ld32(first, v + 1)):
                    u = ld32(next, e)
                    st32(degree, u, ld32(degree, u) + 1)
            tight = 0
            for i in range(count):
                k = ld32(touched, i)
                at = ld32(begin, k) + ld32(peak, k)
                if ld32(fresh, k) + ld32(able, at) == ld32(remain, at):
                    tight = 1
                st32(fresh, k, 0)
            if tight != 0 and ldf(score, t) > most:
                most = ldf(score, t)
                best = t
    st(ST, BUDGET, left)
    return best
