"""Products of a row of a small shared table are rows of the product of the whole table.

In: a program whose shared operands are known (`analysis.sharing.share`). Out: the program in which `p.w @ p.embed[k]`,
with `p.embed` of at most `Strategy.table_rows` rows (kinds of nodes, letters, symbols, actions), is row `k` of
`p.embed @ p.w.T`; likewise `p.embed[k] @ p.w`, and element-wise results of such a row, numbers and shared vectors. The
table of products is the same for all instances, so `analysis.sharing.per_batch` computes it before any of them runs,
and again only when its weights have changed. A lookup replaces the product.

The same numbers are summed in the same order, so the bits do not change. Nothing can fail that could not before: the
index has been checked where the row is read. Larger tables stay: a mini-batch may need few of their rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.sharing.per_batch import same_for_all
from acronumba.config import Options
from acronumba.ir import nodes as ir
from acronumba.ir.graph import fixed_variables
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import BoolT, FloatT, IntT, TensorT
from acronumba.ir.visit import Names
from acronumba.records import record
from acronumba.strategy import Strategy


@record()
class _Row:
    """A variable that is row `index` of a table."""

    index: ir.Var
    table: ir.Var | ir.SharedArg
    rows: int
    made: tuple[ir.Op, ...]  # operations that compute the table, if not in the program yet
    product: bool  # whether a matrix product is in it


def embed_then_project(program: ir.Program, options: Options) -> ir.Program:
    """Return the program that looks up products of rows of small shared tables.

    Parameters
    ----------
    program
        Before grouping, with its shared operands known.
    options
        `reuse`, `hoist`: both are needed. `strategy`: how many rows a table has at most.
    """
    if not (options.reuse and options.hoist):
        return program
    functions = tuple(
        _Tables(program, f, free, options.decisions).run()
        for f, free in zip(program.functions, same_for_all(program, options), strict=True)
    )
    return replace(program, functions=functions)


class _Tables:
    def __init__(self, program: ir.Program, function: ir.Function, free: Iterable[ir.Var], strategy: Strategy) -> None:
        self.strategy = strategy
        self.program, self.function = program, function
        self.free = frozenset(free)
        self.fixed = fixed_variables(function)
        self.rows: dict[ir.Var, _Row] = {}
        self.names = Names(function)
        self.found = False

    def run(self) -> ir.Function:
        blocks = []
        for block in self.function.blocks:
            out: list[ir.Instr] = []
            for instr in block.instrs:
                out += self.instr(instr) if isinstance(instr, ir.Op) and instr.out in self.fixed else [instr]
            blocks.append(ir.Block(instrs=tuple(out), end=block.end))
        if not self.found:
            return self.function
        return remove_dead(replace(self.function, blocks=tuple(blocks)))

    def instr(self, op: ir.Op) -> list[ir.Instr]:
        """Return the instructions that replace an operation."""
        row = self.row(op)
        if row is None:
            return [op]
        self.rows[op.out] = row
        if not row.product:
            return [op]
        self.found = True
        self.rows[op.out] = replace(row, made=())
        look = replace(op, op="take", args=(row.table, row.index), attrs=(0,), site=-1)
        return [*row.made, look]

    def row(self, op: ir.Op) -> _Row | None:
        """Return the result of an operation as a row of a table, or None if it is not one."""
        if op.site >= 0 or op.out in self.free:
            return None
        if op.op == "take":
            table, index = op.args
            shape = self.shape(table)
            if op.attrs != (0,) or shape is None or len(shape) != 2 or not self.number(index):
                return None
            if shape[0] > self.strategy.table_rows:
                return None
            assert isinstance(index, ir.Var)
            return _Row(index, table, shape[0], (), False)
        rows = {self.rows[a] for a in op.args if isinstance(a, ir.Var) and a in self.rows}
        if len({(r.index, r.rows) for r in rows}) != 1 or len(op.shape) != 1 or not isinstance(op.shape[0], int):
            return None
        if op.op == "matmul":
            return self.product(op)
        if TENSORS[op.op].kind == "element" and all(self.fits(a) for a in op.args):
            return self.computed(op, op.args, op.op, op.attrs, op.shape[0])
        return None

    def product(self, op: ir.Op) -> _Row | None:
        x, y = op.args
        matrix = self.shape(x) or self.shape(y)
        if not self.strategy.takes("once", op.loc):
            return None
        assert isinstance(op.out.type, TensorT)
        if matrix is None or len(matrix) != 2 or not op.out.type.dtype.startswith("float"):
            return None
        if {self.dtype(x), self.dtype(y)} != {op.out.type.dtype}:
            return None
        if isinstance(y, ir.Var) and y in self.rows:  # matrix @ row: the table times the matrix, transposed
            transposed = self.names.temporary(TensorT(op.out.type.dtype, matrix[::-1]))
            made = replace(op, out=transposed, op="transpose", args=(x,), attrs=((1, 0),), shape=matrix[::-1], site=-1)
            out = self.computed(op, (y, transposed), "matmul", op.attrs, matrix[0])
            return replace(out, made=(made, *out.made), product=True)
        return replace(self.computed(op, (x, y), "matmul", op.attrs, matrix[1]), product=True)

    def computed(
        self, op: ir.Op, args: tuple[ir.Var | ir.SharedArg, ...], name: str, attrs: tuple[object, ...], n: int
    ) -> _Row:
        """Return a row of the table that `op` computes from the tables of the rows among its arguments."""
        rows = [self.rows[a] for a in args if isinstance(a, ir.Var) and a in self.rows]
        whole = tuple(self.rows[a].table if isinstance(a, ir.Var) and a in self.rows else a for a in args)
        assert isinstance(op.out.type, TensorT)
        shape = (rows[0].rows, n)
        out = self.names.temporary(TensorT(op.out.type.dtype, shape))
        made = dict.fromkeys(m for r in rows for m in r.made)
        last = replace(op, out=out, op=name, args=whole, attrs=attrs, shape=shape)
        return _Row(rows[0].index, out, rows[0].rows, (*made, last), any(r.product for r in rows))

    def fits(self, a: ir.Var | ir.SharedArg) -> bool:
        """Whether an operand of an element-wise operation is a row, a shared vector, or a number that is shared."""
        if isinstance(a, ir.Var) and a in self.rows:
            shape: object = a.type.shape if isinstance(a.type, TensorT) else None
            return isinstance(shape, tuple) and len(shape) == 1
        if isinstance(a, ir.Var) and isinstance(a.type, IntT | FloatT | BoolT):
            return False
        known = self.shape(a)
        return known is not None and len(known) <= 1

    def shape(self, a: ir.Var | ir.SharedArg) -> tuple[int, ...] | None:
        """Return the shape of a value that is the same for all instances; None for others."""
        if isinstance(a, ir.Var) and a not in self.free:
            return None
        t = self.program.shared[a.index].type if isinstance(a, ir.SharedArg) else a.type
        if not isinstance(t, TensorT):
            return None
        known = tuple(n for n in t.shape if n is not None)
        return known if len(known) == len(t.shape) else None

    def dtype(self, a: ir.Var | ir.SharedArg) -> str:
        t = self.program.shared[a.index].type if isinstance(a, ir.SharedArg) else a.type
        return t.dtype if isinstance(t, TensorT) else ""

    def number(self, index: ir.Var | ir.SharedArg) -> bool:
        """Whether an index is one number that does not change in the call."""
        if not isinstance(index, ir.Var) or index not in self.fixed or index in self.free:
            return False
        return isinstance(index.type, IntT) or (isinstance(index.type, TensorT) and index.type.shape == ())
