"""Static account of a kernel: bytes moved, operations computed, and the operations fused into each stage.

In: a `KernelSpec` and a `Strategy`. Out: an `Account` for a batch of given extents, the stages as text, and notes for
`Model.explain`. Everything is counted from the stages of the kernel (`kernels.stages`); nothing is measured.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from acronumba.emit.target import Target, host
from acronumba.errors import Loc
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS, shown_name
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels.stages.index import Poly
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.tasks import Nest, Product, ProductStage, RowStage, Single, Stages
from acronumba.kernels.write.element import DTYPES
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy


@record(kw_only=True)
class StagePart:
    """A stage of a kernel."""

    kind: str  # "gather", "product" or "loops"
    operations: tuple[int, ...]  # places in `KernelSpec.body`; of "gather": numbers of operands


@record(kw_only=True)
class Account:
    """Work of a kernel for one batch. Bytes count all loads and stores of loops, whether caches serve them or not."""

    nodes: int
    read: int  # bytes of its own operands, per node
    written: int  # bytes of results, per node
    scratch: int  # bytes of intermediate values, stored and loaded, per node
    flops: int  # per node: two for each term of a product, one for an element of anything else
    product_flops: int  # of products alone
    shared: int  # bytes of shared operands, for the whole batch: weights are read once per block of nodes and stage
    stages: tuple[StagePart, ...]  # each is a loop over the nodes of a block: a launch, so to speak

    @property
    def bytes(self) -> int:
        """All bytes of the batch."""
        return self.nodes * (self.read + self.written + self.scratch) + self.shared


@record(frozen=False)
class _Traffic:
    """Elements that the items of a stage load, by value; `looked_up` of shared operands, per node."""

    loads: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    looked_up: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    weights: dict[tuple[object, ...], int] = field(default_factory=dict)  # bytes
    computed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    flops: int = 0
    product_flops: int = 0


def account(
    spec: KernelSpec,
    strategy: Strategy = DEFAULT,
    *,
    nodes: int = 1,
    extents: Sequence[int] = (),
    target: Target | None = None,
    precision: str = "float32",
) -> Account:
    """Count the bytes that a kernel moves and the operations that it computes.

    Parameters
    ----------
    spec : KernelSpec
    strategy : Strategy
        Decides which operations are fused.
    nodes : int
        Nodes of the batch.
    extents : sequence of int
        The run-time extents of the batch, `spec.dims` of them.
    target : Target, optional
        The CPU; by default this machine's.
    precision : str
        Of products, as `plan_stages` has it.
    """
    return accountant(spec, strategy, target, precision)(((tuple(extents), nodes),))[0]


Groups: TypeAlias = "tuple[tuple[tuple[int, ...], int], ...]"  # run-time extents, and how many nodes have them


def accountant(
    spec: KernelSpec, strategy: Strategy = DEFAULT, target: Target | None = None, precision: str = "float32"
) -> Callable[[Groups], list[Account]]:
    """Return a function from the nodes of a batch, grouped by equal extents, to the account of each group."""
    stages = plan_stages(spec, target or host(), strategy, precision)
    counter = functools.cache(lambda extents: _Counter(stages, extents))

    def accounts(groups: Groups) -> list[Account]:
        counters = [counter(extents) for extents, _ in groups]
        rows = [many * one.rows for (_, many), one in zip(groups, counters, strict=True)]
        blocks = -(-sum(rows) // stages.rows) if stages.blocked else 1
        return [
            one.count(many, blocks * mine / max(sum(rows), 1))
            for (_, many), one, mine in zip(groups, counters, rows, strict=True)
        ]

    return accounts


class _Counter:
    def __init__(self, stages: Stages, extents: Sequence[int] = ()) -> None:
        self.stages = stages
        self.graph = stages.graph
        self.extents = extents

    def elements(self, v: int) -> int:
        out = 1
        for n in self.graph.shape(v):
            out *= self.extents[n.index] if isinstance(n, Dim) else n
        return out

    def size(self, v: int) -> int:
        """Return the bytes of one element."""
        return DTYPES[self.graph.dtype(v)].size

    def number(self, poly: Poly) -> int:
        total = 0
        for symbols, c in poly.terms:
            for s in symbols:
                c *= self.extents[int(s[1:])]
            total += c
        return total

    @property
    def rows(self) -> int:
        """Number of rows of products that a node adds to its block."""
        return min(max([1, *map(self.number, self.stages.leads)]), self.stages.rows)

    def count(self, nodes: int, passes: float) -> Account:
        """Return the account of some nodes; `passes`: how often weights are read for them."""
        graph, spec = self.graph, self.graph.spec
        read = scratch = flops = product_flops = looked_up = 0
        shared = 0.0
        for v in self.stages.gathered:
            read += self.elements(v) * self.size(v)
            scratch += self.elements(v) * self.size(v)
        results = set(spec.results)
        for stage in self.stages.stages:
            traffic = self.traffic(stage)
            flops += traffic.flops
            product_flops += traffic.product_flops
            shared += passes * sum(traffic.weights.values())
            for v, n in traffic.loads.items():
                moved = min(n, self.elements(v)) * self.size(v)
                if v >= graph.first or v in self.stages.gathered:
                    scratch += moved
                elif spec.operands[v].kind == "shared":
                    shared += passes * moved
                else:
                    read += moved if spec.operands[v].kind in ("tensor", "list", "numbers") else 8
            looked_up += sum(n * self.size(v) for v, n in traffic.looked_up.items())
            for v in _tasks(stage):
                if v in results:
                    continue
                scratch += self.elements(v) * self.size(v)
        written = sum(self.elements(v) * self.size(v) for v in spec.results)
        return Account(
            nodes=nodes,
            read=read,
            written=written,
            scratch=scratch,
            flops=flops,
            product_flops=product_flops,
            shared=round(shared) + nodes * looked_up,
            stages=parts(self.stages),
        )

    def traffic(self, stage: RowStage | ProductStage) -> _Traffic:
        out = _Traffic()
        if isinstance(stage, ProductStage):
            inside = {p.product.value for p in stage.parts}
            roots: dict[int, int] = {}
            for p in stage.parts:
                self.product(p.product, out, roots)
            for v in stage.tail:
                if v not in inside:
                    self.arguments(v, self.elements(v), out, roots)
            self.walk(roots, inside | set(stage.tail), out)
            return out
        for item in stage.items:
            roots = {}
            inside = set(item.values) if isinstance(item, Nest) else {item.value}
            for v in item.values if isinstance(item, Nest) else [item.value]:
                if isinstance(item, Single) and item.kind == "check":
                    _add(roots, [(a, self.elements(a)) for a in self.graph.checked(v)])
                elif v in self.stages.products:
                    self.product(self.stages.products[v], out, roots)
                else:
                    self.arguments(v, self.elements(v), out, roots)
            self.walk(roots, inside, out)
        return out

    def product(self, product: Product, out: _Traffic, roots: dict[int, int]) -> None:
        op = self.graph.op(product.value)
        assert op is not None
        x = op.args[0]
        inner = self.graph.shape(x)[-1]
        terms = self.extents[inner.index] if isinstance(inner, Dim) else inner
        flops = 2 * self.elements(product.value) * terms
        out.flops += flops
        out.product_flops += flops
        out.computed[product.value] = self.elements(product.value)
        if product.weight is None:
            _add(roots, [(a, self.elements(a)) for a in op.args])
            return
        _add(roots, [(piece, self.elements(piece)) for piece in product.pieces])
        rows, columns = product.weight.shape
        out.weights[product.matrix] = rows * columns * self.stages.weight_size(product)

    def arguments(self, v: int, n: int, out: _Traffic, roots: dict[int, int]) -> None:
        """Count `n` elements of `v` as computed, and ask for its arguments."""
        op = self.graph.op(v)
        assert op is not None
        kind = self.graph.kind(v)
        out.computed[v] = n
        if kind == "element":
            out.flops += n
        elif TENSORS[op.op].folds:
            out.flops += self.elements(op.args[0])
        whole = TENSORS[op.op].loops
        _add(roots, [(a, self.elements(a) if whole else min(n, self.elements(a))) for a in op.args])

    def walk(self, roots: dict[int, int], inside: set[int], out: _Traffic) -> None:
        """Count the loads and operations of computing elements of lazy values, down to stored values."""
        varying: set[int] = set()
        needs = dict(roots)
        for v in range(self.graph.count - 1, -1, -1):
            if v not in needs:
                continue
            n = min(needs[v], self.elements(v))
            if v in inside and v >= self.graph.first:
                continue
            if self.stages.leaf(v):
                shared = v < self.graph.first and self.graph.spec.operands[v].kind == "shared"
                (out.looked_up if shared and v in varying else out.loads)[v] += n
                continue
            self.arguments(v, n, out, needs)
            op = self.graph.op(v)
            assert op is not None
            if self.graph.lookup(v) or v in varying:
                varying.add(op.args[0])


def _add(roots: dict[int, int], more: Iterable[tuple[int, int]]) -> None:
    for v, n in more:
        roots[v] = roots.get(v, 0) + n


def _tasks(stage: RowStage | ProductStage) -> list[int]:
    """Return the values that a stage stores."""
    if isinstance(stage, ProductStage):
        return stage.tail
    return stage.values


# ---- stages


def parts(stages: Stages) -> tuple[StagePart, ...]:
    """Return the stages of a kernel in order, with the operations that each computes."""
    out = []
    if stages.gathered:
        out.append(StagePart(kind="gather", operations=tuple(stages.gathered)))
    first = stages.graph.first
    for stage in stages.stages:
        kind = "product" if isinstance(stage, ProductStage) else "loops"
        values = sorted(_computed(stages, stage))
        out.append(StagePart(kind=kind, operations=tuple(v - first for v in values)))
    return tuple(out)


def _computed(stages: Stages, stage: RowStage | ProductStage) -> set[int]:
    """Return the operations of a stage, addressing included."""
    if isinstance(stage, ProductStage):
        roots = [*(p.product.value for p in stage.parts), *stage.tail]
    else:
        roots = [v for item in stage.items for v in ([item.value] if isinstance(item, Single) else item.values)]
    return _below(stages, roots)


def _below(stages: Stages, roots: Sequence[int], ends: Iterable[int] = ()) -> set[int]:
    """Return the operations that are computed for `roots`, down to stored values or one of `ends`."""
    todo = list(roots)
    out: set[int] = set()
    while todo:
        v = todo.pop()
        op = stages.graph.op(v)
        if op is None or v in out or v in ends or (v not in roots and stages.leaf(v)):
            continue
        out.add(v)
        product = stages.products.get(v)
        todo += op.args if product is None or product.weight is None else [product.left]
    return {v for v in out if stages.graph.kind(v) != "create"}


LONG = 44  # characters of an expression
WHOLE = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")  # one pair of parentheses around all
TEMPORARY = re.compile(r"(v_?\d+)?")  # names that the user did not write


class _Words:
    """Words for the values of a kernel."""

    def __init__(self, stages: Stages, paths: Sequence[str]) -> None:
        self.stages = stages
        self.graph = stages.graph
        self.paths = paths

    def label(self, v: int, depth: int = 3) -> str:
        """Return a value's name, or an expression of it in named values."""
        source = self.graph.source(v)
        op = self.graph.op(v)
        if op is None:
            operand = self.graph.spec.operands[v]
            if operand.kind == "shared" and self.paths:
                return self.paths[operand.index]
            return "..." if TEMPORARY.fullmatch(operand.name) else operand.name
        if op.op == "const":
            return repr(op.attrs[0])
        if not TEMPORARY.fullmatch(source.name):
            return source.name
        return self.expression(v, depth) if depth else "..."

    def expression(self, v: int, depth: int = 3) -> str:
        """Return an operation as an expression of named values, even if it has a name."""
        op = self.graph.op(v)
        assert op is not None
        inner = [self.label(a, depth - 1) for a in op.args]
        match op.op:
            case "concat":
                return f"[{', '.join(inner)}]"
            case "transpose":
                return f"{inner[0]}.T"
            case "slice":
                return f"{inner[0]}[:]"
            case "take":
                return f"{inner[0]}[{inner[1]}]"
            case "reshape" | "broadcast" | "index":
                return inner[0]
        if sign := TENSORS[op.op].sign:
            return f"({inner[0]} {sign} {inner[1]})"
        return f"{shown_name(op.op, op.attrs)}({', '.join(inner)})"

    def product(self, v: int) -> str:
        op = self.graph.op(v)
        assert op is not None
        return f"{self.label(op.args[0])} @ {self.label(op.args[1])}"

    def operation(self, v: int, among: Iterable[int]) -> str:
        """Return a short text for an operation, whose computed operands are left out."""
        op = self.graph.op(v)
        assert op is not None
        if op.op == "matmul":
            return self.product(v)
        if op.op == "concat":
            return self.label(v)
        if op.dtype == "bf16":
            return "round to bf16"
        if op.op == "take":
            return f"{self.label(op.args[0])}[{self.label(op.args[1])}]"
        if op.op == "slice":
            cuts = [u for u in among if (o := self.graph.op(u)) is not None and o.op == "slice" and o.args == op.args]
            return "split" if len(cuts) > 1 else "slice"
        if sign := TENSORS[op.op].sign:
            known = [a < self.graph.first or self.graph.kind(a) == "create" for a in op.args]
            left = self.label(op.args[0]) + " " if known[0] else ""
            right = " " + self.label(op.args[1]) if known[1] else ""
            return f"{left}{sign}{right}"
        return shown_name(op.op, op.attrs)

    def operations(self, values: Iterable[int]) -> str:
        """Return the texts of operations, without duplicates."""
        values = sorted(v for v in values if (op := self.graph.op(v)) is not None and TENSORS[op.op].shown_to_users)
        return ", ".join(dict.fromkeys(self.operation(v, values) for v in values))


