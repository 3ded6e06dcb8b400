"""Specialisations that are kept, and those that make room: bounded, and gone with their model."""

from __future__ import annotations

import gc
import linecache
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.api import specialisations
from acronumba.api.model import Model
from acronumba.emit import compile as compiler
from acronumba.pipeline import compiled as pipeline

# ---- what is kept


@pytest.fixture
def emptied() -> None:
    """No specialisation is kept before the test, so that it can count."""
    for cache in tuple(specialisations.CACHES):
        for entries in cache.entries.values():
            entries.clear()


def scaled(k: int) -> Model:
    text = f"def f(x, *, w):\n    return w * x + {k}.0\n"
    name = f"<scaled {k}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    return model(space["f"])  # type: ignore[no-any-return]


def room_for(count: int) -> int:
    """Return the bytes that so many small specialisations take."""
    return count * (specialisations.EACH + 100 * specialisations.INSTRUCTION)


def counts(*models: Model) -> list[int]:
    return [sum(map(len, m._cache.entries.values())) for m in models]


def test_the_specialisations_of_a_model_that_were_used_last_are_kept(emptied: None, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(specialisations, "ROOM", room_for(3))
    f, x = scaled(1), np.ones(1)

    def run(n: int) -> Any:
        assert np.array_equal(f.batch([x], w=np.ones(n))[0], np.full(n, 2.0))
        return f._entries[0]

    made = [weakref.ref(run(n)) for n in (1, 2, 3)]
    run(1)
    made.append(weakref.ref(run(4)))
    gc.collect()
    assert [ref() is None for ref in made] == [False, True, False, False]
    first = made[0]()
    assert first in f._entries
    run(1)
    assert len(f._entries) == 3 and f._entries[0] is not first  # it was not compiled again


def test_the_specialisations_of_all_models_are_bounded(emptied: None, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(specialisations, "ROOM", room_for(3))
    models = [scaled(k) for k in range(4)]
    for f in models[:3]:
        f.batch([1.0], w=2.0)
    held = models[1].batch([1.0], w=2.0)
    models[0].batch([1.0], w=2.0)
    models[3].batch([1.0], w=2.0)
    assert counts(*models) == [1, 1, 0, 1]
    patch.setattr(specialisations, "MODULES", 0)
    models[2].batch([1.0], w=2.0)
    gc.collect()
    compiler.load([])
    assert counts(*models) == [0, 0, 1, 0]
    assert list(held) == [3.0]
    assert [list(f.batch([1.0], w=2.0)) for f in models] == [[2.0], [3.0], [4.0], [5.0]]


def test_a_model_that_is_gone_takes_its_code_with_it(emptied: None) -> None:
    f = scaled(5)
    results = f.batch([np.ones(2)], w=np.ones(2))
    code = [weakref.ref(c._code) for c in f._entries[0].executable.engine.loaded if c.name not in ("runtime",)]
    del f
    gc.collect()
    assert np.array_equal(results[0], [6.0, 6.0])
    del results
    gc.collect()
    assert [ref() for ref in code if ref() is not None] == []


@pytest.mark.parametrize("fork", [False, True])
def test_code_is_evicted_while_others_run_it(emptied: None, patch: pytest.MonkeyPatch, fork: bool) -> None:
    patch.setattr(specialisations, "ROOM", room_for(2))
    models = [scaled(k) for k in range(6)]
    xs = [np.full(64, float(k)) for k in range(200)]
    wrong: list[Any] = []

    def run(k: int) -> None:
        for _ in range(12):
            for j in (k, (k + 1) % 6):
                results = models[j].batch(xs, w=np.ones(64))
                if not all(np.array_equal(r, x + j) for r, x in zip(results, xs, strict=True)):
                    wrong.append(j)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(0, 6, 2)]
    for t in threads:
        t.start()
    if fork and hasattr(os, "fork"):
        child = os.fork()
        if not child:
            try:
                run(5)
            finally:
                os._exit(len(wrong))
        assert os.waitpid(child, 0)[1] == 0
    for t in threads:
        t.join()
    assert not wrong


def test_what_a_call_uses_is_not_forgotten_while_it_runs(emptied: None, patch: pytest.MonkeyPatch) -> None:
    """However little room there is, the next call of the same types compiles nothing."""
    patch.setattr(specialisations, "ROOM", 0)
    f, xs = scaled(6), [np.ones((1,) * k) for k in (*range(1, 10), 24)]
    for _ in range(2):
        assert [r.tolist() for r in f.batch(xs, w=2.0)] == [f(x, w=2.0).tolist() for x in xs]
        assert counts(f) == [len(xs)]
        patch.setattr(pipeline, "Compiled", None)


def test_many_specialisations_of_a_model_are_kept(emptied: None, patch: pytest.MonkeyPatch) -> None:
    """As many as there is memory for: each is found again, though none was the last."""
    f, shapes = scaled(7), range(1, 14)
    for n in shapes:
        f.batch([np.ones(1)], w=np.ones(n))
    assert counts(f) == [len(shapes)]
    patch.setattr(pipeline, "Compiled", None)
    for n in shapes:
        assert np.array_equal(f.batch([np.ones(1)], w=np.ones(n))[0], np.full(n, 8.0))


@pytest.mark.long
def test_a_long_lived_process_stays_as_it_is(emptied: None, tmp_path: Path, root: Path) -> None:
    """The same with more calls: `python benchmarks/steady.py`."""
    program = "import steady\nfor line in steady.run(30, 6, lines=3): print(line['maps'], line['files'], line['MB'])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "benchmarks")])}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    lines = [list(map(float, line.split())) for line in run.stdout.splitlines()]
    assert len(lines) == 3
    (maps, files, size), (more_maps, more_files, more) = lines[0], lines[-1]
    assert more_maps <= maps + 20 and more_files <= files and more <= size + 20
