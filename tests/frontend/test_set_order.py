"""The order of sets made in the call: that of the plain call in the same process."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from acronumba import AcronumbaError, model, pack
from acronumba.errors import TypeMismatch
from acronumba.frontend import ordered
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere
from tests.support.plain_call import agree, outcomes, plain
from tests.support.set_programs import Program, a_set, elements


def history(ops: list[tuple[int, int, int, Any]], given: set[Any], more: set[Any]) -> Any:
    a, b, c = set(), set(more), given | more
    out = []
    for op, i, j, k in ops:
        x = a if i == 0 else b if i == 1 else c
        y = a if j == 0 else b if j == 1 else c
        if op < 8:
            x.add(k)
        elif op < 11:
            x.discard(k)
        elif op == 11:
            if x:
                out.append(x.pop())
        elif op == 12:
            x |= y
        elif op == 13:
            x &= y
        elif op == 14:
            x -= y
        elif op == 15:
            x ^= y
        elif op == 16:
            a = x & y
        elif op == 17:
            b = x | y
        elif op == 18:
            c = x - y
        elif op == 19:
            a = x ^ y
        elif op == 20:
            b = set(x)
        elif op == 21:
            if i == j:
                x.clear()
        elif op == 22:
            x ^= given
        elif op == 23:
            x -= given
        elif op == 24:
            c = given & more
        elif op == 25:
            b = given - x
        elif op == 26:
            a = x.union(list(y), given)
        elif op == 27:
            b = x.difference(list(y), given)
        elif op == 28:
            c = x.intersection(list(y), more)
        elif op == 29:
            a = x.symmetric_difference(list(y))
        elif op == 30:
            x.update(dict.fromkeys(y, 0))
        elif op == 31:
            c = {v for v in x if v in given}
    return out, list(a), list(b), list(c), a, b


def histories(kind: str, count: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Return random histories, of which some make tables grow many times, and some pack one set twice."""
    r = random.Random(seed)
    out = []
    for n in range(count):
        element = elements(kind, r)
        given = a_set(element, r)
        more = given if n % 10 == 3 else a_set(element, r)
        often = r.choice([8, 32])
        steps = 2000 if n == 0 else r.choice([5, 30, 200])
        ops = [(r.randrange(r.choice([often, 32])), r.randrange(3), r.randrange(3), element()) for _ in range(steps)]
        out.append((ops, given, more))
    return out


@pytest.mark.parametrize("kind", ["huge", "str", pytest.param("tuple", marks=pytest.mark.long)])
def test_the_order_follows_from_all_that_was_done_to_a_set(kind: str) -> None:
    columns = list(zip(*histories(kind, 40), strict=True))
    agree(outcomes(model(history).batch, *columns), plain(history, *columns))


def test_the_interpreter_has_the_order_of_python() -> None:
    columns = list(zip(*histories("int", 20)[1:], strict=True))
    agree(outcomes(model(history)._interpret, *columns), plain(history, *columns))


@pytest.mark.parametrize("seed", one_in(5, one_in(3, range(60), mark="slow")))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    program = Program(seed)
    f = program.function(tmp_path)
    columns = list(zip(*program.data(), strict=True))
    with contextlib.suppress(TypeMismatch):  # elements of several types in a container
        agree(outcomes(model(f).batch, *columns), plain(f, *columns))


@model
def forms(xs: list[str], n: int) -> Any:
    s = set(xs)
    it = [next(iter(s)), max(s, key=len), min(s, key=len)]
    first, *rest = s
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(s, s - {"a"}, strict=False))]
    return (
        it,
        first,
        rest,
        pairs,
        sorted(s, key=len),
        "".join(s),
        tuple(s),
        [*s],
        dict.fromkeys(s, n),
        list(map(len, s)),
    )


def test_all_that_depends_on_the_order() -> None:
    rows = [["a", "bb", "", "ccc", "é", "dd"], ["x"], [str(k) for k in range(30)]]
    same_everywhere(forms, rows, [1, 2, 3])


@dataclass
class Node:
    names: set[int]
    kids: list[Node] = field(default_factory=list)


def gathered(node: Node, seen: set[int]) -> set[int]:
    seen.add(len(seen) * 8)
    out = set(node.names)
    for kid in node.kids:
        out |= gathered(kid, seen)
    return out


