"""Plain data that is packed by way of `marshal`: the same values as packers make, or left to packers."""

from __future__ import annotations

import enum
import random
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from acronumba.api.results import equal
from acronumba.data.buffers import Memory
from acronumba.data.layouts import make_layouts
from acronumba.data.pack import Packer, infer
from acronumba.data.stream import Stream, Streams, is_plain, may_return
from acronumba.data.unpack import Unpacker
from acronumba.ir.types import NONE, DictT, ListT, TupleT
from tests.support.classless import Grammar

SHARED_TEXT = "used " * 3

DATA: dict[str, list[Any]] = {
    "ints": [[0, 1, -1], [2**31 - 1, 2**31, -(2**31) - 1], [2**62, -(2**62), 2**60 - 1], []],
    "floats": [[0.0, -0.0, 1.5], [float("inf"), 1e-310], []],
    "bools": [[True, False], [True], []],
    "texts": [
        "",
        "a",
        "ab",
        "é",
        "日本語 text",
        "\U0001f600!",
        "\ud800x",
        SHARED_TEXT,
        SHARED_TEXT,
        "x" * 300,
        "é" * 300,
    ],
    "lists of texts": [["one", "two"], [SHARED_TEXT, SHARED_TEXT, ""], []],
    "pairs": [(1, 2.0), (3, 4.0), (1, 2.0)],
    "pairs of pairs": [((1, 2), (True, "a")), ((3, 4), (False, "bc"))],
    "lists of pairs": [[(1, 2), (3, 4)], [], [(1, 2)] * 3],
    "deep lists": [[[[1], []], []], [], [[[2, 3]]]],
    "fixed dicts": [{"a": 1, "bb": 2.0, "c": "t"}, {"a": 2, "bb": 3.0, "c": "t"}],
    "dicts by number": [{1: 2.0}, {}, {k: k / 2 for k in range(100)}],
    "dicts by text": [{"one": 1}, {"two": 2, "three": 3}, {}],
    "dicts by pair": [{(1, 2): [1]}, {(3, 4): [], (5, 6): [7, 8]}],
    "dicts of dicts": [{1: {2: "x"}}, {}, {3: {}, 4: {5: "y", 6: "z"}}],
    "optional lists": [None, [1], None, []],
    "optional texts": [None, "word", "w"],
    "numbers of both kinds": [1, 2.5, 3],
    "either": [1, "text", [1, 2], (1, 2.0), None, {7: 8}],
    "lists of either": [[1, None, 2.0], [True, "a"]],
}


def unpacked(columns: list[list[Any]], given: bool = False) -> list[Any] | None:
    """Pack and unpack; None if it is left to packers."""
    schema = infer(columns)
    layouts = make_layouts(schema.fields)
    done = Stream(schema.params, given, layouts).pack(columns)
    if done is None:
        return None
    roots, heap = done
    decoder = Unpacker(TupleT(schema.params), layouts).decoder(roots, Memory(heap.buffers))
    values = [decoder.one(k) for k in range(len(roots))]
    assert all(map(equal, decoder.many(range(len(roots))), values))
    return values


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("given", [False, True])
def test_what_comes_back(name: str, given: bool) -> None:
    column = DATA[name]
    twice = [column, list(range(len(column)))]
    found = unpacked(twice, given)
    assert found is not None
    for value, own, number in zip(found, *twice, strict=True):
        assert equal(value, (own, number))
        assert repr(value) == repr((own, number))  # -0.0 too


def test_many_random_values() -> None:
    rng = random.Random(0)

    def leaf() -> Any:
        return rng.choice(
            [rng.randrange(-5, 5), rng.getrandbits(62), rng.random(), True, None, "word", chr(rng.randrange(900))]
        )

    for _ in range(30):
        column = [
            {(leaf_key, "k" * rng.randrange(4)): [(leaf(), rng.random()) for _ in range(rng.randrange(4))]
             for leaf_key in rng.sample(range(1000), rng.randrange(9))}
            for _ in range(rng.randrange(1, 9))
        ]  # fmt: skip
        found = unpacked([column])
        assert found is not None
        assert all(equal(value, (own,)) for value, own in zip(found, column, strict=True))


