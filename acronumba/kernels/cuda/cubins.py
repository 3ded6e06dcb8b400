"""Machine code of kernels for GPUs, kept on disk: compiled once for a text, a GPU and versions of the packages.

In: the source of a kernel. Out: its cubins, from the private directory of `emit.cache` where they are there already,
else from `compat`. A folder holds one file per function and a list of what each needs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from dataclasses import asdict
from pathlib import Path

from acronumba.emit import cache
from acronumba.kernels.cuda import compat
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.tiles import THREADS

_PACKAGES = ("numba-cuda", "numba", "cuda-core", "nvidia-cuda-nvvm", "nvidia-nvvm", "nvidia-nvjitlink")
_PARAMETERS = 4  # P, nodes, S, T


def machines(code: CudaCode, capability: tuple[int, int], suffix: str = "") -> list[compat.Machine]:
    """Return the machine code of each function of a kernel.

    Parameters
    ----------
    code : CudaCode
        The kernel.
    capability : tuple
        Of the GPU: (9, 0).
    suffix : str
        "a" for instructions that only this architecture has.
    """
    key = _key(code, capability, suffix)
    folder = cache.find(key)
    if folder is None:
        with cache.turn(key):
            folder = cache.find(key)
            if folder is None:
                return _compiled(code, capability, suffix, key)
    return [_read(folder, k) for k in range(len(code.entries))]


def _compiled(code: CudaCode, capability: tuple[int, int], suffix: str, key: str) -> list[compat.Machine]:
    entries = dict.fromkeys(code.entries, _PARAMETERS)
    made = list(compat.compile_text(code.source, entries, capability, suffix, THREADS).values())

    def write(folder: Path) -> None:
        for k, machine in enumerate(made):
            cache.write(folder / f"{k}.cubin", machine.code)
            about = {name: value for name, value in asdict(machine).items() if name not in ("code", "ptx")}
            cache.write(folder / f"{k}.json", json.dumps(about).encode())
            cache.write(folder / f"{k}.ptx", machine.ptx.encode())

    cache.build(key, write)
    return made


def _read(folder: Path, k: int) -> compat.Machine:
    about = json.loads((folder / f"{k}.json").read_text())
    code, ptx = (folder / f"{k}.cubin").read_bytes(), (folder / f"{k}.ptx").read_text()
    return compat.Machine(code=code, ptx=ptx, **about)


def _key(code: CudaCode, capability: tuple[int, int], suffix: str) -> str:
    versions = [f"{name} {_version(name)}" for name in _PACKAGES]
    library = (Path(__file__).parent / "library.py").read_text()
    compiler = (Path(__file__).parent / "compat.py").read_text()
    parts = [*versions, str(capability), suffix, str(THREADS), *code.entries, code.source, library, compiler]
    return "cubin" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
