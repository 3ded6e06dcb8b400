"""Locals and scopes: every computed value gets a local in the outermost loop that its indices allow.

In: expressions and polynomials. Out: locals of one function, assigned in scopes. So common subexpressions are shared
and invariant ones leave their loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from acronumba.emit import tree
from acronumba.emit.tree import I64, Builder, Const, Expr, Load, Local, const, convert, select
from acronumba.ir.spec import BLOCK, Size
from acronumba.kernels.stages.index import ZERO, Poly
from acronumba.kernels.write.kernel import Kernel
from acronumba.records import record


@record(eq=False, frozen=False)
class Scope:
    body: list[tree.Stmt]
    cache: dict[object, Expr] = field(default_factory=dict)


class Scopes:
    """The locals of one function of a kernel, and the scopes that they are in."""

    def __init__(self, kernel: Kernel, name: str, params: Sequence[str], doc: str = "") -> None:
        self.kernel = kernel
        self.stages = kernel.stages
        self.f = Builder(name, [(p, I64) for p in params], doc=doc)
        self.scopes = [Scope(self.f.body)]
        self.depth: dict[str, int] = dict.fromkeys(params, 0)
        self.symbols: dict[str, Local] = {}
        self.extents: dict[str, Size] = {}
        self.barrier = 0  # innermost scope that is not always entered: loads do not leave it

    def deep(self, expr: Expr) -> int:
        """Return the innermost scope that an expression needs."""
        out, todo = 0, [expr]
        while todo:
            e = todo.pop()
            match e:
                case Local():
                    out = max(out, self.depth[e.name])
                case tree.Binary() | tree.Compare():
                    todo += [e.left, e.right]
                case tree.Unary() | tree.Convert():
                    todo.append(e.arg)
                case tree.Select():
                    todo += [e.cond, e.yes, e.no]
                case Load():
                    todo.append(e.address)
                    if e.lanes_left is not None:
                        todo.append(e.lanes_left)
                case tree.Call():
                    todo += e.args
        return out

    def local(self, name: str, value: Expr) -> Local:
        """Assign to a new local in the current scope; it may change later."""
        out = self.f.let(name, value)
        self.depth[out.name] = len(self.scopes) - 1
        return out

    def bind(self, name: str, expr: Expr, floor: int = 0) -> Local:
        """Bind an expression to a local, in the outermost scope, at or inside `floor`, that it can be computed in."""
        if isinstance(expr, Local) and self.depth[expr.name] >= floor:
            return expr
        level = max(floor, self.deep(expr))
        local = Local(self.f.fresh(name), expr.type)
        self.f.locals[local.name] = local
        self.depth[local.name] = level
        self.scopes[level].body.append(tree.Assign(local, expr))
        return local

    def variable(self, name: str, value: Expr) -> Local:
        """Make a local that will change, in the current scope."""
        return self.bind(name, value, len(self.scopes) - 1) if not isinstance(value, Local) else self._copy(name, value)

    def _copy(self, name: str, value: Local) -> Local:
        local = self.f.let(name, value)
        self.depth[local.name] = len(self.scopes) - 1
        return local

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append(Scope(self.f.body))
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def loop(
        self, name: str, start: Expr | int, stop: Expr | int, step: int = 1, extent: Size | None = None
    ) -> Iterator[Local]:
        with self.f.loop(name, start, stop, step) as var:
            self.depth[var.name] = len(self.scopes)
            self.symbols[var.name] = var
            if extent is not None:
                self.extents[var.name] = extent
            with self.scope():
                yield var

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        """Write an `if`; values loaded inside are not moved out of it."""
        with self.f.when(cond), self.scope():
            outer, self.barrier = self.barrier, len(self.scopes) - 1
            try:
                yield
            finally:
                self.barrier = outer

    def cached(self, key: object) -> Expr | None:
        for scope in reversed(self.scopes):
            if key in scope.cache:
                return scope.cache[key]
        return None

    def keep(self, key: object, expr: Expr, floor: int = 0) -> Expr:
        self.scopes[max(self.deep(expr), floor)].cache[key] = expr
        return expr

    # ---- numbers

    def symbol(self, name: str) -> Local:
        """Return the local of a symbol; extents are the current node's, loaded at their first use."""
        if name in self.symbols:
            return self.symbols[name]
        key = ("symbol", name)
        known = self.cached(key)
        if known is None:
            known = self.keep(key, self.bind(name, self.made_of(name)))
        assert isinstance(known, Local)
        return known

    def made_of(self, name: str) -> Expr:
        """Return the expression that a symbol stands for."""
        if name.startswith("wide"):
            return convert(self.symbol(name[4:]).ne(1), I64, "unsigned")
        if name.startswith("tile"):
            return self.tile_rows(self.kernel.tile_bytes[int(name[4:])])
        if name.startswith("up"):  # an extent, rounded up
            step, extent = name[2:].split("d")
            return (self.symbol(f"d{extent}") + (int(step) - 1)) & -int(step)
        assert re.fullmatch(r"d\d+", name), name
        return self.extent(int(name[1:]))

    def extent(self, k: int) -> Expr:
        """Return a run-time extent, from the function's arguments or of the current node."""
        raise NotImplementedError

    def tile_rows(self, row: Poly) -> Expr:
        """Return the number of rows of a tile that fit in the cache."""
        chosen = self.stages.strategy
        fit = self.bind("fit", const(chosen.tile_bytes, I64) // self.bind("row_bytes", self.number(row + 1)))
        most: Expr = const(chosen.rows, I64)
        if "S" in self.f.locals:
            most = self.bind("most", most >> tree.load(self.f["S"], BLOCK.at["finer"]))
        fit = self.bind("fit", select(fit < most, fit, most))
        return select(fit < chosen.fewest_rows, chosen.fewest_rows, fit)

    def plus(self, base: Expr, poly: Poly) -> Expr:
        """Return an address further on by a number of bytes."""
        return base if poly == ZERO else base + self.number(poly)

    def number(self, poly: Poly) -> Expr:
        """Return a polynomial as an expression."""
        out: Expr | None = None
        constant = 0
        for symbols, c in poly.terms:
            if not symbols:
                constant += c
                continue
            term: Expr = self.symbol(symbols[0])
            for s in symbols[1:]:
                term = term * self.symbol(s)
            if abs(c) != 1:
                term = term * abs(c)
            if out is None:
                out = -term if c < 0 else term
            else:
                out = out - term if c < 0 else out + term
        if out is None:
            return const(constant, I64)
        return out + constant if constant > 0 else out - -constant if constant < 0 else out

    def named(self, name: str, expr: Expr) -> Poly:
        """Return an expression as a polynomial: a number, or a new symbol."""
        if isinstance(expr, Const):
            return Poly.of(int(expr.value))
        local = self.bind(name, expr)
        self.symbols[local.name] = local
        return Poly.of(local.name)
