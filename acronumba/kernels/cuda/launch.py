"""The loop over the launches of a mini-batch, in compiled code: `cuLaunchKernel` is called by its address.

In: the table of launches that `kernels.cuda.marshal` has filled. Out: every function of every kernel is launched, in
order, or written down for the one kernel that runs all. The driver copies a launch's parameters at once, so that one
place for them serves all.

    launch(words, table, count)     returns 0, or the driver's error
        table       int64[count, WIDTH] of `kernels.cuda.marshal`
        words       int64[WORDS]: see below

    steps(words, table, count, out, about)      returns how many steps of `kernels.cuda.persistent` it has written
        out         int64[BARRIER + steps * STEP]: the barrier, then the steps
        about       int64[5]: words 1 and 2 of the barrier; then what it writes: how many blocks the widest step has,
                    and how many nodes there are; the most blocks of a step

    WORDS of `words`:
        0..3        addresses of words 4..7: what the driver calls kernelParams
        4..7        P, nodes, S, T of the launch at hand
        8           address of `cuLaunchKernel`
        9           the stream
        10          most blocks of a launch
        11          int64[kernels, 2]: of each kernel the first of its functions, and how many there are
        12          int64[functions, 4]: handle, most blocks that run at the same time, the first of its grids, how many
        13          int64[grids, 3]: `Grid.nodes`, `Grid.times` and `Grid.cost`
        14          multiprocessors

Of a function's grids the launch takes the one whose blocks, dealt out to the multiprocessors, are done first; but only
the first if all blocks cannot run at the same time.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.parse import parse
from acronumba.kernels.cuda.marshal import WIDTH
from acronumba.kernels.cuda.persistent import BARRIER, STEP
from acronumba.kernels.cuda.tiles import THREADS

WORDS = 15

_SOURCE = f'''
def blocks_of(words: i64, function: i64, nodes: i64, most: i64) -> i64:
    """By how many blocks, `most` at most, a function is run."""
    blocks = 1
    least = 0
    for g in range(ld(function, 2), ld(function, 2) + ld(function, 3)):
        grid = ld(words, 13) + g * 24
        wanted = (nodes + ld(grid) - 1) // ld(grid) * ld(grid, 1)
        time = (wanted + ld(words, 14) - 1) // ld(words, 14) * ld(grid, 2)
        if g == ld(function, 2) or (wanted <= most and time < least):
            blocks = min(wanted, most)
            least = time
    return blocks


def launch(words: i64, table: i64, count: i64) -> i64:
    """Launch all functions of all kernels, in order."""
    driver = ld(words, 8)
    for k in range(count):
        at = table + k * {8 * WIDTH}
        st(words, 4, ld(at, 2))
        nodes = ld(at, 1)
        st(words, 5, nodes)
        kernel = ld(words, 11) + ld(at) * 16
        for f in range(ld(kernel), ld(kernel) + ld(kernel, 1)):
            function = ld(words, 12) + f * 32
            blocks = blocks_of(words, function, nodes, max(min(ld(function, 1), ld(words, 10)), 1))
            status = call_address_i64(
                driver, ld(function), blocks, 1, 1, {THREADS}, 1, 1, 0, ld(words, 9), words, 0
            )
            if status & 4294967295 != 0:
                return status & 4294967295
    return 0


def steps(words: i64, table: i64, count: i64, out: i64, about: i64) -> i64:
    """Write a step for each function of each kernel, in order."""
    st(out, 0, 0)
    st(out, 1, ld(about))
    st(out, 2, ld(about, 1))
    step = out + {8 * BARRIER}
    most = 1
    total = 0
    for k in range(count):
        at = table + k * {8 * WIDTH}
        nodes = ld(at, 1)
        total += nodes
        kernel = ld(words, 11) + ld(at) * 16
        for f in range(ld(kernel), ld(kernel) + ld(kernel, 1)):
            blocks = blocks_of(words, ld(words, 12) + f * 32, nodes, max(ld(about, 4), 1))
            st(step, 0, f)
            st(step, 1, nodes)
            st(step, 2, ld(at, 2))
            st(step, 3, blocks)
            most = max(most, blocks)
            step += {8 * STEP}
    st(about, 2, most)
    st(about, 3, total)
    return (step - out - {8 * BARRIER}) // {8 * STEP}
'''


def launch_module() -> tree.Module:
    """Return the module; it exports "launch" and "steps"."""
    return tree.Module("launches", tuple(parse(_SOURCE)), ("launch", "steps"))
