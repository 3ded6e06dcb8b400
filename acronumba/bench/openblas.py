"""The setting under which NumPy's own products are fastest on this machine, so that comparisons are fair.

In: nothing. Out: environment variables for a child process; OpenBLAS reads them once, when NumPy is imported. On some
CPUs it selects kernels for AVX2 although they have AVX-512: which are faster is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

_PROBE = """
import time, numpy as np
a, b = np.ones((256, 512), np.float32), np.ones((512, 1280), np.float32)
times = []
for _ in range(20):
    start = time.perf_counter()
    a @ b
    times.append(time.perf_counter() - start)
print(min(times))
"""


def best_setting(threads: int) -> Mapping[str, str]:
    """Return the environment variables with which NumPy multiplies fastest.

    Parameters
    ----------
    threads : int
        Threads that NumPy may use.

    Returns
    -------
    mapping
        The number of threads, and ``OPENBLAS_CORETYPE`` if naming it pays; a value that the user has set is kept.
    """
    base = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    if "OPENBLAS_CORETYPE" in os.environ or not _has_avx512():
        return base
    named = {**base, "OPENBLAS_CORETYPE": "SKYLAKEX"}
    times = [(_seconds(base), _seconds(named)) for _ in range(2)]  # in turns: another program may be busy
    return named if min(t for _, t in times) < 0.95 * min(t for t, _ in times) else base


def _has_avx512() -> bool:
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:
        return False
    return all(features.get(name, False) for name in ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"))


def _seconds(setting: Mapping[str, str]) -> float:
    """Return the time of one product in a process with this setting; infinite if it does not run."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], env={**os.environ, **setting}, capture_output=True, text=True, check=False
    )
    return float(done.stdout) if done.returncode == 0 else float("inf")
