"""Values that are known when a model is compiled: texts of numbers, slices and indices as values, warnings."""

# ruff: noqa: RUF005, UP031 -- models in the styles that people write

from __future__ import annotations

import warnings

import numpy as np

from tests.support.cases import Case, into

CASES: list[Case] = []
case = into(CASES)
RNG = np.random.default_rng(7)
H = 3
XS = [np.arange(12.0).reshape(4, 3) - 5, np.ones((4, 3)), RNG.standard_normal((2, 3))]
VS = [np.array([0.5, -1.0, 2.0]), np.zeros(3), np.array([-3.0, 1.0, 0.25])]
N = [0, 1, -1]
P = {f"{name}{k}": RNG.standard_normal(s) for k in (1, 2, 3) for name, s in (("W", (H, H)), ("b", (H,)))}


# ---- texts


@case(VS)
def str_of_a_layer(x):
    for k in range(1, len(P) // 2 + 1):
        x = np.tanh(P["W" + str(k)] @ x + P["b" + str(k)])
    return x


@case(VS)
def percent_of_a_layer(x):
    for k in range(1, len(P) // 2 + 1):
        x = np.tanh(P["W%d" % k] @ x + P["%s%i" % ("b", k)])
    return x


@case(VS)
def format_of_a_layer(x):
    for k in range(1, len(P) // 2 + 1):
        x = np.tanh(P[f"W{k}"] @ x + P["{name}{k}".format(name="b", k=k)] + P[f"b{k!r}"])
    return x


@case(VS)
def a_cache_by_name(x):
    cache = {}
    for k in range(1, len(P) // 2 + 1):
        x = P["W" + str(k)] @ x
        cache["A" + str(k)] = x
    return cache["A1"], cache["A" + repr(len(P) // 2)], len(cache)


class Deep:
    def __init__(self):
        self.count = 3
        self.first = 1


DEEP = Deep()


@case(VS)
def counted_by_what_is_shared(x):
    for k in range(DEEP.first, DEEP.count + 1):
        x = np.tanh(P["W" + str(k)] @ x)
    for k in range(1, DEEP.count):
        x = x + P[f"b{k + 1}"]
    return x, P[f"b{DEEP.count - 1}"]


@case(N)
def texts(n):
    return (
        str(7), str(2.5), str(True), str(None), "a", "", repr(7), repr("a"), format(2.5, ".2f"), "%5.1f|" % 2.25,
        "%s and %r" % ("a", "b"), "100%%" % (), "{:>4}".format("a"), "{0}{1}{0}".format(1, "x"), "ab" * 2, 2 * "ab",
        "a" + str(n is None), n,
    )  # fmt: skip


@case(N)
def methods_of_texts(n):
    s = " Ab,c "
    return (
        s.upper(), s.lower(), s.strip(), s.lstrip(), s.rstrip(), s.strip().split(","), s.split(), s.replace("A", "x"),
        s.startswith(" A"), s.endswith(("x", " ")), s.find("c"), s.count(" "), "-".join(["a", "b"]),
        "w_1".split("_", maxsplit=1)[1], s.strip().partition(","), "5".zfill(3), "5".isdigit(), s.title(),
        "a".rjust(3, "."), "x".join(str(k) for k in range(3)), n,
    )  # fmt: skip


@case(VS)
def by_a_name(x):
    activate = "ReLU"
    if activate.lower() == "relu":
        return np.maximum(x, 0)
    return np.tanh(x)


# ---- slices


@case(XS)
def tuples_of_slices(x):
    idx = (None,) + (slice(None),)
    every = (slice(None),) * x.ndim
    return x[idx], x[every], x[(Ellipsis, 0)], x[(slice(1, None), slice(None, 2))], x[0, slice(0, 2)]


@case(XS)
def an_index_that_is_made(x):
    out = []
    for axis in range(x.ndim):
        idx = [slice(None)] * x.ndim
        idx[axis] = slice(0, 1)
        out.append(x[tuple(idx)].sum())
    return out


@case(XS)
def one_axis_taken(x):
    idx = [slice(None)] * x.ndim
    idx[1] = 0
    first = x[tuple(idx)]
    idx[-1] = slice(None, None, -1)
    idx[0] = None
    return first, x[0][tuple(idx)]


@case(XS, N)
def slices_of_run_time(x, n):
    first = x.shape[0] // 2
    s, t = slice(first), slice(1, first + 1)
    u = slice(None, n) if n > 0 else slice(n, None)
    return x[s], x[t, 1], x[(t, slice(None))], list(range(9))[s], x[u], s.start is None


@case(XS)
def written_by_slices(x):
    y = x.copy()
    s = slice(0, 1)
    y[s] = 7.0
    y[(slice(None), 2)] = 1.0
    idx = [slice(None), slice(None)]
    idx[0] = 1
    y[tuple(idx)] += 2.0
    return y


@case(XS)
def sums_along(x):
    def total(x, axis):
        top = x.max(axis=axis)
        idx = [slice(None)] * axis + [None] + (x.ndim - axis - 1) * [slice(None)]
        return top + np.log(np.exp(x - top[tuple(idx)]).sum(axis=axis))

    return total(x, 0), total(x, 1)


# ---- places that are an int on one path and a scalar of NumPy on the other

PARENTS = [np.maximum(np.arange(n) - 1, 0) for n in (4, 2, 6)]


@case(PARENTS)
def along_parents_in_lists(parents):
    heads, rows, t = [0.0] * len(parents), [[0.0, 1.0] for _ in range(len(parents))], len(parents) - 1
    while t != 0:
        heads[t] = 1.0
        heads[t] += 2.0
        rows[t][0] = 1.0
        rows[t][1] += heads[t]
        t = parents[t]
    return heads, rows, heads[t:]


@case(PARENTS)
def along_parents_in_arrays(parents):
    y, t = np.zeros((len(parents), 2)), len(parents) - 1
    while t != 0:
        y[t][0] = 1.0
        y[t] += 2.0
        y[t, 1] *= 3.0
        t = parents[t]
    return y, y[t]


@case(PARENTS)
def along_parents_in_dicts(parents):
    seen, names, found, t = {}, {}, set(), len(parents) - 1
    while t != 0:
        seen[t] = seen.get(t, 0.0) + 1.0
        seen[t] += 1.0
        names.setdefault((t, "a"), []).append(2)
        found.add(t)
        t = parents[t]
    return sorted(seen.values()), len(names), t in seen, len(found)


@case(PARENTS)
def along_parents_by_methods(parents):
    xs, t = list(range(9)), len(parents) - 1
    out = []
    while t != 0:
        out.append(len(range(t)))
        xs.insert(t, 5)
        t = parents[t]
    x = xs.pop(t)
    del xs[t]
    return out, xs, x


# ---- warnings and how numbers are printed


@case(VS)
def without_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = np.sqrt(x)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.filterwarnings(action="ignore", message="a text")
        z = np.log(np.abs(x) + 1)
    return y * 0 == 0, z


@case(VS)
def settings(x):
    np.seterr(all="ignore")
    np.seterr(divide="ignore", invalid="warn")
    np.set_printoptions(precision=3, suppress=True)
    return x + 1
