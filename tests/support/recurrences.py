"""Random programs of recurrences, whose nodes are equal to others in part, and instances for them.

Loops over words carry one state or two, feed each other, keep their states and read them again, stop early, skip
steps, fail, wait for values, and are nested. Many words are the same, and some share a place in the memo of equal
nodes. Instances have common beginnings.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from acronumba import InstanceErrors, model

HEAD = """
import numpy as np

def cell(p, x, h):
    return np.tanh(p["w"] @ h + x)

def both(p, k, h, c):
    c = c * 0.5 + np.tanh(p["u"] @ p["embed"][k])
    return np.tanh(p["w"] @ h + c), c

def down(p, n, h):
    if n <= 0:
        return h
    return np.tanh(p["u"] @ down(p, n - 1, h))

"""

STEPS = (
    'h = np.tanh(p["w"] @ h + p["embed"][k])',
    'h = cell(p, p["embed"][k], h)',
    'h = np.tanh(p["u"] @ h)',
    "h, s = both(p, k, h, s)",
    's = s + h * p["embed"][k]',
    'x = np.tanh(p["w"] @ p["embed"][k])',
    "h = h + x",
    'h = h + p["embed"][k] * float(k)',
    "h = h * float(n)",
    "seen.append(h)",
    "seen.append(s)",
    "s = np.tanh(s + h)",
    "h, s = s, h",
    "n = n + k",
    "h = down(p, k % 3, h)",
)
BLOCKS = (
    ("if k == 3:", ("break",)),
    ("if k % 4 == 1:", ("continue",)),
    ("if k == 7 and n > 4:", ('raise ValueError(f"seven after {n}")',)),
    ("for e in seen[-6:]:", ("s = np.tanh(s + e * h)",)),
    ("for e in seen:", ("s = s + e * x",)),
    ("if len(seen) > 2:", ('s = s + np.tanh(p["w"] @ seen[k % len(seen)])',)),
    ("for j in range(k % 4):", ('h = np.tanh(p["w"] @ h + p["embed"][j])', "n = n + 1")),
    ("while n > 0 and n % 5:", ("n = n - 1", 's = np.tanh(p["u"] @ s)')),
    ("if k % 2:", ("h = h + s",)),
)
WAITS = ("if float(h[0]) > 0.3:", ("h = h - s",))
ENDS = (
    "return h, s",
    "return seen, h",
    'return [np.tanh(p["w"] @ e) for e in seen], s',
    "return h, n",
    "return sum([(e * e).sum() for e in seen], (h * s).sum())",
)
ROWS = 4096 + 8  # words 4096 apart share a place in the memo


def program(seed: int) -> str:
    """Return the text of a function f(words, *, p)."""
    r = random.Random(seed)
    blocks = BLOCKS + ((WAITS,) if r.random() < 0.2 else ())

    def body(indent: str, depth: int) -> list[str]:
        lines = []
        for _ in range(r.randint(1, 4)):
            if depth < 2 and r.random() < 0.3:
                first, inner = r.choice(blocks)
                lines += [indent + first, *(f"{indent}    {line}" for line in inner)]
            elif depth == 0 and r.random() < 0.15:
                lines += [f"{indent}for k in words[: k % 5]:", *body(indent + "    ", 1)]
            else:
                lines.append(indent + r.choice(STEPS))
        return lines

    lines = ["def f(words, *, p):", '    h = x = p["embed"][0]', '    s = p["embed"][1]', "    n = 0", "    seen = []"]
    for _ in range(r.randint(1, 3)):
        lines += [f"    for k in {r.choice(['words', 'words', 'words[::-1]'])}:", *body("        ", 0)]
    return HEAD + "\n".join([*lines, f"    {r.choice(ENDS)}", ""])


def instances(seed: int, count: int) -> list[list[int]]:
    """Return lists of words, some of them twice, some with a common beginning, some empty."""
    r = random.Random(seed)
    words = [*range(8), 4096, 4097, 4103]
    out: list[list[int]] = []
    for _ in range(count):
        word = [r.choice(words) for _ in range(r.choice([0, 1, 3, 6, 12]))]
        out.append([*r.choice(out)[: r.randint(0, 9)], *word] if out and r.random() < 0.5 else word)
    return [*out, *out[: count // 3]]


def params(seed: int = 0) -> dict[str, Any]:
    """Return the shared arrays."""
    rng = np.random.default_rng(seed)
    return {
        "embed": (rng.standard_normal((ROWS, 4)) * 0.3).astype(np.float32),
        "w": rng.standard_normal((4, 4)).astype(np.float32),
        "u": rng.standard_normal((4, 4)).astype(np.float32),
    }


def model_of(seed: int) -> Any:
    """Return the model of a program."""
    text, file = program(seed), f"<recurrence {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return model(space["f"])


def outcomes(f: Any, xs: list[list[int]], p: dict[str, Any]) -> tuple[dict[int, Any], dict[int, str]]:
    """Return types and bits of the results of a mini-batch, and its errors, by instance."""
    errors: dict[int, str] = {}
    try:
        results = f.batch(xs, p=p)
    except InstanceErrors as caught:
        results, errors = caught.results, {k: str(e) for k, e in caught.errors.items()}
    return {k: [*_parts(results[k])] for k in range(len(xs)) if k not in errors}, errors


def _parts(value: Any) -> Iterator[Any]:
    yield type(value)
    if isinstance(value, list | tuple):
        for x in value:
            yield from _parts(x)
    else:
        yield np.asarray(value).dtype, np.shape(value), np.asarray(value).tobytes()
