"""Verdicts: equal, close, undecided, different."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, DataError, Options, model, nn, random
from acronumba.api.check import Checker, check, compare, together
from acronumba.api.dispatch import bind, run
from acronumba.api.plain import PlainCall
from acronumba.api.reference import Reference
from acronumba.api.shadow import narrow, wide
from tests.support.chosen import one_in

F = np.float32


def verdict(batched, plain, wide):
    return compare(batched, plain, wide)[0]


@pytest.mark.parametrize(("error", "expected"), [(0.9e-5, "close"), (1.1e-5, "different")])
def test_float32_may_differ_by_1e_5_of_the_largest_magnitude(error, expected):
    wide = np.array([100.0, 1.0])
    plain = wide.astype(F)
    batched = (wide + np.array([0, 100 * error])).astype(F)
    assert verdict(batched, plain, wide) == expected


@pytest.mark.parametrize(("error", "expected"), [(0.9e-12, "close"), (1.1e-12, "different")])
def test_float64_may_differ_by_1e_12(error, expected):
    wide = np.array([100.0, 1.0])
    assert verdict(wide + np.array([0, 100 * error]), wide.copy(), wide) == expected


@pytest.mark.parametrize(("single", "expected"), [(False, "different"), (True, "close")])
def test_python_floats_that_were_read_from_float32_may_differ_as_those_do(single, expected):
    assert compare(1.0 + 1e-7, 1.0, 1.0, single=single)[0] == expected


@pytest.mark.parametrize(("factor", "expected"), [(3.9, "close"), (4.2, "different")])
def test_four_times_the_plain_calls_own_error_is_allowed(factor, expected):
    wide = np.array([1.0, 2.0])
    assert verdict((wide + factor * 1e-3).astype(F), (wide + 1e-3).astype(F), wide) == expected


def test_infinities_and_nan_must_be_the_same():
    wide = np.array([1.0, np.inf, np.nan])
    assert verdict(wide.astype(F), wide.astype(F), wide) == "close"
    assert verdict(np.array([1.0, np.inf, 1.0], F), wide.astype(F), wide) == "different"
    assert verdict(np.array([1.0, -np.inf, np.nan], F), wide.astype(F), wide) == "different"


def test_what_is_finite_in_the_plain_call_alone_is_compared_with_it():
    assert verdict(np.array([5.0, 1.0], F), np.array([2.0, 1.0], F), np.array([np.nan, 1.0])) == "different"
    assert verdict(np.array([2.0, 1.0], F), np.array([2.0, 1.0], F), np.array([np.inf, 1.0])) == "close"


def test_decisions_that_rounding_cannot_make_are_undecided():
    assert verdict(3, 4, 4) == "different"
    assert verdict(3, 4, 3) == "undecided"
    assert verdict(np.int64(3), np.int64(4), np.int64(4)) == "different"
    assert verdict([F(1), F(2)], [F(1)], [1.0, 2.0]) == "undecided"
    assert verdict([F(1), F(2)], [F(1)], [1.0]) == "different"


def by_argmax(x, y):
    return np.argmax(x * y)


def by_comparison(x, y):
    return x if (x * y)[0] > (x * y)[1] else y


def by_number(x, y):
    return int(float(x[0] * y[0]))


def by_order(x, y):
    parts = list(x * y)
    parts.sort(key=lambda v: -v)
    return parts


def by_equal_values(x, y):
    return np.argmax(np.maximum(x, y * 0)), bool(x[1] == y[1])


def by_equal_sums(x, y):
    """Exact sums are equal; those that are rounded could as well differ in the last bit."""
    sums = np.stack([x, x[::-1]]) @ (y / 3)
    return np.argmax(sums), bool(sums[0] == sums[1])


@pytest.mark.parametrize(
    ("fn", "near"),
    [(by_argmax, 1), (by_comparison, 1), (by_number, 1), (by_order, 1), (by_equal_values, 0), (by_equal_sums, 1)],
)
def test_the_float64_run_counts_the_decisions_by_near_values(fn, near):
    x, far = np.array([3.0, 2.9999993, 1.0], F), np.array([3.5, 2.0, 1.0], F)
    instances = [(x, np.array([0.99999994, 1.0, 1.0], F)), (far, np.ones(3, F))]
    if fn is by_equal_sums:
        instances = [(x, np.ones(3, F)), (x, np.zeros(3, F))]
    if fn is by_equal_values:
        instances = [(np.array([2.0, 2.0, 1.0], F), np.array([1.0, 2.0, 3.0], F))] * 2
    for instance, expected in zip(instances, (near, 0), strict=True):
        assert bool(Reference(PlainCall(fn, {}, 10**5)).run(instance).choices) == bool(expected)


@model
def climbs(x):
    total = 0
    for _ in range(3):
        x = np.tanh(x) * 3
        total += int(np.argmax(x))
        x = x + total
    return total


def test_a_decision_by_near_values_is_no_difference():
    """The plain call and the float64 run agree here by luck."""
    x = np.array([-0.7037352323532104, -1.2654215097427368, -0.6232744455337524, 0.04132597893476486], F)
    done = climbs.batch([x])[0], climbs(x)
    verdict = climbs.check([x]).verdicts[0]
    assert verdict.verdict == ("equal" if done[0] == done[1] else "undecided")


def test_types_and_dtypes_must_agree():
    assert verdict(np.ones(2), np.ones(2, F), np.ones(2)) == "different"
    assert verdict(1, True, True) == "different"
    assert verdict(F(1), np.array(1, F), 1.0) == "different"
    assert verdict((1.0,), [1.0], [1.0]) == "different"


def test_the_worst_leaf_is_named():
    wide = {"a": np.ones(2), "b": [np.ones(2), np.ones(2)]}
    near = {"a": np.ones(2, F), "b": [np.ones(2, F), np.ones(2, F) + F(1e-6)]}
    plain = {"a": np.ones(2, F), "b": [np.ones(2, F), np.ones(2, F)]}
    text, error, plain_error, where = compare(near, plain, wide)
    assert (text, where) == ("close", "['b'][1]") and error == pytest.approx(1e-6, rel=0.1) and plain_error == 0


def test_deep_and_cyclic_results_can_be_compared():
    deep = None
    for k in range(10_000):
        deep = [deep, k]
    assert sum(1 for _ in together(deep)) == 20_001
    assert verdict(deep, deep, deep) == "close"
    cycle: list = [1]
    cycle.append(cycle)
    assert [leaf.value for (leaf,) in together(cycle)] == [(list, ("[0]", "[1]")), 1, (list, ("[0]", "[1]"))]


def test_an_object_in_two_places_may_be_two_that_are_equal():
    row = [np.ones(2, F), [1.0]]
    assert verdict([[np.ones(2, F), [1.0]], [np.ones(2, F), [1.0]]], [row, row], [row, row]) == "close"
    assert verdict([[np.ones(2, F), [1.0]], [np.ones(2, F), [2.0]]], [row, row], [row, row]) == "different"
    assert verdict([row, row], [[np.ones(2, F), [1.0]], [np.ones(2, F), [2.0]]], [row, row]) == "undecided"
    assert verdict({"a": 1}, {"b": 1}, {"b": 1}) == "different"


# ---- mistranslations: the compiled program is another one than the user's function


@dataclass
class Node:
    value: int
    next: Node | None = None


def misread(right, wrong, *columns, **shared):
    """Return the verdicts on a batch of `wrong` that is taken for one of `right`."""
    m = model(wrong)
    call = bind(m, columns, shared)
    return [v.verdict for v in check(model(right), call.columns, call.shared, run(m, call)).verdicts]


def last(node):
    return node.value if node.next is None else last(node.next)


def first(node):
    return node.value


def drawn(key):
    return random.normal(key, 3)


XS = [np.array([0.3, -1.7, 2.4, 0.9], F) * F(k + 1) for k in range(4)]
W = np.random.default_rng(5).standard_normal((4, 4)).astype(F)
MISREADINGS = {
    "a value": (lambda x: x[0] * 0 + 2, lambda x: x[0] * 0 + 1000),
    "a sign": (lambda x: x + 1, lambda x: x - 1),
    "an index": (lambda x: x[1], lambda x: x[2]),
    "a small constant": (lambda x: x * 1.0001, lambda x: x),
    "branches": (lambda x: x if x[0] > 0 else -x, lambda x: -x if x[0] > 0 else x),
    "a comparison": (lambda x: x if x[0] > 0 else x * 2, lambda x: x if x[0] < 0 else x * 2),
    "the operands of a product": (lambda x: W @ x, lambda x: W.T @ x),
    "an axis": (lambda x: np.outer(x, x[:3]).sum(axis=0)[:3], lambda x: np.outer(x, x[:3]).sum(axis=1)[:3]),
    "a function": (lambda x: np.exp(x), lambda x: np.tanh(x)),
    "a float": (lambda x: float(x[0]) * 2, lambda x: float(x[0]) * 3),
    "a double": (lambda x: x.astype(np.float64) / 3, lambda x: x.astype(np.float64) / 3.0000000001),
    "an int": (lambda x: len(x) + 1, lambda x: len(x)),
    "an argmax": (lambda x: np.argmax(x), lambda x: np.argmin(x)),
    "a truth": (lambda x: x[0] > 0, lambda x: x[0] < 0),
    "whole numbers": (lambda x: int(float(x[2])), lambda x: int(float(x[2])) + 1),
    "a structure": (lambda x: (x, x), lambda x: [x, x]),
    "a length": (lambda x: [x[0]] * 3, lambda x: [x[0]] * 2),
    "an order": (lambda x: sorted([x[0], x[1], x[2]]), lambda x: [x[0], x[1], x[2]]),
    "a dtype": (lambda x: x.astype(np.float64), lambda x: x),
    "a scalar": (lambda x: x[0], lambda x: x[:1]),
    "the number of steps": (lambda x: sum([x * 0.5 for k in range(3)]), lambda x: sum([x * 0.5 for k in range(2)])),
    "NaN": (lambda x: np.log(x), lambda x: np.log(np.abs(x))),
    "a conversion": (lambda x: x.astype(np.int32).astype(np.float32), lambda x: x),
    "a helper": (lambda x: nn.softmax(x), lambda x: nn.log_softmax(x)),
    "what fails": (lambda x: x[4], lambda x: x[3]),
    "what does not fail": (lambda x: x[3], lambda x: x[len(x)]),
    "the kind of failure": (lambda x: x[len(x)], lambda x: 1 // (len(x) - 4)),
    "a division": (lambda x: len(x) // 3, lambda x: len(x) % 3 + 4),
}


@pytest.mark.parametrize("what", one_in(2, MISREADINGS))
def test_what_the_compiler_misreads_is_different(what):
    right, wrong = MISREADINGS[what]
    assert misread(right, wrong, XS) == ["different"] * len(XS)
    assert set(misread(right, right, XS)) <= {"equal", "close"}


def test_what_the_compiler_misreads_is_different_in_a_recursion():
    nodes = [Node(1, Node(2)), Node(3, Node(4, Node(5)))]
    assert misread(last, first, nodes) == ["different"] * 2


def test_other_random_numbers_are_different():
    keys = random.keys(3, 4)
    assert misread(drawn, lambda key: random.uniform(key, 3), keys) == ["different"] * 4
    assert set(misread(drawn, drawn, keys)) <= {"equal", "close"}


def test_a_wrong_operation_is_found(monkeypatch):
    """Through `check`, and through ACRONUMBA_VERIFY=2."""
    from acronumba.frontend.tensors import TensorOps

    before = TensorOps.op
    monkeypatch.setattr(
        TensorOps, "op", lambda self, op, *args, **kw: before(self, "mul" if op == "add" else op, *args, **kw)
    )

    @model
    def sums(x):
        return x + x * 3

    assert {v.verdict for v in sums.check(XS).verdicts} == {"different"}
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    with pytest.raises(AcronumbaError, match="ACR799"):
        sums.batch(XS)


# ---- decisions by near values


def picks(x, y):
    return int(np.argmax(x * y)), int((x * y)[2])


def picks_the_second(x, y):
    return 1 + 0 * int(np.argmax(x * y)), int((x * y)[2])


def picks_the_third(x, y):
    return 2 + 0 * int(np.argmax(x * y)), int((x * y)[2])


def test_an_outcome_is_undecided_only_if_another_decision_leads_to_it():
    x, y = np.array([3.0, 2.9999993, 1.0], F), np.array([0.99999994, 1.0, 2.5], F)
    assert picks(x, y)[0] == 0
    assert misread(picks, picks_the_second, [x], [y]) == ["undecided"]
    assert misread(picks, picks_the_third, [x], [y]) == ["different"]


def relu(x):
    h = x * 1.1
    return np.where(h > 0, h, 0) * 2, np.argmax(h)


def relu_and_more(x):
    h = x * 1.1
    return np.where(h > 0, h, 0) * 2.1, np.argmax(h)


def test_decisions_that_change_nothing_excuse_nothing():
    """Which side of 0 a number of 1e-9 is on is rounding's choice, and makes no difference."""
    x = np.array([1.0, 1e-9, -1e-9, 2e-9, -2.0], F)
    assert misread(relu, relu_and_more, [x]) == ["different"]


