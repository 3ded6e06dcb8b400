"""`Model.check`: the batched run against the plain call, with a float64 run along it.

In: a mini-batch that has run. Out: a verdict per instance. The float64 run is the user's own function with a second
value of float64 beside each float (`acronumba.api.shadow`); no compiled code takes part in it. With e the largest
difference from it over an array and s the largest magnitude there (without constants that mask, see `float_errors`),
the batched result is *close* if e <= max(bound * s, 4 * the plain call's own e), where bound is 1e-5, or 1e-12 if the
result is float64 and the model meets no values of float32. Structure, integers, bools and whether the instance fails
must agree. If `Options.precision` rounds the factors of matrix products, the float64 run rounds them, too, so that the
plain call's own e is what the precision costs, of which the largest of the mini-batch counts; and bound is the rounding
of a factor. Otherwise it is *different*, with three exceptions, which are *undecided*: the user's function gives the
batched result if decisions between values that rounding cannot separate are flipped; or the batch is as near to float64
as the plain call is, but both are so far from it that the two differ by more than 1000 times the bound; or the batch
fails where a plain call may not terminate.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api import shadow
from acronumba.api.failures import is_final, is_unordered
from acronumba.api.meter import Endless
from acronumba.api.plain import Along, PlainCall
from acronumba.api.reference import Outcome
from acronumba.api.results import Done, equal, parts_of
from acronumba.api.shadow import FACTOR
from acronumba.compressed import Compressed
from acronumba.config import PRECISIONS
from acronumba.data.shared import nodes_of
from acronumba.errors import DataError
from acronumba.foreign import TensorArray, comparable
from acronumba.generics import Value
from acronumba.ir.evaluate import factors, rounding
from acronumba.pipeline.failures import TOO_MANY_STEPS

if TYPE_CHECKING:
    from acronumba.api.dispatch import Batched

VERDICTS = ("equal", "close", "undecided", "different")
LOST = 1000.0  # bounds that the batch and the plain call may differ by, whatever the plain call's own error is


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of `check` for one instance."""

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
    compressed: tuple[str, ...] = ()  # shared values in fewer bits: "p.w (int8)"
    precision: str = "float32"  # of the factors of matrix products; with another one errors are from rounded factors

    @property
    def ok(self) -> bool:
        """Whether no instance is different."""
        return all(v.verdict != "different" for v in self.verdicts)

    def count(self, verdict: str) -> int:
        """Return the number of instances with a verdict."""
        return sum(v.verdict == verdict for v in self.verdicts)

    def __str__(self) -> str:
        from acronumba.views.words import counted

        counts = ", ".join(f"{self.count(v)} {v}" for v in VERDICTS if self.count(v)) or "no instances"
        lines = [f"{self.model}: {counted(len(self.verdicts), 'instance')}: {counts}"]
        worst = max(self.verdicts, key=lambda v: v.error, default=None)
        if worst is not None and worst.error:
            lines.append(
                f"  largest error [{worst.instance}]{worst.where}: {worst.error:.2e} of the magnitude "
                f"(plain: {worst.plain_error:.2e})"
            )
        if self.precision != "float32":
            cost = max((v.plain_error for v in self.verdicts), default=0.0)
            lines.append(f"  factors of matrix products are {self.precision}: that changes {cost:.2e} of the magnitude")
        if self.compressed:
            names = ", ".join(self.compressed)
            lines.append(f"  in fewer bits, in the plain call, too: {names}; see `compression.difference`")
        for v in self.verdicts:
            if v.verdict in ("undecided", "different"):
                lines.append(f"  [{v.instance}]{v.where}: {v.verdict}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from acronumba.views.explorer.summary import table_summary

        told = sorted(self.verdicts, key=lambda v: -v.error)
        rows = [(str(v.instance), v.verdict, f"{v.error:.2e}", f"{v.plain_error:.2e}", v.where) for v in told]
        heads = ("instance", "verdict", "error", "error of the plain call", "where")
        words = str(self).splitlines()[0].removeprefix(f"{self.model}: ")
        return {"text/plain": str(self), "text/html": table_summary(self.model, words, heads, rows)}


def check(model: Batched, columns: Sequence[Sequence[Any]], shared: Mapping[str, Any], done: Done) -> Check:
    """Compare a mini-batch that has run with the plain call.

    Parameters
    ----------
    model : Model
    columns, shared
        Its arguments.
    done : Done
        The run.
    """
    count = len(columns[0])
    out: list[Verdict] = []
    small: list[str] = []
    options = model.options
    if done.compiled is not None:
        nodes = (node for root in done.compiled.tree.roots.values() for node in nodes_of(root))
        small = [f"{node.path} ({node.cls.kind})" for node in nodes if issubclass(node.cls, Compressed)]
        options = done.compiled.options
    precision = options.precision_on(model.device)
    if count:
        plain = model._plain_call(shared, options)
        of_instance = Checker(plain, done.results, done.errors, options.max_steps, PRECISIONS[precision])
        out = [of_instance(k, [column[k] for column in columns]) for k in range(count)]
        if precision != "float32":  # one number may be lucky where the plain call is rounded
            of_instance.cost = max(v.plain_error for v in out)
            out = [
                of_instance(v.instance, [c[v.instance] for c in columns]) if v.verdict == "different" else v
                for v in out
            ]
    return Check(
        model=model.__qualname__, verdicts=tuple(out), compressed=tuple(small), precision=precision
    )  # fmt: skip


class Checker:
    """Gives verdicts on the instances of a mini-batch.

    Parameters
    ----------
    call : PlainCall
        The plain call of the user's function.
    results, errors
        Results of the batch by instance, and exceptions by number of instance.
    max_steps : int
        Limit of steps of the compiled code per instance.
    bits : int
        Of the factors of matrix products.
    """

    def __init__(
        self, call: PlainCall, results: Sequence[Value], errors: Mapping[int, BaseException], max_steps: int,
        bits: int = 24,
    ) -> None:  # fmt: skip
        self._plain = call
        self._bits = bits
        self.cost = 0.0  # of fewer bits: a known e of a plain call, relative to its s
        self._results = results
        self._errors = errors
        self._few = max_steps // _STEPS
        self._made: Along | None = None

    @property
    def _reference(self) -> Along:
        if self._made is None:
            self._made = self._plain.reference()
        return self._made

    def __call__(self, k: int, instance: Sequence[Value]) -> Verdict:
        """Return the verdict on instance `k`."""
        with rounding(self._bits):
            return self._verdict(k, instance)

    def _verdict(self, k: int, instance: Sequence[Value]) -> Verdict:

        def verdict(text: str, error: float = 0.0, plain_error: float = 0.0, where: str = "") -> Verdict:
            return Verdict(instance=k, verdict=text, error=error, plain_error=plain_error, where=where)

        mine = self._errors.get(k)
        if isinstance(mine, DataError):
            if mine.instance == k and mine.path.startswith(f"[{k}]"):  # an error of packing, as the batch promises
                return verdict("equal", where=f": {type(mine).__name__}: {mine}")
        elif mine is not None and is_final(mine):
            return verdict(*self._final(instance, mine))
        elif mine is not None and is_unordered(mine):
            return verdict("undecided", where=f": the batch raises {type(mine).__name__}: {mine}")
        try:
            expected = self._plain.run(instance)
        except Endless as stopped:
            return verdict("different", where=f": the plain call does not end: {stopped}")
        except BaseException as error:
            if not isinstance(error, Exception) and type(error) is not type(mine):
                raise
            if isinstance(error, RecursionError) and not isinstance(mine, RecursionError):
                return verdict("undecided", where=": the plain call is too deep for Python")
            if mine is not None and _same_failure(mine, error):
                return verdict("equal", where=f": {type(error).__name__}")
            text = f": the plain call raises {type(error).__name__}, the batch "
            text += "does not" if mine is None else f"raises {type(mine).__name__}: {mine}"
            return verdict(self._otherwise(k, instance), where=text)
        if mine is not None:
            where = f": the batch raises {type(mine).__name__}: {mine}"
            return verdict(self._otherwise(k, instance), where=where)
        batched = self._results[k]
        if equal(batched, expected):
            return verdict("equal")
        along = self._along(instance, expected)
        wide, single = (expected, False) if along is None else (along.result, along.single)
        text, e, plain_e, where = compare(batched, expected, wide, single=single, cost=self.cost)
        if text == "different" and along is None and compare(batched, expected, wide, single=True)[0] != text:
            text = "undecided"  # the presence of float32 values is unknown
        if text == "different" and along is not None:
            text, note = self._otherwise(k, instance, along), where
            where = note + (
                f": rounding decides (values {along.nearest:.0e} of their size apart)" if text != "different" else ""
            )
        return verdict(text, e, plain_e, where)

    def _final(self, instance: Sequence[Value], mine: BaseException) -> tuple[str, float, float, str]:
        """Return the verdict where the plain call may not terminate (see `is_final`).

        One C call may exhaust memory, or build a huge int: then the plain call is not run. If the compiled code only
        took too many steps, the float64 run goes first: it also counts the steps of a `range`.
        """
        where = f": the batch raises {type(mine).__name__}: {mine}; the plain call may not end, so there was none"
        unsure = "undecided", 0.0, 0.0, where
        if getattr(mine, "code", "") != TOO_MANY_STEPS:
            return unsure
        try:
            found = self._reference.run(instance, steps=self._few)
            if isinstance(found.error, RecursionError | MemoryError):
                return unsure
            if found.error is not None:
                replace(self._plain, steps=self._few).run(instance)
        except (Endless, RecursionError, MemoryError):
            return unsure
        except Exception as error:
            return "different", 0.0, 0.0, f": the plain call raises {type(error).__name__} after few steps"
        return "different", 0.0, 0.0, ": the plain call ends after few steps"

    def _along(self, instance: Sequence[Value], expected: Value) -> Outcome | None:
        """Return the float64 run along a plain call, or None if its result is not that of the plain call."""
        found = self._run(instance)
        if found is None or found.error is not None:
            return None
        return found if compare(expected, found.result, found.result)[0] == "close" else None

    def _run(self, instance: Sequence[Value], flips: frozenset[int] = frozenset()) -> Outcome | None:
        try:
            return self._reference.run(instance, flips)
        except Endless:
            return None

    def _otherwise(self, k: int, instance: Sequence[Value], base: Outcome | None = None) -> str:
        """Return "undecided" if flipped decisions between near values give the batched result, else "different".

        Decisions are flipped one at a time, then combinations of those that change the outcome. With too many to try
        all, the verdict is "undecided".
        """
        base = base or self._run(instance)
        waiting = deque([(frozenset[int](), base)] if base is not None else [])
        tried = 0
        while waiting:
            flips, before = waiting.popleft()
            for choice in range(max(flips, default=-1) + 1, before.choices):
                if tried == _TRIES:
                    return "undecided"
                tried += 1
                flipped = flips | {choice}
                found = self._run(instance, flipped)
                if found is None:
                    continue
                if self._fits(k, found):
                    return "undecided"
                if not _alike(before, found):
                    waiting.append((flipped, found))
        return "different"

    def _fits(self, k: int, found: Outcome) -> bool:
        """Whether the batch's outcome for instance `k` is that of a run."""
        mine = self._errors.get(k)
        if mine is not None or found.error is not None:
            return mine is not None and found.error is not None and _same_failure(mine, found.error)
        return (
            compare(self._results[k], found.result, found.result, single=found.single, cost=self.cost)[0] != "different"
        )


_STEPS = 10_000  # of the machine, in one line of Python at most (a line may go over a list)
_TRIES = 100  # runs with other decisions, at most


def _alike(a: Outcome, b: Outcome) -> bool:
    """Whether two runs have the same outcome, except for rounding."""
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error)
    return compare(b.result, a.result, a.result, single=a.single)[0] == "close"


