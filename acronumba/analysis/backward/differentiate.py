"""The backward kernel of a kernel, from its specification: reverse mode on a `KernelSpec`.

In: a `KernelSpec`, the operands whose gradients are wanted, the results that have an adjoint. Out: a `Derived`: the
forward specification with what it keeps as further results, the backward one, and where arguments and results of both
come from and go to. A backward kernel is a kernel like any other: one node of it for each node of the forward kernel.

What only depends on shared tensors (a weight, a view of it) is the same for all nodes. Rules are linear, so its adjoint
is summed over the nodes first: the backward kernel gives rows, and a `Term` says how the rows of all nodes are summed.
`pulled_back` makes the kernel that goes on from there, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from acronumba.analysis.backward.joint import Joint, Val
from acronumba.analysis.backward.keep import keep
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand
from acronumba.ir.vjp import RULES, Applied, adjoints, differentiable

FLOATS = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value of a backward node lies."""

    kind: Literal["argument", "result", "adjoint", "back", "row", "shared"]
    # argument: of the forward node; result: of it, those that are kept behind the others; adjoint: of a result;
    # back: a result of the backward node; shared: an operand of the forward kernel that all nodes share; row: of one,
    # named by an argument `by`
    index: int
    start: int = 0  # of an adjoint: the elements before the piece that it is
    by: int = -1

    def __str__(self) -> str:
        text = f"{self.kind} {self.index}"
        return f"{text} from {self.start}" if self.start else f"{text} by argument {self.by}" if self.by >= 0 else text


@dataclass(frozen=True, slots=True)
class Give:
    """A contribution to the adjoint of an operand."""

    operand: int  # of the forward specification: a tensor, or a list, whose elements get its rows
    source: Source  # an adjoint that is handed on as it is, or a result of the backward kernel


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the gradient of a value that all nodes share: a sum over the nodes.

    sum: of g. outer: of the outer products of rows of x and g, to the columns of the value from `start` on; `turned`:
    the value is [columns of g, columns of x], else [columns of x, columns of g], and `start` counts rows; if there is
    an index `by`, the value is a table of such matrices, and it names one for each node. rows: of g, to the row that x
    names.
    """

    kind: Literal["sum", "outer", "rows"]
    of: int  # the value, a number in the forward specification
    g: Source
    x: Source | None = None
    turned: bool = False
    start: int = 0
    by: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A kernel and what comes back from it."""

    forward: KernelSpec  # results that are kept are behind the others
    kept: tuple[int, ...]  # their numbers
    backward: KernelSpec | None  # None: nothing is computed, adjoints are handed on as they are
    wiring: tuple[Source, ...]  # per argument of the backward node
    gives: tuple[Give, ...]
    terms: tuple[Term, ...]


def differentiate(spec: KernelSpec, wanted: Collection[int], results: Collection[int]) -> Derived:
    """Return the backward kernel.

    Parameters
    ----------
    spec
        The kernel.
    wanted
        Numbers of operands whose gradients are wanted.
    results
        Which results have an adjoint.
    """
    return _Derivation(spec, wanted, results).run()


def depends(spec: KernelSpec, result: int) -> set[int]:
    """Return the operands that a result depends on by derivatives."""
    first = len(spec.operands)
    seen: set[int] = set()
    todo = [spec.results[result]]
    while todo:
        v = todo.pop()
        if v in seen or _dtype(spec, v) not in FLOATS:
            continue
        seen.add(v)
        if v >= first:
            todo += _through(spec.body[v - first])
    return {v for v in seen if v < first}


def _through(op: KernelOp) -> list[int]:
    """Return the arguments that an operation has a derivative by."""
    return [a for k, a in enumerate(op.args) if differentiable(op.op, k, op.attrs)]


def _dtype(spec: KernelSpec, v: int) -> str:
    first = len(spec.operands)
    return spec.operands[v].dtype if v < first else spec.body[v - first].dtype


@dataclass(frozen=True, slots=True)
class _Raw:
    """A term whose parts are values."""

    kind: Literal["sum", "outer", "rows"]
    of: int
    g: int
    x: int = -1
    turned: bool = False
    start: int = 0
    by: int = -1