def truths(x):
    return (x * 0.1).astype(np.bool_), (x * 0.1 + 1).astype(np.int32)


def other_truths(x):
    return (x * 0.1).astype(np.bool_), (x * 0.1 + 1.0000005).astype(np.int32)


def test_whole_numbers_may_be_either_where_rounding_decides():
    x = np.array([5.0, -1e-7, 19.999996], F)
    assert misread(truths, other_truths, [x]) == ["undecided"]
    assert misread(truths, lambda x: ((x * 0.1).astype(np.bool_), (x * 0.1 + 2).astype(np.int32)), [x]) == ["different"]


def above(x):
    return (x * 1.1 > 1.1) * np.arange(1, 201), x


def test_more_decisions_than_can_be_tried_are_undecided():
    x = np.full(200, 1, F) * np.where(np.arange(200) % 2, F(1.0000001), F(0.9999999))
    assert misread(above, lambda x: ((x * 1.1 < 0) * np.arange(1, 201), x), [x]) == ["undecided"]


def test_a_batch_that_does_not_end_is_different():
    def counts(n):
        k = 0
        while k < n:
            k += 1
        return k

    @model(max_steps=10**6)
    def for_ever(n):
        k = 0
        while k >= 0:
            k += 1
        return n

    call = bind(for_ever, [[5]], {})
    done = run(for_ever, call)
    assert [v.verdict for v in check(model(counts), call.columns, {}, done).verdicts] == ["different"]
    assert for_ever.check([5]).verdicts[0].verdict == "undecided"


