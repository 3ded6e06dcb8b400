"""Parameters in fewer bits: `compress`, its errors (`report`), the change of results (`difference`), and `Pooled`.

In: parameters of float32, or results. Out: the same structure with `Compressed` arrays; tables of errors and bytes.
`Pooled` trains parameters that are made of pools of vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import numpy as np

from acronumba.api.check import float_errors, together
from acronumba.compressed import (
    BITS,
    GROUP,
    KINDS,
    POOL,
    Compressed,
    Int8,
    OfCodes,
    Pool,
    largest_code,
    nearest,
    summed,
)
from acronumba.errors.codes import reject
from acronumba.memory import Array
from acronumba.optim import Optimiser
from acronumba.storage import assembled, leaves, named, replaced

__all__ = ["ArrayReport", "Difference", "Pooled", "Report", "difference", "report", "with_bits"]

Params = TypeVar("Params")


def compress(
    params: Params, kind: str = "int8", *, skip: str | Sequence[str] = (), bits: int | None = None,
    vectors: int | None = None,
) -> Params:  # fmt: skip
    """Return parameters of the same structure with matrices in fewer bits, which models accept in place of `params`.

    Matrices of float32 (arrays of two axes) are compressed. Everything else is unchanged, and shared with `params`.

    Parameters
    ----------
    params : object
        Any nesting of dataclasses, NamedTuples, dicts with string keys, tuples and lists of arrays and numbers.
    kind : str
        "int8": whole numbers of 8 bits, with a scale for each row. Products with float32 (`w @ x`, `x @ w.T`) round the
        other operand, too, each row of it by its own largest magnitude. "bf16": the upper 16 bits of each float;
        products are those of float32. "pool": every 8 adjacent elements of a row are the index of a vector in the
        array's pool; products are those of "int8". Of little use without `compression.Pooled`.
    skip : str or sequence of str
        Names of arrays to leave unchanged, as `leaves` gives them; ``*`` stands for any letters: ``"*.embed"``.
    bits : int, optional
        For "int8" and "pool", 2 to 8 (the default): bits to which products round the other operand; see `with_bits`.
    vectors : int, optional
        For "pool", 1 to 256 (the default). With 64 or fewer, sums are looked up on CPUs with fast lookups.

    Returns
    -------
    object
        Of the structure of `params`.

    Raises
    ------
    TypeMismatch
        If the kind or its number of bits or vectors is unknown, nothing can be compressed, something is compressed
        already, a name in `skip` fits no array, or an array holds NaN or infinities.

    Examples
    --------
    >>> import numpy as np
    >>> from acronumba import compress
    >>> small = compress({"w": np.ones((64, 64), np.float32), "b": np.zeros(64, np.float32)})
    >>> small["w"].nbytes
    4360
    """
    make, options = _kind(kind, {"bits": bits, "vectors": vectors})
    given = _not_compressed(params)
    patterns = _patterns(list(given), skip)
    found: list[str] = []

    def one(name: str, array: Array) -> Any:
        matrix = array.dtype == np.float32 and array.ndim == 2 and array.size
        if not matrix or any(fnmatchcase(name, p) for p in patterns):
            return given[name] if array.ndim else array
        found.append(name)
        return _made(make, name, array, options)

    small = assembled(params, one)
    if not found:
        raise reject("ACR706", message="there is no matrix of float32 to compress", seen=", ".join([*given][:20]))
    return small


def _not_compressed(params: object) -> dict[str, Any]:
    """Return the arrays and numbers of parameters by name; raise if one is compressed."""
    given = dict(named(params))
    already = next((name for name, v in given.items() if isinstance(v, Compressed)), None)
    if already is not None:
        raise reject("ACR706", message=f"`{already}` is compressed already", rewrite="pass the original parameters")
    return given


def _kind(kind: str, given: Mapping[str, int | None]) -> tuple[type[Compressed], dict[str, int]]:
    """Return the class of a kind of weights, and the choices that are given."""
    make = KINDS.get(kind)
    if make is None:
        raise reject("ACR706", message=f"there is no kind {kind!r} of weights", rewrite=f"one of: {', '.join(KINDS)}")
    return make, {name: _number(name, x, make) for name, x in given.items() if x is not None}


def _number(name: str, x: object, make: type[Compressed]) -> int:
    """Return the value of a choice of a kind of weights, validated."""
    if name not in make.choices:
        raise reject("ACR706", message=f"weights of kind {make.kind!r} have no `{name}`", rewrite=f"leave out `{name}`")
    least, most = {"bits": BITS, "vectors": (1, POOL)}[name]
    if isinstance(x, bool) or not isinstance(x, int | np.integer) or not least <= x <= most:
        raise reject("ACR706", message=f"`{name}` is {x!r}", rewrite=f"a whole number from {least} to {most}")
    return int(x)


def _made(make: type[Compressed], name: str, array: Array, options: Mapping[str, int]) -> Compressed:
    """Return an array in fewer bits."""
    if not np.isfinite(array).all():
        raise reject("ACR706", message=f"`{name}` holds NaN or infinities", rewrite=f'skip="{name}"')
    if (wrong := make.unfit(array, **{k: n for k, n in options.items() if k == "vectors"})) is not None:
        raise reject("ACR706", message=f"`{name}` cannot be {make.kind}: {wrong}", rewrite=f'skip="{name}"')
    return make.of(array, **options)


def with_bits(small: Params, bits: int) -> Params:
    """Return compressed parameters whose products round the other operand to `bits` bits.

    Models accept them like `small`: nothing is compiled, and the weights are not packed again.

    Parameters
    ----------
    small : object
        The result of `compress`.
    bits : int
        2 to 8.

    Returns
    -------
    object
        Of the structure of `small`, with the same arrays.

    Raises
    ------
    TypeMismatch
        If the number of bits is not allowed, or no array is of "int8" or "pool".

    Examples
    --------
    >>> import numpy as np
    >>> from acronumba import compress, compression
    >>> small = compress({"w": np.ones((64, 64), np.float32)})
    >>> compression.with_bits(small, 4)["w"].bits
    4
    """
    most = largest_code(_number("bits", bits, OfCodes))
    given = dict(named(small))
    if not any(isinstance(v, Int8 | Pool) for v in given.values()):
        raise reject("ACR706", message="no array has integer weights", rewrite="with_bits(compress(p), 6)")

    return replaced(small, lambda name, v: replace(v, most=most) if isinstance(v, Int8 | Pool) else v)


def _patterns(names: Sequence[str], skip: str | Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of `skip`; raise if one matches no name."""
    patterns = (skip,) if isinstance(skip, str) else tuple(skip)
    idle = [p for p in patterns if not any(fnmatchcase(name, p) for name in names)]
    if idle:
        raise reject("ACR706", message=f"`skip` names no array: {', '.join(map(repr, idle))}",
                     rewrite=f"of these: {', '.join(names[:20])}")  # fmt: skip
    return patterns