class _Derivation:
    """Makes the joint graph, then cuts it in two."""

    def __init__(self, spec: KernelSpec, wanted: Collection[int], results: Collection[int]) -> None:
        self.spec, self.b = spec, Joint(spec)
        self.first = len(spec.operands)
        self.results = results
        self.own = {v for v, o in enumerate(spec.operands) if o.kind != "shared"}
        self.active = {v for v in wanted if self.b.dtype(v) in FLOATS}
        for v, val in enumerate(self.b.vals[self.first :], self.first):
            if self.own.intersection((*val.args, *val.numbers)) or any(isinstance(n, Dim) for n in val.shape):
                self.own.add(v)
            if val.dtype in FLOATS and self.active.intersection(_through(spec.body[v - self.first])):
                self.active.add(v)
        self.raw: list[_Raw] = []
        self.grads: dict[int, list[int]] = {}  # adjoints of values of a node
        self.sums: dict[int, list[int]] = {}  # adjoints of values that all nodes share

    def run(self) -> Derived:
        for j, v in enumerate(self.spec.results):
            if j in self.results and v in self.active:
                (self.grads if v in self.own else self.sums).setdefault(v, []).append(self.b.adjoint(j))
        for v in reversed(range(self.first, self.b.forward)):
            if v in self.grads and v in self.own:
                self._back(v, self.b.sum_of(self.grads.pop(v)))
        self.raw += [_Raw("sum", v, self.b.sum_of(gs)) for v, gs in sorted(self.sums.items())]
        gives = {v: self.b.sum_of(gs) for v, gs in sorted(self.grads.items())}
        return _Cut(self.b, gives, self.raw).run()

    def _back(self, v: int, g: int) -> None:
        """Hand the adjoint of a value on to its arguments."""
        val, b = self.b.vals[v], self.b
        if val.op not in RULES:
            return
        wanted = [k for k, a in enumerate(val.args) if a in self.active and differentiable(val.op, k, val.attrs)]
        summed = [k for k in wanted if self._term(v, k, g)]
        one = Applied(
            op=val.op,
            args=val.args,
            attrs=val.attrs,
            result=v,
            adjoint=g,
            wanted=[k for k in wanted if k not in summed],
        )
        for k, found in adjoints(b, one).items() if one.wanted else ():
            a = val.args[k]
            (self.grads if a in self.own else self.sums).setdefault(a, []).append(found)

    def _term(self, v: int, k: int, g: int) -> bool:
        """Add the terms of a product with a shared matrix, of rows of a shared table; return whether it is one."""
        val, b = self.b.vals[v], self.b
        a, by = val.args[k], -1
        if a in self.own and val.op == "matmul" and b.vals[a].op == "take" and b.vals[a].attrs == (0,):
            a, by = b.vals[a].args  # a matrix of a table: never a matrix for each node
            if b.shape(by):
                return False
        if a in self.own:
            return False
        if val.op == "matmul" and len(b.shape(val.args[k])) == 2:
            other = val.args[1 - k]
            if k == 1 or len(b.shape(other)) == 1:
                self.raw += [_Raw("outer", a, g, x, k == 0, at, by) for x, at in self._parts(other)]
                return True
        if val.op == "take" and k == 0 and val.attrs == (0,) and len(b.shape(val.args[1])) < 2:
            self.raw.append(_Raw("rows", a, g, val.args[1]))
            return True
        return False

    def _parts(self, x: int) -> list[tuple[int, int]]:
        """Return the pieces of a left operand that lie side by side, and where each begins."""
        val = self.b.vals[x]
        sizes = [self.b.shape(a)[-1] for a in val.args] if val.op == "concat" else []
        if not sizes or val.attrs != (len(val.shape) - 1,) or not all(isinstance(n, int) for n in sizes):
            return [(x, 0)]
        starts = [sum(n for n in sizes[:k] if isinstance(n, int)) for k in range(len(sizes))]
        return list(zip(val.args, starts, strict=True))


