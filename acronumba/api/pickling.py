"""Pickling of models: by name if they can be imported, else by value, with the source text that messages show.

In: a model. Out: the tuple of `__reduce__`. A function that is not importable (of a script, a notebook, a closure) is
pickled by `cloudpickle`, which is imported only then.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import linecache
import pickle
import threading
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from acronumba.config import Options


class _Writing(threading.local):
    by_value = False


_writing = _Writing()  # whether this thread pickles a function by value: models it refers to go into the same pickle


def reduce(model: Any) -> tuple[Any, ...]:
    """Return the result of `__reduce__` of a model.

    Raises
    ------
    PicklingError
        If the model is not importable, and `cloudpickle` is not installed.
    """
    module, name = model.__wrapped__.__module__, model.__qualname__
    try:
        found = _named(module, name)
    except (ImportError, AttributeError):
        found = None
    known = isinstance(found, type(model)) and found.__wrapped__ is model.__wrapped__
    if known and (module != "__main__" or not _has_cloudpickle()):
        return _restore, (module, name, model._device, model._options)
    if _writing.by_value:
        return _blank, (type(model),), (model.__wrapped__, model._options, model._device), None, None, _fill
    if not _has_cloudpickle():
        raise pickle.PicklingError(
            f"{model!r} cannot be pickled: it is not importable as {module}.{name}. "
            "With cloudpickle it is pickled by value: pip install cloudpickle"
        )
    return _read, (_written(model), dict(_texts(model.__wrapped__)))


def _has_cloudpickle() -> bool:
    return importlib.util.find_spec("cloudpickle") is not None


def _written(model: Any) -> bytes:
    import cloudpickle

    known = cloudpickle.CloudPickler.dispatch_table
    own = {types.CodeType: lambda code: (_of_file, (code.co_filename, *known[types.CodeType](code)))}

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        """Keeps the file names of code, by which source texts are found; cloudpickle omits them since 3.1.2."""

        dispatch_table: ClassVar[Any] = ChainMap(own, known)

    _writing.by_value = True
    try:
        Pickler(written := io.BytesIO()).dump(model)
        return written.getvalue()
    finally:
        _writing.by_value = False


def _of_file(file: str, make: Any, given: tuple[Any, ...]) -> types.CodeType:
    code: types.CodeType = make(*given)
    return code.replace(co_filename=file)


def _read(written: bytes, texts: Mapping[str, str]) -> Any:
    for file, text in texts.items():
        if not linecache.getlines(file):  # no such file here
            linecache.cache[file] = len(text), None, io.StringIO(text).readlines(), file
    return pickle.loads(written)  # a part of what is being unpickled


def _texts(fn: Any) -> Iterator[tuple[str, str]]:
    """Yield the source files of a function, and of functions of its module that it refers to, with their texts."""
    seen: set[int] = set()
    todo = [fn]
    while todo:
        f = todo.pop()
        f = getattr(f, "__wrapped__", f)
        if isinstance(f, types.FunctionType) and f.__module__ == fn.__module__ and id(f) not in seen:
            seen.add(id(f))
            file = f.__code__.co_filename
            yield file, "".join(linecache.getlines(file))
            todo += [f.__globals__[name] for name in _names(f.__code__) if name in f.__globals__]
            todo += [cell.cell_contents for cell in f.__closure__ or () if _is_full(cell)]


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _blank(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill(model: Any, state: tuple[Any, Options, str | None]) -> None:
    fn, options, device = state
    model.__init__(fn, options=options, device=device)


def _named(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _restore(module: str, name: str, device: str | None, options: Options) -> Any:
    found = _named(module, name)
    if found._device == device and found._options == options:
        return found
    return type(found)(found.__wrapped__, options=options, device=device)._share(found._cache)
