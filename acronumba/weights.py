"""Saving and loading shared parameters: safetensors files, one tensor per leaf, named by its path.

In: any nesting of dataclasses, NamedTuples, dicts, tuples and lists of arrays. Out: a file that any safetensors
reader opens. What is loaded must have exactly the names, shapes and dtypes of what is expected.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.codes import refuse
from acronumba.shared import DEPTH, field_names, is_object


def save(path: str | Path, params: Any) -> None:
    """Write parameters to a safetensors file.

    Parameters
    ----------
    path : path
        Written whole or not at all.
    params : dataclass, NamedTuple, dict, tuple or list of arrays and numbers
        Or what `pack` gives for them. Strings, bools and None are structure and are not written.
    """
    import os

    from safetensors.numpy import save as encode

    data = encode({name: np.array(array, order="C") for name, array in _arrays(_plain(params), "")})
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path, like: Any) -> Any:
    """Return parameters of the structure of `like` with the arrays of a file.

    Parameters
    ----------
    path : path
        A safetensors file.
    like : dataclass, NamedTuple, dict, tuple or list of arrays and numbers
        Says which names, shapes and dtypes must be there. It is not changed.

    Raises
    ------
    TypeMismatch
        If a name is missing or unexpected, or a dtype differs.
    ShapeMismatch
        If a shape differs.
    """
    from safetensors.numpy import load_file

    found = load_file(Path(path))
    wanted = dict(_arrays(_plain(like), ""))
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing or extra:
        seen = "; ".join(
            f"{what}: {', '.join(names[:5])}" for what, names in (("missing", missing), ("unexpected", extra)) if names
        )
        raise refuse("ACR708", message=f"{path} has other tensors than expected", seen=seen)
    for name, array in wanted.items():
        if found[name].dtype != array.dtype:
            raise refuse(
                "ACR708", message=f"{name} has another dtype", seen=f"{found[name].dtype}, expected {array.dtype}"
            )
        if found[name].shape != array.shape:
            seen = f"{list(found[name].shape)}, expected {list(array.shape)}"
            raise refuse("ACR709", message=f"{name} has another shape", seen=seen)
    return _filled(_plain(like), "", found)


def _plain(params: Any) -> Any:
    return getattr(params, "value", params) if type(params).__name__ == "Snapshot" else params


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (step of the path, part) of a structure."""
    if is_object(value):
        for name in field_names(type(value)):
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f".{key}", part
    elif isinstance(value, list | tuple):
        for k, part in enumerate(value):
            yield f".{k}", part


def _is_leaf(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic) or (hasattr(value, "__array__") and not isinstance(value, type)):
        return True
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arrays(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    if _is_leaf(value):
        yield path.removeprefix(".") or "value", np.asarray(value)
    elif depth > DEPTH:
        raise refuse("ACR708", message="the parameters contain themselves", seen=path[:60])
    else:
        for step, part in _parts(value):
            yield from _arrays(part, path + step, depth + 1)


def _filled(value: Any, path: str, found: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Return a copy of a structure with other arrays."""
    if _is_leaf(value):
        array = found[path.removeprefix(".") or "value"]
        if isinstance(value, np.generic):
            return array[()]
        return type(value)(array) if isinstance(value, int | float) else array
    if is_object(value):
        parts = {step[1:]: _filled(part, path + step, found) for step, part in _parts(value)}
        if isinstance(value, tuple):
            return type(value)(**parts)
        out = copy.copy(value)
        for name, part in parts.items():
            object.__setattr__(out, name, part)
        return out
    if isinstance(value, dict):
        return {key: _filled(part, f"{path}.{key}", found) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_filled(part, f"{path}.{k}", found) for k, part in enumerate(value))
    return value