class _Cut:
    """Decides what is kept, and writes the two specifications."""

    def __init__(self, b: Joint, gives: Mapping[int, int], raw: Sequence[_Raw]) -> None:
        self.b, self.spec, self.first = b, b.spec, b.first
        self.gives, self.raw = gives, raw
        self.outs: list[int] = []  # values that are results of the backward kernel
        self.number: dict[int, int] = {}  # values of the backward kernel by those of the joint graph

    def run(self) -> Derived:
        gives = [(v, self._adjoint(g)) for v, g in self.gives.items()]
        held = [(r, self._adjoint(r.g)) for r in self.raw]
        read = [v for r in self.raw for v in (r.x, r.by) if v >= 0]  # where rows lie, and which matrix or row is meant
        stored = [v for v in read if self._place(v) is None]
        kept = keep(self.b, self._needed(self.outs), stored)
        forward = replace(self.spec, results=(*self.spec.results, *kept))
        wiring: tuple[Source, ...] = ()
        backward = None
        if self.outs:
            backward, wiring = self._write(forward)

        def place(v: int) -> Source | None:
            if v < 0:
                return None
            return self._place(v) or Source("result", forward.results.index(v))

        terms = tuple(Term(r.kind, r.of, g, place(r.x), r.turned, r.start, place(r.by)) for r, g in held)
        return Derived(
            forward=forward, kept=tuple(kept), backward=backward, wiring=wiring,
            gives=tuple(Give(v, g) for v, g in gives), terms=terms,
        )  # fmt: skip

    def _adjoint(self, g: int) -> Source:
        """Return where an adjoint lies: it is handed on as it is, or the backward kernel computes it."""
        v, start = g, 0
        while self.b.vals[v].op in ("reshape", "slice"):
            val = self.b.vals[v]
            if val.op == "slice":
                at = self._piece(val.attrs, val.shape, self.b.shape(val.args[0]))
                if at is None:
                    break
                start += at
            v = val.args[0]
        if self.b.vals[v].op == "adjoint":
            return Source("adjoint", self.b.vals[v].attrs[0], start)
        if g not in self.outs:
            self.outs.append(g)
        return Source("back", self.outs.index(g))

    @staticmethod
    def _piece(attrs: Any, shape: Any, whole: Any) -> int | None:
        """Return how many elements are before a slice that is one piece of memory; None if it is none."""
        starts, steps = attrs
        if not all(isinstance(n, int) for n in (*starts, *whole, *shape)) or set(steps) - {1}:
            return None
        cut = next((k for k, n in enumerate(whole) if n != shape[k]), len(whole))
        if any(n != 1 for n in shape[:cut]) or shape[cut + 1 :] != whole[cut + 1 :]:
            return None
        out = 0
        for n, start in zip(whole, starts, strict=True):
            out = out * n + start
        return int(out)

    def _place(self, v: int) -> Source | None:
        """Return where a forward value lies, if it is there whatever is kept: an argument, or a row of a table."""
        width = self.b.shape(v)[-1:]
        while self.b.vals[v].op == "reshape" and self.b.shape(self.b.vals[v].args[0])[-1:] == width:
            v = self.b.vals[v].args[0]
        if v < self.first:
            o = self.spec.operands[v]
            return Source("shared", v) if o.kind == "shared" else Source("argument", o.index)
        val = self.b.vals[v]
        if val.op == "take" and val.attrs == (0,) and val.args[0] < self.first and val.args[1] < self.first:
            table, index = (self.spec.operands[a] for a in val.args)
            if table.kind == "shared" and index.kind == "int" and len(table.shape) == 2:
                return Source("row", val.args[0], by=index.index)
        return None

    def _needed(self, outs: Sequence[int]) -> list[int]:
        """Return the forward values that backward values read."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        todo = list(outs)
        while todo:
            v = todo.pop()
            if v in seen:
                continue
            seen.add(v)
            if v < self.b.forward:
                found[v] = None
            else:
                todo += (*self.b.vals[v].args, *self.b.vals[v].numbers)
        return sorted(found)

    def _write(self, forward: KernelSpec) -> tuple[KernelSpec, tuple[Source, ...]]:
        """Return the backward specification, and where its arguments come from."""
        live = self._live(forward)
        operands: list[Operand] = []
        wiring: list[Source] = []
        for kind, name, v, source in self._arguments(live, forward):
            val = self.b.vals[v]
            self.number[v] = len(operands)
            operands.append(Operand(kind, name, val.dtype, val.shape, len(wiring)))
            wiring.append(source)
        for v in live:
            if v < self.first and self.spec.operands[v].kind == "shared":
                self.number[v] = len(operands)
                operands.append(self.spec.operands[v])
        body: list[KernelOp] = []
        here = self.spec.body[0].loc
        for v in live:
            if v in self.number:
                continue
            val = self.b.vals[v]
            old = self.spec.body[v - self.first] if v < self.b.forward else None
            self.number[v] = len(operands) + len(body)
            here = old.loc if old else here
            args = tuple(self.number[a] for a in val.args)
            name, site = (old.name, old.site) if old else ("", -1)
            body.append(KernelOp(val.op, args, self._attr(val.attrs), val.dtype, val.shape, name, site, here))
        results = []
        for v in self.outs:
            n = self.number[v]
            if n < len(operands):  # results are operations
                body.append(KernelOp("reshape", (n,), (), self.b.dtype(v), self.b.shape(v), "", -1, here))
                n = len(operands) + len(body) - 1
            results.append(n)
        ways = None
        if self.spec.rows is not None:
            ways = tuple(self.spec.rows[s.index] if s.kind == "argument" else "row" for s in wiring)
        name = f"{self.spec.name}_back"
        return KernelSpec(name, tuple(operands), self.spec.dims, tuple(body), tuple(results), ways), tuple(wiring)

    def _live(self, forward: KernelSpec) -> list[int]:
        """Return the values of the backward kernel, in order."""
        live: set[int] = set()
        todo = list(self.outs)
        while todo:
            v = todo.pop()
            if v in live:
                continue
            live.add(v)
            if v >= self.first and not (v < self.b.forward and v in forward.results):
                todo += (*self.b.vals[v].args, *self.b.vals[v].numbers)
        return sorted(live)

    def _arguments(self, live: Sequence[int], forward: KernelSpec) -> Iterator[tuple[str, str, int, Source]]:
        """Yield kind, name, value and source of each argument: tensors first, then lists and numbers."""
        given = [(v, self.spec.operands[v]) for v in live if v < self.first]
        for v, o in given:
            if o.kind == "tensor":
                yield o.kind, o.name, v, Source("argument", o.index)
        for v in live:
            if self.first <= v < self.b.forward and v in forward.results:
                op = self.spec.body[v - self.first]
                yield "tensor", op.name or f"v{v}", v, Source("result", forward.results.index(v))
        for v in live:
            if self.b.vals[v].op == "adjoint":
                (j,) = self.b.vals[v].attrs
                name = self.spec.body[self.spec.results[j] - self.first].name or f"v{self.spec.results[j]}"
                yield "tensor", f"d_{name}", v, Source("adjoint", j)
        for v, o in given:
            if o.kind not in ("tensor", "shared"):
                yield o.kind, o.name, v, Source("argument", o.index)

    def _attr(self, a: Any) -> Any:
        match a:
            case ("value", int(k)):
                return ("value", self.number[k])
            case tuple():
                return tuple(map(self._attr, a))
        return a


def pulled_back(spec: KernelSpec, of: int, wanted: Collection[int]) -> tuple[Derived, tuple[int, ...]]:
    """Return the backward kernel of a value that is computed from shared tensors alone, and what its operands are.

    Its operands are some of those of the kernel, by number: all are arguments. `wanted` are operands of the kernel.
    """
    first = len(spec.operands)
    live: set[int] = set()
    todo = [of]
    while todo:
        v = todo.pop()
        live.add(v)
        if v >= first:
            op = spec.body[v - first]
            todo += (*op.args, *Val(op.op, op.args, op.attrs, op.dtype, op.shape).numbers)
    order = sorted(live)
    number = {v: k for k, v in enumerate(order)}
    given = tuple(v for v in order if v < first)

    def renumbered(a: Any) -> Any:
        match a:
            case ("value", int(k)):
                return ("value", number[k])
            case tuple():
                return tuple(map(renumbered, a))
        return a

    operands = []
    for k, v in enumerate(given):
        o = spec.operands[v]
        operands.append(replace(o, kind="tensor" if o.kind == "shared" else o.kind, index=k))
    body = tuple(
        replace(op, args=tuple(number[a] for a in op.args), attrs=renumbered(op.attrs))
        for op in (spec.body[v - first] for v in order if v >= first)
    )
    only = KernelSpec(spec.name, tuple(operands), 0, body, (number[of],))
    return differentiate(only, {number[v] for v in wanted if v in number}, {0}), given


def derived_text(d: Derived) -> str:
    """Return what comes back from a kernel as readable text."""
    from acronumba.ir.reference import names_of_values, spec_text

    names = names_of_values(d.forward)
    lines = [f"kept: {', '.join(names[v] for v in d.kept) or 'nothing'}"]
    if d.backward is not None:
        lines += [spec_text(d.backward).rstrip(), *(f"argument {k}: {s}" for k, s in enumerate(d.wiring))]
    lines += [f"gives {names[g.operand]}: {g.source}" for g in d.gives]
    for t in d.terms:
        at = f" from {'column' if t.turned else 'row'} {t.start}" if t.start else ""
        x = "" if t.x is None else f"{t.x}, "
        table = f"[{t.by}]" if t.by is not None else ""
        lines.append(f"sums {names[t.of]}{table}{at}: {t.kind}({x}{t.g})")
    return "\n".join(lines) + "\n"
