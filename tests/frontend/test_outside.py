"""Programs outside of the language end in the right results, rejections, or what Python raises: never in a fault."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from acronumba import AcronumbaError, InternalError, model, pack
from acronumba.errors import NOWHERE
from tests.support import outside


def found(first, count, tmp_path, whole=False):
    told = [outside.tell(number, tmp_path, whole) for number in range(first, first + count)]
    assert {t.kind.partition(" ")[0] for t in told} <= {"taken", "rejected", "python", "fault"}
    return [t for t in told if t.fault]


def test_the_front_end_rejects_them(tmp_path):
    assert not found(0, 60, tmp_path)


def test_mini_batches_reject_them(tmp_path):
    assert not found(300, 8, tmp_path, whole=True)


@pytest.mark.parametrize("first", [pytest.param(n, marks=pytest.mark.slow) for n in (1000, 1200, 1400, 1600)])
def test_the_front_end_rejects_more_of_them(first, tmp_path):
    assert not found(first, 200, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", [2000, 2100, 2200])
def test_mini_batches_reject_more_of_them(first, tmp_path):
    assert not found(first, 100, tmp_path, whole=True)


def test_what_is_written_is_outside_of_the_language():
    """Of the programs many are rejected, some are none of Python, and some are taken: the sample is of all kinds."""
    texts = [outside.program(k) for k in range(40)]
    assert len({p.text for p in texts}) == 40 and outside.program(7).text == texts[7].text
    assert any("data" in p.changes for p in texts)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AttributeError("x"), "fault AttributeError"),
        (AcronumbaError("ACR301", "x", NOWHERE), "fault ACR301 without a line"),
        (AcronumbaError("ACR799", "x", NOWHERE), "fault ACR799"),
        (InternalError("ACR798", "x", NOWHERE), "fault NoneType"),
    ],
)
def test_faults_are_told_from_rejections(error, kind):
    assert outside.judged(error, "nosuch.py")[0].startswith(kind)


# ---- data without classes that hold themselves


def ask(t, x):
    if "leaf" in t:
        return t["leaf"]
    return ask(t["left"], x) if x < t["at"] else ask(t["right"], x)


def weigh(t, x):
    return x + sum(weigh(c, x) for c in t["children"])


def formula(e, x):
    if isinstance(e, float):
        return e * x
    return formula(e[1], x) + formula(e[2], x)


def matched(e, x):
    match e:
        case ("num", v):
            return v * x
        case ("add", a, b):
            return matched(a, x) + matched(b, x)


def linked(t, x):
    return x if t is None else t[0] + linked(t[1], x)


def until(t, x):
    while t is not None:
        x += t["v"]
        t = t["next"]
    return x


def same(t, x):
    return x if t["left"] == t["right"] else -x


LEAVES = {ask: {"leaf": 1.0}, weigh: {"children": []}, formula: 1.0, matched: ("num", 1.0), same: {"k": [1]}}
NODES = {
    ask: lambda a: {"at": 0.5, "left": a, "right": {"leaf": 2.0}},
    weigh: lambda a: {"name": "n", "size": 1, "children": [a, {"children": []}]},
    formula: lambda a: ["+", a, 2.0],
    matched: lambda a: ("add", a, ("num", 1.0)),
    linked: lambda a: (1.0, a),
    until: lambda a: {"v": 1.0, "next": a},
    same: lambda a: {"left": [a, {"z": 1}], "right": [{"k": [a]}, a]},
}


def grow(kind, depth):
    out = LEAVES.get(kind)
    for _ in range(depth):
        out = NODES[kind](out)
    return out


@pytest.fixture
def deep_recursion():
    """The plain calls recurse as deep as the data."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("deep_recursion")
@pytest.mark.parametrize("fn", [fn for fn in NODES if fn is not same])
def test_data_without_classes_are_as_deep_as_they_are(fn):
    """Also alone, so that the types do not come from others; and in one program for all depths."""
    f = model(fn)
    for depths in ((5,), (14,), (2, 100, 6, 1000)):
        trees = [grow(fn, depth) for depth in depths]
        xs = [0.25 * k for k in range(len(trees))]
        want = [fn(t, x) for t, x in zip(trees, xs, strict=True)]
        assert list(f.batch(trees, xs)) == want
        assert list(f.batch(pack(trees), xs)) == want


@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("fn", [ask, matched, linked, until])
def test_the_definition_takes_data_without_classes(fn, depth):
    trees, xs = [grow(fn, depth), grow(fn, depth)], [0.25, 0.75]
    assert model(fn)._interpret(trees, xs) == [fn(t, x) for t, x in zip(trees, xs, strict=True)]


def test_full_trees_of_dicts():
    def full(d):
        return {"leaf": float(d)} if not d else {"at": 0.5, "left": full(d - 1), "right": full(d - 1)}

    assert list(model(ask).batch([full(14)], [0.5])) == [ask(full(14), 0.5)]


