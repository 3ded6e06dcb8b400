"""Rounds of a program that waits for values, by one kernel that stays between them (`kernels.cuda.persistent`).

In: a mini-batch, whose stages `drive` runs. Out: all its rounds, unless the caller must do something. The kernel copies
what its steps read from the stream's buffer, and stores the values that the CPU waits for (`PIECE`) into its memory,
and then the number of the table; the CPU looks at that. So the driver is called for the launch alone. A kernel that
has left, as the CPU took long, is launched again.

    rounds(words, stream, state, about) records, marshals and runs rounds; returns LAUNCHED when the program has ended;
                                        WRITTEN: the launches of a round are left to the caller; UNWRITTEN: the
                                        buffers must grow, `status` says how; or others of `launch_words`, or minus an
                                        error of the driver. When called again, it goes on.
    dismiss(about)                      tells the kernel to leave; returns LAUNCHED when it is gone, or LATE
"""

from __future__ import annotations

from acronumba.emit.language import atomic_load, atomic_store, call_address_i64, i64, ld, lds, pause, st
from acronumba.kernels.cuda.persistent import LEAVE
from acronumba.runtime.library.launch import cooperate, ready, write
from acronumba.runtime.library.launch_steps import steps
from acronumba.runtime.library.records import low_half
from acronumba.runtime.library.words import MORE, ROUNDS, RUN_BATCHES, STAGE, STOP
from acronumba.runtime.state import DONE, EXECUTED, PAUSE, TO_EXECUTE

from acronumba.runtime.library.launch_words import (  # isort: skip
    ABOUT_BARRIER, ABOUT_BASE, ABOUT_BEGIN, ABOUT_BOUND, ABOUT_COUNT, ABOUT_LOOKS, ABOUT_MOST, ABOUT_PHASE,
    ABOUT_PLACE, ABOUT_POST, ABOUT_ROUNDS, ABOUT_STEPS, ABOUT_THERE, ABOUT_TOTAL, ABOUT_WAYS, BARRIER_BYTES,
    BARRIER_LOOKS, CRAMPED, FAILED, LATE, LAUNCHED, LAUNCH_DRIVE, LAUNCH_STATUS, LAUNCH_STREAM, LAUNCH_UPLOAD, LOST,
    PAUSED, PIECE_AT, PIECE_BYTES, PIECE_TO, PIECE_WORDS, POST_BASE, POST_BRING, POST_COUNT, POST_DONE, POST_LEFT,
    POST_LOST, POST_PIECES, POST_SOURCE, POST_SOURCE2, POST_STEPS, POST_TO, POST_TO2, POST_TOTAL, POST_TURN,
    POST_WORDS, POST_WORDS2, STREAM_BRING, STREAM_DELTA, STREAM_END, STREAM_LAUNCHES, STREAM_MISSING, STREAM_PIECES,
    STREAM_START, STREAM_TAIL, STREAM_TOP, STREAM_TOTAL, UNWRITTEN, WRITTEN,
)  # fmt: skip


def rounds(words: i64, stream: i64, state: i64, about: i64) -> i64:
    while True:
        if ld(about, ABOUT_PHASE) == 0:
            status = next_launches(words, stream, state)
            if status != WRITTEN:
                return status
            if ld(stream, STREAM_LAUNCHES) != 0:
                if one_kernel(stream, about) == 0:
                    return WRITTEN
                st(about, ABOUT_PHASE, 1)
        if ld(about, ABOUT_PHASE) == 1:
            status = tell(words, stream, about)
            if status != LAUNCHED:
                return status
            st(about, ABOUT_PHASE, 2)
        if ld(about, ABOUT_PHASE) == 2:
            status = hear(about)
            if status != LAUNCHED:
                return status
            if ld(about, ABOUT_PHASE) == 2:
                st(about, ABOUT_PHASE, 0)
                if any_failed(stream) != 0:
                    return FAILED
        if ld(about, ABOUT_PHASE) == 0:
            if ld(state, MORE) == 0:
                return LAUNCHED
            if ld(words, LAUNCH_STATUS) == PAUSE:
                return PAUSED
    return LAUNCHED


def next_launches(words: i64, stream: i64, state: i64) -> i64:
    """Record a round and write its launches; return WRITTEN, UNWRITTEN, or minus an error."""
    st(state, STOP, TO_EXECUTE)
    status = call_address_i64(ld(words, LAUNCH_DRIVE), state)
    st(words, LAUNCH_STATUS, status)
    if status != DONE:
        return UNWRITTEN
    count = ld(state, ROUNDS)
    st(state, STOP, EXECUTED)
    status = write(words, stream, state)
    if status < 0:
        return status
    st(words, LAUNCH_STATUS, status)
    if ld(stream, STREAM_MISSING) != 0:
        st(words, LAUNCH_STATUS, DONE)
        st(state, STAGE, TO_EXECUTE)
        st(state, RUN_BATCHES, 0)
        st(state, ROUNDS, count)
        return UNWRITTEN
    return WRITTEN


def bits(number: i64) -> i64:
    """Return the number of bits of a positive number."""
    found = 0
    while number > 0:
        number = number >> 1
        found = found + 1
    return found


