"""Mini-batches for the explorer, small and large, and hand-made traces of any shape."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acronumba import Model, model, nn


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray  # [100, 64]
    w: np.ndarray  # [64, 128]
    b: np.ndarray  # [64]
    w_out: np.ndarray  # [3, 64]


def encode(t: Tree, p: Params) -> np.ndarray:
    if t.left is None:
        return p.embed[t.word]
    return np.tanh(p.w @ np.concatenate([encode(t.left, p), encode(t.right, p)]) + p.b)


@model
def classify(t: Tree, *, p: Params) -> np.ndarray:
    return nn.softmax(p.w_out @ encode(t, p))


def params(seed: int = 0) -> Params:
    rng = np.random.default_rng(seed)
    return Params(*(rng.standard_normal(shape, np.float32) / 8 for shape in ((100, 64), (64, 128), (64,), (3, 64))))


def trees(count: int, most: int = 30, seed: int = 0) -> list[Tree]:
    """Return random trees with up to so many leaves."""
    rng = np.random.default_rng(seed)

    def tree(leaves: int) -> Tree:
        if leaves == 1:
            return Tree(word=int(rng.integers(100)))
        left = int(rng.integers(1, leaves))
        return Tree(left=tree(left), right=tree(leaves - left))

    return [tree(int(rng.integers(1, most))) for _ in range(count)]


def step(h: np.ndarray, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.tanh(w @ h + x)


def ping(h: np.ndarray, x: np.ndarray, left: int, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Two functions that call each other as long as a computed value says so."""
    h = step(h, x, w)
    if left == 0 or float(np.sum(h)) > 2.0:
        return h
    return pong(h, x, left - 1, w, v)


def pong(h: np.ndarray, x: np.ndarray, left: int, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    h = step(h, x, v)
    if left == 0 or float(np.max(h)) < 0.1:
        return h
    return ping(h, x, left - 1, w, v) + pong(h * 0.5, x, left - 2 if left > 1 else 0, w, v)


@model
def waits(x: np.ndarray, left: int, *, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    return ping(np.zeros_like(x), x, left, w, v)


def waiting(count: int = 64, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return columns and shared values for `waits`: mutual recursion, waits, fibers."""
    rng = np.random.default_rng(seed)
    xs = rng.standard_normal((count, 8)).astype(np.float32)
    w, v = (rng.standard_normal((8, 8)).astype(np.float32) / 2 for _ in range(2))
    return (xs, [int(n) for n in rng.integers(0, 6, count)]), {"w": w, "v": v}


@model
def either(x: np.ndarray, left: bool) -> np.ndarray:
    if left:
        y = np.tanh(x)
    else:
        y = np.tanh(x)
    return y


@model
def count(xs: list[int]) -> int:
    n = 0
    for x in xs:
        n += x
    return n


HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=document.title='hacked'>"


@model
def hostile(x: np.ndarray) -> np.ndarray:
    if float(np.max(x)) > 1.0:  # </script><script>document.title='hacked'</script>
        raise ValueError("</script><script>document.title='hacked'</script><img src=x onerror=document.title='hacked'>")
    return np.tanh(x)


HOSTILE_SOURCE = """\
from dataclasses import dataclass
import numpy as np
from acronumba import model

IMG = "<img src=x onerror=document.title='hacked'>"

@dataclass
class \ufb01lter_\u2177:  # <!--<script> \u2028 {{CODE}} \\u003c/script>
    x: np.ndarray
    kind: str = "</script><svg onload=document.title='hacked'>"

def \u210celper(t, p):
    '''<!--<script>'''  # \u2028 \u2029 \x0b </ScRiPt > LONG
    if t.kind == "</script><svg onload=document.title='hacked'>":
        return np.tanh(p["</script><img src=x onerror=document.title='hacked'>"] @ t.x)
    return t.x + 1

@model
def \xfcn\xefc\xf8de_\u6a21(t: \ufb01lter_\u2177, *, p: dict[str, np.ndarray]):
    y = \u210celper(t, p)
    if float(y[0]) > 0.5:
        raise ValueError("\\ud800\\u2028<!--<script></script><img src=x onerror=document.title='hacked'>\\x00zzzz")
    return y
"""


def hostile_file(folder: Path) -> Any:
    """Write a model whose file, names, comments and errors hold what a page might take for its own; trace it."""
    path = folder / "a<img src=x onerror=document.title='hacked'>&\u2028\"'`{{DATA}} --> <!--<script>.py"
    source = HOSTILE_SOURCE.replace("LONG", "x<b>" * 20_000).replace("zzzz", "z" * 5000)
    path.write_text(source, encoding="utf-8", newline="")
    spec = importlib.util.spec_from_file_location("hostile_file", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["hostile_file"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = next(found for name, found in vars(module).items() if name.startswith("filter"))
    run = next(found for found in vars(module).values() if isinstance(found, Model))
    instances = [made(np.full(3, k, np.float32)) for k in (-1, 0, 3)]
    return run.trace(instances, p={f"</script>{module.IMG}": np.eye(3, dtype=np.float32)})
