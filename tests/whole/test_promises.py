"""The six promises: same bits, isolation, no crash, the cache, threads and processes, determinism."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acronumba
from acronumba import DataError, InstanceErrors, Results, ScheduleError, model, pack
from acronumba.config import BITWISE
from acronumba.emit import cache, compile
from acronumba.locks import undivided
from acronumba.runtime import driver, engines
from acronumba.runtime import threads as workers
from acronumba.zoo import tree_lstm
from tests.support import robust_models as models
from tests.support.robust_models import bits, params, trees

FILLED = os.environ[cache.ENVIRONMENT]  # what all tests share
FORK = hasattr(os, "fork")
needs_fork = pytest.mark.skipif(not FORK, reason="no fork")
forking = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(acronumba.__file__).parent.parent), **more}


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what `work` gives in each of so many threads that start at once."""
    out: list[Any] = [None] * count
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(k: int) -> None:
        try:
            barrier.wait(60)
            out[k] = work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads), "threads wait for each other"
    if errors:
        raise errors[0]
    return out


# ---- 1: the same bits in any company


def test_bits_do_not_depend_on_the_company() -> None:
    p = tree_lstm.params(16, vocabulary=64)
    f, xs = tree_lstm.sentiment, tree_lstm.instances(12, vocabulary=64)
    whole = [bits(r) for r in f.batch(xs, p=p)]
    orders = [range(12)[::-1], [3] * 9, [0], [11], [5, 2], *np.random.default_rng(0).permutation(12)[None]]
    for order in [list(map(int, o)) for o in orders]:
        assert [bits(r) for r in f.batch([xs[k] for k in order], p=p)] == [whole[k] for k in order]
    packed = pack(xs)
    for cut in (slice(None), slice(0, 5), slice(5, 12), slice(None, None, -1), slice(2, 11, 3)):
        assert [bits(r) for r in f.batch(packed[cut], p=p)] == whole[cut]
    assert [bits(r) for r in f.batch(xs * 9, p=pack(p))] == whole * 9
    assert f.check(xs, p=p).ok


SWITCHES = [
    *({name: False} for name in BITWISE if name != "phases"),
    {"schedule": "agenda"}, {"schedule": "depth"}, {"threads": 1}, {"threads": 3}, {"memory_limit": 1 << 28},
    {"schedule": "depth", "phases": False},
    {"effort": 0},
    {"blocks": False, "fuse": False, "horizontal": False, "hoist": False, "phases": False, "schedule": "agenda"},
]  # fmt: skip


@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_bits_do_not_depend_on_options(options: dict[str, Any]) -> None:
    p, xs = params(), trees(24)
    want = bits(models.tree_rnn.batch(xs, p=p))
    assert bits(models.tree_rnn.with_options(**options).batch(xs, p=p)) == want


def test_a_schedule_of_the_users_keeps_the_bits_and_is_verified() -> None:
    p, xs = params(), trees(6)

    def alone(columns: Any) -> Any:
        return np.argsort(np.argsort(columns["depth"], kind="stable"), kind="stable").astype(np.int32)

    f = models.tree_rnn.with_options(schedule=alone)
    assert bits(f.batch(xs, p=p)) == bits(models.tree_rnn.batch(xs, p=p))
    assert all(b.size == 1 for b in f.trace(xs, p=p).batches)
    with pytest.raises(ScheduleError, match=r"ACR711: .* batch"):
        models.tree_rnn.with_options(schedule=lambda c: np.zeros(len(c["kernel"]), np.int32)).batch(xs, p=p)


# ---- 2: isolation


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e36, 1e-45])
def test_odd_numbers_stay_in_their_instance(value: float) -> None:
    w = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    xs = list(np.random.default_rng(1).standard_normal((9, 7)).astype(np.float32))
    clean = models.linear.batch(xs, w=w)
    odd = list(xs)
    odd[4] = np.full(7, value, np.float32)
    with np.errstate(all="ignore"):
        plain = models.linear(odd[4], w=w)
    results = models.linear.batch(odd, w=w)
    np.testing.assert_allclose(results[4], plain, rtol=1e-5)
    assert all(bits(results[k]) == bits(clean[k]) for k in range(9) if k != 4)