class Pooled:
    """Trains parameters with matrices built from pools of vectors: the weight pools of Li & Gupta 2022.

    The gradient is straight-through: that of a matrix updates the float32 matrix behind it, which determines the choice
    of vectors, and each vector of the pool is updated by the sum over the elements that use it.

    Parameters
    ----------
    params : object
        Initial parameters, as for `compress`. They are copied; an array that is reached by two paths becomes two.
    skip : str or sequence of str
        Names of arrays without a pool.
    every : int
        Number of steps after which the nearest vectors are chosen anew.
    vectors : int
        Of each pool.

    Attributes
    ----------
    params : object
        Parameters for the loss: arrays of float32, made of the pools, and changed in place.
    trained : dict
        Parameters for the optimiser: `"params"`, of the structure of `params`, and `"pools"`, arrays by name. `save`
        and `training.checkpoint` accept it; call `choose` after it has been read back.

    Raises
    ------
    TypeMismatch
        As of `compress`.

    Examples
    --------
    >>> pooled = compression.Pooled(p, skip="w_out")  # doctest: +SKIP
    >>> for trees, labels in batches:  # doctest: +SKIP
    ...     value, grads = loss.value_and_grad.batch(trees, labels, p=pooled.params)
    ...     pooled.update(opt, grads)
    >>> small = pooled.compressed()  # doctest: +SKIP
    """

    def __init__(self, params: Any, *, skip: str | Sequence[str] = (), every: int = 10, vectors: int = POOL) -> None:
        pooled = compress(params, "pool", skip=skip, vectors=vectors)
        small = {n: v for n, v in named(pooled) if isinstance(v, Pool)}
        behind = assembled(params, lambda name, array: array.copy())
        self.params = assembled(behind, lambda name, array: small[name].whole() if name in small else array.copy())
        pools = {name: v.pool.astype(np.float32) * v.scale for name, v in small.items()}
        self.trained = {"params": behind, "pools": pools}
        self._every, self._index = every, {name: v.index for name, v in small.items()}

    def update(self, opt: Optimiser, grads: object) -> None:
        """Change parameters and pools in place.

        Parameters
        ----------
        opt : Optimiser
            An optimiser of `acronumba.optim`; its state is for `trained`.
        grads : object
            Gradients of `params`, as `value_and_grad` returns them.
        """
        of = {name: np.asarray(g).reshape(-1, GROUP) for name, g in leaves(grads) if name in self._index}
        sums = {}
        for name, g in of.items():
            found, _ = summed(g, self._index[name].reshape(-1), len(self.trained["pools"][name]))
            sums[name] = found.astype(np.float32)
        opt.update(self.trained, {"params": grads, "pools": sums})
        if opt.state["step"] % self._every == 0:
            self.choose()
        else:
            self._make()

    def choose(self) -> None:
        """Assign the nearest vectors again, and build `params` from them."""
        behind = dict(named(self.trained["params"]))
        for name, index in self._index.items():
            found = nearest(behind[name].reshape(-1, GROUP), self.trained["pools"][name])
            self._index[name] = found.reshape(index.shape)
        self._make()

    def _make(self) -> None:
        """Recompute `params` from `trained`."""
        pools = self.trained["pools"]
        for (name, array), (_, behind) in zip(leaves(self.params), leaves(self.trained["params"]), strict=True):
            array[...] = Pool.made_of(self._index[name], pools[name]).whole() if name in pools else behind

    def compressed(self) -> Any:
        """Return compressed parameters of the structure of `params`, as by `compress`, without shared memory."""
        pools = self.trained["pools"]

        def one(name: str, array: Array) -> Any:
            return Pool.made_of(self._index[name].copy(), pools[name]) if name in pools else array.copy()

        return assembled(self.params, one)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayReport:
    """Size and error of a compressed array."""

    name: str
    kind: str
    shape: tuple[int, ...]
    before: int  # bytes
    after: int
    largest: float  # error of an element, relative to the largest magnitude in the array
    mean: float  # root of the mean square of the errors, relative to that of the elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Sizes and errors of compressed parameters.

    Attributes
    ----------
    arrays : tuple of ArrayReport
        The compressed arrays.
    before, after : int
        Bytes of all arrays, in memory and in a file.
    """

    arrays: tuple[ArrayReport, ...]
    before: int
    after: int

    def __str__(self) -> str:
        rows = [("array", "kind", "shape", "bytes", "error", "mean error")]
        rows += [
            (a.name, a.kind, "x".join(map(str, a.shape)), f"{a.before:,} -> {a.after:,}", f"{a.largest:.1e}",
             f"{a.mean:.1e}")
            for a in self.arrays
        ]  # fmt: skip
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(t.ljust(n) for t, n in zip(row, wide, strict=True)).rstrip() for row in rows]
        times = f"{self.before / max(1, self.after):.2f} times smaller"
        return "\n".join([*lines, f"all arrays: {self.before:,} -> {self.after:,} bytes, {times}"])

    __repr__ = __str__


def report(params: object, small: object) -> Report:
    """Return the sizes and errors of compressed parameters.

    Parameters
    ----------
    params : object
        The parameters in float32.
    small : object
        The result of `compress` for `params`.

    Returns
    -------
    Report
        Prints as a table.
    """
    rows = []
    before = after = 0
    of = dict(named(params))
    for name, value in named(small):
        if name not in of or np.shape(of[name]) != np.shape(value):
            raise reject("ACR706", message=f"`{name}` is not the same array in both", rewrite="report(p, compress(p))")
        array = np.asarray(of[name])
        before += array.nbytes
        after += value.nbytes if isinstance(value, Compressed) else np.asarray(value).nbytes
        if isinstance(value, Compressed):
            wide = array.astype(np.float64)
            error = np.abs(value.whole() - wide)
            rows.append(ArrayReport(
                name=name, kind=value.title, shape=array.shape, before=array.nbytes, after=value.nbytes,
                largest=float(error.max() / (np.abs(wide).max() or 1.0)),
                mean=float(np.sqrt(np.square(error).mean() / (np.square(wide).mean() or 1.0))),
            ))  # fmt: skip
    return Report(arrays=tuple(rows), before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Differences of two lists of results.

    Attributes
    ----------
    instances : int
    largest : float
        Difference of two floats, relative to the largest magnitude in their array.
    where : str
        The instance, and the part of its result, with that difference.
    others : tuple of int
        Instances that differ in integers, bools or structure.
    chosen : tuple of int
        Instances in whose arrays of floats another element is the largest.
    """

    instances: int
    largest: float
    where: str
    others: tuple[int, ...]
    chosen: tuple[int, ...]

    def __str__(self) -> str:
        lines = [f"{self.instances} instances: largest difference {self.largest:.1e} of the magnitude, at {self.where}"]
        for text, some in (("other integers or structure", self.others), ("another largest element", self.chosen)):
            if some:
                lines.append(f"  {text}: {len(some)} of {self.instances}")
        return "\n".join(lines)

    __repr__ = __str__


