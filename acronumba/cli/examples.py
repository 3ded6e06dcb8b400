"""The models that commands name as `FILE.py:MODEL`.

In: a file, and the name of a model in it. Out: the model with example instances.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from acronumba.errors import AcronumbaError

if TYPE_CHECKING:
    import inspect

    from acronumba.api.model import Model

Columns: TypeAlias = tuple[Any, ...]  # of instances
Shared: TypeAlias = dict[str, Any]


def example_of(args: argparse.Namespace) -> tuple[Model, Columns, Shared] | None:
    """Return the model that a command names, with example instances; None, and a message, if it names none."""
    file, _, name = str(args.model).rpartition(":")
    if not file or not name:
        code = re.fullmatch(r"(?:ACR)?(\d+)", args.model, re.IGNORECASE)
        what = f"error ACR{code[1]}" if code else f"{args.command} {_suggested(args.model)}"
        print(f"{'A code is explained by' if code else 'Say which model'}: acronumba {what}", file=sys.stderr)
        return None
    return find_example(file, name, args.n)


def _suggested(given: str) -> str:
    """Return FILE.py:MODEL for the name of a file, of a module or of a model of the zoo."""
    name = f"acronumba.zoo.{given}" if given.isidentifier() else given
    with contextlib.suppress(AcronumbaError):
        if models := _models(_load(name)):
            return f"{name}:{models[0]}"
    return "FILE.py:MODEL"


def _models(module: ModuleType) -> list[str]:
    from acronumba.api.model import Model

    return [name for name, value in vars(module).items() if isinstance(value, Model)]


def find_example(file: str, name: str, count: int | None = None) -> tuple[Model, Columns, Shared]:
    """Return a model of a file with example instances.

    The instances come from the file: from its function ``example()``, which returns the columns (a tuple) and the
    shared values (a dict); else from ``instances(n)`` and ``params()``, as the models of `acronumba.zoo` have them;
    else from the arguments that its ``main()`` passes to the model. At most `count` instances are returned.
    """
    from acronumba.api.model import Model
    from acronumba.errors.codes import reject

    module = _load(file)
    model = getattr(module, name, None)
    if not isinstance(model, Model):
        models = _models(module)
        seen = f"models: {', '.join(models) or 'none'}"
        near = [*difflib.get_close_matches(name, models, 1), *models]
        rewrite = f"{file}:{near[0]}" if near else "put `@model` before the function"
        raise reject("ACR710", message=f"{file} has no model `{name}`", seen=seen, rewrite=rewrite)
    if hasattr(module, "example"):
        columns, shared = module.example()
        return model, _first(columns, count), dict(shared)
    if hasattr(module, "instances"):
        names = [p.name for p in _keyword_only(model)]
        shared = {n: module.params() for n in names} if hasattr(module, "params") else {}
        return model, (module.instances(count or 4),), shared
    call = _observe(module, model)
    if call is None:
        raise reject(
            "ACR710",
            message=f"{file} has no arguments to call `{name}` with",
            rewrite="define `example()` in the file; it returns a tuple of columns and a dict of shared values",
        )
    return model, _first(call[0], count), call[1]


def _first(columns: Columns, count: int | None) -> Columns:
    return tuple(columns) if count is None else tuple(column[:count] for column in columns)


def _keyword_only(model: Model) -> list[inspect.Parameter]:
    import inspect

    return [p for p in inspect.signature(model.__wrapped__).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _load(file: str) -> ModuleType:
    """Import a module by its file, or by its name."""
    from acronumba.errors.codes import reject

    path = Path(file)
    if path.suffix != ".py" and re.fullmatch(r"\w+(\.\w+)*", file) and not path.exists():
        sys.path.insert(0, os.getcwd())  # as `python -m` does
        try:
            return importlib.import_module(file)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{file}.".startswith(f"{error.name}."):
                raise  # of what the module imports
            raise reject(
                "ACR710", message=f"there is no module {file}", rewrite="give the path of a Python file"
            ) from None
    if not path.is_file():
        raise reject("ACR710", message=f"there is no file {file}", rewrite="give the path of a Python file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class _Seen(BaseException):
    """Ends `main` when it has called the model."""


def _observe(module: ModuleType, model: Model) -> tuple[Columns, Shared] | None:
    """Run `main` until it first calls the model, and return the arguments of that call."""
    import io

    from acronumba.api.dispatch import Batched, watched

    if not callable(getattr(module, "main", None)):
        return None
    found: list[tuple[Columns, Shared]] = []

    def see(called: Batched, columns: Sequence[Any], shared: Mapping[str, Any]) -> None:
        if called.__wrapped__ is model.__wrapped__:
            found.append((tuple(columns), dict(shared)))
            raise _Seen

    given, sys.argv = sys.argv, [str(module.__file__)]  # `main` must not read this command's arguments
    try:
        with contextlib.suppress(_Seen), contextlib.redirect_stdout(io.StringIO()), watched(see):
            module.main()
    finally:
        sys.argv = given
    return found[0] if found else None
