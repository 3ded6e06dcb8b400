"""Random models aimed at optimisations that leave computations out: equal nodes, hoisting, tables, memory used again.

In: a source of random numbers. Out: a `Case` as `generate` has it. Operands are few and shared (rows of tables, weights,
constants, what creation functions make), and shapes are computed while the model runs: from arrays, lists and numbers
of the instance. The instances agree in some of these extents and differ in others, so that two nodes often have the
same operands and not the same shape, or the same shape and not the same version of an array that is written to.

A matrix is known by the text of its number of rows: what has the same text may be added. `fuzz --of extents` runs them.
"""

# ruff: noqa: E501 (the forms of expressions are long lines)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.generate import Class

ROWS = 6  # of tables
HEAD = '''"""A model of tests/support/extents.py."""
import copy
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Node:
    k: int
    x: np.ndarray
    kids: "list[Node]"


@dataclass
class Params:
    table: np.ndarray
    other: np.ndarray
    w: np.ndarray
    v: np.ndarray
    b: np.ndarray
    wide: np.ndarray
    n: int
    s: float

'''


@dataclass(frozen=True)
class Matrix:
    """A name of an array with run-time rows; `own`: made in the call, so that it may be written to."""

    name: str
    rows: str
    width: int
    own: bool = False


@dataclass
class ExtentsCase:
    """A model with what its instances are made from; see `generate.Case`."""

    source: str
    width: int
    wide: int
    dtype: str
    seed: int
    classes: dict[str, Class]

    def shared_values(self, module: Any) -> dict[str, Any]:
        rng = np.random.default_rng(self.seed)
        d, e = self.width, self.wide

        def normal(*shape: int) -> Any:
            return (rng.standard_normal(shape) / 2).astype(self.dtype)

        return {
            "p": module.Params(
                normal(ROWS, d), normal(ROWS, d), normal(d, d), normal(d, d), normal(d), normal(d, e),
                int(rng.integers(0, 4)), float(rng.integers(-2, 3)) / 2,
            )
        }  # fmt: skip

    def instances(self, module: Any, count: int, which: int = 0) -> list[list[Any]]:
        """Return a column each of: x, y, a list of ints, two ints, a float, a tree."""
        rng = np.random.default_rng([self.seed, which])
        few = [int(n) for n in rng.choice([0, 1, 2, 3, 4, 6], 3)]
        arrays = [(rng.standard_normal((n, self.width)) / 2).astype(self.dtype) for n in (0, 1, 2, 3, 4, 6)]
        lists = [[int(k) for k in rng.integers(0, ROWS, n)] for n in (0, 1, 2, 2, 3, 5)]
        floats = [0.0, -0.0, 0.5, 1.5] + [float("nan"), float("inf")] * (rng.random() < 0.2)

        def array() -> Any:
            n = int(rng.choice(few))
            made = next(a for a in arrays if len(a) == n)
            return made if rng.random() < 0.6 else made.copy()

        def tree(depth: int) -> Any:
            kids = int(rng.integers(0, 4)) if depth else 0
            return module.Node(int(rng.integers(0, 3)), array(), [tree(depth - 1) for _ in range(kids)])

        columns: list[list[Any]] = [[] for _ in range(7)]
        trees = [tree(int(rng.integers(0, 4))) for _ in range(4)]
        for _ in range(count):
            some = list(lists[int(rng.integers(len(lists)))])
            row = (
                array(), array(), some, int(rng.choice([0, 1, 2, 3])), int(rng.choice([0, 1, 2])),
                float(rng.choice(floats)), trees[int(rng.integers(4))] if rng.random() < 0.5 else tree(2),
            )  # fmt: skip
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        return columns


