"""Recursion refactoring (Cortex): a call computes the matrix product of its result for its caller.

In: a typed `Program`. Out: the same, in which `p.w @ np.concatenate([encode(t.left), encode(t.right)])` is a sum: a
copy of `encode` for left children returns the product of its result with the left half of `p.w`, and one for right
children likewise. So the products of all leaves are one large batch, however deep their parents are. (Fegade et al.,
"Cortex: a compiler for recursive deep learning models", MLSys 2021, section 3.)

It pays if a function has two such calls or more, so that half of the calls are leaves, and if the product takes much
longer than storing its result (`_Moving.pays`). With one call in each step, such as a list, all but one call wait for
another, and nothing is gained; nor is it by the product of a caller outside of the recursion: that is one batch anyway.

The order of summation stays: a sum is cut between two operands only where a chunk of `CHUNK` terms ends, and what is
added to the first part comes in vectors of one chunk each. So the bits do not change. A cut elsewhere would need an
order of its own, and whether there is a cut depends on the types of the whole mini-batch: the bits of an instance would
depend on its company. Nothing can fail that could not before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.value_flow import components
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.notes import Note
from acronumba.ir.spec import CHUNK
from acronumba.ir.types import TensorT
from acronumba.ir.visit import Names, copied, numbered, reads
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy


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


Weights: TypeAlias = "tuple[Weight, ...]"  # that consecutive parts of a vector are multiplied with


@record()
class _Product:
    """A matrix product whose vector is made of pieces."""

    op: ir.Op
    pieces: tuple[tuple[ir.Var, Weights], ...]  # with the parts of the matrix that each is multiplied with


Moved = frozenset[tuple[int, Weights]]  # results of a call that come as their products


def refactor(program: ir.Program, strategy: Strategy = DEFAULT) -> tuple[ir.Program, tuple[Note, ...]]:
    """Return the program whose recursive calls compute products of their results, and notes."""
    moving = _Moving(program, strategy)
    number = 0
    while number < len(moving.functions):  # copies come behind
        moving.function(number)
        number += 1
    if not moving.notes:
        return program, ()
    return replace(program, functions=tuple(moving.functions)), tuple(dict.fromkeys(moving.notes))


class _Moving:
    def __init__(self, program: ir.Program, strategy: Strategy) -> None:
        self.strategy = strategy
        self.shared = program.shared
        self.functions = list(program.functions)
        self.names = {f.name for f in program.functions}
        self.copies: dict[tuple[int, Moved], int] = {}
        self.notes: list[Note] = []
        calls = [
            {i.function for b in f.blocks for i in b.instrs if isinstance(i, ir.Call | ir.Spawn)}
            for f in program.functions
        ]
        self.recursion = {  # the recursion that a function is part of, by the number of one of its functions
            k: part[0] for part in components(calls) for k in part if len(part) > 1 or k in calls[k]
        }

    def function(self, number: int) -> None:
        """Rewrite a function so that calls of recursive functions return products."""
        function = self.functions[number]
        made = definitions(function)
        used = Counter(v for b in function.blocks for i in (*b.instrs, b.end) for v in reads(i))
        calls = {v: (i, k) for i in made.values() if isinstance(i, ir.Call) for k, v in enumerate(i.outs)}
        outs: dict[ir.Var, tuple[ir.Var, ...]] = {}
        moved: dict[ir.Call, dict[int, Weights]] = defaultdict(dict)
        names, sums = Names(function), dict[ir.Op, _Product]()
        for product in self.products(function, made, used):
            mine = [(*calls[v], v, w) for v, w in product.pieces if v in calls and used[v] == 1]
            mine = [one for one in mine if self.makes(number, one[0].function, one[1], one[3])]
            mine = [one for one in mine if self.strategy.takes("refactored", one[0].loc)]
            if len(mine) > 1:
                sums[product.op] = product
                for call, k, v, weights in mine:
                    moved[call][k] = weights
                    outs[v] = tuple(names.temporary(TensorT(w.dtype, (w.results,))) for w in weights)
                    self.told(call, product, weights[0])
        if sums:
            copies = {call: self.copy(call.function, frozenset(given.items())) for call, given in moved.items()}
            self.functions[number] = _rewritten(function, copies, outs, sums, names)

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
                    parts = _parts(weight, pieces)
                    if parts and self.pays(weight, sum(len(weights) for _, weights in parts)):
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

    def pays(self, weight: Weight, vectors: int) -> bool:
        """Whether a product takes much longer than storing it in so many vectors."""
        s = self.strategy
        stored = s.split_node + s.split_byte * weight.results * np.dtype(weight.dtype).itemsize
        return s.split_multiply * weight.terms * weight.results >= s.split_worth * vectors * stored

    def makes(self, caller: int, number: int, result: int, weights: Weights) -> bool:
        """Whether functions are of one recursion, of which one makes a vector that fits on every path that returns."""
        if caller not in self.recursion or self.recursion[caller] != self.recursion.get(number):
            return False
        shape, dtype = (sum(w.terms for w in weights),), weights[0].dtype
        returned = [b.end.args[result] for b in self.functions[number].blocks if isinstance(b.end, ir.Return)]
        return all(_vector(v, dtype) and v.type.shape == shape for v in returned)  # type: ignore[union-attr]

    def copy(self, number: int, moved: Moved) -> int:
        """Return the number of the copy of a function that returns products of some results."""
        key = number, moved
        if key not in self.copies:
            function = self.functions[number]
            self.copies[key] = len(self.functions)
            self.recursion[len(self.functions)] = self.recursion[number]
            self.functions.append(copied(_returning(function, dict(moved)), numbered(function.name, self.names)))
        return self.copies[key]

    def told(self, call: ir.Call, product: _Product, weight: Weight) -> None:
        name, path = self.functions[call.function].loc.function, self.shared[weight.index].path
        text = f"a copy of `{name}` returns its result's product with `{path}`, which line {product.op.loc.line} adds"
        self.notes.append(Note(loc=call.loc, kind="refactored", text=text, option=""))


def _rewritten(
    function: ir.Function, copies: Mapping[ir.Call, int], outs: Mapping[ir.Var, tuple[ir.Var, ...]],
    sums: Mapping[ir.Op, _Product], names: Names,
) -> ir.Function:  # fmt: skip
    """Return the function with calls of copies, and sums in place of products."""
    blocks = []
    for block in function.blocks:
        out: list[ir.Instr] = []
        for i in block.instrs:
            if isinstance(i, ir.Call) and i in copies:
                mine = tuple(y for v in i.outs for y in outs.get(v, (v,)))
                out.append(replace(i, function=copies[i], outs=mine))
            elif isinstance(i, ir.Op) and i in sums:
                out += _sum(sums[i], outs, names)
            else:
                out.append(i)
        blocks.append(replace(block, instrs=tuple(out)))
    return remove_dead(replace(function, blocks=tuple(blocks)))


def _vector(v: object, dtype: str) -> bool:
    return isinstance(v, ir.Var) and isinstance(v.type, TensorT) and v.type.dtype == dtype and v.type.rank == 1


def _parts(weight: Weight, pieces: Iterable[ir.Var | ir.SharedArg]) -> tuple[tuple[ir.Var, Weights], ...]:
    """Return pairs of a vector's piece and the weights to multiply it with; () if the order of sums would change."""
    out, at = [], 0
    for v in pieces:
        if not _vector(v, weight.dtype):
            return ()
        assert isinstance(v, ir.Var) and isinstance(v.type, TensorT)
        (n,) = v.type.shape
        if n is None or at % CHUNK:
            return ()
        step = CHUNK if at else max(n, 1)
        cuts = ((k, min(step, n - k)) for k in range(0, n, step))
        out.append((v, tuple(replace(weight, first=weight.first + at + k, terms=m) for k, m in cuts)))
        at += n
    return tuple(out) if at == weight.terms and all(weights for _, weights in out) else ()


