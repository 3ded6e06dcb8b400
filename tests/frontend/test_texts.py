"""Texts of values that only run time knows, compared with the plain call: floats in any format, containers, objects."""

# ruff: noqa: UP031

from __future__ import annotations

import enum
import random
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors, Unsupported
from tests.support.chosen import one_in
from tests.support.plain_call import agree, compiled, outcomes, plain

CORNERS = [0.0, -0.0, 1.0, 0.1, -2.5, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16]
CORNERS += [9999999999999998.0, 123456.789, 1e-4, 9.999e-5, 0.5, 1.5, 2.5, 2.0**-44, float("nan"), float("inf"), -1e100]


def same(f: Any, *columns: Any) -> None:
    agree(outcomes(model(f).batch, *columns), plain(f, *columns))


def random_floats(rand: random.Random, count: int) -> list[float]:
    """Return floats of random bits, powers of two, short decimals and halves."""
    ways = (
        lambda: struct.unpack("d", rand.randbytes(8))[0],
        lambda: float(np.nextafter(2.0 ** rand.randrange(-1074, 1024), rand.choice([0.0, 1e400]))),
        lambda: float(f"{rand.randrange(10 ** rand.randrange(1, 18))}e{rand.randrange(-330, 300)}"),
        lambda: rand.randrange(10**6) / 2 ** rand.randrange(12),
    )
    return [rand.choice(ways)() for _ in range(count)]


def shortest(x: float) -> str:
    return str(x)


def of_float32(x: Any) -> tuple[str, str, str]:
    return str(x[0]), f"{x[0]}", repr(x[0])


def test_the_shortest_texts_of_random_floats() -> None:
    rand = random.Random(1)
    same(shortest, CORNERS + random_floats(rand, 3000))
    bits = np.array([rand.getrandbits(32) for _ in range(500)], np.uint32).view(np.float32)
    powers = 2.0 ** np.arange(-149, 128)
    values = [*bits, *powers.astype(np.float32), *np.float32([1e-4, 1e5, 999999, 1e6, 1e15, 1e16, 0.1, 16777216.0])]
    same(of_float32, [np.array([v]) for v in values])


def many(x: float) -> Any:
    fixed = f"{x:.0f}|{x:.1f}|{x:.17g}|{x:.0e}|{x:.25e}|{x:.3}|{x:.0}|{x:g}|{x:,.2f}"
    return fixed, "%s %r %.12g %-12.3e|" % (x, x, x, x)


def test_texts_with_a_number_of_digits() -> None:
    same(many, CORNERS + random_floats(random.Random(2), 400))


def random_spec(rand: random.Random, ints: bool) -> str:
    align = rand.choice(["", "", "<", ">", "^", "=", "*<", "é^", "0="])
    width = rand.choice(["", "1", "9", "30"])
    group = rand.choice(["", "", ",", "_"])
    zero = rand.choice(["", "0"]) if not align and not group else ""
    kind = rand.choice(["", *("bdoxX" if ints else ""), *"eEfFgG%"])
    digits = f".{rand.choice([0, 1, 2, 7, 16, 40])}" if kind in (*"eEfFgG%",) or not ints else ""
    special = rand.choice(["", "#"]) if kind in (*"boxX",) else ""
    width = "" if group and align[:1] == "0" else width
    digits = digits if rand.random() < 0.7 else ""
    return f"{align}{rand.choice(['', '+', ' ', '-'])}{special}{zero}{width}{group}{digits}{kind}"


@pytest.mark.parametrize("seed", one_in(8, one_in(4, range(32), mark="slow")))
def test_random_formats(seed: int) -> None:
    rand = random.Random(seed)
    ints, floats = ([random_spec(rand, of) for _ in range(5)] for of in (True, False))
    a, b, c, d, e = floats
    same(lambda x: (format(x, a), format(x, b), format(x, c), format(x, d), format(x, e)), random_floats(rand, 40))
    g, h, i, j, k = ints
    numbers = [0, 1, -1, 7, 12345678, -(2**63), 2**63 - 1, 1000, -999]
    same(lambda n: (format(n, g), format(n, h), format(n, i), format(n, j), format(n, k)), numbers)


def test_conversions_with_percent() -> None:
    same(lambda x: "%e|%G|%+.3g|%05.1f|%-9.2f|%9s|%.4s|%d|%i%%" % (x, x, x, x, x, x, x, x, x), [1.5, -1e10, 3e-7])
    same(lambda n: "%x %#x %X %o %5d %-5d| %05d %+d %r %f" % (n, n, n, n, n, n, n, n, n, n), [0, 255, 123456])
    same(lambda s: "%s|%5s|%-5s|%.2s|%r" % (s, s, s, s, s), ["abc", "", "it's", "\n"])
    same(lambda x: "%d" % x, [1.0, float("nan"), float("inf")])


# ---- other values


class Kind(enum.Enum):
    OF = 1
    TO = 2


@dataclass
class Tree:
    value: float
    left: Tree | None = None
    hidden: int = field(default=0, repr=False)


class Pair(NamedTuple):
    a: int
    b: list[float]


