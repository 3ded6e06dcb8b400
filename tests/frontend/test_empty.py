"""Lists that stay empty: in all instances of a mini-batch, in shared values, or because nothing is put into them.

In: models that would read an element. Out: what the plain call says, exceptions included, by the interpreter and by
machine code; then the same for instances whose lists have elements, and for the empty ones again.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, TypeMismatch, Unsupported, model, pack
from acronumba.api.dispatch import bind, specialise
from acronumba.api.results import equal
from acronumba.ir.types import FLOAT, INT, NEVER, NONE, ListT, TupleT, members, type_text, union, words
from acronumba.pipeline.fit import holds
from tests.support.chosen import one_in
from tests.support.plain_call import agree, outcomes, plain

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")


@dataclass
class Node:
    kids: list
    v: float = 1.0


@dataclass
class Row:
    h: np.ndarray
    k: int = 1


@dataclass
class Pairs:
    rows: list[tuple[np.ndarray, int]]


@dataclass
class Either:
    kids: list[Node] | None
    rows: list[np.ndarray] | None = None


def check(f: Any, columns: Sequence[Any], **shared: Any) -> None:
    """Compare with the plain call, instance by instance."""
    wanted = plain(f, *columns, **shared)
    for run in (f._interpret, f.batch):
        agree(outcomes(run, *columns, **shared), wanted)


# ---- lists of the instances


def attributes(n: Node) -> Any:
    t = n.v
    for k in n.kids:
        t += k.v
    return t


def total(xs: Any) -> Any:
    return sum(xs)


def total_of_arrays(xs: Any) -> Any:
    return sum(xs, np.zeros(2)), sum(x @ x for x in xs)


def first(xs: Any) -> Any:
    return xs[0]


def last_attribute(xs: Any) -> Any:
    return xs[-1].v


def itself(xs: Any) -> Any:
    return xs


def parts(xs: Any) -> Any:
    return xs[1:], xs[::-1], list(xs), sorted(xs), xs * 2, len(xs), [7, *xs], [*xs, 7], xs + xs


def copied_and_filled(xs: Any) -> Any:
    ys = xs[:]
    ys.append(3)
    zs = list(xs)
    zs.extend(xs)
    return ys, zs


def popped(xs: Any) -> Any:
    return list(xs).pop().v


def extremes(xs: Any) -> Any:
    return max(xs, default=0), min((x * 2 for x in xs), default=None)


def greatest(xs: Any) -> Any:
    return max(xs) if len(xs) != 1 else 0


def least_by_key(xs: Any) -> Any:
    best = min(xs, key=lambda x: x.v, default=None)
    return -1.0 if best is None else best.v


def in_order(xs: Any) -> Any:
    ys = sorted(xs, key=lambda x: (x.v, len(x.kids)), reverse=True)
    ys.sort(key=lambda x: x.v)
    return [y.v for y in ys]


def comprehensions(xs: Any) -> Any:
    return [x.v for x in xs], [x.v for x in xs if x.v > 1], any(x.v > 1 for x in xs), all(x.v > 1 for x in xs)


def pairs(xs: Any, ys: Any) -> Any:
    zipped = [x * y.v for x, y in zip(xs, ys, strict=False)]
    return zipped, [i * y.v for i, y in enumerate(ys)], [y.v for y in reversed(ys)]


def joined(xs: Any, ys: Any) -> Any:
    both = xs + ys
    return both, len(both)


def either(xs: Any, n: int) -> Any:
    ys = xs if n > 0 else [n]
    return sum(ys), ys


def two(xs: Any) -> Any:
    a, b = xs
    return a.v + b.v


def some_and_rest(xs: Any) -> Any:
    a, *rest = xs
    return a, rest


def guarded(xs: Any) -> Any:
    if xs and xs[0].v > 0:
        return xs[0].v
    return 0.0


def stack(xs: Any) -> Any:
    return np.stack(xs)


def stack_of_last_axis(xs: Any) -> Any:
    return np.stack([x.h for x in xs], axis=1)


def chain(xs: Any) -> Any:
    return np.concatenate(xs)


def chain_of_axis(xs: Any) -> Any:
    return np.concatenate([x.h for x in xs], axis=-1)


def above_each_other(xs: Any) -> Any:
    return np.vstack(xs)


def as_array(xs: Any) -> Any:
    return np.array(xs, np.float32), np.array(xs), np.sum(xs), np.mean(xs), np.asarray([x + 1.5 for x in xs])


def rows_of(xs: Any) -> Any:
    return np.arange(6.0).reshape(3, 2)[xs], np.arange(3.0)[[x % 3 for x in xs]]


def walk(n: Node) -> Any:
    todo, t = [n], 0.0
    while todo:
        m = todo.pop()
        t += m.v
        todo.extend(m.kids)
    return t


def tree(n: Node) -> Any:
    return n.v + sum([tree(k) for k in n.kids])


def nested(xs: Any) -> Any:
    t = 0.0
    for x in xs:
        for y in x:
            t += y.v
    return t, [len(x) for x in xs], xs


def nested_or_made(xs: Any, n: int) -> Any:
    ys = xs if n else [[1], []]
    return sum(sum(y) for y in ys), ys


def of_pairs(p: Pairs) -> Any:
    both = [*p.rows, (np.zeros(2), 3)]
    return [r * k for r, k in p.rows], [k for _, k in both]


def patterns(n: Node) -> Any:
    match n:
        case Node(kids=[k]) | Node(kids=[_, k]) if k.v > 0:
            return k.v
        case Node(kids=[k, *rest]):
            return k.v, len(rest)
        case Node(kids=[]):
            return n.v
    return None


def conditions(xs: Any) -> Any:
    a = xs[0].v if xs else 0.0
    b = 1 if not xs or xs[0].v > 0 else 2
    while xs and xs[0].v > a:
        a += xs[1].v
    assert len(xs) < 9, xs[0].v
    return a, b, 0 <= len(xs) < xs[0].v if xs else None


def of_a_dict(d: Any) -> Any:
    return sum(x.v for x in d["a"]), d["b"]


def of_a_tuple(p: Any) -> Any:
    a, b = p
    return [x.v for x in a], len(b) + sum(b)


def of_an_optional(e: Either) -> Any:
    a = -1.0 if e.kids is None else sum(k.v for k in e.kids)
    return a, None if e.rows is None else [r * 2 for r in e.rows]


def made_of(xs: Any) -> Any:
    n = Node([Node(xs)], 2.0)
    return sum(k.v for k in n.kids[0].kids), n.kids[0]


E, FULL = Node([]), [Node([], 2.0), Node([Node([])], 0.5)]
A, ROWS = np.arange(2.0), [Row(np.arange(4.0).reshape(2, 2)), Row(np.ones((2, 2)))]
NONE_AND_SOME = ([[], []],), ([[], FULL],)
NUMBERS = ([[], []],), ([[2, 1], []],)
VECTORS = ([[], []],), ([[A, A + 1], []],)
CASES = [
    (attributes, ([E, Node([], 3.0)],), ([E, Node(FULL)],)),
    (total, *NUMBERS),
    (total_of_arrays, *VECTORS),
    (first, *NUMBERS),
    (last_attribute, *NONE_AND_SOME),
    (itself, *NUMBERS),
    (parts, *NUMBERS),
    (copied_and_filled, *NUMBERS),
    (popped, *NONE_AND_SOME),
    (extremes, *NUMBERS),
    (greatest, *NUMBERS),
    (least_by_key, *NONE_AND_SOME),
    (in_order, *NONE_AND_SOME),
    (comprehensions, *NONE_AND_SOME),
    (pairs, ([[], [1]], [[], []]), ([[], [1, 2]], [[], FULL])),
    (joined, ([[], []], [[], []]), ([[], [1]], [[2], []])),
    (joined, ([[], []], [[1], [2]]), ([[], [1]], [[], []])),
    (either, ([[], []], [0, 1]), ([[], [4]], [0, 1])),
    (two, *NONE_AND_SOME),
    (some_and_rest, *NUMBERS),
    (guarded, *NONE_AND_SOME),
    (stack, *VECTORS),
    (stack_of_last_axis, ([[], []],), ([[], ROWS],)),
    (chain, *VECTORS),
    (chain_of_axis, ([[], []],), ([[], ROWS],)),
    (above_each_other, *VECTORS),
    (as_array, ([[], []],), ([[2.0, 1.0], []],)),
    (rows_of, *NUMBERS),
    (walk, ([E, Node([], 3.0)],), ([E, Node(FULL)],)),
    (tree, ([E, Node([], 3.0)],), ([E, Node(FULL)],)),
    (of_pairs, ([Pairs([]), Pairs([])],), ([Pairs([(A, 2)]), Pairs([])],)),
    (patterns, ([E, Node([], 3.0)],), ([E, Node(FULL)],)),
    (conditions, *NONE_AND_SOME),
    (nested, ([[[], []], [[]], []],), ([[[], FULL], [[]], []],)),
    (nested_or_made, ([[[], []], [[]]], [0, 1]), ([[[], [2]], [[3]]], [0, 1])),
    (of_a_dict, ([{"a": [], "b": []}, {"a": [], "b": [[]]}],), ([{"a": FULL, "b": []}, {"a": [], "b": [[1]]}],)),
    (of_a_tuple, ([([], []), ([], [])],), ([([], [1]), (FULL, [])],)),
    (of_an_optional, ([Either(None), Either([])],), ([Either(FULL, [A]), Either([], [])],)),
    (of_an_optional, ([Either(None), Either(None, None)],), ([Either([], []), Either(FULL, None)],)),
    (made_of, *NONE_AND_SOME),
]


IDS = [f"{k}-{f.__name__}" for k, (f, *_) in enumerate(CASES)]


@pytest.mark.parametrize(("f", "empty", "full"), one_in(4, CASES, IDS))
def test_lists_that_are_empty_in_every_instance(f: Any, empty: Any, full: Any) -> None:
    m = model(f)
    check(m, empty)
    check(m, full)
    check(m, empty)
    if len(empty) == 1:
        for packed in (pack(empty[0]), pickle.loads(pickle.dumps(pack(empty[0])))):
            agree(outcomes(model(f).batch, packed), plain(f, empty[0]))


def test_a_list_of_none_is_no_list_that_is_empty() -> None:
    def of_none(xs: Any) -> Any:
        return [x is None for x in xs], xs

    m = model(of_none)
    for column in ([[], []], [[1, 2], []], [[None], []], [[None], [None, None]], [[1, None], []], [[], []]):
        check(m, (column,))


def test_an_array_of_none_is_rejected() -> None:
    def of_none(xs: Any) -> Any:
        return np.array(xs)

    with pytest.raises(AcronumbaError, match=r"ACR301.*\n.*\n.*np.array\(xs\)"):
        model(of_none).batch([[None], [None]])


@pytest.mark.parametrize("f", [lambda xs: np.array(xs), lambda xs: np.sum(xs), lambda xs: np.maximum(xs, 1)])
def test_an_empty_list_among_those_of_ints_is_not_taken_for_one_of_ints(f: Any) -> None:
    with pytest.raises(InstanceErrors) as caught:
        model(f).batch([[1, 2], []])
    assert list(caught.value.errors) == [1]
    assert "np.array of an empty list is float64[0]" in str(caught.value.errors[1])
    assert equal(caught.value.results[0], f([1, 2]))


def test_empty_lists_after_others_need_nothing_new() -> None:
    m = model(total)
    m.batch([[1], [2, 3]])
    compiled = specialise(m, bind(m, ([[1], [2, 3]],), {}))[0]
    assert specialise(m, bind(m, ([[], []],), {}))[0] is compiled


# ---- shared lists, and lists of the call


def shared_lists(n: int, *, p: Any) -> Any:
    t = 0.0
    for x in p["a"]:
        t += x.v
    return t, sum(p["b"]), max(p["b"], default=n), len(p["a"]), p["b"], [n] + p["b"]


def test_shared_lists_that_are_empty() -> None:
    m = model(shared_lists)
    for a, b in (([], []), (FULL, [1, 2]), ([], [3]), ([], [])):
        check(m, ([1, 2],), p={"a": a, "b": b})


def never_filled(n: int) -> Any:
    xs: list[Any] = []
    t = 0.0
    for x in xs:
        t += x.v
    both = xs + xs
    return t, sum(xs), max(xs, default=n), sorted(xs), len(xs), xs, xs[n:], list(xs), both, [[xs], [xs]], np.array(xs)


def never_filled_at_run_time(n: int) -> Any:
    xs: list[Any] = []
    if n > 100:
        xs = xs[:]
    t = 0.0
    for x in xs:
        t += x.v
    xs.sort(key=lambda x: x.v)
    best = max(xs, key=lambda x: x.v, default=None)
    return t, sum(xs), best, sorted(xs), len(xs), xs, xs[n:], [x.a for x in xs], [[xs] for _ in range(n)], np.array(xs)


def element_of_nothing(n: int) -> Any:
    xs: list[Any] = []
    return xs[0].v if n else xs.pop().v


def stack_of_nothing(n: int) -> Any:
    xs: list[Any] = []
    return np.stack(xs) if n else np.concatenate(xs)


def counted_down(n: int) -> list[Any]:
    return [] if n == 0 else [n, *counted_down(n - 1)]


def nothing(n: int) -> list[Any]:
    return [] if n == 0 else nothing(n - 1)


def of_nothing(n: int) -> Any:
    xs = nothing(n)
    return sum(xs), [x.v for x in xs], [*xs, n], xs


def filled_as_it_goes(n: int) -> Any:
    xs: list[Any] = []
    out = 0
    for i in range(n):
        if i > 0:
            out += max(xs)
        for x in xs:
            out += x
        xs.append(i)
    return out, xs


@pytest.mark.parametrize(
    "f",
    [never_filled, never_filled_at_run_time, element_of_nothing, stack_of_nothing, counted_down, of_nothing,
     filled_as_it_goes],
)  # fmt: skip
def test_lists_that_are_never_filled(f: Any) -> None:
    check(model(f), ([0, 1, 3],))


# ---- a list that stays empty is not changed under another type


def changed_as_one_of_two(n: int) -> Any:
    r = nothing(n)
    y = r if n > 1 else [1]
    y.append(5)
    return sum(r), len(r)


def changed_in_a_list(n: int) -> Any:
    r = nothing(n)
    both = [r, [1]]
    both[0].append(5)
    return sum(r), len(r)


def changed_in_a_tuple(n: int) -> Any:
    r = nothing(n)
    pair = (r, 1) if n > 1 else ([2], 3)
    pair[0].append(5)
    return pair, len(r), sum(r)


def changed_where_it_lies(n: int) -> Any:
    lists: list[Any] = [[] for _ in range(n)]
    z = lists[0]
    y = z if n > 2 else [1]
    y.append(4)
    return sum(z), lists


@pytest.mark.parametrize(
    "f", [changed_as_one_of_two, changed_in_a_list, changed_in_a_tuple, changed_where_it_lies]
)  # fmt: skip
def test_a_list_of_two_types_is_not_changed(f: Any) -> None:
    with pytest.raises((Unsupported, TypeMismatch), match=r"ACR113|ACR303"):
        model(f).batch([1, 2, 3])


# ---- the type of no value


def test_the_type_of_no_value() -> None:
    assert union() == union(NEVER, NEVER) == NEVER
    assert union(NEVER, INT) == INT
    assert union(ListT(NEVER), ListT(INT)) == ListT(INT)
    assert union(TupleT((ListT(NEVER), INT)), TupleT((ListT(NONE), INT))) == TupleT((ListT(NONE), INT))
    assert members(NEVER) == words(NEVER) == ()
    assert type_text(ListT(NEVER)) == "list[Never]"
    assert holds(ListT(INT), ListT(NEVER))
    assert not holds(ListT(NEVER), ListT(INT))
    assert not holds(ListT(FLOAT), ListT(NONE))


@model
def empty_twice(x):
    v = []
    return x, [v, v]


@model
def empty_around(x):
    v = []
    return v, [x, 1.0], v


@model
def known_twice(x):
    v = [x]
    return v, x, v


def test_a_list_that_is_named_twice_is_one_list() -> None:
    x = np.ones(3, np.float32)
    for run in (empty_twice._interpret, empty_twice.batch):
        (out,) = run([x])
        assert out[1][0] is out[1][1] and out[1] == [[], []]
    for m in (empty_around, known_twice):
        for run in (m._interpret, m.batch):
            (out,) = run([x])
            assert out[0] is out[2]


# ---- lists of empty lists, and parts of them


@model
def rows_and_an_empty_one(n, x):
    rows: list[Any] = [[] for _ in range(n)]
    if n:
        rows[0].append(x)
    empty: list[Any] = [[]]
    return rows[1:] + empty, empty + rows


def test_lists_of_empty_lists_are_joined():
    columns = [0, 1, 2, 3, 5], [np.arange(2, dtype=np.float32) + k for k in range(5)]
    agree(outcomes(rows_and_an_empty_one._interpret, *columns), plain(rows_and_an_empty_one, *columns))


@model
def parts_of_nothing(xs: list[int]) -> tuple[float, list[float], list[int]]:
    empty = []
    part = empty[:]
    total = 0.0
    for k in part:
        total = total + float(k)
    other = empty[1:]
    other.append(1.5)
    late = []
    early = late[:]
    for x in xs:
        late.append(x)  # noqa: PERF402
    return total, other, early + late[1:]


def test_a_part_of_an_empty_list_is_a_list_of_its_own() -> None:
    xs = [[1, 2, 3], [], [4]]
    assert parts_of_nothing._interpret(xs) == [parts_of_nothing(x) for x in xs]


def length_below(n, items):
    return len(items) if n <= 0 else length_below(n - 1, items)


@model
def from_nothing(n):
    items = []
    k = length_below(n, items)
    both = items + items
    both.extend([k])
    return both, items


def test_two_empty_lists_make_one_that_grows() -> None:
    assert from_nothing.batch([1, 2]) == [from_nothing(1), from_nothing(2)] == [([0], []), ([0], [])]