def expression_text(spec: KernelSpec, strategy: Strategy = DEFAULT, *, paths: Sequence[str] = ()) -> str:
    """Return the first result of a kernel as a short expression, which tells kernels of one line apart."""
    words = _Words(plan_stages(spec, host(), strategy), paths)
    text = words.expression(spec.results[0], 4) if spec.results else ""
    text = text[1:-1] if WHOLE.fullmatch(text) else text
    more = "..." if len(text) > LONG or len(spec.results) > 1 else ""
    return text[:LONG].rstrip() + more


def _tail(stages: Stages, stage: ProductStage) -> set[int]:
    """Return the operations that follow the products of a stage."""
    products = {p.product.value for p in stage.parts}
    return _below(stages, [v for v in stage.tail if v not in products], products)


def stages_text(
    spec: KernelSpec, strategy: Strategy = DEFAULT, *, paths: Sequence[str] = (), target: Target | None = None
) -> str:
    """Return the stages of a kernel for people, a line each; see `stage_texts`."""
    lines = stage_texts(spec, strategy, paths=paths, target=target)
    count = f"{len(lines)} stage{'s' if len(lines) != 1 else ''}"
    return "\n".join([f"kernel {spec.name}: {count}", *(f"  {k}  {line}" for k, line in enumerate(lines, 1))]) + "\n"


