"""A folder for a machine that has a GPU, and no network and no compilers: wheels, and kernels compiled beforehand.

    python benchmarks/carry.py make FOLDER [--python 3.12] [--capability 9.0] [--needs NAME ...] [--models NAME ...]
    python benchmarks/carry.py use FOLDER [--json FILE, or whatever else benchmarks/gpu.py takes]

`make` needs a network and the extra `cuda`: it fills FOLDER/wheels with packages for another version of Python (all
that acronumba needs, or those named: what the other machine lacks), and FOLDER/cache.zip with machine code for the GPU,
of the kernels of this very source. `use`, there, needs nothing but Python and pip: it installs the wheels aside, copies
the code to a private folder, has `acronumba doctor` look at the result, and runs `benchmarks/gpu.py`.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "gpu.py"
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


def needs() -> list[str]:
    """Return what acronumba needs, as pip writes it."""
    import tomllib

    with open(ROOT / "pyproject.toml", "rb") as file:
        return list(tomllib.load(file)["project"]["dependencies"])


def download(folder: Path, python: str, wanted: Sequence[str]) -> list[str]:
    """Return the command that downloads wheels for another Python, with all that they need if it is not said what."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", python, "--dest", str(folder), *(["--no-deps"] if wanted else [])]
    for name in PLATFORMS:
        command += ["--platform", f"{name}_{platform.machine()}"]
    return [*command, *(wanted or needs())]


def make(folder: Path, python: str, capability: str, wanted: Sequence[str], rest: Sequence[str]) -> int:
    """Fill a folder; return the exit status. What is there already is not compiled again."""
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    if status := subprocess.run(download(wheels, python, wanted), check=False).returncode:
        return status
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name, "cache")
        take_over(folder, cache)
        command = [sys.executable, str(PROGRAM), "--compile", capability, *rest]
        try:
            return subprocess.run(command, env=environment([], cache), check=False).returncode
        finally:  # also if it was interrupted
            hand_over(cache, folder)


def use(folder: Path, rest: Sequence[str]) -> int:
    """Run the measurements with what is in a folder; return the exit status."""
    if not folder.is_dir():
        print(f"there is no folder {folder}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        site, cache = Path(name, "site"), Path(name, "cache")
        site.mkdir()
        if wheels := sorted(map(str, folder.glob("wheels/*.whl"))):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
            command += ["--no-cache-dir", "--disable-pip-version-check", "--target", str(site), *wheels]
            if status := subprocess.run(command, check=False).returncode:
                return status
        take_over(folder, cache)
        env = environment([site], cache)
        doctor = subprocess.run([sys.executable, "-m", "acronumba", "doctor"], env=env, check=False)
        if doctor.returncode:
            print(
                "What the doctor calls BAD, or the module that was not found, has to be in the folder:", file=sys.stderr
            )
            print("benchmarks/carry.py make FOLDER --needs NAME ...", file=sys.stderr)
            return doctor.returncode
        return subprocess.run([sys.executable, str(PROGRAM), *rest], env=env, check=False).returncode


def hand_over(cache: Path, folder: Path) -> None:
    """Archive what a cache has for GPUs; code for this processor is of no use to another one."""
    for entry in cache.iterdir():
        if not entry.name.startswith("cubin"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.make_archive(str(folder / "cache"), "zip", cache)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB")


def take_over(folder: Path, cache: Path) -> None:
    """Unpack a folder's code, for nobody else to read or write: a cache that is open to others is not used."""
    cache.mkdir(mode=0o700)
    if (folder / "cache.zip").is_file():
        shutil.unpack_archive(folder / "cache.zip", cache)
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def environment(first: Sequence[Path], cache: Path) -> dict[str, str]:
    """Return the variables under which acronumba is that of this source."""
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(ROOT), *map(str, first), *([before] if before else [])])
    return {**os.environ, "PYTHONPATH": path, "ACRONUMBA_CACHE_DIR": str(cache.absolute())}


def main(argv: list[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="fill the folder; other arguments are for `benchmarks/gpu.py --compile`")
    making.add_argument("folder", type=Path)
    making.add_argument("--python", default="3.12")
    making.add_argument("--capability", default="9.0")
    making.add_argument("--needs", nargs="*", default=[])
    using = commands.add_parser("use", help="measure; other arguments are for `benchmarks/gpu.py`")
    using.add_argument("folder", type=Path)
    args, rest = parser.parse_known_args(argv)
    if args.command == "make":
        return make(args.folder, args.python, args.capability, args.needs, rest)
    return use(args.folder, rest)


if __name__ == "__main__":
    sys.exit(main())
