"""Launches of a mini-batch on a GPU; the functions of the driver are called by their addresses.

In: a buffer that `kernels.cuda.marshal` has filled. Out: the buffer is copied to the GPU, and every function of every
kernel is launched, in order, or one kernel that runs all. The driver copies a launch's parameters at once, so all
launches use the same memory for them. The layouts of `words` and `about` are in `runtime.library.launch_words`.

    write(words, stream, state) runs `drive`, which marshals the launches of a mini-batch into a stream of
                                `kernels.cuda.marshal`, once the last buffer is on the GPU; returns the status of
                                `drive`, or minus an error of the driver
    send(words, stream)         copies the buffer
    launch(words, table, count) launches so many rows of a stream's table
    apart(words, stream)        send, and launch all
    again(words, stream)        launch all, whose parameters are on the GPU
    together(words, stream, about)      send, with steps for the one kernel, and launch that
    fetch(words, column, count, size, out, start, end, shift)   copies tensors of one size to the CPU, see there
    whole(words, stream, state) all stages of a mini-batch, then write, then apart; stops where the caller must decide

`whole` returns LAUNCHED, WRITTEN (launches are left to the caller), UNWRITTEN (all is left to the caller: the word
`status` is the status of `drive`), or minus an error of the driver. The five before it return 0, an error, or -1 if the
scratch memory is too small: nothing is done then.

Of a function's grids the launch takes the one whose blocks, dealt out to the multiprocessors, are done first; but only
the first if all blocks cannot run at the same time.
"""

from __future__ import annotations

from acronumba.emit.language import call_address_i64, i64, ld, lds, st
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.runtime.library.launch_steps import blocks_of, grid_of, steps
from acronumba.runtime.library.records import low_half
from acronumba.runtime.library.words import ARENA, ARENA_USED, GRANULE, ROUNDS, RUN_BATCHES, STAGE, STOP
from acronumba.runtime.state import DONE, EXECUTED, TO_EXECUTE

from acronumba.runtime.library.launch_words import (  # isort: skip
    ABOUT_BASE, ABOUT_HANDLE, ABOUT_PARAMETERS, ABOUT_POST, ABOUT_SHARED, ABOUT_WIDEST, FUNCTION_BLOCKS,
    FUNCTION_BYTES, FUNCTION_HANDLE, GRID_POOL, KERNEL_BYTES, KERNEL_COUNT, KERNEL_FIRST, LAUNCHED, LAUNCH_BLOCKS,
    LAUNCH_COOPERATE, LAUNCH_DOWNLOAD, LAUNCH_DRIVE, LAUNCH_FUNCTIONS, LAUNCH_KERNELS, LAUNCH_LAUNCH, LAUNCH_MOST,
    LAUNCH_NODES, LAUNCH_P, LAUNCH_REACH, LAUNCH_RECORD, LAUNCH_SCRATCH_SIZE, LAUNCH_STATUS, LAUNCH_STREAM,
    LAUNCH_UPLOAD, LAUNCH_WAIT, LAUNCH_WARPS_SIZE, LAUNCH_WHOLE, OWN, ROW_BYTES, ROW_KERNEL, ROW_NODES, ROW_P,
    STREAM_ARENA, STREAM_BATCH, STREAM_BRING, STREAM_COPIED, STREAM_DELTA, STREAM_END, STREAM_EVENT, STREAM_GRANULE,
    STREAM_LAUNCHES, STREAM_LEVELS, STREAM_MISSING, STREAM_MOST, STREAM_START, STREAM_TABLE, STREAM_TAIL,
    STREAM_TOP, STREAM_TOTAL, STREAM_USED, STREAM_WARP, UNWRITTEN, WARPS, WRITTEN,
)  # fmt: skip


NEAR = 1 << 16  # bytes between two parts of the buffer that are copied with them: that takes less than another call


def write(words: i64, stream: i64, state: i64) -> i64:
    if ld(stream, STREAM_COPIED) != 0:
        error = low_half(call_address_i64(ld(words, LAUNCH_REACH), ld(stream, STREAM_EVENT)))
        if error != 0:
            return -error
        st(stream, STREAM_COPIED, 0)
    st(stream, STREAM_BRING, 0)
    st(stream, STREAM_TOP, ld(stream, STREAM_START))
    st(stream, STREAM_END, ld(stream, STREAM_TAIL))
    st(stream, STREAM_LAUNCHES, 0)
    st(stream, STREAM_MISSING, 0)
    st(stream, STREAM_TOTAL, 0)
    st(stream, STREAM_MOST, 0)
    st(stream, STREAM_BATCH, 0)
    st(stream, STREAM_WARP, 0)
    st(stream, STREAM_LEVELS, 0)
    st(stream, STREAM_ARENA, state + 8 * ARENA)
    st(stream, STREAM_USED, state + 8 * ARENA_USED)
    st(stream, STREAM_GRANULE, state + 8 * GRANULE)
    return call_address_i64(ld(words, LAUNCH_DRIVE), state)


