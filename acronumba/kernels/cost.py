"""Cost model: the time of kernels, on which the number of threads, the parts of mini-batches and splitting depend.

In: the stages of a kernel, and the figures of a machine (`strategy.Figures`). Out: an `Estimate`. Time is

    the start of the kernel + for each block of nodes its description and the reading of its weights
    + tiles x (a call + its multiplications) + the tail of each element + bytes read and written

Register tiles keep the CPU's multipliers busy if they are high enough (`tile_time`). The tails of products, and loops,
are counted in additions of vectors (`ir.ops.TensorOp.cost`). Run-time extents are symbols: a time is a sum over
products of them. `acronumba bench --costs` compares estimates with measured times.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from acronumba.emit.target import Target, host
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim, KernelSpec, Size
from acronumba.kernels.figures import figures_for
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.passes import last_vectors, panels_of, passes_of, tile_shape
from acronumba.kernels.stages.tasks import Nest, Product, ProductStage, RowStage, Single, Stages
from acronumba.kernels.tiles import at_once, passes_over
from acronumba.kernels.write.element import DTYPES
from acronumba.operations import OwnCall
from acronumba.records import record
from acronumba.strategy import DEFAULT, Figures, Strategy

MOST = 1 << 40  # what counts: of an array with many axes of unknown extent, the guess is a number without end
GUESS = 16  # for a run-time extent
TYPICAL = Target(name="", features="", vector_bits=256, registers=16)
LATENCY = 8  # multiplications that begin before the first is done

Moving: TypeAlias = "tuple[Dim, ...]"  # run-time extents that are multiplied, sorted


class Time:
    """Nanoseconds: a sum over products of run-time extents."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Moving, float] | None = None) -> None:
        self.terms = dict(terms or {})

    def add(self, each: float, sizes: Sequence[Size | _Vectors] = ()) -> None:
        """Add a number for each element of a shape; of `_Vectors` as many as hold the elements of an axis."""
        found: dict[Moving, float] = {(): each}
        for n in sizes:
            factors = n.terms if isinstance(n, _Vectors) else {(n,): 1.0} if isinstance(n, Dim) else {(): float(n)}
            found = {_moving(a, b): x * y for a, x in found.items() for b, y in factors.items()}
        for moving, x in found.items():
            self.terms[moving] = self.terms.get(moving, 0.0) + x

    def at(self, extents: Sequence[int] | None = None) -> float:
        """Return the number for some extents; None: a guess."""
        return sum(
            x * math.prod(GUESS if extents is None else extents[n.index] for n in moving)
            for moving, x in self.terms.items()
        )


def _moving(a: Moving, b: Moving) -> Moving:
    return tuple(sorted((*a, *b), key=lambda n: n.index))