# ---- the plain call's own error


def cancels(x):
    return ((x + 3000.3) + 0.1) - 3000.4


def cancels_elsewhere(x):
    return (x + 3000.4) - 3000.4


def test_the_bound_does_not_grow_with_the_plain_calls_own_error_for_ever():
    """Within 1000 bounds of the plain call a result may be close; beyond, rounding alone decides it."""
    wide_ = np.array([1.0, 2.0])
    near, far = (wide_ + 2e-4).astype(F), (wide_ + 2e-2).astype(F)
    assert verdict((wide_ - 2e-4).astype(F), near, wide_) == "close"
    assert verdict((wide_ - 2e-2).astype(F), far, wide_) == "undecided"
    assert verdict((wide_ + 1000).astype(F), far, wide_) == "different"
    assert verdict((wide_ + 1000).astype(F), near, wide_) == "different"


def test_an_ill_conditioned_model_is_held_to_the_plain_calls_error():
    xs = [np.array([0.123, 1.456], F)]
    assert misread(cancels, cancels_elsewhere, xs) in (["close"], ["undecided"])
    assert misread(cancels, lambda x: (x + 3000) - 3001, xs) == ["different"]


# ---- the float64 run itself


@dataclass(frozen=True, slots=True)
class Scale:
    by: np.ndarray

    def __call__(self, x):
        return np.float32(0.5) * (self.by * x).astype(np.float32)