def test_failures_and_bad_data_stay_in_their_instance() -> None:
    p, xs = params(), trees(9)
    clean = models.tree_rnn.batch(xs, p=p)
    mixed = list(xs)
    mixed[2] = models.Tree(word=10**6)
    mixed[5] = models.Tree(left=models.Tree(word="five"), right=models.Tree(word=1))  # type: ignore[arg-type]
    mixed[7] = models.Tree(left=models.Tree(word=1))  # its right side is None
    with pytest.raises(InstanceErrors) as caught:
        models.tree_rnn.batch(mixed, p=p)
    errors, results = caught.value.errors, caught.value.results
    assert [type(errors[k]) for k in (2, 5, 7)] == [IndexError, DataError, AttributeError]
    assert list(errors) == [2, 5, 7]
    for k in range(9):
        assert results[k] is None if k in errors else bits(results[k]) == bits(clean[k])


# ---- 3: no crash


@model
def row_after_row(first: np.ndarray, steps: list[np.ndarray], *, table: np.ndarray) -> np.ndarray:
    row = table[first]
    for step in steps:
        row = np.tanh(row) + table[step]  # which row is a value of the batch: only the kernel can find it missing
    return row


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("batch", range(3))
def test_a_failure_is_found_wherever_it_lies_in_its_batch(bad: int, batch: int) -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    firsts = [np.int64(k) for k in range(4)]
    steps = [[np.int64(1), np.int64(k)] for k in range(4)]
    if batch == 0:
        firsts[bad] = np.int64(9)
    else:
        steps[bad][batch - 1] = np.int64(9)
    with pytest.raises(InstanceErrors) as failed:
        row_after_row.batch(firsts, steps, table=table)
    assert list(failed.value.errors) == [bad]
    assert [k for k, r in enumerate(failed.value.results) if r is None] == [bad]
    assert isinstance(failed.value.errors[bad], IndexError)


