"""The directory of compiled code: one folder per module, named by its key, complete or absent.

In: a key and the files of its folder, by name. Out: these files again in a later process, if their bytes are those
written. Whoever can write a file of machine code can run any code; so

- the directory is private: owned by this user, closed to all others (mode 0700), or it is not used;
- every folder has a manifest with the SHA-256 of each file, compared with the bytes that are then used;
- a folder appears by one rename when it is complete, and is never written again: of concurrent builds one wins;
- a folder that does not match (empty, truncated, foreign, of another version) is deleted unread and built again;
- its size is bounded: the least recently used folders are removed first, and folders that other versions of acronumba
  have not used for a day. A ledger has the total size, so that few processes need to count; a process whose folder was
  removed builds it again.

If the directory cannot be used, a temporary one of this process takes its place, with one warning.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from acronumba.config import cache_limit, is_open
from acronumba.emit.version import source_version

ENVIRONMENT = "ACRONUMBA_CACHE_DIR"
MANIFEST = "manifest.json"
LEDGER = ".ledger"  # lines "folders bytes time": of the last count with its time, then of each folder built since
MOST = 20_000  # folders
_BUILD, _TRASH, _TURN = ".build-", ".trash-", ".turn-"
_WAIT_SECONDS = 120.0  # how long a process waits for another one that builds the same folder
_STALE_SECONDS = 24 * 3600.0  # a build folder this old was left by a process that died; each day all is counted
_FRESH_SECONDS = 3600.0  # how exactly it is known when a folder was used


class CacheWarning(UserWarning):
    """Compiled code cannot be stored for later processes."""


_lock = threading.RLock()
_opened: dict[str, Path] = {}  # directory asked for -> directory in use
_temporary: list[tuple[int, Path]] = []  # (process, directory): removed when that process ends
_known: dict[Path, tuple[bytes, tuple[int, int, int]]] = {}  # directory -> its ledger as it was last read, its sums


def wanted() -> Path | None:
    """Return the directory asked for: `ACRONUMBA_CACHE_DIR`, else the user's; None where no home directory is known."""
    given = os.environ.get(ENVIRONMENT)
    try:
        if given:
            return Path(given).expanduser().absolute()
        import platformdirs

        path = Path(platformdirs.user_cache_dir("acronumba", appauthor=False))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older ones leave a "~" that stands for nothing as it is


def _rejection(path: Path | None) -> str | None:
    """Make the directory if need be; return why it cannot be used, or None."""
    if path is None:
        return f"no home directory is known; {ENVIRONMENT} may name a directory"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = os.lstat(path)
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory"
    if os.name == "posix":
        if not _belongs(status):
            return f"{path} belongs to another user"
        if status.st_mode & 0o077:
            return f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o}; it must be 0700)"
    try:
        Path(tempfile.mkdtemp(prefix=_BUILD, dir=path)).rmdir()
    except OSError as error:
        return str(error)
    return None


def directory() -> Path:
    """Return the directory in use, checked once per process; a temporary one if the configured one is not safe.

    Warns
    -----
    CacheWarning
        Once, if code can only be stored for this process.
    """
    asked = wanted()
    with _lock:
        known = _opened.get(str(asked))
        if known is not None and known.is_dir():
            return known
        reason = _rejection(asked)
        if reason is None:
            assert asked is not None
            _opened[str(asked)] = asked
        else:
            give_up(reason)
        return _opened[str(asked)]


@atexit.register
def _remove_temporary() -> None:
    for process, path in _temporary:
        if process == os.getpid():
            shutil.rmtree(path, ignore_errors=True)


def give_up(reason: str) -> None:
    """Keep code in a temporary directory from now on, as this one fails (a full disk)."""
    with _lock:
        used = Path(tempfile.mkdtemp(prefix="acronumba-"))
        _temporary.append((os.getpid(), used))
        _opened[str(wanted())] = used
    try:
        warnings.warn(f"compiled code is kept for this process only: {reason}", CacheWarning, stacklevel=2)
    except ValueError:
        if is_open(sys.stderr):
            raise


