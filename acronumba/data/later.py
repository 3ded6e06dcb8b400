"""Numbers that are on a device until they are read.

In: a function that fetches a number. Out: a `Later`, which behaves as a NumPy scalar and is fetched once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from acronumba.generics import Value
from acronumba.memory import Array, DeviceTensor, DType


class Later(NDArrayOperatorsMixin):
    """A number that is fetched when it is first read.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple
        ().
    parts, share
        It is the sum of these tensors on the device, times a number.
    """

    shape: tuple[int, ...] = ()
    ndim = 0
    size = 1

    def __init__(
        self, dtype: DType, fetch: Callable[[], float], parts: Sequence[DeviceTensor] = (), share: float = 1.0
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.parts, self.share = parts, share
        self._fetch: Callable[[], float] | None = fetch
        self._value: Value = None

    def __getitem__(self, index: tuple[()]) -> Value:
        """Return the NumPy scalar."""
        if self._fetch is not None:
            self._value, self._fetch = self.dtype.type(self._fetch()), None
        return self._value[index]

    def item(self) -> Value:
        """Return the Python number."""
        return self[()].item()

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self[()], dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **options: Value) -> Value:
        return getattr(ufunc, method)(*(x[()] if isinstance(x, Later) else x for x in inputs), **options)

    def __float__(self) -> float:
        return float(self[()])

    def __int__(self) -> int:
        return int(self[()])

    def __bool__(self) -> bool:
        return bool(self[()])

    def __round__(self, digits: int | None = None) -> Value:
        return round(self[()], digits)

    def __hash__(self) -> int:
        return hash(self[()])

    def __format__(self, spec: str) -> str:
        return format(self[()], spec)

    def __str__(self) -> str:
        return str(self[()])

    def __repr__(self) -> str:
        return repr(self[()])

    def __reduce__(self) -> Value:
        return self[()].__reduce__()
