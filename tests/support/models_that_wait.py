"""Models whose conditions, numbers, indices and orders depend on what was computed, each with a batch."""

# ruff: noqa: B905, C413, C416, E712, F841, RUF034 -- the models say things in the ways that are to be compiled

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from acronumba import nn
from tests.support.model_cases import Case, into

RNG = np.random.default_rng(11)
H, V = 5, 7
CASES: list[Case] = []
case = into(CASES)
NAN = float("nan")


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.6).astype(np.float32)


def vectors(count: int, size: int = H) -> list[np.ndarray]:
    return [weights(size) for _ in range(count)]


W, U, E, WO = weights(H, H), weights(H, H), weights(V, H), weights(V, H)
XS = [*vectors(5), np.full(H, NAN, np.float32), np.zeros(H, np.float32)]
SINGLES = [np.float32(v) for v in (0.1, -2.5, 0.0, NAN, math.inf, -math.inf, 3e9, 7.99, -7.99)]
INTS = [np.int64(v) for v in (0, 1, 2, 5, -1, -6)]
LISTS = [vectors(4), vectors(1), vectors(6), [XS[5], XS[0], XS[5], XS[1]], vectors(2)]


@dataclass
class Tree:
    word: int
    left: Tree | None = None
    right: Tree | None = None


def tree(depth: int) -> Tree:
    word = int(RNG.integers(V))
    return Tree(word) if depth == 0 else Tree(word, tree(depth - 1), tree(int(RNG.integers(depth))))


TREES = [tree(k) for k in (0, 1, 2, 3, 4)]


@dataclass
class Hypothesis:
    score: Any
    state: Any
    words: list[int] = field(default_factory=list)


@dataclass
class Expert:
    w: np.ndarray
    name: int = 0


EXPERTS = [Expert(weights(H, H), k) for k in range(3)]

# ---- conditions


@case(XS)
def if_else(x):
    if np.sum(x) > 0:
        return np.tanh(x)
    return -x


@case(XS, w=W)
def conditional_expression(x, *, w):
    h = w @ x
    return (h if h[0] > h[1] else x) * 2


@case(XS)
def while_until_convergence(x):
    n = 0
    while np.abs(x).max() > 0.01 and n < 40:
        x = x * 0.5
        n += 1
    return x, n


@case(XS, w=W)
def fixed_point(x, *, w):
    h = np.zeros_like(x)
    for n in range(30):
        new = np.tanh(0.3 * (w @ h) + x)
        if np.abs(new - h).max() < 1e-3:
            return new, n
        h = new
    return h, -1


@case(XS)
def and_or_not(x):
    s, t = np.sum(x), np.max(x)
    if s > 0 and t < 1.5:
        return 1
    if not s or t > 2:
        return 2
    return 3


@case(XS)
def operands_of_and_or(x):
    a, b = x[0] > 0, x[1]
    return a and b, a or b, (x[2] > 0) or None, (x[3] > 0) and 5


@case(XS)
def chained(x):
    if -1 < x[0] < x[1] < 2:
        return x
    return 0 <= x[2] < 1, -x


@case(XS)
def asserts(x):
    assert x[0] > -0.2, "too small"
    assert not np.isnan(x).any()
    return x


@case(XS)
def bare_tensor(x):
    n = 0
    for k in range(5):
        if x[k]:
            n += 1
    return n, bool(x[0]), not x[1]


@case([np.array([[v]], np.float32) for v in (1, 0, NAN)])
def array_of_one_element(x):
    return (1 if x else 2), x.item()


@case([np.ones(1), np.ones(2), np.ones(0), np.zeros(1)])
def array_of_some_elements(x):
    if x:
        return 1
    return 2


@case([np.ones(1), np.ones(2), np.full(1, 3)])
def item_of_an_array(x):
    return x.item() * 2


@case(XS)
def any_and_all(x):
    return any(v > 1 for v in x), all(v < 1 for v in x), any([x[0] > 0, x[1] > 0]), all([x[0] > 0, x[1] > 0])


@case(LISTS)
def any_of_a_list(xs):
    return any(x[0] > 0 for x in xs), all(np.sum(x) > -1 for x in xs)


# ---- numbers


@case(SINGLES)
def to_float(x):
    return float(x), float(x * 2)


