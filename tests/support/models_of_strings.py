"""Models whose data are strings, with their instances."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

WORDS = ["", "a", "b", "ab", "ba", "abc", "abcabc", "\0", "a\0", "é", "éa", "\ud800", "😀", "😀a", "add", "kitten"]
LETTERS = [
    "",
    "a",
    "Abc",
    "ABC",
    "straße",
    "ﬁn",
    "İ",
    "12",
    "1a",
    "²½",
    "٣",
    " \t",
    "\u2003",
    "a b",
    "\0",
    "😀",
    "ΑΒ",
    "ǆ",
]
OTHERS = [*WORDS[3:], "", "a", "xyz"]


def compared(s, t):
    return s == t, s != t, s < t, s <= t, s > t, s >= t, s == "add", s > "ab"


def chosen_by_constant(s, x):
    if s == "add":
        return x + 1
    if s in ("ab", "ba"):
        return x * 2
    if s not in {"abc", "\0"}:
        return x
    return -x


def lengths(s):
    return len(s), bool(s), not s, 1 if s else 2


def item_of(s, k):
    return s[k]


def items_of(s):
    if len(s) < 2:
        return "", s
    return s[0], s[-1], s[1] + s[0]


def gone_over(s):
    out = []
    for k, c in enumerate(s):
        if c == "a":
            out.append(k)
    return out, [c for c in s], list(s), list(reversed(s)), [ord(c) for c in s]


def pairs_of(s, t):
    same = 0
    for a, b in zip(s, t):
        same += a == b
    return same, sum(1 for a, b in zip(s, s[1:]) if a < b)


def edit_distance(s, t):
    table = np.zeros((len(s) + 1, len(t) + 1))
    for i in range(len(s) + 1):
        table[i, 0] = i
    for j in range(len(t) + 1):
        table[0, j] = j
    for i in range(1, len(s) + 1):
        for j in range(1, len(t) + 1):
            cost = 0 if s[i - 1] == t[j - 1] else 1
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
    return table[len(s), len(t)]


def distance_by_memo(s, t):
    memo = {}

    def of(i, j):
        if i == 0 or j == 0:
            return i + j
        if (i, j) not in memo:
            memo[i, j] = min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (s[i - 1] != t[j - 1]))
        return memo[i, j]

    return of(len(s), len(t))


def parts_of(s, i, j):
    return s[i:j], s[:i], s[j:], s[::2], s[::-1], s[-2:], s[i:] + s[:i]


def counted(s):
    d = {}
    for c in s:
        d[c] = d.get(c, 0) + 1
    return d


def looked_up(s, t):
    d = {"ab": 1, "": 2}
    d[s] = 3
    return d[t], d.get(s), d.get("ab"), d.get(t, -1), len(d), s in d, t in d


def keys_of_all_kinds(s, t, k):
    d = {}
    d[s, k] = 1
    d[t, k + 1] = 2
    return d, (t, k) in d, {s, t}, (s in {t, "ab"})


def counter_of(s):
    return dict(Counter(s)), set(s), Counter(s)["a"]


def grouped(s):
    d = defaultdict(list)
    for k, c in enumerate(s):
        d[c].append(k)
    return dict(d)


def named(s, x):
    tag = "positive" if x > 0 else s
    other = s or "empty"
    best = None
    for c in s:
        if best is None or c > best:
            best = c
    return tag, other, best, best == "b", best is None


def kept_in_lists(s, t):
    out = ["first", s]
    out.append(t)
    if s == t:
        out.append("equal")
    out[0] = t
    return out, out.count(t), out.index(t), s in out, "first" in out, [t, "x"] == [s, "x"], (s, 1) == (t, 1)


def made_of_characters(s):
    out = []
    for c in reversed(s):
        out.append(c)
        if c == "a":
            out.append("-")
    word = ""
    for c in s:
        word = c + word
    return "".join(out), "".join(reversed(out)), ", ".join(out), word, word == s, f"<{s}>", str(s)


def one_of_constants(s, n):
    v = ""
    for k, c in enumerate("ab"):
        if n % 2 == k:
            v = c + v
    word = "yes" if n else "no"
    return "".join([v, "".join(reversed(v))]), [c for c in word], word + s, len(word), word[-1], f"{word}!", s in word


def asked(s, t):
    return (
        s.startswith(t),
        s.endswith("a"),
        s.startswith(("a", "\0")),
        s.find(t),
        t in s,
        s.find("b", 1),
        "abcabc".find(s),
        isinstance(s, str),
        isinstance(s, int),
        s.removesuffix("a"),
        s.removeprefix(t),
    )


def characters(s, k):
    return [chr(ord(c) + 1) for c in s if ord(c) < 1000], chr(k), ord(s)


def in_case(s):
    return s.upper(), s.lower(), s.upper() == "ABC"


def kinds_of(s):
    return s.isalpha(), s.isdigit(), s.isalnum(), s.isspace(), s.isdecimal(), s.isnumeric(), [c.isdigit() for c in s]


def times(s, n):
    return s * n, n * "ab", "-" * len(s), s * True, "ab" * 2, s * 0


def place_of(s, t):
    return s.index(t)


@dataclass
class Token:
    word: str
    tag: str | None
    size: int


@dataclass
class Phrase:
    kind: str
    children: list[Phrase]
    token: Token | None


def tagged(tokens: list[Token]) -> Any:
    seen = []
    for t in tokens:
        if t.tag is None:
            seen.append(t.word)
        elif t.tag == t.word:
            seen.append("same")
        else:
            seen.append(t.tag)
    return seen, [t for t in tokens if t.tag == "NN"]


def phrases(p: Phrase) -> Any:
    if p.kind == "leaf" and p.token is not None:
        return p.token.size + (2 if p.token.word == "b" else 0)
    total = 0
    for child in p.children:
        total += phrases(child)
    return total if p.kind != "neg" else -total


class Entry(NamedTuple):
    name: str
    value: float


def found(entries, name):
    for e in entries:
        if e.name == name:
            return e.value, e
    return 0.0, Entry(name, 1.0)


def of_several_kinds(x):
    if isinstance(x, str):
        return len(x), x
    if x is None:
        return 0, "none"
    return x + 1, "number"


def in_tuples(pair, table):
    word, number = pair
    return [word == key and number == value for key, value in table], max(v for _, v in table)


def parsed(words, rules):
    n = len(words)
    chart = {}
    for i in range(n):
        for head, word in rules:
            if word == words[i]:
                chart[i, i + 1, head] = 1.0
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            for j in range(i + 1, i + span):
                if (i, j, "A") in chart and (j, i + span, "B") in chart:
                    chart[i, i + span, "A"] = chart[i, j, "A"] * 0.5 + chart[j, i + span, "B"]
    return chart.get((0, n, "A"), 0.0), len(chart)


def vectors(words, x):
    memory = {}
    for w in words:
        if w in memory:
            memory[w] = memory[w] + x
        else:
            memory[w] = x
    return memory, sum(memory.values()) if words else x


TOKENS = [
    [],
    [Token("a", None, 1), Token("dog", "NN", 3)],
    [Token("NN", "NN", 2), Token("", "", 0), Token("é😀", "JJ", 2)],
]
_LEAF = Phrase("leaf", [], Token("b", "NN", 1))
PHRASES = [_LEAF, Phrase("neg", [_LEAF, Phrase("x", [], None)], None), Phrase("sum", [_LEAF, _LEAF], None)]
RULES = [("A", "the"), ("B", "dog"), ("B", "runs"), ("C", "")]
SENTENCES = [[], ["the"], ["the", "dog"], ["the", "dog", "runs"], ["dog", "the", "", "runs"]]

CASES: list[Any] = [
    (compared, (WORDS, OTHERS)),
    (compared, (WORDS, WORDS)),
    (chosen_by_constant, (WORDS, list(range(16)))),
    (lengths, (WORDS,)),
    (item_of, (WORDS, [0, 0, 1, 1, -1, -3, 2, 0, 1, -1, -3, 0, 0, 1, 5, 5])),
    (items_of, (WORDS,)),
    (gone_over, (WORDS,)),
    (pairs_of, (WORDS, OTHERS)),
    (edit_distance, (WORDS, OTHERS)),
    (distance_by_memo, (WORDS[:8], OTHERS[:8])),
    (parts_of, (WORDS, [0, 1, -1, 1, 5, 1, 2, 0] * 2, [0, 1, 2, 2, 7, -1, 5, 1, 1, 1, 0, 2, 1, 2, 3, 9])),
    (counted, (WORDS,)),
    (looked_up, (WORDS, OTHERS)),
    (keys_of_all_kinds, (WORDS, OTHERS, list(range(16)))),
    (counter_of, (WORDS,)),
    (grouped, (WORDS,)),
    (named, (WORDS, [0.5 - k % 2 for k in range(16)])),
    (kept_in_lists, (WORDS, ["", "b", *WORDS[2:]])),
    (made_of_characters, (WORDS,)),
    (one_of_constants, (["", "e", "y"], [0, 1, 3])),
    (asked, (WORDS, OTHERS)),
    (characters, (WORDS, [0, 97, 0x10FFFF, 0x110000, -1, *range(200, 211)])),
    (in_case, (LETTERS,)),
    (kinds_of, (LETTERS,)),
    (times, (WORDS, [0, 1, 2, 3, -1, 4, 1, 5] * 2)),
    (place_of, (WORDS, OTHERS)),
    (tagged, (TOKENS,)),
    (phrases, (PHRASES,)),
    (found, ([[], [Entry("a", 0.5)], [Entry("b", 1.5), Entry("ab", 2.5)]], ["a", "a", "ab"])),
    (of_several_kinds, (["", "abc", None, 3, "x", -1],)),
    (in_tuples, ([("a", 1), ("", 0), ("é", 3)], [[("a", 1)], [("", 1), ("", 0)], [("é", 3), ("e", 3), ("éé", 9)]])),
    (parsed, (SENTENCES, [RULES] * 5)),
    (vectors, (SENTENCES, [np.arange(3.0) + k for k in range(5)])),
]  # fmt: skip


# ---- dicts as data


def scored(features, x):
    total = x
    for name, value in features.items():
        if name.startswith("w"):
            total += value
        elif name == "bias" and value:
            total -= 1.0
    return total, len(features), "bias" in features, features.get("w1", -1.0), list(features), sum(features.values())


def under_key(d, k):
    return d[k]


def all_ways(d, k):
    found = d.get(k)
    out = []
    for key in d:
        out.append(key)
    return found, out, k in d, len(d), d, list(d.keys()), [v for v in d.values()], (1 if d else 0), found is None


def copied_and_changed(d, k):
    e = dict(d)
    e[k] = 7
    return e, k in d, {**d}, d == e, len(e) - len(d)


def nested(d, k):
    total = 0
    for name, inner in d.items():
        total += sum(inner.values()) + len(name)
    return total, d[k] if k in d else None


def neighbours(graph, start):
    seen = {start}
    order = [start]
    while order and len(order) < 20:
        fresh = [n for v in order for n in graph.get(v, []) if n not in seen]
        if not fresh:
            break
        for n in fresh:
            if n not in seen:
                seen.add(n)
                order.append(n)
    return order, len(seen)


def by_tuple(table, i, word):
    best = -1.0
    for j in range(4):
        if (i, j, word) in table:
            best = max(best, table[i, j, word])
    return best, table.get((i, 0, word), 0.0)


def of_arrays(table, words):
    out = np.zeros(3)
    for w in words:
        if w in table:
            out = out + table[w]
    return out


@dataclass
class Document:
    words: list[str]
    counts: dict[str, int]
    best: dict[int, float] | None


def weighed(d: Document) -> Any:
    total = 0
    for w in d.words:
        total += d.counts.get(w, 0)
    if d.best is None:
        return total, -1.0, d.counts
    return total, d.best[total], d


def one_of_two(d, e, flag):
    x = d if flag else e
    made = {"a": 1, "z": 5}
    y = d if flag else made
    return x["a"], len(x), y["a"], [x, y]


FEATURES = [{}, {"w1": 0.5, "bias": 1.0}, {"bias": 0.0, "w2": 2.5, "\0": 1.0}, {"w": 1.0, "é😀": 3.0, "w1": 2.0}]
INTS = [{1: 2}, {-(2**63): 1, 2**63 - 1: 2, 0: 3}, {k * 7919: k for k in range(40)}, {}]
MANY = [{f"word{k}": k for k in range(200)}, {f"word{k}": -k for k in range(0, 300, 7)}, {"word3": 1}]
GRAPHS = [{0: [1, 2], 1: [3], 2: [3], 3: [0]}, {5: []}, {}, {7: [7, 8]}]
TABLES = [{(0, 1, "a"): 0.5, (0, 2, "a"): 1.5}, {(1, 0, ""): 2.0}, {(0, 0, "ab"): -2.0, (3, 3, "b"): 1.0}]
VECTORS = [{"the": np.ones(3), "dog": np.arange(3.0)}, {}, {"": np.ones(3)}, {"dog": np.ones(3)}, {"runs": np.zeros(3)}]
DOCUMENTS = [
    Document(["a", "b"], {"a": 2, "b": 3}, {5: 0.5}),
    Document(["a"], {"b": 3}, None),
    Document(["", "é", ""], {"": 1, "é": 4, "x": 9}, {6: 1.5, 1: 0.0}),
    Document(["x"], {}, {1: 0.5}),
]

CASES += [
    (scored, (FEATURES, [1.0, 2.0, 3.0, 4.0])),
    (under_key, (FEATURES, ["w1", "w1", "\0", "é"])),
    (under_key, (INTS, [1, 2**63 - 1, 7919, 0])),
    (all_ways, (FEATURES, ["a", "bias", "w2", "w1"])),
    (all_ways, (INTS, [1, 0, 7919 * 39, 5])),
    (all_ways, (MANY, ["word199", "word294", "word3"])),
    (all_ways, ([{True: 1, False: 2}, {False: 0}, {}], [True, True, False])),
    (all_ways, ([{None: 1, "a": 2}, {"b": 1}, {None: 3}], [None, "a", None])),
    (copied_and_changed, (FEATURES, ["a", "bias", "w2", "w1"])),
    (copied_and_changed, (INTS, [1, 0, 7919 * 39, 5])),
    (nested, ([{"a": {"x": 1}, "bc": {"y": 2, "x": 3}}, {}, {"d": {}}], ["a", "a", "d"])),
    (neighbours, (GRAPHS, [0, 5, 1, 7])),
    (by_tuple, (TABLES, [0, 1, 3], ["a", "", "b"])),
    (of_arrays, (VECTORS, SENTENCES)),
    (weighed, (DOCUMENTS,)),
    (one_of_two, ([{"a": 1, "b": 2}, {"a": 3}], [{"a": 9}, {"c": 1}], [True, False])),
]


# ---- sets as data


def members_of(s, t, k):
    return k in s, len(s), s == t, s <= t, k in s | t, len(s & t), s, bool(s)


def best_of(s, x):
    return max(s) * x if s else 0, min(s) if s else 1, sum(s), s - {3}, sorted(s)


def grown(s, k):
    e = set(s)
    e.add(k)
    e.discard(2)
    return e, s, k in e, k in s


SETS: list[Any] = [set(), {"a"}, {"a", "", "é"}, {"b", "ab", "\0", "😀"}]
NUMBERS: list[Any] = [{3, 1, 2}, set(), {-5, 7}, set(range(40))]

CASES += [
    (members_of, (SETS, SETS[::-1], ["a", "b", "é", "ab"])),
    (grown, (NUMBERS, [1, 2, 3, 100])),
    (best_of, (NUMBERS, [1, -1, 2, -3])),
]


# ---- methods made of others, and by character


def in_other_case(s):
    words = [w.title() for w in s.split()], s.swapcase(), s.casefold(), s.capitalize()
    return words, s.isupper(), s.islower(), s.istitle(), s.isidentifier(), s.isascii(), list(map(str.isupper, s))


def into_parts(s, k):
    lines = s.splitlines(), s.splitlines(keepends=True), s.expandtabs(), s.expandtabs(3)
    return lines, s.rsplit(), s.rsplit(None, k), s.rsplit("a", k), sorted(s.split(), key=str.lower), s[::-1]


def within_bounds(s, a, b):
    found = s.find("a", a, b), s.rfind("a", a, b), s.rfind("", a), s.count("ab", a, b), s.count("", a, b)
    return found, s.startswith(("a", ""), a), s.endswith("b", a, b), s[a:b].startswith("b")


def exchanged(s):
    table = str.maketrans("ab", "ba", " ")
    return s.translate(table), s.translate({ord("a"): "xyz", ord("b"): None}), str.join("-", s)


STRANGE = ["ab aB\tx", "", "ǆungla ŉ ﬁ", "ÀÉ ßtraße", "A1 B2\r\nc\n", "__init__ It's", "ªbc ⅰⅠ", "x1²", "\u2028a\x85"]

CASES += [
    (in_other_case, (STRANGE,)),
    (into_parts, (STRANGE, [0, 1, 2, -1, 1, 1, 0, 3, 1])),
    (within_bounds, (["abab", "", "bab", "aabb", "ab"], [0, 1, -2, 5, 2], [4, 0, 9, 3, 1])),
    (exchanged, (STRANGE,)),
]
