"""The command line: ``acronumba`` and ``python -m acronumba``.

acronumba demo                              a model, run plainly and batched
acronumba explain CODE                      the page of a refusal
acronumba show FILE.py:MODEL [--stage NAME] what the compiler makes of a model
acronumba bench [--ablate]                  how fast the models of the zoo are, what each option is worth
acronumba doctor                            what the machine has, and what was found wrong
acronumba cache clear                       forget compiled code
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acronumba.config import at_terminal
from acronumba.errors import AcronumbaError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0: well, 1: an error, 2: wrong usage)."""
    args = _parser().parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(args.run(args) or 0)
    except AcronumbaError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `acronumba show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    from acronumba import __version__
    from acronumba.bench.run import add_arguments

    parser = argparse.ArgumentParser(
        prog="acronumba", description="Automatic batching of dynamic deep learning models."
    )
    parser.add_argument("--version", action="version", version=f"acronumba {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    demo = add("demo", _demo, "a model, run plainly and batched")
    demo.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    explain = add("explain", _explain, "the page of a refusal")
    explain.add_argument("code", nargs="?", metavar="CODE", help="such as ACR101; without it, all codes are listed")
    show = add("show", _show, "what the compiler makes of a model")
    show.add_argument("model", metavar="FILE.py:MODEL")
    show.add_argument("--stage", metavar="NAME", help="explain, or a stage such as ir, plan, host; `list` names them")
    add_arguments(add("bench", _bench, "how fast the models of the zoo are, and what each option is worth"))
    add("doctor", _doctor, "what the machine has, and what was found wrong")
    cache = add("cache", _cache, "the cache of compiled code")
    cache.add_argument("action", choices=["clear", "path"])
    return parser


def _demo(args: argparse.Namespace) -> int:
    from acronumba.bench import demo

    return int(demo.main(args.arguments) or 0)


def _explain(args: argparse.Namespace) -> int:
    from acronumba.errors.codes import CODES, page_text

    if args.code is None:
        for code in CODES.values():
            print(f"{code.code}  {code.title}")
        return 0
    name = str(args.code).upper()
    name = name if name.startswith("ACR") else f"ACR{name}"
    if name not in CODES:
        near = difflib.get_close_matches(name, CODES, 3)
        print(f"There is no code {args.code}." + (f" Close to it: {', '.join(near)}." if near else ""), file=sys.stderr)
        return 2
    print(page_text(name), end="")
    return 0


def _show(args: argparse.Namespace) -> int:
    file, _, name = str(args.model).rpartition(":")
    if not file or not name:
        print("Say which model: acronumba show FILE.py:MODEL", file=sys.stderr)
        return 2
    model, columns, shared = find_example(file, name)
    stages = model.stages(*columns, **shared)
    if args.stage in (None, "explain"):
        from rich.console import Console

        explanation = model.explain(*columns, **shared)
        if at_terminal(sys.stdout):
            Console().print(explanation)
        else:
            print(explanation)
        if args.stage is None:
            print("\nstages: " + ", ".join([*stages, "explain"]))
        return 0
    if args.stage == "list":
        print("\n".join([*stages, "explain"]))
        return 0
    from acronumba.views.stages import print_stages

    try:
        print_stages(stages, [args.stage])
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    return 0


def find_example(file: str, name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a model of a file with instances to show it on.

    The instances come from the file: from its function ``example()``, which returns the columns (a tuple) and the
    shared values (a dict); else from ``instances(n)`` and ``params()``, as the models of `acronumba.zoo` have them;
    else from what its ``main()`` passes to the model.
    """
    from acronumba.api.model import Model
    from acronumba.errors.codes import refuse

    module = _load(file)
    model = getattr(module, name, None)
    if not isinstance(model, Model):
        models = [k for k, v in vars(module).items() if isinstance(v, Model)]
        seen = f"models: {', '.join(models) or 'none'}"
        rewrite = f"acronumba show {file}:{models[0]}" if models else "put `@model` before the function"
        raise refuse("ACR710", message=f"{file} has no model `{name}`", seen=seen, rewrite=rewrite)
    if hasattr(module, "example"):
        columns, shared = module.example()
        return model, tuple(columns), dict(shared)
    if hasattr(module, "instances"):
        names = [p.name for p in _keyword_only(model)]
        shared = {n: module.params() for n in names} if hasattr(module, "params") else {}
        return model, (module.instances(4),), shared
    call = _observe(module, model)
    if call is None:
        raise refuse(
            "ACR710",
            message=f"{file} does not say what `{name}` is called with",
            rewrite="define `example()` in the file; it returns a tuple of columns and a dict of shared values",
        )
    return model, *call


def _keyword_only(model: Any) -> list[Any]:
    import inspect

    return [p for p in inspect.signature(model.__wrapped__).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _load(file: str) -> Any:
    """Import a module by its file, or by its name."""
    path = Path(file)
    if path.suffix != ".py" and re.fullmatch(r"\w+(\.\w+)*", file) and not path.exists():
        return importlib.import_module(file)
    if not path.is_file():
        from acronumba.errors.codes import refuse

        raise refuse("ACR710", message=f"there is no file {file}", rewrite="give the path of a Python file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class _Seen(BaseException):
    """Ends `main` when it has called the model."""


def _observe(module: Any, model: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return what `main` passes to the model first, not running it any further."""
    import contextlib
    import io

    from acronumba.api.model import Model

    if not callable(getattr(module, "main", None)):
        return None
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    plain = Model._bind

    def bind(self: Model, columns: Any, shared: Any) -> Any:
        if self.__wrapped__ is model.__wrapped__:
            found.append((tuple(columns), dict(shared)))
            raise _Seen
        return plain(self, columns, shared)

    Model._bind = bind  # type: ignore[method-assign]
    try:
        with contextlib.suppress(_Seen), contextlib.redirect_stdout(io.StringIO()):
            module.main()
    finally:
        Model._bind = plain  # type: ignore[method-assign]
    return found[0] if found else None


def _bench(args: argparse.Namespace) -> int:
    from acronumba.bench.run import run

    return run(args, args.argv[1:])


def _doctor(args: argparse.Namespace) -> int:
    from acronumba import __version__

    rows: list[tuple[str, str, bool]] = [
        ("acronumba", __version__, True),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}", True),
        ("system", f"{platform.system()} {platform.machine()}", True),
    ]
    for package in ("numpy", "numba", "llvmlite", "networkx", "rich", "safetensors", "platformdirs"):
        try:
            rows.append((package, importlib.metadata.version(package), True))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "is missing: pip install " + package, False))
    rows += [_probe("processor", _processor), _probe("threads", _threads), _probe("compiler", _compiler)]
    rows += [_probe("cache", _cache_state), _probe("CUDA", _cuda)]
    width = max(len(name) for name, _, _ in rows)
    for name, text, good in rows:
        print(f"{name:<{width}}  {'ok ' if good else 'BAD'}  {text}")
    return 0 if all(good for _, _, good in rows) else 1


def _probe(name: str, find: Callable[[], str]) -> tuple[str, str, bool]:
    try:
        return name, find(), True
    except Exception as error:  # the doctor must not fall ill
        return name, f"{type(error).__name__}: {error}", False


def _cuda() -> str:
    from acronumba.runtime.devices import driver as gpu

    if why := gpu.missing():
        return f"not used: {why}"
    one = gpu.gpu(0)
    return f"{one.name}, compute capability {one.capability[0]}.{one.capability[1]}"


def _processor() -> str:
    from acronumba.emit.target import host

    target = host()
    return f"{target.name}, vectors of {target.vector_bits} bits"


def _threads() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{usable} usable"


def _compiler() -> str:
    from acronumba.emit import compile as compiler
    from acronumba.emit import parse, tree

    (function,) = parse.parse("def answer(a: i64) -> i64:\n    return a + 42\n")
    (compiled,) = compiler.load([tree.Module(name="doctor", functions=(function,), exports=("answer",))])
    result = compiled.call("answer", 0)
    if result != 42:
        raise RuntimeError(f"a compiled function gave {result} in place of 42")
    return "a small function was compiled and gave the right answer"


def _cache_state() -> str:
    from acronumba.config import cache_limit
    from acronumba.emit import cache

    held = cache.entries()
    size, limit = sum(held.values()) / 2**20, cache_limit() / 2**20
    most = f"at most {cache.MOST:,} and {limit:,.0f} MB (ACRONUMBA_CACHE_LIMIT)"
    return f"{cache.directory()}: {len(held):,} modules, {size:,.1f} MB; {most}"


def _cache(args: argparse.Namespace) -> int:
    from acronumba.emit import cache

    if args.action == "path":
        print(cache.directory())
        return 0
    cache.clear()
    print("The cache is empty.")
    return 0
