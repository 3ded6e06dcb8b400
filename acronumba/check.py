"""`Model.check`: the batched run against the plain call and a float64 run.

In: a mini-batch that has run. Out: a verdict per instance. The float64 run is the reference interpreter with every
float32 read as float64. With e the largest difference from it over an array and s that array's largest magnitude,
the batched result is *close* if e <= max(bound * s, 4 * the plain call's own e), where bound is 1e-5, or 1e-12 if
the result is float64 (1e-5 for a Python float if the model reads values of float32). Structure, integers, bools and
whether the instance fails must agree. Where something does not, but the plain call disagrees with the float64 run too,
or that run has decided by values that are nearer than the bound (`ir.nearness`), rounding cannot tell what is right,
and the verdict is *undecided*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.analysis.waits import waiting_functions
from acronumba.failures import ENDLESS
from acronumba.ir.interpret import InstanceFailure, Interpreter
from acronumba.ir.nearness import NUMBER, Exact
from acronumba.ir.nodes import Program, Read
from acronumba.ir.types import TensorT
from acronumba.results import equal, parts_of

VERDICTS = ("equal", "close", "undecided", "different")
BOUNDS = {"float32": 1e-5, "float64": 1e-12}
FACTOR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `check` found for one instance."""

    instance: int
    verdict: str  # one of VERDICTS
    error: float  # largest e of the batched result relative to s; 0 if equal
    plain_error: float  # the plain call's own
    where: str = ""  # the leaf with the largest error, or where the results differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Verdicts of a mini-batch."""

    model: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether no instance is different."""
        return all(v.verdict != "different" for v in self.verdicts)

    def count(self, verdict: str) -> int:
        """Return the number of instances with a verdict."""
        return sum(v.verdict == verdict for v in self.verdicts)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(v)} {v}" for v in VERDICTS if self.count(v)) or "no instances"
        lines = [f"{self.model}: {len(self.verdicts)} instances: {counts}"]
        worst = max(self.verdicts, key=lambda v: v.error, default=None)
        if worst is not None and worst.error:
            lines.append(
                f"  largest error [{worst.instance}]{worst.where}: {worst.error:.2e} of the magnitude "
                f"(plain: {worst.plain_error:.2e})"
            )
        for v in self.verdicts:
            if v.verdict in ("undecided", "different"):
                lines.append(f"  [{v.instance}]{v.where}: {v.verdict}")
        return "\n".join(lines)

    __repr__ = __str__


def check(fn: Callable[..., Any], columns: Sequence[Sequence[Any]], shared: Mapping[str, Any], done: Any) -> Check:
    """Compare a mini-batch that has run with the plain call.

    Parameters
    ----------
    fn : function
        The user's.
    columns, shared
        Its arguments.
    done : object
        With `results`, `errors`, `compiled` and `leaves` of the run.
    """
    out = []
    count = len(columns[0])
    exact = done.compiled.exact(done.leaves) if count and done.compiled else None
    for k in range(count):
        instance = [column[k] for column in columns]
        out.append(_instance(k, fn, instance, shared, done, exact))
    return Check(model=getattr(fn, "__qualname__", str(fn)), verdicts=tuple(out))


def _instance(
    k: int, fn: Callable[..., Any], instance: Sequence[Any], shared: Mapping[str, Any], done: Any, exact: Any
) -> Verdict:
    def verdict(text: str, error: float = 0.0, plain_error: float = 0.0, where: str = "") -> Verdict:
        return Verdict(instance=k, verdict=text, error=error, plain_error=plain_error, where=where)

    mine = done.errors.get(k)
    if getattr(mine, "code", "") in ENDLESS:
        return verdict("undecided", where=": the plain call would not come back either")
    try:
        with np.errstate(all="ignore"):
            plain = fn(*instance, **shared)
    except Exception as error:
        if isinstance(error, RecursionError) and not isinstance(mine, RecursionError):
            return verdict("undecided", where=": the plain call is too deep for Python")
        if mine is None:
            text = "different" if _fails(exact, instance, otherwise=True) else "undecided"
            return verdict(text, where=f": the plain call raises {type(error).__name__}, the batch does not")
        same = isinstance(mine, type(error)) or type(mine).__mro__[1:2] == (type(error),)
        return verdict("equal" if same else "different", where=f": {type(error).__name__}, {type(mine).__name__}")
    if mine is not None:
        # Overflow of 64 bits and data of another type than declared are failures of the batch alone.
        fine = isinstance(mine, OverflowError) or getattr(mine, "code", "") == "ACR701"
        text = "equal" if fine else "undecided" if _fails(exact, instance, otherwise=False) else "different"
        return verdict(text, where=f": the batch raises {type(mine).__name__}: {mine}")
    batched = done.results[k]
    if equal(batched, plain):
        return verdict("equal")
    try:
        wide = exact.run(list(instance))
    except InstanceFailure:
        wide = None
    single = _reads_single(done.compiled.program)
    near = _near(exact, single)
    text, e, plain_e, where = compare(batched, plain, wide, single=single, near=near > 0)
    if text == "undecided" and near:
        where += f": the float64 run decides by values that differ by {near:.0e} of their size"
    return verdict(text, e, plain_e, where)


def _near(exact: Exact, single: bool) -> float:
    """Return the distance of values that the last run has decided by, if rounding cannot tell them apart; else 0."""
    bounds = {**BOUNDS, NUMBER: BOUNDS["float32" if single else "float64"]}
    return min((d for kind, d in exact.nearest.items() if d <= bounds[kind]), default=0.0)


def _fails(exact: Interpreter | None, instance: Sequence[Any], *, otherwise: bool) -> bool:
    """Whether the float64 run of an instance fails; `otherwise` if no failure can depend on computed values."""
    if exact is None or not waiting_functions(exact.program):
        return otherwise
    try:
        exact.run(list(instance))
    except InstanceFailure:
        return True
    return False


def _reads_single(program: Program) -> bool:
    """Whether Python's numbers may come from tensors of float32."""
    return any(
        isinstance(i, Read) and i.tensor.type == TensorT("float32", ())
        for f in program.functions
        for b in f.blocks
        for i in b.instrs
    )


