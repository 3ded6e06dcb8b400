"""Processes without standard streams, with closed or odd ones; notebooks."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.emit import cache

XS = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


class OnlyWrites:
    """What services put in the place of a stream that goes to their log."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


class Fails:
    """The stream of a log that is gone."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error


STREAMS = {
    "none": lambda: None,
    "closed": closed,
    "only writes": OnlyWrites,
    "write fails": lambda: Fails(OSError(9, "Bad file descriptor")),
    "write fails otherwise": lambda: Fails(RuntimeError("the log is gone")),
    "nothing": object,
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("level", ["0", "6"])
def test_a_process_needs_no_standard_streams(
    kind: str, level: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACRONUMBA_DEBUG", level)
    monkeypatch.setattr("acronumba.pipeline.compiled.Compiled._slow", True, raising=False)

    @model
    def doubled(x):
        return np.tanh(x) * 2

    with monkeypatch.context() as patch:
        for name in ("stderr", "stdout", "__stderr__", "__stdout__"):
            patch.setattr(sys, name, STREAMS[kind]())
        results = list(doubled.batch(XS))
        trace, explanation = str(doubled.trace(XS)), str(doubled.explain(XS))
        doubled.trace(XS).html(tmp_path / "page.html")
        ok = doubled.check(XS).ok
        assert doubled.stages(XS)["ir"]
    assert ok and len(results) == 2 and "Summary" in trace and "tanh" in explanation


@pytest.mark.parametrize("kind", STREAMS)
def test_a_warning_needs_no_standard_error(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACRONUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(warnings, "showwarning", warnings._showwarning_orig)  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with monkeypatch.context() as patch:
            patch.setattr(warnings, "_showwarnmsg_impl", SHOW)
            patch.setattr(sys, "stderr", STREAMS[kind]())
            place = cache.directory()
    assert place.is_dir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(cache.CacheWarning):
            cache.give_up("the disk is full")


SHOW = warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # before pytest puts its own in its place


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors by the shell")
@pytest.mark.parametrize("streams", ["0<&- 1>&- 2>&-", pytest.param("2>&-", marks=pytest.mark.slow)])
def test_a_process_may_be_started_without_standard_streams(streams: str, tmp_path: Path) -> None:
    page = tmp_path / "out.txt"
    (tmp_path / "service.py").write_text(
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from acronumba import model\n"
        "@model\n"
        "def f(x): return np.exp(x) - 1\n"
        "assert sys.stderr is None\n"
        "xs = [np.ones(2, np.float32)] * 3\n"
        "text = str(f.trace(xs)) + str(f.check(xs))\n"
        f"Path({str(page)!r}).write_text(str(len(f.batch(xs))) + text)\n"
    )
    shell = f'"{sys.executable}" service.py {streams}'
    env = {**os.environ, "ACRONUMBA_DEBUG": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, env=env, timeout=120)
    assert done.returncode == 0 and page.read_text().startswith("3f: ")


@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor")
def test_standard_error_may_be_closed_while_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(
        "import os, numpy as np\n"
        "from acronumba import model\n"
        "@model\n"
        "def f(x): return x * 2\n"
        "os.close(2)\n"
        "print(f.batch([np.ones(2, np.float32)])[0].sum())\n"
    )
    env = {**os.environ, "ACRONUMBA_DEBUG": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "service.py"], cwd=tmp_path, env=env, timeout=120, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == "4.0\n"


class ZMQInteractiveShell:
    """By this name rich knows a notebook."""


@pytest.mark.parametrize("notebook", ["jupyter", "databricks"])
def test_texts_are_the_same_in_a_notebook(notebook: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @model
    def tripled(x):
        return np.tanh(x) * 3

    def texts(name: str) -> list[str]:
        trace, explanation = tripled.trace(XS), tripled.explain(XS)
        pages = trace.html(tmp_path / f"{name}.html"), explanation.to_text(tmp_path / f"{name}.txt")
        lines = [line for line in str(trace).split("\n") if not line.strip().endswith("█") and " s" not in line]
        return [str(explanation), pages[1].read_text(), *lines[:4], str("tripled" in pages[0].read_text())]

    expected = texts("terminal")
    shell: Any = ZMQInteractiveShell()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    if notebook == "databricks":
        shell = object()
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15")
    assert texts("notebook") == expected and "tanh" in expected[0]
