"""Models that write into arrays, as NumPy's users do.

Each takes `x: float64[n, 4]`, `v: float64[4]`, `i: int64[3]` (indices of four elements), `k: int` in 0..3 and a list
of ints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model
from acronumba.api.model import Model

CASES: list[Model] = []


def case(f: Any) -> Model:
    out = model(f)
    CASES.append(out)
    return out


@case
def rows_in_a_loop(x, v, i, k, xs):
    out = np.zeros((len(x), 4))
    h = v
    for t in range(len(x)):
        h = np.maximum(h * 0.5, x[t])
        out[t] = h
    return out, out[:2], out[-1] if len(x) else None


@case
def rows_outside_a_loop(x, v, i, k, xs):
    out = np.zeros((3, 4))
    out[0] = v
    out[-1] = out[0] * 2
    return out


@case
def elements(x, v, i, k, xs):
    out = np.zeros((len(xs), 4))
    for a in range(len(xs)):
        for b in range(4):
            out[a, b] = v[b] * xs[a]
    return out, out.T, out[:, 1], out.sum(axis=0)


@case
def one_index_after_the_other(x, v, i, k, xs):
    out = np.zeros((len(xs), 4))
    for a in range(len(xs)):
        for b in range(4):
            out[a][b] = v[b] + xs[a]
    return out


@case
def columns(x, v, i, k, xs):
    out = np.zeros((4, len(xs)), dtype=np.float32)
    for t in range(len(xs)):
        out[:, t] = v * xs[t]
    return out, out[1], out @ np.ones(len(xs))


@case
def rows_of_one_number(x, v, i, k, xs):
    out = np.ones((len(xs), 3))
    for t in range(0, len(xs), 2):
        out[t] = xs[t]
        out[t, 1:] = -1
    return out


@case
def slices_of_a_row(x, v, i, k, xs):
    out = np.zeros((len(x), 6))
    for t in range(len(x)):
        out[t, 1:5] = x[t]
        out[t, ::5] = 7.0
        out[t, ::-2] += 1
    return out


@case
def slices_of_rows(x, v, i, k, xs):
    out = np.zeros((5, 4))
    out[1:3] = v
    out[3:] = 2
    out[::2] -= 1
    return out


@case
def slices_of_run_time(x, v, i, k, xs):
    out = np.zeros(len(xs) + 4)
    out[k : k + 4] = v
    out[len(xs) :] += 1
    out[:k] = -1
    return out


@case
def slices_of_run_time_in_steps(x, v, i, k, xs):
    out = np.zeros(len(xs) + 8)
    out[k::3] = 1.0
    out[::-2] = np.arange((len(xs) + 9) // 2)
    return out


@case
def negative_and_computed(x, v, i, k, xs):
    out = np.zeros(4)
    out[-1] = 1.0
    out[np.argmax(v)] += 5.0
    out[i[0]] = 2.0
    out[k - 4] -= 3
    return out


@case
def a_row_by_a_computed_index(x, v, i, k, xs):
    out = np.zeros((4, 4))
    out[np.argmax(v)] = v
    out[i[1], i[2]] = 9.0
    out[k, np.argmin(v)] = 8.0
    return out


@case
def a_mask(x, v, i, k, xs):
    y = x * 2.0
    y[y < 0] = 0.0
    z = v.copy()
    z[z > 0.5] *= 1
    z[v > 0] = -1
    return y, z


@case
def a_mask_of_rows(x, v, i, k, xs):
    y = x.copy()
    y[x[:, 0] > 0] = v
    return y


@case
def an_array_of_indices(x, v, i, k, xs):
    out = np.zeros(4)
    out[i] = np.arange(3.0) + 1
    grid = np.zeros((4, 2))
    grid[i] = 1.0
    grid[[0, 2]] = np.array([5.0, 6.0])
    return out, grid


@case
def a_mask_and_as_many_values(x, v, i, k, xs):
    y = v.copy()
    y[v > 0] = v[v > 0] * 2
    z = x.copy()
    z[x < 0] = -x[x < 0]
    return y, z


@case
def two_arrays_of_indices(x, v, i, k, xs):
    out = np.zeros((4, 4))
    out[i, np.arange(3)] = 1.0
    out[k, i] += 2.0
    cube = np.zeros((2, 4, 4))
    cube[:, i, i] = v[i]
    return out, cube


@case
def integers(x, v, i, k, xs):
    counts = np.zeros(4, dtype=int)
    for n in xs:
        counts[n % 4] += 1
    small = np.zeros(3, dtype=np.int8)
    small[0] = 100
    small[1] = v[0]
    small[2] = k
    return counts, small, counts[0], counts / 2


@case
def bools(x, v, i, k, xs):
    seen = np.zeros(4, dtype=bool)
    seen[k] = True
    seen[i[0]] = 1
    for n in xs:
        seen[n % 4] = not seen[n % 4]
    return seen, np.where(seen, v, 0.0)


@case
def edit_distance(x, v, i, k, xs):
    n, m = len(xs), len(i)
    d = np.zeros((n + 1, m + 1))
    for a in range(n + 1):
        d[a, 0] = a
    for b in range(m + 1):
        d[0, b] = b
    for a in range(1, n + 1):
        for b in range(1, m + 1):
            cost = 0.0 if xs[a - 1] == i[b - 1] else 1.0
            d[a, b] = min(d[a - 1, b] + 1, d[a, b - 1] + 1, d[a - 1, b - 1] + cost)
    return d[n, m], d


@case
def two_rows_in_turns(x, v, i, k, xs):
    before = np.arange(5.0)
    now = np.zeros(5)
    for t in range(len(xs)):
        now[0] = t
        for b in range(1, 5):
            now[b] = before[b - 1] + now[b - 1] * 0.5
        before, now = now, before
    return before, now


@case
def rows_of_a_table_by_name(x, v, i, k, xs):
    table = np.zeros((len(xs) + 1, 4))
    table[0] = v
    for t in range(len(xs)):
        before, now = table[t], table[t + 1]
        for b in range(4):
            now[b] = before[b] * 2 + xs[t]
    return table


@case
def viterbi(x, v, i, k, xs):
    steps = len(x)
    score = np.zeros((steps, 4))
    back = np.zeros((steps, 4), dtype=int)
    if steps == 0:
        return None
    score[0] = x[0]
    trans = np.outer(v, v)
    for t in range(1, steps):
        s = score[t - 1][:, None] + trans
        back[t] = np.argmax(s, axis=0)
        score[t] = np.max(s, axis=0) + x[t]
    best = np.argmax(score[-1])
    path = [best]
    for t in range(steps - 1, 0, -1):
        best = back[t, best]
        path.append(best)
    return path, np.max(score[-1])


@case
def views_see_writes(x, v, i, k, xs):
    a = np.zeros((3, 4))
    row, column, part = a[1], a[:, 2], a[1:, 1:3]
    b = a
    a[1] = v
    b[2, 2] = 5.0
    row[0] = 7.0
    part[0, 0] = 9.0
    column += 1
    return a, row, column, part, b.T


@case
def a_view_of_a_row(x, v, i, k, xs):
    a = v.copy()
    b, c = a[1:3], a[::-1]
    a[1] = 10.0
    b[1] = 20.0
    c[0] = 30.0
    return a, b, c, a[:, None], c[None]


@case
def another_name_in_place(x, v, i, k, xs):
    a = v * 2
    b = a
    a += 1
    b -= 3
    return a, b


@case
def a_view_and_the_whole_in_place(x, v, i, k, xs):
    y = v * 2
    z = y[1:]
    y -= 1
    z *= 3
    return z, y


@case
def one_array_put_into_a_list_again_and_again(x, v, i, k, xs):
    y = v * 2
    out = []
    for _ in range(3):
        y += 1
        out.append(y)
    return out


@case
def one_of_two(x, v, i, k, xs):
    z = v * 2
    y = z if len(x) > 1 else v * 3
    y += 1
    return z, y


@case
def an_argument_in_place(x, v, i, k, xs):
    def bump(a):
        a += 1
        return a

    y = v * 2
    return bump(y), y


@case
def a_memo_of_a_recursion(x, v, i, k, xs):
    memo = np.zeros(30)

    def ways(n):
        if n < 2:
            return 1.0
        if memo[n] == 0:
            memo[n] = ways(n - 1) + ways(n - 2)
        return memo[n]

    return ways(20 + k), memo


@case
def elements_of_a_list(x, v, i, k, xs):
    rows = [np.zeros(4) for _ in range(len(xs) + 20)]
    few = [np.zeros(4) for _ in range(3)]
    for t in range(len(xs)):
        rows[t][xs[t] % 4] = 5.0
        few[t % 3] += xs[t]
    row = rows[2]
    row[0] = 9.0
    return rows, few


@case
def in_a_dict(x, v, i, k, xs):
    d = {"h": np.zeros(4), "c": np.ones(4)}
    d["h"][1] = 2
    d["c"] -= v
    return d


@case
def made_at_the_first_turn(x, v, i, k, xs):
    h = None
    for t in range(len(x)):
        if h is None:
            h = np.zeros(4)
        h[t] = x[t, 0]
    return h


@case
def a_helper_that_writes(x, v, i, k, xs):
    def fill(out, at, value):
        out[at] = value
        return out

    out = np.zeros((3, 4))
    same = fill(out, 0, v)
    fill(same, 2, 1.0)
    return out


@case
def a_nested_function_that_writes(x, v, i, k, xs):
    seen = np.zeros(4)

    def note(n):
        seen[n % 4] += n

    for n in xs:
        note(n)
    return seen


@case
def in_branches(x, v, i, k, xs):
    out = np.zeros(4)
    if k > 1:
        out[k] = 1.0
    elif k == 1:
        out = np.ones(4)
        out[0] = 4.0
    out[-1] += 1
    return out


@case
def a_row_or_what_came_in(x, v, i, k, xs):
    out = np.zeros((len(x), 4))
    for t in range(len(x)):
        before = out[t - 1] if t > 0 else v
        out[t] = np.maximum(before * 0.5, x[t])
    h = v
    for row in out:
        if row[0] > 0:
            h = row
    out[:1] = 7.0
    return out, h


@case
def made_in_the_loop(x, v, i, k, xs):
    rows = []
    for n in xs:
        row = np.zeros(4)
        row[n % 4] = n
        rows.append(row)
    return rows, np.array(rows) if xs else None


@case
def a_one_hot(x, v, i, k, xs):
    def one_hot(n, size):
        e = np.zeros(size)
        e[n] = 1
        return e

    return [one_hot(n % 4, 4) for n in xs], one_hot(k, 4) @ v


@case
def swapped(x, v, i, k, xs):
    a = v.copy()
    a[0], a[k] = a[k], a[0]
    b = x[:2].copy()
    if len(x) > 1:
        b[0], b[1] = b[1], b[0]
    return a, b


@case
def sorted_by_hand(x, v, i, k, xs):
    a = v.copy()
    for p in range(4):
        for q in range(p + 1, 4):
            if a[q] < a[p]:
                a[p], a[q] = a[q], a[p]
    return a


@case
def three_axes(x, v, i, k, xs):
    out = np.zeros((len(xs), 2, 4))
    for t in range(len(xs)):
        for s in range(2):
            out[t, s] = v * (s + xs[t])
    return out, out[:, 1], out[:, :, 0], out.reshape(-1, 4), out.mean(axis=(0, 2)) if xs else None


@case
def everything(x, v, i, k, xs):
    out = np.empty((2, 4))
    out[:] = v
    out[...] += 1
    out.fill(3.0)
    out[:, :] = [[1, 2, 3, 4]]
    out[1] = (4, 3, 2, 1)
    return out


@case
def like_others(x, v, i, k, xs):
    a, b, c = np.zeros_like(x), np.full_like(v, 2), np.ones((2, 2), np.float32)
    a[:, 0] = 1
    b[k] = v[k]
    c[0, 1] = 3
    return a, b, c, len(a), a.shape, b.dtype == v.dtype


@case
def the_same_array_of_rank_0(x, v, i, k, xs):
    a = np.asarray(np.zeros(()))
    b = a
    a += 1
    return a, b


@case
def by_functions_of_numpy(x, v, i, k, xs):
    a, b, c = np.zeros((4, 4)), np.zeros(4), np.zeros((2, 4))
    np.fill_diagonal(a, 3.0)
    np.copyto(b, v)
    same, turned = np.asarray(b), np.transpose(c)
    b.sort()
    c.swapaxes(0, 1)[k] = 1.0
    first, second = c
    second[0] = 2.0
    kept = np.array(b)
    b[0] = 9.0
    return a, b, same, turned, first, kept


@case
def iterated(x, v, i, k, xs):
    out = np.zeros((len(x), 4))
    for t, row in enumerate(out):
        row[:] = x[t]
        row[0] = t
    total = 0.0
    for row in out:
        total = total + row[1]
    return out, total


@case
def kept_by_a_copy(x, v, i, k, xs):
    h = np.zeros(4)
    states = []
    for n in xs:
        h[n % 4] += 1
        states.append(h.copy())
    return states, h


@case
def a_recursion(x, v, i, k, xs):
    def depth(n):
        out = np.zeros(4)
        if n > 0:
            below = depth(n - 1)
            out[:3] = below[1:]
            out[3] = n
        return out

    return depth(len(xs))


@case
def an_array_of_rank_0(x, v, i, k, xs):
    a = np.zeros(())
    a[...] = v[0]
    a += 1
    b = np.array(2.0)
    b[()] = k
    return a, b, a + b


@dataclass
class State:
    h: np.ndarray
    n: int


@case
def in_an_object(x, v, i, k, xs):
    s = State(np.zeros(4), 0)
    for n in xs:
        s.h[n % 4] += 1
    t = (s.h, k)
    t[0][0] = -5
    return s.h, math.sqrt(s.h.sum() ** 2)


@case
def out_of_range(x, v, i, k, xs):
    out = np.zeros(len(xs))
    out[k] = 1.0
    return out


@case
def too_large(x, v, i, k, xs):
    out = np.zeros(2, dtype=np.int8)
    out[0] = k * 60
    return out


@case
def of_another_shape(x, v, i, k, xs):
    out = np.zeros(3)
    out[:] = v[: len(xs)]
    return out


@case
def views_of_what_has_no_name(x, v, i, k, xs):
    a = np.arange(6.0).reshape(2, 3)
    a[a > 2] *= v[0]
    b = np.zeros(4 * len(xs)).reshape(len(xs), 4)
    for n in range(len(xs)):
        for j in range(4):
            b[n, j] = xs[n] + j
    c = np.outer(v, v).T
    d = c
    d[0] = k
    e, f = np.ones((2, 4))
    e[k] = 5
    f += e
    return a, b, c, e, f, np.arange(4.0).reshape(2, 2)[0]


@case
def views_of_what_has_one(x, v, i, k, xs):
    a = np.arange(8.0)
    b = a.reshape(2, 4)
    c = v * 2
    d = (c + 1).reshape(2, 2) if k > 1 else np.zeros((2, 2))
    return a, b, c, d


@case
def flatten_is_a_copy(x, v, i, k, xs):
    m = np.ones((2, 2)) * v[0]
    f = m.flatten()
    f[1] = k
    m[0, 0] = 5
    g = x.flatten()
    if len(g):
        g[0] = 1
    return m, f, g, m.flatten()


@case
def rows_and_numbers(x, v, i, k, xs):
    out = np.zeros((3, 4))
    h = 0.0
    for n in xs:
        h = h + v * n
        out[1] = h
    out[[0, 2]] = h
    out[:] = out if k > 1 else 3
    return out
