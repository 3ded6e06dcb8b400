"""LLVM's text of types, constants and names.

In: types and numbers. Out: their text.
"""

from __future__ import annotations

import ctypes
import functools
import struct

from acronumba.emit.tree import VOID, Ty


class Malformed(TypeError):
    """An invalid tree: a bug of its generator."""


_SCALARS = {"i": lambda bits: f"i{bits}", "f": lambda bits: {32: "float", 64: "double"}[bits]}


@functools.cache
def llvm_type(type: Ty) -> str:
    """Return LLVM's name of a type."""
    if type == VOID:
        return "void"
    name = _SCALARS[type.kind](type.bits)
    return name if type.lanes == 1 else f"<{type.lanes} x {name}>"


@functools.cache
def stored(type: Ty) -> Ty:
    """Return the type that holds a value in memory: a bit takes a byte."""
    return Ty("i", 8, type.lanes) if type.bits == 1 else type


@functools.cache
def suffix(type: Ty) -> str:
    name = f"{type.kind}{type.bits}"
    return name if type.lanes == 1 else f"v{type.lanes}{name}"


def _float_text(value: float, bits: int) -> str:
    if bits == 32:
        value = ctypes.c_float(value).value
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _integer_text(value: int, bits: int) -> str:
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


@functools.cache
def _splat_text(scalar: str, value: str, lanes: int) -> str:
    return f"<{', '.join([f'{scalar} {value}'] * lanes)}>"


def constant_text(value: int | float, type: Ty) -> str:
    """Return the LLVM text of a constant, without its type."""
    if type.kind == "f":
        text = _float_text(float(value), type.bits)
    else:
        text = _integer_text(int(value), type.bits)
    if type.lanes == 1:
        return text
    return _splat_text(llvm_type(type.scalar), text, type.lanes)


def lanes_text(type: Ty) -> str:
    scalar = llvm_type(type.scalar)
    return f"<{', '.join(f'{scalar} {constant_text(k, type.scalar)}' for k in range(type.lanes))}>"


class Declarations:
    """Declarations of external functions: intrinsics of LLVM and C's library."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def need(self, name: str, result: str, params: str) -> str:
        if name not in self.lines:
            self.lines[name] = f'declare {result} @"{name}"({params})'
        return f'@"{name}"'


def symbol(number: int) -> str:
    """Return the name inside LLVM of a module's function with a number; the entry points come first."""
    return f"acronumba.{number}"
