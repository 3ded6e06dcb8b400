"""Models with regular expressions; `CASES` has each with columns of instances."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

STRINGS = ["12.5 x 7 y", "a 3.", "", "x", "99", "é1.2.3 Ab", "foo = 'bar'\n42"]
NUMBER = re.compile(r"(?P<whole>\d+)(?:\.(?P<rest>\d*))?")
FLAGS = re.IGNORECASE | re.MULTILINE
TOKENS = [("number", re.compile(r"\d+")), ("name", re.compile(r"[^\W\d]\w*")), ("space", re.compile(r"\s+"))]
SPEC = [("NUM", r"\d+(\.\d*)?"), ("ID", r"[A-Za-z]+"), ("SKIP", r"[ \t]+"), ("OTHER", r".")]


def is_number(s):
    m = re.match(r"[A-Z]|\d\Z", s, re.I | re.X)
    return bool(m), m is None, isinstance(m, re.Match), not NUMBER.fullmatch(s)


def of_groups(s):
    m = NUMBER.search(s)
    if m is None:
        return None
    texts = m.group(), m.group(1, "rest"), m[1], m["rest"], m.groups("-"), m.string
    return *texts, m.span(), m.start(2), m.end("whole"), m.lastgroup, m.lastindex


def as_dict(s):
    m = NUMBER.search(s)
    return {} if m is None else m.groupdict("none")


def lists(s):
    return NUMBER.findall(s), re.findall(r"\w+", s), re.findall(r"(\w)\W", s), re.findall("^[A-Z]|x*$", s, FLAGS)


def spans(s):
    return [(m.span(), m.lastgroup) for m in NUMBER.finditer(s, 1)], [m.start() for m in re.finditer("|x", s)]


def parts(s):
    return re.split(r"[ .]", s), re.split(r"([ .])|x", s, maxsplit=2), re.split("", s)


def replaced(s):
    a = (
        re.sub(r"(\d)(\d*)", r"<\2|\g<1>\\>", s),
        NUMBER.sub(lambda m: f"{len(m.group())}{m.group('rest') or '?'}", s, 1),
    )
    return a, re.subn("x*", "-", s), re.sub("X", s, "aXbX")


def tokens(s):
    out = []
    k = 0
    while k < len(s):
        for name, pattern in TOKENS:
            if m := pattern.match(s, k):
                out.append((name, m.group()))
                k = m.end()
                break
        else:
            out.append(("other", s[k]))
            k += 1
    return out


def tokens_at_once(s):
    pattern = "|".join(f"(?P<{name}>{one})" for name, one in SPEC)
    return [(m.lastgroup, m.group()) for m in re.finditer(pattern, s) if m.lastgroup != "SKIP"]


def of_last_group(s):
    return [m.group(m.lastgroup) for m in re.finditer(r"(?P<a>\d)|(?P<b>[a-z])", s)], str(re.search("[\\d'].*", s))


def one_of_two(s):
    p = NUMBER if len(s) > 3 else re.compile("(a)|x")
    m = p.search(s) or re.match(r"(\W)(\w)?", s)
    return m[1] if m else "none"


def fails(s):
    try:
        return re.match(r"\d", s).group()  # type: ignore[union-attr]
    except AttributeError:
        return NUMBER.search(s).group("other") if s else "empty"  # type: ignore[union-attr]


@dataclass
class Rule:
    pattern: re.Pattern[str]
    text: str


def by_rule(rule):
    m = rule.pattern.search(rule.text)
    return -1 if m is None else m.end()


def of_the_data(p, s):
    m = re.search(p, s)
    return None if m is None else (m.span(), m.groups(), m.groupdict(), m.lastgroup, m.lastindex)


def made_in_the_call(p, s):
    try:
        q = re.compile(f"^(?:{p})", FLAGS)
    except re.error:
        return None
    texts = q.split(s), q.sub(lambda m: f"<{m.end()}>", s), q.subn("-", s, 1), [m[0] for m in q.finditer(s)]
    return texts, q.fullmatch(s) is None, q.groups, q.pattern, isinstance(q, re.Pattern), q == re.compile(p)


PATTERNS = ["a|3", r"(?P<n>\d+)(\.)?", "", "(", r"\d", r"(é)?(?P<x>\d)", "^$|o*"]
RULES = [Rule(re.compile("a"), "xa"), Rule(re.compile("b+"), "b"), Rule(re.compile("a"), "x")]
CASES: list[Any] = [
    *((f, (STRINGS,)) for f in (is_number, of_groups, as_dict, lists, spans, parts, replaced, tokens)),
    *((f, (STRINGS,)) for f in (tokens_at_once, of_last_group, one_of_two, fails)),
    (by_rule, (RULES,)),
    (of_the_data, (PATTERNS, STRINGS)),
    (made_in_the_call, (PATTERNS, STRINGS)),
]
