"""What a long-lived process holds: memory, memory maps, open files, and the cache on disk, over many calls.

    python benchmarks/steady.py [--calls 2000] [--models 200] [--shapes 0]

Models are made, called with mini-batches of varying sizes and lengths, and dropped; a few live as long as the process.
With `--shapes N`, a shared array has another shape at each of N more calls, which compiles anew. One line is printed
for each tenth of the calls. What is flat does not grow from line to line.
"""

from __future__ import annotations

import argparse
import gc
import linecache
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TEXT = """
from dataclasses import dataclass
import numpy as np
from acronumba import model, nn

@dataclass
class Tree{k}:
    x: np.ndarray
    left: "Tree{k} | None" = None
    right: "Tree{k} | None" = None

def join{k}(a, b, w):
    return np.tanh(w @ np.concatenate([a, b])) + {k} / 1000

@model
def tree{k}(t: Tree{k}, *, w):
    if t.left is None:
        return np.tanh(t.x)
    return join{k}(tree{k}(t.left, w=w), tree{k}(t.right, w=w), w)

@model
def loop{k}(xs: list, *, w):
    h = np.zeros(len(w), np.float32)
    for x in xs:
        h = nn.sigmoid(w @ np.concatenate([x, h]) + {k}.0)
    return h
"""


def made(k: int) -> dict[str, Any]:
    """Return what a cell of a notebook defines: two models, with classes and helpers of their own."""
    space: dict[str, Any] = {"__name__": __name__}
    text, file = TEXT.format(k=k), f"<cell {k}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), space)
    sys.modules[__name__].__dict__[f"Tree{k}"] = space[f"Tree{k}"]  # annotations are looked up in the module
    return space


def forget(k: int) -> None:
    """Drop what `made` has made."""
    del sys.modules[__name__].__dict__[f"Tree{k}"]
    del linecache.cache[f"<cell {k}>"]


def instances(space: dict[str, Any], k: int, rng: np.random.Generator) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each model with a mini-batch for it."""
    width = 8

    def vector() -> Any:
        return rng.standard_normal(width).astype(np.float32)

    def tree(depth: int) -> Any:
        cls = space[f"Tree{k}"]
        if not depth or rng.random() < 0.2:
            return cls(vector())
        return cls(vector(), tree(depth - 1), tree(depth - 1))

    n = int(rng.integers(1, 20))
    yield space[f"tree{k}"], [tree(int(rng.integers(1, 5))) for _ in range(n)]
    yield space[f"loop{k}"], [[vector() for _ in range(int(rng.integers(1, 30)))] for _ in range(n)]


def held() -> dict[str, float]:
    """Return what the process and the cache hold."""
    from acronumba.emit import cache

    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    kept = cache.entries()
    return {
        "MB": int(status["VmRSS"].split()[0]) / 1024,
        "maps": len(Path("/proc/self/maps").read_text().splitlines()),
        "files": len(os.listdir("/proc/self/fd")),
        "cache MB": sum(kept.values()) / 2**20,
        "folders": len(kept),
    }


def run(calls: int, models: int, shapes: int = 0, lines: int = 10) -> Iterator[dict[str, float]]:
    """Make the calls; yield what is held after each tenth of them."""
    from acronumba import model

    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 16)).astype(np.float32)
    lasting = made(0)
    each = max(1, calls // models)  # calls of a model
    current = None
    number = 0
    for call in range(calls):
        if call % each == 0 and number < models:
            if current is not None:
                forget(number)
            number += 1
            current = made(number)
        assert current is not None
        for space, k in ((current, number), (lasting, 0)):
            for f, batch in instances(space, k, rng):
                results = f.batch(batch, w=w)
                one = int(rng.integers(len(batch)))
                if call % 10 == 0:
                    assert np.allclose(results[one], f(batch[one], w=w), atol=1e-5)
        if (call + 1) % max(1, calls // lines) == 0:
            yield {"calls": call + 1, "models": 2 * number, **held()}

    @model
    def shaped(x: Any, *, w: Any) -> Any:
        return np.tanh(w @ x)

    for k in range(1, shapes + 1):
        w = rng.standard_normal((k, 4)).astype(np.float32)
        x = rng.standard_normal(4).astype(np.float32)
        assert np.allclose(shaped.batch([x], w=w)[0], shaped(x, w=w), atol=1e-5)
        if k % max(1, shapes // lines) == 0:
            yield {"calls": calls + k, "models": 2 * number + 1, **held()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--shapes", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    for line in run(args.calls, args.models, args.shapes):
        text = "  ".join(f"{name} {value:,.{'1f' if 'MB' in name else '0f'}}" for name, value in line.items())
        print(f"{text}  seconds {time.perf_counter() - start:,.0f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ACRONUMBA_CACHE_DIR", f"{folder}/cache")
        main()
