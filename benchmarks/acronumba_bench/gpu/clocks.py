"""Kernels that time instructions on a GPU by its clock, as PTX: what `cycles.Machine` assumes, measured.

In: nothing. Out: `KERNELS`, each with the text of a module of its own, which take the cycles of `R` rounds of a piece
of code. The largest number of a thread is left at `O`, a 1 behind it if one has given up waiting. The difference of two
launches has neither a beginning nor an end, and what a compiler moves across the reading of the clock does not matter.
Results are used in a way that it cannot foresee.

    clock(O, N)                 O[0], O[1]: cycles and nanoseconds of N nanoseconds
    ffma, hmma, mufu, shfl      chains of instructions, each of which needs the last one; with an s: eight chains
    s2r, barrier, branch        chains of special registers, barriers of the block; a loop of next to nothing
    bsync                       lanes that part and come together
    loads(O, R, S)              16 bytes a lane from shared memory; 2**S lanes have one address
    words(O, R)                 4 bytes a lane
    reach, generic              chains of loads from shared memory; by an address that could be of any memory
    far(O, R, P), cached        chains of loads past the first cache, from the second; from the first
    copy(O, R, P, B)            16 bytes a lane, copied to shared memory and waited for; blocks read from P + B * block
    copies(O, R, P, B)          the same, `COPIES` at a time
    bulk(O, R, P, B, S, N)      N copies of S bytes by one thread, waited for (compute capability 9.0)
    code_K(O, R)                K KB of straight code
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from acronumba_bench.gpu.ptx import different, entry, loop, module, wait

LENGTH = 128  # instructions of a round
CHAINED = 32  # loads of a chain
DIVIDED = 16  # places where lanes part
LOADED = 8  # loads that have registers of their own
CHAINS = 8  # of what is independent
COPIES = 16  # of a lane at a time
BULKS, LARGEST = 32, 1024  # places for copies by one thread, bytes of each
SIZES = (4, 8, 16, 32, 64, 128, 256)  # KB of straight code
LINE = 8  # instructions of 128 bytes of it
TRIES = 1 << 12  # looks at a barrier before a thread gives up


@dataclass(frozen=True)
class Kernel:
    """Text of a module, instructions of a round, and parameters behind O and R."""

    text: str
    count: int = LENGTH
    parameters: tuple[str, ...] = ()


def _timed(
    name: str, count: int, before: str, body: str, after: str = "", parameters: tuple[str, ...] = (),
    target: str = "sm_80",
) -> Kernel:  # fmt: skip
    """Return a kernel that takes the time of rounds of `body`, which has `count` instructions."""
    start = "    bar.sync 0;\n    mov.u64 %d10, %clock64;\n"
    end = """    mov.u64 %d11, %clock64;
    sub.u64 %d11, %d11, %d10;
    red.global.max.u64 [%O], %d11;
"""
    text = entry(name, ("O", "R", *parameters), before + start + loop("rounds", "%R", body) + end + after)
    return Kernel(module(target, text), count, parameters)


_PLACE = "    mov.u32 %r0, %tid.x;\n    and.b32 %r2, %r0, 31;\n    shr.u32 %r3, %r0, 5;\n"  # thread, lane, warp
_OWN = "    .shared .align 16 .b8 own[16384];\n"


def _numbers(count: int) -> str:
    return different(count) + "\n    mov.f32 %f60, 0f3F400000;\n    mov.f32 %f61, 0f3F000000;\n"  # tends to 2


def _used(results: int) -> str:
    total = "\n".join(f"    add.f32 %f0, %f0, %f{k};" for k in range(1, results))
    return total + "\n    setp.eq.f32 %p0, %f0, 0f42F6E979;\n    @%p0 st.global.f32 [%O+8], %f0;\n"


def _floats(name: str, chains: int, one: Callable[[int], str], results: int = 1) -> Kernel:
    """Return a kernel of instructions on float registers, `results` for each chain."""
    body = "\n".join(one(k % chains) for k in range(LENGTH))
    pieces = "\n".join(f"    mov.u32 %r{k}, 0x3F800000;" for k in range(6)) + "\n"
    return _timed(name, LENGTH, _numbers(chains * results) + pieces, body, _used(chains * results))


def _words(name: str, chains: int, one: Callable[[int], str], length: int = LENGTH) -> Kernel:
    """Return a kernel of instructions on words %w0 to %w7, which are different in each thread at first."""
    start = _PLACE + f"    .reg .b32 %w<{CHAINS}>;\n"
    start += "".join(f"    add.u32 %w{k}, %r0, {k};\n" for k in range(chains))
    end = "".join(f"    xor.b32 %w0, %w0, %w{k};\n" for k in range(1, chains))
    end += "    setp.eq.u32 %p0, %w0, 0x12345;\n    @%p0 st.global.u32 [%O+8], %w0;\n"
    return _timed(name, length, start, "\n".join(one(k % chains) for k in range(length)), end)


def _multiply(k: int) -> str:
    return f"    fma.rn.f32 %f{k}, %f{k}, %f60, %f61;"


def _tensor(k: int) -> str:
    d = ",".join(f"%f{4 * k + j}" for j in range(4))
    return f"    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{d}}},{{%r0,%r1,%r2,%r3}},{{%r4,%r5}},{{{d}}};"


def _power(k: int) -> str:
    return f"    ex2.approx.ftz.f32 %f{k}, %f{k};"


def _exchange(k: int) -> str:
    return f"    shfl.sync.bfly.b32 %w{k}, %w{k}, 1, 31, 0xffffffff;"


def _special(k: int) -> str:
    """A special register, read only when the last one is known."""
    return f"    setp.ne.u32 %p0, %w{k}, 0x7fffffff;\n    @%p0 mov.u32 %w{k}, %smid;"


def _divided() -> Kernel:
    """Some lanes go around a loop of one turn, which no compiler does for all under a condition."""
    one = """{
    setp.gt.u32 %p1, %r2, K;
    @%p1 bra over;
again:
    ld.volatile.shared.u32 %w1, [%r4];
    setp.ne.u32 %p2, %w1, 0;
    @%p2 bra again;
over:
}"""
    start = f"""{_OWN}{_PLACE}    .reg .b32 %w<2>;
    mov.u32 %r4, own;
    mad.lo.u32 %r4, %r0, 4, %r4;
    mov.u32 %w1, 0;
    st.shared.u32 [%r4], %w1;
