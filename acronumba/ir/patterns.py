"""Regular expressions as strings: the code of a small backtracking machine, which `host.patterns` runs.

In: a pattern of `re`, as Python's own parser reads it. Out: a string, so that a pattern is a word like any other string
of the program. Its characters are numbers:

    start, marks, registers, flags, length, source...   of the pattern itself, which `ir.interpret` gives to `re`
    length, names of its groups...                      of patterns that only run time knows, each behind a zero
    instructions and tables

A table is a set of characters: a bit for each of ASCII, and in order the places where it begins or ceases to have those
above. It is what `re` itself finds for the one character, so that classes, negation and case are Python's.

Registers are the marks (where each group begins and ends, and the last group that ended), two for each loop (turns
taken, where the last one began), and two for each part matched as a whole (height of the stack, where it began).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import TypeAlias

from acronumba.ir.ops import LAST_CHARACTER

HEADER = 5  # numbers before the source
Parsed: TypeAlias = _parser.SubPattern  # or a part of it
MOST = LAST_CHARACTER  # "any number of times"
ASCII = 128
BITS = 16  # of a word of the table for ASCII

# fmt: off
OPS = ("END", "CHAR", "SET", "RUN", "TRY", "JUMP", "MARK", "AT", "SAME", "KNOWN", "ENTER", "LOOP", "LAZY", "MORE",
       "FAIL", "BACK", "HOLD", "CUT", "DENY")
# fmt: on
NUMBER = {name: k for k, name in enumerate(OPS)}
PLACES = ("AT_BEGINNING", "AT_BEGINNING_LINE", "AT_END", "AT_END_LINE", "AT_END_STRING", "AT_BOUNDARY",
          "AT_NON_BOUNDARY")  # fmt: skip
MATCH, SEARCH, FULL, ADVANCE = range(4)  # how to match; ADVANCE: search for what is not empty where it begins


class NotSupported(Exception):
    """A pattern has something that the machine lacks."""


@cache
def code_of(pattern: re.Pattern[str], named: bool = False) -> str:
    """Return the code of a pattern, with the names of its groups if `named`; raise `NotSupported`."""
    if not isinstance(pattern.pattern, str):
        raise NotSupported("bytes")
    return "".join(map(chr, _Coder(pattern, names_of(pattern) if named else ()).out))


def names_of(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return the names of the groups of a pattern, group 0 included; "" if a group has none."""
    names = {k: name for name, k in pattern.groupindex.items()}
    return tuple(names.get(k, "") for k in range(pattern.groups + 1))


INVALID, LACKING = "\0", "\1"  # what begins the text of the reason, in place of a code


def code_at_run_time(text: str, flags: int) -> str:
    """Return the code of a pattern that only run time knows, or why there is none."""
    try:
        return code_of(re.compile(text, flags), named=True)
    except (NotSupported, ValueError, OverflowError, RecursionError) as error:
        return f"{LACKING}{error}"
    except re.error as error:
        return f"{INVALID}{error}"


def pattern_of(code: str) -> re.Pattern[str]:
    """Return the pattern of its code."""
    length = ord(code[4])
    return re.compile(code[HEADER : HEADER + length], ord(code[3]))


def marks_of(code: str, text: str, first: int, last: int, how: int) -> list[int]:
    """Return the marks of the groups of a match, and the last group; [] if there is none. That is Python's own."""
    pattern = pattern_of(code)
    first, last = (min(max(k, 0), len(text)) for k in (first, last))
    if how in (SEARCH, ADVANCE):
        matches = pattern.finditer(text, first, last)
        found = next(matches, None)
        if how == ADVANCE and found is not None and found.end() == first:
            found = next(matches, None)
    else:
        found = (pattern.match if how == MATCH else pattern.fullmatch)(text, first, last) if first <= last else None
    return [] if found is None else [x for s in found.regs for x in s] + [found.lastindex or 0]