# No link is followed, and nobody is waited for: a pipe may lie where a file should be.
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file of ours, None for anything else (a link, a folder, a file of others)."""
    try:
        fd = os.open(path, os.O_RDONLY | _CAREFUL)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not _belongs(status):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(fd)


def _is_other(path: Path) -> bool:
    """Whether the path exists and is not a file, but a folder, a link, a pipe, a socket or a device."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _belongs(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user; on Windows and in a browser all do."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder is ours, and nobody else may write to it."""
    return os.name != "posix" or (_belongs(status) and not status.st_mode & 0o022)


def _intact(folder: Path, key: str) -> dict[str, bytes] | None:
    """Return the files of a folder if they are exactly those built for this key, else None."""
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    if not _is_private(status):
        return None
    try:
        manifest = json.loads(_read(folder / MANIFEST) or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or manifest.get("key") != key:
        return None
    files = manifest.get("files")
    if not isinstance(files, dict) or not files:
        return None
    out = {}
    for name, digest in files.items():
        data = _read(folder / name) if Path(name).name == name else None
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            return None
        out[name] = data
    return out


def read(key: str) -> dict[str, bytes] | None:
    """Return the files of a key, or None; a folder with a missing or changed file is removed.

    Parameters
    ----------
    key : str
        Letters and digits; a digest of everything that the content depends on.
    """
    folder = directory() / key
    if not os.path.lexists(folder):
        return None
    files = _intact(folder, key)
    if files is None:
        discard(key)
    else:
        with contextlib.suppress(OSError):  # it may be gone by now
            if os.lstat(folder).st_mtime < time.time() - _FRESH_SECONDS:
                os.utime(folder)
    return files


@contextlib.contextmanager
def turn(key: str) -> Iterator[bool]:
    """Wait until no other process builds the folder of a key; yield whether one did, which may have completed it.

    This only saves work: `build` is safe without it, so the wait is bounded, and skipped if files cannot be locked.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    path, flags = directory() / f"{_TURN}{key}", os.O_RDWR | os.O_CREAT | _CAREFUL
    try:
        file = os.open(path, flags, 0o600)
    except OSError:
        if _is_other(path):  # who comes next will have more luck
            discard(path.name)
        yield False
        return
    try:
        waited = False
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.lstat(path)):
                    break
            except FileNotFoundError:
                pass
            except BlockingIOError:
                waited = True
                time.sleep(0.02)
                continue
            except OSError:
                break
            try:  # who had its turn has removed it: others wait for another file
                another = os.open(path, flags, 0o600)
            except OSError:
                break
            os.close(file)
            file = another
        yield waited
        with contextlib.suppress(OSError):
            os.unlink(path)
    finally:
        os.close(file)


def build(key: str, files: Mapping[str, bytes]) -> None:
    """Write the files of a key into a private folder, which then appears as a whole.

    If another process was faster, its folder stays and this one is dropped.
    """
    root = directory()
    folder = Path(tempfile.mkdtemp(prefix=_BUILD, dir=root))
    try:
        for name, data in files.items():
            _write(folder / name, data)
        listed = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        about = {"key": key, "version": source_version(), "files": listed}
        _write(folder / MANIFEST, json.dumps(about, indent=1).encode())
        final = root / key
        for _ in range(3):
            try:
                os.rename(folder, final)
                _note(root, sum(map(len, files.values())))
                return
            except OSError:
                if _intact(final, key) or not os.path.lexists(final):
                    return
                discard(key)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    """Write a new file that only this user may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb") as file:
        file.write(data)


def discard(key: str) -> None:
    """Remove the folder of a key, or any other file of that name."""
    root = directory()
    away = root / f"{_TRASH}{os.urandom(8).hex()}"
    try:
        os.rename(root / key, away)
    except OSError:
        return
    _remove(away)


def _remove(path: Path) -> None:
    """Remove a file or folder; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _note(root: Path, size: int) -> None:
    """Add a new folder to the ledger; remove old folders if the total is too large, or was not counted for a day."""
    try:
        with open(os.open(root / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _CAREFUL, 0o600), "ab") as file:
            status = os.fstat(file.fileno())
            if not _is_private(status) or not stat.S_ISREG(status.st_mode):
                raise PermissionError(f"{LEDGER} belongs to others, or is no file")
            file.write(b"1 %d 0\n" % size)
    except OSError:
        discard(LEDGER)
    count, held, counted = _ledger(root)
    if count > MOST or held > cache_limit() or not 0 <= time.time() - counted < _STALE_SECONDS:
        with contextlib.suppress(OSError):
            _make_room(root)


