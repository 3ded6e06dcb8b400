"""The table of writes: index forms x operations x values x shapes x dtypes, against NumPy.

In: the forms below. Out: *cells* (see `tests.support.dtypes`), each a function that writes into an array by an index, a
mask or an array of ints among them or not, and returns the array. A cell is right if the compiled function gives for
each instance the dtype, shape and bits of the plain call, or fails where that fails; if it is rejected where the plain
call always fails; or if the rejection says that the language does not have it. `tests/frontend/test_masked.py` tries a
sample, this file as many as asked for:

    python tests/masked.py 5000                 cells drawn at random, by the interpreter of the plan
    python tests/masked.py 500 --engine compiled
    python tests/masked.py 0                    the whole table: hours
    python tests/masked.py 5000 --only "[:, z]"   those whose text has this in it, with what differs
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.support import dtypes
from tests.support.dtypes import Cell, Kind

DTYPES = ("bool", "int8", "int64", "uint8", "float32", "float64")
OPERATIONS = ("=", *dtypes.IN_PLACE)

# By the rank of the array: the index, and the axes that the mask `z` has, if it is in it.
INDICES: dict[int, dict[str, tuple[int, ...]]] = {
    1: {
        "z": (0,), "z, ...": (0,), "..., z": (0,), "None, z": (0,), "z, None": (0,), "x > 1": (), "[0, 2]": (),
        "[True, False, True, True]": (), "np.array([2, 0, 2])": (), "np.array([[1, 0], [2, 1]])": (), "1": (),
        "-1": (), "np.int64(1)": (), "1:": (), "::2": (), "...": (), "..., 1": (), "None, 1": (), ":": (),
        "np.array([7])": (),
        "None, np.array([1, 2])": (), "~z": (0,), "np.flatnonzero(z)": (0,),
    },
    2: {
        "z": (0,), ":, z": (1,), "..., z": (1,), "z, ...": (0,), "z, :": (0,), "x > 1": (), "2, z": (1,), "z, 1": (0,),
        "np.int64(1), z": (1,), "z, 1:": (0,), "1:, z": (1,), "::2, z": (1,), "z, ::-1": (0,), "None, z": (0,),
        "z, None": (0,), ":, None, z": (1,), "None, :, z": (1,), "None, 2, z": (1,), "2, None, z": (1,), "z, z": (0,),
        "[0, 2], z": (1,), "z, np.array([0])": (0,), "np.array([1, 1, 0])": (), ":, np.array([1, 0])": (),
        "np.array([0, 1, 2]), np.array([1, 0, 1])": (), "np.array([[0], [2]]), np.array([1, 0])": (),
        "1, np.array([1, 0])": (), "np.array([1, 0]), 1": (), "1": (), "-1, 1": (), "1, :": (), ":, 1": (),
        "1:, ::2": (), "np.int64(1)": (), "..., 1": (), "1, ...": (), "2, x[0] > 1": (),
        "np.array([1, 2]), 1:": (), "z, -1": (0,),
    },
    3: {
        "z": (0,), ":, z": (1,), ":, :, z": (2,), "..., z": (2,), "1, :, z": (2,), "1, ..., z": (2,), ":, 1, z": (2,),
        "z, :, 1": (0,), "z, 1": (0,), "z, 1:": (0,), "1:, z, ::2": (1,), "z, None, :, np.array([0])": (0,),
        "1, 1, z": (2,), "1, z, 1": (1,), "1, None, :, z": (2,), ":, np.array([1, 0])": (),
        "np.array([1, 0]), :, np.array([1, 0])": (), "1, :, np.array([1, 0])": (), "1, 1, 1": (), "1, :, 1": (),
        ":, z, np.array([0])": (1,), "x > 1": (),
    },
}  # fmt: skip
PAIRS = {2: {"z": (0, 1)}, 3: {"z": (0, 1), ":, z": (1, 2), "1, z": (1, 2), "..., z, :": (0, 1)}}  # masks of two axes

# Values: texts, and for those that have `y` its shape for the shape of what is indexed, and of the array.
TEXTS = (
    "2", "-1", "2.5", "True", "0", "300", "0.0", "[1, 2]", "(1.5,)", "np.float32(2)", "x[{index}]", "x", "-x[{index}]"
)  # fmt: skip
SHAPES: dict[str, Any] = {
    "scalar": lambda r, a: None,
    "its own": lambda r, a: r,
    "but the first": lambda r, a: r[1:],
    "the last": lambda r, a: r[-1:],
    "ones": lambda r, a: (1,) * len(r),
    "one": lambda r, a: (1,),
    "one for the first": lambda r, a: (1, *r[1:]),
    "one for the last": lambda r, a: (*r[:-1], 1),
    "one more axis": lambda r, a: (1, *r),
    "two more axes of another extent": lambda r, a: (2, 1, *(max(n, 1) for n in r)),  # NumPy takes any empty value
    "one too many": lambda r, a: (*r[:-1], r[-1] + 1) if r else (2,),
    "the array's": lambda r, a: a,
    "rank 0": lambda r, a: (),
}
EXTENTS = {1: [(4,), (4,), (3,), (1,)], 2: [(4, 4), (4, 4), (3, 4), (4, 3)], 3: [(2, 3, 4), (3, 3, 3), (2, 3, 4)]}
POOL = {
    "b": [False, True], "i": [0, 1, 2, 3, -1, -3, 7, 100], "u": [0, 1, 2, 3, 7, 200],
    "f": [0.0, 1.0, 2.0, 0.5, -1.5, 3.0, -0.0, 7.25, 1e3, float("inf"), float("nan")],
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """An array that is part of a key."""

    shape: tuple[int, ...]
    elements: tuple[Any, ...]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.elements, dtype).reshape(self.shape)


@dataclass(frozen=True)
class Form:
    """A write but for its dtypes."""

    rank: int
    index: str
    axes: tuple[int, ...]
    operation: str
    value: str  # one of `TEXTS` or `SHAPES`
    fixed: bool  # whether the extents of the array are known when the model is compiled


def forms() -> list[Form]:
    """Return all writes but for their dtypes."""
    out: list[Form] = []
    for rank, indices in INDICES.items():
        for index, axes in (*indices.items(), *PAIRS.get(rank, {}).items()):
            for operation in OPERATIONS:
                for value in (*TEXTS, *SHAPES):
                    out += [Form(rank, index, axes, operation, value, fixed) for fixed in (True, False)]
    return out


def cell(form: Form, mine: str, other: str, seed: int) -> Cell | None:
    """Return the cell of a form and two dtypes, None if no instance of it can be made."""
    rng = np.random.default_rng(seed)
    texts = form.value in TEXTS
    rows = [r for k in range(4) for r in [_row(form, mine, other, k, rng)] if r is not None]
    if not rows:
        return None
    kinds = [Kind(mine, form.rank)]
    kinds.append(Kind("int64") if texts else Kind(other, -1 if form.value == "scalar" else np.ndim(rows[0][1])))
    kinds.append(Kind("bool", max(len(form.axes), 1)))
    value = form.value.format(index=form.index) if texts else "y"
    begin = "a = x.copy()"
    if form.fixed:
        begin = f"a = np.zeros({np.shape(rows[0][0])}, x.dtype)\na[...] = x"
    given = tuple(tuple(Given(np.shape(v), tuple(np.ravel(v).tolist())) for v in row) for row in rows)
    return Cell(f"{begin}\na[{form.index}] {form.operation} {value}\nreturn a", tuple(kinds), given)


def _row(form: Form, mine: str, other: str, k: int, rng: Any) -> tuple[Any, ...] | None:
    """Return an array, a value and a mask; masks of all and of nothing are among them."""
    extents = EXTENTS[form.rank]
    extent = extents[0] if form.fixed else extents[k % len(extents)]
    x = _some(mine, extent, rng)
    mask = rng.random([extent[a] for a in form.axes] or [1]) < (0.5, 0.5, 1.0, 0.0)[k]
    if form.value in TEXTS:
        return x, 0, mask
    names = {"a": np.empty(extent), "x": x, "z": mask, "np": np}
    try:
        chosen = np.shape(eval(f"a[{form.index}]", names))
    except IndexError:
        chosen = (2,) * form.rank
    shape = SHAPES[form.value](chosen, extent)
    value = _some(other, shape or (), rng)
    if shape is None and not mask.any():  # of nothing at all NumPy sometimes takes one that the dtype does not have
        value = np.nan_to_num(value, posinf=1)
    return x, value, mask


def _some(dtype: str, shape: tuple[int, ...], rng: Any) -> Any:
    pool = [v for v in POOL[np.dtype(dtype).kind] if dtype != "int8" or v < 128]
    return np.array([pool[k] for k in rng.integers(0, len(pool), int(np.prod(shape)))], dtype).reshape(shape)


def cells(count: int, seed: int = 0, only: str = "") -> Iterator[Cell]:
    """Return cells drawn at random, or, for 0, all."""
    rng = random.Random(seed)
    table = [f for f in forms() if only in f"a[{f.index}] {f.operation} {f.value}"]
    if not count:
        every = ((f, a, b) for f in table for a in DTYPES for b in (DTYPES if f.value in SHAPES else DTYPES[:1]))
    else:
        every = ((rng.choice(table), rng.choice(DTYPES), rng.choice(DTYPES)) for _ in range(count))
    for k, (form, mine, other) in enumerate(every):
        found = cell(form, mine, other, seed + k)
        if found is not None:
            yield found


# ---- what came of them

NOT_IN_THE_LANGUAGE = {"ACR202", "ACR301", "ACR310"}


def accepted(one: Cell) -> bool:
    """Whether the plain call takes all instances of a cell."""
    f = dtypes.imported(dtypes.sheet([one]).source)
    rows = one.instances(random.Random(0), 99)
    return not any(isinstance(dtypes.outcome(lambda r=r: f(0, *r)), Exception) for r in rows)


def wrongly_rejected(report: dtypes.Report) -> dict[Cell, str]:
    """Return rejections of what the plain call takes, for all its instances, that say that it is wrong."""
    bad = {c: e for c, e in report.rejected.items() if e.code not in NOT_IN_THE_LANGUAGE}
    return {c: str(e) for c, e in bad.items() if accepted(c)}


def try_all(given: Sequence[Cell], engine: str = "plan", size: int = 60) -> dtypes.Report:
    """Compare cells, many in a model, with their plain calls; alone where what is wrong beside them may count."""
    report = dtypes.Report()
    for page in dtypes.pages(list(given), size):
        found = dtypes.try_cells(page, engine, 4, alike=False)
        for one in wrongly_rejected(found):
            del found.rejected[one]
            found.add(replace(dtypes.try_cells([one], engine, 4, alike=False), tried=0))
        report.add(found)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description="Try writes by index, mask and array of every kind against NumPy.")
    parser.add_argument("count", type=int, help="how many are drawn at random; 0 for all")
    parser.add_argument("--engine", default="plan", choices=("plan", "program", "emit", "compiled"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="those whose text has this in it")
    parser.add_argument("--rejected", action="store_true", help="tell what is rejected that NumPy takes")
    args = parser.parse_args()
    report = try_all(list(cells(args.count, args.seed, args.only)), args.engine)
    wrong = wrongly_rejected(report)
    for one, found in report.different.items():
        print(one, found[0], sep="\n    ")
    for one, text in wrong.items():
        print(one, text, sep="\n    ")
    if args.rejected:
        taken = {c: e for c, e in report.rejected.items() if accepted(c)}
        seen = Counter(f"{e.code} {c.text.splitlines()[-2]} | {e.seen}" for c, e in taken.items())
        for text, n in seen.most_common():
            print(n, text)
    print(f"{report}, wrongly rejected: {len(wrong)}")
    raise SystemExit(bool(report.different or wrong))