class _Coder:
    """Writes the code of a pattern."""

    def __init__(self, pattern: re.Pattern[str], names: Sequence[str]) -> None:
        self.registers = 2 * pattern.groups + 3
        source = list(map(ord, pattern.pattern))
        self.out = [0, self.registers, 0, pattern.flags & ~re.DEBUG, len(source), *source]
        if names:
            known = list(map(ord, "".join(f"\0{name}" for name in names)))
            self.out += (len(known), *known)
        self.out[0] = len(self.out)
        self.tables: list[tuple[int, tuple[int, ...]]] = []  # where the place of a table is to be written
        self.all(_parser.parse(pattern.pattern, pattern.flags), pattern.flags)
        self.put("END")
        places: dict[tuple[int, ...], int] = {}
        for at, table in self.tables:
            if table not in places:
                places[table] = len(self.out)
                self.out += table
            self.out[at] = places[table]
        self.out[2] = self.registers

    def put(self, op: str, *args: int) -> int:
        """Add an instruction; return where it is."""
        self.out += (NUMBER[op], *args)
        return len(self.out) - 1 - len(args)

    def here(self, at: int, arg: int = 1) -> None:
        """Let an instruction lead to the next one."""
        self.out[at + arg] = len(self.out)

    def table(self, at: int, ends: Sequence[int]) -> None:
        """Let the first argument of an instruction be a set of characters."""
        bits, above = [0] * (ASCII // BITS), list[int]()
        for low, high in zip(ends[::2], ends[1::2], strict=True):
            for c in range(low, min(high, ASCII)):
                bits[c // BITS] |= 1 << c % BITS
            if high > ASCII:
                above += (max(low, ASCII), high)
        above = above[:-1] if above[-1:] == [LAST_CHARACTER + 1] else above
        self.tables.append((at + 1, (*bits, len(above), *above)))

    def held(self) -> int:
        """Return the first of two new registers."""
        self.registers += 2
        return self.registers - 2

    def all(self, items: Parsed, flags: int) -> None:
        for op, av in items:
            self.item(str(op), av, flags)

    def item(self, op: str, av: Parsed, flags: int) -> None:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                if (ends := ends_of(op, av, flags))[1:] == (ends[:1] and (ends[0] + 1,)):
                    self.put("CHAR", ends[0])
                else:
                    self.table(self.put("SET", 0), ends)
            case "BRANCH":
                self.branches(av[1], flags)
            case "SUBPATTERN":
                group, add, remove, inner = av
                kinds = int(re.ASCII | re.LOCALE | re.UNICODE)
                new = ((flags & ~kinds if add & kinds else flags) | add) & ~remove
                if group is not None:
                    self.put("MARK", 2 * group)
                self.all(inner, new)
                if group is not None:
                    self.put("MARK", 2 * group + 1)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                self.repeat(op, av, flags)
            case "AT":
                self.place(str(av), flags)
            case "ASSERT" | "ASSERT_NOT":
                self.look(op, av, flags)
            case "ATOMIC_GROUP":
                self.whole(lambda: self.all(av, flags))
            case "GROUPREF" if not flags & re.IGNORECASE:
                self.put("SAME", av)
            case "GROUPREF_EXISTS":
                group, yes, no = av
                known = self.put("KNOWN", group, 0)
                self.all(yes, flags)
                end = self.put("JUMP", 0)
                self.here(known, 2)
                self.all(no or (), flags)
                self.here(end)
            case "FAILURE":
                self.put("FAIL")
            case _:
                raise NotSupported("a reference to a group that ignores case" if op == "GROUPREF" else op)

    def branches(self, ways: Sequence[Parsed], flags: int) -> None:
        ends = []
        for way in ways[:-1]:
            other = self.put("TRY", 0)
            self.all(way, flags)
            ends.append(self.put("JUMP", 0))
            self.here(other)
        self.all(ways[-1], flags)
        for end in ends:
            self.here(end)

    def repeat(self, op: str, av: Parsed, flags: int) -> None:
        low, high, inner = av
        high = MOST if high is _constants.MAXREPEAT else high
        if low >= MOST or high > MOST:
            raise NotSupported("a repetition of so many times")
        single = len(inner) == 1 and str(inner[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN")
        if op == "POSSESSIVE_REPEAT" and single:
            self.whole(lambda: self.repeat("MAX_REPEAT", av, flags))
        elif op == "POSSESSIVE_REPEAT":
            if re.search(r"SUBPATTERN, \(\d", repr(inner)):
                raise NotSupported("a possessive repetition with a group in it")  # of which `re` confuses the marks
            each = [(_constants.ATOMIC_GROUP, inner)]
            self.whole(lambda: self.repeat("MAX_REPEAT", (low, high, each), flags))
        elif single and op == "MAX_REPEAT":
            self.table(self.put("RUN", 0, low, high), ends_of(str(inner[0][0]), inner[0][1], flags))
        else:
            turns = self.held()
            self.put("ENTER", turns)
            test = self.put("JUMP", 0)
            body = len(self.out)
            if op == "MIN_REPEAT":
                body = self.put("MORE", turns, low, high, 0) + 5
                self.out[body - 1] = body
            self.all(inner, flags)
            self.here(test)
            self.put("LAZY" if op == "MIN_REPEAT" else "LOOP", turns, low, high, body)

    def place(self, name: str, flags: int) -> None:
        if name == "AT_BEGINNING_STRING":
            name = "AT_BEGINNING"
        elif flags & re.MULTILINE:
            name = {"AT_BEGINNING": "AT_BEGINNING_LINE", "AT_END": "AT_END_LINE"}.get(name, name)
        empty = name == "AT_NON_BOUNDARY" and re.match(r"\B", "") is not None
        at = self.put("AT", 0, PLACES.index(name), int(empty))
        if "BOUNDARY" in name:
            self.table(at, ends_of("IN", [(_constants.CATEGORY, _constants.CATEGORY_WORD)], flags))

    def whole(self, inner: Callable[[], None]) -> None:
        """Add what is matched in one way only."""
        hold = self.held()
        self.put("HOLD", hold)
        inner()
        self.put("CUT", hold, 0)

    def look(self, op: str, av: Parsed, flags: int) -> None:
        direction, inner = av
        hold = self.held()
        self.put("HOLD", hold)
        other = self.put("TRY", 0) if op == "ASSERT_NOT" else -1
        if direction < 0:
            self.put("BACK", inner.getwidth()[0])
        self.all(inner, flags)
        if op == "ASSERT":
            self.put("CUT", hold, 1)
        else:
            self.put("DENY", hold)
            self.here(other)


_FOUND: dict[tuple[str, int], tuple[int, ...]] = {}


def ends_of(op: str, av: Parsed, flags: int) -> tuple[int, ...]:
    """Return the characters that an item of one character matches: where each range of them begins and ends."""
    flags &= int(re.IGNORECASE | re.ASCII | re.UNICODE | re.DOTALL)
    if op == "LITERAL" and not flags & re.IGNORECASE:
        return av, av + 1
    key = repr((op, av)), flags
    if key not in _FOUND:
        state = _parser.State()
        item = _parser.SubPattern(state, [(getattr(_constants, op), av)])
        run = _parser.SubPattern(state, [(_constants.MAX_REPEAT, (1, _constants.MAXREPEAT, item))])
        state.str = ""
        found = _compiler.compile(run, flags).finditer(_characters())
        _FOUND[key] = tuple(end for m in found for end in m.span())
    return _FOUND[key]


@cache
def _characters() -> str:
    return "".join(map(chr, range(LAST_CHARACTER + 1)))
