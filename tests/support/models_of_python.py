"""Python itself: numbers, control flow, calls, results of many shapes, failures."""

# ruff: noqa: C416, RUF005, RUF015, RUF059 -- models in the styles that people write

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from acronumba import nn
from tests.support.model_cases import H, case, weights

INTS = [7, -7, 3, 0, 12]
DIVISORS = [2, 2, -2, 5, -5]
FLOATS = [0.5, -1.25, 3.0, 1e-3, 40.0]
SCALE = 3
TABLE = weights(4, H)
NAMES = ("zero", "one", "many")


class Mode(Enum):
    MEAN = 0
    MAX = 1
    LAST = 2


@case(INTS, DIVISORS)
def integer_arithmetic(a, b):
    return (
        a // b,
        a % b,
        divmod(a, b),
        a / b,
        -a // b,
        a**2 - b**3,
        abs(a) ** 0.5,
        a << 2,
        a >> 1,
        a & b,
        a | b,
        a ^ b,
        ~a,
    )


@case(INTS, DIVISORS)
def chained(a, b):
    return -5 < a <= 7, a < b < 10, a != b == b, 0 <= a % b < abs(b), not a, a == 7 or b == -5


@case(INTS, DIVISORS)
def and_or_values(a, b):
    return a and b, a or b, a and b and a + b, (a - 7 or b - 2) or 99, not a or b > 0


@case(FLOATS, INTS)
def float_arithmetic(x, n):
    y = x**2 + math.sqrt(abs(x)) - n
    return y, x // 1, x % 3, -x % 3, round(y), int(y), math.floor(y), math.ceil(y), float(n), max(x, n), min(x, 2.0, y)


@case(FLOATS)
def math_functions(x):
    return (
        math.exp(-x),
        math.log(abs(x)),
        math.sin(x) + math.cos(x),
        math.tanh(x),
        math.atan2(x, 2),
        math.hypot(x, 1),
        math.pi * x,
    )


@case(FLOATS)
def float_loop(x):
    n, t = 0, 1.0
    while t > 1e-3 and n < 40:
        t *= 0.5 if x > 0 else 0.25
        n += 1
        if n % 13 == 12:
            break
    return n, t


@case(INTS)
def collatz(n):
    n, steps = abs(n) + 1, 0
    while True:
        if n == 1:
            return steps
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1


@case(INTS)
def walrus(n):
    total = 0
    while (m := n - total) > 2:
        total += 1 + m // 3
    if (k := total * 2) > 4:
        return k, m
    return total, k


@case([[1, 2, 3], [4, 5, 6, 7], [8, 9, 10]])
def stars(xs):
    first, *rest = (xs[0], xs[1], xs[2])
    *init, last = [*rest, first, len(xs)]
    a, (b, c) = first, (last, init)
    return a, b, c, [*xs, *rest], (*rest, 1)


@case([[3, 1, 2], [5], [2, 2, 9, 1]])
def builtins_on_lists(xs):
    return (
        sum(xs), min(xs), max(xs), sorted(xs), sorted(xs, reverse=True), any(x > 2 for x in xs), all(x > 0 for x in xs),
        len(xs), list(reversed(xs)), sum(x * x for x in xs if x != 2), max(xs, key=lambda x: -x), min(xs, default=0),
        [i for i, x in enumerate(xs) if x > 1], tuple(xs[:1] + [0])[0] if False else xs[0],
    )  # fmt: skip


@case([[3, 1, 2], [5], [2, 2, 9, 1], []])
def list_methods(xs):
    ys = list(xs)
    ys.append(10)
    ys.extend(x + 1 for x in xs)
    ys.insert(1, -1)
    last = ys.pop()
    ys += [last, last]
    zs = ys
    zs[0] = 100
    zs.sort()
    return ys, zs[-1], ys[1:-1], ys[::-1], ys[-2:], len(zs), last in (1, 2, 3)


@case([[3, 1, 2], [5], [2, 2, 9, 1]])
def nested_lists(xs):
    grid = [[x * y for y in xs] for x in xs]
    for row in grid:
        row.append(sum(row))
    diagonal = [grid[i][i] for i in range(len(xs))]
    flat = [v for row in grid for v in row if v % 2]
    return grid, diagonal, flat


