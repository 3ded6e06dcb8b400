"""Estimates the cycles of kernels on a GPU of sm_90a, without one.

In: what the warps of a block issue (`emulate`), and a `Machine`. Out: cycles. A warp issues in order: the next
instruction `stall` cycles behind the last one, once the scoreboards that it waits for are free and its unit takes it. A
scheduler issues one instruction a cycle, of the warp that it issued last if that can go on, else of the youngest
(Huerta et al., "Dissecting and Modeling the Architecture of Modern GPU Cores", MICRO 2025). What takes a variable time
frees its scoreboard after the latencies of `Machine`. Each scheduler has a first cache of instructions; what has been
in it and was displaced comes back in lines of 8, what comes for the first time is taken to be there.

These are estimates: on an H200 the kernels of two models took 0 to 14% more or less than what was estimated. Not
modelled: contention for the second cache and for memory, banks of registers, stores that a barrier waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """Cycles: (p) from publications, (c) from control codes of ptxas, (m) measured, (g) guessed: to be measured."""

    shared: int = 26  # (p) Huerta et al. 2025: 24 to 26 on Ampere
    generic: int = 36  # (g) shared memory by a generic address
    operands: int = 11  # (p) until the operands of an access have been read
    l2: int = 281  # (p) the second cache, on a GH200 (markdewing/AI_kernels)
    copy: int = 330  # (g) cp.async from the second cache into shared memory
    special: int = 30  # (g) S2R
    function: int = 23  # (g) MUFU, conversions
    constant: int = 30  # (g) LDC
    exchange: int = 24  # (g) SHFL
    branch: int = 6  # (g) beyond the stall, where a branch is taken
    converge: int = 12  # (g) beyond the stall: BSYNC, WARPSYNC
    barrier: int = 20  # (g) from the last arrival to the next instruction
    tensor: int = 7  # (c, m: 320 TFLOP/s of mma.sync) between two instructions of tensor cores of a scheduler
    access: int = 4  # (g) between two accesses of a scheduler: four schedulers share one a cycle
    cached: int = 768  # (g) instructions that the first cache of a scheduler holds
    line: int = 16  # (g) for a line that has been displaced


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
            return m.l2
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

    def issue(self, now: int, m: Machine, units: dict[str, int]) -> None:
        one = self.trace[self.at]
        i = one.instruction
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
            self.copies.append(now + m.copy)
        elif i.kind == "LDGDEPBAR":
            self.groups = [*self.groups[-8:], max(self.copies, default=now)]
            self.copies = []
        elif i.kind == "BAR":
            self.met = True
        if i.sets < 6 and i.kind != "LDGDEPBAR":
            self.free[i.sets] = [t for t in self.free[i.sets] if t > now] + [now + _latency(one, m)]
        if i.reads < 6:
            self.free[i.reads] = [t for t in self.free[i.reads] if t > now] + [now + m.operands]


class _Cache:
    """The first cache of instructions of a scheduler."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.seen: set[int] = set()
        self.held: dict[int, None] = {}

    def misses(self, i: Instruction) -> bool:
        """Bring the line of an instruction in; return whether it had been displaced."""
        line = i.at // (SIZE * LINE)
        if line in self.held:
            return False
        self.held[line] = None
        if len(self.held) > self.lines:
            del self.held[next(iter(self.held))]
        known = line in self.seen
        self.seen.add(line)
        return known


class _Scheduler:
    def __init__(self, warps: list[_Warp], m: Machine) -> None:
        self.warps, self.m = warps, m
        self.units: dict[str, int] = {}
        self.last: _Warp | None = None
        self.cache = _Cache(max(1, m.cached // LINE))

    def go(self, now: int) -> int:
        """Issue an instruction if one can be; return when there is more to do, -1: never."""
        soonest = -1
        self.warps = [w for w in self.warps if w.at < len(w.trace)]
        order = self.warps if self.last is None else [self.last, *(w for w in self.warps if w is not self.last)]
        for w in order:
            if w.at >= len(w.trace) or w.met:
                continue
            t = w.earliest(self.units)
            if t <= now and self.cache.misses(w.trace[w.at].instruction):
                w.ready = t = now + self.m.line
            if t <= now:
                w.issue(now, self.m, self.units)
                self.last = w
                return now + 1
            soonest = t if soonest < 0 else min(soonest, t)
        return soonest


def cycles(blocks: Sequence[Traces], m: Machine = HOPPER) -> int:
    """Return the cycles until all warps of the blocks of a multiprocessor are done."""
    warps = [_Warp(trace, k) for k, block in enumerate(blocks) for trace in block]
    schedulers = [
        _Scheduler([w for n, w in enumerate(warps) if n % SCHEDULERS == s][::-1], m) for s in range(SCHEDULERS)
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
                    w.met, w.ready = False, max(w.ready, now + m.barrier)
                    times.append(w.ready)
        if not times:
            if any(w.at < len(w.trace) for w in warps):
                raise RuntimeError("nothing goes on")
            return now
        now = max(min(times), now + 1)


def behind(block: Traces, m: Machine = HOPPER) -> int:
    """Return the cycles of a block from its first barrier on: what is before reads nothing that a batch computes."""
    before = []
    for trace in block:
        first = next(k for k, one in enumerate(trace) if one.instruction.kind == "BAR")
        before.append(trace[: first + 1])
    return cycles([block], m) - cycles([before], m)