def stage_texts(
    spec: KernelSpec, strategy: Strategy = DEFAULT, *, paths: Sequence[str] = (), target: Target | None = None,
    precision: str = "float32",
) -> tuple[str, ...]:  # fmt: skip
    """Return a description of each stage of a kernel.

    Parameters
    ----------
    spec : KernelSpec
    strategy : Strategy
    paths : sequence of str
        The paths of the program's shared values (``p.w``); without them operands have their names in the kernel.
    target : Target, optional
        The CPU; by default this machine's.
    precision : str
        Of products, as `plan_stages` has it.
    """
    stages = plan_stages(spec, target or host(), strategy, precision)
    words = _Words(stages, paths)
    lines = []
    if stages.gathered:
        lines.append(f"gather {', '.join(map(words.label, stages.gathered))} into rows")
    for stage in stages.stages:
        if isinstance(stage, ProductStage):
            names = ", ".join(words.product(p.product.value) for p in stage.parts)
            tail = words.operations(_tail(stages, stage))
            head = f"matmul{'s' if len(stage.parts) > 1 else ''} {names}"
            head += " in bf16" if any(p.product.form == "bf16" for p in stage.parts) else ""
            lines.append(f"{head} with tail: {tail}" if tail else head)
        else:
            kind = (
                "nodes of one matrix together"
                if stage.grouped is not None
                else "tiles of rows"
                if stage.lead
                else "loops"
            )
            halves = any(v in stages.products and stages.products[v].form == "bf16" for v in stage.values)
            kind += " in bf16" * halves
            lines.append(f"{kind}: {words.operations(_computed(stages, stage)) or 'copy'}")
    return tuple(lines)


