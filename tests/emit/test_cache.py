"""Compiled code on disk: private, complete or absent, checked before use, rebuilt when damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acronumba import AcronumbaError
from acronumba.emit import cache, compile, parse, version
from acronumba.emit.tree import Module


def module(factor: int = 3, name: str = "times") -> Module:
    return Module(name, parse.parse(f"def times(x) -> i64:\n    return x * {factor}"), ("times",), "from a test")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own cache directory; what was loaded before the test is forgotten, and what the test loads after it."""
    path = tmp_path / "cache"
    monkeypatch.setenv(cache.ENVIRONMENT, str(path))
    compile.forget()
    yield path
    compile.forget()


def use(m: Module | compile.Deferred | None = None) -> tuple[int, bool]:
    """Load as a new process would, call, and return the result and whether the code came from disk."""
    compile.forget()
    (compiled,) = compile.load([m if m is not None else module()])
    return compiled.call("times", 7), compiled.cached


def kept(place: Path) -> list[Path]:
    """Return what is in a cache beside its ledger."""
    return [path for path in place.iterdir() if path.name != cache.LEDGER]


def files(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def test_second_load_reads_the_disk_and_writes_nothing(place: Path) -> None:
    assert use() == (21, False)
    before = files(place)
    assert use() == (21, True)
    assert files(place) == before
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    (folder,) = kept(place)
    names = {p.name for p in folder.iterdir()}
    assert names == {"code.o", "about.json", cache.MANIFEST}
    assert {cache.MANIFEST, *json.loads((folder / cache.MANIFEST).read_text())["files"]} == names


def test_loaded_code_is_found_in_memory(place: Path) -> None:
    (first,) = compile.load([module()])
    (second,) = compile.load([module()])
    assert (first.cached, second.cached) == (False, True)
    assert first.address == second.address


def test_other_content_is_another_key_and_another_name_is_not(place: Path) -> None:
    assert use(module(3)) == (21, False)
    assert use(module(5)) == (35, False)
    assert use(module(3, "other")) == (21, True)
    assert use(module(5)) == (35, True)
    assert len(cache.entries()) == 2


def test_deferred_module_is_made_only_when_needed(place: Path) -> None:
    made: list[int] = []

    def deferred(key: str, factor: int) -> compile.Deferred:
        def make() -> Module:
            made.append(factor)
            return module(factor)

        return compile.Deferred(name="times", key=key, make=make)

    assert use(deferred("a", 3)) == (21, False)
    assert use(deferred("a", 4)) == (21, True)  # the key stands for the content
    assert use(deferred("b", 5)) == (35, False)
    assert made == [3, 5]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(200))


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def one_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link(path: Path) -> None:
    twin = path.with_name("twin")
    shutil.copy(path, twin)
    path.unlink()
    path.symlink_to(twin)


@pytest.mark.parametrize("name", [cache.MANIFEST, "about.json", "code.o"])
@pytest.mark.parametrize("damage", [empty, garbage, truncated, one_byte, gone, a_folder, a_link])
def test_damage_is_built_again(place: Path, name: str, damage: Callable[[Path], None]) -> None:
    use()
    (victim,) = place.rglob(name)
    damage(victim)
    assert use() == (21, False)
    assert use() == (21, True)
    assert len(kept(place)) == 1


@pytest.mark.parametrize("absolute", [False, True])
def test_files_outside_of_the_folder_are_not_read(place: Path, absolute: bool) -> None:
    use()
    name = str(place / "outside") if absolute else "../outside"
    (manifest,) = place.rglob(cache.MANIFEST)
    about = json.loads(manifest.read_text())
    about["files"][name] = hashlib.sha256(b"").hexdigest()
    (place / "outside").write_bytes(b"")
    manifest.write_text(json.dumps(about))
    assert use() == (21, False)


def test_folder_of_another_key_is_not_taken(place: Path) -> None:
    use(module(3))
    (folder,) = kept(place)
    use(module(5))
    (other,) = set(kept(place)) - {folder}
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    assert use(module(3)) == (21, False)


def test_stray_file_in_the_place_of_a_folder(place: Path) -> None:
    use()
    (folder,) = kept(place)
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert use() == (21, False)
    assert use() == (21, True)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("mode", [0o777, 0o755, 0o770, 0o701])
