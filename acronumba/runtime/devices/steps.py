"""Kernels of a training step beside those of the model: update rules, packing, sums of losses and of squares.

In: a dtype. Out: a `CudaCode` that does tasks of FUNCTIONS, as `kernels.cuda.sums` does. A task is a piece of a row:
what all rows of a launch take differs in length, so that pieces are shared out to warps one by one. Each element is
computed by one lane from values of its own, as `runtime.updates` does; sums are added in a fixed order.

A rule has the words `RULE`, then an address for each of its arrays. An array without axes or rows is one row. With
`index`, the gradient has rows for the rows of `index` alone, which rise: the others are left out, or with `every`
have the gradient 0.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from acronumba.emit import tree
from acronumba.emit.parse import parse
from acronumba.emit.words import RecordLayout
from acronumba.kernels.cuda.generate import WARP, CudaCode
from acronumba.kernels.cuda.sums import KNOWN, code_of_tasks
from acronumba.kernels.tiles import TYPES
from acronumba.runtime.updates import RULES, changed, rule_of

PIECE = 256  # elements of a task
RULE = RecordLayout("""
width       elements of a row
pieces      tasks of a row
index       int64[rows]: the numbers of the rows that the gradient has; 0: it has all
rows        how many these are
every       whether the others are updated, too
numbers     address of the numbers of the rule
""")
FUNCTIONS = (*RULES, "gather", "squares", "norm", "total")


class Work(NamedTuple):
    """Tasks of a function of FUNCTIONS."""

    dtype: str
    function: str
    words: tuple[int, ...]
    tasks: int


_RULE = '''
def {name}(P, low, high, S) -> None:
    """The rule {name}."""
    width, pieces, index, rows, every, numbers = lds(P, 0, 1, 2, 3, 4, 5)
{given}
    for t in range(low, high):
        row = t // pieces
        to = row
        mine = row
        if index != 0:
            if every == 0:
                to = ld(index, row)
            else:
                mine = place(index, rows, row)
        start = t % pieces * PIECE
        for k in range(start, min(start + PIECE, width), LANES):
            left = min(width - k, LANES)
            there = left
            if mine < 0:
                there = 0
            at = (to * width + k) * SIZE
{body}
'''

_OTHERS = '''
def place(index, count, row) -> i64:
    """Return where a row stands among the rows of a gradient; -1: nowhere."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if ld(index, middle) < row:
            low = middle + 1
        else:
            high = middle
    if low < count:
        if ld(index, low) == row:
            return low
    return -1


def gather(P, low, high, S) -> None:
    """to[k] = the element at address index[k]; where that is 0, 0. One thread an element."""
    index, count, to = lds(P, 0, 1, 2)
    for t in range(low, high):
        k = t * LANES + thread() % LANES
        if k < count:
            value = num(0.0)
            if ld(index, k) != 0:
                value = load(num, ld(index, k))
            store(to + k * SIZE, value)


def squares(P, low, high, S) -> None:
    """to[t] = the sum of the squares of a piece, as float64."""
    g, count, to = lds(P, 0, 1, 2)
    for t in range(low, high):
        sum = wide(0.0)
        for k in range(t * PIECE, min(t * PIECE + PIECE, count), LANES):
            x = wide(load(vec, g + k * SIZE, min(count - k, LANES)))
            sum = sum + x * x
        stf(to, t, hsum(sum))


def norm(P, low, high, S) -> None:
    """to[0] = the root of a sum of float64; to[1] = what to scale by so that it is at most `most`."""
    parts, count, to, most = lds(P, 0, 1, 2, 3)
    for t in range(low, high):
        sum = wide(0.0)
        for k in range(0, count, LANES):
            sum = sum + load(wide, parts + 8 * k, min(count - k, LANES))
        root = sqrt(hsum(sum))
        stf(to, 0, root)
        factor = 1.0
        if (root > ldf(most)) & (root < inf):
            factor = ldf(most) / root
        stf(to, 1, factor)


def total(P, low, high, S) -> None:
    """to[0] = the sum of elements, as float64."""
    x, count, to = lds(P, 0, 1, 2)
    for t in range(low, high):
        sum = wide(0.0)
        for k in range(0, count, LANES):
            sum = sum + wide(load(vec, x + k * SIZE, min(count - k, LANES)))
        stf(to, 0, hsum(sum))
'''


def _rule(name: str) -> str:
    """Return the text of a rule: `runtime.updates` has what it does with an element of each array."""
    numbers, arrays, steps = rule_of(name)
    given = [f"    {n} = vec(ldf(numbers, {k}))" for k, n in enumerate(numbers)]
    given += [f"    {a}_at = ld(P, {RULE.count + k})" for k, a in enumerate(arrays)]
    body = [
        f"{a} = load(vec, {a}_at + (mine * width + k) * SIZE, there)"
        if a == "g"
        else f"{a} = load(vec, {a}_at + at, left)"
        for a in arrays
    ]
    body += [*steps, *(f"store({a}_at + at, {a}, left)" for a in changed(arrays, steps))]
    return _RULE.format(name=name, given="\n".join(given), body="\n".join(" " * 12 + line for line in body))


@functools.cache
def code(dtype: str) -> CudaCode:
    """Return the kernel of a dtype."""
    num = TYPES[dtype]
    types = {"vec": WARP.vector(num), "num": num, "wide": tree.F64.vector(WARP.lanes(num))}
    numbers = f"LANES = {WARP.lanes(num)}\nSIZE = {num.bits // 8}\nPIECE = {PIECE}\n\n"
    own = parse(numbers + _OTHERS + "\n\n".join(map(_rule, RULES)), types, KNOWN)
    return code_of_tasks(f"steps_{dtype}", f"Parts of training steps, {dtype}", own, FUNCTIONS)