def compare(
    batched: Any, plain: Any, wide: Any, *, single: bool = False, near: bool = False
) -> tuple[str, float, float, str]:
    """Return verdict, relative error, the plain call's relative error, and the leaf where the error is largest.

    `single`: Python's floats may come from tensors of float32. `near`: the float64 run has decided by values that
    rounding cannot tell apart; types and dtypes must agree all the same.
    """
    mine, theirs, reference = list(leaves(batched)), list(leaves(plain)), list(leaves(wide))
    if _shape(mine, _kind) != _shape(theirs, _kind):
        form = _shape(theirs, _form)
        unsure = form != _shape(reference, _form) or (near and form != _shape(mine, _form))
        return ("undecided" if unsure else "different"), 0.0, 0.0, _first_difference(mine, theirs)
    if _shape(mine, _form) != _shape(reference, _form):
        return "undecided", 0.0, 0.0, ": the float64 run takes another way"
    worst, plain_worst, place = 0.0, 0.0, None
    for a, b, w in zip(mine, theirs, reference, strict=True):
        if not _is_float(a.value):
            if not np.array_equal(a.value, b.value):
                unsure = near or not np.array_equal(b.value, w.value)
                return ("undecided" if unsure else "different"), worst, plain_worst, str(a)
            continue
        e, e_plain, s = float_errors(a.value, b.value, w.value)
        narrow = single if type(a.value) is float else np.asarray(a.value).dtype == np.float32
        bound = BOUNDS["float32" if narrow else "float64"]
        if e / s >= worst:
            worst, plain_worst, place = e / s, e_plain / s, a
        if not e <= max(bound * s, FACTOR * e_plain):
            return ("undecided" if near else "different"), e / s, e_plain / s, str(a)
    return "close", worst, plain_worst, str(place or "")


def float_errors(a: Any, b: Any, w: Any) -> tuple[float, float, float]:
    """Return e of `a`, e of `b` and s, all against the float64 values `w`.

    Infinities and NaN must be the same in `a` as in `b`; they count as equal and are left out of e and s.
    """
    a, b, w = (np.asarray(x, np.float64) for x in (a, b, w))
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf, 0.0, 1.0
    both = finite & np.isfinite(w)
    if not both.any():
        return 0.0, 0.0, 1.0
    a, b, w = a[both], b[both], w[both]
    scale = float(np.max(np.abs(w)))
    return float(np.max(np.abs(a - w))), float(np.max(np.abs(b - w))), scale or 1.0


class Leaf:
    """A part of a result: an array, a number, a bool, an enum, None, or the head of a container, (class, length)."""

    __slots__ = ("step", "up", "value")

    def __init__(self, up: Leaf | None, step: str, value: Any) -> None:
        self.up = up  # the container
        self.step = step  # from it: ".left", "[3]"
        self.value = value

    def __str__(self) -> str:
        steps = []
        leaf: Leaf | None = self
        while leaf is not None:
            steps.append(leaf.step)
            leaf = leaf.up
        return "".join(reversed(steps))


def leaves(value: Any) -> Iterator[Leaf]:
    """Yield the parts of a result, containers before what is in them. Objects and lists met twice are entered once."""
    seen: set[int] = set()
    stack: list[tuple[Leaf | None, str, Any]] = [(None, "", value)]
    while stack:
        up, step, v = stack.pop()
        parts = parts_of(v)
        if parts is None:
            yield Leaf(up, step, v)
        elif id(v) in seen and not isinstance(v, tuple):
            yield Leaf(up, step, "again")
        else:
            seen.add(id(v))
            head = Leaf(up, step, (type(v), len(parts)))
            yield head
            stack += [(head, name, part) for name, part in reversed(parts)]


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f")


def _kind(x: Any) -> Any:
    """What must be alike in the batched and the plain result."""
    if isinstance(x, np.ndarray | np.generic):
        return type(x), x.dtype, x.shape
    return x if isinstance(x, tuple) else type(x)


def _form(x: Any) -> Any:
    """What must be alike in the float64 run: dtypes are others there."""
    return x[1] if isinstance(x, tuple) else (np.shape(x), x is None)


def _shape(parts: Sequence[Leaf], of: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    return [(leaf.step, of(leaf.value)) for leaf in parts]


def _first_difference(a: Sequence[Leaf], b: Sequence[Leaf]) -> str:
    for x, y in zip(a, b, strict=False):
        if x.step != y.step or _kind(x.value) != _kind(y.value):
            return f"{x}: {_kind_text(x.value)} in place of {_kind_text(y.value)}"
    return f": {len(a)} parts in place of {len(b)}"


def _kind_text(x: Any) -> str:
    if isinstance(x, np.ndarray | np.generic):
        return f"{'array' if isinstance(x, np.ndarray) else 'scalar'} {x.dtype}{list(x.shape)}"
    return f"{x[0].__name__} of {x[1]}" if isinstance(x, tuple) else type(x).__name__
