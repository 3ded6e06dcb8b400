"""NamedTuples as keys of dicts and elements of sets: equal to tuples, and themselves when they are read again."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

Edge = namedtuple("Edge", ["head", "tail"])


class Span(NamedTuple):
    label: str
    edge: Edge
    size: int = 1

    def width(self) -> int:
        return self.size + self.edge.tail - self.edge.head


class ByHead(NamedTuple):
    head: int
    tail: int

    def __eq__(self, other: Any) -> bool:
        return bool(self.head == other.head)

    def __hash__(self) -> int:
        return hash(self.head)


def edges(n: int) -> Any:
    found = set()
    for i in range(n):
        found.add(Edge(i % 3, i % 2))
    return found, len(found), Edge(1, 1) in found, (1, 1) in found, (n, 0) in found


def read_again(n: int) -> Any:
    counts = {}
    for i in range(n):
        e = Edge(i % 3, i % 2)
        counts[e] = counts.get(e, 0) + 1
    total, first = 0, []
    for e, k in counts.items():
        total += e.head * 100 + e.tail * 10 + k
        first.append(e)
    return counts, total, first, list(counts), sorted(counts)


def nested(n: int) -> Any:
    spans = {}
    for i in range(n):
        spans[Span("a" if i % 2 else "b", Edge(i % 2, i))] = i
    widths = [s.width() for s in spans]
    return spans, widths, ("a", (1, 1), 1) in spans, spans.get(("b", (0, 0), 1), -1), Span("b", Edge(0, 2), 1) in spans


def found_by_record(n: int) -> Any:
    spans = {(i, i + 1): i for i in range(n)}
    return spans, Edge(1, 2) in spans, spans.get(Edge(2, 3), -1), Edge(1, 3) in spans


def removed(n: int) -> Any:
    left = {Edge(i, 0) for i in range(n)}
    left.discard(Edge(1, 0))
    left.discard((2, 0))
    other = {Edge(0, 0), Edge(9, 9)}
    return left, left | other, left & other, left - other, left == {Edge(0, 0)}, left <= other


def optional(n: int) -> Any:
    d = {}
    d[None] = 0
    for i in range(n):
        d[Edge(i, i)] = i
    return d, (1, 1) in d, None in d


CASES = [edges, read_again, nested, found_by_record, removed, optional]


def shown(value: Any) -> str:
    """Return the text of a value, with the elements of sets in order."""
    if type(value) in (list, tuple):
        return f"{type(value)}{list(map(shown, value))}"
    return str(sorted(map(repr, value))) if isinstance(value, set) else repr(value)


def passed_on(n: int) -> Any:
    return deeper({Edge(n, 0): 1}, n)


def deeper(d: Any, n: int) -> Any:
    if n <= 0:
        return d
    d[Edge(0, n)] = n
    return deeper(d, n - 1)


CASES.append(passed_on)


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_it_is_the_plain_call(f: Any) -> None:
    sizes = [0, 1, 2, 5, 9]
    got, wanted = outcomes(model(f).batch, sizes), plain(f, sizes)
    agree(got, wanted)
    assert shown(got) == shown(wanted)
    assert shown(outcomes(model(f)._interpret, sizes)) == shown(wanted)
    sizes = list(range(60))
    assert shown(outcomes(model(f).batch, sizes)) == shown(plain(f, sizes))  # results are read by columns


def mixed(n: int) -> Any:
    d = {}
    d[Edge(n, n)] = 1
    d[(n, n)] = 2
    return d


def of_another_class(n: int) -> Any:
    return {Edge(n, n), Other(n, n)}


Other = namedtuple("Other", ["head", "tail"])


def by_head(n: int) -> Any:
    d = {}
    d[ByHead(n, 1)] = 1
    d[ByHead(n, 2)] = 2
    return len(d)


@pytest.mark.parametrize("f", [mixed, of_another_class, by_head], ids=lambda f: f.__name__)
def test_what_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR309"):
        model(f).batch([1, 2])
