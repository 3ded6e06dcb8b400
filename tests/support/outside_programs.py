"""Small programs of the language, of every kind, that `outside` changes until they are outside of it.

Each is the text of a module with a function `main`; `DATA` makes the columns and the shared values of its instances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HEAD = """\
import dataclasses
import enum
import functools
import itertools
import math
import operator
from collections import Counter, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import numpy as np

"""

PROGRAMS = {
    "arrays": """
def scale(x, k=2):
    return x * k - x.mean()


def main(x, n, *, w):
    y = np.tanh(x @ w)
    if y.sum() > 0.5:
        y = scale(y, n)
    for i in range(n):
        y = y + x[i % 3] * 0.5
    z = np.zeros((n + 1, 4))
    z[:n] += y
    z[z > 0.1] *= 2
    return y, z[-1], x[1:, None].shape
""",
    "lists": """
def keep(xs, least):
    return [x for x in xs if x > least]


def main(xs, name):
    total = 0.0
    seen = []
    for k, x in enumerate(sorted(xs)):
        if k == 3:
            break
        if x < 0:
            continue
        seen.append(x * k)
        total += x
    else:
        total -= 1.0
    big = keep(xs, total)
    while len(seen) > 2:
        total += seen.pop()
    first, *rest = xs or [0.0]
    return total, big, seen[::-1], f"{name}!", len(rest), max(xs, default=0.0)
""",
    "trees": """
@dataclass
class Tree:
    x: float
    kids: list["Tree"]
    name: str = "n"

    def size(self):
        return 1 + sum(k.size() for k in self.kids)


def depth(t):
    return 1 + max((depth(k) for k in t.kids), default=0)


def main(t, limit):
    best = t
    todo = [t]
    while todo:
        node = todo.pop()
        if node.x > best.x and node.name != "skip":
            best = node
        todo.extend(node.kids)
    return depth(t), t.size(), best.x if best.x > limit else None


def make(d, k=0):
    return Tree(0.5 * d + k, [make(d - 1, j) for j in range(d % 3)] if d else [], "skip" if d == 2 else "n")
""",
    "dicts": """
def count(words):
    found = {}
    for w in words:
        found[w] = found.get(w, 0) + 1
    return found


def main(words, d, *, table):
    c = count(words)
    known = {w for w in words if w in table}
    total = 0
    for w, n in c.items():
        total += n * table.get(w, len(w))
    d2 = {**d, "z": total}
    groups = defaultdict(list)
    for w in words:
        groups[len(w)].append(w)
    return total, sorted(known), d2, len(groups), " ".join(words).upper()
""",
    "objects": """
class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Stack:
    def __init__(self, first):
        self.items = [first]
        self.count = 1

    def push(self, x):
        self.items.append(x)
        self.count += 1
        return self

    def __len__(self):
        return self.count


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    @property
    def norm(self):
        return math.sqrt(self.x**2 + self.y**2)


def main(a, color, n):
    s = Stack(a)
    p = Point(a, 1.0)
    for k in range(n):
        s.push(a * k).push(1.0)
        p = p + Point(1.0)
    match color:
        case Color.RED:
            p = dataclasses.replace(p, x=0.0)
        case Color.BLUE if n > 1:
            return len(s), p.norm, -1.0
    return len(s), p.norm, s.items[-1]
""",
    "tuples": """
Pair = namedtuple("Pair", "a b")


def swap(p):
    return Pair(p.b, p.a)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def main(p, n):
    q = swap(Pair(*p))
    a, (b, c) = q.a, (n, fib(n))
    t = (a, b) + (c,)
    g = lambda v, k=1: v + k
    total = sum(g(v) for v in t)
    pairs = list(zip(t, t[1:]))
    return total, pairs[0], t < (0, 1, 2), divmod(b, 3), all(v >= 0 for v in t)
""",
    "texts": """
VOWELS = "aeiou"


def vowels(s):
    return sum(1 for c in s if c in VOWELS)