@dataclass
class Node:
    x: np.ndarray
    kids: list[Node]


class Walk:
    def __init__(self, x):
        self.memo = {0: x}
        self.buf = np.zeros(3)

    def visit(self, t, d):
        self.memo[d % 5] = t.x
        self.buf[1] += 1
        h = t.x
        for c in t.kids:
            h = h + self.visit(c, d - 1)
        return h


def walked(t: Node, d: int):
    w = Walk(t.x)
    return w.visit(t, d), sorted(w.memo), w.buf


def test_a_recursive_method_changes_a_dict_that_was_written_out_and_an_array():
    trees = [Node(np.ones(3), [Node(np.ones(3), [])]), Node(np.arange(3.0), [])]
    want = [walked(t, d) for t, d in zip(trees, [2, 4], strict=True)]
    for got, plain in zip(model(walked).batch(trees, [2, 4]), want, strict=True):
        assert np.array_equal(got[0], plain[0]) and got[1] == plain[1] and np.array_equal(got[2], plain[2])


def spread(x, *, p):
    return np.sum(x, **p)


@pytest.mark.parametrize("given", [{1: 0}, [("axis", 0)], SimpleNamespace(axis=0)])
def test_what_is_no_dict_of_strings_gives_no_keywords(given):
    with pytest.raises(AcronumbaError) as caught:
        model(spread).batch([np.ones(3)], p=given)
    assert caught.value.code in ("ACR203", "ACR501") and caught.value.line


def with_keywords(x, *, p):
    return 1.0 if isinstance(x, float, **p) else 2.0


def with_a_keyword(x):
    return 1.0 if isinstance(x, float, x=x) else 2.0


@pytest.mark.parametrize(("f", "shared"), [(with_keywords, {"p": {"a": 1}}), (with_a_keyword, {})])
def test_isinstance_with_keywords_is_rejected(f, shared):
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1.0], **shared)
    assert caught.value.code in ("ACR201", "ACR203") and caught.value.line


@dataclass
class Place:
    x: float


def dict_inside_itself(s, sep):
    out = []
    for part in s.split(sep):
        if not part:
            sep = {}
            sep[sum(1 for c in s if c in "aeiou")] = sep
            continue
        out.append(part)
    return len(out)


def text_of_a_dataclass(s, sep):
    return Place(1.0).__repr__() + sep


def test_a_dict_inside_of_itself_has_a_type():
    columns = ["a b", "c", "a  b", " "], [" "] * 4
    assert list(model(dict_inside_itself).batch(*columns)) == list(map(dict_inside_itself, *columns))


def test_what_has_no_source_is_rejected():
    with pytest.raises(AcronumbaError) as caught:
        model(text_of_a_dataclass).batch(["a b", "c"], [" ", " "])
    assert caught.value.code == "ACR201" and caught.value.line


def lists_among_numbers(x):
    eps = [-1]
    eps[0] = True
    eps.append(eps)
    return x / np.sqrt(x.var(-1, keepdims=True) + eps)


def test_lists_among_numbers_are_rejected():
    with pytest.raises(AcronumbaError) as caught:
        model(lists_among_numbers).batch([np.ones((2, 3))])
    assert caught.value.code in ("ACR301", "ACR303") and caught.value.line


def three_times(n):
    return (n if n < 2 else three_times(n - 1),) * 3


def nine_times(n):
    return {"a": (n if n < 2 else nine_times(n - 1),) * 9}


@pytest.mark.parametrize("f", [three_times, nine_times])
def test_tuples_that_multiply(f):
    """Three to the power of twelve would be half a million values, but equal parts are one."""
    assert list(model(f).batch([1, 2, 5])) == [f(1), f(2), f(5)]


def of_a_shared_number(x, *, k):
    a = k + 0
    rows = [[k - 1, x]]
    for j in range(2):
        rows = sorted([[s + j, h] for s, h in rows], key=lambda row: -row[0])[:1]
    return [1.0, 2.0, 3.0][a * 1 - 0 - 1 + 0] * x + rows[0][0]


def test_a_shared_number_and_nothing_more():
    """`k + 0` is `k` itself."""
    f = model(of_a_shared_number)
    assert list(f.batch([1.0, 2.0], k=2)) == [f(1.0, k=2), f(2.0, k=2)]


def a_part_of_a_new_axis(x, n):
    z = np.zeros((n + 1, 4))
    z[None][:n] += x
    return z


def the_other_way_around(x, n):
    z = np.zeros((n + 1, 4))
    z[:, None][:, ::-1] = x
    return z


@pytest.mark.parametrize("f", [a_part_of_a_new_axis, the_other_way_around])
def test_a_part_of_a_new_axis_is_no_place(f):
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1.0, 2.0], [2, 3])
    assert caught.value.code == "ACR111" and caught.value.line
