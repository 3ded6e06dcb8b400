"""The gradient of an operation of the user's own: from its function to operations.

In: an `Applied` of "own", and a `Builder`. Out: the adjoints of its arguments. The user's function runs once, on
`Traced` values, whose arithmetic and NumPy functions make operations of the builder. With `Eager`, it runs on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.errors import NOWHERE
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim
from acronumba.operations import Given, Operation, OwnCall

if TYPE_CHECKING:
    from acronumba.ir.vjp import Applied, Builder, Sizes

_UFUNCS = {row.ufunc: row for row in TENSORS.values() if row.kind == "element" and row.ufunc is not None}
_UFUNCS |= {np.true_divide: TENSORS["div"], np.square: TENSORS["mul"]}


def own_adjoints(b: Builder, one: Applied) -> dict[int, Value]:
    """Return the adjoints of the arguments of a call of an operation, by its gradient."""
    call = one.attrs[0]
    assert isinstance(call, OwnCall)
    function, name = call.operation.gradient, call.operation.__name__
    if function is None:
        raise reject(
            "ACR602", getattr(b, "loc", NOWHERE), seen=f"the operation {name}, which has no gradient",
            message="an operation without a gradient loses it",
            rewrite="give it one: @operation(gradient=...); or stop it: nn.stop_gradient(x)",
        )  # fmt: skip
    results, adjoints = _of_results(b, one, call)
    wide = b.dtype(one.result) != call.dtypes[call.number]
    args = [Traced(b, a, g.kind == "number", wide) for a, g in zip(one.args, call.given, strict=True)]
    try:
        found = function(*args, *results, *adjoints)
    except Exception as error:
        seen = f"{error}" if isinstance(error, Untraced) else f"{type(error).__name__}: {error}"
        raise reject(
            "ACR202", getattr(b, "loc", NOWHERE), seen=f"{seen}, in the gradient of {name}",
            message="the gradient of an operation uses something that is not supported",
            rewrite="arithmetic, element-wise functions, sums, products, and operations of your own",
        ) from None  # fmt: skip
    found = found if isinstance(found, tuple | list) else (found,)
    if len(found) != len(args):
        seen = f"{len(found)} adjoints for {len(args)} arguments, in the gradient of {name}"
        raise reject("ACR203", getattr(b, "loc", NOWHERE), seen=seen, rewrite="a tuple with None for those without")
    out: dict[int, Value] = {}
    for k, g in enumerate(found):
        if g is not None and k in one.wanted:
            out[k] = _adjoint(b, g, one.args[k], f"argument {k} in the gradient of {name}")
    return out


def _adjoint(b: Builder, g: Value, of: Value, name: str) -> Value:
    """Return an adjoint in the dtype and shape of its argument."""
    dtype, shape = b.dtype(of), tuple(b.shape(of))
    made = b.cast(_unwrapped(b, g, dtype), dtype)
    given = tuple(b.shape(made))
    if not given:
        return b.broadcast(made, shape)
    apart = any(isinstance(n, int) and isinstance(m, int) and n != m for n, m in zip(given, shape, strict=False))
    if len(given) != len(shape) or apart:
        raise reject(
            "ACR401", getattr(b, "loc", NOWHERE), seen=f"{_shape_text(given)} for {name}, of shape {_shape_text(shape)}"
        )
    for axis, (n, m) in enumerate(zip(given, shape, strict=True)):
        if n != m:
            made = b.take(made, b.iota(m), axis)
    return made


def _shape_text(shape: Sizes) -> str:
    return f"({', '.join('?' if isinstance(n, Dim) else str(n) for n in shape)})"


class Untraced(Exception):
    """The gradient uses something that is no operation; the argument says what."""


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of a builder as the gradient of an operation sees it: an array, or a number."""

    def __init__(self, b: Builder, value: Value, number: bool = False, wide: bool = False) -> None:
        self.b, self.value, self.number, self.wide = b, value, number, wide

    # ---- what it says of itself

    @property
    def shape(self) -> Sizes:
        return self.b.shape(self.value)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Value]:
        return np.dtype(self.b.dtype(self.value))

    def __len__(self) -> int:
        n = self.shape[0]
        if isinstance(n, Dim):
            raise Untraced("len() of a run-time dimension: use x.shape")
        return n

    def __bool__(self) -> bool:
        raise Untraced("a condition: use np.where")

    def __float__(self) -> float:
        raise Untraced("float() of an array")

    def __iter__(self) -> Value:
        raise Untraced("a loop over an array")

    # ---- functions of NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **options: Value) -> Value:
        if method != "__call__" or options:
            raise Untraced(f"np.{ufunc.__name__} with options")
        b = self.b
        kinds = [_dtype_of(x) for x in inputs]
        if ufunc is np.matmul:
            dtype = np.result_type(*kinds).name
            x, y = (_unwrapped(b, v, dtype) for v in inputs)
            if max(len(b.shape(x)), len(b.shape(y))) > 2:
                raise Untraced("a product of stacks of matrices")
            return self._like(b.matmul(b.cast(x, dtype), b.cast(y, dtype)))
        row = _UFUNCS.get(ufunc)
        if row is None:
            raise Untraced(f"np.{ufunc.__name__}")
        *given, out = (t.name for t in ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout)))
        values = [b.cast(_unwrapped(b, x, t), t) for x, t in zip(inputs, given, strict=True)]
        values *= 1 + (ufunc is np.square)
        return self._like(b.element(row.name, *_fitted(b, values), dtype=out))

    def __array_function__(
        self, func: Value, types: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> Value:
        handler = _FUNCTIONS.get(func)
        if handler is None:
            raise Untraced(f"{func.__module__.replace('numpy', 'np', 1)}.{func.__name__}")
        return handler(self, *args, **kwargs)

    def __acronumba_operation__(self, operation: Operation, args: Sequence[Value]) -> Value:
        b = self.b
        try:
            shapes, dtypes, several = operation.results(args)
        except TypeError as error:
            raise Untraced(f"a shape of {operation.__name__} that is no dimension of its arguments ({error})") from None
        if self.wide:
            dtypes = tuple("float64" if t == "float32" else t for t in dtypes)
        values, given = [], []
        for x in args:
            weak = not isinstance(x, Traced | np.ndarray | np.generic) or (isinstance(x, Traced) and x.number)
            value = _unwrapped(b, x, np.result_type(_dtype_of(x)).name)
            values.append(value)
            kind = "number" if weak else "array" if b.shape(value) else "scalar"
            given.append(Given(kind, b.dtype(value), len(b.shape(value))))
        call = OwnCall(operation, tuple(given), dtypes, tuple(map(len, shapes)))
        made = tuple(self._like(x) for x in calls(b, call, values, shapes))
        return made if several else made[0]

    def _like(self, value: Value) -> Traced:
        return Traced(self.b, value, wide=self.wide)

    # ---- methods

    @property
    def T(self) -> Traced:
        """The transposed array."""
        return self.transpose()

    def transpose(self, *axes: Value) -> Traced:
        """Return the array with its axes in another order."""
        order = axes[0] if axes and isinstance(axes[0], tuple) else axes or tuple(reversed(range(self.ndim)))
        return self._like(self.b.transpose(self.value, tuple(k % self.ndim for k in order)))

    def reshape(self, *shape: Value) -> Traced:
        """Return the elements in another shape, whose extents are given."""
        given = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if -1 in given:
            raise Untraced("reshape to -1: give all dimensions")
        return self._like(self.b.reshape(self.value, given))

    def astype(self, dtype: Value) -> Traced:
        """Return the elements in another dtype."""
        name = np.dtype(dtype).name
        return self._like(self.b.cast(self.value, "float64" if self.wide and name == "float32" else name))

    def sum(self, axis: Value = None, keepdims: bool = False) -> Traced:
        """Return sums over axes."""
        axes = range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        gone = tuple(sorted(k % self.ndim for k in axes))
        x = self.value if self.dtype.kind == "f" else self.b.cast(self.value, "int64")
        kept = tuple(1 if k in gone else n for k, n in enumerate(self.shape))
        total = self.b.total(x, gone)
        return self._like(self.b.reshape(total, kept) if keepdims else total)

    def copy(self) -> Traced:
        """Return the array itself, which nothing changes."""
        return self

    def __getitem__(self, key: Value) -> Traced:
        """Return the array with new axes: `x[:, None]`."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if ... in keys:
            k = keys.index(...)
            keys[k : k + 1] = [slice(None)] * (self.ndim - sum(x is not None and x is not ... for x in keys))
        if any(x is not None and x != slice(None) for x in keys):
            raise Untraced("an index: only new axes, x[:, None]")
        left = iter(self.shape)
        shape = [1 if x is None else next(left) for x in keys]
        return self._like(self.b.reshape(self.value, (*shape, *left)))


def calls(b: Builder, call: OwnCall, values: Sequence[Value], shapes: Sequence[Sizes]) -> list[Value]:
    """Return the results of a call of an operation, each an operation "own"."""
    out = []
    for k, (shape, dtype) in enumerate(zip(shapes, call.dtypes, strict=True)):
        one = OwnCall(call.operation, call.given, call.dtypes, call.ranks, k)
        out.append(b.op("own", values, tuple(shape), dtype, (one, *map(tuple, shapes))))
    return out


def _of_results(b: Builder, one: Applied, call: OwnCall) -> tuple[list[Traced], list[Traced]]:
    """Return the results of a call, and their adjoints: 0 for all but one."""
    given: Sequence[Value] = one.attrs[1:] if len(call.dtypes) > 1 else [()]
    shapes = [tuple(b.shape(one.result)) if k == call.number else tuple(s) for k, s in enumerate(given)]
    wide = b.dtype(one.result) != call.dtypes[call.number]
    made = calls(b, call, one.args, shapes) if len(shapes) > 1 else [one.result]
    made[call.number] = one.result
    zeros = [one.adjoint if k == call.number else b.full(0.0, s, b.dtype(made[k])) for k, s in enumerate(shapes)]
    return [Traced(b, x, wide=wide) for x in made], [Traced(b, x, wide=wide) for x in zeros]


def _unwrapped(b: Builder, x: Value, dtype: str) -> Value:
    """Return a value of the builder; a number as a constant of a dtype."""
    if isinstance(x, Traced):
        return x.value
    if isinstance(x, bool | int | float | np.generic) or (isinstance(x, np.ndarray) and not x.ndim):
        return b.const(x.item() if isinstance(x, np.generic | np.ndarray) else x, dtype)
    raise Untraced(f"an object of class {type(x).__name__}")


def _dtype_of(x: Value) -> Value:
    """Return a dtype, or the class of a Python number, as NumPy's promotion takes it."""
    if isinstance(x, Traced) and x.number:
        return {"i": int, "f": float, "b": bool}[x.dtype.kind]
    return x.dtype if hasattr(x, "dtype") else type(x)


def _fitted(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Return operands with the extents of the first one that has the axis, where extents are known at run time only.

    NumPy requires equal extents, or 1: an element beyond the end is the last one.
    """
    extents: dict[int, Value] = {}
    out = []
    for x in values:
        for k in range(-len(b.shape(x)), 0):
            n = b.shape(x)[k]
            if n == 1:
                continue
            known = extents.setdefault(k, n)
            if n != known:
                if isinstance(n, int) and isinstance(known, int):
                    raise Untraced(f"arrays of shapes {[b.shape(v) for v in values]}")
                x = b.take(x, b.iota(known), len(b.shape(x)) + k)
        out.append(x)
    return out


def _where(self: Traced, cond: Value, x: Value, y: Value) -> Traced:
    b, dtype = self.b, np.result_type(_dtype_of(x), _dtype_of(y)).name
    values = [_unwrapped(b, cond, "bool"), *(b.cast(_unwrapped(b, v, dtype), dtype) for v in (x, y))]
    return self._like(b.where(*_fitted(b, values)))


def _traced(self: Traced, x: Value) -> Traced:
    return x if isinstance(x, Traced) else self._like(_unwrapped(self.b, x, np.result_type(x).name))


_FUNCTIONS: Mapping[Value, Callable[..., Value]] = {
    np.where: _where,
    np.sum: lambda self, x, axis=None, keepdims=False: _traced(self, x).sum(axis, keepdims),
    np.reshape: lambda self, x, shape: _traced(self, x).reshape(shape),
    np.transpose: lambda self, x, axes=(): _traced(self, x).transpose(*axes),
    np.dot: lambda self, x, y: x @ y,
    np.outer: lambda self, x, y: x[:, None] * y[None],
    np.zeros_like: lambda self, x: self._like(self.b.full(0, x.shape, self.b.dtype(x.value))),
    np.ones_like: lambda self, x: self._like(self.b.full(1, x.shape, self.b.dtype(x.value))),
    np.broadcast_to: lambda self, x, shape: self._like(self.b.broadcast(_traced(self, x).value, tuple(shape))),
}
