"""Recursion refactoring (Cortex): a call computes the matrix product of its result for its caller.

In: a typed `Program`. Out: the same, in which `p.w @ np.concatenate([encode(t.left), encode(t.right)])` is a sum: a
copy of `encode` for left children returns the product of its result with the left half of `p.w`, and one for right
children likewise. So the products of all leaves are one large batch, however deep their parents are. (Fegade et al.,
"Cortex: a compiler for recursive deep learning models", MLSys 2021, section 3.)

The order of summation stays: a product is cut between two operands only where a chunk of `CHUNK` terms ends, and only
if each part that is added to another is one chunk. So the bits do not change. Nothing can fail that could not before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.value_flow import components
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.notes import Note
from acronumba.ir.spec import CHUNK
from acronumba.ir.types import TensorT
from acronumba.ir.visit import Names, copied, numbered, reads
from acronumba.records import record


@record()
class Weight:
    """Columns of a shared matrix that multiplies a vector, or rows of one that a vector is multiplied with."""

    index: int  # of `Program.shared`
    axis: int  # of the terms of the sum: 1 if the vector stands behind the matrix
    first: int
    terms: int
    results: int
    dtype: str

    def taken(self, names: Names, like: ir.Op) -> ir.Op:
        """Return the operation that slices the matrix out of the shared tensor."""
        shape, starts = [self.results, self.results], [0, 0]
        shape[self.axis], starts[self.axis] = self.terms, self.first
        out = names.temporary(TensorT(self.dtype, tuple(shape)))
        args, attrs = (ir.SharedArg(self.index),), (tuple(starts), (1, 1))
        return replace(like, out=out, op="slice", args=args, attrs=attrs, shape=tuple(shape), site=-1)

    def product(self, names: Names, x: ir.Var, like: ir.Op) -> list[ir.Instr]:
        """Return instructions that multiply a vector with the matrix; the last one has the result."""
        matrix = self.taken(names, like)
        out = names.temporary(TensorT(self.dtype, (self.results,)))
        args = (matrix.out, x) if self.axis else (x, matrix.out)
        product = replace(like, out=out, op="matmul", args=args, attrs=(), shape=(self.results,), site=-1)
        return [matrix, product]


@record()
class _Product:
    """A matrix product whose vector is made of pieces."""

    op: ir.Op
    pieces: tuple[tuple[ir.Var, Weight], ...]  # with the part of the matrix that each is multiplied with


Moved = frozenset[tuple[int, Weight]]  # results of a call that come as their products


def refactor(program: ir.Program) -> tuple[ir.Program, tuple[Note, ...]]:
    """Return the program whose recursive calls compute products of their results, and notes."""
    moving = _Moving(program)
    number = 0
    while number < len(moving.functions):  # copies come behind
        moving.function(number)
        number += 1
    if not moving.notes:
        return program, ()
    return replace(program, functions=tuple(moving.functions)), tuple(dict.fromkeys(moving.notes))


class _Moving:
    def __init__(self, program: ir.Program) -> None:
        self.shared = program.shared
        self.functions = list(program.functions)
        self.names = {f.name for f in program.functions}
        self.copies: dict[tuple[int, Moved], int] = {}
        self.notes: list[Note] = []
        calls = [
            {i.function for b in f.blocks for i in b.instrs if isinstance(i, ir.Call | ir.Spawn)}
            for f in program.functions
        ]
        self.recursive = {
            k for part in components(calls) for k in part if len(part) > 1 or part[0] in calls[part[0]]
        }  # fmt: skip

    def function(self, number: int) -> None:
        """Rewrite a function so that calls of recursive functions return products."""
        function = self.functions[number]
        made = definitions(function)
        used = Counter(v for b in function.blocks for i in (*b.instrs, b.end) for v in reads(i))
        products = self.products(function, made, used)
        of = {v: (p, w) for p in products for v, w in p.pieces if used[v] == 1}
        calls: dict[ir.Call, tuple[dict[ir.Var, ir.Var], int]] = {}
        names = Names(function)
        for call in (i for b in function.blocks for i in b.instrs if isinstance(i, ir.Call)):
            moved = {k: of[v][1] for k, v in enumerate(call.outs) if v in of and self.makes(call.function, k, of[v][1])}
            if moved:
                outs = {call.outs[k]: names.temporary(TensorT(w.dtype, (w.results,))) for k, w in moved.items()}
                calls[call] = outs, self.copy(call.function, frozenset(moved.items()))
                self.told(call, [of[call.outs[k]] for k in moved])
        if calls:
            self.functions[number] = self.rewritten(function, calls, products, names)

    def products(
        self, function: ir.Function, made: Mapping[ir.Var, ir.Instr], used: Mapping[ir.Var, int]
    ) -> list[_Product]:
        """Return the matrix products of a function that may be sums of products of the pieces of their vector."""
        found = []
        for op in (i for b in function.blocks for i in b.instrs if isinstance(i, ir.Op) and i.op == "matmul"):
            for axis in (0, 1):
                x, weight = op.args[axis], self.weight(op.args[1 - axis], axis, made)
                if weight is not None and isinstance(x, ir.Var) and _vector(x, weight.dtype) and used[x] == 1:
                    whole = made.get(x)
                    joined = isinstance(whole, ir.Op) and whole.op == "concat"
                    pieces = whole.args if joined else (x,)  # type: ignore[union-attr]
                    if parts := _parts(weight, pieces):
                        found.append(_Product(op, parts))
        return found

    def weight(self, a: ir.Var | ir.SharedArg, axis: int, made: Mapping[ir.Var, ir.Instr]) -> Weight | None:
        """Return a shared matrix, or a part of one, or one of these transposed, whose terms lie along an axis."""
        t = self.shared[a.index].type if isinstance(a, ir.SharedArg) else a.type
        if not isinstance(t, TensorT) or t.rank != 2 or not t.dtype.startswith("float"):
            return None
        terms, results, first = t.shape[axis], t.shape[1 - axis], 0
        while isinstance(a, ir.Var):
            view = made.get(a)
            if not isinstance(view, ir.Op) or view.op not in ("transpose", "slice"):
                return None
            if view.op == "transpose":
                axis = 1 - axis
            else:
                starts, steps = view.attrs
                assert isinstance(starts, tuple)
                if steps != (1, 1) or starts[1 - axis] != 0 or not isinstance(starts[axis], int):
                    return None
                first += starts[axis]
            (a,) = view.args
        whole = self.shared[a.index].type
        assert isinstance(whole, TensorT)
        if not isinstance(terms, int) or not isinstance(results, int) or whole.shape[1 - axis] != results:
            return None
        return Weight(a.index, axis, first, terms, results, t.dtype)

    def makes(self, number: int, result: int, weight: Weight) -> bool:
        """Whether a function is recursive, and makes a vector that fits on every path that returns."""
        if number not in self.recursive:
            return False
        returned = [b.end.args[result] for b in self.functions[number].blocks if isinstance(b.end, ir.Return)]
        return all(_vector(v, weight.dtype) and v.type.shape == (weight.terms,) for v in returned)  # type: ignore[union-attr]

    def copy(self, number: int, moved: Moved) -> int:
        """Return the number of the copy of a function that returns products of some results."""
        key = number, moved
        if key not in self.copies:
            function = self.functions[number]
            self.copies[key] = len(self.functions)
            self.recursive.add(len(self.functions))
            self.functions.append(copied(_returning(function, dict(moved)), numbered(function.name, self.names)))
        return self.copies[key]

    def rewritten(
        self, function: ir.Function, calls: Mapping[ir.Call, tuple[dict[ir.Var, ir.Var], int]],
        products: Iterable[_Product], names: Names,
    ) -> ir.Function:  # fmt: skip
        """Return the function with calls of copies, and sums in place of products."""
        outs = {v: y for mine, _ in calls.values() for v, y in mine.items()}
        sums = {p.op: p for p in products if any(v in outs for v, _ in p.pieces)}
        blocks = []
        for block in function.blocks:
            out: list[ir.Instr] = []
            for i in block.instrs:
                if isinstance(i, ir.Call) and i in calls:
                    mine, copy = calls[i]
                    out.append(replace(i, function=copy, outs=tuple(mine.get(v, v) for v in i.outs)))
                elif isinstance(i, ir.Op) and i in sums:
                    out += _sum(sums[i], outs, names)
                else:
                    out.append(i)
            blocks.append(replace(block, instrs=tuple(out)))
        return remove_dead(replace(function, blocks=tuple(blocks)))

    def told(self, call: ir.Call, moved: Iterable[tuple[_Product, Weight]]) -> None:
        name = self.functions[call.function].loc.function
        for product, weight in moved:
            path = self.shared[weight.index].path
            text = (
                f"a copy of `{name}` returns its result's product with `{path}`, which line {product.op.loc.line} adds"
            )
            self.notes.append(Note(loc=call.loc, kind="refactored", text=text, option=""))


def _vector(v: object, dtype: str) -> bool:
    return isinstance(v, ir.Var) and isinstance(v.type, TensorT) and v.type.dtype == dtype and v.type.rank == 1


def _parts(weight: Weight, pieces: Iterable[ir.Var | ir.SharedArg]) -> tuple[tuple[ir.Var, Weight], ...]:
    """Return pairs of a vector's piece and the weight to multiply it with; () if the order of sums would change."""
    out, at = [], 0
    for v in pieces:
        if not _vector(v, weight.dtype):
            return ()
        assert isinstance(v, ir.Var) and isinstance(v.type, TensorT)
        (n,) = v.type.shape
        if n is None or (at and (at % CHUNK or n > CHUNK)):
            return ()
        out.append((v, replace(weight, first=weight.first + at, terms=n)))
        at += n
    return tuple(out) if at == weight.terms else ()


