"""Kernels that measure a GPU, as PTX: the driver compiles it, so that no toolkit is needed where they run.

In: nothing. Out: the text of modules. Parameters are words of 64 bits. A thread that waits for others polls at most
`LOOKS` times, then gives up and records this in memory, so that a GPU with unexpected behaviour does not hang.

    empty()                         nothing
    spin(nanoseconds)               keeps a multiprocessor busy, so that later work queues up
    counter(P, rounds)              barriers of the whole grid by a counter that only grows; P[1]: gave up
    flip(P, rounds)                 the same by the highest bit of a counter, as `cooperative_groups` does it
    hop(P, rounds, other)           block 0 and another one answer each other through memory; P[2], P[3]: their SMs
    read(P, turns, rounds, O)       16 bytes a load, past the first cache; a turn is `LOADS` loads of each thread
    multiply(rounds, O)             `REPEATS` * `CHAINS` fused multiply-adds per thread and round
    tensor(rounds, O)               `REPEATS` * `TILES` products of 16 x 8 x 8 in TF32 per warp and round
    shared(O, bytes)                writes and reads the ends of so much memory of a block

On GPUs of compute capability 9.0 (`CLUSTERS`):

    dependent()                     lets the next kernel begin, then waits for the one before
    cluster(rounds)                 barriers of a cluster
    staged(P, rounds)               barriers of the grid: of clusters, by a counter of one block of each, of clusters
    near(P, rounds)                 `hop` between two blocks of a cluster, through the memory that blocks share
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

LOOKS = 1 << 22  # looks: some seconds
LOADS, CHAINS, TILES = 4, 16, 8
REPEATS = 8  # of them in a round, so that counting rounds costs nothing
_CHANNEL = 256  # bytes between the two words of `hop`, so that they lie in different lines


def entry(name: str, parameters: Sequence[str], body: str) -> str:
    given = ", ".join(f".param .u64 {p}" for p in parameters)
    loads = "\n".join(f"    ld.param.u64 %{p}, [{p}];" for p in parameters)
    own = f"    .reg .u64 {', '.join(f'%{p}' for p in parameters)};\n" if parameters else ""
    registers = "    .reg .pred %p<8>;\n    .reg .b32 %r<16>;\n    .reg .u64 %d<16>;\n    .reg .f32 %f<64>;\n"
    return f".visible .entry {name}({given})\n{{\n{registers}{own}{loads}\n{body}\n    ret;\n}}\n"


def loop(name: str, count: str, body: str) -> str:
    """Return a loop of so many rounds, at least one."""
    return (
        f"{name}:\n{body}\n    sub.u64 {count}, {count}, 1;\n    setp.ne.u64 %p7, {count}, 0;\n    @%p7 bra {name};\n"
    )


def wait(label: str, look: str, until: str, give_up: str, looks: int = LOOKS) -> str:
    """Return a loop that polls until %p1 holds; %d15 counts the polls."""
    return (
        f"{label}:\n{look}\n{until}\n    @%p1 bra {label}_done;\n    add.u64 %d15, %d15, 1;\n"
        f"    setp.lt.u64 %p2, %d15, {looks};\n    @%p2 bra {label};\n{give_up}\n    ret;\n{label}_done:"
    )


_GIVE_UP = "    mov.u64 %d14, 1;\n    st.global.u64 [%P+8], %d14;"

_SPIN = """    mov.u64 %d0, %globaltimer;
again:
    mov.u64 %d1, %globaltimer;
    sub.u64 %d1, %d1, %d0;
    setp.lt.u64 %p0, %d1, %N;
    @%p0 bra again;"""


def _barriers(arrive: str, look: str, until: str) -> str:
    start = """    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %nctaid.x;
    mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p0, %r0, 0;
    mov.u64 %d15, 0;
    mov.u64 %d3, 0;
    cvt.u64.u32 %d2, %r1;
    sub.u32 %r3, 0x80000001, %r1;
    setp.ne.u32 %p3, %r2, 0;
    @%p3 mov.u32 %r3, 1;
