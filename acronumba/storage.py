"""Shared values as safetensors files, `save` and `load`; and their arrays by name, `leaves`.

Every array and number of a nesting of dataclasses, NamedTuples, dicts, tuples and lists becomes a tensor whose name
is its path: ``cells.0.w``. A file holds no structure and no code; `load` takes the structure from a value of the
same shape and is strict about names, shapes and dtypes. Bools, ints and floats are stored as tensors of rank 0;
strings, enums and None are constants of the structure and are not stored.
"""

from __future__ import annotations

import copy
import enum
import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from acronumba.data.classes import is_object, names_of, set_field
from acronumba.data.row_grad import RowGrad
from acronumba.errors.codes import reject
from acronumba.foreign import OfParts, is_foreign, numpy_array
from acronumba.memory import Array, DeviceTensor, refuse_stale

Params = TypeVar("Params")

_NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}
_DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip

_SIZES = {name: np.dtype(dtype).itemsize for name, dtype in _DTYPES.items()} | {"BF16": 2}
_NARROW = ("float16", "BF16")


def save(path: str | os.PathLike[str], params: object) -> None:
    """Write the arrays and numbers of shared values to a safetensors file.

    The file is replaced atomically: a reader sees the old file or the new one.

    Parameters
    ----------
    path : path
        Of the file; replaced if it exists.
    params : object
        Any nesting of dataclasses, NamedTuples, dicts with string keys, tuples and lists of arrays and numbers, or a
        snapshot of it by `pack`.

    Raises
    ------
    TypeMismatch
        If a value cannot be stored, or two values would have one name.
    FileNotFoundError
        If the folder does not exist.
    """
    from safetensors.numpy import save_file

    tensors: dict[str, Array] = {}
    for name, value in _leaves(_plain(params)):
        if name in tensors:
            raise reject("ACR708", message=f"two values have the name `{name}`", rewrite="use keys without a dot")
        tensors[name] = _tensor(name, value)
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"no such folder: {os.fspath(target.parent)!r}")
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        save_file(tensors, temporary)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as `open` would
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], like: Params, *, cast: bool = False) -> Params:
    """Read shared values from a file written by `save`.

    Parameters
    ----------
    path : path
        Of the file.
    like : object
        A value with the expected structure, shapes and dtypes; its arrays may be uninitialised (`np.empty`).
    cast : bool
        Whether floats of 16 bits (float16, bfloat16), as weights are often published, are converted to wider expected
        floats, which is exact.

    Returns
    -------
    object
        As `like`, with new arrays and numbers. A field that older files lack is taken from `like`: the number of bits
        to which compressed weights round the other operand of a product.

    Raises
    ------
    TypeMismatch, ShapeMismatch
        If names or dtypes differ (the former), or only shapes; all differences are in the message.
    FileNotFoundError
        If the file does not exist. A damaged file is a `TypeMismatch`.
    """
    wanted: dict[str, Any] = {}
    like = _plain(like)
    for name, value in _leaves(like):
        if name in wanted:
            raise reject("ACR708", message=f"two values have the name `{name}`", rewrite="use keys without a dot")
        wanted[name] = value
    late = _late(like)
    with _opened(path) as file:
        absent = {name: np.copy(wanted.pop(name)) for name in late if name not in file.entries}
        wrong, only_shapes = _differences(file, wanted, cast)
        if wrong:
            code = "ACR709" if only_shapes else "ACR708"
            raise reject(code, message=f"{os.fspath(path)} does not contain these parameters", seen="; ".join(wrong))
        read = {name: file.read(name).astype(_tensor(name, v).dtype, copy=False) for name, v in wanted.items()}
        found = absent | read
    return _rebuild(like, found, "")  # type: ignore[no-any-return]


def assembled(like: Params, find: Callable[[str, Array], Array]) -> Params:
    """Return a value of the structure of `like`; `find` returns each array, from its name and the array in `like`."""
    like = _plain(like)
    found = {name: find(name, _tensor(name, value)) for name, value in _leaves(like)}
    return _rebuild(like, found, "")  # type: ignore[no-any-return]


def replaced(like: Params, change: Callable[[str, Any], Any]) -> Params:
    """Return a value of the structure of `like` with each named value replaced by `change(name, value)`."""
    like = _plain(like)
    return _rebuild(like, {n: change(n, v) for n, v in named(like)}, "", parts=False)  # type: ignore[no-any-return]


def shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a file's tensors, without knowing its structure; errors as for `load`."""
    with _opened(path) as file:
        return {name: entry.shape for name, entry in file.entries.items()}


class _Damaged(Exception):
    """A file is not in the format of `save`."""


class _Entry(NamedTuple):
    """A tensor of a file."""

    dtype: str  # as safetensors call it
    shape: tuple[int, ...]
    start: int  # of its bytes, from the end of the header
    end: int


class _File:
    """A safetensors file that is opened once, so that a file that replaces it meanwhile is not read.

    A header, its length before it in 8 bytes, names the tensors; their bytes follow, without gaps.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        length = int.from_bytes(raw.read(8), "little")
        self._start = 8 + length
        left = os.fstat(raw.fileno()).st_size - self._start
        if left < 0:
            raise _Damaged("the header is longer than the file")
        try:
            header = json.loads(raw.read(length), object_pairs_hook=_different)
            header.pop("__metadata__", None)
            self.entries: dict[str, _Entry] = {name: _entry(about) for name, about in header.items()}
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise _Damaged(f"the header cannot be read: {type(error).__name__}") from error
        at = 0
        for name, entry in sorted(self.entries.items(), key=lambda item: item[1][2:]):
            size = math.prod(entry.shape) * _SIZES[entry.dtype] if entry.dtype in _SIZES else entry.end - entry.start
            if (entry.start, entry.end) != (at, at + size):
                raise _Damaged(f"the bytes of `{name}` are not where they should be")
            at = entry.end
        if at != left:
            raise _Damaged(f"{left} bytes of tensors in place of {at}")

    def read(self, name: str) -> Array:
        """Return a tensor; bfloat16, which NumPy lacks, as float32."""
        kind, shape, start, end = self.entries[name]
        data = np.empty(end - start, np.uint8)
        self._raw.seek(self._start + start)
        if self._raw.readinto(data.data) != len(data):  # type: ignore[attr-defined]
            raise _Damaged("it became shorter")
        if kind == "BF16":  # the upper half of the bits of a float32
            return (data.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
        return (data != 0 if kind == "BOOL" else data.view(np.dtype(_DTYPES[kind]).newbyteorder("<"))).reshape(shape)


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dict of pairs; raise if two have the same key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _entry(about: dict[str, Any]) -> _Entry:
    shape, (start, end) = about["shape"], about["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or start > end:
        raise ValueError("no extents")
    return _Entry(str(about["dtype"]), tuple(shape), start, end)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[_File]:
    """Open a safetensors file."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe is no reason to wait
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {os.fspath(path)!r}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise _Damaged("no regular file")
        with open(handle, "rb") as raw:
            yield _File(raw)
    except _Damaged as error:
        message = f"{os.fspath(path)} is not a safetensors file, or is damaged"
        raise reject("ACR708", message=message, seen=str(error), rewrite="write it again with `save`") from error


def leaves(params: object) -> list[tuple[str, Any]]:
    """Return the trainable arrays of parameters: float arrays with their names in `save`.

    Parameters
    ----------
    params : object
        Parameters as `save` takes them, or gradients, which have the same structure.

    Returns
    -------
    list of (str, array)
        In the order of the structure, without weights in fewer bits (`compress`). An array that is reached by several
        paths is listed once, under the first, so that `leaves` of parameters and of their gradients correspond. NumPy
        scalars are included, although they cannot be changed in place.

    Examples
    --------
    >>> import numpy as np
    >>> from acronumba import leaves
    >>> leaves({"w": np.zeros(2), "n": 3})
    [('w', array([0., 0.]))]
    """
    out: list[tuple[str, Any]] = []
    seen: set[int] = set()
    for name, value in named(params):
        if type(value) in _NUMBERS or isinstance(value, OfParts) or id(value) in seen:
            continue
        leaf = value if isinstance(value, np.ndarray | np.generic | RowGrad | DeviceTensor) else numpy_array(value)
        seen.add(id(value))
        if leaf.dtype.kind == "f":
            out.append((name, leaf))
    return out


def named(params: object) -> list[tuple[str, Any]]:
    """Return the arrays and numbers of parameters by name; weights in fewer bits are one array each."""
    return list(_walk("", _plain(params), [], parts=False))


def _late(params: Any) -> list[str]:
    """Return the names of fields that older files lack."""
    of = [("" if v is params else f"{name}.", v) for name, v in named(params) if isinstance(v, OfParts)]
    return [f"{before}{field}" for before, v in of for field in v.later]


