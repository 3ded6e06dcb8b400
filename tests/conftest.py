"""What all tests share: which are run by default, the expected texts, and a cache of their own.

Tests are marked by what they need: `long` (seconds, or more cases of what others try), `slow` (minutes, or many more
cases), `full` (large sizes), `gpu` (a CUDA device). They are left out unless named with ``--long``, ``--slow`` (which
also runs those of `long`), ``--full``, ``--gpu``; the end of a run says how many were left out. `.ci/run` names
``--long``. Expected texts lie in `tests/golden` and are compared by the fixture `golden`; ``--update-golden`` writes
them.
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

from tests.support.modules import import_file

MARKS = {
    "long": "takes seconds, or is one more case of some",
    "slow": "takes minutes, or is one more case of many",
    "full": "large sizes",
    "gpu": "needs a CUDA device",
}
ROOT = Path(__file__).resolve().parent.parent
for compares in ("device_runs", "hand_runs", "kernel_cases", "plain_call"):  # a failure shows the two sides
    pytest.register_assert_rewrite(f"tests.support.{compares}")

# Compiled code goes to a cache kept between runs, not to the user's.
os.environ.setdefault(
    "ACRONUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"acronumba-tests-{getattr(os, 'getuid', int)()}")
)
os.environ.setdefault("ACRONUMBA_QUIET", "1")  # what a slow machine would say is not the tests' concern
# The NumPy that results are compared with takes one thread: the tests already use all cores.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Properties are tried on the same examples in every run of CI, and on new ones elsewhere; compiling has no deadline.
hypothesis.settings.register_profile("acronumba", deadline=None, derandomize=bool(os.environ.get("CI")), database=None)
hypothesis.settings.load_profile("acronumba")

_left_out: Counter[str] = Counter()
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark, meaning in MARKS.items():
        parser.addoption(f"--{mark}", action="store_true", help=f"run the tests marked {mark}: {meaning}")
    parser.addoption("--update-golden", action="store_true", help="write the expected texts instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    for mark, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}; run with --{mark}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    closed = [mark for mark in MARKS if not config.getoption(f"--{mark}")]
    if "slow" not in closed:
        closed = [mark for mark in closed if mark != "long"]
    reasons = {item: [mark for mark in closed if item.get_closest_marker(mark)] for item in items}
    left_out = [item for item in items if reasons[item]]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not reasons[item]]
    _left_out.update(reasons[item][0] for item in left_out)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no collection of garbage go over all tests and modules, and fewer over the models of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 40)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Every worker collects all tests: take over the numbers of the last one."""
    _left_out.clear()
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for mark, n in sorted(_left_out.items()):
        terminalreporter.write_line(f"left out: {n} tests marked {mark} ({MARKS[mark]}; --{mark} runs them)")


@pytest.fixture
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return ``golden(text, name)``, which compares a text with the file `name` under `tests/golden`."""

    def compare(text: str, name: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no expected text {path.relative_to(ROOT)}; write it with --update-golden, and read it")
        assert text == path.read_text(encoding="utf-8"), f"differs from {path.relative_to(ROOT)} (--update-golden)"

    return compare


@pytest.fixture
def module_of(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Return ``module_of(text)``, which imports a text from a file, which messages quote, and is forgotten later."""
    made: list[str] = []

    def load(text: str) -> ModuleType:
        made.append(f"module_{os.getpid()}_{next(_numbers)}")
        path = tmp_path / f"{made[-1]}.py"
        path.write_text(text, encoding="utf-8")
        return import_file(path)

    yield load
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A `monkeypatch` that is undone before what asked for it ends."""
    yield monkeypatch
    monkeypatch.undo()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let Ctrl-C raise, also where tests run in the background; and let no collection of all the tests' objects take
    long: an exception at its end is lost in a callback of `gc`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.collect()
    gc.freeze()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def every_thread_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wake all threads of a model for every mini-batch, however little there is to do."""
    monkeypatch.setattr("acronumba.runtime.driver._WAKE", 1e-9)