@case([weights(H) for _ in range(3)], INTS[:3])
def lambdas_in_a_list(x, n):
    layers = [lambda v: np.tanh(v), lambda v: v * 2, lambda v, k=3: v + k, nn.relu]
    for f in layers:
        x = f(x)
    pick = (lambda a: a + 1) if n > 0 else (lambda a: a - 1)
    return x, pick(n)


@case([weights(H) for _ in range(3)])
def composed(x):
    def compose(*fs):
        def run(v):
            for f in fs:
                v = f(v)
            return v

        return run

    def scaled(by):
        return lambda v: v * by

    return compose(np.tanh, scaled(3.0), lambda v: v - TABLE[1])(x)


@case([weights(H) for _ in range(3)])
def helper_with_args(x):
    def mix(*parts, weight=0.5, bias=None, **options):
        out = parts[0] * weight
        for q in parts[1:]:
            out = out + q
        if bias is not None:
            out = out + bias
        return out * options.get("gain", 1.0)

    return mix(x), mix(x, x, x, weight=2.0), mix(x, bias=TABLE[0], gain=4.0), mix(*[x, x], weight=1.5)


@dataclass
class Linear:
    w: np.ndarray
    b: np.ndarray | None = None

    def __call__(self, x):
        y = self.w @ x
        return y if self.b is None else y + self.b


@dataclass
class Mlp:
    layers: list[Linear]
    mode: str = "tanh"
    dropout: float = 0.0

    def __call__(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x)
            if k < len(self.layers) - 1:
                x = self.activate(x)
        return x

    def activate(self, x):
        if self.mode == "tanh":
            return np.tanh(x)
        elif self.mode == "relu":
            return nn.relu(x)
        raise ValueError(self.mode)


MLP = Mlp([Linear(weights(H, H), weights(H)), Linear(weights(3, H))], "relu")


@case([weights(H) for _ in range(3)], net=MLP)
def callable_layers(x, *, net):
    return net(x)


@case([weights(H) for _ in range(3)], net=MLP, mode=Mode.MAX)
def enum_option(x, *, net, mode=Mode.MEAN):
    ys = [layer(x) for layer in net.layers[:1]] + [x]
    match mode:
        case Mode.MEAN:
            return sum(ys) / len(ys)
        case Mode.MAX:
            return np.maximum(*ys)
        case Mode.LAST:
            return ys[-1]


@case(INTS, net=MLP)
def optional_result(n, *, net):
    if n < 0:
        return None
    if n == 0:
        return net.layers[0].b, n
    return net.layers[0].b


@case(INTS)
def results_of_many_kinds(n):
    if n > 10:
        return {"kind": NAMES[2], "n": n}
    if n > 5:
        return [n, n + 1]
    if n > 0:
        return float(n)
    return "none"


@dataclass
class Beam:
    score: float
    tokens: list[int]
    state: np.ndarray


@case(INTS[:3], [weights(H) for _ in range(3)])
def dataclass_result(n, x):
    best = Beam(0.0, [], x)
    for k in range(abs(n)):
        new = replace(best, score=best.score - k * 0.5, tokens=best.tokens + [k])
        if new.score > -4:
            best = new
    return best


@case(INTS, [weights(H) for _ in range(5)])
def dict_state(n, x):
    state = {"h": x, "steps": 0}
    for _ in range(abs(n) % 4):
        state = {"h": np.tanh(state["h"] * SCALE), "steps": state["steps"] + 1}
    return {"final": state["h"], "steps": state["steps"]} if False else state


@case([weights(n, 3) for n in (1, 2, 4)])
def runtime_extents(x):
    n, m = x.shape
    y = np.concatenate([x, np.ones((n, 1), np.float32)], axis=1)
    z = y.T @ y
    return y, z.shape, np.arange(n * 2), x.reshape(-1), x[::-1], x.size, x[n - 1, -1], np.eye(n)[0], n + m


@case([np.float64(v) for v in FLOATS], [np.arange(4, dtype=np.int64) * k for k in range(5)])
def float64_and_ints(x, ids):
    y = np.exp(-np.abs(x)) * ids
    return (
        y,
        ids + 1,
        ids / 2,
        ids // 3,
        (ids % 3 == 0),
        ids.sum(),
        y.mean(),
        np.where(ids > 2, ids, -ids),
        ids.astype(np.float32),
    )


