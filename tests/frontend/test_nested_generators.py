"""Loops over one generator function within one another: each has a state of its own."""

from __future__ import annotations

import inspect
import random
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.support.plain_call import interpreted

INPUTS = [0, 1, 2, 3, 5]


def upto(k):
    for i in range(k):  # noqa: UP028
        yield i


def early(k):
    for i in range(k):
        if i == 2:
            return
        yield i


def pairs(k):
    for i in range(2):
        yield i
        yield i + k


def more(k):
    yield from upto(k)
    yield k


def down(k):
    if k > 0:
        yield k
        yield from down(k - 1)


def shifted(items, k):
    for i in items:
        yield i + k


def logged(k, log):
    for i in range(k):
        log.append(i)
        yield i
        log.append(-i)


class Box:
    def __init__(self, n):
        self.n = n

    def upto(self, k):
        for i in range(k):
            yield i + self.n

    def __iter__(self):
        for i in range(2):
            yield i + self.n


def twice(f, k):
    out = []
    for i in range(2):
        out.append(f(i))
    return out, k


def statements(n):
    out = []
    for a in upto(2):
        for b in upto(n):
            out.append((a, b))
    return out


def three_levels(n):
    out = []
    for a in upto(2):
        for b in upto(n):
            for c in upto(2):
                out.append((a, b, c))
            out.append((a, b, -1))
        out.append((a, -1, -1))
    return out, [(a, b, c) for a in upto(2) for b in upto(3) for c in upto(n)]


def jumps(n):
    out = []
    for a in early(3):
        for b in early(n):
            if b == a:
                continue
            if a + b > 2:
                break
            out.append((a, b))
        else:
            out.append((a, -1))
    else:
        out.append((-1, -1))
    return out


def returns(n):
    for a in upto(3):
        for b in upto(n):
            if a * b == 2:
                return a, b
    return -1, -1


def constant_length(n):
    return [b for a in pairs(n) for b in pairs(a)], [list(pairs(i)) for i in upto(n)]


def comprehensions(n):
    known = {a * b for a in upto(2) for b in upto(n)}, {a: b for a in upto(2) for b in upto(n)}
    rows = [[(a, b) for b in upto(n)] for a in upto(2)]
    return *known, rows, [(a, b) for a in upto(3) if a for b in upto(n) if b > a]


def expressions(n):
    count = sum(1 for a in upto(2) for b in upto(n) if a < b)
    total = sum(sum(sum(a * b + c for c in upto(n)) for b in upto(2)) for a in upto(2))
    most = max((a + b for a in upto(2) for b in upto(n)), default=-1)
    return count, total, most, any(a < b for a in upto(2) for b in upto(n))


def methods(n):
    box = Box(n)
    return [a * b for a in box.upto(2) for b in box.upto(2)], [a - b for a in box for b in box]


def delegation(n):
    return [(a, b) for a in more(2) for b in more(n)], [(a, b) for a in down(2) for b in down(n)]


def arguments(n):
    return [(a, b) for a in shifted(shifted(upto(2), 1), n) for b in shifted(upto(n), 2)]


def in_turn(n):
    log = []
    for a in logged(2, log):
        for b in logged(n, log):
            log.append(a * 100 + b)
            if b == 1:
                break
    return log


def side_by_side(n):
    outer = [(a, b) for a, b in zip(upto(2), upto(n), strict=False) for _ in zip(upto(2), upto(n), strict=False)]
    return outer, [(i, a, k, b) for i, a in enumerate(upto(2)) for k, b in enumerate(upto(n))]


def failures(n):
    out = []
    for a in upto(2):
        try:
            for b in upto(n):
                out.append(6 // (b - a))
        except ZeroDivisionError:
            out.append(-9)
        finally:
            out.append(a)
    return out


def plain_helper(n):
    return twice(lambda a: twice(lambda b: a * 10 + b + n, a)[0], n)


PROGRAMS = [
    statements, three_levels, jumps, returns, constant_length, comprehensions, expressions, methods,
    delegation, arguments, in_turn, side_by_side, failures, plain_helper,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_it_is_the_plain_call(f: Any) -> None:
    interpreted(f, INPUTS)


def nest(r: random.Random, names: list[str], indent: str) -> list[str]:
    """Return the statements of a loop over a generator, in the loops over those of `names`."""
    name = "abcd"[len(names)]
    count = r.choice(["2", "3", "n", "n", *names])
    of = r.choice(["upto({})", "upto({})", "early({})", "more({})", "Box(1).upto({})", "shifted(upto({}), n)"])
    seen = ", ".join([*names, name])
    lines = [f"for {name} in {of.format(count)}:"]
    if r.random() < 0.4:
        lines.append(f"    if {r.choice([name, *names])} {r.choice(['>', '==', '<'])} {r.choice(['1', 'n', *names])}:")
        lines.append(f"        {r.choice(['break', 'continue', 'return out', 'out.append((-2,))'])}")
    if len(names) < 3 and r.random() < 0.8:
        lines += nest(r, [*names, name], "    ")
    lines.append(f"    out.append(({seen},))")
    if r.random() < 0.3:
        lines.append(f"    out += [(i, j) for i in upto(2) for j in {r.choice(['upto', 'early'])}({name}) if i < j]")
    if r.random() < 0.3:
        lines += ["else:", f"    out.append(({', '.join(['-1', *names])},))"]
    return [indent + line for line in lines]


def test_random_programs(tmp_path: Path) -> None:
    seeds = range(8)
    helpers = [upto, early, more, shifted, Box]
    texts = [inspect.getsource(helper) for helper in helpers]
    for seed in seeds:
        body = "\n".join(nest(random.Random(seed), [], "    "))
        texts.append(f"def f{seed}(n):\n    out = []\n{body}\n    return out\n")
    path = tmp_path / "nests.py"
    path.write_text("\n\n".join(texts))
    module = runpy.run_path(str(path))
    for seed in seeds:
        f = module[f"f{seed}"]
        interpreted(f, INPUTS)
