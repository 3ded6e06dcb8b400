"""Trees to machine code, by Numba, kept on disk.

Comes in: modules of `tree`. Goes out: for each a `Compiled` with the address of every entry point. Numba compiles
one function per module, whose only statement calls one intrinsic: that writes all functions of the tree into the
LLVM module and stores the addresses of the entry points into a table. So Numba's own front end sees one line. What
comes of it is an object file; nothing is loaded into Numba's own engine, which would never let go of it.

The folder of a module's key (see `cache`) has three files: the generated Python file, which Numba has compiled and
people can read; the machine code, as the system's linker knows it; and what its entry points are called. The key covers
the LLVM text of the tree, the versions of everything that has a part in it, and the processor. The LLVM text is written
first in any case: it is the content. Machine code is loaded by llvmlite alone, whether it was compiled just now or a
year ago: a process that finds all its code never imports Numba, which would take longer than everything else.

Each module has an engine of LLVM to itself, and lives as long as a `Compiled` of it. The code of modules that nobody
uses any more is freed by the next `load`.
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
import types as python_types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from acronumba.emit import cache, llvm, target, text, tree
from acronumba.emit.version import source_version
from acronumba.locks import ForkLock, undivided

VERSION = 4  # part of every key: count up when the generated file changes

Progress: TypeAlias = Callable[[str, int, int], None]  # (name of the module, its number from 0, how many)
Signatures: TypeAlias = Mapping[str, tuple[int, str]]  # entry point -> number of its parameters, type of its result

_RESULTS = {"v0": None, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f64": ctypes.c_double, "f32": ctypes.c_float}

_CODE, _ENTRIES = "code.o", "entries.json"  # beside the generated file
_OF_NUMBA = ("numba_", "NRT_", "__svml_")  # how functions are called that only Numba makes known to LLVM

_lock = ForkLock()
_loaded: weakref.WeakValueDictionary[str, _Code] = weakref.WeakValueDictionary()  # by key
_unused: deque[Any] = deque()  # engines of code that nobody can call any more; `load` closes them
_current: list[_Pending] = []  # what the intrinsic lowers now


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A module that need not be made if its code is known.

    `key` names everything that the tree depends on, beside acronumba's own source, which is added to it.
    """

    name: str
    key: str
    make: Callable[[], tree.Module]


class _Code:
    """Machine code in memory, as long as this object lives."""

    def __init__(self, address: Mapping[str, int], signatures: Signatures, engine: Any) -> None:
        self.address = address
        self.signatures = signatures
        # Closing takes a lock of LLVM, and a collection may come at any moment. By a weak reference, not by `__del__`:
        # while that runs, another thread may still find the object in `_loaded`, and keep it.
        weakref.finalize(self, _unused.append, engine).atexit = False


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

    Addresses hold as long as this object lives.
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
            call.code = self._code  # type: ignore[attr-defined]  # who holds the function can call it
            self._calls[name] = call
        return call

    def call(self, name: str, *args: int) -> Any:
        """Call an entry point with integers; other Python threads run meanwhile."""
        return self.function(name)(*args)


