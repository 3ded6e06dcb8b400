"""Operations of the user's own: a definition in NumPy, rules for shape and dtype, and a kernel that Numba compiles.

In: a function and its rules. Out: an `Operation`. A plain call of it runs the definition. In a batch each call is one
operation of a node, an `OwnCall` among the attributes of the IR's operation "own", and `kernels.own` compiles the
kernel. Numba is imported there alone.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Sequence

import numpy as np

from acronumba.foreign import source_function
from acronumba.generics import Value
from acronumba.records import record

NANOSECONDS = 5_000  # what a call takes, if nobody says
_taken: dict[str, int] = {}  # how many operations have a digest


class Operation:
    """An operation of the user's own, made by `operation`. A call of it is a call of its definition."""

    __name__: str
    __qualname__: str

    def __init__(
        self, definition: Callable[..., Value], *, shape: Value, dtype: Value, kernel: Callable[..., Value] | None,
        gradient: Callable[..., Value] | None, cuda: Callable[..., Value] | None, pure: bool, nanoseconds: int,
    ) -> None:  # fmt: skip
        source = source_function(definition) or definition
        if not isinstance(source, types.FunctionType):
            raise TypeError(f"@operation expects a function, not {type(definition).__name__}")
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(source).parameters.values()
        if not parameters or any(p.kind not in kinds for p in parameters):
            raise TypeError(f"the operation {source.__name__} needs positional parameters, and no others")
        functools.update_wrapper(self, source)
        self.definition, self.source = definition, source
        self.shape, self.dtype, self.gradient = shape, dtype, gradient
        self.kernel = definition if kernel is None else kernel
        self.cuda = cuda
        self.pure, self.nanoseconds = pure, nanoseconds
        self.count = len(parameters)
        self.compiled: dict[Value, Value] = {}  # by the types of a call, see `kernels.own`
        digest = self._digest()
        _taken[digest] = _taken.get(digest, 0) + 1
        self.key = f"{source.__name__}@{digest}" + (f".{_taken[digest] - 1}" if _taken[digest] > 1 else "")

    def _digest(self) -> str:
        """Return a digest of the source of all functions, which tells operations of one name apart."""
        parts = [repr((self.pure, self.nanoseconds, getattr(self.kernel, "targetoptions", None)))]
        for part in (self.source, self.shape, self.dtype, self.gradient, self.kernel, self.cuda):
            f = source_function(part) or device_source(part)
            try:
                parts.append(inspect.getsource(f) if callable(f) else repr(f))
            except (OSError, TypeError):
                parts.append(repr(getattr(f, "__code__", f)))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        given = self.bind(args, kwargs)
        traced = next((a for a in given if hasattr(type(a), "__acronumba_operation__")), None)
        if traced is not None:
            return traced.__acronumba_operation__(self, given)
        return run_definition(self, self.definition, *given)

    def __repr__(self) -> str:
        return f"<operation {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def bind(self, args: Sequence[Value], kwargs: dict[str, Value]) -> tuple[Value, ...]:
        """Return the arguments of a call in the order of the parameters, with defaults."""
        bound = inspect.signature(self.source).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def results(self, args: Sequence[Value]) -> tuple[tuple[tuple[Value, ...], ...], tuple[str, ...], bool]:
        """Return the shapes and dtypes of the results for some arguments, and whether there are several."""
        shape = self.shape(*args) if callable(self.shape) else self.shape
        dtype = self.dtype
        if isinstance(dtype, types.FunctionType):
            dtype = dtype(*args)
        return arranged(self, shape, dtype)


def arranged(operation: Operation, shape: Value, dtype: Value) -> tuple[Value, tuple[str, ...], bool]:
    """Return shapes and dtypes, one for each result, and whether there are several."""
    shape = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    several = bool(shape) and isinstance(shape[0], list | tuple)
    shapes = tuple(map(tuple, shape)) if several else (shape,)
    dtypes = tuple(dtype) if isinstance(dtype, list | tuple) else (dtype,) * len(shapes)
    if len(dtypes) != len(shapes):
        raise ValueError(f"{len(dtypes)} dtypes for {len(shapes)} results of {operation.__name__}")
    return shapes, tuple(np.dtype(t).name for t in dtypes), several


def device_source(function: Value) -> Value:
    """Return the Python function of a device function, which `numba.cuda` keeps; other values as they are."""
    return getattr(function, "py_func", None) or getattr(function, "fn", function)


def run_definition(operation: Value, definition: Value, *args: Value, **kwargs: Value) -> Value:
    """Return the result of a definition, in the shape and dtype that the rules say."""
    args = operation.bind(args, kwargs)
    out = definition(*args)
    shapes, dtypes, several = operation.results(args)
    parts = tuple(out) if several else (out,)
    if len(parts) != len(shapes):
        raise ValueError(f"{operation.__name__} returns {len(parts)} results, its rule says {len(shapes)}")
    made = tuple(_finished(operation, x, s, t) for x, s, t in zip(parts, shapes, dtypes, strict=True))
    return made if several else made[0]