class Pair(NamedTuple):
    a: Any
    b: Any


G = np.array([0.1, 0.2, 0.3], F)
HALF = 0.5


def fixes_its_dtypes(x, scale):
    h = np.zeros(3, np.float32)
    for _ in range(20):
        h = scale(np.array([np.tanh(h[0] + x[0]), h[1], h[2] + x[1]], dtype=np.float32)) + G
    n = np.sum(h, dtype="float32") + np.float32(float(h[0]) * HALF)
    return Pair(h, n), float(n), math.exp(float(n)), h.tolist(), h.dtype == np.float32, isinstance(h[0], np.float32)


def doubled(v):
    if isinstance(v, np.ndarray):
        return v.astype(np.float64)
    return Scale(doubled(v.by))


def in_float64(x, scale):
    h = np.zeros(3)
    for _ in range(20):
        h = 0.5 * (scale.by * np.array([np.tanh(h[0] + x[0]), h[1], h[2] + x[1]])) + G.astype(np.float64)
    n = np.sum(h) + float(h[0]) * HALF
    return Pair(h, n), float(n), math.exp(float(n)), h.tolist(), True, True


def test_the_float64_run_is_the_plain_call_and_the_same_in_float64():
    """Also where the code fixes its dtypes, in methods, globals and NamedTuples."""
    x, scale = np.array([0.3, -0.7], F), Scale(np.array([1.5, 0.9, 0.7], F))
    found = Reference(PlainCall(fixes_its_dtypes, {}, 10**5)).run([x, scale])
    assert found.error is None and found.single
    plain, exact = fixes_its_dtypes(x, scale), in_float64(doubled(x), doubled(scale))
    for a, w, b, c in together(plain, exact, found.result, found.result):
        if isinstance(a.value, tuple):
            assert a.value == b.value
        else:
            assert type(a.value) is type(narrow(b.value)) and np.array_equal(a.value, narrow(b.value))
            assert np.allclose(w.value, wide(c.value), rtol=1e-14, atol=0)
    off = [
        np.max(np.abs(np.asarray(a.value, float) - wide(b.value)))
        for a, b in together(plain[0], found.result[0])
        if not isinstance(a.value, tuple)
    ]
    assert max(off) > 1e-9