@case(SINGLES)
def to_int(x):
    return int(x)


@case([np.float64(v) for v in (2.5, 3.5, -0.5, NAN, 7.0)])
def rounded(x):
    return round(x), math.floor(x), math.ceil(x)


@case(SINGLES)
def to_bool(x):
    return bool(x), bool(x > 0), not x


@case([np.uint64(v) for v in (0, 5, 2**63 - 1)])
def unsigned(x):
    return bool(x), int(x)


@case([np.uint64(v) for v in (0, 5, 2**63 + 5)])
def truth_of_unsigned(x):
    return (1 if x else 2), bool(x)


@case([np.bool_(True), np.bool_(False)])
def to_numbers_of_bool(x):
    return int(x), float(x), bool(x), math.sqrt(x)


@case([np.int8(v) for v in (-3, 0, 10)])
def small_integers(x):
    return int(x), float(x), x.item() * 1000, [k for k in range(x) if x > 0]


@case(XS)
def functions_of_math(x):
    s = np.abs(x).sum()
    return math.sqrt(s), math.exp(-s), math.log(s + 1), math.pow(x[0], 2), math.isnan(x[0]), math.hypot(x[0], x[1])


@case(INTS)
def functions_of_ints(n):
    return math.gcd(n, 6), math.factorial(n), math.isqrt(n)


@case(XS)
def arithmetic_goes_on(x):
    a = float(x[0])
    y = x * a + a
    return y, a * 2, a > 0.5


@case([np.float32(v) for v in (0.1, 0.5, -1.0)])
def python_numbers_stay_weak(x):
    return x == 0.1, (1 if x == 0.1 else 2), (1 if float(x) == 0.1 else 2)


@case(XS, w=WO)
def item_and_tolist(x, *, w):
    p = nn.softmax(w @ x)
    return p.argmax().item(), [round(v * 100) if v == v else -1 for v in p.tolist()], x.tolist(), x[0].tolist()


@case([np.zeros(3), np.ones(4), np.arange(0)])
def tolist_of_any_length(x):
    values = x.tolist()
    return sum(values), len(values), values


# ---- indices and lengths


@case(XS)
def range_of_a_tensor(x):
    y = x
    for k in range(np.argmax(x)):
        y = y + k
    return y, [k for k in range(np.argmin(x), 5, 2)]


@case(XS, experts=EXPERTS)
def argmax_of_experts(x, *, experts):
    k = np.argmax(x[:3])
    e = experts[k]
    return e.w @ x, e.name


@case(XS, ws=[W, U, weights(H, H)])
def argmax_of_matrices(x, *, ws):
    h = x
    for _ in range(3):
        h = np.tanh(ws[np.argmax(h[:3])] @ h)
    return h


@case(LISTS, w=weights(H))
def list_indexed(xs, *, w):
    scores = np.stack([x @ w for x in xs])
    k = np.argmax(scores)
    return xs[k], xs[-1 - k], xs[: k + 1][-1]


@case(INTS)
def index_out_of_range(n):
    return [10, 20, 30][n]


@case(INTS)
def list_changed_at_an_index(n):
    xs = [1, 2, 3, 4, 5, 6, 7]
    xs[n] = 10
    xs.insert(n, 11)
    y = xs.pop(n)
    return xs, y


@case(INTS)
def list_cut(n):
    xs = [k * k for k in range(6)]
    return xs[n:], xs[:n], xs[n : n + 2]


@case(INTS, x=np.arange(8.0))
def array_cut(n, *, x):
    return x[:n], x[n:], np.zeros(np.abs(n)), np.arange(n)


@case(INTS)
def list_repeated(n):
    return [1, 2] * n, [0.5] * (n + 1)


def double(x):
    return x * 2


def triple(x):
    return x * 3


@case(XS)
def function_chosen(x):
    f = [double, triple, np.tanh][np.argmax(x[:3])]
    return f(x)


@case(INTS)
def matched(n):
    match n:
        case 0:
            return "no" == "yes"
        case 1 | 2:
            return n * 10
        case _ if n < 0:
            return -1
    return 7


@case(INTS)
def member(n):
    return n in (1, 2), n not in [5], n in range(2), n in [0, 1]


