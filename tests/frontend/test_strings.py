"""Strings and dicts as data are the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.data.texts import hash_of, record_of, records_of
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_strings import (
    CASES,
    DOCUMENTS,
    INTS,
    WORDS,
    Document,
    all_ways,
    compared,
    looked_up,
    under_key,
    weighed,
)
from tests.support.plain_call import WAYS, agree, outcomes, plain

IDS = [f"{f.__name__}{k}" for k, (f, _) in enumerate(CASES)]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=8, simulated=12))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def test_records_are_those_of_single_strings() -> None:
    texts = [*WORDS, "x" * 100, "\U0010ffff" * 70]
    words, at = records_of(texts)
    for text, start in zip(texts, at.tolist(), strict=True):
        assert tuple(words[start : start + len(text) + 2].tolist()) == record_of(text)
    assert len({hash_of(list(map(ord, text))) for text in texts}) == len(texts)
    assert [len(part) for part in records_of([])] == [0, 0]


def test_strings_of_packs_of_other_times_are_equal() -> None:
    m = model(compared)
    wanted = [compared(s, s) for s in WORDS]
    for other in (pack(WORDS), pickle.loads(pickle.dumps(pack(WORDS))), [s + "" for s in WORDS]):
        agree(outcomes(m.batch, pack([*WORDS]), other), wanted)
    agree(outcomes(model(looked_up).batch, pack(WORDS), pack(WORDS[::-1])), plain(looked_up, WORDS, WORDS[::-1]))


def test_packs_of_dicts() -> None:
    for column in (DOCUMENTS, DOCUMENTS[2:]):
        packed = pack(column)
        assert list(packed) == column and list(pickle.loads(pickle.dumps(packed))) == column
        for given in (packed, pickle.loads(pickle.dumps(packed))):
            agree(outcomes(model(weighed).batch, given), plain(weighed, column))
    packed = pack(copy.deepcopy(INTS))
    agree(outcomes(model(all_ways).batch, packed[1:], [0, 0, 0]), plain(all_ways, INTS[1:], [0, 0, 0]))


def test_what_is_returned_of_the_user_is_his_own() -> None:
    results = model(weighed).batch(DOCUMENTS[1:3])
    assert results[0][2] is DOCUMENTS[1].counts and results[1][2] is DOCUMENTS[2]


def test_an_instance_of_another_type_fails_alone() -> None:
    column: list[Any] = [*copy.deepcopy(DOCUMENTS), Document(["a", 3], {}, None), Document([], {"a": "b"}, None)]  # type: ignore[dict-item,list-item]
    column.append(Document([], {5: 1}, None))  # type: ignore[dict-item]
    with pytest.raises(InstanceErrors) as caught:
        model(weighed).batch(column)
    texts = {k: str(e).splitlines()[0] for k, e in caught.value.errors.items()}
    assert set(texts) == {3, 4, 5, 6} and isinstance(caught.value.errors[3], KeyError)
    assert "[4].words[1] must be a str, not an int" in texts[4]
    assert "[5].counts['a'] must be an int, not a str" in texts[5]
    assert "[6].counts[5] must be a str, not an int" in texts[6]


def test_a_string_of_another_class_fails_with_the_conversion() -> None:
    with pytest.raises(InstanceErrors) as caught:
        model(lower).batch(["a", np.str_("b")])
    assert "str(x)" in str(caught.value.errors[1])


def test_other_words_do_not_recompile(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.pipeline.compiled import Compiled

    made = []
    first = Compiled.__init__
    monkeypatch.setattr(Compiled, "__init__", lambda self, *a, **k: (made.append(1), first(self, *a, **k))[1])
    f, g = model(looked_up), model(under_key)
    for k in range(50):
        assert f.batch([f"w{k}"], ["ab"]) == [looked_up(f"w{k}", "ab")]
        assert g.batch([{k: 1}, {k: 5, -k - 1: 2}], [k, -k - 1]) == [1, 2]
    assert len(made) == 2


def of_shared(x, *, table):
    return table[x], x in table, len(table)


TABLES = [
    {f"w{k}": k for k in range(100)},
    {k: float(k) for k in range(5)},
    {(k, "a"): [k, k + 1] for k in range(5)},
    {k: np.arange(3.0) + k for k in range(4)},
    {"a": 1, "b": 2},
    {True: "yes", False: "no"},
]
ASKED: list[Any] = [
    ["w1", "w99", "x"],
    [1, 4, 7],
    [(1, "a"), (4, "b"), (4, "a")],
    [0, 3, 4],
    ["a", "b", "c"],
    [True, False],
]


@pytest.mark.parametrize("k", range(len(TABLES)))
def test_shared_dicts(k: int) -> None:
    table, asked = copy.deepcopy(TABLES[k]), ASKED[k]
    for m in (model(of_shared).batch, model(of_shared)._interpret):
        agree(outcomes(m, asked, table=table), plain(of_shared, asked, table=table))
        if len(table) > 10 or type(next(iter(table))) is int:  # data: it may be changed between calls
            key = asked[0]
            table[key] = table[key] + 1
            agree(outcomes(m, asked, table=table), plain(of_shared, asked, table=table))


def assigned(d):
    d["q"] = 1


def popped(d):
    return d.pop("a")


def deleted(d):
    del d["a"]


def joined_in_place(d):
    e = d
    e |= {}
    return e


def set_by_default(d):
    return d.setdefault("a", 1)


def changed_in_a_list(d):
    e = [d, {"k": 1}]
    e[0]["z"] = 1
    return e


def changed_in_a_function(d):
    def change(e, n):
        e["n"] = n
        if n > 0:
            change(e, n - 1)

    change(d, 2)
    return d


CHANGES = [
    assigned, popped, deleted, joined_in_place, set_by_default, changed_in_a_list, changed_in_a_function,
]  # fmt: skip


@pytest.mark.parametrize("f", CHANGES, ids=lambda f: f.__name__)
def test_a_dict_that_came_in_is_not_changed(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR113"):
        model(f).batch([{"a": 1, "b": 2}, {"c": 1}])


def list_in_a_dict(d):
    for k in d:
        d[k].append(1)


def list_of_a_copy(d):
    e = dict(d)
    for k in e:
        e[k].append(1)
    return e


@pytest.mark.parametrize("f", [list_in_a_dict, list_of_a_copy], ids=lambda f: f.__name__)
def test_lists_of_a_dict_that_came_in_are_not_changed(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR113"):
        model(f).batch([{"a": [1], "b": [2]}, {"c": [1]}])


def parts(s):
    return len(s.encode())


def text_of_a_set(s):
    return f"{set(s)}"


@pytest.mark.parametrize(("f", "code"), [(parts, "ACR209"), (text_of_a_set, "ACR116")])
def test_what_is_not_in_the_language(f: Any, code: str) -> None:
    with pytest.raises(AcronumbaError, match=code):
        model(f).batch(WORDS)


def lower(s):
    return s.lower()


def test_the_sigma_is_not_made_small() -> None:
    got = outcomes(model(lower).batch, ["ABC", "\u03a3\u03a3"])
    assert got[0] == "abc" and isinstance(got[1], ValueError)


def test_stages_name_strings() -> None:
    stages = model(compared).stages(WORDS, WORDS)
    assert "text_eq" in stages["ir"] and "def text_same" in stages["host"]


def in_order(x, *, table):
    return list(table), [table[k] for k in table], x


def test_a_shared_dict_is_seen_as_it_is_now() -> None:
    table: dict[Any, Any] = {k: k * 2 for k in range(50)}
    m = model(in_order)

    def agrees() -> None:
        agree(outcomes(m.batch, [1, 2], table=table), plain(in_order, [1, 2], table=table))

    agrees()
    agrees()
    table[3] = table.pop(3) + 1
    agrees()
    table[4] = 5
    agrees()
    table[3], table[4] = table.pop(4), table.pop(3)
    agrees()
    table = dict(reversed(table.items()))
    agrees()


def asked_of_a_set(x, *, known):
    return x in known, len(known), known | {x}


@pytest.mark.parametrize(
    ("known", "xs"), [({"a", "bc"}, ["a", "b"]), ({3, 5}, [3, 4]), (set(), [1, 2])], ids=["strings", "ints", "empty"]
)
def test_shared_sets(known: set[Any], xs: list[Any]) -> None:
    for m in (model(asked_of_a_set).batch, model(asked_of_a_set)._interpret):
        agree(outcomes(m, xs, known=known), plain(asked_of_a_set, xs, known=known))


def added(s):
    s.add(3)


def left_out(s):
    s.discard(1)


def narrowed(s):
    e = s
    e &= {1}


@pytest.mark.parametrize("f", [added, left_out, narrowed], ids=lambda f: f.__name__)
def test_a_set_that_came_in_is_not_changed(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR113"):
        model(f).batch([{1, 2}, {5}])


def test_packs_of_sets() -> None:
    column = [{1, 2}, set(), {2**62}]
    packed = pack(column)
    column[0].add(7)
    assert list(packed) == [{1, 2}, set(), {2**62}] == list(pickle.loads(pickle.dumps(packed)))
    assert list(model(len_of).batch(packed)) == [2, 0, 1]


def len_of(s):
    return len(s)


def generated(s, x, *, w):
    out = []
    h = x
    for c in s:
        h = np.tanh(w @ h + ord(c) * 0.01)
        out.append(chr(97 + int(np.argmax(h))))
        if out[-1] == "a":
            out.append(c)
    word = "".join(out)
    while len(word) < 6:
        h = np.tanh(w @ h)
        word = word + "xyz"[int(np.argmax(h)) % 3]
    return word, h, {word: len(word)}


@pytest.mark.parametrize("device", ["cpu", pytest.param("simulator", marks=pytest.mark.slow)])
def test_strings_made_of_computed_values(device: str) -> None:
    rng = np.random.default_rng(0)
    words, w = ["hello", "a", "", "kitten"] * 3, rng.standard_normal((4, 4))
    xs = [rng.standard_normal(4) for _ in words]
    m = model(generated).on(device)
    agree(outcomes(m.batch, words, xs, w=w), plain(generated, words, xs, w=w), close=True, single=True)
    assert model(generated).check(words, xs, w=w).ok


def by_percent(s):
    parts = "[%s]" % ",".join([s, s]) if len(s) > 2 else ""  # noqa: UP031
    return "%s%s: 100%%, %d" % (s, parts, 3), "%s" % s, "<%5.1f|%s>" % (2.0, s)  # noqa: UP031


def test_texts_by_percent() -> None:
    assert list(model(by_percent).batch(WORDS)) == list(map(by_percent, WORDS))


def test_a_static_method_of_a_string_does_not_read_it():
    def complement(s):
        return s.translate(s.maketrans("ATCG", "TAGC")), s.maketrans("ab", "cd", "e")

    xs = ["GCTA", "", "abc"]
    assert list(model(complement).batch(xs)) == [complement(x) for x in xs]
