"""The front end: what is rejected, with which code and caret; types, aliases and joins that are accepted."""

# ruff: noqa: B023, F401, F821, F841, NPY002 -- the models here are wrong on purpose

from __future__ import annotations

import functools
import random as python_random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, InstanceErrors
from acronumba.pipeline import compiled as pipeline
from tests.support.plain_call import agree, outcomes, plain

X = [np.arange(4, dtype=np.float32)] * 2
N = [3, 4]
XS = [[3, 1, 2], [4]]
W = np.ones((4, 4), np.float32)
REJECTED: list[tuple[Any, tuple[Any, ...], tuple[tuple[str, str, str], ...]]] = []


@dataclass
class Tree:
    value: int
    kids: list[Tree] = field(default_factory=list)
    tag: bytes = b"a"


TREES = [Tree(1, [Tree(2)]), Tree(3)]


def rejected(*expected: str, columns: Any = X) -> Callable[[Any], Any]:
    """Register a function with what is rejected in it: "CODE | text under the caret | rewrite or what was seen"."""

    def register(fn: Any) -> Any:
        parts = tuple(tuple(part.strip() for part in text.split("|", 2)) for text in expected)
        REJECTED.append((fn, (columns,), parts))  # type: ignore[arg-type]
        return fn

    return register


# ---- tensors are not changed


@rejected("ACR111 | x[0] | x = x.copy()")
def item_assigned(x):
    x[0] = 1
    return x


@rejected("ACR111 | y[1:] | y = y.copy()")
def slice_augmented(x):
    y = x.reshape(2, 2)
    y[1:] += 1
    return y


@rejected("ACR112 | x += 1 | x = x + 1")
def parameter_augmented(x):
    x += 1
    return x


@rejected('ACR112 | xs["a"] += 1 | xs = copy.deepcopy(xs)', columns=[{"a": np.ones(2)}, {"a": np.zeros(2)}])
def part_of_a_parameter_augmented(xs: dict[str, np.ndarray]):
    xs["a"] += 1
    return xs["a"]


@rejected("ACR112 | z -= 1 | .copy()")
def view_augmented(x):
    y = x * 2
    z = y.reshape(2, 2)
    z -= 1
    return y


@rejected("ACR112 | y += 1 | y = y + 1")
def not_copied_augmented(x):
    y = x.astype(np.float32, copy=False)
    y += 1
    return x


@rejected("ACR112 | n += x | int64[4] would become float64[4]")
def dtype_augmented(x):
    n = np.zeros(4, np.int64)
    n += x
    return n


# ---- parameters are not changed


@rejected("ACR113 | xs.append(1) | list(xs)", columns=XS)
def parameter_appended(xs):
    xs.append(1)
    return xs


@rejected("ACR113 | ys.sort() | list(ys)", columns=XS)
def parameter_sorted(xs):
    ys = xs
    ys.sort()
    return ys


@rejected("ACR113 | ys.pop() | list(ys)", columns=XS)
def perhaps_parameter(xs):
    ys = [1] if len(xs) > 1 else xs
    return ys.pop()


@rejected("ACR113 | xs[0] |", columns=XS)
def parameter_item(xs):
    xs[0] = 5
    return xs


@rejected("ACR113 | rows[0].append(1) | list(rows[0])", columns=XS)
def parameter_in_a_list(xs):
    rows = [xs, [1]]
    rows[0].append(1)
    return rows


@rejected("ACR113 | t.kids.append(t) | list(t.kids)", columns=TREES)
def field_appended(t):
    t.kids.append(t)
    return t


@rejected("ACR113 | t.value | dataclasses.replace", columns=TREES)
def field_assigned(t):
    t.value = 3
    return t


# ---- statements and expressions


@rejected("ACR101 | try: |", columns=N)
def with_group(n):
    try:
        m = n
    except* ValueError:
        m = 0
    return m


@rejected('ACR102 | with open("x") as f: |', columns=N)
def with_with(n):
    with open("x") as f:
        m = f
    return m


COUNT = 0


@rejected("ACR103 | global COUNT |", columns=N)
def with_global(n):
    global COUNT
    COUNT = n
    return n


@rejected("ACR104 | yield n |", columns=N)
def with_yield(n):
    yield n


@rejected("ACR113 | xs[0] | list(xs)", columns=XS)
def with_del(xs):
    del xs[0]
    return xs


@rejected("ACR106 | import no_such_module | No module named 'no_such_module'", columns=N)
def with_import(n):
    import no_such_module

    return n


@rejected("ACR107 | class A: |", columns=N)
def with_class(n):
    class A:
        pass

    return n