@model
def kept(node: Node, n: int) -> Any:
    seen = set()
    all_names = gathered(node, seen)
    bag = [seen, all_names]
    table = {n: all_names - {3}}
    made = Node({n, 15, 7}, [Node(set(seen))])
    some = node.names if n > 1 else made.kids[0].names
    order = [list(s) for s in bag]
    return (
        order,
        list(table[n]),
        list(made.names),
        [x for k in made.kids for x in k.names],
        list(some),
        list(some | seen),
    )


def test_sets_in_containers_objects_and_recursions() -> None:
    leaves = [Node({15, 7, 23}), Node(set()), Node({1, 9, 17, 25})]
    same_everywhere(kept, [Node({8, 0}, leaves), Node({5}, [Node({13, 21}, leaves[:1])]), leaves[2]], [1, 2, 3])


@model
def constants(n: int) -> Any:
    out = [x + 0 for x in {15, 7}] + list({23, 7, 15, 31, 39}) + list({n, 15, 7})
    for x in {"a", "b", "c", "d"}:
        out.append(ord(x))
    return out, list({(1, 2), (3, 4), (-1, 0)}), list({None, "z", "y"})


def test_displays_of_constants() -> None:
    same_everywhere(constants, [7, 8])


@model
def most_frequent(rows: list[list[float | int]]) -> Any:
    last = [row[-1] for row in rows]
    return max(set(last), key=last.count)


def test_elements_that_might_be_floats_are_ints_here() -> None:
    rows = [[[1.5, 2.5, k % 2], [2.5, 3.5, 1], [0.5, 1.5, 1]] for k in range(3)]
    same_everywhere(most_frequent, rows)


@model
def grows(xs: list[int]) -> int:
    s = set(xs)
    for x in s:
        if x > 2:
            s.add(-x)
    return len(s)


@model
def late(xs: list[int], n: int) -> list[int]:
    s = set(xs)
    it = iter(s)
    s.add(n)
    return list(it)


def test_a_set_that_grows_in_a_loop_fails() -> None:
    same_everywhere(grows, [[1, 2], [1, 2, 3], []])
    same_everywhere(late, [[1, 2], [1, 2, 3]], [2, 4])


def test_other_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    @model
    def removes(xs: list[int]) -> int:
        s = set(xs)
        for x in s:
            s.discard(x)
        return len(s)

    @model
    def listed(xs: list[int]) -> list[int]:
        return list(set(xs))

    with pytest.raises(AcronumbaError, match="taken out of a set over which an iterator or loop goes on"):
        removes.batch([[1]])
    monkeypatch.setattr(ordered, "unordered", lambda key: "of this implementation of Python")
    with pytest.raises(AcronumbaError, match="the order of a set of this implementation of Python") as e:
        listed.batch([[1]])
    assert e.value.code == "ACR301" and "sorted(s)" in str(e.value)


_OTHER = """
import pickle, sys
from acronumba import model, pack
from tests.frontend.test_set_order import of_packs
packs, columns = pickle.load(sys.stdin.buffer)
assert list(model(of_packs).batch(*packs)) == [of_packs(*x) for x in zip(*columns)]
assert list(model(of_packs).batch(*columns)) == [of_packs(*x) for x in zip(*columns)]
"""


def of_packs(given: set[str], xs: list[str]) -> Any:
    made = set(xs)
    return list(given), list(given | made), list(made), list(set(given)), list(made - given), list({"q", "w", "e"})


@pytest.mark.long
@pytest.mark.parametrize("seed", [*(pytest.param(s, marks=pytest.mark.slow) for s in "01"), "random"])
def test_the_order_is_that_of_the_process(seed: str, tmp_path: Path) -> None:
    words = [f"{c}{k}" for c in "aé中" for k in range(5)]
    columns: list[list[Any]] = [[set(words[:k]) for k in range(15)], [words[k // 2 :] for k in range(15)]]
    packs = [pack(c) for c in columns]
    got = list(model(of_packs).batch(*packs))
    assert got == [of_packs(*x) for x in zip(*columns, strict=True)]
    env = os.environ | {"PYTHONHASHSEED": seed, "ACRONUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):  # the second time, compiled code is in the cache, of another process
        subprocess.run([sys.executable, "-c", _OTHER], input=pickle.dumps((packs, columns)), env=env, check=True)
