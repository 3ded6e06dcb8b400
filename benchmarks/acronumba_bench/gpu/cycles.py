"""Estimates the cycles of kernels on a GPU of sm_90a, without one.

In: what the warps of a block issue (`emulate`), and a `Machine`. Out: cycles. A warp issues in order: the next
instruction `stall` cycles behind the last one, once the scoreboards that it waits for are free and its unit takes it. A
scheduler issues one instruction a cycle, of the warp that it issued last if that can go on, else of the youngest
(Huerta et al., "Dissecting and Modeling the Architecture of Modern GPU Cores", MICRO 2025). What takes a variable time
frees its scoreboard after the latencies of `Machine`. Each scheduler has a first cache of instructions, which is empty
at first; lines of 8 come one behind the other. Accesses of 16 bytes share what a multiprocessor gets from the second
cache.

These are estimates: of 126 launches of functions on an H200, 99 took at most 15% more or less than this. Not modelled:
many blocks that read the same few lines of the second cache, memory, banks of registers, lanes that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from acronumba_bench.gpu.emulate import Issued
from acronumba_bench.gpu.sass import SIZE, Instruction

Traces: TypeAlias = Sequence[Sequence[Issued]]  # of the warps of a block

SCHEDULERS = 4
GIGAHERTZ = 1.98  # of an H200
PROCESSORS = 132
LINE = 8  # instructions of a line of the first cache


@dataclass(frozen=True)
class Machine:
    """Cycles: (p) from publications, (c) from control codes of ptxas, (m) measured on an H200, (g) guessed."""

    shared: int = 23  # (m)
    generic: int = 24  # (m) shared memory by a generic address
    operands: int = 11  # (p) until the operands of an access have been read
    l1: int = 34  # (m) the first cache,
    l2: int = 310  # (m) ... and the second one
    copy: int = 307  # (m) cp.async from the second cache into shared memory
    special: int = 25  # (m) S2R
    function: int = 17  # (m) MUFU; conversions are taken to be alike
    constant: int = 30  # (g) LDC
    exchange: int = 24  # (m) SHFL
    branch: int = 5  # (m) beyond the stall, where a branch is taken
    converge: int = 12  # (g) beyond the stall: BSYNC, WARPSYNC; 206 more where lanes had parted (m)
    barrier: int = 11  # (m) from the last arrival to the next instruction,
    arrival: int = 2  # (m) ... and for each warp
    fence: int = 700  # (m: what steps of the persistent kernel took longer) until all blocks see stores
    tensor: int = 6  # (m) between two instructions of tensor cores of a scheduler
    access: int = 4  # (m) between two accesses of a scheduler: four schedulers share one a cycle
    cached: int = 2048  # (m) instructions that the first cache of a scheduler holds
    line: int = 17  # (m) between two lines that are not there, of those that follow each other
    jump: int = 30  # (g) for a line elsewhere that is not there
    port: int = 64  # (p) bytes a cycle that a multiprocessor gets from the second cache,
    every: int = 4350  # (m: 8.6 TB/s) ... and all together


HOPPER = Machine()

_UNITS = {
    "fma": "FFMA FADD FMUL IMAD",
    "alu": "IADD3 LOP3 SHF ISETP FSETP SEL FSEL LEA VIADD MOV PRMT PLOP3 VIMNMX IABS FMNMX P2R R2P CS2R F2FP FCHK "
    "IADD SGXT IMNMX",
    "tensor": "HMMA",
    "special": "MUFU F2I I2F F2F FRND POPC FLO",
    "memory": "LDS LD LDG STS ST STG LDGSTS LDSM ATOMS RED ATOMG SHFL LDC",
}
_UNIT = {kind: unit for unit, kinds in _UNITS.items() for kind in kinds.split()}


def _width(i: Instruction) -> int:
    return 4 if "128" in i.parts else 2 if "64" in i.parts else 1


def _busy(one: Issued, m: Machine) -> int:
    """Return for how many cycles a scheduler's unit takes no other instruction."""
    unit = _UNIT.get(one.instruction.kind, "")
    if unit == "memory":
        return (
            2
            if one.instruction.kind == "LDC"
            else m.access * max(one.turns, 1)
            if one.turns or not one.instruction.guard
            else 1
        )
    return {"tensor": m.tensor, "alu": 2, "special": 8}.get(unit, 1)


def _latency(one: Issued, m: Machine) -> int:
    kind = one.instruction.kind
    if kind in ("LDS", "LDSM", "LD", "LDG"):
        if one.apart:
            return m.l1 if one.again and "STRONG" not in one.instruction.parts else m.l2
        return (m.generic if kind == "LD" else m.shared) + 4 * (_width(one.instruction) - 1)
    latencies = {
        "ST": 8, "STS": 8, "STG": 8, "S2R": m.special, "S2UR": m.special, "MUFU": m.function, "F2I": m.function,
        "I2F": m.function, "F2F": m.function, "LDC": m.constant, "SHFL": m.exchange, "RED": 2 * m.l2, "ATOMG": 2 * m.l2,
    }  # fmt: skip
    return latencies.get(kind, 12)