"""
    return _timed("bsync", DIVIDED, start, "\n".join(one.replace("K", str(k + 8)) for k in range(DIVIDED)))


def _chain(name: str, width: str, load: str, place: str) -> Kernel:
    """Return a kernel of a chain of loads, each of which finds its own address."""
    start = f"{_OWN}{_PLACE}    .reg .b{width} %a;\n{place}\n    bar.sync 0;\n"
    body = "\n".join([f"    {load} %a, [%a];"] * CHAINED)
    end = f"    setp.eq.u{width} %p0, %a, 0;\n    @%p0 st.global.u{width} [%O+8], %a;\n"
    return _timed(name, CHAINED, start, body, end, ("P",) if "global" in load else ())


_REACH = """    mov.u32 %a, own;
    mad.lo.u32 %a, %r0, 4, %a;
    st.shared.u32 [%a], %a;"""
_GENERIC = """    mov.u32 %r4, own;
    mad.lo.u32 %r4, %r0, 8, %r4;
    cvt.u64.u32 %d0, %r4;
    cvta.shared.u64 %d0, %d0;
    st.shared.u64 [%r4], %d0;
    bar.sync 0;
    ld.volatile.shared.u64 %a, [%r4];"""
_FAR = """    mul.wide.u32 %d0, %r0, 8;
    add.u64 %d0, %P, %d0;
    st.global.u64 [%d0], %d0;
    membar.gl;
    bar.sync 0;
    ld.volatile.global.u64 %a, [%d0];"""


def _loads(name: str, kind: str, place: str, parameters: tuple[str, ...] = ()) -> Kernel:
    """Return a kernel of loads from shared memory whose results nobody waits for."""
    wide = 4 if "v4" in kind else 1
    registers = f"    .reg .f32 %v<{4 * LOADED}>;\n" + _numbers(2 * LOADED)
    body = ""
    for first in range(0, LENGTH, LOADED):
        for k in range(LOADED):
            into = ",".join(f"%v{wide * k + j}" for j in range(wide))
            into = f"{{{into}}}" if wide > 1 else into
            body += f"    ld.volatile.shared.{kind} {into}, [%r4+{512 * ((first + k) % 16)}];\n"
        for k in range(LOADED):
            factors = [f"%v{wide * k + j}" for j in range(wide)] + ["%f60"]
            for j in range(max(wide // 2, 1)):
                total = f"%f{2 * k + j}"
                body += f"    fma.rn.f32 {total}, {factors[2 * j]}, {factors[2 * j + 1]}, {total};\n"
    start = f"{_OWN}{_PLACE}{registers}    mov.u32 %r4, own;\n{place}"
    return _timed(name, LENGTH, start, body, _used(2 * LOADED), parameters)


_APART = """    cvt.u32.u64 %r5, %S;
    shr.u32 %r5, %r2, %r5;
    mad.lo.u32 %r4, %r5, 16, %r4;
