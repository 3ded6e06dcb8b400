"""Trees to machine code, cached on disk.

In: modules of `tree`. Out: for each a `Compiled` with the address of every entry point. `llvm` writes their text,
`passes` makes object files of it and loads them.

The folder of a module's key (see `cache`) has two files: the machine code, as an object file of the system's linker,
and its description: entry points, and the notes of its tree. The key covers the LLVM text of the tree, the versions of
all tools involved, and the CPU, but no names: a module of another name, or with other names of locals, has the same
code. A `Deferred` has a key that stands for the text: neither tree nor text is made if the code is cached.

Each module has its own engine of LLVM, and lives as long as a `Compiled` of it. The code of unused modules is freed by
the next `load`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import platform
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from acronumba import config
from acronumba.emit import cache, interpreted, llvm, passes, target, tree
from acronumba.emit.interpret import Function
from acronumba.emit.interpreted import InterpretedCode
from acronumba.emit.llvm_text import symbol
from acronumba.emit.version import source_version
from acronumba.locks import ForkLock, undivided
from acronumba.records import record

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine

VERSION = 6  # part of every key: increase it when the files of a module's folder change

Progress: TypeAlias = Callable[[str, int, int], None]  # (name of the module, its number from 0, how many)
Signatures: TypeAlias = Mapping[str, tuple[int, str]]  # entry point -> number of its parameters, type of its result

_RESULTS = {"v0": None, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f64": ctypes.c_double, "f32": ctypes.c_float}

_CODE, _ABOUT = "code.o", "about.json"

_lock = ForkLock()
_loaded: weakref.WeakValueDictionary[str, _Code] = weakref.WeakValueDictionary()  # by key
_interpreted_codes: dict[str, InterpretedCode] = {}  # by key: those that models share
_unused: deque[ExecutionEngine] = deque()  # engines of code that nobody can call any more; `load` closes them


@record(kw_only=True)
class Deferred:
    """A module whose tree is made only if its machine code is not cached.

    `key` is a text of everything that the tree depends on; acronumba's source is added to it.
    """

    name: str
    key: str
    make: Callable[[], tree.Module]


class _Code:
    """Machine code in memory, as long as this object lives."""

    def __init__(
        self, address: Mapping[str, int], signatures: Signatures, notes: Sequence[tree.Note], engine: ExecutionEngine
    ) -> None:
        self.address = address
        self.signatures = signatures
        self.notes = notes
        # Closing takes a lock of LLVM, and a collection may come at any moment. By a weak reference, not by `__del__`:
        # while that runs, another thread may still find the object in `_loaded`, and keep it.
        weakref.finalize(self, _unused.append, engine).atexit = False

    def function(self, name: str) -> Function:
        """Return the ctypes function of an entry point."""
        params, result = self.signatures[name]
        call = ctypes.CFUNCTYPE(_RESULTS[result], *[ctypes.c_int64] * params)(self.address[name])
        call.code = self  # type: ignore[attr-defined]  # who holds the function can call it
        return call


class Pending:
    """A module on its way to machine code. Its tree and its LLVM text are made when first needed.

    Attributes
    ----------
    name : str
        The module's name.
    notes : sequence
        Its notes, as `tree.Module` has them or as JSON keeps them; the tree is made only if its code is not known.
    """

    def __init__(self, item: tree.Module | Deferred) -> None:
        self.item = item
        self.name = item.name
        self.files: Mapping[str, bytes] | None = None  # of its folder

    @functools.cached_property
    def notes(self) -> Sequence[tree.Note]:
        with _lock:
            known = _loaded.get(self.key)
        if known is not None:
            return known.notes
        self.files = cache.read(self.key)
        return self.module.notes if self.files is None else json.loads(self.files[_ABOUT])["notes"]

    @functools.cached_property
    def module(self) -> tree.Module:
        return self.item.make() if isinstance(self.item, Deferred) else self.item

    @functools.cached_property
    def text(self) -> str:
        return llvm.module_text(self.module)

    @functools.cached_property
    def key(self) -> str:
        digest = hashlib.sha256(environment().encode())
        if isinstance(self.item, Deferred):
            parts = [source_version(), self.item.key]
        else:
            parts = [self.text, repr(self.item.exports)]
        for part in (type(self.item).__name__, *parts):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()[:40]

    @property
    def signatures(self) -> Signatures:
        functions = {f.name: f for f in self.module.functions}
        return {name: (len(functions[name].params), str(functions[name].result)) for name in self.module.exports}


class Compiled:
    """The code of one module.

    Attributes
    ----------
    name : str
        The module's name.
    address : dict of str to int
        Address of each entry point: a C function of int64 parameters.
    cached : bool
        Whether the code came from memory or disk, without a compiler.

    Addresses hold as long as this object lives.
    """

    def __init__(self, name: str, code: _Code | InterpretedCode, cached: bool) -> None:
        self.name = name
        self.address = dict(code.address)
        self.cached = cached
        self._code = code
        self._calls: dict[str, Function] = {}
        self._replaced: list[object] = []  # owners of addresses

    def function(self, name: str) -> Function:
        """Return the function of an entry point."""
        if name not in self._calls:
            self._calls[name] = self._code.function(name)
        return self._calls[name]

    def replace(self, name: str, function: Callable[..., object], count: int) -> None:
        """Let a function of Python, of `count` integers, stand in for an entry point that others call by address."""
        self.address[name], owner = callback(function, count)
        self._replaced.append(owner)

    def call(self, name: str, *args: int) -> Any:
        """Call an entry point with integers; other Python threads run meanwhile."""
        return self.function(name)(*args)


@functools.cache
def environment() -> str:
    """Everything beside the tree that compiled code depends on."""
    from llvmlite import __version__, binding

    parts = (
        VERSION, llvm.VERSION, passes.PASSES, passes.LEVEL, passes.LARGE, passes.OPTIONS, __version__,
        binding.llvm_version_info, sys.platform, platform.machine(), target.processor(),
    )  # fmt: skip
    return repr(parts)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until the end: raised while llvmlite holds its lock, or is called back, it would be lost."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *signal_: caught.append(signal_))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if caught:
        handler(*caught[0])


def _loaded_code(files: Mapping[str, bytes]) -> _Code:
    """Load machine code and ask it for the addresses of its entry points."""
    about = json.loads(files[_ABOUT])
    signatures = {name: (count, result) for name, (count, result) in about["entries"].items()}
    engine = passes.loaded(files[_CODE])
    address = {name: engine.get_function_address(symbol(k)) for k, name in enumerate(signatures)}
    return _Code(address, signatures, about["notes"], engine)


def _load(pending: Pending) -> Compiled:
    known = _loaded.get(pending.key)
    if known is not None:
        return Compiled(pending.name, known, cached=True)
    files = pending.files or cache.read(pending.key)
    cached = files is not None
    if files is None:
        with cache.turn(pending.key) as waited:
            files = cache.read(pending.key) if waited else None
            cached = files is not None
            if files is None:
                files = _build(pending)
    code = _loaded[pending.key] = _loaded_code(files)
    return Compiled(pending.name, code, cached)


def _build(pending: Pending) -> dict[str, bytes]:
    """Compile a module; return the files of its folder."""
    with _undisturbed():
        code = passes.object_file(pending.text)
    about = {"entries": pending.signatures, "notes": pending.module.notes}
    files = {_CODE: code, _ABOUT: json.dumps(about, indent=1).encode()}
    try:
        cache.build(pending.key, files)
    except OSError as error:
        cache.give_up(str(error))
        with contextlib.suppress(OSError):  # the code is in memory
            cache.build(pending.key, files)
    return files


def callback(function: Callable[..., object], count: int) -> tuple[int, object]:
    """Return the address at which code calls a function of Python with `count` integers, and the address's owner."""
    if config.interpreted():
        return interpreted.add_function(function)
    made = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(function)
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made


