"""Iterators are lazy, as in Python: seen by a log, by failures and by early exits; and they may wait between items."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path
from typing import Any

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.lazy_programs import HELPERS, lazy_program
from tests.support.plain_call import agree, outcomes, plain

INPUTS = [[1, 2, 5, 0, 3], [2, 3, 4], [4, 1], [1, 1, 2, 0], [5, 0]]


def part(x, log):
    log.append(x)
    return 10 // x


def until_zero(xs, log):
    for x in xs:
        if x == 0:
            return
        log.append(x)
        yield x
        log.append(-x)


def nested(xs, log):
    for x in xs:
        if x == 5:
            continue
        for y in range(x):
            log.append(y)
            yield x * 10 + y
            if y == 2:
                break
        else:
            yield from (y - x for y in range(2))


def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def chunks(seq, size):
    it = iter(seq)
    while True:
        chunk = tuple(itertools.islice(it, size))
        if not chunk:
            return
        yield chunk


def scaled(xs, k):
    return (x * k for x in xs if x != k)


def edits(w):
    return {a + b for a in w for b in "xy"}


def edits_twice(w):
    return (b for a in edits(w) for b in edits(a))


def digits(it):
    total = 0
    for v in it:
        total = total * 3 + v
    return total


def stops_early(xs):
    log, total = [], 0
    for y in map(lambda x: part(x, log), xs):
        total += y
        if total > 6:
            break
    return total, log, any(map(lambda x: part(x, log) > 4, xs)), log


def takes_some(xs):
    log = []
    some = list(itertools.takewhile(lambda v: v < 6, map(lambda x: part(x, log), xs)))
    return some, list(itertools.islice(map(lambda x: part(x, log), xs), 2)), log


def named(xs):
    log = []
    it = map(lambda x: part(x, log), xs)
    log.append(-1)
    values = until_zero(xs, log)
    return sum(values), log, sum(it)


def side_by_side(xs):
    log = []
    small = (part(x + 1, log) for x in xs if x < 3)
    pairs = [(a, b) for a, b in zip(map(lambda x: part(x, log), xs), small, strict=False)]
    for a, b in zip(until_zero(xs, log), nested(xs[1:], log), strict=False):
        log.append(a * 100 + b)
        if b == 30:
            break
    else:
        log.append(777)
    return pairs, log


def returned(xs):
    return sum(scaled(scaled(xs, 2), 5)), digits(x + 1 for x in xs), digits(scaled(xs, 3))


def of_strings(xs):
    return sorted(set(edits_twice("ab"[: xs[0]])))


def unpacked(xs):
    log = []
    try:
        a, b = map(lambda x: part(x, log), xs)
    except (ValueError, ZeroDivisionError) as e:
        return log, isinstance(e, ValueError)
    return [a, b], True


def reads_what_it_extends(xs):
    out = [1]
    out.extend(x + len(out) for x in xs)
    return out, 3 in map(lambda x: x + 1, xs)


def interleaves_keys(xs):
    log = []
    return max(map(lambda x: part(x + 1, log), xs), key=lambda v: (log.append(-v), v % 3)[1]), log


def advanced(xs):
    g = fibonacci()
    n = 0
    while next(g) < xs[0] * 7:
        n += 1
    return n, next(g), list(itertools.islice(g, 2)), next(g)


def in_chunks(xs):
    return [sum(c) * 10 + len(c) for c in chunks(xs, 2)]


def waits(xs):
    log, out = [], []
    g = nested(xs, log)
    for k in range(4):
        out.append(next(g, -7))
        log.append(k + 1000)
    return out, sum(g), log


def goes_on_after_an_error(xs):
    log, out = [], []
    it = map(lambda v: part(v, log), xs)
    for _ in range(3):
        try:
            out.append(next(it))
        except ZeroDivisionError:
            out.append(-1)
        except StopIteration:
            out.append(-2)
    return out, list(it), log


def read_on(xs):
    it = enumerate(xs)
    for i, x in it:
        if x > 1:
            return i, list(it)
    return -1, list(it)


def grouped(xs):
    log = []
    for k, g in itertools.groupby(map(lambda x: part(x, log), xs), lambda v: log.append(-v) or v // 4):
        log.append(k + 100)
        if k == 1:
            continue
        for y in g:
            log.append(1000)
            if y > 2:
                break
    return [(k, list(g)) for k, g in itertools.groupby(sorted(xs))], log


def changed_sizes(xs):
    d = {x: x for x in xs}
    it = (k for k in d)
    d[xs[1]] = 9
    d[99 if xs[0] > 1 else 1] = 9
    return sum(it)


def deletes_and_leaves(xs):
    d = dict.fromkeys(xs, 1)
    for k in d:
        if k > 1:
            del d[k]
            break
    return sorted(d)


def of_any_length(xs):
    return max(*xs), min(*xs, 3), max(*xs, key=lambda v: -v)


def text_of_a_key(xs):
    try:
        return str({1: 2}[xs[0]])
    except KeyError as e:
        return str(e) + f"{e}"


def read_twice(xs):
    pairs = zip(xs, xs, strict=True)
    return [a for a, _ in pairs], [b for _, b in pairs]


CASES = [
    stops_early, takes_some, named, side_by_side, returned, of_strings, unpacked, reads_what_it_extends, in_chunks,
    interleaves_keys, advanced, waits, goes_on_after_an_error, read_on, grouped, changed_sizes, deletes_and_leaves,
    of_any_length, text_of_a_key, read_twice,
]  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_it_is_the_plain_call(f: Any) -> None:
    agree(outcomes(model(f).batch, INPUTS), plain(f, INPUTS))


def test_random_programs(tmp_path: Path) -> None:
    """A sample; `lazy_programs` writes as many as are wanted."""
    path = tmp_path / "lazy_sample.py"
    seeds = (3, 11, 19)
    texts = [lazy_program(seed).replace("def f(", f"def f{seed}(") for seed in seeds]
    path.write_text("\n\n\n".join([HELPERS, *texts]))
    module = runpy.run_path(str(path))
    columns = INPUTS, [0, 1, 2, 3, 1]
    for seed in seeds:
        f = module[f"f{seed}"]
        agree(outcomes(model(f).batch, *columns), plain(f, *columns))


def stored(xs):
    both = [map(abs, xs), map(abs, xs)]
    return [sum(p) for p in both]


def partly_read(xs):
    d = {x: x for x in xs}
    keys = iter(d)
    first = next(keys, 0)
    d.pop(first)
    d[99] = 1
    return first, next(keys, 0)


def goes_on(xs):
    d = {x: x for x in xs}
    for x in d:
        if x == 2:
            del d[x]
    return d


@pytest.mark.parametrize("f", [stored, partly_read, goes_on], ids=lambda f: f.__name__)
def test_what_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError, match=r"ACR114|ACR209"):
        model(f).batch(INPUTS)
