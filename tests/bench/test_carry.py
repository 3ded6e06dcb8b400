"""`benchmarks/carry.py`: what travels to a machine without a network, and how it is used there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from acronumba.emit import cache as caching
from tests.support.modules import import_file

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def carry() -> ModuleType:
    return import_file(ROOT / "benchmarks" / "carry.py", "carry_program")


@pytest.fixture
def runs(carry: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Any]]:
    """The commands that it would run, and their variables."""
    seen: list[tuple[list[str], Any]] = []

    def run(command: list[str], env: Any = None, check: bool = True) -> Any:
        seen.append((command, env))
        if "--compile" in command:
            monkeypatch.setenv(caching.ENVIRONMENT, env[caching.ENVIRONMENT])
            for key in ("cubin1", "machine2"):
                if caching.read(key) is None:
                    caching.build(key, {"0.cubin": b"code"})
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(carry, "subprocess", SimpleNamespace(run=run))
    return seen


def test_a_folder_is_filled_and_used(
    carry: ModuleType, runs: list[tuple[list[str], Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    assert carry.main(["make", str(folder), "--python", "3.13", "--models", "birnn"]) == 0
    download, compiling = (command for command, _ in runs)
    assert "3.13" in download and any(p.startswith("numba") for p in download) and "--no-deps" not in download
    assert compiling[2:] == ["--compile", "9.0", "--models", "birnn"]
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # as it may arrive
    (folder / "wheels" / "some.whl").touch()
    runs.clear()

    def look(command: list[str], env: Any = None, check: bool = True) -> Any:
        runs.append((command, env))
        if env is not None:
            monkeypatch.setenv(caching.ENVIRONMENT, env[caching.ENVIRONMENT])
            assert caching.read("cubin1") is not None and caching.read("machine2") is None
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(carry, "subprocess", SimpleNamespace(run=look))
    assert carry.main(["use", str(folder), "--json", "gpu.json"]) == 0
    install, doctor, measuring = (command for command, _ in runs)
    assert "--no-index" in install and install[-1].endswith("some.whl")
    assert doctor[1:] == ["-m", "acronumba", "doctor"]
    assert measuring[1:] == [str(carry.PROGRAM), "--json", "gpu.json"]
    assert runs[2][1]["PYTHONPATH"].split(os.pathsep)[:2] == [str(ROOT), install[install.index("--target") + 1]]


def test_only_what_is_missing_is_downloaded(carry: ModuleType, tmp_path: Path) -> None:
    command = carry.download(tmp_path, "3.12", ["platformdirs"])
    assert "--no-deps" in command and command[-1] == "platformdirs"


@pytest.mark.skipif(os.name != "posix", reason="make")
def test_make_says_what_is_missing() -> None:
    make = ["make", "-n", "gpu-carry", f"PYTHON={sys.executable}", "CARRY=there", "NEEDS=platformdirs rich"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 'carry.py make "there" --python 3.12 --capability 9.0' in done.stdout
    assert "--needs platformdirs rich" in done.stdout
