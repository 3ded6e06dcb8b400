"""What a kernel computes when: which values are stored, and in which loops.

In: a `KernelSpec`. Out: `Stages`, read by `kernels.cpu`. Values are lazy: views (reshape, transpose, slice, take,
...) are index arithmetic, element-wise operations are computed inside the loops of whoever reads them. Stored are
results, reductions, products, concatenations, what a product needs in rows, and what is dear and would be computed
twice. Everything stored is a task; tasks go into stages, in the order of their dependencies:

    RowStage      for every node: nests of loops, each over one iteration space, with all stores and reductions that
                  it can hold
    ProductStage  for a block of nodes: products with shared weights in register tiles, and the element-wise tasks that
                  need only the panel of columns just computed (the tail)

Products with shared weights share a stage where their tails meet (`w @ x + u @ h`) and, as long as neither feeds the
other, where their left operands are equal (read once) or their weights are (read once). A product whose columns are
split in equal parts is computed as that many gates side by side, so that all parts meet in one panel. `Fusion` says
which of this is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from acronumba.emit.target import Target
from acronumba.ir.ops import TENSORS, VIEWS
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand, Size
from acronumba.kernels.stages.constants import fold
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, divide, reindex, size_poly
from acronumba.kernels.stages.weights import Weight, weight
from acronumba.kernels.strategy import EVERYTHING, Fusion
from acronumba.kernels.write.element import COST, DTYPES

ROWS = 48  # of products in a block of nodes: those of their left operands stay in the cache
HEAVY = 1 << 22  # bytes of weights of a kernel from which on they had better be read less often
LARGE = 4096  # elements of a matrix from which on it pays to look for nodes that have the same one
DEAR = 6  # a value that costs more is stored rather than computed twice
MOST_GATES = 6


class Untraceable(Exception):
    """A place that is not a polynomial of the loop variables."""


class Places(Protocol):
    """What index arithmetic asks of the code around it."""

    def start(self, value: object) -> Poly:
        """Return the start of a slice: a Size or ("value", k)."""

    def wide(self, size: Size) -> Poly:
        """Return 1 if the run-time extent is not 1, else 0."""

    def split(self, flat: Poly, by: Poly) -> tuple[Poly, Poly]:
        """Return quotient and remainder."""

    def taken(self, v: int, at: Index) -> Poly:
        """Return the index that the `take` that is value `v` reads for the place `at` of its index tensor."""


class Graph:
    """The values of a kernel: operands, then operations."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.first = len(spec.operands)
        self.count = self.first + len(spec.body)
        self.users: list[list[int]] = [[] for _ in range(self.count)]
        for k, op in enumerate(spec.body):
            for a in dict.fromkeys(op.args):
                self.users[a].append(self.first + k)

    def op(self, v: int) -> KernelOp | None:
        return self.spec.body[v - self.first] if v >= self.first else None

    def source(self, v: int) -> Operand | KernelOp:
        return self.spec.operands[v] if v < self.first else self.spec.body[v - self.first]

    def shape(self, v: int) -> tuple[Size, ...]:
        return self.source(v).shape

    def dtype(self, v: int) -> str:
        return self.source(v).dtype

    def kind(self, v: int) -> str:
        """Return "leaf" for operands, else the kind of `ir.ops`, with "view" for addressing other than concat."""
        op = self.op(v)
        if op is None:
            return "leaf"
        if op.op in VIEWS:
            return "view"
        return "concat" if op.op == "concat" else TENSORS[op.op].kind

    def checked(self, v: int) -> tuple[int, ...]:
        """Return the values that decide whether the operation `v` fails: what is empty fails by its shape."""
        op = self.op(v)
        return op.args if op is not None and self.kind(v) == "element" else ()

    def lookup(self, v: int) -> bool:
        """Whether `v` is a `take` whose index is known only at run time: where it reads depends on the node."""
        op = self.op(v)
        return op is not None and op.op == "take" and self.kind(op.args[1]) != "create"


def axis_of(op: KernelOp) -> int:
    """Return the axis of a `take`, `concat`, `argmax` or `argmin`."""
    (axis,) = op.attrs
    assert isinstance(axis, int)
    return axis