@case([np.float32(v) for v in FLOATS], INTS)
def scalars_promote(x, n):
    return (
        x + 1,
        x * 2.5,
        x + np.float64(1),
        x * n,
        -x,
        x > 0,
        np.maximum(x, 0),
        x**2,
        np.float32(n) * x,
        n + np.int64(3),
    )


@case([weights(H) for _ in range(4)], [0, 3, -1, 7])
def failing(x, i):
    if i == 7:
        raise KeyError("seven")
    return x[[10, 20, 30, 40][i] // 10] / 1


@case([4, 0, 2, -1])
def failing_arithmetic(n):
    assert n != 2, "two"
    if n < 0:
        return math.sqrt(n)
    return 10 // n


@case([[1, 2], [], [3]])
def failing_lists(xs):
    return xs[0] + max(xs) + xs[len(xs) - 1]


@case([2**40, 3, -(2**50)])
def growing(n):
    if n > 2**50:
        return n * 4
    return n + n


@case(INTS, FLOATS)
def defaults_left_out(n, x, scale=2.0, offset=(1, 2), flag=True):
    a, b = offset
    return n * scale + x * a - b if flag else 0.0


@case(INTS)
def shadowing(n):
    x = n
    ys = [x for x in range(3)]
    f = lambda x: x + n
    for x in ys:
        n += f(x)
    del_ = x
    return x, n, ys, del_


@case([[5, 3], [2], [9, 9, 1]])
def loop_variable_after(xs):
    best = None
    for i, x in enumerate(xs):
        if best is None or x > xs[best]:
            best = i
    return best, i, x


@case([[1.5, 2.5], [0.25], []])
def empty_accumulators(xs):
    total, seen, first = 0, [], None
    for x in xs:
        total = total + x
        seen = seen + [x]
        first = x if first is None else first
    return total, seen, first


@case([(1, 2.0, True), (0, -1.0, False)])
def tuple_parameter(t):
    n, x, flag = t
    m = t[0] + len(t)
    return (t[-1], m, x) if flag else t[:2]


@case([{"x": weights(H), "n": 3}, {"x": weights(H), "n": 0}])
def dict_parameter(d):
    total = d["x"]
    for _ in range(d["n"]):
        total = total + d["x"]
    return {"out": total, "keys": len(d), "names": list(d)[0] == "x"}


@case(INTS)
def nested_loops_with_labels(n):
    found = None
    for i in range(1, 20):
        for j in range(i, 20):
            if i * j == abs(n) * 2:
                found = (i, j)
                break
        else_ = j
        if found:
            break
    return found, else_


@case(INTS)
def accumulate_down(n):
    def fib(n, a=0, b=1):
        return a if n == 0 else fib(n - 1, b, a + b)

    def power(x, n):
        if n == 0:
            return 1
        half = power(x, n // 2)
        return half * half * (x if n % 2 else 1)

    return fib(abs(n)), power(3, abs(n))


@case([[3, 1, 2], [5, 4], [1]])
def bubble(xs):
    ys = xs[:]
    for i in range(len(ys)):
        for j in range(len(ys) - 1 - i):
            if ys[j] > ys[j + 1]:
                ys[j], ys[j + 1] = ys[j + 1], ys[j]
    return ys


@case([(3, 4), (1, 1), (0, 2)])
def string_constants(shape):
    a, b = shape
    kind = "wide" if a < b else "tall" if a > b else "square"
    if kind == "square":
        return 0
    return 1 if kind.startswith("w") else 2


@case(INTS, DIVISORS)
def number_theory(a, b):
    n = abs(a)
    return (
        math.gcd(a, b), math.gcd(a), math.gcd(a, b, 6), math.lcm(a, b), math.factorial(n), math.isqrt(n * n + 2 * n),
        math.comb(n, abs(b)), math.perm(n, abs(b)), math.degrees(a), math.radians(b), math.isclose(a, a + 1e-12),
        math.isclose(a, b, rel_tol=0.5), math.isclose(0.0, 1e-9 * a, abs_tol=5e-9),
    )  # fmt: skip


@case([3, -1, 20, 0])
def factorials(n):
    return math.factorial(n), math.isqrt(n)