class Writer:
    """Draws one module; see `generate.Maker`."""

    def __init__(self, rng: random.Random, size: int) -> None:
        self.rng, self.size = rng, size
        self.width, self.wide = rng.choice([(3, 2), (4, 5), (8, 3), (1, 4), (17, 2), (24, 7)])
        self.dtype = rng.choice(["float32", "float32", "float64"])
        self.lines: list[str] = []
        self.indent = 0
        self.count = 0
        self.matrices: list[Matrix] = []
        self.rows: list[str] = []  # names of vectors of `width`
        self.lines_of: list[tuple[str, str]] = []  # names of vectors of run-time length, and its text
        self.numbers: list[str] = []  # texts of floats
        self.extents: list[str] = []  # texts of ints that are not negative
        self.helpers: list[str] = []
        self.trees = False

    # ---- choices and text

    def pick(self, options: Any) -> Any:
        return options[self.rng.randrange(len(options))]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """A block of its own; names made there are forgotten after."""
        kept = list(self.matrices), list(self.rows), list(self.numbers), list(self.extents), list(self.lines_of)
        self.put(head)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.put("pass")
        self.indent -= 1
        self.matrices, self.rows, self.numbers, self.extents, self.lines_of = kept

    # ---- expressions

    def number(self) -> str:
        return self.pick([*self.numbers, "0.0", "-0.0", "1.0", "0.5", "p.s", "c", "float(k)", "c * 2"])

    def extent(self) -> str:
        return self.pick(self.extents)

    def index(self) -> str:
        """An index of a table's rows."""
        return self.pick(["k", "m", "k + m", "1", f"len(ks) % {ROWS}", f"(k * 2 + m) % {ROWS}", "-1", "-k"])

    def row(self) -> str:
        """A vector of `width`, mostly the same for many instances."""
        d = self.width
        forms = [
            lambda: self.pick(self.rows), lambda: f"p.table[{self.index()}]", lambda: f"p.other[{self.index()}]", lambda: "p.b",
            lambda: f"np.zeros({d}, p.b.dtype)", lambda: f"np.full({d}, {self.number()}, p.b.dtype)", lambda: f"p.w @ {self.row()}",
            lambda: f"np.tanh({self.row()})", lambda: f"{self.row()} + {self.row()}", lambda: f"{self.row()} * {self.number()}",
            lambda: f"{self.matrix().name}.sum(axis=0)", lambda: f"np.tanh(p.w @ p.table[{self.index()}] + p.b)",
            lambda: "p.w @ p.b", lambda: f"(p.table @ p.w)[{self.index()}]", lambda: f"p.v @ p.table[{self.index()}]",
            lambda: f"({self.matrix().name}.sum(axis=0) / (1 + {self.extent()}))",
        ]  # fmt: skip
        return str(self.pick(forms)())

    def matrix(self, own: bool = False) -> Matrix:
        found = [m for m in self.matrices if m.width == self.width and (m.own or not own)]
        return self.pick(found) if found else self.created()

    def created(self) -> Matrix:
        """Put what makes an array of which nothing but the shape, a row or a number is the instance's."""
        n, d, out = self.extent(), self.width, self.name("a")
        like = self.matrix() if self.matrices else None
        forms: list[Callable[[], tuple[str, str]]] = [
            lambda: (n, f"np.zeros(({n}, {d}), p.b.dtype)"),
            lambda: (n, f"np.ones(({n}, {d}), p.b.dtype)"),
            lambda: (n, f"np.full(({n}, {d}), {self.number()}, p.b.dtype)"),
            lambda: (n, f"np.tile({self.row()}, ({n}, 1))"),
            lambda: (n, f"np.repeat(({self.row()})[None], {n}, axis=0)"),
            lambda: (n, f"np.broadcast_to({self.row()}, ({n}, {d})).copy()"),
            lambda: (n, f"np.zeros(({n}, {d}), p.b.dtype) + {self.row()}"),
            lambda: (n, f"np.arange({n}, dtype=p.b.dtype)[:, None] * {self.row()}"),
            lambda: (n, f"(np.arange({n} * {d}).reshape({n}, {d}) % 3).astype(p.b.dtype)"),
            lambda: (n, f"p.table[(np.arange({n}) + k) % {ROWS}]"),
            lambda: (n, f"np.zeros(({n}, {d}), np.int64) + np.arange({d})"),
            lambda: ("len(ks)", "p.other[np.array(ks, np.int64)]"),
        ]
        if self.lines_of:
            line, long = self.pick(self.lines_of)
            forms += [
                lambda: (long, f"{line}[:, None] * {self.row()}"),
                lambda: (long, f"np.outer({line}, {self.row()})"),
                lambda: (long, f"np.where({line}[:, None] > 0.5, {self.row()}, {self.row()})"),
                lambda: (long, f"np.stack([{line}] * {d}, axis=1)"),
            ]
        if like is not None:
            forms += [
                lambda: (like.rows, f"np.zeros_like({like.name})"),
                lambda: (like.rows, f"np.ones_like({like.name})"),
                lambda: (like.rows, f"np.full_like({like.name}, {self.number()})"),
                lambda: (like.rows, f"{like.name}.copy()"),
                lambda: (like.rows, f"copy.deepcopy({like.name})"),
            ]
        if self.chance(0.15):
            self.put(f"{out} = np.empty(({n}, {d}), p.b.dtype)")
            self.put(f"{out}[:] = {self.row()}")
            made = Matrix(out, n, d, True)
        else:
            rows, text = self.pick(forms)()
            self.put(f"{out} = {text}")
            made = Matrix(out, rows, d, True)
        self.matrices.append(made)
        return made

    def fitting(self, m: Matrix) -> Matrix | None:
        found = [o for o in self.matrices if o.rows == m.rows and o.width == m.width]
        return self.pick(found) if found else None

    # ---- statements

    def statement(self) -> None:
        forms = [
            self.created, self.created, self.computed, self.computed, self.computed, self.padded, self.padded, self.joined,
            self.cut, self.written, self.written, self.looped, self.recurrent, self.chosen, self.vector, self.filled,
            self.weighted, self.known, self.line, self.line, self.selected,
            self.either, self.moved, self.moved, self.turned, self.turned,
        ]  # fmt: skip
        if self.helpers:
            forms.append(self.called)
        self.pick(forms)()

    def vector(self) -> None:
        out = self.name("r")
        self.put(f"{out} = {self.row()}")
        self.rows.append(out)

    def known(self) -> None:
        """A number, or an extent of what is there."""
        if self.chance(0.5):
            out = self.name("n")
            self.put(f"{out} = {self.pick([self.matrix().name + '.shape[0]', 'len(ks)', 'k', 'm + 1', 'max(k, m)'])}")
            self.extents.append(out)
        else:
            out = self.name("f")
            self.put(f"{out} = {self.number()} + {self.number()}")
            self.numbers.append(out)

    def computed(self) -> None:
        m, out = self.matrix(), self.name("h")
        other = self.fitting(m) or m
        forms = [
            (f"{m.name} @ p.w", self.width), (f"np.tanh({m.name} @ p.v + p.b)", self.width), (f"{m.name} + {self.row()}", self.width),
            (f"{m.name} * {other.name}", self.width), (f"{m.name} - {other.name}", self.width), (f"np.maximum({m.name}, {self.number()})", self.width),
            (f"np.where({m.name} > 0.25, {other.name}, {self.row()})", self.width), (f"{m.name} @ p.wide", self.wide),
            (f"np.tanh({m.name}) * {self.number()}", self.width), (f"{m.name} / (1 + {other.name} ** 2)", self.width),
            (f"{m.name} + {m.name}.sum(axis=1, keepdims=True)", self.width), (f"np.cumsum({m.name}, axis=0)", self.width),
            (f"np.ones(({m.rows}, {self.width}), p.b.dtype) @ p.w + {m.name}", self.width), (f"{m.name} + p.w @ p.b", self.width),
            (f"nn.softmax({m.name} @ {other.name}.T, axis=-1) @ {m.name}", self.width), (f"{m.name}[::-1]", self.width),
        ]  # fmt: skip
        text, width = self.pick(forms)
        self.put(f"{out} = {text}")
        self.matrices.append(Matrix(out, m.rows, width))

    def turned(self) -> None:
        """Columns of a product that are read at other places than they are computed at."""
        m, product, out = self.matrix(), self.name("h"), self.name("h")
        self.put(f"{product} = {self.pick(['np.tanh', 'np.abs', 'np.square'])}({m.name} @ {self.pick(['p.w', 'p.v'])})")
        back = f"{product}[:, ::-1]"
        other = self.pick([back, back, f"np.roll({product}, 1, axis=1)", f"p.b * {product}[:, :1]"])
        self.put(f"{out} = {other} {self.pick('+-*')} {product}")
        self.matrices += [Matrix(product, m.rows, self.width), Matrix(out, m.rows, self.width)]

    def padded(self) -> None:
        """The commonest padding idiom, and its kin."""
        m, out, more = self.matrix(), self.name("q"), self.pick(["1", "2", "k", "m", "p.n"])
        rows = f"({m.rows} + {more})"
        match self.rng.randrange(4):
            case 0:
                self.put(f"{out} = np.zeros({(rows, self.width)!r}, p.b.dtype)".replace("'", ""))
                self.put(f"{out}[:{m.rows}] = {m.name}")
            case 1:
                self.put(f"{out} = np.full({(rows, self.width)!r}, {self.number()}, p.b.dtype)".replace("'", ""))
                self.put(f"{out}[{more}:] = {m.name}")
            case 2:
                self.put(f"{out} = np.pad({m.name}, (({more}, 0), (0, 0)))")
            case _:
                self.put(f"{out} = np.concatenate([{m.name}, np.zeros(({more}, {self.width}), p.b.dtype)])")
        self.matrices.append(Matrix(out, rows, self.width, True))

    def joined(self) -> None:
        m, other, out = self.matrix(), self.matrix(), self.name("j")
        self.put(f"{out} = np.{self.pick(['concatenate', 'vstack'])}([{m.name}, {other.name}])")
        self.matrices.append(Matrix(out, f"({m.rows} + {other.rows})", self.width, True))

    def cut(self) -> None:
        m, out = self.matrix(), self.name("s")
        self.put(f"{out} = {m.name}[{self.pick(['1:', ':-1', ':k', 'm:', '::2', ':len(ks)', '1:-1'])}]")
        rows = self.name("n")
        self.put(f"{rows} = {out}.shape[0]")
        self.extents.append(rows)
        self.matrices.append(Matrix(out, rows, self.width))

    def written(self) -> None:
        """Write into an array: rows, columns, elements, a view of it."""
        m = self.matrix(own=True)
        other = self.fitting(m) or m
        before = self.name("c")
        if self.chance(0.4):  # what is read of the old version stays
            self.put(f"{before} = {self.pick([m.name + '.copy()', m.name + ' * 1.0', m.name + '.sum(axis=0)'])}")
            if ".sum(" in self.lines[-1]:
                self.rows.append(before)
            else:
                self.matrices.append(Matrix(before, m.rows, self.width, True))
        view = self.name("v")
        lines = self.pick(
            [
                [f"{m.name}[:] = {self.row()}"], [f"{m.name}[1:] += {self.row()}"], [f"{m.name}[:, 0] = {self.number()}"],
                [f"{m.name}[:, {self.rng.randrange(self.width)}] += {self.number()}"], [f"{m.name} += {other.name}"], [f"{m.name} *= {self.number()}"],
                [f"if {m.rows} > 1:", f"    {m.name}[1] = {self.row()}"], [f"{view} = {m.name}[1:]", f"{view} += {self.row()}"],
                [f"{view} = {m.name}[:, 0]", f"{view} *= 2.0"], [f"for i in range({m.rows}):", f"    {m.name}[i] = {m.name}[i] * 0.5 + p.table[(i + k) % {ROWS}]"],
                [f"if {m.rows} > m:", f"    {m.name}[m, 0] = {self.number()}"], [f"{m.name}[{m.name} > 0.5] = {self.number()}"],
                [f"{m.name}[:k] = 0.0"], [f"{m.name}[m:] -= {self.row()}"], [f"{m.name}[::2] = {self.row()}"],
            ]
        )  # fmt: skip
        for line in lines:
            self.put(line)

    def line(self) -> None:
        """A vector of run-time length, of which often nothing but the length is the instance's."""
        out, n, m = self.name("u"), self.extent(), self.matrix()
        rows, text = self.pick(
            [
                (n, f"np.zeros({n})"), (n, f"np.ones({n}, p.b.dtype)"), (n, f"np.full({n}, {self.number()})"), (n, f"np.arange({n})"),
                (n, f"np.arange({n}, dtype=p.b.dtype) * {self.number()}"), (n, f"np.arange({n}) % 2 == 0"), (n, f"np.arange({n})[::-1] + k"),
                (m.rows, f"{m.name}.sum(axis=1)"), (m.rows, f"{m.name}[:, 0]"), (m.rows, f"{m.name} @ {self.row()}"), (m.rows, f"np.zeros({m.rows}, bool)"),
                (n, f"np.eye({n})[:, :k].sum(axis=1)"), (n, f"np.tri({n}, {n}).sum(axis=0)"), (m.rows, f"np.zeros_like({m.name}[:, 0])"),
            ]
        )  # fmt: skip
        self.put(f"{out} = {text}")
        if "::-1" not in text and "[:, 0]" not in text and self.chance(0.4):
            self.put(
                f"{out}[{self.pick(['1:', ':k', 'm:', '::2'])}] {self.pick(['=', '='])} {self.pick(['1', 'k', '0'])}"
            )
        self.lines_of.append((out, rows))

    def selected(self) -> None:
        """A matrix under a mask of its rows."""
        m, out = self.matrix(), self.name("w")
        mask = self.name("u")
        self.put(
            f"{mask} = {self.pick([f'np.arange({m.rows}) < k', f'{m.name}[:, 0] > 0.25', f'np.zeros({m.rows}, bool)', f'np.arange({m.rows}) % 2 == m'])}"
        )
        self.put(
            f"{out} = {self.pick([f'np.where({mask}[:, None], {m.name}, {self.number()})', f'np.where({mask}[:, None], {self.row()}, {m.name})', f'{m.name} * {mask}[:, None]'])}"
        )
        self.matrices.append(Matrix(out, m.rows, self.width))

    def filled(self) -> None:
        """An array that a loop fills, row by row."""
        out, n = self.name("o"), self.extent()
        self.put(f"{out} = np.zeros(({n}, {self.width}), p.b.dtype)")
        self.put(f"for i in range({n}):")
        value = self.pick(
            [f"p.table[(i + m) % {ROWS}]", f"np.tanh(p.w @ p.table[(i * k) % {ROWS}])", "p.b * i", self.row()]
        )
        self.put(f"    {out}[i] = {value}")
        self.matrices.append(Matrix(out, n, self.width, True))

    def looped(self) -> None:
        """Rows of a table, one for each element of a list."""
        out = self.name("l")
        value = self.pick(
            ["p.table[i]", f"np.tanh(p.table[i] + {self.row()})", "p.w @ p.table[i]", f"p.other[i] * {self.number()}"]
        )
        self.put(f"{out} = np.stack([{value} for i in ks]) if len(ks) > 0 else np.zeros((0, {self.width}), p.b.dtype)")
        self.matrices.append(Matrix(out, "len(ks)", self.width, True))

    def recurrent(self) -> None:
        """A loop with a state, and something in it that does not change."""
        out, n = self.name("r"), self.extent()
        same = self.matrix()
        self.put(f"{out} = {self.row()}")
        with self.inside(f"for i in range({n}):"):
            fixed = self.pick(
                [
                    f"({same.name} @ p.v).sum(axis=0)",
                    f"p.v @ {self.row()}",
                    f"np.zeros(({n}, {self.width}), p.b.dtype).sum(axis=0)",
                    f"p.table[i % {ROWS}]",
                ]
            )
            self.put(f"{out} = np.tanh({self.pick(['p.w @ ' + out, out])} + {fixed} + p.b)")
        self.rows.append(out)

    def chosen(self) -> None:
        """Branches that make the same, or nearly."""
        out, n, row = self.name("b"), self.extent(), self.row()
        a, b = self.pick(
            [
                (f"np.zeros(({n}, {self.width}), p.b.dtype)", f"np.ones(({n}, {self.width}), p.b.dtype)"),
                (f"np.tile({row}, ({n}, 1))", f"np.tile({row}, ({n}, 1)) * {self.number()}"),
                (
                    f"np.zeros(({n}, {self.width}), p.b.dtype) @ p.w",
                    f"np.zeros(({n}, {self.width}), p.b.dtype) @ p.v + p.b",
                ),
            ]
        )
        test = self.pick(
            [
                "k > 1",
                "m == 0",
                "c > 0",
                f"{self.matrix().name}.shape[0] > 1",
                "len(ks) > 2",
                f"float(p.table[{self.index()}][0]) > 0",
            ]
        )
        self.put(f"{out} = {a} if {test} else {b}")
        self.matrices.append(Matrix(out, n, self.width, True))

    def moved(self) -> None:
        """An array of which each element reads others of one that is computed beside it."""
        m, made, out = self.matrix(), self.name("h"), self.name("t")
        self.put(
            f"{made} = {self.pick([f'np.tanh({m.name})', f'{m.name} * {self.number()}', f'{m.name} + {self.row()}'])}"
        )
        text = self.pick(
            [f"{made}[::-1] + {made}", f"{made}[:, ::-1] - {made}", f"np.roll({made}, 1, axis=0) * {made}", f"np.roll({made}, -1, axis=1) + {m.name}",
             f"{made}[::-1, ::-1] * 2.0", f"{made} + {made}[:, :1]"]
        )  # fmt: skip
        self.put(f"{out} = {text}")
        self.matrices += [Matrix(made, m.rows, self.width), Matrix(out, m.rows, self.width)]

    def either(self) -> None:
        """A weight that is one of two, by a branch, in a list, or in turn."""
        out, m = self.name("g"), self.matrix()
        match self.rng.randrange(3):
            case 0:
                self.put(f"{out} = p.w if {self.pick(['k > 1', 'm == 0', 'c > 0'])} else p.v")
            case 1:
                self.put(f"{out} = [p.w, p.v, p.w][{self.pick(['k % 3', 'm', '-m'])}]")
            case _:
                self.put(f"{out}, other = p.w, p.v")
                with self.inside(f"for i in range({self.extent()}):"):
                    self.put(f"{out}, other = other, {out}")
        made = self.name("h")
        self.put(
            f"{made} = {self.pick([f'{m.name} @ {out}', f'np.tanh({m.name} @ {out} + p.b)', f'{m.name} + {out} @ {self.row()}'])}"
        )
        self.matrices.append(Matrix(made, m.rows, self.width))

    def weighted(self) -> None:
        """An array with two run-time extents."""
        m, other, out = self.matrix(), self.matrix(), self.name("e")
        text = self.pick(
            [
                f"{m.name} @ {other.name}.T",
                f"np.ones(({m.rows}, {other.rows}), p.b.dtype)",
                f"np.zeros(({m.rows}, {other.rows}), p.b.dtype) + {self.number()}",
            ]
        )
        self.put(f"{out} = ({text}) @ {other.name}")
        self.matrices.append(Matrix(out, m.rows, self.width, True))

    def called(self) -> None:
        """A function of the module, with arguments that others have, too."""
        out, m, helper = self.name("z"), self.matrix(), self.pick(self.helpers)
        self.put(
            f"{out} = {helper}({m.name}, {self.row()}, {self.extent()}, {self.pick(['p.w', 'p.v'])}, {self.number()}, p)"
        )
        rows = self.name("n")
        self.put(f"{rows} = {out}.shape[0]")
        self.extents.append(rows)
        self.matrices.append(Matrix(out, rows, self.width, True))

    # ---- functions

    def function(self) -> None:
        name = self.name("helper")
        self.begin(["x"], ["r"], ["n"])
        with self.inside(f"def {name}(x, r, n, w, c, p):"):
            self.put("k, m, ks = n, 1, [0, n % 3]")
            for _ in range(self.rng.randrange(1, 4)):
                self.statement()
            m = self.matrix()
            self.put(f"return {self.pick([m.name, f'{m.name} @ w', f'np.tanh({m.name} @ w + r)', f'{m.name} + c'])}")
        self.put("")
        self.put("")
        self.helpers.append(name)

    def recursion(self) -> None:
        """A function of trees: arrays with a row for each child, states that are written down."""
        self.put("def encode(t, p):")
        self.indent = 1
        d = self.width
        self.put(
            f"h = np.stack([encode(t.kids[i], p) for i in range(len(t.kids))]) if len(t.kids) > 0 else np.zeros((1, {d}), p.b.dtype)"
        )
        self.put(f"x = {self.pick(['p.table[t.k]', 'p.w @ p.table[t.k]', 'p.table[t.k] + t.x.sum(axis=0)'])}")
        self.put(
            f"f = {self.pick(['np.tile(x, (len(h), 1))', 'np.zeros((len(h), ' + str(d) + '), p.b.dtype) + x', 'np.ones_like(h) * x', 'np.zeros_like(t.x).sum(axis=0) + np.ones((len(h), 1), p.b.dtype)'])}"
        )
        self.put(f"h = {self.pick(['nn.sigmoid(h @ p.v + f) * h', 'h * np.tanh(f)', 'np.tanh(f @ p.w) + h'])}")
        self.put(
            f"return {self.pick(['np.tanh(p.w @ h.sum(axis=0) + x)', 'h.sum(axis=0) * 0.5 + x', 'np.tanh(h.max(axis=0) + p.b)'])}"
        )
        self.indent = 0
        self.put("")
        self.put("")
        self.trees = True

    def begin(self, matrices: list[str], rows: list[str], extents: list[str]) -> None:
        self.matrices = [Matrix(n, f"{n}.shape[0]", self.width) for n in matrices]
        self.rows, self.numbers, self.lines_of = ["p.b", *rows], [], []
        self.extents = [*extents, *(m.rows for m in self.matrices)]

    def make(self, seed: int) -> ExtentsCase:
        for _ in range(self.rng.randrange(0, 3)):
            self.function()
        if self.chance(0.35):
            self.recursion()
        self.begin(["x", "y"], [], ["len(ks)", "k", "m", "k + 1", "p.n"])
        self.put("@model")
        with self.inside(
            "def main(x: np.ndarray, y: np.ndarray, ks: list[int], k: int, m: int, c: float, t: Node, *, p: Params):"
        ):
            if self.trees:
                self.put("root = encode(t, p)")
                self.rows.append("root")
            for _ in range(self.size):
                self.statement()
            made = [m.name for m in self.matrices[2:]] + [r for r in self.rows if not r.startswith("p.")]
            made += [line for line, _ in self.lines_of]
            kept = self.rng.sample(made, min(len(made), self.rng.randrange(2, 8)))
            kept += [m.name for m in self.matrices[-1:] if m.name not in kept]
            self.put(
                self.pick(
                    [f"return {', '.join(kept)},", f"return [{kept[0]}, ({', '.join(kept)},)]", f"return {kept[-1]}"]
                )
            )
        source = HEAD + "\n" + "\n".join(self.lines) + "\n"
        return ExtentsCase(source, self.width, self.wide, self.dtype, seed, {})


def generate(seed: int, size: int = 6) -> ExtentsCase:
    """Return the case of a seed."""
    return Writer(random.Random(f"extents {seed}"), size).make(seed)
