"""Generic access to instructions of any kind: the variables that they read and assign, and renaming of these.

In: an instruction, the end of a block, or a `Function`. Out: its variables, or the node with other variables.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from acronumba.ir import nodes as ir
from acronumba.ir.types import Word


def _read_by_op(i: ir.Op) -> tuple[ir.Var, ...]:
    inner = (x for a in i.attrs for x in (a if isinstance(a, tuple) else (a,)))
    return tuple(x for x in (*i.args, *inner, *i.shape) if isinstance(x, ir.Var))


def _read_by_emit(i: ir.Emit) -> tuple[ir.Var, ...]:
    return (*i.args, *i.dims, *(x for s in i.shapes for x in s if isinstance(x, ir.Var)))


# By class: passes ask very often which variables an instruction reads and assigns.
_READS: dict[type, Callable[[Any], tuple[ir.Var, ...]]] = {
    **dict.fromkeys((ir.Const, ir.Shared, ir.Jump, ir.Join), lambda i: ()),
    ir.Copy: lambda i: (i.src,),
    **dict.fromkeys(
        (ir.Scalar, ir.ListOp, ir.ListNew, ir.New, ir.Call, ir.Return, ir.Fail), operator.attrgetter("args")
    ),
    **dict.fromkeys((ir.IsNull, ir.ClassTag, ir.IsMade, ir.Load), lambda i: (i.ref,)),
    ir.Store: lambda i: (i.ref, *i.args),
    ir.Check: lambda i: (i.cond, *i.args),
    **dict.fromkeys((ir.ExtentOf, ir.Read), lambda i: (i.tensor,)),
    ir.Spawn: lambda i: (*(i.into or ()), *i.args),
    ir.Branch: lambda i: (i.cond,),
    ir.Op: _read_by_op,
    ir.Emit: _read_by_emit,
}
_WRITES: dict[type, Callable[[Any], tuple[ir.Var, ...]]] = {
    **dict.fromkeys((ir.Load, ir.ListOp, ir.Emit, ir.Call, ir.Join), operator.attrgetter("outs")),
    **dict.fromkeys((ir.Check, ir.Spawn, ir.Store), lambda i: ()),
}


def _write_one(i: Any) -> tuple[ir.Var, ...]:
    return (i.out,)


def reads(instr: ir.Instr | ir.End) -> tuple[ir.Var, ...]:
    """Return the variables that an instruction or block end uses."""
    return _READS[type(instr)](instr)


def writes(instr: ir.Instr) -> tuple[ir.Var, ...]:
    """Return the variables that an instruction assigns."""
    return _WRITES.get(type(instr), _write_one)(instr)


def retarget(end: ir.End, to: Callable[[int], int]) -> ir.End:
    """Return the end of a block with the numbers of its successors replaced."""
    match end:
        case ir.Jump():
            return replace(end, block=to(end.block))
        case ir.Branch():
            yes, no = to(end.yes), to(end.no)
            return ir.Jump(block=yes, loc=end.loc) if yes == no else replace(end, yes=yes, no=no)
        case _:
            return end


def redirect(end: ir.End, old: int, new: int) -> ir.End:
    """Return the end of a block with successor `new` in place of `old`."""
    return retarget(end, lambda k: new if k == old else k)


def rename(node: ir.Instr | ir.End, to: Mapping[ir.Var, ir.Var]) -> ir.Instr | ir.End:
    """Return the node with the variables it reads replaced."""

    def v(x: ir.Var) -> ir.Var:
        return to.get(x, x)

    def vs(xs: tuple[ir.Var, ...]) -> tuple[ir.Var, ...]:
        return tuple(to.get(x, x) for x in xs)

    def any_(x: object) -> object:
        if isinstance(x, tuple):
            return tuple(any_(y) for y in x)
        return to.get(x, x) if isinstance(x, ir.Var) else x

    match node:
        case ir.Const() | ir.Shared() | ir.Jump() | ir.Join():
            return node
        case ir.Copy():
            return replace(node, src=v(node.src))
        case ir.Scalar() | ir.ListOp() | ir.ListNew() | ir.New() | ir.Call() | ir.Return() | ir.Fail():
            return replace(node, args=vs(node.args))
        case ir.IsNull() | ir.ClassTag() | ir.IsMade() | ir.Load():
            return replace(node, ref=v(node.ref))
        case ir.Store():
            return replace(node, ref=v(node.ref), args=vs(node.args))
        case ir.Check():
            return replace(node, cond=v(node.cond), args=vs(node.args))
        case ir.ExtentOf() | ir.Read():
            return replace(node, tensor=v(node.tensor))
        case ir.Spawn():
            into = None if node.into is None else (v(node.into[0]), v(node.into[1]))
            return replace(node, into=into, args=vs(node.args))
        case ir.Branch():
            return replace(node, cond=v(node.cond))
        case ir.Op():
            args, attrs, shape = any_(node.args), any_(node.attrs), any_(node.shape)
            return replace(node, args=args, attrs=attrs, shape=shape)  # type: ignore[arg-type]
        case ir.Emit():
            return replace(
                node,
                args=vs(node.args),
                dims=vs(node.dims),
                shapes=any_(node.shapes),  # type: ignore[arg-type]
            )


def reassigned(instr: ir.Instr, to: Mapping[ir.Var, ir.Var]) -> ir.Instr:
    """Return an instruction with all its variables replaced."""
    made = rename(instr, to)
    assert not isinstance(made, ir.End)
    match made:
        case ir.ListOp() | ir.Load() | ir.Emit() | ir.Call() | ir.Join():
            return replace(made, outs=tuple(to.get(v, v) for v in made.outs))
        case ir.Check() | ir.Spawn() | ir.Store():
            return made
        case _:
            return replace(made, out=to.get(made.out, made.out))


def variables(function: ir.Function) -> list[ir.Var]:
    """Return the variables of all parameters, results and operands in order, with repetitions."""
    made = (v for b in function.blocks for i in b.instrs for v in (*writes(i), *reads(i)))
    return [*function.params, *made]


class Names:
    """Makes variables of new names in a function."""

    def __init__(self, function: ir.Function) -> None:
        self.taken = {v.name for v in variables(function)}

    def var(self, name: str, type: Word) -> ir.Var:
        """Return a variable of this name, with a number if the name is taken."""
        made, n = name, 1
        while made in self.taken:
            n += 1
            made = f"{name}_{n}"
        self.taken.add(made)
        return ir.Var(made, type)

    def temporary(self, type: Word) -> ir.Var:
        """Return a variable without a name in the user's source."""
        number = len(self.taken)
        while (made := f"v_{number}") in self.taken:
            number += 1
        return self.var(made, type)


def numbered(name: str, taken: set[str]) -> str:
    """Return `name_2`, or the next number if it is in `taken`, and add the name to `taken`."""
    n = 2
    while (made := f"{name}_{n}") in taken:
        n += 1
    taken.add(made)
    return made


def copied(function: ir.Function, name: str) -> ir.Function:
    """Return a copy of the function under another name, with new variables."""
    to: dict[ir.Var, ir.Var] = {}

    def copy(x: Any) -> Any:
        match x:
            case ir.Var():
                return to.setdefault(x, ir.Var(x.name, x.type))
            case tuple():
                return tuple(map(copy, x))
        return x

    def instruction(i: Any) -> Any:
        return replace(i, **{f.name: copy(getattr(i, f.name)) for f in fields(i)})

    blocks = tuple(ir.Block(instrs=tuple(map(instruction, b.instrs)), end=instruction(b.end)) for b in function.blocks)
    return replace(function, name=name, params=copy(function.params), blocks=blocks)
