"""Machine code of kernels for GPUs, cached on disk: compiled once for a text and a compute capability.

In: the source of a kernel. Out: its cubins, from the private directory of `emit.cache` if cached, else from `compat`,
which needs Numba's CUDA packages; with a filled cache a machine needs only the driver. A folder of the cache holds
machine code, PTX and the resources of each function.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from acronumba.emit import cache
from acronumba.emit.version import source_version
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.kernels.cuda import compat, own
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NodeCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.records import record

Code: TypeAlias = CudaCode | PersistentCode | NodeCode


def machines(code: Code, capability: tuple[int, int], suffix: str = "") -> list[compat.Machine]:
    """Return the machine code of each function of a kernel.

    Parameters
    ----------
    code : CudaCode, PersistentCode or NodeCode
        The kernel.
    capability : tuple
        Of the GPU: (9, 0).
    suffix : str
        "a" for instructions that only this architecture has.
    """
    key = _key(code, capability, suffix)
    if code.operations:
        return _with_operations(code, _job(code, capability, suffix, key))
    files = cache.read(key)
    if files is None:
        with cache.turn(key):
            files = cache.read(key)
            if files is None:
                return _compiled(_job(code, capability, suffix, key))
    return [_machine(files, k) for k in range(len(code.entries))]


def compile_missing(codes: Sequence[Code], capability: tuple[int, int], suffix: str, processes: int) -> None:
    """Compile the kernels that are not on disk, in `processes` processes.

    Numba's front end takes most of the time, and holds the GIL. A kernel that fails here fails again in `machines`,
    which raises. Other parameters as in `machines`.
    """
    texts = [code for code in codes if not code.operations]
    absent = {key: code for code in texts if cache.read(key := _key(code, capability, suffix)) is None}
    count = min(len(absent), processes)
    if count < 2 or compat.missing():
        return
    jobs = [asdict(_job(code, capability, suffix, key)) for key, code in absent.items()]
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, cache.ENVIRONMENT: str(cache.directory())}
    workers: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            workers.append(
                subprocess.Popen(_WORKER, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
            )
        for k, worker in enumerate(workers):
            assert worker.stdin is not None
            with worker.stdin as text:
                json.dump([source_version(), jobs[k::count]], text)
        for worker in workers:
            worker.wait()
    except OSError:
        pass  # no process can be started, or one has ended before it was text
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


_WORKER = [
    sys.executable, "-P", "-c",
    f"import sys; text = sys.stdin.read(); from {__name__} import compile_jobs; compile_jobs(text)",
]  # fmt: skip


def compile_jobs(text: str) -> None:
    """Compile the jobs in a JSON text, which another process has made, into the cache on disk.

    The keys are the other process's: nothing is compiled if its acronumba has another version.
    """
    version, jobs = json.loads(text)
    for one in jobs if version == source_version() else ():
        job = Job(**{**one, "capability": tuple(one["capability"])})
        with cache.turn(job.key) as waited:
            if not waited or cache.read(job.key) is None:
                _compiled(job)


@record(kw_only=True)
class Job:
    """A kernel to compile: the source of its functions, and options."""

    key: str
    text: str
    entries: dict[str, int]  # functions to launch, with their numbers of parameters
    called: list[str]  # texts of tiles
    pool: int  # bytes that a block shares besides those of the text
    capability: tuple[int, int]
    suffix: str


def _job(code: Code, capability: tuple[int, int], suffix: str, key: str) -> Job:
    pool = code.shared if isinstance(code, PersistentCode) else code.pool
    return Job(
        key=key, text=code.text, entries=dict.fromkeys(code.entries, code.parameters),
        called=[tile.text() for tile in code.tiles], pool=pool, capability=capability, suffix=suffix,
    )  # fmt: skip


def _with_operations(code: Code, job: Job) -> list[compat.Machine]:
    """Compile a kernel that calls functions of the user's, which are not kept on disk: their text does not tell all."""
    _check(job)
    names = own.compiled_names(code.operations)
    try:
        return _made(job, names)
    except Exception as error:  # Numba's own errors, and those of its parts
        raise own.not_compiled(code.operations, error) from None


def _check(job: Job) -> None:
    if why := compat.missing():
        raise reject("ACR705", message=f"kernels for a GPU cannot be compiled: {why}", seen=next(iter(job.entries)))


def _made(job: Job, names: Mapping[str, Value] | None = None) -> list[compat.Machine]:
    found = compat.compile_text(
        job.text, job.entries, job.capability, job.suffix, THREADS, job.called, job.pool, names
    )  # fmt: skip
    return list(found.values())


def _compiled(job: Job) -> list[compat.Machine]:
    _check(job)
    made = _made(job)
    files: dict[str, bytes] = {}
    for k, machine in enumerate(made):
        about = {name: value for name, value in asdict(machine).items() if name not in ("code", "ptx")}
        files |= {f"{k}.cubin": machine.code, f"{k}.json": json.dumps(about).encode(), f"{k}.ptx": machine.ptx.encode()}
    cache.build(job.key, files)
    return made


def _machine(files: Mapping[str, bytes], k: int) -> compat.Machine:
    return compat.Machine(code=files[f"{k}.cubin"], ptx=files[f"{k}.ptx"].decode(), **json.loads(files[f"{k}.json"]))


def _key(code: Code, capability: tuple[int, int], suffix: str) -> str:
    """Return the name of a kernel's folder, which does not depend on the compiler's version: all make valid code."""
    here = Path(__file__).parent
    parts = [str(capability), suffix, str(THREADS), *code.entries, code.source]
    parts += [(here / name).read_text() for name in ("functions.py", "compat.py")]
    return "cubin" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
