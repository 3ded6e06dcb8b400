"""Dicts made in the call and mutated: records of constant keys, nodes of nested data, tries; mapping patterns."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, pack
from tests.support import mapping_patterns, records, word_trees
from tests.support.records import form

N = [0, 1, 4]
X = [np.arange(3, dtype=np.float32)] * 3
WORDS = [["ab", "ac", "b"], ["hello", "help", "he"], []]
CASES: list[Any] = []


def case(*columns: list[Any]) -> Callable[[Any], Any]:
    """Add a model, and its instances."""

    def add(f: Any) -> Any:
        CASES.append(pytest.param(f, columns, id=f.__name__))
        return f

    return add


@case(X, N)
def state_of_a_cell(x, n):
    st = {"h": x, "c": x * 0, "n": 0, "seen": []}
    for i in range(n):
        st["h"] = st["h"] * 0.5 + 1.0
        st["n"] += 1
        st.update(c=st["c"] + st["h"])
        st["seen"].append(i)
    return st


def grow(st, x):
    st["h"] = st["h"] + x
    st["k"] = 3
    return st


@case(X, N)
def passed_to_helpers(x, n):
    st = {}
    st["h"] = x
    st["xs"] = [1, 2]
    other = grow(st, x)
    st["xs"].append(n)
    return other, len(st), "k" in st, list(st), other is st, st.get("zz", 5)


@case(N)
def in_lists(n):
    rows = [{"k": i, "v": None} for i in range(n)]
    for r in rows:
        r["v"] = r["k"] * 2
    best = None
    for r in rows:
        if best is None or r["v"] > best["v"]:
            best = r
    if best is not None:
        best["k"] = -1
    return rows, sorted(rows, key=lambda r: r["k"])[:1]


@case(N)
def keys_on_one_path(n):
    d = {"a": 1}
    if n > 2:
        d["b"] = 2
    return d


@case(N)
def keys_in_two_orders(n):
    d = {}
    if n > 2:
        d["a"], d["b"] = 1, 2
    else:
        d["b"], d["a"] = 3, 4
    return d, list(d)


@case(N)
def keys_of_a_loop(n):
    d = {}
    for k in ("p", "q", "r"):
        d[k] = n
    e = {**d, "p": 1.5}
    f = dict(e)
    f["z"] = 5.0
    e["p"] = 2
    return d, e, f, e == d, f != e, d | {"q": 9}


@case(N)
def removed_and_computed(n):
    d, e = {"a": 1, "b": 2}, {"x": 1, "y": 2}
    d["a"] = n
    del d["b"]
    e["x"] = n
    return d, e["x" if n > 2 else "y"], e.pop("y", 0), e


@case(N)
def one_of_two(n):
    d = {"a": 1, "b": 2.0}
    e = d if n > 2 else {"a": 5, "b": 3.0}
    e["a"] = 7
    return d, e, d is e


@case(N)
def views(n):
    d = {"a": 1, "b": 2}
    total, values = 0, d.values()
    for k, v in d.items():
        d["b"] += 10 * len(k)
        total += v
    return total, d, list(values), [v + 1 for v in d.values()], [i * v for i, v in enumerate(d.values())]


@case(N)
def grows_while_walked(n):
    d = {"a": 1}
    for k in d:
        if n > 2:
            d[k + "b"] = 2
            d["c"] = 3
    return d


def repeat(d, n):
    if n == 0:
        return d
    d["n"] += n
    return repeat(d, n - 1)


@case(N)
def recursion(n):
    d = {"n": 0, "x": 1.0}
    e = repeat(d, n)
    return e["n"], d, e is d


@case(N)
def inside_of_itself(n):
    d = {"a": n, "me": None}
    d["me"] = d
    d["me"]["me"]["a"] += 1
    return d["a"]


@case(N)
def copies(n):
    a = {"k": 1, "l": [1], "d": {"z": 1}}
    a["k"] = n
    b, c = copy.deepcopy(a), copy.copy(a)
    b["l"].append(5)
    c["d"]["z"] = 9
    return a, b, c


class Holder:
    def __init__(self):
        self.d = {"a": 0, "b": 1}

    def add(self, k):
        self.d["a"] += k
        return self


@case(N)
def in_objects(n):
    many = [Holder() for _ in range(n)]
    for one in many:
        one.add(3)
    return Holder().add(n).d, [one.d for one in many]


@case(N)
def caught(n):
    d = {"a": 1}
    try:
        d["b"] = 1 // n
        d["c"] = 3
    except ZeroDivisionError:
        d["z"] = 0
    return d


def insert(t, v):
    if t is None:
        return {"v": v, "l": None, "r": None}
    if v < t["v"]:
        t["l"] = insert(t["l"], v)
    else:
        t["r"] = insert(t["r"], v)
    return t


@case(N)
def search_tree(n):
    t = None
    for i in range(n):
        t = insert(t, i * 7 % 5)
    return t


@case(N)
def linked(n):
    head = node = {"v": 0, "next": None}
    for i in range(n):
        node["next"] = {"v": i, "next": None}
        node = node["next"]
    count = 0
    while head is not None:
        count, head = count + head["v"], head["next"]
    return count


@case(WORDS)
def trie(words):
    root = {}
    for word in words:
        cur = root
        for ch in word:
            cur = cur.setdefault(ch, {})
        cur["$"] = True
    cur, found = root, 0
    for ch in "he":
        if ch not in cur:
            return root, 0
        cur = cur[ch]
        found += 1
    return root, found, "$" in cur


@case(N)
def dicts_in_dicts(n):
    value = {}
    for i in range(n):
        value = {i: value}
    return value


@case(WORDS)
def defaults_in_defaults(words):
    counts, lists = defaultdict(lambda: defaultdict(int)), {}
    letters = defaultdict(Counter)
    for word in words:
        for ch in word:
            counts[word[0]][ch] += 1
            letters[ch][word] += 2
        if word not in lists:
            lists[word] = defaultdict(list)
        lists[word]["at"].append(len(word))
    out = sorted((a, b, n) for a, row in counts.items() for b, n in row.items())
    return (
        out,
        {k: dict(v) for k, v in lists.items()},
        letters["q"]["x"],
        len(letters),
        len(counts["none"]),
        len(counts),
    )


@pytest.mark.parametrize(("f", "columns"), CASES)
def test_written_dicts(f: Any, columns: tuple[list[Any], ...]) -> None:
    wanted = plain(f, columns)
    turned = tuple(column[::-1] for column in columns)
    for run, given, want in (
        (model(f), columns, wanted), (model(f), turned, wanted[::-1]),
        (model(f), tuple(map(pack, columns)), wanted), (model(f), tuple(c[-1:] for c in columns), wanted[-1:]),
    ):  # fmt: skip
        assert batch(run, given, len(want)) == want


def plain(f: Any, columns: tuple[list[Any], ...]) -> list[Any]:
    """Return the results of the plain call, or the classes of its exceptions."""
    out: list[Any] = []
    for instance in zip(*columns, strict=True):
        try:
            out.append(form(f(*copy.deepcopy(instance))))
        except Exception as error:
            out.append(type(error))
    return out


def batch(f: Any, columns: Any, count: int) -> list[Any]:
    try:
        return [form(v) for v in f.batch(*columns)]
    except InstanceErrors as e:
        return [type(e.errors[k]) if k in e.errors else form(e.results[k]) for k in range(count)]


def test_an_input_is_not_written_to() -> None:
    def run(d, n):
        own = {"x": 1, "y": 2}
        one = d if n > 2 else own
        one["x"] = 7
        return one["x"]

    with pytest.raises(InstanceErrors) as caught:
        model(run).batch([{"x": 1, "y": 2}] * 2, [1, 5])
    assert list(caught.value.errors) == [1]
    assert "ACR113" in str(caught.value.errors[1])
    assert "['x'] of a dict" in str(caught.value.errors[1])


def test_gradients_go_through_records() -> None:
    def loss(x, n, *, w):
        st = {"h": x, "n": 0, "all": None}
        for _ in range(n):
            st["h"] = np.tanh(w @ st["h"])
            st["n"] += 1
            st["all"] = st["h"] if st["all"] is None else st["all"] + st["h"]
        return np.sum(st["h"]) if st["all"] is None else np.sum(st["all"])

    w = np.linspace(-1, 1, 9, dtype=np.float64).reshape(3, 3)
    x = [v.astype(np.float64) for v in X]
    _, found = model(loss).value_and_grad.batch(x, [1, 2, 3], w=w)
    slope = np.zeros_like(w)
    for at in np.ndindex(w.shape):
        up, down = w.copy(), w.copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        slope[at] = sum((loss(v, n, w=up) - loss(v, n, w=down)) / 2e-6 for v, n in zip(x, [1, 2, 3], strict=True))
    assert np.allclose(np.asarray(found), slope / 3, atol=1e-6)  # the mean of the instances


# ---- tries, and dicts with defaults, that came in


class Node:
    def __init__(self):
        self.children = defaultdict(Node)
        self.ends = False


class Trie:
    def __init__(self, words):
        self.table, self.root = {}, Node()
        for word in words:
            at, node = self.table, self.root
            for ch in word:
                at, node = at.setdefault(ch, {}), node.children[ch]
            at["#"], node.ends = True, True

    def find(self, prefix):
        at = self.table
        for ch in prefix:
            if ch not in at:
                return []
            at = at[ch]
        return self.below(at)

    def below(self, at):
        out = []
        for ch, v in at.items():
            out.extend([" "] if ch == "#" else [ch + s for s in self.below(v)])
        return tuple(out)

    def has(self, word):
        node = self.root
        for ch in word:
            node = node.children.get(ch)
            if node is None:
                return False
        return node.ends


def test_tries_that_came_in() -> None:
    def run(t, word):
        return t.find(word), t.has(word)

    words = ["depart", "detergent", "daring", "dog", "deer", "deal"]
    tries = [Trie(words[:k]) for k in (6, 1, 0, 3, 6)]
    asked = ["de", "depart", "d", "dog", "x"]
    for k in range(5):
        want = [form(run(t, w)) for t, w in zip(tries[: k + 1], asked, strict=False)]
        assert [form(v) for v in model(run).batch(tries[: k + 1], asked[: k + 1])] == want


def test_a_default_is_not_stored_in_what_came_in() -> None:
    def run(d, k):
        return d[k], d.get("none", 7), sorted(d), isinstance(d, defaultdict), {**d, "more": 1}, d

    data = [defaultdict(int, a=1), defaultdict(int, b=2, c=3), defaultdict(int)]
    got = model(run).batch(data[:2], ["a", "c"])
    assert list(got) == [run(data[0], "a"), run(data[1], "c")] and got[1][-1] is data[1]
    with pytest.raises(InstanceErrors) as caught:
        model(run).batch(data, ["a", "q", "q"])
    assert [e.code for e in caught.value.errors.values()] == ["ACR113", "ACR113"]
    assert [len(d) for d in data] == [1, 2, 0]


# ---- patterns


def meaning(t):
    match t:
        case {"type": "num", "value": v}:
            return v
        case {"type": "add", "args": [a, b]}:
            return meaning(a) + meaning(b)
        case {"type": "neg", **rest}:
            return -meaning(rest["arg"])
        case {"type": "mul", "args": args} if len(args) > 2:
            return 1000.0
        case {"type": "mul", "args": [a, *rest]}:
            return meaning(a) * sum([meaning(r) for r in rest], 0.0)
        case {}:
            return 77.0
        case _:
            return 99.0


def test_patterns_of_nodes() -> None:
    two, four = {"type": "num", "value": 2.0}, {"type": "num", "value": 4.0}
    many = {"type": "mul", "args": [two, four]}, {"type": "mul", "args": [two] * 3}, {"type": "odd", "args": []}
    data = [two, {"type": "add", "args": [two, {"type": "neg", "arg": four}]}, *many]
    assert list(model(meaning).batch(data)) == list(map(meaning, data))


def test_patterns_of_hash_tables_records_and_shared_dicts() -> None:
    def run(d, n, *, p):
        own = {"a": n, "b": 2}
        own["a"] += 1
        match own:
            case {"a": 3, "b": b}:
                kept = b
            case {"a": int(a)}:
                kept = a * 100
        match p:
            case {"op": "x", "k": k}:
                kept += k
            case {"k": k, **rest}:
                kept += k + len(rest)
        match d:
            case {"a": x, **rest}:
                return x, rest, kept
            case {"b": [1, y] | (y, _)}:
                return y, {}, kept
        return 0, {}, kept

    columns = [{"a": 1, "b": 2, "c": 3}, {"b": 4, "a": 0}, {"x": 1}, {}], [1, 2, 3, 4]
    for shared in ({"op": "y", "k": 5}, {"op": "x", "k": 5}):
        want = [form(run(*v, p=shared)) for v in zip(*columns, strict=True)]
        assert [form(v) for v in model(run).batch(*columns, p=shared)] == want


# ---- random programs


@pytest.mark.parametrize(
    ("made", "seeds"),
    [
        (records, range(6)),
        (records, range(6, 12)),
        (mapping_patterns, range(6)),
        (mapping_patterns, range(6, 12)),
        (word_trees, range(6)),
    ],
)
def test_random_programs(made: Any, seeds: range, module_of: Any) -> None:
    for seed in seeds:
        text, *columns = made.program(seed)
        f = module_of(text).run
        try:
            found = batch(model(f), columns, len(columns[0]))
        except AcronumbaError as error:
            if error.code not in ("ACR111", "ACR112"):  # arrays that are written to
                raise
            continue
        assert found == plain(f, tuple(columns)), text