@rejected("ACR114 | (i for i in range(n)) |", columns=N)
def generator_kept(n):
    return [(i for i in range(n))]


@rejected("ACR309 | {n + 0.5: n} | int(x)", columns=N)
def dict_of_floats(n):
    return {n + 0.5: n}


class Node:
    def __init__(self):
        self.kids = []


@rejected("ACR309 | memo[node] | `node.memo = ...`", columns=[Node(), Node()])
def dict_of_objects(node):
    memo = {}
    memo[node] = 1
    return len(memo)


@rejected("ACR309 | node in seen | `node.number in seen`", columns=[Node(), Node()])
def set_of_objects(node):
    seen = {0}
    return node in seen


@rejected("ACR116 | str(range(n)) | range", columns=N)
def text_made(n):
    return str(range(n))


@rejected("ACR117 | x is y |")
def tensors_compared_by_is(x):
    y = x
    return x is y


# ---- calls


@rejected("ACR201 | input() | input", columns=N)
def with_input(n):
    input()
    return n


@rejected("ACR201 | python_random.random() | python_random.random", columns=N)
def hidden_state(n):
    return n * python_random.random()


@rejected("ACR202 | np.linalg.eigh(x) | np.linalg.eigh")
def unknown_function(x):
    return np.linalg.eigh(x)


@rejected('ACR202 | casting="no" | casting of np.add')
def unknown_argument(x):
    return np.add(x, x, casting="no")


@rejected("ACR203 | pair(n) | without b", columns=N)
def argument_missing(n):
    def pair(a, b):
        return a + b

    return pair(n)


@model
def inner(x):
    return x


@rejected("ACR205 | inner.batch | g(x)")
def batch_inside(x):
    return inner.batch([x])


@rejected("ACR206 | lambda: x |")
def closure_returned(x):
    return lambda: x


@rejected("ACR206 | fs.append(lambda v: v + k) |")
def closures_kept(x):
    fs = []
    for k in range(len(x)):
        fs.append(lambda v: v + k)
    return fs[0](x)


@rejected("ACR207 | def endless(n): |", columns=N)
def endless(n):
    return endless(n - 1) + 1


@rejected("ACR209 | ys.__reversed__() | .__reversed__", columns=XS)
def unknown_method(xs):
    ys = deque(xs)
    ys.__reversed__()
    return list(ys)


@rejected("ACR210 | functools.singledispatch | plain function", columns=N)
def with_decorator(n):
    @functools.singledispatch
    def same(m):
        return m

    return same(n)


@rejected("ACR211 | np.random |")
def with_random(x):
    return x + np.random.randn(4)


# ---- types and shapes


@rejected('ACR301 | n + "a" | int + the string', columns=N)
def text_added(n):
    return n + "a"


@rejected("ACR308 | [deque(xs)] | list", columns=XS)
def deque_in_a_list(xs):
    return [deque(xs)]


@rejected("ACR303 | ys | a tuple that grows", "ACR303 | ys | keep a list", columns=N)
def tuple_of_unlike_things_that_grows(n):
    ys = (1, "a")
    for _ in range(n):
        ys += (n,)
    return ys


@rejected("ACR304 | t.tag |", columns=TREES)
def text_read(t):
    return t.tag == b"a"


@rejected("ACR305 | a, b, c | 2 values for 3 names", columns=N)
def unpacked_wrongly(n):
    a, b, c = (n, n)
    return a


@rejected("ACR306 | m |", columns=N)
def never_bound(n):
    return m  # type: ignore[name-defined]


@rejected("ACR307 | n.foo | no attribute 'foo'", columns=N)
def attribute_of_int(n):
    return n.foo


@rejected("ACR307 | t.w | Tree has no attribute", columns=TREES)
def attribute_missing(t):
    return t.w


@rejected("ACR309 | d[n + 0.5] | int(x)", columns=N)
def float_key(n):
    d = {"a": 1}
    return d[n + 0.5]


@rejected("ACR309 | d[n:2] | a slice", columns=N)
def slice_as_key(n):
    d = {"a": 1}
    return d[n:2]


@rejected("ACR310 | np.float16 | float32")
def half_precision(x):
    return x.astype(np.float16)


@rejected("ACR401 | W @ np.zeros(3, np.float32) | float32[4, 4] @ float32[3]")
def product_of_misfits(x):
    return W @ np.zeros(3, np.float32)


@rejected("ACR401 | nn.layer_norm(W[0], W[0, :3], W[0, :3]) |")
def misfit_in_a_library_function(x):
    return nn.layer_norm(W[0], W[0, :3], W[0, :3])


@rejected("ACR402 | axis=1 | rank 1")
def axis_missing(x):
    return x.sum(axis=1)