def _same_failure(mine: BaseException, theirs: BaseException) -> bool:
    return isinstance(mine, type(theirs)) or type(mine).__mro__[1:2] == (type(theirs),)


def compare(
    batched: Value, plain: Value, wide: Value, *, single: bool = False, cost: float = 0.0
) -> tuple[str, float, float, str]:
    """Return verdict, relative error, the plain call's relative error, and the leaf where the error is largest.

    Parameters
    ----------
    batched, plain, wide
        Results of the batch and of the plain call, and the reference: the same result in float64, or shadow arrays of
        it (`acronumba.api.shadow`).
    single : bool
        Values of float64, and Python's floats, may come from values of float32.
    cost : float
        An e of a plain call, relative to its s, beside that of this one.
    """
    parts = list(together(batched, plain, wide))
    for a, b, _ in parts:
        if _kind(a.value) != _kind(b.value):
            unsure = any(_form(theirs.value) != _form(w.value) for _, theirs, w in parts)
            where = f"{a}: {_kind_text(a.value)} in place of {_kind_text(b.value)}"
            return ("undecided" if unsure else "different"), 0.0, 0.0, where
    if any(_form(a.value) != _form(w.value) for a, _, w in parts):
        return "undecided", 0.0, 0.0, ": the float64 run takes another way"
    worst, plain_worst, place, lost = 0.0, 0.0, None, False
    for a, b, w in parts:
        if isinstance(a.value, tuple):
            continue
        mine_, plain_, wide_ = shadow.narrow(a.value), shadow.narrow(b.value), shadow.wide(w.value)
        text = isinstance(mine_, str) and mine_ != plain_
        if text:
            mine_, plain_, wide_ = _numbers_in(mine_, plain_, wide_)
        if not _is_float(mine_):
            if not np.array_equal(mine_, plain_):
                unsure = not np.array_equal(plain_, wide_)
                return ("undecided" if unsure else "different"), worst, plain_worst, str(a)
            continue
        narrow = single or np.asarray(mine_).dtype == np.float32
        e, e_plain, s = float_errors(mine_, plain_, wide_, single=narrow)
        bound = shadow.bound(narrow, factors.bits)
        if e / s >= worst:
            worst, plain_worst, place = e / s, e_plain / s, a
        if not e <= max(bound * s, FACTOR * e_plain, FACTOR * cost * s):
            unsure = text and e <= LOST * bound * s  # a text has no float64 value that tells how inexact it is
            return ("undecided" if unsure else "different"), e / s, e_plain / s, str(a)
        lost = lost or float_errors(mine_, plain_, plain_)[0] > LOST * bound * s
    if lost:
        return "undecided", worst, plain_worst, f"{place}: rounding alone moves the plain call too far to compare with"
    return "close", worst, plain_worst, str(place or "")


