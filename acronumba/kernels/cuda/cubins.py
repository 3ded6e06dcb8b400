"""Machine code of kernels for GPUs, kept on disk: compiled once for a text and a kind of GPU.

In: the source of a kernel. Out: its cubins, from the private directory of `emit.cache` where they are there already,
else from `compat`, which needs Numba's CUDA packages; a machine that has the directory needs a driver only. A folder
holds machine code, PTX and what it needs of each function.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from acronumba.emit import cache
from acronumba.errors.codes import refuse
from acronumba.kernels.cuda import compat
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.kernels.cuda.tiles import THREADS


def machines(code: CudaCode | PersistentCode, capability: tuple[int, int], suffix: str = "") -> list[compat.Machine]:
    """Return the machine code of each function of a kernel.

    Parameters
    ----------
    code : CudaCode or PersistentCode
        The kernel.
    capability : tuple
        Of the GPU: (9, 0).
    suffix : str
        "a" for instructions that only this architecture has.
    """
    key = _key(code, capability, suffix)
    files = cache.read(key)
    if files is None:
        with cache.turn(key):
            files = cache.read(key)
            if files is None:
                return _compiled(code, capability, suffix, key)
    return [_machine(files, k) for k in range(len(code.entries))]


def _compiled(
    code: CudaCode | PersistentCode, capability: tuple[int, int], suffix: str, key: str
) -> list[compat.Machine]:
    if why := compat.missing():
        raise refuse("ACR705", message=f"kernels for a GPU cannot be compiled: {why}", seen=code.entries[0])
    entries = dict.fromkeys(code.entries, code.parameters)
    called = [tile.text() for tile in code.tiles]
    pool = code.shared if isinstance(code, PersistentCode) else 0
    made = list(compat.compile_text(code.text, entries, capability, suffix, THREADS, called, pool).values())

    files: dict[str, bytes] = {}
    for k, machine in enumerate(made):
        about = {name: value for name, value in asdict(machine).items() if name not in ("code", "ptx")}
        files |= {f"{k}.cubin": machine.code, f"{k}.json": json.dumps(about).encode(), f"{k}.ptx": machine.ptx.encode()}
    cache.build(key, files)
    return made


def _machine(files: Mapping[str, bytes], k: int) -> compat.Machine:
    return compat.Machine(code=files[f"{k}.cubin"], ptx=files[f"{k}.ptx"].decode(), **json.loads(files[f"{k}.json"]))


def _key(code: CudaCode | PersistentCode, capability: tuple[int, int], suffix: str) -> str:
    """Return the name of a kernel's folder: machine code is right whichever version of the compiler has made it."""
    here = Path(__file__).parent
    parts = [str(capability), suffix, str(THREADS), *code.entries, code.source]
    parts += [(here / name).read_text() for name in ("functions.py", "compat.py")]
    return "cubin" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
