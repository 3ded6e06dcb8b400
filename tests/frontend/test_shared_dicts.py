"""A shared `defaultdict`, `Counter` or `OrderedDict` is read as in the plain call, or rejected."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest

from acronumba import model, pack
from acronumba.data.shared import MOST_ITEMS
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

WORDS = [["a", "b"], ["c"], [], ["b", "b", "c"]]


def counted(words: list[str], *, counts: Any) -> Any:
    total = 0
    for word in words:
        total += counts[word] + 10 * counts.get(word, 5) + 100 * (word in counts)
    return total, len(counts), list(counts), sum(counts.values())


def made(kind: str) -> Any:
    known = {"a": 1, "b": 2, "c": 3}
    return {"default": defaultdict(int, known), "counter": Counter(known), "ordered": OrderedDict(known)}[kind]


@pytest.mark.parametrize("kind", ["default", "counter", "ordered"])
def test_it_is_read(kind: str) -> None:
    counts = made(kind)
    f = model(counted)
    agree(outcomes(f.batch, WORDS, counts=counts), plain(counted, WORDS, counts=made(kind)))
    counts["a"] = 7  # the same object, changed between calls
    agree(outcomes(f.batch, WORDS, counts=counts), plain(counted, WORDS, counts=counts))
    agree(outcomes(f.batch, WORDS, counts=dict(counts)), plain(counted, WORDS, counts=dict(counts)))


def test_a_missing_key() -> None:
    f = model(counted)
    words = [["a"], ["x"]]
    agree(outcomes(f.batch, words, counts=made("counter")), plain(counted, words, counts=made("counter")))
    counts = made("default")
    good, bad = outcomes(f.batch, words, counts=counts)
    assert "x" not in counts
    assert good == counted(["a"], counts=counts)
    assert isinstance(bad, AcronumbaError) and bad.code == "ACR113"
    counts.default_factory = None
    good, bad = outcomes(f.batch, words, counts=counts)
    assert isinstance(bad, KeyError)


def chosen(k: int, *, table: Any) -> Any:
    return table["x"] + table.get("y", 0.0) + k, "z" in table, list(table), len(table)


def test_an_ordered_dict_of_arrays() -> None:
    import numpy as np

    table = OrderedDict(x=np.arange(3.0), y=np.ones(3))
    agree(outcomes(model(chosen).batch, [1, 2], table=table), plain(chosen, [1, 2], table=table))


def returned(k: int, *, table: Any) -> Any:
    return table


def compared(k: int, *, table: Any, other: Any) -> Any:
    return table == other


def stored(word: str, *, table: Any) -> Any:
    table[word] = 1
    return table[word]


def added(word: str, *, table: Any) -> Any:
    return table.setdefault(word, 3)


@pytest.mark.parametrize("kind", ["default", "counter", "ordered"])
@pytest.mark.parametrize("f", [stored, added])
def test_what_is_rejected(kind: str, f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR"):
        model(f).batch(["a", "z"], table=made(kind))


@pytest.mark.parametrize("kind", ["default", "counter", "ordered"])
def test_its_class_is_kept(kind: str) -> None:
    got = model(returned).batch([1], table=made(kind))[0]
    assert got == made(kind) and type(got) is type(made(kind))
    assert getattr(got, "default_factory", None) is getattr(made(kind), "default_factory", None)


def test_the_order_is_not_forgotten() -> None:
    import numpy as np

    with pytest.raises(AcronumbaError, match="ACR"):
        model(compared).batch(
            [1], table=OrderedDict(x=np.ones(2), y=np.ones(2)), other=OrderedDict(y=np.ones(2), x=np.ones(2))
        )
    with pytest.raises(AcronumbaError, match="ACR"):
        model(compared).batch([1], table=OrderedDict({1: 2, 3: 4}), other=OrderedDict({3: 4, 1: 2}))


def scored(features: list[str], *, weights: Any) -> Any:
    total = {}
    for name in features:
        for label, value in weights.get(name, {}).items():
            total[label] = total.get(label, 0) + value
    best = max(weights[features[0]].items(), key=lambda pair: pair[1]) if features else None
    rest = dict(weights[features[-1]] if len(features) > 1 else {"A": 1})
    return total, best, rest, list(weights.get("f0", {})), ("A", 2.0) in weights.get("f1", {"A": 2}).items()


@pytest.mark.parametrize("kind", ["floats", "ints", "both"])
def test_a_dict_of_dicts_with_many_sets_of_keys(kind: str) -> None:
    names = ["ABCDE"[k % 3 : k % 5 + 1] or "B" for k in range(16)]
    made: Any = {"floats": float, "ints": int}.get(kind, lambda k: k if k % 2 else k / 2)
    weights = {f"f{k}": {label: made(j + k) for j, label in enumerate(keys)} for k, keys in enumerate(names)}
    f = model(scored)
    instances = [["f1"], ["f0", "f2"], [], ["none"], ["f3", "f3", "f1"]]
    agree(outcomes(f.batch, instances, weights=weights), plain(scored, instances, weights=weights))
    weights["f1"]["A"] = weights["f1"].pop("B", made(7))
    agree(outcomes(f.batch, instances, weights=pack(weights)), plain(scored, instances, weights=weights))


def test_a_huge_list_is_rejected_at_once() -> None:
    table = [None] * (MOST_ITEMS + 1)

    with pytest.raises(AcronumbaError, match="values that are not all numbers"):
        model(lambda n: table[n] is None).batch([1, 2])