def call(address: int, *args: int) -> None:
    """Call the function at an address with integers."""
    if config.interpreted():
        interpreted.call(address, *args)
    else:
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(args))(address)(*args)


def _interpreted(module: tree.Module | Deferred | Pending) -> Compiled:
    item = module.item if isinstance(module, Pending) else module
    if isinstance(item, tree.Module):
        return Compiled(item.name, InterpretedCode(item), cached=False)
    cached = item.key in _interpreted_codes
    if not cached:
        _interpreted_codes[item.key] = InterpretedCode(item.make())
    return Compiled(item.name, _interpreted_codes[item.key], cached)


def load(modules: Sequence[tree.Module | Deferred | Pending], progress: Progress | None = None) -> list[Compiled]:
    """Compile modules, or load their code from memory or disk; with ACRONUMBA_ENGINE=interpreted, interpret them.

    Parameters
    ----------
    modules : sequence of tree.Module, Deferred or Pending
        Modules do not see each other; they call each other by address.
    progress : callable, optional
        Called before each module with its name, its number and the number of modules.

    Returns
    -------
    list of Compiled
        In the order of `modules`. Code stays in memory as long as they do.

    Raises
    ------
    llvm.Malformed
        If a tree has no meaning.
    """
    if config.interpreted():
        return [_interpreted(module) for module in modules]
    out = []
    with undivided, _lock:
        while _unused:
            _unused.popleft().close()
        for k, module in enumerate(modules):
            if progress is not None:
                progress(module.name, k, len(modules))
            out.append(_load(module if isinstance(module, Pending) else Pending(module)))
    return out


def forget() -> None:
    """Make the next `load` read the disk again. Loaded code goes on working."""
    with _lock:
        _loaded.clear()