def test_directory_open_to_others_is_rejected(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    with pytest.warns(cache.CacheWarning, match="open to other users"):
        assert use() == (21, False)
    assert use() == (21, True)  # kept for this process, without a second warning
    assert not list(place.iterdir())
    assert stat.S_IMODE(cache.directory().stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_directory_of_another_user_is_rejected(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, 12345, -1)
    with pytest.warns(cache.CacheWarning, match="another user"):
        assert use() == (21, False)
    assert not list(place.iterdir())


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_file_of_another_user_is_built_again(place: Path) -> None:
    use()
    (code,) = place.rglob("*.o")
    os.chown(code, 12345, -1)
    assert use() == (21, False)


def test_directory_that_cannot_be_made(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text("a file")
    with pytest.warns(cache.CacheWarning, match="not a directory"):
        assert use() == (21, False)
    monkeypatch.setenv(cache.ENVIRONMENT, str(place / "below"))
    with pytest.warns(cache.CacheWarning, match="for this process only"):
        assert use(module(5)) == (35, False)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a directory nobody can write to")
def test_directory_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, "/proc/self/acronumba")
    with pytest.warns(cache.CacheWarning, match="for this process only"):
        assert use() == (21, False)
    assert use() == (21, True)


def test_code_that_can_be_kept_nowhere_is_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(key: str, files: dict[str, bytes]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "build", full)
    with pytest.warns(cache.CacheWarning, match="No space left"):
        assert use() == (21, False)


def test_a_change_of_the_source_is_not_taken_for_what_was_imported(tmp_path: Path) -> None:
    package = Path(compile.__file__).parent.parent
    shutil.copytree(package, tmp_path / "acronumba", ignore=shutil.ignore_patterns("__pycache__"))
    program = """
        import pathlib, sys
        from acronumba.runtime import driver
        from acronumba.emit import compile
        file = pathlib.Path(compile.__file__)
        assert str(file).startswith(sys.argv[1])
        if sys.argv[2] == "change":
            file.write_text(file.read_text() + "# changed")
        print(compile.source_version())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = [
        subprocess.run([*command, what], capture_output=True, text=True, check=True, env=env, cwd=tmp_path).stdout
        for what in ("leave", "change", "leave")
    ]
    assert said[0] == said[1] != said[2]


def test_what_no_code_is_generated_from_leaves_the_code_as_it_is() -> None:
    package = Path(compile.__file__).parent.parent
    rooms = {path.relative_to(package).parts[0] for path in version.sources(package)}
    assert rooms >= {"analysis", "data", "emit", "frontend", "host", "ir", "kernels", "runtime", "config.py"}
    assert not rooms & version.ASIDE and all((package / name).exists() for name in version.ASIDE)


def test_clear_removes_what_is_ours_and_nothing_else(place: Path) -> None:
    use(module(3))
    use(module(5))
    (place / "notes").mkdir()
    (place / "notes" / "mine.txt").write_text("keep")
    (compiled,) = compile.load([module(3)])
    assert cache.clear() == 2
    assert [p.name for p in place.iterdir()] == ["notes"]
    assert compiled.call("times", 2) == 6
    assert use(module(3)) == (21, False)


def test_what_a_dead_process_left_is_swept(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir(mode=0o700)
    old, new = place / ".build-old", place / ".build-new"
    for p in (old, new):
        p.mkdir()
    os.utime(old, (1, 1))
    use()
    assert (old.exists(), new.exists()) == (False, True)


@pytest.fixture
def little(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for four modules."""
    monkeypatch.setattr(cache, "MOST", 4)
    return place


def used(folder: Path, seconds: float) -> None:
    """Let a folder have been used so many seconds ago."""
    os.utime(folder, (time.time() - seconds,) * 2)


def test_what_was_used_longest_ago_goes_first(little: Path) -> None:
    for k in range(1, 5):
        use(module(k))
        (new,) = [path for path in kept(little) if time.time() - path.stat().st_mtime < 3600]
        used(new, 40_000 - 5000 * k)
    assert use(module(1)) == (7, True)  # it is the last used one from now on
    assert use(module(5)) == (35, False)
    assert len(kept(little)) == 3
    assert [use(module(k))[1] for k in (1, 4, 5)] == [True] * 3
    assert use(module(2)) == (14, False)


def test_bytes_are_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACRONUMBA_CACHE_LIMIT", "1")
    big = {"code.o": os.urandom(300_000)}
    for k in range(12):
        cache.build(f"key{k}", big)
        assert sum(cache.entries().values()) <= 1 << 20
        assert cache.read(f"key{k}") == big
    monkeypatch.setenv("ACRONUMBA_CACHE_LIMIT", "much")
    with pytest.raises(AcronumbaError, match="ACR705: ACRONUMBA_CACHE_LIMIT must be a number"):
        cache.build("another", big)


def test_what_other_versions_have_not_used_for_a_day_goes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "source_version", lambda: "an old version")
    for k in (1, 2):
        cache.build(f"old{k}", {"code.o": b"x"})
    monkeypatch.undo()
    monkeypatch.setenv(cache.ENVIRONMENT, str(place))
    for k in (1, 2):
        cache.build(f"new{k}", {"code.o": b"x"})
    for key in ("old1", "new1"):
        used(place / key, 90_000)
    (place / cache.LEDGER).write_text(f"4 4 {int(time.time()) - 90_000}\n")  # the last count is a day old
    cache.build("new3", {"code.o": b"x"})
    assert set(cache.entries()) == {"old2", "new1", "new2", "new3"}


def test_a_new_process_does_not_count(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use()
    monkeypatch.setattr(cache, "_make_room", lambda root: pytest.fail("it counts"))
    assert use() == (21, True)
    assert use(module(5)) == (35, False)


@pytest.mark.parametrize("damage", [empty, garbage, gone, a_folder, a_link])
def test_a_damaged_ledger_is_written_anew(place: Path, damage: Callable[[Path], None], tmp_path: Path) -> None:
    use()
    damage(place / cache.LEDGER)
    assert use(module(5)) == (35, False)
    assert use(module(5)) == (35, True)
    assert cache._ledger(place)[0] == 2


def test_what_is_not_ours_is_left_alone(little: Path, tmp_path: Path) -> None:
    use()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / cache.MANIFEST).write_text("{}")
    (little / "a_link").symlink_to(outside)
    (little / "notes").mkdir()
    (little / "notes" / "mine.txt").write_text("keep")
    for path in ("a_link", "notes"):
        os.utime(little / path, (1, 1), follow_symlinks=False)
    for k in range(1, 8):
        assert use(module(k))[0] == 7 * k
    assert (little / "notes" / "mine.txt").exists() and (outside / cache.MANIFEST).exists()
    assert 2 <= len(kept(little)) - 2 <= 4


def test_processes_that_make_room_at_once(place: Path) -> None:
    program = """
        import sys
        from acronumba.emit import cache
        cache.MOST = 6
        for k in range(60):
            cache.build(f"{sys.argv[1]}x{k}", {"code.o": b"x" * 1000})
            files = cache.read(f"{sys.argv[1]}x{k}")
            assert files is None or files == {"code.o": b"x" * 1000}
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    running = [subprocess.Popen([*command, str(k)], stderr=subprocess.PIPE, text=True) for k in range(3)]
    assert [(run.communicate()[1], run.returncode) for run in running] == [("", 0)] * 3
    assert len(kept(place)) <= 8


def test_code_that_nobody_uses_is_freed(place: Path) -> None:
    (one,) = compile.load([module()])
    address, call = one.address["times"], one.function("times")
    del one
    compile.load([module(5)])
    assert call(7) == 21  # who has the function may call it
    (again,) = compile.load([module()])
    assert again.address["times"] == address
    del call, again
    compile.load([module(7)])
    (fresh,) = compile.load([module()])
    assert fresh.cached and fresh.call("times", 7) == 21


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="how much is mapped is read there")
def test_memory_stays_the_same_while_code_comes_and_goes(place: Path) -> None:
    def maps() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    for k in range(4):
        use(module(k))
    before = maps()
    for _ in range(30):
        for k in range(4):
            assert use(module(k)) == (7 * k, True)
    held = [compile.load([module(k, f"held{k}")])[0] for k in range(4)]
    assert maps() <= before + 30
    del held


SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"NUMBA_ENABLE_AVX": "0"},
    {"NUMBA_CPU_NAME": "generic"},
    {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_processor_is_the_one_that_numba_compiles_for(settings: dict[str, str]) -> None:
    program = """
        import sys
        from acronumba.emit import compile, target
        alone, key = target.processor(), compile.environment()
        assert "numba" not in sys.modules
        from numba.core.registry import cpu_target
        assert alone == cpu_target.target_context.codegen().magic_tuple()[1:]
        target.settings.cache_clear(), compile.environment.cache_clear()
        assert (alone, key) == (target.processor(), compile.environment())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, **settings}, check=True)