class Own:
    def __init__(self, v: float) -> None:
        self.v = v

    def __repr__(self) -> str:
        return f"<{self.v}>"

    def __format__(self, spec: str) -> str:
        return f"{spec}!{self.v}"


def texts(v: Any) -> Any:
    return str(v), f"{v!r:>40}", "%s" % (v,), f"{[v, v]}"


LONG = dict.fromkeys(("tuples", "lists", "lists_of_lists", "json", "pairs"), pytest.mark.long)  # one more of some
LONG["mixed"] = pytest.mark.slow
QUOTED = ["it's", '"', "'\"", "\\\n\t\r\0\x7f", "é\u0300\u2028\ue000\U0001f600\U000e0001", ""]
VALUES: dict[str, list[Any]] = {
    "lists": [[1.5, 2.0], [], [0.1]], "strings": [*QUOTED, QUOTED], "lists_of_lists": [[[1], [2, 3]], []],
    "tuples": [(1, "a", None), (2, "b", None)], "one": [(1.5,), (2.5,)], "dicts": [{1: 2.5, 3: 4.0}, {}],
    "records": [{"a": 1, "b": [True]}, {"a": 2, "b": []}], "bools": [True, False], "options": [None, 1.5],
    "enums": [Kind.OF, Kind.TO], "dataclasses": [Tree(1.5), Tree(2.5, Tree(0.1, None, 3))], "pairs": [Pair(1, [2.0])],
    "own": [Own(1.5), Own(2.0)], "nested": [[1.5, [2.0, [3.5, []]]], []], "mixed": [["+", 1, ["-", 2.5, "x"]], "y", 3],
    "parsed": [("add", ("num", 1.0), ("mul", ("num", 2.0), ("num", 3.0))), ("num", 4.5)],
    "json": [{"v": 1.5, "kids": [{"v": 2.0, "kids": []}]}, {"v": 0.5, "kids": []}],
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(k, marks=LONG[k]) if k in LONG else k for k in VALUES])
def test_texts_of_other_values(name: str) -> None:
    values = VALUES[name]
    if name == "own":
        same(lambda v: (str(v), f"{v:abc}", f"{v}", f"{[v]}", repr(v)), values)
    elif name == "strings":
        same(texts, values[:-1])
        same(lambda v: (v.isprintable(), v.ljust(6), v.rjust(7, "*"), v.center(9), v.rpartition("'")), values[:-1])
    else:
        same(texts, values)


def test_texts_of_numpy_scalars() -> None:
    for dtype in ("float64", "uint8", "bool"):
        same(
            lambda x: (str(x[0]), f"{x[0]}", repr(x[0]), f"{[x[0]]}"), [np.array([v]).astype(dtype) for v in (0, 1, 77)]
        )


def test_what_has_no_text() -> None:
    for f in (lambda x: str({int(x), 1}), lambda x: f"{x:#g}", lambda x: f"{x:020,.1f}", lambda x: "%*d" % (5, x)):
        with pytest.raises(AcronumbaError, match="ACR116"):
            model(f).batch([1.5, 2.5])


def test_texts_of_computed_floats_are_close() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((30, 40)).astype(np.float32)
    columns = list(rng.standard_normal((20, 40)).astype(np.float32))
    assert model(lambda x, *, w: f"sum {float(np.tanh(w @ x).sum())}").check(columns, w=w).count("different") == 0


def filled_ints(n):
    return (
        f"{n:08x}", "%08x" % n, format(n, "04x"), f"{n:0=8X}", f"{n:#010x}", f"{n: 012x}", f"{n:08b}", f"{n:#06o}",
        f"{n:=+9d}",
    )  # fmt: skip


def test_zeros_in_front_of_digits_that_look_like_a_prefix() -> None:
    """The digits of 27 are `1b`."""
    rand = random.Random(4)
    same(filled_ints, [27, 0, 11, 187, -27, *(rand.randrange(-(10**k), 10**k) for k in range(1, 18) for _ in range(9))])


def by_names(n: int, s: str) -> Any:
    made = {}
    for key in ("x", "y"):
        made[key] = n
    return "%(n)d of %(s)s%%" % {"n": n, "s": s}, "%(x)s-%(y)05.1f" % made, "%(a)s" % {"a": 1}


def by_characters(n: int, s: str) -> Any:
    return "%c%c|%3c|%-3c|%a" % (65 + n, s[0], s[0], 66, n), f"{n!a}", "%c" % s


@pytest.mark.parametrize("f", [by_names, by_characters])
def test_conversions_by_name_and_of_characters(f: Any) -> None:
    compiled(f, [1, 2, 30], ["ab", "x", "ü"])


def test_a_defaultdict_of_the_data_has_no_text() -> None:
    def shown(x):
        return str(x)

    with pytest.raises(Unsupported, match="ACR116"):
        model(shown).batch([{"a": defaultdict(int, q=3)}])
    with pytest.raises(InstanceErrors) as info:
        model(shown).batch([defaultdict(int, q=3), {"q": 2}])
    assert info.value.results[1] == "{'q': 2}"
    assert [*info.value.errors] == [0]
