"""Steps of optimisers: compiled loops that update arrays in place.

In: a name of `RULES`, contiguous arrays of float32 or float64, the numbers of the rule. Out: the arrays updated element
by element. An element's new value depends on its old values alone, so the number of threads changes no bit; the sum of
squares is added up in pieces of a fixed length, in order.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from acronumba.emit import target, tree
from acronumba.emit.compile import Compiled, Deferred, load
from acronumba.emit.parse import parse
from acronumba.memory import Array, Words, address
from acronumba.runtime.threads import available_threads

# Of each rule the numbers at `with_`, the arrays it takes, and what it does with an element of each. Those that it
# assigns to are stored again.
RULES: dict[str, tuple[str, str, str]] = {
    "descend": (
        "rate decay",
        "w g",
        """
        w = w - rate * (g + decay * w)
        """,
    ),
    "momentum": (
        "rate decay momentum",
        "w g m",
        """
        m = momentum * m + (g + decay * w)
        w = w - rate * m
        """,
    ),
    "nesterov": (
        "rate decay momentum",
        "w g m",
        """
        d = g + decay * w
        m = momentum * m + d
        w = w - rate * (d + momentum * m)
        """,
    ),
    "adam": (
        "rate keep first first_new second second_new root eps",
        "w g m v",
        """
        m = first * m + first_new * g
        v = second * v + second_new * (g * g)
        w = keep * w - rate * (m / (sqrt(v) * root + eps))
        """,
    ),
    "scale": (
        "factor",
        "g",
        """
        g = g * factor
        """,
    ),
}
DTYPES = ("float32", "float64")
MOST = 4  # arrays that a rule takes
_PIECE = 1 << 16  # elements that a sum of squares is added up from
_LINE = 16  # elements: threads do not share a cache line
_SHARE = 1 << 18  # elements: a thread of its own is not worth it for fewer

Arrays: TypeAlias = Sequence[Array]


def rule_of(name: str) -> tuple[list[str], list[str], list[str]]:
    """Return the names of a rule's numbers and arrays, and its steps."""
    numbers, arrays, rule = RULES[name]
    return numbers.split(), arrays.split(), [line.strip() for line in rule.strip().splitlines()]


def changed(arrays: Sequence[str], steps: Sequence[str]) -> list[str]:
    """Return the arrays that steps assign to."""
    return [a for a in arrays if any(line.startswith(f"{a} = ") for line in steps)]


def _text(name: str) -> str:
    """Return a rule as source text for `emit.parse`: a loop over whole vectors, then the remaining lanes.

    A second function goes through a table of arrays, from element `low` of all of them up to `high`: see `Table`.
    """
    numbers, arrays, steps = rule_of(name)
    given = [f"    {n} = vec(ldf(with_, {k}))" for k, n in enumerate(numbers)]
    stores = [f"        store({a}_at + at, {a}LANES)" for a in changed(arrays, steps)]
    there = ", ".join(f"ld(row, {k}) + first * SIZE" for k in range(len(arrays)))

    def body(lanes: str) -> list[str]:
        loads = [f"        {a} = load(vec, {a}_at + at{lanes})" for a in arrays]
        return loads + [f"        {s}" for s in steps] + [s.replace("LANES", lanes) for s in stores]

    return "\n".join([
        f"def {name}({', '.join(f'{a}_at' for a in arrays)}, count, with_) -> None:",
        *given,
        "    for k in range(count // LANES):",
        "        at = k * LANES * SIZE",
        *body(""),
        "    left = count % LANES",
        "    if left > 0:",
        "        at = (count - left) * SIZE",
        *body(", left"),
        "",
        "",
        f"def all_{name}(rows, count, low, high, with_) -> None:",
        "    start = 0",
        "    for k in range(count):",
        "        row = rows + ROW * k",
        "        size = ld(row, LENGTH)",
        "        first = max(low - start, 0)",
        "        last = min(high - start, size)",
        "        if first < last:",
        f"            {name}({there}, last - first, with_)",
        "        start = start + size",
        "",
    ])  # fmt: skip


_SQUARES = '''
def squares(g_at, count, to) -> None:
    """Write the sum of squares, as float64."""
    total = wide(0.0)
    for k in range(count // LANES):
        g = wide(load(vec, g_at + k * LANES * SIZE))
        total = total + g * g
    left = count % LANES
    if left > 0:
        g = wide(load(vec, g_at + (count - left) * SIZE, left))
        total = total + g * g
    stf(to, 0, hsum(total))
'''