@dataclass
class _Warp:
    trace: Sequence[Issued]
    block: int
    at: int = 0
    ready: int = 0
    free: list[list[int]] = field(default_factory=lambda: [[] for _ in range(6)])
    copies: list[int] = field(default_factory=list)  # when copies of the last group are there
    groups: list[int] = field(default_factory=list)
    met: bool = False

    def earliest(self, units: dict[str, int]) -> int:
        """Return when the next instruction may be issued."""
        i = self.trace[self.at].instruction
        t = self.ready
        if i.waits:
            for k in range(6):
                if i.waits >> k & 1:
                    t = max(t, max(self.free[k], default=0))
        if i.kind == "DEPBAR" and len(i.args) > 1:
            keep = int(i.args[1].rstrip("}"), 16)
            if len(self.groups) > keep:
                t = max(t, max(self.groups[: len(self.groups) - keep]))
        unit = _UNIT.get(i.kind, "")
        return max(t, units.get(unit, 0)) if unit else t

    def issue(self, now: int, m: Machine, units: dict[str, int], port: _Port) -> None:
        one = self.trace[self.at]
        i = one.instruction
        brings = i.kind == "LDGSTS" or (i.kind in ("LDG", "LD") and one.apart and not one.again)
        late = port.late(now, one.turns) if brings and "128" in i.parts and one.turns else 0
        unit = _UNIT.get(i.kind, "")
        if unit:
            units[unit] = now + _busy(one, m)
        self.at += 1
        self.ready = now + max(i.stall, 1)
        if one.taken:
            self.ready += m.branch
        elif i.kind in ("BSYNC", "WARPSYNC"):
            self.ready += m.converge
        elif i.kind == "LDGSTS" and one.turns:
            self.copies.append(now + late + m.copy)
        elif i.kind == "LDGDEPBAR":
            self.groups = [*self.groups[-8:], max(self.copies, default=now)]
            self.copies = []
        elif i.kind == "MEMBAR" and "GPU" in i.parts and one.turns:
            self.ready += m.fence
        elif i.kind == "BAR":
            self.met = True
        if i.sets < 6 and i.kind != "LDGDEPBAR":
            self.free[i.sets] = [t for t in self.free[i.sets] if t > now] + [now + late + _latency(one, m)]
        if i.reads < 6:
            self.free[i.reads] = [t for t in self.free[i.reads] if t > now] + [now + m.operands]


class _Port:
    """What brings bytes from the second cache to a multiprocessor."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.free = 0.0

    def late(self, now: int, turns: int) -> int:
        """Take an access of so many times 128 bytes; return for how many cycles it waits for others."""
        self.free = max(self.free, now) + 128 * turns / self.rate
        return max(int(self.free) - now - 2, 0)


class _Cache:
    """The first cache of instructions of a scheduler. The line behind one that was brought comes by itself."""

    def __init__(self, m: Machine) -> None:
        self.m = m
        self.held: dict[int, int] = {}  # lines, and when they are there
        self.last = -2  # the line that was brought last

    def there(self, i: Instruction, now: int) -> int:
        """Return when the line of an instruction is there, and bring it in."""
        line = i.at // (SIZE * LINE)
        if line not in self.held:
            follows = line == self.last + 1
            self.held[line] = max(now, self.held[self.last] + self.m.line) if follows else now + self.m.jump
            self.last = line
            if len(self.held) > max(2, self.m.cached // LINE):
                del self.held[next(iter(self.held))]
        return max(now, self.held[line])


class _Scheduler:
    def __init__(self, warps: list[_Warp], m: Machine, port: _Port) -> None:
        self.warps, self.m, self.port = warps, m, port
        self.units: dict[str, int] = {}
        self.last: _Warp | None = None
        self.cache = _Cache(m)

    def go(self, now: int) -> int:
        """Issue an instruction if one can be; return when there is more to do, -1: never."""
        soonest = -1
        self.warps = [w for w in self.warps if w.at < len(w.trace)]
        order = self.warps if self.last is None else [self.last, *(w for w in self.warps if w is not self.last)]
        for w in order:
            if w.at >= len(w.trace) or w.met:
                continue
            t = w.earliest(self.units)
            if t <= now:
                w.ready = t = max(t, self.cache.there(w.trace[w.at].instruction, now))
            if t <= now:
                w.issue(now, self.m, self.units, self.port)
                self.last = w
                return now + 1
            soonest = t if soonest < 0 else min(soonest, t)
        return soonest


def cycles(blocks: Sequence[Traces], m: Machine = HOPPER, busy: int = 1) -> int:
    """Return the cycles until all warps of the blocks of a multiprocessor are done, while so many are busy."""
    port = _Port(min(m.port, m.every / busy))
    warps = [_Warp(trace, k) for k, block in enumerate(blocks) for trace in block]
    schedulers = [
        _Scheduler([w for n, w in enumerate(warps) if n % SCHEDULERS == s][::-1], m, port) for s in range(SCHEDULERS)
    ]
    grouped: dict[int, list[_Warp]] = {}
    for w in warps:
        grouped.setdefault(w.block, []).append(w)
    now = 0
    while True:
        times = [t for t in (s.go(now) for s in schedulers) if t >= 0]
        for own in grouped.values():
            met = [w for w in own if w.met]
            if met and all(w.met or w.at >= len(w.trace) for w in own):
                for w in met:
                    w.met, w.ready = False, max(w.ready, now + m.barrier + m.arrival * len(met))
                    times.append(w.ready)
        if not times:
            if any(w.at < len(w.trace) for w in warps):
                raise RuntimeError("nothing goes on")
            return now
        now = max(min(times), now + 1)


def behind(block: Traces, m: Machine = HOPPER) -> int:
    """Return the cycles of a block from its first barrier on: what is before reads nothing that a batch computes.

    Code and weights are there, as in a kernel that has run it before.
    """
    m = replace(m, line=0, jump=0, port=m.every)
    before = []
    for trace in block:
        first = next(k for k, one in enumerate(trace) if one.instruction.kind == "BAR")
        before.append(trace[: first + 1])
    return cycles([block], m) - cycles([before], m)
