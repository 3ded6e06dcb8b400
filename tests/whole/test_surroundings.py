"""Processes without standard streams, with closed or odd ones; notebooks."""

from __future__ import annotations

import builtins
import importlib
import io
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.api.dispatch import bind, specialise
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


@pytest.mark.parametrize("missing", ["ray", "cloudpickle"])
def test_what_is_missing_for_several_machines_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "cloudpickle"):
        if name != missing:
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "acronumba.ray", raising=False)
    with pytest.raises(ImportError, match=f"needs {missing}, .*pip install") as info:
        importlib.import_module("acronumba.ray")
    assert info.value.name == missing


def test_nothing_is_said_at_the_end(tmp_path: Path) -> None:
    """Results that live as long as Python does, in cycles, in modules of others, and in generators."""
    (tmp_path / "ends.py").write_text(
        "import sys, threading, numpy as np\n"
        "from acronumba import model\n"
        "@model\n"
        "def f(x, *, w): return np.tanh(w @ x)\n"
        "class Keep: pass\n"
        "keep = Keep(); keep.me = keep; keep.r = f.batch([np.ones(3)] * 4, w=np.ones((3, 3)))\n"
        "sys.keep, threading.keep = keep, [keep.r, f.batch([np.ones(3)], w=np.ones((3, 3)))]\n"
        "def later():\n"
        "    r = f.batch([np.ones(3)] * 4, w=np.ones((3, 3)))\n"
        "    yield r\n"
        "sys.later = later(); next(sys.later)\n"
    )
    env = {**os.environ, "ACRONUMBA_QUIET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "ends.py"], cwd=tmp_path, env=env, timeout=120, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_at_the_end_of_python_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules are taken apart by then: what they name is gone."""

    @model
    def f(x):
        return np.tanh(x)

    compiled, leaves, packed = specialise(f, bind(f, [XS], {}))
    run = compiled.run(packed, leaves)
    monkeypatch.setattr(run, "_give", None)
    run.__del__(lambda: True)
    assert run.buffers is not None
    monkeypatch.undo()
    run.__del__()
    with pytest.raises(ValueError, match="closed"):
        print(run.buffers)
