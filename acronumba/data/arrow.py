"""Columns of Arrow: whatever has `__arrow_c_array__` or `__arrow_c_stream__`, decoded by pyarrow.

In: a column of pyarrow, polars, DuckDB. Out: what a column of instances may be: a pack of lists of numbers, made from
their offsets and values; an array, of vectors of one length; else the values of Python. It is imported when asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from acronumba.data.heap import Heap, Region, Words, aligned
from acronumba.data.pack import Packed, packed_words
from acronumba.data.schema import Schema
from acronumba.data.words import LIST
from acronumba.errors.codes import refuse
from acronumba.ir.types import BOOL, FLOAT, INT, ListT, Type


def is_arrow(value: object) -> bool:
    """Whether a value is a column of Arrow. A Series of pandas has values of Python, which are taken one by one."""
    cls = type(value)
    return (hasattr(cls, "__arrow_c_array__") or hasattr(cls, "__arrow_c_stream__")) and not hasattr(cls, "iloc")


def column_of(value: Any, name: str) -> Packed | npt.NDArray[Any] | list[Any]:
    """Return a column of Arrow as one of instances; `name` is that of the parameter."""
    try:
        import pyarrow as pa
    except ImportError:
        raise refuse("ACR706", message=f"the column for `{name}` needs pyarrow", seen=type(value).__name__,
                     rewrite="pip install '.[arrow]', from the sources of acronumba") from None  # fmt: skip
    array = value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.chunked_array(value)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array, pa.FixedShapeTensorArray) and not array.null_count:
        return array.to_numpy_ndarray()  # type: ignore[no-any-return]
    kind = array.type
    if array.null_count or pa.types.is_nested(kind) is False:
        return array.to_pylist()  # type: ignore[no-any-return]
    numbers = _flat(array) if pa.types.is_fixed_size_list(kind) else None
    if numbers is not None and kind.value_type != pa.bool_():
        return numbers.reshape(len(array), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _flat(array)
        if values is not None:
            offsets = array.offsets.to_numpy().astype(np.int64)
            return _lists(values, offsets - offsets[0])
    return array.to_pylist()  # type: ignore[no-any-return]


def _flat(array: Any) -> npt.NDArray[Any] | None:
    """Return the numbers of all lists, one after the other; None if they are no numbers, or some are missing."""
    values = array.flatten()
    if values.null_count:
        return None
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found if found.dtype.kind in "iufb" and found.dtype != np.float16 else None


def _lists(values: npt.NDArray[Any], offsets: Words) -> Packed | list[Any]:
    """Return a pack of lists of numbers of Python."""
    kinds: dict[str, Type] = {"b": BOOL, "f": FLOAT}
    item = kinds.get(values.dtype.kind, INT)
    if values.dtype == np.uint64 and len(values) and int(values.max()) >> 63:
        return [part.tolist() for part in np.split(values, offsets[1:-1])]
    count, listed = len(offsets) - 1, ListT(item)
    heads = Region("heads", 0, count, LIST.count, (LIST.at["items"],), listed=listed)
    items = Region("items", heads.size, len(values), 1, ())
    heap = Heap(words=aligned(heads.size + items.size, np.int64), regions=(heads, items), pools={}, rests={})
    words = heap.table(items)[:, 0]
    words.view(np.float64)[:] = values if item == FLOAT else 0
    if item != FLOAT:
        words[:] = values
    table = heap.table(heads)
    table[:, LIST.at["items"]] = heap.address(items) + 8 * offsets[:-1]
    table[:, LIST.at["length"]] = table[:, LIST.at["capacity"]] = np.diff(offsets)
    roots = heap.address(heads) + 8 * LIST.count * np.arange(count)
    return packed_words(Schema(params=(listed,), fields={}), heap, roots.reshape(-1, 1))