def ready(words: i64, stream: i64) -> i64:
    """Return whether scratch memory suffices for all launches; if a warp needs much, fewer blocks run at once."""
    most = ld(words, LAUNCH_MOST)
    own = ld(stream, STREAM_WARP) * WARPS
    if own > 0:
        most = max(min(min(most, ld(stream, STREAM_MOST)), OWN // own), 1)
    st(words, LAUNCH_BLOCKS, most)
    if ld(stream, STREAM_BATCH) > ld(words, LAUNCH_SCRATCH_SIZE):
        return 0
    return i64(own * most <= ld(words, LAUNCH_WARPS_SIZE))


def copy(words: i64, stream: i64, end: i64) -> i64:
    """Copy the arguments, and the buffer from the failures of nodes to `end`, to the GPU, and record the event.

    The two are one copy unless they lie far apart. Without failures `end` may be behind the arguments.
    """
    start, top, low, delta = lds(stream, STREAM_START, STREAM_TOP, STREAM_END, STREAM_DELTA)
    if (end < low) | ((low < end) & (low - top <= NEAR)):
        top = end
    error = low_half(
        call_address_i64(ld(words, LAUNCH_UPLOAD), start + delta, start, top - start, ld(words, LAUNCH_STREAM))
    )
    if error == 0 and top < low and low < end:
        error = low_half(
            call_address_i64(ld(words, LAUNCH_UPLOAD), low + delta, low, end - low, ld(words, LAUNCH_STREAM))
        )
    if error == 0:
        error = low_half(call_address_i64(ld(words, LAUNCH_RECORD), ld(stream, STREAM_EVENT), ld(words, LAUNCH_STREAM)))
        st(stream, STREAM_COPIED, 1)
    return error


def send(words: i64, stream: i64) -> i64:
    if ready(words, stream) == 0:
        return -1
    return copy(words, stream, ld(stream, STREAM_TAIL))


def launch(words: i64, table: i64, count: i64) -> i64:
    driver = ld(words, LAUNCH_LAUNCH)
    for k in range(count):
        at = table + k * ROW_BYTES
        st(words, LAUNCH_P, ld(at, ROW_P))
        st(words, LAUNCH_NODES, ld(at, ROW_NODES))
        kernel = ld(words, LAUNCH_KERNELS) + ld(at, ROW_KERNEL) * KERNEL_BYTES
        for f in range(ld(kernel, KERNEL_FIRST), ld(kernel, KERNEL_FIRST) + ld(kernel, KERNEL_COUNT)):
            function = ld(words, LAUNCH_FUNCTIONS) + f * FUNCTION_BYTES
            blocks = blocks_of(
                words, function, at, max(min(ld(function, FUNCTION_BLOCKS), ld(words, LAUNCH_BLOCKS)), 1)
            )
            if blocks > 0:
                error = low_half(
                    call_address_i64(
                        driver,
                        ld(function, FUNCTION_HANDLE),
                        blocks,
                        1,
                        1,
                        THREADS,
                        1,
                        1,
                        ld(grid_of(words, function), GRID_POOL),
                        ld(words, LAUNCH_STREAM),
                        words,
                        0,
                    )
                )
                if error != 0:
                    return error
    return 0


def apart(words: i64, stream: i64) -> i64:
    error = send(words, stream)
    if error != 0:
        return error
    return launch(words, ld(stream, STREAM_TABLE), ld(stream, STREAM_LAUNCHES))


def again(words: i64, stream: i64) -> i64:
    if ready(words, stream) == 0:
        return -1
    return launch(words, ld(stream, STREAM_TABLE), ld(stream, STREAM_LAUNCHES))


def together(words: i64, stream: i64, about: i64) -> i64:
    st(about, ABOUT_BASE, 0)
    st(about, ABOUT_POST, 0)
    ready(words, stream)
    end = steps(words, stream, about)
    if ready(words, stream) == 0:
        return -1
    error = copy(words, stream, end)
    if error != 0:
        return error
    return cooperate(words, about, ld(about, ABOUT_WIDEST))


def cooperate(words: i64, about: i64, blocks: i64) -> i64:
    """Launch the one kernel."""
    return low_half(
        call_address_i64(
            ld(words, LAUNCH_COOPERATE),
            ld(about, ABOUT_HANDLE),
            blocks,
            1,
            1,
            THREADS,
            1,
            1,
            ld(about, ABOUT_SHARED),
            ld(words, LAUNCH_STREAM),
            about + 8 * ABOUT_PARAMETERS,
        )
    )


def fetch(words: i64, column: i64, count: i64, size: i64, out: i64, start: i64, end: i64, shift: i64) -> i64:
    """Copy the tensors of value records to the CPU, all at once, and wait.

    `out` gets where each lies, then the first and the last of these bytes. Returns 0, an error, or -1: nothing is
    copied, as a record is missing, or something lies far off, or not between `start` and `end`.
    """
    low = end
    high = start
    for k in range(count):
        record = ld(column, k)
        if record == 0:
            return -1
        at = ld(record)
        st(out, k, at)
        low = min(low, at)
        high = max(high, at + size)
    st(out, count, low)
    st(out, count + 1, high)
    if (low < start) | (high > end) | (high < low) | (high - low > NEAR):
        return -1
    stream = ld(words, LAUNCH_STREAM)
    error = low_half(call_address_i64(ld(words, LAUNCH_DOWNLOAD), low, low + shift, high - low, stream))
    if error == 0:
        error = low_half(call_address_i64(ld(words, LAUNCH_WAIT), stream))
    return error


def whole(words: i64, stream: i64, state: i64) -> i64:
    st(state, STOP, TO_EXECUTE)
    status = call_address_i64(ld(words, LAUNCH_DRIVE), state)
    st(words, LAUNCH_STATUS, status)
    if status != DONE:
        return UNWRITTEN
    rounds = ld(state, ROUNDS)
    st(state, STOP, EXECUTED)
    status = write(words, stream, state)
    if status < 0:
        return status
    missing = ld(stream, STREAM_MISSING)
    if status != DONE or missing != 0:
        st(state, STAGE, TO_EXECUTE)
        st(state, RUN_BATCHES, 0)
        st(state, ROUNDS, rounds)
        return UNWRITTEN
    if ld(stream, STREAM_LAUNCHES) == 0:
        return LAUNCHED
    if ld(words, LAUNCH_WHOLE) == 0:
        return WRITTEN
    status = apart(words, stream)
    if status < 0:
        return WRITTEN
    return -status
