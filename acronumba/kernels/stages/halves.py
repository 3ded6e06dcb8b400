"""Products in bf16 on a CPU: float32 factors are rounded to their upper halves, and sums are float32.

In: a `KernelSpec`. Out: a specification in which the left operands of products that tiles compute are rounded, in
pieces where they are concatenated: products with shared weights, and of two matrices of a node. The right operand is
rounded where it is packed (`kernels.tiles.PairPacking`, `kernels.write.matrices`).
"""

from __future__ import annotations

from dataclasses import replace

from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand
from acronumba.kernels.stages.weights import weight

DTYPE = "bf16"
FEWEST = 4  # rows of a product of two matrices of a node that tiles compute


def is_of_halves(spec: KernelSpec, op: KernelOp) -> bool:
    """Whether an operation multiplies rounded factors."""
    return op.op == "matmul" and any(_source(spec, a).dtype == DTYPE for a in op.args)


def in_halves(spec: KernelSpec) -> KernelSpec:
    """Return the kernel with products in bf16."""
    return _Rounded(spec).spec()


def rounds(spec: KernelSpec, op: KernelOp) -> bool:
    """Whether the factors of an operation are rounded by `in_halves`."""
    return _Rounded(spec).left(op) is not None


def _source(spec: KernelSpec, v: int) -> Operand | KernelOp:
    first = len(spec.operands)
    return spec.operands[v] if v < first else spec.body[v - first]


class _Rounded:
    """Writes the operations of a kernel again."""

    def __init__(self, spec: KernelSpec) -> None:
        self.given, self.first = spec, len(spec.operands)
        self.body: list[KernelOp] = []
        self.now = list(range(self.first))  # the number of each value
        self.halves: dict[int, int] = {}  # ... and of it rounded

    def spec(self) -> KernelSpec:
        for op in self.given.body:
            left = self.left(op)
            args = [self.half(a, op) if k == left else self.now[a] for k, a in enumerate(op.args)]
            self.now.append(self.add(replace(op, args=tuple(args))))
        return replace(self.given, body=tuple(self.body), results=tuple(self.now[v] for v in self.given.results))

    def add(self, op: KernelOp) -> int:
        self.body.append(op)
        return self.first + len(self.body) - 1

    def left(self, op: KernelOp) -> int | None:
        """Return which argument of a product that tiles compute has the rows; None for others."""
        spec = self.given
        if op.op != "matmul" or {op.dtype, *(_source(spec, a).dtype for a in op.args)} != {"float32"}:
            return None
        x, y = op.args
        if weight(spec, y) is not None:
            return 0
        rows, matrix = _source(spec, x).shape, _source(spec, y).shape
        if len(matrix) == 1:
            return 1 if weight(spec, x) is not None else None
        many = len(rows) > 1 and (isinstance(rows[-2], Dim) or rows[-2] >= FEWEST)
        return 0 if many and not self.shared(x) else None

    def shared(self, v: int) -> bool:
        """Whether a value depends on shared operands alone, so that each node would round them again."""
        todo = [v]
        while todo:
            source = _source(self.given, todo.pop())
            if isinstance(source, Operand):
                if source.kind != "shared":
                    return False
            else:
                todo += source.args
        return True

    def half(self, v: int, product: KernelOp) -> int:
        """Return the number of a value rounded; pairs of terms lie in one piece of a concatenation."""
        if v not in self.halves:
            source = _source(self.given, v)
            op = source if isinstance(source, KernelOp) else None
            if op is not None and op.op == "concat" and op.attrs[0] == len(op.shape) - 1 and self.in_pairs(op):
                made = replace(op, args=tuple(self.half(a, product) for a in op.args), dtype=DTYPE)
            else:
                made = KernelOp("cast", (self.now[v],), (), DTYPE, source.shape, source.name, -1, product.loc)
            self.halves[v] = self.add(made)
        return self.halves[v]

    def in_pairs(self, op: KernelOp) -> bool:
        """Whether each piece but the last has an even number of terms."""
        sizes = [_source(self.given, a).shape[-1] for a in op.args[:-1]]
        return all(isinstance(n, int) and n % 2 == 0 for n in sizes)