@rejected("ACR404 | W.reshape(3, 5) | (3, 5)")
def misfit_of_reshape(x):
    return W.reshape(3, 5)


@rejected(
    "ACR201 | input() |", "ACR202 | np.linalg.eigh(x) |", "ACR111 | x[0] |",
    "ACR401 | W + np.ones(3, np.float32) |",
)  # fmt: skip
def several(x):
    input()
    y = np.linalg.eigh(x)
    x[0] = 1
    try:
        z = y
    finally:
        pass
    return W + np.ones(3, np.float32) + z


@rejected("ACR301 | best + xs[0] | None + int", columns=XS)
def rejected_behind_a_loop(xs):
    best = None
    for x in xs:
        best = None if x > 0 else best
    return best + xs[0]


@pytest.mark.parametrize(("fn", "columns", "expected"), REJECTED, ids=[fn.__name__ for fn, _, _ in REJECTED])
def test_rejected(fn, columns, expected):
    with pytest.raises(AcronumbaError) as caught:
        model(fn)._interpret(*columns)
    parts = str(caught.value).split("\n\n")[: len(expected)]
    errors = [caught.value, *caught.value.others]
    assert [e.code for e in errors] == [code for code, _, _ in expected], str(caught.value)
    for error, part, (code, text, more) in zip(errors, parts, expected, strict=True):
        lines = part.splitlines()
        assert lines[0].startswith(code)
        caret = next(line for line in lines if set(line.strip()) == {"^"})
        source = lines[lines.index(caret) - 1]
        start = caret.index("^")
        assert source[start : start + caret.count("^")] == text, part
        assert more in part, part
        assert error.file == __file__ and error.rewrite, part


# ---- what is accepted: aliases, joins, choices


def same(fn: Any, *columns: Any) -> None:
    agree(outcomes(model(fn)._interpret, *columns), plain(fn, *columns))


def test_augmented_assignment_of_what_was_made_here():
    def f(x):
        y = x * 2
        for _ in range(3):
            y += x
        z = (y + 1).reshape(2, 2)
        z *= 2
        s = x.sum(keepdims=True)
        s -= 1
        return y, z, s

    same(f, X)


def test_lists_made_in_the_call_may_be_changed_beside_those_of_the_data():
    def f(xs):
        rows = [[x, x] for x in xs]
        rows[0].append(7)
        for row in rows:
            row.sort()
        copies = [list(xs), xs[1:]]
        copies[1].append(5)
        return rows, copies, xs

    same(f, XS)


def test_methods_are_found_in_each_class():
    @dataclass
    class A:
        n: int

        def twice(self, k=2):
            return self.n * k

    @dataclass
    class B:
        x: float

        def twice(self, k=3):
            return self.x * k

    def f(v):
        return v.twice(), v.twice(k=5)

    same(f, [A(1), B(2.5)])


def test_a_function_chosen_at_run_time():
    def f(n, x):
        g = np.tanh if n == 0 else nn.sigmoid if n == 1 else (lambda v: v * n)
        table = [np.exp, g, lambda v: -v]
        return g(x), table[n](x), [h(x) for h in table]

    same(f, [0, 1, 2], [X[0]] * 3)


def test_a_name_bound_on_one_path_only_fails_where_it_is_read():
    def f(n):
        if n > 3:
            m = n
        return m

    with pytest.raises(InstanceErrors) as caught:
        model(f)._interpret([4, 3])
    assert list(caught.value.errors) == [1] and type(caught.value.errors[1]) is UnboundLocalError
    assert caught.value.results[0] == 4


def test_none_fails_where_an_attribute_is_read():
    @dataclass
    class Chain:
        value: int
        rest: Chain | None = None

    def f(c):
        return c.rest.value

    with pytest.raises(InstanceErrors) as caught:
        model(f)._interpret([Chain(1, Chain(2)), Chain(1)])
    assert type(caught.value.errors[1]) is AttributeError and caught.value.results[0] == 2


def test_shapes_of_a_loop_settle():
    def f(x):
        h = x[:1]
        for _ in range(len(x)):
            h = np.concatenate([h, x])
        return h, h.shape[0]

    same(f, [np.ones(n, np.float32) for n in (1, 3)])


def test_types_of_a_loop_become_a_union():
    def f(xs):
        last = None
        for x in xs:
            last = (x, last is None) if x % 2 else x
        return last

    same(f, [*XS, []])


def test_starred_lists_of_run_time_lengths():
    def f(xs):
        first, *rest = xs
        *start, last = [0, *xs, 9, *rest]
        return first, rest, start, last, [0] * len(xs), xs * 2, 2 in xs

    same(f, XS)