@functools.cache
def _environment() -> str:
    """Everything beside the tree that compiled code depends on."""
    from importlib.metadata import version

    from llvmlite import binding

    settings = target.settings()
    options = {name: getattr(settings, name, None) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX",
                                                                "DEBUGINFO_DEFAULT", "BOUNDSCHECK")}  # fmt: skip
    parts = (
        VERSION, llvm.VERSION, version("numba"), version("llvmlite"), binding.llvm_version_info, sys.version,
        sys.platform, platform.machine(), target.processor(), options,
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

from acronumba.emit.compile import entry_points

fill = entry_points()


def addresses(out):  # compiled as void(int64)
    fill(out)


EXPORTS = {dict(pending.signatures)!r}  # parameters (all i64) and result

TEXT = """\\
{shown}"""
'''


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


@functools.cache
def _codegen() -> Any:
    """Return Numba's generator of machine code, but for a few things: it loads none, and frees what it works with.

    Numba's own compiles for this very processor, and loads what it has compiled into an engine that lives as long as
    the process. Passes of llvmlite are never freed: their `_dispose` is hidden by that of another base class. Each
    builder of them leaks 1.5 KB, which cannot be helped: so none is made for functions that are only declared.
    """
    from llvmlite.binding.newpassmanagers import NewPassManager
    from numba.core import codegen

    class Library(codegen.CPUCodeLibrary):  # type: ignore[misc]
        def _optimize_functions(self, module: Any) -> None:
            module.data_layout = self._codegen._data_layout
            for function in module.functions:
                if not function.is_declaration:
                    manager, builder = self._codegen._function_pass_manager()
                    manager.run(function, builder)

        def _finalize_specific(self) -> None:
            pass

    class Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
        _library_class = Library

        def _add_module(self, module: Any) -> None:
            pass

        def _module_pass_manager(self, **options: Any) -> Any:
            return self._noted(super()._module_pass_manager(**options))

        def _function_pass_manager(self, **options: Any) -> Any:
            return self._noted(super()._function_pass_manager(**options))

        def _noted(self, made: Any) -> Any:
            passes.append(made[0])
            return made

        def object_file(self, library: Any) -> bytes:
            """Return the machine code of a library that is complete."""
            library.finalize()
            code: bytes = self._tm.emit_object(library._final_module)
            while passes:
                manager = passes.pop()
                NewPassManager._dispose(manager)
                manager.detach()
            return code

    passes: list[Any] = []
    return Codegen("acronumba")


def _compile(key: str, source: str) -> tuple[dict[str, Any], bytes]:
    """Run a generated file and let Numba compile it; return what loading it takes, and the machine code."""
    from numba import types
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    name = f"acronumba_{key}"  # unlike that of any other module: so are the names of what is in it
    module = python_types.ModuleType(name)
    sys.modules[name] = module  # Numba looks the module up by name
    flags = Flags()
    cpu_target.options.parse_as_flags(flags, {})
    flags.no_cpython_wrapper = flags.no_compile = True  # a function of C, in a library that is not complete yet
    try:
        with _undisturbed(), global_compiler_lock:
            exec(compile(source, f"{name}.py", "exec"), module.__dict__)
            context = cpu_target.target_context.subtarget(_internal_codegen=_codegen())
            made = compile_extra(
                cpu_target.typing_context, context, module.addresses, (types.int64,), types.void, flags, {}
            )
            code = _codegen().object_file(made.library)
    finally:
        del sys.modules[name]
    calls = any(f.is_declaration and f.name.startswith(_OF_NUMBA) for f in made.library._final_module.functions)
    return {"function": made.fndesc.llvm_cfunc_wrapper_name, "numba": calls}, code


def _engine(code: bytes) -> Any:
    """Load machine code into this process; return the engine that holds it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    empty = binding.parse_assembly("")
    engine = binding.create_mcjit_compiler(empty, machine)
    engine.remove_module(empty)  # compiling it takes longer than loading the code
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _loaded_code(files: Mapping[str, bytes]) -> _Code:
    """Load machine code and ask it for the addresses of its entry points."""
    about = json.loads(files[_ENTRIES])
    if about["numba"]:  # compiled without optimisation, it has the ways to errors that cannot be
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()
    signatures = {name: (count, result) for name, (count, result) in about["exports"].items()}
    engine = _engine(files[_CODE])
    table = (ctypes.c_int64 * max(1, len(signatures)))()
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address(about["function"]))(ctypes.addressof(table))
    return _Code(dict(zip(signatures, table, strict=False)), signatures, engine)


def _load(item: tree.Module | Deferred) -> Compiled:
    pending = _Pending(item)
    known = _loaded.get(pending.key)
    if known is not None:
        return Compiled(item.name, known, cached=True)
    _current.append(pending)
    try:
        files = cache.read(pending.key)
        cached = files is not None
        if files is None:
            with cache.turn(pending.key) as waited:
                files = cache.read(pending.key) if waited else None
                cached = files is not None
                if files is None:
                    files = _build(pending)
    finally:
        _current.pop()
    code = _loaded[pending.key] = _loaded_code(files)
    return Compiled(item.name, code, cached)


def _build(pending: _Pending) -> dict[str, bytes]:
    """Compile a module; return the files of its folder."""
    source = _source(pending)
    loading, code = _compile(pending.key, source)
    about = json.dumps({**loading, "exports": pending.signatures}, indent=1)
    files = {f"acronumba_{pending.key}.py": source.encode(), _CODE: code, _ENTRIES: about.encode()}
    try:
        cache.build(pending.key, files)
    except OSError as error:
        cache.give_up(str(error))
        with contextlib.suppress(OSError):  # the code is in memory
            cache.build(pending.key, files)
    return files


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
        In the order of `modules`. Code stays in memory as long as they do.

    Raises
    ------
    llvm.Malformed
        If a tree has no meaning.
    """
    out = []
    with undivided, _lock:
        while _unused:
            _unused.popleft().close()
        for k, module in enumerate(modules):
            if progress is not None:
                progress(module.name, k, len(modules))
            out.append(_load(module))
    return out


def forget() -> None:
    """Let the next `load` read the disk again. Code that is loaded goes on working."""
    with _lock:
        _loaded.clear()
