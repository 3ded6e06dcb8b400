"""Regular expressions are those of `re`: the machine by itself, and models with them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from acronumba import model
from acronumba.errors import InstanceErrors, Unsupported
from acronumba.ir.patterns import FULL, MATCH, SEARCH, NotSupported, code_of, marks_of
from tests.support.chosen import by_ways
from tests.support.models_of_regex import CASES, NUMBER, STRINGS
from tests.support.patterns import Machine, check, is_pattern, random_patterns
from tests.support.plain_call import WAYS

# Pattern, flags, strings.
# fmt: off
TABLE: list[tuple[str, int, list[str]]] = [
    ("", 0, ["", "a"]), ("abc", 0, ["abc", "xabcy", "ab"]), ("ab*bc", 0, ["abc", "abbbbc", "abq"]),
    ("ab{0,}bc", 0, ["abbbbc"]), ("ab{1,3}bc", 0, ["abbbbc", "abbbbbc"]), ("^abc$", 0, ["abc", "aabc", "abc\n"]),
    ("a.*c", 0, ["axyzd", "axyzc", "a\nc"]), ("a[b-d]e", 0, ["abd", "ace"]), ("a[-b]", 0, ["a-"]), ("a]", 0, ["a]"]),
    ("a[^]b]c", 0, ["a]c", "adc"]), (r"\ba\b", 0, ["a-", "-a", "xa"]), (r"\By\b", 0, ["xy", "y"]), ("$b", 0, ["b"]),
    ("((a))", 0, ["abc"]), ("(a+|b)*", 0, ["ab", ""]), ("(a+|b){0,}?c", 0, ["abc"]), ("([abc])*d", 0, ["abbbcd"]),
    ("([abc])*bcd", 0, ["abcd"]), ("(ab|a)b?", 0, ["ab"]), ("((a)(b)c)(d)", 0, ["abcd"]),
    ("(bc+d$|ef*g.|h?i(j|k))", 0, ["effgz", "ij", "effg"]), ("(((((((((a)))))))))", 0, ["a"]),
    ("multiple words", 0, ["multiple words, yeah"]), (r"(.*)c(.*)", 0, ["abcde"]), (r"\((.*), (.*)\)", 0, ["(a, b)"]),
    ("a(bc)d", 0, ["abcd"]), ("a[-]?c", 0, ["ac"]), (r"(abc)\1", 0, ["abcabc"]), (r"([a-c]*)\1", 0, ["abcabc"]),
    (r"(([a-c])b*?\2)*", 0, ["ababbbcbc"]), (r"(([a-c])b*?\2){3}", 0, ["ababbbcbc"]), (r"(a)|\1", 0, ["x", "a"]),
    (r"(?:(a)|b)\1?", 0, ["ba", "aa"]), ("(a)(?:b)*", 0, ["abb"]), ("(?:(a)|b)*", 0, ["ab"]),
    ("(?:(a)|(b))*", 0, ["ab", "ba"]), ("(a*)*", 0, ["b", "aa"]), ("(a*)+", 0, ["b"]), ("(?:a*)*?b", 0, ["aab"]),
    ("(|a)+", 0, ["aa"]), ("(a|ab)(c|bcd)(d*)", 0, ["abcd"]), ("(?=a)ab", 0, ["ab"]),
    ("(?=(a+))a*b\\1", 0, ["baaabac"]), ("a(?!b).", 0, ["abad"]), ("(?<=a)b", 0, ["ab", "b"]),
    ("(?<!c)b", 0, ["ab", "cb", "b"]), ("(?<=^)a|(?<=ab)c", 0, ["a", "abc"]), (r"(?<!\bab)c", 0, ["abc xabc"]),
    ("(?>a+)ab", 0, ["aaab"]), ("a++ab", 0, ["aaab"]), ("(?:ab)?+c", 0, ["abc"]),
    ("(a)?(?(1)b|c)", 0, ["ab", "c", "a"]), ("(?P<x>a)(?P=x)", 0, ["aa"]), ("(?P<q>['\"]).*?(?P=q)", 0, ["'a\"' b'"]),
    ("(?i:a)b", 0, ["Ab", "AB"]), ("(?-i:a)b", re.I, ["aB", "AB"]), ("straße", re.I, ["STRAßE", "STRASSE"]),
    ("k", re.I, ["K", "k"]), ("[^k]", re.I, ["K", "x"]), ("ſ", re.I, ["s", "S"]), ("[a-z]+", re.I, ["ſK"]),
    ("σ", re.I, ["Σ", "ς"]), ("İ", re.I, ["i", "İ"]), (r"\w+", 0, ["é_1-", "٣"]), (r"\w+", re.A, ["é_1-"]),
    (r"\d", 0, ["٣", "²"]), (r"\s+", 0, ["\x1c\u3000\u200b"]), (r"\bé", re.A, ["aé"]), ("^a$", re.M, ["b\na\nc"]),
    ("(?m)^", 0, ["a\nb\n"]), ("a$", 0, ["a\n", "a\n\n"]), (r"a\Z", 0, ["a\n", "a"]), ("a.b", re.S, ["a\nb"]),
    ("a # c\n b", re.X, ["ab"]), ("(?s:.)b|.c", 0, ["\nb", "\nc"]), ("a{,2}b", 0, ["aaab"]),
    ("(?:a{2}){3}", 0, ["a" * 7]), ("x{3,}?", 0, ["xxxxx"]), ("[\\U0001F600-\\U0001F64F]+", 0, ["a😀😁b"]),
    ("[^\\W\\d_]", 0, ["1_é"]), ("(?!)", 0, ["a"]), ("(?:)", 0, [""]), ("[\ud800-\udfff]", 0, ["\udc00"]),
    (".*?,(.*)", 0, ["a,b,c"]),
]
# fmt: on


def test_the_machine_does_what_re_does() -> None:
    machine = Machine()
    for source, flags, strings in TABLE:
        code = code_of(re.compile(source, flags))
        for text in strings:
            for how in (MATCH, SEARCH, FULL):
                assert machine.marks(code, text, 0, 2**62, how) == marks_of(code, text, 0, 2**62, how), (source, text)
    assert check(machine, 7, 60) > 60


def test_the_machine_stops() -> None:
    machine = Machine()
    catastrophic = code_of(re.compile("(a+)+$"))
    assert machine.marks(catastrophic, "a" * 30 + "b", 0, 2**62, MATCH) is None
    assert machine.marks(code_of(re.compile("(?:ab|b)*c")), "ab" * 10**4, 0, 2**62, MATCH, 10**9) is None  # of memory
    for source in ("(?i)(a)\\1", "(?:(a)b)*+"):
        with pytest.raises(NotSupported):
            code_of(re.compile(source))


@pytest.mark.parametrize(
    ("way", "f", "columns"), by_ways(CASES, [f.__name__ for f, _ in CASES], compiled=6, simulated=12)
)
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def test_a_long_match_takes_memory_and_steps() -> None:
    def f(s):
        return len(re.match("(?:ab|b)*", s).group()), re.match(r"(?:\w\w)*c", s) is None  # type: ignore[union-attr]

    long = "ab" * 30_000
    assert list(model(f).batch([long, "c", long + "c"])) == [f(s) for s in (long, "c", long + "c")]
    with pytest.raises(InstanceErrors) as caught:
        model(f).with_options(max_steps=10_000).batch(["ab", long])
    assert list(caught.value.errors) == [1] and "max_steps" in str(caught.value.errors[1])


def test_random_patterns_of_run_time() -> None:
    def f(p, s):
        m = re.search(p, s)
        return None if m is None else (m.span(), m.groups(), m.groupdict())

    texts = [(p, s) for p, s in random_patterns(3, 400)]
    with pytest.raises(InstanceErrors) as caught:
        model(f).batch(*zip(*texts, strict=True))
    out, errors = caught.value.results, caught.value.errors
    for k, (p, s) in enumerate(texts):
        if k in errors:
            assert "compiled patterns lack" in str(errors[k]) or not is_pattern(p), (p, s, errors[k])
        else:
            assert out[k] == f(p, s), (p, s)
    assert len(errors) < 100


def found_or_not(p: str):
    try:
        return re.search(p, "a") is not None
    except re.error:
        return "no pattern"


def test_limits_of_patterns_that_only_run_time_knows_are_no_errors_of_re():
    nested = "(" * 3000 + "a" + ")" * 3000
    with pytest.raises(InstanceErrors) as caught:
        model(found_or_not).batch(["a{99999999999}", nested, "(", "a"])
    assert list(caught.value.errors) == [0, 1] and caught.value.results[2:] == ["no pattern", True]


def returned(s):
    return NUMBER.match(s)


def of_flags(s, n):
    return re.match("a", s, n) is None


def with_backslash(s, p):
    return re.sub(p, r"<\g<0>>", s)


def pattern_returned(s, p):
    return re.compile(p)


def of_bytes(s):
    return re.match(b"a", s) is None


def wrong(s):
    return re.match("(a", s) is None


def end_of_a_string(s):
    return NUMBER.match(s, 0, s) is None


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (returned, "a match of `re` in the result"),
        (of_flags, "flags of a pattern that only run time knows"),
        (with_backslash, "with a pattern of run time"),
        (pattern_returned, "a pattern of `re` in the result"),
        (of_bytes, "the pattern b'a': bytes"),
        (wrong, "missing ), unterminated subpattern"),
        (end_of_a_string, "endpos of str"),
    ],
)
def test_what_is_rejected(f: Any, text: str) -> None:
    others = [2] * len(STRINGS) if f is of_flags else STRINGS
    columns = (STRINGS, others)[: f.__code__.co_argcount]
    with pytest.raises((Unsupported, TypeError), match=re.escape(text)):
        model(f).batch(*columns)