# ---- orders


@case(LISTS, w=weights(H))
def min_and_max(xs, *, w):
    scores = [x @ w for x in xs]
    return max(scores), min(scores), max(xs, key=lambda x: x @ w), min(xs, key=lambda x: x[0])


@case(XS)
def max_of_some(x):
    return max(x[0], x[1], x[2]), min(x[3], x[4]), max(x), min([x[0], x[1]], key=abs)


@case([[], *LISTS])
def max_with_default(xs):
    if len(xs) > 0 and np.isnan(xs[0][0]):  # keys in which NaN meets NaN are ACR117
        return -1.0, None
    return max((x[0] for x in xs), default=-1.0), max(xs, key=lambda x: (x[0] > 0, x[1]), default=None)


@case(LISTS, w=weights(H))
def sort_by_score(xs, *, w):
    if np.isnan(xs[0][0]):
        return xs
    ys = list(xs)
    ys.sort(key=lambda x: -(x @ w))
    return ys, sorted(x[0] for x in xs), sorted(xs, key=lambda x: x[1], reverse=True)


@case(LISTS)
def sort_by_several(xs):
    good = [x for x in xs if not np.isnan(x).any()]
    return sorted(good, key=lambda x: (x[0] > 0, len(x), x[1])), [float(x[0]) for x in good]


@case([3, 4, 1], e=E, w=W, wo=WO)
def beam_search(n, *, e, w, wo):
    beam = [Hypothesis(np.float32(0), np.zeros(H, np.float32))]
    for _ in range(n):
        new = []
        for h in beam:
            state = np.tanh(w @ h.state + (e[h.words[-1]] if h.words else e[0]))
            scores = nn.log_softmax(wo @ state)
            k = int(np.argmax(scores))
            for word in (k, (k + 1) % V):
                new.append(Hypothesis(h.score + scores[word], state, [*h.words, word]))
        new.sort(key=lambda h: h.score, reverse=True)
        beam = new[:2]
    best = max(beam, key=lambda h: h.score)
    return best.words, best.score


# ---- recursion, loops, other control flow


def shrink(x, n):
    if np.abs(x).sum() < 0.1 or n == 0:
        return x, n
    return shrink(x * 0.4, n - 1)


@case(XS)
def recursion_that_stops_by_prediction(x):
    return shrink(x, 9)


def encode(t, e, w):
    if t.left is None:
        return e[t.word]
    h = np.tanh(encode(t.left, e, w) + w @ encode(t.right, e, w))
    if h[0] > 0:
        return h
    return -h * 0.5


@case(TREES, e=E, w=W)
def tree_with_decisions(t, *, e, w):
    return encode(t, e, w)


def grow(h, w, depth):
    if depth == 0 or h[0] < -0.3:
        return [h]
    return grow(np.tanh(w @ h), w, depth - 1) + grow(np.tanh(h @ w), w, depth - 1)


@case(XS, w=W)
def tree_generated(x, *, w):
    leaves = grow(x, w, 3)
    return np.stack(leaves).sum(axis=0), len(leaves)


@case([0, 2, 5], e=E, w=W, wo=WO)
def greedy_decoder(start, *, e, w, wo):
    h, word, words = np.zeros(H, np.float32), start, []
    while len(words) < 8:
        h = np.tanh(w @ h + e[word])
        word = int(np.argmax(wo @ h))
        if word == 3:
            break
        words.append(word)
    return words, h


@case(LISTS)
def return_from_nested_loops(xs):
    for i, x in enumerate(xs):
        for j in range(5):
            if x[j] > 0.5:
                return i, j, x
            if x[j] != x[j]:
                break
    return None


@case(LISTS, w=W)
def comprehensions(xs, *, w):
    good = [w @ x for x in xs if x[0] > 0]
    return (
        [np.float32(float(x.sum())) for x in good],
        sum(1 for x in xs if x[1] > 0),
        [x if x[2] > 0 else -x for x in xs],
    )


@case(XS)
def nested_functions(x):
    limit = float(np.abs(x).mean())

    def clip(v):
        return v if v < limit else limit

    pick = lambda v: 1 if v > 0 else -1
    return [clip(v) * pick(v) for v in x.tolist()], pick(x[0])


