"""The machine that code is generated for: vector width, registers, and the names that key compiled code.

In: nothing (CPU and Numba's settings are queried) or an override. Out: a `Target`, which gives kernels the number of
lanes. Results depend on the vector features (reductions have one order per width), so the target is part of every cache
key.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from acronumba import config
from acronumba.emit.tree import Ty
from acronumba.records import record


@record(kw_only=True)
class Target:
    """Properties of a CPU for code generators."""

    name: str  # LLVM's name of the CPU: "icelake-server"
    features: str  # LLVM's list of features: "+avx2,+fma,..."; "" for none
    vector_bits: int  # width of one vector register; 64 where there are none
    registers: int  # number of vector registers

    def lanes(self, type: Ty) -> int:
        """Return the number of elements of the type in one vector register (at least 1)."""
        return max(1, self.vector_bits // max(type.bits, 8))

    @property
    def dots(self) -> bool:
        """Whether an instruction multiplies four unsigned bytes by four signed ones and adds them to 32 bits."""
        return has_dots(self.features, self.vector_bits)

    @property
    def halves(self) -> bool:
        """Whether instructions round to bf16 and multiply pairs of them."""
        return has_halves(self.features, self.vector_bits)

    @property
    def lookups(self) -> bool:
        """Whether an instruction looks up 32 numbers of 16 bits among 64, and `dots` can compute such tables."""
        return self.vector_bits == 512 and not self.warps and self.dots and has_picks(self.features)

    @property
    def warps(self) -> bool:
        """Whether a thread of this machine is a warp of a GPU: thousands share its caches."""
        return False

    def column_step(self, type: Ty) -> int:
        """Return the number that the columns of a panel of products are a multiple of."""
        return self.lanes(type)

    def vector(self, type: Ty) -> Ty:
        """Return the vector type that fills one register with elements of the type."""
        return type.vector(self.lanes(type))

    @property
    def kind(self) -> str:
        """Return a short word for messages: "avx512", "avx2", "neon" or "plain"."""
        return {512: "avx512", 256: "avx2"}.get(self.vector_bits, "neon" if self.registers == 32 else "plain")


def has_dots(features: str, vector_bits: int) -> bool:
    """Whether a CPU has VNNI for vectors of a width, by LLVM's list of its features."""
    on = {"+avx512vnni", "+avx512vl"}.issubset(wanted := features.split(","))
    return on or ("+avxvnni" in wanted and vector_bits <= 256)


def has_halves(features: str, vector_bits: int) -> bool:
    """Whether a CPU has AVX512-BF16 for vectors of a width, by LLVM's list of its features."""
    return {"+avx512bf16", "+avx512vl"}.issubset(features.split(",")) and vector_bits in (128, 256, 512)


def has_picks(features: str) -> bool:
    """Whether a CPU has `vpermi2w`, by LLVM's list of its features."""
    return "+avx512bw" in features.split(",")


def of(name: str, features: str, machine: str) -> Target:
    """Return the target for a CPU, from its name and features in LLVM and `platform.machine()`."""
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

    if config.interpreted():
        return Target(name="plain", features="", vector_bits=512, registers=32)  # what `stages` shows
    return of(*processor(), platform.machine())


@functools.cache
def settings() -> ModuleType:
    """Return Numba's settings, its module `numba.core.config`.

    As long as nobody has imported Numba, that file is run alone: the rest of Numba takes 0.3 s, and is for GPUs.
    """
    if "numba" not in sys.modules:
        numba = importlib.util.find_spec("numba")
        for folder in (numba and numba.submodule_search_locations) or ():
            spec = importlib.util.spec_from_file_location("acronumba.numba_settings", f"{folder}/core/config.py")
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
    return importlib.import_module("numba.core.config")


def processor() -> tuple[str, str]:
    """Return LLVM's name and features of the CPU to compile for: this one, or the one in Numba's settings."""
    from llvmlite import binding

    chosen = settings()
    name = binding.get_host_cpu_name() if chosen.CPU_NAME is None else chosen.CPU_NAME
    if chosen.CPU_FEATURES is not None:
        return name, chosen.CPU_FEATURES
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this system
        return name, ""
    if not chosen.ENABLE_AVX:
        features.update({feature: False for feature in features if feature.startswith("avx")})
    return name, features.flatten()


_OVERRIDE: ContextVar[Target | None] = ContextVar("target", default=None)


def host() -> Target:
    """Return the target to compile for on this machine, or the override in force."""
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