def _products(weights: Weights, names: Names, v: ir.Var, like: ir.Op) -> tuple[list[ir.Instr], list[ir.Var]]:
    """Return instructions that multiply the parts of a vector with weights, and their results."""
    made, out, at = list[ir.Instr](), [], 0
    for w in weights:
        x = v
        if len(weights) > 1:
            x = names.temporary(TensorT(w.dtype, (w.terms,)))
            attrs = ((at,), (1,))
            made.append(replace(like, out=x, op="slice", args=(v,), attrs=attrs, shape=(w.terms,), site=-1))
        made += w.product(names, x, like)
        last = made[-1]
        assert isinstance(last, ir.Op)
        out.append(last.out)
        at += w.terms
    return made, out


def _sum(product: _Product, outs: Mapping[ir.Var, tuple[ir.Var, ...]], names: Names) -> list[ir.Instr]:
    """Return instructions that add the products of the pieces, of which calls have computed some (`outs`)."""
    like, made, total = product.op, list[ir.Instr](), None
    for v, weights in product.pieces:
        given: Iterable[ir.Var] = outs.get(v, ())
        if not given:
            more, given = _products(weights, names, v, like)
            made += more
        for y in given:
            if total is not None:
                add = replace(like, out=names.temporary(like.out.type), op="add", args=(total, y), attrs=(), site=-1)
                made.append(add)
                y = add.out
            total = y
    assert total is not None
    return [*made, ir.Copy(out=like.out, src=total, loc=like.loc)]


def _returning(function: ir.Function, moved: Mapping[int, Weights]) -> ir.Function:
    """Return the function with products in place of some results."""
    names = Names(function)
    blocks = []
    for block in function.blocks:
        instrs, end = list(block.instrs), block.end
        if isinstance(end, ir.Return):
            args: list[ir.Var] = []
            for k, v in enumerate(end.args):
                like = ir.Op(out=v, op="matmul", args=(), attrs=(), shape=(), site=-1, loc=end.loc)
                more, given = _products(moved[k], names, v, like) if k in moved else ([], [v])
                instrs += more
                args += given
            end = replace(end, args=tuple(args))
        blocks.append(ir.Block(instrs=tuple(instrs), end=end))
    results = tuple(
        t for k, old in enumerate(function.results)
        for t in ([TensorT(w.dtype, (w.results,)) for w in moved[k]] if k in moved else [old])
    )  # fmt: skip
    return replace(function, blocks=tuple(blocks), results=results)