def _finished(operation: Value, x: Value, shape: tuple[int, ...], dtype: str) -> Value:
    x = np.asarray(x)
    if x.shape != shape:
        raise ValueError(f"{operation.__name__} returns shape {x.shape}, its rule says {shape}")
    if not np.can_cast(x.dtype, dtype, "same_kind"):
        raise TypeError(f"{operation.__name__} returns {x.dtype}, its rule says {dtype}")
    x = x.astype(dtype)
    return x if shape else x[()]


@record()
class Given:
    """An argument of a call."""

    kind: str  # "array", "scalar" of NumPy, or "number" of Python
    dtype: str
    rank: int


@record()
class OwnCall:
    """A result of a call of an operation: attribute 0 of the IR's "own"; the shapes of all results follow it."""

    operation: Operation
    given: tuple[Given, ...]
    dtypes: tuple[str, ...]  # of the results
    ranks: tuple[int, ...]
    number: int = 0  # which result

    @property
    def signature(self) -> Value:
        """The types of the call, by which its compiled kernel is found."""
        return tuple((g.kind, g.dtype, g.rank) for g in self.given), self.dtypes, self.ranks

    @property
    def text(self) -> str:
        """The call as text, which is equal for its results, and for no other operation of this process."""
        given = ", ".join(f"{g.kind} {g.dtype}[{g.rank}]" for g in self.given)
        made = ", ".join(f"{t}[{n}]" for t, n in zip(self.dtypes, self.ranks, strict=True))
        return f"{self.operation.key}({given}) -> {made}"

    def __repr__(self) -> str:
        return f"{self.text} #{self.number}"

    def compute(self, args: Sequence[Value], dtype: str) -> Value:
        """Return the result by the definition; numbers are given as arrays of rank 0."""
        kinds = [g.kind for g in self.given]
        values = [
            x.item() if kind == "number" else np.asarray(x)[()] if kind == "scalar" else np.array(x)
            for x, kind in zip(args, kinds, strict=True)
        ]
        out = self.operation.source(*values)
        return np.asarray(out[self.number] if len(self.dtypes) > 1 else out, dtype)


def operation(
    definition: Callable[..., Value] | None = None, /, *, shape: Value, dtype: Value,
    kernel: Callable[..., Value] | None = None, gradient: Callable[..., Value] | None = None,
    cuda: Callable[..., Value] | None = None, pure: bool = False, nanoseconds: int = NANOSECONDS,
) -> Value:  # fmt: skip
    """Make an operation with a kernel of its own, which Numba compiles: ``@operation(shape=..., dtype=...)``.

    Models call it as any function of arrays and numbers. The plain call runs the decorated function, and converts its
    result to the dtype. In a batch the kernel computes each call, in one loop over nodes that threads share.

    Parameters
    ----------
    definition : function
        The operation in Python and NumPy.
    shape : tuple, int or function
        The shape of the result, or a function that returns it for the arguments: ``lambda x, n: (n, len(x))``. A
        tuple of shapes means several results.
    dtype : dtype or function
        The dtype of the result, or a function that returns it: ``lambda x, n: x.dtype``. Several results may have a
        tuple of dtypes.
    kernel : function, optional
        The computation of one node, under ``numba.njit``; by default the definition. It has the parameters of the
        definition, and returns the results, or it has a further parameter for each: an array to be filled, of one
        element if the result has no axes. Arrays are contiguous, and arguments cannot be written to. Arguments
        without axes are numbers. It must be safe for any numbers, as Numba does not check indices.
    gradient : function, optional
        A function of the arguments, the results and the adjoints of the results, which returns a tuple with the
        adjoint of each argument, or None. It is written with arithmetic, NumPy's element-wise functions, sums and
        products, and operations made by `operation`.
    cuda : function, optional
        The computation of one node on a GPU, by one thread: a function that `numba.cuda` compiles, under
        ``numba.cuda.jit(device=True)`` or plain. It has the parameters of the definition and a further one for each
        result, as above. It cannot raise an exception: it returns True where it fails.
    pure : bool
        Whether equal calls in a mini-batch may be computed once, if the kernel cannot raise an exception.
    nanoseconds : int
        The time of a call, about, by which work is shared out to threads.

    Returns
    -------
    Operation

    Notes
    -----
    A kernel that raises an exception, or returns an array of another shape, fails its instance: the plain call of this
    instance then gives the exception. In the backward pass such a kernel gives NaN.
    """
    made = functools.partial(
        Operation, shape=shape, dtype=dtype, kernel=kernel, gradient=gradient, cuda=cuda, pure=pure,
        nanoseconds=nanoseconds,
    )  # fmt: skip
    return made if definition is None else made(definition)
