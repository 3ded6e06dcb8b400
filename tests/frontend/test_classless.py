"""Nested data without classes: dicts, tuples and lists that hold others of their form, of any depth."""

from __future__ import annotations

import heapq
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model, pack
from acronumba.data.schema import infer
from acronumba.ir.types import type_text
from tests.support.chosen import one_in
from tests.support.classless import program
from tests.support.forms import program as formulas
from tests.support.fuzz import load
from tests.support.plain_call import interpreted


def typed(value: Any) -> Any:
    """Return a value with the classes of its parts."""
    if isinstance(value, list | tuple):
        return type(value), [typed(v) for v in value]
    if isinstance(value, dict):
        return dict, [(k, typed(v)) for k, v in value.items()]
    return type(value), value


def same_as_plain(fn: Any, xs: list[Any], **shared: Any) -> None:
    """Compare with the plain call: as a batch, packed, in another order, and one by one."""
    f = model(fn)
    want = [typed(fn(x, **shared)) for x in xs]
    for given in (xs, pack(xs), pickle.loads(pickle.dumps(pack(xs)))):
        assert [typed(v) for v in f.batch(given, **shared)] == want
    assert [typed(v) for v in f.batch(xs[::-1], **shared)] == want[::-1]
    assert typed(f.batch(xs[-1:], **shared)[0]) == want[-1]


# ---- the forms


def total(t):
    return 0.0 if t is None else t["value"] + total(t["left"]) + total(t["right"])


def total_of_present(t):
    out = t["value"]
    if "left" in t:
        out += total_of_present(t["left"])
    if t.get("right") is not None:
        out += total_of_present(t["right"])
    return out


def weigh(t):
    return t["size"] + sum(weigh(c) for c in t.get("children", []))


def labels(t):
    label, kids = t
    out = len(label)
    for kid in kids:
        out += labels(kid)
    return out


def lisp(e):
    if not isinstance(e, list):
        return e
    op, *rest = e
    return lisp(rest[0]) + lisp(rest[1]) if op == "+" else lisp(rest[0]) * lisp(rest[1])


def matched(e):
    match e:
        case ("num", x):
            return x
        case ("neg", a):
            return -matched(a)
        case ("+", a, b):
            return matched(a) + matched(b)
        case (_, a, b):
            return matched(a) * matched(b)


def by_tag(e):
    kind = e[0]
    if kind == "num":
        return e[1]
    if kind == "neg":
        return -by_tag(e[1])
    a, b = by_tag(e[1]), by_tag(e[2])
    return a + b if kind == "+" else a * b


def by_length(t):
    if len(t) == 2:
        return t[1]
    return by_length(t[1]) - by_length(t[2])


def leaves(x):
    return sum(leaves(v) for v in x) if isinstance(x, list) else x


def binary(depth: int) -> Any:
    return depth and {"value": 0.5, "left": binary(depth - 1) or None, "right": binary(max(depth - 2, 0)) or None}


def present(depth: int) -> Any:
    kids = {"left": present(depth - 1)} if depth > 1 else {}
    return {"value": 1.0, **kids, **({"right": present(depth - 2)} if depth > 2 else {})}


def weights(depth: int) -> Any:
    return {"size": depth, "children": [weights(depth - 1), weights(0)]} if depth else {"size": 1}


def labelled(depth: int) -> Any:
    return ("ab"[depth % 2] * 2, [labelled(depth - 1), labelled(0)] if depth else [])


def expression(depth: int) -> Any:
    return 0.5 if not depth else ["+*"[depth % 2], expression(depth - 1), 1.5]


def formula(depth: int) -> Any:
    if depth < 1:
        return ("num", 0.5)
    return ("neg", formula(depth - 1)) if depth % 3 == 0 else ("+*"[depth % 2], formula(depth - 1), ("num", 1.5))


def pairs(depth: int) -> Any:
    return ("x", 1.0) if depth < 1 else ("y", pairs(depth - 1), ("z", 0.25))


def numbers(depth: int) -> Any:
    return [numbers(depth - 1), 1.0, [2.0]] if depth else [0.5]


FORMS = [
    (total, binary), (total_of_present, present), (weigh, weights), (labels, labelled), (lisp, expression),
    (matched, formula), (by_tag, formula), (by_length, pairs), (leaves, numbers),
]  # fmt: skip