def difference(before: Sequence[Any], after: Sequence[Any]) -> Difference:
    """Return the differences between results of compressed and of float32 parameters.

    Parameters
    ----------
    before, after : sequence
        Results of the same instances: ``model.batch(xs, p=p)`` and ``model.batch(xs, p=compress(p))``.

    Returns
    -------
    Difference
        Prints as a line or two.
    """
    if len(before) != len(after):
        raise reject("ACR706", message=f"{len(before)} results and {len(after)}", rewrite="of the same instances")
    largest, where = 0.0, "none"
    others: dict[int, None] = {}
    chosen: dict[int, None] = {}
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        for old, new in together(a, b):
            x, y = old.value, new.value
            if isinstance(x, tuple) or isinstance(y, tuple) or not _is_float(x) or np.shape(x) != np.shape(y):
                same = x == y if isinstance(x, tuple) or isinstance(y, tuple) else np.array_equal(x, y)
                others.update({} if same else {k: None})
                continue
            if not np.size(x):
                continue
            error, _, size = float_errors(y, x, x)
            if error / size >= largest:
                largest, where = error / size, f"[{k}]{old}"
            if np.size(x) > 1 and np.argmax(x) != np.argmax(y):
                chosen[k] = None
    return Difference(instances=len(before), largest=largest, where=where, others=tuple(others), chosen=tuple(chosen))


def _is_float(x: object) -> bool:
    return isinstance(x, float) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f")
