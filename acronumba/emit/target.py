"""The machine that code is generated for: vector width, registers, and the names that key compiled code.

Comes in: nothing (Numba is asked about the processor) or an override. Goes out: a `Target` that kernels ask for
lanes. Results depend on the vector features (reductions have one order per width), so the target is part of every
cache key.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from acronumba.emit.tree import Ty


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a code generator needs to know of a processor."""

    name: str  # LLVM's name of the processor: "icelake-server"
    features: str  # LLVM's list of features: "+avx2,+fma,..."; "" for none
    vector_bits: int  # width of one vector register; 64 where there are none
    registers: int  # number of vector registers

    def lanes(self, type: Ty) -> int:
        """Return how many elements of the type fill one vector register (at least 1)."""
        return max(1, self.vector_bits // max(type.bits, 8))

    def column_step(self, type: Ty) -> int:
        """Return what the columns of a panel of products are a multiple of."""
        return self.lanes(type)

    def vector(self, type: Ty) -> Ty:
        """Return the vector type that fills one register with elements of the type."""
        return type.vector(self.lanes(type))

    @property
    def kind(self) -> str:
        """Return a short word for messages: "avx512", "avx2", "neon" or "plain"."""
        return {512: "avx512", 256: "avx2"}.get(self.vector_bits, "neon" if self.registers == 32 else "plain")


def of(name: str, features: str, machine: str) -> Target:
    """Return the target of a processor from LLVM's name and features of it and `platform.machine()`."""
    on = {f[1:] for f in features.split(",") if f.startswith("+")}
    if machine.lower() in ("x86_64", "amd64"):
        if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= on:
            bits, registers = 512, 32
        elif {"avx2", "fma"} <= on:
            bits, registers = 256, 16
        else:
            bits, registers = 128, 16
    elif machine.lower() in ("arm64", "aarch64"):
        bits, registers = 128, 32
    else:
        bits, registers = 128, 16
    return Target(name=name, features=features, vector_bits=bits, registers=registers)


@functools.cache
def _detect() -> Target:
    import platform

    from numba.core.registry import cpu_target

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    return of(name, features, platform.machine())


_OVERRIDE: ContextVar[Target | None] = ContextVar("target", default=None)


def host() -> Target:
    """Return the target that Numba compiles for on this machine, or the override in force."""
    return _OVERRIDE.get() or _detect()


@contextmanager
def override(target: Target | None = None, *, vector_bits: int | None = None) -> Iterator[Target]:
    """Generate for another width inside a `with` block; narrower vectors run on any machine that has wider ones.

    Parameters
    ----------
    target : Target, optional
        The target to use instead.
    vector_bits : int, optional
        Only another width, with the registers that go with it (512: 32, otherwise 16).
    """
    if target is None:
        base = host()
        bits = vector_bits or base.vector_bits
        registers = base.registers if bits == base.vector_bits else 32 if bits == 512 else 16
        target = Target(name=base.name, features=base.features, vector_bits=bits, registers=registers)
    token = _OVERRIDE.set(target)
    try:
        yield target
    finally:
        _OVERRIDE.reset(token)
