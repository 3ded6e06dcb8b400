"""Arrays made in the call may be written to: item, slice, mask and index assignment, views and other names.

Each model of `models_of_written_arrays` is compared with its plain call: interpreted, as machine code, and on the
simulator of a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from acronumba.api.model import Model
from tests.support import generate
from tests.support.chosen import by_ways, one_in
from tests.support.models_of_kept_arrays import CASES as KEPT
from tests.support.models_of_written_arrays import CASES
from tests.support.modules import import_file
from tests.support.plain_call import WAYS


def load(folder: Path, name: str, text: str) -> Any:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return import_file(path)


def columns(count: int, seed: int = 0) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    lengths = [k % 5 for k in range(count)]
    return [
        [rng.normal(size=(n, 4)) for n in lengths],
        [rng.normal(size=4) for _ in lengths],
        [rng.integers(0, 4, size=3) for _ in lengths],
        [int(k % 4) for k in range(count)],
        [[int(v) for v in rng.integers(0, 9, size=(n * 2) % 5)] for n in lengths],
    ]


def runs() -> list[Any]:
    """Return each model with each engine; most of the compiled ones and the simulator's only with `--slow`."""
    interpreted, compiled, simulated = (
        one_in(n, [(f, engine) for f in CASES], [f"{engine}-{f.__name__}" for f in CASES], mark)
        for engine, n, mark in (("interpreter", 1, "long"), ("compiled", 4, "slow"), ("simulator", 6, "slow"))
    )
    return interpreted + one_in(2, compiled) + one_in(4, simulated)


@pytest.mark.parametrize(("f", "engine"), runs())
def test_what_is_written_is_the_plain_calls(f: Model, engine: str) -> None:
    if engine == "simulator":
        f = f.on("simulator")
    found = generate.compare(f, columns(9 if engine != "simulator" else 4), {}, compiled=engine != "interpreter")
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(("way", "f", "data"), by_ways(KEPT, [f.__name__ for f, _ in KEPT], compiled=8, simulated=4))
def test_what_lies_in_containers_is_the_plain_calls(way: str, f: Any, data: Any) -> None:
    WAYS[way](f, *data)


def test_the_example_of_the_language_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    section = page[page.index("### Arrays that are written to") :]
    text = section[section.index("```python\n") + 10 : section.index("```\n\n")]
    module = load(tmp_path, "page", "import numpy as np\nfrom acronumba import model\n\n" + text)
    words = [[1, 2, 3, 4], [1, 3, 4], [], [2]]
    wanted = [module.edit_distance(a, b) for a, b in zip(words, words[::-1], strict=True)]
    assert list(module.edit_distance.batch(words, words[::-1])) == wanted == [3.0, 3.0, 3.0, 3.0]


REJECTED = {
    "x[0] = 1.0": "ACR111 | x[0] | x = x.copy()",
    "y = x.reshape(2, 2)\n    y[0] = 1.0": "ACR111 | y[0] | y = y.copy()",
    "for row in [x, x]:\n        row[0] = 1.0": "ACR111 | row[0] | x = x.copy(), before `row`",
    "G[0] = 1.0": "ACR111 | G[0] | own = G.copy()",
    "h = np.zeros(4)\n    f = h.reshape(-1)\n    h[0] = 1.0\n    return f": "ACR112 | f = h.reshape(-1) | .copy()",
    "h = np.zeros((2, 2))\n    f = h.reshape(-1)\n    f[0] = 1.0\n    return h": "ACR111 | f[0] | `h = f.reshape(",
    "h = np.zeros((2, 2))\n    h.reshape(-1)[0] = 1.0\n    return h": "ACR111 | h.reshape(-1)[0] | by an index",
    "h = x * 1\n    for t in (0, 1):\n        f = h.ravel()\n        h[t] = 0\n    return f": "ACR112 | f = h.ravel()",
    "h = x if x[0] > 0 else np.zeros(4)\n    h[0] = 1.0\n    return h": "ACR111 | h[0] | .copy()",
    "h = np.zeros(4, int)\n    h += 0.5\n    return h": "ACR112 | h += 0.5 | int64[4] would become float64[4]",
    "h = np.zeros(4)\n    h += np.ones((3, 4))\n    return h": "ACR112 | h += np.ones((3, 4)) | float64[3, 4]",
}