LEAF = ("num", 1.0)
TREE = {"value": 1.0, "left": None, "right": {"value": 2.0, "left": None, "right": None}}
SHAPES: dict[str, list[Any]] = {  # lists, tuples and dicts that hold others of their form
    "dicts of one shape": [TREE, TREE["right"], TREE],
    "dicts of several shapes": [{"x": 1.0, "l": {"x": 2.0}, "r": {"x": 3.0, "l": {"x": 4.0}}},
                                {"x": 2.0, "r": {"x": 1.0}}],
    "tuples with tags": [("add", LEAF, ("neg", LEAF)), LEAF, ("mul", ("num", 2.0), ("add", LEAF, LEAF))],
    "tuples of several lengths": [("x", 1.0), ("y", ("x", 2.0), ("y", ("x", 0.5), ("x", 1.5))), ("y", LEAF, LEAF)],
    "lists": [["+", 1.0, ["*", 2.0, ["-", 3.0]]], 2.0, []],
    "dicts with run-time keys": [{"a": {"b": {}, "cc": {"d": {}}}}, {}, {"a": {}, "b": {"a": {}}}] * 3,
    "lists in dicts": [{"name": "n", "kids": [{"name": "other", "kids": []}, {"name": "n", "kids": []}]}],
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_comes_back_of_nested_data(name: str) -> None:
    for column in (SHAPES[name], [SHAPES[name]] * 2):
        found = unpacked([column])
        assert found is not None and [value[0] for value in found] == column


@pytest.mark.parametrize("seed", range(3))
def test_random_nested_data(seed: int) -> None:
    packed = 0
    for k in range(40):
        grammar = Grammar(100 * seed + k)
        column = [grammar.data(grammar.rand.randint(0, 6)) for _ in range(6)]
        found = unpacked([column])
        packed += found is not None
        assert found is None or all(equal(value, (own,)) for value, own in zip(found, column, strict=True))
    assert packed > 30


def test_a_node_that_comes_in_twice_is_one_row() -> None:
    node = {"value": 2.0, "left": None, "right": None}
    column = [{"value": 1.0, "left": node, "right": node}, node]
    schema = infer([column])
    layouts = make_layouts(schema.fields)
    roots, heap = Stream(schema.params, False, layouts).pack([column]) or pytest.fail("not packed")
    first = Unpacker(schema.params[0], layouts).decoder(roots, Memory(heap.buffers)).one(0)
    assert first == column[0] and first["left"] is first["right"]
    assert Stream(schema.params, True, layouts).pack([column]) is None
    assert not is_plain(schema.params[0])  # without layouts
    column[0]["left"]["left"] = column[0]  # a cycle
    assert Stream(schema.params, False, layouts).pack([column]) is None


def test_other_shapes_are_left_to_packers() -> None:
    column = SHAPES["tuples with tags"]
    schema = infer([column])
    stream = Stream(schema.params, False, make_layouts(schema.fields))
    assert stream.pack([column]) is not None
    for other in (("add", LEAF), ("sub", LEAF, LEAF), ("num", 1), ["num", 1.0], (), ("num", "x"), {"num": 1.0}, None):
        assert stream.pack([[("add", LEAF, other)]]) is None


class Level(int):
    pass


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [True, 1.0, np.int64(1), Level(1), Colour.RED, 2**63, -(2**63), 2**100, "1", None, [1], (1,)],
    ids=lambda value: f"{type(value).__name__} {value!r}",
)
def test_what_is_no_int_is_left_to_packers(value: Any) -> None:
    stream = Stream([ListT(infer([[1]]).params[0])], False)
    assert stream.pack([[[1], [2, 3]]]) is not None
    assert stream.pack([[[1], [2, value]]]) is None


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ([[1.0]], [[1]]),
        ([(1, 2)], [(1, 2, 3)]),
        ([(1, 2)], [[1, 2]]),
        ([[(1, 2)]], [[[1, 2]]]),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
        ([{"a": 1, "b": 2}], [{"a": 1}]),
        ([{"a": 1, "b": 2}], [{"a": 1, "b": 2, "c": 3}]),
        ([{1: 2}], [{1: 2.0}]),
        ([{1: 2}], [{1.0: 2}]),
        (["text"], [b"text"]),
        ([None, [1]], [[None]]),
        ([1, "a"], [2.0]),
    ],
)
def test_other_types_are_left_to_packers(column: list[Any], other: list[Any]) -> None:
    stream = Stream(infer([column]).params, False)
    assert stream.pack([column]) is not None
    assert stream.pack([other]) is None


def test_what_comes_in_twice() -> None:
    inner = [1, 2]
    column = [[inner, inner], [inner], [[3]]]
    schema = infer([column])
    roots, heap = Stream(schema.params, False).pack([column]) or pytest.fail("not packed")
    value = Unpacker(TupleT(schema.params), ()).decoder(roots, Memory(heap.buffers)).one(0)[0]
    assert value[0] is value[1]
    assert Stream(schema.params, True).pack([column]) is None  # whose object it is would not be known
    pair = ([1], 2)
    assert Stream(infer([[pair, pair]]).params, False).pack([[pair, pair]]) is None
    same = [[1], [2]]
    assert Stream(infer([same, same]).params, False).pack([same, same]) is None


def test_more_room_is_taken_when_it_is_needed() -> None:
    column = [[[None] * 50, [1]] for _ in range(50)]
    column.append([[None, *("t" * k for k in range(60))]])
    found = unpacked([column])
    assert found is not None and [value[0] for value in found] == column


