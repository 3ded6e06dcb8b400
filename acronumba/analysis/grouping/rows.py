"""Row-wise operations over a leading run-time extent.

In: the operations of a basic block, with the extents of their operands. Out: the operations that are computed row by
row (`Rows.find`), and the operations of a group on one row (`Rows.one_row`). A node of such a kernel is as many rows as
the extent, and the rows of all nodes of a batch run together: the extent is not part of the batch's key, and `xs @ w.T`
over sentences of all lengths is one batch.

Whether an operation has rows is a column of `ir.ops.TENSORS`. Three further conditions must hold:

- Rows have the bits of the whole. A product of rows with a matrix therefore has rows only if the matrix is shared: then
  both are sums in one order. (The weight is also read once for all.)
- A row reads nothing else that has the extent, or the extent would still be in the key.
- It pays. If other operations of the block need all rows at once (a mean over them, attention), their kernel has the
  extent in its key anyway, and a kernel of rows is an additional one. Then only products with shared matrices have
  rows, with the operations that lead to them and that follow in the same kernel. Rows of a few numbers without a
  product do not pay. Nor does a product whose left operand is concatenated from slices along the rows (a convolution):
  the kernel of all rows reads the slices in place, while rows would need a copy of each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from acronumba.ir import nodes as ir
from acronumba.ir.graph import predecessors
from acronumba.ir.ops import TENSORS, Attrs, Rowwise
from acronumba.ir.spec import KernelSpec
from acronumba.ir.types import BoolT, FloatT, IntT, ListT, TensorT, Word
from acronumba.ir.visit import reads, writes
from acronumba.records import record

Shape = tuple[ir.Extent, ...]
Moved = Mapping[ir.Var, ir.Op]  # operations that are computed by whoever reads them


@record(eq=False)
class OneRow:
    """The operations of a group on one row."""

    body: tuple[ir.Op, ...]
    extents: Mapping[ir.Var, Shape]  # of the tensors from outside
    row: Mapping[ir.Var, ir.Var]  # value of all rows that the group computes -> value of one row
    whole: Mapping[ir.Var, ir.Var]  # row of a tensor, or element of a list, from outside -> the tensor or list

    def way(self, v: ir.Var) -> str:
        """Return how a row reads an argument, see `KernelSpec.rows`."""
        return "whole" if v not in self.whole else "item" if isinstance(self.whole[v].type, ListT) else "row"


@record(eq=False)
class RowOperations:
    """The row-wise operations of a block."""

    over: Mapping[int, ir.Var]  # place in the block -> the extent; equal extents are one variable
    needs: Mapping[int, set[int]]  # place in the block -> checks that prove the extents to be equal
    equal: Mapping[ir.Var, ir.Var]  # extents -> the variable that stands for all that are equal


class Rows:
    """Finds operations with rows in one function.

    Parameters
    ----------
    program, function
        Where they are.
    single
        The instruction that assigns each variable which is assigned once.
    fixed
        Variables with one value for the whole call.
    wide
        Elements of a row that is worth computing alone: `Strategy.row_elements`.
    """

    def __init__(
        self, program: ir.Program, function: ir.Function, single: Mapping[ir.Var, ir.Instr], fixed: Collection[ir.Var],
        wide: int,
    ) -> None:  # fmt: skip
        self.wide = wide
        self.program = program
        self.single = single
        self.fixed = frozenset(fixed)
        self.extents = {x for b in function.blocks for i in b.instrs if isinstance(i, ir.Op) for x in i.shape}
        self.mentioned: set[ir.Var] = set()  # in the facts of `_same_tensors` at the current instruction
        self.equal = self._same_tensors(function)
        for found, block in zip(self.equal, function.blocks, strict=True):
            found += self._checked(block.instrs)

    def _checked(self, instrs: Sequence[ir.Instr]) -> list[tuple[ir.Var, ir.Var, ir.Check | None]]:
        """Return the int variables that a block checks to be equal."""
        out: list[tuple[ir.Var, ir.Var, ir.Check | None]] = []
        for check in instrs:
            by = self.single.get(check.cond) if isinstance(check, ir.Check) else None
            if isinstance(check, ir.Check) and isinstance(by, ir.Scalar) and by.op == "eq":
                a, b = map(self.constant, by.args)
                if (
                    isinstance(a, ir.Var)
                    and isinstance(b, ir.Var)
                    and isinstance(a.type, IntT)
                    and {a, b} <= self.fixed
                ):
                    out.append((a, b, check))
        return out

    def _same_tensors(self, function: ir.Function) -> list[list[tuple[ir.Var, ir.Var, ir.Check | None]]]:
        """Return for each block the extents that it reads and that another variable holds on every path to it.

        A forward analysis, to its fixed point, of the variable that holds the extent of a tensor along an axis.
        """
        before = predecessors(function.blocks)
        out: list[list[tuple[ir.Var, ir.Var, ir.Check | None]]] = [[] for _ in function.blocks]
        after: list[Mapping[tuple[ir.Var, int], ir.Var] | None] = [None for _ in function.blocks]
        changed = True
        while changed:
            changed = False
            for k, block in enumerate(function.blocks):
                paths = [facts for p in before[k] if (facts := after[p]) is not None]
                start = paths[0] if paths and k else {}
                facts = {key: n for key, n in start.items() if all(path.get(key) is n for path in paths[1:])}
                out[k] = []
                self.mentioned = {v for (tensor, _), n in facts.items() for v in (tensor, n)}
                for instr in block.instrs:
                    self._step(instr, facts, out[k])
                if facts != after[k]:
                    after[k], changed = facts, True
        return out

    def _step(
        self,
        instr: ir.Instr,
        facts: dict[tuple[ir.Var, int], ir.Var],
        out: list[tuple[ir.Var, ir.Var, ir.Check | None]],
    ) -> None:
        new: dict[tuple[ir.Var, int], ir.Var] = {}
        match instr:
            case ir.ExtentOf():
                held = facts.get((instr.tensor, instr.axis), instr.out)
                new[instr.tensor, instr.axis] = held
                if held is not instr.out and {held, instr.out} <= self.fixed:
                    out.append((held, instr.out, None))
            case ir.Copy() if isinstance(instr.out.type, TensorT):
                new = {(instr.out, axis): n for (tensor, axis), n in facts.items() if tensor is instr.src}
            case ir.Op():
                shape = map(self.constant, instr.shape)
                new = {(instr.out, axis): n for axis, n in enumerate(shape) if isinstance(n, ir.Var)}
        if gone := self.mentioned.intersection(writes(instr)):
            for key in [key for key, n in facts.items() if key[0] in gone or n in gone]:
                del facts[key]
        facts |= new
        self.mentioned.update(v for (tensor, _), n in new.items() for v in (tensor, n))

    def constant(self, x: ir.Extent) -> ir.Extent:
        """Return the value of an extent if it is known, or else the variable that it is equal to.

        The slice `x[:, 1:]`, of all rows, has `max((n - 0 + 0) // 1, 0)` rows, which is n.
        """
        base, more = self._sum(x)
        if base is None:
            return more
        return base if more == 0 else x

    def _sum(self, x: ir.Extent) -> tuple[ir.Var | None, int]:
        """Return a variable and a number whose sum is the value of `x`."""
        if isinstance(x, int):
            return None, x
        by = self.single.get(x)
        if isinstance(by, ir.Const) and isinstance(by.value, int):
            return None, int(by.value)
        if isinstance(by, ir.Scalar) and by.op in ("add", "sub", "floordiv", "max") and isinstance(x.type, IntT):
            (a, i), (b, j) = map(self._sum, by.args)
            if not {a, b} - {None} <= self.fixed:
                return x, 0
            if by.op == "add" and (a is None or b is None):
                return a or b, i + j
            if b is None:
                if by.op == "sub":
                    return a, i - j
                if by.op == "floordiv" and j == 1:
                    return a, i
                if by.op == "max" and j == 0 and i >= 0 and a is not None and self._not_negative(a):
                    return a, i
        return x, 0

    def _not_negative(self, x: ir.Var) -> bool:
        by = self.single.get(x)
        return isinstance(by, ir.ExtentOf) or (isinstance(by, ir.ListOp) and by.op == "len") or x in self.extents

    def find(
        self,
        instrs: Sequence[ir.Instr],
        needs: Sequence[set[int]],
        dominators: Collection[int],
        moved: Moved,
        extents: Mapping[tuple[int, ir.Var], Shape],
    ) -> RowOperations:
        """Return the row-wise operations of a block.

        Parameters
        ----------
        instrs, needs
            The instructions, and for each the numbers of those that must come before it.
        dominators
            The blocks that dominate this one, itself included.
        moved
            Operations that are not among them, as those that read them compute them.
        extents
            Of operands, by the identity of the operation and the variable.
        """
        equal, proofs = self._equal(instrs, dominators)
        ops = {k: i for k, i in enumerate(instrs) if isinstance(i, ir.Op)}
        bodies = {k: operands(op, moved) for k, op in ops.items()}
        shapes = _Shapes(self, moved, extents, equal)
        over = {k: n for k, op in ops.items() if (n := self._extent(op, bodies[k], shapes)) is not None}
        for n in dict.fromkeys(over.values()):
            for k in self._not_worth(n, ops, over, bodies, shapes):
                del over[k]
        more: dict[int, set[int]] = {}
        for k, n in list(over.items()):
            more[k] = {c for c in proofs.get(n, ()) if not _depends(c, k, needs)}
            if len(more[k]) < len(proofs.get(n, ())):
                del over[k]
        return RowOperations(over=over, needs=more, equal=equal)

    def _equal(
        self, instrs: Sequence[ir.Instr], dominators: Collection[int]
    ) -> tuple[dict[ir.Var, ir.Var], dict[ir.Var, set[int]]]:
        """Return the equal extents of a block, and for each representative the checks of the block that prove it."""
        equal: dict[ir.Var, ir.Var] = {}
        places = {id(i): k for k, i in enumerate(instrs)}
        proofs: dict[ir.Var, set[int]] = defaultdict(set)
        for block in sorted(dominators):
            for a, b, check in self.equal[block]:
                a, b = equal.get(a, a), equal.get(b, b)
                if a is b:
                    continue
                if b in proofs:
                    proofs[a] |= proofs.pop(b)
                if id(check) in places:
                    proofs[a].add(places[id(check)])
                for v in [v for v in equal if equal[v] is b]:
                    equal[v] = a
                equal[b] = a
        return equal, proofs

    def _extent(self, op: ir.Op, body: Sequence[ir.Op], shapes: _Shapes) -> ir.Var | None:
        """Return the extent that an operation has rows over, if any."""
        n = shapes.of(op.shape)[0] if op.shape else None
        if not isinstance(n, ir.Var):
            return None
        for o in body:
            if shapes.leads(o.shape, n):
                if self.row_attrs(o, n, shapes) is None:
                    return None
            elif shapes.mention(o, n) or (
                o is not op and TENSORS[o.op].kind not in ("element", "view", "concat", "create")
            ):
                return None
        return n

    def row_attrs(self, op: ir.Op, n: ir.Var, shapes: _Shapes) -> Attrs | None:
        """Return the static arguments of an operation on one row; None if it has no rows."""
        shape, args = shapes.of(op.shape), shapes.args(op)
        by = tuple(bool(s) and s[0] is n for s in args)
        if n in shape[1:] or 0 in shape or any(n in s[b:] for s, b in zip(args, by, strict=True)):
            return None
        if op.op == "stack" and _item(op) is None:
            return None
        if op.op == "matmul" and by == (True, False) and len(args[0]) == len(args[1]) == 2:
            if not self._shared_matrix(op.args[1], shapes.moved):
                return None
        return TENSORS[op.op].row(Rowwise(attrs=self._static(op.attrs), args=args, by=by, shape=shape))

    def _static(self, attrs: tuple[object, ...]) -> Attrs:
        def known(x: object) -> object:
            if isinstance(x, tuple):
                return tuple(map(known, x))
            return self.constant(x) if isinstance(x, ir.Var) and isinstance(x.type, IntT) else x

        return tuple(map(known, attrs))

    def _shared_matrix(self, a: ir.Var | ir.SharedArg, moved: Moved) -> bool:
        """Whether an operand is a shared tensor or a static view of one."""
        while isinstance(a, ir.Var):
            op = moved.get(a)
            if op is None or op.op not in ("reshape", "transpose", "slice", "take"):
                return False
            if any(isinstance(self.constant(x), ir.Var) for x in reads(op) if x is not op.args[0]):
                return False
            a = op.args[0]
        return True

    def _not_worth(
        self,
        n: ir.Var,
        ops: Mapping[int, ir.Op],
        over: Mapping[int, ir.Var],
        bodies: Mapping[int, Sequence[ir.Op]],
        shapes: _Shapes,
    ) -> list[int]:
        """Return the operations over `n` that had better not have rows."""
        members = [k for k in ops if over.get(k) is n]
        others = {k for k in ops if over.get(k) is not n and any(shapes.mention(o, n) for o in bodies[k])}
        products = {
            k
            for k in members
            if ops[k].op == "matmul" and len(shapes.args(ops[k])[1]) == 2
            if self._shared_matrix(ops[k].args[1], shapes.moved)
        }
        if not others:
            wide = any(
                math.prod(x for x in s[1:] if isinstance(x, int)) >= self.wide
                or any(isinstance(x, ir.Var) for x in s[1:])
                for k in members
                for o in bodies[k]
                for s in (shapes.of(o.shape), *shapes.args(o))
                if s and s[0] is n
            )
            return [] if wide or products else members
        writer: dict[ir.Var, int] = {}
        before: dict[int, set[int]] = {}
        for k in ops:
            before[k] = {writer[a] for o in bodies[k] for a in o.args if isinstance(a, ir.Var) and a in writer}
            writer[ops[k].out] = k
        cut = {k for k in others if TENSORS[ops[k].op].kind == "view"}
        products -= {k for k in products if any(ops[p].op == "concat" and len(before[p] & cut) > 1 for p in before[k])}
        keep = products | _beside(products, set(members), before)
        for k in reversed(list(ops)):
            if k in keep:
                keep |= {p for p in before[k] if over.get(p) is n}
        return [k for k in members if k not in keep]

    def one_row(
        self,
        body: Sequence[ir.Op],
        own: Collection[ir.Op],
        wanted: Collection[ir.Var],
        found: RowOperations,
        moved: Moved,
        extents: Mapping[tuple[int, ir.Var], Shape],
    ) -> OneRow:
        """Return the operations of a group on one row.

        Parameters
        ----------
        body
            The operations of the group, in order.
        own, wanted
            The operations that no other group computes, and the variables that may be read outside of the group.
        found, moved, extents
            As for the block.
        """
        shapes = _Shapes(self, moved, extents, found.equal)
        n = shapes.of(next(iter(own)).shape)[0]
        assert isinstance(n, ir.Var)
        one = _Row(self, shapes, n, {op.out for op in body})
        for op in body:
            if not shapes.leads(op.shape, n):
                one.same(op)
            elif op.op == "stack":
                one.stack(op, stored=op.out in wanted and op in own)
            else:
                one.operation(op)
        return OneRow(body=tuple(one.out), extents=one.given, row=one.row, whole={p: v for v, p in one.parts.items()})


class _Row:
    """Builds the operations of a group on one of `n` rows."""

    def __init__(self, rows: Rows, shapes: _Shapes, n: ir.Var, inside: set[ir.Var]) -> None:
        self.rows, self.shapes, self.n, self.inside = rows, shapes, n, inside
        self.out: list[ir.Op] = []
        self.row: dict[ir.Var, ir.Var] = {}  # tensor -> its row
        self.parts: dict[ir.Var, ir.Var] = {}  # tensor or list from outside -> its row or element
        self.given: dict[ir.Var, Shape] = {}

    def part(self, v: ir.Var, type: Word) -> ir.Var:
        return self.parts.setdefault(v, ir.Var(v.name, type))

    def same(self, op: ir.Op) -> None:
        """Add an operation that is the same for all rows."""
        self.given |= {a: s for a, s in _tensors(op, self.shapes.args(op)) if a not in self.inside}
        self.out.append(op)

    def stack(self, op: ir.Op, stored: bool) -> None:
        """A row of a stack is an element of the list."""
        (items,) = op.args
        item = _item(op)
        assert isinstance(items, ir.Var) and item is not None
        self.row[op.out] = element = self.part(items, item)
        if isinstance(item, TensorT):
            self.given[element] = op.shape[1:]
        if stored:
            self.row[op.out] = self._add(op, "cast", (element,))

    def operation(self, op: ir.Op) -> None:
        """Add an operation on one row."""
        attrs = self.rows.row_attrs(op, self.n, self.shapes)
        assert attrs is not None
        args = tuple(self._arg(op, a, s) for a, s in zip(op.args, self.shapes.args(op), strict=True))
        self.row[op.out] = self._add(op, op.op, args, attrs=attrs)

    def _arg(self, op: ir.Op, a: ir.Var | ir.SharedArg, shape: Shape) -> ir.Var | ir.SharedArg:
        """Return the argument of an operation on one row, given the argument `a`, of this shape, for all rows."""
        if isinstance(a, ir.Var) and a in self.row:
            return self.row[a]
        if shape and shape[0] is self.n:
            assert isinstance(a, ir.Var) and isinstance(a.type, TensorT)
            part = self.part(a, TensorT(a.type.dtype, a.type.shape[1:]))
            self.given[part] = shape[1:]
            return part
        if isinstance(a, ir.Var) and isinstance(a.type, TensorT) and a not in self.inside:
            self.given[a] = shape
        if (TENSORS[op.op].kind == "element" or op.op == "broadcast") and len(shape) == len(op.shape):
            return self._add(replace(op, shape=shape, site=-1), "reshape", (a,), self._dtype(a))
        return a

    def _dtype(self, a: ir.Var | ir.SharedArg) -> str:
        type = self.rows.program.shared[a.index].type if isinstance(a, ir.SharedArg) else a.type
        assert isinstance(type, TensorT)
        return type.dtype

    def _add(
        self, op: ir.Op, name: str, args: tuple[ir.Var | ir.SharedArg, ...], dtype: str = "", attrs: Attrs = ()
    ) -> ir.Var:
        """Add an operation with the shape of `op` without its first axis; return its result."""
        assert isinstance(op.out.type, TensorT)
        shape = op.shape[1:]
        type = TensorT(dtype or op.out.type.dtype, tuple(x if isinstance(x, int) else None for x in shape))
        var = ir.Var(op.out.name, type)
        self.out.append(replace(op, out=var, op=name, args=args, attrs=attrs, shape=shape))
        return var


@record(eq=False)
class _Shapes:
    """Shapes of a block, with known and equal extents replaced."""

    rows: Rows
    moved: Moved
    extents: Mapping[tuple[int, ir.Var], Shape]
    equal: Mapping[ir.Var, ir.Var]

    def of(self, shape: Shape) -> Shape:
        known = map(self.rows.constant, shape)
        return tuple(self.equal.get(x, x) if isinstance(x, ir.Var) else x for x in known)

    def args(self, op: ir.Op) -> tuple[Shape, ...]:
        """Return the shapes of the arguments; a list has that of its elements stacked."""
        return tuple(self._arg(op, a) for a in op.args)

    def _arg(self, op: ir.Op, a: ir.Var | ir.SharedArg) -> Shape:
        if isinstance(a, ir.SharedArg):
            type = self.rows.program.shared[a.index].type
            assert isinstance(type, TensorT)
            return tuple(x for x in type.shape if x is not None)
        if isinstance(a.type, ListT):
            return self.of(op.shape)
        if not isinstance(a.type, TensorT):
            return ()
        return self.of(self.extents[id(op), a] if (id(op), a) in self.extents else self.moved[a].shape)

    def leads(self, shape: Shape, n: ir.Var) -> bool:
        return bool(shape) and self.of(shape)[0] is n

    def mention(self, op: ir.Op, n: ir.Var) -> bool:
        return any(n in s for s in (self.of(op.shape), *self.args(op)))


def rows_text(kernels: Sequence[KernelSpec]) -> str:
    """Return the kernels that compute rows, with their operations, as text."""
    lines = []
    for spec in kernels:
        if spec.rows is not None:
            at = sorted({op.loc.line for op in spec.body if op.loc.line})
            where = f", line{'s' if len(at) > 1 else ''} {', '.join(map(str, at))}" if at else ""
            lines.append(f"{spec.name}{where}: {', '.join(op.op for op in spec.body)}")
    return "\n".join(lines or ["no operation acts on the rows of a dynamic dimension alone"]) + "\n"


def operands(op: ir.Op, moved: Moved) -> list[ir.Op]:
    """Return the operations that a kernel with `op` computes on the way, itself last, in order."""
    out: list[ir.Op] = []
    seen: set[int] = set()

    def visit(o: ir.Op) -> None:
        if id(o) in seen:
            return
        seen.add(id(o))
        for a in o.args:
            if isinstance(a, ir.Var) and a in moved and moved[a] is not o:
                visit(moved[a])
        out.append(o)

    visit(op)
    return out


def _beside(products: set[int], members: set[int], before: Mapping[int, set[int]]) -> set[int]:
    """Return the members that read the result of a product, through members alone, and can be in its kernel.

    They cannot if a path from the product to them has an operation that is no member: its kernel would come after the
    product's, and before theirs.

    Parameters
    ----------
    products, members
        Operations with rows, by their numbers in the block.
    before
        The operations whose results each one reads, in order.
    """
    bit = {k: 1 << n for n, k in enumerate(sorted(products))}
    through: dict[int, int] = {}  # products that are reached through members alone
    apart: dict[int, int] = {}  # products between which and this one there is an operation that is no member
    for k, read in before.items():
        through[k] = apart[k] = 0
        for p in read:
            through[k] |= through[p]
            apart[k] |= apart[p]
        if k in members:
            through[k] |= bit.get(k, 0)
        else:
            apart[k] |= through[k]
            through[k] = 0
    return {k for k in members if through[k] & ~apart[k]}


def _item(op: ir.Op) -> Word | None:
    """Return the type of an element of the list that is stacked; None if stacking converts it."""
    (items,) = op.args
    assert isinstance(items, ir.Var) and isinstance(items.type, ListT) and isinstance(op.out.type, TensorT)
    match items.type.item:
        case TensorT(dtype=dtype) as item:
            return item if dtype == op.out.type.dtype else None
        case IntT() | FloatT() | BoolT() as item:
            natural = {IntT: "int64", FloatT: "float64", BoolT: "bool"}[type(item)]
            return item if natural == op.out.type.dtype else None
    return None


def _tensors(op: ir.Op, shapes: Sequence[Shape]) -> list[tuple[ir.Var, Shape]]:
    return [
        (a, s) for a, s in zip(op.args, shapes, strict=True) if isinstance(a, ir.Var) and isinstance(a.type, TensorT)
    ]


def _depends(k: int, on: int, needs: Sequence[set[int]]) -> bool:
    """Whether instruction k comes after `on` in any case."""
    todo, seen = [k], {k}
    while todo:
        for p in needs[todo.pop()] - seen:
            seen.add(p)
            todo.append(p)
    return on in seen