def main(s, sep):
    parts = s.split(sep)
    out = []
    for part in parts:
        if not part:
            continue
        if part.isdigit() or part[0] == "a":
            out.append(part[::-1])
        else:
            out.append(part.strip().lower())
    return sep.join(out), vowels(s), s.find(sep), ord(s[0]) if s else 0, s.startswith("a")
""",
    "rnn": """
def step(x, h, *, p):
    z = 1 / (1 + np.exp(-(x @ p["wx"] + h @ p["wh"])))
    return z * h + (1 - z) * np.tanh(x @ p["wx"])


def main(xs, *, p):
    h = np.zeros(4)
    hs = []
    for x in xs:
        h = step(x, h, p=p)
        hs.append(h)
    s = np.stack(hs)
    a = np.exp(s @ h)
    a = a / a.sum()
    return np.argmax(a), (a[:, None] * s).sum(0), np.concatenate([h, s[0]])
""",
    "yields": """
def walk(xs):
    for x in xs:
        if x > 0:
            yield x
            yield -x


def compose(f, g):
    def both(v):
        return f(g(v))

    return both


def main(xs, k):
    both = compose(lambda v: v + k, abs)
    count = 0

    def note(v):
        nonlocal count
        count += 1
        return both(v)

    out = [note(v) for v in walk(xs)]
    q = deque(out)
    if q:
        q.rotate(1) if k > 100 else q.appendleft(0.5)
    return out, count, list(q), functools.reduce(lambda a, b: a * b, out, 1.0)
""",
    "numpy": """
def norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def main(x, idx):
    y = norm(x)
    m = np.where(y > 0, y, 0.1 * y)
    i = np.argsort(-m[0])
    c = np.cumsum(m, axis=1)
    e = np.einsum("ij,kj->ik", m, m)
    o = np.ones_like(m)
    o[idx % 2] = m[0]
    o[:, 1:3] -= 1
    v = np.clip(e, -1, 1).astype(np.float32)
    if np.any(v > 0.9) and idx > 0:
        return m[:, i], c.T, v.max(), o
    return m, c.T, v.min(axis=(0, 1)), o.copy()
""",
}


def _data() -> dict[str, tuple[Callable[[Any], list[Any]], Callable[[], dict[str, Any]]]]:
    rng = np.random.default_rng(3)
    w = rng.standard_normal((4, 4))
    arrays = [rng.standard_normal((3, 4)) for _ in range(3)]
    return {
        "arrays": (lambda m: [arrays, [1, 3, 2]], lambda: {"w": w}),
        "lists": (lambda m: [[[1.0, -2.0, 3.0, 0.5], [2.0], []], ["a", "bc", ""]], dict),
        "trees": (lambda m: [[m.make(0), m.make(3), m.make(4)], [0.5, 1.0, 9.0]], dict),
        "dicts": (
            lambda m: [[["a", "bb", "a"], [], ["ccc"]], [{"x": 1, "z": 2}, {"x": 3, "z": 0}, {"x": 0, "z": 0}]],
            lambda: {"table": {"a": 3, "bb": 1}},
        ),
        "objects": (lambda m: [[1.0, 2.0, -1.0], [m.Color.RED, m.Color.BLUE, m.Color.BLUE], [0, 1, 3]], dict),
        "tuples": (lambda m: [[(1, 2), (3, 4), (0, 0)], [0, 5, 8]], dict),
        "texts": (lambda m: [["a,B c,12", "", "xyz"], [",", " ", "y"]], dict),
        "rnn": (
            lambda m: [[[arrays[0][0]], list(arrays[1]), list(arrays[2])]],
            lambda: {"p": {"wx": w, "wh": w.T.copy()}},
        ),
        "yields": (lambda m: [[[1.0, -1.0], [], [2.0, 3.0]], [1, 2, 3]], dict),
        "numpy": (lambda m: [[arrays[0], arrays[1], np.ones((2, 4))], [0, 1, 2]], dict),
    }


DATA = _data()