def test_library_functions_fail_at_the_line_of_the_user():
    def f(x, w):
        return nn.softmax(x + w)

    with pytest.raises(InstanceErrors) as caught:
        model(f)._interpret(X, [np.ones(4, np.float32), np.ones(3, np.float32)])
    assert caught.value.errors[1].line == f.__code__.co_firstlineno + 1


def four_turns(x):
    parts = []
    for _ in range(4):
        x = np.tanh(x) + x
        parts.append(x)
    return parts


def turns_of_known_length(x):
    n = 3
    for k in range(0, 2 * n, 2):
        x = np.tanh(x) + k
    return x


def seventeen_turns(x):
    for _ in range(17):
        x = np.tanh(x)
    return x


def many_operations(x):
    for _ in range(16):
        x = np.tanh(np.tanh(np.tanh(np.tanh(np.tanh(x)))))
    return x


def turns_with_a_branch(x, n):
    for _ in range(4):
        if n > 3:
            x = np.tanh(x)
    return x


def turns_of_run_time_number(x, n):
    for _ in range(n):
        x = np.tanh(x)
    return x


@pytest.mark.parametrize(
    ("fn", "columns", "nodes"),
    [
        (four_turns, (X,), 2),
        (turns_of_known_length, (X,), 2),
        (seventeen_turns, (X,), 34),
        (many_operations, (X,), 32),
        (turns_with_a_branch, (X, N), 4),
        (turns_of_run_time_number, (X, N), 7),
    ],
)
def test_short_loops_over_constant_ranges_become_one_kernel(fn, columns, nodes):
    m = model(fn, equal=False)
    assert m.trace(*columns).data.nodes == nodes
    m.check(*columns)
    assert ("iterations are written out" in str(m.explain(*columns))) == (nodes == 2)


def turns_of_a_shared_number(x, *, steps):
    for _ in range(steps):
        x = np.tanh(x)
    return x


def turns_of_a_shared_number_with_a_branch(x, *, steps):
    for _ in range(steps):
        if x[0] > 0.5:
            x = np.tanh(x)
    return x


TURNS = 4


def turns_of_a_global_number(x, *, steps):
    for _ in range(TURNS):
        x = np.tanh(x)
    return x


def turns_that_index(x, *, steps):
    total = np.float32(0)
    for k in range(steps):
        total = total + x[k]
    return total


@pytest.mark.parametrize(
    ("fn", "numbers", "compiled"),
    [
        (turns_of_a_shared_number, (100, 101, 17), 1),
        (turns_of_a_shared_number, (3, 4, 3), 1),
        (turns_of_a_global_number, (3, 4, 3), 1),
        (turns_that_index, (3, 4, 3), 2),
        (turns_of_a_shared_number_with_a_branch, (3, 4, 5), 1),
    ],
)
def test_a_shared_number_of_turns_is_a_constant_only_where_the_variable_indexes(monkeypatch, fn, numbers, compiled):
    count, m = [], model(fn)
    lower = pipeline.infer_and_lower
    monkeypatch.setattr(pipeline, "infer_and_lower", lambda *args: count.append(1) or lower(*args))
    for steps in numbers:
        for mine, wanted in zip(m._interpret(X, steps=steps), [fn(x, steps=steps) for x in X], strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-5)
    assert len(count) == compiled


def shrunk(n, i, j):
    return np.full(3, i * 10 + j, np.float32) if n == 0 else shrunk(n - 1, i, j) * 0.5


def calls_for_many_numbers(n):
    x = np.zeros(3, np.float32)
    for i in range(8):
        for j in range(8):
            x = x + shrunk(n, i, j)
    return x


def test_loops_that_call_are_not_unrolled():
    """Else there would be an instance of the function for each turn."""
    m = model(calls_for_many_numbers)
    assert m.stages(N)["ir"].count("def ") == 2
    m.check(N)


@dataclass
class Several:
    value: list[int] | int


def sum_of_rows(x, n, table):
    if n > 3:
        return sum_of_rows(x, n - 1, table)
    return table[0] + len(memoryview(x.value))


def test_what_is_rejected_in_a_function_is_told_though_its_call_was_tried_before() -> None:
    def product_of_sums(xs: list[Several], *, table):
        h = table[0]
        for x in xs:
            if len(xs) > 1:
                h = h * sum_of_rows(x, len(xs), table)
            else:
                h = h * table[1]  # `h` is no longer the row of a shared table: the loop is walked again
        return h

    with pytest.raises(AcronumbaError, match=r"ACR210.*\n.*\n.*memoryview\(x\.value\)"):
        model(product_of_sums).batch([[Several([1])], [Several(3)]], table=np.ones((3, 3), np.float32))