@case(XS)
def raises(x):
    if x[0] > 0.5:
        raise ValueError("too large")
    if np.isnan(x[0]):
        raise ArithmeticError
    return 1 / int(x[1] * 2)


@case(XS, e=E)
def fails_before_it_decides(x, *, e):
    row = e[np.argmax(x) * 2]  # out of range for some
    if np.sum(x) > 0:
        raise ValueError("later")
    return row


@case(XS, e=E)
def does_not_fail_unless_it_decides(x, *, e):
    k = np.argmax(x) * 3
    if k < V:
        return e[k]
    return None


@case(XS, w=W)
def decides_by_shared_values(x, *, w):
    n = 0
    while np.abs(w).sum() > 3 * n:
        n += 1
    return x * n if (w @ w)[0, 0] > 0 else -x


@case(XS, w=W)
def several_reads_at_once(x, *, w):
    a = float((w @ x).sum())
    b = float(np.tanh(w @ x).max())
    c = int((x > 0).sum())
    return np.float32(a + b), c


@case(XS)
def values_in_structures(x):
    h = Hypothesis(float(x[0]), x)
    pair = (h.score > 0, x[1] > 0)
    return (h.score if pair[1] else None), pair, {"a": x[2].item()}["a"]


@case([(0.5, [1.0, 2.0]), (-0.5, [3.0]), (2.0, [])])
def numbers_of_the_instance(pair):
    x, ys = pair
    total = np.float32(x)
    for y in ys:
        total = total + np.float32(y) if total > 0 else total * 2
    return total


@case(XS)
def unused(x):
    float(x[0])
    k = int(np.argmax(x))
    return x + 1


@case(LISTS)
def optional(xs):
    best = None
    for x in xs:
        s = x.sum()
        if best is None or s > best:
            best = s
    return best


@case(LISTS)
def types_that_differ(xs):
    keys = [x[0] if x[1] > 0 else 0 for x in xs]
    return [1 if k > 0 else 2 for k in keys], max(keys)


# ---- further ways to say it


@dataclass
class Pair:
    a: object
    b: object = None


@case(LISTS)
def argmax_idiom(xs):
    s = [x[0] * 2 for x in xs]
    return (
        max(range(len(xs)), key=lambda i: s[i]),
        sorted(range(len(xs)), key=lambda i: s[i]),
        min(enumerate(s), key=lambda p: p[1])[0],
    )


@case(LISTS)
def zipped(xs):
    s = [x.sum() for x in xs]
    best = max(zip(s, xs), key=lambda p: p[0])
    order = sorted(zip(s, range(len(s))), key=lambda p: (p[0], p[1]))
    return best, [k for _, k in order]


@case(LISTS)
def tuples_sorted(xs):
    if np.isnan(xs[0][0]):  # tuples in which NaN meets NaN are ACR117
        return [], None, None
    return (
        sorted([(x[0], k) for k, x in enumerate(xs)]),
        max([(x[0], k) for k, x in enumerate(xs)]),
        min([(k, x[0]) for k, x in enumerate(xs)]),
    )


@case(XS)
def relu_by_max(x):
    return max(x[0], 0.0), min(1, x[1]), max(0.0, x[2]) * 2


@case(XS)
def loop_best(x):
    best, arg = None, -1
    for i in range(5):
        v = x[i]
        if best is None or v > best:
            best, arg = v, i
    return best, arg


@case(XS)
def while_true(x):
    n = 0
    while True:
        x = x * 0.7
        n += 1
        if not np.abs(x).max() > 0.1:
            break
        if n > 20:
            return None
    return x, n


@case(LISTS)
def reversed_sorted(xs):
    for x in reversed(sorted(xs, key=lambda x: x[1])):
        if x[2] > 0:
            return x
    return None


@case(LISTS)
def structs(xs):
    ps = [Pair(x[0], x) for x in xs]
    ps.sort(key=lambda p: -p.a)
    ps[0] = replace(ps[0], b=ps[-1].b)
    k = int(np.argmax(np.stack([p.a for p in ps])))
    return ps[k].b, ps[-1].a


@case(LISTS)
def counting(xs):
    s = [x[0] > 0 for x in xs]
    return s.count(True), True in s, sum(s), [float(x[0]) for x in xs]