def _plain(params: Any) -> Any:
    """Return the value of a snapshot, or the parameters themselves."""
    return params.value if type(params).__name__ == "Snapshot" else params


def _differences(file: _File, wanted: dict[str, Any], cast: bool) -> tuple[list[str], bool]:
    """Return the differences between a file and `wanted`, and whether they are in the shapes alone."""
    names = file.entries.keys()
    wrong = [f"`{name}` is missing" for name in wanted if name not in names]
    wrong += [f"`{name}` is not expected" for name in sorted(names - wanted.keys())]
    shapes = not wrong
    for name, value in wanted.items():
        if name not in names:
            continue
        entry = file.entries[name]
        shape, dtype = entry.shape, _DTYPES.get(entry.dtype, entry.dtype)
        array = _tensor(name, value)
        if cast and dtype in _NARROW and array.dtype.name in ("float32", "float64"):
            dtype = array.dtype.name
        if shape != array.shape or dtype != array.dtype.name:
            wrong.append(f"`{name}` is {_text(dtype, shape)}, expected {_text(array.dtype.name, array.shape)}")
            shapes = shapes and dtype == array.dtype.name
    return wrong, shapes


def _text(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _tensor(name: str, value: Any) -> Array:
    """Return a leaf as a contiguous array in the byte order of the machine."""
    if type(value) in _NUMBERS:
        try:
            return np.array(value, _NUMBERS[type(value)])
        except OverflowError:
            raise reject("ACR708", message=f"`{name}` is an int of more than 64 bits") from None
    array = numpy_array(value)
    refuse_stale([array])
    if array.dtype.name not in _DTYPES.values():
        raise reject("ACR708", message=f"`{name}` cannot be stored", seen=f"an array of dtype {array.dtype}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _is_leaf(value: Any) -> bool:
    return type(value) in _NUMBERS or isinstance(value, np.ndarray | np.generic) or is_foreign(value)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, str | enum.Enum)


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    """Return names and values of the items of a structure."""
    if is_object(value):
        return [(name, getattr(value, name)) for name in names_of(value)]
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise reject("ACR708", message=f"the keys of `{path or 'params'}` must be strings")
        return list(value.items())
    if isinstance(value, list | tuple):
        return [(str(k), inner) for k, inner in enumerate(value)]
    seen = f"an object of class {type(value).__name__}"
    rewrite = "use dataclasses, dicts, lists and tuples"
    raise reject("ACR708", message=f"`{path or 'params'}` cannot be stored", seen=seen, rewrite=rewrite)


def _leaves(params: object) -> Iterator[tuple[str, Any]]:
    """Yield every array and number with its name, in order."""
    yield from _walk("", params, [])


def _walk(path: str, value: Any, inside: list[int], parts: bool = True) -> Iterator[tuple[str, Any]]:
    if _is_constant(value):
        return
    if _is_leaf(value) or (isinstance(value, OfParts) and not parts):
        yield path or "value", value
        return
    if id(value) in inside:
        raise reject("ACR708", message=f"`{path}` contains itself")
    for name, inner in _parts(path, value):
        yield from _walk(f"{path}.{name}" if path else name, inner, [*inside, id(value)], parts)


def _rebuild(like: Any, found: Mapping[str, Any], path: str, parts: bool = True) -> Any:
    """Return a value of the structure of `like`; without `parts`, values of `found` are inserted unconverted."""
    if _is_constant(like):
        return like
    if not parts and (_is_leaf(like) or isinstance(like, OfParts)):
        return found[path or "value"]
    if _is_leaf(like):
        value = found[path or "value"]
        if type(like) in _NUMBERS:
            return value.item()
        return value[()] if isinstance(like, np.generic) else value
    inner = {n: _rebuild(v, found, f"{path}.{n}" if path else n, parts) for n, v in _parts(path, like)}
    if isinstance(like, dict):
        return inner
    if is_object(like):
        return _object(like, inner)
    return list(inner.values()) if isinstance(like, list) else tuple(inner.values())


def _object(like: Any, parts: dict[str, Any]) -> Any:
    """Create an object of the class of `like` with other fields, without a call of its `__init__`."""
    if isinstance(like, tuple):
        return type(like)(**parts)
    out = copy.copy(like)
    for name, value in parts.items():
        set_field(out, name, value)
    return out
