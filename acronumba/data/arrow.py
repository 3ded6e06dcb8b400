"""Columns of Arrow: objects with `__arrow_c_array__` or `__arrow_c_stream__`, decoded by pyarrow.

In: a column of pyarrow, polars or DuckDB, and the hint from the parameter's annotation. Out: a column of instances: a
pack of words (`data.arrow_words`), an array if all are vectors of one length, else a list of Python values. pyarrow is
imported on first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.data.classes import field_names
from acronumba.data.hints import OBSERVED, ArrayHint, ClassHint, Hint, ListHint, UnionHint, class_hints
from acronumba.data.pack import Packed
from acronumba.errors.codes import reject
from acronumba.generics import ArrowArray, Value
from acronumba.ir.types import NONE
from acronumba.memory import Array


def is_arrow(value: object) -> bool:
    """Whether a value is a column of Arrow. A pandas Series is not: its values are Python objects."""
    cls = type(value)
    return (hasattr(cls, "__arrow_c_array__") or hasattr(cls, "__arrow_c_stream__")) and not hasattr(cls, "iloc")


def column_of(value: Value, name: str, hint: Hint = OBSERVED) -> Packed | Array | list[Value]:
    """Convert a column of Arrow to a column of instances; `name` and `hint` are those of its parameter."""
    try:
        import pyarrow as pa
    except ImportError:
        raise reject("ACR706", message=f"the column for `{name}` needs pyarrow", seen=type(value).__name__,
                     rewrite="pip install '.[arrow]', from the sources of acronumba") from None  # fmt: skip
    from acronumba.data import arrow_words

    array = value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.chunked_array(value)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    array = _stored(array)
    rows = None if array.null_count or hint not in (OBSERVED, ArrayHint(np.generic)) else _rows(array)
    if rows is not None:
        return rows
    found = arrow_words.packed(array, hint)
    return _values(array, hint, name) if found is None else found


def _stored(array: ArrowArray) -> ArrowArray:
    """Return an array in plain storage: string views, dictionary encoding and extension types are resolved."""
    import pyarrow as pa

    if isinstance(array, pa.FixedShapeTensorArray):
        return array
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    plain = _plain_type(array.type)
    return array if plain == array.type else array.cast(plain)


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return pa.large_string() if kind == pa.string_view() else kind


def _rows(array: ArrowArray) -> Array | None:
    """Return lists of equal length, and tensors, as the rows of an array; None for other columns."""
    import pyarrow as pa

    if isinstance(array, pa.FixedShapeTensorArray):
        return array.to_numpy_ndarray()  # type: ignore[no-any-return]
    if not pa.types.is_fixed_size_list(array.type):
        return None
    values = array.flatten()
    numbers = pa.types.is_integer(values.type) or pa.types.is_float32(values.type) or pa.types.is_float64(values.type)
    if values.null_count or not numbers:
        return None
    return values.to_numpy().reshape(len(array), array.type.list_size)  # type: ignore[no-any-return]


def _values(array: Value, hint: Hint, path: str) -> list[Value]:
    """Return Python values, with objects of annotated classes; nulls become None."""
    import pyarrow as pa

    if isinstance(hint, UnionHint):
        others = [h for h in hint.members if h != NONE]
        hint = others[0] if len(others) == 1 else OBSERVED
    kind = array.type
    if array.null_count and isinstance(hint, ClassHint | ArrayHint | ListHint):
        found, valid = iter(_values(array.drop_null(), hint, path)), array.is_valid().to_pylist()
        return [next(found) if there else None for there in valid]
    if pa.types.is_struct(kind) and isinstance(hint, ClassHint):
        return _objects(array, hint.cls, path)
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if isinstance(hint, ArrayHint):
        rows = _rows(array)
        if rows is not None:
            return list(rows)
        values = array.flatten() if lists else None
        if values is not None and not values.null_count and not pa.types.is_nested(values.type):
            return _cut(array, values.to_numpy(zero_copy_only=False))
    if lists and isinstance(hint, ListHint):
        inside = _cut(array, _values(array.flatten(), hint.item, f"{path}[...]"))
        return list(map(tuple, inside)) if hint.tupled else inside
    return array.to_pylist()  # type: ignore[no-any-return]


def _cut(array: Value, values: Value) -> list[Value]:
    """Split the flat values of an Arrow list array into one sequence per list."""
    ends = np.cumsum(array.value_lengths().to_numpy()).tolist()
    return [values[first:end] for first, end in zip([0, *ends], ends, strict=False)]


def _objects(array: Value, cls: Value, path: str) -> list[Value]:
    """Convert structs to objects of a class, which is called with the fields that it declares."""
    hints = class_hints(cls)
    given = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    names = [name for name in field_names(cls) or given if name in given]
    columns = [_values(given[name], hints.get(name, OBSERVED), f"{path}.{name}") for name in names]
    try:
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        return [cls(**dict(zip(names, row, strict=True))) for row in rows]
    except TypeError as error:
        raise reject("ACR706", message=f"structs of `{path}` cannot be converted to {cls.__name__}: {error}",
                     seen=", ".join(given), rewrite="a struct with the fields of the class") from error  # fmt: skip