@pytest.fixture
def deep_recursion():
    """The plain calls recurse as deep as the data."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(("fn", "make"), FORMS, ids=lambda v: getattr(v, "__name__", None))
def test_each_form_is_the_plain_call(fn, make):
    same_as_plain(fn, [make(d) for d in (3, 1, 5, 2, 9, 4)])


@pytest.mark.usefixtures("deep_recursion")
@pytest.mark.parametrize(("fn", "make"), FORMS[3:6], ids=lambda v: getattr(v, "__name__", None))
def test_one_program_takes_all_depths(fn, make):
    f = model(fn)
    xs = [make(d) for d in (2, 999, 40)]
    assert list(f.batch(xs)) == [fn(x) for x in xs]
    assert list(f.batch([make(400), make(7)])) == [fn(make(400)), fn(make(7))]


def test_uniform_data_keep_their_types():
    found = [type_text(infer([column]).params[0]) for column in (
        [[[1.0, 2.0], [3.0]]], [((1.0, 2.0), (3.0, 4.0))], [{"a": {"b": 1}, "c": [1.0]}], [[("a", 1.0)]],
    )]  # fmt: skip
    assert found == [
        "list[list[float]]", "tuple[tuple[float, float], tuple[float, float]]", "{a: {b: int}, c: list[float]}",
        "list[tuple[str, float]]",
    ]  # fmt: skip


# ---- made in the call, and results


def linked(n):
    return None if n == 0 else (n, linked(n - 1))


def grown(n):
    out = None
    for k in range(n):
        out = {"k": k, "next": out}
    return out


def bushy(n):
    return {"name": "n", "kids": [bushy(n - 1) for _ in range(n)]}


def fractal(n):
    return [fractal(n - 1), 2.0, fractal(n - 1)] if n else 1.0


def onto(n, acc=None):
    return acc if n == 0 else onto(n - 1, (n, acc))


def read(text, i):
    if text[i] != "(":
        return text[i], i + 1
    out, i = [], i + 1
    while text[i] != ")":
        x, i = read(text, i)
        out.append(x)
    return out, i + 1


def brackets(text):
    return read(text, 0)[0]


def term(ts):
    if ts[0] == "(":
        x, rest = plus(ts[1:])
        return x, rest[1:]
    return ("num", len(ts[0])), ts[1:]


def plus(ts):
    x, rest = term(ts)
    while rest and rest[0] == "+":
        y, rest = term(rest[1:])
        x = ("+", x, y)
    return x, rest


def parsed(text):
    return plus(text)[0]


def inserted(t, x):
    if t is None:
        return {"k": x, "l": None, "r": None}
    if x < t["k"]:
        return {"k": t["k"], "l": inserted(t["l"], x), "r": t["r"]}
    return {"k": t["k"], "l": t["l"], "r": inserted(t["r"], x)}


def search_tree(xs):
    out = None
    for x in xs:
        out = inserted(out, x)
    return out


def simpler(e):
    if e[0] == "num":
        return e
    if e[0] == "neg":
        a = simpler(e[1])
        return ("num", -a[1]) if a[0] == "num" else ("neg", a)
    return (e[0], simpler(e[1]), simpler(e[2]))


def simplified(e):
    match e:
        case ("+", ("num", 0.0), b) | ("*", ("num", 1.0), b):
            return simplified(b)
        case ("+", ("num", x), ("num", y)):
            return ("num", x + y)
        case ("neg", ("neg", a)):
            return simplified(a)
        case ("neg", a):
            return ("neg", simplified(a))
        case (op, a, *_):
            return (op, simplified(a), simplified(e[2])) if len(e) == 3 else e
    return e


def recognized(e):
    match e:
        case ("+", ("num", x), _):
            return x
        case ("+", ("neg", ("num", x)), *rest):
            return len(rest) - x
        case ("+", a, b):
            return recognized(a) * recognized(b)
    return 0.5


def first_kind(n):
    match ("a", 1) if n < 1 else ("b", n, first_kind(n - 1)):  # tuples of two lengths, which no name holds
        case ("a", _):
            return "one"
        case ("b", _, _):
            return "other"


N = ("num", 1.0)
SIMPLE = [
    N, ("+", N, ("neg", N)), ("+", ("neg", N), N), ("+", ("num", 0.0), N), ("neg", ("neg", ("+", N, N))),
    ("*", N, ("+", ("neg", ("neg", N)), ("+", N, N))),
]  # fmt: skip


def relabelled(t):
    return t if isinstance(t, str) else (t[0] + "x", [relabelled(k) for k in t[1]])


def reversed_all(x):
    return [reversed_all(v) for v in x][::-1] if isinstance(x, list) else x


def huffman(counts):
    heap = [(c, k, k) for k, c in enumerate(counts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        a, b = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (a[0] + b[0], a[1], (a[2], b[2])))
    return heap[0][2]


def stack(n):
    out, top = [], ()
    for k in range(n):
        top = (k, top)
    while top:
        x, top = top
        out.append(x)
    return out


def paragraphs(n):
    out = [n] if n.get("tag") == "p" else []
    for c in n.get("kids", ()):
        out += paragraphs(c)
    return out


def boughs(n):
    return [(n, n)] if n == 0 else [boughs(n - 1) for _ in range(2)]


def table(k, f):
    return [f(i) for i in range(k)]


def tables(n):
    """A helper whose lists hold others of its own, and pairs."""
    pairs = table(n, lambda a: table(n, lambda b: (a, b)))
    if sum(a * b for row in pairs for a, b in row) > 3:
        return pairs[1][0]
    return table(2, lambda a: table(n, lambda b: (a, b))), {k: table(k, lambda c: (c, [c])) for k in range(n)}


PAGE = {"tag": "p", "size": 1, "kids": [{"tag": "q", "kids": [{"tag": "p", "size": 2}, {"tag": "r", "kids": []}]}]}


@pytest.mark.parametrize(("fn", "xs"), [
    (boughs, [0, 1, 3]), (tables, [0, 1, 3]), (stack, [0, 3]),
    (paragraphs, [PAGE, PAGE["kids"][0], {"tag": "p", "size": 2}]),
    (simplified, SIMPLE), (recognized, SIMPLE), (first_kind, [0, 2]), (huffman, [[3, 1, 2], [5], [1, 1, 1, 9]]),
    (relabelled, [("S", [("N", ["a", "b"]), ("S", [("N", ["c"])])]), ("N", ["a"])]),
    (reversed_all, [[1, [2, [3]]], [5], [], [[[[9]]], 1]]),
    (linked, [0, 3, 1, 200]), (grown, [0, 3, 1, 40]), (bushy, [0, 2, 3]), (fractal, [0, 3, 1]), (onto, [0, 3, 1, 60]),
    (brackets, ["(a(bc)())", "a", "((((a))))"]), (parsed, ["1+(1+1)", "1", "(1+1)+(1+(1+1))"]),
    (search_tree, [[3, 1, 2], [5], [], [9, 8, 1, 2]]), (simpler, [formula(d) for d in (0, 3, 1, 7)]),
])  # fmt: skip
def test_nested_values_are_made_in_the_call(fn, xs):
    same_as_plain(fn, xs)


def test_parts_of_the_instances_are_returned_themselves():
    xs = [binary(4), binary(2)]
    got = list(model(lambda t: t["left"]).batch(xs))
    assert all(g is x["left"] for g, x in zip(got, xs, strict=True))


def same(p):
    return p[0] == p[1], p[0] != p[1]


@pytest.mark.parametrize("make", [binary, formula, numbers, labelled])
def test_nested_values_are_compared(make):
    same_as_plain(same, [(make(a), make(b)) for a in (1, 3) for b in (1, 3)])


# ---- lists that are nodes: their items are unlike, and the lists of nodes in them have places of their own


def outline(n: int) -> Any:
    return [f"n{n % 3}", float(n), [outline(k) for k in range(n)]]


def weights_of(t):
    return t[1] + sum([weights_of(c) for c in t[2]], 0.0)


def renamed(t):
    name, x, kids = t
    return [name + "x", x * 2, [renamed(c) for c in kids]]


def plan(n: int) -> Any:
    if n < 1:
        return ["leaf", 1.5]
    return ["many", float(n), [plan(k) for k in range(n)]] if n % 2 else ["two", plan(n - 1), plan(n // 2)]


def planned(t):
    kind = t[0]
    if kind == "leaf":
        return t[1]
    if kind == "many":
        return t[1] * sum([planned(c) for c in t[2]], 0.5)
    return planned(t[1]) - planned(t[2])


def grown_plan(t):
    kind = t[0]
    if kind == "leaf":
        return ["leaf", t[1] + 1]
    if kind == "many":
        return ["many", t[1], [grown_plan(c) for c in t[2]]]
    return ["two", grown_plan(t[1]), grown_plan(t[2])]


def counted(t):
    return t[0] + sum([counted(c) for c in t[1]])


def path_of_lists(depth: int) -> Any:
    out = ["a", 1.0, []]
    for k in range(depth):
        out = ["b", float(k), [out]]
    return out


@pytest.mark.parametrize(("fn", "xs"), [
    (weights_of, [outline(3), outline(0), outline(2)]), (renamed, [outline(3), outline(0)]),
    (planned, [plan(k) for k in (4, 0, 3, 1)]), (grown_plan, [plan(k) for k in (4, 0, 3, 1)]),
    (counted, [[1, [[2, []], [3, [[4, []]]]]], [5, []]]),
])  # fmt: skip
def test_lists_that_are_nodes(fn, xs):
    same_as_plain(fn, xs)


@pytest.mark.usefixtures("deep_recursion")
def test_lists_that_are_nodes_of_any_depth():
    xs = [path_of_lists(d) for d in (2, 999, 40)]
    f = model(renamed)
    assert list(f.batch(xs)) == list(map(renamed, xs))
    assert list(f.batch(xs[:1])) == [renamed(xs[0])]


def evaluated_in(x, env):
    if isinstance(x, str):
        return env[x]
    if not isinstance(x, list):
        return x
    op = x[0]
    if op == "let":
        inner = dict(env)
        inner[x[1]] = evaluated_in(x[2], env)
        return evaluated_in(x[3], inner)
    a, b = evaluated_in(x[1], env), evaluated_in(x[2], env)
    return a + b if op == "+" else a * b


def lisp_with_names(x):
    return evaluated_in(x, {"y": 2.0})


def test_names_in_lists_of_several_types_are_keys():
    bound = ["let", "x", ["+", 1.0, "y"], ["*", "x", ["let", "z", 3.0, ["+", "z", "x"]]]]
    same_as_plain(lisp_with_names, [bound, ["+", "y", 2.0], 3.0])


# ---- shared values


def walk(t, x):
    if "leaf" in t:
        return t["leaf"]
    return walk(t["left"] if x < t["at"] else t["right"], x)


def forest(x, *, trees):
    return [walk(t, x) for t in trees]


def split(depth: int) -> Any:
    return {"at": 0.5 / depth, "left": {"leaf": depth}, "right": split(depth - 1)} if depth else {"leaf": 7}


def test_shared_trees():
    trees = [split(6), split(2), split(9)]
    same_as_plain(forest, [0.1, 0.3, 2.0], trees=trees)
    f = model(forest)
    for change in (11, 2.5):  # in place: the value, then its type
        assert list(f.batch([0.0, 9.0], trees=trees)) == [forest(0.0, trees=trees), forest(9.0, trees=trees)]
        trees[0]["left"]["leaf"] = change
        assert list(map(typed, f.batch([0.0], trees=trees))) == [typed(forest(0.0, trees=trees))]


# ---- bad instances, gradients, random programs


def test_a_bad_instance_fails_alone():
    with pytest.raises(InstanceErrors) as caught:
        model(by_tag).batch([formula(3), ("num", "x"), ("odd",), formula(5)])
    assert set(caught.value.errors) <= {1, 2} and 2 in caught.value.errors
    assert [caught.value.results[k] for k in (0, 3)] == [by_tag(formula(3)), by_tag(formula(5))]


def encoded(t, w):
    if "x" in t:
        return t["x"]
    return np.tanh(w @ encoded(t["l"], w) + encoded(t["r"], w))


def loss(t, *, w):
    return (encoded(t, w) ** 2).sum()


def test_gradients_flow_through():
    rng = np.random.default_rng(1)

    def tree(depth: int) -> Any:
        if not depth:
            return {"x": rng.normal(size=3).astype(np.float32)}
        return {"l": tree(depth - 1), "r": tree(depth // 2)}

    slopes = model(loss).value_and_grad.check([tree(d) for d in (0, 1, 3)], w=rng.normal(size=(3, 3)))
    assert "0 different" in str(slopes), slopes


@pytest.mark.parametrize("seed", [0, 23, 50, 58, 112, 9308, 20557, 21325])
def test_random_programs(seed: int, tmp_path: Path) -> None:
    source, xs = program(seed)
    made = load(source, tmp_path)
    want = [typed(made.run(x)) for x in xs]
    assert [typed(v) for v in model(made.run).batch(xs)] == want


def test_a_list_beside_something_else_is_closed_only_if_that_recurs() -> None:
    once, again = [[[], [[1, 2], [2, 3]], []], False], [[[], [[1, True], [2, 3]], [4, [5]]], False]
    assert type_text(infer([[once]]).params[0]) == "list[list[list[list[int]]] | bool]"
    assert infer([[again]]).params[0] != infer([[once]]).params[0]


# ---- forms that are told apart by their first items, at any place


TABLE, NAMES = np.arange(8.0), {"add": 1.0, "neg": -1.0, "all": 3.0}


def evaluated(e):
    match e:
        case ("number", x):
            return x * 2.0
        case ("name", k):
            return TABLE[k]
        case ("one", op, a):
            return NAMES[op] * evaluated(a)
        case ("two", op, a, b):
            return NAMES[op] + evaluated(a) - evaluated(b)
        case (_, op, parts):
            return NAMES[op] + sum([evaluated(part) for part in parts], 0.0)


FORMULAS = [
    ("two", "add", ("name", 3), ("number", 0.5)),
    ("all", "all", [("name", 2), ("two", "add", ("name", 1), ("name", 2))]),
    ("all", "all", [("name", 2), ("name", 1), ("number", 2.0)]),
    ("one", "neg", ("number", 2.5)),
    ("two", "add", ("one", "neg", ("name", 1)), ("all", "all", [])),
]


@pytest.mark.parametrize("e", FORMULAS, ids=range(5))
def test_one_small_formula_has_the_types_of_its_forms(e: Any) -> None:
    assert model(evaluated)._interpret([e]) == [evaluated(e)]


def test_small_formulas_of_any_forms_are_one_batch() -> None:
    same_as_plain(evaluated, FORMULAS)


def looked_up(e):
    if e[0] == "row":
        return TABLE[e[1]]
    return NAMES[e[1]]


@pytest.mark.parametrize("seed", one_in(3, range(3, 18)))
def test_random_formulas(seed: int, tmp_path: Path) -> None:
    source, xs = formulas(seed)
    value = load(source, tmp_path).value
    interpreted(value, xs)
    interpreted(value, xs[:1])


def test_an_index_or_a_key_of_another_class_fails_its_instance() -> None:
    xs = [("row", 2), ("key", "add"), ("row", "add"), ("key", 2), ("key", ("add",)), ("row", 1.0)]
    with pytest.raises(InstanceErrors) as caught:
        model(looked_up)._interpret(xs)
    assert [type(caught.value.errors.get(k)) for k in range(6)] == [
        *[type(None)] * 2, IndexError, KeyError, KeyError, IndexError,
    ]  # fmt: skip
    assert caught.value.results[:2] == [2.0, 1.0]


def test_a_function_may_return_for_some_types_only() -> None:
    def total(t: Any) -> float:
        return t if isinstance(t, float) else 2.0 + total(t[1])

    found = model(total).batch([1.0, ["v", ["v", 2.0]]])  # never, where it is given the text
    assert list(found) == [1.0, 6.0]


def test_records_in_many_orders_are_dicts() -> None:
    def best(weights: Any, name: str) -> float:
        return sum(weights[name].values()) if name in weights else -1.0

    orders = ("abc", "acb", "bac", "bca", "cab", "cba")
    weights = {f"f{k}": {c: float(ord(c) + k) for c in order} for k, order in enumerate(orders)}
    assert "dict[str, dict[str, float]]" in type_text(infer([[weights], ["f1"]]).params[0])
    names = ["f1", "f5", "no"]
    assert list(model(best).batch([weights] * 3, names)) == [best(weights, n) for n in names]