_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")


def _numbers_in(*texts: str) -> tuple[Value, ...]:
    """Return the numbers in texts that are alike but for these; other texts as they are."""
    if len({_NUMBER.sub("", t) for t in texts}) > 1 or len({len(_NUMBER.findall(t)) for t in texts}) > 1:
        return texts
    return tuple(np.array([float(v) for v in _NUMBER.findall(t)]) for t in texts)


def float_errors(a: Value, b: Value, w: Value, *, single: bool = False) -> tuple[float, float, float]:
    """Return e of `a`, e of `b` and s, all against the float64 values `w`.

    Infinities and NaN must be the same in `a` as in `b`; they count as equal and are left out of e and s. Where `w`
    alone is not finite, `b` is the reference.

    In results of float32 (`single`), elements that are equal in all three are also left out if others are rounded: a
    large masking constant would hide the errors of the others. Two runs in float64 give no sign of which elements are
    rounded.
    """
    a, b, w = (np.asarray(x, np.float64) for x in (a, b, w))
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf, 0.0, 1.0
    w = np.where(np.isfinite(w), w, b)
    if not finite.any():
        return 0.0, 0.0, 1.0
    if single and np.any((b != w) & finite):
        finite &= ~((a == b) & (b == w))
    a, b, w = a[finite], b[finite], w[finite]
    scale = float(np.max(np.abs(w)))
    return float(np.max(np.abs(a - w))), float(np.max(np.abs(b - w))), scale or 1.0