def axes_of(op: KernelOp) -> tuple[int, ...]:
    """Return the axes of a reduction, the order of a `transpose`."""
    (axes,) = op.attrs
    assert isinstance(axes, tuple)
    return axes


def stretch(places: Places, index: Index, shape: tuple[Size, ...]) -> Index:
    """Return the place in an argument of `shape` that is broadcast to the shape of `index`."""
    skip = len(index.shape) - len(shape)
    at = []
    for size, out, a in zip(shape, index.shape[skip:], index.at[skip:], strict=True):
        if size == out:
            at.append(a)
        elif size == 1:
            at.append(ZERO)
        else:
            at.append(a * places.wide(size) if isinstance(size, Dim) else a)
    return Index(shape, tuple(at))


def through(places: Places, graph: Graph, v: int, index: Index) -> tuple[int, Index]:
    """Return the argument of the view `v` and the place in it that the place `index` of `v` stands for."""
    op = graph.op(v)
    assert op is not None
    source = op.args[0]
    shape = graph.shape(source)
    if op.op == "reshape":
        return source, index
    own = reindex(index, op.shape, places.split)
    match op.op:
        case "transpose":
            at = [ZERO] * len(shape)
            for k, axis in enumerate(axes_of(op)):
                at[axis] = own.at[k]
        case "broadcast":
            return source, stretch(places, own, shape)
        case "slice":
            starts, steps = op.attrs
            at = [places.start(s) + a * t for s, t, a in zip(starts, steps, own.at, strict=True)]  # type: ignore[call-overload]
        case _:
            axis = axis_of(op)
            rank = len(graph.shape(op.args[1]))
            inner = Index(graph.shape(op.args[1]), own.at[axis : axis + rank])
            at = [*own.at[:axis], places.taken(v, inner), *own.at[axis + rank :]]
    return source, Index(shape, tuple(at))


class Symbolic:
    """Index arithmetic without code: opaque numbers become symbols of their own."""

    def __init__(self, extents: dict[str, Size], probe: str | None = None) -> None:
        self.extents = extents
        self.probe = probe

    def start(self, value: object) -> Poly:
        if isinstance(value, Dim | int):
            return size_poly(value)
        return Poly.of(f"?{value}")

    def wide(self, size: Size) -> Poly:
        return Poly.of(f"?wide{size}")

    def split(self, flat: Poly, by: Poly) -> tuple[Poly, Poly]:
        done = divide(flat, by, self.extents)
        if done is None:
            raise Untraceable
        return done

    def taken(self, v: int, at: Index) -> Poly:
        if at.depends(self.probe):
            raise Untraceable
        return Poly.of(f"?taken{v}{at.at}")


@dataclass(slots=True, eq=False)
class Product:
    """A matrix product and how it is computed."""

    value: int
    how: str  # "shared" | "panel" | "lanes" | "turned" | "loops"
    left: int  # shared, panel: read in rows; lanes, turned: the matrix, read in rows; also in loops if it is large
    right: int  # shared: the weight's operand; lanes, turned: the vector; also in loops if the matrix is large
    pieces: tuple[int, ...]  # of the left operand, along its last axis
    lead: tuple[Size, ...]  # shared: rows of one node
    columns: Size  # of the result
    flip: bool = False  # shared: the weight has its columns first; otherwise: the matrix lies the other way
    weight: Weight | None = None  # shared: the right operand
    step: int = 0  # of a grouped stage: elements from one row of the matrix to the next, or one column if not turned

    @property
    def matrix(self) -> tuple[object, ...]:
        """What is packed for the product: the same for products that can share it."""
        return (self.weight.operand, self.weight.steps, self.flip) if self.weight is not None else ()


@dataclass(slots=True, eq=False)
class Nest:
    """Loops over `space` with stores in the innermost one, and reductions of the axes `reduced`."""

    space: tuple[Size, ...]
    reduced: tuple[int, ...]
    stores: list[int] = field(default_factory=list)
    reductions: list[int] = field(default_factory=list)

    @property
    def values(self) -> list[int]:
        return [*self.stores, *self.reductions]


@dataclass(slots=True, eq=False)
class Single:
    """A task with loops of its own: "concat", "stack", "arg", "product" or "check" (whether the operation fails)."""

    kind: str
    value: int


