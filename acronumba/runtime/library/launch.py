"""What compiled code does for a mini-batch on a GPU; the functions of the driver are called by their addresses.

In: what `kernels.cuda.marshal` has written down. Out: everything is copied to the GPU, and every function of every
kernel is launched, in order, or one kernel that runs all. The driver copies a launch's parameters at once, so that one
place for them serves all.

    write(words, stream, state) lets a mini-batch write down what its launches need, into a stream of
                                `kernels.cuda.marshal`, once what the last one has written there is on the GPU; returns
                                what `drive` returns, or minus an error of the driver
    send(words, stream)         copies what has been written
    launch(words, table, count) launches so many rows of a stream's table
    apart(words, stream)        send, and launch all
    together(words, stream, about)      send, with steps for the one kernel, and launch that
    whole(words, stream, state) all stages of a mini-batch, then write, then apart; as far as nothing has to be decided

`whole` returns DONE, WRITTEN (launches are left to the caller), UNWRITTEN (everything is: word 24 is what `drive` has
returned), or minus an error of the driver. The four before it return 0, an error, or -1 where there is too little
scratch memory: nothing is done then.

    WORDS of `words`:
        0..3        addresses of words 4..7: what the driver calls kernelParams
        4..7        P, nodes, S, T of the launch at hand
        8..12       addresses of `cuLaunchKernel`, `cuLaunchCooperativeKernel`, `cuMemcpyHtoDAsync`, `cuEventRecord`,
                    `cuEventSynchronize`
        13          address of `drive`
        14          the stream of the GPU
        15          int64[kernels, 2]: of each kernel the first of its functions, and how many there are
        16          int64[functions, 4]: handle, most blocks that run at the same time, the first of its grids, how many
        17          int64[grids, 3]: `Grid.nodes`, `Grid.times` and `Grid.cost`
        18          multiprocessors
        19, 20      bytes of the scratch memory of a batch, and of warps, behind words 6 and 7
        21          most blocks of a launch, if all have scratch memory
        22          most blocks of a launch of this mini-batch
        23          whether `whole` launches
        24          see `whole`

    ABOUT of `about`:
        0..4        what the one kernel is told: addresses of its steps, how many, both addresses of scratch memory,
                    address of its barrier
        5..9        the addresses of these
        10, 11      words 1 and 2 of the barrier
        12          how many blocks the widest step has
        13          most blocks that may wait for each other
        14, 15      handle, bytes of shared memory

Of a function's grids the launch takes the one whose blocks, dealt out to the multiprocessors, are done first; but only
the first if all blocks cannot run at the same time.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.parse import parse
from acronumba.kernels.cuda.marshal import STREAM, WIDTH
from acronumba.kernels.cuda.persistent import BARRIER, STEP
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.runtime.state import AT

WORDS = 25
ABOUT = 16
WARPS = THREADS // 32
OWN = 1 << 28  # bytes of scratch of all warps, as long as one block has enough
EXPORTS = ("write", "send", "launch", "apart", "together", "whole")
DONE, WRITTEN, UNWRITTEN = range(3)


def _of(name: str) -> str:
    return f"ld(stream, {STREAM[name]})"


_ZEROS = "\n    ".join(
    f"st(stream, {STREAM[name]}, 0)" for name in ("launches", "missing", "total", "nodes", "batch", "warp")
)

_SOURCE = f'''
def blocks_of(words: i64, function: i64, nodes: i64, most: i64) -> i64:
    """By how many blocks, `most` at most, a function is run."""
    grid = ld(words, 17) + ld(function, 2) * 24
    wanted = (nodes + ld(grid) - 1) // ld(grid) * ld(grid, 1)
    blocks = min(wanted, most)
    if ld(function, 3) == 1:
        return blocks
    processors = ld(words, 18)
    least = (wanted + processors - 1) // processors * ld(grid, 2)
    for g in range(1, ld(function, 3)):
        grid += 24
        wanted = (nodes + ld(grid) - 1) // ld(grid) * ld(grid, 1)
        if wanted <= most:
            time = (wanted + processors - 1) // processors * ld(grid, 2)
            if time < least:
                blocks = wanted
                least = time
    return blocks


def write(words: i64, stream: i64, state: i64) -> i64:
    error = call_address_i64(ld(words, 12), {_of("event")}) & 4294967295
    if error != 0:
        return -error
    st(stream, {STREAM["top"]}, {_of("start")})
    st(stream, {STREAM["end"]}, {_of("tail")})
    {_ZEROS}
    return call_address_i64(ld(words, 13), state)


def ready(words: i64, stream: i64) -> i64:
    """Whether there is scratch memory for all launches; where a warp needs much, fewer blocks run at once."""
    most = ld(words, 21)
    own = {_of("warp")} * {WARPS}
    if own > 0:
        most = max(min(min(most, {_of("nodes")}), {OWN} // own), 1)
    st(words, 22, most)
    if {_of("batch")} > ld(words, 19):
        return 0
    return i64(own * most <= ld(words, 20))


def copy(words: i64, stream: i64, end: i64) -> i64:
    """Copy arguments, and what lies from the failures of nodes to an address, and mark the place behind it."""
    start = {_of("start")}
    low = {_of("end")}
    delta = {_of("delta")}
    error = call_address_i64(ld(words, 10), start + delta, start, {_of("top")} - start, ld(words, 14)) & 4294967295
    if error == 0 and low < end:
        error = call_address_i64(ld(words, 10), low + delta, low, end - low, ld(words, 14)) & 4294967295
    if error == 0:
        error = call_address_i64(ld(words, 11), {_of("event")}, ld(words, 14)) & 4294967295
    return error


def send(words: i64, stream: i64) -> i64:
    if ready(words, stream) == 0:
        return -1
    return copy(words, stream, {_of("tail")})


def launch(words: i64, table: i64, count: i64) -> i64:
    driver = ld(words, 8)
    for k in range(count):
        at = table + k * {8 * WIDTH}
        st(words, 4, ld(at, 2))
        nodes = ld(at, 1)
        st(words, 5, nodes)
        kernel = ld(words, 15) + ld(at) * 16
        for f in range(ld(kernel), ld(kernel) + ld(kernel, 1)):
            function = ld(words, 16) + f * 32
            blocks = blocks_of(words, function, nodes, max(min(ld(function, 1), ld(words, 22)), 1))
            error = call_address_i64(
                driver, ld(function), blocks, 1, 1, {THREADS}, 1, 1, 0, ld(words, 14), words, 0
            ) & 4294967295
            if error != 0:
                return error
    return 0


def apart(words: i64, stream: i64) -> i64:
    error = send(words, stream)
    if error != 0:
        return error
    return launch(words, {_of("table")}, {_of("launches")})


def steps(words: i64, stream: i64, about: i64) -> i64:
    """Write the barrier, and a step for each function of each kernel, in order; return where they end."""
    out = {_of("tail")}
    table = {_of("table")}
    st(out, 0, 0)
    st(out, 1, ld(about, 10))
    st(out, 2, ld(about, 11))
    first = out + {8 * BARRIER}
    step = first
    most = max(min(ld(about, 13), ld(words, 22)), 1)
    widest = 1
    for k in range({_of("launches")}):
        at = table + k * {8 * WIDTH}
        nodes = ld(at, 1)
        kernel = ld(words, 15) + ld(at) * 16
        for f in range(ld(kernel), ld(kernel) + ld(kernel, 1)):
            blocks = blocks_of(words, ld(words, 16) + f * 32, nodes, most)
            st(step, 0, f)
            st(step, 1, nodes)
            st(step, 2, ld(at, 2))
            st(step, 3, blocks)
            widest = max(widest, blocks)
            step += {8 * STEP}
    st(about, 0, first + {_of("delta")})
    st(about, 1, (step - first) // {8 * STEP})
    st(about, 2, ld(words, 6))
    st(about, 3, ld(words, 7))
    st(about, 4, out + {_of("delta")})
    st(about, 12, widest)
    return step


def together(words: i64, stream: i64, about: i64) -> i64:
    if ready(words, stream) == 0:
        return -1
    error = copy(words, stream, steps(words, stream, about))
    if error != 0:
        return error
    return call_address_i64(
        ld(words, 9), ld(about, 14), ld(about, 12), 1, 1, {THREADS}, 1, 1, ld(about, 15), ld(words, 14), about + 40
    ) & 4294967295


def whole(words: i64, stream: i64, state: i64) -> i64:
    st(state, {AT["stop"]}, 3)
    status = call_address_i64(ld(words, 13), state)
    st(words, 24, status)
    if status != 0:
        return {UNWRITTEN}
    rounds = ld(state, {AT["rounds"]})
    st(state, {AT["stop"]}, 4)
    status = write(words, stream, state)
    if status < 0:
        return status
    missing = {_of("missing")}
    if status != 0 or missing != 0:
        st(state, {AT["stage"]}, 3)
        st(state, {AT["run_batches"]}, 0)
        st(state, {AT["rounds"]}, rounds)
        return {UNWRITTEN}
    if {_of("launches")} == 0:
        return {DONE}
    if ld(words, 23) == 0:
        return {WRITTEN}
    status = apart(words, stream)
    if status < 0:
        return {WRITTEN}
    return -status
'''


def launch_module() -> tree.Module:
    """Return the module of the functions above."""
    return tree.Module("launches", tuple(parse(_SOURCE)), EXPORTS)
