"""NumPy for Pyodide 0.25.1, built by Debian's Emscripten (`apt-get install emscripten`): numpy_wasm.py OUT.

In: pip, Python 3.11, emcc 3.1.6. Out: OUT, a zip of the package. Pyodide's own compiler is 3.1.46: this is for tests,
and for machines that cannot reach Pyodide's files. Others name a wheel of theirs: see `build.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

NUMPY = "2.2.6"
SYSTEM = Path("/usr/share/emscripten")
OPTIONS = "-fPIC -sSIDE_MODULE=1 -sWASM_BIGINT"  # a library for a main program in which an i64 is a BigInt
SETUP = "allow-noblas=true blas=none lapack=none disable-optimization=true disable-svml=true"
LEFT_OUT = re.compile(r"/tests/|/f2py/|/distutils/|_tests\.|\.(a|h|pyi|pyx|pxd|ini)$")
SIZES = {"LONG": 4, "VOID_P": 4, "SIZE_T": 4, "PTHREAD_T": 4, "UINTPTR_T": 4, "TIME_T": 8}
CROSS = """
[binaries]
c = '{bin}/emcc'
cpp = '{bin}/em++'
ar = '{ar}'
cython = 'cython'
python = '{python}'
[host_machine]
system = 'emscripten'
cpu_family = 'wasm32'
cpu = 'wasm'
endian = 'little'
[properties]
needs_exe_wrapper = true
longdouble_format = 'IEEE_QUAD_LE'
skip_sanity_check = true
"""


def headers(to: Path) -> None:
    """Write Python's headers for 32 bits, and Emscripten's types with a `time_t` of 64, as Pyodide has it."""
    shutil.copytree(sysconfig.get_paths()["include"], to)
    config = (to / "pyconfig.h").read_text()
    for name, size in SIZES.items():
        config = re.sub(rf"(#define (?:SIZEOF|ALIGNOF)_{name}) \d+", rf"\1 {size}", config)
    config = re.sub(r"#define (VA_LIST_IS_ARRAY|HAVE_GCC_ASM_FOR_X64|HAVE_GCC_UINT128_T) 1", "", config)
    (to / "pyconfig.h").write_text(config)
    types = (SYSTEM / "cache/sysroot/include/bits/alltypes.h").read_text()
    (to / "bits").mkdir()
    (to / "bits/alltypes.h").write_text(types.replace("typedef long time_t;", "typedef long long time_t;"))


def build(work: Path) -> Path:
    """Return the wheel. Its name and its suffixes are those of this machine."""
    headers(work / "include")
    for name in ("emcc", "em++"):
        script = work / name
        # A library is linked with OPTIONS; what Meson compiles to look at the compiler is not.
        script.write_text(
            f'#!/bin/sh\ncase " $* " in *" -shared "*|*".so "*) link="{OPTIONS}";; esac\n'
            f'exec /usr/bin/{name} -I{work}/include -fPIC $link "$@"\n'
        )
        script.chmod(0o755)
    ar = shutil.which("llvm-ar") or shutil.which("emar")
    (work / "cross.ini").write_text(CROSS.format(bin=work, ar=ar, python=sys.executable))
    settings = [f"--config-settings=setup-args=-D{option}" for option in SETUP.split()]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-binary=numpy", f"--wheel-dir={work}",
         "--no-cache-dir",  # that would give this wheel to other builds on this machine
         f"--config-settings=setup-args=--cross-file={work}/cross.ini", *settings, f"numpy=={NUMPY}"], check=True,
    )  # fmt: skip
    return next(work.glob("numpy-*.whl"))


def main() -> None:
    if sys.version_info[:2] != (3, 11) or not shutil.which("emcc"):
        sys.exit("needs Python 3.11 and emcc 3.1.6")
    with tempfile.TemporaryDirectory() as folder:
        wheel = zipfile.ZipFile(build(Path(folder)))
        with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for name in wheel.namelist():
                if not LEFT_OUT.search(name):
                    out.writestr(re.sub(r"\.cpython-311-[^/]*\.so$", ".so", name), wheel.read(name))


if __name__ == "__main__":
    main()