@case(LISTS)
def sum_floats(xs):
    return sum(float(x[0]) for x in xs), sum(x[1] for x in xs), sum([x[2] > 0 for x in xs])


def rec(xs, lo, hi):
    if hi - lo <= 1:
        return xs[lo]
    m = (lo + hi) // 2
    a = rec(xs, lo, m)
    b = rec(xs, m, hi)
    return a if a[0] > b[0] else b


@case(LISTS)
def tournament(xs):
    return rec(xs, 0, len(xs))


def even(x, n):
    return odd(x * 0.5, n + 1) if x[0] > 0.1 else n


def odd(x, n):
    return even(x + 0.01, n + 1) if x[0] > 0.15 else -n


@case(XS)
def mutual(x):
    return even(x, 0)


@case(XS, w=weights(5, 5), flag=np.float32(1.0))
def shared_cond(x, *, w, flag):
    if flag > 0 and w[0, 0] > w[1, 1]:
        return w @ x
    return x


@case(LISTS)
def stack_machine(xs):
    st = []
    for x in xs:
        st.append(x)
        while len(st) > 1 and st[-1][0] > st[-2][0]:
            a = st.pop()
            b = st.pop()
            st.append(np.tanh(a + b))
    return st


@case(LISTS)
def dict_and_tuple(xs):
    d = {"a": xs[0][0], "b": xs[-1]}
    t = (d["a"] > 0, d["a"] < 0)
    if t[0]:
        d = {"a": d["a"] * 2, "b": -d["b"]}
    return d, t


@case(LISTS)
def closures(xs):
    th = xs[0].mean()

    def f(v):
        return v if v > th else None

    out = [f(x.mean()) for x in xs]
    return [1 if o is None else 2 for o in out], f(th + 1)


@case(XS)
def walrus(x):
    if (s := x.sum()) > 0:
        return s
    return -s


@case(XS)
def ternary_chain(x):
    return "a" == "b" if x[0] > 1 else (x if x[0] > 0 else None)


@case([0, 1, 2, 3], w=weights(4, 5))
def data_and_read(n, *, w):
    x = w[n]
    for k in range(int(np.abs(x[0]) * 5)):
        if k > n:
            break
        x = x * 2
    return x


@case(XS)
def aug(x):
    a = float(x[0])
    a += x[1]
    a *= 2
    n = 0
    n += int(x[2] > 0)
    return a, n


@case(XS)
def pow_mod(x):
    n = int(abs(x[0]) * 10)
    return 2**n, n % 3, -n // 2, n << 1


@case([weights(2, 3), weights(3, 3), weights(4, 3)])
def roweights(x):
    out = []
    for r in x:
        if r[0] > 0:
            out.append(r)
    return out, [bool(v) for v in (x > 0).any(axis=1)], max(x, key=lambda r: r[1])


@case([np.ones((2, 2)), np.ones((1, 1)), np.zeros((1, 1)), np.ones((0, 1))])
def run_truth(x):
    return 1 if (x if x.shape[0] else x) else 2


@case(XS)
def msgs(x):
    if x[0] > 0:
        raise KeyError("positive")
    assert x[1] < 0, "bad"
    return [1, 2][int(x[0] * 100)]


@case(XS)
def tuple_index(x):
    return (x, x * 2, x * 3)[np.argmax(x) % 3], ((1, 2.5), (3, 4.5))[np.argmin(x) % 2]


@case(XS)
def noteq(x):
    return x[0] != x[0], (x[0] != x[0]) == True, 1 if x[0] == x[1] == x[2] else 0


@case([[np.int64(3), np.float32(2.5), np.bool_(True)], [np.int64(0), np.float32(0), np.bool_(False)]])
def mixed(t):
    return (
        [float(v) for v in t],
        [int(v) for v in t],
        [bool(v) for v in t],
        [1 if v else 0 for v in t],
        max(t),
        sorted(t),
    )


@case([None, np.float32(1), np.float32(-1)])
def opt(x):
    if x is None:
        return 0
    if x > 0:
        return 1
    return -1


@case([None, np.float32(1), np.float32(0)])
def opt2(x):
    if x:
        return 1
    return x or 5


@case([None, np.float32(1)])
def opt3(x):
    return float(x)