@pytest.mark.parametrize("body", REJECTED, ids=lambda body: body.replace("\n", " ")[:40])
def test_rejected_where_it_could_differ(body: str, tmp_path: Path) -> None:
    text = f"import numpy as np\nfrom acronumba import model\n\nG = np.ones(4)\n\n@model\ndef f(x):\n    {body}\n"
    module = load(tmp_path, f"rejected_{abs(hash(body))}", text)
    with pytest.raises(AcronumbaError) as rejected:
        module.f._interpret([np.ones(4), np.zeros(4)])
    code, *parts = REJECTED[body].split(" | ")
    assert rejected.value.code == code, rejected.value
    assert all(part in str(rejected.value) for part in parts), rejected.value


VIEWS = {  # writes by a view of an array that has another name, and what both names see when the rewrite is followed
    "y = x.reshape(2, 2)\n    y[0] = 1.0": "y = x.reshape(2, 2).copy()\n    y[0] = 1.0\n    x = y.reshape(x.shape)",
    "y = x.reshape(2, 2)\n    y *= 2": "y = x.reshape(2, 2).copy()\n    y *= 2\n    x = y.reshape(x.shape)",
    "y = x[1:3]\n    y[0] = 1.0": "x = x.copy()\n    y = x[1:3]\n    y[0] = 1.0",
    "y = x[::-1]\n    y += 1": "x = x.copy()\n    y = x[::-1]\n    y += 1",
    "x = x * 2\n    x[1] = 3\n    y = x.reshape(2, 2)\n    y[0] = 1.0": (
        "x = x * 2\n    x[1] = 3\n    y = x.reshape(2, 2).copy()\n    y[0] = 1.0\n    x = y.reshape(x.shape)"
    ),
}


@pytest.mark.parametrize("body", VIEWS, ids=lambda body: body.replace("\n", " ")[:40])
def test_the_rewrite_of_a_write_by_a_view_means_the_same(body: str, tmp_path: Path) -> None:
    head = "import numpy as np\nfrom acronumba import model\n\n@model\ndef f(x):\n    "
    before = load(tmp_path, f"by_a_view_{abs(hash(body))}", f"{head}{body}\n    return x, y\n").f
    after = load(tmp_path, f"rewritten_{abs(hash(body))}", f"{head}{VIEWS[body]}\n    return x, y\n").f
    with pytest.raises(AcronumbaError) as rejected:
        before.batch([np.ones(4)])
    rewrite = "`x = y.reshape(x.shape)`" if "reshape" in body else "x = x.copy(), before `y`"
    assert rewrite in str(rejected.value)
    for got, wanted in zip(
        after.batch([np.ones(4), np.arange(4.0)]), map(before, [np.ones(4), np.arange(4.0)]), strict=True
    ):
        assert all(map(np.array_equal, got, wanted))


def _tiled(x: Any, n: int, *, weight: Any) -> Any:
    y, z, same = np.tile(x, n), np.tile(weight, (n, 1)), np.tile(weight, 1)
    y[0], z[0], same[1] = 7, 8, 9
    return y, z, same, x, weight


def test_what_is_tiled_is_a_copy() -> None:
    xs, weight = [np.arange(k) + 1.0 for k in (1, 3)], np.ones(2)
    wanted = [_tiled(x, n, weight=weight) for x, n in zip(xs, (1, 2), strict=True)]
    outs = model(_tiled).batch(xs, [1, 2], weight=weight)
    for want, got in zip(wanted, outs, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(want, got, strict=True))


def test_a_failure_leaves_the_others_alone() -> None:
    f = next(f for f in CASES if f.__name__ == "out_of_range")
    with pytest.raises(InstanceErrors) as failed:
        f.batch(*columns(9))
    wrong = {k for k, (n, at) in enumerate(zip(columns(9)[4], columns(9)[3], strict=True)) if at >= len(n)}
    assert set(failed.value.errors) == wrong
    assert all(isinstance(e, IndexError) for e in failed.value.errors.values())