def one_kernel(stream: i64, about: i64) -> i64:
    """Return whether the one kernel runs mini-batches of this size."""
    known = ld(ld(about, ABOUT_WAYS), bits(ld(stream, STREAM_LAUNCHES)))
    return known >> bits(ld(stream, STREAM_TOTAL)) & 1


def any_failed(stream: i64) -> i64:
    """Return whether a node has failed."""
    found = 0
    for k in range((ld(stream, STREAM_TAIL) - ld(stream, STREAM_END)) // 8):
        found = found | ld(ld(stream, STREAM_END), k)
    return found


def tell(words: i64, stream: i64, about: i64) -> i64:
    """Tell the kernel what its next steps are, and launch it if it is not there."""
    post = ld(about, ABOUT_ROUNDS)
    most = ld(about, ABOUT_MOST)
    if ld(about, ABOUT_THERE) == 0:
        st(about, ABOUT_TOTAL, 0)
        st(post, POST_TURN, 0)
        st(post, POST_DONE, 0)
        st(post, POST_LEFT, 0)
        st(post, POST_LOST, 0)
    base = ld(about, ABOUT_TOTAL)
    st(about, ABOUT_BASE, base + most)
    st(about, ABOUT_POST, post)
    ready(words, stream)
    end = steps(words, stream, about)
    total = ld(about, ABOUT_TOTAL)
    st(about, ABOUT_TOTAL, base)
    if ready(words, stream) == 0:
        return CRAMPED
    st(post, POST_STEPS, ld(about, ABOUT_STEPS))
    st(post, POST_COUNT, ld(about, ABOUT_COUNT))
    st(post, POST_BASE, base)
    st(post, POST_TOTAL, total)
    write_pieces(stream, post, end)
    if ld(about, ABOUT_THERE) == 0:
        error = launch_again(words, about)
        if error != 0:
            return -error
    st(about, ABOUT_TOTAL, total + most)
    atomic_store(post + 8 * POST_TURN, ld(post, POST_TURN) + 1)
    return LAUNCHED


def write_pieces(stream: i64, post: i64, end: i64) -> None:
    """Write what the CPU waits for behind the steps, and what all blocks copy first."""
    start, top, low, tail, delta = lds(stream, STREAM_START, STREAM_TOP, STREAM_END, STREAM_TAIL, STREAM_DELTA)
    count = ld(stream, STREAM_BRING)
    for k in range(count * PIECE_BYTES // 8):
        st(end, k, ld(ld(stream, STREAM_PIECES), k))
    last = end + count * PIECE_BYTES
    if low < tail:
        st(last, PIECE_AT, low + delta)
        st(last, PIECE_TO, low)
        st(last, PIECE_WORDS, (tail - low) // 8)
        count = count + 1
        last = last + PIECE_BYTES
    st(post, POST_PIECES, end + delta)
    st(post, POST_BRING, count)
    st(post, POST_SOURCE, start)
    st(post, POST_TO, start + delta)
    st(post, POST_WORDS, (top - start) // 8)
    st(post, POST_SOURCE2, low)
    st(post, POST_TO2, low + delta)
    st(post, POST_WORDS2, (last - low) // 8)


def launch_again(words: i64, about: i64) -> i64:
    """Launch the kernel, which waits for the next steps."""
    begin, place = lds(about, ABOUT_BEGIN, ABOUT_PLACE)
    st(begin, BARRIER_LOOKS, ld(about, ABOUT_LOOKS))
    error = low_half(call_address_i64(ld(words, LAUNCH_UPLOAD), place, begin, BARRIER_BYTES, ld(words, LAUNCH_STREAM)))
    if error != 0:
        return error
    st(about, ABOUT_STEPS, 0)
    st(about, ABOUT_COUNT, 0)
    st(about, ABOUT_BARRIER, place)
    error = cooperate(words, about, ld(about, ABOUT_MOST))
    if error == 0:
        st(about, ABOUT_THERE, 1)
    return error


def hear(about: i64) -> i64:
    """Wait for the values of a round; if the kernel has left before it, the round is to be told again."""
    post = ld(about, ABOUT_ROUNDS)
    turn = ld(post, POST_TURN)
    for _ in range(ld(about, ABOUT_BOUND)):
        left = atomic_load(post + 8 * POST_LEFT)
        if atomic_load(post + 8 * POST_DONE) == turn:
            return LAUNCHED
        if left != 0:
            st(about, ABOUT_THERE, 0)
            if ld(post, POST_LOST) != 0:
                return LOST
            st(about, ABOUT_PHASE, 1)
            return LAUNCHED
        pause()
    return LATE


def dismiss(about: i64) -> i64:
    if ld(about, ABOUT_THERE) == 0:
        return LAUNCHED
    post = ld(about, ABOUT_ROUNDS)
    atomic_store(post + 8 * POST_TURN, LEAVE)
    for _ in range(ld(about, ABOUT_BOUND)):
        if atomic_load(post + 8 * POST_LEFT) != 0:
            st(about, ABOUT_THERE, 0)
            return LAUNCHED
        pause()
    return LATE