def _ledger(root: Path) -> tuple[int, int, int]:
    """Return the number of folders, their bytes, and the time of the last count; zeros if the ledger is unreadable.

    Only what was added since the last call is read word by word.
    """
    data = _read(root / LEDGER) or b""
    known, sums = _known.get(root, (b"", (0, 0, 0)))
    if not data.startswith(known):
        known, sums = b"", (0, 0, 0)
    try:
        for line in data[len(known) :].splitlines():
            count, size, at = map(int, line.split())
            sums = sums[0] + count, sums[1] + size, max(sums[2], at)
    except ValueError:
        return 0, 0, 0
    if data.endswith(b"\n"):
        _known[root] = data, sums
    return sums


def _make_room(root: Path) -> None:
    """Remove leftovers of dead processes, folders that other versions have not used for a day, and the least recently
    used ones.

    The latter only if the total is too large, and then a quarter more, so that it is not done for each new folder.
    """
    stale = time.time() - _STALE_SECONDS
    folders: list[tuple[float, int, str]] = []  # when it was used, its bytes, its key
    for entry in os.scandir(root):
        try:
            used = entry.stat(follow_symlinks=False).st_mtime
            if entry.name.startswith("."):
                if used < stale and entry.name.startswith((_BUILD, _TRASH, _TURN)):
                    _remove(Path(entry.path))
            elif _is_ours(entry):
                if used < stale and _version(Path(entry.path)) != source_version():
                    discard(entry.name)
                else:
                    folders.append((used, _size(entry.path), entry.name))
        except OSError:  # others are making room too
            continue
    folders.sort(reverse=True)
    held, limit = sum(size for _, size, _ in folders), cache_limit()
    if len(folders) > MOST or held > limit:
        while folders and (len(folders) > MOST * 3 // 4 or held > limit * 3 // 4):
            _, size, key = folders.pop()
            held -= size
            discard(key)
    folder = Path(tempfile.mkdtemp(prefix=_BUILD, dir=root))
    try:
        _write(folder / LEDGER, b"%d %d %d\n" % (len(folders), held, time.time()))
        os.replace(folder / LEDGER, root / LEDGER)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and os.path.lexists(Path(entry.path, MANIFEST))


def _version(folder: Path) -> object:
    """Return the version of acronumba that built a folder."""
    try:
        manifest = json.loads(_read(folder / MANIFEST) or b"")
    except (ValueError, RecursionError):
        return None
    return manifest.get("version") if isinstance(manifest, dict) else None


def _size(folder: str) -> int:
    return sum(file.stat(follow_symlinks=False).st_size for file in os.scandir(folder))


def entries() -> dict[str, int]:
    """Return the bytes held by each key."""
    out: dict[str, int] = {}
    for entry in sorted(os.scandir(directory()), key=lambda entry: entry.name):
        with contextlib.suppress(OSError):
            if not entry.name.startswith(".") and _is_ours(entry):
                out[entry.name] = _size(entry.path)
    return out


def clear() -> int:
    """Remove all compiled code of this user; return the number of modules removed. Loaded code goes on working."""
    keys = entries()
    for key in keys:
        discard(key)
    with contextlib.suppress(OSError):
        os.unlink(directory() / LEDGER)
    return len(keys)
