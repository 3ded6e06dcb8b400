"""What programs of others needed: keys with parts of several types, patterns of built-in classes, `int` with a base."""

from __future__ import annotations

import linecache
import random
import sys
from typing import Any

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError
from acronumba.frontend.library.parsing import int_of_base
from tests.support.plain_call import agree, outcomes, plain

Symbol = str


def same(f: Any, *columns: Any) -> None:
    agree(outcomes(model(f).batch, *columns), plain(f, *columns))


WORDS, NUMBERS, WHICH = ["aa", "b", "aa", "c"], [1, 2, 2, 0], [1, 0, 2, 1]


def back_pointers(word: str, n: int, which: int) -> Any:
    links: dict[Any, Any] = {(word, 0): None}
    for k in range(1, n + 1):
        links[word, k] = word
    out, at = [], word
    for k in range(n, -1, -1):
        out.append(at)
        at = links[at, k]  # a string or None
    return out, at


def of_parts(word: str, n: int, which: int) -> Any:
    one = word if which else None
    two = n if which > 1 else word
    seen = {((word, n), word): 5, ((word, 7), "b"): 6}
    kept = {(word, n), (n, word), (None, 3)}
    kept.discard((one, two))
    got = seen.get(((one, two), word), -1)
    if ((one, n), word) in seen:
        del seen[(one, n), word]
    return got, len(seen), len(kept), (one, 3) in kept, (two, word) in kept


def test_parts_of_several_types() -> None:
    same(back_pointers, WORDS, NUMBERS, WHICH)
    same(of_parts, WORDS, NUMBERS, WHICH)


PARTS = ["word", "n", "one", "two", "None", "'b'", "(one, n)", "(word, two)"]


def random_program(rand: random.Random) -> str:
    keys = [f"({rand.choice(PARTS)}, {rand.choice(PARTS)})" for _ in range(6)]
    return f"""
def f(word, n, which):
    one = word if which else None
    two = n if which > 1 else word
    d = {{}}
    d[{keys[0]}] = 1
    d[{keys[1]}] = 2
    out = [d.get({keys[2]}, 0), {keys[3]} in d, len(d)]
    if which != 2:
        d[{keys[4]}] = 3
    try:
        out.append(d[{keys[5]}])
    except KeyError:
        out.append(-1)
    return out, list(d.values())
"""


def test_random_programs() -> None:
    for seed in range(2):
        same_or_rejected(random_program(random.Random(seed)), seed)


def same_or_rejected(text: str, seed: int) -> None:
    name = f"<keys {seed}>"
    scope: dict[str, Any] = {}
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)
    try:
        model(scope["f"]).batch(WORDS, NUMBERS, WHICH)
    except InternalError:
        raise
    except AcronumbaError as error:
        if not isinstance(error, InstanceErrors):
            return
    same(scope["f"], WORDS, NUMBERS, WHICH)


def test_patterns_of_built_in_classes() -> None:
    def text(x: Any) -> str:
        match x:
            case list(items):
                return "(" + " ".join(text(y) for y in items) + ")"
            case tuple(items):
                return f"tuple of {len(items)}"
            case dict(d):
                return ",".join(d)
            case Symbol(s):
                return s
            case int(n):
                return str(n)
        return "?"

    same(text, [["+", 1, ["*", "a", 2]], "x", 3, [], [[["y"]]]])
    same(text, [(1, 2), (3, 4)])
    same(text, [{"a": 1}, {"a": 2}])


def add(x: Any, y: Any) -> Any:
    return x + y


def sub(x: Any, y: Any) -> Any:
    return x - y


FUNCTIONS = [add, sub]


class Node:
    def __init__(self, data: Any, left: Any = None, right: Any = None) -> None:
        self.data, self.left, self.right = data, left, right


def value(node: Node, x: float) -> Any:
    if node.data in FUNCTIONS:
        return node.data(value(node.left, x), value(node.right, x))
    return x if node.data == "x" else node.data


def test_a_function_equals_nothing_else() -> None:
    trees = [Node(add, Node("x"), Node(2)), Node(1), Node("x"), Node(sub, Node(add, Node(-1), Node("x")), Node("x"))]
    same(value, trees, [1.5, 2.0, 3.0, -4.0])
    same(lambda k: (add == k, add != k, add in [1, 2], k in (add, sub), add == "a", add is None), [1, 2])


def test_ints_in_a_base() -> None:
    rand = random.Random(1)

    def outcome(f: Any, *args: Any) -> Any:
        try:
            return f(*args)
        except ValueError:
            return ValueError

    for _ in range(20_000):
        text = "".join(rand.choice("0019azAZfF_xXbBoO+- ") for _ in range(rand.randrange(7)))
        base = rand.choice([0, 2, 8, 10, 16, 36, 1, 37, 7, -3])
        assert outcome(int_of_base, text, base) == outcome(int, text, base), (text, base)
    same(lambda s, b: (int(s, b), int(s, 36)), ["1f", "0x1F", " -12 ", "9", "1_0", "!"], [16, 0, 10, 7, 2, 10])
    same(lambda x: int(x, 10), [1, "12", 2.5])


def test_exit() -> None:
    def leave(n: int) -> int:
        if n > 1:
            sys.exit(n)
        try:
            if n == 1:
                sys.exit("text")
        except:  # noqa: E722
            return 5
        return n

    with pytest.raises(InstanceErrors) as caught:
        model(leave).batch([0, 1, 2])
    assert list(caught.value.results)[:2] == [0, 5]
    left = caught.value.errors[2]
    assert isinstance(left, SystemExit)
    assert left.code == 2


def test_elements_of_other_types_are_added_to_copies() -> None:
    def with_ends(xs: list[Any], n: int) -> Any:
        ys, zs = xs.copy(), xs[n:]
        ys.insert(0, None)
        for k in range(n):
            zs.append(f"s{k}")
        us = list(xs)
        us[0] = None
        return ys, zs, us, xs, sum(y is None for y in ys)

    for xs in ([[True, False], [True]], [[1, 2], [3]], [["a"], ["b", "c"]], [[[1.5], [2.5]], [[0.5]]]):
        same(with_ends, xs, [0, 2])
