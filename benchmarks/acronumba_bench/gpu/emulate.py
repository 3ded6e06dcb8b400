"""Runs machine code of a GPU in Python, to know which instructions each warp goes through.

In: `sass.Code`, the words of the kernel's parameters, and memory. Out: for each warp of one block the list of `Issued`
instructions, in order, with what their memory accesses cost. All 32 lanes of a warp are computed at once; a branch that
divides them is followed as the hardware does, by its barriers of convergence (`BSSY`, `BSYNC`), of the rest the lanes
that lie furthest behind go first. So loops turn as often, and branches go, as on a GPU with the same numbers in memory:
nothing is assumed of the code, and results are what the GPU would store. Sums of products are rounded once, by float64;
approximate functions are exact ones.

What the kernels of this project do not use (double precision, atomic operations, textures) is an error, `Unknown`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba_bench.gpu.arithmetic import ARITHMETIC
from acronumba_bench.gpu.operands import (
    ALL,
    FULL,
    I64,
    SHARED,
    U32,
    U64,
    WARP,
    Lanes,
    Read,
    Step,
    Unknown,
    is_predicate,
    pair,
    predicate,
    setter,
    word,
    writer,
)  # fmt: skip
from acronumba_bench.gpu.sass import SIZE, Code, Instruction

_BASE = 1024  # bytes of shared memory in front of a block's own
_PARAMETERS = 0x210  # place of the parameters among the constants


class Issued:
    """An instruction that a warp has issued."""

    __slots__ = ("again", "apart", "instruction", "taken", "turns")

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.taken = False  # of a branch: whether it went elsewhere
        self.turns = 0  # of an access of memory: how many times the memory's 128 bytes a cycle are needed
        self.apart = False  # whether it went to memory that not only the block has
        self.again = False  # whether all of that has been read before, by the warp or before a barrier


class Memory:
    """Arrays that kernels may reach, all in one piece; `at` is the address that they will have elsewhere."""

    def __init__(self, size: int, at: int = 0) -> None:
        self.words = np.zeros(size // 4 + 64, U32)
        self.base = at or self.words.ctypes.data + -self.words.ctypes.data % 256
        self.words = self.words if at else self.words[(self.base - self.words.ctypes.data) // 4 :]
        self.top = 0

    def place(self, array: NDArray[Any], align: int = 256) -> int:
        """Copy an array into memory; return its address."""
        at = -(-self.top // align) * align
        size = array.nbytes
        if at + size > self.words.nbytes:
            raise MemoryError
        self.words.view(np.uint8)[at : at + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.top = at + size
        return self.base + at

    def read(self, address: int, like: NDArray[Any]) -> NDArray[Any]:
        """Return what lies at an address, of the shape and type of an array."""
        at = address - self.base
        return self.words.view(np.uint8)[at : at + like.nbytes].view(like.dtype).reshape(like.shape).copy()


class Block:
    """A block of a launch."""

    def __init__(
        self, code: Code, memory: Memory, arguments: Sequence[int], threads: int, blocks: int, block: int, shared: int
    ) -> None:
        self.code, self.memory = code, memory
        self.threads, self.blocks, self.block = threads, blocks, block
        self.shared = np.full((_BASE + shared + 64) // 4, 0xFFFFFFFF, U32)
        constants = bytearray(_PARAMETERS + 8 * len(arguments))
        constants[0:16] = struct.pack("<4I", threads, 1, 1, blocks)
        constants[_PARAMETERS:] = struct.pack(f"<{len(arguments)}q", *arguments)
        self.constants = np.frombuffer(bytes(constants), U32)
        self.warps: list[Warp] = []
        self.lines: set[int] = set()  # of memory that have been read before the last barrier
        self.votes: dict[int, bool] = {}  # of the last barrier with a question, by warp
        self.steps = [_step(i, self) for i in code.body]

    def run(self, most: int = 4_000_000) -> list[list[Issued]]:
        """Run all warps; return what each has issued."""
        self.warps = warps = [Warp(self, k) for k in range(self.threads // WARP)]
        with np.errstate(all="ignore"):
            while any(w.alive for w in warps):
                for w in warps:
                    w.go()
                if sum(len(w.issued) for w in warps) > most:
                    raise RuntimeError("the kernel does not end")
                for w in warps:
                    w.waits = False
                    self.lines |= w.lines
        return [w.issued for w in warps]


class Warp:
    """The state of a warp."""

    def __init__(self, block: Block, number: int) -> None:
        self.block, self.number = block, number
        self.r = np.zeros((257, WARP), U32)  # 255: RZ; 256: what is written to it
        self.u = [0] * 65
        self.p = np.zeros((9, WARP), bool)  # 7: PT
        self.p[7] = True
        self.up = [False] * 7 + [True, False]
        self.groups: dict[int, Lanes] = {0: ALL.copy()}  # lanes by the address of their next instruction
        self.barriers: dict[str, Lanes] = {}
        self.held: dict[str, list[tuple[int, Lanes]]] = {}  # lanes that wait at a barrier
        self.exited = np.zeros(WARP, bool)
        self.waits = False  # at a barrier of the block
        self.issued: list[Issued] = []
        self.lines: set[int] = set()  # of memory that it has read
        self.pc = 0

    @property
    def alive(self) -> bool:
        return not self.exited.all()

    def go(self) -> None:
        """Run until all lanes have ended, or wait for the other warps of the block."""
        body, at, steps = self.block.code.body, self.block.code.at, self.block.steps
        while self.groups and not self.waits:
            self.pc = min(self.groups)
            mask = self.groups.pop(self.pc)
            k = at(self.pc)
            while True:
                i = body[k]
                self.issued.append(Issued(i))
                active = mask
                if i.guard:
                    active = mask & self.guard(i.guard)
                step = steps[k]
                if i.kind in _FLOW:
                    step(self, active)
                    left = mask & ~active if i.guard else None
                    if left is not None and left.any():
                        self.join(self.pc + SIZE, left)
                    break
                step(self, active)
                self.pc += SIZE
                k += 1
                if self.groups and min(self.groups) <= self.pc:
                    self.join(self.pc, mask)
                    break

    def join(self, at: int, lanes: Lanes) -> None:
        """Let lanes go on at an address."""
        if lanes.any():
            self.groups[at] = self.groups[at] | lanes if at in self.groups else lanes.copy()

    def guard(self, name: str) -> Lanes:
        return predicate(name)(self)  # type: ignore[no-any-return]

    def release(self, name: str) -> None:
        """Let lanes go on for which a barrier of convergence has waited, if all are there or have ended."""
        wanted = self.barriers[name] & ~self.exited
        held = self.held.get(name, [])
        there = np.zeros(WARP, bool)
        for _, lanes in held:
            there |= lanes
        if not (wanted & ~there).any():
            for at, lanes in held:
                self.join(at, lanes)
            self.held[name] = []


def _step(i: Instruction, block: Block) -> Step:
    """Return what an instruction does."""
    kind = i.kind
    kind = kind[1:] if kind[0] == "U" and kind[1:] in _UNIFORM else kind
    make = _MADE.get(kind)
    if make is None:
        return _unknown(i)
    try:
        return make(i, block)
    except (Unknown, ValueError, IndexError, KeyError):
        return _unknown(i)


def _unknown(i: Instruction) -> Step:
    def fail(w: Warp, active: Lanes) -> None:
        if active.any():
            raise Unknown(i.text)

    return fail


# ---- memory


def _place(text: str, block: Block) -> Read:
    """Return what reads the addresses of an access: [R4.64+0x10], [R4+UR5], [UR4]."""
    inner = text[text.rindex("[") + 1 : -1]
    parts = [p for p in inner.replace("+-", "+~").split("+") if p]
    reads: list[Read] = []
    offset = 0
    for part in parts:
        if part.startswith("~0x"):
            offset -= int(part[1:], 16)
        elif part.startswith("0x"):
            offset += int(part, 16)
        elif ".64" in part:
            reads.append(pair(part.removesuffix(".64"), block))
        elif part.startswith("UR") and "desc" in text and len(parts) > 1 and not part.endswith(".U32"):
            reads.append(pair(part, block))
        else:
            reads.append(word(part.removesuffix(".U32").removesuffix(".X4"), block))
    add = U64(offset & (2**64 - 1))

    def read(w: Warp) -> Lanes:
        total = np.full(WARP, add, U64)
        for one in reads:
            total = total + np.asarray(one(w)).astype(U64)
        return total

    return read


def _words(i: Instruction) -> int:
    return 4 if "128" in i.parts else 2 if "64" in i.parts else 1


def turns_of(places: Lanes, count: int) -> int:
    """Return how often 128 bytes of shared memory are moved for an access of so many words of each lane.

    Lanes are served 32, 16 or 8 at a time (of 16 bytes 16, where neighbours read the same), once for each further word
    that they want of one of the 32 banks.
    """
    words = places // 4
    group = 32 // count
    if count == 4 and len(words) == WARP and (words[0::2] == words[1::2]).all():
        group = 16
    out = 0
    for k in range(0, len(words), group):
        wanted = np.unique((words[k : k + group, None] + np.arange(count)).reshape(-1))
        out += int(np.bincount(wanted % 32).max())
    return out


def _load(i: Instruction, block: Block) -> Step:
    count, shared = _words(i), i.kind == "LDS"
    if {"U8", "S8", "U16", "S16"} & {*i.parts}:
        raise Unknown(i.text)
    at, writes = _place(i.args[1], block), [writer(i.args[0], k) for k in range(count)]

    def step(w: Warp, active: Lanes) -> None:
        if not active.any():
            return
        words, k = _found(w, at(w), active, shared, count)
        for n, write in enumerate(writes):
            value = np.zeros(WARP, U32)
            value[active] = words[k + n]
            write(w, value, active)

    return step


def _found(w: Warp, places: Lanes, active: Lanes, shared: bool, count: int) -> tuple[Lanes, Lanes]:
    """Return the memory of an access, and where in it the active lanes' words lie."""
    own = places[active]
    issued = w.issued[-1]
    if shared or own[0] >= SHARED:
        at = (own & U64(FULL)).astype(I64)
        words = w.block.shared
        issued.turns = turns_of(at, count)
    else:
        at = (own - U64(w.block.memory.base)).view(I64)
        words = w.block.memory.words
        lines = set((at // 128).tolist())
        issued.apart, issued.again = True, lines <= w.lines | w.block.lines
        w.lines |= lines
        issued.turns = max(count * len(own) // WARP, len(lines), 1)
    if (at < 0).any() or (at % (4 * count)).any() or (at + 4 * count > words.nbytes).any():
        raise IndexError(f"{issued.instruction.text}: {at}")
    return words, at // 4


def _store(i: Instruction, block: Block) -> Step:
    count, shared = _words(i), i.kind == "STS"
    if {"U8", "S8", "U16", "S16"} & {*i.parts}:
        raise Unknown(i.text)
    at, reads = _place(i.args[0], block), [word(i.args[1], block, k if i.args[1] != "RZ" else 0) for k in range(count)]

    def step(w: Warp, active: Lanes) -> None:
        if not active.any():
            return
        words, k = _found(w, at(w), active, shared, count)
        for n, read in enumerate(reads):
            words[k + n] = np.broadcast_to(read(w), WARP)[active]

    return step


def _copy(i: Instruction, block: Block) -> Step:
    """LDGSTS: from the GPU's memory into shared memory."""
    count = _words(i)
    to, source = _place(i.args[0], block), _place(i.args[1], block)

    def step(w: Warp, active: Lanes) -> None:
        if not active.any():
            return
        words, k = _found(w, source(w), active, False, count)
        shared, n = _found(w, to(w), active, True, count)
        for j in range(count):
            shared[n + j] = words[k + j]

    return step


# ---- control


def _branch(i: Instruction, block: Block) -> Step:
    condition = next((predicate(a) for a in i.args if is_predicate(a)), None)
    divided = "DIV" in i.parts

    def step(w: Warp, active: Lanes) -> None:
        lanes = active
        if divided:
            lanes = active & (not (active | w.exited).all())
        elif condition is not None:
            lanes = active & condition(w)
        if lanes.any():
            w.issued[-1].taken = True
            w.join(i.target, lanes)
        w.join(w.pc + SIZE, active & ~lanes)

    return step


def _call(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.issued[-1].taken = True
        w.join(i.target, active)

    return step


def _return(i: Instruction, block: Block) -> Step:
    read = pair(i.args[0].split()[0], block)

    def step(w: Warp, active: Lanes) -> None:
        w.issued[-1].taken = True
        places = read(w)
        for at in np.unique(places[active]):
            w.join(int(at), active & (places == at))

    return step


def _exit(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.exited = w.exited | active
        for name in [*w.held]:
            w.release(name)

    return step


def _begin(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.barriers[i.args[0]] = active.copy()

    return step


def _converge(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.held.setdefault(i.args[0], []).append((w.pc + SIZE, active.copy()))
        w.release(i.args[0])

    return step


def _leave(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.barriers[i.args[0]] = w.barriers[i.args[0]] & ~active
        w.release(i.args[0])

    return step


def _warp_meets(i: Instruction, block: Block) -> Step:
    """WARPSYNC: all lanes of a warp."""
    if "COLLECTIVE" in i.parts:
        raise Unknown(i.text)

    def step(w: Warp, active: Lanes) -> None:
        w.barriers["all"] = ALL
        w.held.setdefault("all", []).append((w.pc + SIZE, active.copy()))
        w.release("all")

    return step


def _block_meets(i: Instruction, block: Block) -> Step:
    if i.parts[1] not in ("SYNC", "RED"):
        raise Unknown(i.text)
    given = predicate(i.args[1]) if i.parts[1] == "RED" else None  # B2R reads what it has found

    def step(w: Warp, active: Lanes) -> None:
        w.waits = True
        if given is not None:
            w.block.votes[w.number] = bool((given(w) & active).any())
        w.join(w.pc + SIZE, active)

    return step


def _voted(i: Instruction, block: Block) -> Step:
    put = setter(i.args[1])
    return lambda w, active: put(w, any(w.block.votes.values()), active)


def _forgets(i: Instruction, block: Block) -> Step:
    """CCTL.IVALL: the first cache holds nothing any more."""

    def step(w: Warp, active: Lanes) -> None:
        for lines in (block.lines, *(one.lines for one in block.warps)) if active.any() else ():
            lines.clear()

    return step


def _fence(i: Instruction, block: Block) -> Step:
    def step(w: Warp, active: Lanes) -> None:
        w.issued[-1].turns = int(active.any())

    return step


def _nothing(i: Instruction, block: Block) -> Step:
    return lambda w, active: None


_FLOW = {"BRA", "CALL", "RET", "EXIT", "BSYNC", "WARPSYNC", "BAR"}
_UNIFORM = {"MOV", "IADD3", "IMAD", "LEA", "SHF", "LOP3", "ISETP", "SEL", "LDC", "PLOP3", "P2UR", "POPC", "FLO"}
_MADE: dict[str, Callable[[Instruction, Block], Step]] = {
    **ARITHMETIC, "LDS": _load, "LD": _load, "LDG": _load, "STS": _store, "ST": _store, "STG": _store,
    "LDGSTS": _copy, "BRA": _branch, "CALL": _call, "RET": _return, "EXIT": _exit, "BSSY": _begin,
    "B2R": _voted, "BSYNC": _converge, "BREAK": _leave, "WARPSYNC": _warp_meets, "BAR": _block_meets,
    "CCTL": _forgets, "MEMBAR": _fence,
    # RED: of a counter, which no other block reads
    **dict.fromkeys("NOP LDGDEPBAR DEPBAR ERRBAR CGAERRBAR YIELD RED REDG".split(), _nothing),
}  # fmt: skip