@model
def waits_and_adds(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    count = int(z.sum())
    return np.tanh(x + y) * count


def test_nothing_is_computed_before_its_extents_are_checked() -> None:
    """A check that comes after a wait holds back what relies on it, or that would read past the end of an array."""
    one = [np.ones(3, np.float32)]
    lines = waits_and_adds.stages(one, one, one)["plan"].splitlines()
    (check,) = (k for k, line in enumerate(lines) if "check" in line and "(n0, n0_1)" in line)
    (adds,) = (k for k, line in enumerate(lines) if "emit" in line and "n0_1" in line)
    assert check < adds


def test_no_instances_and_one() -> None:
    p, xs = params(), trees(3)
    empty = models.tree_rnn.batch([], p=p)
    assert len(empty) == 0 and list(empty) == [] and empty == []
    assert bits(models.tree_rnn.batch(xs[:1], p=p)[0]) == bits(models.tree_rnn.batch(xs, p=p)[0])
    assert len(models.tree_rnn.batch(pack(xs)[:0], p=p)) == 0
    assert models.tree_rnn.check([], p=p).ok


# ---- 4: nothing compiled at import; the cache


def test_importing_is_quick_and_loads_no_compiler() -> None:
    code = (
        "import sys, time; t = time.perf_counter(); import acronumba; from acronumba.zoo import tree_lstm;"
        "print(time.perf_counter() - t, *[m for m in ('numba', 'llvmlite', 'rich', 'networkx') if m in sys.modules])"
    )
    runs = [subprocess.check_output([sys.executable, "-c", code], text=True, env=environment()) for _ in range(2)]
    assert all(len(out.split()) == 1 for out in runs), "a compiler or a view was imported"
    assert min(float(out) for out in runs) < 2.0


def run_child(directory: Path, count: int = 1) -> list[tuple[str, str]]:
    """Run the model in new processes at once; return what each printed, and its warnings."""
    env = environment(ACRONUMBA_CACHE_DIR=str(directory), PYTHONHASHSEED="random")
    command = [sys.executable, str(models.__file__)]
    children = [
        subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(count)
    ]
    out = []
    for child in children:
        printed, warned = child.communicate(timeout=300)
        assert child.returncode == 0, warned
        out.append((printed.strip(), warned))
    return out


def folders_of(directory: Path) -> list[Path]:
    """Return what is in a cache beside its ledger."""
    return sorted(path for path in directory.iterdir() if path.name != cache.LEDGER)


@pytest.mark.long
def test_processes_that_start_at_once_on_a_cold_cache(tmp_path: Path) -> None:
    want = models.digest(list(models.by_loop.batch([models.chain(3), models.chain(5)])))
    directory = tmp_path / "cache"
    assert run_child(directory, 4) == [(want, "")] * 4
    folders = folders_of(directory)
    assert folders and all((f / cache.MANIFEST).exists() for f in folders), "something was left behind"
    assert run_child(directory) == [(want, "")]
    assert folders_of(directory) == folders, "the second process compiled"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache directory of this test; code in memory is forgotten before and after."""
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    compile.forget()
    yield tmp_path / "cache"
    compile.forget()


_fresh = iter(range(10**6, 10**9))


def compiled_anew() -> Any:
    """Run a model whose code is not in memory: every call compiles, or loads from disk."""
    compile.forget()
    return models.by_loop.with_options(max_steps=next(_fresh)).batch([models.chain(3), models.chain(5)])


@pytest.fixture
def library_in_memory(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library's code, which takes seconds to build, stay in memory where code is forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.ENVIRONMENT, FILLED)
        found = []
        for f in (models.by_recursion, models.by_loop):
            compile.forget()
            f.with_options(max_steps=next(_fresh)).batch([models.chain(3)])
            found.append(dict(compile._loaded))
    library = {key: code for key, code in found[0].items() if key in found[1]}
    assert len(library) == 1

    def forget() -> None:
        compile._loaded.clear()
        compile._loaded.update(library)

    monkeypatch.setattr(compile, "forget", forget)
    forget()


def spoil(directory: Path, how: Callable[[bytes], bytes]) -> None:
    for path in [p for p in directory.rglob("*") if p.is_file()]:
        path.write_bytes(how(path.read_bytes()))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "garbage": lambda data: bytes(range(256)) * 8,
    "truncated": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
}


@pytest.mark.usefixtures("library_in_memory")
def test_a_damaged_cache_is_built_again(own_cache: Path) -> None:
    assert compiled_anew() == [3.0, 5.0]
    folders = folders_of(own_cache)
    assert folders
    for how in DAMAGE.values():
        spoil(own_cache, how)
        assert compiled_anew() == [3.0, 5.0]
        assert folders_of(own_cache) == folders
        assert all(json.loads((f / cache.MANIFEST).read_text())["key"] == f.name for f in folders)


@pytest.mark.usefixtures("library_in_memory")
@pytest.mark.skipif(os.name != "posix", reason="modes and owners of files")
def test_a_cache_that_others_may_write_is_not_used(own_cache: Path) -> None:
    assert compiled_anew() == [3.0, 5.0]
    assert list(own_cache.iterdir())
    for folder in own_cache.iterdir():
        folder.chmod(0o777)
        for path in folder.glob("*.py"):
            path.write_text("raise SystemExit('was run')")
    assert compiled_anew() == [3.0, 5.0]
    assert all(f.stat().st_mode & 0o022 == 0 for f in own_cache.iterdir())


@pytest.mark.usefixtures("library_in_memory")
@pytest.mark.parametrize("place", ["file", "below a file", "open to others"])
def test_a_cache_that_cannot_be_used_is_replaced(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "there"
    if place == "open to others":
        path.mkdir()
        path.chmod(0o777)
    else:
        path.write_text("in the way")
    monkeypatch.setenv(cache.ENVIRONMENT, str(path / "cache" if place == "below a file" else path))
    with pytest.warns(cache.CacheWarning, match="for this process only") as warned:
        assert compiled_anew() == [3.0, 5.0]
    assert len(warned) == 1
    assert compiled_anew() == [3.0, 5.0]
    compile.forget()
    assert path.read_text() == "in the way" if path.is_file() else not list(path.iterdir())


# ---- 5: threads


def test_threads_share_a_cold_model() -> None:
    p, xs = params(), trees(12)

    @model
    def fresh(t: models.Tree, *, p: models.Params) -> Any:
        return models.encode(t, p)

    def work(k: int) -> Any:
        if k % 4 == 1:
            assert "host" in fresh.stages(xs, p=p)
        if k % 4 == 2:
            return fresh.trace(xs, p=p).results
        return (fresh.with_options(schedule="agenda") if k % 4 == 3 else fresh).batch(xs, p=p)

    results = [bits(r) for r in together(8, work)]
    assert results == [results[0]] * 8


def test_threads_share_warm_models_packs_and_results() -> None:
    p, xs = params(), trees(40)
    packed, snapshot = pack(xs), pack(p)
    whole = models.tree_rnn.batch(xs, p=p)  # not decoded yet
    loop = models.by_loop.batch([models.chain(k + 1) for k in range(8)])

    def work(k: int) -> bool:
        for turn in range(12):
            part = packed[k : k + 20 + turn]
            assert bits(models.tree_rnn.batch(part, p=snapshot)) == bits(whole[k : k + 20 + turn])
            assert models.by_loop.batch([models.chain(k + 1)])[0] == loop[k]
            with pytest.raises(InstanceErrors):
                models.tree_rnn.batch([xs[k], models.Tree(word=99)], p=p)
        return True

    assert together(8, work) == [True] * 8


def test_threads_see_their_own_weights() -> None:
    xs = trees(10)
    many = [params(k) for k in range(6)]
    want = [bits(models.tree_rnn.batch(xs, p=p)) for p in many]

    def work(k: int) -> bool:
        return all(bits(models.tree_rnn.batch(xs, p=many[k])) == want[k] for _ in range(10))

    assert together(6, work) == [True] * 6


ONE = {f"/sys/devices/system/cpu/cpu{k}/topology/thread_siblings_list": "0,1" for k in range(4096)}


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 64),
        (ONE, 1),
        ({"/proc/self/cgroup": "0::/a/b", "/sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 64),
        ({"/proc/self/cgroup": "0::/a/b", "/sys/fs/cgroup/a/cpu.max": "250000 100000"}, 3),
        ({"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "1000 100000"}, 1),
        (
            {
                "/proc/self/cgroup": "7:memory:/m\n2:cpu,cpuacct:/c\n0::/",
                "/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "200000",
                "/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            },
            2,
        ),
    ],
    ids="none hyperthreads free share little old".split(),
)
def test_threads_are_as_many_as_the_cores_of_the_process(
    files: dict[str, str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(workers, "_read", lambda path: files.get(path, ""))
    assert workers.available_threads() == most


def outcome(f: Any, xs: Any, p: Any) -> Any:
    """Return the bits of the results, and which instances fail where."""
    try:
        results, errors = f.batch(xs, p=p), {}
    except InstanceErrors as e:
        results, errors = e.results, {k: (type(error), error.line) for k, error in e.errors.items()}
    return [None if k in errors else bits(r) for k, r in enumerate(results)], errors


@pytest.mark.usefixtures("every_thread_helps")
@pytest.mark.parametrize("options", [{}, {"gather_fusion": False, "fuse": False}], ids=str)
def test_threads_share_the_stages_of_small_batches(options: dict[str, Any]) -> None:
    p, xs = models.searches(100, wrong=(3, 20, 77))
    f = models.search.with_options(threads=1, **options)
    want = {n: outcome(f, xs[:n], p) for n in (1, 2, 7, 30, 100)}
    assert [len(errors) for _, errors in want.values()] == [0, 0, 1, 2, 3]
    assert {n: whole[:n] for n, (whole, _) in want.items()} == {n: want[100][0][:n] for n in want}
    for threads in (2, 3, 5):
        f = models.search.with_options(threads=threads, **options)
        for n, expected in want.items():
            before = engines.threads_of_process().jobs
            assert outcome(f, xs[:n], p) == expected
            assert engines.threads_of_process().jobs > before or n == 1, "nothing was shared"

    def work(k: int) -> Any:
        f = models.search.with_options(threads=2 + k % 2, **options)
        return [outcome(f, xs[:7], p) for _ in range(5)]

    assert together(4, work) == [[want[7]] * 5] * 4


def test_threads_that_start_at_once_share_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_pools", [])
    together, made = threading.Barrier(4), []
    load = engines.load

    def slow(modules: Any) -> Any:
        together.wait()  # all of them found that there is none
        return load(modules)

    monkeypatch.setattr(engines, "load", slow)
    threads = [threading.Thread(target=lambda: made.append(engines.threads_of_process())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4 and len(set(map(id, made))) == 1


@pytest.mark.usefixtures("every_thread_helps")
def test_workers_that_no_batch_wants_sleep() -> None:
    p, xs = models.searches(9)
    shared = engines.threads_of_process()
    models.search.with_options(threads=4).batch(xs, p=p)
    shared.enter(2)
    try:
        end = time.monotonic() + 60
        while [event.is_set() for event in shared._awake[:3]] != [True, False, False]:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        shared.leave(2)


@needs_fork
@forking
@pytest.mark.usefixtures("every_thread_helps")
def test_a_child_shares_stages() -> None:
    p, xs = models.searches(9)
    f = models.search.with_options(threads=3)
    want = outcome(f, xs, p)
    assert in_child(lambda: outcome(f, xs, p) == want and engines.threads_of_process().jobs > 0) == 0
    assert outcome(f, xs, p) == want


@pytest.mark.usefixtures("every_thread_helps")
def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    p, xs = params(h=64), trees(60)
    f = models.tree_rnn.with_options(threads=3)
    want = bits(f.batch(xs, p=p))
    alone = workers.ThreadPool(engines.threads_of_process()._worker)

    def reject(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver, "threads_of_process", lambda: alone)
    monkeypatch.setattr(threading.Thread, "start", reject)
    assert [bits(f.batch(xs, p=p)) for _ in range(3)] == [want] * 3


# ---- 5: processes


def in_child(work: Callable[[], bool], timeout: float = 60) -> int:
    """Fork, and return 0 if `work` gives True in the child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


@needs_fork
@forking
def test_forks_of_several_threads_wait_for_another() -> None:
    """For what must not be cut in two; then all go on, and so does whoever comes next."""
    inside, leave = threading.Event(), threading.Event()
    codes: list[int] = []
    stay = threading.Barrier(4, timeout=60)  # forking threads live on: a lock that one has left behind stays locked

    def work() -> None:
        with undivided:
            inside.set()
            leave.wait(60)

    def fork() -> None:
        codes.append(in_child(lambda: True))
        stay.wait()

    def pass_through() -> None:
        with undivided:
            pass

    threads = [threading.Thread(target=f) for f in (work, fork, fork, fork)]
    threads[0].start()
    assert inside.wait(60)
    for t in threads[1:]:
        t.start()
    time.sleep(0.2)
    assert not codes
    leave.set()
    later = threading.Thread(target=pass_through, daemon=True)
    while len(codes) < 3:
        time.sleep(0.01)
    later.start()
    later.join(60)
    assert not later.is_alive()
    stay.wait()
    for t in threads:
        t.join()
    assert codes == [0, 0, 0]


@needs_fork
@forking
def test_a_fork_while_another_thread_runs() -> None:
    p, xs = params(), trees(12)
    want = bits(models.tree_rnn.batch(xs, p=p))
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            models.tree_rnn.batch(xs * 20, p=p)

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(8):
            assert in_child(lambda: bits(models.tree_rnn.batch(xs, p=p)) == want) == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


@needs_fork
@forking
@pytest.mark.parametrize("delay", [0.05, 0.4, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_fork_while_another_thread_compiles(own_cache: Path, delay: float) -> None:
    chains = [models.chain(2), models.chain(4)]
    f = models.by_recursion.with_options(max_steps=next(_fresh))
    thread = threading.Thread(target=f.batch, args=(chains,))
    thread.start()
    time.sleep(delay)
    try:
        assert in_child(lambda: f.batch(chains) == [2.0, 4.0]) == 0
    finally:
        thread.join()
    assert f.batch(chains) == [2.0, 4.0]


@pytest.mark.long
@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
@pytest.mark.parametrize("delay", [pytest.param(0.3, marks=pytest.mark.slow), 0.9])
def test_ctrl_c_while_compiling_leaves_nothing_half_done(own_cache: Path, delay: float) -> None:
    chains = [models.chain(2), models.chain(4)]
    f = models.by_recursion.with_options(max_steps=next(_fresh))

    def interrupt() -> None:
        time.sleep(delay)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()

    def work() -> None:
        f.batch(chains)
        while True:  # it was compiled before the signal
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        work()
    thread.join()
    assert f.batch(chains) == [2.0, 4.0]
    assert all((folder / cache.MANIFEST).exists() for folder in folders_of(own_cache))


METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", METHODS)
@forking
def test_models_packs_and_results_go_to_other_processes(method: str) -> None:
    p, xs = params(), trees(12)
    whole = models.tree_rnn.batch(xs, p=p)
    packed = pack(xs)
    one = models.tree_rnn.with_options(threads=1)
    jobs = [(models.tree_rnn, packed[:7], p), (one, packed[7:], p), (one, xs, p)]
    with multiprocessing.get_context(method).Pool(2) as workers:
        first, second, third = workers.starmap(models.run_batch, jobs)
    assert isinstance(first, Results)
    assert bits(first) + bits(second) == bits(third) == bits(whole)
    assert bits(pickle.loads(pickle.dumps(whole))) == bits(whole)


def test_errors_go_to_other_processes() -> None:
    with pytest.raises(InstanceErrors) as caught:
        models.tree_rnn.batch([*trees(2), models.Tree(word=77)], p=params())
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and list(copy.errors) == [2]
    assert type(copy.errors[2]) is IndexError and copy.errors[2].line == caught.value.errors[2].line
    assert bits(copy.results[0]) == bits(caught.value.results[0]) and copy.results[2] is None


def test_a_process_ends_quietly_while_threads_run() -> None:
    code = (
        "import threading, time\nfrom tests.support import robust_models as m\n"
        "f, p, xs = m.tree_rnn, m.params(h=64), m.trees(300)\n"
        "f.batch(xs, p=p)\n"
        "def spin():\n"
        "    while True: f.batch(xs, p=p)\n"
        "for _ in range(2): threading.Thread(target=spin, daemon=True).start()\n"
        "time.sleep(0.2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# ---- 6: determinism


def test_texts_and_bits_are_the_same_in_any_process() -> None:
    code = (
        "import hashlib; from tests.support import robust_models as m;"
        "s = m.tree_rnn.stages(m.trees(12), p=m.params());"
        "print(m.run_digest(), hashlib.sha256(repr(dict(s)).encode()).hexdigest(),"
        "m.digest(m.tree_rnn.trace(m.trees(12), p=m.params()).data.order))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code], env=environment(PYTHONHASHSEED=seed), stdout=subprocess.PIPE)
        for seed in ("0", "1")
    ]
    seen = [child.communicate(timeout=120)[0].split() for child in children]
    assert seen[0] == seen[1] and len(seen[0]) == 3
    assert seen[0][0].decode() == models.run_digest()


# ---- results and memory


def test_results_stay_as_they_are() -> None:
    p = params()
    kept = [(models.tree_rnn.batch(trees(8, seed), p=p), seed) for seed in range(20)]
    early = [bits(results) for results, _ in kept[:10]]
    for _ in range(30):
        models.tree_rnn.batch(trees(50, 99), p=p)
    for k, (results, seed) in enumerate(kept):
        assert bits(results) == bits(models.tree_rnn.batch(trees(8, seed), p=p))
        assert k >= 10 or bits(results) == early[k]
    one = kept[0][0][0][0]
    want = bits(one)
    del kept, results
    gc.collect()
    for _ in range(10):
        models.tree_rnn.batch(trees(50, 99), p=p)
    assert bits(one) == want, "an array is valid longer than the results that it came from"
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1
    with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
        one.flags.writeable = True


@pytest.fixture
def garbage_as_by_default() -> Iterator[None]:
    """Collect garbage as often as Python does: `conftest.py` has it done less often."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.long
@pytest.mark.usefixtures("garbage_as_by_default")
def test_memory_does_not_grow_with_the_number_of_batches() -> None:
    p, xs = params(), trees(60)
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("no /proc")

    def resident() -> int:
        gc.collect()
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(30):
        models.tree_rnn.batch(xs, p=p)[0]
    before = resident()
    for _ in range(300):
        models.tree_rnn.batch(xs, p=p)[0]
    assert resident() - before < 8 << 20


@pytest.mark.usefixtures("library_in_memory")
def test_the_cache_can_go_while_the_model_runs(own_cache: Path) -> None:
    f = models.by_loop.with_options(max_steps=next(_fresh))
    assert f.batch([models.chain(3)]) == [3.0]
    shutil.rmtree(own_cache)
    assert f.batch([models.chain(4)]) == [4.0]
    assert compiled_anew() == [3.0, 5.0]