@dataclass(slots=True, eq=False)
class RowStage:
    """Tasks done node by node. Or, if `grouped`, one product: nodes of a block with the same matrix are done together,
    which reads the matrix once for all of them.
    """

    items: list[Nest | Single] = field(default_factory=list)
    grouped: Product | None = None


@dataclass(slots=True, eq=False)
class Part:
    """A product of a stage: its gates, and where its columns start."""

    product: Product
    gates: int


@dataclass(slots=True, eq=False)
class ProductStage:
    lead: tuple[Size, ...]
    n: int  # columns of one gate
    parts: list[Part]
    tail: list[int]  # values stored panel by panel; the parts' own values are among them where they are stored


@dataclass(slots=True, eq=False)
class Stages:
    graph: Graph
    stored: set[int]
    products: dict[int, Product]
    stages: list[RowStage | ProductStage]
    reads: dict[int, dict[int, bool]]  # of stored values: stored values read, and whether only at the same place
    gathered: list[int]  # operands that are copied before the first stage

    @property
    def blocked(self) -> bool:
        """Whether stages run block by block, not all together node by node."""
        products = any(isinstance(s, ProductStage) or s.grouped is not None for s in self.stages)
        return products or len(self.stages) > 1 or bool(self.gathered)

    @property
    def leads(self) -> list[Poly]:
        """Rows of a node in each product stage: blocks have so many nodes that their rows stay in the cache."""
        return [count(s.lead) for s in self.stages if isinstance(s, ProductStage)]

    @property
    def rows(self) -> int:
        """Rows of products in a block of nodes: more where each block reads weights that no cache keeps."""
        size = sum(self.weight_bytes(s) for s in self.stages if isinstance(s, ProductStage))
        return ROWS if size <= HEAVY else 4 * ROWS

    def weight_bytes(self, stage: ProductStage) -> int:
        """Return the bytes of the shared weights that a stage reads."""
        total = 0
        for product in {part.product.matrix: part.product for part in stage.parts}.values():
            if product.weight is not None:
                total += (
                    product.weight.shape[0] * product.weight.shape[1] * DTYPES[self.graph.dtype(product.value)].size
                )
        return total

    def leaf(self, v: int) -> bool:
        return v < self.graph.first or v in self.stored


