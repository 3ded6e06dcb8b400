"""Steps of the one kernel that runs a mini-batch on a GPU (`kernels.cuda.persistent`), sorted by level.

In: the launches of a stream, each with the level of its first functions. Out: a barrier, and a row of STEP for each
function of each launch, sorted by level. Functions of one level do not depend on each other: each is run by blocks of
its own, and they have scratch memory of their own.

*Blocks.* If the functions of a level want more blocks than there are, each gets its share. The first block of a
function with panels of weights is a multiple of their number, where that is possible: so a block has the same panel of
a function in each level. If there are more functions than blocks, the level becomes two.

*Places.* A function that runs in three levels or more gets a place for its panel of weights while there is room; the
others share one, as large as the largest. If the kernel stays between rounds, each function counts as one that does:
places are then the same in all rounds.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, ld, lds, st
from acronumba.kernels.cuda.persistent import TAGS
from acronumba.kernels.cuda.stream import TAG_BYTES

from acronumba.runtime.library.launch_words import (  # isort: skip
    ABOUT_BARRIER, ABOUT_BASE, ABOUT_COUNT, ABOUT_FUNCTIONS, ABOUT_LEVELS, ABOUT_LOOKS, ABOUT_MOST, ABOUT_POST,
    ABOUT_ROOM, ABOUT_STAGES, ABOUT_STEPS, ABOUT_TOTAL, ABOUT_WIDEST, ABOUT_WORD, BARRIER_BYTES, BARRIER_COME,
    BARRIER_LOOKS, BARRIER_WORD, FUNCTION_BYTES, FUNCTION_COUNT, FUNCTION_GRIDS, FUNCTION_PLACE, FUNCTION_TAGS,
    FUNCTION_USES, GRID_BYTES, GRID_COST, GRID_COUNTED, GRID_KEPT, GRID_LEVEL, GRID_NODES, GRID_PANELS, GRID_TIMES,
    KERNEL_BYTES, KERNEL_COUNT, KERNEL_FIRST, LAUNCH_BLOCKS, LAUNCH_FUNCTIONS, LAUNCH_GRIDS, LAUNCH_KERNELS,
    LAUNCH_PROCESSORS, LAUNCH_SCRATCH, LAUNCH_WARPS, ROW_BATCH, ROW_BYTES, ROW_KERNEL, ROW_LEVEL, ROW_NODES, ROW_P,
    ROW_SCRATCH, ROW_STARTS, STEP_BLOCKS, STEP_BYTES, STEP_FIRST, STEP_FUNCTION, STEP_KEPT, STEP_NODES, STEP_P,
    STEP_SCRATCH, STEP_TAGS, STEP_WANTED, STEP_WARPS, STREAM_BATCH, STREAM_DELTA, STREAM_END, STREAM_LAUNCHES,
    STREAM_LEVELS, STREAM_TABLE, STREAM_TAIL, STREAM_TOP, STREAM_WARP, WARPS,
)  # fmt: skip

OFTEN = 3  # levels in which a function runs that gets a place of its own


def wanted_of(words: i64, grid: i64, row: i64) -> i64:
    """Return the number of useful blocks of a launch, by its number of nodes, or by a count of them."""
    nodes = ld(row, ROW_NODES)
    many = nodes
    if ld(grid, GRID_COUNTED) != 0:
        many = ld(ld(row, ROW_STARTS), (nodes + 1) * ld(grid, GRID_COUNTED) - 1)
    wanted = (many + ld(grid, GRID_NODES) - 1) // ld(grid, GRID_NODES) * ld(grid, GRID_TIMES)
    panels = ld(grid, GRID_PANELS)
    if panels != 0:
        wanted = min(wanted, max(ld(words, LAUNCH_PROCESSORS) // panels, 1)) * panels
    return wanted


def blocks_of(words: i64, function: i64, row: i64, most: i64) -> i64:
    """Return the number of blocks, at most `most`, of a launch of a function."""
    grid = grid_of(words, function)
    wanted = wanted_of(words, grid, row)
    blocks = min(wanted, most)
    if ld(function, FUNCTION_COUNT) == 1:
        return blocks
    processors = ld(words, LAUNCH_PROCESSORS)
    least = (wanted + processors - 1) // processors * ld(grid, GRID_COST)
    for _ in range(1, ld(function, FUNCTION_COUNT)):
        grid += GRID_BYTES
        wanted = wanted_of(words, grid, row)
        if wanted <= most:
            time = (wanted + processors - 1) // processors * ld(grid, GRID_COST)
            if time < least:
                blocks = wanted
                least = time
    return blocks


def grid_of(words: i64, function: i64) -> i64:
    """Return the address of the first grid of a function."""
    return ld(words, LAUNCH_GRIDS) + ld(function, FUNCTION_GRIDS) * GRID_BYTES


def steps(words: i64, stream: i64, about: i64) -> i64:
    """Write the barrier, and the steps in the order of their levels; return their end.

    The most bytes of scratch that a level needs become those of the stream's largest batch.
    """
    out = place_of(stream, about)
    st(out, BARRIER_COME, 0)
    st(out, BARRIER_WORD, ld(about, ABOUT_WORD))
    st(out, BARRIER_LOOKS, ld(about, ABOUT_LOOKS))
    first = out + BARRIER_BYTES
    many = ld(about, ABOUT_STAGES) * ld(stream, STREAM_LAUNCHES)
    order = first + STEP_BYTES * many
    ends = order + 8 * many
    levels = ld(stream, STREAM_LEVELS)
    sort_steps(words, stream, about, order, ends)
    give_places(words, about)
    total = 0
    if levels > 0:
        total = ld(ends, levels - 1)
    share_scratch(words, stream, order, total)
    st(about, ABOUT_STEPS, first + ld(stream, STREAM_DELTA))
    st(about, ABOUT_LEVELS, 0)
    st(about, ABOUT_WIDEST, 1)
    begin = 0
    wanted = ld(about, ABOUT_BASE)
    for level in range(levels):
        wanted = write_level(words, stream, about, order, begin, ld(ends, level), wanted)
        begin = ld(ends, level)
    st(about, ABOUT_COUNT, begin)
    st(about, ABOUT_BARRIER, out + ld(stream, STREAM_DELTA))
    st(about, ABOUT_TOTAL, wanted)
    return first + STEP_BYTES * begin


def place_of(stream: i64, about: i64) -> i64:
    """Return where the barrier and the steps go: right behind the arguments if that makes one copy of few bytes."""
    top, low, tail = lds(stream, STREAM_TOP, STREAM_END, STREAM_TAIL)
    many = ld(about, ABOUT_STAGES) * ld(stream, STREAM_LAUNCHES)
    need = BARRIER_BYTES + (STEP_BYTES + 8) * many + 8 * (ld(stream, STREAM_LEVELS) + 1)
    near = (top + 63) & -64
    if (ld(about, ABOUT_POST) != 0) | (low < tail) | (near + need > low):
        return tail
    return near


def sort_steps(words: i64, stream: i64, about: i64, order: i64, ends: i64) -> None:
    """List the steps by level, each as launch << 16 | function of its kernel; count how often each function is run."""
    kernels, functions = lds(words, LAUNCH_KERNELS, LAUNCH_FUNCTIONS)
    table, launches, levels = lds(stream, STREAM_TABLE, STREAM_LAUNCHES, STREAM_LEVELS)
    for f in range(ld(about, ABOUT_FUNCTIONS)):
        st(functions + f * FUNCTION_BYTES, FUNCTION_USES, 0)
    fill_bytes(ends, 0, 8 * (levels + 1))
    for k in range(launches):
        row = table + k * ROW_BYTES
        kernel = kernels + ld(row, ROW_KERNEL) * KERNEL_BYTES
        for f in range(ld(kernel, KERNEL_COUNT)):
            function = functions + (ld(kernel, KERNEL_FIRST) + f) * FUNCTION_BYTES
            at = ld(row, ROW_LEVEL) + ld(grid_of(words, function), GRID_LEVEL)
            st(ends, at, ld(ends, at) + 1)
            st(function, FUNCTION_USES, ld(function, FUNCTION_USES) + 1)
    total = 0
    for level in range(levels):
        count = ld(ends, level)
        st(ends, level, total)
        total = total + count
    for k in range(launches):
        row = table + k * ROW_BYTES
        kernel = kernels + ld(row, ROW_KERNEL) * KERNEL_BYTES
        for f in range(ld(kernel, KERNEL_COUNT)):
            function = functions + (ld(kernel, KERNEL_FIRST) + f) * FUNCTION_BYTES
            at = ld(row, ROW_LEVEL) + ld(grid_of(words, function), GRID_LEVEL)
            st(order, ld(ends, at), k << 16 | f)
            st(ends, at, ld(ends, at) + 1)


def kept_by(words: i64, function: i64, room: i64) -> i64:
    """Return the bytes of a panel that the text of a function keeps; 0: none, as `kernels.cuda.persistent` decides."""
    kept = ld(grid_of(words, function), GRID_KEPT)
    if kept > room:
        return 0
    return kept


def give_places(words: i64, about: i64) -> None:
    """Give functions places for the panels of their weights, and tags; the shared place comes first."""
    functions = ld(words, LAUNCH_FUNCTIONS)
    room, count = lds(about, ABOUT_ROOM, ABOUT_FUNCTIONS)
    total = 0
    many = 0
    largest = 0
    for f in range(count):
        function = functions + f * FUNCTION_BYTES
        kept = kept_by(words, function, room)
        st(function, FUNCTION_PLACE, 0)
        st(function, FUNCTION_TAGS, 0)
        if ld(about, ABOUT_POST) != 0:
            st(function, FUNCTION_USES, OFTEN)
        uses = ld(function, FUNCTION_USES)
        if kept > 0 and uses > 0:
            total = total + kept
            many = many + 1
            largest = max(largest, kept)
    place = 0
    tags = 0
    often = 1
    if total > room or many > TAGS:
        place = largest
        tags = 1
        often = OFTEN
    for f in range(count):
        function = functions + f * FUNCTION_BYTES
        kept = kept_by(words, function, room)
        uses = ld(function, FUNCTION_USES)
        if kept > 0 and uses >= often and place + kept <= room and tags < TAGS:
            st(function, FUNCTION_PLACE, place)
            st(function, FUNCTION_TAGS, tags * TAG_BYTES)
            place = place + kept
            tags = tags + 1


def share_scratch(words: i64, stream: i64, order: i64, count: i64) -> None:
    """Give launches whose levels overlap different scratch memory; note how much all need."""
    table = ld(stream, STREAM_TABLE)
    kernels = ld(words, LAUNCH_KERNELS)
    place = 0
    most = ld(stream, STREAM_BATCH)
    end = 0
    for k in range(count):
        one = ld(order, k)
        row = table + (one >> 16) * ROW_BYTES
        if one & 65535 == 0:
            if ld(row, ROW_LEVEL) >= end:
                place = 0
            st(row, ROW_SCRATCH, place)
            place = (place + ld(row, ROW_BATCH) + 255) & -256
            most = max(most, place)
            end = max(end, ld(row, ROW_LEVEL) + ld(kernels + ld(row, ROW_KERNEL) * KERNEL_BYTES, KERNEL_COUNT))
    st(stream, STREAM_BATCH, most)


def write_level(words: i64, stream: i64, about: i64, order: i64, begin: i64, end: i64, wanted: i64) -> i64:
    """Write the steps of a level; return how often blocks have come when they are done."""
    most = max(min(ld(about, ABOUT_MOST), ld(words, LAUNCH_BLOCKS)), 1)
    while begin < end:
        last = min(end, begin + most)
        total = 0
        for k in range(begin, last):
            total = total + wanted_by(words, stream, ld(order, k), most)
        first = 0
        come = 0
        for k in range(begin, last):
            blocks = wanted_by(words, stream, ld(order, k), most)
            room = most - first - (last - 1 - k)
            if total > most:
                blocks = min(max(blocks * most // total, 1), room)
            panels = ld(grid_of(words, function_of(words, stream, ld(order, k))), GRID_PANELS)
            if panels > 1:
                if blocks > panels:
                    blocks = blocks - blocks % panels
                aligned = (first + panels - 1) // panels * panels
                if aligned - first + blocks <= room:
                    first = aligned
            write_step(words, stream, about, k, ld(order, k), first, blocks, wanted)
            first = first + blocks
            come = come + blocks
        st(about, ABOUT_WIDEST, max(ld(about, ABOUT_WIDEST), first))
        st(about, ABOUT_LEVELS, ld(about, ABOUT_LEVELS) + 1)
        wanted = wanted + come
        begin = last
    return wanted


def function_of(words: i64, stream: i64, one: i64) -> i64:
    """Return the address of the function of a step."""
    row = ld(stream, STREAM_TABLE) + (one >> 16) * ROW_BYTES
    kernel = ld(words, LAUNCH_KERNELS) + ld(row, ROW_KERNEL) * KERNEL_BYTES
    return ld(words, LAUNCH_FUNCTIONS) + (ld(kernel, KERNEL_FIRST) + (one & 65535)) * FUNCTION_BYTES


def wanted_by(words: i64, stream: i64, one: i64, most: i64) -> i64:
    """Return the number of blocks that a step wants."""
    row = ld(stream, STREAM_TABLE) + (one >> 16) * ROW_BYTES
    return blocks_of(words, function_of(words, stream, one), row, most)


def write_step(words: i64, stream: i64, about: i64, k: i64, one: i64, first: i64, blocks: i64, wanted: i64) -> None:
    """Write step number k."""
    row = ld(stream, STREAM_TABLE) + (one >> 16) * ROW_BYTES
    function = function_of(words, stream, one)
    step = ld(about, ABOUT_STEPS) - ld(stream, STREAM_DELTA) + k * STEP_BYTES
    st(step, STEP_FUNCTION, (function - ld(words, LAUNCH_FUNCTIONS)) // FUNCTION_BYTES)
    st(step, STEP_NODES, ld(row, ROW_NODES))
    st(step, STEP_P, ld(row, ROW_P))
    st(step, STEP_SCRATCH, ld(words, LAUNCH_SCRATCH) + ld(row, ROW_SCRATCH))
    st(step, STEP_WARPS, ld(words, LAUNCH_WARPS) + first * WARPS * ld(stream, STREAM_WARP))
    st(step, STEP_FIRST, first)
    st(step, STEP_BLOCKS, blocks)
    st(step, STEP_WANTED, wanted)
    st(step, STEP_KEPT, ld(function, FUNCTION_PLACE))
    st(step, STEP_TAGS, ld(function, FUNCTION_TAGS))
