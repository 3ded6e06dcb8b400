"""Trees to machine code, by Numba, kept on disk.

Comes in: modules of `tree`. Goes out: for each a `Compiled` with the address of every entry point. Numba compiles
one function per module, whose only statement calls one intrinsic: that writes all functions of the tree into the
LLVM module and stores the addresses of the entry points into a table. So Numba's own front end sees one line, and a
second process reads one file per module.

Each module becomes a generated Python file in the folder of its key (see `cache`), which holds the readable text
and the `@cfunc(cache=True)`; Numba puts its index (.nbi) and its code (.nbc) beside it. The key covers the LLVM
text of the tree, the versions of everything that has a part in it, and the processor. The LLVM text is written
first in any case: it is the content.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import platform
import signal
import sys
import threading
import types as python_types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from acronumba.emit import cache, llvm, text, tree
from acronumba.locks import ForkLock, undivided

VERSION = 1  # part of every key: count up when the generated file changes

Progress: TypeAlias = Callable[[str, int, int], None]  # (name of the module, its number from 0, how many)
Signatures: TypeAlias = Mapping[str, tuple[int, str]]  # entry point -> number of its parameters, type of its result

_RESULTS = {"v0": None, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f64": ctypes.c_double, "f32": ctypes.c_float}

_lock = ForkLock()
_loaded: dict[str, _Code] = {}  # by key
_current: list[_Pending] = []  # what the intrinsic lowers now


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A module that need not be made if its code is known.

    `key` names everything that the tree depends on, beside acronumba's own source, which is added to it.
    """

    name: str
    key: str
    make: Callable[[], tree.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """Machine code in memory."""

    address: Mapping[str, int]
    signatures: Signatures
    keep: object  # Numba's callback: the code lives as long as it


class _Pending:
    """A module on its way: the tree and its LLVM text are made when first needed."""

    def __init__(self, item: tree.Module | Deferred) -> None:
        self.item = item
        self.name = item.name

    @functools.cached_property
    def module(self) -> tree.Module:
        return self.item.make() if isinstance(self.item, Deferred) else self.item

    @functools.cached_property
    def texts(self) -> tuple[dict[str, str], dict[str, str]]:
        return llvm.function_texts(self.module)

    @functools.cached_property
    def key(self) -> str:
        digest = hashlib.sha256(_environment().encode())
        if isinstance(self.item, Deferred):
            parts = [source_version(), self.item.key]
        else:
            functions, outside = self.texts
            parts = [*functions.values(), *outside.values()]
        for part in (type(self.item).__name__, self.name, *parts):
            digest.update(part.encode() + b"\0")
        if not isinstance(self.item, Deferred):
            digest.update(repr(self.item.exports).encode())
        return digest.hexdigest()[:40]

    @property
    def signatures(self) -> Signatures:
        functions = {f.name: f for f in self.module.functions}
        return {name: (len(functions[name].params), str(functions[name].result)) for name in self.module.exports}


class Compiled:
    """The machine code of one module.

    Attributes
    ----------
    name : str
        The module's name.
    address : dict of str to int
        Address of each entry point: a C function of int64 parameters.
    cached : bool
        Whether the code came from memory or disk, without a compiler.
    """

    def __init__(self, name: str, code: _Code, cached: bool) -> None:
        self.name = name
        self.address = dict(code.address)
        self.cached = cached
        self._code = code
        self._calls: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """Return the ctypes function of an entry point."""
        call = self._calls.get(name)
        if call is None:
            params, result = self._code.signatures[name]
            call = ctypes.CFUNCTYPE(_RESULTS[result], *[ctypes.c_int64] * params)(self.address[name])
            self._calls[name] = call
        return call

    def call(self, name: str, *args: int) -> Any:
        """Call an entry point with integers; other Python threads run meanwhile."""
        return self.function(name)(*args)


@functools.cache
def source_version() -> str:
    """Return a digest of acronumba's own source: what generators make may change with any of it."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def _environment() -> str:
    """Everything beside the tree that compiled code depends on."""
    import llvmlite
    import numba
    from llvmlite import binding
    from numba.core import config
    from numba.core.registry import cpu_target

    options = {name: getattr(config, name, None) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX",
                                                              "DEBUGINFO_DEFAULT", "BOUNDSCHECK")}  # fmt: skip
    parts = (
        VERSION, llvm.VERSION, numba.__version__, llvmlite.__version__, binding.llvm_version_info, sys.version,
        sys.platform, platform.machine(), cpu_target.target_context.codegen().magic_tuple(), options,
    )  # fmt: skip
    return repr(parts)


@functools.cache
def entry_points() -> Any:
    """Return the intrinsic that writes the current tree into LLVM and stores the addresses of its entry points."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def acronumba_entry_points(typing_context: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            module = _current[-1].module
            functions = llvm.insert(builder.module, module, *_current[-1].texts)
            word = ir.IntType(64)
            table = builder.inttoptr(args[0], word.as_pointer())
            for k, name in enumerate(module.exports):
                builder.store(builder.ptrtoint(functions[name], word), builder.gep(table, [ir.Constant(word, k)]))
            return context.get_dummy_value()

        return types.void(types.int64), codegen

    return acronumba_entry_points


def _source(pending: _Pending) -> str:
    """Return the generated Python file."""
    import numba

    module = pending.module
    shown = text.module_text(module).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'''"""Module {module.name!r}, generated by acronumba for numba {numba.__version__}. Do not edit.

Key: {pending.key}

`TEXT` is what the code does; `addresses` stores where the entry points are, in the order of `EXPORTS`.
"""

from numba import cfunc, types

from acronumba.emit.compile import entry_points

fill = entry_points()


@cfunc(types.void(types.int64), cache=True)
def addresses(out):
    fill(out)


EXPORTS = {dict(pending.signatures)!r}  # parameters (all i64) and result

TEXT = """\\
{shown}"""
'''


@contextlib.contextmanager
def _cache_beside_the_file() -> Iterator[None]:
    """Let Numba keep its files in the generated file's folder and nowhere else, whatever its settings."""
    from numba.core import config

    saved = {name: getattr(config, name) for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES") if hasattr(config, name)}
    try:
        for name in saved:
            setattr(config, name, "InTreeCacheLocator" if name == "CACHE_LOCATOR_CLASSES" else "")
        yield
    finally:
        for name, value in saved.items():
            setattr(config, name, value)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until the end: raised in a callback of LLVM it would be lost, and the code with it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *signal_: caught.append(signal_))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if caught:
        handler(*caught[0])


def _execute(folder: Path, key: str, source: bytes) -> Any:
    """Run a generated file, in which Numba loads or compiles; return it as a module."""
    name = f"acronumba_{key}"
    module = python_types.ModuleType(name)
    module.__file__ = str(folder / f"{name}.py")
    sys.modules[name] = module  # Numba looks the module up by name when it rebuilds a function
    try:
        with _undisturbed(), _cache_beside_the_file():
            exec(compile(source, module.__file__, "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _code(callback: Any, signatures: Signatures) -> _Code:
    """Ask compiled code for the addresses of its entry points."""
    table = (ctypes.c_int64 * max(1, len(signatures)))()
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(callback.address)(ctypes.addressof(table))
    return _Code(address=dict(zip(signatures, table, strict=False)), signatures=signatures, keep=callback)


def _load(item: tree.Module | Deferred) -> Compiled:
    pending = _Pending(item)
    known = _loaded.get(pending.key)
    if known is not None:
        return Compiled(item.name, known, cached=True)
    _current.append(pending)
    try:
        code = _from_disk(pending.key)
        cached = code is not None
        if code is None:
            with cache.turn(pending.key) as waited:
                code = _from_disk(pending.key) if waited else None
                cached = code is not None
                if code is None:
                    code = _build(pending)
    finally:
        _current.pop()
    _loaded[pending.key] = code
    return Compiled(item.name, code, cached)


def _from_disk(key: str) -> _Code | None:
    """Return the code of a key if its folder is intact and Numba finds its code there."""
    folder = cache.find(key)
    if folder is None:
        return None
    try:
        module = _execute(folder, key, (folder / f"acronumba_{key}.py").read_bytes())
        if module.addresses.cache_hits == 0:  # compiled anew: the folder is no longer what its manifest says
            cache.discard(key)
        return _code(module.addresses, module.EXPORTS)
    except Exception:  # whatever Numba makes of a folder that is intact but not to its liking: build again
        cache.discard(key)
        return None


def _build(pending: _Pending) -> _Code:
    key = pending.key
    source = _source(pending).encode()
    made: list[Any] = []

    def make(folder: Path) -> None:
        cache.write(folder / f"acronumba_{key}.py", source)
        made.append(_execute(folder, key, source))

    try:
        cache.build(key, make)
    except OSError as error:
        if not made:
            cache.give_up(str(error))
            cache.build(key, make)
    return _code(made[0].addresses, made[0].EXPORTS)


def load(modules: Sequence[tree.Module | Deferred], progress: Progress | None = None) -> list[Compiled]:
    """Compile modules, or load their code from memory or disk.

    Parameters
    ----------
    modules : sequence of tree.Module or Deferred
        Modules do not see each other; they call each other by address.
    progress : callable, optional
        Called before each module with its name, its number and how many there are.

    Returns
    -------
    list of Compiled
        In the order of `modules`. Code stays in memory until the process ends.

    Raises
    ------
    llvm.Malformed
        If a tree has no meaning.
    """
    out = []
    with undivided, _lock:
        for k, module in enumerate(modules):
            if progress is not None:
                progress(module.name, k, len(modules))
            out.append(_load(module))
    return out


def forget() -> None:
    """Let the next `load` read the disk again. Code that is loaded goes on working."""
    with _lock:
        _loaded.clear()