def fusion_notes(
    spec: KernelSpec, strategy: Strategy = DEFAULT, *, paths: Sequence[str] = (), target: Target | None = None,
    precision: str = "float32",
) -> tuple[Note, ...]:  # fmt: skip
    """Return notes for the user's lines: which other lines' operations are in the same stage; see `stage_texts`."""
    stages = plan_stages(spec, target or host(), strategy, precision)
    words = _Words(stages, paths)
    out: list[Note] = []
    for v, product in stages.products.items():
        if product.form == "bf16":
            text = f"{words.product(v)}: factors are rounded to bf16, the sum is float32"
            out.append(Note(loc=_loc(stages, [v]), kind="rounded", text=text, option="precision"))
    for stage in stages.stages:
        if isinstance(stage, ProductStage):
            out += _product_notes(stages, stage, words)
            continue
        if stage.grouped is not None:
            text = f"{words.product(stage.grouped.value)} for all nodes with the same matrix, which is read once"
            out.append(Note(loc=_loc(stages, [stage.grouped.value]), kind="fused", text=text, option="fuse"))
            continue
        if stage.lead:
            out += _tile_notes(stages, stage, words)
            continue
        named = {v for v in _computed(stages, stage) if words.operations([v])}
        lines = _by_line(stages, named)
        if sum(map(len, lines.values())) > 1:
            for key, values in lines.items():
                others = sorted({line for file, line in lines if (file, line) != key})
                rest = f" with line{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}" if others else ""
                text = f"{words.operations(values)} in one stage over a node's rows{rest}"
                out.append(Note(loc=_loc(stages, values), kind="fused", text=text, option="fuse"))
    return tuple(out)