class _Vectors:
    """Number of vectors that hold the elements of an axis; for a run-time extent, half a vector is lost on average."""

    __slots__ = ("terms",)

    def __init__(self, n: Size, lanes: int) -> None:
        known = not isinstance(n, Dim)
        self.terms: dict[Moving, float] = {(): float(-(-n // lanes))} if known else {(n,): 1 / lanes, (): 0.5}  # type: ignore[operator,dict-item]


def tile_time(rows: int, vectors: int, terms: float, target: Target, figures: Figures) -> float:
    """Return the nanoseconds of a call of a register tile, `rows` x `vectors`, that adds up so many terms.

    With few rows a tile waits for weights, of which the second-level cache has half a vector of 512 bits in a cycle, or
    for the sums of the term before, for which 512 bits need half as many multiplications at a time.
    """
    cycles = 0
    for v in passes_over(vectors, target):
        waits = max(2 * v, LATENCY // 2) if target.vector_bits == 512 else max(rows + v, LATENCY)
        cycles += max(rows * v, waits)
    return figures.tile + terms * cycles * figures.multiply


@record(kw_only=True)
class TileCalls:
    """The calls of register tiles of a pass over a stage's products, for each of `panels` panels."""

    rows: int  # of the tallest tile
    members: int  # left operands that share a weight: rows of sums for each row
    vectors: tuple[int, ...]  # of each call
    terms: tuple[Time, ...]  # of each call: how many are added up
    panels: int


@record(kw_only=True)
class StageTime:
    """Time of a stage."""

    node: Time  # for each node, without calls of tiles
    rows: Time  # of products, in each node
    calls: tuple[TileCalls, ...] = ()
    weights: int = 0  # bytes that are read for each block of nodes

    def tiles(self, rows: float, extents: Sequence[int] | None, target: Target, figures: Figures) -> float:
        """Return the nanoseconds of the tiles of `rows` rows."""
        out = 0.0
        for c in self.calls:
            many = max(1, math.ceil(rows / c.rows))
            low, more = divmod(max(1, math.ceil(rows)), many)
            for height, times in ((low, many - more), (low + 1, more)):
                if times:
                    each = (
                        tile_time(height * c.members, v, k.at(extents), target, figures)
                        for v, k in zip(c.vectors, c.terms, strict=True)
                    )
                    out += times * c.panels * sum(each)
        return out

    def steady(self, target: Target, figures: Figures) -> Time:
        """Return the nanoseconds of a node among many: the tiles are as tall as they can be."""
        out = Time(self.node.terms)
        for c in self.calls:
            each = Time()
            for v, k in zip(c.vectors, c.terms, strict=True):
                fixed = tile_time(c.rows * c.members, v, 0, target, figures)
                term = tile_time(c.rows * c.members, v, 1, target, figures) - fixed
                each.add(fixed * c.panels / c.rows)
                for moving, x in k.terms.items():
                    each.add(term * x * c.panels / c.rows, moving)
            for a, x in self.rows.terms.items():
                for b, y in each.terms.items():
                    out.add(x * y, _moving(a, b))
        return out


@record(kw_only=True)
class Estimate:
    """Estimated time of a kernel on a CPU."""

    stages: tuple[StageTime, ...]
    blocked: bool  # whether it works on blocks of nodes
    block: int  # rows of a block
    target: Target
    figures: Figures

    def steady(self, number: int | None = None) -> Time:
        """Return the nanoseconds of a stage, or of all, for a node among many whose tiles are full."""
        out = Time()
        for stage in self.stages if number is None else [self.stages[number]]:
            for moving, x in stage.steady(self.target, self.figures).terms.items():
                out.terms[moving] = out.terms.get(moving, 0.0) + x
        return out

    def node(self, extents: Sequence[int] | None = None) -> float:
        """Return the nanoseconds of a node among many, with its share of the time of a block."""
        return self.steady().at(extents) + self._blocks() * self.rows(extents) / self.block

    def batch(self, groups: Iterable[tuple[Sequence[int], float]]) -> float:
        """Return the nanoseconds of a batch; pairs of run-time extents and the number of nodes with them."""
        groups = list(groups)
        rows = sum(many * self.rows(extents) for extents, many in groups)
        blocks = math.ceil(rows / self.block)
        total = self.figures.batch + blocks * self._blocks()
        for stage in self.stages:
            total += sum(many * stage.node.at(extents) for extents, many in groups)
            for extents, many in groups if stage.calls else ():
                mine = many * stage.rows.at(extents) / blocks  # of each block
                total += blocks * stage.tiles(mine, extents, self.target, self.figures)
        return total

    def rows(self, extents: Sequence[int] | None) -> float:
        """Return the number of rows of products that a node adds to its block."""
        return max([1.0, *(stage.rows.at(extents) for stage in self.stages if stage.calls)])

    def _blocks(self) -> float:
        """Return the nanoseconds that a block takes, however few its nodes are."""
        if not self.blocked:
            return 0.0
        return self.figures.block + self.figures.weights * sum(stage.weights for stage in self.stages)


def estimate(stages: Stages, target: Target) -> Estimate:
    """Return the estimated time of a kernel with these stages."""
    figures = figures_for(stages.strategy, target)
    known = tuple(_Counter(stages, target, stage).count() for stage in stages.stages)
    for v in stages.gathered if known else ():
        known[0].node.add(DTYPES[stages.graph.dtype(v)].size * (figures.read + figures.near), stages.graph.shape(v))
    return Estimate(stages=known, blocked=stages.blocked, block=stages.rows, target=target, figures=figures)


def of_kernel(
    spec: KernelSpec, strategy: Strategy = DEFAULT, target: Target | None = None, precision: str = "float32"
) -> Estimate:
    """Return the estimated time of a kernel, by default on this machine's CPU; `precision`: of products."""
    target = target or host()
    return estimate(plan_stages(spec, target, strategy, precision), target)


@functools.lru_cache(maxsize=1024)
def cost(spec: KernelSpec) -> int:
    """Estimate the nanoseconds of one node on one thread, with run-time extents unknown."""
    return int(min(of_kernel(spec).node(), MOST)) + 1


@functools.lru_cache(maxsize=1024)
def typical_cost(spec: KernelSpec) -> int:
    """Estimate the nanoseconds of a node on a typical CPU: the same number on every machine.

    The number of recorded nodes depends on it, which users see and which must not depend on the machine.
    """
    return int(min(of_kernel(spec, DEFAULT, TYPICAL).node(), MOST)) + 1


def stored_by(stage: RowStage | ProductStage) -> list[int]:
    """Return the values that a stage stores, and its products."""
    if isinstance(stage, ProductStage):
        beside = [v for item in (*stage.front, *stage.end) for v in item.values]
        return list(dict.fromkeys([*(p.product.value for p in stage.parts), *stage.tail, *beside]))
    return stage.values


class _Counter:
    """Counts the work of a stage, as time."""

    def __init__(self, stages: Stages, target: Target, stage: RowStage | ProductStage) -> None:
        self.stages, self.graph, self.stage = stages, stages.graph, stage
        self.target, self.figures = target, figures_for(stages.strategy, target)
        self.time = Time()
        self.counted: set[int] = set()

    def count(self) -> StageTime:
        """Return the time of the stage."""
        if isinstance(self.stage, ProductStage):
            return self.products(self.stage)
        f, one = self.figures, Time({(): 1.0})
        self.time.add(f.node)
        operands = {v for v in self.leaves(self.stage.values) if v < self.graph.first}
        self.time.add(f.operand * len(operands))
        for item in self.stage.items:
            if isinstance(item, Nest):
                self.nest(item)
            elif item.value in self.stages.products:
                self.product(self.stages.products[item.value])
            else:
                self.single(item)
        return StageTime(node=self.time, rows=one, weights=self.grouped_bytes())

    # ---- products with shared weights

    def products(self, stage: ProductStage) -> StageTime:
        """Count a stage of products with shared weights, and its tail on each panel."""
        f, graph = self.figures, self.graph
        dtype = graph.dtype(stage.parts[0].product.value)
        lanes = self.target.lanes(DTYPES[dtype].ty)
        each = 1 / at_once(stage.parts[0].product.form, self.target)
        calls = []
        for one in passes_of(stage, self.stages, self.target):
            panels = panels_of(one, stage.n, lanes) if stage.n else 0
            terms = []
            for call in one.calls:
                k = Time()
                for piece in call.members[0][0].product.pieces:
                    k.add(each, graph.shape(piece)[-1:])
                terms.append(k)
            form = stage.parts[0].product.form
            wide = tuple(call.gates * one.q for call in one.calls)
            last = tuple(last_vectors(one.q, call.gates, stage.n, lanes, form) for call in one.calls)
            for vectors, many in ((wide, panels),) if last == wide else ((wide, panels - 1), (last, min(panels, 1))):
                calls.append(
                    TileCalls(rows=one.rows, members=one.members, vectors=vectors, terms=tuple(terms), panels=many)
                )
            self.time.add(f.row * panels * len(one.steps), stage.lead)
        self.time.add(f.node)
        for piece in {piece for part in stage.parts for piece in part.product.pieces}:
            self.time.add(f.operand, stage.lead)
            self.load(piece, graph.shape(piece))
        inside = {part.product.value for part in stage.parts}
        self.counted |= inside
        self.values([v for v in stage.tail if v not in inside])
        for v in stage.tail:
            self.store(v)
        rows = Time()
        rows.add(1.0, stage.lead)
        return StageTime(node=self.time, rows=rows, calls=tuple(calls), weights=self.stages.weight_bytes(stage))

    # ---- loops

    def nest(self, nest: Nest) -> None:
        """Count a nest of loops: the work of the innermost, the stores, and the starts of loops."""
        f, lanes = self.figures, self.lanes(nest.values)
        vectors = (*nest.space[:-1], _Vectors(nest.space[-1], lanes)) if nest.space else ()
        self.time.add(f.loop, nest.space[:-1])
        for v in nest.reductions:
            op = self.graph.op(v)
            assert op is not None
            self.time.add(f.multiply * LATENCY / len(nest.values), vectors)
            kept = [n for k, n in enumerate(nest.space) if k not in nest.reduced]
            if nest.space and len(nest.space) - 1 in nest.reduced:
                self.time.add(f.across, kept)
            self.values(op.args)
        self.values(nest.stores)
        for v in nest.values:
            self.store(v)

    def single(self, item: Single) -> None:
        """Count a task with separate loops."""
        f, graph = self.figures, self.graph
        op = graph.op(item.value)
        assert op is not None
        if item.kind == "check":
            self.values(graph.checked(item.value))
            self.time.add(f.element, op.shape)
            return
        over = graph.shape(op.args[0]) if TENSORS[op.op].folds and op.args else op.shape
        self.time.add(f.loop, over[:-1])
        if item.kind == "concat":
            self.time.add(f.loop * len(op.args), ())
            self.time.add(f.element, self.shape_of_vectors(item.value))
        elif item.kind == "stack":
            self.time.add(f.operand + f.loop, op.shape[:1])
        elif item.kind == "own":
            call = op.attrs[0]
            assert isinstance(call, OwnCall)
            self.time.add(call.operation.nanoseconds / len(call.ranks))
        elif item.kind in ("order", "search"):
            self.time.add(f.element * 40, over)
        else:
            lanes = self.lanes([*op.args]) if item.kind == "arg" else 1
            self.time.add(f.element * 4, (*over[:-1], _Vectors(over[-1], lanes)) if over else ())
            self.time.add(f.across * 4, op.shape)
        self.values([] if item.kind == "stack" else op.args)
        if item.kind == "stack":
            self.load(op.args[0], op.shape)
        self.store(item.value)

    def product(self, product: Product) -> None:
        """Count a product of a node's local matrices."""
        f, graph = self.figures, self.graph
        op = graph.op(product.value)
        assert op is not None
        t = DTYPES[op.dtype]
        lanes, inner = self.target.lanes(t.ty), graph.shape(op.args[0])[-1]
        out, terms = op.shape, _Vectors(inner, lanes)
        grouped = isinstance(self.stage, RowStage) and self.stage.grouped is product
        if grouped:
            (n,) = out
            q, rows = tile_shape([1], n, self.target, op.dtype, self.stages.strategy)
            term = tile_time(rows, q, 1, self.target, f) - f.tile
            self.time.add(term / rows / q, (_Vectors(n, lanes), inner))
            self.time.add(f.element / rows, (_Vectors(n, lanes), inner))  # to pack the matrix
            self.time.add(f.row, (_Vectors(n, lanes),))
        elif product.how == "panel":
            q, rows = tile_shape([1], product.columns, self.target, op.dtype, self.stages.strategy)
            wide = _Vectors(product.columns, lanes)
            term = tile_time(rows, q, 1, self.target, f) - f.tile
            self.time.add(f.tile / rows / q, (*out[:-1], wide))
            self.time.add(term / rows / q, (*out[:-1], wide, inner))
            self.time.add(f.operand * len(product.pieces), out[:-1])
            self.time.add(f.element * 4, (*out[:-2], wide, inner))  # to pack the right operand
            self.time.add(f.near * lanes * t.size, (*out[:-1], wide))
        elif product.how == "lanes":
            several = min(lanes, 8) if out else 4  # sums that do not wait for each other
            self.time.add(max(2.0, LATENCY / several) * f.multiply, (*out, terms))
            self.time.add(f.across / 2, out)
        elif product.how == "transposed":
            self.time.add(4 * f.multiply, (*out, terms))
        else:
            last = (*out[:-1], _Vectors(out[-1], lanes)) if out else ()
            self.time.add(LATENCY * f.multiply, (*last, inner))
            self.time.add(f.loop, last)
        self.values([product.right] if grouped else op.args)
        self.store(product.value)

    def grouped_bytes(self) -> int:
        """Return the bytes of the matrix that nodes of a stage read together."""
        assert isinstance(self.stage, RowStage)
        if self.stage.grouped is None:
            return 0
        left = self.stage.grouped.left
        return math.prod(n for n in self.graph.shape(left) if isinstance(n, int)) * DTYPES[self.graph.dtype(left)].size

    # ---- values

    def lanes(self, values: Sequence[int]) -> int:
        """Return the number of lanes of a vector of the widest of some values."""
        return min((self.target.lanes(DTYPES[self.graph.dtype(v)].ty) for v in values), default=1)

    def shape_of_vectors(self, v: int) -> tuple[Size | _Vectors, ...]:
        shape = self.graph.shape(v)
        return (*shape[:-1], _Vectors(shape[-1], self.lanes([v]))) if shape else ()

    def values(self, roots: Iterable[int]) -> None:
        """Count the computation of values, down to stored values; each value once in a stage."""
        for v in roots:
            self.value(v)

    def value(self, v: int) -> None:
        todo = [v]
        own = {*stored_by(self.stage)}
        while todo:
            u = todo.pop()
            op = self.graph.op(u)
            if op is None or (self.stages.leaf(u) and u not in own):
                self.load(u, self.graph.shape(u))
                continue
            if u in self.counted:
                continue
            self.counted.add(u)
            row = TENSORS[op.op]
            if row.kind == "element":
                self.time.add(self.figures.element * row.cost, self.shape_of_vectors(u))
            for a in op.args:
                if row.moves and (self.graph.op(a) is None or self.stages.leaf(a)) and self.graph.shape(a):
                    shared = a < self.graph.first and self.graph.spec.operands[a].kind == "shared"
                    self.load(a, op.shape, chosen=shared and len(op.args) > 1)
                elif row.kind == "element" or row.moves:
                    todo.append(a)

    def leaves(self, roots: Iterable[int]) -> set[int]:
        """Return the operands and stored values that values are computed from."""
        out: set[int] = set()
        for v in roots:
            out |= self.stages.reads[v].keys()
        spec = self.graph.spec
        used = {a for op in spec.body for a in op.args if a < self.graph.first and spec.operands[a].kind != "shared"}
        return out | used

    def load(self, v: int, shape: Sequence[Size], chosen: bool = False) -> None:
        """Count the bytes of elements that are read; `chosen`: of a shared array, where an index says."""
        if v >= self.graph.first:
            if v not in self.counted:
                self.time.add(self.figures.near * DTYPES[self.graph.dtype(v)].size, shape)
            return
        self.time.add((self.figures.table if chosen else self.figures.read) * DTYPES[self.graph.dtype(v)].size, shape)

    def store(self, v: int) -> None:
        """Count the bytes of a value that is stored."""
        each = self.figures.write if v in self.graph.spec.results else self.figures.near
        self.time.add(each * DTYPES[self.graph.dtype(v)].size, self.graph.shape(v))