"""
    body = f"""    bar.sync 0;
    add.u64 %d3, %d3, %d2;
    @%p0 bra together;
{arrive}
{wait("poll", look, until, _GIVE_UP)}
together:
    bar.sync 0;"""
    return start + loop("rounds", "%R", body)


_COUNTER = _barriers(
    "    red.release.gpu.global.add.u64 [%P], 1;",
    "    ld.acquire.gpu.global.u64 %d4, [%P];",
    "    setp.ge.u64 %p1, %d4, %d3;",
)
_FLIP = _barriers(
    "    atom.add.release.gpu.global.u32 %r4, [%P], %r3;",
    "    ld.acquire.gpu.global.u32 %r5, [%P];",
    "    xor.b32 %r6, %r5, %r4;\n    setp.lt.s32 %p1, %r6, 0;",
)


def _answers(send: str, look: str) -> str:
    """Return the rounds of two threads that answer each other: the first (%p3 holds for the other) begins."""
    poll = wait("poll", look, "    setp.ge.u64 %p1, %d4, %d3;", _GIVE_UP)
    body = f"    add.u64 %d3, %d3, 1;\n    @%p3 bra poll;\n{send}\n{poll}\n    @!%p3 bra next;\n{send}\nnext:"
    return "    mov.u64 %d3, 0;\n    mov.u64 %d15, 0;\n" + loop("rounds", "%R", body)


_HOP = f"""    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 ret;
    mov.u32 %r1, %ctaid.x;
    cvt.u64.u32 %d0, %r1;
    setp.eq.u64 %p3, %d0, %other;
    setp.eq.or.u64 %p4, %d0, 0, %p3;
    @!%p4 ret;
    mov.u32 %r2, %smid;
    cvt.u64.u32 %d1, %r2;
    add.u64 %d5, %P, {_CHANNEL};
    add.u64 %d6, %P, {2 * _CHANNEL};
    @!%p3 st.global.u64 [%P+16], %d1;
    @%p3 st.global.u64 [%P+24], %d1;
    @!%p3 bra ready;
    mov.u64 %d7, %d5;
    mov.u64 %d5, %d6;
    mov.u64 %d6, %d7;
ready:
""" + _answers("    st.release.gpu.global.u64 [%d5], %d3;", "    ld.acquire.gpu.global.u64 %d4, [%d6];")

_NEAR = (
    """    .shared .align 8 .u64 flag;
    mov.u64 %d0, 0;
    mov.u32 %r0, flag;
    st.shared.u64 [%r0], %d0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r1, %cluster_ctarank;
    setp.ne.u32 %p3, %r1, 0;
    xor.b32 %r1, %r1, 1;
    mapa.shared::cluster.u32 %r2, %r0, %r1;
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p0, %r3, 0;
    @%p0 bra over;
"""
    + _answers(
        "    st.release.cluster.shared::cluster.u64 [%r2], %d3;",
        "    ld.acquire.cluster.shared::cluster.u64 %d4, [%r0];",
    ).replace("    ret;\n", "    bra over;\n")
    + """over:
    barrier.cluster.arrive;
    barrier.cluster.wait;"""
)

_STAGED = """    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, %nclusterid.x;
    or.b32 %r0, %r0, %r1;
    setp.ne.u32 %p0, %r0, 0;
    mov.u64 %d15, 0;
    mov.u64 %d3, 0;
    cvt.u64.u32 %d2, %r2;
""" + loop(
    "rounds",
    "%R",
    f"""    barrier.cluster.arrive;
    barrier.cluster.wait;
    add.u64 %d3, %d3, %d2;
    @%p0 bra together;
    red.release.gpu.global.add.u64 [%P], 1;
{wait("poll", "    ld.acquire.gpu.global.u64 %d4, [%P];", "    setp.ge.u64 %p1, %d4, %d3;", _GIVE_UP)}
together:
    barrier.cluster.arrive;
    barrier.cluster.wait;""".replace("    ret;\n", "    bra together;\n"),
)

_PLACE = """    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %nctaid.x;
    mad.lo.u32 %r4, %r0, %r1, %r2;
    mul.lo.u32 %r5, %r1, %r3;
