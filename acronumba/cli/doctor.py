"""`acronumba doctor`: the properties of the machine and the installation, and problems with them."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable


def doctor(args: argparse.Namespace) -> int:
    """Print one row per finding; return 1 if there is a problem. With `--prepare`, compile shared code instead."""
    from acronumba import __version__

    if args.prepare:
        return _prepare()

    rows: list[tuple[str, str, bool]] = [
        ("acronumba", __version__, True),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}", True),
        ("system", f"{platform.system()} {platform.machine()}: {supported()}", True),
    ]
    for package in ("numpy", "numba", "llvmlite", "networkx", "rich", "safetensors", "platformdirs"):
        try:
            rows.append((package, importlib.metadata.version(package), True))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "is missing: pip install " + package, False))
    rows += [_probe("CPU", _cpu), _probe("threads", _threads), _probe("compiler", _compiler)]
    rows += [_probe("cache", _cache_state), _probe("tuning", _tuning), _probe("CUDA", _cuda)]
    width = max(len(name) for name, _, _ in rows)
    for name, text, good in rows:
        print(f"{name:<{width}}  {'ok ' if good else 'BAD'}  {text}")
    return 0 if all(good for _, _, good in rows) else 1


def _prepare() -> int:
    from acronumba.emit import cache
    from acronumba.pipeline.log import bar
    from acronumba.pipeline.prepare import prepare

    start = time.perf_counter()
    with bar("preparing") as progress:
        count, compiled = prepare(progress)
    seconds = time.perf_counter() - start
    print(f"{compiled} of {count} modules compiled in {seconds:.1f} s, into {cache.directory()}")
    return 0


TESTED = ("3.11", "3.12", "3.13")  # versions of Python that the tests run with, on Linux on x86-64


def supported() -> str:
    """Return a text that says whether this system and version of Python are tested."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "no test runs on such a system: Numba may have no wheels"
    version = ".".join(platform.python_version_tuple()[:2])
    return "tested" if version in TESTED else f"tested with other versions of Python: {', '.join(TESTED)}"


def _probe(name: str, find: Callable[[], str]) -> tuple[str, str, bool]:
    try:
        return name, find(), True
    except Exception as error:  # the doctor must not fall ill
        return name, f"{type(error).__name__}: {error}", False


def _cuda() -> str:
    from acronumba.runtime.devices import driver as gpu

    if why := gpu.missing():
        return f"not used: {why}"
    one = gpu.gpu(0)
    graphs = "whose nodes overlap" if one.early else "whose nodes follow each other" if one.graphs else ""
    nodes = f"graphs of kernels, {graphs}" if graphs else "no graphs of kernels: the driver is older than CUDA 11.4"
    return f"{one.name}, compute capability {one.capability[0]}.{one.capability[1]}; {nodes}"


def _cpu() -> str:
    from acronumba.emit.target import host

    target = host()
    return f"{target.name}, vectors of {target.vector_bits} bits"


def _threads() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{usable} usable"


def _compiler() -> str:
    from acronumba.config import interpreted
    from acronumba.emit import compile as compiler
    from acronumba.emit import parse, tree

    if interpreted():
        return "none: models are interpreted (ACRONUMBA_ENGINE)"
    (function,) = parse.parse("def answer(a: i64) -> i64:\n    return a + 42\n")
    (compiled,) = compiler.load([tree.Module(name="doctor", functions=(function,), exports=("answer",))])
    result = compiled.call("answer", 0)
    if result != 42:
        raise RuntimeError(f"a compiled function gave {result} in place of 42")
    return "a small function was compiled and gave the right answer"


def _tuning() -> str:
    from acronumba import tuned

    table = tuned.read()
    figures = "not measured" if table.figures is None else "measurements of this machine"
    return f"{figures}, {len(table.models)} models (acronumba tune)"


def _cache_state() -> str:
    from acronumba.config import cache_limit
    from acronumba.emit import cache

    held = cache.entries()
    size, limit = sum(held.values()) / 2**20, cache_limit() / 2**20
    most = f"at most {cache.MOST:,} and {limit:,.0f} MB (ACRONUMBA_CACHE_LIMIT)"
    return f"{cache.directory()}: {len(held):,} modules, {size:,.1f} MB; {most}"