class Planner:
    """Makes `Stages` of a spec; see `plan_stages`."""

    def __init__(self, spec: KernelSpec, target: Target, fusion: Fusion) -> None:
        self.graph = Graph(spec)
        self.target = target
        self.fusion = fusion
        self.stored: set[int] = set(spec.results)
        self.products: dict[int, Product] = {}

    # ---- what is stored

    def leaf(self, v: int) -> bool:
        return v < self.graph.first or v in self.stored

    def beside(self, v: int, axis: int, ends: Callable[[int], bool]) -> int | None:
        """Return the first value below views, at the latest where `ends`; None if neighbours along `axis` of `v` are
        apart in it.
        """
        shape = self.graph.shape(v)
        names = [f"i{k}" for k in range(len(shape))]
        index = Index(shape, tuple(Poly.of(n) for n in names))
        probe = names[axis]
        places = Symbolic(dict(zip(names, shape, strict=True)), probe)
        try:
            while not ends(v) and self.graph.kind(v) == "view":
                v, index = through(places, self.graph, v, index)
        except Untraceable:
            return None
        return v if index.flat.slope(probe) == ONE else None

    def contiguous(self, v: int, axis: int) -> bool:
        """Whether `v` is a view of something stored with neighbours along `axis` next to each other."""
        found = self.beside(v, axis, self.leaf)
        return found is not None and self.leaf(found)

    def ordered(self, v: int, axis: int) -> int | None:
        """Return `beside` by addressing alone: what decides on bits must not depend on what is stored."""
        return self.beside(v, axis, lambda u: u < self.graph.first)

    def view(self, v: int) -> bool:
        while not self.leaf(v):
            if self.graph.kind(v) != "view":
                return False
            op = self.graph.op(v)
            assert op is not None
            v = op.args[0]
        return True

    def in_rows(self, v: int) -> tuple[int, ...]:
        """See to it that the rows of `v` lie in memory; return the pieces they consist of."""
        op = self.graph.op(v)
        if op is not None and op.op == "concat" and v not in self.stored and op.attrs[0] == len(op.shape) - 1:
            pieces = op.args
        else:
            pieces = (v,)
        for piece in pieces:
            self.in_rows_plain(piece)
        return pieces

    def product(self, v: int) -> Product:
        graph = self.graph
        op = graph.op(v)
        assert op is not None
        x, y = op.args
        sx, sy = graph.shape(x), graph.shape(y)
        floats = DTYPES[op.dtype].kind == "f" and graph.dtype(x) == graph.dtype(y) == op.dtype
        if floats and (w := weight(graph.spec, y)) is not None:
            return Product(v, "shared", x, w.operand, self.in_rows(x), sx[:-1], sy[1], flip=w.flip, weight=w)
        if floats and (w := weight(graph.spec, x)) is not None and len(sy) == 1:
            return Product(v, "shared", y, w.operand, self.in_rows(y), (), sx[0], flip=not w.flip, weight=w)
        matrix, vector = (x, y) if len(sy) == 1 else (y, x)
        large = floats and {len(sx), len(sy)} == {1, 2} and (count(graph.shape(matrix)).constant or 0) >= LARGE
        by_rows = "turned" if large else "lanes"
        if floats and len(sy) == 1 and self.ordered(x, len(sx) - 1) is not None:
            self.in_rows_plain(x)
            self.in_rows_plain(y)
            return Product(v, by_rows, x, y, (x,), (), 1)
        if floats and len(sx) == 1 and len(sy) == 2 and self.there(y) and (below := self.ordered(y, 0)) is not None:
            if not self.contiguous(y, 0):
                self.stored.add(below)
            if self.contiguous(y, 0):
                self.in_rows_plain(x)
                return Product(v, by_rows, y, x, (y,), (), 1, flip=True)
        if floats and len(sx) >= 2 and len(sy) >= 2 and (isinstance(sx[-2], Dim) or sx[-2] >= 4):
            pieces = self.in_rows(x)
            if not self.view(y):
                self.stored.add(y)
            across = self.contiguous(y, len(sy) - 2) and not self.contiguous(y, len(sy) - 1)
            return Product(v, "panel", x, y, pieces, (), sy[-1], flip=across)
        for a in (x, y):
            if not self.view(a):
                self.stored.add(a if self.ordered(a, len(graph.shape(a)) - 1) is not None else self.ground(a))
        if large:
            return Product(v, "loops", matrix, vector, (matrix,), (), 1, flip=vector == x)
        return Product(v, "loops", x, y, (x,), (), 1)

    def grouped(self, v: int) -> bool:
        """Whether nodes with the same matrix are worth finding: it is large, an operand's, read once, and its rows are
        equally far apart. What the kernel computes itself is each node's own; what it reads twice had better be in the
        cache the second time.
        """
        graph = self.graph
        product = self.products.get(v)
        if product is None or product.how not in ("turned", "loops"):
            return False
        shape = graph.shape(product.left)
        if len(shape) != 2 or len(graph.shape(product.right)) != 1 or (count(shape).constant or 0) < LARGE:
            return False
        dtypes = {graph.dtype(u) for u in (v, product.left, product.right)}
        if len(dtypes) > 1 or DTYPES[graph.dtype(v)].kind != "f":
            return False
        summed = 0 if product.flip else 1
        near = summed if product.how == "turned" else 1 - summed
        below = self.beside(product.left, near, self.leaf)
        step = self.row_step(product.left, 1 - near)
        if below is None or below >= graph.first or len(graph.users[below]) > 1 or step is None:
            return False
        if not self.contiguous(product.right, 0):
            return False
        product.step = step
        return True

    def row_step(self, matrix: int, axis: int) -> int | None:
        """Return how many elements apart neighbours along an axis are; None if that is no number."""
        names = ["i0", "i1"]
        shape = self.graph.shape(matrix)
        places = Symbolic(dict(zip(names, shape, strict=True)), names[axis])
        v, index = matrix, Index(shape, tuple(Poly.of(n) for n in names))
        try:
            while not self.leaf(v):
                v, index = through(places, self.graph, v, index)
        except Untraceable:
            return None
        step = index.flat.slope(names[axis])
        return step.constant if step is not None else None

    def ground(self, v: int) -> int:
        """Return the first value below views that is none."""
        while self.graph.kind(v) == "view":
            op = self.graph.op(v)
            assert op is not None
            v = op.args[0]
        return v

    def in_rows_plain(self, v: int) -> None:
        if not self.contiguous(v, len(self.graph.shape(v)) - 1) or not self.there(v):
            self.stored.add(v)

    def there(self, v: int) -> bool:
        """Whether a view certainly has something to be read: a computed index takes nothing of what may be empty. Where
        the index is a number, the host program has looked before there was a node.
        """
        while self.graph.kind(v) == "view":
            op = self.graph.op(v)
            assert op is not None
            if op.op == "take":
                size = self.graph.shape(op.args[0])[axis_of(op)]
                index = self.graph.source(op.args[1])
                number = index.kind == "int" if isinstance(index, Operand) else index.op == "const"
                if not number and (isinstance(size, Dim) or size == 0):
                    return False
            v = op.args[0]
        return True

    def choose(self) -> None:
        graph = self.graph
        for v in range(graph.first, graph.count):
            kinds = ["reduce", "arg", "product", "stack"]
            if not self.fusion.vertical:
                kinds += ["element", "concat"]
            together = self.fusion.vertical and self.fusion.gather
            if graph.kind(v) in kinds or (not together and graph.lookup(v)):
                self.stored.add(v)
        while True:  # what is stored may make other things contiguous
            before = set(self.stored)
            self.products = {v: self.product(v) for v in range(graph.first, graph.count) if graph.kind(v) == "product"}
            for v in range(graph.first, graph.count):
                if graph.kind(v) == "concat" and v not in self.stored:
                    as_pieces = {p.value for p in self.products.values() if p.left == v and p.pieces != (v,)}
                    if not set(graph.users[v]) <= as_pieces or any(
                        p.right == v and p.how != "shared" for p in self.products.values()
                    ):
                        self.stored.add(v)
            if self.stored == before:
                break
        self.store_dear()

    def store_dear(self) -> None:
        graph = self.graph
        level = [0] * graph.count
        cost = [0] * graph.count
        for v in range(graph.first, graph.count):
            op = graph.op(v)
            assert op is not None
            level[v] = max((level[a] for a in op.args), default=0) + (
                graph.kind(v) in ("reduce", "arg", "product", "concat", "stack")
            )
            inner = sum(0 if self.leaf(a) else cost[a] for a in op.args)
            cost[v] = min(inner + COST.get(op.op, 3), 1 << 20)
        contexts: list[set[tuple[int, tuple[Size, ...], bool]]] = [set() for _ in range(graph.count)]
        for v in reversed(range(graph.first, graph.count)):
            here = contexts[v]
            for user in graph.users[v]:
                op = graph.op(user)
                assert op is not None
                kind = graph.kind(user)
                again = (kind == "element" and self.repeats(graph.shape(v), op.shape)) or op.op in ("broadcast", "take")
                if self.leaf(user):
                    space = op.shape if kind in ("element", "view") else graph.shape(v)
                    at = level[user] - (kind in ("reduce", "arg", "product", "concat", "stack"))
                    here.add((at, space, again))
                else:
                    here.update((at, space, again or more) for at, space, more in contexts[user])
            if self.leaf(v) or graph.kind(v) not in ("element", "view") or cost[v] <= DEAR:
                continue
            op_name = graph.spec.body[v - graph.first].op
            single = count(graph.shape(v)) == ONE
            repeated = any(more for _, _, more in here) and not single
            if repeated or len({(at, space) for at, space, _ in here}) > 1:
                self.stored.add(v)
            elif here and COST.get(op_name, 0) >= DEAR - 1 and all(at > level[v] for at, _, _ in here):
                # read in a later stage: keep it instead of the products below it
                if any(u in self.products and self.products[u].how == "shared" for u in self.below(v)):
                    self.stored.add(v)

    @staticmethod
    def repeats(shape: tuple[Size, ...], out: tuple[Size, ...]) -> bool:
        """Whether broadcasting would compute an element again in an outer loop (inner ones keep it)."""
        padded = (1,) * (len(out) - len(shape)) + shape
        seen = False
        for size, wide in zip(padded, out, strict=True):
            if size != wide:
                seen = True
            elif size != 1 and seen:
                return True
        return False

    # ---- order

    def reads_of(self) -> list[dict[int, bool]]:
        """For every value: the stored values that computing it reads, and whether only at the same place."""
        graph = self.graph
        out: list[dict[int, bool]] = [{} for _ in range(graph.count)]
        for v in range(graph.first, graph.count):
            op = graph.op(v)
            assert op is not None
            args = op.args
            if v in self.products and self.products[v].how == "shared":
                args = (self.products[v].left,)
            for a in args:
                same = (graph.kind(v) == "element" and graph.shape(a) == op.shape) or (graph.kind(v) == "reduce")
                found = {a: True} if a in self.stored else {} if a < graph.first else out[a]
                for leaf, exact in found.items():
                    out[v][leaf] = out[v].get(leaf, True) and exact and same
        return out

    def fails(self) -> list[int]:
        return [self.graph.first + k for k, op in enumerate(self.graph.spec.body) if op.site >= 0]

    def run(self) -> Stages:
        self.choose()
        graph = self.graph
        reads = self.reads_of()
        stages: list[RowStage | ProductStage] = []
        done: set[int] = set()
        checks = self.fails()
        pending = [v for v in range(graph.first, graph.count) if v in self.stored]
        pending = self.alive(pending, reads, checks)
        current: RowStage | None = None
        while pending or checks:
            ready = [
                v
                for v in pending
                if reads[v].keys() <= done and not (v in self.products and self.products[v].how == "shared")
            ]
            ripe = [v for v in checks if self.check_reads(v, reads) <= done]
            if ready or ripe:
                if current is None:
                    current = RowStage()
                    stages.append(current)
                for v in ripe:
                    current.items.append(Single("check", v))
                    checks.remove(v)
                if ready:
                    item = self.nest(ready, pending, reads, done)
                    if isinstance(item, Single) and self.grouped(item.value):
                        if current.items:
                            current = RowStage()
                            stages.append(current)
                        current.grouped = self.products[item.value]
                    current.items.append(item)
                    if current.grouped is not None:
                        current = None
                    made = item.values if isinstance(item, Nest) else [item.value]
                    done.update(made)
                    pending = [v for v in pending if v not in done]
                    if not self.fusion.vertical:
                        current = None
                continue
            stage = self.product_stage(pending, reads, done)
            stages.append(stage)
            current = None
            done.update(part.product.value for part in stage.parts)
            done.update(stage.tail)
            pending = [v for v in pending if v not in done]
        operands = [] if self.fusion.gather else enumerate(graph.spec.operands)
        gathered = [v for v, o in operands if o.kind == "tensor" and graph.users[v]]
        by_value = {v: reads[v] for v in range(graph.count)}
        return Stages(graph, self.stored, self.products, stages, by_value, gathered)

    def check_reads(self, v: int, reads: list[dict[int, bool]]) -> set[int]:
        return {u for a in self.graph.checked(v) for u in ([a] if a in self.stored else reads[a])}

    def alive(self, pending: list[int], reads: list[dict[int, bool]], checks: Iterable[int]) -> list[int]:
        """Drop what no result needs."""
        needed: set[int] = set()
        todo = list(self.graph.spec.results)
        for v in checks:
            todo += self.check_reads(v, reads)
        while todo:
            v = todo.pop()
            if v not in needed:
                needed.add(v)
                todo += reads[v]
        return [v for v in pending if v in needed]

    def loops_of(self, v: int) -> tuple[tuple[Size, ...], tuple[int, ...]] | None:
        """Return iteration space and reduced axes of a task that can share a nest."""
        graph = self.graph
        op = graph.op(v)
        assert op is not None
        match graph.kind(v):
            case "element" | "view" | "create":
                return op.shape, ()
            case "reduce":
                return graph.shape(op.args[0]), axes_of(op)
        return None

    def nest(
        self, ready: Sequence[int], pending: Sequence[int], reads: list[dict[int, bool]], done: set[int]
    ) -> Nest | Single:
        v = ready[0]
        loops = self.loops_of(v)
        if loops is None:
            return Single(self.graph.kind(v), v)
        space, _ = loops
        nest = Nest(space, ())
        inside: set[int] = set()
        lanes = self.lanes(v)
        for u in pending if self.fusion.vertical else [v]:
            other = self.loops_of(u)
            if other is None or other[0] != space or self.lanes(u) != lanes:
                continue
            unmet = {x: same for x, same in reads[u].items() if x not in done}
            if any(x not in inside or not same for x, same in unmet.items()):
                continue
            if nest.values and not unmet and not self.fusion.horizontal:
                continue
            if self.graph.kind(u) == "reduce":
                if nest.reductions and other[1] != nest.reduced:
                    continue
                if nest.stores and not self.suffix(space, other[1]):
                    continue
                nest.reduced = other[1]
                nest.reductions.append(u)
            else:
                if nest.reductions and not self.suffix(space, nest.reduced):
                    continue
                nest.stores.append(u)
                inside.add(u)
        return nest

    def lanes(self, v: int) -> int:
        """Return how many elements a nest handles at once for this task."""
        widths = [DTYPES[self.graph.dtype(v)].size]
        if self.graph.kind(v) != "reduce":
            op = self.graph.op(v)
            assert op is not None
            widths += [DTYPES[self.graph.dtype(a)].size for a in op.args]
        from acronumba.emit.tree import Ty

        return self.target.lanes(Ty("i", 8 * max(4, *widths)))

    @staticmethod
    def suffix(space: tuple[Size, ...], reduced: tuple[int, ...]) -> bool:
        real = [k for k in range(len(space)) if space[k] != 1]
        axes = [k for k in reduced if space[k] != 1]
        return real[len(real) - len(axes) :] == axes

    # ---- products with shared weights

    def product_stage(self, pending: list[int], reads: list[dict[int, bool]], done: set[int]) -> ProductStage:
        ready = [v for v in pending if v in self.products and reads[v].keys() <= done]
        first = self.products[ready[0]]
        best: tuple[tuple[int, int], ProductStage] | None = None
        for n in self.widths(first, pending, reads):
            stage = self.try_stage(first, n, ready, pending, reads, done)
            score = (len(stage.tail), n)
            if best is None or score > best[0]:
                best = (score, stage)
        assert best is not None
        stage = best[1]
        computed = {part.product.value for part in stage.parts}
        fused = computed | set(stage.tail)
        needed = set(self.graph.spec.results) & computed
        for v in pending:
            if v not in fused:
                needed |= reads[v].keys() & computed
        for v in self.fails():
            needed |= self.check_reads(v, reads) & computed
        stage.tail[:0] = sorted(needed)
        return stage

    def widths(self, product: Product, pending: Sequence[int], reads: list[dict[int, bool]]) -> list[int]:
        whole = product.columns
        assert isinstance(whole, int)
        out = [whole]
        if not self.fusion.vertical:
            return out
        lanes = self.target.column_step(DTYPES[self.graph.dtype(product.value)].ty)
        for v in pending:
            if product.value in reads[v] and v not in self.products:
                shape = self.graph.shape(v)
                n = shape[-1] if shape else 0
                if isinstance(n, int) and 0 < n < whole and whole % n == 0 and whole // n <= MOST_GATES:
                    if -(-n // lanes) * (whole // n) <= 2 * -(-whole // lanes):
                        out.append(n)
        return list(dict.fromkeys(out))

    def try_stage(
        self,
        first: Product,
        n: int,
        ready: Sequence[int],
        pending: Sequence[int],
        reads: list[dict[int, bool]],
        done: set[int],
    ) -> ProductStage:
        group = [first.value]
        dtype = self.graph.dtype(first.value)

        def fits(v: int) -> bool:
            p = self.products.get(v)
            if p is None or v not in ready or p.how != "shared" or p.lead != first.lead:
                return False
            if not self.fusion.horizontal:
                return False
            whole = p.columns
            return (
                isinstance(whole, int)
                and self.graph.dtype(v) == dtype
                and whole % max(n, 1) == 0
                and (whole == n or whole // max(n, 1) <= MOST_GATES)
            )

        # What is ready depends on nothing that is not done: no product of the group feeds another.
        alike = [v for v in ready if v not in group and fits(v)]
        while joined := [v for v in alike if any(self.alike(v, u) for u in group)]:
            group += joined
            alike = [v for v in alike if v not in joined]
        tail: list[int] = []
        space = (*first.lead, n)
        changed = self.fusion.vertical
        while changed:
            changed = False
            for v in pending:
                if v in tail or self.loops_of(v) != (space, ()) or v in self.products:
                    continue
                unmet = [u for u in reads[v] if u not in done and u not in group and u not in tail]
                if any(not fits(u) for u in unmet):
                    continue
                if not any(u in group or u in unmet for u in reads[v]) and not any(u in tail for u in reads[v]):
                    continue
                if self.matches(v, n, space, {*group, *unmet}, set(tail), done):
                    group += unmet
                    tail.append(v)
                    changed = True
        parts = []
        for v in group:
            p = self.products[v]
            assert isinstance(p.columns, int)
            parts.append(Part(p, p.columns // n if n else 1))
        order = {v: k for k, v in enumerate(pending)}
        return ProductStage(first.lead, n, parts, sorted(tail, key=order.__getitem__))

    def alike(self, v: int, u: int) -> bool:
        """Whether two products read the same left operand or the same weight."""
        p, q = self.products[v], self.products[u]
        return p.pieces == q.pieces or p.matrix == q.matrix

    def matches(self, v: int, n: int, space: tuple[Size, ...], group: set[int], tail: set[int], done: set[int]) -> bool:
        """Whether the stored value `v` can be computed panel by panel: products are read at the panel's own columns."""
        names = [f"i{k}" for k in range(len(space))]
        at = tuple(ZERO if s == 1 else Poly.of(x) for s, x in zip(space, names, strict=True))
        here = Index(space, at)
        places = Symbolic(dict(zip(names, space, strict=True)), names[-1])
        seen: set[tuple[int, Index]] = set()
        op = self.graph.op(v)
        todo = [(v, here)]
        while todo:
            u, index = todo.pop()
            if (u, index) in seen:
                continue
            seen.add((u, index))
            if u != v and self.leaf(u):
                if u in group:
                    try:
                        own = reindex(index, self.graph.shape(u), places.split)
                    except Untraceable:
                        return False
                    offset = (own.at[-1] - here.at[-1]).constant
                    if own.at[:-1] != here.at[:-1] or offset is None or n == 0 or offset % n:
                        return False
                elif u in tail:
                    if index != here:
                        return False
                elif u >= self.graph.first and u not in done:
                    return False
                continue
            op = self.graph.op(u)
            if op is None or self.graph.kind(u) == "create":
                continue
            try:
                if self.graph.kind(u) == "element":
                    for a in op.args:
                        if self.graph.shape(a) == op.shape:
                            todo.append((a, index))
                        else:
                            todo.append(
                                (a, stretch(places, reindex(index, op.shape, places.split), self.graph.shape(a)))
                            )
                elif self.graph.kind(u) == "view":
                    todo.append(through(places, self.graph, u, index))
                    if op.op == "take":
                        own = reindex(index, op.shape, places.split)
                        axis, shape = axis_of(op), self.graph.shape(op.args[1])
                        todo.append((op.args[1], Index(shape, own.at[axis : axis + len(shape)])))
                else:
                    return False
            except Untraceable:
                if self.below(u) & (group | tail):
                    return False
        return True

    def below(self, v: int) -> set[int]:
        """Return the stored values under `v`."""
        out: set[int] = set()
        todo, seen = [v], {v}
        while todo:
            op = self.graph.op(todo.pop())
            for a in op.args if op is not None else ():
                if a in self.stored:
                    out.add(a)
                elif a not in seen:
                    seen.add(a)
                    todo.append(a)
        return out


def plan_stages(spec: KernelSpec, target: Target, fusion: Fusion = EVERYTHING) -> Stages:
    """Decide what the kernel stores and in which order it computes."""
    return Planner(fold(spec), target, fusion).run()