"""  # %r4: the thread's number, %r5: how many there are


def _read() -> str:
    load = "\n".join(
        f"    ld.global.cg.v4.u32 {{%v{4 * k}, %v{4 * k + 1}, %v{4 * k + 2}, %v{4 * k + 3}}}, [%d3];\n"
        f"    add.u64 %d3, %d3, %d1;"
        for k in range(LOADS)
    )
    use = "\n".join(f"    xor.b32 %r7, %r7, %v{k};" for k in range(4 * LOADS))
    inner = loop("turns", "%d4", f"{load}\n{use}")
    start = f"""    .reg .b32 %v<{4 * LOADS}>;
{_PLACE}    mul.wide.u32 %d0, %r4, 16;
    add.u64 %d0, %d0, %P;
    mul.wide.u32 %d1, %r5, 16;
    mov.u32 %r7, 0;
"""
    body = f"    mov.u64 %d3, %d0;\n    mov.u64 %d4, %T;\n{inner}"
    return start + loop("rounds", "%R", body) + "    setp.eq.u32 %p0, %r7, 0x12345;\n    @%p0 st.global.u32 [%O], %r7;"


def _multiply() -> str:
    start = different(CHAINS)
    start += "\n    mov.f32 %f60, 0f3F400000;\n    mov.f32 %f61, 0f3F000000;\n"  # 0.75, 0.5: tends to 2
    body = "\n".join(f"    fma.rn.f32 %f{k}, %f{k}, %f60, %f61;" for k in range(CHAINS))
    return _arithmetic(start, body, CHAINS)


def _tensor() -> str:
    start = different(4 * TILES)
    start += "\n" + "\n".join(f"    mov.u32 %r{k}, 0x3F800000;" for k in range(6)) + "\n"
    body = "\n".join(
        "    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {D},{%r0,%r1,%r2,%r3},{%r4,%r5},{D};".replace(
            "D", ",".join(f"%f{4 * t + k}" for k in range(4))
        )
        for t in range(TILES)
    )
    return _arithmetic(start, body, 4 * TILES)


def different(count: int) -> str:
    """Return distinct initial numbers, since a compiler could merge equal chains."""
    return "\n".join(f"    mov.f32 %f{k}, 0f{struct.pack('>f', 1 + k / 64).hex().upper()};" for k in range(count))


def _arithmetic(start: str, body: str, results: int) -> str:
    """Return rounds of arithmetic whose results a compiler cannot prove to be unused."""
    total = "\n".join(f"    add.f32 %f0, %f0, %f{k};" for k in range(1, results))
    end = "\n    setp.lt.f32 %p0, %f0, 0f00000000;\n    @%p0 st.global.f32 [%O], %f0;"
    return start + loop("rounds", "%R", "\n".join([body] * REPEATS)) + total + end


_SHARED = """    mov.u32 %r0, room;
    cvt.u32.u64 %r1, %B;
    add.u32 %r1, %r1, %r0;
    mov.u32 %r2, 20;
    mov.u32 %r3, 22;
    st.shared.u32 [%r0], %r2;
    st.shared.u32 [%r1+-4], %r3;
    ld.volatile.shared.u32 %r4, [%r0];
    ld.volatile.shared.u32 %r5, [%r1+-4];
    add.u32 %r4, %r4, %r5;
    st.global.u32 [%O], %r4;"""


def module(target: str, *entries: str, before: str = "") -> str:
    return "\n".join([f".version 8.0\n.target {target}\n.address_size 64\n{before}", *entries])


GENERAL = module(
    "sm_80",
    entry("empty", (), ""),
    entry("spin", ("N",), _SPIN),
    entry("counter", ("P", "R"), _COUNTER),
    entry("flip", ("P", "R"), _FLIP),
    entry("hop", ("P", "R", "other"), _HOP),
    entry("read", ("P", "T", "R", "O"), _read()),
    entry("multiply", ("R", "O"), _multiply()),
    entry("tensor", ("R", "O"), _tensor()),
    entry("shared", ("O", "B"), _SHARED),
    before=".extern .shared .align 16 .b8 room[];\n",
)
CLUSTERS = module(
    "sm_90",
    entry("dependent", (), "    griddepcontrol.launch_dependents;\n    griddepcontrol.wait;"),
    entry(
        "cluster",
        ("R",),
        loop("rounds", "%R", "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"),
    ),
    entry("staged", ("P", "R"), _STAGED),
    entry("near", ("P", "R"), _NEAR),
)