"""
_SINGLE = "    mad.lo.u32 %r4, %r2, 4, %r4;\n"


def _copy(name: str, together: int) -> Kernel:
    start = f"""{_OWN}{_PLACE}    mov.u32 %r4, own;
    mov.u32 %r5, %ctaid.x;
    cvt.u64.u32 %d0, %r5;
    mad.lo.u64 %d0, %d0, %B, %P;
    mad.lo.u32 %r5, %r3, {512 * COPIES}, 0;
    mad.lo.u32 %r5, %r2, 16, %r5;
    cvt.u64.u32 %d1, %r5;
    add.u64 %d0, %d0, %d1;
    mad.lo.u32 %r4, %r0, 16, %r4;
"""
    one = [f"    cp.async.cg.shared.global [%r4], [%d0+{512 * k}], 16;" for k in range(together)]
    body = "\n".join([*one, "    cp.async.commit_group;", "    cp.async.wait_group 0;"])
    return _timed(name, together, start, body, "", ("P", "B"))


_BULK = f"""    .shared .align 128 .b8 own[{BULKS * LARGEST}];
    .shared .align 8 .u64 met;
{_PLACE}    setp.ne.u32 %p3, %r0, 0;
    mov.u32 %r5, %ctaid.x;
    cvt.u64.u32 %d0, %r5;
    mad.lo.u64 %d0, %d0, %B, %P;
    cvt.u32.u64 %r6, %S;
    cvt.u32.u64 %r7, %N;
    mul.lo.u32 %r8, %r6, %r7;
    mov.u32 %r9, met;
    mov.u32 %r12, 0;
    @!%p3 mbarrier.init.shared.b64 [%r9], 1;
    fence.proxy.async;
"""
_MET = "    mbarrier.try_wait.parity.shared.b64 %p1, [%r9], %r12;"
_GIVE_UP = "    mov.u64 %d14, 1;\n    st.global.u64 [%O+8], %d14;"
_BULK_ROUND = f"""    @%p3 bra next;
    mbarrier.arrive.expect_tx.shared.b64 %d9, [%r9], %r8;
    mov.u32 %r4, own;
    mov.u64 %d1, %d0;
    mov.u32 %r10, 0;
more:
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d1], %r6, [%r9];
    add.u32 %r4, %r4, %r6;
    add.u64 %d1, %d1, %S;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, %r7;
    @%p4 bra more;
    mov.u64 %d15, 0;
{wait("poll", "", _MET, _GIVE_UP, TRIES)}
    xor.b32 %r12, %r12, 1;
next:"""


def straight(kilobytes: int) -> Kernel:
    """Return a kernel of straight code."""
    body = "\n".join(_multiply(k % CHAINS) for k in range(kilobytes * 64))
    return _timed(f"code_{kilobytes}", kilobytes * 64, _numbers(CHAINS), body, _used(CHAINS))


_CLOCK = """    mov.u64 %d0, %globaltimer;
    mov.u64 %d1, %clock64;
    mov.u64 %d15, 0;
again:
    mov.u64 %d2, %globaltimer;
    mov.u64 %d3, %clock64;
    sub.u64 %d2, %d2, %d0;
    add.u64 %d15, %d15, 1;
    setp.gt.u64 %p1, %d15, 0x1000000;
    @%p1 bra over;
    setp.lt.u64 %p0, %d2, %N;
    @%p0 bra again;
over:
    sub.u64 %d3, %d3, %d1;
    st.global.u64 [%O], %d3;
    st.global.u64 [%O+8], %d2;"""


KERNELS: dict[str, Kernel] = {
    "clock": Kernel(module("sm_80", entry("clock", ("O", "N"), _CLOCK))),
    "ffma": _floats("ffma", 1, _multiply),
    "ffmas": _floats("ffmas", CHAINS, _multiply),
    "hmma": _floats("hmma", 1, _tensor, 4),
    "hmmas": _floats("hmmas", CHAINS, _tensor, 4),
    "mufu": _floats("mufu", 1, _power),
    "mufus": _floats("mufus", CHAINS, _power),
    "shfl": _words("shfl", 1, _exchange),
    "shfls": _words("shfls", CHAINS, _exchange),
    "s2r": _words("s2r", 1, _special),
    "barrier": _words("barrier", 1, lambda _: "    bar.sync 0;"),
    "branch": _words("branch", 1, lambda k: f"    add.u32 %w{k}, %w{k}, 1;", 1),
    "bsync": _divided(),
    "loads": _loads("loads", "v4.f32", _APART, ("S",)),
    "words": _loads("words", "f32", _SINGLE),
    "reach": _chain("reach", "32", "ld.shared.u32", _REACH),
    "generic": _chain("generic", "64", "ld.u64", _GENERIC),
    "far": _chain("far", "64", "ld.global.cg.u64", _FAR),
    "cached": _chain("cached", "64", "ld.global.u64", _FAR),
    "copy": _copy("copy", 1),
    "copies": _copy("copies", COPIES),
    "bulk": _timed("bulk", 1, _BULK, _BULK_ROUND, "", ("P", "B", "S", "N"), "sm_90"),
}
