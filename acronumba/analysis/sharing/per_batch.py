"""Per-batch constants: values that are the same for all instances are computed once per mini-batch.

In: a program whose shared operands are known (`analysis.sharing.share`). Out: the program in which the results of
operations on shared tensors, shared numbers and constants alone are shared tensors themselves (`find_per_batch`), and
their computations (`Computed`), which run in order before any instance. `p.a @ p.b` is then a weight like any other.

Per-batch constants are these results, without views of them (transposed, sliced: kernels read views in place):

  - operands of a matrix product, because the order of summation of a product depends on whether an operand is shared:
    that must not depend on an option that keeps the bits;
  - values that leave the tensor operations (an argument of a call, a loop's value on entry, an element of a list),
    views and constants as well: every instance would have to make them;
  - with `hoist`, operands of other operations; not element-wise results of which nodes read a row
    (`np.tanh(p.embed)[k]`): a kernel computes that row alone.

Values that cost nothing are not worth memory: other constants (zeros, 2.0) and views stay in the kernels that read
them. A value that may fail (an index out of range, except bytes into 256 rows or more), has a run-time extent, or is
larger than `LARGEST` stays as well: a mini-batch may have no instance that needs it. Source: loop-invariant code motion
with the mini-batch as the loop; hash-consing (value numbering, Alpern, Wegman & Zadeck 1988) unifies equal computations
of different source positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from acronumba.config import Options
from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import BoolT, FloatT, IntT, TensorT
from acronumba.ir.visit import reads
from acronumba.records import record

LARGEST = 1 << 26  # bytes of a tensor that is computed before it is known whether anything reads it


@record(kw_only=True)
class Computed:
    """A shared tensor that is computed."""

    index: int  # entry of `Program.shared`
    body: tuple[ir.Op, ...]  # in order, the tensor last; operands: each other, shared entries before `index`, `single`
    single: Mapping[ir.Var, ir.Instr]  # instructions of the numbers among the operands: `Const` or `Shared`
    loc: Loc


@record(eq=False)
class _Value:
    """The result of an operation on shared tensors and constants alone; equal ones are one object."""

    op: ir.Op
    args: tuple[_Value | ir.SharedArg | ir.Var, ...]
    single: Mapping[ir.Var, ir.Instr]
    used: bool  # whether it depends on a shared value, or counts (`iota`), rather than on constants alone
    text: str  # as the user would write it

    @property
    def views(self) -> bool:
        looked_up = self.op.op == "take" and isinstance(self.args[1], _Value)  # at many places
        return TENSORS[self.op.op].kind == "view" and not looked_up


@record()
class _Given:
    """An operand that is the same for all instances."""

    key: object  # equal for equal values
    text: str  # as the user would write it
    arg: _Value | ir.SharedArg | ir.Var
    used: bool  # as `_Value.used`


class _Finder:
    def __init__(self, program: ir.Program, options: Options) -> None:
        self.program, self.options = program, options
        self.values: dict[object, _Value] = {}
        self.of: dict[int, dict[ir.Var, _Value]] = {}  # by function
        self.cut: dict[_Value, None] = {}

    def run(self) -> None:
        for number, function in enumerate(self.program.functions):
            self.of[number] = self.values_of(function)
        for number, function in enumerate(self.program.functions):
            self._mark(function, self.of[number])
        for value in list(self.cut):
            self._inner(value)

    def values_of(self, function: ir.Function) -> dict[ir.Var, _Value]:
        """Return the results that are the same for all instances."""
        single = definitions(function)
        out: dict[ir.Var, _Value] = {}
        for block in function.blocks:
            for op in block.instrs:
                if isinstance(op, ir.Op) and (value := self._value_of(op, single, out)) is not None:
                    out[op.out] = value
        return out

    def _value_of(self, op: ir.Op, single: Mapping[ir.Var, ir.Instr], known: Mapping[ir.Var, _Value]) -> _Value | None:
        """Return the result of an operation if it is the same for all instances, else None."""
        if op.site >= 0 or (op.loc, op.out.name) in self.program.kept:
            return None
        shape, attrs = _literal(op.shape, single), _literal(op.attrs, single)
        assert isinstance(shape, tuple) and isinstance(attrs, tuple)
        if any(isinstance(x, ir.Var) for x in (*shape, *_flat(attrs))):
            return None
        if op.op == "take" and not _constant_index(op, single) and not self._fits(op, single):
            return None  # the check of the index would not run before it
        given: list[_Given] = []
        for a in op.args:
            if (one := self._given(a, single, known)) is None:
                return None
            given.append(one)
        assert isinstance(op.out.type, TensorT)
        key = (op.op, tuple(g.key for g in given), repr(attrs), shape, op.out.type.dtype)
        if key not in self.values:
            self.values[key] = _Value(
                replace(op, attrs=attrs, shape=shape),
                tuple(g.arg for g in given),
                single,
                op.op == "iota" or any(g.used for g in given),
                _expression(op, attrs, [g.text for g in given]),
            )
        return self.values[key]

    def _fits(self, op: ir.Op, single: Mapping[ir.Var, ir.Instr]) -> bool:
        """Whether an index is a cast of shared bytes, which need no check: indices beyond the end read the last row."""
        array, index = op.args
        made = single.get(index) if isinstance(index, ir.Var) else None
        if not isinstance(array, ir.SharedArg) or not isinstance(made, ir.Op) or made.op != "cast":
            return False
        (of,), t = made.args, self.program.shared[array.index].type
        byte = self.program.shared[of.index].type if isinstance(of, ir.SharedArg) else of.type
        if not isinstance(byte, TensorT) or byte.dtype != "uint8" or not isinstance(t, TensorT):
            return False
        return op.attrs[0] == 0 and isinstance(rows := t.shape[0], int) and rows > 0

    def _given(
        self, a: ir.Var | ir.SharedArg, single: Mapping[ir.Var, ir.Instr], known: Mapping[ir.Var, _Value]
    ) -> _Given | None:
        """Return an operand that is the same for all instances."""
        if isinstance(a, ir.SharedArg):
            return _Given(("shared", a.index), self.program.shared[a.index].path, a, True)
        if a in known:
            return _Given(id(known[a]), known[a].text, known[a], known[a].used)
        if isinstance(a.type, IntT | FloatT | BoolT):
            match single.get(a):
                case ir.Const(value=value):
                    return _Given(("const", a.type, repr(value)), repr(value), a, False)
                case ir.Shared(index=index):
                    return _Given(("shared", index), self.program.shared[index].path, a, True)
        return None

    def _mark(self, function: ir.Function, free: Mapping[ir.Var, _Value]) -> None:
        for block in function.blocks:
            for instr in block.instrs:
                if isinstance(instr, ir.Op):
                    product = instr.op == "matmul"
                    if product or (self.options.hoist and instr.out not in free):
                        for a in instr.args:
                            if isinstance(a, ir.Var) and a in free:
                                value = _root(free[a])
                                if instr.op != "take" or not _by_element(value):
                                    self._want(value)
                else:
                    self._escape(reads(instr), free)
            self._escape(reads(block.end), free)

    def _escape(self, vs: tuple[ir.Var, ...], free: Mapping[ir.Var, _Value]) -> None:
        for v in vs:
            if v in free:
                self._want(free[v], copied=True)

    def _inner(self, value: _Value) -> None:
        """Cut the operands of products inside of a value."""
        for a in value.args:
            if isinstance(a, _Value):
                if value.op.op == "matmul":
                    self._want(_root(a))
                self._inner(a)

    def _want(self, value: _Value, copied: bool = False) -> None:
        t = value.op.out.type
        assert isinstance(t, TensorT)
        size = math.prod(n for n in value.op.shape if isinstance(n, int)) * np.dtype(t.dtype).itemsize
        costs = copied or (not value.views and TENSORS[value.op.op].kind != "create")
        if (value.used or copied) and costs and size <= LARGEST:
            self.cut.setdefault(value)


def same_for_all(program: ir.Program, options: Options) -> tuple[frozenset[ir.Var], ...]:
    """Return for each function the results that are the same for all instances."""
    finder = _Finder(program, options)
    return tuple(frozenset(finder.values_of(f)) for f in program.functions)


def find_per_batch(program: ir.Program, options: Options) -> tuple[ir.Program, tuple[Computed, ...], tuple[Note, ...]]:
    """Return the program that reads per-batch constants, their computations in order, and notes.

    Parameters
    ----------
    program
        Before grouping, with its shared operands known. Functions are rewritten; `shared` gets an entry for each
        computed tensor.
    options
        `reuse`: if off, nothing is the same for all instances. `hoist`: see the module's text.
    """
    if not options.reuse:
        return program, (), ()
    finder = _Finder(program, options)
    finder.run()
    order = list(_ordered(finder.cut))
    index = {value: len(program.shared) + k for k, value in enumerate(order)}
    shared = list(program.shared)
    computed, notes = [], []
    for value in order:
        t = value.op.out.type
        assert isinstance(t, TensorT)
        shape = tuple(n for n in value.op.shape if isinstance(n, int))
        pool = _pool(value, program)
        shared.append(ir.SharedParam(path=value.text, type=TensorT(t.dtype, shape), pool=pool))
        body, single = _body(value, index)
        loc = value.op.loc
        computed.append(Computed(index=index[value], body=body, single=single, loc=loc))
        name = f"`{value.text}`" if value.used or not shape else f"an array of `{value.text}`"
        told = f"{name} is the same for all instances: it is computed once per mini-batch"
        told += ", unless all its readers look up sums" if pool else ""
        if value.used or shape:  # a number of the source needs no remark
            notes.append(Note(loc=loc, kind="once", text=told, option="hoist"))
    functions = tuple(_rewritten(f, finder.of[k], index) for k, f in enumerate(program.functions))
    return replace(program, functions=functions, shared=tuple(shared)), tuple(computed), tuple(notes)


def _constant_index(op: ir.Op, single: Mapping[ir.Var, ir.Instr]) -> bool:
    index = op.args[1]
    return isinstance(index, ir.Var) and isinstance(single.get(index), ir.Const)


def _literal(x: object, single: Mapping[ir.Var, ir.Instr]) -> object:
    """Return static arguments with constants in place of variables that hold them."""
    if isinstance(x, tuple):
        return tuple(_literal(y, single) for y in x)
    if isinstance(x, ir.Var):
        by = single.get(x)
        return by.value if isinstance(by, ir.Const) else x
    return x


def _flat(x: object) -> Iterator[object]:
    if isinstance(x, tuple):
        for y in x:
            yield from _flat(y)
    else:
        yield x


def _root(value: _Value) -> _Value:
    """Return the value below views: one that is no view, or a view of a shared tensor."""
    while value.views and isinstance(inner := value.args[0], _Value):
        value = inner
    return value


def _pool(value: _Value, program: ir.Program) -> int:
    """Return `SharedParam.pool` of a value that is computed."""
    if value.op.op != "take" or value.op.attrs != (0,):
        return 0
    array, index = value.args
    if not isinstance(array, ir.SharedArg) or not isinstance(index, _Value) or index.op.op != "cast":
        return 0
    (of,), t = index.args, program.shared[array.index].type
    given = program.shared[of.index].type if isinstance(of, ir.SharedArg) else None
    if not isinstance(given, TensorT) or given.dtype != "uint8" or not isinstance(t, TensorT):
        return 0
    return t.shape[0] or 0


def _by_element(value: _Value) -> bool:
    """Whether an element of the value takes no more than some elements of shared tensors."""
    alone = value.views or TENSORS[value.op.op].kind in ("element", "create")
    return alone and all(_by_element(a) for a in value.args if isinstance(a, _Value))


def _ordered(cut: Mapping[_Value, None]) -> Iterator[_Value]:
    """Yield the values in topological order: operands first."""
    done: set[_Value] = set()

    def visit(value: _Value) -> Iterator[_Value]:
        if value in done:
            return
        done.add(value)
        for a in value.args:
            if isinstance(a, _Value):
                yield from visit(a)
        if value in cut:
            yield value

    for value in cut:
        yield from visit(value)


def _body(value: _Value, index: Mapping[_Value, int]) -> tuple[tuple[ir.Op, ...], dict[ir.Var, ir.Instr]]:
    """Return the operations that compute a value from shared tensors, and a map from their numbers to instructions."""
    body: list[ir.Op] = []
    single: dict[ir.Var, ir.Instr] = {}
    made: dict[_Value, ir.Var] = {}

    def operand(a: _Value | ir.SharedArg | ir.Var) -> ir.Var | ir.SharedArg:
        if isinstance(a, _Value):
            return ir.SharedArg(index[a]) if a in index else build(a)
        return a

    def build(v: _Value) -> ir.Var:
        if v not in made:
            args = tuple(map(operand, v.args))
            single.update({a: v.single[a] for a in v.args if isinstance(a, ir.Var)})
            made[v] = v.op.out
            body.append(replace(v.op, args=args))
        return made[v]

    build(value)
    return tuple(body), single


def _rewritten(function: ir.Function, free: Mapping[ir.Var, _Value], index: Mapping[_Value, int]) -> ir.Function:
    """Return the function with the computed tensors in place of their operations."""
    if not any(value in index for value in free.values()):
        return function
    blocks = []
    for block in function.blocks:
        out: list[ir.Instr] = []
        for instr in block.instrs:
            if isinstance(instr, ir.Op):
                if (value := free.get(instr.out)) is not None and value in index:
                    out.append(ir.Shared(out=instr.out, index=index[value], loc=instr.loc))
                    continue
                args = tuple(
                    ir.SharedArg(index[free[a]]) if isinstance(a, ir.Var) and a in free and free[a] in index else a
                    for a in instr.args
                )
                instr = replace(instr, args=args)
            out.append(instr)
        blocks.append(ir.Block(instrs=tuple(out), end=block.end))
    return replace(function, blocks=tuple(blocks))


def _expression(op: ir.Op, attrs: tuple[Any, ...], args: list[str]) -> str:
    """Return the operation as the user would write it, shortened."""
    inner = [a if len(a) <= 30 else "..." for a in args]
    if TENSORS[op.op].arithmetic:
        sides = [f"({a})" if " " in a and not a.endswith(")") else a for a in inner]
        return f" {TENSORS[op.op].sign} ".join(sides)
    match op.op:
        case "transpose" if attrs == ((1, 0),):
            return f"{inner[0]}.T"
        case "cast" | "broadcast" | "reshape":
            return inner[0]
        case "neg":
            return f"-{inner[0]}"
        case "iota":
            return f"arange({op.shape[0]})"
        case "const":
            return repr(attrs[0])
    return f"{op.op}({', '.join(inner)})"
