"""Products of a vector and a large matrix that other nodes may have, too: experts, of which each node has chosen one.

In: the product of a `RowStage` that is `grouped`. Out: statements of one function. A warp has some rows of the matrix
in registers, and the vectors of the nodes that have it stream past, as rows stream past a shared weight. A block has
the rows of its warps, and a share of the nodes. For that, the block sorts the nodes of a window by the addresses of
their matrices; nodes with other matrices in between would cost time only. What a lane adds and how lanes are added is
as in `SimtWriter.sums_of_rows`, so the bits of a node do not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.emit import tree
from acronumba.emit.simt import WARP, device
from acronumba.emit.tree import I32, I64, Expr, Load, Local, const, convert, intrinsic, select
from acronumba.kernels.cuda.streamed import divided
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.cuda.writer import TOGETHER, WARPS, Grid, SimtWriter
from acronumba.kernels.stages.index import ZERO, Index, Poly
from acronumba.kernels.stages.tasks import Product, Stages
from acronumba.kernels.write.element import DTYPES

WINDOW = THREADS  # nodes that are sorted at a time
HELD = 128  # terms of a matrix that a lane holds at most
LONGEST = 1024  # terms of a vector: those of a block's warps lie in shared memory
AT_ONCE = 8  # keys that a thread compares with its own at once
LAST = (1 << 31) - 1  # a key behind all others
ADDRESS = 23  # bits of an address in a key, in units of 64 bytes; below are those of the thread


def rows_of(stages: Stages, product: Product) -> int:
    """Return the rows of the matrix that a warp holds; 0 if the product is not of this kind."""
    graph = stages.graph
    (terms,), made = graph.shape(product.right), graph.shape(product.value)
    known = isinstance(terms, int) and len(made) == 1 and isinstance(made[0], int)
    if product.how != "transposed" or not known or graph.dtype(product.value) != "float32":
        return 0
    assert isinstance(terms, int)
    if not 0 < terms <= LONGEST:
        return 0
    rows = TOGETHER
    while rows * -(-terms // WARP) > HELD:
        rows //= 2
    return rows


class Matrices:
    """Writes the product of a stage.

    Parameters
    ----------
    w
        Of the function.
    product
        The product.
    """

    def __init__(self, w: SimtWriter, product: Product) -> None:
        self.w, self.product, self.v = w, product, product.value
        self.rows = rows_of(w.stages, product)
        (made,), (terms,) = w.graph.shape(product.value), w.graph.shape(product.right)
        assert isinstance(made, int) and isinstance(terms, int)
        self.made, self.terms = made, terms
        self.panels = -(-made // (self.rows * WARPS))
        self.apart = -(-terms // WARP) * WARP * 4  # bytes from one vector to the next in shared memory
        self.ty = DTYPES["float32"].ty.vector(WARP)

    def grid(self) -> Grid:
        """Return the grid: blocks for all rows of a matrix, as often as there are nodes to share out."""
        return Grid(1, 1, panels=self.panels)

    def write(self) -> None:
        """Write the function: shares of blocks, windows of nodes, and the nodes of a share."""
        w, f = self.w, self.w.f
        w.note_names([self.v])
        blocks = w.bind("blocks", device("blocks", type=I64))
        self.thread = w.thread()
        self.warp = w.local("warp_at", self.thread >> (WARP.bit_length() - 1))
        tables_end = (4 + 3 * 8) * THREADS
        size = tables_end + self.apart * WARPS
        memory = w.local("memory", device("block_memory", const(size, I64), type=I64))
        self.keys, tables = memory, [w.local("table", memory + (4 + 8 * k) * THREADS) for k in range(3)]
        self.vectors = w.local("vectors", memory + tables_end)
        groups = w.local("groups", divided(blocks, const(self.panels, I64)))
        f.set(groups, select(groups < 1, 1, groups))
        units = w.local("units", groups * self.panels)
        u = w.local("u", device("block", type=I64))
        with f.while_(u < units), w.scope():
            group = w.local("group", divided(u, const(self.panels, I64)))
            panel = w.local("panel", u - group * self.panels)
            first = w.local("first", (panel * WARPS + self.warp) * self.rows)
            with w.loop("window", 0, f["nodes"], WINDOW) as window:
                left = f["nodes"] - window
                many = w.local("many", select(left < WINDOW, left, WINDOW))
                f.do(device("meet"))
                self.sort(window, many, groups, tables)
                f.do(device("meet"))
                start = w.local("start", divided(many * group, groups))
                stop = w.local("stop", divided(many * (group + 1), groups))
                with w.when(start < stop):
                    self.nodes(first, start, stop, tables)
            f.set(u, u + blocks)

    def sort(self, window: Expr, many: Local, groups: Expr, tables: Sequence[Local]) -> None:
        """Write tables of a window's nodes, of their matrices and vectors, by the addresses of matrices."""
        w, f, thread = self.w, self.w.f, self.thread
        matrix, vector = w.local("matrix_at", const(0, I64)), w.local("vector_at", const(0, I64))
        key = w.local("key", const(LAST, I32))
        with w.anew(), w.when(thread < many):
            w.at_node(w.local("r", window + thread), None)
            place = Index(w.graph.shape(self.product.left), (ZERO, ZERO))
            f.set(matrix, w.address(self.product.left, place))
            f.set(vector, w.address(self.product.right, Index((self.terms,), (ZERO,))))
            f.set(key, convert(((matrix >> 6) & ((1 << ADDRESS) - 1)) << 8 | thread, I32))
        w.home_depth = 0
        f.store_lanes(self.keys + thread * 4, key)
        f.do(device("meet"))
        rank = w.local("rank", thread)
        with w.when(many > groups):  # else there is one node in each share
            before = w.local("before", const(0, I32))
            with w.loop("k", 0, many, AT_ONCE) as k:
                others = [w.local("other", Load(self.keys + k * 4 + 4 * n, I32)) for n in range(AT_ONCE)]
                for other in others:
                    f.set(before, before + select(other < key, const(1, I32), 0))
            f.set(rank, convert(before, I64))
        with w.when(thread < many):
            for table, x in zip(tables, (window + thread, matrix, vector), strict=True):
                f.store(table + rank * 8, 0, x)

    def nodes(self, first: Local, start: Local, stop: Local, tables: Sequence[Local]) -> None:
        """Write the products of a warp's rows with the vectors of nodes, of which warps fetch one each at a time."""
        w, f = self.w, self.w.f
        rows, pieces = range(self.rows), range(0, self.terms, WARP)
        held = [[w.local("weight", const(0.0, self.ty)) for _ in pieces] for _ in rows]
        current = w.local("current", const(0, I64))
        with w.loop("chunk", start, stop, WARPS) as chunk, w.anew():
            mine = w.local("mine", chunk + self.warp)
            at = w.local("vector", tree.load(tables[2] + select(mine < stop, mine, stop - 1) * 8))
            found = [w.local("x", self.piece(at, k)) for k in pieces]
            f.do(device("meet"))
            to = w.local("to", self.vectors + self.warp * self.apart)
            for k, x in zip(pieces, found, strict=True):
                f.store_lanes(to + k * 4, x)
            f.do(device("meet"))
            end = w.local("end", select(chunk + WARPS < stop, chunk + WARPS, stop))
            with w.loop("n", chunk, end) as n, w.anew():
                f.do(device("warp_is_whole"))
                matrix = w.local("matrix", tree.load(tables[1] + n * 8))
                with w.when(matrix.ne(current)):
                    f.set(current, matrix)
                    for r in rows:
                        row = self.row(matrix, first + r)
                        for k, weight in zip(pieces, held[r], strict=True):
                            f.set(weight, self.piece(row, k))
                here = w.local("here", self.vectors + (n - chunk) * self.apart)
                sums = [w.local("c", const(0.0, self.ty)) for _ in rows]
                for number, k in enumerate(pieces):
                    x = w.local("x", Load(here + k * 4 if k else here, self.ty))
                    for r in rows:
                        f.set(sums[r], intrinsic("fma", held[r][number], x, sums[r]))
                total = w.sum_of_lanes(sums)
                w.at_node(w.local("node", tree.load(tables[0] + n * 8)), None)
                place = Index((self.made,), (ZERO if self.made == 1 else Poly.of(first.name),))
                w.symbols[first.name] = first
                w.put_rows(self.v, place, total, first, self.rows)
        w.home_depth = 0

    def row(self, matrix: Expr, number: Expr) -> Local:
        """Return the address of a row of the matrix, the last one where there is none."""
        if self.made % (self.rows * WARPS):
            number = select(number < self.made, number, self.made - 1)
        return self.w.local("row", matrix + number * (self.product.step * DTYPES["float32"].size))

    def piece(self, at: Local, k: int) -> Load:
        """Return a load of the lanes' terms from the `k`-th on."""
        left = const(self.terms - k, I64) if k + WARP > self.terms else None
        return Load(at + k * 4 if k else at, self.ty, left)