def _tile_notes(stages: Stages, stage: RowStage, words: _Words) -> Iterator[Note]:
    first, *_ = stage.items
    for values in _by_line(stages, _computed(stages, stage)).values():
        if what := words.operations(values):
            text = f"{what} for some rows at a time: {words.product(first.values[0])} is never stored whole"
            yield Note(loc=_loc(stages, values), kind="fused", text=text, option="fuse")


def _product_notes(stages: Stages, stage: ProductStage, words: _Words) -> Iterator[Note]:
    products = [p.product for p in stage.parts]
    head = ", ".join(words.product(p.value) for p in products)
    for values in _by_line(stages, _tail(stages, stage)).values():
        text = f"{words.operations(values)} in the panels of {head}, before they leave the cache"
        yield Note(loc=_loc(stages, values), kind="fused", text=text, option="fuse")
    for p in products:
        for what, alike in (
            ("left operand", [q for q in products if q is not p and q.pieces == p.pieces]),
            ("weight", [q for q in products if q is not p and q.matrix == p.matrix]),
        ):
            if alike:
                others = ", ".join(words.product(q.value) for q in alike)
                text = f"{words.product(p.value)} is one stage with {others}: the {what} is read once"
                yield Note(loc=_loc(stages, [p.value]), kind="fused", text=text, option="horizontal")


def _by_line(stages: Stages, values: Iterable[int]) -> Mapping[tuple[str, int], list[int]]:
    out: dict[tuple[str, int], list[int]] = {}
    for v in sorted(values):
        loc = _loc(stages, [v])
        if loc.line:
            out.setdefault((loc.file, loc.line), []).append(v)
    return out


def _loc(stages: Stages, values: Sequence[int]) -> Loc:
    op = stages.graph.op(values[0])
    assert op is not None
    return op.loc
