"""Random programs that compute on chosen elements, and their gradients against central differences of the plain call.

Each has a few steps. A step takes numbers `t`, of which some are outside of what a function is defined or smooth for
(0, negative, infinite divisors), and a mask `m` of those that are inside; the function is applied to these alone, in
one of the ways that NumPy has for that. What is outside takes no part, so the gradient is finite and equals the slopes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from acronumba import value_and_grad
from tests.support.modules import import_file

POINT = np.array([0.0, -3.0, 0.4, 1.7, -0.7, 0.9, 2.5, -1.3])
OTHER = np.array([0.0, 1.5, np.inf, 0.0, -2.0, 0.6, 1.1, 3.0])  # a constant: divisors, exponents, angles
INSIDE = {
    "sqrt": "s > 0", "log": "s > 0", "log2": "s > 0", "log10": "s > 0", "log1p": "s > -1", "arccosh": "s > 1",
    "arctanh": "np.abs(s) < 1", "arcsin": "np.abs(s) < 1", "arccos": "np.abs(s) < 1", "reciprocal": "s != 0",
    "cbrt": "s != 0", "exp": "s < 2", "expm1": "s < 2", "tan": "np.abs(s) < 1", "abs": "s != 0", "exp2": "s < 2",
}  # fmt: skip
PAIRS = {
    "divide": "(d != 0) & (np.abs(d) < 9)", "power": "(s > 0) & (np.abs(d) < 9)", "hypot": "(s != 0) & (np.abs(d) < 9)",
    "arctan2": "(s != 0) & (np.abs(d) < 9)", "multiply": "np.abs(d) < 9", "logaddexp": "np.abs(d) < 9",
    "fmod": "(np.abs(d) < 9) & (np.abs(s) < 0.95 * np.abs(d))", "float_power": "(s > 0) & (np.abs(d) < 9)",
}  # fmt: skip
AUGMENTED = {
    "a[m] **= 0.5": "s > 0", "a[m] **= -1.5": "s > 0", "a[m] **= d[0] + 0.5": "s > 0", "a[m] /= d[m]": PAIRS["divide"],
    "a[m] *= d[m]": PAIRS["multiply"], "a[m] **= d[m]": PAIRS["power"], "a[m] += t[m]": "s > 1",
    "a[m] -= 2 * t[0]": "s > 1",
    "a[m] *= t[m]": "s < 1", "a[m] /= t[1] + 1": "s < 1", "a[m] **= np.float64(0.5)": "s > 0", "a[m] %= 0.73": "s > 0",
    "b = np.stack([t, t + 1])\n    b[:, m] **= 0.5\n    a = b[0] * b[1]": "s > 0",
    "b = np.stack([t, t * t])\n    b[1, m] /= t[m]\n    a = b.sum(axis=0)": "s != 0",
    "b = np.stack([t, t * 2], axis=1)\n    b[m] **= np.array([0.5, 1.5])\n    a = b.sum(axis=1)": "s > 0",
    "b = np.stack([t, t], axis=1)\n    b[m, 1] *= 1 / d[m]\n    a = b[:, 1]": PAIRS["divide"],
    "a[np.flatnonzero(m)] **= 0.5": "s > 0",
}  # fmt: skip
REDUCED = {
    "np.sum(np.log(np.abs(t) + 1), where=m)": "s > 0", "np.mean(t * t, where=m | (s >= s[0]))": "s > 0",
    "np.prod(t, where=m)": "s != 0", "np.max(t, where=m, initial=-9)": "s < 1",
    "np.min(t, where=m, initial=9)": "s < 1", "np.std(np.concatenate([t[m], t[:2]]))": "s > 0",
    "np.linalg.norm(np.where(m, t, 0))": "s > 0", "np.linalg.norm(np.stack([t, 0 * t])[:, m], axis=1).sum()": "s > 0",
    "np.hypot(np.where(m, t, 0), np.where(m, 2 * t, 0)).sum()": "s != 0", "np.std(np.where(m, t, 2), axis=0)": "s > 0",
    "np.linalg.norm(0 * t)": "s > 0", "np.std(0 * t)": "s > 0", "np.arctan2(0 * t * t, 0 * t * t).sum()": "s > 0",
}  # fmt: skip


def step(rng: random.Random) -> tuple[str, str]:
    """Return statements that make `a` of `t`, and the mask."""
    kind = rng.randrange(6)
    if kind == 0:
        name = rng.choice(list(INSIDE))
        return f"a = np.{name}(t, out={rng.choice(['t * 1', 'np.zeros_like(t)'])}, where=m)", INSIDE[name]
    if kind == 1:
        name = rng.choice(list(PAIRS))
        first = rng.choice(["t", "t", "1.0"]) if name == "divide" else "t"
        second = "t" if first == "1.0" else "d"
        inside = "s != 0" if second == "t" else PAIRS[name]
        return f"a = np.{name}({first}, {second}, out=t * 1, where=m)", inside
    if kind == 2:
        name = rng.choice(list(INSIDE))
        return f"a[m] = np.{name}(a[m])", INSIDE[name]
    if kind == 3:
        text = rng.choice(list(REDUCED))
        return f"a = {text}", REDUCED[text]
    text = rng.choice(list(AUGMENTED))
    return text, AUGMENTED[text]


def program(number: int) -> str:
    """Return the text of a random program: a loss of `v`; masks are of `w`, which is the same numbers but data."""
    rng = random.Random(number)
    lines = ["import numpy as np", "", "", "def loss(v, w, d):", "    total = 0.0"]
    for _ in range(rng.randint(2, 4)):
        scale, shift = rng.choice(["1", "0.5", "-1"]), rng.choice(["0", "0", "1"])
        text, inside = step(rng)
        lines += [f"    t = v * {scale} + {shift}", f"    s = w * {scale} + {shift}", f"    m = {inside}"]
        if rng.random() < 0.4:
            lines.append(f"    m = m & (w {rng.choice(['<', '>'])} {rng.choice([0.5, 1.0, -1.0, 9.0])})")
        lines += ["    a = t * 1", f"    {text}"]
        lines.append(f"    total = total + np.sum(a * np.{rng.choice(['cos', 'tanh'])}(a))")
    return "\n".join([*lines, "    return total", ""])


def slopes(f: Callable[..., Any], v: Any, *more: Any) -> Any:
    """Return the central differences by each element, of the best of a few steps for each."""
    with np.errstate(all="ignore"):
        return np.array(
            [[(f(v + h, *more) - f(v - h, *more)) / (2 * e) for h in e * np.eye(len(v))] for e in (1e-4, 1e-5, 1e-6)]
        )


def largest_error(number: int, folder: Any, ways: tuple[str, ...] = ("batch", "tape")) -> float:
    """Return how far gradients of a program are from the slopes, relative to the larger of them and 1."""
    path = folder / f"masked_{number}.py"
    path.write_text(program(number), encoding="utf-8")
    f = import_file(path).loss
    grad = value_and_grad(f, wrt="v")
    points = [POINT, POINT[::-1].copy(), np.abs(POINT)]
    given = [points, points, [OTHER, OTHER, OTHER]]
    found = {
        "batch": lambda: grad.batch(*given).grads,
        "tape": lambda: [grad(*instance).grads for instance in zip(*given, strict=True)],
    }
    worst = 0.0
    for way in ways:
        for k, mine in enumerate(found[way]()):
            mine = np.asarray(mine) * (len(points) if way == "batch" else 1)  # of the mean
            wanted = slopes(f, points[k], points[k], OTHER)
            error = np.min(np.abs(mine - wanted) / np.maximum(1, np.abs(wanted)), axis=0)
            worst = max(worst, float(np.max(np.where(np.isnan(error), np.inf, error))))
    return worst
