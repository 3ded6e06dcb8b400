"""The only module that depends on versions of Numba's CUDA packages: private and changing names, each with a test.

In: the text of kernels. Out: machine code for a GPU, compiled without a GPU. All other modules go through this one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from acronumba.generics import Value
from acronumba.locks import ForkLock
from acronumba.records import record


@record()
class Machine:
    """Machine code of one kernel, and the resources that it needs."""

    code: bytes  # a cubin
    entry: str  # name of the function in it
    ptx: str
    registers: int  # of a thread
    stack: int  # bytes
    spills: int  # bytes stored and reloaded for lack of registers
    shared: int  # bytes of memory that a block shares


def missing() -> str:
    """Return which package for compiling for GPUs is not installed, and how to get it; "" if all are."""
    for module, package in (("numba_cuda", "numba-cuda"), ("cuda", "cuda-bindings"), ("cuda.core", "cuda-core")):
        if find_spec(module) is None:
            return f"{package} is not installed: pip install '.[cuda]', from the sources of acronumba"
    return ""


_REGISTERS = 1 << 16  # of a multiprocessor
_SHARED = 160 << 10  # bytes that blocks may share on a multiprocessor of compute capability 8.0; later ones have more
_RESIDENT = (2,)  # blocks that should fit on a multiprocessor: while one waits, another computes
_MISSING = 1.15  # of all registers, that blocks would like to have: with fewer, loads are waited for
_ENOUGH = 168  # registers of a thread: ptxas takes more to load ahead what is not waited for

Arch: TypeAlias = tuple[int | str, ...]  # compute capability, and a suffix

_LOCK = ForkLock()  # of the globals that `_as_if_on` and `_imported` change


@cache
def _imported() -> None:
    """Import Numba's CUDA package: its release 0.30 asks NumPy for `row_stack`, which NumPy 2.5 has no more."""
    names = vars(np)
    gone = "row_stack" not in names
    if gone:
        names["row_stack"] = np.vstack
    try:
        import numba.cuda.np.arrayobj  # noqa: F401
    finally:
        if gone:
            del names["row_stack"]


@contextlib.contextmanager
def _as_if_on(capability: tuple[int, int]) -> Iterator[None]:
    """Context in which Numba compiles for a compute capability without asking the driver for a GPU."""
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability, id=0, name=b"none")
    try:
        yield
    finally:
        dispatcher.get_current_device = before


def compile_text(
    text: str, entries: Mapping[str, int], capability: tuple[int, int], suffix: str = "", threads: int = 256,
    called: Sequence[str] = (), shared: int = 0, further: Mapping[str, Value] | None = None,
) -> dict[str, Machine]:  # fmt: skip
    """Compile kernels without a GPU.

    Parameters
    ----------
    text : str
        Source of the kernels and of the functions that they call.
    entries : mapping
        From names of kernels to numbers of parameters, which are int64.
    capability : tuple
        Compute capability of the GPU, such as (9, 0).
    suffix : str
        Of its architecture: "a" for instructions that only it has.
    threads : int
        Of a block.
    called : sequence of str
        Texts of what many kernels call: Numba takes longer for a tile than for the kernel around it, so that what it
        has made of one is used again.
    shared : int
        Bytes that a block shares besides those of the text; the launch asks for them.
    further : mapping, optional
        Further names that the text finds.
    """
    with _LOCK:
        _imported()
    from numba import types
    from numba.cuda.compiler import compile_cuda, kernel_fixup
    from numba.cuda.cudadrv import nvvm

    arch = (*capability, suffix) if suffix else capability
    out = {}
    with _LOCK, _as_if_on(capability):
        space = _space(text, arch, *(_space_of(one, arch) for one in called), further or {})
        for entry, count in entries.items():
            made = compile_cuda(
                space[entry].py_func, types.void, (types.int64,) * count, cc=arch,
                nvvm_options={"opt": 3, "fma": 0},  # products and sums are contracted where the text says `fma`, only
            )  # fmt: skip
            built = made.library  # Numba's word for compiled code
            kernel = built.get_function(made.fndesc.llvm_func_name)
            built._entry_name = made.fndesc.llvm_func_name
            kernel_fixup(kernel, False)
            nvvm.set_launch_bounds(kernel, (threads,))
            out[entry] = _fitted(built._entry_name, built.get_asm_strs(cc=arch), arch, threads, shared)
    return out


def _space(text: str, arch: Arch, *others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the namespace of a text's functions, which may call functions of other namespaces."""
    from acronumba.kernels.cuda.functions import names

    space = dict(names(hopper=int(arch[0]) >= 9))
    for other in others:
        space.update(other)
    exec(compile(text, "<kernel>", "exec"), space)  # text that we have generated
    return space


@lru_cache(maxsize=64)
def _space_of(text: str, arch: Arch) -> dict[str, Any]:
    """Return the namespace of a text's functions, cached: a function holds its code compiled for a GPU."""
    return _space(text, arch)


def _fitted(entry: str, ptx: list[str], arch: Arch, threads: int, shared: int) -> Machine:
    """Return machine code with so few registers that several blocks fit, where none is spilled for that."""
    made = _assembled(entry, ptx, arch)
    for blocks in _RESIDENT:
        if made.registers * threads * blocks <= _REGISTERS:
            break
        few = made.registers * threads * blocks <= _MISSING * _REGISTERS
        if few and (made.shared + shared) * blocks <= _SHARED:
            other = _bounded(entry, [_told(text, f".minnctapersm {blocks}") for text in ptx], arch)
            if other is not None and other.stack == other.spills == 0:
                return other
    if made.registers > _ENOUGH:
        other = _bounded(entry, [_told(text, f".maxnreg {_ENOUGH}") for text in ptx], arch)
        if other is not None and other.stack == other.spills == 0:
            return other
    return made


def _told(ptx: str, directive: str) -> str:
    """Return PTX with a directive for its kernel."""
    return re.sub(r"(\.maxntid [\d, ]+)", rf"\1\n{directive}", ptx)


def _bounded(entry: str, ptx: list[str], arch: Arch) -> Machine | None:
    """Return machine code with a bound on its registers; None if a function that it calls needs more."""
    from cuda.bindings.nvjitlink import nvJitLinkError

    try:
        return _assembled(entry, ptx, arch)
    except nvJitLinkError as error:
        if "regcount" not in str(error):
            raise
        return None


def _assembled(entry: str, ptx: list[str], arch: Arch) -> Machine:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    name = "sm_" + "".join(map(str, arch))
    linker = Linker(
        *(ObjectCode.from_ptx(p.encode()) for p in ptx), options=LinkerOptions(arch=name, ptxas_options=["-v"])
    )
    code = bytes(linker.link("cubin").code)
    log = linker.get_info_log()
    found = re.search(r"Used (\d+) registers", log)
    spilled = [tuple(map(int, m)) for m in re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)]  # fmt: skip
    memory = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", "\n".join(ptx))
    return Machine(
        code, entry, "\n".join(ptx), int(found[1]) if found else 0,
        max((s[0] for s in spilled), default=0), max((s[1] + s[2] for s in spilled), default=0),
        sum(map(int, memory)),
    )  # fmt: skip
