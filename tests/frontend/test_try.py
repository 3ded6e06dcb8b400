"""`try` does in a batch what it does in the plain call: by hand, and in random programs."""

from __future__ import annotations

import ast
import contextlib
import inspect
import random
import struct
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.frontend.library import parsing
from acronumba.frontend.library.decorators import APART
from tests.support import tries
from tests.support.chosen import one_in
from tests.support.models_that_try import TRIED
from tests.support.plain_call import agree, outcomes, plain

NAMES = [f.__name__ for f, _, _ in TRIED]
MORE = [pytest.param(range(n, n + 20), marks=pytest.mark.slow) for n in range(1000, 1200, 20)]


@pytest.mark.parametrize(("f", "columns", "shared"), TRIED, ids=NAMES)
def test_interpreted(f: Callable[..., Any], columns: Sequence[Sequence[Any]], shared: dict[str, Any]) -> None:
    agree(outcomes(model(f)._interpret, *columns, **shared), plain(f, *columns, **shared))


@pytest.mark.parametrize(("f", "columns", "shared"), one_in(4, TRIED, NAMES))
def test_compiled(f: Callable[..., Any], columns: Sequence[Sequence[Any]], shared: dict[str, Any]) -> None:
    agree(outcomes(model(f).batch, *columns, **shared), plain(f, *columns, **shared))


@pytest.mark.parametrize("seeds", [range(1), *MORE])
def test_random_programs(seeds: range, module_of: Any) -> None:
    for seed in seeds:
        f = module_of(tries.program(seed)).f
        wanted = plain(f, *tries.COLUMNS)
        got = outcomes(model(f)._interpret, *tries.COLUMNS)
        for mine, theirs in zip(got, wanted, strict=True):
            if "64 bits" not in str(mine):  # Python's ints have no limit
                agree([mine], [theirs])


def test_uncaught_is_the_failure_of_its_instance() -> None:
    def f(xs: list[int], k: int):
        try:
            return xs[k] // (k - 1)
        except ZeroDivisionError:
            return -1

    got = outcomes(model(f).batch, [[1, 2], [1, 2], [1]], [0, 1, 5])
    assert got[:2] == [-1, -1]
    assert type(got[2]) is IndexError and str(got[2]) == "list index out of range"


def test_the_gradient_goes_through_the_path_that_was_taken() -> None:
    def f(x: np.ndarray, i: int, *, w: np.ndarray):
        try:
            y = w[int(np.argmax(x)) + i] * x
        except IndexError:
            y = w[0] * x * x
        return np.sum(y)

    xs, i = [np.array([1.0, 2.0]), np.array([3.0, 1.0])], [1, 1]
    found = model(f).value_and_grad.batch(xs, i, w=np.array([2.0, 5.0]))
    np.testing.assert_allclose(found.grads, [2.5, 2.0])


@pytest.mark.parametrize("what", ["str(e)", "e", "e.args[0]"])
def test_unknown_messages_are_rejected(what: str, module_of: Any) -> None:
    text = "def f(xs: list[int]):\n    try:\n        return 'abc'[xs[1]]\n    except IndexError as e:\n        return "
    with pytest.raises(AcronumbaError) as caught:
        model(module_of(text + what + "\n").f).batch([[1]])
    assert caught.value.code == "ACR101"


def test_texts_are_the_numbers_that_python_reads() -> None:
    r = random.Random(1)

    def number() -> str:
        x: float = struct.unpack("d", struct.pack("Q", r.getrandbits(64)))[0]
        kinds = [repr(x), f"{x:.{r.randint(0, 25)}e}", f"{r.randint(0, 10**25)}e{r.randint(-345, 320)}"]
        characters = "0123456789..eE+-_ infa\t\x1c\u2003\u0663\uff11\U0001d7d9\u00b2"
        kinds.append("".join(r.choice(characters) for _ in range(r.randint(0, 8))))
        return r.choice(kinds)

    def outcome(f: Callable[[str], Any], text: str) -> str:
        try:
            return repr(f(text))
        except ValueError:
            return "ValueError"

    for text in ("1e400", "5e-324", "2.4703282292062328e-324", "9007199254740993", *(number() for _ in range(400))):
        assert outcome(parsing.float_of, text) == outcome(float, text), text
        assert outcome(parsing.int_of, text) == outcome(int, text), text


def shouted(x):
    if x == "b":
        raise ValueError
    return x + "!"


def known_items(k: int):
    out = ["init"]
    with contextlib.suppress(ValueError):
        out.extend(shouted(x) for x in ("a", "b"))
    return out


def chosen_items(k: int):
    out = ["init"]
    with contextlib.suppress(ValueError):
        out.extend(shouted(x) for x in ("a", "b" if k > 0 else "c"))
    return out


def with_a_name(k: int):
    out = [0]
    inverses = (10 // x for x in (1, k))
    with contextlib.suppress(ZeroDivisionError):
        out.extend(inverses)
    return out


@pytest.mark.parametrize("f", [known_items, chosen_items, with_a_name], ids=lambda f: f.__name__)
def test_extend_by_a_generator(f):
    ks = [0, 1, 2]
    assert list(model(f).batch(ks)) == [f(k) for k in ks]


def letter(k: int):
    try:
        return "%c" % (k - 1)  # noqa: UP031
    except OverflowError:
        return "none"


def test_errors_of_the_library_are_caught():
    assert list(model(letter).batch([0, 66])) == [letter(0), letter(66)]


def test_functions_of_the_library_that_are_not_inlined_raise_nothing():
    bodies = [ast.parse(textwrap.dedent(inspect.getsource(f))) for f in APART]
    assert bodies and not [n for body in bodies for n in ast.walk(body) if isinstance(n, ast.Raise)]