def test_the_float64_run_leaves_the_users_objects_alone():
    x, scale = np.array([0.3, -0.7], F), Scale(np.array([1.5, 0.9, 0.7], F))
    before = dict(vars(Scale)), dict(globals()), x.copy()
    Reference(PlainCall(fixes_its_dtypes, {}, 10**5)).run([x, scale])
    assert dict(vars(Scale)) == before[0] and type(scale) is Scale and type(scale.by) is np.ndarray
    assert all(globals()[k] is v for k, v in before[1].items()) and np.array_equal(x, before[2])
    assert issubclass(Scale, object) and len(Scale.__subclasses__()) == 0


# ---- float64 results of float32 work


def rounded_twice(x, *, w):
    return (w @ x).sum().astype(np.float64)


def averaged(x, *, w):
    return np.mean(w @ x, dtype=np.float64)


def widened(x, *, w):
    return (w @ x).astype(np.float64)


def of_floats(x, *, w):
    return np.array([float(v) for v in w @ x])


def chosen_in_float64(x, *, w):
    return np.argmax((w @ x).astype(np.float64))


FROM_SINGLE = [rounded_twice, averaged, widened, of_floats, chosen_in_float64]


@pytest.mark.parametrize("fn", one_in(2, FROM_SINGLE), ids=lambda fn: fn.__name__)
def test_float64_results_of_float32_work_are_held_to_the_bound_of_float32(fn):
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=64).astype(F) for _ in range(32)]
    w = (rng.normal(size=(64, 64)) / 4).astype(F)
    check_ = model(fn).check(xs, w=w)
    assert check_.ok and check_.count("undecided") <= 1, str(check_)
    assert set(misread(fn, lambda x, *, w: fn(x * np.float32(1.01), w=w), xs[:4], w=w)) <= {"different", "equal"}
    if fn is not chosen_in_float64:
        assert misread(fn, lambda x, *, w: fn(x * np.float32(1.01), w=w), xs[:4], w=w) == ["different"] * 4


def test_a_float64_model_is_held_to_the_bound_of_float64():
    xs = [x.astype(np.float64) for x in XS]
    assert misread(lambda x: x / 3, lambda x: x / 3.0000000001, xs) == ["different"] * 4


# ---- one call of C without end


@dataclass
class Times:
    v: int


def squared(t):
    x = 3
    for _ in range(t.v):
        x = x * x
    return x


def summed(t):
    return sum(range(t.v))


def summed_from(t):
    return t.v, sum(range(3, t.v, 2)) % 7, max(range(t.v))


def listed(t):
    return len(list(range(t.v)))


def raised(t):
    return 3**t.v


def shifted(t):
    return 1 << t.v


