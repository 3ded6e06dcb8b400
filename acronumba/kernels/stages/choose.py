"""Choice of the values that a kernel stores, and of the method of each product.

In: the values of a kernel. Out: a `Chooser`, with the stored values: results, reductions, products, concatenations,
operands that a product needs in rows, and expensive values that would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from acronumba.emit.target import Target
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim, KernelSpec, Operand, Size
from acronumba.kernels import lookups
from acronumba.kernels.stages.codes import is_of_codes
from acronumba.kernels.stages.graph import Graph, Place, Places, Symbolic, Untraceable, arguments, axis_of, through
from acronumba.kernels.stages.halves import FEWEST, is_of_halves
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count
from acronumba.kernels.stages.tasks import Product
from acronumba.kernels.stages.weights import Weight, weight
from acronumba.kernels.write.element import DTYPES
from acronumba.strategy import Strategy

# Elements of a matrix from which on it pays to look for nodes that have the same one. It decides on the order of sums.
LARGE = 4096


class Chooser:
    """Chooses the stored values and the methods of products."""

    def __init__(self, spec: KernelSpec, target: Target, strategy: Strategy) -> None:
        self.graph = Graph(spec)
        self.target = target
        self.strategy = strategy
        self.stored: set[int] = set(spec.results)
        self.products: dict[int, Product] = {}

    def leaf(self, v: int) -> bool:
        return v < self.graph.first or v in self.stored

    def beside(self, v: int, axis: int, ends: Callable[[int], bool]) -> int | None:
        """Follow views down to the first value that is no view or for which `ends` is true, and return it.

        None if neighbours along `axis` of `v` are apart in it.
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
        """Whether `v` is a view of a stored value, in which neighbours along `axis` of `v` are adjacent."""
        found = self.beside(v, axis, self.leaf)
        return found is not None and self.leaf(found)

    def ordered(self, v: int, axis: int) -> int | None:
        """Return `beside` down to operands: the order of a sum must not depend on what is stored."""
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
        """Ensure that the rows of `v` are in memory; return the pieces that they consist of."""
        op = self.graph.op(v)
        pieces: tuple[int, ...] = (v,)
        if op is not None and op.op == "concat" and v not in self.stored and op.attrs[0] == len(op.shape) - 1:
            # a tile of a GPU has rows of several nodes, whose pieces must be equally long
            if not (self.target.warps and any(isinstance(self.graph.shape(a)[-1], Dim) for a in op.args)):
                pieces = op.args
        for piece in pieces:
            self.piece_in_rows(piece)
        return pieces

    def in_columns(self, v: int) -> tuple[int, ...] | None:
        """Ensure that the columns of a matrix lie beside each other in memory; return its pieces, or None."""
        op, (terms, columns) = self.graph.op(v), self.graph.shape(v)
        if not (isinstance(terms, int) and isinstance(columns, int) and terms * columns):
            return None
        pieces = op.args if op is not None and op.op == "concat" and v not in self.stored and not op.attrs[0] else (v,)
        for piece in pieces:
            if not self.contiguous(piece, 1) or not self.there(piece) or not self.row_step(piece, 0):
                self.stored.add(piece)
        return pieces

    def terms(self, v: int) -> tuple[int, ...]:
        """Return the pieces of a right operand that is concatenated along the axis of the sum, if tiles pack it from
        them; else the operand itself.
        """
        op = self.graph.op(v)
        if op is None or op.op != "concat" or v in self.stored or op.attrs[0] != len(op.shape) - 2:
            return (v,)
        rows = all(self.view(a) and self.contiguous(a, len(op.shape) - 1) for a in op.args)
        return op.args if rows and not self.target.warps else (v,)

    def product(self, v: int) -> Product:
        graph = self.graph
        op = graph.op(v)
        assert op is not None
        x, y = op.args
        sx, sy = graph.shape(x), graph.shape(y)
        floats = DTYPES[op.dtype].kind == "f" and graph.dtype(x) == graph.dtype(y) == op.dtype
        halves = is_of_halves(graph.spec, op)
        tiles = floats or halves or (is_of_codes(graph.spec, op) and not self.target.warps)
        dtype = "bf16" if halves else op.dtype
        if tiles and (w := weight(graph.spec, y)) is not None:
            form = self.form(w, w.flip, sy[1], dtype)
            return Product(v, "shared", x, w.operand, self.in_rows(x), sx[:-1], sy[1], w.flip, w, form=form)
        if tiles and (w := weight(graph.spec, x)) is not None and len(sy) == 1:
            form = self.form(w, not w.flip, sx[0], dtype)
            return Product(v, "shared", y, w.operand, self.in_rows(y), (), sx[0], not w.flip, w, form=form)
        if floats and op.dtype == "float32" and len(sy) == 2 and (w := weight(graph.spec, x)) is not None:
            if self.target.warps and (pieces := self.in_columns(y)) is not None:
                steps = tuple(self.row_step(piece, 0) or 0 for piece in pieces)
                return Product(v, "shared", y, w.operand, pieces, sy[1:], sx[0], not w.flip, w, form=dtype, steps=steps)
        matrix, vector = (x, y) if len(sy) == 1 else (y, x)
        large = floats and {len(sx), len(sy)} == {1, 2} and (count(graph.shape(matrix)).constant or 0) >= LARGE
        by_rows = "transposed" if large else "lanes"
        if floats and len(sy) == 1 and self.ordered(x, len(sx) - 1) is not None:
            self.piece_in_rows(x)
            self.piece_in_rows(y)
            return Product(v, by_rows, x, y, (x,), (), 1)
        if floats and len(sx) == 1 and len(sy) == 2 and self.there(y) and (below := self.ordered(y, 0)) is not None:
            if not self.contiguous(y, 0):
                self.stored.add(below)
            if self.contiguous(y, 0):
                self.piece_in_rows(x)
                return Product(v, by_rows, y, x, (y,), (), 1, flip=True)
        many = len(sx) >= 2 and len(sy) >= 2 and (isinstance(sx[-2], Dim) or sx[-2] >= FEWEST)
        if (floats or halves) and many:
            if self.target.warps:  # whose loops read one left operand
                self.piece_in_rows(x)
            pieces = (x,) if self.target.warps else self.in_rows(x)
            terms = (y,) if halves else self.terms(y)
            if terms == (y,) and not self.view(y):
                self.stored.add(y)
            across = self.contiguous(y, len(sy) - 2) and not self.contiguous(y, len(sy) - 1)
            return Product(v, "panel", x, y, pieces, (), sy[-1], flip=across, terms=terms, form=dtype)
        for a in (x, y):
            if not self.view(a):
                self.stored.add(a if self.ordered(a, len(graph.shape(a)) - 1) is not None else self.ground(a))
        if large:
            return Product(v, "loops", matrix, vector, (matrix,), (), 1, flip=vector == x)
        return Product(v, "loops", x, y, (x,), (), 1)

    def form(self, weight: Weight, flip: bool, columns: Size, dtype: str) -> str:
        """Return the form of the tiles of a product with a shared weight, whose columns come first if `flip`."""
        operand = self.graph.spec.operands[weight.operand]
        few = dtype == "int32" and 0 < operand.pool <= lookups.NUMBERS and operand.shape[2:] == (lookups.GROUP,)
        whole = flip and [step.op for step in weight.steps] == ["reshape"] and weight.shape[0] == operand.shape[0]
        many = isinstance(columns, int) and columns >= self.strategy.lookups
        return "lookups" if few and whole and many and self.target.lookups else dtype

    def grouped(self, v: int) -> bool:
        """Whether finding nodes with the same matrix pays: the matrix is large, an operand, read once, and its rows
        are equally far apart. A matrix that the kernel computes differs from node to node; one that it reads twice
        should be in the cache the second time.
        """
        graph = self.graph
        product = self.products.get(v)
        if product is None or product.how not in ("transposed", "loops"):
            return False
        shape = graph.shape(product.left)
        if len(shape) != 2 or len(graph.shape(product.right)) != 1 or (count(shape).constant or 0) < LARGE:
            return False
        dtypes = {graph.dtype(u) for u in (v, product.left, product.right)}
        if len(dtypes) > 1 or DTYPES[graph.dtype(v)].kind != "f":
            return False
        summed = 0 if product.flip else 1
        near = summed if product.how == "transposed" else 1 - summed
        below = self.beside(product.left, near, self.leaf)
        step = self.row_step(product.left, 1 - near)
        if below is None or below >= graph.first or len(graph.users[below]) > 1 or step is None:
            return False
        if not self.contiguous(product.right, 0):
            return False
        product.step = step
        return True

    def evenly(self, matrix: int) -> bool:
        """Whether rows of a matrix lie equally far apart, and its columns: neighbours of one of them in one piece."""
        if not self.there(matrix) or not any(
            self.contiguous(matrix, len(self.graph.shape(matrix)) - k) for k in (1, 2)
        ):
            return False
        shape = self.graph.shape(matrix)
        names = [f"i{k}" for k in range(len(shape))]
        v, index = (
            matrix,
            Index(shape, tuple(ZERO if n == 1 else Poly.of(x) for n, x in zip(shape, names, strict=True))),
        )
        places = Symbolic(dict(zip(names, shape, strict=True)))
        try:
            while not self.leaf(v):
                v, index = through(places, self.graph, v, index)
        except Untraceable:
            return False
        return all(index.flat.slope(name) is not None for name in names[-2:])

    def row_step(self, matrix: int, axis: int) -> int | None:
        """Return the stride of an axis in elements; None if it is not constant."""
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

    def piece_in_rows(self, v: int) -> None:
        if not self.contiguous(v, len(self.graph.shape(v)) - 1) or not self.there(v):
            self.stored.add(v)

    def there(self, v: int) -> bool:
        """Whether a view can be read: no computed index takes elements of an axis that may be empty. If the index is a
        number, the host program has checked it before it recorded the node.
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
            apart = not self.strategy.vertical and graph.kind(v) in ("element", "concat")
            together = self.strategy.vertical and self.strategy.gather
            if graph.has(v).stored or apart or (not together and graph.lookup(v)):
                self.stored.add(v)
            op = graph.op(v)
            if op is not None and graph.kind(v) in ("order", "search") and not self.view(op.args[0]):
                self.stored.add(op.args[0])
            if op is not None and graph.kind(v) == "own":
                self.stored.update(a for a in op.args if graph.shape(a) and not self.leaf(a))
        while True:  # a stored value may make others contiguous
            before = set(self.stored)
            self.products = {v: self.product(v) for v in range(graph.first, graph.count) if graph.kind(v) == "product"}
            for v in range(graph.first, graph.count):
                if graph.kind(v) == "concat" and v not in self.stored:
                    if not set(graph.users[v]) <= {p.value for p in self.products.values() if p.in_pieces(v)}:
                        self.stored.add(v)
            if self.stored == before:
                break
        self.store_dear()

    def store_dear(self) -> None:
        graph, chosen = self.graph, self.strategy
        level = [0] * graph.count
        cost = [0] * graph.count
        for v in range(graph.first, graph.count):
            op = graph.op(v)
            assert op is not None
            level[v] = max((level[a] for a in op.args), default=0) + graph.has(v).loops
            inner = sum(0 if self.leaf(a) else cost[a] for a in op.args)
            cost[v] = min(inner + TENSORS[op.op].cost, 1 << 20)
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
                    at = level[user] - graph.has(user).loops
                    here.add((at, space, again))
                else:
                    here.update((at, space, again or more) for at, space, more in contexts[user])
            if self.leaf(v) or graph.kind(v) not in ("element", "view"):
                continue
            if cost[v] <= (chosen.dear if self.reads_arrays(v) else chosen.dear_places):
                continue
            op_name = graph.spec.body[v - graph.first].op
            single = count(graph.shape(v)) == ONE
            repeated = any(more for _, _, more in here) and not single
            if repeated or len({(at, space) for at, space, _ in here}) > 1:
                self.stored.add(v)
            elif here and TENSORS[op_name].cost >= chosen.dear - 1 and all(at > level[v] for at, _, _ in here):
                # read in a later stage: keep it instead of the products below it
                if any(u in self.products and self.products[u].how == "shared" for u in self.below(v)):
                    self.stored.add(v)

    def reads_arrays(self, v: int) -> bool:
        """Whether computing a value reads arrays."""
        todo, seen = [v], {v}
        while todo:
            u = todo.pop()
            if self.leaf(u):
                if self.graph.shape(u) or u in self.stored:
                    return True
                continue
            op = self.graph.op(u)
            todo += [a for a in op.args if a not in seen] if op is not None else []
            seen.update(todo)
        return False

    @staticmethod
    def repeats(shape: tuple[Size, ...], out: tuple[Size, ...]) -> bool:
        """Whether broadcasting would recompute an element in an outer loop (inner loops reuse it)."""
        padded = (1,) * (len(out) - len(shape)) + shape
        seen = False
        for size, wide in zip(padded, out, strict=True):
            if size != wide:
                seen = True
            elif size != 1 and seen:
                return True
        return False

    def leaves(self, places: Iterable[Place], by: Places) -> Iterator[tuple[int, Index | None]]:
        """Yield the operands and stored values that places are computed from, and the indices read, or None."""
        seen: set[Place] = set()
        todo = [*places]
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            v, index = place
            if self.leaf(v):
                yield v, index
                continue
            try:
                todo += arguments(by, self.graph, v, index)
            except Untraceable:
                yield from ((u, None) for u in self.below(v))

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
