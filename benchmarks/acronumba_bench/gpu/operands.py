"""Operands of machine code: functions that read and write registers and predicates of all lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from acronumba_bench.gpu.emulate import Block, Warp

Lanes: TypeAlias = NDArray[Any]  # of 32 lanes
Read: TypeAlias = Callable[["Warp"], Any]
Step: TypeAlias = Callable[["Warp", Lanes], Any]

WARP = 32
FULL = (1 << WARP) - 1
SHARED = 1 << 56  # where generic addresses begin that are of shared memory
U32, U64, I32, I64, F32, F64 = np.uint32, np.uint64, np.int32, np.int64, np.float32, np.float64
ALL = np.ones(WARP, bool)


class Unknown(Exception):
    """An instruction that is not emulated."""


def literal(text: str) -> int | None:
    try:
        return int(text, 16) & FULL if "x" in text else int(text) & FULL
    except ValueError:
        return None


def predicate(text: str) -> Read:
    negated, name = text.startswith("!"), text.lstrip("!")
    uniform = name.startswith("UP")
    k = 7 if name in ("PT", "UPT") else int(name.lstrip("UP"))
    if uniform:
        return lambda w: np.full(WARP, w.up[k] != negated)
    return (lambda w: ~w.p[k]) if negated else (lambda w: w.p[k])


def register(text: str) -> int:
    return 255 if text == "RZ" else 64 if text == "URZ" else int(text.lstrip("UR").split(".")[0])


def word(text: str, block: Block, offset: int = 0) -> Read:
    """Return what reads 32 bits, of a register with its number raised by `offset`."""
    text = text.removesuffix(".64").removesuffix(".H0_H0")
    if text.startswith("c["):
        place = int(text.split("[")[2].rstrip("]"), 16) // 4 + offset
        value = U32(block.constants[place]) if place < len(block.constants) else U32(0)
        return lambda w: value
    if text in ("RZ", "URZ", "SRZ"):
        return lambda w: U32(0)
    if text.startswith("UR"):
        k = register(text) + offset
        return lambda w: U32(w.u[k])
    if text.startswith("R"):
        k = register(text) + offset
        return lambda w: w.r[k]
    number = literal(text)
    if number is None:
        raise Unknown(text)
    value = U32(number if offset == 0 else 0)
    return lambda w: value


def integer(text: str, block: Block, offset: int = 0) -> Read:
    """Return what reads an unsigned integer of 32 bits; `~` and `-` are done."""
    if text.startswith("~"):
        inner = word(text[1:], block, offset)
        return lambda w: ~inner(w)
    if text.startswith("-") and not text.startswith("-0x"):
        inner = word(text[1:], block, offset)
        return lambda w: U32(0) - inner(w)
    if text.startswith("|"):
        inner = word(text[1:-1], block, offset)
        return lambda w: np.abs(np.asarray(inner(w)).astype(U32).view(I32)).view(U32)
    return word(text, block, offset)


def term(text: str, block: Block, carries: bool) -> Read:
    """Return what reads a term of a sum, in 64 bits: a negative one such that a carry leaves it."""
    if text.startswith("-") and not text.startswith("-0x") and not carries:
        inner = word(text[1:], block)
        return lambda w: (~np.asarray(inner(w), U32)).astype(U64) + U64(1)
    read = integer(text, block)
    return lambda w: np.asarray(read(w), U32).astype(U64)


def floating(text: str, block: Block) -> Read:
    negated = text.startswith("-") and (text[1:2] in ("R", "U", "|", "c"))
    text = text[1:] if negated else text
    size = text.startswith("|")
    text = text.strip("|") if size else text
    if text[0] in "RUc":
        raw = word(text, block)
        read: Read = lambda w: np.asarray(raw(w), U32).view(F32)
    else:
        plain = text.replace("+INF", "inf").replace("-INF", "-inf").replace("+QNAN", "nan").replace("-QNAN", "nan")
        value = F32(float(plain)) if "0x" not in plain else np.asarray(int(plain, 16), U32).view(F32)
        read = lambda w: value
    if size:
        inner = read
        read = lambda w: abs(inner(w))
    if negated:
        plus = read
        read = lambda w: -plus(w)
    return read


def pair(text: str, block: Block) -> Read:
    """Return what reads a pair of registers."""
    low, high = word(text, block), word(text, block, 1) if text not in ("RZ", "URZ") else word(text, block)
    return lambda w: np.asarray(low(w), U32).astype(U64) | np.asarray(high(w), U32).astype(U64) << U64(32)


def writer(text: str, offset: int = 0) -> Callable[[Warp, Any, Lanes], None]:
    k = register(text)
    if text.startswith("U"):
        k += offset

        def uniform(w: Warp, value: Any, active: Lanes) -> None:
            if k < 64 and active.any():
                one = np.asarray(value)
                w.u[k] = int(one if one.ndim == 0 else one[int(np.argmax(active))]) & FULL

        return uniform
    k = 256 if k == 255 else k + offset

    def write(w: Warp, value: Any, active: Lanes) -> None:
        np.copyto(w.r[k], value, where=active, casting="unsafe")

    return write


def setter(text: str) -> Callable[[Warp, Any, Lanes], None]:
    """Return what writes a predicate."""
    k = 8 if text in ("PT", "UPT") else int(text.lstrip("UP"))
    if text.startswith("UP"):

        def uniform(w: Warp, value: Any, active: Lanes) -> None:
            one = np.asarray(value)
            w.up[k] = bool(one if one.ndim == 0 else one[int(np.argmax(active))])

        return uniform
    return lambda w, value, active: np.copyto(w.p[k], value, where=active)


def is_predicate(text: str) -> bool:
    name = text.lstrip("!")
    return name in ("PT", "UPT") or (name.lstrip("U").startswith("P") and name.lstrip("UP").isdigit())
