"""Random programs over tries: made in the call in several styles, given as data, searched, walked, counted."""

from __future__ import annotations

import random
from typing import Any

from tests.support.records import form

__all__ = ["form", "program"]


def program(seed: int) -> tuple[str, list[Any], list[Any], list[Any]]:
    """Return the source of a model `run(words, given, key)`, and its columns."""
    rand = random.Random(seed)
    end = rand.choice(('"$"', '"#"', '"end"'))
    value = rand.choice(("True", "word", "len(word)", "1"))
    style = rand.choice(("setdefault", "if", "default", "try"))
    step = {
        "setdefault": ["at = at.setdefault(ch, {})"],
        "if": ["if ch not in at:", "    at[ch] = {}", "at = at[ch]"],
        "default": ["new = {}", "at = at.setdefault(ch, new)"],
        "try": ["try:", "    at = at[ch]", "except KeyError:", "    at[ch] = {}", "    at = at[ch]"],
    }[style]
    count = rand.random() < 0.3
    lines = ["from collections import defaultdict", "", "", "def build(words):", "    root = {}"]
    lines += ["    for word in words:"]
    lines += ["        at = root", "        for ch in word:", *("            " + s for s in step)]
    lines += [
        f"        at[{end}] = at.get({end}, 0) + 1" if count else f"        at[{end}] = {value}",
        "    return root",
    ]
    lines += ["", "", "def find(at, key):", "    for ch in key:"]
    lines += rand.choice((
        ["        if ch not in at:", "            return None", "        at = at[ch]"],
        ["        at = at.get(ch)", "        if at is None:", "            return None"],
    ))  # fmt: skip
    lines += ["    return at", "", "", "def ends(at):", "    n = 0", "    for k, v in at.items():"]
    lines += [f"        n += 1 if k == {end} else ends(v)", "    return n"]
    lines += ["", "", "def words_in(at, prefix, out):", "    for k, v in at.items():", f"        if k == {end}:"]
    lines += [
        "            out.append(prefix)",
        "        else:",
        "            words_in(v, prefix + k, out)",
        "    return out",
    ]
    lines += ["", "", "def depth(at):"]
    lines += [f"    return 1 + max([depth(v) for k, v in at.items() if k != {end}], default=0)", ""]
    lines += ["", "def run(words, given, key):", "    made = build(words)"]
    forms = [
        "ends({t})", "depth({t})", "words_in({t}, '', [])", "len({t})", "list({t})", "key in {t}", "sorted({t})",
        "find({t}, key) is None", "0 if find({t}, key) is None else len(find({t}, key))", "{t}",
    ]  # fmt: skip
    out = [rand.choice(forms).format(t=rand.choice(("made", "made", "given"))) for _ in range(rand.randint(1, 3))]
    if rand.random() < 0.4:
        lines += ["    pairs = defaultdict(lambda: defaultdict(int))", "    for w in words:"]
        lines += ["        for ch in w:", "            pairs[w[0]][ch] += 1"]
        every = "sorted((a, b, n) for a, r in pairs.items() for b, n in r.items())"
        out.append(rand.choice((every, "pairs['a']['b']")))
    if rand.random() < 0.3:
        last = "2" if count else value.replace("word", "key")
        lines += ["    other = build(words[:1])", "    made['zz'] = other", f"    other[{end}] = {last}"]
    lines += [f"    return {', '.join(out)},", ""]
    letters = rand.choice(("ab", "abc", "abcdefgh"))

    def some() -> list[str]:
        return ["".join(rand.choice(letters) for _ in range(rand.randint(1, 5))) for _ in range(rand.randint(0, 5))]

    def data() -> Any:
        root: Any = {}
        for word in some():
            at = root
            for ch in word:
                at = at.setdefault(ch, {})
            at[end[1:-1]] = at.get(end[1:-1], 0) + 1 if count else eval(value, {"word": word, "len": len})
        return root

    count_of = rand.choice((1, 3, 6))
    columns = [some() for _ in range(count_of)], [data() for _ in range(count_of)]
    return "\n".join(lines), *columns, [rand.choice(("a", "ab", "c", "")) for _ in range(count_of)]
