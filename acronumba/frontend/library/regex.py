"""Regular expressions in the compiled language: the functions of `re`, and the methods of patterns and of matches.

A pattern is its code (`ir.patterns`); the host program matches it. Where only run time knows a pattern, it is an object
with its code, which the host program looks up (`runtime.known_patterns`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, ClassVar

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.functions import Partial, Static
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.patterns import PatternValue
from acronumba.frontend.kinds.strings import joined, string
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.decorators import implements, primitive, rejected
from acronumba.ir import nodes as ir
from acronumba.ir.patterns import HEADER, INVALID, LACKING, NotSupported, code_of, names_of
from acronumba.ir.shapes import STANDS_FOR
from acronumba.ir.types import INT, TEXT, ListT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@dataclass(eq=False, repr=False)
class Match:
    """A match: the string, and where the groups begin and end; the last word is the number of the last group."""

    string: str
    marks: list[int]

    names: ClassVar[tuple[str, ...]] = ("",)  # of the groups, group 0 included; "" if a group has none

    def text(self, k):
        """Return the text of a group; "" if it has matched nothing."""
        return self.string[self.marks[2 * k] : self.marks[2 * k + 1]]

    def part(self, group, default):
        k = number_of(self.names, group)
        return self.text(k) if k == 0 or self.marks[2 * k] >= 0 else default

    def group(self, *groups):
        if len(groups) == 0:
            return self.text(0)
        if len(groups) == 1:
            return self.part(groups[0], None)
        return tuple([self.part(group, None) for group in groups])

    def __getitem__(self, group):
        return self.part(group, None)

    def groups(self, default=None):
        return tuple([self.part(k, default) for k, _ in enumerate(self.names)][1:])

    def groupdict(self, default=None):
        return {name: self.part(name, default) for name in self.names if name != ""}

    def start(self, group=0):
        return self.marks[2 * number_of(self.names, group)]

    def end(self, group=0):
        return self.marks[2 * number_of(self.names, group) + 1]

    def span(self, group=0):
        return self.start(group), self.end(group)

    @property
    def lastindex(self):
        k = self.marks[len(self.marks) - 1]
        return None if k == 0 else k

    @property
    def lastgroup(self):
        out = None
        for k, name in enumerate(self.names):
            if name != "" and self.marks[len(self.marks) - 1] == k:
                out = name
        return out

    @property
    def re(self):
        rejected(".re of a match", "the pattern itself")

    @property
    def pos(self):
        rejected(".pos and .endpos of a match", "the numbers themselves")

    endpos = pos

    def expand(self, template):
        rejected(".expand() of a match", "p.sub(template, m.group()), or an f-string")

    def __repr__(self):
        return f"<re.Match object; span={self.span()}, match={repr(self.group())[:50]}>"

    def found(self):
        """Return an element of the result of `findall`."""
        if len(self.names) == 1:
            return self.text(0)
        if len(self.names) == 2:
            return self.text(1)
        return self.groups("")


@dataclass(eq=False, repr=False)
class RunTimeMatch(Match):
    """A match of a pattern that only run time knows."""

    code: str

    @property
    def names(self):
        return group_names(self.code)

    def found(self):
        if len(self.names) > 2:
            raise ValueError("findall() by a pattern of several groups that only run time knows: use finditer()")
        return self.text(len(self.names) - 1)


def number_of(names, group):
    """Return the number of a group, by its number or its name."""
    if group is None:
        raise IndexError("no such group")
    if isinstance(group, str):
        for k, name in enumerate(names):
            if name != "" and name == group:
                return k
        raise IndexError("no such group")
    if group < 0 or group >= len(names):
        raise IndexError("no such group")
    return group


@cache
def class_of(names: tuple[str, ...]) -> type[Match]:
    """Return the class of the matches of patterns with these groups."""
    name = "_".join(("Match", str(len(names) - 1), *filter(None, names)))
    made = type("Match", (Match,), {"names": names, "__module__": __name__, "__qualname__": name})
    STANDS_FOR[made] = re.Match
    return made


# ---- what the compiler does


def _of_pattern(w: Walker, a: Args) -> Val:
    pattern = a["pattern"]
    if not isinstance(pattern, PatternValue):
        word = w.call(w.constant(text_of_code), (pattern,), {})
        return TupleVal((word, Partial(Static(RunTimeMatch), (), ("code",), (word,))))
    try:
        code = code_of(pattern.value)
    except NotSupported as error:
        raise w.reject("ACR117", seen=f"the pattern {pattern.value.pattern!r}: {error}") from None
    return TupleVal((w.constant(code), Static(class_of(names_of(pattern.value)))))


def _found(w: Walker, a: Args) -> Val:
    texts = [w.word(string(w, a[name], "re.match of {}").num) for name in ("code", "string")]
    given = {"first": "pos", "last": "endpos", "how": "how"}
    numbers = [w.word(w.read(w.as_int(host_value(w, a[name], what, index=True)))) for name, what in given.items()]
    out = w.var("marks", ListT(INT))
    w.emit(ir.ListOp(outs=(out,), op="match", width=1, args=(*texts, *numbers), loc=w.loc))
    return w.from_words(ListT(INT), (out,))


def _replacement(w: Walker, a: Args) -> Val:
    pattern, repl, match = a["pattern"], a["repl"], a["match"]
    if repl.is_choosable:
        return w.call(w.constant(text_or_nothing), (w.call(repl, (match,), {}),), {})
    text = w.static(repl)
    if text is NOT_CONST:
        return w.call(w.constant(without_backslash), (repl,), {})
    if not isinstance(pattern, PatternValue):
        if "\\" in text:
            rewrite = "a function of the match: lambda m: m[1] + ..."
            raise w.reject("ACR202", seen=f"the replacement {text!r} with a pattern of run time", rewrite=rewrite)
        return repl
    try:
        found = _parser.parse_template(text, pattern.value)
    except (re.error, IndexError) as error:
        raise w.reject("ACR203", seen=f"the replacement {text!r}: {error}") from None
    if isinstance(found, tuple):  # Python 3.11
        places = dict(found[0])
        found = [places.get(k, v) for k, v in enumerate(found[1])]
    parts: list[Val] = []
    for part in found:
        val = w.constant(part)
        parts.append(val if isinstance(part, str) else w.call(w.constant(Match.text), (match, val), {}))
    return joined(w, parts)


@primitive(rule=_of_pattern)
def code_and_class(pattern):
    """Return the code of a pattern, and the class of its matches."""
    raise NotImplementedError


@primitive(rule=_found)
def found(code, string, first, last, how):
    """Return the marks of a match, see `ir.patterns`; an empty list if there is none."""
    raise NotImplementedError


@primitive(rule=_replacement, whole=True)
def replacement(pattern, repl, match):
    """Return the text that `sub` puts in the place of a match."""
    raise NotImplementedError


def _looked_at(w: Walker, a: Args) -> Val:
    if a["repl"].python_class is str and w.static(a["repl"]) is NOT_CONST:
        w.call(w.constant(without_backslash), (a["repl"],), {})
    return NoneVal()


@primitive(rule=_looked_at, whole=True)
def looked_at(repl):
    """Reject a replacement of run time with a backslash, whether a match is found or not."""
    raise NotImplementedError


@row("pattern flags", re.compile, whole=True)
def _compile(w: Walker, a: Args) -> Val:
    def one(val: Val) -> Val:
        pattern, flags = w.static(val), w.static(a["flags"])
        if pattern is NOT_CONST and flags is not NOT_CONST and val.python_class is str:
            return w.call(w.constant(compiled), (val, w.constant(int(flags))), {})
        if pattern is NOT_CONST or flags is NOT_CONST:
            seen = "flags of a pattern" if pattern is not NOT_CONST else "a pattern"
            rewrite = "put re.compile(p) into the data, or pass p behind the `*`, as a shared value"
            raise w.reject("ACR308", seen=f"{seen} that only run time knows", rewrite=rewrite)
        try:
            return w.constant(re.compile(pattern, flags))
        except (re.error, TypeError, ValueError) as error:
            raise w.reject("ACR203", seen=f"the pattern {pattern!r}: {error}") from None

    return w.each(a["pattern"], one)


# ---- methods of patterns


def match_of(pattern, string, pos, endpos, how):
    code, made = code_and_class(pattern)
    marks = found(code, string, pos, endpos, how)
    return made(string, marks) if len(marks) > 0 else None


def all_of(pattern, string, pos=0, endpos=2**62, most=0):
    """Return all matches that do not overlap; at most so many, if not 0."""
    out = []
    m = match_of(pattern, string, pos, endpos, 1)
    while m is not None and (most == 0 or len(out) < most):
        out.append(m)
        m = match_of(pattern, string, m.end(), endpos, 3 if m.end() == m.start() else 1)
    return out


@implements(re.Pattern.match)
def match_(self, string, pos=0, endpos=2**62):
    return match_of(self, string, pos, endpos, 0)


@implements(re.Pattern.search)
def search(self, string, pos=0, endpos=2**62):
    return match_of(self, string, pos, endpos, 1)


@implements(re.Pattern.fullmatch)
def fullmatch(self, string, pos=0, endpos=2**62):
    return match_of(self, string, pos, endpos, 2)


@implements(re.Pattern.finditer, iterator=True)
def finditer(self, string, pos=0, endpos=2**62):
    return all_of(self, string, pos, endpos)


@implements(re.Pattern.findall)
def findall(self, string, pos=0, endpos=2**62):
    return [m.found() for m in all_of(self, string, pos, endpos)]


@implements(re.Pattern.split)
def split(self, string, maxsplit=0):
    out = []
    start = 0
    for m in all_of(self, string, most=maxsplit):
        out.append(string[start : m.start()])
        out.extend(m.groups())
        start = m.end()
    out.append(string[start:])
    return out


@implements(re.Pattern.sub)
def sub(self, repl, string, count=0):
    return subn(self, repl, string, count)[0]


@implements(re.Pattern.subn)
def subn(self, repl, string, count=0):
    looked_at(repl)
    out = []
    start = 0
    matches = all_of(self, string, most=count)
    for m in matches:
        out.append(string[start : m.start()])
        out.append(replacement(self, repl, m))
        start = m.end()
    out.append(string[start:])
    return "".join(out), len(matches)


def text_or_nothing(text):
    return "" if text is None else text


def without_backslash(repl):
    if "\\" in repl:
        raise ValueError("a replacement with a backslash that only run time knows")
    return repl


# ---- patterns that only run time knows


def _code_at_run_time(w: Walker, a: Args) -> Val:
    text, flags = string(w, a["text"], "re.compile of {}"), w.as_int(host_value(w, a["flags"], "flags", index=True))
    out = w.var("code", TEXT)
    w.emit(ir.ListOp(outs=(out,), op="pattern", width=1, args=(w.word(text.num), w.word(w.read(flags))), loc=w.loc))
    return w.from_words(TEXT, (out,))


@primitive(rule=_code_at_run_time)
def code_of_text(text, flags):
    """Return the code of a pattern, with the names of its groups, or why there is none: see `ir.patterns`."""
    raise NotImplementedError


@dataclass(eq=False, repr=False)
class RunTimePattern:
    """A pattern that only run time knows: its text and its code."""

    pattern: str
    code: str

    match, search, fullmatch, finditer, findall = match_, search, fullmatch, finditer, findall
    split, sub, subn = split, sub, subn

    def __eq__(self, other):
        return isinstance(other, re.Pattern) and self.pattern == other.pattern and self.flags == other.flags

    @property
    def flags(self):
        return ord(self.code[3])

    @property
    def groups(self):
        return len(group_names(self.code)) - 1

    @property
    def groupindex(self):
        return {name: k for k, name in enumerate(group_names(self.code)) if name != ""}


STANDS_FOR[RunTimePattern] = re.Pattern
STANDS_FOR[RunTimeMatch] = re.Match


def compiled(pattern, flags):
    code = code_of_text(pattern, flags)
    reason = code[1:]
    if code[0] == INVALID:
        raise re.error(reason)
    if code[0] == LACKING:
        raise ValueError("a pattern that only run time knows has something that compiled patterns lack")
    return RunTimePattern(pattern, code)


def text_of_code(pattern):
    return pattern.code


def group_names(code):
    """Return the names of all groups, group 0 included; "" for those that have none."""
    first = HEADER + ord(code[4])
    return code[first + 2 : first + 1 + ord(code[first])].split("\0")


# ---- functions of the module


@implements(re.escape)
def escape(pattern):
    return "".join(["\\" + c if c in "()[]{}?*+-|^$\\.&~# \t\n\r\v\f" else c for c in pattern])


@implements(re.match)
def module_match(pattern, string, flags=0):
    return re.compile(pattern, flags).match(string)


@implements(re.search)
def module_search(pattern, string, flags=0):
    return re.compile(pattern, flags).search(string)


@implements(re.fullmatch)
def module_fullmatch(pattern, string, flags=0):
    return re.compile(pattern, flags).fullmatch(string)


@implements(re.finditer, iterator=True)
def module_finditer(pattern, string, flags=0):
    return all_of(re.compile(pattern, flags), string)


@implements(re.findall)
def module_findall(pattern, string, flags=0):
    return re.compile(pattern, flags).findall(string)


@implements(re.split)
def module_split(pattern, string, maxsplit=0, flags=0):
    return re.compile(pattern, flags).split(string, maxsplit)


@implements(re.sub)
def module_sub(pattern, repl, string, count=0, flags=0):
    return re.compile(pattern, flags).sub(repl, string, count)


@implements(re.subn)
def module_subn(pattern, repl, string, count=0, flags=0):
    return re.compile(pattern, flags).subn(repl, string, count)