def test_numba_is_not_imported_where_something_is_compiled(place: Path) -> None:
    program = """
        import sys
        from acronumba.emit import compile, parse
        from acronumba.emit.tree import Module
        (made,) = compile.load([Module("m", parse.parse("def f(x) -> i64:\\n    return x * 6"), ("f",))])
        assert made.call("f", 7) == 42 and not made.cached
        assert "numba" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


CHILD = """
    import sys
    from acronumba.emit import compile, parse
    from acronumba.emit.tree import Module
    modules = [
        Module(f"m{k}", parse.parse(f"def f(x) -> i64:\\n    return x * {k}"), ("f",)) for k in range(3)
    ]
    sys.stdin.readline()
    compiled = compile.load(modules)
    print([c.call("f", 7) for c in compiled], all(c.cached for c in compiled))
"""


def start(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, cache.ENVIRONMENT: str(place), "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_processes_that_build_at_once_and_one_that_comes_later(place: Path) -> None:
    together = [start(place) for _ in range(3)]
    for p in together:
        assert p.stdin is not None
        p.stdin.write("\n")
        p.stdin.flush()
    for p in together:
        out, _ = p.communicate(timeout=120)
        assert p.returncode == 0
        assert out.startswith("[0, 7, 14]")
    assert sorted(len(list(f.rglob("*.o"))) for f in kept(place)) == [1, 1, 1]  # nothing else is left
    out, _ = start(place).communicate("\n", timeout=120)
    assert out == "[0, 7, 14] True\n"


def test_turns_are_one_after_the_other(place: Path) -> None:
    """Who has waited for a turn that has ended does not have it beside one that has begun since."""
    pytest.importorskip("fcntl")
    entered = threading.Event()

    def wait() -> None:
        with cache.turn("a"):
            entered.set()

    waiting = threading.Thread(target=wait)
    for _ in range(2):
        with cache.turn("a"):
            if not waiting.ident:
                waiting.start()
            assert not entered.wait(0.1)
    waiting.join()
    assert entered.is_set() and not [path for path in place.iterdir() if path.name.startswith(".turn-")]


# ---- what lies in the place of files


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket_(path: Path) -> None:
    import socket

    old = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(old)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("x")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to(path.parent / "pipe")


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root makes devices")


ODD = [pipe, socket_, folder, link_to_itself, link_to_a_pipe, device]


@pytest.fixture
def patience() -> Iterator[None]:
    """Who hangs fails."""
    old = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.skipif(os.name != "posix", reason="pipes and sockets among files")
@pytest.mark.parametrize("odd", ODD, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "where", [cache.LEDGER, ".turn-a", "a", f"a/{cache.MANIFEST}", "a/code", ".build-b", ".trash-b"]
)
def test_what_is_no_file_hangs_nobody(
    place: Path, patience: None, where: str, odd: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, at = {"code": b"1", "more": b"2"}, place / where
    cache.build("a", whole)
    assert cache.read("a") == whole
    if at.is_dir():
        shutil.rmtree(at)
    at.unlink(missing_ok=True)
    odd(at)
    os.utime(at, (1, 1), follow_symlinks=False)  # left long ago
    inside = where.startswith("a")
    for _ in range(2):
        with cache.turn("a") as waited:
            assert not waited
        assert cache.read("a") == (None if inside else whole)
        cache.build("a", whole)
        cache.build("b", whole)
        inside = False
    assert cache.read("a") == cache.read("b") == whole and cache.entries().keys() == {"a", "b"}
    monkeypatch.setattr(cache, "MOST", 1)
    cache.build("c", whole)  # there are too many: room is made
    assert len(cache.entries()) <= 1 and not os.path.lexists(place / ".build-b")
    assert cache.clear() <= 1 and not cache.entries()
    assert not list(place.glob(".t*-*"))


@pytest.mark.skipif(os.name != "posix", reason="pipes and sockets among files")
@pytest.mark.parametrize("odd", ODD, ids=lambda f: f.__name__)
def test_a_cache_that_is_no_folder_is_not_used(tmp_path: Path, patience: None, odd: Callable[[Path], None],
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    odd(tmp_path / "odd")
    for path in (tmp_path / "odd", tmp_path / "odd" / "cache"):
        if odd is folder:
            continue
        monkeypatch.setenv(cache.ENVIRONMENT, str(path))
        with pytest.warns(cache.CacheWarning, match="for this process only"):
            assert cache.directory().is_dir()


@pytest.mark.parametrize("given", ["", "~nobody-of-this-name/cache"])
@pytest.mark.parametrize("found", [RuntimeError("no home"), "~/.cache/acronumba"])
def test_no_home_is_known(given: str, found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and a user whom the system does not know: platformdirs raises, older ones return a "~"."""

    def unknown(*_: object, **__: object) -> str:
        if isinstance(found, str):
            return found
        raise found

    monkeypatch.setenv(cache.ENVIRONMENT, given)
    monkeypatch.setattr("platformdirs.user_cache_dir", unknown)
    cache._opened.pop("None", None)
    with pytest.warns(cache.CacheWarning, match="no home directory is known"):
        place = cache.directory()
    assert place.is_dir() and cache.directory() == place
    cache._opened.pop("None")