def test_types_that_are_known() -> None:
    assert is_plain(infer([[{"a": [1.0]}]]).params[0])
    for value in (np.zeros(2), [np.float64(1)], {1, 2}, [{"a": {1}}], [Colour.RED], ([], {3}), object()):
        assert not is_plain(infer([[value]]).params[0])
    ints = infer([[[1]]]).params[0]
    assert may_return([ints], ListT(ints), ())
    assert may_return([ListT(ints)], TupleT((ints, NONE)), ())
    assert may_return([ListT(infer([[[]]]).params[0])], ints, ())
    assert not may_return([ints], DictT(("a",), (infer([[[1.0]]]).params[0],)), ())


def total(graph: dict[int, list[int]], start: int, names: dict[str, float]) -> tuple[int, float, list[int]]:
    seen = [start]
    for k in seen:
        for n in graph.get(k, []):
            if n not in seen:
                seen.append(n)
    weight = 0.0
    for name, w in names.items():
        if name.startswith("a") and name in names:
            weight += w * names[name]
    return len(seen), weight, graph[start]


def test_a_model_of_dicts_again_and_again() -> None:
    f = model(total)
    rng = random.Random(1)
    for _ in range(4):
        graphs = [{k: [rng.randrange(9) for _ in range(rng.randrange(3))] for k in range(9)} for _ in range(20)]
        names = [{"a" * k + str(k): rng.random() for k in range(rng.randrange(6))} for _ in range(20)]
        starts = [rng.randrange(9) for _ in range(20)]
        found = list(f.batch(graphs, starts, names))
        assert found == [total(*instance) for instance in zip(graphs, starts, names, strict=True)]
        assert all(value[2] is graph[start] for value, graph, start in zip(found, graphs, starts, strict=True))
        assert all(f.batch(graphs, starts, names)[k][2] is graphs[k][starts[k]] for k in range(12))


def test_a_model_that_returns_what_was_changed_later() -> None:
    @model
    def first(xs: list[list[int]]) -> list[int]:
        return xs[0]

    for _ in range(3):
        given = [[[k], [k + 1]] for k in range(20)]
        results = first.batch(given)
        own = [xs.pop(0) for xs in given]  # results are read later
        assert all(value is mine for value, mine in zip(results, own, strict=True))


def test_errors_of_data_stay_what_they_are() -> None:
    @model
    def f(xs: list[int], names: dict[str, int]) -> int:
        return sum(xs) + len(names)

    good = [([k], {"a": k}) for k in range(20)]
    for _ in range(3):
        assert list(f.batch(*map(list, zip(*good, strict=True)))) == [k + 1 for k in range(20)]
    wrong = [*good[:7], ([1, "two"], {"a": 1}), *good[8:]]
    with pytest.raises(InstanceErrors) as caught:
        f.batch(*map(list, zip(*wrong, strict=True)))
    with pytest.raises(InstanceErrors) as first:
        model(f.__wrapped__).batch(*map(list, zip(*wrong, strict=True)))
    assert list(caught.value.errors) == [7]
    assert repr(caught.value.errors[7]) == repr(first.value.errors[7])
    assert list(f.batch(*map(list, zip(*good, strict=True)))) == [k + 1 for k in range(20)]


def test_columns_of_both_kinds() -> None:
    @model
    def f(x: np.ndarray, words: list[str], n: int) -> tuple[float, str]:
        return x.sum().item() + n, words[n]

    xs, lists, ns = (
        [np.arange(3.0) + k for k in range(12)],
        [["a", "bc"] for _ in range(12)],
        [k % 2 for k in range(12)],
    )
    for _ in range(3):
        assert list(f.batch(xs, lists, ns)) == [f(*one) for one in zip(xs, lists, ns, strict=True)]


def test_packers_use_it_from_the_second_mini_batch_on() -> None:
    column = [[1, 2], [3]]
    schema = infer([column])
    packer = Packer(schema, (), streams=Streams(schema.params, infer([[1]]).params[0], ()))
    kinds = [{region.kind for heap in packer.pack([column]).heaps for region in heap.regions} for _ in range(3)]
    assert kinds[0] >= {"heads", "items"}
    assert kinds[1] == kinds[2] == {"heads"}


def test_shared_dicts_and_sets_as_they_are_now() -> None:
    @model
    def f(word: str, *, weights: dict[str, dict[str, float]], classes: set[str]) -> tuple[float, list[str]]:
        total = 0.0
        if word in weights:
            for label, weight in weights[word].items():
                if label in classes:
                    total += weight
        return total, [label for label in classes]  # noqa: C416 - models have no list(set)

    words = [f"w{k % 50}" for k in range(20)]
    weights = {f"w{k}": {"a": k / 2, "b": 1.0} for k in range(40)}
    classes = {"a", "b"}
    for turn in range(6):
        assert list(f.batch(words, weights=weights, classes=classes)) == [
            f(word, weights=weights, classes=classes) for word in words
        ]
        weights[f"w{turn}"]["a"] += 10.0
        if turn == 3:
            classes.remove("a")
        if turn == 4:
            classes |= {"c", "a"}