UNBOUNDED = [
    (squared, 60),
    (summed, 10**12),
    (summed_from, 10**10),
    (listed, 10**9),
    (raised, 10**12),
    (shifted, 10**12),
]


@pytest.mark.parametrize(("fn", "v"), UNBOUNDED, ids=lambda v: getattr(v, "__name__", ""))
def test_one_call_of_c_does_not_keep_the_verdict(fn, v):
    start = time.perf_counter()
    check_ = model(max_steps=100_000, memory_limit=1 << 28)(fn).check([Times(3), Times(v)])
    assert time.perf_counter() - start < 20
    assert check_.verdicts[0].verdict == "equal"
    last_ = check_.verdicts[1]
    assert last_.verdict == "undecided" or (last_.verdict == "equal" and fn is listed), str(check_)
    assert last_.verdict == "equal" or "there was none" in last_.where


def test_a_failure_of_the_batch_alone_is_not_taken_for_right():
    """An overflow of 64 bits may be spurious: only the packing of this instance tells that its data are wrong."""

    def fine(x):
        return x

    def verdict_of(error):
        return Checker(PlainCall.of(fine, {}, Options()), [None], {0: error}, Options().max_steps)(0, [5]).verdict

    assert verdict_of(OverflowError("the result does not fit 64 bits")) == "undecided"
    assert verdict_of(OverflowError("math range error")) == "different"
    assert verdict_of(DataError("of no instance")) == "different"
    assert verdict_of(DataError("of another", instance=1, path="[1].v")) == "different"
    assert verdict_of(DataError("[0].v must be int, not str", instance=0, path="[0].v")) == "equal"


def test_data_that_do_not_conform_are_equal_in_every_group():
    @dataclass
    class Held:
        v: int

    @model
    def reads(t: Held, x):
        return t.v * x

    check_ = reads.check([Held(1), Held("a"), Held(2), Held("b")], [X3, X3, X3.astype(np.float64), X3])
    assert [v.verdict for v in check_.verdicts] == ["equal"] * 4, str(check_)


# ---- constants that mask


X3 = np.array([0.3, -1.7, 2.4], F)
MASK = np.array([True, False, True, True])
MASKED = {
    "float32": (lambda x: np.where(MASK, x * 2 + x, F(-1e9)), lambda x: np.where(MASK, x * 2, F(-1e9))),
    "a float": (lambda x: np.where(MASK, x * 2 + x, -1e30), lambda x: np.where(MASK, x * 2, -1e30)),
    "more": (lambda x: np.clip(x * 1.1, -1e9, 1e9), lambda x: np.clip(x * 1.2, -1e9, 1e9)),
    "least of the dtype": (
        lambda x: np.where(MASK, x / 3, np.finfo(np.float32).min),
        lambda x: np.where(MASK, x / 4, np.finfo(np.float32).min),
    ),
    "argmax": (lambda x: np.argmax(np.where(MASK, x, -1e9)), lambda x: np.argmin(np.where(MASK, x, 1e9))),
    "argmax of what is rounded": (
        lambda x: np.argmax(np.where(MASK, x * 1.1, np.float32(-1e9))),
        lambda x: np.argmin(np.where(MASK, x * 1.1, np.float32(1e9))),
    ),
    "comparison": (lambda x: np.where(MASK, x, -1e9) > x - 1, lambda x: np.where(MASK, x, -1e9) < x - 1),
    "comparison of what is rounded": (
        lambda x: np.where(MASK, x / 3, -1e9) > 0,
        lambda x: np.where(MASK, x / 3, -1e9) < 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MASKED)
def test_a_constant_that_masks_hides_nothing(what):
    right, wrong = MASKED[what]
    assert misread(right, wrong, XS) == ["different"] * len(XS)
    assert set(misread(right, right, XS)) <= {"equal", "close"}


def test_the_magnitude_is_that_of_all_elements_where_none_masks():
    """A small number that is what is left of large ones has their error."""
    wide_ = np.array([1000.1, 1e-3])
    plain_, batched = wide_.astype(F), (wide_ + np.array([1e-4, 3e-6])).astype(F)
    assert verdict(batched, plain_, wide_) == "close"
    assert verdict(np.array([1000.1, 1e-3 + 3e-10]), wide_.copy(), wide_) == "close"
