"""Functions of many nests are cut into pieces: what they compute stays, and equal pieces are one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.emit import compile, interpret, outline, parse, text
from acronumba.emit.tree import Module

N = 5
COUNT = outline.MOST + 3


def module(nests: str) -> Module:
    """Return a function that runs nests over rows."""
    body = "".join("\n" + "".join(f"        {line}\n" for line in nest.splitlines()) for nest in nests.split("---\n"))
    source = f'def work(P: i64, n: i64):\n    """Many nests."""\n    for row in range(n):\n{body}'
    return Module("many", tuple(parse.parse(source)), ("work",))


def nest(k: int, more: str = "") -> str:
    return f"""# sum {k}
base_{k} = P + {k} * 8
for i_{k} in range(n):
    for j_{k} in range(n):
        st(base_{k}, 0, ld(base_{k}, 0) + i_{k} * j_{k} + row)
{more}"""


def results(m: Module) -> Any:
    data = np.arange(COUNT + 1)
    other = data.copy()
    interpret.run(m, "work", [other.ctypes.data, N], interpret.InterpreterMemory(other))
    (compiled,) = compile.load([m])
    compiled.call("work", data.ctypes.data, N)
    np.testing.assert_array_equal(data, other)
    return data


def test_equal_nests_are_one_function() -> None:
    whole = module("---\n".join(map(nest, range(COUNT))))
    pieces = outline.outlined(whole)
    assert [f.name for f in pieces.functions] == ["work_nest", "work"]
    assert text.module_text(pieces).count("work_nest(") == 1 + COUNT
    np.testing.assert_array_equal(results(whole), results(pieces))


def test_small_functions_stay_whole() -> None:
    whole = module("---\n".join(map(nest, range(4))))
    assert outline.outlined(whole).functions == whole.functions


@pytest.mark.parametrize(
    "more",
    ["st(P, 0, ld(P, 0) + i_3)\n", "last_3 = row\nfor z in range(n):\n    last_3 = last_3 + z\nst(P, 0, last_3)\n"],
    ids=["the_last_index", "a_sum"],
)
def test_what_is_read_behind_a_nest_stays_with_it(more: str) -> None:
    whole = module("---\n".join(nest(k, more if k == 3 else "") for k in range(COUNT)))
    np.testing.assert_array_equal(results(whole), results(outline.outlined(whole)))


def heads(q: Any, k: Any, v: Any, count: int) -> Any:
    parts = zip(np.split(q, count, -1), np.split(k, count, -1), np.split(v, count, -1), strict=True)
    out = []
    for a, b, c in parts:
        e = np.exp(a @ b.T - np.max(a @ b.T, axis=-1, keepdims=True))
        out.append(e / np.sum(e, axis=-1, keepdims=True) @ c)
    return np.hstack(out)


@model
def attention(x, *, w, count):
    y = x @ w
    n = x.shape[1]
    return heads(y[:, :n], y[:, n : 2 * n], y[:, 2 * n :], count)


def test_the_heads_of_attention_are_the_same_code() -> None:
    r = np.random.default_rng(0)
    xs, w = [r.standard_normal((n, 24)) for n in (1, 3, 6)], r.standard_normal((24, 72))
    for got, x in zip(attention.batch(xs, w=w, count=12), xs, strict=True):
        np.testing.assert_allclose(got, attention(x, w=w, count=12), rtol=1e-9)

    def functions(count: int) -> int:
        stages = attention.stages(xs, w=w, count=count)
        return max(str(stages[name]).count("\ndef ") for name in stages if name.endswith("/cpu"))

    assert functions(12) <= 40