class Leaf:
    """A part of a result: an array, a number, a bool, an enum, None, or the head of a container, (class, names)."""

    __slots__ = ("step", "up", "value")

    def __init__(self, up: Leaf | None, step: str, value: Value) -> None:
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


def together(*values: Value) -> Iterator[tuple[Leaf, ...]]:
    """Yield tuples of corresponding parts of the results, containers before their contents.

    Containers that differ in class, length or keys are not entered, and the same combination is not entered twice:
    results may share objects, and contain themselves.
    """
    seen: set[tuple[int, ...]] = set()
    stack: list[tuple[tuple[Leaf | None, str, Value], ...]] = [tuple((None, "", v) for v in values)]
    while stack:
        row = stack.pop()
        found = [parts_of(v) for _, _, v in row]
        leaves = tuple(
            Leaf(up, step, comparable(v) if parts is None else (shadow.class_of(v), tuple(name for name, _ in parts)))
            for (up, step, v), parts in zip(row, found, strict=True)
        )
        yield leaves
        insides = [parts for parts in found if parts is not None]
        key = tuple(id(v) for _, _, v in row)
        if len(insides) == len(row) and len({leaf.value[1] for leaf in leaves}) == 1 and key not in seen:
            seen.add(key)
            for inside in reversed(list(zip(*insides, strict=True))):
                stack.append(tuple((leaf, *part) for leaf, part in zip(leaves, inside, strict=True)))


def _is_float(x: Value) -> bool:
    return isinstance(x, float) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f")


def _kind(x: Value) -> Value:
    """Key: the batched and the plain part must have equal keys."""
    x = shadow.narrow(x) if not isinstance(x, tuple) else x
    if isinstance(x, np.ndarray | np.generic):
        return type(x), x.dtype, x.shape
    return x if isinstance(x, tuple) else type(x)


def _form(x: Value) -> Value:
    """Key: a part and its float64 counterpart must have equal keys, whose dtypes may differ."""
    return x[1] if isinstance(x, tuple) else (np.shape(shadow.narrow(x)), x is None)


def _kind_text(x: Value) -> str:
    if isinstance(x, TensorArray):
        return f"tensor {x.dtype}{list(x.shape)}"
    if isinstance(x, np.ndarray | np.generic):
        return f"{'array' if isinstance(x, np.ndarray) else 'scalar'} {x.dtype}{list(x.shape)}"
    return f"{x[0].__name__} of {len(x[1])}" if isinstance(x, tuple) else type(x).__name__