@functools.cache
def _functions(dtype: str, on: target.Target) -> Compiled:
    """Return the compiled rules for a dtype."""
    return load([deferred(dtype, on)])[0]


def deferred(dtype: str, on: target.Target) -> Deferred:
    """Return the module of update rules for a dtype, generated only if its machine code is not cached."""
    return Deferred(name=f"updates_{dtype}", key=f"updates {dtype} {on}", make=functools.partial(_module, dtype, on))


def _module(dtype: str, on: target.Target) -> tree.Module:
    kind = tree.F32 if dtype == "float32" else tree.F64
    vec = on.vector(kind)
    numbers = f"LANES = {vec.lanes}\nSIZE = {kind.bits // 8}\nROW = {8 * (MOST + 1)}\nLENGTH = {MOST}\n\n"
    source = numbers + "\n\n".join([*map(_text, RULES), _SQUARES])
    functions = parse(source, {"vec": vec, "wide": tree.F64.vector(vec.lanes) if vec.lanes > 1 else tree.F64})
    exports = (*(f"all_{name}" for name in RULES), "squares")
    return tree.Module(f"updates_{dtype}", functions, exports, f"Steps of optimisers, {dtype}.")


class _Threads:
    """Pool of threads that share a step; a forked child makes a new pool."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._most = 0

    @property
    def most(self) -> int:
        """Maximum number of threads."""
        self._most = self._most or available_threads()
        return self._most

    def each(self, do: Callable[[int], None], count: int) -> None:
        """Call `do` with 0 to count - 1, at once, the first one in this thread."""
        if count > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(self.most, "acronumba update")
        others = [self._pool.submit(do, k) for k in range(1, count)] if self._pool is not None else []
        do(0)
        for other in others:
            other.result()


_threads = _Threads()


class Table:
    """Arrays of one dtype that a rule takes, in a table for compiled code.

    Parameters
    ----------
    dtype : str
        Their dtype.
    rows : int64[n, MOST + 1]
        For each parameter the addresses of the arrays that the rule takes, contiguous and of one size; at the end of
        the row the number of their elements.
    """

    def __init__(self, dtype: str, rows: Words) -> None:
        self._rows, self._address = rows, address(rows)
        total = int(rows[:, MOST].sum())
        workers = max(1, min(_threads.most, total // _SHARE))
        self._cuts = [total * k // workers // _LINE * _LINE for k in range(workers)] + [total]
        self._code = _functions(dtype, target.host())

    def step(self, rule: str, numbers: Sequence[float]) -> None:
        """Apply a rule with these numbers to the arrays, in place."""
        words, cuts = np.array(numbers, np.float64), self._cuts
        with_, do = address(words), self._code.function(f"all_{rule}")

        def share(k: int) -> None:
            do(self._address, len(self._rows), cuts[k], cuts[k + 1], with_)

        _threads.each(share, len(cuts) - 1)


def step(rule: str, groups: Sequence[Arrays], numbers: Sequence[float]) -> None:
    """Apply a rule to arrays, in place.

    Parameters
    ----------
    rule : str
        Name of a rule.
    groups : sequence of sequences of arrays
        For each parameter the arrays that the rule takes, contiguous, of one size and dtype.
    numbers : sequence of float
        The rule's numbers, for all groups.
    """
    for dtype in DTYPES:
        found = [group for group in groups if group[0].dtype == dtype]
        if found:
            rows = [[*map(address, group), *(0,) * (MOST - len(group)), group[0].size] for group in found]
            Table(dtype, np.array(rows, np.int64)).step(rule, numbers)


def sum_of_squares(arrays: Arrays) -> float:
    """Return the sum of squares of all elements of contiguous arrays, in float64."""
    pieces = [(a, k) for a in arrays for k in range(0, a.size, _PIECE)]
    sums = np.zeros(len(pieces))
    workers = max(1, min(_threads.most, len(pieces) * _PIECE // _SHARE))
    codes = {dtype: _functions(dtype, target.host()) for dtype in {a.dtype.name for a in arrays}}

    def share(k: int) -> None:
        for j in range(len(pieces) * k // workers, len(pieces) * (k + 1) // workers):
            a, low = pieces[j]
            count = min(_PIECE, a.size - low)
            codes[a.dtype.name].call("squares", address(a) + low * a.itemsize, count, address(sums) + 8 * j)

    _threads.each(share, workers)
    return float(sums.sum())