def _sum(product: _Product, outs: Mapping[ir.Var, ir.Var], names: Names) -> list[ir.Instr]:
    """Return instructions that add the products of the pieces, of which calls have computed some (`outs`)."""
    like, made, total = product.op, list[ir.Instr](), None
    for v, weight in product.pieces:
        y = outs.get(v)
        if y is None:
            made += weight.product(names, v, like)
            last = made[-1]
            assert isinstance(last, ir.Op)
            y = last.out
        if total is not None:
            add = replace(like, out=names.temporary(like.out.type), op="add", args=(total, y), attrs=(), site=-1)
            made.append(add)
            y = add.out
        total = y
    assert total is not None  # a copy: where there is one piece, a product that has moved would move on without end
    return [*made, ir.Copy(out=like.out, src=total, loc=like.loc)]


def _returning(function: ir.Function, moved: Mapping[int, Weight]) -> ir.Function:
    """Return the function with products in place of some results."""
    names = Names(function)
    blocks = []
    for block in function.blocks:
        instrs, end = list(block.instrs), block.end
        if isinstance(end, ir.Return):
            args = list(end.args)
            for k, weight in moved.items():
                like = ir.Op(out=args[k], op="matmul", args=(), attrs=(), shape=(weight.results,), site=-1, loc=end.loc)
                instrs += weight.product(names, args[k], like)
                last = instrs[-1]
                assert isinstance(last, ir.Op)
                args[k] = last.out
            end = replace(end, args=tuple(args))
        blocks.append(ir.Block(instrs=tuple(instrs), end=end))
    results = tuple(
        TensorT(moved[k].dtype, (moved[k].results,)) if k in moved else w for k, w in enumerate(function.results)
    )
    return replace(function, blocks=tuple(blocks), results=results)
